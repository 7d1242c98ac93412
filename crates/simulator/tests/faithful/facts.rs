//! The facts of an answer that two clusters can have in common: fields, their types, and values that describe a state. Names, times, ids
//! and amounts may differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

use crate::recording::Answer;

/// Keys whose text describes a state.
const STATES: [&str; 24] = [
    "state",
    "status",
    "phase",
    "stage",
    "type",
    "reason",
    "kind",
    "apiVersion",
    "owner",
    "namespace",
    "effect",
    "operator",
    "code",
    "alarm",
    "storage_version",
    "qosClass",
    "restartPolicy",
    "policy",
    "finalizers",
    "key",
    "addressType",
    "sortAlgorithm",
    "machineType",
    "scope",
];

/// Keys with messages for people, which contain individual numbers and names.
const TEXTS: [&str; 6] = ["errors", "message", "last_message", "lastEvent", "operatingSystem", "osImage"];

/// Keys whose number counts healthy things.
const COUNTS: [&str; 12] = [
    "replicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "updatedReplicas",
    "numberReady",
    "numberAvailable",
    "numberUnavailable",
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "updatedNumberScheduled",
    "exitCode",
];

/// Fields that identify the items of a list; the first one that an item has is used.
const NAMES: [&[&str]; 7] =
    [&["id"], &["type"], &["key", "effect"], &["mountPath"], &["kind"], &["name"], &["hostname"]];

/// A fact that only one of two answers contains.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Difference {
    pub(crate) side: Side,
    /// `items[cp1].status.conditions[Ready].reason`
    pub(crate) path: String,
    /// Type or value.
    pub(crate) what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Real,
    Simulated,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Real => "real",
            Side::Simulated => "simulated",
        };
        write!(f, "{} = {} is {side} only", self.path, self.what)
    }
}

/// Facts by path.
type Facts = BTreeMap<String, BTreeSet<String>>;

/// Compares two answers. If a whole part is missing in one of them, only the part is reported, and not its content.
pub(crate) fn differences(real: &Answer, simulated: &Answer) -> BTreeSet<Difference> {
    let (real, simulated) = (facts(real), facts(simulated));
    let mut found = BTreeSet::new();
    let mut compare = |side, these: &Facts, others: &Facts| {
        for (path, all) in these {
            let other = others.get(path);
            if other.is_none() && parent(path).is_some_and(|parent| !others.contains_key(parent)) {
                continue;
            }
            // The order of keys is only compared if the keys are equal.
            let is_order = path.ends_with(ORDER);
            for what in all.iter().filter(|what| other.is_none_or(|other| !other.contains(*what))) {
                if !is_order || other.is_some_and(|other| other.iter().any(|it| words(it) == words(what))) {
                    found.insert(Difference { side, path: path.clone(), what: what.clone() });
                }
            }
        }
    };
    compare(Side::Real, &real, &simulated);
    compare(Side::Simulated, &simulated, &real);
    found
}

const ORDER: &str = ".(order)";

fn words(order: &str) -> BTreeSet<&str> {
    order.split(' ').collect()
}

fn parent(path: &str) -> Option<&str> {
    path.rfind(['.', '[']).map(|end| &path[..end]).filter(|parent| !parent.is_empty())
}

fn facts(answer: &Answer) -> Facts {
    let mut facts = Teller::default();
    facts.say("outcome", normal(&answer.outcome));
    match &answer.content {
        Value::Array(messages) => facts.messages(messages),
        Value::String(text) => facts.lines(text),
        content => facts.tell("body", "", content),
    }
    facts.facts
}

#[derive(Default)]
struct Teller {
    facts: Facts,
    /// Whether the order of keys matters, as in Talos's YAML.
    ordered: bool,
}

impl Teller {
    fn say(&mut self, path: &str, what: String) {
        self.facts.entry(path.to_owned()).or_default().insert(what);
    }

    /// Adds the facts of gRPC messages, in which default values are omitted.
    fn messages(&mut self, messages: &[Value]) {
        for message in messages {
            if message["resource"].is_object() {
                self.resource(&message["resource"]);
            } else {
                self.tell("message", "", &without_defaults(message));
            }
        }
    }

