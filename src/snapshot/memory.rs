//! State that a run keeps from round to round.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::snapshot::{EtcdMember, GapKind, Kubernetes, Leases, Node, Observed, Readiness, Service, Snapshot};

/// Observations of earlier rounds of the same run. The engine maintains them; judges only read them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Memory {
    /// Number of completed rounds.
    pub(crate) rounds: u32,
    /// Time since the start of the run.
    pub(crate) elapsed: Duration,
    /// The last member list that any member returned.
    pub(crate) etcd_members: Option<Vec<EtcdMember>>,
    /// Highest Raft term so far.
    pub(crate) raft_term: Option<u64>,
    /// Time from the start of the run to the last increase of the Raft term.
    pub(crate) elected: Option<Duration>,
    /// Names of the nodes that have answered the Talos API.
    pub(crate) answered: BTreeSet<String>,
    /// Names of the nodes that were being removed.
    pub(crate) leaving: BTreeSet<String>,
    /// The last known boot of each machine.
    pub(crate) boots: BTreeMap<String, Boot>,
    /// The last failure of each service, by node name and service id; `None` if the service has not failed.
    pub(crate) failures: BTreeMap<(String, String), Option<Timestamp>>,
    /// Number of restarts of each container, by pod name and container name.
    pub(crate) restarts: BTreeMap<(String, String), u32>,
    /// Nodes that were Ready in the previous round, each with the time since when and its boot ID.
    pub(crate) ready: BTreeMap<String, (Option<Timestamp>, String)>,
    /// The newest node leases and system leases, each with the start of the round, by the runner's clock, that first showed the list in
    /// this state.
    pub(crate) node_leases: Option<(Leases, Timestamp)>,
    pub(crate) system_leases: Option<(Leases, Timestamp)>,
    /// Number of consecutive rounds in which every endpoint showed an unknown CA.
    pub(crate) unknown_ca_rounds: u32,
    /// Number of consecutive rounds with 401 at the Kubernetes endpoint.
    pub(crate) unauthenticated_rounds: u32,
    /// Time since when Kubernetes has refused each of these requests (403) without interruption: [`Kubernetes::refusals`].
    ///
    /// [`Kubernetes::refusals`]: crate::snapshot::Kubernetes::refusals
    pub(crate) forbidden_since: BTreeMap<String, Duration>,
}

/// A boot of a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Boot {
    /// Time of the boot, by the machine's own clock.
    pub(crate) at: Timestamp,
    /// Number of reboots since the machine was first seen.
    pub(crate) times: u32,
    /// The last round that reported this boot.
    round: u32,
}

impl Memory {
    /// Returns the memory after a round that ended `elapsed` into the run.
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
    /// Returns the pods whose containers were restarted since the last round that saw them, each with its restarts since then and in total.
    /// A new pod of the same name starts at zero.
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

    /// Returns whether `questions` is not empty and each of them has been refused for at least `so_long`.
    pub(crate) fn refused_for(&self, so_long: Duration, questions: impl IntoIterator<Item = String>) -> bool {
        let lasts = |since: &Duration| self.elapsed.saturating_sub(*since) >= so_long;
        let mut questions = questions.into_iter().peekable();
        questions.peek().is_some() && questions.all(|it| self.forbidden_since.get(&it).is_some_and(lasts))
    }

    /// Returns the last boot of the machine, `None` if it is unknown. machined starts when the machine boots.
    pub(crate) fn boot(&self, node: &Node) -> Option<Boot> {
        let services = node.talos.services.as_ref().ok()?;
        let at = services.iter().find(|service| service.id == "machined")?.running_since?;
        let round = self.rounds + 1;
        Some(match self.boots.get(&node.name) {
            // The machine's clock may have been wrong at either time.
            Some(known) if known.at != at => Boot { at, times: known.times + 1, round },
            Some(known) => Boot { round, ..*known },
            None => Boot { at, times: 0, round },
        })
    }

    /// Returns whether the service has failed since the last round that reported it.
    pub(crate) fn has_failed(&self, node: &Node, service: &Service) -> bool {
        let known = self.failures.get(&(node.name.clone(), service.id.clone()));
        known.is_some_and(|known| service.last_failure() > *known)
    }

    /// Returns this boot if the previous round reported a different one.
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

/// Counts the restarts of each container, by pod name and container name. Talos and Kubernetes both report them, and either may be behind.
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
