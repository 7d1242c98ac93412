//! What Talos tells: the machines, and what each says of itself.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::{Certificate, EtcdAlarm, EtcdMember, EtcdSpec, EtcdStatus, Gap, Observed, Validity};
use crate::model::{MachineType, Role, Shared};

/// The Talos side of a round.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Talos {
    pub(crate) credentials: Observed<TalosCredentials>,
    /// In the order of the configuration. Each was asked on its own and without `node`.
    pub(crate) endpoints: Vec<Endpoint>,
    /// How many machines discovery lists. 0: it is off, or has no registry, so that each machine lists itself alone.
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
    /// Of the CA that its servers are verified with, or of the one among several that counts for longest; `None`: its dates cannot be
    /// read.
    pub(crate) ca: Option<Validity>,
    /// SHA-256 of each CA certificate, in hexadecimal: which cluster it is where Talos has no ID of it.
    pub(crate) ca_digests: Vec<String>,
    /// The file.
    pub(crate) source: String,
    pub(crate) context: String,
    /// `None` where the configuration has no client certificate.
    pub(crate) certificate: Option<Certificate>,
    /// The service account of Omni whose key signs in its place: the endpoints are Omni's, and no machines.
    pub(crate) account: Option<Account>,
}

/// A service account of Omni, and for how long its key counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    /// Which variable the key is from.
    pub(crate) variable: &'static str,
    pub(crate) name: String,
    pub(crate) not_before: Timestamp,
    /// `None`: for ever.
    pub(crate) not_after: Option<Timestamp>,
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
    /// As discovery has it: with its domain, if it has one.
    pub(crate) hostname: Option<String>,
    /// The address it was (or would be) asked at; shown to people.
    pub(crate) address: String,
    /// All addresses that any source tells, without port.
    pub(crate) addresses: Vec<String>,
    /// Those of them that Talos tells: discovery, or the machine itself. Empty: nobody has.
    pub(crate) own_addresses: Vec<String>,
    /// What Kubernetes has to show as its `machineID`, if discovery knows the machine. For a while that may be one that had its
    /// name before it.
    pub(crate) machine_id: Option<String>,
    /// The same by its own word, if it is an endpoint.
    pub(crate) own_machine_id: Option<String>,
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
    pub(crate) talos: Shared<TalosNode>,
}

impl Node {
    pub(crate) fn machine_ids(&self) -> impl Iterator<Item = &String> {
        self.machine_id.iter().chain(&self.own_machine_id)
    }

    /// Whether an option that names a machine, by name or address, means this one.
    pub(crate) fn is_called(&self, named: &str) -> bool {
        self.name.eq_ignore_ascii_case(named)
            || self.hostname.as_ref().is_some_and(|hostname| hostname.eq_ignore_ascii_case(named))
            || self.address == named
            || self.addresses.iter().any(|address| address == named)
    }
}

