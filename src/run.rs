//! One run, put together: engine, signals, progress, files, and the last word on stdout.

use std::cell::RefCell;
use std::fs::{self, File, Metadata};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::time::Duration;

use clap::ArgMatches;
use futures::FutureExt as _;
use jiff::Timestamp;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};

use crate::cli::RunArgs;
use crate::config::{ConfigError, Environment};
use crate::engine::{self, End};
use crate::event::Event;
use crate::exit::Exit;
use crate::ledger::{Ending, Ledger, unjudged};
use crate::observe::{Credentials, Observer};
use crate::plan::{Plan, Start, Usage};
use crate::report::ci::{Ci, Section};
use crate::report::files::{self, Files, Wanted};
use crate::report::format::{self, Format};
use crate::report::history::History;
use crate::report::live::{Live, LiveStyle, Size};
use crate::report::text::TextStyle;
use crate::report::{Report, RunResult, Sources, style};
use crate::signals::{Resizes, Signals};
use crate::snapshot::ServerProgress;

/// Checkpoints and the heartbeat are looked after this often.
const TICK: Duration = Duration::from_secs(1);

/// Decides, runs and reports. Never fails: whatever happens is an exit code.
pub(crate) fn run(args: &RunArgs, matches: &ArgMatches, start: Start) -> Exit {
    let decided = Plan::decide(args, matches, start).and_then(|plan| {
        let wanted = files::parse(&args.report, args.junit_file.as_deref(), args.output);
        let wanted = wanted.and_then(apart_from_streams).map_err(Usage::new)?;
        Ok((plan, wanted))
    });
    let (plan, wanted) = match decided {
        Ok(decided) => decided,
        Err(usage) => {
            complain(&usage.message, usage.hint.as_deref());
            return Exit::Usage;
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("could not start: {error}"), None);
            return Exit::Internal;
        }
    };
    // Whatever is not caught where it can be reported still has its own exit code.
    let exit = std::panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(execute(args, &plan, &wanted, start))))
        .unwrap_or(Exit::Internal);
    // A name look-up that hangs in a thread of its own must not hold up the end of the process.
    runtime.shutdown_background();
    match exit {
        Exit::Healthy => exit,
        _ if args.simple_exit_codes => Exit::Unhealthy,
        _ => exit,
    }
}

/// A report replaces its file, and with it whatever a stream has written there.
fn apart_from_streams(wanted: Vec<Wanted>) -> Result<Vec<Wanted>, String> {
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let streams: [(&str, &dyn AsFd); 2] = [("stdout", &stdout), ("stderr", &stderr)];
    for Wanted { path, .. } in &wanted {
        if let Some((name, _)) = streams.iter().find(|(_, stream)| is_file(stream) && is_at(stream, path)) {
            return Err(format!("{name} goes to the file of a report: `{}`", path.display()));
        }
    }
    Ok(wanted)
}

