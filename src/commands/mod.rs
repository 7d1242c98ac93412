//! The commands that do not query a cluster.

mod complete;
mod explain;
mod list;
mod manual;
mod rbac;
#[cfg(test)]
mod reference;
mod report;
mod sanitize;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write};

use clap::CommandFactory as _;
use clap::builder::{PossibleValue, TypedValueParser};

use crate::checks::{self, Check};
use crate::cli::{Cli, Command, ListOutput, PolicyCommand};
use crate::config::etcd;
use crate::diagnosis;
use crate::model::{Exit, Fact, Reason, Right, Stage};
use crate::report::format::{self, json, plan};
use crate::snapshot::Require;

pub(crate) use complete::answer;
pub(crate) use report::show;

/// The published schema of `--policy`.
const POLICY_SCHEMA: &str = include_str!("../../schema/policy.v1.json");

/// The reasons why a command fails.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// Exit code 2.
    Usage(String),
    /// An error on stdout; the caller does not treat a closed pipe as an error.
    Io(io::Error),
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Runs a command with all checks of the table.
pub(crate) fn run(command: &Command, out: &mut impl Write) -> Result<(), CommandError> {
    match command {
        // `main` removes `check` if it is the first word.
        Command::Check => return Err(CommandError::Usage("`check` has to be the first word".to_owned())),
        Command::List { reasons: true, output, .. } => list::write_reasons(*output, out)?,
        Command::List { causes: true, output, .. } => list::write_causes(*output, out)?,
        Command::List { output, verbose, .. } => list::write(checks::ALL, *output, *verbose, out)?,
        Command::Explain { topic, web } => explain::write(topic, *web, checks::ALL, out)?,
        Command::UpgradePlan(_) => return Err(CommandError::Usage("`upgrade-plan` is a run".to_owned())),
        // `report` has its own exit codes.
        Command::Report(_) => return Err(CommandError::Usage("`report` is no table".to_owned())),
        Command::Schema { upgrade_plan: true } => out.write_all(plan::SCHEMA.as_bytes())?,
        Command::Schema { .. } => out.write_all(json::SCHEMA.as_bytes())?,
        Command::Policy { command: PolicyCommand::Schema } => out.write_all(POLICY_SCHEMA.as_bytes())?,
        // `policy check` needs the clock.
        Command::Policy { command: PolicyCommand::Check { .. } } => {
            return Err(CommandError::Usage("`policy check` is no table".to_owned()));
        }
        Command::Completions { shell } => out.write_all(&complete::script(*shell)?)?,
        Command::Man => out.write_all(&manual::page()?)?,
        Command::Version { output } => version(*output, out)?,
        Command::Sanitize => sanitize::write(io::stdin().lock(), out)?,
        Command::Rbac { upgrade, policy: None } => write_rbac(*upgrade, &[], out)?,
        Command::Rbac { policy: Some(_), .. } => {
            return Err(CommandError::Usage("`rbac --policy` is no table".to_owned()));
        }
    }
    out.flush()?;
    Ok(())
}

/// Writes the ClusterRole, including the objects that a policy requires.
pub(crate) fn write_rbac(upgrade: bool, required: &[Require], out: &mut impl Write) -> io::Result<()> {
    let is_wanted = |check: &&Check| upgrade || check.stage != Stage::Upgrade;
    let more = if upgrade { &Fact::OF_PLAN[..] } else { &Fact::OF_STORED };
    rbac::write(&checks::ALL.iter().copied().filter(is_wanted).collect::<Vec<_>>(), more, required, out)
}

/// Returns the command line, with the exit codes and examples at the end of `--help`. `main` parses with it.
pub(crate) fn command() -> clap::Command {
    let mut text = String::from("Exit codes:\n");
    for exit in Exit::ALL {
        let _ = writeln!(text, "  {:>3}  {}", exit.code(), exit.meaning());
    }
    text.push_str("\nVariables without an option:\n");
    for (name, about) in etcd::VARIABLES {
        let _ = writeln!(text, "  {name}\n          {about}");
    }
    text.push_str("\nExamples:\n");
    for (line, about) in EXAMPLES {
        let _ = writeln!(text, "  # {about}\n  {line}");
    }
    let ids = || checks::ALL.iter().map(|check| check.id.name());
    let reasons = || Reason::ALL.iter().map(|reason| reason.code());
    let topics: Vec<_> = ids().chain(reasons()).chain(diagnosis::ALL.iter().map(|cause| cause.id)).collect();
    // The first parts of IDs, each a whole protocol, represent all IDs that begin with them; a stage represents all of its checks.
    let prefixes = ids().filter_map(|id| id.split('.').next());
    let groups: BTreeSet<_> = prefixes.chain(checks::ALL.iter().map(|check| check.stage.name())).collect();
    let selections: Vec<_> = ids().chain(groups).collect();
    let weights: Vec<_> = selections.iter().copied().chain(reasons()).collect();
    let completing = |command: clap::Command, option: &'static str, words: &[&'static str]| {
        let parser = Suggesting { words: words.to_vec() };
        command.mut_arg(option, |arg| arg.value_parser(parser).hide_possible_values(true))
    };
    let mut command = complete::with_contexts(Cli::command()).after_long_help(text).after_help(brief_end());
    for option in ["check", "skip"] {
        command = completing(command, option, &selections);
    }
    for option in ["fail_on", "warn_only"] {
        command = completing(command, option, &weights);
    }
    command = command.mut_args(|arg| {
        let is_common = COMMON.contains(&arg.get_id().as_str()) || arg.get_help_heading().is_none();
        arg.hide_short_help(!is_common)
    });
    command.mut_subcommand("explain", |explain| completing(explain, "topic", &topics))
}

