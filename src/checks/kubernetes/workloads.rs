//! kube-proxy, flannel and cluster DNS, which Talos installs unless its configuration says otherwise.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use super::system::is_of;
use super::{crashed_lately, restarted_between_rounds, severity_of};
use crate::assess::Assessment;
use crate::assess::workloads::{RENEWAL, is_alive, is_well, says_ready, trouble};
use crate::checks::Check;
use crate::checks::gaps::{listed, says_nothing};
use crate::checks::scope::passed_over;
use crate::model::{CheckId, Fact, Hint, Kind, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{BootstrapManifests, KubeNode, Leases, Node, Pod, ServiceEndpoint, Workload, has_ended};

pub(in crate::checks) const KUBE_PROXY: Check = Check {
    id: CheckId::K8sKubeProxy,
    stage: Stage::Nodes,
    summary: "kube-proxy runs on every node where it should",
    explain: "Reads the DaemonSet kube-proxy: its current generation is observed, and all desired pods are available. Without \
kube-proxy a node cannot reach Services, including DNS. The pods themselves count as well: each Talos machine needs one that is \
ready, also if the DaemonSet does not want one there or has not noticed for 30 seconds that it is not ready.\n\n\
Skipped where the cluster's configuration disables it, for example because the network plugin replaces it. A DaemonSet with 0 \
desired pods because its controller has not counted the nodes yet does not pass.\n\n\
The report lists the nodes without a ready pod; look at the pods there (`kubectl -n kube-system get pods -l k8s-app=kube-proxy \
-o wide`).",
    severity: Severity::Fail,
    finds: &[Reason::Restarting, Reason::DaemonsetIncomplete, Reason::DaemonsetMissing],
    requires: &[CheckId::K8sCredentials, CheckId::K8sApiEndpoint, CheckId::K8sApiIdentity],
    after: &[],
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

pub(in crate::checks) const DNS: Check = Check {
    id: CheckId::K8sDns,
    stage: Stage::Nodes,
    summary: "the DNS Service has as many ready endpoints as its Deployment has replicas",
    explain: "Counts the ready endpoints of the Service kube-system/kube-dns. Endpoints on nodes that are not ready do not \
count, because Kubernetes removes them only after a while; nor do those of pods that have not been ready for 30 seconds, have \
another address, or no longer exist. Any DNS server passes, not only Talos's own CoreDNS.\n\n\
Without an endpoint no pod can resolve names. The usual reasons: no node is ready yet, the pods cannot be scheduled, they \
crash because of a forwarding loop, or the Deployment was scaled to zero.\n\n\
With fewer endpoints than replicas of the Deployment `coredns`, the check warns. It fails if a missing pod has not become \
ready for 5 minutes, or if the rollout has exceeded its deadline. DNS then has no redundancy, and the node of that pod often \
has no working pod network.\n\n\
Skipped where the cluster's configuration disables DNS and nothing serves it. With --no-talos that is unknown: if no part of \
DNS exists, it cannot be determined whether it was deleted; if it is not wanted, use `--skip k8s.dns`. Otherwise look at \
`kubectl -n kube-system describe pods -l k8s-app=kube-dns`.",
    severity: Severity::Fail,
    finds: &[
        Reason::Restarting,
        Reason::DnsScaledToZero,
        Reason::DnsNoEndpoints,
        Reason::DnsDegraded,
        Reason::DnsMissing,
    ],
    requires: &[CheckId::K8sCredentials, CheckId::K8sApiEndpoint, CheckId::K8sApiIdentity],
    after: &[],
    facts: &[
        Fact::TalosNodes,
        Fact::BootstrapManifests,
        Fact::DnsEndpoints,
        Fact::Deployments,
        Fact::Pods,
        Fact::KubeNodes,
        Fact::NodeLeases,
    ],
    judge: dns,
};

/// Label `k8s-app` of whatever serves DNS.
const DNS_APP: &str = "kube-dns";

/// Time in which the endpoints of a Service follow its pods, however busy their controller is.
pub(super) const UNNOTICED: Duration = Duration::from_secs(30);

/// What the cluster's configuration wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Yes,
    No,
    /// No control plane has told.
    Unknown,
    /// Nobody can tell with `--no-talos`.
    NoTalos,
}

fn wanted(cluster: &Assessment<'_>, enabled: fn(&BootstrapManifests) -> bool) -> Wanted {
    if cluster.talos.is_none() {
        return Wanted::NoTalos;
    }
    let mut told = cluster.control_planes().flat_map(|node| &node.talos.bootstrap_manifests).flatten().map(enabled);
    match told.next() {
        None => Wanted::Unknown,
        Some(first) if first || told.any(|enabled| enabled) => Wanted::Yes,
        Some(_) => Wanted::No,
    }
}

/// A DaemonSet in kube-system that Talos installs.
struct Installed {
    name: &'static str,
    /// Label `k8s-app` of the DaemonSet and of its pods.
    app: &'static str,
    enabled: fn(&BootstrapManifests) -> bool,
    /// Why nothing is judged where the configuration does not ask for it.
    disabled: &'static str,
    /// That it wants no pod may be on purpose, whatever the configuration says: so Calico's documentation has what its eBPF mode replaces.
    may_want_none: bool,
    pods: Hint,
}

const PROXY: Installed = Installed {
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
    name: "kube-flannel",
    app: "flannel",
    enabled: |manifests| manifests.flannel_enabled,
    disabled: "another network plugin, or none: see k8s.nodes.ready",
    may_want_none: false,
    pods: Hint::Try { command: "{kubectl} -n kube-system get pods -l k8s-app=flannel -o wide", arguments: Vec::new() },
};

fn on_every_node(cluster: &Assessment<'_>, its: &Installed) -> Verdict {
    let sets = match listed(cluster, |kubernetes| &kubernetes.daemon_sets, "the DaemonSets of kube-system") {
        Ok(sets) => sets,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let target = Target::new(Kind::Workload, format!("kube-system/{}", its.name));
    let missing = format!("DaemonSet {}", its.name);
    let mut verdict = Verdict::default();
    // One of another name that wants no pod, as for nodes of Windows, is not what is missing here.
    let installed = installed(sets, its.name, its.app).filter(|set| set.name == its.name || set.desired > 0);
    match (wanted(cluster, its.enabled), installed) {
        (Wanted::No, _) => verdict.skip(target, its.disabled),
        (Wanted::NoTalos, None) => verdict.skip(target, "not found; another component may replace it"),
        (_, Some(set)) => coverage(cluster, its, set, &target, &mut verdict),
        (Wanted::Yes, None) => {
            let problem = Problem::fail(Reason::DaemonsetMissing, missing, "not found");
            let hint = Hint::likely("Talos has not applied its bootstrap manifests yet, or it was deleted");
            verdict.problem(target, problem.hint(hint));
        }
        (Wanted::Unknown, None) => {
            let observed = "not found, and no control plane reported whether it is wanted";
            verdict.problem(target, Problem::error(Reason::DaemonsetMissing, missing, observed));
        }
    }
    warn_of_restarts(cluster, labeled_pods(cluster, its.app), &mut verdict);
    verdict
}

/// In kube-system, by name, else by label: other workloads may carry the label of what they go with.
fn installed<'a>(workloads: &'a [Workload], name: &str, app: &str) -> Option<&'a Workload> {
    let here = || workloads.iter().filter(|it| it.namespace == "kube-system");
    let is_labeled = |it: &&Workload| it.labels.get("k8s-app").is_some_and(|label| label == app);
    here().find(|it| it.name == name).or_else(|| here().find(is_labeled))
}

