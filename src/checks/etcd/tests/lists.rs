//! Members and the machines that they could belong to.

use crate::model::{Hint, Status};
use crate::snapshot::{AlarmKind, EtcdAlarm, EtcdMember, GapKind, LinkAddress, Snapshot, Sources, TalosNode};
use crate::testing::fixture::{CONTROL_PLANES, Shape, ago, gap, healthy, kube_node, member, member_id, node, now};
use crate::testing::judged::{failing, hints, judge, observed, status, wrong};
use jiff::SignedDuration;

fn with(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut snapshot = healthy();
    change(&mut snapshot);
    snapshot
}

/// A member `cp-old` at 10.0.0.9.
fn old() -> EtcdMember {
    EtcdMember {
        id: 9,
        name: "cp-old".to_owned(),
        peer_urls: vec!["https://10.0.0.9:2380".to_owned()],
        client_urls: vec!["https://10.0.0.9:2379".to_owned()],
        is_learner: false,
    }
}

/// Adds this member to all member lists.
fn with_member(extra: EtcdMember) -> Snapshot {
    with(|snapshot| snapshot.set_members(&[member(0), member(1), member(2), extra]))
}

/// Removing a member cannot be undone, so all evidence has to support it.
#[test]
fn removing_a_member_is_proposed_only_if_nobody_knows_its_machine() {
    let remove = Hint::remedy("{talosctl} -n {} etcd remove-member {}", ["10.0.0.1", "0000000000000009"]);
    assert!(hints("etcd.members.nodes", &with_member(old())).contains(&remove));
    let known: [fn(&mut Snapshot); 14] = [
        |it| it.kubernetes = None,
        |it| it.kube().nodes = gap(GapKind::TimedOut),
        |it| it.kube().nodes = Ok(Vec::new()),
        |it| it.kube().nodes.as_mut().unwrap().push(kube_node(19, "cp-old")),
        |it| it.kube().nodes.as_mut().unwrap().push(kube_node(19, "cp-old.example.org")),
        |it| it.kube().nodes.as_mut().unwrap().push(kube_node(8, "renamed")),
        |it| "10.0.0.9:50000".clone_into(&mut it.talos_mut().endpoints[2].address),
        |it| "cp-old:50000".clone_into(&mut it.talos_mut().endpoints[2].address),
        |it| it.asked.control_plane_nodes = vec!["cp-old".to_owned()],
        |it| it.asked.control_plane_nodes = vec!["10.0.0.9".to_owned()],
        // The member could be this machine's, under another name.
        |it| it.power_off("cp-3"),
        |it| it.talos_of("cp-3").etcd_member_id = gap(GapKind::TimedOut),
        |it| it.talos_mut().endpoints[2].version = gap(GapKind::NoRoute),
        // No healthy member is available to carry it out.
        |it| ["cp-1", "cp-2", "cp-3"].iter().for_each(|name| it.service_mut(name, "etcd").healthy = Some(false)),
    ];
    for (case, change) in known.into_iter().enumerate() {
        let mut snapshot = with_member(old());
        change(&mut snapshot);
        if let [name] = &snapshot.asked.control_plane_nodes[..] {
            assert!(!name.is_empty());
            snapshot.nodes.iter_mut().for_each(|node| node.sources.flags = true);
        }
        let hints = hints("etcd.members.nodes", &snapshot);
        assert!(!hints.iter().any(|hint| matches!(hint, Hint::Remedy { .. })), "{case}: {hints:?}");
        assert!(wrong("etcd.members.nodes", &snapshot).contains(&"cp-old: fail stale-member".to_owned()), "{case}");
    }
}

/// A member that appears in a list is not proof that its machine belongs to the cluster.
#[test]
fn a_machine_that_only_etcd_names_does_not_own_its_member() {
    let unseen = with(|snapshot| {
        snapshot.set_members(&[member(0), member(1), member(2), old()]);
        let mut machine = node(8, "cp-old");
        machine.talos =
            TalosNode::unasked(&crate::snapshot::Gap::new(GapKind::NodeUnreachable, "no route to host")).into();
        machine.sources = Sources { etcd: true, ..Sources::default() };
        snapshot.nodes.push(machine);
    });
    assert_eq!(wrong("etcd.members.nodes", &unseen), ["cp-old: fail stale-member"]);
    let named: [fn(&mut Sources); 4] =
        [|it| it.discovery = true, |it| it.kubernetes = true, |it| it.flags = true, |it| it.talosconfig = true];
    for name in named {
        let mut snapshot = unseen.clone();
        name(&mut snapshot.node_mut("cp-old").sources);
        assert_eq!(wrong("etcd.members.nodes", &snapshot), ["cp-old: blocked talos.nodes.reachable"]);
    }
}

