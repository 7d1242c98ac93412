//! Ends the process in time: a thread that neither computes nor writes, and waits for no other thread.
//!
//! The run stops at its deadline and at a signal. The things it waits for may not: a pipe that is never read, a disk that is gone, a name
//! server, or a document that takes long to parse.

use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::panic::PanicHookInfo;
use std::sync::OnceLock;
use std::thread::{self, ThreadId};
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
use crate::text::sanitize::clean;

/// Time from the deadline to the end of the process: within 1 s, as measured from outside.
const AFTER_DEADLINE: Duration = Duration::from_millis(900);
/// Time from the verdict to the end of a run that sends its finished report to web servers: within 10 s.
pub(super) const AFTER_VERDICT: Duration = Duration::from_millis(9900);
/// Time from a signal to the end of the process: within 2 s.
const AFTER_SIGNAL: Duration = Duration::from_millis(1900);
/// Time before that end at which the watch writes the output that the run has not written. This output gets at least that much processor
/// time if stdout accepts writes: a machine that is busy, or was stopped, may provide none of it in half a second.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(500);
/// Additional time that this output may take, and the interval at which it is polled.
const STARVED: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);
/// Stack size of each thread that runs our code, regardless of the limits of the process; only the used part takes memory.
pub(super) const STACK: usize = 8 << 20;

/// The signal that ends the run, as its exit code.
pub(super) type Signaled = watch::Receiver<Option<Exit>>;

/// Receives panics, so that the run still ends with its reports and its own exit code.
static PANICS: OnceLock<Panics> = OnceLock::new();

struct Panics {
    message: watch::Sender<String>,
    /// The watch itself, which ends the process at once.
    watch: ThreadId,
}

impl Panics {
    fn of_this_thread() -> Self {
        Self { message: watch::Sender::default(), watch: thread::current().id() }
    }
}

/// Handles a panic on any thread and does not return: a release is built without unwinding. The thread stops where it is, and the watch
/// ends the run.
pub(crate) fn panicked(panic: &PanicHookInfo<'_>) {
    // Must not look like a crash.
    let _ = writeln!(io::stderr(), "internal error: {}", clean(&panic.to_string()));
    match PANICS.get() {
        Some(panics) if panics.watch != thread::current().id() => {
            let payload = panic.payload();
            let text = payload.downcast_ref::<&str>().copied();
            let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
            panics.message.send_replace(text.unwrap_or("unknown").to_owned());
            loop {
                thread::park();
            }
        }
        _ => end(Exit::Internal),
    }
}

/// Runs `run` on a thread of its own and returns its exit code, or ends the process with the exit code known so far once time is up.
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
    let mut panics = PANICS.get_or_init(Panics::of_this_thread).message.subscribe();
    thread::scope(|scope| {
        let run = move || {
            // If this fails, the watch has already ended.
            let _ = done.send(run(signaled));
        };
        thread::Builder::new().name("run".to_owned()).stack_size(STACK).spawn_scoped(scope, run).context(FAILED)?;
        runtime.block_on(async {
            let mut gone_by = net + AFTER_DEADLINE;
            let mut ending = Ending::Engine(End::Deadline);
            let mut words = None;
            loop {
                let last_words = gone_by - LAST_WORDS;
                tokio::select! {
                    // In a process that was stopped meanwhile, all of these may be ready: they are handled in this order.
                    biased;
                    exit = &mut ended => return Ok(exit.unwrap_or(Exit::Internal)),
                    exit = signals.next() => {
                        if signal.borrow().is_some() {
                            // A second signal means that the user does not even wait for the reports.
                            end(told.exit_now(exit));
                        }
                        signal.send_replace(Some(exit));
                        gone_by = gone_by.min(Instant::now() + AFTER_SIGNAL);
                        ending = Ending::Signal(exit);
                    }
                    Ok(()) = panics.changed() => {
                        let message = panics.borrow_and_update().clone();
                        ending = Ending::Internal(format!("internal error: {message}"));
                        gone_by = gone_by.min(Instant::now() + LAST_WORDS);
                    }
                    Ok(()) = sending.changed() => {
                        let until = *sending.borrow_and_update();
                        // Sending does not extend the time that a signal allows.
                        gone_by = until.filter(|_| signal.borrow().is_none()).unwrap_or(gone_by);
                    }
                    () = sleep_until(last_words), if words.is_none() => {
                        words = Some(Words { worked: worked(), until: gone_by + STARVED });
                        let ending = ending.clone();
                        let speak = move || {
                            let report = told.conclude(&ending);
                            thread::scope(|scope| {
                                // One of these may be stuck while the other is not.
                                let files = || drop(told.finish_files(&report));
                                let files = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, files);
                                let _ = (told.finish_document(&report), files);
                            });
                        };
                        // If the thread cannot start, the files keep the content that they have.
                        let _ = thread::Builder::new().name("last-words".to_owned()).stack_size(STACK).spawn_scoped(scope, speak);
                    }
                    () = sleep_until(gone_by) => {
                        if words.as_ref().is_some_and(Words::are_owed) && !told.is_over() {
                            gone_by = Instant::now() + LOOK;
                            continue;
                        }
                        let unknown = match ending {
                            Ending::Signal(exit) => exit,
                            Ending::Internal(_) => Exit::Internal,
                            Ending::Engine(_) | Ending::Configuration(_) => Exit::Deadline,
                        };
                        end(told.exit_now(unknown));
                    }
                }
            }
        })
    })
}

/// The output that is written at the end for a run that is stuck.
struct Words {
    /// Processor time that the process had used before.
    worked: Duration,
    until: Instant,
}

impl Words {
    /// Whether the output is late only because it did not get the processor.
    fn are_owed(&self) -> bool {
        Instant::now() < self.until && worked() < self.worked + LAST_WORDS && takes(&io::stdout())
    }
}

/// Returns the processor time of all threads of this process, however busy the machine is.
fn worked() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// Whether the stream accepts writes at once, unlike a full pipe that is never read.
fn takes(stream: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(stream, PollFlags::OUT)];
    poll(&mut polled, Some(&Timespec::default())).is_ok() && polled[0].revents().contains(PollFlags::OUT)
}

/// Ends the process and leaves nothing behind.
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

    /// Variable that turns this test into the child process, and selects how far its run gets before it is stuck.
    const STUCK: &str = "STUCK_AFTER";

    /// The watch ends its process, so each case runs in one of its own.
    #[test]
    fn a_run_that_never_ends_is_ended_with_what_it_knows() {
        if let Ok(after) = std::env::var(STUCK) {
            return stuck(&after);
        }
        for (after, expected, result, limit) in [
            ("nothing", 124, "undetermined", 8),
            ("healthy", 0, "healthy", 8),
            ("signal", 130, "interrupted", 8),
            ("panic", 70, "error", 8),
            // The limit is ten seconds after the verdict, whatever the deadline.
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
        let wait = if ["signal", "sending", "panic"].contains(&after) { "1h" } else { "1s" };
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
            } else if after == "panic" {
                std::panic::set_hook(Box::new(panicked));
                // Not on the thread of the run, and with others that go on.
                thread::spawn(|| panic!("a fault"));
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
