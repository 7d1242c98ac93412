//! The control plane's own components, as the kubelets of the control planes tell them.

use super::common::passed_over;
use super::kube_common::{
    ETCD_SERVICE, READY, RENDERED, control_planes, etcd_is_bad, etcd_trouble, explained, has_kubernetes, kubelet_path,
    listed, mirror_pod, object_of, says_ready, talos_gap, trouble,
};
use super::{Check, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{Node, Observed, PodState, Snapshot, TalosNode};

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
    facts: &[Fact::TalosNodes, Fact::StaticPods, Fact::StaticPodStatuses, Fact::Pods, Fact::KubeNodes],
    judge: |snapshot| judge(snapshot, Component::ApiServer),
};

pub(super) const CONTROLLER_MANAGER: Check = Check {
    id: "k8s.controlplane.controller-manager",
    stage: Stage::ControlPlane,
    summary: "kube-controller-manager runs on every control plane where it is enabled",
    explain: "Every control plane runs kube-controller-manager, except where its machine configuration disables it \
(`ControllerManagerConfigs.enabled`); there the check is skipped. One that crashes on one node goes unnoticed as long as another \
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
    ],
    judge: |snapshot| judge(snapshot, Component::ControllerManager),
};

pub(super) const SCHEDULER: Check = Check {
    id: "k8s.controlplane.scheduler",
    stage: Stage::ControlPlane,
    summary: "kube-scheduler runs on every control plane where it is enabled",
    explain: "Every control plane runs kube-scheduler, except where its machine configuration disables it \
(`SchedulerConfigs.enabled`); there the check is skipped.\n\n\
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
    for node in nodes {
        verdict.push(Target::node(node), on_node(snapshot, node, component));
    }
    verdict.sum_up(&format!("{}: running", component.name()));
    verdict
}

/// How this component fares on this control plane.
pub(super) fn on_node(snapshot: &Snapshot, node: &Node, component: Component) -> Outcome {
    if let Some(why) = passed_over(snapshot, node) {
        return Outcome::Skip(why.to_owned());
    }
    if snapshot.talos.is_some() {
        if let Some(by) = kubelet_path(snapshot, node) {
            return Outcome::Blocked(by);
        }
        if has_kubernetes(node) == Some(false) {
            return Outcome::Skip("no Kubernetes on this machine".to_owned());
        }
        if component.enabled(&node.talos) == Ok(Some(false)) {
            return Outcome::Skip("disabled in the machine configuration".to_owned());
        }
    }
    match pod(snapshot, node, component) {
        Err(outcome) => outcome,
        Ok(Some(state)) => match trouble(state) {
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
            Outcome::Problem(explained(problem.hint(look(snapshot, node, component)), by))
        }
    }
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
