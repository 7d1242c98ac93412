//! The facts of one round, as plain values.
//!
//! Bytes become facts in `observe`, facts become verdicts in `checks`. Nothing here knows a client, a protobuf type or a
//! rule, so a judge can be tested with a literal and a snapshot can be kept, compared and thrown away.

mod awaited;
mod etcd;
mod kubernetes;
pub(crate) mod logs;
mod memory;
mod missing;
mod observe;
mod policy;
mod require;
mod talos;

use std::borrow::Cow;
use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::model::{CheckId, Kind, Role, Shared, Target};

pub(crate) use awaited::{Awaited, Part, Progress};
pub(crate) use etcd::{AlarmKind, EtcdAlarm, EtcdEndpoint, EtcdMember, EtcdSpec, EtcdStatus, RaftProgress};
pub(crate) use kubernetes::{
    AUTOSCALER_TAINT, Amounts, ApiService, AttachedVolume, BoundPod, Condition, CsiNode, DisruptionBudget, KubeNode,
    Kubernetes, KubernetesCredentials, Lease, Leases, MINTED, Needs, NodeRoom, OWN_TAINTS, PersistentVolume, Placement,
    Pod, PodEvent, PullingPod, Readiness, Readyz, RequestState, RequestedApi, RequestedApis, Requirement,
    ServiceEndpoint, SigningRequest, Spread, StartingPod, System, Taint, Term, Toleration, UnplacedPod,
    VolumeAttachment, WAITED, Webhook, WebhookRule, Workload, are_of_several, badness, has_ended,
};
pub(crate) use memory::{Boot, Memory};
pub(crate) use missing::{Missing, Source};
pub(crate) use observe::{Observe, Patience, Suspects};
pub(crate) use policy::{Acceptance, Declared, ExcuseState, Policy, Thresholds};
pub(crate) use require::{
    Demand, FieldIs, Found, ObjectCondition, Objects, Place, Predicate, Replicas, Require, RequiredObject,
    RequiredObjects, Served,
};
pub(crate) use talos::{
    Account, Adjtime, BootstrapManifests, Contact, ContainerState, DATA_MOUNTS, Diagnostic, Endpoint, Flags, LOGS,
    LinkAddress, MachineStatus, Mount, NetworkStatus, Node, Peer, PodState, ReadyResource, ServerCheck, ServerProgress,
    Service, ServiceEvent, ServingCertificate, Sources, StaticPodStatus, Talos, TalosCredentials, TalosNode,
    TimeStatus, UnmetCondition, UserPod, VOLUME_PHASES, Version, Volume, own_role,
};

/// A fact that was asked for: the value, or why there is none.
pub(crate) type Observed<T> = Result<T, Gap>;

/// Why a fact is missing. A gap is never evidence of health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) kind: GapKind,
    /// The cause in the words of whoever reported it, for people.
    pub(crate) text: Cow<'static, str>,
}

impl Gap {
    pub(crate) fn new(kind: GapKind, text: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, text: text.into() }
    }

    /// The endpoint reached the node and does not accept its certificate: the words are those of Go's `crypto/tls`, by way of apid.
    pub(crate) fn is_refused_certificate(&self) -> bool {
        self.kind == GapKind::NodeUnreachable && self.text.contains("tls: failed to verify certificate")
    }

    /// The machine, or a firewall in front of it, refused the connection: it is on. The words of a machine that was dialed by an endpoint are
    /// those of the kernel, by way of apid.
    pub(crate) fn is_refused_connection(&self) -> bool {
        let by_endpoint = || self.kind == GapKind::NodeUnreachable && self.text.contains("connection refused");
        self.kind == GapKind::ConnectionRefused || by_endpoint()
    }

    /// How grpc-go, Go's resolver, and Omni say that a name leads to no address.
    pub(crate) const UNRESOLVED: [&str; 3] = ["name resolver error", "no such host", "resolve nodes"];

    /// Neither we nor the endpoint could resolve the name.
    pub(crate) fn is_unresolved_name(&self) -> bool {
        let by_endpoint = || Self::UNRESOLVED.iter().any(|words| self.text.contains(words));
        self.kind == GapKind::NameNotFound || self.kind == GapKind::NodeUnreachable && by_endpoint()
    }

    /// For a fact that no selected check needs, or whose prerequisite was missing.
    pub(crate) fn not_asked() -> Self {
        Self::new(GapKind::NotAsked, "not requested")
    }
}

