//! `cluster-health`: is this Talos Linux and Kubernetes cluster healthy, all of it, now?

mod checks;
mod cli;
mod commands;
mod config;
mod duration;
mod engine;
mod event;
mod exit;
mod ledger;
mod memory;
mod nearest;
mod observe;
mod plan;
mod report;
mod selection;
mod signals;
mod snapshot;

fn main() {}
