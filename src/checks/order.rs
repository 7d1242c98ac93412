//! The checks before each check: those on the way to its facts, and those that judge what its own subject builds on.
//!
//! The path to a source follows from the facts, except for checks that are on a path themselves; the rest is in two tables. The graph of
//! causes (`src/diagnosis/graph/`) cannot provide it: that graph shows what does not work without something else, and this order
//! shows what cannot be *seen* without it.

use super::Check;
use crate::model::{CheckId as Id, Fact, Stage};

/// The path to the facts that machines report through Talos. Credentials and endpoints come before this check.
const MACHINES: &[Id] = &[Id::TalosNodesReachable];
/// The path to the objects of Kubernetes. Each check is listed, because the last one does not run with `--no-talos`.
const OBJECTS: &[Id] = &[Id::K8sCredentials, Id::K8sApiEndpoint, Id::K8sApiIdentity];
const BOTH: &[Id] = &[Id::TalosNodesReachable, Id::K8sCredentials, Id::K8sApiEndpoint, Id::K8sApiIdentity];

impl Check {
    /// Returns the checks that are selected together with this one. If this check could not observe a target, and one of these did not pass
    /// for the target, the engine reports this check as blocked by that one.
    pub(crate) fn requires(&self) -> Vec<Id> {
        let also: &[Id] = match self.id {
            Id::EtcdQuorum => &[Id::EtcdService],
            // The kubelet reports static pods.
            Id::K8sControlplaneApiserver
            | Id::K8sControlplaneControllerManager
            | Id::K8sControlplaneScheduler
            | Id::K8sControlplaneVersions
            | Id::UpgradeKubernetesPath
            | Id::UpgradeMatrix => &[Id::TalosNodesKubelet],
            Id::K8sStaticpodsRunning => &[Id::TalosNodesKubelet, Id::K8sStaticpodsRendered],
            Id::K8sNodesReady | Id::UpgradeDrain | Id::UpgradeRoom | Id::UpgradeVolumes => &[Id::K8sNodesRegistered],
            Id::K8sNodesPressure | Id::K8sPodsStarting => &[Id::K8sNodesReady],
            // Talos applies the manifests, and reports which ones there should be.
            Id::K8sManifests => MACHINES,
            Id::UpgradeEtcd => &[Id::EtcdLeader, Id::EtcdMembersNodes],
            Id::UpgradeApis => &[Id::K8sApiServers],
            Id::UpgradeQuorum => &[Id::EtcdQuorum, Id::EtcdTolerance, Id::K8sApiServers, Id::K8sNodesRegistered],
            _ => &[],
        };
        [self.paths().0, also].concat()
    }

    /// Returns checks that block this one like those of [`Self::requires`] if they run. They are not selected along with it; without them,
    /// this check itself reports what it could not observe.
    pub(crate) fn after(&self) -> Vec<Id> {
        let also: &[Id] = match self.id {
            // Without Talos, an API server that stores something proves a quorum.
            Id::EtcdQuorum => &[Id::K8sCredentials, Id::K8sApiEndpoint],
            Id::EtcdMembersConsistent | Id::EtcdMembersNodes | Id::EtcdLearners | Id::EtcdAlarms => &[Id::EtcdLeader],
            // Each server is queried at its own address, whether the endpoint answers or not.
            Id::K8sApiServers => &[Id::K8sApiEndpoint, Id::K8sApiIdentity],
            Id::K8sControlplaneApiserver | Id::K8sControlplaneControllerManager | Id::K8sControlplaneScheduler => {
                &[Id::K8sNodesReady]
            }
            Id::K8sControlplaneVersions | Id::UpgradeKubernetesPath => &[
                Id::K8sControlplaneApiserver,
                Id::K8sControlplaneControllerManager,
                Id::K8sControlplaneScheduler,
                Id::K8sNodesRegistered,
                Id::K8sNodesReady,
            ],
            // The paths report machines that a policy declares off.
            Id::UpgradeMatrix => &[
                Id::K8sControlplaneApiserver,
                Id::K8sControlplaneControllerManager,
                Id::K8sControlplaneScheduler,
                Id::K8sNodesRegistered,
                Id::K8sNodesReady,
                Id::UpgradeTalosPath,
                Id::UpgradeKubernetesPath,
            ],
            Id::UpgradeFlags => &[Id::UpgradeKubernetesPath],
            Id::UpgradeEtcd | Id::UpgradeExtensions => &[Id::UpgradeTalosPath],
            Id::K8sNodesConditions | Id::K8sNodesSchedulable => &[Id::K8sNodesRegistered],
            Id::K8sStaticpodsRunning => &[Id::EtcdService, Id::K8sNodesReady],
            Id::UpgradeDrain => &[Id::EtcdAlarms, Id::K8sControlplaneLeases, Id::K8sPodsStarting],
            Id::UpgradeRoom => &[Id::K8sPodsStarting],
            Id::UpgradeQuorum => &[Id::K8sDns, Id::K8sControlplaneControllerManager, Id::K8sControlplaneScheduler],
            _ => &[],
        };
        [self.paths().1, also].concat()
    }

