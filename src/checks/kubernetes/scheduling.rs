//! Determines which nodes accept new pods, and which obstacles other nodes have.

use std::time::Duration;

use super::leases::leases;
use super::node_objects;
use super::nodes::each_object_of;
use crate::assess::Assessment;
use crate::assess::workloads::says_ready;
use crate::checks::Check;
use crate::checks::scope::{GUEST, absence_declared};
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Role, Severity, Stage, Target, Verdict};
use crate::snapshot::{AUTOSCALER_TAINT, Allowance, Condition, KubeNode, Node, OWN_TAINTS, System, Taint};
use crate::text::duration::human;
use crate::text::some;

pub(in crate::checks) const SCHEDULABLE: Check = Check {
    id: CheckId::K8sNodesSchedulable,
    stage: Stage::Nodes,
    summary: "no node is cordoned or waits for a cloud provider",
    explain: "Warns about nodes that take no new pods: nodes that are being removed (deleted, or marked by the cluster \
autoscaler), or that were cordoned by Talos (during an upgrade, a reboot or a shutdown) or by someone else; nodes with the \
taint `uninitialized`, which the cloud controller manager has not removed; and ready nodes that have no allocatable \
CPU, memory or pods, or still have the taint `out-of-service`. It also warns if a taint that Kubernetes sets during a condition, \
such as `node.kubernetes.io/not-ready`, is still there 30 seconds after the condition ended, or the taint of an agent that \
is not ready, such as Cilium's, 30 seconds after the node became Ready.\n\n\
It is a warning because a cordon is usually deliberate. One that Talos left behind is not: an upgrade or a drain was \
interrupted.\n\n\
It fails when no node that takes workloads is left: each is cordoned, has a taint with effect NoSchedule or NoExecute, has \
nothing allocatable, or is not ready. Nodes with the control-plane taint count only in a cluster that has no other nodes. Nodes that are not ready (see \
k8s.nodes.ready) or are being removed do not fail this check on their own; they do if no other node is left. If nodes are \
reserved by custom taints, or all workers are being removed, it is only \
a warning.\n\n\
`kubectl uncordon NODE` lifts a cordon, `kubectl taint node NODE KEY-` removes a taint. For the uninitialized taint look at \
the cloud controller manager.",
    severity: Severity::Fail,
    finds: &[
        Reason::CordonedByTalos,
        Reason::Cordoned,
        Reason::Uninitialized,
        Reason::OutOfService,
        Reason::StaleTaint,
        Reason::NothingAllocatable,
        Reason::NothingSchedulable,
        Reason::NodeLeaving,
    ],
    facts: &[Fact::TalosNodes, Fact::KubeNodes, Fact::NodeLeases],
    judge: schedulable,
};

/// Maximum number of nodes named in one message.
const NAMES: usize = 5;
/// Expected state of each node.
const EXPECTED: &str = "takes new pods";
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// Time within which a taint follows its condition, even if its controller is busy.
const TAINT_GOES: Duration = Duration::from_secs(30);
/// Suffix of taints that network plugins and storage drivers set until their agent on the node works, such as
/// `node.cilium.io/agent-not-ready`.
const AGENT_NOT_READY: &str = "/agent-not-ready";

/// Returns true for temporary taints: a node has them until some agent on it has started, or until the decision to give up the node is
/// reverted.
pub(in crate::checks) fn is_to_pass(key: &str) -> bool {
    key.ends_with(AGENT_NOT_READY)
        || matches!(key, UNINITIALIZED | OUT_OF_SERVICE | AUTOSCALER_TAINT | "karpenter.sh/disrupted")
}

