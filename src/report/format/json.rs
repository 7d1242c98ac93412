//! The JSON report: its own versioned shape, so that the code can change and the document does not.
//!
//! Additions are no new version; readers must tolerate unknown fields and values. `schema/cluster-health.v1.json` describes it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::diagnosis;
use crate::model::{CheckId, Finding, Outcome, Problem, Status, Target};
use crate::report::history::{self, Happened};
use crate::report::ledger;
use crate::report::merged::{Overview, Row, is_brief};
use crate::report::view::style::TextStyle;
use crate::report::view::wording::skip_reason;
use crate::report::view::{grid, hints};
use crate::report::{CheckReport, NodeInfo, Readiness, Report, Selection, Tool as Made};
use crate::snapshot::Upgrade;
use crate::snapshot::logs::Tail;
use crate::text::sanitize::{clean, log_lines};

/// The schema of the document and of NDJSON's events, as shipped.
pub(crate) const SCHEMA: &str = include_str!("../../../schema/cluster-health.v1.json");

/// Of the documents and events.
pub(crate) const SCHEMA_VERSION: &str = "1.0";

/// Writes one document and a line feed.
pub(crate) fn write(report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &document(report))?;
    writeln!(out)?;
    out.flush()
}

/// A list of which one element at a time is made, while it is written: of a large cluster, all at once would take more memory
/// than the report.
pub(crate) struct Many<'a, T>(Box<dyn Fn() -> Box<dyn Iterator<Item = T> + 'a> + 'a>);

impl<'a, T> Many<'a, T> {
    fn of<I: Iterator<Item = T> + 'a>(elements: impl Fn() -> I + 'a) -> Self {
        Self(Box::new(move || Box::new(elements())))
    }
}

impl<T: Serialize> Serialize for Many<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0())
    }
}

#[cfg(test)]
impl<T: schemars::JsonSchema> schemars::JsonSchema for Many<'_, T> {
    fn inline_schema() -> bool {
        Vec::<T>::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        Vec::<T>::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Vec::<T>::json_schema(generator)
    }
}

// The published schema is made from these structs, their comments included: `tests/schema.rs`.

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "report"))]
pub(crate) struct Document<'a> {
    /// Version of this document. Within major version 1, only additions are made.
    #[cfg_attr(test, schemars(regex(pattern = r"^1\.[0-9]+$")))]
    schema_version: &'static str,
    /// What tells it from an event of NDJSON.
    #[cfg_attr(test, schemars(extend("const" = KIND)))]
    kind: &'static str,
    /// What made the report.
    tool: Tool<'a>,
    /// Which cluster it is of.
    // Added later: a document of version 1 may lack it.
    #[cfg_attr(test, schemars(skip_serializing_if = "Option::is_none"))]
    cluster: Option<Cluster>,
    /// The run came to its end. false in the report that is written at the start and replaced on the way, and after an
    /// interruption: such a report is never a success.
    complete: bool,
    /// One of healthy, unhealthy, undetermined, interrupted, error. Treat an unknown value as not healthy.
    result: &'static str,
    /// Whether the upgrade or the drain that was asked about may begin: one of ready, blocked, undetermined. null: none was asked
    /// about.
    upgrade_readiness: Option<&'static str>,
    /// Exit code of the process, as far as known when this was written.
    exit_code: u8,
    /// Why the process ends with this code, in words.
    exit_reason: String,
    /// What to do about exitReason, where the checks do not say it.
    hint: Option<String>,
    /// The run was ended by --wait-timeout.
    deadline_reached: bool,
    /// RFC 3339, UTC.
    started_at: Timestamp,
    /// RFC 3339, UTC.
    finished_at: Timestamp,
    /// By a monotonic clock, in milliseconds.
    duration_ms: u64,
    /// null: one pass.
    wait_timeout_ms: Option<u64>,
    /// null: --stable-for was not given.
    stable_for_ms: Option<u64>,
    /// A round that began after the last complete one did not end in time.
    // Added later, and rare: a document of version 1 may lack it. The same holds of what is skipped below.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut_off: bool,
    /// Complete rounds. A round that was cut off counts for nothing.
    rounds: u32,
    /// One of cluster, targeted (the per-node checks were narrowed).
    scope: &'static str,
    /// null unless scope is targeted.
    targeted: Option<Targeted>,
    /// Options, and entries of a policy, that make the verdict weaker than the full one.
    weakened: Vec<Weakened>,
    /// The file of `--policy`.
    // Added later, and not always there: a document of version 1 may lack it.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<Policy>,
    /// What was not seen, and why.
    not_observed: Vec<String>,
    /// Where the facts came from.
    sources: Origins<'a>,
    /// What lies behind the problems of the last complete round, the one to begin with first. Empty if nothing was recognized; it never
    /// changes the result.
    diagnoses: Many<'a, Diagnosis<'a>>,
    /// With `--evidence logs`: the logs of services and static pods that had failed in the last complete round.
    evidence: Many<'a, LogEntry>,
    /// Checks by status.
    summary: Summary,
    /// Every check of the catalog, in its order, whatever happened.
    checks: Many<'a, Check<'a>>,
    /// What --upgrade-talos, --upgrade-kubernetes, --drain and --image asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<Asked>,
    /// How checks changed from round to round, the last 1000 changes. Absent after a single round.
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<Many<'a, Change>>,
    /// When an earlier run was healthy, by the metrics file that this run replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_success: Option<Timestamp>,
    /// In a merged report: the checks that are not in `checks`, because nothing is wrong with them.
    #[serde(skip_serializing_if = "Option::is_none")]
    brief: Option<Brief>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Brief {
    /// Ids of checks that passed.
    passed: Vec<&'static str>,
    /// Ids of checks that were skipped, each with the reason.
    skipped: BTreeMap<&'static str, String>,
    /// Ids of checks that were not selected, each with the reason.
    not_selected: BTreeMap<&'static str, String>,
    /// Ids of those that passed or were skipped, and ran only because a selected check needs them.
    prerequisites: Vec<&'static str>,
}

