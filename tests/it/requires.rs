//! Dependencies between checks: a check that does not run blocks nothing, and if a check is left out, the checks that depend on it report
//! its problems.

use std::collections::BTreeSet;

use serde_json::Value;
use simulator::world::Misbehavior;

use crate::cluster::{Judgment, cluster};

/// Returns ids in the report: of checks that ran, and of checks that others name as their reason.
fn ran_and_named(judged: &Judgment) -> (BTreeSet<String>, BTreeSet<String>) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (mut ran, mut named) = (BTreeSet::new(), BTreeSet::new());
    for check in judged.report["checks"].as_array().unwrap() {
        if check["selected"] != "not-selected" {
            ran.insert(text(&check["id"]));
        }
        named.extend(check["blockedBy"].as_array().unwrap().iter().map(text));
        let problems = check["problems"].as_array().unwrap().iter();
        named.extend(problems.filter_map(|problem| problem["explainedBy"].as_str()).map(str::to_owned));
    }
    (ran, named)
}

#[track_caller]
fn names_only_what_ran(judged: &Judgment) {
    let (ran, named) = ran_and_named(judged);
    assert!(named.is_subset(&ran), "{:?} did not run: {judged}", named.difference(&ran));
}

/// The kubelet is dead, and Kubernetes has noticed. The pressure on its node is unknown, and the report states the reason.
#[test]
fn the_pressure_on_a_node_whose_kubelet_is_dead() {
    let cluster = cluster();
    cluster.change(|world| world.kubelet_crash("worker-1"));
    let judged = cluster.run(&["--check", "k8s.nodes.pressure"]);
    names_only_what_ran(&judged);
    assert_eq!(judged.outcome.code, 1, "{judged}");
    assert_eq!(judged.status("k8s.nodes.pressure"), "blocked", "{judged}");
    assert!(judged.problems.iter().any(|it| it.check == "k8s.nodes.ready" && it.target == "worker-1"), "{judged}");
}

#[test]
fn a_dead_worker_when_nobody_asks_whether_it_answers() {
    let cluster = cluster();
    cluster.change(|world| world.power_off("worker-1"));
    let judged = cluster.run(&["--skip", "talos.nodes.reachable"]);
    names_only_what_ran(&judged);
    let of_worker: Vec<_> = judged.problems.iter().filter(|it| it.target == "worker-1").collect();
    assert!(
        of_worker.iter().any(|it| it.check == "talos.nodes.services" && it.reason == "node-unreachable"),
        "{judged}"
    );
    assert!(!judged.to_string().contains("not requested"), "{judged}");
}

/// A failed or refused call to Talos is not evidence about Kubernetes.
#[test]
fn what_talos_does_not_answer_is_told_in_its_own_words() {
    let refused = || Misbehavior::Fail { code: 16, text: "who are you".to_owned() };
    for (does, reason) in [(Misbehavior::Cut, "no-answer"), (refused(), "client-certificate-refused")] {
        let cluster = cluster();
        cluster.fault("cp-2", "List StaticPods", does);
        let judged = cluster.run(&["--check", "k8s.staticpods.rendered"]);
        let reasons: BTreeSet<_> = judged.problems.iter().map(|it| (it.check.as_str(), it.reason.as_str())).collect();
        assert_eq!(reasons, [("k8s.staticpods.rendered", reason)].into(), "{judged}");
    }
}
