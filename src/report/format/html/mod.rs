//! The HTML report: one file with everything in it, for artifacts of CI jobs and tickets.
//!
//! It asks the network for nothing, and may not: its Content-Security-Policy allows the style sheet and the script that are in
//! it, by their digests, and nothing else. The script adds buttons that copy commands, and a box that filters; all the rest works
//! without it, and without the style sheet, where a viewer drops that too. What others have written is shown through [`Foreign`]
//! alone. Links lead to the documentation, and follow a click alone.

mod checks;
mod nodes;
mod parts;
#[cfg(test)]
mod tests;
mod timeline;
mod trouble;

use std::fmt::Write as _;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::model::{Role, Status};
use crate::report::view::grid::{Grid, Row};
use crate::report::view::index::Index;
use crate::report::view::problems;
use crate::report::view::style::{TextStyle, mark};
use crate::report::view::verdict as words;
use crate::report::view::wording::count;
use crate::report::{Report, Sources};
use crate::text::duration::human;
use crate::text::sanitize::clean;
use parts::{Foreign, proportions, status_word};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = concat!(include_str!("copy.js"), include_str!("filter.js"));

const BY_WEIGHT: [Status; 6] = [Status::Fail, Status::Error, Status::Blocked, Status::Warn, Status::Pass, Status::Skip];

/// Writes the document.
pub(crate) fn write(report: &Report, mut out: impl io::Write) -> io::Result<()> {
    writeln!(out, "{}", page(report).into_string())?;
    out.flush()
}

fn page(report: &Report) -> Markup {
    let style = style_sheet();
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
        digest(&style),
        digest(SCRIPT)
    );
    let index = Index::of(report);
    let mut blocks = problems::blocks(&index);
    // The one to start with comes first.
    blocks.reverse();
    let grid = report.is_judged().then(|| Grid::of(report));
    let sections: Vec<(&str, &str, Markup)> = [
        ("diagnoses", "Diagnoses", trouble::diagnoses(&index)),
        ("problems", "Problems", trouble::problems(&index, &blocks)),
        ("nodes", "Nodes", grid.as_ref().map(nodes::grid)),
        ("timeline", "Timeline", timeline::timeline(report)),
        ("logs", "Logs", trouble::logs(report)),
        ("checks", "Checks", Some(checks::checks(&index, &blocks))),
    ]
    .into_iter()
    .filter_map(|(id, title, content)| Some((id, title, content?)))
    .collect();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title(report)) }
                style { (PreEscaped(style)) }
            }
            body {
                header {
                    a .to-main href="#main" { "Skip to the content" }
                    (verdict(report))
                    @if let Some(grid) = &grid { (whole(report, grid)) }
                    (facts(report))
                    nav aria-label="Sections" {
                        ul { @for (id, title, _) in &sections { li { a href={ "#" (id) } { (title) } } } }
                    }
                }
                main #main tabindex="-1" {
                    (remarks(report))
                    @for (id, title, content) in &sections {
                        section id=(id) aria-labelledby={ (id) "-title" } {
                            h2 id={ (id) "-title" } { (title) }
                            (content)
                        }
                    }
                }
                footer {
                    p { "cluster-health " (clean(&report.tool.version)) ". The JSON report has every detail, for programs." }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

/// The file, and the marks of each status, which have one place for all formats.
fn style_sheet() -> String {
    let mut style = STYLE.to_owned();
    for status in BY_WEIGHT.map(Some).into_iter().chain([None]) {
        let (class, mark) = (status_word(status), mark(status, false));
        // Nothing is said for the mark where that can be told: the word beside it is.
        let _ = writeln!(style, ".{class}::before {{ content: \"{mark}\"; content: \"{mark}\" / \"\"; }}");
    }
    style
}

/// As a source of a Content-Security-Policy.
fn digest(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    format!("sha256-{}", STANDARD.encode(digest))
}

fn title(report: &Report) -> String {
    let result = report.result.name();
    match &report.sources.context {
        Some(context) => format!("{result}: {} (cluster-health)", crate::text::sanitize::brief(context, 60)),
        None => format!("{result} (cluster-health)"),
    }
}

/// What people look for first.
fn verdict(report: &Report) -> Markup {
    let line = words::short(report, &TextStyle::default());
    let word = words::word(report);
    let rest = line.strip_prefix(&word).unwrap_or(&line).trim_start_matches([':', ' ']);
    html! {
        div .verdict.(report.status().name()) {
            h1 {
                (word)
                @if let Some(context) = &report.sources.context { " " small { (Foreign(context)) } }
            }
            p { (rest) }
            @if !report.complete { p { strong { "The run has not finished; this is its state so far." } } }
        }
    }
}

/// All checks and all nodes, each as a part of the whole.
fn whole(report: &Report, grid: &Grid) -> Markup {
    let checks = BY_WEIGHT.map(|status| (status, report.count(status)));
    let nodes: Vec<_> = grid.rows.iter().filter(|row| row.role.is_some()).map(Row::worst).collect();
    let of_nodes = BY_WEIGHT.map(|status| (status, nodes.iter().filter(|worst| **worst == Some(status)).count()));
    html! {
        div .whole {
            (proportions(&count(report.checks.len(), "check"), &checks))
            @if !nodes.is_empty() { (proportions(&count(nodes.len(), "node"), &of_nodes)) }
        }
    }
}

/// Where and when this was seen.
fn facts(report: &Report) -> Markup {
    let Sources { context: _, endpoints, kubeconfig, kube_context, server, talosconfig, talos_versions, .. } =
        &report.sources;
    let of_role = |role: Role| report.sources.nodes.iter().filter(|node| node.role == role).count();
    let [control_planes, workers, others] = [Role::ControlPlane, Role::Worker, Role::Unknown].map(of_role);
    let mut nodes = Vec::new();
    if control_planes > 0 {
        nodes.push(count(control_planes, "control plane"));
    }
    if workers > 0 {
        nodes.push(count(workers, "worker"));
    }
    if others > 0 {
        nodes.push(format!("{others} of unknown role"));
    }
    let file = |path: &Option<String>, context: &Option<String>| match (path, context) {
        (Some(path), Some(context)) => Some(format!("{path} (context {context})")),
        (path, _) => path.clone(),
    };
    let facts: Vec<(&str, Option<String>)> = vec![
        ("started", Some(shown_time(report.started_at))),
        ("took", Some(format!("{}, {}", human(report.took), count(report.rounds as usize, "round")))),
        ("exit code", Some(report.exit.code().to_string())),
        ("nodes", (!nodes.is_empty()).then(|| nodes.join(", "))),
        ("Talos", (!talos_versions.is_empty()).then(|| talos_versions.join(", "))),
        ("endpoints", (!endpoints.is_empty()).then(|| endpoints.join(", "))),
        ("Kubernetes", server.clone()),
        ("talosconfig", file(talosconfig, &report.sources.context)),
        ("kubeconfig", file(kubeconfig, kube_context)),
    ];
    html! {
        dl .facts {
            @for (name, value) in facts {
                @if let Some(value) = value { div { dt { (name) } dd { (Foreign(&value)) } } }
            }
        }
    }
}

/// `2026-11-21 03:00:00 UTC`: a report is read elsewhere than it was made.
fn shown_time(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// What the verdict does not say, and what makes it weaker.
fn remarks(report: &Report) -> Markup {
    let remarks = words::remarks(report);
    html! {
        @if !remarks.is_empty() {
            dl .remarks {
                @for (name, items) in remarks {
                    div {
                        dt { (name) }
                        @for item in items { dd { (Foreign(&item)) } }
                    }
                }
            }
        }
    }
}
