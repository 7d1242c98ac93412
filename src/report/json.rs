//! The JSON report: its own versioned shape, so that the code can change and the document does not.
//!
//! Additions are no new version; readers must tolerate unknown fields and values. `schema/cluster-health.v1.json` describes it.

use std::io;
use std::time::Duration;

use serde::Serialize;

use super::hints;
use super::sanitise::{clean, log_lines};
use super::text::is_unjudged;
use super::{CheckReport, Report, Selection};
use crate::checks::{Finding, Outcome, Problem, Status, Target};
use crate::diagnosis;
use crate::logs::Tail;

/// The schema of the document and of NDJSON's events, as shipped.
pub(crate) const SCHEMA: &str = include_str!("../../schema/cluster-health.v1.json");

/// Of the documents and events.
pub(crate) const SCHEMA_VERSION: &str = "1.0";

/// Writes one document and a line feed.
pub(crate) fn write(report: &Report, mut out: impl io::Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, &document(report))?;
    writeln!(out)?;
    out.flush()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    schema_version: &'static str,
    kind: &'static str,
    tool: Tool,
    complete: bool,
    result: &'static str,
    exit_code: u8,
    exit_reason: String,
    hint: Option<String>,
    deadline_reached: bool,
    started_at: String,
    finished_at: String,
    duration_ms: u64,
    wait_timeout_ms: Option<u64>,
    stable_for_ms: Option<u64>,
    rounds: u32,
    scope: &'static str,
    targeted: Option<Targeted>,
    weakened: Vec<Weakened>,
    not_observed: Vec<String>,
    sources: Origins,
    diagnoses: Vec<Diagnosis>,
    /// Of logs: what `--evidence` asks for.
    evidence: Vec<LogEntry>,
    summary: Summary,
    checks: Vec<Check>,
}

#[derive(Serialize)]
struct Tool {
    name: &'static str,
    version: &'static str,
    commit: Option<&'static str>,
}

#[derive(Serialize)]
struct Targeted {
    nodes: usize,
    of: usize,
}

#[derive(Serialize)]
struct Weakened {
    option: String,
    origin: String,
}

#[derive(Serialize)]
struct LogEntry {
    kind: &'static str,
    node: String,
    source: String,
    lines: Vec<String>,
    /// Why there are no lines.
    missing: Option<String>,
}

#[derive(Serialize)]
struct Diagnosis {
    id: &'static str,
    title: &'static str,
    headline: String,
    evidence: Vec<Seen>,
    next: Vec<Hint>,
    source: &'static str,
    explains: Vec<Explained>,
}

#[derive(Serialize)]
struct Seen {
    target: TargetEntry,
    observed: String,
}

