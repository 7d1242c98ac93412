//! Every check, to be unfolded.

use maud::{Markup, html};

use super::parts::{Foreign, Named, badge, check_anchor, check_link, field, head, more, names};
use crate::model::{CheckId, Finding, Kind, Outcome, Stage, Status, Target};
use crate::report::view::wording::{plural_kind, said_of, skip_reason};
use crate::report::{CheckReport, Report, Selection};
use crate::text::duration::human;

/// Rows of one check: what is healthy or repeated is cut, and problems stand further up in full.
const ROWS: usize = 60;

pub(super) fn stage_anchor(stage: Stage) -> String {
    format!("stage-{}", stage.name())
}

pub(super) fn checks(report: &Report) -> Markup {
    html! {
        @for stage in Stage::ALL {
            @let of_stage: Vec<_> = report.checks.iter().filter(|check| check.check.stage == stage).collect();
            @if !of_stage.is_empty() {
                section .stage aria-labelledby=(stage_anchor(stage)) {
                    h3 id=(stage_anchor(stage)) { (stage.name()) }
                    @for check in of_stage { (self::check(check, report)) }
                }
            }
        }
    }
}

fn check(check: &CheckReport, report: &Report) -> Markup {
    let id = check.check.id;
    html! {
        details .check id=(check_anchor(id)) {
            summary { (badge(check.shown_status())) " " code { (id) } " " span .note { (check.check.summary) } }
            dl .fields {
                @if let Some(why) = why(check) { (field("why", &html! { (Foreign(&why)) })) }
                @if let Some(since) = check.since {
                    (field("since", &html! {
                        (human(since)) " into the run"
                        @if check.flapped { "; it passed before, but later did not" }
                    }))
                }
                (before("requires", check.check.requires, report))
                (before("after", check.check.after, report))
                (more(id.name()))
            }
            (findings(check))
        }
    }
}

/// The checks that may stand in its way.
fn before(name: &str, ids: &[CheckId], report: &Report) -> Markup {
    let ids = html! {
        @for (n, id) in ids.iter().enumerate() {
            @if n > 0 { ", " }
            // A selection may have left it out of the report.
            @if report.checks.iter().any(|other| other.check.id == *id) { (check_link(*id)) }
            @else { code { (id) } }
        }
    };
    if ids.0.is_empty() { ids } else { field(name, &ids) }
}

/// What its findings do not say.
fn why(check: &CheckReport) -> Option<String> {
    match check.selection {
        _ if check.is_unjudged() => Some("no complete round has checked it".to_owned()),
        Selection::Prerequisite => Some("runs because a selected check needs it".to_owned()),
        Selection::Selected | Selection::NotSelected(_) => skip_reason(check),
    }
}

/// The same said of several targets.
struct Said<'a> {
    status: Status,
    kind: Kind,
    text: String,
    targets: Vec<&'a Target>,
}

/// Worst first; the same of many is said once.
fn findings(check: &CheckReport) -> Markup {
    let mut rows: Vec<Said<'_>> = Vec::new();
    for Finding { target, outcome } in &check.findings {
        let (status, text) = (outcome.status(), said(target, outcome));
        // From the end: what is alike usually comes together.
        let known = rows
            .iter_mut()
            .rev()
            .take(ROWS)
            .find(|row| (row.status, row.kind) == (status, target.kind) && row.text == text);
        match known {
            Some(row) => row.targets.push(target),
            None => rows.push(Said { status, kind: target.kind, text, targets: vec![target] }),
        }
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.status));
    let more = rows.len().saturating_sub(ROWS);
    html! {
        @if !rows.is_empty() {
            table .list {
                (head(&["status", "of", "observed"]))
                tbody {
                    @for row in rows.iter().take(ROWS) {
                        tr {
                            td { (badge(row.status)) }
                            td { (of(row)) }
                            td { (Foreign(&row.text)) }
                        }
                    }
                }
            }
            @if more > 0 { p .note { "and " (more) " more, which the JSON report has" } }
        }
    }
}

/// Names of those that are healthy, as far as they are few.
fn of(row: &Said<'_>) -> Markup {
    match row.targets.as_slice() {
        [one] => html! { (Named(one)) },
        many if many.len() <= ROWS => names(many),
        many => html! { (many.len()) " " (plural_kind(row.kind)) "s" },
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
