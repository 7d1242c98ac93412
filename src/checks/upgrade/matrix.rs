//! Checks whether the versions of Talos and Kubernetes are compatible before, during and after the upgrade.

use std::collections::BTreeMap;

use super::data::{self, KNOWN_KUBERNETES, KNOWN_TALOS, TALOS, Talos, known_talos};
use super::{beyond_scope, by_minor, not_asked, talos_of, unknown};
use crate::assess::Assessment;
use crate::checks::Check;
use crate::checks::kubernetes::versions::{self, Extent, Seen};
use crate::checks::scope::each_node_to_upgrade;
use crate::model::{CheckId, Hint, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::text::version;

pub(in crate::checks) const MATRIX: Check = Check {
    id: CheckId::UpgradeMatrix,
    stage: Stage::Upgrade,
    summary: "Talos and Kubernetes support each other in every version of the upgrade",
    explain: "Runs with `--upgrade-talos` or `--upgrade-kubernetes`. Each minor version of Talos supports about six of \
Kubernetes. The new version of one has to support the current version of the other on every machine. With both options, the \
two new versions have to support each other, and one of the two orders has to work; the report shows which. The upgrade of Kubernetes \
includes machines outside of `--nodes`; if they do not answer, their Nodes show the version of Talos.\n\n\
Nothing else checks this in advance: Talos refuses an unsupported Kubernetes only once the machine runs it, and `talosctl \
upgrade-k8s` knows only the current Talos. A version that cluster-health does not know is an error (`target-unknown`).",
    severity: Severity::Fail,
    finds: &[Reason::VersionsIncompatible],
    facts: versions::FACTS,
    judge: matrix,
};

/// Names by minor version.
type ByMinor<'a> = BTreeMap<u32, Vec<&'a str>>;

fn matrix(cluster: &Assessment<'_>) -> Verdict {
    let upgrade = &cluster.asked.upgrade;
    let (new_talos, new_kubernetes) = match targets(upgrade.talos.as_deref(), upgrade.kubernetes.as_deref()) {
        Ok((None, None)) => return not_asked("--upgrade-talos"),
        Ok(targets) => targets,
        Err(outcome) => return Verdict::whole(outcome),
    };
    let mut machines = ByMinor::new();
    let mut of_machines = each_node_to_upgrade(cluster, |node, verdict| match talos_of(cluster, node) {
        Ok((1, minor, _)) => machines.entry(minor).or_default().push(&node.name),
        Ok((major, minor, patch)) => {
            let version = format!("v{major}.{minor}.{patch}");
            verdict.problem(node.target(), unknown("Talos", &version, KNOWN_TALOS));
        }
        Err(outcome) => verdict.push(node.target(), outcome),
    });
    let Seen { running, mut verdict, .. } = versions::seen(cluster, Some("a version to compare"), Extent::Scope);
    verdict.findings.append(&mut of_machines.findings);
    // The kubelets of machines that the options leave out are upgraded as well, while their Talos stays as it is.
    let mut others = ByMinor::new();
    let left_out = if new_talos.is_some() { &mut others } else { &mut machines };
    for (node, object) in beyond_scope(cluster).filter(|_| new_kubernetes.is_some()) {
        let own = talos_of(cluster, node).ok();
        let told = own.or_else(|| object.talos_tag().and_then(version::numbers));
        if let Some((1, minor, _)) = told {
            left_out.entry(minor).or_default().push(&node.name);
        } else {
            let observed = format!("operating system `{}`", object.os_image);
            let problem = Problem::error(Reason::UnreadableAnswer, "its version of Talos", observed);
            verdict.problem(node.target(), problem);
        }
    }
    let mut parts = ByMinor::new();
    for it in running.iter().filter(|it| !it.is_guest()) {
        match it.numbers {
            (1, minor, _) => parts.entry(minor).or_default().push(&it.name),
            _ => verdict.problem(it.target.clone(), unknown("Kubernetes", &it.version, KNOWN_KUBERNETES)),
        }
    }
    if (parts.is_empty() || machines.is_empty()) && verdict.problems().next().is_none() {
        let problem = Problem::error(Reason::NoAnswer, "versions of Talos and Kubernetes", "no version was seen");
        verdict.problem(Target::cluster(), problem);
        return verdict;
    }
    let pairs = Pairs { machines: &machines, others: &others, parts: &parts };
    let outcome = pairs.judge(new_talos, new_kubernetes);
    verdict.push(Target::cluster(), outcome);
    verdict
}

/// Returns the versions from the options, as the table has them.
fn targets(talos: Option<&str>, kubernetes: Option<&str>) -> Result<(Option<&'static Talos>, Option<u32>), Outcome> {
    let known = |text: &str| {
        let talos = data::target(text).and_then(known_talos);
        talos.ok_or_else(|| Outcome::problem(unknown("Talos", &format!("v{text}"), KNOWN_TALOS)))
    };
    let minor = |text: &str| {
        let numbers = data::target(text).filter(|numbers| data::is_known_kubernetes(*numbers));
        let unknown = || Outcome::problem(unknown("Kubernetes", &format!("v{text}"), KNOWN_KUBERNETES));
        numbers.map(|it| it.1).ok_or_else(unknown)
    };
    Ok((talos.map(known).transpose()?, kubernetes.map(minor).transpose()?))
}

/// The versions that are running now.
struct Pairs<'a> {
    machines: &'a ByMinor<'a>,
    /// Machines that get the new Kubernetes, but not the new Talos.
    others: &'a ByMinor<'a>,
    parts: &'a ByMinor<'a>,
}

