//! A running cluster.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use jiff::Timestamp;
use tokio::runtime::Runtime;
use tonic::body::Body;

use crate::address::{API_SERVER, APID, ETCD, KUBELET, Network, OMNI, host};
use crate::credentials::{omni_kubeconfig, omni_talosconfig, talosconfig};
use crate::kubernetes::Kubernetes;
use crate::net::{Answer, Handler, Ports, Service, backend};
use crate::openpgp::PrivateKey;
use crate::pki::{Flaw, Leaf, Pki};
use crate::state::{Calls, ClusterState};
use crate::talos::Talos;
use crate::timeline::{Step, Timeline};
use crate::world::{Process, Role, Server, User, World};
use crate::{control, etcd};

/// A running cluster, which ends when this value is dropped.
pub struct Simulator {
    timeline: Timeline,
    ports: Ports,
    network: Network,
    /// Taken when the simulator is dropped.
    runtime: Option<Runtime>,
}

/// Credentials for the options `--cacert`, `--cert` and `--key` of `etcdctl`.
#[derive(Clone)]
pub struct EtcdCredentials {
    /// PEM.
    pub ca: String,
    pub client: Leaf,
}

impl Simulator {
    /// Starts all servers of a world. They accept connections when this returns.
    ///
    /// # Errors
    /// If an address cannot be bound.
    pub fn start(network: Network, mut world: World) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let ports = Ports::default();
        let following = ports.clone();
        let pki = Pki::new()?;
        // The cluster's UID is new on each start, like its authorities.
        world.kubernetes.identify(pki.kubernetes.pem());
        let state = ClusterState::new(world, pki, network.balancer());
        let timeline = Timeline::new(state.on_change(move |world| following.follow(world)));
        let entered = runtime.enter();
        ports.open(&timeline.state, services(&timeline.state, &network))?;
        drop(entered);
        Ok(Self { timeline, ports, network, runtime: Some(runtime) })
    }

    /// Changes the world, which affects the next answer.
    pub fn change<T>(&self, edit: impl FnOnce(&mut World) -> T) -> T {
        self.timeline.state.change(edit)
    }

    /// Changes the world immediately, at a time, or when a call arrives.
    ///
    /// # Errors
    /// If a step names something that the world does not have; then none is made.
    pub fn play(&self, steps: Vec<Step>) -> anyhow::Result<()> {
        let _entered = self.runtime.as_ref().map(Runtime::enter);
        self.timeline.play(steps)
    }

    /// Allows the cluster to be controlled over plain HTTP, and returns the address.
    ///
    /// # Errors
    /// If the system provides no more sockets.
    pub fn control(&self) -> anyhow::Result<SocketAddr> {
        let _entered = self.runtime.as_ref().map(Runtime::enter);
        let listener = self.network.control().try_clone()?;
        listener.set_nonblocking(true)?;
        let at = listener.local_addr()?;
        tokio::spawn(control::serve(self.timeline.clone(), tokio::net::TcpListener::from_std(listener)?, at));
        Ok(at)
    }

    /// The calls that were received so far.
    #[must_use]
    pub fn calls(&self) -> &Calls {
        &self.timeline.state.calls
    }

    /// The authorities, for credentials that [`talosconfig`](Self::talosconfig) and [`kubeconfig`](Self::kubeconfig) do not create.
    #[must_use]
    pub fn pki(&self) -> &Pki {
        &self.timeline.state.pki
    }

    /// The addresses of the cluster.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Creates a talosconfig for a role (`os:reader`), with all control planes as endpoints and all machines as nodes.
    ///
    /// # Errors
    /// If the system provides no randomness.
    pub fn talosconfig(&self, role: &str, flaw: Flaw) -> anyhow::Result<String> {
        let leaf = self.timeline.state.pki.talos.client(role, &[role], flaw)?;
        let world = self.timeline.state.world();
        let endpoints: Vec<_> = world.control_planes().collect();
        let nodes: Vec<_> = world.machines.keys().copied().collect();
        Ok(talosconfig(&world.cluster, self.timeline.state.pki.talos.pem(), &leaf, &endpoints, &nodes))
    }

    /// The address of Omni.
    #[must_use]
    pub fn omni(&self) -> SocketAddr {
        SocketAddr::new(self.network.omni(), OMNI)
    }

    /// Whether the cluster has Omni.
    #[must_use]
    pub fn has_omni(&self) -> bool {
        self.timeline.state.world().omni.is_some()
    }

    /// Creates a talosconfig for Omni.
    #[must_use]
    pub fn omni_talosconfig(&self) -> String {
        omni_talosconfig(&self.timeline.state.world().cluster, self.omni())
    }

    /// Creates a kubeconfig for Omni: a user with the reader's rights, and a token.
    ///
    /// # Errors
    /// If the system provides no randomness.
    pub fn omni_kubeconfig(&self) -> anyhow::Result<String> {
        let token = PrivateKey::new("token", 0, None)?.public().fingerprint;
        let user = User { name: "reader".to_owned(), groups: Vec::new() };
        self.change(|world| world.kubernetes.tokens.insert(token.clone(), user));
        Ok(omni_kubeconfig(&self.timeline.state.world().cluster, self.omni(), &token))
    }

    /// Creates a service account and registers it with Omni. Returns it in the format of `omnictl serviceaccount create`.
    ///
    /// # Errors
    /// If the system provides no randomness.
    pub fn service_account(&self, name: &str, flaw: Flaw) -> anyhow::Result<String> {
        const DAY: i64 = 24 * 60 * 60;
        let now = Timestamp::now().as_second();
        let (created, lasts) = match flaw {
            Flaw::None | Flaw::WithoutClientAuth => (now - DAY, 365 * DAY),
            Flaw::Expired => (now - 366 * DAY, 365 * DAY),
            Flaw::ExpiresSoon => (now - 362 * DAY, 365 * DAY),
            Flaw::NotYetValid => (now + DAY, 365 * DAY),
            Flaw::ShortLived => (now - 1800, 3600),
        };
        let user = format!("{name} <{name}@serviceaccount.omni.sidero.dev>");
        let key = PrivateKey::new(&user, created.try_into()?, Some(lasts.try_into()?))?;
        let public = key.public();
        self.change(|world| {
            world.omni.get_or_insert_default().keys.insert(public.fingerprint.clone(), public);
        });
        Ok(service_account(name, &key))
    }

    /// The client addresses of the etcd members: `https://127.16.0.2:2379`.
    #[must_use]
    pub fn etcd_endpoints(&self) -> Vec<String> {
        self.timeline.state.world().control_planes().map(|at| format!("https://{}:{ETCD}", host(at))).collect()
    }

    /// Creates the credentials that etcd members require from a client.
    ///
    /// # Errors
    /// If the system provides no randomness.
    pub fn etcd_credentials(&self, flaw: Flaw) -> anyhow::Result<EtcdCredentials> {
        let etcd = &self.timeline.state.pki.etcd;
        Ok(EtcdCredentials { ca: etcd.pem().to_owned(), client: etcd.client("root", &[], flaw)? })
    }

    /// Creates a kubeconfig for the balancer, or for the server that the world specifies. `admin` is in the group `system:masters`; every
    /// other user has the reader's rights.
    ///
    /// # Errors
    /// If the system provides no randomness.
    pub fn kubeconfig(&self, user: &str, flaw: Flaw) -> anyhow::Result<String> {
        self.timeline.state.kubeconfig(user, flaw)
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.ports.close();
        // The runtime ends in the background, because a test may drop the simulator inside another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A handler that answers 401 without content, because requests without credentials get nothing.
fn nothing() -> Handler {
    Arc::new(|_| empty(StatusCode::UNAUTHORIZED))
}

fn empty(status: StatusCode) -> Answer {
    let mut answer = http::Response::new(Body::empty());
    *answer.status_mut() = status;
    Box::pin(async { answer })
}

/// Formats a service account like `omnictl`, for the environment variable [`SIDERO_SERVICE_ACCOUNT_KEY`](Simulator::service_account).
#[must_use]
pub fn service_account(name: &str, key: &PrivateKey) -> String {
    STANDARD.encode(serde_json::json!({ "name": name, "pgp_key": key.armored() }).to_string())
}

/// One endpoint for both APIs: gRPC calls are for Talos, and everything else goes to the API servers in turn.
fn omni(state: &Arc<ClusterState>, talos: Handler, servers: BTreeMap<IpAddr, Handler>) -> Handler {
    let (state, turn) = (Arc::clone(state), AtomicUsize::new(0));
    Arc::new(move |request| {
        let kind = request.headers().get(http::header::CONTENT_TYPE);
        if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc")) {
            return talos(request);
        }
        let (world, nobody) = (state.world(), StatusCode::BAD_GATEWAY);
        let server = backend(&world, &turn).map(|at| at.ip());
        let machine = server.and_then(|at| world.machines.get(&at)?.api_server.as_ref());
        match (server.and_then(|at| servers.get(&at)), machine) {
            (Some(handler), Some(machine)) if machine.process == Process::Running => handler(request),
            // The server accepts connections and never answers.
            (Some(_), _) => Box::pin(std::future::pending()),
            (None, _) => empty(nobody),
        }
    })
}

