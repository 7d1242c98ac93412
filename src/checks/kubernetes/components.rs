//! The control plane's own components, as reported by the control planes' kubelets.

use super::{failed, miss_mirrors, push_or_look_again, restarted, silent};
use crate::assess::Assessment;
use crate::assess::components::{Component, Place, State};
use crate::checks::Check;
use crate::checks::gaps::{self, no_pods, unreliable_kubelet};
use crate::checks::scope::{control_planes, reason_not_judged};
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::Node;

pub(in crate::checks) const APISERVER: Check = Check {
    id: CheckId::K8sControlplaneApiserver,
    stage: Stage::ControlPlane,
    summary: "kube-apiserver runs on every control plane",
    explain: "Every control plane (by machine type, not by label) runs kube-apiserver as a static pod, and its kubelet reports \
the pod ready. Talos forwards the kubelet's report, so this is known even while no API server answers. Where Talos has no \
report, the mirror pod in kube-system is read instead.\n\n\
Ready proves little here: most versions of this pod have no readiness probe. Whether the server works is checked by \
k8s.api.servers; this check shows why it does not: a missing pod, an image that cannot be pulled, a crash with its exit code. \
With --no-talos it is skipped where no API server is a static pod.\n\n\
`talosctl -n NODE containers --kubernetes` lists the containers, including exited ones; `talosctl -n NODE logs --kubernetes ID` shows the log of \
one.",
    severity: Severity::Fail,
    finds: &[Reason::ComponentMissing, Reason::ComponentNotReady, Reason::CrashLooping, Reason::Restarting],
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
(`ControllerManagerConfigs.enabled`); there the check is skipped. With --no-talos it is unknown where it is disabled; if it \
is missing on some control planes while another instance leads, this is a warning. If it runs on no control plane, the check \
passes only \
while some instance holds the lease; if it is not wanted, use `--skip`. A crash on one node goes unnoticed as long as another \
instance leads, and becomes an outage when that one is upgraded.\n\n\
It exits when it loses its lease, which happens whenever its API server or etcd is slow. A few restarts right after a \
bootstrap are normal. If it keeps restarting, the API server on the same node usually has a problem.\n\n\
`talosctl -n NODE containers --kubernetes` lists the containers, `talosctl -n NODE logs --kubernetes ID` shows the log of one.",
    severity: Severity::Fail,
    finds: &[Reason::ComponentMissing, Reason::ComponentNotReady, Reason::CrashLooping, Reason::Restarting],
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
(`SchedulerConfigs.enabled`); there the check is skipped. With --no-talos it is unknown where it is disabled. If it runs on no \
control plane, the check passes only while some instance holds the lease; if it is not wanted, use `--skip`.\n\n\
A crashing scheduler still has phase Running in Kubernetes. So this check uses the Ready condition and the states of the \
containers, with exit code and restarts, instead of the phase.\n\n\
A wrong `extraArgs` entry in the machine configuration is the usual reason for a crash on one node only. `talosctl -n NODE \
containers --kubernetes` lists the containers, `talosctl -n NODE logs --kubernetes ID` shows the log of one.",
    judge: |cluster| judge(cluster, Component::Scheduler),
    ..CONTROLLER_MANAGER
};

/// Returns the reason to skip pods on clusters without static API server pods.
fn skipped_process(cluster: &Assessment<'_>, component: Component) -> String {
    let instead = match component {
        Component::ApiServer => "; the API servers themselves are queried (k8s.api.servers)",
        Component::ControllerManager | Component::Scheduler if cluster.election(component).is_some() => {
            "; its lease is checked instead (k8s.controlplane.leases)"
        }
        Component::Scheduler => ", and no lease; k8s.pods.starting shows whether it works",
        Component::ControllerManager => ", and no lease",
    };
    format!("no static pod was found{instead}")
}

fn judge(cluster: &Assessment<'_>, component: Component) -> Verdict {
    let nodes = match control_planes(cluster) {
        Ok(nodes) => nodes,
        Err(outcome) => return Verdict::whole(outcome),
    };
    if cluster.place(component) == Place::Process {
        return Verdict::skipped(skipped_process(cluster, component));
    }
    let mut verdict = Verdict::default();
    if let Place::Elsewhere(holder) = cluster.place(component) {
        for node in nodes {
            verdict.skip(node.target(), "it runs elsewhere");
        }
        let line = format!("{}: running elsewhere, its lease is held by {holder}", component.name());
        verdict.pass(Target::cluster(), line);
        return verdict;
    }
    for node in nodes {
        let outcome = match reason_not_judged(cluster, node) {
            Some(why) => Outcome::Skip(why.to_owned()),
            None => on_node(cluster, node, component),
        };
        push_or_look_again(&mut verdict, node.target(), outcome);
    }
    miss_mirrors(cluster, &mut verdict);
    verdict.sum_up(&format!("{}: running", component.name()));
    verdict
}

fn on_node(cluster: &Assessment<'_>, node: &Node, component: Component) -> Outcome {
    let problem = match &cluster.instance(node, component).state {
        State::NoKubernetes => return Outcome::Skip("no Kubernetes on this machine".to_owned()),
        State::Unreliable => return unreliable_kubelet(cluster, node),
        State::Disabled => return Outcome::Skip("disabled in the machine configuration".to_owned()),
        State::Unseen(why) => return no_pods(cluster, &component.pod_name(node), *why),
        State::Ready => match restarted(cluster, &component.pod_name(node)) {
            Some(problem) => problem,
            None => return Outcome::Pass(None),
        },
        State::Silent => return silent(),
        State::Untold => {
            let observed = "not found, and without Talos it is unknown whether it is disabled here";
            let expected = format!("pod {}", component.pod_name(node));
            return Outcome::problem(Problem::warn(Reason::ComponentMissing, expected, observed));
        }
        State::NotReady(trouble) => failed(trouble, Reason::ComponentNotReady),
        State::MayBeDisabled(gap) => {
            return Outcome::problem(if cluster.asks_talos() {
                gaps::talos(gap, "whether the machine configuration disables it")
            } else {
                gaps::kubernetes(cluster, gap, "its lease, which shows whether it leads elsewhere")
            });
        }
        State::NotRendered => missing(cluster, node, component, "Talos has not rendered it"),
        State::Missing => missing(cluster, node, component, "not found"),
    };
    Outcome::problem(problem.hint(look(cluster, node, component)))
}

fn missing(cluster: &Assessment<'_>, node: &Node, component: Component, observed: &str) -> Problem {
    let problem = Problem::fail(Reason::ComponentMissing, format!("pod {}", component.pod_name(node)), observed);
    if cluster.place(component) != Place::Nowhere {
        return problem;
    }
    let skip = format!("if it is disabled on every control plane: `--skip {}`", component.check());
    problem.hint(Hint::likely(skip))
}

fn look(cluster: &Assessment<'_>, node: &Node, component: Component) -> Hint {
    if cluster.asks_talos() {
        Hint::run("{talosctl} -n {} containers --kubernetes", [&node.address])
    } else {
        Hint::run("{kubectl} -n kube-system describe pod {}", [&component.pod_name(node)])
    }
}
