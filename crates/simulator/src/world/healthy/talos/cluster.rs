//! Members of the cluster, and etcd.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Facts, Subject, entry, identity, node_id};
use crate::cosi::{Resource, kind};
use crate::world::{Machine, Role, World};

type Shared = BTreeMap<String, Arc<Resource>>;

/// All members by name.
pub(super) fn members(world: &World, at: Timestamp) -> Shared {
    let member = |(address, machine): (&IpAddr, &Machine)| {
        entry(machine.name.clone(), Resource::new(member(world, *address, machine), at))
    };
    world.machines.iter().map(member).collect()
}

/// Affiliates by node id, from which Talos derives the members.
pub(super) fn affiliates(world: &World, at: Timestamp) -> Shared {
    let affiliate = |(address, machine): (&IpAddr, &Machine)| {
        let mut spec = member(world, *address, machine);
        spec["nodename"] = json!(machine.name);
        entry(identity(&machine.name, *address), Resource::new(spec, at))
    };
    world.machines.iter().map(affiliate).collect()
}

fn member(world: &World, address: IpAddr, machine: &Machine) -> Value {
    let role = match machine.role {
        Role::ControlPlane => "controlplane",
        Role::Worker => "worker",
    };
    let mut member = json!({
        "nodeId": identity(&machine.name, address),
        "addresses": [address],
        "hostname": machine.name,
        "machineType": role,
        "operatingSystem": format!("Talos (v{})", world.versions.talos),
    });
    if machine.role == Role::ControlPlane {
        member["controlPlane"] = json!({"port": world.api_port});
    }
    member
}

pub(super) fn tell(subject: &Subject<'_>, facts: &mut Facts) {
    let Subject { world, address, machine, .. } = subject;
    let id = format!("{}=", node_id(&world.cluster));
    facts.put(kind::INFOS, "current", json!({"clusterId": id, "clusterName": world.cluster}));
    facts.put(kind::IDENTITIES, "local", json!({"nodeId": identity(&machine.name, *address)}));
    if let Some((_, member)) = world.etcd_of(*address) {
        facts.put(kind::ETCD_MEMBERS, "local", json!({"memberID": format!("{:016x}", member.id)}));
        let spec = json!({
            "name": machine.name,
            "advertisedAddresses": [address],
            "listenPeerAddresses": ["0.0.0.0"],
            "listenClientAddresses": ["0.0.0.0"],
            "image": format!("registry.k8s.io/etcd:v{}", world.versions.etcd),
            "extraArgs": {},
        });
        facts.put(kind::ETCD_SPECS, "etcd", spec);
    }
}
