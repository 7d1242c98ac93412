//! Facts that each etcd member reports about itself: space, lag, version.

use crate::model::CheckId;
use std::time::Duration;

use crate::model::Status;
use crate::snapshot::{EtcdEndpoint, EtcdMember, EtcdStatus, GapKind, RaftProgress, Snapshot};
use crate::testing::fixture::{CONTROL_PLANES, Shape, Sides, etcd_status, gap, healthy, member};
use crate::testing::judged::{judge, observed, status, wrong};

const GIB: u64 = 1 << 30;

/// The fixture with another status of `cp-2`'s member.
fn with(change: impl FnOnce(&mut EtcdStatus)) -> Snapshot {
    let mut snapshot = healthy();
    change(snapshot.etcd_status_mut("cp-2"));
    snapshot
}

fn filled(percent: u64, quota: Option<i64>) -> Snapshot {
    let mut snapshot = with(|status| {
        status.db_size = 2 * GIB * percent / 100;
        status.db_size_in_use = status.db_size;
    });
    snapshot.talos_of("cp-2").etcd_spec.as_mut().unwrap().as_mut().unwrap().quota = quota;
    snapshot
}

/// The fixture's etcd, queried directly.
fn external(change: impl Fn(&mut EtcdStatus)) -> Snapshot {
    let mut snapshot = healthy();
    let endpoint = |index: usize| {
        let mut status = etcd_status(index);
        change(&mut status);
        let address = format!("https://10.0.0.{}:2379", index + 1);
        EtcdEndpoint { address, status: Ok(status), members: Ok((0..3).map(member).collect()), alarms: Ok(Vec::new()) }
    };
    snapshot.external_etcd = Some((0..3).map(endpoint).collect());
    snapshot
}

/// External etcd without Talos. Every request to the last endpoint fails with this gap.
fn external_without_the_last(kind: GapKind) -> Snapshot {
    let mut snapshot = external(|_| {}).without_talos();
    let last = snapshot.external_etcd.as_mut().unwrap().last_mut().unwrap();
    (last.status, last.members, last.alarms) = (gap(kind), gap(kind), gap(kind));
    snapshot
}

#[test]
fn an_endpoint_that_shows_its_own_fault_fails_once() {
    for (kind, reason, tolerance) in [
        (GapKind::ConnectionRefused, "connection-refused", "fail no-tolerance, see etcd.leader"),
        (GapKind::PeerCertificateExpired, "server-certificate-expired", "error no-answer, see etcd.leader"),
        (GapKind::UnknownCa, "unknown-ca", "error no-answer, see etcd.leader"),
        (GapKind::NameNotInCertificate, "name-not-in-certificate", "error no-answer, see etcd.leader"),
        (GapKind::TimedOut, "timed-out", "error no-answer, see etcd.leader"),
    ] {
        let snapshot = external_without_the_last(kind);
        let last = "https://10.0.0.3:2379";
        assert_eq!(wrong("etcd.leader", &snapshot), [format!("{last}: fail {reason}")]);
        assert_eq!(wrong("etcd.tolerance", &snapshot), [format!("cluster: {tolerance}")]);
        for id in ["etcd.members.consistent", "etcd.learners", "etcd.alarms", "etcd.space", "etcd.lag", "etcd.versions"]
        {
            assert_eq!(wrong(id, &snapshot), [format!("{last}: blocked etcd.leader")], "{id}");
        }
        // A check that was skipped explains nothing.
        let mut skipped = snapshot.clone();
        skipped.asked.skipped.insert(CheckId::EtcdLeader);
        assert_eq!(wrong("etcd.members.consistent", &skipped), [format!("{last}: error {reason}")]);
    }
    let seen = observed("etcd.tolerance", &external_without_the_last(GapKind::ConnectionRefused));
    assert_eq!(seen, ["2 of 3 voters up (cp-3 is not), tolerates 0"]);
}

