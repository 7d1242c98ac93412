//! Pods that do not run any container yet, and the events about them.

use std::time::Duration;

use jiff::Timestamp;

use super::gaps::short;
use super::lists::Kept;
use super::objects::{Ages, Since, name, owner};
use super::pods::{condition, is_mirror};
use super::sandboxes::HAS_SANDBOX;
use super::wire::core;
use super::wire::meta::{MicroTime, ObjectMeta, Time};
use crate::snapshot::{PodEvent, PullingPod, StartingPod, UnplacedPod};
use crate::text::sanitize::without_secrets;

/// A pod that does not run any container yet.
#[derive(Debug)]
pub(super) enum PendingPod {
    /// No scheduler has considered the pod, or it has no sandbox.
    Starting(StartingPod),
    /// The pod is waiting for an image.
    Pulling(PullingPod),
    /// No node was found for the pod, or it must not have one yet.
    Unplaced(UnplacedPod),
}

impl Ages for Option<PendingPod> {
    fn set_age(&mut self, age: Option<Duration>) {
        match self {
            Some(PendingPod::Starting(pod)) => pod.waiting_for = age,
            Some(PendingPod::Pulling(pod)) => pod.waiting_for = age,
            Some(PendingPod::Unplaced(pod)) => pod.waiting_for = age,
            None => {}
        }
    }
}

/// The pending pod; `None` if it is not starting, or has everything it needs.
impl Kept for Since<Option<PendingPod>, core::Pod> {
    type Object = core::Pod;

    fn of(pod: core::Pod) -> Self {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let bound = conditions.filter(|condition| condition.type_ == "PodScheduled" && condition.status == "True");
        let bound = bound.filter_map(|condition| condition.last_transition_time.as_ref()).min();
        let since = bound.or(pod.metadata.creation_timestamp.as_ref()).map(|Time(time)| *time);
        let pulling = pulling(&pod).map(PendingPod::Pulling);
        let known = pulling.or_else(|| unplaced(&pod).map(PendingPod::Unplaced));
        Self::new(known.or_else(|| starting(pod).map(PendingPod::Starting)), since)
    }
}

fn starting(pod: core::Pod) -> Option<StartingPod> {
    let (metadata, status) = (pod.metadata, pod.status.unwrap_or_default());
    let spec = pod.spec.unwrap_or_default();
    let is_pending = status.phase.as_deref() == Some("Pending");
    if is_ignored(&spec, &status) {
        return is_pending.then(|| without_sandbox(&metadata, spec, None, "no scheduler has considered it")).flatten();
    }
    // A pod in the host's network has its address before the sandbox exists.
    let has_address = status.pod_ip.is_some() && spec.host_network != Some(true);
    let has_sandbox = condition(&status, HAS_SANDBOX).is_some_and(|told| told.status == "True") || has_address;
    let statuses = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let mut says = None;
    for state in statuses.filter_map(|container| container.state.as_ref()) {
        match &state.waiting {
            Some(waiting) if waiting.reason.as_deref().is_none_or(is_creating) => {
                says = says.or(waiting.message.as_deref().or(waiting.reason.as_deref()));
            }
            // A container that has got further has a sandbox.
            _ => return None,
        }
    }
    let says = says.unwrap_or("its kubelet has not reported it");
    let starting = (is_pending && !has_sandbox).then(|| without_sandbox(&metadata, spec, None, says)).flatten();
    starting.filter(|pod| pod.node.is_some())
}

