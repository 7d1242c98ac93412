//! Kubernetes: the objects that its API servers serve, and the access to them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// State of the Kubernetes API.
#[derive(Clone, Debug, Default)]
pub struct Kubernetes {
    /// Objects as JSON by resource: `nodes`, `leases.coordination.k8s.io`. Their order does not matter.
    pub objects: BTreeMap<String, Vec<Value>>,
    /// Leases, as `namespace/name`, that have not been renewed since a time of the cluster's clock. All others are renewed regularly.
    pub stalled_leases: BTreeMap<String, Timestamp>,
    /// Leases that were stalled, with the time of their first renewal afterwards.
    pub resumed_leases: BTreeMap<String, Timestamp>,
    /// Rules of the reader's kubeconfig, and of all other users outside `system:masters`.
    pub reader: Vec<Rule>,
    /// Users by bearer token.
    pub tokens: BTreeMap<String, User>,
    /// Whether requests without credentials are accepted as `system:anonymous`.
    pub anonymous: bool,
    /// Maximum number of objects on one page, regardless of the client's limit.
    pub page: Option<usize>,
}

impl Kubernetes {
    /// Gives the cluster its own identity, which is the UID of the namespace kube-system.
    pub(crate) fn identify(&mut self, by: &str) {
        let namespaces = self.objects.get_mut("namespaces").into_iter().flatten();
        for system in namespaces.filter(|it| it["metadata"]["name"] == "kube-system") {
            system["metadata"]["uid"] = uid(by).into();
        }
    }

    /// Resumes a stalled lease. The holder renews it immediately instead of at its next regular time.
    pub(crate) fn resume_lease(&mut self, lease: &str, at: Timestamp) {
        if self.stalled_leases.remove(lease).is_some() {
            self.resumed_leases.insert(lease.to_owned(), at);
        }
    }
}

/// A user of the Kubernetes API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// `system:serviceaccount:kube-system:cluster-health`
    pub name: String,
    /// `system:masters` may do everything.
    pub groups: Vec<String>,
}

/// One rule of a `ClusterRole`; `*` matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    pub api_groups: Vec<String>,
    pub resources: Vec<String>,
    /// Empty: all names.
    pub resource_names: Vec<String>,
    pub verbs: Vec<String>,
    /// A trailing `*` matches any suffix.
    #[serde(rename = "nonResourceURLs")]
    pub non_resource_urls: Vec<String>,
}

impl Kubernetes {
    /// The object with this name; `namespace` is `None` for cluster-scoped objects.
    #[must_use]
    pub fn object(&self, resource: &str, namespace: Option<&str>, name: &str) -> Option<&Value> {
        self.objects.get(resource)?.iter().find(|object| is(object, namespace, name))
    }

    /// The object with this name, for changes: it gets a new resource version.
    ///
    /// # Panics
    /// If it does not exist, since tests only name objects that they created.
    pub fn object_mut(&mut self, resource: &str, namespace: Option<&str>, name: &str) -> &mut Value {
        let objects = self.objects.entry(resource.to_owned()).or_default();
        let found = objects.iter_mut().find(|object| is(object, namespace, name));
        let object = found.unwrap_or_else(|| panic!("there is no `{name}` among {resource}"));
        touch(object);
        if let Some(writer) = object["metadata"]["managedFields"].as_array_mut().and_then(|writers| writers.last_mut())
        {
            writer["time"] = seconds(Timestamp::now()).into();
        }
        object
    }

    /// Changes an object like `kubectl patch --type merge`.
    ///
    /// # Panics
    /// If it does not exist.
    pub fn merge(&mut self, resource: &str, namespace: Option<&str>, name: &str, patch: &Value) {
        merge(self.object_mut(resource, namespace, name), patch);
    }

