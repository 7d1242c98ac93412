//! Timing of a run.

use std::time::Duration;

use super::Usage;
use crate::cli::TimingOptions;

/// The times of a run, free of contradictions.
pub(super) struct Times {
    /// `None`: one pass.
    pub(super) wait_timeout: Option<Duration>,
    pub(super) stable_for: Option<Duration>,
    pub(super) interval: Duration,
    pub(super) attempt_timeout: Duration,
}

pub(super) fn times(args: &TimingOptions) -> Result<Times, Usage> {
    // Zero is "not given", as everywhere in Kubernetes: one full pass.
    let wait_timeout = args.wait_timeout.map(|wait| wait.0).filter(|wait| !wait.is_zero());
    let stable_for = args.stable_for.map(|stable| stable.0).filter(|stable| !stable.is_zero());
    check_times(args, wait_timeout, stable_for)?;
    let attempt_timeout = attempt_timeout(args.attempt_timeout.0, wait_timeout);
    Ok(Times { wait_timeout, stable_for, interval: args.interval.0, attempt_timeout })
}

fn check_times(
    args: &TimingOptions,
    wait_timeout: Option<Duration>,
    stable_for: Option<Duration>,
) -> Result<(), Usage> {
    if args.interval.0.is_zero() {
        return Err(Usage::new("`--interval` must be longer than 0"));
    }
    if args.attempt_timeout.0 < Duration::from_millis(100) {
        return Err(Usage::new("`--attempt-timeout` must be at least 100ms"));
    }
    // Far deadlines would overflow the clock.
    let year = Duration::from_secs(365 * 86_400);
    let times = [
        ("wait-timeout", wait_timeout),
        ("interval", Some(args.interval.0)),
        ("attempt-timeout", Some(args.attempt_timeout.0)),
    ];
    if let Some((name, _)) = times.iter().find(|(_, time)| time.is_some_and(|time| time > year)) {
        return Err(Usage::new(format!("`--{name}` must be shorter than a year")));
    }
    match (stable_for, wait_timeout) {
        (Some(_), None) => Err(Usage::new("`--stable-for` needs a `--wait-timeout` that is longer")),
        (Some(stable), Some(wait)) if stable >= wait => {
            Err(Usage::new("`--stable-for` must be shorter than `--wait-timeout`"))
        }
        _ => Ok(()),
    }
}

/// Returns the time limit of a round. A round must end before the deadline even if no machine answers: only a complete
/// round names the silent ones.
fn attempt_timeout(asked: Duration, wait_timeout: Option<Duration>) -> Duration {
    wait_timeout.map_or(asked, |wait| asked.min(wait * 9 / 10))
}
