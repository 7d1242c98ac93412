//! What happened on the way to a report, for formats that tell of a run event by event.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{CheckReport, Report};
use crate::checks::{Check, Finding, Outcome, Reason, Status};

/// One thing that happened.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Since the start of the run.
    pub(crate) at: Duration,
    /// The last complete round.
    pub(crate) round: u32,
    pub(crate) happened: Happened,
}

#[derive(Clone, Debug)]
pub(crate) enum Happened {
    /// A check has another status than in the round before, or other reasons for it.
    Check { check: &'static Check, before: Option<Status>, now: Status, reasons: Vec<Reason>, message: Option<String> },
    /// All was fine, and these checks no longer are.
    StabilityLost(Vec<&'static str>),
    /// Nothing else has for a while; these checks are waited for.
    Heartbeat(Vec<&'static str>),
    /// The report is as it will stay.
    Finished,
}

impl Report {
    /// How much has happened; the start of the run is the first.
    pub(crate) fn events(&self) -> usize {
        self.history.len() + 1
    }

    /// Notes that something happened.
    pub(crate) fn happened(&mut self, at: Duration, happened: Happened) {
        self.history.push(Entry { at, round: self.rounds, happened });
    }

    /// Notes that nothing else has happened for as long as `every`. Returns whether it has been that long.
    pub(crate) fn heartbeat(&mut self, at: Duration, every: Duration) -> bool {
        let last = self.history.last().map_or(Duration::ZERO, |entry| entry.at);
        let is_due = !every.is_zero() && at.saturating_sub(last) >= every;
        if is_due {
            let pending = self.checks.iter().filter(|check| !check.shown_status().is_fine());
            let pending = pending.map(|check| check.check.id).collect();
            self.happened(at, Happened::Heartbeat(pending));
        }
        is_due
    }
}

/// What is new of a check that `before` says something else of, or nothing.
pub(crate) fn change(before: &CheckReport, now: Status, findings: &[Finding]) -> Option<Happened> {
    let reasons = reasons(findings);
    if before.status == Some(now) && reasons == self::reasons(&before.findings) {
        return None;
    }
    let worst = findings.iter().find_map(|finding| match &finding.outcome {
        Outcome::Problem(problem) if problem.severity.status() == now => {
            Some(format!("{}: {}", finding.target, problem.observed))
        }
        _ => None,
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
    let problems = findings.iter().filter_map(|finding| match &finding.outcome {
        Outcome::Problem(problem) => Some(problem.reason),
        _ => None,
    });
    problems.collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use crate::checks::Problem;

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
        assert_eq!(message.as_deref(), Some("10.0.0.3 (cp-3): down"));
        check.status = Some(Status::Fail);
        check.findings = down(Reason::NodeUnreachable);
        assert!(change(&check, Status::Fail, &down(Reason::NodeUnreachable)).is_none());
        assert!(change(&check, Status::Fail, &down(Reason::NodeLeaseStale)).is_some());
    }

    #[test]
    fn a_heartbeat_comes_only_when_nothing_else_does() {
        let mut report = fixture::unhealthy();
        let (begun, every) = (report.history.len(), Duration::from_secs(30));
        report.happened(Duration::from_secs(310), Happened::StabilityLost(vec!["etcd.quorum"]));
        assert!(!report.heartbeat(Duration::from_secs(339), every));
        assert!(report.heartbeat(Duration::from_secs(340), every));
        assert!(!report.heartbeat(Duration::from_secs(341), every));
        assert!(!report.heartbeat(Duration::from_secs(999), Duration::ZERO), "0s means never");
        assert_eq!(report.history.len(), begun + 2);
        let Happened::Heartbeat(pending) = &report.history.last().unwrap().happened else { panic!("a heartbeat") };
        assert_eq!(pending.len(), 6);
    }
}
