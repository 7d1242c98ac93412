//! Ports: the network side of the simulated servers, with its faults.
//!
//! - `conduct` derives a port's behavior from the world, and `ports` applies it immediately.
//! - `connection` handles a connection; `line` makes it slow or silent, `tls` provides its certificates, `anybody` accepts any
//!   client's certificate, and `mangle` corrupts answers.
//! - `balancer` forwards connections to the API servers.
//!
//! Like a real network, this one has connections that are refused, reset, silent or never established, and it takes time. Unlike in a real
//! network, a machine that is off refuses connections, because nothing on loopback has `no route to host`. Bytes that one server forwards
//! to another do not cross a network: the world's delay only applies to the client's connection.

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

/// The peer of a connection according to its certificate; empty if it has not sent one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) common_name: String,
    pub(crate) organizations: Vec<String>,
    /// The peer's certificates. An API server verifies them itself, because its TLS accepts any.
    pub(crate) chain: Vec<CertificateDer<'static>>,
}

pub(crate) type Answer = Pin<Box<dyn Future<Output = http::Response<Body>> + Send>>;

/// Answers the requests of one server. The [`Peer`] is in the request's extensions.
pub(crate) type Handler = Arc<dyn Fn(http::Request<Incoming>) -> Answer + Send + Sync>;

/// One server of the cluster.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) server: Server,
    pub(crate) at: SocketAddr,
    pub(crate) handler: Handler,
    /// Names and addresses in the server's certificate.
    names: Vec<String>,
    addresses: Vec<IpAddr>,
}

impl Service {
    /// Creates a service; `host` is the name of its machine.
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

    /// Adds another address at which the server is reachable.
    pub(crate) fn behind(mut self, address: IpAddr) -> Self {
        self.addresses.push(address);
        self
    }
}
