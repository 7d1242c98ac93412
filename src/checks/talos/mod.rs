//! Stages 1 and 2: the machines, as they report about themselves, and the cluster's own second opinion.

mod clock;
mod connectivity;
mod credentials;
mod disk;
mod extensions;
mod kubelet_certificate;
mod machine;
mod population;
mod readiness;
mod server;
#[cfg(test)]
mod tests;
mod versions;

pub(super) use clock::TIME;
pub(super) use connectivity::{ENDPOINTS, REACHABLE};
pub(super) use credentials::CREDENTIALS;
pub(super) use disk::DISK;
pub(super) use extensions::EXTENSIONS;
pub(super) use kubelet_certificate::KUBELET_CERTIFICATE;
pub(super) use machine::{DIAGNOSTICS, MEMORY, NETWORK};
pub(super) use population::EXPECTED;
pub(super) use readiness::{BOOTED, KUBELET, READY, SERVICES};
pub(crate) use readiness::{holds_up_boot, must_run};
pub(super) use server::SERVER;
pub(super) use versions::VERSIONS;

const MIB: u64 = 1 << 20;

/// The reason to skip checks of the host's resources in container mode.
const CONTAINER: &str = "container mode: memory and disks are the host's";
