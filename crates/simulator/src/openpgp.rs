//! Keys of Omni's service accounts in omnictl's format, and the verification of their signatures according to RFC 4880. The program under
//! test has its own implementation.

use std::fmt::Write as _;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

/// `EdDSA` with SHA-256.
const ALGORITHMS: [u8; 2] = [22, 8];
const CURVE: [u8; 10] = [9, 0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x0f, 0x01];

/// An Ed25519 key with its metadata.
pub struct PrivateKey {
    pair: Ed25519KeyPair,
    seed: [u8; 32],
    user: String,
    created: u32,
    lasts: Option<u32>,
}

/// The public key, for verification.
#[derive(Clone, Debug)]
pub struct PublicKey {
    point: Vec<u8>,
    /// 40 digits.
    pub fingerprint: String,
    /// Time of expiry in Unix seconds.
    ends: Option<i64>,
}

impl PrivateKey {
    /// Creates a new key. `created` is in Unix seconds, and `lasts` is the lifetime in seconds.
    ///
    /// # Errors
    /// If the system provides no randomness.
    pub fn new(user: &str, created: u32, lasts: Option<u32>) -> anyhow::Result<Self> {
        let mut seed = [0; 32];
        SystemRandom::new().fill(&mut seed).ok().context("no randomness")?;
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).ok().context("no key")?;
        Ok(Self { pair, seed, user: user.to_owned(), created, lasts })
    }

    /// The public part of the key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        let hash = self.fingerprint();
        let fingerprint = hash.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        let ends = self.lasts.map(|lasts| i64::from(self.created) + i64::from(lasts));
        PublicKey { point: self.pair.public_key().as_ref().to_vec(), fingerprint, ends }
    }

    /// The packets of the private key, armored.
    #[must_use]
    pub fn armored(&self) -> String {
        armor("PRIVATE", &self.packets())
    }

    /// The packets of the public key, armored.
    #[must_use]
    pub fn armored_public(&self) -> String {
        armor("PUBLIC", &[packet(6, &self.body()), self.user_packets()].concat())
    }

    /// The packets of the private key: the key itself, and its user.
    #[must_use]
    pub fn packets(&self) -> Vec<u8> {
        let secret = number(&self.seed);
        let sum = secret.iter().map(|byte| u32::from(*byte)).sum::<u32>() & 0xffff;
        let body = [&self.body()[..], &[0], &secret, &sum.to_be_bytes()[2..]].concat();
        [packet(5, &body), self.user_packets()].concat()
    }

    fn user_packets(&self) -> Vec<u8> {
        let user = self.user.as_bytes();
        let about = [&[0xb4][..], &four(user.len()), user].concat();
        // The key is allowed to certify and sign.
        let mut said = vec![subpacket(27, &[3]), subpacket(25, &[1])];
        for kind in [3, 9] {
            said.extend(self.lasts.map(|lasts| subpacket(kind, &lasts.to_be_bytes())));
        }
        let framed = framed(&self.body());
        let signature = self.sign(0x13, &[&framed, &about], self.created, &said.concat());
        [packet(13, user), signature].concat()
    }

    /// The public part of a key packet: version, time, algorithm, curve, point.
    fn body(&self) -> Vec<u8> {
        let point = [&[0x40][..], self.pair.public_key().as_ref()].concat();
        [&[4][..], &self.created.to_be_bytes(), &ALGORITHMS[..1], &CURVE, &number(&point)].concat()
    }

    fn fingerprint(&self) -> Vec<u8> {
        digest(&SHA1_FOR_LEGACY_USE_ONLY, &framed(&self.body())).as_ref().to_vec()
    }

    fn sign(&self, kind: u8, parts: &[&[u8]], created: u32, said: &[u8]) -> Vec<u8> {
        let said = [&subpacket(2, &created.to_be_bytes())[..], said].concat();
        let head = [&[4, kind][..], &ALGORITHMS, &two(said.len()), &said].concat();
        let hash = hashed(parts, &head);
        let value = self.pair.sign(&hash);
        let (r, s) = value.as_ref().split_at(32);
        let issuer = subpacket(16, &self.fingerprint()[12..]);
        let body = [&head[..], &two(issuer.len()), &issuer, &hash[..2], &number(r), &number(s)];
        packet(2, &body.concat())
    }
}

impl PublicKey {
    /// Whether the key is valid at this time, in Unix seconds.
    #[must_use]
    pub fn counts(&self, now: i64) -> bool {
        self.ends.is_none_or(|end| now < end)
    }

