//! The weight of each problem under the user's options, and the problems that no longer follow from a cause because of it.

use std::collections::{HashMap, HashSet};

use super::{Named, Pace};
use crate::assess::Assessment;
use crate::checks::{self, Check};
use crate::diagnosis::{Diagnosis, Explained, explain, sort};
use crate::model::{CheckId, Finding, Outcome, Problem, Reason, Severity, Target, Verdict};
use crate::snapshot::{Allowance, Snapshot};

/// An observation about a target.
type Sight = (CheckId, Target, Reason, String);

/// Gives each problem its weight.
pub(super) fn apply(
    pace: &Pace,
    snapshot: &Snapshot,
    verdicts: &mut [(&'static Check, Verdict)],
    diagnoses: &mut [Diagnosis],
) {
    weigh(pace, snapshot, verdicts, diagnoses);
    relax_blocked(pace, verdicts);
    weigh_causes(verdicts, diagnoses);
}

/// Gives each cause the worst severity of the problems that it explains now, and sorts the causes by it.
fn weigh_causes(verdicts: &[(&'static Check, Verdict)], diagnoses: &mut [Diagnosis]) {
    if diagnoses.is_empty() {
        return;
    }
    let now: HashMap<_, Severity> = checks::problems(verdicts)
        .map(|(check, target, it)| ((check, target, it.reason, it.observed.as_str()), it.severity))
        .collect();
    for diagnosis in diagnoses.iter_mut() {
        let of = |it: &Explained| now.get(&(it.check, &it.target, it.reason, it.observed.as_str())).copied();
        diagnosis.severity = diagnosis.explains.iter().filter_map(of).max().unwrap_or(diagnosis.severity);
    }
    sort(diagnoses);
}

/// Turns problems that a policy accepts into warnings before any search for causes: a problem that still fails does not follow from them.
pub(super) fn accept(snapshot: &Snapshot, verdicts: &mut [(&'static Check, Verdict)]) {
    let is_any = !snapshot.asked.policy.accept.is_empty();
    if is_any && checks::accept::apply(&Assessment::of(snapshot), verdicts) {
        explain(snapshot, verdicts);
    }
}

/// Adds to each accepted problem until when and why it is accepted, wherever it is shown, and to each cause all of whose problems are.
/// Causes were found by then, so no cause quotes an excuse.
pub(super) fn mark_accepted(verdicts: &mut [(&'static Check, Verdict)], diagnoses: &mut [Diagnosis]) {
    let mut marks: Vec<Vec<String>> = vec![Vec::new(); diagnoses.len()];
    for (check, verdict) in verdicts {
        // Changing findings copies them.
        if !verdict.problems().any(|(_, problem)| problem.accepted.is_some()) {
            continue;
        }
        for finding in &mut verdict.findings {
            let Outcome::Problem(problem) = &mut finding.outcome else { continue };
            let Some(excuse) = &problem.accepted else { continue };
            let mark = format!(" (accepted until {}: {})", excuse.until, excuse.because);
            let marked = format!("{}{mark}", problem.observed);
            let is_it = |it: &&mut Explained| {
                let of = (it.check, &it.target, it.reason, &it.observed);
                of == (check.id, &*finding.target, problem.reason, &problem.observed)
            };
            for (diagnosis, marks) in diagnoses.iter_mut().zip(&mut marks) {
                for explained in diagnosis.explains.iter_mut().filter(is_it) {
                    explained.observed.clone_from(&marked);
                    marks.push(mark.clone());
                }
            }
            problem.observed = marked;
        }
    }
    for (diagnosis, marks) in diagnoses.iter_mut().zip(marks) {
        if let Some(mark) = marks.first().filter(|_| marks.len() == diagnosis.explains.len()) {
            diagnosis.headline.push_str(mark);
        }
    }
}

/// Applies the options. A problem that still fails is not left to a cause that the options made a warning: a reader of the failures alone
/// would find nothing.
fn weigh(pace: &Pace, snapshot: &Snapshot, verdicts: &mut [(&'static Check, Verdict)], diagnoses: &mut [Diagnosis]) {
    // Nothing else turns a failure into a warning.
    let may_relax = !matches!(snapshot.asked.max_unready_workers, Allowance::None) || !pace.warn_only.is_empty();
    if !may_relax {
        return apply_severity_overrides(pace, snapshot, verdicts);
    }
    let failed = failing(verdicts);
    apply_severity_overrides(pace, snapshot, verdicts);
    let fails = failing(verdicts);
    let relaxed: HashSet<&Sight> = failed.difference(&fails).collect();
    if relaxed.is_empty() {
        return;
    }
    // A problem that still fails is not explained by one that only warns now.
    explain(snapshot, verdicts);
    for diagnosis in diagnoses {
        let Diagnosis { seen, explains, .. } = diagnosis;
        let sight = |it: &Explained| (it.check, it.target.clone(), it.reason, it.observed.clone());
        let rests_on =
            |it: &&Explained| seen.iter().any(|seen| seen.target == it.target && seen.observed == it.observed);
        let mut evidence = explains.iter().filter(rests_on).map(sight).peekable();
        if evidence.peek().is_some() && evidence.all(|sight| relaxed.contains(&sight)) {
            explains.retain(|it| !fails.contains(&sight(it)));
        }
    }
}

/// Turns the blocked outcomes of checks that `--warn-only` names into warnings. The problem that blocks them keeps its own weight.
fn relax_blocked(pace: &Pace, verdicts: &mut [(&'static Check, Verdict)]) {
    for (check, verdict) in verdicts.iter_mut() {
        let only_warns = |target: &Target| {
            let [_, by_requirement, by_check] = pace.warn_only.names(check.id, target, Reason::NoAnswer);
            by_requirement || by_check
        };
        let is_concerned = |it: &Finding| matches!(it.outcome, Outcome::Blocked(_)) && only_warns(&it.target);
        if !verdict.findings.iter().any(is_concerned) {
            continue;
        }
        for finding in verdict.findings.iter_mut().filter(|it| is_concerned(it)) {
            if let Outcome::Blocked(by) = finding.outcome {
                let unknown = Problem::warn(Reason::NoAnswer, check.summary, format!("not checked, blocked by {by}"));
                finding.outcome = Outcome::problem(Problem { explained_by: Some(by), ..unknown });
            }
        }
    }
}

/// Applies the options to the severities alone, without their effect on causes and blocked checks.
pub(super) fn apply_severity_overrides(pace: &Pace, snapshot: &Snapshot, verdicts: &mut [(&'static Check, Verdict)]) {
    // A problem that only warns because of `--warn-only` does not make a worker count as missing.
    reweigh(verdicts, |check, target, problem| problem.severity.min(pace.weight(check, target, problem)));
    if snapshot.asked.max_unready_workers != Allowance::None {
        checks::allowance::apply(&Assessment::of(snapshot), verdicts);
    }
    by_options(pace, verdicts);
}

/// Gives each problem the weight of `--strict`, `--fail-on` and `--warn-only`.
pub(super) fn by_options(pace: &Pace, verdicts: &mut [(&'static Check, Verdict)]) {
    reweigh(verdicts, |check, target, problem| pace.weight(check, target, problem));
}

/// Gives each problem the weight that `of` returns.
fn reweigh(verdicts: &mut [(&'static Check, Verdict)], of: impl Fn(CheckId, &Target, &Problem) -> Severity) {
    for (check, verdict) in verdicts {
        // Changing findings copies them.
        if verdict.problems().all(|(target, problem)| of(check.id, target, problem) == problem.severity) {
            continue;
        }
        for finding in &mut verdict.findings {
            if let Outcome::Problem(problem) = &mut finding.outcome {
                problem.severity = of(check.id, &finding.target, problem);
            }
        }
    }
}

/// Returns all problems that prevent a healthy verdict.
fn failing(verdicts: &[(&'static Check, Verdict)]) -> HashSet<Sight> {
    let fail = checks::problems(verdicts).filter(|(.., problem)| problem.severity > Severity::Warn);
    fail.map(|(check, target, it)| (check, target.clone(), it.reason, it.observed.clone())).collect()
}

impl Pace {
    /// Returns the weight of a problem. The most specific of `--strict`, `--fail-on` and `--warn-only` counts: a reason before a
    /// requirement before a check before everything. The two options never share a name. A problem that a policy accepts keeps its weight.
    pub(super) fn weight(&self, check: CheckId, target: &Target, problem: &Problem) -> Severity {
        if problem.accepted.is_some() {
            return Severity::Warn;
        }
        let names = |named: &Named| named.names(check, target, problem.reason);
        let both = names(&self.warn_only).into_iter().zip(names(&self.fail_on));
        let fails = match both.into_iter().find(|(warns, fails)| *warns || *fails) {
            Some((true, _)) => return Severity::Warn,
            Some((false, fails)) => fails,
            None => self.strict,
        };
        if fails && problem.severity == Severity::Warn { Severity::Fail } else { problem.severity }
    }
}
