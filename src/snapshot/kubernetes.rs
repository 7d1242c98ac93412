//! What Kubernetes tells.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Certificate, Flags, Gap, GapKind, Observed, PodState, Served, Validity};
use crate::model::Shared;

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
    /// Whether each address takes connections, if the name of the endpoint has several and is reached without a proxy; else empty.
    pub(crate) endpoint_addresses: Vec<(SocketAddr, Observed<()>)>,
    /// `/readyz?verbose` of each control plane's own API server, by node name.
    pub(crate) servers: BTreeMap<String, Observed<Readyz>>,
    pub(crate) nodes: Observed<Vec<KubeNode>>,
    /// Leases of namespace `kube-node-lease`, by name (= node name).
    pub(crate) node_leases: Observed<Leases>,
    /// Leases of namespace `kube-system`, by name. Without Talos, that of a component with static pods in another namespace alone is the
    /// one from there if it was renewed later.
    pub(crate) system_leases: Observed<Leases>,
    /// Pods of namespace `kube-system`. Without Talos, the static pods of other namespaces as well.
    pub(crate) pods: Observed<Vec<Pod>>,
    /// Static pods of the users' own on workers, by namespace and name. `None`: there is no such pod.
    pub(crate) user_pods: BTreeMap<(String, String), Observed<Option<Pod>>>,
    /// DaemonSets of namespace `kube-system` and of those of the network plugin, and all that register a driver with the kubelets.
    pub(crate) daemon_sets: Observed<Vec<Workload>>,
    /// Deployments of the same namespaces.
    pub(crate) deployments: Observed<Vec<Workload>>,
    /// `StatefulSet`s of the same namespaces.
    pub(crate) stateful_sets: Observed<Vec<Workload>>,
    /// The namespaces of the network plugin beside `kube-system`; a gap if not all of theirs, or of drivers, is in the lists above and
    /// below.
    pub(crate) plugin_namespaces: Observed<Vec<String>>,
    /// Pods of these namespaces, and those of drivers' DaemonSets that lack some.
    pub(crate) plugin_pods: Vec<Pod>,
    /// Pods of all namespaces that were given to a node and have no sandbox, or have lost it.
    pub(crate) starting_pods: Observed<Vec<StartingPod>>,
    /// Pods of the same list that have a sandbox and wait for an image.
    pub(crate) pulling_pods: Vec<PullingPod>,
    /// Pods of the same list that have no node, for a reason that a scheduler or the user gives.
    pub(crate) unplaced_pods: Vec<UnplacedPod>,
    /// The drivers that each node's kubelet knows; asked for while several pods of a node wait for volumes.
    pub(crate) csi_nodes: Observed<Vec<CsiNode>>,
    /// The volumes that drivers attach to nodes; asked for along with the drivers.
    pub(crate) attached_volumes: Observed<Vec<AttachedVolume>>,
    /// Sandboxes that could not be created; with all else that happened to pods if one of those is late.
    pub(crate) pod_events: Observed<Vec<PodEvent>>,
    /// Pods of all namespaces that are bound to a node and have not finished.
    pub(crate) bound_pods: Observed<Vec<BoundPod>>,
    pub(crate) disruption_budgets: Observed<Vec<DisruptionBudget>>,
    /// What each node has room for.
    pub(crate) node_room: Observed<Vec<NodeRoom>>,
    pub(crate) volume_attachments: Observed<Vec<VolumeAttachment>>,
    pub(crate) persistent_volumes: Observed<Vec<PersistentVolume>>,
    /// What was requested of each control plane's own API server, by node name; of one that was not seen, why.
    /// If no machine runs any, as far as Kubernetes alone tells: of whichever is behind the endpoint, by its URL.
    pub(crate) requested_apis: BTreeMap<String, Observed<RequestedApis>>,
    /// Endpoints of the Service `kube-system/kube-dns`, from its EndpointSlices. Without Talos, those of all Services with a label of
    /// cluster DNS; one that has none is shown by an endpoint without addresses.
    pub(crate) dns_endpoints: Observed<Vec<ServiceEndpoint>>,
    /// Endpoints of the Service `default/kubernetes`.
    pub(crate) api_endpoints: Observed<Vec<ServiceEndpoint>>,
    /// All requests for certificates, whoever asks and whatever has become of them.
    pub(crate) signing_requests: Observed<Vec<SigningRequest>>,
    pub(crate) validating_webhooks: Observed<Vec<Webhook>>,
    pub(crate) mutating_webhooks: Observed<Vec<Webhook>>,
    /// Webhooks that convert objects of custom resources, by the definition's name. Read once in a run.
    pub(crate) conversions: Observed<Vec<Webhook>>,
    /// Endpoints of each Service that a webhook names, by namespace and name.
    pub(crate) webhook_endpoints: BTreeMap<(String, String), Observed<Vec<ServiceEndpoint>>>,
    pub(crate) api_services: Observed<Vec<ApiService>>,
    /// `gitVersion` of the API server behind the endpoint, without Talos.
    pub(crate) version: Observed<String>,
    /// UID of the namespace kube-system, which stands for the cluster. Asked by `upgrade-plan` only.
    pub(crate) cluster_uid: Observed<String>,
    /// What a policy requires something of, by the id of the entry.
    pub(crate) required: BTreeMap<String, Observed<Served>>,
}

