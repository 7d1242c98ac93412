//! apid: receives calls at one address, and forwards them.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use tonic::Status;
use tonic::body::Body;

use super::dial::{self, Reached};
use super::machined::Machined;
use super::route::{Route, route};
use super::rpc::Rpc;
use super::{aggregate, deadline};
use crate::state::ClusterState;

pub(super) struct Apid {
    state: Arc<ClusterState>,
    at: IpAddr,
    machined: Arc<Machined>,
}

impl Apid {
    pub(super) fn new(state: Arc<ClusterState>, at: IpAddr, machined: Arc<Machined>) -> Self {
        Self { state, at, machined }
    }

    pub(super) async fn answer(self: Arc<Self>, request: http::Request<Incoming>) -> http::Response<Body> {
        let answered = async {
            let rpc = Rpc::read(request).await?;
            let route = route(&self.state.world(), self.at, rpc.path(), rpc.request.headers())?;
            match route {
                Route::Local => self.machined.answer(self.at, rpc).await,
                Route::One(target) => self.forward(&target, rpc).await,
                Route::Many(targets) => aggregate::answer(Arc::clone(&self), targets, rpc).await,
            }
        };
        answered.await.unwrap_or_else(Status::into_http)
    }

    /// Returns the answer of another machine.
    pub(super) async fn forward(&self, target: &str, rpc: Rpc) -> Result<http::Response<Body>, Status> {
        let machine = deadline::within(rpc.deadline, self.reach(target)).await?;
        self.machined.answer(machine, rpc).await
    }

    /// Connects to a machine. Waits if it does not answer, since its packets might arrive later.
    async fn reach(&self, target: &str) -> Result<IpAddr, Status> {
        let dialed = self.state.when(|world| match dial::dial(world, self.at, target) {
            Reached::Machine(machine, delay) => Some(Ok((machine, delay))),
            Reached::Failed(reason) => Some(Err(Status::unavailable(reason))),
            Reached::Silence => None,
        });
        let (machine, delay) = dialed.await?;
        tokio::time::sleep(delay).await;
        Ok(machine)
    }
}
