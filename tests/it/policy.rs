//! `--policy`: written excuses, and invalid policies.

use serde_json::json;
use simulator::world::{CallFault, Misbehavior, Shape};

use crate::cluster::{Cluster, Judgment, cluster};
use crate::harness::program;

const DAY: i64 = 24 * 60 * 60;

/// Formats the time this many days from now as in a policy.
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
        // Another machine is declared off.
        (off("cp-1", &days(30)), 1),
        (off("worker-9", &days(30)), 1),
    ] {
        let run = cluster.program().file("policy.yaml", &policy);
        let path = run.path("policy.yaml");
        let judged = cluster.judgment(run.args(["-o", "json", "--policy", path.to_str().unwrap()]).run());
        assert_eq!(judged.outcome.code, code, "{policy}{judged}");
        assert_eq!(judged.report["policy"]["sha256"].as_str().unwrap().len(), 64);
        let weakened = judged.report["weakened"].to_string();
        // An expired excuse does not weaken anything.
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

/// No server is queried, and the exit code is the one for a wrong command line.
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

/// A check that a policy requires cannot be left out with another option.
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

/// The age of a backup, storage without a default class, and a kind that does not exist.
const REQUIRE: &str = "apiVersion: cluster-health/v1
require:
  - {id: backup, resource: cronjobs.batch, namespace: kube-system, name: talos-backup, for: 'age={.status.lastSuccessfulTime}<24h'}
  - {id: storage, resource: storageclasses.storage.k8s.io, for: 'jsonpath={.metadata.annotations.storageclass\\.kubernetes\\.io/is-default-class}=true', atLeast: 1, orElse: false}
";

/// A cluster with the rights that `rbac --policy` prints.
fn requiring(policy: &str) -> Cluster {
    let run = program().file("policy.yaml", policy);
    let path = run.path("policy.yaml");
    let outcome = run.args(["rbac", "--policy", path.to_str().unwrap()]).run();
    outcome.is(0, &["kind: ClusterRole"]);
    let role: serde_yaml::Value = serde_yaml::from_str(&outcome.stdout).unwrap();
    let rules = serde_yaml::from_value(role["rules"].clone()).unwrap();
    let cluster = cluster();
    cluster.change(|world| {
        world.kubernetes.reader = rules;
        // Every authenticated user may use discovery.
        let discovery = json!({"nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*"], "verbs": ["get"]});
        world.kubernetes.reader.push(serde_json::from_value(discovery).unwrap());
    });
    put_backup(&cluster, -3600);
    let annotations = json!({"storageclass.kubernetes.io/is-default-class": "true"});
    cluster.change(|world| {
        world.kubernetes.put("storageclasses.storage.k8s.io", json!({"metadata": {"name": "other"}}));
        let class = json!({"metadata": {"name": "fast", "annotations": annotations}});
        world.kubernetes.put("storageclasses.storage.k8s.io", class);
    });
    cluster
}

/// Adds a backup that succeeded this many seconds from now.
fn put_backup(cluster: &Cluster, from_now: i64) {
    let at =
        |seconds| jiff::Timestamp::now().checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap().to_string();
    let metadata = json!({"name": "talos-backup", "namespace": "kube-system", "generation": 1, "creationTimestamp": at(-30 * DAY)});
    let object = json!({"metadata": metadata, "status": {"lastSuccessfulTime": at(from_now)}});
    cluster.change(|world| world.kubernetes.put("cronjobs.batch", object));
}

fn with_policy(cluster: &Cluster, policy: &str, options: &[&str]) -> Judgment {
    let run = cluster.program().file("policy.yaml", policy);
    let path = run.path("policy.yaml");
    cluster.judgment(run.args(["-o", "json", "--policy", path.to_str().unwrap()]).args(options).run())
}

#[test]
fn what_a_policy_requires_gates_the_run() {
    let cluster = requiring(REQUIRE);
    let healthy = with_policy(&cluster, REQUIRE, &[]);
    assert_eq!(healthy.outcome.code, 0, "{healthy}");
    assert_eq!(healthy.status("policy.require"), "pass");
    let said = |judged: &Judgment| {
        let of_policy = judged.problems.iter().filter(|it| it.check == "policy.require");
        of_policy.map(|it| format!("{} {}", it.target, it.reason)).collect::<Vec<_>>()
    };
    put_backup(&cluster, -30 * 3600);
    let old = with_policy(&cluster, REQUIRE, &[]);
    assert_eq!((old.outcome.code, said(&old)), (1, vec!["policy.backup requirement-unmet".to_owned()]), "{old}");
    // Each requirement is named like a check.
    for (options, code) in [
        (&["--skip", "policy.backup"][..], 0),
        (&["--warn-only", "policy.backup"], 0),
        (&["--warn-only", "policy.storage"], 1),
        (&["--check", "policy.storage"], 0),
        (&["--check", "policy.backup"], 1),
        (&["--check", "policy.require"], 1),
        (&["--check", "k8s.dns,policy.storage"], 0),
        // Several names form a union.
        (&["--check", "policy.*,policy.storage"], 1),
        (&["--check", "policy,policy.storage"], 1),
        (&["--check", "*,policy.storage"], 1),
    ] {
        let judged = with_policy(&cluster, REQUIRE, options);
        assert_eq!(judged.outcome.code, code, "{options:?}: {judged}");
        assert!(judged.report["weakened"].to_string().contains(options[1]), "{options:?}: {judged}");
    }
    // The backup is suddenly a day old by the cluster's clock.
    put_backup(&cluster, -3600);
    cluster.change(|world| world.clock_ahead = 2 * DAY);
    let ahead = with_policy(&cluster, REQUIRE, &["--no-talos", "--check", "policy.require"]);
    assert_eq!(said(&ahead), ["policy.backup requirement-unmet"], "{ahead}");
}

