//! Forms of values: generated, chosen by a person, or written for readers.

use super::HIDDEN;

/// Maximum length of the beginning of a value that is compared.
const LONGEST: usize = 512;
/// Shorter words may look random by chance.
const SHORTEST: usize = 16;
/// Letters and digits without a capital letter can also be names, unless they are this long.
const LONG: usize = 20;
/// Shorter hexadecimal numbers are ids.
const HEX: usize = 32;

/// Returns the beginning of a text. The rest does not change the result.
pub(super) fn head(text: &str) -> &str {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns true if a value without quotes ends at this character.
pub(super) fn ends_value(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '"' | '\'' | '`' | '&' | ',' | ';' | ')' | ']' | '}' | '\\' | '<' | '|' | '│' | '┃')
}

/// Returns true if the word appears to be generated: a key in hexadecimal, in base64, or in another alphabet. Digests (`sha256:…`), UUIDs,
/// paths, and names of hosts and pods do not count.
pub(super) fn is_random(word: &str) -> bool {
    let word = head(word).trim_end_matches(['.', ':', '!', '?']).trim_end_matches('=');
    let is_of_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '_' | '-' | '.');
    if word.len() < SHORTEST || !word.chars().all(is_of_base64) {
        return false;
    }
    if let Some(digits) = word.strip_prefix("0x").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit())) {
        // Keys of kernel maps are as long as an IPv6 address.
        return digits.len() > HEX;
    }
    if is_hex(word) {
        return true;
    }
    if is_path(word) || is_host(word) || is_name(word) {
        return false;
    }
    let has = |is: fn(&u8) -> bool| word.bytes().any(|byte| is(&byte));
    let switches = |is: fn(u8) -> u8| word.as_bytes().windows(2).filter(|pair| is(pair[0]) != is(pair[1])).count();
    let is_one_word = word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match (has(u8::is_ascii_lowercase), has(u8::is_ascii_uppercase), has(u8::is_ascii_digit)) {
        // Words in camel case also have capital letters, but fewer.
        (true, true, true) => switches(class) * 4 >= word.len(),
        (true, true, false) => {
            let capitals = word.bytes().filter(u8::is_ascii_uppercase).count();
            word.len() >= LONG && capitals * 100 >= word.len() * 35 && capitals * 100 <= word.len() * 65
        }
        (_, _, true) => word.len() >= LONG && is_one_word && switches(|c| u8::from(c.is_ascii_digit())) >= 4,
        _ => false,
    }
}

fn class(c: u8) -> u8 {
    match c {
        b'a'..=b'z' => 0,
        b'A'..=b'Z' => 1,
        b'0'..=b'9' => 2,
        _ => 3,
    }
}

/// Returns true for at least 32 hexadecimal digits, both numeric and alphabetic.
pub(super) fn is_hex(word: &str) -> bool {
    let has_case = |is: fn(&u8) -> bool| word.bytes().any(|byte| is(&byte));
    word.len() >= HEX
        && word.bytes().all(|byte| byte.is_ascii_hexdigit())
        && has_case(u8::is_ascii_digit)
        && has_case(u8::is_ascii_alphabetic)
}

/// Matches `3f2b8c1e-9d4a-4e6f-8b7c-1a2b3c4d5e6f`.
pub(super) fn is_uuid(word: &str) -> bool {
    let lengths = [8, 4, 4, 4, 12];
    word.len() == 36
        && word.split('-').map(str::len).eq(lengths)
        && word.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

/// Returns true if a person may have chosen the value as a password: letters with digits, but not a version, a duration, an address or an
/// algorithm.
pub(super) fn looks_chosen(value: &str) -> bool {
    let value = head(value).trim_end_matches(['.', ':', '!', '?', ',']);
    let has = |is: fn(&u8) -> bool| value.bytes().any(|byte| is(&byte));
    value.len() >= 6
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_alphabetic)
        && !value.starts_with('/')
        && !is_known(value)
}

/// Returns true for algorithms, formats, versions, durations and addresses.
fn is_known(value: &str) -> bool {
    const TECHNICAL: [&str; 16] = [
        "sha", "md5", "base64", "base32", "utf", "x509", "oauth", "http", "ipv", "ed25519", "bcrypt", "pbkdf", "pkcs",
        "aes", "argon", "ecdsa",
    ];
    let lower = value.to_ascii_lowercase();
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    let is_hex_or_sign = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':' | b'/' | b'[' | b']');
    let is_version =
        value.trim_start_matches(['v', 'V']).starts_with(|c: char| c.is_ascii_digit()) && value.contains('.');
    let is_duration = value.starts_with(|c: char| c.is_ascii_digit())
        && value.bytes().all(|byte| byte.is_ascii_digit() || b"hmsun.".contains(&byte))
        && letters <= 4;
    TECHNICAL.iter().any(|name| lower.starts_with(name) && value.len() <= name.len() + 8)
        || is_version
        || is_duration
        || value.contains(':') && value.bytes().all(is_hex_or_sign)
        || is_host(value)
        || is_name(value)
}

/// Returns true for values that are not secrets: `true`, `<nil>`, `***`.
pub(super) fn is_setting(value: &str) -> bool {
    const SETTINGS: [&str; 15] = [
        "true",
        "false",
        "none",
        "null",
        "nil",
        "<nil>",
        "<none>",
        "yes",
        "no",
        "on",
        "off",
        "enabled",
        "disabled",
        "redacted",
        "<redacted>",
    ];
    let value = value.trim_end_matches([':', '.', ',']);
    value == HIDDEN || SETTINGS.iter().any(|setting| value.eq_ignore_ascii_case(setting))
}

/// Returns true for paths such as `/var/lib/kubelet/pki/kubelet.crt` and `registry.example/a/b`. Keys in base64 also have slashes, but
/// capital letters and digits between them.
pub(super) fn is_path(word: &str) -> bool {
    let is_random = |part: &&str| {
        let has = |is: fn(&u8) -> bool| part.bytes().any(|byte| is(&byte));
        has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_digit)
    };
    let parts: Vec<&str> = word.split('/').filter(|part| !part.is_empty()).collect();
    let Some(first) = parts.first() else { return false };
    let random = parts.iter().copied().filter(is_random).count();
    let is_rooted = word.starts_with('/') && first.len() > 1 && first.bytes().all(|byte| !byte.is_ascii_uppercase());
    let is_known = match () {
        () if is_rooted => random * 2 < parts.len().max(2),
        () if is_host(first) => random == 0 && parts.len() > 1,
        () => random == 0 && parts.len() > 3,
    };
    is_known && !word.contains('+')
}

/// Returns true for names with short parts and without capital letters: `pvc-3f2b8c1e-9d4a-4e6f-8b7c-1a2b3c4d5e6f`,
/// `kube-system/kube-controller-manager-cp-1`.
pub(super) fn is_name(word: &str) -> bool {
    let fits = |part: &str| part.len() <= 16 && part.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    word.matches('-').count() > 2 && word.split(['-', '/', '.', '_']).all(fits)
}

/// Returns true for host names such as `ip-10-0-0-1.eu-central-1.compute.internal`. Tokens with dots also have capital letters.
pub(super) fn is_host(word: &str) -> bool {
    let is_label = |label: &str| {
        let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        !label.is_empty() && label.len() <= 40 && label.bytes().all(fits)
    };
    word.contains('.') && word.trim_end_matches('.').split('.').all(is_label)
}
