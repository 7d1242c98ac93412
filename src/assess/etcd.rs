//! etcd from the point of view of each member, and the resulting state of the cluster.
//!
//! Each control plane reports on its own member; with `--etcd-endpoints`, each endpoint does. Both become [`View`]s, so that judges do not
//! have to distinguish them.

use std::collections::BTreeSet;

use super::access::{MachineAccess, TalosAccess, contact, tells_healthy};
use super::population::{Machine, control_planes, etcd_is_bad, is_seen_lost};
use crate::model::{CheckId, Kind, Target};
use crate::snapshot::{
    EtcdAlarm, EtcdEndpoint, EtcdMember, EtcdStatus, Gap, GapKind, Node, Observed, Snapshot, TalosNode,
};

/// The state of etcd in one round.
pub(crate) struct Etcd<'a> {
    pub(crate) overview: Result<Overview<'a>, Unseen>,
    pub(crate) quorum_state: QuorumState,
    /// The check that explains why writes fail: the quorum is lost, or no member is healthy and none proves the quorum.
    pub(crate) trouble: Option<CheckId>,
    /// Whether etcd runs outside the control planes.
    pub(crate) is_external: bool,
    /// The views of `--etcd-endpoints`, if they lead to a different etcd than the one on the control planes.
    pub(crate) foreign: Vec<View<'a>>,
}

/// The members' views and their combined result.
pub(crate) struct Overview<'a> {
    pub(crate) views: Vec<View<'a>>,
    /// The member list of this round: the one that most members report, or the longest one if there is a tie.
    pub(crate) members: Option<&'a [EtcdMember]>,
    /// Two of the lists have no member in common, or a running member is in none of them.
    pub(crate) is_split: bool,
    pub(crate) quorum: Quorum,
}

/// The reason why there are no views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unseen {
    /// `--no-talos` without `--etcd-endpoints`.
    LeftOut,
    /// `--etcd-endpoints` names no endpoint.
    NoEndpoint,
    /// No Talos machine is accessible.
    TalosClosed,
    NoControlPlane,
}

/// The quorum in this round, for checks that merely depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuorumState {
    Proven,
    Lost,
    Unknown,
}

/// etcd as one member reports it. Each missing answer has its reason.
pub(crate) struct View<'a> {
    pub(crate) target: Target,
    /// `None` for an endpoint of `--etcd-endpoints`.
    pub(crate) node: Option<&'a Node>,
    /// The member's own ID, if known.
    pub(crate) id: Option<u64>,
    pub(crate) status: Result<&'a EtcdStatus, NoStatus<'a>>,
    /// Whether the status is missing because the member is down: its machine is lost or reports no healthy etcd, or its port refuses
    /// connections.
    pub(crate) is_down: bool,
    pub(crate) members: Result<&'a [EtcdMember], NoStatus<'a>>,
    pub(crate) alarms: Result<&'a [EtcdAlarm], NoStatus<'a>>,
}

