//! Text from the cluster is hostile: node names, pod messages and etcd member names are chosen by others, and end up in
//! terminals, CI logs, XML and JSON.
//!
//! [`clean`] is applied by every writer to every string that it did not write itself.

use super::secrets::{self, HIDDEN};

/// Longest text that is shown of one answer, in characters.
pub(crate) const LIMIT: usize = 1000;

/// One line that is fit for every format: no control, bidi or invisible character, no ANSI sequence, nothing that a CI
/// system takes for a command, no credentials, at most [`LIMIT`] characters.
///
/// White space of any kind becomes one blank. What cannot be shown becomes `U+FFFD`, so that a name with something hidden in
/// it does not look like the name without.
pub(crate) fn clean(text: &str) -> String {
    // Far more than is shown, and still little work for a text without end.
    let bounded: String = text.chars().take(16 * LIMIT).collect();
    let cut = bounded.len() < text.len();
    let plain = concealed(visible(&bounded));
    truncate(&without_commands(&plain), LIMIT, cut)
}

/// Without credentials. What is hidden may have stood between the parts of another one, so it is looked at again.
fn concealed(mut text: String) -> String {
    for _ in 0..8 {
        let less = secrets::hidden(&redact(&text));
        if less == text {
            break;
        }
        text = less;
    }
    text
}

/// [`clean`], cut to `limit` characters, for lines that must stay short.
pub(crate) fn brief(text: &str, limit: usize) -> String {
    truncate(&clean(text), limit.max(1), false)
}

/// [`clean`], with its beginning and its end: the cause of an error stands last in its chain.
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

/// Longest line that is shown of a log, in characters.
const LOG_LINE: usize = 300;

/// [`clean`] for the lines of a log.
pub(crate) fn log_lines(lines: &[String]) -> Vec<String> {
    hidden(lines.iter().map(String::as_str)).map(|line| brief(&line, LOG_LINE)).collect()
}

/// What others have written without regard to who reads it, without the secrets in it: the last words of a container, the events of a
/// service. Every such text is passed through here where it comes in, before anything is said or judged of it.
pub(crate) fn without_secrets(text: &str) -> String {
    hidden(text.lines()).collect::<Vec<_>>().join("\n")
}

/// Secrets may stand there in any form. What follows a word that names one is left out to the end of its line, and so are keys over
/// several lines and long words that may be anything: rather a line too little than a secret too much.
fn hidden<'a>(lines: impl Iterator<Item = &'a str> + Clone) -> impl Iterator<Item = String> {
    let has_end = lines.clone().position(|line| line.contains("-----END "));
    let has_begin = lines.clone().position(|line| line.contains("-----BEGIN "));
    // The first line that is shown may stand in the middle of a key.
    let mut in_key = has_end.is_some_and(|end| has_begin.is_none_or(|begin| end < begin));
    lines.map(move |line| {
        let (begins, ends) = (line.rfind("-----BEGIN "), line.rfind("-----END "));
        let was_in_key = in_key;
        in_key = match (begins, ends) {
            (Some(begin), Some(end)) => begin > end,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => in_key,
        };
        if was_in_key || begins.is_some() || ends.is_some() {
            return HIDDEN.to_owned();
        }
        secrets::hidden(&up_to_a_secret(&redact(&visible(line))))
    })
}

/// Parts of words that name a secret when a value follows them: `client_secret=…`, `"X-Auth-Token": "…"`, `--password …`.
const NAMES: [&str; 9] =
    ["passw", "passphrase", "secret", "token", "credential", "authorization", "apikey", "cookie", "session"];
/// Names that end like this name one, too.
const ENDS: [&str; 6] = ["key", "key-data", "pass", "pwd", "jwt", "signature"];
/// A word of this many characters without a break is no word.
const WORD: usize = 40;

