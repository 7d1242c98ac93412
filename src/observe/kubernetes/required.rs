//! Objects that a policy has requirements for: discovery finds their kinds, and the policy names the fields to read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::join_all;
use http::{Request, StatusCode};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::KubeClient;
use super::gaps;
use super::intake::Keep;
use super::lists::{Dynamic, Selection, list_dynamic};
use crate::model::Fact;
use crate::snapshot::{
    Demand, FieldIs, Found, Gap, GapKind, ObjectCondition, Objects, Observed, Place, Predicate, Replicas, Require,
    RequiredObject, RequiredObjects, Served,
};
use crate::text::is_label;
use crate::text::sanitize::without_secrets;

/// Size limit for a discovery document.
const DISCOVERY: usize = 2 << 20;
/// Limit for the versions of a group that are tried.
const VERSIONS: usize = 8;
/// Limits for the conditions of an object, and for the characters of each text.
const CONDITIONS: usize = 256;
const TEXT: usize = 256;

/// A resource reported by discovery.
#[derive(Clone)]
struct Discovered {
    version: String,
    kind: String,
    namespaced: bool,
}

/// Returns group and plural.
fn kind(of: &Objects) -> (&str, &str) {
    (&of.group, &of.plural)
}

impl KubeClient {
    /// Reads the objects of all entries at once.
    pub(crate) async fn required(
        &self,
        facts: &BTreeSet<Fact>,
        entries: &[Require],
    ) -> BTreeMap<String, Observed<Served>> {
        let entries = if facts.contains(&Fact::Required) { entries } else { &[] };
        // Several entries may use the same kind.
        let kinds: BTreeSet<(&str, &str)> = entries.iter().map(|entry| kind(&entry.of)).collect();
        let discovered = kinds.into_iter().map(async |(group, plural)| {
            let found = self.discovered(group, plural).await;
            ((group, plural), found)
        });
        let discovered: BTreeMap<_, _> = join_all(discovered).await.into_iter().collect();
        let asked = entries.iter().map(async |entry| {
            let found = discovered.get(&kind(&entry.of)).cloned().unwrap_or(Ok(None));
            let served = match found {
                Ok(found) => self.required_by(entry, found).await,
                Err(gap) => Err(gap),
            };
            (entry.id.clone(), served)
        });
        join_all(asked).await.into_iter().collect()
    }

    async fn required_by(&self, entry: &Require, found: Option<Discovered>) -> Observed<Served> {
        let of = &entry.of;
        let Some(found) = found else {
            return Ok(Served::Not(format!("the API server does not serve `{}`", of.resource())));
        };
        match (&of.place, found.namespaced) {
            (Place::NoNamespace, true) => {
                let problem = "is namespaced: the policy has to set `namespace` or `allNamespaces`";
                return Ok(Served::Not(format!("`{}` {problem}", of.resource())));
            }
            (Place::Namespace(_), false) => {
                return Ok(Served::Not(format!(
                    "`{}` is not namespaced, and the policy sets a `namespace`",
                    of.resource()
                )));
            }
            _ => {}
        }
        let fields = match &of.name {
            Some(name) => Some(format!("metadata.name={name}")),
            None => of.field_selector.as_ref().map(|(text, _)| text.clone()),
        };
        let select = Selection {
            namespace: of.namespace(),
            labels: of.selector.as_ref().map(|(text, _)| text.as_str()),
            fields: fields.as_deref(),
        };
        let dynamic = Dynamic { group: &of.group, version: &found.version, plural: &of.plural, kind: &found.kind };
        let taken_from = Arc::new(entry.clone());
        let keep = move |object: &Value| taken(&taken_from, object);
        let listed = self.limited(list_dynamic(&self.transport, &self.lists, &dynamic, select, keep)).await?;
        let date = listed.date;
        Ok(Served::Objects(RequiredObjects { date, objects: super::kept(listed).collect() }))
    }

