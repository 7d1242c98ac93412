//! One HTTP/2 connection to one endpoint, and what became of it.
//!
//! The connection is our own rather than a `tonic` channel: a channel hides when it connects and turns every cause into one
//! text, while "refused", "unknown CA" and "your certificate was refused" are different verdicts here.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::{HeaderValue, USER_AGENT};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::client::TlsStream;
use tonic::body::Body;
use tower::Service;

use super::EndpointAddress;
use crate::observe::dial::{self, cause};
#[cfg(feature = "record")]
use crate::observe::record::talos::{Heard, Reel};
use crate::snapshot::{Gap, GapKind};

/// The body of an answer.
#[cfg(not(feature = "record"))]
type Heard = hyper::body::Incoming;

/// Bytes of one answer, and of all answers of a connection, that may be on their way at once. HTTP/2's 64 KiB would make the members
/// of a large cluster wait for a round trip each 64 KiB; a window that grows with what it measures waits for its first ones, too.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

/// An endpoint and the connection to it, opened when first needed and again when it was lost.
pub(super) struct Link {
    pub(super) address: EndpointAddress,
    tls: Arc<ClientConfig>,
    live: Mutex<Option<Http2>>,
    /// The attempt to open it, the present or else the last one, got as far as TLS.
    connected: AtomicBool,
}

impl Link {
    pub(super) fn new(address: EndpointAddress, tls: Arc<ClientConfig>) -> Self {
        Self { address, tls, live: Mutex::new(None), connected: AtomicBool::new(false) }
    }

    /// The present connection, or a new one. `true`: it was there before.
    ///
    /// Callers that come while it is being opened wait for the one who opens it. The deadline is theirs to set.
    pub(super) async fn open(&self) -> Result<(Http2, bool), Gap> {
        let mut live = self.live.lock().await;
        if let Some(present) = live.as_ref().filter(|present| !present.sender.is_closed()) {
            return Ok((present.clone(), true));
        }
        *live = None;
        let fresh = self.dial().await?;
        *live = Some(fresh.clone());
        Ok((fresh, false))
    }

    /// Why [`Link::open`] has not come to its end in time. A filter drops packets; a frozen apid still accepts connections,
    /// which its kernel does for it.
    pub(super) fn silence(&self, within: Duration) -> Gap {
        if self.connected.load(Ordering::Relaxed) { cause::no_handshake() } else { cause::no_connection(within) }
    }

    /// Forgets a connection that has not answered anything since `answers` was read, so that the next call opens a new one.
    /// Packets of an old connection may vanish for minutes after the peer has come back.
    pub(super) async fn doubt(&self, suspect: &Http2, answers: u64) {
        let mut live = self.live.lock().await;
        if live.as_ref().is_some_and(|present| Arc::ptr_eq(&present.answers, &suspect.answers))
            && suspect.answers() == answers
        {
            *live = None;
        }
    }

    async fn dial(&self) -> Result<Http2, Gap> {
        let EndpointAddress { host, port, via, .. } = &self.address;
        let name = dial::server_name(host)?;
        self.connected.store(false, Ordering::Relaxed);
        let stream = dial::connect(via, host, *port).await?;
        self.connected.store(true, Ordering::Relaxed);
        let stream = dial::secure(Arc::clone(&self.tls), name, stream).await?;

        let fault = Arc::new(OnceLock::new());
        let io = TokioIo::new(Watched { inner: stream, fault: Arc::clone(&fault) });
        let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(io)
            .await
            .map_err(|error| {
                fault.get().cloned().unwrap_or_else(|| Gap::new(GapKind::Broken, cause::innermost(&error)))
            })?;
        // It ends when the last sender is dropped; its error is in `fault` or reaches the calls.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        let origin =
            http::Uri::builder().scheme("https").authority(self.address.authority()).path_and_query("/").build();
        let origin = origin.map_err(|_| cause::no_name(host))?;
        Ok(Http2 {
            sender,
            origin,
            fault,
            answers: Arc::new(AtomicU64::new(0)),
            #[cfg(feature = "record")]
            reel: None,
        })
    }
}

/// A sender of calls on one connection.
#[derive(Clone)]
pub(super) struct Http2 {
    sender: SendRequest<Body>,
    origin: http::Uri,
    fault: Arc<OnceLock<Gap>>,
    answers: Arc<AtomicU64>,
    #[cfg(feature = "record")]
    reel: Option<Reel>,
}

impl Http2 {
    /// The same connection, for a call that is recorded.
    #[cfg(feature = "record")]
    pub(super) fn recorded(self, reel: Reel) -> Self {
        Self { reel: Some(reel), ..self }
    }

    /// Scheme and authority of every call.
    pub(super) fn origin(&self) -> http::Uri {
        self.origin.clone()
    }

    /// Why the connection ended, if it has.
    pub(super) fn fault(&self) -> Option<&Gap> {
        self.fault.get()
    }

    /// How many calls have been answered on it, with whatever answer.
    pub(super) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }
}

impl Service<http::Request<Body>> for Http2 {
    type Response = http::Response<Heard>;
    type Error = hyper::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.sender.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let agent = HeaderValue::from_static(concat!("cluster-health/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(USER_AGENT, agent);
        #[cfg(feature = "record")]
        let reel = self.reel.clone().inspect(|reel| reel.sent(request.uri().path()));
        let answer = self.sender.send_request(request);
        let answers = Arc::clone(&self.answers);
        Box::pin(async move {
            let answer = answer.await?;
            answers.fetch_add(1, Ordering::Relaxed);
            #[cfg(feature = "record")]
            let answer = Reel::listen(reel, answer);
            Ok(answer)
        })
    }
}

/// Keeps the cause of the connection's end, which the layers above reduce to a text.
struct Watched {
    inner: TlsStream<TcpStream>,
    fault: Arc<OnceLock<Gap>>,
}

impl Watched {
    fn keep(&self, error: &io::Error) {
        // The first cause is the cause; later ones are its consequences.
        let _ = self.fault.set(cause::of_io(error));
    }

    /// A server that refuses our certificate sends an alert and closes, so the next write may fail before the alert was read.
    fn write_failed(&mut self, cx: &mut Context<'_>, error: &io::Error) {
        let mut scratch = [0; 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut scratch);
            match Pin::new(&mut self.inner).poll_read(cx, &mut buffer) {
                Poll::Ready(Err(told))
                    if told.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>) =>
                {
                    return self.keep(&told);
                }
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                _ => return self.keep(error),
            }
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = ready!(Pin::new(&mut self.inner).poll_read(cx, buffer));
        match &result {
            Err(error) => self.keep(error),
            Ok(()) if buffer.filled().len() == before && buffer.remaining() > 0 => {
                self.keep(&io::ErrorKind::UnexpectedEof.into());
            }
            Ok(()) => {}
        }
        Poll::Ready(result)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = ready!(Pin::new(&mut self.inner).poll_write(cx, bytes));
        if let Err(error) = &result {
            self.write_failed(cx, error);
        }
        Poll::Ready(result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = ready!(Pin::new(&mut self.inner).poll_flush(cx));
        if let Err(error) = &result {
            self.write_failed(cx, error);
        }
        Poll::Ready(result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
