//! The parts that all Kubernetes objects share: metadata, controllers, and ages. Only fields that a check reads are kept.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::thread::LocalKey;
use std::time::Duration;

use jiff::Timestamp;

use super::lists::{Item, Listed};
use super::wire::meta::ObjectMeta;
use crate::model::Shared;
use crate::observe::exact;

/// Returns the object's name, which lists guarantee to exist.
pub(super) fn name(metadata: &ObjectMeta) -> String {
    metadata.name.clone().unwrap_or_default()
}

pub(super) fn labels(metadata: &ObjectMeta) -> BTreeMap<String, String> {
    metadata.labels.clone().unwrap_or_default()
}

/// The last value of its type that this thread has read.
type Last<T> = LocalKey<RefCell<Shared<T>>>;

thread_local! {
    static LABELS: RefCell<Shared<BTreeMap<String, String>>> = RefCell::default();
}

/// Shares equal values: pods of one workload follow each other in a list and have much in common, which is kept once.
pub(super) fn shared<T: Clone + PartialEq>(last: &'static Last<T>, value: T) -> Shared<T> {
    last.with_borrow_mut(|last| {
        if **last != value {
            *last = value.into();
        }
        last.clone()
    })
}

/// Takes the labels of a pod.
pub(super) fn shared_labels(metadata: &mut ObjectMeta) -> Shared<BTreeMap<String, String>> {
    shared(&LABELS, metadata.labels.take().unwrap_or_default())
}

/// Returns the controller of an object, by kind and name.
pub(super) fn controller(metadata: &ObjectMeta) -> Option<(String, String)> {
    let owner = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    // Other API groups have kinds of the same name.
    let kind = match owner.api_version.split_once('/') {
        Some((group, _)) if owner.kind == "DaemonSet" && group != "apps" => format!("DaemonSet.{group}"),
        _ => owner.kind.clone(),
    };
    Some((kind, owner.name.clone()))
}

pub(super) fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// Returns the pod's controller, or else the pod's own name. For controllers with a new name per version or run, it returns the part that
/// these names share.
pub(super) fn owner(metadata: &ObjectMeta) -> String {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let Some((kind, own)) = controller(metadata) else { return format!("{namespace}/{}", name(metadata)) };
    let is_one_of_many =
        |rest: &str| kind == "ReplicaSet" || kind == "Job" && rest.bytes().all(|it| it.is_ascii_digit());
    let shared =
        own.rsplit_once('-').filter(|(_, rest)| is_one_of_many(rest)).map_or(own.as_str(), |(shared, _)| shared);
    format!("{namespace}/{kind}/{shared}")
}

/// Returns whether a priority class is one of Kubernetes' own for pods that the cluster depends on.
pub(super) fn is_critical(class: Option<&str>) -> bool {
    matches!(class, Some("system-cluster-critical" | "system-node-critical"))
}

/// The kept part of an object of kind `K`, and the time of its last change. The age can be computed only from the whole answer, which has
/// the server's clock.
#[derive(Debug)]
pub(super) struct Since<T, K> {
    pub(super) kept: T,
    pub(super) began: Option<Timestamp>,
    kind: PhantomData<K>,
}

impl<T, K> Since<T, K> {
    pub(super) fn new(kept: T, began: Option<Timestamp>) -> Self {
        Self { kept, began, kind: PhantomData }
    }
}

/// Objects that record the time since their last change.
pub(super) trait Ages {
    fn set_age(&mut self, age: Option<Duration>);
}

/// Computes the age of each object of a list, by the clock of the server that answered.
pub(super) fn aged<T: Ages, K>(listed: Listed<Since<T, K>>) -> Vec<T> {
    let date = listed.date;
    let aged = |Item { kept: Since { mut kept, began, .. }, .. }: Item<Since<T, K>>| {
        // A time in the future counts as now.
        kept.set_age(date.zip(began).map(|(date, began)| Duration::try_from(date - began).unwrap_or_default()));
        kept
    };
    exact(listed.items.into_iter().map(aged).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::observe::kubernetes::lists::Kept;

    pub(in super::super) fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    /// Returns objects with their ages 600 s after the beginning of a day.
    pub(in super::super) fn ages<T: Ages, K>(objects: Vec<Value>) -> Vec<T>
    where
        Since<T, K>: Kept,
    {
        let items = objects.into_iter().map(read).collect();
        aged::<T, K>(Listed { date: Some("2026-11-21T00:10:00Z".parse().unwrap()), last_date: None, items })
    }

    #[test]
    fn pods_belong_to_what_their_controllers_share() {
        let owner_of = |metadata: Value| owner(&read(metadata));
        let of = |kind: &str, own: &str| {
            let owner = json!([{"apiVersion": "apps/v1", "kind": kind, "name": own, "uid": "1", "controller": true}]);
            owner_of(json!({"name": "a", "namespace": "b", "ownerReferences": owner}))
        };
        assert_eq!(of("ReplicaSet", "web-6f7c9"), "b/ReplicaSet/web");
        assert_eq!(of("StatefulSet", "db-main"), "b/StatefulSet/db-main");
        assert_eq!(of("Job", "backup-29384750"), "b/Job/backup");
        assert_eq!(of("Job", "backup-once"), "b/Job/backup-once");
        assert_eq!(owner_of(json!({"name": "a", "namespace": "b"})), "b/a");
    }
}
