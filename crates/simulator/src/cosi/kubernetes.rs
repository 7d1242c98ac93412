//! Types of the Kubernetes components that Talos runs.

use super::Kind::{Bool, Document, Integer, Ip, List, Map, Message, Prefix, Text};
use super::cluster::ARGUMENTS;
use super::{Field, Form, Secrecy, Type, field};
use crate::cosi::kind;
use crate::version::TalosVersion;

const EXTRA_VOLUME: &[Field] =
    &[field("name", 1, Text), field("hostPath", 2, Text), field("mountPath", 3, Text), field("readonly", 4, Bool)];

const EXTRA_MANIFEST: &[Field] = &[
    field("name", 1, Text),
    field("url", 2, Text),
    field("priority", 3, Text),
    field("extraHeaders", 4, Map(&Text)),
    field("inlineManifest", 5, Text),
];
const RESOURCES: &[Field] = &[field("requests", 1, Map(&Text)), field("limits", 2, Map(&Text))];

const READY: &[Field] = &[field("ready", 1, Bool), field("version", 2, Text)];

const READY_COLUMNS: &[(&str, &str)] = &[("Ready", "{.ready}"), ("Secrets Version", "{.version}")];

pub(super) const TYPES: &[Type] = &[
    Type {
        name: kind::API_SERVER_CONFIGS,
        display: "APIServerConfig",
        namespace: "controlplane",
        owner: "k8s.ControlPlaneAPIServerController",
        secrecy: Secrecy::Hardened,
        form: Form::Message(&[
            field("image", 1, Text),
            field("cloudProvider", 2, Text),
            field("controlPlaneEndpoint", 3, Text),
            field("etcdServers", 4, List(&Text)),
            field("localPort", 5, Integer),
            field("serviceCIDR", 6, List(&Text)),
            field("extraArgs", 13, Map(&Message(ARGUMENTS))),
            field("args", 16, List(&Text)).since(14),
            field("extraVolumes", 8, List(&Message(EXTRA_VOLUME))),
            field("environmentVariables", 9, Map(&Text)),
            field("advertisedAddress", 11, Text),
            field("resources", 12, Message(RESOURCES)),
            field("startupProbesEnabled", 14, Bool).since(14),
            field("useAuthenticationConfig", 15, Bool).since(14),
        ]),
        ..Type::COMMON
    },
    Type {
        name: kind::CONTROLLER_MANAGER_CONFIGS,
        display: "ControllerManagerConfig",
        namespace: "controlplane",
        owner: "k8s.ControlPlaneControllerManagerController",
        form: Form::Message(&[
            field("enabled", 1, Bool),
            field("image", 2, Text),
            field("cloudProvider", 3, Text),
            field("podCIDRs", 4, List(&Text)),
            field("serviceCIDRs", 5, List(&Text)),
            field("extraArgs", 10, Map(&Message(ARGUMENTS))),
            field("args", 11, List(&Text)).since(14),
            field("extraVolumes", 7, List(&Message(EXTRA_VOLUME))),
            field("environmentVariables", 8, Map(&Text)),
            field("resources", 9, Message(RESOURCES)),
            field("nodeCIDRMaskSizeIPv4", 12, Integer).since(14),
            field("nodeCIDRMaskSizeIPv6", 13, Integer).since(14),
        ]),
        ..Type::COMMON
    },
    Type {
        name: kind::SCHEDULER_CONFIGS,
        display: "SchedulerConfig",
        namespace: "controlplane",
        owner: "k8s.ControlPlaneSchedulerController",
        form: Form::Message(&[
            field("enabled", 1, Bool),
            field("image", 2, Text),
            field("extraArgs", 8, Map(&Message(ARGUMENTS))),
            field("args", 9, List(&Text)).since(14),
            field("config", 7, Document).since(14),
            field("extraVolumes", 4, List(&Message(EXTRA_VOLUME))),
            field("environmentVariables", 5, Map(&Text)),
            field("resources", 6, Message(RESOURCES)),
            field("config", 7, Document).until(14),
        ]),
        ..Type::COMMON
    },
    Type {
        name: kind::BOOTSTRAP_MANIFESTS_CONFIGS,
        display: "BootstrapManifestsConfig",
        namespace: "controlplane",
        owner: "k8s.ControlPlaneBootstrapManifestsController",
        form: Form::Message(&[
            // The server. This is the name that Talos uses.
            field("string", 1, Text),
            field("clusterDomain", 2, Text),
            field("podCIDRs", 3, List(&Text)),
            field("proxyEnabled", 4, Bool),
            field("proxyImage", 5, Text),
            field("proxyArgs", 6, List(&Text)),
            field("proxyConfig", 27, Document).since(14),
            field("proxyConfigChecksum", 29, Text).since(14),
            field("proxyResources", 28, Message(RESOURCES)).since(14),
            field("coreDNSEnabled", 7, Bool),
            field("coreDNSImage", 8, Text),
            field("dnsServiceIP", 9, Text),
            field("dnsServiceIPv6", 10, Text),
            field("flannelEnabled", 11, Bool),
            field("flannelImage", 12, Text),
            field("flannelExtraArgs", 16, List(&Text)).since(6),
            field("flannelKubeServiceHost", 17, Text).since(8),
            field("flannelKubeServicePort", 18, Text).since(8),
            field("flannelKubeNetworkPoliciesEnabled", 19, Bool).since(13),
            field("flannelKubeNetworkPoliciesImage", 20, Text).since(13),
            field("flannelBackendType", 23, Text).since(14),
            field("flannelBackendPort", 24, Integer).since(14),
            field("flannelBackendMTU", 22, Integer).since(14),
            field("flannelBackendExtraConfig", 26, Document).since(14),
            field("flannelResources", 25, Message(RESOURCES)).since(14),
            field("podSecurityPolicyEnabled", 14, Bool),
            field("talosAPIServiceEnabled", 15, Bool),
            field("cniName", 21, Text).since(13),
        ]),
        ..Type::COMMON
    },
    Type {
        name: kind::CONFIG_STATUSES,
        display: "ConfigStatus",
        namespace: "controlplane",
        columns: READY_COLUMNS,
        owner: "k8s.RenderConfigsStaticPodController",
        form: Form::Message(READY),
        ..Type::COMMON
    },
    Type {
        name: kind::SECRET_STATUSES,
        display: "SecretStatus",
        namespace: "controlplane",
        columns: READY_COLUMNS,
        owner: "k8s.RenderSecretsStaticPodController",
        form: Form::Message(READY),
        ..Type::COMMON
    },
    Type {
        name: kind::EXTRA_MANIFESTS_CONFIGS,
        display: "ExtraManifestsConfig",
        namespace: "controlplane",
        owner: "k8s.ControlPlaneExtraManifestsController",
        form: Form::Message(&[field("extraManifests", 1, List(&Message(EXTRA_MANIFEST)))]),
        ..Type::COMMON
    },
    Type {
        name: kind::MANIFEST_STATUSES,
        display: "ManifestStatus",
        namespace: "controlplane",
        owner: "k8s.ManifestApplyController",
        form: Form::Message(&[field("manifestsApplied", 1, List(&Text))]),
        ..Type::COMMON
    },
    Type {
        name: kind::ENDPOINTS,
        display: "Endpoint",
        namespace: "controlplane",
        columns: &[("Addresses", "{.addresses}"), ("Hosts", "{.hosts}")],
        owner: "k8s.EndpointController",
        form: Form::Message(&[field("addresses", 1, List(&Ip)), field("hosts", 2, List(&Text)).since(13)]),
        ..Type::COMMON
    },
    Type {
        name: kind::KUBELET_CONFIGS,
        display: "KubeletConfig",
        namespace: "k8s",
        owner: "k8s.KubeletConfigController",
        secrecy: Secrecy::Hardened,
        form: Form::Message(&[
            field("image", 1, Text),
            field("clusterDNS", 2, List(&Text)),
            field("clusterDomain", 3, Text),
            field("extraArgs", 15, Map(&Message(ARGUMENTS))),
            field("extraConfig", 6, Document),
            field("cloudProviderExternal", 7, Bool),
            field("defaultRuntimeSeccompEnabled", 8, Bool),
            field("skipNodeRegistration", 9, Bool),
            field("staticPodListURL", 10, Text),
            field("disableManifestsDirectory", 11, Bool),
            field("enableFSQuotaMonitoring", 12, Bool),
            field("credentialProviderConfig", 13, Document),
            field("allowSchedulingOnControlPlane", 14, Bool).since(9),
        ]),
        ..Type::COMMON
    },
    Type {
        name: kind::KUBELET_SPECS,
        display: "KubeletSpec",
        namespace: "k8s",
        owner: "k8s.KubeletSpecController",
        secrecy: Secrecy::Hardened,
        form: Form::Message(&[
            field("image", 1, Text),
            field("args", 2, List(&Text)),
            field("expectedNodename", 4, Text),
            field("config", 5, Document),
            field("credentialProviderConfig", 6, Document),
        ]),
        ..Type::COMMON
    },
    Type {
        name: kind::KUBELET_STATUSES,
        display: "KubeletStatus",
        namespace: "k8s",
        owner: "k8s.KubeletConfigController",
        since: TalosVersion::new(14, 0),
        form: Form::Message(&[field("image", 1, Text)]),
        ..Type::COMMON
    },
    Type {
        name: kind::KUBE_PRISM_ENDPOINTS,
        display: "KubePrismEndpoint",
        namespace: "k8s",
        columns: &[("Hosts", "{.endpoints[*].host}"), ("Ports", "{.endpoints[*].port}")],
        owner: "k8s.KubePrismEndpointsController",
        form: Form::Message(&[field(
            "endpoints",
            1,
            List(&Message(&[field("host", 1, Text), field("port", 2, Integer)])),
        )]),
        ..Type::COMMON
    },
    Type {
        name: kind::KUBE_PRISM_STATUSES,
        display: "KubePrismStatus",
        namespace: "k8s",
        columns: &[("HOST", "{.host}"), ("HEALTHY", "{.healthy}")],
        owner: "k8s.KubePrismController",
        form: Form::Message(&[field("host", 1, Text), field("healthy", 2, Bool)]),
        ..Type::COMMON
    },
    Type {
        name: kind::NODENAMES,
        display: "Nodename",
        namespace: "k8s",
        columns: &[("Nodename", "{.nodename}")],
        owner: "k8s.NodenameController",
        form: Form::Message(&[
            field("nodename", 1, Text),
            field("hostnameVersion", 2, Text),
            field("skipNodeRegistration", 3, Bool),
        ]),
        ..Type::COMMON
    },
    Type {
        name: kind::NODE_STATUSES,
        display: "NodeStatus",
        namespace: "k8s",
        columns: &[("Ready", "{.nodeReady}"), ("Unschedulable", "{.unschedulable}")],
        owner: "k8s.NodeStatusController",
        form: Form::Message(&[
            field("nodename", 1, Text),
            field("nodeReady", 2, Bool),
            field("unschedulable", 3, Bool),
            field("labels", 4, Map(&Text)),
            field("annotations", 5, Map(&Text)),
            field("podCIDRs", 6, List(&Prefix)).since(12),
        ]),
        ..Type::COMMON
    },
    Type {
        name: kind::STATIC_PODS,
        display: "StaticPod",
        namespace: "k8s",
        owner: "k8s.ControlPlaneStaticPodController",
        form: Form::Document,
        ..Type::COMMON
    },
    Type {
        name: kind::STATIC_POD_STATUSES,
        display: "StaticPodStatus",
        namespace: "k8s",
        aliases: &["podstatus"],
        columns: &[("Ready", "{.conditions[?(@.type==\"Ready\")].status}")],
        owner: "k8s.KubeletStaticPodController",
        form: Form::Document,
        ..Type::COMMON
    },
];
