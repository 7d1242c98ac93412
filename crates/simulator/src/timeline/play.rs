//! Applies steps at their time.

use std::io::Write as _;
use std::sync::Arc;

use super::waiting::Waiting;
use super::{Step, When};
use crate::state::ClusterState;
use crate::world::Server;

/// A running cluster with scheduled changes.
#[derive(Clone)]
pub(crate) struct Timeline {
    pub(crate) state: Arc<ClusterState>,
    waiting: Arc<Waiting>,
}

impl Timeline {
    pub(crate) fn new(state: ClusterState) -> Self {
        let waiting = Arc::new(Waiting::default());
        let asked = Arc::clone(&waiting);
        let state = state.on_call(move |state: &ClusterState, server: &Server, call: &str| {
            asked.called(state, server, call).iter().for_each(|step| come(state, step));
        });
        Self { state: Arc::new(state), waiting }
    }

    /// Makes the steps that are due now, and schedules the others. Must run inside the cluster's runtime.
    ///
    /// # Errors
    /// If a step that is due now cannot be made, or a later one names something that the world does not have; then none is made.
    pub(crate) fn play(&self, steps: Vec<Step>) -> anyhow::Result<()> {
        let state = &self.state;
        let (now, later): (Vec<_>, Vec<_>) = steps.into_iter().partition(|step| step.when == When::Now);
        if now.is_empty() {
            // Without a change, followers must not be notified.
            let world = state.world();
            later.iter().try_for_each(|step| step.check(&world))?;
        } else {
            state.change_wholly(|world| {
                later.iter().try_for_each(|step| step.check(world))?;
                now.iter().try_for_each(|step| step.make(world))
            })?;
        }
        let mut timed = Vec::new();
        for step in later {
            match step.when.clone() {
                When::Now => {}
                When::After(delay) => timed.push((delay, step)),
                When::Asked(asked) => self.waiting.add(asked, step),
            }
        }
        // Steps with equal times keep their order.
        timed.sort_by_key(|(delay, _)| *delay);
        let begin = tokio::time::Instant::now();
        let state = Arc::clone(state);
        tokio::spawn(async move {
            for (delay, step) in timed {
                tokio::time::sleep_until(begin + delay).await;
                come(&state, &step);
            }
        });
        Ok(())
    }
}

/// Makes a step when its time has come. Since there is no caller for its result, an error goes to standard error.
fn come(state: &ClusterState, step: &Step) {
    if let Err(error) = state.change_wholly(|world| step.make(world)) {
        let _ = writeln!(std::io::stderr(), "simulator: {error:#}");
    }
}
