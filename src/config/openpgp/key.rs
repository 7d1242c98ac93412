//! Reads a transferable private key and selects the part of it that signs.

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use zeroize::Zeroizing;

use super::Problem;
use super::packet::{Packet, Reader, filled};
use super::signature::Signature;

/// The algorithm number of Ed25519 from before it had its own (`EdDSA`).
pub(super) const EDDSA: u8 = 22;
/// The object identifier of the curve Ed25519 (1.3.6.1.4.1.11591.15.1).
const ED25519: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x0f, 0x01];
/// The prefix of a compressed point.
const COMPRESSED: u8 = 0x40;

/// Packet types.
const SIGNATURE: u8 = 2;
const SECRET_KEY: u8 = 5;
const PUBLIC_KEY: u8 = 6;
const SECRET_SUBKEY: u8 = 7;
const USER_ID: u8 = 13;
const PUBLIC_SUBKEY: u8 = 14;
const USER_ATTRIBUTE: u8 = 17;

/// Signature types.
const USER_CERTIFIED: std::ops::RangeInclusive<u8> = 0x10..=0x13;
const SUBKEY_BOUND: u8 = 0x18;
const KEY_REVOKED: u8 = 0x20;
const SUBKEY_REVOKED: u8 = 0x28;

/// An Ed25519 key of version 4, and its secret.
pub(super) struct Key {
    pub(super) point: [u8; 32],
    pub(super) secret: Zeroizing<[u8; 32]>,
    pub(super) fingerprint: [u8; 20],
    /// Unix seconds.
    pub(super) created: u32,
    /// The public key in the form that is hashed.
    framed: Vec<u8>,
}

/// The part of a key that signs, and the time until which it does, in Unix seconds.
pub(super) struct Signer {
    pub(super) primary: [u8; 20],
    pub(super) key: Key,
    pub(super) created: u32,
    pub(super) ends: Option<u64>,
}

impl Key {
    /// Reads the body of a secret key packet.
    fn read(body: &[u8]) -> Result<Self, Problem> {
        let mut reader = Reader(body);
        if reader.u8()? != 4 {
            return Err("is not a key of version 4, as Omni's keys are");
        }
        let created = reader.u32()?;
        if reader.u8()? != EDDSA {
            return Err("is not an Ed25519 key (EdDSA, algorithm 22), as Omni's keys are");
        }
        let length = reader.u8()?;
        if reader.take(length.into())? != ED25519 {
            return Err("uses another curve than Ed25519");
        }
        let point = match reader.number()?.split_first() {
            Some((&COMPRESSED, point)) => point.try_into().map_err(|_| "has no Ed25519 point")?,
            _ => return Err("has no Ed25519 point"),
        };
        let public = &body[..body.len() - reader.0.len()];
        let framed = framed(public)?;
        let fingerprint = digest(&SHA1_FOR_LEGACY_USE_ONLY, &framed).as_ref().try_into();
        let fingerprint = fingerprint.map_err(|_| "has no fingerprint")?;
        if reader.u8()? != 0 {
            return Err("is encrypted with a passphrase, and no prompt is possible");
        }
        let before = reader.0;
        let secret = reader.number()?;
        let written = &before[..before.len() - reader.0.len()];
        let sum = written.iter().fold(0_u16, |sum, byte| sum.wrapping_add((*byte).into()));
        if reader.u16()? != sum {
            return Err("has a secret that does not match its checksum");
        }
        let secret = Zeroizing::new(filled(secret).ok_or("has no Ed25519 secret")?);
        Ok(Self { point, secret, fingerprint, created, framed })
    }

    /// Returns when the key expires according to a signature about it.
    fn ends(&self, by: &Signature<'_>) -> Option<u64> {
        let after = |begin: u32, lasts: Option<u32>| lasts.map(|lasts| u64::from(begin) + u64::from(lasts));
        [after(self.created, by.key_lasts), after(by.created, by.lasts)].into_iter().flatten().min()
    }
}

fn framed(public: &[u8]) -> Result<Vec<u8>, Problem> {
    let length = u16::try_from(public.len()).map_err(|_| "is too long")?;
    Ok([&[0x99][..], &length.to_be_bytes(), public].concat())
}

/// The part that a signature is about: the last of these before it.
#[derive(Clone, Copy)]
enum Part<'a> {
    Primary,
    User(&'a [u8]),
    Subkey,
    Other,
}

/// Returns the signature that counts: one of the primary user first, then the later one.
fn later<'a>(known: Option<Signature<'a>>, new: Signature<'a>) -> Signature<'a> {
    let rank = |it: &Signature<'_>| (it.is_of_primary_user, it.created);
    known.filter(|known| rank(known) > rank(&new)).unwrap_or(new)
}

