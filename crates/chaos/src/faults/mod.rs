//! The table of faults, each with the findings that a report must contain. It describes the world, not the program: the effect of a fault
//! on a cluster, and the sources that reveal it.

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

/// The target of a fault.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    Machine,
    ControlPlane,
    Worker,
    Cluster,
}

/// The effect of a fault on the right verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// The cluster is not healthy.
    Breaks,
    /// The cluster is healthy, and the fault deserves a warning.
    Warns,
    /// Nothing is wrong, but required evidence is missing: neither healthy nor unhealthy.
    Blinds,
    /// Nothing is wrong, and the missing evidence is not required for a verdict.
    Hides,
}

/// A source that reveals a fault. Sources are queried independently, so a silent one does not affect the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Whether the machine's Talos answers at all.
    Reach,
    /// Versions and clocks that the machine's Talos reports.
    Talos,
    /// Stage, services and resources that the machine's Talos reports.
    Ready,
    /// The machine's etcd member.
    Member,
    /// The list of etcd members.
    Members,
    /// The machine's API server, queried directly.
    Server,
    /// The Kubernetes endpoint.
    Endpoint,
    /// Pods and leases of the control plane in Kubernetes.
    Component,
    /// The machine's static pods as reported by its Talos.
    StaticPod,
    /// The machine's Node.
    Node,
    /// Kubernetes objects that belong to the whole cluster.
    Object,
    /// The times at which the kubelet renews its lease, which are read from Talos for the machine and from Kubernetes for the lease.
    Clock,
}

/// The state that a fault replaces. Of two faults that replace the same state, one would undo the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touches {
    Nothing,
    /// Whether the machine is reachable at all.
    Machine,
    Status,
    Clock,
    Member,
    Server,
    Node,
    // State of the whole cluster.
    Etcd,
    /// Without a bootstrapped etcd there are no members that another fault could affect.
    Bootstrap,
    KubeProxy,
    Network,
    Dns,
}

impl Touches {
    pub(crate) fn is_nothing(self) -> bool {
        self == Self::Nothing
    }

    /// Whether one of the two would undo the other, or leave nothing for it to change.
    pub(crate) fn excludes(self, other: Self) -> bool {
        let replaces = |one, other| match one {
            Self::Bootstrap => matches!(other, Self::Etcd | Self::Member),
            // Without a network plugin, each kubelet gives that as its reason.
            Self::Network => other == Self::Node,
            _ => false,
        };
        !self.is_nothing() && self == other || replaces(self, other) || replaces(other, self)
    }

    pub(crate) fn is_cluster(self) -> bool {
        matches!(self, Self::Etcd | Self::Bootstrap | Self::KubeProxy | Self::Network | Self::Dns)
    }
}

type Plant = dyn Fn(&mut Plan, &str) + Send + Sync;

/// A way in which a cluster can break.
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) on: On,
    pub(crate) does: Does,
    /// Applies the fault to the machine with the given name.
    pub(crate) plant: Box<Plant>,
    /// Whether the fault is one of the simulator's states, which can end.
    pub(crate) ends: bool,
    pub(crate) shown: &'static [Source],
    /// Reasons and diagnoses that identify the fault.
    pub(crate) said: &'static [&'static str],
    /// Sources of the same machine that no longer answer.
    pub(crate) silences: &'static [Source],
    /// Whether the machine's etcd member no longer counts as up.
    pub(crate) stops_member: bool,
    /// Whether the machine's API server accepts connections without serving, so that an answer through a balancer depends on luck.
    pub(crate) spoils_endpoint: bool,
    pub(crate) touches: Touches,
    /// Whether the fault is over after the first answer.
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

/// Everything that a machine reports, through Talos or through its kubelet.
const ALL_OF_IT: &[Source] = &[Source::Talos, Source::Ready, Source::Member, Source::StaticPod, Source::Component];

fn fault(name: &'static str, on: On, plant: impl Fn(&mut Plan, &str) + Send + Sync + 'static) -> Fault {
    Fault {
        name,
        on,
        does: Does::Breaks,
        plant: Box::new(plant),
        ends: false,
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

/// A fault that is one of the simulator's own states.
fn state(name: &'static str, on: On) -> Fault {
    let plant = move |plan: &mut Plan, node: &str| {
        plan.change(if node.is_empty() { json!({"do": name}) } else { json!({"do": name, "node": node}) });
    };
    Fault { ends: true, ..fault(name, on, plant) }
}

/// A fault that keeps the API server of a control plane from serving.
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
