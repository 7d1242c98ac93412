//! Checks whether etcd is running and healthy on every control plane.

use super::contact;
use crate::assess::Assessment;
use crate::checks::Check;
use crate::checks::gaps::{NO_TALOS, talos_service, talos_way};
use crate::checks::scope::no_control_plane;
use crate::model::{About, CheckId, Fact, Hint, Outcome, Problem, Reason, Role, Severity, Stage, Target, Verdict};
use crate::snapshot::{GapKind, Node, Observed, Readyz, Service};
use crate::text::host;

pub(in crate::checks) const SERVICE: Check = Check {
    id: CheckId::EtcdService,
    stage: Stage::Etcd,
    summary: "etcd is running and healthy on every control plane",
    explain: "Reads the service `etcd` of every control plane. Its health is a read that needs a quorum, repeated every 20 \
seconds and cached in between. After the loss of a quorum it still reports healthy for about 25 seconds, and it never \
reports an alarm. So this check alone is not enough; the other checks of this stage query etcd itself.\n\n\
Before `talosctl bootstrap` every control plane waits in state Preparing. This is reported as `never-bootstrapped` only if all \
of them wait, no data directory holds a member, and no Kubernetes API answers. Bootstrapping a cluster that has data would \
create a second cluster. In any other case it is `etcd-starting`: a slow image pull looks the same from outside.\n\n\
A member that is Waiting and \"going to restart forever\" was removed from the cluster while its machine kept running.",
    severity: Severity::Fail,
    finds: &[Reason::ServiceMissing, Reason::NeverBootstrapped, Reason::EtcdStarting, Reason::EtcdUnhealthy],
    facts: &[Fact::TalosNodes, Fact::Services, Fact::EtcdMembership, Fact::EtcdData, Fact::EndpointReadyz],
    judge: service,
};

fn service(cluster: &Assessment<'_>) -> Verdict {
    if !cluster.asks_talos() {
        return Verdict::skipped(NO_TALOS);
    }
    if let Err(outcome) = talos_way(cluster) {
        return Verdict::whole(outcome);
    }
    let bootstrapped = !is_never_bootstrapped(cluster);
    let mut verdict = Verdict::default();
    let mut first = true;
    for node in cluster.nodes().iter().filter(|node| node.leaving && node.role == Role::ControlPlane) {
        verdict.skip(node.target(), "the node is being removed");
    }
    for node in cluster.control_planes() {
        let target = node.target();
        match contact(cluster, node).and_then(|_| talos_service(cluster, node, "etcd")) {
            Ok(Some(service)) if service.is_healthy() => verdict.push(target.clone(), healthy(node, &target)),
            Ok(Some(_)) if !bootstrapped => {
                verdict.problem(target, never_bootstrapped(node, first && may_be_bootstrapped(cluster)));
                first = false;
            }
            Ok(Some(service)) => verdict.problem(target, unhealthy(node, service)),
            Ok(None) if cluster.asks_etcd() => {
                verdict.skip(target, "etcd runs elsewhere (`--etcd-endpoints`)");
            }
            Ok(None) => {
                let problem =
                    Problem::fail(Reason::ServiceMissing, "service `etcd`", "etcd is not in the machine's list");
                verdict.problem(target, problem);
            }
            Err(outcome) => verdict.push(target, outcome),
        }
    }
    if verdict.findings.iter().all(|finding| matches!(finding.outcome, Outcome::Skip(_)))
        && cluster.control_planes().next().is_none()
    {
        verdict.problem(Target::cluster(), no_control_plane());
    }
    verdict
}

/// Passes a healthy service. The line is omitted if the member itself reports that it has no leader, because the service's health lags by
/// 25 s.
fn healthy(node: &Node, target: &Target) -> Outcome {
    let contradicted = node.talos.etcd_status.as_ref().is_ok_and(|status| !status.has_leader());
    Outcome::Pass((!contradicted).then(|| format!("Node {target}: etcd member healthy")))
}

/// Returns true if all control planes are waiting, none has data, and no API server answers.
fn is_never_bootstrapped(cluster: &Assessment<'_>) -> bool {
    let waits = |node: &Node| {
        let state = talos_service(cluster, node, "etcd").ok().flatten().map(|service| service.state.as_str());
        state == Some("Preparing") && node.talos.etcd_data_absent == Ok(true)
    };
    let mut nodes = cluster.control_planes().peekable();
    let kubernetes_answers = cluster.any_kubernetes().is_some_and(|kubernetes| {
        kubernetes.endpoint.is_ok() || kubernetes.nodes.is_ok() || kubernetes.servers.values().any(Result::is_ok)
    });
    nodes.peek().is_some() && nodes.all(waits) && !kubernetes_answers
}

/// Returns true if it is safe to propose a bootstrap, because a second one would create a second cluster. Talos' report is not sufficient:
/// the machines themselves must refuse connections to the API server, and a second source must confirm that there are no other control
/// planes, which could hold the data.
fn may_be_bootstrapped(cluster: &Assessment<'_>) -> bool {
    use GapKind::{ConnectTimedOut, ConnectionRefused, NoRoute};
    let Some(kubernetes) = cluster.any_kubernetes() else { return false };
    let shows =
        |server: &Observed<Readyz>, kinds: &[GapKind]| server.as_ref().is_err_and(|gap| kinds.contains(&gap.kind));
    let refuses = |node: &Node| kubernetes.servers.get(&node.name).is_some_and(|it| shows(it, &[ConnectionRefused]));
    shows(&kubernetes.endpoint, &[ConnectionRefused, ConnectTimedOut, NoRoute])
        && cluster.control_planes().all(refuses)
        && cluster.every_control_plane_was_seen
        && are_all(cluster)
}

/// Returns true if the user confirms that these are all control planes, or discovery and the talosconfig agree on each of them.
fn are_all(cluster: &Assessment<'_>) -> bool {
    let endpoints = || cluster.talos().into_iter().flat_map(|talos| &talos.endpoints).map(|it| host(&it.address));
    let is_named = |node: &Node| {
        node.sources.talosconfig || endpoints().any(|endpoint| node.addresses.iter().any(|it| it == endpoint))
    };
    match cluster.asked.expect_control_planes {
        Some(number) => number == cluster.control_planes().count(),
        None if !cluster.asked.control_plane_nodes.is_empty() => true,
        None => cluster.control_planes().all(|node| node.sources.discovery && is_named(node)),
    }
}

fn never_bootstrapped(node: &Node, to_be_bootstrapped: bool) -> Problem {
    let observed = "etcd waits on every control plane, and none has data";
    let problem = Problem::fail(Reason::NeverBootstrapped, "etcd running", observed)
        .hint(Hint::likely("`talosctl bootstrap` was never run, or etcd's image is still being pulled"));
    // Exactly one control plane is to be bootstrapped: each further one would create another cluster.
    if to_be_bootstrapped {
        problem.hint(Hint::remedy("{talosctl} -n {} bootstrap", [node.address.as_str()]))
    } else {
        problem
    }
}

fn unhealthy(node: &Node, service: &Service) -> Problem {
    let address = node.address.as_str();
    let reason = if service.is_starting() { Reason::EtcdStarting } else { Reason::EtcdUnhealthy };
    Problem::fail(reason, "etcd running and healthy", service.to_string())
        .about(About::Service(service.id.clone()))
        .hint(Hint::run("{talosctl} -n {} service etcd", [address]))
        .hint(Hint::run("{talosctl} -n {} logs etcd", [address]))
}
