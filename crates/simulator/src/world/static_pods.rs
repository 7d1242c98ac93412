//! Static pods of a control plane, as the kubelet reports them to Talos.

use std::net::{Ipv4Addr, SocketAddrV4};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Machine, World, kind};

/// How the one container of a static pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Container {
    /// It runs and is ready, after so many restarts.
    Ready { restarts: u32 },
    /// It runs, and its readiness probe fails.
    Unready { restarts: u32 },
    /// It has ended with this code, and is started again later and later.
    CrashLoop { restarts: u32, exit_code: i32 },
    /// It has not begun to run: `ErrImagePull`, and the reason in full.
    Waiting { reason: String, message: String },
}

/// What a component of the control plane is run with.
struct Component {
    name: &'static str,
    user: u32,
    cpu: &'static str,
    memory: &'static str,
    /// Name and path of what is mounted, and whether it is read only.
    mounts: &'static [(&'static str, &'static str, bool)],
    probes: &'static [Probe],
    arguments: &'static [&'static str],
}

/// Asked over HTTPS.
struct Probe {
    /// `livenessProbe`
    kind: &'static str,
    path: &'static str,
    port: u16,
    /// What is not Kubernetes' default.
    rest: &'static [(&'static str, u32)],
}

const fn probe(kind: &'static str, path: &'static str, port: u16, rest: &'static [(&'static str, u32)]) -> Probe {
    Probe { kind, path, port, rest }
}

/// The component that has more of its own than numbers.
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

impl World {
    /// Has the kubelet of a machine report the static pod of a component (`kube-scheduler`), which is so since now.
    ///
    /// # Panics
    /// If there is no such machine, or no component is called so.
    pub fn set_static_pod(&mut self, machine: &str, component: &str, container: &Container) {
        let (now, kubernetes) = (self.now(), self.versions.kubernetes.clone());
        let address = self.machine(machine).map(|(address, _)| address);
        let address = address.unwrap_or_else(|| panic!("no machine is called `{machine}`"));
        self.machine_mut(machine).report_static_pod(address, component, &kubernetes, container, now);
    }
}

impl Machine {
    pub(super) fn report_static_pod(
        &mut self,
        address: Ipv4Addr,
        component: &str,
        kubernetes: &str,
        container: &Container,
        since: Timestamp,
    ) {
        let id = format!("kube-system/{component}-{}", self.name);
        let began = self.resources.get(kind::STATIC_POD_STATUSES, &id).map_or(since, |status| status.created);
        let status = status(address, &self.name, named(component), kubernetes, container, (began, since));
        self.resources.put(kind::STATIC_POD_STATUSES, &id, status);
    }
}

fn named(component: &str) -> &'static Component {
    let found = COMPONENTS.iter().find(|it| it.name == component);
    found.unwrap_or_else(|| panic!("no component of the control plane is called `{component}`"))
}

/// The manifest of a component's static pod. `endpoint` is that of the cluster.
pub(crate) fn manifest(component: &str, kubernetes: &str, endpoint: SocketAddrV4) -> Value {
    let Component { name, user, mounts, .. } = named(component);
    let volume = |(volume, path, _): &(&str, &str, bool)| json!({"hostPath": {"path": path}, "name": volume});
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
            "containers": [container(named(component), kubernetes, endpoint)],
            "hostNetwork": true,
            "priority": 2e9,
            "priorityClassName": "system-cluster-critical",
            "securityContext": {"runAsGroup": user, "runAsNonRoot": true, "runAsUser": user},
            "volumes": mounts.iter().map(volume).collect::<Vec<_>>(),
        },
        "status": {},
    })
}

fn container(component: &Component, kubernetes: &str, endpoint: SocketAddrV4) -> Value {
    let Component { name, cpu, memory, mounts, probes, arguments, .. } = component;
    let mut command = vec![format!("/usr/local/bin/{name}")];
    command.extend(arguments.iter().map(|&argument| argument.to_owned()));
    let mut capabilities = json!({"drop": ["ALL"]});
    if *name == API_SERVER {
        command.extend(["api-audiences", "service-account-issuer"].map(|of| format!("--{of}=https://{endpoint}")));
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
        "command": command,
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "image": image(name, kubernetes),
        "name": name,
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
        "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": capabilities, "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": mounts.iter().map(mount).collect::<Vec<_>>(),
    });
    for Probe { kind, path, port, rest } in *probes {
        container[*kind] = json!({"httpGet": {"host": "localhost", "path": path, "port": port, "scheme": "HTTPS"}});
        for (key, value) in *rest {
            container[*kind][*key] = json!(value);
        }
    }
    container
}

fn image(component: &str, kubernetes: &str) -> String {
    format!("registry.k8s.io/{component}:v{kubernetes}")
}

