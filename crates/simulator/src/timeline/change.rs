//! Changes as values.

use std::net::IpAddr;

use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use talos_api::machine::ServiceInfo;

use super::check::has_service;
use super::states::State;
use super::{Kind, Span};
use crate::version::TalosVersion;
use crate::world::{
    CallFault, EtcdAuth, EtcdUser, Machine, Member, Misbehavior, Process, RequestedApi, Transport, UNKNOWN, World,
    add_event, merge,
};

/// One change of a world.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Change {
    /// A state with a name begins or ends.
    #[serde(skip)]
    State {
        state: &'static State,
        /// Empty for a state of the cluster.
        node: String,
        ends: bool,
    },
    StopService {
        node: String,
        service: String,
    },
    #[serde(rename = "end stop-service")]
    StartService {
        node: String,
        service: String,
    },
    /// Changes the reported state of a service, in `ServiceList` and in the resources `Services`. Missing values remain unchanged.
    Service {
        node: String,
        service: String,
        state: Option<String>,
        healthy: Option<bool>,
        message: Option<String>,
        /// The most recent event.
        event: Option<String>,
    },
    /// Removes a service, as on a machine without Kubernetes.
    RemoveService {
        node: String,
        service: String,
    },
    /// Adds log lines of a service, or of the machine's controllers (`controller-runtime`).
    Log {
        node: String,
        service: String,
        lines: Vec<String>,
    },
    /// Changes values that the machine reports. Missing values remain unchanged.
    Machine {
        node: String,
        /// The release that this machine runs, unlike the others.
        talos: Option<TalosVersion>,
        /// Total and available memory in KiB.
        memory: Option<(u64, u64)>,
        /// Size and free space of the file system of `/var` in bytes.
        var: Option<(u64, u64)>,
        /// Separate file systems below `/var`: path, size and free space in bytes.
        mounts: Option<Vec<(String, u64, u64)>>,
        /// Offset from the cluster's clock, visible to others in the times that the machine writes. The machine's own view is in its
        /// resources.
        ahead: Option<SignedDuration>,
    },
    /// Changes an etcd member. Missing values remain unchanged.
    EtcdMember {
        node: String,
        learner: Option<bool>,
        /// Number of log entries that the member has not applied yet.
        behind: Option<u64>,
        /// In bytes.
        db_size: Option<i64>,
        /// In bytes.
        db_size_in_use: Option<i64>,
        version: Option<String>,
        peer_urls: Option<Vec<String>>,
    },
    /// Adds a member to the list that no machine runs.
    EtcdAddMember {
        id: u64,
        /// Empty if the member has never started.
        #[serde(default)]
        name: String,
        peer_urls: Vec<String>,
        #[serde(default)]
        learner: bool,
    },
    /// Sets the storage version of all members, as after `etcdctl downgrade enable`.
    EtcdStorage {
        version: String,
    },
    /// The members elect a new leader.
    EtcdElection {},
    /// Enables etcd's own authentication, with these users only.
    EtcdAuth {
        users: Vec<EtcdUser>,
    },
    /// Invalidates all tokens of etcd users.
    EtcdTokensExpire {},
    /// Makes checks of an API server's `/readyz` fail, in addition to those that fail because of etcd.
    ApiServerFailing {
        node: String,
        checks: Vec<String>,
    },
    /// Requests a deprecated API of an API server.
    ApiServerRequested {
        node: String,
        api: RequestedApi,
    },
    /// A lease has not been renewed for this long.
    LeaseStalls {
        namespace: String,
        name: String,
        since: Span,
    },
    /// The cluster autoscaler marked a node for removal this long ago.
    NodeMarked {
        node: String,
        since: Span,
    },
    #[serde(rename = "end lease-stalls")]
    LeaseRenewed {
        namespace: String,
        name: String,
    },
    /// The host name of the machine differs from the name with which its kubelet has registered.
    Rename {
        node: String,
        name: String,
    },
    /// Merges into the specification of a COSI resource (RFC 7396), or creates it. Without `node`, this happens on all machines.
    Resource {
        node: Option<String>,
        /// `MachineStatuses.runtime.talos.dev`
        r#type: String,
        id: String,
        merge: Value,
    },
    RemoveResource {
        node: Option<String>,
        r#type: String,
        id: String,
    },
    /// Merges into a Kubernetes object, or creates it.
    Object {
        /// `nodes`, `leases.coordination.k8s.io`
        resource: String,
        namespace: Option<String>,
        name: String,
        merge: Map<String, Value>,
        /// JSON pointers to values that are removed, because TOML has no `null` to merge.
        #[serde(default)]
        remove: Vec<String>,
    },
    RemoveObject {
        resource: String,
        namespace: Option<String>,
        name: String,
    },
    /// Connections to a server misbehave; without `node`, on all machines. With `from`, only connections from that machine's apid do.
    Transport {
        server: Kind,
        node: Option<String>,
        from: Option<String>,
        fault: Transport,
    },
    #[serde(rename = "end transport")]
    HealTransport {
        server: Kind,
        node: Option<String>,
        from: Option<String>,
    },
    /// The Kubernetes endpoint is a virtual IP, which this machine holds from the start.
    VirtualIp {
        node: String,
    },
    /// Calls misbehave; without `server`, on all servers.
    CallFault {
        server: Option<Kind>,
        node: Option<String>,
        call: String,
        does: Misbehavior,
        #[serde(default)]
        after: u64,
        times: Option<u64>,
    },
    /// All calls are answered correctly again.
    #[serde(rename = "end call-fault")]
    HealCalls {},
    /// The cluster's clock is this far ahead of ours, or behind it (`-5m`).
    Clock {
        ahead: SignedDuration,
    },
    /// Omni's clock is this far ahead of ours.
    OmniClock {
        ahead: SignedDuration,
    },
}

