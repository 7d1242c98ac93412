//! Whether an endpoint still serves. Kubernetes removes one some time after its pod or its node has ended, and a Service may publish
//! endpoints that are not ready.

use super::workloads::{UNNOTICED, system_pods};
use crate::assess::workloads::is_well;
use crate::assess::{Assessment, Life};
use crate::checks::gaps::listed;
use crate::model::Outcome;
use crate::snapshot::{BoundPod, Pod, ServiceEndpoint};

/// What an endpoint leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::checks) enum Serving {
    Yes,
    No(Why),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::checks) enum Why {
    /// By its own conditions, or not on this protocol.
    NotReady,
    /// No list has its pod.
    PodGone,
    /// Its pod has not been ready for a while.
    PodUnready,
    /// Its pod is being deleted, and no longer ready.
    PodDeleted,
    /// Its pod has other addresses.
    OtherAddress,
    /// The kubelet of its node is silent, or reports that the node is not ready.
    NodeLost,
    /// Its node was removed, or is being removed and silent. Its pods are created elsewhere.
    NodeGone,
}

impl Serving {
    /// It serves, or would on a node that works.
    pub(in crate::checks) fn but_for_its_node(self) -> bool {
        matches!(self, Self::Yes | Self::No(Why::NodeLost | Why::NodeGone))
    }
}

impl Why {
    /// Completes "its ready endpoints …".
    pub(in crate::checks) fn words(self) -> &'static str {
        match self {
            Self::NotReady => "are not ready",
            Self::PodGone => "lead to pods that no longer exist",
            Self::PodUnready => "lead to pods that are not ready",
            Self::PodDeleted => "lead to pods that are being deleted",
            Self::OtherAddress => "are not addresses of their pods",
            Self::NodeLost | Self::NodeGone => "are on nodes that have stopped reporting",
        }
    }
}

/// The lists in which a check looks for the pod of an endpoint: those that it declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::checks) enum PodLists {
    /// Pods of kube-system. Pods of other namespaces are not known.
    System,
    /// Pods of all namespaces as well, as far as they are bound to a node.
    Bound,
}

/// Whether `endpoint` of a Service in `namespace` serves on `protocol`. What its lists do not know of its pod does not count against it:
/// see [`unread_pods`].
pub(in crate::checks) fn serving(
    cluster: &Assessment<'_>,
    lists: PodLists,
    namespace: &str,
    endpoint: &ServiceEndpoint,
    protocol: &str,
) -> Serving {
    if !endpoint.serves(protocol) {
        return Serving::No(Why::NotReady);
    }
    if let Some(why) = endpoint.pod.as_ref().and_then(|pod| fault_of_pod(cluster, lists, namespace, pod, endpoint)) {
        return Serving::No(why);
    }
    endpoint.node.as_deref().and_then(|node| fault_of_node(cluster, node)).map_or(Serving::Yes, Serving::No)
}

/// Why nothing on the node of this name serves anybody.
pub(in crate::checks) fn fault_of_node(cluster: &Assessment<'_>, name: &str) -> Option<Why> {
    let is_leaving = cluster.machine_of(name).is_some_and(|node| node.leaving);
    match cluster.life(name) {
        Life::Works | Life::Unknown => None,
        Life::Removed => Some(Why::NodeGone),
        Life::Unready | Life::Silent if is_leaving => Some(Why::NodeGone),
        Life::Unready | Life::Silent => Some(Why::NodeLost),
    }
}

/// On a node whose kubelet is silent or reports that the node is not ready, and which nobody is removing.
pub(super) fn is_on_lost_node(cluster: &Assessment<'_>, pod: &Pod) -> bool {
    pod.node.as_deref().is_some_and(|node| fault_of_node(cluster, node) == Some(Why::NodeLost))
}

fn fault_of_pod(
    cluster: &Assessment<'_>,
    lists: PodLists,
    namespace: &str,
    name: &str,
    endpoint: &ServiceEndpoint,
) -> Option<Why> {
    let by_bound = match lists {
        PodLists::System => None,
        PodLists::Bound => fault_of_bound_pod(cluster, namespace, name),
    };
    by_bound.or_else(|| fault_of_system_pod(cluster, name, endpoint).filter(|_| namespace == "kube-system"))
}

fn fault_of_bound_pod(cluster: &Assessment<'_>, namespace: &str, name: &str) -> Option<Why> {
    let bound = listed(cluster, |kubernetes| &kubernetes.bound_pods, "the pods of all namespaces").ok()?;
    let is_it = |pod: &&BoundPod| pod.namespace == namespace && pod.name == name;
    match bound.iter().find(is_it) {
        None => Some(Why::PodGone),
        Some(pod) if pod.ready => None,
        // Since when is not in this list; endpoints follow within a second or two.
        Some(pod) => Some(if pod.deleting { Why::PodDeleted } else { Why::PodUnready }),
    }
}

fn fault_of_system_pod(cluster: &Assessment<'_>, name: &str, endpoint: &ServiceEndpoint) -> Option<Why> {
    let mut its = system_pods(cluster).ok()?.iter().filter(|pod| pod.name == name).peekable();
    if its.peek().is_none() { Some(Why::PodGone) } else { its.find_map(|pod| fault(pod, endpoint)) }
}

fn fault(pod: &Pod, endpoint: &ServiceEndpoint) -> Option<Why> {
    // An endpoint has addresses of one family.
    let is_of_its_family = |it: &&String| endpoint.addresses.iter().all(|its| its.contains(':') == it.contains(':'));
    let mut own = pod.addresses.iter().filter(is_of_its_family).peekable();
    // One that is being deleted serves until it is told to stop, and not again.
    if pod.deleting && !is_well(&pod.state) {
        Some(Why::PodDeleted)
    } else if !is_well(&pod.state) && pod.unready_for.is_none_or(|since| since >= UNNOTICED) {
        Some(Why::PodUnready)
    } else if own.peek().is_some() && !own.any(|it| endpoint.addresses.contains(it)) {
        Some(Why::OtherAddress)
    } else {
        None
    }
}

/// Why the pods behind these endpoints of kube-system could not be read, which may know better.
pub(in crate::checks) fn unread_pods<'a>(
    cluster: &Assessment<'_>,
    endpoints: impl IntoIterator<Item = &'a ServiceEndpoint>,
) -> Option<Outcome> {
    let are_pods = endpoints.into_iter().any(|endpoint| endpoint.pod.is_some());
    system_pods(cluster).err().filter(|_| are_pods)
}
