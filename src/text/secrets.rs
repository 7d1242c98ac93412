//! Recognizes secrets in external texts by their form, their names and their position.
//!
//! [`hidden`] is for every text: it hides secrets that cannot be confused with anything else. [`hidden_in_lines`] is for texts of
//! services, whose content is arbitrary: it also hides the rest of a line after a name such as `password`, the lines below such a
//! name, and words of 40 characters or more. Both also read a decoded version of the text ([`folded`]), and hide the part of the
//! original that a secret was decoded from.
//!
//! | file | secrets |
//! | --- | --- |
//! | `tokens.rs` | prefixes of issuers, bootstrap tokens, PEM keys |
//! | `addresses.rs` | users and passwords, webhooks, signed queries |
//! | `named.rs` | values after the names listed in `names.rs` |
//! | `options.rs` | schemes, one-letter options, long words |
//! | `lines.rs` | values on the lines below their names |
//! | `own.rs` | tokens and passwords that this run has sent itself |
//!
//! # Limits
//!
//! Not recognized in any text:
//!
//! - Secrets without a name, a known form or 40 characters: `vault login hunter2`, a password in a sentence, an API token of 32 letters
//!   without a prefix.
//! - Hexadecimal digits and UUIDs that do not follow a name or a webhook address, because digests, commits, and ids look the same.
//!   Hosts that are secrets themselves.
//! - Names in other languages, in letters that only look like Latin ones, or far from their values: tables with names in their first
//!   row, CSV, Oracle's `user/password@host`, a line that ends with `password` without a colon.
//! - Texts that are encoded as a whole (base64, hexadecimal, compressed) in words of fewer than 40 characters, and secrets that are split.
//! - YAML blocks that begin above the first line, or whose lines begin with a time.
//! - Values of settings, which are paths, names or numbers: `passwordFile`, `secretName`, `token-ttl`.
//! - Values that look like the error of a sentence: `the token: invalid …`.
//!
//! Not recognized by [`hidden`] alone, because sentences look the same: values after a colon or a space that were not generated
//! (`token: hunter2`), long words without a name, values on the next line, columns, and `-p`.

mod addresses;
mod folded;
mod lines;
mod named;
mod names;
mod options;
mod own;
mod tokens;
mod values;

use std::iter;
use std::ops::Range;

use crate::text::secrets::folded::Folded;
pub(super) use lines::hidden_in_lines;
pub(super) use own::keep;

/// The replacement for a secret.
pub(super) const HIDDEN: &str = "***";

/// The kind of text to which a rule applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reach {
    /// All texts: the rule is certain.
    Every,
    /// Texts of services, where hiding too much is better than showing a secret.
    Service,
}

/// Parts of a text to hide, each with a flag for the rest of a line.
#[derive(Default)]
struct Spans(Vec<(Range<usize>, bool)>);

impl Spans {
    fn hide(&mut self, span: Range<usize>) {
        if !span.is_empty() {
            self.0.push((span, false));
        }
    }

    /// Hides the rest of a line after a name and a space.
    fn hide_rest(&mut self, span: Range<usize>) {
        self.0.push((span, true));
    }
}

/// Hides only certain secrets and leaves the rest of the text unchanged.
pub(super) fn hidden(text: &str) -> String {
    without(text, Reach::Every)
}

/// Hides secrets in a line of a service, and most words that may be secrets.
fn hidden_in_line(line: &str) -> String {
    without(line, Reach::Service)
}

fn without(text: &str, reach: Reach) -> String {
    let mut all = Vec::new();
    for reading in Folded::readings(text) {
        let mut spans = Spans::default();
        own::find(&reading.text, &mut spans);
        tokens::find(&reading.text, &mut spans);
        addresses::find(&reading.text, &mut spans);
        options::find(&reading.text, reach, &mut spans);
        named::find(&reading.text, reach, &mut spans);
        if reach == Reach::Service {
            options::blobs(&reading.text, &mut spans);
        }
        all.extend(spans.0.into_iter().map(|(span, is_rest)| (reading.origin(&span), is_rest)));
    }
    all.sort_by_key(|(span, is_rest)| (span.start, !is_rest));
    let mut out = String::with_capacity(text.len());
    let mut end = None;
    for (span, is_rest) in all {
        // Adjacent parts are hidden as one.
        if end.is_none_or(|end| span.start > end) {
            out.push_str(&text[end.unwrap_or(0)..span.start]);
            out.push_str(if is_rest { " " } else { "" });
            out.push_str(HIDDEN);
        }
        end = end.max(Some(span.end));
    }
    out.push_str(&text[end.unwrap_or(0)..]);
    out
}

/// Repeats `step` until the text no longer changes, because the text around a hidden secret may be part of another secret. A text that does
/// not settle was crafted, and is hidden completely.
pub(super) fn settled(mut text: String, step: impl Fn(&str) -> String) -> String {
    for _ in 0..8 {
        let next = step(&text);
        if next == text {
            return text;
        }
        text = next;
    }
    HIDDEN.to_owned()
}

fn is_of_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n')
}

/// Returns the positions of words.
fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    // All characters of tokens are ASCII.
    let is_of_word = |byte: &u8| is_of_token(char::from(*byte));
    let mut at = 0;
    iter::from_fn(move || {
        let bytes = text.as_bytes();
        let start = at + bytes[at..].iter().position(is_of_word)?;
        at = bytes[start..].iter().position(|byte| !is_of_word(byte)).map_or(text.len(), |length| start + length);
        Some(start..at)
    })
}
