//! Every check, folded: those with problems first, the rest by stage.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::parts::{
    Foreign, Groups, Named, badge, cause_anchor, check_anchor, check_link, check_links, field, head, more, names,
    problem_anchor, reason_link,
};
use crate::model::{CheckId, Finding, Kind, Outcome, Page, Problem, Reason, Stage, Status, Target};
use crate::report::view::causes::Origin;
use crate::report::view::index::Index;
use crate::report::view::verdict::counted;
use crate::report::view::wording::{count, said_of, skip_reason};
use crate::report::{CheckReport, Report, Selection};
use crate::text::duration::human;

/// Maximum number of rows of one check: healthy and repeated results are cut, and problems appear in full further up.
const ROWS: usize = 60;

pub(super) fn stage_anchor(stage: Stage) -> String {
    format!("stage-{}", stage.name())
}

/// Renders the checks: those with problems first, then the rest by stage, folded.
pub(super) fn checks(index: &Index<'_>, origins: &[Origin<'_>]) -> Markup {
    let report = index.report;
    let is_bad = |check: &&CheckReport| {
        matches!(check.shown_status(), Status::Fail | Status::Error | Status::Warn) && check.selection.runs()
    };
    let mut bad: Vec<_> = report.checks.iter().filter(is_bad).collect();
    bad.sort_by_key(|check| std::cmp::Reverse(check.shown_status()));
    let mut groups = Groups::default();
    html! {
        @if !bad.is_empty() {
            section aria-labelledby="not-well" {
                h3 id="not-well" { "Not passed" }
                @for check in &bad { (self::check(check, index, origins, &mut groups)) }
            }
        }
        @for stage in Stage::ALL {
            @let of_stage: Vec<_> = report.checks.iter().filter(|check| check.check.stage == stage).collect();
            @let (above, here): (Vec<&CheckReport>, Vec<&CheckReport>) = of_stage.iter().copied().partition(is_bad);
            @if !of_stage.is_empty() {
                details .stage {
                    summary { h3 { (stage.name()) } " " span .note { (counted(|status| of_stage.iter().filter(|check| check.shown_status() == status).count())) } }
                    // The target of links is inside the element, so that following one unfolds it.
                    div id=(stage_anchor(stage)) {
                        @if !above.is_empty() {
                            p .note { "Above: " (check_links(above.iter().map(|check| check.check.id))) }
                        }
                        @for check in here { (self::check(check, index, origins, &mut groups)) }
                    }
                }
            }
        }
        (groups.lists())
    }
}

fn check<'a>(check: &'a CheckReport, index: &Index<'a>, origins: &[Origin<'a>], groups: &mut Groups<'a>) -> Markup {
    let id = check.check.id;
    let status = check.shown_status();
    let causes: BTreeSet<_> = index.diagnoses_of(check).map(|it| it.id).collect();
    let has_card = origins.iter().any(|it| matches!(it, Origin::Found(block) if block.check.check.id == id));
    html! {
        details .check data-status=(status.name()) {
            summary { (badge(status)) " " code { (id) } " " span .note { (check.check.summary) } }
            // The target of links is inside the element, so that following one unfolds it.
            dl .fields id=(check_anchor(id)) {
                @if let Some(why) = why(check) { (field("why", &html! { (Foreign(&why)) })) }
                @if let Some(since) = check.since {
                    (field("since", &html! {
                        (human(since)) " into the run"
                        @if check.flapped { "; it passed before, but later did not" }
                    }))
                }
                @if !causes.is_empty() || has_card {
                    (field("steps", &html! {
                        @for (n, cause) in causes.iter().enumerate() {
                            @if n > 0 { ", " }
                            a href={ "#" (cause_anchor(cause)) } { (cause) }
                        }
                        @if !causes.is_empty() && has_card { ", " }
                        @if has_card { a href={ "#" (problem_anchor(id)) } { "of its own problems" } }
                    }))
                }
                (before("requires", &check.check.requires(), index.report))
                (before("after", &check.check.after(), index.report))
                (more(id.name(), Page::Check(id)))
            }
            (findings(check, groups))
        }
    }
}

