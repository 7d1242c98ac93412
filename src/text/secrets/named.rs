//! Secrets that follow a name: `password=…`, `"token": "…"`, `--api-key …`.

use super::names::{self, Kind, Name};
use super::tokens::looks_like_bootstrap_token;
use super::values::{ends_value, head, is_path, is_random, is_setting, looks_chosen};
use super::{Reach, Spans, is_blank, is_of_token, words};

/// The syntax that connects a value with its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sign {
    /// `name=value`.
    Equals,
    /// `"name": "value"`.
    Pair,
    /// `name: value`, `name = value`, `name => value`.
    Assigned,
    /// `name   value`, `name<TAB>value`, `name | value`.
    Column,
    /// `name "value"`, `name(value)`.
    Quoted,
    /// `name value`.
    Blank,
    /// `name is value`, `name was value`.
    Is,
    /// `"name", "value"`.
    Listed,
}

/// The text after a name.
#[derive(Clone, Copy)]
struct Value<'a> {
    sign: Sign,
    /// The length of the text between the name and the value.
    gap: usize,
    /// The value and all text after it.
    text: &'a str,
    quote: Option<char>,
}

/// A name and its value.
struct Named<'a> {
    before: &'a str,
    word: &'a str,
    name: Name,
    value: Value<'a>,
}

pub(super) fn find(text: &str, reach: Reach, spans: &mut Spans) {
    let mut covered = 0;
    for word in words(text) {
        if word.start < covered {
            continue;
        }
        let (before, after) = (&text[..word.start], &text[word.end..]);
        let Some(name) = names::of(before, &text[word.clone()]) else { continue };
        let Some(value) = value_after(name.kind, after) else { continue };
        let from = word.end + value.gap;
        let named = Named { before, word: &text[word.clone()], name, value };
        if reach == Reach::Service && named.hides_line() {
            spans.hide_rest(word.end..text.len());
            return;
        }
        if let Some((start, end)) = named.certain() {
            covered = from + end;
            spans.hide(from + start..covered);
        }
    }
}

/// Returns true if the line ends with a name whose value is on the next line: `password:`, `password = \`.
pub(super) fn awaits_value(line: &str) -> bool {
    let line = line.trim_end_matches(|c| is_blank(c) || is_quote(c) || c == '\\');
    assigned_name(line).is_some_and(|name| !matches!(name.kind, Kind::Key | Kind::Short))
}

/// Returns true if the line ends with a name whose value is a YAML block below it: `password: |`, `key: >-`.
pub(super) fn awaits_block(line: &str) -> bool {
    let line = line.trim_end_matches(is_blank);
    let sign = line.trim_end_matches(|c: char| matches!(c, '+' | '-') || c.is_ascii_digit());
    let is_short = line.len() - sign.len() <= 2;
    sign.strip_suffix(['|', '>'])
        .is_some_and(|name| is_short && name.ends_with(is_blank) && assigned_name(name).is_some())
}

/// Returns true if the line has the name of a variable whose value is on the next line: `name: DB_PASSWORD`.
pub(super) fn awaits_variable(line: &str) -> bool {
    let field = line.trim_start_matches(|c| is_blank(c) || is_quote(c) || matches!(c, '-' | '{'));
    let variable = line.trim_end_matches(|c| is_blank(c) || is_quote(c) || c == ',');
    let is_name = ["name", "key"].iter().any(|name| is_field(field, name));
    is_name && last_name(variable).is_some_and(|name| name.kind != Kind::Key)
}

/// Returns true if the line is an option as a list item, so that the next item is its value: `- --password`.
pub(super) fn awaits_argument(line: &str) -> bool {
    let item = line.strip_prefix("- ").unwrap_or(line);
    let option = item.trim_matches(|c| is_blank(c) || is_quote(c) || c == ',');
    let is_item = option.len() < line.len() && option.starts_with('-') && !option.contains(is_blank);
    is_item && last_name(option).is_some_and(|name| name.kind != Kind::Key)
}

