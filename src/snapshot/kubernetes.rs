//! Facts that the Kubernetes API reports.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::answers::answers;
use super::{Certificate, Flags, Gap, GapKind, Observed, PodState, Served, Validity};
use crate::model::Shared;

answers! {
    /// The Kubernetes side of a round.
    Kubernetes {
        /// [`GapKind::Malformed`] if a kubeconfig named by the user cannot be used, [`GapKind::NotAsked`] if none was found.
        credentials: Observed<KubernetesCredentials> = Err(Gap::not_asked()),
        /// Sources that were tried first and skipped, each with the reason.
        passed_over: Vec<(String, String)> = Vec::new(),
        /// Whether missing credentials may still be found in a later round: the Talos API has not answered yet whether it issues a kubeconfig,
        /// or a source was skipped as another cluster's, which the first round cannot know for certain.
        may_still_find: bool = false,
        /// Whether each address accepts connections, if the endpoint's name has several and is reached without a proxy; otherwise empty.
        endpoint_addresses: Vec<(SocketAddr, Observed<()>)> = Vec::new(),
        /// `/readyz?verbose` of each control plane's own API server, by node name.
        servers: BTreeMap<String, Observed<Readyz>> = BTreeMap::new(),
        /// Static pods of the user's own on workers, by namespace and name. `None` if there is no such pod.
        user_pods: BTreeMap<(String, String), Observed<Option<Pod>>> = BTreeMap::new(),
        /// Pods of these namespaces, and pods of drivers' DaemonSets that have too few.
        plugin_pods: Vec<Pod> = Vec::new(),
        /// Pods of the same list that have a sandbox and wait for an image.
        pulling_pods: Vec<PullingPod> = Vec::new(),
        /// Pods of the same list that have no node, for a reason given by a scheduler or the user.
        unplaced_pods: Vec<UnplacedPod> = Vec::new(),
        /// Requested APIs of each control plane's own API server, by node name, or why they are unknown. If Kubernetes alone shows no machine
        /// with an API server, the entry is for the one behind the endpoint, by its URL.
        requested_apis: BTreeMap<String, Observed<RequestedApis>> = BTreeMap::new(),
        /// Endpoints of each Service that a webhook names, by namespace and name.
        webhook_endpoints: BTreeMap<(String, String), Observed<Vec<ServiceEndpoint>>> = BTreeMap::new(),
        /// Objects that a policy requires, by the id of the entry.
        required: BTreeMap<String, Observed<Served>> = BTreeMap::new(),
    }
    /// `/readyz?verbose` of the cluster endpoint.
    endpoint: Readyz => EndpointReadyz "/readyz",
    nodes: Vec<KubeNode> => KubeNodes "nodes",
    /// Leases of namespace `kube-node-lease`, by name (= node name).
    node_leases: Leases => NodeLeases "leases (kube-node-lease)",
    /// Leases of namespace `kube-system`, by name. Without Talos, the lease of a component whose static pods are only in another namespace
    /// is taken from there if it was renewed later.
    system_leases: Leases => SystemLeases "leases (kube-system)",
    /// Pods of namespace `kube-system`. Without Talos, the static pods of other namespaces as well.
    pods: Vec<Pod> => Pods "pods (kube-system)",
    /// DaemonSets of `kube-system` and of the network plugin's namespaces, and all that register a driver with the kubelets.
    daemon_sets: Vec<Workload> => DaemonSets "daemonsets",
    /// Deployments of the same namespaces.
    deployments: Vec<Workload> => Deployments "deployments",
    /// `StatefulSet`s of the same namespaces.
    stateful_sets: Vec<Workload> => StatefulSets "statefulsets",
    /// Namespaces of the network plugin other than `kube-system`; a gap if the lists above and below lack objects of the plugin or of
    /// drivers.
    plugin_namespaces: Vec<String> => DaemonSets "workloads of the network plugin",
    /// Pods of all namespaces that are assigned to a node and have no sandbox, or have lost it.
    starting_pods: Vec<StartingPod> => StartingPods "pods (without a sandbox)",
    /// Drivers that each node's kubelet knows; requested while several pods of a node wait for volumes.
    csi_nodes: Vec<CsiNode> => CsiNodes "csinodes" Never,
    /// Volumes that drivers attach to nodes; requested together with the drivers.
    attached_volumes: Vec<AttachedVolume> => AttachedVolumes "volumeattachments (of waiting pods)" Never,
    /// Events about sandboxes that could not be created; all events of pods if one of those pods is late.
    pod_events: Vec<PodEvent> => PodEvents "events",
    /// Pods of all namespaces that are bound to a node and have not finished.
    bound_pods: Vec<BoundPod> => BoundPods "pods (all namespaces)",
    disruption_budgets: Vec<DisruptionBudget> => DisruptionBudgets "poddisruptionbudgets",
    /// Allocatable resources of each node.
    node_room: Vec<NodeRoom> => NodeRoom "nodes (allocatable)",
    volume_attachments: Vec<VolumeAttachment> => VolumeAttachments "volumeattachments",
    persistent_volumes: Vec<PersistentVolume> => PersistentVolumes "persistentvolumes",
    /// Endpoints of the Service `kube-system/kube-dns`, from its EndpointSlices. Without Talos, endpoints of all Services with a label of
    /// cluster DNS; a Service without endpoints is represented by one without addresses.
    dns_endpoints: Vec<ServiceEndpoint> => DnsEndpoints "endpointslices (kube-system)",
    /// Endpoints of the Service `default/kubernetes`.
    api_endpoints: Vec<ServiceEndpoint> => ApiEndpoints "endpointslices (default)",
    /// All certificate signing requests, regardless of requester and state.
    signing_requests: Vec<SigningRequest> => SigningRequests "certificatesigningrequests" UnlessRefused,
    validating_webhooks: Vec<Webhook> => ValidatingWebhooks "validatingwebhookconfigurations",
    mutating_webhooks: Vec<Webhook> => MutatingWebhooks "mutatingwebhookconfigurations",
    /// Webhooks that convert objects of custom resources, by the definition's name. Read once per run.
    conversions: Vec<Webhook> => Conversions "customresourcedefinitions" UnlessRefused,
    api_services: Vec<ApiService> => ApiServices "apiservices" UnlessRefused,
    /// `gitVersion` of the API server behind the endpoint, without Talos.
    version: String => ServerVersion "GET /version" Never,
    /// UID of the namespace kube-system, which identifies the cluster. Requested by `upgrade-plan` only.
    cluster_uid: String => KubernetesCluster "namespaces (kube-system)",
}