async fn execute(args: &RunArgs, plan: &Plan, wanted: &[Wanted], start: Start) -> Exit {
    let (Ok(mut signals), Ok(mut resizes)) = (Signals::listen(), Resizes::listen()) else {
        complain("could not listen for signals", None);
        return Exit::Internal;
    };
    let mut report = unbegun(args, plan, start);
    report.last_success = files::last_success(wanted);
    let files = match Files::create(wanted, &report, plan.pace.logs) {
        Ok(files) => files,
        Err(error) => {
            complain(&error, Some("nothing was checked"));
            return Exit::ReportNotWritten;
        }
    };
    let environment = Environment::of_process();
    let ci = Ci::decide(args.ci, |name| environment.get(name));
    let show = RefCell::new(Show {
        ledger: Ledger::new(report, args.allow_empty),
        live: live(args, plan, ci, start, &environment),
        files,
        stale: false,
        output: Output::new(args, ci, &environment),
        heartbeat: args.heartbeat.0,
    });
    show.borrow_mut().follow();
    let config_error = RefCell::new(None);
    let ending = {
        let mut work =
            std::pin::pin!(AssertUnwindSafe(work(args, plan, &environment, &show, &config_error)).catch_unwind());
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                end = &mut work => break end.unwrap_or_else(|panic| Ending::Internal(panic_message(&*panic))),
                signal = signals.next() => break Ending::Signal(signal),
                _ = ticks.tick() => show.borrow_mut().tick(start.instant.elapsed()),
                () = resizes.next() => show.borrow_mut().live.resized(start.instant.elapsed()),
            }
        }
    };
    // From here on everything is quick; whoever asks a second time does not want to wait even for that.
    tokio::spawn(async move {
        let exit = signals.next().await;
        leave(exit);
    });

    let Show { ledger, live, files, output, .. } = show.into_inner();
    // The region goes before the report comes, and what is folded away ends.
    drop(live);
    let mut report = ledger.conclude(&ending, Timestamp::now(), start.instant.elapsed());
    match config_error.into_inner() {
        Some(ConfigError { message, hint, .. }) => {
            complain(&message, hint.as_deref());
            if report.exit == Exit::Configuration {
                report.error.get_or_insert(message);
                report.hint = hint;
            }
        }
        None => report.error.iter().for_each(|error| complain(error, None)),
    }
    if let Err(error) = files.finish(&report) {
        complain(&error, None);
        if report.exit == Exit::Healthy {
            report.exit = Exit::ReportNotWritten;
            report.error = Some(error);
        }
    }
    match output.finish(&report) {
        // A reader that has gone away changes nothing: the verdict is the exit code.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let error = format!("could not write the result to stdout: {error}");
            complain(&error, None);
            if report.exit == Exit::Healthy {
                report.exit = Exit::ReportNotWritten;
                report.error = Some(error);
            }
        }
        _ => {}
    }
    // Whoever sends it there by `--report` or by `>>` gets no second one.
    let is_output = |path: &str| *args.output == format::MARKDOWN && is_at(&io::stdout(), path);
    let is_report = |path: &str| wanted.iter().any(|it| it.path.as_os_str() == path) || is_output(path);
    let summary = environment.get("GITHUB_STEP_SUMMARY").filter(|path| !is_report(path));
    // Nobody has asked for the summary: it only repeats what the log has.
    let in_log = *args.output == format::TEXT && !is_file(&io::stdout());
    if let Err(error) = ci.conclude(&report, in_log, summary.as_deref(), io::stderr().lock()) {
        complain(&error, None);
    }
    report.exit
}

/// Redirected into one, so that it is not what people watch.
fn is_file(stream: &impl AsFd) -> bool {
    metadata(stream).is_ok_and(|found| found.is_file())
}

/// Redirected into this one.
fn is_at(stream: &impl AsFd, path: impl AsRef<Path>) -> bool {
    let identity = |found: Metadata| (found.dev(), found.ino());
    match (metadata(stream), fs::metadata(path)) {
        (Ok(stream), Ok(file)) => identity(stream) == identity(file),
        _ => false,
    }
}

fn metadata(stream: &impl AsFd) -> io::Result<Metadata> {
    File::from(stream.as_fd().try_clone_to_owned()?).metadata()
}

/// Everything that takes time: files are read, then the engine runs. Dropping it at any point is safe.
async fn work(
    args: &RunArgs,
    plan: &Plan,
    environment: &Environment,
    show: &RefCell<Show>,
    config_error: &RefCell<Option<ConfigError>>,
) -> Ending {
    let credentials = match plan.pace.deadline {
        Some(deadline) => timeout_at(deadline, credentials(args, environment)).await,
        None => Ok(credentials(args, environment).await),
    };
    let credentials = match credentials {
        Err(_) => return Ending::Engine(End::Deadline),
        Ok(Err(error)) => {
            let message = error.message.clone();
            config_error.replace(Some(error));
            return Ending::Configuration(message);
        }
        Ok(Ok(credentials)) => credentials,
    };
    {
        let mut show = show.borrow_mut();
        show.live.start(credentials.context());
        for note in &credentials.notes {
            show.live.note(note);
        }
    }
    config_error.replace(credentials.error.clone());
    let said = |said: &ServerProgress| {
        let at = plan.pace.started.elapsed();
        show.borrow_mut().event(&Event::ServerSaid { at, said });
    };
    let mut observer = Observer::new(plan, credentials, &said);
    let run = engine::run(&plan.pace, &mut observer, |event| show.borrow_mut().event(&event));
    // It holds everything that is under way; on the stack of `block_on` it would be moved around.
    let end = Box::pin(run).await;
    Ending::Engine(end)
}

