use std::time::Duration;

use crate::model::{Hint, Reason, Status};
use crate::snapshot::{AlarmKind, EtcdAlarm, EtcdEndpoint, GapKind, Snapshot};
use crate::testing::fixture::{CONTROL_PLANES, ago, gap, healthy, member, member_id};
use crate::testing::judged::{failing, hints, judge, lines, observed, status, wrong};

fn with(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut snapshot = healthy();
    change(&mut snapshot);
    snapshot
}

#[test]
fn healthy_members_and_the_quorum_are_listed() {
    assert_eq!(lines("etcd.service", &healthy())[0], "Node cp-1 (10.0.0.1): etcd member healthy");
    assert_eq!(lines("etcd.quorum", &healthy()), ["etcd cluster has quorum (3 of 3 voters up, tolerates 1)"]);
}

/// Recorded loss of quorum: the service still reports healthy, the status has no leader, the list is refused, the alarms time out.
fn quorum_lost() -> Snapshot {
    with(|snapshot| {
        snapshot.power_off("cp-2");
        snapshot.power_off("cp-3");
        let status = snapshot.etcd_status_mut("cp-1");
        status.leader = 0;
        status.errors = vec!["etcdserver: no leader".to_owned()];
        snapshot.talos_of("cp-1").etcd_members = gap(GapKind::ServerError);
        snapshot.talos_of("cp-1").etcd_alarms = gap(GapKind::TimedOut);
    })
}

#[test]
fn a_lost_quorum_is_one_cause() {
    let mut snapshot = quorum_lost();
    assert_eq!(wrong("etcd.quorum", &snapshot), ["cluster: fail quorum-lost"]);
    assert_eq!(judge("etcd.quorum", &snapshot).resample_after, None);
    let assumed = "1 of 3 voters up, need 2; no leader (voters assumed: one on each control plane)";
    assert_eq!(observed("etcd.quorum", &snapshot), [assumed]);
    assert_eq!(failing(&snapshot), ["talos.nodes.reachable", "etcd.quorum"]);
    assert_eq!(wrong("etcd.tolerance", &snapshot), ["cluster: blocked etcd.quorum"]);
    assert_eq!(wrong("etcd.alarms", &snapshot)[0], "cp-1: blocked etcd.quorum");
    assert!(lines("etcd.service", &snapshot).is_empty(), "no line may say that the member is healthy");

    snapshot.service_mut("cp-1", "etcd").healthy = Some(false);
    assert_eq!(wrong("etcd.service", &snapshot)[0], "cp-1: fail etcd-unhealthy, see etcd.quorum");
    snapshot.memory.etcd_members = Some((0..3).map(member).collect());
    assert_eq!(
        observed("etcd.quorum", &snapshot),
        ["1 of 3 voters up, need 2; no leader (voters as seen earlier in this run)"]
    );
}

#[test]
fn an_election_is_looked_at_again() {
    let snapshot = with(|snapshot| {
        for name in CONTROL_PLANES {
            snapshot.etcd_status_mut(name).leader = 0;
        }
    });
    let verdict = judge("etcd.quorum", &snapshot);
    assert_eq!((verdict.status(), verdict.resample_after), (Status::Fail, Some(Duration::from_secs(1))));
}

#[test]
fn silence_is_no_proof_either_way() {
    let all = |kind| {
        with(|snapshot| {
            for name in CONTROL_PLANES {
                snapshot.talos_of(name).etcd_status = gap(kind);
                snapshot.talos_of(name).etcd_members = gap(kind);
            }
        })
    };
    assert_eq!(wrong("etcd.quorum", &all(GapKind::TimedOut)), ["cluster: error quorum-unproven"]);
    assert_eq!(wrong("etcd.quorum", &all(GapKind::Forbidden)), ["cluster: error role-too-low, for ever"]);
}

#[test]
fn old_versions_ask_for_a_higher_role() {
    for (tag, reason) in
        [("v1.9.5", "-for-this-version"), ("v1.10.0", "-for-this-version"), ("v1.9.6", ""), ("v1.10.1", "")]
    {
        let snapshot = with(|snapshot| {
            let node = snapshot.talos_of("cp-2");
            tag.clone_into(&mut node.contact.as_mut().unwrap().version.tag);
            node.etcd_alarms = gap(GapKind::Forbidden);
        });
        assert_eq!(wrong("etcd.alarms", &snapshot), [format!("cp-2: error role-too-low{reason}, for ever")]);
    }
}

