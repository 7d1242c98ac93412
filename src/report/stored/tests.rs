use serde_json::{Value, json};

use super::super::{fixture, format};
use super::*;
use crate::model::{Exit, Finding, Outcome, Problem, Reason, Target};
use crate::report::{CheckReport, TextStyle};

fn shown(format: &format::Format, report: &Report) -> String {
    String::from_utf8(format.render(report, &TextStyle::default()).unwrap()).unwrap()
}

/// Stores a report and reads it again, even if its parts do not agree: fixtures are made by hand.
fn again(report: &Report) -> Report {
    let document: Document = serde_json::from_str(&shown(&format::JSON, report)).unwrap();
    document.report().unwrap()
}

/// Returns the formats that a stored report can be shown in.
fn formats() -> impl Iterator<Item = &'static format::Format> {
    format::ALL.into_iter().filter(|format| !format.grows())
}

#[test]
fn a_stored_report_is_shown_as_the_run_has_shown_it() {
    let mut reports: Vec<_> = fixture::all().into_iter().collect();
    reports.push(("followed", fixture::followed()));
    for (name, report) in reports {
        // The texts of checks come from the catalog.
        let mut report = report;
        for check in &mut report.checks {
            check.check = checks::find(check.check.id.name()).unwrap();
        }
        let again = again(&report);
        for format in formats() {
            assert!(
                shown(format, &report) == shown(format, &again),
                "{name} as {}:\n{}\n---\n{}",
                format.name,
                shown(format, &report),
                shown(format, &again)
            );
        }
    }
}

/// Returns the report with the checks of the real catalog.
fn of_catalog(mut report: Report) -> Report {
    for check in &mut report.checks {
        check.check = checks::find(check.check.id.name()).unwrap();
    }
    report
}

/// Returns reports of runs that did not find a healthy cluster, and of one that did.
fn reports() -> Vec<(&'static str, Report)> {
    let mut late = fixture::healthy();
    (late.exit, late.result, late.deadline_reached) = (Exit::Deadline, RunResult::Undetermined, true);
    let mut unwritten = fixture::healthy();
    (unwritten.exit, unwritten.error) = (Exit::ReportNotWritten, Some("could not write `a.xml`".to_owned()));
    let mut silent = fixture::healthy();
    silent.checks[1].findings.push(fixture::problem(fixture::node(1), Problem::error(Reason::NoAnswer, "one", "none")));
    silent.checks[1].status = Some(Status::Error);
    (silent.exit, silent.result) = (Exit::Undetermined, RunResult::Undetermined);
    let mut skipped = fixture::healthy();
    for check in &mut skipped.checks {
        check.findings = vec![Finding::new(Target::cluster(), Outcome::Skip("does not apply".to_owned()))].into();
        check.status = Some(Status::Skip);
    }
    let mut empty = skipped.clone();
    (skipped.exit, skipped.result) = (Exit::NothingChecked, RunResult::Error);
    empty.checks.clear();
    (empty.exit, empty.result) = (Exit::NothingChecked, RunResult::Error);
    [
        ("healthy", fixture::healthy()),
        ("unhealthy", fixture::unhealthy()),
        ("diagnosed", fixture::diagnosed()),
        ("followed", fixture::followed()),
        ("interrupted", fixture::interrupted()),
        ("nothing judged", fixture::nothing_judged()),
        ("configuration", fixture::configuration()),
        ("late", late),
        ("unwritten", unwritten),
        ("silent", silent),
        ("skipped", skipped),
        ("empty", empty),
    ]
    .to_vec()
}

fn stored() -> Vec<(&'static str, Value)> {
    let document = |report| serde_json::from_str(&shown(&format::JSON, &of_catalog(report))).unwrap();
    reports().into_iter().map(|(name, report)| (name, document(report))).collect()
}

