//! Interprets gRPC statuses. Talos uses few codes for many purposes, so the text often decides.

use std::error::Error as _;

use jiff::SignedDuration;
use tonic::{Code, Status};

use crate::observe::dial::cause::{clean, innermost, of_loss};
use crate::snapshot::{Gap, GapKind};
use crate::text::duration::human;

/// Time for which a signature is valid, before and after it was made.
const ALLOWED_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// Returns whether the failure arose on our side of the connection and not from a server.
pub(super) fn is_local(status: &Status) -> bool {
    status.source().is_some()
}

/// Converts a status to a gap. `forwarded` is set if the call was to be forwarded to a node; `fault` is why the connection ended, if it
/// has.
pub(super) fn gap(status: &Status, forwarded: bool, fault: Option<&Gap>) -> Gap {
    if let Some(source) = status.source() {
        // grpc-go resets the stream (CANCEL) when the deadline that we sent has passed.
        if fault.is_none() && innermost(source).contains("stream no longer needed") {
            return Gap::new(GapKind::TimedOut, "no answer in time");
        }
        return of_loss(source, fault);
    }
    let message = status.message();
    Gap::new(kind(status.code(), message, forwarded), text(status.code(), message))
}

fn kind(code: Code, message: &str, forwarded: bool) -> GapKind {
    let says = |part: &str| message.contains(part);
    match code {
        Code::Unavailable if forwarded && unreachable(message) => GapKind::NodeUnreachable,
        // Omni's error for an unknown machine.
        Code::NotFound | Code::InvalidArgument if forwarded && says("resolve nodes") => GapKind::NodeUnreachable,
        // grpc-go's error if its deadline passes while it is still dialing.
        Code::DeadlineExceeded if forwarded && (says("connections to become ready") || unreachable(message)) => {
            GapKind::NodeUnreachable
        }
        Code::DeadlineExceeded => GapKind::TimedOut,
        Code::PermissionDenied if says("no request forwarding") => GapKind::NoForwarding,
        Code::PermissionDenied if says("is not supported") => GapKind::Unsupported,
        Code::PermissionDenied => GapKind::Forbidden,
        Code::Unauthenticated => GapKind::Unauthenticated,
        Code::Unimplemented => GapKind::Unsupported,
        // tonic's own errors: it decodes messages, and reports a failure like a server's.
        Code::Internal if says("decode Protobuf") || says("Missing response message") || says("decoding stream") => {
            GapKind::Malformed
        }
        Code::Internal if says("invalid compression flag") => GapKind::Malformed,
        Code::OutOfRange if says("message length too large") => GapKind::TooLarge,
        Code::ResourceExhausted if says("larger than max") => GapKind::TooLarge,
        _ if says("grpc-status header missing") => GapKind::Malformed,
        _ => GapKind::ServerError,
    }
}

/// Refines Omni's refusal. Omni gives the same answer for an unknown, expired or revoked key, a clock difference, and a bad signature. Only
/// the clock difference can be detected from here.
pub(super) fn of_omni(gap: Gap, ahead: Option<SignedDuration>) -> Gap {
    if gap.kind != GapKind::Unauthenticated {
        return gap;
    }
    let text = match ahead {
        Some(ahead) if ahead.abs() > ALLOWED_SKEW => {
            let (by, side) = (human(ahead.unsigned_abs()), if ahead.is_positive() { "behind" } else { "ahead of" });
            format!("{}: the clock of this runner is {by} {side} that of Omni, which accepts five minutes", gap.text)
        }
        _ => gap.text.into_owned(),
    };
    Gap::new(GapKind::SignatureRefused, text)
}

/// Returns the gap if a line of progress shows that the server's health check was refused one of its own calls, which it makes with our
/// role.
pub(super) fn of_own_question(line: &str) -> Result<(), Gap> {
    if line.contains("code = PermissionDenied desc = not authorized") {
        Err(Gap::new(GapKind::Forbidden, line.to_owned()))
    } else {
        Ok(())
    }
}

/// Returns whether apid reports that it did not reach the node. apid dials port 50000; a unix socket or etcd's port is dialed by the node
/// itself, which was then reached.
fn unreachable(message: &str) -> bool {
    let dialing = ["while dialing", "handshake failed", "error reading server preface"];
    let within = ["dial unix", ":2379"];
    (dialing.iter().chain(&Gap::UNRESOLVED).any(|part| message.contains(part))
        || message.starts_with("connection error"))
        && !within.iter().any(|part| message.contains(part))
}

/// Extracts the core of an error that grpc-go wraps: `connection error: desc = "transport: Error while dialing: dial tcp …: connect: …"`.
fn text(code: Code, message: &str) -> String {
    let mut inner = message;
    if let Some((_, quoted)) = inner.rsplit_once("desc = \"") {
        inner = quoted.strip_suffix('"').unwrap_or(quoted);
    }
    for prefix in ["transport: ", "Error while dialing: "] {
        inner = inner.strip_prefix(prefix).unwrap_or(inner);
    }
    let plain = inner.replace("connect: ", "").replace("\\\"", "\"");
    if code == Code::DeadlineExceeded && plain == "context deadline exceeded" {
        return "no answer in time".to_owned();
    }
    if plain.trim().is_empty() {
        return code.description().to_lowercase();
    }
    clean(&plain)
}

