//! Sends finished reports to web servers. Only the status of an answer is read.

use std::time::Duration;

use anyhow::Context as _;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use hyper::body::Bytes;
use reqwest::{Client, Url, redirect, retry};
use rustls::{ClientConfig, RootCertStore};
use tokio::time::{Instant, sleep, timeout_at};

use super::dial::cause;
use crate::config::crypto;
use crate::config::proxy::Proxy;
use crate::config::receiver::Receiver;

/// Pause between the first attempt and the second one.
const PAUSE: Duration = Duration::from_millis(500);

/// A receiver, and the client that reaches it.
pub(crate) struct Post {
    receiver: Receiver,
    client: Client,
}

/// The reason why an attempt failed.
struct Failure {
    why: String,
    /// Whether another attempt may succeed.
    passes: bool,
}

impl Post {
    /// Prepares the client. `roots` vouch for the server. The error contains no credentials.
    pub(crate) fn new(receiver: Receiver, via: &Proxy, roots: RootCertStore) -> anyhow::Result<Self> {
        let tls = ClientConfig::builder_with_provider(crypto::provider()).with_safe_default_protocol_versions()?;
        let builder = Client::builder()
            .tls_backend_preconfigured(tls.with_root_certificates(roots).with_no_client_auth())
            .user_agent(concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")))
            .no_proxy()
            // Each attempt has its own connection.
            .pool_max_idle_per_host(0)
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .referer(false);
        let builder = match proxy(via)? {
            Some(proxy) => builder.proxy(proxy),
            None => builder,
        };
        let client = builder.build().map_err(reqwest::Error::without_url)?;
        Ok(Self { receiver, client })
    }

    /// Sends the document, and retries once if that fails. Finishes before `until`. Returns the error of the last attempt.
    pub(crate) async fn send(&self, media_type: &'static str, document: Vec<u8>, until: Instant) -> Result<(), String> {
        let document = Bytes::from(document);
        let first = Instant::now() + until.saturating_duration_since(Instant::now()) / 2;
        match self.attempt(media_type, document.clone(), first).await {
            Err(Failure { passes: true, .. }) => {}
            over => return over.map_err(|failure| failure.why),
        }
        sleep(PAUSE.min(until.saturating_duration_since(Instant::now()) / 2)).await;
        self.attempt(media_type, document, until).await.map_err(|failure| failure.why)
    }

    async fn attempt(&self, media_type: &'static str, document: Bytes, until: Instant) -> Result<(), Failure> {
        let began = Instant::now();
        let request = self
            .client
            .post(self.receiver.url().clone())
            .header(CONTENT_TYPE, HeaderValue::from_static(media_type))
            .headers(self.receiver.headers().clone())
            .body(document);
        match timeout_at(until, request.send()).await {
            Ok(Ok(answer)) => judged(answer.status()),
            Ok(Err(error)) => {
                Err(Failure { why: cause::of_chain(&error.without_url()).text.into_owned(), passes: true })
            }
            Err(_) => {
                let waited = (until - began).as_secs_f64();
                Err(Failure { why: format!("no answer within {waited:.1}s"), passes: true })
            }
        }
    }
}

fn judged(status: StatusCode) -> Result<(), Failure> {
    if status.is_success() {
        return Ok(());
    }
    let why = match status.as_u16() {
        300..400 => format!("HTTP {}: redirects are not followed", status.as_u16()),
        number => format!("HTTP {number}"),
    };
    let passes =
        status.is_server_error() || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
    Err(Failure { why, passes })
}

/// Converts the proxy to the library's type.
fn proxy(via: &Proxy) -> anyhow::Result<Option<reqwest::Proxy>> {
    let Some(address) = via.address() else { return Ok(None) };
    let at = |scheme: &str| Url::parse(&format!("{scheme}://{address}")).context("the proxy has no valid address");
    let through = |url: Url| reqwest::Proxy::all(url).map_err(reqwest::Error::without_url);
    let proxy = match via {
        Proxy::Direct => return Ok(None),
        Proxy::Https { .. } => anyhow::bail!("proxy {address}: proxies with TLS are not supported"),
        Proxy::Http { authorization, .. } => {
            let proxy = through(at("http")?)?;
            match authorization {
                Some(value) => {
                    proxy.custom_http_auth(value.parse::<HeaderValue>().context("the proxy has no valid password")?)
                }
                None => proxy,
            }
        }
        Proxy::Socks5 { login, .. } => {
            let mut url = at("socks5h")?;
            if let Some((user, password)) = login {
                let set = url.set_username(user).and_then(|()| url.set_password(Some(password)));
                set.map_err(|()| anyhow::Error::msg("the proxy has no valid password"))?;
            }
            through(url)?
        }
    };
    Ok(Some(proxy))
}
