//! Leases of nodes, API servers and leaders. Their renewal times are calculated when they are read.

use serde_json::{Value, json};

use super::{Cluster, Metadata, NODE_LEASES, SYSTEM, uid_of};
use crate::world::{letters, uid};

const RESOURCE: &str = "leases.coordination.k8s.io";

pub(super) fn fill(cluster: &mut Cluster) {
    for machine in cluster.machines.clone() {
        let name = &machine.name;
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid_of("nodes", None, name)});
        let spec = spec(name, 40);
        cluster.add(RESOURCE, Some(NODE_LEASES), name, Metadata { owner, ..Metadata::default() }, spec);
    }
    let leaders: Vec<_> = cluster.control_planes().map(|machine| machine.name.clone()).collect();
    for host in &leaders {
        // The identity of an API server is derived from its host name.
        let name = format!("apiserver-{}", letters(host, 26, b"abcdefghijklmnopqrstuvwxyz234567"));
        let labels = json!({"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": host});
        let spec = spec(&format!("{name}_{}", uid(&name)), 3600);
        cluster.add(RESOURCE, Some(SYSTEM), &name, Metadata { labels, ..Metadata::default() }, spec);
    }
    for name in ["kube-controller-manager", "kube-scheduler"] {
        let Some(leader) = leaders.first() else { continue };
        let mut rest = spec(&format!("{leader}_{}", uid(name)), 15);
        rest["spec"]["acquireTime"] = cluster.created.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string().into();
        rest["spec"]["leaseTransitions"] = 1.into();
        cluster.add(RESOURCE, Some(SYSTEM), name, Metadata::default(), rest);
    }
}

fn spec(holder: &str, seconds: u32) -> Value {
    json!({"spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds}})
}
