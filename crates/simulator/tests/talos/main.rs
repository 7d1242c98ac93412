//! Tests the Talos API of a simulated cluster over real TLS.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod access;
mod client;
#[path = "../common/connection.rs"]
mod connection;
mod cosi;
mod etcd;
mod files;
mod health;
mod misbehavior;
mod routing;
