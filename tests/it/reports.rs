//! Streams and files: one document on stdout, valid reports in every case, and the same code for every format.

use crate::documents::{FORMATS, is_success};
use crate::harness::{HEALTHY, code, program, tool};
use crate::pki::{authority, reader};

/// A talosconfig whose endpoint refuses connections: port 1 has no listener on any loopback address.
fn unreachable() -> String {
    reader(&authority(), &[([127, 0, 0, 9], 1).into()])
}

fn schema() -> jsonschema::Validator {
    let schema = program().args(["schema"]).run().json();
    jsonschema::validator_for(&schema).unwrap()
}

#[test]
fn the_code_is_the_same_for_every_format_and_verbosity() {
    let formats = FORMATS.map(|format| vec!["-o", format]);
    let others = [vec!["-q"], vec!["-v"], vec!["-vv"], vec!["--color", "never"]];
    for arguments in formats.iter().chain(&others) {
        let outcome = program().talosconfig(unreachable()).args(["--no-kubernetes"]).args(arguments).run();
        assert_eq!(outcome.code, 1, "{arguments:?}: {outcome}");
    }
}

#[test]
fn stdout_is_one_valid_document_and_every_check_is_in_it() {
    let checks = program().args(["list", "-o", "json"]).run().json();
    let all = checks.as_array().or_else(|| checks["checks"].as_array()).unwrap();
    // Checks of upgrades and of policies appear only if the options request them.
    let is_asked_for =
        |id: &str| id.starts_with("upgrade.") || id.starts_with("policy.") || id == "talos.nodes.extensions";
    let listed = all.iter().filter(|check| !is_asked_for(check["id"].as_str().unwrap())).count();
    let second_opinion = ["--server", "--no-kubernetes"];
    for (arguments, unplanned) in [
        (&second_opinion[..], 0),
        // Without `--server`, the second opinion is not mentioned.
        (&second_opinion[1..], 1),
        (&["--context", "none"], 1),
        (&["--skip", "*"], 1),
        (&["--level", "talos"], 1),
    ] {
        let outcome = program().talosconfig(unreachable()).args(["-o", "json"]).args(arguments).run();
        let report = outcome.json();
        assert_eq!(report["checks"].as_array().unwrap().len(), listed - unplanned, "{arguments:?}");
        assert_eq!(report["exitCode"], outcome.code, "{arguments:?}");
        let errors: Vec<String> = schema().iter_errors(&report).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{arguments:?}: {errors:?}");
    }
}

#[test]
fn files_are_written_beside_stdout() {
    let program = program().talosconfig(unreachable());
    let (json, junit) = (program.path("new/folder/r.json"), program.path("r.xml"));
    let outcome = program.args(["--no-kubernetes", "--report", "json=new/folder/r.json", "--report", "junit=r.xml"]);
    let home = outcome.home().to_owned();
    let (mut child, _keep) = outcome.spawn();
    assert_eq!(code(child.wait().unwrap()), 1);
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert_eq!(report["complete"], true);
    assert!(std::fs::read_to_string(junit).unwrap().contains("<testsuites"));
    let left: Vec<_> = std::fs::read_dir(home).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "no temporary file stays: {left:?}");
}

