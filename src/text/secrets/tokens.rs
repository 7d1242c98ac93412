//! Tokens that are recognized by their form: prefixes that issuers publish for scanners, or the structure of the token.

use std::ops::Range;

use super::values::{ends_value, is_random};
use super::{Spans, is_blank, is_of_token, words};

/// Minimum length of a token, because names and words may begin in the same way.
const SHORTEST: usize = 20;
/// Maximum number of digits in a bot's id.
const LONGEST_ID: usize = 12;

/// Prefixes that only tokens have.
const PREFIXES: &[&str] = &[
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "gldt-",
    "glrt-",
    "glcbt-",
    "glptt-",
    "glft-",
    "glsoat-",
    "glagent-",
    "gloas-",
    "glimt-",
    "glffct-",
    "xoxa-",
    "xoxb-",
    "xoxe-",
    "xoxe.",
    "xoxo-",
    "xoxp-",
    "xoxr-",
    "xoxs-",
    "xapp-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "rk_test_",
    "whsec_",
    "hvs.",
    "hvb.",
    "hvr.",
    "AIza",
    "ya29.",
    "GOCSPX-",
    "pypi-",
    "dop_v1_",
    "doo_v1_",
    "dor_v1_",
    "shpat_",
    "shpss_",
    "shpca_",
    "shppa_",
    "SG.",
    "sk-ant-",
    "sk-proj-",
    "dckr_pat_",
    "dckr_oat_",
    "lin_api_",
    "ATATT3",
    "ATBB",
    "sq0atp-",
    "sq0csp-",
    "PMAK-",
    "NRAK-",
    "glsa_",
    "glc_",
    "figd_",
    "AGE-SECRET-KEY-",
    "AGE-PLUGIN-",
    "tskey-",
    "rubygems_",
    "sntrys_",
    "sntryu_",
    "eyJ",
    "LS0tLS1",
    "SCW",
    "CFPAT-",
    "dp.pt.",
    "dp.st.",
    "pscale_tkn_",
    "pscale_pw_",
    "ops_ey",
    "EZAK",
    "AKCp8",
    "xkeysib-",
    "xoxc-",
    "xoxd-",
    "sk-or-",
    "sk-svcacct-",
    "nvapi-",
    "dt0c01.",
    "fm1_",
    "fm2_",
    "ATCTT3",
    "CLOJARS_",
    "sntryi_",
];

/// Prefixes that names can also have. The rest of a token has digits and capital letters, or is as long as a token's.
const DOUBTFUL: &[&str] = &[
    "npm_", "hf_", "s.", "b.", "sk-", "key-", "pul-", "dapi", "AKIA", "ASIA", "ABIA", "ACCA", "MII", "tk_", "gsk_",
    "xai-", "sbp_", "LTAI", "tfp_", "r8_",
];
/// Prefixes of tokens in base64, which uses more characters than other tokens.
const BASE64: &[&str] = &["LS0tLS1", "eyJ", "MII", "fm1_", "fm2_"];

pub(super) fn find(text: &str, spans: &mut Spans) {
    let mut covered = 0;
    for word in words(text).filter(|word| !word.is_empty()) {
        if word.start < covered {
            continue;
        }
        let token = &text[word.clone()];
        if is_token(token) {
            covered = word.end + rest(token, &text[word.end..]);
            spans.hide(word.start..covered);
        } else if let Some(secret) = of_bot(text, &word) {
            spans.hide(secret);
        }
    }
    keys(text, spans);
}

/// Returns the length of the text after a token that belongs to it: the rest of base64, and a second part after a colon, as in `id:secret`.
fn rest(token: &str, after: &str) -> usize {
    let is_of_base64 = |c: char| is_of_token(c) || matches!(c, '+' | '/' | '=');
    let is_base64 = BASE64.iter().any(|prefix| token.starts_with(prefix));
    let length = if is_base64 { after.find(|c| !is_of_base64(c)).unwrap_or(after.len()) } else { 0 };
    let second = &after[length..];
    let value = second.trim_start_matches(':');
    let end = value.find(|c| ends_value(c) || c == '@').unwrap_or(value.len());
    let is_second = value.len() < second.len() && end >= 8;
    if is_second { length + (second.len() - value.len()) + end } else { length }
}

