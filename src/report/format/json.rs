//! The JSON report: its own versioned shape, so that the document stays the same when the code changes.
//!
//! Additions do not make a new version; readers must tolerate unknown fields and values. `schema/cluster-health.v1.json` describes it.

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

/// The schema of the document and of NDJSON's events, as published.
pub(crate) const SCHEMA: &str = include_str!("../../../schema/cluster-health.v1.json");

/// Version of the documents and events.
pub(crate) const SCHEMA_VERSION: &str = "1.0";

/// Writes one document and a line feed.
pub(crate) fn write(report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &document(report))?;
    writeln!(out)?;
    out.flush()
}

/// A list whose elements are made one at a time, while it is written: for a large cluster, all at once would take more memory than the
/// report.
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

// The published schema is generated from these structs, including their comments: `tests/schema.rs`.

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "report"))]
pub(crate) struct Document<'a> {
    /// Version of this document. Within major version 1, only additions are made.
    #[cfg_attr(test, schemars(regex(pattern = r"^1\.[0-9]+$")))]
    schema_version: &'static str,
    /// Kind of this document, as opposed to an event of NDJSON.
    #[cfg_attr(test, schemars(extend("const" = KIND)))]
    kind: &'static str,
    /// Program that made the report.
    tool: Tool<'a>,
    /// Identity of the cluster.
    // Added later: a document of version 1 may lack it.
    #[cfg_attr(test, schemars(skip_serializing_if = "Option::is_none"))]
    cluster: Option<Cluster>,
    /// Whether the run came to its end. false in the report that is written at the start and replaced during the run, and after an
    /// interruption: such a report is never a success.
    complete: bool,
    /// One of healthy, unhealthy, undetermined, interrupted, error. Treat an unknown value as not healthy.
    result: &'static str,
    /// Whether the requested upgrade or drain can begin: one of ready, blocked, undetermined. null: none was requested.
    upgrade_readiness: Option<&'static str>,
    /// Exit code of the process, as far as known when this was written.
    exit_code: u8,
    /// Why the process ends with this code, in words.
    exit_reason: String,
    /// Advice about exitReason, if the checks do not give it.
    hint: Option<String>,
    /// Whether --wait-timeout ended the run.
    deadline_reached: bool,
    /// RFC 3339, UTC.
    started_at: Timestamp,
    /// RFC 3339, UTC.
    finished_at: Timestamp,
    /// Measured with a monotonic clock, in milliseconds.
    duration_ms: u64,
    /// null: one pass.
    wait_timeout_ms: Option<u64>,
    /// null: --stable-for was not given.
    stable_for_ms: Option<u64>,
    /// Whether a round that began after the last complete one did not end in time.
    // Added later, and rare: a document of version 1 may lack it. This also applies to the fields below that are skipped.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut_off: bool,
    /// Number of complete rounds. A round that was cut off does not count.
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
    /// Facts that were not observed, and why.
    not_observed: Vec<String>,
    /// Sources of the facts.
    sources: Origins<'a>,
    /// Causes of the problems of the last complete round, the one to begin with first. Empty if none was recognized; never changes the
    /// result.
    diagnoses: Many<'a, Diagnosis<'a>>,
    /// Logs of services and static pods that had failed in the last complete round, with `--evidence logs`.
    evidence: Many<'a, LogEntry>,
    /// Number of checks by status.
    summary: Summary,
    /// Every check, in catalog order, whatever happened.
    checks: Many<'a, Check<'a>>,
    /// The planned change: --upgrade-talos, --upgrade-kubernetes, --drain and --image.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<Asked>,
    /// Changes of checks from round to round, the last 1000 changes. Absent after a single round.
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<Many<'a, Change>>,
    /// Time of an earlier healthy run, from the metrics file that this run replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_success: Option<Timestamp>,
    /// In a merged report: the checks that are not in `checks`, because they have no problems.
    #[serde(skip_serializing_if = "Option::is_none")]
    brief: Option<Brief>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Brief {
    /// IDs of checks that passed.
    passed: Vec<&'static str>,
    /// IDs of checks that were skipped, each with the reason.
    skipped: BTreeMap<&'static str, String>,
    /// IDs of checks that were not selected, each with the reason.
    not_selected: BTreeMap<&'static str, String>,
    /// IDs of checks that passed or were skipped, and ran only because a selected check needs them.
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
    /// Kind of this document, as opposed to the report of one cluster.
    #[cfg_attr(test, schemars(extend("const" = KIND_MERGED)))]
    kind: &'static str,
    /// Program that merged the reports.
    tool: Tool<'a>,
    /// One of healthy, unhealthy, undetermined, error. Treat an unknown value as not healthy.
    result: &'static str,
    /// The worst of all clusters: 1, 77, 78, 69, 124, 0, in this order.
    exit_code: u8,
    /// Number of clusters in each state, in words.
    exit_reason: String,
    /// Names of --expect. null: none were given, so a missing cluster is not noticed.
    expected: Option<Vec<&'a str>>,
    /// Expected clusters without a report.
    missing: Vec<&'a str>,
    /// --max-age, in milliseconds. null: none was given.
    max_age_ms: Option<u64>,
    /// Files that cannot be used.
    unusable: Vec<Unusable<'a>>,
    /// Notes that do not change the exit code.
    notes: Vec<&'a str>,
    /// Reports, the worst first.
    clusters: Many<'a, OfCluster<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Unusable<'a> {
    /// File, as it was named.
    file: &'a str,
    /// Why it cannot be used.
    reason: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "cluster"))]
