//! Other workloads in kube-system and in the network plugin's namespace.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::severity_of;
use super::workloads::{
    is_amiss, is_judged, is_stuck, needs_pod, places, system_pods, troubles, unfinished, warn_of_restarts, with_refusal,
};
use super::{daemon_sets, dns};
use crate::assess::workloads::{WorkloadKind, describe_unready, is_well, workload_of};
use crate::assess::{Assessment, Excuse, Life, Shortfall, UNNOTICED, takes_when_ready};
use crate::checks::Check;
use crate::checks::gaps::listed;
use crate::model::{CheckId, Fact, Hint, Kind, NO_NODE, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{KubeNode, Kubernetes, Node, Observed, Pod, Workload, has_ended};
use crate::text::duration::human;
use crate::text::some;

pub(in crate::checks) const SYSTEM: Check = Check {
    id: CheckId::K8sSystem,
    stage: Stage::Nodes,
    summary: "the other workloads of kube-system, the network plugin and CSI drivers are available",
    explain: "Reads the DaemonSets, Deployments and StatefulSets of kube-system and of the namespaces of the \
network plugin. Cilium, Antrea, Calico (with and without its operator), Canal, flannel, kube-router, Kube-OVN, \
Multus, OVN-Kubernetes and Weave Net are recognized by their DaemonSets in any namespace. Any other plugin is \
recognized by the DaemonSet that mounts `/opt/cni/bin` of its nodes, or `/etc/cni/net.d` in the host's network. \
DaemonSets that mount a folder `plugins_registry` of their nodes count in any namespace, too: through it, CSI and DRA drivers \
register with the kubelet, and without its driver a node cannot mount volumes. \
With --no-talos, workloads with the priority class `system-cluster-critical` or `system-node-critical` count in any namespace; outside \
of those above, they fail only if none of their pods is available. \
Workloads that k8s.kube-proxy, k8s.dns and k8s.cni check are left to them, unless `--skip` leaves these out. Workloads with 0 desired pods are \
ignored.\n\n\
A workload fails if none of its pods is available, or if its rollout has exceeded its deadline \
(ProgressDeadlineExceeded). It also fails if pods are missing and nothing has changed for 5 minutes, or one of them has been \
crashing for that long. Until then, missing pods are a warning; so are those that were on nodes that are \
not ready, if others are available, and pods without a node of a Deployment that has one on each machine. Pods \
that have not been ready for 30 seconds are missing, no matter what the workload's status reports, and so are those on nodes \
that have \
stopped reporting or no longer exist. While enough pods are available, a rollout that is not complete is a warning (if \
one of its new pods crashes again and again, it fails), and so are pods that cannot be created, and pods that \
restart. Missing DaemonSet pods on nodes that are not ready do not count, nor those on nodes that are not Talos \
machines or are being removed. The nodes without a pod are found by comparing the DaemonSet's pods with the nodes that its nodeSelector, \
node affinity and tolerations allow, if their number matches its status. A missing pod that cannot be attributed to a node \
counts. If a workload is missing from the list of its kind, only its pods are checked.\n\n\
The DaemonSets of a known network plugin also fail if they want fewer pods than there are Talos machines: a \
machine without one cannot give new pods a network.\n\n\
Look at the events and pods of the workload (`kubectl -n kube-system describe deployment NAME`).",
    severity: Severity::Fail,
    finds: &[Reason::Restarting, Reason::DaemonsetIncomplete, Reason::WorkloadUnavailable, Reason::WorkloadDegraded],
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

const SYSTEM_NAMESPACE: &str = "kube-system";

/// Maximum number of machines that are named.
const NAMES: usize = 5;

/// A kind of workload and its list.
type Of = (WorkloadKind, fn(&Kubernetes) -> &Observed<Vec<Workload>>, &'static str);

const KINDS: [Of; 3] = [
    (WorkloadKind::DaemonSet, |kubernetes| &kubernetes.daemon_sets, "the DaemonSets of the system"),
    (WorkloadKind::Deployment, |kubernetes| &kubernetes.deployments, "the Deployments of the system"),
    (WorkloadKind::StatefulSet, |kubernetes| &kubernetes.stateful_sets, "the StatefulSets of the system"),
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
        for (name, pods) in unlisted(cluster, kind, workloads) {
            verdict.push(target(SYSTEM_NAMESPACE, name), by_its_pods(cluster, &pods));
        }
        for workload in workloads.iter().filter(|workload| !is_judged_elsewhere(cluster, workload)) {
            let pods = pods(cluster, kind, workload);
            let outcome = availability(cluster, kind, workload, &pods);
            let outcome =
                if is_known_by_class_alone(cluster, workload) { softened(outcome, workload) } else { outcome };
            let target = target(&workload.namespace, &workload.name);
            match uncovered(cluster, workload) {
                Some(problem) => verdict.problem(target.clone(), problem),
                None => available += usize::from(matches!(outcome, Outcome::Pass(_))),
            }
            if let Outcome::Skip(why) = &outcome
                && workload.desired > 0
            {
                verdict.leave_out(format!("{target}: {why}"));
            }
            verdict.push(target, outcome);
            warn_of_restarts(cluster, pods, &mut verdict);
        }
    }
    if let Some(outcome) = system_pods(cluster).err().filter(|_| !verdict.findings.is_empty()) {
        verdict.push(Target::cluster(), outcome);
    }
    // DaemonSets of all namespaces show in which namespace the network plugin is.
    if let Err(outcome) =
        listed(cluster, |kubernetes| &kubernetes.plugin_namespaces, "the DaemonSets of all namespaces")
    {
        verdict.push(Target::cluster(), outcome);
    }
    match (verdict.findings.is_empty(), listed_at_all) {
        // An empty list does not show that there are no such workloads.
        (true, false) => return Verdict::skipped("no workload in kube-system"),
        (true, true) => verdict.pass(Target::cluster(), "Other system workloads: none"),
        _ => verdict.sum_up(&format!("Other system workloads: all {available} available")),
    }
    verdict
}

/// Returns true if only the priority class of its pods shows that the cluster needs this workload.
fn is_known_by_class_alone(cluster: &Assessment<'_>, workload: &Workload) -> bool {
    let Workload { namespace, is_critical, installs_network, registers_driver, .. } = workload;
    let is_of_system = |namespaces: &Vec<String>| namespaces.contains(namespace);
    *is_critical
        && !(*installs_network || *registers_driver || namespace == SYSTEM_NAMESPACE)
        && !cluster.list(|kubernetes| &kubernetes.plugin_namespaces).is_some_and(is_of_system)
}

/// Turns a problem into a warning if some pods are available. Agents are often installed with the system's priority classes, so a single
/// pod that does not work is only a warning.
fn softened(outcome: Outcome, workload: &Workload) -> Outcome {
    match outcome {
        Outcome::Problem(problem) if workload.available > 0 => {
            Outcome::problem(Problem { severity: Severity::Warn, ..*problem })
        }
        outcome => outcome,
    }
}

fn target(namespace: &str, name: &str) -> Target {
    Target::new(Kind::Workload, format!("{namespace}/{name}"))
}

fn availability(cluster: &Assessment<'_>, kind: WorkloadKind, workload: &Workload, pods: &[&Pod]) -> Outcome {
    let Workload { desired, generation, given_up, unchanged_for, .. } = workload;
    let is_counted = workload.is_observed();
    let available = &still_available(cluster, kind, workload, pods);
    let missing = usize::try_from(i64::from(*desired) - i64::from(*available)).unwrap_or_default();
    if is_counted && *desired == 0 {
        return Outcome::Skip("0 pods desired".to_owned());
    }
    let is_placed = kind == WorkloadKind::DaemonSet && is_counted;
    let shortfall = || is_placed.then(|| cluster.shortfall(workload, pods, |pod| is_well(&pod.state), |_| false));
    let describe =
        Hint::run("{kubectl} -n {} describe {} {}", [workload.namespace.as_str(), kind.name(), &workload.name]);
    if is_counted && missing == 0 && given_up.is_none() {
        let excused = || shortfall().map_or(0, |it| it.places.len());
        let unfinished = || unfinished(cluster, workload, || pods.to_vec(), excused, Reason::WorkloadDegraded);
        let surplus = || surplus(cluster, pods).filter(|_| kind == WorkloadKind::DaemonSet);
        let problem = unnoticed(cluster, kind, workload, pods).or_else(unfinished).or_else(surplus);
        return problem.map_or(Outcome::Pass(None), |problem| Outcome::problem(problem.hint(describe)));
    }
    let lacking = shortfall();
    // If the missing pods are known, those that may be missing are not to blame.
    let mut unwell: Vec<&Pod> =
        lacking.iter().flat_map(Shortfall::unexcused).flat_map(|place| &place.pods).copied().collect();
    if unwell.is_empty() {
        unwell.extend(pods.iter().filter(|pod| is_amiss(pod) && is_judged(cluster, pod)));
    }
    // Pods that are fine by their status, on nodes that are down.
    let cut_off = pods.iter().copied().filter(|pod| is_well(&pod.state) && is_cut_off(cluster, pod));
    let cut_off: Vec<&Pod> = cut_off.filter(|_| kind != WorkloadKind::DaemonSet).collect();
    let uncounted = (!is_counted).then(|| format!("generation {generation} not observed yet"));
    let standing = match (given_up, unchanged_for) {
        (Some(words), _) => Some(format!("rollout stuck: {words}")),
        // The status does not know yet, so its age says nothing.
        (None, _) if !cut_off.is_empty() => None,
        (None, unchanged) => unchanged.map(|unchanged| format!("unchanged for {}", human(unchanged))),
    };
    let of_cut_off = |pod: &&Pod| {
        let node = pod.node.as_deref().unwrap_or(NO_NODE);
        let how = match cluster.life(node) {
            Life::Removed => "was removed",
            Life::Unready => "is not ready",
            Life::Works | Life::Down | Life::Silent | Life::Unknown => "is down",
        };
        format!("{} is on {node}, which {how}", pod.name)
    };
    let lost = (!cut_off.is_empty()).then(|| some(cut_off.iter().map(of_cut_off), NAMES));
    let bare = lacking.iter().flat_map(Shortfall::unexcused).filter(|place| place.pods.is_empty());
    let bare: Vec<_> = bare.map(|place| place.node.name.as_str()).collect();
    let bare = (!bare.is_empty()).then(|| format!("none on {}", some(bare.into_iter(), NAMES)));
    let words =
        [Some(format!("{available} of {desired} pods available")), lost, bare, uncounted, standing, workload.refusal()];
    let words = words.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let observed = with_troubles(cluster, words, &unwell);
    let problem = |severity, reason| {
        let problem = Problem::fail(reason, format!("{desired} pods available"), observed.as_str());
        let problem = log_of_crash(cluster, &unwell).into_iter().fold(problem, Problem::hint);
        Problem { severity, ..problem }
            .hint(describe.clone())
            .hint(Hint::run("{kubectl} -n {} get pods -o wide", [&workload.namespace]))
            .on(places(&unwell).into_iter().chain(places(&cut_off)))
    };
    let problem = |severity, reason| with_refusal(problem(severity, reason), Some(workload));
    let is_given_up = given_up.is_some() || unwell.iter().any(|pod| is_stuck(cluster, pod));
    // A pod that exists on a working node and does not work is not excused by pods missing elsewhere.
    let has_own = || unwell.iter().any(|pod| is_at_home(cluster, pod));
    let are_on_dead_nodes = || *available > 0 && missing <= replicas_on_dead_nodes(cluster, kind, workload);
    let is_excused = match &lacking {
        Some(lacking) => lacking.is_excused(),
        None => are_on_dead_nodes() && !has_own(),
    };
    let excused: Vec<&str> = lacking.iter().flat_map(|it| &it.places).map(|place| place.node.name.as_str()).collect();
    if let Some(lacking) = lacking.filter(|_| is_excused) {
        // Pods missing here do not excuse an obstacle to a rollout elsewhere.
        let held_up =
            unfinished(cluster, workload, || pods.to_vec(), || lacking.places.len(), Reason::WorkloadDegraded);
        let may_all_be_missing = lacking.places.iter().all(|place| place.excuse == Some(Excuse::NotJudged));
        match held_up {
            Some(held_up) if may_all_be_missing || held_up.severity == Severity::Fail => {
                return Outcome::problem(held_up.hint(describe));
            }
            None if may_all_be_missing => {
                let nodes = lacking.places.iter().map(|place| place.node.name.as_str());
                return Outcome::Skip(format!("missing only on {}, which does not count", some(nodes, NAMES)));
            }
            Some(_) | None => {}
        }
    }
    Outcome::problem(match missing {
        1.. if is_excused => {
            problem(Severity::Warn, Reason::WorkloadDegraded).on(excusing_nodes(cluster, kind, workload, &excused))
        }
        1.. if has_no_place(cluster, pods, &unwell) => problem(Severity::Warn, Reason::WorkloadDegraded),
        1.. if is_counted && *available <= 0 => problem(Severity::Fail, Reason::WorkloadUnavailable),
        _ => {
            // The status of a DaemonSet changes with each of its pods. The missing pods show for how long they have been missing.
            let of_pods = unwell.iter().filter(|_| kind == WorkloadKind::DaemonSet);
            let known = of_pods.filter_map(|pod| pod.unready_for).map(Some);
            let ages: Vec<_> = known.chain([*unchanged_for]).collect();
            problem(severity_of(is_given_up, &ages), Reason::WorkloadDegraded)
        }
    })
}

/// Pods available by the workload's status, minus those on nodes that are down: the status is slow to drop them. A DaemonSet lacks nothing
/// on a machine that is judged itself.
fn still_available(cluster: &Assessment<'_>, kind: WorkloadKind, workload: &Workload, pods: &[&Pod]) -> i32 {
    let is_counted = |pod: &&&Pod| kind != WorkloadKind::DaemonSet && is_well(&pod.state);
    let cut_off = pods.iter().filter(is_counted).filter(|pod| is_cut_off(cluster, pod)).count();
    workload.available.saturating_sub(i32::try_from(cut_off).unwrap_or(i32::MAX)).max(0)
}

/// Returns true if each machine has a working pod and none of the others has been assigned a node: charts want two by default, and small
/// clusters have only one place.
fn has_no_place(cluster: &Assessment<'_>, pods: &[&Pod], unwell: &[&Pod]) -> bool {
    let served = served(pods);
    let places = cluster.nodes().iter().filter(|node| !cluster.is_guest(node) && !node.leaving);
    let mut places = places.filter_map(|node| cluster.object(node)).peekable();
    let are_waiting = !unwell.is_empty() && unwell.iter().all(|pod| pod.node.is_none());
    are_waiting && places.peek().is_some() && places.all(|object| served.contains(object.name.as_str()))
}

/// Returns the nodes on which one of these pods works.
fn served<'a>(pods: &[&'a Pod]) -> HashSet<&'a str> {
    pods.iter().filter(|pod| is_well(&pod.state)).filter_map(|pod| pod.node.as_deref()).collect()
}

