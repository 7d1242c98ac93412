//! Rounds, until everything passes together, the time is up, or waiting cannot change anything.
//!
//! The engine knows neither protocols nor rules nor formats. It asks an [`Observe`] for facts, lets the selected checks judge
//! them and tells what happened. Dropping its future at any await point is safe: a round that is cut off leaves no trace, so
//! the last complete round stays the last word.

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
    pub(crate) strict: bool,
    /// Read the logs of what has failed.
    pub(crate) logs: bool,
    /// Whose warnings fail.
    pub(crate) fail_on: Named,
    /// Whose failures only warn.
    pub(crate) warn_only: Named,
    /// Those that run, in the order of the catalog.
    pub(crate) checks: Vec<&'static Check>,
}

/// Checks, reasons and requirements of a policy that an option names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named {
    pub(crate) checks: BTreeSet<CheckId>,
    pub(crate) reasons: BTreeSet<Reason>,
    /// As their targets are called: `policy.ceph`.
    pub(crate) requirements: BTreeSet<String>,
}

impl Named {
    /// The first that both name.
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

    /// From the most specific to the least: the reason, the requirement, the check.
    fn names(&self, check: CheckId, target: &Target, reason: Reason) -> [bool; 3] {
        let is_requirement = check == CheckId::PolicyRequire && self.requirements.contains(&target.name);
        [self.reasons.contains(&reason), is_requirement, self.checks.contains(&check)]
    }
}

/// What a round may take that nothing has slowed down.
const USUAL: Duration = Duration::from_millis(500);
/// A refusal that has lasted so long is final: an API server that starts may refuse what it will allow.
const STARTS_WITHIN: Duration = Duration::from_secs(5);
/// No round begins with less time than this, unless rounds are known to take less.
const SHORTEST: Duration = Duration::from_secs(1);

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
    let mut slowest = Duration::ZERO;
    // Of the last round that was told: what was bad in it, for certain.
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
        // One that lacked the time for a second sample, and shows nothing else, knows less than the one that had it.
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
        // Who wants to stop at the first final problem wants to hear of one that has come since.
        let recheck = Recheck::of(&round, &memory).filter(|_| fine_since.is_none() && !pace.fail_fast);
        let mut rechecks = recheck.iter().cycle().take(recheck::MOST as usize);
        let mut started = started;
        loop {
            let Some(next) = next_round(pace, started, round.took, slowest, fine_since) else { return End::Deadline };
            tell(Event::Waiting { next_in: next.saturating_duration_since(Instant::now()) });
            sleep_until(next).await;
            started = Instant::now();
            // The last round of a run asks everything, and so does the last one that silence would not cut off.
            let recheck = rechecks.next().filter(|_| !pace.is_last_look(started, slowest));
            match recheck.zip(pace.limit_before_another(started, slowest)) {
                Some((recheck, limit)) if recheck.is_unchanged(pace, observer, limit).await => {}
                _ => break,
            }
        }
    }
}

/// Rounds begin one interval apart and never overlap: a cluster that answers slowly is asked by one at a time. While it is stable, the
/// last round comes exactly when it has been so for long enough; while it is not, one comes when it has just to become so. Before
/// the deadline there is always one last round: an earlier one that would take its time is cut off.
/// `None` once there is no time for any.
fn next_round(
    pace: &Pace,
    started: Instant,
    took: Duration,
    slowest: Duration,
    fine_since: Option<Instant>,
) -> Option<Instant> {
    // Logs may have taken longer than there was to wait.
    let now = Instant::now();
    let next = (started + pace.interval).max(now);
    let stable = fine_since.zip(pace.stable_for).map(|(since, wanted)| (since + wanted).max(now));
    let next = stable.map_or(next, |stable| next.min(stable));
    let Some(deadline) = pace.deadline else { return Some(next) };
    // What is not seen to be well by then cannot be so for long enough any more.
    let latest = pace.stable_for.and_then(|wanted| deadline.checked_sub(took + wanted + pace.needed(took)));
    let next = latest.filter(|latest| fine_since.is_none() && *latest > now).map_or(next, |latest| next.min(latest));
    // The round that shows that it was is not moved as long as it fits.
    if stable == Some(next) && next + took * 9 / 8 < deadline {
        return stable;
    }
    // Where no round as slow as the slowest fits any more, one like the last may.
    for needed in [pace.needed(slowest), pace.needed(took)] {
        let last = deadline.checked_sub(needed).filter(|last| *last >= now);
        if let Some(last) = last {
            let has_time = next + SHORTEST <= last || stable.is_some();
            return Some(if has_time { next.min(last) } else { last });
        }
    }
    // Only a quicker one could still end in time, such as those of a cluster that has just become well.
    (deadline.saturating_duration_since(now) > SHORTEST).then_some(now)
}

impl Pace {
    /// The deadline. One pass has none of its own; its calls do, and this is the net below them: with room for slow files and for
    /// a second sample.
    pub(crate) fn net(&self) -> Instant {
        self.deadline.unwrap_or_else(|| self.started + self.attempt_timeout * 2 + Duration::from_secs(15))
    }

    /// The hard end of a round that begins at `started`. While one waits, no round takes the time of the last one, and one that
    /// will hardly end in time leaves half of it to another, which may find the cluster well.
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

