//! Stage 1: checks whether each machine's clock is synchronized and correct.

use std::time::Duration;

use jiff::SignedDuration;

use crate::assess::workloads::{RENEWAL, has_moved, says_ready};
use crate::assess::{Assessment, Identity};
use crate::checks::Check;
use crate::checks::gaps::{self, says_nothing, talos_fact};
use crate::checks::scope::each_node;
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Verdict};
use crate::snapshot::{GapKind, Lease, Leases, Node, TimeStatus};
use crate::text::duration::human;

pub(in crate::checks) const TIME: Check = Check {
    id: CheckId::TalosTime,
    stage: Stage::Connectivity,
    summary: "every machine's clock is synchronized and correct",
    explain: "Reads each machine's report of its clock synchronization. Without a synchronized clock, Talos starts neither \
etcd nor the kubelet. The check itself queries no time server.\n\n\
The kernel's estimate of how far the clock is off is only as good as its time server. So the time that the kubelet \
wrote into its lease is also compared with the time at which the API server returned that lease. A clock that is ahead shows \
at once. One that is behind shows only beyond the age that a lease may have; an old lease is read again. The worse of the two \
results counts. More than 1 second is a warning, more than 30 seconds a failure.\n\n\
A machine with time synchronization disabled is skipped, unless its clock is seen to be wrong. So is a machine with nothing to \
compare its clock with (container mode without Kubernetes).",
    severity: Severity::Fail,
    finds: &[Reason::TimeNotSynced, Reason::ClockSkew],
    facts: &[Fact::TalosNodes, Fact::TimeStatus, Fact::NodeLeases, Fact::KubeNodes],
    judge: time,
};

/// Clock error beyond which leases look stale and certificates soon seem expired.
const HARMFUL: SignedDuration = SignedDuration::from_secs(30);
/// `Date` has whole seconds, rounded down.
const DATE_STEP: SignedDuration = SignedDuration::from_secs(1);
/// Information from a lease about the clock of the kubelet that renewed it.
enum ByLease {
    /// Minimum offset from the API server's clock: positive if ahead, negative if behind.
    AtLeast(SignedDuration),
    /// Less than the harmful offset.
    Small,
    Unknown(String),
}

fn time(cluster: &Assessment<'_>) -> Verdict {
    // Another cluster's leases belong to other machines, possibly with the same names.
    let kubernetes = cluster.any_kubernetes().filter(|_| cluster.identity == Identity::Same);
    let leases = kubernetes.and_then(|kubernetes| kubernetes.node_leases.as_ref().ok());
    let mut resample_after = None;
    let mut verdict = each_node(cluster, |node, verdict| {
        let lease = leases.and_then(|leases| Some((leases, leases.by_name.get(cluster.name_in_kubernetes(node))?)));
        let by_lease = by_lease(lease);
        let outcomes = of_node(cluster, node, &by_lease);
        // A live kubelet renews its lease within this delay, which then shows its maximum age.
        let may_move = matches!(by_lease, ByLease::Unknown(_)) && cluster.object(node).is_some_and(says_ready);
        if may_move && !outcomes.iter().any(Outcome::is_unseen) && lease.is_some_and(is_old) {
            resample_after = Some(RENEWAL);
        }
        for outcome in outcomes {
            verdict.push(node.target(), outcome);
        }
    });
    verdict.resample_after = resample_after;
    verdict
}

fn of_node(cluster: &Assessment<'_>, node: &Node, by_lease: &ByLease) -> Vec<Outcome> {
    let expected = "whether the clock is synchronized";
    let status = match talos_fact(cluster, node, |talos| &talos.time_status, expected) {
        Ok(Some(status)) => *status,
        Ok(None) => return vec![says_nothing(expected, "the machine has no TimeStatus")],
        Err(outcome) => return vec![outcome],
    };
    let by_kernel = by_kernel(node);
    let mut problems = Vec::new();
    if !status.synced && !status.sync_disabled {
        let problem = Problem::fail(Reason::TimeNotSynced, "a synchronized clock", "not synchronized");
        problems.push(problem.hint(Hint::likely("its time servers cannot be reached")));
    }
    problems.extend(wrong(cluster.asked.thresholds.clock_skew, by_kernel, by_lease));
    if !problems.is_empty() {
        return problems.into_iter().map(|problem| Outcome::problem(with_commands(node, problem))).collect();
    }
    vec![match by_lease {
        ByLease::Unknown(why) if by_kernel.is_none() => unknown(node, status, why),
        _ if status.sync_disabled => Outcome::Skip(SYNC_DISABLED.to_owned()),
        _ if uncorrected(node) => Outcome::problem(not_corrected(node)),
        _ => Outcome::Pass(None),
    }]
}

