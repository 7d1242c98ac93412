//! The official documents that remedies are based on. Reports show titles, because addresses change with every version and titles do not.
//! Titles are those of Talos 1.13, etcd 3.6 and Kubernetes; the section is in parentheses if the document covers more.

/// An official document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) title: &'static str,
    /// The link target in the site's pages and in the HTML report.
    pub(crate) address: &'static str,
}

pub(crate) const POLICY: Source = Source {
    title: "cluster-health documentation, `A policy`",
    address: "https://cluster-health.github.io/cluster-health/guides/policy.html",
};
pub(crate) const KUBECTL_WAIT: Source = Source {
    title: "Kubernetes documentation, `kubectl wait`",
    address: "https://kubernetes.io/docs/reference/kubectl/generated/kubectl_wait/",
};
pub(crate) const TALOS_TROUBLESHOOTING: Source = Source {
    title: "Talos documentation, `Troubleshooting`",
    address: "https://docs.siderolabs.com/talos/v1.13/troubleshooting/troubleshooting",
};
pub(crate) const TALOS_TROUBLESHOOTING_API: Source = Source {
    title: "Talos documentation, `Troubleshooting` (Talos API)",
    address: "https://docs.siderolabs.com/talos/v1.13/troubleshooting/troubleshooting#talos-api",
};
pub(crate) const TALOS_TROUBLESHOOTING_ETCD: Source = Source {
    title: "Talos documentation, `Troubleshooting` (etcd issues)",
    address: "https://docs.siderolabs.com/talos/v1.13/troubleshooting/troubleshooting#etcd-issues",
};
pub(crate) const TALOS_TROUBLESHOOTING_KUBELET: Source = Source {
    title: "Talos documentation, `Troubleshooting` (kubelet and Kubernetes node issues)",
    address: "https://docs.siderolabs.com/talos/v1.13/troubleshooting/troubleshooting#kubelet-and-kubernetes-node-issues",
};
pub(crate) const TALOS_TROUBLESHOOTING_CONTROL_PLANE: Source = Source {
    title: "Talos documentation, `Troubleshooting` (Kubernetes control plane)",
    address: "https://docs.siderolabs.com/talos/v1.13/troubleshooting/troubleshooting#kubernetes-control-plane",
};
pub(crate) const TALOS_TROUBLESHOOTING_KUBERNETES_API: Source = Source {
    title: "Talos documentation, `Troubleshooting` (Kubernetes API)",
    address: "https://docs.siderolabs.com/talos/v1.13/troubleshooting/troubleshooting#kubernetes-api",
};
pub(crate) const TALOS_CONTROL_PLANE: Source = Source {
    title: "Talos documentation, `Control Plane`",
    address: "https://docs.siderolabs.com/talos/v1.13/learn-more/control-plane",
};
pub(crate) const TALOS_ENDPOINTS: Source = Source {
    title: "Talos documentation, `talosctl` (endpoints and nodes)",
    address: "https://docs.siderolabs.com/talos/v1.13/learn-more/talosctl#endpoints-and-nodes",
};
pub(crate) const TALOS_CLIENT: Source = Source {
    title: "Talos documentation, `talosctl` (client configuration)",
    address: "https://docs.siderolabs.com/talos/v1.13/learn-more/talosctl#client-configuration",
};
pub(crate) const TALOS_VIP: Source = Source {
    title: "Talos documentation, `Virtual (shared) IP`",
    address: "https://docs.siderolabs.com/talos/v1.13/networking/advanced/vip",
};
pub(crate) const TALOS_CONNECTIVITY: Source = Source {
    title: "Talos documentation, `Network Connectivity`",
    address: "https://docs.siderolabs.com/talos/v1.13/learn-more/talos-network-connectivity",
};
pub(crate) const TALOS_PKI: Source = Source {
    title: "Talos documentation, `How to manage PKI and certificate lifetimes with Talos Linux`",
    address: "https://docs.siderolabs.com/talos/v1.13/security/cert-management",
};
pub(crate) const TALOS_RBAC: Source = Source {
    title: "Talos documentation, `Role-based access control (RBAC)`",
    address: "https://docs.siderolabs.com/talos/v1.13/security/rbac",
};
pub(crate) const TALOS_GETTING_STARTED: Source = Source {
    title: "Talos documentation, `Getting Started`",
    address: "https://docs.siderolabs.com/talos/v1.13/getting-started/getting-started",
};
pub(crate) const TALOS_REQUIREMENTS: Source = Source {
    title: "Talos documentation, `System Requirements`",
    address: "https://docs.siderolabs.com/talos/v1.13/getting-started/system-requirements",
};
pub(crate) const OMNI_SERVICE_ACCOUNTS: Source = Source {
    title: "Omni documentation, `Create a Service Account`",
    address: "https://docs.siderolabs.com/omni/security-and-authentication/create-a-service-account",
};
pub(crate) const TALOS_VOLUMES: Source = Source {
    title: "Talos documentation, `System Volumes`",
    address: "https://docs.siderolabs.com/talos/v1.13/configure-your-talos-cluster/storage-and-disk-management/disk-management/system",
};
pub(crate) const TALOS_TIME: Source = Source {
    title: "Talos documentation, `Time Synchronization`",
    address: "https://docs.siderolabs.com/talos/v1.13/configure-your-talos-cluster/system-configuration/time-sync",
};
pub(crate) const TALOS_DISCOVERY: Source = Source {
    title: "Talos documentation, `Discovery Service`",
    address: "https://docs.siderolabs.com/talos/v1.13/configure-your-talos-cluster/system-configuration/discovery",
};
pub(crate) const TALOS_HOSTNAME: Source = Source {
    title: "Talos documentation, `Hostname`",
    address: "https://docs.siderolabs.com/talos/v1.13/networking/configuration/hostname",
};
pub(crate) const TALOS_SCALE_DOWN: Source = Source {
    title: "Talos documentation, `Scale down a Talos cluster`",
    address: "https://docs.siderolabs.com/talos/v1.13/deploy-and-manage-workloads/scaling-down",
};
pub(crate) const TALOS_ETCD: Source = Source {
    title: "Talos documentation, `etcd Maintenance`",
    address: "https://docs.siderolabs.com/talos/v1.13/build-and-extend-talos/cluster-operations-and-maintenance/etcd-maintenance",
};
pub(crate) const TALOS_DISASTER: Source = Source {
    title: "Talos documentation, `Disaster Recovery`",
    address: "https://docs.siderolabs.com/talos/v1.13/build-and-extend-talos/cluster-operations-and-maintenance/disaster-recovery",
};
pub(crate) const TALOS_ETCD_IMAGE: Source = Source {
    title: "Talos documentation, `Changelog of 1.14` (etcd)",
    address: "https://github.com/siderolabs/talos/blob/release-1.14/CHANGELOG.md",
};
pub(crate) const TALOS_UPGRADE: Source = Source {
    title: "Talos documentation, `Upgrading Talos Linux`",
    address: "https://docs.siderolabs.com/talos/v1.13/configure-your-talos-cluster/lifecycle-management/upgrading-talos",
};
pub(crate) const TALOS_UPGRADE_KUBERNETES: Source = Source {
    title: "Talos documentation, `Upgrading Kubernetes`",
    address: "https://docs.siderolabs.com/kubernetes-guides/advanced-guides/upgrading-kubernetes",
};
pub(crate) const TALOS_SUPPORT: Source = Source {
    title: "Talos documentation, `Support Matrix`",
    address: "https://docs.siderolabs.com/talos/v1.13/getting-started/support-matrix",
};
pub(crate) const TALOS_EXTENSIONS: Source = Source {
    title: "Talos documentation, `Extension Services`",
    address: "https://docs.siderolabs.com/talos/v1.13/build-and-extend-talos/custom-images-and-development/extension-services",
};
pub(crate) const TALOS_EXTENSIONS_INSTALL: Source = Source {
    title: "Talos documentation, `System Extensions`",
    address: "https://docs.siderolabs.com/talos/v1.13/build-and-extend-talos/custom-images-and-development/system-extensions",
};
pub(crate) const TALOS_KUBESPAN: Source = Source {
    title: "Talos documentation, `KubeSpan`",
    address: "https://docs.siderolabs.com/talos/v1.13/networking/kubespan",
};
pub(crate) const TALOS_KUBEPRISM: Source = Source {
    title: "Talos documentation, `KubePrism`",
    address: "https://docs.siderolabs.com/kubernetes-guides/advanced-guides/kubeprism",
};
pub(crate) const ETCD_RECONFIGURATION: Source = Source {
    title: "etcd documentation, `Runtime reconfiguration`",
    address: "https://etcd.io/docs/v3.6/op-guide/runtime-configuration/",
};
pub(crate) const ETCD_CORRUPTION: Source = Source {
    title: "etcd documentation, `Data Corruption`",
    address: "https://etcd.io/docs/v3.6/op-guide/data_corruption/",
};
pub(crate) const ETCD_FAILURES: Source =
    Source { title: "etcd documentation, `Failure modes`", address: "https://etcd.io/docs/v3.6/op-guide/failures/" };
