//! One more failure never improves the result.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::Index;

use crate::model::{Status, Target};
use crate::snapshot::{
    AlarmKind, ContainerState, EtcdAlarm, EtcdStatus, GapKind, Kubernetes, Node, Pod, PodState, Readyz, Service,
    Snapshot, System, Taint,
};
use crate::testing::fixture::{GAPS, NODES, condition, gap, healthy, taint};
use crate::testing::laws::exceptions::HARMLESS;
use crate::testing::laws::removal::{is_named, removals};
use crate::testing::laws::worlds::{any_world, full_world};
use crate::testing::laws::{config, diagnosed, overall, verdicts};
use crate::text::host;

/// Breaks something on this machine, or in the cluster if the failure does not concern a machine.
pub(super) type Failure = fn(&mut Snapshot, &str);

/// Returns the fixture with each failure on each node.
pub(super) fn failing() -> impl Iterator<Item = (String, Snapshot)> {
    FAILURES.iter().enumerate().flat_map(|(number, fail)| {
        NODES.iter().map(move |node| {
            let mut snapshot = healthy();
            fail(&mut snapshot, node);
            (format!("failure {number} on {node}"), snapshot)
        })
    })
}

/// Failures that are visible to every side that can show them.
pub(super) const FAILURES: &[Failure] = &[
    |snapshot, node| snapshot.power_off(node),
    |snapshot, node| broken_service(snapshot, node, "kubelet"),
    |snapshot, node| broken_service(snapshot, node, "containerd"),
    |snapshot, node| broken_service(snapshot, node, "etcd"),
    |snapshot, node| {
        if let Ok(Some(status)) = &mut snapshot.node_mut(node).talos.machine_status {
            "booting".clone_into(&mut status.stage);
        }
    },
    |snapshot, node| {
        if let Ok(Some(status)) = &mut snapshot.node_mut(node).talos.time_status {
            (status.synced, status.sync_disabled) = (false, false);
        }
    },
    |snapshot, node| {
        if let Ok(Some(status)) = &mut snapshot.node_mut(node).talos.network_status {
            status.connectivity_ready = false;
        }
    },
    |snapshot, node| {
        if let Ok(memory) = &mut snapshot.node_mut(node).talos.memory {
            *memory = 1 << 20;
        }
    },
    |snapshot, node| {
        for volume in snapshot.node_mut(node).talos.volumes.iter_mut().flatten() {
            "failed".clone_into(&mut volume.phase);
        }
    },
    |snapshot, node| {
        if let Ok(alarms) = &mut snapshot.node_mut(node).talos.etcd_alarms {
            alarms.push(EtcdAlarm { member_id: 7, kind: AlarmKind::NoSpace });
        }
    },
    |snapshot, node| {
        if let Some(status) = etcd_status(snapshot, node) {
            status.leader = 0;
        }
    },
    |snapshot, node| {
        if let Some(status) = etcd_status(snapshot, node) {
            status.db_size = u64::MAX / 128;
        }
    },
    |snapshot, node| {
        if let Ok(contact) = &mut snapshot.node_mut(node).talos.contact {
            contact.answered_by_other = Some("somebody".to_owned());
        }
    },
    |snapshot, node| {
        if let Some(server) = servers(snapshot).and_then(|kubernetes| kubernetes.servers.get_mut(node)) {
            *server = gap(GapKind::TimedOut);
        }
    },
    |snapshot, node| {
        if let Some(Ok(readyz)) = servers(snapshot).and_then(|kubernetes| kubernetes.servers.get_mut(node)) {
            let failed = vec!["poststarthook/rbac/bootstrap-roles".to_owned()];
            *readyz = Readyz { status: 500, failed, ..readyz.clone() };
        }
    },
    |snapshot, _| {
        if let Some(kubernetes) = servers(snapshot) {
            kubernetes.endpoint = gap(GapKind::ConnectionRefused);
        }
    },
    |snapshot, node| {
        for object in kube_nodes(snapshot).filter(|object| object.name == node) {
            object.conditions.retain(|condition| condition.kind != "Ready");
        }
    },
    |snapshot, node| {
        for object in kube_nodes(snapshot).filter(|object| object.name == node) {
            let message = "container runtime network not ready: cni plugin not initialized";
            object.conditions.retain(|condition| condition.kind != "Ready");
            object.conditions.push(condition("Ready", "False", "KubeletNotReady", message));
        }
    },
    |snapshot, node| {
        for status in snapshot.node_mut(node).talos.static_pod_statuses.iter_mut().flatten() {
            crash(&mut status.state);
        }
        for pod in servers(snapshot).into_iter().flat_map(|kubernetes| kubernetes.pods.iter_mut().flatten()) {
            if pod.mirror && pod.node.as_deref() == Some(node) {
                crash(&mut pod.state);
            }
        }
    },
    |snapshot, _| {
        if let Some(kubernetes) = servers(snapshot) {
            kubernetes.dns_endpoints.iter_mut().for_each(Vec::clear);
        }
    },
    |snapshot, _| {
        if let Some(kubernetes) = servers(snapshot) {
            kubernetes.daemon_sets.iter_mut().flatten().for_each(|set| set.available = 0);
        }
    },
    // A second condition before or after the good one.
    |snapshot, node| {
        for object in kube_nodes(snapshot).filter(|object| object.name == node) {
            object.conditions.insert(0, condition("Ready", "False", "KubeletNotReady", ""));
        }
    },
    |snapshot, node| {
        for object in kube_nodes(snapshot).filter(|object| object.name == node) {
            object.conditions.push(condition("Ready", "Unknown", "NodeStatusUnknown", ""));
        }
    },
    |snapshot, node| {
        if let Ok(services) = &mut snapshot.node_mut(node).talos.services {
            let kubelet = services.iter().find(|it| it.id == "kubelet").cloned();
            services.extend(kubelet.map(|it| Service { healthy: Some(false), ..it }));
        }
    },
    // The reason for the taint is no longer reported.
    |snapshot, _| {
        for object in kube_nodes(snapshot).filter(|object| object.system() == System::Talos) {
            let is_left = |taint: &Taint| taint.key.starts_with("node-role.kubernetes.io/");
            object.taints.retain(is_left);
            object.taints.push(taint("node.kubernetes.io/network-unavailable"));
        }
    },
    // The DaemonSets still count the missing pods.
    |snapshot, node| {
        let is_needed =
            |pod: &Pod| pod.labels.get("k8s-app").is_some_and(|app| app == "kube-proxy" || app == "flannel");
        if let Some(Ok(pods)) = servers(snapshot).map(|kubernetes| &mut kubernetes.pods) {
            pods.retain(|pod| !is_needed(pod) || pod.node.as_deref() != Some(node));
        }
    },
    |snapshot, _| {
        if let Some(Ok(pods)) = servers(snapshot).map(|kubernetes| &mut kubernetes.pods) {
            pods.retain(|pod| !pod.name.starts_with("coredns-"));
        }
    },
    |snapshot, node| {
        let Some(kubernetes) = servers(snapshot) else { return };
        for leases in [&mut kubernetes.node_leases, &mut kubernetes.system_leases].into_iter().flatten() {
            leases.by_name.remove(node);
            leases.by_name.remove("kube-scheduler");
        }
    },
];