/// Returns the pod if its next container is waiting for an image: the kubelet reports it, or the pod has its sandbox but the container was
/// not created. An init container is the next one until it has finished.
fn pulling(pod: &core::Pod) -> Option<PullingPod> {
    let (metadata, spec, status) = (&pod.metadata, pod.spec.as_ref()?, pod.status.as_ref()?);
    let node = spec.node_name.as_ref().filter(|node| !node.is_empty())?;
    let is_left_out = is_mirror(metadata) || metadata.deletion_timestamp.is_some();
    (status.phase.as_deref() == Some("Pending") && !is_left_out).then_some(())?;
    let has_sandbox = condition(status, HAS_SANDBOX).is_some_and(|told| told.status == "True");
    let of = |statuses: &Option<Vec<core::ContainerStatus>>| statuses.clone().unwrap_or_default();
    let all = [of(&status.init_container_statuses), of(&status.container_statuses)].concat();
    let waiting = |it: &core::ContainerStatus| it.state.as_ref().and_then(|state| state.waiting.clone());
    let is_pull = |reason: &str| matches!(reason, "ErrImagePull" | "ImagePullBackOff" | "RegistryUnavailable");
    let told = all.iter().find_map(|it| {
        let waiting = waiting(it)?;
        let reason = waiting.reason.as_deref().filter(|reason| is_pull(reason))?.to_owned();
        Some((it, waiting.message.map_or(reason.clone(), |message| format!("{reason}: {message}"))))
    });
    let next = || {
        let next = all.iter().find(|it| !it.ready).filter(|_| has_sandbox)?;
        let waits = waiting(next)?.reason.is_none_or(|reason| is_creating(&reason));
        waits.then(|| (next, "its image has not arrived".to_owned()))
    };
    let (container, says) = told.or_else(next)?;
    let specified = spec.containers.iter().chain(&spec.init_containers).flatten();
    let image = specified.filter(|it| it.name == container.name).find_map(|it| it.image.clone());
    Some(PullingPod {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: name(metadata),
        node: node.clone(),
        owner: owner(metadata),
        image: image.unwrap_or_else(|| container.image.clone()),
        waiting_for: None,
        says: short(&without_secrets(&says)),
        runs_on: None,
    })
}

/// Returns the pod if it has no node, with the reason as far as it is reported.
fn unplaced(pod: &core::Pod) -> Option<UnplacedPod> {
    let (metadata, spec, status) = (&pod.metadata, pod.spec.as_ref()?, pod.status.as_ref()?);
    let is_bound = spec.node_name.as_deref().is_some_and(|node| !node.is_empty());
    let is_left_out = is_bound || metadata.deletion_timestamp.is_some() || is_ignored(spec, status);
    (status.phase.as_deref() == Some("Pending") && !is_left_out).then_some(())?;
    let told = condition(status, "PodScheduled").and_then(|told| told.reason.clone());
    let why = told.unwrap_or_else(|| match spec.scheduling_gates.iter().flatten().next() {
        Some(_) => "scheduling gates".to_owned(),
        None if is_by_default(spec) => "device claims".to_owned(),
        None => "another scheduler".to_owned(),
    });
    Some(UnplacedPod {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: name(metadata),
        waiting_for: None,
        why: short(&why),
    })
}

/// Returns whether the kubelet reports that the container is being created.
fn is_creating(reason: &str) -> bool {
    matches!(reason, "ContainerCreating" | "PodInitializing")
}

/// Returns whether no scheduler has considered a pod, since a scheduler leaves a condition. Pods that wait for a gate or a device are
/// considered later, and those of another scheduler may have no condition.
fn is_ignored(spec: &core::PodSpec, status: &core::PodStatus) -> bool {
    let is_bound = spec.node_name.as_deref().is_some_and(|node| !node.is_empty());
    let is_default = is_by_default(spec);
    let waits = spec.scheduling_gates.iter().flatten().next().is_some()
        || spec.resource_claims.iter().flatten().next().is_some();
    !is_bound && is_default && !waits && condition(status, "PodScheduled").is_none()
}

/// The name of Kubernetes' own scheduler, unless it is configured otherwise.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

fn is_by_default(spec: &core::PodSpec) -> bool {
    spec.scheduler_name.as_deref().is_none_or(|name| name == DEFAULT_SCHEDULER)
}

/// Describes a pod without a sandbox. `None` if it is being deleted, or is static: stage 7 judges those.
pub(super) fn without_sandbox(
    metadata: &ObjectMeta,
    spec: core::PodSpec,
    lost_at: Option<Timestamp>,
    says: &str,
) -> Option<StartingPod> {
    (!is_mirror(metadata) && metadata.deletion_timestamp.is_none()).then_some(())?;
    Some(StartingPod {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: name(metadata),
        uid: metadata.uid.clone().unwrap_or_default(),
        has_own_volumes: spec.volumes.iter().flatten().any(is_own),
        mounts_storage: spec.volumes.iter().flatten().any(is_storage),
        owner: owner(metadata),
        by_default_scheduler: is_by_default(&spec),
        node: spec.node_name.filter(|node| !node.is_empty()),
        waiting_for: None,
        lost_at,
        overtaken_by: None,
        says: short(&without_secrets(says)),
    })
}

