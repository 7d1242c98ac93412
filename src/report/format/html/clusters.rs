//! Several clusters on one page: each in a line, then a card for each that is not healthy.

use maud::{Markup, html};

use super::parts::{Foreign, badge, field};
use super::{framed, nodes};
use crate::model::{Exit, Status};
use crate::report::merged::{Overview, Row};
use crate::report::view::causes::{self, Cause, FULL, STEPS};
use crate::report::view::index::Index;
use crate::report::view::style::TextStyle;
use crate::report::view::verdict;
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

/// The worst first; what is far down the list is folded, and the first that is said of it is seen.
fn cards(rows: &[&Row<'_>]) -> Markup {
    let style = TextStyle::default();
    html! {
        @for (n, row) in rows.iter().enumerate() {
            @let edge = row.status().name();
            @let causes = row.report().map(|report| causes::of(&Index::of(report), &style)).unwrap_or_default();
            @if n < FULL {
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
    html! { h3 { (badge(row.status())) " " (Foreign(&row.name)) " " small { (row.state()) } } }
}

fn body(row: &Row<'_>, causes: &[Cause], style: &TextStyle) -> Markup {
    html! {
        dl .fields {
            @for concern in &row.concerns { (field("because", &html! { (Foreign(concern)) })) }
            @if let Some(report) = row.report() {
                (field("report", &html! { (Foreign(&verdict::line(report, style))) }))
            }
        }
        @for cause in causes { (self::cause(cause, style)) }
    }
}

/// What the text report says of it.
fn cause(cause: &Cause, style: &TextStyle) -> Markup {
    html! {
        details {
            summary { (Foreign(&cause.headline)) }
            pre { @for line in cause.lines(STEPS, style) { (Foreign(&line)) "\n" } }
        }
    }
}
