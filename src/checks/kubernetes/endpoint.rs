//! Access to Kubernetes: the credentials, and the shared endpoint.

use std::net::SocketAddr;

use crate::assess::Assessment;
use crate::assess::servers::is_ready;
use crate::checks::Check;
use crate::checks::gaps::{
    self, Protocol, ask_server, ca_problem, certificate_problems, kubernetes_side, look_at_server,
};
use crate::model::{CheckId, Fact, Hint, Kind, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{Gap, GapKind, Kubernetes, Observed};
use crate::text::{bracketed, has_port, host};

pub(in crate::checks) const CREDENTIALS: Check = Check {
    id: CheckId::K8sCredentials,
    stage: Stage::ApiServer,
    summary: "the Kubernetes credentials are usable",
    explain: "Looks for a kubeconfig in this order: --kubeconfig, KUBECONFIG, ~/.kube/config, the pod's service account (with \
--in-cluster), and last the Talos API, which hands one out to os:admin. The first usable one counts; the report lists those \
that were skipped, with the reason. A client certificate has to be valid until the run ends, be made for client \
authentication, and match its key; the CA that verifies the servers has to be valid for as long (kubectl accepts no other).\n\n\
Everything else in the file works as in kubectl. An exec plugin runs only from the file of --kubeconfig, and only if \
the user has neither a certificate, a token nor a password. If it fails, the message names it and shows its stderr.\n\n\
A kubeconfig that disables TLS verification or uses plain http is refused: anything that answers there could declare any \
cluster healthy. Waiting does not help with an expired certificate, so the run ends at once.\n\n\
Pass --kubeconfig a file with at least the rights that `cluster-health rbac` prints, or leave Kubernetes out with \
--no-kubernetes. To renew a certificate from `talosctl kubeconfig`, run that command again.",
    severity: Severity::Fail,
    finds: &[
        Reason::CertificateExpired,
        Reason::CertificateExpiresSoon,
        Reason::CertificateNotYetValid,
        Reason::ClientAuthMissing,
        Reason::KeyMismatch,
        Reason::ConfigUnreadable,
        Reason::ContextUnknown,
        Reason::NoKubeconfig,
        Reason::PluginFailed,
        Reason::KubeconfigInsecure,
    ],
    facts: &[],
    judge: credentials,
};

pub(in crate::checks) const ENDPOINT: Check = Check {
    id: CheckId::K8sApiEndpoint,
    stage: Stage::ApiServer,
    summary: "the Kubernetes endpoint answers and reports ready",
    explain: "Requests `/readyz?verbose` from the endpoint in the kubeconfig (or --k8s-endpoint) over verified TLS. Only \
status 200 passes. Kubelets and users connect through this endpoint: usually a load balancer, a virtual IP or a DNS name in \
front of the API servers. It can be broken while every API server is healthy; that case is reported as such.\n\n\
A 5xx lists the failing checks (`[-]` lines). `etcd` among them usually means that etcd has no quorum. An endpoint that \
accepts connections and never answers is a frozen API server or a load balancer without backends. 401 and 403 are about the \
credentials, not about the health of the cluster. An API server that has just started may return 403 to everyone.\n\n\
A name that does not resolve, no route, no connection in time, a proxy that refuses and another CA's certificate point to \
this runner's network as much as to the cluster. If nothing else of the cluster answered in the same round either, neither \
Talos nor \
an API server nor etcd, they are an error (exit code 69) and not a failure. A refused or reset connection, silence, and 5xx come \
from the other side and always fail.\n\n\
If the name of the endpoint has several addresses, a client may get any of them, so each has to accept connections. One that \
does \
not, while others do, is a warning: clients that get it wait, then try the next.\n\n\
Look at the API servers first (k8s.api.servers). If they are healthy, look at what is in front of them: which node holds the \
virtual IP, which backends the load balancer sees, what the name resolves to.",
    severity: Severity::Fail,
    finds: &[
        Reason::ProxyRefused,
        Reason::ConnectionRefused,
        Reason::NoRoute,
        Reason::TimedOut,
        Reason::NameNotFound,
        Reason::UnknownCa,
        Reason::NameNotInCertificate,
        Reason::ServerCertificateExpired,
        Reason::ApiUnreachable,
        Reason::ApiNotReady,
        Reason::ApiFrozen,
        Reason::EndpointDownServersReady,
        Reason::EndpointAddressDead,
    ],
    facts: &[Fact::EndpointReadyz],
    judge: endpoint,
};

fn credentials(cluster: &Assessment<'_>) -> Verdict {
    let Some(kubernetes) = cluster.any_kubernetes() else {
        return Verdict::skipped("--no-kubernetes");
    };
    let mut verdict = Verdict::default();
    match &kubernetes.credentials {
        Err(gap) => verdict.problem(Target::new(Kind::Credentials, "kubeconfig"), unreadable(cluster, kubernetes, gap)),
        Ok(credentials) => {
            let target = Target::new(Kind::Credentials, credentials.source.as_str());
            let problems = if credentials.server.starts_with("https://") {
                let certificate = credentials.certificate.as_ref();
                let of_client = certificate.map_or_else(Vec::new, |it| certificate_problems(cluster, it));
                let of_ca = credentials.ca.as_ref().and_then(|ca| ca_problem(cluster, ca));
                of_ca.into_iter().chain(of_client).collect()
            } else {
                vec![plain_http(&credentials.server)]
            };
            if problems.is_empty() {
                verdict.ok(target.clone());
            }
            for problem in problems {
                verdict.problem(target.clone(), problem);
            }
        }
    }
    verdict
}

fn unreadable(cluster: &Assessment<'_>, kubernetes: &Kubernetes, gap: &Gap) -> Problem {
    let expected = "a kubeconfig that can be used";
    if gap.kind == GapKind::NotAsked {
        let passed_over: Vec<String> =
            kubernetes.passed_over.iter().map(|(source, why)| format!("{source}: {why}")).collect();
        let observed = if passed_over.is_empty() { "none found".to_owned() } else { passed_over.join("; ") };
        // Nothing else is asked, so the file that is missing has to be corrected like one that cannot be used.
        if !cluster.asks_talos() && !kubernetes.may_still_find {
            let problem = Problem::fail(Reason::NoKubeconfig, expected, observed).permanent();
            return problem.hint(Hint::likely("pass one with --kubeconfig"));
        }
        let problem = Problem::error(Reason::NoKubeconfig, expected, observed)
            .hint(Hint::likely("pass one with --kubeconfig, or leave Kubernetes out with --no-kubernetes"));
        return if kubernetes.may_still_find { problem } else { problem.permanent() };
    }
    // The user named the file, so each of these errors has to be corrected by a person.
    let reason = match gap.kind {
        GapKind::Insecure => Reason::KubeconfigInsecure,
        GapKind::ContextUnknown => Reason::ContextUnknown,
        GapKind::Malformed => Reason::ConfigUnreadable,
        // The login service may be available again in the next round.
        GapKind::PluginFailed => return Problem::fail(Reason::PluginFailed, expected, &*gap.text),
        kind => return Problem::error(gaps::reason(Protocol::Kubernetes, kind), expected, &*gap.text),
    };
    Problem::fail(reason, expected, &*gap.text).permanent()
}

fn plain_http(server: &str) -> Problem {
    Problem::fail(Reason::KubeconfigInsecure, "a server at https://", server).permanent()
}

fn endpoint(cluster: &Assessment<'_>) -> Verdict {
    let kubernetes = match kubernetes_side(cluster) {
        Ok(kubernetes) => kubernetes,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut verdict = Verdict::default();
    let target = Target::new(Kind::Endpoint, cluster.endpoint_address(kubernetes));
    let problem = match &kubernetes.endpoint {
        Ok(readyz) if is_ready(readyz) => {
            verdict.pass(target, "Kubernetes API server is reachable");
            for (address, gap) in dead_addresses(&kubernetes.endpoint_addresses) {
                verdict.problem(Target::new(Kind::Endpoint, address.to_string()), dead(address, gap));
            }
            return verdict;
        }
        Ok(readyz) => gaps::readyz(cluster, readyz),
        Err(gap) => gaps::no_readyz(cluster, gap),
    };
    let problem = with_what_is_behind(cluster, kubernetes, problem);
    let problem = match missing_port(cluster, kubernetes) {
        Some(hint) => problem.hint(hint),
        None => problem,
    };
    // A refusal concerns only the credentials, so repeating the query would show nothing new.
    let refused = problem.severity != Severity::Fail
        && !kubernetes.endpoint.as_ref().is_err_and(|gap| gaps::is_on_the_way(gap.kind));
    let look = look_at_endpoint(cluster, kubernetes, &problem, &target.name);
    verdict.problem(target, if refused { problem } else { problem.hint(look) });
    verdict
}

/// Suggests a command that shows more about the endpoint. Without a connection, or with a bad certificate, kubectl would only repeat the
/// error.
fn look_at_endpoint(cluster: &Assessment<'_>, kubernetes: &Kubernetes, problem: &Problem, url: &str) -> Hint {
    use GapKind::{
        ConnectTimedOut, ConnectionRefused, NameNotInCertificate, NoRoute, PeerCertificateExpired, UnknownCa,
    };
    let authority = url.trim_start_matches("https://").split('/').next().unwrap_or_default();
    let (name, port) =
        if has_port(url) { authority.rsplit_once(':').unwrap_or((authority, "443")) } else { (authority, "443") };
    let name = name.trim_matches(['[', ']']);
    match (kubernetes.endpoint.as_ref().err().map(|gap| gap.kind), &cluster.asked.k8s_endpoint) {
        (Some(ConnectTimedOut | ConnectionRefused | NoRoute), _) => Hint::run("nc -vz -w 5 {} {}", [name, port]),
        (Some(NameNotInCertificate | PeerCertificateExpired | UnknownCa), _) => {
            look_at_server(problem, &format!("{}:{port}", bracketed(name)))
        }
        (_, Some(server)) => ask_server(server),
        (_, None) => Hint::run("{kubectl} --request-timeout 5s get --raw '/readyz?verbose'", []),
    }
}

/// Returns addresses of the endpoint's name that refuse connections while others of the same family accept them. Families are separate
/// because a runner without IPv6 reaches no IPv6 address.
fn dead_addresses(addresses: &[(SocketAddr, Observed<()>)]) -> impl Iterator<Item = (SocketAddr, &Gap)> {
    let is_reached = |is_ipv4: bool| addresses.iter().any(|(other, it)| other.is_ipv4() == is_ipv4 && it.is_ok());
    let dead = addresses.iter().filter_map(|(address, taken)| Some((*address, taken.as_ref().err()?)));
    dead.filter(move |(address, _)| is_reached(address.is_ipv4()))
}

fn dead(address: SocketAddr, gap: &Gap) -> Problem {
    let expected = "connections, as to the other addresses of the endpoint's name";
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let look = Hint::run("nc -vz -w 5 {} {}", [host.as_str(), port.as_str()]);
    Problem::warn(Reason::EndpointAddressDead, expected, &*gap.text).hint(look)
}

/// Returns a hint for a server without a port, if no API server answers at 443.
fn missing_port(cluster: &Assessment<'_>, kubernetes: &Kubernetes) -> Option<Hint> {
    let is_silent = |gap: &Gap| {
        matches!(gap.kind, GapKind::ConnectionRefused | GapKind::ConnectTimedOut | GapKind::TimedOut | GapKind::NoRoute)
    };
    let server = &kubernetes.credentials.as_ref().ok()?.server;
    let is_by_default = cluster.asked.k8s_endpoint.is_none() && !has_port(server);
    (is_by_default && kubernetes.endpoint.as_ref().is_err_and(is_silent)).then(|| {
        Hint::likely("the server in the kubeconfig has no port, so 443 was used: an API server usually listens on 6443")
    })
}

/// Attributes the problem to the machines of the API servers. If all servers are ready, only the endpoint in front of them fails.
fn with_what_is_behind(cluster: &Assessment<'_>, kubernetes: &Kubernetes, problem: Problem) -> Problem {
    if problem.severity != Severity::Fail {
        return problem;
    }
    let servers = &kubernetes.servers;
    if !servers.is_empty()
        && servers.values().all(|server| server.as_ref().is_ok_and(is_ready))
        && is_in_between(kubernetes)
    {
        let observed =
            format!("all {} API servers are ready, the endpoint is not: {}", servers.len(), problem.observed);
        return Problem { reason: Reason::EndpointDownServersReady, observed, ..problem }
            .hint(Hint::likely("the load balancer, virtual IP or DNS name in front of the API servers is broken"));
    }
    problem.on(behind(cluster))
}

/// Returns the machines that run the API servers. If no control plane is known, the endpoints of Talos are assumed to be control planes.
fn behind<'a>(cluster: &'a Assessment<'_>) -> Vec<&'a str> {
    let control_planes: Vec<&str> = cluster.control_planes().map(|node| node.name.as_str()).collect();
    if !control_planes.is_empty() {
        return control_planes;
    }
    cluster.talos().iter().flat_map(|talos| &talos.endpoints).map(|endpoint| host(&endpoint.address)).collect()
}

/// Returns true if the fault is in front of the API servers. TLS and credentials do not count; a load balancer's own 502 to 504 does.
fn is_in_between(kubernetes: &Kubernetes) -> bool {
    match &kubernetes.endpoint {
        Ok(readyz) => matches!(readyz.status, 502..=504) && readyz.failed.is_empty(),
        Err(gap) => matches!(
            gap.kind,
            GapKind::ConnectionRefused
                | GapKind::NoRoute
                | GapKind::ConnectTimedOut
                | GapKind::TimedOut
                | GapKind::NameNotFound
                | GapKind::Broken
        ),
    }
}
