//! Markdown for step summaries, merge requests and issues.
//!
//! Text that others have written appears in code only: no link, mention, tag or emphasis has an effect there, in any dialect, and nothing
//! has to be hidden to be harmless.

use std::io;

use crate::model::Status;
use crate::report::merged::{self, Overview, Row};
use crate::report::view::grid::{Band, Grid, legend};
use crate::report::view::index::Index;
use crate::report::view::style::{TextStyle, mark};
use crate::report::view::wording::{count, skip_reason};
use crate::report::view::{self, causes, verdict};
use crate::report::{CheckReport, Report};
use crate::text::joined;
use crate::text::sanitize::ascii;

/// Maximum size of the document, in bytes. GitHub accepts 1 MiB for the summaries of a step.
const LIMIT: usize = 900 * 1024;
/// Maximum size of the causes in it, in bytes.
const DETAILS: usize = 600 * 1024;
/// Maximum size of the table of all nodes in it, in bytes.
const NODES: usize = 200 * 1024;
/// Note in place of anything that does not fit.
const ALL_OF_IT: &str = "(the JSON report has all of it)";

/// Writes the document.
pub(crate) fn write(report: &Report, style: &TextStyle, out: &mut dyn io::Write) -> io::Result<()> {
    // The document has no color, and lists are as wide as in a log.
    let style = &TextStyle { color: false, links: false, width: None, ..*style };
    let mut lines =
        vec![format!("## {} {}", mark(Some(report.status()), style.ascii), inline(&verdict::line(report, style)))];
    if report.is_judged() {
        grid(&Grid::of(report), style, &mut lines);
    }
    let mut notes = Vec::new();
    verdict::notes(report, style, &mut notes);
    block(&notes, &mut lines);
    let mut details = Vec::new();
    let index = Index::of(report);
    view::details(&index, &causes::of(&index, style), style, &mut details);
    if !details.is_empty() {
        lines.extend([String::new(), "### What is wrong".to_owned()]);
        block(&details, &mut lines);
    }
    let mut evidence = Vec::new();
    view::logs(report, style, &mut evidence);
    block(&evidence, &mut lines);
    checks(report, style, &mut lines);
    nodes(report, style, &mut lines);
    bounded(lines, style, out)
}

/// Writes several clusters.
pub(crate) fn write_merged(overview: &Overview<'_>, style: &TextStyle, out: &mut dyn io::Write) -> io::Result<()> {
    let style = &TextStyle { color: false, links: false, width: None, ..*style };
    let status = overview.rows.first().map_or(Status::Error, Row::status);
    let mut lines = vec![format!("## {} {}", mark(Some(status), style.ascii), inline(&overview.verdict()))];
    grid(&overview.grid(), style, &mut lines);
    block(&overview.notes, &mut lines);
    let mut details = Vec::new();
    merged::text::details(overview, style, &mut details);
    if !details.is_empty() {
        lines.extend([String::new(), "### What is wrong".to_owned()]);
        block(&details, &mut lines);
    }
    bounded(lines, style, out)
}

