//! Faults in Kubernetes.

use serde_json::{Value, json};

use super::{Does, Fault, On, Source, Touches, fault, server_fault, state};
use crate::shapes::{daemon_set, deployment};

/// The conditions of a healthy Node, with the one of type `kind` replaced.
fn conditions(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    let all = [
        ("NetworkUnavailable", "False", "FlannelIsUp", "Flannel is running on this node"),
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ];
    let conditions: Vec<_> = all
        .into_iter()
        .map(|it| if it.0 == kind { (kind, status, reason, message) } else { it })
        .map(|(kind, status, reason, message)| json!({"type": kind, "status": status, "reason": reason, "message": message}))
        .collect();
    json!({"status": {"conditions": conditions}})
}

pub(super) fn kubernetes() -> Vec<Fault> {
    let server = |name, said| Fault {
        shown: &[Source::Server],
        said,
        touches: Touches::Server,
        spoils_endpoint: true,
        ..state(name, On::ControlPlane)
    };
    let transport = |name, fault_name: &'static str, said| Fault {
        shown: &[Source::Server],
        said,
        spoils_endpoint: true,
        touches: Touches::Server,
        ..fault(name, On::ControlPlane, move |plan, node| {
            plan.change(json!({"do": "transport", "server": "api-server", "node": node, "fault": fault_name}));
        })
    };
    let component =
        |name, said| Fault { shown: &[Source::Component, Source::StaticPod], said, ..state(name, On::ControlPlane) };
    let node = |name, said, (kind, status, reason, message)| Fault {
        shown: &[Source::Node],
        said,
        touches: Touches::Node,
        ..fault(name, On::Machine, move |plan, node| {
            plan.object("nodes", "", node, &conditions(kind, status, reason, message));
        })
    };
    let stalls = |name, lease: &'static str, said| Fault {
        shown: &[Source::Component],
        said,
        ..fault(name, On::Cluster, move |plan, _| {
            plan.change(json!({"do": "lease-stalls", "namespace": "kube-system", "name": lease, "since": "5m"}));
        })
    };
    vec![
        server(
            "api-server-stop",
            &["api-unreachable", "component-not-ready", "crash-looping", "api-server-down", "connection-refused"],
        ),
        server("api-server-freeze", &["api-frozen", "api-server-frozen", "api-unreachable"]),
        Fault {
            shown: &[Source::Server],
            said: &["api-not-ready"],
            touches: Touches::Server,
            spoils_endpoint: true,
            ..fault("api-server-failing", On::ControlPlane, |plan, node| {
                plan.change(
                    json!({"do": "api-server-failing", "node": node, "checks": ["poststarthook/rbac/bootstrap-roles"]}),
                );
            })
        },
        transport("api-server-expired", "expired", &["server-certificate-expired", "certificate-expired"]),
        Fault {
            fits: |case| case.control_planes > 1,
            ..server_fault("api-server-gone-and-listed", |plan, node| {
                // The address stays in default/kubernetes, and packets to it vanish.
                plan.change(json!({"do": "api-server-stop", "node": node}));
                plan.change(json!({"do": "transport", "server": "api-server", "node": node, "fault": "blackhole"}));
            })
        },
        Fault {
            fits: |case| case.control_planes > 1,
            ..server_fault("api-server-gone", |plan, node| {
                plan.change(json!({"do": "api-server-stop", "node": node}));
                let others = plan.control_planes().into_iter().filter(|other| other != node);
                let others: Vec<_> = others
                    .map(|other| json!({"addresses": [format!("{{{other}}}")], "conditions": {"ready": true}}))
                    .collect();
                plan.object("endpointslices.discovery.k8s.io", "default", "kubernetes", &json!({"endpoints": others}));
            })
        },
        Fault {
            shown: &[Source::Object],
            said: &["workload-degraded", "workload-unavailable"],
            fits: |case| case.has_shape("cilium"),
            ..fault("plugin-missing-on-a-node", On::Cluster, |plan, _| daemon_set(plan, "kube-system", "cilium", 1))
        },
        Fault {
            shown: &[Source::Object],
            said: &["workload-degraded", "workload-unavailable"],
            fits: |case| case.has_shape("calico-of-its-operator"),
            ..fault("plugin-of-operator-missing", On::Cluster, |plan, _| {
                daemon_set(plan, "calico-system", "calico-node", 1);
            })
        },
        Fault {
            shown: &[Source::Object],
            said: &["workload-degraded", "workload-unavailable"],
            fits: |case| case.has_shape("cilium-of-its-own-namespace"),
            ..fault("plugin-operator-down", On::Cluster, |plan, _| deployment(plan, "cilium", "cilium-operator", 1, 0))
        },
        Fault {
            shown: &[Source::Object],
            said: &["webhook-unavailable"],
            ..fault("webhook-without-backend", On::Cluster, |plan, _| {
                plan.object("validatingwebhookconfigurations.admissionregistration.k8s.io", "", "policy", &json!({"webhooks": [{
                    "name": "all.policy.example.com", "clientConfig": {"service": {"namespace": "policy", "name": "webhook"}},
                    "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]}]}));
            })
        },
        Fault {
            does: Does::Warns,
            shown: &[Source::Object],
            said: &["apiservice-unavailable"],
            ..fault("metrics-api-down", On::Cluster, |plan, _| {
                plan.object("apiservices.apiregistration.k8s.io", "", "v1beta1.metrics.k8s.io", &json!({
                    "spec": {"group": "metrics.k8s.io", "version": "v1beta1", "service": {"namespace": "kube-system", "name": "metrics-server"}},
                    "status": {"conditions": [{"type": "Available", "status": "False", "reason": "MissingEndpoints"}]}}));
            })
        },
        Fault {
            does: Does::Warns,
            shown: &[Source::Node],
            said: &["out-of-service"],
            touches: Touches::Node,
            ..fault("out-of-service", On::Machine, |plan, node| {
                let taint =
                    json!({"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"});
                plan.object("nodes", "", node, &json!({"spec": {"taints": [taint]}}));
            })
        },
        Fault {
            shown: &[Source::Object],
            said: &["dns-degraded"],
            touches: Touches::Dns,
            ..fault("dns-rollout-given-up", On::Cluster, |plan, _| {
                let condition = json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"});
                plan.object(
                    "deployments.apps",
                    "kube-system",
                    "coredns",
                    &json!({"status": {"conditions": [condition]}}),
                );
            })
        },
        Fault {
            does: Does::Warns,
            // Other sources confirm that this API server works, and the load balancer avoids it.
            shown: &[Source::Component],
            said: &["api-unreachable-from-here"],
            touches: Touches::Server,
            fits: |case| case.control_planes > 1,
            ..fault("api-server-out-of-reach", On::ControlPlane, |plan, node| {
                plan.change(json!({"do": "transport", "server": "api-server", "node": node, "fault": "blackhole"}));
            })
        },
        Fault {
            shown: &[Source::Object],
            said: &[
                "deployment-incomplete",
                "controller-unavailable",
                "workload-unavailable",
                "deployment-unavailable",
            ],
            ..fault("system-deployment-down", On::Cluster, |plan, _| {
                let condition = |kind: &str, reason: &str| {
                    json!({"type": kind, "status": "False", "reason": reason,
                    "lastUpdateTime": "2026-11-21T19:00:00Z", "lastTransitionTime": "2026-11-21T19:00:00Z"})
                };
                plan.object("deployments.apps", "kube-system", "metrics-server", &json!({
                    "metadata": {"creationTimestamp": "2026-11-20T19:00:00Z", "generation": 1, "labels": {"k8s-app": "metrics-server"}},
                    "spec": {"replicas": 1, "selector": {"matchLabels": {"k8s-app": "metrics-server"}}},
                    "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "unavailableReplicas": 1,
                        "conditions": [condition("Available", "MinimumReplicasUnavailable"), condition("Progressing", "ProgressDeadlineExceeded")]}}));
            })
        },
        Fault {
            shown: &[Source::Node],
            said: &["pods-cannot-start"],
            ..fault("pods-cannot-start", On::Machine, |plan, node| {
                for number in 1..=2 {
                    let name = format!("web-{number}-{node}");
                    let because = |kind: &str| {
                        json!({"type": kind, "status": "False", "reason": "ContainersNotReady",
                        "message": "containers with unready status: [web]", "lastTransitionTime": "2026-11-21T19:00:00Z"})
                    };
                    let scheduled =
                        json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-21T19:00:00Z"});
                    plan.object("pods", "default", &name, &json!({
                        "metadata": {"creationTimestamp": "2026-11-21T19:00:00Z"},
                        "spec": {"nodeName": node, "containers": [{"name": "web", "image": "web:1"}]},
                        "status": {"phase": "Pending", "startTime": "2026-11-21T19:00:00Z", "conditions": [because("Ready"), because("ContainersReady"), scheduled],
                            "containerStatuses": [{"name": "web", "image": "web:1", "imageID": "", "ready": false, "restartCount": 0, "started": false,
                                "state": {"waiting": {"reason": "ContainerCreating"}}}]}}));
                }
            })
        },
        Fault {
            shown: &[Source::Node],
            said: &["pods-cannot-start"],
            ..fault("pods-cannot-restart", On::Machine, |plan, node| {
                plan.change(json!({"do": "pods-cannot-restart", "node": node}));
            })
        },
        Fault {
            shown: &[Source::Object],
            said: &["workload-unavailable"],
            ..fault("unknown-plugin-down", On::Cluster, |plan, _| {
                let volumes = json!([{"name": "bin", "hostPath": {"path": "/opt/cni/bin"}}]);
                plan.object("daemonsets.apps", "fabric", "fabric-agent", &json!({
                    "metadata": {"creationTimestamp": "2026-11-20T19:00:00Z", "generation": 1},
                    "spec": {"template": {"spec": {"hostNetwork": true, "volumes": volumes}}},
                    "status": {"observedGeneration": 1, "desiredNumberScheduled": 3, "numberAvailable": 0, "numberUnavailable": 3}}));
            })
        },
        Fault {
            does: Does::Warns,
            shown: &[Source::Node],
            touches: Touches::Node,
            ..fault("kernel-deadlock", On::Machine, |plan, node| {
                let mut all = conditions("", "", "", "");
                if let Some(conditions) = all["status"]["conditions"].as_array_mut() {
                    conditions.push(json!({"type": "KernelDeadlock", "status": "True", "reason": "DockerHung", "message": "task docker:7 blocked for more than 120 seconds"}));
                }
                plan.object("nodes", "", node, &all);
            })
        },
        Fault {
            shown: &[Source::Component],
            said: &["crash-looping", "static-pod-failed", "component-not-ready"],
            ..fault("user-static-pod-crashes", On::Machine, |plan, node| {
                let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}});
                let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}],
                    "containerStatuses": [{"name": "agent", "image": "agent:1", "imageID": "", "ready": false, "restartCount": 9, "state": waiting,
                        "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}]});
                plan.object("pods", "default", &format!("agent-{node}"), &json!({
                    "metadata": {"annotations": {"kubernetes.io/config.mirror": "7d4a3e5a", "kubernetes.io/config.source": "file"},
                        "creationTimestamp": "2026-11-20T19:00:00Z",
                        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "controller": true, "uid": "node"}]},
                    "spec": {"nodeName": node, "containers": [{"name": "agent", "image": "agent:1"}]},
                    "status": status}));
                plan.resource(
                    Some(node),
                    "StaticPodStatuses.kubernetes.talos.dev",
                    &format!("default/agent-{node}"),
                    &status,
                );
            })
        },
        Fault {
            shown: &[Source::Endpoint],
            said: &["endpoint-down-servers-ready", "load-balancer-down", "api-unreachable", "connection-refused"],
            spoils_endpoint: true,
            ..fault("balancer-down", On::Cluster, |plan, _| {
                plan.change(json!({"do": "transport", "server": "balancer", "fault": "refuse"}));
            })
        },
        component("scheduler-broken", &["crash-looping", "component-not-ready"]),
        component("controller-manager-broken", &["crash-looping", "component-not-ready"]),
        stalls("scheduler-leads-not", "kube-scheduler", &["not-leading"]),
        stalls("controller-manager-leads-not", "kube-controller-manager", &["not-leading"]),
        node("node-not-ready", &["node-not-ready"], ("Ready", "False", "KubeletNotReady", "container runtime is down")),
        node(
            "disk-pressure",
            &["node-pressure"],
            ("DiskPressure", "True", "KubeletHasDiskPressure", "kubelet has disk pressure"),
        ),
        node(
            "memory-pressure",
            &["node-pressure"],
            ("MemoryPressure", "True", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
        ),
        Fault {
            shown: &[Source::Node],
            said: &["node-not-ready"],
            touches: Touches::Node,
            ..fault("node-without-ready", On::Machine, |plan, node| {
                plan.object("nodes", "", node, &json!({"status": {"conditions": []}}));
            })
        },
        Fault {
            shown: &[Source::Node],
            said: &["node-not-registered", "node-missing"],
            touches: Touches::Node,
            ..fault("node-deleted", On::Machine, |plan, node| plan.remove_object("nodes", "", node))
        },
        Fault {
            shown: &[Source::Node],
            said: &["node-lease-stale", "node-not-ready"],
            ..fault("node-lease-stalls", On::Machine, |plan, node| {
                plan.change(json!({"do": "lease-stalls", "namespace": "kube-node-lease", "name": node, "since": "5m"}));
            })
        },
        Fault {
            shown: &[Source::Object],
            said: &["stale-node-object", "node-removed-but-listed"],
            // No other source can confirm that a Node is stale if there is only one machine.
            fits: |case| case.control_planes + case.workers > 1,
            ..fault("stale-node", On::Cluster, |plan, _| {
                plan.object("nodes", "", "worker-0", &json!({"metadata": {"uid": "gone", "labels": {"kubernetes.io/os": "linux"}},
                    "status": {"nodeInfo": {"osImage": "Talos (v1.13.0)", "kubeletVersion": "v1.35.4"},
                        "addresses": [{"type": "InternalIP", "address": "192.0.2.77"}, {"type": "Hostname", "address": "worker-0"}],
                        "conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}]}}));
            })
        },
        Fault {
            does: Does::Warns,
            shown: &[Source::Node],
            said: &["csr-pending"],
            ..fault("csr-pending", On::Machine, |plan, node| {
                plan.object("certificatesigningrequests.certificates.k8s.io", "", "csr-8kq2x", &json!({
                    "metadata": {"creationTimestamp": "2026-11-21T19:00:00Z"},
                    "spec": {"request": "LS0tLS1CRUdJTi4uLg==", "signerName": "kubernetes.io/kubelet-serving", "username": format!("system:node:{node}"),
                        "groups": ["system:nodes", "system:authenticated"], "usages": ["digital signature", "server auth"]},
                    "status": {}}));
            })
        },
        Fault {
            shown: &[Source::Object],
            said: &["daemonset-missing"],
            touches: Touches::KubeProxy,
            ..fault("kube-proxy-missing", On::Cluster, |plan, _| {
                plan.remove_object("daemonsets.apps", "kube-system", "kube-proxy");
            })
        },
        Fault {
            shown: &[Source::Object],
            said: &["daemonset-incomplete"],
            touches: Touches::KubeProxy,
            ..fault("kube-proxy-incomplete", On::Cluster, |plan, _| {
                let of = plan.machines.len();
                plan.object(
                    "daemonsets.apps",
                    "kube-system",
                    "kube-proxy",
                    &json!({"status": {
                    "numberAvailable": of - 1, "numberReady": of - 1, "numberUnavailable": 1}}),
                );
            })
        },
        Fault {
            shown: &[Source::Object],
            said: &["dns-scaled-to-zero", "dns-switched-off"],
            touches: Touches::Dns,
            ..state("dns-scaled-to-zero", On::Cluster)
        },
        Fault {
            shown: &[Source::Object],
            said: &["cni-missing", "network-plugin-missing"],
            touches: Touches::Network,
            ..state("cni-missing", On::Cluster)
        },
        Fault {
            shown: &[Source::Component],
            said: &["crash-looping", "component-not-ready", "static-pod-failed"],
            ..fault("scheduler-pod-crashes", On::ControlPlane, |plan, node| {
                let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}});
                let container = json!({"name": "kube-scheduler", "image": "kube-scheduler", "ready": false, "restartCount": 9, "state": waiting,
                    "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}});
                plan.object(
                    "pods",
                    "kube-system",
                    &format!("kube-scheduler-{node}"),
                    &json!({"status": {"containerStatuses": [container],
                    "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]}}),
                );
            })
        },
    ]
}
