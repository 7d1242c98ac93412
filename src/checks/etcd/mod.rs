//! Stage 3: etcd, seen from each of its members.
//!
//! Each control plane tells of its own member; with `--etcd-endpoints`, each endpoint does. Both become [`View`]s, so that
//! the judges need not know which it was.

mod alarms;
mod defrag;
mod lag;
mod members;
mod quorum;
mod service;
mod space;
mod versions;

use std::collections::BTreeSet;

pub(super) use alarms::ALARMS;
pub(super) use lag::LAG;
pub(super) use members::{LEARNERS, MEMBERS_CONSISTENT, MEMBERS_NODES};
pub(super) use quorum::{LEADER, QUORUM, TOLERANCE};
pub(super) use service::SERVICE;
pub(super) use space::SPACE;
pub(super) use versions::VERSIONS;

use super::common::{
    gap_problem, is_healthy, is_stale_discovery_member, no_control_plane, talos_contact, talos_service, talos_way,
    version_numbers,
};
use super::connectivity::is_seen_lost;
use super::{Hint, Kind, Outcome, Problem, Reason, Severity, Target, Verdict};
use crate::snapshot::{
    EtcdAlarm, EtcdEndpoint, EtcdMember, EtcdStatus, Gap, GapKind, Node, Observed, Readyz, Snapshot,
};

/// etcd as one member sees it. What is missing says why.
struct View<'a> {
    target: Target,
    /// `None` for an endpoint of `--etcd-endpoints`.
    node: Option<&'a Node>,
    /// Its own id, as far as anybody knows it.
    id: Option<u64>,
    status: Result<&'a EtcdStatus, Outcome>,
    /// It has no status because it is seen to be down: its machine is lost, or says that etcd does not run, or nothing listens.
    is_down: bool,
    members: Result<&'a [EtcdMember], Outcome>,
    alarms: Result<&'a [EtcdAlarm], Outcome>,
}

impl View<'_> {
    fn sees_leader(&self) -> bool {
        self.status.as_ref().is_ok_and(|status| has_leader(status))
    }

    /// Is listed as a voter by this list.
    fn is_voter(&self, members: &[EtcdMember]) -> bool {
        self.id.is_some_and(|id| members.iter().any(|member| member.id == id && !member.is_learner))
    }
}

fn has_leader(status: &EtcdStatus) -> bool {
    status.leader != 0 && !status.errors.iter().any(|error| error.contains("no leader"))
}

/// The control planes of the population. Being removed, or listed by discovery alone and gone: not one of them.
fn control_planes(snapshot: &Snapshot) -> impl Iterator<Item = &Node> {
    snapshot.control_planes().filter(|node| !is_stale_discovery_member(snapshot, node))
}

/// Every member's view, or why there is nothing to look at.
fn views(snapshot: &Snapshot) -> Result<Vec<View<'_>>, Verdict> {
    if let Some(endpoints) = &snapshot.external_etcd {
        if endpoints.is_empty() {
            let problem = Problem::error(Reason::NoAnswer, "at least one etcd endpoint", "none was given");
            return Err(Verdict::whole(Outcome::Problem(problem.permanent())));
        }
        return Ok(endpoints.iter().map(|endpoint| external_view(snapshot, endpoints, endpoint)).collect());
    }
    if snapshot.talos.is_none() {
        return Err(Verdict::skipped("etcd is not asked (`--no-talos` without `--etcd-endpoints`)"));
    }
    talos_way(snapshot).map_err(Verdict::whole)?;
    let views: Vec<View<'_>> = control_planes(snapshot).map(|node| node_view(snapshot, node)).collect();
    if views.is_empty() { Err(Verdict::whole(Outcome::Problem(no_control_plane()))) } else { Ok(views) }
}

