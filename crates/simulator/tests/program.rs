//! Tests the program in the way in which users start it.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

fn simulator(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simulator"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn output(arguments: &[&str]) -> Output {
    simulator(arguments).output().unwrap()
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn it_tells_where_the_cluster_is_until_it_is_ended() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("new");
    let mut child =
        simulator(&["--workers", "2", "--dir", place.to_str().unwrap()]).stdout(Stdio::piped()).spawn().unwrap();
    let mut environment = BTreeMap::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some((name, value)) = line.strip_prefix("export ").and_then(|line| line.split_once('=')) {
            environment.insert(name.to_owned(), value.trim_matches('\'').to_owned());
        } else {
            assert!(line.starts_with("# "), "{line}");
        }
        if line.contains("SIMULATOR_CONTROL") {
            break;
        }
    }
    for name in ["TALOSCONFIG", "KUBECONFIG", "ETCDCTL_CACERT", "ETCDCTL_CERT", "ETCDCTL_KEY"] {
        let path = Path::new(&environment[name]);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
    assert_eq!(place.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert!(environment["SIMULATOR_CONTROL"].starts_with("http://127."));
    send(&child, Signal::TERM);
    assert!(child.wait().unwrap().success());
    assert!(!place.exists());
}

#[test]
fn it_ends_as_its_command_does() {
    let run = output(&["--", "sh", "-c", "test -r \"$TALOSCONFIG\" && echo \"$TALOSCONFIG\" && exit 7"]);
    assert_eq!(run.status.code(), Some(7));
    let path = String::from_utf8(run.stdout).unwrap();
    assert!(!Path::new(path.trim()).parent().unwrap().exists());
    assert_eq!(output(&["--", "sh", "-c", "kill -9 $$"]).status.code(), Some(137));
    let missing = output(&["--", "/nonexistent/command"]);
    assert_eq!(missing.status.code(), Some(70));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot run `/nonexistent/command`"));
}

#[test]
fn the_second_signal_kills_a_command_that_ignores_the_first() {
    // The script prints a line for each signal that it ignores.
    let script = "trap 'echo ignored' TERM; echo ready; while :; do wait; done";
    let mut child = simulator(&["--", "sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for said in ["ready", "ignored"] {
        assert_eq!(lines.next().unwrap().unwrap(), said);
        send(&child, Signal::TERM);
    }
    assert_eq!(child.wait().unwrap().code(), Some(137));
}

#[test]
fn signals_reach_the_command_and_what_it_started() {
    // The script is ready when the inner shell runs, which would have the outer shell's trap before that.
    let script = "trap 'exit 9' TERM; sh -c 'echo ready; exec sleep 1000' & wait";
    let mut child = simulator(&["--", "sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    send(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(9));
    // The pipe is closed when all of its writers have ended, including `sleep`.
    lines.for_each(drop);
}

#[test]
fn nothing_of_the_users_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    std::fs::write(&path, "mine").unwrap();
    let run = output(&["--dir", directory.path().to_str().unwrap(), "--", "true"]);
    assert_eq!(run.status.code(), Some(70));
    assert!(String::from_utf8_lossy(&run.stderr).contains("kubeconfig"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn errors_of_a_scenario_name_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.toml");
    std::fs::write(&path, "title = \"x\"\n\n[[change]]\ndo = \"cordon\"\nnode = \"worker-9\"\n").unwrap();
    let run = output(&[path.to_str().unwrap(), "--", "true"]);
    let expected = format!("simulator: {}: change 1: there is no machine `worker-9`\n", path.display());
    assert_eq!(String::from_utf8_lossy(&run.stderr), expected);
    std::fs::write(&path, "title = \"x\"\nchanges = 1\n").unwrap();
    let run = output(&[path.to_str().unwrap(), "--", "true"]);
    assert!(String::from_utf8_lossy(&run.stderr).contains("unknown field `changes`"));
}
