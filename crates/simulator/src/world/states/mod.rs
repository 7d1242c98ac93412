//! Ways in which real clusters break, and how they heal.
//!
//! A method here changes the root of a trouble alone: a machine's power, a kubelet that crashes. What else a real cluster then
//! shows (services, machine statuses, nodes, pods, leases …) is worked out anew from all roots together, laid over what was
//! there, and taken away again when the roots are gone. So any number of troubles can overlap, and each heal ends where it
//! began. Times and versions go on, as they do in a real cluster.
//!
//! What is shown is where a real cluster ends up: a node is `Unknown` at once, not after 40 seconds.

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

/// A service that runs and whose health check cannot reach it.
const UNANSWERED: &str = "context deadline exceeded";

/// Methods that take the name of a machine panic if there is none: a test names what it has made.
impl World {
    /// The machine loses its power.
    pub fn power_off(&mut self, node: &str) {
        self.set_power(node, Power::Off);
    }

    /// It is back, as it was.
    pub fn power_on(&mut self, node: &str) {
        self.set_power(node, Power::On);
    }

    /// The machine runs, and nothing reaches it or comes from it.
    pub fn unplug(&mut self, node: &str) {
        self.set_power(node, Power::Unplugged);
    }

    pub fn plug(&mut self, node: &str) {
        self.set_power(node, Power::On);
    }

    /// machined hangs: apid takes calls, and nothing is answered. Everything else on the machine works.
    pub fn freeze_machined(&mut self, node: &str) {
        self.machine_mut(node).process = Process::Frozen;
    }

    pub fn thaw_machined(&mut self, node: &str) {
        self.machine_mut(node).process = Process::Running;
    }

    /// A service is stopped, as with `talosctl service ID stop`.
    pub fn stop_service(&mut self, node: &str, service: &str) {
        self.begin(Root::Stopped(self.named(node), service.to_owned()));
    }

    pub fn start_service(&mut self, node: &str, service: &str) {
        self.end(&Root::Stopped(node.to_owned(), service.to_owned()));
    }

    /// The kubelet ends as soon as it is started, for ever.
    pub fn kubelet_crash(&mut self, node: &str) {
        self.begin(Root::KubeletCrash(self.named(node)));
    }

    pub fn kubelet_heals(&mut self, node: &str) {
        self.end(&Root::KubeletCrash(node.to_owned()));
    }

    /// The machine is on its way down: apid answers still, the rest has stopped.
    pub fn rebooting(&mut self, node: &str) {
        self.begin(Root::Rebooting(self.named(node)));
    }

    pub fn booted(&mut self, node: &str) {
        self.end(&Root::Rebooting(node.to_owned()));
    }

    /// The machine reaches none of its time servers, and its clock runs as it likes.
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

    /// It has its configuration again.
    pub fn configured(&mut self, node: &str) {
        self.machine_mut(node).maintenance = false;
        self.settle();
    }

    /// kube-apiserver of a control plane ends as soon as it is started.
    pub fn api_server_stop(&mut self, node: &str) {
        self.set_api_server(node, Process::Stopped);
    }

    /// It takes connections and answers nothing; its pod is ready all the same.
    pub fn api_server_freeze(&mut self, node: &str) {
        self.set_api_server(node, Process::Frozen);
    }

    pub fn api_server_start(&mut self, node: &str) {
        self.set_api_server(node, Process::Running);
    }

    /// kube-scheduler of a control plane crashes, for ever.
    pub fn scheduler_broken(&mut self, node: &str) {
        self.begin(Root::Crashing(self.named(node), Component::Scheduler));
    }

    pub fn scheduler_heals(&mut self, node: &str) {
        self.end(&Root::Crashing(node.to_owned(), Component::Scheduler));
    }

    /// kube-controller-manager of a control plane crashes, for ever.
    pub fn controller_manager_broken(&mut self, node: &str) {
        self.begin(Root::Crashing(self.named(node), Component::ControllerManager));
    }

    pub fn controller_manager_heals(&mut self, node: &str) {
        self.end(&Root::Crashing(node.to_owned(), Component::ControllerManager));
    }

    /// As with `kubectl cordon`.
    pub fn cordon(&mut self, node: &str) {
        self.begin(Root::Cordoned(self.named(node)));
    }

    pub fn uncordon(&mut self, node: &str) {
        self.end(&Root::Cordoned(node.to_owned()));
    }

    /// The CNI's image cannot be pulled: no node has a network for pods.
    pub fn cni_missing(&mut self) {
        self.begin(Root::CniMissing);
    }

    pub fn cni_heals(&mut self) {
        self.end(&Root::CniMissing);
    }

    /// The Node has been registered anew and got another podCIDR, and the bridge of the network plugin keeps its address: pods
    /// that run go on, and none that is new gets a sandbox. Here it is one, and for eleven minutes.
    pub fn pods_cannot_start(&mut self, node: &str) {
        let (node, now) = (self.named(node), self.now());
        sandbox::fail(&mut self.kubernetes, &node, now);
    }

    pub fn pods_start(&mut self, node: &str) {
        sandbox::heal(&mut self.kubernetes, node);
    }

    /// The machine was rebooted eleven minutes ago, and a pod that has run there before gets no sandbox: it stays in phase Running.
    pub fn pods_cannot_restart(&mut self, node: &str) {
        let (node, now) = (self.named(node), self.now());
        sandbox::strand(&mut self.kubernetes, &node, now);
    }

    /// It has got one; the event that told of it stays.
    pub fn pods_restart(&mut self, node: &str) {
        let now = self.now();
        sandbox::restart(&mut self.kubernetes, node, now);
    }

    /// The cluster's DNS is scaled to no replicas.
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

    /// The name of a machine that there is.
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
