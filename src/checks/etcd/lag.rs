//! Checks whether each member applies committed entries and responds in time.

use std::time::Duration;

use super::{SETTLE, awaits_quorum, look, overview, status_after_leader};
use crate::assess::Assessment;
use crate::assess::etcd::{Overview, View};
use crate::checks::Check;
use crate::checks::gaps::says_nothing;
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Verdict};
use crate::snapshot::{EtcdStatus, RaftProgress};
use crate::text::duration::human;

pub(in crate::checks) const LAG: Check = Check {
    id: CheckId::EtcdLag,
    stage: Stage::Etcd,
    summary: "every etcd member keeps up with the raft log and answers in time",
    explain: "Compares, for each member, the newest entry of its raft log with the newest entry applied to its database. A \
member that is 1000 entries or more behind is sampled again one second later. It passes if it keeps pace, and fails if it \
makes no progress or falls further behind.\n\n\
Members are queried at slightly different moments, so their positions differ on a busy cluster; that alone is never a failure. \
A learner is always behind until it has caught up, and is checked by `etcd.learners`.\n\n\
A member is slow (`etcd-slow`, a warning) if in two samples it took more than one second longer than Talos on the same machine to \
answer. Distance from this runner does not count, since both answers travel the same way. Members that are queried directly \
(`--etcd-endpoints`) are not measured.\n\n\
Reads through a member that makes no progress are stale or hang. The usual causes are a disk that is too slow, and a member \
that is short of CPU.",
    severity: Severity::Fail,
    finds: &[
        Reason::ConnectionRefused,
        Reason::TimedOut,
        Reason::UnknownCa,
        Reason::NameNotInCertificate,
        Reason::ServerCertificateExpired,
        Reason::Lagging,
        Reason::EtcdSlow,
    ],
    facts: &[Fact::TalosNodes, Fact::Services, Fact::EtcdMembership],
    judge: lag,
};

/// Number of entries by which a member may be behind before it is sampled again.
const MUCH: u64 = 1000;
/// Time by which a member may answer more slowly than Talos itself.
const SLOW: Duration = Duration::from_secs(1);

/// Returns true if only a second sample can settle the result.
fn is_in_doubt(status: &EtcdStatus) -> bool {
    let is_far_behind = behind(status.progress()) >= MUCH;
    is_far_behind || (status.earlier.is_none() && is_slow(status))
}

/// Returns true if the member responds slowly. A member without a leader is excluded: its problem is a different one, and it responds late.
fn is_slow(status: &EtcdStatus) -> bool {
    status.slower > SLOW && status.has_leader()
}

fn lag(cluster: &Assessment<'_>) -> Verdict {
    let Overview { views, quorum, .. } = match overview(cluster) {
        Ok(overview) => overview,
        Err(verdict) => return verdict,
    };
    if !quorum.proven {
        // Without a quorum, no entries are committed, so no member can fall behind.
        return awaits_quorum();
    }
    let mut verdict = Verdict::default();
    for view in views.iter().chain(&cluster.etcd.foreign) {
        let outcome = match status_after_leader(cluster, view) {
            Ok(status) if status.is_learner => {
                Outcome::Skip("a learner is behind until it has caught up (see `etcd.learners`)".to_owned())
            }
            Ok(status) => {
                if is_in_doubt(status) {
                    verdict.resample_after = Some(SETTLE);
                }
                member(view, status)
            }
            Err(outcome) => outcome,
        };
        verdict.push(view.target.clone(), outcome);
    }
    verdict
}

fn behind(progress: RaftProgress) -> u64 {
    progress.index.saturating_sub(progress.applied)
}

fn member(view: &View<'_>, status: &EtcdStatus) -> Outcome {
    let now = status.progress();
    if now.index == 0 || now.applied == 0 {
        // A member that follows a leader has applied at least the entry that made it a member.
        return says_nothing("a member's position in the log", "a status without one");
    }
    if behind(now) < MUCH {
        return if status.earlier.is_some() && is_slow(status) { slow(view, status) } else { Outcome::Pass(None) };
    }
    let expected = format!("fewer than {MUCH} entries to apply, or keeping pace");
    let problem = match status.earlier {
        None => Problem::error(
            Reason::Lagging,
            expected,
            format!("{} entries behind; no time left for a second sample", behind(now)),
        ),
        Some(before) if keeps_pace(before, now) => return Outcome::Pass(None),
        Some(before) => {
            let observed = match now.applied.saturating_sub(before.applied) {
                0 => format!("{} entries behind, and not catching up", behind(now)),
                moved => format!("{} entries behind, {} before {moved} were applied", behind(now), behind(before)),
            };
            Problem::fail(Reason::Lagging, expected, observed)
        }
    };
    let problem = problem.hint(Hint::likely("its disk is too slow, or it is short of CPU"));
    Outcome::problem(problem.hint(show(view)))
}

fn slow(view: &View<'_>, status: &EtcdStatus) -> Outcome {
    let observed = format!("{} longer in both samples", human(status.slower));
    let problem = Problem::warn(Reason::EtcdSlow, "an answer at most 1s later than Talos's", observed);
    let problem = problem.hint(Hint::likely("a disk that is too slow, or a machine that is short of CPU"));
    Outcome::problem(problem.hint(show(view)))
}

fn show(view: &View<'_>) -> Hint {
    look(view.node, "{talosctl} -n {} logs etcd", "{etcdctl} endpoint status")
}

/// Returns true if a member is applying entries, and has reached the log index of the first sample or at least not fallen further behind.
fn keeps_pace(before: RaftProgress, now: RaftProgress) -> bool {
    now.applied > before.applied && (now.applied >= before.index || behind(now) <= behind(before))
}
