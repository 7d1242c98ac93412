//! Signatures of version 4 by an Ed25519 key: those within a key, and those that we make.

use ring::digest::{Algorithm, Context, SHA256, SHA384, SHA512};
use ring::signature::{ED25519, Ed25519KeyPair, UnparsedPublicKey};

use super::Problem;
use super::key::EDDSA;
use super::packet::{Reader, filled, number};

const SHA_256: u8 = 8;

/// Subpacket types.
const CREATED: u8 = 2;
const SIGNATURE_LASTS: u8 = 3;
const KEY_LASTS: u8 = 9;
const ISSUER: u8 = 16;
const PRIMARY_USER: u8 = 25;
const FLAGS: u8 = 27;
const ISSUER_FINGERPRINT: u8 = 33;

/// The key flag that allows signing.
const MAY_SIGN: u8 = 2;

/// A signature within a key.
pub(super) struct Signature<'a> {
    pub(super) kind: u8,
    /// Unix seconds.
    pub(super) created: u32,
    /// Seconds since `created`; `None` if the signature never expires.
    pub(super) lasts: Option<u32>,
    /// Seconds since the key was created; `None` if the key never expires.
    pub(super) key_lasts: Option<u32>,
    pub(super) may_sign: bool,
    pub(super) is_of_primary_user: bool,
    /// The bytes that are hashed after the signed data.
    hashed: &'a [u8],
    hash: &'static Algorithm,
    value: [u8; 64],
}

impl<'a> Signature<'a> {
    /// Reads a signature. `None` if an Ed25519 key cannot have made it or its type is unknown, so that it proves
    /// nothing here.
    pub(super) fn read(body: &'a [u8]) -> Result<Option<Self>, Problem> {
        let mut reader = Reader(body);
        let (version, kind, algorithm, hash) = (reader.u8()?, reader.u8()?, reader.u8()?, reader.u8()?);
        let hash = match hash {
            SHA_256 => &SHA256,
            9 => &SHA384,
            10 => &SHA512,
            _ => return Ok(None),
        };
        if version != 4 || algorithm != EDDSA {
            return Ok(None);
        }
        let mut said = reader.part()?;
        let hashed = &body[..body.len() - reader.0.len()];
        // Skips the unsigned subpackets and the first bytes of the hash.
        reader.part()?;
        reader.take(2)?;
        let (Some(r), Some(s)) = (filled::<32>(reader.number()?), filled::<32>(reader.number()?)) else {
            return Ok(None);
        };
        let mut value = [0; 64];
        value[..32].copy_from_slice(&r);
        value[32..].copy_from_slice(&s);
        let (lasts, key_lasts, may_sign, is_of_primary_user) = (None, None, false, false);
        let mut read = Self { kind, created: 0, lasts, key_lasts, may_sign, is_of_primary_user, hashed, hash, value };
        while !said.0.is_empty() {
            let (kind, body) = said.subpacket()?;
            let seconds = || Reader(body).u32();
            match kind {
                CREATED => read.created = seconds()?,
                SIGNATURE_LASTS => read.lasts = Some(seconds()?).filter(|it| *it > 0),
                KEY_LASTS => read.key_lasts = Some(seconds()?).filter(|it| *it > 0),
                PRIMARY_USER => read.is_of_primary_user = Reader(body).u8()? != 0,
                FLAGS => read.may_sign = body.first().is_some_and(|flags| flags & MAY_SIGN != 0),
                _ => {}
            }
        }
        Ok(Some(read))
    }

    /// Returns whether the key with this point made the signature over these parts.
    pub(super) fn is_by(&self, point: &[u8; 32], parts: &[&[u8]]) -> bool {
        let digest = digest(self.hash, parts, self.hashed);
        UnparsedPublicKey::new(&ED25519, point).verify(digest.as_ref(), &self.value).is_ok()
    }
}

/// Hashes the signed data and the signature's own description.
fn digest(hash: &'static Algorithm, parts: &[&[u8]], said: &[u8]) -> ring::digest::Digest {
    let mut context = Context::new(hash);
    for part in parts {
        context.update(part);
    }
    context.update(said);
    context.update(&[4, 0xff]);
    context.update(&u32::try_from(said.len()).unwrap_or(u32::MAX).to_be_bytes());
    context.finish()
}

/// Makes a detached signature of a document: binary, version 4, `EdDSA`, SHA-256.
pub(super) fn detached(pair: &Ed25519KeyPair, fingerprint: &[u8; 20], document: &[u8], created: u32) -> Vec<u8> {
    const BINARY: u8 = 0;
    // All lengths here fit into one byte.
    let short = |length: usize| u8::try_from(length).unwrap_or(u8::MAX);
    let subpacket = |kind: u8, body: &[u8]| [&[short(body.len() + 1), kind][..], body].concat();
    let part = |body: &[u8]| [&u16::from(short(body.len())).to_be_bytes()[..], body].concat();
    let issuer = [&[4][..], fingerprint].concat();
    let said = [subpacket(CREATED, &created.to_be_bytes()), subpacket(ISSUER_FINGERPRINT, &issuer)].concat();
    let said = [&[4, BINARY, EDDSA, SHA_256][..], &part(&said)].concat();
    let digest = digest(&SHA256, &[document], &said);
    let value = pair.sign(digest.as_ref());
    let (r, s) = value.as_ref().split_at(32);
    // The key ID is the end of the fingerprint.
    let unsigned = part(&subpacket(ISSUER, &fingerprint[12..]));
    let body = [&said[..], &unsigned, &digest.as_ref()[..2], &number(r), &number(s)].concat();
    // A signature packet with a length of one byte: it is never longer than 120.
    [&[0xc2, short(body.len())][..], &body].concat()
}