struct Subkey<'a> {
    /// `None` if the key cannot be read and so cannot sign. Most subkeys are for encryption.
    key: Option<Key>,
    bound: Option<Signature<'a>>,
    is_revoked: bool,
}

/// Selects the part that signs. The key's own signatures decide this, as they do for the verifier. `now` is in Unix seconds.
pub(super) fn signer(packets: &[u8], now: u64) -> Result<Signer, Problem> {
    let mut reader = Reader(packets);
    let first = reader.packet()?;
    let primary = match first.tag {
        SECRET_KEY => Key::read(first.body)?,
        PUBLIC_KEY => return Err("is a public key: it cannot sign"),
        _ => return Err("does not begin with a key"),
    };
    let mut part = Part::Primary;
    let mut own: Option<Signature<'_>> = None;
    let mut subkeys: Vec<Subkey<'_>> = Vec::new();
    while !reader.0.is_empty() {
        let Packet { tag, body } = reader.packet()?;
        match tag {
            SECRET_KEY | PUBLIC_KEY => return Err("contains more than one key: it is unclear which one is meant"),
            USER_ID => part = Part::User(body),
            USER_ATTRIBUTE => part = Part::Other,
            SECRET_SUBKEY | PUBLIC_SUBKEY => {
                let key = Key::read(body).ok().filter(|_| tag == SECRET_SUBKEY);
                subkeys.push(Subkey { key, bound: None, is_revoked: false });
                part = Part::Subkey;
            }
            SIGNATURE => {
                let Some(signature) = Signature::read(body)? else { continue };
                take_in(&primary, part, signature, &mut own, &mut subkeys)?;
            }
            _ => {}
        }
    }
    let own = own.ok_or("has no self-signature with a validity period")?;
    let (of_primary, is_allowed) = (primary.ends(&own), own.may_sign);
    let ends_of = |subkey: &Subkey<'_>| {
        let ends = subkey.key.as_ref().zip(subkey.bound.as_ref()).and_then(|(key, bound)| key.ends(bound));
        [ends, of_primary].into_iter().flatten().min()
    };
    let is_over = |subkey: &Subkey<'_>| ends_of(subkey).is_some_and(|end| end <= now);
    let signs = |subkey: &Subkey<'_>| {
        subkey.key.is_some() && !subkey.is_revoked && subkey.bound.as_ref().is_some_and(|it| it.may_sign)
    };
    // A subkey takes precedence over the primary key while it is valid.
    subkeys.retain(|subkey| signs(subkey) && !(is_allowed && is_over(subkey)));
    let newest = subkeys.into_iter().max_by_key(|it| (!is_over(it), it.bound.as_ref().map(|bound| bound.created)));
    let (fingerprint, created) = (primary.fingerprint, primary.created);
    match newest {
        Some(subkey) => {
            let ends = ends_of(&subkey);
            let key = subkey.key.ok_or("has no signing key")?;
            Ok(Signer { primary: fingerprint, created: created.max(key.created), key, ends })
        }
        None if is_allowed => Ok(Signer { primary: fingerprint, created, key: primary, ends: of_primary }),
        None => Err("has no signing key"),
    }
}

/// Applies a signature made by the primary key; signatures of other keys are ignored.
fn take_in<'a>(
    primary: &Key,
    part: Part<'a>,
    signature: Signature<'a>,
    own: &mut Option<Signature<'a>>,
    subkeys: &mut [Subkey<'a>],
) -> Result<(), Problem> {
    let is_own = |parts: &[&[u8]]| {
        let all: Vec<&[u8]> = std::iter::once(primary.framed.as_slice()).chain(parts.iter().copied()).collect();
        signature.is_by(&primary.point, &all)
    };
    match part {
        Part::Primary if signature.kind == KEY_REVOKED && is_own(&[]) => return Err("is revoked"),
        Part::User(name) if USER_CERTIFIED.contains(&signature.kind) => {
            let length = u32::try_from(name.len()).map_err(|_| "is too long")?.to_be_bytes();
            if is_own(&[&[0xb4], &length, name]) {
                *own = Some(later(own.take(), signature));
            }
        }
        Part::Subkey => {
            let Some(subkey) = subkeys.last_mut() else { return Ok(()) };
            if !subkey.key.as_ref().is_some_and(|key| is_own(&[&key.framed])) {
                return Ok(());
            }
            match signature.kind {
                SUBKEY_BOUND => subkey.bound = Some(later(subkey.bound.take(), signature)),
                SUBKEY_REVOKED => subkey.is_revoked = true,
                _ => {}
            }
        }
        Part::Primary | Part::User(_) | Part::Other => {}
    }
    Ok(())
}