fn schedulable(cluster: &Assessment<'_>) -> Verdict {
    let mut verdict = each_object_of(cluster, |node, object| {
        if cluster.is_guest(node) {
            return vec![Outcome::Skip(GUEST.to_owned())];
        }
        let problems = [cordon(cluster, node, object), removal(node, object)].into_iter().flatten();
        problems.chain(closures(object)).map(Outcome::problem).collect()
    });
    for node in cluster.nodes().iter().filter(|node| node.leaving && !node.out_of_scope) {
        verdict.findings.retain(|finding| *finding.target != node.target());
        verdict.push(node.target(), absence_declared(cluster, node).unwrap_or_else(|| leaving(node)));
    }
    if let Some(outcome) = leases(cluster).err().filter(|_| node_objects(cluster, "").is_ok()) {
        verdict.push(Target::cluster(), outcome);
    }
    if let Some(problem) = nothing_schedulable(cluster) {
        verdict.problem(Target::cluster(), problem);
    }
    verdict
}

/// A node as a place for ordinary pods.
struct Place<'a> {
    node: &'a Node,
    object: &'a KubeNode,
    works: bool,
    obstacle: Option<String>,
    /// A drain begins with a cordon, or with the mark of the autoscaler. Stage 8 judges the consequences.
    is_to_be_drained: bool,
}

impl<'a> Place<'a> {
    /// Returns `None` for nodes that ordinary pods never run on: virtual nodes do not run containers, and a node with another system than Talos
    /// may be reserved for workloads of that system.
    fn of(cluster: &Assessment<'a>, node: &'a Node) -> Option<Self> {
        let object = cluster.object(node)?;
        let is_of_others =
            || is_set_apart(object) || is_kept(object) || object.system() == System::Virtual || object.is_windows();
        let is_never = cluster.is_guest(node) && is_of_others();
        (!is_never).then(|| Self {
            node,
            object,
            works: cluster.life(&object.name).may_serve(),
            obstacle: obstacle(object),
            is_to_be_drained: cluster.asked.upgrade.drains(node),
        })
    }

    fn is_open(&self) -> bool {
        self.works && self.obstacle.is_none()
    }

    fn why_closed(&self) -> String {
        format!("{} {}", self.object.name, self.obstacle.as_deref().unwrap_or("is not ready"))
    }
}

/// Returns true for control planes that take only pods that tolerate their taint, such as cluster DNS.
fn is_kept(object: &KubeNode) -> bool {
    object.taints.iter().any(is_of_control_planes)
}

