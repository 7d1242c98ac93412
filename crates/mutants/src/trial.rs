//! Runs of the tests with one active mutant.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;

/// The quick tests first, which catch most mutants; then all tests within this process that may notice a change. Each stage has a limit in
/// seconds of CPU time, which is independent of the machine's load and many times the usual time, after which the tests count as endless.
const STAGES: [(&str, &[&str]); 2] = [
    ("12", &["assess::", "checks::", "diagnosis::", "engine::", "--skip", "laws", "--skip", "gaps"]),
    ("400", &["assess::", "checks::", "diagnosis::", "engine::", "report::", "selection::", "commands::", "testing::"]),
];
/// Tests of formats only, which are slow.
const LEFT_OUT: [&str; 4] = ["--skip", "every_document_is_valid", "--skip", "hostile_text_is_harmless"];
/// The limit for tests that wait forever.
const SECONDS: &str = "900";
/// Address space in KiB, because a mutant may allocate without end.
const MEMORY: &str = "8000000";

pub(crate) struct Trial<'a> {
    pub(crate) binary: &'a Path,
    pub(crate) folder: &'a Path,
}

impl Trial<'_> {
    /// Returns whether all tests pass with the mutant.
    pub(crate) fn survives(&self, mutant: Option<usize>) -> anyhow::Result<bool> {
        for (busy, tests) in STAGES {
            let mut command = Command::new("timeout");
            command.args(["--kill-after=1", SECONDS, "sh", "-c"]);
            command
                .arg(format!("ulimit -t {busy} && ulimit -v {MEMORY} && exec \"$0\" \"$@\""))
                .arg(self.binary)
                .args(tests)
                .args(LEFT_OUT);
            command.args(["--quiet", "--test-threads=1"]).current_dir(self.folder);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.env("INSTA_UPDATE", "no").env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
            // A fixed seed runs the same cases every time, so that no mutant is caught by chance.
            command.env("PROPTEST_RNG_SEED", "1");
            command.env_remove("MUTANT").envs(mutant.map(|id| ("MUTANT", id.to_string())));
            if !command.status().context("timeout")?.success() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the mutants among `ids` that no test catches, `jobs` at a time.
    pub(crate) fn survivors(
        &self,
        ids: &[usize],
        jobs: usize,
        told: impl Fn(usize, Option<usize>) + Sync,
    ) -> anyhow::Result<Vec<usize>> {
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let survivors = Mutex::new(Vec::new());
        let work = || -> anyhow::Result<()> {
            while let Some(id) = ids.get(next.fetch_add(1, Ordering::Relaxed)) {
                let survives = self.survives(Some(*id))?;
                if survives {
                    survivors.lock().unwrap_or_else(PoisonError::into_inner).push(*id);
                }
                told(done.fetch_add(1, Ordering::Relaxed) + 1, survives.then_some(*id));
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().unwrap_or_else(|_| anyhow::bail!("a worker panicked")))
        })?;
        let mut survivors = survivors.into_inner().unwrap_or_else(PoisonError::into_inner);
        survivors.sort_unstable();
        Ok(survivors)
    }
}

/// Copies the binary, so that the next build does not replace it.
pub(crate) fn keep(binary: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    let kept = folder.join("all");
    std::fs::copy(binary, &kept).with_context(|| kept.display().to_string())?;
    Ok(kept)
}
