//! One question on one new connection, through reqwest: nothing stands between the bytes of the server and the judge.

use std::time::Duration;

use http::{HeaderMap, Uri};
use reqwest::redirect::Policy;
use reqwest::tls::TlsInfo;
use reqwest::{Client, Url};
use rustls::ClientConfig;
use tokio::time::{Instant, timeout, timeout_at};

use super::client::{Answer, date};
use super::intake::{Intake, Keep};
use crate::config::certificate;
use crate::config::endpoint::Endpoint;
use crate::config::proxy::Proxy;
use crate::observe::dial::{self, cause};
use crate::snapshot::{Gap, GapKind, Observed};

/// Longest time in which a second connection tells where the first one got stuck.
const AGAIN: Duration = Duration::from_millis(500);

/// Asks `server`, dialed directly and verified as the host that the URL names.
pub(super) struct Raw {
    /// Without resumption, so that each connection is a full handshake.
    pub(super) tls: ClientConfig,
    /// Credentials among them.
    pub(super) headers: HeaderMap,
    /// For name, TCP and TLS; less than `timeout`.
    pub(super) connect_timeout: Duration,
    /// For the whole answer.
    pub(super) timeout: Duration,
}

impl Raw {
    pub(super) async fn get(self, server: &Uri, target: &Endpoint, path: &str, keep: Keep) -> Observed<Answer> {
        dial::server_name(&target.host)?;
        let url = format!("https://{target}{}{path}", server.path().trim_end_matches('/'));
        let url = Url::parse(&url).map_err(|_| cause::no_name(&target.host))?;
        let unusable = |error: reqwest::Error| Gap::new(GapKind::Malformed, cause::innermost(&error));
        let client = Client::builder()
            .tls_backend_preconfigured(self.tls)
            .https_only(true)
            .http1_only()
            .no_proxy()
            .redirect(Policy::none())
            .referer(false)
            .retry(reqwest::retry::never())
            .pool_max_idle_per_host(0)
            .tls_info(true)
            .connect_timeout(self.connect_timeout)
            .user_agent(concat!("cluster-health/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(unusable)?;
        let request = client.get(url).headers(self.headers).build().map_err(unusable)?;
        let deadline = Instant::now() + self.timeout;
        let answer = async {
            let response = client.execute(request).await?;
            read(response, keep).await
        };
        match timeout_at(deadline, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) if error.is_connect() => Err(why_unconnected(&error, target, self.connect_timeout).await),
            Ok(Err(error)) => Err(cause::of_chain(&error)),
            Err(_) => Err(cause::no_answer(self.timeout)),
        }
    }
}

/// The inner gap: more than is taken in.
async fn read(mut response: reqwest::Response, keep: Keep) -> reqwest::Result<Observed<Answer>> {
    let (status, date) = (response.status(), date(response.headers()));
    let shown = response.extensions().get::<TlsInfo>().and_then(TlsInfo::peer_certificate);
    let certificate = shown.and_then(certificate::validity);
    let mut intake = Intake::new(keep, status);
    while let Some(chunk) = response.chunk().await? {
        if let Err(gap) = intake.take(&chunk) {
            return Ok(Err(gap));
        }
    }
    Ok(intake.into_body().map(|body| Answer { status, date, certificate, body, leave: None }))
}

/// reqwest has one clock for name, TCP and TLS, and a layer around its connector sees no more than the end of all three
/// (the types of request and connection have no names). When that clock has run out, another connection tells a host that
/// cannot be reached from a frozen process, whose kernel goes on accepting: only TCP and the way to it are tried again, so
/// the server's log sees nothing but a connection that was closed.
async fn why_unconnected(error: &reqwest::Error, target: &Endpoint, within: Duration) -> Gap {
    if error.is_timeout() && cause::find::<rustls::Error>(error).is_none() {
        return match timeout(AGAIN, dial::connect(&Proxy::Direct, &target.host, target.port)).await {
            Ok(Ok(_)) => cause::no_handshake(),
            Ok(Err(gap)) => gap,
            Err(_) => cause::no_connection(within),
        };
    }
    match cause::find_io(error) {
        Some(io) if error.is_dns() => cause::of_lookup(&target.host, io),
        Some(io) => cause::of_handshake(io),
        None => cause::of_chain(error),
    }
}
