//! Compares the tables with the answers of a real cluster in `e2e/recordings`.

use std::collections::BTreeSet;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::decode::decode;
use super::*;

/// Release of Talos, type, protobuf and YAML of every resource in the recordings.
fn resources() -> BTreeSet<(TalosVersion, String, Vec<u8>, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/recordings");
    let mut found = BTreeSet::new();
    for file in std::fs::read_dir(directory).unwrap() {
        let recording: Value = serde_json::from_slice(&std::fs::read(file.unwrap().path()).unwrap()).unwrap();
        let calls = recording["calls"].as_array().unwrap().iter();
        let messages: Vec<&Value> = calls.filter_map(|call| call["messages"].as_array()).flatten().collect();
        let tag = messages.iter().find_map(|message| message.pointer("/messages/0/version/tag")?.as_str());
        // Without a machine that answered its version, there are no resources.
        let release = tag.map(|tag| tag.parse().unwrap());
        for message in messages {
            let Some(spec) = message.pointer("/resource/spec") else { continue };
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            // The recorder cuts what looks like a credential, such as `--use-service-account-credentials=true`.
            if spec["proto_spec"] == "(cut)" {
                continue;
            }
            let name = text(&message["resource"]["metadata"]["type"]);
            // Its YAML omits fields that protobuf has, because Go's YAML library takes each address for an empty one.
            if name == kind::ADDRESS_STATUSES {
                continue;
            }
            // Protobuf encodes a specification with default values alone in no byte.
            let proto = STANDARD.decode(spec["proto_spec"].as_str().unwrap_or_default()).unwrap();
            found.insert((release.unwrap(), name, proto, text(&spec["yaml_spec"])));
        }
    }
    assert!(found.len() > 100, "only {} resources", found.len());
    found
}

/// Makes both encodings comparable: protobuf documents have floating-point numbers instead of integers, and omit default values.
fn comparable(value: &Value, with_defaults: bool) -> Value {
    match value {
        Value::Number(it) => it.as_f64().into(),
        Value::Array(items) => items.iter().map(|item| comparable(item, with_defaults)).collect(),
        Value::Object(entries) => {
            let kept = entries.iter().map(|(key, entry)| (key.clone(), comparable(entry, with_defaults)));
            let is_default = |value: &Value| {
                [Value::Null, false.into(), 0.0.into(), "".into(), Value::Array(Vec::new()), Map::new().into()]
                    .contains(value)
            };
            kept.filter(|(_, entry)| with_defaults || !is_default(entry)).collect()
        }
        other => other.clone(),
    }
}

#[test]
fn what_the_real_cluster_sent_is_read_by_our_field_numbers() {
    for (release, name, proto, yaml) in resources() {
        let of = find(&name, release).unwrap_or_else(|| panic!("{name} is not known"));
        let document = matches!(of.form, Form::Document);
        let mut written: Value = serde_yaml::from_str(&yaml).unwrap();
        if let (Form::Message(fields), Value::Object(entries)) = (&of.form, &mut written) {
            entries.retain(|key, entry| {
                !fields.iter().any(|field| field.key == key && proto::is_default(&field.kind, entry))
            });
        }
        assert_eq!(comparable(&decode(&of.form, &proto), document), comparable(&written, document), "{name}\n{yaml}");
    }
}

#[test]
fn what_the_real_cluster_sent_is_what_we_send() {
    for (release, name, proto, yaml) in resources() {
        let of = find(&name, release).unwrap();
        let ours = encode(&name, &serde_yaml::from_str(&yaml).unwrap(), release);
        assert_eq!(ours.yaml_spec, yaml, "{name}");
        let read = |bytes| decode(&of.form, bytes);
        assert_eq!(read(&ours.proto_spec), read(&proto), "{name}\n{yaml}");
        // Go encodes map entries in random order.
        if matches!(&of.form, Form::Message(fields) if !has_map(fields)) {
            assert_eq!(ours.proto_spec, proto, "{name}\n{yaml}");
        }
        assert_eq!(ours.proto_spec.len(), proto.len(), "{name}\n{yaml}");
    }
}

fn has_map(fields: &[Field]) -> bool {
    fields.iter().any(|field| match &field.kind {
        Kind::Map(_) | Kind::Document => true,
        Kind::Message(fields) | Kind::List(Kind::Message(fields)) => has_map(fields),
        _ => false,
    })
}
