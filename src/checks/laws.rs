//! Laws of the whole catalogue: no evidence is no health, a failure never helps, and order means nothing.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::fixture::{CONTROL_PLANES, GAPS, NODES, gap, healthy};
use super::{ALL, Check, Fact, Outcome, Status, Verdict, nothing_judged};
use crate::snapshot::{AlarmKind, EtcdAlarm, Gap, GapKind, Observed, Snapshot, TalosNode};

/// Takes a fact away. With a kind: the gap in its place. `None`: the answer is there and says nothing.
type Take = Box<dyn Fn(&mut Snapshot, Option<GapKind>)>;
/// Takes several facts away at once.
type Loss = fn(&mut Snapshot, GapKind);

/// One fact of the healthy fixture that can be taken away.
struct Removal {
    fact: Fact,
    /// For the list of exceptions: `etcd_status of a control plane`.
    name: String,
    apply: Take,
}

impl Removal {
    fn new(fact: Fact, name: impl Into<String>, apply: impl Fn(&mut Snapshot, Option<GapKind>) + 'static) -> Self {
        Self { fact, name: name.into(), apply: Box::new(apply) }
    }
}

macro_rules! of_node {
    ($removals:ident, $node:ident, $($fact:ident $field:ident),+ $(,)?) => {
        $($removals.push(Removal::new(
            Fact::$fact,
            format!("{} of a {}", stringify!($field), if $node.starts_with("cp") { "control plane" } else { "worker" }),
            move |snapshot, kind| {
                snapshot.talos_of($node).$field = kind.map_or_else(|| Ok(Default::default()), gap);
            },
        ));)+
    };
}

macro_rules! of_kubernetes {
    ($removals:ident, $($fact:ident $field:ident),+ $(,)?) => {
        $($removals.push(Removal::new(Fact::$fact, stringify!($field), |snapshot, kind| {
            snapshot.kube().$field = kind.map_or_else(|| Ok(Default::default()), gap);
        }));)+
    };
}

