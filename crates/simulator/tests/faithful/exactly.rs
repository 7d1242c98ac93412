//! Compares the answers of a recorded world with those of the recording. They have to be equal except for times and for values that depend
//! on the moment of the answer.

use serde_json::Value;

use crate::facts::is_time;
use crate::recording::{Answer, Call};

/// Keys with values that depend on the moment, or on the program that answers.
const OF_THE_MOMENT: [&str; 13] = [
    "resourceVersion",
    "raft_index",
    "raft_applied_index",
    "modified",
    // The simulator only keeps the total and the available memory.
    "memfree",
    "buffers",
    "cached",
    "sha",
    "go_version",
    "gitCommit",
    "seconds",
    "nanos",
    // The encoding is generated from the YAML, with other addresses. A separate test checks that both have the same content.
    "proto_spec",
];

pub(crate) fn difference(call: &Call, told: &Answer) -> Option<String> {
    let real = call.answer();
    if real.outcome == "TimedOut" && told.outcome.ends_with("no leader") {
        // The program had less time left than etcd takes to report this.
        return None;
    }
    if outcome(&real) != outcome(told) {
        return Some(format!("{}: {} was recorded, {} is told", call.name(), real.outcome, told.outcome));
    }
    let (expected, content) = (comparable(&real.content), comparable(&told.content));
    if call.name().ends_with("/readyz") {
        // The simulator decides which checks exist; one server was queried twice and failed in two ways.
        return None;
    }
    if call.name().ends_with("/namespaces/kube-system") {
        // Each simulated cluster has an identity of its own, derived from its CA.
        return None;
    }
    first(&expected, &content, "").map(|difference| format!("{}: {difference}", call.name()))
}

/// A machine without power refuses connections here, because loopback has no unreachable hosts.
fn outcome(answer: &Answer) -> &str {
    match answer.outcome.as_str() {
        "ConnectTimedOut" | "NoRoute" => "ConnectionRefused",
        other => other,
    }
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

/// A text with its times replaced.
fn without_times(text: &str) -> String {
    text.split([' ', '"', '\n']).map(|word| if is_time(word) { "a time" } else { word }).collect::<Vec<_>>().join(" ")
}
