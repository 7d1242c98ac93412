//! Verdicts of judges: findings about targets, and the one rule that folds them into a status.

use std::fmt;

use super::{CheckId, Reason, Role, Shared};

/// Status of a check or of one target. The order is the precedence of the fold: the worst wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Status {
    /// Not applicable or not wanted; always with a reason.
    Skip,
    Pass,
    Warn,
    /// A prerequisite did not pass, so nothing could be observed.
    Blocked,
    /// Could not be determined.
    Error,
    /// Observed, and wrong.
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

    /// Returns true if the target was observed and found usable.
    pub(crate) fn is_seen(self) -> bool {
        matches!(self, Self::Pass | Self::Warn)
    }

    /// Returns true if the status satisfies a prerequisite and allows a healthy verdict.
    pub(crate) fn is_fine(self) -> bool {
        matches!(self, Self::Skip | Self::Pass | Self::Warn)
    }
}

/// The severity of a problem.
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

/// The subject of a finding.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) address: Option<String>,
    /// An additional id, e.g. an etcd member's (16 hex digits).
    pub(crate) id: Option<String>,
    /// The node that a pod is on, if known.
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
    /// One of the conditions that the cluster's own health check examines.
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

    /// A pod and the name of its node. The pod's name alone is ambiguous: `x-eu-cp-1` may be on `cp-1` or on `eu-cp-1`.
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

/// Formats the target as the text report names it: `cp-1 (10.0.0.1)` for nodes, otherwise the name.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.kind, &self.address) {
            // If two machines share a name, the second one's name already contains its address.
            (Kind::Node, Some(address)) if !self.name.contains(address.as_str()) => {
                write!(f, "{} ({address})", self.name)
            }
            _ => f.write_str(&self.name),
        }
    }
}

/// One statement of a judge about one target.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) target: Shared<Target>,
    pub(crate) outcome: Outcome,
}

impl Finding {
    pub(crate) fn new(target: impl Into<Shared<Target>>, outcome: Outcome) -> Self {
        Self { target: target.into(), outcome }
    }

    /// Returns the problem, if the target is unhealthy or could not be determined.
    pub(crate) fn problem(&self) -> Option<&Problem> {
        match &self.outcome {
            Outcome::Problem(problem) => Some(problem),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// Passed. The text report shows the line, if the target is one that readers look for.
    Pass(Option<String>),
    /// Not applicable, and why.
    Skip(String),
    /// Not observable, because this check did not pass on the way to the target. Only the engine reports this.
    Blocked(CheckId),
    /// Boxed, because most of thousands of machines have no problem.
    Problem(Box<Problem>),
}

impl Outcome {
    pub(crate) fn problem(problem: Problem) -> Self {
        Self::Problem(Box::new(problem))
    }

    /// Returns true if nothing could be observed, for a reason that a required check may explain.
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

/// A state that is wrong or could not be determined.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Problem {
    pub(crate) reason: Reason,
    pub(crate) severity: Severity,
    pub(crate) expected: String,
    pub(crate) observed: String,
    /// `false` if the answer stays the same until the configuration or the cluster is changed, so that waiting is pointless.
    pub(crate) waiting_helps: bool,
    pub(crate) hints: Vec<Hint>,
    /// The check whose failure explains this one. Set by the engine; judges do not name causes.
    pub(crate) explained_by: Option<CheckId>,
    /// The fact behind the problem could not be observed. If a required check explains why, that check is named instead.
    pub(crate) unseen: bool,
    /// The problem occurred since the previous round and is over. Whatever the current state, the cluster was not stable in between.
    pub(crate) between_rounds: bool,
    /// Structured information for the search for causes, because texts are for people.
    pub(crate) about: Option<About>,
    /// The names of the machines affected by a problem of the whole cluster; [`NO_NODE`] for pods without a node. Only an explanation that
    /// covers all of them explains the problem.
    pub(crate) places: Option<Shared<Vec<String>>>,
    /// A policy accepts the problem for a while. It remains a warning despite `--strict` and `--fail-on`.
    pub(crate) accepted: Option<Shared<Excuse>>,
}

/// The justification and time limit that a policy gives for accepting a problem.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Excuse {
    pub(crate) because: String,
    pub(crate) until: jiff::Timestamp,
    /// The line in the policy.
    pub(crate) line: u64,
}

/// The place of a pod without a node.
pub(crate) const NO_NODE: &str = "";

/// The subject of a problem, beyond its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// A Talos service, by its id.
    Service(String),
    /// Nodes of this role.
    Role(Role),
    /// The identity of the machine: whether it is the expected one.
    Identity,
    /// A condition of Talos, by its name.
    Condition(String),
    /// A volume whose trouble keeps nothing of Talos or Kubernetes from running: one of the user's own, a full log, an open one whose keys
    /// are out of date.
    SpareVolume,
    /// The CA in a file, as opposed to the client certificate.
    Authority,
    /// The target itself, as opposed to the database behind it.
    Itself,
    /// Pods that this admission webhook keeps from being created.
    RefusedByWebhook(String),
    /// Requests that Kubernetes itself makes and that a webhook refuses.
    Refuses(Vec<Write>),
    /// A container that the kubelet cannot start.
    NotStarted,
}

