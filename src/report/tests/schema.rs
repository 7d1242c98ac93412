//! The published schema describes what is written.

use serde_json::Value;

use super::super::text::TextStyle;
use super::super::{Report, fixture, format, json};
use super::hostile::hostile;
use super::{json_of, shown};

fn schema() -> Value {
    serde_json::from_str(json::SCHEMA).unwrap()
}

/// Every report, and one that others have written into; with what happened on the way.
fn reports() -> impl Iterator<Item = (&'static str, Report)> {
    fixture::all().into_iter().chain([("hostile", hostile()), ("followed", fixture::followed())])
}

fn events(report: &Report) -> Vec<Value> {
    shown(&format::NDJSON, report).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_document_is_valid_under_the_schema() {
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    for (name, report) in reports() {
        let document = json_of(&report);
        for document in events(&report).iter().chain([&document]) {
            let errors: Vec<_> = validator.iter_errors(document).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{name}: {errors:?}");
        }
        let checks = document["checks"].as_array().unwrap();
        assert_eq!(checks.len(), report.checks.len(), "every check is there");
        assert_eq!(shown(&format::JSON, &report), shown(&format::JSON, &report));
    }
}

#[test]
fn the_schema_refuses_what_is_neither() {
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    let mut report = json_of(&fixture::healthy());
    report.as_object_mut().unwrap().remove("exitCode");
    let mut event = events(&fixture::followed()).pop().unwrap();
    assert!(validator.is_valid(&event), "{event}");
    event.as_object_mut().unwrap().remove("report");
    for document in [report, event, serde_json::json!({}), serde_json::json!({"kind": "Other"})] {
        assert!(!validator.is_valid(&document), "{document}");
    }
}

#[test]
fn events_are_numbered_and_end_with_the_report() {
    let report = fixture::followed();
    let events = events(&report);
    let types: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["runStarted", "checkChanged", "checkChanged", "stabilityLost", "heartbeat", "runFinished"]);
    for (n, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], n);
        assert!(n == 0 || events[n - 1]["time"].as_str() <= event["time"].as_str());
    }
    assert_eq!(events.last().unwrap()["report"], json_of(&report));
    let begun = shown(&format::NDJSON, &fixture::nothing_judged());
    assert_eq!(begun.lines().count(), 1, "a checkpoint has no end: {begun}");
}

/// What was written of a run while it went on is the beginning of what is written at its end.
#[test]
fn a_document_that_grows_is_never_changed() {
    let mut report = fixture::followed();
    for format in format::ALL.into_iter().filter(|format| format.grows()) {
        let whole = shown(format, &report);
        while report.history.entries_mut().pop().is_some() {
            report.sources = fixture::nothing_judged().sources;
            let before = shown(format, &report);
            assert!(whole.starts_with(&before) && whole.len() > before.len(), "{before}");
            let rest = format.render_after(report.events(), &fixture::followed(), &TextStyle::default()).unwrap();
            assert_eq!(before + &String::from_utf8(rest).unwrap(), whole);
        }
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
            // Conditions choose between shapes, and are none.
            for (key, value) in object.iter().filter(|(key, _)| *key != "if") {
                walk(value, &format!("{path}/{key}"));
            }
        }
    }
    let schema = schema();
    walk(&schema, "");
    for (_, report) in reports() {
        known(&json_of(&report), &schema["$defs"]["report"], &schema, "");
        for event in events(&report) {
            known(&event, &schema["$defs"]["event"], &schema, "");
        }
    }
}
