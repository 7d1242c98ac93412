//! What a run remembers from round to round.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::snapshot::{EtcdMember, GapKind, Node, Observed, Snapshot};

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
    /// Names of the nodes that have answered the Talos API.
    pub(crate) answered: BTreeSet<String>,
    /// When each machine was booted, by its own clock, and how often it was booted anew since it was first seen.
    pub(crate) boots: BTreeMap<String, (Timestamp, u32)>,
    /// Rounds in a row in which every endpoint showed an unknown CA.
    pub(crate) unknown_ca_rounds: u32,
    /// Rounds in a row with 401 at the Kubernetes endpoint.
    pub(crate) unauthenticated_rounds: u32,
    /// Since when, without a break, Kubernetes has refused each of these questions (403): [`Kubernetes::refusals`].
    ///
    /// [`Kubernetes::refusals`]: crate::snapshot::Kubernetes::refusals
    pub(crate) forbidden_since: BTreeMap<String, Duration>,
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
        memory
            .answered
            .extend(snapshot.nodes.iter().filter(|node| node.talos.contact.is_ok()).map(|node| node.name.clone()));
        for node in &snapshot.nodes {
            if let Some(boot) = self.boot(node) {
                memory.boots.insert(node.name.clone(), boot);
            }
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
    /// When the machine was booted, and how often anew in this run; `None` if it has not told. machined begins with the machine.
    pub(crate) fn boot(&self, node: &Node) -> Option<(Timestamp, u32)> {
        let services = node.talos.services.as_ref().ok()?;
        let at = services.iter().find(|service| service.id == "machined")?.running_since?;
        Some(match self.boots.get(&node.name) {
            // Its clock may have been wrong at either time.
            Some((before, times)) if *before != at => (at, times + 1),
            Some(known) => *known,
            None => (at, 0),
        })
    }
}

fn is_gap<T>(fact: &Observed<T>, kind: GapKind) -> bool {
    fact.as_ref().is_err_and(|gap| gap.kind == kind)
}
