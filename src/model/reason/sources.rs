//! Which official document a remedy comes from, by its title: addresses move with every version, titles do not. Titles are those of
//! Talos 1.13, etcd 3.6 and Kubernetes; in brackets the section, where the document is about more.

pub(crate) const TALOS_TROUBLESHOOTING: &str = "Talos documentation, `Troubleshooting`";
pub(crate) const TALOS_TROUBLESHOOTING_API: &str = "Talos documentation, `Troubleshooting` (Talos API)";
pub(crate) const TALOS_TROUBLESHOOTING_ETCD: &str = "Talos documentation, `Troubleshooting` (etcd issues)";
pub(crate) const TALOS_TROUBLESHOOTING_KUBELET: &str =
    "Talos documentation, `Troubleshooting` (kubelet and Kubernetes node issues)";
pub(crate) const TALOS_TROUBLESHOOTING_CONTROL_PLANE: &str =
    "Talos documentation, `Troubleshooting` (Kubernetes control plane)";
pub(crate) const TALOS_TROUBLESHOOTING_KUBERNETES_API: &str = "Talos documentation, `Troubleshooting` (Kubernetes API)";
pub(crate) const TALOS_CONTROL_PLANE: &str = "Talos documentation, `Control Plane`";
pub(crate) const TALOS_ENDPOINTS: &str = "Talos documentation, `talosctl` (endpoints and nodes)";
pub(crate) const TALOS_CLIENT: &str = "Talos documentation, `talosctl` (client configuration)";
pub(crate) const TALOS_VIP: &str = "Talos documentation, `Virtual (shared) IP`";
pub(crate) const TALOS_CONNECTIVITY: &str = "Talos documentation, `Network Connectivity`";
pub(crate) const TALOS_PKI: &str =
    "Talos documentation, `How to manage PKI and certificate lifetimes with Talos Linux`";
pub(crate) const TALOS_RBAC: &str = "Talos documentation, `Role-based access control (RBAC)`";
pub(crate) const TALOS_GETTING_STARTED: &str = "Talos documentation, `Getting Started`";
pub(crate) const TALOS_REQUIREMENTS: &str = "Talos documentation, `System Requirements`";
pub(crate) const TALOS_VOLUMES: &str = "Talos documentation, `System Volumes`";
pub(crate) const TALOS_TIME: &str = "Talos documentation, `Time Synchronization`";
pub(crate) const TALOS_DISCOVERY: &str = "Talos documentation, `Discovery Service`";
pub(crate) const TALOS_SCALE_DOWN: &str = "Talos documentation, `Scale down a Talos cluster`";
pub(crate) const TALOS_ETCD: &str = "Talos documentation, `etcd Maintenance`";
pub(crate) const TALOS_DISASTER: &str = "Talos documentation, `Disaster Recovery`";
pub(crate) const TALOS_UPGRADE: &str = "Talos documentation, `Upgrading Talos Linux`";
pub(crate) const TALOS_UPGRADE_KUBERNETES: &str = "Talos documentation, `Upgrading Kubernetes`";
pub(crate) const TALOS_SUPPORT: &str = "Talos documentation, `Support Matrix`";
pub(crate) const TALOS_EXTENSIONS: &str = "Talos documentation, `Extension Services`";
pub(crate) const TALOS_EXTENSIONS_INSTALL: &str = "Talos documentation, `System Extensions`";
pub(crate) const TALOS_KUBESPAN: &str = "Talos documentation, `KubeSpan`";
pub(crate) const TALOS_KUBEPRISM: &str = "Talos documentation, `KubePrism`";
pub(crate) const ETCD_RECONFIGURATION: &str = "etcd documentation, `Runtime reconfiguration`";
pub(crate) const ETCD_CORRUPTION: &str = "etcd documentation, `Data Corruption`";
pub(crate) const ETCD_FAILURES: &str = "etcd documentation, `Failure modes`";
pub(crate) const ETCD_LEARNER: &str = "etcd documentation, `etcd learner design`";
pub(crate) const ETCD_ACCESS: &str = "etcd documentation, `Role-based access control`";
pub(crate) const ETCD_TUNING: &str = "etcd documentation, `Tuning`";
pub(crate) const KUBERNETES_NODES: &str = "Kubernetes documentation, `Nodes`";
pub(crate) const KUBERNETES_DISRUPTIONS: &str = "Kubernetes documentation, `Disruptions`";
pub(crate) const KUBERNETES_DRAIN: &str = "Kubernetes documentation, `Safely Drain a Node`";
pub(crate) const KUBERNETES_NODE_HEALTH: &str = "Kubernetes documentation, `Monitor Node Health`";
pub(crate) const KUBERNETES_WEBHOOKS: &str = "Kubernetes documentation, `Dynamic Admission Control`";
pub(crate) const KUBERNETES_AGGREGATION: &str = "Kubernetes documentation, `Kubernetes API Aggregation Layer`";
pub(crate) const KUBERNETES_TLS: &str = "Kubernetes documentation, `TLS bootstrapping`";
pub(crate) const KUBERNETES_SKEW: &str = "Kubernetes documentation, `Version Skew Policy`";
pub(crate) const KUBERNETES_PRESSURE: &str = "Kubernetes documentation, `Node-pressure Eviction`";
pub(crate) const KUBERNETES_LEASES: &str = "Kubernetes documentation, `Leases`";
pub(crate) const KUBERNETES_NETWORK: &str = "Kubernetes documentation, `Network Plugins`";
pub(crate) const KUBERNETES_PODS: &str = "Kubernetes documentation, `Debug Running Pods`";
pub(crate) const KUBERNETES_DNS: &str = "Kubernetes documentation, `Debugging DNS Resolution`";
pub(crate) const KUBERNETES_RBAC: &str = "Kubernetes documentation, `Using RBAC Authorization`";
pub(crate) const KUBERNETES_AUTHENTICATION: &str = "Kubernetes documentation, `Authenticating`";
pub(crate) const KUBERNETES_FAIRNESS: &str = "Kubernetes documentation, `API Priority and Fairness`";
pub(crate) const KUBERNETES_KUBECONFIG: &str =
    "Kubernetes documentation, `Organizing Cluster Access Using kubeconfig Files`";
pub(crate) const KUBERNETES_DEPRECATIONS: &str = "Kubernetes documentation, `Deprecated API Migration Guide`";
pub(crate) const KUBERNETES_GATES_REMOVED: &str = "Kubernetes documentation, `Feature Gates (removed)`";
pub(crate) const KUBERNETES_RESOURCES: &str = "Kubernetes documentation, `Resource Management for Pods and Containers`";
pub(crate) const KUBERNETES_ASSIGN: &str = "Kubernetes documentation, `Assigning Pods to Nodes`";
pub(crate) const KUBERNETES_VOLUMES: &str = "Kubernetes documentation, `Persistent Volumes`";
