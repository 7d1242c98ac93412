//! The waiting rules, on a paused clock: minutes of simulated time cost nothing.

mod rechecks;
mod samples;
mod verdicts;
mod waiting;

use std::cell::Cell;
use std::collections::VecDeque;

use super::*;
use crate::assess::Assessment;
use crate::model::{CheckId, Problem, Reason, Stage, Target};
use crate::snapshot::logs::Log;
use crate::snapshot::{Gap, GapKind, Suspects, Talos};

thread_local! {
    /// Results of the one check of these tests, round by round; the last entry repeats.
    static SCRIPT: Cell<VecDeque<Said>> = const { Cell::new(VecDeque::new()) };
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Said {
    Fine,
    Warns,
    /// Passes, after a restart since the previous round.
    Restarted,
    /// Passes, after a crash before that.
    Crashed,
    /// Fails, and may recover.
    Bad,
    /// Fails permanently.
    Hopeless,
    /// Fails for this reason, and the check claims that waiting may help.
    Fails(Reason),
    /// Fails because Kubernetes has refused, permanently as far as the check can tell.
    Refused,
    /// Fails, and requests a second sample.
    Doubtful,
    Nothing,
}

fn next() -> Said {
    let mut script = SCRIPT.take();
    let said = if script.len() > 1 { script.pop_front() } else { script.front().copied() };
    SCRIPT.set(script);
    said.unwrap()
}

fn said(_: &Assessment<'_>) -> Verdict {
    let problem = || Problem::fail(Reason::NodeUnreachable, "yes", "no");
    let mut verdict = Verdict::default();
    match next() {
        Said::Fine => verdict.ok(Target::cluster()),
        Said::Restarted => {
            verdict.problem(Target::cluster(), Problem::warn(Reason::Restarting, "no", "yes").between_rounds());
        }
        Said::Crashed => verdict.problem(Target::cluster(), Problem::warn(Reason::Restarting, "no", "yes")),
        Said::Warns => verdict.problem(Target::cluster(), Problem::warn(Reason::Cordoned, "yes", "no")),
        Said::Bad => verdict.problem(Target::cluster(), problem()),
        Said::Fails(reason) => verdict.problem(Target::cluster(), Problem::fail(reason, "yes", "no")),
        Said::Refused => {
            verdict.problem(Target::cluster(), Problem::error(Reason::Forbidden, "yes", "no").permanent());
        }
        Said::Hopeless => verdict.problem(Target::cluster(), problem().permanent()),
        Said::Doubtful => {
            verdict.problem(Target::cluster(), problem());
            verdict.resample_after = Some(Duration::from_secs(11));
        }
        Said::Nothing => {}
    }
    verdict
}

static CHECK: Check = Check {
    id: CheckId::EtcdQuorum,
    stage: Stage::Connectivity,
    summary: "",
    explain: "",
    severity: Severity::Fail,
    finds: Reason::ALL,
    facts: &[Fact::NodeLeases],
    judge: said,
};

static CREDENTIALS: Check = Check { id: CheckId::TalosCredentials, judge: judge_credentials, ..CHECK };

fn judge_credentials(snapshot: &Assessment<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    match snapshot.talos() {
        Some(talos) if matches!(&talos.credentials, Err(gap) if gap.kind == GapKind::PeerCertificateExpired) => {
            // Represents a certificate that is not valid yet.
            verdict.problem(Target::cluster(), Problem::fail(Reason::CertificateNotYetValid, "now", "later"));
        }
        Some(talos) if matches!(&talos.credentials, Err(gap) if gap.kind == GapKind::NotAsked) => {
            verdict
                .problem(Target::cluster(), Problem::warn(Reason::CertificateExpiresSoon, "long", "short").permanent());
        }
        Some(talos) if talos.credentials.is_err() => {
            verdict.problem(Target::cluster(), Problem::fail(Reason::ConfigUnreadable, "a file", "none").permanent());
        }
        _ => verdict.ok(Target::cluster()),
    }
    verdict
}

/// An observer whose rounds take as long as scripted; the last duration repeats.
struct Scripted {
    round_takes: VecDeque<Duration>,
    rounds: u32,
    again: u32,
    broken_credentials: Option<GapKind>,
    /// Whether the list of nodes is refused.
    forbidden: bool,
}

impl Observe for Scripted {
    fn preflight(&mut self, _: &Memory) -> Snapshot {
        let talos = self.broken_credentials.map(|kind| Talos {
            credentials: Err(Gap::new(kind, "broken")),
            endpoints: Vec::new(),
            discovery: Err(Gap::not_asked()),
            server: Err(Gap::not_asked()),
        });
        Snapshot { talos, ..Snapshot::empty() }
    }

    async fn round(&mut self, memory: &Memory, _: Patience) -> Snapshot {
        let takes =
            if self.round_takes.len() > 1 { self.round_takes.pop_front() } else { self.round_takes.front().copied() };
        tokio::time::sleep(takes.unwrap()).await;
        self.rounds += 1;
        let mut kubernetes = crate::testing::fixture::healthy().kubernetes;
        if let Some(kubernetes) = &mut kubernetes {
            kubernetes.nodes = Err(Gap::new(GapKind::Forbidden, "403"));
        }
        Snapshot { memory: memory.clone(), kubernetes: kubernetes.filter(|_| self.forbidden), ..Snapshot::empty() }
    }

    async fn recheck(&mut self, suspects: &Suspects, _: &Snapshot, memory: &Memory) -> Snapshot {
        assert_eq!(suspects.facts, BTreeSet::from([Fact::NodeLeases]));
        let snapshot = self.round(memory, Patience::Short).await;
        self.rounds -= 1;
        snapshot
    }

    async fn again(&mut self, facts: &BTreeSet<Fact>, _: &mut Snapshot) {
        assert!(facts.contains(&Fact::NodeLeases));
        self.again += 1;
    }

    async fn logs(&self, wanted: Vec<Log>, _: &Snapshot, until: Instant) -> Vec<Tail> {
        assert!(wanted.is_empty());
        // Takes as long as it may.
        sleep_until(until).await;
        Vec::new()
    }
}

struct Ran {
    end: End,
    rounds: u32,
    again: u32,
    took: Duration,
    events: Vec<String>,
}

struct Setup {
    wait: Option<u64>,
    stable_for: Option<u64>,
    fail_fast: bool,
    strict: bool,
    warn_only: bool,
    logs: bool,
    round_takes: &'static [u64],
    broken_credentials: Option<GapKind>,
    forbidden: bool,
}

/// A run that waits for a minute, with rounds of 100 ms.
const WAITING: Setup = Setup {
    wait: Some(60),
    stable_for: None,
    fail_fast: false,
    strict: false,
    warn_only: false,
    logs: false,
    round_takes: &[100],
    broken_credentials: None,
    forbidden: false,
};
const ONE_PASS: Setup = Setup { wait: None, ..WAITING };

async fn run_with(setup: Setup, script: &[Said]) -> Ran {
    SCRIPT.set(script.iter().copied().collect());
    let started = Instant::now();
    let mut checks: Vec<&'static Check> = vec![&CHECK];
    if setup.broken_credentials.is_some() {
        checks.insert(0, &CREDENTIALS);
    }
    let pace = Pace {
        stable_for: setup.stable_for.map(Duration::from_secs),
        fail_fast: setup.fail_fast,
        strict: setup.strict,
        logs: setup.logs,
        warn_only: checks_named(setup.warn_only.then_some(CheckId::EtcdQuorum)),
        checks,
        ..pace(setup.wait.map(Duration::from_secs))
    };
    let mut observer = Scripted {
        round_takes: setup.round_takes.iter().map(|&ms| Duration::from_millis(ms)).collect(),
        rounds: 0,
        again: 0,
        broken_credentials: setup.broken_credentials,
        forbidden: setup.forbidden,
    };
    let mut events = Vec::new();
    let end = run(&pace, &mut observer, |event| {
        events.push(match event {
            Event::ServerSaid { .. } => "said".to_owned(),
            Event::Round(round) => format!("round {}", round.number),
            Event::CutOff => "cut off".to_owned(),
            Event::StabilityLost { .. } => "lost".to_owned(),
            Event::Stable { .. } => "stable".to_owned(),
            Event::Logs(_) => "logs".to_owned(),
            Event::Waiting { .. } => "waiting".to_owned(),
        });
    })
    .await;
    Ran { end, rounds: observer.rounds, again: observer.again, took: started.elapsed(), events }
}

fn checks_named(checks: impl IntoIterator<Item = CheckId>) -> Named {
    Named { checks: checks.into_iter().collect(), ..Named::default() }
}

/// Settings for a round every five seconds, one check, and rounds of ten seconds at most.
pub(crate) fn pace(wait: Option<Duration>) -> Pace {
    let started = Instant::now();
    Pace {
        started,
        deadline: wait.map(|wait| started + wait),
        interval: Duration::from_secs(5),
        attempt_timeout: Duration::from_secs(10),
        stable_for: None,
        fail_fast: false,
        strict: false,
        logs: false,
        fail_on: Named::default(),
        warn_only: Named::default(),
        checks: vec![&CHECK],
    }
}

/// Prefixes the script with the entry that the preflight consumes.
fn script(said: &[Said]) -> Vec<Said> {
    [&[Said::Fine], said].concat()
}

thread_local! {
    static JUDGED: Cell<u32> = const { Cell::new(0) };
}

static COUNTED: [Check; 3] = {
    fn counted(_: &Assessment<'_>) -> Verdict {
        JUDGED.set(JUDGED.get() + 1);
        Verdict::whole(Outcome::Pass(None))
    }
    const OF: Check = Check { judge: counted, ..CHECK };
    [OF, Check { id: CheckId::EtcdAlarms, ..OF }, Check { id: CheckId::EtcdSpace, ..OF }]
};

/// Each check takes a while with thousands of machines: a signal that arrives meanwhile is handled before the next one.
#[tokio::test(start_paused = true)]
async fn others_have_their_turn_between_two_checks() {
    let pace = Pace { checks: COUNTED.iter().collect(), ..pace(None) };
    let mut observer = Scripted {
        round_takes: VecDeque::from([Duration::ZERO]),
        rounds: 0,
        again: 0,
        broken_credentials: None,
        forbidden: false,
    };
    let (memory, limit) = (Memory::default(), Instant::now() + Duration::from_secs(5));
    let mut round = std::pin::pin!(one_round(&pace, &mut observer, &memory, Patience::Short, limit));
    loop {
        let before = JUDGED.get();
        let polled = futures::poll!(round.as_mut());
        assert!(JUDGED.get() - before <= 1, "{} at once", JUDGED.get() - before);
        if polled.is_ready() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(JUDGED.get(), 3);
}

#[tokio::test(start_paused = true)]
async fn healthy_at_once_costs_one_round_and_no_tick() {
    let outcome = run_with(WAITING, &script(&[Said::Fine])).await;
    assert_eq!((outcome.end, outcome.rounds, outcome.took), (End::Healthy, 1, Duration::from_millis(100)));
}

#[tokio::test(start_paused = true)]
async fn warnings_are_fine_unless_strict() {
    assert_eq!(run_with(ONE_PASS, &script(&[Said::Warns])).await.end, End::Healthy);
    assert_eq!(run_with(Setup { strict: true, ..ONE_PASS }, &script(&[Said::Warns])).await.end, End::OnePass);
}

#[tokio::test(start_paused = true)]
async fn one_pass_is_one_round() {
    let outcome = run_with(ONE_PASS, &script(&[Said::Bad, Said::Fine])).await;
    assert_eq!((outcome.end, outcome.rounds), (End::OnePass, 1));
}

#[tokio::test(start_paused = true)]
async fn a_judge_that_says_nothing_is_not_healthy() {
    assert_eq!(run_with(ONE_PASS, &script(&[Said::Nothing])).await.end, End::OnePass);
}

#[tokio::test(start_paused = true)]
async fn rounds_start_every_interval_until_all_is_fine() {
    let outcome = run_with(WAITING, &script(&[Said::Bad, Said::Bad, Said::Fine])).await;
    assert_eq!((outcome.end, outcome.rounds, outcome.took), (End::Healthy, 3, Duration::from_millis(10_100)));
    assert_eq!(outcome.events, ["round 1", "waiting", "round 2", "waiting", "round 3"]);
}

#[tokio::test(start_paused = true)]
async fn slow_rounds_are_not_stretched_and_never_overlap() {
    for (round_takes, expected) in [(&[4_000, 100], 5_100), (&[6_500, 100], 6_600)] {
        let outcome = run_with(Setup { round_takes, ..WAITING }, &script(&[Said::Bad, Said::Fine])).await;
        assert_eq!(outcome.took, Duration::from_millis(expected), "{round_takes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_is_hard_even_in_a_round_that_never_ends() {
    let outcome = run_with(Setup { round_takes: &[100, 1_000_000], ..WAITING }, &script(&[Said::Bad])).await;
    assert_eq!((outcome.end, outcome.took), (End::Deadline, Duration::from_secs(60)));
    assert_eq!(outcome.events, ["round 1", "waiting", "cut off", "cut off"], "nothing of them is told");
}

/// Little time is left in addition to the stability period, and that is enough.
#[tokio::test(start_paused = true)]
async fn stability_may_take_nearly_all_of_the_wait() {
    for (wait, stable) in [(10, 9), (2, 1), (11, 10)] {
        let setup = Setup { wait: Some(wait), stable_for: Some(stable), ..WAITING };
        let outcome = run_with(setup, &script(&[Said::Fine])).await;
        assert_eq!((outcome.end, outcome.took.as_secs()), (End::Healthy, stable), "{stable} s of {wait}");
    }
    // The cluster becomes healthy just in time.
    let setup = Setup { wait: Some(16), stable_for: Some(6), ..WAITING };
    let outcome = run_with(setup, &script(&[Said::Bad, Said::Bad, Said::Fine])).await;
    assert_eq!(outcome.end, End::Healthy, "{:?}", outcome.events);
}

#[tokio::test(start_paused = true)]
async fn who_wants_the_first_final_problem_has_everything_asked() {
    let setup = Setup { fail_fast: true, ..WAITING };
    let outcome = run_with(setup, &script(&[Said::Bad])).await;
    assert_eq!((outcome.end, outcome.rounds), (End::Deadline, 13));
}

/// A restart is not a failure, but it is not stability either.
#[tokio::test(start_paused = true)]
async fn a_restart_begins_the_stable_time_again() {
    let waits = [Said::Bad, Said::Restarted];
    assert_eq!(run_with(WAITING, &script(&waits)).await.end, End::Healthy);
    let setup = || Setup { stable_for: Some(12), ..WAITING };
    let outcome = run_with(setup(), &script(&[Said::Restarted, Said::Fine, Said::Restarted, Said::Fine])).await;
    assert_eq!(outcome.end, End::Healthy);
    let told: Vec<&str> = outcome.events.iter().map(String::as_str).filter(|it| !it.starts_with("round")).collect();
    let (again, stable) = ("waiting", "stable");
    assert_eq!(told, [again, stable, again, "lost", again, stable, again, stable, again, stable, again]);
    for (again, end) in [(Said::Restarted, End::Deadline), (Said::Crashed, End::Healthy)] {
        let outcome = run_with(setup(), &script(&[Said::Fine, again])).await;
        assert_eq!(outcome.end, end, "{again:?}, in each round from the second one on");
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_round_ends_just_before_the_deadline() {
    let outcome = run_with(Setup { wait: Some(9), ..WAITING }, &script(&[Said::Bad])).await;
    assert_eq!((outcome.end, outcome.rounds), (End::Deadline, 3));
    assert_eq!(outcome.took.as_millis(), 8288);
    assert_eq!(outcome.events, ["round 1", "waiting", "round 2", "waiting", "round 3"]);
}

#[tokio::test(start_paused = true)]
async fn one_pass_ends_even_if_its_round_never_does() {
    let outcome = run_with(Setup { round_takes: &[10_000_000], ..ONE_PASS }, &script(&[Said::Fine])).await;
    assert_eq!((outcome.end, outcome.rounds), (End::Deadline, 0));
}

#[tokio::test(start_paused = true)]
async fn nothing_to_wait_for_ends_at_once() {
    let outcome = run_with(WAITING, &script(&[Said::Hopeless])).await;
    assert_eq!((outcome.end, outcome.rounds), (End::Final, 1));
}

#[tokio::test(start_paused = true)]
async fn fail_fast_ends_at_the_first_hopeless_problem() {
    let outcome = run_with(Setup { fail_fast: true, ..WAITING }, &script(&[Said::Bad, Said::Hopeless])).await;
    assert_eq!((outcome.end, outcome.rounds), (End::Final, 2));
}

#[tokio::test(start_paused = true)]
async fn fail_fast_waits_for_nobody_to_repair_what_only_a_person_does() {
    for (reason, ends) in [
        (Reason::AlarmCorrupt, true),
        (Reason::AlarmNospace, true),
        (Reason::SplitCluster, true),
        (Reason::WrongCluster, true),
        (Reason::VersionSkew, true),
        (Reason::VersionsMixed, true),
        // An upgrade may end these.
        (Reason::VersionUnexpected, false),
        (Reason::QuorumLost, false),
    ] {
        let script = script(&[Said::Fails(reason)]);
        let fast = run_with(Setup { fail_fast: true, ..WAITING }, &script).await;
        assert_eq!(fast.end == End::Final, ends, "{reason:?}");
        assert_eq!(run_with(WAITING, &script).await.end, End::Deadline, "{reason:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_ends_no_wait_until_it_has_lasted() {
    for fail_fast in [false, true] {
        let setup = || Setup { fail_fast, forbidden: true, ..WAITING };
        let outcome = run_with(setup(), &script(&[Said::Refused, Said::Refused, Said::Fine])).await;
        assert_eq!((outcome.end, outcome.rounds), (End::Healthy, 3));
        let outcome = run_with(setup(), &script(&[Said::Refused])).await;
        assert_eq!((outcome.end, outcome.rounds), (End::Final, 3));
    }
}

/// Weights of a problem under the options, alone and together: a reason is more specific than a check.
#[test]
fn the_most_specific_option_decides_what_a_problem_weighs() {
    use Severity::{Error, Fail, Warn};
    let (check, reason) = (CheckId::K8sNodesSchedulable, Reason::Cordoned);
    let none = Named::default;
    let by_check = || checks_named([check]);
    let by_reason = || Named { reasons: [reason].into(), ..none() };
    for (strict, fail_on, warn_only, weights) in [
        (false, none(), none(), [Warn, Error, Fail]),
        (true, none(), none(), [Fail, Error, Fail]),
        (false, by_check(), none(), [Fail, Error, Fail]),
        (false, by_reason(), none(), [Fail, Error, Fail]),
        (true, none(), by_check(), [Warn, Warn, Warn]),
        (true, none(), by_reason(), [Warn, Warn, Warn]),
        (true, by_reason(), by_check(), [Fail, Error, Fail]),
        (true, by_check(), by_reason(), [Warn, Warn, Warn]),
    ] {
        let pace = Pace { strict, fail_on, warn_only, ..pace(None) };
        let weight =
            |severity| pace.weight(check, &Target::cluster(), &Problem { severity, ..Problem::fail(reason, "", "") });
        assert_eq!([Warn, Error, Fail].map(weight), weights, "{pace:?}");
        let other = Problem::warn(Reason::TwoMembers, "", "");
        assert_eq!(pace.weight(CheckId::EtcdTolerance, &Target::cluster(), &other) == Fail, strict);
    }
}

/// Reading logs takes five seconds here, which is the limit of a call.
#[tokio::test(start_paused = true)]
async fn logs_are_read_after_rounds_that_are_not_fine_and_hold_up_nothing_else() {
    let ran = run_with(Setup { logs: true, ..WAITING }, &script(&[Said::Bad, Said::Fine])).await;
    assert_eq!((ran.end, ran.rounds), (End::Healthy, 2));
    assert_eq!(ran.took, Duration::from_millis(5200));
    let ran = run_with(Setup { logs: true, ..ONE_PASS }, &script(&[Said::Bad])).await;
    assert_eq!((ran.end, ran.took), (End::OnePass, Duration::from_millis(5100)));
    assert_eq!(ran.events.last().unwrap(), "logs");
    let ran = run_with(Setup { logs: true, wait: Some(7), ..WAITING }, &script(&[Said::Bad])).await;
    assert_eq!((ran.end, ran.rounds), (End::Deadline, 2));
    assert_eq!(ran.took, Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn stability_lasts_and_a_relapse_starts_it_anew() {
    let setup = Setup { stable_for: Some(12), ..WAITING };
    let outcome = run_with(setup, &script(&[Said::Fine, Said::Bad, Said::Fine])).await;
    assert_eq!(outcome.end, End::Healthy);
    // Healthy from the third round (10.1 s) on; the last round starts 12 s later and takes 0.1 s.
    assert_eq!(outcome.took, Duration::from_millis(22_200));
    assert!(outcome.events.contains(&"lost".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn stability_not_reached_is_the_deadline() {
    let setup = || Setup { wait: Some(12), stable_for: Some(9), ..WAITING };
    let outcome = run_with(setup(), &script(&[Said::Bad, Said::Bad, Said::Fine])).await;
    assert_eq!(outcome.end, End::Deadline);
    // The second round comes early: a cluster that is not healthy after 3 s could not stay healthy for long enough.
    let outcome = run_with(setup(), &script(&[Said::Bad, Said::Fine])).await;
    assert_eq!(outcome.end, End::Healthy);
}

#[tokio::test(start_paused = true)]
async fn unusable_credentials_end_the_run_before_anybody_is_asked() {
    let outcome = run_with(Setup { broken_credentials: Some(GapKind::Malformed), ..WAITING }, &[Said::Fine]).await;
    assert_eq!((outcome.end, outcome.rounds), (End::Credentials, 0));
    assert_eq!(outcome.events, ["round 0"]);
}

#[tokio::test(start_paused = true)]
async fn warn_only_never_stands_in_the_way() {
    let setup = Setup { warn_only: true, strict: true, ..ONE_PASS };
    assert_eq!(run_with(setup, &script(&[Said::Bad])).await.end, End::Healthy);
}

#[tokio::test(start_paused = true)]
async fn a_certificate_that_is_not_valid_yet_is_waited_for() {
    let not_yet = Some(GapKind::PeerCertificateExpired);
    let outcome = run_with(Setup { broken_credentials: not_yet, ..WAITING }, &[Said::Fine]).await;
    assert_eq!((outcome.end, outcome.rounds), (End::Healthy, 1));
    let outcome = run_with(Setup { broken_credentials: not_yet, ..ONE_PASS }, &[Said::Fine]).await;
    assert_eq!((outcome.end, outcome.rounds), (End::Credentials, 0));
}

#[tokio::test(start_paused = true)]
async fn strictness_makes_no_certificate_unusable() {
    let soon = Some(GapKind::NotAsked);
    let outcome = run_with(Setup { broken_credentials: soon, strict: true, ..ONE_PASS }, &[Said::Fine]).await;
    assert_eq!((outcome.end, outcome.rounds), (End::Healthy, 1));
}

fn diagnosed(snapshot: &Snapshot, strict: bool, warn_only: &[&'static str]) -> (Vec<&'static str>, Vec<&'static str>) {
    let warn_only = checks_named(warn_only.iter().map(|id| (*id).into()));
    let pace = Pace { strict, warn_only, checks: checks::ALL.to_vec(), ..pace(None) };
    let round = completed(&pace, 1, Duration::ZERO, snapshot.clone(), judge(&pace.checks, snapshot));
    (round.diagnoses.iter().map(|it| it.id).collect(), round.bad().map(|check| check.id.name()).collect())
}

/// A learner that is catching up is not stuck, whatever weight the user gives to a warning.
#[tokio::test(start_paused = true)]
async fn what_a_problem_weighs_changes_no_diagnosis() {
    let mut young = crate::testing::fixture::healthy();
    young.etcd_status_mut("cp-3").is_learner = true;
    let mut members = young.node("cp-1").unwrap().talos.etcd_members.clone().unwrap();
    members[2].is_learner = true;
    young.set_members(&members);
    young.service_mut("cp-3", "etcd").running_since = Some(crate::testing::fixture::ago(60));
    assert_eq!(diagnosed(&young, false, &[]).0, [""; 0]);
    let (diagnoses, bad) = diagnosed(&young, true, &[]);
    assert_eq!(diagnoses, [""; 0]);
    assert!(bad.contains(&"etcd.learners"), "{bad:?}");

    let mut adrift = crate::testing::fixture::healthy();
    adrift.talos_of("cp-2").time_status.as_mut().unwrap().as_mut().unwrap().synced = false;
    let weighed = diagnosed(&adrift, false, &["talos.time"]);
    assert_eq!(weighed, (vec!["clock-not-synchronized"], Vec::new()));

    let mut allowed = crate::testing::fixture::healthy();
    allowed.power_off("w-1");
    let judged = diagnosed(&allowed, false, &[]).0;
    allowed.asked.max_unready_workers = crate::snapshot::Allowance::Count(1);
    let (diagnoses, bad) = diagnosed(&allowed, false, &[]);
    assert_eq!(diagnoses, judged);
    assert!(bad.iter().all(|check| check.starts_with("upgrade.")), "an upgrade excuses nobody: {bad:?}");
}

#[tokio::test(start_paused = true)]
async fn one_pass_has_time_for_two_samples_and_no_more() {
    let outcome = run_with(Setup { round_takes: &[10_000_000], ..ONE_PASS }, &script(&[Said::Fine])).await;
    assert_eq!(outcome.took, Duration::from_secs(10 * 2 + 15));
}

#[tokio::test(start_paused = true)]
async fn no_round_begins_at_the_deadline() {
    let outcome = run_with(Setup { wait: Some(5), ..WAITING }, &script(&[Said::Bad])).await;
    assert_eq!((outcome.end, outcome.rounds, outcome.took.as_millis()), (End::Deadline, 2, 4288));
}

#[tokio::test(start_paused = true)]
async fn stability_is_reached_at_its_very_end() {
    let setup = Setup { stable_for: Some(12), round_takes: &[0], ..WAITING };
    let outcome = run_with(setup, &script(&[Said::Fine])).await;
    assert_eq!((outcome.end, outcome.took), (End::Healthy, Duration::from_secs(12)));
}
