//! Problems and next steps: a card for each cause, and the logs.

use std::collections::{BTreeSet, HashMap};

use console::measure_text_width;
use maud::{Markup, html};

use super::parts::{
    Foreign, badge, cause_anchor, check_link, check_links, field, head, hints, more, names, problem_anchor,
    reason_link, source,
};
use crate::diagnosis::{self, Diagnosis};
use crate::model::{Page, Problem, Status, Target};
use crate::report::view::causes::{Cause, FULL, Origin};
use crate::report::view::diagnoses::{self, FACTS};
use crate::report::view::hints::{HintKind, first_step, selected};
use crate::report::view::index::Index;
use crate::report::view::problems::{Block, Consequences, PERMANENT};
use crate::report::view::wording::{self, count, shown};
use crate::report::{CheckReport, Report, TextStyle};
use crate::text::sanitize::{brief, clean, log_lines};
use crate::text::{excerpt, joined, some};

/// Number of observations of a cause that are shown at once.
const SEEN: usize = 2;
/// Maximum number of lines of a folded card on a phone.
const LINES: usize = 12;
/// Number of characters that fit on a line of a phone, even in wide letters.
const COLUMNS: usize = 34;
/// Number of characters of small print that fit on a line of a phone.
const NOTE_COLUMNS: usize = 42;

/// Renders one card for each cause, the one to begin with first; those far down the list are folded.
pub(super) fn causes(index: &Index<'_>, origins: &[Origin<'_>]) -> Option<Markup> {
    let report = index.report;
    // If nothing was judged, the verdict already shows that.
    let some_judged = report.checks.iter().any(|check| check.status.is_some());
    let unjudged: Vec<_> = report.checks.iter().filter(|check| some_judged && check.is_unjudged()).collect();
    let silent: Vec<_> =
        report.checks.iter().filter(|check| check.status == Some(Status::Error) && check.findings.is_empty()).collect();
    if origins.is_empty() && unjudged.is_empty() && silent.is_empty() {
        return None;
    }
    let ids = |checks: &[&CheckReport]| check_links(checks.iter().map(|check| check.check.id));
    let mut known = BTreeSet::new();
    Some(html! {
        @for (n, origin) in origins.iter().enumerate() {
            @let anchor = anchor(origin);
            @let anchor = known.insert(anchor.clone()).then_some(anchor);
            @let cause = Cause::of(origin, index, &TextStyle::default());
            @let card = Card::of(&cause, origin, index);
            @let edge = cause.severity.status().name();
            @if n < FULL {
                article .card.{ (edge) "-edge" } id=[anchor] {
                    h3 .cut.{ "lines-" (card.lines.headline) } { (title(&cause)) }
                    (card.body(index))
                }
            } @else {
                details .card.{ (edge) "-edge" } {
                    summary { h3 { (title(&cause)) } }
                    // The target of links is inside the element, so that following one unfolds it.
                    div id=[anchor] { (card.body(index)) }
                }
            }
        }
        @if !silent.is_empty() { p { "No result, which does not count as a pass: " (ids(&silent)) } }
        @if !unjudged.is_empty() { p { "Not checked: " (ids(&unjudged)) } }
    })
}

fn anchor(origin: &Origin<'_>) -> String {
    match origin {
        Origin::Recognized(those) => cause_anchor(those[0].id),
        Origin::Found(block) => problem_anchor(block.check.check.id),
    }
}

fn title(cause: &Cause) -> Markup {
    html! { (badge(cause.severity.status())) " " (Foreign(&cause.headline)) }
}

/// A cause as a card: the headline, the impact, the evidence and the first step; everything else is folded.
struct Card<'c, 'a> {
    cause: &'c Cause,
    origin: &'c Origin<'a>,
    /// Each observation, with its targets.
    seen: Vec<(&'a str, Vec<&'a Target>)>,
    /// The impact on the cluster, or the result and the expectation of the check.
    note: String,
    /// The observations that are shown at once.
    observed: Vec<String>,
    /// The command to begin with, and what to read before it is used.
    step: Option<(&'c str, Option<&'c str>)>,
    /// Summary of the folded part.
    contents: String,
    lines: Lines,
}