#[test]
fn an_endpoint_out_of_reach_or_the_only_one_may_be_up() {
    for kind in [GapKind::ConnectTimedOut, GapKind::NoRoute, GapKind::NameNotFound, GapKind::ClientCertificateRefused] {
        let snapshot = external_without_the_last(kind);
        assert!(wrong("etcd.leader", &snapshot)[0].contains(": error "), "{kind:?}");
        assert_eq!(wrong("etcd.alarms", &snapshot), ["https://10.0.0.3:2379: blocked etcd.leader"], "{kind:?}");
    }
    // A single unanswered query does not indicate a frozen server.
    let mut slow = external_without_the_last(GapKind::TimedOut);
    slow.external_etcd.as_mut().unwrap()[2].alarms = Ok(Vec::new());
    assert_eq!(wrong("etcd.leader", &slow), ["https://10.0.0.3:2379: error timed-out"]);
    assert_eq!(wrong("etcd.members.consistent", &slow), ["https://10.0.0.3:2379: error timed-out, see etcd.leader"]);
    slow.external_etcd.as_mut().unwrap()[2].alarms = gap(GapKind::ServerError);
    assert_eq!(wrong("etcd.leader", &slow), ["https://10.0.0.3:2379: error timed-out"], "not all for one reason");
    let mut unlisted = external_without_the_last(GapKind::ConnectionRefused);
    unlisted.external_etcd.as_mut().unwrap()[2].address = "https://10.0.0.9:2379".to_owned();
    assert_eq!(wrong("etcd.leader", &unlisted), ["https://10.0.0.9:2379: error connection-refused"]);
    let mut alone = external_without_the_last(GapKind::ConnectionRefused);
    alone.external_etcd.as_mut().unwrap().drain(..2);
    assert_eq!(wrong("etcd.quorum", &alone), ["cluster: error quorum-unproven"]);
}

/// Three of five voters answer, the fourth refuses connections, and no endpoint is given for the fifth.
#[test]
fn who_refuses_speaks_for_no_other_voter() {
    let mut snapshot = external(|_| {}).without_talos();
    let endpoints = snapshot.external_etcd.as_mut().unwrap();
    for endpoint in &mut *endpoints {
        for (id, name) in [(77, "cp-4"), (78, "cp-5")] {
            let client_urls = vec![format!("https://{name}:2379")];
            let added = EtcdMember { id, name: name.to_owned(), client_urls, ..member(0) };
            endpoint.members.as_mut().unwrap().push(added);
        }
    }
    let refused = GapKind::ConnectionRefused;
    let (address, status) = ("https://cp-4:2379".to_owned(), gap(refused));
    endpoints.push(EtcdEndpoint { address, status, members: gap(refused), alarms: gap(refused) });
    assert_eq!(wrong("etcd.tolerance", &snapshot), ["cluster: error no-answer"]);
    let seen = observed("etcd.tolerance", &snapshot);
    let of_endpoints = "could not be queried, because `--etcd-endpoints` does not include them";
    assert_eq!(seen, [format!("1 of 5 voters {of_endpoints}: cp-5; down: cp-4")]);
}

/// Its peer URL is all that shows which machine is meant.
#[test]
fn a_member_that_never_started_is_known_by_its_address() {
    let mut snapshot = healthy();
    let peer_urls = vec!["https://192.0.2.9:2380".to_owned()];
    let added = EtcdMember { id: 77, name: String::new(), client_urls: Vec::new(), peer_urls, ..member(0) };
    for name in ["cp-1", "cp-2", "cp-3"] {
        snapshot.talos_of(name).etcd_members.as_mut().unwrap().push(added.clone());
    }
    let observed = observed("etcd.members.nodes", &snapshot);
    assert_eq!(observed, ["added for 192.0.2.9, not started, and no control plane is there"]);
}