/// Everything written to the stream would be lost, and the report would be overwritten by later output.
#[test]
fn a_file_that_a_stream_goes_to_is_no_file_of_a_report() {
    let earlier = "what an earlier step said\n";
    for (stream, redirection) in [("stdout", ">>"), ("stderr", "2>>")] {
        for path in ["log", &format!("/dev/{stream}")] {
            let shell = tool("sh").talosconfig(unreachable()).file("log", earlier);
            let script = format!(r#""$@" --report junit={path} {redirection} log"#);
            let program = ["-c", &script, "sh", env!("CARGO_BIN_EXE_cluster-health"), "--no-kubernetes"];
            let (outcome, home) = shell.args(program).run_and_keep();
            let said = outcome.stderr.clone() + &std::fs::read_to_string(home.path().join("log")).unwrap();
            assert_eq!(outcome.code, 2, "{stream}: {outcome}");
            assert!(said.contains(earlier), "{stream}: {said}");
            assert!(said.contains(&format!("{stream} is redirected to the file of a report: `{path}`")), "{said}");
        }
    }
}

/// In CI both streams are pipes, so two documents would be mixed.
#[test]
fn no_report_goes_to_the_pipe_of_a_stream() {
    for stream in ["stdout", "stderr"] {
        let report = format!("--report=json=/dev/{stream}");
        let outcome = program().talosconfig(unreachable()).args(["--no-kubernetes", &report]).run();
        outcome.is(2, &[&format!("{stream} is redirected to the file of a report")]);
    }
}

/// Arguments from a pipeline may contain the name of a branch.
#[test]
fn what_is_wrong_with_arguments_is_no_command_of_a_ci_system() {
    for argument in ["--no\n::stop-commands::x", "--trace=a\n##vso[task.complete]/", "--report=\u{1b}[2Jx=y"] {
        let outcome = program().args([argument]).run();
        assert_ne!(outcome.code, 0);
        let is_command =
            |line: &str| line.trim_start().starts_with("::") || line.contains("##") || line.contains('\u{1b}');
        assert!(!outcome.stderr.lines().any(is_command), "{}", outcome.stderr);
    }
}

/// A report would replace the input before it is read, and there may be no other copy.
#[test]
fn what_is_read_is_no_file_of_a_report() {
    let [ca, crt, key] = ["ca.pem", "crt.pem", "key.pem"];
    let authority = authority();
    let client = crate::pki::client(&authority, simulator::pki::Flaw::None);
    let kubeconfig = "current-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n\
        clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1', certificate-authority: ca.pem}}]\n\
        users: [{name: a, user: USER}, {name: of-another-context, user: {tokenFile: other}}]\n";
    let by_certificate = "{client-certificate: crt.pem, client-key: key.pem}";
    let by_token = "{tokenFile: token}";
    let by_plugin = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, interactiveMode: Never}}";
    let etcd = ["--etcd-endpoints=127.0.0.1:1", "--etcd-cacert=ca.pem", "--etcd-cert=crt.pem", "--etcd-key=key.pem"];
    let kube = ["--kubeconfig=kubeconfig", "--no-talos"];
    let links = |program: &crate::harness::Program, target: &str| {
        std::os::unix::fs::symlink(target, program.path("symlink")).unwrap();
        std::fs::hard_link(program.path(target), program.path("hardlink")).unwrap();
    };
    for (target, user, arguments, variable) in [
        (".talos/config", by_certificate, &[][..], None),
        ("talosconfig", by_certificate, &["--talosconfig=talosconfig"], None),
        ("talosconfig", by_certificate, &[], Some("TALOSCONFIG")),
        ("kubeconfig", by_certificate, &kube, None),
        ("kubeconfig", by_certificate, &["--no-talos"], Some("KUBECONFIG")),
        (".kube/config", by_certificate, &["--no-talos"], None),
        (ca, by_certificate, &kube, None),
        (crt, by_certificate, &kube, None),
        (key, by_certificate, &kube, None),
        ("token", by_token, &kube, None),
        ("plugin", by_plugin, &kube, None),
        (ca, by_certificate, &etcd, None),
        (crt, by_certificate, &etcd, None),
        (key, by_certificate, &etcd, None),
        // Files that are not read: another context's, and files after one that cannot be used.
        ("other", by_certificate, &kube, None),
        (".talos/config", by_certificate, &["--etcd-endpoints=127.0.0.1:1", "--etcd-cacert=none/x"], None),
        (key, by_certificate, &["--no-talos"], Some("KUBECONFIG")),
    ] {
        for name in [target, "symlink", "hardlink", "./none/../symlink", &format!("./{target}")] {
            let program = program()
                .talosconfig(unreachable())
                .file("talosconfig", unreachable())
                .file("kubeconfig", kubeconfig.replace("USER", user))
                .file(".kube/config", kubeconfig.replace("USER", by_token))
                .file(".kube/ca.pem", authority.pem())
                .file(".kube/token", "abc")
                .file(ca, authority.pem())
                .file(crt, &client.certificate)
                .file(key, &client.key)
                .file("token", "abc")
                .file("other", "abc")
                .file("plugin", "#!/bin/sh\n")
                .file("none/x", "");
            links(&program, target);
            let program = match variable {
                // The first one cannot be used.
                Some("KUBECONFIG") => program.env("KUBECONFIG", "token:kubeconfig"),
                Some(variable) => program.env(variable, target),
                None => program,
            };
            let before = std::fs::read(program.path(target)).unwrap();
            let report = format!("--report=json={name}");
            let (outcome, home) = program.args(arguments).args([report]).run_and_keep();
            outcome.is(2, &["the json report would overwrite an input file", name]);
            assert_eq!(std::fs::read(home.path().join(target)).unwrap(), before, "{target} {name}");
        }
    }
    for name in [".talos/config", "symlink", "hardlink", "./none/../symlink"] {
        let config = unreachable();
        let of = || {
            let program = program().talosconfig(&config).file("none/x", "").args(["--no-kubernetes"]);
            links(&program, ".talos/config");
            program
        };
        let (outcome, home) = of().args([format!("--termination-log={name}")]).run_and_keep();
        outcome.is(2, &["the termination message would overwrite an input file", name]);
        assert_eq!(std::fs::read(home.path().join(".talos/config")).unwrap(), config.as_bytes(), "{name}");
        let (outcome, home) =
            of().args(["--ci=github", "--color=never"]).env("GITHUB_STEP_SUMMARY", name).run_and_keep();
        outcome.is(1, &[]);
        assert_eq!(std::fs::read(home.path().join(".talos/config")).unwrap(), config.as_bytes(), "{name}");
    }
    let arguments = [r#"exec "$@" >> .talos/config"#, "sh", env!("CARGO_BIN_EXE_cluster-health"), "--no-kubernetes"];
    let outcome = tool("sh").talosconfig(unreachable()).args(["-c"]).args(arguments).run();
    outcome.is(2, &["stdout is redirected to an input file"]);
    let null = program().talosconfig(unreachable()).env("KUBECONFIG", "/dev/null");
    null.args(["--report=json=/dev/null", "--no-kubernetes"]).run().is(1, &[]);
}

