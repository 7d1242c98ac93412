//! What the checks of workloads have in common.

use super::{restarted_between_rounds, restarted_lately, severity_of};
use crate::assess::workloads::{describe_unready, is_well};
use crate::assess::{Assessment, Standing};
use crate::checks::gaps::{listed, says_nothing};
use crate::model::{About, NO_NODE, Outcome, Problem, Reason, Target, Verdict};
use crate::snapshot::{BootstrapManifests, Node, Pod, Workload, has_ended};

/// What the cluster's configuration wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Yes,
    No,
    /// No control plane has told.
    Unknown,
    /// Unknown because of `--no-talos`.
    NoTalos,
}

pub(super) fn wanted(cluster: &Assessment<'_>, enabled: fn(&BootstrapManifests) -> bool) -> Wanted {
    if !cluster.asks_talos() {
        return Wanted::NoTalos;
    }
    let mut told = cluster.control_planes().flat_map(|node| &node.talos.bootstrap_manifests).flatten().map(enabled);
    match told.next() {
        None => Wanted::Unknown,
        Some(first) if first || told.any(|enabled| enabled) => Wanted::Yes,
        Some(_) => Wanted::No,
    }
}

/// The workload in kube-system with this name, else with this label: add-ons may carry the label of the workload they belong to.
pub(super) fn installed<'a>(workloads: &'a [Workload], name: &str, app: &str) -> Option<&'a Workload> {
    let here = || workloads.iter().filter(|it| it.namespace == "kube-system");
    let is_labeled = |it: &&Workload| it.labels.get("k8s-app").is_some_and(|label| label == app);
    here().find(|it| it.name == name).or_else(|| here().find(is_labeled))
}

/// Evidence like any other, which k8s.staticpods.running tells of first if it is missing.
pub(super) fn system_pods<'a>(cluster: &'a Assessment<'_>) -> Result<&'a Vec<Pod>, Outcome> {
    let expected = "the pods of kube-system";
    match listed(cluster, |kubernetes| &kubernetes.pods, expected) {
        Ok(pods) if !pods.is_empty() || cluster.system_has_no_pods() => Ok(pods),
        Ok(_) => Err(says_nothing(expected, "an empty list")),
        Err(outcome) => Err(outcome),
    }
}

/// Whether the node needs a pod of each DaemonSet that Talos nodes depend on. Other systems have their own.
pub(super) fn needs_pod(node: &Node) -> bool {
    node.is_talos && node.sources.kubernetes
}

/// A rollout that is not complete, although enough pods are available: what is wrong with its new pods, or why there are none. One
/// that crashes again and again holds it up for good. `excused`: so many of its pods may be missing.
pub(super) fn unfinished<'a>(
    cluster: &Assessment<'_>,
    workload: &Workload,
    pods: impl FnOnce() -> Vec<&'a Pod>,
    excused: impl FnOnce() -> usize,
    reason: Reason,
) -> Option<Problem> {
    // Nobody looks for the pods of a rollout that is complete.
    let rollout = workload.rollout(0).and_then(|_| workload.rollout(excused()));
    let mut unwell = if rollout.is_some() { pods() } else { Vec::new() };
    // A replica is the workload's on whatever machine it is.
    unwell.retain(|pod| is_amiss(pod) && (is_replica(pod) || is_judged(cluster, pod)));
    let words = [rollout, troubles(cluster, &unwell), workload.refusal()];
    let words: Vec<String> = words.into_iter().flatten().collect();
    if words.is_empty() {
        return None;
    }
    let severity = severity_of(unwell.iter().any(|pod| is_stuck(cluster, pod)), &[]);
    let problem = Problem { severity, ..Problem::fail(reason, "all pods of its newest template", words.join("; ")) };
    Some(with_refusal(problem.on(places(&unwell)), Some(workload)))
}

/// Whether the pod is not working although it has not ended.
pub(super) fn is_amiss(pod: &Pod) -> bool {
    !is_well(&pod.state) && !has_ended(&pod.state.phase)
}

pub(super) fn labeled_pods<'a>(cluster: &'a Assessment<'_>, app: &'static str) -> Vec<&'a Pod> {
    let pods = cluster.list(|kubernetes| &kubernetes.pods);
    pods.into_iter().flatten().filter(|pod| is_labeled(pod, app) && !pod.deleting).collect()
}

/// Whether something else than a DaemonSet controls the pod, and could have it elsewhere.
fn is_replica(pod: &Pod) -> bool {
    pod.controller.as_ref().is_some_and(|(kind, _)| kind != "DaemonSet")
}

/// Whether the pod is on a node that is judged, or on none. On a machine of another system, a DaemonSet's pod belongs to that
/// machine, but a replica belongs to its workload wherever it is.
pub(super) fn is_judged(cluster: &Assessment<'_>, pod: &Pod) -> bool {
    let node = cluster.host_of(pod);
    node.is_none_or(|node| match cluster.standing(node) {
        Standing::Judged => true,
        Standing::Guest => is_replica(pod),
        Standing::NotJudged(_) => false,
    })
}

/// Names the pods that restart from time to time, of those that are judged.
pub(super) fn warn_of_restarts<'a>(
    cluster: &Assessment<'_>,
    pods: impl IntoIterator<Item = &'a Pod>,
    verdict: &mut Verdict,
) {
    for pod in pods.into_iter().filter(|pod| is_judged(cluster, pod)) {
        let problem = restarted_between_rounds(cluster, &pod.name).or_else(|| restarted_lately(cluster, pod));
        if let Some(problem) = problem {
            verdict.problem(Target::pod(pod.name.as_str(), pod.node.as_deref()), problem);
        }
    }
}

pub(super) fn is_labeled(pod: &Pod, app: &str) -> bool {
    pod.labels.get("k8s-app").is_some_and(|label| label == app)
}

/// Notes that an admission webhook keeps the workload's pods from being created.
pub(super) fn with_refusal(problem: Problem, workload: Option<&Workload>) -> Problem {
    let refused = workload.and_then(|it| it.refused.as_ref());
    let is_by_webhook = refused.is_some_and(|words| words.contains("failed calling webhook"));
    if is_by_webhook { problem.about(About::RefusedByWebhook) } else { problem }
}

/// Where these pods are.
pub(super) fn places<'a>(pods: &[&'a Pod]) -> Vec<&'a str> {
    pods.iter().map(|pod| pod.node.as_deref().unwrap_or(NO_NODE)).collect()
}

/// Whether the pod has been crash-looping for too long.
pub(super) fn is_stuck(cluster: &Assessment<'_>, pod: &Pod) -> bool {
    describe_unready(&pod.state, cluster.server_time()).is_some_and(|trouble| trouble.is_stuck)
}

/// What is wrong with pods, by name.
pub(super) fn troubles(cluster: &Assessment<'_>, pods: &[&Pod]) -> Option<String> {
    let words: Vec<String> = pods
        .iter()
        .filter_map(|pod| Some(format!("{}: {}", pod.name, describe_unready(&pod.state, cluster.server_time())?.words)))
        .collect();
    (!words.is_empty()).then(|| words.join("; "))
}
