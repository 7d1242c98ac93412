//! Machines.

use std::collections::BTreeMap;

use serde::Deserialize;
use talos_api::machine::{FileInfo, MountStat, ServiceInfo};

use crate::cosi::Resources;
use crate::version::TalosVersion;

/// A machine, with the state that Talos reports about it.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Host name and Kubernetes node name.
    pub name: String,
    pub role: Role,
    /// The release that the machine reports during an upgrade; `None`: that of the cluster. Its behavior is always that of the cluster's
    /// release.
    pub talos: Option<TalosVersion>,
    pub power: Power,
    /// machined, and with it apid. While machined is frozen, apid still accepts connections.
    pub process: Process,
    /// Whether the machine has no configuration: it uses its own certificate, and does not request one from clients.
    pub maintenance: bool,
    /// Services in the form of `ServiceList`.
    pub services: Vec<ServiceInfo>,
    pub resources: Resources,
    /// Total and available memory in KiB.
    pub memory: (u64, u64),
    /// Mounted file systems in the form of `Mounts`.
    pub mounts: Vec<MountStat>,
    /// Log lines by service (`etcd`) or container.
    pub logs: BTreeMap<String, Vec<String>>,
    /// Entries by directory.
    pub files: BTreeMap<String, Vec<FileInfo>>,
    /// kube-apiserver, on control planes.
    pub api_server: Option<ApiServer>,
}

/// Machine type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    ControlPlane,
    Worker,
}

/// State of a machine as seen from the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Power {
    #[default]
    On,
    /// `no route to host`
    Off,
    /// Packets to the machine are dropped.
    Unplugged,
}

/// State of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Process {
    #[default]
    Running,
    /// Connections are refused.
    Stopped,
    /// Connections are accepted, and requests are never answered.
    Frozen,
}

/// kube-apiserver of a control plane.
#[derive(Clone, Debug, Default)]
pub struct ApiServer {
    pub process: Process,
    /// Checks of `/readyz` that fail, in addition to those that fail because of etcd.
    pub failing: Vec<String>,
    /// Deprecated APIs that clients have requested.
    pub requested: Vec<RequestedApi>,
}

/// A deprecated API, as in the request metrics of API servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct RequestedApi {
    #[serde(default)]
    pub group: String,
    pub version: String,
    pub resource: String,
    #[serde(default)]
    pub subresource: String,
    /// The version that removes the API: `1.32`.
    #[serde(default)]
    pub removed: String,
}

impl Machine {
    /// Sets the directory of the etcd member, which is empty without a member.
    pub(crate) fn set_etcd_directory(&mut self, member: bool) {
        let entry = FileInfo { name: "member".to_owned(), mode: 1 << 31 | 0o700, is_dir: true, ..FileInfo::default() };
        let entries = if member { vec![entry] } else { Vec::new() };
        self.files.insert("/var/lib/etcd".to_owned(), entries);
    }
}
