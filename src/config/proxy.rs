//! Selects the proxy of a connection, if any, by Go's rules, since users of talosctl and kubectl rely on them.

use std::fmt;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::endpoint::{self, Endpoint};
use super::yaml::Value;
use super::{ConfigError, Environment};

/// The way to open a connection.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Proxy {
    Direct,
    /// CONNECT over plain TCP.
    Http {
        host: String,
        port: u16,
        authorization: Option<String>,
    },
    /// CONNECT over TLS, which is not supported. It is parsed so that dialing it can be refused with a clear error.
    Https {
        host: String,
        port: u16,
        authorization: Option<String>,
    },
    /// SOCKS 5, with names resolved by the proxy.
    Socks5 {
        host: String,
        port: u16,
        login: Option<(String, String)>,
    },
}

impl Proxy {
    /// Returns the address of the proxy; `None` for a direct connection.
    pub(crate) fn address(&self) -> Option<Endpoint> {
        match self {
            Self::Direct => None,
            Self::Http { host, port, .. } | Self::Https { host, port, .. } | Self::Socks5 { host, port, .. } => {
                Some(Endpoint::new(host, *port))
            }
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Shown to users, without credentials.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self {
            Self::Direct => return f.write_str("direct"),
            Self::Http { .. } => "http",
            Self::Https { .. } => "https",
            Self::Socks5 { .. } => "socks5",
        };
        match self.address() {
            Some(address) => write!(f, "{scheme}://{address}"),
            None => f.write_str(scheme),
        }
    }
}

/// The proxy setting of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Setting {
    /// No setting: the environment decides.
    #[default]
    Environment,
    /// `proxy-url`: one proxy for all connections, or none.
    Fixed(Proxy),
}

impl Setting {
    /// Parses `direct` or a URL. The error does not contain the URL, which may include a password.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.eq_ignore_ascii_case("direct") { Ok(Self::Fixed(Proxy::Direct)) } else { parse(text).map(Self::Fixed) }
    }

    /// Reads `proxy-url`.
    pub(super) fn of(url: &Value<'_>) -> Result<Self, ConfigError> {
        url.text()?.map_or(Ok(Self::Environment), |text| Self::parse(&text).map_err(|problem| url.error(problem)))
    }

    /// Returns the proxy for connections to `target`.
    pub(crate) fn resolve(&self, environment: &Environment, target: &Endpoint) -> Result<Proxy, ConfigError> {
        match self {
            Self::Fixed(proxy) => Ok(proxy.clone()),
            Self::Environment => from_environment(environment, &ENCRYPTED, target),
        }
    }
}

/// A proxy setting, and the environment that decides if it is not set.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    setting: Setting,
    environment: Environment,
}

impl Routes {
    pub(crate) fn new(setting: Setting, environment: &Environment) -> Self {
        Self { setting, environment: environment.clone() }
    }

    /// Returns the proxy for connections to `target`.
    pub(crate) fn to(&self, target: &Endpoint) -> Result<Proxy, ConfigError> {
        self.setting.resolve(&self.environment, target)
    }
}

/// Variables for TLS connections, whatever the protocol inside.
const ENCRYPTED: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
/// Variables for `http://`.
const CLEAR: [&str; 4] = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// Returns the proxy for the server of an `https://` or `http://` URL. Only the environment counts, not a file.
pub(crate) fn for_url(environment: &Environment, is_encrypted: bool, target: &Endpoint) -> Result<Proxy, ConfigError> {
    from_environment(environment, if is_encrypted { &ENCRYPTED } else { &CLEAR }, target)
}

/// Returns the proxy from the first variable that is set, unless `NO_PROXY` (or `no_proxy`) exempts the target.
fn from_environment(environment: &Environment, variables: &[&str], target: &Endpoint) -> Result<Proxy, ConfigError> {
    let Some(name) = variables.iter().copied().find(|name| environment.os(name).is_some()) else {
        return Ok(Proxy::Direct);
    };
    let no_proxy = environment.text("NO_PROXY").or_else(|| environment.text("no_proxy")).unwrap_or_default();
    if exempt(no_proxy, target) {
        return Ok(Proxy::Direct);
    }
    let url = environment.text(name).unwrap_or_default();
    // Go treats `proxy.example:3128` as http.
    let proxy = if url.contains("://") { parse(url) } else { parse(&format!("http://{url}")) };
    proxy.map_err(|problem| {
        ConfigError::unreadable(format!("the environment variable `{name}` {problem}"))
            .hint(format!("correct `{name}`, or list {} in `NO_PROXY`", super::shown(&target.host)))
    })
}