impl Kubernetes {
    /// Pods of `kube-system` and of the network plugin that could be read.
    pub(crate) fn all_pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().flatten().chain(&self.plugin_pods)
    }

    /// The questions that were refused (403), each with the words of its refusal.
    pub(crate) fn refusals(&self) -> BTreeMap<String, &str> {
        let servers = self.servers.iter().map(|(node, server)| (format!("/readyz of {node}"), server));
        let readyz =
            [("/readyz".to_owned(), &self.endpoint)].into_iter().chain(servers).filter_map(|(what, answer)| {
                let refusal = answer.as_ref().ok().filter(|readyz| readyz.status == 403)?;
                Some((what, &*refusal.text))
            });
        let lists = [
            ("allocatable of nodes", self.node_room.as_ref().err()),
            ("volumeattachments", self.volume_attachments.as_ref().err()),
            ("persistentvolumes", self.persistent_volumes.as_ref().err()),
            ("nodes", self.nodes.as_ref().err()),
            ("leases of kube-node-lease", self.node_leases.as_ref().err()),
            ("leases of kube-system", self.system_leases.as_ref().err()),
            ("pods", self.pods.as_ref().err()),
            ("daemonsets", self.daemon_sets.as_ref().err()),
            ("deployments", self.deployments.as_ref().err()),
            ("statefulsets", self.stateful_sets.as_ref().err()),
            ("workloads of the network plugin", self.plugin_namespaces.as_ref().err()),
            ("starting pods", self.starting_pods.as_ref().err()),
            ("csinodes", self.csi_nodes.as_ref().err()),
            ("volumeattachments of waiting pods", self.attached_volumes.as_ref().err()),
            ("events", self.pod_events.as_ref().err()),
            ("bound pods", self.bound_pods.as_ref().err()),
            ("poddisruptionbudgets", self.disruption_budgets.as_ref().err()),
            ("endpointslices of kube-dns", self.dns_endpoints.as_ref().err()),
            ("endpointslices of kubernetes", self.api_endpoints.as_ref().err()),
            ("certificatesigningrequests", self.signing_requests.as_ref().err()),
            ("validatingwebhookconfigurations", self.validating_webhooks.as_ref().err()),
            ("mutatingwebhookconfigurations", self.mutating_webhooks.as_ref().err()),
            ("customresourcedefinitions", self.conversions.as_ref().err()),
            ("endpointslices of webhooks", self.webhook_endpoints.values().find_map(|it| it.as_ref().err())),
            ("apiservices", self.api_services.as_ref().err()),
            ("/version", self.version.as_ref().err()),
        ];
        let lists = lists.into_iter().map(|(what, gap)| (what.to_owned(), gap));
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
    /// The files that it was read from; none of a pod's or of Talos.
    pub(crate) files: Vec<PathBuf>,
    /// The user named it on the command line.
    pub(crate) explicit: bool,
    pub(crate) context: String,
    /// `https://host:port`.
    pub(crate) server: String,
    /// Validity of the CA, see [`TalosCredentials::ca`]; also `None` if the kubeconfig leaves the CA to the system.
    ///
    /// [`TalosCredentials::ca`]: super::TalosCredentials::ca
    pub(crate) ca: Option<Validity>,
    /// `None`: token, exec plugin or other.
    pub(crate) certificate: Option<Certificate>,
}

