//! Endpoints of a talosconfig, and hosts with ports in other places.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The port of apid.
const TALOS_PORT: u16 = 50000;
/// The default port of the Kubernetes API.
const KUBERNETES_PORT: u16 = 6443;

/// A host and port to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Endpoint {
    /// Name or address, without brackets. The server's certificate has to be valid for it.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// `host:port`, with brackets where IPv6 needs them.
    pub(crate) shown: String,
}

impl Endpoint {
    pub(crate) fn new(host: &str, port: u16) -> Self {
        let host = host.to_ascii_lowercase();
        let shown = with_port(&host, port);
        Self { host, port, shown }
    }

    pub(crate) fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

/// Formats `host:port`, with brackets where IPv6 needs them.
pub(crate) fn with_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Parses every syntax that Talos's own client accepts, and bracketed IPv6 without a port, which that client
/// mishandles.
pub(crate) fn talos(text: &str) -> Result<Endpoint, &'static str> {
    let text = text.trim();
    let Some((scheme, rest)) = text.split_once("://") else { return split(text, TALOS_PORT) };
    let port = match scheme.to_ascii_lowercase().as_str() {
        // Omni, or any other load balancer in front of Talos.
        "https" => 443,
        // The connection uses TLS even with these schemes.
        "grpc" | "http" => TALOS_PORT,
        _ => return Err("has a scheme that is neither `https`, `http` nor `grpc`"),
    };
    split(authority(rest)?, port)
}

/// Parses the value of `--k8s-endpoint`: `[https://]HOST[:PORT]`.
pub(crate) fn kubernetes(text: &str) -> Result<Endpoint, &'static str> {
    let text = text.trim();
    match text.split_once("://") {
        None => split(text, KUBERNETES_PORT),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => split(authority(rest)?, KUBERNETES_PORT),
        Some(_) => Err("has a scheme other than `https`"),
    }
}

/// Cuts off path, query and fragment.
fn authority(rest: &str) -> Result<&str, &'static str> {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') { Err("carries credentials") } else { Ok(authority) }
}

/// Splits `host`, `host:port`, `v6`, `[v6]`, `[v6]:port`.
pub(super) fn split(text: &str, default_port: u16) -> Result<Endpoint, &'static str> {
    if text.is_empty() {
        return Err("is empty");
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (host, port) = rest.split_once(']').ok_or("has an opening bracket but no closing one")?;
        if !is_v6(host) {
            return Err("has brackets around something that is not an IPv6 address");
        }
        let port = match port.strip_prefix(':') {
            Some(port) => number(port)?,
            None if port.is_empty() => default_port,
            None => return Err("has something after the closing bracket that is not a port"),
        };
        return Ok(Endpoint::new(host, port));
    }
    if is_v6(text) {
        return Ok(Endpoint::new(text, default_port));
    }
    let (host, port) = match text.split_once(':') {
        Some((_, port)) if port.contains(':') => return Err("has several colons and is not an IPv6 address"),
        Some((host, port)) => (host, number(port)?),
        None => (text, default_port),
    };
    if host.is_empty() {
        return Err("has no host");
    }
    let is_name = host.len() <= 253
        && host.split('.').enumerate().all(|(index, part)| {
            // One trailing dot is fine: it stands for the root.
            (!part.is_empty() || index > 0 && host.ends_with('.') && !host.ends_with(".."))
                && part.len() <= 63
                && !part.starts_with('-')
                && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        });
    // `10.0.0` and `10.0.0.300` are typing errors, never names: no top-level domain is a number.
    let numeric =
        host.trim_end_matches('.').rsplit('.').next().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit()));
    if !is_name {
        Err("is neither an address nor a hostname")
    } else if numeric && host.parse::<IpAddr>().is_err() {
        Err("looks like an IPv4 address but is not valid")
    } else {
        Ok(Endpoint::new(host, port))
    }
}

fn number(port: &str) -> Result<u16, &'static str> {
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("has a port that is not a number");
    }
    port.parse().ok().filter(|port| *port > 0).ok_or("has a port that is not between 1 and 65535")
}

/// Returns whether a text is an IPv6 address, with or without a zone (`fe80::1%eth0`).
fn is_v6(text: &str) -> bool {
    let (address, zone) = text.split_once('%').map_or((text, None), |(address, zone)| (address, Some(zone)));
    let zone_is_fine = zone.is_none_or(|zone| {
        (1..=15).contains(&zone.len())
            && zone.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    });
    zone_is_fine && address.parse::<Ipv6Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_syntax_of_talos() {
        for (text, shown, host) in [
            ("10.0.0.1", "10.0.0.1:50000", "10.0.0.1"),
            ("cp-1.k8s.example", "cp-1.k8s.example:50000", "cp-1.k8s.example"),
            ("CP-1:1234", "cp-1:1234", "cp-1"),
            ("10.0.0.1:1234", "10.0.0.1:1234", "10.0.0.1"),
            ("2001:db8::1", "[2001:db8::1]:50000", "2001:db8::1"),
            ("[2001:db8::1]", "[2001:db8::1]:50000", "2001:db8::1"),
            ("[2001:db8::1]:1234", "[2001:db8::1]:1234", "2001:db8::1"),
            ("::1", "[::1]:50000", "::1"),
            ("fe80::1%eth0", "[fe80::1%eth0]:50000", "fe80::1%eth0"),
            ("https://omni.k8s.example", "omni.k8s.example:443", "omni.k8s.example"),
            ("https://omni.k8s.example:8443/x?y=z#w", "omni.k8s.example:8443", "omni.k8s.example"),
            ("https://[2001:db8::1]:8443", "[2001:db8::1]:8443", "2001:db8::1"),
            ("grpc://cp-1:111", "cp-1:111", "cp-1"),
            ("grpc://cp-1", "cp-1:50000", "cp-1"),
            ("http://cp-1", "cp-1:50000", "cp-1"),
            (" talos.default ", "talos.default:50000", "talos.default"),
        ] {
            let endpoint = talos(text).unwrap();
            assert_eq!((endpoint.shown.as_str(), endpoint.host.as_str()), (shown, host), "{text}");
            assert_eq!(talos(shown).unwrap(), endpoint, "{shown} again");
        }
    }

    #[test]
    fn slips_are_refused() {
        for text in [
            "",
            " ",
            ":50000",
            "cp-1:",
            "cp-1:0",
            "cp-1:65536",
            "cp-1:http",
            "cp-1:+1",
            "cp 1",
            "cp..1",
            ".cp",
            "a,b",
            "10.0.0.300",
            "10.0.0",
            "[10.0.0.1]",
            "[::1",
            "[::1]x",
            "[::1]:",
            "1:2:3",
            "tcp://cp-1",
            "https://",
            "https://user:pw@cp-1",
            "cp-1/path",
            "höst",
            "::1%",
            "-----BEGIN",
            "unix:///run/x",
        ] {
            assert!(talos(text).is_err(), "{text}");
        }
        assert!(talos(&"a".repeat(1 << 20)).is_err());
    }

    #[test]
    fn kubernetes_has_its_own_port() {
        assert_eq!(kubernetes("vip").unwrap().shown, "vip:6443");
        assert_eq!(kubernetes("https://vip").unwrap().shown, "vip:6443");
        assert_eq!(kubernetes("2001:db8::1").unwrap().shown, "[2001:db8::1]:6443");
        assert_eq!(kubernetes("[2001:db8::1]:443").unwrap().shown, "[2001:db8::1]:443");
        assert!(kubernetes("http://vip").is_err());
    }
}
