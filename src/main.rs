//! `cluster-health`: is this Talos Linux and Kubernetes cluster healthy, all of it, now?

fn main() {}
