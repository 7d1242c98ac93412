//! The consequences of missing facts: the one table from gaps to problems, with a row for each protocol, and the functions with which
//! judges access facts.
//!
//! A fact that could not be observed is an error with its own text, marked as unseen. If a required check has already reported the
//! obstacle, the engine names that check instead.

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;

use crate::assess::components::NoPods;
use crate::assess::etcd::QuorumState;
use crate::assess::servers::endpoint_is_down;
use crate::assess::{
    Assessment, Fault, Identity, KubernetesAccess, MachineAccess, TalosAccess, fault_of_account, fault_of_dates,
    faults, has_kubernetes, worst_service,
};
use crate::model::{About, Hint, Outcome, Problem, Reason};
use crate::snapshot::{
    Account, Certificate, Contact, Gap, GapKind, Kubernetes, Node, Observed, Readyz, Service, TalosNode, Upgrade,
    Validity,
};

pub(super) const NO_TALOS: &str = "Talos is not queried (`--no-talos`)";

/// Time after which a 403 is final. A restarting API server has loaded its rules, or given up, after a minute.
const FORBIDDEN_FOR_GOOD: Duration = Duration::from_secs(90);

/// The API whose answer is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Talos,
    Kubernetes,
    /// etcd's own API (`--etcd-endpoints`), with its own users and roles. etcd also decides which user a certificate represents.
    Etcd,
}

/// Returns the reason for a gap.
pub(super) fn reason(protocol: Protocol, kind: GapKind) -> Reason {
    use Protocol::{Etcd, Kubernetes, Talos};
    match (kind, protocol) {
        (GapKind::Broken, Kubernetes) => Reason::ApiUnreachable,
        (GapKind::NotAsked | GapKind::Broken | GapKind::ServerError, _) => Reason::NoAnswer,
        (GapKind::ConnectionRefused, _) => Reason::ConnectionRefused,
        (GapKind::NoRoute, _) => Reason::NoRoute,
        (GapKind::ConnectTimedOut | GapKind::TimedOut, _) => Reason::TimedOut,
        (GapKind::NameNotFound, _) => Reason::NameNotFound,
        (GapKind::UnknownCa, _) => Reason::UnknownCa,
        (GapKind::NameNotInCertificate, _) => Reason::NameNotInCertificate,
        (GapKind::PeerCertificateExpired, _) => Reason::ServerCertificateExpired,
        (GapKind::Unauthenticated, Kubernetes) => Reason::Unauthorized,
        (GapKind::Unauthenticated | GapKind::Forbidden, Etcd) => Reason::EtcdAccessDenied,
        (GapKind::SignatureRefused, _) => Reason::SignatureRefused,
        (GapKind::ClientCertificateRefused | GapKind::Unauthenticated, _) => Reason::ClientCertificateRefused,
        (GapKind::Forbidden, Kubernetes) => Reason::Forbidden,
        (GapKind::Forbidden, Talos) => Reason::RoleTooLow,
        (GapKind::Maintenance, _) => Reason::MaintenanceMode,
        (GapKind::Untrusted, _) => Reason::ServerNotDirectlyReachable,
        (GapKind::Proxy, _) => Reason::ProxyRefused,
        (GapKind::NodeUnreachable, _) => Reason::NodeUnreachable,
        (GapKind::NoForwarding, _) => Reason::EndpointIsWorker,
        (GapKind::Unsupported, _) => Reason::NotSupportedByVersion,
        (GapKind::Throttled, _) => Reason::Throttled,
        (GapKind::PluginFailed, _) => Reason::PluginFailed,
        (GapKind::ContextUnknown, _) => Reason::ContextUnknown,
        (GapKind::Insecure, _) => Reason::KubeconfigInsecure,
        (GapKind::Malformed, _) => Reason::UnreadableAnswer,
        (GapKind::TooLarge, _) => Reason::AnswerTooLarge,
    }
}