/// Files can be slow (network file systems, pipes), so they are read on a thread of their own.
async fn credentials(args: &RunArgs, environment: &Environment) -> Result<Credentials, ConfigError> {
    let (args, environment) = (args.clone(), environment.clone());
    match tokio::task::spawn_blocking(move || Credentials::read(&args, &environment)).await {
        Ok(read) => read,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

/// What follows the events.
struct Show {
    ledger: Ledger,
    live: Live<io::Stderr>,
    files: Files,
    /// Something has changed since the files were written.
    stale: bool,
    output: Output,
    /// How long nothing may happen until that is told.
    heartbeat: Duration,
}

impl Show {
    fn event(&mut self, event: &Event<'_>) {
        self.ledger.record(event);
        self.live.event(event);
        if let Event::Round(round) = event {
            // The first round is what a killed run is most likely to leave behind.
            self.stale = true;
            if round.number <= 1 {
                self.save();
            }
        }
        self.follow();
    }

    fn tick(&mut self, elapsed: Duration) {
        self.live.tick(elapsed);
        if self.ledger.heartbeat(elapsed, self.heartbeat) {
            self.stale = true;
            self.follow();
        }
        self.save();
    }

    fn follow(&mut self) {
        self.output.follow(self.ledger.report());
    }

    fn save(&mut self) {
        if self.stale {
            self.files.update(self.ledger.report());
            self.stale = false;
        }
    }
}

/// The report before anything was seen. It is what a run leaves behind that is killed at once, so it is no success.
pub(crate) fn unbegun(args: &RunArgs, plan: &Plan, start: Start) -> Report {
    Report {
        started_at: start.wall,
        finished_at: start.wall,
        took: Duration::ZERO,
        wait_timeout: plan.wait_timeout,
        stable_for: plan.pace.stable_for,
        rounds: 0,
        complete: false,
        result: RunResult::Undetermined,
        exit: Exit::Undetermined,
        deadline_reached: false,
        error: None,
        hint: None,
        targeted: None,
        weakened: plan.weakened.clone(),
        not_observed: Vec::new(),
        diagnoses: Vec::new(),
        sources: Sources {
            talosctl_options: talosctl_options(args),
            kubectl_options: kubectl_options(args),
            etcdctl_options: etcdctl_options(args),
            ..Sources::default()
        },
        logs: Vec::new(),
        history: History::default(),
        junit: args.junit_granularity,
        last_success: None,
        checks: plan.selection.iter().map(|(check, selection)| unjudged(check, *selection)).collect(),
    }
}

/// What talosctl has to be told to see what we see: what we were told.
fn talosctl_options(args: &RunArgs) -> Vec<String> {
    let mut options = Vec::new();
    if let Some(path) = &args.talosconfig {
        options.extend(["--talosconfig".to_owned(), path.display().to_string()]);
    }
    if let Some(context) = &args.context {
        options.extend(["--context".to_owned(), context.clone()]);
    }
    if !args.endpoints.is_empty() {
        options.extend(["-e".to_owned(), args.endpoints.join(",")]);
    }
    options
}

fn kubectl_options(args: &RunArgs) -> Vec<String> {
    let mut options = Vec::new();
    if let Some(path) = &args.kubeconfig {
        options.extend(["--kubeconfig".to_owned(), path.display().to_string()]);
    }
    if let Some(context) = &args.kube_context {
        options.extend(["--context".to_owned(), context.clone()]);
    }
    options
}

fn etcdctl_options(args: &RunArgs) -> Vec<String> {
    let mut options = Vec::new();
    if !args.etcd_endpoints.is_empty() {
        options.extend(["--endpoints".to_owned(), args.etcd_endpoints.join(",")]);
    }
    let files = [("--cacert", &args.etcd_cacert), ("--cert", &args.etcd_cert), ("--key", &args.etcd_key)];
    for (option, path) in files {
        options.extend(path.iter().flat_map(|path| [option.to_owned(), path.display().to_string()]));
    }
    options
}

fn live(args: &RunArgs, plan: &Plan, ci: Ci, start: Start, environment: &Environment) -> Live<io::Stderr> {
    let terminal = io::stderr().is_terminal();
    let variable = |name: &str| environment.get(name);
    let live = LiveStyle {
        colour: style::colour(args.color, terminal, ci, variable),
        ascii: style::ascii(args.ascii, variable),
        quiet: args.quiet,
        verbose: args.verbose,
        heartbeat: args.heartbeat.0,
        wait_timeout: plan.wait_timeout,
    };
    // What is written to the same terminal while the run goes on would tear the region apart.
    let shares = args.output.grows() && io::stdout().is_terminal();
    if style::redraws(terminal && !shares, ci, variable) {
        // A terminal that does not know its size has the usual one.
        let size = || style::size(&io::stderr()).unwrap_or(Size { columns: 80, lines: 24 });
        return Live::region(live, io::stderr(), size);
    }
    let live = Live::lines(live, io::stderr());
    if ci == Ci::Gitlab { live.within(Section::of_progress(start.wall)) } else { live }
}

/// The result on stdout: one document, at the end or as it grows.
struct Output {
    format: &'static Format,
    style: TextStyle,
    /// Events that the part says that is written.
    told: usize,
    /// What went wrong first; nothing is written after it.
    error: Option<io::Error>,
}

impl Output {
    fn new(args: &RunArgs, ci: Ci, environment: &Environment) -> Self {
        let variable = |name: &str| environment.get(name);
        let style = TextStyle {
            colour: style::colour(args.color, io::stdout().is_terminal(), ci, variable),
            ascii: style::ascii(args.ascii, variable),
            width: None,
            verbose: args.verbose,
        };
        Self { format: args.output, style, told: 0, error: None }
    }

    /// Writes what is new of a document that grows.
    fn follow(&mut self, report: &Report) {
        if self.format.grows() {
            self.write(report);
        }
    }

    /// Writes what is missing. The error is the first that came up.
    fn finish(mut self, report: &Report) -> io::Result<()> {
        self.write(report);
        self.error.map_or(Ok(()), Err)
    }

    fn write(&mut self, report: &Report) {
        if self.error.is_some() {
            return;
        }
        // As wide as it is by now.
        self.style.width = style::size(&io::stdout()).map(|size| size.columns);
        let written = self.format.render_after(self.told, report, &self.style).and_then(|rest| {
            let mut stdout = io::stdout().lock();
            stdout.write_all(&rest)?;
            stdout.flush()
        });
        self.told = report.events();
        self.error = written.err();
    }
}

/// `error: …`, and what to do about it.
pub(crate) fn complain(message: &str, hint: Option<&str>) {
    let mut stderr = io::stderr().lock();
    let _ = writeln!(stderr, "error: {message}");
    if let Some(hint) = hint {
        let _ = writeln!(stderr, "\nhint: {hint}");
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("internal error: {}", text.unwrap_or("unknown"))
}

#[expect(clippy::exit, reason = "a second signal asks for exactly that")]
fn leave(exit: Exit) -> ! {
    std::process::exit(i32::from(exit.code()))
}

/// Kept beside [`Start`] so that nothing else reads the clocks at the start.
pub(crate) fn now() -> Start {
    Start { instant: Instant::now(), wall: Timestamp::now() }
}
