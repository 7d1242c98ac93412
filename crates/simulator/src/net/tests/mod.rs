//! Ports of a small cluster, tested with clients that notice everything.

mod balancer;
mod mangled;
mod pace;
mod power;
mod trust;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::body::Body;

use super::{Handler, Mangle, Peer, Ports, Service};
use crate::address::{API_SERVER, APID, ETCD, KUBELET, Network};
use crate::pki::{Flaw, Leaf, Pki, provider};
use crate::state::ClusterState;
use crate::world::{Server, Shape, Transport, World};

/// Timeout for events that have to happen.
const SOON: Duration = Duration::from_secs(20);
/// Timeout for events that never happen.
const NEVER: Duration = Duration::from_millis(200);

struct Cluster {
    state: Arc<ClusterState>,
    ports: Ports,
    network: Network,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.ports.close();
    }
}

impl Cluster {
    /// Starts a cluster with two control planes.
    fn start() -> Self {
        let network = Network::claim().unwrap();
        let world = World::healthy(&network, &Shape { control_planes: 2, workers: 0, ..Shape::default() });
        let machines: Vec<_> = world.machines.keys().copied().collect();
        let ports = Ports::default();
        let following = ports.clone();
        let state = ClusterState::new(world, Pki::new().unwrap(), network.balancer());
        let state = Arc::new(state.on_change(move |world| following.follow(world)));
        let balancer = SocketAddr::new(network.balancer(), API_SERVER);
        let mut services = vec![Service::new(Server::Balancer, "balancer", balancer, answering("balancer"))];
        for at in machines {
            let service = |server: fn(IpAddr) -> Server, port| {
                Service::new(server(at), "host", SocketAddr::new(at, port), answering(&at.to_string()))
            };
            services.push(service(Server::Apid, APID));
            services.push(service(Server::ApiServer, API_SERVER).behind(network.balancer()));
            services.push(service(Server::Etcd, ETCD));
        }
        ports.open(&state, services).unwrap();
        Self { state, ports, network }
    }

    fn change(&self, edit: impl FnOnce(&mut World)) {
        self.state.change(edit);
    }

    /// Makes a server misbehave from now on.
    fn spoil(&self, server: &Server, transport: Transport) {
        self.change(|world| world.transport.extend([(server.clone(), transport)]));
    }

    fn heal(&self, server: &Server) {
        self.change(|world| world.transport.retain(|spoilt, _| spoilt != server));
    }

    fn apid(&self, index: usize) -> Server {
        Server::Apid(self.network.machine(index))
    }

    fn api_server(&self, index: usize) -> Server {
        Server::ApiServer(self.network.machine(index))
    }

    fn address(&self, server: &Server) -> SocketAddr {
        match server {
            Server::Apid(at) => SocketAddr::new(*at, APID),
            Server::ApiServer(at) => SocketAddr::new(*at, API_SERVER),
            Server::Etcd(at) => SocketAddr::new(*at, ETCD),
            Server::Kubelet(at) => SocketAddr::new(*at, KUBELET),
            Server::Balancer | Server::Omni => SocketAddr::new(self.network.balancer(), API_SERVER),
        }
    }

    async fn dial(&self, server: &Server) -> io::Result<TcpStream> {
        timeout(SOON, TcpStream::connect(self.address(server))).await?
    }

    /// A client configuration that the server accepts.
    fn client(&self, server: &Server) -> ClientConfig {
        let pki = &self.state.pki;
        let authority = match server {
            Server::Apid(_) => &pki.talos,
            Server::ApiServer(_) | Server::Kubelet(_) | Server::Balancer => &pki.kubernetes,
            Server::Etcd(_) => &pki.etcd,
            Server::Omni => &pki.public,
        };
        client(authority.pem(), Some(&authority.client("somebody", &["os:reader"], Flaw::None).unwrap()))
    }

    async fn secure(&self, server: &Server, client: ClientConfig) -> io::Result<TlsStream<TcpStream>> {
        let tcp = self.dial(server).await?;
        let name = ServerName::from(self.address(server).ip());
        timeout(SOON, TlsConnector::from(Arc::new(client)).connect(name, tcp)).await?
    }

    async fn connect(&self, server: &Server) -> io::Result<TlsStream<TcpStream>> {
        self.secure(server, self.client(server)).await
    }

    /// Sends a request through a new connection, and returns the name of the server that answered.
    async fn ask(&self, server: &Server) -> io::Result<String> {
        let mut connection = Http2::over(self.connect(server).await?).await;
        connection.ask("/").await.map_err(io::Error::other)
    }
}

fn client(authority: &str, leaf: Option<&Leaf>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    let mut config = match leaf {
        None => config.with_no_client_auth(),
        Some(leaf) => config.with_client_auth_cert(leaf.chain().unwrap(), leaf.private_key().unwrap()).unwrap(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

/// A handler that answers with its name, below `/grpc` as gRPC, corrupted as the last part of the path says; `/peer`
/// returns the peer.
fn answering(name: &str) -> Handler {
    let name = name.to_owned();
    Arc::new(move |request: Request<Incoming>| {
        let path = request.uri().path();
        let content = match path {
            "/peer" => {
                let peer = request.extensions().get::<Peer>().unwrap();
                format!("{} of {:?}", peer.common_name, peer.organizations)
            }
            _ => name.clone(),
        };
        let mut response = if path.starts_with("/grpc") {
            let mut frame = vec![0, 0, 0, 0, u8::try_from(content.len()).unwrap()];
            frame.extend(content.as_bytes());
            let trailers = async { Some(Ok([("grpc-status".parse().unwrap(), 0.into())].into_iter().collect())) };
            let response = Response::builder().header("content-type", "application/grpc");
            response.body(Body::new(Full::new(Bytes::from(frame)).with_trailers(trailers))).unwrap()
        } else {
            Response::builder().header("content-length", content.len()).body(Body::new(Full::from(content))).unwrap()
        };
        let mangle = match path.rsplit('/').next() {
            Some("garbage") => Some(Mangle::Garbage),
            Some("cut") => Some(Mangle::Cut),
            Some("stall") => Some(Mangle::Stall),
            Some("endless") => Some(Mangle::Endless),
            _ => None,
        };
        if let Some(mangle) = mangle {
            response.extensions_mut().insert(mangle);
        }
        Box::pin(std::future::ready(response))
    })
}

#[derive(Clone)]
struct Http2(hyper::client::conn::http2::SendRequest<Empty<Bytes>>);

impl Http2 {
    async fn over(stream: TlsStream<TcpStream>) -> Self {
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (sender, connection) = handshake.await.unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    async fn send(&mut self, path: &str) -> hyper::Result<Response<Incoming>> {
        let request = Request::get(format!("https://cluster{path}")).body(Empty::new()).unwrap();
        self.0.send_request(request).await
    }

    async fn ask(&mut self, path: &str) -> hyper::Result<String> {
        let body = self.send(path).await?.into_body().collect().await?.to_bytes();
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    async fn is_silent(&mut self) -> bool {
        timeout(NEVER, self.ask("/")).await.is_err()
    }
}

/// Whether neither bytes nor an end arrive.
async fn is_silent(stream: &mut (impl AsyncRead + Unpin)) -> bool {
    timeout(NEVER, stream.read_u8()).await.is_err()
}
