//! Parts that several sections have in common.

use maud::{Markup, Render, html};

use crate::model::{CheckId, Page, Reason, Source, Status, Target};
use crate::report::view::grid::LEGEND;
use crate::report::view::hints::{self, HintKind, Rendered};
use crate::text::sanitize::clean;

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

/// Renders all names, one after another.
pub(super) fn names(targets: &[&Target]) -> Markup {
    let (shown, folded) = targets.split_at(targets.len().min(NAMES));
    let listed = |some: &[&Target]| {
        html! { @for (n, target) in some.iter().enumerate() { @if n > 0 { ", " } (Named(target)) } }
    };
    html! {
        (listed(shown))
        @if !folded.is_empty() {
            details { summary { "and " (folded.len()) " more" } (listed(folded)) }
        }
    }
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
                    @if more > 0 { p { "the same for " (more) " more" } }
                }))
            }
        }
    }
}

/// Renders a hint: a command, or a sentence.
pub(super) fn step(hint: &Rendered) -> Markup {
    match (&hint.command, &hint.text) {
        (Some(command), note) => self::command(command, note.as_deref()),
        (None, Some(text)) => html! { p { (Foreign(text)) } },
        (None, None) => html! {},
    }
}

/// Renders a command, with a note to read before it is used.
pub(super) fn command(command: &str, note: Option<&str>) -> Markup {
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
