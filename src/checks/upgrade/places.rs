//! Determines on which other machines the pods of a machine could run.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::assess::Assessment;
use crate::checks::gaps::{listed, says_nothing};
use crate::checks::kubernetes::leases::{SILENCE, closed_to_new_pods};
use crate::checks::kubernetes::scheduling::is_to_pass;
use crate::model::{Outcome, Problem, Reason};
use crate::snapshot::{BoundPod, NodeRoom, OWN_TAINTS, Placement, Taint, Term};

/// Maximum number of placement and node pairs that are compared. Real clusters have a few dozen placements.
const COMPARED: usize = 20_000_000;

/// The requirements by which the scheduler chooses nodes for a pod. They are the same for all pods of a workload.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Wants<'a> {
    placement: &'a Placement,
    /// Node terms of the pod's volumes, except those that are available everywhere.
    volumes: Vec<&'a [Term]>,
    /// Extended resources such as devices, which a node either has or lacks.
    extended: Vec<&'a str>,
}

/// The nodes that accept pods of each kind.
pub(super) struct Places<'a> {
    pub(super) nodes: &'a [NodeRoom],
    /// Index in `nodes`, by node name.
    pub(super) at: HashMap<&'a str, usize>,
    /// Terms of the volumes behind claims, by namespace and name. If two volumes refer to one claim, it is unknown which is bound.
    volumes: HashMap<(&'a str, &'a str), Vec<&'a [Term]>>,
    kinds: BTreeMap<Wants<'a>, usize>,
    /// Candidate nodes of each kind.
    takers: Vec<CandidateNodes<'a>>,
}

#[derive(Default)]
struct CandidateNodes<'a> {
    /// Nodes that accept the pod now, if they have room.
    open: Vec<usize>,
    /// Nodes that are closed only for now, for example by a cordon or a temporary taint, and what closes each.
    shut: Vec<(usize, Bar<'a>)>,
    /// Nodes that reach the pod's volumes, even if there is another obstacle. Empty for a pod without volumes.
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
        let closed = closed_to_new_pods(cluster)?;
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
            takers.push((*kind, wants.takers(nodes, &closed).ok_or_else(|| unreadable("where a pod may run"))?));
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

    /// Returns the kind of one of the pods passed to [`Self::of`].
    pub(super) fn kind(&self, pod: &'a BoundPod) -> usize {
        self.kinds.get(&self.wants(pod)).copied().unwrap_or_default()
    }

    pub(super) fn kinds(&self) -> usize {
        self.takers.len()
    }

    /// Returns the nodes that accept pods of this kind.
    pub(super) fn takers(&self, kind: usize) -> &[usize] {
        self.takers.get(kind).map_or(&[], |takers| &takers.open)
    }

    /// Sorts candidate nodes by this key, lowest first.
    pub(super) fn sort_takers<K: Ord>(&mut self, key: impl Fn(usize) -> K) {
        self.takers.iter_mut().for_each(|takers| takers.open.sort_by_key(|&at| key(at)));
    }

    /// Returns true if another node accepts the pod, if it has room.
    pub(super) fn runs_elsewhere(&self, pod: &'a BoundPod, node: &str) -> bool {
        let here = self.at.get(node);
        self.takers(self.kind(pod)).iter().any(|at| Some(at) != here)
    }

    /// Returns other nodes that would accept the pod if they were not closed for now, and what closes each.
    pub(super) fn shut_elsewhere(&self, pod: &'a BoundPod, node: &str) -> Vec<(&'a str, Bar<'a>)> {
        let here = self.at.get(node);
        let shut = self.takers.get(self.kind(pod)).into_iter().flat_map(|takers| &takers.shut);
        let elsewhere = shut.filter(|(at, _)| Some(at) != here);
        elsewhere.map(|(at, by)| (self.nodes[*at].name.as_str(), *by)).collect()
    }

    /// Returns true if no other node reaches the pod's volumes.
    pub(super) fn is_held_by_volumes(&self, pod: &'a BoundPod, node: &str) -> bool {
        let here = self.at.get(node);
        let Some(takers) = self.takers.get(self.kind(pod)) else { return false };
        !self.wants(pod).volumes.is_empty() && !takers.reach.iter().any(|at| Some(at) != here)
    }
}

/// Returns true for resources that not every node has.
fn is_extended(resource: &str) -> bool {
    !matches!(resource, "cpu" | "memory" | "pods" | "ephemeral-storage")
}

impl Wants<'_> {
    /// Returns the candidate nodes; `None` if a selector operator is unknown.
    fn takers<'a>(
        &self,
        nodes: &'a [NodeRoom],
        closed: &HashMap<&str, Option<&'static str>>,
    ) -> Option<CandidateNodes<'a>> {
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
                // A Node that is in only one of the two lists has just been created or deleted.
                let closed_by = closed.get(node.name.as_str()).copied().unwrap_or(Some(SILENCE));
                match (access(node, self.placement)?, closed_by) {
                    // The control plane has not noticed yet that the node starts no pods, or does not notice at all.
                    (Access::Open, Some(by)) => takers.shut.push((at, Bar::Fault(by))),
                    (Access::Open, None) => takers.open.push(at),
                    (Access::Shut(by), _) => takers.shut.push((at, by)),
                    (Access::Closed, _) => {}
                }
            }
        }
        Some(takers)
    }
}

/// Whether a node accepts pods with a placement, ignoring the available room.
enum Access<'a> {
    Open,
    /// Not for now: the node is cordoned, or has a taint that Kubernetes, the network plugin or the autoscaler sets and removes.
    Shut(Bar<'a>),
    /// Not by design.
    Closed,
}

/// The obstacle on a node that is closed only for now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Bar<'a> {
    Cordon,
    Deletion,
    /// The key of a taint.
    Taint(&'a str),
    /// The node starts no pods, whatever its taints are.
    Fault(&'static str),
}

impl fmt::Display for Bar<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cordon => f.write_str("cordoned"),
            Self::Deletion => f.write_str("being deleted"),
            Self::Taint(key) => write!(f, "taint {key}"),
            Self::Fault(why) => f.write_str(why),
        }
    }
}

/// Returns the access to a node; `None` if a selector operator is unknown.
fn access<'a>(node: &'a NodeRoom, placement: &Placement) -> Option<Access<'a>> {
    if !placement.selects(&node.name, &node.labels)? {
        return Some(Access::Closed);
    }
    let repels = |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    let is_cordon = |taint: &&Taint| node.unschedulable && taint.key == "node.kubernetes.io/unschedulable";
    // Tolerating Kubernetes' own taints does not help, because the machine behind them does not work.
    let keeps_away = |taint: &&Taint| taint.key.starts_with(OWN_TAINTS) || !placement.tolerates(taint);
    let mut taints = node.taints.iter().filter(repels).filter(|it| !is_cordon(it)).filter(keeps_away).peekable();
    Some(match taints.peek() {
        None if node.unschedulable => Access::Shut(Bar::Cordon),
        None if node.deleting => Access::Shut(Bar::Deletion),
        None => Access::Open,
        Some(first) => {
            let by = Bar::Taint(&first.key);
            if taints.all(|taint| passes(&taint.key)) { Access::Shut(by) } else { Access::Closed }
        }
    })
}

/// Returns true for a temporary taint.
fn passes(key: &str) -> bool {
    key.starts_with(OWN_TAINTS) || is_to_pass(key)
}
