//! Servers and calls that misbehave.

use std::time::Duration;

use jiff::fmt::serde::unsigned_duration::friendly::compact::required as go;
use serde::Deserialize;

use super::Server;

/// How the connections of one server misbehave. What a machine's power and its processes imply needs no entry.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// RST.
    Refuse,
    /// Packets vanish: not even a connection comes about.
    Blackhole,
    /// Connections are taken, and nothing is ever said.
    Silent,
    /// Connections are taken and closed at once.
    Close,
    /// Something that is not TLS.
    PlainHttp,
    /// Random bytes without end.
    Garbage,
    /// TLS works, and nothing is ever answered in it.
    SilentInTls,
    /// A certificate of another authority.
    WrongCa,
    /// Its certificate has expired.
    Expired,
    /// Its certificate expires in an hour.
    ExpiresSoon,
    /// Its certificate is not valid yet.
    NotYetValid,
    /// Its certificate is for another address.
    WrongName,
    /// The protocol is not negotiated (ALPN), as on Talos 1.7.0 to 1.8.1.
    NoAlpn,
    /// Each round trip takes this long, connecting included; instead of [`World::delay`](super::World).
    Delay(#[serde(with = "go")] Duration),
    /// Bytes come one at a time, each after so long.
    Drip(#[serde(with = "go")] Duration),
    /// The connection is closed after so many answers.
    CloseAfter(u32),
}

/// Calls that are answered wrongly.
#[derive(Clone, Debug, PartialEq)]
pub struct CallFault {
    /// `None`: all servers.
    pub server: Option<Server>,
    /// The whole name (`Version`, `Get MachineStatuses`, `/api/v1/nodes`), or its beginning followed by `*`.
    pub call: String,
    pub does: Misbehavior,
    /// Calls that are answered well before the first that is not.
    pub after: u64,
    /// Calls that misbehave; `None`: all from then on.
    pub times: Option<u64>,
}

impl CallFault {
    /// All calls of this name, at all servers, from now on.
    #[must_use]
    pub fn all(call: &str, does: Misbehavior) -> Self {
        Self { server: None, call: call.to_owned(), does, after: 0, times: None }
    }

    pub(crate) fn fits(&self, server: &Server, call: &str) -> bool {
        fits(&self.call, call) && self.server.as_ref().is_none_or(|of| of == server) && self.times != Some(0)
    }

    /// One more call: what becomes of it.
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

/// Whether a call has this name, or begins with it where it ends in `*`.
pub(crate) fn fits(name: &str, call: &str) -> bool {
    match name.strip_suffix('*') {
        Some(beginning) => call.starts_with(beginning),
        None => call == name,
    }
}

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Misbehavior {
    /// No answer.
    Hang,
    /// The right answer, so much later.
    Late(#[serde(with = "go")] Duration),
    /// gRPC: this code and text. HTTP: this status and body.
    Fail { code: u16, text: String },
    /// The right form, without content: an empty message, an empty list.
    Empty,
    /// Bytes that are no answer.
    Garbage,
    /// The answer breaks off in the middle, and so does its stream.
    Cut,
    /// The answer breaks off in the middle, and the stream stays open.
    Stall,
    /// The answer never ends.
    Endless,
    /// HTTP: this whole body, with status 200.
    Body(String),
    /// HTTP: elsewhere.
    Redirect(String),
    /// The answer of another machine (its name).
    From(String),
    /// HTTP: the answer of a cache on the way that has had it for so long, and says so as RFC 9111 demands.
    Cached(#[serde(with = "go")] Duration),
    /// HTTP: something on the way drops the query, and with it selectors and limits.
    WithoutQuery,
    /// HTTP: something on the way drops the server's `Date`.
    WithoutDate,
}
