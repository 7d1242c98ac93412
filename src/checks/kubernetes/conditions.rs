//! Node conditions that are not set by Kubernetes itself.

use super::nodes::each_object;
use super::pressure::PRESSURES;
use crate::assess::Assessment;
use crate::checks::Check;
use crate::checks::scope::GUEST;
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::Condition;

pub(in crate::checks) const CONDITIONS: Check = Check {
    id: CheckId::K8sNodesConditions,
    stage: Stage::Nodes,
    summary: "no node condition set by others reports a problem",
    explain: "Warns about node conditions that are True and that Kubernetes itself does not set, such as KernelDeadlock and \
ReadonlyFilesystem of node-problem-detector, or KubeletProblem and VMEventScheduled of cloud providers. By Kubernetes' \
convention a node condition is True when something is wrong.\n\n\
Ready is checked by k8s.nodes.ready; MemoryPressure, DiskPressure, PIDPressure and NetworkUnavailable by k8s.nodes.pressure. \
Some types are True when the node is healthy, and report a problem when they are False: those that end in `Ready` (KernelReady, \
NetworkingReady and StorageReady of the EKS node monitoring agent), and EtcdIsVoter of k3s and RKE2. A condition that is Unknown is \
ignored.\n\n\
--fail-on node-condition=TYPE turns conditions of that type from warnings into failures. The check then warns if no node \
reports the type at all: nothing sets it, or the type is misspelled.\n\n\
`kubectl describe node NODE` shows all conditions with their reasons and times.",
    severity: Severity::Fail,
    finds: &[Reason::NodeCondition],
    facts: &[Fact::TalosNodes, Fact::KubeNodes],
    judge: conditions,
};

fn conditions(cluster: &Assessment<'_>) -> Verdict {
    let mut verdict = each_object(cluster, |node, object| {
        if cluster.is_guest(node) {
            Outcome::Skip(GUEST.to_owned())
        } else {
            reported(cluster, &object.name, &object.conditions)
        }
    });
    let objects = cluster.list(|kubernetes| &kubernetes.nodes).into_iter().flatten();
    let kinds: Vec<&str> = objects.flat_map(|object| &object.conditions).map(|it| it.kind.as_str()).collect();
    let untold = |kind: &&String| !kinds.is_empty() && !kinds.contains(&kind.as_str());
    for kind in cluster.asked.fail_on_node_condition.iter().filter(untold) {
        let expected = format!("nodes that report condition {kind}");
        let problem = Problem::warn(Reason::NodeCondition, expected, "no node has a condition of this type")
            .hint(Hint::likely("the controller that sets it is not running, or the type is misspelled"));
        verdict.problem(Target::cluster(), problem);
    }
    verdict
}

fn reported(cluster: &Assessment<'_>, node: &str, conditions: &[Condition]) -> Outcome {
    let is_demanded = |it: &Condition| cluster.asked.fail_on_node_condition.contains(&it.kind);
    let is_problem = |it: &&Condition| is_bad(it) && (is_demanded(it) || !PRESSURES.contains(&it.kind.as_str()));
    let problems: Vec<&Condition> = conditions.iter().filter(is_problem).collect();
    if problems.is_empty() {
        return Outcome::Pass(None);
    }
    let words = problems.iter().map(|it| it.told_as(&it.kind)).collect::<Vec<_>>();
    let severity = if problems.into_iter().any(is_demanded) { Severity::Fail } else { Severity::Warn };
    let problem = Problem::fail(Reason::NodeCondition, "no condition that reports a problem", words.join("; "))
        .hint(Hint::run("{kubectl} describe node {}", [node]));
    Outcome::problem(Problem { severity, ..problem })
}

/// Returns true if the condition reports a problem. Types that end in Ready do so when they are False; `Ready` itself has a check of its
/// own.
fn is_bad(condition: &Condition) -> bool {
    let kind = condition.kind.as_str();
    let is_good = kind == "EtcdIsVoter" || (kind.ends_with("Ready") && !kind.ends_with("NotReady"));
    kind != "Ready" && condition.status == if is_good { "False" } else { "True" }
}
