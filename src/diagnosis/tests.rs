//! Each cause is recognized in its own trouble, not without the facts that it rests on, and never in a healthy cluster.

mod breaks;
mod deepest;
mod proposals;
mod rules;
mod scale;
mod troubles;
mod whom;

use std::collections::BTreeSet;
use std::time::Duration;

use breaks::*;
use troubles::*;

use super::symptoms::same_subject;
use super::*;
use crate::checks::{self};
use crate::engine::event::{Event, Round};
use crate::model::Role;
use crate::model::{Kind, Severity};
use crate::report::ledger::Ledger;
use crate::report::{self, CheckReport, RunResult, Selection, TextStyle};
use crate::snapshot::{
    AlarmKind, ContainerState, Diagnostic, EtcdAlarm, EtcdEndpoint, EtcdMember, Gap, GapKind, Readyz, TalosNode,
    UnmetCondition, Upgrade,
};
use crate::testing::fixture::{CONTROL_PLANES, ago, amounts, condition, gap, healthy, running_pod};

type Break = fn(&mut Snapshot);

/// A trouble, the expected cause, and the facts each of which the cause requires.
struct Case {
    cause: &'static str,
    trouble: Break,
    needs: &'static [Break],
}

fn verdicts(snapshot: &Snapshot) -> Vec<(&'static Check, Verdict)> {
    crate::testing::fixture::verdicts(snapshot)
}

fn diagnosed(snapshot: &Snapshot) -> Vec<Diagnosis> {
    diagnose(snapshot, &verdicts(snapshot))
}

fn ids(snapshot: &Snapshot) -> Vec<&'static str> {
    diagnosed(snapshot).iter().map(|diagnosis| diagnosis.id).collect()
}

fn broken(trouble: Break) -> Snapshot {
    let mut snapshot = healthy();
    trouble(&mut snapshot);
    snapshot
}

#[test]
fn each_cause_is_recognized_in_its_own_trouble() {
    for case in CASES {
        let snapshot = broken(case.trouble);
        let made = ids(&snapshot);
        assert!(made.contains(&case.cause), "{}: {made:?}\n{:#?}", case.cause, problems(&snapshot));
    }
    let tried: BTreeSet<_> = CASES.iter().map(|case| case.cause).collect();
    assert_eq!(tried, ALL.iter().map(|cause| cause.id).collect(), "each cause has a case");
}

fn problems(snapshot: &Snapshot) -> Vec<String> {
    let verdicts = verdicts(snapshot);
    let all = verdicts.iter().flat_map(|(check, verdict)| verdict.problems().map(move |it| (check.id, it)));
    all.map(|(id, (target, problem))| {
        let by = problem.explained_by.map(|by| format!(" by {by}")).unwrap_or_default();
        format!("{id} {target} {}: {}{by}", problem.reason.code(), problem.observed)
    })
    .collect()
}

/// Absence is not evidence: without a fact that it rests on, a cause is not guessed.
#[test]
fn no_cause_is_recognized_without_the_facts_it_rests_on() {
    for case in CASES {
        for (n, take) in case.needs.iter().enumerate() {
            let mut snapshot = broken(case.trouble);
            take(&mut snapshot);
            assert!(!ids(&snapshot).contains(&case.cause), "{} without fact {n}", case.cause);
        }
    }
}

/// A machine that takes etcd's last margin with it cannot wait until morning.
#[test]
fn an_impact_is_that_of_the_instance() {
    let impact = |snapshot: &Snapshot| diagnosed(snapshot)[0].impact.clone();
    let margin = "; etcd cannot lose another member";
    for (lost, is_last) in [("cp-2", true), ("w-1", false)] {
        let mut snapshot = healthy();
        snapshot.power_off(lost);
        assert_eq!(impact(&snapshot).ends_with(margin), is_last, "{lost}");
    }
}

#[test]
fn nothing_is_diagnosed_in_health() {
    assert_eq!(ids(&healthy()), [""; 0]);
    assert_eq!(ids(&healthy().without_talos()), [""; 0]);
    assert_eq!(ids(&healthy().without_kubernetes()), [""; 0]);
    assert_eq!(ids(&Snapshot::empty()), [""; 0]);
}

