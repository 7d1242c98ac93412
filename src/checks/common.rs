//! What the judges share: the way a fact of Talos takes, what a gap amounts to, and which nodes are judged at all.

use jiff::{SignedDuration, Timestamp};

use super::{Hint, Outcome, Problem, Reason, Target, Verdict};
use crate::snapshot::{
    Certificate, Contact, EtcdMember, Gap, GapKind, Node, Observed, Role, Service, Snapshot, TalosNode,
};

pub(super) const NO_TALOS: &str = "Talos is not asked (`--no-talos`)";
/// Of a Node whose machine is silent and forgotten. From here it cannot be told which, so nothing is to be deleted.
pub(super) const OFF_OR_GONE: &str = "the machine was removed, or has been off for half an hour or more; delete its Node only if it is \
     gone for good (`kubectl delete node`)";

/// The reason that stands for a gap, whoever left it.
pub(super) fn gap_reason(kind: GapKind) -> Reason {
    match kind {
        GapKind::NotAsked | GapKind::Broken | GapKind::ServerError => Reason::NoAnswer,
        GapKind::ConnectionRefused => Reason::ConnectionRefused,
        GapKind::NoRoute => Reason::NoRoute,
        GapKind::ConnectTimedOut | GapKind::TimedOut => Reason::TimedOut,
        GapKind::NameNotFound => Reason::NameNotFound,
        GapKind::UnknownCa => Reason::UnknownCa,
        GapKind::NameNotInCertificate => Reason::NameNotInCertificate,
        GapKind::PeerCertificateExpired => Reason::ServerCertificateExpired,
        GapKind::ClientCertificateRefused | GapKind::Unauthenticated => Reason::ClientCertificateRefused,
        GapKind::Maintenance => Reason::MaintenanceMode,
        GapKind::Proxy => Reason::ProxyRefused,
        GapKind::NodeUnreachable => Reason::NodeUnreachable,
        GapKind::NoForwarding => Reason::EndpointIsWorker,
        GapKind::Forbidden => Reason::RoleTooLow,
        GapKind::Unsupported => Reason::NotSupportedByVersion,
        GapKind::Throttled => Reason::Throttled,
        GapKind::ContextUnknown => Reason::ContextUnknown,
        GapKind::Insecure => Reason::KubeconfigInsecure,
        GapKind::Malformed => Reason::UnreadableAnswer,
        GapKind::TooLarge => Reason::AnswerTooLarge,
    }
}

/// Cannot tell is an error: never a pass, never a failure. Refusals and missing support last as long as the run.
pub(super) fn gap_problem(gap: &Gap, expected: impl Into<String>) -> Problem {
    let problem = Problem::error(gap_reason(gap.kind), expected, gap.text.as_str());
    match gap.kind {
        GapKind::Forbidden | GapKind::Unsupported | GapKind::ClientCertificateRefused | GapKind::Unauthenticated => {
            problem.permanent()
        }
        _ => problem,
    }
}

/// An answer that is there and says nothing: an empty list, an absent resource, a value of no known meaning.
pub(super) fn says_nothing(expected: &str, observed: &str) -> Outcome {
    Outcome::Problem(Problem::error(Reason::NoAnswer, expected, observed))
}

/// `(1, 9, 6)` of `v1.9.6-beta.0`; `None` for what is no version.
pub(super) fn version_numbers(tag: &str) -> Option<(u32, u32, u32)> {
    let release = tag.trim_start_matches('v').split(['-', '+']).next()?;
    let mut numbers = release.split('.').map(str::parse::<u32>);
    let mut next = || numbers.next()?.ok();
    Some((next()?, next()?, next()?))
}

/// Talos of this node is older than `version`. One that tells no version is taken for new.
pub(super) fn is_older(snapshot: &Snapshot, node: &Node, version: (u32, u32, u32)) -> bool {
    let numbers = talos_contact(snapshot, node).ok().and_then(|contact| version_numbers(&contact.version.tag));
    numbers.is_some_and(|numbers| numbers < version)
}

