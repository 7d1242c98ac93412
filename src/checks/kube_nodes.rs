//! What Kubernetes says of the nodes.

use super::common::{OFF_OR_GONE, discovery_is_on, is_outside_flags, passed_over, tells_system};
use super::expected::{as_stated, is_named_elsewhere, is_stated};
use super::kube_common::{
    KUBELET, REACHABLE, READY as READY_ID, REGISTERED as REGISTERED_ID, RENEWAL, explained, has_kubernetes, is_alive,
    is_machine, kubelet_is_bad, listed, lost, object_of, says_ready, talos_gap, talos_path,
};
use super::{Check, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{Condition, KubeNode, Leases, Node, Snapshot};

pub(super) const REGISTERED: Check = Check {
    id: REGISTERED_ID,
    stage: Stage::Nodes,
    summary: "every Talos machine with Kubernetes is a Node, and every Talos Node is a machine",
    explain: "Compares the machines that Talos knows with the Node objects, by name and by any address. A machine that is \
missing runs no workload though it looks well to Talos; a Node object without a machine keeps pods and volumes bound to something \
that is gone.\n\n\
A machine is missing when its kubelet cannot register: the endpoint is not reachable from the node, its certificate request was \
not approved, or another node uses the same name. An object is stale when a machine was removed without `kubectl delete node`. \
A machine whose host name has changed since may still be registered under the old one; its machine id tells that it is the same.\n\n\
The InternalIP of a Node has to be the machine's and no other Node's, for that is where the API server looks for its kubelet and \
the network plugin for its pods. One that none of the machine's addresses is, as Talos tells them, and at which the machine does \
not answer, is a failure; where Talos tells none, nothing is said of it.\n\n\
For a missing one look at the kubelet (`talosctl -n NODE logs kubelet`) and at `kubectl get csr`. Delete a stale object only when \
you are sure that the machine is gone.",
    severity: Severity::Fail,
    requires: &["k8s.credentials", "k8s.api.endpoint", "k8s.api.identity"],
    facts: &[Fact::TalosNodes, Fact::KubeNodes],
    judge: registered,
};

pub(super) const READY: Check = Check {
    id: READY_ID,
    stage: Stage::Nodes,
    summary: "every node is Ready, and its kubelet has said so just now",
    explain: "The Ready condition exists and is True, and the kubelet renews the node's lease. Kubernetes notices a dead kubelet \
only after some 50 seconds and shows the node as Ready until then; the lease, renewed every 10 seconds, tells sooner. A lease that \
looks stale is looked at again before it counts.\n\n\
`cni plugin not initialized` means that no network plugin is installed or that it does not start: with CNI `none` nodes stay \
NotReady until you install one. `NodeStatusUnknown` means that the kubelet has fallen silent; then the machine or its kubelet is \
the place to look at (talos.nodes.reachable, talos.nodes.kubelet).\n\n\
--max-unready-workers allows some workers to be missing; they become warnings that name them. Control planes are never allowed to \
be missing. Nodes that are not Talos machines only warn.",
    severity: Severity::Fail,
    requires: &["k8s.credentials", "k8s.api.endpoint", "k8s.api.identity"],
    facts: &[Fact::TalosNodes, Fact::KubeNodes, Fact::NodeLeases],
    judge: ready,
};

pub(super) const SCHEDULABLE: Check = Check {
    id: "k8s.nodes.schedulable",
    stage: Stage::Nodes,
    summary: "no node is cordoned or waits for a cloud provider",
    explain: "Warns of nodes that take no new pods: cordoned by Talos (during an upgrade, a reboot or a shutdown), cordoned by \
somebody else, or tainted as uninitialised because no cloud controller manager has taken care of them.\n\n\
It is a warning, for a cordon is usually meant. One that Talos left behind is not: an upgrade or a drain was interrupted.\n\n\
`kubectl uncordon NODE` lifts it. For the uninitialised taint look at the cloud controller manager.",
    severity: Severity::Warn,
    requires: &["k8s.credentials", "k8s.api.endpoint", "k8s.api.identity"],
    facts: &[Fact::TalosNodes, Fact::KubeNodes],
    judge: schedulable,
};

pub(super) const PRESSURE: Check = Check {
    id: "k8s.nodes.pressure",
    stage: Stage::Nodes,
    summary: "no node is short of memory, disk or process ids, and each has its network",
    explain: "Reads the conditions MemoryPressure, DiskPressure and PIDPressure, in which the kubelet says that a resource runs \
out, and NetworkUnavailable, which network plugins and cloud providers set. A node under pressure evicts pods and takes no new \
ones, and stays Ready all the while.\n\n\
A condition is as old as the kubelet's last word: of a node whose kubelet has fallen silent nothing is said here, but in \
k8s.nodes.ready. NetworkUnavailable is there only where something sets it.\n\n\
`kubectl describe node NODE` has the thresholds and events; `talosctl -n NODE memory` and `talosctl -n NODE mounts` show what is \
left.",
    severity: Severity::Fail,
    requires: &["k8s.credentials", "k8s.api.endpoint", "k8s.api.identity"],
    facts: &[Fact::TalosNodes, Fact::KubeNodes, Fact::NodeLeases],
    judge: pressure,
};

const UNINITIALISED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// Node objects of this cluster. An empty list is not one of a living cluster.
fn objects(snapshot: &Snapshot) -> Result<&Vec<KubeNode>, Outcome> {
    let objects = listed(snapshot, |kubernetes| &kubernetes.nodes, "the list of nodes")?;
    if objects.is_empty() {
        return Err(Outcome::Problem(Problem::error(Reason::NoAnswer, "nodes", "Kubernetes lists no node")));
    }
    Ok(objects)
}

fn registered(snapshot: &Snapshot) -> Verdict {
    if snapshot.talos.is_none() && snapshot.kubernetes.is_some() && !is_stated(snapshot) {
        return Verdict::skipped("--no-talos: nothing to compare with");
    }
    let objects = match objects(snapshot) {
        Ok(objects) => objects,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut verdict = Verdict::default();
    if snapshot.talos.is_none() {
        as_stated(snapshot, &mut verdict);
        for node in snapshot.nodes.iter().filter(|node| !node.leaving && is_outside_flags(snapshot, node)) {
            let expected = "only the nodes named by `--control-plane-nodes` and `--worker-nodes`";
            verdict.problem(Target::node(node), Problem::warn(Reason::NodeUnexpected, expected, "not among them"));
        }
        if verdict.findings.is_empty() {
            verdict.ok(Target::cluster());
        }
        return verdict;
    }
    for node in &snapshot.nodes {
        verdict.push(Target::node(node), registration(snapshot, node, objects));
    }
    verdict
}

fn registration(snapshot: &Snapshot, node: &Node, objects: &[KubeNode]) -> Outcome {
    if let Some(why) = passed_over(snapshot, node) {
        return Outcome::Skip(why.to_owned());
    }
    if !node.is_talos && tells_system(snapshot, node) {
        return Outcome::Skip("not a Talos machine".to_owned());
    }
    if let Some(object) = object_of(snapshot, node, objects) {
        return match whose(snapshot, node, object) {
            Outcome::Pass(_) => {
                odd_registration(snapshot, node, object, objects).map_or(Outcome::Pass(None), Outcome::Problem)
            }
            outcome => outcome,
        };
    }
    match has_kubernetes(node) {
        Some(false) => Outcome::Skip("no Kubernetes on this machine".to_owned()),
        Some(true) => {
            let problem = Problem::fail(Reason::NodeNotRegistered, "a Node object", "none of its name or addresses")
                .hint(Hint::likely(
                    "its kubelet cannot reach the API server, or its certificate request is pending (as an administrator: \
                     `kubectl get csr`)",
                ))
                .hint(Hint::run("{talosctl} -n {} logs kubelet", [&node.address]));
            Outcome::Problem(if kubelet_is_bad(node) { problem.explained_by(KUBELET) } else { problem })
        }
        None => match (talos_path(snapshot, node), &node.talos.nodename) {
            (Some(by), _) => Outcome::Blocked(by),
            (None, Err(gap)) => Outcome::Problem(talos_gap(gap, "the node's name in Kubernetes")),
            (None, Ok(_)) => {
                let problem =
                    Problem::error(Reason::NoAnswer, "whether it runs a kubelet", "its services are not known");
                Outcome::Problem(problem)
            }
        },
    }
}

/// A Node object that no Talos source knows of is stale, unless its kubelet says otherwise. Where discovery tells nothing,
/// nobody can know.
fn whose(snapshot: &Snapshot, node: &Node, object: &KubeNode) -> Outcome {
    let answers = node.talos.contact.as_ref().is_ok_and(|contact| contact.answered_by_other.is_none());
    let known = answers || is_named_elsewhere(node);
    if known || says_ready(object) {
        return Outcome::Pass(None);
    }
    if discovery_is_on(snapshot) {
        let problem = Problem::fail(Reason::StaleNodeObject, "a machine that Talos knows", "a Node object, not ready")
            .hint(Hint::likely(OFF_OR_GONE))
            .hint(Hint::run("{kubectl} describe node {}", [&object.name]));
        return Outcome::Problem(problem);
    }
    Outcome::Blocked(talos_path(snapshot, node).unwrap_or(REACHABLE))
}

/// The Node is the machine's, and says of it what is not so.
fn odd_registration(snapshot: &Snapshot, node: &Node, object: &KubeNode, objects: &[KubeNode]) -> Option<Problem> {
    let address = node.address.as_str();
    if is_misnamed(node, object) {
        let observed = format!("it has registered as `{}`", object.name);
        let problem = Problem::fail(Reason::NodenameMismatch, format!("a Node `{}`", node.name), observed)
            .hint(Hint::likely("its host name has changed since its kubelet registered"))
            .hint(Hint::run("{talosctl} -n {} get nodename", [address]))
            .hint(Hint::run("{talosctl} -n {} get hostnamestatus", [address]));
        return Some(problem);
    }
    let told = node.machine_id.as_ref().filter(|_| !object.machine_id.is_empty());
    if told.is_some_and(|id| *id != object.machine_id) {
        let observed = format!("discovery knows another machine of this name, at {}", node.own_addresses.join(", "));
        let problem = Problem::warn(Reason::DuplicateName, "one machine of this name", observed)
            .hint(Hint::likely("two machines have this host name, or the machine was installed anew: then discovery forgets the former one within 30 minutes"))
            .hint(Hint::run("{talosctl} -n {} get affiliates", [address]));
        return Some(problem);
    }
    let observed =
        foreign_address(snapshot, node, object).or_else(|| shared_address(snapshot, node, object, objects))?;
    let problem = Problem::fail(Reason::NodeAddress, "an InternalIP that is the machine's own", observed)
        .hint(Hint::run("{talosctl} -n {} get nodeips", [address]))
        .hint(Hint::run("{talosctl} -n {} get addresses", [address]));
    Some(problem.hint(Hint::run("{kubectl} get nodes -o wide", [])))
}

fn is_misnamed(node: &Node, object: &KubeNode) -> bool {
    is_machine(node, object) && !object.name.eq_ignore_ascii_case(&node.name)
}

/// The machine calls itself otherwise than its kubelet has registered.
pub(super) fn has_another_name(snapshot: &Snapshot, node: &Node) -> bool {
    let objects = listed(snapshot, |kubernetes| &kubernetes.nodes, "the list of nodes");
    let object = objects.ok().and_then(|objects| object_of(snapshot, node, objects));
    object.is_some_and(|object| is_misnamed(node, object))
}

/// None of the addresses by which Kubernetes looks for the machine is one that Talos tells of it, and it did not answer at any:
/// where addresses are translated it does.
fn foreign_address(snapshot: &Snapshot, node: &Node, object: &KubeNode) -> Option<String> {
    let contact = node.talos.contact.as_ref().ok().filter(|contact| contact.answered_by_other.is_none())?;
    let is_own = |address: &String| node.own_addresses.contains(address) || contact.address == *address;
    if node.own_addresses.is_empty() || object.internal.is_empty() || object.internal.iter().any(is_own) {
        return None;
    }
    let whose = snapshot.nodes.iter().find(|other| {
        other.name != node.name && object.internal.iter().any(|address| other.own_addresses.contains(address))
    });
    let whose = whose.map_or_else(String::new, |other| format!(", an address of {}", other.name));
    let own = node.own_addresses.join(", ");
    Some(format!("{}{whose}; the machine has {own}", object.internal.join(", ")))
}

/// Another Node has the same InternalIP. Where only one of the two machines has the address, the other one is told.
fn shared_address(snapshot: &Snapshot, node: &Node, object: &KubeNode, objects: &[KubeNode]) -> Option<String> {
    // Asked first: hardly any two share one, and a thousand make a million of pairs to look at.
    let overlaps = |other: &KubeNode| object.internal.iter().any(|address| other.internal.contains(address));
    let others = objects.iter().filter(|other| overlaps(other) && other.name != object.name && !other.deleting);
    let mut living = others.filter_map(|other| {
        let machine = snapshot.nodes.iter().find(|it| it.name == other.name && it.is_talos)?;
        matches!(whose(snapshot, machine, other), Outcome::Pass(_)).then_some((machine, other))
    });
    let may_have =
        |node: &Node, address: &String| node.own_addresses.is_empty() || node.own_addresses.contains(address);
    living.find_map(|(machine, other)| {
        let shared = object.internal.iter().find(|address| {
            other.internal.contains(address) && may_have(node, address) && may_have(machine, address)
        })?;
        Some(format!("{shared}, which is that of {} as well", other.name))
    })
}

fn ready(snapshot: &Snapshot) -> Verdict {
    let objects = match objects(snapshot) {
        Ok(objects) => objects,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut verdict = Verdict::default();
    for node in &snapshot.nodes {
        let object = object_of(snapshot, node, objects);
        let outcome = match (passed_over(snapshot, node), object) {
            (Some(why), _) => Outcome::Skip(why.to_owned()),
            (None, Some(object)) => readiness(snapshot, node, object),
            (None, None) => unregistered(node),
        };
        let ready = object.is_some_and(says_ready);
        if ready && matches!(&outcome, Outcome::Problem(problem) if problem.reason == Reason::NodeLeaseStale) {
            verdict.resample_after = Some(RENEWAL);
        }
        verdict.push(Target::node(node), outcome);
    }
    // Every Node object is in the population; one that is not would otherwise go unjudged.
    for object in objects.iter().filter(|object| !snapshot.nodes.iter().any(|node| is_same(node, object))) {
        let problem = Problem::error(Reason::NodeUnexpected, "a known node", "no source of nodes names it");
        verdict.problem(Target::new(super::Kind::Node, object.name.as_str()), problem);
    }
    verdict
}

fn is_same(node: &Node, object: &KubeNode) -> bool {
    node.name == object.name
        || is_machine(node, object)
        || object.addresses.iter().any(|address| node.addresses.contains(address))
}

pub(super) fn unregistered(node: &Node) -> Outcome {
    if has_kubernetes(node) == Some(false) {
        Outcome::Skip("no Kubernetes on this machine".to_owned())
    } else {
        Outcome::Blocked(REGISTERED_ID)
    }
}

fn readiness(snapshot: &Snapshot, node: &Node, object: &KubeNode) -> Outcome {
    let problem = match object.condition("Ready") {
        Some(condition) if condition.status == "True" => match lease(snapshot, object) {
            Ok(()) => return Outcome::Pass(Some(format!("Node {}: Ready", object.name))),
            Err(Outcome::Problem(problem)) => problem,
            Err(outcome) => return outcome,
        },
        Some(condition) => not_ready(condition),
        None => Problem::fail(Reason::NodeNotReady, "condition Ready is True", "there is no such condition"),
    };
    if is_secondary(snapshot, node) {
        let problem = Problem { reason: Reason::NotTalosNotReady, severity: Severity::Warn, ..problem };
        return Outcome::Problem(problem);
    }
    let problem = problem.hint(Hint::run("{kubectl} describe node {}", [&object.name]));
    // Kubernetes formed its opinion without Talos, so it stays a failure; but there is one machine, and one thing to mend.
    let cause = if lost(snapshot, node) {
        Some(REACHABLE)
    } else if node.is_talos && kubelet_is_bad(node) {
        Some(KUBELET)
    } else {
        None
    };
    Outcome::Problem(explained(problem, cause))
}

fn not_ready(condition: &Condition) -> Problem {
    let observed = format!("{}, {}: {}", condition.status, condition.reason, condition.message);
    if condition.message.contains("cni plugin not initialized") {
        return Problem::fail(Reason::CniMissing, "condition Ready is True", observed)
            .hint(Hint::likely("no network plugin is installed, or it does not start: look at its pods"));
    }
    Problem::fail(Reason::NodeNotReady, "condition Ready is True", observed)
}

/// A guest of a Talos cluster. In a cluster without Talos machines nobody is a guest, and neither is one that has not told yet
/// what it runs.
pub(super) fn is_secondary(snapshot: &Snapshot, node: &Node) -> bool {
    let is_guest = !node.is_talos && !node.sources.flags && tells_system(snapshot, node);
    is_guest && snapshot.nodes.iter().any(|node| node.is_talos)
}

/// Ready is as old as the lease: the kubelet may have died since.
pub(super) fn lease(snapshot: &Snapshot, object: &KubeNode) -> Result<(), Outcome> {
    let expected = "the kubelet renews the node's lease";
    let leases: &Leases = listed(snapshot, |kubernetes| &kubernetes.node_leases, expected)?;
    let stale = |observed: String| Err(Outcome::Problem(Problem::fail(Reason::NodeLeaseStale, expected, observed)));
    match leases.by_name.get(&object.name) {
        Some(lease) if is_alive(lease, leases.date) => Ok(()),
        Some(lease) => match lease.renewed {
            Some(renewed) => stale(format!("Ready, but last renewed at {renewed}")),
            None => stale("Ready, but the lease was never renewed".to_owned()),
        },
        None => stale("Ready, but there is no lease".to_owned()),
    }
}

/// For those whose pods run on nodes: not ready, and how much that counts.
pub(super) fn unready(snapshot: &Snapshot) -> Vec<(String, Severity)> {
    let verdict = ready(snapshot);
    let problems = verdict.problems().filter(|(target, _)| target.kind == super::Kind::Node);
    problems.map(|(target, problem)| (target.name.clone(), problem.severity)).collect()
}

fn schedulable(snapshot: &Snapshot) -> Verdict {
    each_object(snapshot, scheduling)
}

/// Judges the Node object of each machine.
fn each_object(snapshot: &Snapshot, judge: impl Fn(&Node, &KubeNode) -> Outcome) -> Verdict {
    let objects = match objects(snapshot) {
        Ok(objects) => objects,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut verdict = Verdict::default();
    for node in &snapshot.nodes {
        let outcome = match (passed_over(snapshot, node), object_of(snapshot, node, objects)) {
            (Some(why), _) => Outcome::Skip(why.to_owned()),
            (None, Some(object)) => judge(node, object),
            (None, None) => unregistered(node),
        };
        verdict.push(Target::node(node), outcome);
    }
    verdict
}

fn scheduling(node: &Node, object: &KubeNode) -> Outcome {
    let expected = "takes new pods";
    let uncordon = || Hint::remedy("{kubectl} uncordon {}", [&object.name]);
    if object.unschedulable && object.cordoned_by_talos {
        let problem = Problem::warn(Reason::CordonedByTalos, expected, "cordoned by Talos")
            .hint(Hint::likely("an upgrade, a reboot or a shutdown is under way, or was interrupted"));
        // While it is on its way, the mark is as it should be.
        let is_up = matches!(&node.talos.machine_status, Ok(Some(status)) if status.stage == "running");
        return Outcome::Problem(if is_up { problem.hint(uncordon()) } else { problem });
    }
    if object.unschedulable {
        let problem = Problem::warn(Reason::Cordoned, expected, "cordoned by a person")
            .hint(Hint::likely("somebody has done that on purpose: ask first"));
        return Outcome::Problem(problem.hint(uncordon()));
    }
    if object.taints.iter().any(|taint| taint.starts_with(UNINITIALISED)) {
        let problem = Problem::warn(Reason::Uninitialised, expected, format!("taint {UNINITIALISED}"))
            .hint(Hint::likely("the cloud controller manager is missing or not working"));
        return Outcome::Problem(problem);
    }
    Outcome::Pass(None)
}

fn pressure(snapshot: &Snapshot) -> Verdict {
    each_object(snapshot, |node, object| {
        if is_secondary(snapshot, node) {
            Outcome::Skip("not a Talos machine".to_owned())
        } else {
            pressed(snapshot, object)
        }
    })
}

/// The kubelet's word on each resource, and whoever's on the network.
fn pressed(snapshot: &Snapshot, object: &KubeNode) -> Outcome {
    let expected = "no pressure on memory, disk and process ids, and a network";
    let mut wrong = Vec::new();
    let mut untold = Vec::new();
    for kind in ["MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"] {
        match object.condition(kind) {
            Some(condition) if condition.status == "False" => {}
            Some(condition) if condition.status == "True" => {
                wrong.push(format!("{kind}, {}: {}", condition.reason, condition.message));
            }
            Some(condition) => untold.push(format!("{kind} is {}", condition.status)),
            None if kind == "NetworkUnavailable" => {}
            None => untold.push(format!("there is no condition {kind}")),
        }
    }
    if !wrong.is_empty() {
        let problem = Problem::fail(Reason::NodePressure, expected, wrong.join("; "));
        return Outcome::Problem(problem.hint(Hint::run("{kubectl} describe node {}", [&object.name])));
    }
    let is_silent = object.condition("Ready").is_none_or(|condition| !matches!(&*condition.status, "True" | "False"));
    // What a kubelet said before it fell silent is no evidence of the present.
    if is_silent || lease(snapshot, object).is_err() {
        return Outcome::Blocked(READY_ID);
    }
    if untold.is_empty() {
        return Outcome::Pass(None);
    }
    Outcome::Problem(Problem::error(Reason::NoAnswer, expected, untold.join("; ")))
}
