//! Gaps of the Kubernetes side that arise despite a connection: problems with credentials and answers become [`Gap`]s.

use http::StatusCode;
use serde::Deserialize;

use super::dial::endpoint;
use super::whom::Place;
use crate::observe::dial::cause::clean;
use crate::snapshot::{Gap, GapKind};

/// The number of bytes of a refusal that are examined.
const LOOKED_AT: usize = 1200;

/// Returns the first line of a foreign text, fit for a report.
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

/// Returns the message of a body that is not a list, in one bounded line: that of a `Status`, else the first line.
pub(super) fn words(body: &[u8]) -> String {
    match serde_json::from_slice::<StatusBody>(body) {
        Ok(status) if status.kind == "Status" && !status.message.is_empty() => short(&status.message),
        _ => short(&String::from_utf8_lossy(&body[..body.len().min(LOOKED_AT)])),
    }
}

/// The gap for a list request answered with a status other than 200.
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

/// The gap for a server that has completed the TLS handshake but may not receive the credentials.
pub(super) fn untrusted(place: &Place) -> Gap {
    let at = endpoint(&place.server).shown;
    let text =
        format!("no credentials are sent to {at}: neither default/kubernetes nor etcd's member list has this address");
    Gap::new(GapKind::Untrusted, text)
}

/// The gap for servers that the kubeconfig does not name, if it has no CA: the system's roots vouch for none of them.
pub(super) fn without_ca() -> Gap {
    Gap::new(GapKind::Untrusted, "not queried: the kubeconfig has no CA certificate to verify it with")
}

/// The gap for a server that proves to be a machine's API server only by name, and does not answer without credentials.
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
