//! Our way of dialing as a connector of hyper's client, which kube sends its requests through.
//!
//! kube's own connector reports name, proxy, TCP and TLS as one chain of foreign errors and matches `NO_PROXY` against the
//! proxy instead of the server.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::Connected;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::client::TlsStream;
use tower::Service;

use crate::config::endpoint::Endpoint;
use crate::config::proxy::{Proxy, Routes};
use crate::observe::dial::cause::Failed;
use crate::observe::dial::{self, cause};
use crate::snapshot::{Gap, GapKind};

/// Port of `https` where the URL has none.
const HTTPS: u16 = 443;

/// Opens verified TLS connections for hyper's client.
#[derive(Clone)]
pub(super) struct Dialer {
    pub(super) tls: Arc<rustls::ClientConfig>,
    /// `tls-server-name` of the kubeconfig; else the host that is dialed is verified.
    pub(super) name: Option<ServerName<'static>>,
    pub(super) routes: Routes,
    /// For name, proxy, TCP and TLS together.
    pub(super) timeout: Duration,
}

impl Dialer {
    /// The proxy on the way to `server`.
    pub(super) fn way(&self, server: &Endpoint) -> Result<Proxy, Gap> {
        self.routes.to(server).map_err(|error| Gap::new(GapKind::Proxy, error.message))
    }

    async fn dial(self, server: Uri) -> Result<Connection, Gap> {
        let deadline = Instant::now() + self.timeout;
        let server = endpoint(&server);
        let via = self.way(&server)?;
        let name = match self.name {
            Some(name) => name,
            None => dial::server_name(&server.host)?,
        };
        let tcp = timeout_at(deadline, dial::connect(&via, &server.host, server.port))
            .await
            .unwrap_or_else(|_| Err(cause::no_connection(self.timeout)))?;
        let tls = timeout_at(deadline, dial::secure(self.tls, name, tcp))
            .await
            .unwrap_or_else(|_| Err(cause::no_handshake()))?;
        Ok(Connection(TokioIo::new(tls)))
    }
}

/// Where a URL leads to.
pub(super) fn endpoint(server: &Uri) -> Endpoint {
    let host = server.host().unwrap_or_default();
    // `Uri` keeps the brackets of an IPv6 address.
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Endpoint::new(bare, server.port_u16().unwrap_or(HTTPS))
}

impl Service<Uri> for Dialer {
    type Response = Connection;
    type Error = Failed;
    type Future = Pin<Box<dyn Future<Output = Result<Connection, Failed>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let dialed = self.clone().dial(server);
        Box::pin(async { dialed.await.map_err(Failed) })
    }
}

/// The certificate of the server, in DER: goes with each answer of the connection.
#[derive(Clone)]
pub(super) struct Shown(pub(super) Vec<u8>);

/// Whether a connection has brought an answer: goes with each answer of the connection, and with what ends it.
#[derive(Clone, Default)]
pub(super) struct Answered(Arc<AtomicBool>);

impl Answered {
    pub(super) fn now(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn ever(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A TLS connection as hyper wants it.
pub(super) struct Connection(TokioIo<TlsStream<TcpStream>>);

impl hyper_util::client::legacy::connect::Connection for Connection {
    fn connected(&self) -> Connected {
        let (_, tls) = self.0.inner().get_ref();
        let connected = Connected::new().extra(Answered::default());
        match tls.peer_certificates().and_then(<[_]>::first) {
            Some(leaf) => connected.extra(Shown(leaf.to_vec())),
            None => connected,
        }
    }
}

impl Read for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl Write for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_leads_to_its_host_and_port() {
        for (url, shown) in [
            ("https://k8s.example", "k8s.example:443"),
            ("https://10.0.0.1:6443/k8s/clusters/c-1", "10.0.0.1:6443"),
            ("https://[2001:db8::1]:6443", "[2001:db8::1]:6443"),
        ] {
            assert_eq!(endpoint(&url.parse().unwrap()).shown, shown);
        }
        assert_eq!(endpoint(&"https://[2001:db8::1]".parse().unwrap()).host, "2001:db8::1");
    }
}
