//! What holds for every format and every way in which a run can end.

use serde_json::Value;

use super::files::render;
use super::text::{self, TextStyle};
use super::{Report, RunResult, Selection, fixture, json};
use crate::checks::{Finding, Hint, Kind, Outcome, Problem, Reason, Status, Target};
use crate::cli::Format;
use crate::exit::Exit;

const FORMATS: [Format; 3] = [Format::Text, Format::Json, Format::Junit];

fn shown(format: Format, report: &Report) -> String {
    String::from_utf8(render(format, report).unwrap()).unwrap()
}

fn styled(report: &Report, style: TextStyle) -> String {
    let mut out = Vec::new();
    text::write(report, &style, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn json_of(report: &Report) -> Value {
    serde_json::from_str(&shown(Format::Json, report)).unwrap()
}

#[test]
fn text_healthy() {
    insta::assert_snapshot!(shown(Format::Text, &fixture::healthy()));
}

#[test]
fn text_healthy_large() {
    insta::assert_snapshot!(shown(Format::Text, &fixture::healthy_with(42)));
}

#[test]
fn text_unhealthy() {
    insta::assert_snapshot!(shown(Format::Text, &fixture::unhealthy()));
}

#[test]
fn text_diagnosed() {
    insta::assert_snapshot!(shown(Format::Text, &fixture::diagnosed()));
}

#[test]
fn json_diagnosed() {
    insta::assert_json_snapshot!(json_of(&fixture::diagnosed())["diagnoses"]);
}

/// Whoever reads the tail of a log on call needs no more than that.
#[test]
fn the_last_lines_name_machine_cause_and_next_command() {
    let mut report = fixture::diagnosed();
    for _ in 0..9 {
        report.diagnoses.push(report.diagnoses[0].clone());
    }
    let text = shown(Format::Text, &report);
    let lines: Vec<_> = text.lines().collect();
    let last = lines[lines.len() - 10..].join("\n");
    assert!(last.contains("control plane 10.0.0.3 (cp-3) does not answer"), "{last}");
    assert!(last.contains("talosctl --context prod -n 10.0.0.3 version"), "{last}");
    assert!(last.contains("(and 7 more above)"), "{last}");
}

#[test]
fn junit_says_why_in_the_message_and_keeps_its_names() {
    let names = |report: &Report| -> Vec<String> {
        let parsed = quick_junit::Report::deserialize_from_str(&shown(Format::Junit, report)).unwrap();
        parsed.test_suites.iter().flat_map(|suite| &suite.test_cases).map(|case| case.name.to_string()).collect()
    };
    assert_eq!(names(&fixture::diagnosed()), names(&fixture::unhealthy()));
    let text = shown(Format::Junit, &fixture::diagnosed());
    let because =
        "message=\"10.0.0.3 (cp-3): last renewed 4m59s ago; because control plane 10.0.0.3 (cp-3) does not answer";
    assert!(text.contains(because), "{text}");
    assert!(text.contains("message=\"10.0.0.3 (cp-3): Ready=False since 4m58s\""), "nothing explains it: {text}");
}

#[test]
fn text_interrupted() {
    insta::assert_snapshot!(shown(Format::Text, &fixture::interrupted()));
}

#[test]
fn text_without_a_round() {
    insta::assert_snapshot!(shown(Format::Text, &fixture::nothing_judged()), @"undetermined: no round was completed before the deadline of 5m00s");
    insta::assert_snapshot!(shown(Format::Text, &fixture::configuration()), @r"
    error: could not read `/home/ci/talosconfig`: no such file
    hint: name another one with `--talosconfig`
    ");
}

#[test]
fn json_unhealthy() {
    insta::assert_snapshot!(shown(Format::Json, &fixture::unhealthy()).replace(env!("CARGO_PKG_VERSION"), "VERSION"));
}

#[test]
fn junit_unhealthy() {
    insta::assert_snapshot!(shown(Format::Junit, &fixture::unhealthy()).replace(env!("CARGO_PKG_VERSION"), "VERSION"));
}

#[test]
fn junit_interrupted() {
    insta::assert_snapshot!(
        shown(Format::Junit, &fixture::interrupted()).replace(env!("CARGO_PKG_VERSION"), "VERSION")
    );
}

#[test]
fn every_document_is_valid_under_the_schema() {
    let schema: Value = serde_json::from_str(json::SCHEMA).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    for (name, report) in fixture::all().into_iter().chain([("hostile", hostile())]) {
        let document = json_of(&report);
        let errors: Vec<_> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
        let checks = document["checks"].as_array().unwrap();
        assert_eq!(checks.len(), report.checks.len(), "every check is there");
        assert_eq!(shown(Format::Json, &report), shown(Format::Json, &report));
    }
}

/// Fails for a field that the schema does not have.
fn known(document: &Value, schema: &Value, root: &Value, path: &str) {
    let schema = match schema.get("$ref").and_then(Value::as_str) {
        Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    match document {
        Value::Object(fields) => {
            for (key, value) in fields {
                let of = &schema["properties"][key];
                assert!(of.is_object(), "{path}/{key} is not in the schema");
                known(value, of, root, &format!("{path}/{key}"));
            }
        }
        Value::Array(items) => items.iter().for_each(|item| known(item, &schema["items"], root, path)),
        _ => {}
    }
}

#[test]
fn the_schema_is_open_for_additions() {
    fn walk(schema: &Value, path: &str) {
        if let Some(object) = schema.as_object() {
            if object.contains_key("properties") {
                assert_eq!(object.get("additionalProperties"), Some(&Value::Bool(true)), "{path}");
                let description = object["description"].as_str().unwrap();
                assert!(description.contains("Unknown fields must be tolerated"), "{path}");
            }
            for (key, value) in object {
                walk(value, &format!("{path}/{key}"));
            }
        }
    }
    let schema: Value = serde_json::from_str(json::SCHEMA).unwrap();
    walk(&schema, "");
    for (_, report) in fixture::all() {
        known(&json_of(&report), &schema, &schema, "");
    }
}

#[test]
fn junit_is_never_empty_and_names_are_unique() {
    for (name, report) in fixture::all() {
        let parsed = quick_junit::Report::deserialize_from_str(&shown(Format::Junit, &report)).unwrap();
        let mut names = std::collections::BTreeSet::new();
        for suite in &parsed.test_suites {
            assert!(!suite.test_cases.is_empty(), "{name}: {:?}", suite.name);
            for case in &suite.test_cases {
                assert!(names.insert(format!("{:?} {:?}", case.classname, case.name)), "{name}: twice {:?}", case.name);
            }
        }
        assert_eq!(names.len(), report.checks.len() + 1);
        let bad = parsed.failures + parsed.errors;
        assert_eq!(bad == 0, report.exit.code() == 0, "{name}");
    }
}

#[test]
fn an_incomplete_report_never_looks_like_a_success() {
    let mut report = fixture::healthy();
    report.complete = false;
    let parsed = quick_junit::Report::deserialize_from_str(&shown(Format::Junit, &report)).unwrap();
    assert_eq!(parsed.errors, 1);
    assert_eq!(json_of(&report)["complete"], false);
}

fn hostile() -> Report {
    let bad = format!(
        "a\u{1b}[31m\u{1b}]0;x\u{7}\0\u{9b}2J]]>\u{fffe}\u{ffff}\u{85}\u{2028}\n::error::x\r\n##[error]x ##vso[x] \
         \u{1b}[0Ksection_start:1:x\r\u{1b}[0K <b>&amp;\" \u{202e}txt\u{200b} http://u:p@10.0.0.1/ {}",
        "z".repeat(100_000)
    );
    let mut report = fixture::unhealthy();
    report.error = Some(bad.clone());
    report.not_observed = vec![bad.clone()];
    for weak in &mut report.weakened {
        weak.option.clone_from(&bad);
    }
    report.sources.context = Some(bad.clone());
    report.sources.endpoints = vec![bad.clone()];
    report.sources.talos_versions = vec![bad.clone()];
    report.sources.passed_over = vec![(bad.clone(), bad.clone())];
    report.diagnoses = fixture::diagnosed().diagnoses;
    let diagnosis = &mut report.diagnoses[0];
    diagnosis.headline.clone_from(&bad);
    diagnosis.seen[0].target.name.clone_from(&bad);
    diagnosis.seen[0].observed.clone_from(&bad);
    diagnosis.next.push(Hint::run("{talosctl} -n {} version", [&bad]));
    report.sources.nodes[0].name.clone_from(&bad);
    report.sources.nodes[0].address.clone_from(&bad);
    for kind in [Kind::Node, Kind::Pod, Kind::EtcdMember] {
        let target = Target::new(kind, bad.clone()).with_address(bad.clone()).with_id(bad.clone());
        let outcomes = [
            Outcome::Pass(Some(bad.clone())),
            Outcome::Skip(bad.clone()),
            Outcome::Blocked("etcd.service"),
            Outcome::Problem(
                Problem::fail(Reason::CrashLooping, bad.clone(), bad.clone())
                    .hint(Hint::likely(bad.clone()))
                    .hint(Hint::run("{talosctl} -n {} version", [&bad])),
            ),
        ];
        for (outcome, entry) in outcomes.into_iter().zip(&mut report.checks) {
            entry.findings.push(Finding { target: target.clone(), outcome });
            entry.status = Some(Status::Fail);
        }
    }
    report
}

#[test]
fn hostile_text_is_harmless_in_every_format() {
    for format in FORMATS {
        let text = shown(format, &hostile());
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{format:?} has control characters");
        for hidden in ['\u{202e}', '\u{200b}', '\u{2028}', '\u{fffe}', '\u{ffff}', '\u{9b}'] {
            assert!(!text.contains(hidden), "{format:?} has {hidden:?}");
        }
        for command in ["##[", "##vso[", "section_start:1", "u:p@"] {
            assert!(!text.contains(command), "{format:?} has {command:?}");
        }
        assert!(text.lines().all(|line| !line.trim_start().starts_with("::")), "{format:?}");
        assert!(text.len() < 200_000, "{format:?} is not bounded: {}", text.len());
    }
    quick_junit::Report::deserialize_from_str(&shown(Format::Junit, &hostile())).unwrap();
    let document = json_of(&hostile());
    let commands = document["checks"][3]["problems"][0]["hints"].as_array().unwrap();
    assert!(commands.iter().all(|hint| hint["command"].is_null()), "{commands:?}");
    let ascii = styled(&hostile(), TextStyle { ascii: true, ..TextStyle::default() });
    assert!(ascii.is_ascii());
}

#[test]
fn colour_is_only_where_it_was_asked_for() {
    for (_, report) in fixture::all() {
        for format in FORMATS {
            assert!(!shown(format, &report).contains('\u{1b}'));
        }
        let coloured = styled(&report, TextStyle { colour: true, ..TextStyle::default() });
        assert!(coloured.contains('\u{1b}'));
        let mut plain = coloured;
        for code in ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[1;31m", "\u{1b}[32m", "\u{1b}[33m"] {
            plain = plain.replace(code, "");
        }
        assert_eq!(plain, shown(Format::Text, &report));
    }
}

#[test]
fn every_offender_is_named_and_hints_are_not_repeated() {
    let mut report = fixture::unhealthy();
    let entry = &mut report.checks[0];
    entry.findings = (1..=40)
        .map(|n| {
            let problem = Problem::fail(Reason::NodeUnreachable, "answers", "connection refused")
                .permanent()
                .hint(Hint::likely("the machine is down"))
                .hint(Hint::run("{talosctl} -n {} version", [&format!("10.0.0.{n}")]));
            fixture::problem(fixture::node(n), problem)
        })
        .collect();
    let text = shown(Format::Text, &report);
    let end = text.rsplit("\n\n").next().unwrap();
    for n in 1..=40 {
        assert!(end.contains(&format!("cp-{n} (10.0.0.{n})")), "{end}");
    }
    assert_eq!(end.matches("the machine is down").count(), 1);
    assert_eq!(end.matches(" version").count(), 3);
    assert!(end.contains("(the same for 37 more)"), "{end}");
    assert!(end.contains("waiting will not change it"), "{end}");
    assert!(end.lines().all(|line| line.len() <= 110), "{end}");
}

#[test]
fn a_symptom_points_to_the_end_of_its_chain() {
    let mut report = fixture::unhealthy();
    let proxy = Problem::fail(Reason::ComponentNotReady, "Ready", "Running, not ready").explained_by("k8s.nodes.ready");
    let lease = Problem::fail(Reason::NodeLeaseStale, "renewed", "stale").explained_by("talos.nodes.reachable");
    let set = |report: &mut Report, n: usize, problem| {
        report.checks[n].findings = vec![fixture::problem(fixture::node(3), problem)];
        report.checks[n].status = Some(Status::Fail);
    };
    set(&mut report, 8, proxy);
    set(&mut report, 7, lease);
    let text = shown(Format::Text, &report);
    let line = "[10.0.0.3 (cp-3)] ERROR k8s.kube-proxy: Running, not ready (see talos.nodes.reachable)";
    assert!(text.contains(line), "{text}");
}

#[test]
fn prerequisites_are_noted() {
    let mut report = fixture::healthy();
    report.checks[0].selection = Selection::Prerequisite;
    report.checks[5].selection = Selection::Prerequisite;
    let text = shown(Format::Text, &report);
    assert!(text.contains("\nalso run, because needed: talos.nodes.reachable, k8s.api.endpoint\n"), "{text}");
}

#[test]
fn checks_that_only_files_have_judged_are_one_block() {
    let mut report = fixture::unhealthy();
    report.rounds = 0;
    report.result = RunResult::Error;
    report.exit = Exit::Configuration;
    let text = shown(Format::Text, &report);
    assert!(text.starts_with("error: talosconfig, kubeconfig or a certificate in them cannot be used\n"), "{text}");
    assert!(!text.contains("Checking") && !text.contains("could not see"), "{text}");
    assert!(text.contains("talos.nodes.reachable  failed"), "{text}");
}

#[test]
fn verdict_lines() {
    let verdict = |report: &Report| {
        let text = shown(Format::Text, report);
        let first = text.lines().next().unwrap_or_default().to_owned();
        assert_eq!(text.lines().filter(|line| *line == first).count(), 2, "at the top and before the details: {text}");
        first
    };
    let mut report = fixture::healthy();
    assert_eq!(verdict(&report), "healthy: 9 passed, 1 skipped in 0.4s (1 round)");
    report.deadline_reached = true;
    assert!(verdict(&report).ends_with("(1 round), no time for another round before the deadline of 5m00s"));
    report.deadline_reached = false;
    report.targeted = Some((1, 4));
    assert_eq!(verdict(&report), "healthy (targeted: 1 of 4 nodes): 9 passed, 1 skipped in 0.4s (1 round)");
    assert_eq!(
        verdict(&fixture::interrupted()),
        "interrupted (SIGINT) after 12s (3 rounds), last complete round: 2 failed, 3 undetermined, 2 blocked, 1 warned, 2 passed"
    );
}
