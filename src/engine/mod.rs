//! Rounds, until everything passes in the same round, the time is up, or waiting cannot change anything.
//!
//! The engine is independent of protocols, rules and formats. It requests facts from an [`Observe`], lets the selected checks judge them,
//! and emits events. Dropping its future at any await point is safe: a round that is cut off leaves no trace, so the last complete round
//! remains the result.

pub(crate) mod event;
mod graph;
mod logs;
pub(crate) mod recheck;
mod weight;

use std::collections::BTreeSet;
use std::time::Duration;

use event::{Event, Round};
use graph::judge_in_turns;
pub(crate) use graph::{judge, own_verdict};
use recheck::Recheck;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::checks::{self, Check};
use crate::diagnosis::{Diagnosis, diagnose, diagnose_in_turns};
use crate::model::{CheckId, Fact, Outcome, Problem, Reason, Severity, Target, Verdict};
use crate::snapshot::logs::Tail;
use crate::snapshot::{Memory, Observe, Patience, Snapshot};
use crate::text::duration::whole;

/// Decisions about time and verdicts.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    /// Start of the process: the deadline counts from there.
    pub(crate) started: Instant,
    /// `None`: one pass.
    pub(crate) deadline: Option<Instant>,
    pub(crate) interval: Duration,
    pub(crate) attempt_timeout: Duration,
    pub(crate) stable_for: Option<Duration>,
    pub(crate) fail_fast: bool,
    pub(crate) strict: bool,
    /// Whether to read the logs of failed components.
    pub(crate) logs: bool,
    /// Names whose warnings fail.
    pub(crate) fail_on: Named,
    /// Names whose failures only warn.
    pub(crate) warn_only: Named,
    /// The checks that run, in catalog order.
    pub(crate) checks: Vec<&'static Check>,
}

/// Checks, reasons and requirements of a policy that an option names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named {
    pub(crate) checks: BTreeSet<CheckId>,
    pub(crate) reasons: BTreeSet<Reason>,
    /// Named like their targets: `policy.ceph`.
    pub(crate) requirements: BTreeSet<String>,
}

impl Named {
    /// Returns the first name that both contain.
    pub(crate) fn common<'a>(&'a self, other: &'a Self) -> Option<&'a str> {
        let check = self.checks.intersection(&other.checks).next().map(|check| check.name());
        let reason = || self.reasons.intersection(&other.reasons).next().map(|reason| reason.code());
        let requirement = || self.requirements.intersection(&other.requirements).next().map(String::as_str);
        check.or_else(reason).or_else(requirement)
    }

    /// Whether this check or this reason is named.
    pub(crate) fn means(&self, check: CheckId, reason: Reason) -> bool {
        self.checks.contains(&check) || self.reasons.contains(&reason)
    }

    fn is_empty(&self) -> bool {
        self.checks.is_empty() && self.reasons.is_empty() && self.requirements.is_empty()
    }

    /// Returns whether the reason, the requirement and the check are named, from the most specific to the least.
    fn names(&self, check: CheckId, target: &Target, reason: Reason) -> [bool; 3] {
        let is_requirement = check == CheckId::PolicyRequire && self.requirements.contains(&target.name);
        [self.reasons.contains(&reason), is_requirement, self.checks.contains(&check)]
    }
}

/// Time that a round may take if nothing slows it down.
const USUAL: Duration = Duration::from_millis(500);
/// A refusal that has lasted this long is final: an API server that is starting may refuse requests that it will allow later.
const STARTS_WITHIN: Duration = Duration::from_secs(5);
/// No round begins with less time than this, unless rounds are known to take less.
const SHORTEST: Duration = Duration::from_secs(1);

/// The reasons why the engine stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Every check passed in the same round, for as long as required.
    Healthy,
    /// One pass was requested, and it did not pass.
    OnePass,
    /// Credentials cannot be used; no request was sent.
    Credentials,
    /// No problem is left that waiting could change (with `--fail-fast`: there is one that waiting cannot change).
    Final,
    /// The deadline has passed, or leaves no time for another round.
    Deadline,
}

