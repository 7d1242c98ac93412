//! Output for CI systems in addition to the report, in their own formats and on stderr: GitHub annotations and the summary of the step,
//! GitLab sections. Every other system gets plain lines and nothing else.

mod github;
mod gitlab;

use std::io::{self, Write};

use clap::ValueEnum;

pub(crate) use self::github::Summary;
pub(crate) use self::gitlab::Section;
use crate::model::Exit;
use crate::report::Report;
use crate::report::view::style::TextStyle;
use crate::report::view::{self, verdict};
use crate::text::lines::Lines;

/// Values of `--ci`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum CiChoice {
    /// Detect the CI system
    #[default]
    Auto,
    Github,
    Gitlab,
    None,
}

/// The CI system whose formats are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ci {
    Github,
    Gitlab,
    None,
}

impl Ci {
    /// Returns the system that `--ci` names, or else the one that announces itself by its variable.
    pub(crate) fn decide(choice: CiChoice, env: impl Fn(&str) -> Option<String>) -> Self {
        let announced = |name: &str| env(name).as_deref() == Some("true");
        match choice {
            CiChoice::Github => Self::Github,
            CiChoice::Gitlab => Self::Gitlab,
            CiChoice::Auto if announced("GITHUB_ACTIONS") => Self::Github,
            CiChoice::Auto if announced("GITLAB_CI") => Self::Gitlab,
            CiChoice::Auto | CiChoice::None => Self::None,
        }
    }

    /// Reports the end of a run, after its report has been written. `in_log`: the log has the report as text; `summary`: the file that
    /// GitHub names for it. A closed `out` is not an error: the verdict is the exit code.
    pub(crate) fn conclude(
        self,
        report: &Report,
        in_log: bool,
        summary: Option<Summary>,
        mut out: impl Write,
    ) -> anyhow::Result<()> {
        match self {
            Self::Github => {
                let _ = github::annotate(report, &mut out);
                summary.map_or(Ok(()), |summary| summary.append(report))
            }
            Self::Gitlab => {
                // The section is folded, so problems have to be printed outside of it.
                if !in_log && report.exit != Exit::Healthy {
                    let _ = plainly(report, &mut Lines::new(&mut out));
                }
                Ok(())
            }
            Self::None => Ok(()),
        }
    }
}

/// Writes the end of the text report.
fn plainly(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let style = TextStyle::default();
    let mut lines = vec![verdict::line(report, &style)];
    verdict::notes(report, &style, &mut lines);
    let index = view::index::Index::of(report);
    view::details(&index, &view::causes::of(&index, &style), &style, &mut lines);
    lines.iter().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_announces_itself_and_the_option_beats_both() {
        let decide = |choice, set: &str| Ci::decide(choice, |name| (name == set).then(|| "true".to_owned()));
        assert_eq!(decide(CiChoice::Auto, "GITHUB_ACTIONS"), Ci::Github);
        assert_eq!(decide(CiChoice::Auto, "GITLAB_CI"), Ci::Gitlab);
        for other in ["CI", "TF_BUILD", "JENKINS_URL", "BUILDKITE", "TEAMCITY_VERSION"] {
            assert_eq!(decide(CiChoice::Auto, other), Ci::None, "{other}");
        }
        assert_eq!(decide(CiChoice::None, "GITHUB_ACTIONS"), Ci::None);
        assert_eq!(decide(CiChoice::Gitlab, "GITHUB_ACTIONS"), Ci::Gitlab);
        assert_eq!(decide(CiChoice::Github, ""), Ci::Github);
    }
}
