//! The facts of one round, as plain values.
//!
//! Bytes become facts in `observe`, facts become verdicts in `checks`. Nothing here knows a client, a protobuf type or a
//! rule, so a judge can be tested with a literal and a snapshot can be kept, compared and thrown away.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::memory::Memory;

/// A fact that was asked for: the value, or why there is none.
pub(crate) type Observed<T> = Result<T, Gap>;

/// Why a fact is missing. A gap is never evidence of health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) kind: GapKind,
    /// The cause in the words of whoever reported it, for people.
    pub(crate) text: String,
}

impl Gap {
    pub(crate) fn new(kind: GapKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    /// For a fact that no selected check needs, or whose prerequisite was missing.
    pub(crate) fn not_asked() -> Self {
        Self::new(GapKind::NotAsked, "not asked for")
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
    /// The host name does not resolve.
    NameNotFound,
    /// The peer's certificate is not signed by the CA in our configuration.
    UnknownCa,
    /// The peer's certificate is not valid for the name or address that was dialled.
    NameNotInCertificate,
    /// The peer's certificate has expired or is not valid yet.
    PeerCertificateExpired,
    /// The peer refused our client certificate during or right after the TLS handshake.
    ClientCertificateRefused,
    /// The peer answered as a Talos node without a configuration (maintenance mode).
    Maintenance,
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
    /// This version of Talos knows neither the call nor the resource type.
    Unsupported,
    /// Kubernetes answered 429.
    Throttled,
    /// The server answered with an error of its own (HTTP 5xx, gRPC Internal, Unknown, …).
    ServerError,
    /// The answer, or the file, could not be understood.
    Malformed,
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
    /// `--max-unready-workers`.
    pub(crate) max_unready_workers: Allowance,
    /// `--require-quorum-margin`.
    pub(crate) require_quorum_margin: Option<usize>,
    /// `--k8s-endpoint` names another endpoint than the kubeconfig's, so certificates may differ.
    pub(crate) k8s_endpoint: Option<String>,
    /// When the run has to end, on the wall clock: credentials must live that long.
    pub(crate) deadline: Option<Timestamp>,
    /// One pass, no waiting: what only time can settle stays undetermined.
    pub(crate) one_pass: bool,
    /// Checks that the user switched off. They satisfy whatever requires them.
    pub(crate) skipped: BTreeSet<&'static str>,
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
    /// Subject organisations: Talos roles (`os:reader`), Kubernetes groups.
    pub(crate) organisations: Vec<String>,
}

/// When a certificate is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) not_before: Timestamp,
    pub(crate) not_after: Timestamp,
}

/// The Talos side of a round.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Talos {
    pub(crate) credentials: Observed<TalosCredentials>,
    /// In the order of the configuration. Each was asked on its own and without `node`.
    pub(crate) endpoints: Vec<Endpoint>,
    /// At least one source of the node set was discovery (its list was read and is not empty).
    pub(crate) discovery: Observed<usize>,
    /// What the cluster's own health check says. Asked for with `--server` only.
    pub(crate) server: Observed<ServerCheck>,
}

/// A run of the cluster's own health check: what it told on the way, and how that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerCheck {
    /// The endpoint that carried it out.
    pub(crate) endpoint: String,
    /// In the order in which it came.
    pub(crate) progress: Vec<ServerProgress>,
    /// `Ok`: the server ended the stream by itself, without an error.
    pub(crate) end: Observed<()>,
}

/// One message of the cluster's own health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerProgress {
    /// The node that it is from; empty: the endpoint itself.
    pub(crate) hostname: String,
    /// `waiting for etcd to be healthy: OK`.
    pub(crate) message: String,
    /// What went wrong on that node.
    pub(crate) error: Option<Gap>,
}

/// A readable talosconfig. An unreadable one is the [`Gap`] around it (kind [`GapKind::Malformed`]).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TalosCredentials {
    /// Of the CA that its servers are verified with, or of the one that lives longest while it is being rotated; `None`: its dates
    /// cannot be read.
    pub(crate) ca: Option<Validity>,
    /// The file.
    pub(crate) source: String,
    pub(crate) context: String,
    /// `None` where the configuration has no client certificate.
    pub(crate) certificate: Option<Certificate>,
}

