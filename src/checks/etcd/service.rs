//! Is etcd running and healthy on every control plane?

use super::super::common::{is_healthy, no_control_plane, service_text, talos_service, talos_way};
use super::super::{About, Check, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use super::{Quorum, control_planes, has_leader, views};
use crate::snapshot::{GapKind, Node, Observed, Readyz, Role, Service, Snapshot};

pub(in crate::checks) const SERVICE: Check = Check {
    id: "etcd.service",
    stage: Stage::Etcd,
    summary: "etcd is running and healthy on every control plane",
    explain: "Reads the service `etcd` of every control plane. Its health is a read that needs a quorum, repeated every 20 \
seconds and remembered in between: after the loss of a quorum it still says healthy for about 25 seconds, and it never sees \
an alarm. So this check is necessary and not sufficient; the others of this stage ask etcd itself.\n\n\
Before `talosctl bootstrap` every control plane waits in state Preparing. That is called `never-bootstrapped` only if all of \
them do, no data directory holds a member and no Kubernetes API answers; bootstrapping a cluster that has data would make a \
second cluster. In any other case it is `etcd-starting`: a slow image pull looks the same from outside.\n\n\
A member that is Waiting and \"going to restart forever\" was removed from the cluster while its machine lived on.",
    severity: Severity::Fail,
    requires: &["talos.nodes.reachable"],
    facts: &[Fact::TalosNodes, Fact::Services, Fact::EtcdMembership, Fact::EtcdData, Fact::EndpointReadyz],
    judge: service,
};

fn service(snapshot: &Snapshot) -> Verdict {
    if snapshot.talos.is_none() {
        return Verdict::skipped("Talos is not asked (`--no-talos`); etcd's own answers are judged");
    }
    if let Err(outcome) = talos_way(snapshot) {
        return Verdict::whole(outcome);
    }
    let bootstrapped = !is_never_bootstrapped(snapshot);
    let quorum_lost = views(snapshot).is_ok_and(|views| Quorum::of(snapshot, &views).lost());
    let mut verdict = Verdict::default();
    let mut first = true;
    for node in snapshot.nodes.iter().filter(|node| node.leaving && node.role == Role::ControlPlane) {
        verdict.skip(Target::node(node), "the node is being removed");
    }
    for node in control_planes(snapshot) {
        let target = Target::node(node);
        match talos_service(snapshot, node, "etcd") {
            Ok(Some(service)) if is_healthy(service) => verdict.push(target.clone(), healthy(node, &target)),
            Ok(Some(_)) if !bootstrapped => {
                verdict.problem(target, never_bootstrapped(node, first && nothing_listens(snapshot)));
                first = false;
            }
            Ok(Some(service)) => verdict.problem(target, unhealthy(node, service, quorum_lost)),
            Ok(None) if snapshot.external_etcd.is_some() => {
                verdict.skip(target, "etcd runs elsewhere (`--etcd-endpoints`)");
            }
            Ok(None) => {
                let problem = Problem::fail(Reason::ServiceMissing, "service `etcd`", "the machine does not list it");
                verdict.problem(target, problem);
            }
            Err(outcome) => verdict.push(target, outcome),
        }
    }
    if verdict.findings.iter().all(|finding| matches!(finding.outcome, Outcome::Skip(_)))
        && control_planes(snapshot).next().is_none()
    {
        verdict.problem(Target::cluster(), no_control_plane());
    }
    verdict
}

/// The service's health lags 25 s; where the member itself says that it has no leader, the line would be a lie.
fn healthy(node: &Node, target: &Target) -> Outcome {
    let contradicted = node.talos.etcd_status.as_ref().is_ok_and(|status| !has_leader(status));
    Outcome::Pass((!contradicted).then(|| format!("Node {target}: etcd member healthy")))
}

/// All control planes wait, none holds data, and no API server answers.
fn is_never_bootstrapped(snapshot: &Snapshot) -> bool {
    let waits = |node: &Node| {
        let state = talos_service(snapshot, node, "etcd").ok().flatten().map(|service| service.state.as_str());
        state == Some("Preparing") && node.talos.etcd_data_absent == Ok(true)
    };
    let mut nodes = control_planes(snapshot).peekable();
    let kubernetes_answers = snapshot.kubernetes.as_ref().is_some_and(|kubernetes| {
        kubernetes.endpoint.is_ok() || kubernetes.nodes.is_ok() || kubernetes.servers.values().any(Result::is_ok)
    });
    nodes.peek().is_some() && nodes.all(waits) && !kubernetes_answers
}

/// An API server was asked for, and nothing listens there.
fn nothing_listens(snapshot: &Snapshot) -> bool {
    let is_silent = |server: &Observed<Readyz>| {
        use GapKind::{ConnectTimedOut, ConnectionRefused, NoRoute};
        server.as_ref().is_err_and(|gap| matches!(gap.kind, ConnectionRefused | ConnectTimedOut | NoRoute))
    };
    snapshot.kubernetes.as_ref().is_some_and(|kubernetes| {
        let servers = &kubernetes.servers;
        is_silent(&kubernetes.endpoint) || (!servers.is_empty() && servers.values().all(is_silent))
    })
}

fn never_bootstrapped(node: &Node, to_be_bootstrapped: bool) -> Problem {
    let observed = "etcd waits on every control plane, and none has data";
    let problem = Problem::fail(Reason::NeverBootstrapped, "etcd running", observed)
        .hint(Hint::likely("`talosctl bootstrap` was never run, or etcd's image is still being pulled"));
    // Exactly one control plane is to be bootstrapped: more make as many clusters. Hence none where nobody has looked for an API
    // server: it may be the cluster's newest machine, and the only one that we know.
    if to_be_bootstrapped {
        problem.hint(Hint::remedy("{talosctl} -n {} bootstrap", [node.address.as_str()]))
    } else {
        problem
    }
}

fn unhealthy(node: &Node, service: &Service, quorum_lost: bool) -> Problem {
    let address = node.address.as_str();
    let starting = matches!(service.state.as_str(), "Initialized" | "Starting" | "Preparing" | "Waiting");
    let reason = if starting { Reason::EtcdStarting } else { Reason::EtcdUnhealthy };
    let problem = Problem::fail(reason, "etcd running and healthy", service_text(service))
        .about(About::Service(service.id.clone()))
        .hint(Hint::run("{talosctl} -n {} service etcd", [address]))
        .hint(Hint::run("{talosctl} -n {} logs etcd", [address]));
    if service.state == "Running" && service.health_message.contains("learner") {
        problem.explained_by("etcd.learners")
    } else if service.state == "Running" && quorum_lost {
        problem.explained_by("etcd.quorum")
    } else {
        problem
    }
}
