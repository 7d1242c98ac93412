//! The text report: the verdict, a line for every stage, the problems, and once more the verdict and the first step.
//!
//! With `-v`, each stage has a line for every object, in the words of the live progress.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::model::{CheckId, Kind, Outcome, Severity, Stage, Status, Target};
use crate::report::view::grid::{Grid, legend};
use crate::report::view::index::Index;
use crate::report::view::links::linked;
use crate::report::view::style::{Paint, TextStyle, mark, paint, paint_of};
use crate::report::view::wording::{count, not_selected, plural_kind, said_of, shown};
use crate::report::view::{causes, details, groups, logs, verdict};
use crate::report::{CheckReport, Report, RunResult, Selection};
use crate::text::sanitize::{ascii, clean};
use crate::text::{joined, wrapped};

/// Number of lines about healthy objects above which a stage is folded.
const HEALTHY_LINES: usize = 10;

/// Writes the whole report.
pub(crate) fn write(report: &Report, style: &TextStyle, mut out: impl io::Write) -> io::Result<()> {
    let mut lines = Vec::new();
    // Before the first request, empty stages would only bury the reason.
    let judged = report.is_judged();
    let index = Index::of(report);
    let causes = causes::of(&index, style);
    // The error and its hint fully describe a file that cannot be used. A certificate in it is judged by a check.
    let is_said = report.error.is_some() && !judged && causes.len() <= 1 && !style.verbose;
    let headline = verdict::line(report, style);
    lines.push(match report.checks.iter().flat_map(CheckReport::problems).next() {
        Some((_, problem)) if is_said => format!("{headline} ({})", problem.reason.code()),
        _ => headline,
    });
    if judged {
        if style.verbose || !causes.is_empty() || report.result != RunResult::Healthy {
            grid_lines(&Grid::of(report), style, &mut lines);
        }
        lines.push(String::new());
        for stage in Stage::ALL {
            let checks: Vec<_> = report.checks.iter().filter(|check| check.check.stage == stage).collect();
            if checks.is_empty() {
            } else if style.verbose {
                lines.push(paint(style.color, Paint::Heading, stage.heading()));
                stage_lines(&index, &checks, style, &mut lines);
            } else if checks.iter().all(|check| check.problems().next().is_none()) {
                let brief = stage_in_brief(stage, &checks, style);
                let is_dim = style.color && !causes.is_empty();
                lines.extend(brief.iter().map(|line| paint(is_dim, Paint::Dim, line)));
            }
        }
        lines.push(String::new());
    }
    logs(report, style, &mut lines);
    verdict::notes(report, style, &mut lines);
    if !is_said {
        details(&index, &causes, style, &mut lines);
    }
    if judged {
        // The verdict is repeated where the reader of a long log looks.
        lines.extend([String::new(), verdict::line(report, style)]);
        causes::conclude(&causes, report.exit, style, &mut lines);
    }
    // Parts begin with an empty line, whatever comes before them.
    lines.dedup_by(|line, before| line.is_empty() && before.is_empty());
    for line in lines {
        // Color codes are ASCII already.
        let line = if style.ascii { ascii(&line) } else { line };
        let line = if style.links { linked(&line) } else { line };
        writeln!(out, "{}", line.trim_end())?;
    }
    out.flush()
}

/// Adds a line for each node with a mark for each stage, and the legend unless everything passes. The names come last: however long they
/// are, the marks stay in sight and below their stages.
pub(crate) fn grid_lines(grid: &Grid, style: &TextStyle, lines: &mut Vec<String>) {
    let columns: Vec<_> = grid.stages.iter().map(|stage| stage.column()).collect();
    lines.push(columns.join("  "));
    for band in grid.bands(!style.verbose) {
        let mut line = String::new();
        for (cell, column) in band.cells().iter().zip(&columns) {
            let mark = mark(*cell, style.ascii).to_string();
            // Blanks are added separately, because a painted mark is longer than it appears.
            line.push_str(&cell.map_or(mark.clone(), |status| paint(style.color, paint_of(status), &mark)));
            line.push_str(&" ".repeat(column.len() + 1));
        }
        line.push_str(&band.label(str::to_owned));
        lines.push(line);
    }
    if grid.rows.iter().any(|row| row.worst() > Some(Status::Pass)) {
        lines.push(format!("({})", legend(style.ascii).join("  ")));
    }
}

/// Columns for the name of a stage.
const TITLE: usize = 19;

/// Returns the results of a stage without problems: figures that people look for, not objects.
fn stage_in_brief(stage: Stage, checks: &[&CheckReport], style: &TextStyle) -> Vec<String> {
    let mut said = Vec::new();
    for check in checks {
        healthy_lines(check, true, &mut said);
    }
    let mut said = together(said);
    blocked_lines(checks, style, &mut said);
    unjudged_line(checks, &mut said);
    if said.is_empty() {
        skipped_lines(checks, &mut said);
    }
    if said.is_empty() {
        said.push(format!("{} passed", count(checks.len(), "check")));
    }
    let last = said.len() - 1;
    let said = said.into_iter().enumerate().map(|(n, part)| if n == last { part } else { part + ";" });
    wrapped(&format!("{:TITLE$}", stage.title()), &" ".repeat(TITLE), said, style.columns())
}

/// Joins `a: running` and `b: running` to `a, b: running`.
fn together(lines: Vec<String>) -> Vec<String> {
    let mut groups: Vec<(Vec<String>, Option<String>)> = Vec::new();
    for line in lines {
        let (who, said) = match line.rsplit_once(": ") {
            Some((who, said)) => (who.to_owned(), Some(said.to_owned())),
            None => (line, None),
        };
        match groups.iter_mut().find(|(_, known)| said.is_some() && *known == said) {
            Some((those, _)) => those.push(who),
            None => groups.push((vec![who], said)),
        }
    }
    let shown = |(who, said): (Vec<String>, Option<String>)| match said {
        Some(said) => format!("{}: {said}", joined(who)),
        None => joined(who),
    };
    groups.into_iter().map(shown).collect()
}