/// Returns the problem for a gap: always an error, never a pass or a failure. Refusals and missing support last for the whole run, except
/// that refusals of Kubernetes must be observed to last.
pub(super) fn problem(protocol: Protocol, gap: &Gap, expected: impl Into<String>) -> Problem {
    use GapKind::{ClientCertificateRefused, Forbidden, SignatureRefused, Unauthenticated, Unsupported};
    let problem = Problem::error(reason(protocol, gap.kind), expected, &*gap.text);
    let is_final =
        matches!(gap.kind, Forbidden | Unsupported | ClientCertificateRefused | SignatureRefused | Unauthenticated);
    if is_final && protocol != Protocol::Kubernetes { problem.permanent() } else { problem }
}

/// Explains why an answer from Talos is missing.
pub(super) fn talos(gap: &Gap, expected: impl Into<String>) -> Problem {
    problem(Protocol::Talos, gap, expected)
}

/// Explains why an answer from Kubernetes is missing.
pub(super) fn kubernetes(cluster: &Assessment<'_>, gap: &Gap, expected: &str) -> Problem {
    match gap.kind {
        GapKind::Forbidden => forbidden(cluster, expected, &gap.text, &gap.text),
        GapKind::Unauthenticated => unauthorized(cluster, expected, &gap.text),
        _ => problem(Protocol::Kubernetes, gap, expected),
    }
}

/// Explains why an endpoint of `--etcd-endpoints` does not answer. Its credentials have their own options.
pub(super) fn etcd(gap: &Gap, expected: &str) -> Problem {
    let problem = problem(Protocol::Etcd, gap, expected);
    let hint = match gap.kind {
        GapKind::UnknownCa => {
            "etcd has its own CA: pass it with `--etcd-cacert`, or check whether the file that is passed there belongs to this cluster"
        }
        GapKind::Unauthenticated => {
            "etcd's own authentication is enabled: pass a user's certificate with `--etcd-cert` and `--etcd-key`, or the right name and password in `CLUSTER_HEALTH_ETCD_USER` and `CLUSTER_HEALTH_ETCD_PASSWORD_FILE`"
        }
        GapKind::Forbidden => {
            "etcd 3.6 before 3.6.12, and 3.5.31, report their status only to users with the role `root`: grant it, or upgrade etcd"
        }
        GapKind::ClientCertificateRefused => {
            "etcd requires a client certificate from its own CA: pass `--etcd-cert` and `--etcd-key`"
        }
        _ => return problem,
    };
    problem.hint(Hint::likely(hint))
}

/// Explains a 403 with this text. A restarting API server also refuses clients that have the permission.
pub(super) fn forbidden(cluster: &Assessment<'_>, expected: &str, observed: &str, words: &str) -> Problem {
    let upgrade = if cluster.asked.upgrade == Upgrade::default() { "" } else { " --upgrade" };
    let policy = if cluster.asked.policy.require.is_empty() { "" } else { " --policy FILE" };
    let hint = format!("a ClusterRole with these rights is missing; `cluster-health rbac{upgrade}{policy}` prints it");
    let hint = Hint::likely(hint);
    if has_lasted(cluster, words) || cluster.etcd.quorum_state == QuorumState::Proven {
        Problem::error(Reason::Forbidden, expected, observed).permanent().hint(hint)
    } else {
        Problem::error(Reason::ForbiddenOrStarting, expected, observed).hint(hint)
    }
}

/// Returns true if every request that is refused with this text has been refused long enough to be final. Refusals of a different request
/// prove nothing: behind a load balancer, one API server may be starting while the others have loaded the rules.
fn has_lasted(cluster: &Assessment<'_>, words: &str) -> bool {
    let refusals = cluster.any_kubernetes().into_iter().flat_map(Kubernetes::refusals);
    let questions = refusals.filter(|(_, refusal)| *refusal == words).map(|(question, _)| question);
    cluster.memory.refused_for(FORBIDDEN_FOR_GOOD, questions)
}

