//! TLS settings for Talos and etcd: the certificate that we present, and the verification of the server.

use std::sync::Arc;

use anyhow::Context as _;
use rustls::client::{ClientConfig, Resumption};
use rustls::pki_types::CertificateDer;
use rustls::{ConfigBuilder, RootCertStore, WantsVerifier};

use super::unverified::AcceptAny;
use crate::config::certificate::{Identity, is_current};
use crate::config::crypto;

/// TLS that verifies the server. Secrets are sent only on connections of this kind.
#[derive(Clone)]
pub(in crate::observe) struct Verified(Arc<ClientConfig>);

impl Verified {
    pub(in crate::observe) fn into_inner(self) -> Arc<ClientConfig> {
        self.0
    }
}

/// Configures full verification against `ca`, with our certificate if there is one. Without a CA, no server is trusted.
pub(in crate::observe) fn verifying(
    ca: &[CertificateDer<'static>],
    client: Option<&Identity>,
) -> anyhow::Result<Verified> {
    let mut roots = RootCertStore::empty();
    for certificate in ca.iter().filter(|ca| is_current(ca)) {
        roots.add(certificate.clone()).context("cannot use the CA certificate")?;
    }
    let builder = builder()?.with_root_certificates(roots);
    let config = match client {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            builder.with_client_cert_resolver(identity.resolver().context("cannot use the client certificate and key")?)
        }
    };
    Ok(Verified(common(config)))
}

/// Configures TLS without verification and without a client certificate; see [`AcceptAny`] for its purpose.
pub(in crate::observe) fn accepting_any() -> anyhow::Result<Arc<ClientConfig>> {
    let algorithms = crypto::provider().signature_verification_algorithms;
    let config =
        builder()?.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAny(algorithms))).with_no_client_auth();
    Ok(common(config))
}

fn builder() -> anyhow::Result<ConfigBuilder<ClientConfig, WantsVerifier>> {
    // The provider is named here rather than taken from the process, so that this module works in any program and test.
    ClientConfig::builder_with_provider(crypto::provider())
        .with_safe_default_protocol_versions()
        .context("the TLS library is built without a protocol version")
}

fn common(mut config: ClientConfig) -> Arc<ClientConfig> {
    config.alpn_protocols = vec![b"h2".to_vec()];
    // Without resumption, every connection proves that our certificate is accepted.
    config.resumption = Resumption::disabled();
    Arc::new(config)
}
