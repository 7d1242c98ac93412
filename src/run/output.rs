//! The result on stdout.

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsFd as _;

use super::streams::metadata;
use crate::config::Environment;
use crate::plan::Output;
use crate::report::format::Format;
use crate::report::sink::ci::Ci;
use crate::report::sink::terminal;
use crate::report::{Report, TextStyle};

/// Buffer size of a write, in bytes.
const PIECE: usize = 64 << 10;

/// One document, written at the end or as it grows.
pub(super) struct Document {
    format: &'static Format,
    style: TextStyle,
    /// Number of events in the part that is already written.
    told: usize,
    /// First error; nothing is written after it.
    error: Option<io::Error>,
}

impl Document {
    pub(super) fn new(options: &Output, ci: Ci, environment: &Environment) -> Self {
        let variable = |name: &str| environment.get(name);
        let style = TextStyle {
            color: terminal::color(options.color, io::stdout().is_terminal(), ci, variable),
            links: terminal::links(options.color, io::stdout().is_terminal(), ci, variable),
            ascii: terminal::ascii(variable),
            width: None,
            verbose: options.verbose,
        };
        Self { format: options.format, style, told: 0, error: None }
    }

    /// Writes the new part of a growing document.
    pub(super) fn follow(&mut self, report: &Report) {
        if self.format.grows() {
            self.write(report);
        }
    }

    /// Writes the missing part. The error is the first one that occurred.
    pub(super) fn finish(mut self, report: &Report) -> io::Result<()> {
        self.write(report);
        self.error.map_or(Ok(()), Err)
    }

    fn write(&mut self, report: &Report) {
        if self.error.is_some() {
            return;
        }
        // The terminal may have been resized since the last write.
        self.style.width = terminal::size(&io::stdout()).map(|size| size.columns);
        let own = if self.format.grows() { Own::of_stdout() } else { None };
        let write = |out: &mut dyn io::Write| {
            let mut out = BufWriter::with_capacity(PIECE, out);
            self.format.write_after(self.told, report, &self.style, &mut out)?;
            out.flush()
        };
        let written = match own {
            Some(own) => own.add(write),
            None => write(&mut io::stdout().lock()),
        };
        self.told = report.events();
        self.error = written.err();
    }
}

/// The file that stdout is redirected to. It is written without the standard library, which would write the rest of a torn line when the
/// process ends.
struct Own {
    file: File,
    /// Length before the addition.
    length: u64,
    /// Bytes that have been added.
    written: u64,
}

impl Own {
    fn of_stdout() -> Option<Self> {
        let stdout = metadata(&io::stdout()).ok().filter(fs::Metadata::is_file)?;
        let file = File::from(io::stdout().as_fd().try_clone_to_owned().ok()?);
        Some(Self { file, length: stdout.len(), written: 0 })
    }

    /// Adds whole lines or nothing: on a full disk, the last line would be torn.
    fn add(mut self, write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> io::Result<()> {
        let written = write(&mut self);
        // Bytes that others have added since must not be removed: stderr may go to the same file.
        if written.is_err() && self.file.metadata()?.len() == self.length + self.written {
            self.file.set_len(self.length).and_then(|()| self.file.seek(SeekFrom::End(0)))?;
        }
        written
    }
}

impl io::Write for Own {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
