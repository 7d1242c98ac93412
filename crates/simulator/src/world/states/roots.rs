//! The roots of troubles, and their combined consequences.

use std::collections::{BTreeMap, BTreeSet};

use super::overlay::{Original, Overlay, Subject};
use super::{kubernetes, talos};
use crate::world::{EtcdCluster, Machine, Member, Power, Process, World};

/// A world's record of its troubles. A machine's power and maintenance mode are stored in the machine itself.
#[derive(Clone, Debug, Default)]
pub(in crate::world) struct States {
    pub(super) roots: BTreeSet<Root>,
    /// Overlays that replace healthy state.
    pub(super) overlays: BTreeMap<Subject, Overlay>,
    /// The state that the overlays hide.
    pub(super) originals: BTreeMap<Subject, Original>,
    /// The etcd clusters before the bootstrap.
    pub(super) unborn_etcd: Vec<EtcdCluster>,
    /// Removed members, with the id of their cluster and their former position.
    pub(super) removed_members: Vec<(u64, usize, Member)>,
}

/// A root of a trouble. Names are those of machines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Root {
    /// A Talos service with this id on a machine.
    Stopped(String, String),
    EtcdFrozen(String),
    KubeletCrash(String),
    Rebooting(String),
    ApiServer(String, Process),
    Crashing(String, Component),
    Cordoned(String),
    TimeNotSynced(String),
    CniMissing,
    DnsAtZero,
}

/// A static pod of a control plane that takes part in leader election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Component {
    ControllerManager,
    Scheduler,
}

impl Component {
    pub(super) const ALL: [Self; 2] = [Self::ControllerManager, Self::Scheduler];

    /// Name of the component's pods and of its lease.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
        }
    }
}

impl World {
    /// Applies the consequences of the current roots.
    pub(super) fn settle(&mut self) {
        // The order matters: each step reads the results of the previous one.
        let mut overlays = self.processes();
        self.show(&overlays, |subject| matches!(subject, Subject::Member(_) | Subject::ApiServer(_)));
        overlays.append(&mut kubernetes::overlays(self));
        overlays.append(&mut talos::overlays(self, &overlays));
        self.show(&overlays, |_| true);
    }

    /// Processes that do not run because of their machine, or because of a root of their own.
    fn processes(&self) -> BTreeMap<Subject, Overlay> {
        let mut overlays = BTreeMap::new();
        for (&at, machine) in &self.machines {
            let down = machine.maintenance || self.has(&Root::Rebooting(machine.name.clone()));
            let etcd = match machine.power {
                Power::Off => Process::Stopped,
                _ if down || self.is_stopped(machine, "etcd") => Process::Stopped,
                Power::Unplugged => Process::Frozen,
                Power::On if self.has(&Root::EtcdFrozen(machine.name.clone())) => Process::Frozen,
                Power::On => Process::Running,
            };
            if etcd != Process::Running && self.etcd_of(at).is_some() {
                overlays.insert(Subject::Member(at), Overlay::Process(etcd));
            }
            let own = self.states.roots.iter().find_map(|root| match root {
                Root::ApiServer(node, process) if *node == machine.name => Some(*process),
                _ => None,
            });
            let api_server = if down || self.etcd.is_empty() { Some(Process::Stopped) } else { own };
            if let Some(process) = api_server.filter(|_| machine.api_server.is_some()) {
                overlays.insert(Subject::ApiServer(at), Overlay::Process(process));
            }
        }
        overlays
    }

    pub(super) fn has(&self, root: &Root) -> bool {
        self.states.roots.contains(root)
    }

    pub(super) fn is_stopped(&self, machine: &Machine, service: &str) -> bool {
        self.has(&Root::Stopped(machine.name.clone(), service.to_owned()))
    }

    /// Whether a machine's kubelet is running, independently of the network.
    pub(crate) fn kubelet_runs(&self, machine: &Machine) -> bool {
        !machine.maintenance
            && !self.has(&Root::Rebooting(machine.name.clone()))
            && !self.has(&Root::KubeletCrash(machine.name.clone()))
            && !self.is_stopped(machine, "kubelet")
    }
}