#[test]
fn what_cannot_be_read_meets_no_requirement() {
    let odd = "apiVersion: cluster-health/v1
require:
  - {id: ceph, resource: cephclusters.ceph.rook.io, namespace: rook-ceph, for: current, severity: warn}
  - {id: no-namespace, resource: pods, for: condition=Ready, allowNone: true}
  - {id: namespace, resource: nodes, namespace: default, for: condition=Ready, allowNone: true}
";
    let cluster = requiring(odd);
    let judged = with_policy(&cluster, odd, &["--check", "policy.require"]);
    assert_eq!(judged.outcome.code, 69, "{judged}");
    assert!(judged.problems.iter().all(|it| it.reason == "kind-not-served"), "{judged}");
    assert_eq!(judged.problems.len(), 3, "{judged}");
    // The rights that `rbac --policy` prints are missing.
    let refused = requiring(odd);
    let judged = with_policy(&refused, REQUIRE, &["--check", "policy.require"]);
    assert_eq!(judged.outcome.code, 77, "{judged}");
    assert!(judged.report["checks"].to_string().contains("cluster-health rbac --policy FILE"), "{judged}");
    // A server that ignores the query ignores the name, if the rights are wider than needed.
    let cluster = requiring(REQUIRE);
    put_backup(&cluster, -3600);
    cluster.change(|world| {
        world.kubernetes.reader.iter_mut().for_each(|rule| rule.resource_names.clear());
        let other = json!({"metadata": {"name": "other", "namespace": "kube-system"}});
        world.kubernetes.put("cronjobs.batch", other);
        world.call_faults.push(CallFault::all("/apis/batch/v1/namespaces*", Misbehavior::WithoutQuery));
    });
    let judged = with_policy(&cluster, REQUIRE, &["--check", "policy.backup"]);
    assert_eq!(judged.outcome.code, 69, "{judged}");
    for does in [
        Misbehavior::Fail { code: 500, text: "it broke".to_owned() },
        Misbehavior::Garbage,
        Misbehavior::Empty,
        Misbehavior::Endless,
    ] {
        let cluster = requiring(REQUIRE);
        cluster.change(|world| world.call_faults.push(CallFault::all("/apis/batch/v1/namespaces*", does.clone())));
        let judged = with_policy(&cluster, REQUIRE, &["--check", "policy.backup"]);
        assert!([1, 69].contains(&judged.outcome.code), "{does:?}: {judged}");
    }
}

#[test]
fn a_requirement_is_a_test_case_of_its_own() {
    let cluster = requiring(REQUIRE);
    put_backup(&cluster, -30 * 3600);
    let run = cluster.program().file("policy.yaml", REQUIRE);
    let path = run.path("policy.yaml");
    let outcome = run.args(["-o", "junit", "--policy", path.to_str().unwrap()]).run();
    for expected in
        [r#"<testcase name="policy.backup" classname="cluster-health.policy""#, r#"<testcase name="policy.storage" "#]
    {
        assert!(outcome.stdout.contains(expected), "{}", outcome.stdout);
    }
    assert!(!outcome.stdout.contains(r#"name="policy.require""#), "{}", outcome.stdout);
}

/// A glob selects everything that it matches, as for names of checks.
#[test]
fn a_glob_leaves_out_what_it_fits() {
    let cluster = requiring(REQUIRE);
    let run = cluster.program().file("policy.yaml", REQUIRE);
    let path = run.path("policy.yaml");
    let outcome = run.args(["-o", "junit", "--skip", "policy.b*", "--policy", path.to_str().unwrap()]).run();
    assert!(outcome.stdout.contains(r#"name="policy.storage""#), "{}", outcome.stdout);
    assert!(!outcome.stdout.contains(r#"<testcase name="policy.backup""#), "{}", outcome.stdout);
}

#[test]
fn names_of_requirements_are_known_before_anybody_is_asked() {
    for (options, words) in [
        (
            &["--check", "policy.backups"][..],
            &["`--check policy.backups` is neither a check nor a requirement", "the nearest is `policy.backup`"][..],
        ),
        (&["--skip", "policy.nothing"], &["`--skip policy.nothing` is neither"]),
        (&["--skip", "policy.no*"], &["policy.no*"]),
        (
            &["--skip", "policy.b*", "--check", "policy.backup"],
            &["`policy.backup` is required by one option and left out by another"],
        ),
        // A glob selects only the checks that other options leave, which is none here.
        (&["--skip", "policy.b*", "--skip", "policy.s*", "--check", "policy.*"], &["policy.*"]),
        (
            &["--skip", "policy.backup", "--check", "policy.backup"],
            &["`policy.backup` is required by one option and left out by another"],
        ),
        (&["--warn-only", "policy.backup", "--fail-on", "policy.backup"], &["cannot be in both"]),
        (&["--no-kubernetes"], &["the policy needs the check policy.require, which is excluded by --no-kubernetes"]),
    ] {
        let run = program().file("policy.yaml", REQUIRE);
        let path = run.path("policy.yaml");
        run.args(options).args(["--policy", path.to_str().unwrap()]).run().is(2, words);
    }
    program().args(["--check", "policy.require"]).run().is(2, &["`policy.require` runs only with `--policy`"]);
}
