//! Checks of the nodes as Kubernetes reports them.

use std::collections::{HashMap, HashSet};

use super::{is_old, node_objects, undated};
use crate::assess::workloads::{Renewal, says_ready};
use crate::assess::{Assessment, contact, has_kubernetes, is_named_elsewhere};
use crate::checks::Check;
use crate::checks::gaps::{self, listed, needs_no_object, talos_contact, talos_way, unregistered, unseen};
use crate::checks::scope::{OFF_OR_GONE, declared_off, is_narrowed, reason_not_judged, reason_not_judged_as_talos};
use crate::checks::stated;
use crate::model::{CheckId, Fact, Hint, Kind, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{Condition, KubeNode, Leases, Node, Readiness, System};
use crate::text::some;

pub(in crate::checks) const REGISTERED: Check = Check {
    id: CheckId::K8sNodesRegistered,
    stage: Stage::Nodes,
    summary: "every Talos machine with Kubernetes is a Node, and every Talos Node is a machine",
    explain: "Compares the machines that Talos knows with the Node objects, by name and by any address. A machine that is \
missing runs no workload although it looks healthy to Talos; a Node object without a machine keeps pods and volumes bound to a \
machine that no longer exists.\n\n\
A machine is missing when its kubelet cannot register: the endpoint is not reachable from the node, its certificate request \
was not approved, or another node uses the same name. An object is stale when a machine was removed without `kubectl delete \
node`. A machine that was renamed may still be registered under its old name; it is recognized by its machine ID.\n\n\
The InternalIP of a Node has to be an address of its machine and of no other Node: the API server reaches the kubelet there, \
and the network plugin the pods. The check fails if Talos lists other addresses for the machine and the machine does not \
answer at this one. The InternalIP is not checked where Talos lists no addresses.\n\n\
For a missing node look at the kubelet (`talosctl -n NODE logs kubelet`) and at `kubectl get csr`. Delete a stale object only \
when you are sure that the machine is gone.",
    severity: Severity::Fail,
    finds: &[
        Reason::NodeMissing,
        Reason::NodeUnknown,
        Reason::NodesContradict,
        Reason::NodeUnexpected,
        Reason::StaleNodeObject,
        Reason::NodeNotRegistered,
        Reason::NodenameMismatch,
        Reason::DuplicateName,
        Reason::NodeAddress,
    ],
    facts: &[Fact::TalosNodes, Fact::KubeNodes],
    judge: registered,
};

pub(in crate::checks) const READY: Check = Check {
    id: CheckId::K8sNodesReady,
    stage: Stage::Nodes,
    summary: "every node is Ready, and its kubelet renews its lease",
    explain: "The Ready condition exists and is True, and the kubelet renews the node's lease. Kubernetes notices a dead \
kubelet only after about 50 seconds and shows the node as Ready until then; the lease, renewed every 10 seconds, shows it \
sooner. A lease that looks stale is read again before it counts. A node that was not Ready, or was rebooted, between two \
rounds is a warning, and breaks `--stable-for`.\n\n\
`cni plugin not initialized` means that no network plugin is installed or that it does not start: with CNI `none` nodes stay \
NotReady until you install one. `NodeStatusUnknown` means that the kubelet has stopped reporting; then look at the machine and \
its kubelet (talos.nodes.reachable, talos.nodes.kubelet).\n\n\
--max-unready-workers tolerates some workers that are not ready and reports each as a warning. Control planes are never \
tolerated. Nodes that are not Talos machines only warn.",
    severity: Severity::Fail,
    finds: &[
        Reason::NodeRebooted,
        Reason::NodeNotReady,
        Reason::NodeLeaseStale,
        Reason::NodeFlapping,
        Reason::CniMissing,
        Reason::NotTalosNotReady,
        Reason::TooManyUnready,
    ],
    facts: &[Fact::TalosNodes, Fact::KubeNodes, Fact::NodeLeases],
    judge: ready,
};

fn registered(cluster: &Assessment<'_>) -> Verdict {
    if !cluster.asks_talos() && cluster.asks_kubernetes() && !cluster.is_stated() && cluster.asked.nodes.is_empty() {
        return Verdict::skipped("--no-talos: nothing to compare with");
    }
    let objects = match node_objects(cluster, "the list of nodes") {
        Ok(objects) => objects,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut verdict = Verdict::default();
    if !cluster.asks_talos() {
        stated::differences(cluster, &mut verdict);
        for node in cluster.nodes().iter().filter(|node| !node.leaving && cluster.is_outside_flags(node)) {
            verdict.problem(node.target(), stated::left_out(cluster, node));
        }
        for node in cluster.nodes().iter().filter(|node| stated::is_unlisted(cluster, node)) {
            verdict.problem(node.target(), stated::unknown(cluster, &node.name));
        }
        if verdict.findings.is_empty() {
            verdict.ok(Target::cluster());
        }
        return verdict;
    }
    let holders = Holders::of(cluster, objects);
    for node in cluster.nodes() {
        verdict.push(node.target(), registration(cluster, node, &holders));
    }
    verdict
}

fn registration(cluster: &Assessment<'_>, node: &Node, holders: &Holders<'_>) -> Outcome {
    if let Some(why) = reason_not_judged_as_talos(cluster, node) {
        // A machine that is declared off may still not have a second identity or another machine's address.
        let is_off = declared_off(cluster, node).is_some() && !cluster.is_guest(node);
        let object = cluster.object(node).filter(|_| is_off);
        let odd = object.and_then(|object| odd_registration(cluster, node, object, holders));
        return odd.map_or_else(|| Outcome::Skip(why.to_owned()), Outcome::problem);
    }
    if let Some(object) = cluster.object(node) {
        return match whose(cluster, node, object) {
            Outcome::Pass(_) => {
                odd_registration(cluster, node, object, holders).map_or(Outcome::Pass(None), Outcome::problem)
            }
            outcome => outcome,
        };
    }
    if let Some(outcome) = needs_no_object(node) {
        return outcome;
    }
    match has_kubernetes(node) {
        Some(_) => {
            let own = node.talos.nodename.iter().flatten().next();
            let namesake = own.filter(|own| **own != node.name).and_then(|own| cluster.node(own));
            let (observed, why) = match namesake {
                Some(other) => (
                    format!("the Node with its hostname belongs to the machine at {}", other.address),
                    "two machines have this hostname: give this one a name of its own",
                ),
                None => (
                    "no Node matches its name or addresses".to_owned(),
                    "its kubelet cannot reach the API server, or Kubernetes does not accept its certificate or token",
                ),
            };
            let problem = Problem::fail(Reason::NodeNotRegistered, "a Node object", observed)
                .hint(Hint::likely(why))
                .hint(Hint::run("{talosctl} -n {} logs kubelet", [&node.address]));
            Outcome::problem(problem)
        }
        None => match (talos_contact(cluster, node), &node.talos.nodename) {
            // Kubernetes' list is conclusive even if Talos cannot query the machine.
            (Err(_), _) if talos_way(cluster).is_ok() && (node.sources.discovery || node.sources.flags) => {
                let problem =
                    Problem::fail(Reason::NodeNotRegistered, "a Node object", "no Node matches its name or addresses");
                Outcome::problem(problem.hint(Hint::run("{kubectl} get nodes -o wide", [])))
            }
            (Err(outcome), _) => outcome,
            (Ok(_), Err(gap)) => Outcome::problem(gaps::talos(gap, "the node's name in Kubernetes")),
            (Ok(_), Ok(_)) => {
                let problem = Problem::error(Reason::NoAnswer, "whether it runs a kubelet", "its services are unknown");
                Outcome::problem(problem)
            }
        },
    }
}

/// Judges whether a Node belongs to a machine. A Node that no Talos source knows is stale, unless its kubelet reports that it is ready.
/// Without discovery this is unknown.
fn whose(cluster: &Assessment<'_>, node: &Node, object: &KubeNode) -> Outcome {
    let known = contact(node).is_some() || is_named_elsewhere(node);
    if known || says_ready(object) {
        return Outcome::Pass(None);
    }
    if cluster.discovery_is_on() {
        let problem = Problem::fail(Reason::StaleNodeObject, "a machine that Talos knows", "a Node object, not ready")
            .hint(Hint::likely(OFF_OR_GONE))
            .hint(Hint::run("{kubectl} describe node {}", [&object.name]));
        return Outcome::problem(problem);
    }
    let untold = || unseen(Reason::NoAnswer, "a machine that Talos knows", "not in discovery");
    talos_contact(cluster, node).err().unwrap_or_else(untold)
}

/// Reports a Node that belongs to the machine but contains wrong information about it.
fn odd_registration(
    cluster: &Assessment<'_>,
    node: &Node,
    object: &KubeNode,
    holders: &Holders<'_>,
) -> Option<Problem> {
    let address = node.address.as_str();
    if cluster.has_another_name(node) {
        let observed = format!("it has registered as `{}`", object.name);
        let problem = Problem::fail(Reason::NodenameMismatch, format!("a Node `{}`", node.name), observed)
            .hint(Hint::likely("its hostname has changed since its kubelet registered"))
            .hint(Hint::run("{talosctl} -n {} get nodename", [address]))
            .hint(Hint::run("{talosctl} -n {} get hostnamestatus", [address]));
        return Some(problem);
    }
    let elsewhere = foreign_address(node, object, holders).or_else(|| shared_address(node, object, holders));
    if let Some(observed) = elsewhere {
        let problem = Problem::fail(Reason::NodeAddress, "an InternalIP that is the machine's own", observed)
            .hint(Hint::run("{talosctl} -n {} get nodeips", [address]))
            .hint(Hint::run("{talosctl} -n {} get addresses", [address]))
            .hint(Hint::run("{kubectl} get nodes -o wide", []));
        return Some(problem);
    }
    let told = node.machine_id.as_ref().filter(|_| !object.machine_id.is_empty());
    told.filter(|id| **id != object.machine_id)?;
    let at = node.own_addresses.join(", ");
    let (observed, likely) = if object.internal.iter().any(|address| node.own_addresses.contains(address)) {
        (
            format!("discovery lists this name with another machine ID, at the same address, {at}"),
            "the machine was reinstalled: then discovery forgets its old ID within 30 minutes",
        )
    } else {
        (
            format!("discovery lists another machine with this name, at {at}"),
            "two machines have this hostname, or the machine was reinstalled: then discovery forgets the old one within 30 minutes",
        )
    };
    let problem = Problem::warn(Reason::DuplicateName, "one machine of this name", observed)
        .hint(Hint::likely(likely))
        .hint(Hint::run("{talosctl} -n {} get affiliates", [address]));
    Some(problem)
}

/// Describes InternalIP addresses that are not among the addresses reported by Talos and at which the machine did not answer. With address
/// translation, it does answer at such an address.
fn foreign_address(node: &Node, object: &KubeNode, holders: &Holders<'_>) -> Option<String> {
    let contact = contact(node)?;
    let is_own = |address: &String| node.own_addresses.contains(address) || contact.address == *address;
    if node.own_addresses.is_empty() || object.internal.is_empty() || object.internal.iter().any(is_own) {
        return None;
    }
    let whose = object.internal.iter().filter_map(|address| holders.own.get(address.as_str()));
    let whose = whose.min_by_key(|(at, _)| at);
    let whose = whose.map_or_else(String::new, |(_, other)| format!(", an address of {}", other.name));
    let own = node.own_addresses.join(", ");
    Some(format!("{}{whose}; the machine has {own}", object.internal.join(", ")))
}

/// Describes an InternalIP that another Node has as well. If only one of the two machines has the address, the other gets the finding.
fn shared_address(node: &Node, object: &KubeNode, holders: &Holders<'_>) -> Option<String> {
    let others = object.internal.iter().filter(|address| may_have(node, address)).filter_map(|address| {
        let all = holders.registered.get(address.as_str())?;
        let other = all.iter().find(|(_, other)| other.name != object.name)?;
        Some((address, other))
    });
    let (shared, (_, other)) = others.min_by_key(|(_, (at, _))| at)?;
    Some(format!("{shared}, which is also that of {}", other.name))
}

fn may_have(node: &Node, address: &String) -> bool {
    node.own_addresses.is_empty() || node.own_addresses.contains(address)
}

/// Holders of each address, with their positions, so that no machine has to be compared with all others.
struct Holders<'a> {
    /// The first machine that has the address itself.
    own: HashMap<&'a str, (usize, &'a Node)>,
    /// The first two Nodes that are alive, have the address as an InternalIP, and whose machines may have it; one of the Nodes is wrong.
    /// Nodes that are not alive are excluded because clouds reuse the address of a deleted machine while its Node is still being removed.
    registered: HashMap<&'a str, Vec<(usize, &'a KubeNode)>>,
}

