//! How often who was asked what.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::world::Server;

/// Counts calls, for figures and for changes that wait for a question.
#[derive(Debug, Default)]
pub struct Calls(Mutex<BTreeMap<(Server, String), u64>>);

/// One line of [`Calls::counts`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Who answered. A forwarded call counts for the machine that it was for, not for the endpoint.
    pub server: Server,
    /// `Version`, `Get MachineStatuses`, `/api/v1/nodes`.
    pub call: String,
    /// How often.
    pub times: u64,
}

impl Calls {
    fn table(&self) -> MutexGuard<'_, BTreeMap<(Server, String), u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more, and says the how manieth it is.
    pub(crate) fn count(&self, server: &Server, call: &str) -> u64 {
        let mut table = self.table();
        let times = table.entry((server.clone(), call.to_owned())).or_default();
        *times += 1;
        *times
    }

    /// Everything so far, sorted by server and call.
    #[must_use]
    pub fn counts(&self) -> Vec<Count> {
        let table = self.table();
        table
            .iter()
            .map(|((server, call), times)| Count { server: server.clone(), call: call.clone(), times: *times })
            .collect()
    }

    /// Begins to count anew.
    pub fn reset(&self) {
        self.table().clear();
    }
}
