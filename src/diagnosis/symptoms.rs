//! One round from the perspective of causes: problems with their places, and which problem follows from which.
//!
//! A large cluster in trouble has thousands of problems. Lookups go by check or by machine, so that no problem is compared with all others.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet};

use super::Explained;
use super::graph::Causes;
use crate::assess::service;
use crate::checks::{Check, problems};
use crate::model::{CheckId, Kind, Outcome, Problem, Reason, Severity, Target, Verdict};
use crate::snapshot::{EtcdEndpoint, Node, Service, Snapshot};
use crate::text::{host, some};

/// The input from which causes are recognized.
pub(crate) struct Symptoms<'a> {
    pub(super) snapshot: &'a Snapshot,
    all: Vec<Sign<'a>>,
    by_check: HashMap<CheckId, Vec<usize>>,
    subjects: Subjects,
    verdicts: &'a [(&'static Check, Verdict)],
    /// Targets that passed a check; computed on first use, because a healthy cluster never needs them.
    passed: OnceCell<HashSet<(CheckId, &'a Target)>>,
    nodes: HashMap<&'a str, &'a Node>,
    machines: Subjects,
    machine_targets: Vec<Target>,
    /// The direct consequences of each problem.
    consequences: Vec<Vec<usize>>,
    /// Problems that earlier causes already explain.
    explained: BTreeSet<usize>,
}

/// One problem and where it was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sign<'a> {
    /// The position in the round.
    pub(super) at: usize,
    pub(super) check: CheckId,
    pub(super) target: &'a Target,
    pub(super) problem: &'a Problem,
    /// The problem follows from another one.
    is_symptom: bool,
}

impl Sign<'_> {
    fn explained(&self) -> Explained {
        Explained {
            check: self.check,
            target: self.target.clone(),
            reason: self.problem.reason,
            observed: self.problem.observed.clone(),
        }
    }

    /// Returns whether the problem follows from no other one.
    pub(super) fn is_root(&self) -> bool {
        !self.is_symptom
    }
}

