//! Decodes escaped text and maps positions back to the original text.

use std::borrow::Cow;
use std::ops::Range;

use crate::text::invisible::is_invisible;

/// A text with escapes decoded: `\"`, `\u003d`, `%3D`, `&quot;` and full-width letters become the characters that they represent.
pub(super) struct Folded<'a> {
    pub(super) text: Cow<'a, str>,
    /// The position in the original text for every byte, and for the end. `None` if nothing was decoded.
    at: Option<Vec<usize>>,
}

impl<'a> Folded<'a> {
    /// Returns all interpretations of `text`: unchanged, and decoded, where a space may end an address. A character that cannot be
    /// displayed either separates two words or is hidden within one, so both are tried.
    pub(super) fn readings(text: &'a str) -> Vec<Self> {
        let mut readings = vec![Self { text: Cow::Borrowed(text), at: None }];
        let is_plain = |byte: u8| byte.is_ascii() && !matches!(byte, b'\\' | b'%' | b'&');
        if text.bytes().all(is_plain) || !text.contains(may_change) {
            return readings;
        }
        let (joined, has_gaps) = fold(text, None);
        readings.push(joined);
        if has_gaps {
            readings.push(fold(text, Some('\t')).0);
        }
        readings
    }

    /// Returns the part of the original that `range` of the decoded text comes from.
    pub(super) fn origin(&self, range: &Range<usize>) -> Range<usize> {
        self.at.as_ref().map_or_else(|| range.clone(), |at| at[range.start]..at[range.end])
    }
}

fn may_change(c: char) -> bool {
    matches!(c, '\\' | '%' | '&' | '\u{ff01}'..='\u{ff5e}') || is_gap(c)
}

fn is_gap(c: char) -> bool {
    c == char::REPLACEMENT_CHARACTER || is_invisible(c) || c.is_control() && !matches!(c, '\t' | '\n')
}

/// Decodes the text. Gaps become `gap` or are removed. Also returns whether there are any.
fn fold<'a>(text: &str, gap: Option<char>) -> (Folded<'a>, bool) {
    let (mut out, mut at, mut has_gaps) =
        (String::with_capacity(text.len()), Vec::with_capacity(text.len() + 1), false);
    let mut push = |c: char, from: usize| {
        has_gaps |= is_gap(c);
        if let Some(c) = if is_gap(c) { gap } else { Some(c) } {
            out.push(c);
            at.extend(std::iter::repeat_n(from, c.len_utf8()));
        }
    };
    let mut from = 0;
    while let Some(c) = text[from..].chars().next() {
        let rest = &text[from..];
        let slashes = rest.len() - rest.trim_start_matches('\\').len();
        let decoded = match c {
            '\\' => escape(&rest[slashes..]).map(|(c, length)| (c, slashes + length)),
            '%' => percent(rest),
            '&' => entity(rest),
            '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).map(|narrow| (narrow, c.len_utf8())),
            _ => None,
        };
        if let Some((c, length)) = decoded {
            push(c, from);
            from += length;
        } else {
            // Backslashes that escape nothing are handled at once, because there may be many.
            for _ in 0..slashes.max(1) {
                push(c, from);
                from += c.len_utf8();
            }
        }
    }
    at.push(text.len());
    (Folded { text: Cow::Owned(out), at: Some(at) }, has_gaps)
}

/// Decodes the character after one or more backslashes, because texts may be escaped more than once.
fn escape(rest: &str) -> Option<(char, usize)> {
    let hex = |range: Range<usize>| Some((number(rest.get(range.clone())?, 16)?, range.end));
    match rest.bytes().next()? {
        c @ (b'"' | b'\'' | b'`' | b'/' | b'=' | b':' | b'&') => Some((char::from(c), 1)),
        b'n' | b'r' => Some(('\n', 1)),
        b't' => Some(('\t', 1)),
        b'x' => hex(1..3),
        b'u' if rest.starts_with("u{") => {
            let end = rest.bytes().take(9).position(|byte| byte == b'}')?;
            Some((number(&rest[2..end], 16)?, end + 1))
        }
        b'u' => hex(1..5),
        _ => None,
    }
}

/// Decodes ASCII characters from `%3D` and from `%253D`, which is escaped twice.
fn percent(rest: &str) -> Option<(char, usize)> {
    let hex = |at: usize| rest.get(at..at + 2).and_then(|digits| number(digits, 16));
    let mut at = 1;
    while hex(at) == Some('%') && hex(at + 2).is_some() {
        at += 2;
    }
    hex(at).filter(char::is_ascii).map(|c| (c, at + 2))
}

/// Decodes HTML entities of punctuation characters.
fn entity(rest: &str) -> Option<(char, usize)> {
    let end = rest.bytes().take(10).position(|byte| byte == b';')?;
    let c = match &rest[1..end] {
        "quot" => '"',
        "apos" => '\'',
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "equals" => '=',
        "colon" => ':',
        name => match name.strip_prefix('#')? {
            digits if digits.starts_with(['x', 'X']) => number(&digits[1..], 16)?,
            digits => number(digits, 10)?,
        },
    };
    Some((c, end + 1))
}

fn number(digits: &str, radix: u32) -> Option<char> {
    let is_number = digits.bytes().all(|byte| char::from(byte).is_digit(radix));
    u32::from_str_radix(digits, radix).ok().filter(|_| is_number).and_then(char::from_u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(text: &str) -> Vec<String> {
        Folded::readings(text).into_iter().skip(1).map(|it| it.text.into_owned()).collect()
    }

    #[test]
    fn escapes_are_decoded() {
        for (written, read) in [
            (r#"\"a\" \\\"b\\\" c\/d"#, r#""a" "b" c/d"#),
            (r"a\u003db\x3dc\u{3d}d", "a=b=c=d"),
            (r"a\nb\tc\\nd", "a\nb\tc\nd"),
            ("a%3Db%253Dc%25252Fd 100% %zz %", "a=b=c/d 100% %zz %"),
            ("&quot;a&#34;&#x3d;&nbsp;&;& b", "\"a\"=&nbsp;&;& b"),
            (r"C:\Users\\é\", r"C:\Users\\é\"),
            ("ｔｏｋｅｎ＝", "token="),
        ] {
            assert_eq!(readings(written), [read]);
        }
        assert!(readings("plain é").is_empty());
        assert_eq!(readings("a\u{fffd}b"), ["ab", "a\tb"]);
        assert_eq!(readings(r"a\u200bb"), ["ab", "a\tb"]);
    }

    #[test]
    fn places_lead_back() {
        let text = "é%3D\u{fffd}x\\\"é";
        let folded = &Folded::readings(text)[1];
        assert_eq!(folded.text, "é=x\"é");
        let origin = |part: &str| {
            let at = folded.text.find(part).unwrap();
            &text[folded.origin(&(at..at + part.len()))]
        };
        assert_eq!([origin("=x"), origin("x"), origin("\"é"), origin("é=x\"é")], ["%3D\u{fffd}x", "x", "\\\"é", text]);
    }
}
