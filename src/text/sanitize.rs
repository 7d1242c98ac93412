//! Text from the cluster is hostile: node names, pod messages and etcd member names are chosen by others, and end up in terminals, CI logs,
//! XML and JSON.
//!
//! Every writer applies [`clean`] to every string from an external source.

use std::collections::VecDeque;
use std::ops::Range;

use super::invisible::is_invisible;
use super::secrets::{self, settled};

/// Maximum number of characters shown of one answer.
pub(crate) const LIMIT: usize = 1000;

/// Returns one line that is safe in every format: no control, bidi or invisible characters, no ANSI sequences, nothing that a CI system
/// interprets as a command, no credentials, and at most [`LIMIT`] characters.
///
/// Any white space becomes one space. Characters that cannot be displayed become `U+FFFD`, so that a name with hidden characters does not
/// look like the name without them.
pub(crate) fn clean(text: &str) -> String {
    // Far more than is shown, but a limit for the work on an endless text.
    let bounded = text.char_indices().nth(16 * LIMIT).map_or(text, |(end, _)| up_to_word(&text[..end]));
    let plain = visible(bounded, ' ', None);
    // A word, such as a name, that contains a sequence is not what it appears to be.
    let is_word = plain != bounded && !plain.contains(' ') && secrets::hidden(&plain) == plain;
    let plain = if is_word { visible(bounded, ' ', Some(char::REPLACEMENT_CHARACTER)) } else { plain };
    let shown = |text: &str, is_cut| truncate(&without_commands(&secrets::hidden(text)), LIMIT, is_cut);
    let first = shown(&plain, bounded.len() < text.len());
    if first == plain { first } else { settled(first, |text| shown(text, false)) }
}

/// Drops the last word of a text that was cut, because part of a secret is not recognized as a secret.
fn up_to_word(cut: &str) -> &str {
    cut.rfind(char::is_whitespace).filter(|end| cut.len() - end < LIMIT).map_or(cut, |end| &cut[..end])
}

/// Applies [`clean`] and cuts the text to `limit` characters, for lines that must stay short.
pub(crate) fn brief(text: &str, limit: usize) -> String {
    truncate(&clean(text), limit.max(1), false)
}

/// Applies [`clean`] and keeps the beginning and the end of the text, because the cause of an error is at the end of its chain.
pub(crate) fn ends(text: &str, limit: usize) -> String {
    let text = clean(text);
    let length = text.chars().count();
    if length <= limit {
        return text;
    }
    let tail = limit / 3;
    let head: String = text.chars().take(limit.saturating_sub(tail + 1)).collect();
    let tail: String = text.chars().skip(length - tail).collect();
    format!("{}…{}", head.trim_end(), tail)
}

/// Maximum number of characters shown of a log line.
const LOG_LINE: usize = 300;

/// Applies [`clean`] to the lines of a log.
pub(crate) fn log_lines(lines: &[String]) -> Vec<String> {
    // A log entry may have several lines.
    let mut hidden = secrets::hidden_in_lines(lines.iter().flat_map(|line| line.split('\n'))).into_iter();
    let mut entry = |line: &String| hidden.by_ref().take(line.split('\n').count()).collect::<Vec<_>>().join(" ");
    lines.iter().map(|line| brief(&entry(line), LOG_LINE)).collect()
}

/// Removes secrets from the text of a container or a service. Such texts were not written for the readers of a report. Each is filtered
/// here when it is read, before any check uses it.
pub(crate) fn without_secrets(text: &str) -> String {
    secrets::hidden_in_lines(text.lines()).join("\n")
}

/// Returns the last of these lines without secrets. The lines above it show whether it is a secret.
pub(crate) fn last_without_secrets(lines: &VecDeque<String>) -> String {
    secrets::hidden_in_lines(lines.iter().map(String::as_str)).pop().unwrap_or_default()
}

/// Registers a secret before it is sent. No text shows it from then on, even if a server repeats it.
pub(crate) fn never_show(secret: &str) {
    secrets::keep(secret);
}

/// Cuts to `limit` characters, the last of which is an ellipsis. `cut` is true if the text was already cut.
fn truncate(text: &str, limit: usize, cut: bool) -> String {
    let long = text.chars().count() > limit;
    if !long && !cut {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(limit - 1).collect();
    short.push('…');
    short
}

/// Replaces characters that are not ASCII, for locales that support only ASCII.
pub(crate) fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '…' => out.push_str("..."),
            c if c.is_ascii() => out.push(c),
            _ => out.push('?'),
        }
    }
    out
}

/// Removes terminal sequences from a line. White space that may separate two columns becomes a tab.
pub(super) fn in_columns(line: &str) -> String {
    visible(line, '\t', None)
}

