//! The end of the process, in time: a thread that neither computes nor writes, and waits for nobody.
//!
//! The run stops by itself at its deadline and at a signal. What it waits for may not: a pipe that nobody reads, a disk that is
//! gone, a name server, or a document that takes long to understand.

use std::io;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::{ClockId, Timespec, clock_gettime};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::told::Told;
use crate::engine::End;
use crate::model::Exit;
use crate::observe;
use crate::report::ledger::Ending;
use crate::report::sink::files;
use crate::signals::Signals;

/// After the deadline, the process is gone: within 1 s, for whoever measures it from outside.
const AFTER_DEADLINE: Duration = Duration::from_millis(900);
/// Of a run that sends its report to web servers once it is written: within 10 s after the verdict.
pub(super) const AFTER_VERDICT: Duration = Duration::from_millis(9900);
/// After a signal: within 2 s.
const AFTER_SIGNAL: Duration = Duration::from_millis(1900);
/// Before that: what the run has not told is told for it. That much of the processors' time it gets at least, where stdout takes what is
/// written: a machine that others keep busy, or that was stopped, may give none of it in half a second.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(500);
/// How much longer that may take, and how often it is looked after.
const STARVED: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);
/// Of each thread that runs code of ours, whatever the limits of the process are: only what is used of it is taken.
pub(super) const STACK: usize = 8 << 20;

/// The signal that ends the run, as the exit code that belongs to it.
pub(super) type Signaled = watch::Receiver<Option<Exit>>;

/// Runs `run` on a thread of its own, and returns its exit code; or leaves with the one that is known, once it is time.
pub(super) fn watched(
    net: Instant,
    told: &Told<'_>,
    run: impl FnOnce(Signaled) -> Exit + Send,
) -> anyhow::Result<Exit> {
    const FAILED: &str = "could not start";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context(FAILED)?;
    let context = runtime.enter();
    let mut signals = Signals::listen().context("could not listen for signals")?;
    drop(context);
    let (signal, signaled) = watch::channel(None);
    let (done, mut ended) = oneshot::channel();
    let mut sending = told.sending();
    thread::scope(|scope| {
        let run = move || {
            // Whatever is not caught where it can be reported still has its own exit code.
            let exit = catch_unwind(AssertUnwindSafe(|| run(signaled))).unwrap_or(Exit::Internal);
            // Nobody waits any more if this fails.
            let _ = done.send(exit);
        };
        thread::Builder::new().name("run".to_owned()).stack_size(STACK).spawn_scoped(scope, run).context(FAILED)?;
        runtime.block_on(async {
            let mut gone_by = net + AFTER_DEADLINE;
            let mut ending = Ending::Engine(End::Deadline);
            let mut words = None;
            loop {
                let last_words = gone_by - LAST_WORDS;
                tokio::select! {
                    // Of a process that was stopped meanwhile, all have come: each has its turn.
                    biased;
                    exit = &mut ended => return Ok(exit.unwrap_or(Exit::Internal)),
                    exit = signals.next() => {
                        if signal.borrow().is_some() {
                            // Whoever asks a second time does not want to wait even for the reports.
                            end(told.exit_now(exit));
                        }
                        signal.send_replace(Some(exit));
                        gone_by = gone_by.min(Instant::now() + AFTER_SIGNAL);
                        ending = Ending::Signal(exit);
                    }
                    Ok(()) = sending.changed() => {
                        let until = *sending.borrow_and_update();
                        // A signal allows no more time than it did.
                        gone_by = until.filter(|_| signal.borrow().is_none()).unwrap_or(gone_by);
                    }
                    () = sleep_until(last_words), if words.is_none() => {
                        words = Some(Words { worked: worked(), until: gone_by + STARVED });
                        let ending = ending.clone();
                        let speak = move || {
                            let report = told.conclude(&ending);
                            thread::scope(|scope| {
                                // The one may be stuck where the other is not.
                                let files = || drop(told.finish_files(&report));
                                let files = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, files);
                                let _ = (told.finish_document(&report), files);
                            });
                        };
                        // Without a thread for it, what is in the files by now is the last word.
                        let _ = thread::Builder::new().name("last-words".to_owned()).stack_size(STACK).spawn_scoped(scope, speak);
                    }
                    () = sleep_until(gone_by) => {
                        if words.as_ref().is_some_and(Words::are_owed) && !told.is_over() {
                            gone_by = Instant::now() + LOOK;
                            continue;
                        }
                        let unknown = if let Ending::Signal(exit) = ending { exit } else { Exit::Deadline };
                        end(told.exit_now(unknown));
                    }
                }
            }
        })
    })
}

