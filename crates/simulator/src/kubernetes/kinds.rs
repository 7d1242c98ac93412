//! The resources of the API.

/// A resource: its entry in discovery, and its field selectors.
#[derive(Debug)]
pub(super) struct ResourceType {
    /// Empty for the core group.
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) plural: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespaced: bool,
    pub(super) short: &'static [&'static str],
    /// Whether `kubectl get all` shows the resource.
    pub(super) all: bool,
    /// Fields that selectors support besides `metadata.name` and `metadata.namespace`.
    pub(super) fields: &'static [&'static str],
    /// Whether the resource is a review, which is posted and never stored.
    pub(super) review: bool,
}

const fn cluster(group: &'static str, version: &'static str, plural: &'static str, kind: &'static str) -> ResourceType {
    ResourceType { group, version, plural, kind, namespaced: false, short: &[], all: false, fields: &[], review: false }
}

const fn in_namespaces(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
) -> ResourceType {
    ResourceType { namespaced: true, ..cluster(group, version, plural, kind) }
}

const fn review(group: &'static str, plural: &'static str, kind: &'static str) -> ResourceType {
    ResourceType { review: true, ..cluster(group, "v1", plural, kind) }
}

impl ResourceType {
    const fn short(self, short: &'static [&'static str]) -> Self {
        Self { short, ..self }
    }

    const fn all(self) -> Self {
        Self { all: true, ..self }
    }

    const fn fields(self, fields: &'static [&'static str]) -> Self {
        Self { fields, ..self }
    }

    /// `nodes`, `leases.coordination.k8s.io`: the resource's name in the world.
    pub(super) fn resource(&self) -> String {
        qualified(self.plural, self.group)
    }

    /// `v1`, `coordination.k8s.io/v1`
    pub(super) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    pub(super) fn singular(&self) -> String {
        self.kind.to_lowercase()
    }

    /// Supported verbs: everything can be read, and nothing can be written.
    pub(super) fn verbs(&self) -> &'static [&'static str] {
        if self.review { &["create"] } else { &["get", "list", "watch"] }
    }

    pub(super) fn find(group: &str, version: &str, plural: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| (kind.group, kind.version, kind.plural) == (group, version, plural))
    }
}

/// Whether the objects of a resource, named as in the world, are in namespaces. Returns `None` if there are no such
/// objects.
pub(crate) fn namespaced(resource: &str) -> Option<bool> {
    KINDS.iter().find(|kind| !kind.review && kind.resource() == resource).map(|kind| kind.namespaced)
}

/// The name of a resource with its group, as used in messages and in the world.
pub(super) fn qualified(plural: &str, group: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

/// Groups in the order in which an API server lists them.
pub(super) fn groups() -> Vec<&'static str> {
    let mut groups: Vec<&str> = Vec::new();
    for kind in KINDS {
        if !kind.group.is_empty() && !groups.contains(&kind.group) {
            groups.push(kind.group);
        }
    }
    groups
}

/// Resources of a group. Each group here has one version.
pub(super) fn of_group(group: &str) -> impl Iterator<Item = &'static ResourceType> {
    KINDS.iter().filter(move |kind| kind.group == group)
}

const ADMISSION: &str = "admissionregistration.k8s.io";

const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

const POD_FIELDS: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
];

/// The resources of a fresh Talos cluster, and others that people commonly look for.
pub(super) const KINDS: &[ResourceType] = &[
    in_namespaces("", "v1", "configmaps", "ConfigMap").short(&["cm"]),
    in_namespaces("", "v1", "endpoints", "Endpoints").short(&["ep"]),
    in_namespaces("", "v1", "events", "Event").short(&["ev"]).fields(EVENT_FIELDS),
    cluster("", "v1", "namespaces", "Namespace").short(&["ns"]).fields(&["status.phase"]),
    cluster("", "v1", "nodes", "Node").short(&["no"]).fields(&["spec.unschedulable"]),
    in_namespaces("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim").short(&["pvc"]),
    cluster("", "v1", "persistentvolumes", "PersistentVolume").short(&["pv"]),
    in_namespaces("", "v1", "pods", "Pod").short(&["po"]).all().fields(POD_FIELDS),
    in_namespaces("", "v1", "secrets", "Secret").fields(&["type"]),
    in_namespaces("", "v1", "serviceaccounts", "ServiceAccount").short(&["sa"]),
    in_namespaces("", "v1", "services", "Service").short(&["svc"]).all().fields(&["spec.clusterIP", "spec.type"]),
    in_namespaces("apps", "v1", "daemonsets", "DaemonSet").short(&["ds"]).all(),
    in_namespaces("apps", "v1", "deployments", "Deployment").short(&["deploy"]).all(),
    in_namespaces("apps", "v1", "replicasets", "ReplicaSet").short(&["rs"]).all().fields(&["status.replicas"]),
    in_namespaces("apps", "v1", "statefulsets", "StatefulSet").short(&["sts"]).all(),
    review("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    review("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    review("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    in_namespaces("batch", "v1", "cronjobs", "CronJob").short(&["cj"]).all(),
    in_namespaces("batch", "v1", "jobs", "Job").all().fields(&["status.successful"]),
    cluster("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest")
        .short(&["csr"])
        .fields(&["spec.signerName"]),
    in_namespaces("networking.k8s.io", "v1", "ingresses", "Ingress").short(&["ing"]),
    in_namespaces("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy").short(&["netpol"]),
    in_namespaces("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget").short(&["pdb"]),
    cluster("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding"),
    cluster("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole"),
    in_namespaces("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"),
    in_namespaces("rbac.authorization.k8s.io", "v1", "roles", "Role"),
    cluster("storage.k8s.io", "v1", "csinodes", "CSINode"),
    cluster("storage.k8s.io", "v1", "storageclasses", "StorageClass").short(&["sc"]),
    cluster("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment"),
    cluster("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition")
        .short(&["crd", "crds"]),
    cluster(ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
    cluster(ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
    cluster("apiregistration.k8s.io", "v1", "apiservices", "APIService"),
    in_namespaces("coordination.k8s.io", "v1", "leases", "Lease"),
    in_namespaces("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
];
