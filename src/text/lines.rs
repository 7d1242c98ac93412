//! Lines that are written to a log, where CI systems look for commands.
//!
//! Texts that are harmless on their own can form a command once they are joined: a machine named `::stop-commands` at `fd00::1` produces
//! the line `::stop-commands (fd00::1)`, after which GitHub ignores all further commands.

use std::borrow::Cow;
use std::io::{self, Write};

use super::sanitize::without_hash_commands;

/// A writer that removes commands from lines. After a flush in the middle of a line, the rest is not checked as the start of a line.
pub(crate) struct Lines<W> {
    out: W,
    /// The part of the line received so far.
    line: Vec<u8>,
    /// Whether the beginning of the line was already written.
    is_begun: bool,
}

/// Longer lines are passed on in pieces.
const LONGEST: usize = 1 << 20;

impl<W: Write> Lines<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, line: Vec::new(), is_begun: false }
    }

    fn pass(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        let is_begun = std::mem::replace(&mut self.is_begun, !line.ends_with(b"\n"));
        match std::str::from_utf8(&line) {
            Ok(text) => self.out.write_all(harmless(text, !is_begun).as_bytes())?,
            // The piece ends in the middle of a character.
            Err(_) => self.out.write_all(&line)?,
        }
        self.line = line;
        self.line.clear();
        Ok(())
    }
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.line.len() > LONGEST {
                self.pass()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.line.is_empty() {
            self.pass()?;
        }
        self.out.flush()
    }
}

/// Disables commands in a line. GitHub ignores leading white space, so it is skipped here, and so are colors.
fn harmless(line: &str, is_start: bool) -> Cow<'_, str> {
    let line = if line.contains("##") { Cow::from(without_hash_commands(line)) } else { Cow::from(line) };
    let mut at = 0;
    while let Some(rest) = line.get(at..) {
        at += match rest.as_bytes() {
            [b' ' | b'\t', ..] => 1,
            [0x1b, b'[', ..] => match rest.find(|c: char| c.is_ascii_alphabetic()) {
                Some(end) => end + 1,
                None => break,
            },
            _ => break,
        };
    }
    let is_command = |rest: &str| rest.starts_with("::") && rest[2..].starts_with(|c: char| c.is_ascii_alphabetic());
    if is_start && line.get(at..).is_some_and(is_command) {
        return format!("{}: {}", &line[..at], &line[at + 1..]).into();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(pieces: &[&str]) -> String {
        let mut lines = Lines::new(Vec::new());
        for piece in pieces {
            lines.write_all(piece.as_bytes()).unwrap();
        }
        lines.flush().unwrap();
        String::from_utf8(lines.out).unwrap()
    }

    #[test]
    fn a_line_is_no_command_whatever_it_is_made_of() {
        for (line, harmless) in [
            ("::stop-commands (fd00::1)  worker\n", ": :stop-commands (fd00::1)  worker\n"),
            ("  \t::error::x\n", "  \t: :error::x\n"),
            ("\u{1b}[31m::error::x\u{1b}[0m\n", "\u{1b}[31m: :error::x\u{1b}[0m\n"),
            ("a ##vso[task.setvariable]x\n", "a # #vso[task.setvariable]x\n"),
            ("cp-1 (fd00::1)  runs\n", "cp-1 (fd00::1)  runs\n"),
            ("::1 is the address\n", "::1 is the address\n"),
            ("## heading\n\n", "## heading\n\n"),
            ("no end", "no end"),
        ] {
            assert_eq!(passed(&[line]), harmless);
            // The result does not depend on where the line is cut.
            let pieces: Vec<String> = line.chars().map(String::from).collect();
            assert_eq!(passed(&pieces.iter().map(String::as_str).collect::<Vec<_>>()), harmless);
        }
    }

    #[test]
    fn what_is_flushed_early_is_not_held_back() {
        let mut lines = Lines::new(Vec::new());
        lines.write_all(b"begun").unwrap();
        lines.flush().unwrap();
        lines.write_all(b"::warning::x\n::warning::y\n").unwrap();
        assert_eq!(lines.out, b"begun::warning::x\n: :warning::y\n");
    }
}
