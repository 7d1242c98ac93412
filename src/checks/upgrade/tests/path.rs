//! Upgrade paths between versions.

use super::*;
use crate::testing::fixture::Shape;

const TALOS: &str = "upgrade.talos.path";
const KUBERNETES: &str = "upgrade.kubernetes.path";
const MATRIX: &str = "upgrade.matrix";

#[test]
fn talos_goes_to_the_same_and_to_the_next_minor_version() {
    for target in ["1.13.0", "1.13.9", "1.14.1"] {
        let snapshot = before(Some(target), None);
        assert_eq!(lines(TALOS, &snapshot), [format!("every machine can be upgraded to Talos v{target}")]);
    }
}

#[test]
fn a_version_in_development_is_a_warning() {
    for target in ["1.15.0", "1.15.0-alpha.0"] {
        let snapshot = before(Some(target), None);
        let warned: Vec<_> = NODES.iter().map(|name| format!("{name}: warn minor-skipped, for ever")).collect();
        let expected: Vec<_> =
            warned.into_iter().chain(["cluster: warn target-in-development, for ever".to_owned()]).collect();
        assert_eq!(wrong(TALOS, &snapshot), expected, "{target}");
        assert_eq!(lines(MATRIX, &snapshot), ["Talos 1.15 supports the current Kubernetes"]);
    }
    let mut new = before(Some("1.15.1"), Some("1.38.0"));
    runs(&mut new, &NODES, "v1.14.7");
    kubernetes_runs(&mut new, "v1.37.1");
    for id in [TALOS, KUBERNETES] {
        assert_eq!(wrong(id, &new), ["cluster: warn target-in-development, for ever"], "{id}");
    }
    assert_eq!(lines(MATRIX, &new), ["upgrade Talos first, then Kubernetes"]);
    new.asked.upgrade.talos = None;
    assert_eq!(likely(MATRIX, &new), [""; 0], "no released Talos supports it");
    let mut back = before(Some("1.15.0"), None);
    runs(&mut back, &NODES, "v1.17.0");
    assert!(wrong(TALOS, &back)[0].contains("fail upgrade-path-unsupported"));
    runs(&mut back, &NODES, "v1.12.12");
    assert!(wrong(TALOS, &back)[0].contains("fail upgrade-path-unsupported"));
}

#[test]
fn each_machine_is_judged_by_its_own_version() {
    let mut snapshot = before(Some("1.14.1"), None);
    runs(&mut snapshot, &["w-1"], "v1.11.5");
    runs(&mut snapshot, &["cp-2"], "v1.12.4");
    assert_eq!(
        wrong(TALOS, &snapshot),
        ["cp-2: warn minor-skipped, for ever", "w-1: fail upgrade-path-unsupported, for ever"]
    );
    assert_eq!(observed(TALOS, &snapshot), ["Talos v1.12.4", "Talos v1.11.5"]);
    assert_eq!(
        likely(TALOS, &snapshot),
        [
            "upgrade to the latest patch of 1.13 first",
            "upgrade to the latest patch of each minor version in between, first to 1.12"
        ]
    );
}

#[test]
fn talos_goes_back_within_bounds_and_not_unnoticed() {
    let mut snapshot = before(Some("1.12.4"), None);
    runs(&mut snapshot, &["w-1"], "v1.14.0");
    let warned = NODES[..3].iter().map(|name| format!("{name}: warn downgrade, for ever"));
    let expected: Vec<_> = warned.chain(["w-1: fail upgrade-path-unsupported, for ever".to_owned()]).collect();
    assert_eq!(wrong(TALOS, &snapshot), expected);
    let mut final_release = before(Some("1.14.0-beta.1"), None);
    runs(&mut final_release, &NODES, "v1.14.0");
    assert_eq!(wrong(TALOS, &final_release)[0], "cp-1: warn downgrade, for ever");
}