/// Returns whether the volume has to be provided for the pod. The volumes that every pod mounts by default are available on each node.
fn is_own(volume: &core::Volume) -> bool {
    let always = |source: &core::VolumeProjection| {
        let root_ca = source.config_map.as_ref().is_some_and(|map| map.name == "kube-root-ca.crt");
        root_ca || source.service_account_token.is_some() || source.downward_api.is_some()
    };
    let is_projected = volume.projected.as_ref().is_some_and(|it| it.sources.iter().flatten().all(always));
    !is_projected && volume.empty_dir.is_none() && volume.downward_api.is_none()
}

/// Returns whether a storage driver attaches or mounts the volume: a claim, a disk, a network share. All other volumes are made from API
/// objects or from files of the node.
fn is_storage(volume: &core::Volume) -> bool {
    let made =
        [&volume.empty_dir, &volume.secret, &volume.config_map, &volume.host_path, &volume.image, &volume.downward_api];
    volume.projected.is_none() && made.into_iter().all(Option::is_none)
}

/// The event; `None` if it is not about a pod, or comes from another scheduler.
impl Kept for Option<PodEvent> {
    type Object = core::Event;

    fn of(event: core::Event) -> Self {
        let about = event.involved_object;
        (about.kind.as_deref() == Some("Pod")).then_some(())?;
        // Another scheduler's actions prove nothing about Kubernetes' own.
        let by = event.reporting_component.filter(|by| !by.is_empty()).or_else(|| event.source?.component);
        let is_by_default = by.as_deref() == Some(DEFAULT_SCHEDULER);
        (is_by_default || event.reason.as_deref() != Some("FailedScheduling")).then_some(())?;
        let micro = [event.event_time, event.series.and_then(|series| series.last_observed_time)];
        let seconds = [event.last_timestamp, event.metadata.creation_timestamp];
        let times = micro.into_iter().flatten().map(|MicroTime(time)| time);
        Some(PodEvent {
            namespace: about.namespace.unwrap_or_default(),
            pod: about.name.unwrap_or_default(),
            uid: about.uid.unwrap_or_default(),
            reason: event.reason.unwrap_or_default(),
            message: short(&without_secrets(&event.message.unwrap_or_default())),
            at: times.chain(seconds.into_iter().flatten().map(|Time(time)| time)).max(),
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::observe::kubernetes::objects::tests::{ages, read};

    /// A copy of a real pod in a cluster whose Node had been registered again.
    fn newcomer() -> Value {
        let since = "2026-11-21T00:00:00Z";
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": since, "lastProbeTime": null});
        json!({
            "metadata": {"name": "newcomer", "namespace": "default", "creationTimestamp": since},
            "spec": {"nodeName": "w1", "containers": [], "volumes": [{"name": "kube-api-access-2pm9f", "projected": {"sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
                {"downwardAPI": {"items": []}},
            ]}}]},
            "status": {
                "phase": "Pending", "hostIP": "10.55.0.5", "startTime": since,
                "conditions": [condition("PodReadyToStartContainers", "False"), condition("Initialized", "True"), condition("PodScheduled", "True")],
                "containerStatuses": [{"name": "newcomer", "image": "a", "imageID": "", "ready": false, "restartCount": 0,
                    "started": false, "lastState": {}, "state": {"waiting": {"reason": "ContainerCreating"}}}],
            },
        })
    }

    fn starting_of(pod: Value) -> Option<StartingPod> {
        match ages::<Option<PendingPod>, core::Pod>(vec![pod]).remove(0)? {
            PendingPod::Starting(pod) => Some(pod),
            PendingPod::Pulling(_) | PendingPod::Unplaced(_) => None,
        }
    }

    #[test]
    fn a_pod_without_a_sandbox_is_starting() {
        let starting = |pointer: &str, value: Value| {
            let mut pod = newcomer();
            if let Some(old) = pod.pointer_mut(pointer) {
                *old = value;
            } else {
                let (parent, key) = pointer.rsplit_once('/').unwrap();
                pod.pointer_mut(parent).unwrap()[key] = value;
            }
            starting_of(pod)
        };
        let pod = starting("/metadata/generation", json!(1)).unwrap();
        assert_eq!(
            (pod.namespace.as_str(), pod.name.as_str(), pod.node.as_deref()),
            ("default", "newcomer", Some("w1"))
        );
        assert_eq!((pod.waiting_for, pod.says.as_str()), (Some(Duration::from_secs(600)), "ContainerCreating"));
        assert!(!pod.has_own_volumes && pod.is_late());
        let own = |volume| starting("/spec/volumes/0", volume).unwrap().has_own_volumes;
        assert!(own(json!({"name": "a", "secret": {"secretName": "b"}})));
        assert!(own(json!({"name": "a", "persistentVolumeClaim": {"claimName": "b"}})));
        assert!(own(json!({"name": "a", "projected": {"sources": [{"configMap": {"name": "b"}}]}})));
        assert!(!own(json!({"name": "a", "emptyDir": {}})));
        // Without a status, the kubelet has not handled the pod yet.
        assert_eq!(starting("/status/containerStatuses", json!([])).unwrap().says, "its kubelet has not reported it");
        for (pointer, value) in [
            ("/status/conditions/0/status", json!("True")),
            ("/status/podIP", json!("10.244.4.2")),
            ("/status/phase", json!("Running")),
            ("/status/containerStatuses/0/state/waiting/reason", json!("ImagePullBackOff")),
            ("/metadata/deletionTimestamp", json!("2026-11-21T00:00:00Z")),
            ("/spec/nodeName", json!("")),
        ] {
            assert_eq!(starting(pointer, value), None, "{pointer}");
        }
    }

    #[test]
    fn a_pod_that_waits_for_an_image_has_a_sandbox() {
        let pulling = |status: Value| {
            let pod = json!({
                "metadata": {"name": "web-1", "namespace": "shop", "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-6f7c9", "uid": "1", "controller": true}]},
                "spec": {"nodeName": "w1", "initContainers": [{"name": "init", "image": "i:1"}], "containers": [{"name": "c", "image": "c:1"}]},
                "status": status,
            });
            match ages::<Option<PendingPod>, core::Pod>(vec![pod]).remove(0)? {
                PendingPod::Pulling(pod) => Some((pod.image, pod.owner, pod.says)),
                PendingPod::Starting(_) | PendingPod::Unplaced(_) => None,
            }
        };
        let of = |name: &str, ready: bool, state: Value| json!({"name": name, "image": "x", "ready": ready, "restartCount": 0, "state": state});
        let waiting = |reason: &str| json!({"waiting": {"reason": reason, "message": "no such host"}});
        let is = |image: &str, says: &str| Some((image.to_owned(), "shop/ReplicaSet/web".to_owned(), says.to_owned()));
        let sandbox = json!([{"type": "PodReadyToStartContainers", "status": "True"}]);
        let done = of("init", true, json!({"terminated": {"exitCode": 0}}));
        for (status, expected) in [
            (
                json!({"phase": "Pending", "initContainerStatuses": [done], "containerStatuses": [of("c", false, waiting("ImagePullBackOff"))]}),
                is("c:1", "ImagePullBackOff: no such host"),
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": [of("init", false, waiting("ErrImagePull"))], "containerStatuses": [of("c", false, waiting("PodInitializing"))]}),
                is("i:1", "ErrImagePull: no such host"),
            ),
            (
                json!({"phase": "Pending", "conditions": sandbox, "initContainerStatuses": [done], "containerStatuses": [of("c", false, waiting("PodInitializing"))]}),
                is("c:1", "its image has not arrived"),
            ),
            (
                json!({"phase": "Pending", "conditions": sandbox, "initContainerStatuses": [of("init", false, waiting("PodInitializing"))], "containerStatuses": [of("c", false, waiting("PodInitializing"))]}),
                is("i:1", "its image has not arrived"),
            ),
            // A running init container is the reason for the wait.
            (
                json!({"phase": "Pending", "conditions": sandbox, "initContainerStatuses": [of("init", false, json!({"running": {}}))], "containerStatuses": [of("c", false, waiting("PodInitializing"))]}),
                None,
            ),
            // Without a sandbox.
            (json!({"phase": "Pending", "containerStatuses": [of("c", false, waiting("ContainerCreating"))]}), None),
            (
                json!({"phase": "Pending", "conditions": sandbox, "containerStatuses": [of("c", false, waiting("CreateContainerConfigError"))]}),
                None,
            ),
            (json!({"phase": "Running", "containerStatuses": [of("c", false, waiting("ImagePullBackOff"))]}), None),
        ] {
            assert_eq!(pulling(status.clone()), expected, "{status}");
        }
    }

