//! Interprets leases and pods: the state of lease holders and of workloads.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::snapshot::{ContainerState, KubeNode, Lease, Leases, Node, Pod, PodState, Readiness, Snapshot, Workload};

/// Default time after which a lease that was not renewed no longer shows that its holder is alive. Kubernetes uses this duration for
/// kubelets.
pub(crate) const LEASE_LASTS: Duration = Duration::from_secs(40);

/// Upper limit for a lease's validity, regardless of the duration that it claims.
const LEASE_LASTS_AT_MOST: Duration = Duration::from_secs(300);

/// Uptime after which a kubelet restarts a container without delay, so that earlier crashes no longer matter.
pub(crate) const BACK_OFF_ENDS: SignedDuration = SignedDuration::from_mins(10);

/// Delay before a lease that looks stale is read again: long enough for a live holder to renew it.
pub(crate) const RENEWAL: Duration = Duration::from_secs(11);

/// Time after which a pod that is not ready needs intervention.
pub(crate) const STUCK: Duration = Duration::from_secs(300);

/// Restarts after which a container has been crashing for [`STUCK`]: the kubelet waits 10 seconds before the first restart and doubles the
/// delay each time. The pod's age is not enough, because a pod that is ready between two crashes never looks that old.
const RESTARTS_UNTIL_STUCK: u32 = 5;

/// A kind of workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkloadKind {
    DaemonSet,
    Deployment,
    StatefulSet,
}

impl WorkloadKind {
    /// Returns the name of the kind in commands.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::DaemonSet => "daemonset",
            Self::Deployment => "deployment",
            Self::StatefulSet => "statefulset",
        }
    }

    /// Returns true if the pod belongs to this workload of this kind.
    pub(crate) fn owns(self, workload: &Workload, pod: &Pod) -> bool {
        let is_its = match workload_of(pod) {
            Some(its) => its == (self, &workload.name),
            // Without a controller, only the pod's name shows its owner. The name of a Deployment's pod has two generated parts.
            None => self != Self::Deployment && pod.controller.is_none() && stem(&pod.name) == Some(&workload.name),
        };
        is_its && pod.namespace == workload.namespace
    }
}

/// Returns the workload that a pod belongs to: its kind and its name.
pub(crate) fn workload_of(pod: &Pod) -> Option<(WorkloadKind, &str)> {
    let (kind, name) = pod.controller.as_ref()?;
    match kind.as_str() {
        "DaemonSet" => Some((WorkloadKind::DaemonSet, name)),
        "StatefulSet" => Some((WorkloadKind::StatefulSet, name)),
        // A ReplicaSet has the Deployment's name and a hash.
        "ReplicaSet" => Some((WorkloadKind::Deployment, stem(name)?)),
        _ => None,
    }
}

/// Returns the webhook that an API server quotes as the reason why it refuses a request: it does not answer, or it denies the request.
pub(crate) fn refusing_webhook(words: &str) -> Option<&str> {
    let quoted = |before: &str| words.split_once(before)?.1.split_once('"').map(|(name, _)| name);
    let denied = || quoted("admission webhook \"").filter(|_| words.contains("denied the request"));
    quoted("failed calling webhook \"").or_else(denied)
}

/// Removes the generated part of a name.
fn stem(name: &str) -> Option<&str> {
    name.rsplit_once('-').map(|(stem, _)| stem)
}

/// Whether a lease is being renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// The last renewal is more recent than the lease's duration.
    Renewed,
    Lapsed,
    /// The API server's answer had no `Date`, so the age of the last renewal is unknown, and two samples do not settle it.
    Unknown,
}

pub(crate) fn renewal(lease: &Lease, date: Option<Timestamp>) -> Renewal {
    let lasts = lasts(lease);
    // A kubelet renews its lease after a quarter of the duration, and leaders renew more often than that.
    let stands_still = || lease.still_for.is_some_and(|still| still >= lasts / 4);
    match date {
        _ if was_renewed(lease, date, lasts) => Renewal::Renewed,
        None if lease.renewed.is_some() && !stands_still() => Renewal::Unknown,
        _ => Renewal::Lapsed,
    }
}

/// Returns whether the lease with this name is being renewed; `None` if there is none.
pub(crate) fn renewal_of(leases: &Leases, name: &str) -> Option<Renewal> {
    leases.by_name.get(name).map(|lease| renewal(lease, leases.date))
}

