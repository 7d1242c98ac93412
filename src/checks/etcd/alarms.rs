//! Checks whether etcd has raised an alarm. Nothing else shows one: Talos and `/readyz` report a healthy etcd despite
//! an alarm.

use std::collections::BTreeSet;

use super::{defrag, no_quorum, nobody, overview, parse_alarm, space, status, without_quorum};
use crate::assess::Assessment;
use crate::assess::etcd::{NoStatus, Overview, View};
use crate::checks::Check;
use crate::model::{CheckId, Fact, Hint, Kind, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{AlarmKind, EtcdAlarm, EtcdMember, Node};
use crate::text::hex;

pub(in crate::checks) const ALARMS: Check = Check {
    id: CheckId::EtcdAlarms,
    stage: Stage::Etcd,
    summary: "etcd has raised no alarm",
    explain: "Queries every member for the cluster's alarms, and also reads the alarms in each member's status, which works without a quorum. An alarm is shown once, with the member that raised it.\n\n\
NOSPACE: a member's database has reached its quota. etcd then accepts no new data, only deletions, and Kubernetes accepts no changes, while \
Talos and the API server's `/readyz` still report healthy. If less is in use than the size of the file, defragment the members \
one at a time with `talosctl etcd defrag`. If the data itself is that large, delete objects or raise `quota-backend-bytes`. \
Only then disarm the alarm.\n\n\
CORRUPT: a member's data differs from that of the others. Do not disarm this alarm: remove that member, wipe its data and let \
it rejoin.",
    severity: Severity::Fail,
    finds: &[Reason::EtcdUnhealthy, Reason::AlarmNospace, Reason::AlarmCorrupt, Reason::AlarmUnknown],
    facts: &[Fact::TalosNodes, Fact::Services, Fact::EtcdMembership, Fact::EtcdAlarms],
    judge: alarms,
};

fn alarms(cluster: &Assessment<'_>) -> Verdict {
    let Overview { views, members, quorum, .. } = match overview(cluster) {
        Ok(overview) => overview,
        Err(verdict) => return verdict,
    };
    let mut verdict = Verdict::default();
    let raised = raised(views.iter().chain(&cluster.etcd.foreign));
    for view in views.iter().chain(&cluster.etcd.foreign) {
        let errors = view.status.iter().flat_map(|status| &status.errors).filter(|error| parse_alarm(error).is_none());
        // The leader and the quorum have their own checks.
        let odd: Vec<&str> = errors.map(String::as_str).filter(|error| !error.contains("no leader")).collect();
        let outcome = match (super::alarms(cluster, view), status(cluster, view)) {
            _ if !odd.is_empty() => {
                Outcome::problem(Problem::fail(Reason::EtcdUnhealthy, "a status without errors", odd.join("; ")))
            }
            (Err(outcome), _) | (_, Err(outcome)) => without_quorum(quorum, outcome),
            (Ok(_), Ok(_)) if !quorum.proven => no_quorum(),
            (Ok(_), Ok(_)) => Outcome::Pass(None),
        };
        verdict.push(view.target.clone(), outcome);
    }
    let of = |alarm: &EtcdAlarm| views.iter().find(|view| view.id == Some(alarm.member_id));
    let frees_space = |view: &View<'_>| view.status.as_ref().is_ok_and(|status| defrag::frees_space(status));
    let full = raised.iter().filter(|it| it.kind == AlarmKind::NoSpace).filter_map(of);
    let full: Vec<&View<'_>> = full.filter(|view| !has_room(view) && frees_space(view)).collect();
    // Disarming is the last step, once every member has room again. It also disarms CORRUPT; `explain` describes when
    // that is safe.
    let may_disarm = raised.iter().all(|it| it.kind == AlarmKind::NoSpace) && views.iter().all(has_room);
    let disarms = raised.iter().find_map(of).and_then(|view| view.node).filter(|_| may_disarm);
    for alarm in &raised {
        let problem = problem(views, alarm);
        let problem = match of(alarm).filter(|_| alarm.kind == AlarmKind::NoSpace) {
            Some(view) if has_room(view) => left(problem, disarms),
            Some(view) if frees_space(view) => defrag::proposed(problem.hint(Hint::likely(FULL)), view, &full, quorum),
            Some(_) => problem.hint(Hint::likely(FULL)).hint(Hint::likely(
                "all of the database is in use, so defragmentation frees nothing: delete data, or raise `quota-backend-bytes`",
            )),
            None => problem,
        };
        verdict.problem(member_target(views, *members, alarm.member_id), problem);
    }
    verdict
}

/// Returns the alarms that these members report, in their lists or in their statuses.
fn raised<'v>(views: impl Iterator<Item = &'v View<'v>>) -> BTreeSet<EtcdAlarm> {
    let of = |view: &'v View<'v>| {
        let told = view.status.iter().flat_map(|status| &status.errors).filter_map(|error| parse_alarm(error));
        told.chain(view.alarms.iter().copied().flatten().cloned())
    };
    views.flat_map(of).collect()
}

