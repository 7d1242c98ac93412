//! Converts Kubernetes objects to facts. Only fields that a check reads are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::gaps::short;
use super::lists::{Item, Kept, Listed};
use super::room;
use super::wire::meta::{MicroTime, ObjectMeta, Time};
use super::wire::{apps, coordination, core, discovery};
use crate::observe::flags;
use crate::snapshot::{
    AUTOSCALER_TAINT, Condition, ContainerState, Flags, KubeNode, Lease, Leases, Pod, PodEvent, PodState, PullingPod,
    ServiceEndpoint, Spread, StartingPod, Taint, UnplacedPod, Workload, badness, has_ended,
};
use crate::text::sanitize::without_secrets;

/// Returns the object's name, which lists guarantee to exist.
pub(super) fn name(metadata: &ObjectMeta) -> String {
    metadata.name.clone().unwrap_or_default()
}

fn labels(metadata: &ObjectMeta) -> BTreeMap<String, String> {
    metadata.labels.clone().unwrap_or_default()
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

fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// Annotations in which flannel publishes a node's address; with the suffix `-overwrite`, the user sets the address.
const FLANNEL: [&str; 2] = ["flannel.alpha.coreos.com/public-ip", "flannel.alpha.coreos.com/public-ipv6"];

/// Returns the time since which a node has been marked for removal.
fn leaving_since(metadata: &ObjectMeta, taints: &[core::Taint]) -> Option<Timestamp> {
    let marked = taints.iter().filter(|taint| taint.key == AUTOSCALER_TAINT).filter_map(|taint| {
        let told = taint.value.as_ref().and_then(|seconds| Timestamp::from_second(seconds.parse().ok()?).ok());
        told.or(taint.time_added.as_ref().map(|time| time.0))
    });
    marked.chain(metadata.deletion_timestamp.as_ref().map(|time| time.0)).min()
}

/// Returns Node objects with the time of the list.
pub(super) fn nodes(listed: Listed<KubeNode>) -> Vec<KubeNode> {
    listed.items.into_iter().map(|item| KubeNode { told: listed.date, ..item.kept }).collect()
}

impl Kept for KubeNode {
    type Object = core::Node;

    fn of(node: core::Node) -> Self {
        let mut metadata = node.metadata;
        let labels = metadata.labels.take().unwrap_or_default();
        let spec = node.spec.unwrap_or_default();
        let status = node.status.unwrap_or_default();
        let info = status.node_info.unwrap_or_default();
        let leaving_since = leaving_since(&metadata, spec.taints.as_deref().unwrap_or_default());
        let addresses = status.addresses.unwrap_or_default();
        let of = |kind: &str| -> Vec<String> {
            let told = addresses.iter().filter(|address| address.type_ == kind);
            told.map(|address| address.address.clone()).collect()
        };
        Self {
            name: name(&metadata),
            // Some clouds list the external address first, and it may be unreachable.
            addresses: [of("InternalIP"), of("ExternalIP")].concat(),
            internal: of("InternalIP"),
            overlay: FLANNEL.iter().filter_map(|key| annotation(&metadata, key)).map(str::to_owned).collect(),
            overlay_is_set: FLANNEL.iter().any(|key| annotation(&metadata, &format!("{key}-overwrite")).is_some()),
            control_plane_label: labels.contains_key("node-role.kubernetes.io/control-plane"),
            labels,
            machine_id: info.machine_id,
            boot_id: info.boot_id,
            os_image: info.os_image,
            kernel: info.kernel_version,
            kubelet_version: info.kubelet_version,
            unschedulable: spec.unschedulable.unwrap_or_default(),
            cordoned_by_talos: annotation(&metadata, "talos.dev/cordoned") == Some("true"),
            cordoned_since: cordoned_since(spec.taints.as_deref().unwrap_or_default()),
            taints: taints(spec.taints),
            pod_cidrs: spec
                .pod_cidrs
                .filter(|it| !it.is_empty())
                .unwrap_or_else(|| [spec.pod_cidr].into_iter().filter(|it| !it.is_empty()).collect()),
            out_of: room::out_of(status.allocatable.as_ref()),
            conditions: status
                .conditions
                .unwrap_or_default()
                .into_iter()
                .map(|condition| Condition {
                    kind: condition.type_,
                    status: condition.status,
                    reason: condition.reason.unwrap_or_default(),
                    message: condition.message.as_deref().map(without_secrets).unwrap_or_default(),
                    since: condition.last_transition_time.map(|Time(time)| time),
                })
                .collect(),
            deleting: metadata.deletion_timestamp.is_some(),
            leaving_since,
            // Set later, from the list.
            told: None,
            created: metadata.creation_timestamp.map(|time| time.0),
        }
    }
}

fn cordoned_since(taints: &[core::Taint]) -> Option<Timestamp> {
    let taint = taints.iter().find(|taint| taint.key == "node.kubernetes.io/unschedulable")?;
    taint.time_added.as_ref().map(|time| time.0)
}

pub(super) fn taints(taints: Option<Vec<core::Taint>>) -> Vec<Taint> {
    let taint = |it: core::Taint| Taint { key: it.key, value: it.value.unwrap_or_default(), effect: it.effect };
    taints.unwrap_or_default().into_iter().map(taint).collect()
}

impl Kept for Pod {
    type Object = core::Pod;

    // Each of twenty thousand nodes has one pod of each DaemonSet in kube-system.
    const MOST: usize = 100_000;

    fn of(pod: core::Pod) -> Self {
        let metadata = pod.metadata;
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
            labels: labels(&metadata),
            mirror: is_mirror(&metadata),
            deleting: metadata.deletion_timestamp.is_some(),
            controller: controller(&metadata),
            leader_elect: leader_elect(spec.containers.as_deref().unwrap_or_default()),
            flags: spec.containers.filter(|_| is_mirror(&metadata)).and_then(component_flags),
            unready_for: None,
            addresses: addresses.into_iter().collect(),
            state,
        }
    }
}

