//! An HTTP/2 connection to one endpoint of Talos or etcd, and the cause of its end.
//!
//! We use our own connection rather than a `tonic` channel: a channel does not show when it connects and turns every cause into one text,
//! while "refused", "unknown CA" and "your certificate was refused" are different verdicts here.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::BoxFuture;
use http::header::{HeaderValue, USER_AGENT};
use http_body_util::BodyExt as _;
use http_body_util::combinators::MapFrame;
use hyper::body::Frame;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::{SignedDuration, Timestamp};
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Mutex;
use tonic::body::Body;
use tower::Service;

use super::tls::Verified;
use super::{cause, date};
use crate::config::endpoint;
use crate::config::omni::ServiceAccount;
use crate::config::proxy::Proxy;
#[cfg(feature = "record")]
use crate::observe::record::talos::{Heard, Reel};
use crate::observe::trace::Bytes;
use crate::snapshot::{Gap, GapKind};
use crate::text::clock::now;

/// The body of an answer.
#[cfg(not(feature = "record"))]
type Heard = hyper::body::Incoming;
/// The body of an answer, with its bytes counted as they arrive.
type Counted = MapFrame<Heard, Count>;
type Count = Box<dyn FnMut(Frame<hyper::body::Bytes>) -> Frame<hyper::body::Bytes> + Send>;

/// Bytes of one answer, and of all answers of a connection, that may be in flight at once. With HTTP/2's 64 KiB, the members of a large
/// cluster would take a round trip for each 64 KiB; an adaptive window would still lose its first round trips.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

/// The address of a server, and the proxy on the way to it.
#[derive(Clone)]
pub(crate) struct EndpointAddress {
    /// Name or address, without brackets; its certificate must be valid for it.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The address as shown to users.
    pub(crate) shown: String,
    pub(crate) via: Proxy,
}

impl EndpointAddress {
    pub(in crate::observe) fn authority(&self) -> String {
        endpoint::with_port(&self.host, self.port)
    }
}

/// The protocol below HTTP/2.
#[derive(Clone)]
pub(in crate::observe) enum Security {
    PlainText,
    Tls {
        config: Arc<ClientConfig>,
        /// Refuses a server that does not agree on HTTP/2 in the handshake.
        demands_h2: bool,
    },
    /// A connection to Omni: each call is signed, which requires that the server was verified.
    Signed {
        config: Verified,
        account: Arc<ServiceAccount>,
    },
}

/// An endpoint and the connection to it, which is opened when first needed and again after it was lost.
pub(in crate::observe) struct Link {
    pub(in crate::observe) address: EndpointAddress,
    security: Security,
    live: Mutex<Option<Http2>>,
    /// Set once the current attempt to open the connection, or else the last one, has reached TLS.
    connected: AtomicBool,
}

impl Link {
    pub(in crate::observe) fn new(address: EndpointAddress, security: Security) -> Self {
        Self { address, security, live: Mutex::new(None), connected: AtomicBool::new(false) }
    }

    /// Returns the present connection, or opens a new one. `true` if it already existed.
    ///
    /// Callers that arrive while it is being opened wait for the one that opens it. The deadline is up to them.
    pub(in crate::observe) async fn open(&self) -> Result<(Http2, bool), Gap> {
        let mut live = self.live.lock().await;
        if let Some(present) = live.as_ref().filter(|present| !present.sender.is_closed()) {
            return Ok((present.clone(), true));
        }
        *live = None;
        let fresh = self.dial().await?;
        *live = Some(fresh.clone());
        Ok((fresh, false))
    }

    /// Returns why [`Link::open`] did not finish in time. A packet filter drops packets, while a frozen server still accepts connections
    /// because its kernel does.
    pub(in crate::observe) fn silence(&self, within: Duration) -> Gap {
        if self.connected.load(Ordering::Relaxed) { cause::no_handshake() } else { cause::no_connection(within) }
    }

    /// Drops a connection that has not answered anything since `answers` was read, so that the next call opens a new one. Packets of an old
    /// connection may be lost for minutes after the peer has come back.
    pub(in crate::observe) async fn doubt(&self, suspect: &Http2, answers: u64) {
        let mut live = self.live.lock().await;
        if live.as_ref().is_some_and(|present| Arc::ptr_eq(&present.answers, &suspect.answers))
            && suspect.answers() == answers
        {
            *live = None;
        }
    }

