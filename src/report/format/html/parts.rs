//! Parts that several sections have in common.

use std::collections::HashMap;

use maud::{Markup, Render, html};

use crate::model::{CheckId, Kind, Page, Reason, Source, Status, Target};
use crate::report::view::grid::LEGEND;
use crate::report::view::hints::{self, HintKind, Rendered};
use crate::report::view::wording::{count, plural_kind};
use crate::text::sanitize::clean;
use crate::text::some;

/// Text that others have written: cleaned, escaped, and without influence on the direction of the text around it.
pub(super) struct Foreign<'a>(pub(super) &'a str);

impl Render for Foreign<'_> {
    fn render(&self) -> Markup {
        html! { bdi { (clean(self.0)) } }
    }
}

/// A target as the text report names it: `cp-1 (10.0.0.1)`.
pub(super) struct Named<'a>(pub(super) &'a Target);

impl Render for Named<'_> {
    fn render(&self) -> Markup {
        Foreign(&self.0.to_string()).render()
    }
}

/// Number of names that are shown at once; more can be unfolded.
const NAMES: usize = 40;

/// Renders all names, one after another. The filter shows which of the folded names it has found.
pub(super) fn names(targets: &[&Target]) -> Markup {
    let (shown, folded) = targets.split_at(targets.len().min(NAMES));
    html! {
        (listed(shown))
        @if !folded.is_empty() {
            details .names { summary { "and " (count(folded.len(), &format!("more {}", kind(folded)))) } (listed(folded)) }
        }
    }
}

/// Renders the names alone.
fn listed(targets: &[&Target]) -> Markup {
    html! { @for (n, target) in targets.iter().enumerate() { @if n > 0 { ", " } (Named(target)) } }
}

/// Returns the noun for these targets, in the singular.
fn kind(targets: &[&Target]) -> &'static str {
    let first = targets.first().map_or(Kind::Cluster, |target| target.kind);
    if targets.iter().all(|target| target.kind == first) { plural_kind(first) } else { "object" }
}

/// Groups of targets that are too large for a table: a row counts its group and links to the list of names, which the page has once, no
/// matter how many rows are about the same targets.
#[derive(Default)]
pub(super) struct Groups<'a> {
    known: HashMap<Vec<&'a Target>, usize>,
}

impl<'a> Groups<'a> {
    /// Renders the number of targets, as a link to their names.
    pub(super) fn counted(&mut self, targets: &[&'a Target]) -> Markup {
        let next = self.known.len();
        let group = *self.known.entry(targets.to_vec()).or_insert(next);
        html! { a .names href={ "#" (group_anchor(group)) } { (count(targets.len(), kind(targets))) } }
    }

    /// Renders the names of all groups, folded.
    pub(super) fn lists(&self) -> Markup {
        let mut groups: Vec<_> = self.known.iter().map(|(targets, group)| (*group, targets.as_slice())).collect();
        groups.sort_unstable_by_key(|(group, _)| *group);
        html! {
            @if !groups.is_empty() {
                details .groups {
                    summary { h3 { "names" } " " span .note { (count(groups.len(), "list")) " too long for the tables above" } }
                    @for (group, targets) in groups {
                        details {
                            summary { (count(targets.len(), kind(targets))) ": " (Foreign(&some(targets.iter(), 2))) }
                            // The target of links is inside the element, so that following one unfolds it.
                            p id=(group_anchor(group)) { (listed(targets)) }
                        }
                    }
                }
            }
        }
    }
}

fn group_anchor(group: usize) -> String {
    format!("names-{group}")
}

/// Returns the class of a status, which is also its name in JSON.
pub(super) fn status_word(status: Option<Status>) -> &'static str {
    status.map_or("none", Status::name)
}

/// Returns the meaning of a cell according to the legend.
pub(super) fn meaning(status: Option<Status>) -> &'static str {
    let status = match status {
        Some(Status::Skip) => None,
        Some(Status::Blocked) => Some(Status::Error),
        other => other,
    };
    LEGEND.iter().find(|(known, _)| *known == status).map_or("", |(_, meaning)| meaning)
}

/// Renders a status as a word; the style sheet adds a mark and a color.
pub(super) fn badge(status: Status) -> Markup {
    html! { b .badge.(status.name()) { (status.name()) } }
}

/// Renders the ID of a check as a link to its details.
pub(super) fn check_link(id: CheckId) -> Markup {
    html! { a href={ "#" (check_anchor(id)) } { code { (id) } } }
}

pub(super) fn check_links(ids: impl IntoIterator<Item = CheckId>) -> Markup {
    html! { @for (n, id) in ids.into_iter().enumerate() { @if n > 0 { ", " } (check_link(id)) } }
}

/// Returns the anchor of a cause's first card.
pub(super) fn cause_anchor(id: &str) -> String {
    format!("cause-{id}")
}

/// Returns the anchor of the first card for problems of a check that no cause explains.
pub(super) fn problem_anchor(id: CheckId) -> String {
    format!("problem-{id}")
}

pub(super) fn check_anchor(id: CheckId) -> String {
    format!("check-{id}")
}

/// Renders `name` and its content, in a list of definitions.
pub(super) fn field(name: &str, content: &Markup) -> Markup {
    html! { div { dt { (name) } dd { (content) } } }
}

/// Renders the hints of each kind: sentences, then commands as they are pasted.
pub(super) fn hints(all: &[Rendered]) -> Markup {
    html! {
        @for kind in HintKind::ALL {
            @let (shown, more) = hints::selected(kind, all);
            @if !shown.is_empty() {
                (field(kind.name(), &html! {
                    @for hint in shown {
                        (step(hint))
                    }
                    @if more > 0 { p { "and " (count(more, "similar command")) } }
                }))
            }
        }
    }
}

/// Renders a hint: a command, or a sentence.
fn step(hint: &Rendered) -> Markup {
    match (&hint.command, &hint.text) {
        (Some(command), note) => self::command(command, note.as_deref()),
        (None, Some(text)) => html! { p { (Foreign(text)) } },
        (None, None) => html! {},
    }
}

/// Renders a command, with a note to read before it is used.
fn command(command: &str, note: Option<&str>) -> Markup {
    html! {
        div .command { code { (command) } }
        @if let Some(note) = note { p .note { (note) } }
    }
}

/// Renders the pointers to more about a reason, a check or a cause: at a prompt, and on the web.
pub(super) fn more(topic: &str, page: Page) -> Markup {
    let command = command(&format!("cluster-health explain {topic}"), None);
    field("more", &html! { (command) p .note { (web(&page.to_string(), &format!("{topic} on the web"))) } })
}

/// Renders the document that a remedy comes from.
pub(super) fn source(source: Source) -> Markup {
    field("source", &html! { (web(source.address, &source.title.replace('`', ""))) })
}

/// Renders the code of a reason as a link to its page.
pub(super) fn reason_link(reason: Reason) -> Markup {
    html! { a href=(Page::Reason(reason)) rel="noreferrer" { code { (reason.code()) } } }
}

/// Renders a link away from this page that does not reveal the page's location.
fn web(address: &str, text: &str) -> Markup {
    html! { a href=(address) rel="noreferrer" { (text) } }
}

/// Renders the head of a table.
pub(super) fn head(columns: &[&str]) -> Markup {
    html! { thead { tr { @for column in columns { th scope="col" { (column) } } } } }
}
