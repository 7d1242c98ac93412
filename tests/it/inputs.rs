//! Invalid files and options: one exit code for each, a helpful message, and no connection.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use simulator::pki::{Flaw, Leaf};

use crate::harness::program;
use crate::pki::{authority, client, talosconfig};

/// An address without a listener, which these tests never reach.
const NOWHERE: &str = "127.0.0.1:1";

fn good() -> String {
    let authority = authority();
    let client = client(&authority, Flaw::None);
    talosconfig(authority.pem(), &client, &[NOWHERE.to_owned()])
}

#[test]
fn no_talosconfig() {
    program().run().is(78, &["talosconfig", "--no-talos"]);
}

#[test]
fn a_variable_that_names_nothing() {
    program().talosconfig(good()).env("TALOSCONFIG", "/no/such/file").run().is(78, &["/no/such/file"]);
}

#[test]
fn a_flag_that_names_nothing() {
    program().talosconfig(good()).args(["--talosconfig", "/no/such/file"]).run().is(78, &["/no/such/file"]);
}

#[test]
fn files_that_are_no_talosconfig() {
    let huge = vec![b'#'; 100 << 20];
    let cases: [(&str, &[u8]); 7] = [
        ("empty", b""),
        ("spaces", b" \n\n"),
        ("truncated", b"context: prod\ncontexts:\n    prod:\n        endpoints: [\"10."),
        ("binary", b"\x00\xff\xfe\x7fELF\x02"),
        ("a list", b"- context\n- contexts\n"),
        ("text", b"hello"),
        ("100 MiB", &huge),
    ];
    for (name, content) in cases {
        let outcome = program().talosconfig(content).run();
        assert!(outcome.stdout.contains(".talos/config"), "{name}: {outcome}");
        assert_eq!(outcome.code, 78, "{name}: {outcome}");
    }
}

#[test]
fn a_folder() {
    let program = program();
    std::fs::create_dir_all(program.path(".talos/config")).unwrap();
    program.run().is(78, &[".talos/config", "directory"]);
}

#[test]
fn an_unreadable_file() {
    let program = program().talosconfig(good());
    std::fs::set_permissions(program.path(".talos/config"), PermissionsExt::from_mode(0o000)).unwrap();
    let outcome = program.run();
    // root can read the file anyway, and then finds no server at the endpoint.
    let root = std::fs::metadata("/proc/self").map(|own| std::os::unix::fs::MetadataExt::uid(&own)).unwrap() == 0;
    assert_eq!(outcome.code, if root { 1 } else { 78 }, "{outcome}");
}

#[test]
fn an_unknown_context_offers_the_nearest() {
    program().talosconfig(good()).args(["--context", "prud"]).run().is(78, &["prud", "prod"]);
}

#[test]
fn broken_base64_names_key_and_line() {
    let broken = good().replace("        key: ", "        key: !!");
    let outcome = program().talosconfig(broken.replace("!!", "\"%%\" #")).run();
    outcome.is(78, &["contexts.prod.key"]);
}

#[test]
fn a_key_of_another_certificate() {
    let authority = authority();
    let other = client(&authority, Flaw::None);
    let client = Leaf { key: other.key, ..client(&authority, Flaw::None) };
    let config = talosconfig(authority.pem(), &client, &[NOWHERE.to_owned()]);
    program().talosconfig(config).run().is(78, &["key-mismatch"]);
}

#[test]
fn certificates_that_cannot_be_used() {
    for (flaw, reason) in [(Flaw::Expired, "certificate-expired"), (Flaw::WithoutClientAuth, "client-auth-missing")] {
        let authority = authority();
        let client = client(&authority, flaw);
        let config = talosconfig(authority.pem(), &client, &[NOWHERE.to_owned()]);
        // Waiting would not help, so the run ends immediately.
        let outcome = program().talosconfig(config).args(["--wait-timeout", "1h", "-o", "json"]).run();
        outcome.is(78, &[reason]);
        assert_eq!(outcome.json()["result"], "error");
    }
}