    fn resource(&mut self, resource: &Value) {
        let metadata = &resource["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let path = format!("resource({})", text(&metadata["id"]));
        self.say(&path, "resource".to_owned());
        self.tell(&format!("{path}.metadata"), "", &without_defaults(metadata));
        let spec = &resource["spec"];
        if !text(&spec["proto_spec"]).is_empty() {
            self.say(&format!("{path}.proto_spec"), "bytes".to_owned());
        }
        let yaml = text(&spec["yaml_spec"]);
        self.ordered = true;
        self.tell(&format!("{path}.spec"), "type", &serde_yaml::from_str(&yaml).unwrap());
        self.ordered = false;
    }

    /// Adds the facts of `/readyz?verbose`.
    fn lines(&mut self, text: &str) {
        for (line, before) in text.lines().zip(std::iter::once("").chain(text.lines())) {
            let check = |line: &str| line.split(' ').next().unwrap_or_default().replace(['[', ']', '+', '-'], "");
            self.say("body", "text".to_owned());
            self.say(&format!("body.{}", check(line)), format!("{line}, after {}", check(before)));
        }
    }

    fn tell(&mut self, path: &str, key: &str, value: &Value) {
        match value {
            Value::Null => self.say(path, "null".to_owned()),
            Value::Bool(it) => self.say(path, it.to_string()),
            Value::Number(it) if COUNTS.contains(&key) => self.say(path, it.to_string()),
            Value::Number(_) => self.say(path, "number".to_owned()),
            Value::String(text) => {
                self.say(path, kind_of(text).to_owned());
                if STATES.contains(&key) {
                    self.say(path, format!("`{text}`"));
                } else if TEXTS.contains(&key) {
                    self.say(path, format!("`{}`", normal(text)));
                }
            }
            Value::Array(items) => {
                self.say(path, "list".to_owned());
                for item in items {
                    self.tell(&format!("{path}[{}]", name(item)), key, item);
                }
            }
            Value::Object(entries) => {
                self.say(path, "object".to_owned());
                if self.ordered && entries.len() > 1 {
                    let keys: Vec<_> = entries.keys().map(String::as_str).collect();
                    self.say(&format!("{path}{ORDER}"), keys.join(" "));
                }
                for (key, entry) in entries {
                    self.tell(&format!("{path}.{key}"), key, entry);
                }
                // The last event describes the current state; those before it only describe how it came about.
                if let Some(Value::Array(events)) = entries.get("events") {
                    let last = events.last().map(|event| &event["msg"]).and_then(Value::as_str).unwrap_or_default();
                    self.tell(&format!("{path}.lastEvent"), "lastEvent", &json!(last));
                }
            }
        }
    }
}

/// The name of a Kubernetes object, reduced to the part that all objects of its kind share if it is generated; otherwise the identifying
/// fields of an item.
fn name(item: &Value) -> String {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let metadata = &item["metadata"];
    if let Some(name) = text(&metadata["name"]) {
        return match (text(&metadata["generateName"]), text(&item["spec"]["nodeName"])) {
            (Some(beginning), _) if OF_SET.is_match(&beginning) => OF_SET.replace(&beginning, "").into_owned(),
            (Some(beginning), Some(node)) => format!("{beginning}{node}"),
            (Some(beginning), None) => beginning,
            _ => IDENTITY.replace(&name, "apiserver").into_owned(),
        };
    }
    let values = |keys: &&[&str]| {
        let all: Option<Vec<_>> = keys.iter().map(|key| text(&item[*key])).collect();
        all.map(|all| all.join(" "))
    };
    let name = NAMES.iter().find_map(values).unwrap_or_default();
    ACCOUNT.replace(&name, "kube-api-access").into_owned()
}

pub(crate) fn is_time(text: &str) -> bool {
    TIME.is_match(text)
}

fn kind_of(text: &str) -> &'static str {
    match TIME.captures(text) {
        Some(found) if found.get(1).is_some() => "time in microseconds",
        Some(_) => "time in seconds",
        None => "text",
    }
}

/// Replaces everything that differs between two runs.
fn normal(text: &str) -> String {
    let text = GENERATED.replace_all(text, "GENERATED");
    let text = ID.replace_all(&text, "ID");
    let text = DURATION.replace_all(&text, "0s");
    NUMBER.replace_all(&text, "0").into_owned()
}

