//! API servers for tests: TLS on loopback, with scripted answers.

use std::sync::{Arc, Mutex};

use kube::Config;
use kube::config::AuthInfo;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::snapshot::KubernetesCredentials;

/// A certificate authority.
pub(crate) struct Pki {
    ca: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key.
pub(crate) struct Leaf {
    pub(crate) certificate: rcgen::Certificate,
    pub(crate) key: KeyPair,
}

impl Pki {
    pub(crate) fn new() -> Self {
        Self::valid_until(4000)
    }

    pub(crate) fn valid_until(year: i32) -> Self {
        // Succeeds only for the first test of the process; the others find the same provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        Self { ca: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    pub(crate) fn issue(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Leaf {
        let mut params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        Leaf { certificate: params.signed_by(&key, &self.ca).unwrap(), key }
    }

    pub(crate) fn ca_der(&self) -> Vec<u8> {
        self.ca.der().to_vec()
    }

    pub(crate) fn ca_pem(&self) -> String {
        self.ca.pem()
    }

    /// TLS as API servers use it: client certificates are verified if there are any, or required.
    pub(crate) fn tls(&self, leaf: &Leaf, clients: Clients, alpn: &[&[u8]]) -> TlsAcceptor {
        let chain = vec![leaf.certificate.der().clone()];
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(leaf.key.serialize_der()));
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from(self.ca.der().to_vec())).unwrap();
        let verifier = WebPkiClientVerifier::builder(Arc::new(roots));
        let verifier = match clients {
            Clients::Optional => verifier.allow_unauthenticated().build().unwrap(),
            Clients::Demanded => verifier.build().unwrap(),
        };
        let mut config =
            rustls::ServerConfig::builder().with_client_cert_verifier(verifier).with_single_cert(chain, key).unwrap();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }

    /// Returns a kubeconfig for `server` without credentials of its own.
    pub(crate) fn config(&self, server: &str) -> Config {
        let mut config = Config::new(server.parse().unwrap());
        config.root_cert = Some(vec![self.ca.der().to_vec()]);
        config
    }

    /// Returns a kubeconfig for `server` with a client certificate.
    pub(crate) fn config_with_certificate(&self, server: &str) -> Config {
        let leaf = self.issue(&[], |_| {});
        let base64 = |pem: String| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, pem);
        let mut config = self.config(server);
        config.auth_info = AuthInfo {
            client_certificate_data: Some(base64(leaf.certificate.pem())),
            client_key_data: Some(base64(leaf.key.serialize_pem()).into()),
            ..AuthInfo::default()
        };
        config
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Clients {
    Optional,
    Demanded,
}

pub(crate) fn credentials(server: &str) -> KubernetesCredentials {
    KubernetesCredentials {
        source: "--kubeconfig /tmp/kubeconfig".to_owned(),
        files: vec!["/tmp/kubeconfig".into()],
        explicit: true,
        context: "test".to_owned(),
        server: server.to_owned(),
        ca: None,
        certificate: None,
    }
}

/// A running server: its address, and the requests it has received.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) host: &'static str,
    pub(crate) port: u16,
    heads: Arc<Mutex<Vec<String>>>,
    connections: Arc<Mutex<usize>>,
}

impl Server {
    pub(crate) fn url(&self) -> String {
        format!("https://{}:{}", self.host, self.port)
    }

    /// Returns request lines and headers, in the order of arrival.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

/// The reaction of a server to a request.
pub(crate) enum Reply {
    Bytes(Vec<u8>),
    /// Repeats the second part until the client stops reading.
    Endless(Vec<u8>, Vec<u8>),
    Never,
    Close,
}

/// Returns a complete HTTP/1.1 answer.
pub(crate) fn http(status: &str, headers: &str, body: &str) -> Reply {
    let length = body.len();
    Reply::Bytes(format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n{body}").into_bytes())
}

/// Serves TLS at 127.0.0.1; `script` gets the head of each request.
pub(crate) async fn serve(tls: TlsAcceptor, script: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Server {
    serve_at("127.0.0.1", tls, script).await
}

/// Serves TLS at another loopback address.
pub(crate) async fn serve_at(
    host: &'static str,
    tls: TlsAcceptor,
    script: impl Fn(&str) -> Reply + Send + Sync + 'static,
) -> Server {
    let listener = TcpListener::bind((host, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = Server { host, port, heads: Arc::default(), connections: Arc::default() };
    let seen = server.clone();
    let script = Arc::new(script);
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            *seen.connections.lock().unwrap() += 1;
            let (tls, seen, script) = (tls.clone(), seen.clone(), Arc::clone(&script));
            tokio::spawn(async move {
                if let Ok(stream) = tls.accept(tcp).await {
                    answer(stream, &seen, &*script).await;
                }
            });
        }
    });
    server
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    seen: &Server,
    script: &(impl Fn(&str) -> Reply + ?Sized),
) {
    while let Some(head) = head(&mut stream).await {
        seen.heads.lock().unwrap().push(head.clone());
        match script(&head) {
            Reply::Bytes(bytes) => {
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Reply::Endless(start, again) => {
                let _ = stream.write_all(&start).await;
                while stream.write_all(&again).await.is_ok() {}
                return;
            }
            Reply::Never => std::future::pending().await,
            Reply::Close => return,
        }
        let _ = stream.flush().await;
    }
}

/// Reads the head of the next request; tests send no bodies.
pub(crate) async fn head(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}
