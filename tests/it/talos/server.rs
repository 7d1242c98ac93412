//! The second opinion: `--server`.

use std::time::Duration;

use simulator::world::Misbehavior;

use super::{ATTEMPT, SLACK, side_by_side};
use crate::cluster::{Cluster, Judgment, cluster, release};

const CONTROL_PLANES: [&str; 3] = ["cp-1", "cp-2", "cp-3"];
const CHECK: &str = "talos.server";
const CALL: &str = "HealthCheck";

fn admin() -> Cluster {
    cluster().role("os:admin").endpoints(&["cp-1"])
}

/// Returns the check's own findings.
fn said(judged: &Judgment) -> Vec<&str> {
    judged.problems.iter().filter(|said| said.check == CHECK).map(|said| said.reason.as_str()).collect()
}

fn fail(code: u16, text: &str) -> Misbehavior {
    Misbehavior::Fail { code, text: text.to_owned() }
}

#[test]
fn is_asked_only_when_it_is_asked_for() {
    let cluster = cluster().role("os:admin");
    let judged = cluster.run(&[]);
    judged.is(0, &[]);
    let asked = || CONTROL_PLANES.iter().map(|machine| cluster.asked(machine, CALL)).sum::<u64>();
    assert_eq!(asked(), 0);
    let checks = judged.report["checks"].as_array().unwrap();
    assert!(checks.iter().all(|check| check["id"] != CHECK), "{judged}");
    let judged = cluster.run(&["--server"]);
    judged.is(0, &[]);
    assert_eq!((judged.status(CHECK), asked()), ("pass", 1), "{judged}");
}

#[test]
fn has_a_stage_of_its_own_in_every_report() {
    let cluster = admin();
    let text = cluster.program().args(["--server"]).run();
    assert!(text.stdout.contains("\nServer check "), "{}", text.stdout);
    let verbose = cluster.program().args(["--server", "-v"]).run();
    assert!(verbose.stdout.contains("Running the cluster's own health check...\n"), "{}", verbose.stdout);
    assert!(verbose.stdout.contains("etcd to be healthy: OK\n"), "{}", verbose.stdout);
    let junit = cluster.program().args(["--server", "-o", "junit"]).run();
    assert!(junit.stdout.contains("<testsuite name=\"server\""), "{}", junit.stdout);
}

#[test]
fn its_failure_fails_the_run() {
    let cluster = admin();
    // Our own check only warns about this.
    cluster.change(|world| world.cordon("cp-1"));
    cluster.run(&[]).is(0, &[("k8s.nodes.schedulable", "cordoned", "cp-1")]);
    let judged = cluster.run(&["--server", "--attempt-timeout", "10s"]);
    assert_eq!((judged.outcome.code, judged.status(CHECK)), (1, "fail"), "{judged}");
    assert_eq!(said(&judged), ["server-check-failed"]);
    judged.within(ATTEMPT + SLACK);
}

/// Talos repeats the refusal until the check's time is over. The run does not wait for that.
#[test]
fn is_skipped_for_readers() {
    side_by_side(["1.13.0", "1.14.0"], 2, |talos| {
        let judged = release(talos).run(&["--server", "--attempt-timeout", "30s"]);
        judged.is(0, &[]).within(Duration::from_secs(20));
        assert_eq!(judged.status(CHECK), "skip", "{judged}");
        let reason = judged.report["notObserved"].to_string();
        assert!(reason.contains("the role of the credentials does not allow it"), "{reason}");
    });
    let cluster = cluster();
    for machine in CONTROL_PLANES {
        cluster.fault(machine, CALL, fail(7, "not authorized"));
    }
    let judged = cluster.run(&["--server"]);
    judged.is(0, &[]);
    assert_eq!((judged.status(CHECK), cluster.asked("cp-2", CALL)), ("skip", 0), "{judged}");
}

