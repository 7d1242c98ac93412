//! The TLS algorithms: those of ring, and the ones beyond ring that kubectl accepts.
//!
//! Go verifies certificates with P-521 keys, verifies ECDSA with SHA-512 on every curve, and logs in with P-521 keys. ring supports
//! neither, so these come from the crates of the curves. Nothing of ring's is replaced: the additions come last in each offer.

use std::fmt;
use std::sync::{Arc, LazyLock};

use p521::ecdsa::signature::hazmat::{PrehashSigner as _, PrehashVerifier as _};
use p521::pkcs8::DecodePrivateKey as _;
use ring::digest::{Algorithm, SHA256, SHA384, SHA512, digest};
use rustls::crypto::{CryptoProvider, KeyProvider, WebPkiSupportedAlgorithms, ring as base};
use rustls::pki_types::{
    AlgorithmIdentifier, InvalidSignature, PrivateKeyDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer,
    alg_id,
};
use rustls::sign::{Signer, SigningKey, public_key_to_spki};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};

/// Returns the provider that every connection of the program uses.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
        Arc::new(CryptoProvider {
            signature_verification_algorithms: verification(),
            key_provider: &Keys,
            ..base::default_provider()
        })
    });
    Arc::clone(&PROVIDER)
}

type Verification = &'static dyn SignatureVerificationAlgorithm;

/// Builds the verification tables once, for the life of the process: rustls needs them static, and ring's tables are not constants.
fn verification() -> WebPkiSupportedAlgorithms {
    let ring = base::default_provider().signature_verification_algorithms;
    let all = ring.all.iter().copied().chain(ADDED.iter().map(|it| it as Verification)).collect::<Vec<_>>();
    let of = |scheme| {
        let known = ring.mapping.iter().find(|(known, _)| *known == scheme).map_or(&[][..], |(_, known)| known);
        let added = ADDED.iter().filter(|added| added.scheme() == scheme).map(|it| it as Verification);
        (scheme, &*known.iter().copied().chain(added).collect::<Vec<_>>().leak())
    };
    let schemes = ring.mapping.iter().map(|(scheme, _)| *scheme).chain([SignatureScheme::ECDSA_NISTP521_SHA512]);
    let mapping = schemes.map(of).collect::<Vec<_>>();
    WebPkiSupportedAlgorithms { all: all.leak(), mapping: mapping.leak() }
}

#[derive(Clone, Copy, Debug)]
enum Curve {
    P256,
    P384,
    P521,
}

/// ECDSA verification with one hash on one curve.
#[derive(Debug)]
struct Ecdsa {
    curve: Curve,
    hash: &'static Algorithm,
}

/// The algorithms that ring lacks. Within a scheme, TLS 1.3 uses the first one; TLS 1.2 leaves the curve open.
static ADDED: [Ecdsa; 5] = [
    Ecdsa { curve: Curve::P521, hash: &SHA512 },
    Ecdsa { curve: Curve::P384, hash: &SHA512 },
    Ecdsa { curve: Curve::P256, hash: &SHA512 },
    Ecdsa { curve: Curve::P521, hash: &SHA384 },
    Ecdsa { curve: Curve::P521, hash: &SHA256 },
];

impl Ecdsa {
    /// Returns the TLS scheme. TLS names a curve with each hash, even where the actual curve differs.
    fn scheme(&self) -> SignatureScheme {
        match self.hash.output_len() {
            32 => SignatureScheme::ECDSA_NISTP256_SHA256,
            48 => SignatureScheme::ECDSA_NISTP384_SHA384,
            _ => SignatureScheme::ECDSA_NISTP521_SHA512,
        }
    }
}

impl SignatureVerificationAlgorithm for Ecdsa {
    fn verify_signature(&self, public_key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), InvalidSignature> {
        macro_rules! verified {
            ($curve:ident) => {{
                let key = $curve::ecdsa::VerifyingKey::from_sec1_bytes(public_key).map_err(|_| InvalidSignature)?;
                let signature = $curve::ecdsa::Signature::from_der(signature).map_err(|_| InvalidSignature)?;
                key.verify_prehash(digest(self.hash, message).as_ref(), &signature).map_err(|_| InvalidSignature)
            }};
        }
        match self.curve {
            Curve::P256 => verified!(p256),
            Curve::P384 => verified!(p384),
            Curve::P521 => verified!(p521),
        }
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        match self.curve {
            Curve::P256 => alg_id::ECDSA_P256,
            Curve::P384 => alg_id::ECDSA_P384,
            Curve::P521 => alg_id::ECDSA_P521,
        }
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        match self.hash.output_len() {
            32 => alg_id::ECDSA_SHA256,
            48 => alg_id::ECDSA_SHA384,
            _ => alg_id::ECDSA_SHA512,
        }
    }
}

