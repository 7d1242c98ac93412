//! Applies `--max-unready-workers` to all checks of a round. A worker counts once, regardless of how many checks report it.

use std::collections::BTreeSet;

use super::Check;
use crate::assess::Assessment;
use crate::model::{About, CheckId, Finding, Kind, Outcome, Problem, Reason, Role, Severity, Stage, Target, Verdict};
use crate::snapshot::{Allowance, Node};

/// Turns problems of workers that are allowed to be missing into warnings that name them, and reports if more are missing. Control planes
/// are never allowed to be missing, and undetermined findings do not count as missing.
pub(crate) fn apply(cluster: &Assessment<'_>, verdicts: &mut [(&'static Check, Verdict)]) {
    let hosts = cluster.hosts_of_mirrors("kube-apiserver");
    let is_worker = |node: &Node| node.role == Role::Worker && !hosts.contains(node.name.as_str());
    // Workers that no check judges neither count as missing nor raise the allowance.
    let is_one = |node: &&Node| is_worker(node) && cluster.standing(node).is_judged();
    let workers = cluster.nodes().iter().filter(is_one);
    let workers: BTreeSet<&str> = workers.map(|node| node.name.as_str()).collect();
    let allowed = match cluster.asked.max_unready_workers {
        Allowance::None => return,
        Allowance::Count(count) => count,
        Allowance::Percent(percent) => workers.len() * usize::from(percent) / 100,
    };
    let of_health = || verdicts.iter().filter(|(check, _)| is_of_health(check));
    let missing: BTreeSet<String> =
        of_health().flat_map(|(_, verdict)| failing(verdict, &workers)).map(str::to_owned).collect();
    if missing.len() > allowed {
        too_many(verdicts, &workers, &missing, allowed);
        return;
    }
    for (check, verdict) in verdicts {
        let is_missing = |it: &&mut Finding| host(&it.target).is_some_and(|host| missing.contains(host));
        for finding in verdict.findings.iter_mut().filter(is_missing) {
            relax(check, finding);
        }
    }
}

/// Returns the machine that the target is, or the one that a static pod cannot leave. What a pod of a workload needs is judged for the
/// workload.
fn host(target: &Target) -> Option<&str> {
    match target.kind {
        Kind::Node => Some(&target.name),
        Kind::Pod => target.node.as_deref(),
        Kind::Cluster
        | Kind::Credentials
        | Kind::Endpoint
        | Kind::EtcdMember
        | Kind::Workload
        | Kind::Webhook
        | Kind::ApiService
        | Kind::Policy
        | Kind::ServerCheck => None,
    }
}

/// Returns true for checks of health. Upgrade checks cover every machine: the effect of an upgrade on an unready worker is not a question
/// of health, and a missing answer is not excused.
fn is_of_health(check: &Check) -> bool {
    check.stage != Stage::Upgrade
}

/// Returns the workers that a check has found to be unhealthy.
fn failing<'a>(verdict: &'a Verdict, workers: &BTreeSet<&str>) -> impl Iterator<Item = &'a str> {
    let failed = verdict.problems().filter(|(_, problem)| problem.severity == Severity::Fail && is_shortfall(problem));
    let nodes = failed.filter(|(target, _)| target.kind == Kind::Node).map(|(target, _)| target.name.as_str());
    nodes.filter(|name| workers.contains(name))
}

/// Returns true if the problem makes a worker count as missing. A worker that is running, but has a different identity, version or
/// condition than it should, is not missing.
fn is_shortfall(problem: &Problem) -> bool {
    use Reason::{
        AnsweredByOtherNode, ClockSkew, DuplicateName, NodeAddress, NodeCondition, NodeUnexpected, NodenameMismatch,
        PodCidrShared, VersionSkew, VersionUnexpected, VersionsMixed,
    };
    // In this case a control plane is missing, not a worker.
    let is_of_another_role = problem.about == Some(About::Role(Role::ControlPlane));
    let is_another = matches!(
        problem.reason,
        AnsweredByOtherNode
            | ClockSkew
            | DuplicateName
            | NodeAddress
            | NodeCondition
            | NodeUnexpected
            | NodenameMismatch
            | PodCidrShared
            | VersionSkew
            | VersionUnexpected
            | VersionsMixed
    );
    !is_another && !is_of_another_role && problem.about != Some(About::Identity)
}

