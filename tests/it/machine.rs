//! Faults of the local machine: pipes without a reader, too few threads and descriptors, absurd settings, full disks. In each case, the
//! process exits in time, with a code that matches the known facts.

use std::fs::OpenOptions;
use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::documents::{FORMATS, is_success};
use crate::harness::{HEALTHY, Program, code, program, side_by_side, tool};
use crate::pki::{authority, reader};
use crate::signals::{report, reports, send, until};

/// A run whose endpoint has no listener.
fn unreachable() -> Program {
    let config = reader(&authority(), &[([127, 0, 0, 9], 1).into()]);
    program().talosconfig(config).args(["--no-kubernetes"]).args(reports(&["json"]))
}

fn healthy() -> Program {
    unreachable().args(HEALTHY)
}

/// A run that only writes the result.
fn quiet() -> Program {
    healthy().args(["-q"])
}

/// A pipe whose buffer is full.
fn full() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&vec![b'\n'; 64 << 10]).unwrap();
    (reader, writer)
}

/// Tolerance for a busy machine.
const ROOM: Duration = Duration::from_secs(2);

fn ends_within(mut child: Child, limit: Duration) -> i32 {
    let started = Instant::now();
    let ended = code(child.wait().unwrap());
    assert!(started.elapsed() < limit + ROOM, "{:?}", started.elapsed());
    ended
}

fn is_complete(home: &TempDir) -> bool {
    report(home).is_some_and(|report| report["complete"] == true)
}

fn temporary(home: &TempDir) -> Vec<String> {
    let paths = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().path());
    let temporary = paths.filter(|path| path.extension().is_some_and(|extension| extension == "tmp"));
    temporary.map(|path| path.display().to_string()).collect()
}

#[test]
fn a_stream_that_nobody_reads_ends_with_the_deadline() {
    let deadline = ["--wait-timeout", "2s"];
    for (program, format, on_stdout, expected) in [
        (unreachable as fn() -> Program, "text", true, 1),
        (unreachable, "ndjson", true, 124),
        (unreachable, "text", false, 124),
        (healthy, "text", true, 74),
        // The whole requested output was written.
        (quiet, "text", false, 0),
    ] {
        let (reader, stuck) = full();
        let program = program().args(deadline).args(["-o", format]);
        let (child, home) = if on_stdout {
            program.spawn_between(stuck, Stdio::null())
        } else {
            program.spawn_between(Stdio::null(), stuck)
        };
        let ended = ends_within(child, Duration::from_secs(3));
        let report = report(&home).unwrap();
        assert_eq!(ended, expected, "{format} {on_stdout} {report}");
        assert!(report["complete"] == true || ended == 124, "{report}");
        assert_eq!(temporary(&home), [""; 0]);
        drop(reader);
    }
}

/// Simulates a process that is starved or suspended: all events that are due have arrived when it continues, and are handled in order.
#[test]
fn a_process_that_stood_still_loses_no_document() {
    side_by_side(0..8, 8, |_| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let config = reader(&authority(), &[listener.local_addr().unwrap()]);
        let program = program().talosconfig(config).args(["--no-kubernetes", "--wait-timeout", "2s", "-o", "json"]);
        let (mut child, _home) = program.spawn();
        let _endpoint = listener.accept().unwrap();
        let connected = Instant::now();
        send(&child, "STOP");
        // The process should have ended by then.
        until(|| connected.elapsed() > Duration::from_secs(3));
        send(&child, "CONT");
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let ended = code(child.wait().unwrap());
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&report["deadlineReached"], &report["exitCode"]), (&true.into(), &ended.into()), "{report}");
    });
}

#[test]
fn a_signal_ends_what_nobody_reads() {
    for (program, expected) in [(unreachable as fn() -> Program, 1), (healthy, 74)] {
        let (reader, stuck) = full();
        let (child, home) = program().spawn_into(stuck);
        until(|| is_complete(&home));
        send(&child, "TERM");
        assert_eq!(ends_within(child, Duration::from_secs(2)), expected);
        drop(reader);
    }
}

#[test]
fn a_signal_after_the_verdict_lets_the_reports_be_written() {
    for signal in ["TERM", "INT", "HUP"] {
        let (mut reader, stuck) = full();
        let (child, home) = unreachable().args(["-o", "json"]).spawn_into(stuck);
        until(|| is_complete(&home));
        send(&child, signal);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(ends_within(child, Duration::from_secs(2)), 1, "{signal}");
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&document["exitCode"], &document["complete"]), (&1.into(), &true.into()));
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let (reader, stuck) = full();
    let (child, home) = unreachable().spawn_into(stuck);
    until(|| is_complete(&home));
    send(&child, "TERM");
    send(&child, "HUP");
    assert_eq!(ends_within(child, Duration::ZERO), 1);
    assert_eq!(temporary(&home), [""; 0]);
    drop(reader);
}