/// One endpoint of the talosconfig.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Endpoint {
    /// As configured, with port.
    pub(crate) address: String,
    /// Answer of `Version` without `node`.
    pub(crate) version: Observed<Version>,
    /// Its own machine type.
    pub(crate) role: Observed<Option<Role>>,
    /// Its own node name, if it has one.
    pub(crate) nodename: Observed<Option<String>>,
    /// The host part is the host of the Kubernetes endpoint while several control planes exist, or moved between nodes.
    pub(crate) vip: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// `v1.13.0`.
    pub(crate) tag: String,
    /// `metal`, `cloud`, `container`; empty if not told.
    pub(crate) mode: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Role {
    ControlPlane,
    Worker,
    /// No source has told it, or a value that this version of ours does not know.
    Unknown,
}

/// Who names a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sources {
    /// Talos discovery (`Members`).
    pub(crate) discovery: bool,
    /// A Kubernetes Node object.
    pub(crate) kubernetes: bool,
    /// An etcd member whose id or name is this node's.
    pub(crate) etcd: bool,
    /// `--control-plane-nodes`, `--worker-nodes`.
    pub(crate) flags: bool,
    /// `nodes` of the talosconfig's context, or an endpoint that turned out to be this node.
    pub(crate) talosconfig: bool,
}

/// One machine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    /// Node name; the address where no name is known.
    pub(crate) name: String,
    /// The address it was (or would be) asked at; shown to people.
    pub(crate) address: String,
    /// All addresses that any source tells, without port.
    pub(crate) addresses: Vec<String>,
    /// By machine type, else by source.
    pub(crate) role: Role,
    pub(crate) sources: Sources,
    /// Is a Talos machine: discovery names it, it answered the Talos API, or its Node object's osImage says Talos.
    pub(crate) is_talos: bool,
    /// Is being removed (deletion timestamp or autoscaler taint): listed, not judged.
    pub(crate) leaving: bool,
    /// Outside of `-n`: per-node checks pass over it.
    pub(crate) out_of_scope: bool,
    /// Port of its API server, if it is a control plane (6443 unless told otherwise).
    pub(crate) api_port: u16,
    /// Talos facts. All are gaps with `--no-talos`.
    pub(crate) talos: TalosNode,
}

/// What one node says of itself. COSI resources: `Ok(None)` and empty lists mean "asked, and not there".
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TalosNode {
    /// First contact through an endpoint. Every other fact is a [`GapKind::NotAsked`] gap if this is one.
    pub(crate) contact: Observed<Contact>,
    pub(crate) machine_type: Observed<Option<Role>>,
    pub(crate) nodename: Observed<Option<String>>,
    pub(crate) machine_status: Observed<Option<MachineStatus>>,
    pub(crate) services: Observed<Vec<Service>>,
    pub(crate) time_status: Observed<Option<TimeStatus>>,
    /// What the kernel says of its clock. There is none in container mode.
    pub(crate) adjtime: Observed<Option<Adjtime>>,
    pub(crate) network_status: Observed<Option<NetworkStatus>>,
    /// All of it, bytes.
    pub(crate) memory: Observed<u64>,
    /// Since Talos 1.8.
    pub(crate) volumes: Observed<Vec<Volume>>,
    pub(crate) mounts: Observed<Vec<Mount>>,
    /// Since Talos 1.8. Each lasts as long as its problem.
    pub(crate) diagnostics: Observed<Vec<Diagnostic>>,
    pub(crate) static_pods: Observed<Vec<String>>,
    pub(crate) static_pod_statuses: Observed<Vec<StaticPodStatus>>,
    /// What the static pods are rendered from: id (`static-pods`) and `ready`.
    pub(crate) config_statuses: Observed<Vec<ReadyResource>>,
    /// `Some(false)`: switched off in the machine configuration.
    pub(crate) scheduler_enabled: Observed<Option<bool>>,
    pub(crate) controller_manager_enabled: Observed<Option<bool>>,
    pub(crate) bootstrap_manifests: Observed<Option<BootstrapManifests>>,
    /// Id of its own etcd member, known without asking etcd (`EtcdMembers`).
    pub(crate) etcd_member_id: Observed<Option<u64>>,
    pub(crate) etcd_status: Observed<EtcdStatus>,
    /// From the node's own etcd (`query_local`).
    pub(crate) etcd_members: Observed<Vec<EtcdMember>>,
    pub(crate) etcd_alarms: Observed<Vec<EtcdAlarm>>,
    pub(crate) etcd_spec: Observed<Option<EtcdSpec>>,
    /// `/var/lib/etcd` holds no member data. Asked only while etcd has not started.
    pub(crate) etcd_data_absent: Observed<bool>,
}

