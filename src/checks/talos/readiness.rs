//! Stage 2: checks whether each machine has booted, is ready, and runs its services.

use jiff::Timestamp;

use crate::assess::workloads::BACK_OFF_ENDS;
use crate::assess::{Assessment, is_older};
use crate::checks::Check;
use crate::checks::gaps::{self, says_nothing, talos_contact, talos_fact, talos_service, unseen};
use crate::checks::scope::each_node;
use crate::model::{About, CheckId, Fact, Hint, Outcome, Problem, Reason, Role, Severity, Stage, Verdict};
use crate::snapshot::{Boot, GapKind, MachineStatus, Node, Readiness, Service, UnmetCondition};
use crate::text::{some, version};

pub(in crate::checks) const BOOTED: Check = Check {
    id: CheckId::TalosNodesBooted,
    stage: Stage::Readiness,
    summary: "every machine is in stage running",
    explain: "Reads the stage that each machine reports: booting, installing, maintenance, running, rebooting, shutting down, \
resetting or upgrading. Only running is a final state; the others are transitions, and waiting usually helps.\n\n\
A machine that stays in booting is held up by a service that is neither running and healthy, nor finished, nor skipped. Such \
services are listed with their last event. Extension services are a common cause: they wait for a device or a file that the \
machine does not have. A machine that has not finished booting after 70 minutes reboots and starts over.\n\n\
A machine that reboots twice during one run is a warning: an upgrade needs one reboot. So is one that runs in two consecutive \
rounds and was rebooted in between; with `--stable-for` the stability period starts over.\n\n\
`talosctl -n NODE services` and `talosctl -n NODE dmesg` show more.",
    severity: Severity::Fail,
    finds: &[
        Reason::MaintenanceMode,
        Reason::StageNotRunning,
        Reason::RebootLoop,
        Reason::NodeRebooted,
        Reason::ServiceBlocksBoot,
    ],
    facts: &[Fact::TalosNodes, Fact::MachineStatus, Fact::Services],
    judge: booted,
};

pub(in crate::checks) const READY: Check = Check {
    id: CheckId::TalosNodesReady,
    stage: Stage::Readiness,
    summary: "every machine reports that it is ready",
    explain: "Reads whether each machine in stage running reports that it is ready, and its unmet conditions: time, network, \
services, staticPods, nodeReady. In other stages a machine reports `ready` without checking any condition, so those are left \
to `talos.nodes.booted`.\n\n\
With `--level talos`, `etcd` or `api`, nodeReady is ignored: if you install the network plugin yourself, Nodes are not ready \
until you have done so.\n\n\
An unmet condition often repeats what another check has found in more detail; then that check is shown as the cause.",
    severity: Severity::Fail,
    finds: &[Reason::ConditionUnmet],
    facts: &[Fact::TalosNodes, Fact::MachineStatus],
    judge: ready,
};

pub(in crate::checks) const SERVICES: Check = Check {
    id: CheckId::TalosNodesServices,
    stage: Stage::Readiness,
    summary: "every Talos service that a machine needs is running and healthy",
    explain: "Reads each machine's list of services. Every machine needs machined, apid, containerd and cri running and \
healthy; control planes also trustd. etcd and the kubelet have their own checks: `etcd.service` and `talos.nodes.kubelet`.\n\n\
Any other service may also have finished or been skipped, or have no health check. Extension services (`ext-…`) count too: a \
failed one does not affect the machine's own readiness, but holds up the next boot. A service that runs and has failed more than \
once in the last 10 minutes, or since the previous round, is a warning, etcd and the kubelet included; with `--stable-for` the \
stability period starts over.\n\n\
The last event and the message of the health check are shown; `talosctl -n NODE service ID` and `talosctl -n NODE logs ID` \
have the history.",
    severity: Severity::Fail,
    finds: &[Reason::ServiceFailed, Reason::ServiceMissing, Reason::Restarting],
    facts: &[Fact::TalosNodes, Fact::Services, Fact::MachineStatus],
    judge: services,
};

