//! Facts that Talos reports: the machines, and the state of each.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::answers::answers;
use super::{Certificate, EtcdAlarm, EtcdMember, EtcdSpec, EtcdStatus, Gap, Observed, Validity};
use crate::model::{MachineType, Role, Shared};

/// The Talos side of a round.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Talos {
    pub(crate) credentials: Observed<TalosCredentials>,
    /// In the order of the configuration. Each endpoint was queried directly, without `node`.
    pub(crate) endpoints: Vec<Endpoint>,
    /// Number of machines that discovery lists. 0 if discovery is disabled or has no registry, so that each machine lists only itself.
    pub(crate) discovery: Observed<usize>,
    /// The result of the cluster's own health check. Requested with `--server` only.
    pub(crate) server: Observed<ServerCheck>,
}

/// A run of the cluster's own health check: its progress, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerCheck {
    /// The endpoint that ran the check.
    pub(crate) endpoint: String,
    /// Messages in the order in which they arrived.
    pub(crate) progress: Vec<ServerProgress>,
    /// `Ok` if the server itself ended the stream, without an error.
    pub(crate) end: Observed<()>,
}

/// One message of the cluster's own health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerProgress {
    /// The node that sent the message; empty for the endpoint itself.
    pub(crate) hostname: String,
    /// `waiting for etcd to be healthy: OK`.
    pub(crate) message: String,
    /// The error on that node.
    pub(crate) error: Option<Gap>,
}

/// A readable talosconfig. An unreadable one is represented by the [`Gap`] around it (kind [`GapKind::Malformed`]).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TalosCredentials {
    /// Validity of the CA that the servers are verified with; of several, the one that is valid longest. `None` if its dates cannot be
    /// read.
    pub(crate) ca: Option<Validity>,
    /// SHA-256 of each CA certificate, in hexadecimal. The digests identify the cluster if Talos has no ID for it.
    pub(crate) ca_digests: Vec<String>,
    /// The file that the credentials were read from.
    pub(crate) source: String,
    pub(crate) context: String,
    /// `None` if the configuration has no client certificate.
    pub(crate) certificate: Option<Certificate>,
    /// The Omni service account whose key signs requests instead. The endpoints are then Omni's, not machines.
    pub(crate) account: Option<Account>,
}

/// A service account of Omni and the validity of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    /// The environment variable that contains the key.
    pub(crate) variable: &'static str,
    pub(crate) name: String,
    pub(crate) not_before: Timestamp,
    /// `None` if the key does not expire.
    pub(crate) not_after: Option<Timestamp>,
}

/// One endpoint of the talosconfig.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Endpoint {
    /// The configured address, with port.
    pub(crate) address: String,
    /// The answer to `Version` without `node`.
    pub(crate) version: Observed<Version>,
    /// The endpoint's own machine type.
    pub(crate) role: Observed<Option<Role>>,
    /// The endpoint's own node name, if it has one.
    pub(crate) nodename: Observed<Option<String>>,
    /// The host is the Kubernetes endpoint's host while several control planes exist, or it moved between nodes.
    pub(crate) vip: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// `v1.13.0`.
    pub(crate) tag: String,
    /// `metal`, `cloud`, `container`; empty if not reported.
    pub(crate) mode: String,
}

/// The sources that name a node.
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

impl Sources {
    /// Returns true if a list has the machine, or a flag that defines the population. A talosconfig may name what no longer exists.
    pub(crate) fn list_it(self) -> bool {
        self.discovery || self.kubernetes || self.etcd || self.flags
    }
}

