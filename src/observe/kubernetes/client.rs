//! A single HTTPS request, bounded in time and size, with the credentials of a kubeconfig.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::{ACCEPT, AGE, AUTHORIZATION, RETRY_AFTER, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::BodyExt as _;
use hyper_util::client::legacy::Builder;
use hyper_util::rt::TokioExecutor;
use jiff::Timestamp;
use kube::Config;
use kube::client::middleware::BaseUriLayer;
use kube::client::{Body, Client, ClientBuilder, ConfigExt as _};
use memchr::memmem;
use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use tower::{Layer as _, ServiceExt as _};

use super::auth::Auth;
use super::dial::{self, Answered, Dialer, Fault, Shown};
use super::gaps;
use super::intake::{Intake, Keep};
use super::peer::{Peer, PeerVerifier};
use super::whom::{Place, Target, Trusted};
use crate::config::proxy::{Proxy, Routes};
use crate::config::roots::Roots;
use crate::config::{certificate, kubeconfig};
use crate::observe::budget::Budget;
use crate::observe::dial::{cause, date, each_address, server_name};
#[cfg(feature = "record")]
use crate::observe::record::kubernetes as record;
use crate::observe::trace::{Bytes, Span};
use crate::snapshot::{Gap, GapKind, Observed, Validity};

/// A complete answer, with any status.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// `Date` header: the server's clock.
    pub(super) date: Option<Timestamp>,
    /// The validity of the certificate that the server presented; `None` if it cannot be read.
    pub(super) certificate: Option<Validity>,
    pub(super) body: Vec<u8>,
    /// When to retry (`Retry-After`), if the server is overloaded.
    pub(super) later: Option<Duration>,
    /// Permission to be long, held as long as the answer exists.
    #[expect(dead_code, reason = "held, not read")]
    pub(super) leave: Option<OwnedSemaphorePermit>,
}

impl Answer {
    /// Returns the body of a plain 200; for any other status, the gap.
    pub(super) fn body_if_ok(&self) -> Observed<&[u8]> {
        if self.status == StatusCode::OK { Ok(&self.body) } else { Err(gaps::from_status(self.status, &self.body)) }
    }
}

/// Size up to which any answer may be kept, and how many answers may exceed it at once.
const SHORT: usize = 1 << 20;
const LONG_AT_ONCE: usize = 2;
/// Limits for retries of a request to an overloaded server, and for the wait that it asks for: API servers suggest a second.
const AGAIN: u32 = 2;
const LATER: Duration = Duration::from_secs(5);
/// Minimum length of a token that cannot occur in an answer by chance.
const SECRET: usize = 16;

/// Bytes of one answer, and of all answers of a connection, that may be in flight at once. Answers that wait for [`LONG_AT_ONCE`] keep
/// their share, and must not use up that of the others.
const STREAM_WINDOW: u32 = 2 << 20;
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * 32;

/// A server that is connected.
#[derive(Clone)]
pub(super) struct Opened {
    client: Client,
    /// Set if all requests share one connection.
    is_shared: bool,
    /// Set once a request over this connection has got no answer.
    has_failed: Arc<AtomicBool>,
}

/// State shared by all requests with one kubeconfig.
pub(super) struct Transport {
    dialer: Dialer,
    /// The verifier for addresses that the kubeconfig does not name.
    machines: Observed<Arc<PeerVerifier>>,
    /// Headers of every request except credentials: accepted formats, and impersonation (`as` of the kubeconfig).
    headers: HeaderMap,
    auth: Auth,
    /// Set once a server has refused the credentials (401).
    was_refused: AtomicBool,
    timeout: Duration,
    long: Arc<Semaphore>,
    /// Connections opened since the last complete round began.
    opened: Mutex<HashMap<Place, Arc<OnceCell<Observed<Opened>>>>>,
    pub(super) budget: Arc<Budget>,
}