/// Removes terminal sequences, or replaces each of them and any leading or trailing white space that is not ASCII with `sign`. Other white
/// space becomes one space, or one `column` if it is a tab or more than one space.
fn visible(text: &str, column: char, sign: Option<char>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut terminators = Terminators { text, next: 0..0 };
    let outer = text.len() - text.trim_start().len()..text.trim_end().len();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let from = text.len() - rest.len();
        rest = &rest[c.len_utf8()..];
        let at = text.len() - rest.len();
        let is_sequence = match c {
            '\u{1b}' => {
                match rest.chars().next() {
                    Some('[') => rest = after_csi(&rest[1..]),
                    Some(']' | 'P' | 'X' | '^' | '_') => rest = &text[terminators.end_of_string(at + 1)..],
                    Some('\u{20}'..='\u{7e}') => rest = &rest[1..],
                    _ => {}
                }
                true
            }
            '\u{9b}' => {
                rest = after_csi(rest);
                true
            }
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => {
                rest = &text[terminators.end_of_string(at)..];
                true
            }
            c if c.is_whitespace() && sign.is_some() && !c.is_ascii() && !outer.contains(&from) => true,
            c if c.is_whitespace() => {
                let follows = out.ends_with([' ', column]);
                if follows {
                    out.pop();
                }
                out.push(if follows || c == '\t' { column } else { ' ' });
                false
            }
            c if is_unfit(c) => {
                if !out.ends_with(char::REPLACEMENT_CHARACTER) {
                    out.push(char::REPLACEMENT_CHARACTER);
                }
                false
            }
            c => {
                out.push(c);
                false
            }
        };
        if let Some(sign) = sign.filter(|sign| is_sequence && !out.ends_with(*sign)) {
            out.push(sign);
        }
    }
    out.trim().to_owned()
}

/// Skips parameters and intermediates up to the final byte. Any other character ends the sequence, and is not part of it.
fn after_csi(rest: &str) -> &str {
    let rest = rest.trim_start_matches(|c| matches!(c, '\u{20}'..='\u{3f}'));
    rest.strip_prefix(|c| matches!(c, '\u{40}'..='\u{7e}')).unwrap_or(rest)
}

/// The terminators of titles and other terminal strings: `BEL`, `ST`, `ESC \`. Each part of the text is searched once.
struct Terminators<'a> {
    text: &'a str,
    /// The next known terminator.
    next: Range<usize>,
}

impl Terminators<'_> {
    /// Returns the position after the string that begins at `start`. Without a terminator nearby, only the introducer is dropped, so that a
    /// single byte cannot hide the rest of a message.
    fn end_of_string(&mut self, start: usize) -> usize {
        if self.next.start < start {
            let end = |at: usize| match &self.text[at..] {
                rest if rest.starts_with('\u{7}') => Some(1),
                rest if rest.starts_with('\u{9c}') => Some('\u{9c}'.len_utf8()),
                rest if rest.starts_with("\u{1b}\\") => Some(2),
                _ => None,
            };
            let mut places = self.text[start..].char_indices().map(|(at, _)| start + at);
            let found = places.find_map(|at| Some(at..at + end(at)?));
            self.next = found.unwrap_or(self.text.len()..self.text.len());
        }
        if self.next.start - start < LIMIT && !self.next.is_empty() { self.next.end } else { start }
    }
}

/// Returns true for noncharacters and for characters that control the display instead of showing something.
fn is_unfit(c: char) -> bool {
    let is_noncharacter = matches!(c, '\u{fdd0}'..='\u{fdef}') || u32::from(c) & 0xfffe == 0xfffe;
    c.is_control() || is_noncharacter || is_invisible(c)
}

/// Returns true if a log line can show the text unchanged. For the user's own paths, names and addresses: the text is not searched for
/// secrets.
pub(crate) fn is_showable(text: &str) -> bool {
    let has_unfit = text.chars().any(|c| is_unfit(c) || c == char::REPLACEMENT_CHARACTER);
    !has_unfit && without_hash_commands(&without_commands(text)) == text
}