impl<'a> Holders<'a> {
    fn of(cluster: &'a Assessment<'a>, objects: &'a [KubeNode]) -> Self {
        let mut holders = Self { own: HashMap::new(), registered: HashMap::new() };
        for (at, node) in cluster.nodes().iter().enumerate() {
            for address in &node.own_addresses {
                holders.own.entry(address).or_insert((at, node));
            }
        }
        for (at, object) in objects.iter().enumerate() {
            let Some(machine) = cluster.machine_of(&object.name) else { continue };
            let is_judged = machine.is_talos && !object.deleting && reason_not_judged(cluster, machine).is_none();
            let holds = if is_judged {
                matches!(whose(cluster, machine, object), Outcome::Pass(_))
            } else {
                // A virtual kubelet is not a machine, and reports the address of its pod.
                object.system() != System::Virtual && object.readiness() != Readiness::Unknown
            };
            if !holds {
                continue;
            }
            // A machine that is not judged has no verdict of its own, so the machine whose address it reports gets the finding.
            for address in object.internal.iter().filter(|address| !is_judged || may_have(machine, address)) {
                let all = holders.registered.entry(address).or_default();
                if all.len() < 2 && all.iter().all(|(_, other)| other.name != object.name) {
                    all.push((at, object));
                }
            }
        }
        holders
    }
}

