//! Rounds, until everything passes together, the time is up, or waiting cannot change anything.
//!
//! The engine knows neither protocols nor rules nor formats. It asks an [`Observe`] for facts, lets the selected checks judge
//! them and tells what happened. Dropping its future at any await point is safe: a round that is cut off leaves no trace, so
//! the last complete round stays the last word.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

use crate::checks::{self, Check, Fact, Outcome, Problem, Severity, Verdict};
use crate::diagnosis::diagnose;
use crate::event::{Event, Round};
use crate::logs::{self, Log, Tail};
use crate::memory::Memory;
use crate::snapshot::Snapshot;

/// The only seam to the outside world.
pub(crate) trait Observe {
    /// What is known before anybody is asked: credentials, as read from files.
    fn preflight(&self, memory: &Memory) -> Snapshot;
    /// All wanted facts, each with its own outcome, within the attempt timeout.
    async fn round(&mut self, memory: &Memory) -> Snapshot;
    /// Asks again for these facts only.
    async fn again(&mut self, facts: &BTreeSet<Fact>, snapshot: &mut Snapshot);
    /// Reads logs, each with its own outcome; done by `until`.
    async fn logs(&self, wanted: Vec<Log>, snapshot: &Snapshot, until: Instant) -> Vec<Tail>;
}

/// What was decided about time and verdicts.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    /// When the process started: the deadline counts from there.
    pub(crate) started: Instant,
    /// `None`: one pass.
    pub(crate) deadline: Option<Instant>,
    pub(crate) interval: Duration,
    pub(crate) attempt_timeout: Duration,
    pub(crate) stable_for: Option<Duration>,
    pub(crate) fail_fast: bool,
    pub(crate) retry_all: bool,
    pub(crate) strict: bool,
    /// Read the logs of what has failed.
    pub(crate) logs: bool,
    /// Ids whose failures only warn.
    pub(crate) warn_only: BTreeSet<&'static str>,
    /// Those that run, in the order of the catalogue.
    pub(crate) checks: Vec<&'static Check>,
}

/// Why the engine stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Everything was fine together, for as long as was asked.
    Healthy,
    /// One pass was asked for, and it was not fine.
    OnePass,
    /// Credentials cannot be used; nobody was asked.
    Credentials,
    /// Nothing is left that waiting could change (or the first such problem, with `--fail-fast`).
    Final,
    /// The deadline, or no time for another round before it.
    Deadline,
}

