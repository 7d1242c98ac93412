//! The times until which a cluster can become healthy and is still found to be.

use super::*;

/// A cluster that becomes healthy at some time. Rounds that began before it take as long as they take, whatever happens meanwhile.
struct Healing {
    wait: Duration,
    interval: Duration,
    heals_after: Duration,
    /// Durations of rounds before that, in turn, and after.
    sick: Vec<Duration>,
    well: Duration,
}

impl Healing {
    /// Returns how the engine ended, when, and after how many rounds, including those that were cut off.
    async fn run(self) -> (End, Duration, usize) {
        let (end, took, starts) = self.starts().await;
        (end, took, starts.len())
    }

    async fn starts(self) -> (End, Duration, Vec<Duration>) {
        let started = Instant::now();
        let pace = Pace { interval: self.interval, ..pace(Some(self.wait)) };
        let mut observer = Healed { started, starts: Vec::new(), of: self };
        let end = run(&pace, &mut observer, |_| {}).await;
        (end, started.elapsed(), observer.starts)
    }
}

struct Healed {
    started: Instant,
    /// Start of each round, after the start of the run.
    starts: Vec<Duration>,
    of: Healing,
}

impl Observe for Healed {
    fn preflight(&mut self, _: &Memory) -> Snapshot {
        SCRIPT.set([Said::Fine].into());
        Snapshot::empty()
    }

    async fn round(&mut self, _: &Memory, _: Patience) -> Snapshot {
        let is_well = self.started.elapsed() >= self.of.heals_after;
        let sick = self.of.sick[self.starts.len() % self.of.sick.len()];
        self.starts.push(self.started.elapsed());
        tokio::time::sleep(if is_well { self.of.well } else { sick }).await;
        SCRIPT.set([if is_well { Said::Fine } else { Said::Bad }].into());
        Snapshot::empty()
    }

    async fn recheck(&mut self, _: &Suspects, _: &Snapshot, memory: &Memory) -> Snapshot {
        self.round(memory, Patience::Short).await
    }

    async fn again(&mut self, _: &BTreeSet<Fact>, _: &mut Snapshot) {}

