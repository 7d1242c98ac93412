//! The parts that a cluster consists of, as far as one can stop another, and what each needs to work.

use crate::assess::components::Component;
use crate::model::CheckId;

/// Something that can stop working: on each machine, or once in the cluster.
///
/// Where starting and running have different causes, they are parts of their own: a kubelet that waits for the network is explained
/// by the network, a kubelet that exits with an error is not. So the needs of parts never form a circle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    // Credentials, and what they open.
    TalosCredentials,
    KubernetesCredentials,
    /// The API server accepts the credentials.
    KubernetesAccess,
    ServerAccess,

    // A machine.
    /// What lists the machine although it does not exist (any longer).
    Record,
    /// Power, and a stage in which it is meant to work.
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
    /// A condition that Talos wants to be met, by what it is about.
    Condition(Condition),
    /// A machine that was stated on the command line.
    Stated,
    /// A machine as its KubeSpan peers see it.
    Peers,

    // etcd.
    /// An etcd service that waits for something before it starts.
    EtcdStart,
    /// An etcd process that has started.
    EtcdProcess,
    /// A member on its way into the cluster.
    Joining,
    /// There is one cluster, and it is this one.
    EtcdIdentity,
    /// The control plane is a member.
    Membership,
    Quorum,
    /// The database accepts writes.
    Writes,
    /// A member that has raised the alarm that ends all writes.
    Alarm,
    /// A member as its clients see it.
    EtcdMember,
    /// Leader, term and lists are the same everywhere.
    Agreement,
    /// How full a database is.
    Space,
    /// How far a member is behind.
    Lag,
    /// How many more members can be lost.
    Tolerance,

    // The control plane.
    /// Manifests of the static pods.
    Manifests,
    Component(Component),
    /// The readiness probe of a component that runs.
    Ready(Component),
    ApiServer,
    /// What an API server does without etcd.
    ApiServerItself,
    ApiCertificate,
    ApiEndpoint,
    /// KubePrism on a machine.
    KubePrism,
    /// The lease of a component that elects a leader.
    Leader(Component),
    /// A static pod, as the kubelet reports it.
    StaticPod(StaticPod),
    /// Whether the kubelet reports static pods at all.
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
    /// What Talos creates after the bootstrap.
    BootstrapManifests,
    /// A node that takes new pods.
    Place,
    /// A scheduler that looks at pods.
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
    Drain,

    /// Versions, sizes, margins, policies: nothing stops because of them, and they do not stop because of anything else.
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
    /// From `machine.pods`.
    Own,
}

impl Part {
    /// Parts without which this one does not work, the nearest first. On the same machine, where both are on a machine.
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
            | Self::Condition(Condition::Other)
            | Self::Property => &[],
            KubernetesAccess => &[KubernetesCredentials],
            Self::ServerAccess => &[KubernetesAccess],
            Self::TalosEndpoint => &[TalosCredentials, TalosApi, Power],
            TalosApi => &[TalosCredentials, Record, Power],
            Self::Stated | Self::Peers => &[TalosApi, Power],
            Network | Volumes | Kubelet => &[Power, TalosApi],
            Clock => &[Network, Power, TalosApi],
            Runtime => &[Volumes, Network, Power, TalosApi],
            Service => &[Runtime, Volumes, Network, Power, TalosApi],
            EtcdStart | KubeletStart => &[Runtime, Volumes, Network, Clock, Power, TalosApi],
            EtcdProcess => &[Joining, Power, TalosApi],
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
            EtcdMember => &[EtcdProcess, EtcdStart, Joining, Membership, Quorum, Power, TalosApi],
            Self::Agreement => &[EtcdIdentity, Quorum],
            Self::Space => &[Self::Alarm],
            Self::Lag => &[EtcdMember],
            Tolerance => &[EtcdMember, Record],
            Manifests => &[EtcdStart, EtcdProcess, EtcdMember, Power, TalosApi],
            Self::Component(Api) => &[Manifests, KubeletStart, Kubelet, Quorum, Power, TalosApi],
            Self::Component(Manager | Scheduler) => {
                &[Manifests, KubeletStart, Kubelet, Quorum, Power, TalosApi, ApiEndpoint]
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
            Self::StaticPod(StaticPod::Own) => &[PodStatuses, Quorum, NodeReady],
            PodStatuses => &[KubeletStart, Kubelet, ServingCertificate, Request],
            Self::Sources => &[ApiEndpoint, Quorum, KubernetesCredentials],
            Request => &[Leader(Manager)],
            ServingCertificate => &[Request, Clock],
            Registration => &[Kubelet, KubeletStart, Request, Network, TalosApi, Power, ApiEndpoint],
            NodeReady => &[Kubelet, KubeletStart, Runtime, TalosApi, Power, Writes, Quorum],
            NodeNetwork => &[NetworkAgent],
            NetworkAgent | Self::KubeProxy => &[BootstrapManifests, NodeReady, Kubelet, KubeletStart, TalosApi, Power],
            BootstrapManifests => &[ApiEndpoint, ApiServer, Quorum, Writes],
            Sandbox => &[NodeNetwork, NetworkAgent, Runtime],
            Pod => {
                &[NodeReady, Registration, Sandbox, NodeNetwork, NetworkAgent, Kubelet, KubeletStart, TalosApi, Power]
            }
            Place => &[NodeReady, NodeNetwork],
            Scheduling => &[Leader(Scheduler), Self::Component(Scheduler)],
            Unplaced => &[Scheduling, Leader(Scheduler), Place],
            Self::Workload => &[Pod, BootstrapManifests],
            Self::Webhook | Self::AggregatedApi => &[Pod],
            Self::UpgradeQuorum => &[Tolerance],
            Self::OtherServer => &[ApiServer],
            Self::Drain => &[NodeReady],
        }
    }

    /// What does not work either if this part does not.
    pub(crate) fn is_part_of(self) -> &'static [Self] {
        match self {
            Self::Alarm => &[Self::Writes],
            Self::ApiServerItself => &[Self::ApiServer],
            _ => &[],
        }
    }

    /// Whether each machine has one of its own. A network plugin and kube-proxy are also judged as a whole.
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

    /// Whether nothing that depends on it can be expected to work if its state cannot be determined. Elsewhere, what is unknown explains
    /// nothing: a machine that was not asked may well be up.
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

    /// Whether workers do not have it.
    pub(crate) fn is_of_control_planes(self) -> bool {
        matches!(
            self,
            Self::EtcdStart
                | Self::EtcdProcess
                | Self::EtcdMember
                | Self::Joining
                | Self::Membership
                | Self::Component(_)
                | Self::Ready(_)
                | Self::ApiServer
        )
    }

    /// The check that sees whether this part works on a machine. Trouble does not travel through what was seen to work.
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
            Self::BootstrapManifests => Some(Id::K8sManifests),
            _ => None,
        }
    }
}
