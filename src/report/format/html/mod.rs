//! The HTML report: one file with everything in it, for artifacts of CI jobs and tickets.
//!
//! The page makes no network request, and cannot: its Content-Security-Policy allows the embedded style sheet and script, by their digests,
//! and nothing else. The script adds buttons that copy commands, and a box that filters; everything else works without it, and without the
//! style sheet if a viewer drops that too. Text that others have written is shown only through [`Foreign`]. Links lead to the
//! documentation, and are followed only on a click.

mod checks;
mod clusters;
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

use crate::model::Role;
use crate::report::merged::Overview;
use crate::report::view::causes;
use crate::report::view::grid::Grid;
use crate::report::view::index::Index;
use crate::report::view::style::{TextStyle, mark};
use crate::report::view::verdict as words;
use crate::report::view::wording::count;
use crate::report::{Report, Sources};
use crate::text::duration::human;
use crate::text::sanitize::clean;
use parts::{Foreign, status_word};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = concat!(include_str!("copy.js"), include_str!("filter.js"));

/// Writes the document.
pub(crate) fn write(report: &Report, mut out: impl io::Write) -> io::Result<()> {
    writeln!(out, "{}", page(report).into_string())?;
    out.flush()
}

/// Writes the document of several clusters.
pub(crate) fn write_merged(overview: &Overview<'_>, _: &TextStyle, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(out, "{}", clusters::page(overview).into_string())?;
    out.flush()
}

fn page(report: &Report) -> Markup {
    let index = Index::of(report);
    let origins = causes::origins(&index);
    let grid = report.is_judged().then(|| Grid::of(report));
    let sections = [
        ("causes", "Causes", trouble::causes(&index, &origins)),
        ("remarks", "Remarks", remarks(report)),
        ("nodes", "Nodes", grid.as_ref().map(nodes::of_nodes)),
        ("timeline", "Timeline", timeline::timeline(report)),
        ("logs", "Logs", trouble::logs(report)),
        ("checks", "Checks", Some(checks::checks(&index, &origins))),
        ("run", "This run", Some(facts(report))),
    ];
    let header = html! { (verdict(report)) (counts(report)) };
    framed(&title(report), &header, sections, &report.tool.version)
}

/// One section of a page: its anchor, its title, and its content.
type Section = (&'static str, &'static str, Option<Markup>);

/// Renders the page around its content, for one cluster or for several.
fn framed(title: &str, header: &Markup, sections: impl IntoIterator<Item = Section>, version: &str) -> Markup {
    let style = style_sheet();
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
        digest(&style),
        digest(SCRIPT)
    );
    let sections: Vec<_> =
        sections.into_iter().filter_map(|(id, title, content)| Some((id, title, content?))).collect();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(style)) }
            }
            body {
                header {
                    a .to-main href="#main" { "Skip to the content" }
                    (header)
                    nav aria-label="Sections" {
                        ul { @for (id, title, _) in &sections { li { a href={ "#" (id) } { (title) } } } }
                    }
                }
                main #main tabindex="-1" {
                    @for (id, title, content) in &sections {
                        section id=(id) aria-labelledby={ (id) "-title" } {
                            h2 id={ (id) "-title" } { (title) }
                            (content)
                        }
                    }
                }
                footer {
                    p { "cluster-health " (clean(version)) ". The JSON report has every detail, for programs." }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

/// Returns the style sheet, with the marks of each status, which are defined in one place for all formats.
fn style_sheet() -> String {
    let mut style = STYLE.to_owned();
    for status in words::DONE.map(|(status, _)| Some(status)).into_iter().chain([None]) {
        let (class, mark) = (status_word(status), mark(status, false));
        // Browsers that support alternative text get none for the mark, because the word next to it is read.
        let _ = writeln!(style, ".{class}::before {{ content: \"{mark}\"; content: \"{mark}\" / \"\"; }}");
    }
    style
}

/// Returns the digest as a source of a Content-Security-Policy.
fn digest(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    format!("sha256-{}", STANDARD.encode(digest))
}

fn title(report: &Report) -> String {
    let result = report.result.name();
    match report.sources.name() {
        Some(name) => format!("{result}: {} (cluster-health)", crate::text::sanitize::brief(name, 60)),
        None => format!("{result} (cluster-health)"),
    }
}

/// Renders what readers look for first: the result, the cluster, the time, and the version.
fn verdict(report: &Report) -> Markup {
    let line = words::short(report, &TextStyle::default());
    let word = words::word(report);
    let rest = line.strip_prefix(&word).unwrap_or(&line).trim_start_matches([':', ' ']);
    html! {
        div .verdict.(report.status().name()) {
            h1 {
                (word)
                @if let Some(name) = report.sources.name() { " " small { (Foreign(name)) } }
            }
            p { (rest) }
            p .note { (Foreign(&words::identity(report))) }
            @if !report.complete { p { strong { "The run has not finished; this is its state so far." } } }
        }
    }
}

/// Renders the number of checks by outcome. The script turns the numbers into filters.
fn counts(report: &Report) -> Markup {
    let counts = words::DONE.map(|(status, word)| (status, word, report.count(status)));
    html! {
        ul .counts aria-label="Checks by result" {
            @for (status, word, n) in counts.into_iter().filter(|(_, _, n)| *n > 0) {
                li .count.(status.name()) data-status=(status.name()) { (n) " " (word) }
            }
        }
    }
}

/// Renders where and when this was observed.
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

/// Returns `2026-11-21 03:00:00 UTC`: a report is not read in the place where it was made.
fn shown_time(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Renders what the verdict leaves out, and what weakens it.
fn remarks(report: &Report) -> Option<Markup> {
    let remarks = words::remarks(report);
    (!remarks.is_empty()).then(|| {
        html! {
            dl .remarks {
                @for (name, items) in remarks {
                    div {
                        dt { (name) }
                        @for item in items { dd { (Foreign(&item)) } }
                    }
                }
            }
        }
    })
}
