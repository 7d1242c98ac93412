//! Explanations of rounds that are literals.

use std::time::Duration;

use super::*;
use crate::checks;
use crate::engine::judge;
use crate::model::Severity;
use crate::snapshot::Snapshot;
use crate::testing::fixture;

/// Judges these checks, and those that they require.
fn with_required(snapshot: Snapshot, ids: &[&str]) -> Round {
    let mut plan: Vec<&Check> = ids.iter().map(|id| checks::find(id).unwrap()).collect();
    let mut at = 0;
    while at < plan.len() {
        let required = plan[at].requires().into_iter().map(|id| checks::find(id.name()).unwrap());
        let new: Vec<_> = required.filter(|check| plan.iter().all(|it| it.id != check.id)).collect();
        plan.extend(new);
        at += 1;
    }
    of_plan(snapshot, |check| plan.iter().any(|it| it.id == check.id))
}

fn of_plan(snapshot: Snapshot, runs: impl Fn(&Check) -> bool) -> Round {
    let plan: Vec<_> = checks::ALL.iter().copied().filter(|check| runs(check)).collect();
    let verdicts = judge(&plan, &snapshot);
    let (at, took) = (Duration::ZERO, Duration::ZERO);
    Round { number: 1, at, took, snapshot, verdicts, diagnoses: Vec::new().into(), in_doubt: false }
}

fn of_all(snapshot: Snapshot) -> Round {
    of_plan(snapshot, |_| true)
}

/// Returns the lines about a check, or about the assessment.
fn about(round: &Round, of: &str) -> Vec<String> {
    lines(round).into_iter().filter(|line| line.of == of).map(|line| line.text).collect()
}

#[test]
fn a_healthy_cluster_has_one_line_for_each_check() {
    let round = of_all(fixture::healthy());
    assert_eq!(
        about(&round, "assessment"),
        [
            "Talos: open",
            "identity: Talos and Kubernetes are the same cluster",
            "etcd: quorum proven: 3 voters (member list), 2 needed, 3 up, 3 following a leader, 0 unknown",
        ]
    );
    assert_eq!(about(&round, "etcd.space"), ["pass: requires etcd.leader (pass)"]);
    assert_eq!(lines(&round).len(), 3 + checks::ALL.len());
}

#[test]
fn a_dead_kubelet() {
    let mut dead = fixture::healthy();
    let kubelet = dead.service_mut("w-1", "kubelet");
    "Failed".clone_into(&mut kubelet.state);
    kubelet.healthy = Some(false);
    let lease = dead.kube().node_leases.as_mut().unwrap().by_name.get_mut("w-1").unwrap();
    (lease.renewed, lease.moved_within) = (Some(fixture::ago(90)), None);
    let round = with_required(dead.clone(), &["k8s.nodes.pressure"]);
    assert_eq!(
        about(&round, "k8s.nodes.pressure"),
        [
            "blocked: requires k8s.credentials (pass), k8s.api.endpoint (pass), k8s.api.identity (pass), \
             k8s.nodes.ready (fail)",
            "w-1 (10.0.0.4): blocked by k8s.nodes.ready; by itself: error node-lease-stale: expected no pressure on \
             memory, disk and process IDs, and a network, observed its kubelet has stopped reporting",
        ]
    );
    assert!(
        about(&round, "assessment").iter().any(|line| line.starts_with("machine w-1 (10.0.0.4): kubelet not known"))
    );
    // Without the checks that it requires, only its own words are left.
    let alone = of_plan(dead, |check| check.id == CheckId::K8sNodesPressure);
    let of_pressure = about(&alone, "k8s.nodes.pressure");
    assert!(of_pressure[0].contains("k8s.nodes.ready (not run)"), "{of_pressure:?}");
    assert!(of_pressure[1].starts_with("w-1 (10.0.0.4): error node-lease-stale: expected"), "{of_pressure:?}");
}

#[test]
fn a_lost_worker() {
    let mut lost = fixture::healthy();
    lost.power_off("w-1");
    let all = of_all(lost.clone());
    let words = "NodeUnreachable: dial tcp: connect: no route to host";
    assert_eq!(about(&all, "assessment")[3..], [format!("machine w-1 (10.0.0.4): lost: {words}")]);
    assert_eq!(
        about(&all, "talos.nodes.booted"),
        [
            "blocked: requires talos.nodes.reachable (fail)",
            "w-1 (10.0.0.4): blocked by talos.nodes.reachable; by itself: error node-unreachable: expected answers on the \
             Talos API, observed dial tcp: connect: no route to host",
        ]
    );
    let of_proxy = about(&all, "k8s.kube-proxy");
    assert!(of_proxy[1].ends_with("; explained by k8s.nodes.ready"), "{of_proxy:?}");
}

#[test]
fn answers_that_are_missing_for_one_reason_share_a_line() {
    let mut blind = fixture::healthy();
    blind.talos_of("cp-1").volumes = fixture::gap(GapKind::Unsupported);
    blind.talos_of("cp-1").mounts = fixture::gap(GapKind::Unsupported);
    blind.kube().pods = fixture::gap(GapKind::Forbidden);
    let round = of_all(blind);
    let of_disk = about(&round, "talos.nodes.disk");
    assert_eq!(of_disk.last().unwrap(), "missing from cp-1: VolumeStatuses, Mounts: Unsupported: test: Unsupported");
    let of_dns = about(&round, "k8s.dns");
    let pods = "missing from Kubernetes API: pods (kube-system): Forbidden: test: Forbidden";
    assert!(of_dns.iter().any(|line| line == pods), "{of_dns:?}");
}

