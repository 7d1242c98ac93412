//! Reads a node's facts through an endpoint that forwards.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Either, join_all, select};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::call::{Lane, Route};
use super::resources::Type;
use super::specs::Nodename;
use super::{APID, EndpointAddress, TalosClient, maintenance, refusal};
use crate::model::{Fact, MachineType, Role, Shared};
use crate::observe::dial::stagger::staggered;
use crate::observe::fill;
use crate::snapshot::{Contact, EtcdStatus, Gap, GapKind, Observed, Service, TalosNode, Version, own_role};

// Types whose resource is read as it is.
const TIME_STATUSES: Type = Type { namespace: "runtime", name: "TimeStatuses.v1alpha1.talos.dev" };
const NETWORK_STATUSES: Type = Type { namespace: "network", name: "NetworkStatuses.net.talos.dev" };

/// Time that an endpoint, or an address, may be silent before the next one is tried in parallel.
const NEXT_ENDPOINT: Duration = Duration::from_secs(1);
const NEXT_ADDRESS: Duration = Duration::from_secs(2);

/// Returns how long a machine may be silent on all routes together: little more than a call takes.
pub(crate) fn first_contact_takes(call: Duration) -> Duration {
    call * 11 / 10
}

/// A node to query.
#[derive(Clone, Debug)]
pub(crate) struct NodeAsk<'a> {
    /// Determines the endpoint it is queried through, which stays the same in every round.
    pub(crate) name: &'a str,
    /// Addresses in the order in which they are tried.
    pub(crate) addresses: &'a [String],
    /// The names by which the node may identify itself. If empty, the name is unknown, and any answer counts as its own.
    pub(crate) expected: &'a [String],
    /// The role reported by others; the node's own report takes precedence.
    pub(crate) role: Role,
    pub(crate) lane: Lane,
}

/// Facts that were requested before the node was identified.
struct Prefetched<'a> {
    endpoint: usize,
    address: &'a str,
    role: Role,
    facts: BoxFuture<'a, TalosNode>,
}

/// The route on which a node answered, and its first answers.
struct First<'a> {
    endpoint: usize,
    address: &'a str,
    version: Version,
    /// The time until the answer arrived.
    took: Duration,
    machine_type: Observed<Option<MachineType>>,
    nodename: Observed<Option<Nodename>>,
    /// The name that the node reports, if it is not an expected one.
    stranger: Option<String>,
    /// The endpoints that were tried before, with the outcome; `None` if there is no answer yet.
    before: Vec<(usize, Option<GapKind>)>,
}

impl TalosClient {
    /// Queries a node for `facts` through one of the endpoints `working` (by position in the configuration). Finishes by `until`; each fact
    /// has its own deadline and its own gap.
    ///
    /// The answers are in a place of their own: inside the futures that wait for them, each of thousands of machines would take room for
    /// them several times before it is queried.
    pub(crate) async fn node(
        &self,
        ask: &NodeAsk<'_>,
        facts: &BTreeSet<Fact>,
        working: &[usize],
        until: Instant,
    ) -> Shared<TalosNode> {
        match self.caller.turn(until).await {
            // Boxed, to keep the futures that wait for their turn small.
            Ok(_turn) => Box::pin(self.in_turn(ask, facts, working, until)).await.into(),
            Err(gap) => TalosNode::unasked(&gap).into(),
        }
    }

    /// Returns whether the node answers at all, with more patience, for a node that was silent. Finishes by `until`.
    pub(crate) async fn greet(&self, ask: &NodeAsk<'_>, working: &[usize], until: Instant) -> Observed<()> {
        self.first_contact(ask, working, until).await.map(drop)
    }