/// The source of a kubeconfig that Talos has handed out for this run.
pub(crate) const MINTED: &str = "Talos API (os:admin)";

impl KubernetesCredentials {
    pub(crate) fn is_minted(&self) -> bool {
        self.source == MINTED
    }
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
    /// Validity of the certificate that the server presented on this connection; `None` if it could not be read.
    pub(crate) certificate: Option<Validity>,
    /// Why the certificate does not prove the address that was dialed, if the server proved to be the machine's API server by its name.
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
    /// Where flannel on other nodes sends what is for its pods; none without flannel.
    pub(crate) overlay: Vec<String>,
    /// Whether the user has set that address.
    pub(crate) overlay_is_set: bool,
    pub(crate) labels: BTreeMap<String, String>,
    /// `nodeInfo.machineID`; on Talos it is made from the machine's identity. Empty if not told.
    pub(crate) machine_id: String,
    /// `nodeInfo.bootID`, another one after each boot. Empty if not told.
    pub(crate) boot_id: String,
    /// `node-role.kubernetes.io/control-plane` is present.
    pub(crate) control_plane_label: bool,
    pub(crate) os_image: String,
    /// Version of the kernel; of Talos' own, it ends in `-talos`. Empty if not told.
    pub(crate) kernel: String,
    /// `v1.35.4`; empty if not told.
    pub(crate) kubelet_version: String,
    pub(crate) unschedulable: bool,
    /// Annotation `talos.dev/cordoned=true`.
    pub(crate) cordoned_by_talos: bool,
    /// Since when it has the taint that Kubernetes gives to a cordoned node.
    pub(crate) cordoned_since: Option<Timestamp>,
    pub(crate) taints: Vec<Taint>,
    /// Ranges that its pods have their addresses from, one of each family; none where the network plugin hands out its own.
    pub(crate) pod_cidrs: Vec<String>,
    /// Resources among `cpu`, `memory` and `pods` of which nothing is allocatable.
    pub(crate) out_of: Vec<String>,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) deleting: bool,
    /// Since when somebody is removing it: it is being deleted, or the cluster autoscaler has marked it. `None`: nobody is, or that
    /// is not told.
    pub(crate) leaving_since: Option<Timestamp>,
    /// `Date` of the answer that it is from.
    pub(crate) told: Option<Timestamp>,
    pub(crate) created: Option<Timestamp>,
}

/// The operating system of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    Talos,
    /// The image or the kernel is another system's.
    Another,
    /// No machine: neither a system nor a machine or boot ID is told. Such are the nodes of kwok and of virtual kubelets.
    Virtual,
    /// A machine that does not tell. It is judged as if it were Talos.
    Untold,
}

/// How Kubernetes' own taints begin: of nodes that are not ready, under pressure, cordoned or out of service.
pub(crate) const OWN_TAINTS: &str = "node.kubernetes.io/";

/// Taint of a node that the cluster autoscaler is about to delete. Its value is the time at which that began.
pub(crate) const AUTOSCALER_TAINT: &str = "ToBeDeletedByClusterAutoscaler";