#[test]
fn a_cluster_that_was_never_bootstrapped() {
    let mut snapshot = with(|snapshot| {
        let kubernetes = snapshot.kube();
        kubernetes.endpoint = gap(GapKind::ConnectionRefused);
        kubernetes.nodes = gap(GapKind::NotAsked);
        kubernetes.servers.clear();
        for name in CONTROL_PLANES {
            let service = snapshot.service_mut(name, "etcd");
            "Preparing".clone_into(&mut service.state);
            service.healthy = None;
            let talos = snapshot.talos_of(name);
            (talos.etcd_status, talos.etcd_members) = (gap(GapKind::NotAsked), gap(GapKind::NotAsked));
            talos.etcd_alarms = gap(GapKind::NotAsked);
            talos.etcd_member_id = Ok(None);
            talos.etcd_data_absent = Ok(true);
        }
    });
    assert_eq!(wrong("etcd.service", &snapshot)[2], "cp-3: fail never-bootstrapped");
    assert_eq!(wrong("etcd.quorum", &snapshot), ["cluster: blocked etcd.service"]);
    let doubts: [fn(&mut Snapshot); 4] = [
        |it| it.talos_of("cp-2").etcd_data_absent = Ok(false),
        |it| it.talos_of("cp-2").etcd_data_absent = gap(GapKind::Forbidden),
        |it| it.kube().endpoint = Ok(crate::testing::fixture::readyz("https://k8s.example:6443")),
        |it| "Failed".clone_into(&mut it.service_mut("cp-2", "etcd").state),
    ];
    for doubt in doubts {
        let mut doubted = snapshot.clone();
        doubt(&mut doubted);
        assert_eq!(wrong("etcd.service", &doubted)[0], "cp-1: fail etcd-starting");
    }
    snapshot.power_off("cp-3");
    assert_eq!(wrong("etcd.service", &snapshot)[0], "cp-1: fail etcd-starting");
}

#[test]
fn leaders_and_terms_agree() {
    let other_leader = with(|snapshot| snapshot.etcd_status_mut("cp-2").leader = member_id(1));
    let other_term = with(|snapshot| snapshot.etcd_status_mut("cp-2").raft_term = 4);
    let foreign_leader = with(|snapshot| {
        for name in CONTROL_PLANES {
            snapshot.etcd_status_mut(name).leader = 7;
        }
    });
    for snapshot in [other_leader, other_term, foreign_leader] {
        assert_eq!(wrong("etcd.leader", &snapshot), ["cluster: fail leaders-differ"]);
        assert_eq!(judge("etcd.leader", &snapshot).resample_after, Some(Duration::from_secs(1)));
    }
    let grown = with(|snapshot| snapshot.memory.raft_term = Some(2));
    assert_eq!(wrong("etcd.leader", &grown), ["cluster: warn leader-changes"]);
    // The change of leader is still reported in later rounds.
    let since = |seconds: u64| {
        with(|snapshot| {
            let memory = &mut snapshot.memory;
            (memory.elected, memory.elapsed) = (Some(Duration::from_secs(100)), Duration::from_secs(100 + seconds));
        })
    };
    assert_eq!(wrong("etcd.leader", &since(59)), ["cluster: warn leader-changes"]);
    assert_eq!(status("etcd.leader", &since(60)), Status::Pass);
}

#[test]
fn member_lists_agree_by_id_and_vote() {
    let renamed = with(|snapshot| snapshot.talos_of("cp-2").etcd_members.as_mut().unwrap()[0].name.clear());
    assert_eq!(status("etcd.members.consistent", &renamed), Status::Pass);
    let differ = with(|snapshot| drop(snapshot.talos_of("cp-2").etcd_members.as_mut().unwrap().pop()));
    assert_eq!(wrong("etcd.members.consistent", &differ), ["cluster: fail members-differ"]);
    let fewer = with(|snapshot| snapshot.talos_of("cp-2").etcd_members = Ok(vec![member(1)]));
    assert_eq!(wrong("etcd.members.consistent", &fewer), ["cluster: fail members-differ"]);
    let split = with(|snapshot| {
        snapshot.talos_of("cp-1").etcd_members = Ok(vec![member(0)]);
        snapshot.talos_of("cp-2").etcd_members = Ok(vec![member(1), member(2)]);
        snapshot.talos_of("cp-3").etcd_members = Ok(vec![member(1), member(2)]);
    });
    assert_eq!(wrong("etcd.members.consistent", &split), ["cluster: fail split-cluster"]);
}