fn parse(url: &str) -> Result<Proxy, &'static str> {
    let (scheme, rest) = url.trim().split_once("://").ok_or("is neither `direct` nor a URL")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (login, address) =
        authority.rsplit_once('@').map_or((None, authority), |(login, address)| (Some(login), address));
    let login = login
        .map(|login| {
            let (user, password) = login.split_once(':').unwrap_or((login, ""));
            Some((decode(user)?, decode(password)?))
        })
        .map(|login| login.ok_or("has a user or password that is not percent-encoded correctly"))
        .transpose()?;
    let basic = |login: Option<(String, String)>| {
        login.map(|(user, password)| format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
    };
    let at = |port| endpoint::split(address, port).map_err(|_| "does not have the form HOST[:PORT]");
    match scheme.to_ascii_lowercase().as_str() {
        "http" => at(80).map(|at| Proxy::Http { host: at.host, port: at.port, authorization: basic(login) }),
        "https" => at(443).map(|at| Proxy::Https { host: at.host, port: at.port, authorization: basic(login) }),
        "socks5" | "socks5h" => {
            let at = at(1080)?;
            // RFC 1929 has one byte for each length.
            if login.as_ref().is_some_and(|(user, password)| user.len() > 255 || password.len() > 255) {
                return Err("has a user or password of more than 255 bytes");
            }
            Ok(Proxy::Socks5 { host: at.host, port: at.port, login })
        }
        _ => Err("has a scheme that is neither `http`, `https` nor `socks5`"),
    }
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
            let value = digit(rest.next())? * 16 + digit(rest.next())?;
            bytes.push(u8::try_from(value).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    // A line break would end the header that the text becomes part of.
    String::from_utf8(bytes).ok().filter(|text| !text.contains(char::is_control))
}

/// Returns the negation of `httpproxy.Config.useProxy` in golang.org/x/net. Loopback is always exempt.
fn exempt(no_proxy: &str, target: &Endpoint) -> bool {
    let host = target.host.trim_end_matches('.');
    let ip = target.ip().map(|ip| ip.to_canonical());
    host == "localhost"
        || ip.is_some_and(|ip| ip.is_loopback())
        || no_proxy.split(',').any(|rule| matches(rule.trim().to_ascii_lowercase().as_str(), host, ip, target.port))
}

fn matches(rule: &str, host: &str, ip: Option<IpAddr>, port: u16) -> bool {
    if rule.is_empty() {
        return false;
    }
    if rule == "*" {
        return true;
    }
    if let Some((network, length)) = rule.split_once('/') {
        return match (network.parse::<IpAddr>(), length.parse::<u32>(), ip) {
            (Ok(network), Ok(length), Some(ip)) => within(ip, network, length),
            _ => false,
        };
    }
    let (name, wanted) = split_rule(rule);
    if wanted.is_some_and(|wanted| wanted.parse() != Ok(port)) {
        return false;
    }
    if let Ok(address) = name.parse::<IpAddr>() {
        return ip == Some(address.to_canonical());
    }
    // `example.com` matches itself and its subdomains; `.example.com` and `*.example.com` match only subdomains.
    let below = name.strip_prefix('*').unwrap_or(name);
    match below.strip_prefix('.') {
        Some(domain) => !domain.is_empty() && host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')),
        None if name.starts_with('*') || below.is_empty() => false,
        None => host == below || host.strip_suffix(below).is_some_and(|rest| rest.ends_with('.')),
    }
}

/// Splits `host`, `host:port`, `[v6]:port`, bare `v6`.
fn split_rule(rule: &str) -> (&str, Option<&str>) {
    if let Some((host, rest)) = rule.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (host, rest.strip_prefix(':'));
    }
    match rule.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, Some(port)),
        _ => (rule, None),
    }
}

