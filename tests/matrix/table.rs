//! The table of all rows, as `docs/matrix.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use crate::Measured;
use crate::row::Row;
use crate::run::Seen;
use crate::talosctl::Said;

const HEAD: &str = "\
# What is said of which failure

Each row is a cluster in one trouble, or a healthy one of an unusual shape: a file of [matrix](../matrix). `cluster-health` and the real
`talosctl health` were asked about it at the same time, each with a simulated cluster of its own in that state
([crates/simulator](../crates/simulator); many of the states are recordings of a real cluster).

- Made by `make matrix`; no cell is written by hand. What is expected is in the files of the rows, and the test `matrix` holds the program
  to it: the exit code, and every check, reason and target, no more and no less.
- `cluster-health` asks as os:reader, with a kubeconfig of just the rights that it asks for, and, unless the row says otherwise, once.
  `talosctl health` asks as os:admin, which it needs, with `--server=false --wait-timeout 6s`, at a control plane that the row does nothing
  to where there is one. Nothing changes while it waits. Where the row is about Talos credentials, both have the same ones.
- What is healthy is what the row says: warnings are. `talosctl health` is right if it exits with 0 of what is healthy, and with another code
  of what is not or cannot be known. `cluster-health` is right only if it says all that is expected.
- Of what `talosctl` says, the step that it came to and the last line are shown, shortened, with the names of machines instead of
  addresses.
- Reasons in brackets follow from others that are told.
";

/// The whole document.
pub(crate) fn of(rows: &[Arc<Row>], measured: &[Measured], talosctl: &str) -> String {
    let measured: BTreeMap<_, _> = measured.iter().map(|it| (&it.row.name, it)).collect();
    let (mut table, mut left_out) = (String::new(), String::new());
    let (mut ours, mut theirs) = (Count::default(), Count::default());
    for row in rows {
        let (name, title, ids) = (&row.name, &row.scenario.title, row.ids.join(", "));
        let Some(measured) = measured.get(name) else {
            let why = row.cannot.as_deref().unwrap_or("waits for a check that the program does not have yet");
            let _ = writeln!(left_out, "- {ids}, {title}: {why}");
            continue;
        };
        let expected = row.expect.exit;
        let seen = measured.ours.as_ref().map_or_else(|| "no answer".to_owned(), cell);
        let seen = ours.count(measured.right, &seen);
        let said = match (&measured.talosctl, row.ours_alone()) {
            (Some(said), _) => theirs.count((said.exit == 0) == (expected == 0), &said.cell()),
            (None, Some(why)) => format!("not asked: {why}"),
            (None, None) => "not asked".to_owned(),
        };
        let _ = writeln!(table, "| {ids} | [{title}](../matrix/{name}.toml) | {expected} | {seen} | {said} |");
    }
    format!(
        "{HEAD}\n**Right: cluster-health {ours}, talosctl health ({talosctl}) {theirs}.** What is wrong is marked ✗.\n\n\
         | | the cluster | expected | cluster-health | talosctl health |\n| --- | --- | --- | --- | --- |\n{table}\n\
         ## What is not shown\n\n{left_out}"
    )
}

/// Number of correct results, and their total.
#[derive(Default)]
struct Count {
    right: usize,
    of: usize,
}

impl Count {
    fn count(&mut self, right: bool, cell: &str) -> String {
        self.of += 1;
        self.right += usize::from(right);
        if right { cell.to_owned() } else { format!("✗ {cell}") }
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.right, self.of)
    }
}

impl Said {
    pub(crate) fn cell(&self) -> String {
        let lines: Vec<_> = self.last.iter().map(|line| format!("`{line}`")).collect();
        format!("{}: {}", self.exit, lines.join("<br>"))
    }
}

/// Formats the observed results as a table cell.
pub(crate) fn cell(seen: &Seen) -> String {
    words(seen.exit, &seen.problems, &seen.explained)
}

/// Formats an exit code and the reasons for it, with reasons of consequences in brackets. Problems are `CHECK REASON TARGET`.
pub(crate) fn words<'a>(
    exit: i32,
    problems: impl IntoIterator<Item = &'a String>,
    explained: impl IntoIterator<Item = &'a String>,
) -> String {
    let (told, explained) = (reasons(problems), reasons(explained));
    let follow: Vec<_> = explained.difference(&told).copied().collect();
    let told: Vec<_> = told.into_iter().collect();
    match (told.is_empty(), follow.is_empty()) {
        (true, _) => format!("{exit}: no problem"),
        (false, true) => format!("{exit}: {}", told.join(", ")),
        (false, false) => format!("{exit}: {} ({})", told.join(", "), follow.join(", ")),
    }
}

/// Returns the distinct reasons of the problems.
fn reasons<'a>(problems: impl IntoIterator<Item = &'a String>) -> BTreeSet<&'a str> {
    problems.into_iter().filter_map(|problem| problem.split(' ').nth(1)).collect()
}