/// Talos installs flannel, or it is there: it routes pods by the podCIDRs of their nodes.
pub(super) fn flannel_is_wanted(cluster: &Assessment<'_>) -> bool {
    let sets = cluster.list(|kubernetes| &kubernetes.daemon_sets);
    let is_there = || sets.is_some_and(|sets| installed(sets, FLANNEL.name, FLANNEL.app).is_some());
    wanted(cluster, FLANNEL.enabled) == Wanted::Yes || is_there()
}

/// k8s.kube-proxy, k8s.cni or k8s.dns judges this workload.
pub(super) fn is_judged_elsewhere(cluster: &Assessment<'_>, workload: &Workload) -> bool {
    let sets = cluster.list(|kubernetes| &kubernetes.daemon_sets);
    let judged = [PROXY, FLANNEL].into_iter().filter(|its| wanted(cluster, its.enabled) != Wanted::No);
    let sets = judged.filter_map(|its| installed(sets?, its.name, its.app));
    let dns = cluster.list(|kubernetes| &kubernetes.deployments).and_then(|deployments| coredns(deployments));
    sets.chain(dns).any(|it| std::ptr::eq(it, workload))
}

fn coverage(cluster: &Assessment<'_>, its: &Installed, set: &Workload, target: &Target, verdict: &mut Verdict) {
    if !set.is_observed() {
        let observed = format!("generation {}, last observed {}", set.generation, set.observed_generation.unwrap_or(0));
        let problem = Problem::fail(Reason::DaemonsetIncomplete, "its current generation is observed", observed)
            .hint(Hint::likely("kube-controller-manager does not work, or has just started"));
        return verdict.problem(target.clone(), problem);
    }
    if set.desired == 0 && (its.may_want_none || wanted(cluster, its.enabled) != Wanted::Yes) {
        return verdict.skip(target.clone(), "0 pods desired");
    }
    let line = format!("{}: available on {} of {} nodes", its.name, set.available, set.desired);
    let expected = format!("available on {} nodes", set.desired);
    let short = usize::try_from(i64::from(set.desired) - i64::from(set.available)).unwrap_or_default();
    let lacking = match placed(cluster, its, set) {
        Ok(pods) => lacking(cluster, &pods, set.desired, short),
        Err(outcome) if short == 0 => return verdict.push(target.clone(), outcome),
        Err(_) => Vec::new(),
    };
    let left_out = |node: &Node| passed_over(cluster, node).is_some() || cluster.is_guest(node);
    if lacking.len() >= short && lacking.iter().all(|(node, _)| left_out(node)) {
        let pods = || labeled_pods(cluster, its.app);
        return match unfinished(cluster, set, pods, || lacking.len(), Reason::DaemonsetIncomplete) {
            Some(problem) => verdict.problem(target.clone(), problem.hint(its.pods.clone())),
            None => verdict.pass(target.clone(), line),
        };
    }
    for (node, words) in lacking.iter().filter(|(node, _)| !left_out(node)) {
        let (expected, observed) = (format!("a ready pod of {}", its.name), format!("{}: {words}", its.name));
        let problem = Problem::fail(Reason::DaemonsetIncomplete, expected, observed);
        let problem = if is_unready(cluster, node) {
            problem.explained_by(CheckId::K8sNodesReady)
        } else {
            problem.hint(its.pods.clone())
        };
        verdict.problem(node.target(), problem);
    }
    // Those that are named may be missing with permission; what they do not account for may not.
    if lacking.len() < short {
        // Guests may be all that lack one.
        let guests = cluster.nodes.iter().filter(|node| cluster.is_guest(node)).count();
        if guests >= short
            && let Err(outcome) = system_pods(cluster)
        {
            return verdict.push(target.clone(), outcome);
        }
        let observed = format!("available on {}", set.available);
        verdict.problem(target.clone(), Problem::fail(Reason::DaemonsetIncomplete, expected, observed));
    }
}

