//! Resources that the program needs from the machine. It sets them explicitly, independent of variables and of inherited settings.

use std::io;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
#[cfg(target_os = "linux")]
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::{Builder, Runtime};

/// Stack size of the runtime's threads, regardless of `RUST_MIN_STACK`.
const STACK: usize = 2 << 20;
/// More workers would only wait for the network.
const MOST_WORKERS: usize = 8;
/// Threads other than the workers: the run, files, name lookups, and the threads that finish the reports of a run that is stuck.
const OTHERS: usize = 6;
/// Threads that wait for files and for name lookups; the resolver can occupy as many as 64 for a long time.
const BLOCKING: usize = 96;
/// Pipes that are opened to verify that there is room. The runtimes need as many descriptors as these pipes have; the rest is for
/// connections.
const PIPES: usize = 12;

/// Ensures that the run cannot fail halfway for lack of threads or descriptors, and that no memory is written to disk.
pub(super) fn prepare() -> anyhow::Result<()> {
    without_core_dumps();
    more_descriptors();
    enough_descriptors().context("could not start: too few file descriptors")?;
    enough_threads().context("could not start: too few threads")
}

/// Disables core dumps, because the memory contains credentials. A refusal is ignored: the run is no less useful.
fn without_core_dumps() {
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // On other systems, the limit is the only protection.
    #[cfg(target_os = "linux")]
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Raises the limit of open files: each machine takes one or two connections.
fn more_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

fn enough_descriptors() -> io::Result<()> {
    (0..PIPES).map(|_| io::pipe()).collect::<io::Result<Vec<_>>>().map(drop)
}

/// Verifies that all threads can exist at once: a runtime that gets one thread and no second one waits for it forever.
fn enough_threads() -> io::Result<()> {
    let all_there = Mutex::new(());
    thread::scope(|scope| {
        let held = all_there.lock();
        let wait = || drop(all_there.lock());
        let begun = (0..workers() + OTHERS)
            .map(|_| thread::Builder::new().stack_size(STACK).spawn_scoped(scope, wait))
            .collect::<io::Result<Vec<_>>>();
        drop(held);
        begun.map(drop)
    })
}

fn workers() -> usize {
    thread::available_parallelism().map_or(2, |cores| cores.get().min(MOST_WORKERS))
}

/// Builds the runtime with an explicit value for every setting that a variable could change.
pub(super) fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(workers())
        .max_blocking_threads(BLOCKING)
        .thread_stack_size(STACK)
        // A thread that has started is kept to the end.
        .thread_keep_alive(Duration::from_secs(3600))
        .enable_all()
        .build()
        .context("could not start")
}
