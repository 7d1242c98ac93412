//! The live region of a terminal: rows below the lines, drawn over, and gone at the end.
//!
//! Each row ends with a new line, and the cursor waits in the first column below them: what the terminal shows by itself, such
//! as `^C`, is erased with the next frame, and no mode of the terminal outlives a frame. indicatif fills each row up to the edge
//! and lets the terminal wrap it, which makes one long line of all that it draws: a terminal that is resized wraps that anew, and
//! the rows that are erased then are others.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::report::sink::terminal::Size;

#[derive(Debug)]
pub(super) struct Region {
    /// Asked for each frame: a terminal may be resized at any time.
    size: fn() -> Size,
    /// Stands for what a row has no room for.
    ellipsis: &'static str,
    /// Lines that are to appear above the rows with the next frame.
    above: String,
    /// Columns of each row that is on the screen.
    drawn: Vec<usize>,
}

impl Region {
    pub(super) fn new(size: fn() -> Size, ascii: bool) -> Self {
        Self { size, ellipsis: if ascii { "..." } else { "…" }, above: String::new(), drawn: Vec::new() }
    }

    /// Rows that there is room for: the cursor has one.
    pub(super) fn room(&self) -> usize {
        (self.size)().lines.saturating_sub(1).max(1)
    }

    /// Appends a line above the rows.
    pub(super) fn append(&mut self, line: &str) {
        self.above.push_str(line);
        self.above.push('\n');
    }

    /// What draws these rows in the place of the last ones, and the lines above them.
    pub(super) fn frame(&mut self, rows: &[String]) -> String {
        let mut frame = self.erase();
        frame.push_str(&std::mem::take(&mut self.above));
        let columns = (self.size)().columns.max(1);
        let rows: Vec<_> = rows.iter().take(self.room()).map(|row| cut(row, columns, self.ellipsis)).collect();
        if !rows.is_empty() {
            // A character that is wider here than it should be must not make two rows of one.
            frame.push_str("\u{1b}[?7l");
            for row in &rows {
                frame.push_str(row);
                frame.push('\n');
            }
            frame.push_str("\u{1b}[?7h");
        }
        self.drawn = rows.iter().map(|row| row.width()).collect();
        frame
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

/// As much of a row as fits, the last of it the ellipsis if something is missing.
fn cut(row: &str, columns: usize, ellipsis: &str) -> String {
    if row.width() <= columns {
        return row.to_owned();
    }
    let ellipsis = ellipsis.get(..columns).unwrap_or(ellipsis);
    let room = columns.saturating_sub(ellipsis.width());
    let mut short = String::new();
    let mut width = 0;
    for c in row.chars() {
        width += c.width().unwrap_or(0);
        if width > room {
            break;
        }
        short.push(c);
    }
    short + ellipsis
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_cut_by_what_it_takes_on_the_screen() {
        for (row, columns, shown) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("abc", 1, "…"),
        ] {
            assert_eq!(cut(row, columns, "…"), shown);
        }
        for (columns, shown) in [(5, "ab..."), (3, "..."), (2, ".."), (1, ".")] {
            assert_eq!(cut("abcdef", columns, "..."), shown);
        }
    }
}
