//! The additional output of `--ci` for GitHub and GitLab: other environments get none of it, and no text from the cluster becomes part of
//! it.

use std::time::Duration;

use regex::Regex;
use serde_json::json;
use tempfile::TempDir;

use crate::cluster::{Cluster, cluster};
use crate::documents::FORMATS;
use crate::formats::{sick, small, stable, uncounted};
use crate::harness::{Outcome, Program, code, program, side_by_side};

/// Like [`Program::run_and_keep`], for runs that may write escape sequences.
fn run(program: Program) -> (Outcome, TempDir) {
    let (child, home) = program.spawn();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    (Outcome { code: code(output.status), stdout, stderr, took: Duration::ZERO }, home)
}

/// Sets the environment of a GitHub runner.
fn on_github(program: Program) -> Program {
    let summary = program.path("summary");
    program
        .env("CI", "true")
        .env("GITHUB_ACTIONS", "true")
        .env("GITHUB_STEP_SUMMARY", summary)
        // Color has separate tests.
        .env("NO_COLOR", "1")
}

fn of(cluster: &Cluster) -> Program {
    // A busy machine must not make the cluster fail.
    cluster.program().args(["--attempt-timeout", "60s"])
}

/// Returns the lines of stderr that are GitHub commands.
fn commands(outcome: &Outcome) -> Vec<&str> {
    assert!(!outcome.stdout.lines().any(|line| line.trim_start().starts_with("::")), "{outcome}");
    outcome.stderr.lines().filter(|line| line.trim_start().starts_with("::")).collect()
}

#[test]
fn github_shows_what_is_wrong_and_only_that() {
    let (healthy, sick) = (small(), sick());
    let (outcome, _) = run(on_github(of(&healthy)));
    outcome.is(0, &[]);
    assert_eq!(commands(&outcome), [""; 0], "{outcome}");
    let (outcome, _) = run(on_github(of(&sick)));
    outcome.is(1, &[]);
    insta::assert_snapshot!("github", uncounted("text", &stable("text", &(commands(&outcome).join("\n") + "\n"))));
    // The commands do not depend on the format on stdout.
    for format in FORMATS {
        let (other, _) = run(on_github(of(&sick).args(["-o", format])));
        assert_eq!(other.code, 1, "{format}: {other}");
        let said = |outcome: &Outcome| stable("text", &commands(outcome).join("\n"));
        assert_eq!(said(&other), said(&outcome), "{format}");
    }
}

#[test]
fn github_shows_why_nobody_was_asked() {
    let (outcome, home) = run(on_github(program().args(["--talosconfig", "none.yaml"])));
    outcome
        .is(78, &["::error title=talos.credentials::", "::error title=cluster-health::error: `--talosconfig` names"]);
    assert!(std::fs::read_to_string(home.path().join("summary")).unwrap().starts_with("\n## ✗ "));
}

#[test]
fn github_gets_a_summary_behind_what_others_wrote() {
    let sick = sick();
    let with = |before: &[u8]| {
        let (outcome, home) = run(on_github(of(&sick).file("summary", before)));
        outcome.is(1, &[]);
        let summary = std::fs::read(home.path().join("summary")).unwrap();
        assert_eq!(&summary[..before.len()], before, "what others wrote stays");
        assert!(summary.len() <= 1024 * 1024, "GitHub would refuse all of it");
        (String::from_utf8(summary[before.len()..].to_vec()).unwrap(), outcome)
    };
    let (summary, _) = with(b"# before");
    assert!(summary.starts_with("\n## ✗ unhealthy: ") && summary.ends_with("</details>\n"), "{summary}");
    let (summary, _) = with(&vec![b'x'; 1024 * 1024 - 1000]);
    assert!(summary.starts_with("\n## ✗ unhealthy: ") && summary.ends_with("the log has them)\n"), "{summary}");
    let (summary, outcome) = with(&vec![b'x'; 1024 * 1024]);
    assert_eq!(summary, "");
    assert!(outcome.stderr.contains("error: could not write the step summary"), "{outcome}");
    // A missing summary file is created.
    let (_, home) = run(on_github(of(&sick)));
    assert!(std::fs::read_to_string(home.path().join("summary")).unwrap().starts_with("\n## ✗ unhealthy: "));
}