/// The pods of a DaemonSet, by their label or their controller.
fn placed<'a>(cluster: &'a Assessment<'_>, its: &Installed, set: &Workload) -> Result<Vec<&'a Pod>, Outcome> {
    let is_its = |pod: &&Pod| is_labeled(pod, its.app) || is_of(pod, "daemonset", set);
    Ok(system_pods(cluster)?.iter().filter(is_its).collect())
}

/// Evidence like any other, which k8s.staticpods.running tells of first if it is missing.
pub(super) fn system_pods<'a>(cluster: &'a Assessment<'_>) -> Result<&'a Vec<Pod>, Outcome> {
    let expected = "the pods of kube-system";
    let outcome = match listed(cluster, |kubernetes| &kubernetes.pods, expected) {
        Ok(pods) if !pods.is_empty() => return Ok(pods),
        Ok(_) => says_nothing(expected, "an empty list"),
        Err(outcome) => outcome,
    };
    Err(match outcome {
        Outcome::Problem(problem) => Outcome::problem(problem.explained_by(CheckId::K8sStaticpodsRunning)),
        outcome => outcome,
    })
}

/// Of a DaemonSet without which a node does not work. Other systems have their own.
pub(super) fn needs_pod(node: &Node) -> bool {
    node.is_talos && node.sources.kubernetes
}