/// One machine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    /// Node name, or the address if no name is known.
    pub(crate) name: String,
    /// The hostname in discovery, including the domain if there is one.
    pub(crate) hostname: Option<String>,
    /// The address at which the machine was (or would be) queried; shown to people.
    pub(crate) address: String,
    /// All addresses from any source, without port.
    pub(crate) addresses: Vec<String>,
    /// The addresses that Talos reports, through discovery or the machine itself. Empty if neither did.
    pub(crate) own_addresses: Vec<String>,
    /// The `machineID` that its Node must have, if discovery lists the machine. For a while, discovery may still list an earlier machine of
    /// the same name.
    pub(crate) machine_id: Option<String>,
    /// The machine ID that the machine itself reports, if it is an endpoint.
    pub(crate) own_machine_id: Option<String>,
    /// The role by machine type, or else by source.
    pub(crate) role: Role,
    pub(crate) sources: Sources,
    /// The machine runs Talos: discovery lists it, it answered the Talos API, or its Node's osImage names Talos.
    pub(crate) is_talos: bool,
    /// The machine is being removed (deletion timestamp or autoscaler taint), so it is listed but not judged.
    pub(crate) leaving: bool,
    /// The machine is outside of `-n`, so per-node checks skip it.
    pub(crate) out_of_scope: bool,
    /// Port of its API server if it is a control plane; 6443 by default.
    pub(crate) api_port: u16,
    /// Talos facts. All are gaps with `--no-talos`.
    pub(crate) talos: Shared<TalosNode>,
}

impl Node {
    pub(crate) fn machine_ids(&self) -> impl Iterator<Item = &String> {
        self.machine_id.iter().chain(&self.own_machine_id)
    }

    /// Returns whether an option that names a machine, by name or address, refers to this one.
    pub(crate) fn is_called(&self, named: &str) -> bool {
        self.name.eq_ignore_ascii_case(named)
            || self.hostname.as_ref().is_some_and(|hostname| hostname.eq_ignore_ascii_case(named))
            || self.address == named
            || self.addresses.iter().any(|address| address == named)
    }
}