impl Kubernetes {
    /// A cluster that was not queried.
    pub(crate) fn unasked(credentials: Observed<KubernetesCredentials>, passed_over: Vec<(String, String)>) -> Self {
        Self { credentials, passed_over, ..Self::before() }
    }

    /// Returns the pods of `kube-system` and of the network plugin that could be read.
    pub(crate) fn all_pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().flatten().chain(&self.plugin_pods)
    }

    /// Returns the requests that were refused (403), each with the text of its refusal.
    pub(crate) fn refusals(&self) -> BTreeMap<String, &str> {
        let servers = self.servers.iter().map(|(node, server)| (format!("/readyz of {node}"), server));
        let readyz =
            [("/readyz".to_owned(), &self.endpoint)].into_iter().chain(servers).filter_map(|(what, answer)| {
                let refusal = answer.as_ref().ok().filter(|readyz| readyz.status == 403)?;
                Some((what, &*refusal.text))
            });
        let webhooks = self.webhook_endpoints.values().find_map(|it| it.as_ref().err());
        let lists =
            self.every_answer().map(|(_, it)| (it.what, it.gap)).chain([("endpointslices of webhooks", webhooks)]);
        let lists = lists.map(|(what, gap)| (what.to_owned(), gap));
        let metrics = self.requested_apis.iter().map(|(node, it)| (format!("/metrics of {node}"), it.as_ref().err()));
        let required = self.required.iter().map(|(id, it)| (format!("objects of policy.{id}"), it.as_ref().err()));
        let lists = lists.chain(metrics).chain(required).filter_map(|(what, gap)| {
            let refusal = gap.filter(|gap| gap.kind == GapKind::Forbidden)?;
            Some((what, &*refusal.text))
        });
        readyz.chain(lists).collect()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KubernetesCredentials {
    /// `--kubeconfig /path`, `KUBECONFIG /path`, `~/.kube/config`, `in-cluster`, `Talos API (os:admin)`.
    pub(crate) source: String,
    /// Files that the kubeconfig was read from; empty for a pod's credentials and for Talos's.
    pub(crate) files: Vec<PathBuf>,
    /// Whether the user named the kubeconfig on the command line.
    pub(crate) explicit: bool,
    pub(crate) context: String,
    /// `https://host:port`.
    pub(crate) server: String,
    /// Validity of the CA, see [`TalosCredentials::ca`]; also `None` if the kubeconfig leaves the CA to the system.
    ///
    /// [`TalosCredentials::ca`]: super::TalosCredentials::ca
    pub(crate) ca: Option<Validity>,
    /// `None` if the user has a token, an exec plugin or another kind of credentials.
    pub(crate) certificate: Option<Certificate>,
}

/// The source of a kubeconfig that Talos issued for this run.
pub(crate) const MINTED: &str = "Talos API (os:admin)";

impl KubernetesCredentials {
    pub(crate) fn is_minted(&self) -> bool {
        self.source == MINTED
    }
}

/// An API server's answer to `/readyz?verbose`. Any status is an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Readyz {
    /// `https://host:port` that was queried.
    pub(crate) server: String,
    /// HTTP status.
    pub(crate) status: u16,
    /// Names of the `[-]` lines.
    pub(crate) failed: Vec<String>,
    /// First line of a body without check lines (401, 403, 404, 429).
    pub(crate) text: String,
    /// Validity of the certificate that the server presented on this connection; `None` if it could not be read.
    pub(crate) certificate: Option<Validity>,
    /// Reason why the certificate is not valid for the dialed address, if the server's name proved it to be the machine's API server.
    pub(crate) unnamed: Option<Gap>,
}

impl Readyz {
    pub(crate) fn misses_etcd(&self) -> bool {
        self.failed.iter().any(|part| part.starts_with("etcd"))
    }