    /// Returns all checks that can block this one, if they run.
    pub(crate) fn before(&self) -> impl Iterator<Item = Id> {
        self.requires().into_iter().chain(self.after())
    }

    /// Returns true if the check requires no other check. Such a check is judged from files alone, before any request.
    pub(crate) fn is_preflight(&self) -> bool {
        self.requires().is_empty()
    }

    /// Returns true if the check has no subject with `--no-kubernetes`.
    pub(crate) fn is_kubernetes_only(&self) -> bool {
        matches!(self.stage, Stage::ApiServer | Stage::Nodes) || self.id == Id::PolicyRequire
    }

    /// Returns the paths to the facts of the check: one that it requires, and one that it comes after.
    fn paths(&self) -> (&'static [Id], &'static [Id]) {
        let path: &[Id] = match self.id {
            // Checks on a path, and those on the same path as another check, which they come after.
            Id::TalosCredentials | Id::K8sCredentials => &[],
            Id::TalosEndpoints => &[Id::TalosCredentials],
            Id::TalosNodesReachable | Id::TalosNodesExpected => &[Id::TalosCredentials, Id::TalosEndpoints],
            Id::TalosServer => &[Id::TalosEndpoints],
            // A policy needs no answer, but is judged in rounds, not before the first request.
            Id::K8sApiEndpoint | Id::K8sApiServers | Id::PolicyMachines | Id::PolicyAccept => &[Id::K8sCredentials],
            Id::K8sApiIdentity => &[Id::K8sCredentials, Id::K8sApiEndpoint, Id::TalosNodesReachable],
            Id::K8sApiCertificates => &[Id::K8sCredentials, Id::K8sApiEndpoint, Id::K8sApiServers],
            Id::TalosNodesReady => &[Id::TalosNodesBooted],
            // They need both, although Talos reports static pods as well.
            Id::UpgradeDrain | Id::UpgradeQuorum => BOTH,
            Id::EtcdLeader
            | Id::EtcdMembersConsistent
            | Id::EtcdMembersNodes
            | Id::EtcdLearners
            | Id::EtcdAlarms
            | Id::EtcdTolerance => &[Id::EtcdQuorum],
            Id::EtcdSpace | Id::EtcdLag | Id::EtcdVersions => &[Id::EtcdLeader],
            _ => return self.paths_of_facts(),
        };
        (path, &[])
    }

    fn paths_of_facts(&self) -> (&'static [Id], &'static [Id]) {
        let has_objects = self.facts.iter().any(|fact| fact.is_object());
        // The leases are objects; Talos only adds which components have one.
        if self.is_kubernetes_only() || self.id == Id::K8sControlplaneLeases {
            (OBJECTS, &[])
        } else if has_objects && self.facts.contains(&Fact::StaticPods) {
            // Talos reports the static pods. Kubernetes is the second source, for machines that report none.
            (MACHINES, OBJECTS)
        } else {
            (if has_objects { BOTH } else { MACHINES }, &[])
        }
    }
}
