//! Checks whether each machine can be drained now.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::obstacles::Obstacles;
use super::places::Places;
use super::{bound_pods, each_to_go, is_drained, is_evicted, not_asked, pods_named, some_of};
use crate::assess::{Assessment, Life};
use crate::checks::Check;
use crate::checks::gaps::{listed, unregistered};
use crate::checks::kubernetes::webhooks::{Obstacle, in_the_way_of_evictions, that_would_stop_the_drain};
use crate::model::{CheckId, Fact, Finding, Hint, Kind, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{BoundPod, DisruptionBudget, Node};
use crate::text::duration::human;
use crate::text::some;

pub(in crate::checks) const DRAIN: Check = Check {
    id: CheckId::UpgradeDrain,
    stage: Stage::Upgrade,
    summary: "the pods of each machine to be upgraded or drained can be evicted now",
    explain: "Runs with `--upgrade-talos`, for every machine as the next one, and with `--drain NODE`, for that one. Reads the \
pods and PodDisruptionBudgets of all namespaces and decides as the Kubernetes eviction API would. It fails if a budget that \
allows 0 disruptions selects a pod of the machine (a warning if it is one of KubeVirt's virtual machines, which are moved then), or if two budgets select the same pod. A budget with a status older than \
its spec is an error, because it is unknown what it allows.\n\n\
Pods of DaemonSets, static pods and finished pods are not evicted, so no budget applies to them. A pod that is not ready can \
be evicted if its budget has `unhealthyPodEvictionPolicy: AlwaysAllow`, or if enough others are healthy; one that is pending \
or being deleted, always.\n\n\
It also fails if a pod that is being deleted should have been gone a minute ago, because a drain waits for it. It fails if \
a budget allows fewer disruptions than it has pods on the machine that can run nowhere else, because the last of them could \
never be evicted; if the budget belongs to an operator, which may allow more, this is a warning. It fails if an \
admission webhook for evictions, for the deletion of pods or for new pods fails closed and has no ready backend (a warning if \
labels of namespaces decide whether it applies, because they are not read), or if a webhook that fails closed has all its \
backends on the machine and concerns evictions of other pods there, or new pods of its own, or anything else without which \
these cannot serve again. And it \
fails if the kubelet of the machine that `--drain` names has stopped reporting, because a drain would wait in vain for its pods.\n\n\
`drain-impossible` means that no machine can be drained: etcd accepts no changes because of an alarm or without a leader, no lease is \
renewed, or no kube-controller-manager or kube-scheduler leads and would replace evicted pods. Other checks report this as well; it fails \
here even if they only warn or do not run.\n\n\
It warns about a budget that allows an eviction only because it still counts pods on nodes that do not work: Kubernetes takes \
a minute to notice, and a drain in the meantime leaves fewer pods than the budget requires. It also warns about pods that may \
take longer to stop than `talosctl upgrade` waits, pods that no controller recreates, workloads with all their ready pods on the machine, data in emptyDir volumes \
(which are deleted), and pods that cannot run elsewhere because of a local volume.\n\n\
`talosctl upgrade` drains after the new version was installed, waits for 5 minutes, and then gives up before the reboot. With \
`--wait-timeout`, this check waits before anything is changed: budgets managed by operators usually allow disruptions again \
within minutes.",
    severity: Severity::Fail,
    finds: &[
        Reason::NodeUnknown,
        Reason::NodesContradict,
        Reason::DrainImpossible,
        Reason::WebhookUnavailable,
        Reason::WebhookEvicted,
        Reason::EvictionBlocked,
        Reason::SeveralBudgets,
        Reason::BudgetCountsLost,
        Reason::SlowTermination,
        Reason::UnmanagedPod,
        Reason::LastReplica,
        Reason::LocalData,
        Reason::LocalVolume,
    ],
    facts: &[
        Fact::TalosNodes,
        Fact::Services,
        Fact::EtcdMembership,
        Fact::EtcdAlarms,
        Fact::ComponentConfigs,
        Fact::StaticPods,
        Fact::StaticPodStatuses,
        Fact::KubeNodes,
        Fact::NodeLeases,
        Fact::SystemLeases,
        Fact::Pods,
        Fact::BoundPods,
        Fact::DisruptionBudgets,
        Fact::NodeRoom,
        Fact::PersistentVolumes,
        Fact::StartingPods,
        Fact::PodEvents,
        Fact::ValidatingWebhooks,
        Fact::MutatingWebhooks,
        Fact::WebhookEndpoints,
    ],
    judge: drain,
};

fn drain(cluster: &Assessment<'_>) -> Verdict {
    if !cluster.asked.upgrade.takes_down_machines() {
        return not_asked("--drain");
    }
    let mut verdict = match EvictionState::of(cluster) {
        Ok(evictions) => {
            let fine = |which: &str| format!("{which} can be drained now");
            each_to_go(cluster, fine, |node, verdict| of_machine(cluster, node, &evictions, verdict))
        }
        Err(outcome) => Verdict::whole(outcome),
    };
    let Obstacles { outcomes, resample_after } = Obstacles::of(cluster);
    if !outcomes.is_empty() {
        // No machine can be drained now.
        let sums_up = |it: &Finding| it.target.kind == Kind::Cluster && matches!(it.outcome, Outcome::Pass(_));
        verdict.findings.retain(|finding| !sums_up(finding));
    }
    for outcome in outcomes {
        verdict.push(Target::cluster(), outcome);
    }
    Verdict { resample_after, ..verdict }
}

/// Pods on each node, and the obstacles to their eviction.
struct EvictionState<'a> {
    by_node: HashMap<&'a str, Vec<&'a BoundPod>>,
    budgets: HashMap<&'a str, Vec<&'a DisruptionBudget>>,
    /// Pods that each budget, by its namespace and name, still counts as healthy although their nodes do not work: their number, in total
    /// and by node.
    lost: HashMap<(&'a str, &'a str), Lost<'a>>,
    /// Nodes of the ready pods of each workload: namespace, kind and name.
    ready: HashMap<Workload<'a>, Vec<&'a str>>,
    places: Places<'a>,
}

