//! Unhealthy pods, and the objects that count them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::world::{seconds, static_uid};

/// A trouble of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The node is silent: only the condition Ready shows this, and everything else is from the kubelet's last report.
    NodeLost,
    /// The containers end whenever they are started.
    Crashing,
    /// An image of the init containers cannot be pulled.
    Pulling,
    /// No node accepts the pod.
    Unscheduled,
}

/// Applies a trouble to a pod.
pub(super) fn spoil_pod(pod: &mut Value, trouble: Trouble, now: Timestamp) {
    let name = name(&pod["metadata"]).to_owned();
    spoil(&mut pod["status"], &name, trouble, now);
    if let (Trouble::Unscheduled, Some(spec)) = (trouble, pod["spec"].as_object_mut()) {
        spec.shift_remove("nodeName");
    }
}

/// Applies a trouble to the status of the pod with this name.
pub(super) fn spoil(status: &mut Value, pod: &str, trouble: Trouble, now: Timestamp) {
    let names = |status: &Value, of: &str| -> Vec<String> {
        let containers = status[of].as_array().into_iter().flatten();
        containers.filter_map(|container| Some(container["name"].as_str()?.to_owned())).collect()
    };
    match trouble {
        Trouble::NodeLost => condition(status, "Ready", &json!({"status": "False"}), now),
        Trouble::Crashing => {
            unready(status, &names(status, "containerStatuses"), now);
            containers(status, "containerStatuses", |container| {
                let back_off = format!(
                    "back-off 5m0s restarting failed container={} pod={pod}_kube-system({})",
                    name(container),
                    static_uid(pod)
                );
                container["lastState"] = terminated(&container["containerID"], now);
                container["state"] = json!({"waiting": {"reason": "CrashLoopBackOff", "message": back_off}});
                container["restartCount"] = json!(container["restartCount"].as_u64().unwrap_or_default() + 7);
            });
        }
        Trouble::Pulling => {
            let waiting = names(status, "initContainerStatuses");
            let incomplete = json!({"status": "False", "reason": "ContainersNotInitialized",
                "message": format!("containers with incomplete status: [{}]", waiting.join(" "))});
            condition(status, "Initialized", &incomplete, now);
            unready(status, &names(status, "containerStatuses"), now);
            status["phase"] = json!("Pending");
            containers(status, "initContainerStatuses", |container| {
                let image = container["image"].as_str().unwrap_or_default();
                let message = format!("Back-off pulling image \"{image}\"");
                container["state"] = json!({"waiting": {"reason": "ImagePullBackOff", "message": message}});
            });
            containers(status, "containerStatuses", |container| {
                container["state"] = json!({"waiting": {"reason": "PodInitializing"}});
            });
        }
        Trouble::Unscheduled => {
            let qos = status["qosClass"].take();
            *status = json!({"phase": "Pending", "conditions": [], "qosClass": qos});
            let unschedulable = json!({"status": "False", "reason": "Unschedulable",
                "message": "no nodes available to schedule pods: node(s) had untolerated taint(s)"});
            condition(status, "PodScheduled", &unschedulable, now);
        }
    }
}

/// Sets `Ready` and `ContainersReady` to false because of these containers.
fn unready(status: &mut Value, names: &[String], now: Timestamp) {
    let because = json!({"status": "False", "reason": "ContainersNotReady",
        "message": format!("containers with unready status: [{}]", names.join(" "))});
    condition(status, "Ready", &because, now);
    condition(status, "ContainersReady", &because, now);
}

fn containers(status: &mut Value, of: &str, mut change: impl FnMut(&mut Value)) {
    for container in status[of].as_array_mut().into_iter().flatten() {
        container["ready"] = json!(false);
        container["started"] = json!(false);
        change(container);
    }
}

fn name(container: &Value) -> &str {
    container["name"].as_str().unwrap_or_default()
}

fn terminated(id: &Value, now: Timestamp) -> Value {
    let at = seconds(now);
    json!({"terminated": {
        "exitCode": 1, "reason": "Error", "startedAt": at, "finishedAt": at, "containerID": id,
    }})
}

/// Sets a condition of a status like a controller: reason and message are removed if the patch does not contain them.
pub(super) fn condition(status: &mut Value, kind: &str, patch: &Value, now: Timestamp) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    let index = conditions.iter().position(|condition| condition["type"] == kind).unwrap_or_else(|| {
        conditions.push(json!({"type": kind}));
        conditions.len() - 1
    });
    let condition = &mut conditions[index];
    if condition["status"] != patch["status"] {
        condition["lastTransitionTime"] = json!(seconds(now));
    }
    for key in ["status", "reason", "message"] {
        match (&patch[key], condition.as_object_mut()) {
            (Value::Null, Some(condition)) => {
                condition.shift_remove(key);
            }
            (value, _) => condition[key] = value.clone(),
        }
    }
}

/// Sets the numbers of a `DaemonSet`, `Deployment` or `ReplicaSet` to this number of pods that are not ready.
pub(super) fn count(object: &mut Value, unready: usize, now: Timestamp) {
    let status = &mut object["status"];
    let total = ["desiredNumberScheduled", "replicas"].iter().find_map(|key| status[key].as_u64()).unwrap_or_default();
    let unready = u64::try_from(unready).unwrap_or(total).min(total);
    let ready = total - unready;
    if status["desiredNumberScheduled"].is_u64() {
        (status["numberReady"], status["numberAvailable"]) = (json!(ready), json!(ready));
        status["numberUnavailable"] = json!(unready);
        return;
    }
    let deployment = status["conditions"].is_array();
    set_unless_zero(status, "readyReplicas", ready);
    set_unless_zero(status, "availableReplicas", ready);
    if deployment {
        set_unless_zero(status, "unavailableReplicas", unready);
        // One replica may be missing, because `maxUnavailable` is 1 in Talos's CoreDNS.
        if unready > 1 {
            let missing = json!({"status": "False", "reason": "MinimumReplicasUnavailable",
                "message": "Deployment does not have minimum availability."});
            condition(status, "Available", &missing, now);
        }
    }
}

/// Sets a number, which Kubernetes omits if it is zero.
fn set_unless_zero(status: &mut Value, key: &str, number: u64) {
    match (number, status.as_object_mut()) {
        (0, Some(status)) => {
            status.shift_remove(key);
        }
        _ => status[key] = json!(number),
    }
}

/// Marks pods as not ready in an `EndpointSlice`.
pub(super) fn withdraw(slice: &mut Value, unready: &BTreeSet<String>) {
    for endpoint in slice["endpoints"].as_array_mut().into_iter().flatten() {
        if endpoint["targetRef"]["name"].as_str().is_some_and(|pod| unready.contains(pod)) {
            endpoint["conditions"]["ready"] = json!(false);
            endpoint["conditions"]["serving"] = json!(false);
        }
    }
}

/// Gives a lease to the candidate on another machine.
pub(super) fn take_lease(lease: &mut Value, node: &str) {
    let spec = &mut lease["spec"];
    let id =
        spec["holderIdentity"].as_str().and_then(|holder| Some(holder.split_once('_')?.1)).unwrap_or("1").to_owned();
    spec["holderIdentity"] = json!(format!("{node}_{id}"));
    spec["leaseTransitions"] = json!(spec["leaseTransitions"].as_u64().unwrap_or_default() + 1);
}
