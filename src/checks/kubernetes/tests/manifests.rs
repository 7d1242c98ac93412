//! Manifests that Talos applies after the bootstrap.

use jiff::SignedDuration;

use crate::checks::kubernetes::tests::{judge, no, said, status};
use crate::model::Status;
use crate::snapshot::{GapKind, Snapshot};
use crate::testing::fixture::{Shape, Sides, healthy, now};

const ID: &str = "k8s.manifests";
const CONTROL_PLANES: [&str; 3] = ["cp-1", "cp-2", "cp-3"];

/// A snapshot in which each control plane has applied these manifests.
fn applied(names: &[&str]) -> Snapshot {
    let mut snapshot = healthy();
    for node in CONTROL_PLANES {
        snapshot.talos_of(node).manifests_applied = Ok(names.iter().map(|&name| name.to_owned()).collect());
    }
    snapshot
}

fn aged(mut snapshot: Snapshot, hours: i64) -> Snapshot {
    for node in snapshot.kube().nodes.as_mut().unwrap() {
        node.created = Some(now() - SignedDuration::from_hours(hours));
    }
    snapshot
}

#[test]
fn none_applied_fails_in_a_new_cluster_and_where_something_is_missing() {
    let fails = ["fail manifests-not-applied cluster"];
    assert_eq!(said(&aged(applied(&[]), 0), ID), fails);
    assert_eq!(said(&aged(applied(&[]), 2), ID), ["warn manifests-not-applied cluster"]);
    let mut lacks = aged(applied(&[]), 2);
    lacks.kube().daemon_sets.as_mut().unwrap().retain(|set| set.name != "kube-flannel");
    assert_eq!(said(&lacks, ID), fails);
    let mut unseen = aged(applied(&[]), 2);
    unseen.kube().daemon_sets = no(GapKind::Forbidden);
    assert_eq!(said(&unseen, ID), ["error forbidden cluster !"], "nothing shows whether they are there");
}

#[test]
fn one_that_is_enabled_and_missing_is_named() {
    let lacks = aged(applied(&["00-kubelet-bootstrapping-token", "05-flannel", "11-core-dns"]), 2);
    assert_eq!(said(&lacks, ID), ["warn manifests-not-applied cluster"]);
    assert_eq!(judge(&lacks, ID).problems().next().unwrap().1.observed, "not applied: kube-proxy");
    let mut disabled = lacks;
    for node in CONTROL_PLANES {
        disabled.talos_of(node).bootstrap_manifests.as_mut().unwrap().as_mut().unwrap().proxy_enabled = false;
    }
    assert_eq!(status(&disabled, ID), Status::Pass);
}

#[test]
fn a_manifest_of_the_users_own_is_named() {
    let mut snapshot = aged(healthy(), 2);
    let added = ["99-good".to_owned(), "99-https://example.org/dead.yaml".to_owned()];
    for node in CONTROL_PLANES {
        snapshot.talos_of(node).extra_manifests = Ok(added.to_vec());
        snapshot.talos_of(node).manifests_applied.as_mut().unwrap().push("99-good".to_owned());
    }
    assert_eq!(said(&snapshot, ID), ["warn manifests-not-applied cluster"]);
    let observed = &judge(&snapshot, ID).problems().next().unwrap().1.observed.clone();
    assert_eq!(observed, "not applied: 99-https://example.org/dead.yaml");
    let mut unread = healthy();
    for node in CONTROL_PLANES {
        unread.talos_of(node).extra_manifests = no(GapKind::TooLarge);
    }
    assert_eq!(status(&unread, ID), Status::Pass);
    assert!(judge(&unread, ID).left_out.iter().any(|it| it.starts_with("extra and inline manifests: ")));
}

#[test]
fn one_control_plane_is_enough_and_one_that_is_unread_may_be_it() {
    let mut one = applied(&[]);
    one.talos_of("cp-2").manifests_applied = healthy().talos_of("cp-2").manifests_applied.clone();
    assert_eq!(status(&one, ID), Status::Pass);
    let mut unread = applied(&[]);
    unread.talos_of("cp-2").manifests_applied = no(GapKind::TimedOut);
    assert_eq!(said(&unread, ID), ["error timed-out cp-2"]);
    one.talos_of("cp-3").manifests_applied = no(GapKind::TimedOut);
    assert_eq!(status(&one, ID), Status::Pass, "what it would tell was seen elsewhere");
}

#[test]
fn one_side_alone_tells_nothing() {
    assert_eq!(status(&healthy().without_kubernetes(), ID), Status::Skip);
    assert_eq!(status(&Shape { sides: Sides::NoTalos, ..Shape::default() }.world(), ID), Status::Skip);
}
