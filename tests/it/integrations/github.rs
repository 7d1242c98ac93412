//! `action.yml`: its steps, run with the variables that a runner sets.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_yaml::Value;
use simulator::world::AlarmKind;
use tempfile::TempDir;

use super::{RETRIES, attempts, ending_with, path, script, with_program, without_cluster, yaml};
use crate::cluster::{Cluster, cluster};
use crate::harness::{Outcome, Program, code};

/// A step of the action.
fn step(id: &str) -> Value {
    let action = &yaml("../action.yml")[0];
    let steps = action["runs"]["steps"].as_sequence().unwrap();
    steps.iter().find(|step| step["id"] == id).unwrap().clone()
}

/// Prepares a step as the runner executes it: its lines in a file, run by bash, with these values for its variables and
/// no others.
pub(super) fn runner(script: Program, id: &str, variables: &[(&str, &str)]) -> Program {
    let step = step(id);
    assert_eq!(step["shell"], "bash");
    let wanted = step["env"].as_mapping().unwrap();
    assert_eq!(wanted.len(), variables.len(), "{wanted:?}");
    let mut script = script
        .file("step.sh", step["run"].as_str().unwrap())
        // A shell cannot trap signals that were ignored when it started, as in a background job.
        .args(["--default-signal=INT", "bash"])
        .args(["--noprofile", "--norc", "-e", "-o", "pipefail", "step.sh"])
        .env("GITHUB_ACTION_PATH", path(".."))
        .env("GITHUB_ACTIONS", "true")
        .env("NO_COLOR", "1")
        .env("RUNNER_OS", "Linux")
        .env("RUNNER_ARCH", "X64");
    for file in ["GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"] {
        let path = script.path(file);
        script = script.env(file, path);
    }
    let temporary = script.path("runner/README");
    script = script.file("runner/README", "").env("RUNNER_TEMP", temporary.parent().unwrap());
    for (name, value) in variables {
        assert!(wanted.contains_key(*name), "{name}");
        script = script.env(name, value);
    }
    script
}

/// Returns an output of a step.
pub(super) fn output(home: &TempDir, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(home.path().join("GITHUB_OUTPUT")).unwrap_or_default();
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
}

/// Prepares the step `check`, with credentials as from secrets.
fn check(cluster: &Cluster) -> Program {
    let variables = [
        ("BINARY", env!("CARGO_BIN_EXE_cluster-health")),
        ("TALOSCONFIG_CONTENT", &cluster.talosconfig),
        ("KUBECONFIG_CONTENT", cluster.kubeconfig()),
        ("CLUSTER_HEALTH_WAIT_TIMEOUT", "1m"),
        ("RETRIES", "0"),
    ];
    // The secrets take precedence over the machine's own files.
    runner(script("/usr/bin/env", cluster), "check", &variables).env("TALOSCONFIG", "/none").env("KUBECONFIG", "/none")
}

/// Returns the files that are left below the runner's temporary directory.
fn left(home: &TempDir) -> Vec<String> {
    let mut names = Vec::new();
    let mut folders = vec![home.path().join("runner")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                names.push(entry.file_name().into_string().unwrap());
            }
        }
    }
    names.sort();
    names
}

const REPORTS: [&str; 4] = ["README", "cluster-health.json", "cluster-health.md", "cluster-health.xml"];

fn look(outcome: &Outcome, home: &TempDir, healthy: bool) {
    outcome.is(i32::from(!healthy), &[]);
    assert_eq!(output(home, "exit-code").unwrap(), outcome.code.to_string());
    assert_eq!(left(home), REPORTS, "the credentials are gone");
    let summary = std::fs::read_to_string(home.path().join("GITHUB_STEP_SUMMARY")).unwrap();
    assert_eq!(summary.contains("etcd-out-of-space"), !healthy, "{summary}");
    assert_eq!(outcome.stderr.contains("\n::error title="), !healthy, "{outcome}");
    assert!(!summary.contains("PRIVATE KEY"));
}

#[test]
fn the_step_has_the_exit_code_of_the_gate_and_its_reports_whatever_that_is() {
    let cluster = cluster();
    let (outcome, home) = check(&cluster).run_and_keep();
    look(&outcome, &home, true);
    cluster.change(|world| world.etcd_alarm("cp-2", AlarmKind::NoSpace));
    let (outcome, home) = check(&cluster).env("CLUSTER_HEALTH_WAIT_TIMEOUT", "10s").run_and_keep();
    look(&outcome, &home, false);
}

#[test]
fn only_what_could_not_be_determined_is_run_again() {
    let run = |codes: &[i32], retries: &str| {
        let script = with_program(without_cluster("/usr/bin/env"), "cluster-health", &ending_with(codes));
        let binary = script.path("bin/cluster-health").to_str().unwrap().to_owned();
        let variables = [
            ("BINARY", binary.as_str()),
            ("TALOSCONFIG_CONTENT", ""),
            ("KUBECONFIG_CONTENT", ""),
            ("CLUSTER_HEALTH_WAIT_TIMEOUT", "1m"),
            ("RETRIES", retries),
        ];
        let (outcome, home) = runner(script, "check", &variables).run_and_keep();
        (outcome.code, attempts(&home))
    };
    for (codes, code, times) in RETRIES {
        assert_eq!(run(codes, "1"), (code, times), "{codes:?}");
    }
    assert_eq!(run(&[69, 0], "0"), (69, 1));
    assert_eq!(run(&[69, 0], "a[$(id)]"), (2, 0));
}

