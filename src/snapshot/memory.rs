//! What a run remembers from round to round.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::snapshot::{EtcdMember, GapKind, Kubernetes, Leases, Node, Observed, Readiness, Service, Snapshot};

/// What earlier rounds of the same run left behind. The engine keeps it; judges only read it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Memory {
    /// Complete rounds before this one.
    pub(crate) rounds: u32,
    /// Since the start of the run.
    pub(crate) elapsed: Duration,
    /// The last member list that any member gave.
    pub(crate) etcd_members: Option<Vec<EtcdMember>>,
    /// Highest raft term seen.
    pub(crate) raft_term: Option<u64>,
    /// When it grew last, since the start of the run.
    pub(crate) elected: Option<Duration>,
    /// Names of the nodes that have answered the Talos API.
    pub(crate) answered: BTreeSet<String>,
    /// Names of the nodes that somebody was removing.
    pub(crate) leaving: BTreeSet<String>,
    /// The last boot of each machine that has told of one.
    pub(crate) boots: BTreeMap<String, Boot>,
    /// The last failure of each service, by the names of its node and its own; `None`: it has not failed.
    pub(crate) failures: BTreeMap<(String, String), Option<Timestamp>>,
    /// How often each container of a pod has been restarted, by the names of both.
    pub(crate) restarts: BTreeMap<(String, String), u32>,
    /// The nodes that were Ready in the previous round, since when, and the ID of their boot.
    pub(crate) ready: BTreeMap<String, (Option<Timestamp>, String)>,
    /// The newest list of node leases and that of system leases, each with the start of the round, by the runner's clock, that was
    /// the first to show it like this.
    pub(crate) node_leases: Option<(Leases, Timestamp)>,
    pub(crate) system_leases: Option<(Leases, Timestamp)>,
    /// Rounds in a row in which every endpoint showed an unknown CA.
    pub(crate) unknown_ca_rounds: u32,
    /// Rounds in a row with 401 at the Kubernetes endpoint.
    pub(crate) unauthenticated_rounds: u32,
    /// Since when, without a break, Kubernetes has refused each of these questions (403): [`Kubernetes::refusals`].
    ///
    /// [`Kubernetes::refusals`]: crate::snapshot::Kubernetes::refusals
    pub(crate) forbidden_since: BTreeMap<String, Duration>,
}

/// A boot of a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Boot {
    /// By its own clock.
    pub(crate) at: Timestamp,
    /// How often the machine was booted anew since it was first seen.
    pub(crate) times: u32,
    /// The last round that was told of it.
    round: u32,
}

impl Memory {
    /// What is remembered after a round that ended `elapsed` into the run.
    pub(crate) fn after(&self, snapshot: &Snapshot, elapsed: Duration) -> Self {
        let mut memory = Self { rounds: self.rounds + 1, elapsed, ..self.clone() };
        let nodes = || snapshot.nodes.iter().map(|node| &node.talos);
        let external = || snapshot.external_etcd.iter().flatten();
        let members = nodes().map(|node| &node.etcd_members).chain(external().map(|endpoint| &endpoint.members));
        if let Some(members) = members.flatten().find(|members| !members.is_empty()) {
            memory.etcd_members = Some(members.clone());
        }
        let statuses = nodes().map(|node| &node.etcd_status).chain(external().map(|endpoint| &endpoint.status));
        memory.raft_term = statuses.flatten().map(|status| status.raft_term).chain(self.raft_term).max();
        if self.raft_term.is_some() && memory.raft_term > self.raft_term {
            memory.elected = Some(elapsed);
        }
        memory
            .answered
            .extend(snapshot.nodes.iter().filter(|node| node.talos.contact.is_ok()).map(|node| node.name.clone()));
        memory.leaving.extend(snapshot.nodes.iter().filter(|node| node.leaving).map(|node| node.name.clone()));
        for node in &snapshot.nodes {
            if let Some(boot) = self.boot(node) {
                memory.boots.insert(node.name.clone(), boot);
            }
            let services = node.talos.services.iter().flatten();
            memory.failures.extend(services.map(|it| ((node.name.clone(), it.id.clone()), it.last_failure())));
        }
        memory.restarts.append(&mut restarts(snapshot));
        memory.ready = ready(snapshot);
        if let Some(kubernetes) = &snapshot.kubernetes {
            keep(&mut memory.node_leases, &kubernetes.node_leases, snapshot.taken);
            keep(&mut memory.system_leases, &kubernetes.system_leases, snapshot.taken);
        }
        let unknown_ca = snapshot.talos.as_ref().is_some_and(|talos| {
            !talos.endpoints.is_empty()
                && talos.endpoints.iter().all(|endpoint| is_gap(&endpoint.version, GapKind::UnknownCa))
        });
        memory.unknown_ca_rounds = if unknown_ca { self.unknown_ca_rounds + 1 } else { 0 };
        let status = snapshot
            .kubernetes
            .as_ref()
            .and_then(|kubernetes| kubernetes.endpoint.as_ref().ok())
            .map(|readyz| readyz.status);
        memory.unauthenticated_rounds = if status == Some(401) { self.unauthenticated_rounds + 1 } else { 0 };
        let refused = snapshot.kubernetes.iter().flat_map(|kubernetes| kubernetes.refusals().into_keys());
        memory.forbidden_since = refused
            .map(|question| {
                let since = self.forbidden_since.get(&question).copied().unwrap_or(elapsed);
                (question, since)
            })
            .collect();
        memory
    }
}

