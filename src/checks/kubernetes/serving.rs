//! Messages about endpoints that do not serve.

use super::workloads::system_pods;
use crate::assess::{Assessment, Why};
use crate::model::Outcome;
use crate::snapshot::{Pod, ServiceEndpoint};

/// Completes "its ready endpoints …".
pub(super) fn words(why: Why) -> &'static str {
    match why {
        Why::NotReady => "are not ready",
        Why::PodGone => "lead to pods that no longer exist",
        Why::PodUnready => "lead to pods that are not ready",
        Why::PodDeleted | Why::PodStopping => "lead to pods that are being deleted",
        Why::OtherAddress => "are not addresses of their pods",
        Why::NodeLost | Why::NodeGone => "are on nodes that are down or have stopped reporting",
    }
}

/// Returns true if the pod's node is not ready or has a silent kubelet, and is not being removed.
pub(super) fn is_on_lost_node(cluster: &Assessment<'_>, pod: &Pod) -> bool {
    cluster.serving_on(pod.node.as_deref()).fault() == Some(Why::NodeLost)
}

/// Explains why the pods behind these endpoints of kube-system could not be read; their state might contradict the
/// endpoints'.
pub(in crate::checks) fn unread_pods<'a>(
    cluster: &Assessment<'_>,
    endpoints: impl IntoIterator<Item = &'a ServiceEndpoint>,
) -> Option<Outcome> {
    let are_pods = endpoints.into_iter().any(|endpoint| endpoint.pod.is_some());
    system_pods(cluster).err().filter(|_| are_pods)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_words() {
        for (why, expected) in [
            (Why::NotReady, "are not ready"),
            (Why::PodGone, "no longer exist"),
            (Why::PodUnready, "pods that are not ready"),
            (Why::PodDeleted, "being deleted"),
            (Why::PodStopping, "being deleted"),
            (Why::OtherAddress, "not addresses"),
            (Why::NodeLost, "stopped reporting"),
            (Why::NodeGone, "stopped reporting"),
        ] {
            assert!(words(why).contains(expected), "{why:?}");
        }
    }
}
