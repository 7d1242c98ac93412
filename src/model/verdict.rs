//! What a judge says: findings about targets, and the one rule that folds them into a status.

use std::fmt;

use super::{CheckId, Reason, Role, Shared};

/// Status of a check or of one target. The order is the precedence of the fold: the worst wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Status {
    /// Not applicable, or not wanted; always with a reason.
    Skip,
    Pass,
    Warn,
    /// A prerequisite did not pass, so nothing could be seen.
    Blocked,
    /// Could not be determined.
    Error,
    /// Seen, and wrong.
    Fail,
}

impl Status {
    pub(crate) const ALL: [Self; 6] = [Self::Skip, Self::Pass, Self::Warn, Self::Blocked, Self::Error, Self::Fail];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Pass => "pass",
            Self::Warn => "warn",
            Self::Blocked => "blocked",
            Self::Error => "error",
            Self::Fail => "fail",
        }
    }

    /// It was looked at, and nothing is in the way.
    pub(crate) fn is_seen(self) -> bool {
        matches!(self, Self::Pass | Self::Warn)
    }

    /// Satisfies a prerequisite, and does not stand in the way of a healthy verdict.
    pub(crate) fn is_fine(self) -> bool {
        matches!(self, Self::Skip | Self::Pass | Self::Warn)
    }
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Severity {
    Warn,
    Error,
    Fail,
}

impl Severity {
    pub(crate) const ALL: [Self; 3] = [Self::Warn, Self::Error, Self::Fail];

    pub(crate) fn status(self) -> Status {
        match self {
            Self::Warn => Status::Warn,
            Self::Error => Status::Error,
            Self::Fail => Status::Fail,
        }
    }
}

/// What a finding is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) address: Option<String>,
    /// An id beside the name, e.g. an etcd member's (16 hex digits).
    pub(crate) id: Option<String>,
    /// The node that a pod is on, as far as it is known.
    pub(crate) node: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The cluster as a whole.
    Cluster,
    /// A file or other source of credentials.
    Credentials,
    /// A Talos, Kubernetes or etcd endpoint.
    Endpoint,
    Node,
    EtcdMember,
    Pod,
    Workload,
    /// A configuration of admission webhooks.
    Webhook,
    ApiService,
    /// An entry of a policy.
    Policy,
    /// One of the things that the cluster's own health check looks at.
    ServerCheck,
}

impl Kind {
    pub(crate) const ALL: [Self; 11] = [
        Self::Cluster,
        Self::Credentials,
        Self::Endpoint,
        Self::Node,
        Self::EtcdMember,
        Self::Pod,
        Self::Workload,
        Self::Webhook,
        Self::ApiService,
        Self::Policy,
        Self::ServerCheck,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Credentials => "credentials",
            Self::Endpoint => "endpoint",
            Self::Node => "node",
            Self::EtcdMember => "etcd-member",
            Self::Pod => "pod",
            Self::Workload => "workload",
            Self::Webhook => "webhook",
            Self::ApiService => "api-service",
            Self::Policy => "policy",
            Self::ServerCheck => "server-check",
        }
    }
}

impl Target {
    pub(crate) fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into(), address: None, id: None, node: None }
    }

    pub(crate) fn cluster() -> Self {
        Self::new(Kind::Cluster, "cluster")
    }

    /// A pod, and the name of its node. The pod's own name does not tell it: `x-eu-cp-1` may be on `cp-1` or on `eu-cp-1`.
    pub(crate) fn pod(name: impl Into<String>, node: Option<&str>) -> Self {
        Self { node: node.map(str::to_owned), ..Self::new(Kind::Pod, name) }
    }

    pub(crate) fn with_id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    pub(crate) fn with_address(self, address: impl Into<String>) -> Self {
        Self { address: Some(address.into()), ..self }
    }
}

/// As the text report names it: `cp-1 (10.0.0.1)` for nodes, the name otherwise.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.kind, &self.address) {
            // The second of two machines of one name has its address in that.
            (Kind::Node, Some(address)) if !self.name.contains(address.as_str()) => {
                write!(f, "{} ({address})", self.name)
            }
            _ => f.write_str(&self.name),
        }
    }
}

/// One thing a judge has to say about one target.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) target: Shared<Target>,
    pub(crate) outcome: Outcome,
}

impl Finding {
    pub(crate) fn new(target: impl Into<Shared<Target>>, outcome: Outcome) -> Self {
        Self { target: target.into(), outcome }
    }

