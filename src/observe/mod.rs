//! The only input and output of the program towards a cluster: bytes become facts here.
//!
//! One round asks for everything that the selected checks name, at once: endpoints and Kubernetes first, nodes as soon as any
//! source names them. Each question has its own deadline, and the round has one that nothing passes.

mod cluster;
mod credentials;
mod dial;
mod endpoints;
mod etcd;
mod kubernetes;
mod nodes;
mod population;
#[cfg(feature = "record")]
mod record;
mod server;
mod talos;
#[cfg(test)]
mod testing;

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{Shared, join_all};
use jiff::Timestamp;
use tokio::time::Instant;

pub(crate) use self::credentials::Credentials;
use self::credentials::KubernetesSide;
use self::endpoints::{AskedEndpoint, Endpoints, Sighting, TalosSide, first_endpoints};
use self::etcd::EtcdClients;
use self::kubernetes::{KnownLeases, unasked};
use self::nodes::is_slow;
use self::population::Candidate;
use crate::checks::Fact;
use crate::engine::Observe;
use crate::logs::{Log, Tail};
use crate::memory::Memory;
use crate::plan::Plan;
use crate::snapshot::{Asked, EtcdEndpoint, Gap, Kubernetes, Node, ServerProgress, Snapshot, Talos};

/// Port of an API server that nobody tells.
const API_PORT: u16 = 6443;

/// Asks a cluster, round after round.
pub(crate) struct Observer<'a> {
    talos: Option<TalosSide>,
    kubernetes: Option<KubernetesSide>,
    external_etcd: Option<EtcdClients>,
    asked: Asked,
    facts: BTreeSet<Fact>,
    scope: Vec<String>,
    attempt_timeout: Duration,
    known_leases: KnownLeases,
    /// Host of the Kubernetes endpoint as of this round: perhaps a virtual IP.
    kubernetes_host: Option<String>,
    /// Nodes that did not answer in the last round. They have a small budget of their own, so that they never starve the
    /// living.
    slow: BTreeSet<String>,
    tell: &'a dyn Fn(&ServerProgress),
    #[cfg(feature = "record")]
    recording: record::Recording,
}

impl<'a> Observer<'a> {
    /// What the cluster's own health check says is told as it comes.
    pub(crate) fn new(plan: &Plan, credentials: Credentials, tell: &'a dyn Fn(&ServerProgress)) -> Self {
        let call_timeout = plan.pace.attempt_timeout / 2;
        let Credentials { talos, kubernetes, etcd, .. } = credentials;
        let talos = match talos {
            None => None,
            Some(Err(gap)) => Some(TalosSide::unusable(gap)),
            Some(Ok(config)) => Some(TalosSide::new(config, call_timeout)),
        };
        let external_etcd =
            etcd.map(|(endpoints, credentials)| EtcdClients::new(endpoints, &credentials, call_timeout));
        Self {
            talos,
            kubernetes: kubernetes.map(|access| KubernetesSide::new(access, call_timeout)),
            external_etcd,
            asked: plan.asked.clone(),
            #[cfg(not(feature = "record"))]
            facts: plan.facts.clone(),
            #[cfg(feature = "record")]
            facts: record::blind::seen(&plan.facts),
            scope: plan.scope.clone(),
            attempt_timeout: plan.pace.attempt_timeout,
            known_leases: KnownLeases::default(),
            kubernetes_host: None,
            slow: BTreeSet::new(),
            tell,
            #[cfg(feature = "record")]
            recording: record::Recording::begin(),
        }
    }
}

/// What a round has seen, the cluster's own health check aside.
struct Seen {
    known: Endpoints,
    /// The population, in the end.
    all: Vec<Candidate>,
    nodes: Vec<Node>,
    side: Option<KubernetesSide>,
    kubernetes: Option<Kubernetes>,
    external_etcd: Option<Vec<EtcdEndpoint>>,
}

impl Observer<'_> {
    /// The three sides of a round at once, and then what only one of them has made known.
    async fn everything(
        &self,
        first: &Shared<impl Future<Output = Rc<Sighting>>>,
        asking: Vec<AskedEndpoint<'_>>,
        mut side: Option<KubernetesSide>,
        until: Instant,
    ) -> Seen {
        let talos = async {
            let seen = first.clone().await;
            // The late ones go on beside the nodes: their own word is wanted, too, but nobody waits for it.
            let nodes = self.ask_nodes(seen.population.clone(), &seen.endpoints, until);
            let (nodes, answers) = tokio::join!(nodes, join_all(asking));
            (Endpoints { answers: answers.into_iter().map(Some).collect() }, nodes)
        };
        let kubernetes = async {
            match &mut side {
                None => None,
                Some(side) => Some(Box::pin(self.observe_kubernetes(side, first, until)).await),
            }
        };
        let external_etcd = async {
            match &self.external_etcd {
                None => None,
                Some(clients) => Some(clients.observe().await),
            }
        };
        let ((known, mut nodes), mut kubernetes, external_etcd) = tokio::join!(talos, kubernetes, external_etcd);

        // What only Kubernetes knows is asked now, and so is its API server.
        let kube_nodes = kubernetes.as_ref().and_then(|kubernetes| kubernetes.nodes.as_ref().ok());
        // Another cluster's nodes are none of ours, and must not be dialled.
        let ours = kube_nodes.filter(|nodes| population::same_cluster(&self.population(&known, &[]), nodes));
        let all = self.population(&known, ours.map_or(&[], Vec::as_slice));
        let mut late = Vec::new();
        for candidate in &all {
            match nodes.iter_mut().find(|node| node.is(candidate)) {
                Some(node) => node.candidate = candidate.clone(),
                None => late.push(candidate.clone()),
            }
        }
        let late = self.ask_nodes(late, &known, until).await;
        nodes.extend(late);
        let nodes = self.finish(nodes);
        if let (Some(side), Some(kubernetes)) = (&side, &mut kubernetes) {
            self.probe_missing_servers(side, kubernetes, &nodes, until).await;
        }
        Seen { known, all, nodes, side, kubernetes, external_etcd }
    }
}

