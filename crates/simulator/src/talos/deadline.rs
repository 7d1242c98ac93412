//! The caller's deadline, which a gRPC server also observes.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use hyper::body::{Body as _, Frame};
use tokio::time::{Instant, Sleep};
use tonic::Status;
use tonic::body::Body;

/// The time by which the answer must be complete, from `grpc-timeout`.
pub(super) fn of(headers: &HeaderMap) -> Result<Option<Instant>, Status> {
    let Some(value) = headers.get("grpc-timeout") else { return Ok(None) };
    let timeout = value.to_str().ok().and_then(timeout);
    let timeout = timeout.ok_or_else(|| Status::internal(format!("malformed grpc-timeout: {value:?}")))?;
    Ok(Instant::now().checked_add(timeout))
}

/// Parses a timeout: at most eight digits, and a unit.
fn timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// The error with Go's message.
pub(super) fn exceeded() -> Status {
    Status::deadline_exceeded("context deadline exceeded")
}

/// Returns the result, or an error after the deadline.
pub(super) async fn within<T>(
    deadline: Option<Instant>,
    work: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, work).await.unwrap_or_else(|_| Err(exceeded())),
        None => work.await,
    }
}

/// An answer whose stream ends at the deadline.
pub(super) fn end_at(deadline: Option<Instant>, answer: http::Response<Body>) -> http::Response<Body> {
    let Some(deadline) = deadline else { return answer };
    if answer.body().is_end_stream() {
        return answer;
    }
    answer
        .map(|inner| Body::new(EndsAt { inner, deadline: Box::pin(tokio::time::sleep_until(deadline)), ended: false }))
}

struct EndsAt {
    inner: Body,
    deadline: Pin<Box<Sleep>>,
    ended: bool,
}

impl hyper::body::Body for EndsAt {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            return Poll::Ready(frame);
        }
        std::task::ready!(self.deadline.as_mut().poll(context));
        self.ended = true;
        Poll::Ready(Some(trailers(&exceeded()).map(Frame::trailers)))
    }
}

/// Trailers that end a stream with a status.
pub(super) fn trailers(status: &Status) -> Result<HeaderMap, Status> {
    let mut trailers = HeaderMap::new();
    status.add_header(&mut trailers)?;
    Ok(trailers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_as_the_protocol_has_them() {
        assert_eq!(timeout("5S"), Some(Duration::from_secs(5)));
        assert_eq!(timeout("1500m"), Some(Duration::from_millis(1500)));
        assert_eq!(timeout("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        for malformed in ["", "S", "5", "+5S", "5s", "999999999n", "5µ"] {
            assert_eq!(timeout(malformed), None, "{malformed}");
        }
    }
}
