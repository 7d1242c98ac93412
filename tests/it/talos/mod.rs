//! The Talos part of clusters that misbehave.

mod answers;
mod clock;
mod endpoints;
mod etcd;
mod hostile;
mod logs;
mod machines;
mod nodes;
mod releases;
mod rounds;
mod server;

use std::time::Duration;

use crate::cluster::cluster;
use crate::harness::side_by_side;

/// Attempt timeout of runs with calls that time out. A call may take half of it, which is plenty for machines that answer.
const ATTEMPT: Duration = Duration::from_secs(10);
const SHORT: [&str; 2] = ["--attempt-timeout", "10s"];
/// Time that a slow machine may need beyond the limits of the options.
const SLACK: Duration = Duration::from_secs(4);

#[test]
fn healthy() {
    cluster().run(&[]).is(0, &[]);
}
