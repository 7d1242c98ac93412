//! Pod templates of the manifests that Talos applies in every cluster, with the default values of the API server.

use serde_json::{Value, json};

use super::Cluster;
use super::admission::defaulted;
use crate::version::TalosVersion;
use crate::world::flannel_image;

/// From this release on, Talos's manifests state where kube-proxy and `CoreDNS` run, and what kube-proxy requests.
const PLACED_SINCE: TalosVersion = TalosVersion::new(14, 0);

const COREDNS_IMAGE: &str = "registry.k8s.io/coredns/coredns:v1.14.6";

/// From this release on, flannel's manifest does without the directory of the plugins, which Talos itself fills.
const WITHOUT_PLUGINS_SINCE: TalosVersion = TalosVersion::new(13, 0);

/// Tolerations of `DaemonSet`s, which run on every node.
fn everywhere() -> Value {
    json!([{"operator": "Exists", "effect": "NoSchedule"}, {"operator": "Exists", "effect": "NoExecute"}])
}

fn host_path(name: &str, path: &str) -> Value {
    json!({"name": name, "hostPath": {"path": path}})
}

/// Volume mounts from the volume's name, its path, and whether it is read-only.
fn mounts(all: &[(&str, &str, bool)]) -> Value {
    let mount = |(name, path, read_only): &(&str, &str, bool)| {
        let mut mount = json!({"name": name, "mountPath": path});
        if *read_only {
            mount["readOnly"] = json!(true);
        }
        mount
    };
    all.iter().map(mount).collect()
}

/// Environment variables that come from fields of the pod, followed by those with fixed values.
fn variables(of_pod: &[(&str, &str)], values: &[(&str, &str)]) -> Value {
    let of_pod =
        of_pod.iter().map(|(name, path)| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}));
    of_pod.chain(values.iter().map(|(name, value)| json!({"name": name, "value": value}))).collect()
}

/// The nodes for which Talos publishes images.
fn supported_nodes() -> Value {
    let expressions = json!([
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"]},
    ]);
    json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}})
}

pub(super) fn proxy(cluster: &Cluster) -> Value {
    let volumes = [
        ("lib-modules", "/lib/modules", true),
        ("ssl-certs-host", "/etc/ssl/certs", true),
        ("kubeconfig", "/etc/kubernetes", true),
    ];
    let mut spec = json!({
        "volumes": [
            host_path("lib-modules", "/usr/lib/modules"),
            host_path("ssl-certs-host", "/etc/ssl/certs"),
            {"name": "kubeconfig", "configMap": {"name": "kubeconfig-in-cluster"}},
        ],
        "containers": [{
            "name": "kube-proxy",
            "image": format!("registry.k8s.io/kube-proxy:v{}", cluster.versions.kubernetes),
            "command": [
                "/usr/local/bin/kube-proxy", "--cluster-cidr=10.244.0.0/16", "--conntrack-max-per-core=0",
                "--hostname-override=$(NODE_NAME)", "--kubeconfig=/etc/kubernetes/kubeconfig", "--proxy-mode=nftables",
            ],
            "env": variables(&[("NODE_NAME", "spec.nodeName"), ("POD_IP", "status.podIP")], &[]),
            "volumeMounts": mounts(&volumes),
            "securityContext": {"privileged": true},
        }],
        "serviceAccountName": "kube-proxy",
        "hostNetwork": true,
        "tolerations": everywhere(),
        "priorityClassName": "system-cluster-critical",
    });
    if cluster.versions.talos >= PLACED_SINCE {
        spec["containers"][0]["resources"] = json!({"requests": {"cpu": "100m", "memory": "50Mi"}});
        spec["affinity"] = json!({"nodeAffinity": supported_nodes()});
    }
    defaulted(spec)
}

