//! The small part of `OpenPGP` that is needed to sign calls to Omni: Ed25519 keys of version 4, and detached signatures.
//!
//! This is our own implementation, because the complete library brings in a hundred crates, one of them with an unfixed vulnerability.
//! Error texts contain no byte of the input.

mod armor;
mod key;
mod packet;
mod signature;
#[cfg(test)]
pub(super) mod tests;

use std::fmt::{self, Write as _};

use jiff::Timestamp;
use ring::signature::Ed25519KeyPair;

/// A problem with a key, worded to follow its name.
pub(super) type Problem = &'static str;

/// A private key that signs.
pub(crate) struct SigningKey {
    pair: Ed25519KeyPair,
    /// Fingerprint of the key that signs.
    fingerprint: [u8; 20],
    /// Fingerprint of the primary key in 40 hex digits, by which others identify it.
    pub(crate) name: String,
    pub(crate) created: Timestamp,
    /// `None` if it never expires.
    pub(crate) ends: Option<Timestamp>,
}

impl SigningKey {
    pub(super) fn from_armor(text: &str, now: Timestamp) -> Result<Self, Problem> {
        let packets = armor::private_key(text)?;
        let now = u64::try_from(now.as_second()).unwrap_or(0);
        let found = key::signer(&packets, now)?;
        let pair = Ed25519KeyPair::from_seed_and_public_key(&*found.key.secret, &found.key.point);
        let name = found.primary.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        let timestamp = |seconds: u64| {
            i64::try_from(seconds).ok().and_then(|it| Timestamp::from_second(it).ok()).unwrap_or(Timestamp::MAX)
        };
        Ok(Self {
            pair: pair.map_err(|_| "has a secret that does not match its public part")?,
            fingerprint: found.key.fingerprint,
            name,
            created: timestamp(found.created.into()),
            ends: found.ends.map(timestamp),
        })
    }

    /// Makes a detached signature with this time.
    pub(super) fn sign(&self, document: &[u8], now: Timestamp) -> Vec<u8> {
        let created = u32::try_from(now.as_second()).unwrap_or(0);
        signature::detached(&self.pair, &self.fingerprint, document, created)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("name", &self.name).field("ends", &self.ends).finish_non_exhaustive()
    }
}
