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
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod version;
mod whom;
mod wire;
mod workloads;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::{NamespaceResourceScope, Resource};
use kube::Config;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::Instant;

use crate::config::endpoint::{self, Endpoint};
use crate::config::proxy::Routes;
use crate::config::roots::Roots;
use crate::model::Fact;
use crate::observe::budget::Budget;
use crate::observe::dial::cause;
use crate::observe::fill;
use crate::snapshot::{
    ApiService, AttachedVolume, BoundPod, CsiNode, Gap, GapKind, KubeNode, Kubernetes, KubernetesCredentials, Leases,
    Observed, Pod, PodEvent, PullingPod, Readyz, RequestedApis, ServiceEndpoint, StartingPod, UnplacedPod, WAITED,
    Webhook, Workload,
};
use crate::text::is_label;
use client::Transport;
use elsewhere::{Elsewhere, elections};
use extensions::{Mutating, Validating};
use futures::FutureExt as _;
use futures::future::{join_all, try_join_all};
use http::Uri;
use leases::Movement;
use lists::{Kept, Listed, Selection, list, list_in};
use objects::{Ages, Since, aged};
use pending::PendingPod;
use pods::RunningImages;
use sandboxes::{StartedPod, StrandedPod};
use slices::Slice;
use whom::{Claimed, Target, Trusted, Vouchers};
use wire::{Object, apps, core, eviction};

pub(crate) use gaps::short;
pub(crate) use plugin::abandon;
#[cfg(test)]
pub(crate) use required::taken;

const SYSTEM: &str = "kube-system";
const NODE_LEASES: &str = "kube-node-lease";
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

/// Lease data from earlier samples. The caller keeps it from round to round.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownLeases {
    /// The source, context and server of the leases. Leases of the same names in another cluster are other leases.
    of: Option<(String, String, String)>,
    node: BTreeMap<String, PreviousRound>,
    system: BTreeMap<String, PreviousRound>,
}

#[derive(Clone, Debug)]
struct PreviousRound {
    resource_version: String,
    /// When the earliest sample with this version was requested, counting back to the last different version.
    first: Instant,
    /// When the newest sample with this version was requested.
    asked: Instant,
    /// When the newest sample with a different version was requested: the present version is more recent.
    other: Option<Instant>,
}

