//! Bytes in JSON: a base64 string (RFC 4648, with padding) instead of a list of numbers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serializer;

pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}