#[test]
fn a_machine_that_does_not_tell_its_member_is_matched_by_name_or_address() {
    let silent = |members: &[EtcdMember]| {
        with(|snapshot| {
            snapshot.set_members(members);
            snapshot.node_mut("cp-3").addresses.push("10.1.0.3".to_owned());
            let talos = snapshot.talos_of("cp-3");
            (talos.etcd_status, talos.etcd_member_id) = (gap(GapKind::TimedOut), Ok(None));
        })
    };
    let at = |name: &str, host: &str| EtcdMember {
        name: name.to_owned(),
        peer_urls: vec![format!("https://{host}:2380")],
        ..member(2)
    };
    for own in [at("cp-3", "10.9.9.9"), at("", "10.0.0.3"), at("cp-x", "10.1.0.3")] {
        let snapshot = silent(&[member(0), member(1), own]);
        assert_eq!(wrong("etcd.members.nodes", &snapshot), ["cp-3: error timed-out, see etcd.leader"]);
    }
    // An address that is not among those of its interfaces, such as one behind NAT.
    let mut nat = silent(&[member(0), member(1), at("", "10.0.0.3")]);
    nat.node_mut("cp-3").addresses = vec!["10.1.0.3".to_owned()];
    assert_eq!(wrong("etcd.members.nodes", &nat), ["cp-3: error timed-out, see etcd.leader"]);
    let gone = silent(&[member(0), member(1)]);
    assert_eq!(wrong("etcd.members.nodes", &gone), ["cp-3: fail not-a-member"]);
    assert_eq!(observed("etcd.members.nodes", &gone), ["no member in the list has its ID, name or address"]);
    let stranger = silent(&[member(0), member(1), at("", "10.9.9.9")]);
    assert_eq!(
        wrong("etcd.members.nodes", &stranger),
        ["cp-3: fail not-a-member", "1000000000000003: fail stale-member"]
    );
}

#[test]
fn joining_ends_after_five_minutes_by_a_clock_that_can_be_right() {
    for (age, severity) in [(299, "warn"), (300, "fail"), (-59, "warn"), (-60, "fail")] {
        let joining = with(|snapshot| {
            snapshot.set_members(&[
                member(0),
                member(1),
                member(2),
                EtcdMember { id: 9, name: String::new(), ..member(2) },
            ]);
            snapshot.service_mut("cp-3", "etcd").running_since = Some(now() - SignedDuration::from_secs(age));
        });
        assert_eq!(wrong("etcd.members.nodes", &joining), [format!("0000000000000009: {severity} member-joining")]);
    }
    for (age, severity) in [(299, "warn"), (300, "fail")] {
        let learner = with(|snapshot| {
            snapshot.etcd_status_mut("cp-3").is_learner = true;
            snapshot.service_mut("cp-3", "etcd").running_since = Some(ago(age));
        });
        assert_eq!(wrong("etcd.learners", &learner), [format!("cp-3: {severity} learner")]);
    }
    let unseen = with_member(EtcdMember { is_learner: true, ..old() });
    assert_eq!(wrong("etcd.learners", &unseen), ["cp-old: fail learner"], "its age is unknown");
}

#[test]
fn a_learner_is_told_once_and_a_silent_voter_is_none() {
    let mut listed = with(|snapshot| {
        snapshot.set_members(&[member(0), member(1), EtcdMember { is_learner: true, ..member(2) }]);
    });
    assert_eq!(wrong("etcd.learners", &listed), ["cp-3: fail learner"]);
    listed.service_mut("cp-3", "etcd").running_since = Some(ago(10));
    assert_eq!(wrong("etcd.learners", &listed), ["cp-3: warn learner"]);
    let off = with(|snapshot| snapshot.power_off("cp-3"));
    assert_eq!(wrong("etcd.learners", &off), ["cp-3: blocked talos.nodes.reachable"]);
}

