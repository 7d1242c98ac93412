//! Exec plugins of a kubeconfig: third-party programs, which may do anything.

use std::path::Path;
use std::time::Duration;

use crate::harness::{Outcome, Program, code, program};
use crate::signals::{send, until};

/// Prepares a run with a kubeconfig that has this plugin. There is no server behind it.
fn with_plugin(script: &str) -> Program {
    let kubeconfig = "current-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n\
        clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n\
        users: [{name: a, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, \
        interactiveMode: Never, env: [{name: HOME_OF_TEST, value: .}]}}}]\n";
    let program = program().file("kubeconfig", kubeconfig).file("plugin", format!("#!/bin/sh\n{script}\n"));
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(program.path("plugin"), executable).unwrap();
    program.args(["--no-talos", "--kubeconfig=kubeconfig", "--report=json=json"])
}

/// Returns a plugin's answer with this token, in JSON encoding.
fn answer(token: &str) -> String {
    let status = format!(r#"{{"token":"{token}"}}"#);
    format!(r#"{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{status}}}"#)
}

/// kubectl refuses this as well: anyone who can write to the directory in which the gate starts could replace the
/// plugin.
#[test]
fn one_in_the_current_folder_is_not_found_by_its_name() {
    for (path, runs) in [
        ("", false),
        (".", false),
        (":/usr/bin:/bin", false),
        ("/usr/bin:/bin:", false),
        ("/usr/bin::/bin", false),
        ("./:/usr/bin", false),
        ("bin/..:/usr/bin", false),
        ("HOME/bin:.", true),
        ("/nowhere:HOME/bin", true),
    ] {
        for own_path in [false, true] {
            let program = with_plugin("echo $$ >> pids").file("bin/README", "");
            let home = program.home().display().to_string();
            // The intended plugin is in the directory `bin`.
            std::fs::copy(program.path("plugin"), program.path("bin/plugin")).unwrap();
            let kubeconfig = std::fs::read_to_string(program.path("kubeconfig")).unwrap();
            let mut kubeconfig = kubeconfig.replace("command: ./plugin", "command: plugin");
            // The plugin's own variables do not affect where it is found.
            if own_path {
                kubeconfig = kubeconfig.replace("name: HOME_OF_TEST", "name: PATH");
            }
            let program = program.file("kubeconfig", kubeconfig).env("PATH", path.replace("HOME", &home));
            let (outcome, home) = program.run_and_keep();
            assert_eq!(starts(home.path()) > 0, runs, "{path:?}: {outcome}");
            assert!(
                runs || outcome
                    .to_string()
                    .contains("the exec plugin `plugin` was found through PATH in the current folder"),
                "{path:?}: {outcome}"
            );
        }
    }
}

/// Returns the processes that the plugins recorded and that are still running.
fn alive(home: &Path) -> Vec<String> {
    let pids = std::fs::read_to_string(home.join("pids")).unwrap_or_default();
    let is_alive = |pid: &&str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    pids.lines().filter(is_alive).map(str::to_owned).collect()
}

fn starts(home: &Path) -> usize {
    std::fs::read_to_string(home.join("pids")).map_or(0, |pids| pids.lines().count())
}

/// The plugin and a child process both hang.
const HANGS: &str = "echo $$ >> pids; sleep 1000 & echo $! >> pids; sleep 1000";

#[test]
fn one_that_hangs_is_ended_with_all_that_it_has_started() {
    let waits = ["--wait-timeout=3s", "--attempt-timeout=600ms", "--interval=100ms"];
    let (outcome, home) = with_plugin(HANGS).args(waits).run_and_keep();
    outcome.is(78, &["did not finish within"]);
    until(|| alive(home.path()).is_empty());
    // Two processes each: one plugin per round, and never two at the same time.
    assert!((2..=24).contains(&starts(home.path())), "{}", starts(home.path()));
    assert!(outcome.took < Duration::from_secs(5), "{outcome}");
}

#[test]
fn none_outlives_a_signal() {
    for signals in [&["TERM"][..], &["INT", "TERM"]] {
        let (mut child, home) = with_plugin(HANGS).args(["--wait-timeout=1h", "--attempt-timeout=1h"]).spawn();
        until(|| starts(home.path()) == 2);
        assert_eq!(alive(home.path()).len(), 2);
        for signal in signals {
            send(&child, signal);
        }
        let ended = code(child.wait().unwrap());
        assert!(ended == 143 || ended == 130, "{ended}");
        until(|| alive(home.path()).is_empty());
    }
}

#[test]
fn one_that_fails_is_named_with_what_it_complains_about() {
    let outcome = with_plugin("echo 'token has expired, run: login' >&2; exit 7").run();
    outcome.is(78, &["plugin` failed: exit status: 7: token has expired, run: login"]);
    let missing = with_plugin("").file("plugin", "").run();
    missing.is(78, &["plugin` cannot be started: "]);
}

#[test]
fn one_that_prints_without_end_is_ended() {
    let (outcome, home) = with_plugin("echo $$ >> pids; exec yes").run_and_keep();
    outcome.is(78, &["plugin` printed more than 1 MiB"]);
    assert_eq!(alive(home.path()), [""; 0]);
    // Error output does not fill up anything either.
    let answer = format!("yes >&2 & echo '{}'", answer("abc"));
    let outcome = with_plugin(&answer).run();
    assert!(outcome.stdout.contains("the connection was refused"), "{outcome}");
}

#[test]
fn a_token_that_no_header_may_hold_is_an_error_of_the_credentials() {
    for token in [r"s3cret\nX-Remote-User: admin", r"s3cret\u0000", r"s3cret\u00e4", r"\n", ""] {
        let script = format!("cat <<'END'\n{}\nEND", answer(token));
        let is_refused = |outcome: &Outcome| {
            outcome.is(78, &["the answer of the exec plugin"]);
            assert!(!outcome.stdout.contains("s3cr") && !outcome.stderr.contains("s3cr"), "{outcome}");
        };
        is_refused(&with_plugin(&script).run());
    }
}
