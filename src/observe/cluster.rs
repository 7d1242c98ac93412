//! The Kubernetes side of a round: whose credentials, what the API says, and each API server by itself.

use std::collections::BTreeMap;
use std::rc::Rc;

use futures::future::{Shared, join_all};
use tokio::time::{Instant, timeout_at};

use super::credentials::KubernetesSide;
use super::endpoints::{Sighting, TalosSide};
use super::kubernetes::{KubeClient, unasked};
use super::population::{self, Candidate};
use super::{API_PORT, Observer};
use crate::checks::Fact;
use crate::snapshot::{Gap, GapKind, Kubernetes, Node, Observed, Readyz, Role};

/// Addresses of one control plane at which its API server is looked for.
const API_ADDRESSES: usize = 3;

impl Observer<'_> {
    /// The Kubernetes side: finds its credentials, asks, and probes the API servers that discovery names meanwhile.
    pub(super) async fn observe_kubernetes(
        &self,
        side: &mut KubernetesSide,
        first: &Shared<impl Future<Output = Rc<Sighting>>>,
        until: Instant,
    ) -> Kubernetes {
        side.begin_round();
        loop {
            let connected = side.connect(self.kubeconfig_from_talos(first, until)).await;
            let Some(client) = side.client() else {
                let credentials = Err(connected.err().unwrap_or_else(Gap::not_asked));
                let may_still_find = side.may_still_find();
                return Kubernetes { may_still_find, ..unasked(credentials, side.passed_over().to_vec()) };
            };
            let servers = async {
                let seen = first.clone().await;
                self.probe_servers(client, &seen.population, until).await
            };
            let (mut kubernetes, servers) = tokio::join!(client.observe(&self.facts, &self.known_leases), servers);
            kubernetes.servers = servers;
            // A file that nobody named may be another cluster's; then the next source is asked.
            if let Some(why) = side.is_stranger(&kubernetes, &first.clone().await.population) {
                side.pass_over(why);
                continue;
            }
            kubernetes.passed_over = side.passed_over().to_vec();
            return kubernetes;
        }
    }

    async fn kubeconfig_from_talos(
        &self,
        first: &Shared<impl Future<Output = Rc<Sighting>>>,
        until: Instant,
    ) -> Observed<String> {
        let Some(TalosSide { client: Some(client), .. }) = &self.talos else { return Err(Gap::not_asked()) };
        let forwarding = first.clone().await.endpoints.forwarding();
        client.kubeconfig(&forwarding, until).await
    }

    async fn probe_servers(
        &self,
        client: &KubeClient,
        candidates: &[Candidate],
        until: Instant,
    ) -> BTreeMap<String, Observed<Readyz>> {
        if !self.facts.contains(&Fact::ServerReadyz) {
            return BTreeMap::new();
        }
        let control_planes = candidates.iter().filter(|candidate| candidate.role == Some(Role::ControlPlane));
        let probes = control_planes.map(|candidate| async move {
            let port = candidate.api_port.unwrap_or(API_PORT);
            (population::label(candidate), probe(client, &candidate.addresses, port, until).await)
        });
        join_all(probes).await.into_iter().collect()
    }

    /// Control planes that only Kubernetes, or only the nodes themselves, made known.
    pub(super) async fn probe_missing_servers(
        &self,
        side: &KubernetesSide,
        kubernetes: &mut Kubernetes,
        nodes: &[Node],
        until: Instant,
    ) {
        let Some(client) = side.client().filter(|_| self.facts.contains(&Fact::ServerReadyz)) else { return };
        if kubernetes.credentials.is_err() {
            return;
        }
        let missing = nodes
            .iter()
            .filter(|node| node.role == Role::ControlPlane && !kubernetes.servers.contains_key(&node.name))
            .map(|node| async { (node.name.clone(), probe(client, &node.addresses, node.api_port, until).await) });
        kubernetes.servers.extend(join_all(missing).await);
    }
}

/// The first address that leads to an API server decides; one that leads nowhere from here does not.
async fn probe(client: &KubeClient, addresses: &[String], port: u16, until: Instant) -> Observed<Readyz> {
    let mut last = None;
    for address in addresses.iter().take(API_ADDRESSES) {
        let Ok(answer) = timeout_at(until, client.server(address, port)).await else {
            // It says nothing about the server that we have run out of time: neither that it is frozen, nor that the way to it
            // is closed.
            return last.unwrap_or_else(|| Err(Gap::new(GapKind::NotAsked, "no time was left to ask")));
        };
        let leads_nowhere = matches!(
            &answer,
            Err(Gap { kind: GapKind::NoRoute | GapKind::ConnectTimedOut | GapKind::NameNotFound, .. })
        );
        if !leads_nowhere {
            return answer;
        }
        last = Some(answer);
    }
    last.unwrap_or_else(|| Err(Gap::new(GapKind::NoRoute, "no address is known")))
}