    /// Whether etcd explains every failed check: etcd's own checks, and the shutdown that its loss causes.
    pub(crate) fn misses_only_etcd(&self) -> bool {
        let is_down_for_it = |part: &str| part == "shutdown" && self.misses_etcd();
        self.failed.iter().all(|part| part.starts_with("etcd") || is_down_for_it(part))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KubeNode {
    pub(crate) name: String,
    /// InternalIP and ExternalIP values.
    pub(crate) addresses: Vec<String>,
    /// InternalIP values only.
    pub(crate) internal: Vec<String>,
    /// Addresses to which flannel on other nodes sends traffic for this node's pods; empty without flannel.
    pub(crate) overlay: Vec<String>,
    /// Whether the user set that address.
    pub(crate) overlay_is_set: bool,
    pub(crate) labels: BTreeMap<String, String>,
    /// `nodeInfo.machineID`; Talos derives it from the machine's identity. Empty if not reported.
    pub(crate) machine_id: String,
    /// `nodeInfo.bootID`, which is different after each boot. Empty if not reported.
    pub(crate) boot_id: String,
    /// Whether the label `node-role.kubernetes.io/control-plane` is present.
    pub(crate) control_plane_label: bool,
    pub(crate) os_image: String,
    /// Kernel version; Talos's own ends in `-talos`. Empty if not reported.
    pub(crate) kernel: String,
    /// `v1.35.4`; empty if not reported.
    pub(crate) kubelet_version: String,
    pub(crate) unschedulable: bool,
    /// Annotation `talos.dev/cordoned=true`.
    pub(crate) cordoned_by_talos: bool,
    /// Time at which it got the taint that Kubernetes adds to cordoned nodes.
    pub(crate) cordoned_since: Option<Timestamp>,
    pub(crate) taints: Vec<Taint>,
    /// Address ranges of its pods, one of each family; empty if the network plugin assigns addresses from its own.
    pub(crate) pod_cidrs: Vec<String>,
    /// Resources among `cpu`, `memory` and `pods` of which nothing is allocatable.
    pub(crate) out_of: Vec<String>,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) deleting: bool,
    /// Start of its removal: it is being deleted, or the cluster autoscaler marked it. `None` if it is not being removed, or the start is
    /// unknown.
    pub(crate) leaving_since: Option<Timestamp>,
    /// `Date` of the answer that contained it.
    pub(crate) told: Option<Timestamp>,
    pub(crate) created: Option<Timestamp>,
}

/// The operating system of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    Talos,
    /// The image or the kernel belongs to another system.
    Another,
    /// Not a machine: no system, machine ID or boot ID is reported. Nodes of kwok and of virtual kubelets are like this.
    Virtual,
    /// A machine whose system is unknown. It is judged as if it ran Talos.
    Untold,
}

/// Prefix of Kubernetes' own taints, for nodes that are not ready, under pressure, cordoned or out of service.
pub(crate) const OWN_TAINTS: &str = "node.kubernetes.io/";

/// Taint of a node that the cluster autoscaler is about to delete. Its value is the time at which the removal began.
pub(crate) const AUTOSCALER_TAINT: &str = "ToBeDeletedByClusterAutoscaler";

/// Time that a removal may take, during which the node is not judged.
const REMOVAL: Duration = Duration::from_secs(30 * 60);
/// Largest plausible difference between the API server's clock and the clock of the client that marks a node for removal.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_mins(1);

impl KubeNode {
    /// Returns the node's system, judged by the Node's own status alone.
    pub(crate) fn system(&self) -> System {
        let tells_nothing =
            [&self.os_image, &self.kernel, &self.machine_id, &self.boot_id].iter().all(|it| it.is_empty());
        if self.talos_tag().is_some() || self.kernel.ends_with("-talos") {
            System::Talos
        } else if tells_nothing {
            System::Virtual
        } else if self.os_image.starts_with("Talos") || (self.os_image.is_empty() && self.kernel.is_empty()) {
            System::Untold
        } else {
            System::Another
        }
    }

    /// Returns the version in `Talos (v1.13.0)`. The builder of Talos chooses the name before it: `Talos Enterprise (v1.13.0)`.
    pub(crate) fn talos_tag(&self) -> Option<&str> {
        let (name, tag) = self.os_image.split_once('(')?;
        (name.starts_with("Talos") && tag.starts_with('v')).then(|| tag.trim_end_matches(')'))
    }

    /// Whether the node runs Windows, which has DaemonSets of its own.
    pub(crate) fn is_windows(&self) -> bool {
        self.os_image.contains("Windows") || self.labels.get("kubernetes.io/os").is_some_and(|os| os == "windows")
    }

    /// Makes the node one that kwok or a virtual kubelet registers.
    #[cfg(test)]
    pub(crate) fn become_virtual(&mut self) {
        for told in [&mut self.os_image, &mut self.kernel, &mut self.machine_id, &mut self.boot_id] {
            told.clear();
        }
    }

    /// Whether the kubelet of this machine registered the Node: both show the identity that Talos gave to the machine.
    pub(crate) fn is_of_machine<'a>(&self, mut machine_ids: impl Iterator<Item = &'a String>) -> bool {
        machine_ids.any(|id| *id == self.machine_id)
    }

    /// Whether the Node has this machine's name, but a different machine ID. Both IDs must be known.
    pub(crate) fn is_of_a_namesake<'a>(&self, name: &str, machine_ids: impl Iterator<Item = &'a String>) -> bool {
        let mut ids = machine_ids.peekable();
        let both_tell = ids.peek().is_some() && !self.machine_id.is_empty();
        both_tell && self.name.eq_ignore_ascii_case(name) && !self.is_of_machine(ids)
    }

    /// Whether the Node has this machine's name and one of its known addresses.
    pub(crate) fn is_at<'a>(&self, name: &str, mut addresses: impl Iterator<Item = &'a str>) -> bool {
        self.name.eq_ignore_ascii_case(name) && addresses.any(|address| self.addresses.iter().any(|it| it == address))
    }

    /// Whether a removal of the node began recently. A mark of unknown age, by the server's clock, excuses nothing.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving_for().is_some_and(|age| age <= REMOVAL)
    }

    /// Returns the time since the removal began. The age of a mark from the future is unknown, unless two clocks explain it.
    pub(crate) fn leaving_for(&self) -> Option<Duration> {
        let age = self.told.zip(self.leaving_since).map(|(now, since)| now.duration_since(since))?;
        (age >= -CLOCKS_DIFFER).then(|| age.max(SignedDuration::ZERO).unsigned_abs())
    }

    /// Returns the readiness that the Node reports, regardless of its age.
    pub(crate) fn readiness(&self) -> Readiness {
        match self.condition("Ready") {
            Some(ready) if ready.status == "True" => Readiness::Ready(ready.since),
            Some(ready) if ready.status == "False" => Readiness::NotReady,
            Some(_) | None => Readiness::Unknown,
        }
    }

    /// Returns the condition of this kind; if there are several, the worst.
    pub(crate) fn condition(&self, kind: &str) -> Option<&Condition> {
        let good = if kind == "Ready" { "True" } else { "False" };
        self.conditions.iter().filter(|it| it.kind == kind).max_by_key(|it| badness(&it.status, good))
    }
}