pub(super) fn flannel(cluster: &Cluster) -> Value {
    let image = flannel_image(cluster.versions.talos);
    let configuration = ("flannel-cfg", "/etc/kube-flannel/", false);
    let of_pod = [("POD_NAME", "metadata.name"), ("POD_NAMESPACE", "metadata.namespace")];
    let values = [
        ("EVENT_QUEUE_DEPTH", "5000"),
        ("CONT_WHEN_CACHE_NOT_READY", "false"),
        ("KUBERNETES_SERVICE_HOST", "127.0.0.1"),
        ("KUBERNETES_SERVICE_PORT", "7445"),
    ];
    let linux = json!({"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]});
    let mut volumes = vec![
        host_path("run", "/run/flannel"),
        host_path("cni", "/etc/cni/net.d"),
        json!({"name": "flannel-cfg", "configMap": {"name": "kube-flannel-cfg"}}),
    ];
    if cluster.versions.talos < WITHOUT_PLUGINS_SINCE {
        volumes.push(host_path("cni-plugin", "/opt/cni/bin"));
    }
    defaulted(json!({
        "volumes": volumes,
        "initContainers": [{
            "name": "install-config",
            "image": image,
            "command": ["cp"],
            "args": ["-f", "/etc/kube-flannel/cni-conf.json", "/etc/cni/net.d/10-flannel.conflist"],
            "volumeMounts": mounts(&[("cni", "/etc/cni/net.d", false), configuration]),
        }],
        "containers": [{
            "name": "kube-flannel",
            "image": image,
            "command": ["/opt/bin/flanneld"],
            "args": ["--ip-masq", "--kube-subnet-mgr"],
            "env": variables(&of_pod, &values),
            "resources": {"requests": {"cpu": "100m", "memory": "50Mi"}},
            "volumeMounts": mounts(&[("run", "/run/flannel", false), configuration]),
            "securityContext": {"capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}, "privileged": false},
        }],
        "serviceAccountName": "flannel",
        "hostNetwork": true,
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [linux]}},
        },
        "tolerations": everywhere(),
        "priorityClassName": "system-node-critical",
    }))
}

pub(super) fn coredns(cluster: &Cluster) -> Value {
    let ports = [("dns", "UDP", 53), ("dns-tcp", "TCP", 53), ("metrics", "TCP", 9153)];
    let ports = ports.map(|(name, protocol, port)| json!({"name": name, "containerPort": port, "protocol": protocol}));
    let tolerations = ["node-role.kubernetes.io/control-plane", "node.cloudprovider.kubernetes.io/uninitialized"];
    let tolerations = tolerations.map(|key| json!({"key": key, "operator": "Exists", "effect": "NoSchedule"}));
    let own = json!({"matchExpressions": [{"key": "k8s-app", "operator": "In", "values": ["kube-dns"]}]});
    let apart = json!({"labelSelector": own, "topologyKey": "kubernetes.io/hostname"});
    let mut spec = json!({
        "volumes": [{
            "name": "config-volume",
            "configMap": {"name": "coredns", "items": [{"key": "Corefile", "path": "Corefile"}]},
        }],
        "containers": [{
            "name": "coredns",
            "image": COREDNS_IMAGE,
            "args": ["-conf", "/etc/coredns/Corefile"],
            "ports": ports,
            "env": [{"name": "GOMEMLIMIT", "value": "161MiB"}],
            "resources": {"limits": {"memory": "170Mi"}, "requests": {"cpu": "100m", "memory": "70Mi"}},
            "volumeMounts": mounts(&[("config-volume", "/etc/coredns", true)]),
            "livenessProbe": {
                "httpGet": {"path": "/health", "port": 8080}, "initialDelaySeconds": 60, "timeoutSeconds": 5,
                "failureThreshold": 5,
            },
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}},
            "securityContext": {
                "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}, "readOnlyRootFilesystem": true,
                "allowPrivilegeEscalation": false,
            },
        }],
        "dnsPolicy": "Default",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "serviceAccountName": "coredns",
        "affinity": {"podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": apart}],
        }},
        "tolerations": tolerations,
        "priorityClassName": "system-cluster-critical",
    });
    if cluster.versions.talos >= PLACED_SINCE {
        spec["affinity"]["nodeAffinity"] = supported_nodes();
    }
    defaulted(spec)
}
