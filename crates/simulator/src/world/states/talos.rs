//! Effects of troubles on Talos: services, and the resources that depend on them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::UNANSWERED;
use super::kubernetes::{Node, Readiness, crashing, leaders};
use super::overlay::{Overlay, Service, Subject};
use super::pods::Trouble;
use super::roots::Root;
use crate::cosi::kind;
use crate::world::static_pods::components;
use crate::world::{Machine, Power, Process, Role, World};

/// Overlays for all machines, derived after those for Kubernetes.
pub(super) fn overlays(world: &World, kubernetes: &BTreeMap<Subject, Overlay>) -> BTreeMap<Subject, Overlay> {
    let mut overlays = BTreeMap::new();
    let lost = lost_leaders(world);
    for (&at, machine) in &world.machines {
        // A machine without power cannot be queried.
        if machine.power == Power::Off {
            continue;
        }
        let node = Subject::Object("nodes".to_owned(), String::new(), machine.name.clone());
        let node = match kubernetes.get(&node) {
            Some(Overlay::Node(node)) => Some(*node),
            _ => None,
        };
        Of { world, at, machine, node, lost: &lost }.overlays(&mut overlays);
    }
    overlays
}

/// Static pods that were leaders, and have ended because they could not renew their lease.
fn lost_leaders(world: &World) -> Vec<String> {
    if world.can_write() || !world.etcd.iter().all(|cluster| cluster.alarms.is_empty()) {
        return Vec::new();
    }
    leaders(world).into_iter().map(|(component, machine)| format!("{}-{machine}", component.name())).collect()
}

/// One machine, with the facts about the whole cluster.
struct Of<'a> {
    world: &'a World,
    at: IpAddr,
    machine: &'a Machine,
    node: Option<Node>,
    lost: &'a [String],
}

