//! `upgrade-plan`: the state of each machine in the simulated cluster, and the message that a pod leaves behind.

use serde_json::{Value, json};
use simulator::world::Shape;

use crate::cluster::{Cluster, cluster};
use crate::harness::{Outcome, program};

const TALOS: [&str; 3] = ["upgrade-plan", "--upgrade-talos", "v1.13.1"];

fn run(cluster: &Cluster, options: &[&str]) -> Outcome {
    cluster.program().args(TALOS).args(["--attempt-timeout", "60s"]).args(options).run()
}

/// Returns the document, with name and state of each machine.
fn plan(cluster: &Cluster, code: i32, options: &[&str]) -> (Value, Vec<(String, String)>) {
    let outcome = run(cluster, &[&["-o", "json"], options].concat());
    assert_eq!(outcome.code, code, "{outcome}");
    let document = outcome.json();
    assert_eq!((&document["exitCode"], &document["complete"]), (&code.into(), &(code == 0).into()), "{document:#}");
    let text = |machine: &Value, key: &str| machine[key].as_str().unwrap().to_owned();
    let states = document["machines"].as_array().unwrap().iter();
    let states = states.map(|it| (text(it, "name"), text(it, "state"))).collect();
    (document, states)
}

fn machine<'a>(document: &'a Value, name: &str) -> &'a Value {
    document["machines"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap()
}

fn state(document: &Value, name: &str) -> String {
    machine(document, name)["state"].as_str().unwrap().to_owned()
}

fn runs(cluster: &Cluster, name: &str, version: &str) {
    cluster.change(|world| world.machine_mut(name).talos = Some(version.parse().unwrap()));
}

fn boot_id(document: &Value, name: &str) -> String {
    machine(document, name)["bootId"].as_str().unwrap().to_owned()
}

/// The current etcd is too old for the target's etcd.
#[test]
fn a_release_in_between_is_named() {
    let cluster = cluster();
    let planned = || {
        let options = ["upgrade-plan", "--upgrade-talos", "v1.14.1", "--attempt-timeout", "60s", "-o", "json"];
        let outcome = cluster.program().args(options).run();
        (outcome.code, outcome.json())
    };
    let (code, document) = planned();
    assert_eq!((code, &document["complete"]), (1, &false.into()), "{document:#}");
    assert_eq!(document["stops"], json!([{"talos": "v1.13.10", "etcd": "3.6.14"}]));
    let reason = document["exitReason"].as_str().unwrap();
    assert!(reason.starts_with("Talos v1.13.10 (etcd 3.6.14) has to come before Talos v1.14.1"), "{reason}");
    for name in ["cp-1", "cp-2", "cp-3"] {
        runs(&cluster, name, "1.13.10");
        cluster.change(|world| {
            world.change_member(name, |member| member.version = "3.6.14".into());
            let image = json!("registry.k8s.io/etcd:v3.6.14");
            world.machine_mut(name).resources.edit("EtcdSpecs.etcd.talos.dev", "etcd", |spec| spec["image"] = image);
        });
    }
    let (code, document) = planned();
    assert_eq!((code, &document["stops"]), (0, &json!([])), "{document:#}");
}

