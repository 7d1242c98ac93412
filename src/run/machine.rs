//! What the program needs of the machine, and takes from nobody else: neither from variables nor from what it happens to inherit.

use std::io;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
#[cfg(target_os = "linux")]
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::{Builder, Runtime};

/// Of each thread but the run's, whatever `RUST_MIN_STACK` says.
const STACK: usize = 2 << 20;
/// More threads would wait for the network beside each other.
const MOST_WORKERS: usize = 8;
/// Beside the workers: the run, files, name look-ups, and whoever speaks for a run that is stuck.
const OTHERS: usize = 6;
/// Threads that wait for files and for names, of which the resolver may take as many as 64 for a long time.
const BLOCKING: usize = 96;
/// Pipes that are opened to see that there is room. The runtimes need as many descriptors as those have; the rest is for
/// connections.
const PIPES: usize = 12;

/// Sees to it that what follows cannot fail halfway for want of threads or descriptors, and that no memory is written to the disk.
pub(super) fn prepare() -> anyhow::Result<()> {
    without_core_dumps();
    more_descriptors();
    enough_descriptors().context("could not start: too few file descriptors")?;
    enough_threads().context("could not start: too few threads")
}

/// It holds credentials. Where this is refused, a run is no less useful.
fn without_core_dumps() {
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // Elsewhere the limit is all there is.
    #[cfg(target_os = "linux")]
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Each machine is a connection or two.
fn more_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

fn enough_descriptors() -> io::Result<()> {
    (0..PIPES).map(|_| io::pipe()).collect::<io::Result<Vec<_>>>().map(drop)
}

/// A runtime that gets one thread and no second one waits for it forever.
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

/// Every setting that a variable could change is given.
pub(super) fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(workers())
        .max_blocking_threads(BLOCKING)
        .thread_stack_size(STACK)
        // A thread that was there once is there to the end.
        .thread_keep_alive(Duration::from_secs(3600))
        .enable_all()
        .build()
        .context("could not start")
}
