//! Progress and report on a real terminal: the display while the program waits, and the remaining output at the end.

mod streams;
mod tmux;

use std::process::Command;

use regex::Regex;

use self::tmux::Terminal;
use crate::cluster::Cluster;
use crate::formats::small;
use crate::harness::Program;

/// Returns whether the line is a row of the region that shows the progress of the run, or the pending requests.
fn is_of_region(line: &str) -> bool {
    let counts = r"^[0-9]+ of [0-9]+ passed, |^[^\[] first check in progress|^  [a-z0-9.-]+  for [0-9]|^[^\[] [A-Za-z ]+  .*(answered|waiting for)";
    let counts = Regex::new(counts).unwrap();
    counts.is_match(line)
}

/// A cluster whose worker's kubelet crashes.
fn sick() -> Cluster {
    let cluster = small();
    cluster.change(|world| world.kubelet_crash("worker-1"));
    cluster
}

/// Prepares a waiting run. A busy machine must not make the cluster fail.
fn waiting(cluster: &Cluster) -> Program {
    cluster.program().args(["--wait-timeout", "1h", "--interval", "1s", "--attempt-timeout", "60s"])
}

/// Returns the visible rows of the region: all rows after the empty one.
fn region(screen: &[String]) -> Vec<&str> {
    let first = screen.iter().rposition(String::is_empty).map_or(0, |empty| empty + 1);
    screen[first..].iter().map(String::as_str).collect()
}

/// Returns the elapsed time in the region: `38 of 45 passed, 1m02s of 1h00m`.
fn seconds(counts: &str) -> u64 {
    let parts = Regex::new(" passed, (?:([0-9]+)m)?([0-9]+)(?:\\.[0-9])?s ").unwrap().captures(counts).unwrap();
    let number = |group| parts.get(group).map_or(0, |digits| digits.as_str().parse().unwrap());
    number(1) * 60 + number(2)
}

/// Returns the region after a round, once something has been pending for seconds.
#[track_caller]
fn pending(terminal: &Terminal) -> Vec<String> {
    let pending = Regex::new("^  talos.nodes.kubelet  for ([0-9]+m)?[1-9][0-9]*s  ").unwrap();
    terminal.until("pending check", |screen| screen.iter().any(|line| pending.is_match(line)))
}

#[test]
fn waits_and_is_interrupted() {
    let cluster = sick();
    let terminal = Terminal::open(waiting(&cluster), 100, 30);
    terminal.run("");
    let screen = pending(&terminal);
    let times = Regex::new("\\b([0-9]+m)?[0-9]+(\\.[0-9])?s\\b").unwrap();
    let rows = region(&screen).join("\n");
    // The address length determines where a row is cut.
    let addresses = Regex::new("\\(127[0-9.]+\\)(: .{12}).*").unwrap();
    insta::assert_snapshot!(addresses.replace_all(&times.replace_all(&rows, "0s"), "(127.0.0.3)$1…"));
    let begun = screen.iter().position(|line| line.starts_with("cluster-health ")).unwrap();
    assert!(screen[begun].ends_with("  deadline 1h00m"), "{}", screen.join("\n"));
    assert!(screen[begun + 1].starts_with('['), "lines are whole: {}", screen.join("\n"));
    terminal.wait("cursor below the region", || terminal.cursor(), |cursor| *cursor == (0, true));
    terminal.press("C-c");
    let left = terminal.ends(130);
    let verdict = "interrupted (SIGINT): ";
    assert_eq!(left.iter().filter(|line| line.starts_with(verdict)).count(), 2, "{}", left.join("\n"));
    // The lines before the exit code and the prompt.
    let last = &left[..left.len() - 2];
    assert!(last[last.len() - 4].starts_with(verdict), "the report is whole: {}", left.join("\n"));
    assert!(last[last.len() - 1].contains("talosctl"), "and has its end: {}", left.join("\n"));
    assert!(!left.iter().any(|line| line.contains("^C")), "{}", left.join("\n"));
    assert!(left.iter().any(|line| line.contains("wait  talos.nodes.kubelet")), "{}", left.join("\n"));
}

