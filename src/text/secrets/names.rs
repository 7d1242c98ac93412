//! Names of secrets: `password`, `DB_TOKEN`, `x-api-key`, `connection string`.

/// Kinds of names, which determine the values that are considered secrets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Any value.
    Password,
    /// Any value, unless it is the error of a sentence: `failed to fetch token: connection refused`.
    Credential,
    /// Any value, even a plain number.
    Code,
    /// A value that looks like a secret or follows `=`, because sentences also contain such names: `auth: request failed`.
    Short,
    /// A value that looks like a secret, because most keys are keys of maps: `key "foo" not found`.
    Key,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Name {
    pub(super) kind: Kind,
    /// Only secrets have such a name.
    pub(super) is_sure: bool,
    /// The word for a secret is not the last one, as in some names of pods and hosts.
    pub(super) is_within: bool,
}

/// Hide any value, at any position in a name.
const PASSWORDS: [&str; 3] = ["passw", "passphrase", "passcode"];
/// Hide any value at the end of a name, unless the name ends with one of [`NO_PASSWORDS`].
const ENDS_OF_PASSWORDS: [&str; 3] = ["pass", "pwd", "pw"];
const NO_PASSWORDS: [&str; 4] = ["bypass", "compass", "surpass", "trespass"];
/// Hide most values, at any position in a name.
const CREDENTIALS: [&str; 8] =
    ["secret", "token", "credential", "authorization", "apikey", "cookie", "session", "connectionstring"];
/// Hide most values at the end of a name.
const ENDS_OF_CREDENTIALS: [&str; 6] =
    ["key-data", "jwt", "signature", "connection_string", "connection-string", "connstr"];
/// Hide values as the last part of a name, because other words contain them.
const CODES: [&str; 3] = ["pin", "otp", "totp"];
const SHORT: [&str; 6] = ["auth", "creds", "cred", "psk", "dsn", "sig"];
/// Endings of names that only secrets have.
const SURE: [&str; 21] = [
    "secret",
    "token",
    "credential",
    "apikey",
    "api_key",
    "api-key",
    "accesskey",
    "access_key",
    "access-key",
    "accountkey",
    "sharedaccesskey",
    "privatekey",
    "private_key",
    "private-key",
    "signature",
    "session",
    "sessionid",
    "session_id",
    "jwt",
    "cookie",
    "connectionstring",
];
/// Words in front of "key" that make it the key of a map, or a word such as "monkey".
const KEYS_OF_MAPS: [&str; 22] = [
    "cache",
    "primary",
    "foreign",
    "sort",
    "partition",
    "registry",
    "label",
    "annotation",
    "object",
    "map",
    "index",
    "config",
    "lookup",
    "lease",
    "lock",
    "hot",
    "mon",
    "tur",
    "don",
    "unknown",
    "duplicate",
    "missing",
];
/// The first of two words: `private key: …`.
const BEFORE_KEY: [&str; 18] = [
    "api",
    "access",
    "private",
    "secret",
    "shared",
    "preshared",
    "pre-shared",
    "encryption",
    "signing",
    "account",
    "auth",
    "license",
    "ssh",
    "storage",
    "master",
    "unseal",
    "recovery",
    "wireguard",
];
/// Settings of a secret and statements about one: `--token-auth-file`, `secretName`, `authorization-mode`.
const SETTINGS: [&str; 46] = [
    "file",
    "files",
    "path",
    "paths",
    "dir",
    "mode",
    "name",
    "names",
    "namespace",
    "ttl",
    "timeout",
    "duration",
    "expiry",
    "expiration",
    "expires",
    "expired",
    "count",
    "size",
    "length",
    "limit",
    "type",
    "kind",
    "url",
    "uri",
    "issuer",
    "audience",
    "audiences",
    "ref",
    "version",
    "manager",
    "controller",
    "provider",
    "policy",
    "plugin",
    "affinity",
    "error",
    "errors",
    "exception",
    "failed",
    "invalid",
    "missing",
    "required",
    "enabled",
    "disabled",
    "review",
    "config",
];
/// File extensions and suffixes of API groups.
const EXTENSIONS: [&str; 12] =
    [".go", ".rs", ".py", ".java", ".js", ".c", ".yaml", ".yml", ".json", ".conf", ".io", ".com"];

/// Maximum length of the end of a word that is compared: names are shorter, and words may be endless.
const LONGEST: usize = 64;

