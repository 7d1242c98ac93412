//! Rechecks between complete rounds: every recovery is noticed, and unhealed problems are carried over.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::checks::ALL;
use crate::engine::Pace;
use crate::engine::event::Round;
use crate::engine::recheck::Recheck;
use crate::snapshot::{Memory, Snapshot};
use crate::testing::fixture::{Shape, Sides};
use crate::testing::laws::corruption::sick;
use crate::testing::laws::verdicts;

fn pace() -> Pace {
    Pace { checks: ALL.to_vec(), ..crate::engine::tests::pace(None) }
}

/// Returns the result of a recheck in a cluster that has recovered: for machines other than the suspects, earlier
/// answers are repeated.
fn healed(sick: &Snapshot, suspects: &BTreeSet<String>) -> Snapshot {
    let shape = Shape {
        external_etcd: sick.external_etcd.as_ref().map_or(0, Vec::len),
        sides: if sick.talos.is_none() { Sides::NoTalos } else { Sides::Both },
        ..Shape::default()
    };
    let mut seen = shape.world();
    for node in seen.nodes.iter_mut().filter(|node| !suspects.contains(&node.name)) {
        if let Some(before) = sick.node(&node.name) {
            node.talos = before.talos.clone();
        }
    }
    seen
}

#[test]
fn what_heals_is_noticed_and_what_does_not_is_no_news() {
    let (pace, memory) = (pace(), Memory { rounds: 3, ..Memory::default() });
    let (mut rechecked, mut unnoticed, mut news) = (0, BTreeSet::new(), BTreeSet::new());
    for (name, _, sick) in sick() {
        let round = Round {
            number: 3,
            at: Duration::ZERO,
            took: Duration::ZERO,
            verdicts: verdicts(&sick),
            snapshot: sick.clone(),
            diagnoses: Vec::new().into(),
            in_doubt: false,
        };
        let Some(recheck) = Recheck::of(&round, &memory) else { continue };
        rechecked += 1;
        if recheck.is_seen_in(&pace, &healed(&sick, &recheck.suspects.machines)) {
            unnoticed.insert(name.clone());
        }
        if !recheck.is_seen_in(&pace, &sick) {
            news.insert(name);
        }
    }
    assert!(rechecked > 500, "{rechecked}");
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
    assert!(news.is_empty(), "{news:#?}");
}
