//! Diagnoses in the text report: each as an answer, and below the problems what it explains.

use super::begin::BRIEF;
use super::hints::{self, Rendered};
use super::problems::{field, hint_lines};
use super::sanitise::{brief, clean};
use super::style::{Paint, paint};
use super::text::{TextStyle, count, shown, wrap};
use super::{CheckReport, Report, alike};
use crate::checks::{Finding, Outcome, Problem, Target};
use crate::diagnosis::{Diagnosis, Seen};

/// Facts of one diagnosis that are shown; the JSON report has all.
pub(super) const FACTS: usize = 8;

/// The diagnosis that explains this problem.
pub(super) fn of<'a>(report: &'a Report, check: &str, target: &Target, problem: &Problem) -> Option<&'a Diagnosis> {
    report.diagnoses.iter().find(|it| it.is_about(check, target, problem.reason, &problem.observed))
}

/// In full, from root to symptom.
pub(super) fn write(report: &Report, style: &TextStyle, lines: &mut Vec<String>) {
    for diagnosis in &report.diagnoses {
        lines.push(String::new());
        block(diagnosis, report, style, lines);
    }
}

pub(super) fn block(diagnosis: &Diagnosis, report: &Report, style: &TextStyle, lines: &mut Vec<String>) {
    lines.push(format!("{}: {}", paint(style.colour, Paint::Bad, "diagnosis"), clean(&diagnosis.headline)));
    let facts: Vec<_> = facts(diagnosis).into_iter().map(|seen| (&seen.target, seen)).collect();
    let (told, left) = alike::lines(&facts, FACTS, shown, style, |it| format!("{}: {}", it.whom, it.observed));
    let left = (left > 0).then(|| alike::more(left));
    for (n, line) in told.into_iter().chain(left).enumerate() {
        lines.push(field(if n == 0 { "seen" } else { "" }, &line));
    }
    let next = next(diagnosis, report);
    for kind in ["try", "remedy"] {
        hint_lines(kind, &next, lines);
    }
    lines.push(field("more", &format!("cluster-health explain {}", diagnosis.id)));
}

/// What the headline says already is not said again.
pub(super) fn facts(diagnosis: &Diagnosis) -> Vec<&Seen> {
    diagnosis.seen.iter().filter(|seen| !diagnosis.headline.contains(&seen.observed)).collect()
}

/// Its commands, rendered.
pub(super) fn next(diagnosis: &Diagnosis, report: &Report) -> Vec<Rendered> {
    diagnosis.next.iter().filter_map(|hint| hints::render(hint, &report.sources)).collect()
}

/// What each diagnosis explains. The root comes last.
pub(super) fn write_explained(report: &Report, style: &TextStyle, lines: &mut Vec<String>) {
    for diagnosis in report.diagnoses.iter().rev() {
        lines.push(String::new());
        lines.push(format!("explained by {}: {}", diagnosis.id, count(diagnosis.explains.len(), "problem")));
        for check in &report.checks {
            let problems: Vec<_> = explained(check, diagnosis).collect();
            let id = check.check.id;
            let (told, left) = alike::lines(&problems, alike::FEW, shown, style, |it| {
                format!("{}: {}", it.whom, brief(&it.observed, BRIEF))
            });
            let left = (left > 0).then(|| alike::more(left));
            lines.extend(told.into_iter().chain(left).map(|line| format!("  {id}  {line}")));
        }
        let blocked = blocked(report, diagnosis);
        if !blocked.is_empty() {
            lines.extend(wrap(&field("blocks", ""), alike::blocked(blocked, style), style.columns()));
        }
    }
}

/// The problems of a check that this explains.
pub(super) fn explained<'a>(
    check: &'a CheckReport,
    diagnosis: &'a Diagnosis,
) -> impl Iterator<Item = (&'a Target, &'a Problem)> {
    check
        .problems()
        .filter(|(target, problem)| diagnosis.is_about(check.check.id, target, problem.reason, &problem.observed))
}

/// Checks that could not look, because of a check that this explains.
pub(super) fn blocked(report: &Report, diagnosis: &Diagnosis) -> Vec<String> {
    let by = |finding: &Finding| match finding.outcome {
        Outcome::Blocked(by) => diagnosis.explains.iter().any(|it| it.check == by),
        _ => false,
    };
    let checks = report.checks.iter().filter(|check| check.findings.iter().any(by));
    checks.map(|check| check.check.id.to_owned()).collect()
}
