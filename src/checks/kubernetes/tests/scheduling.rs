//! `k8s.nodes.schedulable`: the nodes that accept new pods.

use super::nodes::set_ready;
use crate::checks::kubernetes::tests::{judge, not_ready, roots, said, status};
use crate::model::{Hint, Reason, Status};
use crate::snapshot::{Allowance, KubeNode, Snapshot};
use crate::testing::fixture::{self, Shape, Sides, ago, condition, healthy, kube_node, taint};

#[test]
fn cordons_and_taints_warn() {
    let id = "k8s.nodes.schedulable";
    let mut snapshot = healthy();
    snapshot.kube_node_mut("cp-1").unschedulable = true;
    snapshot.kube_node_mut("cp-2").unschedulable = true;
    snapshot.kube_node_mut("cp-2").cordoned_by_talos = true;
    snapshot.kube_node_mut("cp-3").taints.clear();
    snapshot.kube_node_mut("w-1").taints = vec![taint("node.cloudprovider.kubernetes.io/uninitialized")];
    assert_eq!(said(&snapshot, id), ["warn cordoned cp-1", "warn cordoned-by-talos cp-2", "warn uninitialized w-1"]);
}

#[test]
fn a_cordon_older_than_the_last_boot_was_probably_left_by_an_upgrade() {
    let said = |cordoned, booted: Option<u64>| {
        let mut snapshot = healthy();
        let node = snapshot.kube_node_mut("cp-1");
        (node.unschedulable, node.cordoned_since) = (true, cordoned);
        snapshot.service_mut("cp-1", "machined").running_since = booted.map(ago);
        let verdict = judge(&snapshot, "k8s.nodes.schedulable");
        let (_, problem) = verdict.problems().next().unwrap();
        let uncordons = problem.hints.iter().any(|hint| matches!(hint, Hint::Remedy { .. }));
        (problem.observed.clone(), uncordons)
    };
    let (left, uncordons) = said(Some(ago(3600)), Some(60));
    assert!(left.ends_with("probably left by an upgrade") && uncordons, "{left}");
    let (deliberate, uncordons) = said(Some(ago(60)), Some(3600));
    assert!(deliberate.ends_with("not rebooted since") && !uncordons, "{deliberate}");
    for (unknown, uncordons) in [said(None, Some(60)), said(Some(ago(60)), None)] {
        assert!(unknown.ends_with("it may have left it") && uncordons, "{unknown}");
    }
}

/// Returns the status of a cluster of these machines in which the named nodes are closed to new pods.
fn closed(shape: &Shape, names: &[&str], close: fn(&mut KubeNode)) -> Status {
    let mut snapshot = shape.world();
    for name in names {
        close(snapshot.kube_node_mut(name));
    }
    status(&snapshot, "k8s.nodes.schedulable")
}

#[test]
fn some_node_has_to_take_workloads() {
    let cordon: fn(&mut KubeNode) = |it| it.unschedulable = true;
    let small = Shape { control_planes: 1, workers: 2, ..Shape::default() };
    assert_eq!(closed(&small, &["w-1"], cordon), Status::Warn);
    assert_eq!(closed(&small, &["w-1", "w-2"], cordon), Status::Fail);
    for sides in [Sides::NoTalos, Sides::Both] {
        assert_eq!(closed(&Shape { sides, ..small.clone() }, &["cp-1", "w-1", "w-2"], cordon), Status::Fail);
    }
    for (taint, severity) in [
        ("node.cloudprovider.kubernetes.io/uninitialized", "fail"),
        ("node.cilium.io/agent-not-ready", "fail"),
        // The taint was not removed after the node came back.
        ("node.kubernetes.io/out-of-service", "fail"),
        // The pods that tolerate the taint are unknown.
        ("example.com/gpu", "warn"),
    ] {
        let mut snapshot = Shape::default().world();
        snapshot.kube_node_mut("w-1").taints = vec![fixture::taint(taint)];
        let said = said(&snapshot, "k8s.nodes.schedulable");
        assert!(said.contains(&format!("{severity} nothing-schedulable cluster")), "{taint}: {said:?}");
        snapshot.kube_node_mut("w-1").taints[0].effect = "PreferNoSchedule".to_owned();
        assert_ne!(status(&snapshot, "k8s.nodes.schedulable"), Status::Fail, "{taint}");
    }
    // Control planes that accept workloads.
    let open = Shape { control_planes: 1, workers: 0, schedulable: true, ..Shape::default() };
    assert_eq!(closed(&open, &["cp-1"], cordon), Status::Fail);
    assert_eq!(closed(&Shape { workers: 1, ..open }, &["w-1"], cordon), Status::Warn);
}

