//! Stage 2: checks whether each machine's disk is large enough and not full, and whether its volumes are ready.

use super::{CONTAINER, MIB};
use crate::assess::{Assessment, is_container, is_older};
use crate::checks::Check;
use crate::checks::gaps::{self, says_nothing, talos_contact};
use crate::checks::scope::each_node;
use crate::model::{About, CheckId, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Verdict};
use crate::snapshot::{DATA_MOUNTS, GapKind, LOGS, Mount, Node, VOLUME_PHASES, Volume};
use crate::text;

pub(in crate::checks) const DISK: Check = Check {
    id: CheckId::TalosNodesDisk,
    stage: Stage::Readiness,
    summary: "every machine's disk is large enough and not full, and no volume has failed",
    explain: "Checks three things. Has a volume failed? Talos reports those that it could not find, create, unlock or grow, \
including user volumes. EPHEMERAL fails while it still waits, because nothing of Kubernetes starts without it; another volume that \
waits, or one with encryption keys that could not be updated, is a warning. Is the disk large enough? Talos requires 6 GiB, which leaves 3932 MiB for the partition EPHEMERAL, \
mounted at `/var`. Is at least a tenth of `/var` free? Less is a warning: the kubelet soon evicts pods, and etcd also keeps \
its data there. If no byte is free, that is a failure: etcd, the container runtime and the kubelet cannot write. The same applies to \
`/var/lib/etcd`, `/var/lib/containerd` and `/var/lib/kubelet` where they are partitions of their own. A full `/var/log` is a \
warning.\n\n\
Talos before 1.8 does not report its volumes; the size of `/var` is checked instead. In container mode the disks are the \
host's. A machine that reports no sizes or mounts is not checked for them: a single hanging file system, such as a lost \
network share, keeps Talos from reporting any.",
    severity: Severity::Fail,
    finds: &[Reason::DiskTooSmall, Reason::DiskNearlyFull, Reason::DiskFull, Reason::VolumeFailed],
    facts: &[Fact::TalosNodes, Fact::Volumes],
    judge: disk,
};

/// Minimum size that Talos requires for the partition EPHEMERAL: 6 GiB less all other partitions of the newest layout.
const LEAST_EPHEMERAL: u64 = 3932 * MIB;
/// Minimum size of the whole disk that Talos required before it had volumes, and the size it assumed for the other partitions.
const LEAST_DISK: u64 = 6144 * MIB;
const OTHER_PARTITIONS: u64 = 1400 * MIB;

/// Prefix of the ids of volumes that have to exist already (`ExistingVolumeConfig`).
const EXISTING: &str = "e-";

/// Maximum number of key failures listed for a volume.
const SYNCS: usize = 2;

fn disk(cluster: &Assessment<'_>) -> Verdict {
    each_node(cluster, |node, verdict| {
        let target = node.target();
        match of_node(cluster, node) {
            Ok(Judged { problems, .. }) if !problems.is_empty() => {
                for problem in problems {
                    verdict.problem(target.clone(), problem);
                }
            }
            Ok(Judged { unknown: Some(why), .. }) => {
                verdict.leave_out(format!("{target}: {why}"));
                verdict.skip(target, why);
            }
            Ok(_) => verdict.ok(target),
            Err(outcome) => verdict.push(target, outcome),
        }
    })
}

#[derive(Default)]
struct Judged {
    problems: Vec<Problem>,
    /// The reason why something could not be judged that is not required.
    unknown: Option<String>,
}

impl Judged {
    fn unknown(&mut self, why: impl Into<String>) {
        self.unknown.get_or_insert(why.into());
    }
}

fn of_node(cluster: &Assessment<'_>, node: &Node) -> Result<Judged, Outcome> {
    talos_contact(cluster, node)?;
    let mut judged = Judged::default();
    let volumes = match &node.talos.volumes {
        Ok(volumes) => Some(volumes.as_slice()),
        Err(gap) if gap.kind == GapKind::Unsupported && is_older(node, (1, 8, 0)) => None,
        Err(gap) => return Err(Outcome::problem(gaps::talos(gap, "the volumes of the machine"))),
    };
    if volumes.is_some_and(<[Volume]>::is_empty) {
        return Err(says_nothing("the volumes of the machine", "an empty list"));
    }
    judged.problems.extend(volumes.into_iter().flatten().flat_map(|volume| of_volume(node, volume)));
    if is_container(node) {
        judged.unknown(CONTAINER);
        return Ok(judged);
    }
    if let Some(volumes) = volumes {
        let ephemeral = volumes.iter().find(|volume| volume.id == "EPHEMERAL");
        let ephemeral = ephemeral.ok_or_else(|| says_nothing("the volume EPHEMERAL", "not in the machine's list"))?;
        match ephemeral.size {
            Some(size) if size < LEAST_EPHEMERAL => judged.problems.push(too_small(node, size, LEAST_EPHEMERAL)),
            Some(_) => {}
            None => judged.unknown(format!("the size of EPHEMERAL is not reported; its phase is {}", ephemeral.phase)),
        }
    }
    match &node.talos.mounts {
        // A file system that hangs or fails keeps Talos from answering; an unreadable answer has no such excuse.
        Err(gap) if gap.kind == GapKind::Malformed => {
            return Err(Outcome::problem(gaps::talos(gap, "the mounts of the machine")));
        }
        Err(gap) => judged.unknown(format!("its mounts are not reported: {}", gap.text)),
        Ok(mounts) => match mounts.iter().find(|mount| mount.path == "/var" && mount.size > 0) {
            Some(var) => {
                let least = LEAST_DISK - OTHER_PARTITIONS;
                if volumes.is_none() && var.size < least {
                    judged.problems.push(too_small(node, var.size, least));
                } else {
                    judged.problems.extend(own(mounts).filter_map(|mount| space(cluster, node, mount)));
                }
            }
            None => judged.unknown("the size of /var is not reported"),
        },
    }
    Ok(judged)
}

