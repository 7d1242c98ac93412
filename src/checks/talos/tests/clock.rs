use std::time::Duration;

use jiff::SignedDuration;

use crate::model::{Outcome, Status};
use crate::snapshot::{Adjtime, GapKind, Snapshot, TimeStatus};
use crate::testing::fixture::{ago, gap, healthy, now};
use crate::testing::judged::{judge, observed, status, wrong};

const ID: &str = "talos.time";

fn with(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut snapshot = healthy();
    change(&mut snapshot);
    snapshot
}

fn set(snapshot: &mut Snapshot, synced: bool, sync_disabled: bool) {
    snapshot.talos_of("w-1").time_status = Ok(Some(TimeStatus { synced, sync_disabled }));
}

fn kernel(snapshot: &mut Snapshot, milliseconds: i64, synced: bool) {
    let offset = SignedDuration::from_millis(milliseconds);
    snapshot.talos_of("w-1").adjtime = Ok(Some(Adjtime { offset, synced }));
}

/// Removes the kernel's estimate and sets a lease that was renewed this many seconds before the server's `Date`. If `moved`, two samples 40
/// seconds apart show the renewal.
fn lease(snapshot: &mut Snapshot, age: i64, moved: bool) {
    snapshot.talos_of("w-1").adjtime = Ok(None);
    written(snapshot, age, moved.then_some(40));
}

/// Sets a lease that was renewed this many seconds before the server's `Date`, and at most `moved_within` seconds before it was read.
fn written(snapshot: &mut Snapshot, age: i64, moved_within: Option<u64>) {
    let lease = snapshot.kube().node_leases.as_mut().unwrap().by_name.get_mut("w-1").unwrap();
    lease.renewed = Some(now() - SignedDuration::from_secs(age));
    lease.moved_within = moved_within.map(Duration::from_secs);
}

/// Returns why `w-1` is skipped, if it is.
fn skipped(snapshot: &Snapshot) -> Option<String> {
    let mut findings = judge(ID, snapshot).findings.into_iter().filter(|finding| finding.target.name == "w-1");
    findings.find_map(|finding| match finding.outcome {
        Outcome::Skip(why) => Some(why),
        _ => None,
    })
}

#[test]
fn a_clock_that_is_not_synchronized() {
    assert_eq!(wrong(ID, &with(|snapshot| set(snapshot, false, false))), ["w-1: fail time-not-synced"]);
    let absent = with(|snapshot| snapshot.talos_of("w-1").time_status = Ok(None));
    assert_eq!(wrong(ID, &absent), ["w-1: error no-answer"]);
}

#[test]
fn no_offset_is_too_large_to_be_noticed() {
    for offset in [SignedDuration::MIN, SignedDuration::MAX] {
        let snapshot = with(|snapshot| snapshot.talos_of("w-1").adjtime = Ok(Some(Adjtime { offset, synced: true })));
        assert_eq!(wrong(ID, &snapshot), ["w-1: fail clock-skew"], "{offset:?}");
    }
}

#[test]
fn the_kernel_tells_how_far_it_is_off() {
    for (milliseconds, expected) in [
        (0, None),
        (1000, None),
        (-1000, None),
        (1001, Some("w-1: warn clock-skew")),
        (-30_000, Some("w-1: warn clock-skew")),
        (30_001, Some("w-1: fail clock-skew")),
        (-86_400_000, Some("w-1: fail clock-skew")),
    ] {
        let snapshot = with(|snapshot| kernel(snapshot, milliseconds, true));
        assert_eq!(wrong(ID, &snapshot), Vec::from_iter(expected), "{milliseconds}");
    }
    assert_eq!(observed(ID, &with(|snapshot| kernel(snapshot, -2500, true))), ["2.5s behind (kernel estimate)"]);
}

/// Talos also reports `synced` once it has given up waiting.
#[test]
fn a_clock_that_nobody_corrects_is_not_vouched_for_by_its_own_offset() {
    assert_eq!(wrong(ID, &with(|snapshot| kernel(snapshot, 0, false))), ["w-1: warn time-not-synced"]);
    let mut ahead = with(|snapshot| lease(snapshot, -60, false));
    kernel(&mut ahead, 0, false);
    assert_eq!(wrong(ID, &ahead), ["w-1: fail clock-skew"]);
    let alone = with(|snapshot| kernel(snapshot, 0, false)).without_kubernetes();
    assert_eq!(wrong(ID, &alone), ["w-1: warn time-not-synced"]);
}