/// Explains a 401. An API server that is starting may return it once.
pub(super) fn unauthorized(cluster: &Assessment<'_>, expected: &str, observed: &str) -> Problem {
    let problem = Problem::error(Reason::Unauthorized, expected, observed);
    if cluster.memory.unauthenticated_rounds >= 1 { problem.permanent() } else { problem }
}

/// Outcome for an answer without information: an empty list, an absent resource, an unknown value.
pub(super) fn says_nothing(expected: &str, observed: &str) -> Outcome {
    Outcome::problem(Problem::error(Reason::NoAnswer, expected, observed))
}

/// Outcome if something that a required check covers was not observed. The text is for users who did not select that check.
pub(super) fn unseen(reason: Reason, expected: &str, observed: &str) -> Outcome {
    Outcome::problem(Problem::error(reason, expected, observed).unseen())
}

/// Marks a problem as unseen if a required check explains it.
pub(super) fn as_unseen(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Problem(problem) => Outcome::problem(problem.unseen()),
        other => other,
    }
}

/// Checks whether Talos is queried at all, and whether anything prevents access to every machine.
pub(super) fn talos_way(cluster: &Assessment<'_>) -> Result<(), Outcome> {
    match &cluster.talos_access {
        TalosAccess::Open => Ok(()),
        TalosAccess::LeftOut => Err(Outcome::Skip(NO_TALOS.to_owned())),
        TalosAccess::Closed(gap) => Err(Outcome::problem(talos(gap, "an endpoint that answers").unseen())),
    }
}

/// Like [`talos_way`], for facts that Kubernetes alone can provide: without Talos there is no obstacle.
pub(super) fn talos_way_if_asked(cluster: &Assessment<'_>) -> Result<(), Outcome> {
    if cluster.asks_talos() { talos_way(cluster) } else { Ok(()) }
}

/// Returns the machine's own first answer, or the obstacle.
pub(super) fn talos_contact<'a>(cluster: &Assessment<'_>, node: &'a Node) -> Result<&'a Contact, Outcome> {
    talos_way(cluster)?;
    let expected = "answers on the Talos API";
    let problem = match MachineAccess::of(node) {
        MachineAccess::Open(contact) => return Ok(contact),
        MachineAccess::Closed(gap) => talos(gap, expected),
        MachineAccess::Other(other) => {
            let observed = format!("`{other}` answered at {}", node.address);
            Problem::error(Reason::AnsweredByOtherNode, expected, observed)
                .hint(Hint::run("{talosctl} -n {} get hostnamestatus", [&node.address]))
        }
    };
    Err(Outcome::problem(problem.unseen()))
}

/// A fact that a machine reports about itself, or the outcome if it is unavailable: a failed prerequisite, or a gap in the answers.
///
/// `expected` completes "expected …" for people, should there be a gap.
pub(super) fn talos_fact<'a, T>(
    cluster: &Assessment<'_>,
    node: &'a Node,
    fact: impl Fn(&'a TalosNode) -> &'a Observed<T>,
    expected: &str,
) -> Result<&'a T, Outcome> {
    talos_contact(cluster, node)?;
    fact(&node.talos).as_ref().map_err(|gap| {
        let look = Hint::run("{talosctl} -n {} version", [node.address.as_str()]);
        Outcome::problem(talos(gap, expected).hint(look))
    })
}

/// Returns a Talos service by name, if the list has it. A list without any service does not count as an answer.
pub(super) fn talos_service<'a>(
    cluster: &Assessment<'_>,
    node: &'a Node,
    id: &str,
) -> Result<Option<&'a Service>, Outcome> {
    let expected = "a list of Talos services";
    let services = talos_fact(cluster, node, |talos| &talos.services, expected)?;
    if services.is_empty() {
        return Err(says_nothing(expected, "an empty list"));
    }
    Ok(worst_service(services, id))
}

/// Checks whether the kubelet's reports to Talos can be trusted.
pub(super) fn kubelet_word(cluster: &Assessment<'_>, node: &Node) -> Result<(), Outcome> {
    talos_contact(cluster, node)?;
    if cluster.kubelet_is_doubtful(node) { Err(unreliable_kubelet(cluster, node)) } else { Ok(()) }
}

