//! The objects of a healthy Kubernetes, as set up by Talos: flannel, kube-proxy, `CoreDNS`.

mod admission;
pub(super) mod applications;
mod leases;
mod nodes;
mod pods;
mod services;
mod templates;
mod workloads;

use std::net::{IpAddr, Ipv4Addr};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::world::{Kubernetes, Role, Rule, Versions, World, revision, seconds, uid};

/// Age of the cluster.
const AGE: SignedDuration = SignedDuration::from_hours(21 * 24);

const SYSTEM: &str = "kube-system";
const NODE_LEASES: &str = "kube-node-lease";

/// Adds nodes, pods and all other objects of a fresh cluster.
pub(super) fn fill(world: &mut World, balancer: IpAddr) {
    let mut cluster = Cluster::of(world, balancer);
    cluster.namespaces();
    nodes::fill(&mut cluster);
    leases::fill(&mut cluster);
    pods::fill(&mut cluster);
    workloads::fill(&mut cluster);
    services::fill(&mut cluster);
    cluster.api_services();
    world.kubernetes = Kubernetes { objects: cluster.objects, reader: reader(), ..Kubernetes::default() };
}

/// The rules that `cluster-health rbac --upgrade` prints.
fn reader() -> Vec<Rule> {
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let resources = |group: &str, resources: &[&str]| Rule {
        api_groups: owned(&[group]),
        resources: owned(resources),
        verbs: owned(&["get", "list"]),
        ..Rule::default()
    };
    vec![
        resources("", &["events", "nodes", "persistentvolumes", "pods"]),
        resources(
            "admissionregistration.k8s.io",
            &["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
        ),
        resources("apiextensions.k8s.io", &["customresourcedefinitions"]),
        resources("apiregistration.k8s.io", &["apiservices"]),
        resources("apps", &["daemonsets", "deployments", "statefulsets"]),
        resources("certificates.k8s.io", &["certificatesigningrequests"]),
        resources("coordination.k8s.io", &["leases"]),
        resources("discovery.k8s.io", &["endpointslices"]),
        resources("policy", &["poddisruptionbudgets"]),
        resources("storage.k8s.io", &["csinodes", "volumeattachments"]),
        Rule {
            api_groups: owned(&[""]),
            resources: owned(&["namespaces"]),
            resource_names: owned(&[SYSTEM]),
            verbs: owned(&["get"]),
            ..Rule::default()
        },
        Rule {
            non_resource_urls: owned(&["/metrics", "/readyz", "/version"]),
            verbs: owned(&["get"]),
            ..Rule::default()
        },
    ]
}

/// The objects, and the data that they are generated from.
struct Cluster {
    machines: Vec<Machine>,
    balancer: IpAddr,
    versions: Versions,
    api_port: u16,
    created: Timestamp,
    objects: std::collections::BTreeMap<String, Vec<Value>>,
    /// Generated pod names.
    pods: std::collections::BTreeSet<String>,
}

/// A machine that is a node.
#[derive(Clone)]
struct Machine {
    index: u32,
    name: String,
    address: IpAddr,
    controls: bool,
    /// In KiB.
    memory: u64,
}

impl Machine {
    /// The `host`th pod address of the machine.
    fn pod_address(&self, host: u32) -> IpAddr {
        Ipv4Addr::from_bits(super::pod_network(self.index).to_bits() + host).into()
    }
}

/// Metadata of an object besides its name.
#[derive(Default)]
struct Metadata {
    generate_name: Option<String>,
    labels: Value,
    annotations: Value,
    owner: Value,
    generation: Option<u64>,
}

impl Cluster {
    fn of(world: &World, balancer: IpAddr) -> Self {
        let machines = world.machines.iter().zip(0..).map(|((address, machine), index)| Machine {
            index,
            name: machine.name.clone(),
            address: *address,
            controls: machine.role == Role::ControlPlane,
            memory: machine.memory.0,
        });
        Self {
            machines: machines.collect(),
            balancer,
            versions: world.versions.clone(),
            api_port: world.api_port,
            created: world.now() - AGE,
            objects: std::collections::BTreeMap::new(),
            pods: std::collections::BTreeSet::new(),
        }
    }

    fn created(&self) -> String {
        seconds(self.created)
    }

    fn control_planes(&self) -> impl Iterator<Item = &Machine> {
        self.machines.iter().filter(|machine| machine.controls)
    }

    /// The machine of a pod that tolerates everything: workers come first.
    fn spread(&self, index: usize) -> Machine {
        let workers = self.machines.iter().filter(|machine| !machine.controls);
        let machines: Vec<&Machine> = workers.chain(self.control_planes()).collect();
        machines[index % machines.len()].clone()
    }

    /// Adds an object; `rest` contains its spec, status and other keys.
    fn add(&mut self, resource: &str, namespace: Option<&str>, name: &str, metadata: Metadata, rest: Value) {
        let objects = self.objects.entry(resource.to_owned()).or_default();
        let mut its = json!({"name": name});
        let mut set = |key: &str, value: Value| {
            if !value.is_null() {
                its[key] = value;
            }
        };
        set("generateName", metadata.generate_name.into());
        set("namespace", namespace.into());
        set("uid", uid_of(resource, namespace, name).into());
        let written = revision(self.created) + u64::try_from(objects.len()).unwrap_or_default();
        set("resourceVersion", written.to_string().into());
        set("generation", metadata.generation.into());
        set("creationTimestamp", seconds(self.created).into());
        set("labels", metadata.labels);
        set("annotations", metadata.annotations);
        if resource.split_once('.').is_some_and(|(_, group)| group == "apps") {
            set("managedFields", written_by("kube-controller-manager", self.created));
        }
        if !metadata.owner.is_null() {
            set("ownerReferences", json!([metadata.owner]));
        }
        let mut object = json!({"metadata": its});
        if let (Value::Object(object), Value::Object(rest)) = (&mut object, rest) {
            object.extend(rest);
        }
        objects.push(object);
    }

    fn namespaces(&mut self) {
        for name in ["default", NODE_LEASES, "kube-public", SYSTEM] {
            let labels = json!({"kubernetes.io/metadata.name": name});
            let rest = json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
            self.add("namespaces", None, name, Metadata { labels, ..Metadata::default() }, rest);
        }
    }

    /// Adds the local API services that an API server registers itself.
    fn api_services(&mut self) {
        for (group, version) in [("", "v1"), ("apps", "v1"), ("coordination.k8s.io", "v1"), ("discovery.k8s.io", "v1")]
        {
            let labels = json!({"kube-aggregator.kubernetes.io/automanaged": "onstart"});
            let metadata = Metadata { labels, ..Metadata::default() };
            let available = json!({
                "type": "Available", "status": "True", "reason": "Local", "message": "Local APIServices are always available",
                "lastTransitionTime": self.created(),
            });
            let mut spec = json!({"version": version, "groupPriorityMinimum": 18000, "versionPriority": 1});
            // The API server omits the name of the core group, which is empty.
            if !group.is_empty() {
                spec["group"] = json!(group);
            }
            let rest = json!({"spec": spec, "status": {"conditions": [available]}});
            self.add("apiservices.apiregistration.k8s.io", None, format!("{version}.{group}").as_str(), metadata, rest);
        }
    }
}

/// Managed fields with the writer of an object's status and the time of its last update.
fn written_by(manager: &str, at: Timestamp) -> Value {
    json!([{
        "manager": manager, "operation": "Update", "apiVersion": "apps/v1", "time": seconds(at), "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": {}}, "subresource": "status",
    }])
}

fn uid_of(resource: &str, namespace: Option<&str>, name: &str) -> String {
    uid(&format!("{resource}/{}/{name}", namespace.unwrap_or_default()))
}

/// An owner reference to a controller.
fn controller(api_version: &str, kind: &str, resource: &str, name: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "name": name, "uid": uid_of(resource, Some(SYSTEM), name),
        "controller": true, "blockOwnerDeletion": true,
    })
}
