//! The one table of what can break, and of what must be known of it then. It is about the world, not about the program: what a
//! fault does to a cluster, and whom one has to ask to see it.

#![expect(clippy::too_many_lines, reason = "tables are as long as what they list")]

mod blindness;
mod etcd;
mod joining;
mod kubernetes;
mod machines;

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::case::{Case, Machine};
use crate::plan::Plan;

/// What a fault is planted on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    Machine,
    ControlPlane,
    Worker,
    Cluster,
}

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// The cluster is not healthy.
    Breaks,
    /// It is worth a word, and the cluster is healthy.
    Warns,
    /// Nothing is wrong, and what has to be seen is not: neither healthy nor unhealthy.
    Blinds,
    /// Nothing is wrong, and something is not seen that a verdict may do without.
    Hides,
}

/// Who shows it. Each is asked by itself, so one that is silent takes nothing from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Whether the machine's Talos answers at all.
    Reach,
    /// What its Talos tells: versions, clocks.
    Talos,
    /// What its Talos tells of its stage, services and resources.
    Ready,
    /// Its etcd member.
    Member,
    /// The list of members.
    Members,
    /// Its API server, asked directly.
    Server,
    /// The Kubernetes endpoint.
    Endpoint,
    /// Pods and leases of the control plane, in Kubernetes.
    Component,
    /// Its static pods, as its Talos tells of them.
    StaticPod,
    /// Its Node.
    Node,
    /// What is the cluster's in Kubernetes.
    Object,
    /// When its kubelet says that it renews its lease; Talos has the machine, and Kubernetes the lease.
    Clock,
}

/// What a fault replaces: of two that replace the same, one would undo the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touches {
    Nothing,
    /// Whether the machine is there.
    Machine,
    Status,
    Clock,
    Member,
    Server,
    Node,
    // Those of the cluster.
    Etcd,
    /// There are no members that anything else could be done to.
    Bootstrap,
    KubeProxy,
    Network,
    Dns,
}

impl Touches {
    pub(crate) fn is_nothing(self) -> bool {
        self == Self::Nothing
    }

    /// Whether one of the two would undo the other, or leave it nothing to be done to.
    pub(crate) fn excludes(self, other: Self) -> bool {
        let takes_members = |one, other| one == Self::Bootstrap && matches!(other, Self::Etcd | Self::Member);
        !self.is_nothing() && self == other || takes_members(self, other) || takes_members(other, self)
    }

    pub(crate) fn is_cluster(self) -> bool {
        matches!(self, Self::Etcd | Self::Bootstrap | Self::KubeProxy | Self::Network | Self::Dns)
    }
}

type Plant = dyn Fn(&mut Plan, &str) + Send + Sync;

/// A way to break.
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) on: On,
    pub(crate) does: Does,
    /// Makes it of the machine that is called so.
    pub(crate) plant: Box<Plant>,
    /// The change that ends it.
    pub(crate) end: Option<&'static str>,
    pub(crate) shown: &'static [Source],
    /// Reasons and diagnoses that name it.
    pub(crate) said: &'static [&'static str],
    /// What of its machine cannot be queried any more.
    pub(crate) silences: &'static [Source],
    /// Its machine's etcd member counts no longer as one that is up.
    pub(crate) stops_member: bool,
    /// Its machine's API server takes connections and does not serve, so an answer through a balancer is luck.
    pub(crate) spoils_endpoint: bool,
    pub(crate) touches: Touches,
    /// It is over with the first answer.
    pub(crate) passes: bool,
    pub(crate) fits: fn(&Case) -> bool,
}

impl On {
    pub(crate) fn takes(self, machine: Machine) -> bool {
        match self {
            Self::Machine => true,
            Self::ControlPlane => machine.controls,
            Self::Worker => !machine.controls,
            Self::Cluster => false,
        }
    }
}

pub(crate) fn all() -> &'static [Fault] {
    static ALL: LazyLock<Vec<Fault>> = LazyLock::new(|| {
        let mut all = Vec::new();
        all.extend(machines::machines());
        all.extend(joining::joining());
        all.extend(etcd::etcd());
        all.extend(kubernetes::kubernetes());
        all.extend(blindness::blindness());
        all
    });
    &ALL
}

/// All of what a machine tells, itself and through its kubelet.
const ALL_OF_IT: &[Source] = &[Source::Talos, Source::Ready, Source::Member, Source::StaticPod, Source::Component];

fn fault(name: &'static str, on: On, plant: impl Fn(&mut Plan, &str) + Send + Sync + 'static) -> Fault {
    Fault {
        name,
        on,
        does: Does::Breaks,
        plant: Box::new(plant),
        end: None,
        shown: &[],
        said: &[],
        silences: &[],
        stops_member: false,
        spoils_endpoint: false,
        touches: Touches::Nothing,
        passes: false,
        fits: |_| true,
    }
}

/// One of the simulator's own states, and what ends it.
fn state(name: &'static str, end: &'static str, on: On) -> Fault {
    let plant = move |plan: &mut Plan, node: &str| {
        plan.change(if node.is_empty() { json!({"do": name}) } else { json!({"do": name, "node": node}) });
    };
    Fault { end: Some(end), ..fault(name, on, plant) }
}

/// The API server of a control plane does not serve.
fn server_fault(name: &'static str, plant: impl Fn(&mut Plan, &str) + Send + Sync + 'static) -> Fault {
    Fault {
        shown: &[Source::Server],
        said: &[
            "server-not-directly-reachable",
            "connection-refused",
            "component-not-ready",
            "crash-looping",
            "api-server-down",
        ],
        touches: Touches::Server,
        spoils_endpoint: true,
        ..fault(name, On::ControlPlane, plant)
    }
}

fn resource(name: &'static str, on: On, (kind, id): (&'static str, &'static str), merge: Value) -> Fault {
    fault(name, on, move |plan, node| plan.resource(Some(node), kind, id, &merge))
}