type Workload<'a> = (&'a str, &'a str, &'a str);

/// A number of pods, in total and by node.
type Lost<'a> = (usize, BTreeMap<&'a str, usize>);

impl<'a> EvictionState<'a> {
    fn of(cluster: &'a Assessment<'_>) -> Result<Self, Outcome> {
        let pods = bound_pods(cluster)?;
        let listed = listed(cluster, |kubernetes| &kubernetes.disruption_budgets, "the PodDisruptionBudgets")?;
        let places = Places::of(cluster, pods.iter().filter(|pod| is_evicted(pod)))?;
        let (by_node, budgets, lost, ready) = (HashMap::new(), HashMap::new(), HashMap::new(), HashMap::new());
        let mut evictions = Self { by_node, budgets, lost, ready, places };
        for budget in listed {
            is_understood(budget)?;
            evictions.budgets.entry(&budget.namespace).or_default().push(budget);
        }
        for pod in pods {
            evictions.by_node.entry(&pod.node).or_default().push(pod);
            if !pod.ready || pod.deleting {
                continue;
            }
            // Pods on a node whose kubelet has just fallen silent are still reported as ready for a while.
            if !cluster.serving_on(Some(&pod.node)).may_be() {
                for budget in evictions.budgets_of(pod) {
                    let (total, by_node) = evictions.lost.entry((&budget.namespace, &budget.name)).or_default();
                    *total += 1;
                    *by_node.entry(&pod.node).or_default() += 1;
                }
            } else if let Some(workload) = workload(pod) {
                evictions.ready.entry(workload).or_default().push(&pod.node);
            }
        }
        Ok(evictions)
    }

    /// Returns how many pods on other nodes the budget counts although these nodes do not work, and the counts of all such nodes.
    fn lost_beside<'s>(
        &'s self,
        budget: &'s DisruptionBudget,
        node: &str,
    ) -> (usize, Option<&'s BTreeMap<&'s str, usize>>) {
        let Some((total, by_node)) = self.lost.get(&(budget.namespace.as_str(), budget.name.as_str())) else {
            return (0, None);
        };
        (total - by_node.get(node).copied().unwrap_or_default(), Some(by_node))
    }

    /// Returns true if the pod has a controller that creates it again and can run on another node while this machine is
    /// away.
    fn comes_back(&self, pod: &'a BoundPod) -> bool {
        pod.controller.is_some() && self.places.runs_elsewhere(pod, &pod.node)
    }

    fn budgets_of(&self, pod: &BoundPod) -> Vec<&'a DisruptionBudget> {
        let all = self.budgets.get(pod.namespace.as_str()).into_iter().flatten();
        all.copied().filter(|budget| selects(budget, pod)).collect()
    }
}

