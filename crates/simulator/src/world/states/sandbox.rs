//! Pods without a sandbox.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::world::kubernetes::suffix;
use crate::world::{Kubernetes, seconds};

const NAMESPACE: &str = "default";

/// Duration of the trouble.
const SINCE: SignedDuration = SignedDuration::from_mins(11);
/// Age of a pod that ran before the trouble.
const AGE: SignedDuration = SignedDuration::from_hours(50);

/// Name of the waiting pod.
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
    put_event(kubernetes, node, now);
}

/// A pod ran before the machine was rebooted, and gets no sandbox again: it stays in phase Running.
pub(super) fn strand(kubernetes: &mut Kubernetes, node: &str, now: Timestamp) {
    let lost = seconds(now - SINCE);
    put_runner(
        kubernetes,
        node,
        now,
        "False",
        &lost,
        &json!({"terminated": {
            "exitCode": 255, "reason": "Unknown", "startedAt": seconds(now - AGE), "finishedAt": lost,
            "containerID": "containerd://2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
        }}),
    );
    put_event(kubernetes, node, now);
}

/// The pod has a sandbox again, and the event remains, as in a real cluster.
pub(super) fn restart(kubernetes: &mut Kubernetes, node: &str, now: Timestamp) {
    let now_told = seconds(now);
    put_runner(kubernetes, node, now, "True", &now_told, &json!({"running": {"startedAt": now_told}}));
    put_event(kubernetes, node, now - SignedDuration::from_secs(5));
}

fn put_runner(kubernetes: &mut Kubernetes, node: &str, now: Timestamp, status: &str, turned: &str, state: &Value) {
    let (created, ready) = (seconds(now - AGE), status == "True");
    let condition =
        |kind: &str, status: &str, at: &str| json!({"type": kind, "status": status, "lastTransitionTime": at});
    let mut told = json!({
        "phase": "Running", "startTime": created, "qosClass": "BestEffort",
        "conditions": [
            condition("PodReadyToStartContainers", status, turned), condition("Initialized", "True", &created),
            condition("Ready", status, turned), condition("ContainersReady", status, turned),
            condition("PodScheduled", "True", &created),
        ],
        "containerStatuses": [{
            "name": "web", "image": "registry.example/web:v1", "imageID": "registry.example/web@sha256:0e0f", "ready": ready,
            "restartCount": 1, "started": ready, "state": state, "lastState": {},
        }],
    });
    if ready {
        told["podIP"] = "10.244.77.9".into();
    }
    kubernetes.put("pods", json!({
        "metadata": {"name": name(node), "namespace": NAMESPACE, "creationTimestamp": created, "labels": {"app": "web"}},
        "spec": {"nodeName": node, "containers": [{"name": "web", "image": "registry.example/web:v1"}]},
        "status": told,
    }));
}

fn put_event(kubernetes: &mut Kubernetes, node: &str, last: Timestamp) {
    let (pod, since) = (name(node), seconds(last - SINCE));
    let uid = kubernetes.object("pods", Some(NAMESPACE), &pod).map(|pod| pod["metadata"]["uid"].clone());
    let message = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox: \
                   plugin type=\"flannel\" failed (add): failed to delegate add: failed to set bridge addr: \"cni0\" already \
                   has an IP address different from 10.244.77.1/24";
    kubernetes.put("events", json!({
        "metadata": {"name": format!("{pod}.sandbox"), "namespace": NAMESPACE, "creationTimestamp": since},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": NAMESPACE, "name": pod, "uid": uid},
        "reason": "FailedCreatePodSandBox", "message": message, "type": "Warning", "count": 53,
        "source": {"component": "kubelet", "host": node}, "reportingComponent": "kubelet", "reportingInstance": node,
        "firstTimestamp": since, "lastTimestamp": seconds(last), "eventTime": null,
    }));
}

pub(super) fn heal(kubernetes: &mut Kubernetes, node: &str) {
    let pod = name(node);
    kubernetes.remove("pods", Some(NAMESPACE), &pod);
    kubernetes.remove("events", Some(NAMESPACE), &format!("{pod}.sandbox"));
}
