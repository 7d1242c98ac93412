//! Events of a run, for formats that report a run event by event.
//!
//! A run can wait for days, for a check that changes with every round. To keep memory and files from growing with that, an event that
//! recurs is reported at once only a limited number of times; after that from time to time, and with the number of omitted ones.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{CheckReport, Report};
use crate::checks::Check;
use crate::model::{CheckId, Finding, Outcome, Reason, Status};

/// Number of times in a row that a recurring event is reported at once; a relapse of a cluster in an upgrade comes nowhere near.
const BURST: u32 = 100;
/// Time between two reports of it after that. Each such period without an event earns one of the burst back.
const PACE: Duration = Duration::from_secs(600);

/// Events, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    entries: Vec<Entry>,
    /// State of recurring events, by [name](Happened::recurring).
    recurring: BTreeMap<&'static str, Recurring>,
}

/// One event.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Time since the start of the run.
    pub(crate) at: Duration,
    /// Number of the last complete round.
    pub(crate) round: u32,
    pub(crate) happened: Happened,
    pub(crate) omitted: Option<Omitted>,
}

/// Events of the same kind since the previous entry that are not reported separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Omitted {
    pub(crate) times: u32,
    /// Time of the first of them, since the start of the run.
    pub(crate) since: Duration,
    /// The worst status of the check in between; `None` for events that are not about a check.
    pub(crate) worst: Option<Status>,
}

#[derive(Clone, Debug, Default)]
struct Recurring {
    /// Each report costs one [`PACE`]; this is when all are paid for.
    paid: Duration,
    /// The last event that was not reported.
    held: Option<Entry>,
}

impl Recurring {
    /// Whether one more event may be reported now; it then counts as reported.
    fn admits(&mut self, at: Duration) -> bool {
        let paid = self.paid.max(at) + PACE;
        let admits = paid <= at + PACE * BURST;
        if admits {
            self.paid = paid;
        }
        admits
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Happened {
    /// A check has a different status than in the previous round, or different reasons for it.
    Check { check: &'static Check, before: Option<Status>, now: Status, reasons: Vec<Reason>, message: Option<String> },
    /// Every check passed, and these no longer do.
    StabilityLost(Vec<CheckId>),
    /// Nothing else has happened for a while; the run waits for these checks.
    Heartbeat(Vec<CheckId>),
    /// The report is final.
    Finished,
}

impl Happened {
    /// Returns the name of an event that can recur: the check that changes, or `stability`. An event without a name is always reported.
    fn recurring(&self) -> Option<&'static str> {
        match self {
            Self::Check { check, .. } => Some(check.id.name()),
            Self::StabilityLost(_) => Some("stability"),
            Self::Heartbeat(_) | Self::Finished => None,
        }
    }
}

impl Entry {
    /// Replaces an earlier event that was not reported.
    fn follow(&mut self, earlier: Self) {
        let worst = match (&mut self.happened, earlier.happened) {
            (Happened::Check { before, .. }, Happened::Check { before: told, now, .. }) => {
                *before = told;
                Some(now)
            }
            _ => None,
        };
        let omitted = earlier.omitted.unwrap_or(Omitted { times: 0, since: earlier.at, worst });
        self.omitted =
            Some(Omitted { times: omitted.times + 1, since: omitted.since, worst: omitted.worst.max(worst) });
    }
}

impl History {
    /// Returns the events that are reported.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn add(&mut self, mut entry: Entry) {
        if let Some(name) = entry.happened.recurring() {
            let recurring = self.recurring.entry(name).or_default();
            if let Some(earlier) = recurring.held.take() {
                entry.follow(earlier);
            }
            if !recurring.admits(entry.at) {
                recurring.held = Some(entry);
                return;
            }
        }
        self.entries.push(entry);
    }

    /// Reports events that were held back and are due, `at` the end of this round; all of them if nothing follows.
    fn release(&mut self, at: Duration, round: u32, all: bool) {
        for recurring in self.recurring.values_mut() {
            if recurring.held.is_some() && (recurring.admits(at) || all) {
                // An entry has the time at which it is reported, so that the times of the entries are in order.
                self.entries.extend(recurring.held.take().map(|held| Entry { at, round, ..held }));
            }
        }
    }

    /// Returns when the stability period last started over, and the checks that did not pass.
    pub(crate) fn last_break(&self) -> Option<(Duration, &[CheckId])> {
        self.entries.iter().rev().find_map(|entry| match &entry.happened {
            Happened::StabilityLost(because) => Some((entry.at, &because[..])),
            _ => None,
        })
    }

    /// Returns the last message about the first of these checks that had one by then.
    pub(crate) fn found(&self, checks: &[CheckId], by: Duration) -> Option<&str> {
        let told = |of: &CheckId| {
            self.entries.iter().rev().filter(|entry| entry.at <= by).find_map(|entry| match &entry.happened {
                Happened::Check { check, message, .. } if check.id == *of => message.as_deref(),
                _ => None,
            })
        };
        checks.iter().find_map(told)
    }

    #[cfg(test)]
    pub(crate) fn entries_mut(&mut self) -> &mut Vec<Entry> {
        &mut self.entries
    }
}

/// Builds the history of a stored report.
impl FromIterator<Entry> for History {
    fn from_iter<I: IntoIterator<Item = Entry>>(entries: I) -> Self {
        Self { entries: entries.into_iter().collect(), recurring: BTreeMap::new() }
    }
}

impl Report {
    /// Returns the number of reported events; the start of the run is the first.
    pub(crate) fn events(&self) -> usize {
        self.history.entries.len() + 1
    }

