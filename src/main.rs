//! `cluster-health`: is this Talos Linux and Kubernetes cluster healthy, all of it, now?

mod checks;
mod memory;
mod snapshot;

fn main() {}
