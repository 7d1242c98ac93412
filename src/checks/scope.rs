//! The machines that a check judges: each machine of the population, or the control planes; and why some are only listed.

use super::gaps::{listed, says_nothing, talos_way, talos_way_if_asked};
use crate::assess::{Assessment, NotJudged, Standing};
use crate::model::{Hint, Outcome, Problem, Reason, Verdict};
use crate::snapshot::{GapKind, Kubernetes, Node};

/// Likely cause for a Node whose machine is silent and unknown to discovery. Whether the machine is off or gone cannot be determined, so
/// deleting the Node is left to the user.
pub(super) const OFF_OR_GONE: &str = "the machine was removed, or has been off for half an hour or more; delete its Node only if it is permanently gone (`kubectl delete node`)";

/// Skip text for a guest that a check does not judge.
pub(super) const GUEST: &str = "not a Talos machine";

/// Returns why a per-node check does not judge this node; `None` if it does. Each check decides whether guests count.
pub(super) fn reason_not_judged(cluster: &Assessment<'_>, node: &Node) -> Option<&'static str> {
    cluster.standing(node).not_judged().map(words)
}

fn words(why: NotJudged) -> &'static str {
    match why {
        NotJudged::Leaving => "the node is being removed",
        NotJudged::OutOfScope => "outside of `--nodes`",
        NotJudged::OutsideFlags => "not among the selected nodes",
        NotJudged::StaleDiscovery => "known only to discovery, and no longer there; see `talos.nodes.expected`",
        NotJudged::DeclaredOff => "off, as the policy says; see `policy.machines`",
    }
}

/// The outcome for a machine that is declared off; `None` for any other.
pub(super) fn declared_off(cluster: &Assessment<'_>, node: &Node) -> Option<Outcome> {
    let why = cluster.standing(node).not_judged().filter(|why| *why == NotJudged::DeclaredOff)?;
    Some(Outcome::Skip(words(why).to_owned()))
}

/// The outcome for what only shows that a machine is off: that is declared, whatever else is true of the machine.
pub(super) fn absence_declared(cluster: &Assessment<'_>, node: &Node) -> Option<Outcome> {
    cluster.machine(node).is_declared_off().then(|| Outcome::Skip(words(NotJudged::DeclaredOff).to_owned()))
}

/// Like [`reason_not_judged`], for checks that do not judge guests.
pub(super) fn reason_not_judged_as_talos(cluster: &Assessment<'_>, node: &Node) -> Option<&'static str> {
    match cluster.standing(node) {
        Standing::Judged => None,
        Standing::Guest => Some(GUEST),
        Standing::NotJudged(why) => Some(words(why)),
    }
}

/// Returns true if `--nodes` leaves machines out, so that statements about all nodes cover only the named ones.
pub(super) fn is_narrowed(cluster: &Assessment<'_>) -> bool {
    cluster.nodes().iter().any(|node| node.out_of_scope)
}

/// Judges each Talos node of the scope on its own. Nodes that are not judged are listed with the reason.
pub(super) fn each_node<'a>(cluster: &'a Assessment<'_>, judge: impl FnMut(&'a Node, &mut Verdict)) -> Verdict {
    talos_way(cluster).map_or_else(Verdict::whole, |()| each_of_scope(cluster, reason_not_judged_as_talos, judge))
}

/// Like [`each_node`], before an upgrade. Kubernetes alone can answer part of this, so without Talos every Node of the scope is judged.
/// Machines that a policy declares off are judged as well, because the upgrade still concerns them. So is a guest that `--drain` names.
pub(super) fn each_machine_to_drain<'a>(
    cluster: &'a Assessment<'_>,
    judge: impl FnMut(&'a Node, &mut Verdict),
) -> Verdict {
    let way = talos_way_if_asked(cluster);
    way.map_or_else(Verdict::whole, |()| each_of_scope(cluster, reason_not_drained, judge))
}

/// Like [`each_machine_to_drain`], for facts that only Talos provides.
pub(super) fn each_node_to_upgrade<'a>(
    cluster: &'a Assessment<'_>,
    judge: impl FnMut(&'a Node, &mut Verdict),
) -> Verdict {
    talos_way(cluster).map_or_else(Verdict::whole, |()| each_of_scope(cluster, reason_not_upgraded, judge))
}

