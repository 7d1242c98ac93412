//! `accept` of a policy, over all checks of a round: known problems that may stay for a while.

use super::Check;
use crate::model::{CheckId, Finding, Kind, Outcome, Problem, Reason, Severity, Stage, Status, Target, Verdict};
use crate::snapshot::{Acceptance, ExcuseState, Snapshot};
use crate::text::fits;

/// Turns each accepted problem into a warning that says so, and names the entries that match nothing or too much. Whether anything was
/// accepted.
pub(crate) fn apply(snapshot: &Snapshot, verdicts: &mut [(&'static Check, Verdict)]) -> bool {
    let mut is_any = false;
    for entry in &snapshot.asked.policy.accept {
        if snapshot.excuse_state(&entry.excuse) != ExcuseState::Holds {
            continue;
        }
        let check = |(check, _): &(&Check, Verdict)| check.id == entry.check && check.stage != Stage::Upgrade;
        let Some((_, verdict)) = verdicts.iter_mut().find(|it| check(it)) else {
            tell(verdicts, entry, unused(entry, "the check does not run"));
            continue;
        };
        let matching = verdict.findings.iter().filter(|finding| matches(entry, finding)).count();
        let is_unknown = |finding: &Finding| {
            let fits = fits(&entry.target, &finding.target.name) || finding.target.kind == Kind::Cluster;
            fits && (matches!(finding.outcome, Outcome::Blocked(_)) || finding.outcome.status() == Status::Error)
        };
        if matching > entry.max {
            let observed = format!("{matching} match, so none of them is accepted");
            let expected = format!("at most {} of {}", entry.max, entry.name());
            tell(verdicts, entry, Problem::warn(Reason::AcceptExceeded, expected, observed));
        } else if matching > 0 {
            for finding in &mut verdict.findings {
                if matches(entry, finding)
                    && let Outcome::Problem(problem) = &mut finding.outcome
                {
                    problem.accept(&entry.excuse);
                    is_any = true;
                }
            }
        } else if !verdict.findings.iter().any(is_unknown) {
            tell(verdicts, entry, unused(entry, "nothing matches"));
        }
    }
    is_any
}

/// What could not be determined is not accepted, whatever it is called.
fn matches(entry: &Acceptance, finding: &Finding) -> bool {
    let is_it = |problem: &Problem| {
        problem.reason == entry.reason && problem.severity != Severity::Error && problem.reason.can_be_accepted()
    };
    finding.problem().is_some_and(is_it) && fits(&entry.target, &finding.target.name)
}

fn unused(entry: &Acceptance, observed: &str) -> Problem {
    Problem::warn(Reason::AcceptUnused, format!("a problem {}", entry.name()), observed)
}

/// Adds the problem to the check that is about these entries.
fn tell(verdicts: &mut [(&'static Check, Verdict)], entry: &Acceptance, problem: Problem) {
    let own = verdicts.iter_mut().find(|(check, _)| check.id == CheckId::PolicyAccept);
    if let Some((_, verdict)) = own {
        let target = Target::new(Kind::Policy, entry.name());
        verdict.findings.retain(|finding| *finding.target != target || finding.problem().is_some());
        verdict.problem(target, problem);
    }
}
