//! One run from start to end: engine, signals, progress, files, and the final result on stdout.

mod machine;
mod outbox;
mod output;
mod outputs;
mod show;
mod streams;
mod termination;
mod told;
mod watch;

use std::cell::RefCell;
use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, timeout_at};

use self::outbox::{Outbox, Recipient, Unready, recipients, unsent};
use self::output::Document;
use self::outputs::{Names, Refused};
use self::show::Show;
pub(crate) use self::streams::{complain, complain_of_arguments};
use self::streams::{is_elsewhere, is_file};
use self::told::Told;
use self::watch::Signaled;
pub(crate) use self::watch::panicked;
use crate::config::access::Access;
use crate::config::{ConfigError, Environment};
use crate::engine::event::Event;
use crate::engine::{self, End};
use crate::model::Exit;
use crate::observe::{self, Credentials, Observer};
use crate::plan::{Plan, variables};
use crate::report::ledger::Ending;
use crate::report::sink::ci::{Ci, Summary};
use crate::report::sink::wanted::{self, Wanted};
use crate::report::sink::{files, terminal};
use crate::report::{Report, format};
use crate::signals::Resizes;
use crate::snapshot::ServerProgress;

/// Interval at which checkpoints and the heartbeat are due.
const TICK: Duration = Duration::from_secs(1);
/// Interval at which a spinner turns.
const FRAME: Duration = Duration::from_millis(100);

/// Runs the checks and reports the result. Never fails: every outcome is an exit code.
pub(crate) fn run(plan: &Plan) -> Exit {
    let options = &plan.output;
    let wanted = wanted::parse(&options.reports, options.format);
    let wanted = wanted.and_then(|wanted| Ok((wanted.files, recipients(&wanted.posts)?)));
    let environment = Environment::of_process();
    let variable = |name: &str| environment.get(name);
    let ci = Ci::decide(plan.output.ci, variable);
    let names = wanted.as_ref().map_err(Clone::clone).and_then(|(files, _)| Names::of(plan, files, ci, &environment));
    let ((wanted, recipients), names) = match (&wanted, &names) {
        (Ok(wanted), Ok(names)) => (wanted, names),
        (Err(error), _) | (_, Err(error)) => {
            complain(error, None);
            return Exit::Usage;
        }
    };
    console::set_colors_enabled_stderr(terminal::color(options.color, io::stderr().is_terminal(), ci, variable));
    if options.trace.is_some() {
        observe::trace::begin(variable(observe::trace::PARENT).as_deref());
    }
    // This has to happen before anything can end the run.
    plan.access.claim(&environment);
    let told = Told::new(plan, names, Document::new(&plan.output, ci, &environment));
    let run = |signaled| {
        let runtime = match machine::runtime() {
            Ok(runtime) => runtime,
            Err(error) => {
                complain(&format!("{error:#}"), None);
                return Exit::Internal;
            }
        };
        let run = Run {
            plan,
            wanted,
            recipients,
            names,
            environment: &environment,
            ci,
            told: &told,
            summary: RefCell::default(),
            outbox: RefCell::default(),
        };
        let exit = runtime.block_on(run.execute(signaled));
        // A name lookup that does not return must not delay the end of the process.
        runtime.shutdown_background();
        exit
    };
    let ended = machine::prepare().and_then(|()| watch::watched(plan.pace.net(), &told, run));
    ended.unwrap_or_else(|error| {
        complain(&format!("{error:#}"), None);
        Exit::Internal
    })
}

/// The parts of a run.
struct Run<'a> {
    plan: &'a Plan,
    wanted: &'a [Wanted],
    recipients: &'a [Recipient],
    names: &'a Names<'a>,
    environment: &'a Environment,
    ci: Ci,
    told: &'a Told<'a>,
    /// Opened at the start.
    summary: RefCell<Option<Summary>>,
    /// Read at the start.
    outbox: RefCell<Option<Outbox>>,
}

/// The reasons why nothing was checked.
enum Unbegun {
    Configuration(ConfigError),
    Outputs(Refused),
}

