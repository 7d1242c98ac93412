//! The Kubernetes API: `/readyz` of its servers, and lists of objects.

mod auth;
mod client;
mod dial;
mod drain;
mod elsewhere;
mod extensions;
mod gaps;
mod intake;
mod leases;
mod lists;
mod metrics;
mod namespace;
mod nodes;
mod objects;
mod peer;
mod pending;
mod plugin;
mod pods;
mod probe;
mod required;
mod room;
mod sandboxes;
mod signing;
mod slices;
mod starting;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod version;
mod whom;
mod wire;
mod workloads;

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::{NamespaceResourceScope, Resource};
use kube::Config;
use tokio::sync::{OnceCell, Semaphore};

use crate::config::endpoint::{self, Endpoint};
use crate::config::proxy::Routes;
use crate::config::roots::Roots;
use crate::model::Fact;
use crate::observe::budget::Budget;
use crate::observe::dial::cause;
use crate::observe::fill;
use crate::snapshot::{
    BoundPod, Gap, GapKind, KubeNode, Kubernetes, KubernetesCredentials, Observed, Pod, Readyz, RequestedApis,
    ServiceEndpoint, Webhook,
};
use crate::text::is_label;
use client::Transport;
use elsewhere::Elsewhere;
use futures::FutureExt as _;
use futures::future::join_all;
use http::Uri;
use lists::{Kept, Listed, Selection, list, list_in};
use objects::{Ages, Since, aged};
use slices::Slice;
use starting::Starting;
use whom::{Claimed, Target, Trusted, Vouchers};
use wire::{Object, core, eviction};

pub(crate) use gaps::short;
pub(crate) use leases::KnownLeases;
pub(crate) use plugin::abandon;
#[cfg(test)]
pub(crate) use required::taken;

const SYSTEM: &str = "kube-system";
/// Time limit for the request that identifies the cluster.
const IDENTITY: Duration = Duration::from_secs(2);

/// Limit for concurrent requests.
const IN_FLIGHT: usize = 32;

/// A cluster's API, with the credentials of one kubeconfig.
pub(crate) struct KubeClient {
    credentials: KubernetesCredentials,
    transport: Transport,
    /// The cluster endpoint, from which lists are read.
    lists: Trusted,
    /// Knowledge of this round about which servers may receive the credentials.
    round: Mutex<Round>,
    /// Conversion webhooks from an earlier round, kept because the definitions are tens of megabytes.
    conversions: OnceCell<Observed<Vec<Webhook>>>,
    /// The cluster's identity, once it is known: a cluster's UID never changes.
    uid: OnceCell<String>,
    in_flight: Semaphore,
    /// Static pods seen in the last round, when Talos is not queried.
    mirrors: Mutex<Arc<Vec<Pod>>>,
}

#[derive(Default)]
struct Round {
    /// default/kubernetes: a fact, and the API servers' own report of their addresses.
    api_endpoints: Arc<OnceCell<Observed<Vec<ServiceEndpoint>>>>,
    vouchers: Vouchers,
}

impl KubeClient {
    /// Creates the client. `call_timeout` bounds each request, and each run of an exec plugin. The gap states why the credentials cannot be
    /// used. `config.cluster_url` is the endpoint to query; timeouts, retries and proxy of `config` are not used, and `routes` determines
    /// how each server is reached.
    pub(crate) async fn new(
        config: Config,
        routes: Routes,
        roots: &Roots,
        credentials: KubernetesCredentials,
        call_timeout: Duration,
    ) -> Observed<Self> {
        let transport = Transport::new(&config, routes, roots, call_timeout).await?;
        // `--k8s-endpoint` or the kubeconfig's server, possibly with a path.
        let lists = Trusted::named(config.cluster_url);
        Ok(Self {
            credentials,
            transport,
            lists,
            round: Mutex::default(),
            conversions: OnceCell::new(),
            uid: OnceCell::new(),
            in_flight: Semaphore::new(IN_FLIGHT),
            mirrors: Mutex::default(),
        })
    }

    /// Charges the data that the client keeps to `budget`.
    pub(crate) fn within(mut self, budget: &Arc<Budget>) -> Self {
        self.transport.budget = Arc::clone(budget);
        self
    }

    /// Returns whether its credentials have expired or were refused, and their source can provide new ones.
    pub(crate) fn is_outdated(&self) -> bool {
        self.transport.is_outdated()
    }

    /// Begins a round. With `anew`, all connections are closed; otherwise only failed ones.
    pub(crate) fn begin_round(&self, anew: bool) {
        self.transport.renew(anew);
        *self.round() = Round::default();
    }