pub(crate) async fn run(pace: &Pace, observer: &mut impl Observe, mut tell: impl FnMut(Event<'_>)) -> End {
    let mut memory = Memory::default();
    if let Some(round) = unusable_credentials(pace, observer, &memory) {
        tell(Event::Round(&round));
        return End::Credentials;
    }
    let mut fine_since: Option<Instant> = None;
    for number in 1.. {
        let started = Instant::now();
        let Some(round) = one_round(pace, observer, &memory, number).await else {
            return End::Deadline;
        };
        tell(Event::Round(&round));
        memory = memory.after(&round.snapshot, pace.started.elapsed());

        let bad: Vec<&'static str> = round.bad().map(|check| check.id).collect();
        if bad.is_empty() {
            let begun = fine_since.is_none();
            let since = *fine_since.get_or_insert_with(Instant::now);
            let so_far = since.elapsed();
            match pace.stable_for {
                Some(wanted) if so_far < wanted => tell(Event::Stable { begun, so_far, wanted }),
                _ => return End::Healthy,
            }
        } else {
            if let Some(since) = fine_since.take() {
                tell(Event::StabilityLost { after: since.elapsed(), because: bad });
            }
            if pace.logs {
                tell(Event::Logs(&logs(pace, observer, &round.snapshot).await));
            }
            if pace.deadline.is_none() {
                return End::OnePass;
            }
            if !pace.retry_all && round.is_final(pace.fail_fast) {
                return End::Final;
            }
        }

        // Logs may have taken longer than there was to wait.
        let next = next_round(pace, started, round.took, fine_since).max(Instant::now());
        // No round begins at or after the deadline, so nothing more can be learnt.
        if pace.deadline.is_some_and(|deadline| next >= deadline) {
            return End::Deadline;
        }
        tell(Event::Waiting { next_in: next.saturating_duration_since(Instant::now()) });
        sleep_until(next).await;
    }
    End::Deadline
}

/// Slow rounds are stretched to twice their length, so that a struggling cluster is asked less often. While it is stable, the
/// last round comes exactly when it has been so for long enough.
fn next_round(pace: &Pace, started: Instant, took: Duration, fine_since: Option<Instant>) -> Instant {
    let next = started + pace.interval.max(took * 2);
    match (fine_since, pace.stable_for) {
        (Some(since), Some(wanted)) => next.min(since + wanted),
        _ => next,
    }
}

impl Pace {
    /// The hard end of a round that began at `started`. One pass has no deadline of its own; its calls do, and this is the
    /// net below them (with room for one second sample).
    fn limit(&self, started: Instant) -> Instant {
        self.deadline.unwrap_or_else(|| started + self.attempt_timeout * 2 + Duration::from_secs(15))
    }
}

/// Between two rounds, or at the end: whoever waits for the verdict waits for one call more at most.
async fn logs(pace: &Pace, observer: &impl Observe, snapshot: &Snapshot) -> Vec<Tail> {
    let until = Instant::now() + pace.attempt_timeout / 2;
    let until = pace.deadline.map_or(until, |deadline| until.min(deadline));
    observer.logs(logs::wanted(snapshot), snapshot, until).await
}

/// A credentials check that fails before anybody was asked ends the run: that is configuration, not health. What nobody was asked
/// for stands behind it.
fn unusable_credentials(pace: &Pace, observer: &impl Observe, memory: &Memory) -> Option<Round> {
    let snapshot = observer.preflight(memory);
    let mut verdicts = judge_all(pace, &snapshot);
    // `--strict` makes a certificate that is about to expire a failure, and no less usable: what counts is how it was judged.
    let is_unusable =
        |problem: &Problem| problem.severity == Severity::Fail && (!problem.waiting_helps || pace.deadline.is_none());
    let ends_the_run = |check: &Check, verdict: &Verdict| {
        check.id.ends_with(".credentials")
            && verdict.problems().any(|(_, problem)| is_unusable(problem))
            && !pace.warn_only.contains(check.id)
    };
    let by = verdicts.iter().find(|(check, verdict)| ends_the_run(check, verdict))?.0.id;
    for (check, verdict) in &mut verdicts {
        let is_told = check.id.ends_with(".credentials") && verdict.status().is_fine();
        if !is_told && !ends_the_run(check, verdict) {
            *verdict = Verdict::blocked(by);
        }
    }
    Some(completed(pace, 0, Duration::ZERO, snapshot, verdicts))
}

/// One complete round, or `None` when the deadline cut it off.
async fn one_round(pace: &Pace, observer: &mut impl Observe, memory: &Memory, number: u32) -> Option<Round> {
    let started = Instant::now();
    let limit = pace.limit(started);
    let mut snapshot = timeout_at(limit, observer.round(memory)).await.ok()?;
    let mut verdicts = judge_all(pace, &snapshot);
    if let Some((after, facts)) = wanted_again(&verdicts) {
        let at = Instant::now() + after;
        // Without the time for a second sample, the first one counts.
        if at + pace.attempt_timeout / 2 < limit {
            sleep_until(at).await;
            let cut_off = timeout_at(limit, observer.again(&facts, &mut snapshot)).await.is_err();
            if cut_off {
                return None;
            }
            verdicts = judge_all(pace, &snapshot);
        }
    }
    Some(completed(pace, number, started.elapsed(), snapshot, verdicts))
}

/// Causes are found in what was judged, before the user's options decide what it weighs.
fn completed(
    pace: &Pace,
    number: u32,
    took: Duration,
    snapshot: Snapshot,
    mut verdicts: Vec<(&'static Check, Verdict)>,
) -> Round {
    let diagnoses = diagnose(&snapshot, &verdicts);
    weigh(pace, &snapshot, &mut verdicts);
    Round { number, at: pace.started.elapsed(), took, snapshot, verdicts, diagnoses }
}

/// The longest pause that some verdict asks for, and the facts of all that ask.
fn wanted_again(verdicts: &[(&'static Check, Verdict)]) -> Option<(Duration, BTreeSet<Fact>)> {
    let asking = || verdicts.iter().filter_map(|(check, verdict)| Some((check, verdict.resample_after?)));
    let after = asking().map(|(_, after)| after).max()?;
    Some((after, checks::facts(asking().map(|(check, _)| check))))
}

/// As the judges say, whatever the user makes of it.
fn judge_all(pace: &Pace, snapshot: &Snapshot) -> Vec<(&'static Check, Verdict)> {
    let judged = pace.checks.iter().map(|check| (*check, (check.judge)(snapshot)));
    judged
        .map(|(check, verdict)| (check, if verdict.findings.is_empty() { checks::nothing_judged() } else { verdict }))
        .collect()
}

/// How much each problem counts: `--max-unready-workers`, then `--strict` and `--warn-only`, the last being the most specific.
fn weigh(pace: &Pace, snapshot: &Snapshot, verdicts: &mut [(&'static Check, Verdict)]) {
    checks::allowance::apply(snapshot, verdicts);
    for (check, verdict) in verdicts {
        let only_warn = pace.warn_only.contains(check.id);
        for finding in &mut verdict.findings {
            if let Outcome::Problem(problem) = &mut finding.outcome {
                if only_warn {
                    problem.severity = Severity::Warn;
                } else if pace.strict && problem.severity == Severity::Warn {
                    problem.severity = Severity::Fail;
                }
            }
        }
    }
}

impl Round {
    /// Checks that stand in the way of a healthy verdict.
    pub(crate) fn bad(&self) -> impl Iterator<Item = &'static Check> {
        self.verdicts.iter().filter(|(_, verdict)| !verdict.status().is_fine()).map(|(check, _)| *check)
    }

    /// Waiting can change nothing: every problem in the way is permanent (with `any`: one is).
    fn is_final(&self, any: bool) -> bool {
        let mut problems = self
            .verdicts
            .iter()
            .flat_map(|(_, verdict)| verdict.problems())
            .filter(|(_, problem)| problem.severity > Severity::Warn)
            .peekable();
        if problems.peek().is_none() {
            // Blocked only, by something that is not in this selection: nothing says that waiting is in vain.
            return false;
        }
        if any {
            problems.any(|(_, problem)| !problem.waiting_helps)
        } else {
            problems.all(|(_, problem)| !problem.waiting_helps)
        }
    }
}

#[cfg(test)]
mod tests;
