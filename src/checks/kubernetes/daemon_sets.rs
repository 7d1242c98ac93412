//! kube-proxy and flannel, which Talos installs on every node unless its configuration disables them.

use super::system::{uncovered, without_proxy};
use super::workloads::{
    Wanted, installed, is_labeled, labeled_pods, needs_pod, system_pods, unfinished, wanted, warn_of_restarts,
};
use crate::assess::workloads::{STUCK, WorkloadKind, describe_unready, is_well};
use crate::assess::{Assessment, Excuse, Place, Shortfall, UNNOTICED};
use crate::checks::Check;
use crate::checks::gaps::listed;
use crate::model::{CheckId, Fact, Hint, Kind, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{BootstrapManifests, Node, Pod, Workload};

pub(in crate::checks) const KUBE_PROXY: Check = Check {
    id: CheckId::K8sKubeProxy,
    stage: Stage::Nodes,
    summary: "kube-proxy runs on every node where it should",
    explain: "Reads the DaemonSet kube-proxy: its current generation is observed, and all desired pods are available. Without \
kube-proxy a node cannot reach Services, including DNS. The pods themselves count as well: each Talos machine needs one that \
is ready, even if the DaemonSet does not want one there or has not noticed for 30 seconds that it is not ready. During a \
rollout, up to `maxUnavailable` pods may be starting for up to 5 minutes; this is a warning.\n\n\
Skipped where the cluster's configuration disables it, for example because the network plugin replaces it. A DaemonSet with 0 \
desired pods because its controller has not counted the nodes yet does not pass.\n\n\
The report lists the nodes without a ready pod; look at the pods there (`kubectl -n kube-system get pods -l k8s-app=kube-proxy \
-o wide`).",
    severity: Severity::Fail,
    finds: &[Reason::Restarting, Reason::DaemonsetIncomplete, Reason::DaemonsetMissing],
    facts: &[
        Fact::TalosNodes,
        Fact::BootstrapManifests,
        Fact::DaemonSets,
        Fact::Pods,
        Fact::KubeNodes,
        Fact::NodeLeases,
    ],
    judge: |cluster| on_every_node(cluster, &PROXY),
};

pub(in crate::checks) const CNI: Check = Check {
    id: CheckId::K8sCni,
    summary: "the network plugin that Talos installs runs on every node where it should",
    explain: "Where the cluster's configuration has Talos install flannel, reads the DaemonSet kube-flannel: its current \
generation is observed, and all desired pods are available. The pods themselves count as well: each Talos machine needs one that \
is ready. On a node without a flannel pod, new pods get no network and running pods cannot reach other nodes.\n\n\
With any other network plugin the check is skipped: k8s.nodes.ready then shows whether the network is ready.\n\n\
The report lists the nodes without a ready pod; look at the pods there (`kubectl -n kube-system get pods -l k8s-app=flannel -o \
wide`).",
    judge: |cluster| on_every_node(cluster, &FLANNEL),
    ..KUBE_PROXY
};

/// A DaemonSet in kube-system that Talos installs.
struct Installed {
    /// The check that judges it.
    check: CheckId,
    name: &'static str,
    /// Label `k8s-app` of the DaemonSet and of its pods.
    app: &'static str,
    enabled: fn(&BootstrapManifests) -> bool,
    /// The reason to skip the DaemonSet if the configuration disables it.
    disabled: &'static str,
    /// Whether wanting no pods can be deliberate, regardless of the configuration. Calico's documentation disables kube-proxy this way for
    /// its eBPF mode.
    may_want_none: bool,
    pods: Hint,
}

const PROXY: Installed = Installed {
    check: CheckId::K8sKubeProxy,
    name: "kube-proxy",
    app: "kube-proxy",
    enabled: |manifests| manifests.proxy_enabled,
    disabled: "disabled by configuration",
    may_want_none: true,
    pods: Hint::Try {
        command: "{kubectl} -n kube-system get pods -l k8s-app=kube-proxy -o wide",
        arguments: Vec::new(),
    },
};

const FLANNEL: Installed = Installed {
    check: CheckId::K8sCni,
    name: "kube-flannel",
    app: "flannel",
    enabled: |manifests| manifests.flannel_enabled,
    disabled: "another network plugin, or none: see k8s.nodes.ready",
    may_want_none: false,
    pods: Hint::Try { command: "{kubectl} -n kube-system get pods -l k8s-app=flannel -o wide", arguments: Vec::new() },
};

const SETS: &str = "the DaemonSets of kube-system";

fn on_every_node(cluster: &Assessment<'_>, its: &Installed) -> Verdict {
    let sets = match listed(cluster, |kubernetes| &kubernetes.daemon_sets, SETS) {
        Ok(sets) => sets,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let target = Target::new(Kind::Workload, format!("kube-system/{}", its.name));
    let missing = format!("DaemonSet {}", its.name);
    let mut verdict = Verdict::default();
    // A DaemonSet with another name that wants no pods, such as one for Windows nodes, is not the missing one.
    let installed = installed(sets, its.name, its.app).filter(|set| set.name == its.name || set.desired > 0);
    match (wanted(cluster, its.enabled), installed) {
        (Wanted::No, _) => verdict.skip(target, its.disabled),
        (Wanted::NoTalos, None) if !cluster.hosts_of_mirrors(its.name).is_empty() => {
            verdict.skip(target, "a static pod of each node: see k8s.staticpods.running");
        }
        (Wanted::NoTalos, None) => verdict.skip(target, "not found; another component may replace it"),
        (wanted, Some(set)) => {
            coverage(cluster, its, set, &target, &mut verdict);
            // Only Talos machines are known to need a pod each.
            let of_proxy = || without_proxy(cluster, set).filter(|_| its.name == PROXY.name);
            let problem = uncovered(cluster, set).or_else(of_proxy).or_else(|| nowhere(cluster, its, set));
            if wanted == Wanted::NoTalos
                && let Some(problem) = problem
            {
                verdict.problem(target, problem);
            }
        }
        (Wanted::Yes, None) => {
            let problem = Problem::fail(Reason::DaemonsetMissing, missing, "not found")
                .hint(Hint::likely("Talos has not applied its bootstrap manifests yet, or it was deleted"));
            verdict.problem(target, problem.hint(installed_ones()));
        }
        (Wanted::Unknown, None) => {
            let observed = "not found, and no control plane reported whether it is wanted";
            verdict.problem(target, Problem::error(Reason::DaemonsetMissing, missing, observed).hint(installed_ones()));
        }
    }
    warn_of_restarts(cluster, labeled_pods(cluster, its.app), &mut verdict);
    verdict
}

fn installed_ones() -> Hint {
    Hint::run("{kubectl} -n kube-system get daemonsets", [])
}

/// Warns about a DaemonSet that is wanted on no node although nothing replaces it: flannel if no other network plugin works, and kube-proxy if
/// the network plugin is flannel. A node selector that matches nothing can also be deliberate.
fn nowhere(cluster: &Assessment<'_>, its: &Installed, set: &Workload) -> Option<Problem> {
    let has_pods = !cluster.hosts_of_mirrors(its.name).is_empty();
    let is_wanted_nowhere = set.is_observed() && set.desired == 0 && !has_pods;
    let observed = if its.name == FLANNEL.name {
        is_only_network(cluster).then_some("wanted on no node, and no other network plugin is")
    } else {
        flannel_is_alone(cluster).then_some("wanted on no node, and flannel does not replace it")
    };
    observed.filter(|_| is_wanted_nowhere).map(|observed| {
        Problem::warn(Reason::DaemonsetIncomplete, "wanted on every node", observed)
            .hint(Hint::run("{kubectl} -n {} describe daemonset {}", [&set.namespace, &set.name]))
    })
}

/// Returns true if a DaemonSet that the configuration requires is missing.
pub(super) fn some_is_missing(cluster: &Assessment<'_>) -> Result<bool, Outcome> {
    let sets = listed(cluster, |kubernetes| &kubernetes.daemon_sets, SETS)?;
    let is_there = |its: &Installed| installed(sets, its.name, its.app).is_some();
    Ok([PROXY, FLANNEL].iter().any(|its| wanted(cluster, its.enabled) == Wanted::Yes && !is_there(its)))
}

/// Returns true if Talos installs flannel or it exists. flannel routes pods by the podCIDRs of their nodes.
pub(super) fn flannel_is_wanted(cluster: &Assessment<'_>) -> bool {
    let sets = cluster.list(|kubernetes| &kubernetes.daemon_sets);
    let is_there = || {
        sets.is_some_and(|sets| {
            installed(sets, FLANNEL.name, FLANNEL.app).is_some() || sets.iter().any(Workload::is_flannel)
        })
    };
    wanted(cluster, FLANNEL.enabled) == Wanted::Yes || is_there()
}

/// Returns true if no other component than flannel handles the network: flannel does not replace kube-proxy.
fn flannel_is_alone(cluster: &Assessment<'_>) -> bool {
    let sets = cluster.list(|kubernetes| &kubernetes.daemon_sets).map_or(&[][..], Vec::as_slice);
    installed(sets, FLANNEL.name, FLANNEL.app).is_some_and(|set| set.desired > 0) && is_only_network(cluster)
}

/// Returns true if no other network plugin than flannel is wanted on any node.
fn is_only_network(cluster: &Assessment<'_>) -> bool {
    let mut sets = cluster.list(|kubernetes| &kubernetes.daemon_sets).into_iter().flatten();
    !sets.any(|set| set.installs_network && set.desired > 0 && set.name != FLANNEL.name)
}

/// Returns the DaemonSets that these checks judge. A check that `--skip` leaves out judges none.
pub(super) fn judged<'a>(cluster: &'a Assessment<'_>) -> impl Iterator<Item = &'a Workload> {
    let sets = cluster.list(|kubernetes| &kubernetes.daemon_sets);
    let judged = [PROXY, FLANNEL].into_iter().filter(|its| !cluster.asked.skips(its.check));
    let wanted = judged.filter(|its| wanted(cluster, its.enabled) != Wanted::No);
    wanted.filter_map(move |its| installed(sets?, its.name, its.app))
}

fn coverage(cluster: &Assessment<'_>, its: &Installed, set: &Workload, target: &Target, verdict: &mut Verdict) {
    if !set.is_observed() {
        let observed = format!("generation {}, last observed {}", set.generation, set.observed_generation.unwrap_or(0));
        let problem = Problem::fail(Reason::DaemonsetIncomplete, "its current generation is observed", observed)
            .hint(Hint::likely("kube-controller-manager does not work, or has just started"));
        return verdict.problem(target.clone(), problem);
    }
    let may_want_none = its.may_want_none && !flannel_is_alone(cluster);
    if set.desired == 0 && (may_want_none || wanted(cluster, its.enabled) != Wanted::Yes) {
        return verdict.skip(target.clone(), "0 pods desired");
    }
    let line = format!("{}: available on {} of {} nodes", its.name, set.available, set.desired);
    let expected = format!("available on {} nodes", set.desired);
    let short = set.missing();
    let shortfall = match placed(cluster, its, set) {
        Ok(pods) => shortfall(cluster, set, &pods),
        Err(outcome) if short == 0 => return verdict.push(target.clone(), outcome),
        Err(_) => Shortfall { unplaced: short, ..Shortfall::default() },
    };
    let needed: Vec<_> = shortfall.places.iter().filter(|place| place.excuse != Some(Excuse::NotJudged)).collect();
    if shortfall.unplaced == 0 && needed.is_empty() {
        if set.desired == 0 {
            return verdict.skip(target.clone(), "0 pods desired");
        }
        let pods = || labeled_pods(cluster, its.app);
        return match unfinished(cluster, set, pods, || shortfall.places.len(), Reason::DaemonsetIncomplete) {
            Some(problem) => verdict.problem(target.clone(), problem.hint(its.pods.clone())),
            None => verdict.pass(target.clone(), line),
        };
    }
    let rollout = rollout(cluster, set, &shortfall);
    let severity = if rollout.is_some() { Severity::Warn } else { Severity::Fail };
    let unscheduled = labeled_pods(cluster, its.app).into_iter().find(|pod| pod.node.is_none());
    for place in needed {
        let words = [Some(describe(cluster, place, unscheduled)), rollout.clone()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("; ");
        let (expected, observed) = (format!("a ready pod of {}", its.name), format!("{}: {words}", its.name));
        let problem = Problem::fail(Reason::DaemonsetIncomplete, expected, observed);
        let problem = match place.excuse {
            Some(Excuse::Unready) => problem,
            Some(Excuse::NotJudged) | None => Problem { severity, ..problem.hint(its.pods.clone()) },
        };
        verdict.problem(place.node.target(), problem);
    }
    if shortfall.unplaced > 0 {
        // The missing pods may all be on guests.
        let guests = cluster.nodes().iter().filter(|node| cluster.is_guest(node)).count();
        if guests >= short
            && let Err(outcome) = system_pods(cluster)
        {
            return verdict.push(target.clone(), outcome);
        }
        let observed = format!("available on {} of {} nodes", set.available, set.desired);
        let problem = Problem::fail(Reason::DaemonsetIncomplete, expected, observed).hint(its.pods.clone());
        verdict.problem(target.clone(), problem);
    }
}

/// Finds missing pods. Each Talos machine needs a pod, regardless of the DaemonSet's node selection. A node that is not ready is reported
/// as such.
fn shortfall<'a, 'p>(cluster: &Assessment<'a>, set: &Workload, pods: &[&'p Pod]) -> Shortfall<'a, 'p> {
    let short = set.missing();
    // The numbers in the status lag slightly behind the pods.
    let is_new = |pod: &Pod| short == 0 && pod.unready_for.is_some_and(|since| since < UNNOTICED);
    let works = |pod: &Pod| is_well(&pod.state) || is_new(pod);
    let is_ready = |node: &Node| cluster.life_of(node).may_serve();
    cluster.shortfall(set, pods, works, |node| needs_pod(node) && (short > 0 || is_ready(node)))
}

/// Describes the problem in a place where a pod is missing.
fn describe(cluster: &Assessment<'_>, place: &Place<'_, '_>, unscheduled: Option<&Pod>) -> String {
    let words = |pod: &Pod| describe_unready(&pod.state, cluster.server_time()).map(|trouble| trouble.words);
    place.pods.last().and_then(|pod| words(pod)).unwrap_or_else(|| match unscheduled {
        Some(pod) => format!("no pod; {}: {}", pod.name, words(pod).unwrap_or_default()),
        None => "no pod".to_owned(),
    })
}

/// Describes the progress of a rollout that explains the missing pods: at most `maxUnavailable` pods, for no longer than pods take to
/// start.
fn rollout(cluster: &Assessment<'_>, set: &Workload, shortfall: &Shortfall<'_, '_>) -> Option<String> {
    let is_starting = |pod: &&Pod| {
        let trouble = describe_unready(&pod.state, cluster.server_time());
        pod.unready_for.is_some_and(|since| since < STUCK) && trouble.is_none_or(|trouble| !trouble.crash_looping)
    };
    // The controller has deleted the old pod and is creating the new one.
    let is_between = || set.unchanged_for.is_some_and(|since| since < UNNOTICED);
    let is_its = |place: &Place<'_, '_>| {
        let mut staying = place.pods.iter().filter(|pod| !pod.deleting).copied().peekable();
        if staying.peek().is_none() { is_between() } else { staying.all(|pod| is_starting(&pod)) }
    };
    let is_within =
        set.available > 0 && shortfall.unplaced == 0 && shortfall.unexcused().count() <= set.spread.max_unavailable;
    // A new pod counts as updated as soon as it exists, so the numbers are complete at the last step.
    let is_new = |place: &Place<'_, '_>| place.pods.iter().any(|pod| !pod.deleting && is_being_created(pod));
    let is_last_step = || set.generation > 1 && set.updated == Some(set.desired) && shortfall.unexcused().all(is_new);
    let words = set.rollout(0).or_else(|| is_last_step().then(|| "its last pods are starting".to_owned()))?;
    (is_within && shortfall.unexcused().all(is_its)).then_some(words)
}

/// Returns true if the pod is about to start for the first time.
fn is_being_created(pod: &Pod) -> bool {
    let waits = |reason: &str| matches!(reason, "ContainerCreating" | "PodInitializing");
    let mut containers = pod.state.containers.iter();
    pod.state.phase == "Pending" && containers.all(|it| it.waiting_reason.as_deref().is_some_and(waits))
}

/// Returns the pods of a DaemonSet, by their label or their controller.
fn placed<'a>(cluster: &'a Assessment<'_>, its: &Installed, set: &Workload) -> Result<Vec<&'a Pod>, Outcome> {
    let is_its = |pod: &&Pod| is_labeled(pod, its.app) || WorkloadKind::DaemonSet.owns(set, pod);
    Ok(system_pods(cluster)?.iter().filter(is_its).collect())
}