#[test]
fn what_the_tables_do_not_have_never_passes() {
    for target in ["1.16.0", "1.99.0", "2.0.0", "0.14.0", "1.4.0", "x"] {
        let snapshot = before(Some(target), None);
        for id in [TALOS, MATRIX] {
            assert_eq!(wrong(id, &snapshot), ["cluster: error target-unknown, for ever"], "{id} {target}");
        }
    }
    for target in ["1.39.0", "1.23.0", "2.35.0", "0.35.0", "x"] {
        let snapshot = before(None, Some(target));
        for id in [KUBERNETES, MATRIX] {
            assert_eq!(wrong(id, &snapshot), ["cluster: error target-unknown, for ever"], "{id} {target}");
        }
    }
}

#[test]
fn a_machine_whose_version_was_not_seen_does_not_pass() {
    let both = || before(Some("1.14.1"), Some("1.36.0"));
    let mut silent = both();
    silent.talos_of("w-1").contact = gap(GapKind::TimedOut);
    let mut unreadable = both();
    runs(&mut unreadable, &["w-1"], "dirty");
    for snapshot in [silent, unreadable] {
        for id in [TALOS, MATRIX] {
            assert!(!status(id, &snapshot).is_fine(), "{id}");
        }
    }
    let mut silent = both();
    for node in &mut silent.nodes {
        node.talos.static_pod_statuses = gap(GapKind::TimedOut);
    }
    silent.kube().pods = gap(GapKind::Forbidden);
    let mut unnamed = both();
    kubernetes_runs(&mut unnamed, "");
    let mut unlisted = both();
    unlisted.kube().nodes = Ok(Vec::new());
    for snapshot in [silent, unnamed, unlisted] {
        for id in [KUBERNETES, MATRIX] {
            assert!(!status(id, &snapshot).is_fine(), "{id} {:#?}", judge(id, &snapshot));
        }
    }
}

#[test]
fn a_talos_that_no_table_has_is_no_talos_that_supports_anything() {
    let mut snapshot = before(None, Some("1.36.0"));
    runs(&mut snapshot, &["w-1"], "v1.16.0");
    assert_eq!(wrong(MATRIX, &snapshot), ["cluster: error target-unknown, for ever"]);
    runs(&mut snapshot, &["w-1"], "v2.0.0");
    assert_eq!(wrong(MATRIX, &snapshot), ["w-1: error target-unknown, for ever"]);
}

#[test]
fn kubernetes_goes_one_minor_version_at_a_time_and_never_back() {
    for target in ["1.35.4", "1.35.9", "1.36.0"] {
        let snapshot = before(None, Some(target));
        assert_eq!(lines(KUBERNETES, &snapshot), [format!("Kubernetes can be upgraded to v{target}")]);
    }
    for target in ["1.37.0", "1.35.3", "1.34.9", "1.35.4-rc.1"] {
        let snapshot = before(None, Some(target));
        // Kubelets may be three minor versions older.
        let parts = if target == "1.37.0" { 9 } else { 17 };
        let wrong = wrong(KUBERNETES, &snapshot);
        assert_eq!(wrong.len(), parts, "{target} {wrong:?}");
        assert!(wrong.iter().all(|it| it.ends_with("fail upgrade-path-unsupported, for ever")), "{wrong:?}");
    }
}

#[test]
fn kubelets_bear_with_the_new_api_server_while_it_is_upgraded() {
    let mut snapshot = before(None, Some("1.36.0"));
    snapshot.kube_node_mut("w-1").kubelet_version = "v1.33.1".to_owned();
    assert_eq!(status(KUBERNETES, &snapshot), Status::Pass);
    snapshot.kube_node_mut("w-1").kubelet_version = "v1.32.1".to_owned();
    assert_eq!(wrong(KUBERNETES, &snapshot), ["w-1: fail upgrade-path-unsupported, for ever"]);
    assert_eq!(likely(KUBERNETES, &snapshot), ["bring it to the version of the control plane first"]);
}