impl Brief {
    fn of(report: &Report) -> Self {
        let of = |status| report.checks.iter().filter(move |it| it.selection.runs() && it.status == Some(status));
        let id = |check: &CheckReport| check.check.id.name();
        let reason = |check: &CheckReport| (id(check), skip_reason(check).unwrap_or_default());
        let needed = |check: &&CheckReport| check.selection == Selection::Prerequisite;
        Self {
            passed: of(Status::Pass).map(id).collect(),
            skipped: of(Status::Skip).map(reason).collect(),
            not_selected: report.checks.iter().filter(|it| !it.selection.runs()).map(reason).collect(),
            prerequisites: of(Status::Pass).chain(of(Status::Skip)).filter(needed).map(id).collect(),
        }
    }
}

/// Several reports in one document.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "merged"))]
pub(crate) struct Merged<'a> {
    /// Version of this document. Within major version 1, only additions are made.
    #[cfg_attr(test, schemars(regex(pattern = r"^1\.[0-9]+$")))]
    schema_version: &'static str,
    /// What tells it from the report of one cluster.
    #[cfg_attr(test, schemars(extend("const" = KIND_MERGED)))]
    kind: &'static str,
    /// What merged the reports.
    tool: Tool<'a>,
    /// One of healthy, unhealthy, undetermined, error. Treat an unknown value as not healthy.
    result: &'static str,
    /// The worst of all clusters: 1, 77, 78, 69, 124, 0, in this order.
    exit_code: u8,
    /// How many clusters are in which state.
    exit_reason: String,
    /// Names of --expect. null: nobody has said which clusters there are, so a missing one is not noticed.
    expected: Option<Vec<&'a str>>,
    /// Of these, the ones without a report.
    missing: Vec<&'a str>,
    /// --max-age, in milliseconds. null: none was given.
    max_age_ms: Option<u64>,
    /// Files that cannot be used.
    unusable: Vec<Unusable<'a>>,
    /// What changes no exit code, in words.
    notes: Vec<&'a str>,
    /// Each report, the worst first.
    clusters: Many<'a, OfCluster<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Unusable<'a> {
    /// As it was named.
    file: &'a str,
    /// Why it cannot be used.
    reason: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "cluster"))]
struct OfCluster<'a> {
    /// What the cluster is called.
    name: &'a str,
    /// 0 only if its report shows that it is healthy, and nothing is wrong with the report.
    exit_code: u8,
    /// Why the report does not count, beside its checks.
    concerns: &'a [String],
    /// The file that the report was read from.
    file: &'a str,
    /// It has ended in the future, by the clock of who read it first.
    in_future: bool,
    /// The report, without what passed.
    report: Box<Document<'a>>,
}

