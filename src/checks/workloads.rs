//! kube-proxy, flannel and cluster DNS, which Talos installs unless its configuration says otherwise.

use super::kube_common::{READY, listed, object_of, says_ready, trouble};
use super::kube_nodes::unready;
use super::{Check, Fact, Hint, Kind, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{BootstrapManifests, DaemonSet, Deployment, Pod, ServiceEndpoint, Snapshot};

pub(super) const KUBE_PROXY: Check = Check {
    id: "k8s.kube-proxy",
    stage: Stage::Nodes,
    summary: "kube-proxy runs on every node that it should run on",
    explain: "Reads the DaemonSet kube-proxy: its controller has seen its present form, and as many pods are available as there \
should be. Without kube-proxy a node cannot reach Services, DNS first of all.\n\n\
Skipped where the cluster's configuration disables it, as with a network plugin that replaces it. A DaemonSet that wants no pods \
because nothing has counted the nodes yet does not pass.\n\n\
The nodes that lack a ready pod are named; look at the pods there (`kubectl -n kube-system get pods -l k8s-app=kube-proxy -o wide`).",
    severity: Severity::Fail,
    requires: &["k8s.credentials", "k8s.api.endpoint", "k8s.api.identity"],
    facts: &[
        Fact::TalosNodes,
        Fact::BootstrapManifests,
        Fact::DaemonSets,
        Fact::Pods,
        Fact::KubeNodes,
        Fact::NodeLeases,
    ],
    judge: |snapshot| on_every_node(snapshot, &PROXY),
};

pub(super) const CNI: Check = Check {
    id: "k8s.cni",
    stage: Stage::Nodes,
    summary: "the network plugin that Talos installs runs on every node that it should run on",
    explain: "Where the cluster's configuration has Talos install flannel, reads the DaemonSet kube-flannel as k8s.kube-proxy does \
its own: its controller has seen its present form, and as many pods are available as there should be. Where flannel's pod does not \
run, new pods get no network; those that have one lose the way to other nodes.\n\n\
Any other network plugin is not known here, and the check is skipped: whether the nodes are ready decides.\n\n\
The nodes that lack a ready pod are named; look at the pods there (`kubectl -n kube-system get pods -l k8s-app=flannel -o wide`).",
    severity: Severity::Fail,
    requires: &["k8s.credentials", "k8s.api.endpoint", "k8s.api.identity"],
    facts: &[
        Fact::TalosNodes,
        Fact::BootstrapManifests,
        Fact::DaemonSets,
        Fact::Pods,
        Fact::KubeNodes,
        Fact::NodeLeases,
    ],
    judge: |snapshot| on_every_node(snapshot, &FLANNEL),
};

pub(super) const DNS: Check = Check {
    id: "k8s.dns",
    stage: Stage::Nodes,
    summary: "the DNS Service has a ready endpoint",
    explain: "Counts the ready endpoints of the Service kube-system/kube-dns. What stands behind them is not asked after: a \
replaced CoreDNS passes like Talos's own.\n\n\
Without an endpoint no pod resolves a name. The usual reasons: no node is ready yet, the pods cannot be scheduled, they crash \
because of a forwarding loop, or somebody has scaled the deployment to zero.\n\n\
Skipped where the cluster's configuration disables DNS and nothing serves it. With --no-talos nothing tells that: where no part \
of it is there, whether it was deleted cannot be determined, and `--skip k8s.dns` says that it is not wanted. Otherwise look at `kubectl -n kube-system describe \
pods -l k8s-app=kube-dns`.",
    severity: Severity::Fail,
    requires: &["k8s.credentials", "k8s.api.endpoint", "k8s.api.identity"],
    facts: &[
        Fact::TalosNodes,
        Fact::BootstrapManifests,
        Fact::DnsEndpoints,
        Fact::Deployments,
        Fact::Pods,
        Fact::KubeNodes,
    ],
    judge: dns,
};

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

fn wanted(snapshot: &Snapshot, enabled: fn(&BootstrapManifests) -> bool) -> Wanted {
    if snapshot.talos.is_none() {
        return Wanted::NoTalos;
    }
    let mut told = snapshot.control_planes().flat_map(|node| &node.talos.bootstrap_manifests).flatten().map(enabled);
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
    pods: Hint,
}

const PROXY: Installed = Installed {
    name: "kube-proxy",
    app: "kube-proxy",
    enabled: |manifests| manifests.proxy_enabled,
    disabled: "disabled by configuration",
    pods: Hint::Try {
        command: "{kubectl} -n kube-system get pods -l k8s-app=kube-proxy -o wide",
        arguments: Vec::new(),
    },
};

const FLANNEL: Installed = Installed {
    name: "kube-flannel",
    app: "flannel",
    enabled: |manifests| manifests.flannel_enabled,
    disabled: "another network plugin, or none: the readiness of the nodes decides",
    pods: Hint::Try { command: "{kubectl} -n kube-system get pods -l k8s-app=flannel -o wide", arguments: Vec::new() },
};

fn on_every_node(snapshot: &Snapshot, its: &Installed) -> Verdict {
    let sets = match listed(snapshot, |kubernetes| &kubernetes.daemon_sets, "the DaemonSets of kube-system") {
        Ok(sets) => sets,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let is_it = |set: &&DaemonSet| set.labels.get("k8s-app").is_some_and(|app| app == its.app) || set.name == its.name;
    let target = Target::new(Kind::Workload, format!("kube-system/{}", its.name));
    let missing = format!("DaemonSet {}", its.name);
    let mut verdict = Verdict::default();
    match (wanted(snapshot, its.enabled), sets.iter().find(is_it)) {
        (Wanted::No, _) => verdict.skip(target, its.disabled),
        (Wanted::NoTalos, None) => verdict.skip(target, "there is none; something else may do its work"),
        (_, Some(set)) => coverage(snapshot, its, set, &target, &mut verdict),
        (Wanted::Yes, None) => {
            let problem = Problem::fail(Reason::DaemonsetMissing, missing, "there is none");
            let hint = Hint::likely("Talos has not applied its bootstrap manifests yet, or somebody has deleted it");
            verdict.problem(target, problem.hint(hint));
        }
        (Wanted::Unknown, None) => {
            let observed = "there is none, and no control plane told whether it is wanted";
            verdict.problem(target, Problem::error(Reason::DaemonsetMissing, missing, observed));
        }
    }
    verdict
}

fn coverage(snapshot: &Snapshot, its: &Installed, set: &DaemonSet, target: &Target, verdict: &mut Verdict) {
    if set.observed_generation.is_none_or(|observed| observed < set.generation) {
        let observed = format!("generation {}, last observed {}", set.generation, set.observed_generation.unwrap_or(0));
        let problem = Problem::fail(Reason::DaemonsetIncomplete, "its present form has been observed", observed)
            .hint(Hint::likely("kube-controller-manager does not work, or has only just started"));
        return verdict.problem(target.clone(), problem);
    }
    if set.desired == 0 {
        return verdict.skip(target.clone(), "wanted on no node");
    }
    let line = format!("{}: available on {} of {} nodes", its.name, set.available, set.desired);
    if set.available >= set.desired {
        return verdict.pass(target.clone(), line);
    }
    let expected = format!("available on {} nodes", set.desired);
    let short = usize::try_from(i64::from(set.desired) - i64::from(set.available)).unwrap_or_default();
    let lacking = lacking(snapshot, its, short);
    let left_out = |name: &str| snapshot.nodes.iter().any(|node| node.leaving && node.name == name);
    if lacking.len() >= short && lacking.iter().all(|(name, _)| left_out(name)) {
        return verdict.pass(target.clone(), line);
    }
    let unready = unready(snapshot);
    for (name, words) in &lacking {
        if left_out(name) {
            continue;
        }
        let known = snapshot.node(name);
        let target = known.map_or_else(|| Target::new(Kind::Node, name.as_str()), Target::node);
        let expected = format!("a ready pod of {}", its.name);
        let problem = Problem::fail(Reason::DaemonsetIncomplete, expected, words.as_str());
        let problem = match unready.iter().find(|(unready, _)| unready == name) {
            Some((_, Severity::Warn)) => Problem { severity: Severity::Warn, ..problem },
            Some(_) => problem.explained_by(READY),
            None => problem.hint(its.pods.clone()),
        };
        verdict.problem(target, problem);
    }
    // Those that are named may be missing with permission; what they do not account for may not.
    if lacking.len() < short {
        let observed = format!("available on {}", set.available);
        verdict.problem(target.clone(), Problem::fail(Reason::DaemonsetIncomplete, expected, observed));
    }
}

/// Nodes without a ready pod of a DaemonSet, and why: first those whose pod is not ready, then, if they do not make up the
/// number, Talos machines without one (other nodes may be excluded on purpose).
fn lacking(snapshot: &Snapshot, its: &Installed, short: usize) -> Vec<(String, String)> {
    let Ok(pods) = listed(snapshot, |kubernetes| &kubernetes.pods, "the pods of kube-system") else {
        return Vec::new();
    };
    let pods: Vec<&Pod> = labelled(pods, its.app).collect();
    let mut without = Vec::new();
    let mut unready = Vec::new();
    for node in &snapshot.nodes {
        let here = || pods.iter().filter(|pod| pod.node.as_ref() == Some(&node.name)).map(|pod| trouble(&pod.state));
        // One ready pod is enough: during a rolling update there may be two.
        match here().reduce(Option::and) {
            Some(Some(trouble)) => unready.push((node.name.clone(), trouble.words)),
            None if node.is_talos && node.sources.kubernetes => without.push((node.name.clone(), "no pod".to_owned())),
            _ => {}
        }
    }
    if unready.len() < short {
        unready.append(&mut without);
    }
    unready
}

fn labelled<'a>(pods: &'a [Pod], app: &'static str) -> impl Iterator<Item = &'a Pod> {
    pods.iter().filter(move |pod| pod.labels.get("k8s-app").is_some_and(|label| label == app))
}

fn dns(snapshot: &Snapshot) -> Verdict {
    let endpoints =
        match listed(snapshot, |kubernetes| &kubernetes.dns_endpoints, "the endpoints of kube-system/kube-dns") {
            Ok(endpoints) => endpoints,
            Err(outcome) => return Verdict::whole(outcome),
        };
    let target = Target::new(Kind::Workload, "kube-system/kube-dns");
    let mut verdict = Verdict::default();
    let ready = endpoints.iter().filter(|endpoint| endpoint.ready && !endpoint.addresses.is_empty()).count();
    if ready > 0 {
        let plural = if ready == 1 { "" } else { "s" };
        verdict.pass(target, format!("Cluster DNS: {ready} ready endpoint{plural}"));
        return verdict;
    }
    let wanted = wanted(snapshot, |manifests| manifests.dns_enabled);
    if wanted == Wanted::No {
        verdict.skip(target, "disabled by configuration");
        return verdict;
    }
    verdict.problem(target, without_dns(snapshot, endpoints, wanted));
    verdict
}

fn dns_pods(snapshot: &Snapshot) -> Vec<&Pod> {
    let pods = listed(snapshot, |kubernetes| &kubernetes.pods, "the pods of kube-system");
    pods.iter().flat_map(|pods| labelled(pods, "kube-dns")).collect()
}

/// The pods of cluster DNS that crash again and again, each with what is said of it.
pub(crate) fn crashing_dns(snapshot: &Snapshot) -> Vec<(&Pod, String)> {
    let crashes = |pod: &Pod| trouble(&pod.state).filter(|trouble| trouble.crash_looping);
    dns_pods(snapshot).into_iter().filter_map(|pod| Some((pod, crashes(pod)?.words))).collect()
}

fn without_dns(snapshot: &Snapshot, endpoints: &[ServiceEndpoint], wanted: Wanted) -> Problem {
    let expected = "a ready endpoint of kube-system/kube-dns";
    let deployments = listed(snapshot, |kubernetes| &kubernetes.deployments, "the Deployments of kube-system");
    let is_dns =
        |it: &&Deployment| it.labels.get("k8s-app").is_some_and(|app| app == "kube-dns") || it.name == "coredns";
    let deployment = deployments.as_ref().map(|list| list.iter().find(is_dns));
    let pods = dns_pods(snapshot);
    let chosen = || Hint::likely("where the cluster does without it on purpose, say so: `--skip k8s.dns`");
    match deployment {
        Ok(Some(deployment)) if deployment.replicas == 0 => {
            let observed = format!("Deployment {} has 0 replicas", deployment.name);
            let problem = Problem::fail(Reason::DnsScaledToZero, expected, observed)
                .hint(Hint::remedy("{kubectl} -n kube-system scale deployment {} --replicas 2", [&deployment.name]));
            return if wanted == Wanted::NoTalos { problem.hint(chosen()) } else { problem };
        }
        Ok(None) if endpoints.is_empty() && pods.is_empty() => {
            let nothing = "neither endpoints, Deployment nor pods";
            let untold = |who: &str| {
                let observed = format!("{nothing}, and {who} whether DNS is wanted");
                Problem::error(Reason::DnsMissing, expected, observed)
            };
            return match wanted {
                Wanted::NoTalos => untold("without Talos nothing tells").hint(chosen()),
                Wanted::Unknown => untold("no control plane told"),
                Wanted::Yes | Wanted::No => Problem::fail(Reason::DnsMissing, expected, nothing),
            };
        }
        _ => {}
    }
    let troubles: Vec<String> =
        pods.iter().filter_map(|pod| Some(format!("{}: {}", pod.name, trouble(&pod.state)?.words))).collect();
    let observed = if troubles.is_empty() { "none is ready".to_owned() } else { troubles.join("; ") };
    let problem = Problem::fail(Reason::DnsNoEndpoints, expected, observed)
        .hint(Hint::run("{kubectl} -n kube-system describe pods -l k8s-app=kube-dns", []));
    if nowhere_to_run(snapshot, &pods) { problem.explained_by(READY) } else { problem }
}

/// Every node that could run or runs DNS is not ready.
fn nowhere_to_run(snapshot: &Snapshot, pods: &[&Pod]) -> bool {
    let Ok(objects) = listed(snapshot, |kubernetes| &kubernetes.nodes, "the list of nodes") else {
        return false;
    };
    if !objects.iter().any(says_ready) {
        return true;
    }
    let is_unready = |name: &str| {
        let object = snapshot.node(name).and_then(|node| object_of(snapshot, node, objects));
        object.is_some_and(|object| !says_ready(object))
    };
    !pods.is_empty() && pods.iter().all(|pod| pod.node.as_deref().is_some_and(is_unready))
}
