//! Effects of troubles on Kubernetes objects, as long as they can be written.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::overlay::{Original, Overlay, Subject};
use super::pods::{Trouble, condition};
use super::roots::{Component, Root};
use crate::world::seconds;
use crate::world::{Machine, Power, Process, Role, World};

const LEASES: &str = "leases.coordination.k8s.io";

/// Seconds without a renewal after which a node becomes `Unknown`; slightly more than Kubernetes' grace period.
const UNNOTICED: i64 = 50;

/// State of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) readiness: Readiness,
    pub(super) cordoned: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    Ready,
    /// The kubelet reports that the CNI is missing.
    NoNetwork,
    /// The kubelet does not report.
    Silent,
}

/// Overlays on Kubernetes objects.
pub(super) fn overlays(world: &World) -> BTreeMap<Subject, Overlay> {
    let mut overlays = if world.can_write() {
        objects(world)
    } else {
        // Objects cannot be changed, so all of them keep their overlays.
        let is_object = |subject: &Subject| matches!(subject, Subject::Object(..));
        world.states.overlays.iter().filter(|(subject, _)| is_object(subject)).map(owned).collect()
    };
    // Kubernetes has noticed that renewals are missing, so this has already lasted for a while. As long as nothing can
    // be written, it notices nothing.
    let seconds = if world.can_write() { UNNOTICED } else { 0 };
    for lease in all(world, LEASES).filter(|lease| !renewed(world, lease)) {
        let metadata = &lease["metadata"];
        let lease = format!("{}/{}", text(&metadata["namespace"]), name(lease));
        overlays.insert(Subject::Renewal(lease), Overlay::Stalled(seconds));
    }
    overlays
}

fn owned<A: Clone, B: Clone>((a, b): (&A, &B)) -> (A, B) {
    (a.clone(), b.clone())
}

impl World {
    /// Whether any API server can write: its own etcd is running, and its etcd cluster has a leader and no alarm.
    pub(super) fn can_write(&self) -> bool {
        self.machines.iter().any(|(at, machine)| {
            machine.power == Power::On
                && machine.api_server.as_ref().is_some_and(|server| server.process == Process::Running)
                && self.etcd_of(*at).is_some_and(|(cluster, member)| {
                    member.process == Process::Running && cluster.leader().is_some() && cluster.alarms.is_empty()
                })
        })
    }

    /// Whether Kubernetes receives reports from a machine's kubelet.
    fn kubelet_reports(&self, machine: &Machine) -> bool {
        machine.power == Power::On && self.kubelet_runs(machine)
    }

    /// Whether a control plane component crashes for reasons of its own.
    pub(super) fn crashes(&self, machine: &Machine, component: Component) -> bool {
        self.has(&Root::Crashing(machine.name.clone(), component))
    }

    fn node(&self, machine: &Machine) -> Option<Node> {
        let readiness = match () {
            () if !self.kubelet_reports(machine) => Readiness::Silent,
            () if self.has(&Root::CniMissing) => Readiness::NoNetwork,
            () => Readiness::Ready,
        };
        let cordoned = self.has(&Root::Cordoned(machine.name.clone()));
        (cordoned || readiness != Readiness::Ready).then_some(Node { readiness, cordoned })
    }
}

/// The leaders of the components, according to the current leases.
pub(super) fn leaders(world: &World) -> Vec<(Component, String)> {
    let leases = world.kubernetes.objects.get(LEASES).into_iter().flatten();
    let of = |lease| Component::ALL.into_iter().find(|component| component.name() == name(lease));
    leases.filter_map(|lease| Some((of(lease)?, holder(lease).to_owned()))).collect()
}

