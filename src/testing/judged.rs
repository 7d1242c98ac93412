//! A check's verdict on a snapshot, in half lines that tests can compare.

pub(crate) use super::fixture::verdict as judge;
use crate::model::{Hint, Outcome, Status, Target};
use crate::snapshot::Snapshot;

pub(crate) const IDS: [&str; 25] = [
    "talos.credentials",
    "talos.endpoints",
    "talos.nodes.reachable",
    "talos.nodes.expected",
    "talos.versions",
    "talos.time",
    "talos.nodes.booted",
    "talos.nodes.ready",
    "talos.nodes.services",
    "talos.nodes.kubelet",
    "talos.nodes.network",
    "talos.nodes.memory",
    "talos.nodes.disk",
    "talos.nodes.diagnostics",
    "etcd.service",
    "etcd.quorum",
    "etcd.leader",
    "etcd.members.consistent",
    "etcd.members.nodes",
    "etcd.learners",
    "etcd.alarms",
    "etcd.space",
    "etcd.lag",
    "etcd.tolerance",
    "etcd.versions",
];

pub(crate) fn status(id: &str, snapshot: &Snapshot) -> Status {
    judge(id, snapshot).status()
}

/// Formats an outcome as `cp-1: fail node-unreachable`, with `, for ever` if waiting is pointless and `, see CHECK` if another check
/// explains it.
pub(crate) fn text(target: &Target, outcome: &Outcome) -> Option<String> {
    let name = &target.name;
    match outcome {
        Outcome::Pass(_) | Outcome::Skip(_) => None,
        Outcome::Blocked(by) => Some(format!("{name}: blocked {by}")),
        Outcome::Problem(problem) => {
            let mut text = format!("{name}: {} {}", outcome.status().name(), problem.reason.code());
            if !problem.waiting_helps {
                text.push_str(", for ever");
            }
            if let Some(check) = problem.explained_by {
                text.push_str(", see ");
                text.push_str(check.name());
            }
            Some(text)
        }
    }
}

/// Returns the problems that a check finds.
pub(crate) fn wrong(id: &str, snapshot: &Snapshot) -> Vec<String> {
    judge(id, snapshot).findings.iter().filter_map(|finding| text(&finding.target, &finding.outcome)).collect()
}

/// Returns the lines that a check shows for targets that pass.
pub(crate) fn lines(id: &str, snapshot: &Snapshot) -> Vec<String> {
    let line = |outcome| match outcome {
        Outcome::Pass(line) => line,
        _ => None,
    };
    judge(id, snapshot).findings.into_iter().filter_map(|finding| line(finding.outcome)).collect()
}

pub(crate) fn observed(id: &str, snapshot: &Snapshot) -> Vec<String> {
    judge(id, snapshot).problems().map(|(_, problem)| problem.observed.clone()).collect()
}

/// Returns the hints of all problems that a check finds.
pub(crate) fn hints(id: &str, snapshot: &Snapshot) -> Vec<Hint> {
    judge(id, snapshot).problems().flat_map(|(_, problem)| problem.hints.clone()).collect()
}

/// Returns the ids of the checks that fail.
pub(crate) fn failing(snapshot: &Snapshot) -> Vec<&'static str> {
    IDS.into_iter().filter(|id| status(id, snapshot) == Status::Fail).collect()
}
