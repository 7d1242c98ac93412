//! The nodes, and their numbers, that the user has specified.

use std::cmp::Ordering;
use std::net::IpAddr;

use crate::assess::{Assessment, NotJudged, Standing, is_seen_lost};
use crate::model::{About, Hint, Kind, Problem, Reason, Role, Target, Verdict};
use crate::snapshot::Node;
use crate::text::some;

/// Maximum number of known names that are shown, one of which the user probably meant.
const NAMES: usize = 8;

/// Reports differences from the user's specification.
pub(super) fn differences(cluster: &Assessment<'_>, verdict: &mut Verdict) {
    asked_for_by_flag(cluster, verdict);
    numbers(cluster, verdict);
}

/// Returns true if every source that lists nodes was read. Only then can an unlisted node be considered missing.
fn is_listed(cluster: &Assessment<'_>) -> bool {
    cluster.talos().is_none_or(|talos| talos.discovery.is_ok())
        && cluster.any_kubernetes().is_none_or(|kubernetes| kubernetes.nodes.is_ok())
}

/// Returns true if every list of nodes was read and at least one includes workers, so that an unlisted node does not exist.
fn is_population_known(cluster: &Assessment<'_>) -> bool {
    let is_in_kubernetes = || cluster.is_trusted() && cluster.nodes().iter().any(|node| node.sources.kubernetes);
    is_listed(cluster) && (cluster.discovery_is_on() || is_in_kubernetes())
}

/// Returns true if only `--nodes` names this machine, and by name. At an address, there may be a machine that never joined.
pub(super) fn is_unlisted(cluster: &Assessment<'_>, node: &Node) -> bool {
    !node.sources.list_it() && cluster.asked.names(node) && node.name.parse::<IpAddr>().is_err()
}

/// Reports an option that names a node that does not exist, as far as known.
pub(super) fn unknown(cluster: &Assessment<'_>, name: &str) -> Problem {
    let listed = cluster.nodes().iter().filter(|node| !is_unlisted(cluster, node));
    let known: Vec<&str> = listed.map(|node| node.name.as_str()).collect();
    let known = some(known.into_iter(), NAMES);
    let expected = format!("a node called {name}");
    let problem = if is_population_known(cluster) {
        Problem::fail(Reason::NodeUnknown, expected, format!("no node {name}; known: {known}"))
    } else {
        let observed =
            format!("{name} is in none of the lists that were read, and not all of them could be; known: {known}");
        Problem::error(Reason::NodeUnknown, expected, observed)
    };
    problem.hint(Hint::run("{kubectl} get nodes -o wide", []))
}

/// Reports an option that names a machine which no check judges because of another option.
pub(super) fn contradicted(option: &str, why: &str) -> Problem {
    let observed = format!("`{option}` names it: {why}");
    Problem::fail(Reason::NodesContradict, "a machine that no other option leaves out", observed).permanent()
}

/// Reports a machine that the node flags leave out. It is not judged, so `--nodes` cannot select it.
pub(super) fn left_out(cluster: &Assessment<'_>, node: &Node) -> Problem {
    if cluster.asked.names(node) {
        let expected = "a node that `--control-plane-nodes` or `--worker-nodes` names, too";
        let observed = "`--nodes` names it, and they leave it out";
        return Problem::fail(Reason::NodesContradict, expected, observed).permanent();
    }
    let expected = "only the nodes named by `--control-plane-nodes` and `--worker-nodes`";
    Problem::warn(Reason::NodeUnexpected, expected, "not among `--control-plane-nodes` and `--worker-nodes`")
}

/// Checks that each node named by a flag exists and has the role it was named for.
fn asked_for_by_flag(cluster: &Assessment<'_>, verdict: &mut Verdict) {
    let control_planes = cluster.asked.control_plane_nodes.iter().map(|asked| (asked, Role::ControlPlane));
    let workers = cluster.asked.worker_nodes.iter().map(|asked| (asked, Role::Worker));
    for (asked, role) in control_planes.chain(workers) {
        let is_it = |node: &&Node| node.is_called(asked);
        let expected = format!("{} `{asked}`", role_name(role));
        let Some(node) = cluster.nodes().iter().find(is_it) else {
            let problem = missing(expected, "no source knows it");
            verdict.problem(Target::new(Kind::Node, asked.as_str()), problem);
            continue;
        };
        let sources = node.sources;
        let answers = node.talos.contact.is_ok();
        if !answers && !sources.discovery && !sources.kubernetes && !sources.etcd {
            let is_silent = !cluster.asks_talos() || is_seen_lost(node);
            let problem = if is_listed(cluster) && is_silent {
                missing(expected, "it does not answer, and no other source knows it")
            } else {
                Problem::error(Reason::NoAnswer, expected, "it could not be queried, and no other source knows it")
            };
            verdict.problem(node.target(), problem);
        } else if node.role == Role::Unknown {
            let problem = Problem::error(Reason::NoAnswer, expected, "its role is unknown");
            verdict.problem(node.target(), problem);
        } else if node.role != role {
            let problem = missing(expected, format!("it is a {}", role_name(node.role)));
            verdict.problem(node.target(), problem.about(About::Role(role)));
        }
    }
}

