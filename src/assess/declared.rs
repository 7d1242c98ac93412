//! Machines that a policy declares to be off.

use super::access::{MachineAccess, TalosAccess};
use super::population::{is_seen_lost, shows_life};
use super::workloads::{Renewal, renewal_of, says_ready};
use crate::snapshot::{Declared, ExcuseState, Gap, GapKind, KubeNode, Node, Snapshot};

/// A policy's declaration about a machine, and the machine's observed presence.
#[derive(Clone, Copy)]
pub(crate) struct Declaration<'a> {
    pub(crate) entry: &'a Declared,
    pub(crate) state: ExcuseState,
    pub(crate) presence: Presence,
}

/// Whether a machine is on, according to all sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Every source that was queried reports no sign of the machine.
    Off,
    /// The machine's Talos API, kubelet or API server answers, or something else answers at its address.
    Answers(Side),
    /// A source could not be read.
    Unknown,
}

/// The side on which a machine answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    TalosApi,
    /// The lease of its Node is renewed, or the kubelet or the API server has answered.
    Kubernetes,
}

impl Declaration<'_> {
    /// Returns true if the machine is off and the policy currently permits that.
    pub(crate) fn excuses(&self) -> bool {
        self.state == ExcuseState::Holds && self.presence == Presence::Off
    }
}

/// Returns the policy entry that names this machine. If several do, an entry that is in force wins.
pub(super) fn of<'a>(
    snapshot: &'a Snapshot,
    talos: &TalosAccess<'_>,
    node: &Node,
    object: Option<&KubeNode>,
    is_guest: bool,
) -> Option<Declaration<'a>> {
    let names = |entry: &&Declared| is_named(entry, node, object);
    let entries = || snapshot.asked.policy.machines.iter().filter(names);
    let holds = |entry: &&Declared| snapshot.excuse_state(&entry.excuse) == ExcuseState::Holds;
    let entry = entries().find(holds).or_else(|| entries().next())?;
    let is_another = |other: &&Node| !std::ptr::eq(*other, node) && other.is_called(&entry.name);
    let is_listed = node.sources.discovery || node.sources.kubernetes || node.sources.etcd;
    // A name that two machines share, or that no source lists, does not prove of any machine that it is off.
    let is_certain = is_listed && !snapshot.nodes.iter().any(|other| is_another(&other));
    let presence = match presence(snapshot, talos, node, object, is_guest) {
        Presence::Off if !is_certain => Presence::Unknown,
        presence => presence,
    };
    Some(Declaration { entry, state: snapshot.excuse_state(&entry.excuse), presence })
}

fn is_named(entry: &Declared, node: &Node, object: Option<&KubeNode>) -> bool {
    node.is_called(&entry.name) || object.is_some_and(|object| object.name.eq_ignore_ascii_case(&entry.name))
}

fn presence(
    snapshot: &Snapshot,
    talos: &TalosAccess<'_>,
    node: &Node,
    object: Option<&KubeNode>,
    is_guest: bool,
) -> Presence {
    // Another system has no Talos API that could be queried, but Talos may have been installed in its place.
    let has_answered = !matches!(MachineAccess::of(node), MachineAccess::Closed(_));
    let by_talos = if is_guest && !has_answered { None } else { by_talos(snapshot, talos, node) };
    let sides = [by_talos, by_kubernetes(snapshot, node, object)];
    let answers = |side: &&Option<Presence>| matches!(side, Some(Presence::Answers(_)));
    if let Some(Some(answers)) = sides.iter().find(answers) {
        *answers
    } else if shows_life(snapshot, node) {
        Presence::Answers(Side::Kubernetes)
    } else if sides.contains(&Some(Presence::Unknown)) || sides == [None, None] {
        Presence::Unknown
    } else {
        Presence::Off
    }
}

/// Returns the presence according to Talos; `None` if Talos is not queried, or not about this machine.
fn by_talos(snapshot: &Snapshot, talos: &TalosAccess<'_>, node: &Node) -> Option<Presence> {
    snapshot.talos.as_ref()?;
    Some(match (talos, MachineAccess::of(node)) {
        (_, MachineAccess::Open(_) | MachineAccess::Other(_)) => Presence::Answers(Side::TalosApi),
        // A machine that is off does not refuse connections.
        (_, MachineAccess::Closed(gap))
            if gap.is_refused_connection() || gap.is_refused_certificate() || gap.kind == GapKind::Maintenance =>
        {
            Presence::Answers(Side::TalosApi)
        }
        // A machine without an address was never queried.
        (_, MachineAccess::Closed(gap)) if gap.kind == GapKind::NotAsked && node.addresses.is_empty() => return None,
        (TalosAccess::Open, MachineAccess::Closed(_)) if is_seen_lost(node) => Presence::Off,
        (_, MachineAccess::Closed(_)) => Presence::Unknown,
    })
}

/// Returns the presence according to Kubernetes; `None` if Kubernetes is not queried or has no such Node.
fn by_kubernetes(snapshot: &Snapshot, node: &Node, object: Option<&KubeNode>) -> Option<Presence> {
    let kubernetes = snapshot.kubernetes.as_ref()?;
    if kubernetes.nodes.is_err() && node.sources.kubernetes {
        return Some(Presence::Unknown);
    }
    let object = object?;
    Some(match kubernetes.node_leases.as_ref().map(|leases| renewal_of(leases, &object.name)) {
        Ok(Some(Renewal::Renewed)) => Presence::Answers(Side::Kubernetes),
        // The component that maintains this Node does not use leases.
        Ok(None) if says_ready(object) => Presence::Answers(Side::Kubernetes),
        Ok(Some(Renewal::Lapsed)) => Presence::Off,
        // Without a lease, only Kubernetes' own verdict shows that nobody reports.
        Ok(None) if object.condition("Ready").is_none_or(|ready| ready.status == "Unknown") => Presence::Off,
        Ok(Some(Renewal::Unknown) | None) | Err(Gap { .. }) => Presence::Unknown,
    })
}
