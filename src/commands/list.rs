//! `list`: the check table.

use std::io::{self, Write};

use serde::Serialize;

use super::needs;
use crate::checks::Check;
use crate::cli::ListOutput;
use crate::diagnosis;
use crate::model::Reason;

#[derive(Serialize)]
struct Entry {
    id: &'static str,
    stage: u8,
    group: &'static str,
    severity: &'static str,
    title: &'static str,
    requires: Vec<&'static str>,
    after: Vec<&'static str>,
    reads: Vec<&'static str>,
    needs: Vec<String>,
}

pub(super) fn write(checks: &[&'static Check], output: ListOutput, out: &mut impl Write) -> io::Result<()> {
    let entries: Vec<_> = checks
        .iter()
        .map(|check| Entry {
            id: check.id.name(),
            stage: check.stage.number(),
            group: check.stage.name(),
            severity: check.severity.status().name(),
            title: check.summary,
            requires: check.requires.iter().map(|id| id.name()).collect(),
            after: check.after.iter().map(|id| id.name()).collect(),
            reads: check.facts.iter().map(|fact| fact.reads()).collect(),
            needs: needs(check),
        })
        .collect();
    match output {
        ListOutput::Json => {
            serde_json::to_writer_pretty(&mut *out, &entries)?;
            writeln!(out)
        }
        ListOutput::Text => paragraphs(&entries, out),
    }
}

/// What `explain` takes beside the ids of checks.
#[derive(Serialize)]
struct Word {
    id: &'static str,
    title: &'static str,
}

pub(super) fn write_reasons(output: ListOutput, out: &mut impl Write) -> io::Result<()> {
    words(Reason::ALL.iter().map(|reason| Word { id: reason.code(), title: reason.title() }), output, out)
}

pub(super) fn write_causes(output: ListOutput, out: &mut impl Write) -> io::Result<()> {
    words(diagnosis::ALL.iter().map(|cause| Word { id: cause.id, title: cause.title }), output, out)
}

fn words(words: impl Iterator<Item = Word>, output: ListOutput, out: &mut impl Write) -> io::Result<()> {
    let mut words: Vec<_> = words.collect();
    words.sort_by_key(|word| word.id);
    match output {
        ListOutput::Json => {
            serde_json::to_writer_pretty(&mut *out, &words)?;
            writeln!(out)
        }
        ListOutput::Text => {
            let width = words.iter().map(|word| word.id.len()).max().unwrap_or_default();
            words.iter().try_for_each(|Word { id, title }| writeln!(out, "{id:width$}  {title}"))
        }
    }
}

/// A paragraph for each check: its columns would be wider than any terminal.
fn paragraphs(entries: &[Entry], out: &mut impl Write) -> io::Result<()> {
    let mut stage = 0;
    for entry in entries {
        if entry.stage != stage {
            stage = entry.stage;
            writeln!(out, "Stage {stage}: {}\n", entry.group)?;
        }
        writeln!(out, "  {}  ({})", entry.id, entry.severity)?;
        writeln!(out, "    passes when  {}", entry.title)?;
        let rest = [
            ("requires", entry.requires.join(", ")),
            ("after", entry.after.join(", ")),
            ("reads", entry.reads.join(", ")),
            ("needs", entry.needs.join("; ")),
        ];
        for (label, text) in rest.iter().filter(|(_, text)| !text.is_empty()) {
            writeln!(out, "    {label:<11}  {text}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn lists_every_check_in_both_forms() {
        let mut text = Vec::new();
        write(&fixture::CHECKS, ListOutput::Text, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.matches("passes when").count(), fixture::CHECKS.len());
        let mut json = Vec::new();
        write(&fixture::CHECKS, ListOutput::Json, &mut json).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        for (n, check) in fixture::CHECKS.iter().enumerate() {
            assert!(text.contains(check.id.name()));
            assert_eq!(json[n]["id"], check.id.name());
            assert_eq!(json[n]["needs"][0], "Talos role os:reader");
        }
    }
}