/// `upgrade-k8s` upgrades every node, whichever nodes are named.
#[test]
fn kubelets_outside_of_the_named_nodes_count() {
    let mut snapshot = before(None, Some("1.36.0"));
    snapshot.node_mut("w-1").out_of_scope = true;
    assert_eq!(wrong(KUBERNETES, &snapshot), [""; 0]);
    snapshot.kube_node_mut("w-1").kubelet_version = "v1.32.1".to_owned();
    assert_eq!(wrong(KUBERNETES, &snapshot), ["w-1: fail upgrade-path-unsupported, for ever"]);
}

#[test]
fn kubelets_of_guests_are_not_left_behind() {
    let with = |version: &str, target: &str| {
        let mut snapshot = Shape { workers: 1, foreign: 1, ..Shape::default() }.world();
        snapshot.asked.upgrade = Upgrade { kubernetes: Some(target.to_owned()), ..Upgrade::default() };
        version.clone_into(&mut snapshot.kube_node_mut("x-1").kubelet_version);
        snapshot
    };
    let fails = ["x-1: fail upgrade-path-unsupported, for ever"];
    for (version, target, expected) in [
        ("v1.33.1", "1.36.0", &[""; 0][..]),
        ("v1.32.1", "1.36.0", &fails),
        ("v1.36.9", "1.36.0", &[]),
        ("v1.37.0", "1.36.0", &fails),
        ("", "1.36.0", &[]),
    ] {
        assert_eq!(wrong(KUBERNETES, &with(version, target)), expected, "{version}");
        assert_eq!(wrong(MATRIX, &with(version, target)), [""; 0], "Talos supports any kubelet of a guest: {version}");
    }
    let mut without_kubelet = with("v1.20.0", "1.36.0");
    without_kubelet.kube_node_mut("x-1").become_virtual();
    assert_eq!(wrong(KUBERNETES, &without_kubelet), [""; 0]);
}

#[test]
fn the_new_talos_has_to_support_what_runs() {
    let mut snapshot = before(Some("1.14.0"), None);
    assert_eq!(lines(MATRIX, &snapshot), ["Talos 1.14 supports the current Kubernetes"]);
    kubernetes_runs(&mut snapshot, "v1.31.2");
    assert_eq!(wrong(MATRIX, &snapshot), ["cluster: fail versions-incompatible, for ever"]);
    assert_eq!(likely(MATRIX, &snapshot), ["upgrade Kubernetes to 1.32 first"]);
}

#[test]
fn the_present_talos_has_to_support_the_new_kubernetes() {
    assert_eq!(lines(MATRIX, &before(None, Some("1.36.0"))), ["the current Talos supports the new Kubernetes"]);
    let mut snapshot = before(None, Some("1.36.0"));
    runs(&mut snapshot, &["cp-3"], "v1.12.4");
    assert_eq!(wrong(MATRIX, &snapshot), ["cluster: fail versions-incompatible, for ever"]);
    assert_eq!(observed(MATRIX, &snapshot), ["Talos 1.12 on cp-3"]);
    assert_eq!(likely(MATRIX, &snapshot), ["upgrade Talos to 1.13 first"]);
}

#[test]
fn both_go_in_an_order_that_works() {
    let mut snapshot = before(Some("1.14.0"), Some("1.36.0"));
    assert_eq!(lines(MATRIX, &snapshot), ["Talos and Kubernetes may be upgraded in either order"]);
    snapshot.asked.upgrade.kubernetes = Some("1.37.0".to_owned());
    assert_eq!(lines(MATRIX, &snapshot), ["upgrade Talos first, then Kubernetes"]);
    let mut snapshot = before(Some("1.14.0"), Some("1.32.0"));
    kubernetes_runs(&mut snapshot, "v1.31.2");
    assert_eq!(lines(MATRIX, &snapshot), ["upgrade Kubernetes first, then Talos"]);
    snapshot.asked.upgrade.kubernetes = Some("1.37.0".to_owned());
    assert_eq!(wrong(MATRIX, &snapshot), ["cluster: fail versions-incompatible, for ever"]);
    assert_eq!(
        observed(MATRIX, &snapshot),
        [
            "neither order works: Kubernetes 1.31 on kube-apiserver-cp-1, kube-controller-manager-cp-1, kube-scheduler-cp-1 and 14 more, \
          Talos 1.13 on cp-1, cp-2, cp-3 and 1 more"
        ]
    );
    snapshot.asked.upgrade.talos = Some("1.12.0".to_owned());
    assert_eq!(wrong(MATRIX, &snapshot), ["cluster: fail versions-incompatible, for ever"], "the two new ones");
}