fn status(
    address: Ipv4Addr,
    node: &str,
    component: &Component,
    kubernetes: &str,
    container: &Container,
    (began, since): (Timestamp, Timestamp),
) -> Value {
    let name = component.name;
    let ready = matches!(container, Container::Ready { .. });
    let condition = |kind: &str, at: Timestamp| json!({"lastProbeTime": null, "lastTransitionTime": seconds(at), "status": "True", "type": kind});
    let readiness = |kind: &str| {
        let mut condition = condition(kind, since);
        if !ready {
            condition["message"] = json!(format!("containers with unready status: [{name}]"));
            condition["reason"] = json!("ContainersNotReady");
            condition["status"] = json!("False");
        }
        condition
    };
    let pending = matches!(container, Container::Waiting { .. });
    json!({
        "conditions": [
            condition("PodReadyToStartContainers", began),
            condition("Initialized", began),
            readiness("Ready"),
            readiness("ContainersReady"),
            condition("PodScheduled", began),
        ],
        "containerStatuses": [container_status(node, component, kubernetes, container, since)],
        "hostIP": address,
        "hostIPs": [{"ip": address}],
        "phase": if pending { "Pending" } else { "Running" },
        "podIP": address,
        "podIPs": [{"ip": address}],
        "qosClass": "Burstable",
        "startTime": seconds(began),
    })
}

fn container_status(
    node: &str,
    component: &Component,
    kubernetes: &str,
    container: &Container,
    since: Timestamp,
) -> Value {
    let Component { name, user, cpu, memory, mounts, .. } = component;
    let terminated = |exit_code: i32| {
        json!({"terminated": {
            "containerID": container_id(node, name, 0),
            "exitCode": exit_code,
            "finishedAt": seconds(since),
            "reason": "Error",
            "startedAt": seconds(since),
        }})
    };
    let running = json!({"running": {"startedAt": seconds(since)}});
    let (restarts, state, last) = match container {
        Container::Ready { restarts: 0 } | Container::Unready { restarts: 0 } => (0, running, json!({})),
        Container::Ready { restarts } | Container::Unready { restarts } => (*restarts, running, terminated(1)),
        Container::CrashLoop { restarts, exit_code } => {
            // The kubelet doubles the pause up to five minutes.
            let pause = (10_u32 << restarts.saturating_sub(1).min(5)).min(300);
            let message = format!("back-off {pause}s restarting failed container={name} pod={name}-{node}_kube-system");
            (*restarts, json!({"waiting": {"message": message, "reason": "CrashLoopBackOff"}}), terminated(*exit_code))
        }
        Container::Waiting { reason, message } => {
            (0, json!({"waiting": {"message": message, "reason": reason}}), json!({}))
        }
    };
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
        "containerID": container_id(node, name, restarts),
        "image": image(name, kubernetes),
        "imageID": format!("registry.k8s.io/{name}@sha256:{}", digest(name)),
        "lastState": last,
        "name": name,
        "ready": matches!(container, Container::Ready { .. }),
        "resources": {"requests": requests},
        "restartCount": restarts,
        "started": matches!(container, Container::Ready { .. } | Container::Unready { .. }),
        "state": state,
        "user": {"linux": {"gid": user, "supplementalGroups": [user], "uid": user}},
        "volumeMounts": mounts.iter().map(mount).collect::<Vec<_>>(),
    })
}

fn container_id(node: &str, name: &str, restart: u32) -> String {
    format!("containerd://{}", digest(&format!("{node}/{name}/{restart}")))
}

/// 64 hexadecimal digits that are always the same for the same text.
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

/// Kubernetes tells whole seconds.
pub(crate) fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Network;
    use crate::world::Shape;

    #[test]
    fn a_component_that_crashes_is_reported_so() {
        let mut world = World::healthy(&Network::claim().unwrap(), &Shape::default());
        let crashing = Container::CrashLoop { restarts: 2, exit_code: 1 };
        world.set_static_pod("cp-3", "kube-scheduler", &crashing);
        let told = |world: &World| {
            let (_, machine) = world.machine("cp-3").unwrap();
            let status = machine.resources.get(kind::STATIC_POD_STATUSES, "kube-system/kube-scheduler-cp-3").unwrap();
            (status.version, status.spec().clone())
        };
        let (version, spec) = told(&world);
        let container = &spec["containerStatuses"][0];
        assert_eq!((version, &spec["phase"], &container["ready"]), (2, &json!("Running"), &json!(false)));
        assert_eq!((&container["restartCount"], &container["started"]), (&json!(2), &json!(false)));
        assert_eq!(container["lastState"]["terminated"]["exitCode"], 1);
        let waiting = &container["state"]["waiting"];
        assert_eq!(waiting["reason"], "CrashLoopBackOff");
        assert!(
            waiting["message"].as_str().unwrap().starts_with("back-off 20s restarting failed container=kube-scheduler")
        );
        let ready = &spec["conditions"][2];
        assert_eq!(
            (&ready["type"], &ready["status"], &ready["reason"]),
            (&json!("Ready"), &json!("False"), &json!("ContainersNotReady"))
        );

        let absent = Container::Waiting { reason: "ErrImagePull".to_owned(), message: "not found".to_owned() };
        world.set_static_pod("cp-3", "kube-scheduler", &absent);
        assert_eq!(told(&world).1["phase"], "Pending");
        world.set_static_pod("cp-3", "kube-scheduler", &Container::Ready { restarts: 3 });
        let (version, spec) = told(&world);
        assert_eq!((version, &spec["conditions"][2]["status"]), (4, &json!("True")));
    }
}