/// Returns the same reports with only as many checks as distinguish them: each change is tried.
fn few() -> Vec<(&'static str, Value)> {
    let document = |mut report: Report| {
        let first = if report.result == RunResult::Interrupted { 6 } else { 0 };
        report.checks = report.checks.into_iter().skip(first).take(3).collect();
        report.diagnoses.clear();
        serde_json::from_str(&shown(&format::JSON, &of_catalog(report))).unwrap()
    };
    reports().into_iter().map(|(name, report)| (name, document(report))).collect()
}

fn read_one(document: &Value) -> Result<Report, String> {
    match read(document.to_string().as_bytes(), Timestamp::UNIX_EPOCH)? {
        Stored::One(report) => Ok(*report),
        Stored::Several(_) => Err("several".to_owned()),
    }
}

fn is_green(document: &Value) -> bool {
    read_one(document).is_ok_and(|report| ledger::gate(&report) == Exit::Healthy)
}

#[test]
fn what_is_whole_is_read() {
    for (name, document) in stored() {
        assert_eq!(read_one(&document).err(), None, "{name}");
        assert_eq!(is_green(&document), name == "healthy", "{name}");
    }
}

/// Finds every place in a document that has a value, except the document itself.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let mut add = |key: &str, value: &Value| {
        let at = format!("{at}/{key}");
        places(value, &at, found);
        found.push(at);
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| add(key, value)),
        Value::Array(items) => items.iter().enumerate().for_each(|(n, item)| add(&n.to_string(), item)),
        _ => {}
    }
}

/// A report that is not healthy does not become so, whatever one value is replaced by, and whatever is left out.
#[test]
fn no_single_change_makes_a_report_green() {
    let words =
        ["", "healthy", "pass", "skip", "warn", "selected", "not-selected", "prerequisite", Exit::Healthy.meaning()]
            .map(Value::from);
    let others = |value: &Value| match value {
        Value::Bool(it) => vec![json!(!it), json!(null)],
        Value::Number(_) => vec![json!(0), json!(1), json!(null)],
        Value::Null => [&words[..], &[json!(0)]].concat(),
        Value::String(_) => [&words[..], &[json!(null)]].concat(),
        Value::Array(_) => vec![json!([]), json!(null)],
        Value::Object(_) => vec![json!({}), json!(null)],
    };
    for (name, document) in few().into_iter().filter(|(name, _)| *name != "healthy") {
        let mut all = Vec::new();
        places(&document, "", &mut all);
        for place in &all {
            // For parts that are only shown, one other value represents all.
            let is_shown = ["/diagnoses", "/evidence", "/history", "/sources", "/notObserved"];
            let most = if is_shown.iter().any(|part| place.starts_with(part)) { 1 } else { usize::MAX };
            for other in others(document.pointer(place).unwrap()).into_iter().take(most) {
                let mut changed = document.clone();
                changed.pointer_mut(place).unwrap().clone_from(&other);
                assert!(!is_green(&changed), "{name}: {place} = {other}");
            }
            let (parent, key) = place.rsplit_once('/').unwrap();
            let mut changed = document.clone();
            match changed.pointer_mut(parent).unwrap() {
                Value::Object(fields) => drop(fields.remove(key)),
                Value::Array(items) => drop(items.remove(key.parse().unwrap())),
                _ => panic!("{place}"),
            }
            assert!(!is_green(&changed), "{name}: without {place}");
        }
    }
}

/// Documents are read as they were written before version 1 got its later fields.
#[test]
fn earlier_documents_of_the_version_are_read() {
    fn earlier(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for added in ["cluster", "template", "history", "cutOff", "policy", "accepted"] {
                    fields.remove(added);
                }
                if fields.contains_key("message") {
                    fields.remove("blockedBy");
                }
                fields.values_mut().for_each(earlier);
            }
            Value::Array(items) => items.iter_mut().for_each(earlier),
            _ => {}
        }
    }
    for (name, mut document) in stored() {
        earlier(&mut document);
        let report = read_one(&document).unwrap();
        assert_eq!(is_green(&document), name == "healthy", "{name}");
        assert_eq!(report.sources.name(), Some("prod"), "by its context");
    }
}