/// Time that a removal may take, in which the node is not judged.
const REMOVAL: Duration = Duration::from_secs(30 * 60);
/// So far apart may the clocks be of whoever marks a node for removal and of the API server.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_mins(1);

impl KubeNode {
    /// What the node runs, by its own words alone.
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

    /// The version in `Talos (v1.13.0)`. The name before it is chosen by whoever builds Talos: `Talos Enterprise (v1.13.0)`.
    pub(crate) fn talos_tag(&self) -> Option<&str> {
        let (name, tag) = self.os_image.split_once('(')?;
        (name.starts_with("Talos") && tag.starts_with('v')).then(|| tag.trim_end_matches(')'))
    }

    /// Whether it runs Windows, for which there are other DaemonSets.
    pub(crate) fn is_windows(&self) -> bool {
        self.os_image.contains("Windows") || self.labels.get("kubernetes.io/os").is_some_and(|os| os == "windows")
    }

    /// Makes it a node as kwok and virtual kubelets register it.
    #[cfg(test)]
    pub(crate) fn become_virtual(&mut self) {
        for told in [&mut self.os_image, &mut self.kernel, &mut self.machine_id, &mut self.boot_id] {
            told.clear();
        }
    }

    /// The kubelet of this machine has registered it: both show the identity that Talos has given to the machine.
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

    /// Somebody has begun to remove it, and not long ago. A mark whose age is not known, by the server's clock, excuses nothing.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving_for().is_some_and(|age| age <= REMOVAL)
    }

    /// A mark of the future is as good as one whose age is not known, unless two clocks explain it.
    pub(crate) fn leaving_for(&self) -> Option<Duration> {
        let age = self.told.zip(self.leaving_since).map(|(now, since)| now.duration_since(since))?;
        (age >= -CLOCKS_DIFFER).then(|| age.max(SignedDuration::ZERO).unsigned_abs())
    }

    /// What the Node reports of its readiness, however old that is.
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
    /// Ready since this time, if the condition tells.
    Ready(Option<Timestamp>),
    NotReady,
    /// The node controller has set it, because the kubelet has stopped reporting; or there is no such condition.
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
    /// When it became so, if it says.
    pub(crate) since: Option<Timestamp>,
}

impl Condition {
    /// `False, KubeletNotReady: no network plugin`, of which it may say only a part.
    pub(crate) fn told_as(&self, what: &str) -> String {
        let separated = |separator: &str, text: &str| match text {
            "" => String::new(),
            _ => format!("{separator}{text}"),
        };
        format!("{what}{}{}", separated(", ", &self.reason), separated(": ", &self.message))
    }
}

/// How far a status is from the good one. Nothing keeps whoever writes conditions from writing one twice: the worse one counts.
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
    /// `Date` header of the answer; `None` if it had none. Of a list of several pages, of the first one.
    pub(crate) date: Option<Timestamp>,
    /// `Date` header of the last page: none of the leases was written later.
    pub(crate) last_date: Option<Timestamp>,
    pub(crate) by_name: BTreeMap<String, Lease>,
}

impl Leases {
    /// The identity leases of API servers, those of former processes included.
    pub(crate) fn of_api_servers(&self) -> impl Iterator<Item = &Lease> {
        self.by_name.iter().filter(|(name, _)| name.starts_with("apiserver-")).map(|(_, lease)| lease)
    }

