//! kube-apiserver: reads of everything, and no writes.

mod access;
mod api;
mod discovery;
mod failure;
mod health;
mod kinds;
mod lease;
mod list;
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
pub(crate) use self::list::Listings;
use crate::net::Handler;
use crate::shared::Shared;
use crate::world::Server;

/// The Kubernetes API of one server.
pub(crate) fn handler(shared: Arc<Shared>, server: Server) -> Handler {
    let api = Arc::new(Api::new(shared, server));
    Arc::new(move |request| {
        let api = Arc::clone(&api);
        Box::pin(async move { api.answer(request).await })
    })
}