#[test]
fn a_voter_that_never_started_is_down_for_everybody() {
    let mut snapshot = external(|_| {}).without_talos();
    for endpoint in snapshot.external_etcd.as_mut().unwrap() {
        let added = EtcdMember { id: 77, name: String::new(), client_urls: Vec::new(), ..member(0) };
        endpoint.members.as_mut().unwrap().push(added);
    }
    assert_eq!(wrong("etcd.tolerance", &snapshot), ["cluster: fail no-tolerance"]);
    assert_eq!(observed("etcd.tolerance", &snapshot), ["3 of 4 voters up (000000000000004d is not), tolerates 0"]);
    // A member that has reported its name has started.
    for endpoint in snapshot.external_etcd.as_mut().unwrap() {
        "cp-4".clone_into(&mut endpoint.members.as_mut().unwrap()[3].name);
    }
    assert_eq!(wrong("etcd.tolerance", &snapshot), ["cluster: error no-answer"]);
    let seen = "1 of 4 voters could not be queried, because `--etcd-endpoints` does not include them: cp-4";
    assert_eq!(observed("etcd.tolerance", &snapshot), [seen]);
}

#[test]
fn a_database_near_its_quota() {
    assert_eq!(wrong("etcd.space", &filled(79, None)), Vec::<String>::new());
    assert_eq!(wrong("etcd.space", &filled(81, None)), ["cp-2: warn space-nearly-full"]);
    assert_eq!(wrong("etcd.space", &filled(96, None)), ["cp-2: fail space-nearly-full"]);
    assert_eq!(observed("etcd.space", &filled(96, None)), ["1.9 GiB of 2.0 GiB, 1.9 GiB in use"]);
    // A larger quota, the default spelled differently, and no quota.
    for (quota, expected) in [(8 << 30, Status::Pass), (0, Status::Fail), (-1, Status::Pass), (1 << 30, Status::Fail)] {
        assert_eq!(status("etcd.space", &filled(96, Some(quota))), expected, "{quota}");
    }
}

#[test]
fn a_full_database_that_raised_the_alarm_is_one_cause() {
    let mut snapshot = filled(100, None);
    let status = snapshot.etcd_status_mut("cp-2");
    status.errors = vec![format!("memberID:{} alarm:NOSPACE ", status.member_id)];
    assert_eq!(wrong("etcd.space", &snapshot), ["cp-2: fail space-nearly-full, see etcd.alarms"]);
}

#[test]
fn without_a_quota_nothing_is_said_of_space() {
    let with_spec = |spec| {
        let mut snapshot = healthy();
        snapshot.talos_of("cp-2").etcd_spec = spec;
        snapshot
    };
    assert_eq!(wrong("etcd.space", &with_spec(Ok(None))), ["cp-2: error no-answer"]);
    assert_eq!(wrong("etcd.space", &with_spec(gap(GapKind::Forbidden))), ["cp-2: error role-too-low, for ever"]);
    assert_eq!(wrong("etcd.space", &with_spec(gap(GapKind::TimedOut))), ["cp-2: error timed-out"]);
    assert_eq!(wrong("etcd.space", &with(|status| status.db_size = 0)), ["cp-2: error no-answer"]);
}

#[test]
fn etcd_itself_tells_its_quota_from_3_6_on() {
    assert_eq!(status("etcd.space", &external(|status| status.quota = Some(2 * GIB))), Status::Pass);
    assert_eq!(status("etcd.space", &external(|status| status.quota = Some(4 << 20))), Status::Fail);
    assert_eq!(status("etcd.space", &external(|_| {})), Status::Skip);
    let sparse = |status: &mut EtcdStatus| (status.db_size, status.db_size_in_use) = (GIB, GIB / 4);
    assert_eq!(status("etcd.space", &external(sparse)), Status::Warn, "what is in use is known without a quota");
}

