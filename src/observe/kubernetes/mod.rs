//! What the Kubernetes API says: `/readyz` of its servers, and lists of objects.

mod client;
mod dial;
mod gaps;
mod lists;
mod objects;
mod probe;
mod raw;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use http::Uri;
use k8s_openapi::{NamespaceResourceScope, Resource};
use kube::{Client, Config};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::checks::Fact;
use crate::config::proxy::Routes;
use crate::observe::dial::cause;
use crate::snapshot::{Gap, Kubernetes, KubernetesCredentials, Leases, Observed, Readyz, ServiceEndpoint};
use client::Transport;
use lists::{Kept, Listed, Selection, list, list_in};

pub(crate) use gaps::short;

const SYSTEM: &str = "kube-system";
const NODE_LEASES: &str = "kube-node-lease";

/// Requests in flight at once.
const IN_FLIGHT: usize = 32;

/// A cluster's API, with the credentials of one kubeconfig.
pub(crate) struct KubeClient {
    credentials: KubernetesCredentials,
    /// The cluster endpoint: `--k8s-endpoint` or the kubeconfig's server, possibly with a path.
    server: Uri,
    transport: Transport,
    lists: Client,
    in_flight: Semaphore,
}

/// What earlier samples showed of leases. The caller keeps it from round to round.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownLeases {
    /// Whose they are: source, context and server. Leases of the same names in another cluster are other leases.
    of: Option<(String, String, String)>,
    node: BTreeMap<String, Sight>,
    system: BTreeMap<String, Sight>,
}

#[derive(Clone, Debug)]
struct Sight {
    resource_version: String,
    /// When the newest sample was asked for that showed this version.
    asked: Instant,
    /// When the newest sample was asked for that still showed another version: this one is from later.
    other: Option<Instant>,
}

impl KnownLeases {
    /// Takes in a sample that was asked for at `asked`, or later. A list that could not be read takes nothing away.
    pub(crate) fn remember(
        &mut self,
        of: &Observed<KubernetesCredentials>,
        asked: Instant,
        node: &Observed<Leases>,
        system: &Observed<Leases>,
    ) {
        let Ok(of) = of else { return };
        if !self.are_of(of) {
            *self = Self { of: Some(identity(of)), ..Self::default() };
        }
        for (known, seen) in [(&mut self.node, node), (&mut self.system, system)] {
            for (name, lease) in seen.iter().flat_map(|leases| &leases.by_name) {
                let before = known.get(name);
                let other = match before {
                    Some(before) if before.resource_version == lease.resource_version => before.other,
                    before => before.map(|before| before.asked),
                };
                known.insert(name.clone(), Sight { resource_version: lease.resource_version.clone(), asked, other });
            }
        }
    }

    fn are_of(&self, credentials: &KubernetesCredentials) -> bool {
        self.of.as_ref().is_some_and(|of| *of == identity(credentials))
    }
}

fn identity(credentials: &KubernetesCredentials) -> (String, String, String) {
    (credentials.source.clone(), credentials.context.clone(), credentials.server.clone())
}

/// How long ago, at the most, a lease of this version was renewed; `None` if no earlier sample showed another.
fn moved_within(known: &BTreeMap<String, Sight>, name: &str, resource_version: &str) -> Option<Duration> {
    let before = known.get(name).filter(|_| !resource_version.is_empty())?;
    let other = if before.resource_version == resource_version { before.other? } else { before.asked };
    Some(other.elapsed())
}

impl KubeClient {
    /// `call_timeout` bounds each request, and each run of an exec plugin. The gap says why the credentials cannot be used.
    /// `config.cluster_url` is the endpoint to ask; timeouts, retries and proxy of `config` are not used: `routes` says for each
    /// server how it is reached.
    pub(crate) async fn new(
        config: Config,
        routes: Routes,
        credentials: KubernetesCredentials,
        call_timeout: Duration,
    ) -> Observed<Self> {
        let transport = Transport::new(&config, routes, call_timeout).await?;
        let lists = transport.pooled(config.cluster_url.clone());
        Ok(Self { credentials, server: config.cluster_url, transport, lists, in_flight: Semaphore::new(IN_FLIGHT) })
    }

