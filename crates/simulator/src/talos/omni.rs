//! Omni: verifies the signatures of calls, and forwards calls to machines. All rejected signatures get the same text.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue};
use hyper::body::Incoming;
use jiff::fmt::rfc2822;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tonic::Status;
use tonic::body::Body;

use super::access::Roles;
use super::deadline;
use super::dial::{self, Reached};
use super::machined::Machined;
use super::rpc::Rpc;
use crate::state::ClusterState;
use crate::world::{Omni, World};

/// Headers that a signature covers. A header that is missing in the request must be missing or null in the signed payload.
const COVERED: [&str; 10] = [
    "x-sidero-timestamp",
    "nodes",
    "selectors",
    "fieldSelectors",
    "runtime",
    "context",
    "cluster",
    "namespace",
    "uid",
    "authorization",
];
/// Maximum difference between the clocks in seconds.
const SKEW: i64 = 300;

pub(super) struct Front {
    state: Arc<ClusterState>,
    machined: Arc<Machined>,
    /// The address from which machines are called.
    at: IpAddr,
    turn: AtomicUsize,
}

impl Front {
    pub(super) fn new(state: &Arc<ClusterState>, machined: &Arc<Machined>, at: IpAddr) -> Self {
        Self { state: Arc::clone(state), machined: Arc::clone(machined), at, turn: AtomicUsize::new(0) }
    }

    pub(super) async fn answer(self: Arc<Self>, request: http::Request<Incoming>) -> http::Response<Body> {
        let answered = async {
            let mut rpc = Rpc::read(request).await?;
            let target = self.admit(&rpc)?;
            // Every verified caller has the role of a reader.
            rpc.roles = Roles::READER;
            let deadline = rpc.deadline;
            let machine = deadline::within(deadline, self.reach(target.as_deref())).await?;
            self.machined.answer(machine, rpc).await
        };
        let mut answer = answered.await.unwrap_or_else(Status::into_http);
        let now = self.state.world().omni.as_ref().map(Omni::now).unwrap_or_default();
        if let Some(date) = rfc2822::to_string(&now.to_zoned(jiff::tz::TimeZone::UTC)).ok()
            && let Ok(date) = HeaderValue::try_from(date.replace("+0000", "GMT"))
        {
            answer.headers_mut().insert(http::header::DATE, date);
        }
        answer
    }

    /// Verifies the caller, and returns the machine that the call is for.
    fn admit(&self, rpc: &Rpc) -> Result<Option<String>, Status> {
        let world = self.state.world();
        let headers = rpc.request.headers();
        let omni = world.omni.as_ref().ok_or_else(|| Status::unavailable("there is no Omni"))?;
        if verify(omni, rpc.path(), headers).is_none() {
            return Err(Status::unauthenticated("invalid signature"));
        }
        let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if value("runtime") != Some("Talos") {
            return Err(Status::unimplemented(format!("unknown service {}", rpc.method().0)));
        }
        let cluster = value("cluster").or(value("context"));
        match cluster {
            None => return Err(Status::invalid_argument("no cluster is named")),
            Some(name) if name != world.cluster => {
                return Err(Status::not_found(format!("cluster {name} is not found")));
            }
            Some(_) => {}
        }
        Ok(value("node").map(str::to_owned))
    }

    /// Connects to the target machine, and waits if it does not answer. Without a target, uses the next control plane in turn that can be
    /// reached.
    async fn reach(&self, target: Option<&str>) -> Result<IpAddr, Status> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let reached = self.state.when(|world| match target {
            Some(target) if !is_known(world, self.at, target) => {
                Some(Err(Status::not_found(format!("resolve nodes: {target:?} is not found"))))
            }
            Some(target) => match dial::dial(world, self.at, target) {
                Reached::Machine(machine, delay) => Some(Ok((machine, delay))),
                Reached::Failed(reason) => Some(Err(Status::unavailable(reason))),
                Reached::Silence => None,
            },
            None => {
                let dialed: Vec<_> =
                    world.control_planes().map(|at| dial::dial(world, self.at, &at.to_string())).collect();
                let open = dialed.iter().filter_map(|it| match it {
                    Reached::Machine(machine, delay) => Some((*machine, *delay)),
                    Reached::Failed(_) | Reached::Silence => None,
                });
                let open: Vec<_> = open.collect();
                match (turn.checked_rem(open.len()).and_then(|turn| open.get(turn)), dialed.first()) {
                    (Some(machine), _) => Some(Ok(*machine)),
                    (None, Some(Reached::Failed(reason))) => Some(Err(Status::unavailable(reason))),
                    (None, None) => Some(Err(Status::unavailable("no control plane"))),
                    (None, Some(_)) => None,
                }
            }
        });
        let (machine, delay) = reached.await?;
        tokio::time::sleep(delay).await;
        Ok(machine)
    }
}

fn is_known(world: &World, from: IpAddr, target: &str) -> bool {
    dial::resolve(world, from, target).is_some_and(|address| world.machines.contains_key(&address))
}

/// Verifies a signature. `None` does not contain the reason for a failure.
fn verify(omni: &Omni, method: &str, headers: &HeaderMap) -> Option<()> {
    let value = |name: &str| headers.get(name)?.to_str().ok();
    let payload = value("x-sidero-payload")?;
    let parts: Vec<&str> = value("x-sidero-signature")?.split(' ').collect();
    let &["siderov1", _, fingerprint, signature] = &parts[..] else { return None };
    let now = omni.now().as_second();
    let signed: i64 = value("x-sidero-timestamp")?.parse().ok()?;
    let said: Value = serde_json::from_str(payload).ok()?;
    // The key identifies the owner, so the name in the header is ignored.
    let key = omni.keys.get(fingerprint)?;
    let is_covered = |name: &str| {
        let sent: Vec<&str> = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok()).collect();
        match &said["headers"][name] {
            Value::Null => sent.is_empty(),
            signed => !sent.is_empty() && *signed == Value::from(sent),
        }
    };
    let is_right = (now - signed).abs() <= SKEW
        && said["method"] == method
        && COVERED.iter().all(|name| is_covered(name))
        && key.counts(now);
    let signature = STANDARD.decode(signature).ok().filter(|_| is_right)?;
    key.verify(payload.as_bytes(), &signature).ok()
}

impl Omni {
    /// The time of Omni's own clock.
    fn now(&self) -> Timestamp {
        Timestamp::now() + SignedDuration::from_secs(self.clock_ahead)
    }
}
