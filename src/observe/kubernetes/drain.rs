//! The facts that decide whether a drain succeeds: pods, and the disruption budgets that protect them.

use std::cell::RefCell;
use std::time::Duration;

use super::extensions::requirements;
use super::lists::Kept;
use super::objects::{Ages, Since, controller, shared, shared_labels};
use super::room;
use super::wire::meta::Time;
use super::wire::{eviction, policy};
use crate::model::Shared;
use crate::snapshot::{BoundPod, DisruptionBudget, Needs};
use crate::text::sanitize::without_secrets;

thread_local! {
    static NEEDS: RefCell<Shared<Needs>> = RefCell::default();
}

impl Ages for BoundPod {
    fn set_age(&mut self, age: Option<Duration>) {
        self.overdue = age;
    }
}

impl Kept for Since<BoundPod, eviction::Pod> {
    type Object = eviction::Pod;

    const MOST: usize = BoundPod::MOST;

    /// The deletion timestamp is the time by which a deleted pod should be gone.
    fn of(pod: eviction::Pod) -> Self {
        let gone = pod.metadata.deletion_timestamp.as_ref().map(|Time(time)| *time);
        Self::new(BoundPod::of(pod), gone)
    }
}

impl Kept for BoundPod {
    type Object = eviction::Pod;

    /// Kubernetes supports up to 150,000 pods.
    const MOST: usize = 150_000;

    fn of(pod: eviction::Pod) -> Self {
        let (mut metadata, spec, status) = (pod.metadata, pod.spec.unwrap_or_default(), pod.status.unwrap_or_default());
        let controller = controller(&metadata);
        let mut conditions = status.conditions.iter().flatten();
        let grace = Duration::from_secs(spec.termination_grace_period_seconds.unwrap_or_default());
        let volumes = spec.volumes.iter().flatten();
        let claims = volumes.filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.clone()));
        Self {
            claims: claims.collect(),
            has_empty_dir: spec.volumes.iter().flatten().any(|volume| volume.empty_dir.is_some()),
            node: spec.node_name.clone().unwrap_or_default(),
            needs: shared(&NEEDS, room::needs(spec)),
            labels: shared_labels(&mut metadata),
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            mirror: metadata.annotations.is_some_and(|it| it.contains_key("kubernetes.io/config.mirror")),
            controller,
            phase: status.phase.unwrap_or_default(),
            ready: conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True"),
            deleting: metadata.deletion_timestamp.is_some(),
            // Set later, from the list's clock.
            overdue: None,
            grace,
        }
    }
}

impl Kept for DisruptionBudget {
    type Object = policy::PodDisruptionBudget;

    fn of(budget: policy::PodDisruptionBudget) -> Self {
        let (spec, status) = (budget.spec.unwrap_or_default(), budget.status.unwrap_or_default());
        let mut conditions = status.conditions.into_iter().flatten();
        let failed = conditions.find(|it| it.type_ == "DisruptionAllowed" && it.reason == "SyncFailed");
        Self {
            is_operated: controller(&budget.metadata).is_some(),
            namespace: budget.metadata.namespace.unwrap_or_default(),
            name: budget.metadata.name.unwrap_or_default(),
            selector: spec.selector.map(|selector| requirements(Some(selector))),
            always_allows_unready: spec.unhealthy_pod_eviction_policy.as_deref() == Some("AlwaysAllow"),
            generation: budget.metadata.generation.unwrap_or_default(),
            observed_generation: status.observed_generation.unwrap_or_default(),
            disruptions_allowed: status.disruptions_allowed,
            current_healthy: status.current_healthy,
            desired_healthy: status.desired_healthy,
            sync_failed: failed.map(|it| without_secrets(&it.message)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(value: Value) -> BoundPod {
        BoundPod::of(serde_json::from_value(value).unwrap())
    }

    fn budget(value: Value) -> DisruptionBudget {
        DisruptionBudget::of(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn a_pod_keeps_what_a_drain_depends_on() {
        let found = pod(json!({
            "metadata": {
                "name": "db-0", "namespace": "data", "labels": {"app": "db"}, "deletionTimestamp": "2026-11-21T13:33:57Z",
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Note", "name": "x", "uid": "1"},
                    {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "2", "controller": true},
                ],
            },
            "spec": {"nodeName": "w-1", "terminationGracePeriodSeconds": 3600, "containers": [], "volumes": [{"name": "tmp", "emptyDir": {}}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }));
        assert_eq!((found.namespace.as_str(), found.name.as_str(), found.node.as_str()), ("data", "db-0", "w-1"));
        assert_eq!(found.controller, Some(("StatefulSet".to_owned(), "db".to_owned())));
        assert!(found.ready && found.deleting && found.has_empty_dir && !found.mirror);
        assert_eq!((found.labels["app"].as_str(), found.grace), ("db", Duration::from_secs(3600)));
        let bare = pod(json!({
            "metadata": {
                "name": "x", "namespace": "y", "annotations": {"kubernetes.io/config.mirror": "1"},
                "ownerReferences": [{"kind": "Node", "name": "w-1"}],
            },
            "status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": "Unknown"}]},
        }));
        assert!(bare.mirror && bare.controller.is_none() && !bare.ready && !bare.has_empty_dir && bare.node.is_empty());
    }

    #[test]
    fn only_the_daemon_sets_of_kubernetes_are_left_alone_by_a_drain() {
        for (version, expected) in
            [("apps/v1", "DaemonSet"), ("", "DaemonSet"), ("apps.kruise.io/v1alpha1", "DaemonSet.apps.kruise.io")]
        {
            let owner = json!({"apiVersion": version, "kind": "DaemonSet", "name": "agent", "controller": true});
            let found = pod(json!({"metadata": {"ownerReferences": [owner]}, "spec": {"containers": []}}));
            assert_eq!(found.controller.unwrap().0, expected, "{version}");
        }
    }

    #[test]
    fn a_budget_without_a_selector_is_another_than_one_with_an_empty_one() {
        let of =
            |spec: Value| budget(json!({"metadata": {"name": "a", "namespace": "b", "generation": 2}, "spec": spec}));
        assert_eq!(of(json!({})).selector, None);
        assert_eq!(of(json!({"selector": null})).selector, None);
        assert_eq!(of(json!({"selector": {}})).selector, Some(Vec::new()));
        assert_eq!(of(json!({"selector": {"matchLabels": {"a": "b"}}})).selector.unwrap().len(), 1);
        // A budget whose pods have not been counted yet.
        let uncounted = of(json!({}));
        assert_eq!((uncounted.generation, uncounted.observed_generation, uncounted.disruptions_allowed), (2, 0, 0));
        let counted = budget(json!({
            "metadata": {"name": "a", "namespace": "b", "generation": 3},
            "spec": {"minAvailable": 2, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
            "status": {"observedGeneration": 3, "disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3},
        }));
        assert_eq!(counted.sync_failed, None);
        let condition = json!({"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "no controllers"});
        let failed = budget(json!({
            "metadata": {"name": "a", "namespace": "b", "generation": 1},
            "status": {"disruptionsAllowed": 0, "conditions": [condition]},
        }));
        assert_eq!(failed.sync_failed.as_deref(), Some("no controllers"));
        assert!(counted.always_allows_unready);
        assert_eq!((counted.disruptions_allowed, counted.current_healthy, counted.desired_healthy), (1, 3, 2));
    }
}