fn servers(snapshot: &mut Snapshot) -> Option<&mut Kubernetes> {
    snapshot.kubernetes.as_mut()
}

fn kube_nodes(snapshot: &mut Snapshot) -> impl Iterator<Item = &mut crate::snapshot::KubeNode> {
    snapshot.kubernetes.iter_mut().flat_map(|kubernetes| kubernetes.nodes.iter_mut().flatten())
}

/// Returns the status of this control plane's etcd, or of an endpoint if etcd runs elsewhere.
fn etcd_status<'a>(snapshot: &'a mut Snapshot, node: &str) -> Option<&'a mut EtcdStatus> {
    match &mut snapshot.external_etcd {
        Some(endpoints) => endpoints.first_mut()?.status.as_mut().ok(),
        None => snapshot.nodes.iter_mut().find(|it| it.name == node)?.talos.etcd_status.as_mut().ok(),
    }
}

pub(super) fn crash(state: &mut PodState) {
    state.ready = Some(false);
    for container in &mut state.containers {
        *container = ContainerState {
            ready: false,
            running: false,
            restarts: 9,
            exit_code: Some(1),
            waiting_reason: Some("CrashLoopBackOff".to_owned()),
            ..container.clone()
        };
    }
}

fn broken_service(snapshot: &mut Snapshot, node: &str, id: &str) {
    for service in snapshot.node_mut(node).talos.services.iter_mut().flatten().filter(|service| service.id == id) {
        (service.state, service.healthy) = ("Failed".to_owned(), Some(false));
    }
}

/// Generates a failure on a machine of the world.
pub(super) fn failure() -> impl Strategy<Value = (usize, Index)> {
    (0..FAILURES.len(), any::<Index>())
}

pub(super) fn fail(snapshot: &mut Snapshot, (failure, node): (usize, Index)) {
    let names: Vec<String> = snapshot.nodes.iter().map(|node| node.name.clone()).collect();
    FAILURES[failure](snapshot, node.get(&names).as_str());
}