/// What is told at the end.
struct Words {
    /// What the process had worked before.
    worked: Duration,
    until: Instant,
}

impl Words {
    /// Whether nothing keeps them back but that it was not their turn.
    fn are_owed(&self) -> bool {
        Instant::now() < self.until && worked() < self.worked + LAST_WORDS && takes(&io::stdout())
    }
}

/// What all threads of this process have worked, however busy the machine is.
fn worked() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// Whether what is written there is taken at once, as a pipe does not that is full and that nobody reads.
fn takes(stream: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(stream, PollFlags::OUT)];
    poll(&mut polled, Some(&Timespec::default())).is_ok() && polled[0].revents().contains(PollFlags::OUT)
}

/// Leaves nothing behind.
#[expect(clippy::exit, reason = "there are threads that never end")]
fn end(exit: Exit) -> ! {
    files::abandon();
    observe::abandon();
    std::process::exit(i32::from(exit.code()))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use clap::{CommandFactory as _, FromArgMatches as _};

    use super::*;
    use crate::cli::Cli;
    use crate::config::Environment;
    use crate::model::Status;
    use crate::plan::{Plan, Start};
    use crate::report::format;
    use crate::report::sink::ci::Ci;
    use crate::report::sink::wanted::Wanted;
    use crate::run::output::Document;
    use crate::run::outputs::Names;

    /// Says in the environment how far the run of a process has come that is this test, and where its report goes.
    const STUCK: &str = "STUCK_AFTER";

    /// The process has an end, so it is one of its own.
    #[test]
    fn a_run_that_never_ends_is_ended_with_what_it_knows() {
        if let Ok(after) = std::env::var(STUCK) {
            return stuck(&after);
        }
        for (after, expected, result, limit) in [
            ("nothing", 124, "undetermined", 8),
            ("healthy", 0, "healthy", 8),
            ("signal", 130, "interrupted", 8),
            // Whatever the deadline, ten seconds after the verdict.
            ("sending", 0, "healthy", 12),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let name = "run::watch::tests::a_run_that_never_ends_is_ended_with_what_it_knows";
            let mut child = Command::new(std::env::current_exe().unwrap());
            let child = child.args(["--exact", name, "--nocapture"]).env(STUCK, after).current_dir(&folder);
            let started = Instant::now();
            let status = child.stdout(Stdio::null()).status().unwrap();
            assert_eq!(status.code(), Some(expected), "{after}");
            assert!(started.elapsed() < Duration::from_secs(limit), "{after}: {:?}", started.elapsed());
            let report = std::fs::read(folder.path().join("report")).unwrap();
            let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
            assert_eq!((&report["result"], &report["exitCode"]), (&result.into(), &expected.into()), "{report}");
        }
    }

    fn stuck(after: &str) {
        let wait = if ["signal", "sending"].contains(&after) { "1h" } else { "1s" };
        let arguments = ["cluster-health", "--wait-timeout", wait];
        let matches = Cli::command().get_matches_from(arguments);
        let cli = Cli::from_arg_matches(&matches).unwrap();
        let plan = Plan::decide(&cli.run, &matches, None, Start::now()).unwrap();
        let wanted = [Wanted { format: &format::JSON, path: "report".into() }];
        let environment = Environment::new::<&str, &str>([]);
        let names = Names::of(&plan, &wanted, Ci::None, &environment).unwrap();
        let told = Told::new(&plan, &names, Document::new(&plan.output, Ci::None, &environment));
        let run = |_| {
            if after == "healthy" {
                told.amend(|report| report.checks.iter_mut().for_each(|check| check.status = Some(Status::Pass)));
                told.conclude(&Ending::Engine(End::Healthy));
            } else if after == "sending" {
                told.amend(|report| report.checks.iter_mut().for_each(|check| check.status = Some(Status::Pass)));
                let report = told.conclude(&Ending::Engine(End::Healthy));
                told.finish_files(&report).unwrap();
                told.finish_document(&report).unwrap();
                told.begin_sending();
            } else if after == "signal" {
                let own = i32::try_from(std::process::id()).ok().and_then(rustix::process::Pid::from_raw).unwrap();
                rustix::process::kill_process(own, rustix::process::Signal::INT).unwrap();
            }
            loop {
                thread::park();
            }
        };
        let ended = watched(plan.pace.net(), &told, run);
        unreachable!("{ended:?}");
    }
}