/// What one node says of itself. COSI resources: `Ok(None)` and empty lists mean "asked, and not there".
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TalosNode {
    /// First contact through an endpoint. Every other fact is a [`GapKind::NotAsked`] gap if this is one.
    pub(crate) contact: Observed<Contact>,
    pub(crate) machine_type: Observed<Option<MachineType>>,
    pub(crate) nodename: Observed<Option<String>>,
    /// `skipNodeRegistration` of its configuration: its kubelet runs, and makes no Node object.
    pub(crate) skips_registration: bool,
    pub(crate) machine_status: Observed<Option<MachineStatus>>,
    pub(crate) services: Observed<Vec<Service>>,
    pub(crate) time_status: Observed<Option<TimeStatus>>,
    /// What the kernel says of its clock. There is none in container mode.
    pub(crate) adjtime: Observed<Option<Adjtime>>,
    pub(crate) network_status: Observed<Option<NetworkStatus>>,
    /// Global addresses of its links, but for loopback and dummy interfaces: those have what may be on every machine.
    pub(crate) link_addresses: Observed<Vec<LinkAddress>>,
    /// Whether KubePrism reaches an API server. There is none where it is switched off, and before Talos 1.5.
    pub(crate) kube_prism: Observed<Option<bool>>,
    /// Of KubeSpan; none where it is switched off. Asked of control planes only: each of them is everybody's peer.
    pub(crate) kube_span_peers: Observed<Vec<Peer>>,
    /// All of it, bytes.
    pub(crate) memory: Observed<u64>,
    /// Since Talos 1.8.
    pub(crate) volumes: Observed<Vec<Volume>>,
    pub(crate) mounts: Observed<Vec<Mount>>,
    /// Since Talos 1.8. Each lasts as long as its problem.
    pub(crate) diagnostics: Observed<Vec<Diagnostic>>,
    /// What its kubelet shows to anybody who connects.
    pub(crate) kubelet_certificate: Observed<ServingCertificate>,
    pub(crate) static_pods: Observed<Vec<String>>,
    /// Those of them that are outside of `kube-system`.
    pub(crate) user_pods: Vec<UserPod>,
    /// What those of the control plane are started with.
    pub(crate) component_flags: Vec<Flags>,
    pub(crate) static_pod_statuses: Observed<Vec<StaticPodStatus>>,
    /// What the static pods are rendered from: id (`static-pods`) and `ready`.
    pub(crate) config_statuses: Observed<Vec<ReadyResource>>,
    /// `Some(false)`: switched off in the machine configuration.
    pub(crate) scheduler_enabled: Observed<Option<bool>>,
    pub(crate) controller_manager_enabled: Observed<Option<bool>>,
    pub(crate) bootstrap_manifests: Observed<Option<BootstrapManifests>>,
    /// Names of those that it has applied. Asked of control planes.
    pub(crate) manifests_applied: Observed<Vec<String>>,
    /// Names of those that its configuration adds.
    pub(crate) extra_manifests: Observed<Vec<String>>,
    /// Id of its own etcd member, known without asking etcd (`EtcdMembers`).
    pub(crate) etcd_member_id: Observed<Option<u64>>,
    pub(crate) etcd_status: Observed<EtcdStatus>,
    /// From the node's own etcd (`query_local`).
    pub(crate) etcd_members: Observed<Vec<EtcdMember>>,
    pub(crate) etcd_alarms: Observed<Vec<EtcdAlarm>>,
    pub(crate) etcd_spec: Observed<Option<EtcdSpec>>,
    /// `/var/lib/etcd` holds no member data. Asked only while etcd has not started.
    pub(crate) etcd_data_absent: Observed<bool>,
    /// What its kubelet is started with, its configuration included; none where no kubelet is to run. Secret in newer versions.
    pub(crate) kubelet_flags: Observed<Option<Flags>>,
    /// Name and version of each system extension that it runs.
    pub(crate) extensions: Observed<Vec<(String, String)>>,
    /// The installer that has ended well since the machine booted: it takes effect with the next boot. By the log of machined, of
    /// which only the end is read: `None` says nothing of what was installed before that. Asked by `upgrade-plan` only.
    pub(crate) installed: Observed<Option<String>>,
    /// ID of the cluster; `None`: Talos has none. Asked by `upgrade-plan` only.
    pub(crate) cluster_id: Observed<Option<String>>,
}

/// The role of a machine by its own word; unknown if it has not told.
pub(crate) fn own_role(machine_type: &Observed<Option<MachineType>>) -> Role {
    machine_type.iter().flatten().next().map_or(Role::Unknown, |it| it.role())
}

impl TalosNode {
    /// Id of the schematic by which the Image Factory has made what it runs: the version of an extension that has no content.
    pub(crate) fn schematic(&self) -> Option<&str> {
        let found = self.extensions.iter().flatten().find(|(name, _)| name == "schematic");
        found.map(|(_, id)| id.as_str()).filter(|id| !id.is_empty())
    }
}

/// A static pod of the user's own, and what Kubernetes calls it: the kubelet adds the node's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UserPod {
    /// In Talos.
    pub(crate) id: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// What a component of Kubernetes is started with, without values: they may be secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    /// Id of its static pod; `kubelet` is none.
    pub(crate) pod: String,
    /// Without `--`.
    pub(crate) names: Vec<String>,
    /// Feature gates, and whether they are switched on.
    pub(crate) gates: Vec<(String, bool)>,
    /// Admission plugins, whether they are switched on or off.
    pub(crate) plugins: Vec<String>,
    /// Groups and versions of APIs, whether they are switched on or off: `networking.k8s.io/v1alpha1`.
    pub(crate) apis: Vec<String>,
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
            skips_registration: false,
            machine_status: gap(),
            services: gap(),
            time_status: gap(),
            adjtime: gap(),
            network_status: gap(),
            link_addresses: gap(),
            kube_prism: gap(),
            kube_span_peers: gap(),
            memory: gap(),
            volumes: gap(),
            mounts: gap(),
            diagnostics: gap(),
            kubelet_certificate: gap(),
            static_pods: gap(),
            user_pods: Vec::new(),
            component_flags: Vec::new(),
            static_pod_statuses: gap(),
            config_statuses: gap(),
            scheduler_enabled: gap(),
            controller_manager_enabled: gap(),
            bootstrap_manifests: gap(),
            manifests_applied: gap(),
            extra_manifests: gap(),
            etcd_member_id: gap(),
            etcd_status: gap(),
            etcd_members: gap(),
            etcd_alarms: gap(),
            etcd_spec: gap(),
            etcd_data_absent: gap(),
            kubelet_flags: gap(),
            extensions: gap(),
            installed: gap(),
            cluster_id: gap(),
        }
    }
}

