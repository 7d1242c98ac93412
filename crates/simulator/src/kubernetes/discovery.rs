//! Discovery: groups, versions and resources of the API.

use serde_json::{Map, Value, json};

use super::kinds::{KINDS, ResourceType, groups, of_group};
use super::{health, reply::Form};

/// `/version`
pub(super) fn version(kubernetes: &str) -> Value {
    let minor = kubernetes.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok()).unwrap_or_default();
    json!({
        "major": "1", "minor": minor.to_string(), "emulationMajor": "1", "emulationMinor": minor.to_string(),
        "minCompatibilityMajor": "1", "minCompatibilityMinor": minor.saturating_sub(1).to_string(),
        "gitVersion": format!("v{kubernetes}"), "gitCommit": "simulated", "gitTreeState": "clean",
        "buildDate": "2026-04-15T18:01:22Z", "goVersion": "go1.26.8", "compiler": "gc", "platform": "linux/amd64",
    })
}

/// Documents of `/api…` and `/apis…` that are not objects; `address` is that of the server. Returns `None` if the path does not exist.
pub(super) fn document(path: &str, address: &str, form: Form) -> Option<Value> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match (&parts[..], form) {
        (["api"], Form::Discovery { beta }) => Some(aggregated(&[""], beta)),
        (["apis"], Form::Discovery { beta }) => Some(aggregated(&groups(), beta)),
        (["api"], _) => {
            let addresses = json!([{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]);
            Some(json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}))
        }
        (["apis"], _) => {
            let groups: Vec<Value> = groups().into_iter().map(|name| group(name).into()).collect();
            Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        (["api", version], _) => resources("", version),
        (["apis", name], _) if groups().contains(name) => {
            let mut document =
                Map::from_iter([("kind".to_owned(), "APIGroup".into()), ("apiVersion".to_owned(), "v1".into())]);
            document.extend(group(name));
            Some(document.into())
        }
        (["apis", group, version], _) => resources(group, version),
        _ => None,
    }
}

fn group(name: &str) -> Map<String, Value> {
    let version = of_group(name).next().map_or("v1", |kind| kind.version);
    let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
    Map::from_iter([
        ("name".to_owned(), name.into()),
        ("versions".to_owned(), json!([version])),
        ("preferredVersion".to_owned(), version),
    ])
}

fn resources(group: &str, version: &str) -> Option<Value> {
    let mut kinds = of_group(group).filter(|kind| kind.version == version).peekable();
    let group_version = kinds.peek()?.api_version();
    let resources: Vec<Value> = kinds.map(resource).collect();
    Some(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources,
    }))
}

fn resource(kind: &ResourceType) -> Value {
    let mut resource = json!({
        "name": kind.plural, "singularName": kind.singular(), "namespaced": kind.namespaced, "kind": kind.kind,
        "verbs": kind.verbs(),
    });
    names(kind, &mut resource);
    resource
}

/// Adds short names and categories.
fn names(kind: &ResourceType, resource: &mut Value) {
    if !kind.short.is_empty() {
        resource["shortNames"] = json!(kind.short);
    }
    if kind.all {
        resource["categories"] = json!(["all"]);
    }
}

/// Aggregated discovery: everything in one document.
fn aggregated(groups: &[&str], beta: bool) -> Value {
    let resource = |kind: &ResourceType| {
        let scope = if kind.namespaced { "Namespaced" } else { "Cluster" };
        let mut resource = json!({
            "resource": kind.plural, "responseKind": {"group": "", "version": "", "kind": kind.kind}, "scope": scope,
            "singularResource": kind.singular(), "verbs": kind.verbs(),
        });
        names(kind, &mut resource);
        resource
    };
    let group = |name: &&str| {
        let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
        let version = of_group(name).next().map_or("v1", |kind| kind.version);
        let resources: Vec<Value> = of_group(name).map(resource).collect();
        json!({"metadata": metadata, "versions": [{"version": version, "resources": resources, "freshness": "Current"}]})
    };
    let items: Vec<Value> = groups.iter().map(group).collect();
    let version = if beta { "v2beta1" } else { "v2" };
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"), "metadata": {}, "items": items,
    })
}

/// `/`
pub(super) fn paths() -> Value {
    let mut paths: Vec<String> = ["/api", "/apis", "/apis/", "/openapi/v3", "/version"].map(str::to_owned).into();
    for kind in KINDS {
        if kind.group.is_empty() {
            paths.push("/api/v1".to_owned());
        } else {
            paths.push(format!("/apis/{}", kind.group));
            paths.push(format!("/apis/{}", kind.api_version()));
        }
    }
    paths.extend(health::paths());
    paths.sort_unstable();
    paths.dedup();
    json!({ "paths": paths })
}