/// Returns true if the pod's node is down: silent, not ready or removed.
fn is_cut_off(cluster: &Assessment<'_>, pod: &Pod) -> bool {
    !cluster.serving_on(pod.node.as_deref()).may_be()
}

/// Returns true if the pod is on a node that is not known to be down.
fn is_at_home(cluster: &Assessment<'_>, pod: &Pod) -> bool {
    pod.node.is_some() && !is_cut_off(cluster, pod)
}

/// Returns the severity of these pods not working.
fn severity_of_pods(cluster: &Assessment<'_>, pods: &[&Pod]) -> Severity {
    let ages: Vec<_> = pods.iter().map(|pod| pod.unready_for).collect();
    severity_of(pods.iter().any(|pod| is_stuck(cluster, pod)), &ages)
}

/// Adds the problems of these pods to the words.
fn with_troubles(cluster: &Assessment<'_>, words: String, pods: &[&Pod]) -> String {
    match troubles(cluster, pods) {
        Some(troubles) => format!("{words}; {troubles}"),
        None => words,
    }
}

/// Problem if the status reports all pods as available, although too few remain without those that have been unready for longer than a
/// status takes to follow.
fn unnoticed(cluster: &Assessment<'_>, kind: WorkloadKind, workload: &Workload, pods: &[&Pod]) -> Option<Problem> {
    let Workload { desired, available, .. } = workload;
    let is_old = |pod: &Pod| pod.unready_for.is_none_or(|since| since >= UNNOTICED);
    let is_unwell = |pod: &&Pod| is_amiss(pod) && is_old(pod) && is_judged(cluster, pod);
    let (unwell, others): (Vec<&Pod>, Vec<_>) = pods.iter().copied().partition(is_unwell);
    if unwell.is_empty() {
        return None;
    }
    let left = others.iter().filter(|pod| !has_ended(&pod.state.phase)).count();
    let has_too_few = match kind {
        WorkloadKind::DaemonSet => {
            // A working pod on another node does not make up for this one.
            let works = |pod: &Pod| is_well(&pod.state) || !is_old(pod);
            let lacking = cluster.shortfall(workload, pods, works, |_| false);
            lacking.unexcused().any(|place| !place.pods.is_empty())
        }
        WorkloadKind::Deployment | WorkloadKind::StatefulSet => left < workload.replicas(),
    };
    if !has_too_few {
        return None;
    }
    let words =
        format!("{available} of {desired} pods available according to its status, but {} not ready", unwell.len());
    let observed = with_troubles(cluster, words, &unwell);
    let severity = severity_of_pods(cluster, &unwell);
    let problem = Problem::fail(Reason::WorkloadDegraded, format!("{desired} pods available"), observed);
    Some(Problem { severity, ..problem }.on(places(&unwell)))
}

