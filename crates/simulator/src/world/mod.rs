//! The state of a cluster as plain data.
//!
//! Answers are derived from this state alone, so faults are changes of it. Most worlds begin with [`World::healthy`].
//! [`states`](World#implementations) break a world in the ways in which real clusters break, with all the consequences that are visible
//! there.

mod etcd;
mod faults;
mod healthy;
mod kubernetes;
mod machine;
mod mounts;
mod omni;
mod recorded;
mod services;
mod states;
mod static_pods;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

pub use self::etcd::{Alarm, AlarmKind, EtcdAuth, EtcdCluster, EtcdUser, Member};
pub(crate) use self::etcd::{Confides, NO_LEADER};
pub(crate) use self::faults::fits;
pub use self::faults::{CallFault, Misbehavior, Transport};
pub use self::kubernetes::{Kubernetes, Rule, User};
pub(crate) use self::kubernetes::{hash, letters, merge, revision, seconds, static_uid, suffix, uid};
pub use self::machine::{ApiServer, Machine, Power, Process, RequestedApi, Role};
pub use self::omni::Omni;
pub(crate) use self::services::{UNKNOWN, add_event};
use crate::address::API_SERVER;
use crate::cosi::OfKind;
pub use crate::cosi::{Resource, Resources, kind};
pub use crate::version::{TalosVersion, plain_version};

/// A cluster.
#[derive(Clone, Debug)]
pub struct World {
    /// Name of the Talos cluster.
    pub cluster: String,
    pub versions: Versions,
    /// Machines by address.
    pub machines: BTreeMap<IpAddr, Machine>,
    /// One etcd cluster, or two if it was bootstrapped twice, or none before the bootstrap.
    pub etcd: Vec<EtcdCluster>,
    pub kubernetes: Kubernetes,
    /// Port of each API server on its own machine.
    pub api_port: u16,
    /// Servers whose connections misbehave.
    pub transport: BTreeMap<Server, Transport>,
    /// Faults of the connections from one machine's apid to another's, by their addresses, if they differ from those of other clients.
    pub ways: BTreeMap<(IpAddr, IpAddr), Transport>,
    /// The control plane that holds the Kubernetes endpoint as a virtual IP, at which its apid can also be reached. `None`: the endpoint
    /// belongs to a balancer.
    pub virtual_ip: Option<IpAddr>,
    /// Omni in front of the machines; `None`: clients connect to the machines directly.
    pub omni: Option<Omni>,
    /// The machine whose API server is the server in kubeconfigs; `None`: they contain the Kubernetes endpoint.
    pub kubeconfig_server: Option<IpAddr>,
    /// Calls that misbehave. If several entries match a call, the one with the longest name applies.
    pub call_faults: Vec<CallFault>,
    /// Duration of a round trip to any server, including that of connecting.
    pub delay: Duration,
    /// Seconds by which the cluster's clock is ahead of ours. This affects all times that the cluster writes, including those in apid's
    /// certificates, and the expiry of client certificates.
    pub clock_ahead: i64,
    /// Additional seconds by which the clocks of single machines are ahead, by name. The machines' own views are in their resources.
    pub machine_clocks: BTreeMap<String, i64>,
    /// The current troubles, and the state that they hide.
    states: states::States,
}

/// Versions of the software in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    pub talos: TalosVersion,
    /// Version without `v`: `1.35.4`.
    pub kubernetes: String,
    /// Version without `v`: `3.6.9`.
    pub etcd: String,
}

impl Versions {
    /// Sets the release of Talos, and its own version of etcd.
    pub fn set_talos(&mut self, talos: TalosVersion) {
        self.talos = talos;
        if let Some(etcd) = talos.etcd() {
            etcd.clone_into(&mut self.etcd);
        }
    }
}

/// The image of flannel in the release's own manifest.
pub(crate) fn flannel_image(talos: TalosVersion) -> &'static str {
    if talos >= TalosVersion::new(14, 0) {
        "ghcr.io/siderolabs/flannel:0.28.9"
    } else {
        "ghcr.io/siderolabs/flannel:v0.28.4"
    }
}

/// Parameters of `World::healthy`.
#[derive(Clone, Debug)]
pub struct Shape {
    pub cluster: String,
    pub control_planes: usize,
    pub workers: usize,
    /// Roles and names of all machines in the order of their addresses, instead of `cp-1` … and `worker-1` ….
    pub machines: Vec<(Role, String)>,
    pub versions: Versions,
    /// Port of each API server; the cluster's endpoint has the default port.
    pub api_port: u16,
    /// Number of application pods on each worker.
    pub pods: usize,
}

