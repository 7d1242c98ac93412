//! A verifier that accepts any certificate, for two purposes only.
//!
//! A node without a configuration (maintenance mode) presents a certificate from its own private CA, so the only way to detect this mode is
//! to connect without verification. This is safe because no data is disclosed and no answer is trusted: the connection carries no client
//! certificate, no cluster name and no secret, and its answer can only turn one reason for "not healthy" (unknown CA) into another
//! (maintenance mode): `maintenance`.
//!
//! A kubelet's serving certificate is self-signed unless the cluster has an approver, and the certificate itself is what is needed:
//! `kubelet`. Nothing is sent on that connection, and the certificate's dates count only if it names the node.
//!
//! There are no other users.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

#[derive(Debug)]
pub(super) struct AcceptAny(pub(super) WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
