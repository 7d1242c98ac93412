//! Counters of the calls to each server.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::world::Server;

/// Counts calls, for statistics and for changes that wait for a call.
#[derive(Debug, Default)]
pub struct Calls(Mutex<BTreeMap<(Server, String), u64>>);

/// An entry of [`Calls::counts`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// The server that answered. A forwarded call counts for its target, not for the endpoint.
    pub server: Server,
    /// `Version`, `Get MachineStatuses`, `/api/v1/nodes`.
    pub call: String,
    /// Number of calls.
    pub times: u64,
}

impl Calls {
    fn table(&self) -> MutexGuard<'_, BTreeMap<(Server, String), u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call, and returns the number of equal calls so far.
    pub(crate) fn count(&self, server: &Server, call: &str) -> u64 {
        let mut table = self.table();
        let times = table.entry((server.clone(), call.to_owned())).or_default();
        *times += 1;
        *times
    }

    /// All counters, sorted by server and call.
    #[must_use]
    pub fn counts(&self) -> Vec<Count> {
        let table = self.table();
        table
            .iter()
            .map(|((server, call), times)| Count { server: server.clone(), call: call.clone(), times: *times })
            .collect()
    }

    /// Resets all counters.
    pub fn reset(&self) {
        self.table().clear();
    }
}
