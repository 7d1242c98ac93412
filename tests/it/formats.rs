//! Every format for every way in which a run can end: the output, and that the exit code is the same.

use std::path::Path;
use std::time::Duration;

use regex::{Captures, Regex};
use serde_json::Value;
use simulator::world::{Shape, Transport};

use crate::cluster::Cluster;
use crate::documents::{FORMATS, is_success};
use crate::harness::{Outcome, Program, program};

/// The smallest cluster with nodes of both roles.
pub(crate) fn small() -> Cluster {
    Cluster::of(&Shape { control_planes: 1, workers: 1, ..Shape::default() })
}

/// Compares stdout in each format with its golden file; the HTML page is compared with the other formats.
#[track_caller]
fn goldens(state: &str, code: i32, run: impl Fn(&str) -> Outcome) {
    let mut verdict = String::new();
    let mut checks = Vec::new();
    let identity = Regex::new(r"(\S+ \([^()]*\), )?TIME UTC, cluster-health VERSION: ").unwrap();
    for format in FORMATS {
        let outcome = run(format);
        assert_eq!(outcome.code, code, "{state} as {format}: {outcome}");
        for_readers(state, format, &outcome.stdout);
        let shown = stable(format, &outcome.stdout);
        match format {
            "text" => shown.lines().next().unwrap().clone_into(&mut verdict),
            "json" => checks.clone_from(outcome.json()["checks"].as_array().unwrap()),
            "html" => {
                assert_eq!(is_success("html", &outcome.stdout), code == 0, "{state}");
                // The page shows cluster, time and program in a table.
                let verdict = identity.replace(&verdict, "");
                let (result, rest) = verdict.split_once(' ').unwrap();
                // The page shows the reason next to the result.
                let rest = rest.strip_suffix(" (config-unreadable)").unwrap_or(rest);
                let words = [format!("<h1>{}", result.trim_end_matches(':')), format!("<p>{rest}</p>")];
                for expected in
                    words.iter().map(String::as_str).chain(checks.iter().map(|it| it["id"].as_str().unwrap()))
                {
                    assert!(shown.contains(expected), "{state}: `{expected}` is not in {shown}");
                }
                continue;
            }
            _ => {}
        }
        let shown = if state == WHOLE { shown } else { uncounted(format, &shown) };
        insta::assert_snapshot!(format!("{state}_{format}"), shown);
    }
}

/// Writes a document for `make integrations` into the directory that `DOCUMENTS` names, where `tests/readers` runs third-party readers on
/// it.
fn for_readers(state: &str, format: &str, written: &str) {
    let Some(folder) = std::env::var_os("DOCUMENTS") else { return };
    let extension = match format {
        "json" => "json",
        "junit" => "xml",
        "prometheus" => "prom",
        _ => return,
    };
    std::fs::write(Path::new(&folder).join(format!("run-{state}.{extension}")), written).unwrap();
}

/// The state whose golden files contain every check. The other states contain only these checks and no numbers of checks, so that a new
/// check does not change them.
const WHOLE: &str = "failing";
const SHOWN: [&str; 3] = ["talos.credentials", "talos.endpoints", "talos.nodes.kubelet"];
const NAME: &str = r"(?:talos|etcd|k8s)\.[a-z0-9.-]*[a-z0-9]";

