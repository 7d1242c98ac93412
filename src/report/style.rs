//! Colour: one pure decision, made once for each stream.

use crate::checks::Status;
use crate::cli::Color;

/// Whether a stream gets colour. The flag beats `NO_COLOR`, which beats `CLICOLOR_FORCE` and `FORCE_COLOR`, which beat
/// `TERM=dumb`; then a terminal has colour, and the log viewers of GitHub and GitLab show it without being one.
pub(crate) fn colour(flag: Color, terminal: bool, env: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &str| env(name).is_some_and(|value| !value.is_empty());
    let forced = |name: &str| env(name).is_some_and(|value| !value.is_empty() && value != "0" && value != "false");
    match flag {
        Color::Always => true,
        Color::Never => false,
        Color::Auto if set("NO_COLOR") => false,
        Color::Auto if forced("CLICOLOR_FORCE") || forced("FORCE_COLOR") => true,
        Color::Auto if env("CLICOLOR").as_deref() == Some("0") || env("TERM").as_deref() == Some("dumb") => false,
        Color::Auto => {
            terminal || ["GITHUB_ACTIONS", "GITLAB_CI"].iter().any(|name| env(name).as_deref() == Some("true"))
        }
    }
}

/// Whether stderr may be redrawn: only on a terminal, and not in CI, whose logs keep every frame.
pub(crate) fn redraws(terminal: bool, env: impl Fn(&str) -> Option<String>) -> bool {
    let ci =
        ["CI", "BUILD_ID", "JENKINS_URL", "GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE", "TEAMCITY_VERSION", "TF_BUILD"]
            .iter()
            .any(|name| env(name).is_some_and(|value| !value.is_empty() && value != "false"));
    terminal && !ci && env("TERM").as_deref() != Some("dumb")
}

/// The width of a terminal; `None` for anything else.
pub(crate) fn columns(stream: &impl std::os::fd::AsFd) -> Option<usize> {
    terminal_size::terminal_size_of(stream).map(|(terminal_size::Width(columns), _)| usize::from(columns))
}

/// Colours by their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Good,
    Caution,
    Bad,
    Heading,
}

/// `text`, painted if `on`. Words carry the meaning; the colour only repeats it.
pub(crate) fn paint(on: bool, paint: Paint, text: &str) -> String {
    if !on {
        return text.to_owned();
    }
    let code = match paint {
        Paint::Good => "32",
        Paint::Caution => "33",
        Paint::Bad => "1;31",
        Paint::Heading => "1",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// One character for a status in a grid. What is not known looks like neither a pass nor a failure.
pub(crate) fn mark(status: Option<Status>, ascii: bool) -> char {
    let (mark, plain) = match status {
        None | Some(Status::Skip) => ('·', '.'),
        Some(Status::Pass) => ('✓', '+'),
        Some(Status::Warn) => ('!', '!'),
        Some(Status::Blocked | Status::Error) => ('?', '?'),
        Some(Status::Fail) => ('✗', 'x'),
    };
    if ascii { plain } else { mark }
}

/// The colour of a status.
pub(crate) fn paint_of(status: Status) -> Paint {
    match status {
        Status::Skip | Status::Pass => Paint::Good,
        Status::Warn | Status::Blocked => Paint::Caution,
        Status::Error | Status::Fail => Paint::Bad,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(flag: Color, terminal: bool, variables: &[(&str, &str)]) -> bool {
        colour(flag, terminal, |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn flag_beats_variables_beat_terminal() {
        assert!(decide(Color::Always, false, &[("NO_COLOR", "1")]));
        assert!(!decide(Color::Never, true, &[("FORCE_COLOR", "1")]));
        assert!(!decide(Color::Auto, true, &[("NO_COLOR", "1"), ("FORCE_COLOR", "1")]));
        assert!(decide(Color::Auto, true, &[("NO_COLOR", "")]));
        assert!(decide(Color::Auto, false, &[("CLICOLOR_FORCE", "1"), ("TERM", "dumb")]));
        assert!(!decide(Color::Auto, false, &[("CLICOLOR_FORCE", "0")]));
        assert!(!decide(Color::Auto, true, &[("TERM", "dumb")]));
        assert!(!decide(Color::Auto, true, &[("CLICOLOR", "0")]));
        assert!(decide(Color::Auto, true, &[]));
        assert!(!decide(Color::Auto, false, &[]));
        assert!(decide(Color::Auto, false, &[("GITHUB_ACTIONS", "true")]));
        assert!(decide(Color::Auto, false, &[("GITLAB_CI", "true")]));
    }

    #[test]
    fn redraws_only_a_terminal_outside_ci() {
        assert!(redraws(true, |_| None));
        assert!(!redraws(false, |_| None));
        assert!(!redraws(true, |name| (name == "CI").then(|| "true".to_owned())));
        assert!(!redraws(true, |name| (name == "TERM").then(|| "dumb".to_owned())));
    }
}
