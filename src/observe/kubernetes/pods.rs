//! Converts pods to facts.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::lists::Kept;
use super::objects::{Ages, Since, annotation, controller, name, shared_labels};
use super::wire::core;
use super::wire::meta::{ObjectMeta, Time};
use crate::observe::{exact, flags};
use crate::snapshot::{ContainerState, Flags, Pod, PodState, badness};
use crate::text::sanitize::without_secrets;

impl Kept for Pod {
    type Object = core::Pod;

    // Each of twenty thousand nodes has one pod of each DaemonSet in kube-system.
    const MOST: usize = 100_000;

    fn of(pod: core::Pod) -> Self {
        let mut metadata = pod.metadata;
        let spec = pod.spec.unwrap_or_default();
        let status = pod.status.unwrap_or_default();
        let addresses = status.pod_ips.iter().flatten().map(|it| &it.ip).chain(&status.pod_ip);
        let addresses: BTreeSet<String> = addresses.filter(|it| !it.is_empty()).cloned().collect();
        let mut state = pod_state(status);
        // The runtime may report an image by its digest alone; the specification has its version.
        for container in state.containers.iter_mut().filter(|container| !has_tag(&container.image)) {
            let asked = spec.containers.iter().flatten().find(|asked| asked.name == container.name);
            container.image = asked.and_then(|asked| asked.image.clone()).unwrap_or_default();
        }
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: name(&metadata),
            node: spec.node_name.filter(|node| !node.is_empty()),
            labels: shared_labels(&mut metadata),
            mirror: is_mirror(&metadata),
            deleting: metadata.deletion_timestamp.is_some(),
            controller: controller(&metadata),
            leader_elect: leader_elect(spec.containers.as_deref().unwrap_or_default()),
            flags: spec.containers.filter(|_| is_mirror(&metadata)).and_then(component_flags),
            unready_for: None,
            addresses: exact(addresses.into_iter().collect()),
            state,
        }
    }
}

impl Ages for Pod {
    fn set_age(&mut self, age: Option<Duration>) {
        self.unready_for = age;
    }
}

impl Kept for Since<Pod, core::Pod> {
    type Object = core::Pod;

    const MOST: usize = Pod::MOST;

    fn of(pod: core::Pod) -> Self {
        let ready = pod.status.as_ref().and_then(|status| condition(status, "Ready"));
        let since = ready.and_then(turned).or(pod.metadata.creation_timestamp.as_ref().map(|Time(time)| *time));
        let is_ready = ready.is_some_and(|condition| condition.status == "True");
        Self::new(Pod::of(pod), since.filter(|_| !is_ready))
    }
}

/// Returns the worst of several conditions of one type. All types that are read are True for a healthy pod.
pub(super) fn condition<'a>(status: &'a core::PodStatus, kind: &str) -> Option<&'a core::PodCondition> {
    let told = status.conditions.iter().flatten().filter(|condition| condition.type_ == kind);
    told.max_by_key(|condition| badness(&condition.status, "True"))
}

pub(super) fn turned(condition: &core::PodCondition) -> Option<Timestamp> {
    condition.last_transition_time.as_ref().map(|Time(time)| *time)
}

pub(super) fn is_mirror(metadata: &ObjectMeta) -> bool {
    annotation(metadata, "kubernetes.io/config.mirror").is_some()
}

/// Images of the containers that run in a pod, as the pod specifies them.
#[derive(Debug)]
pub(super) struct RunningImages {
    pub(super) node: String,
    pub(super) images: Vec<String>,
}

impl Kept for RunningImages {
    type Object = core::Pod;

    const MOST: usize = Pod::MOST;

