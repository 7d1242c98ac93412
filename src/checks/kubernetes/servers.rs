//! Each control plane's own API server, queried at the node's address.

use std::collections::BTreeSet;

use crate::assess::Assessment;
use crate::assess::components::Component;
use crate::assess::servers::{ApiserverEvidence, Server, endpoint_is_down, is_closed, is_ready, leases_of};
use crate::assess::workloads::{RENEWAL, has_moved};
use crate::checks::Check;
use crate::checks::gaps::{self, kubernetes_side, listed, look_at_server, unseen};
use crate::checks::scope::{control_planes, declared_off};
use crate::model::{
    About, CheckId, Fact, Hint, Outcome, Problem, Reason, Role, Severity, Stage, Status, Target, Verdict,
};
use crate::snapshot::{GapKind, Kubernetes, Node, ServiceEndpoint};
use crate::text::{bracketed, host, some};

pub(in crate::checks) const SERVERS: Check = Check {
    id: CheckId::K8sApiServers,
    stage: Stage::ApiServer,
    summary: "the API server of every control plane reports ready",
    explain: "Requests `/readyz?verbose` from every control plane at its own address, bypassing the load balancer. A load \
balancer hides a dead API server as long as another one works; an upgrade that then takes down the working one takes down the \
cluster.\n\n\
A server that accepts the connection and does not answer is frozen: TCP health checks still report it as up. If this runner \
cannot reach the nodes, a server counts as alive if its lease in kube-system is renewed or, if it has no lease, if it is \
among the endpoints of the Service default/kubernetes; the report shows this. The same applies to a server that is sent no \
credentials: \
a token or a password goes only to addresses that default/kubernetes or etcd's member list names, because a compromised worker can \
claim to be a control plane. If other API servers are reached directly, this is \
a warning: packets to this one are dropped, or its machine has a problem. After a refused connection only a lease that is seen \
to be renewed counts, because a recent one may belong to a server that has just died. With --no-talos, a certificate that lacks the \
address is a warning, if default/kubernetes lists that address and the certificate is valid for the name of the Node and for \
`kubernetes.default.svc`.\n\n\
Pods reach the API servers through the Service default/kubernetes. The check fails if this Service has no ready endpoint \
although an API server is ready, or if one of its endpoints is a worker. Ready API servers that are not among the endpoints \
are a warning. So are unknown addresses alongside those of control planes and, where Talos reports the addresses of its \
machines, several unknown addresses on their own; a load balancer has one. With three or more Talos control planes, it is a \
warning if the kubeconfig's endpoint is the address of one of them and not a virtual IP.\n\n\
Look at the server's log on the node (`talosctl -n NODE logs --kubernetes kube-system/kube-apiserver-…`, IDs from `talosctl containers \
--kubernetes`), then at etcd there. Where the servers cannot be reached, check firewalls between this runner and port 6443 of the nodes.",
    severity: Severity::Fail,
    finds: &[
        Reason::ConnectionRefused,
        Reason::UnknownCa,
        Reason::NameNotInCertificate,
        Reason::ServerCertificateExpired,
        Reason::ApiUnreachable,
        Reason::ApiNotReady,
        Reason::ApiFrozen,
        Reason::ApiUnreachableFromHere,
        Reason::ServerNotDirectlyReachable,
        Reason::ApiServiceStray,
        Reason::ApiServiceIncomplete,
        Reason::ApiServiceEmpty,
        Reason::EndpointOnMachine,
    ],
    facts: FACTS,
    judge: servers,
};

/// The facts that show the state of each server.
pub(super) const FACTS: &[Fact] = &[
    Fact::TalosNodes,
    // Shows whether a proxy is in front of all servers.
    Fact::EndpointReadyz,
    Fact::ServerReadyz,
    Fact::SystemLeases,
    Fact::ApiEndpoints,
    Fact::KubeNodes,
];