/// The kept part of an object of kind `K`, and the time of its last change. The age can be computed only from the whole answer, which has
/// the server's clock.
#[derive(Debug)]
pub(super) struct Since<T, K> {
    kept: T,
    began: Option<Timestamp>,
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

impl Ages for Pod {
    fn set_age(&mut self, age: Option<Duration>) {
        self.unready_for = age;
    }
}

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

impl Ages for Workload {
    fn set_age(&mut self, age: Option<Duration>) {
        self.unchanged_for = age;
    }
}

/// Computes the age of each object of a list, by the clock of the server that answered.
pub(super) fn aged<T: Ages, K>(listed: Listed<Since<T, K>>) -> Vec<T> {
    let date = listed.date;
    let aged = |Item { kept: Since { mut kept, began, .. }, .. }: Item<Since<T, K>>| {
        // A time in the future counts as now.
        kept.set_age(date.zip(began).map(|(date, began)| Duration::try_from(date - began).unwrap_or_default()));
        kept
    };
    listed.items.into_iter().map(aged).collect()
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

/// The condition for a pod's sandbox, which kubelets before 1.29 do not report.
const HAS_SANDBOX: &str = "PodReadyToStartContainers";

/// Returns the worst of several conditions of one type. All types that are read are True for a healthy pod.
fn condition<'a>(status: &'a core::PodStatus, kind: &str) -> Option<&'a core::PodCondition> {
    let told = status.conditions.iter().flatten().filter(|condition| condition.type_ == kind);
    told.max_by_key(|condition| badness(&condition.status, "True"))
}

