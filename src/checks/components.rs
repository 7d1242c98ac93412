//! The control plane's own components, as the kubelets of the control planes tell them.

use super::common::passed_over;
use super::kube_common::{
    ETCD_SERVICE, READY, RENDERED, control_planes, etcd_is_bad, etcd_trouble, explained, has_kubernetes, is_alive,
    kubelet_path, listed, mirror_pod, object_of, says_ready, skipped, talos_gap, talos_path, trouble,
};
use super::kube_nodes;
use super::{Check, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{Node, Observed, Pod, PodState, Snapshot, TalosNode};

pub(super) const APISERVER: Check = Check {
    id: "k8s.controlplane.apiserver",
    stage: Stage::ControlPlane,
    summary: "kube-apiserver runs on every control plane",
    explain: "Every control plane (by machine type, not by label) runs kube-apiserver as a static pod, and its kubelet says \
that the pod is ready. Talos passes the kubelet's word on, so this is known even while no API server answers; where Talos does \
not tell, the mirror pod in kube-system is read instead.\n\n\
Ready is a weak word here: this pod has had no readiness probe for most of its history. Whether the server works is judged by \
k8s.api.servers; here one sees why it does not: a missing pod, an image that cannot be pulled, a crash with its exit code.\n\n\
`talosctl -n NODE containers -k` lists the containers, exited ones too; `talosctl -n NODE logs -k ID` shows the log of one.",
    severity: Severity::Fail,
    requires: &["talos.nodes.reachable", "talos.nodes.kubelet"],
    facts: &[
        Fact::TalosNodes,
        Fact::StaticPods,
        Fact::StaticPodStatuses,
        Fact::Pods,
        Fact::KubeNodes,
        Fact::NodeLeases,
    ],
    judge: |snapshot| judge(snapshot, Component::ApiServer),
};

pub(super) const CONTROLLER_MANAGER: Check = Check {
    id: "k8s.controlplane.controller-manager",
    stage: Stage::ControlPlane,
    summary: "kube-controller-manager runs on every control plane where it is enabled",
    explain: "Every control plane runs kube-controller-manager, except where its machine configuration disables it \
(`ControllerManagerConfigs.enabled`); there the check is skipped. With --no-talos nothing tells what is disabled: if it runs on no \
control plane, it passes only while somebody else holds its lease, and `--skip` says that it is not wanted. One that crashes on one node goes unnoticed as long as another \
leads, and is missed on the day that the other one is upgraded.\n\n\
It exits when it loses its lease, which it does whenever its API server or etcd is slow. A few restarts right after a bootstrap \
are normal; one that goes on restarting usually repeats the trouble of the API server on the same node.\n\n\
`talosctl -n NODE containers -k` lists the containers, `talosctl -n NODE logs -k ID` shows the log of one.",
    severity: Severity::Fail,
    requires: &["talos.nodes.reachable", "talos.nodes.kubelet"],
    facts: &[
        Fact::TalosNodes,
        Fact::ComponentConfigs,
        Fact::StaticPods,
        Fact::StaticPodStatuses,
        Fact::Pods,
        Fact::KubeNodes,
        Fact::NodeLeases,
        Fact::SystemLeases,
    ],
    judge: |snapshot| judge(snapshot, Component::ControllerManager),
};

pub(super) const SCHEDULER: Check = Check {
    id: "k8s.controlplane.scheduler",
    stage: Stage::ControlPlane,
    summary: "kube-scheduler runs on every control plane where it is enabled",
    explain: "Every control plane runs kube-scheduler, except where its machine configuration disables it \
(`SchedulerConfigs.enabled`); there the check is skipped. With --no-talos nothing tells what is disabled: if it runs on no \
control plane, it passes only while somebody else holds its lease, and `--skip` says that it is not wanted.\n\n\
A scheduler that crashes shows as phase Running in Kubernetes, so the phase is not what is judged: the Ready condition and the \
states of the containers are, with exit code and restarts.\n\n\
A wrong `extraArgs` entry in the machine configuration is the usual reason why it crashes on one node and not on the others. \
`talosctl -n NODE containers -k` lists the containers, `talosctl -n NODE logs -k ID` shows the log of one.",
    severity: Severity::Fail,
    requires: &["talos.nodes.reachable", "talos.nodes.kubelet"],
    facts: &[
        Fact::TalosNodes,
        Fact::ComponentConfigs,
        Fact::StaticPods,
        Fact::StaticPodStatuses,
        Fact::Pods,
        Fact::KubeNodes,
        Fact::NodeLeases,
        Fact::SystemLeases,
    ],
    judge: |snapshot| judge(snapshot, Component::Scheduler),
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Component {
    ApiServer,
    ControllerManager,
    Scheduler,
}

impl Component {
    pub(super) const ALL: [Self; 3] = [Self::ApiServer, Self::ControllerManager, Self::Scheduler];

    /// Name of the static pod, without the node's.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
        }
    }

    /// The check that judges it.
    pub(super) fn check(self) -> &'static str {
        match self {
            Self::ApiServer => APISERVER.id,
            Self::ControllerManager => CONTROLLER_MANAGER.id,
            Self::Scheduler => SCHEDULER.id,
        }
    }

    /// What the machine configuration says of it; the API server cannot be switched off.
    pub(super) fn enabled(self, node: &TalosNode) -> Observed<Option<bool>> {
        match self {
            Self::ApiServer => Ok(Some(true)),
            Self::ControllerManager => node.controller_manager_enabled.clone(),
            Self::Scheduler => node.scheduler_enabled.clone(),
        }
    }

    /// `id` is the static pod's; older Talos appends the node's name.
    pub(super) fn is_rendered_as(self, id: &str, node: &Node) -> bool {
        let rest = id.strip_prefix(self.name());
        rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-') == Some(node.name.as_str()))
    }

    pub(super) fn pod_name(self, node: &Node) -> String {
        format!("{}-{}", self.name(), node.name)
    }
}

