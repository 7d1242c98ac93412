//! Checks that query the machines.

use std::collections::BTreeSet;
use std::net::IpAddr;

use talos_api::machine::ServiceInfo;

use super::view::{Found, View, refused, wrong};
use crate::talos::etcd;
use crate::version::TalosVersion;
use crate::world::Role;

const MIB: u64 = 1 << 20;
/// Minimum size of the volume EPHEMERAL in bytes.
const SMALLEST_DISK: u64 = 3932 * MIB;
/// From this version on, the first check reads the configuration, which requires the role os:admin.
const READS_CONFIGURATION_SINCE: TalosVersion = TalosVersion::new(14, 0);
const LESS_MEMORY_SINCE: TalosVersion = TalosVersion::new(8, 0);

pub(super) fn etcd_healthy(view: &View<'_>) -> Found {
    if view.world.versions.talos >= READS_CONFIGURATION_SINCE && !view.roles.admin {
        return refused();
    }
    service_healthy(view, "etcd")
}

/// Checks the kubelets of control planes; workers are not checked.
pub(super) fn kubelet_healthy(view: &View<'_>) -> Found {
    service_healthy(view, "kubelet")
}

fn service_healthy(view: &View<'_>, id: &str) -> Found {
    let machines = match view.ask_machines(view.nodes.control_planes.iter().copied()) {
        Ok(machines) => machines,
        Err(found) => return found,
    };
    let services: Vec<_> = machines
        .iter()
        .filter_map(|(node, machine)| Some((*node, machine.services.iter().find(|service| service.id == id)?)))
        .collect();
    if services.len() != machines.len() {
        let text = format!("expected a response with {} node(s), got {}", machines.len(), services.len());
        return Found::Wrong(text);
    }
    let errors: Vec<_> = services.iter().filter_map(|(node, service)| unhealthy(*node, service)).collect();
    wrong(&errors)
}

fn unhealthy(node: IpAddr, service: &ServiceInfo) -> Option<String> {
    let id = &service.id;
    let Some(last) = service.events.as_ref().and_then(|events| events.events.last()) else {
        return Some(format!("{node}: no events recorded yet for service {id:?}"));
    };
    if last.state != "Running" {
        let now = format!("current state [{}] {}", last.state, last.msg);
        return Some(format!("{node}: service {id:?} not in expected state \"Running\": {now}"));
    }
    let healthy = service.health.as_ref().is_some_and(|health| health.healthy);
    (!healthy).then(|| format!("{node}: service is not healthy: {id}"))
}

pub(super) fn etcd_consistent(view: &View<'_>) -> Found {
    let control_planes = view.nodes.control_planes.iter().copied();
    let lists = match view.ask(control_planes, |node, _| etcd::listed(view.world, node, false)) {
        Ok(lists) => lists,
        Err(found) => return found,
    };
    let names = |list: &etcd::Members| {
        let names: Vec<_> = list.members.iter().map(|member| member.hostname.as_str()).collect();
        names.join(" ")
    };
    let Some(((_, first), others)) = lists.split_first() else {
        return Found::Wrong("no messages returned".to_owned());
    };
    for (node, list) in others {
        if list.members.len() != first.members.len() {
            let (expected, actual) = (names(first), names(list));
            return Found::Wrong(format!("{node}: expected to have [{expected}] members, got [{actual}]"));
        }
        let known = |id: u64| first.members.iter().any(|member| member.id == id);
        if let Some(member) = list.members.iter().find(|member| !known(member.id)) {
            return Found::Wrong(format!("{node}: found unexpected etcd member {}", member.hostname));
        }
    }
    Found::Good
}

pub(super) fn etcd_on_control_planes(view: &View<'_>) -> Found {
    let lists = match view.ask([view.from], |node, _| etcd::listed(view.world, node, false)) {
        Ok(lists) => lists,
        Err(found) => return found,
    };
    let members = lists.iter().flat_map(|(_, list)| &list.members);
    let urls = members.flat_map(|member| &member.peer_urls);
    let hosts: Vec<_> = urls.filter_map(|url| url.parse::<http::Uri>().ok()?.host().map(str::to_owned)).collect();
    let expected: Vec<_> = view.nodes.control_planes.iter().map(IpAddr::to_string).collect();
    if hosts.iter().all(|host| expected.contains(host)) {
        return Found::Good;
    }
    let quoted = |texts: &[String]| texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(" ");
    let (hosts, expected) = (quoted(&hosts), quoted(&expected));
    Found::Wrong(format!("etcd member ips [{hosts}] are not subset of control plane node ips [{expected}]"))
}