impl<'c, 'a> Card<'c, 'a> {
    fn of(cause: &'c Cause, origin: &'c Origin<'a>, index: &Index<'a>) -> Self {
        let seen = seen(origin);
        let (check, note) = match origin {
            Origin::Recognized(_) => ("", cause.impact.clone().unwrap_or_default()),
            Origin::Found(block) => {
                let expected = &block.problems[0].1.expected;
                let note = format!("{}{}; expected: {expected}", block.word(), block.duration(index));
                (block.check.check.id.name(), note)
            }
        };
        let observation = |(text, targets): &(&str, Vec<&Target>)| {
            // One name leaves room for what was observed; the headline and the folded part have others.
            let names = some(targets.iter().map(|target| shown(target)), 1);
            format!("{names}: {}", brief(&clean(text), excerpt::MOST))
        };
        let observed: Vec<_> = seen.iter().take(SEEN).map(observation).collect();
        let step = first_step(&cause.hints).and_then(|hint| Some((hint.command.as_deref()?, hint.text.as_deref())));
        let contents = contents(cause, origin, index);
        let (command, warning) = step.unwrap_or_default();
        let needs = Lines {
            // The status takes the room of a word.
            headline: lines(&format!("status {}", cause.headline), COLUMNS),
            note: lines(&format!("{check} {note}"), NOTE_COLUMNS),
            observed: [0, 1].map(|n| observed.get(n).map_or(0, |line| lines(line, COLUMNS))),
            command: lines(command, COLUMNS),
            warning: lines(warning.unwrap_or_default(), NOTE_COLUMNS),
        };
        // The label of the first step has a line of its own.
        let uncut = usize::from(step.is_some()) + lines(&contents, NOTE_COLUMNS);
        let lines = needs.within(LINES.saturating_sub(uncut));
        Self { cause, origin, seen, note, observed, step, contents, lines }
    }

    /// Renders everything but the headline.
    fn body(&self, index: &Index<'a>) -> Markup {
        let Self { cause, origin, seen, note, observed, step, contents, lines } = self;
        html! {
            @if !note.is_empty() {
                p .note.cut.{ "lines-" (lines.note) } {
                    @if let Origin::Found(block) = origin { (check_link(block.check.check.id)) " " }
                    (Foreign(note))
                }
            }
            dl .fields.brief {
                @if !observed.is_empty() {
                    div .seen {
                        dt { "seen" }
                        dd { @for (line, n) in observed.iter().zip(lines.observed) { p .cut.{ "lines-" (n) } { (Foreign(line)) } } }
                    }
                }
                @if let Some((command, warning)) = step {
                    (field("first step", &html! {
                        div .command { code .cut.{ "lines-" (lines.command) } { (command) } }
                        @if let Some(warning) = warning { p .note.cut.{ "lines-" (lines.warning) } { (warning) } }
                    }))
                }
            }
            details .all {
                summary { (contents) }
                @match origin {
                    Origin::Recognized(those) => (recognized(cause, those, seen, index)),
                    Origin::Found(block) => (found(cause, block, index)),
                }
            }
        }
    }
}

/// Number of lines that each part of a card needs, or has while the card is folded. The style sheet cuts what is longer.
#[derive(Debug, Default, PartialEq, Eq)]
struct Lines {
    headline: usize,
    note: usize,
    observed: [usize; SEEN],
    command: usize,
    warning: usize,
}

impl Lines {
    /// Distributes these lines among the parts. Each part has one line before any has a second one, except for the second observation,
    /// which has what the others leave.
    fn within(&self, mut free: usize) -> Self {
        let mut lines = Self::default();
        let [first, second] = &mut lines.observed;
        let mut parts = [
            (&mut lines.headline, self.headline.min(5)),
            (&mut lines.command, self.command.min(3)),
            (&mut lines.warning, self.warning.min(2)),
            (first, self.observed[0].min(2)),
            (&mut lines.note, self.note.min(3)),
            (second, self.observed[1].min(2)),
        ];
        let mut grant = |parts: &mut [(&mut usize, usize)], most: usize| {
            for (lines, need) in parts {
                let more = most.min(*need).saturating_sub(**lines).min(free);
                **lines += more;
                free -= more;
            }
        };
        grant(&mut parts[..5], 1);
        grant(&mut parts, usize::MAX);
        lines
    }
}

/// Returns the number of lines that the text needs, or zero for no text.
fn lines(text: &str, columns: usize) -> usize {
    measure_text_width(text.trim()).div_ceil(columns)
}

