//! Pods of kube-system: static pods of the control planes, one pod of each `DaemonSet` on every node, and DNS.

use std::net::{IpAddr, SocketAddr};

use serde_json::{Value, json};

use super::admission::{admitted, bound, defaulted};
use super::templates::{coredns, flannel, proxy};
use super::{Cluster, Machine, Metadata, SYSTEM, controller, uid_of};
use crate::address::API_SERVER;
use crate::world::{letters, static_pods, static_uid, suffix};

pub(super) const PROXY: &str = "kube-proxy";
pub(super) const FLANNEL: &str = "kube-flannel";
pub(super) const COREDNS: &str = "coredns";

pub(super) fn fill(cluster: &mut Cluster) {
    for machine in cluster.machines.clone() {
        if machine.controls {
            for component in static_pods::components() {
                static_pod(cluster, &machine, component);
            }
        }
        let (proxy, flannel) = (proxy(cluster), flannel(cluster));
        of_daemon_set(cluster, &machine, PROXY, "kube-proxy", proxy);
        of_daemon_set(cluster, &machine, FLANNEL, "flannel", flannel);
    }
    for (name, machine, address) in dns_pods(cluster) {
        let labels = json!({"k8s-app": "kube-dns", "pod-template-hash": dns_hash()});
        let owner = controller("apps/v1", "ReplicaSet", "replicasets.apps", &dns_set());
        let generate_name = Some(format!("{}-", dns_set()));
        let metadata = Metadata { generate_name, labels, owner, generation: Some(1), ..Metadata::default() };
        let spec = coredns(cluster);
        add(cluster, &machine, &name, metadata, spec, address);
    }
}

/// Name of `CoreDNS`'s `ReplicaSet`.
pub(super) fn dns_set() -> String {
    format!("{COREDNS}-{}", dns_hash())
}

/// Hash of the pod template of `CoreDNS`.
pub(super) fn dns_hash() -> String {
    suffix(COREDNS, 10)
}

/// Names, nodes and addresses of the pods of `CoreDNS`.
pub(super) fn dns_pods(cluster: &Cluster) -> Vec<(String, Machine, IpAddr)> {
    let pod = |index: u8| {
        let machine = cluster.spread(usize::from(index));
        let address = machine.pod_address(2 + u32::from(index));
        (format!("{}-{}", dns_set(), suffix(&format!("{COREDNS} {index}"), 5)), machine, address)
    };
    if cluster.machines.is_empty() { Vec::new() } else { (0..2).map(pod).collect() }
}

fn of_daemon_set(cluster: &mut Cluster, machine: &Machine, set: &str, app: &str, spec: Value) {
    let hash = suffix(set, 10);
    let labels = json!({
        "controller-revision-hash": hash, "k8s-app": app, "pod-template-generation": "1", "tier": "node",
    });
    let owner = controller("apps/v1", "DaemonSet", "daemonsets.apps", set);
    let generate_name = Some(format!("{set}-"));
    let metadata = Metadata { generate_name, labels, owner, generation: Some(1), ..Metadata::default() };
    // Among thousands of pods, two would get the same name; an API server also generates another one then.
    let mut name = format!("{set}-{}", suffix(&format!("{set} {}", machine.name), 5));
    while !cluster.pods.insert(name.clone()) {
        name = format!("{set}-{}", suffix(&name, 5));
    }
    add(cluster, machine, &name, metadata, bound(spec, &machine.name), machine.address);
}

/// Adds the mirror pod that represents a static pod in the API.
fn static_pod(cluster: &mut Cluster, machine: &Machine, component: &str) {
    let name = format!("{component}-{}", machine.name);
    let endpoint = SocketAddr::new(cluster.balancer, API_SERVER);
    let mut manifest = static_pods::manifest(component, &cluster.versions, endpoint, cluster.api_port);
    let hash = static_uid(&name);
    let mut annotations = manifest["metadata"]["annotations"].take();
    annotations["kubernetes.io/config.hash"] = json!(hash);
    annotations["kubernetes.io/config.mirror"] = json!(hash);
    annotations["kubernetes.io/config.seen"] = json!(cluster.created.strftime("%Y-%m-%dT%H:%M:%S%.9fZ").to_string());
    annotations["kubernetes.io/config.source"] = json!("http");
    let owner = json!({
        "apiVersion": "v1", "kind": "Node", "name": machine.name, "uid": uid_of("nodes", None, &machine.name),
        "controller": true,
    });
    let labels = manifest["metadata"]["labels"].take();
    let metadata = Metadata { labels, annotations, owner, generation: Some(1), ..Metadata::default() };
    let mut spec = manifest["spec"].take();
    // Priorities come from Kubernetes, which knows the values of its priority classes.
    spec.as_object_mut().map(|spec| spec.shift_remove("priority"));
    add(cluster, machine, &name, metadata, defaulted(spec), machine.address);
}

