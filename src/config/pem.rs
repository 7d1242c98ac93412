//! PEM in the forms that Talos, Kubernetes and people write.
//!
//! rustls skips labels that it does not recognize, and Talos labels its keys `ED25519 PRIVATE KEY`, so rustls would report a missing key.
//! Problems are described without a byte of the input.

use pem::{EncodeConfig, LineEnding, Pem, PemError};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use x509_parser::asn1_rs::{FromDer as _, Header, Integer, Sequence, Tag};
use zeroize::Zeroizing;

/// A text with more blocks than this is neither a chain nor a CA bundle.
const MOST_BLOCKS: usize = 1000;

/// The header of an encrypted key whose label does not show the encryption.
const ENCRYPTED: &str = "Proc-Type: 4,ENCRYPTED";

/// Returns all certificates of a text, at least one. As in Go, blocks that are broken or of another type are skipped. If no certificate is
/// left, the first problem is the error.
pub(crate) fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let blocks = blocks(text)?;
    let problem = match blocks.first() {
        None => "contains no PEM block".to_owned(),
        Some(Err(problem)) => problem.clone(),
        Some(Ok(block)) if block.tag().ends_with("PRIVATE KEY") => {
            "contains a private key but no certificate".to_owned()
        }
        Some(Ok(_)) => "contains no PEM certificate".to_owned(),
    };
    let found = blocks.into_iter().flatten().filter(is_certificate);
    let found: Vec<_> = found.map(|block| block.into_contents().into()).collect();
    if found.is_empty() { Err(problem) } else { Ok(found) }
}

/// Returns whether a block is a certificate. Like Go, it accepts no other label: `TRUSTED CERTIFICATE` contains more than a certificate.
fn is_certificate(block: &Pem) -> bool {
    block.tag() == "CERTIFICATE"
}

/// Returns the first private key of a text, since Go ignores all others. The label only marks it as a private key; the encoding is
/// detected.
pub(crate) fn private_key(text: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let blocks = blocks(text)?;
    let problem = match blocks.first() {
        None => "contains no PEM block".to_owned(),
        Some(Err(problem)) => problem.clone(),
        Some(Ok(_)) if blocks.iter().flatten().any(is_certificate) => {
            "contains a certificate but no private key".to_owned()
        }
        Some(Ok(_)) => "contains no private key of a known kind".to_owned(),
    };
    let is_key = |block: &Pem| block.tag() == "PRIVATE KEY" || block.tag().ends_with(" PRIVATE KEY");
    let Some(block) = blocks.into_iter().flatten().find(is_key) else { return Err(problem) };
    if block.tag() == "ENCRYPTED PRIVATE KEY" {
        return Err("is encrypted with a passphrase, and no prompt is possible".to_owned());
    }
    let der = block.into_contents();
    match encoding(&der) {
        Some(Encoding::Pkcs8) => Ok(PrivatePkcs8KeyDer::from(der).into()),
        Some(Encoding::Sec1) => Ok(PrivateSec1KeyDer::from(der).into()),
        Some(Encoding::Pkcs1) => Ok(PrivatePkcs1KeyDer::from(der).into()),
        None => Err("contains a private key that is not readable".to_owned()),
    }
}

#[derive(Clone, Copy)]
enum Encoding {
    Pkcs8,
    Sec1,
    Pkcs1,
}

/// Detects the encoding of a private key by the element after its version: an algorithm, a curve's key, or an RSA modulus.
fn encoding(der: &[u8]) -> Option<Encoding> {
    let (_, key) = Sequence::from_der(der).ok()?;
    let (rest, _) = Integer::from_der(&key.content).ok()?;
    match Header::from_der(rest).ok()?.1.tag() {
        Tag::Sequence => Some(Encoding::Pkcs8),
        Tag::OctetString => Some(Encoding::Sec1),
        Tag::Integer => Some(Encoding::Pkcs1),
        _ => None,
    }
}

