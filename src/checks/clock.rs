//! Stage 1: is each machine's clock synchronised, and right?

use jiff::SignedDuration;

use super::common::{each_node, gap_problem, says_nothing, talos_fact};
use super::{Check, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Target, Verdict, identity};
use crate::duration::human;
use crate::snapshot::{GapKind, Leases, Node, Snapshot, TimeStatus};

pub(super) const TIME: Check = Check {
    id: "talos.time",
    stage: Stage::Connectivity,
    summary: "every machine's clock is synchronised and right",
    explain: "Reads what each machine says of the synchronisation of its clock. Without it, Talos starts neither etcd nor the \
kubelet. No machine is made to ask a time server.\n\n\
How far the clock is off is told by the kernel. Where it does not tell, the time that the kubelet wrote into its lease is \
compared with the time at which the API server sent that lease: more than a second ahead can be shown at once; being behind \
only when it exceeds the age that the lease may have. More than 1 second is a warning, more than 30 seconds a failure.\n\n\
A machine whose synchronisation is switched off is passed over, unless its clock is seen to be wrong; so is one where nothing \
tells the difference (container mode without Kubernetes).",
    severity: Severity::Fail,
    requires: &["talos.nodes.reachable"],
    facts: &[Fact::TalosNodes, Fact::TimeStatus, Fact::NodeLeases, Fact::KubeNodes],
    judge: time,
};

/// Beyond this, etcd complains.
const NOTICEABLE: SignedDuration = SignedDuration::from_secs(1);
/// Beyond this, leases look stale and certificates soon expired.
const HARMFUL: SignedDuration = SignedDuration::from_secs(30);
/// `Date` has whole seconds, rounded down.
const DATE_STEP: SignedDuration = SignedDuration::from_secs(1);
/// A lease that has moved between two samples was renewed within this time.
const MOVED_WITHIN: SignedDuration = SignedDuration::from_secs(40);

/// How far a clock is off.
enum Skew {
    /// So far, ahead of (positive) or behind the right time.
    Told(SignedDuration),
    /// At least so far from the API server's clock, the same way.
    AtLeast(SignedDuration),
    /// Less than what is harmful.
    Small,
    Unknown(String),
}

fn time(snapshot: &Snapshot) -> Verdict {
    // Another cluster's leases are about other machines of perhaps the same names.
    let leases = snapshot.kubernetes.as_ref().and_then(|kubernetes| kubernetes.node_leases.as_ref().ok());
    let leases = leases.filter(|_| identity::is_proven(snapshot));
    each_node(snapshot, |node, verdict| verdict.push(Target::node(node), of_node(snapshot, node, leases)))
}

fn of_node(snapshot: &Snapshot, node: &Node, leases: Option<&Leases>) -> Outcome {
    let expected = "whether the clock is synchronised";
    let status = match talos_fact(snapshot, node, |talos| &talos.time_status, expected) {
        Ok(Some(status)) => *status,
        Ok(None) => return says_nothing(expected, "the machine has no TimeStatus"),
        Err(outcome) => return outcome,
    };
    if !status.synced && !status.sync_disabled {
        let problem = Problem::fail(Reason::TimeNotSynced, "a synchronised clock", "not synchronised");
        return Outcome::Problem(with_commands(node, problem.hint(Hint::likely("its time servers cannot be reached"))));
    }
    match skew(node, leases) {
        Skew::Told(off) if off.abs() > NOTICEABLE => {
            let direction = if off.is_negative() { "behind" } else { "ahead" };
            let observed = format!("{} {direction}, says its kernel", human(off.unsigned_abs()));
            wrong(node, off, observed)
        }
        Skew::AtLeast(off) if off.abs() > NOTICEABLE => {
            let direction = if off.is_negative() { "behind" } else { "ahead of" };
            let observed = format!("at least {} {direction} the API server's", human(off.unsigned_abs()));
            wrong(node, off, observed)
        }
        Skew::Unknown(why) => unknown(node, status, &why),
        _ if status.sync_disabled => Outcome::Skip(SYNC_DISABLED.to_owned()),
        _ if uncorrected(node) => Outcome::Problem(not_corrected(node)),
        _ => Outcome::Pass(None),
    }
}

const SYNC_DISABLED: &str = "time synchronisation is switched off on this machine";

/// Talos counts as synchronised, too, what has waited in vain for as long as the configuration allows.
fn uncorrected(node: &Node) -> bool {
    matches!(&node.talos.adjtime, Ok(Some(adjtime)) if !adjtime.synced)
}

fn not_corrected(node: &Node) -> Problem {
    let observed = "Talos goes on as if it were synchronised, and the kernel says that nobody corrects it";
    with_commands(node, Problem::warn(Reason::TimeNotSynced, "a synchronised clock", observed))
}

fn unknown(node: &Node, status: TimeStatus, why: &str) -> Outcome {
    if status.sync_disabled {
        return Outcome::Skip(SYNC_DISABLED.to_owned());
    }
    if uncorrected(node) {
        return Outcome::Problem(not_corrected(node));
    }
    match &node.talos.adjtime {
        // Neither the version nor the role tells it, or it is the host's: that stays so.
        Err(gap) if !matches!(gap.kind, GapKind::Unsupported | GapKind::Forbidden) => {
            Outcome::Problem(gap_problem(gap, "how far the clock is off"))
        }
        _ => Outcome::Skip(format!("{}: {why}", Reason::NotMeasurable.code())),
    }
}

fn skew(node: &Node, leases: Option<&Leases>) -> Skew {
    match &node.talos.adjtime {
        Ok(Some(adjtime)) if adjtime.synced => Skew::Told(adjtime.offset),
        _ => by_lease(node, leases),
    }
}

/// Both clocks are in one answer: the kubelet wrote the lease before the server read it, and the server wrote `Date` after that.
/// So a lease from the future shows a clock that is ahead, whatever time the answer took. A lease from the past is old, or its
/// clock is behind; only as far as it is older than it can be, the clock must be.
fn by_lease(node: &Node, leases: Option<&Leases>) -> Skew {
    let lease = leases.and_then(|leases| Some((leases.date?, leases.by_name.get(&node.name)?)));
    let Some((date, lease)) = lease else {
        return Skew::Unknown("neither its kernel nor a lease in Kubernetes tells how far its clock is off".to_owned());
    };
    let Some(renewed) = lease.renewed else {
        return Skew::Unknown("its lease in Kubernetes was never renewed".to_owned());
    };
    let age = date.duration_since(renewed);
    let ahead = -age - DATE_STEP;
    let behind = age - MOVED_WITHIN;
    if ahead.is_positive() {
        Skew::AtLeast(ahead)
    } else if age <= HARMFUL {
        Skew::Small
    } else if lease.moved && behind > NOTICEABLE {
        Skew::AtLeast(-behind)
    } else {
        Skew::Unknown(format!("its lease in Kubernetes is {} old", human(age.unsigned_abs())))
    }
}

fn wrong(node: &Node, off: SignedDuration, observed: String) -> Outcome {
    let expected = "a clock that is right to a second";
    let problem = if off.abs() > HARMFUL {
        Problem::fail(Reason::ClockSkew, expected, observed)
    } else {
        Problem::warn(Reason::ClockSkew, expected, observed)
    };
    Outcome::Problem(with_commands(node, problem))
}

fn with_commands(node: &Node, problem: Problem) -> Problem {
    let address = node.address.as_str();
    problem
        .hint(Hint::run("{talosctl} -n {} get timestatus -o yaml", [address]))
        .hint(Hint::run("{talosctl} -n {} get timeservers -o yaml", [address]))
}