/// Returns the range of Telegram's `123456789:AA…`, which spans two words.
fn of_bot(text: &str, id: &Range<usize>) -> Option<Range<usize>> {
    let digits = text[id.clone()].trim_start_matches("bot");
    let is_id = (6..=LONGEST_ID).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let key = text[id.end..].strip_prefix(':').filter(|_| is_id)?;
    let length = key.find(|c| !is_of_token(c)).unwrap_or(key.len());
    (length >= 30 && (key.starts_with("AA") || is_random(&key[..length]))).then(|| id.start..id.end + 1 + length)
}

/// Hides PEM and SSH keys. Several lines of a key may be joined here.
fn keys(text: &str, spans: &mut Spans) {
    let mut from = 0;
    while let Some(begin) = mark(&text[from..], "BEGIN") {
        let begin = from + begin;
        from = mark(&text[begin..], "END").map_or(text.len(), |end| begin + end + "-----END ".len());
        spans.hide(begin..from);
    }
}

/// Returns the position of the next `-----BEGIN ` or `---- BEGIN `.
pub(super) fn mark(text: &str, word: &str) -> Option<usize> {
    let mut places = text.match_indices(word).map(|(at, _)| at);
    let is_mark = |at: &usize| {
        let dashes = at.checked_sub(5).and_then(|start| text.get(start..*at));
        matches!(dashes, Some("-----" | "---- " | "----\t")) && text[at + word.len()..].starts_with(is_blank)
    };
    places.find(is_mark).map(|at| at - 5)
}

fn is_token(word: &str) -> bool {
    let word = word.trim_end_matches(['.', '-']);
    is_bootstrap_token(word)
        || is_node_token(word)
        || word.len() >= SHORTEST && (PREFIXES.iter().any(|prefix| word.starts_with(prefix)) || is_doubtful_token(word))
}

fn is_doubtful_token(word: &str) -> bool {
    let Some((prefix, rest)) = DOUBTFUL.iter().find_map(|prefix| Some((*prefix, word.strip_prefix(prefix)?))) else {
        return false;
    };
    let has = |is: fn(&char) -> bool| rest.chars().any(|c| is(&c));
    let is_one_word = rest.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_hex = rest.len() == 32 && rest.chars().all(|c| c.is_ascii_hexdigit());
    let is_ntfy = prefix == "tk_" && rest.len() == 29;
    let looks_made = has(char::is_ascii_uppercase) || is_hex || is_ntfy || rest.len() >= 32 || is_random(rest);
    // Names in programs have camel case after a dot. After the other prefixes, names do not have capital letters.
    let needs_digit = prefix.ends_with('.') || !has(char::is_ascii_uppercase);
    is_one_word && looks_made && (has(char::is_ascii_digit) || !needs_digit)
}

/// Matches `abcdef.0123456789abcdef`, a token of Kubernetes or Talos's trustd. Host names have other lengths, or no digit before a letter.
fn is_bootstrap_token(word: &str) -> bool {
    let has_digit = |secret: &str| secret.bytes().any(|byte| byte.is_ascii_digit());
    let is_made = |id: &str| id.as_bytes().windows(2).any(|it| it[0].is_ascii_digit() && it[1].is_ascii_lowercase());
    looks_like_bootstrap_token(word)
        && word.split_once('.').is_some_and(|(id, secret)| has_digit(secret) || is_made(id))
}

/// Matches six characters, a dot and sixteen characters: a token if it follows a name, otherwise possibly a host.
pub(super) fn looks_like_bootstrap_token(word: &str) -> bool {
    let fits = |part: &str, length| {
        part.len() == length && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    word.split_once('.').is_some_and(|(id, secret)| fits(id, 6) && fits(secret, 16))
}

/// Matches k3s's `K10…::server:…`, which begins with the hash of its CA.
fn is_node_token(word: &str) -> bool {
    word.strip_prefix("K10").is_some_and(|hash| hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
