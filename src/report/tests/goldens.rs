//! The output of each format, for each way in which a run can end.

use super::super::{fixture, format};
use super::{json_of, shown, versionless};

#[test]
fn text_healthy() {
    insta::assert_snapshot!(versionless(&format::TEXT, &fixture::healthy()));
}

#[test]
fn text_healthy_large() {
    insta::assert_snapshot!(versionless(&format::TEXT, &fixture::healthy_with(42)));
}

#[test]
fn text_unhealthy() {
    insta::assert_snapshot!(versionless(&format::TEXT, &fixture::unhealthy()));
}

#[test]
fn text_diagnosed() {
    insta::assert_snapshot!(versionless(&format::TEXT, &fixture::diagnosed()));
}

#[test]
fn json_diagnosed() {
    insta::assert_json_snapshot!(json_of(&fixture::diagnosed())["diagnoses"]);
}

#[test]
fn text_interrupted() {
    insta::assert_snapshot!(versionless(&format::TEXT, &fixture::interrupted()));
}

#[test]
fn text_without_a_round() {
    insta::assert_snapshot!(versionless(&format::TEXT, &fixture::nothing_judged()), @"undetermined: prod (k8s.example:6443), 2026-11-21 03:00 UTC, cluster-health VERSION: no round was completed before the deadline of 5m00s");
    insta::assert_snapshot!(versionless(&format::TEXT, &fixture::configuration()), @r"
    error: could not read `/home/ci/talosconfig`: no such file
    hint: name another one with `--talosconfig`
    ");
}

#[test]
fn json_unhealthy() {
    insta::assert_snapshot!(versionless(&format::JSON, &fixture::unhealthy()));
}

#[test]
fn junit_unhealthy() {
    insta::assert_snapshot!(versionless(&format::JUNIT, &fixture::unhealthy()));
}

#[test]
fn junit_interrupted() {
    insta::assert_snapshot!(versionless(&format::JUNIT, &fixture::interrupted()));
}

#[test]
fn markdown_diagnosed() {
    insta::assert_snapshot!(versionless(&format::MARKDOWN, &fixture::diagnosed()));
}

#[test]
fn markdown_interrupted() {
    insta::assert_snapshot!(versionless(&format::MARKDOWN, &fixture::interrupted()));
}

#[test]
fn markdown_configuration() {
    insta::assert_snapshot!(versionless(&format::MARKDOWN, &fixture::configuration()));
}

#[test]
fn prometheus_diagnosed() {
    insta::assert_snapshot!(versionless(&format::PROMETHEUS, &fixture::diagnosed()));
}

#[test]
fn prometheus_interrupted() {
    insta::assert_snapshot!(versionless(&format::PROMETHEUS, &fixture::interrupted()));
}

#[test]
fn prometheus_configuration() {
    insta::assert_snapshot!(versionless(&format::PROMETHEUS, &fixture::configuration()));
}

#[test]
fn markdown_healthy_large() {
    insta::assert_snapshot!(versionless(&format::MARKDOWN, &fixture::healthy_with(42)));
}

/// The last line has the whole document, which has its own golden.
#[test]
fn ndjson_unhealthy() {
    let text = versionless(&format::NDJSON, &fixture::followed());
    let (before, last) = text.trim_end().rsplit_once('\n').unwrap();
    let mut last: serde_json::Value = serde_json::from_str(last).unwrap();
    assert_eq!(
        last["report"].take(),
        serde_json::from_str::<serde_json::Value>(&versionless(&format::JSON, &fixture::followed())).unwrap()
    );
    insta::assert_snapshot!(format!("{before}\n{last}"));
}

#[test]
fn a_plan_of_an_upgrade() {
    insta::assert_snapshot!(versionless(&format::plan::TEXT, &fixture::planned()));
    insta::assert_snapshot!(versionless(&format::plan::TSV, &fixture::planned()));
    insta::assert_snapshot!(versionless(&format::plan::JSON, &fixture::planned()));
    assert_eq!(shown(&format::plan::TSV, &fixture::healthy()).lines().count(), 1, "nothing was seen");
}
