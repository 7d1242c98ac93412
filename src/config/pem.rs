//! PEM as Talos, Kubernetes and people write it.
//!
//! The usual parsers skip labels that they do not know, and Talos labels its keys `ED25519 PRIVATE KEY`; so a key
//! "is missing". Problems are told without a byte of what was read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};

/// A chain or a CA bundle longer than this is no such thing.
const MOST_BLOCKS: usize = 1000;

struct Block {
    label: Label,
    der: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Certificate,
    /// Also Talos's `ED25519 PRIVATE KEY`: the body is the same.
    Pkcs8,
    Sec1,
    Pkcs1,
    Encrypted,
    Other,
}

impl Label {
    fn of(text: &str) -> Self {
        match text {
            "CERTIFICATE" | "X509 CERTIFICATE" | "TRUSTED CERTIFICATE" => Self::Certificate,
            "PRIVATE KEY" | "ED25519 PRIVATE KEY" => Self::Pkcs8,
            "EC PRIVATE KEY" => Self::Sec1,
            "RSA PRIVATE KEY" => Self::Pkcs1,
            "ENCRYPTED PRIVATE KEY" => Self::Encrypted,
            _ => Self::Other,
        }
    }
}

/// All certificates of a text, at least one.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let blocks = blocks(pem)?;
    let found: Vec<_> =
        blocks.iter().filter(|block| block.label == Label::Certificate).map(|block| block.der.clone().into()).collect();
    if found.is_empty() {
        return Err(match blocks.first() {
            None => "holds no PEM block".to_owned(),
            Some(block) if block.label == Label::Other => "holds no PEM certificate".to_owned(),
            Some(_) => "holds a private key, and no certificate".to_owned(),
        });
    }
    Ok(found)
}

/// The one private key of a text.
pub(crate) fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let blocks = blocks(pem)?;
    let mut keys = blocks.iter().filter_map(|block| {
        let der = || block.der.clone();
        match block.label {
            Label::Pkcs8 => Some(Ok(PrivatePkcs8KeyDer::from(der()).into())),
            Label::Sec1 => Some(Ok(PrivateSec1KeyDer::from(der()).into())),
            Label::Pkcs1 => Some(Ok(PrivatePkcs1KeyDer::from(der()).into())),
            Label::Encrypted => Some(Err("is encrypted with a passphrase, which nobody can be asked for".to_owned())),
            Label::Certificate | Label::Other => None,
        }
    });
    match (keys.next(), keys.next()) {
        (Some(key), None) => key,
        (Some(_), Some(_)) => Err("holds more than one private key".to_owned()),
        (None, _) if blocks.iter().any(|block| block.label == Label::Certificate) => {
            Err("holds a certificate, and no private key".to_owned())
        }
        (None, _) if blocks.is_empty() => Err("holds no PEM block".to_owned()),
        (None, _) => Err("holds no private key of a known kind".to_owned()),
    }
}

