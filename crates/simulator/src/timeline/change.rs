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
#[derive(Clone, Debug)]
pub enum Change {
    /// A state of a machine, or of the cluster.
    State(StateOf),
    /// Anything else.
    Edit(Edit),
}

/// A state, and whose it is.
#[derive(Clone, Debug)]
pub struct StateOf {
    pub(super) state: &'static State,
    /// Empty: the cluster's.
    pub(super) node: String,
}

/// What a real cluster would not do by itself, or what takes more than a name and a machine.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Edit {
    StopService {
        node: String,
        service: String,
    },
    StartService {
        node: String,
        service: String,
    },
    /// What is told of a service, by `ServiceList` and the resources `Services`; what is not given stays.
    Service {
        node: String,
        service: String,
        state: Option<String>,
        healthy: Option<bool>,
        message: Option<String>,
        /// What has happened to it last.
        event: Option<String>,
    },
    /// The machine has no such service, as without Kubernetes.
    RemoveService {
        node: String,
        service: String,
    },
    /// What a service of the machine, or its controllers (`controller-runtime`), have written to their log.
    Log {
        node: String,
        service: String,
        lines: Vec<String>,
    },
    /// What the machine says of itself; what is not given stays.
    Machine {
        node: String,
        /// The release that it runs, unlike the others.
        talos: Option<TalosVersion>,
        /// All of it and what is available, KiB.
        memory: Option<(u64, u64)>,
        /// Size of the file system of `/var` and what is free of it, bytes.
        var: Option<(u64, u64)>,
        /// File systems of their own below `/var`: path, size, and what is free of it, bytes.
        mounts: Option<Vec<(String, u64, u64)>>,
        /// Of the cluster's clock, as others see what it writes; it says of itself what its resources do.
        ahead: Option<SignedDuration>,
    },
    /// How an etcd member is; what is not given stays.
    EtcdMember {
        node: String,
        learner: Option<bool>,
        /// Entries of the log that it has not applied yet.
        behind: Option<u64>,
        /// Bytes.
        db_size: Option<i64>,
        /// Bytes.
        db_size_in_use: Option<i64>,
        version: Option<String>,
        peer_urls: Option<Vec<String>>,
    },
    /// The list of members has one more, which no machine runs.
    EtcdAddMember {
        id: u64,
        /// Empty: it has never started.
        #[serde(default)]
        name: String,
        peer_urls: Vec<String>,
        #[serde(default)]
        learner: bool,
    },
    /// The storage of all members is of this version, as after `etcdctl downgrade enable`.
    EtcdStorage {
        version: String,
    },
    /// The members have elected a leader anew.
    EtcdElection {},
    /// etcd's own authentication is enabled, with these users alone.
    EtcdAuth {
        users: Vec<EtcdUser>,
    },
    /// No token of a user is valid any more.
    EtcdTokensExpire {},
    /// Checks of an API server's `/readyz` fail, beside those that the state of etcd makes fail.
    ApiServerFailing {
        node: String,
        checks: Vec<String>,
    },
    /// A deprecated API was requested of an API server.
    ApiServerRequested {
        node: String,
        api: RequestedApi,
    },
    /// Nobody has renewed a lease for so long.
    LeaseStalls {
        namespace: String,
        name: String,
        since: Span,
    },
    /// The cluster autoscaler has marked a node for removal so long ago.
    NodeMarked {
        node: String,
        since: Span,
    },
    LeaseRenewed {
        namespace: String,
        name: String,
    },
    /// The machine has another host name than the one by which its kubelet has registered.
    Rename {
        node: String,
        name: String,
    },
    /// Merges into the specification of a COSI resource (RFC 7396), or creates it; without `node`: on all machines.
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
        /// JSON pointers to what it has no more; TOML has no `null` to merge.
        #[serde(default)]
        remove: Vec<String>,
    },
    RemoveObject {
        resource: String,
        namespace: Option<String>,
        name: String,
    },
    /// Connections of a server misbehave; without `node`: of all machines. With `from`: only those of apid of that machine.
    Transport {
        server: Kind,
        node: Option<String>,
        from: Option<String>,
        fault: Transport,
    },
    HealTransport {
        server: Kind,
        node: Option<String>,
        from: Option<String>,
    },
    /// The Kubernetes endpoint is a virtual IP, which this machine holds from the start.
    VirtualIp {
        node: String,
    },
    /// Calls misbehave; without `server`: of all servers.
    CallFault {
        server: Option<Kind>,
        node: Option<String>,
        call: String,
        does: Misbehavior,
        #[serde(default)]
        after: u64,
        times: Option<u64>,
    },
    /// All calls are answered well again.
    HealCalls {},
    /// The cluster's clock is so far ahead of ours, or behind it (`-5m`).
    Clock {
        ahead: SignedDuration,
    },
    /// The same of Omni's alone.
    OmniClock {
        ahead: SignedDuration,
    },
}

impl Change {
    /// Makes the change.
    ///
    /// # Errors
    /// If the world has not what it names; then nothing is changed.
    pub fn make(&self, world: &mut World) -> anyhow::Result<()> {
        match self {
            Self::State(of) => of.state.make(world, &of.node),
            Self::Edit(edit) => {
                edit.check(world)?;
                edit.clone().make(world);
                Ok(())
            }
        }
    }

    /// Whether the world has the machines and servers that this names, however they fare, and whether what it says can be.
    ///
    /// # Errors
    /// If not.
    pub fn check(&self, world: &World) -> anyhow::Result<()> {
        match self {
            Self::State(of) => of.state.check(world, &of.node),
            Self::Edit(edit) => edit.check(world),
        }
    }
}

impl Edit {
    #[allow(clippy::too_many_lines, reason = "a table")]
    fn make(self, world: &mut World) {
        match self {
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
                machine.var = var.unwrap_or(machine.var);
                machine.mounts.extend(mounts.iter().flatten().cloned());
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
                // One that is no more is down; whether it ever was up, its name tells.
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
            Self::EtcdElection {} => world.etcd_election(),
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
    }
}

/// Connections of a server misbehave, or those of one machine to another; without a fault, they do no longer.
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

/// The ways of one machine to another, or to all others.
fn ways(world: &World, from: &str, to: Option<&str>) -> Vec<(IpAddr, IpAddr)> {
    let Some((from, _)) = world.machine(from) else { return Vec::new() };
    let meant = |machine: &Machine| to.is_none_or(|to| machine.name == to);
    world.machines.iter().filter(|(at, machine)| **at != from && meant(machine)).map(|(at, _)| (from, *at)).collect()
}

/// What is told of a service anew.
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

/// Removes what a JSON pointer points to, if it is there.
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