pub(crate) const ETCD_UPGRADES: Source = Source {
    title: "etcd documentation, `Upgrading etcd clusters and applications`",
    address: "https://etcd.io/docs/v3.7/upgrades/",
};
pub(crate) const ETCD_UPGRADE_3_7: Source = Source {
    title: "etcd documentation, `Upgrade etcd from v3.6 to v3.7`",
    address: "https://etcd.io/docs/v3.7/upgrades/upgrade_3_7/",
};
pub(crate) const ETCD_DOWNGRADES: Source = Source {
    title: "etcd documentation, `Downgrade etcd from v3.7 to v3.6`",
    address: "https://etcd.io/docs/v3.7/downgrades/downgrade_3_7/",
};
pub(crate) const ETCD_LEARNER: Source = Source {
    title: "etcd documentation, `etcd learner design`",
    address: "https://etcd.io/docs/v3.6/learning/design-learner/",
};
pub(crate) const ETCD_ACCESS: Source = Source {
    title: "etcd documentation, `Role-based access control`",
    address: "https://etcd.io/docs/v3.6/op-guide/authentication/rbac/",
};
pub(crate) const ETCD_TUNING: Source =
    Source { title: "etcd documentation, `Tuning`", address: "https://etcd.io/docs/v3.6/tuning/" };