    /// Verifies a detached binary signature of version 4 over a document.
    ///
    /// # Errors
    /// If the signature has another format, or is wrong.
    pub fn verify(&self, document: &[u8], signature: &[u8]) -> anyhow::Result<()> {
        let (head, rest) = signature.split_first().context("empty")?;
        ensure!(*head == 0xc2, "no signature of the new format");
        let (length, body) = rest.split_first().context("cut off")?;
        ensure!(*length < 192 && usize::from(*length) == body.len(), "its length is {length}");
        ensure!(body.get(..4) == Some(&[4, 0, ALGORITHMS[0], ALGORITHMS[1]][..]), "another kind of signature");
        let part = |from: &[u8]| -> anyhow::Result<(usize, Vec<u8>)> {
            let length: [u8; 2] = from.get(..2).context("cut off")?.try_into()?;
            let length = usize::from(u16::from_be_bytes(length));
            Ok((length + 2, from.get(2..2 + length).context("cut off")?.to_vec()))
        };
        let (said, _) = part(&body[4..])?;
        let (unsigned, _) = part(&body[4 + said..])?;
        let rest = body.get(4 + said + unsigned..).context("cut off")?;
        let hash = hashed(&[document], &body[..4 + said]);
        ensure!(rest.get(..2) == Some(&hash[..2]), "another hash");
        let mut numbers = &rest[2..];
        let mut value = Vec::new();
        for _ in 0..2 {
            let bits: [u8; 2] = numbers.get(..2).context("cut off")?.try_into()?;
            let bits = u16::from_be_bytes(bits);
            let length = usize::from(bits.div_ceil(8));
            let digits = numbers.get(2..2 + length).context("cut off")?;
            let first = digits.first().context("no number")?;
            ensure!(usize::from(bits) == length * 8 - first.leading_zeros() as usize && length <= 32, "a wrong length");
            value.extend(std::iter::repeat_n(0, 32 - length).chain(digits.iter().copied()));
            numbers = &numbers[2 + length..];
        }
        ensure!(numbers.is_empty(), "something is left");
        let verified = UnparsedPublicKey::new(&ED25519, &self.point).verify(&hash, &value);
        verified.ok().context("not of this key")
    }
}

fn hashed(parts: &[&[u8]], head: &[u8]) -> Vec<u8> {
    let all = [&parts.concat()[..], head, &[4, 0xff], &four(head.len())].concat();
    digest(&SHA256, &all).as_ref().to_vec()
}

fn framed(body: &[u8]) -> Vec<u8> {
    [&[0x99][..], &two(body.len()), body].concat()
}

/// Encodes a packet in the new format.
fn packet(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = match u8::try_from(body.len()) {
        Ok(short @ ..192) => vec![short],
        _ => [&[0xff][..], &four(body.len())].concat(),
    };
    [&[0xc0 | tag][..], &length, body].concat()
}

fn subpacket(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[two(body.len() + 1)[1], kind][..], body].concat()
}

fn number(bytes: &[u8]) -> Vec<u8> {
    let digits = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
    let bits = digits.first().map_or(0, |first| digits.len() * 8 - first.leading_zeros() as usize);
    [&two(bits)[..], digits].concat()
}

/// Encodes a length in two bytes, which suffices for everything here.
fn two(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes()
}

fn four(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}

fn armor(kind: &str, packets: &[u8]) -> String {
    let mut crc = 0x00b7_04ce_u32;
    for byte in packets {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= 0x0186_4cfb;
            }
        }
    }
    let sum = STANDARD.encode(&crc.to_be_bytes()[1..]);
    let body = STANDARD.encode(packets);
    let lines: Vec<_> = body.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line)).collect();
    let (begin, end) = (format!("-----BEGIN PGP {kind} KEY BLOCK-----"), format!("-----END PGP {kind} KEY BLOCK-----"));
    format!("{begin}\nVersion: simulator\n\n{}\n={sum}\n{end}\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_key_signs_is_verified_and_nothing_else() {
        let key = PrivateKey::new("ci", 1_800_000_000, Some(60)).unwrap();
        let signature = key.sign(0, &[b"document"], 1_800_000_001, &[]);
        let public = key.public();
        public.verify(b"document", &signature).unwrap();
        assert!(public.verify(b"documents", &signature).is_err());
        let is_accepted = |at: &usize| {
            let mut spoilt = signature.clone();
            spoilt[*at] ^= 1;
            public.verify(b"document", &spoilt).is_ok()
        };
        assert_eq!((0..signature.len()).filter(is_accepted).count(), 10, "who has issued it is not signed");
        assert!((0..signature.len()).all(|length| public.verify(b"document", &signature[..length]).is_err()));
        assert!(public.counts(1_800_000_059) && !public.counts(1_800_000_060));
    }
}
