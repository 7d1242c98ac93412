//! What Kubernetes tells.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::{Certificate, GapKind, Observed, PodState, Validity};

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

impl Kubernetes {
    /// The questions that were refused (403), each with the words of its refusal.
    pub(crate) fn refusals(&self) -> BTreeMap<String, &str> {
        let servers = self.servers.iter().map(|(node, server)| (format!("/readyz of {node}"), server));
        let readyz =
            [("/readyz".to_owned(), &self.endpoint)].into_iter().chain(servers).filter_map(|(what, answer)| {
                let refusal = answer.as_ref().ok().filter(|readyz| readyz.status == 403)?;
                Some((what, refusal.text.as_str()))
            });
        let lists = [
            ("nodes", self.nodes.as_ref().err()),
            ("leases of kube-node-lease", self.node_leases.as_ref().err()),
            ("leases of kube-system", self.system_leases.as_ref().err()),
            ("pods", self.pods.as_ref().err()),
            ("daemonsets", self.daemon_sets.as_ref().err()),
            ("deployments", self.deployments.as_ref().err()),
            ("endpointslices of kube-dns", self.dns_endpoints.as_ref().err()),
            ("endpointslices of kubernetes", self.api_endpoints.as_ref().err()),
            ("certificatesigningrequests", self.signing_requests.as_ref().err()),
        ];
        let lists = lists.into_iter().filter_map(|(what, gap)| {
            let refusal = gap.filter(|gap| gap.kind == GapKind::Forbidden)?;
            Some((what.to_owned(), refusal.text.as_str()))
        });
        readyz.chain(lists).collect()
    }
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
    /// Those of them that are InternalIP.
    pub(crate) internal: Vec<String>,
    /// `nodeInfo.machineID`; on Talos it is made from the machine's identity. Empty if not told.
    pub(crate) machine_id: String,
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
    /// It was renewed at most this long before it was read: that long ago, an earlier sample of this run had another resource
    /// version. `None`: no two samples show that it moves.
    pub(crate) moved_within: Option<Duration>,
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
    /// What its command says of `--leader-elect`, if anything.
    pub(crate) leader_elect: Option<bool>,
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
