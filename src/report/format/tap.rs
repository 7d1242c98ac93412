//! TAP 14: a test point for each check, with a YAML block of what is wrong.
//!
//! As in JUnit the run itself is the first point, so that a run that did not come to its end fails whatever the checks say. The
//! plan comes first: a file that was cut off is noticed. Warnings are `TODO`, which harnesses show and do not fail for.

use std::io;

use crate::model::{Problem, Severity, Status, Target};
use crate::report::view::index::Index;
use crate::report::view::style::TextStyle;
use crate::report::view::wording::{shown, skip_reason};
use crate::report::view::{hints, verdict};
use crate::report::{CheckReport, Report};
use crate::text::joined;
use crate::text::sanitize::clean;

/// Problems of one check that are shown; the JSON report has all.
const PROBLEMS: usize = 50;

/// Writes the document.
pub(crate) fn write(report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(out, "TAP version 14")?;
    writeln!(out, "1..{}", report.checks.len() + 1)?;
    writeln!(out, "# {}", verdict::line(report, &TextStyle::default()))?;
    match report.trouble() {
        None => writeln!(out, "ok 1 - run")?,
        Some(trouble) => {
            writeln!(out, "not ok 1 - run")?;
            let code = report.exit.code().to_string();
            yaml(out, &[("severity", trouble.kind), ("message", &trouble.text), ("exitCode", &code)], &[])?;
        }
    }
    let index = Index::of(report);
    for (number, check) in (2..).zip(&report.checks) {
        point(number, check, &index, out)?;
    }
    Ok(())
}

fn point<'a>(number: usize, check: &'a CheckReport, report: &Index<'a>, out: &mut dyn io::Write) -> io::Result<()> {
    let status = check.shown_status();
    let name = escaped(&format!("{}: {}", check.check.id, check.check.summary));
    let directive = match status {
        Status::Skip => format!(" # SKIP {}", skip_reason(check).unwrap_or_else(|| "not applicable".to_owned())),
        // The check that failed is the one to show.
        Status::Blocked => format!(" # SKIP not run: blocked by {}", joined(check.blocked_by())),
        Status::Warn => " # TODO a warning".to_owned(),
        Status::Pass | Status::Error | Status::Fail => String::new(),
    };
    let is_ok = matches!(status, Status::Pass | Status::Skip | Status::Blocked);
    writeln!(out, "{} {number} - {name}{directive}", if is_ok { "ok" } else { "not ok" })?;
    if is_ok {
        return Ok(());
    }
    let mut fields = vec![("severity", status.name()), ("stage", check.check.stage.name())];
    if check.status.is_none() {
        fields.push(("message", "no complete round checked it"));
    } else if check.findings.is_empty() {
        fields.push(("message", "no result, which does not count as a pass"));
    }
    let problems: Vec<_> = [Severity::Fail, Severity::Error, Severity::Warn]
        .into_iter()
        .flat_map(|severity| check.problems_of(severity))
        .collect();
    let more = problems.len().saturating_sub(PROBLEMS).to_string();
    if more != "0" {
        fields.push(("problemsLeftOut", &more));
    }
    let shown = problems.into_iter().take(PROBLEMS);
    let entries: Vec<_> = shown.map(|(target, problem)| entry(check, target, problem, report)).collect();
    yaml(out, &fields, &entries)
}

/// One problem as fields of a YAML mapping.
type Fields = Vec<(&'static str, String)>;

fn entry<'a>(check: &CheckReport, target: &'a Target, problem: &'a Problem, report: &Index<'a>) -> Fields {
    let mut fields = vec![
        ("target", shown(target)),
        ("reason", problem.reason.code().to_owned()),
        ("expected", clean(&problem.expected)),
        ("observed", clean(&problem.observed)),
    ];
    if let Some(diagnosis) = report.diagnosis(check.check.id, target, problem) {
        fields.push(("because", clean(&diagnosis.headline)));
    }
    let hints = problem.hints.iter().filter_map(|hint| hints::render(hint, &report.sources));
    for hint in hints {
        if let Some(text) = hint.command.or(hint.text) {
            // A key may stand in a mapping once.
            if !fields.iter().any(|(key, _)| *key == hint.kind.name()) {
                fields.push((hint.kind.name(), text));
            }
        }
    }
    fields
}

/// Every value is a string of JSON, which YAML reads as the same string: nothing in it can end the block.
fn yaml(out: &mut dyn io::Write, fields: &[(&str, &str)], problems: &[Fields]) -> io::Result<()> {
    writeln!(out, "  ---")?;
    for (key, value) in fields {
        writeln!(out, "  {key}: {}", serde_json::to_string(value)?)?;
    }
    if !problems.is_empty() {
        writeln!(out, "  problems:")?;
    }
    for problem in problems {
        for (n, (key, value)) in problem.iter().enumerate() {
            writeln!(out, "    {} {key}: {}", if n == 0 { "-" } else { " " }, serde_json::to_string(value)?)?;
        }
    }
    writeln!(out, "  ...")
}

/// `#` begins a directive.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('#', "\\#")
}
