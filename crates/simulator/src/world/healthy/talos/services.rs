//! Services.

use jiff::{SignedDuration, Timestamp};
use talos_api::machine::{ServiceHealth, ServiceInfo};

use crate::cosi::{kind, timestamp};
use crate::version::TalosVersion;
use crate::world::services::add_event;
use crate::world::{Machine, Role};

/// The dependencies of a service, and the seconds after boot until it is healthy.
struct Start {
    id: &'static str,
    waits_for: &'static str,
    healthy_after: i64,
    /// Whether the service is a separate container.
    container: bool,
    control_planes_only: bool,
}

const STARTS: [Start; 7] = [
    Start {
        id: "apid",
        waits_for: "service \"containerd\" to be \"up\", api certificates",
        healthy_after: 3,
        container: true,
        control_planes_only: false,
    },
    Start { id: "containerd", waits_for: "", healthy_after: 1, container: false, control_planes_only: false },
    Start { id: "cri", waits_for: "network", healthy_after: 2, container: false, control_planes_only: false },
    Start {
        id: "etcd",
        waits_for: "service \"cri\" to be \"up\", time sync, network, etcd spec",
        healthy_after: 12,
        container: true,
        control_planes_only: true,
    },
    Start {
        id: "kubelet",
        waits_for: "service \"cri\" to be \"up\", time sync, network",
        healthy_after: 7,
        container: true,
        control_planes_only: false,
    },
    Start { id: "machined", waits_for: "", healthy_after: 1, container: false, control_planes_only: false },
    Start {
        id: "trustd",
        waits_for: "service \"containerd\" to be \"up\", time sync, network",
        healthy_after: 3,
        container: true,
        control_planes_only: true,
    },
];

/// All services of a machine with this role, sorted by id.
pub(super) fn all(role: Role, version: TalosVersion, booted: Timestamp) -> Vec<ServiceInfo> {
    let of_role = STARTS.iter().filter(|start| role == Role::ControlPlane || !start.control_planes_only);
    of_role.enumerate().map(|(index, start)| start.service(90 + index * 17, version, booted)).collect()
}

/// Adds the resources of the services, each of which changed once, when the service became healthy.
pub(super) fn tell(machine: &mut Machine) {
    machine.tell_services();
    let ids: Vec<_> = machine.services.iter().map(|service| service.id.clone()).collect();
    for (id, start) in ids.iter().filter_map(|id| Some((id, STARTS.iter().find(|start| start.id == id)?))) {
        let Some(mut resource) = machine.resources.get(kind::SERVICES, id).cloned() else { continue };
        let status = machine.resources.get(kind::MACHINE_STATUSES, "machine");
        let booted = status.map_or(resource.created, |status| status.created);
        resource.version = 2;
        resource.created = booted + SignedDuration::from_secs(start.healthy_after - 1);
        resource.updated = booted + SignedDuration::from_secs(start.healthy_after);
        machine.resources.insert(kind::SERVICES, id, resource);
    }
}

impl Start {
    fn service(&self, pid: usize, version: TalosVersion, booted: Timestamp) -> ServiceInfo {
        let healthy = booted + SignedDuration::from_secs(self.healthy_after);
        let began = healthy - SignedDuration::from_secs(1);
        let id = self.id;
        let health = ServiceHealth {
            unknown: false,
            healthy: true,
            last_message: String::new(),
            last_change: Some(timestamp(healthy)),
        };
        let mut service = ServiceInfo { id: id.to_owned(), state: String::new(), events: None, health: Some(health) };
        let mut happens = |state: &str, message: &str, at| {
            state.clone_into(&mut service.state);
            add_event(&mut service, message, at);
        };
        if version >= TalosVersion::new(7, 0) {
            happens("Starting", "Starting service", booted);
        }
        if !self.waits_for.is_empty() {
            happens("Waiting", &format!("Waiting for {}", self.waits_for), booted);
        }
        happens("Preparing", "Running pre state", began);
        happens("Preparing", "Creating service runner", began);
        let started = match (self.container, id) {
            (true, _) => format!("Started task {id} (PID {pid}) for container {id}"),
            (false, "machined") => "Service started as goroutine".to_owned(),
            (false, _) => format!("Process Process([\"/bin/{id}\"]) started with PID {pid}"),
        };
        happens("Running", &started, began);
        happens("Running", "Health check successful", healthy);
        service
    }
}
