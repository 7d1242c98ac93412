//! The JUnit report by the rules of its readers; `make integrations` runs some of them.

use std::collections::{BTreeMap, BTreeSet};

use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus};

use super::super::{Report, fixture, format};
use super::hostile::hostile;
use super::{json_of, shown};
use crate::checks::{self};
use crate::model::{Outcome, Problem, Reason, Severity, Stage, Status, Target};
use crate::text::sanitize::{LIMIT, clean};

fn xml(report: &Report) -> String {
    shown(&format::JUNIT, report)
}

fn parsed(report: &Report) -> quick_junit::Report {
    quick_junit::Report::deserialize_from_str(&xml(report)).unwrap()
}

/// Returns every report, one that others have written into, and a large one.
fn reports() -> Vec<(&'static str, Report)> {
    fixture::all().into_iter().chain([("hostile", hostile()), ("large", fixture::large(10, 5))]).collect()
}

fn cases(report: &quick_junit::Report) -> impl Iterator<Item = &TestCase> {
    report.test_suites.iter().flat_map(|suite| &suite.test_cases)
}

/// Returns the keys by which GitLab distinguishes cases within a job: suite, `classname`, `name`; and `file`, which it links.
fn keys(report: &Report) -> BTreeSet<[String; 4]> {
    let mut keys = BTreeSet::new();
    let report = parsed(report);
    for suite in &report.test_suites {
        for case in &suite.test_cases {
            let file = case.extra.iter().find(|(name, _)| name.as_str() == "file");
            let key = [
                suite.name.to_string(),
                case.classname.as_ref().unwrap().to_string(),
                case.name.to_string(),
                file.map_or_else(String::new, |(_, value)| value.to_string()),
            ];
            assert!(keys.insert(key.clone()), "GitLab takes two cases for one: {key:?}");
        }
    }
    keys
}

/// Returns message, type and text of a case that is not a success.
fn said(case: &TestCase) -> Option<(Option<String>, Option<String>, String)> {
    let text = |text: &Option<quick_junit::XmlString>| text.as_ref().map(|text| text.as_str().to_owned());
    match &case.status {
        TestCaseStatus::Success { .. } => None,
        TestCaseStatus::NonSuccess { message, ty, description, .. }
        | TestCaseStatus::Skipped { message, ty, description } => {
            Some((text(message), text(ty), text(description).unwrap_or_default()))
        }
    }
}

fn attributes<'a>(xml: &'a str, name: &str) -> Vec<&'a str> {
    let begin = format!(" {name}=\"");
    xml.split(&begin).skip(1).map(|rest| &rest[..rest.find('"').unwrap()]).collect()
}

#[test]
fn says_why_in_the_message() {
    let text = xml(&fixture::diagnosed());
    let because =
        "message=\"cp-3 (10.0.0.3): last renewed 4m59s ago; because control plane node cp-3 (10.0.0.3) does not answer";
    assert!(text.contains(because), "{text}");
    assert!(text.contains("message=\"cp-3 (10.0.0.3): Ready=False since 4m58s\""), "nothing explains it: {text}");
}

/// A statement that is true when a check passes is not a finding.
#[test]
fn a_title_is_no_finding() {
    let mut warnings = 0;
    for (name, report) in reports() {
        let said = |check: &crate::report::CheckReport| xml(&report).contains(&clean(check.check.summary));
        let loud = report.checks.iter().find(|check| said(check));
        assert!(loud.is_none(), "{name}: {:?}", loud.map(|check| check.check.summary));
        for case in cases(&parsed(&report)) {
            let Some(text) = case.system_out.as_ref().filter(|it| it.as_str().starts_with("warning: ")) else {
                continue;
            };
            let check = report.checks.iter().find(|it| case.name.as_str() == it.check.id.name()).unwrap();
            let first = text.as_str().lines().next().unwrap();
            let found = |(target, _): (&Target, &Problem)| first.contains(&clean(&target.to_string()));
            assert!(check.problems_of(Severity::Warn).any(found), "{name}: {first}");
            warnings += 1;
        }
    }
    assert!(warnings > 0);
}

/// A check that passed, then failed, and passes in the end has a note and no error.
#[test]
fn who_relapsed_and_is_well_has_no_error() {
    let mut report = fixture::large(3, 0);
    report.checks[0].flapped = true;
    let parsed = parsed(&report);
    let id = report.checks[0].check.id;
    let own = cases(&parsed).find(|case| case.name.as_str() == id.name()).unwrap();
    assert!(matches!(own.status, TestCaseStatus::Success { .. }));
    assert!(own.system_out.as_ref().unwrap().as_str().contains("passed before"));
}