pub(in crate::checks) const KUBELET: Check = Check {
    id: CheckId::TalosNodesKubelet,
    stage: Stage::Readiness,
    summary: "the kubelet is running and healthy on every node, workers too",
    explain: "Reads the service `kubelet` of every machine that runs Kubernetes. Talos probes the kubelet's health every few \
seconds, so a crash shows here long before Kubernetes marks the node NotReady, which takes about 50 seconds.\n\n\
A kubelet that alternates between Running and Waiting is crash-looping: `talosctl -n NODE logs kubelet` shows the reason. One \
that stays in Preparing usually cannot pull its image; one in Waiting reports what it waits for, such as time synchronization.\n\n\
A machine without a configured kubelet is skipped.\n\n\
The kubelet connects to the API servers through KubePrism, a load balancer on every machine, unless that is disabled. A \
KubePrism that cannot reach any API server is a warning: the kubelet keeps working at first, but its node turns NotReady \
within a minute.",
    severity: Severity::Fail,
    finds: &[Reason::ServiceMissing, Reason::KubeletUnhealthy, Reason::KubeprismUnhealthy],
    facts: &[Fact::TalosNodes, Fact::Services, Fact::KubePrism],
    judge: kubelet,
};

const NODE_READY: &str = "nodeReady";

const STAGES: [&str; 8] =
    ["booting", "installing", "maintenance", "running", "rebooting", "shutting down", "resetting", "upgrading"];

fn machine_status<'a>(cluster: &Assessment<'_>, node: &'a Node) -> Result<&'a MachineStatus, Outcome> {
    let expected = "the stage of the machine";
    let status = talos_fact(cluster, node, |talos| &talos.machine_status, expected)?;
    let status = status.as_ref().ok_or_else(|| says_nothing(expected, "the machine has no MachineStatus"))?;
    if STAGES.contains(&status.stage.as_str()) {
        Ok(status)
    } else {
        let observed = format!("stage `{}`", status.stage);
        Err(Outcome::problem(Problem::error(Reason::UnreadableAnswer, "a stage that is known", observed)))
    }
}

fn booted(cluster: &Assessment<'_>) -> Verdict {
    each_node(cluster, |node, verdict| {
        let target = node.target();
        match machine_status(cluster, node) {
            Ok(status) if status.stage == "running" => {
                let problems = [just_rebooted(cluster, node), keeps_rebooting(cluster, node)];
                if problems.iter().all(Option::is_none) {
                    verdict.ok(target.clone());
                }
                for problem in problems.into_iter().flatten() {
                    verdict.problem(target.clone(), problem.hint(Hint::run("{talosctl} -n {} dmesg", [&node.address])));
                }
            }
            Ok(status) => verdict.problem(target, not_running(node, &status.stage)),
            Err(outcome) => verdict.push(target, outcome),
        }
    })
}

/// Warns about a reboot between two rounds, which is invisible in the rounds themselves because the machine is running in each.
fn just_rebooted(cluster: &Assessment<'_>, node: &Node) -> Option<Problem> {
    let at = cluster.memory.rebooted(node)?.at;
    let observed = format!("rebooted at {at:.0} by its clock, after the previous round");
    Some(Problem::warn(Reason::NodeRebooted, "no reboot between two rounds", observed).between_rounds())
}

/// Reboots in one run that count as a loop. A single reboot comes from an upgrade or a person; a second one comes from neither.
const LOOP: u32 = 2;

fn keeps_rebooting(cluster: &Assessment<'_>, node: &Node) -> Option<Problem> {
    let Boot { at, times, .. } = cluster.memory.boot(node).filter(|boot| boot.times >= LOOP)?;
    let observed = format!("rebooted {times} times in this run, the last time at {at:.0} by its clock");
    Some(Problem::warn(Reason::RebootLoop, "no further reboot", observed))
}

