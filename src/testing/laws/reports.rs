//! Every check of the plan is in every report exactly once, regardless of how the run was narrowed and how it ended.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::{CommandFactory as _, FromArgMatches as _};
use jiff::Timestamp;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;
use tokio::time::Instant;

use crate::checks::ALL;
use crate::cli::Cli;
use crate::diagnosis::diagnose;
use crate::engine::End;
use crate::engine::event::{Event, Round};
use crate::model::Exit;
use crate::model::Stage;
use crate::plan::{Plan, Start};
use crate::report::format::{self, Format};
use crate::report::ledger::{Ending, Ledger};
use crate::report::view::causes;
use crate::report::view::index::Index;
use crate::report::{Report, Selection, TextStyle};
use crate::snapshot::Snapshot;
use crate::testing::fixture::{Shape, Sides};
use crate::testing::laws::monotony::{fail, failure};
use crate::testing::laws::worlds::any_world;
use crate::testing::laws::{config, judged};

const PATTERNS: [&str; 12] = [
    "etcd",
    "k8s",
    "talos.nodes",
    "1",
    "3",
    "api-server",
    "*.nodes.*",
    "etcd.quorum",
    "k8s.dns",
    "k8s.controlplane.leases",
    "talos.time",
    "k8s.api.identity",
];

fn patterns(option: &'static str) -> impl Strategy<Value = Vec<String>> {
    let some = prop::collection::vec(select(PATTERNS.to_vec()), 0..3);
    some.prop_map(move |patterns| patterns.iter().flat_map(|it| [option.to_owned(), (*it).to_owned()]).collect())
}

/// Generates options that narrow a run.
fn arguments() -> impl Strategy<Value = Vec<String>> {
    let level = prop::option::of(select(vec!["talos", "etcd", "api", "full"]));
    let others = (level, prop::bool::weighted(0.2), prop::bool::weighted(0.2), any::<bool>());
    (patterns("--check"), patterns("--skip"), others).prop_map(|(check, skip, others)| {
        let (level, no_talos, no_kubernetes, server) = others;
        let flags = [("--no-talos", no_talos), ("--no-kubernetes", no_kubernetes), ("--server", server)];
        let flags = flags.into_iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| flag.to_owned());
        let level = level.into_iter().flat_map(|level| ["--level".to_owned(), level.to_owned()]);
        ["cluster-health".to_owned()].into_iter().chain(check).chain(skip).chain(flags).chain(level).collect()
    })
}

/// Generates the end of a run. `None` means that the run was killed before its end.
fn ending() -> impl Strategy<Value = Option<Ending>> {
    select(vec![
        None,
        Some(Ending::Engine(End::Healthy)),
        Some(Ending::Engine(End::OnePass)),
        Some(Ending::Engine(End::Credentials)),
        Some(Ending::Engine(End::Final)),
        Some(Ending::Engine(End::Deadline)),
        Some(Ending::Configuration("could not read a file".to_owned())),
        Some(Ending::Signal(Exit::Interrupted)),
        Some(Ending::Signal(Exit::Terminated)),
        Some(Ending::Internal("a fault".to_owned())),
    ])
}

/// Parses the command line and decides the plan, if there is one.
fn planned(arguments: &[String]) -> (Cli, Option<Plan>) {
    let matches = Cli::command().get_matches_from(arguments);
    let cli = Cli::from_arg_matches(&matches).unwrap();
    let start = Start { instant: Instant::now(), wall: Timestamp::UNIX_EPOCH };
    let plan = Plan::decide(&cli.run, &matches, None, start).ok();
    (cli, plan)
}

fn round(plan: &Plan, number: u32, snapshot: Snapshot) -> Round {
    let verdicts: Vec<_> = plan.pace.checks.iter().map(|check| (*check, judged(check, &snapshot))).collect();
    let (at, took) = (Duration::from_secs(number.into()), Duration::from_secs(1));
    let diagnoses = diagnose(&snapshot, &verdicts);
    Round { number, at, took, snapshot, verdicts, diagnoses: diagnoses.into(), in_doubt: false }
}

fn of_format(format: &Format, report: &Report) -> String {
    String::from_utf8(format.render(report, &TextStyle::default()).unwrap()).unwrap()
}

/// Returns the statuses in the document, as `id status selected`, sorted.
fn in_json(report: &Report) -> Vec<String> {
    let document: Value = serde_json::from_str(&of_format(&format::JSON, report)).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let checks = document["checks"].as_array().unwrap().iter();
    let mut checks: Vec<String> = checks
        .map(|check| format!("{} {} {}", text(&check["id"]), text(&check["selected"]), text(&check["status"])))
        .collect();
    checks.sort();
    checks
}

