//! The program's only input and output toward a cluster, where bytes become facts.
//!
//! A round reads everything that the selected checks need, all at once: endpoints and Kubernetes first, and nodes as soon as any source
//! names them. Each request has its own deadline, and the round has one that nothing exceeds.

mod budget;
mod cluster;
mod credentials;
mod dial;
mod endpoints;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(not(feature = "etcd"))]
#[path = "no_etcd.rs"]
mod etcd;
mod flags;
mod join;
mod kubelet;
mod kubernetes;
mod nodes;
mod population;
pub(crate) mod post;
#[cfg(feature = "record")]
mod record;
mod server;
mod silent;
mod talos;
#[cfg(test)]
mod testing;
pub(crate) mod trace;

use std::collections::{BTreeSet, HashMap};
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{Shared, join_all};
use tokio::sync::Mutex;
use tokio::task::yield_now;
use tokio::time::Instant;

use self::budget::Budget;
pub(crate) use self::credentials::Credentials;
use self::credentials::KubernetesSide;
use self::endpoints::{AskedEndpoint, Endpoints, Sighting, TalosSide, first_endpoints};
use self::etcd::EtcdClients;
use self::join::{Candidate, Index};
use self::kubelet::Handshakes;
use self::kubernetes::KnownLeases;
pub(crate) use self::kubernetes::abandon;
#[cfg(test)]
pub(crate) use self::kubernetes::taken;
use self::nodes::put_own_first;
use self::silent::Silent;
use self::talos::first_contact_takes;
use crate::model::{Fact, Shared as Kept};
use crate::snapshot::logs::{Log, Tail};
use crate::snapshot::{
    Asked, Awaited, EtcdEndpoint, Gap, Kubernetes, Memory, Node, Observe, Observed, Part, Patience, ServerProgress,
    Snapshot, Suspects, Talos, TalosNode,
};
use crate::text::clock;

/// Variables that have no matching option.
#[cfg(feature = "record")]
pub(crate) const VARIABLES: &[&str] = record::VARIABLES;
#[cfg(not(feature = "record"))]
pub(crate) const VARIABLES: &[&str] = &[];

/// The default port of an API server.
const API_PORT: u16 = 6443;

/// The data to read from the cluster in each round.
#[derive(Clone, Debug)]
pub(crate) struct Inquiry {
    /// The user's expectations, for the checks.
    pub(crate) asked: Asked,
    /// The facts that the selected checks read; nothing else is queried.
    pub(crate) facts: BTreeSet<Fact>,
    /// Time limit for a round; each call gets half of it.
    pub(crate) attempt_timeout: Duration,
}

/// Observes a cluster, round after round.
pub(crate) struct Observer<'a> {
    talos: Option<TalosSide>,
    /// Locked during a round, which may switch to another source of credentials while the other sides are running.
    kubernetes: Mutex<Option<KubernetesSide>>,
    external_etcd: Option<EtcdClients>,
    asked: Asked,
    wanted: BTreeSet<Fact>,
    /// The facts of this round.
    facts: BTreeSet<Fact>,
    /// Machines that are not queried in this round, by name, with their earlier answers; `None` if all are queried.
    repeated: Option<HashMap<String, Kept<TalosNode>>>,
    attempt_timeout: Duration,
    known_leases: KnownLeases,
    handshakes: Handshakes,
    /// Host of the Kubernetes endpoint in this round, possibly a virtual IP.
    kubernetes_host: Option<String>,
    silent: Silent,
    /// The time when this round began, and how long it waits for a silent machine.
    began: Instant,
    patience: Duration,
    budget: Arc<Budget>,
    tell: &'a dyn Fn(&ServerProgress),
    awaited: Rc<Awaited>,
    #[cfg(feature = "record")]
    recording: record::Recording,
}

impl<'a> Observer<'a> {
    /// Creates an observer. `tell` receives the output of the cluster's own health check as it arrives, and `awaited` shows the progress of
    /// a round.
    pub(crate) fn new(
        inquiry: &Inquiry,
        credentials: Credentials,
        tell: &'a dyn Fn(&ServerProgress),
        awaited: Rc<Awaited>,
    ) -> Self {
        let call_timeout = inquiry.attempt_timeout / 2;
        let Credentials { talos, kubernetes, etcd, .. } = credentials;
        let budget = Arc::<Budget>::default();
        let talos = match talos {
            None => None,
            Some(Err(gap)) => Some(TalosSide::unusable(gap)),
            Some(Ok(config)) => Some(TalosSide::new(config, call_timeout, &budget)),
        };
        let external_etcd = etcd.map(|access| EtcdClients::new(access, call_timeout));
        Self {
            talos,
            kubernetes: Mutex::new(kubernetes.map(|access| KubernetesSide::new(access, call_timeout, &budget))),
            external_etcd,
            asked: inquiry.asked.clone(),
            #[cfg(not(feature = "record"))]
            wanted: inquiry.facts.clone(),
            #[cfg(feature = "record")]
            wanted: record::blind::seen(&inquiry.facts),
            facts: BTreeSet::new(),
            repeated: None,
            attempt_timeout: inquiry.attempt_timeout,
            known_leases: KnownLeases::default(),
            handshakes: Handshakes::default(),
            kubernetes_host: None,
            silent: Silent::default(),
            began: Instant::now(),
            patience: Duration::ZERO,
            budget,
            tell,
            awaited,
            #[cfg(feature = "record")]
            recording: record::Recording::begin(),
        }
    }
}