/// One of `--etcd-endpoints`. Where no question has an answer, for one reason, `etcd.leader` tells it, once.
///
/// Where another one answers and lists this address as a member's, address and credentials are right: a refused connection, a
/// frozen server or a wrong certificate is then the member's own fault.
fn external_view<'a>(snapshot: &'a Snapshot, endpoints: &'a [EtcdEndpoint], endpoint: &'a EtcdEndpoint) -> View<'a> {
    let member = listed_at(endpoints, &endpoint.address).map(|member| member.id);
    let mute = mute(endpoint);
    let own = mute.filter(|kind| member.is_some() && is_own_fault(*kind));
    let told_by_leader = mute.is_some() && !snapshot.asked.unplanned.contains("etcd.leader");
    let missing = |gap: &Gap, expected| {
        if told_by_leader { Outcome::Blocked("etcd.leader") } else { external(gap, expected) }
    };
    let status = endpoint.status.as_ref();
    View {
        target: Target::new(Kind::Endpoint, endpoint.address.as_str()),
        node: None,
        id: status.ok().map(|status| status.member_id).or(member.filter(|_| own.is_some())),
        status: status.map_err(|gap| match own {
            Some(_) => Outcome::Problem(Problem { severity: Severity::Fail, ..gap_problem(gap, "etcd's status") }),
            None => external(gap, "etcd's status"),
        }),
        is_down: own == Some(GapKind::ConnectionRefused),
        members: nonempty(&endpoint.members).map_err(|gap| missing(&gap, "etcd's member list")),
        alarms: endpoint.alarms.as_deref().map_err(|gap| missing(gap, "etcd's alarms")),
    }
}

/// Why it answers nothing at all.
fn mute(endpoint: &EtcdEndpoint) -> Option<GapKind> {
    let EtcdEndpoint { address: _, status, members, alarms } = endpoint;
    let (status, members, alarms) = (status.as_ref().err()?, members.as_ref().err()?, alarms.as_ref().err()?);
    (status.kind == members.kind && status.kind == alarms.kind).then_some(status.kind)
}

/// Seen of the server itself, where silence may be the network's.
fn is_own_fault(kind: GapKind) -> bool {
    use GapKind::{ConnectionRefused, NameNotInCertificate, PeerCertificateExpired, TimedOut, UnknownCa};
    matches!(kind, ConnectionRefused | NameNotInCertificate | PeerCertificateExpired | TimedOut | UnknownCa)
}

/// The member that the others list with this address for clients.
pub(crate) fn listed_at<'a>(endpoints: &'a [EtcdEndpoint], address: &str) -> Option<&'a EtcdMember> {
    let host =
        |url: &str| url.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/').to_owned();
    let members = endpoints.iter().filter_map(|endpoint| endpoint.members.as_ref().ok()).flatten();
    let serves = |member: &&EtcdMember| member.client_urls.iter().any(|url| host(url) == host(address));
    members.into_iter().find(serves)
}

/// A member publishes its name and where clients find it as soon as it runs.
pub(crate) fn has_never_started(member: &EtcdMember) -> bool {
    member.name.is_empty() && member.client_urls.is_empty()
}

fn node_view<'a>(snapshot: &Snapshot, node: &'a Node) -> View<'a> {
    let talos = &node.talos;
    let blocked = |gap: &Gap, expected: &str| node_gap(snapshot, node, gap, expected);
    // Whoever answers in this node's place says nothing of its member.
    let own = talos_contact(snapshot, node);
    let status = own.clone().and_then(|_| talos.etcd_status.as_ref().map_err(|gap| blocked(gap, "EtcdStatus")));
    let members =
        own.clone().and_then(|_| nonempty(&talos.etcd_members).map_err(|gap| blocked(&gap, "EtcdMemberList")));
    let alarms = own.clone().and_then(|_| talos.etcd_alarms.as_deref().map_err(|gap| blocked(gap, "EtcdAlarmList")));
    let local = || own.as_ref().ok().and_then(|_| talos.etcd_member_id.as_ref().ok().copied().flatten());
    View {
        target: Target::node(node),
        node: Some(node),
        id: status.as_ref().ok().map(|status| status.member_id).or_else(local),
        is_down: matches!(status, Err(Outcome::Blocked(_))) && is_down(snapshot, node),
        status,
        members,
        alarms,
    }
}

/// Who says nothing of its etcd may well run it.
fn is_down(snapshot: &Snapshot, node: &Node) -> bool {
    match &node.talos.contact {
        Ok(contact) if contact.answered_by_other.is_some() => true,
        Ok(_) => talos_service(snapshot, node, "etcd").is_ok_and(|etcd| !etcd.is_some_and(is_healthy)),
        Err(gap) => is_seen_lost(snapshot, node) && (gap.kind == GapKind::Maintenance || !is_served(snapshot, node)),
    }
}

