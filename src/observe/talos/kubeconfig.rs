//! The kubeconfig that Talos generates for a cluster administrator.

use std::io::Read as _;

use flate2::read::GzDecoder;
use talos_api::google::protobuf::Empty;
use tonic::Request;

use super::call::{Caller, Route};
use super::machine::{bytes, client, malformed};
use crate::snapshot::{Gap, GapKind, Observed};

/// Size limit for the archive and the kubeconfig, in bytes. Real ones have a few thousand.
const LARGEST: usize = 1 << 20;
const TOO_LARGE: &str = "Kubeconfig: more than 1 MiB";
/// A tar header, in bytes.
const HEADER: usize = 512;

impl Caller {
    pub(super) async fn kubeconfig(&self, to: &Route<'_>) -> Observed<String> {
        let archive = self.call(to, Empty {}, |live, request: Request<Empty>| async move {
            bytes(client(live, LARGEST).kubeconfig(request).await?.into_inner(), LARGEST, TOO_LARGE).await
        });
        unpack(&archive.await?)
    }
}

/// Extracts the first file of the archive. Talos never closes its tar writer, so there is neither padding nor an end marker.
fn unpack(archive: &[u8]) -> Observed<String> {
    let mut tar = GzDecoder::new(archive);
    let mut header = [0; HEADER];
    tar.read_exact(&mut header).map_err(|_| malformed("Kubeconfig: not a compressed archive"))?;
    let size = size(&header).ok_or_else(|| malformed("Kubeconfig: not a tar header"))?;
    if size > LARGEST {
        return Err(Gap::new(GapKind::TooLarge, TOO_LARGE));
    }
    let mut content = vec![0; size];
    tar.read_exact(&mut content).map_err(|_| malformed("Kubeconfig: the archive ends too early"))?;
    let text = String::from_utf8(content).map_err(|_| malformed("Kubeconfig: not text"))?;
    if text.trim().is_empty() { Err(malformed("Kubeconfig: an empty file")) } else { Ok(text) }
}

/// Returns the size of the regular file that a tar header announces, if its checksum matches.
fn size(header: &[u8; HEADER]) -> Option<usize> {
    let octal = |range: std::ops::Range<usize>| {
        let text = std::str::from_utf8(&header[range]).ok()?;
        usize::from_str_radix(text.trim_matches(['\0', ' ']), 8).ok()
    };
    let checksum = 148..156;
    // The checksum counts its own bytes as spaces.
    let sum =
        header.iter().enumerate().map(|(at, byte)| usize::from(if checksum.contains(&at) { b' ' } else { *byte }));
    let regular = matches!(header[156], b'0' | 0);
    (regular && octal(checksum.clone())? == sum.sum::<usize>()).then(|| octal(124..136))?
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    /// Packs a kubeconfig like Talos: header and content, and nothing after them.
    pub(in super::super) fn pack(content: &str) -> Vec<u8> {
        gzip(&[header(content.len()).as_slice(), content.as_bytes()].concat())
    }

    fn header(size: usize) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..10].copy_from_slice(b"kubeconfig");
        header[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
        header[148..156].fill(b' ');
        header[156] = b'0';
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        header
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut writer = GzEncoder::new(Vec::new(), Compression::fast());
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn one_file_without_padding() {
        assert_eq!(unpack(&pack("kind: Config\n")).unwrap(), "kind: Config\n");
    }

    #[test]
    fn fuzz_archives() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let _ = unpack(bytes);
            // The fuzzer rarely produces a valid compressed archive by chance.
            if let Ok(text) = unpack(&gzip(bytes)) {
                assert!(text.len() <= LARGEST);
            }
        });
    }

    #[test]
    fn broken_archives() {
        let kind = |bytes: &[u8]| unpack(bytes).unwrap_err().kind;
        assert_eq!(kind(b""), GapKind::Malformed);
        assert_eq!(kind(b"kind: Config"), GapKind::Malformed);
        assert_eq!(kind(&pack("")), GapKind::Malformed);
        assert_eq!(kind(&gzip(&[0; HEADER])), GapKind::Malformed);
        assert_eq!(kind(&gzip(&header(10))), GapKind::Malformed);
        assert_eq!(kind(&gzip(&header(LARGEST + 1))), GapKind::TooLarge);
        let whole = pack("kind: Config\n");
        assert_eq!(kind(&whole[..whole.len() / 2]), GapKind::Malformed);
    }
}
