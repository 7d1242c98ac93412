//! COSI resources of a machine.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use serde_json::Value;
use talos_api::cosi::resource::Spec;

use crate::version::TalosVersion;

/// Resources by type (`Members.cluster.talos.dev`, see [`kind`](super::kind)) and id.
///
/// A clone shares the resources of a type with its original until one of the two changes them: a thousand machines know the same thousand
/// members.
#[derive(Clone, Debug, Default)]
pub struct Resources(BTreeMap<String, OfKind>);

/// All resources of one type by id.
pub(crate) type OfKind = Arc<BTreeMap<String, Arc<Resource>>>;

/// A resource. Its namespace is that of its type.
#[derive(Clone, Debug)]
pub struct Resource {
    spec: Value,
    pub version: u64,
    /// The controller that writes the resource; if empty, the controller of its type.
    pub owner: String,
    /// `running` or `tearingDown`.
    pub phase: String,
    pub created: Timestamp,
    pub updated: Timestamp,
    pub finalizers: Vec<String>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// The encoded specification, created on the first request for the release of that request.
    encoded: OnceLock<(TalosVersion, Spec)>,
}

impl Resources {
    /// All resources of a type, sorted by id.
    pub fn list(&self, kind: &str) -> impl Iterator<Item = (&str, &Resource)> {
        self.0.get(kind).into_iter().flat_map(|all| all.iter()).map(|(id, resource)| (id.as_str(), &**resource))
    }

    /// The names of all types of which there are resources.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// A snapshot of all resources of a type.
    pub(crate) fn of_kind(&self, kind: &str) -> OfKind {
        self.0.get(kind).cloned().unwrap_or_default()
    }

    #[must_use]
    pub fn get(&self, kind: &str, id: &str) -> Option<&Resource> {
        self.0.get(kind)?.get(id).map(|resource| &**resource)
    }

    /// Inserts a resource with its own version and times, or replaces the one with the same id.
    pub fn insert(&mut self, kind: &str, id: &str, resource: Resource) {
        self.kind_mut(kind).insert(id.to_owned(), Arc::new(resource));
    }

    /// Creates a resource, or updates it like a controller: an identical specification changes nothing.
    pub fn put(&mut self, kind: &str, id: &str, spec: Value) {
        let now = Timestamp::now();
        let next = match self.get(kind, id) {
            Some(resource) if resource.spec == spec => return,
            Some(resource) => {
                let version = resource.version + 1;
                Resource { spec, version, updated: now, encoded: OnceLock::new(), ..resource.clone() }
            }
            None => Resource::new(spec, now),
        };
        self.insert(kind, id, next);
    }

    /// Changes a specification like a controller. Does nothing if the resource does not exist.
    pub fn edit(&mut self, kind: &str, id: &str, change: impl FnOnce(&mut Value)) {
        if let Some(resource) = self.get(kind, id) {
            let mut spec = resource.spec.clone();
            change(&mut spec);
            self.put(kind, id, spec);
        }
    }

    pub fn remove(&mut self, kind: &str, id: &str) {
        if self.get(kind, id).is_some() {
            self.kind_mut(kind).remove(id);
        }
    }

    /// Removes all resources of a type.
    pub fn clear(&mut self, kind: &str) {
        self.0.remove(kind);
    }

    /// Replaces all resources of a type by those of `other`, which are shared.
    pub(crate) fn share(&mut self, kind: &str, other: &OfKind) {
        self.0.insert(kind.to_owned(), Arc::clone(other));
    }

    fn kind_mut(&mut self, kind: &str) -> &mut BTreeMap<String, Arc<Resource>> {
        Arc::make_mut(self.0.entry(kind.to_owned()).or_default())
    }
}

impl Resource {
    /// Creates the first version of a resource.
    #[must_use]
    pub fn new(spec: Value, at: Timestamp) -> Self {
        Self {
            spec,
            version: 1,
            owner: String::new(),
            phase: "running".to_owned(),
            created: at,
            updated: at,
            finalizers: Vec::new(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            encoded: OnceLock::new(),
        }
    }

    /// The specification in the form of its YAML; the protobuf encoding is generated from it.
    #[must_use]
    pub fn spec(&self) -> &Value {
        &self.spec
    }

    /// The specification as a machine of this release sends it.
    pub(crate) fn encoded(&self, kind: &str, version: TalosVersion) -> Spec {
        let (of, spec) = self.encoded.get_or_init(|| (version, super::encode(kind, &self.spec, version)));
        // Resources that were encoded before the machine was upgraded are encoded again.
        if *of == version { spec.clone() } else { super::encode(kind, &self.spec, version) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_is_a_new_version_and_the_same_is_none() {
        let mut resources = Resources::default();
        resources.put("Kinds", "b", json!({"a": 1}));
        resources.put("Kinds", "a", json!({}));
        resources.put("Kinds", "b", json!({"a": 1}));
        assert_eq!(resources.get("Kinds", "b").unwrap().version, 1);
        resources.edit("Kinds", "b", |spec| spec["a"] = json!(2));
        resources.edit("Kinds", "absent", |_| unreachable!());
        let changed = resources.get("Kinds", "b").unwrap();
        assert_eq!((changed.version, changed.spec()), (2, &json!({"a": 2})));
        assert_eq!(resources.list("Kinds").map(|(id, _)| id).collect::<Vec<_>>(), ["a", "b"]);
        resources.remove("Kinds", "a");
        resources.remove("Others", "a");
        assert_eq!(resources.list("Kinds").count(), 1);
        resources.clear("Kinds");
        assert_eq!(resources.list("Kinds").count(), 0);
    }

    #[test]
    fn what_is_shared_is_changed_for_one() {
        let mut one = Resources::default();
        one.put("Kinds", "a", json!(1));
        let mut other = one.clone();
        assert!(Arc::ptr_eq(&one.of_kind("Kinds"), &other.of_kind("Kinds")));
        other.put("Kinds", "a", json!(2));
        assert_eq!(one.get("Kinds", "a").unwrap().spec(), &json!(1));
        assert_eq!(other.get("Kinds", "a").unwrap().spec(), &json!(2));
    }

    #[test]
    fn a_changed_resource_is_encoded_anew() {
        let version = TalosVersion::new(13, 0);
        let mut resources = Resources::default();
        resources.put("Nodenames.kubernetes.talos.dev", "nodename", json!({"nodename": "a"}));
        let yaml = |resources: &Resources| {
            let resource = resources.get("Nodenames.kubernetes.talos.dev", "nodename").unwrap();
            resource.encoded("Nodenames.kubernetes.talos.dev", version).yaml_spec
        };
        assert_eq!(yaml(&resources), "nodename: a\n");
        resources.put("Nodenames.kubernetes.talos.dev", "nodename", json!({"nodename": "b"}));
        assert_eq!(yaml(&resources), "nodename: b\n");
    }
}