    /// Everything of `facts` but the single servers, at once. `known` decides which leases have moved.
    pub(crate) async fn observe(&self, facts: &BTreeSet<Fact>, known: &KnownLeases) -> Kubernetes {
        let (
            endpoint,
            nodes,
            pods,
            daemon_sets,
            deployments,
            dns_endpoints,
            api_endpoints,
            signing_requests,
            (node_leases, system_leases),
        ) = tokio::join!(
            wanted(facts, Fact::EndpointReadyz, self.endpoint()),
            wanted(facts, Fact::KubeNodes, self.everywhere()),
            wanted(facts, Fact::Pods, self.system()),
            wanted(facts, Fact::DaemonSets, self.system()),
            wanted(facts, Fact::Deployments, self.system()),
            wanted(facts, Fact::DnsEndpoints, self.endpoints(SYSTEM, "kubernetes.io/service-name=kube-dns")),
            wanted(facts, Fact::ApiEndpoints, self.endpoints("default", "kubernetes.io/service-name=kubernetes")),
            wanted(facts, Fact::SigningRequests, self.everywhere()),
            self.leases(facts, known),
        );
        Kubernetes {
            endpoint,
            nodes,
            node_leases,
            system_leases,
            pods,
            daemon_sets,
            deployments,
            dns_endpoints,
            api_endpoints,
            signing_requests,
            ..unasked(Ok(self.credentials.clone()), Vec::new())
        }
    }

    /// `/readyz` of one API server, verified as what was dialled.
    pub(crate) async fn server(&self, host: &str, port: u16) -> Observed<Readyz> {
        let authority = match host.parse::<IpAddr>() {
            Ok(IpAddr::V6(address)) => format!("[{address}]:{port}"),
            _ => format!("{host}:{port}"),
        };
        let server: Uri = format!("https://{authority}/").parse().map_err(|_| cause::no_name(host))?;
        self.limited(probe::readyz(&self.transport, &server, None, format!("https://{authority}"))).await
    }

    /// Node leases and system leases alone, as far as `facts` names them: for a second sample within a round.
    pub(crate) async fn leases(
        &self,
        facts: &BTreeSet<Fact>,
        known: &KnownLeases,
    ) -> (Observed<Leases>, Observed<Leases>) {
        let none = BTreeMap::new();
        let ours = |sights| if known.are_of(&self.credentials) { sights } else { &none };
        let read = async |namespace, known: &BTreeMap<String, Sight>| {
            let listed = self.limited(list_in(&self.transport, &self.lists, namespace, None)).await?;
            Ok(objects::leases(listed, |name, version| moved_within(known, name, version)))
        };
        tokio::join!(
            wanted(facts, Fact::NodeLeases, read(NODE_LEASES, ours(&known.node))),
            wanted(facts, Fact::SystemLeases, read(SYSTEM, ours(&known.system))),
        )
    }

    async fn endpoint(&self) -> Observed<Readyz> {
        // Not the URL itself: its path and query may be anything.
        let shown = self.credentials.server.trim_end_matches('/').to_owned();
        self.limited(probe::readyz(&self.transport, &self.server, self.transport.server_name(), shown)).await
    }

    /// All objects of a kind that has no namespace.
    async fn everywhere<T: Kept>(&self) -> Observed<Vec<T>> {
        Ok(kept(self.limited(list(&self.transport, &self.lists, Selection::default())).await?).collect())
    }

    async fn endpoints(&self, namespace: &'static str, labels: &'static str) -> Observed<Vec<ServiceEndpoint>> {
        let slices = list_in::<Vec<ServiceEndpoint>>(&self.transport, &self.lists, namespace, Some(labels));
        Ok(kept(self.limited(slices).await?).flatten().collect())
    }

    /// All objects of a kind in `kube-system`.
    async fn system<T>(&self) -> Observed<Vec<T>>
    where
        T: Kept<Object: Resource<Scope = NamespaceResourceScope>>,
    {
        Ok(kept(self.limited(list_in(&self.transport, &self.lists, SYSTEM, None)).await?).collect())
    }

    async fn limited<T>(&self, call: impl Future<Output = Observed<T>>) -> Observed<T> {
        // Boxed: a round has many of them.
        let call = Box::pin(call);
        // The semaphore is never closed.
        let _permit = self.in_flight.acquire().await;
        call.await
    }
}

fn kept<T>(listed: Listed<T>) -> impl Iterator<Item = T> {
    listed.items.into_iter().map(|item| item.kept)
}

/// The Kubernetes side of a round in which nothing could be asked.
pub(crate) fn unasked(credentials: Observed<KubernetesCredentials>, passed_over: Vec<(String, String)>) -> Kubernetes {
    fn gap<T>() -> Observed<T> {
        Err(Gap::not_asked())
    }
    Kubernetes {
        credentials,
        passed_over,
        may_still_find: false,
        endpoint: gap(),
        servers: BTreeMap::new(),
        nodes: gap(),
        node_leases: gap(),
        system_leases: gap(),
        pods: gap(),
        daemon_sets: gap(),
        deployments: gap(),
        dns_endpoints: gap(),
        api_endpoints: gap(),
        signing_requests: gap(),
    }
}

async fn wanted<T>(facts: &BTreeSet<Fact>, fact: Fact, ask: impl Future<Output = Observed<T>>) -> Observed<T> {
    if facts.contains(&fact) { ask.await } else { Err(Gap::not_asked()) }
}