/// Returns each observation once, with its targets.
fn seen<'a>(origin: &Origin<'a>) -> Vec<(&'a str, Vec<&'a Target>)> {
    match origin {
        Origin::Recognized(those) => {
            let facts = those.iter().flat_map(|it| diagnoses::facts(it));
            repeated(facts.map(|seen| (&seen.target, seen.observed.as_str())))
        }
        Origin::Found(block) => {
            // A single observation is in the headline.
            let seen = repeated(block.problems.iter().map(|(target, it)| (*target, it.observed.as_str())));
            if seen.len() > 1 { seen } else { Vec::new() }
        }
    }
}

/// Returns a summary of the folded part: `4 steps, 14 problems, blocks 3 checks`.
fn contents(cause: &Cause, origin: &Origin<'_>, index: &Index<'_>) -> String {
    let problems = match origin {
        Origin::Recognized(those) => those.iter().map(|it| it.explains.len()).sum(),
        Origin::Found(block) => {
            let also = block.consequences(index).map_or(0, |it| it.also.iter().map(|(_, those)| those.len()).sum());
            block.problems.len() + also
        }
    };
    let of_kinds = HintKind::COMMANDS.into_iter().flat_map(|kind| selected(kind, &cause.hints).0);
    let steps = of_kinds.filter(|hint| hint.command.is_some()).count();
    let parts = [(steps, "", "step"), (problems, "", "problem"), (cause.blocked.len(), "blocks ", "check")];
    let parts = parts.into_iter().filter(|(n, ..)| *n > 0).map(|(n, how, what)| format!("{how}{}", count(n, what)));
    format!("all of it: {}", joined(parts))
}

fn recognized<'a>(cause: &Cause, those: &[&'a Diagnosis], seen: &[(&str, Vec<&Target>)], index: &Index<'a>) -> Markup {
    let of_each: Vec<_> = those.iter().map(|it| index.explained(it)).collect();
    let explained = index.report.checks.iter().flat_map(|check| {
        let of_check = of_each.iter().filter_map(|it| it.get(&check.check.id)).flatten();
        of_check.map(move |it| (check, it.0, it.1))
    });
    let explained: Vec<_> = explained.collect();
    let known = diagnosis::find(those[0].id);
    html! {
        dl .fields {
            @if let Some(known) = known { (field("cause", &html! { (known.title) })) }
            @if !seen.is_empty() {
                (field("seen", &html! {
                    ul {
                        @for (observed, targets) in seen.iter().take(FACTS) {
                            li { (names(targets)) ": " (Foreign(observed)) }
                        }
                        @if seen.len() > FACTS { li { "and " (count(seen.len() - FACTS, "more observation")) } }
                    }
                }))
            }
            (hints(&cause.hints))
            @if !cause.blocked.is_empty() { (field("blocks", &check_links(cause.blocked.iter().copied()))) }
            (more(those[0].id, Page::Cause(those[0].id)))
            @if let Some(known) = known { (source(known.source)) }
        }
        @if !explained.is_empty() { (problem_table(&explained)) }
    }
}

fn found<'a>(cause: &Cause, block: &Block<'a>, index: &Index<'a>) -> Markup {
    html! {
        dl .fields {
            (observations(block))
            (field("reason", &html! { (reason_link(block.reason)) " " (block.reason.title()) }))
            (hints(&cause.hints))
            @if block.is_permanent() { (field("note", &html! { (PERMANENT) })) }
            (consequences(block, index))
            (more(block.reason.code(), Page::Reason(block.reason)))
            (source(block.reason.text().source))
        }
    }
}

fn problem_table(problems: &[(&CheckReport, &Target, &Problem)]) -> Markup {
    html! {
        table .list {
            (head(&["check", "of", "observed"]))
            tbody {
                @for (check, targets, observed) in repeated_of(problems) {
                    tr {
                        td { (check_link(check.check.id)) }
                        td { (names(&targets)) }
                        td { (Foreign(observed)) }
                    }
                }
            }
        }
    }
}