/// Judges the Node object of each machine.
pub(super) fn each_object(cluster: &Assessment<'_>, judge: impl Fn(&Node, &KubeNode) -> Outcome) -> Verdict {
    each_object_of(cluster, |node, object| vec![judge(node, object)])
}

/// Judges the Node object of each machine, with any number of outcomes, so that a tolerated problem does not hide another.
pub(super) fn each_object_of(cluster: &Assessment<'_>, judge: impl Fn(&Node, &KubeNode) -> Vec<Outcome>) -> Verdict {
    if let Err(outcome) = node_objects(cluster, "the list of nodes") {
        return Verdict::whole(outcome);
    }
    let mut verdict = Verdict::default();
    for node in cluster.nodes() {
        let outcomes = match (reason_not_judged(cluster, node), cluster.object(node)) {
            (Some(why), _) => vec![Outcome::Skip(why.to_owned())],
            (None, Some(object)) => judge(node, object),
            (None, None) => vec![unregistered(node)],
        };
        if outcomes.is_empty() {
            verdict.ok(node.target());
        }
        for outcome in outcomes {
            verdict.push(node.target(), outcome);
        }
    }
    verdict
}

/// Maximum number of guests that are named.
const NAMED: usize = 3;

fn ready(cluster: &Assessment<'_>) -> Verdict {
    let mut verdict = each_object(cluster, |node, object| readiness(cluster, node, object));
    let guests = cluster.nodes().iter().filter(|node| cluster.is_guest(node)).map(|node| node.name.as_str());
    let guests: Vec<&str> = guests.collect();
    if !guests.is_empty() {
        let words = "nodes that are not Talos machines (only Ready counts)";
        verdict.leave_out(format!("{words}: {}", some(guests.into_iter(), NAMED)));
    }
    if cluster.has_no_leases() {
        verdict.leave_out(
            "whether the kubelets are alive: no Node has a lease, so only the Ready condition of each counts",
        );
    }
    let leases = cluster.list(|kubernetes| &kubernetes.node_leases);
    if let Some(problem) = leases.and_then(|leases| is_old(cluster, cluster.memory.node_leases.as_ref(), leases)) {
        verdict.problem(Target::cluster(), problem);
    }
    // Every Node object belongs to the population; any other would not be judged.
    let objects = cluster.list(|kubernetes| &kubernetes.nodes).into_iter().flatten();
    let names: HashSet<&str> = cluster.nodes().iter().map(|node| node.name.as_str()).collect();
    let ids: HashSet<&String> = cluster.nodes().iter().flat_map(Node::machine_ids).collect();
    let addresses: HashSet<&String> = cluster.nodes().iter().flat_map(|node| &node.addresses).collect();
    let is_known = |object: &KubeNode| {
        names.contains(object.name.as_str())
            || ids.contains(&object.machine_id)
            || object.addresses.iter().any(|address| addresses.contains(address))
    };
    for object in objects.filter(|object| !is_known(object)) {
        let problem = Problem::error(Reason::NodeUnexpected, "a known node", "no source lists it");
        verdict.problem(Target::new(Kind::Node, object.name.as_str()), problem);
    }
    verdict
}

