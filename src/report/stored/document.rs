//! The JSON document as it is read: the fields from which a [`Report`] is made, and those that it has to agree with.
//!
//! The properties of checks and causes are taken from the catalog. Fields that were added to version 1 later are optional.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use crate::checks;
use crate::diagnosis::{self, Diagnosis, Explained, Seen};
use crate::model::{
    CheckId, Excuse, Exit, Finding, Hint, Kind, Outcome, Problem, Reason, Role, Severity, Shared, Status, Target,
};
use crate::report::history::{Entry, Happened, History, Omitted};
use crate::report::merged::{Member, Merged};
use crate::report::view::wording::not_selected;
use crate::report::{
    CheckReport, NodeInfo, NotSelected, Origin, PolicyFile, Readiness, Report, RunResult, Selection, Sources, Tool,
    Weakening,
};
use crate::snapshot::logs::{Log, Source, Tail};
use crate::snapshot::{Gap, GapKind, Upgrade};
use crate::text::sanitize::{clean, log_lines};

/// A text of the file, cleaned as it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        Ok(Self(clean(&String::deserialize(input)?)))
    }
}

/// The result of reading a list; the error names the first item that cannot be used.
type Read<T> = Result<T, String>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Document {
    tool: ToolEntry,
    cluster: Option<Cluster>,
    complete: bool,
    result: String,
    upgrade_readiness: Option<String>,
    exit_code: u8,
    exit_reason: Text,
    hint: Option<Text>,
    deadline_reached: bool,
    #[serde(default)]
    cut_off: bool,
    started_at: Timestamp,
    finished_at: Timestamp,
    duration_ms: u64,
    wait_timeout_ms: Option<u64>,
    stable_for_ms: Option<u64>,
    rounds: u32,
    targeted: Option<Targeted>,
    weakened: Vec<Weakened>,
    policy: Option<Policy>,
    not_observed: Vec<Text>,
    sources: Origins,
    diagnoses: Vec<DiagnosisEntry>,
    evidence: Vec<LogEntry>,
    summary: Summary,
    checks: Vec<Check>,
    #[serde(default)]
    asked: Asked,
    #[serde(default)]
    history: Vec<Change>,
    last_success: Option<Timestamp>,
    brief: Option<Brief>,
}

/// Checks of a merged report that have no problems.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Brief {
    passed: Vec<String>,
    skipped: BTreeMap<String, Text>,
    not_selected: BTreeMap<String, Text>,
    prerequisites: Vec<String>,
}

impl Brief {
    fn entries(&self, rounds: u32) -> Result<Vec<CheckReport>, Unknown> {
        let selection = |id: &String| {
            if self.prerequisites.contains(id) { Selection::Prerequisite } else { Selection::Selected }
        };
        let seen = |id: &String, outcome: Outcome| {
            Ok(CheckReport {
                status: Some(outcome.status()),
                findings: vec![Finding::new(Target::cluster(), outcome)].into(),
                rounds,
                ..CheckReport::unjudged(check(id)?, selection(id))
            })
        };
        let passed = self.passed.iter().map(|id| seen(id, Outcome::Pass(None)));
        let skipped = self.skipped.iter().map(|(id, reason)| seen(id, Outcome::Skip(reason.0.clone())));
        let not_selected = self
            .not_selected
            .iter()
            .map(|(id, reason)| Ok(CheckReport::unjudged(check(id)?, Selection::NotSelected(by_words(Some(reason))))));
        passed.chain(skipped).chain(not_selected).collect()
    }
}

/// A merged document as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MergedDocument {
    exit_code: u8,
    expected: Option<BTreeSet<Text>>,
    max_age_ms: Option<u64>,
    unusable: Vec<Unusable>,
    clusters: Vec<OfCluster>,
}