/// An excuse covers that nothing comes from the machine, not that an upgrade leaves it out.
#[test]
fn a_machine_that_is_declared_off_cannot_be_upgraded() {
    for name in ["cp-3", "w-1"] {
        let mut snapshot = before(Some("1.13.2"), Some("1.36.0"));
        snapshot.power_off(name);
        snapshot.declare_off(name);
        for id in [TALOS, KUBERNETES] {
            assert!(wrong(id, &snapshot).contains(&format!("{name}: fail machine-off")), "{id}: {name}");
        }
        for id in [MATRIX, "upgrade.flags", "upgrade.etcd", "upgrade.extensions"] {
            let said = wrong(id, &snapshot);
            assert!(!said.iter().any(|line| line.starts_with(&format!("{name}: error"))), "{id}: {said:?}");
        }
    }
}

#[test]
fn an_upgrade_of_talos_cannot_be_asked_of_another_system() {
    let mut guest = Shape { foreign: 1, ..Shape::default() }.world();
    guest.asked.upgrade = before(Some("1.13.2"), None).asked.upgrade;
    assert_eq!(wrong(TALOS, &guest), [""; 0]);
    guest.asked.nodes = vec!["x-1".to_owned()];
    assert_eq!(wrong(TALOS, &guest), ["x-1: fail nodes-contradict, for ever"]);
}

/// Their kubelets are upgraded as well, while their Talos stays as it is.
#[test]
fn the_talos_of_machines_outside_of_the_scope_has_to_support_the_new_kubernetes() {
    let outside = |talos: Option<&str>, image: &str| {
        let mut snapshot = before(talos, Some("1.36.0"));
        let node = snapshot.node_mut("w-1");
        node.out_of_scope = true;
        node.talos.contact = gap(GapKind::NodeUnreachable);
        image.clone_into(&mut snapshot.kube_node_mut("w-1").os_image);
        snapshot
    };
    let old = outside(None, "Talos (v1.12.4)");
    assert_eq!(wrong(MATRIX, &old), ["cluster: fail versions-incompatible, for ever"]);
    assert_eq!(observed(MATRIX, &old), ["Talos 1.12 on w-1"]);
    let both = outside(Some("1.13.1"), "Talos (v1.12.4)");
    assert_eq!(wrong(MATRIX, &both), ["cluster: fail versions-incompatible, for ever"]);
    let said = "left out by the options, so its Talos stays: 1.12 on w-1";
    assert_eq!(observed(MATRIX, &both), [said]);
    assert_eq!(wrong(MATRIX, &outside(None, "Talos (v1.13.0)")), [""; 0]);
    assert_eq!(wrong(MATRIX, &outside(None, "Talos")), ["w-1: error unreadable-answer"]);
    assert_eq!(wrong(MATRIX, &outside(None, "Talos (v9.9.9)")), ["w-1: error unreadable-answer"]);
    // `--upgrade-talos` alone concerns the named machines.
    let mut talos = old.clone();
    talos.asked.upgrade = Upgrade { talos: Some("1.13.1".to_owned()), ..Upgrade::default() };
    assert_eq!(wrong(MATRIX, &talos), [""; 0]);
    // The machine's own report is newer.
    let mut upgraded = outside(None, "Talos (v1.12.4)");
    upgraded.talos_of("w-1").contact = before(None, None).talos_of("w-1").contact.clone();
    assert_eq!(wrong(MATRIX, &upgraded), [""; 0]);
}
