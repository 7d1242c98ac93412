//! The bytes of one connection, slowed down or stopped by its port.

use std::collections::VecDeque;
use std::future::Future as _;
use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use super::ports::Tie;

/// Maximum number of bytes in transit. Further bytes have to wait.
const CAPACITY: usize = 4 << 20;
const CHUNK: usize = 16 << 10;

/// A connection whose bytes arrive late.
///
/// The whole delay of a round trip applies to incoming bytes, so a request costs it once. Connecting costs it once more: the first bytes
/// only set out when the connection would have been established.
pub(super) struct Line {
    socket: Arc<TcpStream>,
    tie: Tie,
    opened: Instant,
    inbound: Inbound,
    outbound: Timer,
}

/// Bytes that have set out and have not arrived.
#[derive(Default)]
struct Inbound {
    /// Chunks with their times of arrival, which never decrease.
    chunks: VecDeque<(Instant, Arrival)>,
    bytes: usize,
    ended: bool,
    timer: Timer,
    /// Buffer for reading, allocated when bytes are delayed for the first time.
    buffer: Vec<u8>,
}

enum Arrival {
    Bytes { chunk: Vec<u8>, taken: usize },
    End,
    Failure(io::Error),
}

impl Line {
    pub(super) fn new(socket: Arc<TcpStream>, tie: Tie) -> Self {
        Self { socket, tie, opened: Instant::now(), inbound: Inbound::default(), outbound: Timer::default() }
    }

    /// Reads all available bytes and schedules their arrival.
    fn depart(&mut self, cx: &mut Context<'_>, delay: Duration) {
        let inbound = &mut self.inbound;
        inbound.buffer.resize(CHUNK, 0);
        while !inbound.ended && inbound.bytes < CAPACITY {
            let mut buffer = ReadBuf::new(&mut inbound.buffer);
            let Poll::Ready(read) = read(&self.socket, cx, &mut buffer) else { return };
            let chunk = buffer.filled();
            let arrival = match read {
                Ok(()) if !chunk.is_empty() => Arrival::Bytes { chunk: chunk.to_vec(), taken: 0 },
                Ok(()) => Arrival::End,
                Err(error) => Arrival::Failure(error),
            };
            inbound.bytes += chunk.len();
            inbound.ended = !matches!(arrival, Arrival::Bytes { .. });
            let at = Instant::now().max(self.opened + delay) + delay;
            let at = inbound.chunks.back().map_or(at, |(before, _)| at.max(*before));
            inbound.chunks.push_back((at, arrival));
        }
    }
}

impl AsyncRead for Line {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.tie.holds() {
            return Poll::Pending;
        }
        let (delay, _) = self.tie.pace();
        if delay.is_zero() && self.inbound.chunks.is_empty() && !self.inbound.ended {
            return read(&self.socket, cx, buffer);
        }
        self.depart(cx, delay);
        let inbound = &mut self.inbound;
        let Some((at, arrival)) = inbound.chunks.front_mut() else {
            return if inbound.ended { Poll::Ready(Ok(())) } else { Poll::Pending };
        };
        ready!(inbound.timer.poll(cx, *at));
        if let Arrival::Bytes { chunk, taken } = arrival {
            let rest = &chunk[*taken..];
            let length = rest.len().min(buffer.remaining());
            buffer.put_slice(&rest[..length]);
            *taken += length;
            inbound.bytes -= length;
            if *taken < chunk.len() {
                return Poll::Ready(Ok(()));
            }
        }
        match inbound.chunks.pop_front() {
            Some((_, Arrival::Failure(error))) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for Line {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if !self.tie.holds() {
            return Poll::Pending;
        }
        let (_, pause) = self.tie.pace();
        if pause.is_zero() {
            return write(&self.socket, cx, bytes);
        }
        ready!(self.outbound.poll_armed(cx));
        let written = ready!(write(&self.socket, cx, &bytes[..bytes.len().min(1)]))?;
        self.outbound.arm(Instant::now() + pause);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.tie.holds() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.tie.holds() {
            Poll::Ready(SockRef::from(&*self.socket).shutdown(Shutdown::Write))
        } else {
            Poll::Pending
        }
    }
}

fn read(socket: &TcpStream, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
    loop {
        ready!(socket.poll_read_ready(cx))?;
        match socket.try_read(buffer.initialize_unfilled()) {
            Ok(length) => {
                buffer.advance(length);
                return Poll::Ready(Ok(()));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Poll::Ready(Err(error)),
        }
    }
}

fn write(socket: &TcpStream, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
    loop {
        ready!(socket.poll_write_ready(cx))?;
        match socket.try_write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            written => return Poll::Ready(written),
        }
    }
}

/// A timer for a point in time.
#[derive(Default)]
struct Timer(Option<Pin<Box<Sleep>>>);

impl Timer {
    fn arm(&mut self, at: Instant) {
        match &mut self.0 {
            Some(sleep) if sleep.deadline() == at => {}
            Some(sleep) => sleep.as_mut().reset(at),
            None => self.0 = Some(Box::pin(sleep_until(at))),
        }
    }

    fn poll_armed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().map_or(Poll::Ready(()), |sleep| sleep.as_mut().poll(cx))
    }

    fn poll(&mut self, cx: &mut Context<'_>, at: Instant) -> Poll<()> {
        self.arm(at);
        self.poll_armed(cx)
    }
}