/// Warns about pods beyond those that the workload wants, if one of them crashes repeatedly.
fn surplus(cluster: &Assessment<'_>, pods: &[&Pod]) -> Option<Problem> {
    let is_held_up = |pod: &&Pod| is_amiss(pod) && is_judged(cluster, pod) && is_stuck(cluster, pod);
    let stuck: Vec<&Pod> = pods.iter().copied().filter(is_held_up).collect();
    let troubles = troubles(cluster, &stuck)?;
    Some(Problem::warn(Reason::WorkloadDegraded, "no crashing pod where it wants none", troubles))
}

/// The likely reason why a DaemonSet is not wanted on some nodes.
const LEFT_OUT: &str = "its nodeSelector, affinity or tolerations leave them out";

/// Reports a network plugin whose DaemonSets leave out a machine, where new pods then get no network.
pub(super) fn uncovered(cluster: &Assessment<'_>, workload: &Workload) -> Option<Problem> {
    let agents = network_agents(cluster)?;
    if !workload.is_observed() || !agents.iter().any(|agent| std::ptr::eq(*agent, workload)) {
        return None;
    }
    let wanted = if cluster.asks_talos() { "wanted on every Talos machine" } else { "wanted on every node" };
    let (expected, observed, likely) = match left_out(cluster, &agents) {
        Some(names) if names.is_empty() => {
            let names = Some(without_pod(cluster, workload)).filter(|names| !names.is_empty())?;
            let observed = format!("no pod of it on {}", some(names.into_iter(), NAMES));
            ("a pod on every node where it is wanted", observed, "its controller does not keep its status up to date")
        }
        Some(names) => (wanted, format!("not wanted on {}", some(names.into_iter(), NAMES)), LEFT_OUT),
        None => (wanted, left_out_by_numbers(cluster, &agents)?, LEFT_OUT),
    };
    let problem = Problem::fail(Reason::DaemonsetIncomplete, expected, observed);
    // Without Talos, some nodes may not need a pod, because their pods use the provider's network.
    let severity = if cluster.asks_talos() { Severity::Fail } else { Severity::Warn };
    let describe = Hint::run("{kubectl} -n {} describe daemonset {}", [&workload.namespace, &workload.name]);
    Some(Problem { severity, ..problem }.hint(Hint::likely(likely)).hint(describe))
}

