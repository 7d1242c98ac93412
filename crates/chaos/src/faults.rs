//! The one table of what can break, and of what must be known of it then. It is about the world, not about the program: what a
//! fault does to a cluster, and whom one has to ask to see it.

#![expect(clippy::too_many_lines, reason = "tables are as long as what they list")]

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::case::{Case, Machine};
use crate::plan::Plan;
use crate::shapes::{daemon_set, deployment};

/// What a fault is planted on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    Machine,
    ControlPlane,
    Cluster,
}

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// The cluster is not healthy.
    Breaks,
    /// It is worth a word, and the cluster is healthy.
    Warns,
    /// Nothing is wrong, and what has to be seen is not: neither healthy nor unhealthy.
    Blinds,
    /// Nothing is wrong, and something is not seen that a verdict may do without.
    Hides,
}

/// Who shows it. Each is asked by itself, so one that is silent takes nothing from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Whether the machine's Talos answers at all.
    Reach,
    /// What its Talos tells: versions, clocks.
    Talos,
    /// What its Talos tells of its stage, services and resources.
    Ready,
    /// Its etcd member.
    Member,
    /// The list of members.
    Members,
    /// Its API server, asked directly.
    Server,
    /// The Kubernetes endpoint.
    Endpoint,
    /// Pods and leases of the control plane, in Kubernetes.
    Component,
    /// Its static pods, as its Talos tells of them.
    StaticPod,
    /// Its Node.
    Node,
    /// What is the cluster's in Kubernetes.
    Object,
    /// When its kubelet says that it renews its lease; Talos has the machine, and Kubernetes the lease.
    Clock,
}

/// What a fault replaces: of two that replace the same, one would undo the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touches {
    Nothing,
    /// Whether the machine is there.
    Machine,
    Status,
    Clock,
    Member,
    Server,
    Node,
    // Those of the cluster.
    Etcd,
    KubeProxy,
    Network,
    Dns,
}

impl Touches {
    pub(crate) fn is_nothing(self) -> bool {
        self == Self::Nothing
    }

    pub(crate) fn is_cluster(self) -> bool {
        matches!(self, Self::Etcd | Self::KubeProxy | Self::Network | Self::Dns)
    }
}

type Plant = dyn Fn(&mut Plan, &str) + Send + Sync;

/// A way to break.
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) on: On,
    pub(crate) does: Does,
    /// Makes it of the machine that is called so.
    pub(crate) plant: Box<Plant>,
    /// The change that ends it.
    pub(crate) end: Option<&'static str>,
    pub(crate) shown: &'static [Source],
    /// Reasons and diagnoses that name it.
    pub(crate) said: &'static [&'static str],
    /// What of its machine cannot be queried any more.
    pub(crate) silences: &'static [Source],
    /// Its machine's etcd member counts no longer as one that is up.
    pub(crate) stops_member: bool,
    /// Its machine's API server takes connections and does not serve, so an answer through a balancer is luck.
    pub(crate) spoils_endpoint: bool,
    pub(crate) touches: Touches,
    /// It is over with the first answer.
    pub(crate) passes: bool,
    pub(crate) fits: fn(&Case) -> bool,
}

impl On {
    pub(crate) fn takes(self, machine: Machine) -> bool {
        match self {
            Self::Machine => true,
            Self::ControlPlane => machine.controls,
            Self::Cluster => false,
        }
    }
}

pub(crate) fn all() -> &'static [Fault] {
    static ALL: LazyLock<Vec<Fault>> = LazyLock::new(|| {
        let mut all = Vec::new();
        all.extend(machines());
        all.extend(etcd());
        all.extend(kubernetes());
        all.extend(blindness());
        all
    });
    &ALL
}

/// All of what a machine tells, itself and through its kubelet.
const ALL_OF_IT: &[Source] = &[Source::Talos, Source::Ready, Source::Member, Source::StaticPod, Source::Component];

fn fault(name: &'static str, on: On, plant: impl Fn(&mut Plan, &str) + Send + Sync + 'static) -> Fault {
    Fault {
        name,
        on,
        does: Does::Breaks,
        plant: Box::new(plant),
        end: None,
        shown: &[],
        said: &[],
        silences: &[],
        stops_member: false,
        spoils_endpoint: false,
        touches: Touches::Nothing,
        passes: false,
        fits: |_| true,
    }
}