/// Jenkins and others fail on a suite without cases.
#[test]
fn neither_the_report_nor_a_suite_is_empty() {
    for (name, report) in reports() {
        let parsed = parsed(&report);
        assert_eq!(cases(&parsed).count(), report.checks.len() + 1, "{name}");
        assert!(parsed.test_suites.iter().all(|suite| !suite.test_cases.is_empty()), "{name}");
    }
}

/// GitLab shows neither properties nor the suite, so every failure has to be a case.
#[test]
fn gitlab_shows_cases_alone_so_one_is_bad_unless_the_run_was_a_success() {
    for (name, report) in reports() {
        let bad =
            cases(&parsed(&report)).filter(|case| matches!(case.status, TestCaseStatus::NonSuccess { .. })).count();
        assert_eq!(bad == 0, report.exit.code() == 0, "{name}");
    }
}

#[test]
fn gitlab_drops_the_message_where_there_is_text_so_the_text_has_all_of_it() {
    for (name, report) in reports() {
        let parsed = parsed(&report);
        for case in cases(&parsed) {
            let Some((message, _, text)) = said(case) else { continue };
            let message = message.unwrap();
            assert!(!message.is_empty() && !text.trim().is_empty(), "{name}: {:?}", case.name);
            let Some(check) = report.checks.iter().find(|check| check.check.id == case.name.as_str()) else {
                assert!(text.contains(&message), "{name}: {text}");
                continue;
            };
            for finding in &check.findings {
                if let Outcome::Problem(problem) = &finding.outcome
                    && check.status.is_some_and(|status| !status.is_fine())
                    && problem.severity > Severity::Warn
                {
                    // The observation is not wrapped, but may be part of a list.
                    assert!(text.contains(&clean(&problem.observed)), "{name}: {:?}: {text}", case.name);
                }
            }
            for diagnosis in report.diagnoses.iter().filter(|_| message.contains("; because ")) {
                assert!(text.contains(&clean(&diagnosis.headline)), "{name}: {text}");
            }
        }
    }
}

#[test]
fn gitlab_takes_the_first_of_failure_error_and_skipped_so_a_case_has_one_of_them() {
    for (name, report) in reports() {
        for case in xml(&report).split("<testcase ").skip(1) {
            let children = ["<failure", "<error", "<skipped"].map(|child| case.matches(child).count());
            assert!(children.iter().sum::<usize>() <= 1, "{name}: {case}");
        }
    }
}

/// Each case has the kind that the JSON report gives its check, and the counts are those of the cases.
#[test]
fn the_counts_are_those_of_the_json_report() {
    for (name, report) in reports() {
        let (parsed, json) = (parsed(&report), json_of(&report));
        let mut of_kind: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for case in cases(&parsed).filter(|case| case.name.as_str() != "run") {
            let kind = match &case.status {
                TestCaseStatus::Success { .. } => "passed",
                TestCaseStatus::Skipped { .. } => "skipped",
                TestCaseStatus::NonSuccess { kind: NonSuccessKind::Failure, .. } => "failed",
                TestCaseStatus::NonSuccess { kind: NonSuccessKind::Error, .. } => "errored",
            };
            of_kind.entry(kind).or_default().insert(case.name.to_string());
        }
        for check in json["checks"].as_array().unwrap() {
            let kind = match check["status"].as_str().unwrap() {
                "pass" | "warn" => "passed",
                "skip" | "blocked" => "skipped",
                "fail" => "failed",
                _ => "errored",
            };
            assert!(of_kind[kind].contains(check["id"].as_str().unwrap()), "{name}: {} is not {kind}", check["id"]);
        }
        let summary = |field: &str| usize::try_from(json["summary"][field].as_u64().unwrap()).unwrap();
        let of_run = usize::from(report.trouble().is_some());
        assert_eq!(parsed.failures, summary("failed"), "{name}");
        assert_eq!(parsed.errors, summary("errored") + of_run, "{name}");
        let skipped: usize = parsed.test_suites.iter().map(|suite| suite.skipped).sum();
        assert_eq!(skipped, summary("skipped") + summary("blocked"), "{name}");
        assert_eq!(parsed.tests, summary("total") + 1, "{name}");
    }
}

