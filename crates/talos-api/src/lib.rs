//! The part of the Talos API that a health check reads, and that the simulator serves to talosctl.
//!
//! The `.proto` files in `proto/` are our own: they only contain messages and fields that one of the two needs, with the package names and
//! field numbers of the wire format. The code in `src/gen/` is generated from them by `UPDATE_GEN=1 cargo test -p talos-api` and committed,
//! so that a build needs no protobuf compiler. The test `codegen` keeps them in sync.
//!
//! - `common`, `machine`, `cluster`: Talos, `api/{common/common,machine/machine,cluster/cluster}.proto` of releases 1.0 to 1.14.
//! - `talos.resource.definitions.block`: Talos, `api/resource/definitions/block/block.proto` of releases 1.8 to 1.14.
//! - `cosi.resource`: the COSI specification, `proto/v1alpha1/{resource,state}.proto`.
//! - `google.protobuf`, `google.rpc`: protobuf's and gRPC's own. Generated here rather than taken from `prost-types`, so that
//!   every message can be written as JSON (feature `serde`).
#![allow(
    missing_docs,
    clippy::pedantic,
    clippy::use_self,
    unused_qualifications,
    clippy::allow_attributes_without_reason,
    reason = "everything below is generated"
)]

#[cfg(feature = "serde")]
mod base64;
#[warn(clippy::pedantic, clippy::use_self, missing_docs)]
pub mod codec;

pub use prost::Message;

/// Sources of the parts of an answer, and byte streams.
pub mod common {
    include!("gen/common.rs");
}

/// Services, etcd and files of a machine.
pub mod machine {
    include!("gen/machine.rs");
}

/// The cluster's own health check.
pub mod cluster {
    include!("gen/cluster.rs");
}

/// COSI: the machine's state as resources.
pub mod cosi {
    pub mod resource {
        include!("gen/cosi.resource.rs");
    }
}

/// Specifications of the machine's resources.
pub mod block {
    include!("gen/talos.resource.definitions.block.rs");
}

pub mod google {
    pub mod protobuf {
        include!("gen/google.protobuf.rs");
    }

    pub mod rpc {
        include!("gen/google.rpc.rs");
    }
}