answers! {
    /// Facts that one node reports about itself. For COSI resources, `Ok(None)` and empty lists mean "requested, and not there".
    TalosNode {
        /// First contact through an endpoint. If it is a gap, every other fact is a [`GapKind::NotAsked`] gap.
        contact: Observed<Contact> = Err(Gap::not_asked()),
        /// `skipNodeRegistration` of its configuration: the kubelet runs without creating a Node.
        skips_registration: bool = false,
        /// Static pods outside of `kube-system`.
        user_pods: Vec<UserPod> = Vec::new(),
        /// Flags of the control plane's static pods.
        component_flags: Vec<Flags> = Vec::new(),
    }
    machine_type: Option<MachineType> => TalosNodes "MachineTypes" Never,
    nodename: Option<String> => TalosNodes "Nodenames",
    machine_status: Option<MachineStatus> => MachineStatus "MachineStatuses",
    services: Vec<Service> => Services "ServiceList",
    time_status: Option<TimeStatus> => TimeStatus "TimeStatuses",
    /// The kernel's view of its clock, which does not exist in container mode.
    adjtime: Option<Adjtime> => TimeStatus "AdjtimeStatuses" Never,
    network_status: Option<NetworkStatus> => NetworkStatus "NetworkStatuses",
    /// Global addresses of its links, except loopback and dummy interfaces, whose addresses may be the same on every machine.
    link_addresses: Vec<LinkAddress> => Addresses "AddressStatuses" Never,
    /// Whether KubePrism reaches an API server. `None` if it is disabled, and before Talos 1.5.
    kube_prism: Option<bool> => KubePrism "KubePrismStatuses" UnlessRefused,
    /// KubeSpan peers; empty if KubeSpan is disabled. Requested from control planes only, because each of them is a peer of every machine.
    kube_span_peers: Vec<Peer> => KubeSpan "KubeSpanPeerStatuses" UnlessRefused,
    /// Total memory, in bytes.
    memory: u64 => Memory "Memory",
    /// Available since Talos 1.8.
    volumes: Vec<Volume> => Volumes "VolumeStatuses" UnlessUnsupported,
    mounts: Vec<Mount> => Volumes "Mounts" Never,
    /// Available since Talos 1.8. A diagnostic exists as long as its problem.
    diagnostics: Vec<Diagnostic> => Diagnostics "Diagnostics" UnlessRefused,
    /// The certificate that its kubelet presents to any client.
    kubelet_certificate: ServingCertificate => KubeletCertificate "TLS handshake (kubelet, port 10250)" Never,
    static_pods: Vec<String> => StaticPods "StaticPods",
    static_pod_statuses: Vec<StaticPodStatus> => StaticPodStatuses "StaticPodStatuses",
    /// The resources from which static pods are rendered: id (`static-pods`) and `ready`.
    config_statuses: Vec<ReadyResource> => ConfigStatuses "ConfigStatuses",
    /// `Some(false)` if disabled in the machine configuration.
    scheduler_enabled: Option<bool> => ComponentConfigs "SchedulerConfigs" Never,
    controller_manager_enabled: Option<bool> => ComponentConfigs "ControllerManagerConfigs" Never,
    bootstrap_manifests: Option<BootstrapManifests> => BootstrapManifests "BootstrapManifestsConfigs" Never,
    /// Names of the manifests that it has applied. Requested from control planes.
    manifests_applied: Vec<String> => ManifestStatuses "ManifestStatuses" Never,
    /// Names of the manifests that its configuration adds.
    extra_manifests: Vec<String> => ManifestStatuses "ExtraManifestsConfigs" Never,
    /// Id of its own etcd member, known without querying etcd (`EtcdMembers`).
    etcd_member_id: Option<u64> => EtcdMembership "EtcdMembers" Never,
    etcd_status: EtcdStatus => EtcdMembership "EtcdStatus",
    /// The member list of the node's own etcd (`query_local`).
    etcd_members: Vec<EtcdMember> => EtcdMembership "EtcdMemberList",
    etcd_alarms: Vec<EtcdAlarm> => EtcdAlarms "EtcdAlarmList",
    etcd_spec: Option<EtcdSpec> => EtcdSpecs "EtcdSpecs",
    /// `/var/lib/etcd` contains no member data. Requested only while etcd has not started.
    etcd_data_absent: bool => EtcdData "List /var/lib/etcd",
    /// Flags of its kubelet, including its configuration; `None` if no kubelet is to run. Secret in newer versions.
    kubelet_flags: Option<Flags> => KubeletFlags "KubeletSpecs" UnlessRefused,
    /// Name and version of each running system extension.
    extensions: Vec<(String, String)> => Extensions "ExtensionStatuses",
    /// The installer that has succeeded since the machine booted and takes effect at the next boot. It is found in machined's log, of which
    /// only the end is read, so `None` does not exclude an earlier installation. Requested by `upgrade-plan` only.
    installed: Option<String> => Installation "Logs (machined)",
    /// ID of the cluster; `None` if Talos has none. Requested by `upgrade-plan` only.
    cluster_id: Option<String> => TalosCluster "Infos",
}

/// Returns the role that a machine reports for itself; unknown if it has not reported one.
pub(crate) fn own_role(machine_type: &Observed<Option<MachineType>>) -> Role {
    machine_type.iter().flatten().next().map_or(Role::Unknown, |it| it.role())
}

impl TalosNode {
    /// Returns the id of the schematic from which the Image Factory built the running image: the version of an extension without content.
    pub(crate) fn schematic(&self) -> Option<&str> {
        let found = self.extensions.iter().flatten().find(|(name, _)| name == "schematic");
        found.map(|(_, id)| id.as_str()).filter(|id| !id.is_empty())
    }
}

/// A static pod of the user's own, and its name in Kubernetes, to which the kubelet adds the node's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UserPod {
    /// The id in Talos.
    pub(crate) id: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// Start-up flags of a Kubernetes component. Values are left out, because they may be secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    /// Id of the static pod, or `kubelet`, which is not a pod.
    pub(crate) pod: String,
    /// Names without `--`.
    pub(crate) names: Vec<String>,
    /// Feature gates, and whether each is enabled.
    pub(crate) gates: Vec<(String, bool)>,
    /// Admission plugins that are enabled or disabled.
    pub(crate) plugins: Vec<String>,
    /// Groups and versions of APIs that are enabled or disabled: `networking.k8s.io/v1alpha1`.
    pub(crate) apis: Vec<String>,
}

