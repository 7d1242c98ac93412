//! Stage 1: checks whether the endpoints answer, and each node behind them.

use crate::assess::{Assessment, is_older, lets_nobody_in};
use crate::checks::Check;
use crate::checks::gaps::{self, NO_TALOS, is_no_connection, says_nothing};
use crate::checks::scope::{absence_declared, each_node};
use crate::checks::stated;
use crate::model::{
    About, CheckId, Fact, Hint, Kind, Outcome, Problem, Reason, Role, Severity, Stage, Target, Verdict,
};
use crate::snapshot::{Contact, Endpoint, Gap, GapKind, Node, Talos};
use crate::text::host;

pub(in crate::checks) const ENDPOINTS: Check = Check {
    id: CheckId::TalosEndpoints,
    stage: Stage::Connectivity,
    summary: "the talosconfig's endpoints answer",
    explain: "Queries every endpoint of the talosconfig for its own version, each on its own connection and without a node to \
forward to. Clients rotate through the endpoints, so a single bad entry shows only now and then; here each is reported.\n\n\
When none answers, nothing is known about the machines. An endpoint that refuses or resets the connection, or never answers \
on it, fails, because that comes from the cluster's side. If a name does not resolve, there is no route, the connection \
times out or a proxy \
refuses, the network of this runner may be the reason: that is an error, unless something else of the cluster answered in the same \
round. A certificate from another CA is always an error. Each endpoint is reported with its own cause: connection refused, timeout, \
a name that does not resolve, a certificate from another CA (another cluster, or a machine in maintenance mode), a certificate \
that is not valid for the address, or a refused client certificate.\n\n\
The warning `endpoint-cut-off` means that an endpoint cannot reach a node that answers through another one: the network is \
partitioned. Each node is queried through one endpoint, and through the next when that fails, so not every pair is tested.\n\n\
The endpoint of an Omni context is not a machine: Omni forwards the requests that the service account has signed. The error \
`signature-refused` means that Omni does not accept the signature.\n\n\
Endpoints must be control planes, because workers do not forward requests. The virtual IP of the Kubernetes API is a bad \
endpoint: it disappears when etcd is down, exactly when Talos is needed. Correct the endpoints with `talosctl config \
endpoint`.",
    severity: Severity::Fail,
    finds: &[
        Reason::RoleTooLow,
        Reason::ConnectionRefused,
        Reason::NoRoute,
        Reason::TimedOut,
        Reason::NameNotFound,
        Reason::UnknownCa,
        Reason::NameNotInCertificate,
        Reason::ServerCertificateExpired,
        Reason::ClientCertificateRefused,
        Reason::SignatureRefused,
        Reason::EndpointIsWorker,
        Reason::EndpointIsVip,
        Reason::EndpointCutOff,
        Reason::ProxyRefused,
        Reason::MaintenanceMode,
        Reason::NodeUnreachable,
        Reason::Throttled,
        Reason::UnreadableAnswer,
        Reason::AnswerTooLarge,
        Reason::NotSupportedByVersion,
        Reason::NoAnswer,
    ],
    facts: &[Fact::TalosNodes],
    judge: endpoints,
};

pub(in crate::checks) const REACHABLE: Check = Check {
    id: CheckId::TalosNodesReachable,
    stage: Stage::Connectivity,
    summary: "every node answers on the Talos API, and answers for itself",
    explain: "Queries every known node for its version through a working endpoint, each with its own deadline. Since the \
endpoint is known to work, a failure is a problem of the node, or of the network between the endpoint and the node.\n\n\
`node-unreachable`: the machine is down, or port 50000 is filtered between endpoint and node. `node-frozen`: no answer at all; \
machined hangs, or packets are dropped. `maintenance-mode`: the machine runs without a configuration. \
`answered-by-other-node`: the address leads to another machine, often because it is a virtual IP or DHCP reassigned it.\n\n\
What Kubernetes reports about the same machine is checked separately: a node that Talos cannot reach can still be Ready.",
    severity: Severity::Fail,
    finds: &[
        Reason::MaintenanceMode,
        Reason::AnsweredByOtherNode,
        Reason::NodeUnknown,
        Reason::NodeUnreachable,
        Reason::NodeFrozen,
        Reason::NoAnswer,
    ],
    facts: &[Fact::TalosNodes],
    judge: reachable,
};

