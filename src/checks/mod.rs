//! The checks: a table of constants, each beside the pure function that judges it.
//!
//! A judge sees one [`Snapshot`] and nothing else. It passes because something was seen, never because nothing was: a
//! verdict without findings is an error, and a fact that is a gap is at best `blocked`.

pub(crate) mod allowance;
mod api_servers;
mod apiserver;
#[cfg(test)]
mod catalogue;
mod certificates;
mod clock;
mod common;
mod components;
mod connectivity;
mod credentials;
mod disk;
mod etcd;
mod expected;
#[cfg(test)]
pub(crate) mod fixture;
mod identity;
mod kube_common;
mod kube_nodes;
#[cfg(test)]
mod kube_tests;
mod kube_versions;
#[cfg(test)]
mod laws;
mod leadership;
mod machine;
mod readiness;
mod reason;
mod server;
mod static_pods;
#[cfg(test)]
mod talos_tests;
mod verdict;
mod versions;
mod workloads;

use std::collections::BTreeSet;
use std::fmt;

pub(crate) use common::{hex, host};
pub(crate) use etcd::{has_never_started, listed_at};
pub(crate) use readiness::holds_up_boot;
#[cfg(test)]
pub(crate) use reason::dares_without_a_word;
pub(crate) use reason::{Reason, Step, sources};
pub(crate) use verdict::{About, Finding, Hint, Kind, Outcome, Problem, Severity, Status, Target, Verdict};
pub(crate) use workloads::crashing_dns;

use crate::snapshot::Snapshot;

/// One check. Everything that is said about it anywhere is made from this literal.
pub(crate) struct Check {
    /// Stable, dotted: `etcd.quorum`.
    pub(crate) id: &'static str,
    pub(crate) stage: Stage,
    /// One line: what is true when it passes.
    pub(crate) summary: &'static str,
    /// For `explain`: what it measures, why it fails, what to do. Paragraphs.
    pub(crate) explain: &'static str,
    /// The worst it can say.
    pub(crate) severity: Severity,
    /// Checks that run with it when it is selected alone; a target of theirs that did not pass blocks the same target here.
    pub(crate) requires: &'static [&'static str],
    /// The facts it reads. The engine asks for no others.
    pub(crate) facts: &'static [Fact],
    pub(crate) judge: fn(&Snapshot) -> Verdict,
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

/// The seven stages, in order, and the second opinion that `--server` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Stage {
    Connectivity = 1,
    Readiness,
    Etcd,
    ApiServer,
    ControlPlane,
    Nodes,
    StaticPods,
    Server,
}

impl Stage {
    pub(crate) const ALL: [Self; 8] = [
        Self::Connectivity,
        Self::Readiness,
        Self::Etcd,
        Self::ApiServer,
        Self::ControlPlane,
        Self::Nodes,
        Self::StaticPods,
        Self::Server,
    ];

    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    /// Stable name: JUnit suites, JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Connectivity => "node-connectivity",
            Self::Readiness => "node-readiness",
            Self::Etcd => "etcd",
            Self::ApiServer => "api-server",
            Self::ControlPlane => "control-plane",
            Self::Nodes => "kubernetes-nodes",
            Self::StaticPods => "static-pods",
            Self::Server => "server",
        }
    }

    /// One short word: the column of a grid.
    pub(crate) fn column(self) -> &'static str {
        match self {
            Self::Connectivity => "connect",
            Self::Readiness => "ready",
            Self::Etcd => "etcd",
            Self::ApiServer => "api",
            Self::ControlPlane => "control",
            Self::Nodes => "nodes",
            Self::StaticPods => "pods",
            Self::Server => "server",
        }
    }

    /// Heading of the text report.
    pub(crate) fn heading(self) -> &'static str {
        match self {
            Self::Connectivity => "Checking node connectivity...",
            Self::Readiness => "Checking node readiness...",
            Self::Etcd => "Checking etcd cluster health...",
            Self::ApiServer => "Checking Kubernetes API server...",
            Self::ControlPlane => "Checking control plane components...",
            Self::Nodes => "Checking Kubernetes node health...",
            Self::StaticPods => "Checking static pods...",
            Self::Server => "Asking the cluster's own health check...",
        }
    }
}