    async fn logs(&self, _: Vec<Log>, _: &Snapshot, _: Instant) -> Vec<Tail> {
        Vec::new()
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

#[tokio::test(start_paused = true)]
async fn there_is_a_last_round_before_the_deadline() {
    for (wait, interval, sick, heals_after) in [
        // The second round would have begun at 13.4 s.
        (13.0, 5.0, 6.7, 7.0),
        (13.0, 5.0, 6.7, 9.0),
        (13.0, 5.0, 6.7, 11.0),
        (28.0, 15.0, 0.2, 15.5),
        (28.0, 15.0, 0.2, 27.1),
        (300.0, 5.0, 8.0, 290.0),
        // A credentials plugin that does not respond.
        (25.0, 5.0, 10.0, 13.0),
        (300.0, 5.0, 0.01, 299.1),
        (300.0, 60.0, 0.3, 241.0),
        (10.0, 60.0, 0.3, 1.0),
        (10.0, 10.0, 0.3, 9.1),
        (1.0, 5.0, 0.02, 0.1),
    ] {
        let sick = vec![seconds(sick)];
        let healing = Healing {
            wait: seconds(wait),
            interval: seconds(interval),
            heals_after: seconds(heals_after),
            sick,
            well: seconds(0.2),
        };
        let (end, took, _) = healing.run().await;
        assert_eq!(end, End::Healthy, "{wait} {interval} {heals_after}: {took:?}");
    }
}

/// A round that begins late may block: unanswered calls are repeated as long as there is time.
#[tokio::test(start_paused = true)]
async fn a_round_that_hangs_does_not_take_the_time_of_the_last() {
    let healing = Healing {
        wait: seconds(30.0),
        interval: seconds(5.0),
        heals_after: seconds(27.0),
        sick: [vec![seconds(0.2); 5], vec![seconds(10.0)]].concat(),
        well: seconds(0.3),
    };
    let (end, took, begun) = healing.run().await;
    assert_eq!((end, begun), (End::Healthy, 7));
    assert!(took > seconds(28.0), "{took:?}");
}

/// Returns xorshift numbers: the cases are the same every time.
fn numbers(mut state: u64) -> impl FnMut(f64, f64) -> f64 {
    move |from, to| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        from + (to - from) * f64::from(u32::try_from(state >> 32).unwrap()) / f64::from(u32::MAX)
    }
}

#[tokio::test(start_paused = true)]
async fn whenever_it_heals_it_is_found_while_there_is_time_for_a_round() {
    let mut within = numbers(0x2545_f491_4f6c_dd1d);
    for case in 0..3000 {
        let (wait, interval) = (within(3.0, 120.0), within(0.5, 40.0));
        let (slow, quick) = (within(0.05, 0.6 * wait).min(15.0), within(0.05, 1.0));
        let sick: Vec<f64> = (0..7).map(|_| within(quick.min(slow), slow)).collect();
        let shortest = sick.iter().copied().fold(f64::MAX, f64::min);
        let longest = sick.iter().copied().fold(0.0, f64::max);
        let well = within(0.01, shortest.clamp(0.02, 0.9));
        let enough = longest.max(0.5) * 9.0 / 8.0 + 0.25;
        let heals_after = within(0.0, (wait - enough.max(2.0)).max(0.0));
        let (end, took, begun) = Healing {
            wait: seconds(wait),
            interval: seconds(interval),
            heals_after: seconds(heals_after),
            sick: sick.iter().copied().map(seconds).collect(),
            well: seconds(well),
        }
        .run()
        .await;
        let told = format!("{case}: {wait} {interval} {sick:?} {well} {heals_after}: {end:?} {took:?} {begun}");
        assert_eq!(end, End::Healthy, "{told}");
        assert!(took <= seconds(wait), "{told}");
        // Recovery is found when the next round is due, and not later for the sake of the last one.
        assert!(took <= seconds(heals_after + interval.max(longest) + well + 1.0), "{told}");
        // Rounds are not more frequent than requested, except for the last ones.
        assert!(f64::from(u32::try_from(begun).unwrap()) <= wait / interval + 8.0, "{told}");
    }
}

/// The promise of `--help`: every 5 s. A silent machine makes rounds take 6 s at first, and 4 s later.
#[tokio::test(start_paused = true)]
async fn rounds_begin_an_interval_apart_to_the_end() {
    for (sick, apart) in [(&[0.3][..], 5.0), (&[6.0, 4.3], 6.0), (&[4.9], 5.0), (&[5.9], 5.9)] {
        for wait in 20..60_u32 {
            let sick = sick.iter().copied().map(seconds).collect();
            let (wait, never) = (seconds(wait.into()), seconds(1e6));
            let healing = Healing { wait, interval: seconds(5.0), heals_after: never, sick, well: Duration::ZERO };
            let (_, took, starts) = healing.starts().await;
            let gaps =
                starts.iter().zip(starts.iter().skip(1).chain([&took])).map(|(from, to)| to.saturating_sub(*from));
            let longest = gaps.max().unwrap();
            assert!(longest <= seconds(apart + 1.0), "{wait:?}: {longest:?} of {starts:?}");
        }
    }
}

/// A cluster that never recovers is checked until the end, once each interval or by back-to-back rounds.
#[tokio::test(start_paused = true)]
async fn rounds_are_bounded() {
    for (sick, most) in [(0.001, 64), (0.4, 64), (3.0, 64), (9.0, 36), (14.0, 24)] {
        let sick = vec![seconds(sick)];
        let (wait, interval, never) = (seconds(300.0), seconds(5.0), seconds(1e6));
        let healing = Healing { wait, interval, heals_after: never, sick, well: Duration::ZERO };
        let (end, took, begun) = healing.run().await;
        assert_eq!(end, End::Deadline);
        assert!(begun <= most, "{begun} of {most}");
        assert!(took <= wait && took > seconds(297.0), "{took:?}");
    }
}

/// Machines fall silent ten seconds before the end, so that each call takes its full time: the run sees that, although the last round,
/// which was to be as short as all before it, does not end.
#[tokio::test(start_paused = true)]
async fn silence_before_the_deadline_is_heard_out() {
    let setup = Setup { wait: Some(40), round_takes: &[100, 100, 100, 100, 100, 100, 5_100], ..WAITING };
    let outcome = run_with(setup, &script(&[Said::Bad])).await;
    assert_eq!((outcome.end, outcome.rounds), (End::Deadline, 4));
    let rounds = outcome.events.iter().filter(|event| *event != "waiting").cloned().collect::<Vec<_>>();
    assert_eq!(rounds, ["round 1", "round 2", "round 3", "round 4", "cut off", "cut off", "cut off"]);
}