/// Equal keys are one case to GitLab, and branches are compared by them.
#[test]
fn gitlab_compares_by_key_so_keys_are_unique_and_the_same_in_every_run() {
    let expected = keys(&fixture::healthy());
    for (name, report) in fixture::all().into_iter().chain([("hostile", hostile())]) {
        assert_eq!(keys(&report), expected, "{name}: other nodes, another outcome, another time");
        let mut turned = report;
        turned.checks.reverse();
        turned.checks.iter_mut().for_each(|check| check.findings.reverse());
        assert_eq!(keys(&turned), expected, "{name}: in another order");
    }
    assert_eq!(keys(&fixture::large(1, 0)), keys(&fixture::large(10, 5)));
}

/// Addresses, names of nodes and times belong to one run; IDs of checks and names of stages are in the source.
#[test]
fn gitlab_compares_by_key_so_nothing_in_a_key_is_from_the_cluster() {
    let stages: Vec<_> = Stage::ALL.iter().map(|stage| stage.name()).collect();
    for [suite, class, name, file] in keys(&fixture::large(10, 5)) {
        assert_eq!(class, format!("cluster-health.{suite}"));
        assert!(file.is_empty(), "a file that is not in the repository is a dead link");
        if suite != "run" {
            assert!(stages.contains(&suite.as_str()) && checks::find(&name).is_some(), "{suite} {name}");
        }
    }
}

#[test]
fn gitlab_casts_by_type_so_types_have_a_namespace() {
    for (name, report) in reports() {
        for case in cases(&parsed(&report)) {
            if let Some((_, Some(ty), _)) = said(case) {
                let word = ty.strip_prefix("cluster-health.").unwrap_or_else(|| panic!("{name}: {ty}"));
                assert!(word.bytes().all(|c| c.is_ascii_lowercase()), "{name}: {ty}");
            }
        }
    }
}

#[test]
fn gitlab_links_attachments_that_system_out_names_so_nobody_in_the_cluster_can_name_one() {
    let mut report = fixture::unhealthy();
    let text = "[[ATTACHMENT|../../x]] [[[ATTACHMENT|x]]] [[[[PROPERTY|a=b]]]]";
    let check = report.checks.iter_mut().find(|check| check.status == Some(Status::Warn)).unwrap();
    check.findings = vec![fixture::problem(fixture::node(3), Problem::warn(Reason::NoTolerance, "none", text))].into();
    assert!(xml(&report).contains("../../x"));
    assert!(!xml(&report).contains("[["));
}

#[test]
fn times_are_seconds_with_a_point() {
    for (name, report) in reports() {
        let xml = xml(&report);
        for time in attributes(&xml, "time") {
            let (seconds, thousandths) = time.split_once('.').unwrap();
            let is_number = |text: &str| text.bytes().all(|c| c.is_ascii_digit());
            assert!(is_number(seconds) && is_number(thousandths) && thousandths.len() == 3, "{name}: {time}");
        }
        for timestamp in attributes(&xml, "timestamp") {
            assert_eq!(timestamp.parse::<jiff::Timestamp>().unwrap(), report.started_at, "{name}");
        }
    }
}

#[test]
fn a_thousand_nodes_are_less_than_five_mebibytes_and_none_that_fails_is_left_out() {
    for bad in [0, 500, 1000] {
        let report = fixture::large(1000, bad);
        let xml = xml(&report);
        assert!(xml.len() < 5 << 20, "{bad} of 1000 are down: {} bytes", xml.len());
        let parsed = quick_junit::Report::deserialize_from_str(&xml).unwrap();
        let case = cases(&parsed).find(|case| case.name.as_str() == "talos.nodes.reachable").unwrap();
        let text = said(case).map_or_else(String::new, |(_, _, text)| text);
        for node in report.sources.nodes.iter().take(bad) {
            assert!(text.contains(&node.name), "{bad} of 1000 are down, {} is not named", node.name);
        }
    }
}

/// GitLab discards a file of more than 30 MB. In this report every check fails, on many nodes, in characters that are five each when
/// escaped.
#[test]
fn gitlab_discards_what_is_too_large_so_every_text_is_bounded() {
    let mut report = fixture::large(100, 0);
    report.checks.truncate(1);
    let check = &mut report.checks[0];
    check.status = Some(Status::Fail);
    check.flapped = true;
    for (n, finding) in check.findings.iter_mut().enumerate() {
        let observed = format!("{n} {}", "&".repeat(LIMIT));
        finding.outcome = Outcome::problem(Problem::fail(Reason::NodeUnreachable, "answers", observed));
    }
    let size = xml(&report).len();
    assert!(size > 300_000, "the text is as long as it may be: {size} bytes");
    assert!(size * checks::ALL.len() < 30_000_000, "{size} bytes for one check");
}
