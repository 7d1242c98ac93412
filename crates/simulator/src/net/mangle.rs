//! Answers that are corrupted on their way out.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as HttpBody, Bytes, Frame};
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tonic::body::Body;

/// The corruption of a response's body, stored in its extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mangle {
    /// Random bytes replace the answer.
    Garbage,
    /// The answer ends in the middle, with an error of its stream.
    Cut,
    /// The answer stops in the middle, and its stream stays open.
    Stall,
    /// The answer never ends.
    Endless,
}

/// Random but constant bytes that are neither text nor JSON nor protobuf nor TLS.
pub(super) const NOISE: [u8; 512] = {
    let mut noise = [0xff; 512];
    let mut state: u32 = 1;
    let mut at = 16;
    while at < noise.len() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        noise[at] = state.to_be_bytes()[0];
        at += 1;
    }
    noise
};

/// Filler of an endless body: a JSON decoder skips it, and a gRPC client keeps waiting for more.
const MORE: &[u8] = &[b' '; 64 << 10];

/// Pause between the first half of a truncated body and the error: HTTP/2 discards unsent data when a stream is reset.
const PAUSE: Duration = Duration::from_millis(10);

/// Applies the corruption that the response itself specifies.
pub(super) fn apply(mut response: Response<Body>) -> Response<Body> {
    let Some(mangle) = response.extensions_mut().remove::<Mangle>() else { return response };
    let kind = response.headers().get(CONTENT_TYPE).map_or(&[][..], |kind| kind.as_bytes());
    let grpc = kind.starts_with(b"application/grpc");
    if matches!(mangle, Mangle::Garbage | Mangle::Endless) {
        response.headers_mut().remove(CONTENT_LENGTH);
        response.headers_mut().remove(CONTENT_ENCODING);
    }
    response.map(|body| match mangle {
        Mangle::Garbage if grpc => {
            let trailers = HeaderMap::from_iter([(HeaderName::from_static("grpc-status"), HeaderValue::from(0))]);
            Body::new(Full::new(message(&NOISE)).with_trailers(async { Some(Ok(trailers)) }))
        }
        Mangle::Garbage => Body::new(Full::new(Bytes::from_static(&NOISE))),
        Mangle::Cut => Body::new(Half { body, end: None, cut: true }),
        Mangle::Stall => Body::new(Half { body, end: None, cut: false }),
        // The largest possible message.
        Mangle::Endless if grpc => Body::new(Endless(Some(Body::new(Full::from(&[0, 0xff, 0xff, 0xff, 0xff][..]))))),
        Mangle::Endless => Body::new(Endless(Some(body))),
    })
}

/// Frames a gRPC message.
fn message(content: &[u8]) -> Bytes {
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    [&[0], &length.to_be_bytes()[..], content].concat().into()
}

/// The first half of the first part, followed by an error or by nothing.
struct Half {
    body: Body,
    /// Timer until the error, once the half has been sent.
    end: Option<Pin<Box<Sleep>>>,
    cut: bool,
}

impl HttpBody for Half {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        while self.end.is_none() {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(cx)).transpose()?;
            let data = frame.map(Frame::into_data);
            if matches!(&data, Some(Ok(data)) if data.is_empty()) {
                continue;
            }
            self.end = Some(Box::pin(sleep(PAUSE)));
            if let Some(Ok(data)) = data
                && data.len() > 1
            {
                return Poll::Ready(Some(Ok(Frame::data(data.slice(..data.len() / 2)))));
            }
        }
        if !self.cut {
            return Poll::Pending;
        }
        if let Some(end) = &mut self.end {
            ready!(end.as_mut().poll(cx));
        }
        Poll::Ready(Some(Err(Status::internal("cut"))))
    }
}

/// A body that is followed by endless filler.
struct Endless(Option<Body>);

impl HttpBody for Endless {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(body) = &mut self.0 {
            match ready!(Pin::new(body).poll_frame(cx)).transpose()? {
                Some(frame) if frame.is_data() => return Poll::Ready(Some(Ok(frame))),
                _ => self.0 = None,
            }
        }
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(MORE)))))
    }
}