/// Every fact of every node, and every answer of Kubernetes.
fn removals() -> Vec<Removal> {
    let mut removals = Vec::new();
    for node in NODES {
        let control_plane = node.starts_with("cp");
        let role = if control_plane { "control plane" } else { "worker" };
        removals.push(Removal::new(Fact::TalosNodes, format!("contact of a {role}"), move |snapshot, kind| {
            snapshot.talos_of(node).contact = gap(kind.unwrap_or(GapKind::NotAsked));
        }));
        of_node!(
            removals, node,
            TalosNodes machine_type, TalosNodes nodename, MachineStatus machine_status, Services services,
            TimeStatus time_status, TimeStatus adjtime, NetworkStatus network_status, KubePrism kube_prism, Memory memory, Volumes volumes,
            Volumes mounts,
            StaticPods static_pods, StaticPodStatuses static_pod_statuses, ConfigStatuses config_statuses,
            ComponentConfigs scheduler_enabled, ComponentConfigs controller_manager_enabled,
            BootstrapManifests bootstrap_manifests,
        );
        // No diagnostic is what a healthy machine says, so only its absence is a removal.
        removals.push(Removal::new(Fact::Diagnostics, format!("diagnostics of a {role}"), move |snapshot, kind| {
            snapshot.talos_of(node).diagnostics = gap(kind.unwrap_or(GapKind::NotAsked));
        }));
        if control_plane {
            of_node!(removals, node, EtcdMembership etcd_members, EtcdMembership etcd_member_id);
            removals.push(Removal::new(
                Fact::EtcdMembership,
                "etcd_status of a control plane",
                move |snapshot, kind| {
                    snapshot.talos_of(node).etcd_status = gap(kind.unwrap_or(GapKind::NotAsked));
                },
            ));
            // No alarm is what a healthy member says, so only its absence is a removal.
            removals.push(Removal::new(Fact::EtcdAlarms, "etcd_alarms of a control plane", move |snapshot, kind| {
                snapshot.talos_of(node).etcd_alarms = gap(kind.unwrap_or(GapKind::NotAsked));
            }));
            of_node!(removals, node, EtcdSpecs etcd_spec);
            // No peer is what a control plane without KubeSpan has, so only its absence is a removal.
            removals.push(Removal::new(Fact::KubeSpan, "kube_span_peers of a control plane", move |snapshot, kind| {
                snapshot.talos_of(node).kube_span_peers = gap(kind.unwrap_or(GapKind::NotAsked));
            }));
            removals.push(Removal::new(Fact::ServerReadyz, "the server of a control plane", move |snapshot, kind| {
                match kind {
                    Some(kind) => snapshot.kube().servers.insert(node.to_owned(), gap(kind)),
                    None => snapshot.kube().servers.remove(node),
                };
            }));
        }
    }
    for index in 0..CONTROL_PLANES.len() {
        removals.push(Removal::new(Fact::TalosNodes, "an endpoint", move |snapshot, kind| {
            snapshot.talos_mut().endpoints[index].version = gap(kind.unwrap_or(GapKind::NotAsked));
        }));
    }
    removals.push(Removal::new(Fact::TalosNodes, "all endpoints and nodes behind them", |snapshot, kind| {
        let kind = kind.unwrap_or(GapKind::NotAsked);
        snapshot.talos_mut().endpoints.iter_mut().for_each(|endpoint| endpoint.version = gap(kind));
        for node in &mut snapshot.nodes {
            node.talos = TalosNode::unasked(&Gap::not_asked());
        }
    }));
    removals.push(Removal::new(Fact::TalosNodes, "discovery", |snapshot, kind| {
        snapshot.talos_mut().discovery = kind.map_or(Ok(0), gap);
        snapshot.nodes.iter_mut().for_each(|node| node.sources.discovery = false);
    }));
    removals.push(Removal::new(Fact::ServerCheck, "the server's check", |snapshot, kind| match kind {
        Some(kind) => snapshot.talos_mut().server = gap(kind),
        None => snapshot.talos_mut().server.iter_mut().for_each(|check| check.progress.clear()),
    }));
    removals.push(Removal::new(Fact::TalosNodes, "every node", |snapshot, _| snapshot.nodes.clear()));
    removals.push(Removal::new(Fact::EndpointReadyz, "the endpoint's readyz", |snapshot, kind| {
        snapshot.kube().endpoint = gap(kind.unwrap_or(GapKind::NotAsked));
    }));
    for (fact, name) in [(Fact::NodeLeases, "node_leases"), (Fact::SystemLeases, "system_leases")] {
        removals.push(Removal::new(fact, name, move |snapshot, kind| {
            let kube = snapshot.kube();
            let leases = if fact == Fact::NodeLeases { &mut kube.node_leases } else { &mut kube.system_leases };
            match kind {
                Some(kind) => *leases = gap(kind),
                None => leases.as_mut().unwrap().by_name.clear(),
            }
        }));
    }
    of_kubernetes!(
        removals, KubeNodes nodes, Pods pods, DaemonSets daemon_sets, Deployments deployments,
        DnsEndpoints dns_endpoints, ApiEndpoints api_endpoints,
    );
    // No request is what a healthy cluster has, and a refusal concerns a warning alone.
    removals.push(Removal::new(Fact::SigningRequests, "signing_requests", |snapshot, kind| {
        let kind = kind.filter(|kind| *kind != GapKind::Forbidden).unwrap_or(GapKind::NotAsked);
        snapshot.kube().signing_requests = gap(kind);
    }));
    removals
}

fn judged(check: &Check, snapshot: &Snapshot) -> Verdict {
    let verdict = (check.judge)(snapshot);
    if verdict.findings.is_empty() { nothing_judged() } else { verdict }
}

fn overall(snapshot: &Snapshot) -> Status {
    ALL.iter().map(|check| judged(check, snapshot).status()).max().unwrap()
}