    /// The same answer: neither the clock of the server nor any lease has moved.
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
    /// How long it is good for without being renewed, if it says so.
    pub(crate) lasts: Option<Duration>,
    /// Upper bound on the time between the last renewal and this reading: that long before, an earlier sample of this run had
    /// another resource version. `None`: no two samples show a renewal.
    pub(crate) moved_within: Option<Duration>,
    /// The time between the earliest sample of this run that showed the same resource version and this reading. `None`: there is no
    /// earlier one.
    pub(crate) still_for: Option<Duration>,
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
    /// Kind and name of the owner that controls it: a `DaemonSet`, a `ReplicaSet`, a `Node`.
    pub(crate) controller: Option<(String, String)>,
    /// What its command says of `--leader-elect`, if anything.
    pub(crate) leader_elect: Option<bool>,
    /// What a component of the control plane is started with, if this is its static pod.
    pub(crate) flags: Option<Flags>,
    /// How long it has not been ready, by the clock of the server that answered. `None`: it is ready, or nothing says since when
    /// it is not.
    pub(crate) unready_for: Option<Duration>,
    /// Pod IPs that the kubelet has reported, one of each family.
    pub(crate) addresses: Vec<String>,
    pub(crate) state: PodState,
}

impl Pod {
    /// Whether its labels name this component.
    pub(crate) fn is_labeled(&self, component: &str) -> bool {
        ["component", "k8s-app"].iter().any(|key| self.labels.get(*key).is_some_and(|value| value == component))
    }

    /// Whether this is the mirror pod of an API server, whatever its namespace is.
    pub(crate) fn is_api_server(&self) -> bool {
        self.is_mirror_of("kube-apiserver")
    }

    /// Whether this is the mirror pod of a component, by its name, its labels or what it runs.
    pub(crate) fn is_mirror_of(&self, component: &str) -> bool {
        let node = self.node.as_deref();
        let is_named = self.name.strip_prefix(component).and_then(|rest| rest.strip_prefix('-')) == node;
        let runs_it = || self.state.containers.iter().any(|container| container.name == component);
        self.mirror && node.is_some() && (is_named || self.is_labeled(component) || runs_it())
    }
}

/// A pod that a node should run and that has no sandbox, so that none of its containers runs; or one that nobody has given to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StartingPod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// UID, which distinguishes pods of the same name.
    pub(crate) uid: String,
    /// `None`: no scheduler has considered it.
    pub(crate) node: Option<String>,
    /// Kubernetes' own scheduler places it, and no other one.
    pub(crate) by_default_scheduler: bool,
    /// Since it was created, was given to the node or lost its sandbox, by the clock of the server that answered; `None` if nothing
    /// says.
    pub(crate) waiting_for: Option<Duration>,
    /// When it lost the sandbox that it had, as its kubelet says.
    pub(crate) lost_at: Option<Timestamp>,
    /// Whether the pod has volumes that must be provided: a Secret, a disk. They are mounted before the sandbox is created.
    pub(crate) has_own_volumes: bool,
    /// Whether one of these is attached or mounted by a storage driver, and not made from an object of the API.
    pub(crate) mounts_storage: bool,
    /// Workload that the pod belongs to, or else the pod itself.
    pub(crate) owner: String,
    /// A pod that was given to the node later, or at least has got its sandbox later than this one began to wait.
    pub(crate) overtaken_by: Option<String>,
    /// What its own status says.
    pub(crate) says: String,
}

impl StartingPod {
    /// A sandbox takes a second or two, and a scheduler may have thousands of pods before it. What nobody can tell the age of may be
    /// late.
    pub(crate) fn is_late(&self) -> bool {
        let limit = Duration::from_secs(if self.node.is_some() { 60 } else { 300 });
        self.waiting_for.is_none_or(|waiting| waiting >= limit)
    }
}

/// Pods that have waited for this long wait for something that does not come by itself.
pub(crate) const WAITED: Duration = Duration::from_secs(300);

/// A pod that has a sandbox, and whose next container has no image yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PullingPod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) node: String,
    /// Workload that the pod belongs to, or else the pod itself.
    pub(crate) owner: String,
    /// Image, as the pod specifies it.
    pub(crate) image: String,
    /// Since it was given to the node, by the clock of the server that answered; `None` if nothing says.
    pub(crate) waiting_for: Option<Duration>,
    /// What its own status says.
    pub(crate) says: String,
    /// Name of a different node on which a container of this image runs. Looked for only while many pods of a node wait.
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