#[test]
fn no_wrong_answer_is_a_success() {
    let cases = [
        (Misbehavior::Hang, "server-check-unfinished"),
        (Misbehavior::Stall, "server-check-unfinished"),
        (Misbehavior::Empty, "no-answer"),
        (Misbehavior::Garbage, "unreadable-answer"),
        (Misbehavior::Cut, "no-answer"),
        (Misbehavior::Endless, "answer-too-large"),
        (fail(1, "context canceled"), "no-answer"),
        (fail(2, "it broke"), "no-answer"),
        (fail(4, "context deadline exceeded"), "server-check-unfinished"),
        (fail(7, "not authorized"), "role-too-low"),
        (fail(12, "unknown service cluster.ClusterService"), "not-supported-by-version"),
        (fail(14, "error reading from server: EOF"), "no-answer"),
    ];
    side_by_side(cases, 4, |(does, reason)| {
        let cluster = admin();
        cluster.fault("cp-1", CALL, does.clone());
        // The timeout is short if the call will time out; other cases have the usual time.
        let attempt = if matches!(does, Misbehavior::Hang | Misbehavior::Stall) { 20 } else { 60 };
        let judged = cluster.run(&["--server", "--attempt-timeout", &format!("{attempt}s")]);
        let case = format!("{does:?}: {judged}");
        assert_eq!((judged.status(CHECK), said(&judged)), ("error", vec![reason]), "{case}");
        assert_eq!(judged.problems.len(), 1, "nothing else suffers from it: {case}");
        judged.within(Duration::from_secs(attempt) + SLACK);
    });
}

/// Another control plane is queried before the check is given up.
#[test]
fn the_next_endpoint_is_asked() {
    let cluster = cluster().role("os:admin").endpoints(&["cp-1", "cp-2"]);
    cluster.fault("cp-1", CALL, fail(14, "error reading from server: EOF"));
    let judged = cluster.run(&["--server"]);
    judged.is(0, &[]);
    assert_eq!((judged.status(CHECK), cluster.asked("cp-2", CALL)), ("pass", 1), "{judged}");
}

/// An endpoint that accepts the call and stays silent is given up while other endpoints remain.
#[test]
fn an_endpoint_that_says_nothing_is_given_up() {
    side_by_side([Misbehavior::Hang, Misbehavior::Stall], 2, |does| {
        let cluster = cluster().role("os:admin").endpoints(&["cp-1", "cp-2"]);
        cluster.fault("cp-1", CALL, does.clone());
        let judged = cluster.run(&["--server", "--attempt-timeout", "12s"]);
        judged.is(0, &[]).within(Duration::from_secs(12));
        assert_eq!((judged.status(CHECK), cluster.asked("cp-2", CALL)), ("pass", 1), "{does:?}: {judged}");
    });
}

/// The check takes minutes on a large cluster, so users need to see its progress.
#[test]
fn what_it_says_is_shown_as_it_comes() {
    let cluster = admin();
    cluster.change(|world| world.cordon("worker-1"));
    let ran = cluster.program().args(["--server", "--attempt-timeout", "10s"]).run();
    let at = |what: &str| ran.stderr.find(what).unwrap_or_else(|| panic!("{what}: {}", ran.stderr));
    assert!(at("says  talos.server") < at("pass  "), "before the round has ended: {}", ran.stderr);
    assert!(at("etcd to be healthy: ...") < at("etcd to be healthy: OK"), "{}", ran.stderr);
    let quiet = cluster.program().args(["--server", "-q", "--attempt-timeout", "10s"]).run();
    assert!(!quiet.stderr.contains("says"), "{}", quiet.stderr);
}

#[test]
fn checks_the_nodes_that_were_named() {
    let cluster = admin();
    let named = ["--server", "--control-plane-nodes", "cp-1,cp-2,cp-3", "--worker-nodes", "worker-1"];
    let judged = cluster.run(&named);
    judged.is(0, &[]);
    assert_eq!(judged.status(CHECK), "pass", "{judged}");
    let judged = cluster.run(&["--server", "--check", "etcd.quorum", "--control-plane-nodes", "cp-1,cp-9"]);
    assert_eq!((judged.status(CHECK), said(&judged)), ("error", vec!["no-answer"]), "{judged}");
}

#[test]
fn is_bounded_by_the_deadline() {
    let cluster = admin();
    cluster.fault("cp-1", CALL, Misbehavior::Hang);
    let judged = cluster.run(&["--server", "--wait-timeout", "4s"]);
    assert_eq!(judged.status(CHECK), "error", "{judged}");
    judged.within(Duration::from_secs(5) + SLACK);
}