/// `(checks, facts, why)`: these checks may pass without these facts. A check is named by its beginning, an answer that is
/// there and says nothing by `empty` before the fact, one that the role does not allow by `refused`.
const EXCEPTIONS: &[(&[&str], &[&str], &str)] = &[
    (&[""], &["an endpoint"], "the other endpoints forward; `talos.endpoints` warns"),
    (&[""], &["machine_type of a control plane", "machine_type of a worker"], "discovery tells the role as well"),
    (
        &[
            "talos.credentials",
            "talos.endpoints",
            "talos.nodes.b",
            "talos.nodes.d",
            "talos.nodes.e",
            "talos.nodes.k",
            "talos.nodes.m",
            "talos.nodes.network",
            "talos.nodes.ready",
            "talos.nodes.s",
            "talos.time",
            "talos.versions",
            "etcd.",
            "k8s.",
        ],
        &["nodename of a control plane", "nodename of a worker"],
        "whose answer it is, is judged by `talos.nodes.reachable`",
    ),
    (
        &[
            "talos.credentials",
            "talos.endpoints",
            "talos.nodes.b",
            "talos.nodes.d",
            "talos.nodes.k",
            "talos.nodes.m",
            "talos.nodes.network",
            "talos.nodes.r",
            "talos.nodes.s",
            "talos.time",
            "talos.versions",
            "etcd.",
            "k8s.",
        ],
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
    (&["talos.nodes.disk"], &["mounts of a control plane", "mounts of a worker"], "what they tell only warns"),
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
        &["talos.nodes.diagnostics"],
        &["refused diagnostics of a control plane", "refused diagnostics of a worker"],
        "a refusal of what only warns",
    ),
    (&["etcd."], &["contact of a worker", "services of a worker"], "etcd runs on control planes"),
    (&["etcd."], &["etcd_member_id of a control plane"], "the member's status tells its id as well"),
    (
        &["etcd.quorum"],
        &[
            "contact of a control plane",
            "services of a control plane",
            "etcd_status of a control plane",
            "etcd_members of a control plane",
            "nodes",
        ],
        "one voter with a leader and one list prove it; Kubernetes is its witness only without Talos",
    ),
    (
        &["etcd.leader", "etcd.alarms", "etcd.space", "etcd.lag", "etcd.tolerance", "etcd.versions", "etcd.service"],
        &["etcd_members of a control plane"],
        "the others' lists are the same, or `etcd.members.consistent` says so",
    ),
    (
        &["etcd.members.", "etcd.service"],
        &["etcd_status of a control plane"],
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
    (&["etcd.service"], &["the endpoint's readyz"], "only tells a cluster that was never bootstrapped"),
    (
        &["k8s.api.servers"],
        &["contact of a control plane", "contact of a worker", "all endpoints and nodes behind them", "nodes"],
        "the server itself was asked, whatever Talos and the endpoint say",
    ),
    (&["k8s.api.servers"], &["system_leases", "api_endpoints"], "stand in for a server that is out of reach"),
    (&["k8s.api.servers"], &["the server of a control plane"], "out of reach from here, its lease is renewed"),
    (
        &["k8s.api.identity"],
        &[
            "contact of a control plane",
            "contact of a worker",
            "etcd_status of a control plane",
            "etcd_members of a control plane",
            "etcd_member_id of a control plane",
        ],
        "one common machine is enough",
    ),
    (
        &["k8s.controlplane.", "k8s.staticpods.rendered"],
        &[
            "contact of a worker",
            "services of a worker",
            "static_pods of a worker",
            "static_pod_statuses of a worker",
            "config_statuses of a worker",
            "scheduler_enabled of a worker",
            "controller_manager_enabled of a worker",
        ],
        "they run on control planes",
    ),
    (
        &["k8s.controlplane.", "k8s.staticpods.rendered"],
        &["scheduler_enabled of a control plane", "controller_manager_enabled of a control plane"],
        "the pod is there, so it is wanted",
    ),
    (
        &["k8s.controlplane."],
        &["pods", "nodes", "static_pod_statuses of a control plane"],
        "mirror pod and status vouch for each other",
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
    (&["k8s.api.certificates"], &["the server of a control plane"], "out of reach from here, its lease is renewed"),
    (&["k8s.staticpods.rendered"], &["services of a control plane"], "only explains"),
    (&["k8s.staticpods.running"], &["services of a worker"], "the kubelet's health is judged by `talos.nodes.kubelet`"),
    (&["k8s.staticpods.running"], &["pods"], "mirror pods count only without Talos, and for static pods of workers"),
    (
        &["k8s.staticpods.running"],
        &["empty static_pods of a worker", "empty static_pod_statuses of a worker"],
        "the fixture's worker has none",
    ),
    (
        &["k8s.kube-proxy", "k8s.dns", "k8s.cni"],
        &[
            "contact of a control plane",
            "contact of a worker",
            "bootstrap_manifests of a control plane",
            "bootstrap_manifests of a worker",
            "deployments",
            "pods",
            "node_leases",
        ],
        "tell what is wanted and why it is missing; the DaemonSet's status and the endpoints are the evidence",
    ),
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
    (&["k8s.nodes."], &["contact of a control plane", "contact of a worker"], "Kubernetes' own opinion"),
    (
        &[
            "k8s.controlplane.controller-manager",
            "k8s.controlplane.scheduler",
            "k8s.controlplane.versions",
            "k8s.staticpods.running",
        ],
        &["system_leases"],
        "shows, where Talos is not asked, that the component runs elsewhere",
    ),
    (
        &["k8s.controlplane.apiserver", "k8s.controlplane.controller-manager", "k8s.controlplane.scheduler"],
        &["node_leases"],
        "vouch for the age of mirror pods where Talos is not asked",
    ),
    (
        &["k8s.staticpods.running"],
        &["node_leases", "nodes", "empty nodes"],
        "vouch for the age of mirror pods where Talos is not asked",
    ),
];

/// Facts without which the whole cluster may be called healthy.
const HARMLESS: &[(&[&str], &str)] = &[
    (&["an endpoint"], "a warning"),
    (&["empty discovery"], "Kubernetes and etcd name the same nodes"),
    (&["machine_type of a control plane", "machine_type of a worker"], "discovery tells the role as well"),
    (&["adjtime of a control plane", "adjtime of a worker"], "the node's lease tells the same"),
    (&["mounts of a control plane", "mounts of a worker"], "what they tell only warns"),
    (
        &["refused diagnostics of a control plane", "refused diagnostics of a worker"],
        "what they tell only warns, and not everybody may read them",
    ),
    (&["empty kube_prism of a control plane", "empty kube_prism of a worker"], "KubePrism is switched off"),
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
            "deployments",
            "pods",
            "api_endpoints",
            "system_leases",
        ],
        "what they would tell was seen elsewhere",
    ),
    (
        &[
            "scheduler_enabled of a worker",
            "controller_manager_enabled of a worker",
            "bootstrap_manifests of a worker",
            "config_statuses of a worker",
            "empty static_pods of a worker",
            "empty static_pod_statuses of a worker",
        ],
        "a worker has none",
    ),
    (&["refused the server's check"], "a second opinion that only administrators get"),
    (&["the server of a control plane"], "out of reach from here, its lease is renewed; anything else counts"),
];