fn objects(world: &World) -> BTreeMap<Subject, Overlay> {
    let mut overlays = BTreeMap::new();
    let machines: BTreeMap<&str, &Machine> =
        world.machines.values().map(|machine| (machine.name.as_str(), machine)).collect();
    for machine in machines.values() {
        if let Some(node) = world.node(machine) {
            let subject = Subject::Object("nodes".to_owned(), String::new(), machine.name.clone());
            overlays.insert(subject, Overlay::Node(node));
        }
    }
    let mut unready = BTreeSet::new();
    let mut owners = BTreeMap::<(&str, String), usize>::new();
    for pod in all(world, "pods") {
        let gone = world.has(&Root::DnsAtZero) && is_dns(pod);
        let trouble = pod_trouble(world, &machines, pod);
        let overlay = match trouble {
            _ if gone => Overlay::Gone,
            Some(trouble) => Overlay::Pod(trouble),
            None => continue,
        };
        if !gone {
            unready.insert(name(pod).to_owned());
            for owner in owners_of(pod) {
                *owners.entry(owner).or_default() += 1;
            }
        }
        overlays.insert(subject("pods", pod), overlay);
    }
    for ((resource, owner), pods) in owners {
        let found = all(world, resource).find(|object| name(object) == owner);
        overlays.extend(found.map(|object| (subject(resource, object), Overlay::Unready(pods))));
    }
    for slice in all(world, "endpointslices.discovery.k8s.io") {
        let pods = slice["endpoints"].as_array().into_iter().flatten().map(|endpoint| &endpoint["targetRef"]["name"]);
        let pods: BTreeSet<_> =
            pods.filter_map(Value::as_str).filter(|pod| unready.contains(*pod)).map(str::to_owned).collect();
        if !pods.is_empty() {
            overlays.insert(subject("endpointslices.discovery.k8s.io", slice), Overlay::Endpoints(pods));
        }
    }
    if world.has(&Root::DnsAtZero) {
        scale_dns_to_zero(world, &mut overlays);
    }
    for component in Component::ALL {
        let lease = all(world, LEASES).find(|lease| name(lease) == component.name());
        if let Some((lease, holder)) = lease.and_then(|lease| Some((lease, successor(world, lease, component)?))) {
            overlays.insert(subject(LEASES, lease), Overlay::Holder(holder));
        }
    }
    overlays
}

/// All objects of a resource without their overlays.
fn all<'a>(world: &'a World, resource: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    let originals: BTreeMap<(&str, &str), &Value> = world
        .states
        .originals
        .iter()
        .filter_map(|(subject, original)| match (subject, original) {
            (Subject::Object(of, namespace, name), Original::Object(object)) if of == resource => {
                Some(((namespace.as_str(), name.as_str()), object))
            }
            _ => None,
        })
        .collect();
    let current = world.kubernetes.objects.get(resource).into_iter().flatten();
    let namespace = |object: &'a Value| text(&object["metadata"]["namespace"]);
    let untouched: Vec<_> =
        current.filter(|object| !originals.contains_key(&(namespace(object), name(object)))).collect();
    originals.into_values().chain(untouched)
}

fn pod_trouble(world: &World, machines: &BTreeMap<&str, &Machine>, pod: &Value) -> Option<Trouble> {
    let machine = machines.get(text(&pod["spec"]["nodeName"]))?;
    if !world.kubelet_reports(machine) {
        return Some(Trouble::NodeLost);
    }
    if crashing(world, machine, name(pod)) {
        return Some(Trouble::Crashing);
    }
    if world.has(&Root::CniMissing) {
        return match text(&pod["metadata"]["labels"]["k8s-app"]) {
            "flannel" => Some(Trouble::Pulling),
            _ if is_dns(pod) => Some(Trouble::Unscheduled),
            _ => None,
        };
    }
    None
}

/// Whether a static pod crashes.
pub(super) fn crashing(world: &World, machine: &Machine, pod: &str) -> bool {
    let Some(component) = pod.strip_suffix(&machine.name).and_then(|pod| pod.strip_suffix('-')) else { return false };
    if component == "kube-apiserver" {
        return world.has(&Root::ApiServer(machine.name.clone(), Process::Stopped));
    }
    Component::ALL.into_iter().filter(|of| of.name() == component).any(|component| world.crashes(machine, component))
}

fn is_dns(pod: &Value) -> bool {
    pod["metadata"]["labels"]["k8s-app"] == "kube-dns"
}

/// Resources and names of the objects that count a pod.
fn owners_of(pod: &Value) -> Vec<(&'static str, String)> {
    let owner = &pod["metadata"]["ownerReferences"][0];
    let of = text(&owner["name"]).to_owned();
    match text(&owner["kind"]) {
        "DaemonSet" => vec![("daemonsets.apps", of)],
        "ReplicaSet" => {
            let deployment = of.rsplit_once('-').map(|(deployment, _)| deployment.to_owned());
            let deployment = deployment.map(|deployment| ("deployments.apps", deployment));
            [("replicasets.apps", of)].into_iter().chain(deployment).collect()
        }
        _ => Vec::new(),
    }
}

