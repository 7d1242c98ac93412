//! The single place that all calls to Talos pass through.

use std::any::{Any, type_name};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use talos_api::cosi::resource::{GetRequest, ListRequest};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Request, Status};

use super::refusal;
use crate::observe::dial::cause;
use crate::observe::dial::http2::{EndpointAddress, Http2, Link};
#[cfg(feature = "record")]
use crate::observe::record::talos::{Connection, Tape};
use crate::observe::trace::Span;
use crate::snapshot::{Gap, GapKind, Observed};

/// Size limits for messages, in bytes: for short answers, including a resource, and for lists of a machine's contents. Talos's own limit is
/// 32 MiB, which would let a malicious machine produce gigabytes.
pub(super) const SMALL: usize = 64 << 10;
pub(super) const LIST: usize = 512 << 10;
/// The size limit for an unverified peer.
const OF_STRANGERS: usize = 4 << 10;
/// Limits for calls in flight, in total and to nodes that were slow before, which must not starve the others. A thousand nodes receive some
/// 15,000 calls; at 100 ms per round trip, an attempt of 10 s has room for three times as many. Each call in flight takes 20 kB.
/// Machines that answer nothing but their version have 15 calls in flight until these time out.
const IN_FLIGHT: usize = 512;
const IN_FLIGHT_SLOW: usize = 64;
/// Additional calls in flight in a cluster of up to this many machines: they all fit into one round trip, and the few answers of a small
/// cluster leave memory for them.
const SMALL_CLUSTER: usize = 128;
const MORE_IN_FLIGHT: usize = 1536;
/// Limit for machines that are queried at once. Each has a call in flight or is about to, so the limit on calls is the effective one.
/// However, all calls for a machine take more than ten kilobytes until they are answered, and there may be thousands of machines.
const AT_ONCE: usize = IN_FLIGHT;

/// The limit that a call counts toward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lane {
    #[default]
    Normal,
    /// The node was silent in an earlier round.
    Slow,
}

/// The recipient of a call.
#[derive(Clone, Copy)]
pub(super) struct Route<'a> {
    pub(super) link: &'a Link,
    /// The address that apid forwards to; `None` for the endpoint itself.
    pub(super) node: Option<&'a str>,
    pub(super) lane: Lane,
    /// The end of the round.
    pub(super) until: Instant,
}