/// Warns about nodes on which kube-proxy is not wanted, although they are like the others: they have an agent of the pod network.
pub(super) fn without_proxy(cluster: &Assessment<'_>, proxy: &Workload) -> Option<Problem> {
    let mut proxied = cluster.wanting(proxy).filter(|_| proxy.is_observed() && proxy.desired > 0)?;
    // Some clusters have one for each architecture or operating system.
    let sets = cluster.list(|kubernetes| &kubernetes.daemon_sets).into_iter().flatten();
    for other in sets.filter(|set| set.name.starts_with("kube-proxy")) {
        proxied.extend(cluster.wanting(other).unwrap_or_default());
    }
    let agents = network_agents(cluster)?;
    let mut served = HashSet::new();
    for agent in agents.iter().filter(|agent| !std::ptr::eq(**agent, proxy)) {
        served.extend(cluster.wanting(agent)?);
    }
    let by_static_pod = cluster.hosts_of_mirrors("kube-proxy");
    let lacks = |name: &&str| served.contains(name) && !proxied.contains(name) && !by_static_pod.contains(name);
    let bare: BTreeSet<&str> = networked(cluster).map(|object| object.name.as_str()).filter(lacks).collect();
    let names = || some(bare.iter().copied(), NAMES);
    (!bare.is_empty()).then(|| {
        Problem::warn(Reason::DaemonsetIncomplete, "wanted on every node", format!("not wanted on {}", names()))
            .hint(Hint::likely(LEFT_OUT))
            .hint(Hint::run("{kubectl} -n {} describe daemonset {}", [&proxy.namespace, &proxy.name]))
    })
}