/// Tests each pair of outputs, under each name that one file can have. Formerly, only the output that was written last survived, with exit
/// code 0.
#[test]
fn no_two_outputs_are_one_file() {
    const SUMMARY: &str = "GITHUB_STEP_SUMMARY";
    for name in ["x", "./x", "link", "hard", "folder/x"] {
        for (one, other) in [
            (["--report", "json=x"], ["--report", "junit=NAME"]),
            (["--report", "json=x"], ["--termination-log", "NAME"]),
            (["--report", "ndjson=x"], ["--trace", "NAME"]),
            (["--trace", "x"], ["--termination-log", "NAME"]),
            (["--report", "json=x"], [SUMMARY, "NAME"]),
            (["--trace", "x"], [SUMMARY, "NAME"]),
            (["--termination-log", "x"], [SUMMARY, "NAME"]),
        ] {
            for exists in [true, false] {
                // A hard link needs an existing file.
                if name == "hard" && !exists {
                    continue;
                }
                let mut program = program().talosconfig(unreachable()).args(HEALTHY).args(["--color=never"]).args(one);
                if exists {
                    program = program.file("x", "earlier");
                    std::fs::hard_link(program.path("x"), program.path("hard")).unwrap();
                }
                std::os::unix::fs::symlink("x", program.path("link")).unwrap();
                std::os::unix::fs::symlink(".", program.path("folder")).unwrap();
                let value = other[1].replace("NAME", name);
                let program = match other[0] {
                    SUMMARY => program.env("GITHUB_ACTIONS", "true").env(SUMMARY, &value),
                    option => program.args([option, &value]),
                };
                let (outcome, home) = program.run_and_keep();
                outcome.is(2, &["are the same file: `", name]);
                let kept = std::fs::read_to_string(home.path().join("x")).unwrap_or_default();
                assert_eq!(kept, if exists { "earlier" } else { "" }, "{one:?} {other:?} {name}");
            }
        }
    }
}

