//! What can be observed, and what it takes to be allowed to.

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
    /// What each kubelet shows in a TLS handshake. Nothing is asked in it.
    KubeletCertificate,
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
    /// What each kubelet is started with.
    KubeletFlags,
    /// `ExtensionStatuses`.
    Extensions,
    /// What the end of machined's log tells of installers: for `upgrade-plan`.
    Installation,
    /// `Infos`: which cluster a machine belongs to, for `upgrade-plan`.
    TalosCluster,
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
    StatefulSets,
    /// Pods of all namespaces that are bound to a node and Pending, and those that have run and that an event names.
    StartingPods,
    /// Sandboxes that could not be created. If a pod has waited for long, what else happened to pods.
    PodEvents,
    /// Pods of all namespaces that are bound to a node and have not finished.
    BoundPods,
    DisruptionBudgets,
    /// Nodes once more, as the scheduler looks at them.
    NodeRoom,
    VolumeAttachments,
    PersistentVolumes,
    /// `/metrics` of each control plane, of which one family is kept.
    RequestedApis,
    DnsEndpoints,
    ApiEndpoints,
    SigningRequests,
    ValidatingWebhooks,
    MutatingWebhooks,
    /// Of the Services that webhooks name.
    WebhookEndpoints,
    ApiServices,
    /// The namespace kube-system, whose UID is the cluster's: for `upgrade-plan`.
    KubernetesCluster,
    /// `HealthCheck`, by one control plane.
    ServerCheck,
}