/// The reason why a member's answer is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoStatus<'a> {
    /// The machine does not answer the Talos API, or another machine answers in its place.
    Machine,
    /// No answer, and Talos does not report etcd as healthy.
    Service,
    /// An empty list, which does not count as an answer: a responding member lists at least itself.
    EmptyList,
    /// No answer, although one is expected.
    Gap(&'a Gap),
    /// Like `Gap`, but other endpoints list this address as a member's, so the fault is the member's own.
    OwnFault(&'a Gap),
    /// All queries failed for one reason, which the status reports.
    Mute(&'a Gap),
}

impl View<'_> {
    /// Returns true if this list contains the control plane's member. The member's ID decides; name and address count only if the ID is
    /// unknown.
    pub(crate) fn is_in(&self, node: &Node, listed: &[EtcdMember]) -> bool {
        match self.id {
            Some(id) => listed.iter().any(|member| member.id == id),
            None => listed.iter().any(|member| member.could_be(node)),
        }
    }

    pub(crate) fn sees_leader(&self) -> bool {
        self.status.as_ref().is_ok_and(|status| status.has_leader())
    }

    /// Returns true if this list has the member as a voter.
    fn is_voter(&self, members: &[EtcdMember]) -> bool {
        self.id.is_some_and(|id| members.iter().any(|member| member.id == id && !member.is_learner))
    }
}

impl<'a> Etcd<'a> {
    pub(super) fn of(snapshot: &'a Snapshot, talos: &TalosAccess<'a>, machines: &[Machine<'a>]) -> Self {
        let endpoints = snapshot.external_etcd.as_deref();
        let foreign = endpoints.filter(|endpoints| are_foreign(snapshot, endpoints));
        let external = endpoints.filter(|_| foreign.is_none());
        let overview = views(snapshot, external, talos, machines).map(|views| Overview::of(snapshot, views));
        let quorum_state = match &overview {
            Ok(Overview { quorum, .. }) if quorum.proven => QuorumState::Proven,
            Ok(Overview { quorum, .. }) if quorum.is_lost() => QuorumState::Lost,
            _ => QuorumState::Unknown,
        };
        let is_external = external.is_some();
        let trouble = match quorum_state {
            QuorumState::Proven => None,
            QuorumState::Lost => Some(CheckId::EtcdQuorum),
            QuorumState::Unknown if is_external => None,
            QuorumState::Unknown => {
                let mut nodes = control_planes(snapshot, machines).peekable();
                (nodes.peek().is_some() && nodes.all(etcd_is_bad)).then_some(CheckId::EtcdService)
            }
        };
        Self { overview, quorum_state, trouble, is_external, foreign: foreign.map_or_else(Vec::new, of_endpoints) }
    }
}

/// A sign of trouble that a member shows before Talos, which probes it every 20 seconds, reports its service as unhealthy, or that Talos
/// does not detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberTrouble {
    /// The machine answers, but etcd does not: its process hangs.
    NoAnswer,
    /// The member answers, but has no leader.
    NoLeader,
}

pub(crate) fn member_trouble(node: &Node) -> Option<MemberTrouble> {
    contact(node)?;
    match &node.talos.etcd_status {
        Ok(status) => (!status.has_leader()).then_some(MemberTrouble::NoLeader),
        Err(gap) => {
            let hangs = gap.kind == GapKind::TimedOut && tells_healthy(node, "etcd");
            hangs.then_some(MemberTrouble::NoAnswer)
        }
    }
}

/// Returns true if the control planes and these endpoints report members and have none in common. Equal IDs alone can be a coincidence,
/// because etcd derives the IDs of the first members from their addresses.
pub(crate) fn are_foreign(snapshot: &Snapshot, endpoints: &[EtcdEndpoint]) -> bool {
    let is_same = |one: &EtcdMember, other: &EtcdMember| {
        one.id == other.id && one.hosts().iter().any(|host| other.hosts().contains(host))
    };
    let listed: Vec<&EtcdMember> = own(snapshot).flat_map(|talos| talos.etcd_members.iter().flatten()).collect();
    let mut theirs = endpoints.iter().flat_map(|endpoint| endpoint.members.iter().flatten()).peekable();
    if theirs.peek().is_some() && !listed.is_empty() {
        return !theirs.any(|member| listed.iter().any(|it| is_same(it, member)));
    }
    let ids: BTreeSet<u64> = endpoints.iter().flat_map(|it| member_ids(&it.status, &it.members)).collect();
    let own = own_members(snapshot);
    !own.is_empty() && !ids.is_empty() && own.is_disjoint(&ids)
}

impl super::Assessment<'_> {
    /// Returns true if any control plane reports an etcd member.
    pub(crate) fn some_member_is_own(&self) -> bool {
        !own_members(self.snapshot).is_empty()
    }
}

