//! `OpenPGP` armor: base64 between two marker lines, and a 24-bit checksum.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::Problem;

const PRIVATE: &str = "PGP PRIVATE KEY BLOCK";

/// Decodes the packets of a text that is one private key block.
pub(super) fn private_key(text: &str) -> Result<Zeroizing<Vec<u8>>, Problem> {
    let mut lines = text.lines().map(str::trim).skip_while(|line| !line.starts_with("-----BEGIN "));
    let label = lines.next().and_then(|line| line.strip_prefix("-----BEGIN ")?.strip_suffix("-----"));
    match label {
        Some(PRIVATE) => {}
        Some("PGP PUBLIC KEY BLOCK") => return Err("is a public key: it cannot sign"),
        Some(_) => return Err("is armored, but not a private key"),
        None => return Err("is not an armored OpenPGP key"),
    }
    let mut lines = lines.skip_while(|line| line.contains(": ")).filter(|line| !line.is_empty());
    let mut body = Zeroizing::new(String::with_capacity(text.len()));
    let mut sum = None;
    loop {
        let line = lines.next().ok_or("has no end line")?;
        if let Some(rest) = line.strip_prefix("-----END ") {
            if rest.strip_suffix("-----") != Some(PRIVATE) {
                return Err("has different labels at its beginning and end");
            }
            break;
        }
        match line.strip_prefix('=').filter(|_| sum.is_none()) {
            Some(checksum) => sum = Some(checksum),
            None if sum.is_some() => return Err("has something after its checksum"),
            None => body.push_str(line),
        }
    }
    if lines.any(|line| line.starts_with("-----BEGIN ")) {
        return Err("is followed by another block: it is unclear which key is meant");
    }
    let bytes = Zeroizing::new(STANDARD.decode(body.as_bytes()).map_err(|_| "is not valid base64")?);
    if sum.is_some_and(|sum| STANDARD.decode(sum).ok().as_deref() != Some(&crc24(&bytes))) {
        return Err("does not match its checksum: a part of it is missing or changed");
    }
    Ok(bytes)
}

fn crc24(bytes: &[u8]) -> [u8; 3] {
    const BEGIN: u32 = 0x00b7_04ce;
    const POLYNOMIAL: u32 = 0x0186_4cfb;
    let crc = bytes.iter().fold(BEGIN, |crc, byte| {
        (0..8).fold(crc ^ (u32::from(*byte) << 16), |crc, _| {
            let shifted = crc << 1;
            if shifted & 0x0100_0000 == 0 { shifted } else { shifted ^ POLYNOMIAL }
        })
    });
    let [_, high, middle, low] = crc.to_be_bytes();
    [high, middle, low]
}
