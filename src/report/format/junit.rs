//! The report for test viewers, in the intersection of what GitLab, Jenkins and the GitHub actions read.
//!
//! GitLab drops attributes when an element has text, while Jenkins shows the attribute: the short form is in `message`, and everything is
//! in the body. Names contain nothing volatile, because branches are compared by them. Types are namespaced, because GitLab's parser casts
//! some plain words.

use std::io;
use std::time::Duration;

use quick_junit::{NonSuccessKind, Property, Report as Junit, TestCase, TestCaseStatus, TestSuite};

use crate::model::{CheckId, Exit, Finding, Kind, Severity, Shared, Stage, Status};
use crate::report::merged::Overview;
use crate::report::view::index::Index;
use crate::report::view::problems;
use crate::report::view::verdict::{line, tally};
use crate::report::view::wording::skip_reason;
use crate::report::{CheckReport, Report, RunResult, TextStyle, Trouble};
use crate::text::joined;
use crate::text::sanitize::clean;

/// Maximum size of a test case's body, in bytes: a thousand nodes with long names fit. GitLab reads 30 MB a file at most, which is more
/// than this size for every check, each escaped.
const BODY: usize = 88 * 1024;

/// Writes the document.
pub(crate) fn write(report: &Report, out: impl io::Write) -> io::Result<()> {
    let mut junit = Junit::new("cluster-health");
    junit.set_time(report.took);
    junit.add_test_suites(suites(report));
    write_all(&junit, out)
}

/// Writes several clusters: a suite with a case for each, then the suites of each, with its name before theirs.
pub(crate) fn write_merged(overview: &Overview<'_>, _: &TextStyle, out: &mut dyn io::Write) -> io::Result<()> {
    let mut junit = Junit::new("cluster-health");
    let mut clusters = TestSuite::new("clusters");
    clusters.set_time(Duration::ZERO);
    for row in &overview.rows {
        let said = row.concerns.join("; ");
        let said = if said.is_empty() { row.exit.meaning() } else { &said };
        let status = match row.exit {
            Exit::Healthy => TestCaseStatus::success(),
            Exit::Unhealthy => non_success(NonSuccessKind::Failure, "unhealthy", said, said),
            _ => non_success(NonSuccessKind::Error, "undetermined", said, said),
        };
        let mut case = TestCase::new(row.name.as_str(), status);
        case.set_classname("cluster-health.clusters");
        case.set_time(row.report().map_or(Duration::ZERO, |report| report.took));
        clusters.add_test_case(case);
    }
    if overview.rows.is_empty() {
        let mut case = TestCase::new("none", non_success(NonSuccessKind::Error, "undetermined", NONE, NONE));
        case.set_classname("cluster-health.clusters");
        clusters.add_test_case(case);
    }
    junit.add_test_suite(clusters);
    for row in &overview.rows {
        for mut suite in row.report().into_iter().flat_map(suites) {
            suite.name = format!("{}/{}", row.name, suite.name.as_str()).into();
            for case in &mut suite.test_cases {
                let stage = case.classname.as_ref().map_or("", |name| name.as_str());
                let stage = stage.trim_start_matches("cluster-health.").to_owned();
                case.set_classname(format!("cluster-health.{}.{stage}", row.name));
            }
            junit.add_test_suite(suite);
        }
    }
    write_all(&junit, out)
}

/// Text of a cluster that has no report at all.
const NONE: &str = "no report";

fn suites(report: &Report) -> Vec<TestSuite> {
    let mut suites = vec![run_suite(report)];
    let index = Index::of(report);
    for stage in Stage::ALL {
        let mut suite = new_suite(stage.name(), report);
        for check in report.checks.iter().filter(|check| check.check.stage == stage) {
            if is_of_requirements(check) {
                suite.add_test_cases(cases_of_requirements(check, &index));
            } else {
                suite.add_test_case(case_of(check, &index, false));
            }
        }
        // Jenkins and others fail on a suite without cases.
        if !suite.test_cases.is_empty() {
            // The time is not their sum, because checks are judged side by side.
            let longest = suite.test_cases.iter().filter_map(|case| case.time).max();
            suite.set_time(longest.unwrap_or_default());
            suites.push(suite);
        }
    }
    suites
}