/// Returns the cases of the document, by check, and whether each is skipped as not selected.
fn in_junit(report: &Report) -> Vec<(String, bool)> {
    let document = quick_junit::Report::deserialize_from_str(&of_format(&format::JUNIT, report)).unwrap();
    let cases = document.test_suites.iter().flat_map(|suite| &suite.test_cases);
    let cases = cases.filter(|case| case.classname.as_ref().is_none_or(|it| it.as_str() != "cluster-health.run"));
    let is_left_out = |status: &quick_junit::TestCaseStatus| match status {
        quick_junit::TestCaseStatus::Skipped { message, .. } => {
            message.as_ref().is_some_and(|it| it.as_str().starts_with("not selected ("))
        }
        _ => false,
    };
    let mut cases: Vec<_> = cases.map(|case| (case.name.to_string(), is_left_out(&case.status))).collect();
    cases.sort();
    cases
}

proptest! {
    #![proptest_config(config(96))]

    #[test]
    fn every_planned_check_is_in_every_report(
        arguments in arguments(),
        shape in any_world(),
        broken in prop::collection::vec(failure(), 0..3),
        rounds in 0..3_u32,
        ending in ending(),
    ) {
        // Contradictory options do not start a run.
        let (cli, Some(plan)) = planned(&arguments) else { return Ok(()) };
        let sides = match (cli.run.connection.no_talos, cli.run.connection.no_kubernetes) {
            (true, _) => Sides::NoTalos,
            (_, true) => Sides::NoKubernetes,
            _ => Sides::Both,
        };
        let mut world = Shape { sides, ..shape }.settled().world();
        let mut ledger = Ledger::new(plan.unbegun());
        for number in 1..=rounds {
            for failure in &broken {
                fail(&mut world, *failure);
            }
            ledger.record(&Event::Round(&round(&plan, number, world.clone())));
        }
        let report = match &ending {
            Some(ending) => ledger.conclude(ending, Timestamp::UNIX_EPOCH, Duration::from_secs(3)),
            None => ledger.report(),
        };

        // The set of checks depends only on `--server`, a policy, and the options of an upgrade.
        let of_catalog = ALL.iter().filter(|check| match check.stage {
            Stage::Server => cli.run.connection.server,
            _ => !check.is_asked_by_option(),
        });
        let mut expected = Vec::new();
        for check in of_catalog {
            let entry = report.checks.iter().find(|entry| entry.check.id == check.id).unwrap();
            let (selected, status) = match entry.selection {
                Selection::Selected => ("selected", entry.shown_status()),
                Selection::Prerequisite => ("prerequisite", entry.shown_status()),
                Selection::NotSelected(_) => ("not-selected", crate::testing::laws::Status::Skip),
            };
            // A check that was not judged in any round is not known to pass.
            prop_assert!(selected == "not-selected" || rounds > 0 || !status.is_fine(), "{} {:?}", check.id, status);
            expected.push(format!("{} {selected} {}", check.id, status.name()));
        }
        expected.sort();
        prop_assert_eq!(in_json(&report), expected.clone());
        let cases = in_junit(&report);
        prop_assert_eq!(cases.len(), expected.len());
        for ((name, is_left_out), expected) in cases.iter().zip(&expected) {
            prop_assert!(expected.starts_with(&format!("{name} ")), "{} and {}", name, expected);
            prop_assert_eq!(*is_left_out, expected.contains(" not-selected "), "{}", expected);
        }
        // Only a run that completed and found no problem is a success.
        let is_healthy = matches!(ending, Some(Ending::Engine(End::Healthy))) && rounds > 0;
        prop_assert!(report.exit != Exit::Healthy || is_healthy, "{:?} {:?}", report.exit, ending);
    }
}

proptest! {
    #![proptest_config(config(16))]

    /// Every failure is a cause or is counted under one, and every document names its check, except those that have only numbers.
    #[test]
    fn no_failure_disappears(shape in any_world(), broken in prop::collection::vec(failure(), 1..6)) {
        let plan = planned(&["cluster-health".to_owned()]).1.unwrap();
        let mut world = Shape { sides: Sides::Both, ..shape }.settled().world();
        for failure in broken {
            fail(&mut world, failure);
        }
        let mut ledger = Ledger::new(plan.unbegun());
        ledger.record(&Event::Round(&round(&plan, 1, world)));
        let report = ledger.conclude(&Ending::Engine(End::OnePass), Timestamp::UNIX_EPOCH, Duration::from_secs(3));
        let failed: BTreeSet<_> =
            report.checks.iter().filter(|it| it.problems().next().is_some()).map(|it| it.check.id).collect();
        let causes = causes::of(&Index::of(&report), &TextStyle::default());
        let told: BTreeSet<_> = causes.iter().flat_map(|cause| cause.shows.iter().copied()).collect();
        prop_assert_eq!(&told, &failed);
        for format in [&format::JSON, &format::NDJSON, &format::JUNIT, &format::MARKDOWN, &format::HTML] {
            let document = of_format(format, &report);
            for id in &failed {
                prop_assert!(document.contains(id.name()), "{} is not in {}", id, format.name);
            }
        }
    }
}