/// Reports that no node is left for workloads. If all nodes are control planes with their taint, they count, because the cluster never had
/// room for others.
fn nothing_schedulable(cluster: &Assessment<'_>) -> Option<Problem> {
    node_objects(cluster, "").ok()?;
    let all = cluster.nodes().iter().filter_map(|node| Place::of(cluster, node));
    let (kept, mut workers): (Vec<_>, Vec<_>) = all.partition(|place| is_kept(place.object));
    // Images are built for one operating system, almost always Linux.
    if workers.iter().any(|place| !place.object.is_windows()) {
        workers.retain(|place| !place.object.is_windows());
    }
    let had_workers = workers.iter().any(|place| !place.node.out_of_scope);
    let workers_at_first = workers.len();
    let stay: Vec<_> = workers.into_iter().filter(|place| !place.node.leaving).collect();
    let places = if stay.is_empty() && !had_workers { kept } else { stay };
    let expected = "a node that takes new pods";
    // The nodes that are not drained, if there are any, have to take over.
    let others = || places.iter().filter(|place| !place.is_to_be_drained);
    let is_given_up =
        |object: &KubeNode| object.unschedulable || object.taints.iter().any(|taint| taint.key == AUTOSCALER_TAINT);
    let is_drained = |place: &Place<'_>| place.is_to_be_drained && is_given_up(place.object) && place.works;
    let takes = |place: &&Place<'_>| place.is_open() || (is_drained(place) && others().all(Place::is_open));
    let open: Vec<_> = places.iter().filter(takes).collect();
    if let Some(drained) = open.first() {
        let closed: Vec<_> = others().filter(|place| place.obstacle.is_some()).collect();
        let first = closed.first().filter(|_| open.iter().all(|place| place.is_to_be_drained))?;
        let names = some(closed.iter().map(|place| place.why_closed()), NAMES);
        let observed = format!("none but {}, which is to be drained: {names}", drained.object.name);
        let problem = Problem::warn(Reason::NothingSchedulable, expected, observed);
        return Some(problem.hint(Hint::run("{kubectl} describe node {}", [&first.object.name])));
    }
    // An autoscaler may remove the last worker if none is needed.
    if places.is_empty() && had_workers {
        let problem = Problem::warn(Reason::NothingSchedulable, expected, "every worker is being removed");
        return Some(problem.hint(Hint::run("{kubectl} get nodes -o wide", [])));
    }
    // Workers that are merely not ready are judged by k8s.nodes.ready, which does not report that no others are left, which passes over
    // some of them, and which an allowance may excuse. Those that the policy declares off are meant to be.
    let meant = || places.iter().map(|place| place.node).filter(|node| !cluster.machine(node).is_declared_off());
    let judged = meant().filter(|node| cluster.standing(node).is_judged()).count();
    let may_be_excused = match cluster.asked.max_unready_workers {
        Allowance::None => false,
        Allowance::Count(count) => count >= judged && judged > 0,
        Allowance::Percent(percent) => percent >= 100,
    };
    let are_away = places.len() < workers_at_first || judged < meant().count();
    let closed = places.iter().find(|place| place.obstacle.is_some());
    let shown = closed.or_else(|| places.first().filter(|_| are_away || may_be_excused))?;
    // The allowance covers all workers.
    let is_allowed = may_be_excused && closed.is_none() && !are_away;
    let is_warning = is_allowed || places.iter().any(|place| is_reserved(place.object));
    let severity = if is_warning { Severity::Warn } else { Severity::Fail };
    let problem =
        Problem::fail(Reason::NothingSchedulable, expected, some(places.iter().map(Place::why_closed), NAMES))
            .hint(Hint::run("{kubectl} describe node {}", [&shown.object.name]));
    let are_cordoned = places.iter().all(|place| place.object.unschedulable);
    let problem = if are_cordoned { problem.hint(Hint::likely(CORDONED_ON_PURPOSE)) } else { problem };
    // A taint or a cordon is an independent cause, regardless of other problems with other nodes.
    let lost = places.iter().filter(|_| closed.is_none()).map(|place| place.node.name.as_str());
    Some(Problem { severity, ..problem }.on(lost))
}

/// Returns true if a node has a custom taint that keeps ordinary pods away, whatever its state.
fn is_set_apart(object: &KubeNode) -> bool {
    let is_custom = |taint: &Taint| !taint.key.starts_with(OWN_TAINTS) && !is_to_pass(&taint.key);
    object.taints.iter().any(|taint| keeps_away(object, taint) && is_custom(taint))
}

/// Returns true if a ready node takes only pods that tolerate a custom taint. Only the taint's owner can know whether such pods exist.
fn is_reserved(object: &KubeNode) -> bool {
    let mut closing = object.taints.iter().filter(|taint| keeps_away(object, taint)).peekable();
    let is_closed = object.unschedulable || closing.peek().is_none();
    let passes = |taint: &Taint| is_to_pass(&taint.key) || condition_holds(object, taint).is_some();
    says_ready(object) && !is_closed && !closing.any(passes)
}

/// Describes the obstacle to ordinary pods on a node, regardless of the node's state.
fn obstacle(object: &KubeNode) -> Option<String> {
    if object.unschedulable {
        return Some("is cordoned".to_owned());
    }
    if let Some(resource) = object.out_of.first() {
        return Some(format!("has no allocatable {resource}"));
    }
    // The taint is intended while the machine is lost.
    let is_meant = |taint: &&Taint| taint.key == OUT_OF_SERVICE && !says_ready(object);
    let taint = object.taints.iter().find(|taint| keeps_away(object, taint) && !is_meant(taint))?;
    Some(format!("has taint {}", shown(taint)))
}

