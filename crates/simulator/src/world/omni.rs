//! Omni before the machines of a cluster.

use std::collections::BTreeMap;

use crate::openpgp::PublicKey;

/// Omni: an `https://` endpoint for Talos and Kubernetes, with a certificate of a public authority.
#[derive(Clone, Debug, Default)]
pub struct Omni {
    /// Keys of service accounts, by fingerprint. One that is not here was revoked, or never known.
    pub keys: BTreeMap<String, PublicKey>,
    /// Seconds that its clock is ahead of ours.
    pub clock_ahead: i64,
}