impl TalosNode {
    /// A node that was not queried, for the reason `why`.
    pub(crate) fn unasked(why: &Gap) -> Self {
        Self { contact: Err(why.clone()), ..Self::before() }
    }
}

/// A certificate that a server presented, without verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServingCertificate {
    /// The address that presented the certificate.
    pub(crate) address: String,
    pub(crate) validity: Validity,
    /// Common name, DNS names and addresses.
    pub(crate) names: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contact {
    /// The endpoint that forwarded the request.
    pub(crate) endpoint: String,
    /// The address that was sent as `node`.
    pub(crate) address: String,
    pub(crate) version: Version,
    /// The name of the node that answered, if it calls itself differently than every source does.
    pub(crate) answered_by_other: Option<String>,
    /// Endpoints that were tried before this one and cannot reach that address.
    pub(crate) not_through: Vec<String>,
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
    /// `None` if Talos reports no health (unknown).
    pub(crate) healthy: Option<bool>,
    /// Last message of its health check.
    pub(crate) health_message: String,
    pub(crate) last_event: Option<ServiceEvent>,
    /// Start of the newest uninterrupted `Running`, by the node's clock.
    pub(crate) running_since: Option<Timestamp>,
    /// Times at which the service failed and was restarted, from its events: Talos keeps the last ones since the boot.
    pub(crate) failures: Vec<Timestamp>,
}

impl Service {
    pub(crate) fn last_failure(&self) -> Option<Timestamp> {
        self.failures.iter().copied().max()
    }

    /// Returns whether the service has not run yet, or waits to run again.
    pub(crate) fn is_starting(&self) -> bool {
        matches!(self.state.as_str(), "Initialized" | "Starting" | "Preparing" | "Waiting")
    }

    /// Returns whether the service is `Running` with a health check that passed.
    pub(crate) fn is_healthy(&self) -> bool {
        self.state == "Running" && self.healthy == Some(true)
    }
}

/// Shows state, health and last event in half a line.
impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let health = match self.healthy {
            Some(true) => "healthy",
            Some(false) => "not healthy",
            None => "health unknown",
        };
        let state = if self.state.is_empty() { "no state" } else { &self.state };
        write!(f, "{state}, {health}")?;
        if !self.health_message.is_empty() && self.healthy != Some(true) {
            write!(f, ": {}", self.health_message)?;
        }
        match &self.last_event {
            Some(event) if !event.message.is_empty() => write!(f, "; last event: {}", event.message),
            _ => Ok(()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceEvent {
    pub(crate) message: String,
    pub(crate) state: String,
    pub(crate) at: Option<Timestamp>,
}

/// The state of Talos's time synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TimeStatus {
    /// Also `true` if synchronization is disabled, or if the machine gave up waiting for it.
    pub(crate) synced: bool,
    /// Disabled by configuration, or because the host is responsible for it (container mode).
    pub(crate) sync_disabled: bool,
}

/// The state of the kernel's clock, at most half a minute old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Adjtime {
    /// The correction that is still to be made.
    pub(crate) offset: SignedDuration,
    /// The clock is being corrected. Otherwise the offset is meaningless.
    pub(crate) synced: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NetworkStatus {
    pub(crate) address_ready: bool,
    /// A default route exists, or the configured probes succeed.
    pub(crate) connectivity_ready: bool,
    pub(crate) hostname_ready: bool,
    /// `/etc/hosts` and `/etc/resolv.conf` have been written.
    pub(crate) etc_files_ready: bool,
}

/// The state of KubeSpan's connection to another machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Peer {
    /// Node name.
    #[serde(rename = "label")]
    pub(crate) name: String,
    /// `up`, `down`, or `unknown` while neither can be determined.
    pub(crate) state: String,
    /// Go's zero time, far in the past, if there has not been a handshake.
    #[serde(rename = "lastHandshakeTime", default)]
    pub(crate) last_handshake: Option<Timestamp>,
}