#[test]
fn machines_come_in_order_with_what_they_run() {
    let cluster = cluster();
    runs(&cluster, "cp-2", "1.13.1");
    cluster.change(|world| {
        world.machine_mut("worker-1").resources.put(
            "ExtensionStatuses.runtime.talos.dev",
            "0",
            json!({"image": "", "metadata": {"name": "schematic", "version": "376567988ad3"}}),
        );
        world.cordon("worker-1");
    });
    let (document, states) = plan(&cluster, 0, &["--upgrade-kubernetes", "1.36.4"]);
    // cp-1 is the leader.
    let expected = [("cp-2", "done"), ("cp-3", "to-do"), ("cp-1", "to-do"), ("worker-1", "to-do")];
    assert_eq!(states, expected.map(|(name, state)| (name.to_owned(), state.to_owned())));
    assert_eq!(machine(&document, "cp-1")["leader"], true);
    let worker = machine(&document, "worker-1");
    for (key, expected) in [
        ("role", json!("worker")),
        ("version", json!("v1.13.0")),
        ("kubelet", json!("v1.35.4")),
        ("cordoned", json!(true)),
        ("schematic", json!("376567988ad3")),
        ("installed", Value::Null),
        ("address", json!(cluster.address("worker-1").to_string())),
    ] {
        assert_eq!(worker[key], expected, "{key}: {document:#}");
    }
    assert_eq!(document["kubernetes"], json!({"version": "v1.36.4", "state": "to-do"}));
    let (_, states) = plan(&cluster, 0, &["--first", "workers"]);
    assert_eq!((states[0].0.as_str(), states[3].0.as_str()), ("worker-1", "cp-1"));
    run(&cluster, &[]).is(
        0,
        &["Talos v1.13.1: 1 of 4 machines done; next: cp-3", "control plane, etcd leader", "cordoned; runs v1.13.0"],
    );
    let tsv = run(&cluster, &["-o", "tsv", "-q"]);
    tsv.is(0, &["node\taddress\trole\tleader\tversion"]);
    assert_eq!((tsv.stdout.lines().count(), tsv.stderr.as_str()), (5, ""));
    assert!(tsv.stdout.lines().all(|line| line.split('\t').count() == 21), "{tsv}");
}

/// Identifies the cluster and the connection to it, so that another tool with the same settings reaches the same
/// cluster.
#[test]
fn a_plan_names_its_cluster_and_the_way_to_it() {
    let cluster = cluster();
    let of = |cluster: &Cluster, options: &[&str]| {
        let (document, _) = plan(cluster, 0, options);
        document["cluster"].clone()
    };
    let found = of(&cluster, &[]);
    assert!(found["talos"].as_str().unwrap().ends_with('='), "{found}");
    assert_eq!(found["kubernetes"].as_str().unwrap().len(), 36, "{found}");
    for (key, end) in [("talosconfig", "/.talos/config"), ("kubeconfig", "/.kube/config")] {
        let path = found[key].as_str().unwrap();
        assert!(path.starts_with('/') && path.ends_with(end), "{found}");
    }
    assert_eq!((&found["talosContext"], &found["kubeContext"]), (&json!("simulated"), &json!("reader@simulated")));
    assert_eq!((found["talosEndpoints"].as_array().unwrap().len(), &found["kubeServer"]), (3, &Value::Null));
    let at = format!("{}:50000", cluster.address("cp-2"));
    let server = format!("https://{}:6443", cluster.address("cp-3"));
    let one = of(&cluster, &["--endpoints", &at, "--k8s-endpoint", &server]);
    assert_eq!((&one["talosEndpoints"], &one["kubeServer"]), (&json!([at]), &json!(server)));
    assert_eq!((&one["talos"], &one["kubernetes"]), (&found["talos"], &found["kubernetes"]));
    // A fact that cannot be read is unknown, and if Talos has no ID, the CA stands in for it.
    cluster.change(|world| {
        world.kubernetes.reader.retain(|rule| rule.resource_names.is_empty());
        for machine in world.machines.values_mut() {
            machine.resources.put("Infos.cluster.talos.dev", "current", json!({"clusterId": "", "clusterName": ""}));
        }
    });
    let less = of(&cluster, &[]);
    assert_eq!(less["kubernetes"], Value::Null);
    assert!(less["talos"].as_str().unwrap().starts_with("ca-sha256:"), "{less}");
    cluster.change(|world| {
        let worker = world.machine_mut("worker-1");
        worker.resources.put("Infos.cluster.talos.dev", "current", json!({"clusterId": "another", "clusterName": ""}));
    });
    assert_eq!(of(&cluster, &[])["talos"], Value::Null);
}

