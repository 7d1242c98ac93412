//! machined of all machines: the place where a call enters its target machine.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use http_body_util::Full;
use talos_api::cluster::cluster_service_server::ClusterServiceServer;
use talos_api::cosi::resource::state_server::StateServer;
use talos_api::machine::machine_service_server::MachineServiceServer;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::ServiceExt as _;

use super::access::{Method, Roles};
use super::aggregate::streamed;
use super::rpc::Rpc;
use super::wire::framed;
use super::{Call, cluster, cosi, deadline, machine};
use crate::net::Mangle;
use crate::state::ClusterState;
use crate::version::TalosVersion;
use crate::world::{Misbehavior, Server};

pub(super) struct Machined {
    state: Arc<ClusterState>,
    machine: MachineServiceServer<machine::Machine>,
    cluster: ClusterServiceServer<cluster::Cluster>,
    resources: StateServer<cosi::State>,
}

/// Before this version, a machine without configuration answers little more than queries for its resources.
const MAINTENANCE_IS_WHOLE_SINCE: TalosVersion = TalosVersion::new(13, 0);

impl Machined {
    pub(super) fn new(state: &Arc<ClusterState>) -> Self {
        Self {
            state: Arc::clone(state),
            machine: MachineServiceServer::new(machine::Machine::new(Arc::clone(state))),
            cluster: ClusterServiceServer::new(cluster::Cluster::new(Arc::clone(state))),
            resources: StateServer::new(cosi::State::new(Arc::clone(state))),
        }
    }

    /// Counts a call, applies its misbehavior, and either rejects it or has it answered.
    pub(super) async fn answer(&self, mut target: IpAddr, rpc: Rpc) -> Result<http::Response<Body>, Status> {
        let misbehavior = self.state.called(&Server::Apid(target), &rpc.name());
        let (service, method) = rpc.method();
        let method = Method::find(service, method)?;
        let mut mangle = None;
        let mut late = Duration::ZERO;
        match misbehavior {
            // Not even the deadline ends this call, so callers have to enforce it themselves.
            Some(Misbehavior::Hang) => std::future::pending().await,
            Some(Misbehavior::Late(by)) => late = by,
            Some(Misbehavior::Fail { code, text }) => return Err(Status::new(Code::from_i32(code.into()), text)),
            Some(Misbehavior::Empty) => return Ok(empty(method.streams)),
            Some(Misbehavior::From(name)) => {
                let world = self.state.world();
                target = world.machine(&name).map_or(target, |(address, _)| address);
            }
            Some(Misbehavior::Garbage) => mangle = Some(Mangle::Garbage),
            Some(Misbehavior::Cut) => mangle = Some(Mangle::Cut),
            Some(Misbehavior::Stall) => mangle = Some(Mangle::Stall),
            Some(Misbehavior::Endless) => mangle = Some(Mangle::Endless),
            // These only apply to HTTP servers.
            Some(
                Misbehavior::Body(_)
                | Misbehavior::Redirect(_)
                | Misbehavior::Cached(_)
                | Misbehavior::WithoutQuery
                | Misbehavior::WithoutDate,
            )
            | None => {}
        }
        let call = self.admit(target, method, &rpc)?;
        let until = rpc.deadline;
        let served = async {
            tokio::time::sleep(late).await;
            Ok(self.serve(call, rpc).await)
        };
        let mut answer = deadline::end_at(until, deadline::within(until, served).await?);
        if let Some(mangle) = mangle {
            answer.extensions_mut().insert(mangle);
        }
        Ok(answer)
    }

    fn admit(&self, target: IpAddr, method: Method, rpc: &Rpc) -> Result<Call, Status> {
        let world = self.state.world();
        let version = world.versions.talos;
        let mut roles = rpc.roles;
        if world.machines.get(&target).is_some_and(|machine| machine.maintenance) {
            if version < MAINTENANCE_IS_WHOLE_SINCE && !rpc.path().starts_with("/cosi.") {
                return Err(Status::unimplemented("API is not implemented in maintenance mode"));
            }
            roles = Roles::READER;
        }
        method.check(roles, version)?;
        Ok(Call { target, roles })
    }

    async fn serve(&self, call: Call, rpc: Rpc) -> http::Response<Body> {
        let mut request = rpc.request.map(|body| Body::new(Full::new(body)));
        request.extensions_mut().insert(call);
        let path = request.uri().path();
        let answered = if path.starts_with("/cosi.") {
            self.resources.clone().oneshot(request).await
        } else if path.starts_with("/cluster.") {
            self.cluster.clone().oneshot(request).await
        } else {
            self.machine.clone().oneshot(request).await
        };
        match answered {
            Ok(answer) => answer,
        }
    }
}

/// An answer without content: an empty message, or a stream without messages.
fn empty(streams: bool) -> http::Response<Body> {
    let messages = (!streams).then(|| framed(&[]));
    streamed(stream::iter(messages).boxed())
}
