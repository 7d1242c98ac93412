//! What the Kubernetes judges share: the path that a fact takes, words for gaps, and how a pod is read.

use std::time::Duration;

use crate::checks::{Hint, Outcome, Problem, Reason, Target, Verdict, apiserver, identity};
use jiff::Timestamp;

pub(super) use super::common::is_healthy;
use super::common::{gap_reason, talos_way, version_numbers};
use super::etcd::{self, Standing};

use crate::snapshot::{Gap, GapKind, KubeNode, Kubernetes, Lease, Node, Observed, Pod, PodState, Service, Snapshot};

pub(super) const CREDENTIALS: &str = "k8s.credentials";
pub(super) const ENDPOINT: &str = "k8s.api.endpoint";
pub(super) const IDENTITY: &str = "k8s.api.identity";
pub(super) const REGISTERED: &str = "k8s.nodes.registered";
pub(super) const READY: &str = "k8s.nodes.ready";
pub(super) const RENDERED: &str = "k8s.staticpods.rendered";
pub(super) const REACHABLE: &str = "talos.nodes.reachable";
pub(super) const KUBELET: &str = "talos.nodes.kubelet";
pub(super) const ETCD_SERVICE: &str = "etcd.service";
pub(super) const QUORUM: &str = "etcd.quorum";

/// Time after which an unrenewed lease no longer shows that its holder lives. Holders renew every 10 s.
const LEASE_ALIVE: Duration = Duration::from_secs(40);

/// For a lease that looks stale: long enough for a live holder to renew it.
pub(super) const RENEWAL: Duration = Duration::from_secs(11);

/// A 403 that has lasted this long is final: a restarting API server has loaded its rules, or given up, after a minute.
const FORBIDDEN_FOR_GOOD: Duration = Duration::from_secs(90);

/// The Kubernetes side, if there is one and its credentials can be used.
pub(super) fn kubernetes(snapshot: &Snapshot) -> Result<&Kubernetes, Outcome> {
    let Some(kubernetes) = &snapshot.kubernetes else {
        return Err(Outcome::Skip("--no-kubernetes".to_owned()));
    };
    if apiserver::usable(snapshot, kubernetes) { Ok(kubernetes) } else { Err(Outcome::Blocked(CREDENTIALS)) }
}

/// A list of the API server, whoever's cluster it is.
pub(super) fn answer<'a, T>(
    snapshot: &'a Snapshot,
    fact: fn(&Kubernetes) -> &Observed<T>,
    expected: &str,
) -> Result<&'a T, Outcome> {
    let kubernetes = kubernetes(snapshot)?;
    fact(kubernetes).as_ref().map_err(|gap| {
        if endpoint_is_down(snapshot, kubernetes) {
            Outcome::Blocked(ENDPOINT)
        } else {
            Outcome::Problem(kubernetes_gap(snapshot, gap, expected))
        }
    })
}

/// A list that is known to be about our cluster. Another cluster's says nothing, however healthy it looks.
pub(super) fn listed<'a, T>(
    snapshot: &'a Snapshot,
    fact: fn(&Kubernetes) -> &Observed<T>,
    expected: &str,
) -> Result<&'a T, Outcome> {
    let list = answer(snapshot, fact, expected);
    if matches!(list, Err(Outcome::Skip(_) | Outcome::Blocked(_))) {
        return list;
    }
    match identity::gate(snapshot) {
        Some(by) => Err(Outcome::Blocked(by)),
        None => list,
    }
}

/// The endpoint was asked and did not say that it is ready.
pub(super) fn endpoint_is_down(snapshot: &Snapshot, kubernetes: &Kubernetes) -> bool {
    let asked = !kubernetes.endpoint.as_ref().is_err_and(|gap| gap.kind == GapKind::NotAsked);
    let ready = kubernetes.endpoint.as_ref().is_ok_and(|readyz| readyz.status == 200);
    asked && !ready && !skipped(snapshot, ENDPOINT)
}

pub(super) fn skipped(snapshot: &Snapshot, check: &'static str) -> bool {
    snapshot.asked.skipped.contains(check)
}

/// The check that stands before every Talos fact of this node, if it did not pass.
pub(super) fn talos_path(snapshot: &Snapshot, node: &Node) -> Option<&'static str> {
    let by = talos_obstacle(snapshot, node)?;
    (!skipped(snapshot, by)).then_some(by)
}

fn talos_obstacle(snapshot: &Snapshot, node: &Node) -> Option<&'static str> {
    let talos = snapshot.talos.as_ref()?;
    if talos.credentials.is_err() {
        return Some("talos.credentials");
    }
    match &node.talos.contact {
        Ok(contact) if contact.answered_by_other.is_none() => None,
        Ok(_) => Some(REACHABLE),
        Err(gap) if gap.kind == GapKind::NoForwarding => Some("talos.endpoints"),
        Err(_) => talos_closed(snapshot).or(Some(REACHABLE)),
    }
}

