//! Reads client certificates: their facts, their keys, and the identity built from both.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use jiff::Timestamp;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{InconsistentKeys, RootCertStore};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};
use zeroize::{Zeroize as _, Zeroizing};

use super::yaml::Value;
use super::{ConfigError, crypto, pem};
use crate::snapshot::{Certificate, Validity};
use crate::text::clock;

/// The server that verifies the certificate. Talos and Kubernetes differ in how they treat a missing extended key usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Requires clientAuth.
    Talos,
    /// Accepts a certificate without an extended key usage, or with `any`, for every purpose (Go's `x509.Verify`).
    Kubernetes,
}

/// A client certificate with its chain and key, ready for rustls.
pub(crate) struct Identity {
    /// The certificate chain, leaf first.
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) facts: Certificate,
}

impl Identity {
    /// Returns the chain as PEM with standard labels, for clients that want text.
    pub(crate) fn chain_pem(&self) -> String {
        pem::encode_certificates(&self.chain)
    }

    /// Returns the key as PEM, like [`Self::chain_pem`]. Secret.
    pub(crate) fn key_pem(&self) -> Zeroizing<String> {
        pem::encode_key(&self.key)
    }

    /// Returns the identity for rustls. rustls would parse the certificate only to compare its key, and it rejects X.509 version 1, which
    /// `MicroK8s` issues, so the keys are compared here.
    pub(crate) fn resolver(&self) -> Result<Arc<dyn ResolvesClientCert>, rustls::Error> {
        let facts = self.chain.first().map(|leaf| facts(leaf, Some(&self.key), Peer::Kubernetes));
        if !facts.is_some_and(|facts| facts.is_ok_and(|facts| facts.matches_key)) {
            return Err(InconsistentKeys::KeyMismatch.into());
        }
        let key = crypto::provider().key_provider.load_private_key(self.key.clone_key())?;
        Ok(Arc::new(SingleCertAndKey::from(CertifiedKey::new(self.chain.clone(), key))))
    }
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self { chain: self.chain.clone(), key: self.key.clone_key(), facts: self.facts.clone() }
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("facts", &self.facts).finish_non_exhaustive()
    }
}

/// The half of the pair that is at fault, and the problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Certificate(String),
    Key(String),
}

/// The bytes of a certificate or a key, and the value that they come from.
pub(super) type Half<'a> = Option<(Value<'a>, Zeroizing<Vec<u8>>)>;

/// Reads a client certificate and its key, which have to be both present or both absent. `names` are used to report the missing half.
pub(super) fn pair(
    certificate: Half<'_>,
    key: Half<'_>,
    names: [&str; 2],
    peer: Peer,
) -> Result<Option<Identity>, ConfigError> {
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some((there, _)), None) => Err(there.error(format_args!("is set, but `{}` is missing", names[1]))),
        (None, Some((there, _))) => Err(there.error(format_args!("is set, but `{}` is missing", names[0]))),
        (Some((of_chain, chain)), Some((of_key, key))) => {
            identity(&chain, &key, peer).map(Some).map_err(|fault| match fault {
                Fault::Certificate(problem) => of_chain.error(problem),
                Fault::Key(problem) => of_key.error(problem),
            })
        }
    }
}

/// Reads a client certificate and its key. A key that belongs to another certificate is recorded as a fact, not returned as an error.
pub(crate) fn identity(certificate_pem: &[u8], key_pem: &[u8], peer: Peer) -> Result<Identity, Fault> {
    let chain = pem::certificates(certificate_pem).map_err(Fault::Certificate)?;
    let key = pem::private_key(key_pem).map_err(Fault::Key)?;
    let facts = facts(&chain[0], Some(&key), peer)?;
    Ok(Identity { chain, key, facts })
}