/// Returns true for the line after [`awaits_variable`]: `value: …`, `"value": …`.
pub(super) fn is_variable_value(line: &str) -> bool {
    is_field(line.trim_start_matches(|c| is_blank(c) || is_quote(c) || c == '-'), "value")
}

/// Returns true if the text begins with the field `name`.
fn is_field(text: &str, name: &str) -> bool {
    text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
        && text[name.len()..].trim_start_matches(|c| is_blank(c) || is_quote(c)).starts_with([':', '='])
}

/// Returns the name before the `:` or `=` at the end of a line.
fn assigned_name(line: &str) -> Option<Name> {
    let name = line.trim_end_matches(is_blank).strip_suffix([':', '='])?;
    last_name(name.trim_end_matches(|c| is_blank(c) || is_quote(c)))
}

fn last_name(text: &str) -> Option<Name> {
    let word = text.rsplit(|c| !is_of_token(c)).next()?;
    names::of(&text[..text.len() - word.len()], word)
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '`')
}

/// Returns the value after a name, if there is one.
fn value_after(kind: Kind, after: &str) -> Option<Value<'_>> {
    let closed = after.trim_start_matches(|c| is_quote(c) || matches!(c, ')' | ']' | '}' | '\\'));
    let rest = closed.trim_start_matches(is_blank);
    let blanks = &closed[..closed.len() - rest.len()];
    let is_quoted = after.starts_with(is_quote);
    let (sign, text) = assigned(kind, rest, blanks, is_quoted)
        .or_else(|| enclosed(after, rest, blanks, is_quoted))
        .or_else(|| apart(kind, rest, blanks))?;

    let opened = text.trim_start_matches(is_blank);
    let inner = opened.trim_start_matches(|c| is_quote(c) || matches!(c, '[' | '(' | '\\'));
    let quote = opened[..opened.len() - inner.len()].chars().next_back().filter(|c| is_quote(*c));
    let is_any = inner.contains(char::is_alphanumeric);
    is_any.then_some(Value { sign, gap: after.len() - inner.len(), text: inner, quote })
}

/// Returns the text after `=`, `:` and other signs.
fn assigned<'a>(kind: Kind, rest: &'a str, blanks: &str, is_quoted: bool) -> Option<(Sign, &'a str)> {
    const SIGNS: [&str; 8] = [":=", "=>", "->", "==", "=", ":", "|", "│"];
    // A path in source code: `token::parse`.
    if rest.starts_with("::") && kind != Kind::Password {
        return None;
    }
    let (sign, text) = SIGNS.iter().find_map(|sign| Some((*sign, rest.strip_prefix(sign)?)))?;
    let is_quote_next = text.trim_start_matches(is_blank).starts_with(is_quote);
    let sign = match sign {
        "=" if blanks.is_empty() && !text.starts_with(is_blank) => Sign::Equals,
        ":" if is_quoted && is_quote_next => Sign::Pair,
        "|" | "│" => Sign::Column,
        _ => Sign::Assigned,
    };
    Some((sign, text))
}

/// Returns the text in an XML element, in parentheses, or after a comma.
fn enclosed<'a>(after: &'a str, rest: &'a str, blanks: &str, is_quoted: bool) -> Option<(Sign, &'a str)> {
    if let Some(text) = after.strip_prefix('>').filter(|text| !is_quoted && !text.starts_with(is_blank)) {
        return Some((Sign::Assigned, text));
    }
    if let Some(text) = after.strip_prefix(['(', '{']) {
        return Some((Sign::Quoted, text));
    }
    rest.strip_prefix(',').filter(|_| blanks.is_empty()).map(|text| (Sign::Listed, text))
}

/// Returns the text after spaces.
fn apart<'a>(kind: Kind, rest: &'a str, blanks: &str) -> Option<(Sign, &'a str)> {
    if blanks.is_empty() {
        return None;
    }
    if let Some(text) = ["is ", "was ", "to "].iter().find_map(|word| rest.strip_prefix(word)) {
        return Some((Sign::Is, text));
    }
    if let Some(text) = rest.strip_prefix("for ").filter(|_| kind == Kind::Password).and_then(after_owner) {
        return Some((Sign::Assigned, text));
    }
    let sign = match () {
        () if blanks.len() > 1 || blanks != " " => Sign::Column,
        () if rest.starts_with(|c| is_quote(c) || matches!(c, '(' | '[')) => Sign::Quoted,
        () => Sign::Blank,
    };
    Some((sign, rest))
}