/// Returns the DaemonSets that provide the pod network. Without Talos, DaemonSets that want no pods do not count, because providers install
/// disabled ones, and if none is known by name, one that is recognized by its mounts counts.
fn network_agents<'a>(cluster: &Assessment<'a>) -> Option<Vec<&'a Workload>> {
    let sets = cluster.list(|kubernetes| &kubernetes.daemon_sets)?;
    let counts = |set: &&Workload| cluster.asks_talos() || set.desired > 0;
    let named: Vec<_> = sets.iter().filter(|set| set.is_network_agent()).filter(counts).collect();
    if !named.is_empty() || cluster.asks_talos() {
        return Some(named);
    }
    Some(sets.iter().filter(|set| set.installs_network).filter(counts).collect())
}

/// Returns machines that need a network and on which none of these DaemonSets wants a pod. `None` if the node selection of one of them is
/// unknown.
fn left_out<'a>(cluster: &Assessment<'a>, agents: &[&Workload]) -> Option<Vec<&'a str>> {
    let mut served = HashSet::new();
    for agent in agents {
        served.extend(cluster.wanting(agent)?);
    }
    // While a node is not ready, its own taints may keep the pods away.
    let is_wanted_later = |object: &KubeNode| {
        let is_down = !cluster.life(&object.name).may_serve();
        is_down && agents.iter().any(|agent| takes_when_ready(agent, object))
    };
    let bare = networked(cluster).filter(|object| !served.contains(object.name.as_str()) && !is_wanted_later(object));
    Some(bare.map(|object| object.name.as_str()).collect())
}

