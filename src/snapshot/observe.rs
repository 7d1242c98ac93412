//! The interface through which the engine obtains snapshots.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::logs::{Log, Tail};
use super::{Memory, Snapshot};
use crate::model::Fact;

/// Facts and machines that prevented a success.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Suspects {
    /// The facts that the failed verdicts rest on.
    pub(crate) facts: BTreeSet<Fact>,
    /// The machines that the problems are about, by name.
    pub(crate) machines: BTreeSet<String>,
}

/// The time that a round waits for machines that were silent in the round before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// No longer than an interval, because another round follows.
    Short,
    /// The full time, as for any other machine, because this may be the last round.
    Full,
}

/// The only interface to the outside world.
pub(crate) trait Observe {
    /// Returns what is known before the first request: credentials, as read from files.
    fn preflight(&mut self, memory: &Memory) -> Snapshot;
    /// Collects all wanted facts, each with its own outcome, within the attempt timeout. A future that is dropped before it ends leaves no
    /// trace.
    async fn round(&mut self, memory: &Memory, patience: Patience) -> Snapshot;
    /// Collects only the population and the suspects, over existing connections. Answers of other machines are copied from `last`, so that
    /// no check passes because they are left out.
    async fn recheck(&mut self, suspects: &Suspects, last: &Snapshot, memory: &Memory) -> Snapshot;
    /// Requests these facts again, and no others.
    async fn again(&mut self, facts: &BTreeSet<Fact>, snapshot: &mut Snapshot);
    /// Reads logs, each with its own outcome; done by `until`.
    async fn logs(&self, wanted: Vec<Log>, snapshot: &Snapshot, until: Instant) -> Vec<Tail>;
}