/// A certificate that a server has shown, and that nobody has verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServingCertificate {
    /// Where it was shown.
    pub(crate) address: String,
    pub(crate) validity: Validity,
    /// Common name, DNS names and addresses.
    pub(crate) names: Vec<String>,
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
    /// Endpoints that were tried before this one and do not get through to that address.
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
    /// `None`: Talos has no health report (unknown).
    pub(crate) healthy: Option<bool>,
    /// Last message of its health check.
    pub(crate) health_message: String,
    pub(crate) last_event: Option<ServiceEvent>,
    /// When the newest uninterrupted `Running` began, by the node's clock.
    pub(crate) running_since: Option<Timestamp>,
    /// When it has failed and was started again, by its events: Talos keeps the last of them since the boot.
    pub(crate) failures: Vec<Timestamp>,
}

impl Service {
    pub(crate) fn last_failure(&self) -> Option<Timestamp> {
        self.failures.iter().copied().max()
    }

    /// The service has not run yet, or waits to run again.
    pub(crate) fn is_starting(&self) -> bool {
        matches!(self.state.as_str(), "Initialized" | "Starting" | "Preparing" | "Waiting")
    }

    /// `Running` with a health check that passed.
    pub(crate) fn is_healthy(&self) -> bool {
        self.state == "Running" && self.healthy == Some(true)
    }
}

/// State, health and last event in half a line.
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

/// What Talos says of the synchronization of its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TimeStatus {
    /// Also `true` when synchronization is switched off, or when the machine has given up waiting for it.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NetworkStatus {
    pub(crate) address_ready: bool,
    /// There is a default route, or the configured probes succeed.
    pub(crate) connectivity_ready: bool,
    pub(crate) hostname_ready: bool,
    /// `/etc/hosts` and `/etc/resolv.conf` are written.
    pub(crate) etc_files_ready: bool,
}

/// How KubeSpan reaches another machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Peer {
    /// Node name.
    #[serde(rename = "label")]
    pub(crate) name: String,
    /// `up`, `down`, or `unknown` while there is nothing to tell it by.
    pub(crate) state: String,
    /// Go's zero, which is long ago: there has not been one.
    #[serde(rename = "lastHandshakeTime", default)]
    pub(crate) last_handshake: Option<Timestamp>,
}

/// Keys are renewed every two minutes. Talos takes a peer for down after this time.
const HANDSHAKE_LASTS: SignedDuration = SignedDuration::from_secs(275);

impl Peer {
    /// Talos tries one endpoint after the other of a peer that it cannot reach, and calls it `unknown` until each has failed.
    pub(crate) fn is_down(&self, now: Timestamp) -> bool {
        let is_silent = self.last_handshake.is_some_and(|last| now.duration_since(last) > HANDSHAKE_LASTS);
        self.state == "down" || self.state == "unknown" && is_silent
    }
}

/// An address that a link of a machine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkAddress {
    /// Without prefix length.
    pub(crate) address: String,
    /// `eth0`
    pub(crate) link: String,
    /// Whether the address stands alone (/32, /128) and not in a network of its link, as virtual IPs do.
    pub(crate) is_single: bool,
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
    /// What went wrong when the keys of its encryption were brought up to date; since 1.9.
    pub(crate) failed_syncs: Vec<String>,
}

/// What a [phase](Volume::phase) can be, each at its number in protobuf.
pub(crate) const VOLUME_PHASES: [&str; 8] =
    ["waiting", "failed", "missing", "located", "provisioned", "prepared", "ready", "closed"];

/// Folders in which a machine keeps its data. Each can be a partition of its own since Talos 1.14; before that, `/var` has them all.
pub(crate) const DATA_MOUNTS: [&str; 5] = ["/var", "/var/lib/etcd", "/var/lib/containerd", "/var/lib/kubelet", LOGS];

/// Nothing stops if logs alone cannot be written.
pub(crate) const LOGS: &str = "/var/log";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// `/var`
    pub(crate) path: String,
    /// `/dev/sda5`; two mounts of one device share its space. Empty if not told.
    pub(crate) device: String,
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
    pub(crate) namespace: String,
    /// `kube-apiserver-cp-1`
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
    /// When that was, by the node's clock.
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
