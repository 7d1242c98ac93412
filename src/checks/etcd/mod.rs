//! Stage 3: etcd, from the point of view of each member. `assess` interprets the members' answers; the judges are here.

mod alarms;
mod defrag;
mod lag;
mod members;
mod quorum;
mod service;
mod space;
#[cfg(test)]
mod tests;
mod versions;

pub(super) use alarms::ALARMS;
pub(super) use alarms::stops_writes;
pub(super) use lag::LAG;
pub(super) use members::{LEARNERS, MEMBERS_CONSISTENT, MEMBERS_NODES};
pub(super) use quorum::{LEADER, QUORUM, TOLERANCE};
pub(super) use service::SERVICE;
pub(super) use space::SPACE;
pub(super) use versions::VERSIONS;

use std::time::Duration;

use super::gaps::{self, Protocol, as_unseen, talos_contact, talos_way, unseen};
use super::scope::{declared_off, no_control_plane};
use crate::assess::etcd::{NoStatus, Overview, Quorum, Unseen, View};
use crate::assess::{Assessment, service, talos_version};
use crate::model::{Hint, Outcome, Problem, Reason, Severity, Verdict};
use crate::snapshot::{AlarmKind, Contact, EtcdAlarm, EtcdMember, EtcdStatus, Gap, GapKind, Node, Service};

/// Long enough for an election, a heartbeat or a membership change to reach every member.
const SETTLE: Duration = Duration::from_secs(1);

/// Returns the overview that most judges of etcd start with, or the verdict if there is none.
pub(in crate::checks) fn overview<'b, 'a>(cluster: &'b Assessment<'a>) -> Result<&'b Overview<'a>, Verdict> {
    cluster.etcd.overview.as_ref().map_err(|why| match why {
        Unseen::LeftOut => Verdict::skipped("etcd is not queried (`--no-talos` without `--etcd-endpoints`)"),
        Unseen::NoEndpoint => {
            let problem = Problem::error(Reason::NoAnswer, "at least one etcd endpoint", "none was given");
            Verdict::whole(Outcome::problem(problem.permanent()))
        }
        Unseen::TalosClosed => talos_way(cluster).map_or_else(Verdict::whole, |()| Verdict::default()),
        Unseen::NoControlPlane => Verdict::whole(Outcome::problem(no_control_plane())),
    })
}

fn status<'a>(cluster: &Assessment<'_>, view: &View<'a>) -> Result<&'a EtcdStatus, Outcome> {
    view.status.map_err(|why| untold(cluster, view, why, ["EtcdStatus", "etcd's status"]))
}

fn members<'a>(cluster: &Assessment<'_>, view: &View<'a>) -> Result<&'a [EtcdMember], Outcome> {
    view.members.map_err(|why| untold(cluster, view, why, ["EtcdMemberList", "etcd's member list"]))
}

fn alarms<'a>(cluster: &Assessment<'_>, view: &View<'a>) -> Result<&'a [EtcdAlarm], Outcome> {
    view.alarms.map_err(|why| untold(cluster, view, why, ["EtcdAlarmList", "etcd's alarms"]))
}

/// Explains why a member's answer is missing, either from Talos or from its own API.
fn untold(cluster: &Assessment<'_>, view: &View<'_>, why: NoStatus<'_>, [call, answer]: [&str; 2]) -> Outcome {
    let expected = if view.node.is_some() { call } else { answer };
    let gap = match why {
        NoStatus::Machine => return view.node.and_then(|node| contact(cluster, node).err()).unwrap_or_else(nobody),
        NoStatus::Service => return view.node.map_or_else(nobody, not_running),
        NoStatus::EmptyList => &Gap::new(GapKind::Malformed, "an empty member list"),
        NoStatus::Gap(gap) | NoStatus::OwnFault(gap) | NoStatus::Mute(gap) => gap,
    };
    Outcome::problem(match (view.node, why) {
        (Some(node), _) => through_talos(node, gap, expected),
        (None, NoStatus::OwnFault(_)) => {
            Problem { severity: Severity::Fail, ..gaps::problem(Protocol::Etcd, gap, expected) }
        }
        (None, NoStatus::Mute(_)) => gaps::etcd(gap, expected).unseen(),
        (None, _) => gaps::etcd(gap, expected),
    })
}

