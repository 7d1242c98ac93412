//! Converts Node objects to facts.

use jiff::Timestamp;

use super::lists::{Kept, Listed};
use super::objects::{annotation, name};
use super::room;
use super::wire::core;
use super::wire::meta::{ObjectMeta, Time};
use crate::observe::exact;
use crate::snapshot::{AUTOSCALER_TAINT, Condition, KubeNode, Taint};
use crate::text::sanitize::without_secrets;

/// Annotations in which flannel publishes a node's address; with the suffix `-overwrite`, the user sets the address.
const FLANNEL: [&str; 2] = ["flannel.alpha.coreos.com/public-ip", "flannel.alpha.coreos.com/public-ipv6"];

/// Returns the time since which a node has been marked for removal.
fn leaving_since(metadata: &ObjectMeta, taints: &[core::Taint]) -> Option<Timestamp> {
    let marked = taints.iter().filter(|taint| taint.key == AUTOSCALER_TAINT).filter_map(|taint| {
        let told = taint.value.as_ref().and_then(|seconds| Timestamp::from_second(seconds.parse().ok()?).ok());
        told.or(taint.time_added.as_ref().map(|time| time.0))
    });
    marked.chain(metadata.deletion_timestamp.as_ref().map(|time| time.0)).min()
}

/// Returns Node objects with the time of the list.
pub(super) fn nodes(listed: Listed<KubeNode>) -> Vec<KubeNode> {
    exact(listed.items.into_iter().map(|item| KubeNode { told: listed.date, ..item.kept }).collect())
}

impl Kept for KubeNode {
    type Object = core::Node;

    fn of(node: core::Node) -> Self {
        let mut metadata = node.metadata;
        let labels = metadata.labels.take().unwrap_or_default();
        let spec = node.spec.unwrap_or_default();
        let status = node.status.unwrap_or_default();
        let info = status.node_info.unwrap_or_default();
        let leaving_since = leaving_since(&metadata, spec.taints.as_deref().unwrap_or_default());
        let addresses = status.addresses.unwrap_or_default();
        let of = |kind: &str| -> Vec<String> {
            let told = addresses.iter().filter(|address| address.type_ == kind);
            told.map(|address| address.address.clone()).collect()
        };
        Self {
            name: name(&metadata),
            // Some clouds list the external address first, and it may be unreachable.
            addresses: [of("InternalIP"), of("ExternalIP")].concat(),
            internal: of("InternalIP"),
            overlay: FLANNEL.iter().filter_map(|key| annotation(&metadata, key)).map(str::to_owned).collect(),
            overlay_is_set: FLANNEL.iter().any(|key| annotation(&metadata, &format!("{key}-overwrite")).is_some()),
            control_plane_label: labels.contains_key("node-role.kubernetes.io/control-plane"),
            labels,
            machine_id: info.machine_id,
            boot_id: info.boot_id,
            os_image: info.os_image,
            kernel: info.kernel_version,
            kubelet_version: info.kubelet_version,
            unschedulable: spec.unschedulable.unwrap_or_default(),
            cordoned_by_talos: annotation(&metadata, "talos.dev/cordoned") == Some("true"),
            cordoned_since: cordoned_since(spec.taints.as_deref().unwrap_or_default()),
            taints: taints(spec.taints),
            pod_cidrs: spec
                .pod_cidrs
                .filter(|it| !it.is_empty())
                .unwrap_or_else(|| [spec.pod_cidr].into_iter().filter(|it| !it.is_empty()).collect()),
            out_of: room::out_of(status.allocatable.as_ref()),
            conditions: exact(status.conditions.unwrap_or_default().into_iter().map(condition).collect()),
            deleting: metadata.deletion_timestamp.is_some(),
            leaving_since,
            // Set later, from the list.
            told: None,
            created: metadata.creation_timestamp.map(|time| time.0),
        }
    }
}

fn condition(condition: core::NodeCondition) -> Condition {
    Condition {
        kind: condition.type_,
        status: condition.status,
        reason: condition.reason.unwrap_or_default(),
        message: condition.message.as_deref().map(without_secrets).unwrap_or_default(),
        since: condition.last_transition_time.map(|Time(time)| time),
    }
}

fn cordoned_since(taints: &[core::Taint]) -> Option<Timestamp> {
    let taint = taints.iter().find(|taint| taint.key == "node.kubernetes.io/unschedulable")?;
    taint.time_added.as_ref().map(|time| time.0)
}