#[test]
fn a_lease_tells_where_the_kernel_does_not() {
    for (age, moved, expected) in [
        (0, false, None),
        (10, false, None),
        (30, true, None),
        // `Date` has whole seconds, so the time may be up to a second later.
        (-1, false, None),
        (-2, false, None),
        (-3, false, Some("w-1: warn clock-skew")),
        (-31, false, Some("w-1: warn clock-skew")),
        (-32, false, Some("w-1: fail clock-skew")),
        // Either the lease is old or the clock is behind: only a renewed lease cannot be old.
        (41, true, None),
        (42, true, Some("w-1: warn clock-skew")),
        (71, true, Some("w-1: fail clock-skew")),
        (3600, false, None),
    ] {
        assert_eq!(wrong(ID, &with(|snapshot| lease(snapshot, age, moved))), Vec::from_iter(expected), "{age}");
    }
    let told = |age, moved| observed(ID, &with(|snapshot| lease(snapshot, age, moved)));
    assert_eq!(told(-61, false), ["at least 1m00s ahead of the API server's"]);
    assert_eq!(told(140, true), ["at least 1m40s behind the API server's"]);
}

/// A large list comes in pages, and a slow runner reads the last one long after the first.
#[test]
fn a_lease_of_a_later_page_is_not_ahead_of_the_first() {
    let paged = |age, took| {
        with(|snapshot| {
            lease(snapshot, age, false);
            snapshot.kube().node_leases.as_mut().unwrap().last_date = Some(now() + SignedDuration::from_secs(took));
        })
    };
    assert_eq!(wrong(ID, &paged(-40, 40)), Vec::<String>::new());
    assert_eq!(wrong(ID, &paged(-40, 30)), ["w-1: warn clock-skew"]);
    let mut untold = paged(-40, 40);
    untold.kube().node_leases.as_mut().unwrap().last_date = None;
    assert_eq!(wrong(ID, &untold), Vec::<String>::new());
}

/// Talos steps the clock as soon as it is off by 0.4 s, so its own estimate is always good, even if the time server is wrong.
#[test]
fn a_kernel_that_follows_a_wrong_time_server_does_not_vouch_for_the_clock() {
    for (age, moved_within, expected) in [
        (-60, None, Some("w-1: fail clock-skew")),
        (-10, None, Some("w-1: warn clock-skew")),
        (60, Some(12), Some("w-1: fail clock-skew")),
        (25, Some(12), Some("w-1: warn clock-skew")),
        (13, Some(12), None),
        // If rounds are two minutes apart, the lease may have been renewed at any time in between.
        (60, Some(120), None),
        (3600, Some(120), Some("w-1: fail clock-skew")),
        // The kubelet is dead.
        (3600, None, None),
    ] {
        let snapshot = with(|snapshot| written(snapshot, age, moved_within));
        assert_eq!(wrong(ID, &snapshot), Vec::from_iter(expected), "{age} {moved_within:?}");
    }
    let told = |milliseconds, age| {
        observed(
            ID,
            &with(|snapshot| {
                kernel(snapshot, milliseconds, true);
                written(snapshot, age, Some(12));
            }),
        )
    };
    assert_eq!(
        told(1, -61),
        ["at least 1m00s ahead of the API server's; correct to within 1 second (kernel estimate)"]
    );
    assert_eq!(told(-90_000, 62), ["1m30s behind (kernel estimate); at least 50s behind the API server's"]);
    assert_eq!(told(-2000, 62), ["at least 50s behind the API server's; 2s behind (kernel estimate)"]);
    assert_eq!(told(-2500, 3), ["2.5s behind (kernel estimate)"]);
}

#[test]
fn a_lease_that_looks_old_is_looked_at_again() {
    let again = |change: fn(&mut Snapshot)| judge(ID, &with(change)).resample_after;
    let pause = Some(Duration::from_secs(11));
    assert_eq!(again(|_| {}), None);
    assert_eq!(again(|snapshot| written(snapshot, 30, None)), None);
    assert_eq!(again(|snapshot| written(snapshot, 31, None)), pause);
    assert_eq!(again(|snapshot| lease(snapshot, 31, false)), pause);
    // Over a long pause, every lease is renewed.
    assert_eq!(again(|snapshot| written(snapshot, 50, Some(60))), pause);
    assert_eq!(again(|snapshot| written(snapshot, 40, Some(40))), None);
    assert_eq!(again(|snapshot| written(snapshot, 60, Some(12))), None, "that shows it");
    // A second sample would not change the result.
    let silent = |snapshot: &mut Snapshot| {
        written(snapshot, 3600, None);
        let object = snapshot.kube().nodes.as_mut().unwrap().iter_mut().find(|object| object.name == "w-1").unwrap();
        object.conditions.iter_mut().find(|it| it.kind == "Ready").unwrap().status = "Unknown".to_owned();
    };
    assert_eq!(again(silent), None);
    assert_eq!(
        again(|snapshot| {
            written(snapshot, 3600, None);
            snapshot.power_off("w-1");
        }),
        None
    );
}

