//! The one place through which every call to Talos goes.

use std::any::{Any, type_name};
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

/// Largest messages that we take, in bytes: of what is said in a few words, a resource among them, and of what lists what a machine
/// has. Talos's own limit is 32 MiB, of which a machine that means harm could make gigabytes.
pub(super) const SMALL: usize = 64 << 10;
pub(super) const LIST: usize = 512 << 10;
/// The same of one whose certificate we do not know.
const OF_STRANGERS: usize = 4 << 10;
/// Calls in flight, and those of them to nodes that were slow before: they must not starve the living. A thousand nodes are asked
/// some 20,000 questions; at 100 ms a round trip, an attempt of 10 s has to have room for them.
const IN_FLIGHT: usize = 1024;
const IN_FLIGHT_SLOW: usize = 64;
/// Machines that are asked at once. Each of them has a call in flight or is about to, so that it is the calls that limit them; but
/// all that a machine may be asked takes tens of kilobytes until it is answered, and there may be thousands.
const AT_ONCE: usize = IN_FLIGHT;

/// Which budget a call is paid from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lane {
    #[default]
    Normal,
    /// The node was silent in an earlier round.
    Slow,
}

/// Whom to ask.
#[derive(Clone, Copy)]
pub(super) struct Route<'a> {
    pub(super) link: &'a Link,
    /// The address that apid forwards to; `None`: the endpoint itself.
    pub(super) node: Option<&'a str>,
    pub(super) lane: Lane,
    /// When the round ends for us.
    pub(super) until: Instant,
}

impl Route<'_> {
    /// Of a call that is answered with a `P`.
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

/// Why a call has no result.
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
    /// For one call, connecting included.
    timeout: Duration,
    /// No message is larger, whatever is asked.
    largest: usize,
    cluster: Option<MetadataValue<Ascii>>,
    calls: Lanes,
    machines: Semaphore,
}

struct Lanes {
    normal: Semaphore,
    slow: Semaphore,
}

/// One of the places there are, for as long as the permit is kept.
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
        Self { timeout, largest: usize::MAX, cluster, calls, machines }
    }

    /// Who asks somebody that may be anybody.
    pub(super) fn of_strangers(timeout: Duration) -> Self {
        Self { largest: OF_STRANGERS, ..Self::new(timeout, None) }
    }

    /// What is left of a limit of a message.
    pub(super) fn at_most(&self, bytes: usize) -> usize {
        self.largest.min(bytes)
    }

    /// For one call, connecting included.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The turn of a machine, for as long as the permit is kept.
    pub(super) async fn turn(&self, until: Instant) -> Result<SemaphorePermit<'_>, Gap> {
        place(&self.machines, until).await
    }

    /// Opens the connection of `link` if it is not open, so that what follows cannot fail for that reason five times over.
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

    /// Asks once. `send` makes the call on the connection it is given, with the request it is given; it may be run a second
    /// time if a connection from an earlier round turns out to be dead, so it must only read.
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

    /// As [`call`](Self::call), for one whose answer takes as long as `timeout`.
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
            // Boxed from here on: a thousand nodes have some twenty thousand calls that wait for their turn, and those shall be small.
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
                    // A dead connection knows it by now; if not, it must not be taken again.
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
        // The server gives up a little earlier than we do, so that its reason still arrives.
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
}
