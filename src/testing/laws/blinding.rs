//! A run that cannot see a problem does not report a healthy cluster: answers that are lost in a cluster that fails.

use std::collections::BTreeSet;

use crate::checks::ALL;
use crate::snapshot::{GapKind, Pod, Snapshot};
use crate::testing::fixture::{CONTROL_PLANES, by_check, gap, healthy};
use crate::testing::laws::corruption::sick;
use crate::testing::laws::exceptions::{HARMLESS, SECRET};
use crate::testing::laws::monotony::{crash, failing};
use crate::testing::laws::removal::{is_named, removals};
use crate::testing::laws::{overall, worst};

/// Refused, throttled, garbage and silence: of the server, of its etcd, or of the connection to it.
pub(crate) const WAYS: [GapKind; 8] = [
    GapKind::Forbidden,
    GapKind::Unauthenticated,
    GapKind::Throttled,
    GapKind::ServerError,
    GapKind::Malformed,
    GapKind::TooLarge,
    GapKind::TimedOut,
    GapKind::Broken,
];

fn mirrors<'a>(snapshot: &'a mut Snapshot, node: &'a str) -> impl Iterator<Item = &'a mut Pod> {
    let pods = snapshot.kube().pods.as_mut().unwrap();
    pods.iter_mut().filter(move |pod| pod.mirror && pod.node.as_deref() == Some(node))
}

/// Clusters with a failure that only the list of pods shows.
fn told_by_pods() -> Vec<(String, Snapshot)> {
    let mut worlds = Vec::new();
    for node in CONTROL_PLANES {
        for place in 0..3 {
            let mut snapshot = healthy();
            let mirror = mirrors(&mut snapshot, node).nth(place).unwrap();
            crash(&mut mirror.state);
            worlds.push((format!("{} crashes", mirror.name), snapshot));
        }
        let mut elected = healthy();
        let scheduler = mirrors(&mut elected, node).find(|pod| pod.name.contains("scheduler")).unwrap();
        scheduler.leader_elect = Some(false);
        worlds.push((format!("the scheduler of {node} takes part in no election"), elected));
        let mut old = healthy();
        for status in old.talos_of(node).static_pod_statuses.as_mut().unwrap() {
            status.state.containers[0].image = "sha256:abc".to_owned();
        }
        for mirror in mirrors(&mut old, node) {
            mirror.state.containers[0].image = "registry.k8s.io/it:v1.30.0".to_owned();
        }
        worlds.push((format!("an old release on {node}"), old));
    }
    let mut unlabeled = healthy().without_talos();
    unlabeled.nodes.iter_mut().for_each(|node| node.role = crate::model::Role::Worker);
    worlds.push(("nobody is labeled as a control plane".to_owned(), unlabeled));
    worlds
}

#[test]
fn without_the_list_of_pods_nothing_that_is_wrong_gets_well() {
    let mut worlds = told_by_pods();
    worlds.extend(failing());
    let both = worlds.len();
    for at in 0..both {
        let (name, world) = &worlds[at];
        worlds.push((format!("{name}, without Talos"), world.clone().without_talos()));
    }
    let mut healed = BTreeSet::new();
    for (name, world) in &worlds {
        let seen = by_check(world);
        for way in WAYS.map(Some).into_iter().chain([None]) {
            let mut blind = world.clone();
            blind.kube().pods = way.map_or_else(|| Ok(Vec::new()), gap);
            let unseen = by_check(&blind);
            for check in ALL.iter().filter(|check| !seen[check.id.name()].status().is_fine()) {
                if unseen[check.id.name()].status().is_fine() {
                    healed.insert(format!("{name}: {} ({way:?})", check.id));
                }
            }
        }
    }
    assert!(healed.is_empty(), "{healed:#?}");
}

/// The worlds above fail, while a mirror pod whose kubelet is silent is not evidence of anything.
#[test]
fn what_only_pods_tell_fails() {
    for (name, world) in told_by_pods() {
        let verdicts = crate::testing::fixture::verdicts(&world);
        assert!(!worst(&verdicts).is_fine(), "{name}");
    }
}

/// One in this many pairs of a wrong value and an answer that belongs to another fact is tried. The number is prime, so that each value is
/// paired with each answer somewhere.
const OF_OTHERS: usize = 13;

/// A wrong value, by the beginning of its name, the lost answers that hide it, and why nothing else can show it.
const HIDDEN: [(&str, &[&str], &str); 11] = [
    ("DNS: Workload.", &["empty deployments"], "something else may serve DNS, and its endpoints are ready"),
    (
        "kubernetes: Workload.",
        &["empty deployments", "empty stateful_sets"],
        "a complete list without the workload is that of a cluster without it",
    ),
    (
        "kubernetes: StartingPod.",
        &["empty starting_pods"],
        "a complete list without the pod is that of a cluster without it",
    ),
    (
        "node: Mount.",
        &["mounts of a control plane", "mounts of a worker"],
        "one file system that hangs keeps Talos from telling of any, which is named as not observed",
    ),
    (
        "node: Adjtime.",
        &["adjtime of a control plane", "adjtime of a worker"],
        "its lease, which tells of the same clock, is right here",
    ),
    (
        "control plane: TalosNode.kubelet_certificate",
        &["kubelet_certificate of a control plane"],
        "not every runner reaches the port, and none is allowed to ask there",
    ),
    (
        "control plane: TalosNode.kube_span_peers",
        &["refused kube_span_peers of a control plane"],
        "what it would tell only warns, but for a state that cannot be read",
    ),
    (
        "machine: kubelet_flags",
        &["refused kubelet_flags of a control plane", "refused kubelet_flags of a worker"],
        SECRET,
    ),
    ("talos: Talos.server", &["refused the server's check"], "a second opinion that only administrators get"),
    ("server: ServerCheck.", &["refused the server's check"], "a second opinion that only administrators get"),
    ("server: ServerProgress.", &["refused the server's check"], "a second opinion that only administrators get"),
];

/// Tests every wrong value in every place, together with the loss of each answer that a healthy cluster can do without. Only these could
/// hide the value, because no cluster passes without the others.
#[test]
fn what_is_lost_hides_nothing_that_is_wrong() {
    let mut holes = BTreeSet::new();
    let mut hidden = BTreeSet::new();
    let mut pairs = 0;
    for (name, facts, world) in sick() {
        for removal in removals(&world) {
            for way in [GapKind::Forbidden, GapKind::TimedOut].map(Some).into_iter().chain([None]) {
                if !HARMLESS.iter().any(|(facts, _)| is_named(facts, &removal, way)) {
                    continue;
                }
                pairs += 1;
                // Entries of the table are always tried, so that an entry that no longer hides anything is found.
                let is_known = |(value, facts, _): &&(&str, &[&str], &str)| {
                    name.starts_with(value) && is_named(facts, &removal, way)
                };
                let known = HIDDEN.iter().find(is_known);
                if known.is_none() && !facts.contains(&removal.fact) && pairs % OF_OTHERS != 0 {
                    continue;
                }
                let mut blind = world.clone();
                (removal.apply)(&mut blind, way);
                if !overall(&blind).is_fine() {
                    continue;
                }
                match known {
                    Some((value, ..)) => _ = hidden.insert(*value),
                    None => _ = holes.insert(format!("{name} ({}, {way:?})", removal.name)),
                }
            }
        }
    }
    assert!(holes.is_empty(), "{holes:#?}");
    assert_eq!(hidden.len(), HIDDEN.len(), "{hidden:?}");
}