    /// What is wrong, or could not be determined.
    pub(crate) fn problem(&self) -> Option<&Problem> {
        match &self.outcome {
            Outcome::Problem(problem) => Some(problem),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// With the line that the text report shows for it, if it is one that people look for.
    Pass(Option<String>),
    /// Not applicable, and why.
    Skip(String),
    /// Nothing could be seen, because this check did not pass on the way to the target. Only the engine says so.
    Blocked(CheckId),
    /// In a box: of thousands of machines most are well.
    Problem(Box<Problem>),
}

impl Outcome {
    pub(crate) fn problem(problem: Problem) -> Self {
        Self::Problem(Box::new(problem))
    }

    /// Nothing could be seen, for a reason that a required check may tell.
    pub(crate) fn is_unseen(&self) -> bool {
        matches!(self, Self::Problem(problem) if problem.unseen)
    }

    pub(crate) fn status(&self) -> Status {
        match self {
            Self::Pass(_) => Status::Pass,
            Self::Skip(_) => Status::Skip,
            Self::Blocked(_) => Status::Blocked,
            Self::Problem(problem) => problem.severity.status(),
        }
    }
}

/// Something wrong, or something that could not be determined.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Problem {
    pub(crate) reason: Reason,
    pub(crate) severity: Severity,
    pub(crate) expected: String,
    pub(crate) observed: String,
    /// `false`: the same answer will come until somebody changes something, so there is no point in waiting.
    pub(crate) waiting_helps: bool,
    pub(crate) hints: Vec<Hint>,
    /// The check whose failure this one follows from. The engine computes it; judges do not name causes.
    pub(crate) explained_by: Option<CheckId>,
    /// The fact that it is judged by could not be seen: where a required check has told why, that check is named instead.
    pub(crate) unseen: bool,
    /// It has happened since the previous round, and is over: whatever that says of now, nothing has been stable meanwhile.
    pub(crate) between_rounds: bool,
    /// For whoever looks for causes: texts are for people.
    pub(crate) about: Option<About>,
    /// The machines on which a problem of the whole cluster shows, by their names; [`NO_NODE`] for pods that are on none. It is
    /// explained only by what explains all of them.
    pub(crate) places: Option<Shared<Vec<String>>>,
    /// A policy accepts it for a while: it warns, whatever `--strict` and `--fail-on` say.
    pub(crate) accepted: Option<Shared<Excuse>>,
}

/// Why something may stay as it is, and until when. Somebody has written it into a policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Excuse {
    pub(crate) because: String,
    pub(crate) until: jiff::Timestamp,
    /// In the policy.
    pub(crate) line: u64,
}

/// The place of a pod without a node.
pub(crate) const NO_NODE: &str = "";

/// What a problem is about, beyond its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// A Talos service, by its id.
    Service(String),
    /// Nodes of this role.
    Role(Role),
    /// Whether the machine is the one that it should be.
    Identity,
    /// A condition of Talos, by its name.
    Condition(String),
    /// A volume of the machine configuration, which Talos itself does not need.
    UserVolume,
    /// The target itself, and not the database behind it.
    Itself,
    /// Pods that an admission webhook keeps from being created.
    RefusedByWebhook,
}

impl Problem {
    /// A failure that waiting may heal; the builders below change what differs.
    pub(crate) fn fail(reason: Reason, expected: impl Into<String>, observed: impl Into<String>) -> Self {
        Self {
            reason,
            severity: Severity::Fail,
            expected: expected.into(),
            observed: observed.into(),
            waiting_helps: true,
            hints: Vec::new(),
            explained_by: None,
            unseen: false,
            between_rounds: false,
            about: None,
            places: None,
            accepted: None,
        }
    }

    pub(crate) fn error(reason: Reason, expected: impl Into<String>, observed: impl Into<String>) -> Self {
        Self { severity: Severity::Error, ..Self::fail(reason, expected, observed) }
    }

    pub(crate) fn warn(reason: Reason, expected: impl Into<String>, observed: impl Into<String>) -> Self {
        Self { severity: Severity::Warn, ..Self::fail(reason, expected, observed) }
    }

    /// The fact behind it could not be seen.
    pub(crate) fn unseen(self) -> Self {
        Self { unseen: true, ..self }
    }

    /// It has happened since the previous round, and is over.
    pub(crate) fn between_rounds(self) -> Self {
        Self { between_rounds: true, ..self }
    }

    /// Waiting will not change it.
    pub(crate) fn permanent(self) -> Self {
        Self { waiting_helps: false, ..self }
    }

    /// For reports that tests make by hand.
    #[cfg(test)]
    pub(crate) fn explained_by(self, check: CheckId) -> Self {
        Self { explained_by: Some(check), ..self }
    }

    /// The problem shows on these machines.
    pub(crate) fn on<T: Into<String>>(self, places: impl IntoIterator<Item = T>) -> Self {
        let places: Vec<String> = places.into_iter().map(Into::into).collect();
        Self { places: (!places.is_empty()).then(|| Shared::from(places)), ..self }
    }

    /// A policy accepts it.
    pub(crate) fn accept(&mut self, excuse: &Excuse) {
        self.severity = Severity::Warn;
        self.accepted = Some(Shared::from(excuse.clone()));
    }

    /// See [`Problem::on`]; none if it is not known to show anywhere.
    pub(crate) fn places(&self) -> &[String] {
        self.places.as_deref().map_or(&[], |places| places.as_slice())
    }