    /// Records an event.
    pub(crate) fn happened(&mut self, at: Duration, happened: Happened) {
        if matches!(happened, Happened::Finished) {
            self.history.release(at, self.rounds, true);
        }
        self.history.add(Entry { at, round: self.rounds, happened, omitted: None });
    }

    /// Records the end of a round, and reports what was held back and is due.
    pub(crate) fn round_ended(&mut self, at: Duration) {
        self.history.release(at, self.rounds, false);
    }

    /// Records a heartbeat if nothing else has happened for as long as `every`. Returns whether it has been that long.
    pub(crate) fn heartbeat(&mut self, at: Duration, every: Duration) -> bool {
        let last = self.history.entries.last().map_or(Duration::ZERO, |entry| entry.at);
        let is_due = at.saturating_sub(last) >= every;
        if is_due {
            let pending = self.checks.iter().filter(|check| !check.shown_status().is_fine());
            let pending = pending.map(|check| check.check.id).collect();
            self.happened(at, Happened::Heartbeat(pending));
        }
        is_due
    }
}

/// Returns the change of a check since `before`, or `None` if nothing is new.
pub(crate) fn change(before: &CheckReport, now: Status, findings: &[Finding]) -> Option<Happened> {
    let reasons = reasons(findings);
    if before.status == Some(now) && reasons == self::reasons(&before.findings) {
        return None;
    }
    let worst = findings.iter().find_map(|finding| {
        let problem = finding.problem().filter(|problem| problem.severity.status() == now)?;
        Some(format!("{}: {}", finding.target, problem.observed))
    });
    let blocked = || {
        findings.iter().find_map(|finding| match finding.outcome {
            Outcome::Blocked(by) if now == Status::Blocked => Some(format!("blocked by {by}")),
            _ => None,
        })
    };
    let message = worst.or_else(blocked);
    let reasons = reasons.into_iter().collect();
    Some(Happened::Check { check: before.check, before: before.status, now, reasons, message })
}

fn reasons(findings: &[Finding]) -> BTreeSet<Reason> {
    findings.iter().filter_map(Finding::problem).map(|problem| problem.reason).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use crate::model::Problem;

    #[test]
    fn another_status_and_another_reason_are_news() {
        let down = |reason| vec![fixture::problem(fixture::node(3), Problem::fail(reason, "up", "down"))];
        let mut check = fixture::healthy().checks.remove(0);
        let Some(Happened::Check { before, now, reasons, message, .. }) =
            change(&check, Status::Fail, &down(Reason::NodeUnreachable))
        else {
            panic!("a failure is news");
        };
        assert_eq!((before, now), (Some(Status::Pass), Status::Fail));
        assert_eq!(reasons, [Reason::NodeUnreachable]);
        assert_eq!(message.as_deref(), Some("cp-3 (10.0.0.3): down"));
        check.status = Some(Status::Fail);
        check.findings = down(Reason::NodeUnreachable).into();
        assert!(change(&check, Status::Fail, &down(Reason::NodeUnreachable)).is_none());
        assert!(change(&check, Status::Fail, &down(Reason::NodeLeaseStale)).is_some());
    }

    #[test]
    fn a_heartbeat_comes_only_when_nothing_else_does() {
        let mut report = fixture::unhealthy();
        let (begun, every) = (report.events(), Duration::from_secs(30));
        report.happened(Duration::from_secs(310), Happened::StabilityLost(vec![CheckId::EtcdQuorum]));
        assert!(!report.heartbeat(Duration::from_secs(339), every));
        assert!(report.heartbeat(Duration::from_secs(340), every));
        assert!(!report.heartbeat(Duration::from_secs(341), every));
        assert_eq!(report.events(), begun + 2);
        let Happened::Heartbeat(pending) = &report.history.entries.last().unwrap().happened else {
            panic!("a heartbeat")
        };
        assert_eq!(pending.len(), 6);
    }

    /// Makes the first check change with every round, from a round after `from` on.
    fn flap(report: &mut Report, from: Duration, rounds: u32) {
        let check = fixture::healthy().checks.remove(0).check;
        for round in 1..=rounds {
            let (before, now) =
                if round % 2 == 0 { (Status::Fail, Status::Pass) } else { (Status::Pass, Status::Fail) };
            let at = from + Duration::from_secs(5) * round;
            report.rounds += 1;
            let change = Happened::Check { check, before: Some(before), now, reasons: Vec::new(), message: None };
            report.happened(at, change);
            report.round_ended(at);
        }
    }

    /// Returns the reported changes: the old status, the new one, and the number of changes in between.
    fn told(report: &Report) -> Vec<(Status, Status, u32)> {
        let told = report.history.entries().iter().filter_map(|entry| match entry.happened {
            Happened::Check { before, now, .. } => {
                Some((before?, now, entry.omitted.map_or(0, |omitted| omitted.times)))
            }
            _ => None,
        });
        told.collect()
    }

    #[test]
    fn what_happens_again_and_again_is_told_now_and_then_and_no_change_is_uncounted() {
        let mut report = fixture::healthy();
        flap(&mut report, Duration::ZERO, 17_280);
        report.happened(Duration::from_secs(86_400), Happened::Finished);
        let told = told(&report);
        let day = 86_400 / u32::try_from(PACE.as_secs()).unwrap();
        assert!(told.len() <= usize::try_from(BURST + day + 2).unwrap(), "{}", told.len());
        let burst = usize::try_from(BURST).unwrap();
        assert!(told[..burst].iter().all(|(_, _, omitted)| *omitted == 0));
        assert_eq!(told.iter().map(|(_, _, omitted)| omitted + 1).sum::<u32>(), 17_280);
        assert!(told.windows(2).all(|pair| pair[0].1 == pair[1].0), "each begins where the one before has ended");
        assert_eq!(told.last().unwrap().1, Status::Pass, "the last word is what is true at the end");
        let times: Vec<_> = report.history.entries().iter().map(|entry| entry.at).collect();
        assert!(times.is_sorted());
    }

    #[test]
    fn what_is_left_out_is_told_as_its_worst() {
        let mut report = fixture::healthy();
        flap(&mut report, Duration::ZERO, 17_280);
        let omitted: Vec<_> =
            report.history.entries().iter().filter_map(|entry| Some((entry.at, entry.omitted?))).collect();
        assert!(omitted.len() > 100);
        for (at, Omitted { times, since, worst }) in omitted {
            assert_eq!(worst, Some(Status::Fail));
            assert_eq!(at.checked_sub(since), Some(Duration::from_secs(5) * times));
        }
    }

    #[test]
    fn what_was_held_back_is_told_when_nothing_more_happens() {
        let mut report = fixture::healthy();
        flap(&mut report, Duration::ZERO, BURST + 10);
        assert_eq!(told(&report).len(), usize::try_from(BURST).unwrap());
        // The burst began five seconds after the start, and cost as many paces as it has changes.
        report.round_ended(PACE + Duration::from_secs(4));
        assert_eq!(told(&report).len(), usize::try_from(BURST).unwrap());
        report.round_ended(PACE + Duration::from_secs(5));
        assert_eq!(told(&report)[usize::try_from(BURST).unwrap()..], [(Status::Pass, Status::Pass, 9)]);
        report.round_ended(PACE * 2);
        report.happened(PACE * 2, Happened::Finished);
        assert_eq!(told(&report).len(), usize::try_from(BURST).unwrap() + 1, "it is told once");
    }

    #[test]
    fn a_calm_hour_earns_six_changes_that_are_told_at_once() {
        let mut report = fixture::healthy();
        flap(&mut report, Duration::ZERO, BURST);
        let calm = Duration::from_secs(5) * BURST + Duration::from_secs(3600);
        flap(&mut report, calm, 8);
        let told = told(&report).len() - usize::try_from(BURST).unwrap();
        assert_eq!(told, 6);
    }

    #[test]
    fn one_check_that_flaps_hides_no_other() {
        let mut report = fixture::healthy();
        flap(&mut report, Duration::ZERO, 200);
        let other = fixture::healthy().checks.remove(1).check;
        let change = Happened::Check {
            check: other,
            before: Some(Status::Pass),
            now: Status::Fail,
            reasons: vec![],
            message: None,
        };
        report.happened(Duration::from_secs(1000), change);
        let last = report.history.entries().last().unwrap();
        assert!(matches!(last.happened, Happened::Check { check, .. } if check.id == other.id));
        assert_eq!(last.omitted, None);
    }
}