impl TalosNode {
    /// A node of which nothing was asked.
    pub(crate) fn unasked(why: &Gap) -> Self {
        fn gap<T>() -> Observed<T> {
            Err(Gap::not_asked())
        }
        Self {
            contact: Err(why.clone()),
            machine_type: gap(),
            nodename: gap(),
            machine_status: gap(),
            services: gap(),
            time_status: gap(),
            adjtime: gap(),
            network_status: gap(),
            memory: gap(),
            volumes: gap(),
            mounts: gap(),
            diagnostics: gap(),
            static_pods: gap(),
            static_pod_statuses: gap(),
            config_statuses: gap(),
            scheduler_enabled: gap(),
            controller_manager_enabled: gap(),
            bootstrap_manifests: gap(),
            etcd_member_id: gap(),
            etcd_status: gap(),
            etcd_members: gap(),
            etcd_alarms: gap(),
            etcd_spec: gap(),
            etcd_data_absent: gap(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contact {
    /// The endpoint that forwarded.
    pub(crate) endpoint: String,
    /// The address sent as `node`.
    pub(crate) address: String,
    pub(crate) version: Version,
    /// The answer came from a node that calls itself differently than every source does: its name.
    pub(crate) answered_by_other: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MachineStatus {
    /// `running`, `booting`, `maintenance`, `rebooting`, `shutting down`, …
    pub(crate) stage: String,
    pub(crate) ready: bool,
    pub(crate) unmet: Vec<UnmetCondition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnmetCondition {
    pub(crate) name: String,
    pub(crate) reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) id: String,
    /// `Running`, `Waiting`, `Preparing`, `Finished`, `Skipped`, `Failed`, …
    pub(crate) state: String,
    /// `None`: Talos has no health report (unknown).
    pub(crate) healthy: Option<bool>,
    /// Last message of its health check.
    pub(crate) health_message: String,
    pub(crate) last_event: Option<ServiceEvent>,
    /// When the newest uninterrupted `Running` began, by the node's clock.
    pub(crate) running_since: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceEvent {
    pub(crate) message: String,
    pub(crate) state: String,
    pub(crate) at: Option<Timestamp>,
}

/// What Talos says of the synchronisation of its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeStatus {
    /// Also `true` when synchronisation is switched off, or when the machine has given up waiting for it.
    pub(crate) synced: bool,
    /// By configuration, or because it is the host's affair (container mode).
    pub(crate) sync_disabled: bool,
}

/// The state of the kernel's clock, at most half a minute old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Adjtime {
    /// What is still to be corrected.
    pub(crate) offset: SignedDuration,
    /// Somebody corrects the clock. If not, the offset says nothing.
    pub(crate) synced: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NetworkStatus {
    pub(crate) address_ready: bool,
    /// There is a default route, or the configured probes succeed.
    pub(crate) connectivity_ready: bool,
    pub(crate) hostname_ready: bool,
    /// `/etc/hosts` and `/etc/resolv.conf` are written.
    pub(crate) etc_files_ready: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    /// `EPHEMERAL`, `STATE`, `u-data`, `/var/lib/etcd`, …
    pub(crate) id: String,
    /// `ready`, `failed`, `waiting`, …
    pub(crate) phase: String,
    /// Bytes; `None` where it has none of its own, as directories.
    pub(crate) size: Option<u64>,
    /// Why it failed.
    pub(crate) error: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// `/var`
    pub(crate) path: String,
    /// Bytes.
    pub(crate) size: u64,
    pub(crate) available: u64,
}

/// A problem that Talos has found out about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Diagnostic {
    /// `address-overlap`, `kubelet-csr`, …
    pub(crate) id: String,
    pub(crate) message: String,
    pub(crate) details: Vec<String>,
}

/// Status of a static pod as the node's kubelet tells it to Talos.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StaticPodStatus {
    /// `kube-apiserver-cp-1` (namespace cut off).
    pub(crate) name: String,
    pub(crate) state: PodState,
}

/// What judges read of a pod, from Talos or from Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodState {
    pub(crate) phase: String,
    /// The Ready condition; `None` if there is none.
    pub(crate) ready: Option<bool>,
    pub(crate) containers: Vec<ContainerState>,
    /// Condition or status message, if any (e.g. why it is not scheduled).
    pub(crate) message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContainerState {
    pub(crate) name: String,
    /// `registry.k8s.io/kube-apiserver:v1.35.4`; empty if not told.
    pub(crate) image: String,
    pub(crate) ready: bool,
    pub(crate) restarts: u32,
    pub(crate) running: bool,
    /// `CrashLoopBackOff`, `ImagePullBackOff`, …
    pub(crate) waiting_reason: Option<String>,
    pub(crate) waiting_message: Option<String>,
    /// Of the present or else the last termination.
    pub(crate) exit_code: Option<i32>,
    pub(crate) termination_reason: Option<String>,
    pub(crate) termination_message: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadyResource {
    pub(crate) id: String,
    pub(crate) ready: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BootstrapManifests {
    pub(crate) proxy_enabled: bool,
    pub(crate) dns_enabled: bool,
    pub(crate) flannel_enabled: bool,
    pub(crate) dns_service_ip: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EtcdStatus {
    pub(crate) member_id: u64,
    /// 0: it sees no leader.
    pub(crate) leader: u64,
    pub(crate) raft_term: u64,
    pub(crate) raft_index: u64,
    pub(crate) raft_applied_index: u64,
    pub(crate) is_learner: bool,
    /// `etcdserver: no leader`, `memberID:… alarm:NOSPACE`.
    pub(crate) errors: Vec<String>,
    /// Bytes.
    pub(crate) db_size: u64,
    pub(crate) db_size_in_use: u64,
    /// Bytes; `None` where the answer has no place for it: before etcd 3.6, and through Talos.
    pub(crate) quota: Option<u64>,
    pub(crate) version: String,
    /// Empty where it is not told: before etcd 3.6, and by Talos before 1.11.
    pub(crate) storage_version: String,
    /// Where the same member stood in the sample before this one, if the round has taken two.
    pub(crate) earlier: Option<RaftProgress>,
}

impl EtcdStatus {
    /// What a later sample is compared with.
    pub(crate) fn progress(&self) -> RaftProgress {
        RaftProgress { index: self.raft_index, applied: self.raft_applied_index }
    }

    /// This sample, of the same round as `before`. Another member's past says nothing about this one.
    pub(crate) fn after(self, before: &Observed<Self>) -> Self {
        let before = before.as_ref().ok().filter(|before| before.member_id == self.member_id);
        Self { earlier: before.map(Self::progress), ..self }
    }
}

/// Positions in etcd's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RaftProgress {
    /// The newest entry.
    pub(crate) index: u64,
    /// The newest entry that the database holds.
    pub(crate) applied: u64,
}

/// What etcd is started with (`EtcdSpecs`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EtcdSpec {
    /// Argument `quota-backend-bytes`; `None`: not given. 0 stands for etcd's default, less for no quota.
    pub(crate) quota: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EtcdMember {
    pub(crate) id: u64,
    /// Empty: added, never started.
    pub(crate) name: String,
    pub(crate) peer_urls: Vec<String>,
    pub(crate) client_urls: Vec<String>,
    pub(crate) is_learner: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct EtcdAlarm {
    pub(crate) member_id: u64,
    pub(crate) kind: AlarmKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum AlarmKind {
    NoSpace,
    Corrupt,
    /// A number that no etcd of our time knows.
    Other(i32),
}

/// One endpoint of `--etcd-endpoints`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EtcdEndpoint {
    pub(crate) address: String,
    pub(crate) status: Observed<EtcdStatus>,
    /// Linearizable.
    pub(crate) members: Observed<Vec<EtcdMember>>,
    pub(crate) alarms: Observed<Vec<EtcdAlarm>>,
}

/// The Kubernetes side of a round.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kubernetes {
    /// Kind [`GapKind::Malformed`]: a kubeconfig named by the user cannot be used. Kind [`GapKind::NotAsked`]: none was found.
    pub(crate) credentials: Observed<KubernetesCredentials>,
    /// Sources that were tried first and passed over: what, and why.
    pub(crate) passed_over: Vec<(String, String)>,
    /// Credentials that are missing may still turn up in a later round: the Talos API has not told yet whether it hands out a
    /// kubeconfig, or a source was set aside as another cluster's, which the first round cannot know for certain.
    pub(crate) may_still_find: bool,
    /// `/readyz?verbose` of the cluster endpoint.
    pub(crate) endpoint: Observed<Readyz>,
    /// `/readyz?verbose` of each control plane's own API server, by node name.
    pub(crate) servers: BTreeMap<String, Observed<Readyz>>,
    pub(crate) nodes: Observed<Vec<KubeNode>>,
    /// Leases of namespace `kube-node-lease`, by name (= node name).
    pub(crate) node_leases: Observed<Leases>,
    /// Leases of namespace `kube-system`, by name.
    pub(crate) system_leases: Observed<Leases>,
    /// Pods of namespace `kube-system`.
    pub(crate) pods: Observed<Vec<Pod>>,
    /// DaemonSets of namespace `kube-system`.
    pub(crate) daemon_sets: Observed<Vec<DaemonSet>>,
    /// Deployments of namespace `kube-system`.
    pub(crate) deployments: Observed<Vec<Deployment>>,
    /// Endpoints of the Service `kube-system/kube-dns`, from its EndpointSlices.
    pub(crate) dns_endpoints: Observed<Vec<ServiceEndpoint>>,
    /// Endpoints of the Service `default/kubernetes`.
    pub(crate) api_endpoints: Observed<Vec<ServiceEndpoint>>,
    /// All requests for certificates, whoever asks and whatever has become of them.
    pub(crate) signing_requests: Observed<Vec<SigningRequest>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KubernetesCredentials {
    /// `--kubeconfig /path`, `KUBECONFIG /path`, `~/.kube/config`, `in-cluster`, `Talos API (os:admin)`.
    pub(crate) source: String,
    /// The user named it on the command line.
    pub(crate) explicit: bool,
    pub(crate) context: String,
    /// `https://host:port`.
    pub(crate) server: String,
    /// `None`: token, exec plugin or other.
    pub(crate) certificate: Option<Certificate>,
}

/// An API server's answer to `/readyz?verbose`. Any status is an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Readyz {
    /// `https://host:port` that was asked.
    pub(crate) server: String,
    /// HTTP status.
    pub(crate) status: u16,
    /// Names of the `[-]` lines.
    pub(crate) failed: Vec<String>,
    /// First line of a body without check lines (401, 403, 404, 429).
    pub(crate) text: String,
    /// Of the certificate that the server showed on this connection; `None` if it could not be read.
    pub(crate) certificate: Option<Validity>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KubeNode {
    pub(crate) name: String,
    /// InternalIP and ExternalIP values.
    pub(crate) addresses: Vec<String>,
    /// `node-role.kubernetes.io/control-plane` is present.
    pub(crate) control_plane_label: bool,
    pub(crate) os_image: String,
    /// `v1.35.4`; empty if not told.
    pub(crate) kubelet_version: String,
    pub(crate) unschedulable: bool,
    /// Annotation `talos.dev/cordoned=true`.
    pub(crate) cordoned_by_talos: bool,
    pub(crate) taints: Vec<String>,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) deleting: bool,
    pub(crate) created: Option<Timestamp>,
}

impl KubeNode {
    pub(crate) fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    /// `Ready`, `MemoryPressure`, …
    pub(crate) kind: String,
    /// `True`, `False`, `Unknown`.
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// A list of leases and the clock of the server that answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Leases {
    /// `Date` header of the answer; `None` if it had none.
    pub(crate) date: Option<Timestamp>,
    pub(crate) by_name: BTreeMap<String, Lease>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lease {
    pub(crate) renewed: Option<Timestamp>,
    pub(crate) resource_version: String,
    /// Label `kubernetes.io/hostname` (API server identity leases carry it).
    pub(crate) hostname: Option<String>,
    pub(crate) holder: Option<String>,
    /// Its resource version differs from the one an earlier round (or sample) of this run saw less than 40 s ago.
    pub(crate) moved: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) node: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    /// Carries `kubernetes.io/config.mirror`.
    pub(crate) mirror: bool,
    pub(crate) deleting: bool,
    pub(crate) state: PodState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DaemonSet {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) generation: i64,
    pub(crate) observed_generation: Option<i64>,
    pub(crate) desired: i32,
    pub(crate) available: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deployment {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) replicas: i32,
    pub(crate) available: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceEndpoint {
    pub(crate) addresses: Vec<String>,
    pub(crate) ready: bool,
    pub(crate) node: Option<String>,
}

/// A request for a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SigningRequest {
    pub(crate) name: String,
    /// Who shall sign: `kubernetes.io/kubelet-serving`, `example.com/anything`.
    pub(crate) signer: String,
    /// Who asks: `system:node:NAME`, or of a new machine `system:bootstrap:TOKEN-ID`.
    pub(crate) user: String,
    /// Neither approved nor denied.
    pub(crate) pending: bool,
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

    pub(crate) fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }
}