/// The line up to the first value of a secret.
fn up_to_a_secret(line: &str) -> String {
    let is_of_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '+' | '/' | '.');
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(rest.find(|c| !is_of_word(c)).unwrap_or(rest.len()));
        // A digest of an image is public, and so are names of hosts.
        let is_known =
            is_path(word) || is_host(word) || is_name(word) || out.ends_with("sha256:") || out.ends_with("sha512:");
        let is_blob = word.len() >= WORD && !is_known && word.bytes().any(|byte| byte.is_ascii_digit());
        out.push_str(if is_blob { HIDDEN } else { word });
        let name = word.to_ascii_lowercase();
        let names_a_secret = NAMES.iter().any(|part| name.contains(part)) || ENDS.iter().any(|end| name.ends_with(end));
        // A name is one if something is given to it: `token: x`, `token = x`, `"token":"x"`, `--token x`.
        let is_given =
            after.trim_start_matches([' ', '"', '\'', '\\']).starts_with(['=', ':']) || word.starts_with("--");
        if names_a_secret && is_given && !is_path(word) && after.contains(is_of_word) {
            return format!("{out} {HIDDEN}");
        }
        let end = after.find(is_of_word).unwrap_or(after.len());
        out.push_str(&after[..end]);
        rest = &after[end..];
    }
    out
}

/// `/var/lib/kubelet/pki/kubelet.crt`. Keys in base64 have slashes, too, and capitals and digits between them.
fn is_path(word: &str) -> bool {
    let is_random = |part: &&str| {
        let has = |is: fn(&char) -> bool| part.chars().any(|c| is(&c));
        has(char::is_ascii_lowercase) && has(char::is_ascii_uppercase) && has(char::is_ascii_digit)
    };
    let parts: Vec<&str> = word.split('/').filter(|part| !part.is_empty()).collect();
    let random = parts.iter().copied().filter(|part| is_random(part)).count();
    (word.starts_with('/') || parts.len() > 3) && !word.contains('+') && random * 2 < parts.len().max(2)
}

/// `pvc-3f2b8c1e-9d4a-4e6f-8b7c-1a2b3c4d5e6f`, `kube-system/kube-controller-manager-cp-1`: short parts without capitals.
fn is_name(word: &str) -> bool {
    let fits = |part: &str| part.len() <= 16 && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    word.matches('-').count() > 2 && word.split(['-', '/', '.']).all(fits)
}

/// `ip-10-0-0-1.eu-central-1.compute.internal`. Tokens that have dots have capitals, too.
fn is_host(word: &str) -> bool {
    let is_label = |label: &str| {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !label.is_empty() && label.len() <= WORD && label.chars().all(fits)
    };
    word.contains('.') && word.trim_end_matches('.').split('.').all(is_label)
}

/// Cuts to `limit` characters, the last of them an ellipsis; `cut` says that something is missing already.
fn truncate(text: &str, limit: usize, cut: bool) -> String {
    let long = text.chars().count() > limit;
    if !long && !cut {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(limit - 1).collect();
    short.push('…');
    short
}

/// Only ASCII: for `--ascii`.
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

fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.next_if(|&next| matches!(next, '[' | ']' | 'P' | 'X' | '^' | '_')) {
                Some('[') => skip_csi(&mut chars),
                Some(_) => skip_string(&mut chars),
                None => {
                    chars.next_if(|next| matches!(next, '\u{20}'..='\u{7e}'));
                }
            },
            '\u{9b}' => skip_csi(&mut chars),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => skip_string(&mut chars),
            c if c.is_whitespace() => {
                if !out.ends_with(' ') {
                    out.push(' ');
                }
            }
            c if is_unfit(c) => {
                if !out.ends_with(char::REPLACEMENT_CHARACTER) {
                    out.push(char::REPLACEMENT_CHARACTER);
                }
            }
            c => out.push(c),
        }
    }
    out.trim().to_owned()
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Parameters and intermediates up to the final byte. Anything else ends it, and is looked at by itself.
fn skip_csi(chars: &mut Chars<'_>) {
    while chars.next_if(|c| matches!(c, '\u{20}'..='\u{3f}')).is_some() {}
    chars.next_if(|c| matches!(c, '\u{40}'..='\u{7e}'));
}

