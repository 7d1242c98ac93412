//! `list`: the check table.

use std::io::{self, Write};

use serde::Serialize;

use super::needs;
use crate::checks::Check;
use crate::cli::ListOutput;

#[derive(Serialize)]
struct Entry {
    id: &'static str,
    stage: u8,
    group: &'static str,
    severity: &'static str,
    title: &'static str,
    requires: &'static [&'static str],
    reads: Vec<&'static str>,
    needs: Vec<String>,
}

pub(super) fn write(checks: &[&'static Check], output: ListOutput, out: &mut impl Write) -> io::Result<()> {
    let entries: Vec<_> = checks
        .iter()
        .map(|check| Entry {
            id: check.id,
            stage: check.stage.number(),
            group: check.stage.name(),
            severity: check.severity.status().name(),
            title: check.summary,
            requires: check.requires,
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
            assert!(text.contains(check.id));
            assert_eq!(json[n]["id"], check.id);
            assert_eq!(json[n]["needs"][0], "Talos role os:reader");
        }
    }
}