fn write_all(junit: &Junit, mut out: impl io::Write) -> io::Result<()> {
    let xml = junit.to_string().map_err(io::Error::other)?;
    // Jenkins's schema has neither this count nor a time stamp for all suites together; each suite has its own.
    let skipped = format!(" skipped=\"{}\"", junit.skipped);
    out.write_all(xml.replacen(&skipped, "", 1).as_bytes())?;
    out.flush()
}

fn new_suite(name: &str, report: &Report) -> TestSuite {
    let mut suite = TestSuite::new(name);
    suite.timestamp = report.started_at.to_string().parse().ok();
    suite.set_time(Duration::ZERO);
    suite
}

/// Returns a suite with one case about the run itself. The document of a run that did not end, or that ended for a reason that no check
/// shows, has at least this one error, whatever the checks show.
fn run_suite(report: &Report) -> TestSuite {
    let mut suite = new_suite("run", report);
    suite.set_time(report.took);
    let sources = &report.sources;
    for (name, value) in [
        ("version", Some(clean(&report.tool.version))),
        ("cluster", sources.name().map(str::to_owned)),
        ("context", sources.context.clone()),
        ("endpoints", Some(sources.endpoints.join(","))),
        ("server", sources.server.clone()),
        ("result", Some(report.result.name().to_owned())),
        ("verdict", Some(line(report, &TextStyle::default()))),
        ("exitCode", Some(report.exit.code().to_string())),
    ] {
        if let Some(value) = value {
            suite.add_property(Property::new(name, clean(&value)));
        }
    }
    for weak in &report.weakened {
        suite.add_property(Property::new("weakened", clean(&format!("{} ({})", weak.option, weak.origin))));
    }
    if let Some(policy) = &report.policy {
        suite.add_property(Property::new("policy", clean(&policy.path)));
        suite.add_property(Property::new("policySha256", policy.sha256.as_str()));
    }
    let status = match report.trouble() {
        None => TestCaseStatus::success(),
        Some(Trouble { kind, text }) => {
            let body = format!("{text}\nexit code {}; {}", report.exit.code(), tally(report));
            non_success(NonSuccessKind::Error, kind, &text, &body)
        }
    };
    let mut case = TestCase::new("run", status);
    case.set_classname("cluster-health.run");
    case.set_system_out(line(report, &TextStyle::default()));
    case.set_time(report.took);
    suite.add_test_case(case);
    suite
}

/// Whether some requirements were checked. Their names come from the policy, and are the same in every run with it.
fn is_of_requirements(check: &CheckReport) -> bool {
    let are_entries = check.findings.iter().all(|finding| finding.target.kind == Kind::Policy);
    check.check.id == CheckId::PolicyRequire && !check.findings.is_empty() && are_entries
}

/// Returns a case for each requirement of the policy, under its own name.
fn cases_of_requirements(check: &CheckReport, report: &Index<'_>) -> Vec<TestCase> {
    let of_one = |finding: &Finding| {
        // The copy leaves out the findings of all requirements, which each case would carry along.
        let bare = CheckReport { findings: Shared::default(), ..check.clone() };
        let status = Some(finding.outcome.status());
        let part = CheckReport { status, findings: vec![finding.clone()].into(), flapped: false, ..bare };
        let mut case = case_of(&part, report, true);
        case.name = clean(&finding.target.name).into();
        case
    };
    check.findings.iter().map(of_one).collect()
}

