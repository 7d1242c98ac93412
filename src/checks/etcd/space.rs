//! Checks how full each member's database is.

use super::{defrag, human, look, not_running, overview, status_after_leader, through_talos};
use crate::assess::etcd::{Overview, View};
use crate::assess::{Assessment, tells_healthy};
use crate::checks::Check;
use crate::checks::gaps::says_nothing;
use crate::model::{CheckId, Fact, Outcome, Problem, Reason, Severity, Stage, Status, Target, Verdict};
use crate::snapshot::{EtcdStatus, GapKind};

pub(in crate::checks) const SPACE: Check = Check {
    id: CheckId::EtcdSpace,
    stage: Stage::Etcd,
    summary: "no etcd database is near its quota",
    explain: "Compares the size of each member's database with its quota. At 80 % this warns, at 95 % it fails: at 100 % etcd \
raises the alarm NOSPACE and accepts no new data, only deletions, and Kubernetes accepts no changes.\n\n\
The quota is the argument `quota-backend-bytes` in the machine configuration, 2 GiB unless it is set. It is read from \
EtcdSpecs or, with `--etcd-endpoints`, from the member's status (etcd 3.6 and later). The size of the file counts, not how \
much of it is in use.\n\n\
A file of more than 100 MB of which less than half is in use is fragmented, and `talosctl etcd defrag` frees the rest. The \
member does not respond while it is defragmented: defragment one member at a time, the leader last.",
    severity: Severity::Fail,
    finds: &[
        Reason::ConnectionRefused,
        Reason::TimedOut,
        Reason::UnknownCa,
        Reason::NameNotInCertificate,
        Reason::ServerCertificateExpired,
        Reason::SpaceNearlyFull,
        Reason::Fragmented,
    ],
    facts: &[Fact::TalosNodes, Fact::Services, Fact::EtcdMembership, Fact::EtcdSpecs],
    judge: space,
};

/// etcd's default quota, in bytes.
const DEFAULT_QUOTA: u64 = 2 << 30;
/// Minimum file size that is worth the pause of a defragmentation, in bytes.
const WORTH_DEFRAGMENTING: u64 = 100_000_000;

/// Percentage of the quota at which the check fails.
const FAIL_AT: u8 = 95;
/// Percentage of the quota below which defragmentation is not needed before the alarm is disarmed.
const ROOMY: u8 = 80;

enum Quota {
    Bytes(u64),
    /// The quota is disabled.
    None,
}

fn space(cluster: &Assessment<'_>) -> Verdict {
    let Overview { views, quorum, .. } = match overview(cluster) {
        Ok(overview) => overview,
        Err(verdict) => return verdict,
    };
    let mut verdict = Verdict::default();
    let sparse: Vec<&View<'_>> =
        views.iter().filter(|view| view.status.as_ref().is_ok_and(|it| is_sparse(it))).collect();
    // Size and quota, in bytes.
    let mut fullest: Option<(u64, u64)> = None;
    for view in views.iter().chain(&cluster.etcd.foreign) {
        let status = match status_after_leader(cluster, view) {
            Ok(status) => status,
            Err(outcome) => {
                verdict.push(view.target.clone(), outcome);
                continue;
            }
        };
        if status.db_size == 0 {
            let outcome = says_nothing("the size of the database", "a status without a size");
            verdict.push(view.target.clone(), outcome);
            continue;
        }
        let outcome = match quota(view, status) {
            Ok(quota) => {
                if let Quota::Bytes(quota) = quota {
                    fullest = fullest.max(Some((status.db_size, quota)));
                }
                filled(cluster, view, status, &quota)
            }
            Err(outcome) => outcome,
        };
        verdict.push(view.target.clone(), outcome);
        if is_sparse(status) {
            let problem = defrag::proposed(fragmented(status), view, &sparse, quorum);
            verdict.problem(view.target.clone(), problem);
        }
    }
    if let Some((size, quota)) = fullest.filter(|_| verdict.status() == Status::Pass) {
        verdict.pass(Target::cluster(), format!("etcd database: {} of {}", human(size), human(quota)));
    }
    verdict
}