/// The check that stands before every Talos fact at once, if one does.
pub(super) fn talos_closed(snapshot: &Snapshot) -> Option<&'static str> {
    match talos_way(snapshot) {
        Err(Outcome::Blocked(by)) => Some(by),
        _ => None,
    }
}

/// Talos works, and this node does not answer it: the machine is down or cut off.
pub(super) fn lost(snapshot: &Snapshot, node: &Node) -> bool {
    talos_obstacle(snapshot, node) == Some(REACHABLE)
}

/// The Talos path of what the node's kubelet tells.
pub(super) fn kubelet_path(snapshot: &Snapshot, node: &Node) -> Option<&'static str> {
    talos_path(snapshot, node).or_else(|| (kubelet_is_bad(node) && !skipped(snapshot, KUBELET)).then_some(KUBELET))
}

/// Talos was asked and did not say that the kubelet is well.
pub(super) fn kubelet_is_bad(node: &Node) -> bool {
    match &node.talos.services {
        Ok(_) => !service(node, "kubelet").is_some_and(is_healthy),
        Err(gap) => gap.kind != GapKind::NotAsked,
    }
}

/// Talos was asked and did not say that etcd is well.
pub(super) fn etcd_is_bad(node: &Node) -> bool {
    node.talos.services.is_ok() && !service(node, "etcd").is_some_and(is_healthy)
}

pub(super) fn service<'a>(node: &'a Node, id: &str) -> Option<&'a Service> {
    node.talos.services.as_ref().ok()?.iter().find(|service| service.id == id)
}

/// Whether Kubernetes runs on this machine; `None` if it has not told. Before Talos 1.14 it always does, and a machine that lists
/// no kubelet has not got so far.
pub(super) fn has_kubernetes(node: &Node) -> Option<bool> {
    let own = node.talos.contact.as_ref().ok().filter(|contact| contact.answered_by_other.is_none());
    let version = own.and_then(|contact| version_numbers(&contact.version.tag));
    let always = version.is_some_and(|version| version < (1, 14, 0));
    if always || matches!(node.talos.nodename, Ok(Some(_))) || service(node, "kubelet").is_some() {
        return Some(true);
    }
    let listed = node.talos.services.as_ref().is_ok_and(|services| !services.is_empty());
    (node.talos.nodename.is_ok() && listed).then_some(false)
}

/// Control planes, or why there is nothing to say about them.
pub(super) fn control_planes(snapshot: &Snapshot) -> Result<Vec<&Node>, Outcome> {
    let nodes: Vec<&Node> = snapshot.control_planes().collect();
    if !nodes.is_empty() {
        return Ok(nodes);
    }
    let none = || Problem::error(Reason::NoAnswer, "control planes", "no control plane is known");
    if snapshot.talos.is_none() {
        return Err(match listed(snapshot, |kubernetes| &kubernetes.nodes, "the list of nodes") {
            Ok(nodes) if !nodes.is_empty() && runs_api_server(snapshot) => {
                let observed = "no Node has the role of one, and kube-apiserver is among the static pods";
                Outcome::Problem(Problem::error(Reason::NoAnswer, "control planes", observed))
            }
            Ok(nodes) if !nodes.is_empty() => Outcome::Skip("the control plane runs elsewhere: no Node is one".into()),
            Ok(_) => Outcome::Problem(none()),
            Err(outcome) => outcome,
        });
    }
    Err(talos_closed(snapshot).map_or_else(|| Outcome::Problem(none()), Outcome::Blocked))
}

/// The control plane is here, whatever the Nodes are labelled as.
fn runs_api_server(snapshot: &Snapshot) -> bool {
    let pods = listed(snapshot, |kubernetes| &kubernetes.pods, "the pods of kube-system");
    let is_it = |pod: &Pod| pod.mirror && pod.name.starts_with("kube-apiserver-");
    pods.is_ok_and(|pods| pods.iter().any(is_it))
}

/// What of etcd explains that nobody can write: the quorum is lost, or no member is well and none proves otherwise.
pub(super) fn etcd_trouble(snapshot: &Snapshot) -> Option<&'static str> {
    match etcd::standing(snapshot) {
        Standing::Proven => None,
        Standing::Lost => Some(QUORUM),
        Standing::Unknown if snapshot.external_etcd.is_some() => None,
        Standing::Unknown => {
            let mut control_planes = snapshot.control_planes().peekable();
            (control_planes.peek().is_some() && control_planes.all(etcd_is_bad)).then_some(ETCD_SERVICE)
        }
    }
}