    /// Sets the condition of a type (`{"type": "Ready", "status": "False", "reason": …}`) in an object's status. Missing keys remain
    /// unchanged.
    ///
    /// # Panics
    /// If the object does not exist.
    pub fn set_condition(&mut self, resource: &str, namespace: Option<&str>, name: &str, condition: &Value) {
        let status = &mut self.object_mut(resource, namespace, name)["status"];
        if !status["conditions"].is_array() {
            status["conditions"] = json!([]);
        }
        let Some(conditions) = status["conditions"].as_array_mut() else { return };
        let index = conditions.iter().position(|it| it["type"] == condition["type"]).unwrap_or_else(|| {
            conditions.push(json!({}));
            conditions.len() - 1
        });
        let turns = conditions[index]["status"] != condition["status"];
        merge(&mut conditions[index], condition);
        if turns && condition["lastTransitionTime"].is_null() {
            conditions[index]["lastTransitionTime"] = seconds(Timestamp::now()).into();
        }
    }

    /// Creates an object, or replaces the one with the same name. Its metadata contains the name and, for a namespaced object, the
    /// namespace; everything else that an API server adds is added.
    ///
    /// # Panics
    /// If the object has no name.
    pub fn put(&mut self, resource: &str, mut object: Value) {
        let name = object["metadata"]["name"].as_str().expect("an object with a name").to_owned();
        let namespace = object["metadata"]["namespace"].as_str().map(str::to_owned);
        let metadata = &mut object["metadata"];
        if metadata["creationTimestamp"].is_null() {
            metadata["creationTimestamp"] = seconds(Timestamp::now()).into();
        }
        if metadata["uid"].is_null() {
            metadata["uid"] = uid(&format!("{resource}/{}/{name}", namespace.as_deref().unwrap_or_default())).into();
        }
        if let Some(old) = self.remove(resource, namespace.as_deref(), &name) {
            object["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
        }
        touch(&mut object);
        self.objects.entry(resource.to_owned()).or_default().push(object);
    }

    /// Deletes an object.
    pub fn remove(&mut self, resource: &str, namespace: Option<&str>, name: &str) -> Option<Value> {
        let objects = self.objects.get_mut(resource)?;
        let index = objects.iter().position(|object| is(object, namespace, name))?;
        Some(objects.remove(index))
    }
}

fn is(object: &Value, namespace: Option<&str>, name: &str) -> bool {
    let metadata = &object["metadata"];
    metadata["name"] == name && metadata["namespace"].as_str() == namespace
}

fn touch(object: &mut Value) {
    let metadata = &mut object["metadata"];
    let old = metadata["resourceVersion"].as_str().and_then(|version| version.parse::<u64>().ok());
    let new = revision(Timestamp::now()).max(old.map_or(0, |old| old + 1));
    metadata["resourceVersion"] = new.to_string().into();
}

/// etcd's revision at a time of our clock: a thousand writes a second since the beginning of 2025. It needs no memory, never decreases, and
/// orders changes by time.
pub(crate) fn revision(at: Timestamp) -> u64 {
    const BEGINNING: i64 = 1_735_689_600_000;
    u64::try_from(at.as_millisecond() - BEGINNING).unwrap_or_default()
}

/// Applies a merge patch (RFC 7396).
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Map::new().into();
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.shift_remove(key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// A time in the format of `metav1.Time`: RFC 3339 with whole seconds.
pub(crate) fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A UUID that is constant for each text.
pub(crate) fn uid(of: &str) -> String {
    let (high, low) = (hash(of), hash(&format!("{of} again")));
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        0x8000 | (low >> 48) & 0x3fff,
        low & 0xffff_ffff_ffff
    )
}

/// The UID of a static pod in the kubelet: the hash of its manifest.
pub(crate) fn static_uid(pod: &str) -> String {
    letters(pod, 32, b"0123456789abcdef")
}

/// `length` characters that are constant for each text, like the suffixes of names that Kubernetes generates.
pub(crate) fn suffix(of: &str, length: usize) -> String {
    letters(of, length, b"bcdfghjklmnpqrstvwxz2456789")
}

/// `length` characters of an alphabet, constant for each text.
pub(crate) fn letters(of: &str, length: usize, alphabet: &[u8]) -> String {
    let mut state = hash(of);
    let letter = |_| {
        // Knuth's linear congruential generator, whose high bits are the most random ones.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let index = usize::try_from(state >> 33).unwrap_or_default() % alphabet.len();
        char::from(alphabet[index])
    };
    (0..length).map(letter).collect()
}

/// FNV-1a with additional mixing, because names differ only in their last characters.
pub(crate) fn hash(of: &str) -> u64 {
    let hash =
        of.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubernetes() -> Kubernetes {
        let mut kubernetes = Kubernetes::default();
        kubernetes.put("nodes", json!({"metadata": {"name": "worker-1"}, "spec": {"unschedulable": true}}));
        kubernetes.put("pods", json!({"metadata": {"name": "dns", "namespace": "kube-system"}}));
        kubernetes
    }

    fn version(kubernetes: &Kubernetes) -> u64 {
        let node = kubernetes.object("nodes", None, "worker-1").unwrap();
        node["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    }

    #[test]
    fn every_change_is_a_new_version() {
        let mut kubernetes = kubernetes();
        let created = version(&kubernetes);
        kubernetes.merge(
            "nodes",
            None,
            "worker-1",
            &json!({"spec": {"unschedulable": null, "podCIDR": "10.244.0.0/24"}}),
        );
        let merged = version(&kubernetes);
        assert!(merged > created);
        let node = kubernetes.object("nodes", None, "worker-1").unwrap();
        assert_eq!(node["spec"], json!({"podCIDR": "10.244.0.0/24"}));
        kubernetes.put("nodes", json!({"metadata": {"name": "worker-1"}}));
        assert!(version(&kubernetes) > merged);
        assert_eq!(kubernetes.objects["nodes"].len(), 1);
    }

    #[test]
    fn conditions_turn_at_a_time() {
        let mut kubernetes = kubernetes();
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        kubernetes.set_condition("nodes", None, "worker-1", &ready);
        kubernetes.set_condition("nodes", None, "worker-1", &json!({"type": "Ready", "status": "True", "reason": "x"}));
        let turned = |kubernetes: &Kubernetes| {
            let conditions = &kubernetes.object("nodes", None, "worker-1").unwrap()["status"]["conditions"];
            assert_eq!(conditions.as_array().unwrap().len(), 1);
            conditions[0]["lastTransitionTime"].as_str().unwrap().to_owned()
        };
        assert_eq!(turned(&kubernetes), "2026-01-01T00:00:00Z");
        kubernetes.set_condition("nodes", None, "worker-1", &json!({"type": "Ready", "status": "False"}));
        assert_ne!(turned(&kubernetes), "2026-01-01T00:00:00Z");
    }

    #[test]
    fn objects_are_told_apart_by_namespace() {
        let mut kubernetes = kubernetes();
        assert!(kubernetes.object("pods", None, "dns").is_none());
        assert!(kubernetes.remove("pods", Some("default"), "dns").is_none());
        let removed = kubernetes.remove("pods", Some("kube-system"), "dns").unwrap();
        assert_eq!(removed["metadata"]["uid"].as_str().unwrap().len(), 36);
    }

    #[test]
    fn made_up_names_are_always_the_same() {
        assert_eq!(uid("a"), uid("a"));
        assert_ne!(uid("cp-1"), uid("cp-2"));
        assert_eq!(suffix("kube-proxy/cp-1", 5).len(), 5);
        assert_ne!(suffix("kube-proxy/cp-1", 5), suffix("kube-proxy/cp-2", 5));
        assert_eq!(seconds("2026-11-21T13:33:57.123Z".parse().unwrap()), "2026-11-21T13:33:57Z");
    }
}
