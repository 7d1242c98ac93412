//! Secrets that are known by how they look: by the prefixes that their issuers publish for scanners, by the assignment that they
//! stand in, by the place of a password in an address.

/// In the place of a secret.
pub(super) const HIDDEN: &str = "***";
/// Shorter ones are no tokens: names and words may begin in the same way.
const SHORTEST: usize = 20;

/// Nothing but a token begins like this.
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
];

/// Names begin like this, too: what follows has digits and capitals, or is as long as a token.
const DOUBTFUL: &[&str] =
    &["npm_", "hf_", "s.", "b.", "sk-", "key-", "pul-", "dapi", "AKIA", "ASIA", "ABIA", "ACCA", "MII"];

/// What a value is given to in `name=value` and `name: value`, as a whole or as the last part of the name.
const NAMES: &[&str] = &[
    "pass",
    "passwd",
    "password",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "accesskey",
    "access_key",
    "access-key",
    "accountkey",
    "sharedaccesskey",
    "credential",
    "credentials",
    "private_key",
    "privatekey",
    "private-key",
    "signature",
    "sig",
    "session",
    "sessionid",
    "jwt",
];

fn is_of_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// The text without them; as far as it is recognized, everything else stays.
pub(super) fn hidden(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(rest.find(|c| !is_of_token(c)).unwrap_or(rest.len()));
        if is_login(&out, word, after) {
            out.push_str(HIDDEN);
            rest = &after[after.find(char::is_whitespace).unwrap_or(after.len())..];
            continue;
        }
        if is_token(word) {
            out.push_str(HIDDEN);
        } else {
            out.push_str(word);
        }
        rest = after;
        if let Some(value) = given(word, after) {
            out.push_str(&after[..after.len() - value.len()]);
            let end = value.find(ends_value).unwrap_or(value.len());
            out.push_str(HIDDEN);
            rest = &value[end..];
        } else if let Some(secret) = login(word, after) {
            out.push(':');
            out.push_str(HIDDEN);
            rest = &after[1 + secret..];
        } else if let Some(c) = rest.chars().next().filter(|c| !is_of_token(*c)) {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

fn ends_value(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '&' | ',' | ';' | ')' | ']' | '}' | '\\')
}

/// `name=value`, `name="value"`: without blanks, so that sentences about tokens stay. Returns what begins with the value.
fn given<'a>(word: &str, after: &'a str) -> Option<&'a str> {
    let value = after.strip_prefix('=').or_else(|| after.strip_prefix("\"=").or_else(|| after.strip_prefix("%3D")))?;
    let value = value.strip_prefix("\\\"").unwrap_or(value);
    let value = value.strip_prefix(['"', '\'']).unwrap_or(value);
    let name = word.to_ascii_lowercase();
    let is_named = NAMES.iter().any(|secret| {
        name.strip_suffix(secret)
            .is_some_and(|before| before.is_empty() || before.ends_with(['_', '-', '.']) || secret.len() > 4)
    });
    (is_named && value.chars().next().is_some_and(|c| !ends_value(c))).then_some(value)
}

/// `user:secret@host`, as in the addresses of databases: how long the secret is.
fn login(word: &str, after: &str) -> Option<usize> {
    let secret = after.strip_prefix(':').filter(|_| !word.is_empty())?;
    let end =
        secret.find(|c: char| c.is_whitespace() || matches!(c, '@' | '/' | '"' | '\'' | ',' | '(' | '[' | ':'))?;
    let host = secret[end..].strip_prefix('@')?;
    // A digest follows the tag of an image in the same way.
    let is_digest = host.starts_with("sha256:") || host.starts_with("sha512:");
    let is_host = host.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[' || c == '(');
    (end > 0 && !is_digest && is_host).then_some(end)
}

/// `curl -u user:secret`.
fn is_login(before: &str, word: &str, after: &str) -> bool {
    !word.is_empty() && after.starts_with(':') && [" -u ", " --user ", "--user="].iter().any(|it| before.ends_with(it))
}

fn is_token(word: &str) -> bool {
    let word = word.trim_end_matches(['.', '-']);
    is_bootstrap_token(word)
        || word.len() >= SHORTEST && (PREFIXES.iter().any(|prefix| word.starts_with(prefix)) || is_doubtful_token(word))
}

fn is_doubtful_token(word: &str) -> bool {
    let Some(rest) = DOUBTFUL.iter().find_map(|prefix| word.strip_prefix(prefix)) else { return false };
    let has = |is: fn(&char) -> bool| rest.chars().any(|c| is(&c));
    let is_one_word = rest.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_hex = rest.len() == 32 && rest.chars().all(|c| c.is_ascii_hexdigit());
    has(char::is_ascii_digit) && is_one_word && (has(char::is_ascii_uppercase) || is_hex || rest.len() >= 32)
}

/// `abcdef.0123456789abcdef`, of Kubernetes and of Talos's trustd. Names of hosts have no digit there, or another part.
fn is_bootstrap_token(word: &str) -> bool {
    let fits = |part: &str, length| {
        part.len() == length && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    word.split_once('.')
        .is_some_and(|(id, secret)| fits(id, 6) && fits(secret, 16) && secret.bytes().any(|byte| byte.is_ascii_digit()))
}