#[test]
fn usage_errors() {
    for arguments in [
        &["--wait-timeout", "-5s"][..],
        &["--wait-timeout", "soon"],
        &["--wait-timeout", "5"],
        &["--stable-for", "1m"],
        &["--check", "etcd.qorum"],
        &["--skip", "no-such-check"],
        &["--output", "yaml"],
        &["--report", "json"],
        &["--report", "yaml=x"],
        &["--report", "json=r", "--report", "junit=r"],
        &["--report", "json=r", "--report", "junit=./r"],
        &["--no-such-option"],
        &["--level", "etcd", "--expect-kubernetes", "1.99"],
        &["--skip", "talos.nodes.expected", "--expect-workers", "7"],
        &["--level", "talos", "--require-quorum-margin", "1"],
        &["--no-talos", "--require-quorum-margin", "1"],
        &["--no-kubernetes", "--expect-kubernetes", "1.35"],
        &["--no-talos", "--expect-talos", "v1.13.0"],
        &["--server", "--skip", "talos.server"],
        &["explain", "no-such-thing"],
    ] {
        let outcome = program().talosconfig(good()).args(arguments).run();
        assert_eq!(outcome.code, 2, "{arguments:?}: {outcome}");
        assert_eq!(outcome.stdout, "", "{arguments:?}");
    }
    program().args(["--check", "etcd.qorum"]).run().is(2, &["etcd.quorum"]);
}

#[test]
fn variables_stand_for_options() {
    program().env("CLUSTER_HEALTH_TALOSCONFIG", "/no/such/file").run().is(78, &["/no/such/file"]);
    program().env("CLUSTER_HEALTH_WAIT_TIMEOUT", "-1s").run().is(2, &["negative"]);
    // A variable that weakens the verdict is reported.
    let outcome = program().talosconfig(good()).env("CLUSTER_HEALTH_NO_KUBERNETES", "1").args(["-o", "json"]).run();
    outcome.is(1, &["CLUSTER_HEALTH_NO_KUBERNETES"]);
}

#[test]
fn a_variable_of_no_option_is_a_usage_error() {
    let with = |name| program().talosconfig(good()).env(name, "1");
    with("CLUSTER_HEALTH_STRCIT").run().is(2, &["CLUSTER_HEALTH_STRCIT", "did you mean `CLUSTER_HEALTH_STRICT`"]);
    with("CLUSTER_HEALTH_STRCIT").args(["explain", "quorum-lost"]).run().is(0, &[]);
    with("CLUSTER_HEALTH_STRICT").env("CLUSTER_HEALTH_STRCIT", "").args(["--no-kubernetes"]).run().is(1, &[]);
}

/// The option can be repeated, and its variable can contain the number; the option takes precedence over the variable.
#[test]
fn verbose_may_be_given_twice() {
    let run = |arguments: &[&str], value: &str| {
        let program = program().talosconfig(good()).args(["--no-kubernetes"]).args(arguments);
        program.env("CLUSTER_HEALTH_VERBOSE", value).run()
    };
    for (arguments, value, says_more, says_why) in [
        (&[][..], "", false, false),
        (&[], "off", false, false),
        (&[], "yes", true, false),
        (&[], "1", true, false),
        (&[], "2", true, true),
        (&["-v"], "", true, false),
        (&["-v"], "2", true, false),
        (&["-vv"], "0", true, true),
        (&["-v", "--verbose"], "", true, true),
        (&["-vvvvv"], "", true, true),
        (&["-q", "-vv"], "", false, false),
    ] {
        let outcome = run(arguments, value);
        let more = outcome.stderr.contains("info  round 1");
        let why = outcome.stderr.contains("why   talos.endpoints ");
        assert_eq!((outcome.code, more, why), (1, says_more, says_why), "{arguments:?} {value:?}: {outcome}");
    }
    assert_eq!(run(&[], "4").code, 2);
}

#[test]
fn an_empty_variable_is_not_set() {
    let plain = program().talosconfig(good()).args(["--no-kubernetes", "-o", "json"]).run();
    let mut emptied = program().talosconfig(good()).args(["--no-kubernetes", "-o", "json"]);
    let help = program().args(["--help"]).run().stdout;
    let names = help.split("[env: ").skip(1).filter_map(|rest| rest.split('=').next());
    let names: Vec<&str> = names.filter(|name| name.starts_with("CLUSTER_HEALTH_")).collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        emptied = emptied.env(name, "");
    }
    let emptied = emptied.run();
    assert_eq!(emptied.code, plain.code, "{emptied}");
    for field in ["weakened", "targeted", "result", "exitReason", "summary", "waitTimeoutMs", "stableForMs"] {
        assert_eq!(emptied.json()[field], plain.json()[field], "{field}");
    }
}