pub(crate) const KIND_MERGED: &str = "ClusterHealthMerged";

/// Writes one document of several clusters and a line feed. Without indentation: it may have hundreds of reports.
pub(crate) fn write_merged(overview: &Overview<'_>, _: &TextStyle, out: &mut dyn io::Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &merged(overview))?;
    writeln!(out)?;
    out.flush()
}

fn merged<'a>(overview: &'a Overview<'_>) -> Merged<'a> {
    let of_row = |row: &'a Row<'_>| {
        row.member.map(|member| OfCluster {
            name: &row.name,
            exit_code: row.exit.code(),
            concerns: &row.concerns,
            file: &member.file,
            in_future: member.is_of_future,
            report: Box::new(reduced(&member.report)),
        })
    };
    let all = overview.merged;
    Merged {
        schema_version: SCHEMA_VERSION,
        kind: KIND_MERGED,
        tool: Tool {
            name: env!("CARGO_PKG_NAME"),
            version: env!("CARGO_PKG_VERSION"),
            commit: option_env!("CLUSTER_HEALTH_COMMIT"),
        },
        result: ledger::result(overview.exit).name(),
        exit_code: overview.exit.code(),
        exit_reason: overview.verdict(),
        expected: all.expected().map(|names| names.iter().map(String::as_str).collect()),
        missing: overview.missing.clone(),
        max_age_ms: all.max_age().map(milliseconds),
        unusable: all.unusable_files().iter().map(|(file, reason)| Unusable { file, reason }).collect(),
        notes: overview.notes.iter().map(String::as_str).collect(),
        clusters: Many::of(move || overview.rows.iter().filter_map(of_row)),
    }
}

/// Of a report whose checks have nothing but what is wrong.
fn reduced(report: &Report) -> Document<'_> {
    let all = document(report);
    let checks = Many::of(|| report.checks.iter().filter(|check| !is_brief(check)).map(|check| entry(check, report)));
    Document { checks, brief: Some(Brief::of(report)), ..all }
}

/// The same as text.
pub(crate) fn reduced_text(report: &Report) -> String {
    serde_json::to_string(&reduced(report)).unwrap_or_default()
}

pub(crate) const KIND: &str = "ClusterHealthReport";