/// A certificate that no peer would accept now, whatever else is right.
pub(super) fn is_unusable(certificate: &Certificate, now: Timestamp) -> bool {
    certificate.not_after <= now || certificate.not_before > now || !certificate.client_auth || !certificate.matches_key
}

/// All that is wrong with a client certificate, told without asking anybody.
pub(super) fn certificate_problems(
    certificate: &Certificate,
    now: Timestamp,
    deadline: Option<Timestamp>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    if !certificate.client_auth {
        let observed = "extended key usage `clientAuth` is missing";
        problems.push(
            Problem::fail(Reason::ClientAuthMissing, "a certificate made for client authentication", observed)
                .permanent(),
        );
    }
    if !certificate.matches_key {
        let observed = "the private key belongs to another certificate";
        problems.push(Problem::fail(Reason::KeyMismatch, "certificate and key belong together", observed).permanent());
    }
    let end = certificate.not_after;
    if certificate.not_before > now {
        let observed = format!("valid from {} only, and here it is {now}", certificate.not_before);
        problems.push(
            Problem::fail(Reason::CertificateNotYetValid, "a certificate that is valid now", observed)
                .hint(Hint::likely("the clock of this machine is behind")),
        );
    } else if end <= now {
        let observed = format!("expired on {end}");
        problems
            .push(Problem::fail(Reason::CertificateExpired, "a certificate that is valid now", observed).permanent());
    } else if deadline.is_some_and(|deadline| end < deadline) {
        let observed = format!("expires on {end}, before this run may end");
        let expected = "a certificate that outlives the run";
        problems.push(Problem::fail(Reason::CertificateExpiresSoon, expected, observed).permanent());
    } else if ends_soon(certificate.not_before, end, now) {
        let observed = format!("expires on {end}");
        problems.push(Problem::warn(Reason::CertificateExpiresSoon, ENOUGH, observed).permanent());
    }
    problems
}

/// What a certificate should have left, in words.
pub(super) const ENOUGH: &str = "30 days or a tenth of its lifetime left";

/// Less than [`ENOUGH`].
pub(super) fn ends_soon(not_before: Timestamp, not_after: Timestamp, now: Timestamp) -> bool {
    let tenth = not_after.duration_since(not_before) / 10;
    not_after.duration_since(now) < tenth.min(SignedDuration::from_hours(30 * 24))
}

/// What stands between us and every Talos node at once, if anything does.
///
/// A node that answered proves the way open, whatever else looks wrong.
pub(super) fn talos_way(snapshot: &Snapshot) -> Result<(), Outcome> {
    let Some(talos) = &snapshot.talos else { return Err(Outcome::Skip(NO_TALOS.to_owned())) };
    if snapshot.nodes.iter().any(|node| node.talos.contact.is_ok()) {
        return Ok(());
    }
    let unusable = match &talos.credentials {
        Err(_) => true,
        Ok(credentials) => credentials.certificate.as_ref().is_none_or(|it| is_unusable(it, snapshot.taken)),
    };
    if unusable {
        return Err(Outcome::Blocked("talos.credentials"));
    }
    let forwards = |role: &Observed<Option<Role>>| !matches!(role, Ok(Some(Role::Worker)));
    if talos.endpoints.iter().any(|endpoint| endpoint.version.is_ok() && forwards(&endpoint.role)) {
        Ok(())
    } else {
        Err(Outcome::Blocked("talos.endpoints"))
    }
}

/// The node's own first answer, or what stands in the way of it.
pub(super) fn talos_contact<'a>(snapshot: &Snapshot, node: &'a Node) -> Result<&'a Contact, Outcome> {
    talos_way(snapshot)?;
    match &node.talos.contact {
        Ok(contact) if contact.answered_by_other.is_none() => Ok(contact),
        Err(gap) if gap.kind == GapKind::NoForwarding => Err(Outcome::Blocked("talos.endpoints")),
        _ => Err(Outcome::Blocked("talos.nodes.reachable")),
    }
}