#[test]
fn members_and_control_planes_match_by_id() {
    let mut old = member(2);
    old.id = 9;
    old.name = "cp-old".to_owned();
    old.peer_urls = vec!["https://[fd00::9]:2380".to_owned()];
    let four = [member(0), member(1), member(2), old.clone()];
    let mut snapshot = with(|snapshot| snapshot.set_members(&four));
    assert_eq!(wrong("etcd.members.nodes", &snapshot), ["cp-old: fail stale-member"]);
    // Until its id is known, a member that is down looks like one that could be the machine's.
    snapshot.power_off("cp-3");
    assert_eq!(
        wrong("etcd.members.nodes", &snapshot),
        ["cp-3: blocked talos.nodes.reachable", "cp-old: fail stale-member"]
    );
    let mut removed = with(|snapshot| snapshot.set_members(&[member(0), member(1)]));
    // A running member was not removed: it would have stopped.
    assert_eq!(wrong("etcd.members.consistent", &removed), ["cluster: fail split-cluster"]);
    removed.talos_of("cp-3").etcd_status = gap(GapKind::ConnectionRefused);
    assert_eq!(wrong("etcd.members.nodes", &removed), ["cp-3: fail not-a-member"]);
    let renewed = with(|snapshot| {
        old.peer_urls = member(2).peer_urls;
        snapshot.set_members(&[member(0), member(1), member(2), old]);
    });
    assert_eq!(wrong("etcd.members.nodes", &renewed), ["cp-old: fail stale-member"]);
}

#[test]
fn joining_members_have_five_minutes() {
    for (age, severity) in [(60, "warn"), (400, "fail")] {
        let joining = with(|snapshot| {
            let mut unnamed = member(2);
            unnamed.id = 9;
            unnamed.name.clear();
            snapshot.set_members(&[member(0), member(1), member(2), unnamed]);
            snapshot.service_mut("cp-3", "etcd").running_since = Some(ago(age));
        });
        assert_eq!(wrong("etcd.members.nodes", &joining), [format!("0000000000000009: {severity} member-joining")]);
        let learner = with(|snapshot| {
            snapshot.etcd_status_mut("cp-3").is_learner = true;
            snapshot.service_mut("cp-3", "etcd").running_since = Some(ago(age));
        });
        assert_eq!(wrong("etcd.learners", &learner), [format!("cp-3: {severity} learner")]);
    }
}

#[test]
fn a_learner_of_unknown_age_is_not_a_young_one() {
    let snapshot = with(|snapshot| {
        snapshot.etcd_status_mut("cp-3").is_learner = true;
        let service = snapshot.service_mut("cp-3", "etcd");
        (service.running_since, service.last_event) = (None, None);
    });
    assert_eq!(wrong("etcd.learners", &snapshot), ["cp-3: fail learner"]);
}

/// Name, proposed remedy and last likely cause for each member with a sparse or full database.
fn defragmentations(id: &str, snapshot: &Snapshot) -> Vec<(String, Option<Hint>, String)> {
    let verdict = judge(id, snapshot);
    let reasons = [Reason::Fragmented, Reason::AlarmNospace];
    let problems = verdict.problems().filter(|(_, problem)| reasons.contains(&problem.reason));
    problems
        .map(|(target, problem)| {
            let remedy = problem.hints.iter().find(|hint| matches!(hint, Hint::Remedy { .. })).cloned();
            let words = problem.hints.iter().rev().find_map(|hint| match hint {
                Hint::Likely(words) => Some(words.clone()),
                _ => None,
            });
            (target.name.clone(), remedy, words.unwrap_or_default())
        })
        .collect()
}

