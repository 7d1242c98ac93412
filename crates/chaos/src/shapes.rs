//! Shapes of clusters that are healthy, no matter how unusual they look.

use serde_json::json;

use crate::case::Case;
use crate::plan::Plan;

/// A shape of a cluster.
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) make: fn(&Case, &mut Plan),
    pub(crate) fits: fn(&Case) -> bool,
    /// Whether the shape deserves a warning.
    pub(crate) warns: bool,
    /// Whether the user lacks access to required evidence.
    pub(crate) blinds: bool,
    /// Shapes that cannot be combined with this one.
    pub(crate) excludes: &'static [&'static str],
    /// Faults that are harmless or undetectable in this shape, and choices that make the shape itself undetectable.
    pub(crate) spoils: &'static [&'static str],
}

const USUAL: Shape =
    Shape { name: "", make: |_, _| {}, fits: |_| true, warns: false, blinds: false, excludes: &[], spoils: &[] };

/// Network plugins, of which a cluster has only one.
const PLUGINS: &[&str] =
    &["cilium", "calico", "calico-of-its-operator", "cilium-of-its-own-namespace", "kube-proxy-off"];

/// A network plugin other than flannel.
const PLUGIN: Shape = Shape { excludes: PLUGINS, spoils: &["cni-missing"], ..USUAL };

const MEMBERS: &str = "Members.cluster.talos.dev";
const MANIFESTS: (&str, &str) = ("BootstrapManifestsConfigs.kubernetes.talos.dev", "manifests");

pub(crate) fn all() -> &'static [Shape] {
    ALL
}

