//! The evidence of a diagnosis, its next steps, and the problems that it explains.

use super::groups;
use super::hints::{self, Rendered};
use super::index::Index;
use super::style::TextStyle;
use super::wording::{count, field, shown, wrap};
use crate::diagnosis::{Diagnosis, Seen};
use crate::report::Report;
use crate::text::excerpt;
use crate::text::sanitize::brief;

/// Number of facts that are shown of one diagnosis; the JSON report has all.
pub(crate) const FACTS: usize = 8;

/// Returns the facts that the headline does not contain.
pub(crate) fn facts(diagnosis: &Diagnosis) -> Vec<&Seen> {
    diagnosis.seen.iter().filter(|seen| !diagnosis.headline.contains(&seen.observed)).collect()
}

/// Returns its commands, rendered.
pub(crate) fn next(diagnosis: &Diagnosis, report: &Report) -> Vec<Rendered> {
    diagnosis.next.iter().filter_map(|hint| hints::render(hint, &report.sources)).collect()
}

/// Writes the problems that each diagnosis explains. The root comes last.
pub(crate) fn write_explained(index: &Index<'_>, style: &TextStyle, lines: &mut Vec<String>) {
    for diagnosis in index.report.diagnoses.iter().rev() {
        lines.push(String::new());
        lines.push(format!("explained by {}: {}", diagnosis.id, count(diagnosis.explains.len(), "problem")));
        let explained = index.explained(diagnosis);
        for id in index.checks.iter().map(|check| check.check.id) {
            let Some(problems) = explained.get(&id) else { continue };
            let (told, left) = groups::lines(problems, groups::FEW, shown, style, |it| {
                format!("{}: {}", it.whom, brief(&it.observed, excerpt::MOST))
            });
            let left = (left > 0).then(|| groups::more(left));
            lines.extend(told.into_iter().chain(left).map(|line| format!("  {id}  {line}")));
        }
        let blocked = index.blocked(diagnosis);
        if !blocked.is_empty() {
            lines.extend(wrap(&field("blocks", ""), groups::blocked(blocked, style), style.columns()));
        }
    }
}