#[test]
fn lists_that_differ_say_who_votes() {
    let snapshot = with(|snapshot| snapshot.talos_of("cp-2").etcd_members.as_mut().unwrap()[2].is_learner = true);
    let three = "1000000000000001 1000000000000002 1000000000000003";
    assert_eq!(
        observed("etcd.members.consistent", &snapshot),
        [format!("cp-2 (10.0.0.2): {three} (learner); cp-1 (10.0.0.1), cp-3 (10.0.0.3): {three}")]
    );
}

#[test]
fn an_alarm_names_the_machine_of_its_member() {
    let alarm = |kind| {
        with(|snapshot| snapshot.talos_of("cp-1").etcd_alarms = Ok(vec![EtcdAlarm { member_id: member(1).id, kind }]))
    };
    let verdict = judge("etcd.alarms", &alarm(AlarmKind::NoSpace));
    let (target, _) = verdict.problems().next().unwrap();
    assert_eq!((target.name.as_str(), target.address.as_deref()), ("cp-2", Some("10.0.0.2")));
    assert_eq!(target.id.as_deref(), Some("1000000000000002"));
    let unknown = with(|snapshot| {
        snapshot.etcd_status_mut("cp-1").errors = vec![format!("memberID:{} alarm:PANIC", member(1).id)];
    });
    assert_eq!(
        observed("etcd.alarms", &unknown),
        ["alarm of unknown kind (-1), database 4.0 MiB of 2.0 GiB, 3.0 MiB in use"]
    );
}

/// A member does not respond while it is being defragmented.
#[test]
fn one_full_member_at_a_time_is_proposed_for_defragmentation() {
    let proposed = |kinds: &[(usize, AlarmKind)]| {
        let alarms: Vec<_> =
            kinds.iter().map(|(index, kind)| EtcdAlarm { member_id: member(*index).id, kind: kind.clone() }).collect();
        let snapshot = with(|snapshot| {
            snapshot.talos_of("cp-1").etcd_alarms = Ok(alarms);
            for name in CONTROL_PLANES {
                let status = snapshot.etcd_status_mut(name);
                (status.db_size, status.db_size_in_use) = (2 << 30, 1 << 30);
            }
        });
        let hints = hints("etcd.alarms", &snapshot);
        hints.iter().filter(|hint| matches!(hint, Hint::Remedy { .. })).count()
    };
    assert_eq!(proposed(&[(1, AlarmKind::NoSpace)]), 1);
    assert_eq!(proposed(&[(1, AlarmKind::NoSpace), (2, AlarmKind::NoSpace)]), 1);
    assert_eq!(proposed(&[(0, AlarmKind::Corrupt), (1, AlarmKind::NoSpace)]), 1);
    assert_eq!(proposed(&[(0, AlarmKind::Corrupt)]), 0);
}

/// The fixture with `--etcd-endpoints` of an etcd with these members.
fn asked_elsewhere(first_member: u64) -> Snapshot {
    let other = Shape { external_etcd: 3, first_member, ..Shape::default() }.world();
    with(|snapshot| snapshot.external_etcd = other.external_etcd)
}