    /// The hard end of what begins at `started`, if it may take as long as the slowest round, and such a round still fits in after it.
    fn limit_before_another(&self, started: Instant, slowest: Duration) -> Option<Instant> {
        let (deadline, needed) = (self.deadline?, self.needed(slowest));
        (deadline.saturating_duration_since(started) >= needed * 2).then(|| deadline - needed)
    }

    /// What begins now has just the time for calls that nobody answers; a later round may have not.
    fn is_last_look(&self, started: Instant, slowest: Duration) -> bool {
        let Some(deadline) = self.deadline else { return false };
        let (left, needed) = (deadline.saturating_duration_since(started), self.needed(slowest));
        left <= self.attempt_timeout + needed * 2 && left >= self.attempt_timeout / 2 + needed
    }

    /// The time to leave for a round like one that took so long. A cluster that refuses at once may take longer to say that it
    /// is well.
    fn needed(&self, took: Duration) -> Duration {
        took.max(USUAL.min(self.interval)) * 9 / 8 + Duration::from_millis(250)
    }
}

/// Between two rounds, or at the end: whoever waits for the verdict waits for one call more at most.
async fn logs(pace: &Pace, observer: &impl Observe, round: &Round) -> Vec<Tail> {
    let until = (Instant::now() + pace.attempt_timeout / 2).min(pace.net());
    observer.logs(logs::wanted(&round.snapshot, &round.verdicts), &round.snapshot, until).await
}

/// A credentials check that fails before anybody was asked ends the run: that is configuration, not health. What nobody was asked
/// for stands behind it.
fn unusable_credentials(pace: &Pace, observer: &mut impl Observe, memory: &Memory) -> Option<Round> {
    let snapshot = observer.preflight(memory);
    let mut verdicts = judge(&pace.checks, &snapshot);
    // `--strict` makes a certificate that is about to expire a failure, and no less usable: what counts is how it was judged.
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

/// One complete round, or `None` when it was cut off.
async fn one_round(
    pace: &Pace,
    observer: &mut impl Observe,
    memory: &Memory,
    patience: Patience,
    limit: Instant,
) -> Option<Round> {
    let started = Instant::now();
    let mut snapshot = timeout_at(limit, observer.round(memory, patience)).await.ok()?;
    // What follows waits for nothing. Of thousands of nodes it takes a while, in which a signal may have come.
    yield_now().await;
    let mut verdicts = judge_in_turns(&pace.checks, &snapshot).await;
    let mut lacks_sample = false;
    if let Some((after, facts)) = wanted_again(&verdicts) {
        let at = Instant::now() + after;
        // It takes no longer than the first, nor than a call may.
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

/// False if it has not come by `limit`: then the first one counts.
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

/// Something does not pass that a second sample might have settled.
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

/// Causes were found in what was judged, before the user's options decide what it weighs.
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

/// The longest pause that some verdict asks for, and the facts of all that ask.
fn wanted_again(verdicts: &[(&'static Check, Verdict)]) -> Option<(Duration, BTreeSet<Fact>)> {
    let asking = || verdicts.iter().filter_map(|(check, verdict)| Some((check, verdict.resample_after?)));
    let after = asking().map(|(_, after)| after).max()?;
    Some((after, checks::facts(asking().map(|(check, _)| check))))
}

/// Nothing ends these but a person. Whoever waits may wait for that person; `--fail-fast` does not.
fn needs_a_person(reason: Reason) -> bool {
    use Reason::{AlarmCorrupt, AlarmNospace, SplitCluster, VersionSkew, VersionsMixed, WrongCluster};
    matches!(reason, AlarmCorrupt | AlarmNospace | SplitCluster | VersionSkew | VersionsMixed | WrongCluster)
}

impl Round {
    /// Checks that stand in the way of a healthy verdict.
    pub(crate) fn bad(&self) -> impl Iterator<Item = &'static Check> {
        self.verdicts.iter().filter(|(_, verdict)| !verdict.status().is_fine()).map(|(check, _)| *check)
    }

    fn ids_of_bad(&self) -> BTreeSet<CheckId> {
        self.bad().map(|check| check.id).collect()
    }

    /// Those, and checks that saw what has happened since the previous round, and was over before this one.
    fn unstable(&self) -> impl Iterator<Item = &'static Check> {
        let was = |verdict: &Verdict| verdict.problems().any(|(_, problem)| problem.between_rounds);
        let is_unstable = move |verdict: &Verdict| !verdict.status().is_fine() || was(verdict);
        self.verdicts.iter().filter(move |(_, verdict)| is_unstable(verdict)).map(|(check, _)| *check)
    }

    /// Of these checks, those that have found something themselves, if any has.
    fn roots(&self, of: Vec<CheckId>) -> Vec<CheckId> {
        let finds = |id: &CheckId| {
            self.verdicts.iter().any(|(check, verdict)| check.id == *id && verdict.problems().next().is_some())
        };
        let roots: Vec<CheckId> = of.iter().copied().filter(finds).collect();
        if roots.is_empty() { of } else { roots }
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
            // Only what the user's options have relaxed stands behind what is blocked: nothing says that waiting is in vain.
            return false;
        }
        // An API server that starts refuses for seconds what it will allow. What another question is refused for says nothing.
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
