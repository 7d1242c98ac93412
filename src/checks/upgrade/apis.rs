//! Checks whether an API was requested that the target no longer serves.

use jiff::Timestamp;

use super::data::Numbers;
use super::{kubernetes_target, some_of};
use crate::assess::Assessment;
use crate::assess::servers::Server;
use crate::assess::workloads::{Renewal, renewal};
use crate::checks::Check;
use crate::checks::gaps::{self, kubernetes_side, of_our_cluster, talos_way_if_asked};
use crate::checks::scope::control_planes;
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{Kubernetes, Node, Observed, RequestedApi, RequestedApis};
use crate::text::version;

pub(in crate::checks) const APIS: Check = Check {
    id: CheckId::UpgradeApis,
    stage: Stage::Upgrade,
    summary: "no API was requested that the target version of Kubernetes removes",
    explain: "Runs with `--upgrade-kubernetes VERSION`. Each API server records which deprecated APIs were requested \
(`apiserver_requested_deprecated_apis` in its metrics) and the version that removes each. An API that the target version has \
removed fails: its clients get 404 after the upgrade. An API that is deprecated but still served is no problem.\n\n\
Every control plane is queried at its own address, because each counts only its own requests and a load balancer hides the \
others. An API server that was not reached, or metrics that cannot be read, are an error. Counting starts when the API server \
starts, so a monthly job may be missing, and a client that was fixed stays listed until the API server restarts.\n\n\
If no API server can be queried at its own address, as behind Omni or with a control plane that a provider runs, one of them is \
queried through the endpoint. If there are others, a warning reports how many.",
    severity: Severity::Fail,
    finds: &[Reason::RemovedApiRequested, Reason::RequestsPartlySeen],
    facts: &[
        Fact::TalosNodes,
        Fact::KubeNodes,
        Fact::Pods,
        Fact::SystemLeases,
        Fact::ApiEndpoints,
        Fact::ServerReadyz,
        Fact::RequestedApis,
    ],
    judge: apis,
};

const EXPECTED: &str = "the metrics of its API server";
const AT_ENDPOINT: &str = "the metrics of the API server";

fn apis(cluster: &Assessment<'_>) -> Verdict {
    let to = match kubernetes_target(cluster) {
        Ok(to) => to,
        Err(verdict) => return verdict,
    };
    let is_ours = talos_way_if_asked(cluster).and_then(|()| of_our_cluster(cluster, EXPECTED));
    let nodes = match is_ours.and_then(|()| control_planes(cluster)) {
        Ok(nodes) => nodes,
        Err(Outcome::Skip(_)) if !cluster.asks_talos() => return at_endpoint(cluster, to),
        Err(outcome) => return Verdict::whole(outcome),
    };
    // All API servers are alive, but none can be queried at its own address.
    if nodes.iter().all(|node| matches!(cluster.server(node), Server::AliveBy(..))) {
        return at_endpoint(cluster, to);
    }
    let mut verdict = Verdict::default();
    let mut started: Option<Timestamp> = None;
    for node in nodes {
        match requested(cluster, node) {
            Ok(requested) => {
                started = started.max(Some(requested.started));
                verdict.push(node.target(), of_server(requested, to));
            }
            Err(outcome) => verdict.push(node.target(), outcome),
        }
    }
    let since = started.map(|it| format!(" since {}", shown(it))).unwrap_or_default();
    verdict.sum_up(&format!("no API that Kubernetes 1.{} has removed was requested{since}", to.1));
    verdict
}

/// Verdict if no API server can be queried at its own address: one of them has answered, behind the endpoint.
fn at_endpoint(cluster: &Assessment<'_>, to: Numbers) -> Verdict {
    let seen = kubernetes_side(cluster).and_then(|side| match of_endpoint(side) {
        Some(Ok(requested)) => Ok(requested),
        Some(Err(gap)) => Err(Outcome::problem(gaps::kubernetes(cluster, gap, AT_ENDPOINT))),
        None => Err(Outcome::problem(Problem::error(Reason::NoAnswer, AT_ENDPOINT, "not queried").unseen())),
    });
    let requested = match seen {
        Ok(requested) => requested,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut verdict = Verdict::whole(of_server(requested, to));
    let leases = cluster.list(|kubernetes| &kubernetes.system_leases);
    let servers = leases
        .map_or(0, |leases| leases.of_api_servers().filter(|it| renewal(it, leases.date) == Renewal::Renewed).count());
    if servers != 1 {
        let all = if servers == 0 { "an unknown number of".to_owned() } else { servers.to_string() };
        let observed = format!("1 of {all} API servers has answered, behind the endpoint");
        let problem = Problem::warn(Reason::RequestsPartlySeen, "the metrics of each API server", observed);
        verdict.problem(Target::cluster(), problem.permanent());
    }
    let since = shown(requested.started);
    verdict.sum_up(&format!("no API that Kubernetes 1.{} has removed was requested since {since}", to.1));
    verdict
}

fn of_endpoint(side: &Kubernetes) -> Option<&Observed<RequestedApis>> {
    side.requested_apis.get(&side.credentials.as_ref().ok()?.server)
}

fn shown(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

fn requested<'a>(cluster: &Assessment<'a>, node: &Node) -> Result<&'a RequestedApis, Outcome> {
    let gap = match kubernetes_side(cluster)?.requested_apis.get(&node.name) {
        Some(Ok(requested)) => return Ok(requested),
        Some(Err(gap)) => gap,
        None => return Err(Outcome::problem(Problem::error(Reason::NoAnswer, EXPECTED, "not queried").unseen())),
    };
    let problem = gaps::kubernetes(cluster, gap, EXPECTED);
    // A server that does not even report its readiness is judged by another check.
    let was_seen = matches!(cluster.server(node), Server::Ready | Server::NotReady(_));
    Err(Outcome::problem(if was_seen { problem } else { problem.unseen() }))
}

fn of_server(requested: &RequestedApis, (_, target, _): Numbers) -> Outcome {
    let mut gone = Vec::new();
    for api in requested.apis.iter().filter(|api| !api.removed.is_empty()) {
        match version::numbers(&format!("{}.0", api.removed)) {
            Some((1, minor, _)) if minor > target => {}
            Some((1, _, _)) => gone.push(format!("{} (removed in {})", name(api), api.removed)),
            _ => {
                let observed = format!("{} is removed in `{}`", name(api), api.removed);
                let expected = "a version such as `1.32`";
                return Outcome::problem(Problem::error(Reason::UnreadableAnswer, expected, observed));
            }
        }
    }
    if gone.is_empty() {
        return Outcome::Pass(None);
    }
    gone.sort();
    let observed = format!("requested since its start at {}: {}", shown(requested.started), some_of(&gone));
    let problem = Problem::fail(Reason::RemovedApiRequested, format!("only APIs that 1.{target} has"), observed);
    let hint = Hint::run("{kubectl} get --raw /metrics", []);
    Outcome::problem(problem.permanent().hint(hint))
}

/// Formats `policy/v1beta1 podsecuritypolicies/status`.
fn name(api: &RequestedApi) -> String {
    let RequestedApi { group, version, resource, subresource, .. } = api;
    let slash = |part: &str| if part.is_empty() { "" } else { "/" };
    format!("{group}{}{version} {resource}{}{subresource}", slash(group), slash(subresource))
}
