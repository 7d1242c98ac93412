//! The control plane's own components, as the kubelets of the control planes tell them.

use super::{failed, miss_mirrors, not_rendered_by, push_or_look_again, restarted, silent};
use crate::assess::Assessment;
use crate::assess::components::{Component, Place, State};
use crate::assess::workloads::says_ready;
use crate::checks::Check;
use crate::checks::gaps::{self, no_pods, unreliable_kubelet};
use crate::checks::scope::{control_planes, passed_over};
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::Node;

pub(in crate::checks) const APISERVER: Check = Check {
    id: CheckId::K8sControlplaneApiserver,
    stage: Stage::ControlPlane,
    summary: "kube-apiserver runs on every control plane",
    explain: "Every control plane (by machine type, not by label) runs kube-apiserver as a static pod, and its kubelet reports the pod ready. Talos passes the kubelet's report on, so this is known even while no API server answers; where Talos has no report, the mirror pod in kube-system is read instead.\n\n\
Ready proves little here: most versions of this pod have no readiness probe. Whether the server works is judged by k8s.api.servers; this check shows why it does not: a missing pod, an image that cannot be pulled, a crash with its exit code.\n\n\
`talosctl -n NODE containers -k` lists the containers, exited ones too; `talosctl -n NODE logs -k ID` shows the log of one.",
    severity: Severity::Fail,
    requires: &[CheckId::TalosNodesReachable, CheckId::TalosNodesKubelet],
    after: &[CheckId::K8sCredentials, CheckId::K8sApiEndpoint, CheckId::K8sApiIdentity, CheckId::K8sNodesReady],
    facts: &[
        Fact::TalosNodes,
        Fact::StaticPods,
        Fact::StaticPodStatuses,
        Fact::Pods,
        Fact::KubeNodes,
        Fact::NodeLeases,
    ],
    judge: |cluster| judge(cluster, Component::ApiServer),
};

pub(in crate::checks) const CONTROLLER_MANAGER: Check = Check {
    id: CheckId::K8sControlplaneControllerManager,
    stage: Stage::ControlPlane,
    summary: "kube-controller-manager runs on every control plane where it is enabled",
    explain: "Every control plane runs kube-controller-manager, except where its machine configuration disables it \
(`ControllerManagerConfigs.enabled`); there the check is skipped. With --no-talos it is unknown what is disabled: if it is missing on some control planes while it leads from another one, that is a warning; if it runs on no \
control plane, it passes only while another instance holds its lease, and `--skip` declares that it is not wanted. One that crashes on one node goes unnoticed as long as another \
leads, and causes an outage on the day that the other one is upgraded.\n\n\
It exits when it loses its lease, which it does whenever its API server or etcd is slow. A few restarts right after a bootstrap \
are normal; one that goes on restarting usually repeats the trouble of the API server on the same node.\n\n\
`talosctl -n NODE containers -k` lists the containers, `talosctl -n NODE logs -k ID` shows the log of one.",
    severity: Severity::Fail,
    requires: &[CheckId::TalosNodesReachable, CheckId::TalosNodesKubelet],
    after: &[CheckId::K8sCredentials, CheckId::K8sApiEndpoint, CheckId::K8sApiIdentity, CheckId::K8sNodesReady],
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
    judge: |cluster| judge(cluster, Component::ControllerManager),
};

pub(in crate::checks) const SCHEDULER: Check = Check {
    id: CheckId::K8sControlplaneScheduler,
    summary: "kube-scheduler runs on every control plane where it is enabled",
    explain: "Every control plane runs kube-scheduler, except where its machine configuration disables it \
(`SchedulerConfigs.enabled`); there the check is skipped. With --no-talos it is unknown what is disabled: if it runs on no \
control plane, it passes only while another instance holds its lease, and `--skip` declares that it is not wanted.\n\n\
A scheduler that crashes shows as phase Running in Kubernetes, so the phase is not what is judged: the Ready condition and the \
states of the containers are, with exit code and restarts.\n\n\
A wrong `extraArgs` entry in the machine configuration is the usual reason why it crashes on one node and not on the others. \
`talosctl -n NODE containers -k` lists the containers, `talosctl -n NODE logs -k ID` shows the log of one.",
    judge: |cluster| judge(cluster, Component::Scheduler),
    ..CONTROLLER_MANAGER
};