pub(crate) fn uncounted(format: &str, shown: &str) -> String {
    let part = match format {
        "json" => r#"(?m)^(?:checks|history): \{(?:"elapsedMs":0,"round":[0-9]+,"check"|"id"):"NAME".*\n"#,
        "junit" => r#"(?s) *<testcase name="NAME"[^>]*?(?:/>|[^/]>.*?</testcase>)\n"#,
        "ndjson" => r#"(?m)^.*"check":"NAME".*\n"#,
        "tap" => r"(?m)^(?:not )?ok [0-9]+ - NAME: .*\n(?:  .*\n)*",
        "prometheus" => r#"(?m)^.*[{,]check="NAME".*\n"#,
        "markdown" => r"(?m)^\| [^ ]+ \| [a-z]+ \| `NAME` .*\n",
        _ => r"(?m)^NAME$",
    };
    let part = Regex::new(&part.replace("NAME", &format!("({NAME})"))).unwrap();
    let shown = part.replace_all(shown, |part: &Captures<'_>| {
        if SHOWN.contains(&part.get(1).map_or("", |name| name.as_str())) { part[0].to_owned() } else { String::new() }
    });
    let several = format!(r#""?{NAME}"?(?:,\s*"?{NAME}"?){{2,}}"#);
    let counts = [
        (several.as_str(), "CHECKS"),
        (r"\b[0-9]+ (passed|failed|blocked|warned|skipped|undetermined|checks?\b)", "N $1"),
        (r#""(total|passed|warned|failed|errored|skipped|blocked|seq)":[0-9]+"#, r#""$1":N"#),
        (r#" (tests|skipped|errors|failures)="[0-9]+""#, r#" $1="N""#),
        (r"(?m)^1\.\.[0-9]+$", "1..N"),
        (r"(?m)^((?:not )?ok) [0-9]+ - ", "$1 N - "),
        (r"(?m)^(cluster_health_checks\{.*\}) [0-9]+$", "$1 N"),
    ];
    counts.iter().fold(shown.into_owned(), |shown, (pattern, with)| {
        Regex::new(pattern).unwrap().replace_all(&shown, *with).into_owned()
    })
}

/// Removes everything that differs from run to run.
pub(crate) fn stable(format: &str, text: &str) -> String {
    let text = match format {
        "json" => lines(&serde_json::from_str(text).unwrap()),
        // The document has a separate golden file.
        "ndjson" => {
            let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let last = lines.last_mut().unwrap();
            assert_eq!(last["report"]["kind"].take(), "ClusterHealthReport");
            last["report"] = "the JSON document".into();
            lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n") + "\n"
        }
        // The column widths depend on the addresses, which differ.
        "text" => Regex::new(" {2,}").unwrap().replace_all(text, "  ").into_owned(),
        _ => text.to_owned(),
    };
    let replaced = [
        (r"ca-sha256:[0-9a-f]{64}", "ca-sha256:DIGEST"),
        (r#""kubeSystemUid":"[0-9a-f-]{36}""#, r#""kubeSystemUid":"UID""#),
        (r"127\.[0-9]+\.[0-9]+\.([0-9]+)", "10.0.0.$1"),
        (r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|\+00:00)", "TIME"),
        (r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2} UTC", "TIME UTC"),
        (r#""([a-zA-Z]*Ms)":[0-9]+"#, r#""$1":0"#),
        (r#" time="[0-9.]+""#, r#" time="0""#),
        (r"\b(in|after|for) ([0-9]+[hm])*[0-9.]+s\b", "$1 0s"),
        (r"(?m)(_seconds(?:\{.*\})?) [0-9]+\.[0-9]+$", "$1 0.0"),
        (r"/(tmp|dev/shm)/\.tmp[A-Za-z0-9]+", "/home/ci"),
    ];
    let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    replaced
        .iter()
        .fold(text, |text, (pattern, with)| Regex::new(pattern).unwrap().replace_all(&text, *with).into_owned())
}

/// Writes each field, each check and each change on a separate line, so that differences are visible.
fn lines(document: &Value) -> String {
    let line = |(key, value): (&String, &Value)| match value
        .as_array()
        .filter(|all| ["checks", "history"].contains(&key.as_str()) && !all.is_empty())
    {
        Some(checks) => checks.iter().map(|check| format!("{key}: {check}")).collect(),
        None => vec![format!("\"{key}\":{value}")],
    };
    document.as_object().unwrap().iter().flat_map(line).collect::<Vec<_>>().join("\n") + "\n"
}

fn of(program: Program, format: &str) -> Outcome {
    // A busy machine must not make the cluster fail.
    program.args(["-o", format, "--attempt-timeout", "60s"]).run()
}

#[test]
fn healthy() {
    let cluster = small();
    goldens("healthy", 0, |format| of(cluster.program(), format));
}

/// A cluster in which the worker's kubelet is unhealthy.
pub(crate) fn sick() -> Cluster {
    let cluster = small();
    cluster.change(|world| {
        let now = world.now();
        world.machine_mut("worker-1").set_service_health("kubelet", false, "connection refused", now);
    });
    cluster
}

#[test]
fn failing() {
    let cluster = sick();
    goldens("failing", 1, |format| of(cluster.program(), format));
}

/// The deadline leaves time for a second round, which is the last one and ends before the deadline, unless a busy machine makes it much
/// slower than the first.
#[test]
fn timeout() {
    let cluster = sick();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let report = format!("json={}", path.display());
    let waits = ["--wait-timeout", "6s", "--interval", "1h", "--report", &report];
    let ends_in_time = || {
        let report: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        report["rounds"] == 2 && report["durationMs"].as_u64().unwrap() < 6000
    };
    goldens("timeout", 1, |format| {
        let mut runs = (0..5).map(|_| of(cluster.program().args(waits), format));
        runs.find(|_| ends_in_time()).expect("one of five runs ends its second round before the deadline")
    });
}

#[test]
fn interrupted() {
    let cluster = small();
    cluster.transport("cp-1", Transport::Silent);
    goldens("interrupted", 130, |format| {
        let program = cluster.program().args(["-o", format, "--wait-timeout", "1h", "--report", "json=r.json"]);
        let (child, home) = program.spawn();
        // Signal handlers are installed before the first report is written.
        crate::signals::until(|| home.path().join("r.json").exists());
        crate::signals::send(&child, "INT");
        let output = child.wait_with_output().unwrap();
        Outcome {
            code: crate::harness::code(output.status),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            took: Duration::ZERO,
        }
    });
}

#[test]
fn refused() {
    let cluster = small().role("os:etcd:backup");
    goldens("refused", 77, |format| of(cluster.program(), format));
}

#[test]
fn configuration() {
    goldens("configuration", 78, |format| of(program().args(["--talosconfig", "none.yaml"]), format));
}

#[test]
fn the_formats_are_those_of_the_program() {
    let version = program().args(["version", "-o", "json"]).run().json();
    let names: Vec<_> =
        version["formats"].as_array().unwrap().iter().map(|format| format["name"].as_str().unwrap()).collect();
    assert_eq!(names, FORMATS);
}
