//! `cluster-health`: is this Talos Linux and Kubernetes cluster healthy, all of it, now?

mod checks;
mod config;
mod memory;
mod nearest;
mod snapshot;

fn main() {}
