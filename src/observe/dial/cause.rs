//! Maps the errors of failed connections to gaps, with a separate gap for each cause.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError};

use crate::snapshot::{Gap, GapKind};

/// Length limit for the text of a gap, in characters: enough for every known error of Talos, gRPC and Kubernetes.
const LONGEST: usize = 300;

/// Makes foreign text fit for a terminal and a report: one line, no control characters, bounded. Control characters are not replaced by
/// blanks, which would split a secret and prevent its detection.
pub(in crate::observe) fn clean(text: &str) -> String {
    let mut clean = String::new();
    for word in text.split_whitespace() {
        if !clean.is_empty() {
            clean.push(' ');
        }
        clean.extend(word.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }));
    }
    match clean.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &clean[..end]),
        None => clean,
    }
}

/// A gap that passes through the errors of libraries, where [`of_chain`] finds it.
#[derive(Debug)]
pub(in crate::observe) struct Failed(pub(in crate::observe) Gap);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl StdError for Failed {}

/// The error for a kubelet that answers in the place of an API server.
#[derive(Debug)]
pub(in crate::observe) struct KubeletCertificate;

impl fmt::Display for KubeletCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server's certificate is a kubelet's (system:node), not an API server's")
    }
}

impl StdError for KubeletCertificate {}

/// Iterates over an error and its sources, the outermost first. [`io::Error`] omits the error that it wraps from `source`.
fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner as &(dyn StdError + 'static)),
        None => error.source(),
    })
}

/// Returns the outermost error of a type.
pub(in crate::observe) fn find<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    chain(error).find_map(<dyn StdError>::downcast_ref)
}

/// Returns the innermost I/O error, because the outer ones have no specific kind.
pub(in crate::observe) fn find_io<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a io::Error> {
    chain(error).filter_map(<dyn StdError>::downcast_ref).last()
}

