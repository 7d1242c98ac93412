//! Decisions about verdicts, without a run.

use super::*;
use crate::model::CheckId;
use crate::model::Status;

fn pace(waits: bool) -> Pace {
    Pace {
        checks: vec![&CREDENTIALS, &OTHER_CREDENTIALS, &CHECK],
        ..super::pace(waits.then_some(Duration::from_secs(60)))
    }
}

static OTHER_CREDENTIALS: Check = Check { id: CheckId::K8sCredentials, judge: said, ..CHECK };

fn observer(broken: GapKind) -> Scripted {
    Scripted { round_takes: VecDeque::new(), rounds: 0, again: 0, broken_credentials: Some(broken), forbidden: false }
}

fn said_of_credentials(pace: &Pace, broken: GapKind, script: &[Said]) -> Option<Vec<(Status, bool)>> {
    SCRIPT.set(script.iter().copied().collect());
    let round = unusable_credentials(pace, &mut observer(broken), &Memory::default())?;
    let is_blocked = |verdict: &Verdict| {
        verdict.findings.iter().any(|it| matches!(it.outcome, Outcome::Blocked(CheckId::TalosCredentials)))
    };
    Some(round.verdicts.iter().map(|(_, verdict)| (verdict.status(), is_blocked(verdict))).collect())
}

#[tokio::test(start_paused = true)]
async fn behind_unusable_credentials_nobody_was_asked() {
    let failed = (Status::Fail, false);
    let blocked = (Status::Blocked, true);
    // Other credentials that pass are reported as they are; everything else is unknown.
    for (other, expected) in [
        (Said::Fine, (Status::Pass, false)),
        (Said::Warns, (Status::Warn, false)),
        (Said::Bad, blocked),
        (Said::Hopeless, failed),
    ] {
        let said = said_of_credentials(&pace(true), GapKind::Malformed, &[other]);
        assert_eq!(said, Some(vec![failed, expected, blocked]), "{other:?}");
    }
    // The certificate will be valid in time, and a warning does not stop the run.
    assert_eq!(said_of_credentials(&pace(true), GapKind::PeerCertificateExpired, &[Said::Fine]), None);
    assert_eq!(said_of_credentials(&pace(true), GapKind::NotAsked, &[Said::Fine]), None);
    assert_eq!(said_of_credentials(&pace(false), GapKind::NotAsked, &[Said::Fine]), None);
    // A failed health check is not a matter of credentials.
    let healthy_credentials = Pace { checks: vec![&CHECK], ..pace(false) };
    assert_eq!(said_of_credentials(&healthy_credentials, GapKind::Malformed, &[Said::Hopeless]), None);
}

fn verdict(problems: &[Problem]) -> Verdict {
    let mut verdict = Verdict::default();
    for problem in problems {
        verdict.problem(Target::cluster(), problem.clone());
    }
    verdict
}

#[tokio::test(start_paused = true)]
async fn strictness_makes_failures_of_warnings_alone() {
    let severities = |pace: &Pace| -> Vec<Severity> {
        let problems = [
            Problem::warn(Reason::Cordoned, "yes", "no"),
            Problem::error(Reason::NoAnswer, "yes", "no"),
            Problem::fail(Reason::NodeUnreachable, "yes", "no"),
        ];
        let mut verdicts = [(&CHECK, verdict(&problems))];
        weight::apply_severity_overrides(pace, &Snapshot::empty(), &mut verdicts);
        verdicts[0].1.problems().map(|(_, problem)| problem.severity).collect()
    };
    assert_eq!(severities(&pace(false)), [Severity::Warn, Severity::Error, Severity::Fail]);
    let strict = Pace { strict: true, ..pace(false) };
    assert_eq!(severities(&strict), [Severity::Fail, Severity::Error, Severity::Fail]);
    let warn_only = checks_named([CHECK.id]);
    assert_eq!(severities(&Pace { warn_only, ..strict }), [Severity::Warn; 3]);
}

/// A problem that still fails is not attributed to a worker that is allowed to be silent.
#[tokio::test(start_paused = true)]
async fn what_fails_is_left_to_no_cause_that_is_allowed() {
    let mut snapshot = crate::testing::fixture::healthy();
    snapshot.power_off("w-1");
    snapshot.kubernetes.as_mut().unwrap().dns_endpoints = Ok(Vec::new());
    let explained = |snapshot: &Snapshot| {
        let pace = Pace { checks: checks::ALL.to_vec(), ..pace(false) };
        let verdicts = judge(&pace.checks, snapshot);
        let round = completed(&pace, 1, Duration::ZERO, snapshot.clone(), verdicts);
        let (_, dns) = round.verdicts.iter().find(|(check, _)| check.id == CheckId::K8sDns).unwrap();
        let (_, problem) = dns.problems().next().unwrap();
        assert_eq!(problem.severity, Severity::Fail);
        let causes: Vec<_> = round.diagnoses.iter().map(|it| it.id).collect();
        let by_cause = round.diagnoses.iter().any(|it| it.explains.iter().any(|it| it.check == CheckId::K8sDns));
        (causes, by_cause, problem.explained_by)
    };
    let (causes, ..) = explained(&snapshot);
    assert_eq!(causes, ["node-down"]);
    snapshot.asked.max_unready_workers = crate::snapshot::Allowance::Count(1);
    assert_eq!(explained(&snapshot), (vec!["node-down"], false, None));
}

#[tokio::test(start_paused = true)]
async fn a_judge_that_says_nothing_is_told_of() {
    SCRIPT.set([Said::Nothing].into());
    let verdicts = judge(&[&CHECK], &Snapshot::empty());
    let (target, problem) = verdicts[0].1.problems().next().unwrap();
    assert_eq!((target, problem.reason, problem.severity), (&Target::cluster(), Reason::NoAnswer, Severity::Error));
}

/// Only failures count, so a warning does not keep the run waiting.
#[tokio::test(start_paused = true)]
async fn waiting_is_in_vain_if_nothing_in_the_way_can_heal() {
    let warns = || Problem::warn(Reason::Cordoned, "yes", "no");
    let heals = || Problem::fail(Reason::NodeUnreachable, "yes", "no");
    let stays = || heals().permanent();
    let is_final = |problems: &[Problem], any| {
        let verdicts = vec![(&CHECK, verdict(problems))];
        let (at, took) = (Duration::ZERO, Duration::ZERO);
        let diagnoses = Vec::new().into();
        Round { number: 1, at, took, snapshot: Snapshot::empty(), verdicts, diagnoses, in_doubt: false }.is_final(any)
    };
    for (problems, of_all, of_any) in [
        (vec![], false, false),
        (vec![warns().permanent()], false, false),
        (vec![heals()], false, false),
        (vec![stays()], true, true),
        (vec![stays(), warns()], true, true),
        (vec![stays(), heals()], false, true),
        (vec![heals(), warns().permanent()], false, false),
    ] {
        assert_eq!((is_final(&problems, false), is_final(&problems, true)), (of_all, of_any), "{problems:?}");
    }
}
