//! Each control plane's own API server, asked at the node's address.

use super::apiserver::{ask_server, not_ready, silent};
use super::kube_common::{
    ENDPOINT, IDENTITY, REACHABLE, RENEWAL, control_planes, etcd_trouble, explained, has_moved, is_alive, listed, lost,
    own_etcd_trouble,
};
use super::{
    Check, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Status, Target, Verdict, components, identity,
};
use crate::snapshot::{Gap, GapKind, Kubernetes, Lease, Leases, Node, Observed, Readyz, ServiceEndpoint, Snapshot};

pub(super) const ID: &str = "k8s.api.servers";

pub(super) const SERVERS: Check = Check {
    id: ID,
    stage: Stage::ApiServer,
    summary: "the API server of every control plane says that it is ready",
    explain: "Asks `/readyz?verbose` of every control plane at its own address, past the load balancer. A balancer hides a \
dead API server as long as another one lives; an upgrade that then takes the living one down takes the cluster down.\n\n\
A server that accepts the connection and does not answer is frozen: TCP checks call it up. Where the nodes cannot be reached \
from here, a server counts as alive if its lease in kube-system is renewed or if it is among the endpoints of the Service \
default/kubernetes; the report says so. After a refused connection only a lease that moves counts, for a fresh one may \
belong to a server that has just died.\n\n\
Look at the server's log on the node (`talosctl -n NODE logs -k kube-system/kube-apiserver-…`, ids from `talosctl containers \
-k`), then at etcd there. Where the servers cannot be dialled, check firewalls between here and port 6443 of the nodes.",
    severity: Severity::Fail,
    requires: &["k8s.credentials"],
    facts: &[Fact::TalosNodes, Fact::ServerReadyz, Fact::SystemLeases, Fact::ApiEndpoints, Fact::KubeNodes],
    judge: servers,
};

