//! On which machines the pods of one that goes could run.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::assess::Assessment;
use crate::checks::gaps::{listed, says_nothing};
use crate::checks::kubernetes::leases::working_nodes;
use crate::checks::kubernetes::scheduling::is_to_pass;
use crate::model::{Outcome, Problem, Reason};
use crate::snapshot::{BoundPod, NodeRoom, OWN_TAINTS, Placement, Taint, Term};

/// Pairs of a placement and a node that are compared: real clusters have some dozens of the former.
const COMPARED: usize = 20_000_000;

/// What the scheduler has to know of a pod to choose nodes for it; it is the same of all pods of a workload.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Wants<'a> {
    placement: &'a Placement,
    /// Where its volumes are, of those that are not everywhere.
    volumes: Vec<&'a [Term]>,
    /// Devices and the like, which a node has or not.
    extended: Vec<&'a str>,
}

/// The nodes that take pods of each kind.
pub(super) struct Places<'a> {
    pub(super) nodes: &'a [NodeRoom],
    /// Index in `nodes`, by node name.
    pub(super) at: HashMap<&'a str, usize>,
    /// Terms of the volumes behind claims, by namespace and name. Of two that claim to be bound to one, nobody knows which is.
    volumes: HashMap<(&'a str, &'a str), Vec<&'a [Term]>>,
    kinds: BTreeMap<Wants<'a>, usize>,
    /// Candidate nodes of each kind.
    takers: Vec<CandidateNodes<'a>>,
}

#[derive(Default)]
struct CandidateNodes<'a> {
    /// Nodes that take the pod now, if they have room.
    open: Vec<usize>,
    /// Nodes that are closed only for now, for example by a cordon or a temporary taint, and what closes each.
    shut: Vec<(usize, &'a str)>,
    /// Nodes that reach the pod's volumes, even if something else keeps the pod away. Empty for a pod without volumes.
    reach: Vec<usize>,
}

pub(super) fn unreadable(what: &str) -> Outcome {
    Outcome::problem(Problem::error(
        Reason::UnreadableAnswer,
        "a valid Kubernetes quantity or selector",
        what.to_owned(),
    ))
}

