//! A protobuf codec like that of [`tonic_prost`] that limits the memory of decoded answers.
//!
//! An element of a list needs two bytes on the wire, and a hundred or more when decoded, so a limit of bytes does not limit memory.
//! Therefore the fields of a message are counted before it is decoded.

use std::marker::PhantomData;

use prost::Message;
use prost::bytes::Buf as _;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic_prost::ProstCodec;

/// Number of fields that any message may have, including those of nested messages, regardless of its length.
const FEW: usize = 4096;
/// Average number of bytes required for each further field. Real answers have twice as many, even though text can look like fields, too.
const FIELD: usize = 4;
/// Depth to which nested messages are counted. Services have events, which have times.
const DEEP: usize = 5;

/// Encodes `T`, decodes `U`.
pub struct Bounded<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Bounded<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for Bounded<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = <ProstCodec<T, U> as Codec>::Encoder;
    type Decoder = Counted<<ProstCodec<T, U> as Codec>::Decoder>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::default().encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        Counted(ProstCodec::<T, U>::default().decoder())
    }
}

/// Decodes messages whose fields have been counted.
pub struct Counted<D>(D);

impl<D: Decoder<Error = Status>> Decoder for Counted<D> {
    type Item = D::Item;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        // tonic provides the whole message in one piece.
        if buf.chunk().len() < buf.remaining() {
            return Err(Status::internal("a message in pieces"));
        }
        if is_large(buf.chunk()) {
            // Same wording as tonic's error about too many bytes.
            return Err(Status::out_of_range("Error, decoded message length too large: too many fields"));
        }
        self.0.decode(buf)
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}

fn is_large(message: &[u8]) -> bool {
    let mut left = FEW + message.len() / FIELD;
    count(message, DEEP, &mut left).is_none()
}

/// Subtracts the fields of a message from `left`. Returns `None` if there are more. Bytes that are not a message are counted up to the
/// point where they stop looking like one, because a decoder also decodes them up to there.
fn count(mut message: &[u8], deep: usize, left: &mut usize) -> Option<()> {
    while let Some(key) = varint(&mut message) {
        *left = left.checked_sub(1)?;
        let skipped = match key & 7 {
            0 => varint(&mut message).map(|_| 0),
            1 => Some(8),
            2 => varint(&mut message).and_then(|length| usize::try_from(length).ok()),
            5 => Some(4),
            // A group consists of the fields between two of these.
            3 | 4 => Some(0),
            _ => None,
        };
        let Some((field, rest)) = skipped.and_then(|length| message.split_at_checked(length)) else { break };
        if key & 7 == 2 && deep > 0 {
            count(field, deep - 1, left)?;
        }
        message = rest;
    }
    Some(())
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::Metadata;
    use crate::google::protobuf::Timestamp;
    use crate::machine::{
        MountStat, Mounts, MountsResponse, ServiceEvent, ServiceEvents, ServiceHealth, ServiceInfo, ServiceList,
        ServiceListResponse,
    };

    #[test]
    fn fuzz_messages() {
        bolero::check!().for_each(|bytes: &[u8]| {
            if !is_large(bytes) {
                let _ = ServiceListResponse::decode(bytes);
                let _ = MountsResponse::decode(bytes);
            }
        });
    }

    /// Encodes `content` as field `number`.
    fn part(number: u8, content: &[u8]) -> Vec<u8> {
        let mut message = vec![number << 3 | 2];
        prost::encoding::encode_varint(content.len() as u64, &mut message);
        message.extend(content);
        message
    }

    #[test]
    fn tiny_fields_are_not_decoded() {
        let empty = [0x0a, 0].repeat(100_000);
        // Empty versions; services or mounts; events of one service, with a valid and an invalid end.
        let events = |events: &[u8]| part(1, &part(2, &part(3, events)));
        for message in [
            empty.clone(),
            part(1, &[0x12, 0].repeat(100_000)),
            events(&empty),
            events(&[&empty[..], &[0xff]].concat()),
            [&[0x0b, 0x0c], &empty[..]].concat(),
            [0x08, 1].repeat(100_000),
        ] {
            assert!(is_large(&message));
        }
    }

    #[test]
    fn answers_of_machines_are_decoded() {
        let event = ServiceEvent {
            msg: "Health check failed: Get \"http://127.0.0.1:10248/healthz\": dial tcp 127.0.0.1:10248: refused"
                .into(),
            state: "Running".into(),
            ts: Some(Timestamp { seconds: 1_790_000_000, nanos: 123_456_789 }),
        };
        let health = ServiceHealth { healthy: true, last_message: event.msg.clone(), ..Default::default() };
        let service = ServiceInfo {
            id: "ext-qemu-guest-agent".into(),
            state: "Running".into(),
            events: Some(ServiceEvents { events: vec![event; 64] }),
            health: Some(health),
        };
        let metadata = Some(Metadata { hostname: "cp-1".into(), ..Default::default() });
        let list = ServiceList { metadata: metadata.clone(), services: vec![service; 40] };
        assert!(!is_large(&ServiceListResponse { messages: vec![list] }.encode_to_vec()));
        let stat = MountStat {
            filesystem: "tmpfs".into(),
            mounted_on: "/var/lib/kubelet/pods/072fc7ed-e96a-9792-0268-4a5eb8f25440/volumes/kubernetes.io~projected/x"
                .into(),
            size: 1 << 34,
            available: 1 << 33,
        };
        let mounts = Mounts { metadata, stats: vec![stat; 4000] };
        assert!(!is_large(&MountsResponse { messages: vec![mounts] }.encode_to_vec()));
        assert!(!is_large(b"") && !is_large(&[0xff; 64]));
    }
}
