//! The report: a value made of the engine's events, and the writers that show it.
//!
//! Writers do not depend on the engine. Each is a function of a [`Report`], so that every format, the checkpoint files and the live view
//! agree.

#[cfg(test)]
pub(crate) mod fixture;

pub(crate) mod format;
pub(crate) mod history;
pub(crate) mod ledger;
pub(crate) mod merged;
pub(crate) mod sink;
pub(crate) mod stored;
#[cfg(test)]
mod tests;
pub(crate) mod view;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

pub(crate) use self::view::style::TextStyle;

use crate::checks::Check;
use crate::diagnosis::Diagnosis;
use crate::model::{CheckId, Exit, Finding, Outcome, Problem, Role, Severity, Shared, Stage, Status, Target};
use crate::rollout::Rollout;
use crate::snapshot::Upgrade;
use crate::snapshot::logs::Tail;
use crate::text::sanitize::clean;

/// Everything that is known about a run, at its start, in between and at its end.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) tool: Tool,
    pub(crate) started_at: Timestamp,
    pub(crate) finished_at: Timestamp,
    /// Measured on a monotonic clock; not the difference of the two above.
    pub(crate) took: Duration,
    pub(crate) wait_timeout: Option<Duration>,
    pub(crate) stable_for: Option<Duration>,
    /// Number of complete rounds.
    pub(crate) rounds: u32,
    /// Whether the run came to its end. `false` in checkpoints and after an interruption.
    pub(crate) complete: bool,
    pub(crate) result: RunResult,
    pub(crate) exit: Exit,
    pub(crate) deadline_reached: bool,
    /// Whether a round after the reported ones did not end in time.
    pub(crate) cut_off: bool,
    /// One sentence behind the exit code if the checks do not explain it completely (`could not read …`).
    pub(crate) error: Option<String>,
    /// Advice about the error.
    pub(crate) hint: Option<String>,
    /// Nodes in scope and nodes in total, if `-n` narrowed some per-node checks.
    pub(crate) targeted: Option<(usize, usize)>,
    /// Options that weaken the verdict, and their origin.
    pub(crate) weakened: Vec<Weakening>,
    pub(crate) policy: Option<PolicyFile>,
    /// Facts that were never observed and why, in words (`kube-scheduler metrics: …`); also checks that were not selected.
    pub(crate) not_observed: Vec<String>,
    pub(crate) sources: Sources,
    /// Causes of the problems of the last complete round, from root to symptom.
    pub(crate) diagnoses: Shared<Vec<Diagnosis>>,
    /// Logs of the components that had failed in the last round, with `--evidence logs`.
    pub(crate) logs: Vec<Tail>,
    /// Every check, in catalog order.
    pub(crate) checks: Vec<CheckReport>,
    /// Events of the run, in order.
    pub(crate) history: history::History,
    /// The planned change to the cluster; stage 8 judges whether it can begin.
    pub(crate) asked: Upgrade,
    /// The plan of `upgrade-plan`, once a round has observed it.
    pub(crate) rollout: Option<Shared<Rollout>>,
    /// Time of an earlier healthy run, as recorded in the files that this run replaces.
    pub(crate) last_success: Option<Timestamp>,
}

/// The program that made a report; a stored report may be from another version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    pub(crate) version: Cow<'static, str>,
    pub(crate) commit: Option<Cow<'static, str>>,
}

impl Tool {
    /// This program.
    pub(crate) const OWN: Self = Self {
        version: Cow::Borrowed(env!("CARGO_PKG_VERSION")),
        commit: match option_env!("CLUSTER_HEALTH_COMMIT") {
            Some(commit) => Some(Cow::Borrowed(commit)),
            None => None,
        },
    };
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

/// Whether an upgrade or a drain can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    Blocked,
    Undetermined,
}

impl Readiness {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Blocked => "blocked",
            Self::Undetermined => "undetermined",
        }
    }
}

/// An option that makes the verdict weaker than the full one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Weakening {
    /// `--skip etcd.alarms`.
    pub(crate) option: String,
    pub(crate) origin: Origin,
}

