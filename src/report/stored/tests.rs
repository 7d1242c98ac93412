use super::super::{fixture, format};
use super::*;
use crate::report::TextStyle;

fn shown(format: &format::Format, report: &Report) -> String {
    String::from_utf8(format.render(report, &TextStyle::default()).unwrap()).unwrap()
}

/// As it was stored and read again, whatever its parts say of each other: fixtures are made by hand.
fn again(report: &Report) -> Report {
    let document: Document = serde_json::from_str(&shown(&format::JSON, report)).unwrap();
    document.report().unwrap()
}

/// The formats that a stored report can be shown in.
fn formats() -> impl Iterator<Item = &'static format::Format> {
    format::ALL.into_iter().filter(|format| !format.grows())
}

#[test]
fn a_stored_report_is_shown_as_the_run_has_shown_it() {
    let mut reports: Vec<_> = fixture::all().into_iter().collect();
    reports.push(("followed", fixture::followed()));
    for (name, report) in reports {
        // The catalog has the texts of checks.
        let mut report = report;
        for check in &mut report.checks {
            check.check = crate::checks::find(check.check.id.name()).unwrap();
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

/// Others than the fixtures that end as no run does.
fn stored() -> Vec<(&'static str, String)> {
    let of_catalog = |mut report: Report| {
        for check in &mut report.checks {
            check.check = crate::checks::find(check.check.id.name()).unwrap();
        }
        report
    };
    [("healthy", fixture::healthy()), ("diagnosed", fixture::diagnosed()), ("followed", fixture::followed())]
        .map(|(name, report)| (name, shown(&format::JSON, &of_catalog(report))))
        .to_vec()
}

#[test]
fn what_is_whole_is_read() {
    for (name, json) in stored() {
        assert!(read(json.as_bytes()).is_ok(), "{name}: {:?}", read(json.as_bytes()).err());
    }
}
