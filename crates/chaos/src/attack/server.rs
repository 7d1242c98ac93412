//! An HTTPS server with configurable answers, and the credentials for it.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{ServerConfig, crypto::ring};

#[derive(Clone)]
pub(super) enum Answer {
    Json(Bytes),
    Text(&'static str),
    /// gRPC messages, including their frames.
    Message(Bytes),
    NotFound,
    Refused,
}

pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(super) fn new() -> anyhow::Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(Self(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    fn issue(&self, host: &str, subject: &[(DnType, &str)]) -> anyhow::Result<(rcgen::Certificate, KeyPair)> {
        let names = [host, "kubernetes.default.svc"].map(str::to_owned);
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in subject.iter().filter(|(_, value)| !value.is_empty()) {
            params.distinguished_name.push(kind.clone(), *value);
        }
        params.extended_key_usages =
            vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth, rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        Ok((params.signed_by(&key, &self.0)?, key))
    }

    pub(super) fn talosconfig(&self, port: u16) -> anyhow::Result<String> {
        let (certificate, key) = self.issue("127.0.0.1", &[])?;
        let [ca, crt, key] = [self.0.pem(), certificate.pem(), key.serialize_pem()].map(|pem| STANDARD.encode(pem));
        Ok(format!(
            "context: a\ncontexts:\n  a:\n    endpoints: ['127.0.0.1:{port}']\n    ca: {ca}\n    crt: {crt}\n    key: {key}\n"
        ))
    }

    pub(super) fn kubeconfig(&self, port: u16) -> String {
        let ca = STANDARD.encode(self.0.pem());
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
             clusters: [{{name: a, cluster: {{server: 'https://127.0.0.1:{port}', certificate-authority-data: {ca}}}}}]\n\
             users: [{{name: a, user: {{token: a}}}}]\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n"
        )
    }

    /// Serves until the runtime ends.
    pub(super) async fn serve(&self, answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> anyhow::Result<u16> {
        self.serve_as("127.0.0.1", &[], move |asked, _| answer(asked)).await
    }

    /// Serves at another address and with this certificate subject, and passes the request headers to `answer`.
    pub(super) async fn serve_as(
        &self,
        host: &str,
        subject: &[(DnType, &str)],
        answer: impl Fn(&str, &HeaderMap) -> Answer + Send + Sync + 'static,
    ) -> anyhow::Result<u16> {
        let (certificate, key) = self.issue(host, subject)?;
        let mut tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key.into())?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let (tls, answer) = (TlsAcceptor::from(Arc::new(tls)), Arc::new(answer));
        let listener = TcpListener::bind((host, 0)).await?;
        let port = listener.local_addr()?.port();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (tls, answer) = (tls.clone(), Arc::clone(&answer));
                tokio::spawn(async move {
                    let Ok(stream) = tls.accept(tcp).await else { return };
                    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                        ready(respond(answer(&request.uri().to_string(), request.headers())))
                    });
                    let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(port)
    }
}

/// Frames one gRPC message.
pub(super) fn framed(message: &[u8]) -> Answer {
    stream(&[message.to_vec()])
}

/// Frames several gRPC messages, one after the other.
pub(super) fn stream(messages: &[Vec<u8>]) -> Answer {
    let frame = |message: &Vec<u8>| [&[0][..], &(message.len() as u32).to_be_bytes(), message].concat();
    Answer::Message(messages.iter().flat_map(frame).collect())
}

fn respond(answer: Answer) -> http::Result<Response<BoxBody<Bytes, Infallible>>> {
    let (kind, status, body, code) = match answer {
        Answer::Json(body) => ("application/json", 200, body, None),
        Answer::Text(text) => ("text/plain", 200, text.into(), None),
        Answer::Refused => ("text/plain", 403, Bytes::new(), None),
        Answer::NotFound => ("application/grpc", 200, Bytes::new(), Some("5")),
        Answer::Message(body) => ("application/grpc", 200, body, Some("0")),
    };
    let trailers = code.map(|code| {
        let texts = [("grpc-status", code), ("grpc-message", "it doesn't exist")];
        texts.map(|(name, text)| (HeaderName::from_static(name), HeaderValue::from_static(text))).into_iter().collect()
    });
    let body = match trailers {
        Some(trailers) => Full::new(body).with_trailers(ready(Some(Ok(trailers)))).boxed(),
        None => Full::new(body).boxed(),
    };
    Response::builder().status(status).header("content-type", kind).body(body)
}
