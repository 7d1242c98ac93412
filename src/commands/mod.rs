//! The commands that look at no cluster: what is known from the tables alone.

mod explain;
mod list;
mod manual;
mod rbac;

use std::fmt::Write as _;
use std::io::{self, Write};

use clap::CommandFactory as _;

use crate::checks::{self, Check};
use crate::cli::{Cli, Command, ListOutput};
use crate::exit::Exit;
use crate::report::{format, json};

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// Exit code 2.
    Usage(String),
    /// stdout; a closed pipe is no error for the caller.
    Io(io::Error),
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Runs a command with the checks of the table.
pub(crate) fn run(command: &Command, out: &mut impl Write) -> Result<(), CommandError> {
    match command {
        Command::List { output } => list::write(checks::ALL, *output, out)?,
        Command::Explain { topic } => explain::write(topic, checks::ALL, out)?,
        Command::Schema => out.write_all(json::SCHEMA.as_bytes())?,
        Command::Completions { shell } => out.write_all(&manual::completions(*shell))?,
        Command::Man => out.write_all(&manual::page()?)?,
        Command::Version { output } => version(*output, out)?,
        Command::Rbac => rbac::write(checks::ALL, out)?,
    }
    out.flush()?;
    Ok(())
}

/// The command line with the exit codes and examples at the end of `--help`. `main` parses with it.
pub(crate) fn command() -> clap::Command {
    let mut text = String::from("Exit codes:\n");
    for exit in Exit::ALL {
        let _ = writeln!(text, "  {:>3}  {}", exit.code(), exit.meaning());
    }
    text.push_str("\nExamples:\n");
    for (line, about) in EXAMPLES {
        let _ = writeln!(text, "  # {about}\n  {line}");
    }
    Cli::command().after_long_help(text)
}

const EXAMPLES: [(&str, &str); 6] = [
    (
        "cluster-health --wait-timeout 5m || exit 1",
        "go on only if the cluster is healthy, or becomes so within five minutes",
    ),
    ("cluster-health --wait-timeout 15m --stable-for 2m", "after an upgrade: healthy, and for two minutes in a row"),
    (
        "cluster-health --wait-timeout 5m --report junit=health.xml --report json=health.json",
        "in CI, with reports that are there even if the job is killed",
    ),
    ("cluster-health --level etcd --require-quorum-margin 1", "before a control plane is taken down"),
    ("cluster-health -o json | jq -r '.checks[].problems[].reason'", "the reason codes of what is wrong"),
    ("cluster-health explain quorum-lost", "what a reason code means, and what to do"),
];

fn version(output: ListOutput, out: &mut impl Write) -> io::Result<()> {
    let (name, version, commit) =
        (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), option_env!("CLUSTER_HEALTH_COMMIT"));
    match (output, commit) {
        (ListOutput::Text, Some(commit)) => writeln!(out, "{name} {version} ({commit})"),
        (ListOutput::Text, None) => writeln!(out, "{name} {version}"),
        (ListOutput::Json, commit) => {
            let formats = format::ALL.map(
                |it| serde_json::json!({ "name": it.name, "mediaType": it.media_type, "extension": it.extension }),
            );
            let document = serde_json::json!({
                "name": name,
                "version": version,
                "commit": commit,
                "schemaVersion": json::SCHEMA_VERSION,
                "formats": formats,
            });
            writeln!(out, "{document:#}")
        }
    }
}

/// What the credentials must allow for a check.
fn needs(check: &Check) -> Vec<String> {
    let mut needs = Vec::new();
    // os:admin is before os:reader, and may read what that one may.
    if let Some(role) = check.facts.iter().filter_map(|fact| fact.role()).min() {
        needs.push(format!("Talos role {role}"));
    }
    let rights: std::collections::BTreeSet<_> = check.facts.iter().filter_map(|fact| fact.right()).collect();
    needs.extend(rights.into_iter().map(|right| match right {
        checks::Right::Resource("", plural) => format!("get, list {plural}"),
        checks::Right::Resource(group, plural) => format!("get, list {plural}.{group}"),
        checks::Right::Url(url) => format!("get {url}"),
    }));
    needs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_ends_with_every_exit_code() {
        let help = command().render_long_help().to_string();
        for exit in Exit::ALL {
            assert!(help.contains(&format!("{:>3}  {}", exit.code(), exit.meaning())), "{}", exit.code());
        }
        command().debug_assert();
    }

    #[test]
    fn every_command_writes() {
        for command in [
            Command::List { output: ListOutput::Text },
            Command::List { output: ListOutput::Json },
            Command::Explain { topic: "quorum-lost".to_owned() },
            Command::Schema,
            Command::Completions { shell: clap_complete::Shell::Bash },
            Command::Man,
            Command::Version { output: ListOutput::Json },
            Command::Rbac,
        ] {
            let mut out = Vec::new();
            run(&command, &mut out).unwrap();
            assert!(out.ends_with(b"\n"), "{command:?}");
        }
    }
}