impl Observe for Observer<'_> {
    fn preflight(&self, memory: &Memory) -> Snapshot {
        Snapshot {
            taken: Timestamp::now(),
            asked: self.asked.clone(),
            talos: self.talos.as_ref().map(|side| Talos {
                credentials: side.credentials.clone(),
                endpoints: Vec::new(),
                discovery: Err(Gap::not_asked()),
                server: Err(Gap::not_asked()),
            }),
            kubernetes: self.kubernetes.as_ref().map(|side| unasked(side.credentials(), Vec::new())),
            external_etcd: None,
            nodes: Vec::new(),
            memory: memory.clone(),
        }
    }

    async fn round(&mut self, memory: &Memory) -> Snapshot {
        #[cfg(feature = "record")]
        self.recording.round();
        let asked = Instant::now();
        let until = asked + self.attempt_timeout;
        let taken = Timestamp::now();
        // Taken out so that both sides can be at work at once; the Kubernetes side may change its mind about its source.
        // It is put back at the end. A round that is dropped before it ends keeps it, and is the observer's last.
        let side = self.kubernetes.take();
        self.kubernetes_host = side.as_ref().and_then(KubernetesSide::host);
        let asking = self.ask_endpoints(until);
        let first_answers = first_endpoints(asking.clone(), until);
        let first = async {
            let endpoints = first_answers.await;
            let population = self.population(&endpoints, &[]);
            Rc::new(Sighting { endpoints, population })
        };
        let first = first.boxed_local().shared();
        // Beside everything else, so that a server that takes its time takes none from the other questions.
        let (seen, server) = tokio::join!(
            Box::pin(self.everything(&first, asking, side, until)),
            Box::pin(self.server_check(&first, until)),
        );
        drop(first);
        let Seen { known, all, nodes, side, kubernetes, external_etcd } = seen;
        if let Some(kubernetes) = &kubernetes {
            let Kubernetes { credentials, node_leases, system_leases, .. } = kubernetes;
            self.known_leases.remember(credentials, asked, node_leases, system_leases);
        }
        self.kubernetes = side;
        self.slow = nodes.iter().filter(|node| is_slow(&node.talos)).map(|node| node.name.clone()).collect();
        let talos = self.talos.as_ref().map(|side| self.talos_facts(side, &known, &all, server));
        Snapshot { taken, asked: self.asked.clone(), talos, kubernetes, external_etcd, nodes, memory: memory.clone() }
    }

    async fn logs(&self, wanted: Vec<Log>, snapshot: &Snapshot, until: Instant) -> Vec<Tail> {
        let Some(TalosSide { client: Some(client), .. }) = &self.talos else { return Vec::new() };
        join_all(wanted.into_iter().map(|log| async move {
            let contact = snapshot.node(&log.node).map(|node| &node.talos.contact);
            let lines = match contact {
                Some(Ok(contact)) => Box::pin(client.log(contact, &log.of, until)).await,
                _ => Err(Gap::not_asked()),
            };
            Tail { log, lines }
        }))
        .await
    }

    async fn again(&mut self, facts: &BTreeSet<Fact>, snapshot: &mut Snapshot) {
        let asked = Instant::now();
        let until = asked + self.attempt_timeout / 2;
        let leases = async {
            let client = self.kubernetes.as_ref().and_then(KubernetesSide::client)?;
            Some(Box::pin(client.leases(facts, &self.known_leases)).await)
        };
        let etcd = async {
            match &self.external_etcd {
                Some(clients) if facts.contains(&Fact::EtcdMembership) => Some(clients.observe().await),
                _ => None,
            }
        };
        let members = self.etcd_again(facts, snapshot, until);
        let (leases, etcd, members) = tokio::join!(leases, etcd, members);
        if let (Some((node, system)), Some(kubernetes)) = (leases, &mut snapshot.kubernetes) {
            self.known_leases.remember(&kubernetes.credentials, asked, &node, &system);
            if facts.contains(&Fact::NodeLeases) {
                kubernetes.node_leases = node;
            }
            if facts.contains(&Fact::SystemLeases) {
                kubernetes.system_leases = system;
            }
        }
        if let Some(again) = etcd {
            let before = snapshot.external_etcd.take().unwrap_or_default();
            let after = |endpoint: EtcdEndpoint| match before.iter().find(|it| it.address == endpoint.address) {
                Some(before) => {
                    EtcdEndpoint { status: endpoint.status.map(|status| status.after(&before.status)), ..endpoint }
                }
                None => endpoint,
            };
            snapshot.external_etcd = Some(again.into_iter().map(after).collect());
        }
        for (name, again) in members {
            if let Some(node) = snapshot.nodes.iter_mut().find(|node| node.name == name) {
                node.talos.etcd_status = again.etcd_status.map(|status| status.after(&node.talos.etcd_status));
                node.talos.etcd_members = again.etcd_members;
                node.talos.etcd_member_id = again.etcd_member_id;
            }
        }
    }
}
