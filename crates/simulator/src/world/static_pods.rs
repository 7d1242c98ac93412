//! Static pods of a control plane: their manifests, and the kubelet's reports about healthy ones.

use std::net::{IpAddr, SocketAddr};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Versions;
use crate::version::TalosVersion;

/// From this release on, the root file systems of the containers are read-only, with two volumes in memory, and every probe waits longer.
const READ_ONLY_SINCE: TalosVersion = TalosVersion::new(14, 0);

/// Name and path of the volumes in memory.
const IN_MEMORY: [(&str, &str, bool); 2] = [("tmp", "/tmp", false), ("run", "/var/run/kubernetes", false)];

/// Parameters of a control plane component.
struct Component {
    name: &'static str,
    user: u32,
    cpu: &'static str,
    memory: &'static str,
    /// Name and path of each mount, and whether it is read-only.
    mounts: &'static [(&'static str, &'static str, bool)],
    probes: &'static [Probe],
    arguments: &'static [&'static str],
}

/// A probe over HTTPS.
struct Probe {
    /// `livenessProbe`
    kind: &'static str,
    path: &'static str,
    port: u16,
    /// Values that differ from Kubernetes' defaults.
    rest: &'static [(&'static str, u32)],
}

const fn probe(kind: &'static str, path: &'static str, port: u16, rest: &'static [(&'static str, u32)]) -> Probe {
    Probe { kind, path, port, rest }
}

/// The component that differs from the others in more than numbers.
const API_SERVER: &str = "kube-apiserver";

const COMPONENTS: [Component; 3] = [
    Component {
        name: API_SERVER,
        user: 65534,
        cpu: "200m",
        memory: "512Mi",
        mounts: &[
            ("secrets", "/system/secrets/kubernetes/kube-apiserver", true),
            ("config", "/system/config/kubernetes/kube-apiserver", true),
            ("audit", "/var/log/audit/kube", false),
        ],
        probes: &[],
        arguments: &[
            "--advertise-address=$(POD_IP)",
            "--anonymous-auth=false",
            "--bind-address=0.0.0.0",
            "--etcd-servers=https://127.0.0.1:2379",
            "--secure-port=6443",
            "--service-cluster-ip-range=10.96.0.0/12",
        ],
    },
    Component {
        name: "kube-controller-manager",
        user: 65535,
        cpu: "50m",
        memory: "256Mi",
        mounts: &[("secrets", "/system/secrets/kubernetes/kube-controller-manager", true)],
        probes: &[
            probe("livenessProbe", "/healthz", 10257, &[("timeoutSeconds", 15)]),
            probe("startupProbe", "/healthz", 10257, &[("failureThreshold", 12), ("periodSeconds", 5)]),
        ],
        arguments: &["--bind-address=127.0.0.1", "--leader-elect=true", "--profiling=false"],
    },
    Component {
        name: "kube-scheduler",
        user: 65536,
        cpu: "10m",
        memory: "64Mi",
        mounts: &[
            ("secrets", "/system/secrets/kubernetes/kube-scheduler", true),
            ("config", "/system/config/kubernetes/kube-scheduler", true),
        ],
        probes: &[
            probe("livenessProbe", "/livez", 10259, &[]),
            probe("readinessProbe", "/readyz", 10259, &[]),
            probe("startupProbe", "/livez", 10259, &[]),
        ],
        arguments: &["--bind-address=127.0.0.1", "--leader-elect=true", "--profiling=false"],
    },
];

/// Names of the components that every control plane runs as static pods.
pub(crate) fn components() -> impl Iterator<Item = &'static str> {
    COMPONENTS.iter().map(|component| component.name)
}

fn named(component: &str) -> &'static Component {
    let found = COMPONENTS.iter().find(|it| it.name == component);
    found.unwrap_or_else(|| panic!("no component of the control plane is called `{component}`"))
}

impl Component {
    fn mounts(&self, talos: TalosVersion) -> impl Iterator<Item = &(&'static str, &'static str, bool)> {
        self.mounts.iter().chain(IN_MEMORY.iter().filter(move |_| talos >= READ_ONLY_SINCE))
    }
}

impl Probe {
    fn rest(&self, talos: TalosVersion) -> &[(&'static str, u32)] {
        match self.kind {
            _ if talos < READ_ONLY_SINCE => self.rest,
            "startupProbe" => &[("failureThreshold", 12), ("periodSeconds", 5), ("timeoutSeconds", 15)],
            _ => &[("timeoutSeconds", 15)],
        }
    }
}

/// The manifest of a component's static pod; `endpoint` is that of the cluster.
pub(crate) fn manifest(component: &str, versions: &Versions, endpoint: SocketAddr, api_port: u16) -> Value {
    let component = named(component);
    let Component { name, user, .. } = component;
    let kubernetes = &versions.kubernetes;
    let volume = |mount: &(&str, &str, bool)| match mount {
        (volume, ..) if IN_MEMORY.contains(mount) => json!({"emptyDir": {"medium": "Memory"}, "name": volume}),
        (volume, path, _) => json!({"hostPath": {"path": path}, "name": volume}),
    };
    let mut annotations = json!({"talos.dev/config-version": "1", "talos.dev/secrets-version": "1"});
    if *name == API_SERVER {
        annotations["talos.dev/config-file-version"] = json!("1111");
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "annotations": annotations,
            "labels": {
                "app.kubernetes.io/component": "control-plane",
                "app.kubernetes.io/managed-by": "Talos",
                "app.kubernetes.io/name": name,
                "app.kubernetes.io/version": kubernetes,
                "component": name,
                "k8s-app": name,
                "tier": "control-plane",
            },
            "name": name,
            "namespace": "kube-system",
        },
        "spec": {
            "containers": [container(component, versions, endpoint, api_port)],
            "hostNetwork": true,
            "priority": 2e9,
            "priorityClassName": "system-cluster-critical",
            "securityContext": {"runAsGroup": user, "runAsNonRoot": true, "runAsUser": user},
            "volumes": component.mounts(versions.talos).map(volume).collect::<Vec<_>>(),
        },
        "status": {},
    })
}