fn endpoints(cluster: &Assessment<'_>) -> Verdict {
    let Some(talos) = cluster.talos() else { return Verdict::skipped(NO_TALOS) };
    if let Err(gap) = &talos.credentials {
        return Verdict::whole(Outcome::problem(gaps::talos(gap, "a usable talosconfig").unseen()));
    }
    if talos.endpoints.is_empty() {
        let problem =
            Problem::error(Reason::EndpointUnreachable, "at least one endpoint", "the context has no endpoints");
        return Verdict::whole(Outcome::problem(problem.permanent()));
    }
    let some_forwards = talos.endpoints.iter().any(|endpoint| endpoint.version.is_ok() && !is_worker(endpoint));
    let all_workers = talos.endpoints.iter().all(is_worker);
    let mut verdict = Verdict::default();
    for endpoint in &talos.endpoints {
        let target = Target::new(Kind::Endpoint, endpoint.address.as_str());
        match &endpoint.version {
            Err(gap) => {
                if let Some(outcome) = absence_of_machine(cluster, endpoint, gap).filter(|_| some_forwards) {
                    verdict.push(target, outcome);
                    continue;
                }
                let problem = dead_endpoint(cluster, talos, &endpoint.address, gap);
                let severity = if some_forwards { Severity::Warn } else { severity_of_last(cluster, gap.kind) };
                let problem = Problem { severity, ..problem };
                verdict.problem(target, problem);
            }
            Ok(_) if is_worker(endpoint) => {
                let expected = "a control plane (workers cannot forward requests)";
                let problem =
                    Problem::fail(Reason::EndpointIsWorker, expected, "is a worker, which cannot forward requests")
                        .hint(Hint::likely(
                            "pass control planes with `-e`, or set them with `talosctl config endpoint`",
                        ));
                let problem = Problem {
                    severity: if some_forwards { Severity::Warn } else { Severity::Fail },
                    waiting_helps: !some_forwards && !all_workers,
                    ..problem
                };
                verdict.problem(target, problem);
            }
            Ok(_) if endpoint.vip => {
                let expected = "a control plane's own address";
                let observed = "the virtual IP of the Kubernetes API, which disappears when etcd is down";
                verdict.problem(target, Problem::warn(Reason::EndpointIsVip, expected, observed).permanent());
            }
            Ok(_) => match cut_off(cluster, endpoint) {
                Some(problem) => verdict.problem(target, problem),
                None => verdict.ok(target),
            },
        }
    }
    verdict
}

/// The outcome for an endpoint at which nothing answers, because its machine is off, as the policy says.
fn absence_of_machine(cluster: &Assessment<'_>, endpoint: &Endpoint, gap: &Gap) -> Option<Outcome> {
    let is_silent = matches!(gap.kind, GapKind::ConnectTimedOut | GapKind::NoRoute) && !endpoint.vip;
    let is_there = |node: &&Node| node.addresses.iter().any(|address| address == host(&endpoint.address));
    let mut there = cluster.nodes().iter().filter(is_there);
    let first = absence_declared(cluster, there.next()?).filter(|_| is_silent)?;
    // Another machine may have taken the address.
    there.all(|other| cluster.machine(other).is_declared_off()).then_some(first)
}

/// Severity of an unusable endpoint if no other endpoint forwards. Observations of the cluster are failures: no configuration, a refusal, a
/// reset, a timeout after connecting. An obstacle that may be in this runner's network is a failure only if some other part of the cluster
/// answered in the same round. A foreign certificate and a refused client certificate are errors, because the credentials may be those of
/// another cluster.
fn severity_of_last(cluster: &Assessment<'_>, kind: GapKind) -> Severity {
    use GapKind::{Broken, ConnectionRefused, Maintenance, NodeUnreachable, ServerError, TimedOut, UnknownCa};
    let is_failure = match kind {
        Broken | ConnectionRefused | Maintenance | NodeUnreachable | ServerError | TimedOut => true,
        UnknownCa => false,
        kind => gaps::is_on_the_way(kind) && cluster.something_answers(),
    };
    if is_failure { Severity::Fail } else { Severity::Error }
}

