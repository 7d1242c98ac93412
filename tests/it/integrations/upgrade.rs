//! `upgrade/upgrade-gate`: what it calls in which order, where it stops, and how it goes on.

use simulator::world::{AlarmKind, Shape};
use tempfile::TempDir;

use super::{path, script, with_program, without_cluster};
use crate::cluster::{Cluster, cluster};
use crate::harness::{Outcome, Program, side_by_side};

/// Notes how it was called, and fails as the file `NAME-fails` says: `COUNT CODE` for the how manieth call.
const FAKE: &str = r#"#!/bin/sh
name=${0##*/}
echo "$name $*" >> "$HOME/calls"
[ -e "$HOME/$name-fails" ] || exit 0
read -r at code < "$HOME/$name-fails"
[ "$(grep -c "^$name " "$HOME/calls")" != "$at" ] || exit "$code"
"#;

const IMAGE: [&str; 2] = ["--image", "registry.example/installer:v1.13.1"];
const NODES: [&str; 4] = ["--control-planes", "127.0.0.2,127.0.0.3", "--workers", "127.0.0.4"];

/// The calls of an upgrade that nothing stops.
fn all_calls() -> Vec<String> {
    let gate = "cluster-health --wait-timeout 15m";
    let mut calls = Vec::new();
    for (node, options) in
        [("127.0.0.2", " --require-quorum-margin 1"), ("127.0.0.3", " --require-quorum-margin 1"), ("127.0.0.4", "")]
    {
        calls.push(format!("{gate}{options}"));
        calls.push(format!(
            "talosctl upgrade --nodes {node} --image registry.example/installer:v1.13.1 --wait --timeout 30m"
        ));
        calls.push(format!("{gate} --stable-for 1m"));
    }
    calls.push(format!("{gate} --expect-talos v1.13.1"));
    calls
}

/// Both programs are fakes.
fn faked() -> Program {
    let script = without_cluster(path("upgrade/upgrade-gate"));
    with_program(with_program(script, "talosctl", FAKE), "cluster-health", FAKE)
}

fn calls(home: &TempDir) -> Vec<String> {
    let text = std::fs::read_to_string(home.path().join("calls")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// What is remembered of an upgrade that is not over.
fn state(home: &TempDir) -> Option<String> {
    std::fs::read_to_string(home.path().join("upgrade-gate.state")).ok()
}

#[test]
fn a_gate_before_and_after_each_node_and_one_in_the_end() {
    let (outcome, home) = faked().args(IMAGE).args(NODES).run_and_keep();
    outcome.is(0, &["all 3 nodes run v1.13.1"]);
    assert_eq!(calls(&home), all_calls());
    assert_eq!(state(&home), None, "what is over is forgotten");
}

#[test]
fn the_first_failure_stops_it_and_the_same_command_goes_on_there() {
    // The how manieth call of which program fails, and how many calls of the whole are repeated.
    let mut cases = Vec::new();
    for gate in 1..=7 {
        for code in [1, 69, 77, 78, 124, 143] {
            cases.push(("cluster-health", gate, code));
        }
    }
    cases.extend([1, 2, 3].map(|upgrade| ("talosctl", upgrade, 1)));
    side_by_side(cases, 8, |(program, at, code)| {
        let failing = faked().file(&format!("{program}-fails"), format!("{at} {code}\n"));
        let (outcome, home) = failing.args(IMAGE).args(NODES).run_and_keep();
        outcome
            .is(code, &["upgrade-gate: stopped: ", "go on where it stopped", "--control-planes 127.0.0.2\\,127.0.0.3"]);
        let (made, all) = (calls(&home), all_calls());
        let last = all.iter().enumerate().filter(|(_, call)| call.starts_with(program)).nth(at - 1).unwrap().0;
        assert_eq!(made, all[..=last], "nothing comes after the failure");

        let again = faked().file("upgrade-gate.state", state(&home).unwrap());
        let (outcome, home) = again.args(IMAGE).args(NODES).run_and_keep();
        outcome.is(0, &[]);
        // Where talosctl failed, the gate before it is asked once more.
        let first = if program == "talosctl" { last - 1 } else { last };
        assert_eq!(calls(&home), all[first..], "{program} {at}: nothing is left out, nothing else repeated");
    });
}

#[test]
fn a_dry_run_calls_nothing_and_remembers_nothing() {
    let (outcome, home) = faked().args(IMAGE).args(NODES).args(["--dry-run"]).run_and_keep();
    outcome.is(0, &[]);
    let shown: Vec<_> = outcome.stdout.lines().map(str::trim_end).collect();
    assert_eq!(shown, all_calls());
    assert!(!outcome.stderr.contains("is healthy"), "nothing is claimed: {outcome}");
    assert_eq!((calls(&home), state(&home)), (Vec::new(), None));
}

#[test]
fn options_reach_the_programs() {
    let options = ["--quorum-margin", "0", "--wait-timeout", "9m", "--stable-for", "7s", "--upgrade-timeout", "3m"];
    let more = ["--image", "i:latest", "--expect-talos", "v1.13.2", "--control-planes", "127.0.0.2", "--state", "s"];
    let (outcome, home) = faked().args(options).args(more).run_and_keep();
    outcome.is(0, &[]);
    let expected = [
        "cluster-health --wait-timeout 9m --require-quorum-margin 0",
        "talosctl upgrade --nodes 127.0.0.2 --image i:latest --wait --timeout 3m",
        "cluster-health --wait-timeout 9m --stable-for 7s",
        "cluster-health --wait-timeout 9m --expect-talos v1.13.2",
    ];
    assert_eq!(calls(&home), expected);
}

#[test]
fn what_is_typed_wrong_calls_nothing() {
    let typed = |arguments: &str| arguments.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for (arguments, word) in [
        ("--control-planes 127.0.0.2", "`--image` is missing"),
        ("--image i:v1.13.1", "no node is named"),
        ("--image i:latest --workers 127.0.0.2", "is no version of Talos"),
        ("--image i:v1.13.1 --workers 127.0.0.2 --quorum-margin one", "is a number"),
        ("--image i:v1.13.1 --workers 127.0.0.2,", "an address is empty"),
        ("--image i:v1.13.1 --workers 127.0.0.2;", "is no address"),
        ("--image i:v1.13.1 --workers -n", "is no address"),
        ("--image i:v1.13.1 --control-planes 127.0.0.2 --workers 127.0.0.2", "is named twice"),
        ("--image i:v1.13.1 --workers", "needs a value"),
        ("--image i:v1.13.1 --worker 127.0.0.2", "is not known"),
    ] {
        let (outcome, home) = faked().args(typed(arguments)).run_and_keep();
        outcome.is(2, &[word]);
        assert_eq!((calls(&home), state(&home)), (Vec::new(), None), "{arguments}");
    }
    let other = faked().file("upgrade-gate.state", "image i:v1.12.0\n").args(IMAGE).args(NODES);
    let (outcome, home) = other.run_and_keep();
    outcome.is(2, &["is of another upgrade: image i:v1.12.0"]);
    assert_eq!(calls(&home), [""; 0]);
}

/// The real program, which judges the simulated cluster once instead of waiting, and a talosctl that only notes its calls: their
/// number.
fn real(cluster: &Cluster, options: &[&str]) -> (Outcome, usize) {
    let once = format!("#!/bin/sh\nshift 2\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_cluster-health"));
    let script = with_program(script(path("upgrade/upgrade-gate"), cluster), "talosctl", FAKE);
    let script = with_program(script, "cluster-health", &once);
    let (first, second) = (cluster.address("cp-1").to_string(), cluster.address("worker-1").to_string());
    let nodes = ["--control-planes", &first, "--workers", &second, "--stable-for", "0s"];
    let image = ["--image", "registry.example/installer:v1.13.0"];
    let (outcome, home) = script.args(image).args(nodes).args(options).run_and_keep();
    let upgrades = calls(&home).len();
    (outcome, upgrades)
}

#[test]
fn a_healthy_cluster_is_upgraded() {
    let (outcome, upgrades) = real(&cluster(), &[]);
    outcome.is(0, &["all 2 nodes run v1.13.0"]);
    assert_eq!(upgrades, 2);
}

#[test]
fn no_control_plane_is_taken_down_without_a_margin() {
    let alone = || Cluster::of(&Shape { control_planes: 1, ..Shape::default() });
    let (outcome, upgrades) = real(&alone(), &[]);
    outcome.is(1, &["tolerates 0, 1 required", "stopped: the cluster is not healthy before control plane"]);
    assert_eq!(upgrades, 0);
    let (outcome, upgrades) = real(&alone(), &["--quorum-margin", "0"]);
    outcome.is(0, &[]);
    assert_eq!(upgrades, 2);
}

#[test]
fn a_sick_cluster_is_not_upgraded() {
    let cluster = cluster();
    cluster.change(|world| world.etcd_alarm("cp-2", AlarmKind::NoSpace));
    let (outcome, upgrades) = real(&cluster, &[]);
    outcome.is(1, &["etcd.alarms", "stopped: the cluster is not healthy before control plane"]);
    assert_eq!(upgrades, 0);
}

/// As after a machine that fell back to its old version.
#[test]
fn an_upgrade_that_changed_nothing_is_no_success() {
    let (outcome, upgrades) = real(&cluster(), &["--expect-talos", "v1.13.1"]);
    outcome.is(1, &["talos.versions", "stopped: the cluster is not healthy in the end"]);
    assert_eq!(upgrades, 2);
}