impl KnownLeases {
    /// Records a sample that was requested at `asked` or later. A list that could not be read changes nothing.
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
            let leases = seen.iter().flat_map(|leases| &leases.by_name);
            for (name, lease) in leases.filter(|(_, lease)| [NODE_LEASES, SYSTEM].contains(&lease.namespace.as_str())) {
                let before = known.get(name);
                let (first, other) = match before {
                    Some(before) if before.resource_version == lease.resource_version => (before.first, before.other),
                    before => (asked, before.map(|before| before.asked)),
                };
                known.insert(
                    name.clone(),
                    PreviousRound { resource_version: lease.resource_version.clone(), first, asked, other },
                );
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

/// Compares a lease of this version with earlier samples: the maximum time since it was renewed, if an earlier sample had another version,
/// and how long it has been unchanged.
fn movement(known: &BTreeMap<String, PreviousRound>, name: &str, resource_version: &str) -> Movement {
    let Some(before) = known.get(name).filter(|_| !resource_version.is_empty()) else { return Movement::default() };
    let is_same = before.resource_version == resource_version;
    let other = if is_same { before.other } else { Some(before.asked) };
    Movement { moved_within: other.map(|other| other.elapsed()), still_for: is_same.then(|| before.first.elapsed()) }
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
        let mut seen = unasked(Ok(self.credentials.clone()), Vec::new());
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

    /// Reads only the node leases and system leases in `facts`, for a second sample within a round.
    pub(crate) async fn leases(
        &self,
        facts: &BTreeSet<Fact>,
        known: &KnownLeases,
    ) -> (Observed<Leases>, Observed<Leases>) {
        let mirrors = Arc::clone(&self.mirrors());
        let mirrors = async { mirrors };
        self.leases_of(facts, known, mirrors).await
    }

    async fn leases_of(
        &self,
        facts: &BTreeSet<Fact>,
        known: &KnownLeases,
        mirrors: impl Future<Output = Arc<Vec<Pod>>>,
    ) -> (Observed<Leases>, Observed<Leases>) {
        let none = BTreeMap::new();
        let ours = |sights| if known.are_of(&self.credentials) { sights } else { &none };
        let read = async |namespace: String, known: &BTreeMap<String, PreviousRound>| {
            let listed = self.limited(list_in(&self.transport, &self.lists, &namespace, None)).await?;
            Ok(leases::leases(listed, |name, version| movement(known, name, version)))
        };
        let system = async {
            let (leases, mirrors) = tokio::join!(read(SYSTEM.to_owned(), ours(&known.system)), mirrors);
            let mut leases: Leases = leases?;
            let api = if mirrors.is_empty() { Ok(Vec::new()) } else { self.api_endpoints().await };
            for (namespace, component) in elections(&mirrors, &leases, api.as_deref().unwrap_or_default()) {
                // The earlier samples are from kube-system.
                let others: Observed<Leases> = read(namespace, &none).await;
                let mut others = match others {
                    Err(gap) if gap.kind == GapKind::Forbidden && leases.by_name.contains_key(component) => continue,
                    others => others?,
                };
                // If there are several, the lease that was renewed last counts.
                let before = leases.by_name.get(component).and_then(|lease| lease.renewed);
                if let Some(lease) = others.by_name.remove(component).filter(|lease| lease.renewed > before) {
                    leases.by_name.insert(component.to_owned(), lease);
                }
            }
            Ok(leases)
        };
        tokio::join!(
            wanted(facts, Fact::NodeLeases, read(NODE_LEASES.to_owned(), ours(&known.node))),
            wanted(facts, Fact::SystemLeases, system),
        )
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

    /// Reads all kinds of webhooks, and then the endpoints of their Services, all at once.
    async fn webhooks(&self, facts: &BTreeSet<Fact>) -> Webhooks {
        let validating = async { Ok(self.everywhere::<Validating>().await?.into_iter().flat_map(|it| it.0).collect()) };
        let mutating = async { Ok(self.everywhere::<Mutating>().await?.into_iter().flat_map(|it| it.0).collect()) };
        let (validating, mutating, conversions): (Observed<Vec<Webhook>>, Observed<Vec<Webhook>>, _) = tokio::join!(
            wanted(facts, Fact::ValidatingWebhooks, validating),
            wanted(facts, Fact::MutatingWebhooks, mutating),
            wanted(facts, Fact::Conversions, Box::pin(self.conversions())),
        );
        let hooks = validating.iter().chain(&mutating).chain(&conversions).flatten();
        let services: BTreeSet<_> = hooks.filter_map(|hook| hook.service.clone()).collect();
        let endpoints = services.into_iter().map(async |service| {
            let (namespace, name) = &service;
            let endpoints = wanted(facts, Fact::WebhookEndpoints, self.endpoints_of(namespace, name)).await;
            (service, endpoints)
        });
        let endpoints = join_all(endpoints).await.into_iter().collect();
        (validating, mutating, conversions, endpoints)
    }

    /// Reads the conversion webhooks once in a run, or again if the next answer may be different.
    async fn conversions(&self) -> Observed<Vec<Webhook>> {
        if let Some(known) = self.conversions.get() {
            return known.clone();
        }
        let read = self.everywhere::<Option<Webhook>>().await;
        let read = read.map(|all| all.into_iter().flatten().collect::<Vec<_>>());
        if read.is_ok() || read.as_ref().is_err_and(|gap| gap.kind == GapKind::TooLarge) {
            let _ = self.conversions.set(read.clone());
        }
        read
    }

    /// Reads aggregated APIs, and then the endpoints behind those that are not available.
    async fn api_services(&self) -> Observed<Vec<ApiService>> {
        let mut services: Vec<ApiService> = self.everywhere().await?;
        // Several versions of an API have one Service.
        let unavailable = services.iter().filter(|it| !it.is_available()).filter_map(|it| it.service.clone());
        let unavailable: BTreeSet<(String, String)> = unavailable.collect();
        let backends = unavailable.into_iter().map(async |service| {
            let backends = self.endpoints_of(&service.0, &service.1).await.unwrap_or_default();
            (service, backends)
        });
        let backends: BTreeMap<_, _> = join_all(backends).await.into_iter().collect();
        for it in services.iter_mut().filter(|it| !it.is_available()) {
            it.backends = it.service.as_ref().and_then(|service| backends.get(service)).cloned().unwrap_or_default();
        }
        Ok(services)
    }

    /// Returns the endpoints of a Service that another object names. No Service has a name that is not a label, so it has no endpoints.
    async fn endpoints_of(&self, namespace: &str, service: &str) -> Observed<Vec<ServiceEndpoint>> {
        if !is_label(namespace) || !is_label(service) {
            return Ok(Vec::new());
        }
        self.endpoints(namespace, service).await
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

    /// Reads the workloads in `kube-system` and in the namespaces of the network plugin, which are found through its DaemonSet, and the
    /// DaemonSets of drivers in any namespace. Without Talos, workloads marked as critical are added; if they cannot be read, the results
    /// for `kube-system` still stand. The returned pods are those of the network plugin, and of drivers with missing pods.
    async fn workloads(
        &self,
        facts: &BTreeSet<Fact>,
        others: impl Future<Output = BTreeSet<String>>,
        asks_talos: bool,
    ) -> ([Observed<Vec<Workload>>; 3], Observed<Vec<String>>, Vec<Pod>) {
        let (others, sets, mut deployments, mut stateful_sets) = tokio::join!(
            others,
            wanted(facts, Fact::DaemonSets, self.daemon_sets()),
            wanted(facts, Fact::Deployments, self.aged::<_, apps::Deployment>(SYSTEM)),
            wanted(facts, Fact::StatefulSets, self.aged::<_, apps::StatefulSet>(SYSTEM)),
        );
        let (sets, all) = match sets {
            Ok((sets, all)) => (Ok(sets), all),
            Err(gap) => (Err(gap.clone()), Err(gap)),
        };
        let mut namespaces = all.map(|()| {
            let of_plugin = network_namespaces(sets.iter().flatten());
            of_plugin.into_iter().chain(others).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
        });
        let of_plugin = namespaces.iter().flatten().map(async |namespace| {
            tokio::join!(
                wanted(facts, Fact::Deployments, self.aged::<_, apps::Deployment>(namespace)),
                wanted(facts, Fact::StatefulSets, self.aged::<_, apps::StatefulSet>(namespace)),
                wanted(facts, Fact::Pods, self.aged::<_, core::Pod>(namespace)),
            )
        });
        let mut pods = Vec::new();
        for (more_deployments, more_sets, more_pods) in join_all(of_plugin).await {
            let parts = [
                extend(deployments.as_mut().ok(), more_deployments),
                extend(stateful_sets.as_mut().ok(), more_sets),
                extend(Some(&mut pods), more_pods),
            ];
            if let Some(gap) = parts.into_iter().find_map(Result::err) {
                namespaces = Err(gap);
            }
        }
        let is_system = |set: &Workload| {
            let is_beside = |namespaces: &Vec<String>| namespaces.contains(&set.namespace);
            let is_known = set.installs_network || set.registers_driver || namespaces.iter().any(is_beside);
            set.namespace == SYSTEM || is_known || (set.is_critical && !asks_talos)
        };
        let sets: Observed<Vec<Workload>> = sets.map(|sets| sets.into_iter().filter(is_system).collect());
        let (more_pods, lost) = self.pods_beside(facts, sets.iter().flatten(), namespaces.iter().flatten()).await;
        pods.extend(more_pods);
        let namespaces = lost.map_or(namespaces, Err);
        ([sets, deployments, stateful_sets], namespaces, pods)
    }

    /// Reads the pods of DaemonSets with missing pods in namespaces that have not been read. For complete DaemonSets, their counts are
    /// enough.
    async fn pods_beside<'a>(
        &self,
        facts: &BTreeSet<Fact>,
        sets: impl Iterator<Item = &'a Workload>,
        read: impl Iterator<Item = &'a String>,
    ) -> (Vec<Pod>, Option<Gap>) {
        let read: BTreeSet<&str> = read.map(String::as_str).chain([SYSTEM]).collect();
        let lacks = |set: &&Workload| !set.is_observed() || set.missing() > 0 || set.rollout(0).is_some();
        let lacking: BTreeSet<(&str, &str)> = sets
            .filter(|set| !read.contains(set.namespace.as_str()))
            .filter(lacks)
            .map(|set| (set.namespace.as_str(), set.name.as_str()))
            .collect();
        let namespaces: BTreeSet<&str> = lacking.iter().map(|(namespace, _)| *namespace).collect();
        let lists = namespaces.into_iter().map(async |namespace| {
            let pods: Observed<Vec<Pod>> = wanted(facts, Fact::Pods, self.aged::<_, core::Pod>(namespace)).await;
            pods
        });
        let (mut pods, mut lost) = (Vec::new(), None);
        for answer in join_all(lists).await {
            match answer {
                Ok(found) => pods.extend(found),
                Err(gap) => lost = lost.or(Some(gap)),
            }
        }
        let is_theirs = |pod: &Pod| match &pod.controller {
            Some((kind, name)) => kind == "DaemonSet" && lacking.contains(&(pod.namespace.as_str(), name.as_str())),
            None => false,
        };
        pods.retain(is_theirs);
        (pods, lost)
    }

    /// Reads the DaemonSets of all namespaces. If only those of `kube-system` may be read, returns these and the reason for the missing
    /// others.
    async fn daemon_sets(&self) -> Observed<(Vec<Workload>, Observed<()>)> {
        let all = self.limited(list(&self.transport, &self.lists, Selection::default())).await;
        match all {
            Ok(all) => Ok((aged::<Workload, apps::DaemonSet>(all), Ok(()))),
            Err(gap) if matches!(gap.kind, GapKind::Forbidden | GapKind::TooLarge) => {
                Ok((self.aged::<_, apps::DaemonSet>(SYSTEM).await?, Err(gap)))
            }
            Err(gap) => Err(gap),
        }
    }

    /// Reads pods that no scheduler has considered or that are waiting on their node, with events: only sandbox failures, unless a pod has
    /// been waiting for long. Other explanations are read only if several pods are waiting on one node.
    async fn starting(&self, facts: &BTreeSet<Fact>) -> Starting {
        let pending = self.pods::<PendingPod>(None, "status.phase=Pending");
        let failed = self.events("involvedObject.kind=Pod,reason=FailedCreatePodSandBox");
        let (pending, failed) =
            tokio::join!(wanted(facts, Fact::StartingPods, pending), wanted(facts, Fact::PodEvents, failed));
        let (mut pods, pulling, unplaced) = split(pending);
        if let (Ok(pending), Ok(failed)) = (&mut pods, &failed) {
            match self.stranded(failed).await {
                Ok(stranded) => pending.extend(stranded),
                Err(gap) => pods = Err(gap),
            }
        }
        let pulling = self.running_elsewhere(pulling).await;
        let mut seen = Starting {
            pods,
            pulling,
            unplaced,
            events: failed,
            csi_nodes: Err(Gap::not_asked()),
            attached: Err(Gap::not_asked()),
        };
        if !seen.pods.iter().flatten().any(StartingPod::is_late) {
            return seen;
        }
        let waits = seen.pods.as_ref().is_ok_and(|pods| wait_together(pods));
        // Excludes events that every pod has, and those that come after the sandbox.
        let events = self.events(
            "involvedObject.kind=Pod,reason!=Scheduled,reason!=Pulled,reason!=Created,reason!=Started,reason!=Killing,\
             reason!=BackOff,reason!=Unhealthy",
        );
        let drivers = fill(&mut seen.csi_nodes, waits && facts.contains(&Fact::CsiNodes), || self.everywhere());
        let attached = fill(&mut seen.attached, waits && facts.contains(&Fact::AttachedVolumes), || self.everywhere());
        let overtaken = self.overtaken(seen.pods);
        (seen.pods, seen.events, ..) =
            tokio::join!(overtaken, wanted(facts, Fact::PodEvents, events), drivers, attached);
        seen
    }

    /// Finds the other nodes that already run the images for which many pods of one node are waiting. If they cannot be read, nothing is
    /// added.
    async fn running_elsewhere(&self, mut pulling: Vec<PullingPod>) -> Vec<PullingPod> {
        let mut late: BTreeMap<&str, Vec<&PullingPod>> = BTreeMap::new();
        for pod in pulling.iter().filter(|pod| pod.is_late()) {
            late.entry(&pod.node).or_default().push(pod);
        }
        if !late.values().any(|pods| PullingPod::are_many(pods.iter().copied())) {
            return pulling;
        }
        let select = Selection { fields: Some("spec.nodeName!=,status.phase=Running"), ..Selection::default() };
        let running = self.limited(list(&self.transport, &self.lists, select)).await;
        let mut nodes: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        let running: Vec<RunningImages> = running.into_iter().flat_map(kept).collect();
        for pod in &running {
            for image in &pod.images {
                nodes.entry(image).or_default().insert(&pod.node);
            }
        }
        for pod in &mut pulling {
            let others = nodes.get(pod.image.as_str()).into_iter().flatten();
            pod.runs_on = others.copied().find(|node| *node != pod.node).map(str::to_owned);
        }
        pulling
    }

    /// Reads pods that have already run and that these events are about: a few individually, more with one list.
    async fn stranded(&self, events: &[PodEvent]) -> Observed<Vec<StartingPod>> {
        let mut named: BTreeMap<(&str, &str), Vec<&PodEvent>> = BTreeMap::new();
        // An invalid name matches no pod, and must not change the path of the request. The results are filtered again because a server or
        // proxy may ignore the selector.
        let is_name = |it: &&PodEvent| is_label(&it.namespace) && it.pod.split('.').all(is_label);
        for event in events.iter().filter(is_name).filter(|it| it.reason == "FailedCreatePodSandBox") {
            named.entry((&event.namespace, &event.pod)).or_default().push(event);
        }
        let pods = if named.len() <= LOOKED_AT {
            try_join_all(named.keys().map(async |(namespace, name)| {
                self.pods::<StrandedPod>(Some(namespace), &format!("metadata.name={name},status.phase=Running")).await
            }))
            .await?
        } else {
            vec![self.pods::<StrandedPod>(None, "spec.nodeName!=,status.phase=Running").await?]
        };
        let is_told = |it: &StrandedPod| {
            let events = named.get(&(it.pod.namespace.as_str(), it.pod.name.as_str()));
            events.is_some_and(|events| it.is_told(events))
        };
        Ok(pods.into_iter().flatten().filter(is_told).map(|it| it.pod).collect())
    }

    /// Reads pods, dropping those of which nothing is kept.
    async fn pods<T>(&self, namespace: Option<&str>, fields: &str) -> Observed<Vec<T>>
    where
        Option<T>: Ages,
        Since<Option<T>, core::Pod>: Kept<Object = core::Pod>,
    {
        let select = Selection { namespace, fields: Some(fields), ..Selection::default() };
        let pods = self.limited(list(&self.transport, &self.lists, select)).await?;
        Ok(aged::<Option<T>, core::Pod>(pods).into_iter().flatten().collect())
    }

    async fn events(&self, fields: &str) -> Observed<Vec<PodEvent>> {
        let select = Selection { fields: Some(fields), ..Selection::default() };
        Ok(kept::<Option<PodEvent>>(self.limited(list(&self.transport, &self.lists, select)).await?)
            .flatten()
            .collect())
    }

    /// Finds pods that were bound to the same node later than a late pod and already have their sandbox. If they cannot be read, nothing
    /// changes.
    async fn overtaken(&self, mut pods: Observed<Vec<StartingPod>>) -> Observed<Vec<StartingPod>> {
        let late = || pods.iter().flatten().filter(|pod| pod.is_late());
        let nodes: BTreeSet<String> = late().filter_map(|pod| pod.node.clone()).collect();
        let selections = match nodes.len() {
            0..=LOOKED_AT => nodes.iter().map(|node| format!("spec.nodeName={node},status.phase!=Pending")).collect(),
            _ => vec!["spec.nodeName!=,status.phase!=Pending".to_owned()],
        };
        let started = join_all(selections.iter().map(|fields| self.pods::<StartedPod>(None, fields))).await;
        let mut youngest: HashMap<&str, (Duration, &str)> = HashMap::new();
        for pod in started.iter().flatten().flatten() {
            let Some(age) = pod.has_run_for else { continue };
            let known = youngest.entry(&pod.node).or_insert((age, &pod.name));
            *known = (*known).min((age, &pod.name));
        }
        for pod in pods.iter_mut().flatten() {
            let other = pod.node.as_deref().and_then(|node| youngest.get(node));
            let later = other.filter(|(age, _)| pod.waiting_for.is_some_and(|waiting| *age < waiting));
            pod.overtaken_by = later.map(|(_, name)| (*name).to_owned());
        }
        pods
    }

    async fn limited<T>(&self, call: impl Future<Output = Observed<T>>) -> Observed<T> {
        // Boxed: a round has many of them.
        let call = Box::pin(call);
        // The semaphore is never closed.
        let _permit = self.in_flight.acquire().await;
        call.await
    }
}

/// Pods that are starting, and facts that explain why they are late.
struct Starting {
    pods: Observed<Vec<StartingPod>>,
    pulling: Vec<PullingPod>,
    unplaced: Vec<UnplacedPod>,
    events: Observed<Vec<PodEvent>>,
    csi_nodes: Observed<Vec<CsiNode>>,
    attached: Observed<Vec<AttachedVolume>>,
}

fn split(pending: Observed<Vec<PendingPod>>) -> (Observed<Vec<StartingPod>>, Vec<PullingPod>, Vec<UnplacedPod>) {
    let (mut starting, mut pulling, mut unplaced) = (Vec::new(), Vec::new(), Vec::new());
    let pending = match pending {
        Ok(pending) => pending,
        Err(gap) => return (Err(gap), pulling, unplaced),
    };
    for pod in pending {
        match pod {
            PendingPod::Starting(pod) => starting.push(pod),
            PendingPod::Pulling(pod) => pulling.push(pod),
            PendingPod::Unplaced(pod) => unplaced.push(pod),
        }
    }
    (Ok(starting), pulling, unplaced)
}

/// Returns whether several pods are waiting for volumes on one node.
fn wait_together(pods: &[StartingPod]) -> bool {
    let waits = |pod: &&StartingPod| pod.mounts_storage && pod.waiting_for.is_some_and(|waiting| waiting >= WAITED);
    let mut nodes = BTreeSet::new();
    pods.iter().filter(waits).filter_map(|pod| pod.node.as_ref()).any(|node| !nodes.insert(node))
}

/// Validating webhooks, mutating webhooks, conversion webhooks, and the endpoints of their Services.
type Webhooks = (
    Observed<Vec<Webhook>>,
    Observed<Vec<Webhook>>,
    Observed<Vec<Webhook>>,
    BTreeMap<(String, String), Observed<Vec<ServiceEndpoint>>>,
);

/// Limit for pods or nodes that are queried individually; beyond it, one list is read.
const LOOKED_AT: usize = 8;

/// Returns the namespaces of the network plugin other than `kube-system`.
fn network_namespaces<'a>(sets: impl Iterator<Item = &'a Workload>) -> Vec<String> {
    let own = sets.filter(|set| set.is_of_network_plugin()).map(|set| set.namespace.as_str());
    // Calico's operator has its own namespace, and so does the API server that it runs.
    let with_operator = |namespace| match namespace {
        "calico-system" => vec![namespace, "tigera-operator", "calico-apiserver"],
        _ => vec![namespace],
    };
    let all: BTreeSet<&str> = own.flat_map(with_operator).filter(|namespace| *namespace != SYSTEM).collect();
    all.into_iter().map(str::to_owned).collect()
}

/// Appends additional results to the list, if the list was read.
fn extend<T>(list: Option<&mut Vec<T>>, part: Observed<Vec<T>>) -> Observed<()> {
    let part = part?;
    if let Some(list) = list {
        list.extend(part);
    }
    Ok(())
}

async fn wanted<T>(facts: &BTreeSet<Fact>, fact: Fact, ask: impl Future<Output = Observed<T>>) -> Observed<T> {
    if facts.contains(&fact) { ask.await } else { Err(Gap::not_asked()) }
}

fn kept<T>(listed: Listed<T>) -> impl Iterator<Item = T> {
    listed.items.into_iter().map(|item| item.kept)
}

/// Returns the Kubernetes side of a round in which nothing could be queried.
pub(crate) fn unasked(credentials: Observed<KubernetesCredentials>, passed_over: Vec<(String, String)>) -> Kubernetes {
    fn gap<T>() -> Observed<T> {
        Err(Gap::not_asked())
    }
    Kubernetes {
        credentials,
        passed_over,
        may_still_find: false,
        endpoint: gap(),
        endpoint_addresses: Vec::new(),
        servers: BTreeMap::new(),
        nodes: gap(),
        node_leases: gap(),
        system_leases: gap(),
        pods: gap(),
        user_pods: BTreeMap::new(),
        daemon_sets: gap(),
        deployments: gap(),
        stateful_sets: gap(),
        plugin_namespaces: gap(),
        plugin_pods: Vec::new(),
        starting_pods: gap(),
        pulling_pods: Vec::new(),
        unplaced_pods: Vec::new(),
        csi_nodes: gap(),
        attached_volumes: gap(),
        bound_pods: gap(),
        disruption_budgets: gap(),
        node_room: gap(),
        volume_attachments: gap(),
        persistent_volumes: gap(),
        requested_apis: BTreeMap::new(),
        pod_events: gap(),
        dns_endpoints: gap(),
        api_endpoints: gap(),
        signing_requests: gap(),
        validating_webhooks: gap(),
        mutating_webhooks: gap(),
        conversions: gap(),
        webhook_endpoints: BTreeMap::new(),
        api_services: gap(),
        version: gap(),
        cluster_uid: gap(),
        required: BTreeMap::new(),
    }
}
