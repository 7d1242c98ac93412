//! Text from the cluster that is meant to be more than text, in every place where it can appear.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::super::format::{self, Format};
use super::super::history::{self, Happened};
use super::super::{Report, TextStyle, fixture};
use super::{json_of, shown, styled};
use crate::model::{CheckId, Finding, Hint, Kind, Outcome, Problem, Reason, Status, Target};
use crate::snapshot::logs::{Log, Source, Tail};
use crate::snapshot::{Gap, GapKind};
use crate::text::sanitize::{clean, without_secrets};
use crate::text::secrets_tests::secrets;

pub(super) fn hostile() -> Report {
    with(&format!(
        "a\u{1b}[31m\u{1b}]0;x\u{7}\0\u{9b}2J]]>\u{fffe}\u{ffff}\u{85}\u{2028}\n::error::x\r\n##[error]x ##vso[x] \
         \u{1b}[0Ksection_start:1:x\r\u{1b}[0K <b>&amp;\" \u{202e}txt\u{200b} http://u:p@10.0.0.1/ {}",
        "z".repeat(100_000)
    ))
}

/// Returns a report in which everything that others write is this text.
pub(crate) fn with(bad: &str) -> Report {
    let mut report = fixture::unhealthy();
    report.error = Some(bad.to_owned());
    report.not_observed = vec![bad.to_owned()];
    for weak in &mut report.weakened {
        bad.clone_into(&mut weak.option);
    }
    report.sources.context = Some(bad.to_owned());
    report.sources.endpoints = vec![bad.to_owned()];
    report.sources.talos_versions = vec![bad.to_owned()];
    report.sources.passed_over = vec![(bad.to_owned(), bad.to_owned())];
    let changed = history::change(
        &fixture::healthy().checks[0],
        Status::Fail,
        &[fixture::problem(
            Target::new(Kind::Node, bad).with_address(bad),
            Problem::fail(Reason::NodeUnreachable, bad, bad),
        )],
    );
    report.happened(Duration::from_secs(1), changed.unwrap());
    report.happened(Duration::from_secs(2), Happened::Finished);
    let tail = |lines| Tail { log: Log { node: bad.to_owned(), of: Source::Service(bad.to_owned()) }, lines };
    report.logs = vec![tail(Ok(vec![bad.to_owned()])), tail(Err(Gap::new(GapKind::NotAsked, bad.to_owned())))];
    report.diagnoses = fixture::diagnosed().diagnoses;
    let diagnosis = &mut report.diagnoses[0];
    bad.clone_into(&mut diagnosis.headline);
    bad.clone_into(&mut diagnosis.seen[0].target.name);
    bad.clone_into(&mut diagnosis.seen[0].observed);
    diagnosis.next.push(Hint::run("{talosctl} -n {} version", [bad]));
    bad.clone_into(&mut report.sources.nodes[0].name);
    bad.clone_into(&mut report.sources.nodes[0].address);
    for kind in [Kind::Node, Kind::Pod, Kind::EtcdMember] {
        let target = Target::new(kind, bad.to_owned()).with_address(bad.to_owned()).with_id(bad.to_owned());
        let outcomes = [
            Outcome::Pass(Some(bad.to_owned())),
            Outcome::Skip(bad.to_owned()),
            Outcome::Blocked(CheckId::EtcdService),
            Outcome::problem(
                Problem::fail(Reason::CrashLooping, bad.to_owned(), bad.to_owned())
                    .hint(Hint::likely(bad.to_owned()))
                    .hint(Hint::run("{talosctl} -n {} version", [bad])),
            ),
        ];
        for (outcome, entry) in outcomes.into_iter().zip(&mut report.checks) {
            entry.findings.push(Finding::new(target.clone(), outcome));
            entry.status = Some(Status::Fail);
        }
    }
    report
}