/// Reads the facts of a leaf certificate. Without a key, `matches_key` is false because nothing has proved it.
pub(crate) fn facts(
    leaf: &CertificateDer<'_>,
    key: Option<&PrivateKeyDer<'static>>,
    peer: Peer,
) -> Result<Certificate, Fault> {
    let unreadable = || Fault::Certificate("is not a readable X.509 certificate".to_owned());
    let (rest, parsed) = X509Certificate::from_der(leaf).map_err(|_| unreadable())?;
    if !rest.is_empty() {
        return Err(unreadable());
    }
    let client_auth = match parsed.extended_key_usage().map_err(|_| unreadable())? {
        Some(usage) => usage.value.client_auth || peer == Peer::Kubernetes && usage.value.any,
        None => peer == Peer::Kubernetes,
    };
    let matches_key = match key {
        Some(key) => public_key(key).map_err(Fault::Key)? == parsed.public_key().raw,
        None => false,
    };
    Ok(Certificate {
        not_before: timestamp(parsed.validity().not_before.timestamp()),
        not_after: timestamp(parsed.validity().not_after.timestamp()),
        client_auth,
        matches_key,
        organizations: parsed
            .subject()
            .iter_organization()
            .filter_map(|attribute| attribute.as_str().ok().map(str::to_owned))
            .collect(),
    })
}

/// Returns the validity period of a certificate (DER), if the certificate can be read.
pub(crate) fn validity(leaf: &[u8]) -> Option<Validity> {
    let (_, parsed) = X509Certificate::from_der(leaf).ok()?;
    let validity = parsed.validity();
    Some(Validity {
        not_before: timestamp(validity.not_before.timestamp()),
        not_after: timestamp(validity.not_after.timestamp()),
    })
}

/// Returns whether a CA (DER) is within its validity period. Go requires this even of trusted CAs; webpki does not.
pub(crate) fn is_current(ca: &[u8]) -> bool {
    let now = clock::now();
    validity(ca).is_none_or(|valid| valid.not_before <= now && now < valid.not_after)
}

/// Returns the validity of the CA that stays valid longest. During a rotation, the bundle (DER) may contain a CA that is not valid yet; it
/// counts only if no other does.
pub(crate) fn longest<'a>(bundle: impl IntoIterator<Item = &'a [u8]>) -> Option<Validity> {
    let now = clock::now();
    bundle.into_iter().filter_map(validity).max_by_key(|valid| (valid.not_before <= now, valid.not_after))
}

/// Returns the common name, DNS names and addresses of a certificate (DER).
pub(crate) fn names(leaf: &[u8]) -> Vec<String> {
    let Ok((_, parsed)) = X509Certificate::from_der(leaf) else { return Vec::new() };
    let common = parsed.subject().iter_common_name().filter_map(|name| name.as_str().ok().map(str::to_owned));
    let alternative = parsed.subject_alternative_name().ok().flatten();
    let alternative = alternative.iter().flat_map(|names| &names.value.general_names).filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match **bytes {
            [a, b, c, d] => Some(Ipv4Addr::new(a, b, c, d).to_string()),
            _ => <[u8; 16]>::try_from(*bytes).ok().map(|bytes| Ipv6Addr::from(bytes).to_string()),
        },
        _ => None,
    });
    common.chain(alternative).collect()
}

/// Returns the SHA-256 digest of a certificate (DER), in hexadecimal.
pub(crate) fn digest(der: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, der);
    digest.as_ref().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns whether a certificate (DER) belongs to a kubelet. The signer requires this organization and this common name, and no other
/// certificate of a cluster may have them. An unreadable certificate could be anyone's, so it counts as a kubelet's.
pub(crate) fn is_of_kubelet(leaf: &[u8]) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(leaf) else { return true };
    // Wide string encodings have zeros between the letters; dropping them makes the comparison independent of the encoding.
    let text = |raw: &[u8]| -> Vec<u8> { raw.iter().copied().filter(|byte| *byte != 0).collect() };
    let subject = parsed.subject();
    subject.iter_organization().any(|attribute| text(attribute.as_slice()) == b"system:nodes")
        || subject.iter_common_name().any(|attribute| text(attribute.as_slice()).starts_with(b"system:node:"))
}

/// Returns the certificates of a CA bundle that rustls can trust, at least one. The others are skipped, as in Go.
pub(crate) fn roots(bundle_pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut certificates = pem::certificates(bundle_pem)?;
    certificates.retain(|certificate| RootCertStore::empty().add(certificate.clone()).is_ok());
    if certificates.is_empty() { Err("contains no readable X.509 certificate".to_owned()) } else { Ok(certificates) }
}

/// Returns the `SubjectPublicKeyInfo` (DER) that belongs to a private key.
fn public_key(key: &PrivateKeyDer<'static>) -> Result<Vec<u8>, String> {
    let signer = crypto::provider().key_provider.load_private_key(key.clone_key()).map_err(|_| {
        "is not a supported private key (Ed25519, P-256, P-384, P-521, and RSA with 2048 to 8192 bits are)".to_owned()
    })?;
    signer.public_key().map(|spki| spki.as_ref().to_vec()).ok_or_else(|| "does not contain its public key".to_owned())
}

