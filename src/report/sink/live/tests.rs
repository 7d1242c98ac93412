//! Progress as it appears, line by line.

use std::cell::Cell;
use std::io;
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;

use super::*;
use crate::model::{CheckId, Finding, Problem, Target};
use crate::report::fixture;

const STYLE: LiveStyle = LiveStyle {
    color: false,
    ascii: false,
    quiet: false,
    verbose: false,
    why: false,
    heartbeat: Duration::from_secs(30),
    wait_timeout: Some(Duration::from_secs(300)),
};

fn verdict(findings: Vec<Finding>) -> Verdict {
    Verdict { findings: findings.into(), ..Verdict::default() }
}

fn round(ready: bool, observed: &str) -> Vec<(&'static Check, Verdict)> {
    let mut nodes = fixture::on_nodes(2, "Ready");
    if !ready {
        nodes.push(fixture::problem(fixture::node(3), Problem::fail(Reason::NodeNotReady, "Ready", observed)));
    }
    let blocked = Verdict::whole(Outcome::Blocked(CheckId::K8sNodesReady));
    vec![
        (&fixture::REACHABLE, verdict(fixture::on_nodes(3, "connected"))),
        (&fixture::NODES, verdict(nodes)),
        (&fixture::STATIC_PODS, if ready { verdict(fixture::on_nodes(1, "x")) } else { blocked }),
    ]
}

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_node_with_two_problems_is_one_node() {
    let mut findings = fixture::on_nodes(2, "Ready");
    for observed in ["staticPods not ready", "services not ready"] {
        findings.push(fixture::problem(fixture::node(3), Problem::fail(Reason::NodeNotReady, "Ready", observed)));
    }
    let mut out = Vec::new();
    let mut live = Live::lines(STYLE, &mut out);
    live.judged(1, s(1), s(1), &[(&fixture::NODES, verdict(findings))]);
    drop(live);
    let out = String::from_utf8(out).unwrap();
    assert!(
        out.contains("2 of 3 nodes; cp-3 (10.0.0.3): staticPods not ready; cp-3 (10.0.0.3): services not ready"),
        "{out}"
    );
}

