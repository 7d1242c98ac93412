//! Why a fact of the Kubernetes side is missing though there is a connection: credentials and answers become [`Gap`]s.

use http::StatusCode;
use serde::Deserialize;

use super::dial::endpoint;
use super::whom::Place;
use crate::observe::dial::cause::clean;
use crate::snapshot::{Gap, GapKind};

/// Bytes of a refusal that are looked at.
const LOOKED_AT: usize = 1200;

/// The first line of a foreign text, fit for a report.
pub(crate) fn short(text: &str) -> String {
    clean(text.trim().lines().next().unwrap_or_default())
}

/// The body of a refusal (`kind: Status`).
#[derive(Deserialize)]
struct StatusBody {
    kind: String,
    #[serde(default)]
    message: String,
}

/// What a body that is no list says, in one bounded line: the message of a `Status`, else its first line.
pub(super) fn words(body: &[u8]) -> String {
    match serde_json::from_slice::<StatusBody>(body) {
        Ok(status) if status.kind == "Status" && !status.message.is_empty() => short(&status.message),
        _ => short(&String::from_utf8_lossy(&body[..body.len().min(LOOKED_AT)])),
    }
}

/// An answer other than 200 to a list.
pub(super) fn from_status(status: StatusCode, body: &[u8]) -> Gap {
    let kind = match status {
        StatusCode::UNAUTHORIZED => GapKind::Unauthenticated,
        StatusCode::FORBIDDEN => GapKind::Forbidden,
        StatusCode::TOO_MANY_REQUESTS => GapKind::Throttled,
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => GapKind::Proxy,
        _ => GapKind::ServerError,
    };
    let words = words(body);
    let text = if words.is_empty() { status.to_string() } else { format!("{}: {words}", status.as_u16()) };
    Gap::new(kind, text)
}

/// A server that has completed the TLS handshake, and is sent no credentials.
pub(super) fn untrusted(place: &Place) -> Gap {
    let at = endpoint(&place.server).shown;
    let text =
        format!("no credentials are sent to {at}: neither default/kubernetes nor etcd's member list has this address");
    Gap::new(GapKind::Untrusted, text)
}

/// Of the servers that a kubeconfig does not name, if it has no CA: the roots of the system vouch for none of them.
pub(super) fn without_ca() -> Gap {
    Gap::new(GapKind::Untrusted, "not queried: the kubeconfig has no CA certificate to verify it with")
}

/// Of a server that proves to be a machine's API server by its name alone, and does not answer without credentials.
pub(super) fn unproven(place: &Place) -> Gap {
    let at = endpoint(&place.server).shown;
    Gap::new(GapKind::Untrusted, format!("no credentials are sent to {at}: its certificate lacks this address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_one_bounded_line() {
        assert_eq!(short("  one\ntwo"), "one");
        assert_eq!(short(&"ä".repeat(1000)).chars().count(), 301);
        assert_eq!(words(br#"{"kind":"Status","message":"nodes is forbidden"}"#), "nodes is forbidden");
        assert_eq!(
            words(b"Too many requests, please try again later.\n"),
            "Too many requests, please try again later."
        );
        assert_eq!(words(&[0xff, 0xfe, b'\n']), "\u{fffd}\u{fffd}");
        assert_eq!(words(b""), "");
    }
}
