//! The leases of nodes. Without them it is unknown whether the workloads on a node still run.

use std::collections::HashMap;

use super::pressure::pressures;
use super::starting::without_sandboxes;
use crate::assess::{Assessment, Life};
use crate::checks::gaps::{listed, says_nothing};
use crate::model::Outcome;

/// The reason on a node that no longer works.
pub(in crate::checks) const SILENCE: &str = "no longer reporting";
/// The reason on a node that creates no sandboxes.
const NO_STARTS: &str = "starts no pods";

/// Returns an outcome if the leases of the nodes are missing. k8s.nodes.ready is the first to report it.
pub(in crate::checks) fn leases(cluster: &Assessment<'_>) -> Result<(), Outcome> {
    let expected = "the leases of the nodes";
    match listed(cluster, |kubernetes| &kubernetes.node_leases, expected) {
        Ok(leases) if !leases.by_name.is_empty() || cluster.has_no_leases() => Ok(()),
        Ok(_) => Err(says_nothing(expected, "an empty list")),
        Err(outcome) => Err(outcome),
    }
}

/// Returns every node, with the reason why no new pod starts there. The standing of a machine makes no difference: one that is tolerated, a guest, or
/// outside of `--nodes` is no place for a pod either.
pub(in crate::checks) fn closed_to_new_pods<'a>(
    cluster: &'a Assessment<'_>,
) -> Result<HashMap<&'a str, Option<&'static str>>, Outcome> {
    leases(cluster)?;
    let objects = listed(cluster, |kubernetes| &kubernetes.nodes, "the list of nodes")?;
    let stuck = without_sandboxes(cluster)?;
    let states = objects.iter().rev().map(|object| {
        let closed_by = match cluster.life(&object.name) {
            Life::Works if stuck.contains(object.name.as_str()) => Some(NO_STARTS),
            Life::Works => pressures(object).next(),
            Life::Down | Life::Unready | Life::Silent | Life::Removed | Life::Unknown => Some(SILENCE),
        };
        (object.name.as_str(), closed_by)
    });
    // If two Nodes have one name, the first counts.
    Ok(states.collect())
}