#[test]
fn is_interrupted_before_a_round_has_ended() {
    let cluster = small();
    cluster.transport("cp-1", simulator::world::Transport::Silent);
    let terminal = Terminal::open(waiting(&cluster), 80, 24);
    terminal.run("");
    // Its rows appear one by one.
    terminal.until("region of the first round", |screen| {
        let rows = [" first check in progress, ", " endpoints       waiting for 127.", " Kubernetes API  "];
        rows.iter().all(|row| screen.iter().any(|line| line.contains(row)))
    });
    terminal.press("C-c");
    let left = terminal.ends(130);
    assert!(left.iter().any(|line| line.contains("no round was completed")), "{}", left.join("\n"));
}

#[test]
fn is_terminated() {
    let cluster = sick();
    let terminal = Terminal::open(waiting(&cluster), 80, 24);
    terminal.run("");
    pending(&terminal);
    assert!(Command::new("kill").args(["-TERM", terminal.file("pid").trim()]).status().unwrap().success());
    let left = terminal.ends(143);
    assert!(left.iter().any(|line| line.starts_with("interrupted (SIGTERM): ")), "{}", left.join("\n"));
}

/// Users may resize the window to each of these sizes while the program waits; in the end, the cluster recovers.
#[test]
fn is_resized_and_ends_healthy() {
    let cluster = sick();
    let terminal = Terminal::open(waiting(&cluster), 100, 40);
    // The region begins at the bottom of the screen, as after other commands: additional rows push up the lines above
    // them.
    terminal.enter("seq 50");
    terminal.run("");
    pending(&terminal);
    let counts = |line: &&str| line.contains(" passed, ") && is_of_region(line);
    for (columns, lines, fits) in [
        (40, 40, true),
        (33, 40, true),
        (120, 40, true),
        (100, 40, true),
        (100, 9, true),
        // A row now takes several lines, and there are too few: lines that have been scrolled away cannot be erased.
        (40, 9, false),
    ] {
        terminal.resize(columns, lines);
        let is_cut = |screen: &[&str]| {
            let row = screen.iter().find(|line| line.starts_with("  talos.nodes.kubelet  for "));
            row.is_some_and(|row| row.ends_with('…') && row.chars().count() == columns)
        };
        let what = format!("region of {columns}x{lines}");
        let first = terminal.until(&what, |screen| {
            screen.iter().filter(|line| counts(line)).count() == 1 && (is_cut(screen) || columns > 100)
        });
        let age = |screen: &[&str]| screen.iter().find(|line| counts(line)).map_or(0, |line| seconds(line));
        let before = age(&first.iter().map(String::as_str).collect::<Vec<_>>());
        // The region stays like this. tmux holds back the next size until a quarter of a second after the last one.
        let screen = terminal.until(&what, |screen| age(screen) > before + 1);
        let shown = screen.join("\n");
        assert_eq!(screen.iter().filter(|line| counts(&line.as_str())).count(), 1, "{what}: {shown}");
        assert_eq!(region(&screen).first().map(counts), Some(true), "{what}: {shown}");
        terminal.wait(&format!("cursor below the {what}"), || terminal.cursor(), |cursor| *cursor == (0, true));
        let is_drawn = |everything: &Vec<String>| everything.iter().any(|line| counts(&line.as_str()));
        let everything = terminal.wait(&what, || terminal.everything(), is_drawn);
        let all = |condition: &dyn Fn(&str) -> bool| everything.iter().filter(|line| condition(line)).count();
        assert_eq!(all(&|line| line.starts_with("cluster-health ")), 1, "lines stay: {}", everything.join("\n"));
        assert!(!fits || all(&|line| counts(&line)) == 1, "{what}: {}", everything.join("\n"));
    }
    cluster.change(|world| world.kubelet_heals("worker-1"));
    let screen = terminal.until("end", |screen| screen.contains(&"code=0"));
    assert!(!screen.iter().any(|line| is_of_region(line)), "{}", screen.join("\n"));
    assert!(screen.iter().any(|line| line.starts_with("healthy: ")), "{}", screen.join("\n"));
}

#[test]
fn ends_at_once() {
    let healthy = small();
    let sick = sick();
    let attempt = ["--attempt-timeout", "60s"];
    for (cluster, arguments, code, words) in [
        (&healthy, &[][..], 0, "healthy: "),
        (&sick, &[], 1, "unhealthy: "),
        (&sick, &["--wait-timeout", "6s", "--interval", "1h"], 1, "deadline of 6s"),
    ] {
        let terminal = Terminal::open(cluster.program().args(attempt).args(arguments), 80, 24);
        terminal.run("");
        let left = terminal.ends(code);
        assert!(left.iter().any(|line| line.contains(words)), "{}", left.join("\n"));
    }
}
