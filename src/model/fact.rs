//! What can be observed, and what it takes to be allowed to.

/// What reading a fact takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Access {
    /// A call of the Talos API, with this role at least.
    Talos(&'static str),
    Kubernetes(Right),
    /// A right that the policy decides on.
    Policy,
    /// No permission needed: nothing is requested.
    Anybody,
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

/// Makes the enum and what is known of each fact from one list: what is called, in the words of the API concerned; what that takes; and
/// whether a cluster that works may answer with an empty list.
macro_rules! facts {
    (@is_never_empty never) => { true };
    (@is_never_empty) => { false };
    ($($(#[$doc:meta])* $fact:ident: $reads:literal, $access:expr $(, $never_empty:ident empty)?;)+) => {
        /// A kind of observation. The observers ask only for those that some selected check names; `rbac` and `list` are made from
        /// what they say of themselves.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) enum Fact {
            $($(#[$doc])* $fact,)+
        }

        impl Fact {
            /// What is called, in the words of the API concerned.
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

            /// No cluster that works answers with an empty list.
            pub(crate) fn is_never_empty(self) -> bool {
                match self {
                    $(Self::$fact => facts!(@is_never_empty $($never_empty)?),)+
                }
            }
        }
    };
}

facts! {
    /// Talos `Version` of every endpoint and node, `Members`, `MachineType`, `Nodename`: the population itself.
    TalosNodes: "Version, Members, Identities, MachineTypes, Nodenames", Talos("os:reader");
    MachineStatus: "MachineStatuses", Talos("os:reader");
    Services: "ServiceList", Talos("os:reader");
    /// `TimeStatuses`, `AdjtimeStatuses`.
    TimeStatus: "TimeStatuses, AdjtimeStatuses", Talos("os:reader");
    NetworkStatus: "NetworkStatuses", Talos("os:reader");
    /// `AddressStatuses`, and `LinkStatuses` where an address stands alone.
    Addresses: "AddressStatuses, LinkStatuses", Talos("os:reader");
    KubePrism: "KubePrismStatuses", Talos("os:reader");
    KubeSpan: "KubeSpanPeerStatuses (of control planes)", Talos("os:reader");
    Memory: "Memory", Talos("os:reader");
    /// `VolumeStatuses`, `Mounts`.
    Volumes: "VolumeStatuses, Mounts", Talos("os:reader");
    Diagnostics: "Diagnostics", Talos("os:reader");
    /// What each kubelet shows in a TLS handshake. Nothing is asked in it.
    KubeletCertificate: "TLS handshake (kubelet, port 10250)", Anybody;
    StaticPods: "StaticPods", Talos("os:reader");
    StaticPodStatuses: "StaticPodStatuses", Talos("os:reader");
    ConfigStatuses: "ConfigStatuses", Talos("os:reader");
    /// `SchedulerConfigs`, `ControllerManagerConfigs`.
    ComponentConfigs: "SchedulerConfigs, ControllerManagerConfigs", Talos("os:reader");
    BootstrapManifests: "BootstrapManifestsConfigs", Talos("os:reader");
    /// Which bootstrap manifests a control plane has applied, and the names of the user's own. `ManifestStatuses`, `ExtraManifestsConfigs`.
    ManifestStatuses: "ManifestStatuses, ExtraManifestsConfigs (of control planes)", Talos("os:reader");
    /// `EtcdStatus`, `EtcdMemberList`, `EtcdMembers`; or etcd's own `Status` and `MemberList`.
    EtcdMembership: "EtcdStatus, EtcdMemberList, EtcdMembers", Talos("os:reader");
    EtcdAlarms: "EtcdAlarmList", Talos("os:reader");
    /// `EtcdSpecs`: what etcd is started with.
    EtcdSpecs: "EtcdSpecs", Talos("os:reader");
    /// `List /var/lib/etcd`, only while etcd has not started.
    EtcdData: "List /var/lib/etcd", Talos("os:reader");
    /// What each kubelet is started with.
    KubeletFlags: "KubeletSpecs", Talos("os:reader");
    /// `ExtensionStatuses`.
    Extensions: "ExtensionStatuses", Talos("os:reader");
    /// What the end of machined's log tells of installers: for `upgrade-plan`.
    Installation: "Logs (machined)", Talos("os:reader");
    /// `Infos`: which cluster a machine belongs to, for `upgrade-plan`.
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
    /// Pods of all namespaces that are bound to a node and Pending, and those that have run and that an event names.
    StartingPods: "pods (pending, or named by an event)", Kubernetes(Resource("", "pods"));
    /// Drivers that have registered with each kubelet, while several pods of a node wait for volumes.
    CsiNodes: "csinodes (while pods wait for volumes)", Kubernetes(Resource("storage.k8s.io", "csinodes"));
    /// Which volumes are attached where, while several pods of a node wait for volumes.
    AttachedVolumes: "volumeattachments (while pods wait for volumes)", Kubernetes(Resource("storage.k8s.io", "volumeattachments"));
    /// Sandboxes that could not be created. If a pod has waited for long, what else happened to pods.
    PodEvents: "events (of pods)", Kubernetes(Resource("", "events"));
    /// Pods of all namespaces that are bound to a node and have not finished.
    BoundPods: "pods (all namespaces)", Kubernetes(Resource("", "pods"));
    DisruptionBudgets: "poddisruptionbudgets", Kubernetes(Resource("policy", "poddisruptionbudgets"));
    /// Nodes once more, as the scheduler looks at them.
    NodeRoom: "nodes (allocatable)", Kubernetes(Resource("", "nodes"));
    VolumeAttachments: "volumeattachments", Kubernetes(Resource("storage.k8s.io", "volumeattachments"));
    PersistentVolumes: "persistentvolumes", Kubernetes(Resource("", "persistentvolumes"));
    /// `/metrics` of each control plane, of which one family is kept.
    RequestedApis: "GET /metrics (each control plane)", Kubernetes(Url("/metrics"));
    DnsEndpoints: "endpointslices (kube-system)", Kubernetes(Resource("discovery.k8s.io", "endpointslices"));
    ApiEndpoints: "endpointslices (default)", Kubernetes(Resource("discovery.k8s.io", "endpointslices"));
    SigningRequests: "certificatesigningrequests", Kubernetes(Resource("certificates.k8s.io", "certificatesigningrequests"));
    ValidatingWebhooks: "validatingwebhookconfigurations", Kubernetes(Resource(ADMISSION, "validatingwebhookconfigurations"));
    MutatingWebhooks: "mutatingwebhookconfigurations", Kubernetes(Resource(ADMISSION, "mutatingwebhookconfigurations"));
    /// Conversion webhooks of `CustomResourceDefinitions`, once in a run.
    Conversions: "customresourcedefinitions", Kubernetes(Resource("apiextensions.k8s.io", "customresourcedefinitions"));
    /// Endpoints of the Services that webhooks name.
    WebhookEndpoints: "endpointslices (of webhooks)", Kubernetes(Resource("discovery.k8s.io", "endpointslices"));
    ApiServices: "apiservices", Kubernetes(Resource("apiregistration.k8s.io", "apiservices"));
    /// `/version` of the Kubernetes endpoint, without Talos: elsewhere images tell.
    ServerVersion: "GET /version (endpoint)", Kubernetes(Url("/version"));
    /// The namespace kube-system, whose UID is the cluster's.
    KubernetesCluster: "namespaces (kube-system)", Kubernetes(Object("", "namespaces", "kube-system"));
    /// Discovery of the kinds that a policy names in `require`, and their objects.
    Required: "objects that the policy requires", Policy;
    /// `HealthCheck`, by one control plane.
    ServerCheck: "HealthCheck", Talos("os:admin");
}

impl Fact {
    /// What `upgrade-plan` reads beside what its checks read.
    pub(crate) const OF_PLAN: [Self; 7] = [
        Self::KubeNodes,
        Self::EtcdMembership,
        Self::EtcdSpecs,
        Self::Extensions,
        Self::Installation,
        Self::TalosCluster,
        Self::KubernetesCluster,
    ];
    /// What a report that is kept tells beside it: which cluster it is of. No check needs it.
    pub(crate) const OF_STORED: [Self; 1] = [Self::KubernetesCluster];

    /// The right that a kubeconfig needs for it; `None` for what Kubernetes does not tell.
    pub(crate) fn right(self) -> Option<Right> {
        match self.access() {
            Access::Kubernetes(right) => Some(right),
            Access::Talos(_) | Access::Policy | Access::Anybody => None,
        }
    }

    /// The least Talos role for it; `None` for what Kubernetes tells, and for what anybody may see.
    pub(crate) fn role(self) -> Option<&'static str> {
        match self.access() {
            Access::Talos(role) => Some(role),
            Access::Kubernetes(_) | Access::Policy | Access::Anybody => None,
        }
    }
}
