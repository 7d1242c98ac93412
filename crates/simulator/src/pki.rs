//! The authorities of a cluster, and what they sign.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SanType, SignatureAlgorithm, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};

/// What one cluster trusts. Every cluster makes its own.
pub struct Pki {
    /// Ed25519, as Talos makes it.
    pub talos: Authority,
    /// ECDSA P-256, as Talos makes it.
    pub kubernetes: Authority,
    pub etcd: Authority,
    /// Trusted by nobody; has the subject of Talos's, as another Talos cluster's has.
    pub foreign: Authority,
    /// Of machines without configuration, which have no other.
    pub maintenance: Authority,
    /// As systems have them among their roots: of Omni.
    pub public: Authority,
}

/// A certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    algorithm: &'static SignatureAlgorithm,
    certificate: String,
    params: CertificateParams,
}

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub struct Leaf {
    pub certificate: String,
    pub key: String,
}

/// What is wrong with a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flaw {
    #[default]
    None,
    Expired,
    /// In three days, after a year.
    ExpiresSoon,
    NotYetValid,
    /// For an hour, of which half is left.
    ShortLived,
    /// Of a client: no extended key usage clientAuth.
    WithoutClientAuth,
}

/// What is left of a certificate that expires soon.
const SOON: Duration = Duration::from_secs(3 * 24 * 60 * 60);
const HALF_AN_HOUR: Duration = Duration::from_secs(30 * 60);
/// For which Talos issues client certificates.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl Pki {
    /// Makes new authorities.
    ///
    /// # Errors
    /// If the machine has no randomness.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {
            talos: Authority::new(&PKCS_ED25519, &[(DnType::OrganizationName, "talos")])?,
            kubernetes: Authority::new(&PKCS_ECDSA_P256_SHA256, &[(DnType::OrganizationName, "kubernetes")])?,
            etcd: Authority::new(&PKCS_ECDSA_P256_SHA256, &[(DnType::OrganizationName, "etcd")])?,
            foreign: Authority::new(&PKCS_ED25519, &[(DnType::OrganizationName, "talos")])?,
            maintenance: Authority::new(&PKCS_ED25519, &[(DnType::CommonName, "maintenance-service.talos.dev")])?,
            public: Authority::new(&PKCS_ECDSA_P256_SHA256, &[(DnType::CommonName, "public")])?,
        })
    }
}

/// Since the beginning of 1970.
fn now() -> anyhow::Result<Duration> {
    Ok(Duration::from_secs(Timestamp::now().as_second().try_into()?))
}

impl Authority {
    fn new(algorithm: &'static SignatureAlgorithm, subject: &[(DnType, &str)]) -> anyhow::Result<Self> {
        let key = KeyPair::generate_for(algorithm)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = name(subject);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params.clone(), key), algorithm, certificate, params })
    }

    /// A certificate of it that ends in three days, after ten years.
    ///
    /// # Errors
    /// If the certificate cannot be made.
    pub fn ending_soon(&self) -> anyhow::Result<String> {
        self.ending(now()? + SOON)
    }

    /// The same, which ended three days ago.
    ///
    /// # Errors
    /// If the certificate cannot be made.
    pub fn ended(&self) -> anyhow::Result<String> {
        self.ending(now()?.saturating_sub(SOON))
    }

    fn ending(&self, since_1970: Duration) -> anyhow::Result<String> {
        let mut params = self.params.clone();
        params.not_after = date_time_ymd(1970, 1, 1) + since_1970;
        params.not_before = params.not_after - 10 * YEAR;
        Ok(params.self_signed(self.issuer.key())?.pem())
    }

    /// Its certificate.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.certificate
    }

    /// A client: `organizations` are Talos's roles and Kubernetes' groups.
    ///
    /// # Errors
    /// If the machine has no randomness.
    pub fn client(&self, common_name: &str, organizations: &[&str], flaw: Flaw) -> anyhow::Result<Leaf> {
        let mut params = CertificateParams::default();
        let organizations = organizations.iter().map(|name| (DnType::OrganizationName, *name));
        let subject: Vec<_> = organizations.chain([(DnType::CommonName, common_name)]).collect();
        params.distinguished_name = name(&subject);
        params.extended_key_usages = match flaw {
            Flaw::WithoutClientAuth => vec![ExtendedKeyUsagePurpose::ServerAuth],
            _ => vec![ExtendedKeyUsagePurpose::ClientAuth],
        };
        let epoch = date_time_ymd(1970, 1, 1);
        let now = Duration::from_secs(Timestamp::now().as_second().try_into()?);
        (params.not_before, params.not_after) = match flaw {
            Flaw::Expired => (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1)),
            Flaw::ExpiresSoon => (epoch + now + SOON - YEAR, epoch + now + SOON),
            Flaw::ShortLived => (epoch + now - HALF_AN_HOUR, epoch + now + HALF_AN_HOUR),
            Flaw::NotYetValid => (date_time_ymd(2999, 1, 1), date_time_ymd(3000, 1, 1)),
            Flaw::None | Flaw::WithoutClientAuth => (date_time_ymd(2020, 1, 1), date_time_ymd(2999, 1, 1)),
        };
        self.sign(&params)
    }

    /// A server.
    ///
    /// # Errors
    /// If a name cannot stand in a certificate.
    pub(crate) fn server(
        &self,
        names: Vec<String>,
        addresses: &[IpAddr],
        from: Timestamp,
        lifetime: Duration,
    ) -> anyhow::Result<Leaf> {
        let subject = name(&[(DnType::CommonName, names.first().map_or("", String::as_str))]);
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = subject;
        params.subject_alt_names.extend(addresses.iter().map(|address| SanType::IpAddress(*address)));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.not_before = date_time_ymd(1970, 1, 1) + Duration::from_secs(from.as_second().try_into()?);
        params.not_after = params.not_before + lifetime;
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> anyhow::Result<Leaf> {
        let key = KeyPair::generate_for(self.algorithm)?;
        Ok(Leaf { certificate: params.signed_by(&key, &self.issuer)?.pem(), key: key.serialize_pem() })
    }
}

fn name(parts: &[(DnType, &str)]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    for (kind, value) in parts {
        name.push(kind.clone(), *value);
    }
    name
}

impl Leaf {
    pub(crate) fn chain(&self) -> anyhow::Result<Vec<CertificateDer<'static>>> {
        Ok(vec![CertificateDer::from_pem_slice(self.certificate.as_bytes()).context("cannot read a certificate")?])
    }

    pub(crate) fn private_key(&self) -> anyhow::Result<PrivateKeyDer<'static>> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).context("cannot read a key")
    }
}

/// The cryptography of all TLS here.
pub(crate) fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
