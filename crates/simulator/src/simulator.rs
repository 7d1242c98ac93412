//! A cluster that runs.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::runtime::Runtime;

use crate::calls::Calls;
use crate::credentials::talosconfig;
use crate::net::network::Network;
use crate::net::{API_SERVER, APID, ETCD, Service, host};
use crate::pki::{Flaw, Leaf, Pki};
use crate::shared::Shared;
use crate::timeline::{Step, play};
use crate::world::{Role, Server, World};
use crate::{control, etcd, kubernetes, talos};

/// A running cluster. It ends when this is dropped.
pub struct Simulator {
    shared: Arc<Shared>,
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
    pub fn start(network: Network, world: World) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let shared = Arc::new(Shared::new(world, Pki::new()?, network.balancer()));
        let entered = runtime.enter();
        shared.ports.open(&shared, services(&shared, &network))?;
        drop(entered);
        Ok(Self { shared, network, runtime: Some(runtime) })
    }

    /// Changes the world; the next answer says so.
    pub fn change<T>(&self, edit: impl FnOnce(&mut World) -> T) -> T {
        self.shared.change(edit)
    }

    /// Changes the world now, at a time, or when it is asked something.
    ///
    /// # Errors
    /// If the world has not what a step names; then none is made.
    pub fn play(&self, steps: Vec<Step>) -> anyhow::Result<()> {
        let _entered = self.runtime.as_ref().map(Runtime::enter);
        play(&self.shared, steps)
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
        tokio::spawn(control::serve(Arc::clone(&self.shared), tokio::net::TcpListener::from_std(listener)?, at));
        Ok(at)
    }

    /// What has been asked so far.
    #[must_use]
    pub fn calls(&self) -> &Calls {
        &self.shared.calls
    }

    /// The authorities, for credentials that [`talosconfig`](Self::talosconfig) and [`kubeconfig`](Self::kubeconfig) do not make.
    #[must_use]
    pub fn pki(&self) -> &Pki {
        &self.shared.pki
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
        let leaf = self.shared.pki.talos.client(role, &[role], flaw)?;
        let world = self.shared.world();
        let endpoints: Vec<_> = world.control_planes().collect();
        let nodes: Vec<_> = world.machines.keys().copied().collect();
        Ok(talosconfig(&world.cluster, self.shared.pki.talos.pem(), &leaf, &endpoints, &nodes))
    }

    /// Where etcd's members are asked: `https://127.16.0.2:2379`.
    #[must_use]
    pub fn etcd_endpoints(&self) -> Vec<String> {
        self.shared.world().control_planes().map(|at| format!("https://{}:{ETCD}", host(at))).collect()
    }

    /// What etcd's members ask a client for.
    ///
    /// # Errors
    /// If the machine has no randomness.
    pub fn etcd_credentials(&self, flaw: Flaw) -> anyhow::Result<EtcdCredentials> {
        let etcd = &self.shared.pki.etcd;
        Ok(EtcdCredentials { ca: etcd.pem().to_owned(), client: etcd.client("root", &[], flaw)? })
    }

    /// A kubeconfig through the balancer, or as the world has it: for `admin` (group `system:masters`), or for anybody else with
    /// the reader's rights.
    ///
    /// # Errors
    /// If the machine has no randomness.
    pub fn kubeconfig(&self, user: &str, flaw: Flaw) -> anyhow::Result<String> {
        self.shared.kubeconfig(user, flaw)
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.shared.ports.close();
        // In the background: a test may drop it inside of another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn services(shared: &Arc<Shared>, network: &Network) -> Vec<Service> {
    let mut services = Vec::new();
    let kubernetes = |server: Server, host: &str, at| {
        let handler = kubernetes::handler(Arc::clone(shared), server.clone());
        Service::new(server, host, SocketAddr::new(at, API_SERVER), handler)
    };
    let talos = talos::Talos::new(shared);
    for (&at, machine) in &shared.world().machines {
        let host = &machine.name;
        services.push(Service::new(Server::Apid(at), host, SocketAddr::new(at, APID), talos.handler(at)));
        if machine.role == Role::ControlPlane {
            services.push(kubernetes(Server::ApiServer(at), host, at).behind(network.balancer()));
            let etcd = etcd::handler(Arc::clone(shared), at);
            services.push(Service::new(Server::Etcd(at), host, SocketAddr::new(at, ETCD), etcd));
        }
    }
    // Bytes go where the virtual IP is; what becomes of its machine becomes of it.
    let world = shared.world();
    if let Some((&at, machine)) = world.virtual_ip.and_then(|at| world.machines.get_key_value(&at)) {
        let apid = SocketAddr::new(network.balancer(), APID);
        services.push(Service::new(Server::Apid(at), &machine.name, apid, talos.handler(at)));
    }
    services.push(kubernetes(Server::Balancer, "balancer", network.balancer()));
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
