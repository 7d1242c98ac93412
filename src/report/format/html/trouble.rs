//! What is wrong, and what to do: diagnoses, the problems that none explains, and what logs say.

use std::collections::{BTreeSet, HashMap};

use maud::{Markup, html};

use super::parts::{
    Foreign, badge, cause_anchor, check_link, check_links, field, head, hints, more, names, problem_anchor,
    reason_link, source,
};
use crate::diagnosis::{self, Diagnosis};
use crate::model::{Page, Problem, Status, Target};
use crate::report::view::causes;
use crate::report::view::diagnoses::{self, FACTS};
use crate::report::view::index::Index;
use crate::report::view::problems::{Block, Consequences, PERMANENT};
use crate::report::view::wording::{self, count};
use crate::report::{CheckReport, Report};
use crate::text::sanitize::log_lines;

/// From root to symptom, with what each rests on and explains.
pub(super) fn diagnoses(index: &Index<'_>) -> Option<Markup> {
    if index.report.diagnoses.is_empty() {
        return None;
    }
    let mut known = BTreeSet::new();
    Some(html! {
        @for those in causes::alike(index.report) { (diagnosis(&those, known.insert(those[0].id), index)) }
    })
}

/// Of many machines in one trouble, one card.
fn diagnosis<'a>(those: &[&'a Diagnosis], is_first: bool, report: &Index<'a>) -> Markup {
    let facts = those.iter().flat_map(|it| diagnoses::facts(it));
    let facts = repeated(facts.map(|seen| (&seen.target, seen.observed.as_str())));
    let of_each: Vec<_> = those.iter().map(|it| report.explained(it)).collect();
    let explained: Vec<_> = report
        .report
        .checks
        .iter()
        .flat_map(|check| {
            let of_check = of_each.iter().filter_map(|it| it.get(&check.check.id)).flatten();
            of_check.map(move |it| (check, it.0, it.1))
        })
        .collect();
    let blocked: BTreeSet<_> = those.iter().flat_map(|it| report.blocked(it)).collect();
    let next: Vec<_> = those.iter().flat_map(|it| diagnoses::next(it, report)).collect();
    let id = those[0].id;
    let cause = diagnosis::find(id);
    html! {
        article .card.fail-edge id=[is_first.then(|| cause_anchor(id))] {
            h3 { (Foreign(&causes::headline(those))) }
            @if let Some(cause) = cause { p .note { (cause.title) } }
            dl .fields {
                @if let Some(cause) = cause { (field("impact", &html! { (cause.impact) })) }
                @if !facts.is_empty() {
                    (field("seen", &html! {
                        ul {
                            @for (observed, targets) in facts.iter().take(FACTS) {
                                li { (names(targets)) ": " (Foreign(observed)) }
                            }
                            @if facts.len() > FACTS { li { "and " (facts.len() - FACTS) " more" } }
                        }
                    }))
                }
                (hints(&next))
                @if !blocked.is_empty() { (field("blocks", &check_links(blocked))) }
                (more(id, Page::Cause(id)))
                @if let Some(cause) = cause { (source(cause.source)) }
            }
            @if !explained.is_empty() {
                details {
                    summary { "explains " (count(explained.len(), "problem")) }
                    (problem_table(&explained))
                }
            }
        }
    }
}

fn problem_table(problems: &[(&CheckReport, &Target, &Problem)]) -> Markup {
    html! {
        table .list {
            (head(&["check", "of", "observed"]))
            tbody {
                @for (check, targets, observed) in repeated_of(problems) {
                    tr {
                        td { (check_link(check.check.id)) }
                        td { (names(&targets)) }
                        td { (Foreign(observed)) }
                    }
                }
            }
        }
    }
}

/// What each check observed, each once, and whom it was made of.
fn repeated_of<'a>(
    problems: &[(&'a CheckReport, &'a Target, &'a Problem)],
) -> Vec<(&'a CheckReport, Vec<&'a Target>, &'a str)> {
    let mut by_check: Vec<(&CheckReport, Vec<(&Target, &str)>)> = Vec::new();
    for (check, target, problem) in problems {
        let observed = (*target, problem.observed.as_str());
        match by_check.last_mut() {
            Some((last, those)) if last.check.id == check.check.id => those.push(observed),
            _ => by_check.push((check, vec![observed])),
        }
    }
    let each = |(check, those): (&'a CheckReport, Vec<_>)| {
        repeated(those).into_iter().map(move |(observed, targets)| (check, targets, observed)).collect::<Vec<_>>()
    };
    by_check.into_iter().flat_map(each).collect()
}

/// The worst first, and among equals the one that others are most likely to follow from.
pub(super) fn problems(index: &Index<'_>, blocks: &[Block<'_>]) -> Option<Markup> {
    let report = index.report;
    // Where nothing was judged, the verdict says so already.
    let some_judged = report.checks.iter().any(|check| check.status.is_some());
    let unjudged: Vec<_> = report.checks.iter().filter(|check| some_judged && check.is_unjudged()).collect();
    let silent: Vec<_> =
        report.checks.iter().filter(|check| check.status == Some(Status::Error) && check.findings.is_empty()).collect();
    if blocks.is_empty() && unjudged.is_empty() && silent.is_empty() {
        return None;
    }
    let ids = |checks: &[&CheckReport]| check_links(checks.iter().map(|check| check.check.id));
    let mut known = BTreeSet::new();
    Some(html! {
        @for block in blocks { (self::block(block, known.insert(block.check.check.id), index)) }
        @if !silent.is_empty() { p { "No result, which does not count as a pass: " (ids(&silent)) } }
        @if !unjudged.is_empty() { p { "Not checked: " (ids(&unjudged)) } }
    })
}

