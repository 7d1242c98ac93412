//! Checks whether each machine can be upgraded from its current version to the target.

use super::data::{self, KNOWN_TALOS, Numbers, Talos, kubelet_skew};
use super::{every_machine, kubernetes_target, not_asked, talos_of, unknown};
use crate::assess::Assessment;
use crate::checks::Check;
use crate::checks::kubernetes::versions::{self, Extent, Running, Seen};
use crate::checks::scope::{GUEST, declared_off, each_node_to_upgrade};
use crate::checks::stated;
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::Node;

pub(in crate::checks) const TALOS_PATH: Check = Check {
    id: CheckId::UpgradeTalosPath,
    stage: Stage::Upgrade,
    summary: "every machine can be upgraded from its version of Talos to the target",
    explain: "Runs with `--upgrade-talos VERSION`. Compares the version that each machine reports with Talos's own \
compatibility table. The installer checks that table only after the image was pulled, the machine drained and the upgrade \
started.\n\n\
Outside of the table it fails: the machine is too old, or too new for a downgrade. Within the table, skipping a minor version \
is a warning, because only upgrades between adjacent minor versions are tested: upgrade to the latest patch of each in \
between. A downgrade is a warning, too, and so is a version of Talos that is still in development. A version that \
cluster-health does not know is an error (`target-unknown`), \
never a pass.\n\n\
A machine that a policy declares off fails, because it cannot be upgraded: switch it on first, or check the other machines with `--nodes`.",
    severity: Severity::Fail,
    finds: &[
        Reason::NodesContradict,
        Reason::MachineOff,
        Reason::UpgradePathUnsupported,
        Reason::MinorSkipped,
        Reason::Downgrade,
        Reason::TargetInDevelopment,
    ],
    facts: &[Fact::TalosNodes],
    judge: talos,
};

pub(in crate::checks) const KUBERNETES_PATH: Check = Check {
    id: CheckId::UpgradeKubernetesPath,
    stage: Stage::Upgrade,
    summary: "every Kubernetes component can be upgraded from its version to the target",
    explain: "Runs with `--upgrade-kubernetes VERSION`. Reads the versions of the control plane from the images of its static \
pods and those of the kubelets from their Node objects, as k8s.controlplane.versions does.\n\n\
`talosctl upgrade-k8s` upgrades to a newer patch of the same minor version, or to the next minor version, and never \
downgrades. Meanwhile the new API server works with kubelets of the old version, which may be at most three minor versions \
older (two for those before 1.25); this also applies to kubelets on machines with another operating system. A version that only \
a Talos in development supports is a warning. A component with an image that names no version is an error, because its current \
version is unknown; with --no-talos, the version that the API server reports is enough.\n\n\
A Talos machine that a policy declares off fails, because `talosctl upgrade-k8s` upgrades the kubelet of every machine.",
    severity: Severity::Fail,
    finds: &[Reason::MachineOff, Reason::UpgradePathUnsupported, Reason::TargetInDevelopment],
    facts: versions::FACTS,
    judge: kubernetes,
};

fn talos(cluster: &Assessment<'_>) -> Verdict {
    let Some(target) = &cluster.asked.upgrade.talos else { return not_asked("--upgrade-talos") };
    // An unknown target is reported once, regardless of the machines' versions.
    let known = data::target(target).and_then(|to| Some((to, data::known_talos(to)?)));
    let Some((to, table)) = known else {
        return Verdict::whole(Outcome::problem(unknown("Talos", &format!("v{target}"), KNOWN_TALOS)));
    };
    let mut verdict = each_node_to_upgrade(cluster, |node, verdict| {
        let step = || talos_of(cluster, node).map(|from| talos_step(from, to, table, target, is_final(node)));
        let outcome = off(cluster, node).map_or_else(step, |problem| Ok(Outcome::problem(problem)));
        verdict.push(node.target(), outcome.unwrap_or_else(|outcome| outcome));
    });
    for node in cluster.nodes().iter().filter(|node| cluster.asked.names(node) && cluster.is_guest(node)) {
        verdict.problem(node.target(), stated::contradicted("--nodes", GUEST));
    }
    if !table.is_released {
        verdict.problem(Target::cluster(), unreleased("Talos", target));
    }
    verdict.sum_up(&format!("{} can be upgraded to Talos v{target}", every_machine(cluster)));
    verdict
}

/// Reports a machine that a policy declares off. The policy excuses that nothing comes from it, not that it keeps its version.
fn off(cluster: &Assessment<'_>, node: &Node) -> Option<Problem> {
    declared_off(cluster, node)?;
    let problem =
        Problem::fail(Reason::MachineOff, "a machine that can be upgraded", "it cannot be upgraded while it is off");
    Some(problem.hint(Hint::likely(
        "switch it on first, delete its Node if the machine is gone, or check the other machines with `--nodes`",
    )))
}