#[test]
fn an_empty_item_of_a_list_is_a_usage_error() {
    for arguments in [["-n", ","], ["-n", ""], ["-n", "cp-1,"], ["--skip", " "], ["--worker-nodes", "a,,b"]] {
        let outcome = program().talosconfig(good()).args(arguments).run();
        outcome.is(2, &["an item of the list is empty"]);
    }
    program().talosconfig(good()).env("CLUSTER_HEALTH_NODES", ",").run().is(2, &["an item of the list is empty"]);
}

#[test]
fn a_configuration_error_is_the_same_with_and_without_kubernetes() {
    for arguments in [&["--no-kubernetes"][..], &[]] {
        let run = |format| {
            let program = program().talosconfig(good()).args(["--context", "prud", "-o", format]).args(arguments);
            program.run()
        };
        let outcome = run("json");
        assert_eq!(outcome.stderr.lines().count(), 2, "its error, and its hint: {outcome}");
        let document = outcome.json();
        assert_eq!((&document["result"], &document["rounds"]), (&"error".into(), &0.into()));
        assert!(document["hint"].as_str().unwrap().contains("prod"), "{document}");
        let outcome = run("text");
        assert!(outcome.stdout.starts_with("error: "), "{outcome}");
        assert!(outcome.stdout.contains("\nhint: did you mean `prod`?"), "{outcome}");
        let both = outcome.stdout.clone() + &outcome.stderr;
        assert_eq!(both.lines().count(), 2, "once: {outcome}");
    }
}

#[test]
fn a_configuration_error_is_seen_where_the_report_is_not() {
    let (script, home) = program().talosconfig(good()).args(["--context", "prud"]).into_script();
    for (redirections, said) in [(">out", true), (">/dev/null", true), ("| cat >out", false)] {
        let script = format!("{} {redirections}", script.trim_end());
        let output = Command::new("sh").args(["-c", &script]).current_dir(home.path()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(stderr.lines().count(), if said { 2 } else { 0 }, "{redirections}: {stderr}");
        assert_eq!(stderr.starts_with("error: "), said, "{redirections}: {stderr}");
    }
}

#[test]
fn a_zero_wait_is_one_full_pass() {
    let outcome = program().talosconfig(good()).args(["--wait-timeout", "0s", "--no-kubernetes"]).run();
    outcome.is(1, &["connection refused"]);
}

#[test]
fn nothing_selected() {
    let outcome = program().talosconfig(good()).args(["--skip", "*"]).run();
    assert_eq!(outcome.code, 4, "{outcome}");
}

#[test]
fn what_is_gone_names_its_replacement() {
    let instead = "is gone: use `--report junit=PATH`";
    for arguments in [&["--junit-file", "x"][..], &["--junit-file=x"], &["check", "--junit-file", "x"]] {
        program().args(arguments).run().is(2, &["error: `--junit-file` ", instead]);
    }
    program().env("CLUSTER_HEALTH_JUNIT_FILE", "x").run().is(2, &["error: `CLUSTER_HEALTH_JUNIT_FILE` ", instead]);
    let instead = "error: `tap` is gone: use `junit`";
    for arguments in [&["-o", "tap"][..], &["--report", "tap=x"], &["report", "x.json", "-o", "tap"]] {
        program().args(arguments).run().is(2, &[instead]);
    }
    program().env("CLUSTER_HEALTH_OUTPUT", "tap").run().is(2, &[instead]);
    program().env("CLUSTER_HEALTH_REPORT", "tap=x").run().is(2, &[instead]);
}

#[test]
fn kubeconfigs_that_cannot_be_used() {
    for (content, words) in [
        ("apiVersion: v1\nkind: Config\n", &["kubeconfig"][..]),
        ("\u{0}", &["kubeconfig"]),
        (
            "current-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {token: t}}]\n\
             clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n",
            &["kubeconfig-insecure"],
        ),
        (
            "current-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {token: t}}]\n\
             clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true}}]\n",
            &["kubeconfig-insecure"],
        ),
    ] {
        let program = program().file("kubeconfig", content);
        let path = program.path("kubeconfig");
        program.args(["--no-talos", "--kubeconfig"]).args([path]).run().is(78, words);
    }
}

#[test]
fn offline_commands() {
    for arguments in [
        &["list"][..],
        &["list", "-o", "json"],
        &["explain", "etcd.quorum"],
        &["explain", "quorum-lost"],
        &["schema"],
        &["completions", "bash"],
        &["man"],
        &["version"],
        &["version", "-o", "json"],
        &["rbac"],
        &["--help"],
        &["--version"],
    ] {
        let outcome = program().args(arguments).run();
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{arguments:?}");
        assert!(!outcome.stdout.is_empty(), "{arguments:?}");
    }
}
