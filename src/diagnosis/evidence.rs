//! One round as the causes look at it: problems with their place, and what follows from which.

use std::collections::BTreeSet;

use super::Explained;
use crate::checks::{Check, Kind, Outcome, Problem, Reason, Target, Verdict, host};
use crate::snapshot::{Node, Snapshot};

/// What a cause is recognised from.
pub(crate) struct Evidence<'a> {
    pub(super) snapshot: &'a Snapshot,
    verdicts: &'a [(&'static Check, Verdict)],
    signs: Vec<Sign<'a>>,
}

/// One problem and where it was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sign<'a> {
    pub(super) check: &'static str,
    pub(super) target: &'a Target,
    pub(super) problem: &'a Problem,
}

impl Sign<'_> {
    pub(super) fn explained(&self) -> Explained {
        Explained {
            check: self.check,
            target: self.target.clone(),
            reason: self.problem.reason,
            observed: self.problem.observed.clone(),
        }
    }

    /// No judge knows a cause of it.
    pub(super) fn is_root(&self) -> bool {
        self.problem.explained_by.is_none()
    }
}

impl<'a> Evidence<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, verdicts: &'a [(&'static Check, Verdict)]) -> Self {
        let signs = verdicts
            .iter()
            .flat_map(|(check, verdict)| {
                verdict.problems().map(|(target, problem)| Sign { check: check.id, target, problem })
            })
            .collect();
        Self { snapshot, verdicts, signs }
    }

    pub(super) fn signs(&self) -> impl Iterator<Item = Sign<'a>> {
        self.signs.iter().copied()
    }

    /// The problems of these reasons.
    pub(super) fn of(&self, reasons: &'static [Reason]) -> impl Iterator<Item = Sign<'a>> {
        self.signs().filter(|sign| reasons.contains(&sign.problem.reason))
    }

    /// The same of one check only.
    pub(super) fn of_check(&self, check: &'static str, reasons: &'static [Reason]) -> impl Iterator<Item = Sign<'a>> {
        self.of(reasons).filter(move |sign| sign.check == check)
    }

    /// Problems about the same machine as this one, itself included.
    pub(super) fn about(&self, target: &'a Target) -> impl Iterator<Item = Sign<'a>> {
        self.signs().filter(|sign| same_subject(sign.target, target))
    }

    /// This check has seen this target, and it is well.
    pub(super) fn passed(&self, check: &str, target: &Target) -> bool {
        self.verdicts
            .iter()
            .filter(|(it, _)| it.id == check)
            .flat_map(|(_, verdict)| &verdict.findings)
            .any(|finding| matches!(finding.outcome, Outcome::Pass(_)) && finding.target == *target)
    }

    pub(super) fn node(&self, target: &Target) -> Option<&'a Node> {
        (target.kind == Kind::Node).then(|| self.snapshot.node(&target.name)).flatten()
    }

    /// Where these problems stand in the round.
    pub(super) fn positions(&self, explained: &[Explained]) -> BTreeSet<usize> {
        (0..self.signs.len()).filter(|&n| explained.contains(&self.signs[n].explained())).collect()
    }

    pub(super) fn at(&self, positions: &BTreeSet<usize>) -> Vec<Explained> {
        positions.iter().map(|&n| self.signs[n].explained()).collect()
    }

    /// With all problems whose judges name one of these as their cause, and so on.
    pub(super) fn with_consequences(&self, mut positions: BTreeSet<usize>) -> BTreeSet<usize> {
        loop {
            let more: Vec<usize> =
                (0..self.signs.len()).filter(|n| !positions.contains(n) && self.follows_from(*n, &positions)).collect();
            if more.is_empty() {
                return positions;
            }
            positions.extend(more);
        }
    }

    /// A check names another as its cause. Where that has found something about the same machine, that is what is meant.
    fn follows_from(&self, n: usize, positions: &BTreeSet<usize>) -> bool {
        let Some(cause) = self.signs[n].problem.explained_by else { return false };
        let named = || (0..self.signs.len()).filter(|&other| other != n && self.signs[other].check == cause);
        let same = |other: &usize| same_subject(self.signs[*other].target, self.signs[n].target);
        if named().any(|other| same(&other)) {
            named().filter(same).any(|other| positions.contains(&other))
        } else {
            named().any(|other| positions.contains(&other))
        }
    }
}

/// Signs about the same machine, together, in the order of the first of each.
pub(super) fn by_subject<'a>(signs: impl Iterator<Item = Sign<'a>>) -> Vec<Vec<Sign<'a>>> {
    let mut groups: Vec<Vec<Sign<'a>>> = Vec::new();
    for sign in signs {
        match groups.iter_mut().find(|group| group.iter().any(|it| same_subject(it.target, sign.target))) {
            Some(group) => group.push(sign),
            None => groups.push(vec![sign]),
        }
    }
    groups
}

/// Both are about one machine: by name, by address, or as a pod and its node.
pub(crate) fn same_subject(one: &Target, other: &Target) -> bool {
    if one == other {
        return true;
    }
    let is_pod_of = |pod: &Target, node: &Target| {
        (pod.kind, node.kind) == (Kind::Pod, Kind::Node) && pod.node.as_ref() == Some(&node.name)
    };
    if is_pod_of(one, other) || is_pod_of(other, one) {
        return true;
    }
    let is_machine = |target: &Target| matches!(target.kind, Kind::Node | Kind::EtcdMember | Kind::Endpoint);
    if !is_machine(one) || !is_machine(other) {
        return false;
    }
    let both_named = one.kind != Kind::Endpoint && other.kind != Kind::Endpoint;
    (both_named && one.name == other.name) || address(one).is_some_and(|it| address(other) == Some(it))
}

/// The host of an endpoint, the address of others.
fn address(target: &Target) -> Option<&str> {
    if target.kind != Kind::Endpoint {
        return target.address.as_deref();
    }
    Some(host(&target.name))
}

/// `cp-1, cp-2 and cp-3`; each once.
pub(super) fn names<'a>(targets: impl IntoIterator<Item = &'a Target>) -> String {
    let mut names: Vec<String> = Vec::new();
    for target in targets {
        let name = target.to_string();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}