#[test]
fn what_is_not_known_is_unreadable_and_says_so() {
    let (_, document) = stored().remove(1);
    for (place, value, words) in [
        ("/kind", json!("ClusterHealthUpgradePlan"), "its kind is ClusterHealthUpgradePlan"),
        ("/schemaVersion", json!("2.0"), "its schema version 2.0 is unknown"),
        ("/checks/0/id", json!("talos.later"), "check `talos.later` is not known to cluster-health"),
        ("/checks/0/problems/0/reason", json!("of-later"), "reason `of-later` is not known"),
        ("/checks/0/status", json!("worse"), "the status of talos.nodes.reachable contradicts"),
        ("/exitCode", json!(200), "exit code `200` is not known"),
        ("/summary/failed", json!(0), "its summary contradicts its checks"),
        ("/checks/1/id", json!("talos.nodes.reachable"), "it has the check talos.nodes.reachable twice"),
    ] {
        let mut changed = document.clone();
        *changed.pointer_mut(place).unwrap() = value;
        let error = read_one(&changed).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn what_is_no_document_is_unreadable() {
    let json = stored()[0].1.to_string();
    let twice = json.replacen("\"exitCode\":0", "\"exitCode\":1,\"exitCode\":0", 1);
    assert_ne!(twice, json);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for bytes in
        [&b""[..], b"{}", b"null", b"\0", &json.as_bytes()[..json.len() / 2], twice.as_bytes(), deep.as_bytes()]
    {
        assert!(read(bytes, Timestamp::UNIX_EPOCH).is_err());
    }
    let unknown = json.replacen('{', &format!("{{\"later\":{deep},"), 1);
    let _ = read(unknown.as_bytes(), Timestamp::UNIX_EPOCH);
}

/// Texts of a file are cleaned like those of a cluster, and a command that must not be pasted is left out.
#[test]
fn texts_are_cleaned_as_they_are_read() {
    let (_, mut document) = stored().remove(1);
    let bad = "a\u{1b}[31m\n::error::x";
    for place in
        ["/checks/0/problems/0/observed", "/checks/0/targets/2/message", "/checks/0/problems/0/hints/1/command"]
    {
        *document.pointer_mut(place).unwrap() = json!(bad);
    }
    let report = read_one(&document).unwrap();
    let (_, problem) = report.checks[0].problems().next().unwrap();
    assert_eq!(problem.observed, clean(bad));
    assert_eq!(problem.hints.len(), 1, "{:?}", problem.hints);
}

#[test]
fn fuzz_a_stored_report() {
    let documents: Vec<Vec<u8>> = stored().iter().map(|(_, document)| document.to_string().into_bytes()).collect();
    bolero::check!().with_type::<(usize, usize, Vec<u8>)>().for_each(|(which, at, bytes)| {
        let mut document = documents[which % documents.len()].clone();
        let at = at % document.len();
        let end = (at + bytes.len()).min(document.len());
        document.splice(at..end, bytes.iter().copied());
        for bytes in [&document, bytes] {
            let _ = read(bytes, Timestamp::UNIX_EPOCH);
        }
    });
}

/// A failed check that is removed from the list and from the counts must not go unnoticed.
#[test]
fn a_check_that_is_taken_out_is_missed() {
    let own = Tool { commit: Some("0123456".into()), ..Tool::OWN };
    let mut report = Report { tool: own.clone(), ..fixture::healthy() };
    let entry = |check: &&'static Check| CheckReport::unjudged(check, Selection::Selected);
    report.checks = checks::ALL.iter().filter(|check| !check.is_asked_by_option()).map(entry).collect();
    assert_eq!(left_out(&report, &own).map(|check| check.id), None);
    let taken = report.checks.remove(7).check.id;
    assert_eq!(left_out(&report, &own).map(|check| check.id), Some(taken));
    // Another build may have had other checks, and this one may not know which build it is.
    assert!(left_out(&report, &Tool { commit: Some("7654321".into()), ..own }).is_none());
    assert!(left_out(&Report { tool: Tool::OWN, ..report }, &Tool { commit: None, ..Tool::OWN }).is_none());
}