fn not_running(node: &Node, stage: &str) -> Problem {
    let expected = "stage running";
    let address = node.address.as_str();
    if stage == "maintenance" {
        return Problem::fail(Reason::MaintenanceMode, expected, "stage maintenance")
            .hint(Hint::likely("the machine has no configuration"));
    }
    let blockers: Vec<&Service> = match (stage, &node.talos.services) {
        ("booting", Ok(services)) => services.iter().filter(|service| holds_up_boot(service)).collect(),
        _ => Vec::new(),
    };
    if blockers.is_empty() {
        return Problem::fail(Reason::StageNotRunning, expected, format!("stage {stage}"))
            .hint(Hint::run("{talosctl} -n {} dmesg", [address]));
    }
    let texts: Vec<String> = blockers.iter().map(|service| format!("{} ({service})", service.id)).collect();
    let observed = format!("booting, held up by {}", texts.join(", "));
    Problem::fail(Reason::ServiceBlocksBoot, expected, observed)
        .hint(Hint::run("{talosctl} -n {} service {}", [address, &blockers[0].id]))
}

/// Returns true if Talos waits for this service during boot, by Talos' own rule.
pub(crate) fn holds_up_boot(service: &Service) -> bool {
    match service.state.as_str() {
        "Skipped" | "Finished" => false,
        "Running" => service.healthy == Some(false),
        _ => true,
    }
}

fn ready(cluster: &Assessment<'_>) -> Verdict {
    let mut waiting: Vec<&str> = Vec::new();
    let mut verdict = each_node(cluster, |node, verdict| {
        let target = node.target();
        match machine_status(cluster, node) {
            Ok(status) if status.stage != "running" => {
                let observed = format!("stage {}", status.stage);
                verdict.push(target, unseen(Reason::StageNotRunning, "readiness in stage running", &observed));
            }
            Ok(status) if !status.unmet.is_empty() => {
                let (later, now): (Vec<_>, Vec<_>) =
                    status.unmet.iter().partition(|condition| is_for_a_higher_level(cluster, condition));
                waiting.extend(later.first().map(|_| node.name.as_str()));
                for condition in &now {
                    verdict.problem(target.clone(), unmet(node, condition));
                }
                if now.is_empty() {
                    verdict.ok(target);
                }
            }
            Ok(status) if status.ready => verdict.pass(target.clone(), format!("Node {target}: ready")),
            Ok(_) => {
                let problem = Problem::fail(Reason::ConditionUnmet, "ready", "not ready, no reason reported");
                verdict.problem(target, problem);
            }
            Err(Outcome::Problem(problem)) => verdict.problem(target, problem.unseen()),
            Err(outcome) => verdict.push(target, outcome),
        }
    });
    if !waiting.is_empty() {
        verdict.leave_out(format!("{NODE_READY} of {}: `--level` ends before the Nodes", some(waiting.into_iter(), 4)));
    }
    verdict
}

/// Returns true for a condition that the selected level does not require. Below `--level full`, Nodes need not be ready, because a custom
/// network plugin is installed only once the API works.
fn is_for_a_higher_level(cluster: &Assessment<'_>, condition: &UnmetCondition) -> bool {
    condition.name == NODE_READY && cluster.asked.nodes_may_wait
}

fn unmet(node: &Node, condition: &UnmetCondition) -> Problem {
    let observed = format!("{}: {}", condition.name, condition.reason);
    Problem::fail(Reason::ConditionUnmet, "no unmet condition", observed)
        .about(About::Condition(condition.name.clone()))
        .hint(Hint::run("{talosctl} -n {} get machinestatus -o yaml", [node.address.as_str()]))
}

