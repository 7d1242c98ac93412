//! Kubernetes objects become facts: only what some judge reads is kept.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::certificates::v1 as certificates;
use k8s_openapi::api::coordination::v1 as coordination;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::lists::{Item, Kept, Listed};
use crate::report::sanitise::without_secrets;
use crate::snapshot::{
    Condition, ContainerState, DaemonSet, Deployment, KubeNode, Lease, Leases, Pod, PodState, ServiceEndpoint,
    SigningRequest,
};

/// Lists make sure that there is one.
fn name(metadata: &ObjectMeta) -> String {
    metadata.name.clone().unwrap_or_default()
}

fn labels(metadata: &ObjectMeta) -> BTreeMap<String, String> {
    metadata.labels.clone().unwrap_or_default()
}

fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

impl Kept for KubeNode {
    type Object = core::Node;

    fn of(node: core::Node) -> Self {
        let metadata = node.metadata;
        let spec = node.spec.unwrap_or_default();
        let status = node.status.unwrap_or_default();
        let info = status.node_info.unwrap_or_default();
        let label = |key: &str| metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(key));
        let addresses = status.addresses.unwrap_or_default();
        let of = |types: &[&str]| {
            let told = addresses.iter().filter(|address| types.contains(&address.type_.as_str()));
            told.map(|address| address.address.clone()).collect()
        };
        Self {
            name: name(&metadata),
            addresses: of(&["InternalIP", "ExternalIP"]),
            internal: of(&["InternalIP"]),
            machine_id: info.machine_id,
            control_plane_label: label("node-role.kubernetes.io/control-plane"),
            os_image: info.os_image,
            kubelet_version: info.kubelet_version,
            unschedulable: spec.unschedulable.unwrap_or_default(),
            cordoned_by_talos: annotation(&metadata, "talos.dev/cordoned") == Some("true"),
            taints: spec.taints.unwrap_or_default().into_iter().map(|taint| taint.key).collect(),
            conditions: status
                .conditions
                .unwrap_or_default()
                .into_iter()
                .map(|condition| Condition {
                    kind: condition.type_,
                    status: condition.status,
                    reason: condition.reason.unwrap_or_default(),
                    message: condition.message.as_deref().map(without_secrets).unwrap_or_default(),
                })
                .collect(),
            deleting: metadata.deletion_timestamp.is_some(),
            created: metadata.creation_timestamp.map(|time| time.0),
        }
    }
}

impl Kept for Pod {
    type Object = core::Pod;

    fn of(pod: core::Pod) -> Self {
        let metadata = pod.metadata;
        let spec = pod.spec.unwrap_or_default();
        let mut state = pod_state(pod.status.unwrap_or_default());
        // The runtime may call an image by its digest alone, and the specification says which version that is.
        for container in state.containers.iter_mut().filter(|container| !has_tag(&container.image)) {
            let asked = spec.containers.iter().find(|asked| asked.name == container.name);
            container.image = asked.and_then(|asked| asked.image.clone()).unwrap_or_default();
        }
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: name(&metadata),
            node: spec.node_name.filter(|node| !node.is_empty()),
            labels: labels(&metadata),
            mirror: annotation(&metadata, "kubernetes.io/config.mirror").is_some(),
            deleting: metadata.deletion_timestamp.is_some(),
            leader_elect: leader_elect(&spec.containers),
            state,
        }
    }
}

/// The last word counts, and the values are Go's.
fn leader_elect(containers: &[core::Container]) -> Option<bool> {
    let words = containers.iter().flat_map(|container| container.command.iter().chain(&container.args).flatten());
    let mut values = words.filter_map(|word| word.strip_prefix("--leader-elect"));
    match values.rfind(|value| value.is_empty() || value.starts_with('='))? {
        "" | "=true" | "=True" | "=TRUE" | "=t" | "=T" | "=1" => Some(true),
        "=false" | "=False" | "=FALSE" | "=f" | "=F" | "=0" => Some(false),
        _ => None,
    }
}