    /// Finds the version of a resource that the API server prefers, among those that have the resource.
    async fn discovered(&self, group: &str, plural: &str) -> Observed<Option<Discovered>> {
        let versions = if group.is_empty() {
            vec!["v1".to_owned()]
        } else {
            match self.document::<ApiGroup>(format!("/apis/{group}")).await? {
                Some(document) => document.in_order(),
                None => return Ok(None),
            }
        };
        for version in versions.into_iter().take(VERSIONS) {
            let path = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
            let Some(list) = self.document::<ApiResourceList>(path).await? else { continue };
            if let Some(resource) = list.resources.into_iter().find(|it| it.name == plural) {
                return Ok(Some(Discovered { version, kind: resource.kind, namespaced: resource.namespaced }));
            }
        }
        Ok(None)
    }

    /// Reads a document. `None` if there is no such path.
    async fn document<T: for<'de> Deserialize<'de>>(&self, path: String) -> Observed<Option<T>> {
        let mut request = Request::new(Vec::new());
        let uri = path.parse();
        *request.uri_mut() = uri.map_err(|_| Gap::new(GapKind::Malformed, format!("`{path}` is not a path")))?;
        let answer = self.limited(self.transport.ask(&self.lists, request, Keep::All(DISCOVERY))).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let document = serde_json::from_slice(answer.body_if_ok()?);
        document.map(Some).map_err(|error| Gap::new(GapKind::Malformed, gaps::short(&error.to_string())))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiGroup {
    versions: Vec<ApiVersion>,
    #[serde(default)]
    preferred_version: Option<ApiVersion>,
}

#[derive(Deserialize)]
struct ApiVersion {
    version: String,
}

impl ApiGroup {
    /// Returns the versions, the preferred one first. Only valid names are kept, since they become part of a path.
    fn in_order(self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for ApiVersion { version } in self.preferred_version.into_iter().chain(self.versions) {
            if is_label(&version) && !all.contains(&version) {
                all.push(version);
            }
        }
        all
    }
}

#[derive(Deserialize)]
struct ApiResourceList {
    resources: Vec<ApiResource>,
}

#[derive(Deserialize)]
struct ApiResource {
    name: String,
    kind: String,
    #[serde(default)]
    namespaced: bool,
}

/// Extracts the part of an object that its entry needs. An object that was not requested results in a gap.
pub(crate) fn taken(entry: &Require, object: &Value) -> Observed<RequiredObject> {
    let text = |at: &Value| at.as_str().map(str::to_owned);
    let time = |at: &Value| at.as_str().and_then(|it| it.parse::<Timestamp>().ok());
    let metadata = &object["metadata"];
    let name = text(&metadata["name"]).unwrap_or_default();
    was_selected(entry, &name, object)?;
    let status = &object["status"];
    let reads_conditions =
        entry.demands.iter().any(|it| matches!(it.predicate, Predicate::Condition { .. } | Predicate::Current));
    let conditions = match &status["conditions"] {
        Value::Array(all) if all.len() <= CONDITIONS => all.iter().map(condition).collect(),
        Value::Null => Vec::new(),
        _ if reads_conditions => {
            let text = format!("the conditions of `{}` are not a list, or more than {CONDITIONS}", gaps::short(&name));
            return Err(Gap::new(GapKind::Malformed, text));
        }
        _ => Vec::new(),
    };
    let led_by = |demand: &Demand| demand.predicate.path().map_or(Found::Nothing, |path| led(&path.find(object)));
    Ok(RequiredObject {
        namespace: text(&metadata["namespace"]),
        name,
        created: time(&metadata["creationTimestamp"]),
        is_deleted: !metadata["deletionTimestamp"].is_null(),
        generation: generation(&metadata["generation"]),
        observed_generation: generation(&status["observedGeneration"]),
        has_status: status.as_object().is_some_and(|it| !it.is_empty()),
        conditions,
        replicas: replicas(&entry.of, object),
        found: entry.demands.iter().map(led_by).collect(),
    })
}

/// Returns a generation as text. A value that is not a number matches no object's generation.
fn generation(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.chars().take(TEXT).collect()),
        other => Some(other.to_string().chars().take(TEXT).collect()),
    }
}

