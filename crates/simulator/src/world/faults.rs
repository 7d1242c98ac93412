//! Servers and calls that misbehave.

use std::time::Duration;

use jiff::fmt::serde::unsigned_duration::friendly::compact::required as go;
use serde::Deserialize;

use super::Server;

/// Misbehavior of the connections of one server. Effects of a machine's power and processes need no entry.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// Connections are refused (RST).
    Refuse,
    /// Packets are dropped, so that connections are never established.
    Blackhole,
    /// Connections are accepted, and nothing is ever sent.
    Silent,
    /// Connections are accepted and closed immediately.
    Close,
    /// The server does not use TLS.
    PlainHttp,
    /// The server sends random bytes without end.
    Garbage,
    /// TLS works, and no request is ever answered.
    SilentInTls,
    /// The certificate is from another authority.
    WrongCa,
    /// The certificate has expired.
    Expired,
    /// The certificate expires in an hour.
    ExpiresSoon,
    /// The certificate is not valid yet.
    NotYetValid,
    /// The certificate is for another address.
    WrongName,
    /// No protocol is negotiated (ALPN), as on Talos 1.7.0 to 1.8.1.
    NoAlpn,
    /// Each round trip takes this long, including that of connecting. Replaces [`World::delay`](super::World).
    Delay(#[serde(with = "go")] Duration),
    /// Bytes arrive one at a time, with this pause before each.
    Drip(#[serde(with = "go")] Duration),
    /// The connection is closed after this number of answers.
    CloseAfter(u32),
}

/// Calls that are answered wrongly.
#[derive(Clone, Debug, PartialEq)]
pub struct CallFault {
    /// `None`: all servers.
    pub server: Option<Server>,
    /// The full name (`Version`, `Get MachineStatuses`, `/api/v1/nodes`), or its beginning followed by `*`.
    pub call: String,
    pub does: Misbehavior,
    /// Number of calls that are answered correctly first.
    pub after: u64,
    /// Number of calls that misbehave; `None`: all from then on.
    pub times: Option<u64>,
}

impl CallFault {
    /// A fault of all calls with this name, on all servers, from now on.
    #[must_use]
    pub fn all(call: &str, does: Misbehavior) -> Self {
        Self { server: None, call: call.to_owned(), does, after: 0, times: None }
    }

    pub(crate) fn fits(&self, server: &Server, call: &str) -> bool {
        fits(&self.call, call) && self.server.as_ref().is_none_or(|of| of == server) && self.times != Some(0)
    }

    /// Counts a call, and returns its misbehavior.
    pub(crate) fn next(&mut self) -> Option<Misbehavior> {
        if self.after > 0 {
            self.after -= 1;
            return None;
        }
        if let Some(times) = &mut self.times {
            *times -= 1;
        }
        Some(self.does.clone())
    }
}

/// Whether a call has this name, or begins with it if it ends in `*`.
pub(crate) fn fits(name: &str, call: &str) -> bool {
    match name.strip_suffix('*') {
        Some(beginning) => call.starts_with(beginning),
        None => call == name,
    }
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Misbehavior {
    /// There is no answer.
    Hang,
    /// The right answer comes this much later.
    Late(#[serde(with = "go")] Duration),
    /// gRPC: this code and text. HTTP: this status and body.
    Fail { code: u16, text: String },
    /// The answer has the right form without content: an empty message, an empty list.
    Empty,
    /// Random bytes replace the answer.
    Garbage,
    /// The answer ends in the middle, with an error of its stream.
    Cut,
    /// The answer stops in the middle, and its stream stays open.
    Stall,
    /// The answer never ends.
    Endless,
    /// HTTP: this is the complete body, with status 200.
    Body(String),
    /// HTTP: the answer redirects to this location.
    Redirect(String),
    /// The answer is that of another machine, given by name.
    From(String),
    /// HTTP: a cache on the way answers with content of this age, which it declares as RFC 9111 requires.
    Cached(#[serde(with = "go")] Duration),
    /// HTTP: a proxy on the way drops the query, including selectors and limits.
    WithoutQuery,
    /// HTTP: a proxy on the way drops the server's `Date` header.
    WithoutDate,
}