struct OfCluster<'a> {
    /// Name of the cluster.
    name: &'a str,
    /// 0 only if its report shows that it is healthy, and has no concerns.
    exit_code: u8,
    /// Reasons other than its checks why the report does not count.
    concerns: &'a [String],
    /// The file that the report was read from.
    file: &'a str,
    /// Whether the run ended in the future, by the clock of the first reader of the report.
    in_future: bool,
    /// The report, without the details of checks that passed.
    report: Box<Document<'a>>,
}

pub(crate) const KIND_MERGED: &str = "ClusterHealthMerged";

/// Writes one document of several clusters and a line feed, without indentation: it may have hundreds of reports.
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

/// Returns the document of a report whose checks only have problems.
fn reduced(report: &Report) -> Document<'_> {
    let all = document(report);
    let checks = Many::of(|| report.checks.iter().filter(|check| !is_brief(check)).map(|check| entry(check, report)));
    Document { checks, brief: Some(Brief::of(report)), ..all }
}

/// Returns that document as text.
pub(crate) fn reduced_text(report: &Report) -> String {
    serde_json::to_string(&reduced(report)).unwrap_or_default()
}

pub(crate) const KIND: &str = "ClusterHealthReport";

/// Maximum number of changes in a document: a run can wait for days.
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
    /// Installer image.
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "change"))]
struct Change {
    /// Time since the start of the run, measured with a monotonic clock, in milliseconds.
    elapsed_ms: u64,
    /// Number of the last complete round.
    round: u32,
    /// ID of the check that changed. Absent: the cluster was no longer healthy throughout.
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<&'static str>,
    /// Status of the check.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    /// Previous status of the check. Absent: it had none.
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<&'static str>,
    /// The first of its worst problems, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Without a check: IDs of the checks that no longer passed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stability_lost: Vec<&'static str>,
    /// Changes of the same kind since the previous entry, too frequent to be listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted: Option<Omission>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(super) struct Omission {
    /// Number of changes.
    #[cfg_attr(test, schemars(range(min = 1)))]
    times: u32,
    /// Time of the first of them, from the start of the run, in milliseconds.
    since_ms: u64,
    /// checkChanged: the worst status of the check in between.
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
    /// Value of `--cluster-name`, else the context of the talosconfig, else that of the kubeconfig. null: no file has one.
    name: Option<String>,
    /// Identity of the cluster, regardless of its name: ca-sha256: and the digest of the CA that verified its Talos machines. Absent: none
    /// was verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    talos_id: Option<String>,
    /// Identity of the cluster in Kubernetes: the UID of the namespace kube-system. Absent: it was not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    kube_system_uid: Option<String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Targeted {
    /// Number of nodes that were judged.
    nodes: usize,
    /// Number of all nodes.
    of: usize,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Weakened {
    /// The option as typed: --skip etcd.alarms. For an entry of a policy, a description.
    option: String,
    /// flag, the name of the variable, or the line of the policy.
    origin: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Policy {
    /// Path as given.
    path: String,
    /// SHA-256 of the file, in hex: anyone who can change the file can excuse what it gates.
    sha256: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct LogEntry {
    /// `log`. Unknown values must be tolerated.
    kind: &'static str,
    /// Name of the machine.
    node: String,
    /// Source of the log: `service kubelet`, `container kube-scheduler of kube-scheduler-cp-1`.
    source: String,
    /// The last lines, bounded in number and length, without text that looks like a secret.
    lines: Vec<String>,
    /// Why there are no lines.
    missing: Option<String>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "diagnosis"))]
struct Diagnosis<'a> {
    /// Stable ID of the cause; `cluster-health explain ID` describes it. More may be added.
    #[cfg_attr(test, schemars(regex(pattern = "^[a-z0-9-]+$")))]
    id: &'static str,
    /// The problem, in general terms.
    title: &'static str,
    /// Impact on the cluster and its workloads, as half a sentence.
    impact: String,
    /// warn, error or fail: the worst of the problems that it explains.
    severity: &'static str,
    /// One sentence with names and figures.
    headline: String,
    /// The observed facts that it is based on.
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
    /// Target of the observation.
    target: TargetEntry,
    /// A line for people; not stable.
    observed: String,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Explained {
    /// ID of the check that found the problem.
    check: &'static str,
    /// Target of the problem.
    target: TargetEntry,
    /// Code of the problem.
    reason: &'static str,
    /// Observation of the problem: a check can find the same reason twice for one target.
    // Added later: a document of version 1 may lack it.
    #[cfg_attr(test, schemars(skip_serializing_if = "String::is_empty"))]
    observed: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Origins<'a> {
    /// Path of the talosconfig.
    talosconfig: Option<String>,
    /// Context of the talosconfig.
    context: Option<String>,
    /// Endpoints of the Talos API, as they were queried.
    endpoints: Vec<String>,
    /// Path of the kubeconfig, or how it was obtained.
    kubeconfig: Option<String>,
    /// Context of the kubeconfig.
    kube_context: Option<String>,
    /// URL of the Kubernetes API.
    server: Option<String>,
    /// Sources that named the nodes: discovery, kubernetes, etcd, flags, talosconfig; more may be added.
    node_sources: Vec<&'static str>,
    /// Every node that some source names.
    nodes: Many<'a, Node>,
    /// Talos versions of the nodes that answered, each once.
    talos_versions: Vec<String>,
    /// Kubernetes credentials that were not used.
    passed_over: Vec<PassedOver>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Node {
    /// Hostname of the node, or its address if no source names it.
    name: String,
    /// Address at which the node is queried.
    address: String,
    /// control-plane, worker or unknown.
    role: &'static str,
    /// Whether the node is being removed: listed, not checked.
    leaving: bool,
    /// The worst status that any check found for this machine, its etcd member and its pods; null: no check has a finding about them.
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
    /// Number of all checks.
    total: usize,
    /// Number of checks with status pass.
    passed: usize,
    /// Number of checks with status warn.
    warned: usize,
    /// Number of checks with status fail.
    failed: usize,
    /// Number of checks with status error.
    errored: usize,
    /// Number of checks with status skip.
    skipped: usize,
    /// Number of checks with status blocked.
    blocked: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "check"))]