#[test]
fn endpoints_of_another_etcd_fail_and_hide_nothing() {
    let foreign = || asked_elsewhere(0x7000_0000_0000_0001);
    let nodes = wrong("etcd.members.nodes", &foreign());
    assert_eq!(nodes.len(), 3, "{nodes:?}");
    assert!(nodes.iter().all(|line| line.ends_with(": fail foreign-etcd, for ever")), "{nodes:?}");
    assert_eq!(failing(&foreign()), ["etcd.members.nodes"]);
    // Both clusters are judged.
    let mut full = foreign();
    full.etcd_status_mut("cp-2").db_size = 2_100_000_000;
    full.etcd_status_mut("cp-2").db_size_in_use = 2_000_000_000;
    assert_eq!(wrong("etcd.space", &full), ["cp-2: fail space-nearly-full"]);
    for (id, name) in [(member_id(2), "cp-3"), (0x7000_0000_0000_0002, "7000000000000002")] {
        let mut corrupt = foreign();
        let alarm = EtcdAlarm { member_id: id, kind: AlarmKind::Corrupt };
        if name == "cp-3" {
            corrupt.talos_of("cp-1").etcd_alarms = Ok(vec![alarm]);
        } else {
            corrupt.external_etcd.as_mut().unwrap()[0].alarms = Ok(vec![alarm]);
        }
        assert_eq!(wrong("etcd.alarms", &corrupt), [format!("{name}: fail alarm-corrupt")]);
    }
    let mut lost = foreign();
    for name in CONTROL_PLANES {
        lost.etcd_status_mut(name).leader = 0;
        lost.talos_of(name).etcd_members = gap(GapKind::TimedOut);
    }
    assert_eq!(wrong("etcd.quorum", &lost), ["cluster: fail quorum-lost"]);
    // Another path to the same members does not make them foreign, and one common member is enough.
    let mut own = asked_elsewhere(Shape::default().first_member);
    for endpoint in own.external_etcd.as_mut().unwrap() {
        endpoint.members = Ok((0..3).map(member).collect());
    }
    assert_eq!((failing(&own), status("etcd.members.nodes", &own)), (vec![], Status::Skip));
    let mut partly = own.clone();
    partly.external_etcd.as_mut().unwrap().truncate(1);
    assert_eq!(status("etcd.members.nodes", &partly), Status::Skip);
    let mut alike = own;
    for member in alike.external_etcd.iter_mut().flatten().flat_map(|it| &mut it.members).flatten() {
        member.peer_urls = vec!["https://10.9.0.1:2380".to_owned()];
    }
    assert_eq!(failing(&alike), ["etcd.members.nodes"], "the ids are the same by chance");
    // If etcd on the machines does not report its identity, it is unknown whether the endpoints belong to it.
    let mut mute = foreign();
    for name in CONTROL_PLANES {
        let talos = mute.talos_of(name);
        talos.etcd_member_id = gap(GapKind::TimedOut);
        talos.etcd_status = gap(GapKind::TimedOut);
        talos.etcd_members = gap(GapKind::TimedOut);
    }
    assert_eq!(wrong("etcd.members.nodes", &mute), ["cp-1: error no-answer"]);
}

#[test]
fn a_member_that_is_not_where_its_peers_look_for_it_is_a_warning() {
    let of = |urls: &[&str], change: &dyn Fn(&mut Snapshot)| {
        let mut snapshot = healthy();
        for name in ["cp-1", "cp-2", "cp-3"] {
            let id = snapshot.talos_of("cp-3").etcd_status.as_ref().unwrap().member_id;
            let members = snapshot.talos_of(name).etcd_members.as_mut().unwrap();
            let member = members.iter_mut().find(|member| member.id == id).unwrap();
            member.peer_urls = urls.iter().map(|&url| url.to_owned()).collect();
        }
        change(&mut snapshot);
        wrong("etcd.members.nodes", &snapshot)
    };
    let warns = ["cp-3: warn peer-address"];
    assert_eq!(of(&["https://10.0.0.3:2380"], &|_| {}), [""; 0]);
    assert_eq!(of(&["https://100.64.0.3:2380"], &|_| {}), warns);
    assert_eq!(of(&["https://10.0.0.1:2380"], &|_| {}), warns, "another machine is there");
    assert_eq!(of(&["https://100.64.0.3:2380", "https://10.0.0.3:2380"], &|_| {}), [""; 0]);
    assert_eq!(of(&["https://cp-3.example.com:2380"], &|_| {}), [""; 0], "a name may lead there");
    assert_eq!(of(&["https://[fd00:0::3]:2380"], &|_| {}), warns);
    let link = |address: &str| LinkAddress { address: address.to_owned(), link: "eth1".to_owned(), is_single: false };
    let has =
        |snapshot: &mut Snapshot| snapshot.talos_of("cp-3").link_addresses.as_mut().unwrap().push(link("fd00::3"));
    assert_eq!(of(&["https://[fd00:0::3]:2380"], &has), [""; 0]);
    let untold = |snapshot: &mut Snapshot| snapshot.talos_of("cp-3").link_addresses = gap(GapKind::TimedOut);
    assert_eq!(of(&["https://100.64.0.3:2380"], &untold), [""; 0], "`talos.nodes.network` tells it");
}