/// The kinds of gap that some judge tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum GapKind {
    /// Nobody asked in this round: not needed, or the way there was already known to be closed.
    NotAsked,
    /// TCP connection refused (RST).
    ConnectionRefused,
    /// No route to host, network unreachable.
    NoRoute,
    /// Neither a connection nor a refusal within the call's deadline.
    ConnectTimedOut,
    /// Connected, and no answer came within the call's deadline, be it to the TLS handshake or to the question: what a frozen
    /// process looks like.
    TimedOut,
    /// The hostname does not resolve.
    NameNotFound,
    /// The peer's certificate is not signed by the CA in our configuration.
    UnknownCa,
    /// The peer's certificate is not valid for the name or address that was dialed.
    NameNotInCertificate,
    /// The peer's certificate has expired or is not valid yet.
    PeerCertificateExpired,
    /// The peer refused our client certificate during or right after the TLS handshake.
    ClientCertificateRefused,
    /// The peer answered as a Talos node without a configuration (maintenance mode).
    Maintenance,
    /// The peer was asked nothing: no source that a worker cannot forge has its address, and the question takes credentials that the
    /// peer could use; or nobody vouches for it.
    Untrusted,
    /// A proxy on the way refused or failed.
    Proxy,
    /// The connection was closed, reset, or spoke something else than TLS or HTTP/2.
    Broken,
    /// The endpoint works, but could not reach the node it was asked to forward to.
    NodeUnreachable,
    /// A worker was asked to forward; workers do not.
    NoForwarding,
    /// The role of the credentials does not allow the call (Talos), or RBAC forbids it (Kubernetes 403).
    Forbidden,
    /// The credentials were not accepted (Kubernetes 401, gRPC Unauthenticated).
    Unauthenticated,
    /// Omni did not accept the signature of the service account.
    SignatureRefused,
    /// This version of Talos knows neither the call nor the resource type.
    Unsupported,
    /// Kubernetes answered 429.
    Throttled,
    /// The server answered with an error of its own (HTTP 5xx, gRPC Internal, Unknown, …).
    ServerError,
    /// The answer, or the file, could not be understood.
    Malformed,
    /// The exec plugin of the kubeconfig failed, or answered something that cannot be used.
    PluginFailed,
    /// The file has no such context.
    ContextUnknown,
    /// The file switches off verification of the server, or would send credentials in the clear.
    Insecure,
    /// The answer was longer than we read.
    TooLarge,
}

/// Everything one round has seen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Snapshot {
    /// The runner's wall clock when the round began.
    pub(crate) taken: Timestamp,
    /// What the user asked for, as far as judges need it.
    pub(crate) asked: Asked,
    /// `None` with `--no-talos`.
    pub(crate) talos: Option<Talos>,
    /// `None` with `--no-kubernetes`.
    pub(crate) kubernetes: Option<Kubernetes>,
    /// etcd through its own API, by endpoint; `None` without `--etcd-endpoints`.
    pub(crate) external_etcd: Option<Vec<EtcdEndpoint>>,
    /// The population: every machine that any source names, sorted by name.
    pub(crate) nodes: Vec<Node>,
    /// What earlier rounds of this run saw.
    pub(crate) memory: Memory,
}

