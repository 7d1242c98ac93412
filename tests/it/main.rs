//! The built program, driven as its users do: real processes, real files, real sockets on loopback.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![expect(clippy::disallowed_types, reason = "real processes take real time")]

mod harness;
mod inputs;
mod network;
mod pki;
mod record;
mod reports;
mod signals;