fn container(component: &Component, versions: &Versions, endpoint: SocketAddr, api_port: u16) -> Value {
    let Component { name, cpu, memory, probes, .. } = component;
    let mut capabilities = json!({"drop": ["ALL"]});
    if *name == API_SERVER {
        capabilities["add"] = json!(["NET_BIND_SERVICE"]);
    }
    let mount = |(volume, path, read_only): &(&str, &str, bool)| {
        let mut mount = json!({"mountPath": path, "name": volume});
        if *read_only {
            mount["readOnly"] = json!(true);
        }
        mount
    };
    let mut container = json!({
        "command": command(name, endpoint, api_port),
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "image": image(name, &versions.kubernetes),
        "name": name,
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
        "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": capabilities, "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": component.mounts(versions.talos).map(mount).collect::<Vec<_>>(),
    });
    if versions.talos >= READ_ONLY_SINCE {
        container["securityContext"]["readOnlyRootFilesystem"] = json!(true);
    }
    for probe in *probes {
        let Probe { kind, path, port, .. } = probe;
        container[*kind] = json!({"httpGet": {"host": "localhost", "path": path, "port": port, "scheme": "HTTPS"}});
        for (key, value) in probe.rest(versions.talos) {
            container[*kind][*key] = json!(value);
        }
    }
    container
}

/// The program of a component and its arguments.
pub(crate) fn command(component: &str, endpoint: SocketAddr, api_port: u16) -> Vec<String> {
    let Component { name, arguments, .. } = named(component);
    let mut command = vec![format!("/usr/local/bin/{name}")];
    command.extend(arguments.iter().map(|&argument| match argument {
        "--secure-port=6443" => format!("--secure-port={api_port}"),
        other => other.to_owned(),
    }));
    if *name == API_SERVER {
        command.extend(["api-audiences", "service-account-issuer"].map(|of| format!("--{of}=https://{endpoint}")));
    }
    command
}

fn image(component: &str, kubernetes: &str) -> String {
    format!("registry.k8s.io/{component}:v{kubernetes}")
}

/// Status of a component's static pod that has been running and ready since `since`.
pub(super) fn running(address: IpAddr, node: &str, component: &str, versions: &Versions, since: Timestamp) -> Value {
    let since = seconds(since);
    let condition = |kind| json!({"lastProbeTime": null, "lastTransitionTime": since, "status": "True", "type": kind});
    let conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
    json!({
        "conditions": conditions.map(condition),
        "containerStatuses": [container_status(node, named(component), versions, &since)],
        "hostIP": address,
        "hostIPs": [{"ip": address}],
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "qosClass": "Burstable",
        "startTime": since,
    })
}

fn container_status(node: &str, component: &Component, versions: &Versions, since: &str) -> Value {
    let Component { name, user, cpu, memory, .. } = component;
    let mount = |(volume, path, read_only): &(&str, &str, bool)| {
        let mut mount = json!({"mountPath": path, "name": volume});
        if *read_only {
            mount["readOnly"] = json!(true);
            mount["recursiveReadOnly"] = json!("Disabled");
        }
        mount
    };
    let requests = json!({"cpu": cpu, "memory": memory});
    json!({
        "allocatedResources": requests,
        "containerID": container_id(node, name),
        "image": image(name, &versions.kubernetes),
        "imageID": format!("registry.k8s.io/{name}@sha256:{}", digest(name)),
        "lastState": {},
        "name": name,
        "ready": true,
        "resources": {"requests": requests},
        "restartCount": 0,
        "started": true,
        "state": {"running": {"startedAt": since}},
        "user": {"linux": {"gid": user, "supplementalGroups": [user], "uid": user}},
        "volumeMounts": component.mounts(versions.talos).map(mount).collect::<Vec<_>>(),
    })
}

fn container_id(node: &str, name: &str) -> String {
    format!("containerd://{}", digest(&format!("{node}/{name}")))
}

/// 64 hexadecimal digits that are constant for each text.
fn digest(text: &str) -> String {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    let mut word = || {
        for byte in text.bytes() {
            state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        format!("{state:016x}")
    };
    [word(), word(), word(), word()].concat()
}

/// Formats a time in whole seconds, like Kubernetes.
pub(crate) fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
