//! Selects the parts of an answer to keep while it arrives.

use http::StatusCode;

use crate::snapshot::{Gap, GapKind, Observed};

/// Size limit for an unsuccessful answer, of which one line is shown.
const REFUSAL: usize = 64 << 10;
/// Limit for the bytes read of an answer that is kept in part. `/metrics` of the API servers of large clusters has 30
/// MB.
const READ: usize = 256 << 20;
/// Limits for the bytes kept of such an answer, and of one line: it has as many series as clients request different
/// deprecated APIs.
const KEPT: usize = 256 << 10;
const LINE: usize = 4 << 10;

/// The part of an answer to keep.
#[derive(Clone, Copy)]
pub(super) enum Keep {
    /// The whole answer, which may have at most this many bytes.
    All(usize),
    /// The lines that begin with one of these words.
    Lines(&'static [&'static str]),
}

/// An answer that is still arriving.
pub(super) struct Intake {
    keep: Keep,
    read: usize,
    body: Vec<u8>,
    /// The beginning of the current line: all of it so far if the line is kept.
    line: Vec<u8>,
}

impl Intake {
    pub(super) fn new(keep: Keep, status: StatusCode) -> Self {
        let keep = match keep {
            keep if status == StatusCode::OK => keep,
            Keep::All(limit) => Keep::All(limit.min(REFUSAL)),
            Keep::Lines(_) => Keep::All(REFUSAL),
        };
        Self { keep, read: 0, body: Vec::new(), line: Vec::new() }
    }

    pub(super) fn kept(&self) -> usize {
        self.body.len()
    }

    pub(super) fn take(&mut self, part: &[u8]) -> Observed<()> {
        self.read += part.len();
        match self.keep {
            Keep::All(limit) if self.read > limit => Err(longer_than(limit)),
            Keep::All(_) => {
                self.body.extend_from_slice(part);
                Ok(())
            }
            Keep::Lines(_) if self.read > READ => Err(longer_than(READ)),
            Keep::Lines(words) => part.split_inclusive(|byte| *byte == b'\n').try_for_each(|it| self.piece(it, words)),
        }
    }

    /// Takes a line, or a part of one.
    fn piece(&mut self, piece: &[u8], words: &[&str]) -> Observed<()> {
        let begins = |line: &[u8]| words.iter().any(|word| line.starts_with(word.as_bytes()));
        let longest = words.iter().map(|word| word.len()).max().unwrap_or_default();
        // The rest of a line is discarded once its beginning shows that it is not kept.
        if self.line.len() < longest || begins(&self.line) {
            self.line.extend_from_slice(&piece[..piece.len().min(LINE + 1)]);
        }
        if begins(&self.line) && self.line.len() > LINE {
            return Err(Gap::new(GapKind::TooLarge, format!("a line is longer than {LINE} bytes")));
        }
        if piece.ends_with(b"\n") {
            self.end_line(words)?;
        }
        Ok(())
    }

    fn end_line(&mut self, words: &[&str]) -> Observed<()> {
        if words.iter().any(|word| self.line.starts_with(word.as_bytes())) {
            self.body.append(&mut self.line);
        }
        self.line.clear();
        if self.body.len() > KEPT { Err(longer_than(KEPT)) } else { Ok(()) }
    }

    pub(super) fn into_body(mut self) -> Observed<Vec<u8>> {
        if let Keep::Lines(words) = self.keep {
            self.end_line(words)?;
        }
        Ok(self.body)
    }
}

fn longer_than(limit: usize) -> Gap {
    Gap::new(GapKind::TooLarge, format!("the answer is longer than {limit} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: Keep = Keep::Lines(&["wanted{", "also "]);

    fn kept(keep: Keep, status: u16, parts: &[&[u8]]) -> Observed<Vec<u8>> {
        let mut intake = Intake::new(keep, StatusCode::from_u16(status).unwrap());
        parts.iter().try_for_each(|part| intake.take(part))?;
        intake.into_body()
    }

    #[test]
    fn an_answer_is_taken_in_up_to_its_limit() {
        assert_eq!(kept(Keep::All(4), 200, &[b"ab", b"cd"]).unwrap(), b"abcd");
        assert_eq!(kept(Keep::All(4), 200, &[b"ab", b"cde"]).unwrap_err().kind, GapKind::TooLarge);
        assert!(kept(Keep::All(usize::MAX), 403, &[&vec![b'x'; REFUSAL + 1]]).is_err());
    }

    #[test]
    fn lines_are_kept_wherever_they_are_cut() {
        let text = b"# HELP wanted\nwanted{a=\"1\"} 1\nwantedly 3\nunwanted{} 1\nwant\n\nalso 2\nalso";
        let expected = b"wanted{a=\"1\"} 1\nalso 2\n";
        for size in 1..text.len() {
            let parts: Vec<&[u8]> = text.chunks(size).collect();
            assert_eq!(kept(WORDS, 200, &parts).unwrap(), expected, "{size}");
        }
        assert_eq!(kept(WORDS, 200, &[b"also 7"]).unwrap(), b"also 7", "the last line need not end");
        assert_eq!(kept(WORDS, 403, &[b"no"]).unwrap(), b"no", "the words of a refusal");
    }

    #[test]
    fn nothing_that_is_let_go_costs_memory_and_what_is_kept_has_an_end() {
        let mut intake = Intake::new(WORDS, StatusCode::OK);
        for _ in 0..1000 {
            intake.take(&[b'x'; 10_000]).unwrap();
        }
        assert!(intake.line.capacity() < 64 << 10 && intake.kept() == 0);
        let endless: Vec<u8> = [&b"wanted{"[..], &[b'x'; LINE]].concat();
        assert_eq!(kept(WORDS, 200, &[&endless]).unwrap_err().kind, GapKind::TooLarge);
        let many = b"wanted{a=\"1\"} 1\n".repeat(KEPT / 10);
        assert_eq!(kept(WORDS, 200, &[&many]).unwrap_err().kind, GapKind::TooLarge);
        let mut long = Intake::new(WORDS, StatusCode::OK);
        let line = vec![b'x'; 1 << 20];
        assert!((0..=READ >> 20).any(|_| long.take(&line).is_err()));
    }
}
