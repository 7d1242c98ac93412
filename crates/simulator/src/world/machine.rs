//! Machines.

use std::collections::BTreeMap;

use serde::Deserialize;
use talos_api::machine::{FileInfo, ServiceInfo};

use crate::cosi::Resources;
use crate::version::TalosVersion;

/// One machine, with what Talos tells of it.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Host name and Kubernetes node name.
    pub name: String,
    pub role: Role,
    /// The release that it says it runs, in the middle of an upgrade; `None`: the cluster's. What it knows is the cluster's in
    /// either case.
    pub talos: Option<TalosVersion>,
    pub power: Power,
    /// machined, and with it apid, which still takes connections while machined is frozen.
    pub process: Process,
    /// It has no configuration: it shows a certificate of its own and asks for none.
    pub maintenance: bool,
    /// As `ServiceList` tells them.
    pub services: Vec<ServiceInfo>,
    pub resources: Resources,
    /// Of all memory and of what is available, KiB.
    pub memory: (u64, u64),
    /// Size of the file system of `/var`, and what is free of it, bytes.
    pub var: (u64, u64),
    /// File systems of their own below `/var`: where each is mounted, its size, and what is free of it.
    pub mounts: Vec<(String, u64, u64)>,
    /// Lines by service (`etcd`) or container.
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

/// How the rest of the network sees a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Power {
    #[default]
    On,
    /// `no route to host`
    Off,
    /// Packets to it vanish.
    Unplugged,
}

/// How a process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Process {
    #[default]
    Running,
    /// Connections are refused.
    Stopped,
    /// Connections are taken, and nothing is ever answered.
    Frozen,
}

/// kube-apiserver of a control plane.
#[derive(Clone, Debug, Default)]
pub struct ApiServer {
    pub process: Process,
    /// Checks of `/readyz` that fail beside those that the state of etcd makes fail.
    pub failing: Vec<String>,
    /// Deprecated APIs that were requested of it.
    pub requested: Vec<RequestedApi>,
}

/// An API that is deprecated, as API servers count requests of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct RequestedApi {
    #[serde(default)]
    pub group: String,
    pub version: String,
    pub resource: String,
    #[serde(default)]
    pub subresource: String,
    /// The version that removes it: `1.32`.
    #[serde(default)]
    pub removed: String,
}

impl Machine {
    /// The directory of etcd's member, which is empty until there is one.
    pub(crate) fn set_etcd_directory(&mut self, member: bool) {
        let entry = FileInfo { name: "member".to_owned(), mode: 1 << 31 | 0o700, is_dir: true, ..FileInfo::default() };
        let entries = if member { vec![entry] } else { Vec::new() };
        self.files.insert("/var/lib/etcd".to_owned(), entries);
    }
}
