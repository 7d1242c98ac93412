//! Progress as it appears, line by line.

use std::io;
use std::sync::{Arc, Mutex};

use indicatif::TermLike;

use super::super::fixture;
use super::*;
use crate::checks::{Finding, Problem, Target};

const STYLE: LiveStyle = LiveStyle {
    colour: false,
    ascii: false,
    quiet: false,
    verbose: false,
    heartbeat: Duration::from_secs(30),
    wait_timeout: Some(Duration::from_secs(300)),
};

fn verdict(findings: Vec<Finding>) -> Verdict {
    Verdict { findings, resample_after: None }
}

fn round(ready: bool, observed: &str) -> Vec<(&'static Check, Verdict)> {
    let mut nodes = fixture::on_nodes(2, "Ready");
    if !ready {
        nodes.push(fixture::problem(fixture::node(3), Problem::fail(Reason::NodeNotReady, "Ready", observed)));
    }
    let blocked = Verdict::blocked("k8s.nodes.ready");
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
    assert!(out.contains("2 of 3 nodes; cp-3: staticPods not ready; cp-3: services not ready"), "{out}");
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
    [   30s] ....  the first round has not ended, waiting 30s of 5m00s
    [   31s] pass  talos.nodes.reachable         3 nodes
    [   31s] block 1 check
    [   31s] wait  k8s.nodes.ready               2 of 3 nodes; cp-3: container network not ready
    [ 1m01s] ....  1 of 3 passed, waiting 1m01s of 5m00s: k8s.nodes.ready (2 of 3 nodes; cp-3: container network still not ready)
    [ 1m10s] pass  k8s.nodes.ready               2 nodes; 3 rounds
    [ 1m10s] pass  k8s.staticpods.running        3 rounds
    ");
}

#[test]
fn stability_is_visible() {
    let mut out = Vec::new();
    let mut live = Live::lines(LiveStyle { heartbeat: s(8), ..STYLE }, &mut out);
    let relapse = Event::StabilityLost { after: s(5), because: vec!["k8s.nodes.ready"] };
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
    [   11s] wait  k8s.nodes.ready               2 of 3 nodes; cp-3: x
    no longer healthy after 5s: k8s.nodes.ready; stability starts anew
    [   19s] ....  1 of 3 passed, waiting 19s of 5m00s: k8s.nodes.ready (2 of 3 nodes; cp-3: x)
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
    let target = Target::new(crate::checks::Kind::Pod, "\n::error::x");
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

#[derive(Clone, Debug, Default)]
struct Screen(Arc<Mutex<String>>);

impl Screen {
    fn push(&self, text: &str) {
        self.0.lock().unwrap().push_str(text);
    }
}

impl TermLike for Screen {
    fn width(&self) -> u16 {
        60
    }
    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        self.push("<up>");
        Ok(())
    }
    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        self.push("<down>");
        Ok(())
    }
    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn write_line(&self, line: &str) -> io::Result<()> {
        self.push(&format!("{line}\n"));
        Ok(())
    }
    fn write_str(&self, text: &str) -> io::Result<()> {
        self.push(text);
        Ok(())
    }
    fn clear_line(&self) -> io::Result<()> {
        self.push("<clear>");
        Ok(())
    }
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_region_is_cleared_when_a_panic_unwinds() {
    let screen = Screen::default();
    let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut live = Live::region(STYLE, io::sink(), target);
        live.start(Some("prod"));
        live.judged(1, s(1), s(1), &round(false, &"long ".repeat(40)));
        live.tick(s(2));
        std::panic::resume_unwind(Box::new("x"));
    }));
    assert!(result.is_err());
    let drawn = screen.0.lock().unwrap().clone();
    let row = "  k8s.nodes.ready  2 of 3 nodes; cp-3: long";
    assert!(!drawn.contains(&format!("{row} long long long long")), "rows are cut to the width: {drawn}");
    assert!(drawn.contains(row), "{drawn}");
    assert!(drawn.contains("wait"), "{drawn}");
    assert!(drawn.rsplit("long").next().unwrap().contains("<clear>"), "{drawn}");
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
        // The next round begins anew.
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
