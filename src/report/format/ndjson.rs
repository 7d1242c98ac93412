//! The run as events, one JSON document a line, each described by the same schema as the JSON report.
//!
//! `runStarted` comes first and `runFinished`, with the whole report, last: a stream without it belongs to a run that did not come to its
//! end. Lines that were written never change, so they can be followed during the run.

use std::io;

use jiff::Timestamp;
use serde::Serialize;

use super::json::{self, Omission};
use crate::model::Status;
use crate::report::Report;
use crate::report::history::{Entry, Happened};
use crate::text::sanitize::clean;

/// Writes the events so far except the first `told`, each as one line.
pub(crate) fn write(report: &Report, told: usize, out: &mut dyn io::Write) -> io::Result<()> {
    if told == 0 {
        let started = Body::RunStarted {
            tool: json::tool(&report.tool),
            wait_timeout_ms: report.wait_timeout.map(json::milliseconds),
            stable_for_ms: report.stable_for.map(json::milliseconds),
            checks: report.checks.iter().map(|check| check.check.id.name()).collect(),
        };
        line(report, 0, std::time::Duration::ZERO, started, out)?;
    }
    for (number, entry) in (1..).zip(report.history.entries()).skip(told.saturating_sub(1)) {
        line(report, number, entry.at, body(report, entry), out)?;
    }
    Ok(())
}

const KIND: &str = "ClusterHealthEvent";

/// One line of the NDJSON report.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "event"))]
pub(crate) struct Event<'a> {
    /// Version of this document. Within major version 1, only additions are made.
    #[cfg_attr(test, schemars(regex(pattern = r"^1\.[0-9]+$")))]
    schema_version: &'static str,
    /// Kind of this document, as opposed to the JSON report.
    #[cfg_attr(test, schemars(extend("const" = KIND)))]
    kind: &'static str,
    /// Number of the line, from 0.
    seq: usize,
    /// RFC 3339, UTC. Never before the time of the line above, even if the machine's clock is changed.
    time: Timestamp,
    /// Time since the start of the run, measured with a monotonic clock, in milliseconds.
    elapsed_ms: u64,
    #[serde(flatten)]
    body: Body<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
enum Body<'a> {
    /// the first line
    RunStarted {
        /// Program that made the report.
        tool: json::Tool<'a>,
        /// null: one pass.
        wait_timeout_ms: Option<u64>,
        /// null: --stable-for was not given.
        stable_for_ms: Option<u64>,
        /// runStarted: IDs of all checks that the report will have.
        checks: Vec<&'static str>,
    },
    CheckChanged {
        /// Number of the last complete round; 0: only files were checked.
        round: u32,
        /// checkChanged: ID of the check that has a new status or new reasons.
        check: &'static str,
        /// Name of its stage.
        group: &'static str,
        /// Its status, as in the report.
        status: &'static str,
        /// Previous status of the check; null: it was not checked yet.
        previous: Option<&'static str>,
        /// Reason codes of its problems, each once.
        reasons: Vec<&'static str>,
        /// The first of its worst problems, in words.
        message: Option<String>,
        /// checkChanged, stabilityLost: changes since the previous line about this check or about stability that were too frequent to be
        /// listed; null: none.
        // Added later: an event of version 1 may lack it.
        #[cfg_attr(test, schemars(skip_serializing_if = "Option::is_none"))]
        omitted: Option<Omission>,
    },
    StabilityLost {
        round: u32,
        /// stabilityLost: checks that no longer pass.
        because: Vec<&'static str>,
        #[cfg_attr(test, schemars(skip_serializing_if = "Option::is_none"))]
        omitted: Option<Omission>,
    },
    Heartbeat {
        round: u32,
        /// heartbeat: checks that do not pass. Nothing else has happened for 30 s.
        pending: Vec<&'static str>,
    },
    /// the last line; without it the run did not finish
    RunFinished {
        /// runFinished: the same document as the JSON report.
        report: Box<json::Document<'a>>,
    },
}

fn line(
    report: &Report,
    seq: usize,
    at: std::time::Duration,
    body: Body<'_>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    // The time follows the monotonic clock: the lines are in the order of their times, even if the machine's clock is changed.
    let time = report.started_at.checked_add(at).unwrap_or(report.started_at);
    let event =
        Event { schema_version: json::SCHEMA_VERSION, kind: KIND, seq, time, elapsed_ms: json::milliseconds(at), body };
    serde_json::to_writer(&mut *out, &event)?;
    writeln!(out)
}

fn body<'a>(report: &'a Report, entry: &Entry) -> Body<'a> {
    let round = entry.round;
    let omitted = entry.omitted.map(Omission::from);
    match &entry.happened {
        Happened::Check { check, before, now, reasons, message } => Body::CheckChanged {
            round,
            check: check.id.name(),
            group: check.stage.name(),
            status: now.name(),
            previous: before.map(Status::name),
            reasons: reasons.iter().map(|reason| reason.code()).collect(),
            message: message.as_deref().map(clean),
            omitted,
        },
        Happened::StabilityLost(because) => {
            Body::StabilityLost { round, because: because.iter().map(|id| id.name()).collect(), omitted }
        }
        Happened::Heartbeat(pending) => {
            Body::Heartbeat { round, pending: pending.iter().map(|id| id.name()).collect() }
        }
        Happened::Finished => Body::RunFinished { report: Box::new(json::document(report)) },
    }
}