    async fn in_turn(&self, ask: &NodeAsk<'_>, facts: &BTreeSet<Fact>, working: &[usize], until: Instant) -> TalosNode {
        let (first, ahead) = self.contact_and_facts(ask, facts, working, until).await;
        let first = match first {
            Ok(first) => first,
            Err(gap) => return TalosNode::unasked(&gap),
        };
        let to = Route { link: &self.links[first.endpoint], node: Some(first.address), lane: ask.lane, until };
        let mut contact = Contact {
            endpoint: to.link.address.shown.clone(),
            address: first.address.to_owned(),
            version: first.version,
            answered_by_other: first.stranger,
            not_through: Vec::new(),
        };
        if contact.answered_by_other.is_some() {
            // A stranger's report about itself, in particular its role, does not apply to this node.
            let gap = Gap::new(GapKind::NotAsked, "another node answers in its place");
            return TalosNode { contact: Ok(contact), ..TalosNode::unasked(&gap) };
        }
        let role = match own_role(&first.machine_type) {
            Role::Unknown => ask.role,
            role => role,
        };
        let not_through = self.not_through(&first.before, &to);
        let (node, not_through) = match ahead {
            Some(ahead) if (ahead.endpoint, ahead.address, ahead.role) == (first.endpoint, first.address, role) => {
                tokio::join!(ahead.facts, not_through)
            }
            _ => tokio::join!(self.facts(&to, role, facts), not_through),
        };
        contact.not_through = not_through;
        let etcd_status =
            node.etcd_status.map(|etcd| EtcdStatus { slower: etcd.slower.saturating_sub(first.took), ..etcd });
        let skips_registration = matches!(&first.nodename, Ok(Some(found)) if found.skip_node_registration);
        let nodename = first.nodename.map(|found| found.map(|found| found.name));
        let machine_type = first.machine_type;
        let node = TalosNode { contact: Ok(contact), machine_type, nodename, skips_registration, etcd_status, ..node };
        match self.budget.pay(&node) {
            Ok(()) => node,
            Err(gap) => TalosNode::unasked(&gap),
        }
    }

