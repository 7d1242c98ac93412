//! The text report: the stages as they were seen, the verdict, and at the end what is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::grid::legend;
use super::sanitise::{ascii, clean, log_lines};
use super::style::{Paint, mark, paint, paint_of};
use super::{CheckReport, Report, RunResult, Selection, Summary, alike, begin, diagnoses, problems};
use crate::checks::{Kind, Outcome, Severity, Stage, Status, Target};
use crate::duration::human;
use crate::exit::Exit;
use crate::logs::Tail;

/// How text is shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TextStyle {
    pub(crate) colour: bool,
    pub(crate) ascii: bool,
    /// Columns to wrap lists at; without it, a width that CI logs show. Text is never cut.
    pub(crate) width: Option<usize>,
    /// Nothing is folded.
    pub(crate) verbose: bool,
}

impl TextStyle {
    pub(crate) fn columns(&self) -> usize {
        self.width.unwrap_or(110).max(60)
    }
}

/// A stage with more lines about healthy objects than this is folded.
const HEALTHY_LINES: usize = 10;

/// Writes the whole report.
pub(crate) fn write(report: &Report, style: &TextStyle, mut out: impl io::Write) -> io::Result<()> {
    let mut lines = Vec::new();
    // Before anybody was asked, empty stages would only bury the reason.
    let judged = judged(report);
    lines.push(verdict(report, style));
    if judged {
        grid(report, style, &mut lines);
        lines.push(String::new());
        for stage in Stage::ALL {
            let checks: Vec<_> = report.checks.iter().filter(|check| check.check.stage == stage).collect();
            if !checks.is_empty() {
                lines.push(paint(style.colour, Paint::Heading, stage.heading()));
                stage_lines(report, &checks, style, &mut lines);
            }
        }
        lines.push(String::new());
    }
    logs(report, style, &mut lines);
    notes(report, style, &mut lines);
    details(report, style, &mut lines);
    if judged {
        // Once more, where the reader of a long log looks.
        lines.extend([String::new(), verdict(report, style)]);
    }
    // Parts begin with an empty line, whatever stands above them.
    lines.dedup_by(|line, before| line.is_empty() && before.is_empty());
    for line in lines {
        // Colour codes are ASCII already.
        let line = if style.ascii { ascii(&line) } else { line };
        writeln!(out, "{}", line.trim_end())?;
    }
    out.flush()
}

/// What is wrong, and what to do.
pub(super) fn details(report: &Report, style: &TextStyle, lines: &mut Vec<String>) {
    let blocks = problems::blocks(report);
    diagnoses::write(report, style, lines);
    problems::write(report, &blocks, style, lines);
    diagnoses::write_explained(report, style, lines);
    begin::write(report, &blocks, style, lines);
}

/// A line for each node with a mark for each stage; what the marks mean, unless all is well. The names come last: however long
/// they are, the marks stay in sight and below their stages.
fn grid(report: &Report, style: &TextStyle, lines: &mut Vec<String>) {
    let grid = report.grid();
    let columns: Vec<_> = grid.stages.iter().map(|stage| stage.column()).collect();
    lines.push(columns.join("  "));
    for band in grid.bands(!style.verbose) {
        let mut line = String::new();
        for (cell, column) in band.cells().iter().zip(&columns) {
            let mark = mark(*cell, style.ascii).to_string();
            // The width of a painted mark is not that of what is seen.
            line.push_str(&cell.map_or(mark.clone(), |status| paint(style.colour, paint_of(status), &mark)));
            line.push_str(&" ".repeat(column.len() + 1));
        }
        line.push_str(&band.label(str::to_owned));
        lines.push(line);
    }
    if grid.rows.iter().any(|row| row.worst() > Some(Status::Pass)) {
        lines.push(format!("({})", legend(style.ascii).join("  ")));
    }
}

/// Before the verdict: the end of the report is for what is wrong, and for what to do.
pub(super) fn logs(report: &Report, style: &TextStyle, lines: &mut Vec<String>) {
    for Tail { log, lines: tail } in &report.logs {
        let title = format!("Last log lines of {} on {}:", clean(&log.of.to_string()), clean(&log.node));
        lines.push(paint(style.colour, Paint::Heading, &title));
        match tail {
            Ok(tail) => lines.extend(log_lines(tail).iter().map(|line| format!("  | {line}"))),
            Err(gap) => lines.push(format!("  none: {}", clean(&gap.text))),
        }
    }
    if !report.logs.is_empty() {
        lines.push(String::new());
    }
}

