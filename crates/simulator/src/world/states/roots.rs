//! The roots of what is wrong, and what follows from all of them together.

use std::collections::{BTreeMap, BTreeSet};

use super::overlay::{Original, Overlay, Subject};
use super::{kubernetes, talos};
use crate::world::{EtcdCluster, Machine, Member, Power, Process, World};

/// What a world remembers of its troubles. That a machine is off or in maintenance stands in the machine itself.
#[derive(Clone, Debug, Default)]
pub(in crate::world) struct States {
    pub(super) roots: BTreeSet<Root>,
    /// What is shown in place of what is healthy.
    pub(super) overlays: BTreeMap<Subject, Overlay>,
    /// What was there before.
    pub(super) originals: BTreeMap<Subject, Original>,
    /// etcd, while it is not bootstrapped.
    pub(super) unborn_etcd: Vec<EtcdCluster>,
    /// Members that were removed, with the cluster and the place that they were removed from.
    pub(super) removed_members: Vec<(u64, usize, Member)>,
}

/// One root. Names are those of machines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Root {
    /// A Talos service, by its id.
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

/// A static pod of a control plane that elects a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Component {
    ControllerManager,
    Scheduler,
}

impl Component {
    pub(super) const ALL: [Self; 2] = [Self::ControllerManager, Self::Scheduler];

    /// Of its pods and of its lease.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
        }
    }
}

impl World {
    /// Shows what follows from the roots as they are now.
    pub(super) fn settle(&mut self) {
        // In this order: each reads what the one before it has brought about.
        let mut overlays = self.processes();
        self.show(&overlays, |subject| matches!(subject, Subject::Member(_) | Subject::ApiServer(_)));
        overlays.append(&mut kubernetes::overlays(self));
        overlays.append(&mut talos::overlays(self, &overlays));
        self.show(&overlays, |_| true);
    }

    /// Processes that do not run because of their machine or by a root of their own.
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

    /// Whether a kubelet runs, as its own machine sees it.
    pub(crate) fn kubelet_runs(&self, machine: &Machine) -> bool {
        !machine.maintenance
            && !self.has(&Root::Rebooting(machine.name.clone()))
            && !self.has(&Root::KubeletCrash(machine.name.clone()))
            && !self.is_stopped(machine, "kubelet")
    }
}
