//! Are the nodes that were found the nodes there should be?

use std::cmp::Ordering;

use super::common::{
    OFF_OR_GONE, discovery_is_on, gap_problem, is_foreign, is_outside_flags, is_stale_discovery_member,
    no_control_plane, talos_way,
};
use super::kube_common::says_ready;
use super::{About, Check, Fact, Hint, Kind, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{Node, Role, Snapshot};

pub(super) const EXPECTED: Check = Check {
    id: "talos.nodes.expected",
    stage: Stage::Connectivity,
    summary: "the nodes are those that were asked for, and the sources agree on them",
    explain: "A health check of the wrong set of nodes is worth nothing: a node that nobody lists fails no check. So the nodes \
are taken from every source (Talos discovery, Kubernetes, etcd, the talosconfig, and the flags `--control-plane-nodes` and \
`--worker-nodes`) and compared with each other and with what was asked for.\n\n\
Nodes given by flags are the population; each must be there in its role, and any other node is a warning. \
`--expect-control-planes` and `--expect-workers` demand exact numbers. A Node object whose machine neither discovery nor the \
Talos API knows is stale: delete it with `kubectl delete node`. A member that discovery alone still lists, while Kubernetes \
and etcd do not know it and it does not answer, expires within 30 minutes and is a warning.\n\n\
`single-source` warns that only one source named the nodes, so that a missing one could not be noticed. Turn discovery on, \
give Kubernetes credentials, or state the numbers.",
    severity: Severity::Fail,
    requires: &["talos.credentials", "talos.endpoints"],
    facts: &[Fact::TalosNodes, Fact::KubeNodes, Fact::EtcdMembership],
    judge: expected,
};

fn expected(snapshot: &Snapshot) -> Verdict {
    if let Err(outcome) = talos_way(snapshot) {
        return Verdict::whole(outcome);
    }
    let mut verdict = Verdict::default();
    if !snapshot.nodes.iter().any(|node| node.role == Role::ControlPlane && !node.leaving) {
        verdict.problem(Target::cluster(), no_control_plane());
    }
    as_stated(snapshot, &mut verdict);
    sources(snapshot, &mut verdict);
    for node in &snapshot.nodes {
        if let Some(outcome) = odd_node(snapshot, node) {
            verdict.push(Target::node(node), outcome);
        }
    }
    if verdict.problems().next().is_none() {
        verdict.ok(Target::cluster());
    }
    verdict
}

/// The user said which nodes there should be, or how many.
pub(super) fn is_stated(snapshot: &Snapshot) -> bool {
    let asked = &snapshot.asked;
    !asked.control_plane_nodes.is_empty()
        || !asked.worker_nodes.is_empty()
        || asked.expect_control_planes.is_some()
        || asked.expect_workers.is_some()
}

/// What differs from what the user said.
pub(super) fn as_stated(snapshot: &Snapshot, verdict: &mut Verdict) {
    asked_for_by_flag(snapshot, verdict);
    numbers(snapshot, verdict);
}

/// Each node named by a flag is there, in the role it was named for.
fn asked_for_by_flag(snapshot: &Snapshot, verdict: &mut Verdict) {
    let control_planes = snapshot.asked.control_plane_nodes.iter().map(|asked| (asked, Role::ControlPlane));
    let workers = snapshot.asked.worker_nodes.iter().map(|asked| (asked, Role::Worker));
    for (asked, role) in control_planes.chain(workers) {
        let is_it = |node: &&Node| node.name == *asked || node.address == *asked || node.addresses.contains(asked);
        let expected = format!("{} `{asked}`", role_name(role));
        let Some(node) = snapshot.nodes.iter().find(is_it) else {
            let problem = Problem::fail(Reason::NodeMissing, expected, "no source knows it");
            verdict.problem(Target::new(Kind::Node, asked.as_str()), problem);
            continue;
        };
        let sources = node.sources;
        let answers = node.talos.contact.is_ok();
        if !answers && !sources.discovery && !sources.kubernetes && !sources.etcd {
            let problem =
                Problem::fail(Reason::NodeMissing, expected, "it does not answer, and no other source knows it");
            let by_silence = snapshot.talos.is_some();
            let problem = if by_silence { problem.explained_by("talos.nodes.reachable") } else { problem };
            verdict.problem(Target::node(node), problem);
        } else if node.role == Role::Unknown {
            let problem = Problem::error(Reason::NoAnswer, expected, "its role is not known");
            verdict.problem(Target::node(node), problem);
        } else if node.role != role {
            let problem = Problem::fail(Reason::NodeMissing, expected, format!("it is a {}", role_name(node.role)));
            verdict.problem(Target::node(node), problem);
        }
    }
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::ControlPlane => "control plane",
        Role::Worker => "worker",
        Role::Unknown => "node of unknown role",
    }
}

/// `no worker`, `1 worker`, `2 workers`.
fn counted(number: usize, role: Role) -> String {
    match number {
        0 => format!("no {}", role_name(role)),
        1 => format!("1 {}", role_name(role)),
        _ => format!("{number} {}s", role_name(role)),
    }
}

