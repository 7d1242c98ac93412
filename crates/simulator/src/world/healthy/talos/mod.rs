//! Talos's state on healthy machines, an hour after installation.

mod cluster;
mod kubernetes;
mod machine;
mod network;
mod services;
#[cfg(test)]
mod tests;
mod volumes;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::cosi::{self, OfKind, Resource, Resources, kind};
use crate::version::TalosVersion;
use crate::world::{Machine, Role, World};

/// Adds the services and resources of every machine.
pub(super) fn fill(world: &mut World, balancer: IpAddr) {
    let version = world.versions.talos;
    let booted = world.now() - SignedDuration::from_hours(1);
    // All machines have the same resources of these types.
    let shared = [
        (kind::NAMESPACES, cosi::namespaces(booted)),
        (kind::RESOURCE_DEFINITIONS, cosi::definitions(version, booted)),
        (kind::MEMBERS, cluster::members(world, booted)),
        (kind::AFFILIATES, cluster::affiliates(world, booted)),
    ];
    let shared = shared.map(|(kind, resources)| (kind, OfKind::from(resources)));
    let addresses: Vec<_> = world.machines.keys().copied().collect();
    for (index, address) in addresses.into_iter().enumerate() {
        let mut facts = Facts { resources: Resources::default(), version, booted };
        for (kind, resources) in &shared {
            facts.resources.share(kind, resources);
        }
        for of in cosi::types(version) {
            for (id, version, spec) in of.healthy {
                facts.put_version(of.name, id, *version, serde_json::from_str(spec).unwrap_or_default());
            }
        }
        let subject = Subject { world, address, index, balancer, machine: &world.machines[&address] };
        machine::tell(&subject, &mut facts);
        network::tell(&subject, &mut facts);
        volumes::tell(&subject, &mut facts);
        cluster::tell(&subject, &mut facts);
        kubernetes::tell(&subject, &mut facts);
        let services = services::all(subject.machine.role, version, booted);
        let resources = facts.resources;
        if let Some(machine) = world.machines.get_mut(&address) {
            // One line per log suffices, because no service is running that could write more.
            let logs = services.iter().map(|it| it.id.clone()).chain(["controller-runtime".to_owned()]);
            machine.logs = logs.map(|of| (of.clone(), vec![format!("{of} is simulated")])).collect();
            machine.services = services;
            machine.resources = resources;
            services::tell(machine);
            kubernetes::tell_static_pods(machine, address, &world.versions, booted);
        }
    }
}

/// The machine for which resources are generated.
struct Subject<'a> {
    world: &'a World,
    address: IpAddr,
    /// Position among all machines.
    index: usize,
    balancer: IpAddr,
    machine: &'a Machine,
}

impl Subject<'_> {
    fn is_control_plane(&self) -> bool {
        self.machine.role == Role::ControlPlane
    }

    fn pods(&self) -> Ipv4Addr {
        super::pod_network(u32::try_from(self.index).unwrap_or_default())
    }

    fn control_planes(&self) -> Vec<IpAddr> {
        self.world.control_planes().collect()
    }
}

/// The resources of one machine, under construction.
struct Facts {
    resources: Resources,
    version: TalosVersion,
    booted: Timestamp,
}

impl Facts {
    /// Adds a resource that was written once, when the machine booted.
    fn put(&mut self, kind: &str, id: &str, spec: Value) {
        self.put_version(kind, id, 1, spec);
    }

    /// Adds a resource that was written this number of times.
    fn put_version(&mut self, kind: &str, id: &str, version: u64, spec: Value) {
        let mut resource = Resource::new(spec, self.booted);
        if version > 1 {
            resource.version = version;
            resource.updated += SignedDuration::from_secs(90);
        }
        self.insert(kind, id, resource);
    }

    fn insert(&mut self, kind: &str, id: &str, resource: Resource) {
        if cosi::find(kind, self.version).is_some() {
            self.resources.insert(kind, id, resource);
        }
    }
}

/// Digits of node ids.
const DIGITS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// A text that looks like a Talos node id and is constant for each name.
fn node_id(name: &str) -> String {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    let digit = |_| {
        for byte in name.bytes() {
            state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        char::from(DIGITS[usize::try_from(state >> 32).unwrap_or_default() % DIGITS.len()])
    };
    (0..43).map(digit).collect()
}

/// The node id of a machine. Machines with the same name have different ids in different clusters.
fn identity(name: &str, address: IpAddr) -> String {
    node_id(&format!("{name} at {address}"))
}

/// The machine id in Kubernetes: the first half of the bytes of the node id, as in `/etc/machine-id`.
pub(in crate::world) fn machine_id(name: &str, address: IpAddr) -> String {
    let id = identity(name, address);
    let digit = |byte: u8| DIGITS.iter().position(|it| *it == byte).unwrap_or_default();
    let mut bytes = Vec::new();
    let (mut pending, mut bits) = (0_usize, 0);
    for (place, byte) in id.bytes().enumerate() {
        let digit = digit(byte);
        pending |= digit << bits;
        bits += match digit {
            _ if place + 1 == id.len() => 8,
            30 | 31 => 5,
            _ => 6,
        };
        if bits >= 8 {
            bytes.push(pending & 0xff);
            pending >>= 8;
            bits -= 8;
        }
    }
    let first = bytes.iter().rev().take(16).fold(0_u128, |number, byte| number << 8 | *byte as u128);
    format!("{first:032x}")
}

/// Makes a resource shareable.
fn entry(id: String, resource: Resource) -> (String, Arc<Resource>) {
    (id, Arc::new(resource))
}
