//! One HTTPS request, bounded in time and size, with the credentials of a kubeconfig.

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

/// A complete answer, whatever its status.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// `Date` header: the server's clock.
    pub(super) date: Option<Timestamp>,
    /// What the server showed in the TLS handshake; `None` if that cannot be read.
    pub(super) certificate: Option<Validity>,
    pub(super) body: Vec<u8>,
    /// When to ask again (`Retry-After`), if the server has too much to do.
    pub(super) later: Option<Duration>,
    /// To be long, for as long as it is there.
    #[expect(dead_code, reason = "held, not read")]
    pub(super) leave: Option<OwnedSemaphorePermit>,
}

impl Answer {
    /// The body of a plain 200; of anything else, why it says nothing.
    pub(super) fn body_if_ok(&self) -> Observed<&[u8]> {
        if self.status == StatusCode::OK { Ok(&self.body) } else { Err(gaps::from_status(self.status, &self.body)) }
    }
}

/// Bytes of an answer that any may hold, and how many may hold more at once.
const SHORT: usize = 1 << 20;
const LONG_AT_ONCE: usize = 2;
/// How often a server that has too much to do is asked again, and how long it may ask to wait: API servers say a second.
const AGAIN: u32 = 2;
const LATER: Duration = Duration::from_secs(5);
/// Bytes of a token that are in no answer by chance.
const SECRET: usize = 16;

/// Bytes of one answer, and of all answers of a connection, that may be on their way at once. Answers that wait for [`LONG_AT_ONCE`]
/// keep theirs, and must not take what the others need.
const STREAM_WINDOW: u32 = 2 << 20;
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * 32;

/// A server to which there is a connection.
#[derive(Clone)]
pub(super) struct Opened {
    client: Client,
    /// All that is asked goes over it at once.
    is_shared: bool,
    /// Something that was asked over it had no answer.
    has_failed: Arc<AtomicBool>,
}

/// What all requests with one kubeconfig share.
pub(super) struct Transport {
    dialer: Dialer,
    /// Of addresses that the kubeconfig does not name.
    machines: Observed<Arc<PeerVerifier>>,
    /// What every request says beside its credentials: what it accepts, and as whom it acts (`as` of the kubeconfig).
    headers: HeaderMap,
    auth: Auth,
    /// Some server has refused the credentials (401).
    was_refused: AtomicBool,
    timeout: Duration,
    long: Arc<Semaphore>,
    /// Since the last round that asked everything began.
    opened: Mutex<HashMap<Place, Arc<OnceCell<Observed<Opened>>>>>,
    pub(super) budget: Arc<Budget>,
}