fn workload(pod: &BoundPod) -> Option<Workload<'_>> {
    pod.controller.as_ref().map(|(kind, name)| (pod.namespace.as_str(), kind.as_str(), name.as_str()))
}

/// Returns an error for a selector with an unknown operator, which a newer API server may support.
fn is_understood(budget: &DisruptionBudget) -> Result<(), Outcome> {
    let unknown = budget.selector.iter().flatten().find(|it| it.is_met_by(None).is_none());
    unknown.map_or(Ok(()), |it| {
        let observed = format!("PodDisruptionBudget {}: operator `{}`", name_of(budget), it.operator);
        Err(Outcome::problem(Problem::error(Reason::UnreadableAnswer, "a label selector", observed)))
    })
}

/// Returns true if the budget selects the pod, by Kubernetes' rules: no selector selects nothing, an empty one
/// everything.
fn selects(budget: &DisruptionBudget, pod: &BoundPod) -> bool {
    let is_met = |requirements: &Vec<_>| {
        requirements.iter().all(|it: &crate::snapshot::Requirement| {
            it.is_met_by(pod.labels.get(&it.key).map(String::as_str)) == Some(true)
        })
    };
    budget.selector.as_ref().is_some_and(is_met)
}

/// Returns true if budgets apply to the pod. The API server does not apply them to pods that are not running or are
/// being deleted.
fn is_held_by_budgets(pod: &BoundPod) -> bool {
    !pod.deleting && pod.phase != "Pending"
}

/// The answer of a budget to an eviction.
enum Answer {
    Allowed,
    Refused,
    /// The budget was changed, and its controller has not counted its pods since.
    NotCounted,
}

fn answer(budget: &DisruptionBudget, pod: &BoundPod) -> Answer {
    let is_well = budget.current_healthy >= budget.desired_healthy && budget.desired_healthy > 0;
    if !pod.ready && (budget.always_allows_unready || is_well) {
        Answer::Allowed
    } else if budget.observed_generation < budget.generation {
        Answer::NotCounted
    } else if budget.disruptions_allowed <= 0 {
        Answer::Refused
    } else {
        Answer::Allowed
    }
}

fn of_machine<'a>(cluster: &Assessment<'_>, node: &Node, evictions: &EvictionState<'a>, verdict: &mut Verdict) {
    let Some(object) = cluster.object(node) else { return verdict.push(node.target(), unregistered(node)) };
    let here = || evictions.by_node.get(object.name.as_str()).into_iter().flatten().copied();
    let evicted: Vec<&'a BoundPod> = here().filter(|pod| is_evicted(pod)).collect();
    // Finished pods are deleted as well, and a drain waits until they are gone.
    let stuck = here().filter(|pod| is_drained(pod)).filter_map(stuck);
    let hooks = match refusing_webhooks(cluster, &evicted) {
        Ok(problem) => problem,
        Err(outcome) => return verdict.push(node.target(), outcome),
    };
    // The machine of `--drain` is about to be drained; on other machines a silent kubelet may be tolerated.
    let is_next = cluster.asked.upgrade.drain.is_some() && !evicted.is_empty();
    let silent = (is_next && matches!(cluster.life(&object.name), Life::Silent | Life::Removed))
        .then(|| never_stop(&object.name, &evicted));
    let blocked = budget_problems(&evicted, evictions).into_iter().chain(hooks).chain(stuck).chain(silent);
    let problems: Vec<Problem> = blocked.chain(warnings(&evicted, &object.name, evictions)).collect();
    if problems.is_empty() {
        verdict.ok(node.target());
    }
    for problem in problems {
        verdict.problem(node.target(), problem);
    }
}

