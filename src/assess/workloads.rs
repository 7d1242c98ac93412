//! What leases and pods show of those behind them.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::snapshot::{ContainerState, KubeNode, Lease, Pod, PodState, Readiness, Workload};

/// Time after which a lease that names none, or that was not renewed, no longer shows that its holder lives: a kubelet's, as
/// Kubernetes sets it up.
pub(crate) const LEASE_LASTS: Duration = Duration::from_secs(40);

/// No lease is believed for longer, whatever it says of itself.
const LEASE_LASTS_AT_MOST: Duration = Duration::from_secs(300);

/// A kubelet starts a container at once again that has run for this long: what crashed before is history.
pub(crate) const BACK_OFF_ENDS: SignedDuration = SignedDuration::from_mins(10);

/// Delay before a lease that looks stale is read again: long enough for a live holder to renew it.
pub(crate) const RENEWAL: Duration = Duration::from_secs(11);

/// What has not become ready in this time does not by itself.
pub(crate) const STUCK: Duration = Duration::from_secs(300);

/// The kubelet waits 10 seconds before the first restart, and twice as long before each other: these take [`STUCK`]. A pod that is
/// ready between two crashes never looks as old.
const RESTARTS_UNTIL_STUCK: u32 = 5;

/// A kind of workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkloadKind {
    DaemonSet,
    Deployment,
    StatefulSet,
}

impl WorkloadKind {
    /// Name of the kind in commands.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::DaemonSet => "daemonset",
            Self::Deployment => "deployment",
            Self::StatefulSet => "statefulset",
        }
    }

    /// Whether the pod belongs to this workload of this kind.
    pub(crate) fn owns(self, workload: &Workload, pod: &Pod) -> bool {
        let is_its = match workload_of(pod) {
            Some(its) => its == (self, &workload.name),
            // Nothing but its name shows whose it is. The name of a Deployment's pod has two generated parts.
            None => self != Self::Deployment && pod.controller.is_none() && stem(&pod.name) == Some(&workload.name),
        };
        is_its && pod.namespace == workload.namespace
    }
}

/// The workload that a pod belongs to: its kind and its name.
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

/// A generated name without its generated part.
fn stem(name: &str) -> Option<&str> {
    name.rsplit_once('-').map(|(stem, _)| stem)
}

/// Whether somebody renews a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// The last renewal is younger than the lease lasts.
    Renewed,
    Lapsed,
    /// The API server's answer had no `Date`, so nothing tells how old the last renewal is, and two samples do not settle it.
    Unknown,
}

pub(crate) fn renewal(lease: &Lease, date: Option<Timestamp>) -> Renewal {
    let lasts = lasts(lease);
    // A kubelet renews its lease when a quarter of its duration has passed, and whoever leads renews more often than that.
    let stands_still = || lease.still_for.is_some_and(|still| still >= lasts / 4);
    match date {
        _ if was_renewed(lease, date, lasts) => Renewal::Renewed,
        None if lease.renewed.is_some() && !stands_still() => Renewal::Unknown,
        _ => Renewal::Lapsed,
    }
}

pub(crate) fn is_alive(lease: &Lease, date: Option<Timestamp>) -> bool {
    renewal(lease, date) == Renewal::Renewed
}

fn lasts(lease: &Lease) -> Duration {
    lease.lasts.map_or(LEASE_LASTS, |lasts| lasts.min(LEASE_LASTS_AT_MOST))
}

/// Two samples show that it was renewed a short while ago, or so it says by the server's own clock. A holder's clock that runs
/// ahead proves nothing.
pub(crate) fn was_renewed(lease: &Lease, date: Option<Timestamp>, within: Duration) -> bool {
    let lately =
        |renewed: Timestamp, date: Timestamp| date.as_second().abs_diff(renewed.as_second()) <= within.as_secs();
    lease.moved_within.is_some_and(|moved| moved <= within)
        || lease.renewed.zip(date).is_some_and(|(renewed, date)| lately(renewed, date))
}

/// Two samples show that it was renewed a short while ago. That it was renewed at some time in a long pause says nothing of now.
pub(crate) fn has_moved(lease: &Lease) -> bool {
    was_renewed(lease, None, LEASE_LASTS)
}

/// Kubernetes says that the node is ready, without regard to how old that is.
pub(crate) fn says_ready(object: &KubeNode) -> bool {
    matches!(object.readiness(), Readiness::Ready(_))
}

/// The mirror pod of a static pod on the Node of this name, by its own name before its label, which a user's own may have as well.
pub(super) fn mirror_pod<'a>(pods: &'a [Pod], node: &str, component: &str) -> Option<&'a Pod> {
    let name = format!("{component}-{node}");
    let of_node = || pods.iter().filter(|pod| pod.mirror && pod.node.as_deref() == Some(node));
    let named = of_node().find(|pod| pod.name == name);
    let labeled = || of_node().find(|pod| pod.is_labeled(component));
    named.or_else(labeled).or_else(|| of_node().find(|pod| pod.is_mirror_of(component)))
}

/// Whether the pod is running and ready. The phase alone does not show this: pods of dead nodes and crashing ones are `Running`.
pub(crate) fn is_well(state: &PodState) -> bool {
    state.ready == Some(true) && state.phase == "Running"
}

/// Returns the worse of two reported states of one pod.
pub(crate) fn worse<'a>(one: &'a PodState, other: Option<&'a PodState>) -> &'a PodState {
    other.filter(|other| is_well(one) && !is_well(other)).unwrap_or(one)
}

/// Whether the pod has run to completion, as intended.
pub(crate) fn has_completed(state: &PodState) -> bool {
    let is_undone = |it: &ContainerState| it.running || it.exit_code.is_some_and(|code| code != 0);
    state.phase == "Succeeded" && !state.containers.iter().any(is_undone)
}

/// What keeps a pod from being well, in words. `now`: whether its last crash has anything to do with it.
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
        // How long the kubelet waits until it tries again says nothing more.
        let waits = container.waiting_message.as_ref().filter(|_| crashing.is_none());
        words.extend(container.termination_message.as_ref().or(waits).cloned());
    } else {
        let phase = if state.phase.is_empty() { "no phase" } else { state.phase.as_str() };
        let ready = if state.ready.is_none() { "no Ready condition" } else { "not ready" };
        words.push(format!("{phase}, {ready}"));
    }
    // The kubelet's summary names the container that is named already.
    let is_summary = |words| state.message.starts_with(words);
    let repeats = shown.is_some()
        && (is_summary("containers with unready status") || is_summary("containers with incomplete status"));
    if !state.message.is_empty() && !repeats {
        words.push(state.message.clone());
    }
    let is_stuck = crashing.is_some_and(|container| container.restarts > RESTARTS_UNTIL_STUCK);
    Some(Trouble { crash_looping: crashing.is_some(), is_stuck, words: words.join(", ") })
}

/// Describes recent, repeated restarts of a pod that is well. Most pods have no readiness probe, and so are ready between two
/// restarts. Containers that ended before the node was `up` ended with it. The exit code does not matter: a container that a liveness
/// probe keeps ending may exit with 0 each time.
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

/// Why a pod is not ready.
pub(crate) struct Trouble {
    pub(crate) crash_looping: bool,
    /// Whether the pod has been crash-looping for [`STUCK`].
    pub(crate) is_stuck: bool,
    pub(crate) words: String,
}