/// Condition `Ready` of a Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// Ready since this time, if the condition contains it.
    Ready(Option<Timestamp>),
    NotReady,
    /// Set by the node controller, because the kubelet stopped reporting; or the condition does not exist.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taint {
    pub(crate) key: String,
    pub(crate) value: String,
    /// `NoSchedule`, `PreferNoSchedule`, `NoExecute`.
    pub(crate) effect: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    /// `Ready`, `MemoryPressure`, …
    pub(crate) kind: String,
    /// `True`, `False`, `Unknown`.
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// Time of the last transition, if reported.
    pub(crate) since: Option<Timestamp>,
}

impl Condition {
    /// Formats the condition as `False, KubeletNotReady: no network plugin`; reason and message may be missing.
    pub(crate) fn told_as(&self, what: &str) -> String {
        let separated = |separator: &str, text: &str| match text {
            "" => String::new(),
            _ => format!("{separator}{text}"),
        };
        format!("{what}{}{}", separated(", ", &self.reason), separated(": ", &self.message))
    }
}

/// Returns how far a status is from the good one. Writers of conditions can write one twice; the worse one counts.
pub(crate) fn badness(status: &str, good: &str) -> u8 {
    match status {
        _ if status == good => 0,
        "Unknown" => 1,
        _ => 2,
    }
}

/// A list of leases and the clock of the server that answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Leases {
    /// `Date` header of the answer; `None` if it had none. If a list has several pages, the header of the first one.
    pub(crate) date: Option<Timestamp>,
    /// `Date` header of the last page; no lease was written later.
    pub(crate) last_date: Option<Timestamp>,
    pub(crate) by_name: BTreeMap<String, Lease>,
}

impl Leases {
    /// Returns the identity leases of API servers, including those of former processes.
    pub(crate) fn of_api_servers(&self) -> impl Iterator<Item = &Lease> {
        self.by_name.iter().filter(|(name, _)| name.starts_with("apiserver-")).map(|(_, lease)| lease)
    }

    /// Whether `other` is the same answer: neither the server's clock nor any lease has moved.
    pub(crate) fn is_repeated_by(&self, other: &Self) -> bool {
        let is_same = |(name, lease): (&String, &Lease)| {
            let other = other.by_name.get(name);
            other.is_some_and(|it| it.resource_version == lease.resource_version && it.renewed == lease.renewed)
        };
        (self.date, self.last_date) == (other.date, other.last_date)
            && self.by_name.len() == other.by_name.len()
            && self.by_name.iter().all(is_same)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lease {
    pub(crate) namespace: String,
    pub(crate) renewed: Option<Timestamp>,
    pub(crate) resource_version: String,
    /// Label `kubernetes.io/hostname` (API server identity leases carry it).
    pub(crate) hostname: Option<String>,
    pub(crate) holder: Option<String>,
    /// Validity of the lease without renewal, if it is specified.
    pub(crate) lasts: Option<Duration>,
    /// Upper bound on the time between the last renewal and this reading: an earlier sample of this run, that long before, had another
    /// resource version. `None` if no two samples show a renewal.
    pub(crate) moved_within: Option<Duration>,
    /// Time between the earliest sample of this run that showed the same resource version and this reading. `None` if there is no earlier
    /// one.
    pub(crate) still_for: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) node: Option<String>,
    pub(crate) labels: Shared<BTreeMap<String, String>>,
    /// Whether the annotation `kubernetes.io/config.mirror` is present.
    pub(crate) mirror: bool,
    pub(crate) deleting: bool,
    /// Kind and name of the owner that controls it: a `DaemonSet`, a `ReplicaSet`, a `Node`.
    pub(crate) controller: Option<(String, String)>,
    /// Value of `--leader-elect` in its command, if present.
    pub(crate) leader_elect: Option<bool>,
    /// Flags of a control plane component, if this is its static pod.
    pub(crate) flags: Option<Flags>,
    /// Time since the pod stopped being ready, by the clock of the server that answered. `None` if it is ready, or the time is unknown.
    pub(crate) unready_for: Option<Duration>,
    /// Pod IPs that the kubelet reported, one of each family.
    pub(crate) addresses: Vec<String>,
    pub(crate) state: PodState,
}

impl Pod {
    /// Whether its labels name this component.
    pub(crate) fn is_labeled(&self, component: &str) -> bool {
        ["component", "k8s-app"].iter().any(|key| self.labels.get(*key).is_some_and(|value| value == component))
    }

    /// Whether this is the mirror pod of an API server, in any namespace.
    pub(crate) fn is_api_server(&self) -> bool {
        self.is_mirror_of("kube-apiserver")
    }