#[test]
fn github_gets_one_summary_where_stdout_leads_there() {
    let sick = sick();
    let stdout = tempfile::NamedTempFile::new().unwrap();
    let program = on_github(of(&sick).args(["-o", "markdown"])).env("GITHUB_STEP_SUMMARY", stdout.path());
    let (child, _home) = program.spawn_into(stdout.reopen().unwrap());
    assert_eq!(code(child.wait_with_output().unwrap().status), 1);
    let summary = std::fs::read_to_string(stdout.path()).unwrap();
    assert_eq!(summary.matches("## ✗ unhealthy: ").count(), 1, "{summary}");
}

#[test]
fn a_summary_that_cannot_be_written_changes_no_verdict() {
    let (healthy, sick) = (small(), sick());
    for (cluster, code) in [(&healthy, 0), (&sick, 1)] {
        for path in ["/", "/dev/full", "/proc/no/such"] {
            let (outcome, _) = run(on_github(of(cluster)).env("GITHUB_STEP_SUMMARY", path));
            outcome.is(code, &[&format!("error: could not write the step summary `{path}`: ")]);
        }
        let (outcome, _) = run(on_github(of(cluster)).env("GITHUB_STEP_SUMMARY", ""));
        assert_eq!((outcome.code, outcome.stderr.contains("summary")), (code, false), "{outcome}");
    }
}

/// Splits stderr of a GitLab job into the visible and the collapsed part.
fn folded(stderr: &str) -> (String, String) {
    let section = Regex::new(
        "(?s)^\u{1b}\\[0Ksection_start:[0-9]{10}:(cluster_health_[0-9]{13})\\[collapsed=true\\]\r\u{1b}\\[0K([^\n]*)\n(.*)\
         \u{1b}\\[0Ksection_end:[0-9]{10}:(cluster_health_[0-9]{13})\r\u{1b}\\[0K\n(.*)$",
    );
    let parts = section.unwrap().captures(stderr).unwrap_or_else(|| panic!("no section: {stderr:?}"));
    assert_eq!(parts[1], parts[4], "{stderr:?}");
    let (visible, folded) = (format!("{}\n{}", &parts[2], &parts[5]), parts[3].to_owned());
    assert!(!visible.contains('\u{1b}') && !folded.contains('\u{1b}'), "{stderr:?}");
    (visible, folded)
}

fn on_gitlab(program: Program) -> Program {
    program.env("CI", "true").env("GITLAB_CI", "true").env("NO_COLOR", "1")
}

#[test]
fn gitlab_folds_progress_and_nothing_else() {
    let (healthy, sick) = (small(), sick());
    for (cluster, code) in [(&healthy, 0), (&sick, 1)] {
        let (outcome, _) = run(on_gitlab(of(cluster)));
        assert_eq!(outcome.code, code, "{outcome}");
        let (visible, folded) = folded(&outcome.stderr);
        assert_eq!(visible, "cluster-health: progress\n", "{outcome}");
        assert!(folded.starts_with("cluster-health ") && folded.contains("pass"), "{outcome}");
        let plain = of(cluster).run();
        assert_eq!(stable("text", &outcome.stdout), stable("text", &plain.stdout), "stdout is what it always is");
    }
    for format in FORMATS {
        let (outcome, _) = run(on_gitlab(of(&sick).args(["-o", format])));
        let (visible, _) = folded(&outcome.stderr);
        let is_told = visible.contains("unhealthy: ") && visible.contains("talosctl");
        assert_eq!(is_told, format != "text", "a log without a report says what is wrong: {format}: {outcome}");
    }
    let (outcome, _) = run(on_gitlab(of(&sick).args(["-q"])));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (1, ""), "no progress, no section");
    let (outcome, _) = run(on_gitlab(program().args(["--talosconfig", "none.yaml"])));
    assert!(outcome.stdout.starts_with("error: `--talosconfig` names `none.yaml`"), "{outcome}");
    assert_eq!(outcome.stderr, "", "said once, and nothing was folded");
}

#[test]
fn gitlab_has_no_open_section_when_the_job_is_cancelled() {
    let cluster = small();
    cluster.transport("cp-1", simulator::world::Transport::Silent);
    for (signal, expected) in [("TERM", 143), ("INT", 130)] {
        let waits = ["--wait-timeout", "1h", "--report", "json=r.json"];
        let (child, home) = on_gitlab(of(&cluster).args(waits)).spawn();
        crate::signals::until(|| home.path().join("r.json").exists());
        crate::signals::send(&child, signal);
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(output.status), expected);
        let stderr = String::from_utf8(output.stderr).unwrap();
        // The signal may have arrived before the first line.
        assert!(stderr.is_empty() || folded(&stderr).0 == "cluster-health: progress\n", "{stderr:?}");
    }
}

