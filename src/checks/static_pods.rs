//! Static pods: what Talos has rendered, and what the kubelets make of it.

use super::common::passed_over;
use super::components::{self, Component};
use super::kube_common::{
    ETCD_SERVICE, READY, RENDERED as RENDERED_ID, control_planes, etcd_is_bad, etcd_trouble, explained, has_kubernetes,
    is_healthy, kubelet_path, listed, object_of, says_ready, service, talos_closed, talos_gap, talos_path, trouble,
};
use super::{Check, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{GapKind, Node, Pod, PodState, Role, Snapshot};

pub(super) const RUNNING_ID: &str = "k8s.staticpods.running";

pub(super) const RENDERED: Check = Check {
    id: RENDERED_ID,
    stage: Stage::StaticPods,
    summary: "Talos has rendered the static pods that the configuration calls for",
    explain: "On each control plane Talos writes the manifests of kube-apiserver and, unless disabled, of kube-controller-manager \
and kube-scheduler, once their configuration files and secrets are there (`ConfigStatuses`, id `static-pods`).\n\n\
Nothing is rendered before etcd runs, so on a cluster that was not bootstrapped this repeats what etcd.service says. Otherwise a \
mistake in the machine configuration, e.g. an invalid admission plugin configuration, keeps Talos from rendering.\n\n\
`talosctl -n NODE logs controller-runtime` names the controller that failed and why.",
    severity: Severity::Fail,
    requires: &["talos.nodes.reachable"],
    facts: &[Fact::TalosNodes, Fact::Services, Fact::StaticPods, Fact::ConfigStatuses, Fact::ComponentConfigs],
    judge: rendered,
};

pub(super) const RUNNING: Check = Check {
    id: RUNNING_ID,
    stage: Stage::StaticPods,
    summary: "every static pod runs and is ready",
    explain: "Every static pod that Talos has rendered, on workers and of your own too, has a status from the node's kubelet, and \
that says ready. On workers Talos tells no status of them; there the pods of kube-system that Kubernetes shows in their place \
are judged, and pods of other namespaces are passed over. etcd is a Talos service and no pod; it is shown here beside the others as etcd-NODE.\n\n\
Talos refreshes the statuses through the kubelet's API. If that fails, typically because the kubelet's serving certificate was \
never approved, all statuses of the node are missing while the pods run: then nothing can be said, which is an error, not a \
failure.\n\n\
Components of the control plane that stage 5 has already failed are shown again, explained by it. `talosctl -n NODE containers -k` \
lists the containers, `talosctl -n NODE get staticpodstatus -o yaml` the statuses, `kubectl get csr` pending certificates.",
    severity: Severity::Fail,
    requires: &["talos.nodes.reachable", "talos.nodes.kubelet", RENDERED_ID],
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

fn rendered(snapshot: &Snapshot) -> Verdict {
    if snapshot.talos.is_none() {
        return Verdict::skipped("--no-talos: only Talos tells what it renders");
    }
    let nodes = match control_planes(snapshot) {
        Ok(nodes) => nodes,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut verdict = Verdict::default();
    for node in nodes {
        verdict.push(Target::node(node), rendered_on(snapshot, node));
    }
    verdict
}

fn rendered_on(snapshot: &Snapshot, node: &Node) -> Outcome {
    if let Some(why) = passed_over(snapshot, node) {
        return Outcome::Skip(why.to_owned());
    }
    if let Some(by) = talos_path(snapshot, node) {
        return Outcome::Blocked(by);
    }
    if has_kubernetes(node) == Some(false) {
        return Outcome::Skip("no Kubernetes on this machine".to_owned());
    }
    let ids = match &node.talos.static_pods {
        Ok(ids) => ids,
        Err(gap) => return Outcome::Problem(talos_gap(gap, "the list of static pods")),
    };
    let mut missing = Vec::new();
    for component in Component::ALL {
        if ids.iter().any(|id| component.is_rendered_as(id, node)) {
            continue;
        }
        match component.enabled(&node.talos) {
            Ok(Some(true)) => missing.push(component.name()),
            Ok(Some(false)) => {}
            // Without its configuration nobody knows whether it is missing.
            Ok(None) if etcd_is_bad(node) => missing.push(component.name()),
            Ok(None) => {
                let observed = format!("nothing tells whether {} is enabled", component.name());
                return Outcome::Problem(Problem::error(Reason::NoAnswer, "the component's configuration", observed));
            }
            Err(gap) => return Outcome::Problem(talos_gap(&gap, "the component's configuration")),
        }
    }
    let fail = |observed: String| {
        let problem = Problem::fail(Reason::StaticPodNotRendered, "rendered from a ready configuration", observed)
            .hint(Hint::run("{talosctl} -n {} logs controller-runtime", [&node.address]));
        Outcome::Problem(explained(problem, etcd_is_bad(node).then_some(ETCD_SERVICE)))
    };
    if !missing.is_empty() {
        return fail(format!("not rendered: {}", missing.join(", ")));
    }
    match &node.talos.config_statuses {
        Err(gap) => Outcome::Problem(talos_gap(gap, "the state of the static pods' configuration")),
        Ok(statuses) => match statuses.iter().find(|status| status.id == "static-pods") {
            Some(status) if status.ready => Outcome::Pass(None),
            Some(_) => fail("their configuration and secrets are not ready".to_owned()),
            None => fail("nothing says that their configuration and secrets are ready".to_owned()),
        },
    }
}

fn running(snapshot: &Snapshot) -> Verdict {
    if snapshot.talos.is_none() {
        return mirrors(snapshot);
    }
    let mut verdict = Verdict::default();
    for node in snapshot.nodes.iter().filter(|node| node.is_talos) {
        if let Some(why) = passed_over(snapshot, node) {
            verdict.skip(Target::node(node), why);
        } else {
            pods_of(snapshot, node, &mut verdict);
            let is_etcd_elsewhere = snapshot.external_etcd.is_some() && service(node, "etcd").is_none();
            if node.role == Role::ControlPlane && talos_path(snapshot, node).is_none() && !is_etcd_elsewhere {
                verdict.push(Target::pod(format!("etcd-{}", node.name), Some(&node.name)), etcd(node));
            }
        }
    }
    if verdict.findings.is_empty() {
        if let Some(by) = talos_closed(snapshot) {
            return Verdict::blocked(by);
        }
        let problem = Problem::error(Reason::NoAnswer, "machines with static pods", "no Talos machine is known");
        verdict.problem(Target::cluster(), problem);
    }
    verdict
}

fn pods_of(snapshot: &Snapshot, node: &Node, verdict: &mut Verdict) {
    let target = Target::node(node);
    // It says so itself; that it has no kubelet stands in nobody's way.
    if has_kubernetes(node) == Some(false) {
        return verdict.skip(target, "no Kubernetes on this machine");
    }
    if let Some(by) = kubelet_path(snapshot, node) {
        return verdict.block(target, by);
    }
    let (ids, statuses) = match (&node.talos.static_pods, &node.talos.static_pod_statuses) {
        (Ok(ids), Ok(statuses)) => (ids, statuses),
        (Err(gap), _) => return verdict.problem(target, talos_gap(gap, "the list of static pods")),
        (_, Err(gap)) => return verdict.problem(target, talos_gap(gap, "the statuses of the static pods")),
    };
    if ids.is_empty() && statuses.is_empty() {
        return match node.role {
            Role::Worker => verdict.skip(target, "no static pods"),
            _ => verdict.block(target, RENDERED_ID),
        };
    }
    if statuses.is_empty() && node.role == Role::Worker {
        return on_worker(snapshot, node, ids, verdict);
    }
    if statuses.is_empty() {
        let problem = Problem::error(Reason::StatusStale, format!("statuses of {} static pods", ids.len()), "none")
            .hint(Hint::likely(
                "Talos cannot ask the kubelet: its serving certificate may not be approved (as an administrator: `kubectl get csr`)",
            ));
        return verdict.problem(target, problem);
    }
    // A control plane always has these; an empty list of static pods beside some statuses must not hide one.
    for id in ids {
        if !statuses.iter().any(|status| is_id_of(id, &status.name, node)) {
            let problem = Problem::fail(Reason::StaticPodMissing, "running and ready", "the kubelet knows no such pod");
            let problem = explained(problem, component(id, node).map(Component::check));
            verdict.problem(Target::pod(pod_name(id, node), Some(&node.name)), problem);
        }
    }
    for status in statuses {
        let by = component(&status.name, node).map(Component::check);
        let target = Target::pod(status.name.as_str(), Some(&node.name));
        verdict.push(target, pod(snapshot, &status.name, &status.state, by));
    }
    if ids.is_empty() && node.role != Role::Worker {
        verdict.block(target, RENDERED_ID);
    }
}

/// Talos asks kubelets with a certificate that control planes alone have, so a worker has static pods and never a status. What
/// runs there is seen in Kubernetes.
fn on_worker(snapshot: &Snapshot, node: &Node, ids: &[String], verdict: &mut Verdict) {
    let pods = match listed(snapshot, |kubernetes| &kubernetes.pods, "the pods of kube-system") {
        Ok(pods) => pods,
        Err(outcome) => return verdict.push(Target::node(node), outcome),
    };
    for id in ids {
        let target = Target::pod(pod_name(id, node), Some(&node.name));
        let shows = |pod: &&Pod| pod.mirror && pod.node.as_ref() == Some(&node.name) && is_id_of(id, &pod.name, node);
        if let Some(found) = pods.iter().find(shows) {
            verdict.push_or_look_again(Target::pod(found.name.as_str(), Some(&node.name)), mirror(snapshot, found));
        } else if id.starts_with("kube-system-") || component(id, node).is_some() {
            let observed = "Kubernetes shows no mirror pod of it";
            verdict.problem(target, Problem::fail(Reason::StaticPodMissing, "running and ready", observed));
        } else {
            verdict.skip(
                target,
                "Talos tells no status of static pods on workers, and only the pods of kube-system are read",
            );
        }
    }
}

fn pod(snapshot: &Snapshot, name: &str, state: &PodState, by: Option<&'static str>) -> Outcome {
    match trouble(state) {
        None => Outcome::Pass(Some(format!("{name}: Running"))),
        Some(trouble) => {
            let by = by.or_else(|| etcd_trouble(snapshot));
            Outcome::Problem(explained(trouble.fail(Reason::StaticPodFailed), by))
        }
    }
}

/// The id is `kube-apiserver`, on older Talos with the node's name, and for pods of the user's own with the namespace before.
fn is_id_of(id: &str, pod: &str, node: &Node) -> bool {
    let Some(base) = pod.strip_suffix(&node.name).and_then(|rest| rest.strip_suffix('-')) else {
        return false;
    };
    id == base || id == pod || id.strip_suffix(base).is_some_and(|namespace| namespace.ends_with('-'))
}

fn pod_name(id: &str, node: &Node) -> String {
    let suffix = format!("-{}", node.name);
    if id.ends_with(&suffix) { id.to_owned() } else { format!("{id}{suffix}") }
}

fn component(id: &str, node: &Node) -> Option<Component> {
    Component::ALL.into_iter().find(|component| component.is_rendered_as(id, node))
}

/// etcd is a service of Talos; people look for it here.
fn etcd(node: &Node) -> Outcome {
    match &node.talos.services {
        Ok(_) => match service(node, "etcd") {
            Some(service) if is_healthy(service) => Outcome::Pass(Some(format!("etcd-{}: Running", node.name))),
            Some(service) => {
                let observed = format!("{}: {}", service.state, service.health_message);
                Outcome::Problem(etcd_is_down(observed.trim_end_matches([':', ' '])))
            }
            None => Outcome::Problem(etcd_is_down("there is no such service")),
        },
        Err(gap) if gap.kind == GapKind::NotAsked => Outcome::Problem(talos_gap(gap, "the services")),
        Err(_) => Outcome::Blocked(ETCD_SERVICE),
    }
}

fn etcd_is_down(observed: &str) -> Problem {
    Problem::fail(Reason::StaticPodFailed, "service etcd is running and healthy", observed).explained_by(ETCD_SERVICE)
}

/// `--no-talos`: every mirror pod, and at least those of the control plane.
fn mirrors(snapshot: &Snapshot) -> Verdict {
    let pods = match listed(snapshot, |kubernetes| &kubernetes.pods, "the pods of kube-system") {
        Ok(pods) => pods,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let nodes = match control_planes(snapshot) {
        Ok(nodes) => nodes,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut verdict = Verdict::default();
    for pod in pods.iter().filter(|pod| pod.mirror) {
        verdict.push_or_look_again(Target::pod(pod.name.as_str(), pod.node.as_deref()), mirror(snapshot, pod));
    }
    for node in nodes {
        for component in Component::ALL {
            let name = component.pod_name(node);
            let shown = verdict.findings.iter().any(|finding| finding.target.name == name);
            let missed = components::not_missed(snapshot, component).is_none();
            if !shown && missed && !components::on_node(snapshot, node, component).status().is_fine() {
                let problem = Problem::fail(Reason::StaticPodMissing, "running and ready", "there is no mirror pod");
                verdict.problem(Target::pod(name, Some(&node.name)), problem.explained_by(component.check()));
            }
        }
    }
    verdict
}

fn mirror(snapshot: &Snapshot, mirror: &Pod) -> Outcome {
    let node = mirror.node.as_deref().and_then(|name| snapshot.node(name));
    if let Some(why) = node.and_then(|node| passed_over(snapshot, node)) {
        return Outcome::Skip(why.to_owned());
    }
    let by = node.and_then(|node| {
        if let Some(component) = component(&mirror.name, node) {
            return Some(component.check());
        }
        let objects = listed(snapshot, |kubernetes| &kubernetes.nodes, "the list of nodes").ok()?;
        object_of(snapshot, node, objects).is_some_and(|object| !says_ready(object)).then_some(READY)
    });
    match pod(snapshot, &mirror.name, &mirror.state, by) {
        Outcome::Pass(_) if node.is_none_or(|node| components::is_silent(snapshot, node)) => Outcome::Blocked(READY),
        outcome => outcome,
    }
}
