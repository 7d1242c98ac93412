//! `k8s.controlplane.leases`

use std::time::Duration;

use jiff::SignedDuration;

use crate::checks::kubernetes::tests::{judge, no, said, status};
use crate::model::{Outcome, Status};
use crate::snapshot::{GapKind, Lease, Leases, Snapshot};
use crate::testing::fixture::{CONTROL_PLANES, ago, healthy};

const ID: &str = "k8s.controlplane.leases";

fn lease<'a>(snapshot: &'a mut Snapshot, name: &str) -> &'a mut Lease {
    snapshot.kube().system_leases.as_mut().unwrap().by_name.get_mut(name).unwrap()
}

fn disable_scheduler(snapshot: &mut Snapshot, nodes: &[&str]) {
    for node in nodes {
        let talos = snapshot.talos_of(node);
        talos.scheduler_enabled = Ok(Some(false));
        talos.static_pods.as_mut().unwrap().retain(|id| id != "kube-scheduler");
        talos.static_pod_statuses.as_mut().unwrap().retain(|it| !it.name.starts_with("kube-scheduler"));
        let pods = snapshot.kube().pods.as_mut().unwrap();
        pods.retain(|pod| pod.name != format!("kube-scheduler-{node}"));
    }
}

#[test]
fn a_lease_that_nobody_renews_is_looked_at_again_and_fails() {
    let mut snapshot = healthy();
    lease(&mut snapshot, "kube-scheduler").renewed = Some(ago(15));
    assert_eq!(status(&snapshot, ID), Status::Pass);
    lease(&mut snapshot, "kube-scheduler").renewed = Some(ago(16));
    let fails = ["fail not-leading kube-system/kube-scheduler"];
    assert_eq!(said(&snapshot, ID), fails);
    assert_eq!(judge(&snapshot, ID).resample_after, Some(Duration::from_secs(11)));
    assert_eq!(said(&snapshot.clone().without_talos(), ID), fails);
    assert_eq!(said(&snapshot.clone().only(&["cp-1"]), ID), fails);
    lease(&mut snapshot, "kube-scheduler").moved_within = Some(Duration::from_secs(12));
    assert_eq!(status(&snapshot, ID), Status::Pass);
    // The lease was renewed at an unknown time during a pause of a minute, which is also possible if the holder has
    // died since.
    lease(&mut snapshot, "kube-scheduler").moved_within = Some(Duration::from_secs(60));
    assert_eq!(said(&snapshot, ID), fails);
    assert_eq!(judge(&snapshot, ID).resample_after, Some(Duration::from_secs(11)));
    lease(&mut snapshot, "kube-scheduler").moved_within = Some(Duration::from_secs(15));
    assert_eq!(status(&snapshot, ID), Status::Pass);
    // The lease was released, and no instance has acquired it.
    lease(&mut snapshot, "kube-scheduler").holder = None;
    assert_eq!(said(&snapshot, ID), fails);
    lease(&mut snapshot, "kube-scheduler").holder = Some("cp-1_1".to_owned());
    lease(&mut snapshot, "kube-scheduler").moved_within = None;
    lease(&mut snapshot, "kube-scheduler").renewed = None;
    assert_eq!(said(&snapshot, ID), fails);
    snapshot.kube().system_leases.as_mut().unwrap().by_name.remove("kube-scheduler");
    assert_eq!(said(&snapshot, ID), fails);
    assert_eq!(status(&healthy().only(&["cp-1"]).without_talos(), ID), Status::Pass);
}

fn both(snapshot: &mut Snapshot, change: fn(&mut Leases)) {
    let kubernetes = snapshot.kube();
    [&mut kubernetes.node_leases, &mut kubernetes.system_leases].into_iter().flatten().for_each(change);
}

fn first(leases: &mut Leases) -> &mut Lease {
    leases.by_name.values_mut().next().unwrap()
}

