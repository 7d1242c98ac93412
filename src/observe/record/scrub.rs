//! Cuts credentials out of recordings. Values that merely look like credentials are cut too, because fixtures do not need them.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde_json::Value;

const CUT: &str = "(cut)";
/// Endings of names whose values are credentials. Lower case, without `-` and `_`.
const NAMES: [&str; 13] = [
    "token",
    "password",
    "passwd",
    "passphrase",
    "secret",
    "credential",
    "credentials",
    "authorization",
    "keydata",
    "privatekey",
    "apikey",
    "accesskey",
    "certificatedata",
];
/// Minimum length of base64 that is examined, in characters: an Ed25519 key has 64.
const SHORTEST: usize = 40;

/// Cuts credentials from every text of a document.
pub(super) fn scrub(value: &mut Value) {
    match value {
        Value::String(text) => {
            let clean = clean(text);
            if clean != *text {
                *text = clean;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(scrub),
        Value::Object(object) => {
            // An environment variable of a container has its name next to its value.
            let variable = object.get("name").and_then(Value::as_str).is_some_and(is_secret);
            let text = |name| object.get(name).and_then(Value::as_str).unwrap_or_default();
            let opaque = may_hide_secret(text("proto_spec"), text("yaml_spec"));
            for (name, value) in object {
                if opaque && name == "proto_spec" {
                    *value = CUT.into();
                }
                match value {
                    Value::String(text) if !text.is_empty() && (is_secret(name) || (variable && name == "value")) => {
                        CUT.clone_into(text);
                    }
                    value => scrub(value),
                }
            }
        }
        _ => {}
    }
}

/// Returns whether the protobuf form of a resource may contain a credential. Names exist only in its YAML, so the YAML decides, and a
/// resource without YAML is not trusted. Texts are the same in both forms.
fn may_hide_secret(proto: &str, yaml: &str) -> bool {
    let is_clean = |text: &str| clean(text) == text;
    let readable = || STANDARD.decode(proto).is_ok_and(|bytes| is_clean(&String::from_utf8_lossy(&bytes)));
    !proto.is_empty() && (yaml.is_empty() || !is_clean(yaml) || !readable())
}

fn is_secret(name: &str) -> bool {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    NAMES.iter().any(|secret| name.ends_with(secret))
}

fn clean(text: &str) -> String {
    words(&assignments(&pem(text)))
}

/// Cuts from `-----BEGIN X-----` to the end of `-----END X-----`, or to the end of the text.
fn pem(text: &str) -> String {
    const BEGIN: &str = "-----BEGIN ";
    const END: &str = "-----END ";
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, block)) = rest.split_once(BEGIN) {
        out.push_str(before);
        out.push_str("(cut: PEM)");
        let after = block.split_once(END).and_then(|(_, end)| end.split_once("-----"));
        rest = after.map_or("", |(_, rest)| rest);
    }
    out + rest
}

/// Cuts the values in `token: abc`, `"password": "abc"`, `--bootstrap-token=abc` in a text that may be YAML, JSON or a command line.
fn assignments(text: &str) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let mut rest = line;
        while let Some(at) = rest.find([':', '=']) {
            let (name, after) = (&rest[..at], &rest[at + 1..]);
            out.push_str(&rest[..=at]);
            rest = after;
            let name = name.trim_end_matches(['"', '\'', '\\', ' ']);
            let name = name.rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')).next();
            if !name.is_some_and(is_secret) {
                continue;
            }
            let value = after.trim_start_matches([' ', '"', '\'', '\\']);
            let quoted = value.len() < after.trim_start_matches(' ').len();
            // A structure is not a value; its entries have their own names. The end of a line, or of a list, is not a value either.
            if value.trim().is_empty() || value.starts_with(['{', '[', ',', '}', ']']) {
                continue;
            }
            out.push_str(&after[..after.len() - value.len()]);
            out.push_str(CUT);
            // In prose, YAML or a command line, a value extends to the end of the line, since a password may contain blanks.
            let ends: &[char] = if quoted { &['"', '\'', '\\', '\n'] } else { &['"', '\n'] };
            rest = value.trim_start_matches(|c| !ends.contains(&c));
            // The lines of a YAML block cannot be told apart from the text after it.
            if !quoted && value.starts_with(['|', '>']) {
                return out;
            }
        }
        out.push_str(rest);
    }
    out
}

