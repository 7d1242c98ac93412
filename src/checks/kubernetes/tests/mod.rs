//! Tests of the Kubernetes judges against the healthy fixture with one thing broken.

mod api;
mod certificates;
mod conditions;
mod containers;
mod daemon_sets;
mod dns;
mod extensions;
mod laws;
mod leadership;
mod manifests;
mod node_objects;
mod nodes;
mod paths;
mod pods;
mod scheduling;
mod servers;
mod starting;
mod static_pods;
mod system;
mod versions;
mod without_talos;

use crate::model::{Outcome, Status, Verdict};
use crate::snapshot::{Gap, GapKind, Observed, Pod, Snapshot, Workload};
use crate::testing::fixture::{healthy, verdict};
use crate::testing::judged;

/// Every check of this part.
const IDS: [&str; 26] = [
    "k8s.credentials",
    "k8s.api.endpoint",
    "k8s.api.servers",
    "k8s.api.identity",
    "k8s.api.certificates",
    "k8s.controlplane.apiserver",
    "k8s.controlplane.controller-manager",
    "k8s.controlplane.scheduler",
    "k8s.controlplane.leases",
    "k8s.controlplane.versions",
    "k8s.nodes.registered",
    "k8s.nodes.ready",
    "k8s.nodes.pressure",
    "k8s.nodes.conditions",
    "k8s.nodes.schedulable",
    "k8s.nodes.csrs",
    "k8s.manifests",
    "k8s.kube-proxy",
    "k8s.dns",
    "k8s.cni",
    "k8s.system",
    "k8s.pods.starting",
    "k8s.webhooks",
    "k8s.apiservices",
    "k8s.staticpods.rendered",
    "k8s.staticpods.running",
];

fn judge(snapshot: &Snapshot, id: &str) -> Verdict {
    verdict(id, snapshot)
}

fn status(snapshot: &Snapshot, id: &str) -> Status {
    judge(snapshot, id).status()
}

/// Formats findings as `fail component-missing cp-3 < k8s.staticpods.rendered !`: status, reason, target, explanation, and `!` if
/// permanent.
fn said(snapshot: &Snapshot, id: &str) -> Vec<String> {
    let verdict = judge(snapshot, id);
    let mut said: Vec<String> = verdict
        .findings
        .iter()
        .filter_map(|finding| {
            let target = &finding.target.name;
            match &finding.outcome {
                Outcome::Pass(_) | Outcome::Skip(_) => None,
                Outcome::Blocked(by) => Some(format!("blocked {target} < {by}")),
                Outcome::Problem(problem) => {
                    let by = problem.explained_by.map(|by| format!(" < {by}")).unwrap_or_default();
                    let permanent = if problem.waiting_helps { "" } else { " !" };
                    let status = finding.outcome.status().name();
                    Some(format!("{status} {} {target}{by}{permanent}", problem.reason.code()))
                }
            }
        })
        .collect();
    said.sort();
    said
}

/// Root problems of all these checks: `id reason target`.
fn roots(snapshot: &Snapshot) -> Vec<String> {
    let mut roots = Vec::new();
    for id in IDS {
        let verdict = judge(snapshot, id);
        for (target, problem) in verdict.problems().filter(|(_, problem)| problem.explained_by.is_none()) {
            roots.push(format!("{id} {} {}", problem.reason.code(), target.name));
        }
    }
    roots
}

fn lines(snapshot: &Snapshot, id: &str) -> Vec<String> {
    judged::lines(id, snapshot)
}

/// The checks that judge static pods of the control plane.
const OF_STATIC_PODS: [&str; 4] = [
    "k8s.controlplane.apiserver",
    "k8s.controlplane.controller-manager",
    "k8s.controlplane.scheduler",
    "k8s.staticpods.running",
];

fn no<T>(kind: GapKind) -> Observed<T> {
    Err(Gap::new(kind, "test"))
}

fn with(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut snapshot = healthy();
    change(&mut snapshot);
    snapshot
}

fn proxy(snapshot: &mut Snapshot) -> &mut Workload {
    snapshot.kube().daemon_sets.as_mut().unwrap().iter_mut().find(|set| set.name == "kube-proxy").unwrap()
}

fn pod<'a>(snapshot: &'a mut Snapshot, name: &str) -> &'a mut Pod {
    snapshot.kube().pods.as_mut().unwrap().iter_mut().find(|pod| pod.name == name).unwrap()
}

/// Inserts another workload with this label at the front of the list.
fn beside(list: &mut Vec<Workload>, app: &str) {
    let mut other = list[0].clone();
    "exporter".clone_into(&mut other.name);
    other.labels.insert("k8s-app".to_owned(), app.to_owned());
    list.insert(0, other);
}

fn not_ready(snapshot: &mut Snapshot, node: &str) {
    let conditions = &mut snapshot.kube_node_mut(node).conditions;
    conditions.iter_mut().filter(|it| it.kind == "Ready").for_each(|it| "False".clone_into(&mut it.status));
}