impl Memory {
    /// Pods with containers that were restarted since the last round that saw them: how often since, and in total. A new pod of
    /// the same name starts at zero.
    pub(crate) fn restarted(&self, snapshot: &Snapshot) -> BTreeMap<String, (u32, u32)> {
        let mut pods = BTreeMap::new();
        for (container, total) in restarts(snapshot) {
            let since = self.restarts.get(&container).map_or(0, |known| total.saturating_sub(*known));
            if since > 0 {
                let pod: &mut (u32, u32) = pods.entry(container.0).or_default();
                *pod = (pod.0.saturating_add(since), pod.1.saturating_add(total));
            }
        }
        pods
    }

    /// Each of these questions, and there is one, has been refused for so long.
    pub(crate) fn refused_for(&self, so_long: Duration, questions: impl IntoIterator<Item = String>) -> bool {
        let lasts = |since: &Duration| self.elapsed.saturating_sub(*since) >= so_long;
        let mut questions = questions.into_iter().peekable();
        questions.peek().is_some() && questions.all(|it| self.forbidden_since.get(&it).is_some_and(lasts))
    }

    /// The last boot of the machine; `None` if it has not told. machined begins with the machine.
    pub(crate) fn boot(&self, node: &Node) -> Option<Boot> {
        let services = node.talos.services.as_ref().ok()?;
        let at = services.iter().find(|service| service.id == "machined")?.running_since?;
        let round = self.rounds + 1;
        Some(match self.boots.get(&node.name) {
            // Its clock may have been wrong at either time.
            Some(known) if known.at != at => Boot { at, times: known.times + 1, round },
            Some(known) => Boot { round, ..*known },
            None => Boot { at, times: 0, round },
        })
    }

    /// It has failed since the last round that was told of it.
    pub(crate) fn has_failed(&self, node: &Node, service: &Service) -> bool {
        let known = self.failures.get(&(node.name.clone(), service.id.clone()));
        known.is_some_and(|known| service.last_failure() > *known)
    }

    /// This boot, if the previous round was told of another.
    pub(crate) fn rebooted(&self, node: &Node) -> Option<Boot> {
        let known = self.boots.get(&node.name).filter(|known| known.round == self.rounds)?;
        self.boot(node).filter(|boot| boot.at != known.at)
    }
}

fn ready(snapshot: &Snapshot) -> BTreeMap<String, (Option<Timestamp>, String)> {
    let objects = snapshot.kubernetes.iter().flat_map(|kubernetes| &kubernetes.nodes).flatten();
    let ready = objects.filter_map(|object| {
        let Readiness::Ready(since) = object.readiness() else { return None };
        Some((object.name.clone(), (since, object.boot_id.clone())))
    });
    ready.collect()
}

fn keep(known: &mut Option<(Leases, Timestamp)>, seen: &Observed<Leases>, taken: Timestamp) {
    let Ok(seen) = seen else { return };
    if !known.as_ref().is_some_and(|(known, _)| known.is_repeated_by(seen)) {
        *known = Some((seen.clone(), taken));
    }
}

/// Restarts of each container, by the names of its pod and its own. Talos and Kubernetes both tell: one of them may be behind.
fn restarts(snapshot: &Snapshot) -> BTreeMap<(String, String), u32> {
    let statuses = snapshot.nodes.iter().flat_map(|node| &node.talos.static_pod_statuses).flatten();
    let pods = snapshot.kubernetes.iter().flat_map(Kubernetes::all_pods);
    let states = statuses.map(|it| (&it.name, &it.state)).chain(pods.map(|it| (&it.name, &it.state)));
    let mut restarts = BTreeMap::new();
    for (pod, container) in states.flat_map(|(pod, state)| state.containers.iter().map(move |it| (pod, it))) {
        let known: &mut u32 = restarts.entry((pod.clone(), container.name.clone())).or_default();
        *known = container.restarts.max(*known);
    }
    restarts
}

fn is_gap<T>(fact: &Observed<T>, kind: GapKind) -> bool {
    fact.as_ref().is_err_and(|gap| gap.kind == kind)
}