/// Returns the IDs of the members that the control planes report.
fn own_members(snapshot: &Snapshot) -> BTreeSet<u64> {
    let told = own(snapshot).flat_map(|talos| {
        let own = talos.etcd_member_id.iter().copied().flatten();
        own.chain(member_ids(&talos.etcd_status, &talos.etcd_members))
    });
    told.collect()
}

/// Returns the facts of the control planes that answer for themselves.
fn own(snapshot: &Snapshot) -> impl Iterator<Item = &TalosNode> {
    snapshot.control_planes().filter(|node| contact(node).is_some()).map(|node| &*node.talos)
}

fn member_ids(status: &Observed<EtcdStatus>, members: &Observed<Vec<EtcdMember>>) -> impl Iterator<Item = u64> {
    let listed = members.iter().flatten().map(|member| member.id);
    status.iter().map(|status| status.member_id).chain(listed)
}

fn of_endpoints(endpoints: &[EtcdEndpoint]) -> Vec<View<'_>> {
    endpoints.iter().map(|endpoint| of_endpoint(endpoints, endpoint)).collect()
}

fn views<'a>(
    snapshot: &'a Snapshot,
    external: Option<&'a [EtcdEndpoint]>,
    talos: &TalosAccess<'a>,
    machines: &[Machine<'a>],
) -> Result<Vec<View<'a>>, Unseen> {
    if let Some(endpoints) = external {
        return if endpoints.is_empty() { Err(Unseen::NoEndpoint) } else { Ok(of_endpoints(endpoints)) };
    }
    match talos {
        TalosAccess::LeftOut => return Err(Unseen::LeftOut),
        TalosAccess::Closed(_) => return Err(Unseen::TalosClosed),
        TalosAccess::Open => {}
    }
    let views: Vec<View<'_>> = control_planes(snapshot, machines).map(|node| of_node(snapshot, node)).collect();
    if views.is_empty() { Err(Unseen::NoControlPlane) } else { Ok(views) }
}

/// Builds the view of an endpoint from `--etcd-endpoints`.
///
/// If another endpoint answers and lists this address as a member's, address and credentials are right: a refused connection, a frozen
/// server or a wrong certificate is then the member's own fault.
fn of_endpoint<'a>(endpoints: &'a [EtcdEndpoint], endpoint: &'a EtcdEndpoint) -> View<'a> {
    let member = listed_at(endpoints, &endpoint.address).map(|member| member.id);
    let mute = mute(endpoint);
    let own = mute.filter(|kind| member.is_some() && is_own_fault(*kind));
    let missing = |gap: &'a Gap| if mute.is_some() { NoStatus::Mute(gap) } else { NoStatus::Gap(gap) };
    let status = endpoint.status.as_ref();
    View {
        target: Target::new(Kind::Endpoint, endpoint.address.as_str()),
        node: None,
        id: status.ok().map(|status| status.member_id).or(member.filter(|_| own.is_some())),
        status: status.map_err(if own.is_some() { NoStatus::OwnFault } else { NoStatus::Gap }),
        is_down: own == Some(GapKind::ConnectionRefused),
        members: nonempty(&endpoint.members, missing),
        alarms: endpoint.alarms.as_deref().map_err(missing),
    }
}

/// Returns the gap's kind if all queries failed for the same reason.
fn mute(endpoint: &EtcdEndpoint) -> Option<GapKind> {
    let EtcdEndpoint { address: _, status, members, alarms } = endpoint;
    let (status, members, alarms) = (status.as_ref().err()?, members.as_ref().err()?, alarms.as_ref().err()?);
    (status.kind == members.kind && status.kind == alarms.kind).then_some(status.kind)
}

/// Returns true for failures that are the server's own. Other failures may be the network's.
fn is_own_fault(kind: GapKind) -> bool {
    use GapKind::{ConnectionRefused, NameNotInCertificate, PeerCertificateExpired, TimedOut, UnknownCa};
    matches!(kind, ConnectionRefused | NameNotInCertificate | PeerCertificateExpired | TimedOut | UnknownCa)
}