/// What a Kubernetes fact needs of RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Right {
    /// get, list on a resource: API group, plural.
    Resource(&'static str, &'static str),
    /// get on one object that has no namespace: API group, plural, name.
    Object(&'static str, &'static str, &'static str),
    /// get on a non-resource URL.
    Url(&'static str),
}

const ADMISSION: &str = "admissionregistration.k8s.io";

impl Fact {
    /// What `upgrade-plan` reads beside what its checks read.
    pub(crate) const OF_PLAN: [Self; 6] = [
        Self::KubeNodes,
        Self::EtcdMembership,
        Self::Extensions,
        Self::Installation,
        Self::TalosCluster,
        Self::KubernetesCluster,
    ];

    /// What is called, in the words of the API concerned.
    pub(crate) fn reads(self) -> &'static str {
        match self {
            Self::TalosNodes => "Version, Members, Identities, MachineTypes, Nodenames",
            Self::MachineStatus => "MachineStatuses",
            Self::Services => "ServiceList",
            Self::TimeStatus => "TimeStatuses, AdjtimeStatuses",
            Self::NetworkStatus => "NetworkStatuses",
            Self::KubePrism => "KubePrismStatuses",
            Self::KubeSpan => "KubeSpanPeerStatuses (of control planes)",
            Self::Memory => "Memory",
            Self::Volumes => "VolumeStatuses, Mounts",
            Self::Diagnostics => "Diagnostics",
            Self::KubeletCertificate => "TLS handshake (kubelet, port 10250)",
            Self::StaticPods => "StaticPods",
            Self::StaticPodStatuses => "StaticPodStatuses",
            Self::ConfigStatuses => "ConfigStatuses",
            Self::ComponentConfigs => "SchedulerConfigs, ControllerManagerConfigs",
            Self::BootstrapManifests => "BootstrapManifestsConfigs",
            Self::EtcdMembership => "EtcdStatus, EtcdMemberList, EtcdMembers",
            Self::EtcdAlarms => "EtcdAlarmList",
            Self::EtcdSpecs => "EtcdSpecs",
            Self::EtcdData => "List /var/lib/etcd",
            Self::KubeletFlags => "KubeletSpecs",
            Self::Extensions => "ExtensionStatuses",
            Self::Installation => "Logs (machined)",
            Self::TalosCluster => "Infos",
            Self::EndpointReadyz => "GET /readyz (endpoint)",
            Self::ServerReadyz => "GET /readyz (each control plane)",
            Self::KubeNodes => "nodes",
            Self::NodeLeases => "leases (kube-node-lease)",
            Self::SystemLeases => "leases (kube-system)",
            Self::Pods => "pods (kube-system)",
            Self::DaemonSets => "daemonsets",
            Self::Deployments => "deployments (kube-system, network plugin)",
            Self::StatefulSets => "statefulsets (kube-system, network plugin)",
            Self::StartingPods => "pods (pending, or named by an event)",
            Self::PodEvents => "events (of pods)",
            Self::BoundPods => "pods (all namespaces)",
            Self::DisruptionBudgets => "poddisruptionbudgets",
            Self::NodeRoom => "nodes (allocatable)",
            Self::VolumeAttachments => "volumeattachments",
            Self::PersistentVolumes => "persistentvolumes",
            Self::RequestedApis => "GET /metrics (each control plane)",
            Self::DnsEndpoints => "endpointslices (kube-system)",
            Self::ApiEndpoints => "endpointslices (default)",
            Self::SigningRequests => "certificatesigningrequests",
            Self::ValidatingWebhooks => "validatingwebhookconfigurations",
            Self::MutatingWebhooks => "mutatingwebhookconfigurations",
            Self::WebhookEndpoints => "endpointslices (of webhooks)",
            Self::ApiServices => "apiservices",
            Self::KubernetesCluster => "namespaces (kube-system)",
            Self::ServerCheck => "HealthCheck",
        }
    }

    /// The right that a kubeconfig needs for it; `None` for what the Talos API tells.
    pub(crate) fn right(self) -> Option<Right> {
        match self {
            Self::EndpointReadyz | Self::ServerReadyz => Some(Right::Url("/readyz")),
            Self::RequestedApis => Some(Right::Url("/metrics")),
            Self::KubeNodes | Self::NodeRoom => Some(Right::Resource("", "nodes")),
            Self::PersistentVolumes => Some(Right::Resource("", "persistentvolumes")),
            Self::VolumeAttachments => Some(Right::Resource("storage.k8s.io", "volumeattachments")),
            Self::Pods | Self::StartingPods | Self::BoundPods => Some(Right::Resource("", "pods")),
            Self::PodEvents => Some(Right::Resource("", "events")),
            Self::DisruptionBudgets => Some(Right::Resource("policy", "poddisruptionbudgets")),
            Self::NodeLeases | Self::SystemLeases => Some(Right::Resource("coordination.k8s.io", "leases")),
            Self::DaemonSets => Some(Right::Resource("apps", "daemonsets")),
            Self::Deployments => Some(Right::Resource("apps", "deployments")),
            Self::StatefulSets => Some(Right::Resource("apps", "statefulsets")),
            Self::DnsEndpoints | Self::ApiEndpoints | Self::WebhookEndpoints => {
                Some(Right::Resource("discovery.k8s.io", "endpointslices"))
            }
            Self::ValidatingWebhooks => Some(Right::Resource(ADMISSION, "validatingwebhookconfigurations")),
            Self::MutatingWebhooks => Some(Right::Resource(ADMISSION, "mutatingwebhookconfigurations")),
            Self::KubernetesCluster => Some(Right::Object("", "namespaces", "kube-system")),
            Self::ApiServices => Some(Right::Resource("apiregistration.k8s.io", "apiservices")),
            Self::SigningRequests => Some(Right::Resource("certificates.k8s.io", "certificatesigningrequests")),
            _ => None,
        }
    }

    /// The least Talos role for it; `None` for what Kubernetes tells, and for what anybody may see.
    pub(crate) fn role(self) -> Option<&'static str> {
        match self {
            Self::ServerCheck => Some("os:admin"),
            Self::KubeletCertificate => None,
            _ => self.right().is_none().then_some("os:reader"),
        }
    }
}
