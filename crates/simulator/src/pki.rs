//! The authorities of a cluster, and the certificates that they sign.

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

/// The authorities of one cluster. Every cluster creates its own.
pub struct Pki {
    /// Ed25519, like Talos's own.
    pub talos: Authority,
    /// ECDSA P-256, like Talos's own.
    pub kubernetes: Authority,
    pub etcd: Authority,
    /// An untrusted authority with the subject of Talos's, like that of another Talos cluster.
    pub foreign: Authority,
    /// Authority of machines without configuration, which have no other.
    pub maintenance: Authority,
    /// Authority among the roots of operating systems, which signs Omni's certificate.
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

/// A defect of a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flaw {
    #[default]
    None,
    Expired,
    /// Expires in three days, after a year.
    ExpiresSoon,
    NotYetValid,
    /// Valid for an hour, of which half is left.
    ShortLived,
    /// A client certificate without the extended key usage clientAuth.
    WithoutClientAuth,
}

/// Remaining validity of a certificate that expires soon.
const SOON: Duration = Duration::from_secs(3 * 24 * 60 * 60);
const HALF_AN_HOUR: Duration = Duration::from_secs(30 * 60);
/// Lifetime of Talos's client certificates.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl Pki {
    /// Creates new authorities.
    ///
    /// # Errors
    /// If the system provides no randomness.
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

/// Time since the beginning of 1970.
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

    /// Returns a certificate of this authority that expires in three days, after ten years.
    ///
    /// # Errors
    /// If the certificate cannot be created.
    pub fn ending_soon(&self) -> anyhow::Result<String> {
        self.ending(now()? + SOON)
    }

    /// Returns a certificate of this authority that expired three days ago.
    ///
    /// # Errors
    /// If the certificate cannot be created.
    pub fn ended(&self) -> anyhow::Result<String> {
        self.ending(now()?.saturating_sub(SOON))
    }

    fn ending(&self, since_1970: Duration) -> anyhow::Result<String> {
        let mut params = self.params.clone();
        params.not_after = date_time_ymd(1970, 1, 1) + since_1970;
        params.not_before = params.not_after - 10 * YEAR;
        Ok(params.self_signed(self.issuer.key())?.pem())
    }

    /// The certificate of this authority.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.certificate
    }

    /// Issues a client certificate. `organizations` are Talos roles or Kubernetes groups.
    ///
    /// # Errors
    /// If the system provides no randomness.
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

    /// Issues a server certificate.
    ///
    /// # Errors
    /// If a certificate cannot contain one of the names.
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

/// The cryptography for all TLS connections here.
pub(crate) fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
