//! The grid: every node at every stage, or every cluster.

use maud::{Markup, html};

use super::checks::stage_anchor;
use super::parts::{Foreign, check_anchor, meaning, status_word};
use crate::model::{Role, Stage, Target};
use crate::report::view::grid::{self, Band, Grid, LEGEND};

/// Renders the nodes of one cluster. The table links to the checks further down.
pub(super) fn of_nodes(grid: &Grid) -> Markup {
    table("node", grid, |stage| html! { a href={ "#" (stage_anchor(stage)) } { (stage.column()) } })
}

/// Renders the clusters of a fleet.
pub(super) fn of_clusters(grid: &Grid) -> Markup {
    table("cluster", grid, |stage| html! { (stage.column()) })
}

/// Renders the table. `what`: the kind of its rows.
fn table(what: &str, grid: &Grid, head: impl Fn(Stage) -> Markup) -> Markup {
    html! {
        // The table can be wider than a phone; a keyboard can scroll it, too.
        div .scroll role="region" aria-label={ "Each " (what) " by stage" } tabindex="0" {
            table .grid {
                thead {
                    tr {
                        th scope="col" { (what) }
                        @for stage in &grid.stages { th scope="col" { (head(*stage)) } }
                    }
                }
                tbody { @for band in grid.bands(true) { (row(what, &band)) } }
            }
        }
        p .legend {
            @for (status, meaning) in LEGEND { span .(status_word(status)) { " " (meaning) } " " }
        }
    }
}

fn label(target: &Target) -> Markup {
    html! { (Foreign(&grid::label(target))) }
}

fn row(what: &str, band: &Band<'_>) -> Markup {
    html! {
        tr {
            th scope="row" {
                @match band.rows.as_slice() {
                    [one] => {
                        (label(&one.target))
                        @if let Some(role) = one.role.filter(|role| *role != Role::Unknown) { " " small { (role.name()) } }
                    }
                    many => details .names {
                        summary { (many.len()) " " (what) "s alike" }
                        @for (n, row) in many.iter().enumerate() { @if n > 0 { ", " } (label(&row.target)) }
                    },
                }
            }
            @for (cell, found) in band.cells().iter().zip(band.found()) {
                td .(status_word(*cell)) {
                    @match found {
                        // The cell links to the check that found its status.
                        Some(id) => a href={ "#" (check_anchor(*id)) } { span .spoken { (meaning(*cell)) ": " (id) } },
                        None => span .spoken { (meaning(*cell)) },
                    }
                }
            }
        }
    }
}
