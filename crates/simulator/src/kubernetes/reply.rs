//! Answers before they are sent.

use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, RETRY_AFTER, USER_AGENT, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use hyper::body::Bytes;
use serde::Serialize;
use serde_json::Value;

use super::failure::Failure;
use super::query::Query;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// A complete answer.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Reply {
    pub(super) fn new(status: StatusCode, content_type: &str, body: impl Into<Bytes>) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        if let Ok(value) = HeaderValue::from_str(content_type) {
            headers.insert(CONTENT_TYPE, value);
        }
        Self { status, headers, body: body.into() }
    }

    pub(super) fn text(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self::new(status, TEXT, body).with(X_CONTENT_TYPE_OPTIONS, "nosniff")
    }

    /// JSON that is already encoded.
    pub(super) fn json_bytes(body: impl Into<Bytes>) -> Self {
        Self::new(StatusCode::OK, JSON, body)
    }

    pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Self {
        Self::new(status, JSON, line(body))
    }

    /// The answer for an unknown path.
    pub(super) fn no_page() -> Self {
        Self::text(StatusCode::NOT_FOUND, "404 page not found\n")
    }

    pub(super) fn redirect(to: &str) -> Self {
        let body = format!("<a href=\"{to}\">Found</a>.\n\n");
        Self::new(StatusCode::FOUND, "text/html; charset=utf-8", body).with(LOCATION, to)
    }

    /// The text of a fault, as JSON or HTML if it looks like it.
    pub(super) fn words(status: StatusCode, text: String) -> Self {
        let reply = match text.trim_start().as_bytes().first() {
            Some(b'{') => Self::new(status, JSON, text),
            Some(b'<') => Self::new(status, "text/html; charset=utf-8", text),
            _ => Self::text(status, text),
        };
        if status == StatusCode::TOO_MANY_REQUESTS { reply.with(RETRY_AFTER, "1") } else { reply }
    }

    pub(super) fn with(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    /// The answer to a HEAD request.
    pub(super) fn without_body(self) -> Self {
        let length = self.body.len().to_string();
        Self { body: Bytes::new(), ..self }.with(CONTENT_LENGTH, &length)
    }

    fn is_json(&self) -> bool {
        self.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(JSON.as_bytes()))
    }

    /// Indents JSON for people.
    pub(super) fn indented(mut self) -> Self {
        if self.is_json()
            && let Ok(value) = serde_json::from_slice::<Value>(&self.body)
        {
            self.body = serde_json::to_vec_pretty(&value).unwrap_or_default().into();
        }
        self
    }
}

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Self {
        let mut reply = Self::json(failure.code, &failure.body());
        if failure.code == StatusCode::FORBIDDEN {
            reply = reply.with(X_CONTENT_TYPE_OPTIONS, "nosniff");
        }
        match failure.retry_after() {
            Some(seconds) => reply.with(RETRY_AFTER, &seconds.to_string()),
            None => reply,
        }
    }
}

/// JSON followed by a line break, like every answer and every event of a watch.
pub(super) fn line(body: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(body).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// Whether the client wants indented JSON. Like an API server, this recognizes people by their programs.
pub(super) fn wants_indentation(headers: &HeaderMap, query: &Query) -> bool {
    if query.has("pretty") {
        return query.is("pretty");
    }
    let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|person| agent.starts_with(person))
}

/// The form of an object that the client prefers among the supported ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    /// Table of `kubectl get`.
    Table,
    /// Metadata only.
    Partial,
    /// All groups in one document.
    Discovery {
        beta: bool,
    },
}

/// The preferred form. Protobuf is not supported, although clients prefer it.
pub(super) fn form(headers: &HeaderMap) -> Result<Form, Failure> {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or("*/*");
    accept.split(',').find_map(acceptable).ok_or_else(Failure::not_acceptable)
}

fn acceptable(range: &str) -> Option<Form> {
    let mut parts = range.split(';').map(str::trim);
    if !matches!(parts.next()?, "application/json" | "application/*" | "*/*") {
        return None;
    }
    let parameter = |name: &str| parts.clone().find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    match (parameter("as"), parameter("v")) {
        (None, _) => Some(Form::Plain),
        (Some("Table"), Some("v1" | "v1beta1")) => Some(Form::Table),
        (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), Some("v1")) => Some(Form::Partial),
        (Some("APIGroupDiscoveryList"), Some("v2")) => Some(Form::Discovery { beta: false }),
        (Some("APIGroupDiscoveryList"), Some("v2beta1")) => Some(Form::Discovery { beta: true }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(accept: &str) -> Option<Form> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
        form(&headers).ok()
    }

    #[test]
    fn the_first_form_that_exists_is_taken() {
        assert_eq!(accepted("application/vnd.kubernetes.protobuf,application/json"), Some(Form::Plain));
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(accepted(kubectl), Some(Form::Table));
        assert_eq!(
            accepted("application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList, */*"),
            Some(Form::Plain)
        );
        assert_eq!(accepted("application/json, text/plain;q=0.9, */*;q=0.8"), Some(Form::Plain));
        assert_eq!(accepted("application/vnd.kubernetes.protobuf"), None);
        assert!(form(&HeaderMap::new()).is_ok());
    }

    #[test]
    fn people_are_known_by_their_programs() {
        let wants = |agent: &'static str, query: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(USER_AGENT, HeaderValue::from_static(agent));
            wants_indentation(&headers, &Query::of(Some(query)))
        };
        assert!(wants("curl/8.5", "") && wants("kubectl", "pretty") && wants("kubectl", "pretty=1"));
        assert!(!wants("kubectl/v1.35.4", "limit=500") && !wants("curl/8.5", "pretty=false"));
    }
}