/// Renders the checks that can block this one.
fn before(name: &str, ids: &[CheckId], report: &Report) -> Markup {
    let ids = html! {
        @for (n, id) in ids.iter().enumerate() {
            @if n > 0 { ", " }
            // The selection may have left the check out of the report.
            @if report.checks.iter().any(|other| other.check.id == *id) { (check_link(*id)) }
            @else { code { (id) } }
        }
    };
    if ids.0.is_empty() { ids } else { field(name, &ids) }
}

/// Returns what the findings do not show.
fn why(check: &CheckReport) -> Option<String> {
    match check.selection {
        _ if check.is_unjudged() => Some("no complete round has checked it".to_owned()),
        Selection::Prerequisite => Some("runs because a selected check needs it".to_owned()),
        Selection::Selected | Selection::NotSelected(_) => skip_reason(check),
    }
}

/// One result that several targets have in common.
struct Said<'a> {
    status: Status,
    kind: Kind,
    text: String,
    problem: Option<&'a Problem>,
    targets: Vec<&'a Target>,
}

impl Said<'_> {
    fn is_same(&self, finding: &Finding, text: &str) -> bool {
        fn essence(problem: &Problem) -> (Reason, &str) {
            (problem.reason, &problem.expected)
        }
        (self.status, self.kind) == (finding.outcome.status(), finding.target.kind)
            && self.text == text
            && self.problem.map(essence) == finding.problem().map(essence)
    }
}

/// Renders the findings, the worst first. A result that many targets have appears once.
fn findings<'a>(check: &'a CheckReport, groups: &mut Groups<'a>) -> Markup {
    let mut rows: Vec<Said<'_>> = Vec::new();
    for finding in &check.findings {
        let Finding { target, outcome } = finding;
        let text = said(target, outcome);
        // Searched from the end, because equal results usually follow one another.
        match rows.iter_mut().rev().take(ROWS).find(|row| row.is_same(finding, &text)) {
            Some(row) => row.targets.push(target),
            None => rows.push(Said {
                status: outcome.status(),
                kind: target.kind,
                text,
                problem: finding.problem(),
                targets: vec![target],
            }),
        }
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.status));
    let more = rows.len().saturating_sub(ROWS);
    let has_problems = rows.iter().any(|row| row.problem.is_some());
    html! {
        @if !rows.is_empty() {
            table .list.wide[has_problems] {
                (head(if has_problems { &["status", "of", "observed", "expected", "reason"] } else { &["status", "of", "observed"] }))
                tbody {
                    @for row in rows.iter().take(ROWS) {
                        tr {
                            td { (badge(row.status)) }
                            td { (of(row, groups)) }
                            td { (Foreign(&row.text)) }
                            @if let Some(problem) = row.problem {
                                td .expected { (Foreign(&problem.expected)) }
                                td { (reason_link(problem.reason)) }
                            } @else if has_problems {
                                td {}
                                td {}
                            }
                        }
                    }
                }
            }
            @if more > 0 { p .note { "and " (count(more, "more result")) ", which only the JSON report lists" } }
        }
    }
}

/// Renders the targets of a row: their names, or their number if there are many.
fn of<'a>(row: &Said<'a>, groups: &mut Groups<'a>) -> Markup {
    match row.targets.as_slice() {
        [one] => html! { (Named(one)) },
        many if many.len() <= ROWS => names(many),
        many => groups.counted(many),
    }
}

fn said(target: &Target, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Pass(Some(line)) => said_of(target, line).to_owned(),
        Outcome::Pass(None) => String::new(),
        Outcome::Skip(reason) => reason.clone(),
        Outcome::Blocked(by) => format!("not checked, blocked by {by}"),
        Outcome::Problem(problem) => problem.observed.clone(),
    }
}