/// It is judged, and not ready: so are its pods.
fn is_unready(cluster: &Assessment<'_>, node: &Node) -> bool {
    passed_over(cluster, node).is_none() && cluster.object(node).is_some() && !cluster.machine(node).is_ready()
}

/// Nodes without a ready pod of a DaemonSet, and why: Talos machines, whatever its numbers say, and if they do not make up what these
/// are short of, nodes of other systems, which may be left out on purpose.
///
/// `desired`, `short`: how many pods it wants, and how many of them are not available.
fn lacking<'a>(cluster: &'a Assessment<'_>, pods: &[&Pod], desired: i32, short: usize) -> Vec<(&'a Node, String)> {
    let mut by_node: HashMap<&str, Vec<&Pod>> = HashMap::new();
    for pod in pods {
        by_node.entry(pod.node.as_deref().unwrap_or_default()).or_default().push(pod);
    }
    let mut lacking = Vec::new();
    let mut guests = Vec::new();
    for node in &cluster.nodes {
        let name = cluster.object(node).map_or(&node.name, |object| &object.name);
        // The numbers follow the pods in a moment.
        let is_new = |pod: &Pod| short == 0 && pod.unready_for.is_some_and(|since| since < UNNOTICED);
        let here = by_node.get(name.as_str()).into_iter().flatten();
        let troubles = here.map(|pod| trouble(&pod.state, cluster.server_time()).filter(|_| !is_new(pod)));
        // One ready pod is enough: during a rolling update there may be two.
        match troubles.reduce(Option::and) {
            Some(Some(trouble)) => lacking.push((node, trouble.words)),
            // One that is not ready is told as such, and may be gone.
            None if needs_pod(node) && short == 0 && is_unready(cluster, node) => {}
            None if needs_pod(node) => lacking.push((node, "no pod".to_owned())),
            None if cluster.is_guest(node) => guests.push((node, "no pod".to_owned())),
            _ => {}
        }
    }
    if lacking.len() < short {
        guests.truncate(wanted_elsewhere(desired, pods));
        lacking.append(&mut guests);
    }
    lacking
}

/// So many pods of a DaemonSet can be missing where there is none: it wants no more than those, and those that are there.
pub(super) fn wanted_elsewhere(desired: i32, pods: &[&Pod]) -> usize {
    usize::try_from(desired).unwrap_or_default().saturating_sub(pods.len())
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
    unwell.retain(|pod| is_amiss(pod));
    let words = [rollout, troubles(cluster, &unwell), workload.refusal()];
    let words: Vec<String> = words.into_iter().flatten().collect();
    if words.is_empty() {
        return None;
    }
    let severity = severity_of(unwell.iter().any(|pod| is_stuck(cluster, pod)), &[]);
    let problem = Problem { severity, ..Problem::fail(reason, "all pods of its newest template", words.join("; ")) };
    Some(problem.explained_by(by_webhook(workload)))
}

/// It does not do what it is to do, and is still there for it.
pub(super) fn is_amiss(pod: &Pod) -> bool {
    !is_well(&pod.state) && !has_ended(&pod.state.phase)
}

fn labeled_pods<'a>(cluster: &'a Assessment<'_>, app: &'static str) -> Vec<&'a Pod> {
    let pods = cluster.list(|kubernetes| &kubernetes.pods);
    pods.into_iter().flat_map(|pods| labeled(pods, app)).filter(|pod| !pod.deleting).collect()
}

/// It is on a node that is judged, or on none.
pub(super) fn is_judged(cluster: &Assessment<'_>, pod: &Pod) -> bool {
    let node = pod.node.as_deref().and_then(|name| cluster.node(name));
    node.is_none_or(|node| passed_over(cluster, node).is_none() && !cluster.is_guest(node))
}

/// Names the pods that restart from time to time, of those that are judged.
pub(super) fn warn_of_restarts<'a>(
    cluster: &Assessment<'_>,
    pods: impl IntoIterator<Item = &'a Pod>,
    verdict: &mut Verdict,
) {
    for pod in pods.into_iter().filter(|pod| is_judged(cluster, pod)) {
        let problem = restarted_between_rounds(cluster, &pod.name).or_else(|| crashed_lately(cluster, pod));
        if let Some(problem) = problem {
            verdict.problem(Target::pod(pod.name.as_str(), pod.node.as_deref()), problem);
        }
    }
}