/// A pod that no node was found for, or that is not to have one yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnplacedPod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Since it was created, by the clock of the server that answered; `None` if nothing says.
    pub(crate) waiting_for: Option<Duration>,
    /// Why: `Unschedulable`, `SchedulingGated`, `another scheduler`
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

/// A volume that a driver attaches to a node, or has attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttachedVolume {
    pub(crate) node: String,
    pub(crate) driver: String,
    /// Name of the `PersistentVolume`; empty: another kind of volume.
    pub(crate) volume: String,
    pub(crate) attached: bool,
}

/// What the kubelet has reported of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodEvent {
    pub(crate) namespace: String,
    /// Name of the pod.
    pub(crate) pod: String,
    /// Empty if nothing says.
    pub(crate) uid: String,
    /// `FailedCreatePodSandBox`
    pub(crate) reason: String,
    pub(crate) message: String,
    /// When it was reported for the last time.
    pub(crate) at: Option<Timestamp>,
}

impl PodEvent {
    /// Whether the event is about this pod, and not an earlier one of its name.
    pub(crate) fn is_of(&self, pod: &StartingPod) -> bool {
        let is_same = self.uid.is_empty() || pod.uid.is_empty() || self.uid == pod.uid;
        is_same && (&self.namespace, &self.pod) == (&pod.namespace, &pod.name)
    }
}

/// A pod that would have to leave a machine that is drained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BoundPod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) node: String,
    pub(crate) labels: Shared<BTreeMap<String, String>>,
    pub(crate) needs: Shared<Needs>,
    /// Names of its `PersistentVolumeClaim`s.
    pub(crate) claims: Vec<String>,
    /// Carries `kubernetes.io/config.mirror`.
    pub(crate) mirror: bool,
    /// Kind and name of the owner that controls it. Only Kubernetes' own `DaemonSet` is called so: one of another group is `DaemonSet.GROUP`.
    pub(crate) controller: Option<(String, String)>,
    /// `Pending`, `Running`, …
    pub(crate) phase: String,
    /// Condition `Ready` is True.
    pub(crate) ready: bool,
    pub(crate) deleting: bool,
    /// How long ago it should have been gone, by the clock of the server that listed it; `None`: nothing says so.
    pub(crate) overdue: Option<Duration>,
    /// Time that it is given to stop.
    pub(crate) grace: Duration,
    /// Whether the pod has an `emptyDir` volume.
    pub(crate) has_empty_dir: bool,
}

/// Amounts by resource: `cpu` in thousandths, all others in whole units, and `pods`.
pub(crate) type Amounts = BTreeMap<String, u64>;

/// What a pod asks of a node, which is the same of all pods of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Needs {
    /// Requests as the scheduler counts them; `None`: a quantity cannot be read.
    pub(crate) requests: Option<Amounts>,
    pub(crate) placement: Placement,
}

/// Where a pod may be, as far as that is not a matter of other pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Placement {
    /// `nodeSelector`
    pub(crate) labels: BTreeMap<String, String>,
    /// What its node affinity requires: all of one of these. `None`: nothing.
    pub(crate) terms: Option<Vec<Term>>,
    /// Tolerations; for a single pod, without those of Kubernetes' own taints: a node that is not ready accepts no pod.
    pub(crate) tolerations: Vec<Toleration>,
}

impl Placement {
    /// Whether `nodeSelector` and the required node affinity let it be on this node; `None`: an operator of no known meaning.
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
    /// Whether a node of this name and with these labels meets one of them; `None`: an operator of no known meaning.
    pub(crate) fn any_is_met_by(terms: &[Self], node: &str, labels: &BTreeMap<String, String>) -> Option<bool> {
        let mut any = false;
        for term in terms {
            any |= term.is_met_by(node, labels)?;
        }
        Some(any)
    }