    /// Makes the first contact and, in parallel, reads the facts on the most likely route, which saves a round trip. A silent machine
    /// occupies all its calls until it is given up. A small cluster has room for that; in a larger one, this is limited to a few control
    /// planes, because there may be thousands of workers.
    async fn contact_and_facts<'a>(
        &'a self,
        ask: &NodeAsk<'a>,
        facts: &'a BTreeSet<Fact>,
        working: &[usize],
        until: Instant,
    ) -> (Observed<First<'a>>, Option<Prefetched<'a>>) {
        let hears_by = until.min(Instant::now() + first_contact_takes(self.caller.timeout()));
        let contact = Box::pin(self.first_contact(ask, working, hears_by));
        let likely = self.preferred(ask.name, working).first().copied().zip(ask.addresses.first().map(String::as_str));
        // Facts that were requested for another role than the machine's own would be of no use.
        let few = match ask.role {
            Role::ControlPlane => self.ahead.try_acquire().ok(),
            Role::Worker | Role::Unknown => None,
        };
        let has_room = few.is_some() || self.caller.is_small() && ask.role == Role::Worker;
        let Some((endpoint, address)) = likely.filter(|_| has_room) else { return (contact.await, None) };
        let (role, lane) = (ask.role, ask.lane);
        let facts = async move {
            let to = Route { link: &self.links[endpoint], node: Some(address), lane, until };
            self.facts(&to, role, facts).await
        };
        let ahead = |facts| Some(Prefetched { endpoint, address, role, facts });
        match select(contact, facts.boxed()).await {
            Either::Left((first, facts)) => (first, ahead(facts)),
            Either::Right((node, contact)) => (contact.await, ahead(async { node }.boxed())),
        }
    }

    /// Reads the facts of a machine with this role, except for its identity. At this stage, `slower` of its etcd is the whole time the
    /// answer took.
    async fn facts(&self, to: &Route<'_>, role: Role, facts: &BTreeSet<Fact>) -> TalosNode {
        let is_control_plane = role == Role::ControlPlane;
        let wants = |fact: Fact| facts.contains(&fact) && (is_control_plane || !fact.is_of_control_planes());
        // For a machine of unknown role, everything that may matter is read.
        let unless_worker = |fact: Fact| facts.contains(&fact) && role != Role::Worker;
        let caller = &self.caller;
        let mut node = TalosNode::unasked(&Gap::not_asked());
        let (mut status_took, mut members_took) = (Duration::ZERO, Duration::ZERO);
        // Boxed, because a round has many nodes.
        Box::pin(async {
            tokio::join!(
                fill(&mut node.machine_status, wants(Fact::MachineStatus), || caller.machine_status(to)),
                async {
                    let data = wants(Fact::EtcdData);
                    fill(&mut node.services, wants(Fact::Services) || data, || caller.services(to)).await;
                    // A folder without data matters only while etcd is not running.
                    let stopped = data && node.services.as_ref().is_ok_and(|found| is_stopped(found, "etcd"));
                    fill(&mut node.etcd_data_absent, stopped, || caller.etcd_data_absent(to)).await;
                },
                fill(&mut node.time_status, wants(Fact::TimeStatus), || caller.one(to, TIME_STATUSES, "node")),
                fill(&mut node.adjtime, wants(Fact::TimeStatus), || caller.adjtime(to)),
                fill(&mut node.network_status, wants(Fact::NetworkStatus), || caller.one(
                    to,
                    NETWORK_STATUSES,
                    "status"
                )),
                fill(&mut node.link_addresses, wants(Fact::Addresses), || caller.link_addresses(to)),
                fill(&mut node.kube_prism, wants(Fact::KubePrism), || caller.kube_prism(to)),
                fill(&mut node.kube_span_peers, wants(Fact::KubeSpan), || caller.kube_span_peers(to)),
                fill(&mut node.memory, wants(Fact::Memory), || caller.memory(to)),
                fill(&mut node.volumes, wants(Fact::Volumes), || caller.volumes(to)),
                fill(&mut node.mounts, wants(Fact::Volumes), || caller.mounts(to)),
                fill(&mut node.diagnostics, wants(Fact::Diagnostics), || caller.diagnostics(to)),
                async {
                    if wants(Fact::StaticPods) {
                        let found = caller.static_pods(to).await;
                        node.static_pods = found.map(|(ids, of_users, flags)| {
                            (node.user_pods, node.component_flags) = (of_users, flags);
                            ids
                        });
                    }
                },
                fill(&mut node.static_pod_statuses, wants(Fact::StaticPodStatuses), || caller.static_pod_statuses(to)),
                fill(&mut node.config_statuses, unless_worker(Fact::ConfigStatuses), || caller.config_statuses(to)),
                fill(&mut node.bootstrap_manifests, unless_worker(Fact::BootstrapManifests), || {
                    caller.bootstrap_manifests(to)
                }),
                fill(&mut node.manifests_applied, wants(Fact::ManifestStatuses), || caller.manifests_applied(to)),
                // Talos reports a list of applied manifests only after a pass without errors, so a single bad one may show here alone.
                fill(&mut node.extra_manifests, wants(Fact::ManifestStatuses), || { caller.extra_manifests(to) }),
                async {
                    let membership = wants(Fact::EtcdMembership);
                    fill(&mut node.etcd_status, membership, || timed(&mut status_took, caller.etcd_status(to))).await;
                    // A member that answers reports its id; otherwise Talos knows it.
                    let told = node.etcd_status.as_ref().ok().map(|status| Ok(Some(status.member_id)));
                    let id = || async {
                        match told {
                            Some(told) => told,
                            None => caller.etcd_member_id(to).await,
                        }
                    };
                    fill(&mut node.etcd_member_id, membership, id).await;
                },
                fill(&mut node.etcd_members, wants(Fact::EtcdMembership), || {
                    timed(&mut members_took, caller.etcd_members(to))
                }),
                fill(&mut node.etcd_alarms, wants(Fact::EtcdAlarms), || caller.etcd_alarms(to)),
                fill(&mut node.etcd_spec, wants(Fact::EtcdSpecs), || caller.etcd_spec(to)),
                fill(&mut node.kubelet_flags, wants(Fact::KubeletFlags), || caller.kubelet_flags(to)),
                fill(&mut node.extensions, wants(Fact::Extensions), || caller.extensions(to)),
                fill(&mut node.installed, wants(Fact::Installation), || caller.installed(to)),
                fill(&mut node.cluster_id, wants(Fact::TalosCluster), || caller.cluster_id(to)),
            )
        })
        .await;
        // The duration of a failed list is meaningless.
        let slowest = if node.etcd_members.is_ok() { status_took.max(members_took) } else { status_took };
        node.etcd_status = node.etcd_status.map(|etcd| EtcdStatus { slower: slowest, ..etcd });
        // An existing pod is wanted; only if there is none does it matter whether the component was disabled.
        let is_missing = |pod: &str| {
            let is_rendered = node.static_pods.iter().flatten().any(|id| id.starts_with(pod));
            let is_told = node.static_pod_statuses.iter().flatten().any(|status| status.name.starts_with(pod));
            unless_worker(Fact::ComponentConfigs) && !(is_rendered && is_told)
        };
        let (scheduler, manager) = (is_missing("kube-scheduler"), is_missing("kube-controller-manager"));
        tokio::join!(
            fill(&mut node.scheduler_enabled, scheduler, || caller.scheduler_enabled(to)),
            fill(&mut node.controller_manager_enabled, manager, || caller.controller_manager_enabled(to)),
        );
        node
    }

    /// Returns the previously tried endpoints that do not reach the address at which the node has answered.
    async fn not_through(&self, before: &[(usize, Option<GapKind>)], to: &Route<'_>) -> Vec<String> {
        let tried = before.iter().map(|(endpoint, failed)| async move {
            let link = &self.links[*endpoint];
            let is_lost = match failed {
                Some(kind) => *kind == GapKind::NodeUnreachable,
                None => self.is_cut_off(&Route { link, ..*to }, to).await,
            };
            is_lost.then(|| link.address.shown.clone())
        });
        join_all(tried).await.into_iter().flatten().collect()
    }

    /// Returns whether a route without an answer so far is cut off. It may only be slow, so it has until the deadline of a call. If this
    /// host or the network is overloaded, that passes on every route, so both routes are tried again, and the other one has to answer at
    /// once.
    async fn is_cut_off(&self, silent: &Route<'_>, other: &Route<'_>) -> bool {
        match self.caller.version(silent).await.map_err(|gap| gap.kind) {
            Err(GapKind::NodeUnreachable) => return true,
            Err(GapKind::TimedOut) => {}
            Ok(_) | Err(_) => return false,
        }
        let (again, control) = tokio::join!(
            timeout(2 * NEXT_ENDPOINT, self.caller.version(silent)),
            timeout(NEXT_ENDPOINT, self.caller.version(other)),
        );
        matches!(control, Ok(Ok(_))) && !matches!(again, Ok(Ok(_)))
    }

    /// Returns the first answer that comes from the node itself, else an answer of another node, else the most informative cause.
    async fn first_contact<'a>(&self, ask: &NodeAsk<'a>, working: &[usize], until: Instant) -> Observed<First<'a>> {
        let endpoints = self.preferred(ask.name, working);
        if endpoints.is_empty() {
            return Err(Gap::new(GapKind::NotAsked, "no endpoint works"));
        }
        let strangers = Mutex::new(Vec::new());
        // Boxed futures of a named type rather than closures: the compiler cannot prove that the future of such a closure is `Send`.
        let mut by_address: Vec<BoxFuture<'_, Observed<First<'a>>>> = Vec::new();
        for address in ask.addresses {
            by_address.push(Box::pin(self.at_address(ask, &endpoints, address, &strangers, until)));
        }
        let result = staggered(by_address, NEXT_ADDRESS).await;
        let gaps = match result {
            Ok(first) => return Ok(first),
            Err(gaps) => gaps,
        };
        if let Some(stranger) = strangers.into_inner().into_iter().next() {
            return Ok(stranger);
        }
        let gap = most_telling(gaps);
        // apid reports this when the node's certificate is from another CA; the node itself may explain why.
        if gap.kind == GapKind::NodeUnreachable && gap.text.contains("unknown authority") {
            for host in ask.addresses {
                let via = self.links[endpoints[0]].address.via.clone();
                let address = EndpointAddress { host: host.clone(), port: APID, shown: host.clone(), via };
                let refined = Box::pin(maintenance::refine(gap.clone(), &address, &self.unverified, until)).await;
                if refined.kind == GapKind::Maintenance {
                    return Err(refined);
                }
            }
        }
        Err(gap)
    }

    /// Identifies the node at `address` through the endpoints, one after the other. A stranger is kept in `strangers`.
    async fn at_address<'a>(
        &self,
        ask: &NodeAsk<'a>,
        endpoints: &[usize],
        address: &'a str,
        strangers: &Mutex<Vec<First<'a>>>,
        until: Instant,
    ) -> Observed<First<'a>> {
        let failed = Mutex::new(Vec::new());
        let mut ways: Vec<BoxFuture<'_, Observed<First<'a>>>> = Vec::new();
        for endpoint in endpoints {
            ways.push(Box::pin(async {
                let first = self.introduction(ask, *endpoint, address, until).await;
                if let Err(gap) = &first {
                    failed.lock().await.push((*endpoint, gap.kind));
                }
                first
            }));
        }
        let mut first = staggered(ways, NEXT_ENDPOINT).await.map_err(most_telling)?;
        let failed = failed.into_inner();
        let before = endpoints.iter().take_while(|endpoint| **endpoint != first.endpoint);
        let became = |endpoint| failed.iter().find(|(it, _)| *it == endpoint).map(|(_, kind)| *kind);
        first.before = before.map(|endpoint| (*endpoint, became(*endpoint))).collect();
        match &first.stranger {
            None => Ok(first),
            Some(name) => {
                let gap = Gap::new(GapKind::NodeUnreachable, format!("{address} is `{name}`"));
                strangers.lock().await.push(first);
                Err(gap)
            }
        }
    }

    /// Identifies the node at `address` through one endpoint.
    async fn introduction<'a>(
        &self,
        ask: &NodeAsk<'a>,
        endpoint: usize,
        address: &'a str,
        until: Instant,
    ) -> Observed<First<'a>> {
        let to = Route { link: &self.links[endpoint], node: Some(address), lane: ask.lane, until };
        let mut took = Duration::ZERO;
        let version = timed(&mut took, self.caller.version(&to));
        let others = || async { tokio::join!(self.caller.machine_type(&to), self.caller.nodename(&to)) };
        let (version, (machine_type, nodename)) = match ask.lane {
            Lane::Normal => {
                let (version, others) = tokio::join!(version, others());
                (version?, others)
            }
            // If the node is silent again, it should occupy only one of the few places instead of three.
            Lane::Slow => (version.await?, others().await),
        };
        let stranger = match &nodename {
            Ok(Some(Nodename { name, .. })) if !ask.expected.is_empty() => {
                let known = ask.expected.iter().any(|expected| expected.eq_ignore_ascii_case(name));
                (!known).then(|| name.clone())
            }
            _ => None,
        };
        Ok(First { endpoint, address, version, took, machine_type, nodename, stranger, before: Vec::new() })
    }

    /// Returns the working endpoints, beginning with the one that this node always uses (rendezvous hashing): nodes are spread over the
    /// endpoints, and the loss of one moves only its own nodes.
    fn preferred(&self, name: &str, working: &[usize]) -> Vec<usize> {
        let rank = |endpoint: usize| {
            let mut hasher = DefaultHasher::new();
            (name, &self.links[endpoint].address.shown).hash(&mut hasher);
            hasher.finish()
        };
        let mut order: Vec<_> = working.iter().copied().filter(|endpoint| *endpoint < self.links.len()).collect();
        order.sort_by_cached_key(|endpoint| std::cmp::Reverse(rank(*endpoint)));
        order
    }
}

/// Measures how long a call takes.
async fn timed<T>(took: &mut Duration, asked: impl Future<Output = T>) -> T {
    let begun = Instant::now();
    let answer = asked.await;
    *took = begun.elapsed();
    answer
}

fn is_stopped(services: &[Service], id: &str) -> bool {
    services.iter().find(|service| service.id == id).is_some_and(|service| service.state != "Running")
}

fn most_telling(gaps: Vec<Gap>) -> Gap {
    // Among equals the first counts, since it belongs to the preferred route.
    let gap = gaps.into_iter().rev().max_by_key(refusal::weight);
    gap.unwrap_or_else(|| Gap::new(GapKind::NotAsked, "no address is known"))
}