/// Judges the offset by the worse of both estimates. The kernel's estimate is only as good as its time server and is corrected long before
/// it is noticeable, so it never outweighs the lease. `limit` is the smallest offset that is reported.
fn wrong(limit: SignedDuration, by_kernel: Option<SignedDuration>, by_lease: &ByLease) -> Option<Problem> {
    // Unsigned, because the minimum of signed durations has no positive counterpart.
    let noticeable = limit.unsigned_abs();
    let within = if noticeable == Duration::from_secs(1) { "1 second".to_owned() } else { human(noticeable) };
    let kernel = by_kernel.map(|off| {
        let words = match off.is_negative() {
            _ if off.unsigned_abs() <= noticeable => format!("correct to within {within}"),
            true => format!("{} behind", human(off.unsigned_abs())),
            false => format!("{} ahead", human(off.unsigned_abs())),
        };
        (off.unsigned_abs(), format!("{words} (kernel estimate)"))
    });
    let lease = match by_lease {
        ByLease::AtLeast(off) => {
            let direction = if off.is_negative() { "behind" } else { "ahead of" };
            Some((off.unsigned_abs(), format!("at least {} {direction} the API server's", human(off.unsigned_abs()))))
        }
        ByLease::Small | ByLease::Unknown(_) => None,
    };
    let vouched_for = kernel.as_ref().is_some_and(|(off, _)| *off <= noticeable);
    let mut said: Vec<(Duration, String)> = lease.into_iter().chain(kernel).collect();
    said.sort_by_key(|(off, _)| std::cmp::Reverse(*off));
    let off = said.first()?.0;
    if off <= noticeable {
        return None;
    }
    let observed = said.into_iter().map(|(_, words)| words).collect::<Vec<_>>().join("; ");
    let expected = format!("a clock that is correct to within {within}");
    let problem = if off > HARMFUL.unsigned_abs() {
        Problem::fail(Reason::ClockSkew, expected, observed)
    } else {
        Problem::warn(Reason::ClockSkew, expected, observed)
    };
    let other = "the time server that it follows is wrong, or the API server's clock is";
    Some(if vouched_for { problem.hint(Hint::likely(other)) } else { problem })
}

const SYNC_DISABLED: &str = "time synchronization is disabled on this machine";

/// Returns true if the kernel does not report a synchronized clock. Talos also counts a clock as synchronized once it has waited in vain
/// for the configured time.
fn uncorrected(node: &Node) -> bool {
    matches!(&node.talos.adjtime, Ok(Some(adjtime)) if !adjtime.synced)
}

fn not_corrected(node: &Node) -> Problem {
    let observed = "Talos continues as if the clock were synchronized, but the kernel reports that it is not corrected";
    with_commands(node, Problem::warn(Reason::TimeNotSynced, "a synchronized clock", observed))
}

fn unknown(node: &Node, status: TimeStatus, why: &str) -> Outcome {
    if status.sync_disabled {
        return Outcome::Skip(SYNC_DISABLED.to_owned());
    }
    if uncorrected(node) {
        return Outcome::problem(not_corrected(node));
    }
    match &node.talos.adjtime {
        // All other cases last: the version or the role does not provide the offset, or the clock is the host's.
        Err(gap) if !matches!(gap.kind, GapKind::Unsupported | GapKind::Forbidden) => {
            Outcome::problem(gaps::talos(gap, "how far the clock is off"))
        }
        _ => Outcome::Skip(format!("{}: {why}", Reason::NotMeasurable.code())),
    }
}

/// Returns the offset that remains to be corrected, if the clock is synchronized.
fn by_kernel(node: &Node) -> Option<SignedDuration> {
    let adjtime = node.talos.adjtime.as_ref().ok()?.as_ref()?;
    adjtime.synced.then_some(adjtime.offset)
}

/// Offset of the kubelet's clock. One answer shows both clocks: the kubelet wrote the lease before the server read it, and the server wrote
/// `Date` after that. A lease from the future therefore shows a clock that is ahead, no matter how long the answer took. A lease from the
/// past is old, or its clock is behind; only the part of its age that two samples rule out is certain to be the clock's. A lease in a list
/// of several pages may have been read with any page: it is ahead only if it is later than the last page's date, and its age is measured
/// from the first page's.
fn by_lease(lease: Option<(&Leases, &Lease)>) -> ByLease {
    let dated = lease.and_then(|(leases, lease)| Some((leases, leases.date?, lease)));
    let Some((leases, date, lease)) = dated else {
        return ByLease::Unknown(
            "neither its kernel nor a lease in Kubernetes shows how far its clock is off".to_owned(),
        );
    };
    let Some(renewed) = lease.renewed else {
        return ByLease::Unknown("its lease in Kubernetes was never renewed".to_owned());
    };
    let age = date.duration_since(renewed);
    let ahead =
        leases.last_date.map(|last| renewed.duration_since(last) - DATE_STEP).filter(SignedDuration::is_positive);
    let oldest = lease.moved_within.and_then(|within| SignedDuration::try_from(within).ok());
    let behind = oldest.map(|oldest| age - oldest).filter(|behind| *behind > DATE_STEP);
    if let Some(ahead) = ahead {
        ByLease::AtLeast(ahead)
    } else if let Some(behind) = behind {
        ByLease::AtLeast(-behind)
    } else if age <= HARMFUL {
        ByLease::Small
    } else {
        ByLease::Unknown(format!("its lease in Kubernetes is {} old", human(age.unsigned_abs())))
    }
}

/// Returns true if the lease appears older than a renewed lease can be, and no sample has shown a renewal yet.
fn is_old((leases, lease): (&Leases, &Lease)) -> bool {
    let dates = leases.date.zip(lease.renewed);
    dates.is_some_and(|(date, renewed)| date.duration_since(renewed) > HARMFUL && !has_moved(lease))
}

fn with_commands(node: &Node, problem: Problem) -> Problem {
    let address = node.address.as_str();
    problem
        .hint(Hint::run("{talosctl} -n {} get timestatus -o yaml", [address]))
        .hint(Hint::run("{talosctl} -n {} get timeservers -o yaml", [address]))
}
