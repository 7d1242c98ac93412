//! Answers that are spoilt on their way out.

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

/// Among the extensions of a response: what is done to its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mangle {
    /// Bytes that are no answer.
    Garbage,
    /// It breaks off in the middle, and so does its stream.
    Cut,
    /// It breaks off in the middle, and the stream stays open.
    Stall,
    /// It never ends.
    Endless,
}

/// Bytes at random, always the same ones: neither text nor JSON nor protobuf nor TLS.
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

/// What a JSON decoder waits through, and what no gRPC client ever has enough of.
const MORE: &[u8] = &[b' '; 64 << 10];

/// Between the first half of a body that is cut and the end: HTTP/2 forgets what it has not sent when a stream is reset.
const PAUSE: Duration = Duration::from_millis(10);

/// Does what the response itself asks for.
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
        // The largest message that there can be.
        Mangle::Endless if grpc => Body::new(Endless(Some(Body::new(Full::from(&[0, 0xff, 0xff, 0xff, 0xff][..]))))),
        Mangle::Endless => Body::new(Endless(Some(body))),
    })
}

/// A gRPC message as it is framed.
fn message(content: &[u8]) -> Bytes {
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    [&[0], &length.to_be_bytes()[..], content].concat().into()
}

/// The first half of the first part, and then an error or nothing.
struct Half {
    body: Body,
    /// When it is over, once it has been said.
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

/// A body, and then more and more.
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