/// A cache in front of the API server answers in its place, even if all servers behind it are dead.
#[test]
fn an_answer_that_is_repeated_for_long_is_none() {
    let checks = [ID, "k8s.nodes.ready"];
    let later = |seconds: i64, change: &dyn Fn(&mut Snapshot)| {
        let first = healthy();
        // Rounds in between, including one without answers, do not make the leases new.
        let mut next = healthy();
        next.memory = first.memory.after(&first, Duration::ZERO);
        next.taken += SignedDuration::from_secs(seconds / 2);
        let mut unheard = next.clone();
        (unheard.kube().node_leases, unheard.kube().system_leases) = (no(GapKind::TimedOut), no(GapKind::TimedOut));
        let memory = next.memory.after(&next, Duration::ZERO).after(&unheard, Duration::ZERO);
        let mut last = Snapshot { memory, ..next };
        last.taken = first.taken + SignedDuration::from_secs(seconds);
        change(&mut last);
        checks.map(|id| said(&last, id))
    };
    let fine = || [Vec::<String>::new(), Vec::new()];
    let old = |see: &str| vec![format!("error no-answer cluster{see}")];
    let both_old = || [old(""), old(" < k8s.controlplane.leases")];
    assert_eq!(later(19, &|_| ()), fine());
    assert_eq!(later(20, &|_| ()), both_old());
    // A single changed lease is enough.
    let dated = |leases: &mut Leases| leases.date = Some(ago(0) + SignedDuration::from_secs(1));
    assert_eq!(later(60, &|snapshot| both(snapshot, dated)), fine());
    let written = |leases: &mut Leases| first(leases).resource_version.push('1');
    assert_eq!(later(60, &|snapshot| both(snapshot, written)), fine());
    let renewed = |leases: &mut Leases| first(leases).renewed = Some(ago(2));
    assert_eq!(later(60, &|snapshot| both(snapshot, renewed)), fine());
    // Each list is judged separately.
    let one = |snapshot: &mut Snapshot| {
        snapshot.kube().node_leases.as_mut().unwrap().date = Some(ago(0) + SignedDuration::from_secs(1));
    };
    assert_eq!(later(60, &one), [old(""), vec![]]);
}

#[test]
fn without_the_servers_clock_only_movement_counts() {
    let mut snapshot = healthy();
    snapshot.kube().system_leases.as_mut().unwrap().date = None;
    assert_eq!(said(&snapshot, ID).len(), 2);
    for name in ["kube-scheduler", "kube-controller-manager"] {
        lease(&mut snapshot, name).moved_within = Some(Duration::from_secs(12));
    }
    assert_eq!(status(&snapshot, ID), Status::Pass);
}

#[test]
fn what_is_disabled_everywhere_need_not_lead() {
    let mut snapshot = healthy();
    snapshot.kube().system_leases.as_mut().unwrap().by_name.remove("kube-scheduler");
    disable_scheduler(&mut snapshot, &["cp-1", "cp-2"]);
    assert_eq!(said(&snapshot, ID), ["fail not-leading kube-system/kube-scheduler"]);
    disable_scheduler(&mut snapshot, &["cp-3"]);
    assert_eq!(status(&snapshot, ID), Status::Pass);
    // A control plane that has not reported may or may not want the component.
    snapshot.talos_of("cp-3").scheduler_enabled = no(GapKind::TimedOut);
    assert_eq!(said(&snapshot, ID), ["error timed-out kube-system/kube-scheduler"]);
}

/// A control plane that was removed and still runs can lead the known ones.
#[test]
fn who_leads_is_a_control_plane() {
    let held_by = |holder: &str| {
        let mut snapshot = healthy();
        lease(&mut snapshot, "kube-scheduler").holder = Some(holder.to_owned());
        snapshot
    };
    let foreign = ["warn foreign-leader kube-system/kube-scheduler"];
    for outside in ["old-cp_0c1d", "old-cp", "w-1_0c1d"] {
        assert_eq!(said(&held_by(outside), ID), foreign, "{outside}");
    }
    for known in ["cp-2_0c1d", "CP-2_0c1d", "cp-2.example.org_0c1d", "cp-2"] {
        assert_eq!(said(&held_by(known), ID), [""; 0], "{known}");
    }
    let mut renamed = held_by("talos-2_0c1d");
    renamed.talos_of("cp-2").nodename = Ok(Some("talos-2".to_owned()));
    assert_eq!(said(&renamed, ID), [""; 0]);
}

#[test]
fn nobody_leads_where_nobody_runs() {
    let mut snapshot = healthy();
    lease(&mut snapshot, "kube-scheduler").renewed = Some(ago(90));
    for node in CONTROL_PLANES {
        for status in snapshot.talos_of(node).static_pod_statuses.as_mut().unwrap() {
            if status.name.starts_with("kube-scheduler") {
                status.state.ready = Some(false);
            }
        }
    }
    let explained = ["fail not-leading kube-system/kube-scheduler < k8s.controlplane.scheduler"];
    assert_eq!(said(&snapshot, ID), explained);
    assert_eq!(judge(&snapshot, ID).resample_after, None, "a second look would show the same");
    let mut mirrors = healthy().without_talos();
    lease(&mut mirrors, "kube-scheduler").renewed = Some(ago(90));
    mirrors.kube().pods.as_mut().unwrap().retain(|pod| !pod.name.starts_with("kube-scheduler"));
    assert_eq!(said(&mirrors, ID), explained);
}