fn shown(taint: &Taint) -> String {
    format!("{}:{}", taint.key, taint.effect)
}

fn keeps_away(object: &KubeNode, taint: &Taint) -> bool {
    // A taint that only repeats a condition is judged as that condition.
    let is_repetition = condition_holds(object, taint) == Some(true);
    matches!(&*taint.effect, "NoSchedule" | "NoExecute") && !is_repetition && !is_of_control_planes(taint)
}

/// Returns whether the condition behind one of Kubernetes' own taints holds or recently held. `None`: the taint has no condition on the
/// Node.
fn condition_holds(object: &KubeNode, taint: &Taint) -> Option<bool> {
    let (kind, over) = match taint.key.strip_prefix(OWN_TAINTS)? {
        "not-ready" | "unreachable" => ("Ready", "True"),
        "unschedulable" => return Some(object.unschedulable),
        "memory-pressure" => ("MemoryPressure", "False"),
        "disk-pressure" => ("DiskPressure", "False"),
        "pid-pressure" => ("PIDPressure", "False"),
        "network-unavailable" => ("NetworkUnavailable", "False"),
        _ => return None,
    };
    let condition = object.condition(kind);
    let is_over = condition.is_none_or(|condition| condition.status == over);
    Some(!is_over || is_fresh(object, condition))
}

/// Returns true if the condition has changed so recently that its consequences may still be pending.
fn is_fresh(object: &KubeNode, condition: Option<&Condition>) -> bool {
    let age = object.told.zip(condition.and_then(|condition| condition.since)).map(|(now, since)| now - since);
    age.is_some_and(|age| Duration::try_from(age).is_ok_and(|age| age < TAINT_GOES))
}

/// Returns a taint that keeps pods away from a node that has recovered some time ago, with the outdated condition and the likely cause.
fn stale_taint(object: &KubeNode) -> Option<(&Taint, &'static str, &'static str)> {
    let is_left_by_agent = |taint: &Taint| {
        taint.key.ends_with(AGENT_NOT_READY) && says_ready(object) && !is_fresh(object, object.condition("Ready"))
    };
    object.taints.iter().filter(|taint| keeps_away(object, taint)).find_map(|taint| {
        if condition_holds(object, taint) == Some(false) {
            let why = "kube-controller-manager has not removed it, or something else has set it";
            Some((taint, "but its condition is over", why))
        } else if is_left_by_agent(taint) {
            Some((taint, "although the node is Ready", "the agent on the node, or its operator, does not work"))
        } else {
            None
        }
    })
}

/// Returns true if a cloud provider has yet to provide the node's information.
pub(super) fn is_uninitialized(object: &KubeNode) -> bool {
    object.taints.iter().any(|taint| taint.key.starts_with(UNINITIALIZED))
}

fn is_of_control_planes(taint: &Taint) -> bool {
    matches!(&*taint.key, "node-role.kubernetes.io/control-plane" | "node-role.kubernetes.io/master")
}

/// Warning for a node that is being removed. Nothing else is reported about it until the removal has taken too long.
fn leaving(node: &Node) -> Outcome {
    let observed = "marked for removal, and not checked for up to 30 minutes";
    let problem = Problem::warn(Reason::NodeLeaving, EXPECTED, observed);
    Outcome::problem(problem.hint(Hint::run("{kubectl} describe node {}", [&node.name])))
}

const CORDONED_ON_PURPOSE: &str = "the node is being worked on: find out why before you uncordon it";

