//! Secrets that are recognized by their position after an option, a user or a scheme, and by their length.

use super::names::tail;
use super::values::{ends_value, head, is_host, is_name, is_path, is_random, looks_chosen};
use super::{Reach, Spans, is_blank, words};

/// Minimum length of a string without a break that is not considered a word.
const LONGEST_WORD: usize = 40;
/// Shorter words after a scheme are part of a sentence.
const SHORTEST: usize = 16;
/// Commands with a one-letter option for a password, which may follow without a space.
const COMMANDS: [(&str, &str); 7] = [
    ("login", "-p"),
    ("mysql", "-p"),
    ("mariadb", "-p"),
    ("sshpass", "-p"),
    ("redis-cli", "-a"),
    ("ldap", "-w"),
    ("7z", "-p"),
];

pub(super) fn find(text: &str, reach: Reach, spans: &mut Spans) {
    let mut covered = 0;
    for word in words(text) {
        if word.start < covered {
            continue;
        }
        let (before, name, after) = (&text[..word.start], &text[word.clone()], &text[word.end..]);
        if let Some((gap, length)) = of_scheme(name, after) {
            covered = word.end + gap + length;
            spans.hide(word.end + gap..covered);
        } else if let Some(length) = login(before, name, after, reach) {
            covered = word.end + length;
            spans.hide(word.start..covered);
        } else if let Some(length) = password_at_host(after) {
            covered = word.end + 1 + length;
            spans.hide(word.end + 1..covered);
        } else if reach == Reach::Service && is_password(before, name, after) {
            spans.hide_rest(word.end.min(word.start + "-p".len())..text.len());
            return;
        }
    }
}

/// Returns the position of the token in `Bearer …` and `Basic …`. Words of a sentence are short or consist only of
/// small letters; tokens do not.
fn of_scheme(name: &str, after: &str) -> Option<(usize, usize)> {
    let is_made = |c: char| c.is_ascii_digit() || c.is_ascii_uppercase() || matches!(c, '+' | '/' | '=');
    if !["bearer", "basic"].iter().any(|scheme| name.eq_ignore_ascii_case(scheme)) {
        return None;
    }
    let value = after.trim_start_matches(is_blank);
    let gap = after.len() - value.len();
    if gap == 0 {
        return None;
    }
    let length = value.find(ends_value).unwrap_or(value.len());
    (length >= SHORTEST && head(&value[..length]).char_indices().any(|(at, c)| at > 0 && is_made(c)))
        .then_some((gap, length))
}

/// Returns the end of the secret in `curl -u user:secret`. Names of Kubernetes users also contain colons.
fn login(before: &str, user: &str, after: &str, reach: Reach) -> Option<usize> {
    if !after.starts_with(':') {
        return None;
    }
    let before = tail(before).trim_end_matches(['"', '\'']);
    let is_option = [" -u ", " --user ", "--user="].iter().any(|option| before.ends_with(option));
    let is_joined = user.starts_with("-u") && user.len() > 2 && before.ends_with(is_blank);
    let is_variable = reach == Reach::Service && before.ends_with("_USER=");
    let is_login = !after.starts_with("::") && user != "system" && user != "kube";
    if !is_login || !(is_option || is_joined || is_variable) {
        return None;
    }
    let length = after.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'')).unwrap_or(after.len());
    (length > 1).then_some(length)
}

/// Returns the length of the secret in `:secret@host` after a user, as in database addresses.
fn password_at_host(after: &str) -> Option<usize> {
    let secret = after.strip_prefix(':')?;
    let end =
        secret.find(|c: char| c.is_whitespace() || matches!(c, '@' | '/' | '"' | '\'' | ',' | '(' | '[' | ':'))?;
    let host = secret[end..].strip_prefix('@')?;
    // A digest follows an image tag in the same way.
    let is_digest = host.starts_with("sha256:") || host.starts_with("sha512:");
    let is_host = host.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[' || c == '(');
    (end > 0 && !is_digest && is_host).then_some(end)
}

/// Returns true for `-p secret`, but not for `-p tcp`, `-p 8080:80`, `mkdir -p /a`, `cargo test -p name` and `-p
/// {"spec": …}`.
fn is_password(before: &str, name: &str, after: &str) -> bool {
    let is_of = |(command, option): &(&str, &str)| name.starts_with(option) && tail(before).contains(command);
    if !before.is_empty() && !before.ends_with(|c| is_blank(c) || matches!(c, '[' | '"' | '\'')) {
        return false;
    }
    if COMMANDS.iter().any(is_of) {
        return name.len() > 2
            || after.starts_with(['"', '\''])
            || after.starts_with(is_blank) && value_of(after).is_some();
    }
    name == "-p" && after.starts_with(is_blank) && value_of(after).is_some_and(looks_chosen)
}

/// Returns the word after an option.
fn value_of(after: &str) -> Option<&str> {
    let value = after.trim_start_matches(|c| is_blank(c) || matches!(c, '"' | '\''));
    let value = &value[..value.find(ends_value).unwrap_or(value.len())];
    (value.starts_with(|c: char| !matches!(c, '-' | '/' | '.' | '{' | '[' | '*')) && !value.is_empty()).then_some(value)
}

/// Hides strings that are too long for a word: keys in base64 and hexadecimal, certificates, tokens of unknown issuers.
pub(super) fn blobs(text: &str, spans: &mut Spans) {
    let is_of_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '+' | '/' | '.');
    let mut at = 0;
    while let Some(found) = text[at..].find(is_of_word) {
        let start = at + found;
        let end = start + text[start..].find(|c| !is_of_word(c)).unwrap_or(text.len() - start);
        let word = &text[start..end];
        // Image digests and host names are public.
        let is_digest = text[..start].ends_with("sha256:") || text[..start].ends_with("sha512:");
        let is_known =
            || is_digest || is_path(word) || is_host(word) || is_name(word) || is_commit(&text[..start], word);
        let looks_made = || word.bytes().any(|byte| byte.is_ascii_digit()) || is_random(word);
        if word.len() >= LONGEST_WORD && looks_made() && !is_known() {
            spans.hide(start..end);
        }
        at = end;
    }
}

/// Returns true for a Git commit hash: `commit 75cb2b7…`, `v2.1.4 75cb2b7…`.
fn is_commit(before: &str, word: &str) -> bool {
    const NAMES: [&str; 7] = ["commit", "revision", "rev", "sha", "sha1", "git", "gitcommit"];
    let is_hash = word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let before = tail(before).trim_end_matches(|c| is_blank(c) || matches!(c, '"' | '\'' | '=' | ':' | '(' | '/'));
    let name = before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '.').next().unwrap_or(before);
    let is_version = name.contains('.') && name.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit());
    is_hash && (is_version || NAMES.iter().any(|it| name.eq_ignore_ascii_case(it)))
}
