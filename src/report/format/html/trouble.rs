//! What is wrong, and what to do: diagnoses, the problems that none explains, and what logs say.

use std::collections::{BTreeSet, HashMap};

use maud::{Markup, html};

use super::parts::{Foreign, Named, badge, check_link, field, head, hints, more, names};
use crate::diagnosis::{self, Diagnosis};
use crate::model::{CheckId, Problem, Status, Target};
use crate::report::view::causes;
use crate::report::view::diagnoses::{self, FACTS};
use crate::report::view::index::Index;
use crate::report::view::problems::{self, Block, Consequences, PERMANENT};
use crate::report::view::wording::{self, count};
use crate::report::{CheckReport, Report};
use crate::text::sanitize::log_lines;

/// From root to symptom, with what each rests on and explains.
pub(super) fn diagnoses(report: &Report) -> Option<Markup> {
    if report.diagnoses.is_empty() {
        return None;
    }
    let index = Index::of(report);
    Some(html! { @for those in causes::alike(report) { (diagnosis(&those, &index)) } })
}

/// Of many machines in one trouble, one card.
fn diagnosis<'a>(those: &[&'a Diagnosis], report: &Index<'a>) -> Markup {
    let facts: Vec<_> = those.iter().flat_map(|it| diagnoses::facts(it)).collect();
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
    html! {
        article .card.fail-edge {
            h3 { (Foreign(&causes::headline(those))) }
            @if let Some(cause) = diagnosis::find(id) { p .note { (cause.title) } }
            dl .fields {
                @if !facts.is_empty() {
                    (field("seen", &html! {
                        ul {
                            @for seen in facts.iter().take(FACTS) {
                                li { (Named(&seen.target)) ": " (Foreign(&seen.observed)) }
                            }
                            @if facts.len() > FACTS { li { "and " (facts.len() - FACTS) " more" } }
                        }
                    }))
                }
                (hints(&next))
                @if !blocked.is_empty() { (field("blocks", &check_links(blocked.into_iter()))) }
                (more(id))
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
                @for (check, target, problem) in problems {
                    tr {
                        td { (check_link(check.check.id)) }
                        td { (Named(target)) }
                        td { (Foreign(&problem.observed)) }
                    }
                }
            }
        }
    }
}

fn check_links(ids: impl Iterator<Item = CheckId>) -> Markup {
    html! { @for (n, id) in ids.enumerate() { @if n > 0 { ", " } (check_link(id)) } }
}

/// The worst first, and among equals the one that others are most likely to follow from.
pub(super) fn problems(report: &Report) -> Option<Markup> {
    let index = Index::of(report);
    let mut blocks = problems::blocks(&index);
    blocks.reverse();
    // Where nothing was judged, the verdict says so already.
    let some_judged = report.checks.iter().any(|check| check.status.is_some());
    let unjudged: Vec<_> = report.checks.iter().filter(|check| some_judged && check.is_unjudged()).collect();
    let silent: Vec<_> =
        report.checks.iter().filter(|check| check.status == Some(Status::Error) && check.findings.is_empty()).collect();
    if blocks.is_empty() && unjudged.is_empty() && silent.is_empty() {
        return None;
    }
    let ids = |checks: &[&CheckReport]| check_links(checks.iter().map(|check| check.check.id));
    Some(html! {
        @for block in &blocks { (self::block(block, &index)) }
        @if !silent.is_empty() { p { "No result, which does not count as a pass: " (ids(&silent)) } }
        @if !unjudged.is_empty() { p { "Not checked: " (ids(&unjudged)) } }
    })
}

fn block<'a>(block: &Block<'a>, report: &Index<'a>) -> Markup {
    let status = block.severity.status();
    html! {
        article .card.{ (status.name()) "-edge" } {
            h3 { (badge(status)) " " (check_link(block.check.check.id)) }
            p .note { (block.word()) (block.duration(report)) }
            dl .fields {
                (observations(block))
                (hints(&block.hints(report)))
                @if block.is_permanent() { (field("note", &html! { (PERMANENT) })) }
                (consequences(block, report))
                (more(block.reason.code()))
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
                        @for (observed, targets) in repeated(&problems) {
                            li { (check_link(id)) " " (names(&targets)) ": " (Foreign(observed)) }
                        }
                    }
                }
            }))
        }
        @if !blocked.is_empty() { (field("blocks", &check_links(blocked.into_iter()))) }
    }
}

/// Each observation once, and whom it was made of.
fn repeated<'a>(problems: &[(&'a Target, &'a Problem)]) -> Vec<(&'a str, Vec<&'a Target>)> {
    let mut repeated: Vec<(&str, Vec<&Target>)> = Vec::new();
    let mut known = HashMap::new();
    for (target, problem) in problems {
        let observed = problem.observed.as_str();
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