impl Transport {
    /// Reads what the kubeconfig says about TLS and credentials. An exec plugin runs here for the first time, within
    /// `timeout`.
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
        // The endpoint alone is public.
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
            // Certificates of the kubeconfig: the texts name the fault and hold no contents.
            kube::Error::RustlsTls(cause) => Gap::new(GapKind::Malformed, gaps::short(&cause.to_string())),
            _ => unusable(),
        })?;
        if let Some(identity) = identity {
            let mismatch = |_| Gap::new(GapKind::Malformed, "the client key is not that of the client certificate");
            tls.client_auth_cert_resolver = identity.resolver().map_err(mismatch)?;
        }
        tls.dangerous().set_certificate_verifier(endpoint);
        tls.alpn_protocols = [dial::HTTP2, b"http/1.1"].map(<[u8]>::to_vec).into();
        // Every connection proves anew that both certificates are accepted.
        tls.resumption = Resumption::disabled();
        let dialer = Dialer {
            tls: Arc::new(tls),
            name,
            routes,
            ready: Arc::default(),
            // Less than the whole call, so that a silent host is seen as one that cannot be connected to.
            timeout: timeout * 4 / 5,
        };
        let long = Arc::new(Semaphore::new(LONG_AT_ONCE));
        let opened = Mutex::default();
        let (was_refused, budget) = (AtomicBool::default(), Arc::default());
        Ok(Self { dialer, machines, headers, auth, was_refused, timeout, long, opened, budget })
    }

    /// Whether each address of the server's name takes connections: behind a name with several, one that is dead shows only when it is
    /// that one's turn.
    pub(super) async fn each_address(&self, of: &Place) -> Vec<(SocketAddr, Observed<()>)> {
        let server = dial::endpoint(&of.server);
        match self.dialer.way(&server) {
            Ok(Proxy::Direct) => each_address(&server.host, server.port).await,
            _ => Vec::new(),
        }
    }

    /// Made anew, it would have other credentials. A client certificate is part of all that it has prepared.
    pub(super) fn is_outdated(&self) -> bool {
        self.auth.is_over(self.was_refused.load(Ordering::Relaxed))
    }

    /// A round begins. If it asks everything, each server is connected anew in it: an old connection says nothing about whether the server accepts new
    /// ones, nor about the certificate that it would show now.
    pub(super) fn renew(&self, anew: bool) {
        let is_fine = |cell: &OnceCell<Observed<Opened>>| {
            cell.get().and_then(|it| it.as_ref().ok()).is_some_and(|it| !it.has_failed.load(Ordering::Relaxed))
        };
        self.opened().retain(|_, cell| !anew && is_fine(cell));
    }

    fn opened(&self) -> MutexGuard<'_, HashMap<Place, Arc<OnceCell<Observed<Opened>>>>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What this round asks a server with: opened by whoever comes first, and for all who come, whatever they want. One that cannot
    /// be opened is not tried again.
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

    /// `GET`s `path` below the server. A server that may not have the credentials of a kubeconfig that needs them sees a TLS handshake
    /// and nothing else.
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

    /// Asks for one answer, whatever it is, with the credentials. Redirects are not followed, and nothing is asked again but what a
    /// server puts off.
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
                // A connection that many share may end because of any of them. One of its own does not.
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

    /// The one place where credentials enter a request: only for a server that may have them.
    async fn with_credentials(&self, _: &Trusted) -> Observed<HeaderMap> {
        let mut headers = self.headers.clone();
        if let Some(authorization) = self.auth.header(self.timeout).await? {
            headers.insert(AUTHORIZATION, authorization);
        }
        Ok(headers)
    }

    /// Whether the kubeconfig has a token or a password. A client certificate cannot be stolen by the server that sees it.
    pub(super) async fn has_secret(&self) -> Observed<bool> {
        Ok(self.auth.header(self.timeout).await?.is_some())
    }
}

fn span(Place { server, .. }: &Place, request: &Parts) -> Span {
    Span::begin(|| {
        // The question may hold what a server has said.
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
/// A server or a balancer may close a connection that has others' answers just as the next question is on its way, which says nothing about
/// the server. A new connection does: that is where this ends, since each that was lost is gone from the pool.
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

/// Whether the connection had brought an answer before, and why it has ended.
fn of_connection(error: &kube::Error) -> (bool, Option<Gap>) {
    let error: Option<&hyper_util::client::legacy::Error> = cause::find(error);
    let mut extras = http::Extensions::new();
    error.and_then(|error| error.connect_info()).into_iter().for_each(|connected| connected.get_extras(&mut extras));
    (extras.get().is_some_and(Answered::ever), extras.get().and_then(Fault::told).cloned())
}

/// It brought nothing: what is no HTTP, or no TLS, is an answer, too.
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

/// Of what a server says, some is shown to people, and some server may repeat what it was given. A success with a word in it that is
/// no secret's length is left as it is.
fn concealed(mut answer: Answer, authorization: Option<&HeaderValue>) -> Answer {
    let value = authorization.map_or(&[][..], HeaderValue::as_bytes);
    let secret = value.iter().position(|byte| *byte == b' ').map_or(value, |space| &value[space + 1..]);
    let shortest = if answer.status == StatusCode::OK { SECRET } else { 1 };
    if secret.len() >= shortest && memmem::find(&answer.body, secret).is_some() {
        answer.body = b"(repeats the credentials)".to_vec();
    }
    answer
}

/// An API server that is asked too much at once says when it may be asked again.
fn later(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER).filter(|_| status == StatusCode::TOO_MANY_REQUESTS)?.to_str().ok()?;
    seconds.parse().ok().map(Duration::from_secs).filter(|later| *later <= LATER)
}

/// Seconds that a cache on the way has had the answer for, as caches have to say (RFC 9111). No API server says so.
fn cached_for(headers: &HeaderMap) -> Option<u64> {
    headers.get(AGE)?.to_str().ok()?.parse().ok().filter(|age| *age > 0)
}

fn unusable() -> Gap {
    Gap::new(GapKind::Unauthenticated, "the credentials cannot be used")
}

/// Runs on a thread that may block, for a bounded time.
async fn blocking<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> Observed<T> {
    match timeout(limit, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(_)) => Err(unusable()),
        Err(_) => Err(Gap::new(GapKind::Unauthenticated, format!("no credentials within {limit:?}"))),
    }
}