/// The taint outlives the failure for which it was set.
#[test]
fn a_node_that_is_back_may_still_be_out_of_service() {
    let mut snapshot = Shape { workers: 2, ..Shape::default() }.world();
    snapshot.kube_node_mut("w-2").taints = vec![taint("node.kubernetes.io/out-of-service")];
    assert_eq!(said(&snapshot, "k8s.nodes.schedulable"), ["warn out-of-service w-2"]);
    snapshot.power_off("w-2");
    assert_eq!(said(&snapshot, "k8s.nodes.schedulable"), [""; 0], "as it should be");
}

/// Kubernetes' own taints do not count in addition to their condition, but count on their own once the condition is
/// over.
#[test]
fn a_taint_may_outlive_its_condition() {
    let id = "k8s.nodes.schedulable";
    let over = |workers: usize, key: &str| {
        let mut snapshot = Shape { workers, ..Shape::default() }.world();
        snapshot.kube_node_mut("w-1").taints = vec![taint(key)];
        snapshot
    };
    let set_since = |snapshot: &mut Snapshot, kind: &str, seconds: u64| {
        let node = snapshot.kube_node_mut("w-1");
        node.told = Some(ago(0));
        node.conditions.retain(|it| it.kind != "NetworkUnavailable");
        node.conditions.push(condition("NetworkUnavailable", "False", "", ""));
        node.conditions.iter_mut().filter(|it| it.kind == kind).for_each(|it| it.since = Some(ago(seconds)));
    };
    let set = |snapshot: &mut Snapshot, kind: &str, status: &str| {
        let conditions = &mut snapshot.kube_node_mut("w-1").conditions;
        conditions.retain(|it| it.kind != kind);
        conditions.push(condition(kind, status, "", ""));
    };
    for (name, kind, status) in [
        ("not-ready", "Ready", "False"),
        ("unreachable", "Ready", "Unknown"),
        ("memory-pressure", "MemoryPressure", "True"),
        ("disk-pressure", "DiskPressure", "True"),
        ("pid-pressure", "PIDPressure", "True"),
        ("network-unavailable", "NetworkUnavailable", "True"),
    ] {
        let key = format!("node.kubernetes.io/{name}");
        let mut alone = over(1, &key);
        assert_eq!(said(&alone, id), ["fail nothing-schedulable cluster", "warn stale-taint w-1"], "{name}");
        set_since(&mut alone, kind, 29);
        assert_eq!(said(&alone, id), [""; 0], "{name} goes in a moment");
        set_since(&mut alone, kind, 30);
        assert_eq!(said(&alone, id), ["fail nothing-schedulable cluster", "warn stale-taint w-1"], "{name}");
        assert_eq!(said(&over(2, &key), id), ["warn stale-taint w-1"], "{name}");
        set(&mut alone, kind, status);
        assert_eq!(said(&alone, id), [""; 0], "{name} is judged as {kind}");
        alone.kube_node_mut("w-1").taints[0].effect = "PreferNoSchedule".to_owned();
        assert_eq!(said(&alone, id), [""; 0], "{name}");
    }
    let mut cordoned = over(1, "node.kubernetes.io/unschedulable");
    assert_eq!(said(&cordoned, id), ["fail nothing-schedulable cluster", "warn stale-taint w-1"]);
    cordoned.kube_node_mut("w-1").unschedulable = true;
    assert_eq!(said(&cordoned, id), ["fail nothing-schedulable cluster", "warn cordoned w-1"]);
    // A taint of an agent closes the node until the agent removes it.
    let mut agent = over(2, "node.cilium.io/agent-not-ready");
    assert_eq!(said(&agent, id), ["warn stale-taint w-1"]);
    set_since(&mut agent, "Ready", 29);
    assert_eq!(said(&agent, id), [""; 0], "it goes in a moment");
    set(&mut agent, "Ready", "False");
    assert_eq!(said(&agent, id), [""; 0], "it is as it should be");
    assert_eq!(
        said(&over(1, "ebs.csi.aws.com/agent-not-ready"), id),
        ["fail nothing-schedulable cluster", "warn stale-taint w-1"]
    );
    // A taint with Kubernetes' prefix but without a condition.
    assert_eq!(said(&over(1, "node.kubernetes.io/dedicated"), id), ["warn nothing-schedulable cluster"]);
}

