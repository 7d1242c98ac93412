//! The progress of a round, for display: requests that were sent, that were answered, and that are still pending.
//!
//! Progress is not a fact; no verdict depends on it.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// The parts of a round that run concurrently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Endpoints,
    Nodes,
    Etcd,
    Api,
    Servers,
}

/// The progress of one part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) answered: usize,
    /// Requests that failed or were not answered in time.
    pub(crate) failed: usize,
    /// Requests that have neither been answered nor failed.
    pub(crate) pending: usize,
    /// Names of the first pending requests, in the order in which they were sent.
    pub(crate) first: Vec<String>,
}

/// Counters of a part. Only pending requests are kept by name, because there may be thousands of machines.
#[derive(Debug, Default)]
struct Counted {
    asked: usize,
    answered: usize,
    failed: usize,
    /// Names by the order in which the requests were sent.
    pending: BTreeMap<usize, String>,
}

/// Number of pending requests that are named.
const NAMED: usize = 3;

/// Shared between the round and its display, which run in one task.
#[derive(Debug, Default)]
pub(crate) struct Awaited(RefCell<BTreeMap<Part, Counted>>);

impl Awaited {
    pub(crate) fn begin(&self) {
        self.0.borrow_mut().clear();
    }

    /// Awaits one request of a part and counts its outcome.
    pub(crate) async fn one<T>(
        &self,
        part: Part,
        name: String,
        has_answered: impl FnOnce(&T) -> bool,
        work: impl Future<Output = T>,
    ) -> T {
        let place = self.ask(part, name);
        let answer = work.await;
        if let Some(counted) = self.0.borrow_mut().get_mut(&part) {
            counted.pending.remove(&place);
            *(if has_answered(&answer) { &mut counted.answered } else { &mut counted.failed }) += 1;
        }
        answer
    }

    fn ask(&self, part: Part, name: String) -> usize {
        let mut parts = self.0.borrow_mut();
        let counted = parts.entry(part).or_default();
        counted.asked += 1;
        counted.pending.insert(counted.asked, name);
        counted.asked
    }

    pub(crate) fn parts(&self) -> BTreeMap<Part, Progress> {
        let progress = |counted: &Counted| {
            let Counted { answered, failed, ref pending, .. } = *counted;
            let first = pending.values().take(NAMED).cloned().collect();
            Progress { answered, failed, pending: pending.len(), first }
        };
        self.0.borrow().iter().map(|(part, counted)| (*part, progress(counted))).collect()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::future::{pending, ready};

    use super::*;

    #[test]
    fn counts_who_answered_and_names_who_is_awaited() {
        let awaited = Awaited::default();
        let node = |name: &str, is_up: bool| awaited.one(Part::Nodes, name.to_owned(), move |()| is_up, ready(()));
        node("cp-1", true).now_or_never().unwrap();
        node("cp-2", false).now_or_never().unwrap();
        let hangs = awaited.one(Part::Nodes, "cp-3".to_owned(), |()| true, pending());
        assert!(hangs.now_or_never().is_none());
        let expected = Progress { answered: 1, failed: 1, pending: 1, first: vec!["cp-3".to_owned()] };
        assert_eq!(awaited.parts(), BTreeMap::from([(Part::Nodes, expected)]));
        awaited.begin();
        assert_eq!(awaited.parts(), BTreeMap::new());
    }
}