/// A kind of observation. The observers ask only for those that some selected check names; `rbac` and `list` are made from
/// what they say of themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Fact {
    /// Talos `Version` of every endpoint and node, `Members`, `MachineType`, `Nodename`: the population itself.
    TalosNodes,
    MachineStatus,
    Services,
    /// `TimeStatuses`, `AdjtimeStatuses`.
    TimeStatus,
    NetworkStatus,
    KubePrism,
    KubeSpan,
    Memory,
    /// `VolumeStatuses`, `Mounts`.
    Volumes,
    Diagnostics,
    StaticPods,
    StaticPodStatuses,
    ConfigStatuses,
    /// `SchedulerConfigs`, `ControllerManagerConfigs`.
    ComponentConfigs,
    BootstrapManifests,
    /// `EtcdStatus`, `EtcdMemberList`, `EtcdMembers`; or etcd's own `Status` and `MemberList`.
    EtcdMembership,
    EtcdAlarms,
    /// `EtcdSpecs`: what etcd is started with.
    EtcdSpecs,
    /// `List /var/lib/etcd`, only while etcd has not started.
    EtcdData,
    /// `/readyz` of the Kubernetes endpoint.
    EndpointReadyz,
    /// `/readyz` of each control plane.
    ServerReadyz,
    /// Kubernetes Node objects.
    KubeNodes,
    NodeLeases,
    SystemLeases,
    Pods,
    DaemonSets,
    Deployments,
    DnsEndpoints,
    ApiEndpoints,
    SigningRequests,
    /// `HealthCheck`, by one control plane.
    ServerCheck,
}

/// What a Kubernetes fact needs of RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Right {
    /// get, list on a resource: API group, plural.
    Resource(&'static str, &'static str),
    /// get on a non-resource URL.
    Url(&'static str),
}

impl Fact {
    /// What is called, in the words of the API concerned.
    pub(crate) fn reads(self) -> &'static str {
        match self {
            Self::TalosNodes => "Version, Members, MachineTypes, Nodenames",
            Self::MachineStatus => "MachineStatuses",
            Self::Services => "ServiceList",
            Self::TimeStatus => "TimeStatuses, AdjtimeStatuses",
            Self::NetworkStatus => "NetworkStatuses",
            Self::KubePrism => "KubePrismStatuses",
            Self::KubeSpan => "KubeSpanPeerStatuses (of control planes)",
            Self::Memory => "Memory",
            Self::Volumes => "VolumeStatuses, Mounts",
            Self::Diagnostics => "Diagnostics",
            Self::StaticPods => "StaticPods",
            Self::StaticPodStatuses => "StaticPodStatuses",
            Self::ConfigStatuses => "ConfigStatuses",
            Self::ComponentConfigs => "SchedulerConfigs, ControllerManagerConfigs",
            Self::BootstrapManifests => "BootstrapManifestsConfigs",
            Self::EtcdMembership => "EtcdStatus, EtcdMemberList, EtcdMembers",
            Self::EtcdAlarms => "EtcdAlarmList",
            Self::EtcdSpecs => "EtcdSpecs",
            Self::EtcdData => "List /var/lib/etcd",
            Self::EndpointReadyz => "GET /readyz (endpoint)",
            Self::ServerReadyz => "GET /readyz (each control plane)",
            Self::KubeNodes => "nodes",
            Self::NodeLeases => "leases (kube-node-lease)",
            Self::SystemLeases => "leases (kube-system)",
            Self::Pods => "pods (kube-system)",
            Self::DaemonSets => "daemonsets (kube-system)",
            Self::Deployments => "deployments (kube-system)",
            Self::DnsEndpoints => "endpointslices (kube-system)",
            Self::ApiEndpoints => "endpointslices (default)",
            Self::SigningRequests => "certificatesigningrequests",
            Self::ServerCheck => "HealthCheck",
        }
    }

    /// The right that a kubeconfig needs for it; `None` for what the Talos API tells.
    pub(crate) fn right(self) -> Option<Right> {
        match self {
            Self::EndpointReadyz | Self::ServerReadyz => Some(Right::Url("/readyz")),
            Self::KubeNodes => Some(Right::Resource("", "nodes")),
            Self::Pods => Some(Right::Resource("", "pods")),
            Self::NodeLeases | Self::SystemLeases => Some(Right::Resource("coordination.k8s.io", "leases")),
            Self::DaemonSets => Some(Right::Resource("apps", "daemonsets")),
            Self::Deployments => Some(Right::Resource("apps", "deployments")),
            Self::DnsEndpoints | Self::ApiEndpoints => Some(Right::Resource("discovery.k8s.io", "endpointslices")),
            Self::SigningRequests => Some(Right::Resource("certificates.k8s.io", "certificatesigningrequests")),
            _ => None,
        }
    }

    /// The least Talos role for it; `None` for what Kubernetes tells.
    pub(crate) fn role(self) -> Option<&'static str> {
        match self {
            Self::ServerCheck => Some("os:admin"),
            _ => self.right().is_none().then_some("os:reader"),
        }
    }
}