/// One fact that a node tells of itself, or what stands in its way: a prerequisite, or an answer that tells nothing.
///
/// `expected` completes "expected …" for people, should there be a gap.
pub(super) fn talos_fact<'a, T>(
    snapshot: &Snapshot,
    node: &'a Node,
    fact: impl Fn(&'a TalosNode) -> &'a Observed<T>,
    expected: &str,
) -> Result<&'a T, Outcome> {
    talos_contact(snapshot, node)?;
    fact(&node.talos).as_ref().map_err(|gap| {
        Outcome::Problem(
            gap_problem(gap, expected).hint(Hint::run("{talosctl} -n {} version", [node.address.as_str()])),
        )
    })
}

/// A named Talos service, if the list has it. A list without any service is no answer.
pub(super) fn talos_service<'a>(snapshot: &Snapshot, node: &'a Node, id: &str) -> Result<Option<&'a Service>, Outcome> {
    let services = talos_fact(snapshot, node, |talos| &talos.services, "a list of Talos services")?;
    if services.is_empty() {
        return Err(says_nothing("a list of Talos services", "an empty list"));
    }
    Ok(services.iter().find(|service| service.id == id))
}

/// `Running` with a health check that passed.
pub(super) fn is_healthy(service: &Service) -> bool {
    service.state == "Running" && service.healthy == Some(true)
}

/// State, health and last event of a service in half a line.
pub(super) fn service_text(service: &Service) -> String {
    let health = match service.healthy {
        Some(true) => "healthy",
        Some(false) => "not healthy",
        None => "health unknown",
    };
    let state = if service.state.is_empty() { "no state" } else { &service.state };
    let mut text = format!("{state}, {health}");
    if !service.health_message.is_empty() && service.healthy != Some(true) {
        text.push_str(": ");
        text.push_str(&service.health_message);
    }
    if let Some(event) = &service.last_event
        && !event.message.is_empty()
    {
        text.push_str("; last event: ");
        text.push_str(&event.message);
    }
    text
}

/// Why a per-node check does not judge this node; `None` if it does. Whether other systems than Talos count is for each check
/// to say.
pub(super) fn passed_over(snapshot: &Snapshot, node: &Node) -> Option<&'static str> {
    if node.leaving {
        Some("the node is being removed")
    } else if node.out_of_scope {
        Some("outside of `--nodes`")
    } else if is_outside_flags(snapshot, node) {
        Some("not among the nodes that were asked for")
    } else if is_stale_discovery_member(snapshot, node) {
        Some("known to discovery alone, and gone; see `talos.nodes.expected`")
    } else {
        None
    }
}

/// A Kubernetes node that runs another system. Nobody else names it, and its Node object says so.
pub(super) fn is_foreign(snapshot: &Snapshot, node: &Node) -> bool {
    let sources = node.sources;
    let named_as_talos = node.is_talos || sources.discovery || sources.etcd || sources.flags || sources.talosconfig;
    !named_as_talos && tells_system(snapshot, node)
}

/// Its Node object says what it runs. A kubelet that has never reported has not.
pub(super) fn tells_system(snapshot: &Snapshot, node: &Node) -> bool {
    let objects = snapshot.kubernetes.iter().filter_map(|kubernetes| kubernetes.nodes.as_ref().ok()).flatten();
    objects.into_iter().any(|object| object.name == node.name && !object.os_image.is_empty())
}

/// With node flags, they are the population; whoever else was found is only listed.
pub(super) fn is_outside_flags(snapshot: &Snapshot, node: &Node) -> bool {
    let asked = &snapshot.asked;
    let given = !asked.control_plane_nodes.is_empty() || !asked.worker_nodes.is_empty();
    given && !node.sources.flags
}

/// Whether discovery tells which machines there are. Where it is off, nobody can tell that it misses one.
pub(super) fn discovery_is_on(snapshot: &Snapshot) -> bool {
    snapshot.talos.as_ref().is_some_and(|talos| talos.discovery.as_ref().is_ok_and(|&members| members > 0))
}