struct Check<'a> {
    /// Stable, dotted ID: etcd.quorum.
    #[cfg_attr(test, schemars(regex(pattern = "^[a-z0-9.-]+$")))]
    id: &'static str,
    /// Number of the stage.
    #[cfg_attr(test, schemars(range(min = 1)))]
    stage: u8,
    /// Name of the stage.
    group: &'static str,
    /// The statement that is true if the check passes.
    title: &'static str,
    /// One of skip, pass, warn, blocked, error, fail. error: could not be determined. blocked: a prerequisite did not pass, so it was not
    /// checked. Treat an unknown value as error.
    status: &'static str,
    /// The worst severity that the check can report: warn, error or fail.
    severity: &'static str,
    /// selected, prerequisite (runs because a selected check needs it) or not-selected.
    selected: &'static str,
    /// Why it was skipped or not checked.
    reason: Option<String>,
    /// false: no complete round has checked it, and its status is error, or skip if it is not selected.
    judged: bool,
    /// Number of complete rounds that judged it.
    attempts: u32,
    /// Number of the last of these in a row in which it was neither pass, warn nor skip.
    failing_attempts: u32,
    /// When it got this status, in milliseconds from the start.
    since_ms: Option<u64>,
    /// When it first passed, in milliseconds from the start.
    first_passed_ms: Option<u64>,
    /// Whether it passed once, and later did not.
    flapped: bool,
    /// IDs of the checks that block this one because they did not pass.
    blocked_by: Vec<&'static str>,
    /// Everything that was checked.
    targets: Many<'a, TargetStatus>,
    /// Every problem, one entry each.
    problems: Many<'a, ProblemEntry>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "target"))]