fn bounded(lines: Vec<String>, style: &TextStyle, out: &mut dyn io::Write) -> io::Result<()> {
    let mut written = 0;
    for line in lines {
        let line = if style.ascii { ascii(&line) } else { line };
        written += line.len() + 1;
        if written > LIMIT {
            return writeln!(out, "\n{ALL_OF_IT}");
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn grid(grid: &Grid, style: &TextStyle, lines: &mut Vec<String>) {
    heading(grid, lines);
    lines.extend(grid.bands(!style.verbose).iter().map(|band| row(band, style)));
    lines.extend([String::new(), legend(style.ascii).join(", ")]);
}

/// Adds a row for each node, folded, if the grid at the top has one row for many.
fn nodes(report: &Report, style: &TextStyle, lines: &mut Vec<String>) {
    let grid = Grid::of(report);
    if !report.is_judged() || grid.bands(!style.verbose).len() == grid.rows.len() {
        return;
    }
    lines.extend([String::new(), "<details><summary>every node</summary>".to_owned()]);
    heading(&grid, lines);
    let mut written = 0;
    for band in grid.bands(false) {
        let row = row(&band, style);
        written += row.len() + 1;
        if written > NODES {
            lines.extend([String::new(), ALL_OF_IT.to_owned()]);
            break;
        }
        lines.push(row);
    }
    lines.extend([String::new(), "</details>".to_owned()]);
}

fn heading(grid: &Grid, lines: &mut Vec<String>) {
    let columns: Vec<_> = grid.stages.iter().map(|stage| stage.column()).collect();
    lines.push(String::new());
    lines.push(format!("|  | {} |", columns.join(" | ")));
    lines.push(format!("| --- |{}", " :-: |".repeat(columns.len())));
}

fn row(band: &Band<'_>, style: &TextStyle) -> String {
    let marks: Vec<_> = band.cells().iter().map(|cell| mark(*cell, style.ascii).to_string()).collect();
    format!("| {} | {} |", band.label(cell), marks.join(" | "))
}

/// Adds lines of the text report, unchanged.
fn block(content: &[String], lines: &mut Vec<String>) {
    let content = match content {
        [first, rest @ ..] if first.is_empty() => rest,
        content => content,
    };
    if content.is_empty() {
        return;
    }
    let fence = "`".repeat(content.iter().map(|line| longest_run(line)).max().unwrap_or_default().max(2) + 1);
    lines.extend([String::new(), format!("{fence}text")]);
    let mut written = 0;
    for line in content {
        written += line.len() + 1;
        if written > DETAILS {
            lines.push(ALL_OF_IT.to_owned());
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    lines.push(fence);
}

/// Adds every check, folded.
fn checks(report: &Report, style: &TextStyle, lines: &mut Vec<String>) {
    let summary = count(report.checks.len(), "check");
    lines.extend([String::new(), format!("<details><summary>{summary}</summary>"), String::new()]);
    lines.extend(["|  | status | check |  |".to_owned(), "| --- | --- | --- | --- |".to_owned()]);
    let mut checks: Vec<_> = report.checks.iter().collect();
    checks.sort_by_key(|check| std::cmp::Reverse(check.shown_status()));
    for check in checks {
        let status = check.shown_status();
        let mark = mark(Some(status), style.ascii);
        let about = reason(check).map_or_else(|| inline(check.check.summary), |reason| cell(&reason));
        lines.push(format!("| {mark} | {} | `{}` | {about} |", status.name(), check.check.id));
    }
    lines.extend([String::new(), "</details>".to_owned()]);
}

/// Returns why a check has no result about the cluster.
fn reason(check: &CheckReport) -> Option<String> {
    match check.shown_status() {
        Status::Skip => skip_reason(check),
        Status::Blocked => Some(format!("blocked by {}", joined(check.blocked_by()))),
        _ if check.status.is_none() => Some("no complete round checked it".to_owned()),
        _ => None,
    }
}

/// Returns the text unchanged, if no character of it has a meaning in Markdown or in the detection of links; otherwise as code.
fn inline(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, ' ' | ',' | '.' | ':' | '(' | ')' | '-' | '\'' | '%');
    if text.chars().all(plain) && !text.contains("www.") { text.to_owned() } else { code(text) }
}

/// Returns code that contains exactly this text, on one line and outside of tables.
fn code(text: &str) -> String {
    if text.trim().is_empty() {
        return "(empty)".to_owned();
    }
    let fence = "`".repeat(longest_run(text) + 1);
    // Markdown removes one blank at each end if both are present.
    let blank = if text.starts_with(['`', ' ']) || text.ends_with(['`', ' ']) { " " } else { "" };
    format!("{fence}{blank}{text}{blank}{fence}")
}

/// Returns [`code`] for a table, whose cells are separated before code is recognized.
fn cell(text: &str) -> String {
    code(text).replace('|', "\\|")
}

/// Returns the length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_holds_whatever_it_is_given() {
        for (text, shown) in [
            ("cp-1", "`cp-1`"),
            ("a`b", "``a`b``"),
            ("``", "``` `` ```"),
            ("`", "`` ` ``"),
            ("", "(empty)"),
            ("a|b", "`a|b`"),
        ] {
            assert_eq!(code(text), shown);
        }
        assert_eq!(cell("a|b"), "`a\\|b`");
        assert_eq!(inline("2 failed, 1 passed in 5m00s (60 rounds)"), "2 failed, 1 passed in 5m00s (60 rounds)");
        for text in ["a_b", "<b>", "@team", "[x](y)", "https://x.example", "www.x.example", "#1", "a|b"] {
            assert_eq!(inline(text), format!("`{text}`"));
        }
    }
}
