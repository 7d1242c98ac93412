//! Secrets that span lines: PEM keys, YAML blocks, and values on the lines below their names.

use super::folded::Folded;
use super::tokens::mark;
use super::{HIDDEN, hidden_in_line, named, settled};
use crate::text::sanitize::in_columns;

/// The expectation that a value is on the following lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expected {
    Nothing,
    /// On the next line, or on all lines with deeper indentation.
    Value(usize),
    /// The rest of a block.
    Block(usize),
    /// `value: …` after `name: DB_PASSWORD`.
    Variable,
    /// The next item after `- --password`.
    Argument,
}

/// Hides the secrets in each line. Keys that span lines are left out, including their first and last lines.
pub(in crate::text) fn hidden_in_lines<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let lines: Vec<(usize, String)> = lines.map(|line| (indentation(line), in_columns(line))).collect();
    let marks: Vec<_> = lines.iter().map(|(_, line)| marks(line)).collect();
    let has_end = marks.iter().position(|(_, end)| end.is_some());
    let has_begin = marks.iter().position(|(begin, _)| begin.is_some());
    // The first line may be in the middle of a key.
    let mut in_key = has_end.is_some_and(|end| has_begin.is_none_or(|begin| end < begin));
    let mut expected = Expected::Nothing;
    let mut out = Vec::with_capacity(lines.len());
    for ((indentation, line), mark) in lines.into_iter().zip(marks) {
        let was_in_key = in_key;
        in_key = match mark {
            (Some(begin), Some(end)) => begin > end,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => in_key,
        };
        if was_in_key || mark != (None, None) {
            out.push(HIDDEN.to_owned());
        } else if line.is_empty() {
            out.push(line);
        } else if let Some(next) = still_expected(expected, indentation, &line) {
            expected = next;
            out.push(HIDDEN.to_owned());
        } else {
            expected = expected_after(indentation, &line);
            out.push(shown(&line));
        }
    }
    out
}

/// Hides the secrets in a line. Columns are recognized first, then tabs become spaces.
fn shown(line: &str) -> String {
    settled(settled(line.to_owned(), hidden_in_line).replace('\t', " "), hidden_in_line)
}

/// Returns the expectation after a line that is hidden because it was `expected`; `None` if the line is shown.
fn still_expected(expected: Expected, indentation: usize, line: &str) -> Option<Expected> {
    match expected {
        Expected::Block(name) => (indentation > name).then_some(expected),
        Expected::Value(_) if is_pair(line) => None,
        Expected::Value(name) if indentation > name => Some(Expected::Block(name)),
        Expected::Value(_) => Some(Expected::Nothing),
        Expected::Variable if is_any(&Folded::readings(line), named::is_variable_value) => Some(Expected::Nothing),
        Expected::Argument if line.starts_with(['-', '"', '\'']) => Some(Expected::Nothing),
        _ => None,
    }
}

fn expected_after(indentation: usize, line: &str) -> Expected {
    let readings = Folded::readings(line);
    match () {
        () if is_any(&readings, named::awaits_block) => Expected::Block(indentation),
        () if is_any(&readings, named::awaits_value) => Expected::Value(indentation),
        () if is_any(&readings, named::awaits_variable) => Expected::Variable,
        () if is_any(&readings, named::awaits_argument) => Expected::Argument,
        () => Expected::Nothing,
    }
}

fn is_any(readings: &[Folded], is: fn(&str) -> bool) -> bool {
    readings.iter().any(|reading| is(&reading.text))
}

/// Returns the column of the first word. List item dashes and the `>` and `<` of `curl -v` count as spaces.
fn indentation(line: &str) -> usize {
    line.chars().take_while(|c| c.is_whitespace() || matches!(c, '-' | '>' | '<')).count()
}

/// Returns true for `name: value`, which is not the value of a preceding name.
fn is_pair(line: &str) -> bool {
    let line = line.trim_start_matches(['-', ' ', '"', '\'', '>', '<']);
    let end = line.find(|c| !super::is_of_token(c)).unwrap_or(line.len());
    let after = line[end..].trim_start_matches(['"', '\'']);
    end > 0 && after.strip_prefix(':').is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
}

/// Returns the positions of the last begin marker and the last end marker of a key.
fn marks(line: &str) -> (Option<usize>, Option<usize>) {
    let line = &line.replace(char::REPLACEMENT_CHARACTER, "");
    let last = |word| {
        let mut from = 0;
        let places = std::iter::from_fn(|| {
            let at = from + mark(&line[from..], word)?;
            from = at + 1;
            Some(at)
        });
        places.last()
    };
    (last("BEGIN"), last("END"))
}
