//! `--policy`: excuses that somebody has written down, and what is not a policy.

use simulator::world::Shape;

use crate::cluster::{Cluster, cluster};
use crate::harness::program;

const DAY: i64 = 24 * 60 * 60;

/// So many days from now, as a policy says it.
fn days(from_now: i64) -> String {
    jiff::Timestamp::now().checked_add(jiff::SignedDuration::from_secs(from_now * DAY)).unwrap().to_string()
}

fn off(name: &str, until: &str) -> String {
    format!(
        "apiVersion: cluster-health/v1\nmachines:\n  - {{name: {name}, state: off, because: \"OPS-123\", until: {until}}}\n"
    )
}

#[test]
fn a_machine_that_is_off_on_purpose_does_not_fail_the_gate() {
    let cluster = cluster();
    cluster.change(|world| world.power_off("worker-1"));
    for (policy, code) in [
        (off("worker-1", &days(30)), 0),
        (off("worker-1", &days(-1)), 1),
        // Somebody else is off.
        (off("cp-1", &days(30)), 1),
        (off("worker-9", &days(30)), 1),
    ] {
        let run = cluster.program().file("policy.yaml", &policy);
        let path = run.path("policy.yaml");
        let judged = cluster.judgment(run.args(["-o", "json", "--policy", path.to_str().unwrap()]).run());
        assert_eq!(judged.outcome.code, code, "{policy}{judged}");
        assert_eq!(judged.report["policy"]["sha256"].as_str().unwrap().len(), 64);
        let weakened = judged.report["weakened"].to_string();
        // What has ended makes nothing weaker.
        assert_eq!(weakened.contains("policy, line 3"), !policy.contains(&days(-1)[..10]), "{weakened}");
        let excused = judged.problems.iter().any(|it| it.reason == "machine-off" && it.target == "worker-1");
        assert_eq!(excused, code == 0, "{judged}");
    }
}

#[test]
fn an_accepted_problem_is_a_warning_also_where_warnings_fail() {
    let cluster = Cluster::of(&Shape { workers: 2, ..Shape::default() });
    cluster.change(|world| world.cordon("worker-1"));
    let accept = format!(
        "apiVersion: cluster-health/v1\naccept:\n  - {{check: k8s.nodes.schedulable, reason: cordoned, target: worker-1, because: x, until: {}}}\n",
        days(10)
    );
    let of = |options: &[&str]| {
        let run = cluster.program().file("policy.yaml", &accept);
        let path = run.path("policy.yaml");
        cluster.judgment(run.args(options).args(["-o", "json", "--policy", path.to_str().unwrap()]).run())
    };
    assert_eq!(cluster.run(&["--fail-on", "cordoned"]).outcome.code, 1);
    let judged = of(&["--fail-on", "cordoned"]);
    assert_eq!(judged.outcome.code, 0, "{judged}");
    let problems = &judged.check("k8s.nodes.schedulable")["problems"];
    assert!(problems.to_string().contains(r#""accepted":{"because":"x""#), "{problems}");
    assert!(problems.to_string().contains(" (accepted until "), "{problems}");
    assert_eq!(judged.status("policy.accept"), "pass");
}

/// Nobody is asked, and the exit code is that of a wrong command line.
#[test]
fn what_is_no_policy_is_a_usage_error() {
    let cluster = cluster();
    for (text, words) in [
        ("apiVersion: cluster-health/v1\nmachnes: []\n", &["line 2, column 1", "did you mean `machines`?"][..]),
        ("apiVersion: v1\nkind: Config\nclusters: []\n", &["there is no field `kind` here"]),
        (&off("worker-1", &days(100)), &["line 3", "at most 90 days"]),
    ] {
        let run = cluster.program().file("policy.yaml", text);
        let path = run.path("policy.yaml");
        let outcome = run.args(["--policy", path.to_str().unwrap()]).run();
        outcome.is(2, words);
        let run = program().file("policy.yaml", text);
        let path = run.path("policy.yaml");
        run.args(["policy", "check", path.to_str().unwrap()]).run().is(2, words);
    }
    program().args(["--policy", "/there/is/none"]).run().is(2, &["policy `/there/is/none`"]);
    let run = program().file("policy.yaml", off("worker-1", &days(1)));
    let path = run.path("policy.yaml");
    run.args(["policy", "check", path.to_str().unwrap()])
        .run()
        .is(0, &["valid, SHA-256 ", "weakens: machine worker-1 off"]);
    program().args(["policy", "schema"]).run().is(0, &["urn:cluster-health:policy:v1"]);
}

/// A check that a policy asks for cannot be left out by another option.
#[test]
fn what_a_policy_asks_for_is_checked_or_refused() {
    for (text, options, words) in [
        ("expect: {extensions: [iscsi-tools]}\n", &["--no-talos"][..], &["talos.nodes.extensions", "--no-talos"]),
        ("expect: {extensions: [iscsi-tools]}\n", &["--skip", "talos.nodes"], &["talos.nodes.extensions", "--skip"]),
        ("expect: {talos: v1.14.1}\n", &["--no-talos"], &["--expect-talos", "--no-talos"]),
        ("expect: {workers: 3}\n", &["--expect-workers", "4"], &["the policy says 3", "`--expect-workers` says 4"]),
    ] {
        let run = program().file("policy.yaml", format!("apiVersion: cluster-health/v1\n{text}"));
        let path = run.path("policy.yaml");
        run.args(options).args(["--policy", path.to_str().unwrap()]).run().is(2, words);
    }
    program().args(["--check", "policy.machines"]).run().is(2, &["`policy.machines` runs only with `--policy`"]);
}
