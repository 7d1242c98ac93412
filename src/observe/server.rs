//! The cluster's own health check as a part of a round: asked only with `--server`, and beside everything else.

use std::net::IpAddr;
use std::rc::Rc;

use futures::future::Shared;
use tokio::time::Instant;

use super::Observer;
use super::endpoints::{Sighting, TalosSide};
use super::population::Candidate;
use super::talos::ServerAsk;
use crate::model::Fact;
use crate::snapshot::{Gap, GapKind, Observed, ServerCheck};

impl Observer<'_> {
    pub(super) async fn server_check(
        &self,
        first: &Shared<impl Future<Output = Rc<Sighting>>>,
        until: Instant,
    ) -> Observed<ServerCheck> {
        if !self.facts.contains(&Fact::ServerCheck) {
            return Err(Gap::not_asked());
        }
        let Some(TalosSide { client: Some(client), .. }) = &self.talos else { return Err(Gap::not_asked()) };
        let seen = first.clone().await;
        let working = seen.endpoints.forwarding();
        if working.is_empty() {
            return Err(seen.endpoints.no_way());
        }
        let ask = ServerAsk {
            control_planes: addresses(&self.asked.control_plane_nodes, &seen.population)?,
            workers: addresses(&self.asked.worker_nodes, &seen.population)?,
            kubernetes_endpoint: self.asked.k8s_endpoint.clone(),
        };
        client.server_check(&ask, &working, until, self.tell).await
    }
}

/// The nodes that the user named, as addresses. To leave one out would have another cluster checked than was asked for.
fn addresses(nodes: &[String], population: &[Candidate]) -> Observed<Vec<String>> {
    let is_address = |text: &&String| text.parse::<IpAddr>().is_ok();
    let address = |node: &String| {
        if is_address(&node) {
            return Ok(node.clone());
        }
        let named =
            |candidate: &&Candidate| candidate.name.as_ref().is_some_and(|name| name.eq_ignore_ascii_case(node));
        let known = population.iter().find(named).and_then(|candidate| candidate.addresses.iter().find(is_address));
        let unknown =
            || Gap::new(GapKind::NotAsked, format!("no address of `{node}` is known, and Talos accepts no names"));
        known.cloned().ok_or_else(unknown)
    };
    nodes.iter().map(address).collect()
}