/// Loads private keys: the types that ring can sign with, and P-521.
#[derive(Debug)]
struct Keys;

impl KeyProvider for Keys {
    fn load_private_key(&self, key: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, Error> {
        if let Some(key) = P521::read(&key) {
            return Ok(Arc::new(key));
        }
        base::default_provider().key_provider.load_private_key(key)
    }
}

#[derive(Clone)]
struct P521(p521::ecdsa::SigningKey);

impl P521 {
    fn read(key: &PrivateKeyDer<'_>) -> Option<Self> {
        let key = match key {
            PrivateKeyDer::Pkcs8(key) => p521::SecretKey::from_pkcs8_der(key.secret_pkcs8_der()).ok(),
            PrivateKeyDer::Sec1(key) => p521::SecretKey::from_sec1_der(key.secret_sec1_der()).ok(),
            _ => None,
        };
        key.map(|key| Self(key.into()))
    }
}

impl fmt::Debug for P521 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("P521").finish_non_exhaustive()
    }
}

impl SigningKey for P521 {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        offered.contains(&self.scheme()).then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        let point = self.0.verifying_key().to_sec1_point(false);
        Some(public_key_to_spki(&alg_id::ECDSA_P521, point.as_bytes()))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }
}

impl Signer for P521 {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let signature: Result<p521::ecdsa::Signature, _> = self.0.sign_prehash(digest(&SHA512, message).as_ref());
        let signature = signature.map_err(|_| Error::General("signing failed".to_owned()))?;
        Ok(signature.to_der().as_bytes().to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ECDSA_NISTP521_SHA512
    }
}

