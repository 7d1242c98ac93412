//! The nodes, and their numbers, that the user has named.

use std::cmp::Ordering;

use crate::assess::{Assessment, NotJudged, Standing, is_seen_lost};
use crate::model::{About, Kind, Problem, Reason, Role, Target, Verdict};
use crate::snapshot::Node;

/// What differs from what the user said.
pub(super) fn differences(cluster: &Assessment<'_>, verdict: &mut Verdict) {
    asked_for_by_flag(cluster, verdict);
    numbers(cluster, verdict);
}

/// Every source that lists nodes was read: only then is one missing that is not listed.
fn is_listed(cluster: &Assessment<'_>) -> bool {
    cluster.talos().is_none_or(|talos| talos.discovery.is_ok())
        && cluster.any_kubernetes().is_none_or(|kubernetes| kubernetes.nodes.is_ok())
}

/// Each node named by a flag is there, in the role it was named for.
fn asked_for_by_flag(cluster: &Assessment<'_>, verdict: &mut Verdict) {
    let control_planes = cluster.asked.control_plane_nodes.iter().map(|asked| (asked, Role::ControlPlane));
    let workers = cluster.asked.worker_nodes.iter().map(|asked| (asked, Role::Worker));
    for (asked, role) in control_planes.chain(workers) {
        let is_it = |node: &&Node| node.is_called(asked);
        let expected = format!("{} `{asked}`", role_name(role));
        let Some(node) = cluster.nodes().iter().find(is_it) else {
            let problem = Problem::fail(Reason::NodeMissing, expected, "no source knows it");
            verdict.problem(Target::new(Kind::Node, asked.as_str()), problem);
            continue;
        };
        let sources = node.sources;
        let answers = node.talos.contact.is_ok();
        if !answers && !sources.discovery && !sources.kubernetes && !sources.etcd {
            let is_silent = !cluster.asks_talos() || is_seen_lost(node);
            let problem = if is_listed(cluster) && is_silent {
                Problem::fail(Reason::NodeMissing, expected, "it does not answer, and no other source knows it")
            } else {
                Problem::error(Reason::NoAnswer, expected, "it could not be queried, and no other source knows it")
            };
            verdict.problem(node.target(), problem);
        } else if node.role == Role::Unknown {
            let problem = Problem::error(Reason::NoAnswer, expected, "its role is unknown");
            verdict.problem(node.target(), problem);
        } else if node.role != role {
            let problem = Problem::fail(Reason::NodeMissing, expected, format!("it is a {}", role_name(node.role)));
            verdict.problem(node.target(), problem.about(About::Role(role)));
        }
    }
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::ControlPlane => "control plane",
        Role::Worker => "worker",
        Role::Unknown => "node of unknown role",
    }
}

/// `no worker`, `1 worker`, `2 workers`.
fn counted(number: usize, role: Role) -> String {
    match number {
        0 => format!("no {}", role_name(role)),
        1 => format!("1 {}", role_name(role)),
        _ if role == Role::Unknown => format!("{number} nodes of unknown role"),
        _ => format!("{number} {}s", role_name(role)),
    }
}

/// `--expect-control-planes` and `--expect-workers`.
fn numbers(cluster: &Assessment<'_>, verdict: &mut Verdict) {
    let counts = |node: &&Node| {
        match cluster.standing(node) {
            Standing::Judged => true,
            // `--nodes` says whom to look at, and not how many there are.
            Standing::NotJudged(NotJudged::OutOfScope) => {
                let machine = cluster.machine(node);
                !machine.is_guest && !machine.is_stale_discovery_member && !cluster.is_outside_flags(node)
            }
            // Flags are the population of their role: whoever is merely listed beside them fulfils nothing.
            Standing::Guest
            | Standing::NotJudged(NotJudged::Leaving | NotJudged::OutsideFlags | NotJudged::StaleDiscovery) => false,
        }
    };
    let wanted =
        [(cluster.asked.expect_control_planes, Role::ControlPlane), (cluster.asked.expect_workers, Role::Worker)];
    for (expected, role) in wanted {
        let Some(expected) = expected else { continue };
        let of = |role: Role| cluster.nodes().iter().filter(counts).filter(move |node| node.role == role);
        let names: Vec<&str> = of(role).map(|node| node.name.as_str()).collect();
        let reason = match names.len().cmp(&expected) {
            Ordering::Equal => continue,
            Ordering::Less => Reason::NodeMissing,
            Ordering::Greater => Reason::NodeUnexpected,
        };
        let mut observed = format!("{}, {expected} expected", counted(names.len(), role));
        if !names.is_empty() {
            observed = format!("{observed}: {}", names.join(", "));
        }
        let untold = of(Role::Unknown).count();
        let may_be_there = names.len() < expected && (names.len() + untold >= expected || !is_listed(cluster));
        let expected = counted(expected, role);
        let problem = if may_be_there {
            let why =
                if untold > 0 { counted(untold, Role::Unknown) } else { "not every list of nodes was read".to_owned() };
            Problem::error(Reason::NoAnswer, expected, format!("{observed}; {why}"))
        } else {
            Problem::fail(reason, expected, observed)
        };
        let problem = problem.about(About::Role(role));
        verdict.problem(Target::cluster(), problem);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Snapshot;
    use crate::testing::fixture::healthy;

    #[test]
    fn the_expected_numbers_count_machines_that_nodes_leaves_out() {
        let is_met = |change: fn(&mut Snapshot)| {
            let mut snapshot = healthy();
            snapshot.asked.expect_workers = Some(1);
            change(&mut snapshot);
            let mut verdict = Verdict::default();
            numbers(&Assessment::of(&snapshot), &mut verdict);
            verdict.problems().next().is_none()
        };
        assert!(is_met(|_| {}));
        assert!(is_met(|snapshot| snapshot.node_mut("w-1").out_of_scope = true));
        assert!(!is_met(|snapshot| snapshot.node_mut("w-1").leaving = true));
    }
}