fn lasts(lease: &Lease) -> Duration {
    lease.lasts.map_or(LEASE_LASTS, |lasts| lasts.min(LEASE_LASTS_AT_MOST))
}

/// Returns the lease that the machine's kubelet renews, among those of all machines.
fn lease_of<'a>(snapshot: &'a Snapshot, node: &Node) -> Option<(&'a Lease, &'a Leases)> {
    let leases = snapshot.kubernetes.as_ref()?.node_leases.as_ref().ok()?;
    let registered = node.talos.nodename.as_ref().ok().and_then(Option::as_ref).unwrap_or(&node.name);
    Some((leases.by_name.get(registered)?, leases))
}

/// Returns whether the machine's kubelet renews its lease; `None` if it has none, or if the leases were not read.
pub(crate) fn renewal_by(snapshot: &Snapshot, node: &Node) -> Option<Renewal> {
    lease_of(snapshot, node).map(|(lease, leases)| renewal(lease, leases.date))
}

/// Returns true if others renewed their leases well after this machine's last renewal: whatever stopped it did not stop all writes.
pub(crate) fn lapsed_alone(snapshot: &Snapshot, node: &Node) -> bool {
    let Some((lease, leases)) = lease_of(snapshot, node) else { return false };
    let last = leases.by_name.values().filter_map(|it| it.renewed).max();
    let behind = lease.renewed.zip(last).map(|(renewed, last)| last.duration_since(renewed));
    // Healthy leases are up to a quarter apart, and the clocks of machines differ.
    behind.is_some_and(|behind| behind.unsigned_abs() > lasts(lease) / 2)
}

/// Returns true if two samples show a recent renewal, or if the renewal is recent by the server's own clock. A renewal well in the future
/// proves nothing, because the holder's clock is ahead.
pub(crate) fn was_renewed(lease: &Lease, date: Option<Timestamp>, within: Duration) -> bool {
    let lately =
        |renewed: Timestamp, date: Timestamp| date.as_second().abs_diff(renewed.as_second()) <= within.as_secs();
    lease.moved_within.is_some_and(|moved| moved <= within)
        || lease.renewed.zip(date).is_some_and(|(renewed, date)| lately(renewed, date))
}

/// Returns true if two samples show a recent renewal. A renewal at an unknown time during a long pause does not show the current state.
pub(crate) fn has_moved(lease: &Lease) -> bool {
    was_renewed(lease, None, LEASE_LASTS)
}

/// Returns true if Kubernetes reports the node as ready, regardless of the age of that report.
pub(crate) fn says_ready(object: &KubeNode) -> bool {
    matches!(object.readiness(), Readiness::Ready(_))
}

/// Finds the mirror pod of a static pod on the Node with this name. The pod's name takes precedence over its label, because a user's pod
/// may have the same label.
pub(super) fn mirror_pod<'a>(pods: &'a [Pod], node: &str, component: &str) -> Option<&'a Pod> {
    let name = format!("{component}-{node}");
    let of_node = || pods.iter().filter(|pod| pod.mirror && pod.node.as_deref() == Some(node));
    let named = of_node().find(|pod| pod.name == name);
    let labeled = || of_node().find(|pod| pod.is_labeled(component));
    named.or_else(labeled).or_else(|| of_node().find(|pod| pod.is_mirror_of(component)))
}

/// Returns true if the pod is running and ready. The phase alone does not show this: pods of dead nodes and crashing ones are `Running`.
pub(crate) fn is_well(state: &PodState) -> bool {
    state.ready == Some(true) && state.phase == "Running"
}

/// Returns the worse of two reported states of one pod.
pub(crate) fn worse<'a>(one: &'a PodState, other: Option<&'a PodState>) -> &'a PodState {
    other.filter(|other| is_well(one) && !is_well(other)).unwrap_or(one)
}

/// Returns true if the pod has run to completion, as intended.
pub(crate) fn has_completed(state: &PodState) -> bool {
    let is_undone = |it: &ContainerState| it.running || it.exit_code.is_some_and(|code| code != 0);
    state.phase == "Succeeded" && !state.containers.iter().any(is_undone)
}

