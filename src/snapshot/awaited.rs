//! How far a round has come, for whoever watches it: what was asked, what has answered, and what is still awaited.
//!
//! No fact: nothing is judged by it.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// What a round asks side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Endpoints,
    Nodes,
    Etcd,
    Api,
    Servers,
}

/// One of them, as far as it has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) answered: usize,
    /// Those that have failed, or do not answer in time.
    pub(crate) failed: usize,
    /// Those that neither has happened to.
    pub(crate) pending: usize,
    /// The first of them, in the order in which they were asked.
    pub(crate) first: Vec<String>,
}

/// What is counted of a part. There may be thousands of machines.
#[derive(Debug, Default)]
struct Counted {
    asked: usize,
    answered: usize,
    failed: usize,
    /// By when it was asked.
    pending: BTreeMap<usize, String>,
}

/// So many of those that are awaited are named.
const NAMED: usize = 3;

/// Shared between the round and who shows it; both belong to one task.
#[derive(Debug, Default)]
pub(crate) struct Awaited(RefCell<BTreeMap<Part, Counted>>);

impl Awaited {
    pub(crate) fn begin(&self) {
        self.0.borrow_mut().clear();
    }

    /// Awaits one of a part.
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