    fn round(&self) -> MutexGuard<'_, Round> {
        self.round.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mirrors(&self) -> MutexGuard<'_, Arc<Vec<Pod>>> {
        self.mirrors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds addresses of etcd members that a machine named by the user lists. Each one is a control plane, and its API server may receive
    /// the credentials in this round.
    pub(crate) fn vouch<'a>(&self, members: impl IntoIterator<Item = &'a String>) {
        self.round().vouchers.add_members(members);
    }

    pub(crate) fn vouches_for_any(&self, addresses: &[String]) -> bool {
        let round = self.round();
        addresses.iter().any(|address| round.vouchers.know(address))
    }

    /// Connects to API servers that may be queried soon. The outcome is handled by the later query, which has to use the same names.
    pub(crate) async fn expect<'a>(&self, hosts: impl IntoIterator<Item = &'a str>, port: u16) {
        join_all(hosts.into_iter().filter_map(|host| Claimed::new(host, port).ok()).map(async |of| {
            let _ = self.transport.client(of.place()).await;
        }))
        .await;
    }

    /// Reads everything in `facts` except individual servers, all at once. `known` determines which leases have moved.
    pub(crate) async fn observe(&self, facts: &BTreeSet<Fact>, known: &KnownLeases, asks_talos: bool) -> Kubernetes {
        let mut seen = Kubernetes::unasked(Ok(self.credentials.clone()), Vec::new());
        let wants = |fact: Fact| facts.contains(&fact);
        let elsewhere = async { if asks_talos { Elsewhere::default() } else { self.elsewhere(facts).await } };
        let elsewhere = elsewhere.map(Rc::new).boxed_local().shared();
        let mirrors = elsewhere.clone().map(|it| it.mirrors());
        let namespaces = elsewhere.clone().map(|it| it.namespaces());
        let addresses = async {
            if wants(Fact::EndpointReadyz) { self.transport.each_address(self.lists.place()).await } else { Vec::new() }
        };
        let dns = self.endpoints(SYSTEM, "kube-dns");
        let api = Box::pin(self.api_endpoints());
        let (workloads, starting);
        (
            (seen.node_leases, seen.system_leases),
            (seen.validating_webhooks, seen.mutating_webhooks, seen.conversions, seen.webhook_endpoints),
            workloads,
            starting,
            seen.endpoint_addresses,
            ..,
        ) = tokio::join!(
            Box::pin(self.leases_of(facts, known, mirrors)),
            // Boxed: it has a request for each namespace.
            Box::pin(self.webhooks(facts)),
            Box::pin(self.workloads(facts, namespaces, asks_talos)),
            Box::pin(self.starting(facts)),
            Box::pin(addresses),
            fill(&mut seen.endpoint, wants(Fact::EndpointReadyz), || self.endpoint()),
            fill(&mut seen.nodes, wants(Fact::KubeNodes), || self.nodes()),
            fill(&mut seen.pods, wants(Fact::Pods), || self.aged::<_, core::Pod>(SYSTEM)),
            fill(&mut seen.bound_pods, wants(Fact::BoundPods), || self.bound_pods()),
            fill(&mut seen.disruption_budgets, wants(Fact::DisruptionBudgets), || self.everywhere()),
            fill(&mut seen.node_room, wants(Fact::NodeRoom), || self.everywhere()),
            fill(&mut seen.volume_attachments, wants(Fact::VolumeAttachments), || self.everywhere()),
            fill(&mut seen.persistent_volumes, wants(Fact::PersistentVolumes), || self.everywhere()),
            fill(&mut seen.dns_endpoints, wants(Fact::DnsEndpoints), || dns),
            fill(&mut seen.api_endpoints, wants(Fact::ApiEndpoints), || api),
            fill(&mut seen.signing_requests, wants(Fact::SigningRequests), || self.everywhere()),
            fill(&mut seen.api_services, wants(Fact::ApiServices), || self.api_services()),
            fill(&mut seen.version, wants(Fact::ServerVersion) && !asks_talos, || self.version()),
            fill(&mut seen.cluster_uid, wants(Fact::KubernetesCluster), || self.cluster_uid()),
        );
        ([seen.daemon_sets, seen.deployments, seen.stateful_sets], seen.plugin_namespaces, seen.plugin_pods) =
            workloads;
        let Starting { pods, pulling, unplaced, events, csi_nodes, attached } = starting;
        (seen.starting_pods, seen.pod_events) = (pods, events);
        (seen.pulling_pods, seen.unplaced_pods) = (pulling, unplaced);
        (seen.csi_nodes, seen.attached_volumes) = (csi_nodes, attached);
        let elsewhere = elsewhere.await;
        elsewhere.add_to(&mut seen);
        *self.mirrors() = elsewhere.mirrors();
        seen
    }

    /// Reads `/readyz` of one API server, verified against the dialed host and as an API server.
    pub(crate) async fn server(&self, host: &str, port: u16) -> Observed<Readyz> {
        let shown = format!("https://{}", endpoint::with_port(host, port));
        let of = self.judged(Claimed::new(host, port)?).await?;
        self.limited(probe::readyz(&self.transport, &of, shown)).await
    }

    /// Reads `/readyz` of a server whose certificate lacks the address, as kubeadm's certificates lack that of a second network. If
    /// default/kubernetes lists the address, the server may instead prove to be the API server of the machine with this name. It never
    /// receives a token or password.
    pub(crate) async fn server_by_name(&self, (host, port): (&str, u16), name: &str, unnamed: Gap) -> Observed<Readyz> {
        let shown = format!("https://{}", endpoint::with_port(host, port));
        let claimed = Claimed::new(host, port)?;
        if !matches!(self.vouchers().await.judge(claimed.clone()), Target::Trusted(_)) {
            return Err(unnamed);
        }
        let of = Target::Claimed(claimed.clone().by_name(name));
        match self.limited(probe::readyz(&self.transport, &of, shown)).await {
            Err(gap) if gap.kind == GapKind::NameNotInCertificate => Err(unnamed),
            Ok(Readyz { status: 401 | 403, .. }) if self.transport.has_secret().await? => {
                Err(gaps::unproven(claimed.place()))
            }
            answer => answer.map(|readyz| Readyz { unnamed: Some(unnamed), ..readyz }),
        }
    }

    /// Reads the API requests counted by the API server that is currently behind the endpoint.
    pub(crate) async fn requested_apis_of_endpoint(&self) -> Observed<RequestedApis> {
        let of = Target::Trusted(self.lists.clone());
        self.limited(metrics::requested_apis(&self.transport, &of)).await
    }

    /// Reads the API requests counted by the API server of this machine, which has given this answer. The server is verified again in the
    /// same way.
    pub(crate) async fn requested_apis(&self, name: &str, answered: &Readyz) -> Observed<RequestedApis> {
        let server: Uri = answered.server.parse().map_err(|_| cause::no_name(&answered.server))?;
        let Endpoint { host, port, .. } = dial::endpoint(&server);
        let claimed = Claimed::new(&host, port)?;
        let of = match &answered.unnamed {
            Some(_) if self.transport.has_secret().await? => return Err(gaps::unproven(claimed.place())),
            Some(_) => Target::Claimed(claimed.by_name(name)),
            None => self.judged(claimed).await?,
        };
        self.limited(metrics::requested_apis(&self.transport, &of)).await
    }

    /// Returns the addresses, starting with those that may receive the credentials.
    pub(crate) async fn in_order<'a>(&self, addresses: &'a [String]) -> Vec<&'a String> {
        let mut addresses: Vec<_> = addresses.iter().collect();
        if addresses.len() > 1 && self.transport.has_secret().await.unwrap_or_default() {
            let vouchers = self.vouchers().await;
            addresses.sort_by_key(|address| !vouchers.know(address));
        }
        addresses
    }

    /// Returns whether the credentials may be sent there. If they contain no secret, nothing has to be waited for.
    async fn judged(&self, claimed: Claimed) -> Observed<Target> {
        if !self.transport.has_secret().await? {
            return Ok(Target::Claimed(claimed));
        }
        let (_, vouchers) = tokio::join!(self.transport.client(claimed.place()), self.vouchers());
        Ok(vouchers.judge(claimed))
    }

    async fn vouchers(&self) -> Vouchers {
        let listed = self.api_endpoints().await;
        let mut vouchers = self.round().vouchers.clone();
        vouchers.add_named(&self.lists);
        // A pod is not an API server, and the address of an endpoint that is not ready may belong to another machine by now.
        for endpoint in listed.iter().flatten().filter(|endpoint| endpoint.ready && endpoint.pod.is_none()) {
            if let Some(port) = endpoint.port {
                vouchers.add_servers(&endpoint.addresses, port);
            }
        }
        vouchers
    }

    /// Returns default/kubernetes, read once per round.
    async fn api_endpoints(&self) -> Observed<Vec<ServiceEndpoint>> {
        let cell = Arc::clone(&self.round().api_endpoints);
        cell.get_or_init(|| Box::pin(self.endpoints("default", "kubernetes"))).await.clone()
    }

    /// Reads one pod, if it exists.
    pub(crate) async fn pod(&self, namespace: &str, name: &str) -> Observed<Option<Pod>> {
        // An invalid name matches no pod, and must not change the path of the request.
        if !is_label(namespace) || !name.split('.').all(is_label) {
            return Ok(None);
        }
        let fields = format!("metadata.name={name}");
        let select = Selection { namespace: Some(namespace), fields: Some(&fields), ..Selection::default() };
        let found = aged::<Pod, core::Pod>(self.limited(list(&self.transport, &self.lists, select)).await?);
        Ok(found.into_iter().find(|pod| pod.name == name))
    }

    async fn endpoint(&self) -> Observed<Readyz> {
        // Not the URL itself, because its path and query can be anything.
        let shown = self.credentials.server.trim_end_matches('/').to_owned();
        let of = Target::Trusted(self.lists.clone());
        self.limited(probe::readyz(&self.transport, &of, shown)).await
    }

    async fn version(&self) -> Observed<String> {
        let of = Target::Trusted(self.lists.clone());
        self.limited(version::of_server(&self.transport, &of)).await
    }

    async fn cluster_uid(&self) -> Observed<String> {
        let of = Target::Trusted(self.lists.clone());
        // No check depends on the UID, so a round does not wait for it for long.
        let asked = || async {
            let asked = tokio::time::timeout(IDENTITY, self.limited(namespace::uid_of_system(&self.transport, &of)));
            asked.await.unwrap_or_else(|_| Err(Gap::new(GapKind::TimedOut, "no answer in time")))
        };
        self.uid.get_or_try_init(asked).await.cloned()
    }

    async fn nodes(&self) -> Observed<Vec<KubeNode>> {
        Ok(nodes::nodes(self.limited(list(&self.transport, &self.lists, Selection::default())).await?))
    }

    /// Reads the pods of all namespaces that may matter for a drain. Finished pods are deleted by a drain too; Kubernetes keeps a few
    /// thousand of them at most.
    async fn bound_pods(&self) -> Observed<Vec<BoundPod>> {
        let fields = Some("spec.nodeName!=");
        let pods = list(&self.transport, &self.lists, Selection { fields, ..Selection::default() });
        Ok(aged::<BoundPod, eviction::Pod>(self.limited(pods).await?))
    }

    /// Reads all objects of a kind in all namespaces.
    async fn everywhere<T: Kept>(&self) -> Observed<Vec<T>> {
        Ok(kept(self.limited(list(&self.transport, &self.lists, Selection::default())).await?).collect())
    }

    async fn endpoints(&self, namespace: &str, service: &str) -> Observed<Vec<ServiceEndpoint>> {
        let labels = format!("kubernetes.io/service-name={service}");
        let slices = list_in::<Slice>(&self.transport, &self.lists, namespace, Some(&labels));
        let slices: Vec<Slice> = kept(self.limited(slices).await?).collect();
        if slices.iter().any(|slice| slice.service != service) {
            return Err(Gap::new(
                GapKind::Malformed,
                "endpoints of another Service: something in between drops the selector",
            ));
        }
        Ok(slices.into_iter().flat_map(|slice| slice.endpoints).collect())
    }

    /// Reads all objects of a kind in a namespace, with the time since each last changed.
    async fn aged<T: Ages, K>(&self, namespace: &str) -> Observed<Vec<T>>
    where
        Since<T, K>: Kept<Object: Object<Kind: Resource<Scope = NamespaceResourceScope>>>,
    {
        Ok(aged::<T, K>(self.limited(list_in(&self.transport, &self.lists, namespace, None)).await?))
    }

    async fn limited<T>(&self, call: impl Future<Output = Observed<T>>) -> Observed<T> {
        // Boxed: a round has many of them.
        let call = Box::pin(call);
        // The semaphore is never closed.
        let _permit = self.in_flight.acquire().await;
        call.await
    }
}

async fn wanted<T>(facts: &BTreeSet<Fact>, fact: Fact, ask: impl Future<Output = Observed<T>>) -> Observed<T> {
    if facts.contains(&fact) { ask.await } else { Err(Gap::not_asked()) }
}

fn kept<T>(listed: Listed<T>) -> impl Iterator<Item = T> {
    listed.items.into_iter().map(|item| item.kept)
}