impl Pairs<'_> {
    fn judge(&self, talos: Option<&Talos>, kubernetes: Option<u32>) -> Outcome {
        for machines in [self.machines, self.others] {
            let unknown_machines: Vec<u32> =
                machines.keys().copied().filter(|minor| known_talos((1, *minor, 0)).is_none()).collect();
            if kubernetes.is_some() && !unknown_machines.is_empty() {
                let versions = by_minor(machines, unknown_machines.into_iter());
                return Outcome::problem(unknown("Talos", &versions, KNOWN_TALOS));
            }
        }
        let (old_parts, old_machines) = (
            talos.map(|talos| self.parts_beyond(talos)).unwrap_or_default(),
            kubernetes.map(|kubernetes| beyond(self.machines, kubernetes)).unwrap_or_default(),
        );
        let left_out = kubernetes.map(|kubernetes| beyond(self.others, kubernetes)).unwrap_or_default();
        match (talos, kubernetes) {
            (_, Some(kubernetes)) if !left_out.is_empty() => {
                let versions = by_minor(self.others, left_out.into_iter());
                let observed = format!("left out by the options, so its Talos stays: {versions}");
                let expected = format!("every machine runs a Talos that supports Kubernetes 1.{kubernetes}");
                let problem = Problem::fail(Reason::VersionsIncompatible, expected, observed);
                problem.hint(Hint::likely("upgrade Talos on these machines as well")).into_outcome()
            }
            (Some(talos), Some(kubernetes)) => {
                if !talos.kubernetes.contains(&kubernetes) {
                    return unsupported(talos, format!("Kubernetes 1.{kubernetes}")).into_outcome();
                }
                match (old_parts.is_empty(), old_machines.is_empty()) {
                    (true, true) => pass("Talos and Kubernetes may be upgraded in either order"),
                    (true, false) => pass("upgrade Talos first, then Kubernetes"),
                    (false, true) => pass("upgrade Kubernetes first, then Talos"),
                    (false, false) => {
                        let observed = format!(
                            "neither order works: Kubernetes {}, Talos {}",
                            by_minor(self.parts, old_parts.into_iter()),
                            by_minor(self.machines, old_machines.into_iter()),
                        );
                        let expected =
                            format!("an order that leads to Talos 1.{} and Kubernetes 1.{kubernetes}", talos.minor);
                        let problem = Problem::fail(Reason::VersionsIncompatible, expected, observed);
                        problem.hint(Hint::likely("upgrade to a minor version in between first")).into_outcome()
                    }
                }
            }
            (Some(talos), None) if !old_parts.is_empty() => {
                let observed = format!("Kubernetes {}", by_minor(self.parts, old_parts.into_iter()));
                let problem = unsupported(talos, observed);
                match self.kubernetes_before(talos) {
                    Some(minor) => problem.hint(Hint::likely(format!("upgrade Kubernetes to 1.{minor} first"))),
                    None => problem,
                }
                .into_outcome()
            }
            (None, Some(kubernetes)) if !old_machines.is_empty() => {
                let observed = format!("Talos {}", by_minor(self.machines, old_machines.into_iter()));
                let expected = format!("every machine runs a Talos that supports Kubernetes 1.{kubernetes}");
                let problem = Problem::fail(Reason::VersionsIncompatible, expected, observed);
                match self.talos_before(kubernetes) {
                    Some(minor) => problem.hint(Hint::likely(format!("upgrade Talos to 1.{minor} first"))),
                    None => problem,
                }
                .into_outcome()
            }
            (Some(talos), None) => pass(&format!("Talos 1.{} supports the current Kubernetes", talos.minor)),
            _ => pass("the current Talos supports the new Kubernetes"),
        }
    }

    /// Returns the versions of Kubernetes that this Talos does not support.
    fn parts_beyond(&self, talos: &Talos) -> Vec<u32> {
        self.parts.keys().copied().filter(|minor| !talos.kubernetes.contains(minor)).collect()
    }

    /// Returns a version of Kubernetes to upgrade to before this Talos: both the running and the new Talos support it,
    /// and it is not a downgrade.
    fn kubernetes_before(&self, talos: &Talos) -> Option<u32> {
        let newest = *self.parts.keys().next_back()?;
        talos.kubernetes.clone().find(|minor| *minor >= newest && beyond(self.machines, *minor).is_empty())
    }

    /// Returns a version of Talos to upgrade to before this Kubernetes: it supports both the running and the new
    /// Kubernetes, and is not a downgrade.
    fn talos_before(&self, kubernetes: u32) -> Option<u32> {
        let newest = *self.machines.keys().next_back()?;
        let fits = |talos: &&Talos| {
            talos.is_released
                && talos.minor >= newest
                && talos.kubernetes.contains(&kubernetes)
                && self.parts_beyond(talos).is_empty()
        };
        TALOS.iter().find(fits).map(|talos| talos.minor)
    }
}

/// Returns the versions of Talos that do not support this Kubernetes.
fn beyond(machines: &ByMinor<'_>, kubernetes: u32) -> Vec<u32> {
    let supports = |minor: u32| known_talos((1, minor, 0)).is_some_and(|it| it.kubernetes.contains(&kubernetes));
    machines.keys().copied().filter(|minor| !supports(*minor)).collect()
}

fn unsupported(talos: &Talos, observed: String) -> Problem {
    let (oldest, newest) = (talos.kubernetes.start(), talos.kubernetes.end());
    let expected = format!("Kubernetes 1.{oldest} to 1.{newest}, which Talos 1.{} supports", talos.minor);
    Problem::fail(Reason::VersionsIncompatible, expected, observed)
}

fn pass(line: &str) -> Outcome {
    Outcome::Pass(Some(line.to_owned()))
}

trait IntoOutcome {
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for Problem {
    /// Permanent problem, because only the user changes versions.
    fn into_outcome(self) -> Outcome {
        Outcome::problem(self.permanent())
    }
}
