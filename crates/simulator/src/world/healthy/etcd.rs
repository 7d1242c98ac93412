//! A healthy etcd.

use std::net::IpAddr;

use crate::address::host;
use crate::world::{EtcdCluster, Member, Role, World};

/// Adds one cluster with a member on every control plane.
pub(super) fn fill(world: &mut World) {
    let members: Vec<_> = world.control_planes().map(|at| member(world, at)).collect();
    for machine in world.machines.values_mut().filter(|machine| machine.role == Role::ControlPlane) {
        machine.set_etcd_directory(true);
    }
    world.etcd = vec![EtcdCluster {
        id: 0x9d5f_2c01_77ab_e340,
        members,
        alarms: Vec::new(),
        elected: None,
        raft_term: 2,
        raft_index: 4711,
        quota: None,
        storage: None,
        auth: None,
    }];
}

fn member(world: &World, at: IpAddr) -> Member {
    let number = match at {
        IpAddr::V4(at) => at.to_bits() & 0xffff,
        IpAddr::V6(at) => u32::from(at.segments()[7]),
    };
    Member {
        // Like real ids, these are above 2^53, so that clients which parse them as floating-point numbers fail.
        id: 0x8e9e_05c5_2164_0000 | u64::from(number),
        name: world.machines[&at].name.clone(),
        machine: Some(at),
        peer_urls: vec![format!("https://{}:2380", host(at))],
        client_urls: vec![format!("https://{}:2379", host(at))],
        db_size: 20 << 20,
        db_size_in_use: 8 << 20,
        version: world.versions.etcd.clone(),
        ..Member::default()
    }
}
