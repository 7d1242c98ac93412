//! From facts to what they mean, once a round and before anything is judged: what stands before a fact, whose cluster a list is
//! of, which machines count, whether etcd stands, and what the control planes run.
//!
//! Nothing here is said to people. What several judges need is a field, made once, in the order that [`Assessment::of`] shows.

mod access;
mod certificate;
pub(crate) mod components;
mod declared;
pub(crate) mod etcd;
mod identity;
mod join;
mod life;
mod need;
mod population;
pub(crate) mod servers;
mod serving;
mod standing;
pub(crate) mod workloads;

use std::collections::{BTreeMap, HashMap};

pub(crate) use access::{KubernetesAccess, MachineAccess, TalosAccess, contact, service, tells_healthy, worst_service};
pub(crate) use certificate::{Fault, ends_soon, fault_of_account, fault_of_dates, faults, lets_nobody_in};
pub(crate) use identity::{Identity, Likeness, Undecided};
pub(crate) use life::Life;
pub(crate) use need::{Excuse, Place, Shortfall, takes_when_ready};
pub(crate) use population::{
    Machine, etcd_is_bad, has_kubernetes, is_container, is_going_down, is_named_elsewhere, is_older, is_seen_lost,
    talos_version,
};

pub(crate) use declared::{Presence, Side};
pub(crate) use serving::{Instances, Met, PodLists, Serving, UNNOTICED, Want, Why};
pub(crate) use standing::{NotJudged, Standing};

use jiff::Timestamp;

use crate::snapshot::{Asked, ExcuseState, KubeNode, Kubernetes, Memory, Node, Observed, Pod, Snapshot, Talos};
use components::Components;
use etcd::Etcd;
use servers::Server;
use serving::BoundPods;

/// A round's facts, and what they mean. Every judge sees this and nothing else.
pub(crate) struct Assessment<'a> {
    snapshot: &'a Snapshot,
    pub(crate) asked: &'a Asked,
    pub(crate) memory: &'a Memory,
    /// The runner's wall clock when the round began.
    pub(crate) taken: Timestamp,
    pub(crate) talos_access: TalosAccess<'a>,
    pub(crate) kubernetes_access: KubernetesAccess<'a>,
    pub(crate) identity: Identity,
    /// Kubernetes, where its lists are known to be about our cluster.
    pub(crate) own_kubernetes: Option<&'a Kubernetes>,
    /// No API server's own certificate verifies, while that of the endpoint does.
    pub(crate) behind_proxy: bool,
    /// Machines in the order of the snapshot's nodes.
    machines: Vec<Machine<'a>>,
    /// Each node's state by the name of its Node object; `None` without a list of nodes.
    lives: Option<HashMap<&'a str, Life>>,
    by_name: HashMap<&'a str, usize>,
    /// Index of each machine by the name of its Node object.
    by_object: HashMap<&'a str, usize>,
    pub(crate) etcd: Etcd<'a>,
    /// Pods that were restarted between two rounds: how often since the previous one, and in total.
    pub(crate) restarted: BTreeMap<String, (u32, u32)>,
    components: Components<'a>,
    /// API servers by the node name of their control plane.
    servers: HashMap<&'a str, Server<'a>>,
    /// `None`: they were not read.
    bound_pods: Option<BoundPods<'a>>,
}

impl<'a> Assessment<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot) -> Self {
        let talos_access = access::talos(snapshot);
        let kubernetes_access = access::kubernetes(snapshot);
        let identity = identity::compare(snapshot);
        let own_kubernetes = match kubernetes_access {
            KubernetesAccess::Open(kubernetes) if identity.is_trusted(snapshot) => Some(kubernetes),
            _ => None,
        };
        let behind_proxy = identity::is_behind_proxy(snapshot, &identity);
        let machines = population::machines(snapshot, &talos_access, &identity);
        let etcd = Etcd::of(snapshot, &talos_access, &machines);
        let by_name = snapshot.nodes.iter().enumerate().map(|(at, node)| (node.name.as_str(), at)).collect();
        let mut assessment = Self {
            snapshot,
            asked: &snapshot.asked,
            memory: &snapshot.memory,
            taken: snapshot.taken,
            talos_access,
            kubernetes_access,
            identity,
            own_kubernetes,
            behind_proxy,
            by_object: join::by_object(&machines),
            machines,
            lives: None,
            by_name,
            etcd,
            restarted: snapshot.memory.restarted(snapshot),
            components: Components::default(),
            servers: HashMap::new(),
            bound_pods: None,
        };
        assessment.lives = life::lives(&assessment);
        assessment.bound_pods = serving::bound_pods(&assessment);
        assessment.components = Components::of(&assessment);
        assessment.servers = servers::of(&assessment);
        assessment
    }

    /// A list that is there, and known to be about our cluster.
    pub(crate) fn list<T>(&self, fact: impl Fn(&'a Kubernetes) -> &'a Observed<T>) -> Option<&'a T> {
        fact(self.own_kubernetes?).as_ref().ok()
    }

    /// What the API servers have answered, whosever cluster they are of. What is judged as ours is read with [`Self::list`].
    pub(crate) fn any_kubernetes(&self) -> Option<&'a Kubernetes> {
        self.snapshot.kubernetes.as_ref()
    }

    /// Not with `--no-kubernetes`.
    pub(crate) fn asks_kubernetes(&self) -> bool {
        self.snapshot.kubernetes.is_some()
    }

    /// What no single machine has answered.
    pub(crate) fn talos(&self) -> Option<&'a Talos> {
        self.snapshot.talos.as_ref()
    }

    /// Not with `--no-talos`.
    pub(crate) fn asks_talos(&self) -> bool {
        self.snapshot.talos.is_some()
    }

    /// Whether `--etcd-endpoints` is given.
    pub(crate) fn asks_etcd(&self) -> bool {
        self.snapshot.external_etcd.is_some()
    }

    /// The clock of an API server, which knows more of its nodes' than the runner's does.
    pub(crate) fn server_time(&self) -> Timestamp {
        self.snapshot.server_time()
    }

    /// Whether an excuse of the policy counts now.
    pub(crate) fn excuse_state(&self, excuse: &crate::model::Excuse) -> ExcuseState {
        self.snapshot.excuse_state(excuse)
    }

    /// The population: every machine that any source names, sorted by name.
    pub(crate) fn nodes(&self) -> &'a [Node] {
        &self.snapshot.nodes
    }

    /// The pods of `kube-system` and of the network plugin.
    pub(crate) fn all_pods(&self) -> impl Iterator<Item = &'a Pod> {
        self.own_kubernetes.into_iter().flat_map(Kubernetes::all_pods)
    }

    /// What is known of a machine of the population.
    pub(crate) fn machine(&self, node: &Node) -> &Machine<'a> {
        &self.machines[self.by_name[node.name.as_str()]]
    }

    /// The machine that is called so. What Kubernetes calls a Node, [`Self::machine_of`] finds.
    pub(crate) fn node(&self, name: &str) -> Option<&'a Node> {
        self.by_name.get(name).map(|at| &self.snapshot.nodes[*at])
    }

    /// The Node object of a machine, whosever cluster the list is of.
    pub(crate) fn object(&self, node: &Node) -> Option<&'a KubeNode> {
        self.machine(node).object
    }
}
