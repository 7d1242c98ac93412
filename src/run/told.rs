//! The state of a run and its outputs, shared by the run and by the watch that finishes the output of a run that is stuck.
//!
//! The report is never locked during a write, which may take forever.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::output::Document;
use super::outputs::{Names, Outputs, Refused};
use super::watch::{AFTER_VERDICT, LAST_WORDS};
use crate::engine::event::Event;
use crate::model::Exit;
use crate::plan::Plan;
use crate::report::Report;
use crate::report::ledger::{Ending, Ledger};
use crate::text::clock;
use crate::text::duration::whole;

pub(super) struct Told<'a> {
    plan: &'a Plan,
    ledger: Mutex<Ledger>,
    files: Mutex<Reports<'a>>,
    document: Mutex<Option<Document>>,
    progress: Mutex<Progress>,
    /// Time by which the process must have ended if it sends the report; everything else is already written.
    sending: watch::Sender<Option<Instant>>,
}

/// The state of the files.
enum Reports<'a> {
    /// Nothing has been written yet, because the inputs of the program are not all known.
    Named(&'a Names<'a>),
    Open(Outputs),
    /// The files have their final content.
    Done,
}

/// Progress of the end of a run.
#[derive(Clone, Copy, Default)]
struct Progress {
    verdict: Option<Exit>,
    /// Time of the verdict.
    concluded: Option<Instant>,
    files: bool,
    document: bool,
}

/// Locks even after a panic of another holder: events are entered one by one, so the report is always consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Told<'a> {
    pub(super) fn new(plan: &'a Plan, names: &'a Names<'a>, document: Document) -> Self {
        Self {
            plan,
            ledger: Mutex::new(Ledger::new(plan.unbegun())),
            files: Mutex::new(Reports::Named(names)),
            document: Mutex::new(Some(document)),
            progress: Mutex::default(),
            sending: watch::Sender::default(),
        }
    }

    pub(super) fn report(&self) -> Arc<Report> {
        lock(&self.ledger).report()
    }

    pub(super) fn record(&self, event: &Event<'_>) {
        lock(&self.ledger).record(event);
    }

    pub(super) fn heartbeat(&self, elapsed: Duration, every: Duration) -> bool {
        lock(&self.ledger).heartbeat(whole(elapsed), every)
    }

    /// Changes the report outside of events. If the run is over, its exit code may change as well.
    pub(super) fn amend(&self, amend: impl FnOnce(&mut Report)) -> Arc<Report> {
        let mut ledger = lock(&self.ledger);
        ledger.amend(amend);
        let report = ledger.report();
        drop(ledger);
        lock(&self.progress).verdict.as_mut().into_iter().for_each(|verdict| *verdict = report.exit);
        report
    }

    /// Begins the report files. If the process ends early from then on, for whatever reason, the documents show it.
    pub(super) fn open_files(&self) -> Result<(), Refused> {
        let report = self.report();
        lock(&self.files).open(&report, self.plan)
    }

    pub(super) fn update_files(&self) {
        let report = self.report();
        if let Reports::Open(outputs) = &mut *lock(&self.files) {
            outputs.update(&report);
        }
    }

    /// Writes the new part of a growing document.
    pub(super) fn follow(&self) {
        let report = self.report();
        if let Some(document) = &mut *lock(&self.document) {
            document.follow(&report);
        }
    }

    /// Concludes the report; only the first call has an effect.
    pub(super) fn conclude(&self, ending: &Ending) -> Arc<Report> {
        let mut ledger = lock(&self.ledger);
        if lock(&self.progress).verdict.is_some() {
            return ledger.report();
        }
        let report = ledger.conclude(ending, clock::now(), whole(self.plan.start.instant.elapsed()));
        let mut progress = lock(&self.progress);
        (progress.verdict, progress.concluded) = (Some(report.exit), Some(Instant::now()));
        drop(progress);
        report
    }

    /// Allows time for sending, once files and streams are complete. Returns when sending has to end, regardless of the deadline.
    pub(super) fn begin_sending(&self) -> Instant {
        let gone_by = lock(&self.progress).concluded.unwrap_or_else(Instant::now) + AFTER_VERDICT;
        self.sending.send_replace(Some(gone_by));
        gone_by - LAST_WORDS
    }

    pub(super) fn sending(&self) -> watch::Receiver<Option<Instant>> {
        self.sending.subscribe()
    }

    pub(super) fn finish_files(&self, report: &Report) -> anyhow::Result<()> {
        let mut files = lock(&self.files);
        // A run that ended before all inputs were known has not opened its files yet.
        files.open(report, self.plan).map_err(|refused| match refused {
            Refused::Usage(error) => anyhow::Error::msg(error),
            Refused::Unwritable(error) => error,
        })?;
        if let Reports::Open(outputs) = std::mem::replace(&mut *files, Reports::Done) {
            outputs.finish(report)?;
        }
        drop(files);
        lock(&self.progress).files = true;
        Ok(())
    }

    pub(super) fn finish_document(&self, report: &Report) -> io::Result<()> {
        let mut document = lock(&self.document);
        match document.take().map(|document| document.finish(report)) {
            // A reader that has gone away changes nothing: the verdict is the exit code.
            Some(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
            _ => {}
        }
        drop(document);
        lock(&self.progress).document = true;
        Ok(())
    }

    /// Whether the document was written, or failed to be.
    pub(super) fn is_over(&self) -> bool {
        self.document.try_lock().is_ok_and(|document| document.is_none())
    }

    /// Returns the exit code if the process ends now: `otherwise` without a verdict. A verdict that was not written is not a success.
    pub(super) fn exit_now(&self, otherwise: Exit) -> Exit {
        let Progress { verdict, files, document, .. } = *lock(&self.progress);
        match verdict {
            Some(Exit::Healthy) if !(files && document) => Exit::ReportNotWritten,
            Some(exit) => exit,
            None => otherwise,
        }
    }
}

impl Reports<'_> {
    fn open(&mut self, report: &Report, plan: &Plan) -> Result<(), Refused> {
        if let Self::Named(names) = self {
            *self = Self::Open(names.open(report, plan.pace.logs)?);
        }
        Ok(())
    }
}