fn sparse(snapshot: &mut Snapshot, names: &[&str]) {
    for name in names {
        let status = snapshot.etcd_status_mut(name);
        (status.db_size, status.db_size_in_use) = (1 << 30, 1 << 28);
    }
}

/// Defragmentation does not shrink a file whose data is all in use.
#[test]
fn nothing_is_defragmented_that_frees_nothing() {
    let full = |used: u64| {
        with(|snapshot| {
            let member_id = snapshot.etcd_status_mut("cp-2").member_id;
            let status = snapshot.etcd_status_mut("cp-2");
            (status.db_size, status.db_size_in_use) = (2 << 30, used);
            snapshot.talos_of("cp-1").etcd_alarms = Ok(vec![EtcdAlarm { member_id, kind: AlarmKind::NoSpace }]);
        })
    };
    for (used, proposed) in
        [(2 << 30, false), (2_040_109_466, false), (2_040_109_465, true), (1 << 30, true), (0, false)]
    {
        let hints = hints("etcd.alarms", &full(used));
        assert_eq!(hints.iter().any(|hint| matches!(hint, Hint::Remedy { .. })), proposed, "{used}: {hints:#?}");
        let says_so = |hint: &Hint| matches!(hint, Hint::Likely(text) if text.contains("frees nothing"));
        assert_eq!(hints.iter().any(says_so), !proposed, "{used}: {hints:#?}");
    }
    let mut unknown = full(1 << 30);
    unknown.talos_of("cp-2").etcd_status = gap(GapKind::TimedOut);
    assert!(!hints("etcd.alarms", &unknown).iter().any(|hint| matches!(hint, Hint::Remedy { .. })));
}

/// A member does not respond while it is being defragmented: one at a time, and none while another is missing.
#[test]
fn members_are_defragmented_one_by_one_and_only_where_one_can_be_spared() {
    let proposed = |address| Some(Hint::remedy("{talosctl} -n {} etcd defrag", [address]));
    let seen = defragmentations("etcd.space", &with(|snapshot| sparse(snapshot, &CONTROL_PLANES)));
    let remedies: Vec<_> = seen.iter().map(|(name, remedy, _)| (name.as_str(), remedy.clone())).collect();
    assert_eq!(remedies, [("cp-1", None), ("cp-2", proposed("10.0.0.2")), ("cp-3", None)], "cp-1 leads");
    assert!(seen[0].2.starts_with("defragment it after cp-2 (10.0.0.2)"), "{seen:?}");

    let leader = defragmentations("etcd.space", &with(|snapshot| sparse(snapshot, &["cp-1"])));
    assert_eq!(leader[0].1, proposed("10.0.0.1"), "nobody is left before it");

    let mut missing = with(|snapshot| sparse(snapshot, &["cp-1", "cp-2"]));
    missing.power_off("cp-3");
    let alarm = EtcdAlarm { member_id: member_id(1), kind: AlarmKind::NoSpace };
    for name in ["cp-1", "cp-2"] {
        missing.talos_of(name).etcd_alarms = Ok(vec![alarm.clone()]);
        missing.etcd_status_mut(name).db_size = 2 << 30;
    }
    for id in ["etcd.space", "etcd.alarms"] {
        let seen = defragmentations(id, &missing);
        assert!(!seen.is_empty(), "{id}");
        for (name, remedy, words) in seen {
            assert_eq!(remedy, None, "{id} {name}");
            assert!(words.contains("until all voters are up"), "{id} {name}: {words}");
        }
    }

    let mut single = with(|snapshot| sparse(snapshot, &["cp-1"])).only(&["cp-1"]);
    let mut members = single.talos_of("cp-1").etcd_members.clone().unwrap();
    members.truncate(1);
    single.talos_of("cp-1").etcd_members = Ok(members);
    let seen = defragmentations("etcd.space", &single);
    assert_eq!(seen[0].1, proposed("10.0.0.1"));
    assert!(seen[0].2.contains("is unavailable for the seconds"), "{seen:?}");
}

