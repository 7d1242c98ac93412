//! The part of the etcd API that a health check reads, and that the simulator serves to etcdctl.
//!
//! `proto/etcd/rpc.proto` is our own: only messages and fields that one of the two needs, with the package name and the field
//! numbers of the wire. `UPDATE_GEN=1 cargo test -p etcd-api` makes `src/gen/` from it, which is committed: the crate
//! `etcd-client` generates its code while it is built, and so asks for a protobuf compiler wherever this program is installed
//! from source. Tests hold both against each other.
#![allow(
    missing_docs,
    clippy::pedantic,
    clippy::use_self,
    unused_qualifications,
    clippy::allow_attributes_without_reason,
    reason = "everything below is generated"
)]

include!("gen/etcdserverpb.rs");
