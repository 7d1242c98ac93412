//! Volumes that do not reach a node. If several pods wait for their volumes, the node is at fault.

use crate::assess::{Assessment, Life};
use crate::model::{Hint, Problem, Reason};
use crate::snapshot::{AttachedVolume, CsiNode, PodEvent, StartingPod, WAITED, are_of_several};
use crate::text::duration::human;
use crate::text::some;

/// Maximum number of pods that are named.
const NAMED: usize = 3;

/// Minimum number of waiting pods for which the node is at fault.
const SEVERAL: usize = 2;

const EXPECTED: &str = "volumes are attached and mounted within 5m00s";

/// Returns true for events of the kubelet and of the controller that attaches volumes.
pub(super) fn is_about_volumes(reason: &str) -> bool {
    matches!(reason, "FailedMount" | "FailedAttachVolume" | "FailedMapVolume")
}

/// The fault that an event about a volume shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// The volume itself is at fault, or an API object from which it is created.
    OfVolume,
    /// The event shows only a timeout.
    Untold,
    /// The driver does not attach or mount the volume here.
    OfDriver,
    /// The driver has not registered with this node's kubelet.
    NoDriver,
}

/// Classifies messages from Kubernetes' volume manager, its attach controller, and drivers.
fn fault(event: &PodEvent) -> Fault {
    let has = |words: &[&str]| words.iter().any(|words| event.message.contains(words));
    let is_attach = event.reason == "FailedAttachVolume";
    if has(&["does not contain driver", "not found in the list of registered CSI drivers"])
        || has(&["CSINode"]) && has(&["not found"])
    {
        Fault::NoDriver
    } else if has(&["Multi-Attach error", "code = NotFound"]) {
        Fault::OfVolume
    } else if is_attach
        || has(&["rpc error", "kubernetes.io/csi", "MountVolume.MountDevice", "WaitForAttach", "mount failed"])
    {
        Fault::OfDriver
    } else if has(&["Unable to attach or mount volumes"]) {
        Fault::Untold
    } else {
        Fault::OfVolume
    }
}

/// A pod that has been waiting for too long, and its most informative event.
struct Waiting<'a> {
    pod: &'a StartingPod,
    event: &'a PodEvent,
    fault: Fault,
}

impl<'a> Waiting<'a> {
    /// `events` are the pod's events about volumes. The newest one that shows more than a timeout decides.
    fn of(pod: &'a StartingPod, events: &[&'a PodEvent]) -> Option<Self> {
        let has_waited = pod.waiting_for.is_some_and(|waiting| waiting >= WAITED);
        let event = events.iter().max_by_key(|it| (fault(it) != Fault::Untold, it.at, &it.reason, &it.message))?;
        let fault = fault(event);
        (has_waited && pod.mounts_storage && fault > Fault::OfVolume).then_some(Self { pod, event, fault })
    }

    /// Returns the name of the `PersistentVolume`, if the event has it.
    fn volume(&self) -> Option<&'a str> {
        let (_, rest) = self.event.message.split_once("for volume \"")?;
        Some(rest.split_once('"')?.0)
    }

    fn driver(&self, attached: &'a [AttachedVolume]) -> Option<&'a str> {
        let volume = self.volume()?;
        attached.iter().find(|it| it.volume == volume).map(|it| it.driver.as_str())
    }
}

/// Reports the node if several of these pods wait for volumes that a driver does not attach here: because it has not registered, because it
/// attaches others elsewhere, or because the pods have nothing else in common. `events` returns a pod's events about volumes, if the pod is
/// waiting for those.
pub(super) fn cannot_attach<'a>(
    cluster: &Assessment<'_>,
    node: &str,
    pods: &[&'a StartingPod],
    events: impl Fn(&StartingPod) -> Vec<&'a PodEvent>,
) -> Option<Problem> {
    let mut waiting: Vec<Waiting<'a>> = pods.iter().filter_map(|pod| Waiting::of(pod, &events(pod))).collect();
    if waiting.len() < SEVERAL {
        return None;
    }
    waiting.sort_by_key(|it| (std::cmp::Reverse(it.pod.waiting_for), &it.pod.namespace, &it.pod.name));
    let attached = cluster.list(|kubernetes| &kubernetes.attached_volumes).map_or(&[][..], Vec::as_slice);
    let here = cluster.list(|kubernetes| &kubernetes.csi_nodes).into_iter().flatten().find(|it| it.name == node);
    let (first, because) = evidence(cluster, node, &waiting, attached, here)?;
    let named = some(waiting.iter().map(|it| format!("{}/{}", it.pod.namespace, it.pod.name)), NAMED);
    let since = first.pod.waiting_for.map(human).unwrap_or_default();
    let observed = format!(
        "pods without their volumes: {named}; {}/{} has waited {since}: {}: {}; {because}",
        first.pod.namespace, first.pod.name, first.event.reason, first.event.message
    );
    Some(
        Problem::fail(Reason::NodeCannotAttach, EXPECTED, observed)
            .hint(Hint::run("{kubectl} get csinode {} -o yaml", [node]))
            .hint(Hint::run("{kubectl} get volumeattachments", []))
            .hint(Hint::run("{kubectl} -n {} describe pod {}", [&first.pod.namespace, &first.pod.name])),
    )
}

/// Explains why the node is at fault, and returns the pod that shows it. `here` is the node's `CSINode` object, if known.
fn evidence<'w, 'a>(
    cluster: &Assessment<'_>,
    node: &str,
    waiting: &'w [Waiting<'a>],
    attached: &'a [AttachedVolume],
    here: Option<&CsiNode>,
) -> Option<(&'w Waiting<'a>, String)> {
    let is_here = |driver: &str| here.is_some_and(|here| here.drivers.iter().any(|it| it == driver));
    // The controller reads CSINode, which may have changed since; the kubelet's own information is current.
    let is_over = |it: &Waiting<'_>| {
        let named = it.event.message.rsplit_once("does not contain driver ").map(|(_, driver)| driver.trim());
        named.is_some_and(is_here)
    };
    if let Some(first) = waiting.iter().find(|it| it.fault == Fault::NoDriver && !is_over(it)) {
        return Some((first, "the driver has not registered on this node".to_owned()));
    }
    let of_driver = || waiting.iter().filter_map(|it| Some((it, it.driver(attached)?)));
    if let Some((first, driver)) = of_driver().find(|(_, driver)| here.is_some() && !is_here(driver)) {
        return Some((first, format!("{driver} has not registered on this node")));
    }
    let elsewhere = |driver: &str| {
        let works = |it: &&AttachedVolume| {
            let is_other = it.driver == driver && it.node != node;
            it.attached && is_other && cluster.life(&it.node) == Life::Works
        };
        attached.iter().filter(works).map(|it| it.node.as_str()).min()
    };
    if let Some((first, driver, node)) = of_driver().find_map(|(it, driver)| Some((it, driver, elsewhere(driver)?))) {
        return Some((first, format!("{driver} has attached volumes on {node}")));
    }
    let are_several = are_of_several(waiting.iter().map(|it| it.pod.owner.as_str()));
    are_several.then(|| (&waiting[0], "they belong to several workloads".to_owned()))
}