fn is_named(facts: &[&str], removal: &Removal, kind: Option<GapKind>) -> bool {
    let is_it = |fact: &&str| match fact.split_once(' ') {
        Some(("empty", fact)) => kind.is_none() && fact == removal.name,
        Some(("refused", fact)) => kind == Some(GapKind::Forbidden) && fact == removal.name,
        _ => **fact == removal.name,
    };
    facts.iter().any(is_it)
}

fn every_removal() -> impl Iterator<Item = (Removal, Option<GapKind>, Snapshot)> {
    let kinds = || GAPS.map(Some).into_iter().chain([None]);
    kinds().flat_map(|kind| removals().into_iter().map(move |removal| (removal, kind))).map(|(removal, kind)| {
        let mut snapshot = healthy();
        (removal.apply)(&mut snapshot, kind);
        (removal, kind, snapshot)
    })
}

#[test]
fn the_fixture_is_healthy() {
    for check in ALL {
        assert_eq!(judged(check, &healthy()).status(), Status::Pass, "{}", check.id);
    }
}

#[test]
fn a_check_that_lost_a_fact_does_not_pass() {
    let mut holes = BTreeSet::new();
    for (removal, kind, snapshot) in every_removal() {
        for check in ALL.iter().filter(|check| check.facts.contains(&removal.fact)) {
            let excepted = EXCEPTIONS.iter().any(|(checks, facts, _)| {
                checks.iter().any(|begin| check.id.starts_with(begin)) && is_named(facts, &removal, kind)
            });
            if !excepted && judged(check, &snapshot).status().is_fine() {
                holes.insert(format!("{} without {} ({kind:?})", check.id, removal.name));
            }
        }
    }
    assert!(holes.is_empty(), "{holes:#?}");
}

#[test]
fn a_cluster_that_lost_a_fact_is_not_healthy() {
    let mut holes = BTreeSet::new();
    for (removal, kind, snapshot) in every_removal() {
        let harmless = HARMLESS.iter().any(|(facts, _)| is_named(facts, &removal, kind));
        if !harmless && overall(&snapshot).is_fine() {
            holes.insert(format!("{} ({kind:?})", removal.name));
        }
    }
    assert!(holes.is_empty(), "{holes:#?}");
}