/// `registry:5000/name:tag`, maybe followed by `@sha256:…`.
fn has_tag(image: &str) -> bool {
    let name = image.split('@').next().unwrap_or_default();
    name.rsplit('/').next().is_some_and(|last| last.contains(':')) && !name.starts_with("sha256:")
}

fn pod_state(status: core::PodStatus) -> PodState {
    let conditions = status.conditions.unwrap_or_default();
    let message = status
        .message
        .or_else(|| {
            // Why it is not scheduled says more than that its containers are not ready.
            ["PodScheduled", "Initialized", "Ready"].into_iter().find_map(|kind| {
                conditions
                    .iter()
                    .find(|condition| condition.type_ == kind && condition.status != "True")
                    .and_then(|condition| condition.message.clone())
            })
        })
        .or(status.reason)
        .unwrap_or_default();
    // An init container that has done its work is ready; one that has not is why the others wait.
    let unfinished =
        status.init_container_statuses.unwrap_or_default().into_iter().filter(|container| !container.ready);
    PodState {
        phase: status.phase.unwrap_or_default(),
        ready: conditions.iter().find(|condition| condition.type_ == "Ready").map(|ready| ready.status == "True"),
        containers: status
            .container_statuses
            .unwrap_or_default()
            .into_iter()
            .chain(unfinished)
            .map(container)
            .collect(),
        message: without_secrets(&message),
    }
}

fn container(status: core::ContainerStatus) -> ContainerState {
    let state = status.state.unwrap_or_default();
    let waiting = state.waiting.unwrap_or_default();
    let terminated = state.terminated.or(status.last_state.and_then(|last| last.terminated));
    ContainerState {
        name: status.name,
        image: status.image,
        ready: status.ready,
        restarts: u32::try_from(status.restart_count).unwrap_or_default(),
        running: state.running.is_some(),
        waiting_reason: waiting.reason,
        waiting_message: waiting.message.as_deref().map(without_secrets),
        exit_code: terminated.as_ref().map(|terminated| terminated.exit_code),
        termination_reason: terminated.as_ref().and_then(|terminated| terminated.reason.clone()),
        termination_message: terminated.and_then(|it| it.message).as_deref().map(without_secrets),
    }
}

impl Kept for Lease {
    type Object = coordination::Lease;

    fn of(lease: coordination::Lease) -> Self {
        let spec = lease.spec.unwrap_or_default();
        Self {
            // Whoever has seen it before knows.
            moved_within: None,
            renewed: spec.renew_time.map(|time| time.0),
            resource_version: lease.metadata.resource_version.unwrap_or_default(),
            hostname: lease.metadata.labels.and_then(|mut labels| labels.remove("kubernetes.io/hostname")),
            holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
        }
    }
}

/// `moved_within` compares name and resource version with earlier samples.
pub(super) fn leases(listed: Listed<Lease>, moved_within: impl Fn(&str, &str) -> Option<Duration>) -> Leases {
    let lease = |item: Item<Lease>| {
        let moved_within = moved_within(&item.name, &item.kept.resource_version);
        (item.name, Lease { moved_within, ..item.kept })
    };
    Leases { date: listed.date, by_name: listed.items.into_iter().map(lease).collect() }
}

impl Kept for DaemonSet {
    type Object = apps::DaemonSet;

    fn of(set: apps::DaemonSet) -> Self {
        let status = set.status.unwrap_or_default();
        Self {
            name: name(&set.metadata),
            labels: labels(&set.metadata),
            generation: set.metadata.generation.unwrap_or_default(),
            observed_generation: status.observed_generation,
            desired: status.desired_number_scheduled,
            available: status.number_available.unwrap_or_default(),
        }
    }
}

impl Kept for Deployment {
    type Object = apps::Deployment;

