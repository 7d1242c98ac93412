//! Laws of the whole catalog, over healthy clusters of many shapes: missing evidence is not health, a further failure never helps, and
//! order is not significant.

mod aging;
mod alone;
pub(crate) mod blinding;
mod broken;
mod corruption;
mod declared;
mod etcd_tables;
mod exceptions;
mod graph;
mod growth;
mod kube_tables;
mod loss;
mod monotony;
mod order;
mod policies;
mod rechecks;
mod removal;
mod reports;
mod rights;
mod states;
mod stories;
mod tables;
mod worlds;

use std::collections::BTreeSet;

use proptest::test_runner::{Config, RngSeed};

use crate::assess::Assessment;
use crate::checks::Check;
use crate::diagnosis::{self, Diagnosis};
use crate::model::{Outcome, Status, Verdict};
use crate::snapshot::Snapshot;

/// Runs the same cases every time, unless `PROPTEST_RNG_SEED` or `PROPTEST_CASES` is set.
fn config(cases: u32) -> Config {
    let mut config = Config::default();
    if std::env::var_os("PROPTEST_RNG_SEED").is_none() {
        config.rng_seed = RngSeed::Fixed(1);
    }
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    config
}

fn judged(check: &Check, snapshot: &Snapshot) -> Verdict {
    crate::testing::fixture::verdict(check.id.name(), snapshot)
}

/// Returns all verdicts as the engine judges a round.
fn verdicts(snapshot: &Snapshot) -> Vec<(&'static Check, Verdict)> {
    let mut verdicts = crate::testing::fixture::verdicts(snapshot);
    crate::checks::allowance::apply(&Assessment::of(snapshot), &mut verdicts);
    crate::checks::evidence::require(snapshot, &mut verdicts);
    verdicts
}

fn overall(snapshot: &Snapshot) -> Status {
    worst(&verdicts(snapshot))
}

fn worst(verdicts: &[(&'static Check, Verdict)]) -> Status {
    verdicts.iter().map(|(_, verdict)| verdict.status()).max().unwrap()
}

fn diagnosed(snapshot: &Snapshot) -> Vec<Diagnosis> {
    diagnosis::diagnose(snapshot, &verdicts(snapshot))
}

/// Returns all statements of the verdicts, without order.
fn said(verdicts: &[(&'static Check, Verdict)]) -> BTreeSet<String> {
    let of = |(check, verdict): &(&'static Check, Verdict)| {
        let id = check.id;
        let of_finding = move |finding: &crate::model::Finding| {
            let said = match &finding.outcome {
                Outcome::Problem(problem) => {
                    format!("{} {:?} {}", problem.reason.code(), problem.explained_by, problem.waiting_helps)
                }
                Outcome::Blocked(by) => by.to_string(),
                _ => String::new(),
            };
            format!("{id} {} {} {said}", finding.target, finding.outcome.status().name())
        };
        verdict.findings.iter().map(of_finding).collect::<Vec<_>>()
    };
    verdicts.iter().flat_map(of).collect()
}