/// Origin of a [`Weakening`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag,
    Variable(String),
    /// A line of the policy.
    Policy(u64),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Variable(name) => f.write_str(name),
            Self::Policy(line) => write!(f, "policy, line {line}"),
        }
    }
}

impl Weakening {
    pub(crate) fn is_of_policy(&self) -> bool {
        matches!(self.origin, Origin::Policy(_))
    }
}

/// The file of `--policy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicyFile {
    pub(crate) path: String,
    /// SHA-256 of its bytes, in hex.
    pub(crate) sha256: String,
}

/// Sources of the facts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// `--cluster-name`.
    pub(crate) cluster_name: Option<String>,
    /// Identity of the cluster, regardless of its name: the digests of the CA that verified its machines.
    pub(crate) talos_id: Option<String>,
    /// Identity of the cluster in Kubernetes: the UID of the namespace kube-system.
    pub(crate) kube_system_uid: Option<String>,
    pub(crate) talosconfig: Option<String>,
    pub(crate) context: Option<String>,
    pub(crate) endpoints: Vec<String>,
    pub(crate) kubeconfig: Option<String>,
    pub(crate) kube_context: Option<String>,
    pub(crate) server: Option<String>,
    /// Options that talosctl needs to reach the same cluster in the same way, unquoted, as given on the command line.
    pub(crate) talosctl_options: Vec<String>,
    /// `-e` of the command line.
    pub(crate) typed_endpoints: Vec<String>,
    /// Options that kubectl needs for the same purpose.
    pub(crate) kubectl_options: Vec<String>,
    /// Options that the last round adds: `["--context", "prod", "-e", "10.0.0.1"]`.
    pub(crate) talosctl_found: Vec<String>,
    pub(crate) kubectl_found: Vec<String>,
    /// Tools without credentials for this cluster, whose commands are left out.
    pub(crate) unusable: Vec<&'static str>,
    /// Whether the kubeconfig exists in memory alone, so that users need to get one before they can run a command.
    pub(crate) is_kubeconfig_minted: bool,
    /// Options that etcdctl needs, if etcd is queried through its own API.
    pub(crate) etcdctl_options: Vec<String>,
    /// Sources that named the nodes: `discovery`, `kubernetes`, `etcd`, `flags`, `talosconfig`.
    pub(crate) named_by: Vec<&'static str>,
    pub(crate) nodes: Shared<Vec<NodeInfo>>,
    pub(crate) talos_versions: Vec<String>,
    /// kubeconfig sources that were passed over, and why.
    pub(crate) passed_over: Vec<(String, String)>,
}

impl Sources {
    /// Returns the name by which the user knows the cluster: the one that was given, or else that of the context. `None`: no file has one.
    pub(crate) fn name(&self) -> Option<&str> {
        let Self { cluster_name, context, kube_context, .. } = self;
        cluster_name.as_deref().or(context.as_deref()).or(kube_context.as_deref())
    }

    /// Returns the server that was queried, without `https://`.
    pub(crate) fn asked(&self) -> Option<&str> {
        let server = self.server.as_deref().map(|server| server.strip_prefix("https://").unwrap_or(server));
        server.or(self.endpoints.first().map(String::as_str))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct NodeInfo {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) role: Role,
    pub(crate) leaving: bool,
}

/// One check, as of the last complete round.
#[derive(Clone, Debug)]
pub(crate) struct CheckReport {
    pub(crate) check: &'static Check,
    pub(crate) selection: Selection,
    /// `None` until a complete round has judged it.
    pub(crate) status: Option<Status>,
    pub(crate) findings: Shared<Vec<Finding>>,
    /// Items that its rules left out in the last round.
    pub(crate) left_out: Vec<String>,
    /// Number of complete rounds that judged it.
    pub(crate) rounds: u32,
    /// Number of rounds in a row, up to the last, in which it has not passed.
    pub(crate) bad_rounds: u32,
    /// When it got its present status, from the start of the run.
    pub(crate) since: Option<Duration>,
    pub(crate) first_passed: Option<Duration>,
    /// Whether it passed once, and later did not.
    pub(crate) flapped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    Selected,
    /// Runs because a selected check needs it.
    Prerequisite,
    NotSelected(NotSelected),
}

impl Selection {
    /// Whether the check runs, for any reason.
    pub(crate) fn runs(self) -> bool {
        !matches!(self, Self::NotSelected(_))
    }
}

/// The option because of which a check does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotSelected {
    Skip,
    NoTalos,
    NoKubernetes,
    Level,
    Check,
}

