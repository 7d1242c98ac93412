//! The published schema is generated from the structs that are written, and describes them.

use std::path::Path;

use jiff::Timestamp;
use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform as _};
use serde_json::{Map, Value, json};

use super::super::format::{self, json, ndjson, plan};
use super::super::merged::{Member, Merged};
use super::super::{Report, TextStyle, fixture};
use super::hostile::hostile;
use super::{json_of, shown};

fn schema() -> Value {
    serde_json::from_str(json::SCHEMA).unwrap()
}

/// The schema is committed, so that it can be read without a build. `UPDATE=1` rewrites it.
#[test]
fn committed_files_have_the_schema_of_the_structs() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/cluster-health.v1.json");
    let made = format!("{:#}\n", generated());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    assert!(std::fs::read_to_string(&path).unwrap() == made, "{} is old: make generate", path.display());
}

/// The schema of `upgrade-plan` is committed, too.
#[test]
fn committed_files_have_the_schema_of_a_plan() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/upgrade-plan.v1.json");
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    generator.subschema_for::<plan::Document>();
    let mut definitions = generator.take_definitions(false);
    for definition in definitions.values_mut() {
        RecursiveTransform(open).transform(definition.try_into().unwrap());
    }
    let made = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:cluster-health:upgrade-plan:v1",
        "title": "cluster-health upgrade-plan, version 1",
        "description": "The document of upgrade-plan -o json.",
        "$ref": "#/$defs/plan",
        "$defs": definitions,
    });
    let made = format!("{made:#}\n");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    assert!(std::fs::read_to_string(&path).unwrap() == made, "{} is old: make generate", path.display());
}

fn generated() -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    generator.subschema_for::<json::Document>();
    generator.subschema_for::<ndjson::Event>();
    generator.subschema_for::<json::Merged>();
    let mut definitions = generator.take_definitions(false);
    let event = definitions["event"].as_object_mut().unwrap();
    let conditions = open_types(event);
    for definition in definitions.values_mut() {
        RecursiveTransform(open).transform(definition.try_into().unwrap());
    }
    definitions["event"]["allOf"] = conditions;
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:cluster-health:report:v1",
        "title": "cluster-health report, version 1",
        "description": "A document of -o json, of one cluster or of several, or one line of -o ndjson; `kind` says which.",
        "type": "object",
        "required": ["kind"],
        "if": {"properties": {"kind": {"const": "ClusterHealthEvent"}}},
        "then": {"$ref": "#/$defs/event"},
        "else": {
            "if": {"properties": {"kind": {"const": "ClusterHealthMerged"}}},
            "then": {"$ref": "#/$defs/merged"},
            "else": {"$ref": "#/$defs/report"},
        },
        "$defs": definitions,
    })
}

/// Returns the types of an event as conditions on one object: serde's tag would allow only those that are known today.
fn open_types(event: &mut Map<String, Value>) -> Value {
    let types = event.remove("oneOf").unwrap();
    let (mut names, mut conditions) = (Vec::new(), Vec::new());
    for variant in types.as_array().unwrap() {
        let name = variant["properties"]["type"]["const"].as_str().unwrap();
        let place = variant["description"].as_str().map(|place| format!(" ({place})")).unwrap_or_default();
        names.push(format!("{name}{place}"));
        let required = variant["required"].as_array().unwrap().iter().filter(|field| *field != "type");
        conditions.push(json!({
            "if": {"properties": {"type": {"const": name}}},
            "then": {"required": required.collect::<Vec<_>>()},
        }));
        let properties = event["properties"].as_object_mut().unwrap();
        for (field, schema) in variant["properties"].as_object().unwrap() {
            properties.entry(field).or_insert_with(|| schema.clone());
        }
    }
    let description = format!("One of {}. Pass over an unknown one.", names.join(", "));
    event["properties"]["type"] = json!({"type": "string", "description": description});
    event["required"].as_array_mut().unwrap().push("type".into());
    conditions.into()
}