fn judge(cluster: &Assessment<'_>, component: Component) -> Verdict {
    let nodes = match control_planes(cluster) {
        Ok(nodes) => nodes,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut verdict = Verdict::default();
    if let Place::Elsewhere(holder) = cluster.place(component) {
        for node in nodes {
            verdict.skip(node.target(), "it runs elsewhere");
        }
        let line = format!("{}: running elsewhere, for its lease is held by {holder}", component.name());
        verdict.pass(Target::cluster(), line);
        return verdict;
    }
    for node in nodes {
        let outcome = match passed_over(cluster, node) {
            Some(why) => Outcome::Skip(why.to_owned()),
            None => on_node(cluster, node, component),
        };
        push_or_look_again(&mut verdict, node.target(), outcome);
    }
    miss_mirrors(cluster, &mut verdict, Some(CheckId::K8sStaticpodsRunning));
    verdict.sum_up(&format!("{}: running", component.name()));
    verdict
}

fn on_node(cluster: &Assessment<'_>, node: &Node, component: Component) -> Outcome {
    let (problem, by) = match &cluster.instance(node, component).state {
        State::NoKubernetes => return Outcome::Skip("no Kubernetes on this machine".to_owned()),
        State::Unreliable => return unreliable_kubelet(cluster, node),
        State::Disabled => return Outcome::Skip("disabled in the machine configuration".to_owned()),
        State::Unseen(why) => return no_pods(cluster, &component.pod_name(node), *why),
        State::Ready => match restarted(cluster, &component.pod_name(node)) {
            Some(problem) => (problem, cause(cluster, node)),
            None => return Outcome::Pass(None),
        },
        State::Silent => return silent(),
        State::Untold => {
            let observed = "not found, and without Talos it is unknown whether it is disabled here";
            let expected = format!("pod {}", component.pod_name(node));
            return Outcome::Problem(Problem::warn(Reason::ComponentMissing, expected, observed));
        }
        State::NotReady(trouble) => (failed(trouble, Reason::ComponentNotReady), cause(cluster, node)),
        State::MayBeDisabled(gap) => {
            return Outcome::Problem(gaps::talos(gap, "whether the machine configuration switches it off"));
        }
        State::NotRendered => {
            (missing(cluster, node, component, "Talos has not rendered it"), Some(not_rendered_by(node)))
        }
        State::Missing => (missing(cluster, node, component, "not found"), cause(cluster, node)),
    };
    Outcome::Problem(problem.hint(look(cluster, node, component)).explained_by(by))
}

fn missing(cluster: &Assessment<'_>, node: &Node, component: Component, observed: &str) -> Problem {
    let problem = Problem::fail(Reason::ComponentMissing, format!("pod {}", component.pod_name(node)), observed);
    if cluster.place(component) != Place::Nowhere {
        return problem;
    }
    let skip = format!("if it is disabled on every control plane: `--skip {}`", component.check());
    problem.hint(Hint::likely(skip))
}

/// What else is known to be wrong and has this as its symptom.
fn cause(cluster: &Assessment<'_>, node: &Node) -> Option<CheckId> {
    if let Some(etcd) = cluster.etcd.trouble {
        return Some(etcd);
    }
    if cluster.talos.is_none() {
        // The node controller turns the pods of a silent node to not ready.
        let object = cluster.object(node).filter(|_| cluster.identity.is_trusted(cluster))?;
        return (!says_ready(object)).then_some(CheckId::K8sNodesReady);
    }
    None
}

fn look(cluster: &Assessment<'_>, node: &Node, component: Component) -> Hint {
    if cluster.talos.is_some() {
        Hint::run("{talosctl} -n {} containers -k", [&node.address])
    } else {
        Hint::run("{kubectl} -n kube-system describe pod {}", [&component.pod_name(node)])
    }
}