/// Returns the member that other endpoints list with this client address.
pub(crate) fn listed_at<'a>(endpoints: &'a [EtcdEndpoint], address: &str) -> Option<&'a EtcdMember> {
    let mut members = endpoints.iter().filter_map(|endpoint| endpoint.members.as_ref().ok()).flatten();
    members.find(|member| serves_at(member, address))
}

/// Returns true if this is a client address of the member.
pub(crate) fn serves_at(member: &EtcdMember, address: &str) -> bool {
    let host =
        |url: &str| url.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/').to_owned();
    member.client_urls.iter().any(|url| host(url) == host(address))
}

fn of_node<'a>(snapshot: &'a Snapshot, node: &'a Node) -> View<'a> {
    let talos = &node.talos;
    // An answer from another machine says nothing about this node's member.
    let is_own = contact(node).is_some();
    let runs = tells_healthy(node, "etcd");
    let untold = |gap: &'a Gap| match gap.kind {
        GapKind::Forbidden => NoStatus::Gap(gap),
        _ if runs => NoStatus::Gap(gap),
        _ => NoStatus::Service,
    };
    let own = if is_own { Ok(()) } else { Err(NoStatus::Machine) };
    let status = own.and_then(|()| talos.etcd_status.as_ref().map_err(untold));
    let id = status.ok().map(|status| status.member_id);
    View {
        target: node.target(),
        node: Some(node),
        id: id.or_else(|| talos.etcd_member_id.as_ref().ok().copied().flatten().filter(|_| is_own)),
        is_down: matches!(status, Err(NoStatus::Machine | NoStatus::Service)) && is_down(snapshot, node),
        status,
        members: own.and_then(|()| nonempty(&talos.etcd_members, untold)).map_err(|untold| match untold {
            NoStatus::EmptyList if !runs => NoStatus::Service,
            untold => untold,
        }),
        alarms: own.and_then(|()| talos.etcd_alarms.as_deref().map_err(untold)),
    }
}

/// Returns true if etcd on this machine is known to be down. A machine that reports nothing about etcd may still run it.
fn is_down(snapshot: &Snapshot, node: &Node) -> bool {
    match MachineAccess::of(node) {
        MachineAccess::Other(_) => true,
        MachineAccess::Open(_) => {
            node.talos.services.as_ref().is_ok_and(|services| !services.is_empty()) && !tells_healthy(node, "etcd")
        }
        MachineAccess::Closed(gap) => {
            is_seen_lost(node) && (gap.kind == GapKind::Maintenance || !is_served(snapshot, node))
        }
    }
}

/// Returns true if the machine's API server answers at its own address and does not report etcd as failed. The machine is then alive even
/// if Talos cannot reach it, and may well run etcd: it is not known to be up, but not down either.
fn is_served(snapshot: &Snapshot, node: &Node) -> bool {
    let server = snapshot.kubernetes.as_ref().and_then(|kubernetes| kubernetes.servers.get(&node.name));
    server.is_some_and(|server| server.as_ref().is_ok_and(|readyz| !readyz.misses_etcd()))
}

fn nonempty<'a>(
    members: &'a Observed<Vec<EtcdMember>>,
    untold: impl Fn(&'a Gap) -> NoStatus<'a>,
) -> Result<&'a [EtcdMember], NoStatus<'a>> {
    match members {
        Ok(members) if members.is_empty() => Err(NoStatus::EmptyList),
        Ok(members) => Ok(members),
        Err(gap) => Err(untold(gap)),
    }
}

impl<'a> Overview<'a> {
    fn of(snapshot: &Snapshot, views: Vec<View<'a>>) -> Self {
        let lists: Vec<&'a [EtcdMember]> = views.iter().filter_map(|view| view.members.ok()).collect();
        let members = agreed_list(&lists);
        Self {
            members,
            is_split: are_split(&lists) || !strangers(&views).is_empty(),
            quorum: Quorum::of(snapshot, &views, members),
            views,
        }
    }
}