#[test]
fn each_machine_gets_the_image_of_its_own_schematic() {
    let cluster = cluster();
    let (names, id) = (["cp-1", "cp-2", "cp-3", "worker-1"], |name: &str| format!("5c{name}"));
    let has_schematic = |name: &str| {
        let spec = json!({"image": "", "metadata": {"name": "schematic", "version": id(name)}});
        cluster.change(|world| {
            world.machine_mut(name).resources.put("ExtensionStatuses.runtime.talos.dev", "0", spec);
        });
    };
    names[..3].iter().copied().for_each(has_schematic);
    let factory = |schematic: &str| format!("factory.example/metal-installer/{schematic}:v1.13.1");
    let options = ["--image", &factory("{schematic}")];

    // The machine could not be upgraded, so the plan is incomplete.
    let (document, _) = plan(&cluster, 69, &options);
    assert_eq!(machine(&document, "cp-1")["image"], factory(&id("cp-1")));
    assert_eq!(machine(&document, "worker-1")["image"], Value::Null);
    run(&cluster, &options).is(69, &["to install: unknown, as no schematic was reported", "reports no schematic"]);
    runs(&cluster, "worker-1", "1.13.1");
    plan(&cluster, 0, &options);
    runs(&cluster, "worker-1", "1.13.0");

    has_schematic("worker-1");
    let (document, _) = plan(&cluster, 0, &options);
    for name in names {
        assert_eq!(machine(&document, name)["image"], factory(&id(name)));
    }
    run(&cluster, &options).is(0, &[&format!("runs v1.13.0; to install: {}", factory(&id("worker-1")))]);
    let one = ["--image", "registry.example/installer:v1.13.1"];
    assert_eq!(machine(&plan(&cluster, 0, &one).0, "cp-2")["image"], one[1]);
    assert_eq!(machine(&plan(&cluster, 0, &[]).0, "cp-2")["image"], Value::Null);
    run(&cluster, &["--image", "registry.example/installer:v1.13.2"]).is(2, &["the tag of `--image` is `v1.13.2`"]);
}

#[test]
fn a_machine_that_does_not_answer_is_never_done() {
    let cluster = cluster();
    for name in ["cp-1", "cp-2", "cp-3", "worker-1"] {
        runs(&cluster, name, "1.13.1");
    }
    plan(&cluster, 0, &[]);
    cluster.change(|world| world.power_off("worker-1"));
    let (document, _) = plan(&cluster, 1, &[]);
    assert_eq!((state(&document, "worker-1"), state(&document, "cp-1")), ("unknown".to_owned(), "done".to_owned()));
    assert_eq!(machine(&document, "worker-1")["version"], Value::Null);
    run(&cluster, &[]).is(1, &["talos.nodes.reachable", "no answer from the Talos API"]);
}

/// The source is machined's log, which os:reader may read, with the messages of Talos 1.13 and 1.14.
#[test]
fn an_installation_that_waits_for_a_reboot_is_seen() {
    let cluster = cluster();
    let image = "factory.example/metal-installer/376567988ad3:v1.13.1";
    let begun = [
        format!("[talos] 2026/11/23 18:00:00 starting upgrade: installer_image={image}, disk=/dev/sda"),
        format!(
            r#"2026-11-23T18:00:00Z INFO starting upgrade {{"component": "machined", "installer_image": "{image}", "disk": "/dev/sda"}}"#
        ),
    ];
    for begun in begun {
        let log = |lines: &[&str]| {
            let lines = lines.iter().map(|line| (*line).to_owned()).collect();
            cluster.change(|world| world.machine_mut("cp-2").logs.insert("machined".to_owned(), lines));
            plan(&cluster, 0, &[]).0
        };
        let document = log(&[&begun]);
        assert_eq!(state(&document, "cp-2"), "to-do");
        let document = log(&[&begun, "upgrade completed: exit_code=0", "more"]);
        assert_eq!(state(&document, "cp-2"), "installed-not-rebooted");
        assert_eq!(machine(&document, "cp-2")["installed"], image);
    }
}

