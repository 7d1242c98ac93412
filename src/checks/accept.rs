//! Applies a policy's `accept` entries to all checks of a round: known problems that are accepted for a limited time.

use std::collections::HashMap;

use super::Check;
use crate::assess::Assessment;
use crate::model::{About, CheckId, Finding, Kind, Outcome, Problem, Reason, Severity, Stage, Status, Verdict};
use crate::snapshot::{Acceptance, ExcuseState};
use crate::text::fits;

/// Turns each accepted problem into a warning that mentions the policy, and reports entries that match nothing or too much. Returns whether
/// anything was accepted.
pub(crate) fn apply(cluster: &Assessment<'_>, verdicts: &mut [(&'static Check, Verdict)]) -> bool {
    let mut is_any = false;
    let mut odd = HashMap::new();
    for entry in &cluster.asked.policy.accept {
        if cluster.excuse_state(&entry.excuse) != ExcuseState::Holds {
            continue;
        }
        let check = |(check, _): &(&Check, Verdict)| check.id == entry.check && check.stage != Stage::Upgrade;
        // A policy may be shared by several jobs that select different checks.
        let Some((_, verdict)) = verdicts.iter_mut().find(|it| check(it)) else { continue };
        let matching = verdict.findings.iter().filter(|finding| matches(entry, finding)).count();
        let is_unknown = |finding: &Finding| {
            let fits = fits(&entry.target, &finding.target.name) || finding.target.kind == Kind::Cluster;
            fits && (matches!(finding.outcome, Outcome::Blocked(_)) || finding.outcome.status() == Status::Error)
        };
        if matching > entry.max {
            let observed = format!("{matching} match, so none of them is accepted");
            let expected = format!("at most {} of {}", entry.max, entry.name());
            odd.insert(entry.name(), Problem::warn(Reason::AcceptExceeded, expected, observed));
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
            let expected = format!("a problem {}", entry.name());
            odd.insert(entry.name(), Problem::warn(Reason::AcceptUnused, expected, "there is none"));
        }
    }
    tell(verdicts, odd);
    is_any
}

/// Returns true if the entry accepts the finding. Undetermined findings are never accepted.
fn matches(entry: &Acceptance, finding: &Finding) -> bool {
    let is_it = |problem: &Problem| {
        problem.reason == entry.reason
            && problem.severity != Severity::Error
            && problem.reason.can_be_accepted()
            && problem.about != Some(About::Identity)
    };
    finding.problem().is_some_and(is_it) && fits(&entry.target, &finding.target.name)
}

/// Adds the problems to the check about these entries, by the names of the entries.
fn tell(verdicts: &mut [(&'static Check, Verdict)], mut odd: HashMap<String, Problem>) {
    let own = verdicts.iter_mut().find(|(check, _)| check.id == CheckId::PolicyAccept);
    for finding in own.into_iter().flat_map(|(_, verdict)| &mut verdict.findings) {
        if let Some(problem) = odd.remove(&finding.target.name) {
            finding.outcome = Outcome::problem(problem);
        }
    }
}
