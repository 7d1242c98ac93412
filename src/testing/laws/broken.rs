//! Clusters in troubles: whatever else they are, they are not healthy.

use proptest::prelude::*;
use proptest::sample::Index;

use crate::model::Status;
use crate::snapshot::Allowance;
use crate::testing::fixture::{Dns, Shape};
use crate::testing::laws::monotony::{FAILURES, failure, is_in_sight};
use crate::testing::laws::worlds::{any_world, full_world};
use crate::testing::laws::{config, verdicts, worst};

/// Failures, by their place in `FAILURES`, that are none in a world of this shape.
fn is_none(shape: &Shape, number: usize) -> bool {
    const TIME: usize = 5;
    const MEMORY: usize = 7;
    const VOLUMES: usize = 8;
    const DNS: usize = 19;
    const TAINTS: usize = 24;
    match number {
        // They are the host's.
        TIME | MEMORY | VOLUMES => shape.container,
        // What replaces Talos's own may be gone on purpose.
        DNS => shape.dns != Dns::Own,
        // They are a place for pods.
        TAINTS => shape.foreign > 0,
        _ => false,
    }
}

/// Worlds in which nobody lets a machine be missing.
fn strictly(shape: &Shape) -> Shape {
    Shape { allowance: Allowance::None, ..shape.clone() }.settled()
}

/// What is said of a world with failures.
struct Said {
    status: Status,
    /// Somebody still tells of it.
    is_in_sight: bool,
    /// By which checks.
    by: String,
}

/// Each of the failures is on a machine of Talos's. `None`: none of them shows.
fn said_of(shape: &Shape, broken: &[(usize, Index)]) -> Option<Said> {
    let mut snapshot = shape.world();
    let machines = snapshot.nodes.iter().filter(|node| node.is_talos).map(|node| node.name.clone());
    let machines: Vec<String> = machines.collect();
    let mut shows = false;
    for (number, machine) in broken.iter().filter(|(number, _)| !is_none(shape, *number)) {
        let before = snapshot.clone();
        FAILURES[*number](&mut snapshot, machine.get::<String>(&machines));
        shows |= snapshot != before;
    }
    let verdicts = verdicts(&snapshot);
    let by = verdicts.iter().filter(|(_, verdict)| !verdict.status().is_fine()).map(|(check, _)| check.id);
    let by = format!("{:?}", by.collect::<Vec<_>>());
    shows.then(|| Said { status: worst(&verdicts), is_in_sight: is_in_sight(&snapshot), by })
}

proptest! {
    #![proptest_config(config(256))]

    /// All of this one is seen, and nothing in it is switched off.
    #[test]
    fn a_broken_world_fails(
        shape in full_world().prop_map(|shape| strictly(&shape)),
        broken in prop::collection::vec(failure(), 1..5),
    ) {
        if let Some(said) = said_of(&shape, &broken) {
            let fails = said.status == Status::Fail || (!said.is_in_sight && !said.status.is_fine());
            prop_assert!(fails, "{:?}: {}", said.status, said.by);
        }
    }

    #[test]
    fn a_broken_world_is_never_healthy(
        shape in any_world().prop_map(|shape| strictly(&shape)),
        broken in prop::collection::vec(failure(), 1..5),
    ) {
        if let Some(said) = said_of(&shape, &broken) {
            prop_assert!(!said.status.is_fine(), "{:?}: {}", said.status, said.by);
        }
    }
}