/// The same for one API server: on Talos it asks the member on its own machine and no other.
pub(super) fn own_etcd_trouble(snapshot: &Snapshot, node: &Node) -> Option<&'static str> {
    let own = snapshot.external_etcd.is_none() && etcd_is_bad(node);
    etcd_trouble(snapshot).or_else(|| own.then_some(ETCD_SERVICE))
}

/// 403 in these words, which a restarting API server also says to those who are allowed.
pub(super) fn forbidden(snapshot: &Snapshot, expected: &str, observed: &str, words: &str) -> Problem {
    let hint = Hint::likely("a ClusterRole with these rights is missing; `cluster-health rbac` prints it");
    if has_lasted(snapshot, words) || etcd::standing(snapshot) == Standing::Proven {
        Problem::error(Reason::Forbidden, expected, observed).permanent().hint(hint)
    } else {
        Problem::error(Reason::ForbiddenOrStarting, expected, observed).hint(hint)
    }
}

/// Every question that is refused in these words has been refused for so long that it is final. That another one has says
/// nothing: behind a balancer, one API server may start while the others know the rights.
fn has_lasted(snapshot: &Snapshot, words: &str) -> bool {
    let memory = &snapshot.memory;
    let refusals = snapshot.kubernetes.iter().flat_map(Kubernetes::refusals);
    let mut questions = refusals.filter(|(_, refusal)| *refusal == words).map(|(question, _)| question).peekable();
    let is_final = |since: &Duration| memory.elapsed.saturating_sub(*since) >= FORBIDDEN_FOR_GOOD;
    questions.peek().is_some() && questions.all(|it| memory.forbidden_since.get(&it).is_some_and(is_final))
}

/// 401. An API server that starts may say it once.
pub(super) fn unauthorised(snapshot: &Snapshot, expected: &str, observed: &str) -> Problem {
    let problem = Problem::error(Reason::Unauthorised, expected, observed);
    if snapshot.memory.unauthenticated_rounds >= 1 { problem.permanent() } else { problem }
}

/// Why a Kubernetes answer is missing.
pub(super) fn kubernetes_gap(snapshot: &Snapshot, gap: &Gap, expected: &str) -> Problem {
    match gap.kind {
        GapKind::Forbidden => forbidden(snapshot, expected, &gap.text, &gap.text),
        GapKind::Unauthenticated => unauthorised(snapshot, expected, &gap.text),
        kind => Problem::error(reason(kind), expected, gap.text.as_str()),
    }
}

/// Why a Talos answer is missing.
pub(super) fn talos_gap(gap: &Gap, expected: &str) -> Problem {
    let problem = Problem::error(reason(gap.kind), expected, gap.text.as_str());
    match gap.kind {
        GapKind::Forbidden => Problem { reason: Reason::RoleTooLow, ..problem.permanent() },
        GapKind::Unsupported => problem.permanent(),
        _ => problem,
    }
}

/// As for Talos, but for what Kubernetes has words of its own for.
pub(super) fn reason(kind: GapKind) -> Reason {
    match kind {
        GapKind::Broken => Reason::ApiUnreachable,
        GapKind::Forbidden => Reason::Forbidden,
        GapKind::Unauthenticated => Reason::Unauthorised,
        kind => gap_reason(kind),
    }
}

/// The Node object of a machine: by name, else by its id or by an address. Machines can share an address (a virtual IP, a NAT's), so an
/// object that is another machine's by name is not this one's as well.
pub(super) fn object_of<'a>(snapshot: &Snapshot, node: &Node, objects: &'a [KubeNode]) -> Option<&'a KubeNode> {
    let is_free = |object: &&KubeNode| snapshot.node(&object.name).is_none();
    let is_it = |object: &&KubeNode| is_machine(node, object) && is_free(object);
    let shares =
        |object: &&KubeNode| object.addresses.iter().any(|address| node.addresses.contains(address)) && is_free(object);
    let by_name = objects.iter().find(|object| object.name == node.name);
    by_name.or_else(|| objects.iter().find(is_it)).or_else(|| objects.iter().find(shares))
}

/// The kubelet of this machine has registered this Node: both show the identity that Talos has given to the machine.
pub(super) fn is_machine(node: &Node, object: &KubeNode) -> bool {
    node.machine_id.as_ref().is_some_and(|id| *id == object.machine_id)
}

/// Kubernetes says that the node is ready, without regard to how old that is.
pub(super) fn says_ready(object: &KubeNode) -> bool {
    object.condition("Ready").is_some_and(|condition| condition.status == "True")
}