/// Explains why the kubelet's reports cannot be trusted.
pub(super) fn unreliable_kubelet(cluster: &Assessment<'_>, node: &Node) -> Outcome {
    let observed = "the kubelet is not known to be healthy, and its earlier reports may be outdated";
    let old = || unseen(Reason::StatusStale, "a live kubelet", observed);
    talos_contact(cluster, node).err().unwrap_or_else(old)
}

/// Explains why no source reports this pod of a control plane.
pub(super) fn no_pods(cluster: &Assessment<'_>, pod: &str, why: NoPods<'_>) -> Outcome {
    match why {
        NoPods::NotListed => {
            let expected = "the pods of kube-system";
            let list = listed(cluster, |kubernetes| &kubernetes.pods, expected);
            list.err().unwrap_or_else(|| says_nothing(expected, "no list"))
        }
        NoPods::NoStatus => {
            Outcome::problem(Problem::error(Reason::StatusStale, format!("status of {pod}"), "no status of any pod"))
        }
        NoPods::Gap(gap) => Outcome::problem(talos(gap, "the statuses of the static pods")),
    }
}

/// Outcome for a machine without a Node object.
pub(super) fn unregistered(node: &Node) -> Outcome {
    needs_no_object(node)
        .unwrap_or_else(|| unseen(Reason::NodeNotRegistered, "a Node object", "no Node matches its name or addresses"))
}

/// Skips a machine that itself reports that it has no Node object.
pub(super) fn needs_no_object(node: &Node) -> Option<Outcome> {
    let why = if has_kubernetes(node) == Some(false) {
        "no Kubernetes on this machine"
    } else if node.talos.skips_registration {
        "its kubelet registers no Node (`skipNodeRegistration`)"
    } else {
        return None;
    };
    Some(Outcome::Skip(why.to_owned()))
}

/// Describes the validity that a client certificate should have left.
pub(super) fn enough(cluster: &Assessment<'_>) -> String {
    let days = cluster.asked.thresholds.certificates.as_hours() / 24;
    format!("{days} days or a tenth of its lifetime left")
}

/// Describes a fault of a client certificate: reason, expected state, and observed state.
fn client_certificate(cluster: &Assessment<'_>, fault: Fault) -> (Reason, Cow<'static, str>, &'static str) {
    let now = "a certificate that is valid now";
    match fault {
        Fault::NotForClients => (
            Reason::ClientAuthMissing,
            "a certificate made for client authentication".into(),
            "extended key usage `clientAuth` is missing",
        ),
        Fault::OtherKey => (
            Reason::KeyMismatch,
            "a key that matches the certificate".into(),
            "the private key belongs to another certificate",
        ),
        Fault::NotYetValid => (Reason::CertificateNotYetValid, now.into(), "it is not valid yet"),
        Fault::Expired => (Reason::CertificateExpired, now.into(), "it has expired"),
        Fault::EndsWithinTheRun => {
            (Reason::CertificateExpiresSoon, "a certificate that outlives the run".into(), "it expires before that")
        }
        Fault::EndsSoon => (Reason::CertificateExpiresSoon, enough(cluster).into(), "it expires soon"),
    }
}

/// Lists all problems of a client certificate, without any request. Waiting helps only if a clock is wrong.
pub(super) fn certificate_problems(cluster: &Assessment<'_>, certificate: &Certificate) -> Vec<Problem> {
    let Certificate { not_before, not_after, .. } = *certificate;
    let problem = |fault| faulty(cluster, fault, &Validity { not_before, not_after }, "");
    faults(certificate, cluster.taken, cluster.asked.deadline, cluster.asked.thresholds.certificates)
        .into_iter()
        .map(problem)
        .collect()
}

