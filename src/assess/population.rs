//! Which of the machines that some source names count, and what is known of each.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::access::{MachineAccess, TalosAccess, contact, service};
use super::declared::{self, Declaration};
use super::identity::{Identity, is_machine};
use super::standing::{NotJudged, Standing};
use super::workloads::says_ready;
use crate::model::{CheckId, Role};
use crate::snapshot::{
    Declared, ExcuseState, Gap, GapKind, KubeNode, Kubernetes, Node, Observed, Service, Snapshot, System, Workload,
};
use crate::text::version;

/// A machine of the population.
pub(crate) struct Machine<'a> {
    pub(crate) standing: Standing,
    /// Whether the machine runs another system among Talos machines, or is a virtual node among machines: its Node object says so, and
    /// nothing names it as a Talos machine.
    pub(crate) is_guest: bool,
    /// Talos works, and this machine does not answer it: it is down or cut off.
    pub(crate) talos_unreachable: bool,
    pub(crate) is_stale_discovery_member: bool,
    /// Known to Kubernetes alone, and gone.
    pub(crate) is_stale_node_object: bool,
    /// The machine's Node object.
    pub(crate) object: Option<&'a KubeNode>,
    /// What a policy says of the machine.
    pub(crate) declaration: Option<Declaration<'a>>,
}

pub(super) fn machines<'a>(snapshot: &'a Snapshot, talos: &TalosAccess<'a>, identity: &Identity) -> Vec<Machine<'a>> {
    let listed = snapshot.kubernetes.as_ref().and_then(|kubernetes| kubernetes.nodes.as_ref().ok());
    let objects = Objects::of(snapshot, listed.map_or(&[], Vec::as_slice));
    let removed = Removed::of(snapshot, listed, identity);
    let has_talos = snapshot.nodes.iter().any(|node| node.is_talos);
    let has_machines = has_talos || listed.into_iter().flatten().any(|object| object.system() != System::Virtual);
    let machine = |node: &'a Node| {
        let is_another = match objects.by_name.get(node.name.as_str()).map(|object| object.system()) {
            Some(System::Another | System::Talos) => has_talos,
            // Of nothing but virtual nodes, each counts.
            Some(System::Virtual) => has_machines,
            Some(System::Untold) | None => false,
        };
        let is_guest = is_another && !is_named_as_talos(node);
        let is_stale_discovery_member = removed.has(node);
        let object = objects.of_machine(node);
        let declaration = declared::of(snapshot, talos, node, object);
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

/// Discovery, its own answer or its Node object calls it a Talos machine, a member of Talos' etcd runs on it, or the user names it.
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

/// Node objects, so that no machine is compared with all of them.
struct Objects<'a> {
    /// The machines themselves.
    nodes: HashMap<&'a str, &'a Node>,
    by_name: HashMap<&'a str, &'a KubeNode>,
    /// Node objects whose name is not a machine's, by machine ID and by address: the first of each, with its index.
    by_id: HashMap<&'a str, (usize, &'a KubeNode)>,
    by_address: HashMap<&'a str, (usize, &'a KubeNode)>,
}

impl<'a> Objects<'a> {
    fn of(snapshot: &'a Snapshot, objects: &'a [KubeNode]) -> Self {
        // The first of a name counts.
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

    /// Finds a machine's Node object by name, otherwise by machine ID or address. Machines can share an address (a virtual IP, a
    /// NAT's), so an object with another machine's name does not count.
    fn of_machine(&self, node: &Node) -> Option<&'a KubeNode> {
        let by_id = || node.machine_ids().filter_map(|id| self.by_id.get(id.as_str())).min_by_key(|(at, _)| at);
        let by_address =
            || node.addresses.iter().filter_map(|it| self.by_address.get(it.as_str())).min_by_key(|(at, _)| at);
        let other = || by_id().or_else(by_address).map(|(_, object)| *object);
        self.by_name.get(node.name.as_str()).copied().or_else(other)
    }
}

