//! Verification of API servers' certificates. [`whom`](super::whom) decides which servers receive credentials at all.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme};

use crate::config::certificate::{is_current, is_of_kubelet};
use crate::config::crypto;
use crate::observe::dial::cause::KubeletCertificate;
use crate::snapshot::{Gap, GapKind, Observed};

/// The kind of server that is queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Peer {
    /// The endpoint that the user named: the kubeconfig's server, or `--k8s-endpoint`.
    Endpoint,
    /// An address at which another source reports an API server.
    Machine,
}

/// The name by which every pod calls the API server, and which the certificate of every API server has.
const API_SERVER: &str = "kubernetes.default.svc";

/// Verifies the dialed name or address, and further requirements.
///
/// The cluster's CA also signs the serving certificates of kubelets, with any names that were approved, and approvers rarely check them. So
/// the subject counts as well, because the signer prescribes it. k3s issues kubelet certificates without that subject; there the source of
/// the address is the only criterion.
///
/// The endpoint that the user named is verified as in Go: a certificate that is itself among the trusted ones needs no other to vouch for
/// it. Balancers with self-made certificates present such ones.
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
        let unverifiable = |_| Gap::new(GapKind::UnknownCa, "no CA certificate of the kubeconfig is valid now");
        let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), crypto::provider()).build();
        Ok(Arc::new(Self { peer, trusted: trusted.to_vec(), webpki: webpki.map_err(unverifiable)? }))
    }

    /// Returns whether the certificate is the endpoint's and is itself one of the trusted ones.
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
        if is_of_kubelet(end_entity) {
            return Err(CertificateError::Other(OtherError(Arc::new(KubeletCertificate))).into());
        }
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