/// Otherwise, a directory named after the URL would be created, with the URL's secrets in its name.
#[test]
fn only_reports_are_sent_to_urls() {
    for option in ["--trace", "--termination-log"] {
        let program = program().talosconfig(unreachable()).args(HEALTHY).args([option, "https://hooks.example/secret"]);
        let (outcome, home) = program.run_and_keep();
        outcome.is(2, &["cannot be sent to a URL; give the path of a file"]);
        assert!(!outcome.stderr.contains("secret"), "{outcome}");
        assert!(!home.path().join("https:").exists(), "{option}");
    }
}

/// During the run, an output path can be replaced by a link to an input.
#[test]
fn a_link_that_appears_while_the_run_goes_on_is_not_followed() {
    for (option, is_pipe) in [
        ("--report=json=OUT", true),
        ("--trace=OUT", true),
        ("--report=json=OUT", false),
        ("--report=ndjson=OUT", false),
        ("--trace=OUT", false),
        ("--termination-log=OUT", false),
        ("GITHUB_STEP_SUMMARY", false),
    ] {
        let config = unreachable();
        // An additional file, which shows that the files are open.
        let begun = ["--report=junit=begun", "--wait-timeout=3s", "--no-kubernetes", "--color=never"];
        let program = program().talosconfig(&config).args(begun);
        let out = program.path("out");
        let program = match option {
            "GITHUB_STEP_SUMMARY" => program.env("GITHUB_ACTIONS", "true").env(option, "out"),
            option => program.args([option.replace("OUT", "out")]),
        };
        let reader = is_pipe.then(|| {
            assert!(std::process::Command::new("mkfifo").arg(&out).status().unwrap().success());
            std::fs::OpenOptions::new().read(true).write(true).open(&out).unwrap()
        });
        let (mut child, home) = program.spawn();
        while !home.path().join("begun").exists() || (!out.exists() && option != "--report=ndjson=OUT") {
            assert!(child.try_wait().unwrap().is_none(), "{option}");
            std::thread::yield_now();
        }
        // A pipe exists before it is opened.
        let is_open = || is_pipe && has_open(child.id(), &out) || !is_pipe && out.exists();
        while !is_open() {
            std::thread::yield_now();
        }
        let input = home.path().join(".talos/config");
        std::fs::remove_file(&out).unwrap();
        std::os::unix::fs::symlink(&input, &out).unwrap();
        let code = code(child.wait().unwrap());
        assert_eq!(std::fs::read_to_string(&input).unwrap(), config, "{option}, a pipe: {is_pipe}");
        assert_eq!(code, 1, "{option}");
        drop(reader);
    }
}

/// Returns whether the process has opened the file, according to the kernel.
fn has_open(process: u32, file: &std::path::Path) -> bool {
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok()).any(|it| it == file)
}

