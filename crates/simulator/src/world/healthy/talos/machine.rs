//! The running machine.

use serde_json::json;

use super::{Facts, Subject};
use crate::address::host;
use crate::cosi::{Resource, kind};
use crate::version::TalosVersion;
use crate::world::{Role, World};

pub(super) fn tell(subject: &Subject<'_>, facts: &mut Facts) {
    let Subject { world, machine, .. } = subject;
    let name = format!("v{}", world.versions.talos);
    facts.put(kind::VERSIONS, "version", json!({"name": "Talos", "version": name}));
    facts.put(kind::PLATFORM_METADATAS, "platformmetadata", json!({"platform": "metal", "hostname": machine.name}));
    let role = match machine.role {
        Role::ControlPlane => "controlplane",
        Role::Worker => "worker",
    };
    facts.put_version(kind::MACHINE_TYPES, "machine-type", 2, json!(role));
    configuration(subject, role, facts);
}

/// Adds a machine configuration that is neither complete nor usable, because it contains no keys. `talosctl health` takes a configuration
/// without a CA of etcd for that of a cluster without etcd.
fn configuration(subject: &Subject<'_>, role: &str, facts: &mut Facts) {
    let World { cluster, versions, .. } = subject.world;
    let mut text = format!(
        "version: v1alpha1\nmachine:\n    type: {role}\n    kubelet:\n        image: ghcr.io/siderolabs/kubelet:v{}\n    \
         network:\n        hostname: {}\ncluster:\n    controlPlane:\n        endpoint: https://{}:6443\n    clusterName: {cluster}\n    \
         network:\n        dnsDomain: cluster.local\n        podSubnets:\n            - 10.244.0.0/16\n        serviceSubnets:\n            \
         - 10.96.0.0/12\n",
        versions.kubernetes,
        subject.machine.name,
        host(subject.balancer),
    );
    if subject.is_control_plane() {
        text += "    etcd:\n        ca:\n            crt: \"\"\n            key: \"\"\n        advertisedSubnets: []\n";
    }
    for id in ["persistent", "v1alpha1"] {
        let mut resource = Resource::new(json!(text), facts.booted);
        // From this version on, the specification is a string in YAML instead of YAML itself. This annotation distinguishes the two.
        if facts.version >= TalosVersion::new(12, 0) {
            resource.annotations.insert("talos.dev/yaml-spec".to_owned(), "1".to_owned());
        }
        facts.insert(kind::MACHINE_CONFIGS, id, resource);
    }
}
