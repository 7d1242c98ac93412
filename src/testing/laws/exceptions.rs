//! Exceptions: another fact compensates for a lost one, or the fact only explains or warns; each with the reason.
//!
//! A check is given by the beginning of its name or, after `!`, as every check except the one with that name.

use crate::testing::fixture::{Dns, Shape, Sides};

type Exception = (&'static [&'static str], &'static [&'static str], fn(&Shape) -> bool, &'static str);

/// The reason why a refusal of the kubelet's flags is not a gap.
pub(super) const SECRET: &str =
    "a secret in newer versions of Talos; the check names the kubelets that it could not compare";

/// Like [`EXCEPTIONS`], for worlds in which the check does not read the fact.
pub(super) const IN_SOME_WORLDS: &[Exception] = &[
    (
        &["k8s.controlplane.versions", "upgrade.kubernetes.path", "upgrade.matrix"],
        &["version"],
        |shape| shape.sides == Sides::NoTalos,
        "the images of the components name their version",
    ),
    (&["upgrade.flags"], &["static_pods of a worker"], |_| true, "a worker runs no component of the control plane"),
    (
        &["upgrade.quorum"],
        &["etcd_status of an endpoint", "etcd_members of an endpoint"],
        |shape| shape.external_etcd > 0,
        "no member is on any machine that goes",
    ),
    (
        &[
            "etcd.leader",
            "etcd.members.consistent",
            "etcd.quorum",
            "etcd.learners",
            "etcd.alarms",
            "etcd.space",
            "etcd.lag",
            "etcd.tolerance",
            "etcd.versions",
            "upgrade.quorum",
        ],
        &[
            "contact of a control plane",
            "services of a control plane",
            "discovery",
            "every node",
            "all endpoints and nodes behind them",
        ],
        |shape| shape.external_etcd > 0,
        "etcd runs elsewhere and is asked by itself",
    ),
    (
        &["etcd.tolerance", "upgrade.quorum"],
        &["contact of a control plane", "etcd_status of a control plane", "etcd_status of an endpoint"],
        |shape| {
            let needed = shape.margin.unwrap_or(0).max(usize::from(shape.members() > 2));
            shape.members() > 1 && (shape.members() - 1).saturating_sub(shape.members() / 2 + 1) >= needed
        },
        "those that were seen are enough",
    ),
    (
        &["k8s.kube-proxy", "k8s.dns", "k8s.cni", "k8s.system", "k8s.nodes.csrs", "k8s.webhooks", "k8s.apiservices"],
        &["nodes"],
        |shape| shape.sides == Sides::NoTalos,
        "there is no other cluster that it could be, and their own lists tell the rest",
    ),
    (
        &["upgrade.flags", "upgrade.apis"],
        &["nodes", "pods", "system_leases", "api_endpoints"],
        |shape| shape.sides != Sides::NoTalos,
        "Talos tells the control planes, and what their components are started with",
    ),
    (
        &["k8s.kube-proxy", "k8s.cni"],
        &["empty daemon_sets"],
        |shape| shape.sides == Sides::NoTalos,
        "nothing tells whether it is wanted",
    ),
    (
        &["k8s.controlplane.apiserver", "k8s.controlplane.controller-manager", "k8s.controlplane.scheduler"],
        &["node_leases"],
        |shape| shape.sides != Sides::NoTalos,
        "vouch for the age of mirror pods where Talos is not queried",
    ),
    (
        &["k8s.staticpods.running"],
        &["node_leases", "nodes"],
        |shape| shape.sides != Sides::NoTalos,
        "vouch for the age of mirror pods where Talos is not queried",
    ),
    (
        &["k8s.controlplane."],
        &["nodes"],
        |shape| shape.sides == Sides::NoTalos,
        "flags name the control planes, and the components' own leases and pods tell the rest",
    ),
    (
        &["talos.", "k8s."],
        &["contact of a worker"],
        |shape| shape.bare > 0,
        "without Kubernetes, discovery alone names it, and then it looks like one that was removed",
    ),
    (
        &["talos.nodes.kubelet", "k8s.staticpods.running"],
        &["kube_prism of a worker", "static_pods of a worker", "static_pod_statuses of a worker"],
        |shape| shape.bare > 0,
        "a machine without Kubernetes has none",
    ),
    (
        &["k8s.staticpods.running"],
        &["unasked services of a control plane"],
        |shape| shape.external_etcd > 0,
        "without an etcd of Talos's own, nothing is left to show of them; and who runs the check asks for them",
    ),
    (
        &["k8s.api.servers", "k8s.api.certificates"],
        &["foreign the server of a control plane"],
        |shape| shape.control_planes == 1,
        "no server's own certificate verifies, so the endpoint is somebody else's, of which `k8s.api.identity` warns",
    ),
    (&["k8s.dns"], &["empty dns_endpoints"], |shape| shape.dns == Dns::Replaced, "disabled by configuration"),
    (
        &["k8s.dns", "upgrade.quorum"],
        &["pods"],
        |shape| shape.dns == Dns::Replaced,
        "endpoints that are no pods need none",
    ),
    (
        &["talos.nodes.reachable"],
        &["empty nodename of a control plane", "empty nodename of a worker"],
        |shape| shape.sides == Sides::NoKubernetes && shape.talos[1] == "v1.14.0",
        "a machine without Kubernetes has none, from Talos 1.14 on",
    ),
];

