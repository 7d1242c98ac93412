//! The machines of the recorded cluster.

use std::net::IpAddr;

use anyhow::ensure;
use serde_json::Value;

use super::recording::Recording;
use crate::cosi::kind;
use crate::world::{Role, Versions};

/// A machine of the real cluster.
pub(super) struct Found {
    pub(super) address: IpAddr,
    pub(super) name: String,
    pub(super) role: Role,
}

/// Finds the machines in Talos's list of members, or if that was not recorded, in Kubernetes' list of nodes. They are
/// sorted by address.
pub(super) fn find(recording: &Recording) -> anyhow::Result<Vec<Found>> {
    let members = recording.talos().filter(|call| call.is_ok() && call.kind() == Some(kind::MEMBERS));
    let mut found: Vec<_> = members
        .max_by_key(|call| call.messages.len())
        .into_iter()
        .flat_map(|call| &call.messages)
        .filter_map(member)
        .collect();
    if found.is_empty() {
        found = list(recording, "/api/v1/nodes").iter().filter_map(node).collect();
    }
    ensure!(!found.is_empty(), "it tells of no machine");
    found.sort_by_key(|machine| machine.address);
    Ok(found)
}

fn member(message: &Value) -> Option<Found> {
    let spec: Value = serde_yaml::from_str(message.pointer("/resource/spec/yaml_spec")?.as_str()?).ok()?;
    let role = if spec["machineType"] == "worker" { Role::Worker } else { Role::ControlPlane };
    let address = spec["addresses"][0].as_str()?.parse().ok()?;
    Some(Found { address, name: spec["hostname"].as_str()?.to_owned(), role })
}

fn node(node: &Value) -> Option<Found> {
    let addresses = node["status"]["addresses"].as_array()?;
    let address =
        addresses.iter().find(|address| address["type"] == "InternalIP")?["address"].as_str()?.parse().ok()?;
    let controls = node["metadata"]["labels"].get("node-role.kubernetes.io/control-plane").is_some();
    let role = if controls { Role::ControlPlane } else { Role::Worker };
    Some(Found { address, name: node["metadata"]["name"].as_str()?.to_owned(), role })
}

/// The objects of a Kubernetes list, if it was recorded.
fn list<'a>(recording: &'a Recording, path: &str) -> &'a [Value] {
    let answered = recording.kubernetes().find(|call| call.path() == path && call.status == Some(200));
    answered.and_then(|call| call.body["items"].as_array()).map_or(&[], Vec::as_slice)
}

/// Versions of Talos, Kubernetes and etcd, or the given ones where none was recorded.
pub(super) fn versions(recording: &Recording, otherwise: Versions) -> Versions {
    let of = |method, path: &str| {
        let told = recording.answers(method).find_map(|(call, _)| call.part().pointer(path)?.as_str());
        told.map(|version| version.trim_start_matches('v').to_owned())
    };
    let nodes = list(recording, "/api/v1/nodes").iter();
    let kubelet = |node: &Value| {
        Some(node.pointer("/status/nodeInfo/kubeletVersion")?.as_str()?.trim_start_matches('v').to_owned())
    };
    Versions {
        talos: of("Version", "/version/tag").and_then(|tag| tag.parse().ok()).unwrap_or(otherwise.talos),
        kubernetes: nodes.filter_map(kubelet).find(|version| !version.is_empty()).unwrap_or(otherwise.kubernetes),
        etcd: of("EtcdStatus", "/member_status/protocol_version").unwrap_or(otherwise.etcd),
    }
}
