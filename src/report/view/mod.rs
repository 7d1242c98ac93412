//! The parts of a report that several formats have in common.

pub(crate) mod causes;
pub(crate) mod diagnoses;
pub(crate) mod grid;
pub(crate) mod groups;
pub(crate) mod hints;
pub(crate) mod index;
pub(crate) mod links;
pub(crate) mod problems;
pub(crate) mod style;
pub(crate) mod termination;
pub(crate) mod verdict;
pub(crate) mod wording;

use self::causes::Cause;
use self::index::Index;
use self::style::{Paint, TextStyle, paint};
use super::Report;
use crate::snapshot::logs::Tail;
use crate::text::sanitize::{clean, log_lines};

/// Writes the problems and the steps.
pub(crate) fn details(index: &Index<'_>, causes: &[Cause], style: &TextStyle, lines: &mut Vec<String>) {
    problems::unjudged(index, style, lines);
    causes::write(causes, style, lines);
    if style.verbose {
        diagnoses::write_explained(index, style, lines);
    }
}

/// Writes logs. They come before the verdict, because the end of the report is for problems and steps.
pub(crate) fn logs(report: &Report, style: &TextStyle, lines: &mut Vec<String>) {
    for Tail { log, lines: tail } in &report.logs {
        let title = format!("Last log lines of {} on {}:", clean(&log.of.to_string()), clean(&log.node));
        lines.push(paint(style.color, Paint::Heading, &title));
        match tail {
            Ok(tail) => lines.extend(log_lines(tail).iter().map(|line| format!("  | {line}"))),
            Err(gap) => lines.push(format!("  none: {}", clean(&gap.text))),
        }
    }
    if !report.logs.is_empty() {
        lines.push(String::new());
    }
}