/// Returns the command line for `-h`: without the variables, whose names follow from those of the options.
pub(crate) fn brief_command() -> clap::Command {
    // These commands are for scripts and packages, not for typing.
    let hidden = ["sanitize", "man", "completions", "schema"];
    let command = command().mut_args(|arg| arg.hide_env(true));
    hidden.iter().fold(command, |command, name| command.mut_subcommand(name, |command| command.hide(true)))
}

/// Options that `-h` shows; `--help` shows all.
const COMMON: [&str; 19] = [
    "talosconfig",
    "context",
    "no_talos",
    "kubeconfig",
    "kube_context",
    "expect_control_planes",
    "expect_workers",
    "check",
    "skip",
    "level",
    "upgrade_talos",
    "drain",
    "wait_timeout",
    "stable_for",
    "policy",
    "strict",
    "output",
    "report",
    "verbose",
];

fn brief_end() -> String {
    let mut text = String::from("Examples:\n");
    for (line, about) in BRIEF_EXAMPLES {
        let _ = writeln!(text, "  {line:60}  {about}");
    }
    text.push_str(
        "\nExit codes: 0 healthy, 1 unhealthy, 2 usage, 69 unknown, 77 refused, 78 configuration, 124 timeout\n",
    );
    text.push_str("Every option, its variable CLUSTER_HEALTH_..., and every exit code: --help");
    text
}

/// A parser that accepts any text and offers words to shells that complete: IDs may also be prefixes and globs.
#[derive(Clone)]
struct Suggesting {
    words: Vec<&'static str>,
}

impl TypedValueParser for Suggesting {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        TypedValueParser::parse_ref(&crate::cli::item, command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.words.iter().map(|word| PossibleValue::new(*word))))
    }
}

/// Examples for `-h`, one line each.
const BRIEF_EXAMPLES: [(&str, &str); 3] = [
    ("cluster-health --wait-timeout 5m || exit 1", "gate a pipeline"),
    ("cluster-health --wait-timeout 15m --expect-control-planes 3", "after a bootstrap"),
    ("cluster-health --wait-timeout 5m --report junit=health.xml", "with a JUnit report"),
];

const EXAMPLES: [(&str, &str); 6] = [
    (
        "cluster-health --wait-timeout 5m || exit 1",
        "continue only if the cluster is healthy, or becomes healthy within 5 minutes",
    ),
    ("cluster-health --wait-timeout 15m --stable-for 2m", "after an upgrade: healthy, and for two minutes in a row"),
    (
        "cluster-health --wait-timeout 5m --report junit=health.xml --report json=health.json",
        "in CI, with reports that survive a killed job",
    ),
    ("cluster-health --level etcd --require-quorum-margin 1", "before a control plane is taken down"),
    ("cluster-health -o json | jq -r '.checks[].problems[].reason'", "the reason codes of all problems"),
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

/// Returns the rights that a check requires of the credentials.
fn needs(check: &Check) -> Vec<String> {
    let mut needs = Vec::new();
    // os:admin is sorted before os:reader, and includes its rights.
    if let Some(role) = check.facts.iter().filter_map(|fact| fact.role()).min() {
        needs.push(format!("Talos role {role}"));
    }
    let rights: BTreeSet<_> = check.facts.iter().filter_map(|fact| fact.right()).collect();
    needs.extend(rights.into_iter().map(|right| match right {
        Right::Resource("", plural) => format!("get, list {plural}"),
        Right::Resource(group, plural) => format!("get, list {plural}.{group}"),
        Right::Object(_, plural, name) => format!("get {plural} {name}"),
        Right::Url(url) => format!("get {url}"),
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

    /// A longer text would not be read at a prompt.
    #[test]
    fn short_help_fits_on_a_screen() {
        let help = brief_command().render_help().to_string();
        let lines = help.lines().count();
        assert!(lines <= 60, "{lines} lines:\n{help}");
        let uses = ["--drain", "--upgrade-talos", "--expect-workers", "--level", "--policy", "--wait-timeout"];
        for expected in uses.into_iter().chain(["Exit codes: 0 healthy", "Examples:"]) {
            assert!(help.contains(expected), "{expected}: {help}");
        }
        assert!(!help.contains("env:"), "{help}");
    }

    /// IDs may also be prefixes and globs; the offered words are for shells.
    #[test]
    fn what_is_offered_is_not_all_that_is_taken() {
        for check in ["etcd.*", "k8s", "3", "etcd.quorum"] {
            command().try_get_matches_from(["cluster-health", "--check", check]).unwrap();
        }
        assert!(command().try_get_matches_from(["cluster-health", "--check", ""]).is_err());
    }

    #[test]
    fn every_command_writes() {
        for command in [
            Command::List { reasons: false, causes: false, output: ListOutput::Text, verbose: false },
            Command::List { reasons: false, causes: false, output: ListOutput::Json, verbose: false },
            Command::List { reasons: true, causes: false, output: ListOutput::Text, verbose: false },
            Command::List { reasons: false, causes: true, output: ListOutput::Json, verbose: false },
            Command::Explain { topic: "quorum-lost".to_owned(), web: false },
            Command::Schema { upgrade_plan: false },
            Command::Schema { upgrade_plan: true },
            Command::Completions { shell: clap_complete::Shell::Bash },
            Command::Man,
            Command::Version { output: ListOutput::Json },
            Command::Rbac { upgrade: false, policy: None },
            Command::Rbac { upgrade: true, policy: None },
        ] {
            let mut out = Vec::new();
            run(&command, &mut out).unwrap();
            assert!(out.ends_with(b"\n"), "{command:?}");
        }
    }
}