/// Returns the text after `admin:` or `user admin is`, which follow `password for`.
fn after_owner(rest: &str) -> Option<&str> {
    let mut at = 0;
    for _ in 0..3 {
        let end = at + head(&rest[at..]).find(|c: char| is_blank(c) || c == ':')?;
        let after = &rest[end..];
        if let Some(value) = after.strip_prefix(':').or_else(|| after.strip_prefix(" is ")) {
            return Some(value).filter(|value| !value.starts_with(':'));
        }
        at = rest.len() - after.trim_start_matches(is_blank).len();
    }
    None
}

impl Named<'_> {
    /// Returns the whole value if it is quoted, otherwise its first word.
    fn value(&self) -> &str {
        let text = head(self.value.text);
        let is_end = |at: &usize| {
            let next = text[*at..].chars().nth(1);
            next.is_none_or(|c| c.is_whitespace() || matches!(c, ',' | '}' | ']' | ')' | ';' | '&' | '/' | '>' | ':'))
        };
        let quoted = self.value.quote.and_then(|quote| text.match_indices(quote).map(|(at, _)| at).find(is_end));
        &text[..quoted.or_else(|| text.find(ends_value)).unwrap_or(text.len())]
    }

    /// Returns the part of the value that is certainly a secret.
    fn certain(&self) -> Option<(usize, usize)> {
        if let Some(part) = self.of_header() {
            return Some(part);
        }
        let value = self.value();
        let is_secret = match (self.value.sign, self.name.kind) {
            (Sign::Equals | Sign::Pair, Kind::Password | Kind::Code) => !is_setting(value),
            // `sig=9` is a signal of the kernel.
            (Sign::Equals | Sign::Pair, Kind::Short) => !(is_setting(value) || value.len() < 4 && is_digits(value)),
            (Sign::Equals | Sign::Pair, Kind::Credential) => {
                self.name.is_sure && !is_setting(value) && !is_file(value) && !self.is_reference(value)
            }
            (Sign::Assigned, Kind::Password) => looks_chosen(value),
            _ => false,
        };
        if value.is_empty() || !(is_secret || is_random(value) || looks_like_bootstrap_token(value)) {
            return None;
        }
        // The value may be longer than the part that was compared.
        let rest = &self.value.text[value.len()..];
        let is_cut = value.len() == head(self.value.text).len();
        let length = if is_cut { rest.find(ends_value).unwrap_or(rest.len()) } else { 0 };
        Some((0, value.len() + length))
    }

    /// Returns the secret part of `Authorization: Basic …` and `Cookie: …`.
    fn of_header(&self) -> Option<(usize, usize)> {
        const SCHEMES: [&str; 8] = ["basic", "bearer", "digest", "negotiate", "ntlm", "token", "apikey", "splunk"];
        if !matches!(self.value.sign, Sign::Equals | Sign::Pair | Sign::Assigned) {
            return None;
        }
        let text = self.value.text;
        let word = self.word.to_ascii_lowercase();
        if word.ends_with("cookie") {
            let name = head(text).find(ends_value).map_or(text, |end| &text[..end]);
            return name.contains('=').then(|| (0, text.find(['"', '\n']).unwrap_or(text.len())));
        }
        if !word.ends_with("authorization") {
            return None;
        }
        let scheme = head(text).find(is_blank)?;
        let start = scheme + 1;
        let length = text[start..].find(ends_value).unwrap_or(text.len() - start);
        let is_scheme = SCHEMES.iter().any(|it| text[..scheme].eq_ignore_ascii_case(it));
        (is_scheme && length > 0).then_some((start, start + length))
    }

    /// Returns true if the rest of a service's line may be a secret.
    fn hides_line(&self) -> bool {
        let value = self.value();
        let first = value.split(is_blank).next().unwrap_or(value);
        if is_setting(first) || value.is_empty() && self.value.quote.is_some() {
            return false;
        }
        let (sign, kind) = (self.value.sign, self.name.kind);
        // Matches `Name:DB_PASSWORD,Value:…`, `"name":"DB_PASSWORD","value":"…"`, `key="Password" value="…"`.
        if kind != Kind::Key && is_field(self.value.text, "value") {
            return true;
        }
        if self.is_option() {
            return kind != Kind::Key && self.is_argument(first);
        }
        if self.is_in_path() || self.name.is_within && !matches!(sign, Sign::Equals | Sign::Pair) {
            return false;
        }
        match kind {
            Kind::Password => self.is_password(first),
            Kind::Credential => match sign {
                Sign::Equals | Sign::Pair => !self.is_reference(value) && !is_file(first),
                Sign::Assigned => !is_file(first) && !self.is_error(first) && !self.is_count(first),
                Sign::Column => !self.ends_sentence() && !is_of_sentence(first) && !self.is_count(first),
                Sign::Blank | Sign::Is => looks_chosen(first) && is_mixed(first),
                Sign::Quoted | Sign::Listed => false,
            },
            Kind::Code => match sign {
                Sign::Equals | Sign::Pair => true,
                Sign::Assigned | Sign::Column | Sign::Is => looks_chosen(first) || is_number(first),
                Sign::Blank | Sign::Quoted | Sign::Listed => false,
            },
            Kind::Short => match sign {
                Sign::Equals | Sign::Pair => !is_digits(first) || is_number(first),
                Sign::Assigned => looks_chosen(first) && !first.ends_with(':'),
                Sign::Blank | Sign::Is => looks_chosen(first) && is_mixed(first),
                Sign::Column | Sign::Quoted | Sign::Listed => false,
            },
            Kind::Key => {
                matches!(sign, Sign::Equals | Sign::Pair | Sign::Assigned) && looks_chosen(first) && is_one_word(first)
            }
        }
    }

    fn is_password(&self, first: &str) -> bool {
        let is_verb = self.word.eq_ignore_ascii_case("pass");
        // `PWD=/var/lib` is a shell's working directory.
        let is_folder = self.word.to_ascii_lowercase().ends_with("pwd") && is_file(first);
        match self.value.sign {
            Sign::Equals | Sign::Pair | Sign::Assigned => !is_folder,
            Sign::Column => !self.ends_sentence() && !is_verb && !is_of_sentence(first),
            Sign::Quoted => !is_verb && (self.value.quote.is_some() || looks_chosen(first)),
            Sign::Blank | Sign::Is => !is_verb && looks_chosen(first),
            Sign::Listed => self.value.quote.is_some() && looks_chosen(first),
        }
    }

    /// Returns true for `--token` and `-password` at the beginning of a word.
    fn is_option(&self) -> bool {
        self.word.starts_with('-') && !self.before.ends_with(|c: char| c.is_alphanumeric())
    }

    fn is_argument(&self, first: &str) -> bool {
        match self.value.sign {
            _ if is_file(first) => false,
            Sign::Equals | Sign::Pair | Sign::Assigned => true,
            Sign::Is => false,
            _ => !first.starts_with('-') && !is_of_sentence(first),
        }
    }

    /// Returns true for `/run/secrets/token: …`, but not for `user/password: …`.
    fn is_in_path(&self) -> bool {
        let Some(path) = self.before.strip_suffix('/') else { return false };
        let is_user = ["user", "username", "login", "name", "id"].iter().any(|it| path.ends_with(it));
        !is_user && self.value.sign != Sign::Equals
    }

    /// Returns true if the name is within a sentence that continues with an error: `failed to fetch token: connection
    /// refused`.
    fn is_error(&self, first: &str) -> bool {
        const FILES: [&str; 5] = [".crt", ".key", ".pem", ".json", ".yaml"];
        let before = self.before.trim_end_matches(|c| is_quote(c) || c == '*');
        let is_in_sentence = before.ends_with(is_blank) && before.trim_end().ends_with(|c: char| c.is_alphanumeric());
        let is_status = first.len() == 3 && is_digits(first);
        // Matches `secrets "db" not found`.
        let is_object =
            self.value.text[first.len()..].starts_with(" \"") && first.bytes().all(|c| c.is_ascii_lowercase());
        let is_name = FILES.iter().any(|file| first.trim_end_matches('.').ends_with(file));
        is_in_sentence && self.value.quote.is_none() && (is_status || is_object || is_name || begins_error(first))
    }

    /// Returns true if the value refers to a Kubernetes Secret: `secret="kube-system/cilium"`.
    fn is_reference(&self, value: &str) -> bool {
        let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'.');
        let is_label = |label: &str| !label.is_empty() && label.bytes().all(fits);
        let is_secret = ["secret", "secrets"].iter().any(|it| self.word.eq_ignore_ascii_case(it));
        let is_object = value.split_once('/').is_some_and(|(space, name)| is_label(space) && is_label(name));
        is_secret && is_object && !is_random(value)
    }

    /// Returns true for a number of objects: `tokens: 12`.
    fn is_count(&self, first: &str) -> bool {
        self.word.ends_with(['s', 'S']) && first.len() <= 6 && is_digits(first)
    }

    /// Two spaces may follow a full stop.
    fn ends_sentence(&self) -> bool {
        self.word.ends_with('.')
    }
}

