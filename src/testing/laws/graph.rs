//! Dependencies between checks: one graph, which the engine applies and every list of checks shows.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;

use super::config;
use super::monotony::{fail, failure};
use super::removal::removals;
use super::worlds::any_world;
use crate::assess::Assessment;
use crate::checks::{ALL, Check, allowance};
use crate::cli::{Command, ListOutput};
use crate::commands;
use crate::engine;
use crate::model::{CheckId, Kind, Outcome, Severity, Verdict};
use crate::plan::selection::{Wanted, select};
use crate::snapshot::{Allowance, GapKind, Snapshot};
use crate::testing::fixture::{Shape, healthy};

fn check(id: CheckId) -> &'static Check {
    ALL.iter().find(|check| check.id == id).unwrap()
}

/// Returns all checks that the check depends on, directly or indirectly.
fn closure(id: CheckId) -> BTreeSet<CheckId> {
    let mut all = BTreeSet::new();
    let mut open = vec![id];
    while let Some(id) = open.pop() {
        open.extend(check(id).before().filter(|id| all.insert(*id)));
    }
    all
}

/// Returns the checks that run with these options.
fn plan(check: &[String], skip: &[String], sides: [bool; 2]) -> Vec<&'static Check> {
    let [no_talos, no_kubernetes] = sides;
    let wanted = Wanted { check, skip, no_talos, no_kubernetes, ..Wanted::default() };
    let selection = select(&wanted).unwrap();
    selection.into_iter().filter(|(_, part)| part.runs()).map(|(check, _)| check).collect()
}