/// Discovery lists a machine for up to half an hour after it is gone. To call it that takes proof: Kubernetes and etcd were
/// both read and do not know it, the expected numbers are met without it, and it has not answered in this run.
pub(super) fn is_stale_discovery_member(snapshot: &Snapshot, node: &Node) -> bool {
    if !is_discovery_only(node) || snapshot.memory.answered.contains(&node.name) {
        return false;
    }
    let is_it = |name: &str, addresses: &[String]| {
        name == node.name || addresses.iter().any(|address| node.addresses.contains(address))
    };
    let objects = snapshot.kubernetes.as_ref().and_then(|kubernetes| kubernetes.nodes.as_ref().ok());
    let unknown_to_kubernetes = objects.is_some_and(|objects| {
        !objects.is_empty() && !objects.iter().any(|object| is_it(&object.name, &object.addresses))
    });
    let members: Vec<&EtcdMember> =
        snapshot.nodes.iter().flat_map(|node| node.talos.etcd_members.iter().flatten()).collect();
    let unknown_to_etcd =
        !members.is_empty() && !members.iter().any(|member| is_it(&member.name, &member_hosts(member)));
    // Another cluster's Kubernetes knows none of our nodes, which proves nothing about this one.
    unknown_to_kubernetes
        && unknown_to_etcd
        && super::identity::is_proven(snapshot)
        && expected_numbers_are_met(snapshot)
}

fn is_discovery_only(node: &Node) -> bool {
    let sources = node.sources;
    let others = sources.kubernetes || sources.etcd || sources.flags || sources.talosconfig;
    sources.discovery && !others && node.talos.contact.is_err()
}

fn expected_numbers_are_met(snapshot: &Snapshot) -> bool {
    let counted = |role| {
        snapshot.nodes.iter().filter(|node| node.role == role && !node.leaving && !is_discovery_only(node)).count()
    };
    let met = |expected: Option<usize>, role| expected.is_none_or(|expected| expected == counted(role));
    met(snapshot.asked.expect_control_planes, Role::ControlPlane) && met(snapshot.asked.expect_workers, Role::Worker)
}

/// The hosts of a member's peer URLs, without brackets and port.
pub(super) fn member_hosts(member: &EtcdMember) -> Vec<String> {
    member.peer_urls.iter().map(|url| host(url).to_owned()).collect()
}

/// The host in `https://host:port`, `host:port` or `[host]:port`.
pub(crate) fn host(address: &str) -> &str {
    let address = address.split_once("://").map_or(address, |(_, rest)| rest);
    let address = address.split('/').next().unwrap_or(address);
    if let Some((host, _)) = address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return host;
    }
    match address.rsplit_once(':') {
        Some((host, _)) if !host.contains(':') => host,
        _ => address,
    }
}

/// An id as etcd's own tools write it.
pub(crate) fn hex(id: u64) -> String {
    format!("{id:016x}")
}

/// Judges each Talos node of the scope on its own. Nodes that are passed over are listed with the reason.
pub(super) fn each_node<'a>(snapshot: &'a Snapshot, mut judge: impl FnMut(&'a Node, &mut Verdict)) -> Verdict {
    if let Err(outcome) = talos_way(snapshot) {
        return Verdict::whole(outcome);
    }
    if snapshot.nodes.is_empty() {
        return Verdict::whole(Outcome::Problem(no_node()));
    }
    let mut verdict = Verdict::default();
    for node in snapshot.nodes.iter().filter(|node| !node.out_of_scope) {
        match passed_over(snapshot, node) {
            Some(reason) => verdict.skip(Target::node(node), reason),
            None if is_foreign(snapshot, node) => verdict.skip(Target::node(node), "not a Talos machine"),
            None => judge(node, &mut verdict),
        }
    }
    verdict
}

fn no_node() -> Problem {
    Problem::error(Reason::NodeMissing, "at least one node", "no source names any node")
        .hint(Hint::likely("discovery is off; name the nodes with `--control-plane-nodes` and `--worker-nodes`"))
}

/// Where no control plane is known, nothing can be said of what control planes run.
pub(super) fn no_control_plane() -> Problem {
    Problem::error(Reason::NodeMissing, "at least one control plane", "no source names a control plane")
        .hint(Hint::likely("discovery is off; name the control planes with `--control-plane-nodes`"))
}
