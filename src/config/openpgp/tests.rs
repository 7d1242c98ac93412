//! Keys made by the simulator and corrupted in every way, and signatures verified by the real gpg.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use simulator::openpgp::PrivateKey;

use super::*;

const CREATED: u32 = 1_800_000_000;
const YEAR: u32 = 365 * 24 * 60 * 60;

/// Armors packets as a private key, without a checksum: a wrong checksum would hide every later error.
pub(in crate::config) fn armored(packets: &[u8]) -> String {
    let body = STANDARD.encode(packets);
    format!("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{body}\n-----END PGP PRIVATE KEY BLOCK-----\n")
}

fn made(lasts: Option<u32>) -> PrivateKey {
    PrivateKey::new("ci <ci@serviceaccount.omni.sidero.dev>", CREATED, lasts).unwrap()
}

fn at(seconds: u32) -> Timestamp {
    Timestamp::from_second(seconds.into()).unwrap()
}

fn read_key(armored: &str) -> Result<SigningKey, Problem> {
    SigningKey::from_armor(armored, at(CREATED + 10))
}

#[test]
fn a_key_tells_its_name_and_its_end() {
    for lasts in [Some(YEAR), None] {
        let key = made(lasts);
        let read = read_key(&key.armored()).unwrap();
        assert_eq!(read.name, key.public().fingerprint);
        assert_eq!((read.created, read.ends), (at(CREATED), lasts.map(|lasts| at(CREATED + lasts))));
        let signature = read.sign(b"document", at(CREATED + 20));
        key.public().verify(b"document", &signature).unwrap();
        assert!(key.public().verify(b"another", &signature).is_err());
        let lines: String = key.armored().replace('\n', "\r\n");
        assert_eq!(read_key(&lines).unwrap().name, read.name);
    }
}

#[test]
fn numbers_with_zeros_in_front_are_signatures_too() {
    // In one of 128 signatures, a number is one byte shorter.
    let key = made(None);
    let read = read_key(&key.armored()).unwrap();
    for number in 0..400_u32 {
        let document = number.to_be_bytes();
        key.public().verify(&document, &read.sign(&document, at(CREATED))).unwrap();
    }
}

#[test]
fn what_is_no_such_key_is_told_in_its_own_words() {
    let (key, other) = (made(Some(YEAR)), made(Some(YEAR)));
    let (good, packets) = (key.armored(), key.packets());
    let problem = |text: &str| read_key(text).err();
    let sum = good.lines().find(|line| line.starts_with('=')).unwrap();
    let twice = [packets.clone(), other.packets()].concat();
    let edited = |at: usize, to: &[u8]| {
        let mut packets = packets.clone();
        packets[at..at + to.len()].copy_from_slice(to);
        armored(&packets)
    };
    // Head, length, version, time, algorithm; length and curve; point.
    let (version, algorithm, curve, point) = (2, 7, 9, 19);
    let encrypted = point + 33;
    for (text, expected) in [
        (String::new(), "is not an armored OpenPGP key"),
        ("hello".to_owned(), "is not an armored OpenPGP key"),
        (key.armored_public(), "is a public key: it cannot sign"),
        (good.replace("PGP PRIVATE", "EC PRIVATE"), "is armored, but not a private key"),
        (good.replace("-----END PGP PRIVATE KEY BLOCK-----", ""), "has no end line"),
        (good.replace("END PGP PRIVATE", "END PGP PUBLIC"), "has different labels at its beginning and end"),
        (good.replace(sum, "=AAAA"), "does not match its checksum: a part of it is missing or changed"),
        (good.replace(sum, "=***"), "does not match its checksum: a part of it is missing or changed"),
        (format!("{good}{}", other.armored()), "is followed by another block: it is unclear which key is meant"),
        (armored(&twice), "contains more than one key: it is unclear which one is meant"),
        (armored(&[]), "ends too early: a part of it is missing"),
        (armored(b"hello"), "is not an OpenPGP key"),
        (edited(version, &[6]), "is not a key of version 4, as Omni's keys are"),
        (edited(algorithm, &[1]), "is not an Ed25519 key (EdDSA, algorithm 22), as Omni's keys are"),
        (edited(algorithm, &[27]), "is not an Ed25519 key (EdDSA, algorithm 22), as Omni's keys are"),
        (edited(algorithm, &[28]), "is not an Ed25519 key (EdDSA, algorithm 22), as Omni's keys are"),
        (edited(curve, &[0x2c]), "uses another curve than Ed25519"),
        (edited(point + 1, &[0x04]), "has no Ed25519 point"),
        (edited(encrypted + 1, &[254]), "is encrypted with a passphrase, and no prompt is possible"),
        (edited(encrypted + 8, &[0; 4]), "has a secret that does not match its checksum"),
    ] {
        assert_eq!(problem(&text), Some(expected), "{text}");
    }
    assert!(read_key(&edited(0, &[packets[0]])).is_ok(), "nothing was changed");
}

