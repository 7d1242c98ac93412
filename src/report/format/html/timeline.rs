//! Changes from round to round, on a common line of time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use maud::{Markup, html};

use super::parts::{Foreign, badge, check_link, check_links, head, status_word};
use crate::model::{CheckId, Status};
use crate::report::Report;
use crate::report::history::{Happened, Omitted};
use crate::report::view::wording::count;
use crate::text::duration::human;

/// Width of a line, in units of its drawing. Anything shorter than one unit is shown as its worst status.
const WIDTH: u32 = 400;
/// Height of a line, in the same units.
const HEIGHT: u32 = 12;
/// Number of changes that are listed, the last ones.
const LISTED: usize = 200;
/// Number of a line's changes that are put in words, for those who cannot see it.
const TOLD: usize = 4;

/// A status, from this time until the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Since {
    at: Duration,
    status: Status,
}

/// Renders the timeline, or returns `None` for a run of one round, which has no before and after.
pub(super) fn timeline(report: &Report) -> Option<Markup> {
    if !report.is_judged() || report.rounds < 2 {
        return None;
    }
    let lines = lines(report);
    if lines.is_empty() {
        return None;
    }
    // A check that did not change has no line: it would only hide the lines of those that did.
    let of_checks: Vec<_> = report.checks.iter().filter_map(|check| lines.get_key_value(&check.check.id)).collect();
    let (moved, still): (Vec<_>, Vec<_>) = of_checks.into_iter().partition(|(_, line)| line.len() > 1);
    let (well, bad): (Vec<_>, Vec<_>) =
        still.into_iter().partition(|(_, line)| line.iter().all(|it| it.status.is_fine()));
    Some(html! {
        @if !moved.is_empty() {
            details .timeline {
                summary { (count(moved.len(), "check")) " changed" }
                div .track { span { "all checks" } (bar(&together(&lines), report.took)) }
                @for (id, line) in &moved { div .track { span { (check_link(**id)) } (bar(line, report.took)) } }
                div .track.axis {
                    span {}
                    p { @for n in 0..=4 { span { (human(report.took * n / 4)) } } }
                }
            }
        }
        @if !bad.is_empty() { p .note { (count(bad.len(), "check")) " failed or undetermined from the first round on." } }
        @if !well.is_empty() {
            p .note { (count(well.len(), "check")) " passed or did not apply from the first round on." }
        }
        (changes(report))
    })
}

/// Returns the status of each check over time.
fn lines(report: &Report) -> BTreeMap<CheckId, Vec<Since>> {
    let mut lines: BTreeMap<CheckId, Vec<Since>> = BTreeMap::new();
    for entry in report.history.entries() {
        if let Happened::Check { check, now, .. } = &entry.happened {
            let line = lines.entry(check.id).or_default();
            // Omitted changes are shown as the worst of them.
            let omitted = entry.omitted.and_then(|it| Some(Since { at: it.since, status: it.worst? }));
            for since in omitted.into_iter().chain([Since { at: entry.at, status: *now }]) {
                if line.last().is_none_or(|last| last.status != since.status) {
                    line.push(since);
                }
            }
        }
    }
    lines
}

/// Returns the worst status of all checks over time.
fn together(lines: &BTreeMap<CheckId, Vec<Since>>) -> Vec<Since> {
    let mut changes: BTreeMap<Duration, Vec<(CheckId, Status)>> = BTreeMap::new();
    for (id, line) in lines {
        for since in line {
            changes.entry(since.at).or_default().push((*id, since.status));
        }
    }
    let mut statuses: BTreeMap<CheckId, Status> = BTreeMap::new();
    let mut together: Vec<Since> = Vec::new();
    for (at, changed) in changes {
        statuses.extend(changed);
        if let Some(status) = statuses.values().max().copied()
            && together.last().is_none_or(|last| last.status != status)
        {
            together.push(Since { at, status });
        }
    }
    together
}

/// Renders a line. Its height shows the status as well as its color does.
fn bar(line: &[Since], took: Duration) -> Markup {
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(in_words(line)) {
            @for (status, path) in paths(line, took) { path .(status_word(Some(status))) d=(path) {} }
        }
    }
}

/// Returns one path for each status: a thousand changes are not a thousand elements.
fn paths(line: &[Since], took: Duration) -> BTreeMap<Status, String> {
    let mut paths: BTreeMap<Status, String> = BTreeMap::new();
    for (from, to, status) in spans(line, took) {
        let height = match status {
            Status::Skip | Status::Pass => HEIGHT / 3,
            Status::Warn => HEIGHT / 2,
            Status::Blocked | Status::Error => HEIGHT * 3 / 4,
            Status::Fail => HEIGHT,
        };
        let (width, top) = (to - from, HEIGHT - height);
        let path = paths.entry(status).or_default();
        let _ = write!(path, "M{from} {top}h{width}v{height}h-{width}z");
    }
    paths
}

/// Returns the beginning and end of each status, in units of the drawing; spans neither overlap nor are empty. Changes within one unit are
/// shown as their worst status, and after it as the last one.
fn spans(line: &[Since], took: Duration) -> Vec<(u32, u32, Status)> {
    let mut columns: BTreeMap<u32, Status> = BTreeMap::new();
    for since in line {
        let from = column(since.at, took).min(WIDTH - 1);
        let worst = columns.entry(from).or_insert(since.status);
        if *worst > since.status && from + 1 < WIDTH {
            columns.insert(from + 1, since.status);
        } else {
            *worst = since.status;
            columns.remove(&(from + 1));
        }
    }
    let ends: Vec<_> = columns.keys().skip(1).copied().chain([WIDTH]).collect();
    columns.into_iter().zip(ends).map(|((from, status), to)| (from, to, status)).collect()
}

