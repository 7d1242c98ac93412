//! apid and machined: routing, authorization and answers of calls.
//!
//! ```text
//! Apid (one per machine) ── route ──> dial ──> Machined (one for all) ──> access, misbehavior, deadline ──> tonic services
//! ```
//!
//! apid handles requests and answers as bytes, like the real one, which does not know the services either. A service learns which machine
//! it answers for from the [`Call`] in the extensions of its request.

mod access;
mod aggregate;
mod apid;
mod cluster;
mod containers;
mod cosi;
mod deadline;
mod dial;
mod etcd;
mod files;
mod kubeconfig;
mod logs;
mod machine;
mod machined;
mod omni;
mod query;
mod route;
mod rpc;
mod watch;
mod wire;

use std::net::IpAddr;
use std::sync::Arc;

use self::access::Roles;
use self::apid::Apid;
use self::machined::Machined;
use self::omni::Front;
use crate::net::Handler;
use crate::state::ClusterState;

/// The Talos API of a cluster.
pub(crate) struct Talos {
    state: Arc<ClusterState>,
    machined: Arc<Machined>,
}

impl Talos {
    pub(crate) fn new(state: &Arc<ClusterState>) -> Self {
        Self { state: Arc::clone(state), machined: Arc::new(Machined::new(state)) }
    }

    /// Handles Talos calls to Omni, which is at this address.
    pub(crate) fn of_omni(&self, at: IpAddr) -> Handler {
        let front = Arc::new(Front::new(&self.state, &self.machined, at));
        Arc::new(move |request| Box::pin(Arc::clone(&front).answer(request)))
    }

    /// Handles calls to apid at this address.
    pub(crate) fn handler(&self, at: IpAddr) -> Handler {
        let apid = Arc::new(Apid::new(Arc::clone(&self.state), at, Arc::clone(&self.machined)));
        Arc::new(move |request| Box::pin(Arc::clone(&apid).answer(request)))
    }
}

/// A call's context for services, in addition to its message. The caller has been authorized, and misbehavior has been applied.
#[derive(Clone, Copy, Debug)]
struct Call {
    /// The machine that the answer is about.
    target: IpAddr,
    roles: Roles,
}

impl Call {
    fn of<T>(request: &tonic::Request<T>) -> Result<Self, tonic::Status> {
        let call = request.extensions().get::<Self>().copied();
        call.ok_or_else(|| tonic::Status::internal("the call did not come through apid"))
    }
}