/// An alarm stays until it is disarmed, and disarming clears all alarms, CORRUPT included.
#[test]
fn an_alarm_that_the_database_has_outlived_is_to_be_disarmed() {
    let left = |change: fn(&mut Snapshot)| {
        let snapshot = with(|snapshot| {
            let alarm = EtcdAlarm { member_id: member_id(1), kind: AlarmKind::NoSpace };
            snapshot.talos_of("cp-1").etcd_alarms = Ok(vec![alarm]);
            change(snapshot);
        });
        let hints = hints("etcd.alarms", &snapshot);
        let is_told = |hint: &Hint| matches!(hint, Hint::Likely(words) if words.contains("has room again"));
        (hints.iter().any(is_told), hints.contains(&Hint::remedy("{talosctl} -n {} etcd alarm disarm", ["10.0.0.2"])))
    };
    assert_eq!(left(|_| {}), (true, true));
    assert_eq!(left(|it| it.etcd_status_mut("cp-2").db_size = 1_800_000_000), (false, false));
    assert_eq!(left(|it| it.etcd_status_mut("cp-3").db_size = 1_800_000_000), (true, false), "another is full");
    assert_eq!(left(|it| it.talos_of("cp-3").etcd_status = gap(GapKind::TimedOut)), (true, false), "or may be");
    let corrupt = |it: &mut Snapshot| {
        let alarm = EtcdAlarm { member_id: member_id(2), kind: AlarmKind::Corrupt };
        it.talos_of("cp-1").etcd_alarms.as_mut().unwrap().push(alarm);
    };
    assert_eq!(left(corrupt), (true, false));
}

#[test]
fn alarms_are_shown_once_with_their_member() {
    let alarm = EtcdAlarm { member_id: member_id(1), kind: AlarmKind::NoSpace };
    let snapshot = with(|snapshot| {
        for name in CONTROL_PLANES {
            snapshot.talos_of(name).etcd_alarms = Ok(vec![alarm.clone()]);
            snapshot.etcd_status_mut(name).errors = vec![format!("memberID:{} alarm:NOSPACE ", member_id(1))];
        }
    });
    assert_eq!(wrong("etcd.alarms", &snapshot), ["cp-2: fail alarm-nospace"]);
    let mut full = snapshot.clone();
    let status = full.etcd_status_mut("cp-2");
    (status.db_size, status.db_size_in_use) = (2 << 30, 1_181_116_006);
    let verdict = judge("etcd.alarms", &full);
    let (_, problem) = verdict.problems().next().unwrap();
    assert_eq!(problem.observed, "NOSPACE, database 2.0 GiB of 2.0 GiB, 1.1 GiB in use");
    assert_eq!(problem.hints.last(), Some(&Hint::remedy("{talosctl} -n {} etcd defrag", ["10.0.0.2"])));
    for (text, expected) in [
        (format!("memberID:{} alarm:CORRUPT", member_id(1)), "cp-2: fail alarm-corrupt"),
        (format!("memberID:{} alarm:PANIC", member_id(1)), "cp-2: fail alarm-unknown"),
        ("something new".to_owned(), "cp-1: fail etcd-unhealthy"),
    ] {
        let snapshot = with(|snapshot| snapshot.etcd_status_mut("cp-1").errors = vec![text]);
        assert_eq!(wrong("etcd.alarms", &snapshot), [expected]);
    }
    let mut lost = quorum_lost();
    lost.etcd_status_mut("cp-1").errors.push(format!("memberID:{} alarm:NOSPACE", member_id(0)));
    assert!(wrong("etcd.alarms", &lost).contains(&"1000000000000001: fail alarm-nospace".to_owned()));
}

#[test]
fn tolerance_counts_voters_that_are_up() {
    assert_eq!(lines("etcd.tolerance", &healthy().only(&["cp-1"])), ["etcd has a single voter: tolerates 0"]);
    let two = healthy().only(&["cp-1", "cp-2", "w-1"]);
    assert_eq!(wrong("etcd.tolerance", &two), ["cluster: warn two-members"]);
    let unknown = with(|snapshot| snapshot.talos_of("cp-3").etcd_status = gap(GapKind::TimedOut));
    assert_eq!(wrong("etcd.tolerance", &unknown), ["cluster: error no-answer, see etcd.leader"]);
    let margin = with(|snapshot| snapshot.asked.require_quorum_margin = Some(2));
    assert_eq!(wrong("etcd.tolerance", &margin), ["cluster: fail margin-unmet"]);
    assert_eq!(observed("etcd.tolerance", &margin), ["3 of 3 voters up, tolerates 1, 2 required"]);
    let met = with(|snapshot| snapshot.asked.require_quorum_margin = Some(1));
    assert_eq!(status("etcd.tolerance", &met), Status::Pass);
}