pub(crate) const KUBERNETES_NODES: Source = Source {
    title: "Kubernetes documentation, `Nodes`",
    address: "https://kubernetes.io/docs/concepts/architecture/nodes/",
};
pub(crate) const KUBERNETES_CLUSTER: Source = Source {
    title: "Kubernetes documentation, `Troubleshooting Clusters`",
    address: "https://kubernetes.io/docs/tasks/debug/debug-cluster/",
};
pub(crate) const KUBERNETES_DISRUPTIONS: Source = Source {
    title: "Kubernetes documentation, `Disruptions`",
    address: "https://kubernetes.io/docs/concepts/workloads/pods/disruptions/",
};
pub(crate) const KUBERNETES_DRAIN: Source = Source {
    title: "Kubernetes documentation, `Safely Drain a Node`",
    address: "https://kubernetes.io/docs/tasks/administer-cluster/safely-drain-node/",
};
pub(crate) const KUBERNETES_NODE_HEALTH: Source = Source {
    title: "Kubernetes documentation, `Monitor Node Health`",
    address: "https://kubernetes.io/docs/tasks/debug/debug-cluster/monitor-node-health/",
};
pub(crate) const KUBERNETES_CONVERSION: Source = Source {
    title: "Kubernetes documentation, `Versions in CustomResourceDefinitions` (webhook conversion)",
    address: "https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/#webhook-conversion",
};
pub(crate) const KUBERNETES_CSI: Source = Source {
    title: "Kubernetes documentation, `Volumes` (CSI)",
    address: "https://kubernetes.io/docs/concepts/storage/volumes/#csi",
};
pub(crate) const KUBERNETES_IMAGES: Source = Source {
    title: "Kubernetes documentation, `Images`",
    address: "https://kubernetes.io/docs/concepts/containers/images/",
};
pub(crate) const KUBERNETES_WEBHOOKS: Source = Source {
    title: "Kubernetes documentation, `Dynamic Admission Control`",
    address: "https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/",
};
pub(crate) const KUBERNETES_AGGREGATION: Source = Source {
    title: "Kubernetes documentation, `Kubernetes API Aggregation Layer`",
    address: "https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/apiserver-aggregation/",
};
pub(crate) const KUBERNETES_TLS: Source = Source {
    title: "Kubernetes documentation, `TLS bootstrapping`",
    address: "https://kubernetes.io/docs/reference/access-authn-authz/kubelet-tls-bootstrapping/",
};
pub(crate) const KUBERNETES_SKEW: Source = Source {
    title: "Kubernetes documentation, `Version Skew Policy`",
    address: "https://kubernetes.io/releases/version-skew-policy/",
};
pub(crate) const KUBERNETES_PRESSURE: Source = Source {
    title: "Kubernetes documentation, `Node-pressure Eviction`",
    address: "https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/",
};
pub(crate) const KUBERNETES_LEASES: Source = Source {
    title: "Kubernetes documentation, `Leases`",
    address: "https://kubernetes.io/docs/concepts/architecture/leases/",
};
pub(crate) const KUBERNETES_NETWORK: Source = Source {
    title: "Kubernetes documentation, `Network Plugins`",
    address: "https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/network-plugins/",
};
pub(crate) const KUBERNETES_PODS: Source = Source {
    title: "Kubernetes documentation, `Debug Running Pods`",
    address: "https://kubernetes.io/docs/tasks/debug/debug-application/debug-running-pod/",
};
pub(crate) const KUBERNETES_DNS: Source = Source {
    title: "Kubernetes documentation, `Debugging DNS Resolution`",
    address: "https://kubernetes.io/docs/tasks/administer-cluster/dns-debugging-resolution/",
};
pub(crate) const KUBERNETES_RBAC: Source = Source {
    title: "Kubernetes documentation, `Using RBAC Authorization`",
    address: "https://kubernetes.io/docs/reference/access-authn-authz/rbac/",
};
pub(crate) const KUBERNETES_AUTHENTICATION: Source = Source {
    title: "Kubernetes documentation, `Authenticating`",
    address: "https://kubernetes.io/docs/reference/access-authn-authz/authentication/",
};
pub(crate) const KUBERNETES_FAIRNESS: Source = Source {
    title: "Kubernetes documentation, `API Priority and Fairness`",
    address: "https://kubernetes.io/docs/concepts/cluster-administration/flow-control/",
};
pub(crate) const KUBERNETES_KUBECONFIG: Source = Source {
    title: "Kubernetes documentation, `Organizing Cluster Access Using kubeconfig Files`",
    address: "https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/",
};
pub(crate) const KUBERNETES_DEPRECATIONS: Source = Source {
    title: "Kubernetes documentation, `Deprecated API Migration Guide`",
    address: "https://kubernetes.io/docs/reference/using-api/deprecation-guide/",
};
pub(crate) const KUBERNETES_GATES_REMOVED: Source = Source {
    title: "Kubernetes documentation, `Feature Gates (removed)`",
    address: "https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates-removed/",
};
pub(crate) const KUBERNETES_RESOURCES: Source = Source {
    title: "Kubernetes documentation, `Resource Management for Pods and Containers`",
    address: "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/",
};
pub(crate) const KUBERNETES_ASSIGN: Source = Source {
    title: "Kubernetes documentation, `Assigning Pods to Nodes`",
    address: "https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/",
};
pub(crate) const KUBERNETES_VOLUMES: Source = Source {
    title: "Kubernetes documentation, `Persistent Volumes`",
    address: "https://kubernetes.io/docs/concepts/storage/persistent-volumes/",
};
