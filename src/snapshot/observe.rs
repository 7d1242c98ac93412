//! Who makes snapshots, as the engine sees it.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::logs::{Log, Tail};
use super::{Memory, Snapshot};
use crate::model::Fact;

/// The only seam to the outside world.
pub(crate) trait Observe {
    /// What is known before anybody is asked: credentials, as read from files.
    fn preflight(&mut self, memory: &Memory) -> Snapshot;
    /// All wanted facts, each with its own outcome, within the attempt timeout. One that is dropped before it ends leaves no trace.
    async fn round(&mut self, memory: &Memory) -> Snapshot;
    /// Asks again for these facts only.
    async fn again(&mut self, facts: &BTreeSet<Fact>, snapshot: &mut Snapshot);
    /// Reads logs, each with its own outcome; done by `until`.
    async fn logs(&self, wanted: Vec<Log>, snapshot: &Snapshot, until: Instant) -> Vec<Tail>;
}