/// Changes that a document has at most: a run can wait for days.
const CHANGES: usize = 1000;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "tool"))]
pub(super) struct Tool<'a> {
    /// `cluster-health`.
    name: &'static str,
    /// Version of the program.
    version: &'a str,
    /// Commit that the program was built from.
    commit: Option<&'a str>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Asked {
    /// Version of Talos, without its v.
    #[serde(skip_serializing_if = "Option::is_none")]
    talos: Option<String>,
    /// Version of Kubernetes, without its v.
    #[serde(skip_serializing_if = "Option::is_none")]
    kubernetes: Option<String>,
    /// Name or address of a machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    drain: Option<String>,
    /// The installer.
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "change"))]
struct Change {
    /// Since the start of the run, by a monotonic clock, in milliseconds.
    elapsed_ms: u64,
    /// The last complete round.
    round: u32,
    /// Id of the check that changed. Absent: the cluster was no longer healthy throughout.
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<&'static str>,
    /// The check's status.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    /// Its status before. Absent: it had none.
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<&'static str>,
    /// The first of its worst problems, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Without a check: ids of the checks that were no longer fine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stability_lost: Vec<&'static str>,
    /// What happened of the same kind since the entry before, too often to be listed each time.
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted: Option<Omission>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(super) struct Omission {
    /// How often.
    #[cfg_attr(test, schemars(range(min = 1)))]
    times: u32,
    /// When the first of them happened, from the start of the run, in milliseconds.
    since_ms: u64,
    /// checkChanged: the worst status that the check had in between.
    worst: Option<&'static str>,
}

impl From<history::Omitted> for Omission {
    fn from(omitted: history::Omitted) -> Self {
        let history::Omitted { times, since, worst } = omitted;
        Self { times, since_ms: milliseconds(since), worst: worst.map(Status::name) }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Cluster {
    /// As `--cluster-name` says, else the context of the talosconfig, else that of the kubeconfig. null: no file has any.
    name: Option<String>,
    /// Which cluster it is, whatever it is called: ca-sha256: and the digest of the CA that verified its Talos machines. Absent: none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    talos_id: Option<String>,
    /// Which cluster it is by Kubernetes: the UID of the namespace kube-system. Absent: it was not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    kube_system_uid: Option<String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Targeted {
    /// Nodes that were judged.
    nodes: usize,
    /// Nodes in all.
    of: usize,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Weakened {
    /// As typed: --skip etcd.alarms. Of a policy, in words.
    option: String,
    /// flag, the name of the variable, or the line of the policy.
    origin: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Policy {
    /// As given.
    path: String,
    /// SHA-256 of the file, in hex: whoever can change it can excuse what it gates.
    sha256: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct LogEntry {
    /// `log`. Unknown values must be tolerated.
    kind: &'static str,
    /// Name of the machine.
    node: String,
    /// Whose log it is: `service kubelet`, `container kube-scheduler of kube-scheduler-cp-1`.
    source: String,
    /// The last lines, bounded in number and length, with what looks like a secret left out.
    lines: Vec<String>,
    /// Why there are no lines.
    missing: Option<String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "diagnosis"))]
struct Diagnosis<'a> {
    /// Stable id of the cause; `cluster-health explain ID` says more. More may come.
    #[cfg_attr(test, schemars(regex(pattern = "^[a-z0-9-]+$")))]
    id: &'static str,
    /// What is the matter, in general.
    title: &'static str,
    /// What it means for the cluster and its workloads, as half a sentence.
    impact: &'static str,
    /// warn, error or fail: the worst of the problems that it explains.
    severity: &'static str,
    /// One sentence with names and figures.
    headline: String,
    /// The observed facts that it rests on.
    evidence: Many<'a, Seen>,
    /// Commands, read-only ones (kind try) before those that change the cluster (kind remedy).
    next: Vec<Hint>,
    /// The official document that the remedy comes from, by its title.
    source: &'static str,
    /// The problems that follow from it; no other diagnosis explains them.
    explains: Many<'a, Explained>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Seen {
    /// Of whom it was observed.
    target: TargetEntry,
    /// A line for people; not stable.
    observed: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Explained {
    /// Id of the check that found the problem.
    check: &'static str,
    /// The problem's.
    target: TargetEntry,
    /// The problem's code.
    reason: &'static str,
    /// As in the problem: a check can find the same reason twice for one target.
    // Added later: a document of version 1 may lack it.
    #[cfg_attr(test, schemars(skip_serializing_if = "String::is_empty"))]
    observed: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Origins<'a> {
    /// Path.
    talosconfig: Option<String>,
    /// Context of the talosconfig.
    context: Option<String>,
    /// Of the Talos API, as they were asked.
    endpoints: Vec<String>,
    /// Path, or how it was obtained.
    kubeconfig: Option<String>,
    /// Context of the kubeconfig.
    kube_context: Option<String>,
    /// URL of the Kubernetes API.
    server: Option<String>,
    /// Who named the nodes: discovery, kubernetes, etcd, flags, talosconfig; more may come.
    node_sources: Vec<&'static str>,
    /// Every node that some source names.
    nodes: Many<'a, Node>,
    /// Of the nodes that answered, each once.
    talos_versions: Vec<String>,
    /// Kubernetes credentials that were not used.
    passed_over: Vec<PassedOver>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Node {
    /// Its hostname, or its address where nobody names it.
    name: String,
    /// The one that it is asked at.
    address: String,
    /// control-plane, worker or unknown.
    role: &'static str,
    /// Being removed: listed, not checked.
    leaving: bool,
    /// The worst that any check found of this machine, its etcd member and its pods; null where no check said anything.
    status: Option<&'static str>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct PassedOver {
    /// Path, or how they would have been obtained.
    source: String,
    /// Why they were not used.
    reason: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Summary {
    /// All checks.
    total: usize,
    /// With status pass.
    passed: usize,
    /// With status warn.
    warned: usize,
    /// With status fail.
    failed: usize,
    /// With status error.
    errored: usize,
    /// With status skip.
    skipped: usize,
    /// With status blocked.
    blocked: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "check"))]
struct Check<'a> {
    /// Stable, dotted: etcd.quorum.
    #[cfg_attr(test, schemars(regex(pattern = "^[a-z0-9.-]+$")))]
    id: &'static str,
    /// 1 to 7.
    #[cfg_attr(test, schemars(range(min = 1)))]
    stage: u8,
    /// Name of the stage.
    group: &'static str,
    /// What is true when it passes.
    title: &'static str,
    /// One of skip, pass, warn, blocked, error, fail. error: could not be determined. blocked: a prerequisite did not pass, so it
    /// was not looked at. Treat an unknown value as error.
    status: &'static str,
    /// The worst it can say: warn, error or fail.
    severity: &'static str,
    /// selected, prerequisite (runs because a selected check needs it) or not-selected.
    selected: &'static str,
    /// Why it was skipped or not checked.
    reason: Option<String>,
    /// false: no complete round has checked it, and its status is error, or skip if it is not selected.
    judged: bool,
    /// Complete rounds that judged it.
    attempts: u32,
    /// Of these, the last ones in a row in which it was neither pass, warn nor skip.
    failing_attempts: u32,
    /// Since when it has had this status, in milliseconds from the start.
    since_ms: Option<u64>,
    /// When it first passed, in milliseconds from the start.
    first_passed_ms: Option<u64>,
    /// It passed once, and later did not.
    flapped: bool,
    /// Ids of the checks that did not pass, so that this one was not looked at.
    blocked_by: Vec<&'static str>,
    /// Everything that was looked at.
    targets: Many<'a, TargetStatus>,
    /// Every offender, one entry each.
    problems: Many<'a, ProblemEntry>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "target"))]
struct TargetEntry {
    /// cluster, credentials, endpoint, node, etcd-member, pod, workload, webhook, api-service, policy, server-check; more may come.
    kind: &'static str,
    /// As the cluster calls it.
    name: String,
    /// Where it is reached, as far as that is known beside its name.
    address: Option<String>,
    /// An id beside the name, such as an etcd member's, 16 hex digits.
    id: Option<String>,
    /// The node that a pod is on, as far as it is known.
    // Added later: a document of version 1 may lack it.
    #[cfg_attr(test, schemars(skip_serializing_if = "Option::is_none"))]
    node: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct TargetStatus {
    #[serde(flatten)]
    target: TargetEntry,
    /// One of skip, pass, warn, blocked, error, fail. error: could not be determined. blocked: a prerequisite did not pass, so it
    /// was not looked at. Treat an unknown value as error.
    status: &'static str,
    /// A line for people; not stable.
    message: Option<String>,
    /// Id of the check that did not pass, so that this target was not looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked_by: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "problem"))]
struct ProblemEntry {
    /// Whose problem it is.
    target: TargetEntry,
    /// Stable code; `cluster-health explain CODE` says more. More may come.
    #[cfg_attr(test, schemars(regex(pattern = "^[a-z0-9-]+$")))]
    reason: &'static str,
    /// warn, error or fail.
    severity: &'static str,
    /// A line for people; not stable.
    expected: String,
    /// A line for people; not stable.
    observed: String,
    /// false: the same answer will come until somebody changes something.
    waiting_helps: bool,
    /// What it may come from, and what to do.
    hints: Vec<Hint>,
    /// Id of the check whose failure this one only repeats.
    explained_by: Option<&'static str>,
    /// A policy accepts it: it warns, whatever `--strict` and `--fail-on` say.
    // Added later, and rare: a document of version 1 may lack it.
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted: Option<Accepted>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Accepted {
    /// As the policy says.
    because: String,
    /// RFC 3339, UTC.
    until: Timestamp,
    /// Of the policy.
    line: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "hint"))]
struct Hint {
    /// likely (a cause), try (a read-only command) or remedy (a command that changes the cluster).
    kind: &'static str,
    /// In words.
    text: Option<String>,
    /// For a POSIX shell, every value quoted.
    command: Option<String>,
    /// The command without its values: commands that have it in common are shown together.
    #[serde(skip_serializing_if = "Option::is_none")]
    template: Option<Cow<'static, str>>,
}

pub(super) fn tool(made: &Made) -> Tool<'_> {
    Tool { name: env!("CARGO_PKG_NAME"), version: &made.version, commit: made.commit.as_deref() }
}

/// The document as a value, of which the lists are made as they are written.
pub(super) fn document(report: &Report) -> Document<'_> {
    let sources = &report.sources;
    Document {
        schema_version: SCHEMA_VERSION,
        kind: KIND,
        tool: tool(&report.tool),
        cluster: Some(Cluster {
            name: sources.name().map(clean),
            talos_id: sources.talos_id.as_deref().map(clean),
            kube_system_uid: sources.kube_system_uid.as_deref().map(clean),
        }),
        complete: report.complete,
        result: report.result.name(),
        upgrade_readiness: report.upgrade_readiness().map(Readiness::name),
        exit_code: report.exit.code(),
        exit_reason: report.error.as_deref().map_or_else(|| report.exit.meaning().to_owned(), clean),
        hint: report.hint.as_deref().map(clean),
        deadline_reached: report.deadline_reached,
        started_at: report.started_at,
        finished_at: report.finished_at,
        duration_ms: milliseconds(report.took),
        wait_timeout_ms: report.wait_timeout.map(milliseconds),
        stable_for_ms: report.stable_for.map(milliseconds),
        cut_off: report.cut_off,
        rounds: report.rounds,
        scope: if report.targeted.is_some() { "targeted" } else { "cluster" },
        targeted: report.targeted.map(|(nodes, of)| Targeted { nodes, of }),
        weakened: report
            .weakened
            .iter()
            .map(|weak| Weakened { option: clean(&weak.option), origin: clean(&weak.origin.to_string()) })
            .collect(),
        policy: report
            .policy
            .as_ref()
            .map(|policy| Policy { path: clean(&policy.path), sha256: policy.sha256.clone() }),
        not_observed: cleaned(&report.not_observed),
        sources: Origins {
            talosconfig: sources.talosconfig.as_deref().map(clean),
            context: sources.context.as_deref().map(clean),
            endpoints: cleaned(&sources.endpoints),
            kubeconfig: sources.kubeconfig.as_deref().map(clean),
            kube_context: sources.kube_context.as_deref().map(clean),
            server: sources.server.as_deref().map(clean),
            node_sources: sources.named_by.clone(),
            nodes: Many::of(|| sources.nodes.iter().zip(grid::worst_of_nodes(report)).map(node)),
            talos_versions: cleaned(&sources.talos_versions),
            passed_over: sources
                .passed_over
                .iter()
                .map(|(source, reason)| PassedOver { source: clean(source), reason: clean(reason) })
                .collect(),
        },
        diagnoses: Many::of(|| report.diagnoses.iter().map(|it| diagnosis_entry(it, report))),
        evidence: Many::of(|| report.logs.iter().map(log_entry)),
        summary: Summary {
            total: report.checks.len(),
            passed: report.count(Status::Pass),
            warned: report.count(Status::Warn),
            failed: report.count(Status::Fail),
            errored: report.count(Status::Error),
            skipped: report.count(Status::Skip),
            blocked: report.count(Status::Blocked),
        },
        checks: Many::of(|| report.checks.iter().map(|check| entry(check, report))),
        asked: (report.asked != Upgrade::default()).then(|| asked(&report.asked)),
        history: (report.rounds > 1).then(|| Many::of(|| changes(report))),
        last_success: report.last_success,
        brief: None,
    }
}

fn asked(upgrade: &Upgrade) -> Asked {
    let Upgrade { talos, kubernetes, drain, image } = upgrade;
    let [talos, kubernetes, drain, image] = [talos, kubernetes, drain, image].map(|it| it.as_deref().map(clean));
    Asked { talos, kubernetes, drain, image }
}

fn changes(report: &Report) -> impl Iterator<Item = Change> {
    let entries = report.history.entries();
    entries[entries.len().saturating_sub(CHANGES)..].iter().filter_map(|entry| {
        let change = Change {
            elapsed_ms: milliseconds(entry.at),
            round: entry.round,
            check: None,
            status: None,
            previous: None,
            message: None,
            stability_lost: Vec::new(),
            omitted: entry.omitted.map(Omission::from),
        };
        match &entry.happened {
            Happened::Check { check, before, now, reasons: _, message } => Some(Change {
                check: Some(check.id.name()),
                status: Some(now.name()),
                previous: before.map(Status::name),
                message: message.as_deref().map(clean),
                ..change
            }),
            Happened::StabilityLost(because) => {
                Some(Change { stability_lost: because.iter().map(|id| id.name()).collect(), ..change })
            }
            Happened::Heartbeat(_) | Happened::Finished => None,
        }
    })
}

fn node((node, worst): (&NodeInfo, Option<Status>)) -> Node {
    Node {
        name: clean(&node.name),
        address: clean(&node.address),
        role: node.role.name(),
        leaving: node.leaving,
        status: worst.map(Status::name),
    }
}

fn log_entry(tail: &Tail) -> LogEntry {
    let lines = tail.lines.as_ref().map(|lines| log_lines(lines)).unwrap_or_default();
    let missing = tail.lines.as_ref().err().map(|gap| clean(&gap.text));
    LogEntry { kind: "log", node: clean(&tail.log.node), source: clean(&tail.log.of.to_string()), lines, missing }
}

fn entry<'a>(check: &'a CheckReport, report: &'a Report) -> Check<'a> {
    let selected = match check.selection {
        Selection::Selected => "selected",
        Selection::Prerequisite => "prerequisite",
        Selection::NotSelected(_) => "not-selected",
    };
    let unjudged = check.is_unjudged().then(|| "no complete round has checked it".to_owned());
    Check {
        id: check.check.id.name(),
        stage: check.check.stage.number(),
        group: check.check.stage.name(),
        title: check.check.summary,
        status: check.shown_status().name(),
        severity: check.check.severity.status().name(),
        selected,
        reason: unjudged.or_else(|| skip_reason(check)),
        judged: check.status.is_some(),
        attempts: check.rounds,
        failing_attempts: check.bad_rounds,
        since_ms: check.since.map(milliseconds),
        first_passed_ms: check.first_passed.map(milliseconds),
        flapped: check.flapped,
        blocked_by: check.blocked_by().into_iter().map(CheckId::name).collect(),
        targets: Many::of(|| check.findings.iter().map(target_status)),
        problems: Many::of(|| check.problems().map(|(target, problem)| problem_entry(target, problem, report))),
    }
}

fn target_status(finding: &Finding) -> TargetStatus {
    let message = match &finding.outcome {
        Outcome::Pass(line) => line.as_deref().map(clean),
        Outcome::Skip(reason) => Some(clean(reason)),
        Outcome::Blocked(by) => Some(format!("not checked, blocked by {by}")),
        Outcome::Problem(problem) => Some(clean(&problem.observed)),
    };
    let blocked_by = match finding.outcome {
        Outcome::Blocked(by) => Some(by.name()),
        Outcome::Pass(_) | Outcome::Skip(_) | Outcome::Problem(_) => None,
    };
    TargetStatus { target: target(&finding.target), status: finding.outcome.status().name(), message, blocked_by }
}

fn target(target: &Target) -> TargetEntry {
    TargetEntry {
        kind: target.kind.name(),
        name: clean(&target.name),
        address: target.address.as_deref().map(clean),
        id: target.id.as_deref().map(clean),
        node: target.node.as_deref().map(clean),
    }
}

fn diagnosis_entry<'a>(diagnosis: &'a diagnosis::Diagnosis, report: &Report) -> Diagnosis<'a> {
    let cause = diagnosis::find(diagnosis.id);
    Diagnosis {
        id: diagnosis.id,
        title: cause.map_or("", |cause| cause.title),
        impact: cause.map_or("", |cause| cause.impact),
        severity: diagnosis.severity.status().name(),
        headline: clean(&diagnosis.headline),
        evidence: Many::of(|| {
            diagnosis.seen.iter().map(|seen| Seen { target: target(&seen.target), observed: clean(&seen.observed) })
        }),
        next: hint_entries(&diagnosis.next, report),
        source: cause.map_or("", |cause| cause.source.title),
        explains: Many::of(|| {
            diagnosis.explains.iter().map(|it| Explained {
                check: it.check.name(),
                target: target(&it.target),
                reason: it.reason.code(),
                observed: clean(&it.observed),
            })
        }),
    }
}

fn hint_entries(of: &[crate::model::Hint], report: &Report) -> Vec<Hint> {
    let rendered = of.iter().filter_map(|hint| hints::render(hint, &report.sources));
    rendered
        .map(|hint| Hint { kind: hint.kind.name(), text: hint.text, command: hint.command, template: hint.template })
        .collect()
}

fn problem_entry(of: &Target, problem: &Problem, report: &Report) -> ProblemEntry {
    ProblemEntry {
        target: target(of),
        reason: problem.reason.code(),
        severity: problem.severity.status().name(),
        expected: clean(&problem.expected),
        observed: clean(&problem.observed),
        waiting_helps: problem.waiting_helps,
        hints: hint_entries(&problem.hints, report),
        explained_by: problem.explained_by.map(CheckId::name),
        accepted: problem.accepted.as_deref().map(|excuse| Accepted {
            because: clean(&excuse.because),
            until: excuse.until,
            line: excuse.line,
        }),
    }
}

fn cleaned(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| clean(text)).collect()
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
