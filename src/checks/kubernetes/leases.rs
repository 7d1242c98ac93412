//! The leases of nodes. Without them it is unknown whether the workloads on a node still run.

use std::collections::HashSet;

use crate::assess::{Assessment, Life};
use crate::checks::gaps::{listed, says_nothing};
use crate::model::Outcome;

/// Returns an outcome if the leases of the nodes are missing. k8s.nodes.ready is the first to report it.
pub(in crate::checks) fn leases(cluster: &Assessment<'_>) -> Result<(), Outcome> {
    let expected = "the leases of the nodes";
    match listed(cluster, |kubernetes| &kubernetes.node_leases, expected) {
        Ok(leases) if !leases.by_name.is_empty() || cluster.has_no_leases() => Ok(()),
        Ok(_) => Err(says_nothing(expected, "an empty list")),
        Err(outcome) => Err(outcome),
    }
}

/// Returns the nodes whose kubelets report that they are ready, and still renew their leases.
pub(in crate::checks) fn working_nodes<'a>(cluster: &'a Assessment<'_>) -> Result<HashSet<&'a str>, Outcome> {
    leases(cluster)?;
    let objects = listed(cluster, |kubernetes| &kubernetes.nodes, "the list of nodes")?;
    let working = objects.iter().filter(|object| cluster.life(&object.name) == Life::Works);
    Ok(working.map(|object| object.name.as_str()).collect())
}
