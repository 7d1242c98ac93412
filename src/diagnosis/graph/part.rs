//! The parts of a cluster that can stop each other, and the parts that each needs to work.

use crate::assess::components::Component;
use crate::model::CheckId;

/// A part that can stop working: on each machine, or once in the cluster.
///
/// If starting and running have different causes, they are separate parts: a kubelet that waits for the network is explained by the
/// network, but a kubelet that exits with an error is not. This also keeps the needs of parts free of cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    // Credentials, and access through them.
    TalosCredentials,
    KubernetesCredentials,
    /// The API server accepts the credentials.
    KubernetesAccess,
    ServerAccess,

    // A machine.
    /// An entry for a machine that does not exist (any longer).
    Record,
    /// Power, and a stage in which the machine is meant to work.
    Power,
    /// An endpoint of the talosconfig.
    TalosEndpoint,
    /// The machine's Talos API.
    TalosApi,
    Network,
    Clock,
    /// The volumes that Talos itself needs.
    Volumes,
    /// containerd and cri.
    Runtime,
    /// Any other Talos service, extension services among them.
    Service,
    /// The end of the boot sequence.
    Boot,
    /// A condition that Talos requires, by its subject.
    Condition(Condition),
    /// A machine that was named on the command line.
    Stated,
    /// A machine as its KubeSpan peers see it.
    Peers,

    // etcd.
    /// An etcd service that waits for something before it starts.
    EtcdStart,
    /// An etcd process that has started.
    EtcdProcess,
    /// The static pod that a member runs in, where Talos does not run etcd as a service.
    EtcdPod,
    /// A member on its way into the cluster.
    Joining,
    /// The existence of one single cluster, which is this one.
    EtcdIdentity,
    /// The control plane's membership.
    Membership,
    Quorum,
    /// The database accepts writes.
    Writes,
    /// A member that raised the alarm that stops all writes.
    Alarm,
    /// A member as its clients see it.
    EtcdMember,
    /// Agreement of all members on leader, term and lists.
    Agreement,
    /// Used share of a database.
    Space,
    /// A member's delay behind the others.
    Lag,
    /// Number of further members that can be lost.
    Tolerance,

    // The control plane.
    /// Manifests of the static pods.
    Manifests,
    Component(Component),
    /// The readiness probe of a component that runs.
    Ready(Component),
    ApiServer,
    /// Functions of an API server that do not need etcd.
    ApiServerItself,
    ApiCertificate,
    ApiEndpoint,
    /// KubePrism on a machine.
    KubePrism,
    /// The lease of a component that elects a leader.
    Leader(Component),
    /// A static pod, as the kubelet reports it.
    StaticPod(StaticPod),
    /// The kubelet's reporting of static pods in general.
    PodStatuses,
    /// The lists of nodes.
    Sources,

    // Kubernetes on a machine.
    /// A kubelet that waits for something before it starts.
    KubeletStart,
    Kubelet,
    /// The certificate request of a kubelet.
    Request,
    ServingCertificate,
    /// The Node object.
    Registration,
    /// The Ready condition and the lease of a Node.
    NodeReady,
    /// The network plugin as the kubelet sees it.
    NodeNetwork,
    NetworkAgent,
    KubeProxy,
    /// Sandboxes of new pods.
    Sandbox,
    /// A pod of any workload.
    Pod,

    // Workloads.
    /// Manifests that Talos applies after the bootstrap.
    BootstrapManifests,
    /// A node that accepts new pods.
    Place,
    /// A scheduler that considers pods.
    Scheduling,
    /// A pod without a node.
    Unplaced,
    Workload,
    Webhook,
    AggregatedApi,

    // Before an upgrade.
    UpgradeQuorum,
    /// An API server on another machine.
    OtherServer,
    /// A controller manager or a scheduler on another machine.
    OtherComponent,
    Drain,
    /// The drain of any machine, as opposed to that of a certain one.
    AnyDrain,

    /// Versions, sizes, margins, policies: they stop nothing else, and nothing else stops them.
    Property,
}

/// The subject of one of Talos's conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Condition {
    Services,
    Time,
    Network,
    StaticPods,
    NodeReady,
    Other,
}

