//! Credentials made for one test.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, SignatureAlgorithm};

pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Pair {
    /// As Talos makes them: Ed25519, its own label, the role as organization.
    pub(super) fn talos(role: &str) -> Self {
        let mut pair = Self::new(&rcgen::PKCS_ED25519, &[role], Some(ExtendedKeyUsagePurpose::ClientAuth));
        pair.key = pair.key.replace(" PRIVATE KEY-", " ED25519 PRIVATE KEY-");
        pair
    }

    pub(super) fn new(
        algorithm: &'static SignatureAlgorithm,
        organizations: &[&str],
        usage: Option<ExtendedKeyUsagePurpose>,
    ) -> Self {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        for organization in organizations {
            params.distinguished_name.push(DnType::OrganizationName, *organization);
        }
        params.extended_key_usages = usage.into_iter().collect();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2040, 1, 1);
        let certificate = params.self_signed(&key).unwrap();
        Self { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// The key of a P-256 pair as `EC PRIVATE KEY`: the octet string within PKCS#8.
    pub(super) fn sec1(&self) -> String {
        let body: String = self.key.lines().filter(|line| !line.starts_with("-----")).collect();
        let pkcs8 = STANDARD.decode(body).unwrap();
        // SEQUENCE, version, AlgorithmIdentifier of P-256, OCTET STRING: 29 bytes of frame, all lengths short form.
        let at = pkcs8.windows(2).position(|window| window == [0x30, 0x6b]).unwrap();
        label("EC PRIVATE KEY", &pkcs8[at..])
    }

    pub(super) fn certificate64(&self) -> String {
        STANDARD.encode(&self.certificate)
    }

    pub(super) fn key64(&self) -> String {
        STANDARD.encode(&self.key)
    }
}

pub(super) fn label(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}
