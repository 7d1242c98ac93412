//! Judges of Talos and etcd over the healthy fixture with one thing broken.

mod boots;
mod clock;
mod common;
mod connectivity;
mod etcd;
mod etcd_lists;
mod etcd_members;
mod etcd_service;
mod etcd_votes;
mod gaps;
mod machine;
mod readiness;
mod server;
mod ways;

use super::{Hint, Outcome, Status, Target, Verdict, find};
use crate::snapshot::Snapshot;

const IDS: [&str; 25] = [
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

fn judge(id: &str, snapshot: &Snapshot) -> Verdict {
    (find(id).unwrap().judge)(snapshot)
}

fn status(id: &str, snapshot: &Snapshot) -> Status {
    judge(id, snapshot).status()
}

/// `cp-1: fail node-unreachable`, with `, for ever` if waiting is pointless and `, see CHECK` if another check explains it.
fn text(target: &Target, outcome: &Outcome) -> Option<String> {
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
                text.push_str(check);
            }
            Some(text)
        }
    }
}

/// What a check finds wrong.
fn wrong(id: &str, snapshot: &Snapshot) -> Vec<String> {
    judge(id, snapshot).findings.iter().filter_map(|finding| text(&finding.target, &finding.outcome)).collect()
}

/// The lines that a check shows for what passes.
fn lines(id: &str, snapshot: &Snapshot) -> Vec<String> {
    let line = |outcome| match outcome {
        Outcome::Pass(line) => line,
        _ => None,
    };
    judge(id, snapshot).findings.into_iter().filter_map(|finding| line(finding.outcome)).collect()
}

fn observed(id: &str, snapshot: &Snapshot) -> Vec<String> {
    judge(id, snapshot).problems().map(|(_, problem)| problem.observed.clone()).collect()
}

/// What a check proposes, over all that it finds wrong.
fn hints(id: &str, snapshot: &Snapshot) -> Vec<Hint> {
    judge(id, snapshot).problems().flat_map(|(_, problem)| problem.hints.clone()).collect()
}

/// Ids of the checks that fail outright.
fn failing(snapshot: &Snapshot) -> Vec<&'static str> {
    IDS.into_iter().filter(|id| status(id, snapshot) == Status::Fail).collect()
}