fn readiness(cluster: &Assessment<'_>, node: &Node, object: &KubeNode) -> Outcome {
    let problem = match object.condition("Ready") {
        Some(condition) if condition.status == "True" => match lease(cluster, object) {
            Ok(()) if cluster.is_guest(node) => return Outcome::Pass(None),
            Ok(()) => match interrupted(cluster, object, condition) {
                Some(problem) => problem,
                None => return Outcome::Pass(Some(format!("Node {}: Ready", object.name))),
            },
            Err(Outcome::Problem(problem)) if problem.reason == Reason::NodeLeaseStale => *problem,
            Err(outcome) => return outcome,
        },
        Some(condition) => not_ready(condition),
        None => Problem::fail(Reason::NodeNotReady, "condition Ready is True", "there is no such condition"),
    };
    let problem = problem.hint(Hint::run("{kubectl} describe node {}", [&object.name]));
    if cluster.is_guest(node) {
        // A user who names the node with `--nodes` expects it to be judged.
        let severity = if is_narrowed(cluster) { Severity::Fail } else { Severity::Warn };
        return Outcome::problem(Problem { reason: Reason::NotTalosNotReady, severity, ..problem });
    }
    Outcome::problem(match contact(node) {
        Some(_) => problem.hint(Hint::run("{talosctl} -n {} logs kubelet", [&node.address])),
        None => problem,
    })
}

