//! etcd through its own API, for clusters whose etcd Talos does not run.

mod api;
mod login;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, join_all};
use http::Uri;
use http::uri::Scheme;
use rustls::ClientConfig;
use tokio::time::{Instant, timeout_at};

use self::api::Api;
use self::login::{Login, Session};
use super::dial::cause;
use super::dial::http2::{EndpointAddress, Http2, Link, Security};
use super::dial::tls;
use super::kubernetes::short;
use super::trace::Span;
use crate::config::etcd::EtcdAccess;
use crate::config::proxy::Proxy;
use crate::snapshot::{EtcdEndpoint, Gap, GapKind, Observed};

/// The endpoints of `--etcd-endpoints`.
pub(crate) struct EtcdClients {
    endpoints: Vec<String>,
    tls: Observed<Arc<ClientConfig>>,
    login: Option<Login>,
    timeout: Duration,
}

/// A connection that several callers wait for.
type Connecting<'a> = Shared<BoxFuture<'a, Observed<Http2>>>;

impl EtcdClients {
    /// Creates the clients. `http://` endpoints are queried in plain text and without the client certificate, all others through TLS.
    /// `call_timeout` bounds all work for one of them.
    pub(crate) fn new(access: EtcdAccess, call_timeout: Duration) -> Self {
        let tls = tls::verifying(&access.ca, access.client.as_ref())
            .map(tls::Verified::into_inner)
            .map_err(|error| Gap::new(GapKind::Malformed, short(&format!("{error:#}"))));
        Self { endpoints: access.endpoints, tls, login: access.user.map(Login::new), timeout: call_timeout }
    }

    /// Reads status, members and alarms of each endpoint, all at once and each with its own outcome.
    ///
    /// Every round opens new connections: an old one to a machine that has vanished would stay silent after the machine is back, and it
    /// would not show the certificate that etcd presents now.
    pub(crate) async fn observe(&self) -> Vec<EtcdEndpoint> {
        let until = Instant::now() + self.timeout;
        let connect = |address| self.connect(address, until).boxed().shared();
        let connections: Vec<_> = self.endpoints.iter().map(|address| connect(address)).collect();
        let session = Session::new(self.login.as_ref(), &connections, until);
        let asked = self.endpoints.iter().zip(&connections);
        join_all(asked.map(|(address, connection)| self.endpoint(address, connection, &session))).await
    }

    async fn endpoint(&self, address: &str, connection: &Connecting<'_>, session: &Session<'_, '_>) -> EtcdEndpoint {
        let until = session.until;
        let (status, members, alarms) = match connection.clone().await {
            Ok(connection) => tokio::join!(
                self.bounded(until, "etcd Status", address, session.ask(&connection, Api::status)),
                self.bounded(until, "etcd MemberList", address, session.ask(&connection, Api::members)),
                self.bounded(until, "etcd Alarm", address, session.ask(&connection, Api::alarms)),
            ),
            Err(gap) => (Err(gap.clone()), Err(gap.clone()), Err(gap)),
        };
        EtcdEndpoint { address: address.to_owned(), status, members, alarms }
    }

    async fn connect(&self, address: &str, until: Instant) -> Observed<Http2> {
        let (address, scheme) = parse(address)?;
        let security = match &self.tls {
            _ if scheme == Scheme::HTTP => Security::PlainText,
            Ok(config) => Security::Tls { config: Arc::clone(config), demands_h2: true },
            Err(gap) => return Err(gap.clone()),
        };
        let link = Link::new(address, security);
        let (connection, _) =
            timeout_at(until, Box::pin(link.open())).await.map_err(|_| link.silence(self.timeout))??;
        Ok(connection)
    }

    async fn bounded<T>(
        &self,
        until: Instant,
        name: &str,
        address: &str,
        call: impl Future<Output = Observed<T>>,
    ) -> Observed<T> {
        let span = Span::begin(|| (name.to_owned(), vec![("server.address", address.into())]));
        let answer = timeout_at(until, call).await.unwrap_or_else(|_| Err(cause::no_answer(self.timeout)));
        span.end(&answer);
        answer
    }
}

/// The default port on which etcd serves clients.
const CLIENTS: u16 = 2379;

/// Parses an endpoint into its address and scheme: TLS, unless it begins with `http://`.
fn parse(text: &str) -> Observed<(EndpointAddress, Scheme)> {
    let malformed = || {
        let expected = "an endpoint is `https://HOST:PORT`, `http://HOST:PORT`, or `HOST:PORT` (https)";
        Gap::new(GapKind::Malformed, expected)
    };
    let url = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    let url: Uri = url.parse().map_err(|_| malformed())?;
    let scheme = url.scheme().filter(|&it| *it == Scheme::HTTPS || *it == Scheme::HTTP).ok_or_else(malformed)?;
    let authority = url.authority().ok_or_else(malformed)?;
    let port = match authority.port_u16() {
        Some(port) => port,
        // The `http` crate returns no port if it is not a number or too large.
        None if !authority.as_str().ends_with(authority.host()) => return Err(malformed()),
        None => CLIENTS,
    };
    let host = authority.host().trim_matches(['[', ']']).to_owned();
    Ok((EndpointAddress { host, port, shown: text.to_owned(), via: Proxy::Direct }, scheme.clone()))
}