/// By a round, that is: not by looking at files alone.
pub(super) fn judged(report: &Report) -> bool {
    report.rounds > 0 && report.checks.iter().any(|check| check.status.is_some())
}

fn stage_lines(report: &Report, checks: &[&CheckReport], style: &TextStyle, lines: &mut Vec<String>) {
    let before = lines.len();
    let healthy = checks
        .iter()
        .flat_map(|check| &check.findings)
        .filter(|finding| matches!(finding.outcome, Outcome::Pass(Some(_))))
        .count();
    let fold = healthy > HEALTHY_LINES && !style.verbose;
    for check in checks {
        healthy_lines(check, fold, lines);
        problem_lines(report, check, style, lines);
    }
    skipped_lines(checks, lines);
    blocked_lines(checks, style, lines);
    unjudged_line(checks, lines);
    if lines.len() == before || style.verbose {
        let silent = checks.iter().filter(|check| check.shown_status() == Status::Pass && is_silent(check)).count();
        if silent > 0 {
            lines.push(format!("{}: passed", count(silent, "check")));
        }
    }
}

fn problem_lines(report: &Report, check: &CheckReport, style: &TextStyle, lines: &mut Vec<String>) {
    let id = check.check.id;
    let problems: Vec<_> = check.problems().collect();
    let (told, left) = alike::lines(&problems, alike::LINES, shown, style, |it| {
        let (word, colour) = match it.first.severity {
            Severity::Fail | Severity::Error => ("ERROR", Paint::Bad),
            Severity::Warn => ("WARNING", Paint::Caution),
        };
        let word = paint(style.colour, colour, word);
        let cause = it.first.explained_by.and_then(|cause| problems::root(report, cause, it.target));
        let cause = cause.filter(|cause| *cause != id).map(|id| format!(" (see {id})")).unwrap_or_default();
        format!("[{}] {word} {id}: {}{cause}", it.whom, it.observed)
    });
    lines.extend(told);
    if left > 0 {
        lines.push(format!("{id}: {}", alike::more(left)));
    }
}

fn is_silent(check: &CheckReport) -> bool {
    check.findings.iter().all(|finding| matches!(finding.outcome, Outcome::Pass(None)))
}

fn healthy_lines(check: &CheckReport, fold: bool, lines: &mut Vec<String>) {
    let passed = check.findings.iter().filter_map(|finding| match &finding.outcome {
        Outcome::Pass(Some(line)) => Some((&finding.target, clean(line))),
        _ => None,
    });
    if !fold {
        lines.extend(passed.map(|(_, line)| line));
        return;
    }
    // The same of many is said once.
    let mut folded: Vec<(Kind, String, Vec<String>)> = Vec::new();
    for (target, line) in passed {
        let said = said_of(target, &line).to_owned();
        match folded.iter_mut().find(|(kind, known, _)| *kind == target.kind && *known == said) {
            Some((_, _, of)) => of.push(line),
            None => folded.push((target.kind, said, vec![line])),
        }
    }
    if folded.len() > 3 {
        // Each says something of its own (versions, sizes); what they have in common is that the check passed.
        let total = folded.iter().map(|(_, _, of)| of.len()).sum();
        lines.push(format!("{}: {}", count(total, plural_kind(folded[0].0)), check.check.summary));
        return;
    }
    for (kind, said, of) in folded {
        match of.as_slice() {
            [line] => lines.push(line.clone()),
            many => lines.push(format!("{}: {said}", count(many.len(), plural_kind(kind)))),
        }
    }
}

/// `Node 10.0.0.1 (cp-1): connected` says `connected` of a node.
pub(super) fn said_of<'a>(target: &Target, line: &'a str) -> &'a str {
    match line.rsplit_once(": ") {
        Some((_, said)) if target.kind != Kind::Cluster => said,
        _ => line,
    }
}

