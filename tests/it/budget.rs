//! The cost of a healthy run, and the trace that shows it.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;
use simulator::world::{Server, Shape, Transport};

use crate::cluster::{Cluster, cluster, with_user};
use crate::harness::code;

/// The budget, which `make perf` reads as well.
fn budget() -> toml::Table {
    include_str!("../../perf/budget.toml").parse().unwrap()
}

fn of(section: &str, name: &str) -> u64 {
    budget()[section][name].as_integer().unwrap().try_into().unwrap()
}

/// Returns the spans of a trace, each with its attributes.
fn spans(trace: &str) -> Vec<(Value, BTreeMap<String, String>)> {
    let document: Value = serde_json::from_str(trace).unwrap();
    let spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let text = |value: &Value| value.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned();
    let attributes = |span: &Value| {
        let all = span["attributes"].as_array().unwrap().iter();
        all.map(|it| (it["key"].as_str().unwrap().to_owned(), text(&it["value"]))).collect()
    };
    spans.iter().map(|span| (span.clone(), attributes(span))).collect()
}

#[test]
fn a_healthy_run_keeps_within_its_budget() {
    for workers in [0, 7] {
        let cluster = Cluster::of(&Shape { control_planes: 3, workers, ..Shape::default() });
        let (run, home) = cluster.program().args(["--attempt-timeout", "60s", "--trace", "trace.json"]).run_and_keep();
        assert_eq!(run.code, 0, "{}", run.stderr);
        let mut talos: BTreeMap<Server, u64> = BTreeMap::new();
        let mut api_servers = 0;
        for count in cluster.simulator().calls().counts() {
            match count.server {
                server @ Server::Apid(_) => *talos.entry(server).or_default() += count.times,
                Server::ApiServer(_) => api_servers += count.times,
                _ => {}
            }
        }
        assert_eq!(talos.len(), 3 + workers);
        for (index, (server, calls)) in talos.iter().enumerate() {
            let most = of("calls", if index < 3 { "control-plane" } else { "worker" });
            assert!(*calls <= most, "{server:?}: {calls} calls: {:#?}", cluster.simulator().calls().counts());
        }
        assert!(api_servers <= of("calls", "api-servers"), "{api_servers} requests to API servers");
        let mut connections: BTreeMap<String, u64> = BTreeMap::new();
        let trace = std::fs::read_to_string(home.path().join("trace.json")).unwrap();
        for (span, at) in spans(&trace) {
            if span["name"].as_str().unwrap().starts_with("TLS ") && at["server.port"] == "6443" {
                *connections.entry(at["server.address"].clone()).or_default() += 1;
            }
        }
        assert!(!connections.is_empty());
        assert!(connections.values().all(|it| *it <= of("connections", "api-server")), "{connections:?}");
    }
}

/// A wait queries only the facts that prevent success, and everything once more before a success.
#[test]
fn a_wait_asks_what_was_not_well() {
    const ASKED: u64 = 40;
    let cluster = Cluster::of(&Shape { control_planes: 3, workers: 7, ..Shape::default() });
    cluster.change(|world| world.stop_service("worker-1", "kubelet"));
    let started = serde_json::json!({"end": "stop-service", "node": "worker-1", "service": "kubelet"});
    cluster.when_asked(started, "worker-1", "ServiceList", ASKED);
    let waiting = ["--wait-timeout", "10m", "--interval", "100ms", "--attempt-timeout", "60s", "--trace", "trace.json"];
    let (run, home) = cluster.program().args(waiting).run_and_keep();
    assert_eq!(run.code, 0, "{}", run.stderr);
    let rounds = cluster.asked("worker-2", "ServiceList");
    assert!(cluster.asked("worker-1", "ServiceList") >= ASKED);
    // Three, one after 24 others, and the ones that saw the recovery.
    assert!((5..=8).contains(&rounds), "{rounds} rounds asked everything");
    let counts = cluster.simulator().calls().counts();
    let requests: u64 = counts.iter().filter(|it| matches!(it.server, Server::ApiServer(_))).map(|it| it.times).sum();
    assert!(requests <= rounds * of("calls", "api-servers") + ASKED, "{requests}: {counts:#?}");
    let trace = std::fs::read_to_string(home.path().join("trace.json")).unwrap();
    let connected = spans(&trace)
        .iter()
        .filter(|(span, at)| span["name"].as_str().unwrap().starts_with("TLS ") && at["server.port"] == "6443")
        .count();
    assert!(connected as u64 <= rounds * 4, "{connected} connections to API servers");
}

