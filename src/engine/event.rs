//! Events of a run: the contract between the engine and everything that shows something.

use std::time::Duration;

use crate::checks::Check;
use crate::diagnosis::Diagnosis;
use crate::model::{CheckId, Shared, Verdict};
use crate::snapshot::logs::Tail;
use crate::snapshot::{ServerProgress, Snapshot};

/// An event, emitted synchronously, in order, by one task.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    /// The cluster's own health check has reported something in the middle of a round. `at`: since the start of the
    /// run.
    ServerSaid { at: Duration, said: &'a ServerProgress },
    /// A round has ended, and everything selected was judged.
    Round(&'a Round),
    /// A round did not end in time and is discarded: its result is unknown.
    CutOff,
    /// Every check passed, and now one does not: the stability period starts over.
    StabilityLost { after: Duration, because: Vec<CheckId> },
    /// Every check passes; the run continues until this has lasted long enough. `begun`: the previous round did not
    /// pass.
    Stable { begun: bool, so_far: Duration, wanted: Duration },
    /// Log lines read after a round that did not pass.
    Logs(&'a [Tail]),
    /// The run waits for the next round.
    Waiting { next_in: Duration },
}

/// The judgment of one complete round.
#[derive(Debug)]
pub(crate) struct Round {
    /// Starts at 1.
    pub(crate) number: u32,
    /// End of the round, since the start of the run.
    pub(crate) at: Duration,
    pub(crate) took: Duration,
    pub(crate) snapshot: Snapshot,
    /// The checks that ran, in catalog order, weighed by the user's options.
    pub(crate) verdicts: Vec<(&'static Check, Verdict)>,
    /// Causes of the problems. Weights do not change a cause, but a problem that still fails is not explained by one
    /// that only warns.
    pub(crate) diagnoses: Shared<Vec<Diagnosis>>,
    /// Whether a check does not pass that a second sample might have settled, for which there was no time.
    pub(crate) in_doubt: bool,
}