    #[test]
    fn storage_is_what_a_driver_mounts() {
        let storage = |volume: Value| {
            let mut pod = newcomer();
            pod["spec"]["volumes"] = json!([volume]);
            starting_of(pod).unwrap().mounts_storage
        };
        for own in ["persistentVolumeClaim", "csi", "ephemeral", "nfs", "iscsi"] {
            let mut volume = json!({"name": "a"});
            volume[own] = json!({"claimName": "c"});
            assert!(storage(volume), "{own}");
        }
        for made in ["secret", "configMap", "emptyDir", "hostPath", "downwardAPI", "projected", "image"] {
            let mut volume = json!({"name": "a"});
            volume[made] = json!({});
            assert!(!storage(volume), "{made}");
        }
    }

    #[test]
    fn a_pod_that_no_scheduler_has_looked_at_is_starting() {
        let created = "2026-11-21T00:00:00Z";
        let pod = |spec: Value, conditions: Value| {
            let pod = json!({
                "metadata": {"name": "a", "namespace": "b", "creationTimestamp": created},
                "spec": spec, "status": {"phase": "Pending", "conditions": conditions},
            });
            starting_of(pod)
        };
        let ignored = pod(json!({"containers": [], "schedulerName": "default-scheduler"}), json!([])).unwrap();
        assert_eq!((ignored.node.as_deref(), ignored.waiting_for), (None, Some(Duration::from_secs(600))));
        let looked_at = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
        assert_eq!(pod(json!({"containers": []}), looked_at), None);
        for spec in [
            json!({"containers": [], "schedulerName": "volcano"}),
            json!({"containers": [], "schedulingGates": [{"name": "example.com/quota"}]}),
            json!({"containers": [], "resourceClaims": [{"name": "gpu"}]}),
        ] {
            assert_eq!(pod(spec.clone(), json!([])), None, "{spec}");
        }
    }