pub(crate) async fn run(pace: &Pace, observer: &mut impl Observe, mut tell: impl FnMut(Event<'_>)) -> End {
    let mut memory = Memory::default();
    if let Some(round) = unusable_credentials(pace, observer, &memory) {
        tell(Event::Round(&round));
        return End::Credentials;
    }
    let mut fine_since: Option<Instant> = None;
    let mut slowest = Duration::ZERO;
    // Checks that certainly did not pass in the last round that was emitted.
    let mut known = BTreeSet::new();
    loop {
        let started = Instant::now();
        let limit = pace.limit(started, slowest);
        let patience = if pace.is_last_look(started, slowest) { Patience::Full } else { Patience::Short };
        let Some(round) = one_round(pace, observer, &memory, patience, limit).await else {
            tell(Event::CutOff);
            if pace.deadline.is_some_and(|deadline| limit < deadline) {
                continue;
            }
            return End::Deadline;
        };
        yield_now().await;
        // A round that lacked the time for a second sample, and shows nothing else, is worth less than the previous one, which had it.
        let is_news = !round.in_doubt || known != round.ids_of_bad();
        if is_news {
            tell(Event::Round(&round));
            known = if round.in_doubt { BTreeSet::new() } else { round.ids_of_bad() };
        }
        yield_now().await;
        let bad: Vec<CheckId> = match pace.stable_for {
            Some(_) => round.unstable().map(|check| check.id).collect(),
            None => round.bad().map(|check| check.id).collect(),
        };
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
                tell(Event::StabilityLost { after: since.elapsed(), because: round.roots(bad) });
            }
            if pace.logs && is_news {
                tell(Event::Logs(&logs(pace, observer, &round).await));
            }
            if pace.deadline.is_none() {
                return End::OnePass;
            }
            if round.is_final(pace.fail_fast) {
                return End::Final;
            }
        }

        memory = memory.after(&round.snapshot, pace.started.elapsed());
        slowest = slowest.max(round.took);
        // `--fail-fast` also has to find final problems that have appeared since, so it gets full rounds only.
        let recheck = Recheck::of(&round, &memory).filter(|_| fine_since.is_none() && !pace.fail_fast);
        let mut rechecks = recheck.iter().cycle().take(recheck::MOST as usize);
        let mut started = started;
        loop {
            let Some(next) = next_round(pace, started, round.took, slowest, fine_since) else { return End::Deadline };
            tell(Event::Waiting { next_in: next.saturating_duration_since(Instant::now()) });
            sleep_until(next).await;
            started = Instant::now();
            // The last round of a run is a full one, and so is the last one with time to wait for machines that do not answer.
            let recheck = rechecks.next().filter(|_| !pace.is_last_look(started, slowest));
            match recheck.zip(pace.limit_before_another(started, slowest)) {
                Some((recheck, limit)) if recheck.is_unchanged(pace, observer, limit).await => {}
                _ => break,
            }
        }
    }
}

/// Returns when the next round begins. Rounds begin one interval apart and never overlap: a cluster that answers slowly gets one at a time.
/// While it is stable, the last round comes exactly when the stability period is over; while it is not, one comes just in time for that
/// period to begin. Before the deadline there is always one last round: an earlier one that would take its time is cut off. `None`: no time
/// is left for any.
fn next_round(
    pace: &Pace,
    started: Instant,
    took: Duration,
    slowest: Duration,
    fine_since: Option<Instant>,
) -> Option<Instant> {
    // Reading logs may have taken longer than the pause.
    let now = Instant::now();
    let next = (started + pace.interval).max(now);
    let stable = fine_since.zip(pace.stable_for).map(|(since, wanted)| (since + wanted).max(now));
    let next = stable.map_or(next, |stable| next.min(stable));
    let Some(deadline) = pace.deadline else { return Some(next) };
    // A cluster that is not healthy by then can no longer stay healthy for long enough.
    let latest = pace.stable_for.and_then(|wanted| deadline.checked_sub(took + wanted + pace.needed(took)));
    let next = latest.filter(|latest| fine_since.is_none() && *latest > now).map_or(next, |latest| next.min(latest));
    // The round that completes the stability period is not moved as long as it fits.
    if stable == Some(next) && next + took * 9 / 8 < deadline {
        return stable;
    }
    // If a round as slow as the slowest no longer fits, one like the last may.
    for needed in [pace.needed(slowest), pace.needed(took)] {
        let last = deadline.checked_sub(needed).filter(|last| *last >= now);
        if let Some(last) = last {
            let has_time = next + SHORTEST <= last || stable.is_some();
            return Some(if has_time { next.min(last) } else { last });
        }
    }
    // Only a quicker round could still end in time, such as one of a cluster that has just become healthy.
    (deadline.saturating_duration_since(now) > SHORTEST).then_some(now)
}

impl Pace {
    /// Returns the deadline. One pass has none; its calls do, and this is the net below them, with room for slow files and for a second
    /// sample.
    pub(crate) fn net(&self) -> Instant {
        self.deadline.unwrap_or_else(|| self.started + self.attempt_timeout * 2 + Duration::from_secs(15))
    }

    /// Returns the hard end of a round that begins at `started`. During a wait, no round takes the time of the last one, and one that will
    /// hardly end in time leaves half of it to another, which may find the cluster healthy.
    fn limit(&self, started: Instant, slowest: Duration) -> Instant {
        let Some(deadline) = self.deadline else { return self.net() };
        let (left, needed) = (deadline.saturating_duration_since(started), self.needed(slowest));
        if slowest.is_zero() {
            deadline
        } else if left >= needed + SHORTEST {
            deadline - needed
        } else if left < slowest && left > SHORTEST * 2 {
            started + left / 2
        } else {
            deadline
        }
    }