/// One of the simulator's own states, and what ends it.
fn state(name: &'static str, end: &'static str, on: On) -> Fault {
    let plant = move |plan: &mut Plan, node: &str| {
        plan.change(if node.is_empty() { json!({"do": name}) } else { json!({"do": name, "node": node}) });
    };
    Fault { end: Some(end), ..fault(name, on, plant) }
}

/// The API server of a control plane does not serve.
fn server_fault(name: &'static str, plant: impl Fn(&mut Plan, &str) + Send + Sync + 'static) -> Fault {
    Fault {
        shown: &[Source::Server],
        said: &[
            "server-not-directly-reachable",
            "connection-refused",
            "component-not-ready",
            "crash-looping",
            "api-server-down",
        ],
        touches: Touches::Server,
        spoils_endpoint: true,
        ..fault(name, On::ControlPlane, plant)
    }
}

fn resource(name: &'static str, on: On, (kind, id): (&'static str, &'static str), merge: Value) -> Fault {
    fault(name, on, move |plan, node| plan.resource(Some(node), kind, id, &merge))
}

fn machines() -> Vec<Fault> {
    let status = ("MachineStatuses.runtime.talos.dev", "machine");
    let unmet = |name: &str, reason: &str| json!({"status": {"ready": false, "unmetConditions": [{"name": name, "reason": reason}]}});
    let gone = |name, end| Fault {
        shown: &[Source::Reach, Source::Node],
        said: &["node-down", "node-unreachable", "no-answer", "node-not-ready", "timed-out", "node-cut-off"],
        silences: ALL_OF_IT,
        stops_member: true,
        touches: Touches::Machine,
        ..state(name, end, On::Machine)
    };
    vec![
        gone("power-off", "power-on"),
        Fault { spoils_endpoint: true, ..gone("unplug", "plug") },
        Fault {
            shown: &[Source::Reach],
            said: &["node-frozen", "machine-frozen", "timed-out", "no-answer", "node-unreachable"],
            silences: &[Source::Talos, Source::Ready, Source::Member, Source::StaticPod],
            touches: Touches::Machine,
            ..state("freeze-machined", "thaw-machined", On::Machine)
        },
        Fault {
            shown: &[Source::Ready],
            said: &["stage-not-running", "rebooting", "node-rebooting", "machine-rebooting"],
            silences: &[Source::Member, Source::Component, Source::StaticPod],
            stops_member: true,
            spoils_endpoint: true,
            touches: Touches::Machine,
            ..state("rebooting", "booted", On::Machine)
        },
        Fault {
            shown: &[Source::Reach],
            said: &["maintenance-mode"],
            silences: ALL_OF_IT,
            stops_member: true,
            spoils_endpoint: true,
            touches: Touches::Machine,
            ..state("maintenance", "configured", On::Machine)
        },
        Fault {
            shown: &[Source::Talos],
            said: &["time-not-synced", "clock-not-synchronized", "clock-not-synchronized"],
            touches: Touches::Clock,
            ..state("time-not-synced", "time-synced", On::Machine)
        },
        Fault {
            shown: &[Source::Ready, Source::Node],
            said: &["kubelet-unhealthy", "kubelet-crashes", "kubelet-down", "node-not-ready", "kubelet-not-running"],
            silences: &[Source::Component, Source::StaticPod],
            touches: Touches::Node,
            ..state("kubelet-crash", "kubelet-heals", On::Machine)
        },
        Fault {
            does: Does::Warns,
            shown: &[Source::Node],
            said: &["cordoned", "nothing-schedulable"],
            ..state("cordon", "uncordon", On::Machine)
        },
        Fault {
            shown: &[Source::Ready],
            said: &["service-failed"],
            ..fault("stop-cri", On::Machine, |plan, node| {
                plan.change(json!({"do": "stop-service", "node": node, "service": "cri"}));
            })
        },
        Fault {
            shown: &[Source::Ready],
            said: &["service-failed"],
            ..fault("stop-trustd", On::ControlPlane, |plan, node| {
                plan.change(json!({"do": "stop-service", "node": node, "service": "trustd"}));
            })
        },
        Fault {
            shown: &[Source::Ready],
            said: &["service-failed"],
            ..fault("extension-failed", On::Machine, |plan, node| {
                plan.change(json!({"do": "service", "node": node, "service": "ext-iscsid", "state": "Failed",
                    "healthy": false, "message": "service not running", "event": "Failed to create runner: exit code 1"}));
            })
        },
        Fault {
            shown: &[Source::Ready],
            said: &["memory-too-small"],
            ..fault("memory-small", On::Machine, |plan, node| {
                plan.change(json!({"do": "machine", "node": node, "memory": [500_000, 100_000]}));
            })
        },
        Fault {
            does: Does::Warns,
            shown: &[Source::Ready],
            said: &["disk-nearly-full"],
            ..fault("var-nearly-full", On::Machine, |plan, node| {
                plan.change(json!({"do": "machine", "node": node, "var": [19_327_352_832_u64, 966_367_641]}));
            })
        },
        Fault {
            shown: &[Source::Ready],
            said: &["volume-failed"],
            fits: |case| case.release.talos != "1.5.5",
            ..resource(
                "volume-failed",
                On::Machine,
                ("VolumeStatuses.block.talos.dev", "EPHEMERAL"),
                json!({"phase": "failed", "errorMessage": "filesystem type mismatch: xfs != ext4"}),
            )
        },
        Fault {
            shown: &[Source::Ready],
            said: &["network-not-ready"],
            ..fault("no-connectivity", On::Machine, move |plan, node| {
                plan.resource(
                    Some(node),
                    "NetworkStatuses.net.talos.dev",
                    "status",
                    &json!({"connectivityReady": false}),
                );
            })
        },
        Fault {
            shown: &[Source::Ready],
            said: &["condition-unmet"],
            touches: Touches::Status,
            ..resource("not-ready", On::Machine, status, unmet("services", "ext-iscsid not healthy"))
        },
        Fault {
            shown: &[Source::Ready],
            said: &["stage-not-running", "service-blocks-boot", "boot-held-up"],
            touches: Touches::Status,
            ..resource(
                "booting",
                On::Machine,
                status,
                json!({"stage": "booting", "status": {"ready": false, "unmetConditions": []}}),
            )
        },
        Fault {
            shown: &[Source::Ready],
            said: &["stage-not-running", "machine-upgrading", "upgrading", "node-upgrading"],
            touches: Touches::Status,
            ..resource(
                "upgrading",
                On::Machine,
                status,
                json!({"stage": "upgrading", "status": {"ready": true, "unmetConditions": []}}),
            )
        },
        Fault {
            does: Does::Warns,
            shown: &[Source::Ready],
            said: &["diagnostic"],
            fits: |case| !["1.5.5"].contains(&case.release.talos),
            ..resource(
                "diagnostic",
                On::Machine,
                ("Diagnostics.runtime.talos.dev", "address-overlap"),
                json!({"message": "host and Kubernetes pod/service CIDR addresses overlap", "details": ["host: 10.244.0.5/24"]}),
            )
        },
        Fault {
            shown: &[Source::Talos],
            said: &["clock-skew"],
            touches: Touches::Clock,
            ..resource(
                "clock-off",
                On::Machine,
                ("AdjtimeStatuses.v1alpha1.talos.dev", "node"),
                json!({"offset": "45s"}),
            )
        },
        Fault {
            shown: &[Source::Clock],
            said: &["clock-skew"],
            touches: Touches::Clock,
            ..fault("clock-of-node-ahead", On::Machine, |plan, node| {
                plan.change(json!({"do": "machine", "node": node, "ahead": "60s"}));
            })
        },
        Fault {
            shown: &[Source::Clock],
            said: &["clock-skew"],
            touches: Touches::Clock,
            ..fault("clock-of-node-behind", On::Machine, |plan, node| {
                plan.change(json!({"do": "machine", "node": node, "ahead": "-60s"}));
            })
        },
        Fault {
            shown: &[Source::Talos],
            said: &["versions-mixed"],
            fits: |case| case.control_planes + case.workers > 1,
            ..fault("two-releases-apart", On::Machine, |plan, node| {
                plan.change(json!({"do": "machine", "node": node, "talos": "1.3.0"}));
            })
        },
    ]
}

