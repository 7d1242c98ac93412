//! Names of the COSI resource types.

pub const NAMESPACES: &str = "Namespaces.meta.cosi.dev";
pub const RESOURCE_DEFINITIONS: &str = "ResourceDefinitions.meta.cosi.dev";

pub const AFFILIATES: &str = "Affiliates.cluster.talos.dev";
pub const IDENTITIES: &str = "Identities.cluster.talos.dev";
pub const INFOS: &str = "Infos.cluster.talos.dev";
pub const MEMBERS: &str = "Members.cluster.talos.dev";

pub const MACHINE_CONFIGS: &str = "MachineConfigs.config.talos.dev";
pub const MACHINE_TYPES: &str = "MachineTypes.config.talos.dev";

pub const ETCD_MEMBERS: &str = "EtcdMembers.etcd.talos.dev";
pub const ETCD_SPECS: &str = "EtcdSpecs.etcd.talos.dev";

pub const API_SERVER_CONFIGS: &str = "APIServerConfigs.kubernetes.talos.dev";
pub const BOOTSTRAP_MANIFESTS_CONFIGS: &str = "BootstrapManifestsConfigs.kubernetes.talos.dev";
pub const EXTRA_MANIFESTS_CONFIGS: &str = "ExtraManifestsConfigs.kubernetes.talos.dev";
pub const CONFIG_STATUSES: &str = "ConfigStatuses.kubernetes.talos.dev";
pub const CONTROLLER_MANAGER_CONFIGS: &str = "ControllerManagerConfigs.kubernetes.talos.dev";
pub const ENDPOINTS: &str = "Endpoints.kubernetes.talos.dev";
pub const KUBELET_CONFIGS: &str = "KubeletConfigs.kubernetes.talos.dev";
pub const KUBELET_SPECS: &str = "KubeletSpecs.kubernetes.talos.dev";
pub const KUBELET_STATUSES: &str = "KubeletStatuses.kubernetes.talos.dev";
pub const KUBE_PRISM_ENDPOINTS: &str = "KubePrismEndpoints.kubernetes.talos.dev";
pub const KUBE_PRISM_STATUSES: &str = "KubePrismStatuses.kubernetes.talos.dev";
pub const KUBE_SPAN_PEER_STATUSES: &str = "KubeSpanPeerStatuses.kubespan.talos.dev";
pub const MANIFEST_STATUSES: &str = "ManifestStatuses.kubernetes.talos.dev";
pub const NODE_STATUSES: &str = "NodeStatuses.kubernetes.talos.dev";
pub const NODENAMES: &str = "Nodenames.kubernetes.talos.dev";
pub const SCHEDULER_CONFIGS: &str = "SchedulerConfigs.kubernetes.talos.dev";
pub const SECRET_STATUSES: &str = "SecretStatuses.kubernetes.talos.dev";
pub const STATIC_POD_STATUSES: &str = "StaticPodStatuses.kubernetes.talos.dev";
pub const STATIC_PODS: &str = "StaticPods.kubernetes.talos.dev";

pub const ADDRESS_STATUSES: &str = "AddressStatuses.net.talos.dev";
pub const HOSTNAME_STATUSES: &str = "HostnameStatuses.net.talos.dev";
pub const LINK_STATUSES: &str = "LinkStatuses.net.talos.dev";
pub const NETWORK_STATUSES: &str = "NetworkStatuses.net.talos.dev";
pub const TIME_SERVER_STATUSES: &str = "TimeServerStatuses.net.talos.dev";
pub const NODE_ADDRESSES: &str = "NodeAddresses.net.talos.dev";

pub const ADJTIME_STATUSES: &str = "AdjtimeStatuses.v1alpha1.talos.dev";
pub const DIAGNOSTICS: &str = "Diagnostics.runtime.talos.dev";
pub const EXTENSION_STATUSES: &str = "ExtensionStatuses.runtime.talos.dev";
pub const MACHINE_STATUSES: &str = "MachineStatuses.runtime.talos.dev";
pub const MOUNT_STATUSES: &str = "MountStatuses.runtime.talos.dev";
pub const PLATFORM_METADATAS: &str = "PlatformMetadatas.talos.dev";
pub const SERVICES: &str = "Services.v1alpha1.talos.dev";
pub const TIME_STATUSES: &str = "TimeStatuses.v1alpha1.talos.dev";
pub const VERSIONS: &str = "Versions.runtime.talos.dev";

pub const DISCOVERED_VOLUMES: &str = "DiscoveredVolumes.block.talos.dev";
pub const DISKS: &str = "Disks.block.talos.dev";
pub const SWAP_STATUSES: &str = "SwapStatuses.block.talos.dev";
pub const SYSTEM_DISKS: &str = "SystemDisks.block.talos.dev";
pub const VOLUME_STATUSES: &str = "VolumeStatuses.block.talos.dev";
pub const ZSWAP_STATUSES: &str = "ZswapStatuses.block.talos.dev";