impl<'a> Places<'a> {
    /// Candidate nodes for these pods, by kind.
    pub(super) fn of(cluster: &'a Assessment<'_>, pods: impl Iterator<Item = &'a BoundPod>) -> Result<Self, Outcome> {
        let expected = "the nodes' allocatable resources";
        let nodes = listed(cluster, |kubernetes| &kubernetes.node_room, expected)?;
        if nodes.is_empty() {
            return Err(says_nothing(expected, "an empty list"));
        }
        let working = working_nodes(cluster)?;
        let volumes = listed(cluster, |kubernetes| &kubernetes.persistent_volumes, "the PersistentVolumes")?;
        let bound = volumes.iter().filter_map(|volume| {
            let (namespace, name) = volume.claim.as_ref()?;
            Some(((namespace.as_str(), name.as_str()), volume.terms.as_deref()?))
        });
        let mut terms: HashMap<_, Vec<_>> = HashMap::new();
        for (claim, its) in bound {
            terms.entry(claim).or_default().push(its);
        }
        let mut places = Self {
            nodes,
            at: nodes.iter().zip(0..).map(|(node, at)| (node.name.as_str(), at)).collect(),
            volumes: terms,
            kinds: BTreeMap::new(),
            takers: Vec::new(),
        };
        for pod in pods {
            let (wants, next) = (places.wants(pod), places.kinds.len());
            places.kinds.entry(wants).or_insert(next);
        }
        if places.kinds.len() * nodes.len() > COMPARED {
            let observed = format!("{} different placements", places.kinds.len());
            return Err(Outcome::problem(Problem::error(Reason::AnswerTooLarge, "pods of some workloads", observed)));
        }
        let mut takers: Vec<(usize, CandidateNodes<'_>)> = Vec::new();
        for (wants, kind) in &places.kinds {
            takers.push((*kind, wants.takers(nodes, &working).ok_or_else(|| unreadable("where a pod may run"))?));
        }
        takers.sort_by_key(|(kind, _)| *kind);
        places.takers = takers.into_iter().map(|(_, takers)| takers).collect();
        Ok(places)
    }

    fn wants(&self, pod: &'a BoundPod) -> Wants<'a> {
        let of_claims =
            pod.claims.iter().filter_map(|claim| self.volumes.get(&(pod.namespace.as_str(), claim.as_str())));
        let requests = pod.needs.requests.iter().flatten().filter(|(_, amount)| **amount > 0);
        Wants {
            placement: &pod.needs.placement,
            volumes: of_claims.flatten().copied().collect(),
            extended: requests.map(|(resource, _)| resource.as_str()).filter(|it| is_extended(it)).collect(),
        }
    }

    /// The kind of one of the pods that were named.
    pub(super) fn kind(&self, pod: &'a BoundPod) -> usize {
        self.kinds.get(&self.wants(pod)).copied().unwrap_or_default()
    }

    pub(super) fn kinds(&self) -> usize {
        self.takers.len()
    }

    /// Nodes that take pods of this kind.
    pub(super) fn takers(&self, kind: usize) -> &[usize] {
        self.takers.get(kind).map_or(&[], |takers| &takers.open)
    }

    /// The least by this key first.
    pub(super) fn sort_takers<K: Ord>(&mut self, key: impl Fn(usize) -> K) {
        self.takers.iter_mut().for_each(|takers| takers.open.sort_by_key(|&at| key(at)));
    }

    /// Whether another node takes the pod, if it has room.
    pub(super) fn runs_elsewhere(&self, pod: &'a BoundPod, node: &str) -> bool {
        let here = self.at.get(node);
        self.takers(self.kind(pod)).iter().any(|at| Some(at) != here)
    }

    /// Nodes other than this one that would take the pod if they were not closed for now, and what closes each.
    pub(super) fn shut_elsewhere(&self, pod: &'a BoundPod, node: &str) -> Vec<(&'a str, &'a str)> {
        let here = self.at.get(node);
        let shut = self.takers.get(self.kind(pod)).into_iter().flat_map(|takers| &takers.shut);
        let elsewhere = shut.filter(|(at, _)| Some(at) != here);
        elsewhere.map(|(at, by)| (self.nodes[*at].name.as_str(), *by)).collect()
    }

    /// No other node reaches its volumes.
    pub(super) fn is_held_by_volumes(&self, pod: &'a BoundPod, node: &str) -> bool {
        let here = self.at.get(node);
        let Some(takers) = self.takers.get(self.kind(pod)) else { return false };
        !self.wants(pod).volumes.is_empty() && !takers.reach.iter().any(|at| Some(at) != here)
    }
}

/// Every node has the others, more or less.
fn is_extended(resource: &str) -> bool {
    !matches!(resource, "cpu" | "memory" | "pods" | "ephemeral-storage")
}

impl Wants<'_> {
    /// `None`: an operator of no known meaning.
    fn takers<'a>(&self, nodes: &'a [NodeRoom], working: &HashSet<&str>) -> Option<CandidateNodes<'a>> {
        let mut takers = CandidateNodes::default();
        for (node, at) in nodes.iter().zip(0..) {
            let mut reaches = true;
            for terms in &self.volumes {
                reaches &= Term::any_is_met_by(terms, &node.name, &node.labels)?;
            }
            if reaches && !self.volumes.is_empty() {
                takers.reach.push(at);
            }
            let has = |resource: &&str| {
                let allocatable = node.allocatable.as_ref();
                allocatable.is_none_or(|all| all.get(*resource).is_some_and(|amount| *amount > 0))
            };
            if reaches && self.extended.iter().all(has) {
                match access(node, self.placement)? {
                    // Nobody has noticed yet.
                    Access::Open if !working.contains(node.name.as_str()) => takers.shut.push((at, SILENCE)),
                    Access::Open => takers.open.push(at),
                    Access::Shut(by) => takers.shut.push((at, by)),
                    Access::Closed => {}
                }
            }
        }
        Some(takers)
    }
}

/// Whether a node takes pods that are placed so, were there room.
enum Access<'a> {
    Open,
    /// Not for now: it is cordoned, or has a taint that Kubernetes, the network plugin or the autoscaler sets and removes.
    Shut(&'a str),
    /// Not by design.
    Closed,
}

/// What shuts a node that is cordoned.
pub(super) const CORDON: &str = "cordoned";
/// What shuts one that works no more.
pub(super) const SILENCE: &str = "no longer reporting";
/// What shuts one that is to go.
pub(super) const DELETION: &str = "being deleted";

/// `None`: an operator of no known meaning.
fn access<'a>(node: &'a NodeRoom, placement: &Placement) -> Option<Access<'a>> {
    if !placement.selects(&node.name, &node.labels)? {
        return Some(Access::Closed);
    }
    let repels = |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    let is_cordon = |taint: &&Taint| node.unschedulable && taint.key == "node.kubernetes.io/unschedulable";
    // Whoever tolerates those of Kubernetes finds no working machine there either.
    let keeps_away = |taint: &&Taint| taint.key.starts_with(OWN_TAINTS) || !placement.tolerates(taint);
    let mut taints = node.taints.iter().filter(repels).filter(|it| !is_cordon(it)).filter(keeps_away).peekable();
    Some(match taints.peek() {
        None if node.unschedulable => Access::Shut(CORDON),
        None if node.deleting => Access::Shut(DELETION),
        None => Access::Open,
        Some(first) => {
            let by = first.key.as_str();
            if taints.all(|taint| passes(&taint.key)) { Access::Shut(by) } else { Access::Closed }
        }
    })
}

/// A taint that is not there to stay.
fn passes(key: &str) -> bool {
    key.starts_with(OWN_TAINTS) || is_to_pass(key)
}