/// Reports a cordon.
fn cordon(cluster: &Assessment<'_>, node: &Node, object: &KubeNode) -> Option<Problem> {
    let uncordon = || Hint::remedy("{kubectl} uncordon {}", [&object.name]);
    if !object.unschedulable {
        return None;
    }
    if object.cordoned_by_talos {
        let problem = Problem::warn(Reason::CordonedByTalos, EXPECTED, "new pods are not scheduled to it")
            .hint(Hint::likely("an upgrade, a reboot or a shutdown is in progress, or was interrupted"));
        // The mark is intended while the machine is rebooting or being upgraded.
        let is_up = matches!(&node.talos.machine_status, Ok(Some(status)) if status.stage == "running");
        return Some(if is_up { problem.hint(uncordon()) } else { problem });
    }
    // Since 1.13, `talosctl upgrade` cordons like any other client, without Talos' mark.
    let warn = |observed| Problem::warn(Reason::Cordoned, EXPECTED, observed);
    Some(match (object.cordoned_since, cluster.memory.boot(node)) {
        (Some(cordoned), Some(boot)) if boot.at >= cordoned => {
            warn("cordoned, and was rebooted after that: probably left by an upgrade").hint(uncordon())
        }
        (Some(_), Some(_)) => {
            warn("cordoned outside Talos, and not rebooted since").hint(Hint::likely(CORDONED_ON_PURPOSE))
        }
        _ if !cluster.life(&object.name).may_serve() => warn("cordoned, and its kubelet does not report")
            .hint(Hint::likely("the machine is being worked on, or was lost during an upgrade")),
        _ if !node.is_talos => warn("if an upgrade ran here, it may have left the cordon").hint(uncordon()),
        _ => warn("cordoned outside Talos; if an upgrade ran here, it may have left it").hint(uncordon()),
    })
}

/// Unintended obstacles that keep pods away from a node, apart from its removal.
fn closures(object: &KubeNode) -> Vec<Problem> {
    let mut problems = Vec::new();
    let describe = || Hint::run("{kubectl} describe node {}", [&object.name]);
    if is_uninitialized(object) {
        let problem = Problem::warn(Reason::Uninitialized, EXPECTED, format!("taint {UNINITIALIZED}"));
        problems.push(problem.hint(Hint::likely("the cloud controller manager is missing or not working")));
    }
    if says_ready(object) && object.taints.iter().any(|taint| taint.key == OUT_OF_SERVICE) {
        let problem = Problem::warn(Reason::OutOfService, EXPECTED, format!("ready, with taint {OUT_OF_SERVICE}"))
            .hint(Hint::likely("the machine was lost at some time, and nothing has removed the taint since"));
        problems.push(problem.hint(describe()));
    }
    if says_ready(object) && !object.out_of.is_empty() {
        let observed = format!("allocatable of the node: no {}", object.out_of.join(", no "));
        let problem = Problem::warn(Reason::NothingAllocatable, EXPECTED, observed)
            .hint(Hint::likely("the kubelet's configuration reserves all of it, or sets `maxPods` to 0"));
        problems.push(problem.hint(describe()));
    }
    if let Some((taint, but, why)) = stale_taint(object) {
        let observed = format!("taint {}, {but}", shown(taint));
        let problem = Problem::warn(Reason::StaleTaint, EXPECTED, observed).hint(Hint::likely(why));
        problems.push(problem.hint(describe()));
    }
    problems
}

/// Warning for a node that is being removed but is still judged.
fn removal(node: &Node, object: &KubeNode) -> Option<Problem> {
    let observed = match object.leaving_for()? {
        _ if node.role == Role::ControlPlane && object.is_leaving() => {
            "being removed, but still checked: it is or may be an etcd member".to_owned()
        }
        // The removal is overdue, and the node may remain for a long time.
        age if !object.is_leaving() && says_ready(object) => {
            format!("being removed for {}, but still there", human(age))
        }
        _ => return None,
    };
    let problem = Problem::warn(Reason::NodeLeaving, EXPECTED, observed);
    Some(problem.hint(Hint::run("{kubectl} describe node {}", [&object.name])))
}
