//! A run that lacks an answer which one of its checks declares has not seen enough to pass.
//!
//! In a whole run, the check that reads such an answer for its own sake tells of the loss. In a selection that check may not run, or may
//! only warn by the user's will, and what was not seen must not pass for that.

use std::collections::{BTreeMap, BTreeSet};

use super::Check;
use super::gaps::{self, Protocol};
use super::scope::passed_over;
use crate::assess::Assessment;
use crate::model::{Fact, Finding, Kind, Outcome, Problem, Reason, Target, Verdict};
use crate::snapshot::{Missing, Snapshot, Source};

/// Where nothing stands in the way of a healthy verdict: adds to each check which of its answers are missing, unless it is told already
/// that something could not be seen for that reason.
pub(crate) fn require(snapshot: &Snapshot, verdicts: &mut [(&'static Check, Verdict)]) {
    if verdicts.iter().any(|(_, verdict)| !verdict.status().is_fine()) {
        return;
    }
    let facts: BTreeSet<Fact> = super::facts(verdicts.iter().map(|(check, _)| check));
    let is_lost = |fact: &Fact| is_empty(snapshot, *fact) || snapshot.missing(*fact).iter().any(|it| it.is_needed);
    let facts: BTreeSet<Fact> = facts.into_iter().filter(is_lost).collect();
    let is_talos_silent = snapshot.talos.is_some() && !snapshot.nodes.iter().any(|node| node.talos.contact.is_ok());
    if facts.is_empty() && !is_talos_silent {
        return;
    }
    let cluster = Assessment::of(snapshot);
    let told: BTreeSet<Reason> =
        verdicts.iter().flat_map(|(_, verdict)| verdict.problems()).map(|(_, problem)| problem.reason).collect();
    let lost: BTreeMap<Fact, Vec<_>> = facts.iter().map(|fact| (*fact, lost(&cluster, *fact))).collect();
    for (check, verdict) in verdicts {
        if check.facts.contains(&Fact::TalosNodes)
            && let Err(outcome @ Outcome::Problem(_)) = gaps::talos_way(&cluster)
        {
            verdict.findings.push(Finding::new(Target::cluster(), outcome));
        }
        for fact in check.facts.iter().filter(|fact| facts.contains(fact) && is_empty(snapshot, **fact)) {
            verdict.findings.push(Finding::new(Target::cluster(), gaps::says_nothing(fact.reads(), "an empty list")));
        }
        for missing in check.facts.iter().filter_map(|fact| lost.get(fact)).flatten() {
            let problem = problem(&cluster, missing);
            if !told.contains(&problem.reason) {
                verdict.findings.push(Finding::new(target(missing.by), Outcome::problem(problem)));
            }
        }
    }
}

/// An empty list of what every cluster has whose machines answer: it is no evidence, whatever it is asked for.
fn is_empty(snapshot: &Snapshot, fact: Fact) -> bool {
    let Some(kubernetes) = snapshot.kubernetes.as_ref().filter(|_| snapshot.talos.is_some()) else { return false };
    match fact {
        Fact::KubeNodes => kubernetes.nodes.as_ref().is_ok_and(Vec::is_empty),
        Fact::NodeLeases => kubernetes.node_leases.as_ref().is_ok_and(|leases| leases.by_name.is_empty()),
        Fact::Pods => kubernetes.pods.as_ref().is_ok_and(Vec::is_empty),
        _ => false,
    }
}

/// The missing answers behind a fact without which nobody can tell. What is not judged need not answer.
fn lost<'a>(cluster: &'a Assessment<'_>, fact: Fact) -> Vec<Missing<'a>> {
    let is_judged = |by: Source<'_>| match by {
        Source::Machine(node) => passed_over(cluster, node).is_none() && !cluster.machine(node).is_foreign,
        _ => true,
    };
    cluster.missing(fact).into_iter().filter(|it| it.is_needed && is_judged(it.by)).collect()
}

fn problem(cluster: &Assessment<'_>, missing: &Missing<'_>) -> Problem {
    match missing.by {
        Source::Kubernetes | Source::ApiServer(_) => gaps::kubernetes(cluster, missing.gap, missing.what),
        Source::Etcd(_) => gaps::etcd(missing.gap, missing.what),
        Source::Machine(_) | Source::Discovery | Source::Server(_) => {
            gaps::problem(Protocol::Talos, missing.gap, missing.what)
        }
    }
}

fn target(by: Source<'_>) -> Target {
    match by {
        Source::Machine(node) => node.target(),
        Source::ApiServer(name) => Target::new(Kind::Node, name),
        Source::Etcd(name) | Source::Server(name) => Target::new(Kind::Endpoint, name),
        Source::Discovery | Source::Kubernetes => Target::cluster(),
    }
}