#[test]
fn a_secret_of_another_key_is_none() {
    let (key, other) = (made(Some(YEAR)), made(Some(YEAR)));
    let (mut mixed, of_other) = (key.packets(), other.packets());
    let end = 2 + usize::from(mixed[1]);
    let secret = 2 + 6 + 10 + 35 + 1;
    mixed.splice(secret..end, of_other[secret..2 + usize::from(of_other[1])].iter().copied());
    mixed[1] = of_other[1];
    assert_eq!(read_key(&armored(&mixed)).err(), Some("has a secret that does not match its public part"));
}

#[test]
fn what_its_owner_has_not_signed_says_nothing() {
    let key = made(Some(YEAR));
    let packets = key.packets();
    let user = 2 + usize::from(packets[1]);
    let signed = user + 2 + usize::from(packets[user + 1]);
    assert_eq!(read_key(&armored(&packets[..signed])).err(), Some("has no self-signature with a validity period"));
    let end = at(CREATED + YEAR);
    for at in signed + 2..packets.len() {
        let mut spoilt = packets.clone();
        spoilt[at] ^= 1;
        // The issuer and the first bytes of the hash are not signed.
        let Ok(read) = read_key(&armored(&spoilt)) else { continue };
        assert_eq!(read.ends, Some(end), "byte {at}");
    }
    for length in 0..packets.len() {
        assert!(read_key(&armored(&packets[..length])).is_err(), "{length} bytes");
    }
}

#[test]
fn debug_keeps_the_key() {
    let key = made(Some(YEAR));
    let shown = format!("{:?}", read_key(&key.armored()).unwrap());
    assert!(shown.starts_with("SigningKey { name: \""), "{shown}");
    assert!(key.packets().windows(4).all(|bytes| !shown.contains(&format!("{bytes:?}").replace(['[', ']'], ""))));
}

/// Runs gpg in a separate home directory.
fn gpg(home: &Path, arguments: &[&str], input: &[u8]) -> std::io::Result<std::process::Output> {
    let mut command = Command::new("gpg");
    command.env("GNUPGHOME", home).args(["--batch", "--no-autostart", "--no-tty"]).args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().unwrap().write_all(input)?;
    child.wait_with_output()
}

#[test]
fn gpg_accepts_what_is_signed() {
    let now = Timestamp::now();
    let created = u32::try_from(now.as_second()).unwrap() - 60;
    let key = PrivateKey::new("ci <ci@serviceaccount.omni.sidero.dev>", created, Some(YEAR)).unwrap();
    let ours = SigningKey::from_armor(&key.armored(), now).unwrap();
    let home = tempfile::tempdir().unwrap();
    let Ok(imported) = gpg(home.path(), &["--import"], key.armored_public().as_bytes()) else {
        eprintln!("not tested: there is no gpg");
        return;
    };
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let document = br#"{"headers":{"runtime":["Talos"]},"method":"/machine.MachineService/Version"}"#;
    let path = home.path().join("signature");
    std::fs::write(&path, ours.sign(document, now)).unwrap();
    let path = path.to_str().unwrap();
    let verified = gpg(home.path(), &["--status-fd", "1", "--verify", path, "-"], document).unwrap();
    let said = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(verified.status.success() && said.contains("[GNUPG:] GOODSIG"), "{said}");
    assert!(said.contains(&format!("[GNUPG:] VALIDSIG {}", ours.name.to_uppercase())), "{said}");
    let other = gpg(home.path(), &["--status-fd", "1", "--verify", path, "-"], b"another").unwrap();
    assert!(!other.status.success() && String::from_utf8_lossy(&other.stdout).contains("[GNUPG:] BADSIG"));
}