/// The origin of a static pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum StaticPod {
    Component(Component),
    Etcd,
    /// Defined in `machine.pods`.
    Own,
}

impl Part {
    /// Parts without which this one does not work, the nearest first. If both are on a machine, it is the same one.
    #[expect(clippy::too_many_lines, reason = "an entry for each part")]
    pub(crate) fn needs(self) -> &'static [Self] {
        use Component::{ApiServer as Api, ControllerManager as Manager, Scheduler};
        use Part::{
            ApiEndpoint, ApiServer, BootstrapManifests, Clock, EtcdIdentity, EtcdMember, EtcdProcess, EtcdStart,
            Joining, Kubelet, KubeletStart, KubernetesAccess, KubernetesCredentials, Leader, Manifests, Membership,
            Network, NetworkAgent, NodeNetwork, NodeReady, Place, Pod, PodStatuses, Power, Quorum, Ready, Record,
            Registration, Request, Runtime, Sandbox, Scheduling, Service, ServingCertificate, TalosApi,
            TalosCredentials, Tolerance, Unplaced, Volumes, Writes,
        };
        match self {
            TalosCredentials
            | KubernetesCredentials
            | Record
            | Power
            | Joining
            | EtcdIdentity
            | Quorum
            | Writes
            | Self::Alarm
            | Self::Space
            | Self::Condition(Condition::Other)
            | Self::Property => &[],
            KubernetesAccess => &[KubernetesCredentials],
            Self::ServerAccess => &[KubernetesAccess],
            Self::TalosEndpoint => &[TalosCredentials, TalosApi, Power],
            TalosApi => &[TalosCredentials, Record, Power],
            Self::Stated | Self::Peers => &[TalosApi, Power],
            Network | Volumes => &[Power, TalosApi],
            // containerd starts no container without room in /var, nor while it does not run itself.
            Kubelet => &[Runtime, Volumes, Power, TalosApi],
            Clock => &[Network, Power, TalosApi],
            Runtime => &[Volumes, Network, Power, TalosApi],
            Service => &[Runtime, Volumes, Network, Power, TalosApi],
            EtcdStart | KubeletStart => &[Runtime, Volumes, Network, Clock, Power, TalosApi],
            EtcdProcess => &[Joining, Runtime, Volumes, Power, TalosApi],
            Self::Boot => &[Service, Runtime, EtcdStart, EtcdProcess, EtcdMember, KubeletStart, Kubelet, Power],
            Self::Condition(Condition::Services) => {
                &[Service, Runtime, EtcdStart, EtcdProcess, EtcdMember, KubeletStart, Kubelet]
            }
            Self::Condition(Condition::Time) => &[Clock],
            Self::Condition(Condition::Network) => &[Network],
            Self::Condition(Condition::StaticPods) => &[
                Self::StaticPod(StaticPod::Component(Api)),
                Self::StaticPod(StaticPod::Component(Manager)),
                Self::StaticPod(StaticPod::Component(Scheduler)),
                Self::StaticPod(StaticPod::Own),
                PodStatuses,
            ],
            Self::Condition(Condition::NodeReady) => &[Registration, NodeReady, NodeNetwork, ApiEndpoint],
            Membership => &[EtcdIdentity, EtcdStart],
            EtcdMember => &[EtcdProcess, EtcdStart, Self::EtcdPod, Joining, Membership, Quorum, Power, TalosApi],
            Self::Agreement => &[EtcdIdentity, Quorum],
            Self::Lag => &[EtcdMember],
            Tolerance => &[EtcdMember, Record],
            Manifests => &[EtcdStart, EtcdProcess, EtcdMember, Power, TalosApi],
            // An API server ends if the etcd on its machine does not answer.
            Self::Component(Api) => {
                &[Manifests, EtcdMember, KubeletStart, Kubelet, Runtime, Volumes, Quorum, Power, TalosApi]
            }
            // They use the API server of their own machine.
            Self::Component(Manager | Scheduler) => {
                &[Manifests, KubeletStart, Kubelet, Runtime, Volumes, Quorum, Power, TalosApi, ApiServer]
            }
            Ready(Api) => &[ApiServer, Self::Component(Api), NodeReady],
            Ready(Manager) => &[Self::Component(Manager), ApiServer, NodeReady],
            Ready(Scheduler) => &[Self::Component(Scheduler), ApiServer, NodeReady],
            ApiServer => &[
                Self::Component(Api),
                Manifests,
                EtcdMember,
                EtcdProcess,
                EtcdStart,
                Membership,
                Quorum,
                KubernetesCredentials,
                Power,
                TalosApi,
            ],
            Self::ApiServerItself => &[Self::Component(Api), Quorum, KubernetesCredentials, Power, TalosApi],
            ApiEndpoint => &[ApiServer, Quorum, KubernetesCredentials],
            Self::ApiCertificate => &[ApiServer, ApiEndpoint],
            Self::KubePrism => &[ApiEndpoint, Quorum, ApiServer],
            Leader(Manager) => &[Self::Component(Manager), Ready(Manager), Quorum, Writes, ApiEndpoint],
            Leader(_) => &[Self::Component(Scheduler), Ready(Scheduler), Quorum, Writes, ApiEndpoint],
            Self::StaticPod(StaticPod::Component(Api)) => &[Self::Component(Api), Ready(Api), PodStatuses, NodeReady],
            Self::StaticPod(StaticPod::Component(Manager)) => {
                &[Self::Component(Manager), Ready(Manager), PodStatuses, NodeReady]
            }
            Self::StaticPod(StaticPod::Component(Scheduler)) => {
                &[Self::Component(Scheduler), Ready(Scheduler), PodStatuses, NodeReady]
            }
            Self::StaticPod(StaticPod::Etcd) => &[EtcdStart, EtcdProcess, EtcdMember],
            Self::EtcdPod => &[Quorum, NodeReady],
            Self::StaticPod(StaticPod::Own) => &[PodStatuses, Quorum, NodeReady],
            PodStatuses => &[KubeletStart, Kubelet, ServingCertificate, Request],
            Self::Sources => &[ApiEndpoint, Quorum, KubernetesCredentials],
            Request => &[Leader(Manager)],
            ServingCertificate => &[Request, Clock],
            Registration => &[Kubelet, KubeletStart, Request, Network, TalosApi, Power, ApiEndpoint],
            NodeReady => &[Kubelet, KubeletStart, Runtime, TalosApi, Power, Writes, Quorum],
            NodeNetwork => &[NetworkAgent],
            NetworkAgent | Self::KubeProxy => {
                &[BootstrapManifests, NodeReady, Kubelet, KubeletStart, Runtime, Volumes, TalosApi, Power]
            }
            BootstrapManifests => &[ApiEndpoint, ApiServer, Quorum, Writes],
            Sandbox => &[NodeNetwork, NetworkAgent, Runtime, Volumes],
            Pod => &[
                NodeReady,
                Registration,
                Sandbox,
                NodeNetwork,
                NetworkAgent,
                Self::KubeProxy,
                Kubelet,
                KubeletStart,
                Runtime,
                Volumes,
                TalosApi,
                Power,
            ],
            Place => &[NodeReady, NodeNetwork],
            Scheduling => &[Leader(Scheduler), Self::Component(Scheduler)],
            Unplaced => &[Scheduling, Leader(Scheduler), Place],
            Self::Workload => &[Pod, BootstrapManifests],
            Self::Webhook | Self::AggregatedApi => &[Pod],
            Self::UpgradeQuorum => &[Tolerance],
            Self::OtherServer => &[ApiServer],
            Self::OtherComponent => &[
                Self::Component(Manager),
                Ready(Manager),
                Self::Component(Scheduler),
                Ready(Scheduler),
                Power,
                TalosApi,
            ],
            Self::Drain => &[NodeReady],
            Self::AnyDrain => &[Leader(Manager), Leader(Scheduler), Writes, EtcdMember, Quorum, NodeReady],
        }
    }

    /// Parts that do not work either if this one does not.
    pub(crate) fn is_part_of(self) -> &'static [Self] {
        match self {
            Self::Alarm => &[Self::Writes],
            Self::ApiServerItself => &[Self::ApiServer],
            _ => &[],
        }
    }

    /// Returns whether each machine has its own. A network plugin and kube-proxy are also judged as a whole.
    pub(crate) fn is_on_a_machine(self) -> bool {
        match self {
            Self::TalosCredentials
            | Self::KubernetesCredentials
            | Self::KubernetesAccess
            | Self::Peers
            | Self::EtcdIdentity
            | Self::Quorum
            | Self::Writes
            | Self::Agreement
            | Self::Tolerance
            | Self::ApiEndpoint
            | Self::Leader(_)
            | Self::Sources
            | Self::KubePrism
            | Self::BootstrapManifests
            | Self::Place
            | Self::Scheduling
            | Self::Unplaced
            | Self::Workload
            | Self::Webhook
            | Self::AggregatedApi
            | Self::UpgradeQuorum
            | Self::OtherServer
            | Self::OtherComponent
            | Self::AnyDrain
            | Self::Property => false,
            Self::ServerAccess
            | Self::Record
            | Self::Power
            | Self::TalosEndpoint
            | Self::TalosApi
            | Self::Network
            | Self::Clock
            | Self::Volumes
            | Self::Runtime
            | Self::Service
            | Self::Boot
            | Self::Condition(_)
            | Self::Stated
            | Self::EtcdStart
            | Self::EtcdProcess
            | Self::EtcdPod
            | Self::Joining
            | Self::Membership
            | Self::EtcdMember
            | Self::Alarm
            | Self::Space
            | Self::Lag
            | Self::Manifests
            | Self::Component(_)
            | Self::Ready(_)
            | Self::ApiServer
            | Self::ApiServerItself
            | Self::ApiCertificate
            | Self::StaticPod(_)
            | Self::PodStatuses
            | Self::KubeletStart
            | Self::Kubelet
            | Self::Request
            | Self::ServingCertificate
            | Self::Registration
            | Self::NodeReady
            | Self::NodeNetwork
            | Self::NetworkAgent
            | Self::KubeProxy
            | Self::Sandbox
            | Self::Pod
            | Self::Drain => true,
        }
    }

    /// Returns whether the part stays once it exists: an applied manifest, a registered Node. Unless it has a problem of its own, it is no
    /// link between what it needed and what depends on it.
    pub(crate) fn outlasts_its_needs(self) -> bool {
        matches!(self, Self::BootstrapManifests | Self::Registration)
    }

    /// Returns whether everything that depends on the part is expected to fail if its state cannot be determined. For other parts, an
    /// unknown state explains nothing: a machine that was not queried may well be up.
    pub(crate) fn is_broken_when_unknown(self) -> bool {
        matches!(
            self,
            Self::TalosCredentials
                | Self::KubernetesCredentials
                | Self::KubernetesAccess
                | Self::ApiEndpoint
                | Self::EtcdMember
                | Self::PodStatuses
        )
    }

    /// Returns whether only control planes have it.
    pub(crate) fn is_of_control_planes(self) -> bool {
        matches!(
            self,
            Self::EtcdStart
                | Self::EtcdProcess
                | Self::EtcdPod
                | Self::EtcdMember
                | Self::Joining
                | Self::Membership
                | Self::Component(_)
                | Self::Ready(_)
                | Self::ApiServer
        )
    }

    /// The check that observes whether this part works on a machine. Problems do not propagate through a part that was seen to work.
    pub(crate) fn judged_by(self) -> Option<CheckId> {
        use CheckId as Id;
        match self {
            Self::Network => Some(Id::TalosNodesNetwork),
            Self::Clock => Some(Id::TalosTime),
            Self::Runtime | Self::Service => Some(Id::TalosNodesServices),
            Self::EtcdStart | Self::EtcdProcess => Some(Id::EtcdService),
            Self::KubeletStart | Self::Kubelet => Some(Id::TalosNodesKubelet),
            Self::ApiServer => Some(Id::K8sApiServers),
            Self::ApiEndpoint => Some(Id::K8sApiEndpoint),
            Self::Component(component) => Some(component.check()),
            Self::Manifests => Some(Id::K8sStaticpodsRendered),
            Self::Registration => Some(Id::K8sNodesRegistered),
            Self::NodeReady | Self::NodeNetwork => Some(Id::K8sNodesReady),
            Self::BootstrapManifests => Some(Id::K8sManifests),
            _ => None,
        }
    }
}