/// Certificates as PEM with the labels that everybody knows.
pub(crate) fn encode_certificates(certificates: &[CertificateDer<'_>]) -> String {
    certificates.iter().map(|certificate| encode("CERTIFICATE", certificate)).collect()
}

/// A key as PEM with the label that everybody knows.
pub(crate) fn encode_key(key: &PrivateKeyDer<'_>) -> String {
    let label = match key {
        PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
        PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
        _ => "PRIVATE KEY",
    };
    encode(label, key.secret_der())
}

fn encode(label: &str, der: &[u8]) -> String {
    let body = STANDARD.encode(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    for start in (0..body.len()).step_by(64) {
        text.push_str(&body[start..body.len().min(start + 64)]);
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

fn blocks(pem: &[u8]) -> Result<Vec<Block>, String> {
    let text = std::str::from_utf8(pem).map_err(|_| "is not PEM but binary (DER?)".to_owned())?;
    let mut blocks = Vec::new();
    let mut lines = text.lines().map(str::trim);
    // Text between blocks (names of CAs, openssl's dumps) is usual.
    while let Some(line) = lines.next() {
        let Some(label) = line.strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----")) else {
            continue;
        };
        let number = blocks.len() + 1;
        if number > MOST_BLOCKS {
            return Err(format!("holds more than {MOST_BLOCKS} PEM blocks"));
        }
        let mut kind = Label::of(label);
        let mut body = String::new();
        loop {
            let Some(line) = lines.next() else { return Err(format!("PEM block {number} has no end")) };
            if let Some(end) = line.strip_prefix("-----END ") {
                if end.strip_suffix("-----") != Some(label) {
                    return Err(format!("PEM block {number} ends with another label than it begins with"));
                }
                break;
            }
            if line.starts_with("-----") {
                return Err(format!("PEM block {number} has no end"));
            }
            if line.starts_with("Proc-Type:") && line.contains("ENCRYPTED") {
                kind = Label::Encrypted;
            }
            // RFC 1421 headers.
            if !line.contains(':') {
                body.extend(line.chars().filter(|c| !c.is_whitespace()));
            }
        }
        if matches!(kind, Label::Encrypted | Label::Other) {
            // Never used, so never wrong: EC parameters, CRLs.
            blocks.push(Block { label: kind, der: Vec::new() });
            continue;
        }
        let der = STANDARD.decode(body).map_err(|_| format!("PEM block {number} is not valid base64"))?;
        blocks.push(Block { label: kind, der });
    }
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing::Pair;

    #[test]
    fn reads_bundles_with_text_between_and_any_line_ends() {
        let (a, b) = (Pair::talos("a"), Pair::talos("b"));
        let bundle = format!("# first\r\n{}\n\nsubject=x\n{}", a.certificate.replace('\n', "\r\n"), b.certificate);
        assert_eq!(certificates(bundle.as_bytes()).unwrap().len(), 2);
        let indented = a.certificate.replace('\n', "\n    ");
        assert_eq!(certificates(indented.as_bytes()).unwrap().len(), 1);
        let parameters =
            format!("-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n{}", a.key);
        assert!(private_key(parameters.as_bytes()).is_ok());
    }

    #[test]
    fn talos_labels_are_relabelled() {
        let pair = Pair::talos("a");
        assert!(pair.key.contains("BEGIN ED25519 PRIVATE KEY"));
        let key = private_key(pair.key.as_bytes()).unwrap();
        assert!(encode_key(&key).starts_with("-----BEGIN PRIVATE KEY-----\n"));
        assert_eq!(private_key(encode_key(&key).as_bytes()).unwrap(), key);
        let certificates = certificates(pair.certificate.as_bytes()).unwrap();
        assert_eq!(encode_certificates(&certificates).trim(), pair.certificate.replace('\r', "").trim());
    }

    #[test]
    fn says_what_is_wrong() {
        let pair = Pair::talos("a");
        let of_certificate = |text: &str| certificates(text.as_bytes()).unwrap_err();
        let of_key = |text: &str| private_key(text.as_bytes()).unwrap_err();
        assert_eq!(of_certificate(""), "holds no PEM block");
        assert_eq!(of_certificate("hello"), "holds no PEM block");
        assert_eq!(of_certificate(&pair.key), "holds a private key, and no certificate");
        assert_eq!(of_key(&pair.certificate), "holds a certificate, and no private key");
        assert_eq!(of_key(&pair.key.repeat(2)), "holds more than one private key");
        assert_eq!(
            of_certificate(&pair.certificate.replace("-----END CERTIFICATE-----", "")),
            "PEM block 1 has no end"
        );
        assert_eq!(
            of_certificate(&pair.certificate.replace("-----END CERT", "-----END XERT")),
            "PEM block 1 ends with another label than it begins with"
        );
        assert_eq!(
            of_certificate("-----BEGIN CERTIFICATE-----\n***\n-----END CERTIFICATE-----\n"),
            "PEM block 1 is not valid base64"
        );
        assert!(
            of_key("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----")
                .contains("encrypted")
        );
        assert!(of_key("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: x\n\nAAAA\n-----END RSA PRIVATE KEY-----").contains("encrypted"));
        assert_eq!(certificates(&[0x30, 0x82, 0xff]).unwrap_err(), "is not PEM but binary (DER?)");
        assert!(of_certificate(&"-----BEGIN X-----\n-----END X-----\n".repeat(2000)).contains("more than 1000"));
    }
}
