//! A command that runs against the cluster, and signals.

use std::io::{self, IsTerminal as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};

use anyhow::Context as _;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, kill_process_group, setrlimit};
use tokio::process::{Child, Command};
use tokio::signal::unix::{self, SignalKind, signal};

/// Raises the limit of open files: a machine needs a socket for each of its servers, and every client needs several more.
pub(crate) fn allow_many_sockets() {
    let limit = getrlimit(Resource::Nofile);
    // The hard limit is as far as an unprivileged process can go. If it does not suffice, a large cluster reports an error itself.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// SIGINT, SIGTERM and SIGHUP.
pub(crate) struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hangup: unix::Signal,
}

impl Signals {
    /// Starts listening immediately, so that no signal is lost.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.hangup.recv() => Signal::HUP,
        }
    }
}

/// Runs a command with additional environment variables, forwards signals, and returns its exit code. The second signal kills it.
pub(crate) async fn command(
    command: &[String],
    environment: &[(&str, String)],
    signals: &mut Signals,
) -> anyhow::Result<ExitCode> {
    let [program, arguments @ ..] = command else { anyhow::bail!("no command") };
    let mut child = Command::new(program);
    child.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
    // On a terminal, the command stays in the foreground process group, so that it can read input.
    let alone = !io::stdin().is_terminal();
    if alone {
        child.process_group(0);
    }
    let mut child = child.spawn().with_context(|| format!("cannot run `{program}`"))?;
    let mut asked_to_end = false;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            received = signals.next() => {
                // On a terminal, Ctrl-C has already reached the command.
                if asked_to_end {
                    send(&child, Signal::KILL, alone);
                } else if alone || received != Signal::INT {
                    send(&child, received, alone);
                }
                asked_to_end = true;
            }
        }
    };
    Ok(exit_code(status))
}

/// Sends a signal to the child, whose process id stays valid until it is waited for.
fn send(child: &Child, signal: Signal, group: bool) {
    let Some(id) = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)) else { return };
    let _ = if group { kill_process_group(id, signal) } else { kill_process(id, signal) };
}

/// The exit code that a shell would report.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
