//! Checks whether nodes start the pods that are assigned to them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use super::attaching::{cannot_attach, is_about_volumes};
use super::nodes::each_object_of;
use super::pulling::cannot_pull;
use super::severity_of;
use crate::assess::components::Component;
use crate::assess::workloads::STUCK;
use crate::assess::{Assessment, Life};
use crate::checks::Check;
use crate::checks::gaps::{as_unseen, listed, unseen};
use crate::checks::scope::{GUEST, is_narrowed};
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{KubeNode, Node, PodEvent, StartingPod};
use crate::text::duration::human;
use crate::text::some;

pub(in crate::checks) const STARTING: Check = Check {
    id: CheckId::K8sPodsStarting,
    stage: Stage::Nodes,
    summary: "every ready node starts its pods",
    explain: "Reads the pods that are bound to a node and still Pending, and the events about sandboxes that could not be created. \
Without a sandbox (the pod's network namespace), no container can start. If a pod on a Ready node has waited for its sandbox for \
60 seconds, its newest event decides. `FailedCreatePodSandBox` means that the node cannot create the sandbox, usually because of a \
broken network plugin or container runtime. A single pod that waits for something of its own, such as a volume, a device, a missing \
Secret or an image, is not checked here.\n\n\
Several such pods point to the node. If at least 2 pods on one node have waited 5 minutes for volumes that a storage driver \
attaches or mounts, and their events report it, it is a failure in three cases: the driver has not registered there, volumes \
of the \
same driver are attached on other nodes, or the pods belong to different workloads. A volume that is attached elsewhere \
(Multi-Attach), one that no longer exists, and Secrets or ConfigMaps do not count. If at least 5 pods of 2 workloads have waited 5 \
minutes for images that run on other nodes, it is a warning.\n\n\
A pod that was running before its machine rebooted stays in phase Running without a sandbox. An event names it, and either its \
condition `PodReadyToStartContainers` is False, or the event is newer than its last container.\n\n\
A node may be Ready and still be unable to start pods: running pods keep running, but no new pod starts there. A common cause \
is a Node that was deleted and registered again: it has a new podCIDR, but the bridge of the network plugin keeps its old \
address.\n\n\
A pod that has waited for 5 minutes without being considered by a scheduler (it has no condition `PodScheduled`) fails, too: \
the scheduler that leads does nothing, or has no profile `default-scheduler`. Where no scheduler has a lease, as on a single k3s \
server, one minute is enough. If it has considered a younger pod, this is a \
warning. Pods with scheduling gates, with device claims or of other schedulers are left out.\n\n\
If another pod on the same node got its sandbox in the meantime, the problem is the waiting pod's own (for example a \
RuntimeClass that the node does not have), and only a warning.\n\n\
Without events, the check is undetermined: no other list shows the pods that lost their sandbox. The status of a Pending pod \
decides where it can: a pod without volumes of its own that has waited for 5 minutes fails. The same applies to a pod without any \
event.",
    severity: Severity::Fail,
    finds: &[Reason::PodsCannotStart, Reason::PodsNotScheduled, Reason::NodeCannotAttach, Reason::NodeCannotPull],
    facts: &[
        Fact::TalosNodes,
        Fact::StartingPods,
        Fact::CsiNodes,
        Fact::AttachedVolumes,
        Fact::PodEvents,
        Fact::KubeNodes,
        Fact::NodeLeases,
        Fact::SystemLeases,
    ],
    judge: starting,
};

const EXPECTED: &str = "pods get their sandbox within 60s";
const EVENTS: &str = "the events of pods";

/// Error text of the CNI plugin `bridge`, to which flannel delegates.
const OTHER_CIDR: &str = "already has an IP address different from";

/// Maximum number of pods that are named.
const NAMED: usize = 3;

/// Responsibility for a pod without a sandbox: the node's or the pod's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The network plugin or the container runtime does not give the pod a sandbox.
    Node,
    /// The pod is waiting for a volume.
    Volume,
    /// The pod is waiting for a device of its own (DRA), which is prepared before the sandbox.
    Device,
    /// The pod is waiting for its image, which is pulled after the sandbox is created, and reported before the pull is complete.
    Image,
}

/// Cause of the wait, by the kubelet's own event reasons.
fn cause(event: &PodEvent) -> Option<Cause> {
    match event.reason.as_str() {
        "FailedCreatePodSandBox" | "FailedPodSandBoxStatus" | "SandboxChanged" | "NetworkNotReady" | "FailedSync" => {
            Some(Cause::Node)
        }
        reason if is_about_volumes(reason) => Some(Cause::Volume),
        "FailedPrepareDynamicResources" => Some(Cause::Device),
        "Pulling" | "Failed" | "ErrImageNeverPull" => Some(Cause::Image),
        _ => None,
    }
}

