//! The result on stdout.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsFd as _;

use super::streams::{identity, metadata};
use crate::config::Environment;
use crate::plan::Output;
use crate::report::format::Format;
use crate::report::sink::ci::Ci;
use crate::report::sink::terminal;
use crate::report::{Report, TextStyle};

/// What is written at once, in bytes.
const PIECE: usize = 64 << 10;

/// One document, at the end or as it grows.
pub(super) struct Document {
    format: &'static Format,
    style: TextStyle,
    /// Events that the part says that is written.
    told: usize,
    /// What went wrong first; nothing is written after it.
    error: Option<io::Error>,
}

impl Document {
    pub(super) fn new(options: &Output, ci: Ci, environment: &Environment) -> Self {
        let variable = |name: &str| environment.get(name);
        let style = TextStyle {
            color: terminal::color(options.color, io::stdout().is_terminal(), ci, variable),
            links: terminal::links(options.color, io::stdout().is_terminal(), ci, variable),
            ascii: terminal::ascii(options.ascii, variable),
            width: None,
            verbose: options.verbose,
        };
        Self { format: options.format, style, told: 0, error: None }
    }

    /// Writes what is new of a document that grows.
    pub(super) fn follow(&mut self, report: &Report) {
        if self.format.grows() {
            self.write(report);
        }
    }

    /// Writes what is missing. The error is the first that came up.
    pub(super) fn finish(mut self, report: &Report) -> io::Result<()> {
        self.write(report);
        self.error.map_or(Ok(()), Err)
    }

    fn write(&mut self, report: &Report) {
        if self.error.is_some() {
            return;
        }
        // As wide as it is by now.
        self.style.width = terminal::size(&io::stdout()).map(|size| size.columns);
        let own = if self.format.grows() { Own::of_stdout() } else { None };
        let write = |out: &mut dyn io::Write| {
            let mut out = BufWriter::with_capacity(PIECE, out);
            self.format.write_after(self.told, report, &self.style, &mut out)?;
            out.flush()
        };
        let written = match own {
            Some(own) => own.write(write),
            None => write(&mut io::stdout().lock()),
        };
        self.told = report.events();
        self.error = written.err();
    }
}

/// The file that stdout is redirected to. Past the standard library, which would write the rest of a torn line at the end of the process.
struct Own {
    file: File,
    /// Before something is added.
    length: u64,
}

impl Own {
    /// Only if stderr goes elsewhere: its lines would be lost.
    fn of_stdout() -> Option<Self> {
        let (stdout, stderr) = (metadata(&io::stdout()).ok()?, metadata(&io::stderr()).ok()?);
        let is_own = stdout.is_file() && identity(&stdout) != identity(&stderr);
        let file = File::from(io::stdout().as_fd().try_clone_to_owned().ok()?);
        is_own.then_some(Self { file, length: stdout.len() })
    }

    /// Whole lines or nothing: on a full disk, the last one is torn.
    fn write(mut self, write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> io::Result<()> {
        let written = write(&mut self.file);
        // What others have added since is not ours to take away.
        if written.is_err() && self.file.stream_position()? == self.file.metadata()?.len() {
            self.file.set_len(self.length).and_then(|()| self.file.seek(SeekFrom::End(0)))?;
        }
        written
    }
}