/// Why a check was skipped, once for each reason.
fn skipped_lines(checks: &[&CheckReport], lines: &mut Vec<String>) {
    let mut whole: Vec<(String, Vec<&str>)> = Vec::new();
    let mut some: Vec<(String, Vec<String>)> = Vec::new();
    for check in checks {
        if let Selection::NotSelected(reason) = check.selection {
            note(&mut whole, format!("not selected ({reason})"), check.check.id);
            continue;
        }
        for finding in &check.findings {
            if let Outcome::Skip(reason) = &finding.outcome {
                if check.shown_status() == Status::Skip && finding.target.kind == Kind::Cluster {
                    note(&mut whole, format!("skipped: {}", clean(reason)), check.check.id);
                } else {
                    note(&mut some, format!("skipped: {}", clean(reason)), shown(&finding.target));
                }
            }
        }
    }
    for (reason, targets) in some {
        lines.push(format!("{}: {reason}", few(&targets, "object")));
    }
    for (reason, ids) in whole {
        if ids.len() == checks.len() {
            lines.push(reason);
        } else if reason.starts_with("not selected") && ids.len() > 3 {
            lines.push(format!("{}: {reason}", count(ids.len(), "check")));
        } else {
            lines.push(format!("{}: {reason}", ids.join(", ")));
        }
    }
}

/// Each item once: a check may have several findings with the same reason.
fn note<T: PartialEq>(groups: &mut Vec<(String, Vec<T>)>, key: String, item: T) {
    match groups.iter_mut().find(|(known, _)| *known == key) {
        Some((_, items)) if items.contains(&item) => {}
        Some((_, items)) => items.push(item),
        None => groups.push((key, vec![item])),
    }
}

/// One line for each cause: what could not be looked at, never the same target twice.
fn blocked_lines(checks: &[&CheckReport], style: &TextStyle, lines: &mut Vec<String>) {
    let mut by: BTreeMap<&str, (BTreeSet<&Target>, BTreeSet<&str>)> = BTreeMap::new();
    for check in checks {
        for finding in &check.findings {
            if let Outcome::Blocked(cause) = finding.outcome {
                let (targets, ids) = by.entry(cause).or_default();
                targets.insert(&finding.target);
                ids.insert(check.check.id);
            }
        }
    }
    for (cause, (targets, ids)) in by {
        let named: Vec<_> = targets.iter().filter(|target| target.kind != Kind::Cluster).collect();
        let ids: Vec<_> = ids.into_iter().collect();
        let subject = match named.as_slice() {
            [] if ids.len() > 3 && !style.verbose => count(ids.len(), "check"),
            [] => ids.join(", "),
            [one] => shown(one),
            many => {
                let kinds: BTreeSet<_> = many.iter().map(|target| target.kind).collect();
                count(many.len(), if kinds.len() == 1 { plural_kind(many[0].kind) } else { "object" })
            }
        };
        lines.push(format!("{subject}: not checked, blocked by {cause}"));
    }
}

fn unjudged_line(checks: &[&CheckReport], lines: &mut Vec<String>) {
    let ids: Vec<_> = checks.iter().filter(|check| is_unjudged(check)).map(|check| check.check.id).collect();
    if ids.is_empty() {
    } else if ids.len() == checks.len() {
        lines.push("not judged: no complete round".to_owned());
    } else {
        lines.push(format!("{}: not judged", ids.join(", ")));
    }
}

pub(super) fn is_unjudged(check: &CheckReport) -> bool {
    !matches!(check.selection, Selection::NotSelected(_)) && check.status.is_none()
}

/// `10.0.0.1 (cp-1)`.
pub(super) fn shown(target: &Target) -> String {
    clean(&target.to_string())
}

fn few(items: &[String], noun: &str) -> String {
    if items.len() <= 3 { items.join(", ") } else { count(items.len(), noun) }
}

/// `1 round`, `2 rounds`.
pub(super) fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// For [`count`].
pub(super) fn plural_kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Cluster | Kind::Credentials => "object",
        Kind::Endpoint => "endpoint",
        Kind::Node => "node",
        Kind::EtcdMember => "etcd member",
        Kind::Pod => "pod",
        Kind::Workload => "workload",
        Kind::ServerCheck => "server check",
    }
}

/// `3 failed, 5 blocked, 29 passed`, from worst to best.
pub(super) fn tally(summary: &Summary) -> String {
    let parts: Vec<_> = [
        (summary.failed, "failed"),
        (summary.errored, "undetermined"),
        (summary.blocked, "blocked"),
        (summary.warned, "warned"),
        (summary.passed, "passed"),
        (summary.skipped, "skipped"),
    ]
    .into_iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, word)| format!("{n} {word}"))
    .collect();
    if parts.is_empty() { "no checks".to_owned() } else { parts.join(", ") }
}