    async fn dial(&self) -> Result<Http2, Gap> {
        let EndpointAddress { host, port, via, .. } = &self.address;
        self.connected.store(false, Ordering::Relaxed);
        let stream = super::connect(via, host, *port).await?;
        self.connected.store(true, Ordering::Relaxed);
        let (tls, account) = match &self.security {
            Security::PlainText => (None, None),
            Security::Tls { config, demands_h2 } => (Some((Arc::clone(config), *demands_h2)), None),
            Security::Signed { config, account } => {
                (Some((config.clone().into_inner(), true)), Some(Arc::clone(account)))
            }
        };
        let (scheme, wire) = match tls {
            None => ("http", Watched::new(stream)),
            Some((config, demands_h2)) => {
                let name = super::server_name(host)?;
                let stream = super::secure(config, name, stream).await?;
                if demands_h2 && stream.get_ref().1.alpn_protocol() != Some(b"h2") {
                    return Err(Gap::new(GapKind::Broken, "the server does not offer HTTP/2"));
                }
                ("https", Watched::new(stream))
            }
        };

        let fault = wire.fault();
        let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(TokioIo::new(wire))
            .await
            .map_err(|error| cause::of_loss(&error, fault.get()))?;
        // The task ends when the last sender is dropped; its error is in `fault` or reaches the calls.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        let origin =
            http::Uri::builder().scheme(scheme).authority(self.address.authority()).path_and_query("/").build();
        let origin = origin.map_err(|_| cause::no_name(host))?;
        Ok(Http2 {
            sender,
            origin,
            fault,
            account,
            clock: Arc::default(),
            answers: Arc::new(AtomicU64::new(0)),
            bytes: Bytes::default(),
            #[cfg(feature = "record")]
            reel: None,
        })
    }
}

/// A sender of calls on one connection.
#[derive(Clone)]
pub(in crate::observe) struct Http2 {
    sender: SendRequest<Body>,
    origin: http::Uri,
    fault: Arc<OnceLock<Gap>>,
    /// Signs each call.
    account: Option<Arc<ServiceAccount>>,
    /// The server's clock in its first answer with a date, and our clock at that moment.
    clock: Arc<OnceLock<(Timestamp, Timestamp)>>,
    answers: Arc<AtomicU64>,
    bytes: Bytes,
    #[cfg(feature = "record")]
    reel: Option<Reel>,
}

impl Http2 {
    /// Returns the same connection, for a call that is recorded.
    #[cfg(feature = "record")]
    pub(in crate::observe) fn recorded(self, reel: Reel) -> Self {
        Self { reel: Some(reel), ..self }
    }

    /// Returns the same connection, for a call whose bytes are counted.
    pub(in crate::observe) fn counted(self, bytes: Bytes) -> Self {
        Self { bytes, ..self }
    }

    /// Returns the scheme and authority of every call.
    pub(in crate::observe) fn origin(&self) -> http::Uri {
        self.origin.clone()
    }

    /// Returns why the connection ended, if it has.
    pub(in crate::observe) fn fault(&self) -> Option<&Gap> {
        self.fault.get()
    }

    /// Returns whether each call is signed.
    pub(in crate::observe) fn is_signed(&self) -> bool {
        self.account.is_some()
    }

    /// Returns how far the server's clock is ahead of ours, if the server has sent a date.
    pub(in crate::observe) fn ahead(&self) -> Option<SignedDuration> {
        self.clock.get().map(|(theirs, ours)| theirs.duration_since(*ours))
    }

    /// Returns how many calls on this connection have been answered, with any status.
    pub(in crate::observe) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }
}

impl Service<http::Request<Body>> for Http2 {
    type Response = http::Response<Counted>;
    type Error = hyper::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    /// Always ready: tonic would turn an error from here into text, and the call that follows fails for the same reason.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let agent = HeaderValue::from_static(concat!("cluster-health/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(USER_AGENT, agent);
        if let Some(account) = &self.account {
            let method = request.uri().path().to_owned();
            account.sign(request.headers_mut(), &method);
        }
        #[cfg(feature = "record")]
        let reel = self.reel.clone().inspect(|reel| reel.sent(request.uri().path()));
        let answer = self.sender.send_request(request);
        let answers = Arc::clone(&self.answers);
        let clock = Arc::clone(&self.clock);
        let bytes = self.bytes.clone();
        let count: Count = Box::new(move |frame| {
            bytes.came(frame.data_ref().map_or(0, hyper::body::Bytes::len));
            frame
        });
        Box::pin(async move {
            let answer = answer.await?;
            answers.fetch_add(1, Ordering::Relaxed);
            if let Some(theirs) = date(answer.headers()) {
                let _ = clock.set((theirs, now()));
            }
            #[cfg(feature = "record")]
            let answer = Reel::listen(reel, answer);
            Ok(answer.map(|body| body.map_frame(count)))
        })
    }
}

