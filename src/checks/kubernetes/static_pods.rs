//! Static pods: those that Talos has rendered, and their state on the kubelets.

use std::collections::{BTreeMap, BTreeSet};

use super::{failed, is_amiss, miss_mirrors, push_or_look_again, restarted, silent};
use crate::assess::components::{Component, State};
use crate::assess::workloads::{describe_unready, has_completed, is_well};
use crate::assess::{Assessment, Life, etcd_is_bad, has_kubernetes, service};
use crate::checks::Check;
use crate::checks::gaps::{self, kubelet_word, listed, talos_contact, talos_way, unseen};
use crate::checks::scope::{control_planes, reason_not_judged};
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Role, Severity, Stage, Target, Verdict};
use crate::snapshot::{GapKind, KubeNode, Node, Pod, PodState};

pub(in crate::checks) const RENDERED: Check = Check {
    id: CheckId::K8sStaticpodsRendered,
    stage: Stage::StaticPods,
    summary: "Talos has rendered the configured static pods",
    explain: "On each control plane Talos writes the manifests of kube-apiserver and, unless disabled, of \
kube-controller-manager and kube-scheduler, once their configuration files and secrets exist (`ConfigStatuses`, ID \
`static-pods`).\n\n\
Nothing is rendered before etcd runs, so on a cluster that was not bootstrapped this repeats what etcd.service reports. \
Otherwise a mistake in the machine configuration, such as an invalid admission plugin configuration, keeps Talos from \
rendering.\n\n\
`talosctl -n NODE logs controller-runtime` names the controller that failed and why.",
    severity: Severity::Fail,
    finds: &[Reason::StaticPodNotRendered],
    facts: &[Fact::TalosNodes, Fact::Services, Fact::StaticPods, Fact::ConfigStatuses, Fact::ComponentConfigs],
    judge: rendered,
};

pub(in crate::checks) const RUNNING: Check = Check {
    id: CheckId::K8sStaticpodsRunning,
    stage: Stage::StaticPods,
    summary: "every static pod runs and is ready",
    explain: "Every static pod that Talos has rendered, including custom ones and those on workers, has a status from the \
node's kubelet, and the status is ready. On workers Talos reports no statuses; there the mirror pods in Kubernetes are \
checked. Those in namespaces that the credentials cannot read are listed as not checked. etcd is a Talos service, not a pod; \
it is shown here as etcd-NODE. With --no-talos, static pods of etcd are counted, too: if the loss of another one would stop etcd, \
this is a failure, unless all of them work.\n\n\
Talos refreshes the statuses through the kubelet's API. If that fails, typically because the kubelet's serving certificate was \
never approved, all statuses of the node are missing although the pods run. Their state is then unknown: an error, not a \
failure.\n\n\
Control plane components that have already failed in stage 5 are shown again, explained by that failure. `talosctl -n NODE \
containers --kubernetes` lists the containers, `talosctl -n NODE get staticpodstatus -o yaml` the statuses, `kubectl get csr` pending \
certificates.",
    severity: Severity::Fail,
    finds: &[
        Reason::CrashLooping,
        Reason::Restarting,
        Reason::StaticPodMissing,
        Reason::StaticPodFailed,
        Reason::NoTolerance,
    ],
    facts: &[
        Fact::TalosNodes,
        Fact::Services,
        Fact::StaticPods,
        Fact::StaticPodStatuses,
        Fact::Pods,
        Fact::KubeNodes,
        Fact::NodeLeases,
        Fact::SystemLeases,
    ],
    judge: running,
};