/// Returns the problem of the key of an Omni service account, without any request.
pub(super) fn account_problem(cluster: &Assessment<'_>, account: &Account) -> Option<Problem> {
    let asked = cluster.asked;
    let fault = fault_of_account(account, cluster.taken, asked.deadline, asked.thresholds.certificates)?;
    let Account { not_before: begin, not_after: end, .. } = account;
    let (now, end) = (cluster.taken, end.map(|end| end.to_string()).unwrap_or_default());
    let (expected, soon) = ("a key that is valid now", Reason::ServiceKeyExpiresSoon);
    Some(match fault {
        Fault::NotYetValid => {
            let observed = format!("created on {begin}, but the local time is {now:.0}");
            let clock = Hint::likely("the clock of this runner is behind");
            Problem::fail(Reason::ServiceKeyNotYetValid, expected, observed).hint(clock)
        }
        Fault::EndsWithinTheRun => {
            let observed = format!("expires on {end}, before this run may end");
            Problem::fail(soon, "a key that outlives the run", observed).permanent()
        }
        Fault::EndsSoon => Problem::warn(soon, enough(cluster), format!("expires on {end}")).permanent(),
        Fault::Expired | Fault::NotForClients | Fault::OtherKey => {
            Problem::fail(Reason::ServiceKeyExpired, expected, format!("expired on {end}")).permanent()
        }
    })
}

/// Returns true if a valid certificate has less validity left than [`enough`].
pub(super) fn ends_soon(cluster: &Assessment<'_>, begin: Timestamp, end: Timestamp) -> bool {
    crate::assess::ends_soon(begin, end, cluster.taken, cluster.asked.thresholds.certificates)
}

/// Returns the problem of the CA that verifies servers, without any request. Our TLS library ignores the CA's dates, but Kubernetes, Talos,
/// and all other users of this configuration do not.
pub(super) fn ca_problem(cluster: &Assessment<'_>, ca: &Validity) -> Option<Problem> {
    let fault = fault_of_dates(
        ca.not_before,
        ca.not_after,
        cluster.taken,
        cluster.asked.deadline,
        cluster.asked.thresholds.certificates,
    )?;
    let problem = faulty(cluster, fault, ca, "the CA ").about(About::Authority);
    let is_over = fault == Fault::Expired;
    Some(if is_over { problem.hint(Hint::likely("the CA was replaced, and this file was not")) } else { problem })
}

fn faulty(cluster: &Assessment<'_>, fault: Fault, valid: &Validity, what: &str) -> Problem {
    let (now, Validity { not_before: begin, not_after: end }) = (cluster.taken, valid);
    let (reason, expected, observed) = client_certificate(cluster, fault);
    let observed = match fault {
        Fault::NotForClients | Fault::OtherKey => observed.to_owned(),
        Fault::NotYetValid => format!("{what}valid only from {begin}, but the local time is {now:.0}"),
        Fault::Expired => format!("{what}expired on {end}"),
        Fault::EndsWithinTheRun => format!("{what}expires on {end}, before this run may end"),
        Fault::EndsSoon => format!("{what}expires on {end}"),
    };
    match fault {
        Fault::NotYetValid => {
            Problem::fail(reason, expected, observed).hint(Hint::likely("the clock of this runner is behind"))
        }
        Fault::EndsSoon => Problem::warn(reason, expected, observed).permanent(),
        _ => Problem::fail(reason, expected, observed).permanent(),
    }
}

/// Returns Kubernetes, if it is queried and its credentials can be used.
pub(super) fn kubernetes_side<'a>(cluster: &Assessment<'a>) -> Result<&'a Kubernetes, Outcome> {
    let (reason, observed) = match &cluster.kubernetes_access {
        KubernetesAccess::Open(kubernetes) => return Ok(kubernetes),
        KubernetesAccess::LeftOut => return Err(Outcome::Skip("--no-kubernetes".to_owned())),
        KubernetesAccess::NoCredentials(Gap { kind: GapKind::NotAsked, text }) => (Reason::NoKubeconfig, &**text),
        KubernetesAccess::NoCredentials(gap) => (reason(Protocol::Kubernetes, gap.kind), &*gap.text),
        KubernetesAccess::Insecure(server) => (Reason::KubeconfigInsecure, *server),
        KubernetesAccess::Unusable(fault) => {
            let (reason, _, observed) = client_certificate(cluster, *fault);
            (reason, observed)
        }
    };
    Err(unseen(reason, "Kubernetes credentials that can be used", observed))
}

