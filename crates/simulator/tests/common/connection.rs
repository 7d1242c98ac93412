//! One connection to a simulated server, over real TLS.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use simulator::pki::{Authority, Leaf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::body::Body;
use tower::util::BoxCloneSyncService;

/// One connection.
pub(crate) type Channel = BoxCloneSyncService<http::Request<Body>, http::Response<Incoming>, hyper::Error>;

/// Connects with this certificate, and trusts this authority. The server's certificate has to be valid for its address; its name does not
/// matter.
pub(crate) async fn connect(at: SocketAddr, trusted: &Authority, leaf: &Leaf) -> io::Result<Channel> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.pem().as_bytes()).unwrap()).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(leaf.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(leaf.key.as_bytes()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(at).await?;
    let name = ServerName::from(at.ip());
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let (sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::spawn(connection);
    Ok(BoxCloneSyncService::new(tower::service_fn(move |mut request: http::Request<Body>| {
        let path = request.uri().path_and_query().unwrap().as_str();
        *request.uri_mut() = format!("https://{at}{path}").parse().unwrap();
        let mut sender = sender.clone();
        async move { sender.send_request(request).await }
    })))
}