fn labeled<'a>(pods: &'a [Pod], app: &'static str) -> impl Iterator<Item = &'a Pod> {
    pods.iter().filter(move |pod| is_labeled(pod, app))
}

fn is_labeled(pod: &Pod, app: &str) -> bool {
    pod.labels.get("k8s-app").is_some_and(|label| label == app)
}

pub(super) fn is_of_dns(pod: &Pod) -> bool {
    is_labeled(pod, DNS_APP)
}

fn dns(cluster: &Assessment<'_>) -> Verdict {
    let endpoints =
        match listed(cluster, |kubernetes| &kubernetes.dns_endpoints, "the endpoints of kube-system/kube-dns") {
            Ok(endpoints) => endpoints,
            Err(outcome) => return Verdict::whole(outcome),
        };
    let target = Target::new(Kind::Workload, "kube-system/kube-dns");
    let mut verdict = Verdict::default();
    let (lost, ready): (Vec<_>, Vec<_>) = endpoints
        .iter()
        .filter(|endpoint| serves_dns(cluster, endpoint))
        .partition(|endpoint| endpoint.node.as_deref().is_some_and(|node| is_lost(cluster, node)));
    if lost.iter().filter_map(|endpoint| endpoint.node.as_deref()).any(|node| is_silent(cluster, node)) {
        // The lease may have been read just before it was renewed.
        verdict.resample_after = Some(RENEWAL);
    }
    let is_deserted =
        |endpoint: &&ServiceEndpoint| endpoint.node.as_deref().is_some_and(|name| leaves_silently(cluster, name));
    let (ready, lost) =
        if ready.iter().all(is_deserted) { (Vec::new(), [lost, ready].concat()) } else { (ready, lost) };
    let ready = instances(&ready);
    if ready > 0 {
        let outcome = unread_pods(cluster, endpoints);
        verdict.push(target, outcome.unwrap_or_else(|| enough_dns(cluster, ready, instances(&lost))));
        warn_of_restarts(cluster, dns_pods(cluster), &mut verdict);
        return verdict;
    }
    let wanted = wanted(cluster, |manifests| manifests.dns_enabled);
    let deployment = cluster.list(|kubernetes| &kubernetes.deployments).and_then(|deployments| coredns(deployments));
    // Another one may have a Service of its own.
    let serves_elsewhere = |deployment: &Workload| {
        endpoints.is_empty() && deployment.is_observed() && deployment.available >= deployment.desired
    };
    if wanted == Wanted::No && deployment.is_none_or(|it| it.desired == 0 || serves_elsewhere(it)) {
        verdict.skip(target, "disabled by configuration");
        return verdict;
    }
    verdict.problem(target, without_dns(cluster, endpoints, wanted, !lost.is_empty()));
    verdict
}

/// Why the pods behind these endpoints could not be read, which may know better.
pub(in crate::checks) fn unread_pods(cluster: &Assessment<'_>, endpoints: &[ServiceEndpoint]) -> Option<Outcome> {
    let are_pods = endpoints.iter().any(|endpoint| endpoint.pod.is_some());
    system_pods(cluster).err().filter(|_| are_pods)
}

/// Resolvers come by UDP.
pub(in crate::checks) fn serves_dns(cluster: &Assessment<'_>, endpoint: &ServiceEndpoint) -> bool {
    endpoint.serves("UDP") && !is_dead(cluster, endpoint)
}

/// Its pod says itself that it is not ready or is at another address, or is gone: nobody has taken the endpoint away, or the
/// Service publishes such.
fn is_dead(cluster: &Assessment<'_>, endpoint: &ServiceEndpoint) -> bool {
    let pods = system_pods(cluster).ok();
    let Some((name, pods)) = endpoint.pod.as_ref().zip(pods) else { return false };
    let mut its = pods.iter().filter(|pod| pod.name == *name).peekable();
    // An endpoint has addresses of one family.
    let is_of_its_family = |it: &&String| endpoint.addresses.iter().all(|its| its.contains(':') == it.contains(':'));
    let is_elsewhere = |pod: &Pod| {
        let mut own = pod.addresses.iter().filter(is_of_its_family).peekable();
        own.peek().is_some() && !own.any(|it| endpoint.addresses.contains(it))
    };
    let is_unready = |pod: &Pod| !is_well(&pod.state) && pod.unready_for.is_none_or(|since| since >= UNNOTICED);
    its.peek().is_none() || its.any(|pod| is_unready(pod) || is_elsewhere(pod))
}

