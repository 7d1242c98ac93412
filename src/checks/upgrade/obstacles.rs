//! Determines whether the cluster can carry out any drain. Other checks report the same faults, but the user may have chosen that they only warn,
//! or that they do not run.

use std::time::Duration;

use crate::assess::Assessment;
use crate::assess::workloads::{Renewal, renewal};
use crate::checks::etcd::{overview, stops_writes};
use crate::checks::gaps::as_unseen;
use crate::checks::kubernetes::leadership::leaders;
use crate::model::{Hint, Outcome, Problem, Reason, Severity};

/// Obstacles to every drain, and the delay after which a second sample can settle them.
#[derive(Default)]
pub(super) struct Obstacles {
    pub(super) outcomes: Vec<Outcome>,
    pub(super) resample_after: Option<Duration>,
}

impl Obstacles {
    /// If etcd refuses changes, no lease is renewed, and then nobody leads, so only the first of these is reported.
    pub(super) fn of(cluster: &Assessment<'_>) -> Self {
        let mut outcomes: Vec<Outcome> = etcd(cluster).into_iter().collect();
        let is_failure = |outcome: &Outcome| matches!(outcome, Outcome::Problem(it) if it.severity == Severity::Fail);
        if !outcomes.iter().any(is_failure) {
            outcomes.extend(no_lease_is_renewed(cluster));
        }
        if outcomes.iter().any(is_failure) {
            return Self { outcomes, resample_after: None };
        }
        let led = leaders(cluster);
        for (target, problem) in led.problems() {
            match (problem.severity, problem.reason) {
                (Severity::Fail, Reason::NotLeading) => {
                    let component = target.name.rsplit('/').next().unwrap_or_default();
                    let observed =
                        format!("no {component} leads, so evicted pods are not replaced: {}", problem.observed);
                    let obstacle = Problem { hints: problem.hints.clone(), ..impossible(observed) };
                    outcomes.push(Outcome::problem(Problem { places: problem.places.clone(), ..obstacle }));
                }
                // Both components lack the same answer.
                (Severity::Error, _) if !outcomes.iter().any(Outcome::is_unseen) => {
                    outcomes.push(as_unseen(Outcome::problem(problem.clone())));
                }
                (Severity::Fail | Severity::Error | Severity::Warn, _) => {}
            }
        }
        Self { outcomes, resample_after: led.resample_after }
    }
}

fn impossible(observed: impl Into<String>) -> Problem {
    Problem::fail(Reason::DrainImpossible, "a cluster that can evict and replace pods", observed)
}

/// Reports that etcd accepts no changes, or that this is unknown. Where etcd is not queried, the leases show it.
fn etcd(cluster: &Assessment<'_>) -> Option<Outcome> {
    if !cluster.asks_talos() && !cluster.asks_etcd() {
        return None;
    }
    let overview = match overview(cluster) {
        Ok(overview) => overview,
        Err(verdict) => {
            let outcomes = verdict.findings.iter().map(|finding| finding.outcome.clone());
            return outcomes.map(as_unseen).find(|outcome| matches!(outcome, Outcome::Problem(_)));
        }
    };
    if overview.quorum.is_lost() {
        return Some(Outcome::problem(impossible("etcd has no leader, so it accepts no changes")));
    }
    match stops_writes(cluster, overview) {
        Ok(None) if overview.quorum.proven => None,
        Ok(None) => {
            let problem = Problem::error(Reason::QuorumUnproven, "an etcd that accepts changes", "no quorum is proven");
            Some(Outcome::problem(problem.unseen()))
        }
        Ok(Some(alarms)) => {
            Some(Outcome::problem(impossible(format!("etcd accepts no changes while it has raised {alarms}"))))
        }
        Err(outcome) => Some(as_unseen(outcome)),
    }
}

/// Reports that nothing is written any more. An API server claims an hour for its own lease, which therefore does not show that it lapsed.
fn no_lease_is_renewed(cluster: &Assessment<'_>) -> Option<Outcome> {
    let of_nodes = cluster.list(|kubernetes| &kubernetes.node_leases).filter(|it| !it.by_name.is_empty())?;
    let of_system = cluster.list(|kubernetes| &kubernetes.system_leases)?;
    let is_of_server = |name: &str| name.starts_with("apiserver-");
    let leaders = of_system.by_name.iter().filter(|(name, _)| !is_of_server(name)).map(|it| (it.1, of_system.date));
    let all = of_nodes.by_name.values().map(|lease| (lease, of_nodes.date)).chain(leaders);
    let observed = "no kubelet and no leader renews its lease, so no changes are accepted";
    let problem = || impossible(observed).hint(Hint::run("{kubectl} get leases -A", []));
    let mut lapsed = all.map(|(lease, date)| renewal(lease, date) == Renewal::Lapsed);
    lapsed.all(|it| it).then(|| Outcome::problem(problem()))
}