    /// Whether this is the mirror pod of a component, by its name, its labels or its containers.
    pub(crate) fn is_mirror_of(&self, component: &str) -> bool {
        let node = self.node.as_deref();
        let is_named = self.name.strip_prefix(component).and_then(|rest| rest.strip_prefix('-')) == node;
        let runs_it = || self.state.containers.iter().any(|container| container.name == component);
        self.mirror && node.is_some() && (is_named || self.is_labeled(component) || runs_it())
    }
}

/// A pod that is assigned to a node and has no sandbox, so that none of its containers runs; or a pod that is not assigned to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StartingPod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// UID, which distinguishes pods of the same name.
    pub(crate) uid: String,
    /// `None` if no scheduler has considered the pod.
    pub(crate) node: Option<String>,
    /// Whether Kubernetes' own scheduler is the one that places the pod.
    pub(crate) by_default_scheduler: bool,
    /// Time since the pod was created, was assigned to the node or lost its sandbox, by the clock of the server that answered; `None` if
    /// unknown.
    pub(crate) waiting_for: Option<Duration>,
    /// Time at which the pod lost its sandbox, as its kubelet reports it.
    pub(crate) lost_at: Option<Timestamp>,
    /// Whether the pod has volumes that must be provided: a Secret, a disk. They are mounted before the sandbox is created.
    pub(crate) has_own_volumes: bool,
    /// Whether one of these is attached or mounted by a storage driver, rather than made from an API object.
    pub(crate) mounts_storage: bool,
    /// Workload that the pod belongs to, or else the pod itself.
    pub(crate) owner: String,
    /// Pod that was assigned to the node later, or at least got its sandbox after this one began to wait.
    pub(crate) overtaken_by: Option<String>,
    /// Message in the pod's own status.
    pub(crate) says: String,
}

impl StartingPod {
    /// Whether the pod has waited for a minute. A sandbox takes a second or two. A pod of unknown age may be late.
    pub(crate) fn is_late(&self) -> bool {
        self.has_waited(Duration::from_secs(60))
    }

    /// Whether the pod has waited for so long. A pod of unknown age may have.
    pub(crate) fn has_waited(&self, limit: Duration) -> bool {
        self.waiting_for.is_none_or(|waiting| waiting >= limit)
    }
}

/// Waiting time after which a pod's obstacle is not expected to disappear on its own.
pub(crate) const WAITED: Duration = Duration::from_secs(300);

/// A pod that has a sandbox, but whose next container has no image yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PullingPod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) node: String,
    /// Workload that the pod belongs to, or else the pod itself.
    pub(crate) owner: String,
    /// Image, as the pod specifies it.
    pub(crate) image: String,
    /// Time since the pod was assigned to the node, by the clock of the server that answered; `None` if unknown.
    pub(crate) waiting_for: Option<Duration>,
    /// Message in the pod's own status.
    pub(crate) says: String,
    /// Name of a different node on which a container of this image runs. Determined only while many pods of a node wait.
    pub(crate) runs_on: Option<String>,
}

impl PullingPod {
    pub(crate) fn is_late(&self) -> bool {
        self.waiting_for.is_some_and(|waiting| waiting >= WAITED)
    }

    /// Whether so many pods wait for images that no single application accounts for them.
    pub(crate) fn are_many<'a>(pods: impl Iterator<Item = &'a Self> + Clone) -> bool {
        pods.clone().count() >= 5 && are_of_several(pods.map(|pod| pod.owner.as_str()))
    }
}

/// A pod for which no node was found, or that is not to be placed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnplacedPod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Time since the pod was created, by the clock of the server that answered; `None` if unknown.
    pub(crate) waiting_for: Option<Duration>,
    /// Reason: `Unschedulable`, `SchedulingGated`, `another scheduler`
    pub(crate) why: String,
}

/// Whether there are two different owners.
pub(crate) fn are_of_several<'a>(owners: impl IntoIterator<Item = &'a str>) -> bool {
    let mut owners = owners.into_iter();
    owners.next().is_some_and(|first| owners.any(|other| other != first))
}

/// The storage drivers that have registered with a node's kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CsiNode {
    pub(crate) name: String,
    pub(crate) drivers: Vec<String>,
}

/// A volume that a driver is attaching to a node, or has attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttachedVolume {
    pub(crate) node: String,
    pub(crate) driver: String,
    /// Name of the `PersistentVolume`; empty for another kind of volume.
    pub(crate) volume: String,
    pub(crate) attached: bool,
}

/// An event that the kubelet reported about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodEvent {
    pub(crate) namespace: String,
    /// Name of the pod.
    pub(crate) pod: String,
    /// Empty if unknown.
    pub(crate) uid: String,
    /// `FailedCreatePodSandBox`
    pub(crate) reason: String,
    pub(crate) message: String,
    /// Time of the last report.
    pub(crate) at: Option<Timestamp>,
}

impl PodEvent {
    /// Whether the event is about this pod, and not about an earlier one of the same name.
    pub(crate) fn is_of(&self, pod: &StartingPod) -> bool {
        let is_same = self.uid.is_empty() || pod.uid.is_empty() || self.uid == pod.uid;
        is_same && (&self.namespace, &self.pod) == (&pod.namespace, &pod.name)
    }
}

/// A pod that would have to leave its machine if that were drained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BoundPod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) node: String,
    pub(crate) labels: Shared<BTreeMap<String, String>>,
    pub(crate) needs: Shared<Needs>,
    /// Names of its `PersistentVolumeClaim`s.
    pub(crate) claims: Vec<String>,
    /// Whether the annotation `kubernetes.io/config.mirror` is present.
    pub(crate) mirror: bool,
    /// Kind and name of the owner that controls it. Only Kubernetes' own kind is named `DaemonSet`; one of another group is
    /// `DaemonSet.GROUP`.
    pub(crate) controller: Option<(String, String)>,
    /// `Pending`, `Running`, …
    pub(crate) phase: String,
    /// Condition `Ready` is True.
    pub(crate) ready: bool,
    pub(crate) deleting: bool,
    /// Time since the pod should have been gone, by the clock of the server that listed it; `None` if unknown.
    pub(crate) overdue: Option<Duration>,
    /// Grace period for its termination.
    pub(crate) grace: Duration,
    /// Whether the pod has an `emptyDir` volume.
    pub(crate) has_empty_dir: bool,
}

