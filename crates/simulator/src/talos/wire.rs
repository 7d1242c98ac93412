//! gRPC framing, and the small part of protobuf that apid needs to extend answers without knowing their types.

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body_util::BodyExt as _;
use talos_api::Message as _;
use talos_api::common::{Data, Metadata};
use talos_api::google::rpc;
use tonic::body::Body;
use tonic::{Code, Status};

/// Length of the prefix of each message: a compression flag, and the length.
pub(super) const PREFIX: usize = 5;

/// Field 1, length-delimited: `messages` of every unary answer, `metadata` of every part of one.
const FIRST_FIELD: u8 = 0x0a;

/// The messages of an answer in sequence.
pub(super) struct Messages {
    body: Body,
    /// Bytes of the next messages that have arrived.
    buffer: BytesMut,
    /// The error of a call that failed before its first message.
    failed: Option<Status>,
}

impl Messages {
    pub(super) fn of(answer: Result<http::Response<Body>, Status>) -> Self {
        let (body, failed) = match answer {
            Ok(answer) => {
                let failed = Status::from_header_map(answer.headers()).filter(|status| status.code() != Code::Ok);
                (answer.into_body(), failed)
            }
            Err(status) => (Body::empty(), Some(status)),
        };
        Self { body, buffer: BytesMut::new(), failed }
    }

    pub(super) async fn next(&mut self) -> Option<Result<Bytes, Status>> {
        if let Some(status) = self.failed.take() {
            return Some(Err(status));
        }
        loop {
            if let Some(message) = self.complete() {
                return Some(Ok(message));
            }
            match self.body.frame().await?.map(hyper::body::Frame::into_data) {
                Ok(Ok(data)) => self.buffer.extend_from_slice(&data),
                Ok(Err(trailers)) => {
                    let status = Status::from_header_map(&trailers.into_trailers().unwrap_or_default());
                    return status.filter(|status| status.code() != Code::Ok).map(Err);
                }
                Err(status) => return Some(Err(status)),
            }
        }
    }

    fn complete(&mut self) -> Option<Bytes> {
        let length = self.buffer.get(1..PREFIX)?.try_into().ok().map(u32::from_be_bytes)?;
        let whole = PREFIX + usize::try_from(length).ok()?;
        (self.buffer.len() >= whole).then(|| self.buffer.split_to(whole).freeze().slice(PREFIX..))
    }
}

/// Frames a message for a stream.
pub(super) fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(PREFIX + message.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.put_slice(message);
    framed.freeze()
}

/// The only part of a unary answer, without its field header.
pub(super) fn only_part(answer: &[u8]) -> &[u8] {
    let Some((&FIRST_FIELD, rest)) = answer.split_first() else { return answer };
    let length = rest.iter().take_while(|byte| **byte >= 0x80).count() + 1;
    rest.get(length..).unwrap_or_default()
}

/// Encodes one of several parts of a unary answer.
pub(super) fn part(content: &[u8]) -> Vec<u8> {
    let mut part = vec![FIRST_FIELD];
    let mut length = content.len();
    while length >= 0x80 {
        part.push(u8::try_from(length & 0x7f).unwrap_or_default() | 0x80);
        length >>= 7;
    }
    part.push(u8::try_from(length).unwrap_or_default());
    part.extend_from_slice(content);
    part
}

/// A message followed by the machine that sent it, or by the error of the call there. All messages have their metadata in the same field,
/// so [`Data`] can encode it for any of them.
pub(super) fn signed(node: &str, message: Result<&[u8], &Status>) -> Vec<u8> {
    let mut metadata = Metadata { hostname: node.to_owned(), ..Metadata::default() };
    if let Err(status) = message {
        metadata.error = go_error(status);
        metadata.status = Some(rpc::Status { code: status.code().into(), message: status.message().to_owned() });
    }
    let metadata = Data { metadata: Some(metadata), ..Data::default() };
    [message.unwrap_or_default(), &metadata.encode_to_vec()].concat()
}

/// A status in Go's format.
pub(super) fn go_error(status: &Status) -> String {
    let code = match status.code() {
        Code::Ok => "OK".to_owned(),
        Code::Cancelled => "Canceled".to_owned(),
        code => format!("{code:?}"),
    };
    format!("rpc error: code = {code} desc = {}", status.message())
}

#[cfg(test)]
mod tests {
    use talos_api::machine::{Hostname, HostnameResponse};

    use super::*;

    #[test]
    fn parts_of_any_length_are_signed_and_put_together() {
        let names = [String::new(), "a".repeat(200), "b".repeat(20_000)];
        let mut whole = Vec::new();
        for name in &names {
            let hostname = Hostname { metadata: None, hostname: name.clone() };
            let answer = HostnameResponse { messages: vec![hostname] }.encode_to_vec();
            whole.extend(part(&signed("cp-1", Ok(only_part(&answer)))));
        }
        whole.extend(part(&signed("cp-2", Err(&Status::cancelled("gone")))));
        let mut messages = HostnameResponse::decode(&whole[..]).unwrap().messages;
        let failed = messages.pop().unwrap().metadata.unwrap();
        assert_eq!(failed.error, "rpc error: code = Canceled desc = gone");
        assert_eq!(failed.status.unwrap().code, 1);
        for (message, name) in messages.iter().zip(&names) {
            assert_eq!(&message.hostname, name);
            assert_eq!(message.metadata.as_ref().unwrap().hostname, "cp-1");
        }
    }
}