fn quota(view: &View<'_>, status: &EtcdStatus) -> Result<Quota, Outcome> {
    if let Some(quota) = known_quota(view, status) {
        return Ok(quota);
    }
    let Some(node) = view.node else {
        return Err(Outcome::Skip("this etcd does not report its quota (etcd 3.6 and later do)".to_owned()));
    };
    let expected = "etcd's quota (EtcdSpecs)";
    Err(match &node.talos.etcd_spec {
        Ok(_) => says_nothing(expected, "etcd runs, but Talos has no EtcdSpecs"),
        Err(gap) if gap.kind != GapKind::Forbidden && !tells_healthy(node, "etcd") => not_running(node),
        Err(gap) => Outcome::problem(through_talos(node, gap, expected)),
    })
}

/// Returns the quota: from the arguments with which Talos starts the member, or from the member's own status without
/// Talos.
fn known_quota(view: &View<'_>, status: &EtcdStatus) -> Option<Quota> {
    let Some(node) = view.node else { return status.quota.map(Quota::Bytes) };
    let spec = node.talos.etcd_spec.as_ref().ok()?.as_ref()?;
    Some(match spec.quota {
        None | Some(0) => Quota::Bytes(DEFAULT_QUOTA),
        Some(quota) => u64::try_from(quota).map_or(Quota::None, Quota::Bytes),
    })
}

/// Returns true if the database is known to be far from its quota.
pub(super) fn has_room(view: &View<'_>, status: &EtcdStatus) -> bool {
    match known_quota(view, status) {
        Some(Quota::Bytes(quota)) => status.db_size > 0 && !has_reached(ROOMY, status, quota),
        Some(Quota::None) | None => false,
    }
}

fn has_reached(percent: u8, status: &EtcdStatus, quota: u64) -> bool {
    u128::from(status.db_size) * 100 >= u128::from(quota) * u128::from(percent)
}

/// Describes how full the database is, as far as known: `2.0 GiB of 2.0 GiB, 1.9 GiB in use`.
pub(super) fn fill(view: &View<'_>, status: &EtcdStatus) -> String {
    let of = match known_quota(view, status) {
        Some(Quota::Bytes(quota)) => format!(" of {}", human(quota)),
        Some(Quota::None) | None => String::new(),
    };
    format!("{}{of}, {} in use", human(status.db_size), human(status.db_size_in_use))
}

fn filled(cluster: &Assessment<'_>, view: &View<'_>, status: &EtcdStatus, quota: &Quota) -> Outcome {
    let warns_at = cluster.asked.thresholds.etcd_space;
    let Quota::Bytes(quota) = *quota else { return Outcome::Pass(None) };
    let observed = fill(view, status);
    let expected = format!("less than {warns_at} % of {}", human(quota));
    let problem = if has_reached(FAIL_AT, status, quota) {
        Problem::fail(Reason::SpaceNearlyFull, expected, observed)
    } else if has_reached(warns_at, status, quota) {
        Problem::warn(Reason::SpaceNearlyFull, expected, observed)
    } else {
        return Outcome::Pass(None);
    };
    Outcome::problem(problem.hint(look(view.node, "{talosctl} -n {} etcd status", "{etcdctl} endpoint status")))
}

/// Returns true if a large file is mostly unused. A member that does not report its size in use (etcd before 3.4) is
/// not known to be fragmented.
fn is_sparse(status: &EtcdStatus) -> bool {
    let (size, used) = (status.db_size, status.db_size_in_use);
    used > 0 && size > WORTH_DEFRAGMENTING && used < size.div_ceil(2)
}

fn fragmented(status: &EtcdStatus) -> Problem {
    let observed = format!("{} of {} in use", human(status.db_size_in_use), human(status.db_size));
    Problem::warn(Reason::Fragmented, "at least half of the file in use", observed)
}
