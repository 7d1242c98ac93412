//! Interprets the facts of a round before any check runs: access to facts, the cluster that a list belongs to, the machines that count, the
//! state of etcd, and the components of the control planes.
//!
//! Nothing here is user-facing text. A value that several judges need is a field, computed once, in the order of [`Assessment::of`].

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
    Machine, etcd_is_bad, every_control_plane_was_seen, has_kubernetes, is_container, is_going_down,
    is_named_beyond_etcd, is_named_elsewhere, is_older, is_seen_lost, is_silent_altogether, shows_life, talos_version,
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

/// The facts of a round and their interpretation. Judges see nothing else.
pub(crate) struct Assessment<'a> {
    snapshot: &'a Snapshot,
    pub(crate) asked: &'a Asked,
    pub(crate) memory: &'a Memory,
    /// The runner's wall clock when the round began.
    pub(crate) taken: Timestamp,
    pub(crate) talos_access: TalosAccess<'a>,
    pub(crate) kubernetes_access: KubernetesAccess<'a>,
    pub(crate) identity: Identity,
    /// Kubernetes, if its lists are known to describe this cluster.
    pub(crate) own_kubernetes: Option<&'a Kubernetes>,
    /// No API server's own certificate verifies, while the endpoint's does.
    pub(crate) behind_proxy: bool,
    /// Machines in the order of the snapshot's nodes.
    machines: Vec<Machine<'a>>,
    /// Each node's state by the name of its Node object; `None` without a list of nodes.
    lives: Option<HashMap<&'a str, Life>>,
    by_name: HashMap<&'a str, usize>,
    /// Index of each machine by the name of its Node object.
    by_object: HashMap<&'a str, usize>,
    pub(crate) etcd: Etcd<'a>,
    pub(crate) every_control_plane_was_seen: bool,
    /// Pods that were restarted between two rounds: the restarts since the previous round, and in total.
    pub(crate) restarted: BTreeMap<String, (u32, u32)>,
    components: Components<'a>,
    /// API servers by the node name of their control plane.
    servers: HashMap<&'a str, Server<'a>>,
    /// `None` if the bound pods were not read.
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
            every_control_plane_was_seen: every_control_plane_was_seen(snapshot),
            restarted: snapshot.memory.restarted(snapshot),
            components: Components::default(),
            servers: HashMap::new(),
            bound_pods: None,
        };
        assessment.lives = life::of_nodes(&assessment);
        assessment.bound_pods = serving::bound_pods(&assessment);
        assessment.components = Components::of(&assessment);
        assessment.servers = servers::of(&assessment);
        assessment
    }

    /// Returns a list that was read and is known to describe this cluster.
    pub(crate) fn list<T>(&self, fact: impl Fn(&'a Kubernetes) -> &'a Observed<T>) -> Option<&'a T> {
        fact(self.own_kubernetes?).as_ref().ok()
    }

    /// Returns the API servers' answers, even if they belong to another cluster. Use [`Self::list`] for facts that are judged as this
    /// cluster's.
    pub(crate) fn any_kubernetes(&self) -> Option<&'a Kubernetes> {
        self.snapshot.kubernetes.as_ref()
    }

    /// Returns false with `--no-kubernetes`.
    pub(crate) fn asks_kubernetes(&self) -> bool {
        self.snapshot.kubernetes.is_some()
    }

    /// Returns the Talos facts that do not belong to a single machine.
    pub(crate) fn talos(&self) -> Option<&'a Talos> {
        self.snapshot.talos.as_ref()
    }

    /// Returns false with `--no-talos`.
    pub(crate) fn asks_talos(&self) -> bool {
        self.snapshot.talos.is_some()
    }

    /// Returns true with `--etcd-endpoints`.
    pub(crate) fn asks_etcd(&self) -> bool {
        self.snapshot.external_etcd.is_some()
    }

    /// Returns the clock of an API server, which is closer to its nodes' clocks than the runner's.
    pub(crate) fn server_time(&self) -> Timestamp {
        self.snapshot.server_time()
    }

    /// Returns whether an excuse of the policy counts now.
    pub(crate) fn excuse_state(&self, excuse: &crate::model::Excuse) -> ExcuseState {
        self.snapshot.excuse_state(excuse)
    }

    /// Returns the population: every machine that any source names, sorted by name.
    pub(crate) fn nodes(&self) -> &'a [Node] {
        &self.snapshot.nodes
    }

    /// Returns the pods of `kube-system` and of the network plugin.
    pub(crate) fn all_pods(&self) -> impl Iterator<Item = &'a Pod> {
        self.own_kubernetes.into_iter().flat_map(Kubernetes::all_pods)
    }

    /// Returns the assessment of a machine of the population.
    pub(crate) fn machine(&self, node: &Node) -> &Machine<'a> {
        &self.machines[self.by_name[node.name.as_str()]]
    }

    /// Returns the machine with this name. For the name of a Node, use [`Self::machine_of`].
    pub(crate) fn node(&self, name: &str) -> Option<&'a Node> {
        self.by_name.get(name).map(|at| &self.snapshot.nodes[*at])
    }

    /// Returns the Node object of a machine, even if the list belongs to another cluster.
    pub(crate) fn object(&self, node: &Node) -> Option<&'a KubeNode> {
        self.machine(node).object
    }
}
