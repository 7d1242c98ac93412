//! Full rounds, and the rechecks between them.

use super::*;

/// An observer with one script for rounds and one for rechecks; the last entry repeats.
struct Sly {
    rounds: Vec<Said>,
    rechecks: Vec<Said>,
    /// Calls and their times.
    done: Vec<(&'static str, Duration)>,
    started: Instant,
    hangs: bool,
}

impl Sly {
    fn does(&mut self, what: &'static str) -> Snapshot {
        self.done.push((what, self.started.elapsed()));
        let script = if what == "round" { &mut self.rounds } else { &mut self.rechecks };
        SCRIPT.set([script[0]].into());
        if script.len() > 1 {
            script.remove(0);
        }
        Snapshot::empty()
    }

    fn count(&self, what: &str) -> usize {
        self.done.iter().filter(|(it, _)| *it == what).count()
    }
}

impl Observe for Sly {
    fn preflight(&mut self, _: &Memory) -> Snapshot {
        SCRIPT.set([Said::Fine].into());
        Snapshot::empty()
    }

    async fn round(&mut self, _: &Memory, _: Patience) -> Snapshot {
        self.does("round")
    }

    async fn recheck(&mut self, suspects: &Suspects, _: &Snapshot, _: &Memory) -> Snapshot {
        assert_eq!(suspects.facts, BTreeSet::from([Fact::NodeLeases]));
        if self.hangs {
            std::future::pending::<()>().await;
        }
        self.does("recheck")
    }

    async fn again(&mut self, _: &BTreeSet<Fact>, _: &mut Snapshot) {}

    async fn logs(&self, _: Vec<Log>, _: &Snapshot, _: Instant) -> Vec<Tail> {
        Vec::new()
    }
}

async fn waited(wait: u64, rounds: &[Said], rechecks: &[Said], change: impl FnOnce(&mut Pace, &mut Sly)) -> (End, Sly) {
    let mut pace = pace(Some(Duration::from_secs(wait)));
    let mut sly = Sly {
        rounds: rounds.to_vec(),
        rechecks: rechecks.to_vec(),
        done: Vec::new(),
        started: pace.started,
        hangs: false,
    };
    change(&mut pace, &mut sly);
    let end = run(&pace, &mut sly, |_| {}).await;
    (end, sly)
}

#[tokio::test(start_paused = true)]
async fn most_of_a_long_wait_asks_for_what_was_not_well() {
    let (end, sly) = waited(300, &[Said::Bad], &[Said::Bad], |_, _| {}).await;
    assert_eq!(end, End::Deadline);
    // The first three, one for every 24 rechecks or two minutes, one while there is still time to wait for silent
    // machines, and the last one.
    assert_eq!((sly.count("round"), sly.count("recheck")), (7, 54));
    assert_eq!(sly.done.last().map(|(what, _)| *what), Some("round"));
    let whole = sly.done.iter().filter(|(what, _)| *what == "round").map(|(_, at)| *at);
    let pauses = whole.clone().zip(whole.skip(1)).map(|(a, b)| b.saturating_sub(a));
    assert!(pauses.max() <= Some(Duration::from_secs(125)), "{:?}", sly.done);
}

/// However good rechecks look, only a full round is a success, and each recheck that finds no problem is followed by
/// one.
#[tokio::test(start_paused = true)]
async fn what_is_asked_between_rounds_is_no_success() {
    for well in [Said::Fine, Said::Warns, Said::Restarted] {
        let (end, sly) = waited(300, &[Said::Bad], &[well], |_, _| {}).await;
        assert_eq!(end, End::Deadline);
        assert!(!sly.done.windows(2).any(|two| two[0].0 == "recheck" && two[1].0 == "recheck"), "{:?}", sly.done);
    }
    let (end, sly) =
        waited(300, &[Said::Bad, Said::Bad, Said::Bad, Said::Fine], &[Said::Bad, Said::Fine], |_, _| {}).await;
    assert_eq!((end, sly.count("round"), sly.count("recheck")), (End::Healthy, 4, 2));
    let [.., (_, seen), (_, ended)] = &*sly.done else { panic!() };
    assert_eq!(seen, ended, "nobody waits for the round that follows");
}

#[tokio::test(start_paused = true)]
async fn another_problem_than_before_is_looked_at_by_a_whole_round() {
    let other = [Said::Fails(Reason::NodeNotReady), Said::Hopeless];
    for other in other {
        let (end, sly) = waited(60, &[Said::Bad], &[other], |_, _| {}).await;
        assert_eq!(end, End::Deadline);
        assert!(!sly.done.windows(2).any(|two| two[0].0 == "recheck" && two[1].0 == "recheck"), "{:?}", sly.done);
    }
}

/// A machine that does not respond takes no time from the last round.
#[tokio::test(start_paused = true)]
async fn a_recheck_that_hangs_gives_way_to_a_round() {
    let (end, sly) = waited(60, &[Said::Bad], &[Said::Bad], |_, sly| sly.hangs = true).await;
    assert_eq!(end, End::Deadline);
    let (what, at) = sly.done.last().unwrap();
    assert!(*what == "round" && *at > Duration::from_secs(55), "{:?}", sly.done);
}

#[tokio::test(start_paused = true)]
async fn stability_is_shown_by_rounds_that_ask_everything() {
    let rounds = [vec![Said::Bad; 4], vec![Said::Fine; 60]].concat();
    let (end, sly) = waited(300, &rounds, &[Said::Fine], |pace, _| {
        pace.stable_for = Some(Duration::from_secs(60));
    })
    .await;
    let first_fine = sly.done.iter().filter(|(what, _)| *what == "round").nth(4).unwrap().1;
    assert_eq!(end, End::Healthy);
    assert!(!sly.done.iter().any(|(what, at)| *what == "recheck" && *at > first_fine), "{:?}", sly.done);
}