fn within(ip: IpAddr, network: IpAddr, length: u32) -> bool {
    match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) if length <= 32 => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            ip.to_bits() & mask == network.to_bits() & mask
        }
        (IpAddr::V6(ip), IpAddr::V6(network)) if length <= 128 => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            ip.to_bits() & mask == network.to_bits() & mask
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(variables: &[(&str, &str)], target: &str) -> Proxy {
        let environment = Environment::new(variables.iter().copied());
        Setting::Environment.resolve(&environment, &endpoint::talos(target).unwrap()).unwrap()
    }

    #[test]
    fn the_environment_decides_as_in_go() {
        let proxy = Proxy::Http { host: "proxy.example".into(), port: 3128, authorization: None };
        assert_eq!(through(&[], "cp-1"), Proxy::Direct);
        assert_eq!(through(&[("HTTPS_PROXY", "")], "cp-1"), Proxy::Direct);
        assert_eq!(through(&[("HTTP_PROXY", "http://proxy.example:3128")], "cp-1"), Proxy::Direct);
        assert_eq!(through(&[("HTTPS_PROXY", "proxy.example:3128")], "cp-1"), proxy);
        assert_eq!(through(&[("https_proxy", "http://proxy.example:3128/")], "cp-1"), proxy);
        assert_eq!(
            through(&[("HTTPS_PROXY", "http://proxy.example:3128"), ("https_proxy", "http://b:1")], "cp-1"),
            proxy
        );
        assert_eq!(through(&[("all_proxy", "http://proxy.example:3128")], "cp-1"), proxy);
        for loopback in ["127.0.0.1", "127.9.9.9", "::1", "localhost", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(through(&[("HTTPS_PROXY", "proxy.example:3128")], loopback), Proxy::Direct, "{loopback}");
        }
        assert_eq!(
            through(&[("ALL_PROXY", "socks5://u%40x:p%3Aw@[::1]")], "cp-1"),
            Proxy::Socks5 { host: "::1".into(), port: 1080, login: Some(("u@x".into(), "p:w".into())) }
        );
        assert_eq!(
            through(&[("HTTPS_PROXY", "https://user:pass@proxy.example")], "cp-1"),
            Proxy::Https { host: "proxy.example".into(), port: 443, authorization: Some("Basic dXNlcjpwYXNz".into()) }
        );
    }

    #[test]
    fn a_url_has_the_proxy_of_its_scheme() {
        let variables = [("HTTP_PROXY", "http://clear.example:1"), ("HTTPS_PROXY", "http://tls.example:2")];
        let environment = Environment::new(variables.into_iter().chain([("NO_PROXY", "near.example")]));
        let through =
            |is_encrypted, host| for_url(&environment, is_encrypted, &Endpoint::new(host, 443)).unwrap().to_string();
        assert_eq!(through(true, "far.example"), "http://tls.example:2");
        assert_eq!(through(false, "far.example"), "http://clear.example:1");
        assert_eq!(through(false, "near.example"), "direct");
        assert_eq!(through(true, "near.example"), "direct");
    }

    #[test]
    fn exemptions_are_those_of_go() {
        for (rules, target, direct) in [
            ("*", "cp-1", true),
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("0.0.0.0/0", "11.1.2.3", true),
            ("10.0.0.0/33", "10.0.0.0", false),
            ("2001:db8::/32", "2001:db8::1", true),
            ("2001:db8::1", "2001:db8::1", true),
            ("[2001:db8::1]:50000", "2001:db8::1", true),
            ("[2001:db8::1]:1", "2001:db8::1", false),
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.10", false),
            ("10.0.0.1:50000", "10.0.0.1", true),
            ("10.0.0.1:6443", "10.0.0.1", false),
            ("k8s.example", "cp-1.k8s.example", true),
            ("k8s.example", "k8s.example", true),
            ("k8s.example", "notk8s.example", false),
            (".k8s.example", "cp-1.k8s.example", true),
            (".k8s.example", "k8s.example", false),
            ("*.k8s.example", "cp-1.k8s.example", true),
            ("*.k8s.example", "k8s.example", false),
            ("*foo.example", "barfoo.example", false),
            ("a, K8S.example ,b", "cp-1.k8s.example", true),
            ("k8s.example:50000", "cp-1.k8s.example", true),
            ("k8s.example:6443", "cp-1.k8s.example", false),
            (",,", "cp-1", false),
            (".", "cp-1", false),
            ("*.", "cp-1", false),
        ] {
            let proxy = through(&[("HTTPS_PROXY", "proxy.example:3128"), ("no_proxy", rules)], target);
            assert_eq!(proxy == Proxy::Direct, direct, "{rules} {target}");
        }
    }

    #[test]
    fn a_fixed_proxy_is_for_everything() {
        let environment = Environment::new([("HTTPS_PROXY", "proxy.example:3128"), ("NO_PROXY", "*")]);
        let local = endpoint::talos("127.0.0.1").unwrap();
        let fixed = Setting::parse("socks5://10.0.0.9").unwrap();
        assert_eq!(fixed.resolve(&environment, &local).unwrap().to_string(), "socks5://10.0.0.9:1080");
        let environment = Environment::new([("HTTPS_PROXY", "proxy.example:3128")]);
        let far = endpoint::talos("cp-1").unwrap();
        assert_eq!(Setting::parse("direct").unwrap().resolve(&environment, &far).unwrap(), Proxy::Direct);
    }

    #[test]
    fn passwords_are_never_shown() {
        for url in ["http://u:hunter22@proxy.example", "socks5://u:hunter22@proxy.example"] {
            let setting = Setting::parse(url).unwrap();
            assert!(!format!("{setting:?}").contains("hunter22"));
        }
        for url in [
            "ftp://u:hunter22@proxy.example",
            "http://u:hunter22@",
            "http://u:hunter22%zz@proxy.example",
            "http://u:hunter22@a b",
            "http://u:hunter22%0d%0aX@proxy.example",
            "u:hunter22@proxy.example:x",
        ] {
            let environment = Environment::new([("HTTPS_PROXY", url)]);
            let error = Setting::Environment.resolve(&environment, &endpoint::talos("cp-1").unwrap()).unwrap_err();
            assert!(!format!("{error:?}").contains("hunter22"), "{error:?}");
            assert!(error.message.contains("`HTTPS_PROXY`"));
        }
    }
}