/// Reports webhooks that the API server asks about an eviction, or about the deletion or the replacement of a pod. If one does not respond,
/// the request is refused.
fn refusing_webhooks(cluster: &Assessment<'_>, evicted: &[&BoundPod]) -> Result<Option<Problem>, Outcome> {
    let told = |reason, obstacles: &[Obstacle]| {
        let words: Vec<&str> = obstacles.iter().map(|it| it.words.as_str()).collect();
        let problem = Problem::fail(reason, "its pods can be evicted and created again", words.join("; "));
        obstacles.iter().map(|it| it.look.clone()).fold(problem, Problem::hint)
    };
    let dead = in_the_way_of_evictions(cluster, evicted)?;
    if !dead.is_empty() {
        let problem = told(Reason::WebhookUnavailable, &dead);
        let severity = if dead.iter().any(|it| it.is_certain) { Severity::Fail } else { Severity::Warn };
        return Ok(Some(Problem { severity, ..problem }));
    }
    let left = that_would_stop_the_drain(cluster, evicted)?;
    let remedy = Hint::likely("run more replicas, on other machines, or exclude their namespace");
    Ok((!left.is_empty()).then(|| told(Reason::WebhookEvicted, &left).hint(remedy)))
}

fn budget_problems<'a>(evicted: &[&'a BoundPod], evictions: &EvictionState<'a>) -> Vec<Problem> {
    // Problems by the budget's namespace and name.
    let mut refusing: BTreeMap<(&str, &str), (&DisruptionBudget, Vec<&BoundPod>)> = BTreeMap::new();
    let (mut uncounted, mut lasting, mut deceived) = (refusing.clone(), refusing.clone(), refusing.clone());
    let mut several = Vec::new();
    for pod in evicted.iter().filter(|pod| is_held_by_budgets(pod)) {
        let budgets = evictions.budgets_of(pod);
        let [budget] = budgets[..] else {
            if !budgets.is_empty() {
                several.push(several_budgets(pod, &budgets));
            }
            continue;
        };
        let found = |found: &mut BTreeMap<_, (&'a DisruptionBudget, Vec<&'a BoundPod>)>| {
            let key = (budget.namespace.as_str(), budget.name.as_str());
            found.entry(key).or_insert_with(|| (budget, Vec::new())).1.push(pod);
        };
        match answer(budget, pod) {
            Answer::Allowed if pod.ready => {
                // A pod that cannot run elsewhere is a lasting disruption.
                if !evictions.comes_back(pod) {
                    found(&mut lasting);
                }
                if evictions.lost_beside(budget, &pod.node).0 > 0 {
                    found(&mut deceived);
                }
            }
            Answer::Allowed => {}
            Answer::Refused => found(&mut refusing),
            Answer::NotCounted => found(&mut uncounted),
        }
    }
    let refused = refusing.into_values().map(|(budget, pods)| refused(budget, &pods));
    let is_used_up = |(budget, pods): &(&DisruptionBudget, Vec<&BoundPod>)| {
        i32::try_from(pods.len()).is_ok_and(|count| count > budget.disruptions_allowed)
    };
    let used_up = lasting.into_values().filter(is_used_up).map(|(budget, pods)| used_up(budget, &pods));
    let uncounted = uncounted.into_values().map(|(budget, pods)| not_counted(budget, &pods));
    let deceived = deceived.into_values().filter_map(|(budget, pods)| counts_lost_pods(budget, &pods, evictions));
    refused.chain(several).chain(used_up).chain(uncounted).chain(deceived).collect()
}

/// Reports that evicted pods never terminate, because no kubelet is running that would confirm it to the drain.
fn never_stop(node: &str, pods: &[&BoundPod]) -> Problem {
    let observed = format!("its kubelet has stopped reporting, so a drain waits in vain for {}", all_named(pods));
    Problem::fail(Reason::SlowTermination, "pods that are evicted stop in time", observed)
        .hint(Hint::run("{kubectl} describe node {}", [node]))
}

/// Reports a pod that is still terminating, because a drain waits until it is gone.
fn stuck(pod: &BoundPod) -> Option<Problem> {
    let overdue = pod.overdue.filter(|overdue| pod.deleting && *overdue > LATE)?;
    let observed = format!(
        "pod {}/{} is still terminating, and should have stopped {} ago",
        pod.namespace,
        pod.name,
        human(overdue)
    );
    let hint = Hint::run("{kubectl} get pod {} -n {} -o yaml", [pod.name.as_str(), pod.namespace.as_str()]);
    Some(Problem::fail(Reason::SlowTermination, "pods that are being deleted stop in time", observed).hint(hint))
}