fn services(cluster: &Assessment<'_>) -> Verdict {
    each_node(cluster, |node, verdict| {
        let target = node.target();
        let expected = "a list of Talos services";
        let services = match talos_fact(cluster, node, |talos| &talos.services, expected) {
            Ok(services) if services.is_empty() => {
                return verdict.push(target, says_nothing(expected, "an empty list"));
            }
            Ok(services) => services,
            Err(outcome) => return verdict.push(target, outcome),
        };
        if node.role == Role::Unknown {
            let expected = "a role, because the required services depend on it";
            return verdict.push(target, says_nothing(expected, "the node's role is unknown to every source"));
        }
        let required = required(node.role);
        let mut problems: Vec<Problem> = required
            .iter()
            .filter(|id| !services.iter().any(|service| service.id == **id))
            .map(|id| {
                let observed = format!("{id} is not in the machine's list");
                Problem::fail(Reason::ServiceMissing, format!("service `{id}`"), observed)
            })
            .collect();
        for service in services.iter().filter(|service| !is_judged_elsewhere(service)) {
            if !is_fine(cluster, node, service, required.contains(&service.id.as_str())) {
                problems.push(service_failed(node, service));
            }
        }
        problems.extend(services.iter().filter_map(|service| between_crashes(cluster, node, service)));
        if problems.is_empty() {
            verdict.ok(target.clone());
        }
        for problem in problems {
            verdict.problem(target.clone(), problem);
        }
    })
}

/// Warning for a service that is running now, as it was before each of its recent failures. Failures before its node became Ready are part
/// of the startup: a kubelet fails until there is an API server.
fn between_crashes(cluster: &Assessment<'_>, node: &Node, service: &Service) -> Option<Problem> {
    let Readiness::Ready(since) = cluster.object(node)?.readiness() else { return None };
    let up = since.unwrap_or(Timestamp::MIN);
    let is_late = |at: &&Timestamp| **at > up && cluster.taken.duration_since(**at) <= BACK_OFF_ENDS;
    let count = service.failures.iter().filter(is_late).count();
    let has_just_failed = cluster.memory.has_failed(node, service);
    if (count < 2 && !has_just_failed) || service.state != "Running" || service.healthy == Some(false) {
        return None;
    }
    let id = service.id.as_str();
    let observed = match count {
        2.. => format!("{id}: failed {count} times in the last 10 minutes, running now"),
        _ => format!("{id}: failed since the previous round, running now"),
    };
    let problem = Problem::warn(Reason::Restarting, "no failure in the last 10 minutes", observed)
        .hint(Hint::run("{talosctl} -n {} service {}", [node.address.as_str(), id]))
        .hint(Hint::run("{talosctl} -n {} logs {}", [node.address.as_str(), id]));
    Some(Problem { between_rounds: has_just_failed, ..problem })
}

/// Services that must exist, in addition to those that other checks judge.
fn required(role: Role) -> &'static [&'static str] {
    if role == Role::ControlPlane {
        &["machined", "apid", "containerd", "cri", "trustd"]
    } else {
        &["machined", "apid", "containerd", "cri"]
    }
}

/// Returns true if machines of this role need the service to keep running. Having finished is then a failure.
pub(crate) fn must_run(role: Role, service: &str) -> bool {
    JUDGED_ELSEWHERE.contains(&service) || required(role).contains(&service)
}

/// Services that `etcd.service` and `talos.nodes.kubelet` judge.
const JUDGED_ELSEWHERE: [&str; 2] = ["etcd", "kubelet"];

fn is_judged_elsewhere(service: &Service) -> bool {
    JUDGED_ELSEWHERE.contains(&service.id.as_str())
}

fn is_fine(cluster: &Assessment<'_>, node: &Node, service: &Service, required: bool) -> bool {
    let health_may_be_unknown =
        !required && (service.healthy.is_none() || extension_health_bug(cluster, node, service));
    match service.state.as_str() {
        "Running" => service.healthy == Some(true) || health_may_be_unknown,
        "Finished" | "Skipped" => !required,
        _ => false,
    }
}