/// The code is the report's, and no unrequested file is left.
#[test]
fn signals_at_any_moment_leave_whole_reports() {
    let begun = Instant::now();
    let all = || unreachable().args(reports(&["junit", "markdown"]));
    let (mut child, _home) = all().spawn_into(Stdio::null());
    assert_eq!(code(child.wait().unwrap()), 1);
    let took = begun.elapsed();
    let moments = (1..=40_u32).map(|n| took.mul_f64(f64::from(n.wrapping_mul(2_654_435_769) >> 16) / 65_536.0 * 1.2));
    side_by_side(moments, 2, |moment| {
        let (mut child, home) = all().spawn_into(Stdio::null());
        std::thread::sleep(moment);
        for signal in ["TERM", "HUP"] {
            if child.try_wait().unwrap().is_none() {
                send(&child, signal);
            }
        }
        let ended = code(child.wait().unwrap());
        assert_eq!(temporary(&home), [""; 0], "{moment:?}");
        assert!([1, 143, 129].contains(&ended), "{ended}");
        if is_complete(&home) {
            assert_eq!(ended, 1, "{moment:?}");
        }
    });
}

#[test]
fn settings_of_the_runtime_are_our_own() {
    for (name, value) in [
        ("TOKIO_WORKER_THREADS", "0"),
        ("TOKIO_WORKER_THREADS", "99999999"),
        ("TOKIO_WORKER_THREADS", "many"),
        ("RUST_MIN_STACK", "0"),
        ("RUST_MIN_STACK", "18446744073709551615"),
        ("RUST_MIN_STACK", "9999999999999"),
        ("RUST_BACKTRACE", "full"),
        ("RUST_LOG", "trace"),
    ] {
        unreachable().env(name, value).run().is(1, &["connection refused"]);
    }
}

/// Prepares the program in a shell that has reduced a resource.
fn limited(script: &str) -> Program {
    let config = reader(&authority(), &[([127, 0, 0, 9], 1).into()]);
    let script = format!(r#"{script} "$@""#);
    let arguments =
        ["-c", &script, "sh", env!("CARGO_BIN_EXE_cluster-health"), "--no-kubernetes", "--report=json=json"];
    tool("sh").talosconfig(config).args(arguments)
}

#[test]
fn too_few_threads_or_descriptors_are_said() {
    for descriptors in 4..=40 {
        let outcome = limited(&format!("ulimit -n {descriptors}; exec")).run();
        match outcome.code {
            70 => outcome.is(70, &["could not start: too few file descriptors"]),
            // The dynamic loader, if the program is not static.
            127 => assert!(descriptors < 5, "{outcome}"),
            code => outcome.is(if descriptors < 24 { code } else { 1 }, &[]),
        }
        assert!(!outcome.stderr.contains("internal error"), "{descriptors}: {outcome}");
    }
    // Each thread's stack takes a part of the address space; the unoptimized program itself takes 47 MiB.
    let mut refused = 0;
    for megabytes in (64..160).step_by(8) {
        let outcome = limited(&format!("ulimit -v {}; exec", megabytes << 10)).run();
        assert!([1, 70, 127, 134].contains(&outcome.code), "{megabytes}: {outcome}");
        if outcome.code == 70 {
            outcome.is(70, &["could not start"]);
            refused += 1;
        }
    }
    assert!(refused > 0);
}

#[test]
fn closed_streams_change_nothing() {
    for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        let config = reader(&authority(), &[([127, 0, 0, 9], 1).into()]);
        let script = format!(r#"exec "$@" {closed}"#);
        let arguments = ["-c", &script, "sh", env!("CARGO_BIN_EXE_cluster-health"), "--no-kubernetes"];
        let (outcome, home) = tool("sh").talosconfig(config).args(arguments).args(reports(&["json"])).run_and_keep();
        assert_eq!(outcome.code, 1, "{closed}: {outcome}");
        assert!(is_complete(&home), "{closed}");
    }
}

#[test]
fn a_full_disk_is_no_success() {
    for format in FORMATS {
        let to_full = format!("--report={format}=/dev/full");
        let outcome = healthy().args([&to_full]).run();
        outcome.is(74, &["could not write `/dev/full`"]);
        unreachable().args([&to_full]).run().is(1, &["could not write `/dev/full`"]);
    }
    let outcome = limited("ulimit -f 0; exec").run();
    outcome.is(74, &["could not write `json`"]);
}

#[test]
fn a_crash_leaves_no_memory_on_the_disk() {
    let (child, home) = limited("ulimit -c unlimited; exec").args(["--wait-timeout", "1h"]).spawn();
    until(|| report(&home).is_some_and(|report| report["rounds"] == 1));
    send(&child, "ABRT");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.signal() == Some(6) && !output.status.core_dumped(), "{output:?}");
}

/// The files were written earlier.
#[test]
fn a_disk_that_is_full_at_the_end_leaves_the_code() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (child, home) = healthy().spawn_into(full);
    assert_eq!(ends_within(child, ROOM), 74);
    assert!(is_success("json", &std::fs::read_to_string(home.path().join("json")).unwrap()));
}

/// The process does not wait for the resolver, whether that answers immediately or never.
#[test]
fn endpoints_that_do_not_resolve_end_with_the_deadline() {
    let endpoints: Vec<String> = (0..10_000).map(|n| format!("cp-{n}.cluster-health.invalid")).collect();
    let config = crate::pki::talosconfig(
        authority().pem(),
        &crate::pki::client(&authority(), simulator::pki::Flaw::None),
        &endpoints,
    );
    let program =
        program().talosconfig(config).args(["--no-kubernetes", "--wait-timeout", "2s"]).args(reports(&["json"]));
    let (child, home) = program.spawn_between(Stdio::null(), Stdio::null());
    let ended = ends_within(child, Duration::from_secs(3));
    assert!([1, 124].contains(&ended), "{ended}");
    assert_eq!(report(&home).unwrap()["result"], "undetermined");
}
