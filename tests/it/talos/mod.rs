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
const SLACK: Duration = Duration::from_secs(4);

#[test]
fn healthy() {
    cluster().run(&[]).is(0, &[]);
}
