//! Web servers that receive finished reports, and the headers for each of them.
//!
//! The URL of a webhook is a secret, and so is every header: only scheme and host are ever shown.

use std::fmt;
use std::path::Path;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use reqwest::Url;

use super::endpoint::Endpoint;
use super::proxy::{self, Proxy};
use super::{ConfigError, Environment, file};

/// The option that names the file of headers.
const OPTION: &str = "--report-headers-file";

/// Headers that belong to the connection and are set by the HTTP library.
const RESERVED: [HeaderName; 7] = [CONNECTION, CONTENT_LENGTH, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// A server that a report is sent to.
#[derive(Clone)]
pub(crate) struct Receiver {
    url: Url,
    headers: HeaderMap,
}

/// Shown to users and in logs.
impl fmt::Display for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.url.scheme(), self.url.host_str().unwrap_or_default())
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Receiver {
    /// Parses an `https://` or `http://` URL exactly as typed, without corrections. The error names the problem and repeats nothing of the
    /// URL.
    pub(crate) fn parse(typed: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = typed.split_once(':').unwrap_or(("", typed));
        if !["https", "http"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return Err("has a scheme other than `https` and `http`");
        }
        if typed.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
            return Err("contains a blank, a backslash or a control character");
        }
        if rest.strip_prefix("//").is_none_or(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#'])) {
            return Err("has no host");
        }
        let url = Url::parse(typed).map_err(|_| "is not a valid URL")?;
        if url.port() == Some(0) || url.as_str().parse::<Uri>().is_err() {
            return Err("is not a valid URL");
        }
        if url.fragment().is_some() {
            return Err("has a fragment (`#`), which is never sent");
        }
        let receiver = Self { url, headers: HeaderMap::new() };
        let has_user = !receiver.url.username().is_empty() || receiver.url.password().is_some();
        if has_user && !receiver.is_encrypted() {
            return Err("has a user or password, which `http://` sends unencrypted: use `https://`");
        }
        Ok(receiver)
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Returns the proxy on the way, which depends only on the environment.
    pub(crate) fn proxy(&self, environment: &Environment) -> Result<Proxy, ConfigError> {
        let host = self.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let target = Endpoint::new(host, self.port());
        proxy::for_url(environment, self.is_encrypted(), &target)
    }

    /// Returns the port of the URL, or the default port of its scheme.
    fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or_default()
    }

    /// Adds the headers for this receiver. Over `http://`, none are allowed.
    pub(crate) fn with_headers(self, headers: &Headers) -> Result<Self, String> {
        let all: Vec<_> = headers.0.iter().filter(|header| header.host == host(&self.url)).collect();
        if !self.is_encrypted() && !all.is_empty() {
            return Err(format!("the headers for `{}` are not sent over `http://`: use `https://`", host(&self.url)));
        }
        // Lines with this server's port apply to it alone and replace those for the whole host.
        let port = Some(self.port());
        let has_own = all.iter().any(|header| header.port == port);
        let own = all.into_iter().filter(|header| header.port == if has_own { port } else { None });
        let headers = own.map(|header| (header.name.clone(), header.value.clone()));
        let headers = headers.fold(HeaderMap::new(), |mut all, (name, value)| {
            all.append(name, value);
            all
        });
        Ok(Self { headers, ..self })
    }
}

/// Returns the host in the form that all of its spellings share.
fn host(url: &Url) -> String {
    url.host_str().unwrap_or_default().trim_end_matches('.').to_owned()
}

/// The headers of all receivers.
#[derive(Default)]
pub(crate) struct Headers(Vec<Header>);

struct Header {
    host: String,
    /// `None` for every port of the host.
    port: Option<u16>,
    name: HeaderName,
    value: HeaderValue,
}

impl Headers {
    /// Parses the text of a file: one header per line, `HOST<TAB>Name: value` or `HOST:PORT<TAB>Name: value`. Empty lines and lines that
    /// begin with `#` are ignored. The error names the line number and repeats nothing of the line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let headers =
            lines.map(|(at, line)| Header::parse(line).map_err(|why| format!("`{OPTION}`, line {at}: {why}")));
        headers.collect::<Result<_, _>>().map(Self)
    }

    /// Reads the text of the file, with a warning if everyone on this host can read it.
    pub(crate) fn read(path: &Path, environment: &Environment) -> Result<(String, Option<String>), ConfigError> {
        let text = file::read_text(path, "file of headers")?;
        Ok((text, file::open_to_all(path, environment)))
    }
}