/// Reads a fact if it is wanted. The call is only made then, and is boxed: thousands of machines have two dozen calls each, most of which
/// wait for their turn or have already been answered.
async fn fill<T, F>(fact: &mut Observed<T>, is_wanted: bool, ask: impl FnOnce() -> F)
where
    F: Future<Output = Observed<T>>,
{
    if is_wanted {
        *fact = Box::pin(ask()).await;
    }
}

/// Moves values to an allocation without spare room. Collecting may keep the allocation of the larger values that these were made from, or
/// leave room for more of them, which adds up if thousands of machines are kept.
fn exact<T>(values: Vec<T>) -> Vec<T> {
    let mut exact = Vec::with_capacity(values.len());
    exact.extend(values);
    exact
}

/// The results of a round except for the cluster's own health check.
struct Seen {
    known: Endpoints,
    /// The final population.
    all: Vec<Candidate>,
    nodes: Vec<Node>,
    kubernetes: Option<Kubernetes>,
    external_etcd: Option<Vec<EtcdEndpoint>>,
}

impl Observer<'_> {
    /// Observes the three sides of a round at once, and then the parts that only one of them has revealed.
    async fn everything(
        &self,
        first: &Shared<impl Future<Output = Rc<Sighting>>>,
        asking: Vec<AskedEndpoint<'_>>,
        until: Instant,
    ) -> Seen {
        let mut side = self.kubernetes.lock().await;
        let talos = async {
            let seen = first.clone().await;
            // Late endpoints continue in parallel with the nodes: their answers are wanted, but the nodes do not wait for them.
            let nodes = self.ask_nodes_and_members(&seen, until);
            let (nodes, answers) = tokio::join!(nodes, join_all(asking));
            (Endpoints { answers: answers.into_iter().map(Some).collect(), through_omni: self.through_omni() }, nodes)
        };
        let kubernetes = async {
            match &mut *side {
                None => None,
                Some(side) => Some(Box::pin(self.observe_kubernetes(side, first, until)).await),
            }
        };
        let external_etcd = async {
            match &self.external_etcd {
                None => None,
                Some(clients) => {
                    let has_answered = |seen: &Vec<EtcdEndpoint>| seen.iter().any(|endpoint| endpoint.status.is_ok());
                    let asked = clients.observe();
                    Some(self.awaited.one(Part::Etcd, "its endpoints".to_owned(), has_answered, asked).await)
                }
            }
        };
        let ((known, mut nodes), mut kubernetes, external_etcd) = tokio::join!(talos, kubernetes, external_etcd);

        // Machines known only to Kubernetes are queried now, and so are their API servers.
        let kube_nodes = kubernetes.as_ref().and_then(|kubernetes| kubernetes.nodes.as_ref().ok());
        // Nodes of another cluster must not be dialed. With thousands of machines each step takes a while, so the thread yields to let
        // signals be handled.
        let ours = kube_nodes.filter(|nodes| population::same_cluster(&self.population(&known, &[]), nodes));
        yield_now().await;
        let all = self.population(&known, ours.map_or(&[], Vec::as_slice));
        yield_now().await;
        let mut late = Vec::new();
        let asked = Index::of(nodes.iter().map(|asked| &asked.candidate));
        for candidate in &all {
            match asked.near(candidate, None).filter(|place| nodes[*place].is(candidate)).min() {
                Some(place) => nodes[place].candidate = candidate.clone(),
                None => late.push(candidate.clone()),
            }
        }
        // Machines named by the user were queried before Kubernetes reported that they run another system.
        let is_another = |given: &String| all.iter().any(|it| it.runs_another && it.name.as_ref() == Some(given));
        for asked in nodes.iter_mut().filter(|asked| asked.candidate.by_hand && asked.talos.contact.is_err()) {
            asked.candidate.is_talos &= !asked.candidate.addresses.iter().any(is_another);
        }
        let late = self.ask_nodes(late, &known, until).await;
        nodes.extend(late);
        yield_now().await;
        let mut nodes = self.finish(nodes);
        yield_now().await;
        let doubtful = put_own_first(&mut nodes, ours.map_or(&[], Vec::as_slice));
        if let (Some(side), Some(kubernetes)) = (&*side, &mut kubernetes)
            && kubernetes.credentials.is_ok()
        {
            if self.talos.is_none() {
                cluster::mark_servers(&mut nodes, kubernetes);
            }
            let elsewhere = cluster::correct_ports(&mut nodes, kubernetes);
            let user_pods = Box::pin(self.ask_user_pods(side, &nodes, until));
            let servers = self.probe_missing_servers(side, kubernetes, &known, &nodes, (&doubtful, &elsewhere), until);
            kubernetes.user_pods = tokio::join!(user_pods, servers).0;
            let requested = Box::pin(self.ask_requested_apis(side, kubernetes, until));
            kubernetes.requested_apis = requested.await;
        }
        Seen { known, all, nodes, kubernetes, external_etcd }
    }

    fn through_omni(&self) -> bool {
        self.talos.as_ref().is_some_and(|side| side.through_omni)
    }

    async fn observe(&mut self, memory: &Memory) -> Snapshot {
        #[cfg(feature = "record")]
        self.recording.round();
        let _round = trace::round(if self.repeated.is_none() { "round" } else { "recheck" });
        self.budget.renew();
        self.awaited.begin();
        self.began = Instant::now();
        let until = self.began + self.attempt_timeout;
        let taken = clock::now();
        self.kubernetes_host = self.kubernetes.get_mut().as_ref().and_then(KubernetesSide::host);
        let asking = self.ask_endpoints(until);
        let first_answers = first_endpoints(asking.clone(), self.through_omni(), until);
        let first = async {
            let endpoints = first_answers.await;
            let population = self.population(&endpoints, &[]);
            Rc::new(Sighting { endpoints, population })
        };
        let first = first.boxed_local().shared();
        // Runs in parallel with everything else, so that a slow server does not delay the other requests.
        let sides = async {
            tokio::join!(Box::pin(self.everything(&first, asking, until)), Box::pin(self.server_check(&first, until)))
        };
        let early = async {
            self.handshakes.begin(self.expected_kubelets(), until).await;
            pending().await
        };
        let (seen, server) = tokio::select! {
            biased;
            never = early => never,
            seen = sides => seen,
        };
        drop(first);
        let Seen { known, all, nodes, kubernetes, external_etcd } = seen;
        if let Some(kubernetes) = &kubernetes {
            let Kubernetes { credentials, node_leases, system_leases, .. } = kubernetes;
            self.known_leases.remember(credentials, self.began, node_leases, system_leases);
        }
        self.silent.remember(&nodes);
        let talos = self.talos.as_ref().map(|side| self.talos_facts(side, &known, &all, server));
        Snapshot { taken, asked: self.asked.clone(), talos, kubernetes, external_etcd, nodes, memory: memory.clone() }
    }
}