/// Its API server answers at its own address and does not miss etcd. So the machine lives, whatever hides it from Talos, and may
/// well run its etcd: not known to be up, but not down either.
fn is_served(snapshot: &Snapshot, node: &Node) -> bool {
    let server = snapshot.kubernetes.as_ref().and_then(|kubernetes| kubernetes.servers.get(&node.name));
    let misses_etcd = |readyz: &Readyz| readyz.failed.iter().any(|part| part.starts_with("etcd"));
    server.is_some_and(|server| server.as_ref().is_ok_and(|readyz| !misses_etcd(readyz)))
}

/// A member that answers knows at least itself, so an empty list is no answer.
fn nonempty(members: &Observed<Vec<EtcdMember>>) -> Result<&[EtcdMember], Gap> {
    match members {
        Ok(members) if members.is_empty() => Err(Gap::new(GapKind::Malformed, "an empty member list")),
        Ok(members) => Ok(members),
        Err(gap) => Err(gap.clone()),
    }
}

fn unknown(gap: &Gap, expected: &str) -> Outcome {
    Outcome::Problem(gap_problem(gap, expected))
}

/// As [`unknown`], for an endpoint of `--etcd-endpoints`, whose credentials are options of their own.
fn external(gap: &Gap, expected: &str) -> Outcome {
    let problem = gap_problem(gap, expected);
    Outcome::Problem(match gap.kind {
        GapKind::UnknownCa => problem.hint(Hint::likely("etcd has a CA of its own: give it with `--etcd-cacert`")),
        // Talos has no part in it: users and roles are etcd's own, and so is who the certificate stands for.
        GapKind::Forbidden | GapKind::Unauthenticated => {
            Problem { reason: Reason::EtcdAccessDenied, ..problem }.hint(Hint::likely(
                "etcd's own authentication is switched on: give a certificate of a user that may ask this with `--etcd-cert` and \
                 `--etcd-key`",
            ))
        }
        GapKind::ClientCertificateRefused => problem
            .hint(Hint::likely("etcd wants a client certificate of its own CA: give `--etcd-cert` and `--etcd-key`")),
        _ => problem,
    })
}

/// Why a control plane that Talos reaches says nothing of its etcd: the service, the role, or the call itself.
fn node_gap(snapshot: &Snapshot, node: &Node, gap: &Gap, expected: &str) -> Outcome {
    let running = matches!(talos_service(snapshot, node, "etcd"), Ok(Some(service)) if is_healthy(service));
    if gap.kind == GapKind::Forbidden {
        return Outcome::Problem(refused(node, gap, expected));
    }
    if running { unknown(gap, expected) } else { Outcome::Blocked("etcd.service") }
}

/// Talos before 1.9.6, and 1.10.0, ask for os:operator where later versions are content with os:reader.
fn refused(node: &Node, gap: &Gap, expected: &str) -> Problem {
    let version = node.talos.contact.as_ref().ok().and_then(|contact| version_numbers(&contact.version.tag));
    let asks_for_more =
        expected != "EtcdMemberList" && version.is_some_and(|version| version < (1, 9, 6) || version == (1, 10, 0));
    let problem = gap_problem(gap, expected);
    if asks_for_more { Problem { reason: Reason::RoleTooLowForThisVersion, ..problem } } else { problem }
}

/// The member list of this round: the one that most members report, the longer one of equals.
fn member_list<'a>(views: &[View<'a>]) -> Option<&'a [EtcdMember]> {
    let ids = |members: &[EtcdMember]| -> BTreeSet<(u64, bool)> {
        members.iter().map(|member| (member.id, member.is_learner)).collect()
    };
    let lists: Vec<&'a [EtcdMember]> = views.iter().filter_map(|view| view.members.as_ref().ok().copied()).collect();
    let votes = |list: &[EtcdMember]| lists.iter().filter(|other| ids(other) == ids(list)).count();
    lists.iter().copied().max_by_key(|list| (votes(list), list.len(), ids(list)))
}

