//! Diagnoses in the text report: at its top as the answer, at its end for whoever reads the tail of a log.

use super::hints::{self, Rendered};
use super::problems::{field, hint_lines};
use super::sanitise::{brief, clean};
use super::style::{Paint, paint};
use super::text::{TextStyle, count, shown, wrap};
use super::{CheckReport, Report};
use crate::checks::{Finding, Outcome, Problem, Target};
use crate::diagnosis::{Diagnosis, Seen};

/// Facts of one diagnosis that are shown; the JSON report has all.
pub(super) const FACTS: usize = 8;

/// Diagnoses at the very end, so that the last ten lines of a log name machine, cause and next command.
const LAST: usize = 3;
/// Longest text, in characters, of what stands in full further up.
const BRIEF: usize = 160;

/// The diagnosis that explains this problem.
pub(super) fn of<'a>(report: &'a Report, check: &str, target: &Target, problem: &Problem) -> Option<&'a Diagnosis> {
    report.diagnoses.iter().find(|it| it.is_about(check, target, problem.reason, &problem.observed))
}

/// In full, from root to symptom.
pub(super) fn write(report: &Report, style: &TextStyle, lines: &mut Vec<String>) {
    for diagnosis in &report.diagnoses {
        lines.push(String::new());
        lines.push(headline("diagnosis", &clean(&diagnosis.headline), style));
        let facts = facts(diagnosis);
        for (n, seen) in facts.iter().take(FACTS).enumerate() {
            let fact = format!("{}: {}", shown(&seen.target), clean(&seen.observed));
            lines.push(field(if n == 0 { "seen" } else { "" }, &fact));
        }
        if facts.len() > FACTS {
            lines.push(field("", &format!("(and {} more)", facts.len() - FACTS)));
        }
        let next = next(diagnosis, report);
        for kind in ["try", "remedy"] {
            hint_lines(kind, &next, lines);
        }
        lines.push(field("more", &format!("cluster-health explain {}", diagnosis.id)));
    }
}

/// What the headline says already is not said again.
pub(super) fn facts(diagnosis: &Diagnosis) -> Vec<&Seen> {
    diagnosis.seen.iter().filter(|seen| !diagnosis.headline.contains(&seen.observed)).collect()
}

fn headline(word: &str, text: &str, style: &TextStyle) -> String {
    format!("{}: {text}", paint(style.colour, Paint::Bad, word))
}

/// Its commands, rendered.
pub(super) fn next(diagnosis: &Diagnosis, report: &Report) -> Vec<Rendered> {
    diagnosis.next.iter().filter_map(|hint| hints::render(hint, &report.sources)).collect()
}

/// What each diagnosis explains, a line for each problem; and once more, briefly, where to begin. The root comes last.
pub(super) fn write_explained(report: &Report, style: &TextStyle, lines: &mut Vec<String>) {
    for diagnosis in report.diagnoses.iter().rev() {
        lines.push(String::new());
        lines.push(format!("explained by {}: {}", diagnosis.id, count(diagnosis.explains.len(), "problem")));
        for check in &report.checks {
            for (target, problem) in explained(check, diagnosis) {
                lines.push(format!("  {}  {}: {}", check.check.id, shown(target), brief(&problem.observed, BRIEF)));
            }
        }
        let blocked = blocked(report, diagnosis);
        if !blocked.is_empty() {
            lines.extend(wrap(&field("blocks", ""), blocked, style.columns()));
        }
    }
    if report.diagnoses.is_empty() {
        return;
    }
    lines.push(String::new());
    let more = report.diagnoses.len().saturating_sub(LAST);
    if more > 0 {
        lines.push(format!("(and {more} more above)"));
    }
    for diagnosis in report.diagnoses.iter().take(LAST).rev() {
        lines.push(headline("begin with", &brief(&diagnosis.headline, BRIEF), style));
        // Looking comes before changing, and is enough for the last lines.
        let next = next(diagnosis, report);
        for kind in ["try", "remedy"] {
            let first: Vec<_> = next.iter().find(|hint| hint.kind == kind).cloned().into_iter().collect();
            hint_lines(kind, &first, lines);
        }
    }
}

/// The problems of a check that this explains.
pub(super) fn explained<'a>(
    check: &'a CheckReport,
    diagnosis: &'a Diagnosis,
) -> impl Iterator<Item = (&'a Target, &'a Problem)> {
    check.findings.iter().filter_map(|Finding { target, outcome }| match outcome {
        Outcome::Problem(problem) if diagnosis.is_about(check.check.id, target, problem.reason, &problem.observed) => {
            Some((target, problem))
        }
        _ => None,
    })
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
