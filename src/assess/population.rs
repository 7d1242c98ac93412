//! Determines which of the machines named by any source count, and collects their properties.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use jiff::SignedDuration;

use super::access::{MachineAccess, TalosAccess, contact, service};
use super::declared::{self, Declaration};
use super::identity::{Identity, is_machine};
use super::servers::leases_of;
use super::standing::{NotJudged, Standing};
use super::workloads::{Renewal, has_moved, renewal, renewal_of, says_ready};
use crate::model::{CheckId, Role};
use crate::snapshot::{
    Declared, ExcuseState, Gap, GapKind, KubeNode, Kubernetes, Leases, Node, Observed, Service, Snapshot, System,
    Workload,
};
use crate::text::version;

/// A machine of the population.
pub(crate) struct Machine<'a> {
    pub(crate) standing: Standing,
    /// Whether the machine runs another system among Talos machines, or is a virtual node among machines. Its Node object reports this, and
    /// no source names it as a Talos machine.
    pub(crate) is_guest: bool,
    /// Talos works, but this machine does not answer: it is down or cut off.
    pub(crate) talos_unreachable: bool,
    pub(crate) is_stale_discovery_member: bool,
    /// Only Kubernetes knows the machine, and it is gone.
    pub(crate) is_stale_node_object: bool,
    /// The machine's Node object.
    pub(crate) object: Option<&'a KubeNode>,
    /// The policy's declaration about the machine.
    pub(crate) declaration: Option<Declaration<'a>>,
}

impl Machine<'_> {
    /// Returns true if the machine is off and the policy currently permits that.
    pub(crate) fn is_declared_off(&self) -> bool {
        self.declaration.is_some_and(|declaration| declaration.excuses())
    }
}

pub(super) fn machines<'a>(snapshot: &'a Snapshot, talos: &TalosAccess<'a>, identity: &Identity) -> Vec<Machine<'a>> {
    let listed = snapshot.kubernetes.as_ref().and_then(|kubernetes| kubernetes.nodes.as_ref().ok());
    let objects = Objects::of(snapshot, listed.map_or(&[], Vec::as_slice));
    let removed = Removed::of(snapshot, listed, identity);
    let has_talos = snapshot.nodes.iter().any(|node| node.is_talos);
    // Without Talos, each machine counts as a node of plain Kubernetes, whatever it runs.
    let are_apart = has_talos && snapshot.talos.is_some();
    let has_machines = has_talos || listed.into_iter().flatten().any(|object| object.system() != System::Virtual);
    let machine = |node: &'a Node| {
        let is_another = match objects.by_name.get(node.name.as_str()).map(|object| object.system()) {
            Some(System::Another | System::Talos) => are_apart,
            // If all nodes are virtual, each of them counts.
            Some(System::Virtual) => has_machines,
            Some(System::Untold) | None => false,
        };
        let is_guest = is_another && !is_named_as_talos(node);
        let is_stale_discovery_member = removed.has(node);
        let object = objects.of_machine(node);
        let declaration = declared::of(snapshot, talos, node, object, is_guest);
        let is_excused = declaration.is_some_and(|declaration| declaration.excuses());
        Machine {
            standing: standing(snapshot, node, is_stale_discovery_member, is_excused, is_guest),
            is_guest,
            talos_unreachable: talos_unreachable(talos, node),
            is_stale_discovery_member,
            is_stale_node_object: !is_guest && is_stale_node_object(snapshot, node, &objects),
            object,
            declaration,
        }
    };
    snapshot.nodes.iter().map(machine).collect()
}

fn standing(snapshot: &Snapshot, node: &Node, is_stale: bool, is_excused: bool, is_guest: bool) -> Standing {
    if node.leaving {
        Standing::NotJudged(NotJudged::Leaving)
    } else if node.out_of_scope {
        Standing::NotJudged(NotJudged::OutOfScope)
    } else if is_outside_flags(snapshot, node) {
        Standing::NotJudged(NotJudged::OutsideFlags)
    } else if is_stale {
        Standing::NotJudged(NotJudged::StaleDiscovery)
    } else if is_excused {
        Standing::NotJudged(NotJudged::DeclaredOff)
    } else if is_guest {
        Standing::Guest
    } else {
        Standing::Judged
    }
}