    /// An empty one is met by no node.
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
    /// Empty: any.
    pub(crate) key: String,
    /// `Equal`, `Exists`; empty is `Equal`.
    pub(crate) operator: String,
    pub(crate) value: String,
    /// Empty: any.
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

/// A node as the scheduler looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeRoom {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<Taint>,
    pub(crate) unschedulable: bool,
    pub(crate) deleting: bool,
    /// `None`: a quantity cannot be read.
    pub(crate) allocatable: Option<Amounts>,
}

/// A volume that is attached to a node, or should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeAttachment {
    pub(crate) name: String,
    pub(crate) node: String,
    /// Name of the `PersistentVolume`; empty: another kind of volume.
    pub(crate) volume: String,
    /// Why it could not be detached.
    pub(crate) detach_error: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PersistentVolume {
    /// Namespace and name of the claim that it is bound to.
    pub(crate) claim: Option<(String, String)>,
    /// Nodes that reach it: all of one of these. `None`: every node does, as far as it says.
    pub(crate) terms: Option<Vec<Term>>,
}

/// What an API server has counted since its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestedApis {
    pub(crate) started: Timestamp,
    pub(crate) apis: Vec<RequestedApi>,
}

/// An API that is deprecated and was requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestedApi {
    /// Empty: the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    /// `1.32`; empty: not announced.
    pub(crate) removed: String,
}

/// A `PodDisruptionBudget`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DisruptionBudget {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// `None`: it has no selector, and selects nothing. An empty one selects every pod of the namespace.
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
    /// Why its controller cannot tell how many pods it needs, and allows none to go.
    pub(crate) sync_failed: Option<String>,
}

/// What keeps pods running: a DaemonSet, a Deployment or a `StatefulSet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Workload {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) generation: i64,
    pub(crate) observed_generation: Option<i64>,
    /// Pods that it should have.
    pub(crate) desired: i32,
    pub(crate) available: i32,
    /// Pods of its newest template; `None` if those of an older one may stay.
    pub(crate) updated: Option<i32>,
    /// Pods of an older template that are still there beside them.
    pub(crate) outdated: i32,
    /// Why the controller has given up on a rollout (Progressing is False), in its own words.
    pub(crate) given_up: Option<String>,
    /// Why the controller cannot create pods (`ReplicaFailure`), in the API server's words.
    pub(crate) refused: Option<String>,
    /// How long neither its specification nor its status has changed, by the clock of the server that answered; `None` if
    /// nothing says.
    pub(crate) unchanged_for: Option<Duration>,
    /// Whether the workload installs a network plugin on the nodes.
    pub(crate) installs_network: bool,
    /// Whether its pods register a driver with the kubelet of each node, as those of CSI do.
    pub(crate) registers_driver: bool,
    /// Whether its pods have one of Kubernetes' own priority classes, which say that the cluster needs them.
    pub(crate) is_critical: bool,
    /// How a DaemonSet places its pods.
    pub(crate) spread: Spread,
    /// What kube-proxy is started with, if this is its DaemonSet.
    pub(crate) flags: Option<Flags>,
}

/// How a DaemonSet has its pods on nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spread {
    pub(crate) placement: Placement,
    /// Whether the pods have no network of their own, and so need none on the node.
    pub(crate) host_network: bool,
    /// Number of pods that may be missing during a rollout.
    pub(crate) max_unavailable: usize,
}

/// A pod in this phase stays until it is deleted, and does nothing any more: it takes no room, and has been replaced if it was evicted.
pub(crate) fn has_ended(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed")
}

impl Workload {
    /// Whether the status counts reflect the current specification.
    pub(crate) fn is_observed(&self) -> bool {
        self.observed_generation.is_some_and(|observed| observed >= self.generation)
    }

    /// Number of pods that it should have.
    pub(crate) fn replicas(&self) -> usize {
        usize::try_from(self.desired).unwrap_or_default()
    }

    /// So many pods are not available.
    pub(crate) fn missing(&self) -> usize {
        usize::try_from(i64::from(self.desired) - i64::from(self.available.max(0))).unwrap_or_default()
    }