fn block<'a>(block: &Block<'a>, is_first: bool, report: &Index<'a>) -> Markup {
    let status = block.severity.status();
    html! {
        article .card.{ (status.name()) "-edge" } id=[is_first.then(|| problem_anchor(block.check.check.id))] {
            h3 { (badge(status)) " " (check_link(block.check.check.id)) }
            p .note { (block.word()) (block.duration(report)) }
            dl .fields {
                (observations(block))
                (field("reason", &html! { (reason_link(block.reason)) " " (block.reason.title()) }))
                (hints(&block.hints(report)))
                @if block.is_permanent() { (field("note", &html! { (PERMANENT) })) }
                (consequences(block, report))
                (more(block.reason.code(), Page::Reason(block.reason)))
                (source(block.reason.text().source))
            }
        }
    }
}

/// Who, what should be, what is. What is the same for all is said once; nobody is left out.
fn observations(block: &Block<'_>) -> Markup {
    let (first, problem) = block.problems[0];
    let label = wording::label(first.kind, block.problems.len() > 1);
    let alike = block.problems.iter().all(|(_, other)| other.observed == problem.observed);
    let same_expectation = block.problems.iter().all(|(_, other)| other.expected == problem.expected);
    if alike && same_expectation {
        let targets: Vec<_> = block.problems.iter().map(|(target, _)| *target).collect();
        return html! {
            (field(label, &names(&targets)))
            (field("expected", &html! { (Foreign(&problem.expected)) }))
            (field("observed", &html! { strong { (Foreign(&problem.observed)) } }))
        };
    }
    html! {
        @if same_expectation { (field("expected", &html! { (Foreign(&problem.expected)) })) }
        (field(label, &html! {
            table .list {
                (head(if same_expectation { &["of", "observed"] } else { &["of", "observed", "expected"] }))
                tbody {
                    @for (target, problem) in &block.problems {
                        tr {
                            td { (Foreign(&wording::named(target))) }
                            td { (Foreign(&problem.observed)) }
                            @if !same_expectation { td { (Foreign(&problem.expected)) } }
                        }
                    }
                }
            }
        }))
    }
}

fn consequences<'a>(block: &Block<'a>, report: &Index<'a>) -> Markup {
    let Some(Consequences { also, blocked }) = block.consequences(report) else { return html! {} };
    html! {
        @if !also.is_empty() {
            (field("also", &html! {
                ul {
                    @for (id, problems) in also {
                        @for (observed, targets) in repeated(problems.iter().map(|(target, it)| (*target, it.observed.as_str()))) {
                            li { (check_link(id)) " " (names(&targets)) ": " (Foreign(observed)) }
                        }
                    }
                }
            }))
        }
        @if !blocked.is_empty() { (field("blocks", &check_links(blocked))) }
    }
}

/// Each observation once, and whom it was made of.
fn repeated<'a>(all: impl IntoIterator<Item = (&'a Target, &'a str)>) -> Vec<(&'a str, Vec<&'a Target>)> {
    let mut repeated: Vec<(&str, Vec<&Target>)> = Vec::new();
    let mut known = HashMap::new();
    for (target, observed) in all {
        let at = *known.entry(observed).or_insert(repeated.len());
        match repeated.get_mut(at) {
            Some((_, targets)) => targets.push(target),
            None => repeated.push((observed, vec![target])),
        }
    }
    repeated
}

/// With `--evidence logs`.
pub(super) fn logs(report: &Report) -> Option<Markup> {
    if report.logs.is_empty() {
        return None;
    }
    Some(html! {
        @for tail in &report.logs {
            details .card open {
                summary { (Foreign(&tail.log.of.to_string())) " on " (Foreign(&tail.log.node)) }
                @match &tail.lines {
                    Ok(lines) => ol .log { @for line in log_lines(lines) { li { (Foreign(&line)) } } },
                    Err(gap) => p { "none: " (Foreign(&gap.text)) },
                }
            }
        }
    })
}