fn scale_dns_to_zero(world: &World, overlays: &mut BTreeMap<Subject, Overlay>) {
    for resource in ["deployments.apps", "replicasets.apps"] {
        for object in all(world, resource).filter(|object| is_dns(object)) {
            let status = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas"];
            let status: serde_json::Map<_, _> = status.into_iter().map(|key| (key.to_owned(), Value::Null)).collect();
            overlays
                .insert(subject(resource, object), Overlay::Merge(json!({"spec": {"replicas": 0}, "status": status})));
        }
    }
    for slice in all(world, "endpointslices.discovery.k8s.io") {
        if slice["metadata"]["labels"]["kubernetes.io/service-name"] == "kube-dns" {
            overlays
                .insert(subject("endpointslices.discovery.k8s.io", slice), Overlay::Merge(json!({"endpoints": null})));
        }
    }
}

/// The machine that takes over a leader's lease, if its holder cannot renew it and another machine can.
fn successor(world: &World, lease: &Value, component: Component) -> Option<String> {
    let holder = holder(lease);
    let mut candidates = world.machines.values().filter(|machine| leads(world, machine, component));
    let first = candidates.next()?;
    let stays = first.name == holder || candidates.any(|machine| machine.name == holder);
    (!stays).then(|| first.name.clone())
}

/// Whether a machine's component can hold its lease.
fn leads(world: &World, machine: &Machine, component: Component) -> bool {
    machine.role == Role::ControlPlane
        && machine.power == Power::On
        && !machine.maintenance
        && !world.has(&Root::Rebooting(machine.name.clone()))
        && !world.crashes(machine, component)
}

/// The machine that holds a leader's lease.
fn holder(lease: &Value) -> &str {
    let identity = text(&lease["spec"]["holderIdentity"]);
    identity.split_once('_').map_or(identity, |(machine, _)| machine)
}

/// Whether a lease is renewed.
fn renewed(world: &World, lease: &Value) -> bool {
    if !world.can_write() {
        return false;
    }
    if text(&lease["metadata"]["namespace"]) == "kube-node-lease" {
        return world.machine(name(lease)).is_none_or(|(_, machine)| world.kubelet_reports(machine));
    }
    if let Some(component) = Component::ALL.into_iter().find(|component| component.name() == name(lease)) {
        return world.machines.values().any(|machine| leads(world, machine, component));
    }
    // The lease of an API server's identity.
    let of = text(&lease["metadata"]["labels"]["kubernetes.io/hostname"]);
    world.machine(of).is_none_or(|(_, machine)| {
        machine.power == Power::On
            && machine.api_server.as_ref().is_none_or(|server| server.process == Process::Running)
    })
}

impl Node {
    /// Applies the state to a node's object.
    pub(super) fn show(self, node: &mut Value, now: Timestamp) {
        let taint = match self.readiness {
            Readiness::Ready => None,
            Readiness::NoNetwork => {
                let because = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady \
                               message:Network plugin returns error: cni plugin not initialized";
                let not_ready = json!({"status": "False", "reason": "KubeletNotReady", "message": because});
                condition(&mut node["status"], "Ready", &not_ready, now);
                Some("node.kubernetes.io/not-ready")
            }
            Readiness::Silent => {
                let unknown = json!({"status": "Unknown", "reason": "NodeStatusUnknown",
                    "message": "Kubelet stopped posting node status."});
                for kind in ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"] {
                    condition(&mut node["status"], kind, &unknown, now);
                }
                Some("node.kubernetes.io/unreachable")
            }
        };
        let at = seconds(now);
        let tainted = |key: &str, effect: &str| json!({"key": key, "effect": effect, "timeAdded": at});
        let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        taints.extend(taint.into_iter().flat_map(|key| [tainted(key, "NoSchedule"), tainted(key, "NoExecute")]));
        if self.cordoned {
            node["spec"]["unschedulable"] = json!(true);
            taints.push(tainted("node.kubernetes.io/unschedulable", "NoSchedule"));
        }
        if !taints.is_empty() {
            node["spec"]["taints"] = json!(taints);
        }
    }
}

fn subject(resource: &str, object: &Value) -> Subject {
    Subject::Object(resource.to_owned(), text(&object["metadata"]["namespace"]).to_owned(), name(object).to_owned())
}

fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

/// A string, or an empty one if the value is not a string.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
