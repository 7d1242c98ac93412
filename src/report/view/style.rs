//! How text for people looks: width, colors by their meaning, marks.

use crate::model::Status;

/// How text is shown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TextStyle {
    pub(crate) color: bool,
    pub(crate) ascii: bool,
    /// Columns to wrap lists at; without it, a width that CI logs show. Text is never cut.
    pub(crate) width: Option<usize>,
    /// Ids lead to the documentation.
    pub(crate) links: bool,
    /// Nothing is folded.
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
    /// What to do next.
    Hint,
    /// What is well, beside what is not.
    Dim,
}

/// `text`, painted if `on`. Words carry the meaning; the color only repeats it.
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

/// One character for a status in a grid. What is not known looks like neither a pass nor a failure.
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

/// The color of a status.
pub(crate) fn paint_of(status: Status) -> Paint {
    match status {
        Status::Skip | Status::Pass => Paint::Good,
        Status::Warn | Status::Blocked => Paint::Caution,
        Status::Error | Status::Fail => Paint::Bad,
    }
}
