//! The cluster's own health check, which a control plane performs.

mod kubernetes;
mod machines;
mod view;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use talos_api::cluster::cluster_service_server::ClusterService;
use talos_api::cluster::{ClusterInfo, HealthCheckProgress, HealthCheckRequest};
use talos_api::google::protobuf;
use tokio::time::Instant;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use self::view::{Found, Nodes, View, silent};
use super::{Call, deadline};
use crate::state::ClusterState;
use crate::version::TalosVersion;
use crate::world::Role;

/// The `ClusterService` of all machines.
pub(super) struct Cluster {
    state: Arc<ClusterState>,
}

/// A check: the awaited condition, the version that introduced it, and the function that evaluates it.
type Check = (&'static str, TalosVersion, fn(&View<'_>) -> Found);

const ALWAYS: TalosVersion = TalosVersion::new(0, 0);

/// Checks in the order in which they run.
const CHECKS: [Check; 16] = [
    ("etcd to be healthy", ALWAYS, machines::etcd_healthy),
    ("etcd members to be consistent across nodes", ALWAYS, machines::etcd_consistent),
    ("etcd members to be control plane nodes", ALWAYS, machines::etcd_on_control_planes),
    ("apid to be ready", ALWAYS, machines::apid_ready),
    ("all nodes memory sizes", ALWAYS, machines::memory_sizes),
    ("all nodes disk sizes", ALWAYS, machines::disk_sizes),
    ("no diagnostics", TalosVersion::new(8, 0), machines::no_diagnostics),
    ("kubelet to be healthy", ALWAYS, machines::kubelet_healthy),
    ("all nodes to finish boot sequence", ALWAYS, machines::booted),
    ("all k8s nodes to report", ALWAYS, kubernetes::nodes_reported),
    ("all control plane static pods to be running", ALWAYS, machines::static_pods),
    ("all control plane components to be ready", ALWAYS, kubernetes::control_plane_ready),
    ("all k8s nodes to report ready", ALWAYS, kubernetes::nodes_ready),
    ("kube-proxy to report ready", ALWAYS, kubernetes::kube_proxy_ready),
    ("coredns to report ready", ALWAYS, kubernetes::coredns_ready),
    ("all k8s nodes to report schedulable", ALWAYS, kubernetes::nodes_schedulable),
];

/// Pause between two attempts at one check.
const RETRY: Duration = Duration::from_secs(5);
/// A year, in seconds.
const LONGEST: u64 = 365 * 86_400;
/// From this version on, workers reject the call immediately.
const REFUSED_ON_WORKERS_SINCE: TalosVersion = TalosVersion::new(13, 0);

impl Cluster {
    pub(super) fn new(state: Arc<ClusterState>) -> Self {
        Self { state }
    }
}

#[tonic::async_trait]
impl ClusterService for Cluster {
    async fn health_check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<BoxStream<HealthCheckProgress>>, Status> {
        let call = Call::of(&request)?;
        let request = request.into_inner();
        let timeout = request.wait_timeout.as_ref().map(duration).unwrap_or_default();
        let until = Instant::now() + timeout;
        let run = {
            let world = self.state.world();
            let role = world.machines.get(&call.target).map(|machine| machine.role);
            if role == Some(Role::Worker) && world.versions.talos >= REFUSED_ON_WORKERS_SINCE {
                let text = "cluster health check is only available on control plane nodes";
                return Err(Status::unimplemented(text));
            }
            let nodes = match request.cluster_info.as_ref().map(named).transpose()? {
                Some(nodes) if nodes.all().next().is_some() => nodes,
                _ => Nodes::discovered(&world, call.target),
            };
            let checks = CHECKS.into_iter().filter(|(_, since, _)| world.versions.talos >= *since).collect();
            Run { state: Arc::clone(&self.state), call, nodes, until, checks, at: Stage::Discovered }
        };
        let progress = stream::unfold(run, |mut run| async { run.next().await.map(|line| (line, run)) });
        Ok(Response::new(progress.boxed()))
    }
}