fn judge(snapshot: &Snapshot, component: Component) -> Verdict {
    let nodes = match control_planes(snapshot) {
        Ok(nodes) => nodes,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut verdict = Verdict::default();
    if let Some(place) = elsewhere(snapshot, component) {
        for node in nodes {
            verdict.skip(Target::node(node), "it runs elsewhere");
        }
        verdict.pass(Target::cluster(), format!("{}: running {place}", component.name()));
        return verdict;
    }
    for node in nodes {
        verdict.push_or_look_again(Target::node(node), on_node(snapshot, node, component));
    }
    verdict.sum_up(&format!("{}: running", component.name()));
    verdict
}

/// How this component fares on this control plane.
pub(super) fn on_node(snapshot: &Snapshot, node: &Node, component: Component) -> Outcome {
    match passed_over(snapshot, node) {
        Some(why) => Outcome::Skip(why.to_owned()),
        None => fares(snapshot, node, component),
    }
}

/// The same, whether or not this control plane is to be judged.
pub(super) fn fares(snapshot: &Snapshot, node: &Node, component: Component) -> Outcome {
    if snapshot.talos.is_some() {
        // It says so itself; that it has no kubelet stands in nobody's way.
        if talos_path(snapshot, node).is_none() && has_kubernetes(node) == Some(false) {
            return Outcome::Skip("no Kubernetes on this machine".to_owned());
        }
        if let Some(by) = kubelet_path(snapshot, node) {
            return Outcome::Blocked(by);
        }
        if component.enabled(&node.talos) == Ok(Some(false)) {
            return Outcome::Skip("disabled in the machine configuration".to_owned());
        }
    }
    match pod(snapshot, node, component) {
        Err(outcome) => outcome,
        Ok(Some(state)) => match trouble(state) {
            None if snapshot.talos.is_none() && is_silent(snapshot, node) => Outcome::Blocked(READY),
            None => Outcome::Pass(None),
            Some(trouble) => {
                let problem = trouble.fail(Reason::ComponentNotReady).hint(look(snapshot, node, component));
                Outcome::Problem(explained(problem, cause(snapshot, node)))
            }
        },
        Ok(None) => {
            let expected = format!("pod {}", component.pod_name(node));
            let (observed, by) = if is_not_rendered(node, component) {
                let by = if etcd_is_bad(node) { ETCD_SERVICE } else { RENDERED };
                ("Talos has not rendered it", Some(by))
            } else {
                ("there is none", cause(snapshot, node))
            };
            let problem = Problem::fail(Reason::ComponentMissing, expected, observed);
            let problem = if component != Component::ApiServer && is_nowhere(snapshot, component) {
                let skip =
                    format!("where it is switched off on every control plane, say so: `--skip {}`", component.check());
                problem.hint(Hint::likely(skip))
            } else {
                problem
            };
            Outcome::Problem(explained(problem.hint(look(snapshot, node, component)), by))
        }
    }
}

/// A mirror pod is as old as its kubelet's last word: one that is ready on a machine that has just died stays so for a while.
pub(super) fn is_silent(snapshot: &Snapshot, node: &Node) -> bool {
    let objects = listed(snapshot, |kubernetes| &kubernetes.nodes, "the list of nodes");
    let object = objects.ok().and_then(|objects| object_of(snapshot, node, objects));
    !skipped(snapshot, READY) && object.is_none_or(|object| kube_nodes::lease(snapshot, object).is_err())
}

/// The pod: from Talos, else its mirror. `None`: it was looked for and is not there.
pub(super) fn pod<'a>(
    snapshot: &'a Snapshot,
    node: &'a Node,
    component: Component,
) -> Result<Option<&'a PodState>, Outcome> {
    let mirror = || {
        let pods = listed(snapshot, |kubernetes| &kubernetes.pods, "the pods of kube-system")?;
        Ok(mirror_pod(pods, node, component.name()).map(|pod| &pod.state))
    };
    if snapshot.talos.is_none() {
        return mirror();
    }
    let name = component.pod_name(node);
    match &node.talos.static_pod_statuses {
        Ok(statuses) if statuses.is_empty() && !is_not_rendered(node, component) => {
            // The kubelet lives and Talos cannot read its pods. Kubernetes may know more.
            mirror().map_err(|_| {
                let problem = Problem::error(Reason::StatusStale, format!("status of {name}"), "no status of any pod");
                Outcome::Problem(problem.explained_by(super::static_pods::RUNNING_ID))
            })
        }
        Ok(statuses) => Ok(statuses.iter().find(|status| status.name == name).map(|status| &status.state)),
        Err(gap) => mirror().map_err(|_| Outcome::Problem(talos_gap(gap, "the statuses of the static pods"))),
    }
}

