//! Laws: missing evidence never passes, and the order of nodes does not matter.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::model::Status;
use crate::snapshot::{GapKind, Snapshot, TalosNode};
use crate::testing::fixture::{GAPS, by_check, gap, healthy};
use crate::testing::judged::{IDS, judge, status, text};

type Break = fn(&mut TalosNode, GapKind);
type Change = fn(&mut Snapshot);

const SERVICES: Break = |talos, kind| talos.services = gap(kind);
const MACHINE_STATUS: Break = |talos, kind| talos.machine_status = gap(kind);
const ETCD_STATUS: Break = |talos, kind| talos.etcd_status = gap(kind);
const ETCD_MEMBERS: Break = |talos, kind| talos.etcd_members = gap(kind);
const ETCD_ALARMS: Break = |talos, kind| talos.etcd_alarms = gap(kind);
const TIME_STATUS: Break = |talos, kind| talos.time_status = gap(kind);
const NETWORK_STATUS: Break = |talos, kind| talos.network_status = gap(kind);
const MEMORY: Break = |talos, kind| talos.memory = gap(kind);
const VOLUMES: Break = |talos, kind| talos.volumes = gap(kind);
const CONTACT: Break = |talos, kind| talos.contact = gap(kind);

/// Each check with the facts that it requires on each node.
const NEEDED: [(&str, &[Break]); 18] = [
    ("talos.nodes.reachable", &[CONTACT]),
    ("talos.versions", &[CONTACT]),
    ("talos.time", &[CONTACT, TIME_STATUS]),
    ("talos.nodes.network", &[CONTACT, NETWORK_STATUS]),
    ("talos.nodes.memory", &[CONTACT, MEMORY]),
    ("talos.nodes.disk", &[CONTACT, VOLUMES]),
    ("talos.nodes.diagnostics", &[CONTACT]),
    ("talos.nodes.booted", &[CONTACT, MACHINE_STATUS]),
    ("talos.nodes.ready", &[CONTACT, MACHINE_STATUS]),
    ("talos.nodes.services", &[CONTACT, SERVICES]),
    ("talos.nodes.kubelet", &[CONTACT, SERVICES]),
    ("etcd.service", &[CONTACT, SERVICES]),
    ("etcd.leader", &[CONTACT, ETCD_STATUS]),
    ("etcd.members.consistent", &[CONTACT, ETCD_MEMBERS]),
    ("etcd.members.nodes", &[CONTACT, ETCD_MEMBERS]),
    ("etcd.learners", &[CONTACT, ETCD_STATUS, ETCD_MEMBERS]),
    ("etcd.alarms", &[CONTACT, ETCD_STATUS, ETCD_ALARMS]),
    ("etcd.tolerance", &[CONTACT, ETCD_STATUS]),
];

fn undecided(status: Status) -> bool {
    !matches!(status, Status::Pass | Status::Skip | Status::Warn)
}

#[test]
fn the_healthy_cluster_passes() {
    for shape in [healthy(), healthy().only(&["cp-1"]), healthy().without_kubernetes()] {
        for id in IDS {
            assert_eq!(status(id, &shape), Status::Pass, "{id}: {:?}", judge(id, &shape));
        }
    }
}

#[test]
fn no_gap_passes() {
    for (id, breaks) in NEEDED {
        for broken in breaks {
            for kind in GAPS {
                for (shape, name) in [(healthy(), "cp-1"), (healthy(), "cp-3"), (healthy().only(&["cp-1"]), "cp-1")] {
                    let mut snapshot = shape;
                    broken(snapshot.talos_of(name), kind);
                    assert!(undecided(status(id, &snapshot)), "{id} passes with {kind:?} on {name}");
                }
            }
        }
    }
}

#[test]
fn no_gap_of_the_only_member_proves_a_quorum() {
    for broken in [CONTACT, ETCD_STATUS, ETCD_MEMBERS] {
        for kind in GAPS {
            let mut snapshot = healthy().only(&["cp-1"]);
            broken(snapshot.talos_of("cp-1"), kind);
            assert!(matches!(status("etcd.quorum", &snapshot), Status::Error | Status::Blocked), "{kind:?}");
        }
    }
}

