//! Containers that crash, restart or are not ready, and the messages about them.

use std::time::Duration;

use super::pods::status_of;
use super::{judge, said, status};
use crate::model::Status;
use crate::snapshot::{ContainerState, GapKind, PodState, Snapshot};
use crate::testing::fixture::{self, ago, healthy};

/// Returns the reason and the message for a scheduler in this state.
fn trouble(state: PodState) -> (&'static str, String) {
    let mut snapshot = healthy();
    *status_of(&mut snapshot, "cp-3", "kube-scheduler-cp-3") = state;
    let verdict = judge(&snapshot, "k8s.controlplane.scheduler");
    let (_, problem) = verdict.problems().next().unwrap();
    (problem.reason.code(), problem.observed.clone())
}

fn container(ready: bool, exit_code: Option<i32>, restarts: u32, running: bool) -> ContainerState {
    let finished = exit_code.map(|_| ago(30));
    ContainerState { name: "it".to_owned(), ready, exit_code, finished, restarts, running, ..ContainerState::default() }
}

fn pod_of(containers: Vec<ContainerState>) -> PodState {
    PodState { phase: "Running".to_owned(), ready: Some(false), containers, message: String::new() }
}

/// A container that failed and was restarted is crash-looping, unless it is running for the first time since.
#[test]
fn crash_looping_is_told_from_a_single_crash() {
    let (crashing, not_ready) = ("crash-looping", "component-not-ready");
    for (ready, exit_code, restarts, running, expected) in [
        (false, Some(1), 2, true, crashing),
        (false, Some(1), 2, false, crashing),
        (false, Some(1), 1, false, crashing),
        (false, Some(1), 1, true, not_ready),
        (false, Some(1), 0, false, not_ready),
        (false, Some(0), 5, false, not_ready),
        (false, None, 5, false, not_ready),
        (true, Some(1), 5, false, not_ready),
    ] {
        let state = pod_of(vec![container(ready, exit_code, restarts, running)]);
        assert_eq!(trouble(state).0, expected, "{ready} {exit_code:?} {restarts} {running}");
    }
    let waiting = |reason: &str| {
        pod_of(vec![ContainerState { waiting_reason: Some(reason.to_owned()), ..container(false, None, 0, false) }])
    };
    assert_eq!(trouble(waiting("CrashLoopBackOff")).0, crashing);
    assert_eq!(trouble(waiting("ImagePullBackOff")).0, not_ready);
    // A scheduler that crashed at boot, was restarted twice and is frozen now.
    let crashed = |finished| pod_of(vec![ContainerState { finished, ..container(false, Some(1), 2, true) }]);
    for (finished, expected) in [(Some(ago(600)), crashing), (Some(ago(601)), not_ready), (None, not_ready)] {
        assert_eq!(trouble(crashed(finished)).0, expected, "{finished:?}");
    }
}

#[test]
fn a_pod_that_is_not_ready_says_what_it_does() {
    let words = |state: PodState| trouble(state).1;
    let well = ContainerState { name: "beside".to_owned(), ..container(true, None, 3, true) };
    assert_eq!(words(pod_of(vec![well, container(false, None, 0, true)])), "container it: running, not ready");
    assert_eq!(words(pod_of(vec![container(false, None, 0, false)])), "container it: not running");
    let killed =
        ContainerState { termination_reason: Some("OOMKilled".to_owned()), ..container(false, Some(137), 1, false) };
    assert_eq!(words(pod_of(vec![killed])), "container it: OOMKilled, exit code 137, 1 restart");
    let pulled = ContainerState {
        waiting_reason: Some("ErrImagePull".to_owned()),
        waiting_message: Some("not found".to_owned()),
        ..container(false, None, 0, false)
    };
    let with_message = PodState { message: "on its own".to_owned(), ..pod_of(vec![pulled]) };
    assert_eq!(words(with_message), "container it: ErrImagePull, not found, on its own");
    assert_eq!(words(PodState::default()), "no phase, no Ready condition");
    let evicted = PodState { phase: "Failed".to_owned(), message: "evicted".to_owned(), ..pod_of(Vec::new()) };
    assert_eq!(words(evicted), "Failed, not ready, evicted");
}

/// Sets the total number of restarts that Talos and Kubernetes report.
fn restarts(snapshot: &mut Snapshot, of: &str, times: u32) {
    let told = snapshot.nodes.iter_mut().flat_map(|node| &mut node.talos.static_pod_statuses).flatten();
    let told = told.map(|it| (&it.name, &mut it.state));
    let kubernetes = snapshot.kubernetes.as_mut().unwrap();
    let shown = kubernetes.pods.iter_mut().flatten().map(|it| (&it.name, &mut it.state));
    for (_, state) in told.chain(shown).filter(|(name, _)| *name == of) {
        state.containers[0].restarts = times;
    }
}