impl<'a> Symptoms<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, verdicts: &'a [(&'static Check, Verdict)]) -> Self {
        let problems = problems(verdicts);
        let causes = Causes::of(snapshot, verdicts);
        let sign = |(at, (check, target, problem))| {
            let is_symptom = !causes.behind(at).is_empty();
            Sign { at, check, target, problem, is_symptom }
        };
        let all: Vec<_> = problems.enumerate().map(sign).collect();
        let mut by_check: HashMap<_, Vec<usize>> = HashMap::new();
        for sign in &all {
            by_check.entry(sign.check).or_default().push(sign.at);
        }
        let problems = all.len();
        let machine_targets: Vec<_> = snapshot.nodes.iter().map(Node::target).collect();
        Self {
            snapshot,
            by_check,
            subjects: Subjects::of(all.iter().map(|sign| sign.target)),
            all,
            verdicts,
            passed: OnceCell::new(),
            nodes: snapshot.nodes.iter().map(|node| (node.name.as_str(), node)).collect(),
            machines: Subjects::of(&machine_targets),
            machine_targets,
            consequences: Self::consequences(&causes, problems),
            explained: BTreeSet::new(),
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Sign<'a>> {
        self.all.iter().copied()
    }

    /// Returns the problems with these reasons.
    pub(super) fn of(&self, reasons: &'static [Reason]) -> impl Iterator<Item = Sign<'a>> {
        self.all().filter(|sign| reasons.contains(&sign.problem.reason))
    }

    /// Returns the problems of one check with these reasons.
    pub(super) fn of_check(&self, check: CheckId, reasons: &'static [Reason]) -> impl Iterator<Item = Sign<'a>> {
        let signs = self.of_this_check(check).map(|at| self.all[at]);
        signs.filter(|sign| reasons.contains(&sign.problem.reason))
    }

    fn of_this_check(&self, check: CheckId) -> impl Iterator<Item = usize> {
        self.by_check.get(&check).into_iter().flatten().copied()
    }

    /// Returns the problems about the same machine, including the target's own.
    pub(super) fn about(&self, target: &Target) -> impl Iterator<Item = Sign<'a>> {
        self.subjects.of_the_same(target, |at| self.all[at].target).into_iter().map(|at| self.all[at])
    }

    /// Returns whether the target passed this check.
    pub(super) fn passed(&self, check: CheckId, target: &'a Target) -> bool {
        self.all_passed().contains(&(check, target))
    }

    /// Returns whether any target passed this check.
    pub(super) fn passed_somewhere(&self, check: CheckId) -> bool {
        self.all_passed().iter().any(|(it, _)| *it == check)
    }

    /// Returns whether a check passed whose target is the whole cluster.
    pub(super) fn passed_on_the_whole(&self, check: CheckId) -> bool {
        self.all_passed().iter().any(|(it, target)| *it == check && target.kind == Kind::Cluster)
    }

    fn all_passed(&self) -> &HashSet<(CheckId, &'a Target)> {
        self.passed.get_or_init(|| {
            let verdicts = self.verdicts.iter();
            let passed = verdicts.flat_map(|(check, verdict)| {
                let fine = verdict.findings.iter().filter(|finding| matches!(finding.outcome, Outcome::Pass(_)));
                fine.map(|finding| (check.id, &*finding.target))
            });
            passed.collect()
        })
    }

    pub(super) fn node(&self, target: &Target) -> Option<&'a Node> {
        (target.kind == Kind::Node).then(|| self.nodes.get(target.name.as_str()).copied()).flatten()
    }

    /// Returns the machine's own state of one of its services.
    pub(super) fn service(&self, target: &Target, id: &str) -> Option<&'a Service> {
        service(self.node(target)?, id)
    }

    /// Returns the machine that the target is about, or that it runs on.
    pub(super) fn machine(&self, target: &Target) -> Option<&'a Node> {
        let same = self.machines.of_the_same(target, |at| &self.machine_targets[at]);
        same.first().map(|&at| &self.snapshot.nodes[at])
    }

    /// Returns the endpoints of `--etcd-endpoints`.
    pub(super) fn endpoints_of_etcd(&self) -> &'a [EtcdEndpoint] {
        self.snapshot.external_etcd.as_deref().unwrap_or_default()
    }

    /// Returns the number of comparisons between two targets.
    #[cfg(test)]
    pub(super) fn compared(&self) -> usize {
        self.subjects.compared.get() + self.machines.compared.get()
    }

    /// Groups signs by machine, in the order of the first sign of each group.
    pub(super) fn by_subject(&self, signs: impl Iterator<Item = Sign<'a>>) -> Vec<Vec<Sign<'a>>> {
        let mut groups: Vec<Vec<Sign<'a>>> = Vec::new();
        let mut group_of: HashMap<usize, usize> = HashMap::new();
        for sign in signs {
            let known = self.about(sign.target).filter_map(|same| group_of.get(&same.at).copied()).min();
            let group = known.unwrap_or(groups.len());
            if group == groups.len() {
                groups.push(Vec::new());
            }
            groups[group].push(sign);
            group_of.insert(sign.at, group);
        }
        groups
    }

    /// Returns whether no earlier cause explains the problem.
    pub(super) fn is_open(&self, sign: &Sign<'_>) -> bool {
        !self.explained.contains(&sign.at)
    }

    /// Marks these problems and all their consequences as explained, and returns those that were not explained before. `None` if these
    /// problems are all explained already.
    pub(super) fn explain(&mut self, shows: &BTreeSet<usize>) -> Option<(Severity, Vec<Explained>)> {
        if shows.is_subset(&self.explained) {
            return None;
        }
        let all = self.with_consequences(shows);
        let new: Vec<usize> = all.difference(&self.explained).copied().collect();
        self.explained.extend(&new);
        let severity = new.iter().map(|at| self.all[*at].problem.severity).max()?;
        // A check may lack two answers in the same words.
        let mut known = HashSet::new();
        let explained = new.into_iter().map(|at| self.all[at].explained()).filter(|it| known.insert(it.clone()));
        Some((severity, explained.collect()))
    }

    /// Adds all problems that follow from these, directly or indirectly.
    fn with_consequences(&self, shows: &BTreeSet<usize>) -> BTreeSet<usize> {
        let mut all = shows.clone();
        let mut open: Vec<usize> = shows.iter().copied().collect();
        while let Some(at) = open.pop() {
            open.extend(self.consequences[at].iter().filter(|more| all.insert(**more)));
        }
        all
    }

    /// Returns the direct consequences of each problem.
    fn consequences(causes: &Causes, problems: usize) -> Vec<Vec<usize>> {
        let mut consequences = vec![Vec::new(); problems];
        for at in 0..problems {
            for &cause in causes.behind(at) {
                consequences[cause].push(at);
            }
        }
        consequences
    }
}

