//! A healthy etcd.

use std::net::Ipv4Addr;

use crate::world::{EtcdCluster, Member, Role, World};

/// One cluster with a member on every control plane.
pub(super) fn fill(world: &mut World) {
    let members: Vec<_> = world.control_planes().map(|at| member(world, at)).collect();
    for machine in world.machines.values_mut().filter(|machine| machine.role == Role::ControlPlane) {
        machine.set_etcd_directory(true);
    }
    world.etcd = vec![EtcdCluster {
        id: 0x9d5f_2c01_77ab_e340,
        members,
        alarms: Vec::new(),
        raft_term: 2,
        raft_index: 4711,
        quota: None,
    }];
}

fn member(world: &World, at: Ipv4Addr) -> Member {
    let [.., high, low] = at.octets();
    Member {
        // Above 2^53, as real ones are: whoever reads them as floating point numbers shall fail.
        id: 0x8e9e_05c5_2164_0000 | u64::from(u16::from_be_bytes([high, low])),
        name: world.machines[&at].name.clone(),
        machine: Some(at),
        peer_urls: vec![format!("https://{at}:2380")],
        client_urls: vec![format!("https://{at}:2379")],
        db_size: 20 << 20,
        db_size_in_use: 8 << 20,
        version: world.versions.etcd.clone(),
        ..Member::default()
    }
}
