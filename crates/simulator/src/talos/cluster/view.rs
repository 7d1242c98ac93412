//! A check's view of the cluster.

use std::net::{IpAddr, SocketAddr};

use serde_json::Value;
use tonic::{Code, Status};

use crate::talos::access::Roles;
use crate::talos::dial::{Reached, dial};
use crate::talos::wire::go_error;
use crate::world::{Machine, Role, World};

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Good,
    /// The check is skipped.
    Inapplicable,
    Wrong(String),
    /// A query that is never answered.
    Silence,
}

/// The machines that are checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Nodes {
    pub(super) control_planes: Vec<IpAddr>,
    pub(super) workers: Vec<IpAddr>,
}

impl Nodes {
    /// Nodes that a machine knows from the discovery service, or else those of Kubernetes.
    pub(super) fn discovered(world: &World, by: IpAddr) -> Self {
        let members = world.machines.get(&by).into_iter();
        let members = members.flat_map(|machine| machine.resources.list("Members.cluster.talos.dev"));
        let mut nodes = Self::default();
        for (_, member) in members {
            let address = member.spec()["addresses"][0].as_str().and_then(|address| address.parse().ok());
            let control_plane = member.spec()["machineType"] == "controlplane";
            nodes.add(address, control_plane);
        }
        if nodes == Self::default() {
            for node in world.kubernetes.objects.get("nodes").into_iter().flatten() {
                let address = internal_addresses(node).next().and_then(|address| address.parse().ok());
                nodes.add(address, is_control_plane(node));
            }
        }
        nodes
    }

    fn add(&mut self, address: Option<IpAddr>, control_plane: bool) {
        let of_role = if control_plane { &mut self.control_planes } else { &mut self.workers };
        of_role.extend(address);
    }

    pub(super) fn all(&self) -> impl Iterator<Item = IpAddr> {
        self.control_planes.iter().chain(&self.workers).copied()
    }

    pub(super) fn role(&self, node: IpAddr) -> Role {
        if self.control_planes.contains(&node) { Role::ControlPlane } else { Role::Worker }
    }
}

/// The world as seen by one machine, with the caller's rights.
pub(super) struct View<'a> {
    pub(super) world: &'a World,
    pub(super) from: IpAddr,
    pub(super) roles: Roles,
    pub(super) nodes: &'a Nodes,
    /// The Kubernetes endpoint.
    pub(super) endpoint: SocketAddr,
}

impl<'a> View<'a> {
    /// Queries several nodes with one call. If any of them fails, the result only contains the failures.
    pub(super) fn ask<T>(
        &self,
        nodes: impl IntoIterator<Item = IpAddr>,
        question: impl Fn(IpAddr, &'a Machine) -> Option<Result<T, Status>>,
    ) -> Result<Vec<(IpAddr, T)>, Found> {
        let (mut answers, mut failures) = (Vec::new(), Vec::new());
        for node in nodes {
            let answer = match dial(self.world, self.from, &node.to_string()) {
                Reached::Machine(at, _) => self.world.machines.get(&at).and_then(|machine| question(node, machine)),
                Reached::Failed(why) => Some(Err(Status::unavailable(why))),
                Reached::Silence => None,
            };
            match answer {
                Some(Ok(answer)) => answers.push((node, answer)),
                Some(Err(status)) => failures.push(format!("{node}: {}", go_error(&status))),
                None => return Err(Found::Silence),
            }
        }
        if failures.is_empty() { Ok(answers) } else { Err(wrong(&failures)) }
    }

    /// Queries machines like [`ask`](Self::ask), for data that every machine can return immediately.
    pub(super) fn ask_machines(&self, nodes: impl IntoIterator<Item = IpAddr>) -> Asked<'a> {
        self.ask(nodes, |_, machine| Some(Ok(machine)))
    }
}

pub(super) type Asked<'a> = Result<Vec<(IpAddr, &'a Machine)>, Found>;

/// Formats errors like Go's `multierror`, but without its empty lines. An empty list is a success.
pub(super) fn wrong(errors: &[String]) -> Found {
    let lines: Vec<_> = errors.iter().map(|error| format!("\n\t* {error}")).collect();
    match errors.len() {
        0 => Found::Good,
        1 => Found::Wrong(format!("1 error occurred:{}", lines.concat())),
        number => Found::Wrong(format!("{number} errors occurred:{}", lines.concat())),
    }
}

/// The error of queries that were not answered in time.
pub(super) fn silent() -> String {
    go_error(&Status::new(Code::DeadlineExceeded, "context deadline exceeded"))
}

pub(super) fn refused() -> Found {
    Found::Wrong(go_error(&Status::permission_denied("not authorized")))
}

/// Internal addresses of a Kubernetes node.
pub(super) fn internal_addresses(node: &Value) -> impl Iterator<Item = &str> {
    let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
    addresses.filter(|address| address["type"] == "InternalIP").filter_map(|address| address["address"].as_str())
}

pub(super) fn is_control_plane(node: &Value) -> bool {
    node["metadata"]["labels"].get("node-role.kubernetes.io/control-plane").is_some()
}
