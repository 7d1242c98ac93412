//! Stage 1: which version of Talos runs, and is it one?

use std::collections::BTreeMap;

use crate::assess::Assessment;
use crate::checks::Check;
use crate::checks::gaps::talos_contact;
use crate::checks::scope::each_node;
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::Node;
use crate::text::version;

pub(in crate::checks) const VERSIONS: Check = Check {
    id: CheckId::TalosVersions,
    stage: Stage::Connectivity,
    summary: "every machine runs the same version of Talos, and the expected one",
    explain: "Compares the versions that the machines report. Different versions are a warning, because every rolling upgrade \
passes through that state. More than one minor version apart is a failure, because Talos does not support it.\n\n\
`--expect-talos V` requires a version: each machine that runs another one fails. After an upgrade this finds machines that \
were left out, were not rebooted, or fell back to the previous version because the new one did not boot.",
    severity: Severity::Fail,
    requires: &[CheckId::TalosNodesReachable],
    after: &[],
    facts: &[Fact::TalosNodes],
    judge: versions,
};

type Numbers = (u32, u32, u32);

fn versions(cluster: &Assessment<'_>) -> Verdict {
    // By number, then by tag: two pre-releases of one version are two versions.
    let mut names: BTreeMap<(Numbers, &str), Vec<&str>> = BTreeMap::new();
    let mut verdict = each_node(cluster, |node, verdict| {
        let target = node.target();
        match told(cluster, node) {
            Ok((numbers, tag)) => {
                names.entry((numbers, tag)).or_default().push(&node.name);
                verdict.push(target, as_expected(cluster, node, tag));
            }
            Err(outcome) => verdict.push(target, outcome),
        }
    });
    if let Some(problem) = mixed(&names) {
        verdict.problem(Target::cluster(), problem);
    }
    verdict
}

fn told<'a>(cluster: &Assessment<'_>, node: &'a Node) -> Result<(Numbers, &'a str), Outcome> {
    let tag = talos_contact(cluster, node)?.version.tag.as_str();
    let unreadable = || {
        let observed = format!("version `{tag}`");
        Outcome::Problem(Problem::error(Reason::UnreadableAnswer, "a version such as `v1.13.0`", observed))
    };
    Ok((version::numbers(tag).ok_or_else(unreadable)?, tag))
}

fn as_expected(cluster: &Assessment<'_>, node: &Node, tag: &str) -> Outcome {
    match &cluster.asked.expect_talos {
        Some(expected) if tag.strip_prefix('v').unwrap_or(tag) != expected => Outcome::Problem(
            Problem::fail(Reason::VersionUnexpected, format!("Talos v{expected}"), format!("Talos {tag}"))
                .hint(Hint::likely(
                    "the upgrade has not reached it, awaits a reboot, or was rolled back because it did not boot",
                ))
                .hint(Hint::run("{talosctl} -n {} version", [node.address.as_str()])),
        ),
        _ => Outcome::Pass(None),
    }
}

fn mixed(names: &BTreeMap<(Numbers, &str), Vec<&str>>) -> Option<Problem> {
    let (oldest, newest) = (names.keys().next()?, names.keys().next_back()?);
    if oldest == newest {
        return None;
    }
    let mut of_each: Vec<String> = Vec::new();
    for ((_, tag), names) in names {
        let mut names = names.clone();
        names.sort_unstable();
        of_each.push(format!("{tag} on {}", names.join(", ")));
    }
    let observed = of_each.join("; ");
    let ((major, minor, _), (newest_major, newest_minor, _)) = (oldest.0, newest.0);
    Some(if major != newest_major || newest_minor - minor > 1 {
        Problem::fail(Reason::VersionsMixed, "versions of Talos that are one minor version apart at most", observed)
    } else {
        Problem::warn(Reason::VersionsMixed, "one version of Talos", observed)
            .hint(Hint::likely("a rolling upgrade is in progress, or was interrupted"))
    })
}
