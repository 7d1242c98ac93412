//! PEM as Talos, Kubernetes and people write it.
//!
//! rustls skips labels that it does not know, and Talos labels its keys `ED25519 PRIVATE KEY`; so a key "is missing".
//! Problems are told without a byte of what was read.

use pem::{EncodeConfig, LineEnding, Pem, PemError};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use zeroize::Zeroizing;

/// A chain or a CA bundle longer than this is no such thing.
const MOST_BLOCKS: usize = 1000;

/// The header of a key that is encrypted without its label saying so.
const ENCRYPTED: &str = "Proc-Type: 4,ENCRYPTED";

/// All certificates of a text, at least one.
pub(crate) fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let blocks = blocks(text)?;
    let problem = match blocks.first() {
        None => "contains no PEM block",
        Some(block) if block.tag().ends_with("PRIVATE KEY") => "contains a private key but no certificate",
        Some(_) => "contains no PEM certificate",
    };
    let found: Vec<_> = blocks.into_iter().filter(is_certificate).map(|block| block.into_contents().into()).collect();
    if found.is_empty() { Err(problem.to_owned()) } else { Ok(found) }
}

fn is_certificate(block: &Pem) -> bool {
    matches!(block.tag(), "CERTIFICATE" | "X509 CERTIFICATE" | "TRUSTED CERTIFICATE")
}

/// The one private key of a text.
pub(crate) fn private_key(text: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let blocks = blocks(text)?;
    let problem = match blocks.first() {
        None => "contains no PEM block",
        Some(_) if blocks.iter().any(is_certificate) => "contains a certificate but no private key",
        Some(_) => "contains no private key of a known kind",
    };
    let mut keys = blocks.into_iter().filter_map(|block| {
        Some(Ok(match block.tag() {
            "ENCRYPTED PRIVATE KEY" => {
                return Some(Err("is encrypted with a passphrase, and no prompt is possible".to_owned()));
            }
            // Talos's own label: the body is the same.
            "PRIVATE KEY" | "ED25519 PRIVATE KEY" => PrivatePkcs8KeyDer::from(block.into_contents()).into(),
            "EC PRIVATE KEY" => PrivateSec1KeyDer::from(block.into_contents()).into(),
            "RSA PRIVATE KEY" => PrivatePkcs1KeyDer::from(block.into_contents()).into(),
            _ => return None,
        }))
    });
    match (keys.next(), keys.next()) {
        (Some(key), None) => key,
        (Some(_), Some(_)) => Err("contains more than one private key".to_owned()),
        (None, _) => Err(problem.to_owned()),
    }
}

/// Certificates as PEM with the labels that everybody knows.
pub(crate) fn encode_certificates(certificates: &[CertificateDer<'_>]) -> String {
    certificates.iter().map(|certificate| encode("CERTIFICATE", certificate)).collect()
}

/// A key as PEM with the label that everybody knows.
pub(crate) fn encode_key(key: &PrivateKeyDer<'_>) -> Zeroizing<String> {
    let label = match key {
        PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
        PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
        _ => "PRIVATE KEY",
    };
    Zeroizing::new(encode(label, key.secret_der()))
}

fn encode(label: &str, der: &[u8]) -> String {
    pem::encode_config(&Pem::new(label, der), EncodeConfig::new().set_line_ending(LineEnding::LF))
}

/// The blocks of a text: one by one, because `pem` passes over one without an end, and does not say which is wrong.
fn blocks(text: &[u8]) -> Result<Vec<Pem>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "is not PEM but binary (DER?)".to_owned())?;
    // As in Go: blank lines and headers are allowed anywhere, and a block begins and ends at the start of a line.
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.filter(|line| !line.contains(':') || line.starts_with(ENCRYPTED));
    let text: Zeroizing<String> = Zeroizing::new(lines.flat_map(|line| ["\n", line]).collect());
    let mut blocks = Vec::new();
    for (number, rest) in (1..).zip(text.split("\n-----BEGIN ").skip(1)) {
        let broken = |problem: &str| format!("PEM block {number} {problem}");
        if number > MOST_BLOCKS {
            return Err(format!("contains more than {MOST_BLOCKS} PEM blocks"));
        }
        if !rest.contains("\n-----END ") {
            return Err(broken("has no end marker"));
        }
        if rest.contains(ENCRYPTED) {
            blocks.push(Pem::new("ENCRYPTED PRIVATE KEY", []));
            continue;
        }
        // The errors hold what was read.
        blocks.push(pem::parse(&*Zeroizing::new(format!("-----BEGIN {rest}"))).map_err(|error| match error {
            PemError::MalformedFraming => broken("has no end marker"),
            PemError::MismatchedTags(..) => broken("has different labels at its beginning and end"),
            PemError::InvalidData(_) => broken("is not valid base64"),
            _ => broken("has no label"),
        })?);
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
        let bundle = format!("# -----BEGIN CERTIFICATE----- and so on\n{bundle}");
        assert_eq!(certificates(bundle.as_bytes()).unwrap().len(), 2);
        let spaced = a.certificate.replace('\n', "\n\n");
        assert_eq!(certificates(spaced.as_bytes()).unwrap(), certificates(a.certificate.as_bytes()).unwrap());
        let parameters =
            format!("-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n{}", a.key);
        assert!(private_key(parameters.as_bytes()).is_ok());
    }

    #[test]
    fn talos_labels_are_relabeled() {
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
        assert_eq!(of_certificate(""), "contains no PEM block");
        assert_eq!(of_certificate("hello"), "contains no PEM block");
        assert_eq!(of_certificate(&pair.key), "contains a private key but no certificate");
        assert_eq!(of_key(&pair.certificate), "contains a certificate but no private key");
        assert_eq!(of_key(&pair.key.repeat(2)), "contains more than one private key");
        assert_eq!(
            of_certificate(&pair.certificate.replace("-----END CERTIFICATE-----", "")),
            "PEM block 1 has no end marker"
        );
        assert_eq!(
            of_certificate(&pair.certificate.replace("-----END CERT", "-----END XERT")),
            "PEM block 1 has different labels at its beginning and end"
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