/// Encodes certificates as PEM with the standard label.
pub(crate) fn encode_certificates(certificates: &[CertificateDer<'_>]) -> String {
    certificates.iter().map(|certificate| encode("CERTIFICATE", certificate)).collect()
}

/// Encodes a key as PEM with the standard label.
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

/// Returns the blocks of a text, and the problem of each broken one.
fn blocks(text: &[u8]) -> Result<Vec<Result<Pem, String>>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "is not PEM but binary (DER?)".to_owned())?;
    // Like Go, this allows blank lines and headers anywhere. A block begins and ends at the start of a line.
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines = lines.filter(|line| !line.contains(':') || line.starts_with(ENCRYPTED));
    let text: Zeroizing<String> = Zeroizing::new(lines.flat_map(|line| ["\n", line]).collect());
    let mut blocks = Vec::new();
    for (number, rest) in (1..).zip(text.split("\n-----BEGIN ").skip(1)) {
        let broken = |problem: &str| format!("PEM block {number} {problem}");
        if number > MOST_BLOCKS {
            return Err(format!("contains more than {MOST_BLOCKS} PEM blocks"));
        }
        blocks.push(if !rest.contains("\n-----END ") {
            Err(broken("has no end marker"))
        } else if rest.contains(ENCRYPTED) {
            Ok(Pem::new("ENCRYPTED PRIVATE KEY", []))
        } else {
            // The parser's errors contain the input.
            pem::parse(&*Zeroizing::new(format!("-----BEGIN {rest}"))).map_err(|error| match error {
                PemError::MalformedFraming => broken("has no end marker"),
                PemError::MismatchedTags(..) => broken("has different labels at its beginning and end"),
                PemError::InvalidData(_) => broken("is not valid base64"),
                _ => broken("has no label"),
            })
        });
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
    fn broken_blocks_and_further_keys_are_passed_over() {
        let (a, b) = (Pair::talos("a"), Pair::talos("b"));
        let no_base64 = "-----BEGIN CERTIFICATE-----\n***\n-----END CERTIFICATE-----\n";
        let cut = "-----BEGIN CERTIFICATE-----\nMIIB\n";
        for broken in [no_base64, cut, a.key.as_str(), "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"] {
            for bundle in [format!("{broken}{}", a.certificate), format!("{}{broken}", a.certificate)] {
                assert_eq!(certificates(bundle.as_bytes()), certificates(a.certificate.as_bytes()), "{bundle}");
            }
        }
        let two = format!("{}{}", a.key, b.key);
        assert_eq!(private_key(two.as_bytes()), private_key(a.key.as_bytes()));
        let trusted = a.certificate.replace("CERTIFICATE", "TRUSTED CERTIFICATE");
        assert_eq!(certificates(trusted.as_bytes()).unwrap_err(), "contains no PEM certificate");
    }

    #[test]
    fn the_label_of_a_key_does_not_decide_its_encoding() {
        let pair = Pair::new(&rcgen::PKCS_ECDSA_P256_SHA256, &[], None);
        for (key, is_sec1) in [(pair.key.clone(), false), (pair.sec1(), true)] {
            let label = key.lines().next().unwrap().trim_matches('-').trim_start_matches("BEGIN ").to_owned();
            for other in ["PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY", "ANY PRIVATE KEY"] {
                let relabeled = key.replace(&format!(" {label}-"), &format!(" {other}-"));
                let read = private_key(relabeled.as_bytes()).unwrap();
                assert_eq!(matches!(read, PrivateKeyDer::Sec1(_)), is_sec1, "{label} as {other}");
            }
            assert!(private_key(key.replace(&label, "KEY").as_bytes()).is_err());
        }
        // Version and modulus, the beginning of RSA's own encoding.
        let rsa = crate::config::testing::label("PRIVATE KEY", &[0x30, 0x06, 0x02, 0x01, 0x00, 0x02, 0x01, 0x23]);
        assert!(matches!(private_key(rsa.as_bytes()), Ok(PrivateKeyDer::Pkcs1(_))));
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
