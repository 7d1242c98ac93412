//! Has etcd raised an alarm? Nothing else shows one: with it, Talos and `/readyz` say that all is well.

use std::collections::BTreeSet;

use super::super::hex;
use super::super::{Check, Fact, Hint, Kind, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use super::{View, defrag, look, member_list, without_quorum};
use crate::snapshot::{AlarmKind, EtcdAlarm, EtcdStatus, Snapshot};

pub(in crate::checks) const ALARMS: Check = Check {
    id: "etcd.alarms",
    stage: Stage::Etcd,
    summary: "etcd has raised no alarm",
    explain: "Asks every member for the alarms of the cluster, and reads those that a member's status carries, which also works \
without a quorum. An alarm is shown once, with the member that raised it.\n\n\
NOSPACE: a member's database has reached its quota. etcd refuses every write from then on, so that Kubernetes stands still, \
while Talos and the API server's `/readyz` keep saying that all is well. Defragment one member after the other with \
`talosctl etcd defrag`, raise `quota-backend-bytes` if the data itself is that large, and only then disarm the alarm.\n\n\
CORRUPT: a member's data differs from that of the others. Do not disarm it: remove that member, wipe its data and let it join \
anew.",
    severity: Severity::Fail,
    requires: &["etcd.quorum"],
    facts: &[Fact::TalosNodes, Fact::Services, Fact::EtcdMembership, Fact::EtcdAlarms],
    judge: alarms,
};

fn alarms(snapshot: &Snapshot) -> Verdict {
    let (views, quorum) = match look(snapshot) {
        Ok(seen) => seen,
        Err(verdict) => return verdict,
    };
    let mut verdict = Verdict::default();
    let mut raised = BTreeSet::new();
    for view in &views {
        let mut odd = Vec::new();
        for error in view.status.iter().flat_map(|status| &status.errors) {
            match parse(error) {
                Some(alarm) => raised.extend([alarm]),
                // The leader and the quorum have checks of their own.
                None if error.contains("no leader") => {}
                None => odd.push(error.as_str()),
            }
        }
        raised.extend(view.alarms.iter().copied().flatten().cloned());
        let outcome = match (&view.alarms, &view.status) {
            _ if !odd.is_empty() => {
                Outcome::Problem(Problem::fail(Reason::EtcdUnhealthy, "a status without errors", odd.join("; ")))
            }
            (Err(outcome), _) | (_, Err(outcome)) => without_quorum(&quorum, outcome.clone()),
            (Ok(_), Ok(_)) if !quorum.proven => Outcome::Blocked("etcd.quorum"),
            (Ok(_), Ok(_)) => Outcome::Pass(None),
        };
        verdict.push(view.target.clone(), outcome);
    }
    let of = |alarm: &EtcdAlarm| views.iter().find(|view| view.id == Some(alarm.member_id));
    let full: Vec<&View<'_>> = raised.iter().filter(|it| it.kind == AlarmKind::NoSpace).filter_map(of).collect();
    for alarm in &raised {
        let problem = problem(&views, alarm);
        // To disarm is the last step, when every member has room again, and it disarms CORRUPT, too: `explain` says when.
        let problem = match of(alarm).filter(|_| alarm.kind == AlarmKind::NoSpace) {
            Some(view) => defrag::proposed(problem, view, &full, &quorum),
            None => problem,
        };
        verdict.problem(member_target(&views, alarm.member_id), problem);
    }
    verdict
}

/// `memberID:7395922438722461683 alarm:NOSPACE `, the id in decimal.
fn parse(error: &str) -> Option<EtcdAlarm> {
    let (member, alarm) = error.trim().strip_prefix("memberID:")?.split_once(" alarm:")?;
    let kind = match alarm.trim() {
        "NOSPACE" => AlarmKind::NoSpace,
        "CORRUPT" => AlarmKind::Corrupt,
        _ => AlarmKind::Other(-1),
    };
    Some(EtcdAlarm { member_id: member.trim().parse().ok()?, kind })
}

/// The alarms that a member's status carries.
pub(super) fn raised_in(status: &EtcdStatus) -> impl Iterator<Item = EtcdAlarm> {
    status.errors.iter().filter_map(|error| parse(error))
}

fn member_target(views: &[View<'_>], id: u64) -> Target {
    let listed = member_list(views).into_iter().flatten().find(|member| member.id == id && !member.name.is_empty());
    let name = listed.map_or_else(|| hex(id), |member| member.name.clone());
    let target = Target::new(Kind::EtcdMember, name).with_id(hex(id));
    match views.iter().find(|view| view.id == Some(id)).and_then(|view| view.node) {
        Some(node) => target.with_address(node.address.as_str()),
        None => target,
    }
}

/// `2.0 GiB`: to one place, rounded to nearest, and whole below a KiB.
pub(super) fn human(bytes: u64) -> String {
    let units = [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let Some((unit, size)) = units.into_iter().find(|(_, size)| bytes >= *size) else {
        return format!("{bytes} bytes");
    };
    let tenths = (u128::from(bytes) * 10 + u128::from(size) / 2) / u128::from(size);
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

fn problem(views: &[View<'_>], alarm: &EtcdAlarm) -> Problem {
    let sizes = views
        .iter()
        .filter_map(|view| view.status.as_ref().ok())
        .find(|status| status.member_id == alarm.member_id)
        .map_or_else(String::new, |status| {
            format!(", database {}, {} in use", human(status.db_size), human(status.db_size_in_use))
        });
    let fail = |reason, name: &str| Problem::fail(reason, "no alarm", format!("{name}{sizes}"));
    match &alarm.kind {
        AlarmKind::NoSpace => fail(Reason::AlarmNospace, "NOSPACE")
            .hint(Hint::likely("the database has reached its quota; Kubernetes cannot write")),
        AlarmKind::Corrupt => fail(Reason::AlarmCorrupt, "CORRUPT")
            .hint(Hint::likely("the member's data differs from that of the others; replace the member, do not disarm")),
        AlarmKind::Other(number) => fail(Reason::AlarmUnknown, &format!("alarm of unknown kind ({number})")),
    }
}
