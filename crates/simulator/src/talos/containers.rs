//! Containers of static pods, as listed by the container runtime.

use serde_json::Value;
use talos_api::common::ContainerDriver;
use talos_api::machine::{Container, ContainerInfo, ContainersRequest};
use tonic::Status;

use crate::cosi::kind;
use crate::world::Machine;

const NAMESPACE: &str = "k8s.io";

/// Lists pods and their containers. Containers outside Kubernetes are not simulated.
pub(super) fn list(machine: &Machine, request: &ContainersRequest) -> Result<Container, Status> {
    let containers = match (request.namespace.as_str(), request.driver()) {
        (NAMESPACE, _) => all(machine).collect(),
        (_, ContainerDriver::Cri) => {
            return Err(Status::unknown(format!("namespace {:?} is not supported by CRI", request.namespace)));
        }
        _ => Vec::new(),
    };
    Ok(Container { metadata: None, containers })
}

/// The log of a container with an id from the list. The key in [`Machine::logs`] is this id without the container's own part:
/// `kube-system/kube-scheduler-cp-1:kube-scheduler`.
pub(super) fn log(machine: &Machine, id: &str) -> Option<Vec<String>> {
    let container = all(machine).find(|container| container.id == id && container.name != container.pod_id)?;
    let known = id.rsplit_once(':').map_or(id, |(known, _)| known);
    Some(machine.logs.get(known).cloned().unwrap_or_else(|| vec![format!("{} is simulated", container.name)]))
}

fn all(machine: &Machine) -> impl Iterator<Item = ContainerInfo> {
    machine.resources.list(kind::STATIC_POD_STATUSES).flat_map(|(pod, status)| {
        let containers = status.spec()["containerStatuses"].as_array().cloned().unwrap_or_default();
        let sandbox = info(pod, pod, "registry.k8s.io/pause:3.10.1".to_owned(), "SANDBOX_READY");
        let containers: Vec<_> = containers.iter().filter_map(|container| of(pod, container)).collect();
        std::iter::once(sandbox).chain(containers)
    })
}

/// A container that was never created is not listed.
fn of(pod: &str, status: &Value) -> Option<ContainerInfo> {
    let name = status["name"].as_str()?;
    let own = status["containerID"].as_str()?.strip_prefix("containerd://")?;
    let state = if status["state"]["running"].is_object() { "CONTAINER_RUNNING" } else { "CONTAINER_EXITED" };
    let id = format!("{pod}:{name}:{}", own.get(..12)?);
    Some(ContainerInfo { name: name.to_owned(), ..info(pod, &id, status["image"].as_str()?.to_owned(), state) })
}

fn info(pod: &str, id: &str, image: String, status: &str) -> ContainerInfo {
    ContainerInfo {
        namespace: NAMESPACE.to_owned(),
        id: id.to_owned(),
        image,
        pid: 0,
        status: status.to_owned(),
        pod_id: pod.to_owned(),
        name: pod.to_owned(),
    }
}
