//! The report: a value made of the engine's events, and the writers that show it.
//!
//! No writer sees the engine. Each is a function of a [`Report`], so that every format, the checkpoint files and the live
//! view say the same thing.

#[cfg(test)]
pub(crate) mod fixture;

mod alike;
mod begin;
pub(crate) mod ci;
mod diagnoses;
pub(crate) mod files;
pub(crate) mod format;
mod grid;
mod hints;
pub(crate) mod history;
mod html;
pub(crate) mod json;
pub(crate) mod junit;
pub(crate) mod live;
mod markdown;
mod ndjson;
mod problems;
pub(crate) mod prometheus;
pub(crate) mod sanitise;
pub(crate) mod style;
mod tap;
#[cfg(test)]
mod tests;
pub(crate) mod text;

use std::time::Duration;

use jiff::Timestamp;

use crate::checks::{Check, Finding, Outcome, Problem, Severity, Status, Target};
use crate::diagnosis::Diagnosis;
use crate::exit::Exit;
use crate::logs::Tail;

/// Everything that is known of a run, at its start, on the way and at its end.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) started_at: Timestamp,
    pub(crate) finished_at: Timestamp,
    /// Monotonic; not the difference of the two above.
    pub(crate) took: Duration,
    pub(crate) wait_timeout: Option<Duration>,
    pub(crate) stable_for: Option<Duration>,
    /// Complete rounds.
    pub(crate) rounds: u32,
    /// The run came to its end. `false` in checkpoints and after an interruption.
    pub(crate) complete: bool,
    pub(crate) result: RunResult,
    pub(crate) exit: Exit,
    pub(crate) deadline_reached: bool,
    /// One sentence behind the exit code where the checks do not say it all (`could not read …`).
    pub(crate) error: Option<String>,
    /// What to do about the error.
    pub(crate) hint: Option<String>,
    /// Some per-node checks were narrowed by `-n`: (nodes in scope, nodes in all).
    pub(crate) targeted: Option<(usize, usize)>,
    /// Options that weaken the verdict, and where they came from.
    pub(crate) weakened: Vec<Weakening>,
    /// What was never seen and why, in words (`kube-scheduler metrics: …`); also checks not selected.
    pub(crate) not_observed: Vec<String>,
    pub(crate) sources: Sources,
    /// What lies behind the problems of the last complete round, from root to symptom.
    pub(crate) diagnoses: Vec<Diagnosis>,
    /// The logs of what had failed in the last round, with `--evidence logs`.
    pub(crate) logs: Vec<Tail>,
    /// Every check of the catalogue, in its order.
    pub(crate) checks: Vec<CheckReport>,
    /// What happened on the way, in order.
    pub(crate) history: history::History,
    /// What the JUnit report tells apart.
    pub(crate) junit: junit::Granularity,
    /// When an earlier run was healthy, as far as one of the files knew that this run replaces.
    pub(crate) last_success: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunResult {
    Healthy,
    Unhealthy,
    Undetermined,
    Interrupted,
    Error,
}

impl RunResult {
    pub(crate) const ALL: [Self; 5] =
        [Self::Healthy, Self::Unhealthy, Self::Undetermined, Self::Interrupted, Self::Error];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
            Self::Undetermined => "undetermined",
            Self::Interrupted => "interrupted",
            Self::Error => "error",
        }
    }
}

/// An option that makes the verdict weaker than the full one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Weakening {
    /// `--skip etcd.alarms`.
    pub(crate) option: String,
    /// `flag` or `CLUSTER_HEALTH_SKIP`.
    pub(crate) origin: String,
}

/// Where the facts came from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    pub(crate) talosconfig: Option<String>,
    pub(crate) context: Option<String>,
    pub(crate) endpoints: Vec<String>,
    pub(crate) kubeconfig: Option<String>,
    pub(crate) kube_context: Option<String>,
    pub(crate) server: Option<String>,
    /// Options that talosctl needs to reach the same cluster in the same way, unquoted: what was given on the command line,
    /// and what talosctl would not find out by itself (`["--context", "prod", "-e", "10.0.0.1"]`).
    pub(crate) talosctl_options: Vec<String>,
    /// The same for kubectl.
    pub(crate) kubectl_options: Vec<String>,
    /// And for etcdctl, if etcd is asked by its own API.
    pub(crate) etcdctl_options: Vec<String>,
    /// Which sources named the nodes: `discovery`, `kubernetes`, `etcd`, `flags`, `talosconfig`.
    pub(crate) named_by: Vec<&'static str>,
    pub(crate) nodes: Vec<NodeInfo>,
    pub(crate) talos_versions: Vec<String>,
    /// kubeconfig sources passed over, and why.
    pub(crate) passed_over: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub(crate) struct NodeInfo {
    pub(crate) name: String,
    pub(crate) address: String,
    /// `control-plane`, `worker`, `unknown`.
    pub(crate) role: &'static str,
    pub(crate) leaving: bool,
}