fn starting(cluster: &Assessment<'_>) -> Verdict {
    let pods = match listed(cluster, |kubernetes| &kubernetes.starting_pods, "the pods that are starting") {
        Ok(pods) => pods,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut of_node: HashMap<&str, Vec<&StartingPod>> = HashMap::new();
    let mut ignored = Vec::new();
    for pod in pods.iter().filter(|pod| pod.is_late()) {
        match pod.node.as_deref() {
            Some(node) => of_node.entry(node).or_default().push(pod),
            None => ignored.push(pod),
        }
    }
    // If no pod waits, nothing depends on the limit.
    let limit = if ignored.is_empty() { Ok(STUCK) } else { scheduler_limit(cluster) };
    ignored.retain(|pod| pod.has_waited(*limit.as_ref().unwrap_or(&STUCK)));
    let mut verdict = each_object_of(cluster, |node, object| {
        on_node(cluster, node, object, of_node.get(object.name.as_str()).map_or(&[], Vec::as_slice))
    });
    let limit = limit.unwrap_or_else(|outcome| {
        verdict.push(Target::cluster(), outcome);
        STUCK
    });
    if let Err(outcome) = listed(cluster, |kubernetes| &kubernetes.pod_events, EVENTS) {
        verdict.push(Target::cluster(), outcome);
    }
    for words in left_out(cluster, pods, &verdict) {
        verdict.leave_out(words);
    }
    if let Some(problem) = unscheduled(cluster, pods, &ignored, limit) {
        verdict.problem(Target::cluster(), problem);
    }
    verdict.sum_up(if is_narrowed(cluster) { "Pods start on all nodes of --nodes" } else { "Pods start on all nodes" });
    verdict
}

/// Returns the nodes on which no pod gets a sandbox, whoever judges them.
pub(super) fn without_sandboxes<'a>(cluster: &'a Assessment<'_>) -> Result<HashSet<&'a str>, Outcome> {
    let pods = listed(cluster, |kubernetes| &kubernetes.starting_pods, "the pods that are starting");
    let pods = pods.map_err(as_unseen)?;
    listed(cluster, |kubernetes| &kubernetes.pod_events, EVENTS).map_err(as_unseen)?;
    let mut nodes = HashSet::new();
    for pod in pods.iter().filter(|pod| pod.is_late()) {
        let Some((node, (problem, _))) = pod.node.as_deref().zip(problem_of(cluster, pod)) else { continue };
        match problem.severity {
            Severity::Warn => {}
            Severity::Error => return Err(Outcome::problem(problem.unseen())),
            Severity::Fail => _ = nodes.insert(node),
        }
    }
    Ok(nodes)
}

/// Lists pods that have been waiting for a long time, for reasons that no rule attributes to the cluster, by what they wait for.
fn left_out(cluster: &Assessment<'_>, pods: &[StartingPod], verdict: &Verdict) -> Vec<String> {
    let reported: HashSet<(&str, Reason)> =
        verdict.problems().map(|(target, problem)| (target.name.as_str(), problem.reason)).collect();
    let is_reported = |node: &str, reason: Reason| {
        cluster.machine_of(node).is_some_and(|machine| reported.contains(&(machine.name.as_str(), reason)))
    };
    let works = |node: &str| {
        let is_ours = cluster.machine_of(node).is_some_and(|machine| !cluster.is_guest(machine));
        is_ours && cluster.life(node) == Life::Works
    };
    let is_own = |pod: &&StartingPod| {
        let is_left = |node: &str| works(node) && !is_reported(node, Reason::NodeCannotAttach);
        pod.is_late() && pod.node.as_deref().is_some_and(is_left) && problem_of(cluster, pod).is_none()
    };
    let waiting: BTreeSet<String> = pods.iter().filter(is_own).map(full_name).collect();
    let kubernetes = || cluster.own_kubernetes.into_iter();
    let pulling = kubernetes().flat_map(|it| &it.pulling_pods).filter(|pod| pod.is_late() && works(&pod.node));
    let pulling = pulling.filter(|pod| !is_reported(&pod.node, Reason::NodeCannotPull));
    let pulling = pulling.map(|pod| format!("{}/{}", pod.namespace, pod.name));
    // `k8s.system` judges the system's own pods.
    let unplaced = kubernetes().flat_map(|it| &it.unplaced_pods);
    let unplaced = unplaced.filter(|pod| pod.waiting_for.is_some_and(|waiting| waiting >= STUCK));
    let unplaced = unplaced.filter(|pod| pod.namespace != "kube-system");
    let unplaced = unplaced.map(|pod| format!("{}/{} ({})", pod.namespace, pod.name, pod.why));
    let kinds = [
        ("pods that wait for a volume, a device, a Secret or an image of their own", waiting),
        ("pods that wait for an image", pulling.collect()),
        ("pods without a node", unplaced.collect()),
    ];
    let line = |(what, pods): (&str, BTreeSet<String>)| format!("{what}: {}", some(pods.into_iter(), NAMED));
    kinds.into_iter().filter(|(_, pods)| !pods.is_empty()).map(line).collect()
}

/// Reports pods that no scheduler has considered. If Kubernetes' own scheduler has considered a younger pod, a scheduler is running, but it
/// is slow or ignores these pods.
fn unscheduled(
    cluster: &Assessment<'_>,
    pods: &[StartingPod],
    ignored: &[&StartingPod],
    limit: Duration,
) -> Option<Problem> {
    let first = ignored.iter().max_by_key(|pod| pod.waiting_for)?;
    let created = first.waiting_for.and_then(|waiting| cluster.server_time().checked_sub(waiting).ok());
    let is_bound_later =
        |pod: &StartingPod| pod.by_default_scheduler && pod.node.is_some() && pod.waiting_for < first.waiting_for;
    let events = cluster.list(|kubernetes| &kubernetes.pod_events).into_iter().flatten();
    let is_later = |event: &PodEvent| event.reason == "FailedScheduling" && event.at > created;
    let is_alive = created.is_some() && (pods.iter().any(is_bound_later) || events.into_iter().any(is_later));
    let named = some(ignored.iter().map(|pod| full_name(pod)), NAMED);
    let waits = first.waiting_for.map_or_else(|| "waits".to_owned(), |since| format!("has waited {}", human(since)));
    let observed = format!("no scheduler has considered {named}; {} {waits}", full_name(first));
    let expected = format!("a scheduler considers every pod within {}", human(limit));
    let severity = if is_alive { Severity::Warn } else { Severity::Fail };
    let problem = Problem { severity, ..Problem::fail(Reason::PodsNotScheduled, expected, observed) }
        .hint(Hint::likely("the schedulers hang, or their configuration has no profile `default-scheduler`"))
        .hint(Hint::run("{kubectl} -n {} describe pod {}", [&first.namespace, &first.name]));
    // Elsewhere, the scheduler may be a process of its machine, and its pods may have other labels.
    let logs = || Hint::run("{kubectl} -n kube-system logs -l k8s-app=kube-scheduler --tail=50", []);
    Some(if cluster.asks_talos() { problem.hint(logs()) } else { problem })
}

/// Returns how long a pod may wait for a scheduler. A scheduler may have thousands of pods to place first; but if no lease shows that one
/// works, as on a single k3s server, the pods are the only evidence.
fn scheduler_limit(cluster: &Assessment<'_>) -> Result<Duration, Outcome> {
    // Elsewhere, `k8s.controlplane.leases` shows whether a scheduler works.
    if cluster.asks_talos() {
        return Ok(STUCK);
    }
    listed(cluster, |kubernetes| &kubernetes.system_leases, "the lease of the scheduler")?;
    let is_elected = cluster.election(Component::Scheduler).is_some();
    Ok(if is_elected { STUCK } else { Duration::from_secs(60) })
}

fn on_node(cluster: &Assessment<'_>, node: &Node, object: &KubeNode, late: &[&StartingPod]) -> Vec<Outcome> {
    if cluster.is_guest(node) {
        return vec![Outcome::Skip(GUEST.to_owned())];
    }
    // A machine that is down only according to Talos is judged by the pods that wait on it.
    if !matches!(cluster.life(&object.name), Life::Works | Life::Down) {
        return vec![unseen(Reason::NodeNotReady, EXPECTED, "the node is not ready")];
    }
    let events = cluster.list(|kubernetes| &kubernetes.pod_events).map_or(&[][..], Vec::as_slice);
    let of_volumes = |pod: &StartingPod| match newest(events, pod).and_then(cause) {
        Some(Cause::Volume) => of_pod(events, pod).filter(|event| is_about_volumes(&event.reason)).collect(),
        _ => Vec::new(),
    };
    let waits = [cannot_attach(cluster, &object.name, late, of_volumes), cannot_pull(cluster, &object.name)];
    let problems = cannot_start(cluster, object, late).into_iter().chain(waits.into_iter().flatten());
    problems.map(Outcome::problem).collect()
}

/// Describes the problem with the sandboxes of these pods.
fn cannot_start(cluster: &Assessment<'_>, object: &KubeNode, late: &[&StartingPod]) -> Option<Problem> {
    let mut waiting: Vec<(Problem, &StartingPod)> = late.iter().filter_map(|pod| problem_of(cluster, pod)).collect();
    // The worst problem comes first, then the pod that has been waiting longest.
    waiting.sort_by_key(|(problem, pod)| std::cmp::Reverse((problem.severity, pod.waiting_for)));
    let named = some(waiting.iter().map(|(_, pod)| full_name(pod)), NAMED);
    let several = waiting.len() > 1;
    let (mut problem, first) = waiting.into_iter().next()?;
    let of_several = if several { format!("pods without a sandbox: {named}; ") } else { String::new() };
    if problem.observed.contains(OTHER_CIDR) {
        problem = problem.hint(Hint::likely(
            "the Node was registered again and has a new podCIDR, but the bridge cni0 keeps its old address: drain it and reboot",
        ));
    }
    problem.observed = format!("{of_several}{}", problem.observed);
    let describe = Hint::run("{kubectl} -n {} describe pod {}", [&first.namespace, &first.name]);
    Some(problem.hint(describe).hint(Hint::pods_on(&object.name)))
}

fn full_name(pod: &StartingPod) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

/// Returns the problem of a waiting pod; `None` if the pod itself is the reason.
fn problem_of<'a>(cluster: &Assessment<'_>, pod: &'a StartingPod) -> Option<(Problem, &'a StartingPod)> {
    let since = pod.waiting_for.map_or_else(
        || " waits for its sandbox".to_owned(),
        |since| format!(" has waited {} for its sandbox", human(since)),
    );
    let of = |severity, words: &str| {
        let observed = format!("{}{since}: {words}", full_name(pod));
        let observed = match &pod.overtaken_by {
            Some(other) => format!("{observed} ({other} got its sandbox there later)"),
            None => observed,
        };
        Problem { severity, ..Problem::fail(Reason::PodsCannotStart, EXPECTED, observed) }
    };
    // A failure of a single pod is not the node's fault.
    let fails = if pod.overtaken_by.is_some() { Severity::Warn } else { Severity::Fail };
    let events = match listed(cluster, |kubernetes| &kubernetes.pod_events, EVENTS) {
        Ok(events) => events,
        // A pod may wait for minutes for a volume or a large image, which looks the same. A pod that needs neither has been waiting for too
        // long.
        Err(_) if pod.overtaken_by.is_some() || !pod.has_own_volumes && is_stuck(pod) => {
            return Some((of(fails, &pod.says), pod));
        }
        Err(Outcome::Problem(missing)) => {
            let observed = format!("{}{since}: {}; {}", full_name(pod), pod.says, missing.observed);
            return Some((Problem { observed, ..*missing }, pod));
        }
        Err(_) => return None,
    };
    let newest = newest(events, pod);
    match newest.and_then(|event| Some((cause(event)?, event))) {
        Some((Cause::Image | Cause::Device, _)) => None,
        Some((Cause::Volume, _)) if pod.has_own_volumes => None,
        Some((_, event)) => Some((of(fails, &format!("{}: {}", event.reason, event.message)), pod)),
        None => {
            let severity = match severity_of(false, &[pod.waiting_for]) {
                // A failing sandbox causes an event at each attempt, while the only event of a volume that cannot be attached may have
                // expired.
                Severity::Fail if pod.has_own_volumes && is_older_than_events(pod) => Severity::Warn,
                Severity::Fail if pod.has_own_volumes => Severity::Error,
                severity => severity,
            };
            Some((of(severity.min(fails), &format!("{}; no event explains why", pod.says)), pod))
        }
    }
}

/// Returns true if the pod has been waiting for longer than an hour, for which API servers keep events.
fn is_older_than_events(pod: &StartingPod) -> bool {
    pod.waiting_for.is_some_and(|waiting| waiting >= Duration::from_secs(3600))
}

fn is_stuck(pod: &StartingPod) -> bool {
    pod.waiting_for.is_some_and(|waiting| waiting >= STUCK)
}

/// Returns the newest event about the start of this pod since it lost its previous sandbox.
fn newest<'a>(events: &'a [PodEvent], pod: &StartingPod) -> Option<&'a PodEvent> {
    of_pod(events, pod).filter(|event| cause(event).is_some()).max_by_key(|event| event.at)
}

fn of_pod<'a>(events: &'a [PodEvent], pod: &StartingPod) -> impl Iterator<Item = &'a PodEvent> {
    events.iter().filter(|event| event.is_of(pod) && (event.at.is_none() || event.at >= pod.lost_at))
}
