//! Machines that a policy declares to be off.

use super::access::{MachineAccess, TalosAccess};
use super::population::{is_seen_lost, lives};
use super::workloads::{Renewal, renewal, says_ready};
use crate::snapshot::{Declared, ExcuseState, Gap, GapKind, KubeNode, Node, Snapshot};

/// What the policy says of a machine, and what is seen of it.
#[derive(Clone, Copy)]
pub(crate) struct Declaration<'a> {
    pub(crate) entry: &'a Declared,
    pub(crate) state: ExcuseState,
    pub(crate) presence: Presence,
}

/// Whether a machine is on, as far as anybody shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Every side that is asked says that nothing comes from it.
    Off,
    /// The Talos API, the kubelet or the API server of the machine answers, or something else at its address does.
    Answers(Side),
    /// Not every side was read.
    Unknown,
}

/// What answers for a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    TalosApi,
    /// The lease of its Node is renewed, or the kubelet or the API server has answered.
    Kubernetes,
}

impl Declaration<'_> {
    /// The machine is excused: it is off, and may be.
    pub(crate) fn excuses(&self) -> bool {
        self.state == ExcuseState::Holds && self.presence == Presence::Off
    }
}

/// The entry of the policy that names this machine. If several do, one that counts.
pub(super) fn of<'a>(
    snapshot: &'a Snapshot,
    talos: &TalosAccess<'_>,
    node: &Node,
    object: Option<&KubeNode>,
) -> Option<Declaration<'a>> {
    let names = |entry: &&Declared| is_named(entry, node, object);
    let entries = || snapshot.asked.policy.machines.iter().filter(names);
    let holds = |entry: &&Declared| snapshot.excuse_state(&entry.excuse) == ExcuseState::Holds;
    let entry = entries().find(holds).or_else(|| entries().next())?;
    let is_another = |other: &&Node| !std::ptr::eq(*other, node) && other.is_called(&entry.name);
    let is_listed = node.sources.discovery || node.sources.kubernetes || node.sources.etcd;
    // A name that two machines have, or that no source lists, says of no machine that it is off.
    let is_certain = is_listed && !snapshot.nodes.iter().any(|other| is_another(&other));
    let presence = match presence(snapshot, talos, node, object) {
        Presence::Off if !is_certain => Presence::Unknown,
        presence => presence,
    };
    Some(Declaration { entry, state: snapshot.excuse_state(&entry.excuse), presence })
}

fn is_named(entry: &Declared, node: &Node, object: Option<&KubeNode>) -> bool {
    node.is_called(&entry.name) || object.is_some_and(|object| object.name.eq_ignore_ascii_case(&entry.name))
}

fn presence(snapshot: &Snapshot, talos: &TalosAccess<'_>, node: &Node, object: Option<&KubeNode>) -> Presence {
    let sides = [by_talos(snapshot, talos, node), by_kubernetes(snapshot, node, object)];
    let answers = |side: &&Option<Presence>| matches!(side, Some(Presence::Answers(_)));
    if let Some(Some(answers)) = sides.iter().find(answers) {
        *answers
    } else if lives(snapshot, node) {
        Presence::Answers(Side::Kubernetes)
    } else if sides.contains(&Some(Presence::Unknown)) || sides == [None, None] {
        Presence::Unknown
    } else {
        Presence::Off
    }
}

/// `None`: Talos is not asked, or not about this machine.
fn by_talos(snapshot: &Snapshot, talos: &TalosAccess<'_>, node: &Node) -> Option<Presence> {
    snapshot.talos.as_ref()?;
    Some(match (talos, MachineAccess::of(node)) {
        (_, MachineAccess::Open(_) | MachineAccess::Other(_)) => Presence::Answers(Side::TalosApi),
        // A machine that is off refuses nothing.
        (_, MachineAccess::Closed(gap)) if gap.is_refused_connection() || gap.kind == GapKind::Maintenance => {
            Presence::Answers(Side::TalosApi)
        }
        // Without an address, nobody has asked it.
        (_, MachineAccess::Closed(gap)) if gap.kind == GapKind::NotAsked && node.addresses.is_empty() => return None,
        (TalosAccess::Open, MachineAccess::Closed(_)) if is_seen_lost(node) => Presence::Off,
        (_, MachineAccess::Closed(_)) => Presence::Unknown,
    })
}

/// `None`: Kubernetes is not asked, or has no such Node.
fn by_kubernetes(snapshot: &Snapshot, node: &Node, object: Option<&KubeNode>) -> Option<Presence> {
    let kubernetes = snapshot.kubernetes.as_ref()?;
    if kubernetes.nodes.is_err() && node.sources.kubernetes {
        return Some(Presence::Unknown);
    }
    let object = object?;
    let lease = kubernetes.node_leases.as_ref().map(|leases| (leases.by_name.get(&object.name), leases.date));
    Some(match lease.map(|(lease, date)| lease.map(|lease| renewal(lease, date))) {
        Ok(Some(Renewal::Renewed)) => Presence::Answers(Side::Kubernetes),
        // Whoever makes this Node keeps no lease.
        Ok(None) if says_ready(object) => Presence::Answers(Side::Kubernetes),
        Ok(Some(Renewal::Lapsed) | None) => Presence::Off,
        Ok(Some(Renewal::Unknown)) | Err(Gap { .. }) => Presence::Unknown,
    })
}