#[derive(Serialize)]
struct Explained {
    check: &'static str,
    target: TargetEntry,
    reason: &'static str,
    observed: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Origins {
    talosconfig: Option<String>,
    context: Option<String>,
    endpoints: Vec<String>,
    kubeconfig: Option<String>,
    kube_context: Option<String>,
    server: Option<String>,
    node_sources: Vec<&'static str>,
    nodes: Vec<Node>,
    talos_versions: Vec<String>,
    passed_over: Vec<PassedOver>,
}

#[derive(Serialize)]
struct Node {
    name: String,
    address: String,
    role: &'static str,
    leaving: bool,
}

#[derive(Serialize)]
struct PassedOver {
    source: String,
    reason: String,
}

#[derive(Serialize)]
struct Summary {
    total: usize,
    passed: usize,
    warned: usize,
    failed: usize,
    errored: usize,
    skipped: usize,
    blocked: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    id: &'static str,
    stage: u8,
    group: &'static str,
    title: &'static str,
    status: &'static str,
    severity: &'static str,
    selected: &'static str,
    reason: Option<String>,
    judged: bool,
    attempts: u32,
    failing_attempts: u32,
    since_ms: Option<u64>,
    first_passed_ms: Option<u64>,
    flapped: bool,
    blocked_by: Vec<&'static str>,
    targets: Vec<TargetStatus>,
    problems: Vec<ProblemEntry>,
}

#[derive(Serialize)]
struct TargetEntry {
    kind: &'static str,
    name: String,
    address: Option<String>,
    id: Option<String>,
    node: Option<String>,
}

#[derive(Serialize)]
struct TargetStatus {
    kind: &'static str,
    name: String,
    address: Option<String>,
    id: Option<String>,
    node: Option<String>,
    status: &'static str,
    message: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProblemEntry {
    target: TargetEntry,
    reason: &'static str,
    severity: &'static str,
    expected: String,
    observed: String,
    waiting_helps: bool,
    hints: Vec<Hint>,
    explained_by: Option<&'static str>,
}

#[derive(Serialize)]
struct Hint {
    kind: &'static str,
    text: Option<String>,
    command: Option<String>,
}

/// What made the report.
pub(super) fn tool() -> impl Serialize {
    TOOL
}

const TOOL: Tool = Tool {
    name: env!("CARGO_PKG_NAME"),
    version: env!("CARGO_PKG_VERSION"),
    commit: option_env!("CLUSTER_HEALTH_COMMIT"),
};

/// The document as a value.
pub(super) fn document(report: &Report) -> impl Serialize {
    let sources = &report.sources;
    let summary = report.summary();
    Document {
        schema_version: SCHEMA_VERSION,
        kind: "ClusterHealthReport",
        tool: TOOL,
        complete: report.complete,
        result: report.result.name(),
        exit_code: report.exit.code(),
        exit_reason: report.error.as_deref().map_or_else(|| report.exit.meaning().to_owned(), clean),
        hint: report.hint.as_deref().map(clean),
        deadline_reached: report.deadline_reached,
        started_at: report.started_at.to_string(),
        finished_at: report.finished_at.to_string(),
        duration_ms: milliseconds(report.took),
        wait_timeout_ms: report.wait_timeout.map(milliseconds),
        stable_for_ms: report.stable_for.map(milliseconds),
        rounds: report.rounds,
        scope: if report.targeted.is_some() { "targeted" } else { "cluster" },
        targeted: report.targeted.map(|(nodes, of)| Targeted { nodes, of }),
        weakened: report
            .weakened
            .iter()
            .map(|weak| Weakened { option: clean(&weak.option), origin: clean(&weak.origin) })
            .collect(),
        not_observed: cleaned(&report.not_observed),
        sources: Origins {
            talosconfig: sources.talosconfig.as_deref().map(clean),
            context: sources.context.as_deref().map(clean),
            endpoints: cleaned(&sources.endpoints),
            kubeconfig: sources.kubeconfig.as_deref().map(clean),
            kube_context: sources.kube_context.as_deref().map(clean),
            server: sources.server.as_deref().map(clean),
            node_sources: sources.named_by.clone(),
            nodes: sources
                .nodes
                .iter()
                .map(|node| Node {
                    name: clean(&node.name),
                    address: clean(&node.address),
                    role: node.role,
                    leaving: node.leaving,
                })
                .collect(),
            talos_versions: cleaned(&sources.talos_versions),
            passed_over: sources
                .passed_over
                .iter()
                .map(|(source, reason)| PassedOver { source: clean(source), reason: clean(reason) })
                .collect(),
        },
        diagnoses: report.diagnoses.iter().map(|it| diagnosis_entry(it, report)).collect(),
        evidence: report.logs.iter().map(log_entry).collect(),
        summary: Summary {
            total: summary.total,
            passed: summary.passed,
            warned: summary.warned,
            failed: summary.failed,
            errored: summary.errored,
            skipped: summary.skipped,
            blocked: summary.blocked,
        },
        checks: report.checks.iter().map(|check| entry(check, report)).collect(),
    }
}

fn log_entry(tail: &Tail) -> LogEntry {
    let lines = tail.lines.as_ref().map(|lines| log_lines(lines)).unwrap_or_default();
    let missing = tail.lines.as_ref().err().map(|gap| clean(&gap.text));
    LogEntry { kind: "log", node: clean(&tail.log.node), source: clean(&tail.log.of.to_string()), lines, missing }
}

fn entry(check: &CheckReport, report: &Report) -> Check {
    let selected = match check.selection {
        Selection::Selected => "selected",
        Selection::Prerequisite => "prerequisite",
        Selection::NotSelected(_) => "not-selected",
    };
    let unjudged = is_unjudged(check).then(|| "no complete round has judged it".to_owned());
    Check {
        id: check.check.id,
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
        blocked_by: check.blocked_by(),
        targets: check.findings.iter().map(target_status).collect(),
        problems: check.problems().map(|(target, problem)| problem_entry(target, problem, report)).collect(),
    }
}

/// Why a check as a whole was skipped, or was not run at all.
pub(super) fn skip_reason(check: &CheckReport) -> Option<String> {
    if let Selection::NotSelected(reason) = check.selection {
        return Some(format!("not selected ({reason})"));
    }
    let mut reasons: Vec<String> = Vec::new();
    if check.shown_status() == Status::Skip {
        for finding in &check.findings {
            if let Outcome::Skip(reason) = &finding.outcome {
                let reason = clean(reason);
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
        }
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

fn target_status(finding: &Finding) -> TargetStatus {
    let TargetEntry { kind, name, address, id, node } = target(&finding.target);
    let message = match &finding.outcome {
        Outcome::Pass(line) => line.as_deref().map(clean),
        Outcome::Skip(reason) => Some(clean(reason)),
        Outcome::Blocked(by) => Some(format!("not checked, blocked by {by}")),
        Outcome::Problem(problem) => Some(clean(&problem.observed)),
    };
    TargetStatus { kind, name, address, id, node, status: finding.outcome.status().name(), message }
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

fn diagnosis_entry(diagnosis: &diagnosis::Diagnosis, report: &Report) -> Diagnosis {
    let cause = diagnosis::find(diagnosis.id);
    Diagnosis {
        id: diagnosis.id,
        title: cause.map_or("", |cause| cause.title),
        headline: clean(&diagnosis.headline),
        evidence: diagnosis
            .seen
            .iter()
            .map(|seen| Seen { target: target(&seen.target), observed: clean(&seen.observed) })
            .collect(),
        next: hint_entries(&diagnosis.next, report),
        source: cause.map_or("", |cause| cause.source),
        explains: diagnosis
            .explains
            .iter()
            .map(|it| Explained {
                check: it.check,
                target: target(&it.target),
                reason: it.reason.code(),
                observed: clean(&it.observed),
            })
            .collect(),
    }
}

fn hint_entries(of: &[crate::checks::Hint], report: &Report) -> Vec<Hint> {
    let rendered = of.iter().filter_map(|hint| hints::render(hint, &report.sources));
    rendered.map(|hint| Hint { kind: hint.kind, text: hint.text, command: hint.command }).collect()
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
        explained_by: problem.explained_by,
    }
}

fn cleaned(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| clean(text)).collect()
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