/// Every check, in the order of the reports: by stage, then from cause to symptom.
pub(crate) const ALL: &[&Check] = &[
    &credentials::CREDENTIALS,
    &connectivity::ENDPOINTS,
    &connectivity::REACHABLE,
    &expected::EXPECTED,
    &versions::VERSIONS,
    &clock::TIME,
    &readiness::BOOTED,
    &readiness::READY,
    &readiness::SERVICES,
    &readiness::KUBELET,
    &machine::NETWORK,
    &machine::MEMORY,
    &disk::DISK,
    &machine::DIAGNOSTICS,
    &etcd::SERVICE,
    &etcd::QUORUM,
    &etcd::LEADER,
    &etcd::MEMBERS_CONSISTENT,
    &etcd::MEMBERS_NODES,
    &etcd::LEARNERS,
    &etcd::ALARMS,
    &etcd::SPACE,
    &etcd::LAG,
    &etcd::TOLERANCE,
    &etcd::VERSIONS,
    &apiserver::CREDENTIALS,
    &apiserver::ENDPOINT,
    &api_servers::SERVERS,
    &identity::IDENTITY,
    &certificates::SERVING,
    &components::APISERVER,
    &components::CONTROLLER_MANAGER,
    &components::SCHEDULER,
    &leadership::LEASES,
    &kube_versions::VERSIONS,
    &kube_nodes::REGISTERED,
    &kube_nodes::READY,
    &kube_nodes::PRESSURE,
    &kube_nodes::SCHEDULABLE,
    &certificates::REQUESTS,
    &workloads::KUBE_PROXY,
    &workloads::DNS,
    &workloads::CNI,
    &static_pods::RENDERED,
    &static_pods::RUNNING,
    &server::SERVER,
];

/// For a judge that said nothing: no evidence is an error, never a pass.
pub(crate) fn nothing_judged() -> Verdict {
    Verdict::whole(Outcome::Problem(Problem::error(Reason::NoAnswer, "something to judge", "no target was found")))
}

#[cfg(test)]
pub(crate) fn find(id: &str) -> Option<&'static Check> {
    ALL.iter().copied().find(|check| check.id == id)
}

/// The facts that a selection of checks reads.
pub(crate) fn facts<'a>(checks: impl IntoIterator<Item = &'a &'static Check>) -> BTreeSet<Fact> {
    checks.into_iter().flat_map(|check| check.facts).copied().collect()
}
