//! Answers that count toward a quorum, and the findings about members without one.

use std::time::Duration;

use crate::model::Status;
use crate::snapshot::{EtcdEndpoint, EtcdMember, GapKind, Snapshot};
use crate::testing::fixture::{CONTROL_PLANES, etcd_status, gap, healthy, member, member_id};
use crate::testing::judged::{judge, lines, observed, status, wrong};

fn with(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut snapshot = healthy();
    change(&mut snapshot);
    snapshot
}

fn every(change: impl Fn(&mut crate::snapshot::TalosNode)) -> Snapshot {
    with(|snapshot| CONTROL_PLANES.into_iter().for_each(|name| change(snapshot.talos_of(name))))
}

#[test]
fn only_the_word_of_voters_proves_a_quorum() {
    let alone = |members: Vec<EtcdMember>| {
        let mut snapshot = healthy().only(&["cp-1"]);
        snapshot.set_members(&members);
        snapshot
    };
    let learns = EtcdMember { is_learner: true, ..member(0) };
    for snapshot in [alone(vec![member(1)]), alone(vec![learns, member(1)])] {
        assert_eq!(wrong("etcd.quorum", &snapshot), ["cluster: error quorum-unproven"]);
        assert_eq!(observed("etcd.quorum", &snapshot), ["no voter among the members that answered"]);
    }
}

#[test]
fn who_says_that_it_learns_is_no_voter_that_is_up() {
    let snapshot = with(|snapshot| snapshot.etcd_status_mut("cp-3").is_learner = true);
    assert_eq!(wrong("etcd.tolerance", &snapshot), ["cluster: fail no-tolerance"]);
    assert_eq!(observed("etcd.tolerance", &snapshot), ["2 of 3 voters up, tolerates 0"]);
}

#[test]
fn an_earlier_list_of_nobody_counts_no_voters() {
    let mut snapshot = every(|talos| talos.etcd_members = gap(GapKind::ServerError));
    for name in CONTROL_PLANES {
        snapshot.etcd_status_mut(name).leader = 0;
    }
    snapshot.memory.etcd_members = Some(Vec::new());
    let assumed = "no leader, though 3 of 3 voters are up (voters assumed: one on each control plane); etcd may still count removed machines";
    assert_eq!(observed("etcd.quorum", &snapshot), [assumed]);
}

#[test]
fn a_machine_that_says_that_etcd_does_not_run_has_lost_its_vote() {
    let stopped = with(|snapshot| {
        snapshot.service_mut("cp-2", "etcd").healthy = Some(false);
        snapshot.talos_of("cp-2").etcd_status = gap(GapKind::ServerError);
    });
    assert_eq!(wrong("etcd.tolerance", &stopped), ["cluster: fail no-tolerance, see etcd.service"]);
    let elsewhere = with(|snapshot| {
        let contact = snapshot.talos_of("cp-2").contact.as_mut().unwrap();
        contact.answered_by_other = Some("somebody".to_owned());
    });
    assert_eq!(wrong("etcd.tolerance", &elsewhere), ["cluster: fail no-tolerance"]);
    let unasked = with(|snapshot| snapshot.talos_of("cp-2").etcd_status = gap(GapKind::ServerError));
    assert_eq!(wrong("etcd.tolerance", &unasked), ["cluster: error no-answer"], "its etcd may well run");
}

#[test]
fn the_list_of_most_members_counts() {
    let mut old = member(2);
    (old.id, old.name) = (9, "cp-old".to_owned());
    old.peer_urls = vec!["https://10.0.0.9:2380".to_owned()];
    for (one, name) in CONTROL_PLANES.into_iter().enumerate() {
        let snapshot = with(|snapshot| snapshot.talos_of(name).etcd_members.as_mut().unwrap().push(old.clone()));
        assert!(wrong("etcd.members.nodes", &snapshot).is_empty(), "{one}");
        assert_eq!(lines("etcd.quorum", &snapshot), ["etcd cluster has quorum (3 of 3 voters up, tolerates 1)"]);
    }
}

