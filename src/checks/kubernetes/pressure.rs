//! Resource pressure reported by kubelets, and the node's network.

use std::collections::{BTreeSet, HashMap};

use super::nodes::each_object_of;
use super::scheduling::is_uninitialized;
use super::{daemon_sets, pod_cidrs};
use crate::assess::Assessment;
use crate::assess::workloads::says_ready;
use crate::checks::Check;
use crate::checks::gaps::unseen;
use crate::checks::scope::GUEST;
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Verdict};
use crate::snapshot::{KubeNode, Node, Readiness, System};

pub(in crate::checks) const PRESSURE: Check = Check {
    id: CheckId::K8sNodesPressure,
    stage: Stage::Nodes,
    summary: "no node is short of memory, disk or process IDs, and each has its network",
    explain: "Reads the conditions MemoryPressure, DiskPressure and PIDPressure, which the kubelet sets when a resource runs \
out, and NetworkUnavailable, which network plugins and cloud providers set. A node under pressure evicts pods and takes no new \
ones, but stays Ready.\n\n\
A condition is as old as the kubelet's last report: a node with a kubelet that has stopped reporting is reported by \
k8s.nodes.ready instead. NetworkUnavailable exists only where something sets it; if it is Unknown on a Ready node, that is a \
warning.\n\n\
A node also needs an address, unless a cloud provider has yet to initialize the node, and podCIDRs that do not overlap those \
of another Node: if two Nodes have the same range, flannel routes one node's pods to the other. With another network plugin, \
which may not use podCIDRs, an overlap is a warning.\n\n\
flannel sends traffic for a node's pods to the address in the Node's annotation `flannel.alpha.coreos.com/public-ip`. If two \
Nodes have the same address, and both kubelets report, both fail: traffic for either of them reaches the same machine. An \
address that the machine does not \
have is a warning, unless it was set with the annotation `public-ip-overwrite`.\n\n\
`kubectl describe node NODE` shows the thresholds and events; `talosctl -n NODE memory` and `talosctl -n NODE mounts` show what \
is left.",
    severity: Severity::Fail,
    finds: &[Reason::NodeAddress, Reason::PodCidrShared, Reason::NodePressure, Reason::NoAnswer],
    facts: &[
        Fact::TalosNodes,
        Fact::Addresses,
        Fact::BootstrapManifests,
        Fact::KubeNodes,
        Fact::NodeLeases,
        Fact::DaemonSets,
    ],
    judge: pressure,
};

/// The conditions that `pressed` reads.
pub(super) const PRESSURES: [&str; 4] = ["MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"];

/// Returns the conditions with which the Node reports that it takes no pods.
pub(super) fn pressures(object: &KubeNode) -> impl Iterator<Item = &'static str> {
    let holds = |kind: &&str| object.condition(kind).is_some_and(|it| it.status == "True");
    PRESSURES.into_iter().filter(holds)
}

fn pressure(cluster: &Assessment<'_>) -> Verdict {
    // A range belongs to its Node until the Node is deleted, regardless of its state and operating system.
    let objects = cluster.list(|kubernetes| &kubernetes.nodes).into_iter().flatten();
    let overlaps = pod_cidrs::overlapping(objects.map(|object| (object.name.as_str(), &*object.pod_cidrs)));
    let of_flannel = overlay_addresses(cluster);
    let of_kubelets = internal_addresses(cluster);
    each_object_of(cluster, |node, object| {
        if cluster.is_guest(node) {
            let shared = overlaps.get(object.name.as_str()).map(|overlap| shared_range(cluster, overlap));
            let skip = || Outcome::Skip(GUEST.to_owned());
            return vec![shared.map_or_else(skip, Outcome::problem)];
        }
        let network = match overlaps.get(object.name.as_str()) {
            _ if has_no_address(node, object) => Some(no_address()),
            overlap => overlap.map(|overlap| shared_range(cluster, overlap)),
        };
        let network = network.into_iter().chain(odd_overlay(cluster, node, object, &of_flannel));
        let network = network.chain(shared_address(cluster, object, &of_kubelets)).map(Outcome::problem);
        match pressed(cluster, object) {
            // The Node's earlier report about itself is outdated once the kubelet is silent.
            pressed if pressed.is_unseen() => vec![pressed],
            Outcome::Pass(_) => network.collect(),
            pressed => [pressed].into_iter().chain(network).collect(),
        }
    })
}

