//! How much work something is, however busy the machine is that does it.

use std::time::Duration;

/// What this thread has worked, however busy the machine is.
fn worked() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(told.split(' ').next().unwrap().parse().unwrap())
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

/// Whether ten times as much of something was a hundred times the work, or more than thirty. The kernel counts in steps of four
/// milliseconds.
pub(crate) fn is_square(few: Duration, many: Duration) -> bool {
    many > 30 * few.max(Duration::from_millis(4))
}