/// Cuts tokens and keys anywhere in a text.
fn words(text: &str) -> String {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | '-' | '_' | '.');
    let mut out = String::new();
    let mut rest = text;
    let mut scheme = false;
    while let Some(begin) = rest.find(part) {
        out.push_str(&rest[..begin]);
        let word = &rest[begin..];
        let word = &word[..word.find(|c| !part(c)).unwrap_or(word.len())];
        rest = &rest[begin + word.len()..];
        if (scheme && word.len() >= 16) || is_credential(word) {
            out.push_str(CUT);
        } else {
            out.push_str(word);
        }
        scheme = matches!(word.to_ascii_lowercase().as_str(), "bearer" | "basic");
    }
    out + rest
}

fn is_credential(word: &str) -> bool {
    // Takes the part after `=` as in `--token=eyJ…`, but not the padding at the end.
    let value = word.trim_end_matches('=');
    let value = value.rsplit('=').next().unwrap_or(value);
    // JSON in base64: a token, its header or its claims. Then PEM in base64, as in a kubeconfig.
    let encoded = value.starts_with("eyJ") || value.starts_with("LS0tLS1CRUdJTi");
    (encoded && value.len() >= 16) || is_key(value) || is_bootstrap_token(value)
}

/// Returns whether a word is an ASN.1 sequence that begins with a small number, which is the version of a private key: PKCS #1, PKCS #8,
/// SEC 1.
fn is_key(word: &str) -> bool {
    let Some(head) = word.as_bytes().get(..12).filter(|_| word.len() >= SHORTEST) else { return false };
    let Ok(der) = STANDARD_NO_PAD.decode(head) else { return false };
    let content = match der.as_slice() {
        [0x30, 0x81, _, content @ ..] | [0x30, 0x82, _, _, content @ ..] => content,
        [0x30, length, content @ ..] if *length < 0x80 => content,
        _ => return false,
    };
    matches!(content, [0x02, 0x01, 0x00..=0x03, ..])
}