pub(super) fn apid_ready(view: &View<'_>) -> Found {
    view.ask_machines(view.nodes.all()).map_or_else(|found| found, |_| Found::Good)
}

pub(super) fn memory_sizes(view: &View<'_>) -> Found {
    let machines = match view.ask_machines(view.nodes.all()) {
        Ok(machines) => machines,
        Err(found) => return found,
    };
    let least = |role| match role {
        Role::ControlPlane if view.world.versions.talos < LESS_MEMORY_SINCE => 1898,
        Role::ControlPlane => 1698,
        Role::Worker => 874,
    };
    let short = machines.iter().filter_map(|(node, machine)| {
        let (least, actual) = (least(view.nodes.role(*node)), machine.memory.0 * 1024 / MIB);
        let text = format!("expected at least {least} MiB, actual {actual} MiB");
        (actual < least).then(|| format!("node \"{node}\" does not meet memory requirements: {text}"))
    });
    wrong(&short.collect::<Vec<_>>())
}

pub(super) fn disk_sizes(view: &View<'_>) -> Found {
    let machines = match view.ask_machines(view.nodes.all()) {
        Ok(machines) => machines,
        Err(found) => return found,
    };
    let short = machines.iter().filter_map(|(node, machine)| {
        let volume = machine.resources.get("VolumeStatuses.block.talos.dev", "EPHEMERAL")?;
        let size = volume.spec()["size"].as_u64().filter(|size| *size < SMALLEST_DISK)?;
        let text = format!("expected at least {} MiB, actual {} MiB", SMALLEST_DISK / MIB, size / MIB);
        Some(format!("ephemeral partition for node \"{node}\" is too small, {text}"))
    });
    wrong(&short.collect::<Vec<_>>())
}

pub(super) fn no_diagnostics(view: &View<'_>) -> Found {
    let machines = match view.ask_machines(view.nodes.all()) {
        Ok(machines) => machines,
        Err(found) => return found,
    };
    let of_nodes = machines.iter().filter_map(|(node, machine)| {
        let warnings = machine.resources.list("Diagnostics.runtime.talos.dev");
        let messages: Vec<_> = warnings.filter_map(|(_, warning)| warning.spec()["message"].as_str()).collect();
        (!messages.is_empty()).then(|| format!("{node}: {}", messages.join(", ")))
    });
    let of_nodes: Vec<_> = of_nodes.collect();
    if of_nodes.is_empty() { Found::Good } else { Found::Wrong(format!("active diagnostics: {}", of_nodes.join("; "))) }
}

/// Checks that the machines have booted, but not that they are ready.
pub(super) fn booted(view: &View<'_>) -> Found {
    let machines = match view.ask_machines(view.nodes.all()) {
        Ok(machines) => machines,
        Err(found) => return found,
    };
    let booting = machines.iter().filter(|(_, machine)| {
        let status = machine.resources.get("MachineStatuses.runtime.talos.dev", "machine");
        status.is_none_or(|status| status.spec()["stage"] != "running")
    });
    let booting: Vec<_> = booting.map(|(node, _)| format!("\"{node}\"")).collect();
    if booting.is_empty() {
        Found::Good
    } else {
        Found::Wrong(format!("nodes [{}] are still in boot sequence", booting.join(" ")))
    }
}

/// Checks that the static pods exist, but not that they run.
pub(super) fn static_pods(view: &View<'_>) -> Found {
    let machines = match view.ask_machines(view.nodes.control_planes.iter().copied()) {
        Ok(machines) => machines,
        Err(found) => return found,
    };
    let expected = BTreeSet::from([
        "kube-system/kube-apiserver",
        "kube-system/kube-controller-manager",
        "kube-system/kube-scheduler",
    ]);
    for (node, machine) in machines {
        let mut missing = expected.clone();
        for (id, _) in machine.resources.list("StaticPodStatuses.kubernetes.talos.dev") {
            missing.retain(|prefix| !id.starts_with(prefix));
        }
        if !missing.is_empty() {
            let missing: Vec<_> = missing.into_iter().collect();
            return Found::Wrong(format!("missing static pods on node {node}: [{}]", missing.join(" ")));
        }
    }
    Found::Good
}
