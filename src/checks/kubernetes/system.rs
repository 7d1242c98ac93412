//! Whatever else runs in kube-system and beside the network plugin.

use std::collections::HashSet;

use super::severity_of;
use super::workloads::{is_judged_elsewhere, is_stuck, system_pods, troubles};
use crate::assess::Assessment;
use crate::assess::workloads::{is_well, says_ready};
use crate::checks::Check;
use crate::checks::gaps::listed;
use crate::checks::scope::passed_over;
use crate::model::{CheckId, Fact, Hint, Kind, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{Kubernetes, Observed, Pod, Workload};
use crate::text::duration::human;

pub(in crate::checks) const SYSTEM: Check = Check {
    id: CheckId::K8sSystem,
    stage: Stage::Nodes,
    summary: "every other workload of kube-system and of the network plugin is available",
    explain: "Reads the DaemonSets, Deployments and StatefulSets of kube-system and of the namespaces of the network plugin. \
Cilium, Antrea, Calico (with and without its operator), Canal, flannel, kube-router, Kube-OVN, Multus, OVN-Kubernetes and Weave \
Net are recognized by their DaemonSets in any namespace. Any other plugin is recognized by the DaemonSet that mounts \
`/opt/cni/bin` of its nodes, or `/etc/cni/net.d` in the host's network. Workloads that k8s.kube-proxy, k8s.dns and k8s.cni check \
are left to them. Workloads with 0 desired pods are ignored.\n\n\
A workload fails if none of its pods is available, or if its rollout has exceeded its deadline (ProgressDeadlineExceeded). It \
also fails if pods are missing and nothing has changed for 5 minutes, or one of them has crashed for so long. Until then, missing \
pods are a warning. Missing DaemonSet pods on nodes that are not ready do not count, nor those on nodes that are not Talos \
machines or are being removed, where the pods of kube-system show that they are missing there.\n\n\
Look at the events and pods of the workload (`kubectl -n kube-system describe deployment NAME`).",
    severity: Severity::Fail,
    requires: &[CheckId::K8sCredentials, CheckId::K8sApiEndpoint, CheckId::K8sApiIdentity],
    after: &[],
    facts: &[
        Fact::TalosNodes,
        Fact::BootstrapManifests,
        Fact::DaemonSets,
        Fact::Deployments,
        Fact::StatefulSets,
        Fact::Pods,
        Fact::KubeNodes,
        Fact::NodeLeases,
    ],
    judge: system,
};

/// A kind of workload, as commands name it.
type Of = (&'static str, fn(&Kubernetes) -> &Observed<Vec<Workload>>, &'static str);

const KINDS: [Of; 3] = [
    ("daemonset", |kubernetes| &kubernetes.daemon_sets, "the DaemonSets of the system"),
    ("deployment", |kubernetes| &kubernetes.deployments, "the Deployments of the system"),
    ("statefulset", |kubernetes| &kubernetes.stateful_sets, "the StatefulSets of the system"),
];

fn system(cluster: &Assessment<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let (mut available, mut listed_at_all) = (0, false);
    for (kind, list, expected) in KINDS {
        let workloads = match listed(cluster, list, expected) {
            Ok(workloads) => workloads,
            Err(outcome) => return Verdict::whole(outcome),
        };
        listed_at_all |= !workloads.is_empty();
        for workload in workloads.iter().filter(|workload| !is_judged_elsewhere(cluster, workload)) {
            let outcome = availability(cluster, kind, workload);
            available += usize::from(matches!(outcome, Outcome::Pass(_)));
            verdict.push(Target::new(Kind::Workload, format!("{}/{}", workload.namespace, workload.name)), outcome);
        }
    }
    if let Some(outcome) = system_pods(cluster).err().filter(|_| !verdict.findings.is_empty()) {
        verdict.push(Target::cluster(), outcome);
    }
    // DaemonSets of all namespaces show where the network plugin is.
    if let Err(outcome) =
        listed(cluster, |kubernetes| &kubernetes.plugin_namespaces, "the DaemonSets of all namespaces")
    {
        verdict.push(Target::cluster(), outcome);
    }
    match (verdict.findings.is_empty(), listed_at_all) {
        // An empty answer says nothing of what there may be.
        (true, false) => return Verdict::skipped("no workload in kube-system"),
        (true, true) => verdict.pass(Target::cluster(), "Other system workloads: none"),
        _ => verdict.sum_up(&format!("Other system workloads: all {available} available")),
    }
    verdict
}

fn availability(cluster: &Assessment<'_>, kind: &str, workload: &Workload) -> Outcome {
    let Workload { desired, available, generation, given_up, unchanged_for, .. } = workload;
    let is_counted = workload.is_observed();
    let missing = usize::try_from(i64::from(*desired) - i64::from(*available)).unwrap_or_default();
    if is_counted && *desired == 0 {
        return Outcome::Skip("0 pods desired".to_owned());
    }
    if is_counted && missing == 0 && given_up.is_none() {
        return Outcome::Pass(None);
    }
    let pods = pods(cluster, kind, workload);
    let unwell: Vec<&Pod> =
        pods.iter().copied().filter(|pod| !is_well(&pod.state) && is_judged(cluster, pod)).collect();
    let uncounted = (!is_counted).then(|| format!("generation {generation} not observed yet"));
    let standing = match (given_up, unchanged_for) {
        (Some(words), _) => Some(format!("rollout stuck: {words}")),
        (None, unchanged) => unchanged.map(|unchanged| format!("unchanged for {}", human(unchanged))),
    };
    let words = [Some(format!("{available} of {desired} pods available")), uncounted, standing];
    let words = words.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let observed = [Some(words), troubles(cluster, &unwell)].into_iter().flatten().collect::<Vec<_>>().join("; ");
    let problem = |severity, reason| {
        Problem { severity, ..Problem::fail(reason, format!("{desired} pods available"), observed.as_str()) }
            .hint(Hint::run("{kubectl} -n {} describe {} {}", [&workload.namespace, kind, &workload.name]))
            .hint(Hint::run("{kubectl} -n {} get pods -o wide", [&workload.namespace]))
    };
    let is_given_up = given_up.is_some() || unwell.iter().any(|pod| is_stuck(cluster, pod));
    let (unjudged, unready) = if kind == "daemonset" && is_counted { absent(cluster, &pods) } else { (0, 0) };
    Outcome::Problem(match missing {
        1.. if missing <= unjudged => return Outcome::Pass(None),
        1.. if missing <= unjudged + unready => {
            problem(Severity::Warn, Reason::WorkloadDegraded).explained_by(CheckId::K8sNodesReady)
        }
        1.. if is_counted && *available <= 0 => problem(Severity::Fail, Reason::WorkloadUnavailable),
        _ => problem(severity_of(is_given_up, &[*unchanged_for]), Reason::WorkloadDegraded),
    })
}

/// The pods of a workload; none outside of kube-system, where pods are not listed.
fn pods<'a>(cluster: &'a Assessment<'_>, kind: &str, workload: &Workload) -> Vec<&'a Pod> {
    // A ReplicaSet has the Deployment's name and a hash.
    let stem = |name: &str| name.rsplit_once('-').is_some_and(|(stem, _)| stem == workload.name);
    let is_its = |pod: &&Pod| match (kind, pod.controller.as_ref().map(|(kind, name)| (kind.as_str(), name))) {
        ("daemonset", Some(("DaemonSet", name))) | ("statefulset", Some(("StatefulSet", name))) => {
            *name == workload.name
        }
        ("deployment", Some(("ReplicaSet", name))) => stem(name),
        // Nobody tells but its name.
        ("daemonset" | "statefulset", None) => stem(&pod.name),
        _ => false,
    };
    let listed = system_pods(cluster).ok().filter(|_| workload.namespace == "kube-system");
    listed.into_iter().flatten().filter(|pod| !pod.deleting).filter(is_its).collect()
}

/// It is on a node that is judged, or on none.
fn is_judged(cluster: &Assessment<'_>, pod: &Pod) -> bool {
    let node = pod.node.as_deref().and_then(|name| cluster.node(name));
    node.is_none_or(|node| passed_over(cluster, node).is_none() && !cluster.is_guest(node))
}

/// How many nodes need no pod of a DaemonSet and may have none, and how many others have none that could be ready. Where its pods do
/// not tell which are missing, those of nodes that Kubernetes calls ready are not.
fn absent(cluster: &Assessment<'_>, pods: &[&Pod]) -> (usize, usize) {
    let (mut unjudged, mut unready) = (0, 0);
    let well = pods.iter().filter(|pod| is_well(&pod.state));
    let served: HashSet<&str> = well.filter_map(|pod| pod.node.as_deref()).collect();
    for node in cluster.nodes.iter().filter(|node| !node.out_of_scope) {
        let Some(object) = cluster.object(node).filter(|object| !served.contains(object.name.as_str())) else {
            continue;
        };
        if passed_over(cluster, node).is_some() || cluster.is_guest(node) {
            unjudged += usize::from(!pods.is_empty() || !says_ready(object));
        } else if !cluster.machine(node).is_ready() {
            unready += 1;
        }
    }
    (unjudged, unready)
}
