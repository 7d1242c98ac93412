//! How much work something is, however busy the machine is that does it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What this thread has worked, however busy the machine is.
fn worked() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// The least of three times; of what takes long, once will do.
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

/// Whether ten times as much of something was a hundred times the work, or more than thirty. Four milliseconds are
/// what memory that is touched for the first time may take.
pub(crate) fn is_square(few: Duration, many: Duration) -> bool {
    many > 30 * few.max(Duration::from_millis(4))
}