#[test]
fn leases_that_cannot_be_read_are_no_leaders() {
    let mut snapshot = healthy();
    snapshot.kube().system_leases = no(GapKind::Forbidden);
    assert_eq!(
        said(&snapshot, ID),
        ["error forbidden kube-system/kube-controller-manager !", "error forbidden kube-system/kube-scheduler !"]
    );
    assert_eq!(status(&healthy().without_kubernetes(), ID), Status::Skip);
}

/// A lease belongs to the whole cluster, regardless of the scope.
#[test]
fn outside_of_the_scope_instances_count_all_the_same() {
    let mut snapshot = healthy();
    for node in CONTROL_PLANES {
        snapshot.node_mut(node).out_of_scope = true;
    }
    lease(&mut snapshot, "kube-scheduler").renewed = Some(ago(41));
    assert_eq!(said(&snapshot, ID), ["fail not-leading kube-system/kube-scheduler"]);
    assert_eq!(judge(&snapshot, ID).resample_after, Some(Duration::from_secs(11)));
    // A check that is restricted to the scope reports nothing that could explain this.
    for node in CONTROL_PLANES {
        for status in snapshot.talos_of(node).static_pod_statuses.as_mut().unwrap() {
            status.state.ready = Some(false);
        }
    }
    assert_eq!(said(&snapshot, ID), ["fail not-leading kube-system/kube-scheduler"]);
}

fn without_election(snapshot: &mut Snapshot, nodes: &[&str]) {
    let names: Vec<String> = nodes.iter().map(|node| format!("kube-scheduler-{node}")).collect();
    for pod in snapshot.kube().pods.iter_mut().flatten().filter(|pod| names.contains(&pod.name)) {
        pod.leader_elect = Some(false);
    }
}

#[test]
fn a_single_instance_may_go_without_an_election() {
    let mut snapshot = healthy().only(&["cp-1", "w-1"]);
    snapshot.kube().system_leases.as_mut().unwrap().by_name.remove("kube-scheduler");
    assert_eq!(said(&snapshot, ID), ["fail not-leading kube-system/kube-scheduler"]);
    without_election(&mut snapshot, &["cp-1"]);
    let why = "the only instance runs with `--leader-elect=false`, so it renews no lease";
    for snapshot in [snapshot.clone(), snapshot.clone().without_talos()] {
        assert_eq!(said(&snapshot, ID), [""; 0]);
        let mut findings = judge(&snapshot, ID).findings.into_iter();
        assert!(findings.any(|finding| finding.outcome == Outcome::Skip(why.to_owned())));
    }
    // Without the list of pods, this is unknown.
    snapshot.kube().pods = no(GapKind::TimedOut);
    let unknown =
        ["error timed-out cluster < k8s.controlplane.apiserver", "fail not-leading kube-system/kube-scheduler"];
    assert_eq!(said(&snapshot, ID), unknown);
    // The component is disabled on the other control planes.
    let mut one_of_three = healthy();
    one_of_three.kube().system_leases.as_mut().unwrap().by_name.remove("kube-scheduler");
    without_election(&mut one_of_three, &["cp-1"]);
    disable_scheduler(&mut one_of_three, &["cp-2", "cp-3"]);
    assert_eq!(said(&one_of_three, ID), [""; 0]);
    // If another instance is wanted but not observed, it is unknown whether this one is alone.
    one_of_three.talos_of("cp-3").scheduler_enabled = no(GapKind::TimedOut);
    assert_eq!(said(&one_of_three, ID), ["fail not-leading kube-system/kube-scheduler"]);
}

#[test]
fn beside_others_nobody_may_go_without_an_election() {
    for nodes in [&["cp-2"][..], &CONTROL_PLANES] {
        let mut snapshot = healthy();
        without_election(&mut snapshot, nodes);
        assert_eq!(said(&snapshot, ID), ["fail election-off kube-system/kube-scheduler"], "{nodes:?}");
    }
}
