//! Answers of a recorded world, held against answered of the recording: all the same but for times, and what an answer has of the
//! moment in which it is given.

use serde_json::Value;

use crate::facts::is_time;
use crate::recording::{Answer, Call};

/// Keys whose value is of the moment, or of the program that answers.
const OF_THE_MOMENT: [&str; 9] = [
    "resourceVersion",
    "raft_index",
    "raft_applied_index",
    "modified",
    "sha",
    "go_version",
    "seconds",
    "nanos",
    // It is made anew from the YAML, with other addresses; that both say the same is tested where it is made.
    "proto_spec",
];

pub(crate) fn difference(call: &Call, told: &Answer) -> Option<String> {
    let real = call.answer();
    let (expected, content) = (comparable(&real.content), comparable(&told.content));
    if outcome(&real) != outcome(told) {
        return Some(format!("{}: {} was recorded, {} is told", call.name(), real.outcome, told.outcome));
    }
    if call.name().ends_with("/readyz") {
        // Which checks there are is for the simulator to say; one server, asked twice, failed in two ways.
        return None;
    }
    first(&expected, &content, "").map(|difference| format!("{}: {difference}", call.name()))
}

/// A machine without power closes its ports here: on loopback nothing tells that there is no host.
fn outcome(answer: &Answer) -> &str {
    if answer.outcome == "ConnectTimedOut" { "ConnectionRefused" } else { &answer.outcome }
}

fn comparable(value: &Value) -> Value {
    match value {
        Value::String(text) if is_time(text) => "a time".into(),
        Value::Array(items) => items.iter().map(comparable).collect(),
        Value::Object(entries) => {
            let known = entries.iter().filter(|(key, _)| !OF_THE_MOMENT.contains(&key.as_str()));
            known.map(|(key, entry)| (key.clone(), comparable(entry))).collect()
        }
        other => other.clone(),
    }
}

/// The first difference, with its path.
fn first(expected: &Value, told: &Value, path: &str) -> Option<String> {
    match (expected, told) {
        (Value::Object(recorded), Value::Object(answered)) => {
            let missing = recorded
                .keys()
                .chain(answered.keys())
                .find(|key| recorded.contains_key(*key) != answered.contains_key(*key));
            if let Some(key) = missing {
                return Some(format!("{path}.{key} is in one of both"));
            }
            recorded.iter().find_map(|(key, entry)| first(entry, &answered[key], &format!("{path}.{key}")))
        }
        (Value::Array(recorded), Value::Array(answered)) if recorded.len() == answered.len() => {
            let both = recorded.iter().zip(answered).enumerate();
            both.into_iter().find_map(|(index, (this, that))| first(this, that, &format!("{path}[{index}]")))
        }
        _ if expected == told => None,
        (Value::String(this), Value::String(that)) if without_times(this) == without_times(that) => None,
        _ => Some(format!("{path}: {expected} was recorded, {told} is told")),
    }
}

/// A text, with times in it.
fn without_times(text: &str) -> String {
    text.split([' ', '"', '\n']).map(|word| if is_time(word) { "a time" } else { word }).collect::<Vec<_>>().join(" ")
}