/// Returns the contact of the control plane itself. A machine that is declared off is not reported.
fn contact<'a>(cluster: &Assessment<'_>, node: &'a Node) -> Result<&'a Contact, Outcome> {
    declared_off(cluster, node).map_or_else(|| talos_contact(cluster, node), Err)
}

fn nobody() -> Outcome {
    unseen(Reason::NoAnswer, "an answer of the member", "no member was queried")
}

fn not_running(node: &Node) -> Outcome {
    let observed = service(node, "etcd").map_or_else(|| "not in the machine's list".to_owned(), Service::to_string);
    unseen(Reason::EtcdUnhealthy, "etcd running and healthy", &observed)
}

fn through_talos(node: &Node, gap: &Gap, expected: &str) -> Problem {
    if gap.kind == GapKind::Forbidden { refused(node, gap, expected) } else { gaps::talos(gap, expected) }
}

/// Talos before 1.9.6, and 1.10.0, require os:operator for calls for which later versions accept os:reader.
fn refused(node: &Node, gap: &Gap, expected: &str) -> Problem {
    let asks_for_more = expected != "EtcdMemberList"
        && talos_version(node).is_some_and(|version| version < (1, 9, 6) || version == (1, 10, 0));
    let problem = gaps::talos(gap, expected);
    if asks_for_more { Problem { reason: Reason::RoleTooLowForThisVersion, ..problem } } else { problem }
}

/// Verdict of a check that requires a quorum while none is proven.
fn awaits_quorum() -> Verdict {
    Verdict::whole(no_quorum())
}

fn no_quorum() -> Outcome {
    unseen(Reason::QuorumUnproven, "a quorum", "no quorum is proven")
}

/// Marks a call that needs a quorum as unobserved while there is no quorum, because its failure only repeats that.
fn without_quorum(quorum: &Quorum, outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Problem(problem) if !quorum.proven && problem.waiting_helps => Outcome::problem(problem.unseen()),
        other => other,
    }
}

/// Returns a member's status for judges that run after `etcd.leader`, which already reports why a status is missing.
pub(in crate::checks) fn status_after_leader<'a>(
    cluster: &Assessment<'_>,
    view: &View<'a>,
) -> Result<&'a EtcdStatus, Outcome> {
    status(cluster, view).map_err(as_unseen)
}

/// Calls [`Hint::of_member`] for a member that may have a machine.
fn look(node: Option<&Node>, of_machine: &'static str, of_etcd: &'static str) -> Hint {
    Hint::of_member(node.map(|node| node.address.as_str()), of_machine, of_etcd)
}

/// Parses `memberID:7395922438722461683 alarm:NOSPACE `, with the id in decimal.
fn parse_alarm(error: &str) -> Option<EtcdAlarm> {
    let (member, alarm) = error.trim().strip_prefix("memberID:")?.split_once(" alarm:")?;
    let kind = match alarm.trim() {
        "NOSPACE" => AlarmKind::NoSpace,
        "CORRUPT" => AlarmKind::Corrupt,
        _ => AlarmKind::Other(-1),
    };
    Some(EtcdAlarm { member_id: member.trim().parse().ok()?, kind })
}

/// Formats a size with one decimal place, rounded to nearest, as in `2.0 GiB`; sizes below a KiB are whole bytes.
fn human(bytes: u64) -> String {
    let units = [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let Some((unit, size)) = units.into_iter().find(|(_, size)| bytes >= *size) else {
        return format!("{bytes} bytes");
    };
    let tenths = (u128::from(bytes) * 10 + u128::from(size) / 2) / u128::from(size);
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}
