//! Checks whether every drained machine has released its volumes.

use std::collections::{BTreeMap, HashSet};

use super::{bound_pods, is_evicted, not_asked, some_of};
use crate::assess::Assessment;
use crate::checks::Check;
use crate::checks::gaps::{listed, unregistered};
use crate::checks::scope::each_machine_to_drain;
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Verdict};
use crate::snapshot::VolumeAttachment;

pub(in crate::checks) const VOLUMES: Check = Check {
    id: CheckId::UpgradeVolumes,
    stage: Stage::Upgrade,
    summary: "no volume is attached to a machine that was drained",
    explain: "Runs with `--upgrade-talos` and `--drain`. A machine counts as drained if it is cordoned and has no pod left \
that a drain would evict. Volumes that are still attached to it keep the pods that moved elsewhere from starting; draining the \
next machine makes it worse.\n\n\
An attachment with a detach error fails. Any other is a warning, because detaching takes a moment, or up to 6 minutes after a \
machine went down with volumes attached. Volumes of machines that are not drained do not count.",
    severity: Severity::Fail,
    finds: &[Reason::VolumeAttached],
    facts: &[Fact::TalosNodes, Fact::KubeNodes, Fact::BoundPods, Fact::VolumeAttachments],
    judge: volumes,
};

fn volumes(cluster: &Assessment<'_>) -> Verdict {
    if !cluster.asked.upgrade.takes_down_machines() {
        return not_asked("--drain");
    }
    let (undrained, attachments) = match seen(cluster) {
        Ok(seen) => seen,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut verdict = each_machine_to_drain(cluster, |node, verdict| {
        let Some(object) = cluster.object(node) else { return verdict.push(node.target(), unregistered(node)) };
        let is_drained = object.unschedulable && !undrained.contains(object.name.as_str());
        let attached = attachments.get(object.name.as_str()).filter(|_| is_drained);
        let outcome = attached.map_or(Outcome::Pass(None), |attached| Outcome::problem(still_attached(attached)));
        verdict.push(node.target(), outcome);
    });
    verdict.sum_up("no volume is attached to a machine that was drained");
    verdict
}

/// Nodes with pods that a drain would evict, and the attachments of each node.
type Seen<'a> = (HashSet<&'a str>, BTreeMap<&'a str, Vec<&'a VolumeAttachment>>);

fn seen<'a>(cluster: &'a Assessment<'_>) -> Result<Seen<'a>, Outcome> {
    let evicted = bound_pods(cluster)?.iter().filter(|pod| is_evicted(pod));
    let undrained = evicted.map(|pod| pod.node.as_str()).collect();
    let mut attachments: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for attachment in listed(cluster, |kubernetes| &kubernetes.volume_attachments, "the VolumeAttachments")? {
        attachments.entry(&attachment.node).or_default().push(attachment);
    }
    Ok((undrained, attachments))
}

fn still_attached(attached: &[&VolumeAttachment]) -> Problem {
    let mut attached = attached.to_vec();
    attached.sort_by_key(|it| (it.detach_error.is_none(), it.name.as_str()));
    let names: Vec<&str> = attached.iter().map(|it| named(it)).collect();
    let volumes = if names.len() == 1 { "volume" } else { "volumes" };
    let observed = format!("still attached: {volumes} {}", some_of(&names));
    let expected = "no volume, as it is cordoned and its pods are gone";
    // Attachments with an error come first.
    let Some(first) = attached.first() else { return Problem::warn(Reason::VolumeAttached, expected, observed) };
    let problem = match &first.detach_error {
        Some(error) => {
            let observed = format!("{observed}; {} cannot be detached: {error}", named(first));
            Problem::fail(Reason::VolumeAttached, expected, observed)
        }
        None => Problem::warn(Reason::VolumeAttached, expected, observed),
    };
    problem.hint(Hint::run("{kubectl} describe volumeattachment {}", [first.name.as_str()]))
}

fn named(attachment: &VolumeAttachment) -> &str {
    if attachment.volume.is_empty() { &attachment.name } else { &attachment.volume }
}