#[test]
fn a_restart_between_two_rounds_is_a_warning() {
    let (scheduler, pods) = ("k8s.controlplane.scheduler", "k8s.staticpods.running");
    let mut before = healthy();
    restarts(&mut before, "kube-scheduler-cp-3", 7);
    let after = |before: &Snapshot, times: u32| {
        let mut snapshot = healthy();
        restarts(&mut snapshot, "kube-scheduler-cp-3", times);
        snapshot.memory = before.memory.after(before, Duration::from_secs(5));
        snapshot
    };
    assert_eq!(status(&before, scheduler), Status::Pass, "nobody knows since when");
    let grown = after(&before, 9);
    assert_eq!(said(&grown, scheduler), ["warn restarting cp-3"]);
    assert_eq!(said(&grown, pods), ["warn restarting kube-scheduler-cp-3 < k8s.controlplane.scheduler"]);
    assert_eq!(
        judge(&grown, scheduler).problems().next().unwrap().1.observed,
        "2 restarts since the previous round, 9 in total"
    );
    let mut behind = after(&before, 9);
    status_of(&mut behind, "cp-3", "kube-scheduler-cp-3").containers[0].restarts = 7;
    assert_eq!(said(&behind, scheduler), ["warn restarting cp-3"], "the mirror pod tells");
    let same = after(&grown, 9);
    assert_eq!((status(&same, scheduler), status(&same, pods)), (Status::Pass, Status::Pass));
    // A new pod with the same name, which is then restarted itself.
    let anew = after(&same, 0);
    assert_eq!(status(&anew, scheduler), Status::Pass);
    assert_eq!(status(&after(&anew, 1), scheduler), Status::Warn);
    // A round that did not observe the pod does not lose its count.
    let mut unseen = healthy();
    unseen.talos_of("cp-3").static_pod_statuses = fixture::gap(GapKind::TimedOut);
    unseen.kube().pods = fixture::gap(GapKind::TimedOut);
    unseen.memory = same.memory.after(&same, Duration::from_secs(5));
    assert_eq!(status(&after(&unseen, 10), scheduler), Status::Warn);
}

/// Static pods have no readiness probe, so they are ready between two restarts.
#[test]
fn a_restart_a_moment_ago_is_a_warning_and_what_a_reboot_ended_is_none() {
    let pods = "k8s.staticpods.running";
    let of = |ready_since: u64, ended: u64, exit_code: i32, restarts: u32| {
        let mut snapshot = healthy();
        let conditions = &mut snapshot.kube_node_mut("cp-2").conditions;
        conditions.iter_mut().filter(|it| it.kind == "Ready").for_each(|it| it.since = Some(ago(ready_since)));
        let pod = snapshot.kube().pods.iter_mut().flatten().find(|pod| pod.name == "kube-apiserver-cp-2").unwrap();
        let container = &mut pod.state.containers[0];
        (container.exit_code, container.finished, container.restarts) = (Some(exit_code), Some(ago(ended)), restarts);
        said(&snapshot, pods)
    };
    let warned = ["warn restarting kube-apiserver-cp-2 < k8s.controlplane.apiserver"];
    assert_eq!(of(3600, 40, 137, 57), warned);
    assert_eq!(of(3600, 40, 0, 57), warned, "a liveness probe ends it, and it exits with 0");
    assert_eq!(of(3600, 40, 0, 1), [""; 0], "it was asked to end");
    assert_eq!(of(3600, 40, 137, 1), [""; 0], "once");
    assert_eq!(of(3600, 900, 137, 57), [""; 0], "long ago");
    assert_eq!(of(30, 40, 137, 57), [""; 0], "with its machine");
}

#[test]
fn pods_of_controllers_restart_too() {
    for (id, pod) in [
        ("k8s.kube-proxy", "kube-proxy-abcd3"),
        ("k8s.cni", "kube-flannel-abcd0"),
        ("k8s.dns", "coredns-5d8c4cc7b-aaaaa"),
    ] {
        let mut snapshot = healthy();
        snapshot.memory = snapshot.memory.after(&snapshot, Duration::from_secs(5));
        restarts(&mut snapshot, pod, 1);
        assert_eq!(said(&snapshot, id), [format!("warn restarting {pod}")]);
    }
    let mut leaving = healthy();
    leaving.memory = leaving.memory.after(&leaving, Duration::from_secs(5));
    restarts(&mut leaving, "kube-proxy-abcd3", 1);
    leaving.node_mut("w-1").leaving = true;
    assert_eq!(status(&leaving, "k8s.kube-proxy"), Status::Pass);
}