/// A missing answer is reported, unless it only repeats that there is no quorum; a refusal is always reported.
#[test]
fn silence_is_told_once_and_refusals_always() {
    let silent = with(|snapshot| snapshot.talos_of("cp-1").etcd_alarms = gap(GapKind::TimedOut));
    assert_eq!(wrong("etcd.alarms", &silent), ["cp-1: error timed-out"]);
    let mut unproven = every(|talos| talos.etcd_members = gap(GapKind::TimedOut));
    assert_eq!(status("etcd.quorum", &unproven), Status::Error);
    for check in ["etcd.alarms", "etcd.members.consistent", "etcd.members.nodes", "etcd.learners"] {
        let blocked = CONTROL_PLANES.map(|name| format!("{name}: blocked etcd.quorum"));
        assert_eq!(wrong(check, &unproven), blocked, "{check}");
    }
    unproven.talos_of("cp-1").etcd_alarms = gap(GapKind::Forbidden);
    assert_eq!(wrong("etcd.alarms", &unproven)[0], "cp-1: error role-too-low, for ever");
}

#[test]
fn a_member_without_a_status_is_explained_by_the_quorum_first() {
    let silent = every(|talos| {
        talos.etcd_status = gap(GapKind::TimedOut);
        talos.etcd_members = gap(GapKind::TimedOut);
    });
    for check in ["etcd.space", "etcd.versions"] {
        let blocked = CONTROL_PLANES.map(|name| format!("{name}: blocked etcd.quorum"));
        assert_eq!(wrong(check, &silent), blocked, "{check}");
    }
}

#[test]
fn only_what_blocks_everybody_blocks_the_quorum() {
    let stopped = |snapshot: &mut Snapshot, name: &str| {
        snapshot.service_mut(name, "etcd").healthy = Some(false);
        let talos = snapshot.talos_of(name);
        (talos.etcd_status, talos.etcd_members) = (gap(GapKind::NotAsked), gap(GapKind::NotAsked));
    };
    let mut snapshot = every(|talos| {
        talos.etcd_status = gap(GapKind::TimedOut);
        talos.etcd_members = gap(GapKind::TimedOut);
    });
    stopped(&mut snapshot, "cp-1");
    assert_eq!(wrong("etcd.quorum", &snapshot), ["cluster: error quorum-unproven"]);
    assert_eq!(observed("etcd.quorum", &snapshot), ["test: TimedOut"]);
    stopped(&mut snapshot, "cp-2");
    stopped(&mut snapshot, "cp-3");
    assert_eq!(wrong("etcd.quorum", &snapshot), ["cluster: blocked etcd.service"]);
}

#[test]
fn a_split_cluster_is_not_looked_at_again() {
    let differ = with(|snapshot| drop(snapshot.talos_of("cp-2").etcd_members.as_mut().unwrap().pop()));
    assert_eq!(judge("etcd.members.consistent", &differ).resample_after, Some(Duration::from_secs(1)));
    let split = with(|snapshot| {
        snapshot.talos_of("cp-1").etcd_members = Ok(vec![member(0)]);
        snapshot.talos_of("cp-2").etcd_members = Ok(vec![member(1), member(2)]);
        snapshot.talos_of("cp-3").etcd_members = Ok(vec![member(1), member(2)]);
    });
    assert_eq!(judge("etcd.members.consistent", &split).resample_after, None);
}

#[test]
fn a_refused_member_list_is_final_everywhere_only() {
    let mut refused = every(|talos| {
        talos.etcd_status = gap(GapKind::TimedOut);
        talos.etcd_members = gap(GapKind::Forbidden);
    });
    assert_eq!(wrong("etcd.quorum", &refused), ["cluster: error role-too-low, for ever"]);
    refused.talos_of("cp-3").etcd_members = gap(GapKind::TimedOut);
    assert_eq!(wrong("etcd.quorum", &refused), ["cluster: error quorum-unproven"]);
}