/// `--expect-control-planes` and `--expect-workers`.
fn numbers(snapshot: &Snapshot, verdict: &mut Verdict) {
    let counts =
        |node: &&Node| !node.leaving && !is_foreign(snapshot, node) && !is_stale_discovery_member(snapshot, node);
    let wanted =
        [(snapshot.asked.expect_control_planes, Role::ControlPlane), (snapshot.asked.expect_workers, Role::Worker)];
    for (expected, role) in wanted {
        let Some(expected) = expected else { continue };
        let names: Vec<&str> = snapshot
            .nodes
            .iter()
            .filter(counts)
            .filter(|node| node.role == role)
            .map(|node| node.name.as_str())
            .collect();
        let reason = match names.len().cmp(&expected) {
            Ordering::Equal => continue,
            Ordering::Less => Reason::NodeMissing,
            Ordering::Greater => Reason::NodeUnexpected,
        };
        let mut observed = format!("{}, {expected} expected", counted(names.len(), role));
        if !names.is_empty() {
            observed = format!("{observed}: {}", names.join(", "));
        }
        let problem = Problem::fail(reason, counted(expected, role), observed).about(About::Role(role));
        verdict.problem(Target::cluster(), problem);
    }
}

/// With a single source nobody would notice a missing node. What the user states is a source of its own.
fn sources(snapshot: &Snapshot, verdict: &mut Verdict) {
    if let Some(Err(gap)) = snapshot.talos.as_ref().map(|talos| &talos.discovery) {
        verdict.problem(Target::cluster(), gap_problem(gap, "the members that discovery lists"));
        return;
    }
    if is_stated(snapshot) {
        return;
    }
    let names_some = |tells: fn(&Node) -> bool| snapshot.nodes.iter().any(tells);
    let discovery = names_some(|node| node.sources.discovery);
    let kubernetes = names_some(|node| node.sources.kubernetes);
    let etcd = names_some(|node| node.sources.etcd);
    // etcd and the talosconfig know no workers, so they can confirm another source and not replace it.
    if !((discovery && kubernetes) || ((discovery || kubernetes) && etcd)) {
        let seen = match (discovery, kubernetes) {
            (true, _) => "only discovery names the nodes; neither Kubernetes nor etcd confirms them",
            (_, true) => "only Kubernetes names the nodes; neither discovery nor etcd confirms them",
            _ if etcd => "only etcd names nodes, and it knows no workers",
            _ => "only the talosconfig names nodes; neither discovery nor Kubernetes names any",
        };
        let problem = Problem::warn(Reason::SingleSource, "two sources that tell which nodes there are", seen);
        let hint = Hint::likely("state the numbers with `--expect-control-planes` and `--expect-workers`");
        verdict.problem(Target::cluster(), problem.hint(hint));
    }
}

/// What is odd about one node, if anything.
fn odd_node(snapshot: &Snapshot, node: &Node) -> Option<Outcome> {
    if node.leaving {
        return Some(Outcome::Skip("the node is being removed".to_owned()));
    }
    if is_foreign(snapshot, node) {
        return Some(Outcome::Skip("not a Talos machine".to_owned()));
    }
    let problem = if is_outside_flags(snapshot, node) {
        let expected = "only the nodes named by `--control-plane-nodes` and `--worker-nodes`";
        Problem::warn(Reason::NodeUnexpected, expected, "not among `--control-plane-nodes` and `--worker-nodes`")
    } else if is_stale_discovery_member(snapshot, node) {
        let observed = "neither Kubernetes nor etcd knows it, and it does not answer";
        Problem::warn(Reason::StaleDiscoveryMember, "discovery lists living nodes", observed)
            .hint(Hint::likely("the machine was removed; discovery forgets it within 30 minutes"))
    } else if is_stale_node_object(snapshot, node) {
        let other = node.talos.contact.as_ref().ok().and_then(|contact| contact.answered_by_other.as_ref());
        let observed = other.map_or_else(
            || "discovery does not know it, and it does not answer".to_owned(),
            |other| format!("discovery does not know it, and at its address is `{other}`"),
        );
        Problem::fail(Reason::StaleNodeObject, "Kubernetes lists living nodes", observed)
            .hint(Hint::likely(OFF_OR_GONE))
            .hint(Hint::run("{kubectl} describe node {}", [node.name.as_str()]))
    } else if discovery_is_on(snapshot) && node.talos.contact.is_ok() && !node.sources.discovery {
        Problem::warn(
            Reason::NodeUnexpected,
            "discovery lists every node",
            "it answers, and discovery does not list it",
        )
    } else {
        return None;
    };
    Some(Outcome::Problem(problem))
}

/// Whether anybody else than Kubernetes names it. An address of the talosconfig at which another machine answers is that one's.
pub(super) fn is_named_elsewhere(node: &Node) -> bool {
    let sources = node.sources;
    let is_others = node.talos.contact.as_ref().is_ok_and(|contact| contact.answered_by_other.is_some());
    sources.discovery || sources.etcd || sources.flags || (sources.talosconfig && !is_others)
}

/// Nobody answers at its address, or a machine that discovery knows, while Kubernetes does not call this one ready.
fn is_gone(snapshot: &Snapshot, node: &Node) -> bool {
    let objects = || snapshot.kubernetes.iter().filter_map(|kubernetes| kubernetes.nodes.as_ref().ok()).flatten();
    match &node.talos.contact {
        Err(_) => true,
        Ok(contact) => contact.answered_by_other.as_ref().is_some_and(|other| {
            snapshot.node(other).is_some_and(|other| other.sources.discovery)
                && !objects().any(|object| object.name == node.name && says_ready(object))
        }),
    }
}

/// A Talos Node object whose machine discovery has forgotten and that does not answer.
pub(super) fn is_stale_node_object(snapshot: &Snapshot, node: &Node) -> bool {
    node.sources.kubernetes
        && !is_named_elsewhere(node)
        && is_gone(snapshot, node)
        && discovery_is_on(snapshot)
        && !is_foreign(snapshot, node)
}
