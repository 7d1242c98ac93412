//! `--max-unready-workers`, over all checks of a round: one set of workers, however many checks miss each of them.

use std::collections::BTreeSet;

use super::{Check, Finding, Kind, Outcome, Problem, Severity, Status, Verdict};
use crate::snapshot::{Allowance, Role, Snapshot};

/// Turns what is wrong with so many workers into warnings that name them. Control planes are never allowed to be missing, and
/// what could not be determined is no shortfall.
pub(crate) fn apply(snapshot: &Snapshot, verdicts: &mut [(&'static Check, Verdict)]) {
    let workers: BTreeSet<&str> = snapshot
        .nodes
        .iter()
        .filter(|node| node.role == Role::Worker && !node.leaving)
        .map(|node| node.name.as_str())
        .collect();
    let allowed = limit(snapshot, workers.len());
    let missing: BTreeSet<String> = verdicts
        .iter()
        .flat_map(|(_, verdict)| &verdict.findings)
        .filter(|finding| finding.target.kind == Kind::Node && finding.outcome.status() == Status::Fail)
        .map(|finding| finding.target.name.clone())
        .filter(|name| workers.contains(name.as_str()))
        .collect();
    if missing.is_empty() || missing.len() > allowed {
        return;
    }
    let findings = verdicts.iter_mut().flat_map(|(_, verdict)| &mut verdict.findings);
    for finding in findings.filter(|finding| finding.target.kind == Kind::Node) {
        if missing.contains(&finding.target.name) {
            relax(finding);
        }
    }
}

/// How many workers may be missing.
pub(super) fn limit(snapshot: &Snapshot, workers: usize) -> usize {
    match snapshot.asked.max_unready_workers {
        Allowance::None => 0,
        Allowance::Count(count) => count,
        Allowance::Percent(percent) => workers * usize::from(percent) / 100,
    }
}

fn relax(finding: &mut Finding) {
    match &mut finding.outcome {
        Outcome::Problem(Problem { severity: severity @ Severity::Fail, .. }) => *severity = Severity::Warn,
        // Nothing was seen of it, because it is missing, and that is allowed.
        outcome @ Outcome::Blocked(_) => *outcome = Outcome::Skip("missing within --max-unready-workers".to_owned()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ALL, fixture};
    use super::*;
    use crate::snapshot::{Gap, GapKind};

    fn verdicts(snapshot: &Snapshot) -> Vec<(&'static Check, Verdict)> {
        let mut verdicts: Vec<_> = ALL.iter().map(|check| (*check, (check.judge)(snapshot))).collect();
        apply(snapshot, &mut verdicts);
        verdicts
    }

    fn is_fine(snapshot: &Snapshot) -> bool {
        verdicts(snapshot).iter().all(|(_, verdict)| verdict.status().is_fine())
    }

    #[test]
    fn a_dead_worker_within_the_allowance_is_a_warning() {
        let mut snapshot = fixture::healthy();
        snapshot.power_off("w-1");
        assert!(!is_fine(&snapshot));
        snapshot.asked.max_unready_workers = Allowance::Count(1);
        assert!(is_fine(&snapshot));
        let warned = verdicts(&snapshot).iter().filter(|(_, verdict)| verdict.status() == Status::Warn).count();
        assert!(warned >= 2, "it is named");
        snapshot.asked.max_unready_workers = Allowance::Percent(99);
        assert!(!is_fine(&snapshot), "99 % of one worker is none");
    }

    #[test]
    fn control_planes_and_the_undetermined_are_never_allowed() {
        let mut snapshot = fixture::healthy();
        snapshot.asked.max_unready_workers = Allowance::Percent(100);
        snapshot.power_off("cp-3");
        assert!(!is_fine(&snapshot));
        let mut snapshot = fixture::healthy();
        snapshot.asked.max_unready_workers = Allowance::Percent(100);
        snapshot.talos_of("w-1").services = Err(Gap::new(GapKind::Malformed, "?"));
        assert!(!is_fine(&snapshot));
    }
}