fn stage_lines(index: &Index<'_>, checks: &[&CheckReport], style: &TextStyle, lines: &mut Vec<String>) {
    let before = lines.len();
    let healthy = checks
        .iter()
        .flat_map(|check| &check.findings)
        .filter(|finding| matches!(finding.outcome, Outcome::Pass(Some(_))))
        .count();
    let fold = healthy > HEALTHY_LINES && !style.verbose;
    for check in checks {
        healthy_lines(check, fold, lines);
        problem_lines(index, check, style, lines);
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

fn problem_lines(index: &Index<'_>, check: &CheckReport, style: &TextStyle, lines: &mut Vec<String>) {
    let id = check.check.id;
    let problems: Vec<_> = check.problems().collect();
    let (told, left) = groups::lines(&problems, groups::LINES, shown, style, |it| {
        let (word, color) = match it.first.severity {
            Severity::Fail | Severity::Error => ("ERROR", Paint::Bad),
            Severity::Warn => ("WARNING", Paint::Caution),
        };
        let word = paint(style.color, color, word);
        let cause = it.first.explained_by.and_then(|cause| index.root(cause, it.target));
        let cause = cause.filter(|cause| *cause != id).map(|id| format!(" (see {id})")).unwrap_or_default();
        format!("[{}] {word} {id}: {}{cause}", it.whom, it.observed)
    });
    lines.extend(told);
    if left > 0 {
        lines.push(format!("{id}: {}", groups::more(left)));
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
    // Equal results of many targets are one line.
    let mut folded: Vec<(Kind, String, Vec<String>)> = Vec::new();
    for (target, line) in passed {
        let said = said_of(target, &line).to_owned();
        match folded.iter_mut().find(|(kind, known, _)| *kind == target.kind && *known == said) {
            Some((_, _, of)) => of.push(line),
            None => folded.push((target.kind, said, vec![line])),
        }
    }
    if folded.len() > 3 {
        // Each result is different (versions, sizes); they have in common that the check passed.
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

/// Adds the reasons why checks were skipped, each once.
fn skipped_lines(checks: &[&CheckReport], lines: &mut Vec<String>) {
    // Checks by their words, and by whether they have run.
    let mut whole: Vec<((String, bool), Vec<&str>)> = Vec::new();
    let mut some: Vec<(String, Vec<String>)> = Vec::new();
    for check in checks {
        if let Selection::NotSelected(by) = check.selection {
            note(&mut whole, (not_selected(by), false), check.check.id.name());
            continue;
        }
        for finding in &check.findings {
            if let Outcome::Skip(reason) = &finding.outcome {
                if check.shown_status() == Status::Skip && finding.target.kind == Kind::Cluster {
                    note(&mut whole, (format!("skipped: {}", clean(reason)), true), check.check.id.name());
                } else {
                    note(&mut some, format!("skipped: {}", clean(reason)), shown(&finding.target));
                }
            }
        }
    }
    for (reason, targets) in some {
        lines.push(format!("{}: {reason}", few(&targets, "result")));
    }
    for ((reason, has_run), ids) in whole {
        if ids.len() == checks.len() {
            lines.push(reason);
        } else if !has_run && ids.len() > 3 {
            lines.push(format!("{}: {reason}", count(ids.len(), "check")));
        } else {
            lines.push(format!("{}: {reason}", ids.join(", ")));
        }
    }
}

/// Adds each item once: a check may have several findings with the same reason.
fn note<K: PartialEq, T: PartialEq>(groups: &mut Vec<(K, Vec<T>)>, key: K, item: T) {
    match groups.iter_mut().find(|(known, _)| *known == key) {
        Some((_, items)) if items.contains(&item) => {}
        Some((_, items)) => items.push(item),
        None => groups.push((key, vec![item])),
    }
}

/// Adds one line for each cause, with the targets that it blocks, each once.
fn blocked_lines(checks: &[&CheckReport], style: &TextStyle, lines: &mut Vec<String>) {
    let mut by: BTreeMap<CheckId, (BTreeSet<&Target>, BTreeSet<CheckId>)> = BTreeMap::new();
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
        let targets: Vec<_> = targets.into_iter().collect();
        let ids: Vec<_> = ids.into_iter().collect();
        let subject = match targets.as_slice() {
            all if all.iter().any(|target| target.kind == Kind::Cluster) => {
                if ids.len() > 3 && !style.verbose {
                    count(ids.len(), "check")
                } else {
                    joined(ids)
                }
            }
            [one] => shown(one),
            many => {
                let kinds: BTreeSet<_> = many.iter().map(|target| target.kind).collect();
                count(many.len(), if kinds.len() == 1 { plural_kind(many[0].kind) } else { "result" })
            }
        };
        lines.push(format!("{subject}: not checked, blocked by {cause}"));
    }
}

fn unjudged_line(checks: &[&CheckReport], lines: &mut Vec<String>) {
    let ids: Vec<_> = checks.iter().filter(|check| check.is_unjudged()).map(|check| check.check.id).collect();
    if ids.is_empty() {
    } else if ids.len() == checks.len() {
        lines.push("not checked: no complete round".to_owned());
    } else {
        lines.push(format!("{}: not checked", joined(ids)));
    }
}

fn few(items: &[String], noun: &str) -> String {
    if items.len() <= 3 { items.join(", ") } else { count(items.len(), noun) }
}