/// A title or another string of the terminal, up to its terminator. Without one, only the introducer is dropped: a lone byte
/// must not hide the rest of a message.
fn skip_string(chars: &mut Chars<'_>) {
    let mut rest = chars.clone();
    for _ in 0..LIMIT {
        match rest.next() {
            Some('\u{7}' | '\u{9c}') => {
                *chars = rest;
                return;
            }
            Some('\u{1b}') if rest.next_if_eq(&'\\').is_some() => {
                *chars = rest;
                return;
            }
            Some(_) => {}
            None => return,
        }
    }
}

/// Characters that steer a display instead of showing something.
fn is_unfit(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
        // Noncharacters: U+FDD0..U+FDEF and the last two of each plane.
        || matches!(c, '\u{fdd0}'..='\u{fdef}')
        || u32::from(c) & 0xfffe == 0xfffe
}

/// Breaks up what CI systems (GitHub, GitLab, Azure and others) read as commands in a log.
///
/// GitHub takes `::name …::` at the start of a line only, where our own text stands; it is broken up all the same, because
/// lists are wrapped. An IPv6 address such as `fd00::1` stays whole.
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

/// The same for a line as a whole, of what may have come about where its parts were joined: `##[error]`.
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

/// `##[error]`, `##vso[task…]`, `##teamcity[…]`.
fn is_hash_command(text: &str) -> bool {
    text.strip_prefix("##")
        .is_some_and(|rest| rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).starts_with('['))
}

/// `::error::text`, `::error file=x::text`.
fn is_colon_command(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("::") else { return false };
    let after = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    after.len() < rest.len() && (after.starts_with("::") || (after.starts_with(' ') && after.contains("::")))
}

/// Credentials that clients put into their error messages.
fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(url) = rest.strip_prefix("://") {
            out.push_str("://");
            let authority =
                url.find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"')).unwrap_or(url.len());
            rest = url;
            // A password with a slash in it, as it should not be there: a port has digits only.
            let has_password = url[..authority].split_once(':').is_some_and(|(user, after)| {
                !user.starts_with('[') && !user.contains('@') && after.bytes().any(|byte| !byte.is_ascii_digit())
            });
            let end = url.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(url.len());
            let authority = if has_password { end } else { authority };
            if let Some(at) = url[..authority].rfind('@') {
                out.push_str("***");
                rest = &url[at..];
            }
        } else if let Some(scheme) = ["bearer ", "basic "].iter().find(|scheme| has_prefix(rest, scheme)) {
            let value = &rest[scheme.len()..];
            let end = value.find(|c: char| c.is_whitespace() || matches!(c, '"' | ',' | ';')).unwrap_or(value.len());
            out.push_str(&rest[..scheme.len()]);
            // Words of a sentence are short; tokens are not.
            out.push_str(if end >= 16 { "***" } else { &value[..end] });
            rest = &value[end..];
        } else if rest.starts_with("-----BEGIN ") {
            out.push_str("***");
            let end = rest.find("-----END ").map_or(rest.len(), |n| n + "-----END ".len());
            rest = &rest[end..];
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

/// A value as one word of a POSIX shell. `None` if it must not be pasted into a terminal: it has characters that
/// [`clean`] would not let through, or would be taken for an option.
pub(crate) fn shell_quote(value: &str) -> Option<String> {
    if value.starts_with('-') {
        return None;
    }
    option(value)
}

/// As [`shell_quote`], for what may be an option: our own words, never the cluster's.
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
            ("a\u{1b}[31mred\u{1b}[0m", "ared"),
            ("a\u{1b}]0;title\u{7}b", "ab"),
            ("a\u{1b}]0;never ended", "a0;never ended"),
            ("a\u{9b}2Jb", "ab"),
            ("a\u{0}\u{1}b", "a\u{fffd}b"),
            ("cp-1\u{202e}\u{200b}", "cp-1\u{fffd}"),
            ("a\u{2028}b\u{85}c", "a b c"),
            ("a\u{fffe}b\u{10ffff}c", "a\u{fffd}b\u{fffd}c"),
            ("a\u{1b}", "a"),
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
            ("#\u{1b}[m#[error]", "# #[error]"),
            ("\u{1b}[0Ksection_start:1:x\r\u{1b}[0K", "section_start :1:x"),
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