impl Route<'_> {
    /// Begins the trace span of a call with a `P` as the answer.
    fn span<Q: 'static, P>(&self, message: &Q) -> Span {
        Span::begin(|| {
            let message: &dyn Any = message;
            let kind = |name: &str| name.split('.').next().unwrap_or(name).to_owned();
            let get = message.downcast_ref().map(|of: &GetRequest| format!("Get {}", kind(&of.r#type)));
            let list = || message.downcast_ref().map(|of: &ListRequest| format!("List {}", kind(&of.r#type)));
            let short = |name: &'static str| name.rsplit("::").next().unwrap_or(name);
            let other = || match (short(type_name::<Q>()), short(type_name::<P>())) {
                ("Empty", answer) => answer.strip_suffix("Response").unwrap_or("Kubeconfig").to_owned(),
                (question, _) => question.trim_end_matches("Request").to_owned(),
            };
            let EndpointAddress { host, port, .. } = &self.link.address;
            let mut at = vec![("server.address", host.as_str().into()), ("server.port", (*port).into())];
            at.extend(self.node.map(|node| ("talos.node", node.into())));
            (get.or_else(list).unwrap_or_else(other), at)
        })
    }
}

/// The reason why a call has no result.
pub(super) enum Failure {
    Status(Status),
    Gap(Gap),
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl From<Gap> for Failure {
    fn from(gap: Gap) -> Self {
        Self::Gap(gap)
    }
}

pub(super) struct Caller {
    /// Time limit for one call, connecting included.
    timeout: Duration,
    /// Size limit for any message.
    largest: usize,
    cluster: Option<MetadataValue<Ascii>>,
    calls: Lanes,
    machines: Semaphore,
    is_small: AtomicBool,
}

struct Lanes {
    normal: Semaphore,
    slow: Semaphore,
}

/// Waits for a permit, which occupies one of the available places while it is kept.
async fn place(of: &Semaphore, until: Instant) -> Result<SemaphorePermit<'_>, Gap> {
    match timeout_at(until, of.acquire()).await {
        Ok(Ok(permit)) if Instant::now() < until => Ok(permit),
        // The semaphores are never closed.
        Ok(_) | Err(_) => Err(Gap::new(GapKind::NotAsked, "the round ended before this request's turn")),
    }
}

impl Lanes {
    fn new(normal: usize, slow: usize) -> Self {
        Self { normal: Semaphore::new(normal), slow: Semaphore::new(slow) }
    }

    async fn turn(&self, lane: Lane, until: Instant) -> Result<SemaphorePermit<'_>, Gap> {
        let lane = match lane {
            Lane::Normal => &self.normal,
            Lane::Slow => &self.slow,
        };
        place(lane, until).await
    }
}

impl Caller {
    pub(super) fn new(timeout: Duration, cluster: Option<MetadataValue<Ascii>>) -> Self {
        let (calls, machines) = (Lanes::new(IN_FLIGHT, IN_FLIGHT_SLOW), Semaphore::new(AT_ONCE));
        Self { timeout, largest: usize::MAX, cluster, calls, machines, is_small: AtomicBool::new(false) }
    }

    /// Returns a caller for unverified peers.
    pub(super) fn of_strangers(timeout: Duration) -> Self {
        Self { largest: OF_STRANGERS, ..Self::new(timeout, None) }
    }

    /// Returns the size limit of a message, capped by the caller's own limit.
    pub(super) fn at_most(&self, bytes: usize) -> usize {
        self.largest.min(bytes)
    }

    /// Returns the time limit for one call, connecting included.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Adjusts the limit for calls in flight to the size of the cluster, which can grow while a run waits.
    pub(super) fn expect(&self, machines: usize) {
        let is_small = machines <= SMALL_CLUSTER;
        match (self.is_small.swap(is_small, Ordering::Relaxed), is_small) {
            (false, true) => self.calls.normal.add_permits(MORE_IN_FLIGHT),
            (true, false) => drop(self.calls.normal.forget_permits(MORE_IN_FLIGHT)),
            (false, false) | (true, true) => {}
        }
    }

    /// Whether all calls to all machines can be in flight at once.
    pub(super) fn is_small(&self) -> bool {
        self.is_small.load(Ordering::Relaxed)
    }

    /// Waits for a machine's turn, which lasts as long as the permit is kept.
    pub(super) async fn turn(&self, until: Instant) -> Result<SemaphorePermit<'_>, Gap> {
        place(&self.machines, until).await
    }

    /// Opens the connection of `link` if it is not open, so that the calls after it do not each fail for the same reason.
    pub(super) async fn connect(&self, link: &Link, until: Instant) -> Result<(), Gap> {
        #[cfg(feature = "record")]
        let mut tape = Tape::new::<Connection>(link.address.authority(), None, &());
        let opened = async {
            let _permit = self.calls.turn(Lane::Normal, until).await?;
            let deadline = until.min(Instant::now() + self.timeout);
            timeout_at(deadline, Box::pin(link.open())).await.map_err(|_| link.silence(self.timeout))??;
            Ok(())
        };
        let opened = opened.await;
        #[cfg(feature = "record")]
        tape.end(&opened);
        opened
    }

    /// Makes one call. `send` makes it on the given connection with the given request. It may run a second time if a connection from an
    /// earlier round turns out to be dead, so it must only read.
    pub(super) async fn call<Q, P, F>(
        &self,
        to: &Route<'_>,
        message: Q,
        send: impl Fn(Http2, Request<Q>) -> F,
    ) -> Observed<P>
    where
        Q: Clone + 'static,
        F: Future<Output = Result<P, Failure>>,
    {
        self.call_within(to, self.timeout, message, send).await
    }

    /// Makes a call like [`call`](Self::call) whose answer may take as long as `timeout`.
    pub(super) async fn call_within<Q, P, F>(
        &self,
        to: &Route<'_>,
        timeout: Duration,
        message: Q,
        send: impl Fn(Http2, Request<Q>) -> F,
    ) -> Observed<P>
    where
        Q: Clone + 'static,
        F: Future<Output = Result<P, Failure>>,
    {
        #[cfg(feature = "record")]
        let mut tape = Tape::new::<P>(to.link.address.authority(), to.node, &message);
        #[cfg(feature = "record")]
        let send = |live: Http2, request| send(live.recorded(tape.reel()), request);
        let outcome = async {
            let _permit = self.calls.turn(to.lane, to.until).await?;
            let mut span = to.span::<Q, P>(&message);
            let bytes = span.bytes();
            let send = |live: Http2, request| send(live.counted(bytes.clone()), request);
            // Boxed from here on: a thousand nodes have some fifteen thousand waiting calls, which have to be small.
            let asked = Box::pin(self.asked(to, timeout, message, send)).await;
            span.end(&asked);
            asked
        };
        let outcome = outcome.await;
        #[cfg(feature = "record")]
        tape.end(&outcome);
        outcome
    }

    async fn asked<Q, P, F>(
        &self,
        to: &Route<'_>,
        timeout: Duration,
        message: Q,
        send: impl Fn(Http2, Request<Q>) -> F,
    ) -> Observed<P>
    where
        Q: Clone,
        F: Future<Output = Result<P, Failure>>,
    {
        let deadline = to.until.min(Instant::now() + timeout);
        let mut again = true;
        loop {
            let (live, reused) =
                timeout_at(deadline, Box::pin(to.link.open())).await.map_err(|_| to.link.silence(timeout))??;
            let request = self.request(message.clone(), to.node, deadline)?;
            let answers = live.answers();
            match timeout_at(deadline, send(live.clone(), request)).await {
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(Failure::Gap(gap))) => return Err(gap),
                Ok(Err(Failure::Status(status))) => {
                    let stale = reused && refusal::is_local(&status) && live.answers() == answers;
                    if !(stale && std::mem::take(&mut again)) {
                        let gap = refusal::gap(&status, to.node.is_some(), live.fault());
                        return Err(if live.is_signed() { refusal::of_omni(gap, live.ahead()) } else { gap });
                    }
                    // A dead connection is usually closed by now; if not, it must not be used again.
                    to.link.doubt(&live, answers).await;
                }
                Err(_) => {
                    to.link.doubt(&live, answers).await;
                    return Err(cause::no_answer(timeout));
                }
            }
        }
    }

    fn request<Q>(&self, message: Q, node: Option<&str>, deadline: Instant) -> Result<Request<Q>, Gap> {
        let mut request = Request::new(message);
        // Omni routes by these two, Talos ignores them.
        request.metadata_mut().insert("runtime", MetadataValue::from_static("Talos"));
        if let Some(cluster) = &self.cluster {
            request.metadata_mut().insert("context", cluster.clone());
        }
        if let Some(node) = node {
            let value = node.parse().ok().filter(|_| !node.is_empty()).ok_or_else(|| {
                Gap::new(GapKind::Malformed, cause::clean(&format!("`{node}` cannot be the address of a node")))
            })?;
            request.metadata_mut().insert("node", value);
        }
        // The server's deadline is a little earlier than ours, so that its error still arrives.
        let left = deadline.saturating_duration_since(Instant::now());
        request.set_timeout(left.saturating_sub((left / 10).min(Duration::from_millis(500))));
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHILE: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn whose_turn_does_not_come_in_time_is_not_asked() {
        let lanes = Lanes::new(1, 1);
        let turn = |lane| lanes.turn(lane, Instant::now() + WHILE);
        let first = turn(Lane::Normal).await.unwrap();
        assert_eq!(turn(Lane::Normal).await.unwrap_err().kind, GapKind::NotAsked);
        let _slow = turn(Lane::Slow).await.expect("those that hang wait in a lane of their own");
        drop(first);
        let late = lanes.turn(Lane::Normal, Instant::now()).await;
        assert_eq!(late.unwrap_err().kind, GapKind::NotAsked, "free, and the round is over");
        assert!(turn(Lane::Normal).await.is_ok());
    }

    #[test]
    fn a_small_cluster_receives_all_its_calls_at_once() {
        let caller = Caller::new(WHILE, None);
        let room = || caller.calls.normal.available_permits();
        caller.expect(SMALL_CLUSTER + 1);
        assert_eq!(room(), IN_FLIGHT);
        (0..2).for_each(|_| caller.expect(SMALL_CLUSTER));
        assert_eq!(room(), IN_FLIGHT + MORE_IN_FLIGHT);
        // A worker receives 15 calls.
        assert!(room() >= 15 * SMALL_CLUSTER);
        caller.expect(SMALL_CLUSTER + 1);
        assert_eq!(room(), IN_FLIGHT);
    }
}