/// One check, as the last complete round saw it.
#[derive(Clone, Debug)]
pub(crate) struct CheckReport {
    pub(crate) check: &'static Check,
    pub(crate) selection: Selection,
    /// `None` until a complete round has judged it.
    pub(crate) status: Option<Status>,
    pub(crate) findings: Vec<Finding>,
    /// Complete rounds that judged it.
    pub(crate) rounds: u32,
    /// Of those, rounds in a row in which it has not been fine, up to the last.
    pub(crate) bad_rounds: u32,
    /// Since when, from the start of the run, it has had its present status.
    pub(crate) since: Option<Duration>,
    pub(crate) first_passed: Option<Duration>,
    /// It was fine once, and later was not.
    pub(crate) flapped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    Selected,
    /// Runs because a selected check needs it.
    Prerequisite,
    /// By `--check`, `--skip`, `--level`, `--no-talos` or `--no-kubernetes`: the reason.
    NotSelected(&'static str),
}

/// Checks by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) total: usize,
    pub(crate) passed: usize,
    pub(crate) warned: usize,
    pub(crate) failed: usize,
    pub(crate) errored: usize,
    pub(crate) skipped: usize,
    pub(crate) blocked: usize,
}

impl CheckReport {
    /// For every writer: a check that no complete round has judged could not be determined.
    pub(crate) fn shown_status(&self) -> Status {
        match (self.selection, self.status) {
            (Selection::NotSelected(_), _) => Status::Skip,
            (_, Some(status)) => status,
            (_, None) => Status::Error,
        }
    }

    /// What is wrong, or could not be determined, and of whom.
    pub(crate) fn problems(&self) -> impl Iterator<Item = (&Target, &Problem)> {
        self.findings.iter().filter_map(|finding| match &finding.outcome {
            Outcome::Problem(problem) => Some((&finding.target, problem)),
            _ => None,
        })
    }

    pub(crate) fn problems_of(&self, severity: Severity) -> impl Iterator<Item = (&Target, &Problem)> {
        self.problems().filter(move |(_, problem)| problem.severity == severity)
    }

    /// The checks that did not pass, so that this one could not look; each once.
    pub(crate) fn blocked_by(&self) -> Vec<&'static str> {
        let mut causes = Vec::new();
        for finding in &self.findings {
            if let Outcome::Blocked(by) = finding.outcome
                && !causes.contains(&by)
            {
                causes.push(by);
            }
        }
        causes
    }
}

/// Why a run is no success, where its checks do not say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// `interrupted`, `incomplete`, `error` or `undetermined`.
    pub(crate) kind: &'static str,
    pub(crate) text: String,
}

impl Report {
    /// For formats that show each check by itself and leave the verdict to their readers. `None`: what the checks say is the
    /// result. A report of a run that did not end always has one, whatever the checks say.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        let summary = self.summary();
        let is_bad = summary.failed + summary.errored > 0;
        let is_shown = match self.exit {
            Exit::Healthy => self.result == RunResult::Healthy && !is_bad,
            _ => is_bad && !matches!(self.result, RunResult::Interrupted | RunResult::Error),
        };
        if self.complete && is_shown {
            return None;
        }
        let because = self.error.as_deref().map_or_else(|| self.exit.meaning().to_owned(), sanitise::clean);
        let (kind, text) = match self.result {
            RunResult::Interrupted => ("interrupted", format!("the run was interrupted: {because}")),
            _ if !self.complete => ("incomplete", format!("the run did not complete: {because}")),
            RunResult::Error => ("error", because),
            _ => ("undetermined", because),
        };
        Some(Trouble { kind, text })
    }

    /// The result as a status, for its mark.
    pub(crate) fn status(&self) -> Status {
        match self.result {
            RunResult::Healthy => Status::Pass,
            RunResult::Undetermined | RunResult::Interrupted => Status::Error,
            RunResult::Unhealthy | RunResult::Error => Status::Fail,
        }
    }

    /// Node × stage, made anew from what the checks found.
    pub(crate) fn grid(&self) -> grid::Grid {
        grid::Grid::of(self)
    }

    pub(crate) fn summary(&self) -> Summary {
        let mut summary = Summary { total: self.checks.len(), ..Summary::default() };
        for check in &self.checks {
            *match check.shown_status() {
                Status::Pass => &mut summary.passed,
                Status::Warn => &mut summary.warned,
                Status::Fail => &mut summary.failed,
                Status::Error => &mut summary.errored,
                Status::Skip => &mut summary.skipped,
                Status::Blocked => &mut summary.blocked,
            } += 1;
        }
        summary
    }
}
