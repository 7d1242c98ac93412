//! `list`: the table of checks.

use std::io::{self, Write};

use serde::Serialize;

use super::needs;
use crate::checks::Check;
use crate::cli::ListOutput;
use crate::diagnosis;
use crate::model::Reason;
use crate::text::wrapped;

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

/// Width of a terminal that lines of text fit into.
const COLUMNS: usize = 110;

pub(super) fn write(
    checks: &[&'static Check],
    output: ListOutput,
    verbose: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let entries: Vec<_> = checks
        .iter()
        .map(|check| Entry {
            id: check.id.name(),
            stage: check.stage.number(),
            group: check.stage.name(),
            severity: check.severity.status().name(),
            title: check.summary,
            requires: check.requires().iter().map(|id| id.name()).collect(),
            after: check.after().iter().map(|id| id.name()).collect(),
            reads: check.facts.iter().map(|fact| fact.reads()).collect(),
            needs: needs(check),
        })
        .collect();
    match output {
        ListOutput::Json => {
            serde_json::to_writer_pretty(&mut *out, &entries)?;
            writeln!(out)
        }
        ListOutput::Text if verbose => paragraphs(&entries, out),
        ListOutput::Text => lines(&entries, out),
    }
}

/// A reason or a cause, which `explain` accepts as well as check IDs.
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

/// Writes a line for each check, below the line of its stage.
fn lines(entries: &[Entry], out: &mut impl Write) -> io::Result<()> {
    for stage in entries.chunk_by(|one, next| one.stage == next.stage) {
        writeln!(out, "Stage {}: {}", stage[0].stage, stage[0].group)?;
        let width = stage.iter().map(|entry| entry.id.len()).max().unwrap_or_default();
        stage.iter().try_for_each(|Entry { id, title, .. }| writeln!(out, "  {id:width$}  {title}"))?;
    }
    writeln!(out, "\n`list -v` also shows what each check requires and reads, and the rights that it needs.")
}

/// Writes a paragraph for each check: its columns would be wider than any terminal.
fn paragraphs(entries: &[Entry], out: &mut impl Write) -> io::Result<()> {
    for stage in entries.chunk_by(|one, next| one.stage == next.stage) {
        writeln!(out, "Stage {}: {}\n", stage[0].stage, stage[0].group)?;
        for entry in stage {
            writeln!(out, "  {}  ({})", entry.id, entry.severity)?;
            let rest = [
                ("passes when", entry.title.to_owned()),
                ("requires", entry.requires.join(", ")),
                ("after", entry.after.join(", ")),
                ("reads", entry.reads.join(", ")),
                ("needs", entry.needs.join("; ")),
            ];
            for (label, text) in rest.iter().filter(|(_, text)| !text.is_empty()) {
                let lead = format!("    {label:<11}  ");
                let indent = " ".repeat(lead.len());
                for line in wrapped(&lead, &indent, text.split(' '), COLUMNS) {
                    writeln!(out, "{line}")?;
                }
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks;
    use crate::report::fixture;

    fn listed(checks: &[&'static Check], output: ListOutput, verbose: bool) -> String {
        let mut out = Vec::new();
        write(checks, output, verbose, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_check_is_one_line_that_fits() {
        let text = listed(checks::ALL, ListOutput::Text, false);
        for check in checks::ALL {
            let is_its = |line: &&str| line.split_whitespace().next() == Some(check.id.name());
            let lines: Vec<_> = text.lines().filter(is_its).collect();
            assert_eq!(lines.len(), 1, "{}", check.id);
            assert!(lines[0].ends_with(check.summary), "{}", lines[0]);
        }
        for verbose in [false, true] {
            let text = listed(checks::ALL, ListOutput::Text, verbose);
            let long: Vec<_> = text.lines().filter(|line| line.chars().count() > COLUMNS).collect();
            assert_eq!(long, [""; 0], "wider than {COLUMNS} columns");
        }
    }

    #[test]
    fn lists_every_check_in_both_forms() {
        let text = listed(&fixture::CHECKS, ListOutput::Text, true);
        assert_eq!(text.matches("passes when").count(), fixture::CHECKS.len());
        let json: serde_json::Value = serde_json::from_str(&listed(&fixture::CHECKS, ListOutput::Json, false)).unwrap();
        for (n, check) in fixture::CHECKS.iter().enumerate() {
            assert!(text.contains(check.id.name()));
            assert_eq!(json[n]["id"], check.id.name());
            assert_eq!(json[n]["needs"][0], "Talos role os:reader");
        }
    }
}
