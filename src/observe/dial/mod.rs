//! Connections to a host, for every API: directly, or through an HTTP or SOCKS5 proxy, then TLS.

pub(super) mod cause;
mod handshake;
pub(super) mod http2;
mod names;
pub(super) mod stagger;
pub(super) mod tls;
mod unverified;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use http::HeaderMap;
use http::header::DATE;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use self::stagger::staggered;
use crate::config::proxy::Proxy;
use crate::observe::trace::Span;
use crate::snapshot::{Gap, GapKind};

/// Delay before the next address is tried in parallel with one that has not answered, as in RFC 8305.
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

/// Opens a byte stream to `host:port`. The deadline is up to the caller.
pub(super) async fn connect(via: &Proxy, host: &str, port: u16) -> Result<TcpStream, Gap> {
    let (proxy, proxy_port) = match via {
        Proxy::Direct => return dial(host, port).await,
        Proxy::Http { host, port, .. } | Proxy::Socks5 { host, port, .. } => (host, *port),
        Proxy::Https { host, port, .. } => {
            let text = format!("proxy {host}:{port}: proxies with TLS are not supported");
            return Err(Gap::new(GapKind::Proxy, text));
        }
    };
    let broken = |text: &str| Gap::new(GapKind::Proxy, cause::clean(&format!("proxy {proxy}:{proxy_port}: {text}")));
    let mut stream = dial(proxy, proxy_port).await.map_err(|gap| broken(&gap.text))?;
    let opened = match via {
        Proxy::Direct | Proxy::Https { .. } => Ok(()),
        Proxy::Http { authorization, .. } => {
            handshake::connect(&mut stream, host, port, authorization.as_deref()).await
        }
        Proxy::Socks5 { login, .. } => handshake::socks(&mut stream, host, port, login.as_ref()).await,
    };
    opened.map_err(|text| broken(&text))?;
    Ok(stream)
}

async fn dial(host: &str, port: u16) -> Result<TcpStream, Gap> {
    let addresses = names::addresses(host, port).await?;
    let attempts = addresses.into_iter().map(|address| async move {
        let stream = open(address).await?;
        stream.set_nodelay(true).map_err(|error| cause::of_io(&error))?;
        Ok(stream)
    });
    staggered(attempts, NEXT_ADDRESS).await.map_err(|gaps| {
        // The resolver lists the preferred address first.
        gaps.into_iter().next().unwrap_or_else(|| Gap::new(GapKind::NameNotFound, format!("`{host}` has no address")))
    })
}

async fn open(address: SocketAddr) -> Result<TcpStream, Gap> {
    let span = Span::to("TCP", &address.ip().to_string(), address.port());
    let stream = TcpStream::connect(address).await.map_err(|error| cause::of_io(&error));
    span.end(&stream);
    stream
}

/// Time limit for an address to accept a connection: long enough for a lost packet to be sent again.
const CONNECTS_WITHIN: Duration = Duration::from_secs(2);

/// Limit for the addresses of a name that are tried: a DNS server could return thousands.
const ADDRESSES: usize = 16;

/// Connects to each address of a name with several addresses and returns the outcomes. Empty for names with one address
/// or none.
pub(super) async fn each_address(host: &str, port: u16) -> Vec<(SocketAddr, Result<(), Gap>)> {
    if host.parse::<IpAddr>().is_ok() {
        return Vec::new();
    }
    let addresses = timeout(CONNECTS_WITHIN, names::addresses(host, port)).await;
    let addresses = addresses.ok().and_then(Result::ok).unwrap_or_default();
    if addresses.len() > 1 { take_connections(addresses).await } else { Vec::new() }
}

async fn take_connections(addresses: Vec<SocketAddr>) -> Vec<(SocketAddr, Result<(), Gap>)> {
    join_all(addresses.into_iter().take(ADDRESSES).map(|address| async move {
        let opened = timeout(CONNECTS_WITHIN, open(address)).await;
        (address, opened.unwrap_or_else(|_| Err(cause::no_connection(CONNECTS_WITHIN))).map(drop))
    }))
    .await
}

/// Sets up verified TLS on `stream`, whose peer has to be `name`.
pub(super) async fn secure(
    tls: Arc<ClientConfig>,
    name: ServerName<'static>,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, Gap> {
    let port = stream.peer_addr().map_or(0, |peer| peer.port());
    let span = Span::to("TLS", &name.to_str(), port);
    let secured = TlsConnector::from(tls).connect(name, stream).await.map_err(|error| cause::of_handshake(&error));
    span.end(&secured);
    secured
}

/// Returns the name that the certificate has to be valid for if a peer is dialed as `host`, a name or an address
/// without brackets.
pub(super) fn server_name(host: &str) -> Result<ServerName<'static>, Gap> {
    ServerName::try_from(host.to_owned()).map_err(|_| cause::no_name(host))
}

/// Returns the server's clock from the headers of an answer.
pub(super) fn date(headers: &HeaderMap) -> Option<Timestamp> {
    let date = headers.get(DATE)?.to_str().ok()?;
    rfc2822::DateTimeParser::new().parse_timestamp(date).ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn each_address_of_a_name_is_tried() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let alive = listener.local_addr().unwrap();
        let dead = SocketAddr::from(([127, 0, 0, 2], alive.port()));
        let refused = Gap::new(GapKind::ConnectionRefused, "connection refused");
        let tried = take_connections(vec![alive, dead]).await;
        assert_eq!(tried, [(alive, Ok(())), (dead, Err(refused))]);
        assert_eq!(each_address("127.0.0.1", alive.port()).await, [], "an address is no name");
    }

    #[test]
    fn date_is_the_servers_clock() {
        let mut headers = HeaderMap::new();
        assert_eq!(date(&headers), None);
        headers.insert(DATE, HeaderValue::from_static("Sat, 21 Nov 2026 13:52:13 GMT"));
        assert_eq!(date(&headers), Some("2026-11-21T13:52:13Z".parse().unwrap()));
        headers.insert(DATE, HeaderValue::from_static("yesterday"));
        assert_eq!(date(&headers), None);
    }
}
