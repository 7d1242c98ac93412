//! The built program, run as users run it: real processes, real files, real sockets on loopback.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![expect(clippy::disallowed_types, reason = "real processes take real time")]

mod budget;
mod ci;
mod cluster;
mod completions;
mod documents;
mod etcd;
mod formats;
mod harness;
mod inputs;
mod integrations;
mod kubernetes;
mod machine;
mod omni;
mod pki;
mod plan;
mod policy;
mod receivers;
mod record;
mod recorded;
mod report;
mod reports;
mod requires;
mod signals;
mod talos;
mod terminal;
mod upgrade;