/// Amounts by resource: `cpu` in thousandths, all others in whole units, and `pods`.
pub(crate) type Amounts = BTreeMap<String, u64>;

/// Requirements of a pod on its node, which all pods of a workload share.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Needs {
    /// Requests as the scheduler counts them; `None` if a quantity cannot be parsed.
    pub(crate) requests: Option<Amounts>,
    pub(crate) placement: Placement,
}

/// Constraints on the nodes of a pod, as far as they do not depend on other pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Placement {
    /// `nodeSelector`
    pub(crate) labels: BTreeMap<String, String>,
    /// Required node affinity: one of these terms has to be met in full. `None` if nothing is required.
    pub(crate) terms: Option<Vec<Term>>,
    /// Tolerations; for a single pod, without those of Kubernetes' own taints: a node that is not ready accepts no pod.
    pub(crate) tolerations: Vec<Toleration>,
}

impl Placement {
    /// Whether `nodeSelector` and the required node affinity allow this node; `None` if an operator is unknown.
    pub(crate) fn selects(&self, node: &str, labels: &BTreeMap<String, String>) -> Option<bool> {
        let is_selected = self.labels.iter().all(|(key, value)| labels.get(key) == Some(value));
        let Some(terms) = self.terms.as_ref().filter(|_| is_selected) else { return Some(is_selected) };
        Term::any_is_met_by(terms, node, labels)
    }

    pub(crate) fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|toleration| toleration.tolerates(taint))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Term {
    /// `matchExpressions`
    pub(crate) labels: Vec<Requirement>,
    /// `matchFields`
    pub(crate) fields: Vec<Requirement>,
}

impl Term {
    /// Whether a node of this name and with these labels meets one of the terms; `None` if an operator is unknown.
    pub(crate) fn any_is_met_by(terms: &[Self], node: &str, labels: &BTreeMap<String, String>) -> Option<bool> {
        let mut any = false;
        for term in terms {
            any |= term.is_met_by(node, labels)?;
        }
        Some(any)
    }

    /// Whether a node meets the term. No node meets an empty one.
    fn is_met_by(&self, node: &str, labels: &BTreeMap<String, String>) -> Option<bool> {
        let mut all = !self.labels.is_empty() || !self.fields.is_empty();
        for it in &self.labels {
            all &= it.is_met_by(labels.get(&it.key).map(String::as_str))?;
        }
        for it in &self.fields {
            all &= it.is_met_by((it.key == "metadata.name").then_some(node))?;
        }
        Some(all)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Toleration {
    /// Empty matches any.
    pub(crate) key: String,
    /// `Equal`, `Exists`; empty is `Equal`.
    pub(crate) operator: String,
    pub(crate) value: String,
    /// Empty matches any.
    pub(crate) effect: String,
}

impl Toleration {
    fn tolerates(&self, taint: &Taint) -> bool {
        let Self { key, operator, value, effect } = self;
        let is_equal = || matches!(operator.as_str(), "" | "Equal") && *value == taint.value;
        (effect.is_empty() || *effect == taint.effect)
            && (*key == taint.key || (key.is_empty() && operator == "Exists"))
            && (operator == "Exists" || is_equal())
    }
}

/// A node from the scheduler's point of view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeRoom {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<Taint>,
    pub(crate) unschedulable: bool,
    pub(crate) deleting: bool,
    /// `None` if a quantity cannot be parsed.
    pub(crate) allocatable: Option<Amounts>,
}

/// A volume that is attached to a node, or should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeAttachment {
    pub(crate) name: String,
    pub(crate) node: String,
    /// Name of the `PersistentVolume`; empty for another kind of volume.
    pub(crate) volume: String,
    /// Reason why the volume could not be detached.
    pub(crate) detach_error: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PersistentVolume {
    /// Namespace and name of the claim that it is bound to.
    pub(crate) claim: Option<(String, String)>,
    /// Nodes that can reach the volume: one of these terms has to be met in full. `None` if the volume specifies none, so every node can.
    pub(crate) terms: Option<Vec<Term>>,
}

/// Deprecated APIs that were requested from an API server since its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestedApis {
    pub(crate) started: Timestamp,
    pub(crate) apis: Vec<RequestedApi>,
}

/// A deprecated API that was requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestedApi {
    /// Empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    /// `1.32`; empty if not announced.
    pub(crate) removed: String,
}

/// A `PodDisruptionBudget`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DisruptionBudget {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// `None` if the budget has no selector and selects nothing. An empty one selects every pod of the namespace.
    pub(crate) selector: Option<Vec<Requirement>>,
    /// `unhealthyPodEvictionPolicy: AlwaysAllow`
    pub(crate) always_allows_unready: bool,
    /// Whether a controller created the budget and may change it at any time.
    pub(crate) is_operated: bool,
    pub(crate) generation: i64,
    pub(crate) observed_generation: i64,
    pub(crate) disruptions_allowed: i32,
    pub(crate) current_healthy: i32,
    pub(crate) desired_healthy: i32,
    /// Reason why its controller cannot determine how many pods it needs, and allows no disruption.
    pub(crate) sync_failed: Option<String>,
}