/// A pod has an endpoint for each address family.
fn instances(endpoints: &[&ServiceEndpoint]) -> i32 {
    let instance = |endpoint: &&ServiceEndpoint| endpoint.pod.clone().unwrap_or_else(|| endpoint.addresses.join(" "));
    let instances: BTreeSet<String> = endpoints.iter().map(instance).collect();
    i32::try_from(instances.len()).unwrap_or(i32::MAX)
}

/// Its kubelet has fallen silent or says itself that the node is not ready, and nobody is removing it.
pub(super) fn is_lost(cluster: &Assessment<'_>, name: &str) -> bool {
    let is_left_out = cluster.node(name).is_some_and(|node| node.leaving);
    !is_left_out && object(cluster, name).is_some_and(|object| !works(cluster, object))
}

/// Who removes a node has pods made elsewhere first; until then, one that has fallen silent serves nobody.
fn leaves_silently(cluster: &Assessment<'_>, name: &str) -> bool {
    cluster.node(name).is_some_and(|node| node.leaving) && is_silent(cluster, name)
}

/// Nothing on this node serves anybody any more, whoever is to know of that.
pub(in crate::checks) fn has_fallen_silent(cluster: &Assessment<'_>, name: &str) -> bool {
    is_lost(cluster, name) || leaves_silently(cluster, name)
}

/// Those of the nodes. Without them nobody knows whether what is on a node still works.
pub(in crate::checks) fn leases<'a>(cluster: &'a Assessment<'_>) -> Result<&'a Leases, Outcome> {
    let expected = "the leases of the nodes";
    let leases = listed(cluster, |kubernetes| &kubernetes.node_leases, expected)?;
    if leases.by_name.is_empty() { Err(says_nothing(expected, "an empty list")) } else { Ok(leases) }
}

/// The nodes whose kubelets say that they work, and say so still.
pub(in crate::checks) fn working_nodes<'a>(cluster: &'a Assessment<'_>) -> Result<HashSet<&'a str>, Outcome> {
    leases(cluster)?;
    let objects = listed(cluster, |kubernetes| &kubernetes.nodes, "the list of nodes")?;
    let working = objects.iter().filter(|object| works(cluster, object));
    Ok(working.map(|object| object.name.as_str()).collect())
}

/// Its kubelet says so, and goes on saying it.
fn works(cluster: &Assessment<'_>, object: &KubeNode) -> bool {
    says_ready(object) && !is_silent(cluster, &object.name)
}

/// It does not renew its lease.
fn is_silent(cluster: &Assessment<'_>, name: &str) -> bool {
    let leases = cluster.list(|kubernetes| &kubernetes.node_leases);
    leases.is_some_and(|leases| !leases.by_name.get(name).is_some_and(|lease| is_alive(lease, leases.date)))
}

fn object<'a>(cluster: &Assessment<'a>, name: &str) -> Option<&'a KubeNode> {
    cluster.list(|kubernetes| &kubernetes.nodes)?.iter().find(|object| object.name == name)
}

fn coredns(deployments: &[Workload]) -> Option<&Workload> {
    installed(deployments, "coredns", DNS_APP)
}

fn dns_pods<'a>(cluster: &'a Assessment<'_>) -> Vec<&'a Pod> {
    labeled_pods(cluster, DNS_APP)
}

