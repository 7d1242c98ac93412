//! A cluster that runs.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::runtime::Runtime;
use tonic::body::Body;

use crate::address::{API_SERVER, APID, ETCD, KUBELET, Network, host};
use crate::credentials::talosconfig;
use crate::kubernetes::Kubernetes;
use crate::net::{Handler, Ports, Service};
use crate::pki::{Flaw, Leaf, Pki};
use crate::state::{Calls, ClusterState};
use crate::talos::Talos;
use crate::timeline::{Step, Timeline};
use crate::world::{Role, Server, World};
use crate::{control, etcd};

/// A running cluster. It ends when this is dropped.
pub struct Simulator {
    timeline: Timeline,
    ports: Ports,
    network: Network,
    /// Taken when it is dropped.
    runtime: Option<Runtime>,
}

/// What `etcdctl` takes as `--cacert`, `--cert` and `--key`.
#[derive(Clone)]
pub struct EtcdCredentials {
    /// PEM.
    pub ca: String,
    pub client: Leaf,
}

impl Simulator {
    /// Starts all servers of a world. When this returns, they take connections.
    ///
    /// # Errors
    /// If an address cannot be bound.
    pub fn start(network: Network, mut world: World) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let ports = Ports::default();
        let following = ports.clone();
        let pki = Pki::new()?;
        // Like its authorities, another one each time.
        world.kubernetes.identify(pki.kubernetes.pem());
        let state = ClusterState::new(world, pki, network.balancer());
        let timeline = Timeline::new(state.on_change(move |world| following.follow(world)));
        let entered = runtime.enter();
        ports.open(&timeline.state, services(&timeline.state, &network))?;
        drop(entered);
        Ok(Self { timeline, ports, network, runtime: Some(runtime) })
    }

    /// Changes the world; the next answer says so.
    pub fn change<T>(&self, edit: impl FnOnce(&mut World) -> T) -> T {
        self.timeline.state.change(edit)
    }

    /// Changes the world now, at a time, or when it is asked something.
    ///
    /// # Errors
    /// If the world has not what a step names; then none is made.
    pub fn play(&self, steps: Vec<Step>) -> anyhow::Result<()> {
        let _entered = self.runtime.as_ref().map(Runtime::enter);
        self.timeline.play(steps)
    }

    /// Lets the cluster be controlled over plain HTTP at the address that is returned.
    ///
    /// # Errors
    /// If the machine gives no more sockets.
    pub fn control(&self) -> anyhow::Result<SocketAddr> {
        let _entered = self.runtime.as_ref().map(Runtime::enter);
        let listener = self.network.control().try_clone()?;
        listener.set_nonblocking(true)?;
        let at = listener.local_addr()?;
        tokio::spawn(control::serve(self.timeline.clone(), tokio::net::TcpListener::from_std(listener)?, at));
        Ok(at)
    }

    /// What has been asked so far.
    #[must_use]
    pub fn calls(&self) -> &Calls {
        &self.timeline.state.calls
    }

    /// The authorities, for credentials that [`talosconfig`](Self::talosconfig) and [`kubeconfig`](Self::kubeconfig) do not make.
    #[must_use]
    pub fn pki(&self) -> &Pki {
        &self.timeline.state.pki
    }

    /// The addresses of the cluster.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// A talosconfig for a role (`os:reader`), with all control planes as endpoints and all machines as nodes.
    ///
    /// # Errors
    /// If the machine has no randomness.
    pub fn talosconfig(&self, role: &str, flaw: Flaw) -> anyhow::Result<String> {
        let leaf = self.timeline.state.pki.talos.client(role, &[role], flaw)?;
        let world = self.timeline.state.world();
        let endpoints: Vec<_> = world.control_planes().collect();
        let nodes: Vec<_> = world.machines.keys().copied().collect();
        Ok(talosconfig(&world.cluster, self.timeline.state.pki.talos.pem(), &leaf, &endpoints, &nodes))
    }

    /// Where etcd's members are asked: `https://127.16.0.2:2379`.
    #[must_use]
    pub fn etcd_endpoints(&self) -> Vec<String> {
        self.timeline.state.world().control_planes().map(|at| format!("https://{}:{ETCD}", host(at))).collect()
    }

    /// What etcd's members ask a client for.
    ///
    /// # Errors
    /// If the machine has no randomness.
    pub fn etcd_credentials(&self, flaw: Flaw) -> anyhow::Result<EtcdCredentials> {
        let etcd = &self.timeline.state.pki.etcd;
        Ok(EtcdCredentials { ca: etcd.pem().to_owned(), client: etcd.client("root", &[], flaw)? })
    }

    /// A kubeconfig through the balancer, or as the world has it: for `admin` (group `system:masters`), or for anybody else with
    /// the reader's rights.
    ///
    /// # Errors
    /// If the machine has no randomness.
    pub fn kubeconfig(&self, user: &str, flaw: Flaw) -> anyhow::Result<String> {
        self.timeline.state.kubeconfig(user, flaw)
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.ports.close();
        // In the background: a test may drop it inside of another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Who comes without credentials is told nothing.
fn nothing() -> Handler {
    Arc::new(|_| {
        let mut answer = http::Response::new(Body::empty());
        *answer.status_mut() = http::StatusCode::UNAUTHORIZED;
        Box::pin(async { answer })
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
    // Bytes go where the virtual IP is; what becomes of its machine becomes of it.
    let world = state.world();
    if let Some((&at, machine)) = world.virtual_ip.and_then(|at| world.machines.get_key_value(&at)) {
        let apid = SocketAddr::new(network.balancer(), APID);
        services.push(Service::new(Server::Apid(at), &machine.name, apid, talos.handler(at)));
    }
    services.push(api_server(Server::Balancer, "balancer", network.balancer()));
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
