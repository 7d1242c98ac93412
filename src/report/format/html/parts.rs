//! What several sections are made of.

use maud::{Markup, Render, html};

use crate::model::{CheckId, Page, Reason, Source, Status, Target};
use crate::report::view::grid::LEGEND;
use crate::report::view::hints::{self, HintKind, Rendered};
use crate::text::sanitize::clean;

/// What others have written: disarmed, escaped, and without influence on the direction of the text around it.
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

/// Names that are shown at once; more are there to be unfolded.
const NAMES: usize = 40;

/// Names after one another, all of them.
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

/// The class of a status; also the name that JSON has for it.
pub(super) fn status_word(status: Option<Status>) -> &'static str {
    status.map_or("none", Status::name)
}

/// What the legend says of a cell.
pub(super) fn meaning(status: Option<Status>) -> &'static str {
    let status = match status {
        Some(Status::Skip) => None,
        Some(Status::Blocked) => Some(Status::Error),
        other => other,
    };
    LEGEND.iter().find(|(known, _)| *known == status).map_or("", |(_, meaning)| meaning)
}

/// A status as a word, which the style sheet gives a mark and a color.
pub(super) fn badge(status: Status) -> Markup {
    html! { b .badge.(status.name()) { (status.name()) } }
}

/// A check, by its id, leading to all that is known of it.
pub(super) fn check_link(id: CheckId) -> Markup {
    html! { a href={ "#" (check_anchor(id)) } { code { (id) } } }
}

pub(super) fn check_links(ids: impl IntoIterator<Item = CheckId>) -> Markup {
    html! { @for (n, id) in ids.into_iter().enumerate() { @if n > 0 { ", " } (check_link(id)) } }
}

/// The first card of a cause.
pub(super) fn cause_anchor(id: &str) -> String {
    format!("cause-{id}")
}

/// The first card of what a check found that no cause explains.
pub(super) fn problem_anchor(id: CheckId) -> String {
    format!("problem-{id}")
}

pub(super) fn check_anchor(id: CheckId) -> String {
    format!("check-{id}")
}

/// `name`, and what belongs to it, in a list of definitions.
pub(super) fn field(name: &str, content: &Markup) -> Markup {
    html! { div { dt { (name) } dd { (content) } } }
}

/// The hints of each kind: sentences, then commands, as they are pasted.
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

/// A hint: a command, or a sentence.
pub(super) fn step(hint: &Rendered) -> Markup {
    match (&hint.command, &hint.text) {
        (Some(command), note) => self::command(command, note.as_deref()),
        (None, Some(text)) => html! { p { (Foreign(text)) } },
        (None, None) => html! {},
    }
}

/// A command, and what is to be known before it is used.
pub(super) fn command(command: &str, note: Option<&str>) -> Markup {
    html! {
        div .command { code { (command) } }
        @if let Some(note) = note { p .note { (note) } }
    }
}

/// Where more is said of a reason, a check or a cause: at a prompt, and on the web.
pub(super) fn more(topic: &str, page: Page) -> Markup {
    let command = command(&format!("cluster-health explain {topic}"), None);
    field("more", &html! { (command) p .note { (web(&page.to_string(), &format!("{topic} on the web"))) } })
}

/// The document that a remedy comes from.
pub(super) fn source(source: Source) -> Markup {
    field("source", &html! { (web(source.address, &source.title.replace('`', ""))) })
}

/// A reason by its code, leading to its page.
pub(super) fn reason_link(reason: Reason) -> Markup {
    html! { a href=(Page::Reason(reason)) rel="noreferrer" { code { (reason.code()) } } }
}

/// Away from this page, without a word of where it is.
fn web(address: &str, text: &str) -> Markup {
    html! { a href=(address) rel="noreferrer" { (text) } }
}

/// The head of a table.
pub(super) fn head(columns: &[&str]) -> Markup {
    html! { thead { tr { @for column in columns { th scope="col" { (column) } } } } }
}