/// Returns true if discovery, the machine's own answer or its Node object identifies it as a Talos machine, if it runs a member of Talos'
/// etcd, or if the user names it.
fn is_named_as_talos(node: &Node) -> bool {
    node.is_talos || node.sources.etcd || node.sources.flags
}

fn talos_unreachable(talos: &TalosAccess<'_>, node: &Node) -> bool {
    match (talos, MachineAccess::of(node)) {
        (TalosAccess::Open, MachineAccess::Closed(gap)) => gap.kind != GapKind::NoForwarding,
        (TalosAccess::Open, MachineAccess::Other(_)) => true,
        _ => false,
    }
}

/// Indexes of Node objects, because comparing every machine with every object would be slow.
struct Objects<'a> {
    /// The machines by name.
    nodes: HashMap<&'a str, &'a Node>,
    by_name: HashMap<&'a str, &'a KubeNode>,
    /// Node objects whose name is not a machine's, by machine ID and by address: the first of each, with its index.
    by_id: HashMap<&'a str, (usize, &'a KubeNode)>,
    by_address: HashMap<&'a str, (usize, &'a KubeNode)>,
}

impl<'a> Objects<'a> {
    fn of(snapshot: &'a Snapshot, objects: &'a [KubeNode]) -> Self {
        // The first object with a name counts.
        let by_name = objects.iter().rev().map(|object| (object.name.as_str(), object)).collect();
        let nodes: HashMap<_, _> = snapshot.nodes.iter().rev().map(|node| (node.name.as_str(), node)).collect();
        let (mut by_id, mut by_address) = (HashMap::new(), HashMap::new());
        for found in objects.iter().enumerate().filter(|(_, object)| !nodes.contains_key(object.name.as_str())) {
            by_id.entry(found.1.machine_id.as_str()).or_insert(found);
            for address in &found.1.addresses {
                by_address.entry(address.as_str()).or_insert(found);
            }
        }
        Self { nodes, by_name, by_id, by_address }
    }

    /// Finds a machine's Node object by name, otherwise by machine ID or address. Machines can share an address (a virtual IP, a NAT's), so
    /// an object with another machine's name does not count.
    fn of_machine(&self, node: &Node) -> Option<&'a KubeNode> {
        let by_id = || node.machine_ids().filter_map(|id| self.by_id.get(id.as_str())).min_by_key(|(at, _)| at);
        let by_address =
            || node.addresses.iter().filter_map(|it| self.by_address.get(it.as_str())).min_by_key(|(at, _)| at);
        let other = || by_id().or_else(by_address).map(|(_, object)| *object);
        self.by_name.get(node.name.as_str()).copied().or_else(other)
    }
}

/// Machines that discovery still lists although they were removed, which it does for up to half an hour. A machine counts as removed only
/// with proof: Kubernetes and etcd were both read and do not know it, the expected numbers are met without it, and nothing, not even a
/// refusal, came from its address in this run, unless it was being removed at the time.
struct Removed<'a> {
    snapshot: &'a Snapshot,
    /// Names and addresses of Node objects and of etcd members.
    known: HashSet<Cow<'a, str>>,
    is_possible: bool,
    /// Every control plane that is known to a source other than discovery returned its member list.
    members_are_complete: bool,
}

impl<'a> Removed<'a> {
    fn of(snapshot: &'a Snapshot, objects: Option<&'a Vec<KubeNode>>, identity: &Identity) -> Self {
        let members: Vec<_> = snapshot.nodes.iter().flat_map(|node| node.talos.etcd_members.iter().flatten()).collect();
        // Another cluster's Kubernetes knows none of our nodes, which proves nothing about this one.
        let objects = objects.map_or(&[][..], Vec::as_slice);
        let is_read = !objects.is_empty() && !members.is_empty();
        let is_possible = *identity == Identity::Same && is_read && expected_numbers_are_met(snapshot);
        let mut others = snapshot.control_planes().filter(|node| !is_discovery_only(node));
        let members_are_complete = others.all(|node| node.talos.etcd_members.as_ref().is_ok_and(|it| !it.is_empty()));
        let of_objects = objects.iter().flat_map(|it| it.addresses.iter().chain([&it.name])).map(Cow::from);
        let hosts = members.iter().flat_map(|it| it.hosts()).map(Cow::from);
        let of_members = members.iter().map(|it| Cow::from(&it.name)).chain(hosts);
        Self { snapshot, known: of_objects.chain(of_members).collect(), is_possible, members_are_complete }
    }

