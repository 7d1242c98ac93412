//! What we show and what we demand in a TLS handshake with Talos.

use std::sync::Arc;

use anyhow::Context as _;
use rustls::client::{ClientConfig, Resumption};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ConfigBuilder, RootCertStore, WantsVerifier};

use super::ClientCertificate;
use super::unverified::AcceptAny;

/// Full verification against the CAs of the configuration, and our certificate if there is one.
pub(super) fn verifying(ca_pem: &str, client: Option<&ClientCertificate>) -> anyhow::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        let certificate = certificate.context("cannot read the CA certificate")?;
        roots.add(certificate).context("cannot use the CA certificate")?;
    }
    anyhow::ensure!(!roots.is_empty(), "there is no CA certificate");

    let builder = builder()?.with_root_certificates(roots);
    let config = match client {
        None => builder.with_no_client_auth(),
        Some(client) => {
            let chain: Vec<_> = CertificateDer::pem_slice_iter(client.certificate_pem.as_bytes())
                .collect::<Result<_, _>>()
                .context("cannot read the client certificate")?;
            let key = PrivateKeyDer::from_pem_slice(client.key_pem.as_bytes()).context("cannot read the client key")?;
            builder.with_client_auth_cert(chain, key).context("cannot use the client certificate and key")?
        }
    };
    Ok(common(config))
}

/// No verification and no certificate of ours: see [`AcceptAny`] for what it is good for.
pub(super) fn accepting_any() -> anyhow::Result<Arc<ClientConfig>> {
    let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
    let config =
        builder()?.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAny(algorithms))).with_no_client_auth();
    Ok(common(config))
}

fn builder() -> anyhow::Result<ConfigBuilder<ClientConfig, WantsVerifier>> {
    // Named here rather than taken from the process, so that this module works in any program and test.
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .context("the TLS library is built without a protocol version")
}

fn common(mut config: ClientConfig) -> Arc<ClientConfig> {
    // Offered, but an answer is not demanded: apid of Talos 1.7.0 to 1.8.1 gives none and speaks HTTP/2 all the same.
    config.alpn_protocols = vec![b"h2".to_vec()];
    // Every connection proves anew that our certificate is accepted.
    config.resumption = Resumption::disabled();
    Arc::new(config)
}
