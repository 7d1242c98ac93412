//! Omni in front of the machines of a cluster.

use std::collections::BTreeMap;

use crate::openpgp::PublicKey;

/// Omni: an `https://` endpoint for Talos and Kubernetes, with a certificate of a public authority.
#[derive(Clone, Debug, Default)]
pub struct Omni {
    /// Keys of service accounts by fingerprint. Revoked keys are removed.
    pub keys: BTreeMap<String, PublicKey>,
    /// Seconds by which Omni's clock is ahead of ours.
    pub clock_ahead: i64,
}