impl Header {
    fn parse(line: &str) -> Result<Self, &'static str> {
        const FORM: &str = "is not HOST, a tab, then `Name: value`";
        let (place, header) = line.split_once('\t').ok_or(FORM)?;
        let (name, value) = header.split_once(':').ok_or(FORM)?;
        let place: Authority = place.parse().map_err(|_| "does not begin with a host")?;
        let url = Url::parse(&format!("https://{}/", place.host())).map_err(|_| "does not begin with a host")?;
        let has_port = place.as_str() != place.host();
        if has_port && (place.port_u16().is_none() || place.as_str().contains('@')) {
            return Err("begins with something other than HOST or HOST:PORT");
        }
        let name: HeaderName = name.parse().map_err(|_| "has an invalid name of a header")?;
        if RESERVED.contains(&name) {
            return Err("has a header that belongs to the connection");
        }
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| "has an invalid value of a header")?;
        if value.is_empty() {
            return Err("has an empty value");
        }
        value.set_sensitive(true);
        Ok(Self { host: host(&url), port: place.port_u16(), name, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver(url: &str) -> Receiver {
        Receiver::parse(url).unwrap()
    }

    #[test]
    fn a_malformed_url_is_refused_and_not_repeated() {
        for url in [
            "https:",
            "https://",
            "https:///hunter22",
            "https:/r.example/hunter22",
            "https:r.example/hunter22",
            "https://?hunter22",
            "https://r.example:x/hunter22",
            "https://r.example:0/hunter22",
            "https://r.example:70000/hunter22",
            "https://r example/hunter22",
            "https://r.example/hunter22\n",
            "https://r.example\\hunter22",
            "https://r.example/hunter22#x",
            "https://[::1/hunter22",
            "https://10.0.0.300/hunter22",
            "ftp://r.example/hunter22",
            "hunter22://r.example",
            "http://u:hunter22@r.example",
            "http://hunter22@r.example",
        ] {
            let error = Receiver::parse(url).unwrap_err();
            assert!(!error.contains("hunter22") && !error.contains("example"), "{url:?}: {error}");
        }
        for url in ["https://r.example", "HTTPS://R.example:8443/a,b?c=%7B&d", "http://[::1]:9091/metrics/job/a"] {
            receiver(url);
        }
    }

    #[test]
    fn only_scheme_and_host_are_shown() {
        for url in ["https://u:hunter22@r.example:8443/hunter22?x=hunter22", "https://R.Example/hunter22"] {
            let headers = Headers::parse("r.example\tAuthorization: hunter22").unwrap();
            let receiver = receiver(url).with_headers(&headers).unwrap();
            assert_eq!(receiver.to_string(), "https://r.example");
            assert_eq!(format!("{receiver:?}"), "https://r.example");
        }
    }

    #[test]
    fn a_header_reaches_its_own_host_alone() {
        let text = "# tokens\n\nr.example\tX-Token: all\nr.example\tX-Scope: all\nr.example:8443\tX-Token: own\n\
                    s.example\tX-Token: other\n[::1]:1\tX-Token: v6\n";
        let headers = Headers::parse(text).unwrap();
        for (url, expected) in [
            ("https://r.example/", &["x-token: all", "x-scope: all"][..]),
            ("https://R.EXAMPLE.:443/", &["x-token: all", "x-scope: all"]),
            ("https://r.example:9/", &["x-token: all", "x-scope: all"]),
            ("https://r.example:8443/", &["x-token: own"]),
            ("https://s.example/", &["x-token: other"]),
            ("https://t.s.example/", &[]),
            ("https://example/", &[]),
            ("https://s.example@t.example/", &[]),
            ("https://[::1]:1/", &["x-token: v6"]),
            ("https://[::1]/", &[]),
            ("http://t.example/", &[]),
        ] {
            let receiver = receiver(url).with_headers(&headers).unwrap();
            let all = receiver.headers().iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
            assert_eq!(all.collect::<Vec<_>>(), expected, "{url}");
        }
        // The port that a header is for makes no difference.
        for url in ["http://r.example/", "http://s.example:8080/", "http://S.example./", "http://[::1]/"] {
            let error = receiver(url).with_headers(&headers).unwrap_err();
            assert!(error.contains("https://"), "{url}: {error}");
        }
    }

    #[test]
    fn a_malformed_header_is_refused_with_its_line_and_not_repeated() {
        for line in [
            "hunter22",
            "r.example Authorization: hunter22",
            "r.example\thunter22",
            "\tAuthorization: hunter22",
            "https://r.example\tAuthorization: hunter22",
            "r.example/hunter22\tAuthorization: x",
            "hunter22@r.example\tAuthorization: x",
            "hunter22@r.example:1\tAuthorization: x",
            "r.example:\tAuthorization: hunter22",
            "r.example:x\tAuthorization: hunter22",
            "r example\tAuthorization: hunter22",
            "r.example\tAuthori zation: hunter22",
            "r.example\t: hunter22",
            "r.example\tHost: hunter22",
            "r.example\tTransfer-Encoding: hunter22",
            "r.example\tAuthorization:",
            "r.example\tAuthorization: a\u{1}hunter22",
        ] {
            let Err(error) = Headers::parse(&format!("r.example\tX-Fine: 1\n{line}\n")) else { panic!("{line:?}") };
            assert!(error.contains("line 2:") && !error.contains("hunter22"), "{line:?}: {error}");
        }
    }
}
