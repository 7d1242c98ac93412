//! Certificates and configuration files of made-up clusters. Every test makes its own.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ED25519, date_time_ymd,
};

/// A CA of Talos's kind (Ed25519).
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub(crate) struct Leaf {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// What a test may want to be wrong.
#[derive(Clone, Copy, Default)]
pub(crate) struct Flaw {
    pub(crate) expired: bool,
    pub(crate) not_yet_valid: bool,
    pub(crate) without_client_auth: bool,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::OrganizationName, "talos");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    pub(crate) fn client(&self, role: &str, flaw: Flaw) -> Leaf {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, role);
        params.extended_key_usages = vec![if flaw.without_client_auth {
            ExtendedKeyUsagePurpose::ServerAuth
        } else {
            ExtendedKeyUsagePurpose::ClientAuth
        }];
        self.sign(params, flaw)
    }

    fn sign(&self, mut params: CertificateParams, flaw: Flaw) -> Leaf {
        if flaw.expired {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        } else if flaw.not_yet_valid {
            params.not_before = date_time_ymd(2999, 1, 1);
            params.not_after = date_time_ymd(3000, 1, 1);
        } else {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2999, 1, 1);
        }
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        Leaf { certificate: params.signed_by(&key, &self.issuer).unwrap().pem(), key: key.serialize_pem() }
    }
}

/// A talosconfig with one context, `prod`.
pub(crate) fn talosconfig(ca: &str, client: &Leaf, endpoints: &[String]) -> String {
    // Talos labels its keys by their algorithm; the body is PKCS#8 all the same.
    let key = client.key.replace("PRIVATE KEY", "ED25519 PRIVATE KEY");
    let endpoints: Vec<String> = endpoints.iter().map(|endpoint| format!("            - {endpoint}\n")).collect();
    format!(
        "context: prod\ncontexts:\n    prod:\n        endpoints:\n{}        ca: {}\n        crt: {}\n        key: {}\n",
        endpoints.concat(),
        STANDARD.encode(ca),
        STANDARD.encode(&client.certificate),
        STANDARD.encode(key),
    )
}

/// A healthy talosconfig for servers at these addresses.
pub(crate) fn reader(authority: &Authority, endpoints: &[SocketAddr]) -> String {
    let endpoints: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
    talosconfig(authority.pem(), &authority.client("os:reader", Flaw::default()), &endpoints)
}