fn of_volume(node: &Node, volume: &Volume) -> Vec<Problem> {
    let phase = in_phase(volume);
    // Ids such as `u-`, `e-` and `r-` belong to volumes of the machine configuration. Talos itself does not wait for them.
    let is_of_user = volume.id.split_once('-').is_some_and(|(kind, _)| kind.len() == 1);
    let of_whom = |problem: Problem| if is_of_user { problem.about(About::SpareVolume) } else { problem };
    let look = || Hint::run("{talosctl} -n {} get volumestatus -o yaml", [node.address.as_str()]);
    phase.into_iter().chain(unsynced(volume)).map(|problem| of_whom(problem.hint(look()))).collect()
}

fn in_phase(volume: &Volume) -> Option<Problem> {
    let phase = volume.phase.as_str();
    let problem = match phase {
        "failed" => {
            let message = if volume.error.is_empty() { "no reason is given" } else { &volume.error };
            Problem::fail(Reason::VolumeFailed, "no failed volume", format!("{}: {message}", volume.id))
        }
        // Other missing volumes are created, or may be absent.
        "missing" if volume.id.starts_with(EXISTING) => Problem::fail(
            Reason::VolumeFailed,
            "no failed volume",
            format!("{}: no disk or partition matches", volume.id),
        ),
        // Without its own partition, META waits forever, as in container mode.
        "waiting" if volume.id != "META" => {
            let why = if volume.error.is_empty() { String::new() } else { format!(": {}", volume.error) };
            let observed = format!("{}: not there yet, phase `waiting`{why}", volume.id);
            // Nothing that runs Kubernetes starts without it.
            let severity = if volume.id == "EPHEMERAL" { Severity::Fail } else { Severity::Warn };
            Problem { severity, ..Problem::fail(Reason::VolumeFailed, "no volume that waits", observed) }
        }
        _ if VOLUME_PHASES.contains(&phase) => return None,
        _ => {
            let observed = format!("{}: phase `{phase}`", volume.id);
            Problem::error(Reason::UnreadableAnswer, "volumes in a phase that is known", observed)
        }
    };
    Some(problem)
}

/// Warning for a volume with keys that failed to sync. Another key opened it; whether it opens after the next reboot is unknown.
fn unsynced(volume: &Volume) -> Option<Problem> {
    let text = text::some(volume.failed_syncs.iter(), SYNCS);
    let observed = format!("{}: encryption keys are not up to date: {text}", volume.id);
    let problem = || Problem::warn(Reason::VolumeFailed, "volumes with the keys of the configuration", observed);
    (!volume.failed_syncs.is_empty()).then(|| problem().about(About::SpareVolume))
}

fn too_small(node: &Node, size: u64, least: u64) -> Problem {
    let expected = format!("at least {} MiB for /var", least / MIB);
    Problem::fail(Reason::DiskTooSmall, expected, format!("{} MiB", size / MIB))
        .hint(Hint::run("{talosctl} -n {} mounts", [node.address.as_str()]))
}

/// Returns the data mounts that have their own space. A directory mounted from the device of another mount shares its space.
fn own(mounts: &[Mount]) -> impl Iterator<Item = &Mount> {
    let is_first = |index: usize, mount: &Mount| {
        let mut before = mounts[..index].iter();
        before.all(|it| it.path != mount.path && (it.device != mount.device || mount.device.is_empty()))
    };
    let is_judged = |mount: &Mount| mount.size > 0 && DATA_MOUNTS.contains(&mount.path.as_str());
    let own = mounts.iter().enumerate().filter(move |(index, mount)| is_judged(mount) && is_first(*index, mount));
    own.map(|(_, mount)| mount)
}

fn space(cluster: &Assessment<'_>, node: &Node, mount: &Mount) -> Option<Problem> {
    let path = mount.path.as_str();
    let percent = cluster.asked.thresholds.disk_free;
    if u128::from(mount.available) >= u128::from(mount.size) * u128::from(percent) / 100 {
        return None;
    }
    let expected = match percent {
        10 => format!("a tenth of {path} free"),
        _ => format!("{percent} % of {path} free"),
    };
    let problem = if mount.available == 0 {
        let observed = format!("{path} is full: no byte of {} MiB is free", mount.size / MIB);
        match path {
            LOGS => Problem::warn(Reason::DiskFull, expected, observed).about(About::SpareVolume),
            _ => Problem::fail(Reason::DiskFull, expected, observed),
        }
    } else {
        let observed = format!("{path}: {} of {} MiB free", mount.available / MIB, mount.size / MIB);
        Problem::warn(Reason::DiskNearlyFull, expected, observed)
    };
    Some(problem.hint(Hint::run("{talosctl} -n {} usage -H --depth 2 {}", [node.address.as_str(), path])))
}
