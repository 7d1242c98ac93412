//! `report`: stored reports in other formats, and reports of several clusters combined into one.

use std::path::Path;

use crate::cluster::cluster;
use crate::harness::{Outcome, Program, program};

/// Returns reports of a healthy cluster and of one whose worker is down, as runs write them.
fn stored() -> (String, String) {
    let cluster = cluster();
    let healthy = cluster.program().args(["-o", "json", "--cluster-name", "prod-a"]).run();
    healthy.is(0, &[]);
    cluster.change(|world| world.power_off("worker-1"));
    let mut unhealthy = cluster.program().args(["-o", "json", "--cluster-name", "prod-b"]).run();
    unhealthy.is(1, &[]);
    unhealthy.stdout = other(&unhealthy.stdout, "prod-b", "b");
    (healthy.stdout, unhealthy.stdout)
}

/// Changes a report so that it appears to come from another cluster, with this name.
fn other(json: &str, name: &str, id: &str) -> String {
    let mut report: serde_json::Value = serde_json::from_str(json).unwrap();
    assert!(report["cluster"]["talosId"].as_str().unwrap().starts_with("ca-sha256:"));
    report["cluster"]["name"] = name.into();
    report["cluster"]["talosId"] = id.into();
    assert!(report["cluster"]["kubeSystemUid"].is_string());
    report["cluster"]["kubeSystemUid"] = id.into();
    format!("{report:#}")
}

fn report(files: &[(&str, &str)], options: &[&str]) -> Outcome {
    let run = files.iter().fold(program(), |run, (name, content)| run.file(name, content));
    let paths: Vec<_> = files.iter().map(|(name, _)| *name).collect();
    run.args(["report"]).args(paths).args(options).run()
}

#[test]
fn many_clusters_are_one_verdict() {
    let (healthy, unhealthy) = stored();
    let (a, b) = (("a.json", healthy.as_str()), ("b.json", unhealthy.as_str()));
    report(&[a, b], &["--expect", "prod-a,prod-b"])
        .is(1, &["unhealthy: 1 unhealthy, 1 healthy of 2 clusters, exit code 1", "prod-b: unhealthy", "worker-1"]);
    report(&[a], &["--expect", "prod-a"]).is(0, &["healthy: prod-a"]);
    // One of twenty clusters has no report.
    let names: Vec<String> = (1..=20).map(|n| format!("site-{n}")).collect();
    let present: Vec<(String, String)> =
        names[..19].iter().map(|name| (format!("{name}.json"), other(&healthy, name, name))).collect();
    let files: Vec<_> = present.iter().map(|(file, content)| (file.as_str(), content.as_str())).collect();
    let list = format!("# all of them\n\n{}\n", names.join("\n"));
    let run = files.iter().fold(program().file("sites", &list), |run, (name, content)| run.file(name, content));
    let paths: Vec<_> = files.iter().map(|(name, _)| *name).collect();
    let outcome = run.args(["report", "--expect-file", "sites"]).args(&paths).run();
    outcome.is(69, &["1 undetermined, 19 healthy of 20 clusters, exit code 69", "site-20: undetermined", "missing"]);
    report(&files, &[]).is(0, &["a cluster without a report would go unnoticed"]);
}

#[test]
fn a_merged_report_is_read_again() {
    let (healthy, unhealthy) = stored();
    let merged = report(&[("a.json", &healthy), ("b.json", &unhealthy)], &["-o", "json"]);
    assert_eq!(merged.json()["kind"], "ClusterHealthMerged");
    let both = report(&[("a.json", &healthy), ("b.json", &unhealthy)], &[]);
    let again = report(&[("merged.json", &merged.stdout)], &[]);
    assert_eq!((again.code, again.stdout), (1, both.stdout));
    for (format, words) in [
        ("junit", "classname=\"cluster-health.prod-b.run\""),
        ("markdown", "### What is wrong"),
        ("prometheus", "cluster_health_healthy{cluster=\"prod-b\"} 0"),
        ("html", "<h1>unhealthy</h1>"),
    ] {
        report(&[("merged.json", &merged.stdout)], &["-o", format]).is(1, &[words]);
    }
    report(&[("a.json", &healthy)], &["-o", "ndjson"]).is(2, &["choose another format"]);
}

#[test]
fn what_is_old_or_there_twice_does_not_count() {
    let (healthy, _) = stored();
    let a = ("a.json", healthy.as_str());
    report(&[a], &["--max-age", "1h"]).is(0, &["healthy: prod-a"]);
    report(&[a], &["--max-age", "0s"]).is(69, &["prod-a: undetermined", "old: it ended"]);
    report(&[a, ("b.json", &healthy)], &[]).is(69, &["there are 2 reports of prod-a: a.json, b.json"]);
    // A job used another cluster's credentials: two green reports, and one cluster that was never observed.
    let renamed = healthy.replace("\"prod-a\"", "\"prod-b\"");
    let outcome = report(&[a, ("b.json", &renamed)], &["--expect", "prod-a,prod-b"]);
    outcome.is(69, &["one cluster has several names: prod-a, prod-b were verified with the same Talos CA"]);
    let later = healthy.replace("\"finishedAt\": \"2", "\"finishedAt\": \"3");
    assert_ne!(later, healthy);
    report(&[("a.json", &later)], &[]).is(69, &["it is dated in the future"]);
}

/// The result is neither a success nor a wait, regardless of the path's contents, and the file is named.
#[test]
fn what_is_no_report_is_named_and_never_a_success() {
    let (healthy, _) = stored();
    let cut = &healthy[..healthy.len() / 2];
    for (content, why) in [
        (cut, "unreadable: EOF while parsing"),
        ("", "unreadable: EOF while parsing"),
        ("{\"schemaVersion\": \"2.0\", \"kind\": \"ClusterHealthReport\"}", "its schema version 2.0 is unknown"),
        (&healthy.replace("\"exitCode\": 0", "\"exitCode\": 1"), "contradicts its checks"),
        (&healthy.replace("\"complete\": true", "\"complete\": false"), "contradicts its checks"),
    ] {
        report(&[("a.json", content)], &[]).is(69, &["a.json: undetermined", why]);
    }
    let of = |run: Program, path: &Path| run.args(["report"]).args([path]).run();
    let run = program();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        run.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let pipe = run.path("pipe");
    of(run, &pipe).is(69, &["is not a regular file"]);
    of(program(), Path::new("/")).is(69, &["is not a regular file"]);
    of(program(), Path::new("/dev/zero")).is(69, &["is not a regular file"]);
    of(program(), Path::new("no-such.json")).is(69, &["no-such.json: undetermined"]);
    program().args(["report"]).run().is(2, &[]);
}
