//! Secrets in addresses: user information, webhook paths, signed queries.

use super::Spans;
use super::values::{ends_value, is_hex, is_name, is_random, is_uuid};

/// Shorter words in a path are names.
const LONG: usize = 20;
/// A random part after one of these words is a key.
const BEFORE_KEYS: [&str; 8] = ["ping", "push", "trigger", "triggers", "integration", "integrations", "key", "token"];
/// Parts of cluster-internal addresses, whose webhooks do not have keys.
const INTERNAL: [&str; 3] = [".svc", ".svc.cluster.local", ".local"];

pub(super) fn find(text: &str, spans: &mut Spans) {
    if !text.contains('/') {
        return;
    }
    for (at, word) in words(text, |c| c.is_whitespace() || c == '"') {
        users(at, word, spans);
    }
    for (at, word) in words(text, |c| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>')) {
        if word.contains('/') {
            keys(at, word, spans);
        }
    }
}

/// Splits the text at the characters for which `ends` returns true, and returns the parts with their positions.
fn words(text: &str, ends: fn(char) -> bool) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split(ends).map(move |word| {
        let start = at;
        at = start + word.len();
        at += text[at..].chars().next().map_or(0, char::len_utf8);
        (start, word)
    })
}

/// Finds `user:password@` and `key@` after `://`.
fn users(at: usize, word: &str, spans: &mut Spans) {
    let last = word.rfind('@');
    let mut from = 0;
    while let Some(found) = word[from..].find("://") {
        let start = from + found + "://".len();
        let authority = &word[start..];
        let end = authority.find(['/', '?', '#']).unwrap_or(authority.len());
        from = start;
        // A password may contain an unescaped slash; a port has only digits.
        let has_password = authority[..end].split_once(':').is_some_and(|(user, after)| {
            !user.starts_with('[') && !user.contains('@') && after.bytes().any(|byte| !byte.is_ascii_digit())
        });
        let user = if has_password {
            last.filter(|last| *last > start)
        } else {
            authority[..end].rfind('@').map(|n| start + n)
        };
        if let Some(user) = user {
            spans.hide(at + start..at + user);
            from = user;
        }
    }
}

/// Finds keys in the path and in the query.
fn keys(at: usize, word: &str, spans: &mut Spans) {
    let word = word.trim_end_matches(|c: char| c.is_ascii_punctuation() && !matches!(c, '/' | '=' | '-' | '_'));
    let (path, query) = word.split_once('?').map_or((word, None), |(path, query)| (path, Some(query)));
    let is_address = path.contains("://");
    let (mut after_hook, mut before_key) = (false, false);
    let mut start = 0;
    let mut parts = path.split('/').peekable();
    let mut is_host = false;
    while let Some(part) = parts.next() {
        let place = at + start;
        start += part.len() + 1;
        if is_host {
            after_hook = has_hook(part) && !INTERNAL.iter().any(|end| host(part).ends_with(end));
            before_key = part.contains("ping.");
            is_host = false;
            continue;
        }
        if after_hook && is_key(part) || before_key && (is_made(part) || is_uuid(part)) {
            spans.hide(place..at + word.len());
            return;
        }
        let is_token = part.len() >= LONG && is_address && !is_hex(part) && is_random(part);
        if is_token || is_bot(part) {
            spans.hide(place..place + part.len());
        }
        after_hook |= has_hook(part);
        before_key |= BEFORE_KEYS.contains(&part);
        is_host = part.ends_with(':') && parts.next_if_eq(&"").is_some();
        start += usize::from(is_host);
    }
    let Some(query) = query.filter(|_| is_address || after_hook) else { return };
    let mut start = at + path.len() + 1;
    for pair in query.split(['&', ';']) {
        let value = pair.split_once('=').map_or("", |(_, value)| value);
        let value = &value[..value.find(ends_value).unwrap_or(value.len())];
        if value.len() >= LONG && is_random(value) || after_hook && is_uuid(value) {
            let from = start + pair.find('=').map_or(0, |at| at + 1);
            spans.hide(from..from + value.len());
        }
        start += pair.len() + 1;
    }
}

fn has_hook(part: &str) -> bool {
    part.as_bytes().windows("hook".len()).any(|window| window.eq_ignore_ascii_case(b"hook"))
}

/// Removes the port from a host and port.
fn host(part: &str) -> &str {
    part.split_once(':').map_or(part, |(host, _)| host)
}

/// Returns true for an id or a key, as opposed to a word or an API version.
fn is_key(part: &str) -> bool {
    let has = |is: fn(&u8) -> bool| part.bytes().any(|byte| is(&byte));
    let is_one_word = has(u8::is_ascii_alphanumeric) && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_number = part.len() >= 5 && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_version = part.starts_with('v') && part[1..].starts_with(|c: char| c.is_ascii_digit());
    let is_id =
        part.len() >= 8 && is_one_word && !is_version && (has(u8::is_ascii_digit) || !has(u8::is_ascii_lowercase));
    is_number || is_id || is_random(part) || is_uuid(part.split('@').next().unwrap_or(part))
}

/// Returns true for a long word with a digit or a capital letter that is neither a host nor the name of an object.
fn is_made(part: &str) -> bool {
    let is_any = part.bytes().any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    part.len() >= LONG && is_any && !part.contains('.') && !is_name(part)
}

/// Matches Telegram's `bot123456789:AA…`.
fn is_bot(part: &str) -> bool {
    part.strip_prefix("bot")
        .and_then(|rest| rest.split_once(':'))
        .is_some_and(|(id, key)| id.len() >= 6 && id.bytes().all(|byte| byte.is_ascii_digit()) && key.len() >= LONG)
}
