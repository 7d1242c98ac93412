//! Several clusters on one page: a line for each, then a card for each that is not healthy.

use maud::{Markup, html};

use super::parts::{Foreign, badge};
use super::{framed, nodes};
use crate::model::{Exit, Status};
use crate::report::merged::{Overview, Row};
use crate::report::view::causes::{self, Cause, FULL, STEPS};
use crate::report::view::index::Index;
use crate::report::view::style::TextStyle;
use crate::report::view::verdict;
use crate::report::view::wording::count;
use crate::text::excerpt;
use crate::text::sanitize::brief;

pub(super) fn page(overview: &Overview<'_>) -> Markup {
    let verdict = overview.verdict();
    let (word, rest) = verdict.split_once(": ").unwrap_or((&verdict, ""));
    let status = overview.rows.first().map_or(Status::Error, Row::status);
    let header = html! {
        div .verdict.(status.name()) {
            h1 { (word) }
            p { (rest) }
            @for note in &overview.notes { p .note { (Foreign(note)) } }
        }
    };
    let bad: Vec<_> = overview.rows.iter().filter(|row| row.exit != Exit::Healthy).collect();
    let sections = [
        ("clusters", "Clusters", (!overview.rows.is_empty()).then(|| nodes::of_clusters(&overview.grid()))),
        ("causes", "Not healthy", (!bad.is_empty()).then(|| cards(&bad))),
    ];
    framed(&format!("{word} (cluster-health)"), &header, sections, env!("CARGO_PKG_VERSION"))
}

/// Number of clusters whose cards are shown at once; more can be unfolded.
const CARDS: usize = 20;
/// Number of causes of a cluster that are shown at once.
const CAUSES: usize = 3;

/// Renders the cards, the worst cluster first.
fn cards(rows: &[&Row<'_>]) -> Markup {
    let (shown, folded) = rows.split_at(rows.len().min(CARDS));
    html! {
        (some_cards(shown, FULL))
        @if !folded.is_empty() {
            details { summary { "and " (count(folded.len(), "cluster")) " more" } (some_cards(folded, 0)) }
        }
    }
}

/// Renders the cards. A folded card shows its first problem.
fn some_cards(rows: &[&Row<'_>], full: usize) -> Markup {
    let style = TextStyle::default();
    html! {
        @for (n, row) in rows.iter().enumerate() {
            @let edge = row.status().name();
            @let causes = row.report().map(|report| causes::of(&Index::of(report), &style)).unwrap_or_default();
            @if n < full {
                article .card.{ (edge) "-edge" } { (title(row)) (body(row, &causes, &style)) }
            } @else {
                details .card.{ (edge) "-edge" } {
                    summary {
                        (title(row))
                        @if let Some(first) = row.concerns.first().or(causes.first().map(|cause| &cause.headline)) {
                            " " span .note { (Foreign(&brief(first, excerpt::MOST))) }
                        }
                    }
                    (body(row, &causes, &style))
                }
            }
        }
    }
}

fn title(row: &Row<'_>) -> Markup {
    html! { h3 .cut."lines-2" { (badge(row.status())) " " (Foreign(&row.name)) " " small { (row.state()) } } }
}

/// Renders everything but the title. On a phone, the folded card has at most twelve lines: two for the title, the first concern and the
/// verdict each, one or two for each cause, and one for the summary of the folded part.
fn body(row: &Row<'_>, causes: &[Cause], style: &TextStyle) -> Markup {
    let each = if row.concerns.is_empty() { "lines-2" } else { "lines-1" };
    let others = row.concerns.get(1..).unwrap_or_default();
    html! {
        @if let Some(concern) = row.concerns.first() { p .cut."lines-2" { (Foreign(concern)) } }
        @if let Some(report) = row.report() { p .note.cut."lines-2" { (Foreign(&verdict::line(report, style))) } }
        @if !causes.is_empty() {
            ul .headlines {
                @for cause in causes.iter().take(CAUSES) { li .cut.(each) { (Foreign(&cause.headline)) } }
            }
        }
        @if !causes.is_empty() || !others.is_empty() {
            details .all {
                summary { "all of it: " (count(causes.len(), "cause")) }
                @for concern in others { p { (Foreign(concern)) } }
                @for cause in causes { (self::cause(cause, style)) }
            }
        }
    }
}

/// Renders a cause as in the text report.
fn cause(cause: &Cause, style: &TextStyle) -> Markup {
    html! {
        details {
            summary { (Foreign(&cause.headline)) }
            pre { @for line in cause.lines(STEPS, style) { (Foreign(&line)) "\n" } }
        }
    }
}