/// Maximum number of lost nodes that are named.
const NAMES: usize = 3;
/// Time that a kubelet may need beyond a pod's grace period.
const LATE: Duration = Duration::from_secs(60);
/// Default of `talosctl upgrade --drain-timeout`.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(300);

fn name_of(budget: &DisruptionBudget) -> String {
    format!("{}/{}", budget.namespace, budget.name)
}

fn look_at(budget: &DisruptionBudget) -> Hint {
    let arguments = [budget.name.as_str(), budget.namespace.as_str()];
    Hint::run("{kubectl} describe poddisruptionbudget {} -n {}", arguments)
}

fn refused(budget: &DisruptionBudget, pods: &[&BoundPod]) -> Problem {
    let observed = format!("PodDisruptionBudget {} {}; it selects {}", name_of(budget), why(budget), all_named(pods));
    let problem = Problem::fail(Reason::EvictionBlocked, "its pods can be evicted", observed).hint(look_at(budget));
    let is_machine =
        |pod: &&BoundPod| pod.controller.as_ref().is_some_and(|(kind, _)| kind == "VirtualMachineInstance");
    if pods.iter().all(is_machine) {
        let why = "KubeVirt moves a virtual machine once its pod is to be evicted, and drains wait for that: check whether it can be moved (LiveMigratable)";
        return Problem { severity: Severity::Warn, ..problem }.hint(Hint::likely(why));
    }
    match pods.iter().find(|pod| is_of_operator(pod)) {
        // Longhorn and CloudNativePG are examples.
        Some(pod) => problem
            .hint(Hint::likely(
                "the operator of these pods may open the budget only once the node is cordoned, as a drain does first: cordon it and run this again",
            ))
            .hint(Hint::remedy("{kubectl} cordon {}", [pod.node.as_str()])),
        None => problem,
    }
}

/// Explains why the budget allows no disruption, as far as its status shows.
fn why(budget: &DisruptionBudget) -> String {
    let DisruptionBudget { disruptions_allowed: allowed, current_healthy: healthy, desired_healthy: required, .. } =
        budget;
    match &budget.sync_failed {
        Some(message) => {
            format!("allows {allowed} disruptions because its controller cannot count its pods: {message}")
        }
        // Pods that are being evicted count as healthy until they end.
        None if healthy > required => {
            format!(
                "allows {allowed} disruptions while evictions are under way ({healthy} healthy pods, {required} required)"
            )
        }
        None => format!("allows {allowed} disruptions ({healthy} of {required} required pods are healthy)"),
    }
}