/// Returns the weight of a cause among several attempts to reach the same node: a statement about the node itself counts more than an
/// obstacle on the way to it.
pub(super) fn weight(gap: &Gap) -> u8 {
    match gap.kind {
        GapKind::Maintenance => 7,
        GapKind::Forbidden | GapKind::Unauthenticated | GapKind::SignatureRefused => 6,
        GapKind::NodeUnreachable => 5,
        GapKind::ServerError | GapKind::Malformed | GapKind::TooLarge | GapKind::Unsupported => 4,
        GapKind::TimedOut => 3,
        GapKind::NotAsked => 0,
        GapKind::NoForwarding => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(code: Code, message: &str, forwarded: bool) -> (GapKind, String) {
        let gap = gap(&Status::new(code, message), forwarded, None);
        (gap.kind, gap.text.into_owned())
    }

    #[test]
    fn real_words_of_talos() {
        let refused = "connection error: desc = \"transport: Error while dialing: dial tcp 10.0.0.3:50000: connect: no route to host\"";
        assert_eq!(
            told(Code::Unavailable, refused, true),
            (GapKind::NodeUnreachable, "dial tcp 10.0.0.3:50000: no route to host".into())
        );
        assert_eq!(told(Code::Unavailable, refused, false).0, GapKind::ServerError);
        let foreign = "connection error: desc = \"transport: authentication handshake failed: tls: failed to verify certificate: x509: certificate signed by unknown authority (possibly because of \\\"x509: Ed25519 verification failure\\\" while trying to verify candidate authority certificate \\\"talos\\\")\"";
        let (kind, text) = told(Code::Unavailable, foreign, true);
        assert_eq!(kind, GapKind::NodeUnreachable);
        assert!(text.starts_with("authentication handshake failed: tls: failed to verify certificate: x509"), "{text}");
        assert!(text.ends_with("authority certificate \"talos\")"), "{text}");
        assert_eq!(told(Code::PermissionDenied, "no request forwarding", true).0, GapKind::NoForwarding);
        assert_eq!(told(Code::PermissionDenied, "not authorized", true), (GapKind::Forbidden, "not authorized".into()));
        assert_eq!(
            told(Code::PermissionDenied, "resource type \"X.talos.dev\" is not supported", true).0,
            GapKind::Unsupported
        );
        assert_eq!(told(Code::Unimplemented, "unknown service cosi.resource.State", false).0, GapKind::Unsupported);
        assert_eq!(
            told(Code::Unknown, "etcdserver: no leader", true),
            (GapKind::ServerError, "etcdserver: no leader".into())
        );
        assert_eq!(told(Code::DeadlineExceeded, "context deadline exceeded", true).0, GapKind::TimedOut);
        let dialing = "context deadline exceeded while waiting for connections to become ready";
        assert_eq!(told(Code::DeadlineExceeded, dialing, true).0, GapKind::NodeUnreachable);
    }

    #[test]
    fn a_node_that_cannot_reach_its_own_parts_was_reached() {
        for inner in
            ["dial unix /system/run/machined/machine.sock: connect: no such file", "dial tcp 127.0.0.1:2379: refused"]
        {
            let text = format!("connection error: desc = \"transport: Error while dialing: {inner}\"");
            assert_eq!(told(Code::Unavailable, &text, true).0, GapKind::ServerError, "{text}");
        }
    }

    #[test]
    fn what_omni_refuses_is_a_signature_and_clocks_that_differ_are_told() {
        let refused = || Gap::new(GapKind::Unauthenticated, "invalid signature");
        let text = |ahead: Option<i64>| of_omni(refused(), ahead.map(SignedDuration::from_secs)).text.into_owned();
        assert_eq!(of_omni(refused(), None).kind, GapKind::SignatureRefused);
        assert_eq!(text(None), "invalid signature");
        assert_eq!(text(Some(300)), "invalid signature");
        let far = "invalid signature: the clock of this runner is 10m00s";
        assert_eq!(text(Some(600)), format!("{far} behind that of Omni, which accepts five minutes"));
        assert_eq!(text(Some(-600)), format!("{far} ahead of that of Omni, which accepts five minutes"));
        let other = Gap::new(GapKind::Forbidden, "not authorized");
        assert_eq!(of_omni(other.clone(), Some(SignedDuration::from_hours(1))), other);
        let unknown = "resolve nodes: \"10.0.0.9\" is not found";
        assert_eq!(told(Code::NotFound, unknown, true), (GapKind::NodeUnreachable, unknown.to_owned()));
    }

    #[test]
    fn an_empty_text_is_replaced_by_the_code_s() {
        assert_ne!(told(Code::Internal, " ", false).1, "");
    }
}
