//! The live region of a terminal: indicatif's rows below the lines, drawn over, and gone at the end.
//!
//! indicatif fills each row up to the edge and lets the terminal wrap it, which makes one long line of all that it draws: a
//! terminal that is resized wraps that anew, and the rows that are erased then are others. So it draws on a [`Sheet`], and each
//! row of it ends with a new line here. The cursor waits in the first column below them: what the terminal shows by itself, such
//! as `^C`, is erased with the next frame, and no mode of the terminal outlives a frame.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use console::{measure_text_width, truncate_str};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

use crate::report::sink::terminal::Size;

/// Columns of a bar.
const BAR: &str = "{msg}  {bar:20}";

/// A row, and what turns or grows beside its text.
#[derive(Debug)]
pub(super) enum Row {
    Plain(String),
    Spinner(String),
    /// It no longer turns.
    Done(String),
    Bar(String, u64, u64),
}

#[derive(Debug)]
pub(super) struct Region {
    /// Asked for each frame: a terminal may be resized at any time.
    size: fn() -> Size,
    ascii: bool,
    rows: MultiProgress,
    bars: Vec<ProgressBar>,
    sheet: Sheet,
    /// Lines that are to appear above the rows with the next frame.
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

    /// Rows that there is room for: the cursor has one, and the first one is empty.
    pub(super) fn room(&self) -> usize {
        (self.size)().lines.saturating_sub(2).max(1)
    }

    /// Appends a line above the rows.
    pub(super) fn append(&mut self, line: &str) {
        self.above.push_str(line);
        self.above.push('\n');
    }

    /// What draws these rows in the place of the last ones, and the lines above them.
    pub(super) fn frame(&mut self, rows: Vec<Row>) -> String {
        let frame = self.end();
        let (room, columns) = (self.room(), (self.size)().columns.max(1));
        // Whoever types while it runs moves the terminal on by a line: then the first row stays, so it is empty.
        let mut shown = vec![String::new()];
        shown.extend(self.laid_out(rows.into_iter().take(room)));
        let ellipsis = if self.ascii { "..." } else { "…" };
        let ellipsis = ellipsis.get(..columns).unwrap_or(ellipsis);
        let shown: Vec<_> = shown.iter().map(|row| truncate_str(row, columns, ellipsis)).collect();
        self.drawn = shown.iter().map(|row| measure_text_width(row)).collect();
        // A character that is wider here than it should be must not make two rows of one.
        frame + "\u{1b}[?7l" + &shown.join("\n") + "\n\u{1b}[?7h"
    }

    /// What erases the rows, and writes the lines that are to stand above them. Works while a panic unwinds, too: then indicatif
    /// draws nothing.
    pub(super) fn end(&mut self) -> String {
        let erased = self.erase();
        self.drawn.clear();
        erased + &std::mem::take(&mut self.above)
    }

    /// As indicatif lays them out.
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

    /// To where the first row begins, and all below it is empty. A row that has become longer than the terminal is wide has been
    /// wrapped, as nearly all terminals do. Line by line: tmux keeps what is erased from the first line of the screen to its end.
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
        // The templates are ours: they are right.
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner());
        bar.set_style(if ascii {
            style.tick_chars("|/-\\ ").progress_chars("=>-")
        } else {
            style.progress_chars("━╸─")
        });
        bar.set_message(text);
    }
}

/// What indicatif draws on: a row, what fills it up to the edge, the next row, and so on.
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

/// Rows are cut, and erased, by [`Region`]: whatever moves the cursor begins a new sheet.
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