/// Describes the alarms with which etcd accepts no changes. Every member on a machine that answers has to answer as well: one that lags behind
/// does not know the latest alarm.
pub(in crate::checks) fn stops_writes(
    cluster: &Assessment<'_>,
    overview: &Overview<'_>,
) -> Result<Option<String>, Outcome> {
    let views = &overview.views;
    let described = |alarm: &EtcdAlarm| {
        let kind = match alarm.kind {
            AlarmKind::NoSpace => "NOSPACE",
            AlarmKind::Corrupt => "CORRUPT",
            AlarmKind::Other(_) => return None,
        };
        Some(format!("the alarm {kind} ({})", member_target(views, overview.members, alarm.member_id).name))
    };
    let stops: Vec<String> = raised(views.iter()).iter().filter_map(described).collect();
    if !stops.is_empty() {
        return Ok(Some(stops.join(", ")));
    }
    // A member that is down, or whose machine is silent, reports nothing, and the others know its alarm.
    let is_silent = |view: &View<'_>| view.is_down || matches!(view.alarms, Err(NoStatus::Machine));
    let up = || views.iter().filter(|view| !is_silent(view));
    let unread = up().find_map(|view| super::alarms(cluster, view).err());
    match unread.or_else(|| up().find_map(|view| status(cluster, view).err())) {
        Some(outcome) => Err(outcome),
        None if up().next().is_none() => Err(nobody()),
        None => Ok(None),
    }
}

fn has_room(view: &View<'_>) -> bool {
    view.status.as_ref().is_ok_and(|status| space::has_room(view, status))
}

const FULL: &str = "the database has reached its quota; Kubernetes cannot write";

/// Adds hints for an alarm whose cause is gone. Disarming on one machine affects all alarms.
fn left(problem: Problem, disarms: Option<&Node>) -> Problem {
    let problem = problem
        .hint(Hint::likely("the database has room again, but Kubernetes cannot write until the alarm is disarmed"));
    match disarms {
        Some(node) => problem.hint(Hint::remedy("{talosctl} -n {} etcd alarm disarm", [node.address.as_str()])),
        None => problem,
    }
}

fn member_target(views: &[View<'_>], members: Option<&[EtcdMember]>, id: u64) -> Target {
    let listed = members.into_iter().flatten().find(|member| member.id == id && !member.name.is_empty());
    let name = listed.map_or_else(|| hex(id), |member| member.name.clone());
    let target = Target::new(Kind::EtcdMember, name).with_id(hex(id));
    match views.iter().find(|view| view.id == Some(id)).and_then(|view| view.node) {
        Some(node) => target.with_address(node.address.as_str()),
        None => target,
    }
}

fn problem(views: &[View<'_>], alarm: &EtcdAlarm) -> Problem {
    let view = views.iter().find(|view| view.id == Some(alarm.member_id));
    let sizes = view.and_then(|view| Some(format!(", database {}", space::fill(view, view.status.as_ref().ok()?))));
    let sizes = sizes.unwrap_or_default();
    let fail = |reason, name: &str| Problem::fail(reason, "no alarm", format!("{name}{sizes}"));
    match &alarm.kind {
        AlarmKind::NoSpace if view.is_some_and(has_room) => {
            fail(Reason::AlarmNospace, "NOSPACE, still set though there is room again")
        }
        AlarmKind::NoSpace => fail(Reason::AlarmNospace, "NOSPACE"),
        AlarmKind::Corrupt => fail(Reason::AlarmCorrupt, "CORRUPT")
            .hint(Hint::likely("the member's data differs from that of the others; replace the member, do not disarm")),
        AlarmKind::Other(number) => fail(Reason::AlarmUnknown, &format!("alarm of unknown kind ({number})")),
    }
}