fn agreed_list<'a>(lists: &[&'a [EtcdMember]]) -> Option<&'a [EtcdMember]> {
    let ids = |members: &[EtcdMember]| -> BTreeSet<(u64, bool)> {
        members.iter().map(|member| (member.id, member.is_learner)).collect()
    };
    let votes = |list: &[EtcdMember]| lists.iter().filter(|other| ids(other) == ids(list)).count();
    lists.iter().copied().max_by_key(|list| (votes(list), list.len(), ids(list)))
}

/// Returns members that are running but in none of the lists. A removed member stops, and without a leader it has no list of its own.
pub(crate) fn strangers<'v, 'a>(views: &'v [View<'a>]) -> Vec<&'v View<'a>> {
    let listed: BTreeSet<u64> =
        views.iter().flat_map(|view| view.members.iter().copied().flatten()).map(|it| it.id).collect();
    let is_one = |view: &&View<'_>| view.status.as_ref().is_ok_and(|status| !listed.contains(&status.member_id));
    if listed.is_empty() { Vec::new() } else { views.iter().filter(is_one).collect() }
}

fn are_split(lists: &[&[EtcdMember]]) -> bool {
    let share = |one: &[EtcdMember], other: &[EtcdMember]| one.iter().any(|it| other.iter().any(|its| its.id == it.id));
    lists.iter().any(|one| lists.iter().any(|other| !share(one, other)))
}

/// The quorum, to the extent that it is known in this round.
pub(crate) struct Quorum {
    /// Number of voters.
    pub(crate) voters: usize,
    pub(crate) source: VoterSource,
    /// Voters that answered.
    pub(crate) up: usize,
    /// Voters that answered and see a leader.
    pub(crate) following: usize,
    /// Voters in unknown state: neither seen up nor known to be down.
    pub(crate) untold: usize,
    pub(crate) proven: bool,
    /// An answering voter reports that it has no leader.
    pub(crate) leaderless: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum VoterSource {
    ThisRound,
    EarlierRound,
    /// The number of control planes or of `--etcd-endpoints`.
    Assumed,
}

impl Quorum {
    fn of(snapshot: &Snapshot, views: &[View<'_>], listed: Option<&[EtcdMember]>) -> Self {
        let (members, source) = match (listed, &snapshot.memory.etcd_members) {
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
            // The cluster behind `--etcd-endpoints` can have voters that the option does not name.
            untold: if views.iter().all(|view| view.node.is_none()) {
                voters.saturating_sub(up + seen_down(views, members))
            } else {
                ids(&|view| view.status.is_err() && !view.is_down).min(voters.saturating_sub(up))
            },
            proven: following > 0 && linearizable,
            leaderless: views.iter().any(|view| answered(view) && !view.sees_leader()),
        }
    }

    /// Returns the number of voters that have to be up.
    pub(crate) fn needed(&self) -> usize {
        self.voters / 2 + 1
    }

    /// Returns how many more voters can be lost if `up` voters are up.
    pub(crate) fn tolerates(&self, up: usize) -> usize {
        up.saturating_sub(self.needed())
    }

    /// Returns true if the quorum is observed to be lost, as opposed to not observed.
    pub(crate) fn is_lost(&self) -> bool {
        !self.proven && self.leaderless
    }
}

/// Counts voters behind `--etcd-endpoints` that cannot be up.
fn seen_down(views: &[View<'_>], members: Option<&[EtcdMember]>) -> usize {
    let is_down = |id: u64| views.iter().any(|view| view.is_down && view.id == Some(id));
    let voters = members.unwrap_or_default().iter().filter(|member| !member.is_learner);
    voters.filter(|member| member.has_never_started() || is_down(member.id)).count()
}