/// Returns whether a word is a bootstrap token of Kubernetes or Talos: `abcdef.0123456789abcdef`.
fn is_bootstrap_token(word: &str) -> bool {
    let base36 = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase());
    word.split_once('.').is_some_and(|(id, secret)| id.len() == 6 && secret.len() == 16 && base36(id) && base36(secret))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pem_goes_whole_or_to_the_end() {
        let pair = rcgen::generate_simple_self_signed(["cp-1".to_owned()]).unwrap();
        let (certificate, key) = (pair.cert.pem(), pair.signing_key.serialize_pem());
        let line = if key.ends_with("\r\n") { "\r\n" } else { "\n" };
        assert_eq!(clean(&format!("a {certificate}{key} b")), format!("a (cut: PEM){line}(cut: PEM){line} b"));
        let half = &key[..key.len() / 2];
        assert_eq!(clean(&format!("a {half}")), "a (cut: PEM)");
        assert_eq!(clean(&key.replace('\n', "\\n")), "(cut: PEM)\\n");
        for encoded in [STANDARD.encode(&key), STANDARD.encode(&certificate)] {
            assert_eq!(clean(&format!("x: {encoded}\ny: 1")), "x: (cut)\ny: 1");
        }
    }

    #[test]
    fn keys_without_their_pem_are_seen() {
        for algorithm in [&rcgen::PKCS_ED25519, &rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384] {
            let pair = rcgen::KeyPair::generate_for(algorithm).unwrap();
            assert_eq!(clean(&STANDARD.encode(pair.serialize_der())), CUT);
            // A public key is not a private one.
            let public = STANDARD.encode(rcgen::PublicKeyData::subject_public_key_info(&pair));
            assert_eq!(clean(&public), public);
        }
        // RSA as PKCS #1 and as PKCS #8.
        assert!(is_key("MIIEowIBAAKCAQEAwz6Rr8bqzQvQ3oZ0Jx1mJ1b4k3H7"));
        assert!(is_key("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEA"));
    }

    #[test]
    fn names_of_credentials_take_their_values_with_them() {
        let mut document = json!({
            "client-key-data": "abc", "clientKeyData": "abc", "token": "t", "AWS_SECRET": "s", "empty": "",
            "users": [{ "user": { "password": "p" } }],
            "env": [{ "name": "DB_PASSWORD", "value": "p" }, { "name": "MODE", "value": "fast" }],
            "projected": { "serviceAccountToken": { "path": "token", "expirationSeconds": 3607 } },
            "automountServiceAccountToken": true, "secret": { "secretName": "certs" }, "key": "ca.crt",
        });
        scrub(&mut document);
        let expected = json!({
            "client-key-data": CUT, "clientKeyData": CUT, "token": CUT, "AWS_SECRET": CUT, "empty": "",
            "users": [{ "user": { "password": CUT } }],
            "env": [{ "name": "DB_PASSWORD", "value": CUT }, { "name": "MODE", "value": "fast" }],
            "projected": { "serviceAccountToken": { "path": "token", "expirationSeconds": 3607 } },
            "automountServiceAccountToken": true, "secret": { "secretName": "certs" }, "key": "ca.crt",
        });
        assert_eq!(document, expected);
    }

    #[test]
    fn a_resource_keeps_its_protobuf_form_only_if_nothing_was_cut() {
        let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
        for (yaml, proto, kept) in [
            ("kind: worker\n", "worker", true),
            ("kind: worker\n", "", true),
            ("", "", true),
            ("token: abc\n", "abc", false),
            ("kind: worker\n", key.as_str(), false),
            ("kind: worker\n", "\u{1}\u{18}abcdef.0123456789abcdef\u{2}", false),
            ("", "worker", false),
        ] {
            let proto = STANDARD.encode(proto);
            let mut document = json!({ "resource": { "spec": { "proto_spec": proto, "yaml_spec": yaml } } });
            scrub(&mut document);
            let expected = if kept { proto.as_str() } else { CUT };
            assert_eq!(document["resource"]["spec"]["proto_spec"], expected, "{yaml:?}");
        }
        for mut unreadable in [
            json!({ "proto_spec": "not base64", "yaml_spec": "kind: worker\n" }),
            json!({ "proto_spec": STANDARD.encode("worker"), "yaml_spec": null }),
            json!({ "proto_spec": STANDARD.encode("worker") }),
        ] {
            scrub(&mut unreadable);
            assert_eq!(unreadable["proto_spec"], CUT);
        }
    }

    #[test]
    fn names_are_found_in_yaml_json_and_command_lines() {
        for (text, expected) in [
            ("user:\n  token: abc def\n  name: x\n", "user:\n  token: (cut)\n  name: x\n"),
            ("client-key-data: abc\n", "client-key-data: (cut)\n"),
            (r#"{"token":"abc","name":"x"}"#, r#"{"token":"(cut)","name":"x"}"#),
            (r#"{\"password\": \"abc\",\"name\":1}"#, r#"{\"password\": \"(cut)\",\"name\":1}"#),
            ("- --bootstrap-token=abc\n- --v=2\n", "- --bootstrap-token=(cut)\n- --v=2\n"),
            ("password: |\n  a\n  b\n", "password: (cut)"),
            ("secret:\n  secretName: x\n", "secret:\n  secretName: x\n"),
            (r#"{"secret":{"secretName":"x"}}"#, r#"{"secret":{"secretName":"x"}}"#),
        ] {
            assert_eq!(clean(text), expected);
        }
    }

    #[test]
    fn tokens_are_found_wherever_they_stand() {
        let jwt = "eyJhbGciOiJSUzI1NiIsImtpZCI6IiJ9.eyJpc3MiOiJrdWJlIn0.c2ln-bmF0_dXJl";
        assert_eq!(clean(&format!("refused {jwt}, sorry")), "refused (cut), sorry");
        assert_eq!(clean("Authorization: Bearer 0123456789abcdef"), "Authorization: (cut)");
        assert_eq!(clean("sent Bearer 0123456789abcdef0"), "sent Bearer (cut)");
        assert_eq!(clean("sent Basic dXNlcjpwYXNzd29yZA=="), "sent Basic (cut)");
        assert_eq!(clean("a basic failure, a bearer of news"), "a basic failure, a bearer of news");
        assert_eq!(clean("with abcdef.0123456789abcdef"), "with (cut)");
    }

    #[test]
    fn ordinary_texts_stay_as_they_are() {
        for text in [
            "",
            "nodename: cp-1\nskipNodeRegistration: false\n",
            "rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while dialing\"",
            "sha256:0b8a1d2f3c4e5a6b7c8d9e0f11223344556677889900aabbccddeeff00112233",
            "[+]ping ok\n[+]poststarthook/start-service-ip-repair-controllers ok\nreadyz check passed\n",
            "/var/run/secrets/kubernetes.io/serviceaccount",
            "- --tls-private-key-file=/system/secrets/apiserver.key\n- --token-auth-file=/x\n",
            "ümläut: ß\n",
        ] {
            assert_eq!(clean(text), text);
        }
    }
}