fn servers(cluster: &Assessment<'_>) -> Verdict {
    let kubernetes = match kubernetes_side(cluster) {
        Ok(kubernetes) => kubernetes,
        Err(outcome) => return Verdict::whole(outcome),
    };
    // Another cluster's CA and leases would make healthy servers look bad.
    if cluster.is_other_cluster() {
        return Verdict::whole(unseen(Reason::WrongCluster, "API servers of this cluster", "another cluster's"));
    }
    let nodes = match control_planes(cluster) {
        Ok(nodes) => nodes,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut verdict = Verdict::default();
    for node in nodes {
        let judged = || with_next_steps(cluster, node, on_node(cluster, node));
        let outcome = declared_off(cluster, node).unwrap_or_else(judged);
        if outcome.status() == Status::Fail && could_be_renewed(cluster, kubernetes, node) {
            verdict.resample_after = Some(RENEWAL);
        }
        verdict.push(node.target(), outcome);
    }
    let of_service = service(cluster, kubernetes);
    if of_service.is_empty() && cluster.servers_are_all_ready() {
        verdict.sum_up("All Kubernetes API server endpoints are healthy");
    }
    // An endpoint from the command line is deliberate, and not the one that all other clients use.
    let is_everybodys = cluster.asks_talos() && cluster.asked.k8s_endpoint.is_none();
    let outlives_one = is_everybodys && cluster.control_planes().count() >= SEVERAL;
    for node in cluster.control_planes().filter(|_| outlives_one) {
        if let Some(problem) = on_machine(cluster, node) {
            verdict.problem(node.target(), problem);
        }
    }
    for outcome in of_service {
        verdict.push(Target::cluster(), outcome);
    }
    verdict
}

/// Number of control planes from which the API is expected to survive the loss of one.
const SEVERAL: usize = 3;

/// Warns if the API depends on this machine, because the endpoint in use is one of the machine's own addresses. A virtual IP moves to
/// another machine, and is not any Node's InternalIP.
pub(in crate::checks) fn on_machine(cluster: &Assessment<'_>, node: &Node) -> Option<Problem> {
    let kubernetes = cluster.any_kubernetes().filter(|kubernetes| !endpoint_is_down(kubernetes))?;
    let address = cluster.endpoint_address(kubernetes);
    let names = [Some(&node.name), node.hostname.as_ref()].into_iter().flatten();
    let mut own = names.chain(&cluster.object(node)?.internal);
    own.any(|own| own.eq_ignore_ascii_case(host(&address))).then(|| {
        let expected = "an endpoint for all API servers: a virtual IP, a load balancer or a DNS name";
        Problem::warn(Reason::EndpointOnMachine, expected, address.as_str()).permanent()
    })
}

/// Judges the Service through which pods reach the API servers. Every ready server, or whatever is in front of it, has to be among its
/// endpoints.
fn service(cluster: &Assessment<'_>, kubernetes: &Kubernetes) -> Vec<Outcome> {
    // Other checks judge whether the lists belong to this cluster and whether any server works.
    let works = kubernetes.endpoint.as_ref().is_ok_and(is_ready) || cluster.some_server_is_ready();
    if !works || !cluster.is_trusted() {
        return Vec::new();
    }
    let expected = "a ready endpoint of default/kubernetes";
    let endpoints = match listed(cluster, |kubernetes| &kubernetes.api_endpoints, expected) {
        Ok(endpoints) => endpoints,
        Err(outcome) => return vec![outcome],
    };
    if endpoints.iter().any(|endpoint| endpoint.serves("TCP")) {
        return astray(cluster, endpoints).into_iter().map(|it| Outcome::problem(it.hint(SHOW_SLICES))).collect();
    }
    vec![Outcome::problem(
        Problem::fail(Reason::ApiServiceEmpty, expected, "none is ready, although an API server is")
            .hint(Hint::likely("API servers that do not list themselves (`--endpoint-reconciler-type=none`), or something deletes the endpoints"))
            .hint(SHOW_SLICES),
    )]
}

const SHOW_SLICES: Hint = Hint::Try {
    command: "{kubectl} -n default get endpointslices -l kubernetes.io/service-name=kubernetes -o yaml",
    arguments: Vec::new(),
};

/// Problems with the machines behind the endpoints. A single unknown address belongs to whatever is in front of the API servers, and a run
/// without control planes among its machines cannot recognize any endpoint.
fn astray(cluster: &Assessment<'_>, endpoints: &[ServiceEndpoint]) -> Vec<Problem> {
    let ready = endpoints.iter().filter(|endpoint| endpoint.serves("TCP"));
    let addresses: BTreeSet<&String> = ready.flat_map(|endpoint| &endpoint.addresses).collect();
    let has = |node: &Node, address: &String| node.addresses.contains(address) || node.own_addresses.contains(address);
    // A guest may claim a machine's address.
    let own = || cluster.nodes().iter().filter(|node| !cluster.is_guest(node));
    let of = |address: &String| own().filter(|node| has(node, address)).min_by_key(|node| node.role == Role::Worker);
    let known: Vec<&Node> = addresses.iter().filter_map(|address| of(address)).collect();
    let guests = || cluster.nodes().iter().filter(|node| cluster.is_guest(node));
    let of_guest = |address: &&&String| guests().find(|node| has(node, address));
    let (of_guests, unknown): (Vec<_>, Vec<_>) =
        addresses.iter().filter(|address| of(address).is_none()).partition(|address| of_guest(address).is_some());
    // Talos reports all addresses of its machines; a Node has only the addresses at which it can be reached.
    let has_control_planes = cluster.asks_talos() && cluster.control_planes().next().is_some();
    let is_left_out = |node: &&Node| {
        matches!(cluster.server(node), Server::Ready) && !addresses.iter().any(|address| has(node, address))
    };
    let left_out: Vec<&Node> = cluster.control_planes().filter(is_left_out).collect();
    let mut problems = Vec::new();
    if let Some(worker) = known.iter().find(|node| node.role == Role::Worker) {
        let expected = "the endpoints of default/kubernetes are API servers";
        let target = worker.target();
        problems.push(if cluster.asks_talos() {
            Problem::fail(Reason::ApiServiceStray, expected, format!("an endpoint is {target}, which is a worker"))
        } else {
            // Without the label, the role of a machine is unknown.
            let observed = format!("an endpoint is {target}, which has no control plane label");
            Problem::warn(Reason::ApiServiceStray, expected, observed)
        });
    }
    if let Some(guest) = of_guests.iter().find_map(of_guest).filter(|guest| guest.role == Role::Worker) {
        let expected = "the endpoints of default/kubernetes are API servers";
        let observed = format!("an endpoint is {}, which is not a control plane", guest.target());
        problems.push(Problem::fail(Reason::ApiServiceStray, expected, observed));
    }
    if !unknown.is_empty() && (!known.is_empty() || (unknown.len() > 1 && has_control_planes)) {
        let observed = format!("no known machine has {}", some(unknown.into_iter(), NAMES));
        let expected = "the endpoints of default/kubernetes are control planes";
        problems.push(Problem::warn(Reason::ApiServiceStray, expected, observed));
    }
    if !known.is_empty() && !left_out.is_empty() {
        let observed = format!("{} is ready, but not among them", some(left_out.iter().map(|it| it.target()), NAMES));
        let expected = "the endpoints of default/kubernetes are all API servers";
        problems.push(Problem::warn(Reason::ApiServiceIncomplete, expected, observed));
    }
    problems
}

/// Maximum number of addresses that are named.
const NAMES: usize = 3;

/// Warning about a server whose certificate lacks the address at which default/kubernetes lists it.
fn unnamed(cluster: &Assessment<'_>, node: &Node) -> Option<Problem> {
    let readyz = cluster.any_kubernetes()?.servers.get(&node.name)?.as_ref().ok()?;
    let gap = readyz.unnamed.as_ref()?;
    let expected = "its certificate is valid for the address at which default/kubernetes lists it";
    Some(Problem::warn(Reason::NameNotInCertificate, expected, &*gap.text).permanent())
}

fn on_node(cluster: &Assessment<'_>, node: &Node) -> Outcome {
    let expected = "/readyz answers 200, or the server's lease is renewed";
    Outcome::problem(match cluster.server(node) {
        Server::NotAsked => Problem::error(Reason::NoAnswer, "an answer to /readyz", "not queried"),
        Server::Ready => return unnamed(cluster, node).map_or(Outcome::Pass(None), Outcome::problem),
        Server::NotReady(readyz) if readyz.misses_only_etcd() => gaps::readyz(cluster, readyz),
        Server::NotReady(readyz) => gaps::readyz(cluster, readyz).about(About::Itself),
        Server::Lost(gap) => Problem::fail(Reason::ApiUnreachable, "/readyz answers 200", &*gap.text),
        Server::AliveBy(sign, gap) => {
            let sign = match sign {
                ApiserverEvidence::Lease => "its lease is current",
                ApiserverEvidence::Endpoints => "it is an endpoint of default/kubernetes",
            };
            // If a load balancer is the only way in, all servers are out of reach, which is not a problem.
            if !cluster.some_server_is_reached() {
                let why = if gap.kind == GapKind::Untrusted {
                    "sent no credentials"
                } else {
                    "not reachable from this runner"
                };
                return Outcome::Pass(Some(format!("{}: API server {why}; {sign}", node.target())));
            }
            let from_here = if gap.kind == GapKind::Untrusted { "" } else { " (from this runner)" };
            let observed = format!("{}{from_here}; {sign}", gap.text);
            Problem::warn(Reason::ApiUnreachableFromHere, "an answer, as from other API servers", observed)
        }
        Server::Refused(gap) => Problem::fail(Reason::ConnectionRefused, expected, &*gap.text),
        Server::OutOfReach { gap, has_lease } => {
            if let Some(outcome) = unproven(cluster, has_lease) {
                return outcome;
            }
            let lease = if has_lease { "its lease is stale" } else { "it has no lease" };
            Problem::fail(Reason::ServerNotDirectlyReachable, expected, format!("{}; {lease}", gap.text))
                .hint(Hint::likely("the API server is down, or its port is filtered between this runner and the node"))
        }
        Server::Unanswered(gap) => gaps::no_readyz(cluster, gap),
    })
}

/// Explains why evidence from other sources is missing, if it could not be read.
fn unproven(cluster: &Assessment<'_>, has_lease: bool) -> Option<Outcome> {
    let leases = listed(cluster, |kubernetes| &kubernetes.system_leases, "the leases of the API servers");
    let endpoints = || listed(cluster, |kubernetes| &kubernetes.api_endpoints, "the endpoints of default/kubernetes");
    leases.err().or_else(|| endpoints().err().filter(|_| !has_lease))
}

/// Adds commands that show more about a failing server. If its node is lost, the node comes first.
fn with_next_steps(cluster: &Assessment<'_>, node: &Node, outcome: Outcome) -> Outcome {
    let Outcome::Problem(problem) = outcome else { return outcome };
    if problem.severity != Severity::Fail {
        return Outcome::Problem(problem);
    }
    if matches!(cluster.server(node), Server::Lost(_)) {
        let name = cluster.name_in_kubernetes(node);
        return Outcome::problem(problem.hint(Hint::run("{kubectl} describe node {}", [name])));
    }
    let look = look_at_server(&problem, &format!("{}:{}", bracketed(&node.address), node.api_port));
    let containers = Hint::run("{talosctl} -n {} containers --kubernetes", [&node.address]);
    Outcome::problem(match cluster.asks_talos() {
        // A server that hangs would not answer kubectl either, but another one has its log.
        true if problem.reason == Reason::ApiFrozen => {
            let log = Hint::run("{kubectl} -n kube-system logs {} --tail 50", [&Component::ApiServer.pod_name(node)]);
            if cluster.list(|kubernetes| &kubernetes.endpoint).is_some_and(is_ready) {
                problem.hint(log).hint(look).hint(containers)
            } else {
                problem.hint(containers).hint(look)
            }
        }
        true => problem.hint(look).hint(containers),
        false => problem.hint(look),
    })
}

/// Returns true if a second sample could show that the lease is being renewed.
fn could_be_renewed(cluster: &Assessment<'_>, kubernetes: &Kubernetes, node: &Node) -> bool {
    matches!(cluster.server(node), Server::Refused(gap) | Server::OutOfReach { gap, .. } if is_closed(gap.kind))
        && kubernetes.system_leases.as_ref().is_ok_and(|leases| leases_of(leases, node).any(|lease| !has_moved(lease)))
}