/// There are `ready` instances, and `lost` ones on nodes that are lost.
fn enough_dns(cluster: &Assessment<'_>, ready: i32, lost: i32) -> Outcome {
    let deployments = listed(cluster, |kubernetes| &kubernetes.deployments, "the Deployments of kube-system");
    let deployment = match deployments.map(|deployments| coredns(deployments)) {
        Ok(deployment) => deployment,
        Err(outcome) => return outcome,
    };
    let mut pods = dns_pods(cluster);
    pods.retain(|pod| !has_ended(&pod.state.phase));
    // Without a Deployment, somebody else has set up these pods, and each is to serve.
    let live = i32::try_from(pods.len()).unwrap_or(i32::MAX);
    let desired = deployment.map_or(ready.max(live), |it| it.desired);
    pods.retain(|pod| !is_well(&pod.state));
    let given_up = deployment.and_then(|it| it.given_up.as_ref());
    let is_observed = deployment.is_none_or(Workload::is_observed);
    if desired <= ready && given_up.is_none() && is_observed {
        let unfinished = |it| unfinished(cluster, it, || pods, || 0, Reason::DnsDegraded);
        if let Some(problem) = deployment.and_then(unfinished) {
            let describe = Hint::run("{kubectl} -n kube-system describe pods -l k8s-app=kube-dns", []);
            return Outcome::problem(problem.hint(describe));
        }
        if let Some(it) = deployment.filter(|it| it.available < it.desired) {
            let observed = format!(
                "{ready} endpoints are ready, but {} of {} pods of Deployment {} are available",
                it.available, it.desired, it.name
            );
            let problem = Problem::warn(Reason::DnsDegraded, "the endpoints are pods of its Deployment", observed);
            let describe = Hint::run("{kubectl} -n kube-system describe deployment {}", [&it.name]);
            return Outcome::problem(problem.hint(describe));
        }
        let plural = if ready == 1 { "" } else { "s" };
        return Outcome::Pass(Some(format!("Cluster DNS: {ready} ready endpoint{plural}")));
    }
    if let Err(outcome) = system_pods(cluster) {
        return outcome;
    }
    let (gone, missing): (Vec<&Pod>, Vec<&Pod>) =
        pods.iter().partition(|pod| pod.node.as_deref().is_some_and(|node| is_lost(cluster, node)));
    let gone = i32::try_from(gone.len()).unwrap_or(i32::MAX).saturating_add(lost);
    // Where there is no such pod, only the Deployment tells for how long.
    let ages: Vec<_> = if missing.is_empty() {
        vec![deployment.and_then(|it| it.unchanged_for)]
    } else {
        missing.iter().map(|pod| pod.unready_for).collect()
    };
    let of_whom = deployment.map_or_else(String::new, |it| format!(" (Deployment {})", it.name));
    let expected = format!("{desired} ready endpoints of kube-system/kube-dns{of_whom}");
    let stuck = given_up.map(|words| format!("rollout stuck: {words}"));
    let unobserved = (!is_observed).then(|| "its current generation is not observed".to_owned());
    let refusal = deployment.and_then(Workload::refusal);
    let words = troubles(cluster, &missing).or(refusal).or(stuck).or(unobserved).map(|words| format!("; {words}"));
    let observed = format!("{ready} of {desired} replicas ready{}", words.unwrap_or_default());
    let problem = |severity| Problem { severity, ..Problem::warn(Reason::DnsDegraded, &expected, &observed) };
    let are_gone = desired > ready && missing.is_empty() && ready.saturating_add(gone) >= desired;
    Outcome::problem(if are_gone {
        problem(Severity::Warn).explained_by(CheckId::K8sNodesReady)
    } else {
        let crashes = missing.iter().any(|pod| is_stuck(cluster, pod));
        let problem = problem(severity_of(given_up.is_some() || crashes, &ages))
            .hint(Hint::run("{kubectl} -n kube-system describe pods -l k8s-app=kube-dns", []))
            .explained_by(deployment.and_then(by_webhook));
        match deployment.filter(|it| it.given_up.is_some() || it.refused.is_some()) {
            Some(it) => problem.hint(Hint::run("{kubectl} -n kube-system describe deployment {}", [&it.name])),
            None => problem,
        }
    })
}

/// An API server asks them before it creates a pod.
pub(super) fn by_webhook(workload: &Workload) -> Option<CheckId> {
    let is_theirs = workload.refused.as_ref().is_some_and(|words| words.contains("failed calling webhook"));
    is_theirs.then_some(CheckId::K8sWebhooks)
}

/// It has crashed for too long.
pub(super) fn is_stuck(cluster: &Assessment<'_>, pod: &Pod) -> bool {
    trouble(&pod.state, cluster.server_time()).is_some_and(|trouble| trouble.is_stuck)
}