    fn has(&self, node: &Node) -> bool {
        self.is_possible
            && is_discovery_only(node)
            && is_seen_lost(node)
            // A control plane runs etcd and Kubernetes for all others, so it is not considered gone while any evidence contradicts that.
            && (node.role == Role::Worker || (self.members_are_complete && !shows_life(self.snapshot, node)))
            && (!self.has_answered(node) || self.snapshot.memory.leaving.contains(&node.name))
            && !node.addresses.iter().chain([&node.name]).any(|known| self.known.contains(known.as_str()))
    }

    /// Returns true if the machine has answered in this run or refuses connections. A machine that never managed to join also refuses
    /// connections, because its Talos API has no certificate yet.
    fn has_answered(&self, node: &Node) -> bool {
        self.snapshot.memory.answered.contains(&node.name)
            || node.talos.contact.as_ref().is_err_and(Gap::is_refused_connection)
    }
}

/// Returns true if a machine that does not answer on the Talos API has otherwise shown that it is running.
pub(crate) fn shows_life(snapshot: &Snapshot, node: &Node) -> bool {
    let server = snapshot.kubernetes.iter().find_map(|kubernetes| kubernetes.servers.get(&node.name));
    let refuses = |gap: &Gap| gap.kind == GapKind::Maintenance || gap.is_refused_certificate();
    // The kubelet has renewed its lease since an earlier round in which Talos did not answer either.
    let silent_before = snapshot.memory.rounds > 0 && !snapshot.memory.answered.contains(&node.name);
    let leases = snapshot.kubernetes.iter().flat_map(|kubernetes| &kubernetes.node_leases);
    let moves = |leases: &Leases| leases.by_name.get(&node.name).is_some_and(|lease| lease.moved_within.is_some());
    server.is_some_and(Result::is_ok)
        || silent_before && leases.into_iter().any(moves)
        || node.talos.kubelet_certificate.is_ok()
        || node.talos.contact.as_ref().is_err_and(refuses)
}

fn is_discovery_only(node: &Node) -> bool {
    let sources = node.sources;
    let others = sources.kubernetes || sources.etcd || sources.flags || sources.talosconfig;
    sources.discovery && !others && node.talos.contact.is_err()
}

fn expected_numbers_are_met(snapshot: &Snapshot) -> bool {
    let counted = |role| {
        snapshot.nodes.iter().filter(|node| node.role == role && !node.leaving && !is_discovery_only(node)).count()
    };
    let met = |expected: Option<usize>, role| expected.is_none_or(|expected| expected == counted(role));
    met(snapshot.asked.expect_control_planes, Role::ControlPlane) && met(snapshot.asked.expect_workers, Role::Worker)
}

/// Returns true if the node flags for the machine's role leave it out. They define the population of that role; other machines are only
/// listed.
fn is_outside_flags(snapshot: &Snapshot, node: &Node) -> bool {
    let asked = &snapshot.asked;
    let (control_planes, workers) = (!asked.control_plane_nodes.is_empty(), !asked.worker_nodes.is_empty());
    // Flags for one role do not restrict the other.
    let given = match node.role {
        Role::ControlPlane => control_planes,
        Role::Worker => workers,
        Role::Unknown => control_planes && workers,
    };
    given && !node.sources.flags
}

fn discovery_is_on(snapshot: &Snapshot) -> bool {
    snapshot.talos.as_ref().is_some_and(|talos| talos.discovery.as_ref().is_ok_and(|&members| members > 0))
}

/// Returns true if there is evidence of this control plane other than an etcd member list.
pub(crate) fn is_named_beyond_etcd(node: &Node) -> bool {
    let sources = node.sources;
    node.talos.contact.is_ok() || sources.discovery || sources.kubernetes || sources.flags || sources.talosconfig
}