#[test]
fn voters_that_are_down_are_named() {
    let mut snapshot = healthy();
    snapshot.power_off("cp-3");
    let verdict = judge("etcd.tolerance", &snapshot);
    let (_, problem) = verdict.problems().next().unwrap();
    assert_eq!(problem.observed, "2 of 3 voters up (cp-3 is not), tolerates 0");
    assert_eq!(
        problem.hints,
        [
            Hint::likely("losing one more member stops the cluster until cp-3 is back"),
            Hint::run("{talosctl} -n {} etcd members", ["10.0.0.1"]),
        ]
    );
    // A member without a machine is down; a member that could not be queried may be up.
    let mut old = member(2);
    (old.id, old.name) = (9, "cp-old".to_owned());
    old.peer_urls = vec!["https://10.0.0.9:2380".to_owned()];
    let untold = with(|snapshot| {
        snapshot.set_members(&[member(0), member(1), member(2), old]);
        snapshot.talos_of("cp-2").etcd_status = gap(GapKind::TimedOut);
    });
    assert_eq!(observed("etcd.tolerance", &untold), ["2 of 4 voters up (cp-old is not), tolerates 0"]);
}

#[test]
fn a_member_of_which_nothing_is_known_is_not_down() {
    let silent = with(|snapshot| {
        let node = snapshot.talos_of("cp-2");
        (node.services, node.etcd_status) = (gap(GapKind::Broken), gap(GapKind::Broken));
    });
    assert_eq!(wrong("etcd.tolerance", &silent), ["cluster: error no-answer"]);
    let not_asked = with(|snapshot| snapshot.talos_of("cp-2").contact = gap(GapKind::Broken));
    assert_eq!(wrong("etcd.tolerance", &not_asked), ["cluster: error no-answer"]);
    for kind in [GapKind::NodeUnreachable, GapKind::TimedOut, GapKind::Maintenance] {
        let lost = with(|snapshot| {
            snapshot.talos_of("cp-2").contact = gap(kind);
            snapshot.kube().servers.insert("cp-2".to_owned(), gap(GapKind::NoRoute));
        });
        assert_eq!(wrong("etcd.tolerance", &lost), ["cluster: fail no-tolerance, see talos.nodes.reachable"]);
    }
}

/// A machine on which only machined fails stops responding, but its containers keep running.
#[test]
fn a_silent_machine_whose_api_server_answers_may_run_its_etcd() {
    for kind in [GapKind::NodeUnreachable, GapKind::TimedOut] {
        let served = with(|snapshot| {
            snapshot.talos_of("cp-2").contact = gap(kind);
            snapshot.talos_mut().endpoints[1].version = gap(kind);
        });
        assert_eq!(wrong("etcd.tolerance", &served), ["cluster: error no-answer, see talos.nodes.reachable"]);
        let seen = observed("etcd.tolerance", &served);
        assert_eq!(seen, ["2 of 3 voters up, tolerates 0; 1 more could not be queried"]);
        let mut misses_etcd = served.clone();
        misses_etcd.kube().servers.get_mut("cp-2").unwrap().as_mut().unwrap().failed = vec!["etcd".to_owned()];
        assert_eq!(wrong("etcd.tolerance", &misses_etcd), ["cluster: fail no-tolerance, see talos.nodes.reachable"]);
        assert_eq!(
            wrong("etcd.tolerance", &served.without_kubernetes()),
            ["cluster: fail no-tolerance, see talos.nodes.reachable"]
        );
    }
    let unconfigured = with(|snapshot| snapshot.talos_of("cp-2").contact = gap(GapKind::Maintenance));
    assert_eq!(
        wrong("etcd.tolerance", &unconfigured),
        ["cluster: fail no-tolerance, see talos.nodes.reachable"],
        "it has no etcd"
    );
}

