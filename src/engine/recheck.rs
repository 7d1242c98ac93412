//! Between two full rounds: do the problems that prevented a success still exist?
//!
//! Nothing else is determined here. While they exist, a full round could not succeed either; once they do not, a full round follows at
//! once. Nothing that is judged here is reported, and no run ends because of it.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::event::Round;
use super::weight::{accept, apply_severity_overrides};
use super::{Pace, own_verdict};
use crate::assess::Assessment;
use crate::checks::{self, Check};
use crate::model::{CheckId, Fact, Kind, Problem, Reason, Role, Severity, Target, Verdict};
use crate::snapshot::{Memory, Observe, Snapshot, Suspects};

/// The first rounds are full: some problems are known to be permanent only once they were seen again.
const FIRST: u32 = 3;
/// After this number of rechecks, or after this time, a full round follows: other parts may no longer be healthy.
pub(super) const MOST: u32 = 24;
const LONGEST: Duration = Duration::from_secs(120);

/// A problem, regardless of its wording.
type Sign = (CheckId, Target, Reason, Severity, bool);

/// The problems of a round that no other problem explains.
pub(crate) struct Recheck<'a> {
    last: &'a Snapshot,
    memory: &'a Memory,
    until: Instant,
    checks: Vec<&'static Check>,
    pub(crate) suspects: Suspects,
    signs: BTreeSet<Sign>,
}

impl<'a> Recheck<'a> {
    /// Prepares a recheck. `memory`: after that round. `None`: only a full round can decide.
    pub(crate) fn of(round: &'a Round, memory: &'a Memory) -> Option<Self> {
        // For some facts, control planes report the state of other machines, and there are few of them.
        let control_planes = round.snapshot.nodes.iter().filter(|node| node.role != Role::Worker);
        let machines = control_planes.map(|node| node.name.clone()).collect();
        let mut suspects = Suspects { facts: BTreeSet::new(), machines };
        let (mut checks, mut signs) = (Vec::new(), BTreeSet::new());
        for (check, verdict) in &round.verdicts {
            let before = signs.len();
            for (target, problem) in roots(verdict) {
                suspects.machines.extend(machine(check, target)?);
                signs.insert(sign(check, target, problem));
            }
            if signs.len() > before {
                checks.push(*check);
            }
        }
        suspects.facts = checks::facts(&checks);
        // The cluster's own health check is a separate run that emits events.
        let is_possible = memory.rounds >= FIRST && !signs.is_empty() && !suspects.facts.contains(&Fact::ServerCheck);
        let until = Instant::now() + LONGEST;
        is_possible.then_some(Self { last: &round.snapshot, memory, until, checks, suspects, signs })
    }

    /// Whether nothing has changed. `limit`: when that has to be known.
    pub(super) async fn is_unchanged(&self, pace: &Pace, observer: &mut impl Observe, limit: Instant) -> bool {
        let memory = Memory { elapsed: pace.started.elapsed(), ..self.memory.clone() };
        let asked = observer.recheck(&self.suspects, self.last, &memory);
        Instant::now() < self.until
            && timeout_at(limit, asked).await.is_ok_and(|snapshot| self.is_seen_in(pace, &snapshot))
    }

    pub(crate) fn is_seen_in(&self, pace: &Pace, snapshot: &Snapshot) -> bool {
        let cluster = Assessment::of(snapshot);
        let mut verdicts: Vec<_> = self.checks.iter().map(|check| (*check, own_verdict(check, &cluster))).collect();
        accept(snapshot, &mut verdicts);
        apply_severity_overrides(pace, snapshot, &mut verdicts);
        let seen: BTreeSet<Sign> = verdicts
            .iter()
            .flat_map(|(check, verdict)| verdict.problems().map(|(target, problem)| sign(check, target, problem)))
            .collect();
        self.signs.is_subset(&seen)
    }
}

fn sign(check: &Check, target: &Target, problem: &Problem) -> Sign {
    (check.id, target.clone(), problem.reason, problem.severity, problem.waiting_helps)
}

/// Returns the failing problems that no other problem explains.
fn roots(verdict: &Verdict) -> impl Iterator<Item = (&Target, &Problem)> {
    verdict.problems().filter(|(_, problem)| problem.severity > Severity::Warn && problem.explained_by.is_none())
}

/// Returns the machine, if any, whose answer is needed to see whether the problem persists. `None`: it may be any machine.
fn machine(check: &Check, target: &Target) -> Option<Vec<String>> {
    let is_asked_anyway = |fact: &Fact| *fact == Fact::TalosNodes || fact.right().is_some();
    match (target.kind, &target.node) {
        (Kind::Node, _) => Some(vec![target.name.clone()]),
        (Kind::Endpoint | Kind::Credentials, _) => Some(Vec::new()),
        (_, Some(node)) => Some(vec![node.clone()]),
        _ if check.id.is_of_etcd() => Some(Vec::new()),
        _ if check.id.is_of_kubernetes() && check.facts.iter().all(is_asked_anyway) => Some(Vec::new()),
        _ => None,
    }
}
