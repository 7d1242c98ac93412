//! Who makes snapshots, as the engine sees it.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::logs::{Log, Tail};
use super::{Memory, Snapshot};
use crate::model::Fact;

/// What stood in the way of a success.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Suspects {
    /// What it is judged by.
    pub(crate) facts: BTreeSet<Fact>,
    /// The machines that it is about, by name.
    pub(crate) machines: BTreeSet<String>,
}

/// How long a round waits for machines that were silent in the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// No longer than an interval: another round comes.
    Short,
    /// As long as for any other machine: it may be the last word.
    Full,
}

/// The only seam to the outside world.
pub(crate) trait Observe {
    /// What is known before anybody is asked: credentials, as read from files.
    fn preflight(&mut self, memory: &Memory) -> Snapshot;
    /// All wanted facts, each with its own outcome, within the attempt timeout. One that is dropped before it ends leaves no trace.
    async fn round(&mut self, memory: &Memory, patience: Patience) -> Snapshot;
    /// As a round, and less: the population and the suspects alone, over the connections that there are. What other machines said in
    /// `last` is repeated, so that nothing passes by it.
    async fn recheck(&mut self, suspects: &Suspects, last: &Snapshot, memory: &Memory) -> Snapshot;
    /// Asks again for these facts only.
    async fn again(&mut self, facts: &BTreeSet<Fact>, snapshot: &mut Snapshot);
    /// Reads logs, each with its own outcome; done by `until`.
    async fn logs(&self, wanted: Vec<Log>, snapshot: &Snapshot, until: Instant) -> Vec<Tail>;
}
