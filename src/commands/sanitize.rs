//! `sanitize`: for scripts that print what clusters and other tools say.

use std::io::{self, BufRead, Read as _, Write};

use crate::text::sanitize::{clean, without_secrets};

/// Bytes of a line. The rest is a line of its own.
const LONGEST: u64 = 64 << 10;

/// Passes text on, a line at a time, as reports show it: without control characters, CI commands and credentials.
pub(super) fn write(mut from: impl BufRead, out: &mut impl Write) -> io::Result<()> {
    let mut line = Vec::new();
    while (&mut from).take(LONGEST).read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        writeln!(out, "{}", clean(&without_secrets(text.trim_end_matches('\n'))))?;
        // Whoever watches a step wants to see how far it is.
        out.flush()?;
        line.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_fit_for_a_log() {
        let text = "one\n\n\u{1b}[31mtwo\u{1b}[0m\r::stop-commands::x\n##vso[task.complete]\npassword=hunter2-Tr0ub4dor\nno end";
        let mut out = Vec::new();
        write(text.as_bytes(), &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert_eq!(out, "one\n\ntwo : :stop-commands::x\n# #vso[task.complete]\npassword ***\nno end\n");
    }

    #[test]
    fn lines_without_an_end_are_cut_and_bytes_that_are_no_text_are_shown() {
        let mut out = Vec::new();
        write(b"a".repeat(200 << 10).as_slice(), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), 4);
        let mut out = Vec::new();
        write([0xff, b'\n'].as_slice(), &mut out).unwrap();
        assert_eq!(out, "\u{fffd}\n".as_bytes());
    }
}
