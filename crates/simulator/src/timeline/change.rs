//! Changes as values.

use anyhow::{bail, ensure};
use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::states::State;
use super::{Kind, known};
use crate::kubernetes::namespaced;
use crate::talos::specs;
use crate::world::{CallFault, Machine, Misbehaviour, Transport, World, merge};

/// The farthest that clocks are apart: dates with four digits of a year stay so.
const FARTHEST: SignedDuration = SignedDuration::from_hours(10 * 366 * 24);

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
    },
    /// Merges into the specification of a COSI resource (RFC 7396), or creates it.
    Resource {
        node: String,
        /// `MachineStatuses.runtime.talos.dev`
        r#type: String,
        id: String,
        merge: Value,
    },
    RemoveResource {
        node: String,
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
    },
    RemoveObject {
        resource: String,
        namespace: Option<String>,
        name: String,
    },
    /// Connections of a server misbehave; without `node`: of all machines.
    Transport {
        server: Kind,
        node: Option<String>,
        fault: Transport,
    },
    HealTransport {
        server: Kind,
        node: Option<String>,
    },
    /// Calls misbehave; without `server`: of all servers.
    CallFault {
        server: Option<Kind>,
        node: Option<String>,
        call: String,
        does: Misbehaviour,
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
    fn make(self, world: &mut World) {
        match self {
            Self::StopService { node, service } => world.stop_service(&node, &service),
            Self::StartService { node, service } => world.start_service(&node, &service),
            Self::Service { node, service, state, healthy, message } => {
                let machine = world.machine_mut(&node);
                let service = machine.service_mut(&service);
                if let Some(state) = state {
                    service.state = state;
                }
                let health = service.health.get_or_insert_default();
                if let Some(healthy) = healthy {
                    (health.healthy, health.unknown) = (healthy, false);
                }
                if let Some(message) = message {
                    health.last_message = message;
                }
                machine.tell_services();
            }
            Self::Resource { node, r#type, id, merge: patch } => {
                let resources = &mut world.machine_mut(&node).resources;
                let mut spec = resources.get(&r#type, &id).map(|resource| resource.spec().clone()).unwrap_or_default();
                merge(&mut spec, &patch);
                resources.put(&r#type, &id, spec);
            }
            Self::RemoveResource { node, r#type, id } => {
                world.machine_mut(&node).resources.remove(&r#type, &id);
            }
            Self::Object { resource, namespace, name, merge: patch } => {
                let namespace = namespace.as_deref();
                let mut object = world.kubernetes.object(&resource, namespace, &name).cloned().unwrap_or_default();
                object["metadata"]["name"] = name.into();
                if let Some(namespace) = namespace {
                    object["metadata"]["namespace"] = namespace.into();
                }
                merge(&mut object, &Value::Object(patch));
                world.kubernetes.put(&resource, object);
            }
            Self::RemoveObject { resource, namespace, name } => {
                world.kubernetes.remove(&resource, namespace.as_deref(), &name);
            }
            Self::Transport { server, node, fault } => {
                let servers = server.servers(world, node.as_deref());
                world.transport.extend(servers.into_iter().map(|server| (server, fault.clone())));
            }
            Self::HealTransport { server, node } => {
                for server in server.servers(world, node.as_deref()) {
                    world.transport.remove(&server);
                }
            }
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
        }
    }

    fn check(&self, world: &World) -> anyhow::Result<()> {
        match self {
            Self::StopService { node, service }
            | Self::StartService { node, service }
            | Self::Service { node, service, .. } => {
                let (_, machine) = known(world, node)?;
                ensure!(has_service(machine, service), "`{node}` has no service `{service}`");
            }
            Self::Resource { node, r#type, .. } | Self::RemoveResource { node, r#type, .. } => {
                known(world, node)?;
                let talos = world.versions.talos;
                ensure!(specs::types(talos).any(|of| of.name == r#type), "Talos {talos} has no type `{type}`");
            }
            Self::Transport { server, node, .. } | Self::HealTransport { server, node } => {
                check_server(world, *server, node.as_deref())?;
            }
            Self::CallFault { server, node, does, .. } => {
                match (server, node) {
                    (Some(server), node) => check_server(world, *server, node.as_deref())?,
                    (None, Some(node)) => bail!("which server of `{node}` is meant says `server`"),
                    (None, None) => {}
                }
                if let Misbehaviour::From(other) = does {
                    known(world, other)?;
                }
            }
            Self::Object { resource, namespace, name, merge } => {
                check_resource(resource, namespace.as_deref())?;
                check_object(merge, namespace.as_deref(), name)?;
            }
            Self::RemoveObject { resource, namespace, .. } => check_resource(resource, namespace.as_deref())?,
            Self::Clock { ahead } => {
                ensure!(ahead.abs() <= FARTHEST, "`ahead` is at most ten years, ahead or behind");
            }
            Self::HealCalls {} => {}
        }
        Ok(())
    }
}

/// Whether the API servers serve such a resource, and whether it is in namespaces.
fn check_resource(resource: &str, namespace: Option<&str>) -> anyhow::Result<()> {
    match (namespaced(resource), namespace) {
        (None, _) => {
            bail!("there is no resource `{resource}`; they are called like `nodes` and `leases.coordination.k8s.io`")
        }
        (Some(true), None) => bail!("`{resource}` are in namespaces: `namespace` is missing"),
        (Some(false), Some(_)) => bail!("`{resource}` are in no namespace"),
        (Some(true), Some(_)) | (Some(false), None) => Ok(()),
    }
}

/// Whether what is merged into an object leaves it one, of the same name.
fn check_object(patch: &Map<String, Value>, namespace: Option<&str>, name: &str) -> anyhow::Result<()> {
    for key in ["metadata", "spec", "status"] {
        let removed = key != "metadata" && patch.get(key).is_some_and(Value::is_null);
        ensure!(removed || patch.get(key).is_none_or(Value::is_object), "`merge`: `{key}` is an object");
    }
    let metadata = patch.get("metadata");
    for (key, known) in [("name", Some(name)), ("namespace", namespace)] {
        let said = metadata.and_then(|metadata| metadata.get(key));
        ensure!(said.is_none_or(|said| said.as_str() == known), "`merge`: the {key} of an object cannot be changed");
    }
    Ok(())
}

fn has_service(machine: &Machine, id: &str) -> bool {
    machine.services.iter().any(|service| service.id == id)
}

fn check_server(world: &World, server: Kind, node: Option<&str>) -> anyhow::Result<()> {
    let Some(node) = node else { return Ok(()) };
    known(world, node)?;
    ensure!(server != Kind::Balancer, "the balancer is no server of a machine");
    ensure!(!server.servers(world, Some(node)).is_empty(), "`{node}` is a worker: it has no such server");
    Ok(())
}