    fn of(deployment: apps::Deployment) -> Self {
        Self {
            name: name(&deployment.metadata),
            labels: labels(&deployment.metadata),
            // The API server's default is one.
            replicas: deployment.spec.and_then(|spec| spec.replicas).unwrap_or(1),
            available: deployment.status.and_then(|status| status.available_replicas).unwrap_or_default(),
        }
    }
}

impl Kept for SigningRequest {
    type Object = certificates::CertificateSigningRequest;

    fn of(request: certificates::CertificateSigningRequest) -> Self {
        let conditions = request.status.and_then(|status| status.conditions).unwrap_or_default();
        Self {
            name: name(&request.metadata),
            signer: request.spec.signer_name,
            user: request.spec.username.unwrap_or_default(),
            pending: !conditions.iter().any(|it| matches!(it.type_.as_str(), "Approved" | "Denied")),
        }
    }
}

/// Endpoints of one slice. Those that terminate are on their way out and do not count.
impl Kept for Vec<ServiceEndpoint> {
    type Object = discovery::EndpointSlice;

    fn of(slice: discovery::EndpointSlice) -> Self {
        let endpoint = |endpoint: discovery::Endpoint| {
            let conditions = endpoint.conditions.unwrap_or_default();
            if conditions.terminating == Some(true) || endpoint.addresses.is_empty() {
                return None;
            }
            Some(ServiceEndpoint {
                addresses: endpoint.addresses,
                // "A nil value should be interpreted as true", says the API.
                ready: conditions.ready.unwrap_or(true),
                node: endpoint.node_name,
            })
        };
        slice.endpoints.into_iter().filter_map(endpoint).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_node_keeps_what_is_judged() {
        let node = KubeNode::of(read(json!({
            "metadata": {
                "name": "cp-1", "creationTimestamp": "2026-11-21T13:33:57Z", "resourceVersion": "27475",
                "labels": {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/hostname": "cp-1"},
                "annotations": {"talos.dev/cordoned": "true"},
            },
            "spec": {"unschedulable": true, "taints": [
                {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "2026-11-21T13:40:00Z"},
            ]},
            "status": {
                "addresses": [
                    {"type": "InternalIP", "address": "10.0.0.1"},
                    {"type": "Hostname", "address": "cp-1"},
                    {"type": "ExternalIP", "address": "192.0.2.1"},
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
        assert!(node.control_plane_label && node.unschedulable && node.cordoned_by_talos && !node.deleting);
        assert_eq!(node.taints, ["node-role.kubernetes.io/control-plane", "node.kubernetes.io/unschedulable"]);
        assert_eq!((node.os_image.as_str(), node.kubelet_version.as_str()), ("Talos (v1.13.0)", "v1.35.4"));
        let ready = node.condition("Ready").unwrap();
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("Unknown", "NodeStatusUnknown"));
        assert_eq!(node.created, Some("2026-11-21T13:33:57Z".parse().unwrap()));
    }

    #[test]
    fn an_empty_node_claims_nothing() {
        let node = KubeNode::of(read(json!({"metadata": {"name": "w-1"}})));
        assert_eq!(node.condition("Ready"), None);
        assert!(node.addresses.is_empty() && node.created.is_none());
    }

    #[test]
    fn a_crash_looping_pod_is_phase_running() {
        let pod = Pod::of(read(json!({
            "metadata": {
                "name": "kube-scheduler-cp-2", "namespace": "kube-system",
                "annotations": {"kubernetes.io/config.mirror": "0123456789abcdef"},
                "labels": {"k8s-app": "kube-scheduler"},
            },
            "spec": {"nodeName": "cp-2", "containers": []},
            "status": {
                "phase": "Running",
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "ContainersNotReady",
                     "message": "containers with unready status: [kube-scheduler]"},
                ],
                "containerStatuses": [{
                    "name": "kube-scheduler", "ready": false, "restartCount": 7, "image": "", "imageID": "",
                    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
                    "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": "no such flag\ntoken: hunter2"}},
                }],
                "initContainerStatuses": [
                    {"name": "done", "ready": true, "restartCount": 0, "image": "", "imageID": ""},
                    {"name": "stuck", "ready": false, "restartCount": 0, "image": "", "imageID": ""},
                ],
            },
        })));
        assert!(pod.mirror);
        assert_eq!(pod.node.as_deref(), Some("cp-2"));
        assert_eq!((pod.state.phase.as_str(), pod.state.ready), ("Running", Some(false)));
        assert_eq!(pod.state.message, "containers with unready status: [kube-scheduler]");
        let names: Vec<_> = pod.state.containers.iter().map(|container| container.name.as_str()).collect();
        assert_eq!(names, ["kube-scheduler", "stuck"]);
        let container = &pod.state.containers[0];
        assert_eq!((container.ready, container.running, container.restarts), (false, false, 7));
        assert_eq!(container.waiting_reason.as_deref(), Some("CrashLoopBackOff"));
        assert_eq!(container.exit_code, Some(1));
        assert_eq!(container.termination_message.as_deref(), Some("no such flag\ntoken ***"));
    }

    #[test]
    fn an_image_that_the_runtime_calls_by_its_digest_is_told_by_the_specification() {
        for (running, expected) in [
            ("registry:5000/kube-scheduler:v1.35.3@sha256:abc", "registry:5000/kube-scheduler:v1.35.3@sha256:abc"),
            ("sha256:abc", "registry:5000/kube-scheduler:v1.35.4"),
            ("registry:5000/kube-scheduler@sha256:abc", "registry:5000/kube-scheduler:v1.35.4"),
            ("", "registry:5000/kube-scheduler:v1.35.4"),
        ] {
            let pod = Pod::of(read(json!({
                "metadata": {"name": "kube-scheduler-cp-2", "namespace": "kube-system"},
                "spec": {"containers": [{"name": "kube-scheduler", "image": "registry:5000/kube-scheduler:v1.35.4"}]},
                "status": {"containerStatuses": [
                    {"name": "kube-scheduler", "ready": true, "restartCount": 0, "image": running, "imageID": ""},
                ]},
            })));
            assert_eq!(pod.state.containers[0].image, expected);
        }
    }

    #[test]
    fn a_pod_tells_whether_it_takes_part_in_an_election() {
        for (command, args, expected) in [
            (json!(["kube-scheduler", "--leader-elect=false"]), json!(null), Some(false)),
            (json!(["kube-scheduler", "--leader-elect=true"]), json!(["--leader-elect=0"]), Some(false)),
            (json!(["kube-scheduler", "--leader-elect=false", "--leader-elect"]), json!([]), Some(true)),
            (json!(["kube-scheduler", "--leader-elect-lease-duration=15s"]), json!(null), None),
            (json!(["kube-scheduler", "--leader-elect=no"]), json!(null), None),
            (json!(null), json!(null), None),
        ] {
            let pod = Pod::of(read(json!({
                "metadata": {"name": "kube-scheduler-cp-2", "namespace": "kube-system"},
                "spec": {"containers": [{"name": "kube-scheduler", "command": command, "args": args}]},
            })));
            assert_eq!(pod.leader_elect, expected, "{command} {args}");
        }
    }

    #[test]
    fn a_request_is_pending_until_it_is_approved_or_denied() {
        for (conditions, pending) in [
            (json!(null), true),
            (json!([]), true),
            (json!([{"type": "Failed", "status": "True"}]), true),
            (json!([{"type": "Approved", "status": "True"}]), false),
            (json!([{"type": "Denied", "status": "True"}]), false),
        ] {
            let request = SigningRequest::of(read(json!({
                "metadata": {"name": "csr-1"},
                "spec": {"request": "", "signerName": "kubernetes.io/kubelet-serving", "username": "system:node:w-1"},
                "status": {"conditions": conditions},
            })));
            assert_eq!(request.pending, pending, "{conditions}");
            assert_eq!((request.signer.as_str(), &*request.user), ("kubernetes.io/kubelet-serving", "system:node:w-1"));
        }
    }

    #[test]
    fn a_pod_without_status_is_not_ready() {
        let pod = Pod::of(read(json!({"metadata": {"name": "a", "namespace": "kube-system"}})));
        assert_eq!(pod.state.ready, None);
        assert!(pod.state.containers.is_empty());
    }

    #[test]
    fn leases_keep_renewal_holder_and_the_clock_of_the_server() {
        let items = vec![read(json!({
            "metadata": {"name": "cp-1", "resourceVersion": "20", "labels": {"kubernetes.io/hostname": "cp-1"}},
            "spec": {"holderIdentity": "cp-1", "renewTime": "2026-11-21T13:52:13.123456Z"},
        }))];
        let date = Some("2026-11-21T13:52:14Z".parse().unwrap());
        let leases = leases(Listed { date, items }, |name, version| {
            ((name, version) == ("cp-1", "20")).then_some(Duration::from_secs(12))
        });
        assert_eq!(leases.date, date);
        let lease = &leases.by_name["cp-1"];
        assert_eq!(lease.moved_within, Some(Duration::from_secs(12)));
        assert_eq!(lease.renewed, Some("2026-11-21T13:52:13.123456Z".parse().unwrap()));
        assert_eq!((lease.hostname.as_deref(), lease.holder.as_deref()), (Some("cp-1"), Some("cp-1")));
    }

    #[test]
    fn workloads_keep_their_numbers() {
        let set = DaemonSet::of(read(json!({
            "metadata": {"name": "kube-proxy", "generation": 2, "labels": {"k8s-app": "kube-proxy"}},
            "status": {"observedGeneration": 1, "desiredNumberScheduled": 4, "numberAvailable": 3,
                       "currentNumberScheduled": 4, "numberMisscheduled": 0, "numberReady": 3},
        })));
        assert_eq!((set.generation, set.observed_generation, set.desired, set.available), (2, Some(1), 4, 3));
        let unseen = DaemonSet::of(read(json!({"metadata": {"name": "kube-flannel", "generation": 1}})));
        assert_eq!((unseen.observed_generation, unseen.desired, unseen.available), (None, 0, 0));
        let dns = Deployment::of(read(json!({"metadata": {"name": "coredns"}, "status": {"availableReplicas": 2}})));
        assert_eq!((dns.replicas, dns.available), (1, 2));
    }

    #[test]
    fn readiness_of_endpoints_follows_the_api() {
        let slice = read(json!({
            "metadata": {"name": "kube-dns-x"}, "addressType": "IPv4",
            "endpoints": [
                {"addresses": ["10.244.0.2"], "conditions": {"ready": true}, "nodeName": "cp-1"},
                {"addresses": ["10.244.0.3"], "conditions": {}},
                {"addresses": ["10.244.0.4"]},
                {"addresses": ["10.244.0.5"], "conditions": {"ready": false, "serving": true, "terminating": true}},
                {"addresses": ["10.244.0.6"], "conditions": {"ready": false}},
                {"addresses": []},
            ],
        }));
        let endpoints = Vec::<ServiceEndpoint>::of(slice);
        let ready: Vec<_> = endpoints.iter().map(|endpoint| (endpoint.addresses[0].as_str(), endpoint.ready)).collect();
        assert_eq!(ready, [("10.244.0.2", true), ("10.244.0.3", true), ("10.244.0.4", true), ("10.244.0.6", false)]);
        assert_eq!(endpoints[0].node.as_deref(), Some("cp-1"));
        let empty: discovery::EndpointSlice =
            read(json!({"metadata": {"name": "x"}, "addressType": "IPv4", "endpoints": null}));
        assert!(Vec::<ServiceEndpoint>::of(empty).is_empty());
    }
}