/// What is wrong with pods, by name.
pub(super) fn troubles(cluster: &Assessment<'_>, pods: &[&Pod]) -> Option<String> {
    let words: Vec<String> = pods
        .iter()
        .filter_map(|pod| Some(format!("{}: {}", pod.name, trouble(&pod.state, cluster.server_time())?.words)))
        .collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// `are_lost`: there are endpoints on nodes that are lost.
fn without_dns(cluster: &Assessment<'_>, endpoints: &[ServiceEndpoint], wanted: Wanted, are_lost: bool) -> Problem {
    let expected = "a ready endpoint of kube-system/kube-dns";
    let deployment = cluster.list(|kubernetes| &kubernetes.deployments).map(|deployments| coredns(deployments));
    let pods = dns_pods(cluster);
    // Whether there is one that wants some, nobody tells.
    let is_unread = deployment.is_none() && wanted != Wanted::Yes;
    let chosen = || Hint::likely("if the cluster has no DNS on purpose: `--skip k8s.dns`");
    match deployment {
        Some(Some(deployment)) if deployment.desired == 0 => {
            let observed = format!("Deployment {} has 0 replicas", deployment.name);
            let problem = Problem::fail(Reason::DnsScaledToZero, expected, observed)
                .hint(Hint::remedy("{kubectl} -n kube-system scale deployment {} --replicas 2", [&deployment.name]));
            return if wanted == Wanted::NoTalos { problem.hint(chosen()) } else { problem };
        }
        None | Some(None) if endpoints.is_empty() && pods.is_empty() && (deployment.is_some() || is_unread) => {
            let nothing = if is_unread {
                "no endpoints and no pods, and the Deployments cannot be read"
            } else {
                "no endpoints, no Deployment and no pods"
            };
            let untold = |who: &str| {
                let observed = format!("{nothing}, and {who} whether DNS is wanted");
                Problem::error(Reason::DnsMissing, expected, observed)
            };
            return match wanted {
                Wanted::NoTalos => untold("without Talos it is unknown").hint(chosen()),
                Wanted::Unknown => untold("no control plane reported"),
                Wanted::Yes | Wanted::No => Problem::fail(Reason::DnsMissing, expected, nothing),
            };
        }
        _ => {}
    }
    let is_claimed = endpoints.iter().any(|endpoint| endpoint.ready && is_dead(cluster, endpoint));
    let none = match (is_claimed, are_lost) {
        (true, _) => "the endpoints do not match any ready pod",
        (false, true) => "those that are ready are on nodes that are not ready",
        (false, false) => "none is ready",
    };
    let is_alive = |pod: &&&Pod| !pod.node.as_deref().is_some_and(|node| is_lost(cluster, node));
    let observed = match (troubles(cluster, &pods), pods.iter().filter(is_alive).count()) {
        (Some(words), _) => words,
        // Nothing is wrong with the pods, and nobody is led to them.
        (None, ready @ 1..) if endpoints.iter().all(|endpoint| endpoint.addresses.is_empty()) => {
            let are = if ready == 1 { "pod is" } else { "pods are" };
            let problem =
                Problem::fail(Reason::DnsNoEndpoints, expected, format!("none, although {ready} {are} ready"))
                    .hint(Hint::likely(
                        "the selector of the Service does not match the pods, or the endpoints are not kept",
                    ))
                    .hint(Hint::run("{kubectl} -n kube-system describe service kube-dns", []))
                    .hint(Hint::run("{kubectl} -n kube-system get pods -l k8s-app=kube-dns --show-labels", []));
            // Another Service may lead to them.
            if endpoints.is_empty() && wanted == Wanted::NoTalos {
                return Problem { severity: Severity::Error, ..problem }.hint(chosen());
            }
            return problem;
        }
        (None, _) => none.to_owned(),
    };
    let problem = Problem::fail(Reason::DnsNoEndpoints, expected, observed)
        .hint(Hint::run("{kubectl} -n kube-system describe pods -l k8s-app=kube-dns", []));
    if are_lost || nowhere_to_run(cluster, &pods) { problem.explained_by(CheckId::K8sNodesReady) } else { problem }
}

/// Every node that could run or runs DNS is not ready.
fn nowhere_to_run(cluster: &Assessment<'_>, pods: &[&Pod]) -> bool {
    let Some(objects) = cluster.list(|kubernetes| &kubernetes.nodes) else { return false };
    if !objects.iter().any(says_ready) {
        return true;
    }
    let is_unready = |name: &str| {
        let object = cluster.node(name).and_then(|node| cluster.object(node));
        object.is_some_and(|object| !says_ready(object))
    };
    !pods.is_empty() && pods.iter().all(|pod| pod.node.as_deref().is_some_and(is_unready))
}