/// The part of the plan that judges read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Asked {
    /// `--nodes` as given: addresses or names.
    pub(crate) nodes: Vec<String>,
    /// `--control-plane-nodes` and `--worker-nodes` as given: addresses or names.
    pub(crate) control_plane_nodes: Vec<String>,
    pub(crate) worker_nodes: Vec<String>,
    /// `--expect-control-planes`, `--expect-workers`.
    pub(crate) expect_control_planes: Option<usize>,
    pub(crate) expect_workers: Option<usize>,
    /// `--expect-talos`, without the `v`: `1.13.0`.
    pub(crate) expect_talos: Option<String>,
    /// `--expect-kubernetes`, without `v`: `1.35.4`, or `1.35` for any patch of it.
    pub(crate) expect_kubernetes: Option<String>,
    /// System extensions that a policy expects on every machine, as it names them.
    pub(crate) expect_extensions: Vec<String>,
    /// Where warnings begin.
    pub(crate) thresholds: Thresholds,
    /// Excuses.
    pub(crate) policy: Shared<Policy>,
    /// What is about to be done.
    pub(crate) upgrade: Upgrade,
    /// `upgrade-plan`: in which order.
    pub(crate) order: Option<Order>,
    /// `--max-unready-workers`.
    pub(crate) max_unready_workers: Allowance,
    /// `--require-quorum-margin`.
    pub(crate) require_quorum_margin: Option<usize>,
    /// `--fail-on node-condition=TYPE`
    pub(crate) fail_on_node_condition: Vec<String>,
    /// `--k8s-endpoint` names another endpoint than the kubeconfig's, so certificates may differ.
    pub(crate) k8s_endpoint: Option<String>,
    /// When the run has to end, on the wall clock: credentials must live that long.
    pub(crate) deadline: Option<Timestamp>,
    /// `--level` ends before the Nodes are judged, so their readiness is not asked for.
    pub(crate) nodes_may_wait: bool,
    /// Checks that the user switched off. They satisfy whatever requires them.
    pub(crate) skipped: BTreeSet<CheckId>,
}

impl Asked {
    /// `--nodes` asks for this machine.
    pub(crate) fn names(&self, node: &Node) -> bool {
        self.nodes.iter().any(|named| node.is_called(named))
    }
}

/// What is about to be done to the cluster, of which stage 8 says whether it may begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Upgrade {
    /// `--upgrade-talos`, without the `v`: `1.14.1`.
    pub(crate) talos: Option<String>,
    /// `--upgrade-kubernetes`, without `v`: `1.36.4`.
    pub(crate) kubernetes: Option<String>,
    /// `--drain`: name or address of a machine.
    pub(crate) drain: Option<String>,
    /// `--image`: the installer, `{schematic}` standing for the one that each machine runs.
    pub(crate) image: Option<String>,
}

impl Upgrade {
    /// Machines will be drained and rebooted: `talosctl upgrade-k8s` takes none down.
    pub(crate) fn takes_down_machines(&self) -> bool {
        self.talos.is_some() || self.drain.is_some()
    }
}

/// What `upgrade-plan` is given beside the versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) first: First,
    /// `--upgraded`: machines of which the upgrade was carried out, by name or address, each with the boot ID that it had before.
    pub(crate) upgraded: Vec<(String, String)>,
}

/// Which machines are upgraded before the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum First {
    Workers,
    #[default]
    ControlPlanes,
}

/// How many workers may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Allowance {
    #[default]
    None,
    Count(usize),
    Percent(u8),
}

/// What is known of a certificate without asking anybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
    /// Extended key usage clientAuth is present.
    pub(crate) client_auth: bool,
    /// The private key belongs to it.
    pub(crate) matches_key: bool,
    /// Subject organizations: Talos roles (`os:reader`), Kubernetes groups.
    pub(crate) organizations: Vec<String>,
}

/// When a certificate is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
}

impl Node {
    /// The machine, as findings name it.
    pub(crate) fn target(&self) -> Target {
        Target { address: Some(self.address.clone()), ..Target::new(Kind::Node, self.name.as_str()) }
    }
}

impl Snapshot {
    /// A round in which nobody was asked and nothing was known, for tests that are about something else.
    #[cfg(test)]
    pub(crate) fn empty() -> Self {
        Self {
            taken: Timestamp::UNIX_EPOCH,
            asked: Asked::default(),
            talos: None,
            kubernetes: None,
            external_etcd: None,
            nodes: Vec::new(),
            memory: Memory::default(),
        }
    }

    /// Control planes of the population, leaving ones excluded.
    pub(crate) fn control_planes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.role == Role::ControlPlane && !node.leaving)
    }

    /// The clock of an API server, which knows more of its nodes' than the runner's does.
    pub(crate) fn server_time(&self) -> Timestamp {
        let mut leases = self.kubernetes.iter().flat_map(|it| [&it.node_leases, &it.system_leases]).flatten();
        leases.find_map(|leases| leases.date).unwrap_or(self.taken)
    }

    pub(crate) fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }
}