fn servers(snapshot: &Snapshot) -> Verdict {
    let kubernetes = match super::kube_common::kubernetes(snapshot) {
        Ok(kubernetes) => kubernetes,
        Err(outcome) => return Verdict::whole(outcome),
    };
    // Another cluster's CA and leases would accuse healthy servers.
    if identity::is_other_cluster(snapshot) {
        return Verdict::blocked(IDENTITY);
    }
    let nodes = match control_planes(snapshot) {
        Ok(nodes) => nodes,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let behind_proxy = identity::is_behind_proxy(snapshot, kubernetes);
    let mut verdict = Verdict::default();
    for node in nodes {
        let outcome = with_next_steps(snapshot, node, on_node(snapshot, kubernetes, node, behind_proxy));
        if outcome.status() == Status::Fail && could_be_renewed(snapshot, kubernetes, node) {
            verdict.resample_after = Some(RENEWAL);
        }
        verdict.push(Target::node(node), outcome);
    }
    verdict.sum_up("All Kubernetes API server endpoints are healthy");
    verdict
}

/// How the API server of this control plane fares.
pub(super) fn on_node(snapshot: &Snapshot, kubernetes: &Kubernetes, node: &Node, behind_proxy: bool) -> Outcome {
    match kubernetes.servers.get(&node.name) {
        None => Outcome::Problem(Problem::error(Reason::NoAnswer, "an answer to /readyz", "nobody asked")),
        Some(Ok(readyz)) if readyz.status == 200 && readyz.failed.is_empty() => Outcome::Pass(None),
        Some(Ok(readyz)) => Outcome::Problem(unready(snapshot, kubernetes, node, readyz)),
        Some(Err(gap)) => unanswered(snapshot, node, gap, behind_proxy),
    }
}

/// Where to look at a server that is seen to be wrong. With a node that is lost, the node comes first.
fn with_next_steps(snapshot: &Snapshot, node: &Node, outcome: Outcome) -> Outcome {
    let Outcome::Problem(problem) = outcome else { return outcome };
    if problem.severity != Severity::Fail || problem.explained_by == Some(REACHABLE) {
        return Outcome::Problem(problem);
    }
    let host = if node.address.contains(':') { format!("[{}]", node.address) } else { node.address.clone() };
    let problem = problem.hint(ask_server(&format!("https://{host}:{}", node.api_port)));
    Outcome::Problem(if snapshot.talos.is_some() {
        problem.hint(Hint::run("{talosctl} -n {} containers -k", [&node.address]))
    } else {
        problem
    })
}

fn unready(snapshot: &Snapshot, kubernetes: &Kubernetes, node: &Node, readyz: &Readyz) -> Problem {
    let problem = not_ready(snapshot, readyz);
    let same_at_endpoint = kubernetes.endpoint.as_ref().is_ok_and(|endpoint| endpoint.status == readyz.status);
    if problem.severity == Severity::Error && same_at_endpoint {
        return problem.explained_by(ENDPOINT);
    }
    if problem.severity != Severity::Fail {
        return problem;
    }
    // Whatever else it names is not etcd's doing.
    let is_etcd = readyz.failed.iter().all(|check| check.starts_with("etcd"));
    let by = if is_etcd { own_etcd_trouble(snapshot, node) } else { etcd_trouble(snapshot) };
    explained(problem, by)
}

fn unanswered(snapshot: &Snapshot, node: &Node, gap: &Gap, behind_proxy: bool) -> Outcome {
    match gap.kind {
        kind if is_out_of_reach(kind) || kind == GapKind::ConnectionRefused => {
            if lost(snapshot, node) {
                let problem = Problem::fail(Reason::ApiUnreachable, "/readyz answers 200", gap.text.as_str());
                return Outcome::Problem(problem.explained_by(REACHABLE));
            }
            indirectly(snapshot, node, gap)
        }
        GapKind::UnknownCa if behind_proxy => indirectly(snapshot, node, gap),
        GapKind::TimedOut if lost(snapshot, node) => {
            let problem = Problem::fail(Reason::ApiUnreachable, "/readyz answers 200", gap.text.as_str());
            Outcome::Problem(problem.explained_by(REACHABLE))
        }
        _ => Outcome::Problem(explained(silent(snapshot, gap), own_etcd_trouble(snapshot, node))),
    }
}

/// The server was not seen, because the way to it is closed: no evidence either way.
fn is_out_of_reach(kind: GapKind) -> bool {
    use GapKind::{ConnectTimedOut, NameNotFound, NoRoute, NodeUnreachable, Proxy};
    matches!(kind, NoRoute | ConnectTimedOut | NameNotFound | NodeUnreachable | Proxy)
}

/// Life that others have seen.
fn indirectly(snapshot: &Snapshot, node: &Node, gap: &Gap) -> Outcome {
    let refused = gap.kind == GapKind::ConnectionRefused;
    let leases = listed(snapshot, |kubernetes| &kubernetes.system_leases, "the leases of the API servers");
    let alive = |leases: &Leases| {
        let date = leases.date.filter(|_| !refused);
        leases_of(leases, node).any(|lease| is_alive(lease, date))
    };
    if leases.as_ref().is_ok_and(|leases| alive(leases)) {
        return Outcome::Pass(Some(format!(
            "{}: API server lives by its lease, not reachable from here",
            Target::node(node)
        )));
    }
    let endpoints = listed(snapshot, |kubernetes| &kubernetes.api_endpoints, "the endpoints of default/kubernetes");
    let served = |endpoints: &Vec<ServiceEndpoint>| {
        let has = |endpoint: &ServiceEndpoint| endpoint.addresses.iter().any(|it| node.addresses.contains(it));
        endpoints.iter().any(|endpoint| endpoint.ready && has(endpoint))
    };
    if !refused && endpoints.as_ref().is_ok_and(|endpoints| served(endpoints)) {
        return Outcome::Pass(Some(format!(
            "{}: API server serves default/kubernetes, not reachable from here",
            Target::node(node)
        )));
    }
    let expected = "/readyz answers 200, or the server's lease is renewed";
    if refused {
        let problem = Problem::fail(Reason::ConnectionRefused, expected, gap.text.as_str());
        return Outcome::Problem(explained(problem, components::why_no_server(snapshot, node)));
    }
    match (leases, endpoints) {
        (Err(outcome), _) => outcome,
        (Ok(leases), Err(outcome)) if leases_of(leases, node).next().is_none() => outcome,
        (Ok(leases), _) => {
            let what = if leases_of(leases, node).next().is_some() { "its lease is stale" } else { "it has no lease" };
            let observed = format!("{}; {what}", gap.text);
            Outcome::Problem(
                Problem::fail(Reason::ServerNotDirectlyReachable, expected, observed)
                    .hint(Hint::likely("the API server is down, or its port is filtered between here and the node")),
            )
        }
    }
}

/// The identity leases of this node's API server, those of former processes included.
fn leases_of<'a>(leases: &'a Leases, node: &Node) -> impl Iterator<Item = &'a Lease> {
    let of_api_servers = leases.by_name.iter().filter(|(name, _)| name.starts_with("apiserver-"));
    of_api_servers.map(|(_, lease)| lease).filter(move |lease| lease.hostname.as_deref() == Some(node.name.as_str()))
}

/// A second sample could show the lease moving.
fn could_be_renewed(snapshot: &Snapshot, kubernetes: &Kubernetes, node: &Node) -> bool {
    let closed = |server: &Observed<Readyz>| {
        server.as_ref().is_err_and(|gap| is_out_of_reach(gap.kind) || gap.kind == GapKind::ConnectionRefused)
    };
    !lost(snapshot, node)
        && kubernetes.servers.get(&node.name).is_some_and(closed)
        && kubernetes.system_leases.as_ref().is_ok_and(|leases| leases_of(leases, node).any(|lease| !has_moved(lease)))
}
