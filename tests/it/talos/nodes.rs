//! Machines that are lost: each is named once, with its cause, and hides no other machine.

use std::time::Duration;

use regex::Regex;
use simulator::world::{Misbehavior, Shape};

use super::{ATTEMPT, SHORT, SLACK};
use crate::cluster::{Cluster, Judgment, cluster};

/// Returns the problems that Kubernetes shows for a lost machine.
fn lost<'a>(node: &'a str, reason: &'a str) -> Vec<(&'a str, &'a str, &'a str)> {
    vec![
        ("talos.nodes.reachable", reason, node),
        ("k8s.nodes.ready", "node-not-ready", node),
        ("k8s.kube-proxy", "daemonset-incomplete", node),
        ("k8s.cni", "daemonset-incomplete", node),
        // Each of these machines runs one of its pods.
        ("k8s.dns", "dns-degraded", "kube-system/kube-dns"),
    ]
}

fn lost_control_plane<'a>(node: &'a str, endpoint: &'a str, reason: &'a str) -> Vec<(&'a str, &'a str, &'a str)> {
    let more = [
        ("talos.endpoints", endpoint, node),
        ("etcd.tolerance", "no-tolerance", "cluster"),
        ("k8s.api.servers", "api-unreachable", node),
    ];
    [lost(node, reason), more.to_vec()].concat()
}

#[test]
fn a_machine_without_power() {
    for (node, expected) in [
        ("worker-1", lost("worker-1", "node-unreachable")),
        ("cp-1", lost_control_plane("cp-1", "connection-refused", "node-unreachable")),
    ] {
        let cluster = cluster();
        cluster.change(|world| world.power_off(node));
        cluster.run(&[]).is(1, &expected);
    }
}

/// `-vv` shows the assessment behind each check, only on stderr.
#[test]
fn why_each_check_says_so_of_a_machine_without_power() {
    let cluster = cluster();
    cluster.change(|world| world.power_off("worker-1"));
    let run = |verbose| {
        let outcome = cluster.program().args([verbose, "--attempt-timeout", "60s"]).run();
        outcome.is(1, &[]);
        outcome
    };
    let (more, why) = (run("-v"), run("-vv"));
    let times = Regex::new(r" in [0-9.]+s \(1 round\)|[0-9-]{10} [0-9:]{5} UTC").unwrap();
    assert_eq!(times.replace_all(&more.stdout, ""), times.replace_all(&why.stdout, ""));
    assert!(!more.stderr.contains("] why "), "{more}");
    let of = |check: &str| -> Vec<&str> {
        let begin = format!("] why   {check:<28}  ");
        why.stderr.lines().filter_map(|line| Some(line.split_once(&begin)?.1)).collect()
    };
    let machine = format!("worker-1 ({}): ", cluster.address("worker-1"));
    let lost = of("assessment").into_iter().find_map(|line| line.strip_prefix("machine ")?.strip_prefix(&machine));
    let gap = lost.and_then(|lost| lost.strip_prefix("lost: ")).unwrap_or_else(|| panic!("{why}"));
    assert!(gap.starts_with("NodeUnreachable: "), "{why}");
    let of_booted = of("talos.nodes.booted");
    assert_eq!(of_booted.len(), 2, "{why}");
    assert_eq!(of_booted[0], "blocked: requires talos.nodes.reachable (fail)", "{why}");
    let blocked = format!("{machine}blocked by talos.nodes.reachable; by itself: error node-unreachable: ");
    assert!(of_booted[1].starts_with(&blocked), "{why}");
}

#[test]
fn a_machine_whose_cable_is_cut() {
    for (node, expected) in [
        ("worker-1", lost("worker-1", "node-unreachable")),
        ("cp-1", lost_control_plane("cp-1", "timed-out", "node-unreachable")),
    ] {
        let cluster = cluster();
        cluster.change(|world| world.unplug(node));
        cluster.run(&SHORT).is(1, &expected).within(ATTEMPT + SLACK);
    }
}

#[test]
fn a_worker_in_maintenance() {
    let cluster = cluster();
    cluster.change(|world| world.maintenance("worker-1"));
    cluster.run(&[]).is(1, &lost("worker-1", "maintenance-mode"));
}

/// Returns the number of targets of a check that have this status.
fn targets(judged: &Judgment, check: &str, status: &str) -> usize {
    let targets = judged.check(check)["targets"].as_array().unwrap();
    targets.iter().filter(|target| target["status"] == status).count()
}

#[test]
fn one_hung_node_keeps_no_other_from_being_judged() {
    let cluster = cluster();
    cluster.fault("worker-1", "*", Misbehavior::Hang);
    let judged = cluster.run(&SHORT);
    judged.is(1, &[("talos.nodes.reachable", "node-unreachable", "worker-1")]);
    judged.within(ATTEMPT + SLACK);
    for check in ["talos.nodes.booted", "talos.nodes.ready", "talos.nodes.services", "talos.nodes.kubelet"] {
        assert_eq!(targets(&judged, check, "pass"), 3, "{check}: {judged}");
        assert_eq!(targets(&judged, check, "blocked"), 1, "{check}: {judged}");
    }
}

/// From the second round on, hanging machines have a separate budget, so that they never starve the others. That budget makes rounds last
/// for the whole attempt: the wait has room for the first round, the pause after it, and more than one of the later ones.
#[test]
fn ten_of_thirty_hang_and_the_living_are_judged_in_each_round() {
    let cluster = Cluster::of(&Shape { workers: 27, ..Shape::default() });
    let hung: Vec<String> = (1..=10).map(|number| format!("worker-{number}")).collect();
    for node in &hung {
        cluster.fault(node, "*", Misbehavior::Hang);
    }
    let waiting = ["--wait-timeout", "60s", "--attempt-timeout", "16s", "--interval", "100ms", "--no-kubernetes"];
    let judged = cluster.run(&waiting);
    let expected: Vec<_> =
        hung.iter().map(|node| ("talos.nodes.reachable", "node-unreachable", node.as_str())).collect();
    judged.is(1, &expected).within(Duration::from_secs(60) + SLACK);
    let rounds = judged.report["rounds"].as_u64().unwrap();
    assert!(rounds >= 2, "{judged}");
    assert_eq!(targets(&judged, "talos.nodes.booted", "pass"), 20, "{judged}");
    for node in ["cp-1", "worker-11", "worker-27"] {
        assert!(cluster.asked(node, "ServiceList") >= rounds, "{node}: {judged}");
    }
    let asked = cluster.asked("worker-1", "ServiceList");
    assert_eq!(asked, 1, "read ahead in the first round; later, who does not say who it is is asked nothing else");
}