fn judged(plan: &[&'static Check], snapshot: &Snapshot) -> Vec<(&'static Check, Verdict)> {
    engine::judge(plan, snapshot)
}

#[test]
fn nothing_stands_before_itself() {
    for check in ALL {
        assert!(!closure(check.id).contains(&check.id), "{}", check.id);
        let needed: BTreeSet<_> =
            check.requires().into_iter().flat_map(|id| closure(id).into_iter().chain([id])).collect();
        let twice: Vec<_> = check.after().into_iter().filter(|id| needed.contains(id)).collect();
        assert!(twice.is_empty(), "{} comes after {twice:?}, which it requires", check.id);
    }
}

/// Checks without dependencies end a run that cannot begin: only the credentials have none.
#[test]
fn only_credentials_are_judged_before_anybody_is_asked() {
    let preflight: Vec<_> = ALL.iter().filter(|check| check.is_preflight()).map(|check| check.id).collect();
    assert_eq!(preflight, [CheckId::TalosCredentials, CheckId::K8sCredentials]);
}

#[test]
fn every_list_shows_the_graph() {
    let mut out = Vec::new();
    commands::run(&Command::List { reasons: false, causes: false, output: ListOutput::Json, verbose: false }, &mut out)
        .unwrap();
    let listed: Vec<BTreeMap<String, serde_json::Value>> = serde_json::from_slice(&out).unwrap();
    for (check, listed) in ALL.iter().zip(&listed) {
        let names = |ids: &[CheckId]| serde_json::to_value(ids.iter().map(|id| id.name()).collect::<Vec<_>>()).unwrap();
        assert_eq!((&listed["requires"], &listed["after"]), (&names(&check.requires()), &names(&check.after())));
    }
}

/// Asserts the relations between the verdicts of the checks.
fn hold(plan: &[&'static Check], verdicts: &[(&'static Check, Verdict)]) -> Result<(), TestCaseError> {
    let runs: BTreeSet<CheckId> = plan.iter().map(|check| check.id).collect();
    let sees = |id: CheckId| {
        let (_, verdict) = verdicts.iter().find(|(check, _)| check.id == id).unwrap();
        verdict.problems().any(|(_, problem)| problem.severity > Severity::Warn)
    };
    for (check, verdict) in verdicts {
        for finding in &verdict.findings {
            match &finding.outcome {
                Outcome::Blocked(by) => {
                    prop_assert!(runs.contains(by), "{} is blocked by {by}, which does not run", check.id);
                    prop_assert!(
                        closure(check.id).contains(by),
                        "{} is blocked by {by}, which it never names",
                        check.id
                    );
                    prop_assert!(sees(*by), "{} is blocked by {by}, which has found nothing", check.id);
                }
                Outcome::Problem(problem) => {
                    prop_assert!(!problem.unseen || problem.severity == Severity::Error, "{}: {problem:?}", check.id);
                }
                Outcome::Pass(_) | Outcome::Skip(_) => {}
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(192))]

    /// Leaving a check out removes only its own verdict.
    #[test]
    fn who_leaves_a_check_out_makes_nothing_worse(
        shape in any_world(),
        broken in prop::collection::vec(failure(), 0..3),
        skipped in any::<Index>(),
    ) {
        let mut snapshot = shape.world();
        for failure in broken {
            fail(&mut snapshot, failure);
        }
        // Failures determine which workers may be missing, and one of these failures may be the check that is left out.
        snapshot.asked.max_unready_workers = Allowance::None;
        let id = skipped.get(ALL).id;
        let sides = [snapshot.talos.is_none(), snapshot.kubernetes.is_none()];
        let whole = judged(&plan(&[], &[], sides), &snapshot);
        snapshot.asked.skipped.insert(id);
        for (check, verdict) in judged(&plan(&[], &[id.to_string()], sides), &snapshot) {
            let (_, before) = whole.iter().find(|(it, _)| it.id == check.id).unwrap();
            let is_worse = before.status().is_fine() && !verdict.status().is_fine();
            prop_assert!(!is_worse, "{} without {id}: {:?}, then {:?}", check.id, before, verdict);
        }
    }

    #[test]
    fn only_what_runs_and_has_found_something_stands_in_the_way(
        shape in any_world(),
        broken in prop::collection::vec(failure(), 0..3),
        lost in prop::collection::vec((any::<Index>(), 0..4_usize), 0..3),
        chosen in prop::option::of(any::<Index>()),
        skipped in prop::collection::vec(any::<Index>(), 0..2),
    ) {
        let kinds = [GapKind::TimedOut, GapKind::Forbidden, GapKind::NotAsked, GapKind::ConnectionRefused];
        let mut snapshot = shape.world();
        let removals: Vec<_> = removals(&snapshot).into_iter().filter(|removal| removal.name != "every node").collect();
        for failure in broken {
            fail(&mut snapshot, failure);
        }
        for (index, kind) in lost {
            (index.get(&removals).apply)(&mut snapshot, Some(kinds[kind]));
        }
        let name = |index: &Index| index.get(ALL).id.to_string();
        let chosen: Vec<String> = chosen.iter().map(name).filter(|id| id != "talos.server").collect();
        let skipped: Vec<String> = skipped.iter().map(name).collect();
        let plan = plan(&chosen, &skipped, [snapshot.talos.is_none(), snapshot.kubernetes.is_none()]);
        snapshot.asked.skipped = skipped.iter().map(|id| id.as_str().into()).collect();
        hold(&plan, &judged(&plan, &snapshot))?;
    }
}

/// A worker that is allowed to be missing is also allowed to be by checks that come after the one that was left out.
#[test]
fn a_worker_may_be_missing_whatever_is_left_out() {
    let mut snapshot = healthy();
    snapshot.power_off("w-1");
    snapshot.asked.max_unready_workers = Allowance::Count(1);
    for id in ["talos.nodes.booted", "talos.nodes.reachable", "k8s.nodes.registered"] {
        snapshot.asked.skipped = [id.into()].into();
        let mut verdicts = judged(&plan(&[], &[id.to_owned()], [false, false]), &snapshot);
        allowance::apply(&Assessment::of(&snapshot), &mut verdicts);
        let bad: Vec<_> = verdicts.iter().filter(|(_, verdict)| !verdict.status().is_fine()).collect();
        assert!(bad.is_empty(), "without {id}: {bad:#?}");
    }
}

/// One dead worker does not explain problems of the whole cluster.
#[test]
fn what_concerns_the_cluster_is_not_blamed_on_one_machine() {
    let mut snapshot = healthy();
    snapshot.power_off("w-1");
    for node in snapshot.kube().nodes.as_mut().unwrap() {
        node.addresses = vec!["10.9.0.1".to_owned()];
    }
    let plan = plan(&[], &[], [false, false]);
    let verdicts = judged(&plan, &snapshot);
    let by = |id: CheckId| {
        let (_, verdict) = verdicts.iter().find(|(check, _)| check.id == id).unwrap();
        let of = verdict.findings.iter().find(|it| it.target.kind == Kind::Cluster).map(|it| it.outcome.clone());
        matches!(of, Some(Outcome::Blocked(CheckId::K8sApiIdentity)))
    };
    for id in [CheckId::K8sNodesReady, CheckId::K8sDns, CheckId::K8sControlplaneVersions] {
        assert!(by(id), "{id}: {verdicts:#?}");
    }
}

/// Returns the verdicts of one selected check and of the checks that run with it.
fn alone(id: &str, skip: &[&str], snapshot: &Snapshot) -> Vec<String> {
    let skip: Vec<String> = skip.iter().map(|&id| id.to_owned()).collect();
    let plan = plan(&[id.to_owned()], &skip, [false, false]);
    let mut snapshot = snapshot.clone();
    snapshot.asked.skipped = skip.iter().map(|id| id.as_str().into()).collect();
    let verdicts = judged(&plan, &snapshot);
    let of = |(check, verdict): &(&'static Check, Verdict)| {
        let id = check.id;
        let said = verdict.findings.iter().filter_map(move |finding| match &finding.outcome {
            Outcome::Problem(problem) => {
                Some(format!("{id} {} {}: {}", finding.target.name, problem.reason.code(), problem.observed))
            }
            Outcome::Blocked(by) => Some(format!("{id} {} blocked by {by}", finding.target.name)),
            _ => None,
        });
        said.collect::<Vec<_>>()
    };
    verdicts.iter().flat_map(of).collect()
}

/// A kubelet that died an hour ago.
fn dead_kubelet() -> Snapshot {
    let mut snapshot = healthy();
    let service = snapshot.service_mut("w-1", "kubelet");
    (service.state, service.healthy) = ("Failed".to_owned(), Some(false));
    let object = snapshot.kube_node_mut("w-1");
    for condition in &mut object.conditions {
        "Unknown".clone_into(&mut condition.status);
    }
    snapshot
}

#[test]
fn what_a_check_needs_runs_with_it() {
    let said = alone("k8s.nodes.pressure", &[], &dead_kubelet());
    assert!(said.contains(&"k8s.nodes.pressure w-1 blocked by k8s.nodes.ready".to_owned()), "{said:#?}");
    assert!(said.iter().any(|it| it.starts_with("k8s.nodes.ready w-1 node-not-ready")), "{said:#?}");
}

#[test]
fn who_leaves_a_check_out_is_told_what_it_would_have_found() {
    let mut snapshot = healthy();
    snapshot.power_off("w-1");
    for id in ["talos.nodes.services", "talos.time", "talos.nodes.memory", "talos.nodes.network"] {
        let said = alone(id, &["talos.nodes.reachable"], &snapshot);
        assert!(said.iter().any(|it| it.starts_with(&format!("{id} w-1 node-unreachable: "))), "{said:#?}");
        assert!(!said.iter().any(|it| it.contains("not asked") || it.contains("blocked by talos.nodes.reachable")));
    }
}

/// Each protocol has its own wording.
#[test]
fn a_gap_of_talos_is_told_in_talos_words() {
    let said = |kind| {
        let mut snapshot = Shape::default().world();
        snapshot.talos_of("cp-2").static_pods = crate::testing::fixture::gap(kind);
        alone("k8s.staticpods.rendered", &[], &snapshot)
    };
    assert!(said(GapKind::Broken)[0].starts_with("k8s.staticpods.rendered cp-2 no-answer: "));
    assert!(said(GapKind::Unauthenticated)[0].starts_with("k8s.staticpods.rendered cp-2 client-certificate-refused: "));
}