pub(super) fn taints(taints: Option<Vec<core::Taint>>) -> Vec<Taint> {
    let taint = |it: core::Taint| Taint { key: it.key, value: it.value.unwrap_or_default(), effect: it.effect };
    taints.unwrap_or_default().into_iter().map(taint).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::observe::kubernetes::objects::tests::read;

    #[test]
    fn a_node_keeps_what_is_judged() {
        let node = KubeNode::of(read(json!({
            "metadata": {
                "name": "cp-1", "creationTimestamp": "2026-11-21T13:33:57Z", "resourceVersion": "27475",
                "labels": {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/hostname": "cp-1"},
                "annotations": {"talos.dev/cordoned": "true", "flannel.alpha.coreos.com/public-ip": "10.0.0.1",
                    "flannel.alpha.coreos.com/public-ipv6-overwrite": "fd00::1"},
            },
            "spec": {"unschedulable": true, "taints": [
                {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "2026-11-21T13:40:00Z"},
            ], "podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24", "fd00:10:244:1::/64"]},
            "status": {
                "allocatable": {"cpu": "0", "memory": "1Gi"},
                "addresses": [
                    {"type": "ExternalIP", "address": "192.0.2.1"},
                    {"type": "InternalIP", "address": "10.0.0.1"},
                    {"type": "Hostname", "address": "cp-1"},
                ],
                "conditions": [{
                    "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
                    "message": "Kubelet stopped posting node status.",
                    "lastHeartbeatTime": null, "lastTransitionTime": "2026-11-21T13:56:40Z",
                }],
                "nodeInfo": {
                    "osImage": "Talos (v1.13.0)", "architecture": "amd64", "bootID": "", "machineID": "", "systemUUID": "",
                    "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "v1.35.4",
                    "operatingSystem": "linux",
                },
            },
        })));
        assert_eq!(node.addresses, ["10.0.0.1", "192.0.2.1"]);
        assert_eq!(node.internal, ["10.0.0.1"]);
        assert_eq!((node.overlay.as_slice(), node.overlay_is_set), (&["10.0.0.1".to_owned()][..], true));
        assert_eq!(node.pod_cidrs, ["10.244.1.0/24", "fd00:10:244:1::/64"]);
        assert_eq!(node.out_of, ["cpu", "pods"]);
        assert!(node.control_plane_label && node.unschedulable && node.cordoned_by_talos && !node.deleting);
        let taints: Vec<_> = node.taints.iter().map(|taint| (taint.key.as_str(), taint.effect.as_str())).collect();
        assert_eq!(
            taints,
            [
                ("node-role.kubernetes.io/control-plane", "NoSchedule"),
                ("node.kubernetes.io/unschedulable", "NoSchedule")
            ]
        );
        assert_eq!((node.os_image.as_str(), node.kubelet_version.as_str()), ("Talos (v1.13.0)", "v1.35.4"));
        let ready = node.condition("Ready").unwrap();
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("Unknown", "NodeStatusUnknown"));
        assert_eq!(ready.since, Some("2026-11-21T13:56:40Z".parse().unwrap()));
        assert_eq!(node.created, Some("2026-11-21T13:33:57Z".parse().unwrap()));
    }

    #[test]
    fn a_node_leaves_since_it_was_marked_or_deleted() {
        let since = |metadata: Value, taints: Value| {
            let node = KubeNode::of(read(json!({"metadata": metadata, "spec": {"taints": taints}})));
            node.leaving_since.map(Timestamp::as_second)
        };
        let taint = |value: &str| {
            let key = "ToBeDeletedByClusterAutoscaler";
            json!([{"key": key, "value": value, "effect": "NoSchedule", "timeAdded": "2026-11-21T13:40:00Z"}])
        };
        let (name, added, marked) = (json!({"name": "w-1"}), 1_795_268_400, 1_795_268_100);
        assert_eq!(since(name.clone(), json!([])), None);
        assert_eq!(since(name.clone(), taint(&marked.to_string())), Some(marked));
        for value in ["", "soon", "99999999999999999999"] {
            assert_eq!(since(name.clone(), taint(value)), Some(added), "{value}");
        }
        // The node was marked, but without a time.
        let untold = json!([{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]);
        assert_eq!(since(name.clone(), untold), None);
        let other =
            json!([{"key": "DeletionCandidateOfClusterAutoscaler", "value": "1", "effect": "PreferNoSchedule"}]);
        assert_eq!(since(name, other), None, "it may stay");
        let deleted = json!({"name": "w-1", "deletionTimestamp": "2026-11-21T13:39:00Z"});
        assert_eq!(since(deleted.clone(), json!([])), Some(added - 60));
        assert_eq!(since(deleted, taint(&marked.to_string())), Some(marked), "whatever was first");
    }

    #[test]
    fn an_empty_node_claims_nothing() {
        let node = KubeNode::of(read(json!({"metadata": {"name": "w-1"}})));
        assert_eq!(node.condition("Ready"), None);
        assert!(node.addresses.is_empty() && node.created.is_none());
    }
}
