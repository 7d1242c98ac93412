//! The Talos side of clusters that misbehave.

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

/// What a slow machine may take beyond what the options bound.
/// Of runs in which somebody is waited for in vain. Calls may take half of it, which is plenty for those who answer.
const ATTEMPT: Duration = Duration::from_secs(10);
const SHORT: [&str; 2] = ["--attempt-timeout", "10s"];
const SLACK: Duration = Duration::from_secs(4);

#[test]
fn healthy() {
    cluster().run(&[]).is(0, &[]);
}
