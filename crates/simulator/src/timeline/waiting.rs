//! Changes that wait for a call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{Asked, Kind, Step};
use crate::state::ClusterState;
use crate::world::{Server, World, fits};

/// Changes that wait for calls.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Whether there are any. Every call checks this first, because most clusters have none.
    any: AtomicBool,
    changes: Mutex<Vec<(Asked, Step)>>,
}

impl Waiting {
    pub(super) fn add(&self, asked: Asked, step: Step) {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        changes.push((asked, step));
        self.any.store(true, Ordering::Release);
    }

    /// Counts a call, and returns the changes that precede its answer.
    pub(super) fn called(&self, state: &ClusterState, server: &Server, call: &str) -> Vec<Step> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due = Vec::new();
        changes.retain_mut(|(asked, step)| {
            let kind = asked.server.is_none_or(|kind| kind == Kind::of(server).0);
            if !kind || !fits(&asked.call, call) || !asked.is_of(&state.world(), server) {
                return true;
            }
            asked.times -= 1;
            if asked.times == 0 {
                due.push(step.clone());
            }
            asked.times > 0
        });
        self.any.store(!changes.is_empty(), Ordering::Release);
        due
    }
}

impl Asked {
    /// Whether a server is on the machine that receives the awaited call.
    fn is_of(&self, world: &World, server: &Server) -> bool {
        let Some(node) = &self.node else { return true };
        let machine = Kind::of(server).1.and_then(|at| world.machines.get(&at));
        machine.is_some_and(|machine| machine.name == *node)
    }
}