/// Opens a schema for additions: readers must not rely on the fields being all, nor on the width of our numbers.
fn open(schema: &mut Schema) {
    if schema.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint")) {
        schema.remove("format");
        schema.remove("maximum");
    }
    let description = schema.get("description").and_then(Value::as_str).map(|text| text.replace('\n', " "));
    let is_object = schema.get("properties").is_some();
    let tolerance = is_object.then(|| "Unknown fields must be tolerated: later 1.x versions add some.".to_owned());
    if is_object {
        schema.insert("additionalProperties".to_owned(), true.into());
    }
    let description: Vec<_> = description.into_iter().chain(tolerance).collect();
    if !description.is_empty() {
        schema.insert("description".to_owned(), description.join(" ").into());
    }
}

#[test]
fn every_field_is_described() {
    fn walk(schema: &Value, path: &str) {
        for (key, value) in schema.as_object().into_iter().flatten() {
            for (name, property) in value.as_object().into_iter().flatten().filter(|_| key == "properties") {
                assert!(property["description"].as_str().is_some_and(|text| !text.is_empty()), "{path}/{name}");
            }
            walk(value, &format!("{path}/{key}"));
        }
    }
    let plan: Value = serde_json::from_str(plan::SCHEMA).unwrap();
    let generated = generated();
    let definitions = [&generated, &plan].map(|schema| schema["$defs"].as_object().unwrap());
    for (name, definition) in definitions.into_iter().flatten() {
        // Conditions choose between shapes, but are not shapes.
        let mut definition = definition.clone();
        definition.as_object_mut().unwrap().remove("allOf");
        walk(&definition, name);
    }
}

/// Returns every report, one that others have written into, and one with the events of a run.
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

/// Plans are valid with a machine in each state, and before any observation.
#[test]
fn every_plan_is_valid_under_its_schema() {
    let schema: Value = serde_json::from_str(plan::SCHEMA).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    for report in [fixture::planned(), fixture::healthy()] {
        let mut out = Vec::new();
        plan::JSON.write(&report, &TextStyle::default(), &mut out).unwrap();
        let document: Value = serde_json::from_slice(&out).unwrap();
        let errors: Vec<_> = validator.iter_errors(&document).map(|it| it.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        known(&document, &schema, &schema, "");
    }
    assert!(!validator.is_valid(&json!({})));
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

/// The document that was written during a run is the beginning of the one that is written at its end.
#[test]
fn a_document_that_grows_is_never_changed() {
    let mut report = fixture::followed();
    for format in format::ALL.into_iter().filter(|format| format.grows()) {
        let whole = shown(format, &report);
        while report.history.entries_mut().pop().is_some() {
            report.sources = fixture::nothing_judged().sources;
            let before = shown(format, &report);
            assert!(whole.starts_with(&before) && whole.len() > before.len(), "{before}");
            let mut rest = Vec::new();
            format.write_after(report.events(), &fixture::followed(), &TextStyle::default(), &mut rest).unwrap();
            assert_eq!(before + &String::from_utf8(rest).unwrap(), whole);
        }
    }
}

/// Panics for a field that the schema does not have.
fn known(document: &Value, schema: &Value, root: &Value, path: &str) {
    let schema = match schema.get("$ref").and_then(Value::as_str) {
        Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    match document {
        Value::Object(fields) => {
            for (key, value) in fields {
                // The values of a map share one schema.
                let of = schema["properties"].get(key).unwrap_or(&schema["additionalProperties"]);
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
            // Conditions choose between shapes, but are not shapes.
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
    let members = fixture::all().map(|(name, report)| Merged::of(Member::new(name, report, Timestamp::UNIX_EPOCH)));
    let merged = members.into_iter().fold(Merged::unusable("a.json", "is cut"), Merged::with);
    let mut document = Vec::new();
    let overview = merged.overview(Timestamp::UNIX_EPOCH);
    format::JSON.write_merged(&overview, &TextStyle::default(), &mut document).unwrap().unwrap();
    known(&serde_json::from_slice(&document).unwrap(), &schema["$defs"]["merged"], &schema, "");
}
