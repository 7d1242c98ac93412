//! Who may be sent the credentials of a kubeconfig.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::config::certificate::is_current;
use crate::snapshot::{Gap, GapKind, Observed};

/// What a verifier leaves to rustls's own, which is in this field.
macro_rules! signatures {
    ($webpki:tt) => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.$webpki.verify_tls12_signature(message, certificate, signature)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.$webpki.verify_tls13_signature(message, certificate, signature)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.$webpki.supported_verify_schemes()
        }
    };
}

/// Whom a probe asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Peer {
    /// The endpoint that the user named: the kubeconfig's server, or `--k8s-endpoint`.
    Endpoint,
    /// An address at which some other source says that there is an API server.
    Machine,
}

/// In the certificate of every API server, since every pod calls it by this name, and in that of no kubelet.
const API_SERVER: &str = "kubernetes.default.svc";

/// Verifies the address that was dialed, and that an API server is there.
///
/// The cluster's CA signs the kubelets' serving certificates, too. A worker that says of itself in discovery that it is a
/// control plane would be sent a token that may be an administrator's.
#[derive(Debug)]
pub(super) struct ApiServerVerifier(Arc<WebPkiServerVerifier>);

impl ApiServerVerifier {
    pub(super) fn new(ca: Option<&[Vec<u8>]>) -> Observed<Arc<Self>> {
        Ok(Arc::new(Self(webpki(ca.into_iter().flatten())?)))
    }
}

/// Verifies the endpoint that the user named as Go does: a certificate that is itself among those that are trusted needs no other to
/// vouch for it. That is what balancers show that have made their own.
#[derive(Debug)]
pub(super) struct EndpointVerifier {
    webpki: Arc<WebPkiServerVerifier>,
    trusted: Vec<Vec<u8>>,
}

impl EndpointVerifier {
    pub(super) fn new(trusted: &[Vec<u8>]) -> Observed<Arc<Self>> {
        Ok(Arc::new(Self { webpki: webpki(trusted)?, trusted: trusted.to_vec() }))
    }
}

fn webpki<'a>(ca: impl IntoIterator<Item = &'a Vec<u8>>) -> Observed<Arc<WebPkiServerVerifier>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(ca.into_iter().map(|der| CertificateDer::from(der.as_slice())));
    let unverifiable = |_| Gap::new(GapKind::UnknownCa, "the kubeconfig has no CA certificate to verify it with");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().map_err(unverifiable)
}

impl ServerCertVerifier for EndpointVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let is_trusted = self.trusted.iter().any(|der| der == end_entity.as_ref()) && is_current(end_entity);
        match ParsedCertificate::try_from(end_entity) {
            Ok(leaf) if is_trusted => verify_server_name(&leaf, server_name).map(|()| ServerCertVerified::assertion()),
            _ => self.webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now),
        }
    }

    signatures!(webpki);
}

impl ServerCertVerifier for ApiServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)?;
        let name = ServerName::try_from(API_SERVER).map_err(|error| Error::General(error.to_string()))?;
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, &name)?;
        Ok(verified)
    }

    signatures!(0);
}
