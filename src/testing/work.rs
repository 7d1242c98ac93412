//! Measures work in CPU time, which does not depend on the load of the machine.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time of this thread.
fn worked() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// The shortest of three measurements; a single one is enough for long work.
pub(crate) fn work<T>(of: impl Fn() -> T) -> Duration {
    let once = || {
        let before = worked();
        let made = of();
        let work = worked().saturating_sub(before);
        drop(made);
        work
    };
    let first = once();
    if first > Duration::from_millis(40) { first } else { first.min(once()).min(once()) }
}

/// Returns whether the work grew by more than a factor of thirty, when ten times the input should take ten times the
/// work rather than a hundred times. First-time access to memory can take four milliseconds.
pub(crate) fn is_square(few: Duration, many: Duration) -> bool {
    many > 30 * few.max(Duration::from_millis(4))
}
