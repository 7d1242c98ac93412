//! Whether a node works, judging by its kubelet. Computed once per round; checks use it to decide whether pods on the node still serve.

use std::collections::HashMap;

use super::Assessment;
use super::access::{MachineAccess, TalosAccess, service};
use super::population::{is_going_down, is_seen_lost, shows_life};
use super::workloads::{Renewal, renewal_of, says_ready};
use crate::snapshot::{GapKind, KubeNode, Leases, Node, Service, System};

/// The state of a node, identified by its name in Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// The kubelet reports that the node is ready, and renews its lease.
    Works,
    /// Kubernetes still reports that the node is ready, but the machine is down or going down as far as Talos can tell.
    Down,
    /// The Node is not ready, and its lease is renewed or unknown.
    Unready,
    /// The kubelet has stopped renewing its lease. Until the node controller notices, the node and its pods look ready.
    Silent,
    /// Pods, leases or endpoints name the node, but the node list does not contain it. Its objects remain listed for a while.
    Removed,
    /// Undetermined, because the list of nodes or of leases is missing, or because the age of the lease is unknown. Checks that depend on
    /// it report which.
    Unknown,
}

impl Life {
    /// Returns true if pods on the node may be ready.
    pub(crate) fn may_serve(self) -> bool {
        match self {
            Self::Works | Self::Unknown => true,
            Self::Down | Self::Unready | Self::Silent | Self::Removed => false,
        }
    }
}

/// Returns each node's state by the name of its Node object; `None` without a list of nodes.
pub(super) fn of_nodes<'a>(cluster: &Assessment<'a>) -> Option<HashMap<&'a str, Life>> {
    let objects = cluster.list(|kubernetes| &kubernetes.nodes).filter(|objects| !objects.is_empty())?;
    let leases = cluster.list(|kubernetes| &kubernetes.node_leases);
    let has_no_leases = cluster.has_no_leases();
    let life = |object: &'a KubeNode| (object.name.as_str(), life(cluster, object, leases, has_no_leases));
    // If two Nodes have one name, the first counts.
    Some(objects.iter().rev().map(life).collect())
}

fn life(cluster: &Assessment<'_>, object: &KubeNode, leases: Option<&Leases>, has_no_leases: bool) -> Life {
    let renews = leases.and_then(|leases| match renewal_of(leases, &object.name) {
        _ if has_no_leases => Some(true),
        Some(Renewal::Renewed) => Some(true),
        Some(Renewal::Lapsed) => Some(false),
        Some(Renewal::Unknown) => None,
        None => Some(may_have_none(cluster, object)),
    });
    match (renews, says_ready(object)) {
        (Some(true), true) if is_down(cluster, object) => Life::Down,
        (Some(true), true) => Life::Works,
        (Some(true) | None, false) => Life::Unready,
        (Some(false), _) => Life::Silent,
        (None, true) => Life::Unknown,
    }
}

/// Returns true if Talos shows that the machine of this node does not run its pods, or soon will not: neither Talos nor anything else on the
/// machine answers, it is in maintenance mode, rebooting, being upgraded or reset, or its kubelet does not run. Kubernetes notices a lost
/// machine after about 50 seconds.
fn is_down(cluster: &Assessment<'_>, object: &KubeNode) -> bool {
    let Some(node) = cluster.machine_of(&object.name).filter(|node| node.is_talos && cluster.asks_talos()) else {
        return false;
    };
    let stopped = |service: &Service| !service.is_healthy() && service.state != "Running";
    match MachineAccess::of(node) {
        MachineAccess::Open(_) => is_going_down(node) || service(node, "kubelet").is_some_and(stopped),
        MachineAccess::Closed(gap) if gap.kind == GapKind::Maintenance => true,
        MachineAccess::Closed(_) => {
            matches!(cluster.talos_access, TalosAccess::Open)
                && is_seen_lost(node)
                && !shows_life(cluster.snapshot, node)
        }
        // Another check judges which machine this Node belongs to.
        MachineAccess::Other(_) => false,
    }
}

/// Returns true for nodes that may lack a lease: guests and virtual nodes. A node that Talos knows by this name is a machine.
fn may_have_none(cluster: &Assessment<'_>, object: &KubeNode) -> bool {
    let is_virtual = |is_talos: bool| object.system() == System::Virtual && !(cluster.asks_talos() && is_talos);
    cluster.machine_of(&object.name).is_some_and(|node| cluster.is_guest(node) || is_virtual(node.is_talos))
}