/// Breaks up text that CI systems (GitHub, GitLab, Azure and others) interpret as commands in a log.
///
/// GitHub reads `::name …::` only at the start of a line. Lines begin with our own text, but lists are wrapped, so any part of a text may
/// end up at the start of a line. An IPv6 address such as `fd00::1` remains unchanged.
fn without_commands(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let at_word = out.is_empty() || out.ends_with(|c: char| !c.is_alphanumeric());
        if is_hash_command(rest) {
            out.push_str("# #");
            rest = &rest[2..];
        } else if at_word && is_colon_command(rest) {
            out.push_str(": :");
            rest = &rest[2..];
        } else if let Some(marker) = ["section_start:", "section_end:"].iter().find(|marker| has_prefix(rest, marker)) {
            out.push_str(&rest[..marker.len() - 1]);
            out.push_str(" :");
            rest = &rest[marker.len()..];
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

/// Breaks up commands such as `##[error]` that may have formed where the parts of a line were joined.
pub(super) fn without_hash_commands(line: &str) -> String {
    let mut out = String::with_capacity(line.len() + 1);
    for (at, c) in line.char_indices() {
        out.push(c);
        if c == '#' && is_hash_command(&line[at..]) {
            out.push(' ');
        }
    }
    out
}

fn has_prefix(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// Matches `##[error]`, `##vso[task…]`, `##teamcity[…]`.
fn is_hash_command(text: &str) -> bool {
    text.strip_prefix("##")
        .is_some_and(|rest| rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).starts_with('['))
}

/// Matches `::error::text`, `::error file=x::text`.
fn is_colon_command(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("::") else { return false };
    let after = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    after.len() < rest.len() && (after.starts_with("::") || (after.starts_with(' ') && after.contains("::")))
}

/// Quotes a value as one word for a POSIX shell. `None` if the value must not be pasted into a terminal: it contains characters that
/// [`clean`] would change, or looks like an option.
pub(crate) fn shell_quote(value: &str) -> Option<String> {
    if value.starts_with('-') {
        return None;
    }
    option(value)
}

/// Like [`shell_quote`], but accepts options. Only for our own words, never for values from the cluster.
pub(crate) fn option(value: &str) -> Option<String> {
    if clean(value) != value {
        return None;
    }
    let plain = !value.is_empty()
        && value
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | ':' | '@' | '%' | '+' | ',' | '-'));
    Some(if plain { value.to_owned() } else { format!("'{}'", value.replace('\'', r"'\''")) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::text::sanitize::*;

    #[test]
    fn keeps_what_is_fit() {
        for text in
            ["cp-1", "fd00::1", "::1", "dial tcp [fe80::ab:1]:50000: i/o timeout", "größer", "日本", "::ffff:10.0.0.1"]
        {
            assert_eq!(clean(text), text);
        }
    }

    #[test]
    fn shows_no_control_characters() {
        for (text, shown) in [
            ("a\nb\r\n\tc", "a b c"),
            ("a\u{1b}[31mred\u{1b}[0m", "a\u{fffd}red\u{fffd}"),
            ("a\u{1b}]0;title\u{7}b", "a\u{fffd}b"),
            ("a\u{1b}]0;never ended", "a0;never ended"),
            ("a\u{9b}2Jb", "a\u{fffd}b"),
            ("a\u{0}\u{1}b", "a\u{fffd}b"),
            ("cp-1\u{202e}\u{200b}", "cp-1\u{fffd}"),
            ("a\u{2028}b\u{85}c", "a b c"),
            ("a\u{fffe}b\u{10ffff}c", "a\u{fffd}b\u{fffd}c"),
            ("a\u{1b}", "a\u{fffd}"),
            ("cp-1\u{1b}[0m", "cp-1\u{fffd}"),
            ("\u{3000}cp-1\u{2003}", "\u{fffd}cp-1\u{fffd}"),
            ("\u{1b}[31mall of it\u{1b}[0m is red", "all of it is red"),
            ("cp-1\u{1d173}", "cp-1\u{fffd}"),
            ("cp-1\u{13430}\u{13438}", "cp-1\u{fffd}"),
            ("cp\u{2800}1\u{1bca0}", "cp\u{fffd}1\u{fffd}"),
            ("a\u{1b}]0;one\u{1b}\\b\u{9d}0;two\u{9c}c\u{1b}Pnone", "a\u{fffd}b\u{fffd}c\u{fffd}none"),
        ] {
            assert_eq!(clean(text), shown, "{text:?}");
        }
    }

    #[test]
    fn breaks_up_commands_of_ci_systems() {
        for (text, shown) in [
            ("::error::x", ": :error::x"),
            ("a ::error file=b::x", "a : :error file=b::x"),
            ("a##[error]x", "a# #[error]x"),
            ("###[error]x", "## #[error]x"),
            ("##VSO[task.x]", "# #VSO[task.x]"),
            ("#\u{1b}[m#[error]", "#\u{fffd}#[error]"),
            ("a #\u{1b}[m#[error]", "a # #[error]"),
            ("\u{1b}[0Ksection_start:1:x\r\u{1b}[0K", "\u{fffd}section_start :1:x \u{fffd}"),
        ] {
            assert_eq!(clean(text), shown, "{text:?}");
        }
    }

    #[test]
    fn redacts_credentials() {
        for (text, shown) in [
            ("proxy http://u:p@10.0.0.1:3128/ refused", "proxy http://***@10.0.0.1:3128/ refused"),
            ("http://u:p@x@10.0.0.1", "http://***@10.0.0.1"),
            ("Authorization: Bearer eyJhbGciOiJSUzI1NiJ9.x", "Authorization: Bearer ***"),
            ("a basic problem", "a basic problem"),
            ("-----BEGIN PRIVATE KEY----- abc -----END PRIVATE KEY-----", "***PRIVATE KEY-----"),
        ] {
            assert_eq!(clean(text), shown, "{text:?}");
        }
    }

    fn shown(lines: &[&str]) -> Vec<String> {
        log_lines(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn logs_tell_no_secrets() {
        let jwt = format!("got eyJ{}.{}.{}, no", "a1".repeat(20), "b".repeat(20), "c".repeat(20));
        for line in [
            "login password=hunter2",
            "\u{1b}[36mpassword\u{1b}[0m=hunter2",
            "https://h/p?access_token=hunter2",
            r#"{"auth":{"password":"hunter2"}}"#,
            r#"msg="{\"token\":\"hunter2\"}""#,
            r#"password="my hunter2 phrase""#,
            r#"{"password":"ab,hunter2"}"#,
            "AWS_SECRET_ACCESS_KEY=hunter2",
            "X-Api-Key: hunter2",
            "passphrase: hunter2",
            "client-key-data: hunter2",
            "run --token hunter2",
            "Authorization: Basic hunter2",
            "authorization=Bearer hunter2",
            "client_secret = hunter2",
        ] {
            let shown = shown(&[line]);
            assert!(!shown[0].contains("hunter2") && shown[0].contains("***"), "{line}: {shown:?}");
        }
        assert_eq!(shown(&[&jwt]), ["got ***, no"]);
        for line in [
            "the token is missing",
            "failed to parse kubelet flag: unknown flag: --bogus-flag",
            "E1121 19:27:58.953732 3139 run.go:72] command failed: /var/lib/kubelet/pki/kubelet-client-current.pem: no such file",
            "Unable to authenticate the request: invalid bearer token",
            "node ip-10-123-123-123.eu-central-1.compute.internal not found",
            "pulling registry.example/a/b@sha256:0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9",
        ] {
            assert_eq!(shown(&[line]), [line]);
        }
    }

    #[test]
    fn logs_tell_no_keys_over_several_lines() {
        let (begin, end) = ("x -----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY----- y");
        assert_eq!(shown(&["a", begin, "MIIB", end, "b"]), ["a", "***", "***", "***", "b"]);
        assert_eq!(shown(&["MIIB", end, "b"]), ["***", "***", "b"], "it began further up");
        assert_eq!(shown(&["a", begin, "MIIB"]), ["a", "***", "***"], "it does not end");
        let message = format!("panic: no\n{begin}\nMIIB\n{end}\npassword=hunter2");
        assert_eq!(without_secrets(&message), "panic: no\n***\n***\n***\npassword ***");
        assert_eq!(shown(&[&"x y".repeat(LOG_LINE)])[0].chars().count(), LOG_LINE);
    }

    #[test]
    fn is_bounded() {
        for n in [LIMIT + 1, 100_000] {
            let shown = clean(&"x".repeat(n));
            assert_eq!(shown.chars().count(), LIMIT);
            assert!(shown.ends_with('…'));
        }
        assert_eq!(clean(&"x".repeat(LIMIT)).len(), LIMIT);
        // The first word is hidden, which makes room for the last one, and that one is cut.
        let half = format!("pass={} http://app:hunter2@10.0.0.1/", "x".repeat(16 * LIMIT - 25));
        assert_eq!(clean(&half), "pass=***…");
    }

    #[test]
    fn quotes_for_the_shell() {
        assert_eq!(shell_quote("10.0.0.1").as_deref(), Some("10.0.0.1"));
        assert_eq!(shell_quote("").as_deref(), Some("''"));
        assert_eq!(shell_quote("it's $(x)").as_deref(), Some(r"'it'\''s $(x)'"));
        for bad in ["a\nb", "-rf", "a\u{202e}b", "::error::x", "a\u{0}", "a  b"] {
            assert_eq!(shell_quote(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_unfit_survives(text in "\\PC*|(?s).*|[\u{1b}\u{9b}\\[\\]#:a-z0-9\u{7}]*") {
            let shown = clean(&text);
            prop_assert!(!shown.chars().any(is_unfit));
            prop_assert!(!is_hash_command(&shown) && !is_colon_command(&shown));
            prop_assert_eq!(clean(&shown), shown);
        }
    }
}