/// A target has one line, however many findings it has, and the effect of options is distinguished from the check's own verdict.
#[test]
fn options_and_many_findings() {
    let mut lost = fixture::healthy();
    lost.power_off("w-1");
    let mut round = of_all(lost);
    let (_, verdict) = round.verdicts.iter_mut().find(|(check, _)| check.id == CheckId::TalosNodesReachable).unwrap();
    for finding in &mut verdict.findings {
        if let Outcome::Problem(problem) = &mut finding.outcome {
            problem.severity = Severity::Warn;
        }
    }
    let finding = verdict.findings.iter().find(|finding| finding.target.name == "w-1").unwrap().clone();
    verdict.findings.push(finding);
    let of_reachable = about(&round, "talos.nodes.reachable");
    assert!(of_reachable[0].starts_with("warn: "), "{of_reachable:?}");
    assert!(
        of_reachable[1].contains("no route to host; by itself: fail; also warn node-unreachable"),
        "{of_reachable:?}"
    );
    assert_eq!(of_reachable.len(), 2, "what is lost is said once, of the machine: {of_reachable:?}");
}

/// No request was sent before the first round.
#[test]
fn credentials_that_cannot_be_used() {
    let mut unusable = Snapshot { nodes: Vec::new(), ..fixture::healthy() };
    unusable.talos_mut().credentials = fixture::gap(GapKind::Malformed);
    let mut round = of_all(unusable);
    for (check, verdict) in &mut round.verdicts {
        if !check.is_preflight() {
            *verdict = Verdict::whole(Outcome::Blocked(CheckId::TalosCredentials));
        }
    }
    assert_eq!(about(&round, "assessment")[0], "Talos: closed: Malformed: test: Malformed");
    let of_alarms = about(&round, "etcd.alarms");
    assert!(of_alarms[1].starts_with("cluster: blocked by talos.credentials"), "{of_alarms:?}");
    assert_eq!(of_alarms.len(), 2, "{of_alarms:?}");
}

#[test]
fn the_assessment_in_words() {
    let says = |change: &dyn Fn(&mut Snapshot), words: &str| {
        let mut snapshot = fixture::healthy();
        change(&mut snapshot);
        let said = about(&of_all(snapshot), "assessment");
        assert!(said.iter().any(|line| line.contains(words)), "{words}: {said:#?}");
    };
    says(&|it| *it = it.clone().without_talos(), "Talos: not queried (--no-talos)");
    says(&|it| *it = it.clone().without_talos(), "identity: not compared");
    says(&|it| *it = it.clone().without_talos(), "etcd: quorum unknown: not queried");
    says(&|it| it.kube().nodes = fixture::gap(GapKind::Forbidden), "identity: unknown: no list of Kubernetes nodes");
    says(&|it| it.kube().nodes = Ok(Vec::new()), "identity: unknown: the list of Kubernetes nodes is empty");
    says(
        &|it| it.kube().nodes.as_mut().unwrap().retain(|node| node.name != "w-1"),
        "machine w-1 (10.0.0.4): no Node object",
    );
    says(
        &|it| it.asked.skipped.extend([CheckId::K8sApiIdentity]),
        "; treated as the same cluster, because k8s.api.identity is",
    );
    says(&|it| it.node_mut("w-1").leaving = true, "machine w-1 (10.0.0.4): not checked: it is being removed");
    says(&|it| it.node_mut("w-1").out_of_scope = true, "machine w-1 (10.0.0.4): not checked: outside of --nodes");
    says(
        &|it| it.talos_of("w-1").contact.as_mut().unwrap().answered_by_other = Some("w-2".to_owned()),
        "machine w-1 (10.0.0.4): lost: w-2 answers at its address",
    );
    let leaderless = |it: &mut Snapshot| {
        for name in fixture::CONTROL_PLANES {
            it.etcd_status_mut(name).leader = 0;
            it.talos_of(name).etcd_members = fixture::gap(GapKind::TimedOut);
        }
    };
    says(
        &leaderless,
        "etcd: quorum lost: 3 voters (one per control plane, no member list), 2 needed, 3 up, 0 following",
    );
    says(&leaderless, "; failing API servers are explained by etcd.quorum");
}

#[test]
fn a_thousand_targets_are_two_hundred_lines() {
    let all: Vec<_> = bounded(vec![String::new(); LINES + 7]).collect();
    assert_eq!((all.len(), all.last().unwrap().as_str()), (LINES + 1, "and 7 more"));
    assert_eq!(bounded(vec![String::new(); LINES]).count(), LINES);
}

#[test]
fn hostile_text_stays_text() {
    let hostile = "\u{1b}[31m\r\n::error::x\u{202e}\u{7}\n##[error]x";
    let gap = || Gap::new(GapKind::TimedOut, hostile);
    let mut world = fixture::healthy();
    world.power_off("w-1");
    for node in &mut world.nodes {
        node.talos.volumes = Err(gap());
        node.talos.contact = Err(gap());
        node.name.push_str(hostile);
        node.address.push_str(hostile);
    }
    world.kube().pods = Err(gap());
    world.kube().nodes = Err(gap());
    for line in lines(&of_all(world)) {
        assert!(!line.text.contains(|c: char| c.is_control() || c == '\u{202e}'), "{:?}", line.text);
        assert!(!line.text.contains("##[") && !line.text.starts_with("::"), "{:?}", line.text);
    }
}