/// Returns the working machines on which this DaemonSet wants a pod and has none, although its status counts one there. A status that has
/// just changed may be ahead of the list of pods.
fn without_pod<'a>(cluster: &Assessment<'a>, set: &Workload) -> Vec<&'a str> {
    let is_changing = set.missing() > 0 || set.unchanged_for.is_none_or(|since| since < UNNOTICED);
    let Some(wanting) = cluster.wanting(set).filter(|_| !is_changing) else { return Vec::new() };
    let pods = all_pods(cluster, WorkloadKind::DaemonSet, set);
    let hosts: HashSet<&str> = pods.iter().filter_map(|pod| pod.node.as_deref()).collect();
    let works = |name: &str| cluster.life(name) == Life::Works;
    let lacks = |name: &&str| wanting.contains(name) && works(name) && !hosts.contains(name);
    // The pods of other namespaces are not a required fact: if none is listed, the status is all there is.
    networked(cluster).map(|object| object.name.as_str()).filter(|_| !hosts.is_empty()).filter(lacks).collect()
}

/// Describes machines that these DaemonSets leave out, based on the desired number of pods and the nodes that have one.
fn left_out_by_numbers(cluster: &Assessment<'_>, agents: &[&Workload]) -> Option<String> {
    let desired = agents.iter().map(|set| set.replicas()).sum::<usize>();
    let pods = agents.iter().flat_map(|set| all_pods(cluster, WorkloadKind::DaemonSet, set));
    let served: HashSet<&str> = pods.filter_map(|pod| pod.node.as_deref()).collect();
    let bare = networked(cluster).map(|object| object.name.as_str()).filter(|name| !served.contains(name));
    let bare: Vec<_> = bare.collect();
    match networked(cluster).count().saturating_sub(desired) {
        // Pods on guests and leaving nodes count as well, and can make up for a machine that is left out.
        0 => {
            let everywhere = cluster.list(|kubernetes| &kubernetes.nodes).map_or(0, Vec::len);
            let is_seen = !served.is_empty() && desired < everywhere && !bare.is_empty();
            is_seen.then(|| format!("no pod of it on {}", some(bare.into_iter(), NAMES)))
        }
        excluded if bare.len() == excluded => Some(format!("not wanted on {}", some(bare.into_iter(), NAMES))),
        1 => Some(format!("wanted on {desired}, not on 1 other")),
        excluded => Some(format!("wanted on {desired}, not on {excluded} others")),
    }
}

