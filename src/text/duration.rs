//! Go's durations (`90s`, `5m`, `1h30m`), as accepted by talosctl and kubectl.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::fmt::friendly::SpanParser;

/// A non-negative duration from the command line.
///
/// Unlike Go, it accepts each unit only once and the largest first, requires digits on both sides of a decimal point, and allows a fraction
/// only in the last unit: not `1h1h`, `.5s` or `1.5h30m`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GoDuration(pub(crate) Duration);

impl FromStr for GoDuration {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected a duration such as `90s`, `5m` or `1h30m`";
        match text {
            "0" | "+0" => Ok(Self::default()),
            _ if text.starts_with('-') => Err("a duration cannot be negative"),
            // jiff also accepts days, spaces and words.
            _ if text.contains(|c: char| !"0123456789.+hmsnuµ".contains(c)) => Err(EXPECTED),
            _ => SpanParser::new().parse_unsigned_duration(text).map(Self).map_err(|_| EXPECTED),
        }
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            // Go has to be able to read it, and nothing is rounded.
            seconds @ ROUNDED.. => f.write_str(&hours(seconds)),
            _ => f.write_str(&human(self.0)),
        }
    }
}

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
/// Longer durations are shown without their smaller units.
const ROUNDED: u64 = 8 * HOUR;

/// Formats a duration for people, as short as possible: `0.4s`, `41s`, `5m00s`, `1h05m`; from 8 hours on as kubectl does: `30h`, `3d5h`,
/// `59d`.
pub(crate) fn human(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let days = seconds / DAY;
    let hours_left = seconds % DAY / HOUR;
    match seconds {
        0..10 if duration.subsec_millis() > 0 => format!("{:.1}s", duration.as_secs_f64()),
        0..60 => format!("{seconds}s"),
        60..HOUR => format!("{}m{:02}s", seconds / 60, seconds % 60),
        HOUR..ROUNDED => hours(seconds),
        _ if days < 2 => format!("{}h", seconds / HOUR),
        _ if days < 8 && hours_left > 0 => format!("{days}d{hours_left}h"),
        _ => format!("{days}d"),
    }
}

fn hours(seconds: u64) -> String {
    format!("{}h{:02}m", seconds / HOUR, seconds % HOUR / 60)
}

/// Truncates to whole milliseconds, the precision of documents, so that the output of a run can be reproduced from its document.
pub(crate) fn whole(duration: Duration) -> Duration {
    Duration::new(duration.as_secs(), duration.subsec_millis() * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_go_reads() {
        for (text, milliseconds) in
            [("0", 0), ("0s", 0), ("90s", 90_000), ("5m", 300_000), ("1h30m", 5_400_000), ("1.5s", 1500), ("+2ms", 2)]
        {
            assert_eq!(text.parse(), Ok(GoDuration(Duration::from_millis(milliseconds))), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        for text in ["", "5", "-5s", "5 m", "m", "1d", "soon", "1..5s", "s5", "999999999999999999999h"] {
            assert!(text.parse::<GoDuration>().is_err(), "{text}");
        }
    }

    #[test]
    fn shows_short_times() {
        let shown = |ms| human(Duration::from_millis(ms));
        assert_eq!(
            [shown(0), shown(400), shown(41_012), shown(300_000), shown(3_900_000)],
            ["0s", "0.4s", "41s", "5m00s", "1h05m"]
        );
        let shown = |hours: u64, minutes: u64| human(Duration::from_secs(hours * HOUR + minutes * 60));
        assert_eq!(
            [shown(7, 59), shown(8, 1), shown(47, 59), shown(48, 0), shown(77, 1), shown(1436, 54)],
            ["7h59m", "8h", "47h", "2d", "3d5h", "59d"]
        );
    }

    #[test]
    fn an_option_is_shown_as_it_can_be_typed() {
        for text in ["90s", "1h30m", "8h30m", "168h00m"] {
            let shown = text.parse::<GoDuration>().unwrap().to_string();
            assert_eq!(shown.parse::<GoDuration>(), text.parse(), "{text}: {shown}");
        }
    }
}
