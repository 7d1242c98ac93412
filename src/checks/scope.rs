//! Whom a check judges: each machine of the population, or the control planes; and why some are listed only.

use super::gaps::{listed, says_nothing, talos_way};
use crate::assess::{Assessment, Excluded};
use crate::model::{Hint, Outcome, Problem, Reason, Verdict};
use crate::snapshot::{GapKind, Kubernetes, Node, Pod};

/// Of a Node whose machine is silent and forgotten. From here it cannot be told which, so nothing is to be deleted.
pub(super) const OFF_OR_GONE: &str = "the machine was removed, or has been off for half an hour or more; delete its Node only if it is permanently gone (`kubectl delete node`)";

/// Why a per-node check does not judge this node; `None` if it does. Whether other systems than Talos count is for each check
/// to say.
pub(super) fn passed_over(cluster: &Assessment<'_>, node: &Node) -> Option<&'static str> {
    Some(match cluster.machine(node).excluded? {
        Excluded::Leaving => "the node is being removed",
        Excluded::OutOfScope => "outside of `--nodes`",
        Excluded::OutsideFlags => "not among the selected nodes",
        Excluded::StaleDiscoveryMember => "known only to discovery, and no longer there; see `talos.nodes.expected`",
    })
}

/// `--nodes` leaves machines out: what is said of all is said of those that it names.
pub(super) fn is_narrowed(cluster: &Assessment<'_>) -> bool {
    cluster.nodes.iter().any(|node| node.out_of_scope)
}

/// Judges each Talos node of the scope on its own. Nodes that are passed over are listed with the reason.
pub(super) fn each_node<'a>(cluster: &'a Assessment<'_>, mut judge: impl FnMut(&'a Node, &mut Verdict)) -> Verdict {
    if let Err(outcome) = talos_way(cluster) {
        return Verdict::whole(outcome);
    }
    if cluster.nodes.is_empty() {
        return Verdict::whole(Outcome::problem(no_node()));
    }
    let mut verdict = Verdict::default();
    for node in cluster.nodes.iter().filter(|node| !node.out_of_scope) {
        match passed_over(cluster, node) {
            Some(reason) => verdict.skip(node.target(), reason),
            None if cluster.machine(node).is_foreign => verdict.skip(node.target(), "not a Talos machine"),
            None => judge(node, &mut verdict),
        }
    }
    verdict
}

fn no_node() -> Problem {
    Problem::error(Reason::NodeMissing, "at least one node", "no source names any node")
        .hint(Hint::likely("discovery is disabled; pass the nodes with `--control-plane-nodes` and `--worker-nodes`"))
}

/// Where no control plane is known, nothing can be said of what control planes run.
pub(super) fn no_control_plane() -> Problem {
    Problem::error(Reason::NodeMissing, "at least one control plane", "no source names a control plane")
        .hint(Hint::likely("discovery is disabled; pass the control planes with `--control-plane-nodes`"))
}

/// Control planes, or why there is nothing to say about them.
pub(super) fn control_planes<'a>(cluster: &'a Assessment<'_>) -> Result<Vec<&'a Node>, Outcome> {
    let nodes: Vec<&Node> = cluster.control_planes().collect();
    if !nodes.is_empty() {
        return Ok(nodes);
    }
    let none = || Problem::error(Reason::NoAnswer, "control planes", "no control plane is known");
    if cluster.talos.is_none() {
        return Err(match listed(cluster, |kubernetes| &kubernetes.nodes, "the list of nodes") {
            Ok(nodes) if !nodes.is_empty() => elsewhere(cluster),
            Ok(_) => Outcome::problem(none()),
            Err(outcome) => outcome,
        });
    }
    Err(talos_way(cluster).err().unwrap_or_else(|| Outcome::problem(none())))
}

/// No Node is a control plane; whether it is here all the same, whatever the Nodes are labeled as, the static pods show.
fn elsewhere(cluster: &Assessment<'_>) -> Outcome {
    let is_server = |pod: &Pod| pod.mirror && pod.name.starts_with("kube-apiserver-");
    let asked = |kubernetes: &Kubernetes| !kubernetes.pods.as_ref().is_err_and(|gap| gap.kind == GapKind::NotAsked);
    match listed(cluster, |kubernetes| &kubernetes.pods, "the pods of kube-system") {
        Ok(pods) if pods.iter().any(is_server) => {
            let observed = "no Node has the control plane role, but kube-apiserver is among the static pods";
            Outcome::problem(Problem::error(Reason::NoAnswer, "control planes", observed))
        }
        Ok(pods) if pods.is_empty() => says_nothing("the pods of kube-system", "an empty list"),
        Err(outcome) if cluster.kubernetes.as_ref().is_some_and(asked) => outcome,
        _ => Outcome::Skip("the control plane runs elsewhere: no Node is a control plane".into()),
    }
}