#[cfg(test)]
mod tests {
    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer, ServerName, UnixTime};

    use super::*;
    use crate::config::certificate::{self, Peer};
    use crate::config::testing::{Unsigned, label, tlv};

    /// The fill byte of a private key that is below the order of each curve.
    const SECRET: u8 = 0x42;

    /// A function from a hash to a signature in DER.
    type Sign = Box<dyn Fn(&[u8]) -> Vec<u8>>;

    /// A key on one curve: its `SubjectPublicKeyInfo` in DER, and its signing function.
    struct Key {
        public: Vec<u8>,
        sign: Sign,
    }

    impl Key {
        fn new(curve: Curve) -> Self {
            macro_rules! of {
                ($curve:ident, $bytes:literal, $id:expr) => {{
                    let mut secret = [SECRET; $bytes];
                    secret[0] = 0;
                    let key = $curve::ecdsa::SigningKey::from_slice(&secret).unwrap();
                    let point = key.verifying_key().to_sec1_point(false);
                    let sign = move |hash: &[u8]| {
                        let signature: $curve::ecdsa::Signature = key.sign_prehash(hash).unwrap();
                        signature.to_der().as_bytes().to_vec()
                    };
                    Self { public: public_key_to_spki(&$id, point.as_bytes()).as_ref().to_vec(), sign: Box::new(sign) }
                }};
            }
            match curve {
                Curve::P256 => of!(p256, 32, alg_id::ECDSA_P256),
                Curve::P384 => of!(p384, 48, alg_id::ECDSA_P384),
                Curve::P521 => of!(p521, 66, alg_id::ECDSA_P521),
            }
        }

        fn sign(&self, unsigned: &Unsigned<'_>, by: &Ecdsa) -> Vec<u8> {
            let algorithm = by.signature_alg_id();
            unsigned.signed(algorithm.as_ref(), |message| (self.sign)(digest(by.hash, message).as_ref()))
        }
    }

    #[test]
    fn servers_are_verified_that_ring_does_not_know() {
        for by in &ADDED {
            let authority = Key::new(by.curve);
            let name = "authority";
            let ca = Unsigned { version: 1, issuer: name, subject: name, public_key: &authority.public, names: &[] };
            let ca = CertificateDer::from(authority.sign(&ca, by));
            let mut roots = RootCertStore::empty();
            roots.add(ca).unwrap();
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build().unwrap();
            let server = Key::new(Curve::P521);
            let names = ["k8s.example"];
            let leaf = Unsigned { version: 3, issuer: name, subject: "s", public_key: &server.public, names: &names };
            let good = CertificateDer::from(authority.sign(&leaf, by));
            // This signature does not come from the authority's key.
            let stranger =
                Key { sign: Box::new(|_| vec![0x30, 0x06, 0x02, 0x01, 0x01, 0x02, 0x01, 0x01]), ..Key::new(by.curve) };
            let forged = CertificateDer::from(stranger.sign(&leaf, by));
            let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_800_000_000));
            let host = ServerName::try_from(names[0]).unwrap();
            let judge = |leaf| verifier.verify_server_cert(leaf, &[], &host, &[], at).map(drop);
            assert_eq!(judge(&good), Ok(()), "{by:?}");
            let refused = Err(rustls::CertificateError::BadSignature.into());
            assert_eq!(judge(&forged), refused, "{by:?}");
        }
    }

    #[test]
    fn p_521_signs_as_it_verifies() {
        let secret = [&[0][..], &[SECRET; 65]].concat();
        let curve = [0xa0, 0x07, 0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23];
        let sec1 = tlv(0x30, &[&[0x02, 0x01, 0x01][..], &tlv(0x04, &secret), &curve].concat());
        let algorithm = tlv(0x30, alg_id::ECDSA_P521.as_ref());
        let pkcs8 = tlv(0x30, &[&[0x02, 0x01, 0x00][..], &algorithm, &tlv(0x04, &sec1)].concat());
        for der in [PrivateSec1KeyDer::from(sec1).into(), PrivateKeyDer::from(PrivatePkcs8KeyDer::from(pkcs8))] {
            let key = provider().key_provider.load_private_key(der).unwrap();
            assert_eq!(key.public_key().unwrap().as_ref(), Key::new(Curve::P521).public);
            assert!(key.choose_scheme(&[SignatureScheme::ECDSA_NISTP256_SHA256]).is_none());
            let signer = key.choose_scheme(&[SignatureScheme::ECDSA_NISTP521_SHA512]).unwrap();
            let signature = signer.sign(b"message").unwrap();
            let point = &key.public_key().unwrap().as_ref()[25..].to_vec();
            assert!(ADDED[0].verify_signature(point, b"message", &signature).is_ok());
            assert!(ADDED[0].verify_signature(point, b"another", &signature).is_err());
        }
    }

    #[test]
    fn every_scheme_begins_with_the_curve_that_it_names() {
        let of = |scheme| {
            let algorithms = provider().signature_verification_algorithms;
            let (_, algorithms) = algorithms.mapping.iter().find(|(known, _)| *known == scheme).unwrap();
            algorithms.iter().map(|it| it.public_key_alg_id()).collect::<Vec<_>>()
        };
        let (p256, p384, p521) = (alg_id::ECDSA_P256, alg_id::ECDSA_P384, alg_id::ECDSA_P521);
        assert_eq!(of(SignatureScheme::ECDSA_NISTP256_SHA256), [p256, p384, p521]);
        assert_eq!(of(SignatureScheme::ECDSA_NISTP384_SHA384), [p384, p256, p521]);
        assert_eq!(of(SignatureScheme::ECDSA_NISTP521_SHA512), [p521, p384, p256]);
    }

    #[test]
    fn a_client_certificate_of_version_1_is_one() {
        let pair = crate::config::testing::Pair::new(&rcgen::PKCS_ECDSA_P256_SHA256, &[], None);
        let key = crate::config::pem::private_key(pair.key.as_bytes()).unwrap();
        let public = provider().key_provider.load_private_key(key).unwrap().public_key().unwrap().as_ref().to_vec();
        let by = &ADDED[2];
        let old = Unsigned { version: 1, issuer: "ca", subject: "admin", public_key: &public, names: &[] };
        let old = Key::new(by.curve).sign(&old, by);
        let identity =
            certificate::identity(label("CERTIFICATE", &old).as_bytes(), pair.key.as_bytes(), Peer::Kubernetes);
        let identity = identity.unwrap();
        assert!(identity.facts.matches_key && identity.facts.client_auth);
        let certified = identity.resolver().unwrap().resolve(&[], &[]).unwrap();
        assert_eq!(certified.cert[0].as_ref(), old);
    }
}