/// What the exceptions above must not cover.
#[test]
fn the_heart_of_a_check_has_no_exception() {
    let losses: [(&str, Loss); 7] = [
        ("talos.endpoints", |snapshot, kind| {
            snapshot.talos_mut().endpoints.iter_mut().for_each(|endpoint| endpoint.version = gap(kind));
        }),
        ("talos.nodes.booted", |snapshot, kind| snapshot.talos_of("w-1").machine_status = gap(kind)),
        ("talos.time", |snapshot, kind| snapshot.talos_of("w-1").time_status = gap(kind)),
        ("talos.nodes.services", |snapshot, kind| snapshot.talos_of("w-1").services = gap(kind)),
        ("etcd.members.nodes", |snapshot, kind| {
            snapshot.talos_of("cp-2").etcd_status = gap(kind);
            snapshot.talos_of("cp-2").etcd_member_id = gap(kind);
        }),
        ("k8s.controlplane.scheduler", |snapshot, kind| {
            snapshot.talos_of("cp-2").static_pod_statuses = gap(kind);
            snapshot.kube().pods = gap(kind);
        }),
        ("k8s.api.servers", |snapshot, kind| {
            snapshot.kube().servers.insert("cp-2".to_owned(), gap(kind));
            snapshot.kube().system_leases = gap(kind);
            snapshot.kube().api_endpoints = gap(kind);
        }),
    ];
    for (id, lose) in losses {
        for kind in GAPS {
            let mut snapshot = healthy();
            lose(&mut snapshot, kind);
            let status = judged(super::find(id).unwrap(), &snapshot).status();
            assert!(!status.is_fine(), "{id} {kind:?}: {status:?}");
        }
    }
}

/// Things that are seen to be wrong with the node at this place of [`NODES`] (or, of these, with the cluster).
const FAILURES: [fn(&mut Snapshot, usize); 18] = [
    |snapshot, node| snapshot.power_off(NODES[node]),
    |snapshot, node| broken_service(snapshot, node, "kubelet"),
    |snapshot, node| broken_service(snapshot, node, "containerd"),
    |snapshot, node| broken_service(snapshot, node % 3, "etcd"),
    |snapshot, node| {
        if let Ok(Some(status)) = &mut snapshot.nodes[node].talos.machine_status {
            "booting".clone_into(&mut status.stage);
        }
    },
    |snapshot, node| {
        if let Ok(Some(status)) = &mut snapshot.nodes[node].talos.time_status {
            status.synced = false;
        }
    },
    |snapshot, node| {
        if let Ok(Some(status)) = &mut snapshot.nodes[node].talos.network_status {
            status.connectivity_ready = false;
        }
    },
    |snapshot, node| snapshot.nodes[node].talos.memory = Ok(1 << 20),
    |snapshot, node| {
        for volume in snapshot.nodes[node].talos.volumes.iter_mut().flatten() {
            "failed".clone_into(&mut volume.phase);
        }
    },
    |snapshot, node| {
        if let Ok(alarms) = &mut snapshot.nodes[node % 3].talos.etcd_alarms {
            alarms.push(EtcdAlarm { member_id: 7, kind: AlarmKind::NoSpace });
        }
    },
    |snapshot, node| {
        if let Ok(status) = &mut snapshot.nodes[node % 3].talos.etcd_status {
            status.leader = 0;
        }
    },
    |snapshot, node| {
        if let Ok(contact) = &mut snapshot.nodes[node].talos.contact {
            contact.answered_by_other = Some("somebody".to_owned());
        }
    },
    |snapshot, node| {
        let name = CONTROL_PLANES[node % 3].to_owned();
        snapshot.kube().servers.insert(name, gap(GapKind::TimedOut));
    },
    |snapshot, _| snapshot.kube().endpoint = gap(GapKind::ConnectionRefused),
    |snapshot, node| {
        for object in snapshot.kube().nodes.iter_mut().flatten().filter(|object| object.name == NODES[node]) {
            object.conditions.retain(|condition| condition.kind != "Ready");
        }
    },
    |snapshot, node| {
        if let Ok(statuses) = &mut snapshot.nodes[node % 3].talos.static_pod_statuses {
            for status in statuses.iter_mut() {
                status.state.ready = None;
            }
        }
    },
    |snapshot, _| snapshot.kube().dns_endpoints.iter_mut().for_each(Vec::clear),
    |snapshot, _| snapshot.kube().daemon_sets.iter_mut().flatten().for_each(|set| set.available = 0),
];