impl Of<'_> {
    fn overlays(&self, overlays: &mut BTreeMap<Subject, Overlay>) {
        let services = self.services();
        let static_pods = self.static_pods();
        if let Some(status) = self.machine_status(&services, &static_pods) {
            overlays.insert(self.resource(kind::MACHINE_STATUSES, "machine"), Overlay::Spec(status));
        }
        if self.is_out_of_time() {
            overlays.insert(self.resource(kind::TIME_STATUSES, "node"), Overlay::Merge(json!({"synced": false})));
            let kernel = json!({"status": "STA_UNSYNC", "syncStatus": false, "state": "TIME_ERROR"});
            overlays.insert(self.resource(kind::ADJTIME_STATUSES, "node"), Overlay::Merge(kernel));
        }
        if let Some(status) = self.node_status() {
            overlays.insert(self.resource(kind::NODE_STATUSES, &self.machine.name), status);
        }
        if self.machine.role == Role::ControlPlane && !self.etcd_lives() {
            overlays.insert(self.resource(kind::ETCD_MEMBERS, "local"), Overlay::Gone);
        }
        if !self.is_bootstrapped() {
            overlays.extend(components().map(|component| (self.resource(kind::STATIC_PODS, component), Overlay::Gone)));
            overlays.insert(self.resource(kind::MANIFEST_STATUSES, "manifests"), Overlay::Gone);
            let no_server = Overlay::Merge(json!({"healthy": false}));
            overlays.insert(self.resource(kind::KUBE_PRISM_STATUSES, "k8s-loadbalancer"), no_server);
        }
        overlays
            .extend(static_pods.into_iter().map(|(id, shown)| (self.resource(kind::STATIC_POD_STATUSES, &id), shown)));
        for (id, service) in services {
            overlays.insert(Subject::Service(self.at, id), Overlay::Service(service));
        }
    }

    fn resource(&self, kind: &str, id: &str) -> Subject {
        Subject::Resource(self.at, kind.to_owned(), id.to_owned())
    }

    fn is_rebooting(&self) -> bool {
        self.world.has(&Root::Rebooting(self.machine.name.clone()))
    }

    fn is_out_of_time(&self) -> bool {
        self.world.has(&Root::TimeNotSynced(self.machine.name.clone()))
    }

    fn is_bootstrapped(&self) -> bool {
        !self.world.etcd.is_empty()
    }

    /// Whether etcd's process exists, even if it is frozen.
    fn etcd_lives(&self) -> bool {
        self.world.etcd_of(self.at).is_some_and(|(_, member)| member.process != Process::Stopped)
    }

    /// Services that are not healthy.
    fn services(&self) -> BTreeMap<String, Service> {
        let mut services = BTreeMap::new();
        for service in &self.machine.services {
            let stopped = self.is_rebooting() && ["cri", "etcd", "kubelet", "trustd"].contains(&service.id.as_str());
            let state = match service.id.as_str() {
                _ if stopped || self.world.is_stopped(self.machine, &service.id) => Some(Service::finished()),
                "etcd" => self.etcd(),
                "kubelet" if self.world.has(&Root::KubeletCrash(self.machine.name.clone())) => {
                    Some(Service::restarting("kubelet", KUBELET_LOG))
                }
                _ => None,
            };
            services.extend(state.map(|state| (service.id.clone(), state)));
        }
        services
    }

    fn etcd(&self) -> Option<Service> {
        if !self.is_bootstrapped() {
            return Some(Service::preparing());
        }
        let Some((cluster, member)) = self.world.etcd_of(self.at) else {
            return Some(Service::restarting("etcd", ETCD_LOG));
        };
        match member.process {
            Process::Running if member.learner => Some(Service::failing("etcdserver: rpc not supported for learner")),
            Process::Running if cluster.leader().is_some() => None,
            // The health check is a linearizable read.
            Process::Running | Process::Frozen => Some(Service::failing(UNANSWERED)),
            Process::Stopped => Some(Service::finished()),
        }
    }

    /// Overlays for the statuses of unhealthy static pods, by id.
    fn static_pods(&self) -> BTreeMap<String, Overlay> {
        let mut pods = BTreeMap::new();
        if self.machine.role == Role::Worker {
            return pods;
        }
        // The statuses come from the kubelet, and without etcd there are none.
        let told = self.world.kubelet_runs(self.machine) && self.is_bootstrapped();
        for component in components() {
            let pod = format!("{component}-{}", self.machine.name);
            let crashes = crashing(self.world, self.machine, &pod) || self.lost.contains(&pod);
            let shown = match () {
                () if !told => Overlay::Gone,
                () if crashes => Overlay::StaticPod(Trouble::Crashing),
                () => continue,
            };
            pods.insert(format!("kube-system/{pod}"), shown);
        }
        pods
    }

    /// Overlay for Talos's copy of the node.
    fn node_status(&self) -> Option<Overlay> {
        if !self.is_bootstrapped() || self.is_rebooting() {
            return Some(Overlay::Gone);
        }
        let node = self.node?;
        let ready = node.readiness == Readiness::Ready;
        Some(Overlay::Merge(json!({"nodeReady": ready, "unschedulable": node.cordoned})))
    }

    /// The machine's stage and its unmet conditions, in Talos's order.
    fn machine_status(&self, services: &BTreeMap<String, Service>, pods: &BTreeMap<String, Overlay>) -> Option<Value> {
        if self.machine.maintenance {
            return Some(json!({"stage": "maintenance", "status": {"ready": true, "unmetConditions": []}}));
        }
        let name = &self.machine.name;
        let unmet = [
            ("time", if self.is_out_of_time() { "time is not synced".to_owned() } else { String::new() }),
            ("services", list(services.iter().map(|(id, service)| format!("{id} {}", service.fault())))),
            (
                "staticPods",
                list(pods.iter().filter(|(_, pod)| **pod != Overlay::Gone).map(|(id, _)| format!("{id} not ready"))),
            ),
            (
                "nodeReady",
                match self.node {
                    _ if !self.is_bootstrapped() || self.is_rebooting() => {
                        format!("node \"{name}\" status is not available yet")
                    }
                    Some(node) if node.readiness != Readiness::Ready => format!("node \"{name}\" is not ready"),
                    _ => String::new(),
                },
            ),
        ];
        let unmet: Vec<_> = unmet
            .into_iter()
            .filter(|(_, reason)| !reason.is_empty())
            .map(|(name, reason)| json!({"name": name, "reason": reason}))
            .collect();
        let joins = self.world.etcd_of(self.at).is_some_and(|(_, member)| member.learner);
        let stage = match () {
            () if self.is_rebooting() => "rebooting",
            () if self.machine.role == Role::ControlPlane && (joins || !self.is_bootstrapped()) => "booting",
            () => "running",
        };
        (stage != "running" || !unmet.is_empty())
            .then(|| json!({"stage": stage, "status": {"ready": false, "unmetConditions": unmet}}))
    }
}

const KUBELET_LOG: &str = "E1121 19:27:58.953732    3139 run.go:72] \\\"command failed\\\" err=\\\"failed to parse kubelet flag: unknown flag: --bogus-flag\\\"";
const ETCD_LOG: &str = "the member has been permanently removed from the cluster";

impl Service {
    fn finished() -> Self {
        Self {
            state: "Finished",
            healthy: Some(false),
            message: "service not running",
            event: "Service finished successfully".to_owned(),
        }
    }

    fn restarting(id: &str, log: &str) -> Self {
        let event = format!(
            "Error running Containerd({id}), going to restart forever: task \"{id}\" failed: exit code 1 (last log \"{log}\")"
        );
        Self { state: "Waiting", healthy: Some(false), message: "service not running", event }
    }

    fn preparing() -> Self {
        Self { state: "Preparing", healthy: None, message: "", event: "Running pre state".to_owned() }
    }

    fn failing(message: &'static str) -> Self {
        Self { state: "Running", healthy: Some(false), message, event: format!("Health check failed: {message}") }
    }

    /// The wording of the machine's status.
    fn fault(&self) -> &'static str {
        if self.state == "Running" { "not healthy" } else { "not running" }
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}