/// Discovery lists a machine for up to half an hour after it is gone. To call it that takes proof: Kubernetes and etcd were
/// both read and do not know it, the expected numbers are met without it, and nothing came from its address in this run, no refusal
/// either, unless somebody was removing it then.
struct Removed<'a> {
    snapshot: &'a Snapshot,
    /// Names and addresses of Node objects and of etcd members.
    known: HashSet<Cow<'a, str>>,
    is_possible: bool,
    /// Every control plane that others than discovery know was asked for its members, and told them.
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
            // What runs etcd and Kubernetes for all others is not called gone as long as anything speaks against it.
            && (node.role == Role::Worker || (self.members_are_complete && !lives(self.snapshot, node)))
            && (!self.has_answered(node) || self.snapshot.memory.leaving.contains(&node.name))
            && !node.addresses.iter().chain([&node.name]).any(|known| self.known.contains(known.as_str()))
    }

    /// A machine that never managed to join refuses connections, too: its Talos API has no certificate yet.
    fn has_answered(&self, node: &Node) -> bool {
        self.snapshot.memory.answered.contains(&node.name)
            || node.talos.contact.as_ref().is_err_and(Gap::is_refused_connection)
    }
}

/// A machine that does not answer for itself on the Talos API has shown that it is there.
pub(super) fn lives(snapshot: &Snapshot, node: &Node) -> bool {
    let server = snapshot.kubernetes.iter().find_map(|kubernetes| kubernetes.servers.get(&node.name));
    let refuses = |gap: &Gap| gap.kind == GapKind::Maintenance || gap.is_refused_certificate();
    server.is_some_and(Result::is_ok)
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

/// Whether the node flags for the machine's role leave it out. They define the population of that role; other machines are only listed.
fn is_outside_flags(snapshot: &Snapshot, node: &Node) -> bool {
    let asked = &snapshot.asked;
    let (control_planes, workers) = (!asked.control_plane_nodes.is_empty(), !asked.worker_nodes.is_empty());
    // Who names machines of one role says nothing of the other.
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

/// Whether anybody else than Kubernetes names it. An address of the talosconfig at which another machine answers is that one's.
pub(crate) fn is_named_elsewhere(node: &Node) -> bool {
    let sources = node.sources;
    let is_others = matches!(MachineAccess::of(node), MachineAccess::Other(_));
    sources.discovery || sources.etcd || sources.flags || (sources.talosconfig && !is_others)
}

/// A Node object whose machine discovery has forgotten: nobody answers at its address, or a machine that discovery knows, while
/// Kubernetes does not call this one ready.
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
    // Anybody may label a node.
    let counts = |(node, machine): &(&Node, &Machine<'_>)| {
        node.role == Role::ControlPlane && !node.leaving && !machine.is_stale_discovery_member && !machine.is_guest
    };
    snapshot.nodes.iter().zip(machines).filter(counts).map(|(node, _)| node)
}

impl<'a> super::Assessment<'a> {
    /// Whether discovery tells which machines there are. Where it is off, nobody can tell that it misses one.
    pub(crate) fn discovery_is_on(&self) -> bool {
        discovery_is_on(self.snapshot)
    }

    /// Control planes of the population: neither being removed, nor gone and listed by discovery alone.
    pub(crate) fn control_planes(&self) -> impl Iterator<Item = &'a Node> {
        control_planes(self.snapshot, &self.machines)
    }

    /// Machines that the policy declares off and that no source names any more.
    pub(crate) fn forgotten_declarations(&self) -> usize {
        let is_forgotten = |entry: &&Declared| {
            self.excuse_state(&entry.excuse) == ExcuseState::Holds
                && !self.snapshot.nodes.iter().any(|node| node.is_called(&entry.name))
        };
        self.asked.policy.machines.iter().filter(is_forgotten).count()
    }

    /// The user said which nodes there should be, or how many.
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

    /// Whether an empty list of the pods of kube-system is an answer, where Talos is not asked: the workloads of that namespace were read
    /// and want no pods, while another list of it has objects.
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

    /// Names of the nodes with such a static pod: control planes, whatever their labels are.
    pub(crate) fn hosts_of_mirrors(&self, component: &str) -> HashSet<&'a str> {
        let pods = self.snapshot.kubernetes.iter().flat_map(|kubernetes| kubernetes.pods.iter().flatten());
        pods.filter(|pod| pod.is_mirror_of(component)).filter_map(|pod| pod.node.as_deref()).collect()
    }

    /// Whether a machine counts.
    pub(crate) fn standing(&self, node: &Node) -> Standing {
        self.machine(node).standing
    }

    /// Whether the machine runs another system among Talos machines, regardless of its [`Standing`].
    pub(crate) fn is_guest(&self, node: &Node) -> bool {
        self.machine(node).is_guest
    }

    /// The machine calls itself otherwise than its kubelet has registered.
    pub(crate) fn has_another_name(&self, node: &Node) -> bool {
        let is_misnamed = |object: &KubeNode| is_machine(node, object) && !object.name.eq_ignore_ascii_case(&node.name);
        self.is_trusted() && self.object(node).is_some_and(is_misnamed)
    }

    /// What the kubelet of this machine has said may be old: Talos was asked and did not say that it is well. Unless the user
    /// has switched that check off.
    pub(crate) fn kubelet_is_doubtful(&self, node: &Node) -> bool {
        kubelet_is_bad(node) && !self.asked.skipped.contains(&CheckId::TalosNodesKubelet)
    }

    /// What Kubernetes says of this machine's pods is as old as its kubelet's last word: on a machine that has just died they stay
    /// ready for a while. Unless the user has switched off the check that tells.
    pub(crate) fn kubelet_is_silent(&self, node: &Node) -> bool {
        !self.kubelet_reports(self.name_in_kubernetes(node)) && !self.asked.skipped.contains(&CheckId::K8sNodesReady)
    }
}

