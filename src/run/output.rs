//! The result on stdout.

use std::io::{self, BufWriter, IsTerminal as _, Write as _};

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
        let mut stdout = BufWriter::with_capacity(PIECE, io::stdout().lock());
        let written = self.format.write_after(self.told, report, &self.style, &mut stdout);
        let written = written.and_then(|()| stdout.flush());
        self.told = report.events();
        self.error = written.err();
    }
}
