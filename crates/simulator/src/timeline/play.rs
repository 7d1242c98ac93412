//! Steps come about.

use std::io::Write as _;
use std::sync::Arc;

use super::{Step, When};
use crate::shared::Shared;

/// Makes the steps that are due now, and has the others come when it is time for them. Runs inside of the cluster's runtime.
///
/// # Errors
/// If a step that is due now cannot be made, or a later one names what the world has not; then none is made.
pub(crate) fn play(shared: &Arc<Shared>, steps: Vec<Step>) -> anyhow::Result<()> {
    let (now, later): (Vec<_>, Vec<_>) = steps.into_iter().partition(|step| step.when == When::Now);
    if now.is_empty() {
        // Nobody is told of a change where there is none.
        let world = shared.world();
        later.iter().try_for_each(|step| step.check(&world))?;
    } else {
        shared.change_wholly(|world| {
            later.iter().try_for_each(|step| step.check(world))?;
            now.iter().try_for_each(|step| step.make(world))
        })?;
    }
    let mut timed = Vec::new();
    for step in later {
        match step.when.clone() {
            When::Now => {}
            When::After(delay) => timed.push((delay, step)),
            When::Asked(asked) => shared.waiting.add(asked, step),
        }
    }
    // Those of one time come in the order in which they were given.
    timed.sort_by_key(|(delay, _)| *delay);
    let begin = tokio::time::Instant::now();
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        for (delay, step) in timed {
            tokio::time::sleep_until(begin + delay).await;
            come(&shared, &step);
        }
    });
    Ok(())
}

/// It is time for a step. Nobody waits for its result: what the world does not have any more is said on standard error.
pub(crate) fn come(shared: &Shared, step: &Step) {
    if let Err(error) = shared.change_wholly(|world| step.make(world)) {
        let _ = writeln!(std::io::stderr(), "simulator: {error:#}");
    }
}