/// Reports an endpoint that cannot reach nodes which answer through another endpoint.
fn cut_off(cluster: &Assessment<'_>, endpoint: &Endpoint) -> Option<Problem> {
    let is_it = |contact: &Contact| contact.not_through.contains(&endpoint.address);
    let lost: Vec<&str> = cluster
        .nodes()
        .iter()
        .filter(|node| !node.out_of_scope && node.talos.contact.as_ref().is_ok_and(is_it))
        .map(|node| node.name.as_str())
        .collect();
    if lost.is_empty() {
        return None;
    }
    let observed = format!("does not reach {}, which answered through another endpoint", lost.join(", "));
    let problem = Problem::warn(Reason::EndpointCutOff, "reaches every node", observed)
        .hint(Hint::likely("port 50000 is filtered between them, or the network is partitioned"));
    Some(problem)
}

fn is_worker(endpoint: &Endpoint) -> bool {
    endpoint.role == Ok(Some(Role::Worker))
}

/// Explains a dead endpoint. A machine that is being provisioned passes through maintenance mode with its self-signed certificate, so an
/// unknown CA is final only if every endpoint has shown it before, too.
fn dead_endpoint(cluster: &Assessment<'_>, talos: &Talos, address: &str, gap: &Gap) -> Problem {
    let host = host(address);
    let problem = likely_cause(cluster, talos, address, gap);
    match gap.kind {
        // In maintenance mode, the machine does not have a verifiable certificate yet.
        GapKind::Maintenance => problem.hint(Hint::run("talosctl -n {} get machinestatus --insecure", [host])),
        // The endpoint was not queried, so a command that queries it would not explain anything.
        GapKind::NotAsked => problem,
        _ if is_of_omni(talos) => problem.hint(Hint::run("omnictl get clusters", [])),
        _ => {
            let endpoint = if address.ends_with(":50000") { host } else { address };
            problem.hint(Hint::run("{talosctl} -e {} -n {} version", [endpoint, host]))
        }
    }
}

fn likely_cause(cluster: &Assessment<'_>, talos: &Talos, address: &str, gap: &Gap) -> Problem {
    let problem = gaps::talos(gap, "answers on the Talos API");
    let is_unknown_ca = |endpoint: &Endpoint| endpoint.version.as_ref().is_err_and(|it| it.kind == GapKind::UnknownCa);
    let everywhere = talos.endpoints.iter().all(is_unknown_ca);
    if is_of_omni(talos) {
        let likely = likely_at_omni(gap.kind, address);
        return likely.into_iter().fold(problem, |problem, text| problem.hint(Hint::likely(text)));
    }
    match gap.kind {
        GapKind::UnknownCa if everywhere && cluster.memory.unknown_ca_rounds >= 2 => problem.permanent().hint(
            Hint::likely("the talosconfig belongs to another cluster, or the cluster's secrets were regenerated"),
        ),
        GapKind::UnknownCa => problem
            .hint(Hint::likely("the machine is in maintenance mode, or the talosconfig belongs to another cluster")),
        GapKind::ClientCertificateRefused | GapKind::NotAsked if has_unusable_certificate(cluster, talos) => problem,
        // A machine that boots with a wrong clock rejects certificates that it accepts once its time is synchronized.
        GapKind::ClientCertificateRefused => Problem { waiting_helps: cluster.memory.rounds < 2, ..problem }
            .hint(Hint::likely("the talosconfig belongs to another cluster, or the machine's clock is wrong")),
        kind => match likely(kind, address) {
            Some(text) => problem.hint(Hint::likely(text)),
            None => problem,
        },
    }
}

