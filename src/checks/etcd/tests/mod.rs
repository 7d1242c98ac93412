//! The judges of etcd against the healthy fixture with one thing broken.

mod lists;
mod members;
mod service;
mod status;
mod votes;