/// Returns true if the pod's owner is not of a kind that Kubernetes itself provides.
fn is_of_operator(pod: &BoundPod) -> bool {
    const OWN: [&str; 5] = ["DaemonSet", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"];
    pod.controller.as_ref().is_some_and(|(kind, _)| !OWN.contains(&kind.as_str()))
}

fn all_named(pods: &[&BoundPod]) -> String {
    pods_named(&pods.iter().map(|pod| pod.name.clone()).collect::<Vec<_>>())
}

fn not_counted(budget: &DisruptionBudget, pods: &[&BoundPod]) -> Problem {
    let DisruptionBudget { generation, observed_generation, .. } = budget;
    let observed = format!(
        "PodDisruptionBudget {} is at generation {generation}, its status at {observed_generation}; it selects {}",
        name_of(budget),
        all_named(pods),
    );
    Problem::error(Reason::BudgetStale, "a status of the current generation", observed).hint(look_at(budget))
}

/// Reports a budget that allows these evictions only because it still counts pods that are lost.
fn counts_lost_pods(budget: &DisruptionBudget, pods: &[&BoundPod], evictions: &EvictionState<'_>) -> Option<Problem> {
    let DisruptionBudget { current_healthy: healthy, desired_healthy: required, .. } = budget;
    let allowed = usize::try_from(budget.disruptions_allowed).unwrap_or_default();
    let node = &pods.first()?.node;
    let (lost, by_node) = evictions.lost_beside(budget, node);
    (lost + pods.len().min(allowed) > allowed).then_some(())?;
    let nodes: Vec<&str> = by_node?.keys().copied().filter(|it| it != node).collect();
    let observed = format!(
        "PodDisruptionBudget {} requires {required} pods and counts {healthy} as healthy, {lost} of them on nodes that do not work: {}; it selects {}",
        name_of(budget),
        some(nodes.iter(), NAMES),
        all_named(pods),
    );
    let hint = Hint::likely(
        "a drain leaves fewer pods than the budget requires: repair these nodes first, or delete their pods",
    );
    let problem = Problem::warn(Reason::BudgetCountsLost, "enough pods of the budget on nodes that work", observed);
    Some(problem.on(nodes.into_iter().take(NAMES)).hint(look_at(budget)).hint(hint))
}

/// Reports a budget that allows each eviction, but never the last one.
fn used_up(budget: &DisruptionBudget, pods: &[&BoundPod]) -> Problem {
    let (name, allowed, count) = (name_of(budget), budget.disruptions_allowed, pods.len());
    let s = if allowed == 1 { "" } else { "s" };
    let observed = format!(
        "PodDisruptionBudget {name} allows {allowed} disruption{s}, but {count} of its pods here cannot run elsewhere: {}",
        all_named(pods),
    );
    let problem = Problem::fail(Reason::EvictionBlocked, "its pods can be evicted", observed).hint(look_at(budget));
    if !budget.is_operated {
        return problem;
    }
    // Rook, for example, replaces the budget of its OSDs once the first one on a machine is down.
    let why = "the operator that has made this budget may open it once the first of these pods is gone";
    Problem { severity: Severity::Warn, ..problem }.hint(Hint::likely(why))
}

/// Reports a pod with several budgets, which the API server never evicts.
fn several_budgets(pod: &BoundPod, budgets: &[&DisruptionBudget]) -> Problem {
    let names: Vec<&str> = budgets.iter().map(|budget| budget.name.as_str()).collect();
    let observed = format!(
        "pod {}/{} is selected by {} PodDisruptionBudgets: {}",
        pod.namespace,
        pod.name,
        names.len(),
        some_of(&names)
    );
    Problem::fail(Reason::SeveralBudgets, "at most one PodDisruptionBudget for each pod", observed)
        .permanent()
        .hint(Hint::run("{kubectl} get poddisruptionbudgets -n {}", [pod.namespace.as_str()]))
}

fn warnings<'a>(evicted: &[&'a BoundPod], node: &str, evictions: &EvictionState<'a>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let named = |wanted: &dyn Fn(&'a BoundPod) -> bool| -> Vec<String> {
        let found = evicted.iter().filter(|pod| !pod.deleting && wanted(pod));
        found.map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect()
    };
    let mut warn = |pods: Vec<String>, reason, expected: &str, what: &str| {
        if !pods.is_empty() {
            let what = what
                .strip_prefix("has ")
                .filter(|_| pods.len() > 1)
                .map_or_else(|| what.to_owned(), |it| format!("have {it}"));
            let observed = format!("{} {what}", pods_named(&pods));
            problems.push(Problem::warn(reason, expected, observed).permanent().hint(Hint::pods_on(node)));
        }
    };
    warn(
        named(&|pod| pod.controller.is_none()),
        Reason::UnmanagedPod,
        "a controller recreates each pod elsewhere",
        "will be deleted and not recreated",
    );
    let is_last = |pod: &BoundPod| {
        let nodes = workload(pod).and_then(|workload| evictions.ready.get(&workload));
        pod.ready && nodes.is_some_and(|nodes| nodes.iter().all(|it| *it == node))
    };
    warn(
        named(&is_last),
        Reason::LastReplica,
        "each workload has a ready pod elsewhere",
        "has no ready replica on another machine",
    );
    warn(
        named(&|pod| pod.grace > DRAIN_TIMEOUT),
        Reason::SlowTermination,
        "pods that stop before a drain gives up (5m by default)",
        "may take longer to stop: terminationGracePeriodSeconds is above 300",
    );
    warn(
        named(&|pod| pod.has_empty_dir),
        Reason::LocalData,
        "no data in emptyDir volumes",
        "has emptyDir volumes, which are deleted",
    );
    warn(
        named(&|pod| evictions.places.is_held_by_volumes(pod, node)),
        Reason::LocalVolume,
        "volumes that are available on other machines",
        "has volumes on the machine itself and cannot run elsewhere",
    );
    problems
}