/// A request of Kubernetes itself, without which a part of the cluster stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// A kubelet renews the lease of its Node. Without it, the Node counts as lost.
    NodeLease,
    /// A kubelet, or the node controller in its place, updates the status of a Node.
    NodeStatus,
    /// A scheduler or a controller renews the lease by which it leads.
    LeaderLease,
    /// A controller creates a pod.
    Pod,
    /// The scheduler gives a pod its node.
    Binding,
    /// A kubelet requests the token that it mounts into a pod.
    Token,
    /// A kubelet reports the state of a pod.
    PodStatus,
}

impl Problem {
    /// Creates a failure that waiting may resolve. The builders below change what differs.
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

    /// Marks the fact behind the problem as not observed.
    pub(crate) fn unseen(self) -> Self {
        Self { unseen: true, ..self }
    }

    /// Marks the problem as one that occurred since the previous round and is over.
    pub(crate) fn between_rounds(self) -> Self {
        Self { between_rounds: true, ..self }
    }

    /// Marks the problem as one that waiting does not resolve.
    pub(crate) fn permanent(self) -> Self {
        Self { waiting_helps: false, ..self }
    }

    /// Sets the explaining check, for reports that tests build by hand.
    #[cfg(test)]
    pub(crate) fn explained_by(self, check: CheckId) -> Self {
        Self { explained_by: Some(check), ..self }
    }

    /// Names the machines affected by the problem.
    pub(crate) fn on<T: Into<String>>(self, places: impl IntoIterator<Item = T>) -> Self {
        let places: Vec<String> = places.into_iter().map(Into::into).collect();
        Self { places: (!places.is_empty()).then(|| Shared::from(places)), ..self }
    }

    /// Turns the problem into a warning that a policy accepts.
    pub(crate) fn accept(&mut self, excuse: &Excuse) {
        self.severity = Severity::Warn;
        self.accepted = Some(Shared::from(excuse.clone()));
    }

    /// Returns the machines affected by the problem (see [`Problem::on`]); empty if none are known.
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

/// A next step. Reports render texts and commands, because they know the context in use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Hint {
    /// A likely cause, as half a sentence.
    Likely(String),
    /// A read-only command. `{talosctl}`, `{kubectl}` and `{etcdctl}` are placeholders for the tool with its context and endpoint options.
    /// Values from the cluster go into `arguments`, are shell-quoted, and replace each `{}` in order; `{*}` takes the rest.
    Try { command: &'static str, arguments: Vec<String> },
    /// A command that changes the cluster, with the same placeholders. Displayed with a mark.
    Remedy { command: &'static str, arguments: Vec<String> },
    /// A command of a stored report, as rendered by the run that wrote it.
    Rendered { changes: bool, command: String, text: Option<String>, template: String },
}

impl Hint {
    pub(crate) fn likely(text: impl Into<String>) -> Self {
        Self::Likely(text.into())
    }

    /// Suggests a command about an etcd member: through its machine if known, otherwise through the members of `--etcd-endpoints`.
    pub(crate) fn of_member(machine: Option<&str>, of_machine: &'static str, of_etcd: &'static str) -> Self {
        match machine {
            Some(address) => Self::run(of_machine, [address]),
            None => Self::run(of_etcd, []),
        }
    }

    pub(crate) fn run<const N: usize>(command: &'static str, arguments: [&str; N]) -> Self {
        Self::Try { command, arguments: arguments.map(str::to_owned).to_vec() }
    }

    /// Lists the pods on a node.
    pub(crate) fn pods_on(node: &str) -> Self {
        Self::run("{kubectl} get pods -A -o wide --field-selector {}", [&format!("spec.nodeName={node}")])
    }

    pub(crate) fn remedy<const N: usize>(command: &'static str, arguments: [&str; N]) -> Self {
        Self::Remedy { command, arguments: arguments.map(str::to_owned).to_vec() }
    }
}

/// The complete statement of a judge in one round.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) findings: Shared<Vec<Finding>>,
    /// Descriptions of targets that were observed in this round but not judged, because a rule of the check excludes them.
    pub(crate) left_out: Vec<String>,
    /// The first sample looks wrong in a way that a second one can settle: read the check's facts again after this delay and repeat the
    /// check. Granted once per round if the deadline allows it; otherwise the findings count.
    pub(crate) resample_after: Option<std::time::Duration>,
}

impl Verdict {
    /// Creates a verdict about the cluster as a whole.
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

    /// Adds a pass with a line for the text report.
    pub(crate) fn pass(&mut self, target: Target, line: impl Into<String>) {
        self.push(target, Outcome::Pass(Some(line.into())));
    }

    /// Names targets that a rule of the check excludes, so that they do not appear to be judged.
    pub(crate) fn leave_out(&mut self, what: impl Into<String>) {
        self.left_out.push(what.into());
    }

    /// Adds a pass without a line.
    pub(crate) fn ok(&mut self, target: Target) {
        self.push(target, Outcome::Pass(None));
    }

    pub(crate) fn skip(&mut self, target: Target, reason: impl Into<String>) {
        self.push(target, Outcome::Skip(reason.into()));
    }

    pub(crate) fn problem(&mut self, target: Target, problem: Problem) {
        self.push(target, Outcome::problem(problem));
    }

    /// Returns the worst status of the findings. A verdict without findings is an error: missing evidence never counts as a pass.
    pub(crate) fn status(&self) -> Status {
        self.findings.iter().map(|finding| finding.outcome.status()).max().unwrap_or(Status::Error)
    }

    /// Adds a passing line for the cluster if every finding is a pass or a skip and at least one is a pass.
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