/// Returns true if the Node should have an address but has none. Talos's kubelet registers with an address; other nodes may be reached by
/// name.
fn has_no_address(node: &Node, object: &KubeNode) -> bool {
    node.is_talos && !is_uninitialized(object) && object.addresses.is_empty()
}

fn no_address() -> Problem {
    Problem::fail(Reason::NodeAddress, "an InternalIP", "the Node has no address")
        .hint(Hint::run("{kubectl} get nodes -o wide", []))
}

fn shared_range(cluster: &Assessment<'_>, overlap: &str) -> Problem {
    let problem = Problem::fail(Reason::PodCidrShared, "podCIDRs of its own", overlap)
        .hint(Hint::likely("etcd was restored from a snapshot that is older than one of the two Nodes"))
        .hint(Hint::run("{kubectl} get nodes -o custom-columns=NAME:.metadata.name,CIDRS:.spec.podCIDRs", []));
    // Other network plugins may assign ranges of their own.
    let severity = if daemon_sets::flannel_is_wanted(cluster) { Severity::Fail } else { Severity::Warn };
    Problem { severity, ..problem }
}

/// The Nodes that have each address. An address with several Nodes leads to only one of them.
struct Holders<'a>(HashMap<&'a str, BTreeSet<&'a str>>);

impl<'a> Holders<'a> {
    fn of<A: IntoIterator<Item = &'a String>>(
        nodes: impl Iterator<Item = &'a KubeNode>,
        addresses: impl Fn(&'a KubeNode) -> A,
    ) -> Self {
        let mut holders: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        for node in nodes {
            for address in addresses(node) {
                holders.entry(address).or_default().insert(&node.name);
            }
        }
        Self(holders)
    }

    /// Returns another Node with this address of the Node. `None` if the Node itself does not count.
    fn other(&self, object: &KubeNode, address: &str) -> Option<&'a str> {
        let holders = self.0.get(address).filter(|holders| holders.contains(object.name.as_str()))?;
        holders.iter().copied().find(|other| *other != object.name)
    }
}

/// Returns Nodes that are alive, by the address to which flannel sends traffic for their pods. Nodes that no longer report are excluded
/// because another Node may have taken over the address, and guests because their claims cannot be trusted.
fn overlay_addresses<'a>(cluster: &Assessment<'a>) -> Holders<'a> {
    let objects = cluster.list(|kubernetes| &kubernetes.nodes).into_iter().flatten();
    let is_ours = |object: &KubeNode| cluster.machine_of(&object.name).is_none_or(|machine| !cluster.is_guest(machine));
    let alive = objects.filter(|object| cluster.kubelet_reports(&object.name) && is_ours(object));
    Holders::of(alive, |object| &object.overlay)
}

/// Returns Nodes that are alive, by InternalIP. With Talos `k8s.nodes.registered` compares the addresses with those of the machines.
fn internal_addresses<'a>(cluster: &Assessment<'a>) -> Holders<'a> {
    let objects = cluster.list(|kubernetes| &kubernetes.nodes).into_iter().flatten().filter(|_| !cluster.asks_talos());
    let alive = objects.filter(|it| it.system() != System::Virtual && cluster.kubelet_reports(&it.name));
    Holders::of(alive, |object| &object.internal)
}

fn shared_address(cluster: &Assessment<'_>, object: &KubeNode, holders: &Holders<'_>) -> Option<Problem> {
    let (address, other) =
        object.internal.iter().find_map(|address| Some((address, holders.other(object, address)?)))?;
    let observed = format!("InternalIP {address} is also that of {other}");
    let problem = Problem::fail(Reason::NodeAddress, "an InternalIP of its own", observed)
        .hint(Hint::likely("a cloned machine, or two machines that have been given the same address"))
        .hint(Hint::run("{kubectl} get nodes -o wide", []));
    // Clouds reuse the addresses of Nodes that are being removed.
    let is_leaving = |name: &str| cluster.machine_of(name).is_some_and(|node| node.leaving);
    let severity = if is_leaving(&object.name) || is_leaving(other) { Severity::Warn } else { Severity::Fail };
    Some(Problem { severity, ..problem })
}

