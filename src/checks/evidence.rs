//! Answers that one check uses and another check judges. In a complete run, the other check reports missing answers. In a selection it may
//! not run, so missing answers are reported here.

use std::collections::BTreeMap;

use super::Check;
use super::gaps::{self, Protocol};
use crate::assess::Assessment;
use crate::model::{CheckId, Fact, Finding, Kind, Outcome, Problem, Role, Stage, Target, Verdict};
use crate::snapshot::{Missing, Snapshot, Source};

/// Makes checks undetermined that lack such an answer, if the run would be healthy otherwise, and returns whether it did. Each loss is
/// reported by the first check that it concerns, and blocks the others.
pub(crate) fn require(snapshot: &Snapshot, verdicts: &mut [(&'static Check, Verdict)]) -> bool {
    if verdicts.iter().any(|(_, verdict)| !verdict.status().is_fine()) {
        return false;
    }
    let mut lost: BTreeMap<Fact, Vec<Finding>> = BTreeMap::new();
    let mut reported: BTreeMap<Fact, CheckId> = BTreeMap::new();
    for (check, verdict) in verdicts {
        for fact in check.facts.iter().filter(|fact| needs(check, **fact)) {
            let findings = lost.entry(*fact).or_insert_with(|| losses(snapshot, *fact));
            if findings.is_empty() {
                continue;
            }
            if let Some(by) = reported.get(fact) {
                verdict.push(Target::cluster(), Outcome::Blocked(*by));
            } else {
                verdict.findings.extend(findings.iter().cloned());
                reported.insert(*fact, check.id);
            }
        }
    }
    !reported.is_empty()
}

/// Returns true if the check needs the fact. Kubernetes' checks need every list that they declare. Checks of Talos and etcd do not need
/// Kubernetes, whose API may be down while they run. Most answers of Talos only add detail to checks that do not judge them; the exceptions
/// are etcd's members and the states of static pods.
fn needs(check: &Check, fact: Fact) -> bool {
    match check.stage {
        Stage::Connectivity | Stage::Readiness | Stage::Policy | Stage::Server => false,
        Stage::Etcd => {
            let compares_members = matches!(check.id, CheckId::EtcdMembersConsistent | CheckId::EtcdMembersNodes);
            compares_members && fact == Fact::EtcdMembership
        }
        Stage::ApiServer | Stage::ControlPlane | Stage::Nodes | Stage::StaticPods | Stage::Upgrade => {
            fact.right().is_some() || fact == Fact::StaticPodStatuses
        }
    }
}

/// Returns the findings for a fact that is missing or empty.
fn losses(snapshot: &Snapshot, fact: Fact) -> Vec<Finding> {
    if is_empty(snapshot, fact) {
        return vec![Finding::new(Target::cluster(), gaps::says_nothing(fact.reads(), "an empty list"))];
    }
    let missing: Vec<_> = snapshot.missing(fact).into_iter().filter(|it| it.is_needed).collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let cluster = Assessment::of(snapshot);
    let is_judged = |node: &str| cluster.control_planes().any(|it| it.name == node);
    let counts = |it: &Missing<'_>| match it.by {
        Source::Machine(node) => node.role != Role::Worker && is_judged(&node.name),
        _ => true,
    };
    let finding = |it: Missing<'_>| Finding::new(target(it.by), Outcome::problem(problem(&cluster, &it)));
    missing.into_iter().filter(counts).map(finding).collect()
}

/// Returns true if a fact that is never empty was returned empty. Node leases are expected only if Talos runs the kubelets.
fn is_empty(snapshot: &Snapshot, fact: Fact) -> bool {
    let Some(kubernetes) = &snapshot.kubernetes else { return false };
    match fact {
        Fact::KubeNodes => kubernetes.nodes.as_ref().is_ok_and(Vec::is_empty),
        Fact::Pods => {
            let is_empty = kubernetes.pods.as_ref().is_ok_and(Vec::is_empty);
            is_empty && !Assessment::of(snapshot).system_has_no_pods()
        }
        Fact::NodeLeases => {
            let is_empty = kubernetes.node_leases.as_ref().is_ok_and(|leases| leases.by_name.is_empty());
            is_empty && snapshot.talos.is_some()
        }
        _ => {
            debug_assert!(!fact.is_never_empty(), "{fact:?} has no arm here");
            false
        }
    }
}

fn problem(cluster: &Assessment<'_>, missing: &Missing<'_>) -> Problem {
    let expected = format!("an answer to: {}", missing.what);
    match missing.by {
        Source::Kubernetes | Source::ApiServer(_) => gaps::kubernetes(cluster, missing.gap, &expected),
        Source::Etcd(_) => gaps::etcd(missing.gap, &expected),
        Source::Machine(_) | Source::Discovery | Source::Server(_) => {
            gaps::problem(Protocol::Talos, missing.gap, expected)
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