fn column(at: Duration, took: Duration) -> u32 {
    let whole = took.as_millis().max(1);
    let column = at.as_millis() * u128::from(WIDTH) / whole;
    u32::try_from(column).unwrap_or(WIDTH).min(WIDTH)
}

fn in_words(line: &[Since]) -> String {
    let told = line.len().saturating_sub(TOLD);
    let mut words: Vec<_> =
        line[told..].iter().map(|since| format!("{} from {}", since.status.name(), human(since.at))).collect();
    if told > 0 {
        words.insert(0, format!("{} before", count(told, "change")));
    }
    words.join(", ")
}

/// Renders the changes as a table, with their reasons.
fn changes(report: &Report) -> Markup {
    let changes: Vec<_> = report
        .history
        .entries()
        .iter()
        .filter(|entry| matches!(entry.happened, Happened::Check { before: Some(_), .. } | Happened::StabilityLost(_)))
        .collect();
    let left_out = changes.len().saturating_sub(LISTED);
    let omitted: usize = changes.iter().filter_map(|entry| entry.omitted).map(|omitted| omitted.times as usize).sum();
    html! {
        @if !changes.is_empty() {
            details {
                summary { (count(changes.len() + omitted, "change")) }
                @if left_out > 0 { p .note { "The first " (left_out) " are left out." } }
                table .list {
                    (head(&["at", "round", "check", "status", "because"]))
                    tbody {
                        @for entry in &changes[left_out..] {
                            tr {
                                td { (human(entry.at)) }
                                td .round { (entry.round) }
                                @match &entry.happened {
                                    Happened::Check { check, now, message, .. } => {
                                        td { (check_link(check.id)) }
                                        td { (badge(*now)) }
                                        td {
                                            @if let Some(message) = message { (Foreign(message)) }
                                            (not_listed(entry.omitted))
                                        }
                                    }
                                    Happened::StabilityLost(checks) => {
                                        td { (check_links(checks.iter().copied())) }
                                        td { "relapse" }
                                        td { "all passed before" (not_listed(entry.omitted)) }
                                    }
                                    Happened::Heartbeat(_) | Happened::Finished => {}
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Renders the number of changes that were too frequent to be listed.
fn not_listed(omitted: Option<Omitted>) -> Markup {
    html! {
        @if let Some(Omitted { times, since, .. }) = omitted {
            " (" (count(times as usize, "change")) " from " (human(since)) " on not listed)"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(changes: &[(u64, Status)]) -> Vec<Since> {
        changes.iter().map(|(at, status)| Since { at: Duration::from_secs(*at), status: *status }).collect()
    }

    #[test]
    fn a_line_begins_with_the_first_judgment_and_goes_to_the_end() {
        let took = Duration::from_secs(400);
        let late = line(&[(10, Status::Fail), (100, Status::Pass)]);
        assert_eq!(spans(&late, took), [(10, 100, Status::Fail), (100, 400, Status::Pass)]);
        assert_eq!(spans(&line(&[(500, Status::Pass)]), took), [(399, 400, Status::Pass)], "the clock went on");
        assert_eq!(spans(&line(&[(0, Status::Pass)]), Duration::ZERO), [(0, 400, Status::Pass)]);
        assert_eq!(spans(&[], took), []);
    }

    #[test]
    fn what_is_too_short_to_be_drawn_is_not_lost() {
        let day = Duration::from_secs(86_400);
        let flapped = line(&[(0, Status::Pass), (50_000, Status::Fail), (50_005, Status::Pass)]);
        assert_eq!(
            spans(&flapped, day),
            [(0, 231, Status::Pass), (231, 232, Status::Fail), (232, 400, Status::Pass)],
            "one unit wide, and then well again"
        );
        let twice = line(&[(50_000, Status::Fail), (50_005, Status::Pass), (50_010, Status::Fail)]);
        assert_eq!(spans(&twice, day), [(231, 400, Status::Fail)]);
        let flapping: Vec<_> =
            (0..17_280).map(|n| (n * 5, if n % 2 == 0 { Status::Pass } else { Status::Fail })).collect();
        assert!(spans(&line(&flapping), day).len() <= 400);
    }

    #[test]
    fn all_together_are_as_bad_as_the_worst() {
        let lines = BTreeMap::from([
            (CheckId::EtcdLag, line(&[(1, Status::Fail), (5, Status::Pass)])),
            (CheckId::EtcdSpace, line(&[(1, Status::Pass), (3, Status::Error), (9, Status::Pass)])),
        ]);
        assert_eq!(together(&lines), line(&[(1, Status::Fail), (5, Status::Error), (9, Status::Pass)]));
    }

    #[test]
    fn is_told_in_words() {
        assert_eq!(in_words(&line(&[(2, Status::Fail), (41, Status::Pass)])), "fail from 2s, pass from 41s");
        let many: Vec<_> = (0..9).map(|n| (n, Status::Pass)).collect();
        assert_eq!(in_words(&line(&many)), "5 changes before, pass from 5s, pass from 6s, pass from 7s, pass from 8s");
    }
}
