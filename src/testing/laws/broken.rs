//! Clusters with several failures are never reported as healthy.

use proptest::prelude::*;
use proptest::sample::Index;

use crate::model::Status;
use crate::snapshot::Allowance;
use crate::testing::fixture::{Dns, Shape};
use crate::testing::laws::monotony::{FAILURES, failure, is_in_sight};
use crate::testing::laws::worlds::{any_world, full_world};
use crate::testing::laws::{config, verdicts, worst};

/// Returns whether the failure at this index of `FAILURES` is not one in a world of this shape.
fn is_none(shape: &Shape, number: usize) -> bool {
    const TIME: usize = 5;
    const MEMORY: usize = 7;
    const VOLUMES: usize = 8;
    const DNS: usize = 19;
    const TAINTS: usize = 24;
    match number {
        // These belong to the host.
        TIME | MEMORY | VOLUMES => shape.container,
        // A replacement of Talos's DNS may have been removed on purpose.
        DNS => shape.dns != Dns::Own,
        // Nodes of another system can run the pods.
        TAINTS => shape.foreign > 0,
        _ => false,
    }
}

/// A shape in which no machine is allowed to be missing.
fn strictly(shape: &Shape) -> Shape {
    Shape { allowance: Allowance::None, ..shape.clone() }.settled()
}

/// The result for a world with failures.
struct Said {
    status: Status,
    /// A source still reports on the cluster.
    is_in_sight: bool,
    /// Checks that report the failures.
    by: String,
}

/// Applies each of the failures to a Talos machine. `None` if none of them has an effect.
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

    /// In these worlds everything is visible, and nothing is disabled.
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
