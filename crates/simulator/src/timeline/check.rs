//! Checks that a world has what a change names, and that the values of the change are valid.

use anyhow::{bail, ensure};
use jiff::SignedDuration;
use serde_json::{Map, Value};

use super::{Change, Kind, known};
use crate::cosi;
use crate::kubernetes::namespaced;
use crate::version::plain_version;
use crate::world::{Machine, Misbehavior, Role, World};

/// Maximum difference between clocks, so that years keep four digits.
const FARTHEST: SignedDuration = SignedDuration::from_hours(10 * 366 * 24);

/// Fields that identify an object.
const IDENTITY: [&str; 2] = ["/metadata/name", "/metadata/namespace"];

impl Change {
    /// Checks that the world has the machines and servers that the change names, regardless of their state, and that its values are valid.
    ///
    /// # Errors
    /// If not.
    pub fn check(&self, world: &World) -> anyhow::Result<()> {
        match self {
            Self::State { state, node, .. } => state.check(world, node)?,
            Self::StopService { node, service }
            | Self::StartService { node, service }
            | Self::RemoveService { node, service }
            | Self::Service { node, service, .. } => {
                let (_, machine) = known(world, node)?;
                // An extension adds its own service.
                let added = matches!(self, Self::Service { .. }) && service.starts_with("ext-");
                ensure!(added || has_service(machine, service), "`{node}` has no service `{service}`");
            }
            Self::Log { node, service, .. } => {
                let (_, machine) = known(world, node)?;
                ensure!(machine.logs.contains_key(service), "`{node}` has no log `{service}`");
            }
            Self::Machine { node, .. } | Self::Rename { node, .. } => drop(known(world, node)?),
            Self::EtcdMember { node, .. } => {
                let (at, _) = known(world, node)?;
                ensure!(world.etcd_of(at).is_some(), "`{node}` has no etcd member");
            }
            Self::EtcdAddMember { id, .. } => {
                let mut members = world.etcd.iter().flat_map(|cluster| &cluster.members);
                ensure!(!world.etcd.is_empty(), "there is no etcd yet");
                ensure!(members.all(|member| member.id != *id), "`id`: there is such a member already");
            }
            Self::ApiServerFailing { node, .. } | Self::ApiServerRequested { node, .. } => {
                check_server(world, Kind::ApiServer, Some(node))?;
            }
            Self::NodeMarked { node, .. } => {
                ensure!(world.kubernetes.object("nodes", None, node).is_some(), "Kubernetes has no node `{node}`");
            }
            Self::LeaseStalls { namespace, name, .. } | Self::LeaseRenewed { namespace, name } => {
                let lease = world.kubernetes.object("leases.coordination.k8s.io", Some(namespace), name);
                ensure!(lease.is_some(), "there is no lease `{namespace}/{name}`");
            }
            Self::Resource { node, r#type, .. } | Self::RemoveResource { node, r#type, .. } => {
                if let Some(node) = node {
                    known(world, node)?;
                }
                let talos = world.versions.talos;
                ensure!(cosi::types(talos).any(|of| of.name == r#type), "Talos {talos} has no type `{type}`");
            }
            Self::VirtualIp { node } => {
                let (_, machine) = known(world, node)?;
                ensure!(machine.role == Role::ControlPlane, "`{node}` is a worker: it has no virtual IP");
            }
            Self::Transport { server, node, from, .. } | Self::HealTransport { server, node, from } => {
                if let Some(from) = from {
                    known(world, from)?;
                    ensure!(*server == Kind::Apid, "`from`: machines call no server of each other but apid");
                }
                check_server(world, *server, node.as_deref())?;
            }
            Self::CallFault { server, node, does, .. } => {
                match (server, node) {
                    (Some(server), node) => check_server(world, *server, node.as_deref())?,
                    (None, Some(node)) => bail!("which server of `{node}` is meant says `server`"),
                    (None, None) => {}
                }
                if let Misbehavior::From(other) = does {
                    known(world, other)?;
                }
            }
            Self::Object { resource, namespace, name, merge, remove } => {
                check_resource(resource, namespace.as_deref())?;
                check_object(merge, namespace.as_deref(), name)?;
                let deep = remove.iter().all(|pointer| pointer.starts_with('/') && pointer[1..].contains('/'));
                ensure!(deep, "`remove` are JSON pointers below `metadata`, `spec` or `status`: `/metadata/labels/a`");
                ensure!(!remove.iter().any(|pointer| IDENTITY.contains(&pointer.as_str())), "an object keeps its name");
            }
            Self::RemoveObject { resource, namespace, .. } => check_resource(resource, namespace.as_deref())?,
            Self::Clock { ahead } | Self::OmniClock { ahead } => {
                ensure!(ahead.abs() <= FARTHEST, "`ahead` is at most ten years, ahead or behind");
            }
            Self::EtcdStorage { version } => {
                plain_version(version)?;
            }
            Self::HealCalls {} | Self::EtcdElection {} | Self::EtcdAuth { .. } | Self::EtcdTokensExpire {} => {}
        }
        Ok(())
    }
}

/// Checks that the API servers serve a resource, and that a namespace is given exactly if the resource is namespaced.
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

/// Checks that the merged object remains an object with the same name.
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

pub(super) fn has_service(machine: &Machine, id: &str) -> bool {
    machine.services.iter().any(|service| service.id == id)
}

fn check_server(world: &World, server: Kind, node: Option<&str>) -> anyhow::Result<()> {
    let Some(node) = node else { return Ok(()) };
    known(world, node)?;
    ensure!(server != Kind::Balancer, "the balancer is no server of a machine");
    ensure!(!server.servers(world, Some(node)).is_empty(), "`{node}` is a worker: it has no such server");
    Ok(())
}
