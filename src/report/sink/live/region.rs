//! The live region of a terminal: indicatif's rows below the lines, redrawn in place and removed at the end.
//!
//! indicatif fills each row up to the edge and lets the terminal wrap it, which makes one long line of everything it draws: a terminal that
//! is resized wraps that line differently, and then the wrong rows are erased. Therefore indicatif draws on a [`Sheet`], and each row of it
//! ends with a new line here. The cursor waits in the first column below them: text that the terminal itself prints, such as `^C`, is
//! erased with the next frame, and no mode of the terminal outlasts a frame.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use console::{measure_text_width, truncate_str};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

use crate::report::sink::terminal::Size;

/// Template of a row with a bar of 20 columns.
const BAR: &str = "{msg}  {bar:20}";

/// A row of text, possibly with a spinner or a bar.
#[derive(Debug)]
pub(super) enum Row {
    Plain(String),
    Spinner(String),
    /// A spinner that no longer turns.
    Done(String),
    Bar(String, u64, u64),
}

#[derive(Debug)]
pub(super) struct Region {
    /// Called for each frame, because a terminal can be resized at any time.
    size: fn() -> Size,
    ascii: bool,
    rows: MultiProgress,
    bars: Vec<ProgressBar>,
    sheet: Sheet,
    /// Lines to write above the rows with the next frame.
    above: String,
    /// Columns of each row that is on the screen.
    drawn: Vec<usize>,
}

impl Region {
    pub(super) fn new(size: fn() -> Size, ascii: bool) -> Self {
        let sheet = Sheet { size, written: Arc::default() };
        let target = ProgressDrawTarget::term_like(Box::new(sheet.clone()));
        let rows = MultiProgress::with_draw_target(target);
        Self { size, ascii, rows, bars: Vec::new(), sheet, above: String::new(), drawn: Vec::new() }
    }

    /// Returns how many rows fit: the cursor takes one, and the first one is empty.
    pub(super) fn room(&self) -> usize {
        (self.size)().lines.saturating_sub(2).max(1)
    }

    /// Appends a line above the rows.
    pub(super) fn append(&mut self, line: &str) {
        self.above.push_str(line);
        self.above.push('\n');
    }

    /// Returns the text that draws these rows in place of the last ones, and the lines above them.
    pub(super) fn frame(&mut self, rows: Vec<Row>) -> String {
        let frame = self.end();
        let (room, columns) = (self.room(), (self.size)().columns.max(1));
        // Typing during a run moves the terminal on by a line, which leaves the first row behind, so it is empty.
        let mut shown = vec![String::new()];
        shown.extend(self.laid_out(rows.into_iter().take(room)));
        let ellipsis = if self.ascii { "..." } else { "…" };
        let ellipsis = ellipsis.get(..columns).unwrap_or(ellipsis);
        let shown: Vec<_> = shown.iter().map(|row| truncate_str(row, columns, ellipsis)).collect();
        self.drawn = shown.iter().map(|row| measure_text_width(row)).collect();
        // A character that is wider here than it should be must not wrap its row.
        frame + "\u{1b}[?7l" + &shown.join("\n") + "\n\u{1b}[?7h"
    }

    /// Returns the text that erases the rows and writes the lines above them. Works while a panic unwinds, too, when indicatif draws
    /// nothing.
    pub(super) fn end(&mut self) -> String {
        let erased = self.erase();
        self.drawn.clear();
        erased + &std::mem::take(&mut self.above)
    }

    /// Returns the rows as indicatif lays them out.
    fn laid_out(&mut self, rows: impl Iterator<Item = Row>) -> Vec<String> {
        let mut count = 0;
        for (n, row) in rows.enumerate() {
            count = n + 1;
            if self.bars.len() < count {
                self.bars.push(self.rows.add(ProgressBar::hidden()));
            }
            row.show_in(&self.bars[n], self.ascii);
        }
        for gone in self.bars.drain(count..) {
            self.rows.remove(&gone);
        }
        self.bars.iter().for_each(ProgressBar::tick);
        self.sheet.rows()
    }

    /// Returns the text that moves to the start of the first row and erases everything below. A row that has become longer than the
    /// terminal is wide has been wrapped, as nearly all terminals do. Erases line by line, because tmux keeps what is erased from the first
    /// line of the screen to its end.
    fn erase(&self) -> String {
        let columns = (self.size)().columns.max(1);
        let up: usize = self.drawn.iter().map(|width| width.div_ceil(columns).max(1)).sum();
        if up == 0 {
            return String::new();
        }
        let lines = "\u{1b}[B\u{1b}[2K".repeat(up);
        format!("\r\u{1b}[{up}A\u{1b}[2K{lines}\u{1b}[{up}A")
    }
}

impl Row {
    fn show_in(self, bar: &ProgressBar, ascii: bool) {
        let (template, text) = match self {
            Self::Plain(text) => ("{msg}", text),
            Self::Spinner(text) => ("{spinner} {msg}", text),
            Self::Done(text) => (if ascii { "+ {msg}" } else { "✓ {msg}" }, text),
            Self::Bar(text, done, of) => {
                bar.set_length(of);
                bar.set_position(done);
                (BAR, text)
            }
        };
        // The templates are constants, and valid.
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
        bar.set_style(if ascii {
            style.tick_chars("|/-\\ ").progress_chars("=>-")
        } else {
            style.progress_chars("━╸─")
        });
        bar.set_message(text);
    }
}

/// The surface that indicatif draws on: a row, the padding up to the edge, the next row, and so on.
#[derive(Clone, Debug)]
struct Sheet {
    size: fn() -> Size,
    written: Arc<Mutex<Vec<String>>>,
}

impl Sheet {
    fn rows(&self) -> Vec<String> {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.iter().step_by(2).cloned().collect()
    }
}

/// [`Region`] cuts and erases the rows, so any movement of the cursor begins a new sheet.
#[rustfmt::skip]
impl TermLike for Sheet {
    /// A character may take two columns, for which indicatif needs room.
    fn width(&self) -> u16 { u16::try_from((self.size)().columns).unwrap_or(u16::MAX).max(2) }
    fn height(&self) -> u16 { u16::MAX }
    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(())
    }
    fn move_cursor_down(&self, _: usize) -> io::Result<()> { Ok(()) }
    fn move_cursor_right(&self, _: usize) -> io::Result<()> { Ok(()) }
    fn move_cursor_left(&self, _: usize) -> io::Result<()> { Ok(()) }
    fn write_line(&self, _: &str) -> io::Result<()> { Ok(()) }
    fn write_str(&self, text: &str) -> io::Result<()> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
        Ok(())
    }
    fn clear_line(&self) -> io::Result<()> { Ok(()) }
    fn flush(&self) -> io::Result<()> { Ok(()) }
}
