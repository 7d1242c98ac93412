//! A verifier that accepts any certificate, for two questions only.
//!
//! A node without a configuration (maintenance mode) shows a certificate of a CA that nobody else has, so the only way to
//! learn that it is in this mode is to ask without verification. This is safe because nothing is given away and nothing is
//! believed: the connection carries no client certificate, no cluster name and no secret, and its answer can only turn one
//! reason for "not healthy" (unknown CA) into another (maintenance mode): `maintenance`.
//!
//! A kubelet's serving certificate is self-signed unless somebody has installed an approver, and what is wanted is the certificate
//! itself: `kubelet`. Nothing is asked on that connection, and its dates count only where it names the node.
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