/// The volume of a pod's service account token.
static ACCOUNT: LazyLock<Regex> = LazyLock::new(|| Regex::new("^kube-api-access-[a-z0-9]{5}$").unwrap());
/// The hash of a `ReplicaSet` in the names of its pods, after the name of the Deployment.
static OF_SET: LazyLock<Regex> = LazyLock::new(|| Regex::new("-[a-z0-9]{8,10}-$").unwrap());
/// A lease of an API server.
static IDENTITY: LazyLock<Regex> = LazyLock::new(|| Regex::new("^apiserver-[a-z2-7]{26}$").unwrap());
static TIME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6,9})?Z$").unwrap());
static ID: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b[0-9a-f]{8,}(-[0-9a-f]{4,})*\b").unwrap());
static GENERATED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bcoredns-[a-z0-9]{8,10}(-[a-z0-9]{5})?\b").unwrap());
static DURATION: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b(\d+[hms])+\b").unwrap());
static NUMBER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\d+(\.\d+)*").unwrap());

fn without_defaults(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_defaults).collect(),
        Value::Object(entries) => {
            let kept = |(key, entry): (&String, &Value)| {
                let entry = without_defaults(entry);
                let absent = match &entry {
                    Value::Null | Value::Bool(false) => true,
                    Value::Number(it) => it.as_f64() == Some(0.0),
                    Value::String(it) => it.is_empty(),
                    Value::Array(it) => it.is_empty(),
                    Value::Object(it) => it.is_empty(),
                    Value::Bool(true) => false,
                };
                (!absent).then(|| (key.clone(), entry))
            };
            Value::Object(entries.iter().filter_map(kept).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

mod tests {
    use super::*;

    fn told(content: Value) -> Answer {
        Answer { content, ..Answer::none("200") }
    }

    fn resource(yaml: &str) -> Answer {
        let spec = json!({"yaml_spec": yaml, "proto_spec": ""});
        told(json!([{"resource": {"metadata": {"id": "a", "owner": "b"}, "spec": spec}}]))
    }

    #[track_caller]
    fn differ(real: &Answer, simulated: &Answer, expected: &[&str]) {
        let found: Vec<_> = differences(real, simulated).iter().map(Difference::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn fields_types_and_states_are_compared_and_names_are_not() {
        let node = |ready: &str, rest: Value| {
            let condition = json!({"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"});
            told(json!({"items": [{"metadata": {"name": "cp1"}, "status": {"conditions": [condition], "rest": rest}}]}))
        };
        let real = node("True", json!({"image": "a", "size": 1}));
        differ(&real, &node("True", json!({"image": "b", "size": 2})), &[]);
        let path = "body.items[cp1].status";
        let status = format!("{path}.conditions[Ready].status");
        differ(
            &real,
            &node("False", json!({"image": "b", "size": 2})),
            &[&format!("{status} = `True` is real only"), &format!("{status} = `False` is simulated only")],
        );
        differ(&real, &node("True", json!({"image": "a"})), &[&format!("{path}.rest.size = number is real only")]);
        differ(
            &real,
            &node("True", json!(["a"])),
            &[
                &format!("{path}.rest = object is real only"),
                &format!("{path}.rest.image = text is real only"),
                &format!("{path}.rest.size = number is real only"),
                &format!("{path}.rest = list is simulated only"),
                &format!("{path}.rest[] = text is simulated only"),
            ],
        );
        differ(&Answer::status("Unknown", "no leader"), &Answer::status("Unknown", "no leader"), &[]);
        differ(
            &Answer::status("NotFound", "a"),
            &Answer::none("TimedOut"),
            &["outcome = NotFound: a is real only", "outcome = TimedOut is simulated only"],
        );
    }

    #[test]
    fn keys_of_resources_have_an_order() {
        let real = resource("stage: running\nready: true\n");
        differ(&real, &resource("stage: running\nready: true\n"), &[]);
        let path = "resource(a).spec.(order)";
        differ(
            &real,
            &resource("ready: true\nstage: running\n"),
            &[&format!("{path} = stage ready is real only"), &format!("{path} = ready stage is simulated only")],
        );
        // The missing key is reported, but not the order in addition.
        differ(
            &real,
            &resource("ready: true\n"),
            &["resource(a).spec.stage = `running` is real only", "resource(a).spec.stage = text is real only"],
        );
    }

    #[test]
    fn checks_are_lines_in_their_order() {
        let readyz = |text: &str| told(json!(text));
        differ(
            &readyz("[+]ping ok\n[+]log ok\n[+]etcd ok\n"),
            &readyz("[+]ping ok\n[+]etcd ok\n"),
            &[
                "body.etcd = [+]etcd ok, after log is real only",
                "body.log = [+]log ok, after ping is real only",
                "body.etcd = [+]etcd ok, after ping is simulated only",
            ],
        );
    }
}