/// Returns the usual cause of this kind of failure at an endpoint.
fn likely(kind: GapKind, address: &str) -> Option<String> {
    let port = address.rsplit_once(':').map_or("50000", |(_, port)| port);
    let host = host(address);
    Some(match kind {
        GapKind::ConnectionRefused => {
            "nothing listens on that port: apid is not up, or the address is wrong".to_owned()
        }
        GapKind::ConnectTimedOut => format!("a firewall drops packets to port {port}, or the machine is down"),
        GapKind::NoRoute => "the machine is down, or this runner has no route to its network".to_owned(),
        GapKind::TimedOut => {
            "it accepts connections and does not answer: its apid hangs, or it is out of memory".to_owned()
        }
        GapKind::NameNotFound => format!("`{host}` is misspelled, or the DNS of this runner cannot resolve it"),
        GapKind::NameNotInCertificate => format!("`{host}` is missing from `machine.certSANs`"),
        GapKind::PeerCertificateExpired => "a clock is wrong: the machine's or this runner's".to_owned(),
        GapKind::Maintenance => "the machine has no configuration: never applied, or wiped".to_owned(),
        GapKind::Broken => {
            format!("something other than Talos answers at port {port}, or a firewall cuts the connection")
        }
        _ => return None,
    })
}

fn is_of_omni(talos: &Talos) -> bool {
    talos.credentials.as_ref().is_ok_and(|credentials| credentials.account.is_some())
}

fn has_unusable_certificate(cluster: &Assessment<'_>, talos: &Talos) -> bool {
    talos.credentials.as_ref().ok().is_none_or(|credentials| lets_nobody_in(credentials, cluster.taken))
}

/// Returns the usual cause of this kind of failure at Omni.
fn likely_at_omni(kind: GapKind, address: &str) -> Option<String> {
    let host = host(address);
    Some(match kind {
        GapKind::SignatureRefused => {
            "the key was revoked or renewed, a clock is wrong, or this is another Omni instance".to_owned()
        }
        GapKind::UnknownCa => format!(
            "the CA of `{host}` is not among the roots of this system (`SSL_CERT_FILE`), or a proxy is in between"
        ),
        GapKind::NameNotInCertificate => format!("something other than Omni answers for `{host}`"),
        GapKind::Broken => {
            "something other than Omni answers there, or a proxy without HTTP/2 is in between".to_owned()
        }
        GapKind::TimedOut => "it accepts connections and does not answer".to_owned(),
        GapKind::Maintenance => return None,
        kind => return likely(kind, address),
    })
}

fn reachable(cluster: &Assessment<'_>) -> Verdict {
    let way = cluster.talos().into_iter().flat_map(|talos| &talos.endpoints).find(|endpoint| endpoint.version.is_ok());
    let from = way.map_or("the endpoint", |endpoint| host(&endpoint.address));
    each_node(cluster, |node, verdict| {
        let target = node.target();
        match &node.talos.contact {
            Ok(contact) => match &contact.answered_by_other {
                None => match &node.talos.nodename {
                    // An answer without a node name may come from any machine.
                    Err(gap) if node.name != node.address => {
                        let problem = gaps::talos(gap, format!("an answer that is `{}`'s own", node.name));
                        verdict.problem(target, problem);
                    }
                    // Before Talos 1.14, every machine has a node name.
                    Ok(None)
                        if node.sources.kubernetes || (node.name != node.address && is_older(node, (1, 14, 0))) =>
                    {
                        let expected = format!("an answer that is `{}`'s own", node.name);
                        verdict.push(target, says_nothing(&expected, "it has no node name"));
                    }
                    _ => verdict.pass(target.clone(), format!("Node {target}: connected")),
                },
                Some(other) => verdict.problem(target, answered_by_other(cluster, node, other)),
            },
            Err(gap) if gap.kind == GapKind::NoForwarding => {
                verdict.problem(target, gaps::talos(gap, "answers on the Talos API").unseen());
            }
            Err(gap) if gap.is_unresolved_name() && stated::is_unlisted(cluster, node) => {
                verdict.problem(target, stated::unknown(cluster, &node.name));
            }
            Err(gap) => verdict.problem(target, unreachable(cluster, node, from, gap)),
        }
    })
}