/// Returns whether a source still reports on the cluster: a Talos endpoint that forwards, or else Kubernetes.
pub(super) fn is_in_sight(snapshot: &Snapshot) -> bool {
    let talos = || snapshot.talos.iter().flat_map(|talos| &talos.endpoints);
    if snapshot.talos.is_some() {
        return talos().any(|endpoint| endpoint.version.is_ok() && !is_dead(snapshot, host(&endpoint.address)));
    }
    snapshot.kubernetes.as_ref().is_some_and(|kubernetes| kubernetes.endpoint.is_ok())
}

fn is_dead(snapshot: &Snapshot, address: &str) -> bool {
    snapshot.nodes.iter().find(|node| node.address == address).is_some_and(|node| !answers(node))
}

/// Returns whether the node itself answers.
fn answers(node: &Node) -> bool {
    node.talos.contact.as_ref().is_ok_and(|contact| contact.answered_by_other.is_none())
}

/// Each failure makes the fixture fail.
#[test]
fn a_failure_fails() {
    for (number, failure) in FAILURES.iter().enumerate() {
        let mut snapshot = healthy();
        failure(&mut snapshot, "cp-2");
        assert_eq!(overall(&snapshot), Status::Fail, "{number}");
    }
}

proptest! {
    #![proptest_config(config(128))]

    #[test]
    fn one_more_failure_never_helps(
        shape in any_world(),
        broken in prop::collection::vec(failure(), 0..4),
        more in failure(),
    ) {
        let mut snapshot = shape.world();
        for failure in broken {
            fail(&mut snapshot, failure);
        }
        let before = overall(&snapshot);
        fail(&mut snapshot, more);
        let after = overall(&snapshot);
        // If nothing can be seen any more, the cluster is neither known to fail nor known to be healthy.
        if is_in_sight(&snapshot) {
            prop_assert!(after >= before, "{:?}, then {:?}", before, after);
        } else {
            prop_assert!(after >= before.min(Status::Blocked), "{:?}, then {:?}", before, after);
        }
    }

    /// The first cause stays, or a new one explains more.
    #[test]
    fn one_more_failure_hides_no_cause(
        shape in full_world(),
        broken in prop::collection::vec(failure(), 1..4),
        more in failure(),
    ) {
        let mut snapshot = shape.world();
        for failure in broken {
            fail(&mut snapshot, failure);
        }
        let before = diagnosed(&snapshot);
        fail(&mut snapshot, more);
        let (verdicts, after) = (verdicts(&snapshot), diagnosed(&snapshot));
        let Some(first) = before.first() else { return Ok(()) };
        let known: BTreeSet<_> = before.iter().map(|it| it.id).collect();
        let stays = after.iter().any(|it| it.id == first.id || !known.contains(it.id));
        // A judge may now know a reason for the sign of the cause.
        let is_symptom = verdicts.iter().any(|(check, verdict)| {
            let was_sign = |target: &Target| first.explains.iter().any(|it| it.check == check.id && it.target == *target);
            verdict.problems().any(|(target, problem)| problem.explained_by.is_some() && was_sign(target))
        });
        // Nothing is reported about a machine if another one answers in its place.
        let is_hidden = snapshot.nodes.iter().any(|node| node.talos.contact.is_ok() && !answers(node));
        let may_be_lost = is_hidden || !is_in_sight(&snapshot);
        prop_assert!(stays || is_symptom || may_be_lost, "{:#?}, then {:#?}", before, after);
    }

    #[test]
    fn lost_facts_never_heal_a_failure(
        broken in (0..FAILURES.len(), 0..3_usize),
        lost in prop::collection::vec((any::<Index>(), prop::option::of(0..GAPS.len())), 1..4),
    ) {
        let mut snapshot = healthy();
        FAILURES[broken.0](&mut snapshot, ["cp-1", "cp-2", "cp-3"][broken.1]);
        let removals: Vec<_> =
            removals(&healthy()).into_iter().filter(|removal| removal.name != "every node").collect();
        for (index, kind) in lost {
            let removal = index.get(&removals);
            // A fact that is removed altogether may have been the failure; a gap shows that the fact is unknown. If other facts compensate
            // for a fact, its loss can remove the failure.
            let kind = Some(kind.map_or(GapKind::TimedOut, |kind| GAPS[kind]));
            if !HARMLESS.iter().any(|(facts, _)| is_named(facts, removal, kind)) {
                (removal.apply)(&mut snapshot, kind);
            }
        }
        prop_assert!(!overall(&snapshot).is_fine());
    }
}