/// Checks that an object matches the entry's selectors: a server or proxy that ignores a selector would let other objects count.
fn was_selected(entry: &Require, name: &str, object: &Value) -> Observed<()> {
    let labels = &object["metadata"]["labels"];
    let of = &entry.of;
    let is_other = of.name.as_ref().is_some_and(|wanted| wanted != name);
    let selector = of.selector.iter().flat_map(|(_, requirements)| requirements);
    let is_unlike = selector.filter_map(|it| it.is_met_by(labels[&it.key].as_str())).any(|is_met| !is_met);
    let mut fields = of.field_selector.iter().flat_map(|(_, fields)| fields);
    if is_other || is_unlike || fields.any(|field| !has_field(object, field)) {
        let text = format!("`{}` was not selected: something in between drops the selector", gaps::short(name));
        return Err(Gap::new(GapKind::Malformed, text));
    }
    Ok(())
}

/// Returns whether a field matches, by the rules of API servers: an omitted field has Go's zero value.
fn has_field(object: &Value, field: &FieldIs) -> bool {
    let at = field.path.split('.').fold(object, |at, name| &at[name]);
    let is = match at {
        Value::Null => ["", "false", "0"].contains(&field.value.as_str()),
        Value::String(text) => *text == field.value,
        // For some kinds, this selector reads another field than the one of its name.
        Value::Array(_) | Value::Object(_) => return true,
        Value::Bool(_) | Value::Number(_) => field.value == format!("{at}"),
    };
    is != field.is_not
}

fn bounded(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    without_secrets(&text.chars().take(TEXT).collect::<String>())
}

fn condition(value: &Value) -> ObjectCondition {
    ObjectCondition {
        kind: bounded(&value["type"]),
        status: bounded(&value["status"]),
        reason: bounded(&value["reason"]),
        message: bounded(&value["message"]),
        observed_generation: generation(&value["observedGeneration"]),
    }
}

fn led(values: &[&Value]) -> Found {
    match values {
        [] => Found::Nothing,
        [Value::Array(list)] => Found::Composite { is_empty: list.is_empty() },
        [Value::Object(map)] => Found::Composite { is_empty: map.is_empty() },
        // A policy cannot have a longer value to compare with.
        [Value::String(text)] => Found::One(Value::String(text.chars().take(2 * TEXT).collect())),
        [value] => Found::One((*value).clone()),
        _ => {
            let is_empty = |value: &&Value| match value {
                Value::String(text) => text.is_empty(),
                Value::Array(list) => list.is_empty(),
                Value::Object(map) => map.is_empty(),
                Value::Null | Value::Bool(_) | Value::Number(_) => false,
            };
            Found::Several { number: values.len(), is_any_empty: values.iter().any(is_empty) }
        }
    }
}

/// Returns the counts of a built-in kind, as `kubectl rollout status` reads them.
fn replicas(of: &Objects, object: &Value) -> Option<Replicas> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let count = |name: &str| status[name].as_i64().unwrap_or_default();
    let wanted = spec["replicas"].as_i64().unwrap_or(1);
    let waits_for_deletion = spec["updateStrategy"]["type"] == "OnDelete";
    let usual = Replicas {
        wanted: Some(wanted),
        to_update: wanted,
        updated: count("updatedReplicas"),
        ready: count("readyReplicas"),
        available: count("availableReplicas"),
        old: (count("replicas") - count("updatedReplicas")).max(0),
    };
    Some(match (of.group.as_str(), of.plural.as_str()) {
        ("apps", "deployments") => usual,
        ("apps", "statefulsets") => {
            let partition = spec["updateStrategy"]["rollingUpdate"]["partition"].as_i64().unwrap_or_default();
            let to_update = if waits_for_deletion { 0 } else { (wanted - partition).max(0) };
            Replicas { to_update, old: 0, ..usual }
        }
        ("apps", "replicasets") | ("", "replicationcontrollers") => {
            Replicas { updated: count("replicas"), old: 0, ..usual }
        }
        ("apps", "daemonsets") => {
            // The API always sets this field, so without it the controller has not counted yet.
            let wanted = status["desiredNumberScheduled"].as_i64();
            Replicas {
                wanted,
                to_update: if waits_for_deletion { 0 } else { wanted.unwrap_or_default() },
                updated: count("updatedNumberScheduled"),
                ready: count("numberReady"),
                available: count("numberAvailable"),
                old: 0,
            }
        }
        ("policy", "poddisruptionbudgets") => {
            let healthy = count("currentHealthy");
            let wanted = status["desiredHealthy"].as_i64();
            Replicas { wanted, to_update: 0, updated: 0, ready: healthy, available: healthy, old: 0 }
        }
        _ => return None,
    })
}