#[test]
fn a_canceled_workflow_has_reports_and_keeps_no_credentials() {
    for (signal, expected) in [("INT", 130), ("TERM", 143)] {
        let cluster = cluster();
        cluster.change(|world| world.power_off("cp-3"));
        let (mut child, home) = check(&cluster).env("CLUSTER_HEALTH_WAIT_TIMEOUT", "1h").spawn();
        let round = || {
            let report = std::fs::read(format!("{}/cluster-health.json", output(&home, "reports")?)).ok()?;
            serde_json::from_slice::<serde_json::Value>(&report).ok()?["rounds"].as_u64()
        };
        let started = Instant::now();
        while round().is_none_or(|rounds| rounds == 0) {
            assert!(started.elapsed() < Duration::from_secs(30), "no round ended");
            std::thread::yield_now();
        }
        assert!(Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status().unwrap().success());
        assert_eq!(code(child.wait().unwrap()), expected);
        assert_eq!(output(&home, "exit-code").unwrap(), expected.to_string());
        assert_eq!(left(&home), REPORTS, "the credentials are gone");
    }
}

/// Runs the step `install`.
fn install(script: Program, version: &str, sha256: &str, binary: &str) -> (Outcome, TempDir) {
    let pinned = script.path("pinned").to_str().unwrap().to_owned();
    let variables = [
        ("VERSION", version),
        ("SHA256", sha256),
        ("BINARY", binary),
        ("PINNED", &pinned),
        ("REPOSITORY", "o/r"),
        ("GH_TOKEN", "t"),
    ];
    runner(script, "install", &variables).run_and_keep()
}

/// A stand-in for `gh` with one release, whose archive is created by the test.
const GH: &str = r#"#!/bin/sh
set -eu
[ "$*" = "release download v0.1.0 --repo o/r --pattern $NAME.tar.gz --dir ${9}" ]
cp "$HOME/$NAME.tar.gz" "$9/"
"#;

pub(super) const NAME: &str = "cluster-health-v0.1.0-x86_64-unknown-linux-musl";

/// Prepares a runner with a `gh` whose release contains an archive of this program; also returns the archive's
/// checksum.
pub(super) fn with_release_of(program: &str) -> (Program, String) {
    let script = with_program(without_cluster("/usr/bin/env"), "gh", GH).env("NAME", NAME);
    let script = script.file(&format!("{NAME}/cluster-health"), program);
    let pack = format!("chmod +x {NAME}/cluster-health && tar -czf {NAME}.tar.gz {NAME} && sha256sum {NAME}.tar.gz");
    let packed = Command::new("sh").args(["-c", &pack]).current_dir(script.home()).output().unwrap();
    let checksum = String::from_utf8(packed.stdout).unwrap().split(' ').next().unwrap().to_owned();
    (script, checksum)
}

fn with_release() -> (Program, String) {
    with_release_of("#!/bin/sh\necho cluster-health 0.1.0\n")
}

#[test]
fn a_release_is_taken_only_with_its_checksum() {
    let (script, checksum) = with_release();
    let (outcome, home) = install(script, "v0.1.0", &checksum, "");
    outcome.is(0, &["cluster-health 0.1.0"]);
    assert!(output(&home, "binary").unwrap().ends_with(&format!("{NAME}/cluster-health")));
    for other in [&"0".repeat(64), ""] {
        let (outcome, home) = install(with_release().0, "v0.1.0", other, "");
        outcome.is(1, &["::error title=cluster-health::"]);
        assert!(!outcome.stdout.contains("cluster-health 0.1.0"), "it was not run");
        assert_eq!(output(&home, "binary"), None);
    }
}

#[test]
fn the_action_itself_may_name_the_release() {
    let pinned = |checksum: &str| {
        let other = NAME.replace("x86_64", "aarch64");
        format!("{}  {other}.tar.gz\n{checksum}  {NAME}.tar.gz\n", "1".repeat(64))
    };
    let (script, checksum) = with_release();
    let (outcome, home) = install(script.file("pinned", pinned(&checksum)), "", "", "");
    outcome.is(0, &["cluster-health 0.1.0"]);
    assert!(output(&home, "binary").unwrap().ends_with(&format!("{NAME}/cluster-health")));
    let (outcome, home) = install(with_release().0.file("pinned", pinned(&"0".repeat(64))), "", "", "");
    outcome.is(1, &["does not have the checksum"]);
    assert_eq!(output(&home, "binary"), None);
    // Half of the settings for another release are not sufficient.
    let script = with_release().0.file("pinned", pinned(&checksum));
    install(script, "v0.1.0", "", "").0.is(1, &["are needed"]);
}

#[test]
fn the_program_may_be_there_already() {
    let binary = env!("CARGO_BIN_EXE_cluster-health");
    let (outcome, home) = install(without_cluster("/usr/bin/env"), "", "", binary);
    outcome.is(0, &[]);
    assert_eq!(output(&home, "binary").unwrap(), binary);
    for (version, path, word) in
        [("", "", "are needed"), ("v0.1.0", binary, "either"), ("", "/none", "names no program")]
    {
        install(without_cluster("/usr/bin/env"), version, "", path).0.is(1, &[word]);
    }
}

#[test]
fn every_value_reaches_a_step_through_a_variable() {
    let action = &yaml("../action.yml")[0];
    for step in action["runs"]["steps"].as_sequence().unwrap() {
        let lines = step["run"].as_str().unwrap_or_default();
        assert!(!lines.contains("${{"), "a value would become part of the script: {lines}");
        if let Some(other) = step["uses"].as_str() {
            let (_, commit) = other.split_once('@').unwrap();
            assert!(commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{other} is not pinned");
        }
    }
}