/// Warning about a target whose rules can still change.
fn unreleased(what: &str, target: &str) -> Problem {
    let expected = format!("a minor version of {what} that is released");
    Problem::warn(Reason::TargetInDevelopment, expected, format!("{what} v{target} is in development")).permanent()
}

/// Returns true if the machine runs a final release, not a pre-release: no later version has the same numbers.
fn is_final(node: &Node) -> bool {
    node.talos.contact.as_ref().is_ok_and(|contact| !contact.version.tag.contains('-'))
}

fn talos_step(from: Numbers, to: Numbers, table: &Talos, target: &str, is_final: bool) -> Outcome {
    let (major, minor, patch) = from;
    let observed = format!("Talos v{major}.{minor}.{patch}");
    let unsupported = |expected: String| Problem::fail(Reason::UpgradePathUnsupported, expected, observed.as_str());
    let problem = if major != 1 || minor >= table.not_back_from {
        unsupported(format!("Talos older than 1.{}, to downgrade to v{target}", table.not_back_from))
    } else if minor < table.from {
        let first = minor + 1;
        unsupported(format!("Talos 1.{} or newer, to upgrade to v{target}", table.from)).hint(Hint::likely(format!(
            "upgrade to the latest patch of each minor version in between, first to 1.{first}"
        )))
    } else if from > to || (from == to && is_final && target.contains('-')) {
        let expected = format!("a version that is not newer than v{target}");
        Problem::warn(Reason::Downgrade, expected, observed)
    } else if table.minor - minor > 1 {
        let between: Vec<String> = (minor + 1..table.minor).map(|it| format!("1.{it}")).collect();
        let expected = format!("Talos 1.{}, the minor version before that of v{target}", table.minor - 1);
        Problem::warn(Reason::MinorSkipped, expected, observed)
            .hint(Hint::likely(format!("upgrade to the latest patch of {} first", between.join(", then "))))
    } else {
        return Outcome::Pass(None);
    };
    Outcome::problem(problem.permanent())
}

fn kubernetes(cluster: &Assessment<'_>) -> Verdict {
    let to = match kubernetes_target(cluster) {
        Ok(to) => to,
        Err(verdict) => return verdict,
    };
    let target = cluster.asked.upgrade.kubernetes.as_deref().unwrap_or_default();
    // Other distributions may pin all images by digest. Then the API server reports its version, and no other component
    // is newer.
    let demanded = cluster.asks_talos().then_some("a version to upgrade from");
    let Seen { running, mut verdict, .. } = versions::seen(cluster, demanded, Extent::Cluster);
    if !running.iter().any(Running::is_api_server) && verdict.problems().next().is_none() {
        let problem = Problem::error(Reason::NoAnswer, "the version of an API server", "no version was seen");
        verdict.problem(Target::cluster(), problem);
    }
    for it in &running {
        match kubernetes_step(it, to, target) {
            Some(problem) => verdict.problem(it.target.clone(), problem),
            None if it.is_guest() => {}
            None => verdict.ok(it.target.clone()),
        }
    }
    for node in cluster.nodes().iter().filter(|node| cluster.asks_talos() && !cluster.is_guest(node)) {
        if let Some(problem) = off(cluster, node) {
            verdict.problem(node.target(), problem);
        }
    }
    if data::is_kubernetes_in_development(to) {
        verdict.problem(Target::cluster(), unreleased("Kubernetes", target));
    }
    verdict.sum_up(&format!("Kubernetes can be upgraded to v{target}"));
    verdict
}

fn kubernetes_step(it: &Running, to: Numbers, target: &str) -> Option<Problem> {
    let (major, minor, _) = it.numbers;
    let unsupported = |expected: String| {
        Problem::fail(Reason::UpgradePathUnsupported, expected, format!("{} v{}", it.name, it.version)).permanent()
    };
    let is_final = !it.version.contains('-');
    if it.is_guest() && it.minor() >= (to.0, to.1) {
        let is_newer = it.minor() > (to.0, to.1);
        return is_newer.then(|| unsupported(format!("no kubelet of a newer minor version than v{target}")));
    }
    if it.numbers > to || major != to.0 || (it.numbers == to && is_final && target.contains('-')) {
        return Some(unsupported(format!("no component newer than v{target}: Kubernetes cannot be downgraded")));
    }
    let behind = if it.is_of_nodes() { kubelet_skew(minor) } else { 1 };
    (to.1 - minor > behind).then(|| {
        let plural = if behind == 1 { "" } else { "s" };
        unsupported(format!("at most {behind} minor version{plural} older than v{target}")).hint(Hint::likely(
            if it.is_guest() {
                "upgrade that kubelet first, or delete its Node if the machine is gone".to_owned()
            } else if it.is_of_nodes() {
                "bring it to the version of the control plane first".to_owned()
            } else {
                format!("upgrade to the latest patch of 1.{} first", minor + 1)
            },
        ))
    })
}
