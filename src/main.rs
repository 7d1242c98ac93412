//! `cluster-health` checks whether a Talos Linux and Kubernetes cluster is healthy, all of it, now.
#![cfg_attr(not(feature = "etcd"), allow(dead_code, unused_imports, reason = "what only the client of etcd needs"))]

mod assess;
mod checks;
mod cli;
mod commands;
mod config;
mod diagnosis;
mod engine;
mod model;
mod observe;
mod plan;
mod report;
mod rollout;
mod run;
mod signals;
mod snapshot;
#[cfg(test)]
mod testing;
mod text;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::FromArgMatches as _;
use clap::builder::Resettable;

use crate::cli::{Cli, PolicyCommand};
use crate::commands::CommandError;
use crate::config::policy::Document;
use crate::model::Exit;
use crate::plan::{Plan, Start, Usage, policy, variables};

/// Replaces musl's allocator, which takes one lock for all threads: parsing long lists with it is several times slower.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    commands::answer();
    let start = Start::now();
    // tonic and kube both use the provider of the process. No other one has been installed before.
    let _ = config::crypto::provider().as_ref().clone().install_default();
    std::panic::set_hook(Box::new(run::panicked));
    ExitCode::from(start_from(start).code())
}

/// Treats an empty variable as unset, for every option: CI systems pass variables without a value as empty strings.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |name: &std::ffi::OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    let empty: Vec<_> = command
        .get_arguments()
        .filter(|argument| argument.get_env().is_some_and(is_empty))
        .map(|argument| argument.get_id().clone())
        .collect();
    let command =
        empty.into_iter().fold(command, |command, id| command.mut_arg(id, |argument| argument.env(Resettable::Reset)));
    command.mut_subcommands(without_empty_variables)
}

fn known_variables() -> Result<(), Usage> {
    let set = std::env::vars_os().filter(|(_, value)| !value.is_empty());
    let names: Vec<String> = set.map(|(name, _)| name.to_string_lossy().into_owned()).collect();
    variables::all_known(&commands::command(), names.iter().map(String::as_str))
}

fn planned_with_policy(args: &cli::RunArgs, matches: &clap::ArgMatches, start: Start) -> Result<Plan, Usage> {
    let policy = args.verdict.policy.as_deref().map(Document::read).transpose()?;
    Plan::decide(args, matches, policy.as_ref(), start)
}

/// Checks a policy as a run does before its first request, and lists the entries that have ended and those that weaken
/// the verdict.
fn check_policy(file: &Path, start: Start) -> Result<String, Usage> {
    let document = Document::read(file)?;
    policy::stated(&cli::NodeOptions::default(), &document)?;
    let decided = policy::decide(&document, start.wall)?;
    let ended =
        decided.ended(start.wall).into_iter().map(|(name, line)| format!("has ended: {name} (policy, line {line})"));
    let weakens = decided.weakened.iter().map(|weak| format!("weakens: {} ({})", weak.option, weak.origin));
    let lines = std::iter::once(format!("valid, SHA-256 {}", document.sha256)).chain(ended).chain(weakens);
    Ok(lines.map(|line| text::sanitize::clean(&line) + "\n").collect())
}

/// Returns the ClusterRole of `rbac`, including the objects that a policy requires.
fn rbac_with_policy(upgrade: bool, file: &Path, start: Start) -> Result<String, Usage> {
    let decided = policy::decide(&Document::read(file)?, start.wall)?;
    let mut role = Vec::new();
    let written = commands::write_rbac(upgrade, &decided.policy.require, &mut role);
    written.map_err(|error| Usage::new(error.to_string()))?;
    Ok(String::from_utf8_lossy(&role).into_owned())
}

/// Returns the exit code of a command that only prints.
fn written(done: Result<(), CommandError>) -> Exit {
    ended(done.map(|()| Exit::Healthy))
}

fn ended(done: Result<Exit, CommandError>) -> Exit {
    match done {
        Ok(exit) => exit,
        // A reader that closes the pipe has read enough.
        Err(CommandError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Healthy,
        Err(CommandError::Io(error)) => {
            run::complain(&format!("could not write to stdout: {error}"), None);
            Exit::Internal
        }
        Err(CommandError::Usage(message)) => {
            run::complain(&message, None);
            Exit::Usage
        }
    }
}

fn start_from(start: Start) -> Exit {
    // `check` is the default command.
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if words.get(1).is_some_and(|word| word == "check") {
        words.remove(1);
    }
    let is_brief = words.iter().any(|word| word == "-h");
    let command = if is_brief { commands::brief_command() } else { commands::command() };
    let matches = without_empty_variables(command).try_get_matches_from(words);
    let parsed = matches.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) if error.use_stderr() => {
            run::complain_of_arguments(&error);
            return Exit::Usage;
        }
        // `--help` and the like are not errors.
        Err(error) => error.exit(),
    };
    let said = |text: Result<String, Usage>| match text {
        Ok(text) => written(io::stdout().write_all(text.as_bytes()).map_err(CommandError::Io)),
        Err(usage) => {
            run::complain(&usage.message, usage.hint.as_deref());
            Exit::Usage
        }
    };
    let planned = |plan: Result<Plan, Usage>| match known_variables().and(plan) {
        Ok(plan) => run::run(&plan),
        Err(usage) => {
            run::complain(&usage.message, usage.hint.as_deref());
            Exit::Usage
        }
    };
    match cli.command {
        Some(cli::Command::UpgradePlan(args)) => planned(Plan::of_upgrade(&args, start)),
        Some(cli::Command::Policy { command: PolicyCommand::Check { file } }) => said(check_policy(&file, start)),
        Some(cli::Command::Rbac { upgrade, policy: Some(file) }) => said(rbac_with_policy(upgrade, &file, start)),
        Some(cli::Command::Report(args)) => ended(commands::show(&args, &mut io::stdout().lock())),
        Some(command) => written(commands::run(&command, &mut io::stdout().lock())),
        None => planned(planned_with_policy(&cli.run, &matches, start)),
    }
}
