//! The way into Kubernetes: the credentials, and the endpoint that everybody uses.

use jiff::{SignedDuration, Timestamp};

use super::kube_common::{CREDENTIALS as CREDENTIALS_ID, etcd_trouble, forbidden, kubernetes_gap, unauthorised};
use super::{Check, Fact, Hint, Kind, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{Certificate, Gap, GapKind, Kubernetes, Readyz, Snapshot};

pub(super) const CREDENTIALS: Check = Check {
    id: CREDENTIALS_ID,
    stage: Stage::ApiServer,
    summary: "usable Kubernetes credentials were found",
    explain: "Looks for a kubeconfig in this order: --kubeconfig, KUBECONFIG, ~/.kube/config, the pod's service account \
(with --in-cluster), and last the Talos API, which hands one out to os:admin. The first that can be used counts; those that \
were passed over are named with the reason. A client certificate has to be valid now, made for clients, fit its key, and \
outlive the run.\n\n\
A kubeconfig that switches off verification of the server or speaks plain http is refused: whoever answers there could \
declare any cluster healthy. An expired certificate does not heal by waiting, so the run ends at once.\n\n\
Give --kubeconfig a file with at least the rights that `cluster-health rbac` prints, or leave Kubernetes out with \
--no-kubernetes. A certificate from `talosctl kubeconfig` is renewed by calling it again.",
    severity: Severity::Fail,
    requires: &[],
    facts: &[],
    judge: credentials,
};

pub(super) const ENDPOINT: Check = Check {
    id: super::kube_common::ENDPOINT,
    stage: Stage::ApiServer,
    summary: "the Kubernetes endpoint answers, and says that it is ready",
    explain: "Asks `/readyz?verbose` of the endpoint in the kubeconfig (or of --k8s-endpoint) over verified TLS. Only the \
status 200 passes. It is what kubelets and people use, usually a load balancer, a virtual IP or a DNS name in front of the \
API servers, so it can be broken while every API server is well; that case is told apart.\n\n\
A 5xx lists the failing parts (`[-]` lines). `etcd` among them usually means that etcd has no quorum. An endpoint that \
accepts connections and never answers is a frozen API server or a balancer without backends. 401 and 403 say nothing about \
the health of the cluster, only about the credentials; an API server that has just started may say 403 to anybody.\n\n\
Look at the API servers first (k8s.api.servers). If they are well, look at what stands before them: who holds the virtual \
IP, which backends the balancer sees, what the name resolves to.",
    severity: Severity::Fail,
    requires: &[CREDENTIALS_ID],
    facts: &[Fact::EndpointReadyz],
    judge: endpoint,
};

/// Less than this left of a certificate's life is worth a warning, unless its whole life is short.
const SOON: SignedDuration = SignedDuration::from_hours(30 * 24);

fn credentials(snapshot: &Snapshot) -> Verdict {
    let Some(kubernetes) = &snapshot.kubernetes else {
        return Verdict::skipped("--no-kubernetes");
    };
    let mut verdict = Verdict::default();
    match &kubernetes.credentials {
        Err(gap) => verdict.problem(Target::new(Kind::Credentials, "kubeconfig"), unreadable(kubernetes, gap)),
        Ok(credentials) => {
            let target = Target::new(Kind::Credentials, credentials.source.as_str());
            let insecure = !credentials.server.starts_with("https://");
            let problem = if insecure { Some(plain_http(&credentials.server)) } else { None };
            let certificate = || credentials.certificate.as_ref().and_then(|certificate| judge(snapshot, certificate));
            match problem.or_else(certificate) {
                Some(problem) => verdict.problem(target, problem),
                None => verdict.ok(target),
            }
        }
    }
    verdict
}

/// For everything behind: the credentials are there and not known to be refused.
pub(super) fn usable(snapshot: &Snapshot, kubernetes: &Kubernetes) -> bool {
    kubernetes.credentials.as_ref().is_ok_and(|credentials| {
        let certificate = credentials.certificate.as_ref();
        credentials.server.starts_with("https://") && certificate.is_none_or(|it| unfit(snapshot.taken, it).is_none())
    })
}

fn unreadable(kubernetes: &Kubernetes, gap: &Gap) -> Problem {
    let expected = "a kubeconfig that can be used";
    if gap.kind == GapKind::NotAsked {
        let passed_over: Vec<String> =
            kubernetes.passed_over.iter().map(|(source, why)| format!("{source}: {why}")).collect();
        let observed = if passed_over.is_empty() { "none found".to_owned() } else { passed_over.join("; ") };
        let problem = Problem::error(Reason::NoKubeconfig, expected, observed)
            .hint(Hint::likely("give one with --kubeconfig, or leave Kubernetes out with --no-kubernetes"));
        return if kubernetes.may_still_find { problem } else { problem.permanent() };
    }
    // The file was named by the user, so each of these is a mistake that only a person corrects.
    let reason = match gap.kind {
        GapKind::Insecure => Reason::KubeconfigInsecure,
        GapKind::ContextUnknown => Reason::ContextUnknown,
        GapKind::Malformed => Reason::ConfigUnreadable,
        kind => return Problem::error(super::kube_common::reason(kind), expected, gap.text.as_str()),
    };
    Problem::fail(reason, expected, gap.text.as_str()).permanent()
}

fn plain_http(server: &str) -> Problem {
    Problem::fail(Reason::KubeconfigInsecure, "a server at https://", server).permanent()
}

/// A certificate that the server will refuse.
fn unfit(now: Timestamp, certificate: &Certificate) -> Option<Problem> {
    let expected = "a client certificate that is valid now";
    if certificate.not_after <= now {
        let observed = format!("expired at {}", certificate.not_after);
        Some(Problem::fail(Reason::CertificateExpired, expected, observed).permanent())
    } else if certificate.not_before > now {
        let observed = format!("valid from {}", certificate.not_before);
        Some(Problem::fail(Reason::CertificateNotYetValid, expected, observed))
    } else if !certificate.client_auth {
        let observed = "extended key usage clientAuth is missing";
        Some(Problem::fail(Reason::ClientAuthMissing, "a certificate made for clients", observed).permanent())
    } else if !certificate.matches_key {
        let observed = "the key belongs to another certificate";
        Some(Problem::fail(Reason::KeyMismatch, "a certificate and its key", observed).permanent())
    } else {
        None
    }
}

fn judge(snapshot: &Snapshot, certificate: &Certificate) -> Option<Problem> {
    if let Some(problem) = unfit(snapshot.taken, certificate) {
        return Some(problem);
    }
    let ends = certificate.not_after;
    let observed = format!("expires at {ends}");
    if let Some(deadline) = snapshot.asked.deadline.filter(|&deadline| ends < deadline) {
        let expected = format!("valid until the deadline at {deadline}");
        return Some(Problem::fail(Reason::CertificateExpiresSoon, expected, observed).permanent());
    }
    let tenth = certificate.not_before.duration_until(ends) / 10;
    let left = snapshot.taken.duration_until(ends);
    let expected = "more than 30 days or a tenth of its life left";
    (left < SOON.min(tenth)).then(|| Problem::warn(Reason::CertificateExpiresSoon, expected, observed))
}

fn endpoint(snapshot: &Snapshot) -> Verdict {
    let kubernetes = match super::kube_common::kubernetes(snapshot) {
        Ok(kubernetes) => kubernetes,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut verdict = Verdict::default();
    let target = Target::new(Kind::Endpoint, address(snapshot, kubernetes));
    let problem = match &kubernetes.endpoint {
        Ok(readyz) if readyz.status == 200 && readyz.failed.is_empty() => {
            verdict.pass(target, "Kubernetes API server is reachable");
            return verdict;
        }
        Ok(readyz) => not_ready(snapshot, readyz),
        Err(gap) => silent(snapshot, gap),
    };
    let problem = explain(snapshot, kubernetes, problem);
    // A refusal tells of the credentials only, and asking again tells no more.
    let refused = problem.severity != Severity::Fail;
    let look = match &snapshot.asked.k8s_endpoint {
        Some(server) => ask_server(server),
        None => Hint::run("{kubectl} get --raw '/readyz?verbose'", []),
    };
    verdict.problem(target, if refused { problem } else { problem.hint(look) });
    verdict
}

/// Asks what was asked here of a server that is not the kubeconfig's.
pub(super) fn ask_server(server: &str) -> Hint {
    Hint::run("{kubectl} --server {} get --raw '/readyz?verbose'", [server])
}

pub(super) fn address(snapshot: &Snapshot, kubernetes: &Kubernetes) -> String {
    let configured = || kubernetes.credentials.as_ref().map(|credentials| credentials.server.clone()).ok();
    let answered = kubernetes.endpoint.as_ref().map(|readyz| readyz.server.clone()).ok();
    answered.or_else(|| snapshot.asked.k8s_endpoint.clone()).or_else(configured).unwrap_or_default()
}

const READY: &str = "/readyz answers 200";

/// An answer that is not a plain 200. Refusals tell nothing about health, so they are errors.
pub(super) fn not_ready(snapshot: &Snapshot, readyz: &Readyz) -> Problem {
    let said = if readyz.failed.is_empty() { readyz.text.clone() } else { failing(readyz) };
    let observed = if said.is_empty() { readyz.status.to_string() } else { format!("{}: {said}", readyz.status) };
    match readyz.status {
        401 => unauthorised(snapshot, READY, &observed),
        403 => forbidden(snapshot, READY, &observed, &readyz.text),
        429 => Problem::error(Reason::Throttled, READY, observed),
        // A 200 with failing lines contradicts itself.
        200 | 500..=599 => Problem::fail(Reason::ApiNotReady, READY, observed),
        _ => Problem::error(Reason::UnreadableAnswer, READY, observed)
            .hint(Hint::likely("something else than a Kubernetes API server answers there")),
    }
}

fn failing(readyz: &Readyz) -> String {
    readyz.failed.iter().map(|name| format!("[-]{name}")).collect::<Vec<_>>().join(" ")
}

/// No answer. What was seen of the other side fails; what stopped us before it does not.
pub(super) fn silent(snapshot: &Snapshot, gap: &Gap) -> Problem {
    let fail = |reason| Problem::fail(reason, READY, gap.text.as_str());
    match gap.kind {
        GapKind::TimedOut => fail(Reason::ApiFrozen),
        GapKind::ConnectionRefused
        | GapKind::NoRoute
        | GapKind::ConnectTimedOut
        | GapKind::NameNotFound
        | GapKind::UnknownCa
        | GapKind::NameNotInCertificate
        | GapKind::PeerCertificateExpired => fail(super::kube_common::reason(gap.kind)),
        GapKind::Broken | GapKind::NodeUnreachable => fail(Reason::ApiUnreachable),
        GapKind::ServerError => fail(Reason::ApiNotReady),
        _ => kubernetes_gap(snapshot, gap, READY),
    }
}

/// The endpoint is the sum of what stands behind it, and of what stands before that.
fn explain(snapshot: &Snapshot, kubernetes: &Kubernetes, problem: Problem) -> Problem {
    if problem.severity != Severity::Fail {
        return problem;
    }
    let servers = &kubernetes.servers;
    let ready = |readyz: &Readyz| readyz.status == 200 && readyz.failed.is_empty();
    if !servers.is_empty()
        && servers.values().all(|server| server.as_ref().is_ok_and(ready))
        && is_in_between(kubernetes)
    {
        let observed =
            format!("all {} API servers are ready, the endpoint is not: {}", servers.len(), problem.observed);
        return Problem { reason: Reason::EndpointDownServersReady, observed, ..problem }
            .hint(Hint::likely("the load balancer, virtual IP or DNS name before the API servers is broken"));
    }
    if let Some(etcd) = etcd_trouble(snapshot) {
        return problem.explained_by(etcd);
    }
    // Direct evidence against every server. One that cannot be reached from here is none.
    let is_bad = |server: &Result<Readyz, Gap>| match server {
        Ok(readyz) => readyz.status >= 500,
        Err(gap) => matches!(gap.kind, GapKind::TimedOut | GapKind::ConnectionRefused | GapKind::Broken),
    };
    if !servers.is_empty() && servers.values().all(is_bad) {
        return problem.explained_by("k8s.api.servers");
    }
    problem
}

/// The trouble lies before the API servers: TLS and credentials do not count, a balancer's own 502 to 504 does.
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
