//! Nodes.

use serde_json::{Value, json};

use super::{AGE, Cluster, Machine, Metadata};
use crate::world::healthy::talos::machine_id;
use crate::world::{hash, letters, seconds, uid};

const LABEL: &str = "node-role.kubernetes.io/control-plane";
const UNBALANCED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// Repository, tag and size of the images on every node.
const IMAGES: [(&str, &str, u64); 4] = [
    ("ghcr.io/siderolabs/kubelet", "", 88_430_592),
    ("registry.k8s.io/kube-proxy", "", 27_342_902),
    ("ghcr.io/siderolabs/flannel", "v0.28.4", 21_346_837),
    ("registry.k8s.io/pause", "3.10.1", 714_463),
];
/// Repository, tag and size of the additional images on control planes.
const CONTROL_IMAGES: [(&str, &str, u64); 4] = [
    ("registry.k8s.io/kube-apiserver", "", 34_978_009),
    ("registry.k8s.io/kube-controller-manager", "", 31_332_138),
    ("registry.k8s.io/coredns/coredns", "v1.14.6", 26_612_005),
    ("registry.k8s.io/kube-scheduler", "", 24_338_719),
];

pub(super) fn fill(cluster: &mut Cluster) {
    let managed_fields = managed_fields(&cluster.created());
    for machine in cluster.machines.clone() {
        let metadata = Metadata { labels: labels(&machine), annotations: annotations(&machine), ..Metadata::default() };
        let mut spec = json!({"podCIDR": pods(&machine), "podCIDRs": [pods(&machine)]});
        if machine.controls && cluster.machines.iter().any(|machine| !machine.controls) {
            spec["taints"] = json!([{"key": LABEL, "effect": "NoSchedule"}]);
        }
        let status = status(cluster, &machine);
        cluster.add("nodes", None, &machine.name, metadata, json!({"spec": spec, "status": status}));
        if let Some(node) = cluster.objects.get_mut("nodes").and_then(|nodes| nodes.last_mut()) {
            node["metadata"]["managedFields"] = managed_fields.clone();
        }
    }
}

fn pods(machine: &Machine) -> String {
    format!("{}/24", machine.pod_address(0))
}

fn labels(machine: &Machine) -> Value {
    let mut labels = json!({
        "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": machine.name, "kubernetes.io/os": "linux",
    });
    if machine.controls {
        labels[LABEL] = "".into();
        labels[UNBALANCED] = "".into();
    }
    labels
}

fn annotations(machine: &Machine) -> Value {
    let mac = hash(&machine.name).to_be_bytes().map(|byte| format!("{byte:02x}"));
    let backend = json!({"VNI": 1, "VtepMAC": format!("02:{}", mac[..5].join(":"))});
    let mut annotations = json!({
        "flannel.alpha.coreos.com/backend-data": backend.to_string(), "flannel.alpha.coreos.com/backend-type": "vxlan",
        "flannel.alpha.coreos.com/kube-subnet-manager": "true",
        "flannel.alpha.coreos.com/public-ip": machine.address.to_string(), "node.alpha.kubernetes.io/ttl": "0",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    });
    if machine.controls {
        annotations["talos.dev/owned-labels"] = json!([LABEL, UNBALANCED]).to_string().into();
    }
    annotations
}

fn status(cluster: &Cluster, machine: &Machine) -> Value {
    let memory = machine.memory;
    // Talos reserves more memory on control planes.
    let (cpu, allocatable) = if machine.controls {
        ("3950m", memory.saturating_sub(626_688))
    } else {
        ("3950m", memory.saturating_sub(495_616))
    };
    let (version, id) = (format!("v{}", cluster.versions.kubernetes), machine_id(&machine.name, machine.address));
    let amount = |cpu: &str, storage: &str, memory: u64| {
        json!({
            "cpu": cpu, "ephemeral-storage": storage, "hugepages-1Gi": "0", "hugepages-2Mi": "0",
            "memory": format!("{memory}Ki"), "pods": "110",
        })
    };
    let images = CONTROL_IMAGES.iter().filter(|_| machine.controls).chain(&IMAGES);
    let features = json!({"recursiveReadOnlyMounts": true, "userNamespaces": true});
    json!({
        "capacity": amount("4", "264212084Ki", memory),
        "allocatable": amount(cpu, "243229420756", allocatable),
        "conditions": conditions(cluster),
        "addresses": [
            {"type": "InternalIP", "address": machine.address.to_string()}, {"type": "Hostname", "address": machine.name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": id, "systemUUID": id, "bootID": uid(&format!("boot of {}", machine.name)),
            "kernelVersion": "6.18.44-talos", "osImage": format!("Talos (v{})", cluster.versions.talos),
            "containerRuntimeVersion": "containerd://2.2.9", "kubeletVersion": version, "kubeProxyVersion": "",
            "operatingSystem": "linux", "architecture": "amd64",
        },
        "images": images.map(|image| self::image(image, &version)).collect::<Vec<_>>(),
        "runtimeHandlers": [{"name": "", "features": features}, {"name": "runc", "features": features}],
        "features": {"supplementalGroupsPolicy": true},
    })
}

/// An image entry. Images of Kubernetes itself have the version of the cluster.
fn image((repository, tag, size): &(&str, &str, u64), version: &str) -> Value {
    let tag = if tag.is_empty() { version } else { tag };
    let digest = letters(&format!("{repository}:{tag}"), 64, b"0123456789abcdef");
    json!({"names": [format!("{repository}@sha256:{digest}"), format!("{repository}:{tag}")], "sizeBytes": size})
}

fn conditions(cluster: &Cluster) -> Value {
    let (since, heartbeat) = (cluster.created(), seconds(cluster.created + AGE));
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "lastHeartbeatTime": heartbeat, "lastTransitionTime": since, "reason": reason,
            "message": message,
        })
    };
    json!([
        condition("NetworkUnavailable", "False", "FlannelIsUp", "Flannel is running on this node"),
        condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ])
}

/// Managed fields of the kubelet, which are a large part of the data that a client has to read.
fn managed_fields(at: &str) -> Value {
    let of_condition = json!({
        ".": {}, "f:lastHeartbeatTime": {}, "f:lastTransitionTime": {}, "f:message": {}, "f:reason": {}, "f:status": {},
        "f:type": {},
    });
    let mut conditions = json!({".": {}});
    for kind in ["DiskPressure", "MemoryPressure", "PIDPressure", "Ready"] {
        conditions[format!("k:{{\"type\":\"{kind}\"}}")] = of_condition.clone();
    }
    let info: serde_json::Map<_, _> =
        ["bootID", "containerRuntimeVersion", "kernelVersion", "kubeletVersion", "machineID", "osImage", "systemUUID"]
            .map(|field| (format!("f:{field}"), json!({})))
            .into_iter()
            .collect();
    let amounts = json!({".": {}, "f:cpu": {}, "f:ephemeral-storage": {}, "f:memory": {}, "f:pods": {}});
    let fields = json!({"f:status": {
        "f:allocatable": amounts, "f:capacity": amounts, "f:conditions": conditions, "f:images": {}, "f:nodeInfo": info,
        "f:runtimeHandlers": {},
    }});
    json!([{
        "manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": at, "fieldsType": "FieldsV1",
        "fieldsV1": fields, "subresource": "status",
    }])
}