fn turned(condition: &core::PodCondition) -> Option<Timestamp> {
    condition.last_transition_time.as_ref().map(|Time(time)| *time)
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

/// Returns the pod's controller, or else the pod's own name. For controllers with a new name per version or run, it returns the part that
/// these names share.
fn owner(metadata: &ObjectMeta) -> String {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let Some((kind, own)) = controller(metadata) else { return format!("{namespace}/{}", name(metadata)) };
    let is_one_of_many =
        |rest: &str| kind == "ReplicaSet" || kind == "Job" && rest.bytes().all(|it| it.is_ascii_digit());
    let shared =
        own.rsplit_once('-').filter(|(_, rest)| is_one_of_many(rest)).map_or(own.as_str(), |(shared, _)| shared);
    format!("{namespace}/{kind}/{shared}")
}

fn is_mirror(metadata: &ObjectMeta) -> bool {
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
fn without_sandbox(
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
fn component_flags(containers: Vec<core::Container>) -> Option<Flags> {
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
        containers: unfinished.chain(status.container_statuses.unwrap_or_default()).map(container).collect(),
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

impl Kept for Lease {
    type Object = coordination::Lease;

    fn of(lease: coordination::Lease) -> Self {
        let spec = lease.spec.unwrap_or_default();
        Self {
            namespace: lease.metadata.namespace.unwrap_or_default(),
            // Set later, by comparison with earlier samples.
            moved_within: None,
            still_for: None,
            renewed: spec.renew_time.map(|time| time.0),
            resource_version: lease.metadata.resource_version.unwrap_or_default(),
            hostname: lease.metadata.labels.and_then(|mut labels| labels.remove("kubernetes.io/hostname")),
            holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
            lasts: spec
                .lease_duration_seconds
                .and_then(|seconds| u64::try_from(seconds).ok())
                .filter(|seconds| *seconds > 0)
                .map(Duration::from_secs),
        }
    }
}

/// The change of a lease since earlier samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Movement {
    pub(super) moved_within: Option<Duration>,
    pub(super) still_for: Option<Duration>,
}

/// Returns the leases. `movement` compares name and resource version with earlier samples.
pub(super) fn leases(listed: Listed<Lease>, movement: impl Fn(&str, &str) -> Movement) -> Leases {
    let lease = |item: Item<Lease>| {
        let Movement { moved_within, still_for } = movement(&item.name, &item.kept.resource_version);
        (item.name, Lease { moved_within, still_for, ..item.kept })
    };
    let (date, last_date) = (listed.date, listed.last_date);
    Leases { date, last_date, by_name: listed.items.into_iter().map(lease).collect() }
}

/// Returns when the workload last changed: each writer to an object leaves its name and the time there. Once the controller has observed
/// the specification, only writes to the status count, since any client may touch an annotation.
fn changed(metadata: &ObjectMeta, workload: &Workload) -> Option<Timestamp> {
    let writes = || metadata.managed_fields.iter().flatten().filter_map(|entry| Some((entry, entry.time.as_ref()?.0)));
    let of_status = writes().filter(|(entry, _)| workload.is_observed() && entry.subresource == "status");
    of_status.map(|(_, at)| at).max().or_else(|| writes().map(|(_, at)| at).max())
}

impl Kept for Since<Workload, apps::DaemonSet> {
    type Object = apps::DaemonSet;

    fn of(set: apps::DaemonSet) -> Self {
        let status = set.status.unwrap_or_default();
        let spec = set.spec.unwrap_or_default();
        let desired = status.desired_number_scheduled;
        let pod = spec.template.spec.unwrap_or_default();
        let workload = Workload {
            observed_generation: status.observed_generation,
            desired,
            available: status.number_available.unwrap_or_default(),
            updated: rolls_out(&spec.update_strategy).then(|| status.updated_number_scheduled.unwrap_or_default()),
            installs_network: installs_network(&pod),
            registers_driver: registers_driver(&pod),
            is_critical: is_critical(pod.priority_class_name.as_deref()),
            spread: Spread {
                host_network: pod.host_network == Some(true),
                placement: room::placement(pod.node_selector, pod.affinity, pod.tolerations),
                max_unavailable: max_unavailable(spec.update_strategy.rolling_update, desired),
            },
            flags: pod.containers.and_then(component_flags),
            ..workload(&set.metadata)
        };
        let changed = changed(&set.metadata, &workload);
        Self::new(workload, changed)
    }
}

impl Kept for Since<Workload, apps::Deployment> {
    type Object = apps::Deployment;

    fn of(deployment: apps::Deployment) -> Self {
        let status = deployment.status.unwrap_or_default();
        let updated = status.updated_replicas.unwrap_or_default();
        let says = |kind: &str, wrong: &str| {
            let mut conditions = status.conditions.iter().flatten();
            let it = conditions.find(|condition| condition.type_ == kind && condition.status == wrong)?;
            Some(without_secrets(it.message.as_deref().or(it.reason.as_deref()).unwrap_or_default()))
        };
        let spec = deployment.spec.unwrap_or_default();
        let workload = Workload {
            observed_generation: status.observed_generation,
            desired: replicas(spec.replicas),
            is_critical: is_ranked_critical(&spec.template),
            available: status.available_replicas.unwrap_or_default(),
            updated: Some(updated),
            outdated: status.replicas.unwrap_or_default().saturating_sub(updated).max(0),
            given_up: says("Progressing", "False"),
            refused: says("ReplicaFailure", "True"),
            ..workload(&deployment.metadata)
        };
        let changed = changed(&deployment.metadata, &workload);
        Self::new(workload, changed)
    }
}

impl Kept for Since<Workload, apps::StatefulSet> {
    type Object = apps::StatefulSet;

    fn of(set: apps::StatefulSet) -> Self {
        let status = set.status.unwrap_or_default();
        let spec = set.spec.unwrap_or_default();
        // If the newest revision is the only one, all pods belong to it, regardless of the count.
        let is_rolling = status.current_revision != status.update_revision && rolls_out(&spec.update_strategy);
        let workload = Workload {
            observed_generation: status.observed_generation,
            desired: replicas(spec.replicas),
            available: status.available_replicas.unwrap_or_default(),
            updated: is_rolling.then(|| status.updated_replicas.unwrap_or_default()),
            is_critical: is_ranked_critical(&spec.template),
            ..workload(&set.metadata)
        };
        let changed = changed(&set.metadata, &workload);
        Self::new(workload, changed)
    }
}

/// Returns whether a DaemonSet installs a network plugin, regardless of its name: its pods mount the folder where every container runtime
/// looks for network plugins or, if they run in the host's network and so do not need a plugin themselves, the folder of their
/// configuration.
fn installs_network(pod: &apps::PodTemplateSpec) -> bool {
    let mut folders = host_folders(pod);
    let is_in = |folder: &str, parent: &str| {
        folder.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    folders.any(|it| is_in(it, "/opt/cni") || pod.host_network == Some(true) && is_in(it, "/etc/cni"))
}

/// Returns whether a DaemonSet registers a driver: the kubelet looks for drivers' sockets in a folder of this name, wherever its own folder
/// is. Without a CSI socket, no volume of the driver can be mounted on the node.
fn registers_driver(pod: &apps::PodTemplateSpec) -> bool {
    host_folders(pod).any(|folder| folder.ends_with("/plugins_registry"))
}

fn is_ranked_critical(template: &apps::RankedTemplate) -> bool {
    is_critical(template.spec.as_ref().and_then(|spec| spec.priority_class_name.as_deref()))
}

/// Returns whether a priority class is one of Kubernetes' own for pods that the cluster depends on.
fn is_critical(class: Option<&str>) -> bool {
    matches!(class, Some("system-cluster-critical" | "system-node-critical"))
}

/// Returns the folders of the node that the pods mount.
fn host_folders(pod: &apps::PodTemplateSpec) -> impl Iterator<Item = &str> {
    let paths = pod.volumes.iter().flatten().filter_map(|volume| volume.host_path.as_ref());
    paths.map(|path| path.path.trim_end_matches('/'))
}

/// Returns whether the controller replaces all pods with those of its newest template. With `OnDelete` or a partition, users do that.
fn rolls_out(strategy: &apps::UpdateStrategy) -> bool {
    let partition = strategy.rolling_update.as_ref().and_then(|rolling| rolling.partition);
    strategy.type_.as_deref() != Some("OnDelete") && partition.unwrap_or_default() == 0
}

/// Returns how many of the desired pods may be unavailable. The API server's default is one, and a percentage is rounded up.
fn max_unavailable(rolling: Option<apps::RollingUpdate>, desired: i32) -> usize {
    let count = match rolling.and_then(|it| it.max_unavailable) {
        None => 1,
        Some(IntOrString::Int(count)) => i64::from(count),
        Some(IntOrString::String(share)) => {
            let percent = share.strip_suffix('%').and_then(|number| number.parse::<u32>().ok()).unwrap_or_default();
            (i64::from(desired) * i64::from(percent) + 99) / 100
        }
    };
    usize::try_from(count).unwrap_or_default()
}

/// Returns the number of replicas. The API server's default is one.
fn replicas(replicas: Option<i32>) -> i32 {
    replicas.unwrap_or(1)
}

/// Returns a workload whose pods have not been counted.
fn workload(metadata: &ObjectMeta) -> Workload {
    Workload {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: name(metadata),
        labels: labels(metadata),
        generation: metadata.generation.unwrap_or_default(),
        observed_generation: None,
        desired: 0,
        available: 0,
        updated: None,
        outdated: 0,
        given_up: None,
        refused: None,
        unchanged_for: None,
        installs_network: false,
        registers_driver: false,
        flags: None,
        is_critical: false,
        spread: Spread::default(),
    }
}

/// The API's default.
const TCP: &str = "TCP";

/// The endpoints of a Service. Terminating ones do not count.
#[derive(Debug)]
pub(super) struct Slice {
    pub(super) namespace: String,
    pub(super) service: String,
    /// Whether it has a UDP port with a DNS name. The port number does not help: it is that of the pods.
    pub(super) has_dns_port: bool,
    pub(super) endpoints: Vec<ServiceEndpoint>,
}

impl Slice {
    /// Returns its endpoints. Outside of kube-system, an empty slice becomes one endpoint without addresses: its Service exists, but
    /// nothing serves it.
    pub(super) fn shown(self) -> Vec<ServiceEndpoint> {
        if !self.endpoints.is_empty() || self.namespace == "kube-system" {
            return self.endpoints;
        }
        vec![ServiceEndpoint {
            namespace: self.namespace,
            addresses: Vec::new(),
            ready: false,
            node: None,
            pod: None,
            port: None,
            protocols: None,
        }]
    }
}

impl Kept for Slice {
    type Object = discovery::EndpointSlice;

    fn of(slice: discovery::EndpointSlice) -> Self {
        let service = labels(&slice.metadata).remove("kubernetes.io/service-name").unwrap_or_default();
        let protocol = |port: &discovery::EndpointPort| port.protocol.clone().unwrap_or_else(|| TCP.to_owned());
        let mut of_tcp = slice.ports.iter().flatten().filter(|port| protocol(port) == TCP);
        let port = of_tcp.find_map(|port| u16::try_from(port.port?).ok());
        let protocols = slice.ports.as_ref().map(|ports| ports.iter().map(protocol).collect::<BTreeSet<_>>());
        let protocols: Option<Vec<String>> = protocols.map(|them| them.into_iter().collect());
        let namespace = slice.metadata.namespace.as_ref();
        let is_pod_of_service = |target: &core::ObjectReference| {
            target.kind.as_deref() == Some("Pod") && target.namespace.as_ref().is_none_or(|it| Some(it) == namespace)
        };
        let endpoint = |endpoint: discovery::Endpoint| {
            let conditions = endpoint.conditions.unwrap_or_default();
            if conditions.terminating == Some(true) || endpoint.addresses.is_empty() {
                return None;
            }
            Some(ServiceEndpoint {
                namespace: namespace.cloned().unwrap_or_default(),
                addresses: endpoint.addresses,
                // "A nil value should be interpreted as true", according to the API.
                ready: conditions.ready.unwrap_or(true),
                node: endpoint.node_name,
                pod: endpoint.target_ref.filter(is_pod_of_service).and_then(|pod| pod.name),
                port,
                protocols: protocols.clone(),
            })
        };
        let is_dns = |port: &discovery::EndpointPort| {
            // The chart of `CoreDNS` names the port by its number.
            let is_named = port.name.as_deref().is_some_and(|name| name.starts_with("dns") || name == "udp-53");
            protocol(port) == "UDP" && is_named
        };
        let namespace = namespace.cloned().unwrap_or_default();
        let has_dns_port = slice.ports.iter().flatten().any(is_dns);
        Self { namespace, service, has_dns_port, endpoints: slice.endpoints.into_iter().filter_map(endpoint).collect() }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    pub(in super::super) fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_node_keeps_what_is_judged() {
        let node = KubeNode::of(read(json!({
            "metadata": {
                "name": "cp-1", "creationTimestamp": "2026-11-21T13:33:57Z", "resourceVersion": "27475",
                "labels": {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/hostname": "cp-1"},
                "annotations": {"talos.dev/cordoned": "true", "flannel.alpha.coreos.com/public-ip": "10.0.0.1",
                    "flannel.alpha.coreos.com/public-ipv6-overwrite": "fd00::1"},
            },
            "spec": {"unschedulable": true, "taints": [
                {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "2026-11-21T13:40:00Z"},
            ], "podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24", "fd00:10:244:1::/64"]},
            "status": {
                "allocatable": {"cpu": "0", "memory": "1Gi"},
                "addresses": [
                    {"type": "ExternalIP", "address": "192.0.2.1"},
                    {"type": "InternalIP", "address": "10.0.0.1"},
                    {"type": "Hostname", "address": "cp-1"},
                ],
                "conditions": [{
                    "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
                    "message": "Kubelet stopped posting node status.",
                    "lastHeartbeatTime": null, "lastTransitionTime": "2026-11-21T13:56:40Z",
                }],
                "nodeInfo": {
                    "osImage": "Talos (v1.13.0)", "architecture": "amd64", "bootID": "", "machineID": "", "systemUUID": "",
                    "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "v1.35.4",
                    "operatingSystem": "linux",
                },
            },
        })));
        assert_eq!(node.addresses, ["10.0.0.1", "192.0.2.1"]);
        assert_eq!(node.internal, ["10.0.0.1"]);
        assert_eq!((node.overlay.as_slice(), node.overlay_is_set), (&["10.0.0.1".to_owned()][..], true));
        assert_eq!(node.pod_cidrs, ["10.244.1.0/24", "fd00:10:244:1::/64"]);
        assert_eq!(node.out_of, ["cpu", "pods"]);
        assert!(node.control_plane_label && node.unschedulable && node.cordoned_by_talos && !node.deleting);
        let taints: Vec<_> = node.taints.iter().map(|taint| (taint.key.as_str(), taint.effect.as_str())).collect();
        assert_eq!(
            taints,
            [
                ("node-role.kubernetes.io/control-plane", "NoSchedule"),
                ("node.kubernetes.io/unschedulable", "NoSchedule")
            ]
        );
        assert_eq!((node.os_image.as_str(), node.kubelet_version.as_str()), ("Talos (v1.13.0)", "v1.35.4"));
        let ready = node.condition("Ready").unwrap();
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("Unknown", "NodeStatusUnknown"));
        assert_eq!(ready.since, Some("2026-11-21T13:56:40Z".parse().unwrap()));
        assert_eq!(node.created, Some("2026-11-21T13:33:57Z".parse().unwrap()));
    }

    #[test]
    fn a_node_leaves_since_it_was_marked_or_deleted() {
        let since = |metadata: Value, taints: Value| {
            let node = KubeNode::of(read(json!({"metadata": metadata, "spec": {"taints": taints}})));
            node.leaving_since.map(Timestamp::as_second)
        };
        let taint = |value: &str| {
            let key = "ToBeDeletedByClusterAutoscaler";
            json!([{"key": key, "value": value, "effect": "NoSchedule", "timeAdded": "2026-11-21T13:40:00Z"}])
        };
        let (name, added, marked) = (json!({"name": "w-1"}), 1_795_268_400, 1_795_268_100);
        assert_eq!(since(name.clone(), json!([])), None);
        assert_eq!(since(name.clone(), taint(&marked.to_string())), Some(marked));
        for value in ["", "soon", "99999999999999999999"] {
            assert_eq!(since(name.clone(), taint(value)), Some(added), "{value}");
        }
        // The node was marked, but without a time.
        let untold = json!([{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]);
        assert_eq!(since(name.clone(), untold), None);
        let other =
            json!([{"key": "DeletionCandidateOfClusterAutoscaler", "value": "1", "effect": "PreferNoSchedule"}]);
        assert_eq!(since(name, other), None, "it may stay");
        let deleted = json!({"name": "w-1", "deletionTimestamp": "2026-11-21T13:39:00Z"});
        assert_eq!(since(deleted.clone(), json!([])), Some(added - 60));
        assert_eq!(since(deleted, taint(&marked.to_string())), Some(marked), "whatever was first");
    }

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
    fn an_empty_node_claims_nothing() {
        let node = KubeNode::of(read(json!({"metadata": {"name": "w-1"}})));
        assert_eq!(node.condition("Ready"), None);
        assert!(node.addresses.is_empty() && node.created.is_none());
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
    fn leases_keep_renewal_holder_and_the_clock_of_the_server() {
        let items = vec![read(json!({
            "metadata": {"name": "cp-1", "resourceVersion": "20", "labels": {"kubernetes.io/hostname": "cp-1"}},
            "spec": {"holderIdentity": "cp-1", "renewTime": "2026-11-21T13:52:13.123456Z"},
        }))];
        let date = Some("2026-11-21T13:52:14Z".parse().unwrap());
        let leases = leases(Listed { date, last_date: date, items }, |name, version| {
            let is_known = (name, version) == ("cp-1", "20");
            Movement { moved_within: is_known.then_some(Duration::from_secs(12)), still_for: None }
        });
        assert_eq!(leases.date, date);
        let lease = &leases.by_name["cp-1"];
        assert_eq!(lease.moved_within, Some(Duration::from_secs(12)));
        assert_eq!(lease.renewed, Some("2026-11-21T13:52:13.123456Z".parse().unwrap()));
        assert_eq!((lease.hostname.as_deref(), lease.holder.as_deref()), (Some("cp-1"), Some("cp-1")));
    }

    #[test]
    fn a_lease_says_how_long_it_lasts() {
        let lasts = |seconds: Value| {
            let spec = json!({"holderIdentity": "w-1", "leaseDurationSeconds": seconds});
            Lease::of(read(json!({"metadata": {"name": "w-1"}, "spec": spec}))).lasts
        };
        assert_eq!(lasts(json!(300)), Some(Duration::from_secs(300)));
        for none in [json!(null), json!(0), json!(-40)] {
            assert_eq!(lasts(none.clone()), None, "{none}");
        }
    }

    #[test]
    fn a_network_plugin_is_known_by_what_it_mounts() {
        let installs = |path: &str, host_network: bool| {
            let pod = json!({"hostNetwork": host_network, "volumes": [{"name": "a"}, {"name": "b", "hostPath": {"path": path}}]});
            let set = json!({"metadata": {"name": "agent"}, "spec": {"template": {"spec": pod}}});
            Since::<Workload, apps::DaemonSet>::of(read(set)).kept.installs_network
        };
        for path in ["/opt/cni/bin", "/opt/cni/bin/", "/opt/cni"] {
            assert!(installs(path, false) && installs(path, true), "{path}");
        }
        assert!(installs("/etc/cni/net.d", true) && !installs("/etc/cni/net.d", false));
        for path in ["/", "/opt", "/etc", "/opt/cnix", "/var/lib/cni"] {
            assert!(!installs(path, true), "{path}");
        }
    }

    #[test]
    fn a_driver_is_known_by_the_folder_in_which_it_registers() {
        let registers = |path: &str| {
            let pod = json!({"volumes": [{"name": "a"}, {"name": "b", "hostPath": {"path": path}}]});
            let set = json!({"metadata": {"name": "node"}, "spec": {"template": {"spec": pod}}});
            Since::<Workload, apps::DaemonSet>::of(read(set)).kept.registers_driver
        };
        for path in ["/var/lib/kubelet/plugins_registry", "/var/lib/kubelet/plugins_registry/", "/k/plugins_registry"] {
            assert!(registers(path), "{path}");
        }
        for path in ["/", "/var/lib/kubelet", "/var/lib/kubelet/plugins", "/var/lib/my-plugins_registry", ""] {
            assert!(!registers(path), "{path}");
        }
    }

    #[test]
    fn a_daemon_set_tells_where_it_wants_its_pods() {
        let spread = |pod: Value, rolling: Value| {
            let spec = json!({"template": {"spec": pod}, "updateStrategy": {"rollingUpdate": rolling}});
            let set = json!({"metadata": {"name": "agent"}, "spec": spec, "status": {"desiredNumberScheduled": 5}});
            Since::<Workload, apps::DaemonSet>::of(read(set)).kept.spread
        };
        let pod = json!({
            "hostNetwork": true,
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}],
            }}},
        });
        let Spread { placement, host_network, max_unavailable } = spread(pod, json!(null));
        assert!(host_network && placement.labels["disk"] == "ssd");
        assert_eq!((placement.tolerations.len(), placement.terms.unwrap().len()), (1, 1));
        assert_eq!(max_unavailable, 1, "the API server's default");
        for (told, expected) in
            [(json!(0), 0), (json!(2), 2), (json!("10%"), 1), (json!("50%"), 3), (json!("much"), 0), (json!(-1), 0)]
        {
            let rolling = json!({"maxUnavailable": told});
            assert_eq!(spread(json!({}), rolling).max_unavailable, expected, "{told}");
        }
    }

    #[test]
    fn workloads_keep_their_numbers() {
        let of_set = |value| Since::<Workload, apps::DaemonSet>::of(read(value)).kept;
        let of_deployment = |value| Since::<Workload, apps::Deployment>::of(read(value)).kept;
        let set = of_set(json!({
            "metadata": {"name": "kube-proxy", "generation": 2, "labels": {"k8s-app": "kube-proxy"}},
            "status": {"observedGeneration": 1, "desiredNumberScheduled": 4, "numberAvailable": 3,
                       "currentNumberScheduled": 4, "numberMisscheduled": 0, "numberReady": 3},
        }));
        assert_eq!((set.generation, set.observed_generation, set.desired, set.available), (2, Some(1), 4, 3));
        let unseen = of_set(json!({"metadata": {"name": "kube-flannel", "generation": 1}}));
        assert_eq!((unseen.observed_generation, unseen.desired, unseen.available), (None, 0, 0));
        let dns = of_deployment(json!({"metadata": {"name": "coredns"}, "status": {"availableReplicas": 2}}));
        assert_eq!((dns.desired, dns.available, dns.given_up), (1, 2, None));
        let stuck = of_deployment(json!({"metadata": {"name": "coredns"}, "status": {"conditions": [
            {"type": "Available", "status": "False"},
            {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out\ntoken: x"},
        ]}}));
        assert_eq!(stuck.given_up.as_deref(), Some("timed out\ntoken ***"));
    }

    /// Returns objects with their ages 600 s after the beginning of a day.
    fn ages<T: Ages, K>(objects: Vec<Value>) -> Vec<T>
    where
        Since<T, K>: Kept,
    {
        let items = objects.into_iter().map(read).collect();
        aged::<T, K>(Listed { date: Some("2026-11-21T00:10:00Z".parse().unwrap()), last_date: None, items })
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

    #[test]
    fn a_workload_is_unchanged_since_somebody_last_wrote_to_it() {
        let workload = |times: &[&str]| {
            let entries: Vec<_> = times.iter().map(|time| json!({"manager": "m", "time": time})).collect();
            json!({"metadata": {"name": "a", "namespace": "b", "managedFields": entries}})
        };
        let sets = ages::<Workload, apps::DaemonSet>(vec![
            workload(&["2026-11-21T00:08:00Z", "2026-11-21T00:01:00Z"]),
            workload(&[]),
        ]);
        let seconds: Vec<_> = sets.iter().map(|set| set.unchanged_for.map(|age| age.as_secs())).collect();
        assert_eq!(seconds, [Some(120), None]);
        // Other writes prove nothing about its pods, once its controller has observed the specification.
        let annotated = |observed: i64| {
            json!({"metadata": {"name": "a", "namespace": "b", "generation": 2, "managedFields": [
                {"manager": "argocd", "time": "2026-11-21T00:09:00Z"},
                {"manager": "kube-controller-manager", "subresource": "status", "time": "2026-11-21T00:01:00Z"},
            ]}, "status": {"observedGeneration": observed}})
        };
        let sets = ages::<Workload, apps::DaemonSet>(vec![annotated(2), annotated(1)]);
        let seconds: Vec<_> = sets.iter().map(|set| set.unchanged_for.map(|age| age.as_secs())).collect();
        assert_eq!(seconds, [Some(540), Some(60)]);
    }

    #[test]
    fn readiness_of_endpoints_follows_the_api() {
        let slice = read(json!({
            "metadata": {"name": "kube-dns-x", "labels": {"kubernetes.io/service-name": "kube-dns"}}, "addressType": "IPv4",
            "endpoints": [
                {"addresses": ["10.244.0.2"], "conditions": {"ready": true}, "nodeName": "cp-1"},
                {"addresses": ["10.244.0.3"], "conditions": {}},
                {"addresses": ["10.244.0.4"]},
                {"addresses": ["10.244.0.5"], "conditions": {"ready": false, "serving": true, "terminating": true}},
                {"addresses": ["10.244.0.6"], "conditions": {"ready": false}},
                {"addresses": []},
            ],
            "ports": [{"name": "any"}, {"name": "https", "port": 7443, "protocol": "TCP"}],
        }));
        let Slice { service, has_dns_port, endpoints, .. } = Slice::of(slice);
        assert_eq!((service.as_str(), has_dns_port), ("kube-dns", false));
        let ready: Vec<_> = endpoints.iter().map(|endpoint| (endpoint.addresses[0].as_str(), endpoint.ready)).collect();
        assert_eq!(ready, [("10.244.0.2", true), ("10.244.0.3", true), ("10.244.0.4", true), ("10.244.0.6", false)]);
        assert_eq!((endpoints[0].node.as_deref(), endpoints[0].port), (Some("cp-1"), Some(7443)));
        let of_port = |port: Value| {
            let slice = read(json!({"metadata": {"name": "x"}, "endpoints": [], "ports": [port]}));
            Slice::of(slice).has_dns_port
        };
        assert!(of_port(json!({"name": "dns", "port": 5353, "protocol": "UDP"})));
        assert!(!of_port(json!({"name": "dns-tcp", "port": 53, "protocol": "TCP"})));
        assert!(of_port(json!({"name": "udp-53", "port": 53, "protocol": "UDP"})));
        assert!(!of_port(json!({"name": "metrics", "port": 53, "protocol": "UDP"})));
        let empty: discovery::EndpointSlice =
            read(json!({"metadata": {"name": "x"}, "addressType": "IPv4", "endpoints": null}));
        assert!(Slice::of(empty).endpoints.is_empty());
    }
}
