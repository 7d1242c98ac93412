//! Checks whether the nodes that were found are the expected ones.

use crate::assess::Assessment;
use crate::checks::Check;
use crate::checks::gaps::{self, talos_way};
use crate::checks::scope::{GUEST, OFF_OR_GONE, declared_off, no_control_plane};
use crate::checks::stated;
use crate::model::{
    CheckId, Fact, Hint, MachineType, Outcome, Problem, Reason, Role, Severity, Stage, Target, Verdict,
};
use crate::snapshot::Node;

pub(in crate::checks) const EXPECTED: Check = Check {
    id: CheckId::TalosNodesExpected,
    stage: Stage::Connectivity,
    summary: "the nodes are the expected ones, and all sources agree on them",
    explain: "A health check of the wrong nodes is worthless: a node that no source lists fails no check. So the nodes are \
read from every source (Talos discovery, Kubernetes, etcd, the talosconfig, `--control-plane-nodes` and `--worker-nodes`). The \
sources are compared with each other and with what was expected.\n\n\
If flags name nodes, each must exist with its role, and any other node is a warning. `--expect-control-planes` and \
`--expect-workers` require exact numbers. A Node object is stale if neither discovery nor the Talos API knows its machine: \
delete it with `kubectl delete node`. A member that only discovery still lists, and that does not answer, expires within 30 \
minutes and is a warning. So is a control plane of type `init`, with which etcd cannot be recovered from a snapshot.\n\n\
`single-source` warns that only one source lists the nodes, so a missing node could not be noticed. Enable discovery, provide \
Kubernetes credentials, or pass the expected numbers.",
    severity: Severity::Fail,
    finds: &[
        Reason::NodeMissing,
        Reason::NodesContradict,
        Reason::NodeUnexpected,
        Reason::StaleDiscoveryMember,
        Reason::StaleNodeObject,
        Reason::MachineTypeInit,
        Reason::SingleSource,
    ],
    facts: &[Fact::TalosNodes, Fact::KubeNodes, Fact::EtcdMembership],
    judge: expected,
};

fn expected(cluster: &Assessment<'_>) -> Verdict {
    if let Err(outcome) = talos_way(cluster) {
        return Verdict::whole(outcome);
    }
    let mut verdict = Verdict::default();
    if !cluster.nodes().iter().any(|node| node.role == Role::ControlPlane && !node.leaving) {
        verdict.problem(Target::cluster(), no_control_plane());
    }
    stated::differences(cluster, &mut verdict);
    sources(cluster, &mut verdict);
    for node in cluster.nodes() {
        if let Some(outcome) = odd_node(cluster, node) {
            verdict.push(node.target(), outcome);
        }
    }
    if verdict.problems().next().is_none() {
        verdict.ok(Target::cluster());
    }
    verdict
}

/// Warns if a single source lists the nodes, because a missing node would go unnoticed. Anything that the user states is a second source.
fn sources(cluster: &Assessment<'_>, verdict: &mut Verdict) {
    if let Some(Err(gap)) = cluster.talos().map(|talos| &talos.discovery) {
        verdict.problem(Target::cluster(), gaps::talos(gap, "the members that discovery lists"));
        return;
    }
    if cluster.is_stated() {
        return;
    }
    let names_some = |tells: fn(&Node) -> bool| cluster.nodes().iter().any(tells);
    let discovery = names_some(|node| node.sources.discovery);
    let kubernetes = names_some(|node| node.sources.kubernetes);
    let etcd = names_some(|node| node.sources.etcd);
    // etcd and the talosconfig do not list workers, so they can confirm another source but not replace it.
    if !((discovery && kubernetes) || ((discovery || kubernetes) && etcd)) {
        let seen = match (discovery, kubernetes) {
            (true, _) => "only discovery names the nodes; neither Kubernetes nor etcd confirms them",
            (_, true) => "only Kubernetes names the nodes; neither discovery nor etcd confirms them",
            _ if etcd => "only etcd names nodes, and it knows no workers",
            _ => "only the talosconfig names nodes; neither discovery nor Kubernetes lists any",
        };
        let problem = Problem::warn(Reason::SingleSource, "two sources that list the nodes", seen);
        let hint = Hint::likely("pass the expected numbers with `--expect-control-planes` and `--expect-workers`");
        verdict.problem(Target::cluster(), problem.hint(hint));
    }
}

/// Returns true if the machine itself answers, rather than another one at its address.
fn answers(node: &Node) -> bool {
    node.talos.contact.as_ref().is_ok_and(|contact| contact.answered_by_other.is_none())
}

/// Returns the outcome for an unexpected node.
fn odd_node(cluster: &Assessment<'_>, node: &Node) -> Option<Outcome> {
    if node.leaving {
        return Some(Outcome::Skip("the node is being removed".to_owned()));
    }
    if cluster.is_guest(node) {
        return Some(Outcome::Skip(GUEST.to_owned()));
    }
    // Discovery forgets a machine within half an hour after it is turned off.
    if let Some(outcome) = declared_off(cluster, node) {
        return Some(outcome);
    }
    let problem = if cluster.is_outside_flags(node) {
        stated::left_out(cluster, node)
    } else if cluster.machine(node).is_stale_discovery_member {
        let observed = "neither Kubernetes nor etcd knows it, and it does not answer";
        Problem::warn(Reason::StaleDiscoveryMember, "discovery lists only nodes that exist", observed)
            .hint(Hint::likely("the machine was removed; discovery forgets it within 30 minutes"))
            .hint(Hint::run("{kubectl} get nodes -o wide", []))
    } else if cluster.machine(node).is_stale_node_object {
        let other = node.talos.contact.as_ref().ok().and_then(|contact| contact.answered_by_other.as_ref());
        let observed = other.map_or_else(
            || "discovery does not list it, and it does not answer".to_owned(),
            |other| format!("discovery does not list it, and `{other}` is at its address"),
        );
        Problem::fail(Reason::StaleNodeObject, "Kubernetes lists only nodes that exist", observed)
            .hint(Hint::likely(OFF_OR_GONE))
            .hint(Hint::run("{kubectl} describe node {}", [node.name.as_str()]))
    } else if cluster.discovery_is_on() && answers(node) && !node.sources.discovery {
        Problem::warn(
            Reason::NodeUnexpected,
            "discovery lists every node",
            "it answers, but discovery does not list it",
        )
    } else if answers(node) && node.talos.machine_type == Ok(Some(MachineType::Init)) {
        Problem::warn(Reason::MachineTypeInit, "type controlplane", "type init")
            .hint(Hint::likely("etcd cannot be recovered from a snapshot while a machine has this type"))
            .hint(Hint::run("{talosctl} -n {} get machinetype", [node.address.as_str()]))
    } else {
        return None;
    };
    Some(Outcome::problem(problem))
}
