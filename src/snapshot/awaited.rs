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
    /// Those that neither has happened to, in the order in which they were asked.
    pub(crate) pending: Vec<String>,
}

/// Shared between the round and who shows it; both belong to one task.
#[derive(Debug, Default)]
pub(crate) struct Awaited(RefCell<BTreeMap<Part, Progress>>);

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
        self.0.borrow_mut().entry(part).or_default().pending.push(name.clone());
        let answer = work.await;
        let mut parts = self.0.borrow_mut();
        let progress = parts.entry(part).or_default();
        if let Some(place) = progress.pending.iter().position(|it| *it == name) {
            progress.pending.remove(place);
        }
        if has_answered(&answer) {
            progress.answered += 1;
        } else {
            progress.failed += 1;
        }
        drop(parts);
        answer
    }

    pub(crate) fn parts(&self) -> BTreeMap<Part, Progress> {
        self.0.borrow().clone()
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
        let node = |name: &str, is_up: bool| awaited.one(Part::Nodes, name.to_owned(), move |_| is_up, ready(()));
        node("cp-1", true).now_or_never().unwrap();
        node("cp-2", false).now_or_never().unwrap();
        let hangs = awaited.one(Part::Nodes, "cp-3".to_owned(), |()| true, pending());
        assert!(hangs.now_or_never().is_none());
        let expected = Progress { answered: 1, failed: 1, pending: vec!["cp-3".to_owned()] };
        assert_eq!(awaited.parts(), BTreeMap::from([(Part::Nodes, expected)]));
        awaited.begin();
        assert_eq!(awaited.parts(), BTreeMap::new());
    }
}