#[derive(Deserialize)]
struct Unusable {
    file: Text,
    reason: Text,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfCluster {
    file: Text,
    in_future: bool,
    report: Document,
}

impl MergedDocument {
    /// Returns everything in the document, as of this time.
    pub(super) fn merged(&self, now: Timestamp) -> Read<Merged> {
        let member = |it: &OfCluster| {
            let member = Member::new(&it.file.0, it.report.checked()?, now);
            Ok(Member { is_of_future: member.is_of_future || it.in_future, ..member })
        };
        Ok(Merged::stored(
            self.clusters.iter().map(member).collect::<Read<_>>()?,
            self.unusable.iter().map(|it| (it.file.0.clone(), it.reason.0.clone())).collect(),
            self.expected.as_ref().map(|names| names.iter().map(|name| name.0.clone()).collect()),
            self.max_age_ms.map(milliseconds),
        ))
    }

    pub(super) fn exit(&self) -> Option<Exit> {
        Exit::find(&self.exit_code.to_string())
    }
}

#[derive(Deserialize)]
struct ToolEntry {
    version: Text,
    commit: Option<Text>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cluster {
    name: Option<Text>,
    talos_id: Option<Text>,
    kube_system_uid: Option<Text>,
}

#[derive(Clone, Copy, Deserialize)]
struct Targeted {
    nodes: usize,
    of: usize,
}

#[derive(Deserialize)]
struct Weakened {
    option: Text,
    origin: Text,
}

#[derive(Deserialize)]
struct Policy {
    path: Text,
    sha256: Text,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Origins {
    talosconfig: Option<Text>,
    context: Option<Text>,
    endpoints: Vec<Text>,
    kubeconfig: Option<Text>,
    kube_context: Option<Text>,
    server: Option<Text>,
    node_sources: Vec<String>,
    nodes: Vec<Node>,
    talos_versions: Vec<Text>,
    passed_over: Vec<PassedOver>,
}

#[derive(Deserialize)]
struct Node {
    name: Text,
    address: Text,
    role: String,
    leaving: bool,
}

#[derive(Deserialize)]
struct PassedOver {
    source: Text,
    reason: Text,
}

#[derive(Deserialize)]
struct DiagnosisEntry {
    id: String,
    severity: String,
    headline: Text,
    impact: Text,
    evidence: Vec<SeenEntry>,
    next: Vec<HintEntry>,
    explains: Vec<ExplainedEntry>,
}

#[derive(Deserialize)]
struct SeenEntry {
    target: TargetEntry,
    observed: Text,
}

#[derive(Deserialize)]
struct ExplainedEntry {
    check: String,
    target: TargetEntry,
    reason: String,
    #[serde(default)]
    observed: Text,
}

#[derive(Deserialize)]
struct LogEntry {
    node: Text,
    source: Text,
    lines: Vec<String>,
    missing: Option<Text>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Summary {
    total: usize,
    passed: usize,
    warned: usize,
    failed: usize,
    errored: usize,
    skipped: usize,
    blocked: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    id: String,
    status: String,
    selected: String,
    reason: Option<Text>,
    judged: bool,
    attempts: u32,
    failing_attempts: u32,
    since_ms: Option<u64>,
    first_passed_ms: Option<u64>,
    flapped: bool,
    blocked_by: Vec<String>,
    targets: Vec<TargetStatus>,
    problems: Vec<ProblemEntry>,
}

#[derive(Deserialize)]
struct TargetEntry {
    kind: String,
    name: Text,
    address: Option<Text>,
    id: Option<Text>,
    node: Option<Text>,
}

// These fields are repeated here because `flatten` would accept a duplicate field.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TargetStatus {
    kind: String,
    name: Text,
    address: Option<Text>,
    id: Option<Text>,
    node: Option<Text>,
    status: String,
    message: Option<Text>,
    blocked_by: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProblemEntry {
    target: TargetEntry,
    reason: String,
    severity: String,
    expected: Text,
    observed: Text,
    waiting_helps: bool,
    hints: Vec<HintEntry>,
    explained_by: Option<String>,
    accepted: Option<Accepted>,
}

#[derive(Deserialize)]
struct Accepted {
    because: Text,
    until: Timestamp,
    line: u64,
}

#[derive(Deserialize)]
struct HintEntry {
    kind: String,
    text: Option<Text>,
    command: Option<String>,
    template: Option<String>,
}

#[derive(Default, Deserialize)]
struct Asked {
    talos: Option<Text>,
    kubernetes: Option<Text>,
    drain: Option<Text>,
    image: Option<Text>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Change {
    elapsed_ms: u64,
    round: u32,
    check: Option<String>,
    status: Option<String>,
    previous: Option<String>,
    message: Option<Text>,
    #[serde(default)]
    stability_lost: Vec<String>,
    omitted: Option<Omission>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Omission {
    times: u32,
    since_ms: u64,
    worst: Option<String>,
}

impl Document {
    /// Returns everything in the document. A value that another version of the program has written and this one does not know is an error:
    /// it may be the very problem.
    pub(super) fn report(&self) -> Read<Report> {
        let exit = Exit::find(&self.exit_code.to_string());
        let exit = exit.ok_or_else(|| unknown("exit code", &self.exit_code.to_string(), &self.tool))?;
        let known = |error: Unknown| unknown(error.0, &error.1, &self.tool);
        let mut entries: Vec<CheckReport> =
            self.checks.iter().map(Check::entry).collect::<Result<_, _>>().map_err(known)?;
        if let Some(brief) = &self.brief {
            entries.extend(brief.entries(self.rounds).map_err(known)?);
            let place = |entry: &CheckReport| checks::ALL.iter().position(|check| check.id == entry.check.id);
            entries.sort_by_key(place);
        }
        let mut ids = HashSet::new();
        if let Some(twice) = entries.iter().find(|entry| !ids.insert(entry.check.id)) {
            return Err(format!("it has the check {} twice", twice.check.id));
        }
        let reason = &self.exit_reason.0;
        Ok(Report {
            tool: Tool {
                version: self.tool.version.0.clone().into(),
                commit: self.tool.commit.as_ref().map(|commit| commit.0.clone().into()),
            },
            started_at: self.started_at,
            finished_at: self.finished_at,
            took: milliseconds(self.duration_ms),
            wait_timeout: self.wait_timeout_ms.map(milliseconds),
            stable_for: self.stable_for_ms.map(milliseconds),
            rounds: self.rounds,
            complete: self.complete,
            result: find("result", RunResult::ALL, RunResult::name, &self.result).map_err(known)?,
            exit,
            deadline_reached: self.deadline_reached,
            cut_off: self.cut_off,
            error: (reason != exit.meaning()).then(|| reason.clone()),
            hint: text(self.hint.as_ref()),
            targeted: self.targeted.map(|targeted| (targeted.nodes, targeted.of)),
            weakened: self.weakened.iter().map(Weakened::entry).collect(),
            policy: self.policy.as_ref().map(|it| PolicyFile { path: it.path.0.clone(), sha256: it.sha256.0.clone() }),
            not_observed: texts(&self.not_observed),
            sources: self.sources(),
            diagnoses: self
                .diagnoses
                .iter()
                .filter_map(|it| it.entry().transpose())
                .collect::<Result<Vec<_>, _>>()
                .map_err(known)?
                .into(),
            logs: self.evidence.iter().map(LogEntry::tail).collect(),
            checks: entries,
            history: self.history.iter().map(Change::entry).collect::<Result<History, _>>().map_err(known)?,
            asked: Upgrade {
                talos: text(self.asked.talos.as_ref()),
                kubernetes: text(self.asked.kubernetes.as_ref()),
                drain: text(self.asked.drain.as_ref()),
                image: text(self.asked.image.as_ref()),
            },
            rollout: None,
            last_success: self.last_success,
        })
    }

    /// Returns the report, if its parts agree.
    pub(super) fn checked(&self) -> Read<Report> {
        let report = self.report()?;
        self.agrees(&report)?;
        super::agrees(&report)?;
        Ok(report)
    }

    /// Ensures that the document's statements about the whole, and about each check, follow from its findings.
    fn agrees(&self, report: &Report) -> Read<()> {
        let summary = Summary {
            total: report.checks.len(),
            passed: report.count(Status::Pass),
            warned: report.count(Status::Warn),
            failed: report.count(Status::Fail),
            errored: report.count(Status::Error),
            skipped: report.count(Status::Skip),
            blocked: report.count(Status::Blocked),
        };
        if self.summary != summary {
            return Err("its summary contradicts its checks".to_owned());
        }
        if self.upgrade_readiness.as_deref() != report.upgrade_readiness().map(Readiness::name) {
            return Err("its upgrade readiness contradicts its checks".to_owned());
        }
        for stored in &self.checks {
            let Some(check) = report.checks.iter().find(|check| check.check.id.name() == stored.id) else { continue };
            let blocked_by = check.blocked_by();
            let is_same = stored.status == check.shown_status().name()
                && stored.blocked_by.iter().map(String::as_str).eq(blocked_by.iter().map(|id| id.name()));
            if !is_same {
                return Err(format!("the status of {} contradicts what it found", check.check.id));
            }
        }
        Ok(())
    }

    fn sources(&self) -> Sources {
        let sources = &self.sources;
        let known = ["discovery", "kubernetes", "etcd", "flags", "talosconfig"];
        let named_by = known.into_iter().filter(|name| sources.node_sources.iter().any(|it| it == name)).collect();
        let nodes = sources.nodes.iter().map(|node| NodeInfo {
            name: node.name.0.clone(),
            address: node.address.0.clone(),
            role: find("role", Role::ALL, Role::name, &node.role).unwrap_or(Role::Unknown),
            leaving: node.leaving,
        });
        Sources {
            cluster_name: self.cluster.as_ref().and_then(|cluster| text(cluster.name.as_ref())),
            talos_id: self.cluster.as_ref().and_then(|cluster| text(cluster.talos_id.as_ref())),
            kube_system_uid: self.cluster.as_ref().and_then(|cluster| text(cluster.kube_system_uid.as_ref())),
            talosconfig: text(sources.talosconfig.as_ref()),
            context: text(sources.context.as_ref()),
            endpoints: texts(&sources.endpoints),
            kubeconfig: text(sources.kubeconfig.as_ref()),
            kube_context: text(sources.kube_context.as_ref()),
            server: text(sources.server.as_ref()),
            named_by,
            nodes: nodes.collect(),
            talos_versions: texts(&sources.talos_versions),
            passed_over: sources.passed_over.iter().map(|it| (it.source.0.clone(), it.reason.0.clone())).collect(),
            ..Sources::default()
        }
    }
}

impl Weakened {
    fn entry(&self) -> Weakening {
        let line = || self.origin.0.strip_prefix("policy, line ")?.parse().ok();
        let origin = match (self.origin.0.as_str(), line()) {
            ("flag", _) => Origin::Flag,
            (_, Some(line)) => Origin::Policy(line),
            (variable, None) => Origin::Variable(variable.to_owned()),
        };
        Weakening { option: self.option.0.clone(), origin }
    }
}

impl DiagnosisEntry {
    /// Returns the cause. `None`: this version does not know it, so its problems are shown without it.
    fn entry(&self) -> Result<Option<Diagnosis>, Unknown> {
        let Some(cause) = diagnosis::find(&self.id) else { return Ok(None) };
        let explained = |it: &ExplainedEntry| {
            Ok(Explained {
                check: check(&it.check)?.id,
                target: it.target.entry()?,
                reason: reason(&it.reason)?,
                observed: it.observed.0.clone(),
            })
        };
        let seen = |it: &SeenEntry| Ok(Seen { target: it.target.entry()?, observed: it.observed.0.clone() });
        Ok(Some(Diagnosis {
            id: cause.id,
            headline: self.headline.0.clone(),
            impact: self.impact.0.clone().into(),
            seen: self.evidence.iter().map(seen).collect::<Result<_, _>>()?,
            next: self.next.iter().filter_map(HintEntry::entry).collect(),
            severity: severity(&self.severity)?,
            explains: self.explains.iter().map(explained).collect::<Result<_, _>>()?,
        }))
    }
}

impl LogEntry {
    fn tail(&self) -> Tail {
        let source = self.source.0.as_str();
        let container = || source.strip_prefix("container ")?.split_once(" of ");
        let of = match (source.strip_prefix("service "), container()) {
            (Some(id), _) => Source::Service(id.to_owned()),
            (None, Some((container, pod))) => {
                Source::Container { pod: pod.to_owned(), container: container.to_owned() }
            }
            (None, None) => Source::Controllers,
        };
        let lines = match &self.missing {
            Some(why) => Err(Gap::new(GapKind::NotAsked, why.0.clone())),
            None => Ok(log_lines(&self.lines)),
        };
        Tail { log: Log { node: self.node.0.clone(), of }, lines }
    }
}

impl Check {
    fn entry(&self) -> Result<CheckReport, Unknown> {
        let check = check(&self.id)?;
        let selection = match self.selected.as_str() {
            "selected" => Selection::Selected,
            "prerequisite" => Selection::Prerequisite,
            "not-selected" => Selection::NotSelected(by_words(self.reason.as_ref())),
            other => return Err(Unknown("selection", other.to_owned())),
        };
        let mut problems = self.problems.iter();
        let findings: Vec<_> =
            self.targets.iter().map(|target| target.entry(self, &mut problems)).collect::<Result<_, _>>()?;
        // Each of the problems belongs to one of the targets.
        if problems.next().is_some() {
            return Err(Unknown("target of a problem of", self.id.clone()));
        }
        let status = findings.iter().map(|finding| finding.outcome.status()).max().unwrap_or(Status::Error);
        Ok(CheckReport {
            check,
            selection,
            status: self.judged.then_some(status),
            findings: findings.into(),
            left_out: Vec::new(),
            rounds: self.attempts,
            bad_rounds: self.failing_attempts,
            since: self.since_ms.map(milliseconds),
            first_passed: self.first_passed_ms.map(milliseconds),
            flapped: self.flapped,
        })
    }
}

/// Returns the option because of which a check did not run, by its words.
fn by_words(reason: Option<&Text>) -> NotSelected {
    let by = NotSelected::ALL.into_iter().find(|by| reason.is_some_and(|reason| reason.0 == not_selected(*by)));
    // The default is the option that vouches for nothing.
    by.unwrap_or(NotSelected::Check)
}

impl TargetStatus {
    /// Reads a finding. The problems of a check are in the order of its targets.
    fn entry<'a>(
        &self,
        check: &Check,
        problems: &mut impl Iterator<Item = &'a ProblemEntry>,
    ) -> Result<Finding, Unknown> {
        let target = self.target()?;
        let message = || self.message.as_ref().map(|message| message.0.clone());
        let outcome = match status(&self.status)? {
            Status::Pass => Outcome::Pass(message()),
            Status::Skip => Outcome::Skip(message().unwrap_or_default()),
            Status::Blocked => Outcome::Blocked(self.blocked_by(check)?),
            found @ (Status::Warn | Status::Error | Status::Fail) => {
                let problem = problems.next().ok_or_else(|| Unknown("problem of a target of", check.id.clone()))?;
                if problem.target.entry()? != target || severity(&problem.severity)?.status() != found {
                    return Err(Unknown("problem of a target of", check.id.clone()));
                }
                Outcome::problem(problem.entry()?)
            }
        };
        Ok(Finding::new(target, outcome))
    }

    /// Returns the check that blocks this target. Earlier documents have it in words, or only once for the check.
    fn blocked_by(&self, of: &Check) -> Result<CheckId, Unknown> {
        let in_words = || self.message.as_ref()?.0.strip_prefix("not checked, blocked by ");
        let id = self.blocked_by.as_deref().or_else(in_words).or(of.blocked_by.first().map(String::as_str));
        Ok(check(id.unwrap_or_default())?.id)
    }

    fn target(&self) -> Result<Target, Unknown> {
        let Self { kind, name, address, id, node, .. } = self;
        made(kind, name, [address, id, node])
    }
}

impl TargetEntry {
    fn entry(&self) -> Result<Target, Unknown> {
        let Self { kind, name, address, id, node } = self;
        made(kind, name, [address, id, node])
    }
}

fn made(kind: &str, name: &Text, [address, id, node]: [&Option<Text>; 3]) -> Result<Target, Unknown> {
    Ok(Target {
        kind: find("kind of target", Kind::ALL, Kind::name, kind)?,
        name: name.0.clone(),
        address: text(address.as_ref()),
        id: text(id.as_ref()),
        node: text(node.as_ref()),
    })
}

impl ProblemEntry {
    fn entry(&self) -> Result<Problem, Unknown> {
        let problem = Problem::fail(reason(&self.reason)?, self.expected.0.as_str(), self.observed.0.as_str());
        let accepted = self.accepted.as_ref().map(|accepted| Excuse {
            because: accepted.because.0.clone(),
            until: accepted.until,
            line: accepted.line,
        });
        Ok(Problem {
            severity: severity(&self.severity)?,
            waiting_helps: self.waiting_helps,
            hints: self.hints.iter().filter_map(HintEntry::entry).collect(),
            explained_by: self.explained_by.as_deref().map(|id| Ok(check(id)?.id)).transpose()?,
            accepted: accepted.map(Shared::from),
            ..problem
        })
    }
}

impl HintEntry {
    /// Returns the hint. `None`: it must not be pasted, or this version does not know its kind.
    fn entry(&self) -> Option<Hint> {
        let changes = match self.kind.as_str() {
            "likely" => return text(self.text.as_ref()).map(Hint::Likely),
            "try" => false,
            "remedy" => true,
            _ => return None,
        };
        let command = self.command.clone()?;
        // Each word is checked separately, as when the command was made, because quoted values contain blanks.
        let is_fit = command.split(' ').all(|word| clean(word) == word);
        let template = self.template.as_deref().map_or_else(|| command.clone(), clean);
        is_fit.then(|| Hint::Rendered { changes, command, text: text(self.text.as_ref()), template })
    }
}

impl Change {
    fn entry(&self) -> Result<Entry, Unknown> {
        let happened = match &self.check {
            Some(id) => Happened::Check {
                check: check(id)?,
                before: self.previous.as_deref().map(status).transpose()?,
                now: status(self.status.as_deref().unwrap_or_default())?,
                reasons: Vec::new(),
                message: text(self.message.as_ref()),
            },
            None => Happened::StabilityLost(
                self.stability_lost.iter().map(|id| Ok(check(id)?.id)).collect::<Result<_, _>>()?,
            ),
        };
        let omitted = |it: &Omission| {
            Ok(Omitted {
                times: it.times,
                since: milliseconds(it.since_ms),
                worst: it.worst.as_deref().map(status).transpose()?,
            })
        };
        Ok(Entry {
            at: milliseconds(self.elapsed_ms),
            round: self.round,
            happened,
            omitted: self.omitted.as_ref().map(omitted).transpose()?,
        })
    }
}

/// Kind of an unknown value, and the value.
struct Unknown(&'static str, String);

fn unknown(what: &str, said: &str, tool: &ToolEntry) -> String {
    let (said, written, own) = (clean(said), &tool.version.0, env!("CARGO_PKG_VERSION"));
    format!("{what} `{said}` is not known to cluster-health {own} (the report is from {written})")
}

fn find<T: Copy, const N: usize>(
    what: &'static str,
    all: [T; N],
    name: fn(T) -> &'static str,
    said: &str,
) -> Result<T, Unknown> {
    all.into_iter().find(|it| name(*it) == said).ok_or_else(|| Unknown(what, said.to_owned()))
}

fn check(id: &str) -> Result<&'static checks::Check, Unknown> {
    checks::ALL.iter().copied().find(|check| check.id.name() == id).ok_or_else(|| Unknown("check", id.to_owned()))
}

fn reason(code: &str) -> Result<Reason, Unknown> {
    Reason::find(code).ok_or_else(|| Unknown("reason", code.to_owned()))
}

fn status(name: &str) -> Result<Status, Unknown> {
    find("status", Status::ALL, Status::name, name)
}

fn severity(name: &str) -> Result<Severity, Unknown> {
    find("severity", Severity::ALL, |severity| severity.status().name(), name)
}

fn text(text: Option<&Text>) -> Option<String> {
    text.map(|text| text.0.clone())
}

fn texts(texts: &[Text]) -> Vec<String> {
    texts.iter().map(|text| text.0.clone()).collect()
}

fn milliseconds(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}