/// Each trouble leads to one diagnosis, and each problem is explained once.
#[test]
fn a_trouble_has_one_cause_and_a_problem_one_diagnosis() {
    for case in CASES {
        let snapshot = broken(case.trouble);
        let made = diagnosed(&snapshot);
        assert_eq!(made.len(), 1, "{}: {made:#?}", case.cause);
        let mut seen = Vec::new();
        for explained in made.iter().flat_map(|diagnosis| &diagnosis.explains) {
            assert!(!seen.contains(&explained), "{}: {explained:?} twice", case.cause);
            seen.push(explained);
        }
        for diagnosis in &made {
            assert!(!diagnosis.seen.is_empty() && !diagnosis.explains.is_empty(), "{diagnosis:#?}");
            let remedies = diagnosis.next.iter().map(|hint| matches!(hint, Hint::Remedy { .. }));
            assert!(remedies.is_sorted(), "{}: looking comes first", case.cause);
            assert!(!diagnosis.headline.ends_with('.') && !diagnosis.headline.contains("  "), "{}", diagnosis.headline);
        }
    }
}

/// Users would have to explain a failure without a diagnosis themselves.
#[test]
fn a_machine_that_is_down_explains_all_that_follows() {
    let mut snapshot = healthy();
    snapshot.power_off("cp-3");
    let made = diagnosed(&snapshot);
    assert_eq!(made.len(), 1, "{made:#?}");
    let left: Vec<String> = verdicts(&snapshot)
        .iter()
        .flat_map(|(check, verdict)| verdict.problems().map(move |it| (check.id, it)))
        .filter(|(_, (_, problem))| problem.severity == Severity::Fail)
        .filter(|(id, (target, problem))| !made[0].is_about(*id, target, problem.reason, &problem.observed))
        .map(|(id, (target, problem))| format!("{id} {target}: {}", problem.observed))
        .collect();
    assert_eq!(left, [""; 0]);
    assert!(made[0].headline.starts_with("control plane node cp-3 (10.0.0.3) does not answer"), "{}", made[0].headline);
}

/// Kubernetes reports a machine as Ready for most of a minute after it has died.
#[test]
fn ready_is_no_sign_of_life() {
    assert_eq!(ids(&broken(|snapshot| unreached(snapshot, GapKind::NodeUnreachable))), ["node-down"]);
    let serving = broken(|snapshot| {
        snapshot.node_mut("cp-3").talos = TalosNode::unasked(&Gap::new(GapKind::NodeUnreachable, "rpc error")).into();
    });
    assert_eq!(ids(&serving), ["talos-api-cut-off"], "its API server has just answered");
}

#[test]
fn causes_come_before_symptoms_and_symptoms_have_no_diagnosis_of_their_own() {
    let mut snapshot = healthy();
    for name in ["cp-2", "cp-3"] {
        snapshot.power_off(name);
    }
    let status = snapshot.etcd_status_mut("cp-1");
    status.leader = 0;
    status.errors = vec!["etcdserver: no leader".to_owned()];
    snapshot.talos_of("cp-1").etcd_members = gap(GapKind::TimedOut);
    snapshot.talos_of("cp-1").etcd_alarms = gap(GapKind::TimedOut);
    let failed = vec!["etcd".to_owned()];
    let readyz =
        Readyz { server: String::new(), status: 500, failed, text: String::new(), certificate: None, unnamed: None };
    snapshot.kube().servers.insert("cp-1".to_owned(), Ok(readyz.clone()));
    snapshot.kube().endpoint = Ok(readyz);
    lists(&mut snapshot, GapKind::ServerError);
    assert_eq!(ids(&snapshot), ["etcd-quorum-lost", "node-down", "node-down"], "what stops all comes first");
    let headline = &diagnosed(&snapshot)[0].headline;
    assert_eq!(
        headline,
        "etcd has lost its quorum: no answer from cp-2 (10.0.0.2) and cp-3 (10.0.0.3); 1 of 3 voters up, need 2; no leader \
         (voters assumed: one on each control plane); answers came from cp-1 (10.0.0.1)"
    );
    let down = diagnosed(&snapshot).into_iter().skip(1).flat_map(|it| it.explains).map(|it| it.check);
    assert_eq!(
        down.filter(|check| *check == "talos.nodes.reachable").count(),
        2,
        "each machine explains its own silence"
    );
}