    fn of(pod: core::Pod) -> Self {
        let (spec, status) = (pod.spec.unwrap_or_default(), pod.status.unwrap_or_default());
        let statuses = status.container_statuses.unwrap_or_default();
        let runs = |name: &str| {
            let mut its = statuses.iter().filter(|it| it.name == name);
            its.any(|it| it.state.as_ref().is_some_and(|state| state.running.is_some()))
        };
        let running = spec.containers.unwrap_or_default().into_iter().filter(|it| runs(&it.name));
        Self { node: spec.node_name.unwrap_or_default(), images: running.filter_map(|it| it.image).collect() }
    }
}

/// Returns the value of `--leader-elect`. The last one counts, and the syntax is Go's.
fn leader_elect(containers: &[core::Container]) -> Option<bool> {
    let words = containers.iter().flat_map(|container| container.command.iter().chain(&container.args).flatten());
    let mut values = words.filter_map(|word| word.strip_prefix("--leader-elect"));
    match values.rfind(|value| value.is_empty() || value.starts_with('='))? {
        "" | "=true" | "=True" | "=TRUE" | "=t" | "=T" | "=1" => Some(true),
        "=false" | "=False" | "=FALSE" | "=f" | "=F" | "=0" => Some(false),
        _ => None,
    }
}

/// Returns the flags of the first container with the name of a component.
pub(super) fn component_flags(containers: Vec<core::Container>) -> Option<Flags> {
    const COMPONENTS: [&str; 4] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"];
    let container = containers.into_iter().find(|container| COMPONENTS.contains(&container.name.as_str()))?;
    let (name, command) = (container.name, container.command.unwrap_or_default());
    let is_component = |word: &String| word.rsplit('/').next() == Some(name.as_str());
    // Words before the component belong to another program, such as one that writes its log. A shell hides all flags.
    let own = if command.is_empty() { 0 } else { command.iter().position(is_component)? };
    let words = command.into_iter().skip(own).chain(container.args.unwrap_or_default());
    Some(flags::of_command(name, words))
}

/// Returns whether an image has a tag: `registry:5000/name:tag`, possibly followed by `@sha256:…`.
fn has_tag(image: &str) -> bool {
    let name = image.split('@').next().unwrap_or_default();
    name.rsplit('/').next().is_some_and(|last| last.contains(':')) && !name.starts_with("sha256:")
}

fn pod_state(status: core::PodStatus) -> PodState {
    let ready = condition(&status, "Ready").map(|ready| ready.status == "True");
    let conditions = status.conditions.unwrap_or_default();
    let message = status
        .message
        .or_else(|| {
            // The reason for not being scheduled is more helpful than unready containers.
            ["PodScheduled", "Initialized", "Ready"].into_iter().find_map(|kind| {
                conditions
                    .iter()
                    .find(|condition| condition.type_ == kind && condition.status != "True")
                    .and_then(|condition| condition.message.clone())
            })
        })
        .or(status.reason)
        .unwrap_or_default();
    // An init container that has done its work is ready. An unfinished one is the reason why the others wait, so it comes first.
    let unfinished =
        status.init_container_statuses.unwrap_or_default().into_iter().filter(|container| !container.ready);
    PodState {
        phase: status.phase.unwrap_or_default(),
        ready,
        containers: exact(unfinished.chain(status.container_statuses.unwrap_or_default()).map(container).collect()),
        message: without_secrets(&message),
    }
}