/// The line that people grep for.
pub(super) fn verdict(report: &Report, style: &TextStyle) -> String {
    let colour = match report.result {
        RunResult::Healthy => Paint::Good,
        RunResult::Interrupted => Paint::Caution,
        RunResult::Unhealthy | RunResult::Undetermined | RunResult::Error => Paint::Bad,
    };
    let word = paint(style.colour, colour, report.result.name());
    let took = human(report.took);
    let rounds = count(report.rounds as usize, "round");
    let judged = judged(report);
    let tally = tally(&report.summary());
    let scope = report.targeted.map(|(some, all)| format!(" (targeted: {some} of {all} nodes)")).unwrap_or_default();
    let deadline = match report.wait_timeout {
        Some(limit) if report.deadline_reached && report.took < limit => {
            format!(", no time for another round before the deadline of {}", human(limit))
        }
        Some(limit) if report.deadline_reached => format!(", deadline of {} reached", human(limit)),
        _ => String::new(),
    };
    match report.result {
        RunResult::Interrupted => {
            let signal = match report.exit {
                Exit::Hangup => "SIGHUP",
                Exit::Terminated => "SIGTERM",
                _ => "SIGINT",
            };
            let seen =
                if judged { format!("last complete round: {tally}") } else { "no round was completed".to_owned() };
            format!("{word} ({signal}) after {took} ({rounds}), {seen}")
        }
        RunResult::Error if !judged => {
            let because = report.error.as_deref().map_or_else(|| report.exit.meaning().to_owned(), clean);
            format!("{word}: {because}")
        }
        RunResult::Undetermined if !judged => {
            let limit = report.wait_timeout.filter(|_| report.deadline_reached);
            match limit {
                Some(limit) => format!("{word}: no round was completed before the deadline of {}", human(limit)),
                None => format!("{word}: no round was completed in {took}"),
            }
        }
        _ => format!("{word}{scope}: {tally} in {took} ({rounds}){deadline}"),
    }
}

pub(super) fn notes(report: &Report, style: &TextStyle, lines: &mut Vec<String>) {
    for (name, items) in remarks(report) {
        let lead = format!("{name}: ");
        match name {
            // Sentences, each on a line of its own.
            UNSEEN => lines.extend(items.iter().map(|item| format!("{lead}{item}"))),
            _ => lines.extend(wrap(&lead, items, style.columns())),
        }
    }
}

const UNSEEN: &str = "could not see";

/// What the verdict does not say, and what makes it weaker: a name, and one or more items.
pub(super) fn remarks(report: &Report) -> Vec<(&'static str, Vec<String>)> {
    let judged = judged(report);
    let mut remarks = Vec::new();
    if let Some(error) = report.error.as_deref().filter(|_| judged || report.result != RunResult::Error) {
        remarks.push(("because", vec![clean(error)]));
    } else if judged && matches!(report.exit, Exit::Deadline | Exit::NothingChecked | Exit::Internal) {
        remarks.push(("because", vec![report.exit.meaning().to_owned()]));
    }
    remarks.extend(report.hint.as_deref().map(|hint| ("hint", vec![clean(hint)])));
    let weakened = report.weakened.iter().map(|weak| format!("{} ({})", clean(&weak.option), clean(&weak.origin)));
    remarks.push(("weakened by", weakened.collect()));
    if judged {
        let needed = report.checks.iter().filter(|check| check.selection == Selection::Prerequisite);
        remarks.push(("also run, because needed", needed.map(|check| check.check.id.to_owned()).collect()));
        remarks.push((UNSEEN, report.not_observed.iter().map(|what| clean(what)).collect()));
    }
    remarks.retain(|(_, items)| !items.is_empty());
    remarks
}

/// `lead` and the items, separated by commas, on lines that are not longer than `columns` unless an item is.
pub(super) fn wrap(lead: &str, items: Vec<String>, columns: usize) -> Vec<String> {
    let indent = " ".repeat(lead.chars().count());
    let mut lines = Vec::new();
    let mut line = lead.to_owned();
    let mut empty = true;
    let last = items.len().saturating_sub(1);
    for (n, item) in items.into_iter().enumerate() {
        let item = if n == last { item } else { format!("{item},") };
        if !empty && line.chars().count() + 1 + item.chars().count() > columns {
            lines.push(std::mem::replace(&mut line, indent.clone()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(&item);
        empty = false;
    }
    lines.push(line);
    lines
}
