//! Checks that block others: `requires` and `after`, applied to every target of a round.
//!
//! Judges report what they could not observe, and none depends on another judge. Only here does that become "blocked by": the root of what
//! did not pass on the way to the target, or on the way to the cluster as a whole. A check that does not run blocks nothing; the way
//! continues behind it.

use std::collections::{HashMap, HashSet};

use tokio::task::yield_now;

use crate::assess::Assessment;
use crate::assess::workloads::RENEWAL;
use crate::checks::{self, Check};
use crate::diagnosis::{explain, propose};
use crate::model::{CheckId, Fact, Finding, Kind, Outcome, Problem, Severity, Shared, Target, Verdict};
use crate::snapshot::Snapshot;

/// Judges a round with the checks of a plan, before the user's options apply.
pub(crate) fn judge(plan: &[&'static Check], snapshot: &Snapshot) -> Vec<(&'static Check, Verdict)> {
    let cluster = &Assessment::of(snapshot);
    let mut targets = Targets::default();
    let mut verdicts: Vec<_> = plan.iter().map(|check| (*check, targets.share(own_verdict(check, cluster)))).collect();
    let graph = Graph::of(plan);
    let mut obstacles = HashMap::new();
    for id in &graph.order {
        graph.block(*id, &mut verdicts, &mut obstacles);
    }
    explain(snapshot, &mut verdicts);
    propose(snapshot, &mut verdicts);
    verdicts
}

/// Works like [`judge`], but yields after each check: with thousands of machines each check takes a while, in which a signal may arrive.
pub(crate) async fn judge_in_turns(plan: &[&'static Check], snapshot: &Snapshot) -> Vec<(&'static Check, Verdict)> {
    let cluster = &Assessment::of(snapshot);
    let mut verdicts = Vec::with_capacity(plan.len());
    let mut targets = Targets::default();
    for check in plan {
        verdicts.push((*check, targets.share(own_verdict(check, cluster))));
        yield_now().await;
    }
    let graph = Graph::of(plan);
    let mut obstacles = HashMap::new();
    for id in &graph.order {
        graph.block(*id, &mut verdicts, &mut obstacles);
        yield_now().await;
    }
    explain(snapshot, &mut verdicts);
    propose(snapshot, &mut verdicts);
    verdicts
}

/// Returns a check's own verdict, before blocking applies. Judges are pure, so another call returns the same verdict.
pub(crate) fn own_verdict(check: &Check, cluster: &Assessment<'_>) -> Verdict {
    let mut verdict = (check.judge)(cluster);
    if verdict.findings.is_empty() {
        return checks::nothing_judged();
    }
    let finds = |it: &Problem| it.severity == Severity::Error || check.finds.contains(&it.reason);
    debug_assert!(
        verdict.problems().all(|(_, it)| finds(it)),
        "{check:?} finds what its table does not have: {verdict:?}"
    );
    // A lease that looks stale may be about to be renewed, so a check that reads leases and finds a problem is judged again on fresh ones.
    let may_blame_lease = check.facts.contains(&Fact::NodeLeases) && verdict.problems().next().is_some();
    if verdict.resample_after.is_none() && may_blame_lease && cluster.a_lease_looks_stale() {
        verdict.resample_after = Some(RENEWAL);
    }
    // The list has grown by doubling, and is kept as long as the report.
    verdict.findings.shrink_to_fit();
    verdict
}

/// The targets named so far: many checks name each machine, and one copy of its name is enough for all of them.
#[derive(Default)]
struct Targets(HashSet<Shared<Target>>);

impl Targets {
    fn share(&mut self, mut verdict: Verdict) -> Verdict {
        for Finding { target, .. } in &mut verdict.findings {
            match self.0.get(target) {
                Some(known) => *target = known.clone(),
                None => _ = self.0.insert(target.clone()),
            }
        }
        verdict
    }
}

/// The checks of a plan and their dependencies.
struct Graph {
    place: HashMap<CheckId, usize>,
    /// Each check after its dependencies.
    order: Vec<CheckId>,
    /// Dependencies of a check that run, the nearest first: only the direct ones here, all of them below.
    nearest: HashMap<CheckId, Vec<CheckId>>,
    all: HashMap<CheckId, Vec<CheckId>>,
}

impl Graph {
    fn of(plan: &[&'static Check]) -> Self {
        let place = plan.iter().enumerate().map(|(at, check)| (check.id, at)).collect();
        let mut graph = Self { place, order: Vec::new(), nearest: HashMap::new(), all: HashMap::new() };
        for check in plan {
            graph.visit(check, plan);
        }
        graph
    }

    fn visit(&mut self, check: &Check, plan: &[&'static Check]) {
        if self.all.contains_key(&check.id) {
            return;
        }
        let (mut nearest, mut all) = (Vec::new(), Vec::new());
        for id in check.before() {
            let known = plan.iter().chain(checks::ALL).find(|check| check.id == id);
            if let Some(before) = known {
                self.visit(before, plan);
            }
            // A dependency that does not run is replaced by its own dependencies.
            let runs = self.place.contains_key(&id);
            nearest.extend(if runs { vec![id] } else { self.nearest.get(&id).cloned().unwrap_or_default() });
        }
        let far = nearest.iter().flat_map(|id| self.all[id].clone());
        for id in nearest.iter().copied().chain(far) {
            if !all.contains(&id) {
                all.push(id);
            }
        }
        self.nearest.insert(check.id, nearest);
        self.all.insert(check.id, all);
        if self.place.contains_key(&check.id) {
            self.order.push(check.id);
        }
    }

    /// Replaces each outcome that this check could not observe with the check that blocks it. Its dependencies have to be processed first.
    fn block(
        &self,
        id: CheckId,
        verdicts: &mut [(&'static Check, Verdict)],
        obstacles: &mut HashMap<CheckId, Obstacle>,
    ) {
        let (check, verdict) = &mut verdicts[self.place[&id]];
        for Finding { target, outcome } in &mut verdict.findings {
            if outcome.is_unseen()
                && let Some(by) = self.before(id, target, obstacles)
            {
                *outcome = Outcome::Blocked(by);
            }
        }
        obstacles.insert(id, Obstacle::of(check, verdict));
    }

    /// Returns the root of what did not pass on the way to this target.
    fn before(&self, check: CheckId, target: &Target, obstacles: &HashMap<CheckId, Obstacle>) -> Option<CheckId> {
        let nearest = || self.nearest[&check].iter().map(|id| &obstacles[id]);
        if target.kind == Kind::Cluster {
            return nearest().find_map(Obstacle::for_all).or_else(|| nearest().find_map(|it| it.for_some));
        }
        // The target itself, or the machine that it is on.
        let itself = (target.kind, target.name.clone());
        let machine = target.node.as_ref().map(|node| (Kind::Node, node.clone()));
        let on_the_way = self.all[&check].iter().find_map(|id| {
            let of = &obstacles[id].by_target;
            of.get(&itself).or_else(|| of.get(machine.as_ref()?)).copied()
        });
        let behind_endpoints = target.kind != Kind::Endpoint;
        on_the_way.or_else(|| nearest().find_map(|it| it.whole.or(it.endpoints.filter(|_| behind_endpoints))))
    }
}

/// The targets for which one check did not pass, and the root of each.
#[derive(Default)]
struct Obstacle {
    by_target: HashMap<(Kind, String), CheckId>,
    /// Root for the cluster as a whole.
    whole: Option<CheckId>,
    /// Root for some endpoint, which affects everything behind the endpoints.
    endpoints: Option<CheckId>,
    for_some: Option<CheckId>,
    passed_for_some: bool,
}

impl Obstacle {
    fn of(check: &Check, verdict: &Verdict) -> Self {
        let mut obstacle = Self::default();
        // Problems that the check found take precedence over outcomes that are blocked.
        let own = |outcome: &Outcome| match outcome {
            Outcome::Problem(problem) if problem.severity > Severity::Warn => Some(check.id),
            _ => None,
        };
        let others = |outcome: &Outcome| match outcome {
            Outcome::Blocked(by) => Some(*by),
            _ => None,
        };
        let seen = verdict.findings.iter().filter_map(|it| Some((&it.target, own(&it.outcome)?)));
        let blocked = verdict.findings.iter().filter_map(|it| Some((&it.target, others(&it.outcome)?)));
        for (target, by) in seen.chain(blocked) {
            obstacle.by_target.entry((target.kind, target.name.clone())).or_insert(by);
            match target.kind {
                Kind::Cluster | Kind::Credentials => obstacle.whole = obstacle.whole.or(Some(by)),
                Kind::Endpoint => obstacle.endpoints = obstacle.endpoints.or(Some(by)),
                _ => {}
            }
            obstacle.for_some = obstacle.for_some.or(Some(by));
        }
        obstacle.passed_for_some = verdict.findings.iter().any(|it| it.outcome.status().is_seen());
        obstacle
    }

    /// Returns the root if the check did not pass for the cluster, or passed for no target at all.
    fn for_all(&self) -> Option<CheckId> {
        self.whole.or(self.for_some.filter(|_| !self.passed_for_some))
    }
}