fn services(state: &Arc<ClusterState>, network: &Network) -> Vec<Service> {
    let mut services = Vec::new();
    let (talos, kubernetes) = (Talos::new(state), Kubernetes::new(state));
    let own_port = state.world().api_port;
    let api_server = |server: Server, host: &str, at| {
        let handler = kubernetes.handler(server.clone());
        let port = if server == Server::Balancer { API_SERVER } else { own_port };
        Service::new(server, host, SocketAddr::new(at, port), handler)
    };
    for (&at, machine) in &state.world().machines {
        let host = &machine.name;
        services.push(Service::new(Server::Apid(at), host, SocketAddr::new(at, APID), talos.handler(at)));
        services.push(Service::new(Server::Kubelet(at), host, SocketAddr::new(at, KUBELET), nothing()));
        if machine.role == Role::ControlPlane {
            services.push(api_server(Server::ApiServer(at), host, at).behind(network.balancer()));
            let etcd = etcd::handler(Arc::clone(state), at);
            services.push(Service::new(Server::Etcd(at), host, SocketAddr::new(at, ETCD), etcd));
        }
    }
    // Connections to the virtual IP reach the machine that holds it, and share the faults of that machine.
    let world = state.world();
    if let Some((&at, machine)) = world.virtual_ip.and_then(|at| world.machines.get_key_value(&at)) {
        let apid = SocketAddr::new(network.balancer(), APID);
        services.push(Service::new(Server::Apid(at), &machine.name, apid, talos.handler(at)));
    }
    services.push(api_server(Server::Balancer, "balancer", network.balancer()));
    if world.omni.is_some() {
        let servers = world.control_planes().map(|at| (at, kubernetes.handler(Server::ApiServer(at)))).collect();
        let handler = omni(state, talos.of_omni(network.omni()), servers);
        services.push(Service::new(Server::Omni, "omni", SocketAddr::new(network.omni(), OMNI), handler));
    }
    services
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;
    use crate::world::{Power, Shape};

    #[test]
    fn a_thousand_machines_are_there_at_once() {
        let network = Network::claim().unwrap();
        let world = World::healthy(&network, &Shape { workers: 997, ..Shape::default() });
        let (first, last) = (network.machine(0), network.machine(999));
        let simulator = Simulator::start(network, world).unwrap();
        TcpStream::connect((first, ETCD)).unwrap();
        TcpStream::connect((last, APID)).unwrap();
        simulator.change(|world| world.machine_mut("worker-997").power = Power::Off);
        TcpStream::connect((last, APID)).unwrap_err();
        drop(simulator);
        TcpStream::connect((first, ETCD)).unwrap_err();
    }
}
