//! Appearance of text for people: width, colors by their meaning, marks.

use crate::model::Status;

/// Appearance of text.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TextStyle {
    pub(crate) color: bool,
    pub(crate) ascii: bool,
    /// Columns to wrap lists at; by default, a width that CI logs show. Text is never cut.
    pub(crate) width: Option<usize>,
    /// Whether IDs are links to the documentation.
    pub(crate) links: bool,
    /// Whether everything is listed, and nothing folded.
    pub(crate) verbose: bool,
}

impl TextStyle {
    pub(crate) fn columns(&self) -> usize {
        self.width.unwrap_or(110).max(60)
    }
}

/// Colors by their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Good,
    Caution,
    Bad,
    Heading,
    /// Next steps.
    Hint,
    /// Passing results among problems.
    Dim,
}

/// Returns `text`, painted if `on`. Words carry the meaning; the color only repeats it.
pub(crate) fn paint(on: bool, paint: Paint, text: &str) -> String {
    if !on {
        return text.to_owned();
    }
    let code = match paint {
        Paint::Good => "32",
        Paint::Caution => "33",
        Paint::Bad => "1;31",
        Paint::Heading => "1",
        Paint::Hint => "36",
        Paint::Dim => "2",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// Returns one character for a status in a grid. An unknown status looks like neither a pass nor a failure.
pub(crate) fn mark(status: Option<Status>, ascii: bool) -> char {
    let (mark, plain) = match status {
        None | Some(Status::Skip) => ('·', '.'),
        Some(Status::Pass) => ('✓', '+'),
        Some(Status::Warn) => ('!', '!'),
        Some(Status::Blocked | Status::Error) => ('?', '?'),
        Some(Status::Fail) => ('✗', 'x'),
    };
    if ascii { plain } else { mark }
}

/// Returns the color of a status.
pub(crate) fn paint_of(status: Status) -> Paint {
    match status {
        Status::Skip | Status::Pass => Paint::Good,
        Status::Warn | Status::Blocked => Paint::Caution,
        Status::Error | Status::Fail => Paint::Bad,
    }
}
