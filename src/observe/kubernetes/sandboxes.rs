//! Pods that have lost their sandbox, and pods whose sandbox shows that a node can create one.

use std::time::Duration;

use jiff::Timestamp;

use super::lists::Kept;
use super::objects::{Ages, Since, name};
use super::pending::without_sandbox;
use super::pods::{condition, turned};
use super::wire::core;
use super::wire::meta::Time;
use crate::snapshot::{PodEvent, StartingPod, has_ended};

/// The condition for a pod's sandbox, which kubelets before 1.29 do not report.
pub(super) const HAS_SANDBOX: &str = "PodReadyToStartContainers";

/// A pod that has run and may have lost its sandbox. A reboot removes the sandbox, but the phase remains Running.
#[derive(Debug)]
pub(super) struct StrandedPod {
    pub(super) pod: StartingPod,
    /// When it last had a sandbox. `None` if its kubelet reports that it has none, or nothing shows that it had one.
    had: Option<Timestamp>,
}

impl StrandedPod {
    /// Returns whether an event about the pod is newer than its sandbox.
    pub(super) fn is_told(&self, events: &[&PodEvent]) -> bool {
        let is_newer = |event: &PodEvent| self.had.is_none_or(|had| event.at.is_none_or(|at| at > had));
        events.iter().any(|event| event.is_of(&self.pod) && is_newer(event))
    }
}

impl Kept for Since<Option<StrandedPod>, core::Pod> {
    type Object = core::Pod;

    fn of(pod: core::Pod) -> Self {
        let (metadata, status) = (pod.metadata, pod.status.unwrap_or_default());
        let told = condition(&status, HAS_SANDBOX);
        let ready = condition(&status, "Ready");
        let is_ready = ready.is_some_and(|ready| ready.status == "True");
        let lost = told.filter(|told| told.status == "False");
        let has = told.filter(|told| told.status == "True");
        // After a reboot, containers are still reported in their former state.
        let containers = status.container_statuses.iter().flatten().filter_map(|it| it.state.as_ref());
        let began = containers.filter_map(|it| match (&it.running, &it.terminated) {
            (Some(running), _) => running.started_at.as_ref(),
            (None, terminated) => terminated.as_ref()?.started_at.as_ref(),
        });
        let began = began.map(|Time(time)| *time).chain(has.and_then(turned)).max();
        let (lost_at, had) = lost.map_or((began, began), |lost| (turned(lost), None));
        let since = lost.and_then(turned).or_else(|| ready.and_then(turned)).or(lost_at);
        let may_be = status.phase.as_deref() == Some("Running") && (lost.is_some() || !is_ready);
        let says = "it has lost its sandbox";
        let pod = may_be.then(|| without_sandbox(&metadata, pod.spec.unwrap_or_default(), lost_at, says)).flatten();
        let pod = pod.filter(|pod| pod.node.is_some());
        Self::new(pod.map(|pod| StrandedPod { pod, had }), since)
    }
}

impl Ages for Option<StrandedPod> {
    fn set_age(&mut self, age: Option<Duration>) {
        if let Some(it) = self {
            it.pod.waiting_for = age;
        }
    }
}

/// A pod with its own network.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StartedPod {
    /// Name, with the namespace.
    pub(super) name: String,
    pub(super) node: String,
    /// The time since its sandbox was created.
    pub(super) has_run_for: Option<Duration>,
}

/// The started pod; `None` if it has no sandbox, if its start time is unknown, or if it uses the host's network.
impl Kept for Since<Option<StartedPod>, core::Pod> {
    type Object = core::Pod;

    fn of(pod: core::Pod) -> Self {
        let since = sandboxed_at(&pod);
        let (metadata, spec) = (pod.metadata, pod.spec.unwrap_or_default());
        let started = StartedPod {
            name: format!("{}/{}", metadata.namespace.as_deref().unwrap_or_default(), name(&metadata)),
            node: spec.node_name.unwrap_or_default(),
            has_run_for: None,
        };
        Self::new((since.is_some() && spec.host_network != Some(true)).then_some(started), since)
    }
}

fn sandboxed_at(pod: &core::Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let taken = || status.start_time.as_ref().map(|Time(time)| *time);
    // A pod that has ended has released its sandbox.
    let has_ended = status.phase.as_deref().is_some_and(has_ended);
    let ended = status.container_statuses.iter().flatten().filter_map(|it| it.state.as_ref()?.terminated.as_ref());
    let mut began = ended.filter_map(|terminated| terminated.started_at.as_ref());
    match condition(status, HAS_SANDBOX) {
        _ if has_ended => began.next().and_then(|_| taken()),
        Some(told) => turned(told).filter(|_| told.status == "True"),
        None if status.pod_ip.is_some() => taken(),
        _ => None,
    }
}

