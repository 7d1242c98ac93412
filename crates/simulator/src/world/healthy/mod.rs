//! A healthy cluster.

mod etcd;
mod kubernetes;
pub(in crate::world) mod talos;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use super::states::States;
use super::{ApiServer, Kubernetes, Machine, Power, Process, Role, Shape, Versions, World, mounts};
use crate::address::Network;
use crate::cosi::Resources;

/// `10.244.3.0`, the address of the /24 network of a machine's pods, by the machine's position. A cluster with more than 256 machines uses
/// several /16 networks.
fn pod_network(index: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 244, 0, 0).to_bits() + index * 256)
}

impl World {
    /// Creates a healthy cluster.
    #[must_use]
    pub fn healthy(network: &Network, shape: &Shape) -> Self {
        let machines = shape.all_machines();
        let mut world = Self::of_machines(network, &shape.cluster, &shape.versions, machines, shape.api_port);
        kubernetes::applications::fill(&mut world, shape.pods);
        world
    }

    /// Creates a healthy cluster of machines with the given names.
    pub(super) fn of_machines(
        network: &Network,
        cluster: &str,
        versions: &Versions,
        machines: Vec<(Role, String)>,
        api_port: u16,
    ) -> Self {
        let machines = machines.into_iter().enumerate();
        let machines: BTreeMap<_, _> =
            machines.map(|(index, (role, name))| (network.machine(index), machine(name, role))).collect();
        let mut world = Self {
            cluster: cluster.to_owned(),
            versions: versions.clone(),
            machines,
            etcd: Vec::new(),
            kubernetes: Kubernetes::default(),
            api_port,
            transport: BTreeMap::new(),
            ways: BTreeMap::new(),
            virtual_ip: None,
            omni: None,
            kubeconfig_server: None,
            call_faults: Vec::new(),
            delay: Duration::ZERO,
            clock_ahead: 0,
            machine_clocks: BTreeMap::new(),
            states: States::default(),
        };
        // The order matters: Talos needs the ids of the etcd members, and Kubernetes the names of the machines.
        etcd::fill(&mut world);
        talos::fill(&mut world, network.balancer());
        kubernetes::fill(&mut world, network.balancer());
        world
    }
}

fn machine(name: String, role: Role) -> Machine {
    Machine {
        name,
        role,
        talos: None,
        power: Power::On,
        process: Process::Running,
        maintenance: false,
        services: Vec::new(),
        resources: Resources::default(),
        memory: (4_194_304, 2_097_152),
        mounts: mounts::healthy(),
        logs: BTreeMap::new(),
        files: BTreeMap::new(),
        api_server: (role == Role::ControlPlane).then(ApiServer::default),
    }
}