#[test]
fn others_get_plain_lines() {
    let sick = sick();
    let plain = of(&sick).run();
    let lines = |text: &str| {
        let times = Regex::new(r"\[ *[0-9hms.]+\]").unwrap();
        // On a busy machine, the first round takes more than a second.
        let text: String =
            text.split_inclusive('\n').filter(|line| !line.contains("first check in progress")).collect();
        times.replace_all(&stable("text", &text), "[0s]").into_owned()
    };
    let same = |outcome: &Outcome| {
        assert_eq!(outcome.code, plain.code, "{outcome}");
        assert_eq!(lines(&outcome.stdout), lines(&plain.stdout));
        assert_eq!(lines(&outcome.stderr), lines(&plain.stderr));
    };
    let announced: [&[(&str, &str)]; 7] = [
        &[("TF_BUILD", "True"), ("AGENT_ID", "1")],
        &[("JENKINS_URL", "http://jenkins.example/"), ("BUILD_ID", "1")],
        &[("CI", "true"), ("BUILDKITE", "true")],
        &[("TEAMCITY_VERSION", "2026.1")],
        &[("CI", "true"), ("CIRCLECI", "true")],
        &[("GITHUB_ACTIONS", "false"), ("GITLAB_CI", "0")],
        &[("CLUSTER_HEALTH_CI", "none"), ("GITHUB_ACTIONS", "true"), ("GITLAB_CI", "true")],
    ];
    for variables in announced {
        let program = variables.iter().fold(of(&sick), |program, (name, value)| program.env(name, value));
        same(&program.run());
    }
    same(&on_github(of(&sick).args(["--ci", "none"])).run());
}

#[test]
fn the_option_beats_what_is_announced() {
    let sick = sick();
    let (outcome, home) = run(on_gitlab(of(&sick).args(["--ci", "github"])).env("GITHUB_STEP_SUMMARY", "summary"));
    assert!(commands(&outcome).len() > 1 && !outcome.stderr.contains("section_"), "{outcome}");
    assert!(home.path().join("summary").exists());
    let (outcome, home) = run(on_github(of(&sick)).env("CLUSTER_HEALTH_CI", "gitlab"));
    folded(&outcome.stderr);
    assert!(commands(&outcome).is_empty() && !home.path().join("summary").exists(), "{outcome}");
    program().args(["--ci", "travis"]).run().is(2, &["[possible values: auto, github, gitlab, none]"]);
}

#[test]
fn logs_that_show_color_get_it() {
    let sick = sick();
    let is_colored = |program: Program| {
        let (outcome, _) = run(program.env("CI", "true"));
        (outcome.stdout.contains("\u{1b}[1;31m"), outcome.stderr.contains("\u{1b}[1;31m"))
    };
    assert_eq!(is_colored(of(&sick)), (false, false));
    for (variable, option) in [("GITHUB_ACTIONS", "github"), ("GITLAB_CI", "gitlab")] {
        assert_eq!(is_colored(of(&sick).env(variable, "true")), (true, true));
        assert_eq!(is_colored(of(&sick).args(["--ci", option])), (true, true));
        assert_eq!(is_colored(of(&sick).env(variable, "true").args(["--ci", "none"])), (false, false));
        assert_eq!(is_colored(of(&sick).env(variable, "true").env("TERM", "dumb")), (false, false));
    }
}

/// Commands of each CI system, markers that end a section, control characters of terminals, Markdown syntax, and percent signs that must
/// not be mistaken for GitHub's own.
const HOSTILE: &str = "owned\u{1b}[31m\r\n::error::owned%0A::warning::owned\r::stop-commands::x\n  ::add-mask::a\n##[error]owned ##vso[task.complete \
    result=Succeeded]owned ##teamcity[buildStatus]\u{1b}[0Ksection_end:1:cluster_health\r\u{1b}[0K section_start:1:x[collapsed=true]\r\
    \u{202e}kcab|`<b>[x](https://evil.example)</details>\u{9b}2J\u{7}";