/// Returns true for a word of capital and small letters without the punctuation of names.
fn is_mixed(word: &str) -> bool {
    let has = |is: fn(&u8) -> bool| word.bytes().any(|byte| is(&byte));
    is_one_word(word) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase)
}

/// Returns true for a word without the punctuation of names.
fn is_one_word(word: &str) -> bool {
    word.len() >= 8 && !word.contains(['/', '.', '-', ':', '(', '{'])
}

fn is_digits(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_number(word: &str) -> bool {
    word.len() >= 4 && is_digits(word.trim_end_matches(['.', ',']))
}

/// Returns true for a path in a directory that systems usually have.
fn is_file(word: &str) -> bool {
    const ROOTS: [&str; 14] = [
        "/var/",
        "/etc/",
        "/run/",
        "/system/",
        "/home/",
        "/tmp/",
        "/opt/",
        "/usr/",
        "/root/",
        "/registry/",
        "/proc/",
        "/sys/",
        "/dev/",
        "/secrets/",
    ];
    ROOTS.iter().any(|root| word.starts_with(root)) && is_path(word)
}

/// Returns true if the word after `--token` or `token` is not a value.
fn is_of_sentence(first: &str) -> bool {
    const WORDS: [&str; 30] = [
        "is", "are", "was", "were", "and", "or", "to", "must", "cannot", "can", "flag", "option", "has", "have", "not",
        "in", "with", "for", "from", "instead", "requires", "needs", "should", "will", "when", "if", "does", "expired",
        "missing", "required",
    ];
    WORDS.contains(&first.trim_end_matches(['.', ',', ':']))
}

/// Returns true if an error message may begin with the word.
fn begins_error(first: &str) -> bool {
    const WORDS: [&str; 65] = [
        "get",
        "post",
        "put",
        "patch",
        "delete",
        "head",
        "open",
        "read",
        "write",
        "stat",
        "dial",
        "lookup",
        "rpc",
        "context",
        "the",
        "failed",
        "failure",
        "could",
        "couldn",
        "cannot",
        "can",
        "no",
        "not",
        "invalid",
        "unable",
        "timed",
        "timeout",
        "unauthorized",
        "forbidden",
        "expired",
        "error",
        "errors",
        "x509",
        "tls",
        "asn1",
        "eof",
        "unexpected",
        "unsupported",
        "unknown",
        "missing",
        "permission",
        "connection",
        "remote",
        "http",
        "https",
        "oauth2",
        "yaml",
        "json",
        "pem",
        "illegal",
        "malformed",
        "internal",
        "signal",
        "exit",
        "status",
        "code",
        "while",
        "request",
        "secrets",
        "resource",
        "server",
        "oidc",
        "jwt",
        "jws",
        "token",
    ];
    let word = first.trim_end_matches([':', ',', '.']);
    WORDS.iter().any(|it| it.eq_ignore_ascii_case(word))
}