#[test]
fn what_nothing_tells_is_left_out_and_does_not_pass() {
    for (age, moved) in [(31, false), (40, true), (3600, false)] {
        let snapshot = with(|snapshot| lease(snapshot, age, moved));
        let why = skipped(&snapshot).unwrap_or_default();
        assert!(why.starts_with("not-measurable: its lease in Kubernetes is "), "{age}: {why}");
    }
    let nothing = "not-measurable: neither its kernel nor a lease in Kubernetes shows how far its clock is off";
    let lost: [fn(&mut Snapshot); 4] = [
        |snapshot| snapshot.kube().node_leases = gap(GapKind::Forbidden),
        |snapshot| snapshot.kube().node_leases.as_mut().unwrap().by_name.clear(),
        |snapshot| snapshot.kube().node_leases.as_mut().unwrap().date = None,
        // The list of nodes shows that the leases belong to this cluster.
        |snapshot| snapshot.kube().nodes = gap(GapKind::TimedOut),
    ];
    for lose in lost {
        let mut snapshot = with(|snapshot| lease(snapshot, 3, false));
        lose(&mut snapshot);
        assert_eq!(skipped(&snapshot).as_deref(), Some(nothing));
        // A missing answer is different from the answer that there is no estimate.
        snapshot.talos_of("w-1").adjtime = gap(GapKind::TimedOut);
        assert_eq!(wrong(ID, &snapshot), ["w-1: error timed-out"]);
    }
}

#[test]
fn leases_of_another_cluster_are_not_looked_at() {
    let mut snapshot = with(|snapshot| lease(snapshot, -60, false));
    for object in snapshot.kube().nodes.as_mut().unwrap() {
        object.addresses = vec!["192.0.2.1".to_owned()];
    }
    assert_eq!(wrong(ID, &snapshot), Vec::<String>::new());
}

#[test]
fn a_machine_that_does_not_synchronize_is_not_judged_unless_it_is_seen_to_be_wrong() {
    let off = |change: fn(&mut Snapshot)| {
        with(|snapshot| {
            set(snapshot, true, true);
            change(snapshot);
        })
    };
    let why = Some("time synchronization is disabled on this machine".to_owned());
    assert_eq!(skipped(&off(|_| {})), why);
    assert_eq!(skipped(&off(|snapshot| kernel(snapshot, 0, false))), why);
    assert_eq!(skipped(&off(|snapshot| lease(snapshot, 3600, false)).without_kubernetes()), why);
    assert_eq!(wrong(ID, &off(|snapshot| lease(snapshot, -60, false))), ["w-1: fail clock-skew"]);
    let mut container = off(|snapshot| lease(snapshot, 3, false));
    for name in ["cp-1", "cp-2", "cp-3"] {
        container.talos_of(name).time_status = Ok(Some(TimeStatus { synced: true, sync_disabled: true }));
        container.talos_of(name).adjtime = Ok(None);
    }
    assert_eq!(status(ID, &container), Status::Skip);
}

#[test]
fn a_kubelet_that_is_dead_is_no_clock_that_is_behind() {
    let mut snapshot = with(|snapshot| lease(snapshot, 90, false));
    snapshot.kube().node_leases.as_mut().unwrap().by_name.get_mut("w-1").unwrap().renewed = Some(ago(90));
    assert_eq!(wrong(ID, &snapshot), Vec::<String>::new());
}

#[test]
fn what_is_not_told_for_good_is_no_error() {
    for (kind, expected) in [
        (GapKind::Forbidden, Vec::new()),
        (GapKind::Unsupported, Vec::new()),
        (GapKind::TimedOut, vec!["w-1: error timed-out".to_owned()]),
    ] {
        let snapshot = with(|snapshot| {
            snapshot.talos_of("w-1").adjtime = gap(kind);
            snapshot.kube().node_leases = gap(GapKind::Forbidden);
        });
        assert_eq!(wrong(ID, &snapshot), expected, "{kind:?}");
    }
}

/// A lease that moves was renewed at most 40 seconds ago; one more second is not noticeable.
#[test]
fn a_clock_that_is_a_second_behind_is_no_finding() {
    let why = skipped(&with(|snapshot| lease(snapshot, 41, true)));
    assert_eq!(why.as_deref(), Some("not-measurable: its lease in Kubernetes is 41s old"));
    assert_eq!(observed(ID, &with(|snapshot| lease(snapshot, 42, true))).len(), 1);
}

#[test]
fn a_lease_of_thirty_seconds_is_not_old() {
    let again = |age| judge(ID, &with(|snapshot| lease(snapshot, age, false))).resample_after;
    assert_eq!(again(30), None);
    assert!(again(31).is_some());
}

/// If the kernel considers the clock correct, its time server or the API server's clock may be wrong instead.
#[test]
fn a_clock_that_its_kernel_vouches_for_may_be_right() {
    let hinted = |milliseconds| {
        let snapshot = with(|snapshot| {
            lease(snapshot, -60, false);
            kernel(snapshot, milliseconds, true);
        });
        let verdict = judge(ID, &snapshot);
        let likely = "the time server that it follows is wrong, or the API server's clock is";
        verdict.problems().any(|(_, problem)| problem.hints.contains(&crate::model::Hint::likely(likely)))
    };
    assert!(hinted(0) && hinted(1000));
    assert!(!hinted(1001));
}
