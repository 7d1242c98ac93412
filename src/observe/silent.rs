//! Machines that have not answered: each is tried in every round without delaying it.
//!
//! A machine that was silent for the full time of a call is sent a greeting in later rounds, and the other calls follow once it has
//! answered. A greeting has its full time limit, but the round does not wait that long: the next round picks up a late answer.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::{BoxFuture, Shared, select_ok};
use tokio::time::{Instant, timeout_at};

use crate::snapshot::{Gap, GapKind, Node, Observed, TalosNode};

/// Time that a round waits for a machine that was silent in the previous one.
pub(super) const PATIENCE: Duration = Duration::from_secs(4);

/// Limit for concurrent greetings of one machine. If hundreds of machines are silent, greetings wait for their turn longer than a round
/// takes.
const MOST: usize = 3;

/// A running greeting, which resolves once the machine has answered. Several rounds can wait for it.
pub(super) type Greeting = Shared<BoxFuture<'static, Observed<()>>>;

/// The machines that were silent in the last round, by name.
#[derive(Default)]
pub(super) struct Silent {
    machines: RefCell<BTreeMap<String, Silence>>,
}

struct Silence {
    /// The gap that is reported until a greeting has ended.
    gap: Gap,
    /// The greetings in progress.
    greetings: Vec<Greeting>,
}

impl Silent {
    /// Records the silent machines after a round. Keeps the greetings of machines that were silent before and still are.
    pub(super) fn remember(&mut self, nodes: &[Node]) {
        let machines = self.machines.get_mut();
        let mut before = std::mem::take(machines);
        for node in nodes {
            if let Some(gap) = silence(&node.talos) {
                let greetings = before.remove(&node.name).map_or_else(Vec::new, |it| it.greetings);
                machines.insert(node.name.clone(), Silence { gap: gap.clone(), greetings });
            }
        }
    }

    /// Returns whether the machine can be queried: it was not silent, or has answered a greeting by `until`.
    pub(super) async fn has_answered(
        &self,
        name: &str,
        greet: impl FnOnce() -> Greeting,
        until: Instant,
    ) -> Observed<()> {
        let (gap, greetings) = match self.machines.borrow_mut().get_mut(name) {
            None => return Ok(()),
            Some(silence) => {
                // A result that an earlier round has received is not used again.
                silence.greetings.retain(|greeting| greeting.peek().is_none());
                if silence.greetings.len() < MOST {
                    silence.greetings.push(greet());
                }
                (silence.gap.clone(), silence.greetings.clone())
            }
        };
        // If all fail, the last failure counts.
        timeout_at(until, select_ok(greetings)).await.map_or(Err(gap), |ended| ended.map(|((), _)| ()))
    }
}

/// Returns why the machine did not answer, if the failure took time.
fn silence(node: &TalosNode) -> Option<&Gap> {
    let takes_time =
        |gap: &&Gap| matches!(gap.kind, GapKind::TimedOut | GapKind::ConnectTimedOut | GapKind::NodeUnreachable);
    node.contact.as_ref().err().filter(takes_time)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::testing::fixture::healthy;

    const CALL: Duration = Duration::from_secs(5);
    /// Time between the end of a round and the next one.
    const REST: Duration = Duration::from_secs(1);

    /// Machine `w-1` was silent.
    fn silent() -> Silent {
        let mut silent = Silent::default();
        let mut seen = healthy();
        seen.talos_of("w-1").contact = Err(Gap::new(GapKind::TimedOut, "before"));
        silent.remember(&seen.nodes);
        silent
    }

    /// Starts a greeting that is answered after this time, or fails if a call does not allow that long.
    fn after(seconds: f64) -> Greeting {
        let answer = tokio::spawn(async move {
            let takes = Duration::from_secs_f64(seconds);
            tokio::time::sleep(takes.min(CALL)).await;
            if takes < CALL { Ok(()) } else { Err(Gap::new(GapKind::TimedOut, "now")) }
        });
        answer.map(Result::unwrap).boxed().shared()
    }

    async fn round(silent: &Silent, greeting: f64) -> (Result<(), String>, Duration) {
        let begun = Instant::now();
        let heard = silent.has_answered("w-1", || after(greeting), begun + PATIENCE).await;
        (heard.map_err(|gap| gap.text.into_owned()), begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_not_silent_is_not_greeted() {
        let never = || unreachable!("it is asked at once");
        assert_eq!(silent().has_answered("cp-1", never, Instant::now()).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_takes_a_round_no_more_than_its_patience() {
        let silent = silent();
        assert_eq!(round(&silent, 9.0).await, (Err("before".to_owned()), PATIENCE));
        for _ in 0..10 {
            tokio::time::sleep(REST).await;
            assert_eq!(round(&silent, 9.0).await, (Err("before".to_owned()), PATIENCE));
            assert!(silent.machines.borrow()["w-1"].greetings.len() <= MOST);
        }
    }

    /// All machines are waited for together, regardless of their number.
    #[tokio::test(start_paused = true)]
    async fn a_thousand_silent_machines_take_a_round_no_longer_than_one() {
        let mut seen = healthy();
        let machine = seen.nodes[3].clone();
        seen.nodes = (1..=1000).map(|number| Node { name: format!("w-{number}"), ..machine.clone() }).collect();
        let names: Vec<String> = seen.nodes.iter().map(|node| node.name.clone()).collect();
        for name in &names {
            seen.talos_of(name).contact = Err(Gap::new(GapKind::TimedOut, "before"));
        }
        let mut silent = Silent::default();
        for _ in 0..3 {
            silent.remember(&seen.nodes);
            let begun = Instant::now();
            let heard = names.iter().map(|name| silent.has_answered(name, || after(9.0), begun + PATIENCE));
            assert!(futures::future::join_all(heard).await.iter().all(Result::is_err));
            assert_eq!(begun.elapsed(), PATIENCE);
            tokio::time::sleep(REST).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_comes_late_counts_for_the_next_round() {
        let silent = silent();
        assert_eq!(round(&silent, 4.5).await, (Err("before".to_owned()), PATIENCE));
        let waits = Duration::from_millis(500);
        assert_eq!(round(&silent, 4.5).await, (Ok(()), waits), "it comes while the next round waits");
        let silent = self::silent();
        assert!(round(&silent, 4.5).await.0.is_err());
        tokio::time::sleep(REST).await;
        assert_eq!(round(&silent, 4.5).await, (Ok(()), Duration::ZERO), "it has come before");
    }

    #[tokio::test(start_paused = true)]
    async fn one_answer_vouches_for_one_round() {
        let silent = silent();
        assert_eq!(round(&silent, 0.2).await.0, Ok(()));
        assert_eq!(round(&silent, 9.0).await, (Err("before".to_owned()), PATIENCE), "and it was silent again");
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_back_is_heard_at_once() {
        let silent = silent();
        assert!(round(&silent, 9.0).await.0.is_err());
        let (heard, took) = round(&silent, 0.2).await;
        assert_eq!((heard, took), (Ok(()), Duration::from_millis(200)), "whatever became of the one before");
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_answered_is_silent_no_more() {
        let mut silent = silent();
        silent.remember(&healthy().nodes);
        assert!(silent.machines.borrow().is_empty());
    }
}