#[test]
fn no_gap_in_credentials_endpoints_or_discovery_passes() {
    for kind in GAPS {
        let mut snapshot = healthy();
        snapshot.talos_mut().credentials = gap(kind);
        assert!(undecided(status("talos.credentials", &snapshot)), "{kind:?}");
        let mut snapshot = healthy();
        snapshot.talos_mut().endpoints[0].version = gap(kind);
        assert_eq!(status("talos.endpoints", &snapshot), Status::Warn, "{kind:?}");
        let mut snapshot = healthy();
        snapshot.talos_mut().discovery = gap(kind);
        assert_eq!(status("talos.nodes.expected", &snapshot), Status::Error, "{kind:?}");
    }
}

#[test]
fn nothing_there_is_no_pass() {
    let emptied: [(&str, Change); 9] = [
        ("talos.endpoints", |it| it.talos_mut().endpoints.clear()),
        ("talos.nodes.booted", |it| it.talos_of("cp-1").machine_status = Ok(None)),
        ("talos.nodes.ready", |it| it.talos_of("cp-1").machine_status = Ok(None)),
        ("talos.nodes.services", |it| it.talos_of("cp-1").services = Ok(Vec::new())),
        ("talos.nodes.kubelet", |it| it.talos_of("cp-1").services = Ok(Vec::new())),
        ("etcd.service", |it| it.talos_of("cp-1").services = Ok(Vec::new())),
        ("etcd.quorum", |it| it.set_members(&[])),
        ("etcd.members.consistent", |it| it.talos_of("cp-1").etcd_members = Ok(Vec::new())),
        ("etcd.members.nodes", |it| it.talos_of("cp-1").etcd_members = Ok(Vec::new())),
    ];
    for (id, change) in emptied {
        let mut snapshot = healthy();
        change(&mut snapshot);
        assert!(undecided(status(id, &snapshot)), "{id}");
    }
    let mut nobody = healthy();
    nobody.nodes.clear();
    for id in IDS.into_iter().skip(2) {
        assert!(undecided(status(id, &nobody)), "{id} passes without nodes");
    }
    let headless = healthy().only(&["w-1"]);
    for id in IDS.into_iter().filter(|id| id.starts_with("etcd.") || *id == "talos.nodes.expected") {
        assert_eq!(status(id, &headless), Status::Error, "{id} without control planes");
    }
}

#[test]
fn without_talos_its_checks_are_skipped() {
    let snapshot = healthy().without_talos();
    for id in IDS.into_iter().filter(|id| *id != "etcd.quorum") {
        assert_eq!(status(id, &snapshot), Status::Skip, "{id}");
    }
}

/// All findings, without order.
fn verdicts(snapshot: &Snapshot) -> BTreeSet<String> {
    let by_check = by_check(snapshot);
    let of = |id: &'static str| {
        let verdict = &by_check[id];
        verdict.findings.iter().map(move |finding| {
            let said = text(&finding.target, &finding.outcome).unwrap_or_default();
            format!("{id} {} {} {said}", finding.target, finding.outcome.status().name())
        })
    };
    IDS.into_iter().flat_map(of).collect()
}

proptest! {
    #[test]
    fn order_means_nothing_and_gaps_never_help(
        order in Just([0_usize, 1, 2, 3]).prop_shuffle(),
        broken in prop::collection::vec((0_usize..4, 0_usize..6, 0_usize..GAPS.len()), 1..4),
    ) {
        let breaks = [SERVICES, MACHINE_STATUS, ETCD_STATUS, ETCD_MEMBERS, ETCD_ALARMS, CONTACT];
        let mut snapshot = healthy();
        for (node, fact, kind) in broken {
            breaks[fact](&mut snapshot.nodes[node].talos, GAPS[kind]);
            // The fixture's worker has no etcd facts, so those gaps change nothing there.
            if node < 3 || !matches!(fact, 2..=4) {
                prop_assert!(by_check(&snapshot).into_iter().any(|(check, verdict)| IDS.contains(&check) && undecided(verdict.status())));
            }
        }
        let mut shuffled = snapshot.clone();
        shuffled.nodes = order.iter().map(|&index| snapshot.nodes[index].clone()).collect();
        prop_assert_eq!(verdicts(&snapshot), verdicts(&shuffled));
    }
}