#[test]
fn fragmentation() {
    let sizes = |size, used| with(|status| (status.db_size, status.db_size_in_use) = (size, used));
    assert_eq!(wrong("etcd.space", &sizes(GIB, GIB / 4)), ["cp-2: warn fragmented"]);
    assert_eq!(observed("etcd.space", &sizes(GIB, GIB / 4)), ["256.0 MiB of 1.0 GiB in use"]);
    for (size, used) in [(GIB, GIB / 2), (90_000_000, 1), (100_000_000, 1), (GIB, 0)] {
        assert_eq!(status("etcd.space", &sizes(size, used)), Status::Pass, "{size} {used}");
    }
    let nearly_full = sizes(2 * GIB * 96 / 100, GIB / 4);
    assert_eq!(wrong("etcd.space", &nearly_full), ["cp-2: fail space-nearly-full", "cp-2: warn fragmented"]);
}

/// The progress of `cp-2` as (index, applied) in the first sample, and in the second if there is one.
fn samples(first: (u64, u64), second: Option<(u64, u64)>) -> Snapshot {
    let last = second.unwrap_or(first);
    with(|status| {
        (status.raft_index, status.raft_applied_index) = last;
        status.earlier = second.map(|_| RaftProgress { index: first.0, applied: first.1 });
    })
}

#[test]
fn a_member_that_is_far_behind_is_looked_at_again() {
    assert_eq!(status("etcd.lag", &samples((5000, 4001), None)), Status::Pass);
    let far = samples((5000, 4000), None);
    assert_eq!(wrong("etcd.lag", &far), ["cp-2: error lagging"]);
    assert_eq!(judge("etcd.lag", &far).resample_after, Some(Duration::from_secs(1)));
    assert_eq!(judge("etcd.lag", &healthy()).resample_after, None);
}

#[test]
fn who_keeps_pace_is_not_lagging() {
    let of = |first, second| wrong("etcd.lag", &samples(first, Some(second)));
    let fails = ["cp-2: fail lagging"];
    assert_eq!(of((9000, 4000), (9000, 4000)), fails, "it stands still");
    assert_eq!(of((9000, 4000), (9900, 4000)), fails, "it stands still while others go on");
    assert_eq!(of((9000, 4000), (9900, 4100)), fails, "it falls behind");
    assert_eq!(of((9000, 4000), (9000, 3000)), fails, "it was restored from something older");
    assert!(of((9000, 4000), (9900, 5500)).is_empty(), "it catches up");
    assert!(of((9000, 4000), (12_000, 9500)).is_empty(), "what there was, is applied");
    assert!(of((9000, 4000), (9000, 8500)).is_empty(), "it has caught up");
    let still = samples((9000, 4000), Some((9000, 4000)));
    assert_eq!(observed("etcd.lag", &still), ["5000 entries behind, and not catching up"]);
}

/// Members of a busy cluster are queried at different moments.
#[test]
fn members_that_differ_are_not_lagging() {
    let mut snapshot = healthy();
    for (name, index) in CONTROL_PLANES.into_iter().zip([5_000, 50_000, 500_000]) {
        let status = snapshot.etcd_status_mut(name);
        // The applied index is read slightly later than the log index.
        (status.raft_index, status.raft_applied_index) = (index, index + 3);
    }
    assert_eq!(status("etcd.lag", &snapshot), Status::Pass);
}

#[test]
fn the_past_of_another_member_is_none() {
    let status = |id| EtcdStatus { member_id: id, ..etcd_status(0) };
    assert_eq!(status(1).after(&Ok(status(2))).earlier, None);
    assert_eq!(status(1).after(&gap(GapKind::TimedOut)).earlier, None);
    assert_eq!(status(1).after(&Ok(status(1))).earlier, Some(RaftProgress { index: 5000, applied: 5000 }));
}

#[test]
fn learners_and_positions_that_are_not_told() {
    let snapshot = with(|status| (status.is_learner, status.raft_applied_index) = (true, 1));
    assert_eq!(status("etcd.lag", &snapshot), Status::Pass, "a learner's lag is judged elsewhere");
    for lost in
        [|status: &mut EtcdStatus| status.raft_index = 0, |status: &mut EtcdStatus| status.raft_applied_index = 0]
    {
        assert_eq!(wrong("etcd.lag", &with(lost)), ["cp-2: error no-answer"]);
    }
}

