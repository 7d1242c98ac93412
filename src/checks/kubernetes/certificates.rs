//! Server certificates: those that API servers present, and those that kubelets are waiting for.

use std::collections::HashSet;

use super::servers;
use crate::assess::Assessment;
use crate::assess::servers::Server;
use crate::checks::Check;
use crate::checks::gaps::{ends_soon, enough, is_refused, kubernetes_side, listed, unseen};
use crate::checks::scope::{control_planes, declared_off, reason_not_judged};
use crate::model::{CheckId, Fact, Hint, Kind, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{Gap, GapKind, Kubernetes, Node, Observed, Readyz, RequestState, SigningRequest};

pub(in crate::checks) const SERVING: Check = Check {
    id: CheckId::K8sApiCertificates,
    stage: Stage::ApiServer,
    summary: "no serving certificate of an API server expires soon",
    explain: "Reads the certificates that the endpoint and each API server present in the TLS handshakes of k8s.api.endpoint \
and k8s.api.servers. An expired certificate fails: clients that verify it can no longer connect. Less than 30 days left, or \
less than a tenth of its lifetime if that is shorter, is a warning.\n\n\
Talos issues the API servers' certificates for a year and renews them after half of that time. One that is about to expire was \
not renewed: the machine's clock is wrong, or a controller fails. A load balancer that terminates TLS has its own certificate, \
which has to be renewed there.\n\n\
A server that could not be reached presents no certificate and is not checked. `talosctl -n NODE logs controller-runtime` \
shows why a renewal failed.",
    severity: Severity::Fail,
    finds: &[Reason::CertificateExpiresSoon, Reason::ServerCertificateExpired],
    facts: servers::FACTS,
    judge: serving,
};

pub(in crate::checks) const REQUESTS: Check = Check {
    id: CheckId::K8sNodesCsrs,
    stage: Stage::Nodes,
    summary: "every certificate request of a kubelet is approved and issued",
    explain: "Lists the certificate signing requests (CSRs) of kubelets, for their client certificate (on joining) and their \
serving certificate (with `rotate-server-certificates`). Warns about requests that are pending, that are denied with no \
other request of the same kubelet issued, or that are approved but have no certificate: kube-controller-manager does not \
sign them.\n\n\
A kubelet without its serving certificate runs pods but accepts no connections: no logs, no exec, no metrics, and Talos cannot \
refresh the statuses of the static pods. Talos approves the requests of joining nodes only; for serving certificates, install \
an approver or approve each by hand.\n\n\
The check is skipped if the credentials cannot list the requests. `kubectl get csr` shows them.",
    severity: Severity::Warn,
    finds: &[Reason::CsrPending, Reason::CsrDenied, Reason::CsrNotIssued],
    facts: &[Fact::TalosNodes, Fact::KubeNodes, Fact::SigningRequests],
    judge: requests,
};

fn serving(cluster: &Assessment<'_>) -> Verdict {
    let kubernetes = match kubernetes_side(cluster) {
        Ok(kubernetes) => kubernetes,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut verdict = Verdict::default();
    let target = Target::new(Kind::Endpoint, cluster.endpoint_address(kubernetes));
    verdict.push(target, shown(cluster, &kubernetes.endpoint).unwrap_or_else(no_handshake));
    // Servers of another cluster are not judged here.
    if cluster.is_other_cluster() {
        verdict
            .push(Target::cluster(), unseen(Reason::WrongCluster, "API servers of this cluster", "another cluster's"));
        return verdict;
    }
    match control_planes(cluster) {
        Ok(nodes) => nodes.into_iter().for_each(|node| {
            let outcome = declared_off(cluster, node).unwrap_or_else(|| of_server(cluster, kubernetes, node));
            verdict.push(node.target(), outcome);
        }),
        Err(outcome) => verdict.push(Target::cluster(), outcome),
    }
    verdict
}

fn of_server(cluster: &Assessment<'_>, kubernetes: &Kubernetes, node: &Node) -> Outcome {
    let server = kubernetes.servers.get(&node.name);
    if let Some(outcome) = server.and_then(|server| shown(cluster, server)) {
        return outcome;
    }
    match cluster.server(node) {
        // The server was found to be alive without a connection to it.
        Server::AliveBy(..) => {
            Outcome::Skip("not reachable from this runner, so it presents no certificate".to_owned())
        }
        _ => no_handshake(),
    }
}

fn no_handshake() -> Outcome {
    unseen(Reason::NoAnswer, "the certificate that it presents", "no connection to it")
}

/// Judges the certificate from a handshake; `None` if there was none.
fn shown(cluster: &Assessment<'_>, server: &Observed<Readyz>) -> Option<Outcome> {
    let readyz = match server {
        Ok(readyz) => readyz,
        Err(Gap { kind: GapKind::PeerCertificateExpired, text }) => {
            let problem = Problem::fail(Reason::ServerCertificateExpired, "a certificate that is valid now", &**text);
            return Some(Outcome::problem(problem));
        }
        Err(_) => return None,
    };
    let Some(certificate) = &readyz.certificate else {
        let problem = Problem::error(Reason::UnreadableAnswer, enough(cluster), "the certificate cannot be read");
        return Some(Outcome::problem(problem));
    };
    let observed = format!("expires at {}", certificate.not_after);
    // The certificate was valid at the time of the request, because the handshake succeeded.
    Some(if ends_soon(cluster, certificate.not_before, certificate.not_after) {
        let likely = "Talos did not renew it after half of its lifetime, or it belongs to a load balancer";
        let problem = Problem::warn(Reason::CertificateExpiresSoon, enough(cluster), observed);
        Outcome::problem(problem.hint(Hint::likely(likely)))
    } else {
        Outcome::Pass(None)
    })
}

fn requests(cluster: &Assessment<'_>) -> Verdict {
    let expected = "the certificate signing requests of the kubelets";
    let requests = match listed(cluster, |kubernetes| &kubernetes.signing_requests, expected) {
        Ok(requests) => requests,
        Err(outcome) if is_refused(cluster, &outcome, |kubernetes| &kubernetes.signing_requests) => {
            return Verdict::skipped("the credentials cannot list certificatesigningrequests");
        }
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut verdict = Verdict::default();
    let is_settled = |request: &&SigningRequest| request.state == RequestState::Settled;
    let settled: HashSet<_> = requests.iter().filter(is_settled).map(|it| (&it.user, &it.signer)).collect();
    // Kubelets repeat their requests, so one issued certificate is enough. A denial for an unknown machine may be intentional.
    let is_missed = |request: &SigningRequest| !settled.contains(&(&request.user, &request.signer));
    let is_open = |request: &&SigningRequest| match request.state {
        RequestState::Settled => false,
        RequestState::Denied => is_missed(request) && node_of(cluster, request).is_some(),
        RequestState::Pending | RequestState::Unissued => true,
    };
    let mut open: Vec<_> = requests.iter().filter(|it| is_of_a_kubelet(it)).filter(is_open).collect();
    open.sort_by_key(|request| (&request.user, request.state, &request.name));
    for theirs in open.chunk_by(|a, b| (&a.user, a.state) == (&b.user, b.state)) {
        let node = node_of(cluster, theirs[0]);
        let target = match (node, theirs[0].node_name()) {
            (Some(node), _) => match reason_not_judged(cluster, node) {
                Some(why) => {
                    verdict.skip(node.target(), why);
                    continue;
                }
                None => node.target(),
            },
            (None, Some(name)) => Target::new(Kind::Node, name),
            // A machine that is about to join does not have a name yet.
            (None, None) => Target::cluster(),
        };
        verdict.problem(target, waiting(theirs, node.is_some()));
    }
    if verdict.problems().next().is_none() {
        verdict.ok(Target::cluster());
    }
    verdict
}

fn node_of<'a>(cluster: &'a Assessment<'_>, request: &SigningRequest) -> Option<&'a Node> {
    cluster.machine_of(request.node_name()?)
}

/// Returns true if the request is a kubelet's. Requests to other signers are approved by others; a request without a signer counts.
fn is_of_a_kubelet(request: &SigningRequest) -> bool {
    matches!(&*request.signer, "kubernetes.io/kubelet-serving" | "kubernetes.io/kube-apiserver-client-kubelet" | "")
}

/// Describes all requests of one kubelet, which repeats its request every few minutes.
fn waiting(requests: &[&SigningRequest], is_known: bool) -> Problem {
    let names: Vec<&str> = requests.iter().map(|request| request.name.as_str()).collect();
    let (count, user, all) = (names.len(), &requests[0].user, names.join(", "));
    let are = if count == 1 { "is" } else { "are" };
    let describe = Hint::run("{kubectl} describe csr {}", [names[0]]);
    match requests[0].state {
        RequestState::Denied => {
            let observed = format!("{all} of {user} {are} denied, and none is issued");
            return Problem::warn(Reason::CsrDenied, "a certificate for each kubelet", observed)
                .hint(Hint::likely("an approver does not accept its names or addresses"))
                .hint(describe);
        }
        RequestState::Unissued => {
            let observed = format!("{all} of {user} {are} approved, but not issued");
            return Problem::warn(Reason::CsrNotIssued, "a certificate once it is approved", observed)
                .hint(Hint::likely("kube-controller-manager does not sign: its log shows why"))
                .hint(describe);
        }
        RequestState::Pending | RequestState::Settled => {}
    }
    let observed = format!("{all} of {user} {are} pending");
    let problem = Problem::warn(Reason::CsrPending, "approved or denied", observed).hint(describe);
    // If there are several requests, it is unknown which one the kubelet is waiting for; and the identity of a new machine needs a person
    // to confirm it.
    match requests {
        [only] if is_known && only.signer == "kubernetes.io/kubelet-serving" => {
            problem.hint(Hint::remedy("{kubectl} certificate approve {}", [names[0]]))
        }
        _ => problem,
    }
}