/// Returns the observations of each check, each once, with their targets.
fn repeated_of<'a>(
    problems: &[(&'a CheckReport, &'a Target, &'a Problem)],
) -> Vec<(&'a CheckReport, Vec<&'a Target>, &'a str)> {
    let mut by_check: Vec<(&CheckReport, Vec<(&Target, &str)>)> = Vec::new();
    for (check, target, problem) in problems {
        let observed = (*target, problem.observed.as_str());
        match by_check.last_mut() {
            Some((last, those)) if last.check.id == check.check.id => those.push(observed),
            _ => by_check.push((check, vec![observed])),
        }
    }
    let each = |(check, those): (&'a CheckReport, Vec<_>)| {
        repeated(those).into_iter().map(move |(observed, targets)| (check, targets, observed)).collect::<Vec<_>>()
    };
    by_check.into_iter().flat_map(each).collect()
}

/// Renders targets, expectation and observation. A value that is the same for all appears once, and every target is listed.
fn observations(block: &Block<'_>) -> Markup {
    let (first, problem) = block.problems[0];
    let label = wording::label(first.kind, block.problems.len() > 1);
    let alike = block.problems.iter().all(|(_, other)| other.observed == problem.observed);
    let same_expectation = block.problems.iter().all(|(_, other)| other.expected == problem.expected);
    if alike && same_expectation {
        let targets: Vec<_> = block.problems.iter().map(|(target, _)| *target).collect();
        return html! {
            (field(label, &names(&targets)))
            (field("expected", &html! { (Foreign(&problem.expected)) }))
            (field("observed", &html! { strong { (Foreign(&problem.observed)) } }))
        };
    }
    html! {
        @if same_expectation { (field("expected", &html! { (Foreign(&problem.expected)) })) }
        (field(label, &html! {
            table .list {
                (head(if same_expectation { &["of", "observed"] } else { &["of", "observed", "expected"] }))
                tbody {
                    @for (target, problem) in &block.problems {
                        tr {
                            td { (Foreign(&wording::named(target))) }
                            td { (Foreign(&problem.observed)) }
                            @if !same_expectation { td { (Foreign(&problem.expected)) } }
                        }
                    }
                }
            }
        }))
    }
}

fn consequences<'a>(block: &Block<'a>, report: &Index<'a>) -> Markup {
    let Some(Consequences { also, blocked }) = block.consequences(report) else { return html! {} };
    html! {
        @if !also.is_empty() {
            (field("also", &html! {
                ul {
                    @for (id, problems) in also {
                        @for (observed, targets) in repeated(problems.iter().map(|(target, it)| (*target, it.observed.as_str()))) {
                            li { (check_link(id)) " " (names(&targets)) ": " (Foreign(observed)) }
                        }
                    }
                }
            }))
        }
        @if !blocked.is_empty() { (field("blocks", &check_links(blocked))) }
    }
}

/// Returns each observation once, with its targets.
fn repeated<'a>(all: impl IntoIterator<Item = (&'a Target, &'a str)>) -> Vec<(&'a str, Vec<&'a Target>)> {
    let mut repeated: Vec<(&str, Vec<&Target>)> = Vec::new();
    let mut known = HashMap::new();
    for (target, observed) in all {
        let at = *known.entry(observed).or_insert(repeated.len());
        match repeated.get_mut(at) {
            Some((_, targets)) => targets.push(target),
            None => repeated.push((observed, vec![target])),
        }
    }
    repeated
}

/// Renders the logs of `--evidence logs`.
pub(super) fn logs(report: &Report) -> Option<Markup> {
    if report.logs.is_empty() {
        return None;
    }
    Some(html! {
        @for tail in &report.logs {
            details .card open {
                summary { (Foreign(&tail.log.of.to_string())) " on " (Foreign(&tail.log.node)) }
                @match &tail.lines {
                    Ok(lines) => ol .log { @for line in log_lines(lines) { li { (Foreign(&line)) } } },
                    Err(gap) => p { "none: " (Foreign(&gap.text)) },
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_card_share_its_lines() {
        let long = Lines { headline: 9, note: 9, observed: [9, 9], command: 9, warning: 9 };
        let cut = Lines { headline: 5, note: 1, observed: [1, 0], command: 2, warning: 1 };
        assert_eq!(long.within(10), cut, "the headline and the command first");
        let short = Lines { headline: 2, note: 1, observed: [1, 0], command: 1, warning: 0 };
        assert_eq!(short.within(10), short);
        let few = Lines { headline: 2, note: 1, observed: [2, 3], command: 1, warning: 0 };
        assert_eq!(few.within(8).observed, [2, 2], "the second observation has the rest");
        assert_eq!([lines("", 5), lines("abcde", 5), lines("日本語", 5)], [0, 1, 2]);
    }
}