/// Talos 1.8.0 to 1.8.3 report every running extension service as unhealthy, with exactly this message.
fn extension_health_bug(cluster: &Assessment<'_>, node: &Node, service: &Service) -> bool {
    let version = talos_contact(cluster, node).ok().and_then(|contact| version::numbers(&contact.version.tag));
    service.id.starts_with("ext-")
        && service.health_message == "service not running"
        && matches!(version, Some((1, 8, 0..=3)))
}

fn service_failed(node: &Node, service: &Service) -> Problem {
    let id = service.id.as_str();
    let what = if id.starts_with("ext-") { "extension service" } else { "service" };
    let address = node.address.as_str();
    Problem::fail(Reason::ServiceFailed, format!("{what} `{id}` running and healthy"), format!("{id}: {service}"))
        .about(About::Service(service.id.clone()))
        .hint(Hint::run("{talosctl} -n {} service {}", [address, id]))
        .hint(Hint::run("{talosctl} -n {} logs {}", [address, id]))
}

fn kubelet(cluster: &Assessment<'_>) -> Verdict {
    each_node(cluster, |node, verdict| {
        let target = node.target();
        let outcome = match talos_service(cluster, node, "kubelet") {
            Ok(Some(service)) if service.is_healthy() => kube_prism(cluster, node),
            Ok(Some(service)) => Outcome::problem(kubelet_unhealthy(node, service)),
            Ok(None) => kubelet_absent(cluster, node),
            Err(outcome) => outcome,
        };
        verdict.push(target, outcome);
    })
}

/// Checks whether the kubelet reaches an API server through KubePrism. If there is no status, KubePrism is disabled, or the Talos release
/// does not have it yet.
fn kube_prism(cluster: &Assessment<'_>, node: &Node) -> Outcome {
    let expected = "KubePrism reaches an API server";
    match &node.talos.kube_prism {
        Ok(Some(false)) => {
            let problem = Problem::warn(Reason::KubeprismUnhealthy, expected, "it cannot reach any")
                .hint(Hint::run("{talosctl} -n {} get kubeprismstatuses", [node.address.as_str()]));
            Outcome::problem(problem.on(cluster.control_planes().map(|node| node.name.as_str())))
        }
        Ok(_) => Outcome::Pass(None),
        Err(gap) if gap.kind == GapKind::Unsupported && is_older(node, (1, 5, 0)) => Outcome::Pass(None),
        // The check only warns, so a role that is too low is not reported.
        Err(gap) if gap.kind == GapKind::Forbidden => Outcome::Pass(None),
        Err(gap) => Outcome::problem(gaps::talos(gap, expected)),
    }
}

fn kubelet_unhealthy(node: &Node, service: &Service) -> Problem {
    let address = node.address.as_str();
    Problem::fail(Reason::KubeletUnhealthy, "kubelet running and healthy", service.to_string())
        .about(About::Service(service.id.clone()))
        .hint(Hint::run("{talosctl} -n {} logs kubelet", [address]))
        .hint(Hint::run("{talosctl} -n {} service kubelet", [address]))
}

/// Judges a machine without a kubelet. This is correct only for a machine without Kubernetes, which exists from Talos 1.14 on and has no
/// node name.
fn kubelet_absent(cluster: &Assessment<'_>, node: &Node) -> Outcome {
    let missing = || {
        let problem =
            Problem::fail(Reason::ServiceMissing, "service `kubelet`", "kubelet is not in the machine's list");
        Outcome::problem(problem.hint(Hint::run("{talosctl} -n {} services", [node.address.as_str()])))
    };
    let version = talos_contact(cluster, node).ok().and_then(|contact| version::numbers(&contact.version.tag));
    if version.is_some_and(|version| version < (1, 14, 0)) || node.sources.kubernetes {
        return missing();
    }
    match talos_fact(cluster, node, |talos| &talos.nodename, "whether the machine has a node name") {
        Ok(None) => Outcome::Skip("no Kubernetes on this machine".to_owned()),
        Ok(Some(_)) => missing(),
        Err(outcome) => outcome,
    }
}
