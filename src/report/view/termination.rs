//! The verdict and its first cause, within the limits of the tools that show them.

use super::causes::{self, Cause};
use super::index::Index;
use super::style::TextStyle;
use super::verdict;
use crate::model::Severity;
use crate::report::Report;
use crate::text::sanitize::ascii;

/// Maximum length of the first line, in bytes: a status of Omni has 256 characters.
const LINE: usize = 256;
/// Maximum length of the message, in bytes, that Kubernetes keeps.
const ALL: usize = 4096;

/// Returns the message. The first line names the problem, or shows that there is none; then come the verdict with its figures, the first
/// step, and other causes.
pub(crate) fn message(report: &Report) -> String {
    let style = TextStyle { ascii: true, ..TextStyle::default() };
    let verdict = verdict::short(report, &style);
    // The identity comes last, because the line may be cut.
    let identity = verdict::identity(report);
    let causes = causes::of(&Index::of(report), &style);
    let serious: Vec<&Cause> = causes.iter().filter(|cause| cause.severity > Severity::Warn).collect();
    let mut lines = Vec::new();
    if let Some(first) = serious.first() {
        lines.push(format!("{}: {}; {identity}", verdict::word(report), first.headline));
        lines.push(verdict);
    } else {
        lines.push(format!("{verdict}; {identity}"));
    }
    let mut end = Vec::new();
    causes::conclude(&causes, report.exit, &style, &mut end);
    lines.extend(end.into_iter().skip(usize::from(!serious.is_empty())));
    lines.extend(serious.iter().skip(1).map(|cause| cause.headline.clone()));
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        let line = ascii(line);
        let most = if at == 0 { LINE } else { ALL - text.len() };
        if text.len() + line.len() + 1 > ALL {
            break;
        }
        // The text is ASCII, so a byte is a character.
        text.push_str(line.get(..most.saturating_sub(1)).unwrap_or(&line));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn the_cause_comes_first_and_all_of_it_is_bounded() {
        let message = message(&fixture::diagnosed());
        let first = message.lines().next().unwrap();
        assert!(first.starts_with("unhealthy: ") && first.len() < LINE, "{message}");
        assert!(message.contains("first step") && message.len() <= ALL && message.is_ascii(), "{message}");
    }

    #[test]
    fn a_healthy_run_says_so() {
        let message = message(&fixture::healthy());
        assert!(message.starts_with("healthy: ") && message.lines().count() == 1, "{message}");
    }

    #[test]
    fn what_is_too_long_is_cut() {
        let mut report = fixture::diagnosed();
        let long = "long ".repeat(4000);
        let many = |n: usize| {
            let mut more = report.diagnoses[0].clone();
            more.headline = format!("{n} {long}");
            more
        };
        report.diagnoses = (0..200).map(many).collect();
        let message = message(&report);
        assert!(message.lines().next().unwrap().len() < LINE, "{}", message.len());
        assert!(message.len() <= ALL, "{}", message.len());
    }
}