#[test]
fn who_has_upgraded_sees_what_fell_back() {
    let cluster = cluster();
    let (document, _) = plan(&cluster, 0, &[]);
    let upgraded = format!("worker-1={}", boot_id(&document, "worker-1"));
    let (document, _) = plan(&cluster, 0, &["--upgraded", &upgraded]);
    assert_eq!(state(&document, "worker-1"), "to-do", "it has not booted since");
    let booted = json!({"status": {"nodeInfo": {"bootID": "another"}}});
    cluster.change(|world| world.kubernetes.merge("nodes", None, "worker-1", &booted));
    let (document, _) = plan(&cluster, 1, &["--upgraded", &upgraded]);
    assert_eq!(state(&document, "worker-1"), "fell-back");
    assert_eq!(state(&plan(&cluster, 0, &[]).0, "worker-1"), "to-do", "of a boot alone nothing follows");
    runs(&cluster, "worker-1", "1.13.1");
    assert_eq!(state(&plan(&cluster, 0, &["--upgraded", &upgraded]).0, "worker-1"), "done");
}

/// The rights of `os:reader` and of the ClusterRole without `--upgrade` are sufficient.
#[test]
fn without_kubernetes_or_etcd_the_plan_is_not_complete() {
    let cluster = cluster();
    let nothing =
        program().talosconfig(&cluster.talosconfig).args(TALOS).args(["-o", "json", "--attempt-timeout", "60s"]).run();
    assert!([69, 77, 78].contains(&nothing.code), "{nothing}");
    assert_eq!(nothing.json()["complete"], false);
    cluster.change(|world| {
        for name in ["cp-2", "cp-3"] {
            world.etcd_stop(name);
        }
    });
    let outcome = run(&cluster, &["-o", "json"]);
    assert_ne!(outcome.code, 0, "{outcome}");
    assert!(outcome.json()["machines"].as_array().unwrap().iter().all(|it| it["leader"] == false), "{outcome}");
}

#[test]
fn what_is_typed_wrong_is_a_usage_error() {
    for arguments in [
        &["upgrade-plan"][..],
        &["upgrade-plan", "--upgrade-talos", "1.14"],
        &["upgrade-plan", "--upgrade-talos", "v1.14.1", "--upgraded", "cp-1"],
        &["upgrade-plan", "--upgrade-talos", "v1.14.1", "--first", "leader"],
        &["upgrade-plan", "--upgrade-talos", "v1.14.1", "--no-talos"],
        &["upgrade-plan", "--upgrade-talos", "v1.14.1", "--no-kubernetes"],
        &["upgrade-plan", "--upgrade-talos", "v1.14.1", "-o", "junit"],
    ] {
        let outcome = program().args(arguments).run();
        assert_eq!(outcome.code, 2, "{arguments:?}: {outcome}");
    }
    let missing = program().args(TALOS).args(["--talosconfig", "/nowhere"]).run();
    assert_eq!(missing.code, 78, "{missing}");
    // In CI, a variable without a value exists but is empty.
    let empty = program().env("CLUSTER_HEALTH_CONTEXT", "").env("CLUSTER_HEALTH_TALOSCONFIG", "").args(TALOS).run();
    assert_eq!(empty.code, 78, "{empty}");
}

/// Sets the variables that a rollout sets for its gates.
#[test]
fn variables_of_gates_do_not_disturb_a_plan() {
    let cluster = cluster();
    let run = cluster.program().args(TALOS).env("CLUSTER_HEALTH_ATTEMPT_TIMEOUT", "60s");
    let variables = [("STABLE_FOR", "1m"), ("SKIP", "etcd"), ("OUTPUT", "junit"), ("NODES", "cp-1"), ("DRAIN", "cp-1")];
    let run = variables.into_iter().fold(run, |run, (name, value)| run.env(&format!("CLUSTER_HEALTH_{name}"), value));
    run.run().is(0, &["0 of 4 machines done"]);
}