/// What is known of the quorum in this round.
struct Quorum {
    /// Number of voters.
    voters: usize,
    source: VoterSource,
    /// Voters that answered.
    up: usize,
    /// Voters that answered and see a leader.
    following: usize,
    /// Voters of which it cannot be told: they are neither seen up nor known to be down.
    untold: usize,
    proven: bool,
    /// An answering voter reports that it has no leader.
    leaderless: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum VoterSource {
    ThisRound,
    EarlierRound,
    /// As many as there are control planes.
    Assumed,
}

impl Quorum {
    fn of(snapshot: &Snapshot, views: &[View<'_>]) -> Self {
        let (members, source) = match (member_list(views), &snapshot.memory.etcd_members) {
            (Some(members), _) => (Some(members), VoterSource::ThisRound),
            (None, Some(members)) if !members.is_empty() => (Some(members.as_slice()), VoterSource::EarlierRound),
            _ => (None, VoterSource::Assumed),
        };
        let may_vote = |view: &View<'_>| {
            let learns = view.status.as_ref().is_ok_and(|status| status.is_learner);
            !learns && members.is_none_or(|members| view.is_voter(members))
        };
        let ids = |of: &dyn Fn(&View<'_>) -> bool| -> usize {
            let distinct: BTreeSet<_> =
                views.iter().filter(|view| of(view)).map(|view| (view.id, &view.target)).collect();
            let known: BTreeSet<u64> = distinct.iter().filter_map(|(id, _)| *id).collect();
            known.len() + distinct.iter().filter(|(id, _)| id.is_none()).count()
        };
        let voters = members.map_or(views.len(), |members| {
            members.iter().filter(|member| !member.is_learner).map(|member| member.id).collect::<BTreeSet<_>>().len()
        });
        let answered = |view: &View<'_>| view.status.is_ok() && may_vote(view);
        let linearizable = views.iter().any(|view| view.members.as_ref().is_ok_and(|members| view.is_voter(members)));
        let following = ids(&|view| answered(view) && view.sees_leader());
        let up = ids(&answered);
        Self {
            voters,
            source,
            up,
            following,
            // Behind `--etcd-endpoints` there can be voters that nobody named.
            untold: match snapshot.external_etcd {
                Some(_) => voters.saturating_sub(up + seen_down(views, members)),
                None => ids(&|view| view.status.is_err() && !view.is_down).min(voters.saturating_sub(up)),
            },
            proven: following > 0 && linearizable,
            leaderless: views.iter().any(|view| answered(view) && !view.sees_leader()),
        }
    }

    /// Voters that have to be up.
    fn needed(&self) -> usize {
        self.voters / 2 + 1
    }

    /// How many more may be lost, with this many up.
    fn tolerates(&self, up: usize) -> usize {
        up.saturating_sub(self.needed())
    }

    /// Seen to be lost, as opposed to not seen.
    fn lost(&self) -> bool {
        !self.proven && self.leaderless
    }
}

/// Voters behind `--etcd-endpoints` that cannot be up.
fn seen_down(views: &[View<'_>], members: Option<&[EtcdMember]>) -> usize {
    let is_down = |id: u64| views.iter().any(|view| view.is_down && view.id == Some(id));
    let voters = members.unwrap_or_default().iter().filter(|member| !member.is_learner);
    voters.filter(|member| has_never_started(member) || is_down(member.id)).count()
}

/// What most judges of etcd begin with: the views, and the quorum they amount to.
fn look(snapshot: &Snapshot) -> Result<(Vec<View<'_>>, Quorum), Verdict> {
    let views = views(snapshot)?;
    let quorum = Quorum::of(snapshot, &views);
    Ok((views, quorum))
}

/// What this round shows of the quorum, for those who only suffer from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Proven,
    Lost,
    Unknown,
}

pub(super) fn standing(snapshot: &Snapshot) -> Standing {
    match look(snapshot) {
        Ok((_, quorum)) if quorum.proven => Standing::Proven,
        Ok((_, quorum)) if quorum.lost() => Standing::Lost,
        _ => Standing::Unknown,
    }
}

/// A call that needs a quorum and has no answer while there is none only repeats that.
fn without_quorum(quorum: &Quorum, outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Problem(problem) if !quorum.proven && problem.waiting_helps => Outcome::Blocked("etcd.quorum"),
        other => other,
    }
}

/// A member's status, for the judges that come after `etcd.leader`: why it is not known is said there, once.
fn told<'a>(snapshot: &Snapshot, view: &View<'a>, quorum: &Quorum) -> Result<&'a EtcdStatus, Outcome> {
    view.status.clone().map_err(|outcome| match outcome {
        Outcome::Problem(_) if !quorum.proven => Outcome::Blocked("etcd.quorum"),
        Outcome::Problem(_) if !snapshot.asked.skipped.contains("etcd.leader") => Outcome::Blocked("etcd.leader"),
        other => other,
    })
}

/// Is there evidence of this control plane beyond an etcd member list that names it?
fn is_named_beyond_etcd(node: &Node) -> bool {
    let sources = node.sources;
    node.talos.contact.is_ok() || sources.discovery || sources.kubernetes || sources.flags || sources.talosconfig
}