fn etcd() -> Vec<Fault> {
    let several: fn(&Case) -> bool = |case| case.control_planes > 1;
    let stopped = |name, end| Fault {
        shown: &[Source::Ready],
        said: &[
            "etcd-unhealthy",
            "etcd-starting",
            "service-failed",
            "quorum-lost",
            "etcd-quorum-lost",
            "etcd-member-down",
            "learner",
            "not-a-member",
            "etcd-member-removed",
            "etcd-member-stuck-joining",
            "never-bootstrapped",
            // As far as Talos alone is queried.
            "condition-unmet",
        ],
        silences: &[Source::Member],
        stops_member: true,
        spoils_endpoint: true,
        touches: Touches::Member,
        ..state(name, end, On::ControlPlane)
    };
    let member = |name, does, said, change: Value| Fault {
        does,
        shown: &[Source::Member],
        said,
        touches: Touches::Member,
        ..fault(name, On::ControlPlane, move |plan, node| {
            let mut change = change.clone();
            (change["do"], change["node"]) = ("etcd-member".into(), node.into());
            plan.change(change);
        })
    };
    vec![
        stopped("etcd-stop", "etcd-start"),
        stopped("etcd-freeze", "etcd-start"),
        Fault { fits: several, ..stopped("etcd-learner", "etcd-promote") },
        Fault { fits: several, ..stopped("etcd-remove-member", "etcd-rejoin") },
        Fault {
            shown: &[Source::Member],
            said: &["alarm-nospace", "etcd-nospace", "etcd-out-of-space"],
            spoils_endpoint: true,
            touches: Touches::Member,
            ..state("etcd-no-space", "etcd-disarm", On::ControlPlane)
        },
        Fault {
            shown: &[Source::Member],
            said: &["alarm-corrupt", "etcd-corrupt"],
            spoils_endpoint: true,
            touches: Touches::Member,
            ..state("etcd-corrupt", "etcd-disarm", On::ControlPlane)
        },
        member("etcd-lags", Does::Breaks, &["lagging"], json!({"behind": 4500})),
        member(
            "etcd-nearly-full",
            Does::Breaks,
            &["space-nearly-full"],
            json!({"db-size": 2_083_059_138_u64, "db-size-in-use": 2_000_000_000}),
        ),
        member(
            "etcd-filling",
            Does::Warns,
            &["space-nearly-full"],
            json!({"db-size": 1_825_361_100, "db-size-in-use": 1_800_000_000}),
        ),
        member(
            "etcd-fragmented",
            Does::Warns,
            &["fragmented"],
            json!({"db-size": 524_288_000, "db-size-in-use": 104_857_600}),
        ),
        Fault {
            shown: &[Source::Members],
            said: &["stale-member", "etcd-member-without-machine"],
            touches: Touches::Etcd,
            ..fault("etcd-stale-member", On::Cluster, |plan, _| {
                plan.change(json!({"do": "etcd-add-member", "id": 15783, "name": "old-cp", "peer-urls": ["https://192.0.2.9:2380"]}));
            })
        },
        Fault {
            shown: &[Source::Members],
            said: &["stale-member", "etcd-member-without-machine"],
            touches: Touches::Etcd,
            ..fault("etcd-unstarted-member", On::Cluster, |plan, _| {
                plan.change(json!({"do": "etcd-add-member", "id": 15783, "peer-urls": ["https://192.0.2.9:2380"]}));
            })
        },
        Fault {
            shown: &[Source::Ready],
            said: &["never-bootstrapped", "etcd-starting"],
            touches: Touches::Etcd,
            spoils_endpoint: true,
            ..state("not-bootstrapped", "bootstrap", On::Cluster)
        },
        Fault {
            shown: &[Source::Members],
            said: &["split-cluster", "etcd-split", "bootstrapped-twice"],
            touches: Touches::Etcd,
            spoils_endpoint: true,
            fits: |case| case.control_planes > 2,
            ..state("bootstrapped-twice", "bootstrapped-once", On::Cluster)
        },
    ]
}