/// Warning for a node that was Ready in the previous round and is Ready again, but was not in between.
fn interrupted(cluster: &Assessment<'_>, object: &KubeNode, ready: &Condition) -> Option<Problem> {
    let (before, boot) = cluster.memory.ready.get(&object.name)?;
    if !boot.is_empty() && !object.boot_id.is_empty() && *boot != object.boot_id {
        let observed = format!("boot ID {}, and in the previous round {boot}", object.boot_id);
        return Some(Problem::warn(Reason::NodeRebooted, "no reboot between two rounds", observed).between_rounds());
    }
    let before = before.as_ref()?;
    let since = ready.since.filter(|since| since != before)?;
    let observed = format!("Ready again since {since}, and in the previous round since {before}");
    Some(Problem::warn(Reason::NodeFlapping, "stays Ready between two rounds", observed).between_rounds())
}

fn not_ready(condition: &Condition) -> Problem {
    let observed = condition.told_as(&condition.status);
    if condition.message.contains("cni plugin not initialized") {
        return Problem::fail(Reason::CniMissing, "condition Ready is True", observed)
            .hint(Hint::likely("no network plugin is installed, or its pods do not start"));
    }
    Problem::fail(Reason::NodeNotReady, "condition Ready is True", observed)
}

/// Checks the node's lease. The Ready condition is only as recent as the lease, because the kubelet may have died since.
fn lease(cluster: &Assessment<'_>, object: &KubeNode) -> Result<(), Outcome> {
    let expected = "the kubelet renews the node's lease";
    let leases: &Leases = listed(cluster, |kubernetes| &kubernetes.node_leases, expected)?;
    if cluster.kubelet_reports(&object.name) {
        return Ok(());
    }
    if cluster.renewal(&object.name) == Some(Renewal::Unknown) {
        return Err(undated(expected));
    }
    let observed = match leases.by_name.get(&object.name).map(|lease| lease.renewed) {
        Some(Some(renewed)) => format!("Ready, but last renewed at {renewed}"),
        Some(None) => "Ready, but the lease was never renewed".to_owned(),
        None => "Ready, but there is no lease".to_owned(),
    };
    Err(Outcome::problem(Problem::fail(Reason::NodeLeaseStale, expected, observed)))
}
