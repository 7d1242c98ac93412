//! Which official document a remedy comes from, by its title: addresses move with every version, titles do not.

use super::Reason;

pub(crate) const TALOS_TROUBLESHOOTING: &str = "Talos documentation, `Troubleshooting`";
pub(crate) const TALOS_TROUBLESHOOTING_CONTROL_PLANE: &str = "Talos documentation, `Troubleshooting Control Plane`";
pub(crate) const TALOS_CONTROL_PLANE: &str = "Talos documentation, `Control Plane`";
pub(crate) const TALOS_ENDPOINTS: &str = "Talos documentation, `talosctl` (endpoints and nodes)";
pub(crate) const TALOS_PKI: &str =
    "Talos documentation, `How to manage PKI and certificate lifetimes with Talos Linux`";
pub(crate) const TALOS_RBAC: &str = "Talos documentation, `Role-based access control (RBAC)`";
pub(crate) const TALOS_GETTING_STARTED: &str = "Talos documentation, `Getting Started`";
pub(crate) const TALOS_DISCOVERY: &str = "Talos documentation, `Discovery Service`";
pub(crate) const TALOS_SCALE_DOWN: &str = "Talos documentation, `How to scale down a Talos cluster`";
pub(crate) const TALOS_ETCD: &str = "Talos documentation, `etcd Maintenance`";
pub(crate) const TALOS_DISASTER: &str = "Talos documentation, `Disaster Recovery`";
pub(crate) const TALOS_UPGRADE: &str = "Talos documentation, `Upgrading Talos Linux`";
pub(crate) const ETCD_RECONFIGURATION: &str = "etcd documentation, `Runtime reconfiguration`";
pub(crate) const ETCD_CORRUPTION: &str = "etcd documentation, `Data Corruption`";
pub(crate) const ETCD_LEARNER: &str = "etcd documentation, `Learner`";
pub(crate) const KUBERNETES_NODES: &str = "Kubernetes documentation, `Nodes`";
pub(crate) const KUBERNETES_TLS: &str = "Kubernetes documentation, `TLS bootstrapping`";
pub(crate) const KUBERNETES_SKEW: &str = "Kubernetes documentation, `Version Skew Policy`";
pub(crate) const KUBERNETES_PRESSURE: &str = "Kubernetes documentation, `Node-pressure Eviction`";
pub(crate) const KUBERNETES_LEASES: &str = "Kubernetes documentation, `Leases`";
pub(crate) const KUBERNETES_NETWORK: &str = "Kubernetes documentation, `Network Plugins`";
pub(crate) const KUBERNETES_PODS: &str = "Kubernetes documentation, `Debug Running Pods`";
pub(crate) const KUBERNETES_DNS: &str = "Kubernetes documentation, `Debugging DNS Resolution`";
pub(crate) const KUBERNETES_DRAIN: &str = "Kubernetes documentation, `Safely Drain a Node`";
pub(crate) const KUBERNETES_RBAC: &str = "Kubernetes documentation, `Using RBAC Authorization`";
pub(crate) const KUBERNETES_KUBECONFIG: &str =
    "Kubernetes documentation, `Organizing Cluster Access Using kubeconfig Files`";

impl Reason {
    /// The document behind [`Reason::text`]'s remedy. What has no guide of its own is a matter of general troubleshooting.
    pub(crate) fn source(self) -> &'static str {
        match self {
            Self::CertificateExpired
            | Self::CertificateExpiresSoon
            | Self::CertificateNotYetValid
            | Self::ClientAuthMissing
            | Self::KeyMismatch
            | Self::ClientCertificateRefused
            | Self::UnknownCa
            | Self::NameNotInCertificate
            | Self::ServerCertificateExpired => TALOS_PKI,
            Self::RoleTooLow | Self::RoleTooLowForThisVersion => TALOS_RBAC,
            Self::ContextUnknown | Self::EndpointIsWorker | Self::EndpointIsVip | Self::EndpointUnreachable => {
                TALOS_ENDPOINTS
            }
            Self::NoKubeconfig | Self::KubeconfigInsecure | Self::WrongCluster | Self::EndpointBehindProxy => {
                KUBERNETES_KUBECONFIG
            }
            Self::Unauthorised | Self::Forbidden | Self::ForbiddenOrStarting => KUBERNETES_RBAC,
            Self::MaintenanceMode => TALOS_GETTING_STARTED,
            Self::NodeMissing | Self::NodeUnexpected | Self::SingleSource | Self::StaleDiscoveryMember => {
                TALOS_DISCOVERY
            }
            Self::StaleNodeObject => TALOS_SCALE_DOWN,
            Self::NeverBootstrapped
            | Self::EtcdStarting
            | Self::EtcdUnhealthy
            | Self::KubeletUnhealthy
            | Self::StaticPodNotRendered
            | Self::StaticPodMissing
            | Self::StaticPodFailed
            | Self::StatusStale
            | Self::ApiUnreachable
            | Self::ApiNotReady
            | Self::ApiFrozen
            | Self::EndpointDownServersReady
            | Self::ServerNotDirectlyReachable
            | Self::ComponentMissing
            | Self::ComponentNotReady => TALOS_TROUBLESHOOTING_CONTROL_PLANE,
            Self::EvenMembers | Self::TwoMembers | Self::NoTolerance | Self::MarginUnmet => TALOS_CONTROL_PLANE,
            Self::QuorumLost | Self::QuorumUnproven | Self::SplitCluster => TALOS_DISASTER,
            Self::StaleMember | Self::NotAMember | Self::MembersDiffer | Self::MemberJoining => ETCD_RECONFIGURATION,
            Self::Learner => ETCD_LEARNER,
            Self::SpaceNearlyFull
            | Self::Fragmented
            | Self::Lagging
            | Self::AlarmNospace
            | Self::AlarmUnknown
            | Self::LeadersDiffer
            | Self::LeaderChanges => TALOS_ETCD,
            Self::AlarmCorrupt => ETCD_CORRUPTION,
            Self::CrashLooping | Self::DaemonsetIncomplete | Self::DaemonsetMissing => KUBERNETES_PODS,
            Self::NodeNotRegistered
            | Self::NodeNotReady
            | Self::NodeLeaseStale
            | Self::NodeLeaving
            | Self::NotTalosNotReady
            | Self::TooManyUnready
            | Self::Uninitialised => KUBERNETES_NODES,
            Self::CniMissing => KUBERNETES_NETWORK,
            Self::CsrPending => KUBERNETES_TLS,
            Self::VersionSkew => KUBERNETES_SKEW,
            Self::NodePressure => KUBERNETES_PRESSURE,
            Self::NotLeading => KUBERNETES_LEASES,
            Self::CordonedByTalos | Self::VersionsMixed | Self::VersionUnexpected => TALOS_UPGRADE,
            Self::Cordoned => KUBERNETES_DRAIN,
            Self::DnsScaledToZero | Self::DnsNoEndpoints | Self::DnsMissing => KUBERNETES_DNS,
            _ => TALOS_TROUBLESHOOTING,
        }
    }
}