/// Returns the text of the last error of a chain, which the others repeat.
pub(in crate::observe) fn innermost(error: &(dyn StdError + 'static)) -> String {
    chain(error).last().map(|error| clean(&error.to_string())).unwrap_or_default()
}

/// Returns the cause from inside an error of a library.
pub(in crate::observe) fn of_chain(error: &(dyn StdError + 'static)) -> Gap {
    if let Some(Failed(gap)) = find(error) {
        return gap.clone();
    }
    if let Some(tls) = find(error) {
        return of_tls(tls);
    }
    match find_io(error) {
        Some(io) => of_io(io),
        None => Gap::new(GapKind::Broken, innermost(error)),
    }
}

/// Returns why a request got no answer: the cause of the connection's end if it is known, otherwise the library's error.
pub(in crate::observe) fn of_loss(error: &(dyn StdError + 'static), fault: Option<&Gap>) -> Gap {
    fault.cloned().unwrap_or_else(|| Gap::new(GapKind::Broken, innermost(error)))
}

/// The gap for an address that neither accepts nor refuses a connection.
pub(in crate::observe) fn no_connection(within: Duration) -> Gap {
    Gap::new(GapKind::ConnectTimedOut, format!("no connection within {}", seconds(within)))
}

/// The gap for a server that accepts a connection but does not answer.
pub(in crate::observe) fn no_answer(within: Duration) -> Gap {
    Gap::new(GapKind::TimedOut, format!("no answer within {}", seconds(within)))
}

/// The gap for a server that accepts a connection but does not start TLS, as a frozen process does.
pub(in crate::observe) fn no_handshake() -> Gap {
    Gap::new(GapKind::TimedOut, "connected, but the TLS handshake was not answered")
}

/// Formats `10s`, `1.5s`.
fn seconds(duration: Duration) -> String {
    format!("{}s", duration.as_secs_f64())
}

/// Returns the cause of a failed TLS handshake.
pub(in crate::observe) fn of_handshake(error: &io::Error) -> Gap {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Gap::new(GapKind::Broken, "the connection was closed during the TLS handshake"),
        _ => of_io(error),
    }
}

/// Returns the cause of a failed read, write or connect.
pub(in crate::observe) fn of_io(error: &io::Error) -> Gap {
    if let Some(tls) = find(error) {
        return of_tls(tls);
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Gap::new(GapKind::ConnectionRefused, "connection refused"),
        io::ErrorKind::HostUnreachable => Gap::new(GapKind::NoRoute, "no route to host"),
        io::ErrorKind::NetworkUnreachable => Gap::new(GapKind::NoRoute, "network is unreachable"),
        io::ErrorKind::NetworkDown => Gap::new(GapKind::NoRoute, "network is down"),
        // A packet filter on this machine.
        io::ErrorKind::PermissionDenied => Gap::new(GapKind::NoRoute, "this runner does not allow the connection"),
        io::ErrorKind::AddrNotAvailable => Gap::new(GapKind::NoRoute, "no local address can reach this address"),
        io::ErrorKind::TimedOut => Gap::new(GapKind::ConnectTimedOut, "connection timed out"),
        io::ErrorKind::UnexpectedEof => Gap::new(GapKind::Broken, "the connection was closed"),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted => {
            Gap::new(GapKind::Broken, "the connection was reset")
        }
        _ => Gap::new(GapKind::Broken, clean(without_number(&innermost(error)))),
    }
}

/// Removes `(os error 111)`, which adds nothing to the words before it.
pub(in crate::observe) fn without_number(text: &str) -> &str {
    text.split(" (os error ").next().unwrap_or(text)
}

/// The gap for a host in the configuration that is not a valid name.
pub(in crate::observe) fn no_name(host: &str) -> Gap {
    Gap::new(GapKind::NameNotFound, clean(&format!("`{host}` is not a valid hostname")))
}

/// Returns the cause of a failed name lookup.
pub(in crate::observe) fn of_lookup(host: &str, error: &io::Error) -> Gap {
    let text = error.to_string();
    let reason = without_number(&text).trim_start_matches("failed to lookup address information: ");
    Gap::new(GapKind::NameNotFound, clean(&format!("`{host}` does not resolve: {reason}")))
}

pub(in crate::observe) fn of_tls(error: &rustls::Error) -> Gap {
    match error {
        rustls::Error::InvalidCertificate(certificate) => of_certificate(certificate),
        rustls::Error::AlertReceived(alert) => of_alert(*alert),
        rustls::Error::InvalidMessage(_) | rustls::Error::InappropriateMessage { .. } => {
            Gap::new(GapKind::Broken, "the answer is not TLS")
        }
        rustls::Error::NoApplicationProtocol => Gap::new(GapKind::Broken, "the server does not offer HTTP/2"),
        rustls::Error::PeerIncompatible(_) => Gap::new(GapKind::Broken, "the server offers no supported TLS version"),
        rustls::Error::PeerMisbehaved(_) | rustls::Error::InappropriateHandshakeMessage { .. } => {
            Gap::new(GapKind::Broken, "the server violates the TLS protocol")
        }
        other => Gap::new(GapKind::Broken, clean(&format!("TLS: {other}"))),
    }
}

fn of_certificate(error: &CertificateError) -> Gap {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            Gap::new(GapKind::PeerCertificateExpired, "the server's certificate has expired")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            Gap::new(GapKind::PeerCertificateExpired, "the server's certificate is not valid yet")
        }
        CertificateError::NotValidForName => {
            Gap::new(GapKind::NameNotInCertificate, "the server's certificate is not valid for this name")
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let expected = expected.to_str();
            let presented = presented.iter().take(8).map(|name| plain_name(name)).collect::<Vec<_>>().join(", ");
            let text = format!("the server's certificate is not valid for `{expected}`, only for: {presented}");
            Gap::new(GapKind::NameNotInCertificate, clean(&text))
        }
        // All CAs of Talos have the same subject, and so do those of Kubernetes, so another cluster's CA shows up as a signature that does
        // not match.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            Gap::new(GapKind::UnknownCa, "the server's certificate is signed by another CA")
        }
        CertificateError::Other(error) if error.0.is::<KubeletCertificate>() => {
            Gap::new(GapKind::NameNotInCertificate, KubeletCertificate.to_string())
        }
        // Any other fault means that the certificate does not verify with our CA.
        other => {
            Gap::new(GapKind::UnknownCa, clean(&format!("the server's certificate does not verify: {}", words(other))))
        }
    }
}

/// Describes a certificate error. The library's own texts contain lists of numbers or names of its types.
fn words(error: &CertificateError) -> String {
    match error {
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "it is signed with an algorithm that is not supported (ECDSA, Ed25519 and RSA with SHA-2 are)".to_owned()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its extended key usage does not include servers".to_owned()
        }
        CertificateError::BadEncoding => "it is not a readable X.509 certificate".to_owned(),
        CertificateError::UnhandledCriticalExtension => "it has a critical extension that is not known".to_owned(),
        CertificateError::Other(error) => match format!("{:?}", error.0).as_str() {
            "UnsupportedCertVersion" => "it is of X.509 version 1, which names no server".to_owned(),
            "CaUsedAsEndEntity" => "it is the certificate of a CA, not of a server".to_owned(),
            other => other.to_owned(),
        },
        other => other.to_string(),
    }
}

/// Extracts the name from rustls's notation, such as `DnsName("cp-1")` or `IpAddress(10.0.0.1)`.
fn plain_name(name: &str) -> &str {
    let inner = name.split_once('(').map_or(name, |(_, rest)| rest);
    inner.trim_end_matches(')').trim_matches('"')
}