    #[test]
    fn an_event_is_of_a_pod_and_as_new_as_its_last_repetition() {
        let event = |more: Value| {
            let mut event = json!({
                "metadata": {"name": "a", "namespace": "default", "creationTimestamp": "2026-11-21T00:00:00Z"},
                "involvedObject": {"kind": "Pod", "namespace": "default", "name": "newcomer"}, "eventTime": null,
                "reason": "FailedCreatePodSandBox", "message": "Failed to create pod sandbox: rpc error",
                "lastTimestamp": "2026-11-21T00:01:00Z",
            });
            for (key, value) in more.as_object().unwrap() {
                event[key] = value.clone();
            }
            <Option<PodEvent> as Kept>::of(read(event))
        };
        let old = event(json!({})).unwrap();
        assert_eq!((old.namespace.as_str(), old.pod.as_str()), ("default", "newcomer"));
        assert_eq!(old.at, Some("2026-11-21T00:01:00Z".parse().unwrap()));
        let repeated = event(json!({"series": {"count": 4, "lastObservedTime": "2026-11-21T00:02:00.5Z"}})).unwrap();
        assert_eq!(repeated.at, Some("2026-11-21T00:02:00.5Z".parse().unwrap()));
        assert_eq!(event(json!({"involvedObject": {"kind": "Node", "name": "w1"}})), None);
    }
}
