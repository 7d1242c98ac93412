//! Threads in which users reported a failure, next to the results for it here, as `docs/track-record.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use libtest_mimic::{Failed, Trial};
use serde::Deserialize;

use crate::Measured;
use crate::row::Row;
use crate::table;

const HEAD: &str = "\
# Track record

Problems that users of Talos and Kubernetes have reported, with links to the threads, and the results of both programs for the same
problem. `make matrix` generates this page from [track-record.toml](track-record.toml): each row of the [matrix](matrix.md) is reproduced on
the simulator, each row of [end to end](e2e.md) on a real cluster. The last column shows the commit at which the row was last reproduced.

";

/// The list of threads.
#[derive(Deserialize)]
struct Record {
    story: Vec<Story>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Story {
    threads: Vec<String>,
    met: String,
    #[serde(default)]
    matrix: Vec<String>,
    #[serde(default)]
    e2e: Vec<String>,
}

/// The parts of an entry of `e2e/results.json` that are shown.
#[derive(Deserialize)]
struct Real {
    date: String,
    commit: String,
    ours: Ours,
    talosctl: Option<Theirs>,
}

#[derive(Deserialize)]
struct Ours {
    exit: i32,
    problems: Vec<String>,
}

#[derive(Deserialize)]
struct Theirs {
    exit: i32,
    last: String,
}

/// Returns the trial that verifies that every thread has an existing row.
pub(crate) fn trial(rows: &[Arc<Row>]) -> Trial {
    let rows: BTreeSet<_> = rows.iter().map(|row| row.name.clone()).collect();
    Trial::test("every thread of the track record has rows", move || {
        let real = real();
        for story in stories() {
            let unknown = story.matrix.iter().filter(|row| !rows.contains(*row));
            let unknown: Vec<_> = unknown.chain(story.e2e.iter().filter(|row| !real.contains_key(*row))).collect();
            if story.threads.is_empty() || story.matrix.is_empty() || !unknown.is_empty() {
                return Err(Failed::from(format!("{}: {unknown:?}", story.met)));
            }
        }
        Ok(())
    })
}

/// The whole document.
pub(crate) fn of(measured: &[Measured], talosctl: &str) -> String {
    let (real, commit) = (real(), commit());
    let mut document = format!(
        "{HEAD}| problem | row | cluster-health | talosctl health ({talosctl}) | commit |\n| --- | --- | --- | --- | --- |\n"
    );
    for story in stories() {
        let threads: Vec<_> = story.threads.iter().map(|thread| link(thread)).collect();
        let mut met = format!("{} ({})", story.met, threads.join(", "));
        let seen = story.matrix.iter().filter_map(|name| measured.iter().find(|it| it.row.name == *name));
        let simulated = seen.map(|it| {
            let said = it.talosctl.as_ref().map_or_else(|| "not asked".to_owned(), crate::talosctl::Said::cell);
            let ours = it.ours.as_ref().map_or_else(|| "no answer".to_owned(), table::cell);
            format!("[{0}](../matrix/{0}.toml) | {ours} | {said} | {commit}", it.row.name)
        });
        let reproduced = story.e2e.iter().filter_map(|name| real.get_key_value(name)).map(|(name, it)| {
            let ours = table::words(it.ours.exit, &it.ours.problems, []);
            let said =
                it.talosctl.as_ref().map_or_else(|| "not asked".to_owned(), |it| format!("{}: `{}`", it.exit, it.last));
            format!("{name}, real | {ours} | {said} | {}, {}", it.commit, it.date)
        });
        for row in simulated.chain(reproduced) {
            let _ = writeln!(document, "| {} | {row} |", std::mem::take(&mut met));
        }
    }
    document
}

fn stories() -> Vec<Story> {
    toml::from_str::<Record>(include_str!("../../docs/track-record.toml")).unwrap().story
}

fn real() -> BTreeMap<String, Real> {
    serde_json::from_str(include_str!("../../e2e/results.json")).unwrap()
}

/// Links a thread; `#12` is in Talos's own repository.
fn link(thread: &str) -> String {
    let (repository, number) = thread.split_once('#').unwrap();
    let repository = if repository.is_empty() { "siderolabs/talos" } else { repository };
    format!("[{thread}](https://github.com/{repository}/issues/{number})")
}

/// Returns the checked-out commit.
fn commit() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("git").args(["rev-parse", "--short", "HEAD"]).current_dir(root).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
