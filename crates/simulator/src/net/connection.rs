//! The lifetime of one connection.

use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::conduct::{self, Conduct};
use super::line::Line;
use super::ports::{End, Tie};
use super::tls::Configs;
use super::{Service, balancer, mangle, tls};
use crate::state::ClusterState;

/// Maximum time that a connection which we have closed waits until the other side closes it, too.
const LINGER: Duration = Duration::from_secs(5);

/// A server with the state that its connections share.
pub(super) struct Served {
    pub(super) state: Arc<ClusterState>,
    pub(super) service: Service,
    configs: Configs,
    /// Counter that selects the next server behind a balancer.
    turn: AtomicUsize,
}

impl Served {
    pub(super) fn new(state: Arc<ClusterState>, service: Service) -> Self {
        Self { state, service, configs: Configs::default(), turn: AtomicUsize::new(0) }
    }
}

/// Handles a connection until one side closes it, or its machine breaks it.
pub(super) async fn run(stream: TcpStream, mut tie: Tie, served: Arc<Served>) {
    let _ = stream.set_nodelay(true);
    let socket = Arc::new(stream);
    let line = Line::new(Arc::clone(&socket), tie.clone());
    let conduct = tie.conduct();
    let end = tokio::select! {
        biased;
        end = tie.broken() => end,
        () = live(&socket, line, conduct, &served) => return,
    };
    if end == End::Silence {
        tokio::select! {
            () = tie.reset() => {}
            () = gone(&socket) => return,
        }
    }
    reset(&socket);
}

async fn live(socket: &TcpStream, mut line: Line, conduct: Conduct, served: &Served) {
    match conduct {
        // The connection was accepted just as the port was closed.
        Conduct::Closed => reset(socket),
        Conduct::BlackHole | Conduct::Silent => gone(socket).await,
        Conduct::Close => end(socket).await,
        Conduct::PlainHttp => {
            let _ = plain_http(&mut line).await;
            end(socket).await;
        }
        Conduct::Garbage => while line.write_all(&mangle::NOISE).await.is_ok() {},
        Conduct::Serve(service) if service.forwards => {
            let backend = balancer::backend(&served.state.world(), &served.turn);
            match backend {
                None => end(socket).await,
                Some(at) => {
                    if balancer::forward(line, at).await.is_err() {
                        reset(socket);
                    }
                }
            }
        }
        Conduct::Serve(service) => {
            let Ok(config) = served.configs.get(&served.state.pki, &served.service, &service.tls) else { return };
            match TlsAcceptor::from(config).accept(line).await {
                Ok(stream) => http(stream, &service, served).await,
                // Closing immediately could overtake the alert that contains the reason.
                Err(_) => end(socket).await,
            }
        }
    }
}

/// Answers requests until the other side sends no more.
async fn http(stream: TlsStream<Line>, service: &conduct::Service, served: &Served) {
    if service.silent {
        return std::future::pending().await;
    }
    let peer = tls::peer(stream.get_ref().1);
    let handler = Arc::clone(&served.service.handler);
    let limit = service.answers;
    // Calls are counted as they arrive, because the order in which they are answered is random.
    let (calls, answers) = (AtomicU32::new(0), Arc::new(AtomicU32::new(0)));
    let enough = Arc::new(Notify::new());
    let all_answered = Arc::clone(&enough);
    let answer = hyper::service::service_fn(move |mut request: http::Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        let answer = handler(request);
        let is_over = limit.is_some_and(|limit| calls.fetch_add(1, Ordering::Relaxed) >= limit);
        let (answers, enough) = (Arc::clone(&answers), Arc::clone(&enough));
        async move {
            if is_over {
                return Err(io::Error::from(io::ErrorKind::ConnectionReset));
            }
            let answer = answer.await;
            if limit == Some(answers.fetch_add(1, Ordering::Relaxed) + 1) {
                enough.notify_one();
            }
            Ok(mangle::apply(answer))
        }
    });
    let mut builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    // The `Date` header comes from the world's clock, and a simulated proxy may have removed it.
    builder.http1().auto_date_header(false);
    builder.http2().auto_date_header(false);
    // Like gRPC in Go: clients that limit themselves are not slowed down, clients that cancel calls are not disconnected, and the headers
    // of one call can contain the names of all nodes.
    builder.http2().max_concurrent_streams(None).max_header_list_size(16 << 20);
    builder.http2().max_pending_accept_reset_streams(usize::MAX).max_local_error_reset_streams(None);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), answer));
    tokio::select! {
        _ = connection.as_mut() => return,
        () = all_answered.notified() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// The answer of a server without TLS to a client that starts with TLS.
async fn plain_http(line: &mut Line) -> io::Result<()> {
    let mut greeting = [0; 1024];
    let _ = line.read(&mut greeting).await?;
    let answer = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request";
    line.write_all(answer.as_bytes()).await
}

/// Closes our direction and waits for the other side: closing the socket immediately would reset the connection if unread bytes are left,
/// and the last answer could be lost.
async fn end(socket: &TcpStream) {
    let _ = SockRef::from(socket).shutdown(Shutdown::Write);
    let _ = tokio::time::timeout(LINGER, gone(socket)).await;
}

/// Makes the socket send a reset when it is closed.
fn reset(socket: &TcpStream) {
    let _ = socket.set_zero_linger();
}

/// Waits until the other side has closed the connection, without reading what it sends.
async fn gone(socket: &TcpStream) {
    loop {
        match socket.ready(Interest::READABLE).await {
            Ok(ready) if !ready.is_read_closed() => {
                // Clears the socket's readiness, so that the loop waits for the next event.
                let unread = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
                let _ = socket.try_io(Interest::READABLE, unread);
            }
            _ => return,
        }
    }
}