/// Adds the total to the individual problems of the workers: to `k8s.nodes.ready`, where readers look for it, or, if that check is not
/// selected, to the first check that reports one of the workers.
fn too_many(
    verdicts: &mut [(&'static Check, Verdict)],
    workers: &BTreeSet<&str>,
    missing: &BTreeSet<String>,
    allowed: usize,
) {
    let misses =
        |(check, verdict): &(&Check, Verdict)| is_of_health(check) && failing(verdict, workers).next().is_some();
    let place = verdicts.iter().position(|(check, _)| check.id == CheckId::K8sNodesReady);
    let Some(place) = place.or_else(|| verdicts.iter().position(misses)) else { return };
    let names = missing.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let expected = format!("at most {allowed} workers not ready");
    let problem = Problem::fail(Reason::TooManyUnready, expected, format!("{}: {names}", missing.len()));
    verdicts[place].1.problem(Target::cluster(), problem);
}

fn relax(check: &Check, finding: &mut Finding) {
    match &mut finding.outcome {
        Outcome::Problem(problem)
            if problem.severity == Severity::Fail && is_of_health(check) && is_shortfall(problem) =>
        {
            problem.severity = Severity::Warn;
        }
        // The worker could not be observed because it is missing, which is allowed.
        outcome if is_of_health(check) && (matches!(outcome, Outcome::Blocked(_)) || outcome.is_unseen()) => {
            *outcome = Outcome::Skip("tolerated by --max-unready-workers".to_owned());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Status;
    use crate::snapshot::{Gap, GapKind, Snapshot, Upgrade};
    use crate::testing::fixture;

    fn verdicts(snapshot: &Snapshot) -> Vec<(&'static Check, Verdict)> {
        let mut verdicts = fixture::verdicts(snapshot);
        apply(&Assessment::of(snapshot), &mut verdicts);
        verdicts
    }

    fn is_fine(snapshot: &Snapshot) -> bool {
        verdicts(snapshot)
            .iter()
            .filter(|(check, _)| is_of_health(check))
            .all(|(_, verdict)| verdict.status().is_fine())
    }

    #[test]
    fn a_dead_worker_within_the_allowance_is_a_warning() {
        let mut snapshot = fixture::healthy();
        snapshot.power_off("w-1");
        assert!(!is_fine(&snapshot));
        snapshot.asked.max_unready_workers = Allowance::Count(1);
        assert!(is_fine(&snapshot));
        let warned = verdicts(&snapshot).iter().filter(|(_, verdict)| verdict.status() == Status::Warn).count();
        assert!(warned >= 2, "it is named");
        snapshot.asked.max_unready_workers = Allowance::Percent(99);
        assert!(!is_fine(&snapshot), "99 % of one worker is none");
    }

    /// Static pods cannot leave their machine.
    #[test]
    fn a_static_pod_of_a_dead_worker_is_within_the_allowance() {
        let mut snapshot = fixture::healthy().without_talos();
        let pods = snapshot.kube().pods.as_mut().unwrap();
        let mut pod = pods.iter().find(|pod| pod.mirror).unwrap().clone();
        (pod.name, pod.node) = ("kube-proxy-w-1".to_owned(), Some("w-1".to_owned()));
        pod.labels.clear();
        pod.state = fixture::running_pod("kube-proxy");
        pod.state.ready = Some(false);
        pods.push(pod);
        let conditions = &mut snapshot.kube_node_mut("w-1").conditions;
        "False".clone_into(&mut conditions.iter_mut().find(|condition| condition.kind == "Ready").unwrap().status);
        assert!(!is_fine(&snapshot));
        snapshot.asked.max_unready_workers = Allowance::Count(1);
        assert!(is_fine(&snapshot));
        "True".clone_into(
            &mut snapshot.kube_node_mut("w-1").conditions.iter_mut().find(|it| it.kind == "Ready").unwrap().status,
        );
        assert!(!is_fine(&snapshot), "the pod of a worker that is ready");
    }

    /// An unknown CA at a worker's address raises the question of which machine answers there, not of how many workers are ready.
    #[test]
    fn a_machine_of_another_ca_is_not_missing() {
        let text = "dial: authentication handshake failed: tls: failed to verify certificate: x509: unknown authority";
        for (text, is_allowed) in [(text, false), ("dial tcp 10.0.0.4:50000: no route to host", true)] {
            let mut snapshot = fixture::healthy();
            snapshot.power_off("w-1");
            snapshot.talos_of("w-1").contact = Err(Gap::new(GapKind::NodeUnreachable, text));
            snapshot.asked.max_unready_workers = Allowance::Count(1);
            assert_eq!(is_fine(&snapshot), is_allowed, "{text}");
        }
    }

    #[test]
    fn a_worker_that_was_not_seen_is_not_ready_for_an_upgrade() {
        let mut snapshot = fixture::healthy();
        snapshot.asked.upgrade = Upgrade { talos: Some("1.13.2".to_owned()), ..Upgrade::default() };
        snapshot.power_off("w-1");
        snapshot.asked.max_unready_workers = Allowance::Count(1);
        let verdicts = verdicts(&snapshot);
        let path = &verdicts.iter().find(|(check, _)| check.id == CheckId::UpgradeTalosPath).unwrap().1;
        assert!(!path.status().is_fine(), "{path:?}");
    }

    #[test]
    fn a_worker_of_another_version_is_not_missing() {
        let mut snapshot = fixture::healthy();
        snapshot.asked.max_unready_workers = Allowance::Count(1);
        snapshot.asked.expect_talos = Some("1.13.0".to_owned());
        for node in &mut snapshot.nodes {
            let tag = if node.name == "w-1" { "v1.12.4" } else { "v1.13.0" };
            tag.clone_into(&mut node.talos.contact.as_mut().unwrap().version.tag);
        }
        assert!(!is_fine(&snapshot));
    }

    /// Returns the checks that report too many missing workers, and the observed text.
    fn sums(verdicts: &[(&'static Check, Verdict)]) -> Vec<(CheckId, String)> {
        let problems = verdicts.iter().flat_map(|(check, verdict)| verdict.problems().map(|(_, it)| (check.id, it)));
        let sums = problems.filter(|(_, problem)| problem.reason == Reason::TooManyUnready);
        sums.map(|(check, problem)| (check, problem.observed.clone())).collect()
    }

    #[test]
    fn more_than_are_allowed_are_said_to_be_too_many_once() {
        let mut snapshot = fixture::healthy();
        snapshot.power_off("w-1");
        assert_eq!(sums(&verdicts(&snapshot)), [], "nobody has asked");
        snapshot.asked.max_unready_workers = Allowance::Count(0);
        assert_eq!(sums(&verdicts(&snapshot)), [(CheckId::K8sNodesReady, "1: w-1".to_owned())]);
        let mut some = verdicts(&snapshot);
        some.retain(|(check, _)| check.stage <= Stage::Readiness);
        for (check, verdict) in &mut some {
            *verdict = fixture::verdict(check.id.name(), &snapshot);
        }
        apply(&Assessment::of(&snapshot), &mut some);
        assert_eq!(sums(&some), [(CheckId::TalosNodesReachable, "1: w-1".to_owned())]);
        snapshot.asked.max_unready_workers = Allowance::Count(1);
        assert_eq!(sums(&verdicts(&snapshot)), []);
    }

    #[test]
    fn a_worker_that_never_registered_is_missing_everywhere() {
        let mut snapshot = fixture::healthy();
        snapshot.asked.max_unready_workers = Allowance::Count(1);
        snapshot.kube().nodes.as_mut().unwrap().retain(|node| node.name != "w-1");
        let verdicts = verdicts(&snapshot);
        let of = |id| &verdicts.iter().find(|(check, _)| check.id == id).unwrap().1;
        assert_eq!(of("k8s.nodes.registered").status(), Status::Warn);
        let ready = of("k8s.nodes.ready").findings.iter().find(|finding| finding.target.name == "w-1").unwrap();
        assert_eq!(ready.outcome.status(), Status::Skip);
        assert!(is_fine(&snapshot));
    }

    #[test]
    fn control_planes_and_the_undetermined_are_never_allowed() {
        let mut snapshot = fixture::healthy();
        snapshot.asked.max_unready_workers = Allowance::Percent(100);
        snapshot.power_off("cp-3");
        assert!(!is_fine(&snapshot));
        let mut snapshot = fixture::healthy();
        snapshot.asked.max_unready_workers = Allowance::Percent(100);
        snapshot.talos_of("w-1").services = Err(Gap::new(GapKind::Malformed, "?"));
        assert!(!is_fine(&snapshot));
    }

    /// A worker whose upgrade is blocked is still ready, so the allowance does not cover it.
    #[test]
    fn what_blocks_the_upgrade_of_a_worker_is_not_allowed() {
        let blocked = |mut snapshot: Snapshot| {
            let check = super::super::find("upgrade.drain").unwrap();
            let mut verdict = Verdict::default();
            verdict.problem(Target::new(Kind::Node, "w-1"), Problem::fail(Reason::EvictionBlocked, "evicted", "not"));
            snapshot.asked.max_unready_workers = Allowance::Count(1);
            let mut verdicts = fixture::verdicts(&snapshot);
            verdicts.push((check, verdict));
            apply(&Assessment::of(&snapshot), &mut verdicts);
            (verdicts.last().unwrap().1.status(), sums(&verdicts))
        };
        assert_eq!(blocked(fixture::healthy()), (Status::Fail, Vec::new()));
        let mut dead = fixture::healthy();
        dead.nodes.push(fixture::node(4, "w-2"));
        dead.power_off("w-2");
        assert_eq!(blocked(dead), (Status::Fail, Vec::new()), "one is missing, as is allowed");
    }

    /// Returns the results of two checks for four workers.
    fn judged(allowance: Allowance, problems: &[(&str, Problem)]) -> Vec<String> {
        let mut snapshot = fixture::healthy();
        for index in 4..7 {
            snapshot.nodes.push(fixture::node(index, &format!("w-{}", index - 2)));
        }
        snapshot.asked.max_unready_workers = allowance;
        let mut verdict = Verdict::default();
        for (name, problem) in problems {
            verdict.problem(Target::new(Kind::Node, *name), problem.clone());
        }
        let check = super::super::find("k8s.nodes.ready").unwrap();
        let mut verdicts = vec![(check, verdict)];
        apply(&Assessment::of(&snapshot), &mut verdicts);
        let problems = verdicts[0].1.problems();
        problems.map(|(target, it)| format!("{} {} {:?}", target.name, it.reason.code(), it.severity)).collect()
    }

    #[test]
    fn a_share_of_the_workers_is_rounded_down() {
        let dead = || Problem::fail(Reason::NodeNotReady, "ready", "not");
        let half = |names: &[&'static str]| {
            let problems: Vec<_> = names.iter().map(|name| (*name, dead())).collect();
            judged(Allowance::Percent(50), &problems)
        };
        assert_eq!(half(&["w-1", "w-2"]), ["w-1 node-not-ready Warn", "w-2 node-not-ready Warn"]);
        assert_eq!(half(&["w-1", "w-2", "w-3"])[3], "cluster too-many-unready Fail");
    }

    #[test]
    fn only_workers_that_are_seen_to_be_missing_count() {
        let dead = || Problem::fail(Reason::NodeNotReady, "ready", "not");
        let unknown = Problem::error(Reason::NoAnswer, "ready", "nobody knows");
        let late = || Problem::fail(Reason::ClockSkew, "a right clock", "a wrong one");
        assert_eq!(
            judged(Allowance::Count(1), &[("w-1", unknown), ("w-2", dead()), ("w-3", late()), ("w-2", late())]),
            ["w-1 no-answer Error", "w-2 node-not-ready Warn", "w-3 clock-skew Fail", "w-2 clock-skew Fail"]
        );
    }
}
