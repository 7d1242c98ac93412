//! The cluster's own health check as a part of a round, requested only with `--server`. Runs in parallel with everything else.

use std::net::IpAddr;
use std::rc::Rc;

use futures::future::Shared;
use tokio::time::Instant;

use super::Observer;
use super::endpoints::{Sighting, TalosSide};
use super::join::Candidate;
use super::talos::ServerAsk;
use crate::model::{Fact, Role};
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
        let control_planes = addresses(&self.asked.control_plane_nodes, &seen.population)?;
        let workers = addresses(&self.asked.worker_nodes, &seen.population)?;
        let (control_planes, workers) = completed(control_planes, workers, &seen.population);
        let kubernetes_endpoint = self.asked.k8s_endpoint.clone();
        let ask = ServerAsk { control_planes, workers, kubernetes_endpoint };
        client.server_check(&ask, &working, until, self.tell).await
    }
}

/// Completes the lists of nodes. Talos lists the nodes itself only if it is given none; with nodes of one role only, every node of the
/// other role would be unexpected.
fn completed(
    control_planes: Vec<String>,
    workers: Vec<String>,
    population: &[Candidate],
) -> (Vec<String>, Vec<String>) {
    let of_role = |role: Role| -> Vec<String> {
        let there = population.iter().filter(|candidate| candidate.role == Some(role) && candidate.is_talos);
        there.filter_map(address).cloned().collect()
    };
    match (control_planes.is_empty(), workers.is_empty()) {
        (false, true) => (control_planes, of_role(Role::Worker)),
        (true, false) => (of_role(Role::ControlPlane), workers),
        (true, true) | (false, false) => (control_planes, workers),
    }
}

/// Returns an address of the candidate, because Talos accepts no names.
fn address(candidate: &Candidate) -> Option<&String> {
    candidate.addresses.iter().find(|it| is_address(it))
}

fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// Resolves the nodes that the user named to addresses. If one were left out, Talos would check another cluster than requested.
fn addresses(nodes: &[String], population: &[Candidate]) -> Observed<Vec<String>> {
    let resolved = |node: &String| {
        if is_address(node) {
            return Ok(node.clone());
        }
        let named =
            |candidate: &&Candidate| candidate.name.as_ref().is_some_and(|name| name.eq_ignore_ascii_case(node));
        let known = population.iter().find(named).and_then(address);
        let unknown =
            || Gap::new(GapKind::NotAsked, format!("no address of `{node}` is known, and Talos accepts no names"));
        known.cloned().ok_or_else(unknown)
    };
    nodes.iter().map(resolved).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_role_is_sent_along() {
        let candidate = |address: &str, role| Candidate {
            addresses: vec!["a-name".to_owned(), address.to_owned()],
            role: Some(role),
            is_talos: true,
            ..Candidate::default()
        };
        let population = [candidate("10.0.0.1", Role::ControlPlane), candidate("10.0.0.4", Role::Worker)];
        let of = |control_planes: &[&str], workers: &[&str]| {
            let owned = |them: &[&str]| them.iter().map(|&it| it.to_owned()).collect();
            completed(owned(control_planes), owned(workers), &population)
        };
        let told = |control_planes: &str, workers: &str| (vec![control_planes.to_owned()], vec![workers.to_owned()]);
        assert_eq!(of(&["10.0.0.9"], &[]), told("10.0.0.9", "10.0.0.4"));
        assert_eq!(of(&[], &["10.0.0.8"]), told("10.0.0.1", "10.0.0.8"));
        assert_eq!(of(&["10.0.0.9"], &["10.0.0.8"]), told("10.0.0.9", "10.0.0.8"));
        assert_eq!(of(&[], &[]), (vec![], vec![]), "Talos lists them itself");
    }
}