/// Reports and stdout: output that does not fit leaves the earlier lines intact.
#[test]
fn ndjson_on_a_full_disk_has_whole_lines() {
    // 512 bytes each. An ignored signal stays ignored.
    for blocks in [1, 2, 3, 5, 8, 13, 21] {
        for to in ["-o ndjson > out", "--report ndjson=out", "-o ndjson > out 2>&1"] {
            let shell = tool("sh").talosconfig(unreachable());
            let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\" {to}");
            let run = [env!("CARGO_BIN_EXE_cluster-health"), "--no-kubernetes", "--wait-timeout=1s"];
            let (outcome, home) = shell.args(["-c", &script, "sh"]).args(run).run_and_keep();
            let text = std::fs::read_to_string(home.path().join("out")).unwrap_or_default();
            let is_shared = to.ends_with("2>&1");
            assert!(text.is_empty() || is_shared || text.ends_with('\n'), "{blocks} {to}: {text}");
            // Messages of stderr in between may be torn.
            for line in text.lines().filter(|line| !is_shared || line.contains('{')) {
                assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{blocks} {to}: {line}");
            }
            assert_ne!(outcome.code, 0, "{outcome}");
        }
    }
}

#[test]
fn several_reports_are_written_at_once() {
    for (arguments, success) in [(&HEALTHY[..], true), (&["--no-kubernetes"], false)] {
        let files = FORMATS.map(|format| format!("--report={format}=reports/{format}"));
        let (mut child, home) = program().talosconfig(unreachable()).args(arguments).args(files).spawn();
        assert_eq!(code(child.wait().unwrap()) == 0, success);
        for format in FORMATS {
            let text = std::fs::read_to_string(home.path().join("reports").join(format)).unwrap();
            assert_eq!(is_success(format, &text), success, "{format}: {text}");
        }
    }
}

#[test]
fn metrics_remember_the_last_success() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("health.prom");
    let last = |arguments: &[&str]| {
        let report = format!("--report=prometheus={}", file.display());
        let outcome = program().talosconfig(unreachable()).args(arguments).args([report]).run();
        let text = std::fs::read_to_string(&file).unwrap();
        let last = text
            .lines()
            .find_map(|line| line.strip_prefix("cluster_health_last_success_timestamp_seconds{cluster=\"home\"} "));
        (outcome.code, last.unwrap().to_owned())
    };
    let (bad, good) =
        (&["--no-kubernetes", "--cluster-name", "home"][..], &[HEALTHY[0], HEALTHY[1], "--cluster-name", "home"][..]);
    assert_eq!(last(bad), (1, "0".to_owned()));
    let (code, healthy) = last(good);
    assert!(code == 0 && healthy != "0", "{healthy}");
    assert_eq!(last(bad), (1, healthy));
}

#[test]
fn an_unwritable_path_is_found_before_anything_is_checked() {
    for path in ["json=/proc/no/such/r.json", "json=/dev/null/r.json"] {
        let outcome = program().talosconfig(unreachable()).args(["--no-kubernetes", "--report", path]).run();
        assert_eq!(outcome.code, 74, "{outcome}");
        assert!(!outcome.stderr.contains("refused"), "nothing was dialed: {outcome}");
    }
}

#[test]
fn a_closed_stdout_changes_nothing() {
    for format in FORMATS {
        let (mut child, _keep) = program().talosconfig(unreachable()).args(["--no-kubernetes", "-o", format]).spawn();
        drop(child.stdout.take());
        let mut stderr = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut stderr).unwrap();
        assert_eq!(code(child.wait().unwrap()), 1, "{format}: {stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}

#[test]
fn a_result_that_is_lost_is_no_success() {
    for format in FORMATS {
        for (arguments, expected) in [(&HEALTHY[..], 74), (&["--no-kubernetes"], 1)] {
            let program = program().talosconfig(unreachable()).args(["-o", format]).args(arguments);
            let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
            let (mut child, _keep) = program.spawn_into(full);
            let mut stderr = String::new();
            std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut stderr).unwrap();
            assert_eq!(code(child.wait().unwrap()), expected, "{format}: {stderr}");
            assert!(stderr.contains("error: could not write the result to stdout: "), "{format}: {stderr}");
        }
    }
}