/// An index of targets by the machine that they are about.
///
/// Targets that [`same_subject`] may consider the same share a key; it then decides about each target found there.
#[derive(Default)]
struct Subjects {
    /// All targets, by their own name.
    names: HashMap<String, Vec<usize>>,
    /// Machines, by address.
    addresses: HashMap<String, Vec<usize>>,
    /// Pods, by their node's name.
    pods: HashMap<String, Vec<usize>>,
    #[cfg(test)]
    compared: std::cell::Cell<usize>,
}

impl Subjects {
    fn of<'t>(targets: impl IntoIterator<Item = &'t Target>) -> Self {
        let mut subjects = Self::default();
        for (at, target) in targets.into_iter().enumerate() {
            subjects.names.entry(target.name.clone()).or_default().push(at);
            if let Some(address) = address(target).filter(|_| is_machine(target)) {
                subjects.addresses.entry(address.to_owned()).or_default().push(at);
            }
            if let Some(node) = &target.node {
                subjects.pods.entry(node.clone()).or_default().push(at);
            }
        }
        subjects
    }

    /// Returns the positions of the targets that are about the same machine, in order.
    fn of_the_same<'t>(&self, target: &Target, at: impl Fn(usize) -> &'t Target) -> Vec<usize> {
        fn found<'m>(map: &'m HashMap<String, Vec<usize>>, key: &str) -> impl Iterator<Item = usize> + use<'m> {
            map.get(key).into_iter().flatten().copied()
        }
        let mut places = BTreeSet::new();
        places.extend(found(&self.names, &target.name));
        if let Some(address) = address(target).filter(|_| is_machine(target)) {
            places.extend(found(&self.addresses, address));
        }
        if target.kind == Kind::Node {
            places.extend(found(&self.pods, &target.name));
        }
        if let Some(node) = &target.node {
            places.extend(found(&self.names, node));
        }
        #[cfg(test)]
        self.compared.set(self.compared.get() + places.len());
        places.into_iter().filter(|&place| same_subject(at(place), target)).collect()
    }
}

/// Returns whether both targets are about the same machine: by name, by address, or as a pod and its node.
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
    if !is_machine(one) || !is_machine(other) {
        return false;
    }
    let both_named = one.kind != Kind::Endpoint && other.kind != Kind::Endpoint;
    (both_named && one.name == other.name) || address(one).is_some_and(|it| address(other) == Some(it))
}

fn is_machine(target: &Target) -> bool {
    matches!(target.kind, Kind::Node | Kind::EtcdMember | Kind::Endpoint)
}

/// Returns the host of an endpoint, or the address of any other target.
fn address(target: &Target) -> Option<&str> {
    if target.kind != Kind::Endpoint {
        return target.address.as_deref();
    }
    Some(host(&target.name))
}

/// Lists each name once: `cp-1, cp-2 and cp-3`.
pub(super) fn names<'a>(targets: impl IntoIterator<Item = &'a Target>) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut known = HashSet::new();
    for target in targets {
        let name = target.to_string();
        if known.insert(name.clone()) {
            names.push(name);
        }
    }
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Lists at most `most` names: `cp-1, cp-2, cp-3 and 37 more`.
pub(super) fn first_names(targets: &[&Target], most: usize) -> String {
    if targets.len() <= most {
        return names(targets.iter().copied());
    }
    some(targets.iter(), most)
}