#[test]
fn credentials_for_external_etcd_are_asked_for() {
    for (kind, option) in [(GapKind::UnknownCa, "--etcd-cacert"), (GapKind::Unauthenticated, "--etcd-cert")] {
        let mut snapshot = healthy().without_talos();
        snapshot.external_etcd = Some(vec![EtcdEndpoint {
            address: "10.0.1.0:2379".to_owned(),
            status: gap(kind),
            members: gap(kind),
            alarms: gap(kind),
        }]);
        let verdict = judge("etcd.quorum", &snapshot);
        let (_, problem) = verdict.problems().next().unwrap();
        let hints: Vec<_> = problem.hints.iter().collect();
        assert!(matches!(hints[..], [Hint::Likely(text)] if text.contains(option)), "{hints:?}");
    }
}

#[test]
fn external_etcd_is_judged_by_its_own_answers() {
    let mut snapshot = healthy().without_talos();
    snapshot.external_etcd = Some(
        (0..3)
            .map(|index| EtcdEndpoint {
                address: format!("10.0.1.{index}:2379"),
                status: Ok(crate::testing::fixture::etcd_status(index)),
                members: Ok((0..3).map(member).collect()),
                alarms: Ok(Vec::new()),
            })
            .collect(),
    );
    assert_eq!(lines("etcd.quorum", &snapshot), ["etcd cluster has quorum (3 of 3 voters up, tolerates 1)"]);
    for id in ["etcd.leader", "etcd.members.consistent", "etcd.learners", "etcd.alarms", "etcd.tolerance"] {
        assert_eq!(status(id, &snapshot), Status::Pass, "{id}");
    }
    snapshot.external_etcd = Some(Vec::new());
    assert_eq!(status("etcd.quorum", &snapshot), Status::Error);
}

#[test]
fn without_talos_a_list_of_nodes_proves_the_quorum() {
    let mut snapshot = healthy().without_talos();
    assert_eq!(status("etcd.quorum", &snapshot), Status::Pass);
    snapshot.kube().nodes = Ok(Vec::new());
    assert_eq!(wrong("etcd.quorum", &snapshot), ["cluster: error storage-unproven"]);
    snapshot.kube().nodes = gap(GapKind::TimedOut);
    assert_eq!(wrong("etcd.quorum", &snapshot), ["cluster: error storage-unproven"]);
    snapshot.kube().nodes = gap(GapKind::Forbidden);
    assert_eq!(wrong("etcd.quorum", &snapshot), ["cluster: error forbidden-or-starting"]);
    snapshot.memory = snapshot.memory.after(&snapshot, Duration::ZERO);
    snapshot.memory.elapsed = Duration::from_secs(90);
    assert_eq!(wrong("etcd.quorum", &snapshot), ["cluster: error forbidden, for ever"]);
    snapshot.kube().endpoint = gap(GapKind::TimedOut);
    assert_eq!(wrong("etcd.quorum", &snapshot), ["cluster: blocked k8s.api.endpoint"]);
}

#[test]
fn a_member_that_tells_no_term_agrees_with_nobody() {
    let mut snapshot = healthy().only(&["cp-1"]);
    snapshot.etcd_status_mut("cp-1").raft_term = 0;
    assert_eq!(wrong("etcd.leader", &snapshot), ["cp-1: error no-answer"]);
}

#[test]
fn a_voter_that_nobody_named_is_not_down() {
    let mut snapshot = healthy().without_talos();
    snapshot.external_etcd = Some(vec![EtcdEndpoint {
        address: "10.0.1.0:2379".to_owned(),
        status: Ok(crate::testing::fixture::etcd_status(0)),
        members: Ok((0..3).map(member).collect()),
        alarms: Ok(Vec::new()),
    }]);
    assert_eq!(wrong("etcd.tolerance", &snapshot), ["cluster: error no-answer"]);
}

#[test]
fn a_margin_that_was_demanded_has_to_be_seen() {
    let mut snapshot = healthy().without_talos();
    assert_eq!(status("etcd.tolerance", &snapshot), Status::Skip);
    snapshot.asked.require_quorum_margin = Some(1);
    assert_eq!(wrong("etcd.tolerance", &snapshot), ["cluster: error no-answer, for ever"]);
}