/// There has never been a worker, and required workloads tolerate the control planes' taint.
#[test]
fn control_planes_alone_may_keep_their_taint() {
    let cordon: fn(&mut KubeNode) = |it| it.unschedulable = true;
    let bare = Shape { workers: 0, ..Shape::default() };
    assert_eq!(closed(&bare, &[], cordon), Status::Pass);
    assert_eq!(closed(&bare, &["cp-1", "cp-2"], cordon), Status::Warn);
    assert_eq!(closed(&bare, &["cp-1", "cp-2", "cp-3"], cordon), Status::Fail);
    // The last worker is being removed, as by an autoscaler that needs none.
    let mut leaving = healthy();
    leaving.kube_node_mut("w-1").taints = vec![taint("ToBeDeletedByClusterAutoscaler")];
    leaving.node_mut("w-1").leaving = true;
    assert_eq!(said(&leaving, "k8s.nodes.schedulable"), ["warn node-leaving w-1", "warn nothing-schedulable cluster"]);
    // A guest runs its own pods, and accepts others if it has no taint.
    let guest = Shape { foreign: 1, ..bare };
    assert_eq!(closed(&guest, &["x-1"], |it| it.taints = vec![taint("virtual-kubelet.io/provider")]), Status::Pass);
    assert_eq!(closed(&Shape { workers: 1, ..guest.clone() }, &["w-1"], cordon), Status::Warn);
    // Nothing else takes pods while the only worker does not.
    assert_eq!(closed(&guest, &["x-1"], cordon), Status::Fail);
    let starts: fn(&mut KubeNode) = |it| it.taints = vec![taint("node.cilium.io/agent-not-ready")];
    assert_eq!(closed(&guest, &["x-1"], starts), Status::Fail);
    assert_eq!(closed(&Shape { workers: 1, ..guest.clone() }, &["x-1"], starts), Status::Pass);
    // A guest that is set apart was never a place, whatever its state.
    let set_apart: fn(&mut KubeNode) = |it| {
        it.taints = vec![taint("gpu")];
        it.unschedulable = true;
    };
    assert_eq!(closed(&guest, &["x-1"], set_apart), Status::Pass);
    let mut windows = Shape { workers: 1, ..guest }.world();
    windows.kube_node_mut("w-1").unschedulable = true;
    windows.kube_node_mut("x-1").os_image = "Windows Server 2022 Datacenter".to_owned();
    assert_eq!(status(&windows, "k8s.nodes.schedulable"), Status::Fail);
    // Without Linux workers, those with Windows take the workloads.
    let mut only = Shape { workers: 1, sides: Sides::NoTalos, ..Shape::default() }.world();
    only.kube_node_mut("w-1").os_image = "Windows Server 2022 Datacenter".to_owned();
    assert_eq!(status(&only, "k8s.nodes.schedulable"), Status::Pass);
    only.kube_node_mut("w-1").unschedulable = true;
    assert_eq!(status(&only, "k8s.nodes.schedulable"), Status::Fail);
}

/// Readiness is judged elsewhere, and so is the number of nodes that need not be ready.
#[test]
fn nodes_that_are_not_ready_are_no_place_and_no_cause() {
    let mut snapshot = Shape { workers: 2, ..Shape::default() }.world();
    for name in ["w-1", "w-2"] {
        snapshot.power_off(name);
        let taints = ["node.kubernetes.io/unreachable", "node.kubernetes.io/out-of-service"];
        snapshot.kube_node_mut(name).taints = taints.map(taint).to_vec();
    }
    assert_eq!(said(&snapshot, "k8s.nodes.schedulable"), [""; 0]);
    snapshot.kube_node_mut("w-1").unschedulable = true;
    let said = said(&snapshot, "k8s.nodes.schedulable");
    assert_eq!(said, ["fail nothing-schedulable cluster", "warn cordoned w-1"]);
    let verdict = judge(&snapshot, "k8s.nodes.schedulable");
    let (_, problem) = verdict.problems().find(|(_, problem)| problem.reason == Reason::NothingSchedulable).unwrap();
    assert_eq!(problem.observed, "w-1 is cordoned, w-2 is not ready");
}