    /// Returns the hard end of a recheck that begins at `started`, if it may take as long as the slowest round and such a round still fits
    /// in after it.
    fn limit_before_another(&self, started: Instant, slowest: Duration) -> Option<Instant> {
        let (deadline, needed) = (self.deadline?, self.needed(slowest));
        (deadline.saturating_duration_since(started) >= needed * 2).then(|| deadline - needed)
    }

    /// Whether a round that begins now has just enough time for calls that are never answered; a later one may not.
    fn is_last_look(&self, started: Instant, slowest: Duration) -> bool {
        let Some(deadline) = self.deadline else { return false };
        let (left, needed) = (deadline.saturating_duration_since(started), self.needed(slowest));
        left <= self.attempt_timeout + needed * 2 && left >= self.attempt_timeout / 2 + needed
    }

    /// Returns the time to reserve for a round like one that took `took`. A cluster that refuses at once may take longer to report that it
    /// is healthy.
    fn needed(&self, took: Duration) -> Duration {
        took.max(USUAL.min(self.interval)) * 9 / 8 + Duration::from_millis(250)
    }
}

/// Reads logs between two rounds or at the end, and delays the verdict by one call at most.
async fn logs(pace: &Pace, observer: &impl Observe, round: &Round) -> Vec<Tail> {
    let until = (Instant::now() + pace.attempt_timeout / 2).min(pace.net());
    observer.logs(logs::wanted(&round.snapshot, &round.verdicts), &round.snapshot, until).await
}

/// Returns the result of the run if a credentials check fails before any request: that is configuration, not health. Checks that would have
/// sent a request are blocked by it.
fn unusable_credentials(pace: &Pace, observer: &mut impl Observe, memory: &Memory) -> Option<Round> {
    let snapshot = observer.preflight(memory);
    let mut verdicts = judge(&pace.checks, &snapshot);
    // `--strict` turns a certificate that is about to expire into a failure, but the certificate stays usable: the severity that the check
    // gave it counts.
    let is_unusable =
        |problem: &Problem| problem.severity == Severity::Fail && (!problem.waiting_helps || pace.deadline.is_none());
    let ends_the_run = |check: &Check, verdict: &Verdict| {
        check.is_preflight()
            && verdict
                .problems()
                .any(|(target, it)| is_unusable(it) && pace.weight(check.id, target, it) != Severity::Warn)
    };
    let by = verdicts.iter().find(|(check, verdict)| ends_the_run(check, verdict))?.0.id;
    for (check, verdict) in &mut verdicts {
        let is_told = check.is_preflight() && verdict.status().is_fine();
        if !is_told && !ends_the_run(check, verdict) {
            *verdict = Verdict::whole(Outcome::Blocked(by));
        }
    }
    Some(completed(pace, 0, Duration::ZERO, snapshot, verdicts))
}

/// Runs one complete round, or returns `None` when it was cut off.
async fn one_round(
    pace: &Pace,
    observer: &mut impl Observe,
    memory: &Memory,
    patience: Patience,
    limit: Instant,
) -> Option<Round> {
    let started = Instant::now();
    let mut snapshot = timeout_at(limit, observer.round(memory, patience)).await.ok()?;
    // The rest does not wait for anything, but takes a while with thousands of nodes. A signal may have arrived by now.
    yield_now().await;
    let mut verdicts = judge_in_turns(&pace.checks, &snapshot).await;
    let mut lacks_sample = false;
    if let Some((after, facts)) = wanted_again(&verdicts) {
        let at = Instant::now() + after;
        // A second sample takes no longer than the first, nor longer than a call may.
        let has_time = at + (started.elapsed() * 9 / 8).min(pace.attempt_timeout / 2) < limit;
        if has_time && second_sample(observer, at, limit, &facts, &mut snapshot).await {
            verdicts = judge_in_turns(&pace.checks, &snapshot).await;
        } else {
            lacks_sample = true;
        }
    }
    weight::accept(&snapshot, &mut verdicts);
    let diagnoses = diagnose_in_turns(&snapshot, &verdicts).await;
    let round = weighed(pace, memory.rounds + 1, started.elapsed(), snapshot, verdicts, diagnoses);
    Some(Round { in_doubt: lacks_sample && is_in_doubt(&round.verdicts), ..round })
}

/// Takes a second sample. False if it has not arrived by `limit`: then the first one counts.
async fn second_sample(
    observer: &mut impl Observe,
    at: Instant,
    limit: Instant,
    facts: &BTreeSet<Fact>,
    snapshot: &mut Snapshot,
) -> bool {
    sleep_until(at).await;
    timeout_at(limit, observer.again(facts, snapshot)).await.is_ok()
}