/// Returns the case of a check. `is_part`: the case is one requirement of several, and leaves out the consequences of the check.
fn case_of(check: &CheckReport, report: &Index<'_>, is_part: bool) -> TestCase {
    let status = check.shown_status();
    let mut case = TestCase::new(check.check.id.name(), case_status(check, report, is_part));
    case.set_classname(format!("cluster-health.{}", check.check.stage.name()));
    case.set_time(took(check, report));
    let mut notes = Vec::new();
    if status == Status::Warn {
        notes.push(format!("warning: {}", short(check, report, Severity::Warn)));
        notes.push(problems::body(check, report, !is_part));
    }
    if check.flapped {
        notes.push("it passed before, but later did not".to_owned());
    }
    if !notes.is_empty() {
        case.set_system_out(undirected(&bounded(&notes.join("\n"))));
    }
    case
}

/// Returns the time that the run waited for the check: until it passed for good, or to the end.
fn took(check: &CheckReport, report: &Index<'_>) -> Duration {
    match check.shown_status() {
        Status::Skip => Duration::ZERO,
        Status::Pass | Status::Warn => check.since.unwrap_or(report.took).min(report.took),
        _ => report.took,
    }
}

fn case_status(check: &CheckReport, report: &Index<'_>, is_part: bool) -> TestCaseStatus {
    if check.is_unjudged() {
        let (kind, text) = match report.result {
            RunResult::Interrupted => ("interrupted", "the run was interrupted before a complete round checked it"),
            _ if !report.complete => ("incomplete", "the run did not complete, and no complete round checked it"),
            _ => ("undetermined", "no complete round checked it"),
        };
        return non_success(NonSuccessKind::Error, kind, text, text);
    }
    match check.shown_status() {
        Status::Pass | Status::Warn => TestCaseStatus::success(),
        Status::Skip => skipped(&skip_reason(check).unwrap_or_else(|| "not applicable".to_owned())),
        Status::Blocked => skipped(&format!("not run: blocked by {}", joined(check.blocked_by()))),
        Status::Error => found(NonSuccessKind::Error, "undetermined", check, report, is_part),
        Status::Fail if report.deadline_reached => found(NonSuccessKind::Failure, "timeout", check, report, is_part),
        Status::Fail => found(NonSuccessKind::Failure, "unhealthy", check, report, is_part),
    }
}

fn found(kind: NonSuccessKind, class: &str, check: &CheckReport, report: &Index<'_>, is_part: bool) -> TestCaseStatus {
    let severity = if kind == NonSuccessKind::Error { Severity::Error } else { Severity::Fail };
    let mut body = problems::body(check, report, !is_part);
    if body.is_empty() {
        body = format!("{}: no result, which does not count as a pass", check.check.id);
    }
    non_success(kind, class, &short(check, report, severity), &body)
}

/// Returns the first problem of the severity that decided, the number of others, and its cause.
fn short(check: &CheckReport, report: &Index<'_>, severity: Severity) -> String {
    let mut problems = check.problems_of(severity);
    match problems.next() {
        None => "no result, which does not count as a pass".to_owned(),
        Some((target, problem)) => {
            let first = format!("{}: {}", clean(&target.to_string()), clean(&problem.observed));
            let more = match problems.count() {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            match report.diagnosis(check.check.id, target, problem) {
                Some(diagnosis) => format!("{first}{more}; because {}", clean(&diagnosis.headline)),
                None => format!("{first}{more}"),
            }
        }
    }
}

fn skipped(reason: &str) -> TestCaseStatus {
    let reason = bounded(reason);
    let mut status = TestCaseStatus::skipped();
    status.set_message(&reason).set_description(&reason);
    status
}

fn non_success(kind: NonSuccessKind, class: &str, short: &str, body: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_type(format!("cluster-health.{class}")).set_message(bounded(short)).set_description(bounded(body));
    status
}

/// Breaks up `[[`. In `system-out`, `[[ATTACHMENT|path]]` is a link to an artifact for GitLab and Jenkins, and other tools have similar
/// marks.
fn undirected(text: &str) -> String {
    // Three in a row leave two.
    text.replace("[[", "[ [").replace("[[", "[ [")
}

fn bounded(text: &str) -> String {
    if text.len() <= BODY {
        return text.to_owned();
    }
    let end = (0..=BODY).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}\n… (the JSON report has all of it)", &text[..end])
}