/// `(checks, facts, why)`: these checks may pass without these facts. A check is given by the beginning of its name. A prefix of the fact
/// describes the answer: `empty` if it contains nothing, `refused` if the role does not allow it, `foreign` if the server presents a
/// certificate of another CA, `unreached` if the server is not reachable, `unasked` if it was not requested, `withheld` if it is missing
/// without being unreadable.
pub(super) const EXCEPTIONS: &[(&[&str], &[&str], &str)] = &[
    (
        &["etcd.members.nodes", "k8s.nodes.pressure"],
        &["link_addresses of a control plane", "link_addresses of a worker"],
        "what they tell only warns here; `talos.nodes.network` tells that they are lost",
    ),
    (
        &["talos.nodes.network"],
        &["empty link_addresses of a control plane", "empty link_addresses of a worker"],
        "loopback and dummies may have all",
    ),
    (&[""], &["an endpoint"], "the other endpoints forward; `talos.endpoints` warns"),
    (&[""], &["machine_type of a control plane", "machine_type of a worker"], "discovery tells the role as well"),
    (
        &["!talos.nodes.reachable"],
        &["nodename of a control plane", "nodename of a worker"],
        "whose answer it is, is judged by `talos.nodes.reachable`",
    ),
    (
        &["!talos.nodes.expected"],
        &["discovery"],
        "whether discovery can be read is judged by `talos.nodes.expected`; others name the same nodes",
    ),
    (&["talos.nodes.expected"], &["empty discovery"], "discovery is off; Kubernetes and etcd name the same nodes"),
    (
        &["talos.credentials", "talos.endpoints"],
        &["contact of a control plane", "contact of a worker", "every node", "all endpoints and nodes behind them"],
        "they come before the nodes (the endpoints themselves are not lost on `talos.endpoints`, see below)",
    ),
    (
        &["talos.nodes.expected"],
        &[
            "contact of a control plane",
            "contact of a worker",
            "etcd_status of a control plane",
            "etcd_members of a control plane",
            "etcd_member_id of a control plane",
            "etcd_status of an endpoint",
            "etcd_members of an endpoint",
            "nodes",
        ],
        "another source names the node",
    ),
    (
        &["talos.nodes.booted", "talos.nodes.services"],
        &[
            "services of a control plane",
            "services of a worker",
            "machine_status of a control plane",
            "machine_status of a worker",
        ],
        "only explains (what the check judges is asserted below)",
    ),
    (
        &["talos.time"],
        &["adjtime of a control plane", "adjtime of a worker", "node_leases", "nodes"],
        "kernel and lease vouch for each other",
    ),
    (
        &["talos.nodes.disk"],
        &["withheld mounts of a control plane", "withheld mounts of a worker"],
        "one file system that hangs keeps Talos from telling of any",
    ),
    (
        &["talos.nodes.kubelet"],
        &["empty kube_prism of a control plane", "empty kube_prism of a worker"],
        "KubePrism is switched off",
    ),
    (
        &["talos.nodes.kubelet", "talos.nodes.network"],
        &[
            "refused kube_prism of a control plane",
            "refused kube_prism of a worker",
            "refused kube_span_peers of a control plane",
        ],
        "a refusal of what only warns",
    ),
    (
        &["talos.nodes.kubelet-certificate"],
        &["kubelet_certificate of a control plane", "kubelet_certificate of a worker"],
        "not every runner reaches the port, and none is allowed to ask there",
    ),
    (&["upgrade.flags"], &["refused kubelet_flags of a control plane", "refused kubelet_flags of a worker"], SECRET),
    (
        &["talos.nodes.diagnostics"],
        &["refused diagnostics of a control plane", "refused diagnostics of a worker"],
        "a refusal of what only warns",
    ),
    (&["etcd."], &["contact of a worker", "services of a worker"], "etcd runs on control planes"),
    (
        &["upgrade.quorum"],
        &["machine_status of a control plane", "machine_status of a worker"],
        "only tells earlier than the node's lease that the machine goes down",
    ),
    (&["k8s.pods.starting"], &["system_leases"], "decide how long a pod may wait for a scheduler; none waits"),
    (&["etcd."], &["etcd_member_id of a control plane"], "the member's status tells its id as well"),
    (
        &["etcd.quorum"],
        &[
            "contact of a control plane",
            "services of a control plane",
            "etcd_status of a control plane",
            "etcd_members of a control plane",
            "etcd_status of an endpoint",
            "etcd_members of an endpoint",
            "nodes",
        ],
        "one voter with a leader and one list prove it; Kubernetes is its witness only without Talos",
    ),
    (
        &["etcd.leader", "etcd.alarms", "etcd.space", "etcd.lag", "etcd.tolerance", "etcd.versions", "etcd.service"],
        &["etcd_members of a control plane", "etcd_members of an endpoint"],
        "the others' lists are the same, or `etcd.members.consistent` says so",
    ),
    (
        &["etcd.members.", "etcd.service"],
        &["etcd_status of a control plane", "etcd_status of an endpoint"],
        "the list is what is compared; the id is known from `EtcdMembers`",
    ),
    (
        &[
            "etcd.leader",
            "etcd.alarms",
            "etcd.space",
            "etcd.lag",
            "etcd.tolerance",
            "etcd.versions",
            "etcd.learners",
            "etcd.members.",
        ],
        &["services of a control plane"],
        "etcd's own answer counts; the service is judged by `etcd.service`",
    ),
    (&["talos.versions"], &["nodes"], "with them, machines that `--nodes` leaves out are compared with, too"),
    (&["etcd.service"], &["the endpoint's readyz"], "only tells a cluster that was never bootstrapped"),
    (
        &["k8s.api.servers"],
        &["contact of a control plane", "contact of a worker", "all endpoints and nodes behind them", "nodes"],
        "the server itself was asked, whatever Talos and the endpoint say",
    ),
    (&["k8s.api.servers"], &["system_leases"], "stand in for a server that is out of reach"),
    (
        &["k8s.api.servers"],
        &["unreached the server of a control plane"],
        "out of reach from here, its lease is renewed",
    ),
    (
        &["etcd.tolerance"],
        &["the server of a control plane", "unreached the server of a control plane"],
        "only tells that a machine lives which is silent to Talos",
    ),
    (
        &["k8s.api.identity"],
        &[
            "contact of a control plane",
            "contact of a worker",
            "etcd_status of a control plane",
            "etcd_members of a control plane",
            "etcd_member_id of a control plane",
            "etcd_status of an endpoint",
            "etcd_members of an endpoint",
        ],
        "one common machine is enough",
    ),
    (
        &["k8s.controlplane.", "k8s.staticpods.rendered"],
        &["contact of a worker", "services of a worker", "static_pods of a worker", "static_pod_statuses of a worker"],
        "they run on control planes",
    ),
    (
        &["k8s.controlplane.", "k8s.staticpods.rendered"],
        &["scheduler_enabled of a control plane", "controller_manager_enabled of a control plane"],
        "the pod is there, so it is wanted",
    ),
    (
        &["k8s.controlplane."],
        &["static_pod_statuses of a control plane"],
        "the mirror pod vouches for the status, if its kubelet lives; not the other way round",
    ),
    (&["k8s.controlplane.versions"], &["pods"], "the image in Talos's status names the version"),
    (&["upgrade.kubernetes.path"], &["contact of a worker"], "its Node object tells the version of its kubelet"),
    (
        &["upgrade.kubernetes.path", "upgrade.matrix"],
        &[
            "static_pods of a worker",
            "static_pod_statuses of a worker",
            "scheduler_enabled of a control plane",
            "controller_manager_enabled of a control plane",
            "static_pods of a control plane",
            "static_pod_statuses of a control plane",
            "pods",
            "system_leases",
        ],
        "as `k8s.controlplane.versions`, of whose facts they are made",
    ),
    (
        &["upgrade.etcd"],
        &[
            "contact of a worker",
            "services of a worker",
            "services of a control plane",
            "etcd_member_id of a control plane",
            "etcd_members of a control plane",
        ],
        "a worker has no etcd, its member's own status is compared, and the others' lists are the same",
    ),
    (&["upgrade.quorum"], &["contact of a worker", "services of a worker"], "a worker has no member and no API server"),
    (
        &["upgrade.quorum"],
        &[
            "services of a control plane",
            "etcd_members of a control plane",
            "etcd_member_id of a control plane",
            "the server of a control plane",
            "empty dns_endpoints",
        ],
        "its status tells that a member is up, another API server is enough, and no endpoint is `k8s.dns`'s trouble",
    ),
    (
        &["upgrade.drain", "upgrade.quorum"],
        &[
            "static_pods of a control plane",
            "static_pods of a worker",
            "static_pod_statuses of a control plane",
            "static_pod_statuses of a worker",
            "scheduler_enabled of a control plane",
            "controller_manager_enabled of a control plane",
        ],
        "one other instance of each component is enough, and a lease tells who leads",
    ),
    (&["upgrade.quorum"], &["system_leases"], "one other instance of each component is enough"),
    (&["k8s.api.servers"], &["the endpoint's readyz"], "it shows a proxy before them, and not how they are"),
    (
        &["k8s.nodes.pressure"],
        &["bootstrap_manifests of a control plane", "daemon_sets", "plugin_namespaces"],
        "they relax what two Nodes share",
    ),
    (
        &["upgrade.drain", "upgrade.room", "upgrade.volumes"],
        &["contact of a control plane", "contact of a worker"],
        "Kubernetes tells which pods are on the machine, and would evict them",
    ),
    (
        &["upgrade.drain"],
        &[
            "services of a control plane",
            "services of a worker",
            "etcd_members of a control plane",
            "etcd_member_id of a control plane",
            "etcd_members of an endpoint",
            "pods",
        ],
        "a member that works tells of alarms, and a lease tells who leads",
    ),
    (
        &["upgrade.apis"],
        &["contact of a control plane", "contact of a worker", "the server of a control plane"],
        "Kubernetes itself tells what was requested of the server",
    ),
    (&["k8s.controlplane."], &["static_pods of a control plane"], "the pod runs, so it was rendered"),
    (&["k8s.controlplane.leases"], &["contact of a control plane"], "Kubernetes tells who leads; the rest explains"),
    (
        &["k8s.api.certificates"],
        &[
            "contact of a control plane",
            "contact of a worker",
            "all endpoints and nodes behind them",
            "nodes",
            "system_leases",
            "api_endpoints",
        ],
        "the servers themselves were asked, and others only vouch for one that is out of reach",
    ),
    (
        &["k8s.api.certificates"],
        &["unreached the server of a control plane"],
        "out of reach from here, its lease is renewed",
    ),
    (&["k8s.staticpods.rendered"], &["services of a control plane"], "only explains"),
    (&["k8s.staticpods.running"], &["services of a worker"], "the kubelet's health is judged by `talos.nodes.kubelet`"),
    (
        &["k8s.kube-proxy", "k8s.dns", "k8s.cni"],
        &["contact of a control plane", "contact of a worker", "bootstrap_manifests of a control plane", "node_leases"],
        "tell what is wanted and why it is missing; the DaemonSet's status, its pods and the endpoints are the evidence",
    ),
    (
        &["k8s.manifests"],
        &[
            "contact of a control plane",
            "contact of a worker",
            "bootstrap_manifests of a control plane",
            "manifests_applied of a control plane",
            "extra_manifests of a control plane",
            "daemon_sets",
            "plugin_namespaces",
        ],
        "one control plane tells what was applied, and the DaemonSets matter only where nothing was",
    ),
    (&["k8s.dns"], &["empty deployments"], "something else serves DNS"),
    (&["k8s.kube-proxy", "k8s.cni", "upgrade.flags"], &["plugin_namespaces"], "theirs is kube-system"),
    (&["upgrade.flags"], &["empty daemon_sets"], "that kube-proxy is missing is for k8s.kube-proxy to say"),
    (
        &["k8s.system"],
        &[
            "contact of a control plane",
            "contact of a worker",
            "bootstrap_manifests of a control plane",
            "node_leases",
            "empty daemon_sets",
            "empty deployments",
            "empty stateful_sets",
        ],
        "nobody says which workloads there should be; the rest tells whose the pods are that are missing",
    ),
    (&["k8s.pods.starting"], &["contact of a control plane", "contact of a worker"], "Kubernetes' own opinion"),
    (&["k8s.pods.starting", "upgrade.drain", "upgrade.room"], &["empty starting_pods"], "no pod is starting"),
    (&["talos.server"], &["refused the server's check"], "it is for administrators, which is said in its place"),
    (
        &["talos.server"],
        &[
            "contact of a control plane",
            "contact of a worker",
            "nodename of a control plane",
            "nodename of a worker",
            "discovery",
            "every node",
            "all endpoints and nodes behind them",
        ],
        "the server has answered, whatever we see ourselves",
    ),
    (&["k8s.webhooks"], &["pods"], "none of the webhooks has its Service in kube-system"),
    (
        &["k8s.nodes.", "k8s.webhooks", "k8s.apiservices"],
        &["contact of a control plane", "contact of a worker"],
        "Kubernetes' own opinion",
    ),
    (
        &[
            "k8s.controlplane.controller-manager",
            "k8s.controlplane.scheduler",
            "k8s.controlplane.versions",
            "k8s.staticpods.running",
        ],
        &["system_leases"],
        "shows, where Talos is not queried, that the component runs elsewhere",
    ),
];