/// Adds a pod that has been running since the cluster was created.
fn add(cluster: &mut Cluster, machine: &Machine, name: &str, metadata: Metadata, spec: Value, address: IpAddr) {
    let mut spec = admitted(spec, name);
    let created = cluster.created();
    // The kubelet only reports a generation for pods that come from the API server.
    let generation = (metadata.annotations["kubernetes.io/config.source"].is_null()).then_some(1);
    let with_generation = |mut value: Value| {
        if let Some(generation) = generation {
            value["observedGeneration"] = json!(generation);
        }
        value
    };
    let condition = |kind| {
        with_generation(json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": created}))
    };
    let conditions =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition);
    let user = spec["securityContext"].get("runAsUser").cloned().unwrap_or_else(|| json!(0));
    let all = |key: &str, state: &dyn Fn(&str) -> Value| -> Vec<Value> {
        let containers = spec.get(key).and_then(Value::as_array).into_iter().flatten();
        containers.map(|container| container_status(name, container, &user, state)).collect()
    };
    let burstable = spec["containers"][0]["resources"].get("requests").is_some();
    let mut status = with_generation(json!({
        "phase": "Running", "conditions": conditions, "hostIP": machine.address.to_string(),
        "hostIPs": [{"ip": machine.address.to_string()}], "podIP": address.to_string(),
        "podIPs": [{"ip": address.to_string()}], "startTime": created,
        "containerStatuses": all("containers", &|_| json!({"running": {"startedAt": created}})),
        "qosClass": if burstable { "Burstable" } else { "BestEffort" },
    }));
    let finished = all("initContainers", &|id| {
        json!({"terminated": {
            "exitCode": 0, "reason": "Completed", "startedAt": created, "finishedAt": created, "containerID": id,
        }})
    });
    if !finished.is_empty() {
        status["initContainerStatuses"] = finished.into();
    }
    spec["nodeName"] = machine.name.as_str().into();
    cluster.add("pods", Some(SYSTEM), name, metadata, json!({"spec": spec, "status": status}));
}

/// The status of a container; `state` is a function of the container's id.
fn container_status(pod: &str, container: &Value, user: &Value, state: &dyn Fn(&str) -> Value) -> Value {
    let image = container["image"].as_str().unwrap_or_default();
    let digest = letters(image, 64, b"0123456789abcdef");
    let repository = image.rsplit_once(':').map_or(image, |(repository, _)| repository);
    let id = letters(&format!("{pod}/{}", container["name"]), 64, b"0123456789abcdef");
    let id = format!("containerd://{id}");
    let state = state(&id);
    let mounted = |mount: &Value| {
        let mut mount = mount.clone();
        if mount.get("readOnly").is_some() {
            mount["recursiveReadOnly"] = json!("Disabled");
        }
        mount
    };
    let mounts = container["volumeMounts"].as_array().into_iter().flatten();
    let mut status = json!({
        "name": container["name"], "state": state, "lastState": {}, "ready": true, "restartCount": 0, "image": image,
        "imageID": format!("{repository}@sha256:{digest}"), "containerID": id,
        "started": state.get("terminated").is_none(), "resources": container["resources"],
        "volumeMounts": mounts.map(mounted).collect::<Vec<_>>(),
        "user": {"linux": {"uid": user, "gid": user, "supplementalGroups": [user]}},
    });
    if let Some(requests) = container["resources"].get("requests") {
        status["allocatedResources"] = requests.clone();
    }
    status
}