#[test]
fn hostile_text_is_harmless_in_every_format() {
    for format in format::ALL {
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
    quick_junit::Report::deserialize_from_str(&shown(&format::JUNIT, &hostile())).unwrap();
    let document = json_of(&hostile());
    let commands = document["checks"][3]["problems"][0]["hints"].as_array().unwrap();
    assert!(commands.iter().all(|hint| hint["command"].is_null()), "{commands:?}");
    let ascii = styled(&hostile(), TextStyle { ascii: true, ..TextStyle::default() });
    assert!(ascii.is_ascii());
}

/// A name that begins a command, and an address that ends it, are each harmless alone.
#[test]
fn no_line_is_a_command_of_a_ci_system() {
    let mut planned = fixture::planned();
    let mut rollout = planned.rollout.as_deref().unwrap().clone();
    for machine in &mut rollout.machines {
        "::stop-commands".clone_into(&mut machine.name);
        "fd00::1".clone_into(&mut machine.address);
    }
    rollout.cluster.talos = Some("::add-mask".to_owned());
    planned.rollout = Some(rollout.into());
    let plans = [&format::plan::TEXT, &format::plan::TSV, &format::plan::JSON].map(|format| (format, &planned));
    let (report, fresh) = (with("::stop-commands"), with("::add-mask fd00::1"));
    let formats = format::ALL.into_iter().filter(|format| format.name != "html");
    let reports = formats.flat_map(|format| [(format, &report), (format, &fresh)]);
    for (format, report) in reports.chain(plans) {
        for style in [TextStyle::default(), TextStyle { verbose: true, ..TextStyle::default() }] {
            let text = String::from_utf8(format.render(report, &style).unwrap()).unwrap();
            let mut lines = text.lines().map(str::trim_start);
            assert_eq!(lines.find(|line| line.starts_with("::")), None, "{}:\n{text}", format.name);
        }
    }
    let table = String::from_utf8(format::plan::TEXT.render(&planned, &TextStyle::default()).unwrap()).unwrap();
    assert!(table.contains(": :stop-commands (fd00::1)"), "{table}");
}

/// Secrets are tested as an observer passes them on, and as a library words them.
#[test]
fn no_secret_is_in_any_document() {
    let (mut passed_on, mut said) = (Vec::new(), Vec::new());
    for (secret, sentence) in secrets() {
        passed_on.push((secret.clone(), without_secrets(&sentence)));
        if !secret.starts_with("hun") {
            said.push((secret, sentence));
        }
    }
    // Few secrets without a prefix are recognized without the name in front of them.
    said.truncate(160);
    for texts in [passed_on, said] {
        for texts in texts.chunks(8) {
            // The part of a text that is shown is bounded, so not all secrets fit into one.
            let all: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
            let report = with(&all.join(" , "));
            for format in format::ALL {
                let document = shown(format, &report);
                for (secret, _) in texts {
                    assert!(!document.contains(&secret[secret.len() / 3..]), "{format:?} has {secret}");
                }
            }
        }
    }
}

/// Injections, by the reader that they are meant for; every format has to resist all of them.
pub(crate) const INJECTIONS: [(&str, &str); 17] = [
    ("control characters", "a\0b\u{7}\u{8}c\r\nd\te\u{7f}\u{85}"),
    ("a terminal", "\u{1b}[31mowned\u{1b}[0m\u{1b}]0;title\u{7}\u{9b}2J"),
    ("the direction of text", "\u{202e}denwo\u{2066}x\u{200b}"),
    ("noncharacters", "\u{fffe}owned\u{ffff}\u{fdd0}"),
    ("GitHub's log", "x\n::error file=a::owned\n  ::set-output name=a::owned"),
    ("Azure's log", "##vso[task.complete]owned ##[error]owned"),
    ("GitLab's log", "\u{1b}[0Ksection_start:1:x[collapsed=true]\r\u{1b}[0Kowned section_end:1:x"),
    ("links", "[owned](https://evil.example) ![i](//evil.example/x.png) www.evil.example"),
    ("HTML", "<script>owned</script><img src=x onerror=owned>&lt;</details>"),
    ("mentions", "@everyone @org/team #1 !1 owner/repo#2 GH-3"),
    ("code", "```\n# owned\n```` ~~~ `owned` \\` $x$"),
    ("tables", "a|b\\|c\\\\|d\n| --- |"),
    ("YAML", "*a &b !c {d: e} [f] 'g' \"h\" - i: j # k"),
    ("XML", "]]></failure><testcase name=\"owned\"/><!-- &amp; '"),
    ("metrics", "a\"} 1\ncluster_health_healthy 1\n# TYPE owned gauge\\"),
    ("lines of JSON", "\"}\n{\"type\":\"runFinished\",\"report\":{}}\n"),
    ("no text at all", " \u{1b}[m\t\n"),
];

pub(crate) const HARMLESS: &str = "two  words";

/// Returns a report in which a round has ended, and one in which none has.
fn both(text: &str) -> [Report; 2] {
    let mut unread = fixture::configuration();
    unread.error = Some(text.to_owned());
    unread.hint = Some(text.to_owned());
    unread.happened(Duration::from_secs(1), Happened::Finished);
    [with(text), unread]
}

/// Foreign text of any kind leaves the form of a document as it is with harmless words: as many lines, points, cases, cells and series,
/// with the same statuses and values.
#[test]
fn no_injection_changes_the_form_of_any_document() {
    for (aim, injection) in INJECTIONS {
        for format in format::ALL {
            for (hostile, harmless) in both(injection).iter().zip(&both(HARMLESS)) {
                let text = shown(format, hostile);
                let characters: BTreeSet<char> = text.chars().filter(|c| !matches!(c, '\n' | ' ')).collect();
                // Each character alone is as clean as it was in its text.
                let unfit: Vec<_> = characters.into_iter().filter(|c| clean(&c.to_string()) != c.to_string()).collect();
                assert!(unfit.is_empty(), "{aim} in {format:?}: {unfit:?}");
                for command in ["##[", "##vso[", "section_start:1", "section_end:1"] {
                    assert!(!text.contains(command), "{aim} in {format:?} has {command:?}");
                }
                assert!(!text.lines().any(|line| line.trim_start().starts_with("::")), "{aim} in {format:?}");
                assert_eq!(form(format, &text), form(format, &shown(format, harmless)), "{aim} in {format:?}");
            }
        }
    }
}

/// Returns the form of a document, without the words in it. Panics if it is not a document.
fn form(format: &Format, text: &str) -> Vec<String> {
    match format.name {
        // Text is wrapped at blanks, so only its own words can begin a line, which is checked above.
        "text" => Vec::new(),
        "json" => vec![without_words(serde_json::from_str(text).unwrap()).to_string()],
        "ndjson" => text.lines().map(|line| without_words(serde_json::from_str(line).unwrap()).to_string()).collect(),
        "junit" => junit(text),
        "markdown" => markdown(text),
        "html" => html(text),
        "prometheus" => prometheus(text),
        other => panic!("nobody knows the form of {other}"),
    }
}

/// Removes the content of strings and of values that can be strings.
fn without_words(value: Value) -> Value {
    match value {
        Value::String(_) | Value::Null => "".into(),
        Value::Array(items) => items.into_iter().map(without_words).collect(),
        Value::Object(fields) => {
            // A command that must not be pasted is left out as a whole.
            let fields = fields.into_iter().filter(|(key, _)| !["hints", "next", "try"].contains(&key.as_str()));
            fields.map(|(key, value)| (key, without_words(value))).collect()
        }
        other => other,
    }
}

fn junit(text: &str) -> Vec<String> {
    let report = quick_junit::Report::deserialize_from_str(text).unwrap();
    let cases = report.test_suites.iter().flat_map(|suite| &suite.test_cases);
    let status = |case: &quick_junit::TestCase| match &case.status {
        quick_junit::TestCaseStatus::Success { .. } => "success",
        quick_junit::TestCaseStatus::NonSuccess { .. } => "failure",
        quick_junit::TestCaseStatus::Skipped { .. } => "skipped",
    };
    cases.map(|case| format!("{:?} {:?} {}", case.classname, case.name, status(case))).collect()
}

/// Returns all tags, which contain no text that others write. Their number depends on the commands that may be pasted.
fn html(text: &str) -> Vec<String> {
    // The number of lines that a part may have depends on the length of the words.
    let lines = regex::Regex::new(" lines-[0-9]+").unwrap();
    let tags = text.split('<').skip(1).map(|rest| lines.replace(&rest[..rest.find('>').unwrap()], "").into_owned());
    tags.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns everything outside of code.
fn markdown(text: &str) -> Vec<String> {
    let mut form = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(fence) = line.strip_suffix("text").filter(|fence| fence.starts_with("```")) {
            assert!(lines.any(|line| line == fence), "a block without an end");
            continue;
        }
        // Cells are separated before code is recognized: a backslash protects a bar.
        let bars = line.replace("\\|", "").matches('|').count();
        if line.starts_with("## ") {
            // The heading is code, or words without any special meaning.
            assert!(
                line.contains('`') || line.chars().all(|c| c.is_alphanumeric() || " ✓!?✗,.:()-'%#".contains(c)),
                "{line}"
            );
            form.push("##".to_owned());
        } else {
            form.push(format!("{bars} {}", without_code(line)));
        }
    }
    form
}

fn without_code(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('`') {
        out.push_str(&rest[..at]);
        let run = rest[at..].chars().take_while(|c| *c == '`').count();
        let mut after = at + run;
        loop {
            let next = after + rest[after..].find('`').expect("code without an end");
            let length = rest[next..].chars().take_while(|c| *c == '`').count();
            after = next + length;
            if length == run {
                break;
            }
        }
        rest = &rest[after..];
    }
    // A missing value is shown in words.
    (out + rest).replace("(empty)", "")
}

/// Returns each series with its labels' names and its value.
fn prometheus(text: &str) -> Vec<String> {
    let name = |text: &str| assert!(text.bytes().all(|c| c.is_ascii_lowercase() || c == b'_'), "{text}");
    let mut form = Vec::new();
    for line in text.lines() {
        if line.starts_with("# HELP ") || line.starts_with("# TYPE ") {
            form.push(line.to_owned());
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        value.parse::<f64>().unwrap();
        let Some((metric, labels)) = series.split_once('{') else {
            name(series);
            form.push(line.to_owned());
            continue;
        };
        name(metric);
        let mut keys = Vec::new();
        let mut rest = labels;
        while rest != "}" {
            let (key, value) = rest.trim_start_matches(',').split_once("=\"").unwrap();
            name(key);
            keys.push(key);
            let mut characters = value.char_indices();
            let end = loop {
                match characters.next().unwrap() {
                    (_, '\\') => assert!(matches!(characters.next(), Some((_, '\\' | '"' | 'n'))), "{line}"),
                    (at, '"') => break at,
                    _ => {}
                }
            };
            rest = &value[end + 1..];
        }
        form.push(format!("{metric} {keys:?} {value}"));
    }
    // Series of one metric are in the order of their labels.
    form.sort();
    form
}