/// Every problem appears below the stages with `-v`, in full or in one line, regardless of the diagnosis.
#[test]
fn no_report_loses_a_problem() {
    for case in CASES {
        let snapshot = broken(case.trouble);
        let verdicts = verdicts(&snapshot);
        let diagnoses = diagnose(&snapshot, &verdicts);
        let round = Round {
            number: 1,
            at: Duration::ZERO,
            took: Duration::ZERO,
            snapshot,
            verdicts,
            diagnoses: diagnoses.into(),
            in_doubt: false,
        };
        let mut report = report::fixture::healthy();
        report.result = RunResult::Unhealthy;
        report.checks = checks::ALL.iter().map(|check| CheckReport::unjudged(check, Selection::Selected)).collect();
        let mut ledger = Ledger::new(report);
        ledger.record(&Event::Round(&round));
        let mut text = Vec::new();
        report::format::text::write(&ledger.report(), &TextStyle { verbose: true, ..TextStyle::default() }, &mut text)
            .unwrap();
        let text = String::from_utf8(text).unwrap();
        let (_, end) = text.split_once("\n1. ").unwrap();
        for (check, verdict) in &round.verdicts {
            for (target, problem) in verdict.problems() {
                let shown =
                    end.contains(&crate::text::sanitize::clean(&problem.observed)) && end.contains(&target.name);
                assert!(shown, "{}: {} of {target} is lost: {text}", case.cause, check.id);
            }
        }
    }
}

/// An unmet condition that is unrelated to the cause stays in full view.
#[test]
fn a_cause_explains_no_more_than_follows_from_it() {
    let mut snapshot = broken(|snapshot| service(snapshot, "w-1", "kubelet", "Waiting"));
    let condition = |name: &str| UnmetCondition { name: name.to_owned(), reason: "not yet".to_owned() };
    let status = snapshot.machine_status_mut("w-1");
    status.ready = false;
    status.unmet = vec![condition("time")];
    let made = diagnosed(&snapshot);
    assert_eq!(made.len(), 1);
    assert!(made[0].explains.iter().all(|it| it.check != "talos.nodes.ready"), "{made:#?}");
}

#[test]
fn ids_mean_one_thing_and_texts_are_complete() {
    let mut known: BTreeSet<&str> = checks::ALL.iter().map(|check| check.id.name()).collect();
    known.extend(Reason::ALL.iter().map(|reason| reason.code()));
    for cause in ALL {
        assert!(known.insert(cause.id), "`{}` means something else already", cause.id);
        let is_kebab = cause.id.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        assert!(is_kebab && cause.explain.contains("\n\n") && !cause.title.ends_with('.'), "{}", cause.id);
        assert!(cause.source.title.contains("documentation, `"), "{}", cause.id);
        assert!(matches!(cause.remedy.first(), Some(Step::Look(_))), "{}: looking comes first", cause.id);
        assert_eq!(crate::model::reason::dares_without_a_word(cause.remedy), None, "{}", cause.id);
    }
}

#[test]
fn subjects_are_machines() {
    let node = Target::new(Kind::Node, "cp-1").with_address("10.0.0.1");
    for (other, same) in [
        (Target::pod("kube-scheduler-cp-1", Some("cp-1")), true),
        (Target::pod("kube-scheduler-eu-cp-1", Some("eu-cp-1")), false),
        (Target::pod("kube-scheduler-cp-1", None), false),
        (Target::new(Kind::Endpoint, "10.0.0.1:50000"), true),
        (Target::new(Kind::Endpoint, "10.0.0.11:50000"), false),
        (Target::new(Kind::EtcdMember, "cp-1"), true),
        (Target::cluster(), false),
    ] {
        assert_eq!(same_subject(&node, &other), same, "{other:?}");
        assert_eq!(same_subject(&other, &node), same, "{other:?}");
    }
}
