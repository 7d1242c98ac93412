//! `sanitize`: for scripts that print the output of clusters and other tools.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read as _, Write};

use crate::text::sanitize::{clean, last_without_secrets};

/// Maximum length of a line, in bytes. The rest becomes a line of its own.
const LONGEST: u64 = 64 << 10;

/// Number of preceding lines that show what a line contains: names, or the beginning of a PEM key, which has some 50 lines.
const ABOVE: usize = 64;

/// Copies text line by line, in the form that reports show: without control characters, CI commands and credentials.
pub(super) fn write(mut from: impl BufRead, out: &mut impl Write) -> io::Result<()> {
    let mut line = Vec::new();
    let mut lines = VecDeque::new();
    while (&mut from).take(LONGEST).read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        lines.push_back(text.trim_end_matches('\n').to_owned());
        writeln!(out, "{}", clean(&last_without_secrets(&lines)))?;
        if lines.len() > ABOVE {
            lines.pop_front();
        }
        // People who watch a step want to see its progress.
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
    fn a_secret_on_the_lines_below_its_name_is_not_shown() {
        let key =
            format!("-----BEGIN PRIVATE KEY-----\n{}-----END PRIVATE KEY-----\n", "c2VjcmV0c2VjcmV0\n".repeat(50));
        for (text, shown) in [
            ("password: |\n  hunter2-Tr0ub4dor\nuser: a\n".to_owned(), "user: a"),
            ("password:\n  hunter2-Tr0ub4dor\nuser: a\n".to_owned(), "user: a"),
            (format!("{key}after\n"), "after"),
        ] {
            let mut out = Vec::new();
            write(text.as_bytes(), &mut out).unwrap();
            let out = String::from_utf8(out).unwrap();
            assert!(!out.contains("hunter2") && !out.contains("c2VjcmV0"), "{out}");
            assert_eq!((out.lines().count(), out.lines().last()), (text.lines().count(), Some(shown)), "{out}");
        }
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
