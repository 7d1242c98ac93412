//! SIGINT, SIGTERM, SIGHUP and SIGKILL in every phase: the exit code is the signal's, and the reports are valid.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::documents::{FORMATS, is_success};
use crate::formats::small;
use crate::harness::{code, program, side_by_side};
use crate::pki::{authority, reader};

/// Starts a run that waits for an endpoint which accepts connections and never answers; returns once it has connected.
fn waiting(arguments: &[&str]) -> (Child, TempDir) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = reader(&authority(), &[listener.local_addr().unwrap()]);
    let (child, home) = program()
        .talosconfig(config)
        .args(["--no-kubernetes", "--wait-timeout", "1h"])
        .args(reports(&TWO))
        .args(arguments)
        .spawn();
    let stream = listener.accept().unwrap();
    // Both live until the test process ends, so that the connection stays open.
    std::mem::forget((listener, stream));
    (child, home)
}

/// Starts a run whose endpoint refuses connections, so that it is between two rounds nearly all the time.
fn between_rounds() -> (Child, TempDir) {
    let (child, home) = program()
        .talosconfig(reader(&authority(), &[([127, 0, 0, 9], 1).into()]))
        .args(["--no-kubernetes", "--wait-timeout", "1h"])
        .args(reports(&TWO))
        .spawn();
    // The checkpoint of the first round shows that the round is over.
    until(|| report(&home).is_some_and(|report| report["rounds"] == 1));
    (child, home)
}

/// The usual formats in CI. Each file is flushed to disk, which other tests keep busy.
const TWO: [&str; 2] = ["junit", "json"];

/// Returns arguments for files in these formats, named after the formats.
pub(crate) fn reports(formats: &[&str]) -> impl Iterator<Item = String> {
    formats.iter().flat_map(|format| ["--report".to_owned(), format!("{format}={format}")])
}

/// Returns whether each existing file reports success.
fn successes(home: &TempDir) -> Vec<(&'static str, bool)> {
    let read = |format: &'static str| Some((format, std::fs::read_to_string(home.path().join(format)).ok()?));
    FORMATS.into_iter().filter_map(read).map(|(format, text)| (format, is_success(format, &text))).collect()
}

pub(crate) fn until(condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(20), "it never came");
        std::thread::yield_now();
    }
}

pub(crate) fn report(home: &TempDir) -> Option<serde_json::Value> {
    serde_json::from_slice(&std::fs::read(home.path().join("json")).ok()?).ok()
}

pub(crate) fn send(child: &Child, signal: &str) {
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
    assert!(successes(home).iter().all(|(_, success)| !success));
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
        assert_eq!(successes(&home).len(), TWO.len());
        assert!(successes(&home).iter().all(|(_, success)| !success));
    }
}

/// Whenever the run is killed, each file contains a complete version, and only the last version can be a success.
#[test]
fn a_run_killed_at_any_moment_leaves_whole_files() {
    let cluster = small();
    // JSON comes last, so that a reader of the JSON file can assume that the others have been written.
    let others = FORMATS.into_iter().filter(|format| *format != "json");
    let formats: Vec<_> = others.chain(["json"]).collect();
    // A busy machine must not make the cluster fail.
    let program = || cluster.program().args(["--attempt-timeout", "60s"]).args(reports(&formats));
    let begun = Instant::now();
    let (mut child, home) = program().spawn_into(Stdio::null());
    assert_eq!(code(child.wait().unwrap()), 0);
    let took = begun.elapsed();
    assert_eq!(successes(&home), FORMATS.map(|format| (format, true)));
    // Irregular moments, the same in each run of the test: from before the start to after the end.
    let moments = (1..=50_u32).map(|n| took.mul_f64(f64::from(n.wrapping_mul(2_654_435_769) >> 16) / 65_536.0 * 1.2));
    side_by_side(moments, 2, |moment| {
        let (mut child, home) = program().spawn_into(Stdio::null());
        std::thread::sleep(moment);
        child.kill().unwrap();
        let ended = code(child.wait().unwrap());
        let successes = successes(&home);
        assert!(ended == 137 || ended == 0, "{ended}");
        assert!(ended == 137 || successes == FORMATS.map(|format| (format, true)), "{moment:?}: {successes:?}");
        if let Some(report) = report(&home) {
            // JSON is written last, so it is complete only if all others are.
            let is_complete = report["complete"] == true;
            assert!(!is_complete || successes.iter().all(|(_, success)| *success), "{moment:?}: {successes:?}");
        }
    });
}

#[test]
fn an_interrupted_run_says_what_it_saw_last() {
    let (child, home) = between_rounds();
    send(&child, "INT");
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(code(output.status), 130);
    assert!(text.contains("the connection was refused"), "{text}");
    drop(home);
}