impl Run<'_> {
    async fn execute(&self, mut signaled: Signaled) -> Exit {
        let Self { plan, environment, ci, told, .. } = *self;
        let start = plan.start;
        let Ok(mut resizes) = Resizes::listen() else {
            complain("could not listen for signals", None);
            return Exit::Internal;
        };
        told.amend(|report| report.last_success = files::last_success(self.wanted));
        let show = RefCell::new(Show::new(plan, told, ci, environment));
        let unbegun = RefCell::new(None);
        let ending = {
            let mut work = std::pin::pin!(self.work(&show, &unbegun));
            let mut ticks = interval(TICK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            let mut frames = interval(FRAME);
            frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
            loop {
                tokio::select! {
                    end = &mut work => break end,
                    Ok(signal) = signaled.wait_for(Option::is_some) => {
                        break Ending::Signal(signal.unwrap_or(Exit::Terminated));
                    }
                    _ = ticks.tick() => show.borrow_mut().tick(start.instant.elapsed()),
                    _ = frames.tick(), if show.borrow().live.spins() => {
                        show.borrow_mut().live.tick(start.instant.elapsed());
                    }
                    () = resizes.next() => show.borrow_mut().live.resized(start.instant.elapsed()),
                }
            }
        };
        let config_error = match unbegun.into_inner() {
            Some(Unbegun::Outputs(Refused::Usage(error))) => {
                complain(&error, Some("nothing was checked"));
                return Exit::Usage;
            }
            Some(Unbegun::Outputs(Refused::Unwritable(error))) => {
                complain(&format!("{error:#}"), Some("nothing was checked"));
                return Exit::ReportNotWritten;
            }
            Some(Unbegun::Configuration(error)) => Some(error),
            None => None,
        };
        let report = self.conclude(&ending, config_error, show.into_inner());
        if signaled.borrow().is_none() {
            self.send(&report, &signaled).await;
        }
        report.exit
    }

    /// Sends the report to web servers. Sending may take longer than the deadline, so everything else is written by
    /// now.
    async fn send(&self, report: &Report, signaled: &Signaled) {
        match self.outbox.take() {
            Some(outbox) if outbox.is_empty() => {}
            Some(outbox) => outbox.send(report, self.told.begin_sending(), signaled).await,
            None => {
                for (format, receiver) in self.recipients {
                    complain(&unsent(format, receiver, "the run ended before its headers were read"), None);
                }
            }
        }
    }

    /// Writes the final result. Files come before streams, because a stream may be a pipe that is never read.
    fn conclude(&self, ending: &Ending, config_error: Option<ConfigError>, show: Show<'_>) -> Arc<Report> {
        let Self { plan, told, .. } = *self;
        let mut report = told.conclude(ending);
        if let Some(ConfigError { message, hint, .. }) = &config_error
            && report.exit == Exit::Configuration
        {
            report = told.amend(|report| {
                report.error.get_or_insert_with(|| message.clone());
                let notes: Vec<String> = variables::origin(message).into_iter().chain(hint.clone()).collect();
                report.hint = (!notes.is_empty()).then(|| notes.join("; "));
            });
        }
        let said = report.error.clone();
        let unwritten = |error: &str| {
            told.amend(|report| {
                if report.exit == Exit::Healthy {
                    report.exit = Exit::ReportNotWritten;
                    report.error = Some(error.to_owned());
                }
            })
        };
        let unwritten_file = told.finish_files(&report).err().map(|error| format!("{error:#}"));
        if let Some(error) = &unwritten_file {
            report = unwritten(error);
        }
        // Before the report is printed, the live region is removed and the folded section is closed.
        drop(show);
        match config_error {
            // The text report shows the error on the same screen, or in the same log.
            Some(_)
                if report.exit == Exit::Configuration
                    && *plan.output.format == format::TEXT
                    && !is_elsewhere(&io::stdout()) => {}
            Some(ConfigError { message, hint, .. }) => complain(&message, hint.as_deref()),
            None => said.iter().for_each(|error| complain(error, None)),
        }
        if let Some(error) = &unwritten_file {
            complain(error, None);
        }
        if let Err(error) = told.finish_document(&report) {
            let error = format!("could not write the result to stdout: {error}");
            complain(&error, None);
            report = unwritten(&error);
        }
        self.tell_ci(&report);
        report
    }

    fn tell_ci(&self, report: &Report) {
        let Self { plan, ci, .. } = *self;
        // A run that ended before all inputs were known has not opened its summary yet.
        let summary = self.summary.take().or_else(|| self.names.summary());
        // An error is only a message: the summary was not requested and only repeats the log.
        let in_log = *plan.output.format == format::TEXT && !is_file(&io::stdout());
        if let Err(error) = ci.conclude(report, in_log, summary, io::stderr().lock()) {
            complain(&format!("{error:#}"), None);
        }
    }

    async fn read_outbox(&self) -> Result<Outbox, Unready> {
        let (recipients, environment) = (self.recipients.to_vec(), self.environment.clone());
        let headers = self.plan.output.report_headers.clone();
        aside(move || Outbox::read(&recipients, headers.as_deref(), &environment)).await
    }

    /// Does everything that takes time: reads files, then runs the engine. Dropping it at any point is safe.
    async fn work(&self, show: &RefCell<Show<'_>>, unbegun: &RefCell<Option<Unbegun>>) -> Ending {
        let Self { plan, environment, told, .. } = *self;
        let reads = async { tokio::join!(credentials(&plan.access, environment), self.read_outbox()) };
        let Ok((read, outbox)) = timeout_at(plan.pace.net(), reads).await else {
            return Ending::Engine(End::Deadline);
        };
        let (read, note) = match outbox {
            Ok(mut outbox) => {
                let note = outbox.note.take();
                self.outbox.replace(Some(outbox));
                (read, note)
            }
            Err(Unready::Configuration(error)) => (Err(error), None),
            Err(Unready::Usage(error)) => {
                unbegun.replace(Some(Unbegun::Outputs(Refused::Usage(error))));
                return Ending::Configuration(String::new());
            }
        };
        // Outputs can be opened only now, because an input can name further inputs, which must not be overwritten.
        if let Err(refused) = told.open_files() {
            unbegun.replace(Some(Unbegun::Outputs(refused)));
            return Ending::Configuration(String::new());
        }
        *self.summary.borrow_mut() = self.names.summary();
        told.follow();
        let credentials = match read {
            Err(error) => {
                let message = error.message.clone();
                unbegun.replace(Some(Unbegun::Configuration(error)));
                return Ending::Configuration(message);
            }
            Ok(credentials) => credentials,
        };
        // A file that cannot be used ends the run: only its error and its hint are shown.
        let is_usable = credentials.error.is_none();
        if is_usable {
            let mut show = show.borrow_mut();
            show.live.start(credentials.context());
            for note in credentials.notes.iter().chain(&note) {
                show.live.note(note);
            }
        }
        unbegun.replace(credentials.error.clone().map(Unbegun::Configuration));
        let said = |said: &ServerProgress| {
            let at = plan.pace.started.elapsed();
            show.borrow_mut().event(&Event::ServerSaid { at, said }, true);
        };
        let awaited = show.borrow().live.awaited();
        let mut observer = Observer::new(&plan.inquiry, credentials, &said, awaited);
        let run = engine::run(&plan.pace, &mut observer, |event| {
            let is_told = is_usable || !matches!(&event, Event::Round(round) if round.number == 0);
            show.borrow_mut().event(&event, is_told);
        });
        // The future contains everything that is in progress; on the stack of `block_on` it would be moved around.
        let end = Box::pin(run).await;
        Ending::Engine(end)
    }
}

async fn credentials(access: &Access, environment: &Environment) -> Result<Credentials, ConfigError> {
    let (access, environment) = (access.clone(), environment.clone());
    aside(move || Credentials::read(&access, &environment)).await
}

/// Reads files on a separate thread, because they can be slow (network file systems, pipes).
async fn aside<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(read).await {
        Ok(read) => read,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}
