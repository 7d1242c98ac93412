//! Go's durations (`90s`, `5m`, `1h30m`), as talosctl and kubectl take them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A duration as typed: not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GoDuration(pub(crate) Duration);

const UNITS: [(&str, f64); 7] =
    [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

impl FromStr for GoDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with('-') {
            return Err("a duration cannot be negative".to_owned());
        }
        let mut rest = text.strip_prefix('+').unwrap_or(text);
        if rest == "0" {
            return Ok(Self(Duration::ZERO));
        }
        let mut seconds = 0.0;
        if rest.is_empty() {
            return Err(expected());
        }
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(expected)?;
            let number: f64 = rest[..digits].parse().map_err(|_| expected())?;
            let letters =
                rest[digits..].find(|c: char| c.is_ascii_digit() || c == '.').map_or(rest.len(), |n| n + digits);
            let unit = &rest[digits..letters];
            let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(expected)?;
            seconds += number * factor;
            rest = &rest[letters..];
        }
        Duration::try_from_secs_f64(seconds).map(Self).map_err(|_| "the duration is too long".to_owned())
    }
}

fn expected() -> String {
    "expected a duration such as `90s`, `5m` or `1h30m`".to_owned()
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&human(self.0))
    }
}

/// `0.4s`, `41s`, `5m00s`, `1h05m`: for people, never longer than needed.
pub(crate) fn human(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 if duration.subsec_millis() > 0 => format!("{:.1}s", duration.as_secs_f64()),
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
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
    }
}