/// The transport that HTTP/2 runs over.
trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// A transport that records the cause of the connection's end, which the layers above reduce to text.
pub(in crate::observe) struct Watched {
    inner: Box<dyn Wire>,
    fault: Arc<OnceLock<Gap>>,
    /// A write error, kept while the remaining input is read. Nothing is written after it.
    failed: Option<io::Error>,
}

impl Watched {
    pub(in crate::observe) fn new(inner: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self { inner: Box::new(inner), fault: Arc::default(), failed: None }
    }

    /// Returns the cell that receives the cause of the connection's end.
    pub(in crate::observe) fn fault(&self) -> Arc<OnceLock<Gap>> {
        Arc::clone(&self.fault)
    }

    fn keep(&self, error: &io::Error) {
        // The first cause counts; later ones are its consequences.
        let _ = self.fault.set(cause::of_io(error));
    }

    /// Writes, and reads the remaining input if that fails. A server that refuses our certificate sends an alert and closes, so a write may
    /// fail before the alert has been read. A connection that cannot be written to has ended, so its reader does not wait.
    fn poll_with<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut (dyn Wire + 'static)>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if self.failed.is_none() {
            match ready!(write(Pin::new(&mut *self.inner), cx)) {
                Ok(done) => return Poll::Ready(Ok(done)),
                Err(failed) => self.failed = Some(failed),
            }
        }
        let alert = ready!(self.poll_alert(cx));
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        let error = alert.or_else(|| self.failed.replace(closed())).unwrap_or_else(closed);
        self.keep(&error);
        Poll::Ready(Err(error))
    }

    fn poll_alert(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Error>> {
        let mut scratch = [0; 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut self.inner).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                Err(told) if cause::find::<rustls::Error>(&told).is_some() => return Poll::Ready(Some(told)),
                _ => return Poll::Ready(None),
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
        self.poll_with(cx, |wire, cx| wire.poll_write(cx, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_with(cx, AsyncWrite::poll_flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use rustls::AlertDescription;
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[derive(Clone, Copy)]
    enum Piece {
        NotYet,
        Bytes,
        Alert,
        Reset,
    }

    /// A connection that the peer has closed: the first write fails, and reading returns the remaining pieces, then the end.
    struct Closed {
        pieces: VecDeque<Piece>,
        wrote: bool,
    }

    impl Closed {
        fn fail_once(&mut self) -> io::Result<()> {
            if std::mem::replace(&mut self.wrote, true) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
        }
    }

    impl AsyncRead for Closed {
        fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            let alert = || rustls::Error::AlertReceived(AlertDescription::UnknownCA);
            match self.pieces.pop_front() {
                Some(Piece::NotYet) => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Some(Piece::Bytes) => buffer.put_slice(b"settings"),
                Some(Piece::Alert) => return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, alert()))),
                Some(Piece::Reset) => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                None => {}
            }
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Closed {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(self.fail_once().map(|()| bytes.len()))
        }

        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(self.fail_once())
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn an_alert_is_heard_before_a_failed_write_is_told() {
        for (pieces, kind) in [
            (&[Piece::Alert][..], GapKind::ClientCertificateRefused),
            (&[Piece::NotYet, Piece::Bytes, Piece::NotYet, Piece::Alert], GapKind::ClientCertificateRefused),
            (&[Piece::NotYet, Piece::Reset], GapKind::Broken),
            (&[], GapKind::Broken),
        ] {
            for flush in [false, true] {
                let mut stream = Watched::new(Closed { pieces: pieces.iter().copied().collect(), wrote: false });
                let fault = stream.fault();
                let failed = if flush { stream.flush().await } else { stream.write_all(b"x").await };
                assert_eq!(cause::of_io(&failed.unwrap_err()).kind, kind);
                stream.write_all(b"x").await.unwrap_err();
                assert_eq!(fault.get().map(|gap| gap.kind), Some(kind));
            }
        }
    }
}