/// Returns the Nodes of machines that are not being removed: Talos machines, or all machines without Talos.
fn networked<'a>(cluster: &Assessment<'a>) -> impl Iterator<Item = &'a KubeNode> {
    let needs_one = |node: &Node| if cluster.asks_talos() { needs_pod(node) } else { node.sources.kubernetes };
    let machines = cluster.nodes().iter().filter(move |node| needs_one(node) && cluster.standing(node).is_judged());
    machines.filter_map(|node| cluster.object(node)).filter(|object| !object.is_windows())
}

/// Returns true if k8s.kube-proxy, k8s.cni or k8s.dns judges this workload.
fn is_judged_elsewhere(cluster: &Assessment<'_>, workload: &Workload) -> bool {
    let of_dns = dns::deployment(cluster).filter(|_| !cluster.asked.skips(CheckId::K8sDns));
    daemon_sets::judged(cluster).chain(of_dns).any(|it| std::ptr::eq(it, workload))
}

/// Counts the pods of a Deployment or `StatefulSet` that are on lost nodes, or that wait for a node because a node is lost. The latter
/// replace the former, so the larger number counts.
fn replicas_on_dead_nodes(cluster: &Assessment<'_>, kind: WorkloadKind, workload: &Workload) -> usize {
    const TAINTS: [&str; 2] = ["node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"];
    if kind == WorkloadKind::DaemonSet {
        return 0;
    }
    let pods = all_pods(cluster, kind, workload);
    let waits = |pod: &&&Pod| {
        pod.node.is_none() && !is_well(&pod.state) && TAINTS.iter().any(|taint| pod.state.message.contains(taint))
    };
    pods.iter().filter(|pod| is_cut_off(cluster, pod)).count().max(pods.iter().filter(waits).count())
}

