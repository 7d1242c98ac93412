//! Nodes that serve nobody any more: what Kubernetes still believes to be there may be gone.

use std::collections::HashSet;

use crate::assess::Assessment;
use crate::assess::workloads::{is_alive, says_ready};
use crate::checks::gaps::{listed, says_nothing};
use crate::model::{CheckId, Outcome};
use crate::snapshot::{KubeNode, Leases};

/// Its kubelet has fallen silent or says itself that the node is not ready, and nobody is removing it.
pub(super) fn is_lost(cluster: &Assessment<'_>, name: &str) -> bool {
    let is_left_out = cluster.node(name).is_some_and(|node| node.leaving);
    !is_left_out && object(cluster, name).is_some_and(|object| !works(cluster, object))
}

/// A node that is being removed and does not work, or that was removed. Pods on it stay listed for a while; their controllers create
/// replacements elsewhere, and until then they serve nobody.
pub(super) fn is_deserted(cluster: &Assessment<'_>, name: &str) -> bool {
    let is_leaving = cluster.node(name).is_some_and(|node| node.leaving);
    let are_listed = || cluster.list(|kubernetes| &kubernetes.nodes).is_some_and(|nodes| !nodes.is_empty());
    let is_removed = || are_listed() && object(cluster, name).is_none();
    let works = || object(cluster, name).is_some_and(|object| works(cluster, object));
    (is_leaving && !works()) || is_removed()
}

/// Nothing on this node serves anybody any more, whoever is to know of that.
pub(in crate::checks) fn has_fallen_silent(cluster: &Assessment<'_>, name: &str) -> bool {
    is_lost(cluster, name) || is_deserted(cluster, name)
}

/// Those of the nodes, which k8s.nodes.ready tells of first if they are missing. Without them nobody knows whether what is on a node
/// still works.
pub(in crate::checks) fn leases<'a>(cluster: &'a Assessment<'_>) -> Result<&'a Leases, Outcome> {
    let expected = "the leases of the nodes";
    let outcome = match listed(cluster, |kubernetes| &kubernetes.node_leases, expected) {
        Ok(leases) if !leases.by_name.is_empty() => return Ok(leases),
        Ok(_) => says_nothing(expected, "an empty list"),
        Err(outcome) => outcome,
    };
    Err(outcome.explained_by(CheckId::K8sNodesReady))
}

/// The nodes whose kubelets say that they work, and say so still.
pub(in crate::checks) fn working_nodes<'a>(cluster: &'a Assessment<'_>) -> Result<HashSet<&'a str>, Outcome> {
    leases(cluster)?;
    let objects = listed(cluster, |kubernetes| &kubernetes.nodes, "the list of nodes")?;
    let working = objects.iter().filter(|object| works(cluster, object));
    Ok(working.map(|object| object.name.as_str()).collect())
}

/// Its kubelet says so, and goes on saying it.
pub(super) fn works(cluster: &Assessment<'_>, object: &KubeNode) -> bool {
    says_ready(object) && !is_silent(cluster, &object.name)
}

/// It does not renew its lease. What poses as a node may have none.
pub(super) fn is_silent(cluster: &Assessment<'_>, name: &str) -> bool {
    let Some(leases) = cluster.list(|kubernetes| &kubernetes.node_leases) else { return false };
    match leases.by_name.get(name) {
        Some(lease) => !is_alive(lease, leases.date),
        None => !cluster.node(name).is_some_and(|node| cluster.is_guest(node)),
    }
}

fn object<'a>(cluster: &Assessment<'a>, name: &str) -> Option<&'a KubeNode> {
    cluster.list(|kubernetes| &kubernetes.nodes)?.iter().find(|object| object.name == name)
}