/// Two samples show that it was renewed a short while ago, or so it says by the server's own clock. A holder's clock that runs
/// ahead proves nothing.
pub(super) fn is_alive(lease: &Lease, date: Option<Timestamp>) -> bool {
    let lately =
        |renewed: Timestamp, date: Timestamp| date.as_second().abs_diff(renewed.as_second()) <= LEASE_ALIVE.as_secs();
    has_moved(lease) || lease.renewed.zip(date).is_some_and(|(renewed, date)| lately(renewed, date))
}

/// Two samples show that it was renewed a short while ago. That it was renewed at some time in a long pause says nothing of now.
pub(super) fn has_moved(lease: &Lease) -> bool {
    lease.moved_within.is_some_and(|within| within <= LEASE_ALIVE)
}

/// The mirror pod of a static pod.
pub(super) fn mirror_pod<'a>(pods: &'a [Pod], node: &Node, component: &str) -> Option<&'a Pod> {
    let name = format!("{component}-{}", node.name);
    pods.iter().filter(|pod| pod.mirror && pod.node.as_deref() == Some(node.name.as_str())).find(|pod| {
        pod.name == name
            || ["component", "k8s-app"].iter().any(|key| pod.labels.get(*key).is_some_and(|v| v == component))
    })
}

/// What keeps a pod from being ready, in words; `None` if it runs and is ready. The phase alone says nothing: pods of dead
/// nodes and crashing ones are `Running`.
pub(super) fn trouble(state: &PodState) -> Option<Trouble> {
    if state.ready == Some(true) && state.phase == "Running" {
        return None;
    }
    let crashing = state.containers.iter().find(|container| {
        let failed = container.exit_code.is_some_and(|code| code != 0);
        container.waiting_reason.as_deref() == Some("CrashLoopBackOff")
            || (!container.ready
                && failed
                && (container.restarts > 1 || (container.restarts > 0 && !container.running)))
    });
    let shown = crashing.or_else(|| state.containers.iter().find(|container| !container.ready));
    let mut words = Vec::new();
    if let Some(container) = shown {
        let doing = match &container.waiting_reason {
            Some(reason) => reason.as_str(),
            None if container.running => "running, not ready",
            None => container.termination_reason.as_deref().unwrap_or("not running"),
        };
        words.push(format!("container {}: {doing}", container.name));
        words.extend(container.exit_code.map(|code| format!("exit code {code}")));
        match container.restarts {
            0 => {}
            1 => words.push("1 restart".to_owned()),
            n => words.push(format!("{n} restarts")),
        }
        // How long the kubelet waits until it tries again says nothing more.
        let waits = container.waiting_message.as_ref().filter(|_| crashing.is_none());
        words.extend(container.termination_message.as_ref().or(waits).cloned());
    } else {
        let phase = if state.phase.is_empty() { "no phase" } else { state.phase.as_str() };
        let ready = if state.ready.is_none() { "no Ready condition" } else { "not ready" };
        words.push(format!("{phase}, {ready}"));
    }
    // The kubelet's summary names the container that is named already.
    let repeats = shown.is_some() && state.message.starts_with("containers with unready status");
    if !state.message.is_empty() && !repeats {
        words.push(state.message.clone());
    }
    Some(Trouble { crash_looping: crashing.is_some(), words: words.join(", ") })
}

/// Why a pod is not ready.
pub(super) struct Trouble {
    pub(super) crash_looping: bool,
    pub(super) words: String,
}

impl Trouble {
    pub(super) fn fail(&self, otherwise: Reason) -> Problem {
        let reason = if self.crash_looping { Reason::CrashLooping } else { otherwise };
        Problem::fail(reason, "running and ready", self.words.as_str())
    }
}

impl Verdict {
    /// With a second look where a machine counts as silent: its lease may have been read just before it was renewed.
    pub(super) fn push_or_look_again(&mut self, target: Target, outcome: Outcome) {
        if matches!(&outcome, Outcome::Blocked(by) if *by == READY) {
            self.resample_after = Some(RENEWAL);
        }
        self.push(target, outcome);
    }

    /// The line for the cluster, once nothing about any target stands against it and something was seen.
    pub(super) fn sum_up(&mut self, line: &str) {
        let clean = |outcome: &Outcome| matches!(outcome, Outcome::Pass(_) | Outcome::Skip(_));
        let clean = self.findings.iter().all(|finding| clean(&finding.outcome));
        if clean && self.findings.iter().any(|finding| matches!(finding.outcome, Outcome::Pass(_))) {
            self.pass(Target::cluster(), line);
        }
    }
}

/// `explained_by` where there is something that explains.
pub(super) fn explained(problem: Problem, by: Option<&'static str>) -> Problem {
    match by {
        Some(check) => problem.explained_by(check),
        None => problem,
    }
}
