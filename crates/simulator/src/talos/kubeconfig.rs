//! The administrator's kubeconfig, archived like Talos does it.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::pki::Flaw;
use crate::state::ClusterState;

const BLOCK: usize = 512;

/// Creates the archive for one call: a compressed tar archive of one file.
pub(super) fn archive(state: &ClusterState) -> anyhow::Result<Vec<u8>> {
    let content = state.kubeconfig("admin", Flaw::None)?;
    let mut archive = GzEncoder::new(Vec::new(), Compression::default());
    archive.write_all(&header("kubeconfig", content.len())?)?;
    archive.write_all(content.as_bytes())?;
    // Talos never closes its archive: the last block is not padded, and no empty blocks follow.
    Ok(archive.finish()?)
}

/// Header of a regular file in the POSIX ustar format.
fn header(name: &str, size: usize) -> anyhow::Result<[u8; BLOCK]> {
    let mut header = [0; BLOCK];
    let put = |mut at: &mut [u8], text: &str| at.write_all(text.as_bytes());
    put(&mut header[..100], name)?;
    put(&mut header[100..108], "0000600\0")?;
    put(&mut header[108..116], "0000000\0")?;
    put(&mut header[116..124], "0000000\0")?;
    put(&mut header[124..136], &format!("{size:011o}\0"))?;
    put(&mut header[136..148], "00000000000\0")?;
    // The checksum is calculated as if its own field contained spaces.
    put(&mut header[148..156], "        ")?;
    put(&mut header[156..157], "0")?;
    put(&mut header[257..265], "ustar\x0000")?;
    let sum: u32 = header.iter().copied().map(u32::from).sum();
    (&mut header[148..156]).write_all(format!("{sum:06o}\0 ").as_bytes())?;
    Ok(header)
}