/// Returns true if this run includes every control plane, also those that are being removed, and each has answered for itself, as has every
/// endpoint. A machine that was not seen may own the member or have the data, so otherwise nothing is proposed that cannot be undone. One
/// that only etcd lists is judged as a member.
pub(crate) fn every_control_plane_was_seen(snapshot: &Snapshot) -> bool {
    let is_seen = |node: &Node| !node.out_of_scope && contact(node).is_some() || !is_named_beyond_etcd(node);
    // A machine of unknown role may be one.
    let mut control_planes = snapshot.nodes.iter().filter(|node| node.role != Role::Worker);
    let are_enough =
        snapshot.asked.expect_control_planes.is_none_or(|expected| control_planes.clone().count() >= expected);
    let mut endpoints = snapshot.talos.iter().flat_map(|talos| &talos.endpoints);
    are_enough && control_planes.all(is_seen) && endpoints.all(|endpoint| endpoint.vip || endpoint.version.is_ok())
}

/// Returns true if a source other than Kubernetes names the machine. A talosconfig address at which another machine answers belongs to that
/// machine.
pub(crate) fn is_named_elsewhere(node: &Node) -> bool {
    let sources = node.sources;
    let is_others = matches!(MachineAccess::of(node), MachineAccess::Other(_));
    sources.discovery || sources.etcd || sources.flags || (sources.talosconfig && !is_others)
}

/// Returns true for a Node object whose machine discovery has forgotten: nothing answers at its address, or a machine known to discovery
/// answers there while Kubernetes does not report this node as ready.
fn is_stale_node_object(snapshot: &Snapshot, node: &Node, objects: &Objects<'_>) -> bool {
    let is_gone = || match MachineAccess::of(node) {
        MachineAccess::Closed(_) => is_seen_lost(node),
        MachineAccess::Other(other) => {
            objects.nodes.get(other).is_some_and(|other| other.sources.discovery)
                && !objects.by_name.get(node.name.as_str()).is_some_and(|object| says_ready(object))
        }
        MachineAccess::Open(_) => false,
    };
    node.sources.kubernetes && discovery_is_on(snapshot) && !is_named_elsewhere(node) && is_gone()
}

pub(super) fn control_planes<'a>(snapshot: &'a Snapshot, machines: &[Machine<'_>]) -> impl Iterator<Item = &'a Node> {
    // A role label proves nothing, because any user can label a node.
    let counts = |(node, machine): &(&Node, &Machine<'_>)| {
        node.role == Role::ControlPlane && !node.leaving && !machine.is_stale_discovery_member && !machine.is_guest
    };
    snapshot.nodes.iter().zip(machines).filter(counts).map(|(node, _)| node)
}

impl<'a> super::Assessment<'a> {
    /// Returns true if discovery lists the machines. Without it, a missing machine cannot be detected.
    pub(crate) fn discovery_is_on(&self) -> bool {
        discovery_is_on(self.snapshot)
    }

    /// Returns the control planes of the population: neither being removed, nor gone and listed only by discovery.
    pub(crate) fn control_planes(&self) -> impl Iterator<Item = &'a Node> {
        control_planes(self.snapshot, &self.machines)
    }

    /// Counts machines that the policy declares off and that no source names any more.
    pub(crate) fn forgotten_declarations(&self) -> usize {
        let is_forgotten = |entry: &&Declared| {
            self.excuse_state(&entry.excuse) == ExcuseState::Holds
                && !self.snapshot.nodes.iter().any(|node| node.is_called(&entry.name))
        };
        self.asked.policy.machines.iter().filter(is_forgotten).count()
    }

    /// Returns true if the user specified the nodes or their number.
    pub(crate) fn is_stated(&self) -> bool {
        let asked = &self.asked;
        !asked.control_plane_nodes.is_empty()
            || !asked.worker_nodes.is_empty()
            || asked.expect_control_planes.is_some()
            || asked.expect_workers.is_some()
    }

    pub(crate) fn is_outside_flags(&self, node: &Node) -> bool {
        is_outside_flags(self.snapshot, node)
    }

    /// Returns true if an empty pod list of kube-system is plausible when Talos is not queried: the namespace's workloads were read and
    /// want no pods, while another list of the namespace has objects.
    pub(crate) fn system_has_no_pods(&self) -> bool {
        let wants_none = |workloads: &'a Observed<Vec<Workload>>| {
            let here = |it: &&Workload| it.namespace == "kube-system";
            workloads.as_ref().is_ok_and(|all| all.iter().filter(here).all(|it| it.is_observed() && it.desired == 0))
        };
        let Some(kubernetes) = self.own_kubernetes.filter(|_| !self.asks_talos()) else { return false };
        let has_leases = kubernetes.system_leases.as_ref().is_ok_and(|leases| !leases.by_name.is_empty());
        let Kubernetes { daemon_sets, deployments, stateful_sets, .. } = kubernetes;
        has_leases && [daemon_sets, deployments, stateful_sets].into_iter().all(wants_none)
    }

    /// Returns the time since the first of the present Nodes was created.
    pub(crate) fn age_of_oldest_node(&self) -> Option<SignedDuration> {
        let created = self.list(|kubernetes| &kubernetes.nodes)?.iter().filter_map(|object| object.created);
        created.min().map(|oldest| self.server_time().duration_since(oldest))
    }

    /// Returns the names of the nodes with a mirror pod of the component. They are control planes regardless of their labels.
    pub(crate) fn hosts_of_mirrors(&self, component: &str) -> HashSet<&'a str> {
        let pods = self.snapshot.kubernetes.iter().flat_map(|kubernetes| kubernetes.pods.iter().flatten());
        pods.filter(|pod| pod.is_mirror_of(component)).filter_map(|pod| pod.node.as_deref()).collect()
    }

    /// Returns whether a machine counts.
    pub(crate) fn standing(&self, node: &Node) -> Standing {
        self.machine(node).standing
    }

    /// Returns true if the machine runs another system among Talos machines, regardless of its [`Standing`].
    pub(crate) fn is_guest(&self, node: &Node) -> bool {
        self.machine(node).is_guest
    }

    /// Returns true if the machine's own name differs from the one that its kubelet registered.
    pub(crate) fn has_another_name(&self, node: &Node) -> bool {
        let is_misnamed = |object: &KubeNode| is_machine(node, object) && !object.name.eq_ignore_ascii_case(&node.name);
        self.is_trusted() && self.object(node).is_some_and(is_misnamed)
    }

    /// Returns true if the kubelet's status may be outdated because Talos was queried and did not report the kubelet as healthy, unless the
    /// user has skipped that check.
    pub(crate) fn kubelet_is_doubtful(&self, node: &Node) -> bool {
        kubelet_is_bad(node) && !self.asked.skips(CheckId::TalosNodesKubelet)
    }

    /// Returns true if Kubernetes' status of this machine's pods may be outdated, because the kubelet is not known to report: on a machine
    /// that has just died, pods appear ready for a while. Ignored if the user has skipped the check for this.
    pub(crate) fn kubelet_is_silent(&self, node: &Node) -> bool {
        !self.kubelet_reports(self.name_in_kubernetes(node)) && !self.asked.skips(CheckId::K8sNodesReady)
    }
}