/// Returns the kind of secret that `word` names after `before`; `None` if it does not name one.
pub(super) fn of(before: &str, word: &str) -> Option<Name> {
    let word = tail(word).trim_end_matches(['.', '-', '_']).trim_start_matches('-');
    if !may_name(word.as_bytes()) {
        return None;
    }
    let lower = &*word.to_ascii_lowercase();
    // Handles `password2` and `tokens`.
    let base = lower.trim_end_matches(|c: char| c.is_ascii_digit());
    let base = if base.ends_with("ss") { base } else { base.strip_suffix('s').unwrap_or(base) };
    let name = |kind, is_sure| Some(Name { kind, is_sure, is_within: false });
    if base.is_empty() || ends_in(lower, &SETTINGS) || ends_in(lower, &EXTENSIONS) || is_check(lower) {
        return None;
    }
    if PASSWORDS.iter().any(|part| lower.contains(part)) {
        return name(Kind::Password, true);
    }
    if ends_in(base, &ENDS_OF_PASSWORDS) && !ends_in(base, &NO_PASSWORDS) {
        return name(Kind::Password, true);
    }
    let is_part = |part: &&str| is_last_part(word, lower, part);
    if CODES.iter().any(is_part) {
        return name(Kind::Code, true);
    }
    if SHORT.iter().any(is_part) || base == "cred" {
        return name(Kind::Short, true);
    }
    let is_sure = SURE.iter().any(|end| base.ends_with(end));
    if base.ends_with("key") {
        return key(before, base).map(|kind| Name { kind, is_sure, is_within: false });
    }
    if CREDENTIALS.iter().any(|name| lower.contains(name)) || ends_in(base, &ENDS_OF_CREDENTIALS) {
        let last = last_parts(lower);
        let is_within = !lower.contains('_') && !CREDENTIALS.iter().any(|name| last.contains(name));
        return Some(Name {
            kind: Kind::Credential,
            is_sure,
            is_within: is_within && !ends_in(base, &ENDS_OF_CREDENTIALS),
        });
    }
    let two_words = |first: &str, second: &str| lower == second && previous(before).eq_ignore_ascii_case(first);
    if two_words("connection", "string") || two_words("community", "string") {
        return name(Kind::Credential, false);
    }
    // The capital letters are those of SQL keywords; in other texts, objects are identified by their names.
    if word == "BY" && previous(before) == "IDENTIFIED" {
        return name(Kind::Password, false);
    }
    None
}

/// Returns true if the word contains any of the names. Most words do not, and comparing them with the lists takes longer.
fn may_name(word: &[u8]) -> bool {
    let is_any = |at: usize, parts: &[&str]| {
        parts
            .iter()
            .any(|part| word.get(at..at + part.len()).is_some_and(|it| it.eq_ignore_ascii_case(part.as_bytes())))
    };
    word == b"BY"
        || (0..word.len()).any(|at| match word[at].to_ascii_lowercase() {
            b'a' => is_any(at, &["auth"]),
            b'c' => is_any(at, &["cred", "cookie", "connstr"]),
            b'd' => is_any(at, &["dsn"]),
            b'j' => is_any(at, &["jwt"]),
            b'k' => is_any(at, &["key"]),
            b'o' => is_any(at, &["otp"]),
            b'p' => is_any(at, &["pass", "pw", "pin", "psk"]),
            b's' => is_any(at, &["secret", "session", "sig", "string"]),
            b't' => is_any(at, &["token"]),
            _ => false,
        })
}

fn key(before: &str, base: &str) -> Option<Kind> {
    let owner = base.strip_suffix("key")?;
    let parts = owner.trim_end_matches(['_', '-']);
    match () {
        () if parts.ends_with("public") || parts.ends_with("pub") => None,
        () if parts.is_empty() => {
            let is_compound = BEFORE_KEY.iter().any(|word| previous(before).eq_ignore_ascii_case(word));
            Some(if is_compound { Kind::Credential } else { Kind::Key })
        }
        // A file: `server.key`.
        () if owner.ends_with('.') || ends_in(parts, &KEYS_OF_MAPS) => Some(Kind::Key),
        () => Some(Kind::Credential),
    }
}

/// Returns true if a name is `part`, or ends with it after punctuation or in camel case.
fn is_last_part(word: &str, lower: &str, part: &str) -> bool {
    let Some(first) = lower.strip_suffix(part) else { return false };
    let is_capital = word[first.len()..].starts_with(|c: char| c.is_ascii_uppercase());
    let follows_small = word[..first.len()].ends_with(|c: char| c.is_ascii_lowercase());
    first.is_empty() || first.ends_with(['_', '-', '.']) || is_capital && follows_small
}

/// Returns the end of a name, including the part before `value` and similar words: `secret-value`, but `abc12` for `token-cleaner-abc12`.
fn last_parts(lower: &str) -> &str {
    const OF_VALUES: [&str; 8] = ["value", "data", "id", "raw", "b64", "base64", "header", "env"];
    let mut rest = lower;
    loop {
        let at = rest.rfind(['-', '.']).map_or(0, |at| at + 1);
        let part = &rest[at..];
        let is_more = OF_VALUES.contains(&part) || part.bytes().all(|byte| byte.is_ascii_digit());
        if at == 0 || !is_more {
            return &lower[at..];
        }
        rest = &rest[..at - 1];
    }
}

fn ends_in(name: &str, ends: &[&str]) -> bool {
    ends.iter().any(|end| name.ends_with(end))
}

/// Matches the names of our own checks of credentials.
fn is_check(name: &str) -> bool {
    matches!(name.split_once('.'), Some(("talos" | "k8s", "credentials")))
}

/// Returns the word before a space.
fn previous(before: &str) -> &str {
    let before = tail(before).trim_end_matches([' ', '\t', '\n']);
    let other = |c: char| !c.is_ascii_alphanumeric() && c != '-';
    before.rsplit(other).next().unwrap_or(before)
}

/// Returns the last bytes of a text.
pub(super) fn tail(text: &str) -> &str {
    let mut at = text.len().saturating_sub(LONGEST);
    while !text.is_char_boundary(at) {
        at += 1;
    }
    &text[at..]
}