impl Ages for Option<StartedPod> {
    fn set_age(&mut self, age: Option<Duration>) {
        if let Some(pod) = self {
            pod.has_run_for = age;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::observe::kubernetes::objects::tests::ages;

    #[test]
    fn a_pod_has_started_since_it_has_its_sandbox() {
        let started = |status: Value, spec: Value| {
            let pod = json!({"metadata": {"name": "a", "namespace": "b"}, "spec": spec, "status": status});
            ages::<Option<StartedPod>, core::Pod>(vec![pod]).remove(0)
        };
        let [day, late] = ["2026-11-21T00:00:00Z", "2026-11-21T00:09:00Z"];
        let has = |status: &str| {
            json!({"startTime": day, "podIP": "10.244.4.2", "conditions": [
            {"type": "PodReadyToStartContainers", "status": status, "lastTransitionTime": late}]})
        };
        let on = json!({"nodeName": "w1"});
        let pod = started(has("True"), on.clone()).unwrap();
        assert_eq!(
            (pod.name.as_str(), pod.node.as_str(), pod.has_run_for),
            ("b/a", "w1", Some(Duration::from_secs(60)))
        );
        assert_eq!(started(has("False"), on.clone()), None);
        assert_eq!(started(has("True"), json!({"nodeName": "w1", "hostNetwork": true})), None);
        // The form used by kubelets before 1.29.
        let before = started(json!({"startTime": day, "podIP": "10.244.4.2"}), on.clone()).unwrap();
        assert_eq!(before.has_run_for, Some(Duration::from_secs(600)));
        assert_eq!(started(json!({"startTime": day}), on.clone()), None);
        // A pod that has run and ended had a sandbox after it was accepted; one that was evicted before it began may not have had one.
        let ended = |state: Value| {
            let status = json!({"phase": "Succeeded", "startTime": late, "containerStatuses": [
                {"name": "a", "image": "a", "imageID": "", "ready": false, "restartCount": 0, "state": state}]});
            started(status, on.clone()).and_then(|pod| pod.has_run_for)
        };
        assert_eq!(ended(json!({"terminated": {"exitCode": 0, "startedAt": late}})), Some(Duration::from_secs(60)));
        assert_eq!(ended(json!({"terminated": {"exitCode": 137}})), None);
    }

    #[test]
    fn a_pod_that_has_run_is_without_a_sandbox_by_its_condition_or_by_an_event_since() {
        let [long_ago, lost] = ["2026-11-20T00:00:00Z", "2026-11-21T00:05:00Z"];
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": lost});
        let state =
            json!({"terminated": {"exitCode": 255, "reason": "Unknown", "startedAt": long_ago, "finishedAt": lost}});
        let pod = |phase: &str, conditions: &[Value], state: &Value| {
            json!({
                "metadata": {"name": "web", "namespace": "default", "uid": "u"}, "spec": {"nodeName": "w1"},
                "status": {"phase": phase, "conditions": conditions, "containerStatuses": [
                    {"name": "web", "image": "a", "imageID": "", "ready": false, "restartCount": 0, "state": state}]},
            })
        };
        let event = |uid: &str, at: Option<&str>| PodEvent {
            namespace: "default".to_owned(),
            pod: "web".to_owned(),
            uid: uid.to_owned(),
            reason: "FailedCreatePodSandBox".to_owned(),
            message: String::new(),
            at: at.map(|at| at.parse().unwrap()),
        };
        let told = |pod: Value, event: &PodEvent| {
            let stranded = ages::<Option<StrandedPod>, core::Pod>(vec![pod]).remove(0)?;
            let is_told = stranded.is_told(&[event]);
            is_told.then_some((stranded.pod.waiting_for.map(|it| it.as_secs()), stranded.pod.lost_at))
        };
        let since = event("u", Some("2026-11-21T00:05:01Z"));
        let lost_at = |at: &str| Some((Some(300), Some(at.parse().unwrap())));
        let without = condition("PodReadyToStartContainers", "False");
        assert_eq!(told(pod("Running", std::slice::from_ref(&without), &state), &since), lost_at(lost));
        // The condition is enough, no matter when the event was last repeated.
        assert_eq!(
            told(pod("Running", std::slice::from_ref(&without), &state), &event("u", Some(long_ago))),
            lost_at(lost)
        );
        // The form used by kubelets before 1.29.
        let unready = [condition("Ready", "False")];
        assert_eq!(told(pod("Running", &unready, &state), &since), lost_at(long_ago));
        assert_eq!(told(pod("Running", &unready, &state), &event("", None)), lost_at(long_ago));
        assert!(told(pod("Running", &unready, &json!({"waiting": {"reason": "ContainerCreating"}})), &since).is_some());
        // The condition was true, and the event is newer.
        let had = [condition("PodReadyToStartContainers", "True"), condition("Ready", "False")];
        assert_eq!(told(pod("Running", &had, &state), &since), lost_at(lost));
        // The pod has a new sandbox since then, or has not lost any.
        for (conditions, state) in [
            (vec![condition("Ready", "True")], state.clone()),
            (unready.to_vec(), json!({"running": {"startedAt": "2026-11-21T00:05:01Z"}})),
            (had.to_vec(), json!({"running": {"startedAt": "2026-11-21T00:06:00Z"}})),
        ] {
            assert_eq!(told(pod("Running", &conditions, &state), &since), None, "{conditions:?} {state}");
        }
        // The event is about another pod of this name, or the pod has finished, or stage 7 judges it.
        assert_eq!(told(pod("Running", std::slice::from_ref(&without), &state), &event("v", None)), None);
        assert_eq!(told(pod("Succeeded", std::slice::from_ref(&without), &state), &since), None);
        let mut mirror = pod("Running", &[without], &state);
        mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
        assert_eq!(told(mirror, &since), None);
    }
}
