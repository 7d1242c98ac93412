//! The little of `OpenPGP` that signs what is sent to Omni: an Ed25519 key of version 4, and detached signatures.
//!
//! Of our own, since the library for all of it is a hundred crates, one of them with a vulnerability that nobody has mended. Texts of
//! problems hold no byte of what was read.

mod armor;
mod key;
mod packet;
mod signature;
#[cfg(test)]
pub(super) mod tests;

use std::fmt::{self, Write as _};

use jiff::Timestamp;
use ring::signature::Ed25519KeyPair;

/// What is wrong with a key, after its name.
pub(super) type Problem = &'static str;

/// A private key that signs.
pub(crate) struct SigningKey {
    pair: Ed25519KeyPair,
    /// Of the key that signs.
    fingerprint: [u8; 20],
    /// Of the primary key, by which others know it: 40 digits.
    pub(crate) name: String,
    pub(crate) created: Timestamp,
    /// `None`: it counts for ever.
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

    /// A detached signature, made at this time.
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