    /// How far its rollout is, if more of its pods than these may be are not of its newest template: `rollout not complete: 1 of 4
    /// pods updated`.
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

    /// Why it has too few pods, or none of its newest template.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.refused.as_ref().map(|words| format!("its pods cannot be created: {words}"))
    }

    /// A DaemonSet of a network plugin, by its name or label.
    pub(crate) fn is_of_network_plugin(&self) -> bool {
        self.names().any(|name| NETWORK_PLUGINS.contains(&name))
    }

    /// A DaemonSet of flannel, or of a plugin that has flannel for its overlay.
    pub(crate) fn is_flannel(&self) -> bool {
        self.names().any(|name| ["canal", "flannel", "kube-flannel", "kube-flannel-ds"].contains(&name))
    }

    /// What it is called, by itself and by its labels.
    fn names(&self) -> impl Iterator<Item = &str> {
        let keys = ["k8s-app", "app", "component", "app.kubernetes.io/name", "name"];
        let labels = keys.into_iter().filter_map(|key| self.labels.get(key));
        labels.chain([&self.name]).map(String::as_str)
    }

    /// A DaemonSet that gives pods their network; others of the plugin go with it, or between it and the kubelet.
    pub(crate) fn is_network_agent(&self) -> bool {
        self.is_of_network_plugin() && !BESIDE_AGENTS.contains(&self.name.as_str())
    }
}

/// DaemonSets of network plugins, by their name or label. In their namespaces, all is theirs. Of any other plugin, its DaemonSet
/// alone is known, by what it mounts.
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

/// DaemonSets in [`NETWORK_PLUGINS`] that give pods no network by themselves.
const BESIDE_AGENTS: [&str; 2] = ["kube-multus-ds", "ovs-ovn"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceEndpoint {
    /// Namespace of its Service.
    pub(crate) namespace: String,
    pub(crate) addresses: Vec<String>,
    pub(crate) ready: bool,
    pub(crate) node: Option<String>,
    /// The pod behind it, which has an endpoint for each of its address families; `None` if there is no such pod.
    pub(crate) pod: Option<String>,
    /// The first TCP port of its slice.
    pub(crate) port: Option<u16>,
    /// `TCP`, `UDP`: protocols of the ports of its slice; `None` if that says nothing of ports.
    pub(crate) protocols: Option<Vec<String>>,
}

impl ServiceEndpoint {
    /// Whether clients that use this protocol are sent to the endpoint. Without a port for it, none are.
    pub(crate) fn serves(&self, protocol: &str) -> bool {
        let has_port = self.protocols.as_ref().is_none_or(|protocols| protocols.iter().any(|it| it == protocol));
        self.ready && !self.addresses.is_empty() && has_port
    }
}

/// A request for a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SigningRequest {
    pub(crate) name: String,
    /// Requested signer: `kubernetes.io/kubelet-serving`, `example.com/anything`.
    pub(crate) signer: String,
    /// Name in the requested certificate, `system:node:NAME`; if it cannot be read, the user that sent the request: `system:bootstrap:TOKEN-ID`.
    pub(crate) user: String,
    pub(crate) state: RequestState,
}

impl SigningRequest {
    /// The Node that the request is for; `None` if that is not known.
    pub(crate) fn node_name(&self) -> Option<&str> {
        self.user.strip_prefix("system:node:")
    }
}

/// How far a request for a certificate has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RequestState {
    /// Not yet approved or denied.
    Pending,
    /// Approved, and its signer has not issued the certificate, or refuses to.
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
    /// Namespace and name; `None`: it is called by URL.
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
    /// Whether an object whose label of this key has that value meets it; `None`: an operator of no known meaning.
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
    /// The API server answers for it itself.
    pub(crate) is_local: bool,
    /// Condition `Available`.
    pub(crate) available: Option<Condition>,
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