impl Change {
    /// Makes the change.
    ///
    /// # Errors
    /// If the change names something that the world does not have; then nothing is changed.
    pub fn make(&self, world: &mut World) -> anyhow::Result<()> {
        self.check(world)?;
        self.clone().apply(world)
    }

    #[allow(clippy::too_many_lines, reason = "a table")]
    fn apply(self, world: &mut World) -> anyhow::Result<()> {
        match self {
            Self::State { state, node, ends } => state.make(world, &node, ends)?,
            Self::StopService { node, service } => world.stop_service(&node, &service),
            Self::StartService { node, service } => world.start_service(&node, &service),
            Self::Service { node, service, state, healthy, message, event } => {
                let told = Told { state, healthy, message, event };
                told.tell(world, &node, &service);
            }
            Self::RemoveService { node, service } => {
                let machine = world.machine_mut(&node);
                machine.services.retain(|it| it.id != service);
                machine.tell_services();
            }
            Self::Log { node, service, lines } => {
                world.machine_mut(&node).logs.entry(service).or_default().extend(lines);
            }
            Self::Machine { node, talos, memory, var, mounts, ahead } => {
                let machine = world.machine_mut(&node);
                machine.talos = talos.or(machine.talos);
                machine.memory = memory.unwrap_or(machine.memory);
                if let Some((size, available)) = var {
                    machine.set_var(size, available);
                }
                for (path, size, available) in mounts.iter().flatten() {
                    machine.mount(path, *size, *available);
                }
                if let Some(ahead) = ahead {
                    world.machine_clocks.insert(node, ahead.as_secs());
                }
            }
            Self::EtcdMember { node, learner, behind, db_size, db_size_in_use, version, peer_urls } => {
                world.change_member(&node, |member| {
                    member.learner = learner.unwrap_or(member.learner);
                    member.behind = behind.unwrap_or(member.behind);
                    member.db_size = db_size.unwrap_or(member.db_size);
                    member.db_size_in_use = db_size_in_use.unwrap_or(member.db_size_in_use);
                    member.version = version.unwrap_or_else(|| member.version.clone());
                    member.peer_urls = peer_urls.unwrap_or_else(|| member.peer_urls.clone());
                });
            }
            Self::EtcdAddMember { id, name, peer_urls, learner } => {
                // The machine of this member no longer exists, so it is down. Its name shows whether it ever ran.
                world.add_member(Member {
                    id,
                    name,
                    peer_urls,
                    learner,
                    process: Process::Stopped,
                    ..Member::default()
                });
            }
            Self::EtcdStorage { version } => {
                for cluster in &mut world.etcd {
                    cluster.storage = Some(version.clone());
                }
            }
            Self::EtcdElection {} => world.etcd.iter_mut().for_each(|cluster| cluster.raft_term += 1),
            Self::EtcdAuth { users } => {
                for cluster in &mut world.etcd {
                    cluster.auth = Some(EtcdAuth::of(users.clone()));
                }
            }
            Self::EtcdTokensExpire {} => {
                world.etcd.iter_mut().filter_map(|cluster| cluster.auth.as_mut()).for_each(|auth| auth.tokens.clear());
            }
            Self::ApiServerFailing { node, checks } => {
                if let Some(server) = &mut world.machine_mut(&node).api_server {
                    server.failing = checks;
                }
            }
            Self::ApiServerRequested { node, api } => {
                if let Some(server) = &mut world.machine_mut(&node).api_server {
                    server.requested.push(api);
                }
            }
            Self::LeaseStalls { namespace, name, since } => {
                let at = world.now() - since.0;
                world.kubernetes.stalled_leases.insert(format!("{namespace}/{name}"), at);
            }
            Self::NodeMarked { node, since } => {
                let at = world.now() - since.0;
                let taint = json!({
                    "key": "ToBeDeletedByClusterAutoscaler",
                    "value": at.as_second().to_string(),
                    "effect": "NoSchedule",
                });
                world.kubernetes.merge("nodes", None, &node, &json!({"spec": {"taints": [taint]}}));
            }
            Self::LeaseRenewed { namespace, name } => {
                let now = world.now();
                world.kubernetes.resume_lease(&format!("{namespace}/{name}"), now);
            }
            Self::Rename { node, name } => world.rename(&node, &name),
            Self::Resource { node, r#type, id, merge: patch } => {
                world.change_resources(node.as_deref(), &r#type, |resources| {
                    let old = resources.get(&r#type, &id);
                    let mut spec = old.map(|resource| resource.spec().clone()).unwrap_or_default();
                    merge(&mut spec, &patch);
                    resources.put(&r#type, &id, spec);
                });
            }
            Self::RemoveResource { node, r#type, id } => {
                world.change_resources(node.as_deref(), &r#type, |resources| resources.remove(&r#type, &id));
            }
            Self::Object { resource, namespace, name, merge: patch, remove } => {
                let namespace = namespace.as_deref();
                let mut object = world.kubernetes.object(&resource, namespace, &name).cloned().unwrap_or_default();
                object["metadata"]["name"] = name.into();
                if let Some(namespace) = namespace {
                    object["metadata"]["namespace"] = namespace.into();
                }
                merge(&mut object, &Value::Object(patch));
                for pointer in remove {
                    take(&mut object, &pointer);
                }
                world.kubernetes.put(&resource, object);
            }
            Self::RemoveObject { resource, namespace, name } => {
                world.kubernetes.remove(&resource, namespace.as_deref(), &name);
            }
            Self::Transport { server, node, from, fault } => {
                disturb(world, server, node.as_deref(), from.as_deref(), Some(&fault));
            }
            Self::HealTransport { server, node, from } => {
                disturb(world, server, node.as_deref(), from.as_deref(), None);
            }
            Self::VirtualIp { node } => world.virtual_ip = world.machine(&node).map(|(at, _)| at),
            Self::CallFault { server, node, call, does, after, times } => {
                let servers = match server {
                    Some(kind) => kind.servers(world, node.as_deref()).into_iter().map(Some).collect(),
                    None => vec![None],
                };
                let fault = |server| CallFault { server, call: call.clone(), does: does.clone(), after, times };
                world.call_faults.extend(servers.into_iter().map(fault));
            }
            Self::HealCalls {} => world.call_faults.clear(),
            Self::Clock { ahead } => world.clock_ahead = ahead.as_secs(),
            Self::OmniClock { ahead } => world.omni.get_or_insert_default().clock_ahead = ahead.as_secs(),
        }
        Ok(())
    }
}

/// Makes connections to a server, or from one machine to another, misbehave. Without a fault, ends their misbehavior.
fn disturb(world: &mut World, server: Kind, node: Option<&str>, from: Option<&str>, fault: Option<&Transport>) {
    if let Some(from) = from {
        for way in ways(world, from, node) {
            world.ways.remove(&way);
            world.ways.extend(fault.map(|fault| (way, fault.clone())));
        }
        return;
    }
    for server in server.servers(world, node) {
        world.transport.remove(&server);
        world.transport.extend(fault.map(|fault| (server, fault.clone())));
    }
}

/// The connections from one machine to another, or to all others.
fn ways(world: &World, from: &str, to: Option<&str>) -> Vec<(IpAddr, IpAddr)> {
    let Some((from, _)) = world.machine(from) else { return Vec::new() };
    let meant = |machine: &Machine| to.is_none_or(|to| machine.name == to);
    world.machines.iter().filter(|(at, machine)| **at != from && meant(machine)).map(|(at, _)| (from, *at)).collect()
}

/// New values of a service.
struct Told {
    state: Option<String>,
    healthy: Option<bool>,
    message: Option<String>,
    event: Option<String>,
}

impl Told {
    fn tell(self, world: &mut World, node: &str, id: &str) {
        let now = world.now();
        let machine = world.machine_mut(node);
        if !has_service(machine, id) {
            machine.services.push(ServiceInfo { id: id.to_owned(), health: Some(UNKNOWN), ..ServiceInfo::default() });
        }
        let service = machine.service_mut(id);
        if let Some(state) = self.state {
            service.state = state;
        }
        let health = service.health.get_or_insert_default();
        if let Some(healthy) = self.healthy {
            (health.healthy, health.unknown) = (healthy, false);
        }
        if let Some(message) = self.message {
            health.last_message = message;
        }
        if let Some(event) = self.event {
            add_event(service, &event, now);
        }
        machine.tell_services();
    }
}

/// Removes the value at a JSON pointer, if it exists.
fn take(object: &mut Value, pointer: &str) {
    let Some((parent, key)) = pointer.rsplit_once('/') else { return };
    match (object.pointer_mut(parent), key.parse::<usize>()) {
        (Some(Value::Object(parent)), _) => {
            parent.remove(&key.replace("~1", "/").replace("~0", "~"));
        }
        (Some(Value::Array(parent)), Ok(at)) if at < parent.len() => {
            parent.remove(at);
        }
        _ => {}
    }
}