fn container(status: core::ContainerStatus) -> ContainerState {
    let state = status.state.unwrap_or_default();
    let waiting = state.waiting.unwrap_or_default();
    let terminated = state.terminated.or(status.last_state.and_then(|last| last.terminated));
    ContainerState {
        name: status.name,
        image: status.image,
        ready: status.ready,
        restarts: u32::try_from(status.restart_count).unwrap_or_default(),
        running: state.running.is_some(),
        waiting_reason: waiting.reason,
        waiting_message: waiting.message.as_deref().map(without_secrets),
        exit_code: terminated.as_ref().map(|terminated| terminated.exit_code),
        finished: terminated.as_ref().and_then(|terminated| Some(terminated.finished_at.as_ref()?.0)),
        termination_reason: terminated.as_ref().and_then(|terminated| terminated.reason.clone()),
        termination_message: terminated.and_then(|it| it.message).as_deref().map(without_secrets),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::observe::kubernetes::objects::tests::{ages, read};

    #[test]
    fn of_two_words_on_one_condition_the_worse_counts() {
        let word =
            |status: &str| json!({"type": "Ready", "status": status, "lastTransitionTime": "2026-11-21T00:00:00Z"});
        for (words, ready) in [
            (json!([word("True"), word("False")]), Some(false)),
            (json!([word("False"), word("True")]), Some(false)),
            (json!([word("True"), word("Unknown")]), Some(false)),
            (json!([word("True"), word("True")]), Some(true)),
            (json!([]), None),
        ] {
            let pod = json!({"metadata": {"name": "a", "namespace": "b"}, "status": {"conditions": words}});
            assert_eq!(Pod::of(read(pod.clone())).state.ready, ready, "{words}");
            let is_aged = Since::<Pod, core::Pod>::of(read(pod)).began.is_some();
            assert_eq!(is_aged, ready == Some(false), "{words}");
        }
    }

    #[test]
    fn a_crash_looping_pod_is_phase_running() {
        let pod = Pod::of(read(json!({
            "metadata": {
                "name": "kube-scheduler-cp-2", "namespace": "kube-system",
                "annotations": {"kubernetes.io/config.mirror": "0123456789abcdef"},
                "labels": {"k8s-app": "kube-scheduler"},
            },
            "spec": {"nodeName": "cp-2", "containers": []},
            "status": {
                "phase": "Running",
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "ContainersNotReady",
                     "message": "containers with unready status: [kube-scheduler]"},
                ],
                "containerStatuses": [{
                    "name": "kube-scheduler", "ready": false, "restartCount": 7, "image": "", "imageID": "",
                    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
                    "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": "no such flag\ntoken: hunter2", "finishedAt": "2026-11-21T14:04:08Z"}},
                }],
                "initContainerStatuses": [
                    {"name": "done", "ready": true, "restartCount": 0, "image": "", "imageID": ""},
                    {"name": "stuck", "ready": false, "restartCount": 0, "image": "", "imageID": ""},
                ],
            },
        })));
        assert!(pod.mirror);
        assert_eq!(pod.node.as_deref(), Some("cp-2"));
        assert_eq!((pod.state.phase.as_str(), pod.state.ready), ("Running", Some(false)));
        assert_eq!(pod.state.message, "containers with unready status: [kube-scheduler]");
        let names: Vec<_> = pod.state.containers.iter().map(|container| container.name.as_str()).collect();
        assert_eq!(names, ["stuck", "kube-scheduler"]);
        let container = &pod.state.containers[1];
        assert_eq!((container.ready, container.running, container.restarts), (false, false, 7));
        assert_eq!(container.waiting_reason.as_deref(), Some("CrashLoopBackOff"));
        assert_eq!(container.exit_code, Some(1));
        assert_eq!(container.finished, Some("2026-11-21T14:04:08Z".parse().unwrap()));
        assert_eq!(container.termination_message.as_deref(), Some("no such flag\ntoken ***"));
    }

    #[test]
    fn an_image_that_the_runtime_calls_by_its_digest_is_told_by_the_specification() {
        for (running, expected) in [
            ("registry:5000/kube-scheduler:v1.35.3@sha256:abc", "registry:5000/kube-scheduler:v1.35.3@sha256:abc"),
            ("sha256:abc", "registry:5000/kube-scheduler:v1.35.4"),
            ("registry:5000/kube-scheduler@sha256:abc", "registry:5000/kube-scheduler:v1.35.4"),
            ("", "registry:5000/kube-scheduler:v1.35.4"),
        ] {
            let pod = Pod::of(read(json!({
                "metadata": {"name": "kube-scheduler-cp-2", "namespace": "kube-system"},
                "spec": {"containers": [{"name": "kube-scheduler", "image": "registry:5000/kube-scheduler:v1.35.4"}]},
                "status": {"containerStatuses": [
                    {"name": "kube-scheduler", "ready": true, "restartCount": 0, "image": running, "imageID": ""},
                ]},
            })));
            assert_eq!(pod.state.containers[0].image, expected);
        }
    }

    #[test]
    fn flags_are_those_of_the_component_and_not_of_what_starts_it() {
        let of = |command: Value, args: Value| {
            let pod = read::<core::Pod>(json!({
                "metadata": {"name": "a", "annotations": {"kubernetes.io/config.mirror": "1"}},
                "spec": {"containers": [{"name": "kube-apiserver", "command": command, "args": args}]},
            }));
            Pod::of(pod).flags.map(|flags| flags.names)
        };
        let flags = || Some(vec!["profiling".to_owned()]);
        assert_eq!(of(json!(["kube-apiserver", "--profiling=false"]), json!(null)), flags());
        assert_eq!(
            of(json!(["/go-runner", "--log-file=x", "/usr/bin/kube-apiserver"]), json!(["--profiling"])),
            flags()
        );
        assert_eq!(of(json!(null), json!(["--profiling"])), flags());
        assert_eq!(
            of(json!(["/go-runner", "--log-file=x", "/bin/sh", "-c", "exec kube-apiserver --x"]), json!(null)),
            None
        );
    }

    #[test]
    fn a_pod_tells_whether_it_takes_part_in_an_election() {
        for (command, args, expected) in [
            (json!(["kube-scheduler", "--leader-elect=false"]), json!(null), Some(false)),
            (json!(["kube-scheduler", "--leader-elect=true"]), json!(["--leader-elect=0"]), Some(false)),
            (json!(["kube-scheduler", "--leader-elect=false", "--leader-elect"]), json!([]), Some(true)),
            (json!(["kube-scheduler", "--leader-elect-lease-duration=15s"]), json!(null), None),
            (json!(["kube-scheduler", "--leader-elect=no"]), json!(null), None),
            (json!(null), json!(null), None),
        ] {
            let pod = Pod::of(read(json!({
                "metadata": {"name": "kube-scheduler-cp-2", "namespace": "kube-system"},
                "spec": {"containers": [{"name": "kube-scheduler", "command": command, "args": args}]},
            })));
            assert_eq!(pod.leader_elect, expected, "{command} {args}");
        }
    }

    #[test]
    fn a_pod_without_status_is_not_ready() {
        let pod = Pod::of(read(json!({"metadata": {"name": "a", "namespace": "kube-system"}})));
        assert_eq!(pod.state.ready, None);
        assert!(pod.state.containers.is_empty());
    }

    #[test]
    fn a_pod_is_unready_since_its_condition_turned() {
        let pod = |created: &str, conditions: Value| json!({"metadata": {"name": "a", "namespace": "b", "creationTimestamp": created}, "status": {"conditions": conditions}});
        let [day, late] = ["2026-11-21T00:00:00Z", "2026-11-21T00:09:00Z"];
        let pods = ages::<Pod, core::Pod>(vec![
            pod(day, json!([{"type": "Ready", "status": "True", "lastTransitionTime": day}])),
            pod(day, json!([{"type": "Ready", "status": "False", "lastTransitionTime": late}])),
            pod(day, json!([{"type": "Ready", "status": "False"}])),
            pod(late, json!([{"type": "ContainersReady", "status": "False", "lastTransitionTime": day}])),
            pod("2026-11-21T00:20:00Z", json!([])),
            json!({"metadata": {"name": "a", "namespace": "b"}}),
        ]);
        let seconds: Vec<_> = pods.iter().map(|pod| pod.unready_for.map(|age| age.as_secs())).collect();
        assert_eq!(seconds, [None, Some(60), Some(600), Some(60), Some(0), None]);
    }
}