/// Facts without which the whole cluster may be reported as healthy.
pub(super) const HARMLESS: &[(&[&str], &str)] = &[
    (
        &["empty link_addresses of a control plane", "empty link_addresses of a worker"],
        "loopback and dummies may have all",
    ),
    (&["an endpoint"], "a warning"),
    (&["empty discovery"], "Kubernetes and etcd name the same nodes"),
    (&["machine_type of a control plane", "machine_type of a worker"], "discovery tells the role as well"),
    (&["adjtime of a control plane", "adjtime of a worker"], "the node's lease tells the same"),
    (
        &["withheld mounts of a control plane", "withheld mounts of a worker"],
        "one file system that hangs keeps Talos from telling of any",
    ),
    (
        &["refused diagnostics of a control plane", "refused diagnostics of a worker"],
        "what they tell only warns, and not everybody may read them",
    ),
    (&["empty kube_prism of a control plane", "empty kube_prism of a worker"], "KubePrism is switched off"),
    (
        &["kubelet_certificate of a control plane", "kubelet_certificate of a worker"],
        "not every runner reaches the port",
    ),
    (
        &[
            "refused kube_prism of a control plane",
            "refused kube_prism of a worker",
            "refused kube_span_peers of a control plane",
        ],
        "what they tell only warns",
    ),
    (&["etcd_member_id of a control plane"], "the member's status tells its id as well"),
    (
        &[
            "scheduler_enabled of a control plane",
            "controller_manager_enabled of a control plane",
            "bootstrap_manifests of a control plane",
            "manifests_applied of a control plane",
            "extra_manifests of a control plane",
            "empty deployments",
            "empty stateful_sets",
            "empty starting_pods",
        ],
        "what they would tell was seen elsewhere",
    ),
    (&["refused kubelet_flags of a control plane", "refused kubelet_flags of a worker"], SECRET),
    (&["refused the server's check"], "a second opinion that only administrators get"),
    (&["unreached the server of a control plane"], "out of reach from here, its lease is renewed"),
];
