//! The table of all rows, as `docs/matrix.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use crate::Measured;
use crate::row::Row;
use crate::run::Seen;
use crate::talosctl::Said;

const HEAD: &str = "\
# Failures that cluster-health detects

Each row is a cluster with one fault, or a healthy cluster with an unusual shape: a file in [matrix](../matrix). `cluster-health` and the
real `talosctl health` run at the same time, each against its own simulated cluster in this state ([crates/simulator](../crates/simulator)).

- `make matrix` generates this page; no cell is written by hand. The rows' files contain the expected results, and the test `matrix`
  compares them exactly: the exit code, and every check, reason and target.
- `cluster-health` runs as os:reader, with a kubeconfig that only has the required rights, and without waiting unless the row sets
  `--wait-timeout`. `talosctl health` runs as os:admin, which it requires, with `--server=false --wait-timeout 6s`, if possible through a
  control plane that the row does not change. The cluster does not change during the wait. In rows about Talos credentials, both programs
  use the same credentials.
- A row defines whether its cluster is healthy; warnings count as healthy. `talosctl health` is right if it exits with 0 for a healthy
  cluster, and with another code for a cluster that is unhealthy or cannot be checked. `cluster-health` is only right if its whole result
  is as expected.
- For `talosctl`, the table shows the last step and the last line of output, shortened, with machine names instead of addresses.
- Reasons in brackets are explained by other reasons in the same cell.
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
            (None, Some(why)) => format!("not run: {why}"),
            (None, None) => "not run".to_owned(),
        };
        let _ = writeln!(table, "| {ids} | [{title}](../matrix/{name}.toml) | {expected} | {seen} | {said} |");
    }
    format!(
        "{HEAD}\n**Right: cluster-health {ours}, talosctl health ({talosctl}) {theirs}.** ✗ marks wrong results.\n\n\
         | | the cluster | expected | cluster-health | talosctl health |\n| --- | --- | --- | --- | --- |\n{table}\n\
         ## Failures without a row\n\n{left_out}"
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
