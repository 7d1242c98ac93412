//! Every file that a run writes apart from its streams. Each is opened once, and is neither another output nor an
//! input.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::streams::{identity, is_at, is_file, is_pipe, metadata};
use super::termination::{self, Message};
use crate::config::{Environment, file};
use crate::observe;
use crate::plan::Plan;
use crate::report::Report;
use crate::report::format::{self, Format};
use crate::report::sink::ci::{Ci, Summary};
use crate::report::sink::files::{Beside, Files, Identity};
use crate::report::sink::wanted::{Wanted, is_url};

/// The variable in which GitHub names the file of a step's summary.
const SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// The files by name, before anything is opened.
pub(super) struct Names<'a> {
    reports: &'a [Wanted],
    trace: Option<&'a Path>,
    message: Option<PathBuf>,
    summary: Option<PathBuf>,
}

/// The reasons why nothing is checked.
pub(super) enum Refused {
    /// Two outputs are the same file, or one is an input: an argument is wrong.
    Usage(String),
    Unwritable(anyhow::Error),
}

/// The open files.
pub(super) struct Outputs {
    reports: Files,
    trace: Option<Beside>,
    message: Option<Message>,
}

impl<'a> Names<'a> {
    /// Collects the names. `Err`: two of them are the same file, or one is the file of a stream.
    pub(super) fn of(plan: &'a Plan, reports: &'a [Wanted], ci: Ci, environment: &Environment) -> Result<Self, String> {
        let output = &plan.output;
        let summary = environment.get(SUMMARY).filter(|path| ci == Ci::Github && !path.is_empty()).map(PathBuf::from);
        // A Markdown report that `--report` or `>>` writes to this file is the summary; no second one is written.
        let is_summary = |format: &Format, is_there: bool| *format == format::MARKDOWN && is_there;
        let is_written = |path: &PathBuf| {
            let by_report = |it: &Wanted| is_summary(it.format, Identity::of(&it.path) == Identity::of(path));
            reports.iter().any(by_report) || is_summary(output.format, is_at(&io::stdout(), path))
        };
        let names = Self {
            reports,
            trace: output.trace.as_deref(),
            message: termination::place(output.termination_log.as_deref()),
            summary: summary.filter(|path| !is_written(path)),
        };
        names.are_files()?;
        names.are_apart()?;
        names.are_apart_from_streams()?;
        Ok(names)
    }

    fn all(&self) -> impl Iterator<Item = (String, &Path)> {
        let reports = self.reports.iter().map(|it| (format!("the {} report", it.format.name), it.path.as_path()));
        let trace = self.trace.map(|path| ("the trace".to_owned(), path));
        let message = self.message.as_deref().map(|path| ("the termination message".to_owned(), path));
        let summary = self.summary.as_deref().map(|path| ("the step summary".to_owned(), path));
        reports.chain(trace).chain(message).chain(summary)
    }

    /// Only reports can be sent. The URL is not repeated, as it may be a secret.
    fn are_files(&self) -> Result<(), String> {
        match self.all().find(|(_, path)| path.to_str().is_some_and(is_url)) {
            Some((what, _)) => Err(format!("{what} cannot be sent to a URL; give the path of a file")),
            None => Ok(()),
        }
    }

    fn are_apart(&self) -> Result<(), String> {
        let mut known: Vec<(String, Identity)> = Vec::new();
        for (what, path) in self.all() {
            let identity = Identity::of(path);
            if let Some((other, _)) = known.iter().find(|(_, other)| *other == identity) {
                return Err(format!("{other} and {what} are the same file: `{}`", path.display()));
            }
            known.push((what, identity));
        }
        Ok(())
    }

    /// Rejects files that are also streams: replacing the file would discard the stream's output, and a pipe would mix
    /// two documents.
    fn are_apart_from_streams(&self) -> Result<(), String> {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let streams: [(&str, &dyn AsFd); 2] = [("stdout", &stdout), ("stderr", &stderr)];
        // The summary is only appended to.
        for (_, path) in self.all().filter(|(_, path)| Some(*path) != self.summary.as_deref()) {
            if let Some((name, _)) =
                streams.iter().find(|(_, stream)| (is_file(stream) || is_pipe(stream)) && is_at(stream, path))
            {
                return Err(format!("{name} is redirected to the file of a report: `{}`", path.display()));
            }
        }
        Ok(())
    }

    /// Rejects outputs that are also inputs, under any name.
    pub(super) fn are_apart_from_inputs(&self) -> Result<(), String> {
        // The summary was not requested, so it is left out instead.
        for (what, path) in self.all().filter(|(_, path)| Some(*path) != self.summary.as_deref()) {
            if is_input(path) {
                return Err(format!("{what} would overwrite an input file: `{}`", path.display()));
            }
        }
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let streams: [(&str, &dyn AsFd); 2] = [("stdout", &stdout), ("stderr", &stderr)];
        for (name, stream) in streams {
            if metadata(&stream).is_ok_and(|found| found.is_file() && was_read(&found)) {
                return Err(format!("{name} is redirected to an input file"));
            }
        }
        Ok(())
    }

    /// Opens everything except the summary. If the process ends early from then on, for whatever reason, the documents
    /// show it.
    pub(super) fn open(&self, report: &Report, private: bool) -> Result<Outputs, Refused> {
        self.are_apart_from_inputs().map_err(Refused::Usage)?;
        let reports = Files::create(self.reports, report, private, is_read).map_err(Refused::Unwritable)?;
        let trace = self.trace.map(|path| Beside::open(path, is_read)).transpose().map_err(Refused::Unwritable)?;
        if let Some(trace) = &trace {
            let begun = spans().and_then(|document| trace.write(&document));
            begun.map_err(Refused::Unwritable)?;
        }
        Ok(Outputs { reports, trace, message: self.message.as_deref().and_then(Message::open) })
    }

    pub(super) fn summary(&self) -> Option<Summary> {
        self.summary.as_deref().and_then(|path| Summary::open(path, is_read))
    }
}

impl Outputs {
    pub(super) fn update(&mut self, report: &Report) {
        self.reports.update(report);
    }

    /// Writes the final content of each file. The error is the first one.
    pub(super) fn finish(self, report: &Report) -> anyhow::Result<()> {
        let trace = self.trace.map_or(Ok(()), |trace| trace.finish(spans()?));
        let written = self.reports.finish(report).and(trace);
        if let Some(message) = self.message {
            message.write(report);
        }
        written
    }
}

/// Returns the document of `--trace` as recorded so far.
fn spans() -> anyhow::Result<Vec<u8>> {
    let mut document = Vec::new();
    observe::trace::write(&mut document).context("could not write the trace")?;
    Ok(document)
}

fn is_read(identity: &Identity) -> bool {
    file::inputs().iter().any(|input| Identity::of(input) == *identity)
}

/// Whether this is an input file, under any name.
fn is_input(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| (found.is_file() || found.file_type().is_fifo()) && was_read(&found))
}

/// Whether this open file is an input: its name may refer to another file by now.
pub(super) fn is_input_file(file: &File) -> bool {
    file.metadata().is_ok_and(|found| was_read(&found))
}

fn was_read(found: &Metadata) -> bool {
    file::inputs().iter().any(|input| fs::metadata(input).is_ok_and(|input| identity(&input) == identity(found)))
}