impl Transport {
    /// Reads the kubeconfig's TLS settings and credentials. An exec plugin runs here for the first time, within `timeout`.
    pub(super) async fn new(config: &Config, routes: Routes, roots: &Roots, timeout: Duration) -> Observed<Self> {
        if config.accept_invalid_certs {
            return Err(Gap::new(GapKind::Malformed, "the kubeconfig disables TLS verification"));
        }
        if config.cluster_url.scheme_str() != Some("https") {
            return Err(Gap::new(GapKind::Malformed, "the server of the kubeconfig is not an `https://` address"));
        }
        let name = config
            .tls_server_name
            .clone()
            .map(ServerName::try_from)
            .transpose()
            .map_err(|_| Gap::new(GapKind::Malformed, "`tls-server-name` is not a hostname"))?;
        let extra = config.extra_headers_layer().map_err(|_| unusable())?;
        let echo = tower::service_fn(async |request: Request<()>| Ok::<_, Infallible>(request.into_parts().0.headers));
        let Ok(mut headers) = extra.layer(echo).oneshot(Request::new(())).await;
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("cluster-health/", env!("CARGO_PKG_VERSION"))));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/plain;q=0.9, */*;q=0.8"));
        let mut config = config.clone();
        let auth = Auth::new(&mut config.auth_info, timeout).await?;
        // Only the endpoint can be a public server.
        let current = |roots: &[CertificateDer<'static>]| -> Vec<Vec<u8>> {
            roots.iter().filter(|ca| certificate::is_current(ca)).map(|ca| ca.to_vec()).collect()
        };
        let machines = match roots {
            Roots::Own(own) => PeerVerifier::new(Peer::Machine, &current(own)),
            Roots::OfSystem(_) => Err(gaps::without_ca()),
        };
        let trusted = current(roots.all());
        let endpoint = PeerVerifier::new(Peer::Endpoint, &trusted)?;
        config.root_cert = Some(trusted);
        let identity = kubeconfig::identity(&mut config.auth_info).map_err(|it| Gap::new(GapKind::Malformed, it))?;
        let prepare = move || config.rustls_client_config();
        let mut tls = blocking(timeout, prepare).await?.map_err(|error: kube::Error| match error {
            // This concerns certificates of the kubeconfig: the texts name the fault without any contents.
            kube::Error::RustlsTls(cause) => Gap::new(GapKind::Malformed, gaps::short(&cause.to_string())),
            _ => unusable(),
        })?;
        if let Some(identity) = identity {
            let mismatch = |_| Gap::new(GapKind::Malformed, "the client key is not that of the client certificate");
            tls.client_auth_cert_resolver = identity.resolver().map_err(mismatch)?;
        }
        tls.dangerous().set_certificate_verifier(endpoint);
        tls.alpn_protocols = [dial::HTTP2, b"http/1.1"].map(<[u8]>::to_vec).into();
        // Without resumption, every connection proves that both certificates are accepted.
        tls.resumption = Resumption::disabled();
        let dialer = Dialer {
            tls: Arc::new(tls),
            name,
            routes,
            ready: Arc::default(),
            // Shorter than the whole call, so that a silent host is reported as a failed connection.
            timeout: timeout * 4 / 5,
        };
        let long = Arc::new(Semaphore::new(LONG_AT_ONCE));
        let opened = Mutex::default();
        let (was_refused, budget) = (AtomicBool::default(), Arc::default());
        Ok(Self { dialer, machines, headers, auth, was_refused, timeout, long, opened, budget })
    }

    /// Returns whether each address of the server's name accepts connections. Behind a name with several addresses, a dead one shows only
    /// when it happens to be used.
    pub(super) async fn each_address(&self, of: &Place) -> Vec<(SocketAddr, Observed<()>)> {
        let server = dial::endpoint(&of.server);
        match self.dialer.way(&server) {
            Ok(Proxy::Direct) => each_address(&server.host, server.port).await,
            _ => Vec::new(),
        }
    }

    /// Returns whether the transport should be rebuilt to get new credentials. A client certificate is part of everything it has prepared.
    pub(super) fn is_outdated(&self) -> bool {
        self.auth.is_over(self.was_refused.load(Ordering::Relaxed))
    }

    /// Begins a round. A complete round opens new connections: an old one does not prove that the server accepts new ones, nor does it show
    /// the certificate that the server presents now.
    pub(super) fn renew(&self, anew: bool) {
        let is_fine = |cell: &OnceCell<Observed<Opened>>| {
            cell.get().and_then(|it| it.as_ref().ok()).is_some_and(|it| !it.has_failed.load(Ordering::Relaxed))
        };
        self.opened().retain(|_, cell| !anew && is_fine(cell));
    }

    fn opened(&self) -> MutexGuard<'_, HashMap<Place, Arc<OnceCell<Observed<Opened>>>>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns this round's connection to a server: opened by the first caller and shared by all. A server that cannot be connected is not
    /// tried again.
    pub(super) async fn client(&self, place: &Place) -> Observed<Opened> {
        let opened = Arc::clone(self.opened().entry(place.clone()).or_default());
        opened.get_or_init(|| Box::pin(self.open(place))).await.clone()
    }

    async fn open(&self, Place { server, peer, name }: &Place) -> Observed<Opened> {
        let dialer = match peer {
            Peer::Endpoint => self.dialer.clone(),
            Peer::Machine => {
                let mut tls = (*self.dialer.tls).clone();
                tls.dangerous().set_certificate_verifier(self.machines.clone()?);
                let name = name.as_deref().map(server_name).transpose()?;
                Dialer { tls: Arc::new(tls), name, ..self.dialer.clone() }
            }
        };
        let connection = dialer.clone().dial(server.clone()).await?;
        let is_shared = connection.speaks_http2();
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http2_only(is_shared)
            .http2_initial_stream_window_size(STREAM_WINDOW)
            .http2_initial_connection_window_size(CONNECTION_WINDOW);
        let dialer = Dialer { ready: Arc::new(Mutex::new(Some(connection))), ..dialer };
        Ok(Opened { client: client(dialer, &builder, server.clone()), is_shared, has_failed: Arc::default() })
    }

    /// Sends `GET` for `path` below the server. If the kubeconfig has secret credentials and the server may not receive them, it only sees
    /// a TLS handshake.
    pub(super) async fn get(&self, of: &Target, path: &'static str, keep: Keep) -> Observed<Answer> {
        let mut request = Request::new(Vec::new());
        *request.uri_mut() = Uri::from_static(path);
        match of {
            Target::Trusted(trusted) => self.ask(trusted, request, keep).await,
            Target::Claimed(claimed) if claimed.place().name.is_none() && self.has_secret().await? => {
                self.client(claimed.place()).await?;
                Err(gaps::untrusted(claimed.place()))
            }
            Target::Claimed(claimed) => {
                Box::pin(self.exchange(claimed.place(), self.headers.clone(), request, keep)).await
            }
        }
    }

    /// Requests one answer, with any status, with the credentials. Redirects are not followed, and requests are retried only if an
    /// overloaded server asks for it or a shared connection is lost.
    pub(super) async fn ask(&self, of: &Trusted, request: Request<Vec<u8>>, keep: Keep) -> Observed<Answer> {
        let headers = self.with_credentials(of).await?;
        // Boxed: a request is a large future, and a round has many.
        Box::pin(self.exchange(of.place(), headers, request, keep)).await
    }

    async fn exchange(
        &self,
        of: &Place,
        headers: HeaderMap,
        request: Request<Vec<u8>>,
        keep: Keep,
    ) -> Observed<Answer> {
        let (parts, body) = request.into_parts();
        let mut span = span(of, &parts);
        #[cfg(feature = "record")]
        let mut tape = record::Tape::new(&of.server, &parts);
        let outcome = self.answer(of, headers, parts, body, keep, &span.bytes()).await;
        span.end(&outcome);
        #[cfg(feature = "record")]
        tape.end(outcome.as_ref().map(|answer| (answer.status.as_u16(), answer.date, answer.body.as_slice())));
        outcome
    }

    async fn answer(
        &self,
        of: &Place,
        headers: HeaderMap,
        mut parts: Parts,
        body: Vec<u8>,
        keep: Keep,
        bytes: &Bytes,
    ) -> Observed<Answer> {
        let Opened { client, is_shared, has_failed } = self.client(of).await?;
        let authorization = headers.get(AUTHORIZATION).cloned();
        parts.headers.extend(headers);
        let asked = async |client: &Client| {
            let response = send(client, || Request::from_parts(parts.clone(), Body::from(body.clone()))).await?;
            read(response, keep, &self.long, bytes).await
        };
        let once = async || {
            match asked(&client).await {
                // A shared connection may end because of any other request; an exclusive one may not.
                Err(gap) if is_shared && gap.kind == GapKind::Broken => asked(&self.open(of).await?.client).await,
                answer => answer,
            }
        };
        let begun = Instant::now();
        let call = async {
            let mut answer = once().await;
            for _ in 0..AGAIN {
                let has_time = |later: &Duration| begun.elapsed() + 2 * *later < self.timeout;
                let Some(later) = answer.as_ref().ok().and_then(|answer| answer.later).filter(has_time) else { break };
                drop(answer);
                sleep(later).await;
                answer = once().await;
            }
            answer
        };
        let answer = timeout(self.timeout, call).await.unwrap_or_else(|_| Err(cause::no_answer(self.timeout)));
        has_failed.fetch_or(answer.is_err(), Ordering::Relaxed);
        let answer = answer?;
        self.was_refused.fetch_or(answer.status == StatusCode::UNAUTHORIZED, Ordering::Relaxed);
        Ok(concealed(answer, authorization.as_ref()))
    }

    /// Adds the credentials. This is the only place where they enter a request, and only for a server that may receive them.
    async fn with_credentials(&self, _: &Trusted) -> Observed<HeaderMap> {
        let mut headers = self.headers.clone();
        if let Some(authorization) = self.auth.header(self.timeout).await? {
            headers.insert(AUTHORIZATION, authorization);
        }
        Ok(headers)
    }

    /// Returns whether the kubeconfig has a token or a password. A client certificate cannot be stolen by the server that it is presented
    /// to.
    pub(super) async fn has_secret(&self) -> Observed<bool> {
        Ok(self.auth.header(self.timeout).await?.is_some())
    }
}

fn span(Place { server, .. }: &Place, request: &Parts) -> Span {
    Span::begin(|| {
        // The query may contain text from a server, so only the path is recorded.
        let path = request.uri.path();
        let at = [("server.address", server.host().unwrap_or_default().into()), ("url.path", path.into())];
        let port = ("server.port", dial::endpoint(server).port.into());
        (format!("{} {path}", request.method), at.into_iter().chain([port]).collect())
    })
}

fn client(dialer: Dialer, builder: &Builder, server: Uri) -> Client {
    let service = builder.build::<_, Body>(dialer);
    ClientBuilder::new(service, "default").with_layer(&BaseUriLayer::new(server)).build()
}

/// Sends a `GET`, and sends it again if it was lost with a connection that had brought answers before.
///
/// A server or a balancer may close a connection just as the next request is on its way, which proves nothing about the server. A new
/// connection does prove something. The loop ends there, since each lost connection is gone from the pool.
async fn send(client: &Client, request: impl Fn() -> Request<Body>) -> Observed<Response<Body>> {
    loop {
        match client.send(request()).await {
            Ok(response) => {
                if let Some(answered) = response.extensions().get::<Answered>() {
                    answered.now();
                }
                return Ok(response);
            }
            Err(error) => {
                let (has_answered, fault) = of_connection(&error);
                if let Some(fault) = fault {
                    return Err(fault);
                }
                if !(has_answered && is_loss(&error)) {
                    return Err(cause::of_chain(&error));
                }
            }
        }
    }
}

/// Returns whether the connection had brought an answer before, and why it ended.
fn of_connection(error: &kube::Error) -> (bool, Option<Gap>) {
    let error: Option<&hyper_util::client::legacy::Error> = cause::find(error);
    let mut extras = http::Extensions::new();
    error.and_then(|error| error.connect_info()).into_iter().for_each(|connected| connected.get_extras(&mut extras));
    (extras.get().is_some_and(Answered::ever), extras.get().and_then(Fault::told).cloned())
}

/// Returns whether an error means that no answer came: a reply that is not HTTP or not TLS counts as an answer.
fn is_loss(error: &kube::Error) -> bool {
    !cause::find(error).is_some_and(hyper::Error::is_parse) && cause::find::<rustls::Error>(error).is_none()
}

async fn read(response: Response<Body>, keep: Keep, long: &Arc<Semaphore>, bytes: &Bytes) -> Observed<Answer> {
    let status = response.status();
    let date = date(response.headers());
    if let Some(age) = cached_for(response.headers()) {
        let text = format!("answered from a cache between this runner and the API server, {age}s old");
        return Err(Gap::new(GapKind::Malformed, text));
    }
    let certificate = response.extensions().get::<Shown>().and_then(|shown| certificate::validity(&shown.0));
    let later = later(status, response.headers());
    let fault = response.extensions().get::<Fault>().cloned();
    let mut stream = response.into_body();
    let (mut intake, mut leave) = (Intake::new(keep, status), None);
    while let Some(frame) = stream.frame().await {
        let told = || fault.as_ref().and_then(Fault::told).cloned();
        let frame = frame.map_err(|error| told().unwrap_or_else(|| cause::of_chain(&error)))?;
        let Some(part) = frame.data_ref() else { continue };
        bytes.came(part.len());
        intake.take(part)?;
        if leave.is_none() && intake.kept() > SHORT {
            // The semaphore is never closed.
            leave = Arc::clone(long).acquire_owned().await.ok();
        }
    }
    Ok(Answer { status, date, certificate, body: intake.into_body()?, later, leave })
}

/// Removes answers that repeat the credentials, since a server may do that and parts of an answer are shown to users. A successful answer
/// is left as it is if the secret is so short that it may occur by chance.
fn concealed(mut answer: Answer, authorization: Option<&HeaderValue>) -> Answer {
    let value = authorization.map_or(&[][..], HeaderValue::as_bytes);
    let secret = value.iter().position(|byte| *byte == b' ').map_or(value, |space| &value[space + 1..]);
    let shortest = if answer.status == StatusCode::OK { SECRET } else { 1 };
    if secret.len() >= shortest && memmem::find(&answer.body, secret).is_some() {
        answer.body = b"(repeats the credentials)".to_vec();
    }
    answer
}

/// Returns the wait requested by an overloaded API server.
fn later(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER).filter(|_| status == StatusCode::TOO_MANY_REQUESTS)?.to_str().ok()?;
    seconds.parse().ok().map(Duration::from_secs).filter(|later| *later <= LATER)
}

/// Returns how many seconds a cache on the way has had the answer. Caches have to report this (RFC 9111), and API servers never do.
fn cached_for(headers: &HeaderMap) -> Option<u64> {
    headers.get(AGE)?.to_str().ok()?.parse().ok().filter(|age| *age > 0)
}

fn unusable() -> Gap {
    Gap::new(GapKind::Unauthenticated, "the credentials cannot be used")
}

/// Runs work on a thread that may block, for a bounded time.
async fn blocking<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> Observed<T> {
    match timeout(limit, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(_)) => Err(unusable()),
        Err(_) => Err(Gap::new(GapKind::Unauthenticated, format!("no credentials within {limit:?}"))),
    }
}