#[test]
fn a_node_without_anything_to_give_is_no_place() {
    let id = "k8s.nodes.schedulable";
    let mut snapshot = Shape { workers: 2, ..Shape::default() }.world();
    snapshot.kube_node_mut("w-1").out_of = vec!["pods".to_owned()];
    assert_eq!(said(&snapshot, id), ["warn nothing-allocatable w-1"]);
    snapshot.kube_node_mut("w-2").out_of = vec!["cpu".to_owned(), "memory".to_owned()];
    let both = ["fail nothing-schedulable cluster", "warn nothing-allocatable w-1", "warn nothing-allocatable w-2"];
    assert_eq!(said(&snapshot, id), both);
    // Before its first report, the node is not ready.
    set_ready(&mut snapshot, "w-1", "False", "");
    assert_eq!(said(&snapshot, id), ["fail nothing-schedulable cluster", "warn nothing-allocatable w-2"]);
}

#[test]
fn a_removal_excuses_for_half_an_hour_of_the_servers_clock() {
    let leaves = |since: Option<u64>, told: Option<u64>| {
        let mut node = kube_node(3, "w-1");
        (node.leaving_since, node.told) = (since.map(ago), told.map(ago));
        node.is_leaving()
    };
    assert!(leaves(Some(1800), Some(0)));
    assert!(leaves(Some(2800), Some(1000)), "whatever the clock of the runner");
    assert!(!leaves(Some(1801), Some(0)));
    assert!(leaves(Some(0), Some(50)), "two clocks");
    assert!(!leaves(Some(0), Some(70)) && !leaves(Some(0), Some(1801)), "the mark is of the future");
    assert!(!leaves(Some(1000), None) && !leaves(None, Some(0)), "unknown");
    // During the removal there is a single warning and nothing else.
    let mut snapshot = healthy();
    set_ready(&mut snapshot, "w-1", "False", "");
    snapshot.node_mut("w-1").leaving = true;
    let last = ["warn node-leaving w-1", "warn nothing-schedulable cluster"];
    assert_eq!(said(&snapshot, "k8s.nodes.schedulable"), last, "the only worker");
    assert_eq!(
        roots(&snapshot),
        ["k8s.nodes.schedulable node-leaving w-1", "k8s.nodes.schedulable nothing-schedulable cluster"]
    );
    snapshot.node_mut("w-1").out_of_scope = true;
    assert_eq!(status(&snapshot, "k8s.nodes.schedulable"), Status::Pass);
}

#[test]
fn a_control_plane_that_is_marked_and_still_in_etcd_is_a_warning() {
    let mut snapshot = healthy();
    let node = snapshot.kube_node_mut("cp-2");
    (node.leaving_since, node.told) = (Some(ago(300)), Some(ago(0)));
    assert_eq!(roots(&snapshot), ["k8s.nodes.schedulable node-leaving cp-2"]);
    // A worker that was named is judged as usual.
    let mut worker = healthy();
    let node = worker.kube_node_mut("w-1");
    (node.leaving_since, node.told) = (Some(ago(300)), Some(ago(0)));
    assert_eq!(roots(&worker), [""; 0]);
}

/// Workers that are excused are no places for pods either.
#[test]
fn workers_that_are_not_judged_and_not_ready_leave_no_place() {
    let down = |change: fn(&mut Snapshot)| {
        let mut snapshot = Shape { workers: 2, ..Shape::default() }.world();
        for name in ["w-1", "w-2"] {
            not_ready(&mut snapshot, name);
        }
        change(&mut snapshot);
        said(&snapshot, "k8s.nodes.schedulable")
    };
    let fails = ["fail nothing-schedulable cluster"];
    assert_eq!(down(|_| {}), [""; 0], "k8s.nodes.ready reports both");
    assert_eq!(down(|it| it.node_mut("w-1").out_of_scope = true), fails);
    assert_eq!(
        down(|it| {
            it.node_mut("w-1").out_of_scope = true;
            it.asked.max_unready_workers = Allowance::Count(1);
        }),
        fails
    );
    let all = down(|it| it.asked.max_unready_workers = Allowance::Count(2));
    assert_eq!(all, ["warn nothing-schedulable cluster < k8s.nodes.ready"]);
}