/// Converts Unix seconds. Certificates that never expire end in the last second of the year 9999, which is later than jiff's maximum.
fn timestamp(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing::{Pair, label};

    fn read(pair: &Pair, peer: Peer) -> Certificate {
        identity(pair.certificate.as_bytes(), pair.key.as_bytes(), peer).unwrap().facts.clone()
    }

    #[test]
    fn reads_what_a_talos_certificate_says() {
        let facts = read(&Pair::talos("os:reader"), Peer::Talos);
        assert_eq!(facts.organizations, ["os:reader"]);
        assert!(facts.client_auth && facts.matches_key);
        assert_eq!(facts.not_before.to_string(), "2020-01-01T00:00:00Z");
        assert_eq!(facts.not_after.to_string(), "2040-01-01T00:00:00Z");
    }

    #[test]
    fn keys_of_every_kind_are_compared() {
        for (algorithm, sec1) in [
            (&rcgen::PKCS_ED25519, false),
            (&rcgen::PKCS_ECDSA_P256_SHA256, false),
            (&rcgen::PKCS_ECDSA_P384_SHA384, false),
            (&rcgen::PKCS_ECDSA_P256_SHA256, true),
        ] {
            let mut pair = Pair::new(algorithm, &["system:masters"], Some(rcgen::ExtendedKeyUsagePurpose::ClientAuth));
            if sec1 {
                pair.key = pair.sec1();
            }
            assert!(read(&pair, Peer::Kubernetes).matches_key);
            let other = Pair::new(algorithm, &[], None);
            let mixed = identity(pair.certificate.as_bytes(), other.key.as_bytes(), Peer::Talos).unwrap();
            assert!(!mixed.facts.matches_key);
        }
    }

    #[test]
    fn a_missing_key_usage_is_enough_for_kubernetes_alone() {
        let pair = Pair::new(&rcgen::PKCS_ED25519, &[], None);
        assert!(!read(&pair, Peer::Talos).client_auth);
        assert!(read(&pair, Peer::Kubernetes).client_auth);
        let server = Pair::new(&rcgen::PKCS_ED25519, &[], Some(rcgen::ExtendedKeyUsagePurpose::ServerAuth));
        assert!(!read(&server, Peer::Kubernetes).client_auth);
    }

    #[test]
    fn the_end_of_time_is_a_time() {
        assert_eq!(timestamp(253_402_300_799), Timestamp::MAX);
        assert_eq!(timestamp(0).to_string(), "1970-01-01T00:00:00Z");
    }

    #[test]
    fn faults_name_their_side() {
        let pair = Pair::talos("os:reader");
        let of =
            |certificate: &str, key: &str| identity(certificate.as_bytes(), key.as_bytes(), Peer::Talos).unwrap_err();
        assert!(matches!(of("", &pair.key), Fault::Certificate(_)));
        assert!(matches!(of(&pair.certificate, ""), Fault::Key(_)));
        let no_der = label("CERTIFICATE", b"not DER at all");
        assert_eq!(of(&no_der, &pair.key), Fault::Certificate("is not a readable X.509 certificate".to_owned()));
        assert!(matches!(of(&pair.certificate, &label("PRIVATE KEY", b"not DER at all")), Fault::Key(_)));
        assert_eq!(roots(no_der.as_bytes()).unwrap_err(), "contains no readable X.509 certificate");
        assert_eq!(roots(format!("{no_der}{}", pair.certificate).as_bytes()).unwrap().len(), 1);
    }

    #[test]
    fn debug_keeps_the_key() {
        let pair = Pair::talos("os:reader");
        let identity = identity(pair.certificate.as_bytes(), pair.key.as_bytes(), Peer::Talos).unwrap();
        let body = identity.key_pem();
        let body = body.lines().nth(1).unwrap();
        assert!(!format!("{identity:?} {identity:#?}").contains(&body[..20]));
        assert!(identity.key_pem().starts_with("-----BEGIN PRIVATE KEY"));
        assert!(identity.chain_pem().starts_with("-----BEGIN CERTIFICATE"));
    }
}