/// Machines in the configuration are queried without waiting for others: one round trip each.
#[test]
fn kubelets_of_control_planes_do_not_wait_for_discovery() {
    let cluster = Cluster::of(&Shape { control_planes: 3, workers: 1, ..Shape::default() });
    let (run, home) = cluster.program().args(["--attempt-timeout", "60s", "--trace", "trace.json"]).run_and_keep();
    assert_eq!(run.code, 0, "{}", run.stderr);
    let spans = spans(&std::fs::read_to_string(home.path().join("trace.json")).unwrap());
    let begun = |is_it: &dyn Fn(&str, &BTreeMap<String, String>) -> bool| -> Vec<u64> {
        let found = spans.iter().filter(|(span, at)| is_it(span["name"].as_str().unwrap(), at));
        found.map(|(span, _)| span["startTimeUnixNano"].as_str().unwrap().parse().unwrap()).collect()
    };
    let discovery = *begun(&|name, _| name.ends_with(" Members")).iter().min().unwrap();
    let kubelets = begun(&|name, at| name.starts_with("TCP ") && at["server.port"] == "10250");
    assert_eq!(kubelets.len(), 4, "each once");
    assert_eq!(kubelets.iter().filter(|at| **at < discovery).count(), 3);
}

#[test]
fn a_trace_belongs_to_its_parent_and_has_calls_with_their_ends() {
    let cluster = cluster();
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let program = cluster.program().args(["--attempt-timeout", "60s", "--trace", "a/trace.json"]);
    let (run, home) = program.env("TRACEPARENT", parent).run_and_keep();
    assert_eq!(run.code, 0, "{}", run.stderr);
    let trace = std::fs::read_to_string(home.path().join("a/trace.json")).unwrap();
    let spans = spans(&trace);
    let (root, _) = &spans[0];
    assert_eq!((&root["traceId"], &root["parentSpanId"]), (&parent[3..35].into(), &parent[36..52].into()));
    for (name, has_answer) in
        [("TLS ", false), ("Get MachineStatuses", true), ("Version", true), ("GET /api/v1/nodes", true)]
    {
        let found = spans.iter().find(|(span, _)| span["name"].as_str().unwrap().starts_with(name));
        let (span, at) = found.unwrap_or_else(|| panic!("{name}: {trace}"));
        let time = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
        assert!(time("startTimeUnixNano") < time("endTimeUnixNano"), "{span}");
        assert_eq!((&span["traceId"], &span["status"]["code"]), (&root["traceId"], &1.into()));
        assert_eq!(at.get("response.body.size").is_some_and(|it| it != "0"), has_answer, "{span}");
    }
}

/// Returns all values in the file that are long enough to be a key.
fn secrets(file: &str) -> impl Iterator<Item = &str> {
    let values = file.lines().filter_map(|line| line.split_once(": ").map(|(_, value)| value.trim_matches('"')));
    values.filter(|value| value.len() > 40)
}

#[test]
fn a_trace_holds_no_credentials() {
    let cluster = cluster();
    let token = "s3cret-token-of-a-service-account-that-nobody-knows";
    let kubeconfig = cluster.kubeconfig();
    let with_token = with_user(kubeconfig, &format!("{{token: {token}}}"));
    for kubeconfig in [kubeconfig, &with_token] {
        let program = cluster.program().file("kubeconfig", kubeconfig);
        let program = program.args(["--kubeconfig", "kubeconfig", "--attempt-timeout", "60s", "--trace", "trace.json"]);
        let (_, home) = program.run_and_keep();
        let trace = std::fs::read_to_string(home.path().join("trace.json")).unwrap();
        assert!(trace.contains("GET /readyz"), "{trace}");
        let all: Vec<_> = secrets(&cluster.talosconfig).chain(secrets(kubeconfig)).chain([token]).collect();
        assert!(all.len() > 3, "{kubeconfig}");
        for secret in all {
            assert!(!trace.contains(&secret[..20]) && !trace.contains(secret), "{secret}");
        }
    }
}

#[test]
fn a_run_that_is_ended_leaves_its_trace() {
    let cluster = cluster();
    cluster.transport("cp-1", Transport::Silent);
    let program = cluster.program().args(["--endpoints", &cluster.address("cp-1").to_string(), "--no-kubernetes"]);
    let program = program.args(["--wait-timeout", "10m", "--trace", "trace.json"]);
    let (mut child, home) = program.spawn();
    let path = home.path().join("trace.json");
    // The trace begins before the first request.
    while !path.exists() {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(code(child.wait().unwrap()), 143);
    assert!(!spans(&std::fs::read_to_string(path).unwrap()).is_empty());
}

#[test]
fn a_trace_replaces_neither_a_report_nor_what_is_read() {
    let cluster = cluster();
    for (arguments, says) in [
        (["--trace", "x.json", "--report", "json=x.json"], "the json report and the trace are the same file: `x.json`"),
        (["--trace", ".talos/config", "--report", "json=x.json"], "the trace would overwrite an input file"),
    ] {
        cluster.program().args(arguments).run().is(2, &[says]);
    }
}