fn rendered(cluster: &Assessment<'_>) -> Verdict {
    if !cluster.asks_talos() {
        return Verdict::skipped("--no-talos: only Talos reports what it renders");
    }
    let nodes = match control_planes(cluster) {
        Ok(nodes) => nodes,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut verdict = Verdict::default();
    for node in nodes {
        verdict.push(node.target(), rendered_on(cluster, node));
    }
    verdict
}

fn rendered_on(cluster: &Assessment<'_>, node: &Node) -> Outcome {
    if let Some(why) = reason_not_judged(cluster, node) {
        return Outcome::Skip(why.to_owned());
    }
    if let Err(outcome) = talos_contact(cluster, node) {
        return outcome;
    }
    if has_kubernetes(node) == Some(false) {
        return Outcome::Skip("no Kubernetes on this machine".to_owned());
    }
    let ids = match &node.talos.static_pods {
        Ok(ids) => ids,
        Err(gap) => return Outcome::problem(gaps::talos(gap, "the list of static pods")),
    };
    let mut missing = Vec::new();
    for component in Component::ALL {
        if ids.iter().any(|id| component.is_rendered_as(id, node)) {
            continue;
        }
        match component.enabled(&node.talos) {
            Ok(Some(true)) => missing.push(component.name()),
            Ok(Some(false)) => {}
            // Without the component's configuration, it is unknown whether the component is missing.
            Ok(None) if etcd_is_bad(node) => missing.push(component.name()),
            Ok(None) => {
                let observed = format!("unknown whether {} is enabled", component.name());
                return Outcome::problem(Problem::error(Reason::NoAnswer, "the component's configuration", observed));
            }
            Err(gap) => return Outcome::problem(gaps::talos(&gap, "the component's configuration")),
        }
    }
    let fail = |observed: String| {
        let problem = Problem::fail(Reason::StaticPodNotRendered, "rendered from a ready configuration", observed)
            .hint(Hint::run("{talosctl} -n {} logs controller-runtime", [&node.address]));
        Outcome::problem(problem)
    };
    if !missing.is_empty() {
        return fail(format!("not rendered: {}", missing.join(", ")));
    }
    match &node.talos.config_statuses {
        Err(gap) => Outcome::problem(gaps::talos(gap, "the state of the static pods' configuration")),
        Ok(statuses) => match statuses.iter().find(|status| status.id == "static-pods") {
            Some(status) if status.ready => Outcome::Pass(None),
            Some(_) => fail("their configuration and secrets are not ready".to_owned()),
            None => fail("their configuration and secrets are not reported as ready".to_owned()),
        },
    }
}

fn running(cluster: &Assessment<'_>) -> Verdict {
    if !cluster.asks_talos() {
        return mirrors(cluster);
    }
    let mut verdict = Verdict::default();
    for node in cluster.nodes().iter().filter(|node| node.is_talos) {
        if let Some(why) = reason_not_judged(cluster, node) {
            verdict.skip(node.target(), why);
        } else {
            pods_of(cluster, node, &mut verdict);
            let is_etcd_elsewhere = cluster.asks_etcd() && service(node, "etcd").is_none();
            if node.role == Role::ControlPlane && talos_contact(cluster, node).is_ok() && !is_etcd_elsewhere {
                verdict.push(Target::pod(format!("etcd-{}", node.name), Some(&node.name)), etcd(node));
            }
        }
    }
    if verdict.findings.is_empty() {
        if let Err(outcome) = talos_way(cluster) {
            return Verdict::whole(outcome);
        }
        let problem = Problem::error(Reason::NoAnswer, "machines with static pods", "no Talos machine is known");
        verdict.problem(Target::cluster(), problem);
    }
    miss_mirrors(cluster, &mut verdict);
    verdict
}

fn pods_of(cluster: &Assessment<'_>, node: &Node, verdict: &mut Verdict) {
    let target = node.target();
    // The machine itself reports this, so its lack of a kubelet is not an obstacle.
    if has_kubernetes(node) == Some(false) {
        return verdict.skip(target, "no Kubernetes on this machine");
    }
    if let Err(outcome) = kubelet_word(cluster, node) {
        return verdict.push(target, outcome);
    }
    let (ids, statuses) = match (&node.talos.static_pods, &node.talos.static_pod_statuses) {
        (Ok(ids), Ok(statuses)) => (ids, statuses),
        (Err(gap), _) => return verdict.problem(target, gaps::talos(gap, "the list of static pods")),
        (_, Err(gap)) => return verdict.problem(target, gaps::talos(gap, "the statuses of the static pods")),
    };
    if ids.is_empty() && statuses.is_empty() {
        return match node.role {
            Role::Worker => verdict.skip(target, "no static pods"),
            _ => verdict.push(target, not_rendered()),
        };
    }
    if statuses.is_empty() && node.role == Role::Worker {
        return on_worker(cluster, node, ids, verdict);
    }
    if statuses.is_empty() {
        let problem = Problem::error(Reason::StatusStale, format!("statuses of {} static pods", ids.len()), "Talos has none")
            .hint(Hint::likely(
                "Talos cannot query the kubelet: its serving certificate may not be approved (as an administrator: `kubectl get csr`)",
            ));
        return verdict.problem(target, problem);
    }
    // A control plane always has these pods; an empty list of static pods together with some statuses must not hide a missing one.
    for id in ids {
        if !statuses.iter().any(|status| is_id_of(id, &status.namespace, &status.name, node)) {
            let problem = not_created(node, "no status reported by the kubelet");
            verdict.problem(Target::pod(pod_name(id, node), Some(&node.name)), problem);
        }
    }
    for status in statuses {
        let target = Target::pod(status.name.as_str(), Some(&node.name));
        let state = cluster.static_pod(node, status);
        let component = Component::ALL.into_iter().find(|component| component.is_of(status, node));
        verdict.push(target, pod(cluster, &status.name, state, component));
    }
    if ids.is_empty() && node.role != Role::Worker {
        verdict.push(target, not_rendered());
    }
}

/// Reports a manifest for which the kubelet has not created a pod. The reason is in the kubelet's log; Talos' log shows whether Talos has
/// rendered the manifest.
fn not_created(node: &Node, observed: &str) -> Problem {
    Problem::fail(Reason::StaticPodMissing, "running and ready", observed)
        .hint(Hint::run("{talosctl} -n {} logs kubelet", [&node.address]))
        .hint(Hint::run("{talosctl} -n {} logs controller-runtime", [&node.address]))
}

fn not_rendered() -> Outcome {
    unseen(Reason::StaticPodNotRendered, "static pods that Talos has rendered", "none")
}

/// Judges the static pods of a worker by their mirror pods in Kubernetes. Talos queries kubelets with a certificate that only control
/// planes have, so a worker has static pods but never a status.
fn on_worker(cluster: &Assessment<'_>, node: &Node, ids: &[String], verdict: &mut Verdict) {
    let pods = match listed(cluster, |kubernetes| &kubernetes.pods, "the pods of kube-system") {
        Ok(pods) => pods,
        Err(outcome) => return verdict.push(node.target(), outcome),
    };
    for id in ids {
        let target = Target::pod(pod_name(id, node), Some(&node.name));
        if node.talos.skips_registration {
            verdict.skip(target, "Kubernetes shows no static pods of a kubelet that registers no Node");
            continue;
        }
        let is_it = |pod: &Pod| is_id_of(id, &pod.namespace, &pod.name, node);
        let shows = |pod: &&Pod| pod.mirror && cluster.is_on(pod, node) && is_it(pod);
        if let Some(found) = pods.iter().find(shows) {
            push_or_look_again(verdict, Target::pod(found.name.as_str(), Some(&node.name)), mirror(cluster, found));
        } else if id.starts_with("kube-system-") || Component::of_static_pod(id, node).is_some() {
            let observed = "Kubernetes shows no mirror pod of it";
            verdict.problem(target, not_created(node, observed));
        } else {
            push_or_look_again(verdict, target, user_pod(cluster, node, id));
        }
    }
}

/// Judges a user's static pod on a worker.
fn user_pod(cluster: &Assessment<'_>, node: &Node, id: &str) -> Outcome {
    let unseen = |why: &str| Outcome::Skip(format!("Talos reports no status of static pods on workers, and {why}"));
    let Some(pod) = node.talos.user_pods.iter().find(|pod| pod.id == id) else {
        return unseen("its manifest cannot be read");
    };
    let mirror_name = format!("{}-{}", pod.name, node.name);
    let expected = format!("pod {mirror_name}");
    let found = cluster.own_kubernetes.and_then(|it| it.user_pods.get(&(pod.namespace.clone(), mirror_name)));
    match found {
        Some(Ok(Some(found))) if found.mirror && cluster.is_on(found, node) => mirror(cluster, found),
        Some(Ok(_)) => {
            let observed = "Kubernetes shows no mirror pod of it";
            Outcome::problem(not_created(node, observed))
        }
        Some(Err(gap)) if gap.kind == GapKind::Forbidden => {
            unseen(&format!("the credentials cannot read pods of namespace {}", pod.namespace))
        }
        Some(Err(gap)) => Outcome::problem(gaps::kubernetes(cluster, gap, &expected)),
        None => unseen("too many to query Kubernetes for each"),
    }
}

/// Judges the state of a static pod, of a component or of the user.
fn pod(cluster: &Assessment<'_>, name: &str, state: &PodState, component: Option<Component>) -> Outcome {
    match describe_unready(state, cluster.server_time()) {
        None => match restarted(cluster, name) {
            Some(problem) => Outcome::problem(problem),
            None => Outcome::Pass(Some(format!("{name}: Running"))),
        },
        // A user's static pod may be meant to end.
        Some(_) if component.is_none() && has_completed(state) => Outcome::Pass(Some(format!("{name}: Succeeded"))),
        Some(trouble) => Outcome::problem(failed(&trouble, Reason::StaticPodFailed)),
    }
}

/// Returns true if the id belongs to this pod. The id is `kube-apiserver`, with the node's name on older Talos, and with the namespace in
/// front for users' pods.
fn is_id_of(id: &str, namespace: &str, pod: &str, node: &Node) -> bool {
    let Some(base) = pod.strip_suffix(&node.name).and_then(|rest| rest.strip_suffix('-')) else {
        return false;
    };
    let is_own = id.strip_suffix(base).and_then(|rest| rest.strip_suffix('-')) == Some(namespace);
    is_own || namespace == "kube-system" && (id == base || id == pod)
}

fn pod_name(id: &str, node: &Node) -> String {
    let suffix = format!("-{}", node.name);
    if id.ends_with(&suffix) { id.to_owned() } else { format!("{id}{suffix}") }
}

/// Judges etcd, which is a service of Talos, but which users look for among the static pods.
fn etcd(node: &Node) -> Outcome {
    match &node.talos.services {
        Ok(_) => match service(node, "etcd") {
            Some(service) if service.is_healthy() => Outcome::Pass(Some(format!("etcd-{}: Running", node.name))),
            Some(service) => {
                let observed = format!("{}: {}", service.state, service.health_message);
                Outcome::problem(etcd_is_down(observed.trim_end_matches([':', ' '])))
            }
            None => Outcome::problem(etcd_is_down("there is no such service")),
        },
        Err(gap) if gap.kind == GapKind::NotAsked => Outcome::problem(gaps::talos(gap, "the services")),
        Err(gap) => Outcome::problem(gaps::talos(gap, "the services").unseen()),
    }
}

fn etcd_is_down(observed: &str) -> Problem {
    Problem::fail(Reason::StaticPodFailed, "service etcd is running and healthy", observed)
}

/// Judges static pods with `--no-talos`: every mirror pod, and at least those of the control plane.
fn mirrors(cluster: &Assessment<'_>) -> Verdict {
    let pods = match listed(cluster, |kubernetes| &kubernetes.pods, "the pods of kube-system") {
        Ok(pods) => pods,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let (nodes, elsewhere) = match control_planes(cluster) {
        Ok(nodes) => (nodes, None),
        // Workers have static pods, too.
        Err(Outcome::Skip(why)) => (Vec::new(), Some(why)),
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut verdict = Verdict::default();
    let is_not_judged = |node: &Node| reason_not_judged(cluster, node).is_some();
    let has_mirror = |node: &Node| pods.iter().any(|pod| pod.mirror && cluster.is_on(pod, node));
    for node in cluster.nodes().iter().filter(|node| is_not_judged(node) && has_mirror(node)) {
        verdict.skip(node.target(), reason_not_judged(cluster, node).unwrap_or_default());
    }
    let is_judged = |pod: &&Pod| pod.mirror && !cluster.host_of(pod).is_some_and(is_not_judged);
    for pod in pods.iter().filter(is_judged) {
        push_or_look_again(&mut verdict, Target::pod(pod.name.as_str(), pod.node.as_deref()), mirror(cluster, pod));
    }
    for node in nodes {
        for component in Component::ALL {
            let name = component.pod_name(node);
            let shown = verdict.findings.iter().any(|finding| finding.target.name == name);
            if !shown && cluster.is_missed(component) && is_amiss(cluster, node, component) {
                let problem = Problem::fail(Reason::StaticPodMissing, "running and ready", "there is no mirror pod");
                let may_be_disabled = matches!(cluster.instance(node, component).state, State::MayBeDisabled(_));
                let severity = if may_be_disabled { Severity::Error } else { problem.severity };
                let problem = Problem { severity, ..problem };
                verdict.problem(Target::pod(name, Some(&node.name)), problem);
            }
        }
    }
    for (kind, node) in odd_ones_out(cluster, pods) {
        let problem = Problem::warn(Reason::StaticPodMissing, "as on most nodes", "there is no mirror pod");
        verdict.problem(Target::pod(format!("{kind}-{}", cluster.name_in_kubernetes(node)), Some(&node.name)), problem);
    }
    if let Some(problem) = without_tolerance(cluster) {
        verdict.problem(Target::cluster(), problem);
    }
    if verdict.findings.is_empty() {
        let none = "no node has a static pod";
        return Verdict::skipped(elsewhere.unwrap_or_else(|| none.to_owned()));
    }
    verdict
}

/// Static pods that most nodes of a role have, or most nodes of the cluster and some of the role, with the nodes that lack them. Components
/// of the control plane are checked separately on each node.
fn odd_ones_out<'a>(cluster: &Assessment<'a>, pods: &'a [Pod]) -> Vec<(&'a str, &'a Node)> {
    let is_windows = |node: &Node| cluster.object(node).is_some_and(KubeNode::is_windows);
    let works = |node: &Node| cluster.life_of(node) == Life::Works;
    let counts = |node: &&Node| reason_not_judged(cluster, node).is_none() && works(node) && !is_windows(node);
    let is_component = |kind: &&str| Component::ALL.iter().any(|component| component.name() == *kind);
    let mut having: BTreeMap<(Role, &str), BTreeSet<&str>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| pod.mirror) {
        let Some(host) = cluster.host_of(pod).filter(counts) else { continue };
        let kind = pod.name.strip_suffix(cluster.name_in_kubernetes(host)).and_then(|it| it.strip_suffix('-'));
        if let Some(kind) = kind.filter(|kind| !is_component(kind)) {
            having.entry((host.role, kind)).or_default().insert(&host.name);
        }
    }
    let everywhere =
        |kind: &str| having.iter().filter(|((_, its), _)| *its == kind).map(|(_, nodes)| nodes.len()).sum();
    let everywhere: BTreeMap<&str, usize> = having.keys().map(|(_, kind)| (*kind, everywhere(kind))).collect();
    let all = cluster.nodes().iter().filter(counts).count();
    let lacking = |((role, kind), having): ((Role, &'a str), BTreeSet<&str>)| {
        let nodes: Vec<&Node> = cluster.nodes().iter().filter(|node| node.role == role).filter(counts).collect();
        // A machine with nothing but an etcd member does not mean that other machines of its role need one.
        let is_common = kind != ETCD && everywhere.get(kind).is_some_and(|count| count * 2 > all);
        let is_usual = having.len() * 2 > nodes.len() || is_common;
        let lacking = nodes.into_iter().filter(|node| is_usual && !having.contains(node.name.as_str()));
        lacking.map(|node| (kind, node)).collect::<Vec<_>>()
    };
    having.into_iter().flat_map(lacking).collect()
}

/// Static pod of an etcd member, without the node's name.
const ETCD: &str = "etcd";

/// Returns the machines with a static pod of etcd, and whether each member works.
fn seen_etcd_pods<'a>(cluster: &'a Assessment<'_>) -> Result<BTreeMap<&'a str, bool>, Outcome> {
    let pods = listed(cluster, |kubernetes| &kubernetes.pods, "the pods of kube-system")?;
    let of_etcd = pods.iter().filter(|pod| pod.is_mirror_of(ETCD));
    let of_etcd = of_etcd.filter_map(|pod| Some((pod, cluster.host_of(pod)?)));
    let works = |pod: &Pod, host: &Node| is_well(&pod.state) && cluster.life_of(host).may_serve();
    Ok(of_etcd.map(|(pod, host)| (host.name.as_str(), works(pod, host))).collect())
}

/// Adds control planes without such a pod if most have one: it may be missing there, and counts as down.
pub(in crate::checks) fn etcd_pods<'a>(cluster: &'a Assessment<'_>) -> Result<BTreeMap<&'a str, bool>, Outcome> {
    let mut members = seen_etcd_pods(cluster)?;
    let control_planes: Vec<&Node> = cluster.control_planes().filter(|node| !node.leaving).collect();
    let having = control_planes.iter().filter(|node| members.contains_key(node.name.as_str())).count();
    for node in control_planes.iter().filter(|_| 2 * having > control_planes.len()) {
        members.entry(node.name.as_str()).or_insert(false);
    }
    Ok(members)
}

/// Reports that etcd cannot lose another member, by its static pods. Where etcd itself is queried, `etcd.tolerance` does.
fn without_tolerance(cluster: &Assessment<'_>) -> Option<Problem> {
    let members = seen_etcd_pods(cluster).ok().filter(|_| !cluster.etcd.is_external)?;
    let (up, needed) = (members.values().filter(|works| **works).count(), members.len() / 2 + 1);
    if members.len() < 3 || up > needed || up == members.len() {
        return None;
    }
    let observed =
        format!("{up} of {} static pods of etcd work, tolerates {}", members.len(), up.saturating_sub(needed));
    let down = members.iter().filter(|(_, works)| !**works).map(|(name, _)| *name);
    let problem = Problem::fail(Reason::NoTolerance, "etcd survives the loss of a member", observed).on(down);
    Some(problem.hint(Hint::run("{kubectl} get pods -A -o wide", [])))
}

fn mirror(cluster: &Assessment<'_>, mirror: &Pod) -> Outcome {
    let node = cluster.host_of(mirror);
    let component = node.and_then(|node| Component::of_static_pod(&mirror.name, node));
    match pod(cluster, &mirror.name, &mirror.state, component) {
        Outcome::Pass(_) if node.is_none_or(|node| cluster.kubelet_is_silent(node)) => silent(),
        outcome => outcome,
    }
}