    pub(crate) fn about(self, about: About) -> Self {
        Self { about: Some(about), ..self }
    }

    pub(crate) fn hint(mut self, hint: Hint) -> Self {
        self.hints.push(hint);
        self
    }
}

/// What to do next. Text and commands are rendered by the reports, which know the context in use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Hint {
    /// A likely cause, as half a sentence.
    Likely(String),
    /// A read-only command. `{talosctl}`, `{kubectl}` and `{etcdctl}` stand for the tool with its context and endpoint options;
    /// values from the cluster go into `arguments`, are shell-quoted, and take the places of `{}` in order; `{*}` takes the rest.
    Try { command: &'static str, arguments: Vec<String> },
    /// A command that changes the cluster, same rules. Shown marked as such.
    Remedy { command: &'static str, arguments: Vec<String> },
    /// Of a stored report: a command as the run that wrote it has rendered it.
    Rendered { changes: bool, command: String, text: Option<String>, template: String },
}

impl Hint {
    pub(crate) fn likely(text: impl Into<String>) -> Self {
        Self::Likely(text.into())
    }

    /// What shows more of an etcd member: through its machine, else of those that `--etcd-endpoints` names.
    pub(crate) fn of_member(machine: Option<&str>, of_machine: &'static str, of_etcd: &'static str) -> Self {
        match machine {
            Some(address) => Self::run(of_machine, [address]),
            None => Self::run(of_etcd, []),
        }
    }

    pub(crate) fn run<const N: usize>(command: &'static str, arguments: [&str; N]) -> Self {
        Self::Try { command, arguments: arguments.map(str::to_owned).to_vec() }
    }

    pub(crate) fn remedy<const N: usize>(command: &'static str, arguments: [&str; N]) -> Self {
        Self::Remedy { command, arguments: arguments.map(str::to_owned).to_vec() }
    }
}

/// All that a judge says in one round.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) findings: Shared<Vec<Finding>>,
    /// What was seen in this round and not judged, in words: a rule of the check leaves it out.
    pub(crate) left_out: Vec<String>,
    /// The first sample looks wrong in a way that a second one can settle: ask for the check's facts again after this long
    /// and judge anew. Granted once a round, if the deadline allows it; the findings count if it is not.
    pub(crate) resample_after: Option<std::time::Duration>,
}

impl Verdict {
    /// A verdict about the cluster as a whole.
    pub(crate) fn whole(outcome: Outcome) -> Self {
        let mut verdict = Self::default();
        verdict.push(Target::cluster(), outcome);
        verdict
    }

    pub(crate) fn skipped(reason: impl Into<String>) -> Self {
        Self::whole(Outcome::Skip(reason.into()))
    }

    pub(crate) fn push(&mut self, target: Target, outcome: Outcome) {
        self.findings.push(Finding::new(target, outcome));
    }

    /// Passes, with a line for the text report.
    pub(crate) fn pass(&mut self, target: Target, line: impl Into<String>) {
        self.push(target, Outcome::Pass(Some(line.into())));
    }

    /// Names what a rule of the check leaves out, so that it does not look judged.
    pub(crate) fn leave_out(&mut self, what: impl Into<String>) {
        self.left_out.push(what.into());
    }

    /// Passes without a word.
    pub(crate) fn ok(&mut self, target: Target) {
        self.push(target, Outcome::Pass(None));
    }

    pub(crate) fn skip(&mut self, target: Target, reason: impl Into<String>) {
        self.push(target, Outcome::Skip(reason.into()));
    }

    pub(crate) fn problem(&mut self, target: Target, problem: Problem) {
        self.push(target, Outcome::problem(problem));
    }

    /// The worst of the findings. None at all is an error: nothing passes for lack of evidence.
    pub(crate) fn status(&self) -> Status {
        self.findings.iter().map(|finding| finding.outcome.status()).max().unwrap_or(Status::Error)
    }

    /// The line for the cluster, once nothing about any target stands against it and something was seen.
    pub(crate) fn sum_up(&mut self, line: &str) {
        let clean = |outcome: &Outcome| matches!(outcome, Outcome::Pass(_) | Outcome::Skip(_));
        let clean = self.findings.iter().all(|finding| clean(&finding.outcome));
        if clean && self.findings.iter().any(|finding| matches!(finding.outcome, Outcome::Pass(_))) {
            self.pass(Target::cluster(), line);
        }
    }

    pub(crate) fn problems(&self) -> impl Iterator<Item = (&Target, &Problem)> {
        self.findings.iter().filter_map(|finding| Some((&*finding.target, finding.problem()?)))
    }

    pub(crate) fn problems_mut(&mut self) -> impl Iterator<Item = &mut Problem> {
        self.findings.iter_mut().filter_map(|finding| match &mut finding.outcome {
            Outcome::Problem(problem) => Some(&mut **problem),
            Outcome::Pass(_) | Outcome::Skip(_) | Outcome::Blocked(_) => None,
        })
    }
}
