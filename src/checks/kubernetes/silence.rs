//! Nodes that serve nobody any more: what Kubernetes still believes to be there may be gone.

use std::collections::HashSet;

use crate::assess::Assessment;
use crate::assess::workloads::{is_alive, says_ready};
use crate::checks::gaps::{listed, says_nothing};
use crate::model::Outcome;
use crate::snapshot::{KubeNode, Leases};

/// Its kubelet has fallen silent or says itself that the node is not ready, and nobody is removing it.
pub(super) fn is_lost(cluster: &Assessment<'_>, name: &str) -> bool {
    let is_left_out = cluster.node(name).is_some_and(|node| node.leaving);
    !is_left_out && object(cluster, name).is_some_and(|object| !works(cluster, object))
}

/// Who removes a node has pods made elsewhere first; until then, one that has fallen silent serves nobody.
pub(super) fn leaves_silently(cluster: &Assessment<'_>, name: &str) -> bool {
    cluster.node(name).is_some_and(|node| node.leaving) && is_silent(cluster, name)
}

/// Nothing on this node serves anybody any more, whoever is to know of that.
pub(in crate::checks) fn has_fallen_silent(cluster: &Assessment<'_>, name: &str) -> bool {
    is_lost(cluster, name) || leaves_silently(cluster, name)
}

/// Those of the nodes. Without them nobody knows whether what is on a node still works.
pub(in crate::checks) fn leases<'a>(cluster: &'a Assessment<'_>) -> Result<&'a Leases, Outcome> {
    let expected = "the leases of the nodes";
    let leases = listed(cluster, |kubernetes| &kubernetes.node_leases, expected)?;
    if leases.by_name.is_empty() { Err(says_nothing(expected, "an empty list")) } else { Ok(leases) }
}

/// The nodes whose kubelets say that they work, and say so still.
pub(in crate::checks) fn working_nodes<'a>(cluster: &'a Assessment<'_>) -> Result<HashSet<&'a str>, Outcome> {
    leases(cluster)?;
    let objects = listed(cluster, |kubernetes| &kubernetes.nodes, "the list of nodes")?;
    let working = objects.iter().filter(|object| works(cluster, object));
    Ok(working.map(|object| object.name.as_str()).collect())
}

/// Its kubelet says so, and goes on saying it.
fn works(cluster: &Assessment<'_>, object: &KubeNode) -> bool {
    says_ready(object) && !is_silent(cluster, &object.name)
}

/// It does not renew its lease.
pub(super) fn is_silent(cluster: &Assessment<'_>, name: &str) -> bool {
    let leases = cluster.list(|kubernetes| &kubernetes.node_leases);
    leases.is_some_and(|leases| !leases.by_name.get(name).is_some_and(|lease| is_alive(lease, leases.date)))
}

fn object<'a>(cluster: &Assessment<'a>, name: &str) -> Option<&'a KubeNode> {
    cluster.list(|kubernetes| &kubernetes.nodes)?.iter().find(|object| object.name == name)
}