impl Default for Shape {
    fn default() -> Self {
        let versions = Versions { talos: TalosVersion::new(13, 0), kubernetes: "1.35.4".into(), etcd: "3.6.9".into() };
        Self {
            cluster: "simulated".into(),
            control_planes: 3,
            workers: 1,
            machines: Vec::new(),
            versions,
            api_port: API_SERVER,
            pods: 0,
        }
    }
}

impl Shape {
    /// All machines in the order of their addresses.
    #[must_use]
    pub fn all_machines(&self) -> Vec<(Role, String)> {
        if !self.machines.is_empty() {
            return self.machines.clone();
        }
        let control_planes = (1..=self.control_planes).map(|number| (Role::ControlPlane, format!("cp-{number}")));
        let workers = (1..=self.workers).map(|number| (Role::Worker, format!("worker-{number}")));
        control_planes.chain(workers).collect()
    }
}

/// One server of the cluster, identified by the address of its machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Server {
    Apid(IpAddr),
    ApiServer(IpAddr),
    /// The endpoint of the kubeconfig, which forwards connections to an API server that accepts them.
    Balancer,
    Etcd(IpAddr),
    /// The kubelet's port, which shows its certificate and answers nothing.
    Kubelet(IpAddr),
    /// Omni, which forwards signed calls to the machines, and everything else to an API server.
    Omni,
}

impl World {
    /// The machine with this name.
    #[must_use]
    pub fn machine(&self, name: &str) -> Option<(IpAddr, &Machine)> {
        self.machines.iter().find(|(_, machine)| machine.name == name).map(|(address, machine)| (*address, machine))
    }

    /// The machine with this name, for changes.
    ///
    /// # Panics
    /// If it does not exist, since tests only name machines that they created.
    pub fn machine_mut(&mut self, name: &str) -> &mut Machine {
        let found = self.machines.values_mut().find(|machine| machine.name == name);
        found.unwrap_or_else(|| panic!("no machine is called `{name}`"))
    }

    /// Addresses of the control planes, lowest first.
    pub fn control_planes(&self) -> impl Iterator<Item = IpAddr> {
        self.machines.iter().filter(|(_, machine)| machine.role == Role::ControlPlane).map(|(address, _)| *address)
    }

    /// The etcd cluster and the member on a machine.
    #[must_use]
    pub fn etcd_of(&self, machine: IpAddr) -> Option<(&EtcdCluster, &Member)> {
        self.etcd.iter().find_map(|cluster| {
            let member = cluster.members.iter().find(|member| member.machine == Some(machine))?;
            Some((cluster, member))
        })
    }

    /// Changes the resources of a type on all machines. Machines that shared the resources still share them afterwards: if a thousand
    /// machines know a thousand members, only one copy is changed.
    pub fn change_everywhere(&mut self, kind: &str, change: impl Fn(&mut Resources)) {
        let mut changed: Vec<(OfKind, OfKind)> = Vec::new();
        for machine in self.machines.values_mut() {
            let before = machine.resources.of_kind(kind);
            if let Some((_, after)) = changed.iter().find(|(known, _)| Arc::ptr_eq(known, &before)) {
                machine.resources.share(kind, after);
                continue;
            }
            change(&mut machine.resources);
            changed.push((before, machine.resources.of_kind(kind)));
        }
    }

    /// Changes the resources of a type on one machine, or on all machines.
    pub(crate) fn change_resources(&mut self, node: Option<&str>, kind: &str, change: impl Fn(&mut Resources)) {
        match node {
            Some(node) => change(&mut self.machine_mut(node).resources),
            None => self.change_everywhere(kind, change),
        }
    }

    /// Changes the machine's host name, also in discovery. Its Node, static pods and services keep the old name.
    pub fn rename(&mut self, node: &str, name: &str) {
        let resources = &mut self.machine_mut(node).resources;
        resources.edit(kind::NODENAMES, "nodename", |spec| spec["nodename"] = name.into());
        resources.edit(kind::HOSTNAME_STATUSES, "hostname", |spec| spec["hostname"] = name.into());
        let identity = resources.get(kind::IDENTITIES, "local").map(|resource| resource.spec()["nodeId"].clone());
        let identity = identity.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default();
        self.change_everywhere(kind::AFFILIATES, |resources| {
            resources.edit(kind::AFFILIATES, identity, |spec| {
                (spec["nodename"], spec["hostname"]) = (name.into(), name.into());
            });
        });
        self.change_everywhere(kind::MEMBERS, |resources| {
            let Some(member) = resources.get(kind::MEMBERS, node) else { return };
            let mut spec = member.spec().clone();
            spec["hostname"] = name.into();
            resources.remove(kind::MEMBERS, node);
            resources.put(kind::MEMBERS, name, spec);
        });
    }

    /// The cluster's clock.
    #[must_use]
    pub fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now() + jiff::SignedDuration::from_secs(self.clock_ahead)
    }
}
