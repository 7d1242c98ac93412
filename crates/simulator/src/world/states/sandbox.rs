//! Pods that get no sandbox.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::world::kubernetes::suffix;
use crate::world::{Kubernetes, seconds};

const NAMESPACE: &str = "default";

/// For so long it has been so.
const SINCE: SignedDuration = SignedDuration::from_mins(11);

/// Of the pod that waits.
fn name(node: &str) -> String {
    format!("web-{}", suffix(node, 5))
}

pub(super) fn fail(kubernetes: &mut Kubernetes, node: &str, now: Timestamp) {
    let (pod, since) = (name(node), seconds(now - SINCE));
    kubernetes.merge(
        "nodes",
        None,
        node,
        &json!({"spec": {"podCIDR": "10.244.77.0/24", "podCIDRs": ["10.244.77.0/24"]}}),
    );
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": since});
    kubernetes.put("pods", json!({
        "metadata": {"name": pod, "namespace": NAMESPACE, "creationTimestamp": since, "labels": {"app": "web"}},
        "spec": {"nodeName": node, "containers": [{"name": "web", "image": "registry.example/web:v1"}]},
        "status": {
            "phase": "Pending", "startTime": since, "qosClass": "BestEffort",
            "conditions": [
                condition("PodReadyToStartContainers", "False"), condition("Initialized", "True"),
                condition("Ready", "False"), condition("ContainersReady", "False"), condition("PodScheduled", "True"),
            ],
            "containerStatuses": [{
                "name": "web", "image": "registry.example/web:v1", "imageID": "", "ready": false, "restartCount": 0,
                "started": false, "state": {"waiting": {"reason": "ContainerCreating"}}, "lastState": {},
            }],
        },
    }));
    let message = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox: \
                   plugin type=\"flannel\" failed (add): failed to delegate add: failed to set bridge addr: \"cni0\" already \
                   has an IP address different from 10.244.77.1/24";
    kubernetes.put("events", json!({
        "metadata": {"name": format!("{pod}.sandbox"), "namespace": NAMESPACE, "creationTimestamp": since},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": NAMESPACE, "name": pod},
        "reason": "FailedCreatePodSandBox", "message": message, "type": "Warning", "count": 53,
        "source": {"component": "kubelet", "host": node}, "reportingComponent": "kubelet", "reportingInstance": node,
        "firstTimestamp": since, "lastTimestamp": seconds(now), "eventTime": null,
    }));
}

pub(super) fn heal(kubernetes: &mut Kubernetes, node: &str) {
    let pod = name(node);
    kubernetes.remove("pods", Some(NAMESPACE), &pod);
    kubernetes.remove("events", Some(NAMESPACE), &format!("{pod}.sandbox"));
}
