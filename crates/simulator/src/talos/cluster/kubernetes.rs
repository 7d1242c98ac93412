//! Checks that query Kubernetes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::view::{Found, View, internal_addresses, is_control_plane, refused};
use crate::world::{Power, Process};

type Objects<'a> = &'a [Value];

/// Lists objects of one kind (`nodes`, `daemonsets.apps`) with the administrator's kubeconfig through the cluster's endpoint.
fn list<'a>(view: &View<'a>, kind: &str) -> Result<Objects<'a>, Found> {
    if !view.roles.admin {
        return Err(refused());
    }
    let serves = |machine: &crate::world::Machine| {
        let api_server = machine.api_server.as_ref();
        machine.power == Power::On && api_server.is_some_and(|server| server.process == Process::Running)
    };
    if !view.world.machines.values().any(serves) {
        let (at, kind) = (view.endpoint, kind.split_once('.').map_or(kind, |(name, _)| name));
        let text = format!("Get \"https://{at}/api/v1/{kind}\": dial tcp {at}: connect: connection refused");
        return Err(Found::Wrong(text));
    }
    Ok(view.world.kubernetes.objects.get(kind).map_or(&[], Vec::as_slice))
}

pub(super) fn nodes_reported(view: &View<'_>) -> Found {
    match list(view, "nodes") {
        Ok(nodes) => {
            let expected: Vec<_> = view.nodes.all().map(|node| node.to_string()).collect();
            same_addresses(&expected, &nodes.iter().collect::<Vec<_>>())
        }
        Err(found) => found,
    }
}

/// Compares in both directions: each expected address belongs to a node, and each node has an expected address.
fn same_addresses(expected: &[String], nodes: &[&Value]) -> Found {
    let wanted: BTreeSet<&str> = expected.iter().map(String::as_str).collect();
    let there: BTreeSet<&str> = nodes.iter().flat_map(|node| internal_addresses(node)).collect();
    if let Some(missing) = wanted.difference(&there).next() {
        return Found::Wrong(format!("can't find expected node with IPs [{missing:?}]"));
    }
    match nodes.iter().find(|node| !internal_addresses(node).any(|address| wanted.contains(address))) {
        Some(node) => {
            let addresses: Vec<_> = internal_addresses(node).map(|address| format!("{address:?}")).collect();
            Found::Wrong(format!("unexpected nodes with IPs [{}]", addresses.join(" ")))
        }
        None => Found::Good,
    }
}

pub(super) fn control_plane_ready(view: &View<'_>) -> Found {
    let (nodes, pods) = match list(view, "nodes").and_then(|nodes| Ok((nodes, list(view, "pods")?))) {
        Ok(lists) => lists,
        Err(found) => return found,
    };
    let expected: Vec<_> = view.nodes.control_planes.iter().map(ToString::to_string).collect();
    let of_control_planes: Vec<_> = nodes.iter().filter(|node| is_control_plane(node)).collect();
    let found = same_addresses(&expected, &of_control_planes);
    if found != Found::Good {
        return found;
    }
    for app in ["kube-apiserver", "kube-scheduler", "kube-controller-manager"] {
        let of_app: Vec<_> = pods.iter().filter(|pod| is_of(pod, app)).collect();
        if of_app.len() != expected.len() {
            let (expected, got) = (expected.len(), of_app.len());
            return Found::Wrong(format!("expected number of pods for {app} to be {expected}, got {got}"));
        }
        let unready = unready_names(of_app.iter().copied());
        if !unready.is_empty() {
            return Found::Wrong(format!("some pods are not ready for {app}: [{}]", unready.join(" ")));
        }
    }
    Found::Good
}

pub(super) fn nodes_ready(view: &View<'_>) -> Found {
    let nodes = match list(view, "nodes") {
        Ok(_) if without_network(view) => return Found::Inapplicable,
        Ok(nodes) => nodes,
        Err(found) => return found,
    };
    let unready = unready_names(nodes.iter());
    if unready.is_empty() {
        Found::Good
    } else {
        Found::Wrong(format!("some nodes are not ready: [{}]", unready.join(" ")))
    }
}

pub(super) fn kube_proxy_ready(view: &View<'_>) -> Found {
    pods_ready(view, "daemonsets.apps", "kube-proxy")
}

pub(super) fn coredns_ready(view: &View<'_>) -> Found {
    if without_network(view) {
        return Found::Inapplicable;
    }
    pods_ready(view, "deployments.apps", "kube-dns")
}

/// Checks the pods of an app, unless nothing creates such pods.
fn pods_ready(view: &View<'_>, owners: &str, app: &str) -> Found {
    let (owners, pods) = match list(view, owners).and_then(|owners| Ok((owners, list(view, "pods")?))) {
        Ok(lists) => lists,
        Err(found) => return found,
    };
    if !owners.iter().any(|owner| is_of(owner, app)) {
        return Found::Inapplicable;
    }
    let ended = |pod: &&Value| pod["metadata"].get("deletionTimestamp").is_some() || pod["status"]["phase"] == "Failed";
    let of_app: Vec<_> = pods.iter().filter(|pod| is_of(pod, app) && !ended(pod)).collect();
    let unready = unready_names(of_app.iter().copied());
    let selected = format!("for namespace \"kube-system\" and label selector \"k8s-app={app}\"");
    if of_app.is_empty() {
        Found::Wrong(format!("no pods found {selected}"))
    } else if unready.len() == of_app.len() {
        Found::Wrong(format!("no ready pods found {selected}"))
    } else if !unready.is_empty() {
        Found::Wrong(format!("some pods are not ready: [{}]", unready.join(" ")))
    } else {
        Found::Good
    }
}

/// Checks that no node is cordoned; the error names only the first one.
pub(super) fn nodes_schedulable(view: &View<'_>) -> Found {
    match list(view, "nodes") {
        Ok(nodes) => match nodes.iter().find(|node| node["spec"]["unschedulable"] == true) {
            Some(node) => Found::Wrong(format!("some nodes are not schedulable: [{}]", name(node))),
            None => Found::Good,
        },
        Err(found) => found,
    }
}

/// Whether the cluster was created without a CNI, so that its nodes need not become ready.
fn without_network(view: &View<'_>) -> bool {
    let machine = view.world.machines.get(&view.from);
    let manifests = machine
        .and_then(|machine| machine.resources.get("BootstrapManifestsConfigs.kubernetes.talos.dev", "manifests"));
    manifests.is_some_and(|manifests| manifests.spec()["cniName"] == "none")
}

fn is_of(object: &Value, app: &str) -> bool {
    let metadata = &object["metadata"];
    metadata["namespace"] == "kube-system" && metadata["labels"]["k8s-app"] == app
}

/// Names of the nodes or pods that are not ready.
fn unready_names<'a>(objects: impl Iterator<Item = &'a Value>) -> Vec<&'a str> {
    let ready = |object: &Value| {
        let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    objects.filter(|object| !ready(object)).map(name).collect()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