/// Returns the Talos version that the machine itself reports.
pub(crate) fn talos_version(node: &Node) -> Option<(u32, u32, u32)> {
    version::numbers(&contact(node)?.version.tag)
}

/// Returns true if Talos runs in a container, on a kernel, memory and disks that it does not control.
pub(crate) fn is_container(node: &Node) -> bool {
    contact(node).is_some_and(|contact| contact.version.mode == "container")
}

/// Returns true if this machine's Talos is older than `version`. A machine that reports no version is assumed to be new.
pub(crate) fn is_older(node: &Node, version: (u32, u32, u32)) -> bool {
    talos_version(node).is_some_and(|numbers| numbers < version)
}

/// Returns true if Talos was queried and did not report the kubelet as healthy.
pub(crate) fn kubelet_is_bad(node: &Node) -> bool {
    match &node.talos.services {
        Ok(_) => !service(node, "kubelet").is_some_and(Service::is_healthy),
        Err(gap) => gap.kind != GapKind::NotAsked,
    }
}

/// Returns true if the machine is shutting down, rebooting or being upgraded, and stops its services on purpose.
pub(crate) fn is_going_down(node: &Node) -> bool {
    let status = node.talos.machine_status.as_ref().ok().and_then(Option::as_ref);
    status.is_some_and(|status| !matches!(status.stage.as_str(), "running" | "booting"))
}

/// Returns true if Talos was queried and did not report etcd as healthy.
pub(crate) fn etcd_is_bad(node: &Node) -> bool {
    node.talos.services.is_ok() && !service(node, "etcd").is_some_and(Service::is_healthy)
}