/// Describes why a pod is not ready. `now` determines whether its last crash is still relevant.
pub(crate) fn describe_unready(state: &PodState, now: Timestamp) -> Option<Trouble> {
    if is_well(state) {
        return None;
    }
    let crashing = state.containers.iter().find(|container| {
        let lately = container.finished.is_some_and(|at| now.duration_since(at) <= BACK_OFF_ENDS);
        let failed = lately && container.exit_code.is_some_and(|code| code != 0);
        container.waiting_reason.as_deref() == Some("CrashLoopBackOff")
            || (!container.ready
                && failed
                && (container.restarts > 1 || (container.restarts > 0 && !container.running)))
    });
    let shown = crashing.or_else(|| state.containers.iter().find(|container| !container.ready));
    let mut words = Vec::new();
    if let Some(container) = shown {
        let doing = match &container.waiting_reason {
            Some(reason) => reason.as_str(),
            None if container.running => "running, not ready",
            None => container.termination_reason.as_deref().unwrap_or("not running"),
        };
        words.push(format!("container {}: {doing}", container.name));
        words.extend(container.exit_code.map(|code| format!("exit code {code}")));
        match container.restarts {
            0 => {}
            1 => words.push("1 restart".to_owned()),
            n => words.push(format!("{n} restarts")),
        }
        // The kubelet's restart delay adds no information.
        let waits = container.waiting_message.as_ref().filter(|_| crashing.is_none());
        words.extend(container.termination_message.as_ref().or(waits).cloned());
    } else {
        let phase = if state.phase.is_empty() { "no phase" } else { state.phase.as_str() };
        let ready = if state.ready.is_none() { "no Ready condition" } else { "not ready" };
        words.push(format!("{phase}, {ready}"));
    }
    // The kubelet's summary repeats the name of the container.
    let is_summary = |words| state.message.starts_with(words);
    let repeats = shown.is_some()
        && (is_summary("containers with unready status") || is_summary("containers with incomplete status"));
    if !state.message.is_empty() && !repeats {
        words.push(state.message.clone());
    }
    let is_stuck = crashing.is_some_and(|container| container.restarts > RESTARTS_UNTIL_STUCK);
    let cannot_start = shown.is_some_and(cannot_start);
    Some(Trouble { crash_looping: crashing.is_some(), is_stuck, cannot_start, words: words.join(", ") })
}

/// Returns true if the kubelet has no image for the container.
pub(crate) fn lacks_image(container: &ContainerState) -> bool {
    let reason = container.waiting_reason.as_deref();
    reason.is_some_and(|it| ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"].contains(&it))
}

/// Returns true if the kubelet cannot start the container, for lack of an image or of something that its specification names.
pub(crate) fn cannot_start(container: &ContainerState) -> bool {
    let reason = container.waiting_reason.as_deref();
    let is_invalid = |it| ["CreateContainerConfigError", "CreateContainerError", "RunContainerError"].contains(&it);
    lacks_image(container) || reason.is_some_and(is_invalid)
}

/// Describes recent, repeated restarts of a pod that is running and ready. Most pods have no readiness probe, and so are ready between two
/// restarts. Containers that ended before the node was `up` ended with it. The exit code does not matter: a container that a liveness probe
/// keeps ending may exit with 0 each time.
pub(crate) fn between_restarts(state: &PodState, now: Timestamp, up: Timestamp) -> Option<String> {
    let restarts = |container: &&ContainerState| {
        let lately = container.finished.is_some_and(|at| at > up && now.duration_since(at) <= BACK_OFF_ENDS);
        lately && container.running && container.restarts > 1
    };
    let container = state.containers.iter().find(restarts).filter(|_| is_well(state))?;
    let (code, at) = container.exit_code.zip(container.finished)?;
    let why = container.termination_reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
    let ago = now.duration_since(at).as_secs();
    Some(format!(
        "container {}: exit code {code}{why} {ago}s ago, {} restarts, running now",
        container.name, container.restarts
    ))
}

/// The trouble that keeps a pod from being ready.
pub(crate) struct Trouble {
    pub(crate) crash_looping: bool,
    /// Whether the pod has been crash-looping for [`STUCK`].
    pub(crate) is_stuck: bool,
    /// Whether the kubelet cannot start its container, so that nothing in the container is the reason.
    pub(crate) cannot_start: bool,
    pub(crate) words: String,
}