/// Returns why a check of stage 8 does not judge this node.
pub(super) fn reason_not_upgraded(cluster: &Assessment<'_>, node: &Node) -> Option<&'static str> {
    match cluster.standing(node) {
        Standing::NotJudged(NotJudged::DeclaredOff) => cluster.is_guest(node).then_some(GUEST),
        Standing::Judged | Standing::Guest | Standing::NotJudged(_) => reason_not_judged_as_talos(cluster, node),
    }
}

/// Returns why a check of a drain does not judge this node. A guest can be drained, but not upgraded to a version of Talos.
pub(super) fn reason_not_drained(cluster: &Assessment<'_>, node: &Node) -> Option<&'static str> {
    let upgrade = &cluster.asked.upgrade;
    let is_only_drained = upgrade.talos.is_none() && upgrade.drains(node);
    reason_not_upgraded(cluster, node).filter(|why| *why != GUEST || !is_only_drained)
}

fn each_of_scope<'a>(
    cluster: &'a Assessment<'_>,
    reason_left_out: impl Fn(&Assessment<'_>, &Node) -> Option<&'static str>,
    mut judge: impl FnMut(&'a Node, &mut Verdict),
) -> Verdict {
    if cluster.nodes().is_empty() {
        return Verdict::whole(Outcome::problem(no_node(cluster)));
    }
    let mut verdict = Verdict::default();
    for node in cluster.nodes().iter().filter(|node| !node.out_of_scope) {
        match reason_left_out(cluster, node) {
            Some(reason) => verdict.skip(node.target(), reason),
            None => judge(node, &mut verdict),
        }
    }
    verdict
}

fn no_node(cluster: &Assessment<'_>) -> Problem {
    let problem = Problem::error(Reason::NodeMissing, "at least one node", "no source names any node");
    if !cluster.asks_talos() {
        return problem;
    }
    problem
        .hint(Hint::likely("discovery is disabled; pass the nodes with `--control-plane-nodes` and `--worker-nodes`"))
}

/// Problem if no control plane is known, so that its components cannot be judged.
pub(super) fn no_control_plane() -> Problem {
    Problem::error(Reason::NodeMissing, "at least one control plane", "no source names a control plane")
        .hint(Hint::likely("discovery is disabled; pass the control planes with `--control-plane-nodes`"))
}

/// Control planes, or why there is nothing to report about them.
pub(super) fn control_planes<'a>(cluster: &'a Assessment<'_>) -> Result<Vec<&'a Node>, Outcome> {
    let nodes: Vec<&Node> = cluster.control_planes().collect();
    if !nodes.is_empty() {
        return Ok(nodes);
    }
    let none = || Problem::error(Reason::NoAnswer, "control planes", "no control plane is known");
    if !cluster.asks_talos() {
        return Err(match listed(cluster, |kubernetes| &kubernetes.nodes, "the list of nodes") {
            Ok(nodes) if !nodes.is_empty() => elsewhere(cluster),
            Ok(_) => Outcome::problem(none()),
            Err(outcome) => outcome,
        });
    }
    Err(talos_way(cluster).err().unwrap_or_else(|| Outcome::problem(none())))
}

/// Outcome if no Node is a control plane. Static pods show whether the control plane is on these Nodes regardless of their labels.
fn elsewhere(cluster: &Assessment<'_>) -> Outcome {
    let asked = |kubernetes: &Kubernetes| !kubernetes.pods.as_ref().is_err_and(|gap| gap.kind == GapKind::NotAsked);
    match listed(cluster, |kubernetes| &kubernetes.pods, "the pods of kube-system") {
        Ok(_) if !cluster.hosts_of_mirrors("kube-apiserver").is_empty() => {
            let observed = "no Node has the control plane role, but kube-apiserver is among the static pods";
            Outcome::problem(Problem::error(Reason::NoAnswer, "control planes", observed))
        }
        Ok(pods) if pods.is_empty() && !cluster.system_has_no_pods() => {
            says_nothing("the pods of kube-system", "an empty list")
        }
        Err(outcome) if cluster.any_kubernetes().is_some_and(asked) => outcome,
        _ => Outcome::Skip("the control plane runs elsewhere: no Node is a control plane".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixture::healthy;

    #[test]
    fn each_reason_not_to_judge_a_machine_has_its_words() {
        for (why, expected) in [
            (NotJudged::Leaving, "being removed"),
            (NotJudged::OutOfScope, "`--nodes`"),
            (NotJudged::OutsideFlags, "selected nodes"),
            (NotJudged::StaleDiscovery, "discovery"),
            (NotJudged::DeclaredOff, "policy"),
        ] {
            assert!(words(why).contains(expected), "{why:?}");
        }
        let mut snapshot = healthy();
        snapshot.node_mut("w-1").leaving = true;
        let cluster = Assessment::of(&snapshot);
        let worker = cluster.node("w-1").unwrap();
        assert_eq!(reason_not_judged_as_talos(&cluster, worker), Some(words(NotJudged::Leaving)));
    }
}
