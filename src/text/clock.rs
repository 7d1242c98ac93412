//! The wall clock, which may be set to any time.

use std::time::SystemTime;

use jiff::Timestamp;

/// Returns the current time, or the nearest representable one, because the clock of a machine that is booting may be
/// set to any year.
pub(crate) fn now() -> Timestamp {
    dated(SystemTime::now())
}

fn dated(time: SystemTime) -> Timestamp {
    let limit = if time < SystemTime::UNIX_EPOCH { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::try_from(time).unwrap_or(limit)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_without_a_date_is_no_panic() {
        let far = Duration::from_secs(1 << 40);
        assert_eq!(dated(SystemTime::UNIX_EPOCH), Timestamp::UNIX_EPOCH);
        assert_eq!(dated(SystemTime::UNIX_EPOCH + far), Timestamp::MAX);
        assert_eq!(dated(SystemTime::UNIX_EPOCH - far), Timestamp::MIN);
    }
}