/// Converts a duration. A negative number of seconds becomes zero, and very long durations are cut off.
fn duration(duration: &protobuf::Duration) -> Duration {
    let seconds = u64::try_from(duration.seconds).unwrap_or_default();
    Duration::new(seconds.min(LONGEST), u32::try_from(duration.nanos).unwrap_or_default())
}

/// Parses the nodes that the caller names.
fn named(info: &ClusterInfo) -> Result<Nodes, Status> {
    let parse = |texts: &[String]| {
        let addresses = texts
            .iter()
            .map(|text| text.parse().map_err(|_| Status::unknown(format!("ParseAddr({text:?}): unable to parse IP"))));
        addresses.collect::<Result<Vec<IpAddr>, Status>>()
    };
    Ok(Nodes { control_planes: parse(&info.control_plane_nodes)?, workers: parse(&info.worker_nodes)? })
}

/// A health check in progress.
struct Run {
    state: Arc<ClusterState>,
    call: Call,
    nodes: Nodes,
    until: Instant,
    checks: Vec<Check>,
    at: Stage,
}

/// The next step of a health check.
enum Stage {
    Discovered,
    /// Begin this check.
    Begin(usize),
    /// Attempt this check no earlier than at this time. The text is the message about the last attempt.
    Attempt(usize, Instant, String),
    Expired,
    Ended,
}

impl Run {
    /// Returns the next line, or the error with which the health check ended.
    async fn next(&mut self) -> Option<Result<HealthCheckProgress, Status>> {
        let line = |message: String| Some(Ok(HealthCheckProgress { metadata: None, message }));
        loop {
            match std::mem::replace(&mut self.at, Stage::Ended) {
                Stage::Discovered => {
                    self.at = Stage::Begin(0);
                    let nodes: Vec<_> = self.nodes.all().map(|node| format!("\"{node}\"")).collect();
                    return line(format!("discovered nodes: [{}]", nodes.join(" ")));
                }
                Stage::Begin(number) => {
                    let (label, ..) = self.checks.get(number)?;
                    if Instant::now() >= self.until {
                        return Some(Err(deadline::exceeded()));
                    }
                    self.at = Stage::Attempt(number, Instant::now(), String::new());
                    return line(format!("waiting for {label}: ..."));
                }
                Stage::Attempt(number, not_before, told) => {
                    tokio::time::sleep_until(not_before.min(self.until)).await;
                    if not_before > self.until {
                        self.at = Stage::Expired;
                        continue;
                    }
                    let (label, _, check) = self.checks[number];
                    let (said, next) = match self.attempt(check).await {
                        Found::Good => ("OK".to_owned(), Stage::Begin(number + 1)),
                        Found::Inapplicable => ("SKIP".to_owned(), Stage::Begin(number + 1)),
                        Found::Wrong(why) => (why.clone(), Stage::Attempt(number, Instant::now() + RETRY, why)),
                        Found::Silence => (silent(), Stage::Expired),
                    };
                    self.at = next;
                    if said != told {
                        return line(format!("waiting for {label}: {said}"));
                    }
                }
                Stage::Expired => return Some(Err(deadline::exceeded())),
                Stage::Ended => return None,
            }
        }
    }

    /// Evaluates a check. If a machine does not answer, the check continues as soon as it does.
    async fn attempt(&self, check: fn(&View<'_>) -> Found) -> Found {
        let answered = self.state.when(|world| {
            let endpoint = self.state.endpoint(world);
            let view = View { world, from: self.call.target, roles: self.call.roles, nodes: &self.nodes, endpoint };
            Some(check(&view)).filter(|found| *found != Found::Silence)
        });
        tokio::time::timeout_at(self.until, answered).await.unwrap_or(Found::Silence)
    }
}
