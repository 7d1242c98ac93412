//! Between two rounds that ask everything: does what stood in the way of a success still do so?
//!
//! That is all that is found out here. As long as it does, a round of everything could be no success either; once it does not, such a
//! round follows at once. Nothing that is judged here is reported, and no run ends by it.

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

/// The first rounds ask everything: some problems are known to be permanent only once they were seen again.
const FIRST: u32 = 3;
/// After so many that did not, or after this time, a round asks everything: what was well may be so no longer.
pub(super) const MOST: u32 = 24;
const LONGEST: Duration = Duration::from_secs(120);

/// A problem, whatever is said of it.
type Sign = (CheckId, Target, Reason, Severity, bool);

/// The problems of a round that others do not explain.
pub(crate) struct Recheck<'a> {
    last: &'a Snapshot,
    memory: &'a Memory,
    until: Instant,
    checks: Vec<&'static Check>,
    pub(crate) suspects: Suspects,
    signs: BTreeSet<Sign>,
}

impl<'a> Recheck<'a> {
    /// `memory`: after that round. `None`: only a round that asks everything can tell.
    pub(crate) fn of(round: &'a Round, memory: &'a Memory) -> Option<Self> {
        // Of some things control planes are the ones to say how others are, and there are few of them.
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
        // It is a run of its own, and tells what it does.
        let is_possible = memory.rounds >= FIRST && !signs.is_empty() && !suspects.facts.contains(&Fact::ServerCheck);
        let until = Instant::now() + LONGEST;
        is_possible.then_some(Self { last: &round.snapshot, memory, until, checks, suspects, signs })
    }

    /// There is nothing new. `limit`: by when that has to be known.
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

/// What stands in the way by itself.
fn roots(verdict: &Verdict) -> impl Iterator<Item = (&Target, &Problem)> {
    verdict.problems().filter(|(_, problem)| problem.severity > Severity::Warn && problem.explained_by.is_none())
}

/// The machine without which nobody knows whether the problem is still there, if it takes one. `None`: it may be any.
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
