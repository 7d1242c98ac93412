//! Stage 8: checks whether the upgrade that an option specifies can begin. It exists only with such an option.

mod apis;
mod data;
mod drain;
mod etcd;
mod etcd_releases;
mod extensions;
mod flags;
mod knowledge;
mod matrix;
mod obstacles;
mod path;
mod places;
mod quorum;
mod room;
#[cfg(test)]
mod tests;
mod volumes;

pub(super) use apis::APIS;
pub(super) use drain::DRAIN;
pub(super) use etcd::ETCD;
pub(crate) use etcd::{EtcdStops, etcd_stops};
pub(super) use extensions::EXTENSIONS;
pub(crate) use extensions::{is_plain, schematic_of};
pub(super) use flags::FLAGS;
pub(super) use matrix::MATRIX;
pub(super) use path::{KUBERNETES_PATH, TALOS_PATH};
pub(super) use quorum::QUORUM;
pub(super) use room::ROOM;
pub(super) use volumes::VOLUMES;

use std::collections::BTreeMap;

use self::data::Numbers;
use super::gaps::{listed, says_nothing, talos_contact};
use super::kubernetes::versions::Extent;
use super::scope::{each_machine_to_drain, is_narrowed, reason_not_drained};
use super::stated;
use crate::assess::{Assessment, NotJudged, Standing};
use crate::model::{Outcome, Problem, Reason, Target, Verdict};
use crate::snapshot::{BoundPod, KubeNode, Node, has_ended};
use crate::text::version;

/// Skips a check without its option. Only tests, which run all checks, reach this.
fn not_asked(option: &str) -> Verdict {
    Verdict::skipped(format!("`{option}` is not given"))
}

/// Judges each machine that may be taken down next: all of them, or the one of `--drain`.
///
/// `fine` describes the machines if there is no obstacle.
fn each_to_go<'a>(
    cluster: &'a Assessment<'_>,
    fine: impl Fn(&str) -> String,
    mut judge: impl FnMut(&'a Node, &mut Verdict),
) -> Verdict {
    let upgrade = &cluster.asked.upgrade;
    let mut verdict = each_machine_to_drain(cluster, |node, verdict| {
        let goes = upgrade.drains(node) || (upgrade.drain.is_none() && upgrade.talos.is_some());
        if goes {
            judge(node, verdict);
        }
    });
    if let Some(problem) = upgrade.drain.as_deref().and_then(|named| not_judged(cluster, named)) {
        verdict.problem(Target::cluster(), problem);
    }
    let which = upgrade.drain.as_deref().unwrap_or(every_machine(cluster));
    verdict.sum_up(&fine(which));
    verdict
}

/// Describes the machines that are judged.
fn every_machine(cluster: &Assessment<'_>) -> &'static str {
    if is_narrowed(cluster) { "every machine of --nodes" } else { "every machine" }
}

/// Reports that the machine of `--drain` is not among the judged ones.
fn not_judged(cluster: &Assessment<'_>, named: &str) -> Option<Problem> {
    let expected = format!("a machine called {named}");
    let Some(node) = cluster.nodes().iter().find(|node| node.is_called(named)) else {
        return Some(stated::unknown(cluster, named));
    };
    let why = reason_not_drained(cluster, node)?;
    let reason = match cluster.standing(node) {
        Standing::NotJudged(NotJudged::Leaving) => Reason::NodeLeaving,
        Standing::NotJudged(NotJudged::StaleDiscovery) => Reason::NodeMissing,
        Standing::NotJudged(NotJudged::OutOfScope | NotJudged::OutsideFlags | NotJudged::DeclaredOff)
        | Standing::Guest
        | Standing::Judged => return Some(stated::contradicted("--drain", &format!("{} is {why}", node.target()))),
    };
    Some(Problem::error(reason, expected, format!("{} is not checked: {why}", node.target())).permanent())
}

/// Returns the machines that `--nodes` or lists of nodes leave out, with their Nodes: these options do not narrow an upgrade of Kubernetes.
fn beyond_scope<'a>(cluster: &'a Assessment<'_>) -> impl Iterator<Item = (&'a Node, &'a KubeNode)> {
    let is_beyond = |node: &&Node| match cluster.standing(node) {
        Standing::NotJudged(why) => Extent::Cluster.includes(why) && !cluster.is_guest(node),
        Standing::Judged | Standing::Guest => false,
    };
    cluster.nodes().iter().filter(is_beyond).filter_map(|node| Some((node, cluster.object(node)?)))
}

/// Returns the version of Talos that this machine itself reports.
fn talos_of(cluster: &Assessment<'_>, node: &Node) -> Result<Numbers, Outcome> {
    let tag = talos_contact(cluster, node)?.version.tag.as_str();
    version::numbers(tag).ok_or_else(|| {
        let observed = format!("version `{tag}`");
        Outcome::problem(Problem::error(Reason::UnreadableAnswer, "a version such as `v1.13.0`", observed))
    })
}

/// Returns the Kubernetes version of the upgrade, or the verdict without one.
fn kubernetes_target(cluster: &Assessment<'_>) -> Result<Numbers, Verdict> {
    let Some(target) = &cluster.asked.upgrade.kubernetes else { return Err(not_asked("--upgrade-kubernetes")) };
    let to = data::target(target).filter(|to| data::is_known_kubernetes(*to));
    to.ok_or_else(|| {
        let version = format!("v{target}");
        Verdict::whole(Outcome::problem(unknown("Kubernetes", &version, data::KNOWN_KUBERNETES)))
    })
}

/// Returns the pods that a drain may affect. The list is never empty, because it includes the control plane's static pods.
fn bound_pods<'a>(cluster: &'a Assessment<'_>) -> Result<&'a Vec<BoundPod>, Outcome> {
    let expected = "the pods of all namespaces";
    let pods = listed(cluster, |kubernetes| &kubernetes.bound_pods, expected)?;
    if pods.is_empty() { Err(says_nothing(expected, "an empty list")) } else { Ok(pods) }
}

/// Returns true if a drain removes the pod. It leaves the pods of DaemonSets, which would be recreated at once, and static pods, which the
/// API cannot remove.
fn is_drained(pod: &BoundPod) -> bool {
    let is_daemon = pod.controller.as_ref().is_some_and(|(kind, _)| kind == "DaemonSet");
    !pod.mirror && !is_daemon
}

/// Returns true if a drain evicts the pod, and the pod has not ended.
fn is_evicted(pod: &BoundPod) -> bool {
    is_drained(pod) && !has_ended(&pod.phase)
}

/// Formats `pod a` or `pods a, b, c and 2 more`.
fn pods_named(pods: &[String]) -> String {
    let plural = if pods.len() == 1 { "pod" } else { "pods" };
    format!("{plural} {}", some_of(pods))
}

/// Error for a version that is in no table. The order of two versions does not show whether one can be upgraded to the other.
fn unknown(what: &str, version: &str, known: &str) -> Problem {
    let expected = format!("a version of {what} that cluster-health knows ({known})");
    Problem::error(Reason::TargetUnknown, expected, format!("{what} {version}")).permanent()
}

/// Formats `1.13 on cp-1, cp-2 and 7 more`, by minor version.
fn by_minor(names: &BTreeMap<u32, Vec<&str>>, minors: impl Iterator<Item = u32>) -> String {
    let of = |minor: u32| format!("1.{minor} on {}", some_of(&names[&minor]));
    minors.map(of).collect::<Vec<_>>().join("; ")
}

/// Returns the first few names.
fn some_of<T: AsRef<str>>(names: &[T]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<&str> = names.iter().take(SHOWN).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