/// Returns a list from the API server, even if it belongs to another cluster.
pub(super) fn answer<'a, T>(
    cluster: &'a Assessment<'_>,
    fact: fn(&Kubernetes) -> &Observed<T>,
    expected: &str,
) -> Result<&'a T, Outcome> {
    answer_of(cluster, expected, |side| fact(side).as_ref().map_err(Clone::clone))
}

/// Like [`answer`], for an answer that has to be looked up.
fn answer_of<'a, T>(
    cluster: &'a Assessment<'_>,
    expected: &str,
    find: impl FnOnce(&'a Kubernetes) -> Result<&'a T, Gap>,
) -> Result<&'a T, Outcome> {
    let side = kubernetes_side(cluster)?;
    find(side).map_err(|gap| {
        let problem = kubernetes(cluster, &gap, expected);
        Outcome::problem(if endpoint_is_down(side) { problem.unseen() } else { problem })
    })
}

/// Returns a list that is known to describe this cluster. A list of another cluster is no evidence, no matter how healthy it looks.
pub(super) fn listed<'a, T>(
    cluster: &'a Assessment<'_>,
    fact: fn(&Kubernetes) -> &Observed<T>,
    expected: &str,
) -> Result<&'a T, Outcome> {
    listed_of(cluster, expected, |side| fact(side).as_ref().map_err(Clone::clone))
}

/// Like [`listed`], for a list that has to be looked up.
pub(super) fn listed_of<'a, T>(
    cluster: &'a Assessment<'_>,
    expected: &str,
    find: impl FnOnce(&'a Kubernetes) -> Result<&'a T, Gap>,
) -> Result<&'a T, Outcome> {
    let list = answer_of(cluster, expected, find);
    match of_our_cluster(cluster, expected) {
        Ok(()) => list,
        Err(other) => list.map_err(as_unseen).and(Err(other)),
    }
}

/// Checks that Kubernetes' answers are known to describe this cluster.
pub(super) fn of_our_cluster(cluster: &Assessment<'_>, expected: &str) -> Result<(), Outcome> {
    if cluster.is_trusted() {
        return Ok(());
    }
    let (reason, observed) = match cluster.identity {
        Identity::Different { .. } => (Reason::WrongCluster, "the list is from another cluster"),
        _ => (Reason::NoAnswer, "unknown whether the list is from this cluster"),
    };
    Err(unseen(reason, expected, observed))
}

/// Returns true if the list is missing only because the credentials do not permit reading it.
pub(super) fn is_refused<T>(
    cluster: &Assessment<'_>,
    outcome: &Outcome,
    fact: fn(&Kubernetes) -> &Observed<T>,
) -> bool {
    let gap = cluster.any_kubernetes().and_then(|kubernetes| fact(kubernetes).as_ref().err());
    !outcome.is_unseen() && gap.is_some_and(|gap| gap.kind == GapKind::Forbidden)
}

const READY: &str = "/readyz answers 200";

/// Describes an answer of an API server that is not a plain 200. Refusals do not show the server's health, so they are errors.
pub(super) fn readyz(cluster: &Assessment<'_>, readyz: &Readyz) -> Problem {
    let said = if readyz.failed.is_empty() { readyz.text.clone() } else { failing(readyz) };
    let observed = if said.is_empty() { readyz.status.to_string() } else { format!("{}: {said}", readyz.status) };
    match readyz.status {
        401 => unauthorized(cluster, READY, &observed),
        403 => forbidden(cluster, READY, &observed, &readyz.text),
        429 => Problem::error(Reason::Throttled, READY, observed),
        // A 200 with failed checks contradicts itself.
        200 | 500..=599 => Problem::fail(Reason::ApiNotReady, READY, observed),
        _ => Problem::error(Reason::UnreadableAnswer, READY, observed)
            .hint(Hint::likely("something other than a Kubernetes API server answers at this address")),
    }
}