impl Observe for Observer<'_> {
    fn preflight(&mut self, memory: &Memory) -> Snapshot {
        Snapshot {
            taken: clock::now(),
            asked: self.asked.clone(),
            talos: self.talos.as_ref().map(|side| Talos {
                credentials: side.credentials.clone(),
                endpoints: Vec::new(),
                discovery: Err(Gap::not_asked()),
                server: Err(Gap::not_asked()),
            }),
            kubernetes: self
                .kubernetes
                .get_mut()
                .as_ref()
                .map(|side| Kubernetes::unasked(side.credentials(), Vec::new())),
            external_etcd: None,
            nodes: Vec::new(),
            memory: memory.clone(),
        }
    }

    async fn round(&mut self, memory: &Memory, patience: Patience) -> Snapshot {
        self.facts.clone_from(&self.wanted);
        self.repeated = None;
        self.patience = match patience {
            Patience::Full => first_contact_takes(self.attempt_timeout / 2),
            Patience::Short => silent::PATIENCE,
        };
        self.observe(memory).await
    }

    async fn recheck(&mut self, suspects: &Suspects, last: &Snapshot, memory: &Memory) -> Snapshot {
        // The set of machines may change within seconds, and Kubernetes is one of its sources.
        self.facts = suspects.facts.iter().copied().chain([Fact::KubeNodes]).collect();
        self.facts.retain(|fact| self.wanted.contains(fact));
        let others = last.nodes.iter().filter(|node| !suspects.machines.contains(&node.name));
        let mut repeated: HashMap<_, _> = others.map(|node| (node.name.clone(), node.talos.clone())).collect();
        // The answers of one machine do not apply to another of the same name, and the second one has a different name here.
        for node in last.nodes.iter().filter(|node| matches!(&node.talos.nodename, Ok(Some(own)) if *own != node.name))
        {
            node.talos.nodename.iter().flatten().for_each(|own| drop(repeated.remove(own)));
        }
        self.repeated = Some(repeated);
        self.patience = silent::PATIENCE;
        self.observe(memory).await
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
        let kubernetes = self.kubernetes.lock().await;
        let leases = async {
            let client = kubernetes.as_ref().and_then(KubernetesSide::client)?;
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
                let status = again.etcd_status.clone().map(|status| status.after(&node.talos.etcd_status));
                node.talos.etcd_status = status;
                node.talos.etcd_members.clone_from(&again.etcd_members);
                node.talos.etcd_member_id.clone_from(&again.etcd_member_id);
            }
        }
    }
}
