//! Images that cannot be pulled on a node although they run on others.

use crate::assess::Assessment;
use crate::model::{Hint, Problem, Reason};
use crate::snapshot::PullingPod;
use crate::text::duration::human;
use crate::text::some;

/// Maximum number of pods that are named.
const NAMED: usize = 3;

/// Warning if many pods of this node, of more than one workload, wait for images that run on other nodes.
pub(super) fn cannot_pull(cluster: &Assessment<'_>, node: &str) -> Option<Problem> {
    let pods = cluster.own_kubernetes.into_iter().flat_map(|kubernetes| &kubernetes.pulling_pods);
    let is_here = |pod: &&PullingPod| pod.node == node && pod.is_late() && pod.runs_on.is_some();
    let mut waiting: Vec<&PullingPod> = pods.filter(is_here).collect();
    waiting.sort_by_key(|pod| (std::cmp::Reverse(pod.waiting_for), &pod.namespace, &pod.name));
    if !PullingPod::are_many(waiting.iter().copied()) {
        return None;
    }
    let first = waiting.first()?;
    let named = some(waiting.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name)), NAMED);
    let (since, other) =
        (first.waiting_for.map(human).unwrap_or_default(), first.runs_on.as_deref().unwrap_or_default());
    let observed = format!(
        "pods without their images: {named}; {}/{} has waited {since} for {}, which runs on {other}: {}",
        first.namespace, first.name, first.image, first.says
    );
    Some(
        Problem::warn(Reason::NodeCannotPull, "images that other nodes have arrive within 5m00s", observed)
            .hint(Hint::run("{kubectl} -n {} describe pod {}", [&first.namespace, &first.name]))
            .hint(Hint::pods_on(node)),
    )
}
