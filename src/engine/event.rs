//! What is told while a run goes on: the contract between who works and everything that shows something.

use std::time::Duration;

use crate::checks::Check;
use crate::diagnosis::Diagnosis;
use crate::model::{CheckId, Shared, Verdict};
use crate::snapshot::logs::Tail;
use crate::snapshot::{ServerProgress, Snapshot};

/// Told synchronously, in order, by one task.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    /// The cluster's own health check has said something, in the middle of a round. `at`: since the start of the run.
    ServerSaid { at: Duration, said: &'a ServerProgress },
    /// A round has ended, everything selected was judged.
    Round(&'a Round),
    /// A round did not end in time, and nothing of it counts: what it would have seen is not known.
    CutOff,
    /// All was fine, and now it is not: the stability period starts over.
    StabilityLost { after: Duration, because: Vec<CheckId> },
    /// All is fine; the run goes on until it has been for long enough. `begun`: it has not been so in the round before.
    Stable { begun: bool, so_far: Duration, wanted: Duration },
    /// What the logs say after a round that was not fine.
    Logs(&'a [Tail]),
    /// Waiting for the next round.
    Waiting { next_in: Duration },
}

/// The judgment of one complete round.
#[derive(Debug)]
pub(crate) struct Round {
    /// From 1.
    pub(crate) number: u32,
    /// Since the start of the run, when the round ended.
    pub(crate) at: Duration,
    pub(crate) took: Duration,
    pub(crate) snapshot: Snapshot,
    /// In the order of the catalog, only those that ran; weighed as the user has asked for.
    pub(crate) verdicts: Vec<(&'static Check, Verdict)>,
    /// What lies behind the problems. How much they weigh changes no cause, and may leave what fails to itself.
    pub(crate) diagnoses: Shared<Vec<Diagnosis>>,
    /// Something does not pass that a second sample might have settled, for which there was no time.
    pub(crate) in_doubt: bool,
}
