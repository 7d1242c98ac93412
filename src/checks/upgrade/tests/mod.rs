//! Upgrades that are possible, and upgrades that are not.

mod apis;
mod drain;
mod etcd;
mod extensions;
mod flags;
mod path;
mod quorum;
mod room;
mod volumes;
mod without_talos;

use crate::model::{Hint, Status};
use crate::snapshot::{GapKind, Snapshot, Upgrade};
use crate::testing::fixture::{NODES, gap, healthy};
use crate::testing::judged::{hints, judge, lines, observed, status, wrong};

/// The healthy cluster before an upgrade, running Talos 1.13.0 and Kubernetes 1.35.4.
fn before(talos: Option<&str>, kubernetes: Option<&str>) -> Snapshot {
    let mut snapshot = healthy();
    snapshot.asked.upgrade =
        Upgrade { talos: talos.map(str::to_owned), kubernetes: kubernetes.map(str::to_owned), ..Upgrade::default() };
    snapshot
}

fn runs(snapshot: &mut Snapshot, names: &[&str], tag: &str) {
    for name in names {
        tag.clone_into(&mut snapshot.talos_of(name).contact.as_mut().unwrap().version.tag);
    }
}

/// Sets the version of all parts of Kubernetes.
fn kubernetes_runs(snapshot: &mut Snapshot, version: &str) {
    for node in &mut snapshot.nodes {
        for status in node.talos.static_pod_statuses.iter_mut().flatten() {
            for container in &mut status.state.containers {
                container.image = format!("registry.k8s.io/{}:{version}", container.name);
            }
        }
    }
    for object in snapshot.kube().nodes.as_mut().unwrap() {
        version.clone_into(&mut object.kubelet_version);
    }
    for pod in snapshot.kube().pods.as_mut().unwrap().iter_mut() {
        for container in pod.state.containers.iter_mut().filter(|it| it.name.starts_with("kube-")) {
            container.image = format!("registry.k8s.io/{}:{version}", container.name);
        }
    }
}

fn likely(id: &str, snapshot: &Snapshot) -> Vec<String> {
    let text = |hint| if let Hint::Likely(text) = hint { Some(text) } else { None };
    hints(id, snapshot).into_iter().filter_map(text).collect()
}
