//! Laws: missing evidence never passes, and the order of lists does not matter.

use proptest::prelude::*;

use crate::checks::kubernetes::tests::{IDS, judge, no, status};
use crate::model::Status;
use crate::snapshot::{Gap, GapKind, Snapshot, TalosNode};
use crate::testing::fixture::{GAPS, by_check, healthy};

/// Removes or empties a fact.
type Spoil = fn(&mut Snapshot, Option<GapKind>);

macro_rules! spoil {
    ($($path:tt)+) => {
        |snapshot, kind| snapshot.$($path)+ = kind.map_or_else(|| Ok(Default::default()), no)
    };
}

/// The facts that a check requires, and the target that must not pass without them.
const EVIDENCE: &[(&str, &str, Spoil)] = &[
    ("k8s.credentials", "kubeconfig", |snapshot, kind| {
        snapshot.kube().credentials = no(kind.unwrap_or(GapKind::NotAsked));
    }),
    ("k8s.api.endpoint", "", |snapshot, kind| snapshot.kube().endpoint = no(kind.unwrap_or(GapKind::NotAsked))),
    ("k8s.api.identity", "cluster", spoil!(kube().nodes)),
    ("k8s.nodes.registered", "w-1", spoil!(kube().nodes)),
    ("k8s.nodes.ready", "w-1", spoil!(kube().nodes)),
    ("k8s.nodes.schedulable", "w-1", spoil!(kube().nodes)),
    ("k8s.nodes.pressure", "w-1", spoil!(kube().nodes)),
    ("k8s.nodes.conditions", "w-1", spoil!(kube().nodes)),
    ("k8s.controlplane.versions", "w-1", spoil!(kube().nodes)),
    ("k8s.cni", "kube-system/kube-flannel", spoil!(kube().daemon_sets)),
    ("k8s.controlplane.leases", "kube-system/kube-scheduler", |snapshot, kind| {
        if let Some(kind) = kind {
            snapshot.kube().system_leases = no(kind);
        } else {
            snapshot.kube().system_leases.as_mut().unwrap().by_name.clear();
        }
    }),
    ("k8s.controlplane.versions", "kube-scheduler-cp-2", |snapshot, kind| {
        // The alternative source is missing, too.
        snapshot.kube().pods = no(GapKind::TimedOut);
        snapshot.talos_of("cp-2").static_pod_statuses = kind.map_or_else(|| Ok(Vec::new()), no);
    }),
    ("k8s.api.certificates", "https://k8s.example:6443", |snapshot, kind| {
        snapshot.kube().endpoint = no(kind.unwrap_or(GapKind::NotAsked));
    }),
    ("k8s.api.certificates", "cp-2", |snapshot, kind| match kind {
        Some(kind) => {
            snapshot.kube().servers.insert("cp-2".to_owned(), no(kind));
            snapshot.kube().system_leases = no(GapKind::TimedOut);
            snapshot.kube().api_endpoints = no(GapKind::TimedOut);
        }
        None => snapshot.kube().servers.clear(),
    }),
    ("k8s.nodes.pressure", "w-1", |snapshot, kind| {
        if let Some(kind) = kind {
            snapshot.kube().node_leases = no(kind);
        } else {
            snapshot.kube_node_mut("w-1").conditions.clear();
        }
    }),
    ("k8s.kube-proxy", "kube-system/kube-proxy", spoil!(kube().daemon_sets)),
    ("k8s.dns", "kube-system/kube-dns", spoil!(kube().dns_endpoints)),
    ("k8s.staticpods.rendered", "cp-2", spoil!(talos_of("cp-2").static_pods)),
    ("k8s.staticpods.rendered", "cp-2", spoil!(talos_of("cp-2").config_statuses)),
    ("k8s.staticpods.running", "kube-scheduler-cp-2", spoil!(talos_of("cp-2").static_pod_statuses)),
    ("k8s.staticpods.running", "etcd-cp-2", spoil!(talos_of("cp-2").services)),
    ("k8s.controlplane.apiserver", "cp-2", |snapshot, kind| {
        // The alternative source is missing, too.
        snapshot.kube().pods = no(GapKind::TimedOut);
        snapshot.talos_of("cp-2").static_pod_statuses = kind.map_or_else(|| Ok(Vec::new()), no);
    }),
    ("k8s.nodes.ready", "w-1", |snapshot, kind| {
        if let Some(kind) = kind {
            snapshot.kube().node_leases = no(kind);
        } else {
            snapshot.kube().node_leases.as_mut().unwrap().by_name.clear();
        }
    }),
    ("k8s.api.servers", "cp-2", |snapshot, kind| match kind {
        Some(kind) => {
            snapshot.kube().servers.insert("cp-2".to_owned(), no(kind));
            // The alternative sources are missing, too.
            snapshot.kube().system_leases = no(GapKind::TimedOut);
            snapshot.kube().api_endpoints = no(GapKind::TimedOut);
        }
        None => snapshot.kube().servers.clear(),
    }),
];

