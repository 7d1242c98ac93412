//! Ports: where bytes come in and go out, and what may happen to them there.
//!
//! - `conduct` says what the world implies for a port, `ports` makes it so, at once.
//! - `connection` is what becomes of a connection; `line` makes it slow or silent, `tls` has its certificates, `anybody` lets
//!   any client's pass, `mangle` spoils the answers in it.
//! - `balancer` passes connections on to the API servers.
//!
//! What is like in a real network: connections that are refused, reset, silent, or do not come about, and the time that they take.
//! What is not: a machine that is off refuses connections, for nothing on loopback has `no route to host`; and what one server
//! forwards to another passes no network: the world's delay is paid once, by whoever asks.

mod anybody;
mod balancer;
mod conduct;
mod connection;
mod line;
mod mangle;
mod ports;
#[cfg(test)]
mod tests;
mod tls;

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use hyper::body::Incoming;
use rustls::pki_types::CertificateDer;
use tonic::body::Body;

pub(crate) use self::balancer::backend;
pub(crate) use self::mangle::Mangle;
pub(crate) use self::ports::Ports;
use crate::address::localhost;
use crate::world::Server;

/// Who has connected, as its certificate says; nobody, if it has shown none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) common_name: String,
    pub(crate) organizations: Vec<String>,
    /// The certificates themselves. Of them an API server judges whether they are good: its TLS takes any.
    pub(crate) chain: Vec<CertificateDer<'static>>,
}

pub(crate) type Answer = Pin<Box<dyn Future<Output = http::Response<Body>> + Send>>;

/// Answers the requests of one server. The request has its [`Peer`] among its extensions.
pub(crate) type Handler = Arc<dyn Fn(http::Request<Incoming>) -> Answer + Send + Sync>;

/// One server of the cluster.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) server: Server,
    pub(crate) at: SocketAddr,
    pub(crate) handler: Handler,
    /// Where it is reached, as its certificate says.
    names: Vec<String>,
    addresses: Vec<IpAddr>,
}

impl Service {
    /// `host` is the name of its machine.
    pub(crate) fn new(server: Server, host: &str, at: SocketAddr, handler: Handler) -> Self {
        let in_cluster: &[&str] = match server {
            Server::Apid(_) | Server::Etcd(_) | Server::Kubelet(_) | Server::Omni => &[],
            Server::ApiServer(_) | Server::Balancer => {
                &["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
            }
        };
        let names = [host, "localhost"].iter().chain(in_cluster).map(|&name| name.to_owned()).collect();
        Self { server, at, handler, names, addresses: vec![at.ip(), localhost(at.ip())] }
    }

    /// It is reached through another address, too.
    pub(crate) fn behind(mut self, address: IpAddr) -> Self {
        self.addresses.push(address);
        self
    }
}