fn of_alert(alert: AlertDescription) -> Gap {
    let refused = match alert {
        AlertDescription::CertificateRequired | AlertDescription::NoCertificate => "a client certificate is required",
        AlertDescription::BadCertificate => "bad certificate",
        AlertDescription::UnsupportedCertificate => "unsupported certificate",
        AlertDescription::CertificateRevoked => "it is revoked",
        AlertDescription::CertificateExpired => "it has expired by the server's clock",
        AlertDescription::CertificateUnknown => "certificate unknown",
        AlertDescription::UnknownCA => "it is signed by another CA",
        AlertDescription::AccessDenied => "access denied",
        AlertDescription::DecryptError => "its signature does not match",
        other => {
            let text = format!("the server ended the TLS connection (alert {})", u8::from(other));
            return Gap::new(GapKind::Broken, text);
        }
    };
    Gap::new(GapKind::ClientCertificateRefused, format!("the server refused the client certificate: {refused}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_s_words_are_shortened() {
        let error = io::Error::from_raw_os_error(111);
        assert_eq!(of_io(&error), Gap::new(GapKind::ConnectionRefused, "connection refused"));
        let error = io::Error::from_raw_os_error(113);
        assert_eq!(of_io(&error), Gap::new(GapKind::NoRoute, "no route to host"));
        let error = io::Error::from_raw_os_error(101);
        assert_eq!(of_io(&error).kind, GapKind::NoRoute);
        let error = io::Error::from_raw_os_error(24);
        assert_eq!(of_io(&error).text, "Too many open files");
        assert_eq!(no_connection(Duration::from_secs(5)).text, "no connection within 5s");
        assert_eq!(no_answer(Duration::from_millis(1500)).text, "no answer within 1.5s");
    }

    #[test]
    fn causes_are_found_in_whatever_wraps_them() {
        let wrap = |error: io::Error| io::Error::other(io::Error::other(error));
        let refused = wrap(io::Error::from_raw_os_error(111));
        assert_eq!(of_chain(&refused).kind, GapKind::ConnectionRefused);
        let tls = wrap(io::Error::other(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)));
        assert_eq!(of_chain(&tls).kind, GapKind::UnknownCa);
        let gap = Gap::new(GapKind::Proxy, "proxy 10.0.0.9:3128: it answered 403 Forbidden");
        assert_eq!(of_chain(&wrap(io::Error::other(Failed(gap.clone())))), gap);
        assert_eq!(of_chain(&wrap(io::Error::other("x\ny"))), Gap::new(GapKind::Broken, "x y"));
    }

    #[test]
    fn text_of_others_cannot_reach_the_terminal_unfiltered() {
        assert_eq!(clean("a\n\u{1b}[31mb\u{0}\r\n  c"), "a \u{fffd}[31mb\u{fffd} c");
        let long = clean(&"ö".repeat(1000));
        assert_eq!(long.chars().count(), LONGEST + 1);
    }

    #[test]
    fn certificate_errors_with_and_without_context_are_the_same_kind() {
        let name = rustls::pki_types::ServerName::try_from("cp-1").unwrap();
        let gap = of_certificate(&CertificateError::NotValidForNameContext {
            expected: name,
            presented: vec!["DnsName(\"talos\")".into(), "IpAddress(10.0.0.1)".into()],
        });
        assert_eq!(gap.kind, GapKind::NameNotInCertificate);
        assert_eq!(gap.text, "the server's certificate is not valid for `cp-1`, only for: talos, 10.0.0.1");
        assert_eq!(of_certificate(&CertificateError::NotValidForName).kind, GapKind::NameNotInCertificate);
        assert_eq!(of_certificate(&CertificateError::Expired).kind, GapKind::PeerCertificateExpired);
        assert_eq!(of_certificate(&CertificateError::NotValidYet).kind, GapKind::PeerCertificateExpired);
        assert_eq!(of_certificate(&CertificateError::UnknownIssuer).kind, GapKind::UnknownCa);
        assert_eq!(of_certificate(&CertificateError::BadSignature).kind, GapKind::UnknownCa);
        assert_eq!(of_certificate(&CertificateError::Revoked).kind, GapKind::UnknownCa);
        let unknown = CertificateError::UnsupportedSignatureAlgorithmContext {
            signature_algorithm_id: vec![6, 8, 42],
            supported_algorithms: Vec::new(),
        };
        let text = of_certificate(&unknown).text;
        assert!(text.contains("an algorithm that is not supported") && !text.contains("42"), "{text}");
    }

    #[test]
    fn alerts_about_certificates_are_told_from_others() {
        assert_eq!(of_alert(AlertDescription::UnknownCA).kind, GapKind::ClientCertificateRefused);
        assert_eq!(of_alert(AlertDescription::CertificateRequired).kind, GapKind::ClientCertificateRefused);
        let gap = of_alert(AlertDescription::HandshakeFailure);
        assert_eq!((gap.kind, &*gap.text), (GapKind::Broken, "the server ended the TLS connection (alert 40)"));
    }
}