/// A DaemonSet, a Deployment or a `StatefulSet`, which keeps pods running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Workload {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) generation: i64,
    pub(crate) observed_generation: Option<i64>,
    /// Number of pods that it should have.
    pub(crate) desired: i32,
    pub(crate) available: i32,
    /// Pods of the newest template; `None` if pods of an older one may stay.
    pub(crate) updated: Option<i32>,
    /// Pods of an older template that still exist.
    pub(crate) outdated: i32,
    /// Reason why the controller gave up on a rollout (Progressing is False), in its own words.
    pub(crate) given_up: Option<String>,
    /// Reason why the controller cannot create pods (`ReplicaFailure`), in the API server's words.
    pub(crate) refused: Option<String>,
    /// Time since its specification or its status last changed, by the clock of the server that answered; `None` if unknown.
    pub(crate) unchanged_for: Option<Duration>,
    /// Whether the workload installs a network plugin on the nodes.
    pub(crate) installs_network: bool,
    /// Whether its pods register a driver with the kubelet of each node, as CSI drivers do.
    pub(crate) registers_driver: bool,
    /// Whether its pods have one of Kubernetes' own priority classes, which mark pods that the cluster needs.
    pub(crate) is_critical: bool,
    /// Placement of a DaemonSet's pods.
    pub(crate) spread: Spread,
    /// Flags of kube-proxy, if this is its DaemonSet.
    pub(crate) flags: Option<Flags>,
}

/// Placement of a DaemonSet's pods and the limits of its rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spread {
    pub(crate) placement: Placement,
    /// Whether the pods have no network of their own, and so need none on the node.
    pub(crate) host_network: bool,
    /// Number of pods that may be missing during a rollout.
    pub(crate) max_unavailable: usize,
}

/// Whether a pod in this phase has ended: it stays until it is deleted, does nothing and takes no room, and was replaced if it was evicted.
pub(crate) fn has_ended(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed")
}

impl Workload {
    /// Whether the status counts reflect the current specification.
    pub(crate) fn is_observed(&self) -> bool {
        self.observed_generation.is_some_and(|observed| observed >= self.generation)
    }

    /// Returns the number of pods that it should have.
    pub(crate) fn replicas(&self) -> usize {
        usize::try_from(self.desired).unwrap_or_default()
    }

    /// Returns the number of pods that are not available.
    pub(crate) fn missing(&self) -> usize {
        usize::try_from(i64::from(self.desired) - i64::from(self.available.max(0))).unwrap_or_default()
    }

    /// Returns the state of an incomplete rollout: `rollout not complete: 1 of 4 pods updated`. Up to `excused` pods may lack the newest
    /// template, but no pods of a former one may be left.
    pub(crate) fn rollout(&self, excused: usize) -> Option<String> {
        let Self { desired, outdated, .. } = self;
        let updated = self.updated?;
        let missing = usize::try_from(i64::from(*desired) - i64::from(updated)).unwrap_or_default();
        if missing > excused {
            return Some(format!("rollout not complete: {updated} of {desired} pods updated"));
        }
        let plural = if *outdated == 1 { "" } else { "s" };
        (*outdated > 0).then(|| format!("rollout not complete: {outdated} pod{plural} of the former template left"))
    }

    /// Returns the reason why it has too few pods, or none of its newest template.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.refused.as_ref().map(|words| format!("its pods cannot be created: {words}"))
    }

    /// Whether the workload belongs to a network plugin, by its name or labels.
    pub(crate) fn is_of_network_plugin(&self) -> bool {
        self.names().any(|name| NETWORK_PLUGINS.contains(&name))
    }

    /// Whether the workload is flannel's, or that of a plugin that uses flannel as its overlay.
    pub(crate) fn is_flannel(&self) -> bool {
        self.names().any(|name| ["canal", "flannel", "kube-flannel", "kube-flannel-ds"].contains(&name))
    }

    /// Returns its own name and the names in its labels.
    fn names(&self) -> impl Iterator<Item = &str> {
        let keys = ["k8s-app", "app", "component", "app.kubernetes.io/name", "name"];
        let labels = keys.into_iter().filter_map(|key| self.labels.get(key));
        labels.chain([&self.name]).map(String::as_str)
    }

    /// Whether the workload gives pods their network. Other DaemonSets of a plugin assist it, or sit between it and the kubelet.
    pub(crate) fn is_network_agent(&self) -> bool {
        self.is_of_network_plugin() && !BESIDE_AGENTS.contains(&self.name.as_str())
    }
}

/// DaemonSets of network plugins, by name or label. All workloads in their namespaces belong to the plugin. Any other plugin is recognized
/// by its DaemonSet's mounts, and only that DaemonSet is known to belong to it.
const NETWORK_PLUGINS: [&str; 13] = [
    "antrea-agent",
    "calico-node",
    "canal",
    "cilium",
    "flannel",
    "kube-flannel",
    "kube-flannel-ds",
    "kube-multus-ds",
    "kube-ovn-cni",
    "kube-router",
    "ovnkube-node",
    "ovs-ovn",
    "weave-net",
];