impl Assessment<'_> {
    /// Returns true if Talos is not queried and no Node has a lease. The component that creates the Nodes then does not use leases, as in a
    /// virtual cluster, and the Nodes' conditions count instead. A kubelet that has created a mirror pod also holds a lease, so there an
    /// empty list is a missing answer.
    pub(crate) fn has_no_leases(&self) -> bool {
        let objects = || self.list(|kubernetes| &kubernetes.nodes).into_iter().flatten();
        let leases = self.list(|kubernetes| &kubernetes.node_leases).filter(|_| !self.asks_talos());
        let has_none = |leases: &Leases| objects().all(|object| !leases.by_name.contains_key(&object.name));
        let has_kubelets = || self.list(|kubernetes| &kubernetes.pods).into_iter().flatten().any(|pod| pod.mirror);
        objects().next().is_some() && leases.is_some_and(has_none) && !has_kubelets()
    }

    /// Returns the state of the node with this name in Kubernetes.
    pub(crate) fn life(&self, name: &str) -> Life {
        match &self.lives {
            Some(lives) => lives.get(name).copied().unwrap_or(Life::Removed),
            None => Life::Unknown,
        }
    }

    /// Returns the state of this machine's node.
    pub(crate) fn life_of(&self, node: &Node) -> Life {
        self.life(self.name_in_kubernetes(node))
    }

    /// Returns true if a node is listed as ready while its lease looks stale or cannot be judged: its kubelet has just died, or is about to
    /// renew it.
    pub(crate) fn a_lease_looks_stale(&self) -> bool {
        let objects = self.list(|kubernetes| &kubernetes.nodes).into_iter().flatten();
        let looks_stale = |name: &str| self.life(name) == Life::Silent || self.renewal(name) == Some(Renewal::Unknown);
        objects.filter(|object| says_ready(object)).any(|object| looks_stale(&object.name))
    }

    /// Returns whether the lease of this node is being renewed; `None` if the node has no lease or the leases are unknown.
    pub(crate) fn renewal(&self, name: &str) -> Option<Renewal> {
        renewal_of(self.list(|kubernetes| &kubernetes.node_leases)?, name)
    }

    /// Returns true if this node's kubelet is known to report, so that Kubernetes' status of the node and its pods is current. Without a
    /// list of leases this is unknown.
    pub(crate) fn kubelet_reports(&self, name: &str) -> bool {
        let is_seen = self.list(|kubernetes| &kubernetes.node_leases).is_some();
        is_seen
            && matches!(self.life(name), Life::Works | Life::Down | Life::Unready)
            && self.renewal(name) != Some(Renewal::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::snapshot::Snapshot;
    use crate::testing::fixture::{ago, gap, healthy, now};

    /// `ready` is the Ready status of the Node. `renewed` is the number of seconds since its lease was renewed; `None`: it has no lease.
    fn life(ready: &str, renewed: Option<u64>, change: fn(&mut Snapshot)) -> (Life, bool) {
        let mut snapshot = healthy();
        let conditions = &mut snapshot.kube_node_mut("w-1").conditions;
        ready.clone_into(&mut conditions.iter_mut().find(|condition| condition.kind == "Ready").unwrap().status);
        let leases = snapshot.kube().node_leases.as_mut().unwrap();
        leases.date = Some(now());
        match renewed {
            Some(seconds) => leases.by_name.get_mut("w-1").unwrap().renewed = Some(ago(seconds)),
            None => drop(leases.by_name.remove("w-1")),
        }
        change(&mut snapshot);
        let cluster = Assessment::of(&snapshot);
        (cluster.life("w-1"), cluster.kubelet_reports("w-1"))
    }

    /// Without `Date`, the age of a renewal is unknown.
    #[test]
    fn an_answer_without_date_tells_by_two_samples_or_not_at_all() {
        let undated = |moved: Option<u64>, still: Option<u64>, lasts: u64| {
            let mut snapshot = healthy();
            let leases = snapshot.kube().node_leases.as_mut().unwrap();
            leases.date = None;
            leases.by_name.values_mut().for_each(|lease| lease.moved_within = Some(Duration::ZERO));
            let lease = leases.by_name.get_mut("w-1").unwrap();
            lease.lasts = Some(Duration::from_secs(lasts));
            (lease.moved_within, lease.still_for) = (moved.map(Duration::from_secs), still.map(Duration::from_secs));
            let cluster = Assessment::of(&snapshot);
            (cluster.life("w-1"), cluster.kubelet_reports("w-1"), cluster.a_lease_looks_stale())
        };
        let (works, unknown, silent) =
            ((Life::Works, true, false), (Life::Unknown, false, true), (Life::Silent, false, true));
        assert_eq!(undated(None, None, 40), unknown, "a first sample");
        assert_eq!(undated(Some(12), None, 40), works);
        assert_eq!(undated(Some(41), None, 40), unknown, "renewed at some time in a long pause");
        assert_eq!(undated(None, Some(9), 40), unknown);
        assert_eq!(undated(None, Some(11), 40), silent);
        assert_eq!(undated(None, Some(11), 300), unknown, "this one is renewed every 75 s");
        assert_eq!(undated(None, Some(75), 300), silent);
    }

    #[test]
    fn a_node_lives_as_its_kubelet_shows() {
        use Life::{Down, Removed, Silent, Unknown, Unready, Works};
        let unchanged = |_: &mut Snapshot| {};
        let no_leases = |snapshot: &mut Snapshot| snapshot.kube().node_leases = gap(GapKind::Forbidden);
        let no_nodes = |snapshot: &mut Snapshot| snapshot.kube().nodes = gap(GapKind::Forbidden);
        let emptied = |snapshot: &mut Snapshot| snapshot.kube().nodes = Ok(Vec::new());
        let removed = |snapshot: &mut Snapshot| {
            snapshot.kube().nodes.as_mut().unwrap().retain(|object| object.name != "w-1");
        };
        let guest = |snapshot: &mut Snapshot| {
            let node = snapshot.node_mut("w-1");
            node.is_talos = false;
            node.sources = crate::snapshot::Sources { kubernetes: true, ..Default::default() };
        };
        let untold = |snapshot: &mut Snapshot| snapshot.kube_node_mut("w-1").become_virtual();
        let virtual_node = |snapshot: &mut Snapshot| {
            *snapshot = snapshot.clone().without_talos();
            snapshot.kube_node_mut("w-1").become_virtual();
        };
        let virtual_guest = |snapshot: &mut Snapshot| {
            let node = snapshot.node_mut("w-1");
            node.is_talos = false;
            node.sources = crate::snapshot::Sources { kubernetes: true, ..Default::default() };
            snapshot.kube_node_mut("w-1").become_virtual();
        };
        // Only the port of the Talos API is filtered: the kubelet answers at its own.
        let filtered = |snapshot: &mut Snapshot| snapshot.talos_of("w-1").contact = gap(GapKind::NodeUnreachable);
        let no_answer = |snapshot: &mut Snapshot| {
            snapshot.talos_of("w-1").contact = gap(GapKind::NodeUnreachable);
            snapshot.talos_of("w-1").kubelet_certificate = gap(GapKind::ConnectTimedOut);
        };
        let maintenance = |snapshot: &mut Snapshot| snapshot.talos_of("w-1").contact = gap(GapKind::Maintenance);
        let rebooting = |snapshot: &mut Snapshot| {
            let status = snapshot.talos_of("w-1").machine_status.as_mut().unwrap();
            "rebooting".clone_into(&mut status.as_mut().unwrap().stage);
        };
        let stopped = |snapshot: &mut Snapshot| {
            let services = snapshot.talos_of("w-1").services.as_mut().unwrap();
            let kubelet = services.iter_mut().find(|service| service.id == "kubelet").unwrap();
            "Failed".clone_into(&mut kubelet.state);
            kubelet.healthy = Some(false);
        };
        for (ready, renewed, change, expected) in [
            ("True", Some(10), unchanged as fn(&mut Snapshot), (Works, true)),
            ("False", Some(10), unchanged, (Unready, true)),
            ("True", Some(120), unchanged, (Silent, false)),
            ("Unknown", Some(120), unchanged, (Silent, false)),
            ("True", None, unchanged, (Silent, false)),
            ("True", None, virtual_guest, (Works, true)),
            ("Unknown", None, virtual_guest, (Unready, true)),
            ("True", None, guest, (Works, true)),
            ("Unknown", None, guest, (Unready, true)),
            ("True", Some(120), guest, (Silent, false)),
            // A Talos machine has a lease, whatever its Node omits.
            ("True", None, untold, (Silent, false)),
            ("True", None, virtual_node, (Works, true)),
            ("True", Some(10), no_leases, (Unknown, false)),
            ("False", Some(10), no_leases, (Unready, false)),
            ("True", Some(10), no_nodes, (Unknown, false)),
            ("True", Some(10), emptied, (Unknown, false)),
            ("True", Some(10), removed, (Removed, false)),
            // Kubernetes has not noticed yet.
            ("True", Some(10), no_answer, (Down, true)),
            ("True", Some(10), maintenance, (Down, true)),
            ("True", Some(10), rebooting, (Down, true)),
            ("True", Some(10), stopped, (Down, true)),
            ("True", Some(10), filtered, (Works, true)),
        ] {
            assert_eq!(life(ready, renewed, change), expected, "{ready} {renewed:?}");
        }
    }
}
