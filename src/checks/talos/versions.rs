//! Stage 1: checks which version of Talos the machines run, and whether they all run the same one.

use std::collections::BTreeMap;

use crate::assess::Assessment;
use crate::assess::workloads::says_ready;
use crate::checks::Check;
use crate::checks::gaps::talos_contact;
use crate::checks::scope::each_node;
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{Allowance, Node};
use crate::text::version;

pub(in crate::checks) const VERSIONS: Check = Check {
    id: CheckId::TalosVersions,
    stage: Stage::Connectivity,
    summary: "every machine runs the same version of Talos, and the expected one",
    explain: "Compares the versions that the machines report. Different versions are a warning, because every rolling upgrade \
passes through that state. More than one minor version apart is a failure, because Talos does not support it.\n\n\
With `--nodes`, the named machines are also compared with the other machines, by the versions that the others' ready Nodes \
report to Kubernetes. For the other machines, only failures are reported.\n\n\
`--expect-talos V` requires a version: each machine that runs another one fails. After an upgrade this finds machines that \
were left out, were not rebooted, or rolled back to the previous version because the new one did not boot.",
    severity: Severity::Fail,
    finds: &[Reason::VersionUnexpected, Reason::VersionsMixed],
    facts: &[Fact::TalosNodes, Fact::KubeNodes],
    judge: versions,
};

type Numbers = (u32, u32, u32);

fn versions(cluster: &Assessment<'_>) -> Verdict {
    // Sorted by number, then by tag: two pre-releases of one version are different versions.
    let mut names = Versions::new();
    let mut verdict = each_node(cluster, |node, verdict| {
        let target = node.target();
        match told(cluster, node) {
            Ok((numbers, tag)) => {
                names.entry((numbers, tag)).or_default().push(&node.name);
                verdict.push(target, as_expected(cluster, node, tag));
            }
            Err(outcome) => {
                verdict.push(target, outcome);
                unseen_version(cluster, node, verdict);
            }
        }
    });
    if let Some(problem) = mixed(&names, &others(cluster)) {
        verdict.problem(Target::cluster(), problem);
    }
    verdict
}

/// Judges the demanded version of a machine that does not report one. An allowance for unready workers does not excuse a wrong version: the
/// Node shows it, or the report says that it was not checked.
fn unseen_version(cluster: &Assessment<'_>, node: &Node, verdict: &mut Verdict) {
    let Some(expected) = cluster.asked.expect_talos.as_ref() else { return };
    let shown = || cluster.object(node)?.talos_tag();
    match shown().map(|tag| as_expected(cluster, node, tag)) {
        Some(outcome @ Outcome::Problem(_)) => verdict.push(node.target(), outcome),
        _ if matches!(cluster.asked.max_unready_workers, Allowance::None) => {}
        _ => verdict.leave_out(format!("whether {} runs Talos v{expected}: it was not seen", node.target())),
    }
}

/// Machines by their version.
type Versions<'a> = BTreeMap<(Numbers, &'a str), Vec<&'a str>>;

/// Returns the versions of machines that are not judged, as far as Kubernetes reports them. Judged machines are
/// compared with them.
fn others<'a>(cluster: &'a Assessment<'_>) -> Versions<'a> {
    let mut others = Versions::new();
    for node in cluster.nodes().iter().filter(|node| node.out_of_scope && !node.leaving) {
        let told = cluster.object(node).filter(|object| says_ready(object)).and_then(|object| {
            let tag = object.talos_tag()?;
            Some((version::numbers(tag)?, tag))
        });
        if let Some(told) = told {
            others.entry(told).or_default().push(&node.name);
        }
    }
    others
}

fn told<'a>(cluster: &Assessment<'_>, node: &'a Node) -> Result<(Numbers, &'a str), Outcome> {
    let tag = talos_contact(cluster, node)?.version.tag.as_str();
    let unreadable = || {
        let observed = format!("version `{tag}`");
        Outcome::problem(Problem::error(Reason::UnreadableAnswer, "a version such as `v1.13.0`", observed))
    };
    Ok((version::numbers(tag).ok_or_else(unreadable)?, tag))
}

fn as_expected(cluster: &Assessment<'_>, node: &Node, tag: &str) -> Outcome {
    match &cluster.asked.expect_talos {
        Some(expected) if tag.strip_prefix('v').unwrap_or(tag) != expected => Outcome::problem(
            Problem::fail(Reason::VersionUnexpected, format!("Talos v{expected}"), format!("Talos {tag}"))
                .hint(Hint::likely(
                    "the upgrade has not reached it, awaits a reboot, or was rolled back because it did not boot",
                ))
                .hint(Hint::run("{talosctl} -n {} version", [node.address.as_str()])),
        ),
        _ => Outcome::Pass(None),
    }
}

fn mixed(names: &Versions<'_>, others: &Versions<'_>) -> Option<Problem> {
    let are_far =
        |(one, _): &(Numbers, &str), (other, _): &(Numbers, &str)| one.0 != other.0 || one.1.abs_diff(other.1) > 1;
    let mut compared = names.clone();
    if names.keys().any(|one| others.keys().any(|other| are_far(one, other))) {
        for (version, names) in others {
            compared.entry(*version).or_default().extend(names);
        }
    }
    if compared.len() < 2 {
        return None;
    }
    let mut of_each: Vec<String> = Vec::new();
    for ((_, tag), names) in &mut compared {
        names.sort_unstable();
        of_each.push(format!("{tag} on {}", names.join(", ")));
    }
    let observed = of_each.join("; ");
    let (oldest, newest) = (compared.keys().next()?, compared.keys().next_back()?);
    let problem = if are_far(oldest, newest) {
        Problem::fail(Reason::VersionsMixed, "versions of Talos that are one minor version apart at most", observed)
    } else {
        Problem::warn(Reason::VersionsMixed, "one version of Talos", observed)
            .hint(Hint::likely("a rolling upgrade is in progress, or was interrupted"))
    };
    Some(problem.hint(Hint::run("{kubectl} get nodes -o wide", [])))
}
