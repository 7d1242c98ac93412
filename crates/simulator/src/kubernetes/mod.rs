//! kube-apiserver: reads of everything, and no writes.

mod access;
mod api;
mod discovery;
mod failure;
mod health;
mod kinds;
mod lease;
mod list;
mod metrics;
mod pod_table;
mod query;
mod reply;
mod review;
mod selector;
mod table;
mod target;
#[cfg(test)]
mod tests;
mod watch;

use std::sync::Arc;

use self::api::Api;
pub(crate) use self::kinds::namespaced;
use self::list::Listings;
use crate::net::Handler;
use crate::state::ClusterState;
use crate::world::Server;

/// The Kubernetes API of a cluster.
pub(crate) struct Kubernetes {
    state: Arc<ClusterState>,
    listings: Arc<Listings>,
}

impl Kubernetes {
    pub(crate) fn new(state: &Arc<ClusterState>) -> Self {
        Self { state: Arc::clone(state), listings: Arc::default() }
    }

    /// Handles requests to one API server, or to the balancer in front of all of them.
    pub(crate) fn handler(&self, server: Server) -> Handler {
        let api = Arc::new(Api::new(Arc::clone(&self.state), Arc::clone(&self.listings), server));
        Arc::new(move |request| {
            let api = Arc::clone(&api);
            Box::pin(async move { api.answer(request).await })
        })
    }
}
