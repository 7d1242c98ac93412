//! `cluster-health`: is this Talos Linux and Kubernetes cluster healthy, all of it, now?

mod checks;
mod cli;
mod commands;
mod config;
mod diagnosis;
mod duration;
mod engine;
mod event;
mod exit;
mod ledger;
mod logs;
mod memory;
mod nearest;
mod observe;
mod plan;
mod report;
mod run;
mod selection;
mod signals;
mod snapshot;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::FromArgMatches as _;
use clap::builder::Resettable;

use crate::cli::Cli;
use crate::commands::CommandError;
use crate::exit::Exit;

/// musl's own allocator takes one lock for all threads; parsing long lists with it is several times slower.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let start = run::now();
    // tonic, kube, reqwest and etcd-client all take the process's provider. Nobody else has installed one before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A panic becomes a reported internal error (exit code 70); its message must not look like a crash on the way.
    std::panic::set_hook(Box::new(|panic| {
        let _ = writeln!(io::stderr(), "internal error: {panic}");
    }));
    ExitCode::from(start_from(start).code())
}

/// In CI, a variable that nobody has filled is there and empty: it counts as not set, for every option.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |name: &std::ffi::OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    let empty: Vec<_> = command
        .get_arguments()
        .filter(|argument| argument.get_env().is_some_and(is_empty))
        .map(|argument| argument.get_id().clone())
        .collect();
    empty.into_iter().fold(command, |command, id| command.mut_arg(id, |argument| argument.env(Resettable::Reset)))
}

fn start_from(start: plan::Start) -> Exit {
    let matches = without_empty_variables(commands::command()).get_matches();
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    match cli.command {
        Some(command) => match commands::run(&command, &mut io::stdout().lock()) {
            Ok(()) => Exit::Healthy,
            // Whoever closed the pipe has read enough.
            Err(CommandError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Healthy,
            Err(CommandError::Io(error)) => {
                run::complain(&format!("could not write to stdout: {error}"), None);
                Exit::Internal
            }
            Err(CommandError::Usage(message)) => {
                run::complain(&message, None);
                Exit::Usage
            }
        },
        None => run::run(&cli.run, &matches, start),
    }
}