fn odd_overlay(cluster: &Assessment<'_>, node: &Node, object: &KubeNode, holders: &Holders<'_>) -> Option<Problem> {
    if !cluster.kubelet_reports(&object.name) {
        return None;
    }
    let look = "{kubectl} get nodes -o custom-columns=NAME:.metadata.name,FLANNEL:.metadata.annotations.flannel\\.alpha\\.coreos\\.com/public-ip";
    let shared = object.overlay.iter().find_map(|address| {
        let other = holders.other(object, address)?;
        Some(format!("flannel's public-ip is {address}, which is also that of {other}"))
    });
    if let Some(observed) = shared {
        // The annotation may be left over from a network plugin that was replaced.
        let severity = if daemon_sets::flannel_is_wanted(cluster) { Severity::Fail } else { Severity::Warn };
        let problem = Problem::fail(Reason::NodeAddress, "a public-ip of its own for flannel", observed)
            .hint(Hint::likely(
                "flannel has taken the address of a link that is the same on both, such as a hypervisor's NAT",
            ))
            .hint(Hint::run(look, []));
        return Some(Problem { severity, ..problem });
    }
    let links = node.talos.link_addresses.as_ref().ok().filter(|_| !object.overlay_is_set)?;
    let is_own = |address: &String| {
        let of_machine = node.own_addresses.contains(address) || object.addresses.contains(address);
        of_machine || links.iter().any(|it| it.address == *address)
    };
    let foreign = object.overlay.iter().find(|address| !is_own(address))?;
    daemon_sets::flannel_is_wanted(cluster).then_some(())?;
    let observed = format!("flannel's public-ip {foreign} is not an address of the machine");
    Some(Problem::warn(Reason::NodeAddress, "a public-ip that the machine has", observed).hint(Hint::run(look, [])))
}

/// Judges the kubelet's conditions for each resource, and the network condition, which other components may set.
fn pressed(cluster: &Assessment<'_>, object: &KubeNode) -> Outcome {
    let expected = "no pressure on memory, disk and process IDs, and a network";
    let mut wrong = Vec::new();
    let mut untold = Vec::new();
    let mut unknown_network = None;
    for kind in PRESSURES {
        match object.condition(kind) {
            Some(condition) if condition.status == "False" => {}
            Some(condition) if condition.status == "True" => {
                wrong.push(condition.told_as(kind));
            }
            // The component that sets the condition does not know, but the kubelet does, and reports the node as ready.
            Some(condition) if kind == "NetworkUnavailable" && condition.status == "Unknown" && says_ready(object) => {
                unknown_network = Some(condition.told_as(&format!("{kind} is Unknown")));
            }
            Some(condition) => untold.push(format!("{kind} is {}", condition.status)),
            None if kind == "NetworkUnavailable" => {}
            None => untold.push(format!("there is no condition {kind}")),
        }
    }
    if !wrong.is_empty() {
        let problem = Problem::fail(Reason::NodePressure, expected, wrong.join("; "));
        return Outcome::problem(problem.hint(Hint::run("{kubectl} describe node {}", [&object.name])));
    }
    // Conditions from before the kubelet fell silent do not show the present state.
    if object.readiness() == Readiness::Unknown || !cluster.kubelet_reports(&object.name) {
        return unseen(Reason::NodeLeaseStale, expected, "its kubelet has stopped reporting");
    }
    if !untold.is_empty() {
        return Outcome::problem(Problem::error(Reason::NoAnswer, expected, untold.join("; ")));
    }
    match unknown_network {
        Some(observed) => Outcome::problem(Problem::warn(Reason::NoAnswer, expected, observed)),
        None => Outcome::Pass(None),
    }
}
