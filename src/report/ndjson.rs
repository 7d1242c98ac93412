//! The run as events, one JSON document a line, each described by the same schema as the JSON report.
//!
//! `runStarted` comes first and `runFinished`, with the whole report, last: a stream without it is that of a run that did not
//! come to its end. Nothing that was written once changes later, so that the lines can be followed while the run goes on.

use std::io::{self, Write as _};

use serde::Serialize;
use serde_json::Value;

use super::Report;
use super::history::{Entry, Happened};
use super::json;
use super::sanitise::clean;
use crate::checks::Status;

/// Writes the events so far but the first `told`, each as one line.
pub(crate) fn write(report: &Report, told: usize, out: &mut Vec<u8>) -> io::Result<()> {
    if told == 0 {
        let started = Body::RunStarted {
            tool: serde_json::to_value(json::tool())?,
            wait_timeout_ms: report.wait_timeout.map(json::milliseconds),
            stable_for_ms: report.stable_for.map(json::milliseconds),
            checks: report.checks.iter().map(|check| check.check.id).collect(),
        };
        line(report, 0, std::time::Duration::ZERO, started, out)?;
    }
    for (number, entry) in (1..).zip(report.history.entries()).skip(told.saturating_sub(1)) {
        line(report, number, entry.at, body(report, entry)?, out)?;
    }
    Ok(())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    schema_version: &'static str,
    kind: &'static str,
    seq: usize,
    time: String,
    elapsed_ms: u64,
    #[serde(flatten)]
    body: Body,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Body {
    RunStarted {
        tool: Value,
        wait_timeout_ms: Option<u64>,
        stable_for_ms: Option<u64>,
        checks: Vec<&'static str>,
    },
    CheckChanged {
        round: u32,
        check: &'static str,
        group: &'static str,
        status: &'static str,
        previous: Option<&'static str>,
        reasons: Vec<&'static str>,
        message: Option<String>,
        omitted: Option<Omission>,
    },
    StabilityLost {
        round: u32,
        because: Vec<&'static str>,
        omitted: Option<Omission>,
    },
    Heartbeat {
        round: u32,
        pending: Vec<&'static str>,
    },
    RunFinished {
        report: Value,
    },
}

/// What has happened too often to be told each time.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Omission {
    times: u32,
    since_ms: u64,
    worst: Option<&'static str>,
}

fn line(report: &Report, seq: usize, at: std::time::Duration, body: Body, out: &mut Vec<u8>) -> io::Result<()> {
    // By the monotonic clock: the order of the lines is that of their times, whatever is done to the machine's clock.
    let time = report.started_at.checked_add(at).unwrap_or(report.started_at).to_string();
    let event = Event {
        schema_version: json::SCHEMA_VERSION,
        kind: "ClusterHealthEvent",
        seq,
        time,
        elapsed_ms: json::milliseconds(at),
        body,
    };
    serde_json::to_writer(&mut *out, &event)?;
    writeln!(out)
}

fn body(report: &Report, entry: &Entry) -> io::Result<Body> {
    let round = entry.round;
    let omitted = entry.omitted.map(|omitted| Omission {
        times: omitted.times,
        since_ms: json::milliseconds(omitted.since),
        worst: omitted.worst.map(Status::name),
    });
    Ok(match &entry.happened {
        Happened::Check { check, before, now, reasons, message } => Body::CheckChanged {
            round,
            check: check.id,
            group: check.stage.name(),
            status: now.name(),
            previous: before.map(Status::name),
            reasons: reasons.iter().map(|reason| reason.code()).collect(),
            message: message.as_deref().map(clean),
            omitted,
        },
        Happened::StabilityLost(because) => Body::StabilityLost { round, because: because.clone(), omitted },
        Happened::Heartbeat(pending) => Body::Heartbeat { round, pending: pending.clone() },
        Happened::Finished => Body::RunFinished { report: serde_json::to_value(json::document(report))? },
    })
}