/// Returns the nodes that excuse missing pods: nodes that lack one, that have one of these replicas, or that do not accept a waiting
/// replica.
fn excusing_nodes<'a>(
    cluster: &'a Assessment<'_>,
    kind: WorkloadKind,
    workload: &Workload,
    lacking: &[&'a str],
) -> Vec<&'a str> {
    if kind == WorkloadKind::DaemonSet {
        return lacking.to_vec();
    }
    let pods = all_pods(cluster, kind, workload);
    let hosts: BTreeSet<&str> =
        pods.iter().filter(|pod| is_cut_off(cluster, pod)).filter_map(|pod| pod.node.as_deref()).collect();
    if !hosts.is_empty() {
        return hosts.into_iter().collect();
    }
    let objects = cluster.nodes().iter().filter_map(|node| cluster.object(node));
    objects.filter(|object| !cluster.life(&object.name).may_serve()).map(|object| object.name.as_str()).collect()
}

/// Returns the listed pods of a workload that are not being deleted.
fn pods<'a>(cluster: &'a Assessment<'_>, kind: WorkloadKind, workload: &Workload) -> Vec<&'a Pod> {
    let mut pods = all_pods(cluster, kind, workload);
    pods.retain(|pod| !pod.deleting);
    pods
}

/// Pods of the workload, including those that are being deleted.
fn all_pods<'a>(cluster: &'a Assessment<'_>, kind: WorkloadKind, workload: &Workload) -> Vec<&'a Pod> {
    cluster.all_pods().filter(|pod| kind.owns(workload, pod)).collect()
}

/// Returns the pods of workloads that are not in their list, because the list is incomplete or a `ReplicaSet` has no Deployment.
fn unlisted<'a>(
    cluster: &'a Assessment<'_>,
    kind: WorkloadKind,
    workloads: &[Workload],
) -> BTreeMap<&'a str, Vec<&'a Pod>> {
    let here = workloads.iter().filter(|workload| workload.namespace == SYSTEM_NAMESPACE);
    let known: HashSet<&str> = here.map(|workload| workload.name.as_str()).collect();
    let mut unlisted: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    // k8s.dns judges all pods that serve DNS, regardless of how they were created.
    let is_judged_here = |pod: &&Pod| !pod.deleting && !dns::is_of_dns(pod);
    for pod in system_pods(cluster).ok().into_iter().flatten().filter(is_judged_here) {
        if let Some((_, name)) = workload_of(pod).filter(|(of, name)| *of == kind && !known.contains(name)) {
            unlisted.entry(name).or_default().push(pod);
        }
    }
    unlisted
}

/// Judges a workload that is not listed by its pods.
fn by_its_pods(cluster: &Assessment<'_>, pods: &[&Pod]) -> Outcome {
    let unwell: Vec<&Pod> =
        pods.iter().filter(|pod| is_amiss(pod)).copied().filter(|pod| is_judged(cluster, pod)).collect();
    if unwell.is_empty() {
        return Outcome::Pass(None);
    }
    let words = format!("{} of {} pods not ready", unwell.len(), pods.len());
    let observed = with_troubles(cluster, words, &unwell);
    let severity = severity_of_pods(cluster, &unwell);
    Outcome::problem(
        Problem { severity, ..Problem::fail(Reason::WorkloadDegraded, "all pods ready", observed) }
            .hint(Hint::run("{kubectl} -n kube-system describe pod {}", [&unwell[0].name])),
    )
}

/// Returns the command that shows why a container exits.
fn log_of_crash(cluster: &Assessment<'_>, pods: &[&Pod]) -> Option<Hint> {
    let crashes = |pod: &&&Pod| {
        let trouble = describe_unready(&pod.state, cluster.server_time());
        trouble.is_some_and(|trouble| trouble.crash_looping)
    };
    let pod = pods.iter().find(crashes)?;
    Some(Hint::run("{kubectl} -n {} logs {} --previous", [&pod.namespace, &pod.name]))
}