#[test]
fn appends_a_line_when_something_changes() {
    let mut out = Vec::new();
    let mut live = Live::lines(STYLE, &mut out);
    live.start(Some("prod"));
    live.tick(s(30));
    live.judged(1, s(31), s(1), &round(false, "container network not ready"));
    live.judged(2, s(36), s(1), &round(false, "container network still not ready"));
    live.tick(s(60));
    live.tick(s(61));
    live.tick(s(62));
    live.judged(3, s(70), s(1), &round(true, ""));
    drop(live);
    insta::assert_snapshot!(String::from_utf8(out).unwrap().replace(env!("CARGO_PKG_VERSION"), "VERSION"), @r"
    cluster-health VERSION  context prod  deadline 5m00s
    [   30s] ....  first check in progress, waiting 30s of 5m00s
    [   31s] pass  talos.nodes.reachable         3 nodes
    [   31s] block 1 check
    [   31s] wait  k8s.nodes.ready               2 of 3 nodes; cp-3 (10.0.0.3): container network not ready
    [ 1m01s] ....  1 of 3 passed, waiting 1m01s of 5m00s: k8s.nodes.ready (2 of 3 nodes; cp-3 (10.0.0.3): container network still not ready)
    [ 1m10s] pass  k8s.nodes.ready               2 nodes; 3 rounds
    [ 1m10s] pass  k8s.staticpods.running        3 rounds
    ");
}

/// Adds a request of the first round; without an answer, it stays pending.
fn asks(awaited: &Awaited, part: Part, name: &str, answer: Option<bool>) {
    let work = async {
        match answer {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    };
    let _ = awaited.one(part, name.to_owned(), |answer| *answer, work).now_or_never();
}

fn asks_all(awaited: &Awaited) {
    asks(awaited, Part::Endpoints, "10.0.0.1", Some(true));
    asks(awaited, Part::Nodes, "cp-1 (10.0.0.1)", Some(true));
    asks(awaited, Part::Nodes, "cp-2 (10.0.0.2)", Some(false));
    asks(awaited, Part::Nodes, "\u{1b}[31mcp-3 (10.0.0.3)", None);
    asks(awaited, Part::Api, "10.0.0.100", None);
}

#[test]
fn the_first_round_says_within_a_second_what_it_waits_for() {
    let mut out = Vec::new();
    let mut live = Live::lines(STYLE, &mut out);
    live.start(None);
    live.tick(s(0));
    asks_all(&live.awaited());
    live.tick(s(1));
    live.tick(s(7));
    asks(&live.awaited(), Part::Servers, "cp-1 (10.0.0.1)", None);
    live.tick(s(8));
    live.tick(s(9));
    live.tick(s(38));
    drop(live);
    insta::assert_snapshot!(String::from_utf8(out).unwrap().replace(env!("CARGO_PKG_VERSION"), "VERSION"), @r"
    cluster-health VERSION  deadline 5m00s
    [    1s] ....  first check in progress, waiting 1s of 5m00s: endpoints: answered; nodes: 1 of 3 answered, 1 failed, waiting for cp-3 (10.0.0.3); Kubernetes API: waiting for 10.0.0.100
    [    8s] ....  first check in progress, waiting 8s of 5m00s: endpoints: answered; nodes: 1 of 3 answered, 1 failed, waiting for cp-3 (10.0.0.3); Kubernetes API: waiting for 10.0.0.100; API servers: waiting for cp-1 (10.0.0.1)
    [   38s] ....  first check in progress, waiting 38s of 5m00s: endpoints: answered; nodes: 1 of 3 answered, 1 failed, waiting for cp-3 (10.0.0.3); Kubernetes API: waiting for 10.0.0.100; API servers: waiting for cp-1 (10.0.0.1)
    ");
}

#[test]
fn the_first_round_shows_what_it_waits_for() {
    let screen = Screen::default();
    let mut live = Live::region(LiveStyle { ascii: true, ..STYLE }, screen.clone(), || SIZE.get());
    live.start(None);
    asks_all(&live.awaited());
    live.tick(s(1));
    live.tick(s(2));
    let frame = frames(&screen).pop().unwrap();
    insta::assert_snapshot!(frame.strip_prefix(&(erased(5) + "\u{1b}[?7l\n")).unwrap().trim_end_matches("\u{1b}[?7h"), @r"
    \ first check in progress, 2s of 5m00s
    + endpoints       answered
    - nodes           1 of 3 answered, 1 failed, waiting for ...
    - Kubernetes API  waiting for 10.0.0.100
    ");
    assert!(live.spins());
    live.judged(1, s(3), s(3), &round(true, ""));
    assert!(!live.spins());
}

#[test]
fn stability_is_visible() {
    let mut out = Vec::new();
    let mut live = Live::lines(LiveStyle { heartbeat: s(8), ..STYLE }, &mut out);
    let relapse = Event::StabilityLost { after: s(5), because: vec![CheckId::K8sNodesReady] };
    let stable = |begun, so_far| Event::Stable { begun, so_far, wanted: s(30) };
    live.judged(1, s(1), s(1), &round(true, ""));
    live.event(&stable(true, Duration::from_nanos(300)));
    live.judged(2, s(6), s(1), &round(true, ""));
    live.event(&stable(false, s(5)));
    live.tick(s(9));
    live.judged(3, s(11), s(1), &round(false, "x"));
    live.event(&relapse);
    live.tick(s(19));
    drop(live);
    insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r"
    [    1s] pass  talos.nodes.reachable         3 nodes
    [    1s] pass  k8s.nodes.ready               2 nodes
    [    1s] pass  k8s.staticpods.running
    healthy for 0s of 30s
    [    9s] ....  all passed, stable for 8s of 30s
    [   11s] block 1 check
    [   11s] wait  k8s.nodes.ready               2 of 3 nodes; cp-3 (10.0.0.3): x
    no longer healthy after 5s: k8s.nodes.ready; the stability period starts over
    [   19s] ....  1 of 3 passed, waiting 19s of 5m00s: k8s.nodes.ready (2 of 3 nodes; cp-3 (10.0.0.3): x)
    ");
}

#[test]
fn one_pass_says_fail_at_once() {
    let mut out = Vec::new();
    let mut live = Live::lines(LiveStyle { wait_timeout: None, ..STYLE }, &mut out);
    live.judged(1, s(1), s(1), &round(false, "x"));
    drop(live);
    assert!(String::from_utf8(out).unwrap().contains("fail  k8s.nodes.ready"));
}

#[test]
fn quiet_shows_nothing() {
    let mut out = Vec::new();
    let mut live = Live::lines(LiveStyle { quiet: true, ..STYLE }, &mut out);
    live.start(None);
    live.judged(1, s(1), s(1), &round(false, "x"));
    live.note("x");
    live.tick(s(100));
    drop(live);
    assert_eq!(String::from_utf8(out).unwrap(), "");
}

#[test]
fn hostile_text_writes_no_control_character() {
    let mut out = Vec::new();
    let mut live = Live::lines(LiveStyle { verbose: true, ..STYLE }, &mut out);
    live.start(Some("\u{1b}[2J"));
    let target = Target::new(crate::model::Kind::Pod, "\n::error::x");
    let problem = Problem::fail(Reason::CrashLooping, "x", "\u{1b}[31m\r\n##[error]\u{202e}");
    live.judged(1, s(1), s(1), &[(&fixture::NODES, verdict(vec![fixture::problem(target, problem)]))]);
    live.tick(s(100));
    drop(live);
    let text = String::from_utf8(out).unwrap();
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    assert!(!text.contains("##["));
    assert!(text.lines().all(|line| !line.trim_start().starts_with("::")));
}

struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

#[test]
fn a_closed_stderr_is_ignored() {
    let mut live = Live::lines(STYLE, Closed);
    live.start(None);
    live.note("x");
    live.judged(1, s(1), s(1), &round(true, ""));
}

/// An output that can be read after the view is gone.
#[derive(Clone, Default)]
struct Screen(Arc<Mutex<Vec<u8>>>);

impl Screen {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

thread_local! {
    static SIZE: Cell<Size> = const { Cell::new(Size { columns: 60, lines: 24 }) };
}

/// Returns each frame separately.
fn frames(screen: &Screen) -> Vec<String> {
    screen.text().replace("\r\u{1b}[", "\0\r\u{1b}[").split('\0').map(str::to_owned).collect()
}

/// Returns the sequence that erases this number of rows, and the line of the cursor below them.
fn erased(rows: usize) -> String {
    let lines = "\u{1b}[B\u{1b}[2K".repeat(rows);
    format!("\r\u{1b}[{rows}A\u{1b}[2K{lines}\u{1b}[{rows}A")
}

#[test]
fn the_region_is_gone_once_it_is_dropped() {
    let screen = Screen::default();
    let mut live = Live::region(STYLE, screen.clone(), || SIZE.get());
    live.start(Some("prod"));
    live.judged(1, s(1), s(1), &round(false, &"long ".repeat(40)));
    live.tick(s(2));
    live.tick(s(3));
    live.line("said at the end");
    drop(live);
    let frames = frames(&screen);
    let [.., drawn, last] = frames.as_slice() else { panic!("{frames:?}") };
    assert_eq!(*last, erased(4) + "said at the end\n");
    let rows = drawn.strip_prefix(&(erased(4) + "\u{1b}[?7l\n")).unwrap().strip_suffix("\u{1b}[?7h").unwrap();
    insta::assert_snapshot!(rows, @r"
    1 of 3 passed, 3s of 5m00s  ━━━━━━╸─────────────
    connect ✓  nodes ✗  pods ?
      k8s.nodes.ready  for 2s  2 of 3 nodes; cp-3 (10.0.0.3): l…
    ");
}

#[test]
fn a_resized_terminal_has_wrapped_the_rows() {
    let screen = Screen::default();
    let mut live = Live::region(LiveStyle { ascii: true, ..STYLE }, screen.clone(), || SIZE.get());
    live.judged(1, s(1), s(1), &round(false, &"long ".repeat(40)));
    live.tick(s(1));
    for (columns, lines, up, rows) in [(20, 24, 4 + 1 + 2 + 2, 4), (60, 3, 4, 2), (60, 24, 2, 4), (60, 24, 4, 4)] {
        SIZE.set(Size { columns, lines });
        live.resized(s(2));
        let frame = frames(&screen).pop().unwrap();
        assert!(frame.starts_with(&(erased(up) + "\u{1b}[?7l")), "{columns}x{lines}: {frame:?}");
        assert_eq!(frame.matches('\n').count(), rows, "{columns}x{lines}: {frame:?}");
        assert!(frame.is_ascii(), "{frame:?}");
    }
    SIZE.set(Size { columns: 60, lines: 24 });
}

#[test]
fn pending_checks_without_room_are_counted() {
    let screen = Screen::default();
    let mut live = Live::region(STYLE, screen.clone(), || Size { columns: 60, lines: 7 });
    let bad = || verdict(vec![fixture::problem(fixture::node(1), Problem::fail(Reason::NodeNotReady, "x", "y"))]);
    let verdicts: Vec<_> = fixture::CHECKS.iter().map(|check| (*check, bad())).collect();
    live.judged(1, s(1), s(1), &verdicts);
    live.tick(s(1));
    // The lines were part of the previous frame.
    live.tick(s(1));
    let frame = frames(&screen).pop().unwrap();
    assert!(frame.contains("\n  talos.nodes.ready  for 0s  cp-1 (10.0.0.1): y\n  and 8 more\n"), "{frame:?}");
    assert_eq!(frame.matches('\n').count(), 6, "the cursor has the seventh line: {frame:?}");
}

#[test]
fn a_section_is_open_only_around_lines_and_always_closed() {
    let times = |text: &str| regex::Regex::new("_(start|end):[0-9]+").unwrap().replace_all(text, "_$1:T").into_owned();
    let section = || Section::of_progress("2026-11-21T03:00:00Z".parse().unwrap());
    let mut out = Vec::new();
    let mut live = Live::lines(STYLE, &mut out).within(section());
    live.note("one");
    live.note("two");
    drop(live);
    assert_eq!(
        times(&String::from_utf8(out).unwrap()),
        "\u{1b}[0Ksection_start:T:cluster_health_1795230000000[collapsed=true]\r\u{1b}[0Kcluster-health: progress\n\
         one\ntwo\n\u{1b}[0Ksection_end:T:cluster_health_1795230000000\r\u{1b}[0K\n"
    );
    let mut out = Vec::new();
    drop(Live::lines(STYLE, &mut out).within(section()));
    assert!(out.is_empty());
    let mut live = Live::lines(LiveStyle { quiet: true, ..STYLE }, &mut out).within(section());
    live.note("one");
    drop(live);
    assert!(out.is_empty());
}

fn says(message: &str) -> ServerProgress {
    ServerProgress { hostname: String::new(), message: message.to_owned(), error: None }
}

#[test]
fn what_the_server_says_is_a_line_when_it_is_news() {
    let mut out = Vec::new();
    let mut live = Live::lines(STYLE, &mut out);
    let lines = [
        "waiting for etcd to be healthy: ...",
        "waiting for etcd to be healthy: \u{1b}[31mno\n::error::leader",
        "waiting for etcd to be healthy: \u{1b}[31mno\n::error::leader",
        "waiting for etcd to be healthy: OK",
        // The next round starts over.
        "waiting for etcd to be healthy: ...",
        "waiting for etcd to be healthy: OK",
    ];
    for (at, line) in (1..).zip(lines) {
        live.event(&Event::ServerSaid { at: s(at), said: &says(line) });
    }
    drop(live);
    insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r"
    [    1s] says  talos.server                  waiting for etcd to be healthy: ...
    [    2s] says  talos.server                  waiting for etcd to be healthy: no : :error::leader
    [    4s] says  talos.server                  waiting for etcd to be healthy: OK
    ");
}
