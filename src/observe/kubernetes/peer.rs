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

/// Verifies the name or address that was dialed, and besides what is true of one of the two.
///
/// The cluster's CA signs the kubelets' serving certificates, too: of a machine, that an API server is there. A worker that says of
/// itself in discovery that it is a control plane would be sent a token that may be an administrator's.
///
/// The endpoint that the user named is verified as Go does: a certificate that is itself among those that are trusted needs no other
/// to vouch for it. That is what balancers show that have made their own.
#[derive(Debug)]
pub(super) struct PeerVerifier {
    peer: Peer,
    trusted: Vec<Vec<u8>>,
    webpki: Arc<WebPkiServerVerifier>,
}

impl PeerVerifier {
    pub(super) fn new(peer: Peer, trusted: &[Vec<u8>]) -> Observed<Arc<Self>> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(trusted.iter().map(|der| CertificateDer::from(der.as_slice())));
        let unverifiable = |_| Gap::new(GapKind::UnknownCa, "the kubeconfig has no CA certificate to verify it with");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Arc::new(Self { peer, trusted: trusted.to_vec(), webpki: webpki.map_err(unverifiable)? }))
    }

    /// It is the endpoint's, and trusted without anybody's word.
    fn is_trusted(&self, leaf: &CertificateDer<'_>) -> bool {
        self.peer == Peer::Endpoint && self.trusted.iter().any(|der| der == leaf.as_ref()) && is_current(leaf)
    }
}

impl ServerCertVerifier for PeerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.is_trusted(end_entity)
            && let Ok(leaf) = ParsedCertificate::try_from(end_entity)
        {
            return verify_server_name(&leaf, server_name).map(|()| ServerCertVerified::assertion());
        }
        let verified = self.webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)?;
        if self.peer == Peer::Machine {
            let name = ServerName::try_from(API_SERVER).map_err(|error| Error::General(error.to_string()))?;
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, &name)?;
        }
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}