fn missing(expected: String, observed: impl Into<String>) -> Problem {
    Problem::fail(Reason::NodeMissing, expected, observed).hint(Hint::run("{kubectl} get nodes -o wide", []))
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::ControlPlane => "control plane",
        Role::Worker => "worker",
        Role::Unknown => "node of unknown role",
    }
}

/// Formats `no worker`, `1 worker`, `2 workers`.
fn counted(number: usize, role: Role) -> String {
    match number {
        0 => format!("no {}", role_name(role)),
        1 => format!("1 {}", role_name(role)),
        _ if role == Role::Unknown => format!("{number} nodes of unknown role"),
        _ => format!("{number} {}s", role_name(role)),
    }
}

/// Checks `--expect-control-planes` and `--expect-workers`.
fn numbers(cluster: &Assessment<'_>, verdict: &mut Verdict) {
    let counts = |node: &&Node| {
        match cluster.standing(node) {
            // A machine that is declared off still belongs to the cluster.
            Standing::Judged | Standing::NotJudged(NotJudged::DeclaredOff) => true,
            // `--nodes` restricts which machines are judged, not how many there are.
            Standing::NotJudged(NotJudged::OutOfScope) => {
                let machine = cluster.machine(node);
                !machine.is_guest && !machine.is_stale_discovery_member && !cluster.is_outside_flags(node)
            }
            // Flags define the population of their role; machines that are merely listed do not count.
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
        // A worker that is declared off is expected, even if no list contains it any more.
        let forgotten = if role == Role::Worker { cluster.forgotten_declarations() } else { 0 };
        if names.len() < expected && names.len() + forgotten >= expected {
            continue;
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
    use crate::checks::find;
    use crate::engine::own_verdict;
    use crate::model::Severity;
    use crate::snapshot::{Gap, GapKind, Snapshot, Sources};
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

    /// The cluster with a machine that only `--nodes` names.
    fn asked_for(name: &str) -> Snapshot {
        let mut snapshot = healthy();
        let mut node = snapshot.node("w-1").unwrap().clone();
        name.clone_into(&mut node.name);
        (node.address, node.addresses, node.hostname) = (name.to_owned(), vec![name.to_owned()], None);
        node.sources = Sources::default();
        node.talos.contact = Err(Gap::new(GapKind::NodeUnreachable, "name resolver error: produced zero addresses"));
        snapshot.asked.nodes = vec![name.to_owned()];
        snapshot.nodes.iter_mut().for_each(|node| node.out_of_scope = true);
        snapshot.nodes.push(node);
        snapshot
    }

    #[test]
    fn a_name_that_every_list_lacks_is_a_mistake() {
        let wrong = |snapshot: &Snapshot| {
            let cluster = Assessment::of(snapshot);
            let verdict = own_verdict(find("talos.nodes.reachable").unwrap(), &cluster);
            let problems = verdict.problems().map(|(_, problem)| (problem.reason, problem.severity));
            problems.collect::<Vec<_>>()
        };
        let unknown = |severity| [(Reason::NodeUnknown, severity)];
        assert_eq!(wrong(&asked_for("cp-9")), unknown(Severity::Fail));
        // At an address, there may be a machine that never joined.
        assert_eq!(wrong(&asked_for("10.0.0.99")), [(Reason::NodeUnreachable, Severity::Fail)]);
        let with = |change: fn(&mut Snapshot)| {
            let mut snapshot = asked_for("cp-9");
            change(&mut snapshot);
            wrong(&snapshot)
        };
        assert_eq!(
            with(|it| it.talos_mut().discovery = Err(Gap::new(GapKind::TimedOut, "test"))),
            unknown(Severity::Error)
        );
        assert_eq!(with(|it| it.kube().nodes = Err(Gap::new(GapKind::TimedOut, "test"))), unknown(Severity::Error));
        let off = with(|it| {
            it.talos_mut().discovery = Ok(0);
            it.kubernetes = None;
            it.nodes.iter_mut().for_each(|node| node.sources.kubernetes = false);
        });
        assert_eq!(off, unknown(Severity::Error), "etcd knows no workers");
        // The name resolves, so it is known to DNS.
        let silent =
            with(|it| it.node_mut("cp-9").talos.contact = Err(Gap::new(GapKind::NodeUnreachable, "no route to host")));
        assert_eq!(silent, [(Reason::NodeUnreachable, Severity::Fail)]);
    }

    #[test]
    fn nodes_cannot_ask_for_what_the_node_flags_leave_out() {
        let mut snapshot = healthy();
        snapshot.asked.control_plane_nodes = vec!["cp-1".to_owned(), "cp-3".to_owned()];
        for node in &mut snapshot.nodes {
            node.sources.flags = ["cp-1", "cp-3"].contains(&node.name.as_str());
        }
        let wrong = |snapshot: &Snapshot| {
            let verdict = own_verdict(find("talos.nodes.expected").unwrap(), &Assessment::of(snapshot));
            let problems = verdict.problems().map(|(target, problem)| (target.name.clone(), problem.reason));
            problems.collect::<Vec<_>>()
        };
        assert_eq!(wrong(&snapshot), [("cp-2".to_owned(), Reason::NodeUnexpected)]);
        snapshot.asked.nodes = vec!["cp-2".to_owned()];
        assert_eq!(wrong(&snapshot), [("cp-2".to_owned(), Reason::NodesContradict)]);
    }
}
