//! The facts that can be observed, and the permissions needed to read them.

/// The permission needed to read a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Access {
    /// A Talos API call that requires at least this role.
    Talos(&'static str),
    Kubernetes(Right),
    /// Permissions that depend on the policy.
    Policy,
    /// No permission: nothing is requested.
    Anybody,
}

/// An RBAC permission that a Kubernetes fact requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Right {
    /// get and list on a resource: API group, plural.
    Resource(&'static str, &'static str),
    /// get on one cluster-scoped object: API group, plural, name.
    Object(&'static str, &'static str, &'static str),
    /// get on a non-resource URL.
    Url(&'static str),
}

const ADMISSION: &str = "admissionregistration.k8s.io";

/// Generates the enum and the properties of each fact from one list: the calls, in the words of the API concerned; the required permission;
/// and whether a working cluster can answer with an empty list.
macro_rules! facts {
    (@is_never_empty never) => { true };
    (@is_never_empty) => { false };
    ($($(#[$doc:meta])* $fact:ident: $reads:literal, $access:expr $(, $never_empty:ident empty)?;)+) => {
        /// A kind of observation. Observers read only the facts that a selected check lists; `rbac` and `list` are derived from the
        /// properties below.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) enum Fact {
            $($(#[$doc])* $fact,)+
        }

        impl Fact {
            /// Names the calls, in the words of the API concerned.
            pub(crate) fn reads(self) -> &'static str {
                match self {
                    $(Self::$fact => $reads,)+
                }
            }

            fn access(self) -> Access {
                use Access::{Anybody, Kubernetes, Policy, Talos};
                use Right::{Object, Resource, Url};
                match self {
                    $(Self::$fact => $access,)+
                }
            }

            /// Returns true if a working cluster never answers with an empty list.
            pub(crate) fn is_never_empty(self) -> bool {
                match self {
                    $(Self::$fact => facts!(@is_never_empty $($never_empty)?),)+
                }
            }
        }
    };
}

facts! {
    /// The node population: Talos `Version` of every endpoint and node, `Members`, `MachineType`, `Nodename`.
    TalosNodes: "Version, Members, Identities, MachineTypes, Nodenames", Talos("os:reader");
    MachineStatus: "MachineStatuses", Talos("os:reader");
    Services: "ServiceList", Talos("os:reader");
    TimeStatus: "TimeStatuses, AdjtimeStatuses", Talos("os:reader");
    NetworkStatus: "NetworkStatuses", Talos("os:reader");
    /// `AddressStatuses`, plus `LinkStatuses` if an address stands alone (/32 or /128), outside of any network of its link.
    Addresses: "AddressStatuses, LinkStatuses", Talos("os:reader");
    KubePrism: "KubePrismStatuses", Talos("os:reader");
    KubeSpan: "KubeSpanPeerStatuses (of control planes)", Talos("os:reader");
    Memory: "Memory", Talos("os:reader");
    Volumes: "VolumeStatuses, Mounts", Talos("os:reader");
    Diagnostics: "Diagnostics", Talos("os:reader");
    /// The certificate that each kubelet presents in a TLS handshake. No request is sent.
    KubeletCertificate: "TLS handshake (kubelet, port 10250)", Anybody;
    StaticPods: "StaticPods", Talos("os:reader");
    StaticPodStatuses: "StaticPodStatuses", Talos("os:reader");
    ConfigStatuses: "ConfigStatuses", Talos("os:reader");
    ComponentConfigs: "SchedulerConfigs, ControllerManagerConfigs", Talos("os:reader");
    BootstrapManifests: "BootstrapManifestsConfigs", Talos("os:reader");
    /// The bootstrap manifests that a control plane has applied, and the names of the user's extra manifests.
    ManifestStatuses: "ManifestStatuses, ExtraManifestsConfigs (of control planes)", Talos("os:reader");
    /// `EtcdStatus`, `EtcdMemberList`, `EtcdMembers`; or etcd's own `Status` and `MemberList`.
    EtcdMembership: "EtcdStatus, EtcdMemberList, EtcdMembers", Talos("os:reader");
    EtcdAlarms: "EtcdAlarmList", Talos("os:reader");
    /// The arguments that etcd is started with.
    EtcdSpecs: "EtcdSpecs", Talos("os:reader");
    /// `List /var/lib/etcd`, only while etcd has not started.
    EtcdData: "List /var/lib/etcd", Talos("os:reader");
    /// The arguments that each kubelet is started with.
    KubeletFlags: "KubeletSpecs", Talos("os:reader");
    Extensions: "ExtensionStatuses", Talos("os:reader");
    /// Installer messages at the end of machined's log, for `upgrade-plan`.
    Installation: "Logs (machined)", Talos("os:reader");
    /// The cluster that a machine belongs to (`Infos`), for `upgrade-plan`.
    TalosCluster: "Infos", Talos("os:reader");
    /// `/readyz` of the Kubernetes endpoint.
    EndpointReadyz: "GET /readyz (endpoint)", Kubernetes(Url("/readyz"));
    /// `/readyz` of each control plane.
    ServerReadyz: "GET /readyz (each control plane)", Kubernetes(Url("/readyz"));
    /// Kubernetes Node objects.
    KubeNodes: "nodes", Kubernetes(Resource("", "nodes")), never empty;
    NodeLeases: "leases (kube-node-lease)", Kubernetes(Resource("coordination.k8s.io", "leases")), never empty;
    SystemLeases: "leases (kube-system)", Kubernetes(Resource("coordination.k8s.io", "leases"));
    Pods: "pods (kube-system)", Kubernetes(Resource("", "pods")), never empty;
    DaemonSets: "daemonsets", Kubernetes(Resource("apps", "daemonsets"));
    Deployments: "deployments (kube-system, network plugin)", Kubernetes(Resource("apps", "deployments"));
    StatefulSets: "statefulsets (kube-system, network plugin)", Kubernetes(Resource("apps", "statefulsets"));
    /// Pods in all namespaces that are bound to a node and Pending, plus pods that have run and are named by an event.
    StartingPods: "pods (pending, or named by an event)", Kubernetes(Resource("", "pods"));
    /// Drivers registered with each kubelet. Read while several pods of a node wait for volumes.
    CsiNodes: "csinodes (while pods wait for volumes)", Kubernetes(Resource("storage.k8s.io", "csinodes"));
    /// Volumes and the nodes they are attached to. Read while several pods of a node wait for volumes.
    AttachedVolumes: "volumeattachments (while pods wait for volumes)", Kubernetes(Resource("storage.k8s.io", "volumeattachments"));
    /// Events about sandboxes that could not be created. If a pod has been waiting for a long time, also other pod events.
    PodEvents: "events (of pods)", Kubernetes(Resource("", "events"));
    /// Pods in all namespaces that are bound to a node and have not finished.
    BoundPods: "pods (all namespaces)", Kubernetes(Resource("", "pods"));
    DisruptionBudgets: "poddisruptionbudgets", Kubernetes(Resource("policy", "poddisruptionbudgets"));
    /// Node objects again, with the fields that the scheduler considers.
    NodeRoom: "nodes (allocatable)", Kubernetes(Resource("", "nodes"));
    VolumeAttachments: "volumeattachments", Kubernetes(Resource("storage.k8s.io", "volumeattachments"));
    PersistentVolumes: "persistentvolumes", Kubernetes(Resource("", "persistentvolumes"));
    /// `/metrics` of each control plane. Only one metric family is kept.
    RequestedApis: "GET /metrics (each control plane)", Kubernetes(Url("/metrics"));
    DnsEndpoints: "endpointslices (kube-system)", Kubernetes(Resource("discovery.k8s.io", "endpointslices"));
    ApiEndpoints: "endpointslices (default)", Kubernetes(Resource("discovery.k8s.io", "endpointslices"));
    SigningRequests: "certificatesigningrequests", Kubernetes(Resource("certificates.k8s.io", "certificatesigningrequests"));
    ValidatingWebhooks: "validatingwebhookconfigurations", Kubernetes(Resource(ADMISSION, "validatingwebhookconfigurations"));
    MutatingWebhooks: "mutatingwebhookconfigurations", Kubernetes(Resource(ADMISSION, "mutatingwebhookconfigurations"));
    /// Conversion webhooks of `CustomResourceDefinitions`, read once per run.
    Conversions: "customresourcedefinitions", Kubernetes(Resource("apiextensions.k8s.io", "customresourcedefinitions"));
    /// Endpoints of the Services that webhooks name.
    WebhookEndpoints: "endpointslices (of webhooks)", Kubernetes(Resource("discovery.k8s.io", "endpointslices"));
    ApiServices: "apiservices", Kubernetes(Resource("apiregistration.k8s.io", "apiservices"));
    /// `/version` of the Kubernetes endpoint. Read only without Talos; otherwise image tags give the version.
    ServerVersion: "GET /version (endpoint)", Kubernetes(Url("/version"));
    /// The namespace kube-system, whose UID identifies the cluster.
    KubernetesCluster: "namespaces (kube-system)", Kubernetes(Object("", "namespaces", "kube-system"));
    /// Discovery of the kinds that a policy names in `require`, and their objects.
    Required: "objects that the policy requires", Policy;
    /// `HealthCheck`, run by one control plane.
    ServerCheck: "HealthCheck", Talos("os:admin");
}

impl Fact {
    /// Facts that `upgrade-plan` reads in addition to those of its checks.
    pub(crate) const OF_PLAN: [Self; 7] = [
        Self::KubeNodes,
        Self::EtcdMembership,
        Self::EtcdSpecs,
        Self::Extensions,
        Self::Installation,
        Self::TalosCluster,
        Self::KubernetesCluster,
    ];
    /// Facts that stored reports need to identify their cluster. No check needs them.
    pub(crate) const OF_STORED: [Self; 1] = [Self::KubernetesCluster];

    /// Returns the permission that a kubeconfig needs for the fact; `None` if the fact does not come from Kubernetes.
    pub(crate) fn right(self) -> Option<Right> {
        match self.access() {
            Access::Kubernetes(right) => Some(right),
            Access::Talos(_) | Access::Policy | Access::Anybody => None,
        }
    }

    /// Returns true for objects of Kubernetes, except Nodes and their leases: these also name the machines of every other check.
    pub(crate) fn is_object(self) -> bool {
        matches!(self.right(), Some(Right::Resource(..))) && !matches!(self, Self::KubeNodes | Self::NodeLeases)
    }

    /// Returns true for facts that workers are not asked for. Workers have none, except for KubeSpan: asking every machine would return as
    /// many peers as there are pairs of machines.
    pub(crate) fn is_of_control_planes(self) -> bool {
        matches!(
            self,
            Self::KubeSpan
                | Self::ConfigStatuses
                | Self::ComponentConfigs
                | Self::BootstrapManifests
                | Self::ManifestStatuses
                | Self::EtcdMembership
                | Self::EtcdAlarms
                | Self::EtcdSpecs
                | Self::EtcdData
        )
    }

    /// Returns the least privileged Talos role that can read the fact; `None` if the fact does not come from the Talos API.
    pub(crate) fn role(self) -> Option<&'static str> {
        match self.access() {
            Access::Talos(role) => Some(role),
            Access::Kubernetes(_) | Access::Policy | Access::Anybody => None,
        }
    }
}
