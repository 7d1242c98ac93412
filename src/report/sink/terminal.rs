//! Capabilities of a stream: one pure decision each, made once for each stream.

use clap::ValueEnum;

use super::ci::Ci;

/// Values of `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

/// Columns and lines of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) lines: usize,
}

/// Whether a stream gets color. The flag overrides `NO_COLOR`, which overrides `CLICOLOR_FORCE` and `FORCE_COLOR`, which override
/// `CLICOLOR=0` and `TERM=dumb`. Otherwise a terminal gets color, and so do the log viewers of GitHub and GitLab, which show it without
/// being terminals.
pub(crate) fn color(flag: Color, terminal: bool, ci: Ci, env: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &str| env(name).is_some_and(|value| !value.is_empty());
    let forced = |name: &str| env(name).is_some_and(|value| !value.is_empty() && value != "0" && value != "false");
    match flag {
        Color::Always => true,
        Color::Never => false,
        Color::Auto if set("NO_COLOR") => false,
        Color::Auto if forced("CLICOLOR_FORCE") || forced("FORCE_COLOR") => true,
        Color::Auto if env("CLICOLOR").as_deref() == Some("0") || env("TERM").as_deref() == Some("dumb") => false,
        Color::Auto => terminal || ci != Ci::None,
    }
}

/// Whether only ASCII is shown, because the locale is not UTF-8. If no locale is set at all, as in most containers, the reader of the log
/// has one.
pub(crate) fn ascii(env: impl Fn(&str) -> Option<String>) -> bool {
    let locale =
        ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| env(name).filter(|value| !value.is_empty()));
    let is_utf8 = |locale: String| locale.to_ascii_lowercase().replace('-', "").contains("utf8");
    !locale.is_none_or(is_utf8)
}

/// Whether stderr may be redrawn: only on a terminal that supports it, and not in CI, where logs keep every frame.
pub(crate) fn redraws(terminal: bool, ci: Ci, env: impl Fn(&str) -> Option<String>) -> bool {
    let in_ci =
        ["CI", "BUILD_ID", "JENKINS_URL", "GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE", "TEAMCITY_VERSION", "TF_BUILD"]
            .iter()
            .any(|name| env(name).is_some_and(|value| !value.is_empty() && value != "false"));
    let can = env("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
    terminal && can && !in_ci && ci == Ci::None
}

/// Whether stdout gets links: only with color, on a terminal that declares support for them, and never in a log or a pipe.
pub(crate) fn links(flag: Color, terminal: bool, ci: Ci, env: impl Fn(&str) -> Option<String>) -> bool {
    color(flag, terminal, ci, &env)
        && redraws(terminal, ci, env)
        && supports_hyperlinks::on(supports_hyperlinks::Stream::Stdout)
}

/// Returns the size of a terminal, or `None` for anything else.
pub(crate) fn size(stream: &impl std::os::fd::AsFd) -> Option<Size> {
    let (terminal_size::Width(columns), terminal_size::Height(lines)) = terminal_size::terminal_size_of(stream)?;
    Some(Size { columns: usize::from(columns), lines: usize::from(lines) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sink::ci::CiChoice;

    fn decide(flag: Color, terminal: bool, variables: &[(&str, &str)]) -> bool {
        let env = |name: &str| value(variables, name);
        color(flag, terminal, Ci::decide(CiChoice::Auto, env), env)
    }

    fn value(variables: &[(&str, &str)], name: &str) -> Option<String> {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn a_pipe_and_a_log_have_no_links() {
        for (flag, terminal, variables) in [
            (Color::Always, false, &[("TERM", "xterm")][..]),
            (Color::Never, true, &[("TERM", "xterm")]),
            (Color::Always, true, &[("TERM", "xterm"), ("CI", "true")]),
            (Color::Always, true, &[("TERM", "dumb")]),
        ] {
            let env = |name: &str| value(variables, name);
            assert!(!links(flag, terminal, Ci::decide(CiChoice::Auto, env), env), "{flag:?} {terminal} {variables:?}");
        }
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
        let term = ("TERM", "xterm");
        let redraws = |terminal, ci, variables: &[(&str, &str)]| redraws(terminal, ci, |name| value(variables, name));
        assert!(redraws(true, Ci::None, &[term]));
        assert!(redraws(true, Ci::None, &[term, ("CI", "false")]));
        assert!(!redraws(false, Ci::None, &[term]));
        assert!(!redraws(true, Ci::None, &[term, ("CI", "true")]));
        assert!(!redraws(true, Ci::Gitlab, &[term]));
        assert!(!redraws(true, Ci::None, &[("TERM", "dumb")]));
        assert!(!redraws(true, Ci::None, &[]));
    }

    #[test]
    fn a_locale_that_is_not_utf_8_has_ascii_only() {
        let ascii = |variables: &[(&str, &str)]| ascii(|name| value(variables, name));
        for plain in ["C", "POSIX", "en_US", "de_DE.ISO-8859-1", "ja_JP.eucJP"] {
            assert!(ascii(&[("LC_ALL", plain)]), "{plain}");
        }
        for more in ["C.UTF-8", "en_US.utf8", "UTF-8", "ca_ES.UTF-8@valencia", ""] {
            assert!(!ascii(&[("LANG", more)]), "{more}");
        }
        assert!(!ascii(&[]));
        assert!(ascii(&[("LC_ALL", "C"), ("LANG", "C.UTF-8")]), "the first that is set counts");
        assert!(!ascii(&[("LC_ALL", ""), ("LC_CTYPE", "C.UTF-8"), ("LANG", "C")]));
    }
}
