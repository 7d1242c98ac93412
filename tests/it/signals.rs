//! SIGINT, SIGTERM, SIGHUP and SIGKILL at every phase: the code is the signal's, and the reports are valid.

use std::net::TcpListener;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::harness::{code, program};
use crate::pki::{authority, reader};

/// A run that waits for an endpoint which accepts and never answers; returns once it has connected there.
fn waiting(arguments: &[&str]) -> (Child, TempDir) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = reader(&authority(), &[listener.local_addr().unwrap()]);
    let (child, home) = program()
        .talosconfig(config)
        .args(["--no-kubernetes", "--wait-timeout", "1h", "--report", "json=r.json", "--report", "junit=r.xml"])
        .args(arguments)
        .spawn();
    let stream = listener.accept().unwrap();
    // Both live until the test process ends, so that the connection stays open.
    std::mem::forget((listener, stream));
    (child, home)
}

/// A run whose endpoint refuses: it is between two rounds nearly all of the time.
fn between_rounds() -> (Child, TempDir) {
    let (child, home) = program()
        .talosconfig(reader(&authority(), &[([127, 0, 0, 9], 1).into()]))
        .args(["--no-kubernetes", "--wait-timeout", "1h", "--report", "json=r.json", "--report", "junit=r.xml"])
        .spawn();
    // The checkpoint of the first round shows that it is over.
    until(|| report(&home).is_some_and(|report| report["rounds"] == 1));
    (child, home)
}

fn until(condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(20), "it never came");
        std::thread::yield_now();
    }
}

fn report(home: &TempDir) -> Option<serde_json::Value> {
    serde_json::from_slice(&std::fs::read(home.path().join("r.json")).ok()?).ok()
}

fn send(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status().unwrap().success());
}

fn ends(mut child: Child, home: &TempDir, expected: i32) {
    let started = Instant::now();
    assert_eq!(code(child.wait().unwrap()), expected);
    assert!(started.elapsed() < Duration::from_secs(2), "within two seconds");
    let report = report(home).expect("a valid report");
    assert_eq!(report["result"], "interrupted");
    assert_eq!(report["complete"], false);
    assert_eq!(report["exitCode"], expected);
    assert!(std::fs::read_to_string(home.path().join("r.xml")).unwrap().contains("</testsuites>"));
}

#[test]
fn in_the_first_round() {
    for (signal, expected) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let (child, home) = waiting(&[]);
        send(&child, signal);
        ends(child, &home, expected);
    }
}

#[test]
fn between_two_rounds() {
    for (signal, expected) in [("INT", 130), ("TERM", 143)] {
        let (child, home) = between_rounds();
        send(&child, signal);
        ends(child, &home, expected);
    }
}

#[test]
fn a_killed_run_leaves_failing_reports() {
    for (mut child, home) in [waiting(&[]), between_rounds()] {
        until(|| report(&home).is_some());
        child.kill().unwrap();
        assert_eq!(code(child.wait().unwrap()), 137);
        let report = report(&home).unwrap();
        assert_eq!(report["complete"], false);
        assert_ne!(report["result"], "healthy");
        let junit = std::fs::read_to_string(home.path().join("r.xml")).unwrap();
        assert!(junit.contains("<error"), "{junit}");
    }
}

#[test]
fn an_interrupted_run_says_what_it_saw_last() {
    let (child, home) = between_rounds();
    send(&child, "INT");
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(code(output.status), 130);
    assert!(text.contains("connection refused"), "{text}");
    drop(home);
}