impl NotSelected {
    pub(crate) const ALL: [Self; 5] = [Self::Skip, Self::NoTalos, Self::NoKubernetes, Self::Level, Self::Check];

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Skip => "excluded by --skip",
            Self::NoTalos => "excluded by --no-talos",
            Self::NoKubernetes => "excluded by --no-kubernetes",
            Self::Level => "excluded by --level",
            Self::Check => "not in --check",
        }
    }

    /// Whether the user switched it off by name or by layer. A check that `--check` or `--level` merely did not name is not vouched for by
    /// the user.
    pub(crate) fn is_left_out(self) -> bool {
        matches!(self, Self::Skip | Self::NoTalos | Self::NoKubernetes)
    }
}

impl CheckReport {
    /// Returns the entry of a check that has not run yet.
    pub(crate) fn unjudged(check: &'static Check, selection: Selection) -> Self {
        Self {
            check,
            selection,
            status: None,
            findings: Shared::default(),
            left_out: Vec::new(),
            rounds: 0,
            bad_rounds: 0,
            since: None,
            first_passed: None,
            flapped: false,
        }
    }

    /// Returns the status that every writer shows: a check that no complete round has judged could not be determined.
    pub(crate) fn shown_status(&self) -> Status {
        match (self.selection, self.status) {
            (Selection::NotSelected(_), _) => Status::Skip,
            (_, Some(status)) => status,
            (_, None) => Status::Error,
        }
    }

    /// Whether the check should run but has no result.
    pub(crate) fn is_unjudged(&self) -> bool {
        self.selection.runs() && self.status.is_none()
    }

    /// Returns the problems, and the facts that could not be determined, with their targets.
    pub(crate) fn problems(&self) -> impl Iterator<Item = (&Target, &Problem)> {
        self.findings.iter().filter_map(|finding| Some((&*finding.target, finding.problem()?)))
    }

    pub(crate) fn problems_of(&self, severity: Severity) -> impl Iterator<Item = (&Target, &Problem)> {
        self.problems().filter(move |(_, problem)| problem.severity == severity)
    }