/// DaemonSets in [`NETWORK_PLUGINS`] that do not give pods a network on their own.
const BESIDE_AGENTS: [&str; 2] = ["kube-multus-ds", "ovs-ovn"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceEndpoint {
    /// Namespace of its Service.
    pub(crate) namespace: String,
    /// Name of its Service; empty if the slice does not name one.
    pub(crate) service: String,
    pub(crate) addresses: Vec<String>,
    pub(crate) ready: bool,
    pub(crate) node: Option<String>,
    /// Pod behind the endpoint; a pod has an endpoint for each of its address families. `None` if there is no such pod.
    pub(crate) pod: Option<String>,
    /// The first TCP port of its slice.
    pub(crate) port: Option<u16>,
    /// `TCP`, `UDP`: protocols of its slice's ports; `None` if the slice names no ports.
    pub(crate) protocols: Option<Vec<String>>,
}

impl ServiceEndpoint {
    /// Whether clients of this protocol are sent to the endpoint. None are if it has no port for the protocol.
    pub(crate) fn serves(&self, protocol: &str) -> bool {
        let has_port = self.protocols.as_ref().is_none_or(|protocols| protocols.iter().any(|it| it == protocol));
        self.ready && !self.addresses.is_empty() && has_port
    }
}

/// A certificate signing request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SigningRequest {
    pub(crate) name: String,
    /// Requested signer: `kubernetes.io/kubelet-serving`, `example.com/anything`.
    pub(crate) signer: String,
    /// Name in the requested certificate, `system:node:NAME`; if it cannot be read, the user that sent the request:
    /// `system:bootstrap:TOKEN-ID`.
    pub(crate) user: String,
    pub(crate) state: RequestState,
}

impl SigningRequest {
    /// Returns the Node that the request is for; `None` if unknown.
    pub(crate) fn node_name(&self) -> Option<&str> {
        self.user.strip_prefix("system:node:")
    }
}

/// The state of a certificate signing request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RequestState {
    /// Not yet approved or denied.
    Pending,
    /// Approved, but its signer has not issued the certificate, or refuses to.
    Unissued,
    Denied,
    /// Issued.
    Settled,
}

/// An admission webhook of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Webhook {
    /// Name of the configuration.
    pub(crate) configuration: String,
    pub(crate) name: String,
    /// `failurePolicy` is not `Ignore`.
    pub(crate) fails_closed: bool,
    /// Namespace and name; `None` if the webhook is called by URL.
    pub(crate) service: Option<(String, String)>,
    pub(crate) rules: Vec<WebhookRule>,
    /// `namespaceSelector`
    pub(crate) namespaces: Vec<Requirement>,
    /// `objectSelector`
    pub(crate) objects: Vec<Requirement>,
    /// Whether the webhook has `matchConditions`.
    pub(crate) is_conditional: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebhookRule {
    pub(crate) groups: Vec<String>,
    /// `pods`, `pods/status`, `*/*`
    pub(crate) resources: Vec<String>,
    /// `CREATE`, `UPDATE`, `DELETE`, `CONNECT`, `*`
    pub(crate) operations: Vec<String>,
    /// `Cluster`, `Namespaced`, `*`
    pub(crate) scope: String,
}

/// A requirement of a label selector or of a node selector.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Requirement {
    pub(crate) key: String,
    /// Operator: `In`, `NotIn`, `Exists`, `DoesNotExist`; for nodes also `Gt`, `Lt`
    pub(crate) operator: String,
    pub(crate) values: Vec<String>,
}

impl Requirement {
    /// Whether an object whose label of this key has that value meets the requirement; `None` if the operator is unknown.
    pub(crate) fn is_met_by(&self, value: Option<&str>) -> Option<bool> {
        let is_among = value.is_some_and(|value| self.values.iter().any(|wanted| wanted == value));
        Some(match self.operator.as_str() {
            "In" => is_among,
            "NotIn" => !is_among,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" | "Lt" => {
                let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
                let (is, than) = (number(value), number(self.values.first().map(String::as_str)));
                is.zip(than).is_some_and(|(is, than)| if self.operator == "Gt" { is > than } else { is < than })
            }
            _ => return None,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiService {
    /// `v1beta1.metrics.k8s.io`
    pub(crate) name: String,
    /// Namespace and name of the Service behind it. `None` if the API server serves the API itself.
    pub(crate) service: Option<(String, String)>,
    /// Condition `Available`.
    pub(crate) available: Option<Condition>,
    /// Endpoints of the Service, requested only if the API is not available. They only explain why, so no check reports that they are
    /// missing.
    pub(crate) backends: Observed<Vec<ServiceEndpoint>>,
}

impl ApiService {
    pub(crate) fn is_available(&self) -> bool {
        self.available.as_ref().is_some_and(|condition| condition.status == "True")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixture::kube_node;

    #[test]
    fn a_node_runs_what_its_image_or_its_kernel_names() {
        use System::{Another, Talos, Untold, Virtual};
        let of = |os_image: &str, kernel: &str| {
            let mut node = kube_node(0, "w-1");
            node.become_virtual();
            (node.os_image, node.kernel) = (os_image.to_owned(), kernel.to_owned());
            let alone = node.system();
            "7".clone_into(&mut node.boot_id);
            (alone, node.system())
        };
        for (os_image, kernel, expected) in [
            ("Talos (v1.13.0)", "6.18.44-talos", (Talos, Talos)),
            ("Talos Enterprise (v1.13.0)", "", (Talos, Talos)),
            ("Talos Enterprise (v1.13.0-beta.1)", "6.8.0-generic", (Talos, Talos)),
            ("Our own (v1.13.0)", "6.18.44-talos", (Talos, Talos)),
            ("", "6.18.44-talos", (Talos, Talos)),
            ("Talos", "", (Untold, Untold)),
            ("", "", (Virtual, Untold)),
            ("Debian GNU/Linux 13 (trixie)", "", (Another, Another)),
            ("Debian (v13) Talos (v1.13.0)", "6.12.0", (Another, Another)),
            ("", "6.8.0-generic", (Another, Another)),
        ] {
            assert_eq!(of(os_image, kernel), expected, "{os_image:?} {kernel:?}");
        }
        let mut node = kube_node(0, "w-1");
        "Talos Enterprise (v1.13.0)".clone_into(&mut node.os_image);
        assert_eq!(node.talos_tag(), Some("v1.13.0"));
    }
}
