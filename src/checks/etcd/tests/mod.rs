//! The judges of etcd over the healthy fixture with one thing broken.

mod lists;
mod members;
mod service;
mod status;
mod votes;
