//! Credentials made for one test.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, SignatureAlgorithm};

pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Pair {
    /// A pair like those that Talos issues: Ed25519, Talos's own label, the role as organization.
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

    /// Returns the key of a P-256 pair as `EC PRIVATE KEY`: the octet string within PKCS#8.
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

/// Encodes a value in DER.
pub(super) fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut all = vec![tag];
    match u16::try_from(content.len()).unwrap().to_be_bytes() {
        [0, short @ 0..0x80] => all.push(short),
        [0, long] => all.extend([0x81, long]),
        [high, low] => all.extend([0x82, high, low]),
    }
    all.extend(content);
    all
}

/// The content of a certificate before it is signed, with versions and keys that rcgen does not support.
pub(super) struct Unsigned<'a> {
    pub(super) version: u8,
    pub(super) issuer: &'a str,
    pub(super) subject: &'a str,
    /// `SubjectPublicKeyInfo`.
    pub(super) public_key: &'a [u8],
    /// DNS names.
    pub(super) names: &'a [&'a str],
}

impl Unsigned<'_> {
    /// Signs the content. `algorithm` is the object identifier with its parameters.
    pub(super) fn signed(&self, algorithm: &[u8], sign: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
        let algorithm = tlv(0x30, algorithm);
        // Common name.
        let name = |text: &str| {
            let pair = [&[0x06, 0x03, 0x55, 0x04, 0x03][..], &tlv(0x0c, text.as_bytes())].concat();
            tlv(0x30, &tlv(0x31, &tlv(0x30, &pair)))
        };
        let mut body = Vec::new();
        if self.version > 1 {
            body.extend(tlv(0xa0, &[0x02, 0x01, self.version - 1]));
        }
        body.extend([0x02, 0x01, 0x01]);
        body.extend(&algorithm);
        body.extend(name(self.issuer));
        body.extend(tlv(0x30, &[tlv(0x17, b"200101000000Z"), tlv(0x17, b"400101000000Z")].concat()));
        body.extend(name(self.subject));
        body.extend(self.public_key);
        if !self.names.is_empty() {
            let names: Vec<u8> = self.names.iter().flat_map(|name| tlv(0x82, name.as_bytes())).collect();
            let alternative = [&[0x06, 0x03, 0x55, 0x1d, 0x11][..], &tlv(0x04, &tlv(0x30, &names))].concat();
            body.extend(tlv(0xa3, &tlv(0x30, &tlv(0x30, &alternative))));
        }
        let body = tlv(0x30, &body);
        let signature = tlv(0x03, &[vec![0], sign(&body)].concat());
        tlv(0x30, &[body, algorithm, signature].concat())
    }
}
