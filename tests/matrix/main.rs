//! The failure matrix: each file of `matrix/` is a cluster with one trouble, and the expected report of the built program.
//!
//! `cargo test --test matrix` needs only the simulator. With `--talosctl PATH`, the real `talosctl health` runs against the same clusters,
//! and `--write PATH` writes both results into a table.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![expect(clippy::disallowed_types, reason = "real processes take real time")]
#![expect(clippy::print_stderr, reason = "a test harness of its own tells on stderr what went wrong")]

mod blinding;
mod catalog;
#[path = "../it/cluster.rs"]
#[expect(dead_code, reason = "shared with the tests of single states, which ask more of it")]
mod cluster;
mod distributions;
#[path = "../it/harness.rs"]
#[expect(dead_code, reason = "shared with the tests of single states, which ask more of it")]
mod harness;
mod namespace;
mod omni;
mod row;
mod run;
mod table;
mod talosctl;
mod track;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use clap::Parser;
use libtest_mimic::{Arguments, Failed, Trial};

use crate::row::Row;
use crate::run::{Judge, Ran, Seen};
use crate::talosctl::{Said, Talosctl};

/// Options of a test harness, and of this program.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    harness: Arguments,
    /// Run this talosctl against the same clusters
    #[arg(long, value_name = "PATH")]
    talosctl: Option<PathBuf>,
    /// Write the table of all rows, and the track record next to it
    #[arg(long, value_name = "PATH", requires = "talosctl")]
    write: Option<PathBuf>,
}

/// Default number of concurrent runs. Many of them wait for an answer that never comes.
const AT_ONCE: usize = 10;

/// The measured results of a row.
pub(crate) struct Measured {
    pub(crate) row: Arc<Row>,
    pub(crate) ours: Option<Seen>,
    pub(crate) right: bool,
    pub(crate) talosctl: Option<Said>,
}

fn main() -> ExitCode {
    let Options { mut harness, talosctl, write } = Options::parse();
    harness.test_threads = harness.test_threads.or(Some(AT_ONCE));
    let rows: Vec<_> = match Row::read_all(&folder()) {
        Ok(rows) => rows.into_iter().map(Arc::new).collect(),
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(code) = namespace::of_a_row(&rows) {
        return code;
    }
    let namespaces = rows.iter().any(|row| row.ipv6) && namespace::can_be_made();
    let judge = Arc::new(Judge::default());
    let talosctl = talosctl.map(|path| Arc::new(Talosctl::new(path)));
    let measured = Arc::new(Mutex::new(Vec::new()));
    let mut trials = catalog::trials(&rows);
    trials.push(track::trial(&rows));
    trials.extend(blinding::trials(&rows));
    trials.extend(distributions::trials(&rows));
    trials.extend(omni::trials(&rows));
    for row in &rows {
        let (row, judge, measured) = (Arc::clone(row), Arc::clone(&judge), Arc::clone(&measured));
        let without_network = row.ipv6 && !namespaces;
        let kind = if without_network { "needs root" } else { row.kind() };
        let (name, left_out) = (row.name.clone(), row.cannot.is_some() || without_network);
        let talosctl = talosctl.clone();
        let trial = move || {
            let (seen, said) = both(&row, talosctl.as_deref());
            let ours = seen.as_ref().ok().cloned();
            let verdict = seen.and_then(|seen| judge.decide(&row, &seen));
            measured.lock().unwrap().push(Measured {
                right: verdict.is_ok() && row.known_wrong.is_none(),
                ours,
                talosctl: said,
                row,
            });
            verdict.map_err(Failed::from)
        };
        trials.push(Trial::test(name, trial).with_kind(kind).with_ignored_flag(left_out));
    }
    let conclusion = libtest_mimic::run(&harness, trials);
    if let Some(path) = write {
        let measured = std::mem::take(&mut *measured.lock().unwrap());
        let version = talosctl.as_ref().map_or("", |talosctl| talosctl.version.as_str());
        std::fs::write(path.with_file_name("track-record.md"), track::of(&measured, version)).unwrap();
        std::fs::write(path, table::of(&rows, &measured, version)).unwrap();
    }
    conclusion.exit_code()
}

/// Runs both programs at the same time, each with a separate cluster.
fn both(row: &Row, talosctl: Option<&Talosctl>) -> (Ran, Option<Said>) {
    std::thread::scope(|scope| {
        let said = talosctl.filter(|_| row.ours_alone().is_none()).map(|talosctl| scope.spawn(|| talosctl.health(row)));
        let seen = run::run(row);
        (seen, said.map(|said| said.join().unwrap()))
    })
}

/// Returns the directory of the rows.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("matrix")
}