/// Whether something does not pass that a second sample might have settled.
fn is_in_doubt(verdicts: &[(&'static Check, Verdict)]) -> bool {
    verdicts.iter().any(|(_, verdict)| verdict.resample_after.is_some() && !verdict.status().is_fine())
}

fn completed(
    pace: &Pace,
    number: u32,
    took: Duration,
    snapshot: Snapshot,
    mut verdicts: Vec<(&'static Check, Verdict)>,
) -> Round {
    weight::accept(&snapshot, &mut verdicts);
    let diagnoses = diagnose(&snapshot, &verdicts);
    weighed(pace, number, took, snapshot, verdicts, diagnoses)
}

/// Applies the user's options to the verdicts. The causes were found before that.
fn weighed(
    pace: &Pace,
    number: u32,
    took: Duration,
    snapshot: Snapshot,
    mut verdicts: Vec<(&'static Check, Verdict)>,
    mut diagnoses: Vec<Diagnosis>,
) -> Round {
    weight::apply(pace, &snapshot, &mut verdicts, &mut diagnoses);
    weight::mark_accepted(&mut verdicts, &mut diagnoses);
    if checks::evidence::require(&snapshot, &mut verdicts) {
        weight::by_options(pace, &mut verdicts);
    }
    let at = whole(pace.started.elapsed());
    Round { number, at, took, snapshot, verdicts, diagnoses: diagnoses.into(), in_doubt: false }
}

/// Returns the longest pause that a verdict requests, and the facts of all checks that request one.
fn wanted_again(verdicts: &[(&'static Check, Verdict)]) -> Option<(Duration, BTreeSet<Fact>)> {
    let asking = || verdicts.iter().filter_map(|(check, verdict)| Some((check, verdict.resample_after?)));
    let after = asking().map(|(_, after)| after).max()?;
    Some((after, checks::facts(asking().map(|(check, _)| check))))
}

/// Whether only a person can end the problem. A run that waits may wait for that person; with `--fail-fast` it does not.
fn needs_a_person(reason: Reason) -> bool {
    use Reason::{AlarmCorrupt, AlarmNospace, SplitCluster, VersionSkew, VersionsMixed, WrongCluster};
    matches!(reason, AlarmCorrupt | AlarmNospace | SplitCluster | VersionSkew | VersionsMixed | WrongCluster)
}

impl Round {
    /// Returns the checks that prevent a healthy verdict.
    pub(crate) fn bad(&self) -> impl Iterator<Item = &'static Check> {
        self.verdicts.iter().filter(|(_, verdict)| !verdict.status().is_fine()).map(|(check, _)| *check)
    }

    fn ids_of_bad(&self) -> BTreeSet<CheckId> {
        self.bad().map(|check| check.id).collect()
    }

    /// Returns those checks, and checks with a problem that came and went between the previous round and this one.
    fn unstable(&self) -> impl Iterator<Item = &'static Check> {
        let was = |verdict: &Verdict| verdict.problems().any(|(_, problem)| problem.between_rounds);
        let is_unstable = move |verdict: &Verdict| !verdict.status().is_fine() || was(verdict);
        self.verdicts.iter().filter(move |(_, verdict)| is_unstable(verdict)).map(|(check, _)| *check)
    }

    /// Returns those of these checks that found a problem themselves, or all of them if none did.
    fn roots(&self, of: Vec<CheckId>) -> Vec<CheckId> {
        let finds = |id: &CheckId| {
            self.verdicts.iter().any(|(check, verdict)| check.id == *id && verdict.problems().next().is_some())
        };
        let roots: Vec<CheckId> = of.iter().copied().filter(finds).collect();
        if roots.is_empty() { of } else { roots }
    }

    /// Whether waiting is in vain: every failing problem is permanent (with `any`: one is).
    fn is_final(&self, any: bool) -> bool {
        let mut problems = self
            .verdicts
            .iter()
            .flat_map(|(_, verdict)| verdict.problems())
            .filter(|(_, problem)| problem.severity > Severity::Warn)
            .peekable();
        if problems.peek().is_none() {
            // Blocked checks depend only on problems that the user's options relaxed: nothing shows that waiting is in vain.
            return false;
        }
        // An API server that is starting refuses, for seconds, requests that it will allow later. Refusals of other requests prove nothing.
        let refused = self.snapshot.kubernetes.iter().flat_map(|it| it.refusals().into_keys());
        let has_lasted = self.snapshot.memory.refused_for(STARTS_WITHIN, refused);
        let is_final =
            |problem: &Problem| !problem.waiting_helps && (problem.reason != Reason::Forbidden || has_lasted);
        if any {
            problems.any(|(_, problem)| is_final(problem) || needs_a_person(problem.reason))
        } else {
            problems.all(|(_, problem)| is_final(problem))
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
