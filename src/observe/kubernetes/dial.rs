//! Our dialing as a connector for hyper's client, which kube sends its requests through.
//!
//! kube's own connector reports name, proxy, TCP and TLS as one chain of foreign errors and matches `NO_PROXY` against the proxy instead of
//! the server.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::Connected;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::time::{Instant, timeout_at};
use tower::Service;

use crate::config::endpoint::Endpoint;
use crate::config::proxy::{Proxy, Routes};
use crate::observe::dial::cause::Failed;
use crate::observe::dial::http2::Watched;
use crate::observe::dial::{self, cause};
use crate::snapshot::{Gap, GapKind};

/// The default port of `https`.
const HTTPS: u16 = 443;
/// The ALPN identifier of HTTP/2.
pub(super) const HTTP2: &[u8] = b"h2";

/// Opens verified TLS connections for hyper's client.
#[derive(Clone)]
pub(super) struct Dialer {
    pub(super) tls: Arc<rustls::ClientConfig>,
    /// `tls-server-name` of the kubeconfig; without it, the dialed host is verified.
    pub(super) name: Option<ServerName<'static>>,
    pub(super) routes: Routes,
    /// Time limit for name, proxy, TCP and TLS together.
    pub(super) timeout: Duration,
    /// A connection that is already open, for the first caller.
    pub(super) ready: Arc<Mutex<Option<Connection>>>,
}

impl Dialer {
    /// Returns the proxy for connections to `server`.
    pub(super) fn way(&self, server: &Endpoint) -> Result<Proxy, Gap> {
        self.routes.to(server).map_err(|error| Gap::new(GapKind::Proxy, error.message))
    }

    pub(super) async fn dial(self, server: Uri) -> Result<Connection, Gap> {
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
        let (_, session) = tls.get_ref();
        let speaks_http2 = session.alpn_protocol() == Some(HTTP2);
        let shown = session.peer_certificates().and_then(<[_]>::first).map(|leaf| Shown(leaf.to_vec()));
        let tls = Watched::new(tls);
        let fault = Fault(tls.fault());
        Ok(Connection { wire: TokioIo::new(tls), speaks_http2, shown, fault })
    }
}

/// Returns the host and port of a URL.
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
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner).take();
        let dialer = self.clone();
        Box::pin(async move {
            match ready {
                Some(connection) => Ok(connection),
                None => dialer.dial(server).await.map_err(Failed),
            }
        })
    }
}

/// The server's certificate in DER, attached to each answer of the connection.
#[derive(Clone)]
pub(super) struct Shown(pub(super) Vec<u8>);

/// Whether a connection has brought an answer; attached to each answer of the connection and to the error that ends it.
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

/// The cause of a connection's end, which HTTP/2 does not expose; attached to each answer of the connection and to the error that ends it.
#[derive(Clone)]
pub(super) struct Fault(Arc<OnceLock<Gap>>);

impl Fault {
    /// Returns the cause if it is more specific than a lost connection.
    pub(super) fn told(&self) -> Option<&Gap> {
        self.0.get().filter(|gap| gap.kind != GapKind::Broken)
    }
}

/// A TLS connection in the form that hyper needs.
pub(super) struct Connection {
    wire: TokioIo<Watched>,
    speaks_http2: bool,
    shown: Option<Shown>,
    fault: Fault,
}

impl Connection {
    /// Returns whether both sides have agreed on HTTP/2.
    pub(super) fn speaks_http2(&self) -> bool {
        self.speaks_http2
    }
}

impl hyper_util::client::legacy::connect::Connection for Connection {
    fn connected(&self) -> Connected {
        let connected = Connected::new().extra(Answered::default()).extra(self.fault.clone());
        match &self.shown {
            Some(shown) => connected.extra(shown.clone()),
            None => connected,
        }
    }
}

impl Read for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_read(cx, buffer)
    }
}

impl Write for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(cx)
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