#[test]
fn without_talos_whoever_may_not_read_is_told_so() {
    let mut snapshot = healthy().without_talos();
    snapshot.kube().nodes = gap(GapKind::Forbidden);
    assert_eq!(wrong("etcd.quorum", &snapshot), ["cluster: error forbidden-or-starting"]);
    snapshot.kube().credentials.as_mut().unwrap().certificate.as_mut().unwrap().matches_key = false;
    assert_eq!(wrong("etcd.quorum", &snapshot), ["cluster: blocked k8s.credentials"]);
}

#[test]
fn only_a_term_that_grows_is_a_change_of_leader() {
    for (before, expected) in [(2, 1), (3, 0), (4, 0)] {
        let snapshot = with(|snapshot| snapshot.memory.raft_term = Some(before));
        assert_eq!(wrong("etcd.leader", &snapshot).len(), expected, "{before}");
    }
}

#[test]
fn members_of_nobody_are_down_whoever_else_is_silent() {
    let mut old = member(2);
    (old.id, old.name) = (9, "cp-old".to_owned());
    old.peer_urls = vec!["https://10.0.0.9:2380".to_owned()];
    let silent = with(|snapshot| {
        snapshot.set_members(&[member(0), member(1), member(2), old.clone()]);
        snapshot.talos_of("cp-2").contact = gap(GapKind::Broken);
    });
    assert_eq!(observed("etcd.tolerance", &silent), ["2 of 4 voters up (cp-old is not), tolerates 0"]);
    // The machine was reinstalled, and its former member is still listed.
    let renewed = with(|snapshot| {
        (old.name, old.peer_urls) = ("cp-3".to_owned(), member(2).peer_urls);
        snapshot.set_members(&[member(0), member(1), member(2), old]);
    });
    assert_eq!(observed("etcd.tolerance", &renewed), ["3 of 4 voters up (0000000000000009 is not), tolerates 0"]);
}

#[test]
fn what_two_voters_lack_is_the_margin_that_was_asked_for() {
    let mut two = healthy().only(&["cp-1", "cp-2", "w-1"]);
    two.asked.require_quorum_margin = Some(1);
    assert_eq!(wrong("etcd.tolerance", &two), ["cluster: fail margin-unmet"]);
}

#[test]
fn a_margin_that_may_not_be_seen_is_refused_for_ever() {
    let refused = with(|snapshot| snapshot.talos_of("cp-3").etcd_status = gap(GapKind::Forbidden));
    assert_eq!(wrong("etcd.tolerance", &refused), ["cluster: error role-too-low, for ever, see etcd.leader"]);
}

#[test]
fn an_even_number_of_voters_is_a_warning() {
    let voters = |count: usize| {
        let mut snapshot = healthy().without_talos();
        let member = |index| EtcdMember { id: member_id(index), ..member(0) };
        let endpoint = |index| EtcdEndpoint {
            address: format!("10.0.1.{index}:2379"),
            status: Ok(etcd_status(index)),
            members: Ok((0..count).map(member).collect()),
            alarms: Ok(Vec::new()),
        };
        snapshot.external_etcd = Some((0..count).map(endpoint).collect());
        snapshot
    };
    for (count, warned) in [(3, false), (4, true), (5, false), (6, true)] {
        let expected: &[&str] = if warned { &["cluster: warn even-members"] } else { &[] };
        assert_eq!(wrong("etcd.tolerance", &voters(count)), expected, "{count}");
    }
    assert_eq!(observed("etcd.tolerance", &voters(4)), ["4 voters survive only 1 failure, the same as 3"]);
}

#[test]
fn an_alarm_of_one_member_explains_a_full_database_of_any() {
    let see = ", see etcd.alarms";
    for (id, alarm, by) in [(1, "NOSPACE", see), (0, "NOSPACE", see), (1, "CORRUPT", "")] {
        let snapshot = with(|snapshot| {
            let status = snapshot.etcd_status_mut("cp-2");
            (status.db_size, status.db_size_in_use) = (2 << 30, 2 << 30);
            status.errors = vec![format!("memberID:{} alarm:{alarm} ", member_id(id))];
        });
        assert_eq!(wrong("etcd.space", &snapshot), [format!("cp-2: fail space-nearly-full{by}")]);
    }
}
