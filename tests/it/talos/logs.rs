//! `--evidence logs`: the last log lines of failed services and static pods.

use serde_json::json;
use simulator::world::{CallFault, Misbehavior};

use super::SHORT;
use crate::cluster::{Cluster, cluster};

const LOGS: [&str; 2] = ["--evidence", "logs"];

/// Returns node, source, lines and the reason for missing lines of all logs in the report.
fn logs(cluster: &Cluster, arguments: &[&str]) -> Vec<(String, String, Vec<String>, Option<String>)> {
    let judged = cluster.run(arguments);
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    let evidence = judged.report["evidence"].as_array().unwrap();
    let lines = |of: &serde_json::Value| of.as_array().unwrap().iter().filter_map(text).collect();
    let entry = |log: &serde_json::Value| {
        (text(&log["node"]).unwrap(), text(&log["source"]).unwrap(), lines(&log["lines"]), text(&log["missing"]))
    };
    evidence.iter().map(entry).collect()
}

#[test]
fn a_kubelet_that_crashes_tells_why() {
    let cluster = cluster();
    let said = ["started\u{1b}[31m", "password=hunter2", "::error::failed to run"].map(str::to_owned);
    cluster.change(|world| {
        world.kubelet_crash("worker-1");
        world.machine_mut("worker-1").logs.insert("kubelet".to_owned(), said.to_vec());
    });
    let shown = ["started", "password ***", ": :error::failed to run"].map(str::to_owned).to_vec();
    assert_eq!(logs(&cluster, &LOGS), [("worker-1".to_owned(), "service kubelet".to_owned(), shown, None)]);
    assert_eq!(logs(&cluster, &[]), [], "nobody asked for it");
    let text = cluster.program().args(LOGS).run();
    assert!(text.stdout.contains("Last log lines of service kubelet on worker-1:\n  | started\n"), "{text}");
    // The line also appears next to the cause, and in the last lines.
    for label in ["  log       ", "last log     "] {
        assert!(text.stdout.contains(&format!("\n{label}kubelet: : :error::failed to run\n")), "{label}: {text}");
    }
}

#[test]
fn a_container_of_a_static_pod_tells_why() {
    let cluster = cluster();
    cluster.change(|world| {
        world.scheduler_broken("cp-2");
        let id = "kube-system/kube-scheduler-cp-2:kube-scheduler".to_owned();
        world.machine_mut("cp-2").logs.insert(id, vec!["unknown flag: --nope".to_owned()]);
    });
    let found = logs(&cluster, &LOGS);
    let [(node, source, lines, None)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((node.as_str(), source.as_str()), ("cp-2", "container kube-scheduler of kube-scheduler-cp-2"));
    assert_eq!(*lines, ["unknown flag: --nope"]);
}

/// The kubelet's message about a manifest appears next to the cause, no matter how much it has logged since; so does
/// Talos's own.
#[test]
fn who_should_have_made_a_static_pod_tells_why() {
    let cluster = cluster();
    let rejected = r#"{"ts":1,"msg":"Could not process manifest file","path":"/etc/kubernetes/manifests/talos-default-own.yaml","err":"invalid pod: [spec.containers: Required value]"}"#;
    let of_another = rejected.replace("default-own", "default-other");
    let noise = (0..50).map(|n| format!("I1128 noise {n}"));
    let said: Vec<String> = [rejected.to_owned(), of_another].into_iter().chain(noise).collect();
    cluster.change(|world| {
        world.machine_mut("cp-2").logs.insert("kubelet".to_owned(), said);
        let own =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "own", "namespace": "default"}, "spec": {}});
        world.machine_mut("cp-2").resources.put("StaticPods.kubernetes.talos.dev", "default-own", own);
    });
    let sources: Vec<_> = logs(&cluster, &LOGS).into_iter().map(|(node, source, ..)| (node, source)).collect();
    let of = |source: &str| ("cp-2".to_owned(), source.to_owned());
    assert_eq!(sources, [of("service kubelet"), of("controller-runtime")]);
    let text = cluster.program().args(LOGS).run();
    let line = "kubelet: Could not process manifest file: /etc/kubernetes/manifests/talos-default-own.yaml: invalid pod: \
[spec.containers: Required value] (the kubelet rejects the manifest)";
    for label in ["  log       ", "last log     "] {
        assert!(text.stdout.contains(&format!("\n{label}{line}\n")), "{label}: {text}");
    }
}

#[test]
fn a_log_that_cannot_be_read_says_so_and_changes_nothing() {
    for does in [
        Misbehavior::Fail { code: 7, text: "not authorized".to_owned() },
        Misbehavior::Empty,
        Misbehavior::Garbage,
        Misbehavior::Endless,
        Misbehavior::Hang,
    ] {
        let cluster = cluster();
        cluster.change(|world| {
            world.kubelet_crash("worker-1");
            world.call_faults.push(CallFault::all("Logs", does.clone()));
        });
        let without = cluster.run(&SHORT);
        let with = cluster.run(&[LOGS, SHORT].concat());
        assert_eq!(with.report["exitCode"], without.report["exitCode"], "{does:?}");
        assert_eq!(with.problems, without.problems, "{does:?}");
        let log = &with.report["evidence"][0];
        assert_eq!(log["lines"], serde_json::json!([]), "{does:?}");
        assert!(log["missing"].as_str().is_some_and(|why| !why.is_empty()), "{does:?}: {log}");
    }
}
