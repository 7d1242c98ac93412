//! Lookups of what a problem of a report follows from. A large cluster in trouble has thousands of problems, so no problem is compared with
//! all others, nor with all diagnoses.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Deref;

use crate::diagnosis::Diagnosis;
use crate::model::{CheckId, Outcome, Problem, Reason, Target};
use crate::report::{CheckReport, Report};

/// A report, with its problems indexed.
pub(crate) struct Index<'a> {
    pub(crate) report: &'a Report,
    checks: HashMap<CheckId, Causes<'a>>,
    /// The first diagnosis that explains a problem.
    diagnoses: HashMap<Key<'a>, &'a Diagnosis>,
    problems: HashMap<Key<'a>, Vec<(&'a Target, &'a Problem)>>,
    /// Positions of the diagnoses that explain a problem of this check and target.
    about: HashMap<(CheckId, &'a Target), BTreeSet<usize>>,
}

/// Check, target, reason, and observation.
type Key<'a> = (CheckId, &'a Target, Reason, &'a str);

/// Explanations of the problems of one check.
struct Causes<'a> {
    /// The explanation of the first problem of each target.
    of: HashMap<&'a Target, Option<CheckId>>,
    /// A problem that nothing explains, or else the first one.
    any: Option<&'a Problem>,
    /// Checks that block this one.
    blocked_by: BTreeSet<CheckId>,
}

impl<'a> Causes<'a> {
    fn of(check: &'a CheckReport) -> Self {
        let blocked_by = check.findings.iter().filter_map(|finding| match finding.outcome {
            Outcome::Blocked(by) => Some(by),
            _ => None,
        });
        let mut causes = Causes { of: HashMap::new(), any: None, blocked_by: blocked_by.collect() };
        for (target, problem) in check.problems() {
            causes.of.entry(target).or_insert(problem.explained_by);
            if causes.any.is_none_or(|any| any.explained_by.is_some() && problem.explained_by.is_none()) {
                causes.any = Some(problem);
            }
        }
        causes
    }
}

impl<'a> Index<'a> {
    pub(crate) fn of(report: &'a Report) -> Self {
        let checks = report.checks.iter().map(|check| (check.check.id, Causes::of(check))).collect();
        let mut problems: HashMap<Key<'a>, Vec<_>> = HashMap::new();
        for check in &report.checks {
            for (target, problem) in check.problems() {
                problems.entry(key(check.check.id, target, problem)).or_default().push((target, problem));
            }
        }
        let (mut diagnoses, mut about) = (HashMap::new(), HashMap::<_, BTreeSet<usize>>::new());
        for (place, diagnosis) in report.diagnoses.iter().enumerate() {
            for it in &diagnosis.explains {
                diagnoses.entry((it.check, &it.target, it.reason, it.observed.as_str())).or_insert(diagnosis);
                about.entry((it.check, &it.target)).or_default().insert(place);
            }
        }
        Self { report, checks, diagnoses, problems, about }
    }

    /// Returns the diagnosis that explains this problem.
    pub(crate) fn diagnosis(&self, check: CheckId, target: &'a Target, problem: &'a Problem) -> Option<&'a Diagnosis> {
        self.diagnoses.get(&key(check, target, problem)).copied()
    }

    /// Returns the diagnoses that explain problems of this check, for the targets of the given entry.
    pub(crate) fn diagnoses_of(&self, check: &'a CheckReport) -> impl Iterator<Item = &'a Diagnosis> {
        let places = check.problems().filter_map(|(target, _)| self.about.get(&(check.check.id, target))).flatten();
        let places: BTreeSet<usize> = places.copied().collect();
        places.into_iter().map(|place| &self.report.diagnoses[place])
    }

    /// Returns the problems that this diagnosis explains, by check.
    pub(crate) fn explained(&self, diagnosis: &'a Diagnosis) -> HashMap<CheckId, Vec<(&'a Target, &'a Problem)>> {
        let (mut explained, mut known) = (HashMap::<_, Vec<_>>::new(), HashSet::new());
        for it in &diagnosis.explains {
            let key = (it.check, &it.target, it.reason, it.observed.as_str());
            if known.insert(key) {
                explained.entry(it.check).or_default().extend(self.problems.get(&key).into_iter().flatten().copied());
            }
        }
        explained
    }

    /// Returns the checks that are blocked by a check whose problems this diagnosis explains.
    pub(crate) fn blocked(&self, diagnosis: &Diagnosis) -> Vec<CheckId> {
        let by: BTreeSet<CheckId> = diagnosis.explains.iter().map(|it| it.check).collect();
        let ids = self.report.checks.iter().map(|check| check.check.id);
        ids.filter(|id| self.checks.get(id).is_some_and(|causes| !causes.blocked_by.is_disjoint(&by))).collect()
    }

    /// Returns the check at the end of a problem's chain of explanations for this target, if that check has a block of its own that can
    /// carry what it explains. (A proxy pod is down because its node is not ready, which is because its kubelet crashes.)
    pub(crate) fn root(&self, cause: CheckId, target: &Target) -> Option<CheckId> {
        let mut cause = cause;
        for _ in 0..self.report.checks.len() {
            let causes = self.checks.get(&cause)?;
            match causes.of.get(target).copied().or(causes.any.map(|any| any.explained_by))? {
                None => return Some(cause),
                Some(next) => cause = next,
            }
        }
        None
    }
}

fn key<'a>(check: CheckId, target: &'a Target, problem: &'a Problem) -> Key<'a> {
    (check, target, problem.reason, problem.observed.as_str())
}

impl Deref for Index<'_> {
    type Target = Report;

    fn deref(&self) -> &Report {
        self.report
    }
}
