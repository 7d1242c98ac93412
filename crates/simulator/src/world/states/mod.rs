//! Ways in which real clusters break, and how they recover.
//!
//! Methods here only change the root of a trouble: a machine's power, a kubelet that crashes. Everything else that a real cluster would
//! show (services, machine statuses, nodes, pods, leases …) is calculated from all roots together, laid over the existing state, and
//! removed when the roots are gone. Any number of troubles can overlap, and ending all of them restores the original state. Times and
//! versions still increase, as in a real cluster.
//!
//! The world immediately shows the final state of a real cluster: a node becomes `Unknown` at once rather than after 40 seconds.

mod etcd;
mod kubernetes;
mod overlay;
mod pods;
mod roots;
mod sandbox;
mod talos;
#[cfg(test)]
mod tests;

use super::{Power, Process, World};

pub(in crate::world) use self::roots::States;
use self::roots::{Component, Root};

/// Message of a running service that does not answer its health check.
const UNANSWERED: &str = "context deadline exceeded";

/// Methods with the name of a machine panic if it does not exist, since tests only name machines that they created.
impl World {
    /// The machine loses power.
    pub fn power_off(&mut self, node: &str) {
        self.set_power(node, Power::Off);
    }

    /// The machine is back in its former state.
    pub fn power_on(&mut self, node: &str) {
        self.set_power(node, Power::On);
    }

    /// The machine runs, but no packets reach it or leave it.
    pub fn unplug(&mut self, node: &str) {
        self.set_power(node, Power::Unplugged);
    }

    pub fn plug(&mut self, node: &str) {
        self.set_power(node, Power::On);
    }

    /// machined does not respond: apid accepts calls that are never answered. Everything else on the machine works.
    pub fn freeze_machined(&mut self, node: &str) {
        self.machine_mut(node).process = Process::Frozen;
    }

    pub fn thaw_machined(&mut self, node: &str) {
        self.machine_mut(node).process = Process::Running;
    }

    /// Stops a service, like `talosctl service ID stop`.
    pub fn stop_service(&mut self, node: &str, service: &str) {
        self.begin(Root::Stopped(self.named(node), service.to_owned()));
    }

    pub fn start_service(&mut self, node: &str, service: &str) {
        self.end(&Root::Stopped(node.to_owned(), service.to_owned()));
    }

    /// The kubelet ends whenever it is started.
    pub fn kubelet_crash(&mut self, node: &str) {
        self.begin(Root::KubeletCrash(self.named(node)));
    }

    pub fn kubelet_heals(&mut self, node: &str) {
        self.end(&Root::KubeletCrash(node.to_owned()));
    }

    /// The machine is shutting down: apid still answers, and everything else has stopped.
    pub fn rebooting(&mut self, node: &str) {
        self.begin(Root::Rebooting(self.named(node)));
    }

    pub fn booted(&mut self, node: &str) {
        self.end(&Root::Rebooting(node.to_owned()));
    }

    /// The machine reaches none of its time servers, so its clock is not synchronized.
    pub fn time_not_synced(&mut self, node: &str) {
        self.begin(Root::TimeNotSynced(self.named(node)));
    }

    pub fn time_synced(&mut self, node: &str) {
        self.end(&Root::TimeNotSynced(node.to_owned()));
    }

    /// The machine has lost its configuration and waits for one.
    pub fn maintenance(&mut self, node: &str) {
        self.machine_mut(node).maintenance = true;
        self.settle();
    }

    /// The machine has its configuration again.
    pub fn configured(&mut self, node: &str) {
        self.machine_mut(node).maintenance = false;
        self.settle();
    }

    /// kube-apiserver of a control plane ends whenever it is started.
    pub fn api_server_stop(&mut self, node: &str) {
        self.set_api_server(node, Process::Stopped);
    }

    /// kube-apiserver accepts connections and answers nothing; its pod is still ready.
    pub fn api_server_freeze(&mut self, node: &str) {
        self.set_api_server(node, Process::Frozen);
    }

    pub fn api_server_start(&mut self, node: &str) {
        self.set_api_server(node, Process::Running);
    }

    /// kube-scheduler of a control plane crashes permanently.
    pub fn scheduler_broken(&mut self, node: &str) {
        self.begin(Root::Crashing(self.named(node), Component::Scheduler));
    }

    pub fn scheduler_heals(&mut self, node: &str) {
        self.end(&Root::Crashing(node.to_owned(), Component::Scheduler));
    }

    /// kube-controller-manager of a control plane crashes permanently.
    pub fn controller_manager_broken(&mut self, node: &str) {
        self.begin(Root::Crashing(self.named(node), Component::ControllerManager));
    }

    pub fn controller_manager_heals(&mut self, node: &str) {
        self.end(&Root::Crashing(node.to_owned(), Component::ControllerManager));
    }

    /// Cordons the node, like `kubectl cordon`.
    pub fn cordon(&mut self, node: &str) {
        self.begin(Root::Cordoned(self.named(node)));
    }

    pub fn uncordon(&mut self, node: &str) {
        self.end(&Root::Cordoned(node.to_owned()));
    }

    /// The CNI's image cannot be pulled, so no node has a pod network.
    pub fn cni_missing(&mut self) {
        self.begin(Root::CniMissing);
    }

    pub fn cni_heals(&mut self) {
        self.end(&Root::CniMissing);
    }

    /// The Node was registered again with another podCIDR, while the network plugin's bridge kept its address: running pods continue, and
    /// new pods get no sandbox. Here, one pod has been waiting for eleven minutes.
    pub fn pods_cannot_start(&mut self, node: &str) {
        let (node, now) = (self.named(node), self.now());
        sandbox::fail(&mut self.kubernetes, &node, now);
    }

    pub fn pods_start(&mut self, node: &str) {
        sandbox::heal(&mut self.kubernetes, node);
    }

    /// The machine was rebooted eleven minutes ago, and a pod that ran before gets no new sandbox: it stays in phase Running.
    pub fn pods_cannot_restart(&mut self, node: &str) {
        let (node, now) = (self.named(node), self.now());
        sandbox::strand(&mut self.kubernetes, &node, now);
    }

    /// The pod has a sandbox again; the event about the failure remains.
    pub fn pods_restart(&mut self, node: &str) {
        let now = self.now();
        sandbox::restart(&mut self.kubernetes, node, now);
    }

    /// Scales the cluster's DNS to zero replicas.
    pub fn dns_scaled_to_zero(&mut self) {
        self.begin(Root::DnsAtZero);
    }

    pub fn dns_scaled_up(&mut self) {
        self.end(&Root::DnsAtZero);
    }

    fn set_power(&mut self, node: &str, power: Power) {
        self.machine_mut(node).power = power;
        self.settle();
    }

    fn set_api_server(&mut self, node: &str, process: Process) {
        let node = self.named(node);
        self.states.roots.retain(|root| !matches!(root, Root::ApiServer(of, _) if *of == node));
        if process == Process::Running {
            self.settle();
        } else {
            self.begin(Root::ApiServer(node, process));
        }
    }

    /// Checks that the machine exists, and returns its name.
    fn named(&self, node: &str) -> String {
        assert!(self.machine(node).is_some(), "no machine is called `{node}`");
        node.to_owned()
    }

    fn begin(&mut self, root: Root) {
        self.states.roots.insert(root);
        self.settle();
    }

    fn end(&mut self, root: &Root) {
        self.states.roots.remove(root);
        self.settle();
    }
}