/// Without Talos nothing tells a component that is switched off from one that is missing. A lease that somebody renews who is
/// on no control plane shows that it is done elsewhere: where, in words.
fn elsewhere(snapshot: &Snapshot, component: Component) -> Option<String> {
    if component == Component::ApiServer || !is_nowhere(snapshot, component) {
        return None;
    }
    let leases = listed(snapshot, |kubernetes| &kubernetes.system_leases, "the leases of kube-system").ok()?;
    let lease = leases.by_name.get(component.name()).filter(|lease| is_alive(lease, leases.date))?;
    let holder = lease.holder.as_deref()?;
    let host = holder.rsplit_once('_').map_or(holder, |(host, _)| host);
    let is_outside = snapshot.control_planes().all(|node| node.name != host);
    is_outside.then(|| format!("elsewhere, for its lease is held by {holder}"))
}

/// Kubernetes alone was asked, and it lists no pod of this component on any control plane.
fn is_nowhere(snapshot: &Snapshot, component: Component) -> bool {
    let pods = listed(snapshot, |kubernetes| &kubernetes.pods, "the pods of kube-system");
    let has = |pods: &Vec<Pod>| snapshot.nodes.iter().any(|node| mirror_pod(pods, node, component.name()).is_some());
    snapshot.talos.is_none() && pods.is_ok_and(|pods| !has(pods))
}

/// Why nobody has to run this component here, though it is missing: others do it, or whoever asks has left it out.
pub(super) fn not_missed(snapshot: &Snapshot, component: Component) -> Option<String> {
    if let Some(place) = elsewhere(snapshot, component) {
        return Some(format!("it runs {place}"));
    }
    let left_out =
        component != Component::ApiServer && skipped(snapshot, component.check()) && is_nowhere(snapshot, component);
    left_out.then(|| format!("it runs nowhere, and `{}` is left out", component.check()))
}

/// Why nothing listens on the port of this node's API server, if the pod tells.
pub(super) fn why_no_server(snapshot: &Snapshot, node: &Node) -> Option<&'static str> {
    if is_not_rendered(node, Component::ApiServer) {
        return Some(if etcd_is_bad(node) { ETCD_SERVICE } else { RENDERED });
    }
    matches!(on_node(snapshot, node, Component::ApiServer), Outcome::Problem(_)).then_some(APISERVER.id)
}

fn is_not_rendered(node: &Node, component: Component) -> bool {
    node.talos.static_pods.as_ref().is_ok_and(|ids| !ids.iter().any(|id| component.is_rendered_as(id, node)))
}

/// What else is known to be wrong and has this as its symptom.
fn cause(snapshot: &Snapshot, node: &Node) -> Option<&'static str> {
    if let Some(etcd) = etcd_trouble(snapshot) {
        return Some(etcd);
    }
    if snapshot.talos.is_none() {
        // The node controller turns the pods of a silent node to not ready.
        let objects = listed(snapshot, |kubernetes| &kubernetes.nodes, "the list of nodes").ok()?;
        let object = object_of(snapshot, node, objects)?;
        return (!says_ready(object)).then_some(READY);
    }
    None
}

fn look(snapshot: &Snapshot, node: &Node, component: Component) -> Hint {
    if snapshot.talos.is_some() {
        Hint::run("{talosctl} -n {} containers -k", [&node.address])
    } else {
        Hint::run("{kubectl} -n kube-system describe pod {}", [&component.pod_name(node)])
    }
}