#[test]
fn a_missing_fact_is_never_health() {
    for (id, target, spoil) in EVIDENCE {
        for kind in GAPS.map(Some).into_iter().chain([None]) {
            let mut snapshot = healthy();
            spoil(&mut snapshot, kind);
            let verdict = judge(&snapshot, id);
            assert!(!verdict.status().is_fine(), "{id} without evidence ({kind:?}): {verdict:?}");
            let of_target = || verdict.findings.iter().filter(|finding| finding.target.name == *target);
            let healthy = of_target().any(|finding| finding.outcome.status() == Status::Pass);
            assert!(!healthy, "{id} {target} ({kind:?}): {verdict:?}");
        }
    }
}

#[test]
fn a_lost_way_to_talos_is_never_health() {
    let ids = ["k8s.controlplane.apiserver", "k8s.staticpods.rendered", "k8s.staticpods.running"];
    for id in ids {
        for kind in GAPS {
            let mut snapshot = healthy();
            snapshot.talos_of("cp-2").contact = no(kind);
            assert_eq!(status(&snapshot, id), Status::Blocked, "{id} {kind:?}");
            let mut snapshot = healthy();
            snapshot.talos_mut().credentials = no(kind);
            snapshot.nodes.iter_mut().for_each(|node| node.talos = TalosNode::unasked(&Gap::not_asked()).into());
            assert_eq!(status(&snapshot, id), Status::Blocked, "{id} {kind:?}");
        }
    }
}

#[test]
fn nothing_known_is_never_health() {
    let mut snapshot = healthy();
    snapshot.nodes.clear();
    for id in IDS.into_iter().filter(|id| !["k8s.credentials", "k8s.api.endpoint"].contains(id)) {
        assert!(!status(&snapshot, id).is_fine(), "{id}: {:?}", judge(&snapshot, id));
    }
    for id in IDS {
        let without = healthy().without_kubernetes();
        let from_talos = id.starts_with("k8s.controlplane") || id.starts_with("k8s.staticpods");
        let from_talos = from_talos && id != "k8s.controlplane.leases";
        assert_eq!(status(&without, id), if from_talos { Status::Pass } else { Status::Skip }, "{id}");
    }
}

proptest! {
    #[test]
    fn order_means_nothing(turn in 0..12_usize, broken in 0..4_usize) {
        let mut snapshot = healthy();
        let name = snapshot.nodes[broken].name.clone();
        snapshot.power_off(&name);
        let mut turned = snapshot.clone();
        turned.kube().nodes.as_mut().unwrap().rotate_left(turn % 4);
        turned.kube().pods.as_mut().unwrap().rotate_left(turn);
        turned.kube().daemon_sets.as_mut().unwrap().reverse();
        turned.kube().dns_endpoints.as_mut().unwrap().reverse();
        for node in &mut turned.nodes {
            node.talos.static_pods.iter_mut().for_each(|pods| pods.reverse());
        }
        let (turned, straight) = (by_check(&turned), by_check(&snapshot));
        for id in IDS {
            prop_assert_eq!(&turned[id], &straight[id]);
        }
    }
}