struct TargetEntry {
    /// cluster, credentials, endpoint, node, etcd-member, pod, workload, webhook, api-service, policy, server-check; more may be added.
    kind: &'static str,
    /// Name in the cluster.
    name: String,
    /// Address, if one is known in addition to the name.
    address: Option<String>,
    /// ID in addition to the name, such as that of an etcd member, 16 hex digits.
    id: Option<String>,
    /// The node that a pod is on, if known.
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
    /// One of skip, pass, warn, blocked, error, fail. error: could not be determined. blocked: a prerequisite did not pass, so it was not
    /// checked. Treat an unknown value as error.
    status: &'static str,
    /// A line for people; not stable.
    message: Option<String>,
    /// ID of the check that blocks this target because it did not pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked_by: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "problem"))]
struct ProblemEntry {
    /// Target of the problem.
    target: TargetEntry,
    /// Stable code; `cluster-health explain CODE` describes it. More may be added.
    #[cfg_attr(test, schemars(regex(pattern = "^[a-z0-9-]+$")))]
    reason: &'static str,
    /// warn, error or fail.
    severity: &'static str,
    /// A line for people; not stable.
    expected: String,
    /// A line for people; not stable.
    observed: String,
    /// false: the answer stays the same until something is changed.
    waiting_helps: bool,
    /// Possible causes, and steps.
    hints: Vec<Hint>,
    /// ID of the check whose failure this one only repeats.
    explained_by: Option<&'static str>,
    /// Acceptance by a policy: the problem only warns, regardless of `--strict` and `--fail-on`.
    // Added later, and rare: a document of version 1 may lack it.
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted: Option<Accepted>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Accepted {
    /// Reason that the policy gives.
    because: String,
    /// End of the acceptance, RFC 3339, UTC.
    until: Timestamp,
    /// Line of the policy.
    line: u64,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "hint"))]
struct Hint {
    /// likely (a cause), try (a read-only command) or remedy (a command that changes the cluster).
    kind: &'static str,
    /// Text of the hint.
    text: Option<String>,
    /// Command for a POSIX shell, every value quoted.
    command: Option<String>,
    /// The command without its values: commands with the same template are shown together.
    #[serde(skip_serializing_if = "Option::is_none")]
    template: Option<Cow<'static, str>>,
}

pub(super) fn tool(made: &Made) -> Tool<'_> {
    Tool { name: env!("CARGO_PKG_NAME"), version: &made.version, commit: made.commit.as_deref() }
}

/// Returns the document as a value whose lists are made as they are written.
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
        impact: clean(&diagnosis.impact),
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