#[test]
fn versions_that_differ() {
    let snapshot = with(|status| "3.5.21".clone_into(&mut status.version));
    assert_eq!(wrong("etcd.versions", &snapshot), ["cluster: warn versions-mixed"]);
    assert_eq!(observed("etcd.versions", &snapshot), ["etcd 3.5.21 on cp-2; 3.6.16 on cp-1, cp-3"]);
    let storage = with(|status| "3.5.0".clone_into(&mut status.storage_version));
    assert_eq!(observed("etcd.versions", &storage), ["storage 3.5.0 on cp-2; 3.6.0 on cp-1, cp-3"]);
    let untold = with(|status| status.storage_version.clear());
    assert_eq!(status("etcd.versions", &untold), Status::Pass, "not every Talos tells it");
    assert_eq!(wrong("etcd.versions", &with(|status| status.version.clear())), ["cp-2: error no-answer"]);
}

/// A missing status is reported once: by `etcd.leader`, unless that check is skipped.
#[test]
fn a_member_without_a_status_is_told_of_once() {
    let mut snapshot = healthy();
    snapshot.talos_of("cp-2").etcd_status = gap(GapKind::TimedOut);
    assert_eq!(wrong("etcd.leader", &snapshot), ["cp-2: error timed-out"]);
    for check in ["etcd.space", "etcd.lag", "etcd.versions"] {
        assert_eq!(wrong(check, &snapshot), ["cp-2: blocked etcd.leader"], "{check}");
    }
    snapshot.asked.skipped.insert(CheckId::EtcdLeader);
    // The first check that lacks the answer reports it.
    for check in ["etcd.space", "etcd.lag", "etcd.versions"] {
        assert_eq!(wrong(check, &snapshot), ["cp-2: error timed-out, see etcd.learners"], "{check}");
    }
}

/// A voter without an endpoint in `--etcd-endpoints` is not observed by any other means: it may be full or stuck.
#[test]
fn a_voter_that_no_endpoint_is_goes_unseen_however_many_there_are() {
    for voters in [2, 5] {
        let world = Shape { external_etcd: voters, sides: Sides::NoTalos, ..Shape::default() }.world();
        let mut snapshot = world.clone();
        snapshot.external_etcd.as_mut().unwrap().pop();
        let last = world.external_etcd.as_ref().unwrap()[0].members.as_ref().unwrap().last().unwrap().name.clone();
        assert_eq!(status("etcd.tolerance", &snapshot), Status::Error, "{voters}");
        assert!(observed("etcd.tolerance", &snapshot).concat().contains(&last), "{voters}");
    }
}

#[test]
fn who_is_slow_in_both_samples_is_slow() {
    let member = |slower: u64, second: bool| {
        with(|status| {
            status.slower = Duration::from_millis(slower);
            status.earlier = second.then(|| status.progress());
        })
    };
    assert_eq!(judge("etcd.lag", &member(1000, false)).resample_after, None);
    assert_eq!(status("etcd.lag", &member(1001, false)), Status::Pass, "one sample proves nothing");
    assert_eq!(judge("etcd.lag", &member(1001, false)).resample_after, Some(Duration::from_secs(1)));
    assert_eq!(wrong("etcd.lag", &member(2500, true)), ["cp-2: warn etcd-slow"]);
    assert_eq!(observed("etcd.lag", &member(2500, true)), ["2.5s longer in both samples"]);
    assert_eq!(judge("etcd.lag", &member(2500, true)).resample_after, None);
    let [slow, quick] = [3, 0].map(|seconds| EtcdStatus { slower: Duration::from_secs(seconds), ..etcd_status(0) });
    assert_eq!(slow.clone().after(&Ok(quick.clone())).slower, Duration::ZERO, "the quicker one counts");
    assert_eq!(quick.after(&Ok(slow)).slower, Duration::ZERO);
}