static ALL: &[Shape] = &[
    Shape {
        name: "left-over-autoscaler-taint",
        make: |_, plan| {
            let Some(worker) = plan.workers().into_iter().next() else { return };
            let taint = json!({"key": "ToBeDeletedByClusterAutoscaler", "value": "1700000000", "effect": "NoSchedule"});
            plan.object("nodes", "", &worker, &json!({"spec": {"taints": [taint]}}));
        },
        // Another worker accepts workloads.
        fits: |case| case.workers > 1,
        warns: true,
        spoils: &["node-deleted", "cordon"],
        ..USUAL
    },
    Shape {
        name: "second-kube-proxy-by-label",
        make: |_, plan| {
            let numbers = [
                "desiredNumberScheduled",
                "currentNumberScheduled",
                "numberReady",
                "numberAvailable",
                "updatedNumberScheduled",
                "numberMisscheduled",
            ];
            let mut status: serde_json::Map<_, _> = numbers.into_iter().map(|key| (key.to_owned(), json!(0))).collect();
            status.insert("observedGeneration".to_owned(), json!(1));
            let labels = json!({"k8s-app": "kube-proxy"});
            plan.object("daemonsets.apps", "kube-system", "a-kube-proxy-windows", &json!({
                "metadata": {"generation": 1, "labels": labels},
                "spec": {"selector": {"matchLabels": {"app": "windows"}}, "template": {"metadata": {"labels": {"app": "windows"}},
                    "spec": {"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": [{"name": "kube-proxy", "image": "kube-proxy-windows:v1.35.4"}]}}},
                "status": status}));
        },
        ..USUAL
    },
    Shape {
        name: "virtual-node",
        make: |_, plan| {
            plan.object("nodes", "", "kwok-1", &json!({"metadata": {"uid": "kwok", "labels": {"type": "kwok", "kubernetes.io/os": "linux"}},
                "spec": {"taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]},
                "status": {"nodeInfo": {"osImage": "", "kubeletVersion": "fake"}, "addresses": [{"type": "InternalIP", "address": "10.0.0.77"}],
                    "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}]}}));
        },
        spoils: &["cordon"],
        ..USUAL
    },
    Shape {
        name: "long-node-leases",
        make: |_, plan| {
            for node in plan.names.clone() {
                plan.object(
                    "leases.coordination.k8s.io",
                    "kube-node-lease",
                    &node,
                    &json!({"spec": {"leaseDurationSeconds": 300}}),
                );
                plan.change(
                    json!({"do": "lease-stalls", "namespace": "kube-node-lease", "name": node, "since": "70s"}),
                );
            }
        },
        fits: |case| case.workers < 6,
        // The leases were renewed before the clock is changed, and do not show it for minutes.
        excludes: &["cluster-is-ahead-of-the-runner"],
        spoils: &["node-lease-stalls", "clock-of-node-ahead", "clock-of-node-behind"],
        ..USUAL
    },
    Shape {
        name: "removed-control-plane-in-discovery",
        make: |_, plan| {
            plan.resource(
                None,
                MEMBERS,
                "old-cp",
                &json!({"nodeId": "old-cp", "addresses": ["192.0.2.8"], "hostname": "old-cp",
                "machineType": "controlplane", "operatingSystem": "Talos (v1.13.0)", "controlPlane": {"port": 6443}}),
            );
        },
        warns: true,
        excludes: &["discovery-off"],
        // The entry may be a live machine of that name. Unless Kubernetes is seen not to know it, it counts as a machine that is down.
        spoils: &[
            "cache-on-the-way",
            "refused:EtcdMemberList",
            "unavailable:EtcdMemberList",
            "garbage:EtcdMemberList",
            "empty:EtcdMemberList",
            "silent:EtcdMemberList",
            "etcd-stale-member",
            "etcd-unstarted-member",
            "not-bootstrapped",
            "no-kubernetes",
            "level-talos",
            "forbidden:/api/v1/nodes",
            "forbidden-once:/api/v1/nodes",
            "throttled:/api/v1/nodes",
            "failing:/api/v1/nodes",
            "garbage:/api/v1/nodes",
            "silent:/api/v1/nodes",
            "cut:/api/v1/nodes",
        ],
        ..USUAL
    },
    Shape {
        name: "network-unavailable-unknown",
        make: |_, plan| {
            let Some(node) = plan.last() else { return };
            let condition = |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason, "message": ""});
            plan.object(
                "nodes",
                "",
                &node,
                &json!({"status": {"conditions": [
                condition("NetworkUnavailable", "Unknown", "NodeStatusNeverUpdated"),
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID"),
                condition("Ready", "True", "KubeletReady")]}}),
            );
        },
        warns: true,
        spoils: &["node-deleted"],
        ..USUAL
    },
    Shape {
        name: "static-pod-completed",
        make: |_, plan| {
            let Some(node) = plan.last() else { return };
            let done = json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
            let status = json!({"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False", "reason": "PodCompleted"}],
                "containerStatuses": [{"name": "once", "image": "once:1", "imageID": "", "ready": false, "restartCount": 0, "state": done}]});
            plan.object("pods", "default", &format!("once-{node}"), &json!({
                "metadata": {"annotations": {"kubernetes.io/config.mirror": "1d4a3e5a", "kubernetes.io/config.source": "file"},
                    "creationTimestamp": "2026-11-20T19:00:00Z",
                    "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "controller": true, "uid": "node"}]},
                "spec": {"nodeName": node, "restartPolicy": "Never", "containers": [{"name": "once", "image": "once:1"}]},
                "status": status}));
            plan.resource(
                Some(&node),
                "StaticPodStatuses.kubernetes.talos.dev",
                &format!("default/once-{node}"),
                &status,
            );
        },
        ..USUAL
    },
    Shape {
        name: "role-too-low",
        make: |_, plan| plan.role = Some("os:reader"),
        fits: |case| case.release.role != "os:reader",
        blinds: true,
        ..USUAL
    },
    Shape {
        name: "kube-proxy-off",
        make: |_, plan| {
            each_control_plane(plan, MANIFESTS, &json!({"proxyEnabled": false}));
            plan.remove_object("daemonsets.apps", "kube-system", "kube-proxy");
        },
        spoils: &["kube-proxy-missing", "kube-proxy-incomplete"],
        ..USUAL
    },
    Shape {
        name: "cilium",
        make: |_, plan| {
            without_flannel(plan);
            each_control_plane(plan, MANIFESTS, &json!({"proxyEnabled": false}));
            plan.remove_object("daemonsets.apps", "kube-system", "kube-proxy");
            daemon_set(plan, "kube-system", "cilium", 0);
            daemon_set(plan, "kube-system", "cilium-envoy", 0);
            deployment(plan, "kube-system", "cilium-operator", 2, 2);
        },
        spoils: &["kube-proxy-missing", "kube-proxy-incomplete", "cni-missing"],
        ..PLUGIN
    },
    Shape {
        name: "calico",
        make: |_, plan| {
            without_flannel(plan);
            daemon_set(plan, "kube-system", "calico-node", 0);
            deployment(plan, "kube-system", "calico-kube-controllers", 1, 1);
        },
        ..PLUGIN
    },
    Shape {
        name: "calico-of-its-operator",
        make: |_, plan| {
            without_flannel(plan);
            daemon_set(plan, "calico-system", "calico-node", 0);
            deployment(plan, "calico-system", "calico-typha", 3, 3);
            deployment(plan, "tigera-operator", "tigera-operator", 1, 1);
            deployment(plan, "calico-apiserver", "calico-apiserver", 2, 2);
        },
        ..PLUGIN
    },
    Shape {
        name: "cilium-of-its-own-namespace",
        make: |_, plan| {
            without_flannel(plan);
            daemon_set(plan, "cilium", "cilium", 0);
            deployment(plan, "cilium", "cilium-operator", 1, 1);
        },
        ..PLUGIN
    },
    Shape {
        name: "clock-of-a-node-differs",
        make: |_, plan| {
            let Some(node) = plan.last() else { return };
            plan.change(json!({"do": "machine", "node": node, "ahead": "16s"}));
        },
        warns: true,
        spoils: &[
            "clock-of-node-ahead",
            "clock-of-node-behind",
            "node-deleted",
            "node-lease-stalls",
            "long-node-leases",
        ],
        ..USUAL
    },
    Shape {
        name: "cluster-is-ahead-of-the-runner",
        make: |_, plan| plan.change(json!({"do": "clock", "ahead": "5m"})),
        excludes: &["cluster-is-behind-the-runner"],
        // These faults are dated by the runner's clock.
        spoils: &["pods-cannot-start", "system-deployment-down"],
        ..USUAL
    },
    Shape {
        name: "cluster-is-behind-the-runner",
        make: |_, plan| plan.change(json!({"do": "clock", "ahead": "-5m"})),
        excludes: &["cluster-is-ahead-of-the-runner"],
        spoils: &["pods-cannot-start", "system-deployment-down"],
        ..USUAL
    },
    Shape { name: "api-servers-on-another-port", make: |_, plan| plan.cluster("api-port", json!(7443)), ..USUAL },
    Shape {
        name: "control-planes-take-workloads",
        make: |_, plan| {
            for node in plan.control_planes() {
                plan.change(
                    json!({"do": "object", "resource": "nodes", "name": node, "merge": {}, "remove": ["/spec/taints"]}),
                );
            }
        },
        fits: |case| case.workers > 0,
        spoils: &["node-deleted", "cordon"],
        ..USUAL
    },
    Shape {
        name: "cloud-addresses",
        make: |_, plan| {
            for (number, node) in plan.names.clone().into_iter().enumerate() {
                plan.object(
                    "nodes",
                    "",
                    &node,
                    &json!({"status": {"addresses": [
                    {"type": "ExternalIP", "address": format!("203.0.113.{}", number + 1)},
                    {"type": "ExternalDNS", "address": format!("e{number}.example.org")},
                    {"type": "InternalIP", "address": format!("{{{node}}}")},
                    {"type": "Hostname", "address": node}]}}),
                );
            }
        },
        excludes: &["dual-stack", "translated-address"],
        spoils: &["node-deleted"],
        ..USUAL
    },
    Shape {
        name: "leases-of-others",
        make: |_, plan| {
            for (namespace, name) in [("kube-node-lease", "old-worker"), ("kube-system", "some-controller")] {
                let spec = json!({"spec": {"holderIdentity": name, "leaseDurationSeconds": 15}});
                plan.object("leases.coordination.k8s.io", namespace, name, &spec);
                plan.change(json!({"do": "lease-stalls", "namespace": namespace, "name": name, "since": "24h"}));
            }
        },
        ..USUAL
    },
    Shape {
        name: "pods-of-users-in-trouble",
        make: |_, plan| {
            let Some(node) = plan.last() else { return };
            let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}});
            plan.object("pods", "default", "shop", &json!({
                "metadata": {"creationTimestamp": LONG_AGO}, "spec": {"nodeName": node, "containers": [{"name": "shop", "image": "shop:1"}]},
                "status": {"phase": "Pending", "conditions": [{"type": "PodReadyToStartContainers", "status": "True"}],
                    "containerStatuses": [{"name": "shop", "image": "shop:1", "imageID": "", "ready": false, "restartCount": 0, "state": waiting}]}}));
            plan.object("pods", "default", "large", &json!({
                "metadata": {"creationTimestamp": LONG_AGO}, "spec": {"containers": [{"name": "large", "image": "large:1"}]},
                "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}}));
        },
        ..USUAL
    },
    Shape {
        name: "kubelet-a-release-behind",
        make: |_, plan| {
            let Some(worker) = plan.workers().into_iter().next() else { return };
            let older = json!({"status": {"nodeInfo": {"kubeletVersion": "v1.27.0"}}});
            plan.object("nodes", "", &worker, &older);
        },
        // The versions of other releases are too far apart.
        fits: |case| case.workers > 0 && case.release.kubernetes == "1.28.3",
        warns: true,
        spoils: &["node-deleted"],
        ..USUAL
    },
    Shape {
        name: "dns-off",
        make: |_, plan| {
            plan.change(json!({"do": "dns-scaled-to-zero"}));
            each_control_plane(plan, MANIFESTS, &json!({"coreDNSEnabled": false}));
            plan.remove_object("deployments.apps", "kube-system", "coredns");
        },
        spoils: &["dns-scaled-to-zero", "dns-rollout-given-up"],
        ..USUAL
    },
    Shape {
        name: "scheduler-disabled-on-last",
        make: |case, plan| {
            let Some(last) = plan.control_planes().pop() else { return };
            // Talos 1.14 renders from a separate resource.
            let all: &[&str] = &["kube-scheduler", "final-kube-scheduler"];
            for id in if case.release.talos >= "1.14" { all } else { &all[..1] } {
                let off = json!({"enabled": false});
                plan.resource(Some(&last), "SchedulerConfigs.kubernetes.talos.dev", id, &off);
            }
            plan.change(json!({"do": "remove-resource", "node": last, "type": "StaticPods.kubernetes.talos.dev", "id": "kube-scheduler"}));
            plan.change(
                json!({"do": "remove-resource", "node": last, "type": "StaticPodStatuses.kubernetes.talos.dev",
                "id": format!("kube-system/kube-scheduler-{last}")}),
            );
            plan.remove_object("pods", "kube-system", &format!("kube-scheduler-{last}"));
        },
        fits: |case| case.control_planes > 1,
        spoils: &["scheduler-broken", "scheduler-pod-crashes"],
        ..USUAL
    },
    Shape {
        name: "discovery-off",
        make: |_, plan| {
            for node in plan.names.clone() {
                for other in plan.names.clone().into_iter().filter(|other| *other != node) {
                    plan.change(json!({"do": "remove-resource", "node": node, "type": MEMBERS, "id": other}));
                }
            }
        },
        // Each machine has an entry for every other one, so larger clusters would take too many changes.
        fits: |case| case.workers < 6,
        excludes: &["dual-stack", "second-network-first"],
        ..USUAL
    },
    Shape {
        name: "extension-of-unknown-health",
        make: |_, plan| {
            let Some(node) = plan.last() else { return };
            plan.change(json!({"do": "service", "node": node, "service": "ext-qemu-guest-agent", "state": "Running",
                "event": "Started task ext-qemu-guest-agent (PID 1712)"}));
        },
        ..USUAL
    },
    Shape {
        name: "foreign-node",
        make: |case, plan| {
            let version = format!("v{}", case.release.kubernetes);
            plan.object("nodes", "", "edge-1", &json!({"metadata": {"uid": "edge", "labels": {"kubernetes.io/os": "linux"}},
                "status": {"nodeInfo": {"osImage": "Debian GNU/Linux 13", "kubeletVersion": version},
                    "addresses": [{"type": "Hostname", "address": "edge-1"}],
                    "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}]}}));
            plan.object(
                "leases.coordination.k8s.io",
                "kube-node-lease",
                "edge-1",
                &json!({"spec": {"holderIdentity": "edge-1", "leaseDurationSeconds": 40}}),
            );
        },
        ..USUAL
    },
    Shape {
        name: "dual-stack",
        make: |_, plan| {
            let Some(last) = plan.control_planes().pop() else { return };
            let here = format!("{{{last}}}");
            plan.object(
                "nodes",
                "",
                &last,
                &json!({"status": {"addresses": [{"type": "InternalIP", "address": "2001:db8::9"},
                {"type": "InternalIP", "address": here}, {"type": "Hostname", "address": last}]}}),
            );
            plan.change(json!({"do": "etcd-member", "node": last, "peer-urls": ["https://[2001:db8::9]:2380", format!("https://{here}:2380")]}));
            plan.resource(None, MEMBERS, &last, &json!({"addresses": ["2001:db8::9", here]}));
        },
        excludes: &["discovery-off"],
        spoils: &["node-deleted"],
        ..USUAL
    },
    Shape {
        name: "second-network-first",
        make: |_, plan| {
            let Some(worker) = plan.workers().into_iter().next() else { return };
            plan.resource(None, MEMBERS, &worker, &json!({"addresses": ["192.0.2.9", format!("{{{worker}}}")]}));
        },
        fits: |case| case.workers > 0,
        excludes: &["discovery-off"],
        ..USUAL
    },
    Shape {
        name: "virtual-ip",
        make: |_, plan| {
            let Some(first) = plan.control_planes().into_iter().next() else { return };
            plan.change(json!({"do": "virtual-ip", "node": first}));
        },
        ..USUAL
    },
    Shape {
        name: "one-endpoint",
        make: |_, plan| {
            plan.endpoints = plan.control_planes().into_iter().next().map(|first| vec![first]);
        },
        ..USUAL
    },
    Shape {
        name: "kubespan",
        make: |_, plan| {
            let names = plan.control_planes();
            let [first, second, ..] = names.as_slice() else { return };
            plan.resource(
                Some(first),
                "KubeSpanPeerStatuses.kubespan.talos.dev",
                &format!("the-key-of-{second}"),
                &json!({"label": second, "state": "up", "receiveBytes": 4096, "transmitBytes": 4096}),
            );
        },
        fits: |case| case.control_planes > 1,
        ..USUAL
    },
    Shape {
        name: "containers",
        make: |_, plan| {
            for node in plan.names.clone() {
                plan.resource(
                    Some(&node),
                    "PlatformMetadatas.talos.dev",
                    "platformmetadata",
                    &json!({"platform": "container"}),
                );
            }
        },
        spoils: &["memory-small", "var-nearly-full", "volume-failed"],
        ..USUAL
    },
    Shape {
        name: "patch-releases-mixed",
        make: |case, plan| {
            let Some(last) = plan.last() else { return };
            let older = if case.release.talos.ends_with('0') {
                case.release.talos.replace(".0", ".1")
            } else {
                case.release.talos.replace(".5", ".4")
            };
            plan.change(json!({"do": "machine", "node": last, "talos": older}));
        },
        fits: |case| case.control_planes + case.workers > 1 && ["1.13.0", "1.14.0"].contains(&case.release.talos),
        warns: true,
        spoils: &["two-releases-apart", "memory-small", "var-nearly-full"],
        ..USUAL
    },
    Shape {
        name: "translated-address",
        make: |_, plan| {
            let Some(worker) = plan.workers().into_iter().next() else { return };
            plan.resource(None, MEMBERS, &worker, &json!({"addresses": ["192.0.2.4"]}));
        },
        fits: |case| case.workers > 0,
        excludes: &["discovery-off", "second-network-first"],
        spoils: &["node-deleted"],
        ..USUAL
    },
    Shape {
        name: "nobody-told-kubernetes-of-roles",
        make: |_, plan| {
            for node in plan.control_planes() {
                plan.change(json!({"do": "object", "resource": "nodes", "name": node, "merge": {},
                    "remove": ["/metadata/labels/node-role.kubernetes.io~1control-plane"]}));
            }
        },
        spoils: &["node-deleted", "no-talos"],
        ..USUAL
    },
];

/// Adds a long-running `DaemonSet` with pods on all machines of the plan but `missing`.
pub(crate) fn daemon_set(plan: &mut Plan, namespace: &str, name: &str, missing: usize) {
    let (of, up) = (plan.machines.len(), plan.machines.len() - missing);
    plan.object("daemonsets.apps", namespace, name, &json!({
        "metadata": {"generation": 1, "creationTimestamp": LONG_AGO, "labels": {"k8s-app": name},
            "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "time": LONG_AGO}]},
        "spec": {"selector": {"matchLabels": {"k8s-app": name}}, "template": {}},
        "status": {"observedGeneration": 1, "desiredNumberScheduled": of, "currentNumberScheduled": of, "updatedNumberScheduled": of,
            "numberMisscheduled": 0, "numberReady": up, "numberAvailable": up, "numberUnavailable": missing}}));
}

/// Adds a Deployment; `available` of its pods have long been available.
pub(crate) fn deployment(plan: &mut Plan, namespace: &str, name: &str, replicas: usize, available: usize) {
    let is_up = |up: bool| if up { "True" } else { "False" };
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({"type": kind, "status": status, "reason": reason,
        "lastUpdateTime": LONG_AGO, "lastTransitionTime": LONG_AGO})
    };
    let is_available = is_up(available == replicas);
    plan.object("deployments.apps", namespace, name, &json!({
        "metadata": {"generation": 1, "creationTimestamp": LONG_AGO, "labels": {"k8s-app": name}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"k8s-app": name}}},
        "status": {"observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": available,
            "availableReplicas": available, "unavailableReplicas": replicas - available,
            "conditions": [condition("Available", is_available, "MinimumReplicas"), condition("Progressing", "True", "NewReplicaSetAvailable")]}}));
}

const LONG_AGO: &str = "2026-01-01T00:00:00Z";

/// Removes flannel, as a cluster with another network plugin does. The other plugin sets the network condition of each Node.
fn without_flannel(plan: &mut Plan) {
    each_control_plane(plan, MANIFESTS, &json!({"flannelEnabled": false}));
    plan.remove_object("daemonsets.apps", "kube-system", "kube-flannel");
}

fn each_control_plane(plan: &mut Plan, (kind, id): (&str, &str), merge: &serde_json::Value) {
    for node in plan.control_planes() {
        plan.resource(Some(&node), kind, id, merge);
    }
}
