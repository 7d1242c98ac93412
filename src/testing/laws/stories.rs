//! Laws of a round's causes, regardless of the cluster and its troubles. Laws that need only a report are in `crates/story`.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::Index;

use super::config;
use super::corruption::sick;
use super::monotony::{fail, failing, failure};
use super::removal::removals;
use super::worlds::any_world;
use crate::diagnosis::diagnose;
use crate::diagnosis::graph::Causes;
use crate::model::{CheckId, Severity};
use crate::snapshot::{GapKind, Snapshot};

/// Asserts that the causes of each problem form no cycle, and that the diagnoses are in the order in which they are to be read.
fn hold(snapshot: &Snapshot) -> Result<(), TestCaseError> {
    let mut verdicts = super::verdicts(snapshot);
    crate::diagnosis::explain(snapshot, &mut verdicts);
    crate::diagnosis::propose(snapshot, &mut verdicts);
    let problems: Vec<_> = crate::checks::problems(&verdicts).collect();
    let causes = Causes::of(snapshot, &verdicts);
    // Problems whose chain of causes ends, collected step by step.
    let mut told: BTreeSet<usize> = BTreeSet::new();
    loop {
        let more = (0..problems.len()).filter(|at| !told.contains(at));
        let more: Vec<_> = more.filter(|at| causes.behind(*at).iter().all(|cause| told.contains(cause))).collect();
        if more.is_empty() {
            break;
        }
        told.extend(more);
    }
    let lost: Vec<_> = (0..problems.len()).filter(|at| !told.contains(at)).map(|at| &problems[at]).collect();
    prop_assert!(lost.is_empty(), "in a circle: {:#?}", lost);
    let failed: BTreeSet<CheckId> =
        problems.iter().filter(|(_, _, problem)| problem.severity > Severity::Warn).map(|(check, ..)| *check).collect();
    for (check, _, problem) in problems.iter().filter(|(_, _, problem)| problem.severity > Severity::Warn) {
        let by = problem.explained_by;
        prop_assert!(by.is_none_or(|by| failed.contains(&by)), "{} by {:?}, which has not failed", check, by);
    }
    let warns: Vec<_> = diagnose(snapshot, &verdicts).iter().map(|it| it.severity == Severity::Warn).collect();
    prop_assert!(warns.is_sorted(), "failures come first: {:?}", warns);
    Ok(())
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn every_cause_is_upstream(
        shape in any_world(),
        broken in prop::collection::vec(failure(), 1..5),
        (removed, kind) in (prop::option::of(any::<Index>()), prop::sample::select(vec![GapKind::TimedOut, GapKind::Forbidden])),
    ) {
        let mut snapshot = shape.settled().world();
        for failure in broken {
            fail(&mut snapshot, failure);
        }
        if let Some(removed) = removed {
            let removals = removals(&snapshot);
            (removals[removed.index(removals.len())].apply)(&mut snapshot, Some(kind));
        }
        hold(&snapshot)?;
    }
}

#[test]
fn every_cause_of_a_single_trouble_is_upstream() {
    for (name, snapshot) in sick().map(|(name, _, snapshot)| (name, snapshot)).chain(failing()) {
        hold(&snapshot).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