fn broken_service(snapshot: &mut Snapshot, node: usize, id: &str) {
    for service in snapshot.nodes[node].talos.services.iter_mut().flatten().filter(|service| service.id == id) {
        (service.state, service.healthy) = ("Failed".to_owned(), Some(false));
    }
}

/// Everything that is said, without order.
fn everything(snapshot: &Snapshot) -> BTreeSet<String> {
    let of = |check: &&'static Check| {
        let id = check.id;
        judged(check, snapshot).findings.into_iter().map(move |finding| {
            let said = match &finding.outcome {
                Outcome::Problem(problem) => {
                    format!("{} {:?} {}", problem.reason.code(), problem.explained_by, problem.waiting_helps)
                }
                Outcome::Blocked(by) => (*by).to_owned(),
                _ => String::new(),
            };
            format!("{id} {} {} {said}", finding.target, finding.outcome.status().name())
        })
    };
    ALL.iter().flat_map(of).collect()
}

proptest! {
    #[test]
    fn one_more_failure_never_helps(
        broken in prop::collection::vec((0..FAILURES.len(), 0..NODES.len()), 1..4),
        more in (0..FAILURES.len(), 0..NODES.len()),
    ) {
        let mut snapshot = healthy();
        for (failure, node) in broken {
            FAILURES[failure](&mut snapshot, node);
        }
        let before = overall(&snapshot);
        prop_assert_eq!(before, Status::Fail);
        FAILURES[more.0](&mut snapshot, more.1);
        prop_assert_eq!(overall(&snapshot), Status::Fail);
    }

    #[test]
    fn lost_facts_never_heal_a_failure(
        broken in (0..FAILURES.len(), 0..NODES.len()),
        lost in prop::collection::vec((any::<prop::sample::Index>(), prop::option::of(0..GAPS.len())), 1..4),
    ) {
        let mut snapshot = healthy();
        FAILURES[broken.0](&mut snapshot, broken.1);
        let removals: Vec<_> = removals().into_iter().filter(|removal| removal.name != "every node").collect();
        for (index, kind) in lost {
            let removal = index.get(&removals);
            // What is cleared away altogether may have been the failure; a gap says that it is not known. Where others may
            // vouch for a fact, its loss can be the loss of the failure.
            let kind = Some(kind.map_or(GapKind::TimedOut, |kind| GAPS[kind]));
            if !HARMLESS.iter().any(|(facts, _)| is_named(facts, removal, kind)) {
                (removal.apply)(&mut snapshot, kind);
            }
        }
        prop_assert!(!overall(&snapshot).is_fine());
    }

    #[test]
    fn order_means_nothing(
        nodes in Just([0_usize, 1, 2, 3]).prop_shuffle(),
        turn in 0..24_usize,
        broken in prop::collection::vec((0..FAILURES.len(), 0..NODES.len()), 0..3),
    ) {
        let mut snapshot = healthy();
        for (failure, node) in broken {
            FAILURES[failure](&mut snapshot, node);
        }
        let mut turned = snapshot.clone();
        turned.nodes = nodes.iter().map(|&index| snapshot.nodes[index].clone()).collect();
        for talos in turned.nodes.iter_mut().map(|node| &mut node.talos) {
            rotate(&mut talos.etcd_members, turn);
            rotate(&mut talos.services, turn);
            rotate(&mut talos.volumes, turn);
            rotate(&mut talos.mounts, turn);
            rotate(&mut talos.static_pods, turn);
            rotate(&mut talos.static_pod_statuses, turn);
        }
        rotate(&mut turned.kube().nodes, turn);
        rotate(&mut turned.kube().pods, turn);
        rotate(&mut turned.kube().daemon_sets, turn);
        rotate(&mut turned.kube().dns_endpoints, turn);
        rotate(&mut turned.kube().api_endpoints, turn);
        turned.talos_mut().endpoints.rotate_left(turn % 3);
        prop_assert_eq!(everything(&turned), everything(&snapshot));
    }
}

fn rotate<T>(list: &mut Observed<Vec<T>>, turn: usize) {
    if let Ok(list) = list
        && !list.is_empty()
    {
        let turn = turn % list.len();
        list.rotate_left(turn);
    }
}
