//! The names of the checks, spelled only here.

use std::cmp::Ordering;
use std::fmt;

/// Generates the enum and its names from one list.
macro_rules! ids {
    ($($variant:ident $name:literal;)+) => {
        /// A check, identified by its stable, dotted name. Variants are in report order.
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum CheckId {
            $($variant,)+
        }

        impl CheckId {
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)+];

            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

ids! {
    TalosCredentials "talos.credentials";
    TalosEndpoints "talos.endpoints";
    TalosNodesReachable "talos.nodes.reachable";
    TalosNodesExpected "talos.nodes.expected";
    TalosVersions "talos.versions";
    TalosTime "talos.time";
    TalosNodesBooted "talos.nodes.booted";
    TalosNodesReady "talos.nodes.ready";
    TalosNodesServices "talos.nodes.services";
    TalosNodesKubelet "talos.nodes.kubelet";
    TalosNodesKubeletCertificate "talos.nodes.kubelet-certificate";
    TalosNodesNetwork "talos.nodes.network";
    TalosNodesMemory "talos.nodes.memory";
    TalosNodesDisk "talos.nodes.disk";
    TalosNodesDiagnostics "talos.nodes.diagnostics";
    TalosNodesExtensions "talos.nodes.extensions";
    EtcdService "etcd.service";
    EtcdQuorum "etcd.quorum";
    EtcdLeader "etcd.leader";
    EtcdMembersConsistent "etcd.members.consistent";
    EtcdMembersNodes "etcd.members.nodes";
    EtcdLearners "etcd.learners";
    EtcdAlarms "etcd.alarms";
    EtcdSpace "etcd.space";
    EtcdLag "etcd.lag";
    EtcdTolerance "etcd.tolerance";
    EtcdVersions "etcd.versions";
    K8sCredentials "k8s.credentials";
    K8sApiEndpoint "k8s.api.endpoint";
    K8sApiServers "k8s.api.servers";
    K8sApiIdentity "k8s.api.identity";
    K8sApiCertificates "k8s.api.certificates";
    K8sControlplaneApiserver "k8s.controlplane.apiserver";
    K8sControlplaneControllerManager "k8s.controlplane.controller-manager";
    K8sControlplaneScheduler "k8s.controlplane.scheduler";
    K8sControlplaneLeases "k8s.controlplane.leases";
    K8sControlplaneVersions "k8s.controlplane.versions";
    K8sNodesRegistered "k8s.nodes.registered";
    K8sNodesReady "k8s.nodes.ready";
    K8sNodesPressure "k8s.nodes.pressure";
    K8sNodesConditions "k8s.nodes.conditions";
    K8sNodesSchedulable "k8s.nodes.schedulable";
    K8sNodesCsrs "k8s.nodes.csrs";
    K8sManifests "k8s.manifests";
    K8sKubeProxy "k8s.kube-proxy";
    K8sDns "k8s.dns";
    K8sCni "k8s.cni";
    K8sSystem "k8s.system";
    K8sPodsStarting "k8s.pods.starting";
    K8sWebhooks "k8s.webhooks";
    K8sApiservices "k8s.apiservices";
    K8sStaticpodsRendered "k8s.staticpods.rendered";
    K8sStaticpodsRunning "k8s.staticpods.running";
    UpgradeTalosPath "upgrade.talos.path";
    UpgradeKubernetesPath "upgrade.kubernetes.path";
    UpgradeMatrix "upgrade.matrix";
    UpgradeEtcd "upgrade.etcd";
    UpgradeFlags "upgrade.flags";
    UpgradeApis "upgrade.apis";
    UpgradeExtensions "upgrade.extensions";
    UpgradeDrain "upgrade.drain";
    UpgradeRoom "upgrade.room";
    UpgradeVolumes "upgrade.volumes";
    UpgradeQuorum "upgrade.quorum";
    PolicyMachines "policy.machines";
    PolicyAccept "policy.accept";
    PolicyRequire "policy.require";
    TalosServer "talos.server";
}

impl CheckId {
    /// Returns true for checks of facts from Kubernetes.
    pub(crate) fn is_of_kubernetes(self) -> bool {
        self.name().starts_with("k8s.")
    }

    /// Returns true for checks of facts from etcd members.
    pub(crate) fn is_of_etcd(self) -> bool {
        self.name().starts_with("etcd.")
    }

    /// Returns true for checks of facts that each machine reports about itself.
    pub(crate) fn is_of_a_machine(self) -> bool {
        self.name().starts_with("talos.nodes.")
    }
}

impl fmt::Display for CheckId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for CheckId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Orders checks by name, as lists display them.
impl Ord for CheckId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl PartialOrd for CheckId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
impl From<&str> for CheckId {
    fn from(name: &str) -> Self {
        *Self::ALL.iter().find(|id| id.name() == name).unwrap()
    }
}

/// Lets tests compare a check with its name.
#[cfg(test)]
impl PartialEq<&str> for CheckId {
    fn eq(&self, name: &&str) -> bool {
        self.name() == *name
    }
}
