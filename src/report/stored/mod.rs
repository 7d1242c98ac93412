//! Reports that were stored as JSON, and are read again.
//!
//! A stored file is untrusted input: it may have been cut, edited or made up. Its texts are cleaned like those of a cluster, and it counts
//! only if its statements about the whole follow from its checks. Whatever is read, a report is never better than its checks are.

mod document;

use serde::Deserialize;

use jiff::Timestamp;

use self::document::{Document, MergedDocument};
use super::format::json;
use super::ledger;
use super::merged::{self, Merged};
use super::{CheckReport, Report, RunResult, Selection, Tool};
use crate::checks::{self, Check};
use crate::model::{Stage, Status};
use crate::snapshot::Upgrade;
use crate::text::sanitize::clean;

/// Maximum size of a file, in bytes. A report of 20,000 machines in trouble has some 50 MB.
pub(crate) const LARGEST: u64 = 128 << 20;

/// Fields that every document has.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    schema_version: String,
    kind: String,
}

/// Content of a file.
pub(crate) enum Stored {
    One(Box<Report>),
    Several(Merged),
}

/// Reads a document; the error explains why it cannot be used. In a merged report, `now` shows which parts are old.
pub(crate) fn read(bytes: &[u8], now: Timestamp) -> Result<Stored, String> {
    let header: Header = parsed(bytes)?;
    let is_known = header.schema_version.strip_prefix("1.").is_some_and(|minor| minor.parse::<u32>().is_ok());
    if !is_known {
        return Err(format!("its schema version {} is unknown", clean(&header.schema_version)));
    }
    match header.kind.as_str() {
        json::KIND => Ok(Stored::One(Box::new(parsed::<Document>(bytes)?.checked()?))),
        json::KIND_MERGED => {
            let document: MergedDocument = parsed(bytes)?;
            let merged = document.merged(now)?;
            let known = merged.overview(now).exit;
            // A report that was old or missing then is old or missing now.
            if document.exit().is_none_or(|exit| merged::worse(known, exit) != known) {
                return Err(format!("its exit code contradicts its reports, which give {}", known.code()));
            }
            Ok(Stored::Several(merged))
        }
        other => Err(format!("its kind is {}, not {}", clean(other), json::KIND)),
    }
}

fn parsed<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| clean(&error.to_string()))
}

/// Verifies that the parts of a report agree: result and exit code follow from the checks, and each check's status from its findings.
fn agrees(report: &Report) -> Result<(), String> {
    for check in &report.checks {
        let worst = check.findings.iter().map(|finding| finding.outcome.status()).max();
        let expected = match (check.selection, check.status) {
            (Selection::NotSelected(_), _) | (_, None) => worst.is_none() && check.status.is_none(),
            (_, Some(status)) => status == worst.unwrap_or(Status::Error),
        };
        if !expected {
            return Err(format!("the status of {} contradicts what it found", check.check.id));
        }
    }
    let is_of_upgrade = |entry: &CheckReport| entry.check.stage == Stage::Upgrade;
    if report.asked != Upgrade::default() && !report.checks.iter().any(is_of_upgrade) {
        return Err("it is about an upgrade or a drain, but has no check for it".to_owned());
    }
    if let Some(check) = left_out(report, &Tool::OWN) {
        return Err(format!("it lacks {}, which every run of this version has", check.id));
    }
    if !ledger::can_end_so(report) || (report.result == RunResult::Healthy && report.rounds == 0) {
        return Err(format!(
            "its result ({}, exit code {}) contradicts its checks",
            report.result.name(),
            report.exit.code()
        ));
    }
    Ok(())
}

/// Returns a check that every run of this same build lists, whatever its options, and that this report does not. Nothing is known of other
/// builds.
fn left_out(report: &Report, own: &Tool) -> Option<&'static Check> {
    // Two builds with uncommitted changes may be of the same commit.
    let is_known = own.commit.as_ref().is_some_and(|commit| !commit.ends_with("-dirty"));
    let is_of = is_known && report.tool == *own;
    let is_listed = |check: &Check| report.checks.iter().any(|entry| entry.check.id == check.id);
    let mut always = checks::ALL.iter().copied().filter(|check| !check.is_asked_by_option());
    is_of.then(|| always.find(|check| !is_listed(check))).flatten()
}

#[cfg(test)]
mod tests;