#[test]
fn a_cluster_of_one_has_an_order_too() {
    let cluster = Cluster::of(&Shape { control_planes: 1, ..Shape::default() });
    let (_, states) = plan(&cluster, 0, &[]);
    assert_eq!(states[0].0, "cp-1");
}

const MESSAGE: &str = "termination-log";

#[test]
fn a_run_leaves_its_cause_where_kubernetes_looks() {
    let cluster = cluster();
    let message = |before: Option<&str>| {
        let mut run = cluster.program().env("CLUSTER_HEALTH_ATTEMPT_TIMEOUT", "60s");
        if let Some(before) = before {
            run = run.file(MESSAGE, before);
        }
        let path = run.path(MESSAGE);
        let (outcome, home) = run.env("CLUSTER_HEALTH_TERMINATION_LOG", path).run_and_keep();
        let text = std::fs::read_to_string(home.path().join(MESSAGE)).unwrap();
        assert!(text.len() <= 4096 && text.lines().next().unwrap().len() <= 256, "{text}");
        (outcome.code, text)
    };
    let (code, text) = message(None);
    assert!(code == 0 && text.starts_with("healthy: "), "{text}");
    cluster.change(|world| world.power_off("cp-2"));
    let (code, text) = message(Some(&"x".repeat(9000)));
    let first = text.lines().next().unwrap();
    assert!(code == 1 && first.starts_with("unhealthy: ") && first.contains("cp-2"), "{text}");
    assert!(text.contains("first step") && !text.contains("xxx"), "{text}");
}

#[test]
fn a_message_that_cannot_be_written_changes_nothing() {
    let cluster = cluster();
    for place in ["/nowhere/at/all", "/", "/dev/full"] {
        let run = cluster.program().args(["--attempt-timeout", "60s", "--termination-log", place]).run();
        assert_eq!(run.code, 0, "{place}: {run}");
    }
    // Configuration errors are included as well.
    let broken = program().talosconfig("a: [").file(MESSAGE, "");
    let path = broken.path(MESSAGE);
    let (outcome, home) = broken.env("CLUSTER_HEALTH_TERMINATION_LOG", path).run_and_keep();
    assert_eq!(outcome.code, 78, "{outcome}");
    let text = std::fs::read_to_string(home.path().join(MESSAGE)).unwrap();
    assert!(text.starts_with("error: "), "{text}");
}

/// Scripts pass these paths and names to other tools. A modified one could lead to another cluster.
#[test]
fn paths_and_names_are_handed_on_as_they_are_or_not_at_all() {
    let cluster = cluster();
    let run = |name: &str| {
        let program = cluster.program();
        let program = program.file(name, cluster.kubeconfig());
        let path = program.path(name);
        let outcome =
            program.args(TALOS).args(["--attempt-timeout", "60s", "-o", "tsv", "--kubeconfig"]).args([&path]).run();
        (path.to_str().unwrap().to_owned(), outcome)
    };
    let long = "folder-with-a-long-name/".repeat(60) + "config";
    for name in ["kube  config", "token=a8f5f167f44f4964e6c998dee827110c", "a:b", &long] {
        let (path, outcome) = run(name);
        outcome.is(0, &[]);
        assert!(outcome.stdout.lines().skip(1).all(|line| line.contains(&format!("\t{path}\t"))), "{path}: {outcome}");
    }
    for name in ["a\tb", "a\u{1b}[2Jb", "a\u{fffd}", "##vso[task.complete]"] {
        let (_, outcome) = run(name);
        outcome.is(78, &["cannot be passed on as it is"]);
    }
}