/// The version of Talos that the machine itself has told.
pub(crate) fn talos_version(node: &Node) -> Option<(u32, u32, u32)> {
    version::numbers(&contact(node)?.version.tag)
}

/// Talos runs in a container, on a kernel, memory and disks of somebody else's.
pub(crate) fn is_container(node: &Node) -> bool {
    contact(node).is_some_and(|contact| contact.version.mode == "container")
}

/// Talos of this machine is older than `version`. One that tells no version is taken for new.
pub(crate) fn is_older(node: &Node, version: (u32, u32, u32)) -> bool {
    talos_version(node).is_some_and(|numbers| numbers < version)
}

/// Talos was asked and did not say that the kubelet is well.
pub(crate) fn kubelet_is_bad(node: &Node) -> bool {
    match &node.talos.services {
        Ok(_) => !service(node, "kubelet").is_some_and(Service::is_healthy),
        Err(gap) => gap.kind != GapKind::NotAsked,
    }
}

/// The machine is on its way down or to another version, and stops its services on purpose.
pub(crate) fn is_going_down(node: &Node) -> bool {
    let status = node.talos.machine_status.as_ref().ok().and_then(Option::as_ref);
    status.is_some_and(|status| !matches!(status.stage.as_str(), "running" | "booting"))
}

/// Talos was asked and did not say that etcd is well.
pub(crate) fn etcd_is_bad(node: &Node) -> bool {
    node.talos.services.is_ok() && !service(node, "etcd").is_some_and(Service::is_healthy)
}

/// Whether Kubernetes runs on this machine; `None` if it has not told. Before Talos 1.14 it always does, and a machine that
/// lists no kubelet has not got so far.
pub(crate) fn has_kubernetes(node: &Node) -> Option<bool> {
    let always = talos_version(node).is_some_and(|version| version < (1, 14, 0));
    if always || matches!(node.talos.nodename, Ok(Some(_))) || service(node, "kubelet").is_some() {
        return Some(true);
    }
    let listed = node.talos.services.as_ref().is_ok_and(|services| !services.is_empty());
    (node.talos.nodename.is_ok() && listed).then_some(false)
}

/// The machine does not answer, and that says something of the machine: the endpoint works, so its word that it does not get
/// through, and silence, are the machine's.
pub(crate) fn is_seen_lost(node: &Node) -> bool {
    use GapKind::{Maintenance, NodeUnreachable, NotAsked, TimedOut};
    node.talos.contact.as_ref().is_err_and(|gap| match gap.kind {
        NodeUnreachable | TimedOut | Maintenance => true,
        // It has registered without an address at which it could be asked.
        NotAsked => node.addresses.is_empty(),
        _ => false,
    })
}