/// A cluster with hostile text in a node's name and condition, a pod's message, and the lines of a log.
fn hostile() -> Cluster {
    let cluster = cluster();
    cluster.change(|world| {
        world.kubelet_crash("worker-1");
        world.machine_mut("worker-1").logs.insert("kubelet".to_owned(), vec![HOSTILE.to_owned(); 3]);
        let mut node = world.kubernetes.object("nodes", None, "worker-1").unwrap().clone();
        node["metadata"]["name"] = HOSTILE.into();
        node["metadata"]["uid"] = "another".into();
        node["status"]["addresses"] = json!([{"type": "Hostname", "address": HOSTILE}]);
        world.kubernetes.put("nodes", node);
        let ready = json!({"type": "Ready", "status": "False", "reason": HOSTILE, "message": HOSTILE});
        world.kubernetes.set_condition("nodes", None, HOSTILE, &ready);
        let pods = world.kubernetes.objects["pods"].iter();
        let mut names = pods.filter_map(|pod| pod["metadata"]["name"].as_str());
        let proxy = names.find(|name| name.starts_with("kube-proxy-")).unwrap().to_owned();
        let pod = world.kubernetes.object_mut("pods", Some("kube-system"), &proxy);
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False", "message": HOSTILE}]);
        let container = &mut pod["status"]["containerStatuses"][0];
        container["ready"] = false.into();
        container["state"] = json!({"waiting": {"reason": "ImagePullBackOff", "message": HOSTILE}});
    });
    cluster
}

#[test]
fn nothing_from_the_cluster_is_a_command() {
    let cluster = hostile();
    // The output next to the report does not depend on its format, except for messages that GitLab needs if there is no text.
    let others = [("text", "gitlab"), ("json", "gitlab"), ("text", "none")];
    let all = FORMATS.map(|format| (format, "github")).into_iter().chain(others);
    side_by_side(all, 2, |(format, ci)| {
        let program = of(&cluster).args(["-vv", "--evidence", "logs", "-o", format, "--ci", ci]);
        let (outcome, home) = run(on_github(program));
        assert_eq!(outcome.code, 1, "{format} {ci}: {outcome}");
        let mut texts = vec![outcome.stdout.clone()];
        match ci {
            "gitlab" => {
                let (visible, folded) = folded(&outcome.stderr);
                texts.extend([visible, folded]);
            }
            "github" => {
                texts.push(std::fs::read_to_string(home.path().join("summary")).unwrap());
                let (commands, others): (Vec<_>, Vec<_>) = outcome
                    .stderr
                    .lines()
                    .partition(|line| line.starts_with("::error title=") || line.starts_with("::warning title="));
                texts.push(others.join("\n"));
                assert!(commands.len() > 2 && commands.len() <= 18, "{format}: {outcome}");
                let title = Regex::new("^::(error|warning) title=[a-z0-9.-]+::").unwrap();
                // The runner decodes the commands into equally harmless text.
                texts.extend(commands.iter().map(|line| {
                    let data = title.replace(line, "");
                    assert!(data.len() < line.len(), "{line}");
                    data.replace("%0A", "\n").replace("%25", "%")
                }));
            }
            _ => texts.push(outcome.stderr.clone()),
        }
        for text in &texts {
            assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{format} {ci}: {text:?}");
            for command in ["##[", "##vso[", "##teamcity[", "section_start:", "section_end:", "\u{202e}"] {
                assert!(!text.contains(command), "{format} {ci}: {command} in {text}");
            }
            assert!(!text.lines().any(|line| line.trim_start().starts_with("::")), "{format} {ci}: {text}");
        }
        // The text arrived as plain words. Metrics contain only names, and logs are part of the reports for people and of JSON.
        let report = &outcome.stdout;
        let logs = match format {
            "text" | "markdown" => report.contains("  | owned"),
            "json" | "ndjson" => report.contains("\"evidence\":[{") || report.contains("\"evidence\": ["),
            _ => true,
        };
        assert!(logs && report.contains("owned"), "{format} {ci}: {outcome}");
        assert!(format == "prometheus" || report.contains("ImagePullBackOff, owned"), "{format} {ci}: {outcome}");
    });
}

#[test]
fn a_summary_that_was_asked_for_is_written_once() {
    let cluster = small();
    let program = on_github(of(&cluster)).env("GITHUB_STEP_SUMMARY", "summary");
    let (outcome, home) = run(program.args(["--report", "markdown=summary"]));
    assert_eq!(outcome.code, 0, "{outcome}");
    let summary = std::fs::read_to_string(home.path().join("summary")).unwrap();
    assert_eq!(summary.matches("\n## ✓ ").count() + usize::from(summary.starts_with("## ✓ ")), 1, "{summary}");
}