/// What a kubelet reports, but for this.
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

fn kubernetes() -> Vec<Fault> {
    let server = |name, said| Fault {
        shown: &[Source::Server],
        said,
        touches: Touches::Server,
        spoils_endpoint: true,
        ..state(name, "api-server-start", On::ControlPlane)
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
    let component = |name, end, said| Fault {
        shown: &[Source::Component, Source::StaticPod],
        said,
        ..state(name, end, On::ControlPlane)
    };
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
                // It stays in default/kubernetes, and packets to it vanish.
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
            // Others vouch for it; the balancer goes around it.
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
        component("scheduler-broken", "scheduler-heals", &["crash-looping", "component-not-ready"]),
        component("controller-manager-broken", "controller-manager-heals", &["crash-looping", "component-not-ready"]),
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
            ..state("dns-scaled-to-zero", "dns-scaled-up", On::Cluster)
        },
        Fault {
            shown: &[Source::Object],
            said: &["cni-missing", "network-plugin-missing"],
            touches: Touches::Network,
            ..state("cni-missing", "cni-heals", On::Cluster)
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

/// Calls that are not answered as they should be, and whether a verdict may do without.
fn blindness() -> Vec<Fault> {
    let lists = [
        ("/api/v1/nodes", Does::Blinds),
        ("/api/v1/pods", Does::Blinds),
        ("/api/v1/namespaces/kube-system/pods", Does::Hides),
        ("/apis/coordination.k8s.io/v1/leases", Does::Hides),
        ("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", Does::Blinds),
        ("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", Does::Blinds),
        ("/apis/apps/v1/daemonsets", Does::Blinds),
        ("/apis/apps/v1/namespaces/kube-system/deployments", Does::Hides),
        ("/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices", Does::Blinds),
        ("/apis/certificates.k8s.io/v1/certificatesigningrequests", Does::Hides),
        ("/apis/apps/v1/namespaces/kube-system/statefulsets", Does::Blinds),
        ("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", Does::Hides),
        ("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", Does::Blinds),
        ("/apis/apiregistration.k8s.io/v1/apiservices", Does::Hides),
        ("/api/v1/events", Does::Blinds),
    ];
    let ways = [
        ("forbidden", json!({"fail": {"code": 403, "text": "forbidden"}})),
        ("throttled", json!({"fail": {"code": 429, "text": "too many requests"}})),
        ("failing", json!({"fail": {"code": 500, "text": "internal error"}})),
        ("garbage", json!("garbage")),
        ("silent", json!("hang")),
        ("cut", json!("cut")),
    ];
    let mut all = Vec::new();
    for (list, does) in lists {
        for (way, misbehaves) in &ways {
            let name: &'static str = Box::leak(format!("{way}:{list}").into_boxed_str());
            let misbehaves = misbehaves.clone();
            // Whoever may not read the DaemonSets of all namespaces reads those of kube-system.
            let does = if name == "forbidden:/apis/apps/v1/daemonsets" { Does::Hides } else { does };
            all.push(Fault {
                does,
                ..fault(name, On::Cluster, move |plan, _| {
                    plan.change(json!({"do": "call-fault", "call": list, "does": misbehaves}));
                })
            });
        }
    }
    for list in ["/api/v1/nodes", "/api/v1/pods", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"] {
        let name: &'static str = Box::leak(format!("forbidden-once:{list}").into_boxed_str());
        let once = move |plan: &mut Plan, _: &str| {
            plan.change(json!({"do": "call-fault", "call": list, "does": {"fail": {"code": 403, "text": "forbidden"}}, "times": 1}));
        };
        all.push(Fault { does: Does::Hides, passes: true, ..fault(name, On::Cluster, once) });
    }
    // Proxies between the program and the API server.
    for (name, does, misbehaves) in [
        ("cache-on-the-way", Does::Blinds, json!({"cached": "5m"})),
        ("selectors-dropped-on-the-way", Does::Hides, json!("without-query")),
        ("dates-dropped-on-the-way", Does::Hides, json!("without-date")),
    ] {
        all.push(Fault {
            does,
            ..fault(name, On::Cluster, move |plan, _| {
                plan.change(json!({"do": "call-fault", "call": "/api*", "does": misbehaves}));
            })
        });
    }
    let calls = [
        ("ServiceList", Does::Blinds),
        ("List MachineStatuses", Does::Hides),
        ("Get MachineStatuses", Does::Hides),
        ("EtcdStatus", Does::Hides),
        ("EtcdMemberList", Does::Hides),
        ("EtcdAlarmList", Does::Hides),
        ("Memory", Does::Hides),
        ("Mounts", Does::Hides),
    ];
    let ways = [
        ("refused", json!({"fail": {"code": 7, "text": "not authorized"}})),
        ("unavailable", json!({"fail": {"code": 14, "text": "connection error"}})),
        ("garbage", json!("garbage")),
        ("empty", json!("empty")),
        ("silent", json!("hang")),
    ];
    for (call, does) in calls {
        for (way, misbehaves) in &ways {
            let name: &'static str = Box::leak(format!("{way}:{}", call.replace(' ', "-")).into_boxed_str());
            let misbehaves = misbehaves.clone();
            all.push(Fault {
                does,
                ..fault(name, On::Machine, move |plan, node| {
                    plan.change(
                        json!({"do": "call-fault", "server": "apid", "node": node, "call": call, "does": misbehaves}),
                    );
                })
            });
        }
    }
    all
}