fn failing(readyz: &Readyz) -> String {
    readyz.failed.iter().map(|name| format!("[-]{name}")).collect::<Vec<_>>().join(" ")
}

/// Returns true if there was no connection, or none that can be trusted, or none that lasted.
pub(super) fn is_no_connection(kind: GapKind) -> bool {
    use GapKind::{
        Broken, ConnectTimedOut, ConnectionRefused, NameNotFound, NameNotInCertificate, NoRoute,
        PeerCertificateExpired, UnknownCa,
    };
    let is_refused = matches!(kind, NameNotInCertificate | PeerCertificateExpired | UnknownCa);
    is_refused || matches!(kind, Broken | ConnectTimedOut | ConnectionRefused | NameNotFound | NoRoute)
}

/// Returns true if the obstacle may be on the network path from this runner: a name server, a route, a firewall, a proxy, or another
/// party's certificate. A refusal, a reset, and a timeout after connecting come from the server.
pub(super) fn is_on_the_way(kind: GapKind) -> bool {
    use GapKind::{ConnectTimedOut, NameNotFound, NoRoute, Proxy, UnknownCa};
    matches!(kind, NameNotFound | NoRoute | ConnectTimedOut | Proxy | UnknownCa)
}

/// The likely cause if nothing in the cluster answered.
pub(super) const RUNNER: &str =
    "nothing of this cluster answered, so it may be the network of this runner: check VPN, DNS, firewall and proxy";

const NO_CA: &str =
    "the kubeconfig has no `certificate-authority-data`, so only certificates of the system's CAs are accepted";

/// Returns true if the kubeconfig names no CA.
fn trusts_the_system(cluster: &Assessment<'_>) -> bool {
    let credentials = cluster.any_kubernetes().and_then(|kubernetes| kubernetes.credentials.as_ref().ok());
    credentials.is_some_and(|credentials| credentials.ca.is_none())
}

/// Explains a missing answer of an API server. Failures of the server itself are failures. Obstacles on the network path are not, unless
/// some other part of the cluster answered in the same round.
pub(super) fn no_readyz(cluster: &Assessment<'_>, gap: &Gap) -> Problem {
    let fail = |reason| Problem::fail(reason, READY, &*gap.text);
    match gap.kind {
        kind if is_on_the_way(kind) && !cluster.something_answers() => {
            let likely = if kind == GapKind::UnknownCa && trusts_the_system(cluster) { NO_CA } else { RUNNER };
            problem(Protocol::Kubernetes, gap, READY).hint(Hint::likely(likely))
        }
        GapKind::TimedOut => fail(Reason::ApiFrozen),
        GapKind::NodeUnreachable => fail(Reason::ApiUnreachable),
        kind if is_no_connection(kind) || is_on_the_way(kind) => fail(reason(Protocol::Kubernetes, kind)),
        GapKind::ServerError => fail(Reason::ApiNotReady),
        _ => kubernetes(cluster, gap, READY),
    }
}

/// Suggests the readiness query for a server other than the kubeconfig's. The timeout is needed because a server that does not respond
/// would block kubectl for a minute.
pub(super) fn ask_server(server: &str) -> Hint {
    Hint::run("{kubectl} --server {} --request-timeout 5s get --raw '/readyz?verbose'", [server])
}

/// Suggests a command that shows more about a server with this problem, at `host:port`. If its certificate is bad, kubectl would only
/// report that.
pub(super) fn look_at_server(problem: &Problem, at: &str) -> Hint {
    match problem.reason {
        Reason::ServerCertificateExpired | Reason::NameNotInCertificate | Reason::UnknownCa => Hint::run(
            "openssl s_client -connect {} </dev/null 2>/dev/null | openssl x509 -noout -issuer -dates -ext subjectAltName",
            [at],
        ),
        _ => ask_server(&format!("https://{at}")),
    }
}