    /// Returns the checks that block this one, each once.
    pub(crate) fn blocked_by(&self) -> Vec<CheckId> {
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

/// The reason why a run is not a success, if its checks do not show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// `interrupted`, `incomplete`, `error` or `undetermined`.
    pub(crate) kind: &'static str,
    pub(crate) text: String,
}

impl Report {
    /// Returns the report before anything was observed. A run that is killed at once leaves it behind, so it is not a success.
    pub(crate) fn unbegun(started_at: Timestamp, selection: &[(&'static Check, Selection)]) -> Self {
        Self {
            tool: Tool::OWN,
            started_at,
            finished_at: started_at,
            took: Duration::ZERO,
            wait_timeout: None,
            stable_for: None,
            rounds: 0,
            complete: false,
            result: RunResult::Undetermined,
            exit: Exit::Undetermined,
            deadline_reached: false,
            cut_off: false,
            error: None,
            hint: None,
            targeted: None,
            weakened: Vec::new(),
            policy: None,
            not_observed: Vec::new(),
            sources: Sources::default(),
            diagnoses: Shared::default(),
            logs: Vec::new(),
            checks: selection.iter().map(|(check, part)| CheckReport::unjudged(check, *part)).collect(),
            history: history::History::default(),
            asked: Upgrade::default(),
            rollout: None,
            last_success: None,
        }
    }

    /// Returns whether the change that stage 8 was requested for can begin; `None`: no change was given.
    pub(crate) fn upgrade_readiness(&self) -> Option<Readiness> {
        let is_asked = self.checks.iter().any(|check| check.check.stage == Stage::Upgrade && check.selection.runs());
        is_asked.then_some(match self.result {
            // A failure that `--warn-only` turned into a warning is not a yes.
            RunResult::Healthy if self.is_upgrade_weakened() => Readiness::Undetermined,
            RunResult::Healthy => Readiness::Ready,
            RunResult::Unhealthy => Readiness::Blocked,
            RunResult::Undetermined | RunResult::Interrupted | RunResult::Error => Readiness::Undetermined,
        })
    }

    fn is_upgrade_weakened(&self) -> bool {
        let warns = |check: &CheckReport| check.check.stage == Stage::Upgrade && check.status == Some(Status::Warn);
        self.is_relaxed() && self.checks.iter().any(warns)
    }

    /// Whether `--warn-only` was given.
    fn is_relaxed(&self) -> bool {
        self.weakened.iter().any(|weak| weak.option.starts_with("--warn-only"))
    }

    /// Whether the whole cluster was judged, and all problems are ones that block an upgrade or a drain.
    pub(crate) fn is_healthy_but_not_ready(&self) -> bool {
        use NotSelected::{Check, Level};
        // Objects that a policy requires belong to the cluster as much as its own checks.
        let is_of_cluster = |check: &&CheckReport| {
            let is_beside = matches!(check.check.stage, Stage::Upgrade | Stage::Policy | Stage::Server);
            !is_beside || check.check.id == CheckId::PolicyRequire
        };
        let is_left_out = |check: &CheckReport| matches!(check.selection, Selection::NotSelected(Check | Level));
        let is_fine = |check: &CheckReport| check.shown_status().is_fine() && !is_left_out(check);
        self.result == RunResult::Unhealthy && self.checks.iter().filter(is_of_cluster).all(is_fine)
    }

    /// Returns the trouble, for formats that show each check separately and leave the verdict to their readers. `None`: the checks show the
    /// result. A report of a run that did not end always has one, whatever its checks show.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        let is_bad = self.count(Status::Fail) + self.count(Status::Error) > 0;
        let is_shown = match self.exit {
            Exit::Healthy => self.result == RunResult::Healthy && !is_bad,
            _ => is_bad && !matches!(self.result, RunResult::Interrupted | RunResult::Error),
        };
        if self.complete && is_shown {
            return None;
        }
        let because = self.error.as_deref().map_or_else(|| view::verdict::because(self), clean);
        let (kind, text) = match self.result {
            RunResult::Interrupted => ("interrupted", format!("the run was interrupted: {because}")),
            _ if !self.complete => ("incomplete", format!("the run did not complete: {because}")),
            RunResult::Error => ("error", because),
            _ => ("undetermined", because),
        };
        Some(Trouble { kind, text })
    }

    /// Returns the result as a status, for its mark.
    pub(crate) fn status(&self) -> Status {
        match self.result {
            RunResult::Healthy => Status::Pass,
            RunResult::Undetermined | RunResult::Interrupted => Status::Error,
            RunResult::Unhealthy | RunResult::Error => Status::Fail,
        }
    }

    /// Whether a round has judged the cluster, rather than files alone.
    pub(crate) fn is_judged(&self) -> bool {
        self.rounds > 0 && self.checks.iter().any(|check| check.status.is_some())
    }

    /// Whether anything makes the verdict weaker than by default.
    pub(crate) fn is_weakened(&self) -> bool {
        !self.weakened.is_empty() || self.accepted() > 0 || self.targeted.is_some()
    }

    /// Returns the number of problems that a policy accepts.
    pub(crate) fn accepted(&self) -> usize {
        let problems = self.checks.iter().flat_map(|check| &check.findings).filter_map(Finding::problem);
        problems.filter(|problem| problem.accepted.is_some()).count()
    }

    /// Returns the number of checks with this status.
    pub(crate) fn count(&self, status: Status) -> usize {
        self.checks.iter().filter(|check| check.shown_status() == status).count()
    }
}