/// Returns whether Kubernetes runs on this machine; `None` if unknown. Before Talos 1.14 it always does; a machine that lists no kubelet
/// has not yet started it.
pub(crate) fn has_kubernetes(node: &Node) -> Option<bool> {
    let always = talos_version(node).is_some_and(|version| version < (1, 14, 0));
    if always || matches!(node.talos.nodename, Ok(Some(_))) || service(node, "kubelet").is_some() {
        return Some(true);
    }
    let listed = node.talos.services.as_ref().is_ok_and(|services| !services.is_empty());
    (node.talos.nodename.is_ok() && listed).then_some(false)
}

/// Returns true if, without Talos, everything that was asked about a control plane has fallen silent: its kubelet has stopped renewing its
/// lease, and its API server does not answer.
pub(crate) fn is_silent_altogether(snapshot: &Snapshot, node: &Node) -> bool {
    let Some(kubernetes) = snapshot.kubernetes.as_ref().filter(|_| snapshot.talos.is_none()) else { return false };
    let renewal_of_node = kubernetes.node_leases.as_ref().map(|leases| renewal_of(leases, &node.name));
    let lapsed = renewal_of_node == Ok(Some(Renewal::Lapsed));
    let server = kubernetes.servers.get(&node.name);
    let own_leases =
        || kubernetes.system_leases.iter().flat_map(|leases| leases_of(leases, node).map(|it| (it, leases.date)));
    let moves = || own_leases().any(|(lease, _)| has_moved(lease));
    let renews = || own_leases().any(|(lease, date)| renewal(lease, date) == Renewal::Renewed);
    // Without an answer from any other server, the packets may be lost between here and all of them.
    let is_reached = kubernetes.servers.values().any(Result::is_ok);
    let is_silent = |gap: &Gap| match gap.kind {
        // The lease of an API server lasts for an hour.
        GapKind::ConnectionRefused => !moves(),
        GapKind::ConnectTimedOut | GapKind::NoRoute | GapKind::TimedOut => is_reached && !renews(),
        _ => false,
    };
    lapsed && server.is_some_and(|server| server.as_ref().is_err_and(is_silent))
}

/// Returns true if the machine does not answer and this says something about the machine: the endpoint works, so a timeout or its report
/// that the machine cannot be reached is due to the machine.
pub(crate) fn is_seen_lost(node: &Node) -> bool {
    use GapKind::{Maintenance, NodeUnreachable, NotAsked, TimedOut};
    node.talos.contact.as_ref().is_err_and(|gap| match gap.kind {
        NodeUnreachable | TimedOut | Maintenance => true,
        // The machine registered without an address at which it could be queried.
        NotAsked => node.addresses.is_empty(),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Sources;
    use crate::testing::fixture::{gap, healthy};

    #[test]
    fn what_may_have_the_data_of_etcd_has_to_be_seen() {
        let seen = |change: fn(&mut Snapshot)| {
            let mut snapshot = healthy();
            change(&mut snapshot);
            every_control_plane_was_seen(&snapshot)
        };
        assert!(seen(|_| {}));
        assert!(seen(|it| it.power_off("w-1")), "a worker has no data");
        assert!(!seen(|it| it.node_mut("cp-3").out_of_scope = true));
        assert!(!seen(|it| it.asked.expect_control_planes = Some(4)));
        assert!(!seen(|it| {
            it.power_off("w-1");
            it.node_mut("w-1").role = Role::Unknown;
        }));
        let silent = |it: &mut Snapshot| it.talos_of("cp-3").contact = gap(GapKind::NodeUnreachable);
        assert!(!seen(silent));
        let leaving = |it: &mut Snapshot| {
            it.talos_of("cp-3").contact = gap(GapKind::NodeUnreachable);
            it.node_mut("cp-3").leaving = true;
        };
        assert!(!seen(leaving), "a machine that is being removed has its data until then");
        let only_member = |it: &mut Snapshot| {
            it.talos_of("cp-3").contact = gap(GapKind::NodeUnreachable);
            it.node_mut("cp-3").sources = Sources { etcd: true, ..Sources::default() };
        };
        assert!(seen(only_member), "it is judged as a member");
        assert!(!seen(|it| it.talos_mut().endpoints[2].version = gap(GapKind::ConnectTimedOut)));
        let virtual_ip = |it: &mut Snapshot| {
            it.talos_mut().endpoints[2].version = gap(GapKind::ConnectTimedOut);
            it.talos_mut().endpoints[2].vip = true;
        };
        assert!(seen(virtual_ip));
    }
}
