//! The objects that Talos creates in a new cluster: kube-proxy, the network plugin, DNS, and permissions for kubelets.

use std::collections::BTreeSet;

use jiff::SignedDuration;

use super::daemon_sets;
use super::workloads::{Wanted, wanted};
use crate::assess::Assessment;
use crate::checks::Check;
use crate::checks::gaps::{listed, talos_fact};
use crate::checks::scope::control_planes;
use crate::model::{CheckId, Fact, Hint, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{BootstrapManifests, GapKind, Node};
use crate::text::some;

pub(in crate::checks) const MANIFESTS: Check = Check {
    id: CheckId::K8sManifests,
    stage: Stage::Nodes,
    summary: "Talos has applied the bootstrap manifests that its configuration requires",
    explain: "Once the API works, a control plane applies the bootstrap manifests: RBAC for kubelets that join, kube-proxy, \
flannel and CoreDNS, where they are enabled. It records the names of the applied manifests in `ManifestStatuses`. One \
control plane \
is enough.\n\n\
If none has applied any, the check fails in a new cluster (its oldest Node is younger than one hour) and where kube-proxy or \
flannel is missing. In an older cluster that has both, or in one with manifests of its own, it is a warning, and so is a single \
manifest that is missing.\n\n\
Extra and inline manifests count as well. Only the names are read from their \
configuration, which may contain secrets. A manifest that cannot be downloaded is the only one missing; one that the API \
server refuses also holds up those that were added with it. Without Talos the check is \
skipped.\n\n\
Look at `talosctl -n CP logs controller-runtime` for the line that names the manifest and the error of the API server.",
    severity: Severity::Fail,
    finds: &[Reason::ManifestsNotApplied],
    facts: &[Fact::TalosNodes, Fact::BootstrapManifests, Fact::ManifestStatuses, Fact::DaemonSets, Fact::KubeNodes],
    judge: manifests,
};

/// Time after the creation of the first Node during which a cluster is considered new.
const NEW: SignedDuration = SignedDuration::from_hours(1);

/// Maximum number of manifests that are named.
const NAMED: usize = 5;

/// A bootstrap manifest that the configuration can disable.
struct Optional {
    /// The end of the manifest's name, which begins with its position in the order of application.
    name: &'static str,
    enabled: fn(&BootstrapManifests) -> bool,
}

const OPTIONAL: [Optional; 3] = [
    Optional { name: "flannel", enabled: |manifests| manifests.flannel_enabled },
    Optional { name: "kube-proxy", enabled: |manifests| manifests.proxy_enabled },
    Optional { name: "core-dns", enabled: |manifests| manifests.dns_enabled },
];

fn manifests(cluster: &Assessment<'_>) -> Verdict {
    if !cluster.asks_talos() {
        return Verdict::skipped("only Talos reports which manifests it has applied");
    }
    let nodes = match (listed(cluster, |it| &it.nodes, "the list of nodes"), control_planes(cluster)) {
        (Ok(_), Ok(nodes)) => nodes,
        (Err(outcome), _) | (_, Err(outcome)) => return Verdict::whole(outcome),
    };
    let mut applied: BTreeSet<&str> = BTreeSet::new();
    let mut unread = Vec::new();
    for node in &nodes {
        match talos_fact(cluster, node, |talos| &talos.manifests_applied, "the manifests that it has applied") {
            Ok(names) => applied.extend(names.iter().map(String::as_str)),
            Err(outcome) => unread.push((node.target(), outcome)),
        }
    }
    let is_applied =
        |its: &Optional| applied.iter().any(|name| name.split_once('-').is_some_and(|it| it.1 == its.name));
    let missing = OPTIONAL.iter().filter(|its| wanted(cluster, its.enabled) == Wanted::Yes && !is_applied(its));
    let missing = missing.map(|its| its.name);
    let extra: BTreeSet<&str> =
        nodes.iter().flat_map(|node| node.talos.extra_manifests.iter().flatten()).map(String::as_str).collect();
    let has_own = !extra.is_empty();
    let extra = extra.into_iter().filter(|name| !applied.contains(name));
    let missing: Vec<&str> = missing.chain(extra).collect();
    let mut verdict = Verdict::default();
    let mut gaps = nodes.iter().filter_map(|node| node.talos.extra_manifests.as_ref().err());
    if let Some(gap) = gaps.find(|gap| gap.kind != GapKind::NotAsked) {
        verdict.leave_out(format!("extra and inline manifests: {}", gap.text));
    }
    if !applied.is_empty() && missing.is_empty() {
        verdict.ok(Target::cluster());
    } else if unread.is_empty() {
        let problem = if applied.is_empty() { none_applied(cluster, has_own) } else { Ok(some_missing(&missing)) };
        let outcome = match problem {
            Ok(problem) => Outcome::problem(with_next_steps(problem, &nodes)),
            Err(unread) => unread,
        };
        verdict.push(Target::cluster(), outcome);
    } else {
        // A missing answer may contain the manifests that the others lack.
        for (target, outcome) in unread {
            verdict.push(target, outcome);
        }
    }
    verdict
}

/// Reports that no control plane has applied anything. Talos records what it has applied only after a pass without errors, so a manifest of
/// the user's own that is refused can be all that is wrong.
fn none_applied(cluster: &Assessment<'_>, has_own: bool) -> Result<Problem, Outcome> {
    let is_new = cluster.age_of_oldest_node().is_none_or(|age| age < NEW);
    let expected = "the bootstrap manifests applied by a control plane";
    let problem = Problem::fail(Reason::ManifestsNotApplied, expected, "none applied, on any control plane");
    Ok(if daemon_sets::some_is_missing(cluster)? || (is_new && !has_own) {
        problem.hint(Hint::likely("the API server refuses one of them, or the control planes cannot reach it"))
    } else if has_own {
        let likely = "Talos cannot download one of the extra or inline manifests, or the API server refuses it";
        Problem { severity: Severity::Warn, ..problem }.hint(Hint::likely(likely))
    } else {
        Problem { severity: Severity::Warn, ..problem }
    })
}

fn with_next_steps(problem: Problem, control_planes: &[&Node]) -> Problem {
    let commands = ["{talosctl} -n {} get manifeststatuses -o yaml", "{talosctl} -n {} logs controller-runtime"];
    let hints =
        control_planes.iter().take(1).flat_map(|node| commands.map(|it| Hint::run(it, [node.address.as_str()])));
    hints.fold(problem, Problem::hint)
}

fn some_missing(missing: &[&str]) -> Problem {
    let observed = format!("not applied: {}", some(missing.iter(), NAMED));
    Problem::warn(Reason::ManifestsNotApplied, "every bootstrap manifest that is enabled", observed)
}