fn answered_by_other(cluster: &Assessment<'_>, node: &Node, other: &str) -> Problem {
    let problem = Problem::fail(
        Reason::AnsweredByOtherNode,
        format!("`{}` answers", node.name),
        format!("`{other}` answered at {}", node.address),
    );
    if cluster.machine(node).is_stale_node_object {
        return problem;
    }
    problem.hint(Hint::likely(
        "the address is a virtual IP or was given to another machine, or the machine has a new hostname",
    ))
}

/// Returns true if the node is an endpoint that accepted the connection and then did not answer. Through another endpoint, a frozen node
/// and a cut cable look the same.
fn connects(cluster: &Assessment<'_>, node: &Node) -> bool {
    let hangs = |endpoint: &Endpoint| endpoint.version.as_ref().is_err_and(|gap| gap.kind == GapKind::TimedOut);
    let mut endpoints = cluster.talos().into_iter().flat_map(|talos| &talos.endpoints);
    endpoints.any(|endpoint| hangs(endpoint) && node.addresses.iter().any(|address| address == host(&endpoint.address)))
}

/// Explains an unreachable node. The endpoint works, so its report that it cannot reach the node, or a timeout, is a failure of the node.
/// Errors that do not show the node's state (a role that is too low, an unreadable answer, the loss of the endpoint itself) remain
/// undetermined.
fn unreachable(cluster: &Assessment<'_>, node: &Node, from: &str, gap: &Gap) -> Problem {
    let expected = "answers on the Talos API";
    let fail = |reason| Problem::fail(reason, expected, &*gap.text);
    let address = node.address.as_str();
    let problem = match gap.kind {
        GapKind::NodeUnreachable if gap.is_refused_certificate() => {
            fail(Reason::NodeUnreachable).hint(Hint::likely(
                "the machine runs, but its certificate is not accepted: it belongs to another cluster, or its certificate was not renewed",
            ))
            .about(About::Identity)
        }
        GapKind::NodeUnreachable => fail(Reason::NodeUnreachable).hint(Hint::likely(format!(
            "the machine is down, or port 50000 is filtered between {from} and it; look at the machine's console"
        ))),
        // The connection to the endpoint was lost while the node was being queried.
        kind if is_no_connection(kind) => {
            let problem = gaps::talos(gap, expected);
            Problem { observed: format!("the connection to the endpoint was lost: {}", gap.text), ..problem }
        }
        GapKind::TimedOut if connects(cluster, node) => fail(Reason::NodeFrozen).hint(Hint::likely(
            "it accepts connections and does not answer: its machined hangs, or it is out of memory or disk space",
        )),
        GapKind::TimedOut => fail(Reason::NodeUnreachable).hint(Hint::likely(format!(
            "the machine hangs or is cut off, or packets to port 50000 are dropped between {from} and it; look at the machine's console"
        ))),
        GapKind::NotAsked if node.addresses.is_empty() => fail(Reason::NoAnswer)
            .hint(Hint::likely("it has registered without an address: all its addresses are in pod and service networks")),
        GapKind::Maintenance => fail(Reason::MaintenanceMode)
            .hint(Hint::likely("the machine has no configuration: never applied, or wiped"))
            .hint(Hint::run("talosctl -n {} get machinestatus --insecure", [address])),
        _ => gaps::talos(gap, expected),
    };
    let asks = Hint::run("{talosctl} -n {} version", [address]);
    // The Node shows since when the machine has been unreachable, or whether its kubelet still reports.
    let is_silent = matches!(problem.reason, Reason::NodeUnreachable | Reason::NodeFrozen) && node.sources.kubernetes;
    let Some(object) = cluster.object(node).filter(|_| is_silent) else { return problem.hint(asks) };
    let describes = Hint::run("{kubectl} describe node {}", [object.name.as_str()]);
    // Asking again would take as long and show no more.
    let order = if gap.kind == GapKind::TimedOut { [describes, asks] } else { [asks, describes] };
    order.into_iter().fold(problem, Problem::hint)
}