/// Keys are renewed every two minutes. Talos considers a peer down after this time.
const HANDSHAKE_LASTS: SignedDuration = SignedDuration::from_secs(275);

impl Peer {
    /// Returns whether KubeSpan cannot reach the peer. Talos tries the endpoints of an unreachable peer one after the other, and reports
    /// `unknown` until each has failed.
    pub(crate) fn is_down(&self, now: Timestamp) -> bool {
        let is_silent = self.last_handshake.is_some_and(|last| now.duration_since(last) > HANDSHAKE_LASTS);
        self.state == "down" || self.state == "unknown" && is_silent
    }
}

/// An address of a machine's link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkAddress {
    /// The address without prefix length.
    pub(crate) address: String,
    /// `eth0`
    pub(crate) link: String,
    /// Whether the address is a single one (/32, /128) rather than part of the link's network, as virtual IPs are.
    pub(crate) is_single: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    /// `EPHEMERAL`, `STATE`, `u-data`, `/var/lib/etcd`, …
    pub(crate) id: String,
    /// `ready`, `failed`, `waiting`, …
    pub(crate) phase: String,
    /// Bytes; `None` if the volume has no size of its own, as directories.
    pub(crate) size: Option<u64>,
    /// The reason for a failure.
    pub(crate) error: String,
    /// Errors from synchronizing its encryption keys; available since Talos 1.9.
    pub(crate) failed_syncs: Vec<String>,
}

/// All values of a [phase](Volume::phase), each at its number in protobuf.
pub(crate) const VOLUME_PHASES: [&str; 8] =
    ["waiting", "failed", "missing", "located", "provisioned", "prepared", "ready", "closed"];

/// Directories in which a machine keeps its data. Since Talos 1.14, each can be a partition of its own; before that, `/var` contains them
/// all.
pub(crate) const DATA_MOUNTS: [&str; 5] = ["/var", "/var/lib/etcd", "/var/lib/containerd", "/var/lib/kubelet", LOGS];

/// The log directory. Nothing stops if only logs cannot be written.
pub(crate) const LOGS: &str = "/var/log";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// `/var`
    pub(crate) path: String,
    /// `/dev/sda5`; two mounts of one device share its space. Empty if not reported.
    pub(crate) device: String,
    /// Bytes.
    pub(crate) size: u64,
    pub(crate) available: u64,
}

/// A problem that Talos detected on its own machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Diagnostic {
    /// `address-overlap`, `kubelet-csr`, …
    pub(crate) id: String,
    pub(crate) message: String,
    pub(crate) details: Vec<String>,
}

/// Status of a static pod as the node's kubelet reports it to Talos.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StaticPodStatus {
    pub(crate) namespace: String,
    /// `kube-apiserver-cp-1`
    pub(crate) name: String,
    pub(crate) state: PodState,
}

/// The part of a pod's state that judges read, from Talos or from Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodState {
    pub(crate) phase: String,
    /// The Ready condition; `None` if it is missing.
    pub(crate) ready: Option<bool>,
    pub(crate) containers: Vec<ContainerState>,
    /// Message of a condition or of the status, if any, such as why the pod is not scheduled.
    pub(crate) message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContainerState {
    pub(crate) name: String,
    /// `registry.k8s.io/kube-apiserver:v1.35.4`; empty if not reported.
    pub(crate) image: String,
    pub(crate) ready: bool,
    pub(crate) restarts: u32,
    pub(crate) running: bool,
    /// `CrashLoopBackOff`, `ImagePullBackOff`, …
    pub(crate) waiting_reason: Option<String>,
    pub(crate) waiting_message: Option<String>,
    /// Exit code of the current or else of the last termination.
    pub(crate) exit_code: Option<i32>,
    /// Time of that termination, by the node's clock.
    pub(crate) finished: Option<Timestamp>,
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
