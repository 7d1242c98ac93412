//! Helpers that the checks of workloads share.

use super::{restarted_between_rounds, restarted_lately, severity_of};
use crate::assess::workloads::{describe_unready, is_well, refusing_webhook};
use crate::assess::{Assessment, Standing};
use crate::checks::gaps::{listed, says_nothing};
use crate::model::{About, NO_NODE, Outcome, Problem, Reason, Target, Verdict};
use crate::snapshot::{BootstrapManifests, Node, Pod, Workload, has_ended};

/// The workload state that the cluster's configuration requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Yes,
    No,
    /// No control plane has reported its configuration.
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

/// Returns the workload in kube-system with this name, or else with this label. The name takes precedence because add-ons may have the
/// label of the workload that they belong to.
pub(super) fn installed<'a>(workloads: &'a [Workload], name: &str, app: &str) -> Option<&'a Workload> {
    let here = || workloads.iter().filter(|it| it.namespace == "kube-system");
    let is_labeled = |it: &&Workload| it.labels.get("k8s-app").is_some_and(|label| label == app);
    here().find(|it| it.name == name).or_else(|| here().find(is_labeled))
}

/// Returns the pods of kube-system. If they are missing, k8s.staticpods.running is the first check to report it.
pub(super) fn system_pods<'a>(cluster: &'a Assessment<'_>) -> Result<&'a Vec<Pod>, Outcome> {
    let expected = "the pods of kube-system";
    match listed(cluster, |kubernetes| &kubernetes.pods, expected) {
        Ok(pods) if !pods.is_empty() || cluster.system_has_no_pods() => Ok(pods),
        Ok(_) => Err(says_nothing(expected, "an empty list")),
        Err(outcome) => Err(outcome),
    }
}

/// Returns true if the node needs a pod of each DaemonSet that Talos nodes depend on. Other systems have their own.
pub(super) fn needs_pod(node: &Node) -> bool {
    node.is_talos && node.sources.kubernetes
}

/// Reports a rollout that is not complete although enough pods are available: the problem with its new pods, or the reason why there are
/// none. A pod that crashes repeatedly blocks it permanently. `excused` is the number of pods that may be missing.
pub(super) fn unfinished<'a>(
    cluster: &Assessment<'_>,
    workload: &Workload,
    pods: impl FnOnce() -> Vec<&'a Pod>,
    excused: impl FnOnce() -> usize,
    reason: Reason,
) -> Option<Problem> {
    // Without an open rollout, the pods are not needed.
    let rollout = workload.rollout(0).and_then(|_| workload.rollout(excused()));
    let mut unwell = if rollout.is_some() { pods() } else { Vec::new() };
    // A replica belongs to its workload on any machine.
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

/// Returns true if the pod is not working although it has not ended.
pub(super) fn is_amiss(pod: &Pod) -> bool {
    !is_well(&pod.state) && !has_ended(&pod.state.phase)
}

pub(super) fn labeled_pods<'a>(cluster: &'a Assessment<'_>, app: &'static str) -> Vec<&'a Pod> {
    let pods = cluster.list(|kubernetes| &kubernetes.pods);
    pods.into_iter().flatten().filter(|pod| is_labeled(pod, app) && !pod.deleting).collect()
}

/// Returns true if a controller other than a DaemonSet manages the pod, which could therefore run elsewhere.
fn is_replica(pod: &Pod) -> bool {
    pod.controller.as_ref().is_some_and(|(kind, _)| kind != "DaemonSet")
}

/// Returns true if the pod is on a node that is judged, or on none. On a machine with another system, a DaemonSet's pod belongs to that
/// machine, but a replica belongs to its workload wherever it is.
pub(super) fn is_judged(cluster: &Assessment<'_>, pod: &Pod) -> bool {
    let node = cluster.host_of(pod);
    node.is_none_or(|node| match cluster.standing(node) {
        Standing::Judged => true,
        Standing::Guest => is_replica(pod),
        Standing::NotJudged(_) => false,
    })
}

/// Warns about judged pods that restart from time to time.
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
    let by = refused.and_then(|words| refusing_webhook(words)).map(str::to_owned);
    by.map(About::RefusedByWebhook).into_iter().fold(problem, Problem::about)
}

/// Returns the nodes of these pods.
pub(super) fn places<'a>(pods: &[&'a Pod]) -> Vec<&'a str> {
    pods.iter().map(|pod| pod.node.as_deref().unwrap_or(NO_NODE)).collect()
}

/// Returns true if the pod has been crash-looping for too long.
pub(super) fn is_stuck(cluster: &Assessment<'_>, pod: &Pod) -> bool {
    describe_unready(&pod.state, cluster.server_time()).is_some_and(|trouble| trouble.is_stuck)
}

/// Describes the problems of pods, by name and node.
pub(super) fn troubles(cluster: &Assessment<'_>, pods: &[&Pod]) -> Option<String> {
    let trouble = |pod: &&Pod| {
        let words = describe_unready(&pod.state, cluster.server_time())?.words;
        let place = pod.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
        Some(format!("{}{place}: {words}", pod.name))
    };
    let words: Vec<String> = pods.iter().filter_map(trouble).collect();
    (!words.is_empty()).then(|| words.join("; "))
}
