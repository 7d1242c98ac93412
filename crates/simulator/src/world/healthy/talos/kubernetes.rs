//! Talos's resources about Kubernetes.

use std::net::{IpAddr, SocketAddr};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Facts, Subject};
use crate::address::API_SERVER;
use crate::cosi::{Resource, find, kind};
use crate::version::TalosVersion;
use crate::world::{Machine, Versions, flannel_image, static_pods};

/// From this version on, the final configurations, with all arguments, are separate resources in addition to the initial ones.
const FINAL_CONFIGS: TalosVersion = TalosVersion::new(14, 0);

/// From this release on, the configuration decides about kube-proxy's resources and flannel's backend.
const MANIFESTS_ARE_CONFIGURED_SINCE: TalosVersion = TalosVersion::new(14, 0);

/// Address of the proxy to the API servers on every machine.
const KUBE_PRISM: &str = "127.0.0.1:7445";

pub(super) fn tell(subject: &Subject<'_>, facts: &mut Facts) {
    node(subject, facts);
    kubelet(subject, facts);
    endpoints(subject, facts);
    if subject.is_control_plane() {
        control_plane(subject, facts);
        manifests(subject, facts);
    }
}

fn node(subject: &Subject<'_>, facts: &mut Facts) {
    let name = &subject.machine.name;
    let nodename = json!({"nodename": name, "hostnameVersion": "1", "skipNodeRegistration": false});
    facts.put(kind::NODENAMES, "nodename", nodename);
    let mut labels = json!({
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
    });
    let mut annotations = json!({
        "flannel.alpha.coreos.com/backend-type": "vxlan",
        "flannel.alpha.coreos.com/kube-subnet-manager": "true",
        "flannel.alpha.coreos.com/public-ip": subject.address,
        "node.alpha.kubernetes.io/ttl": "0",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    });
    if subject.is_control_plane() {
        let owned =
            ["node-role.kubernetes.io/control-plane", "node.kubernetes.io/exclude-from-external-load-balancers"];
        for label in owned {
            labels[label] = json!("");
        }
        annotations["talos.dev/owned-labels"] = json!(json!(owned).to_string());
    }
    let status = json!({
        "nodename": name,
        "nodeReady": true,
        "unschedulable": false,
        "labels": labels,
        "annotations": annotations,
        "podCIDRs": [format!("{}/24", subject.pods())],
    });
    facts.put_version(kind::NODE_STATUSES, name, 6, status);
}

fn kubelet(subject: &Subject<'_>, facts: &mut Facts) {
    let image = format!("ghcr.io/siderolabs/kubelet:v{}", subject.world.versions.kubernetes);
    let config = json!({
        "image": image,
        "clusterDNS": ["10.96.0.10"],
        "clusterDomain": "cluster.local",
        "cloudProviderExternal": false,
        "defaultRuntimeSeccompEnabled": true,
        "skipNodeRegistration": false,
        "staticPodListURL": "http://127.0.0.1:33413",
        "disableManifestsDirectory": true,
        "enableFSQuotaMonitoring": true,
        "allowSchedulingOnControlPlane": false,
    });
    facts.put(kind::KUBELET_CONFIGS, "kubelet", config);
    let name = &subject.machine.name;
    let spec = json!({
        "image": image,
        "args": [format!("--hostname-override={name}"), format!("--node-ip={}", subject.address)],
        "expectedNodename": name,
        "config": {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "port": 10250},
    });
    facts.put(kind::KUBELET_SPECS, "kubelet", spec);
    facts.put(kind::KUBELET_STATUSES, "kubelet", json!({"image": image}));
}

fn endpoints(subject: &Subject<'_>, facts: &mut Facts) {
    let control_planes = subject.control_planes();
    let mut put = |id: &str, owner: &str, version, addresses: &[IpAddr]| {
        let mut resource = Resource::new(json!({"addresses": addresses, "hosts": []}), facts.booted);
        resource.version = version;
        owner.clone_into(&mut resource.owner);
        facts.insert(kind::ENDPOINTS, id, resource);
    };
    put("controlplane", "k8s.StaticEndpointController", 1, &[subject.balancer]);
    put("discovery", "cluster.EndpointController", 2, &control_planes);
    put("kube-apiserver", "k8s.EndpointController", 2, &control_planes);
    facts.put_version(kind::KUBE_PRISM_STATUSES, "k8s-loadbalancer", 2, json!({"host": KUBE_PRISM, "healthy": true}));
    let at = |host: &IpAddr, port: u16| json!({"host": host, "port": port});
    let own = control_planes.iter().map(|host| at(host, subject.world.api_port));
    let hosts: Vec<Value> = std::iter::once(at(&subject.balancer, API_SERVER)).chain(own).collect();
    facts.put_version(kind::KUBE_PRISM_ENDPOINTS, "k8s-cluster", 2, json!({"endpoints": hosts}));
}

fn control_plane(subject: &Subject<'_>, facts: &mut Facts) {
    let image = |name: &str| format!("registry.k8s.io/{name}:v{}", subject.world.versions.kubernetes);
    let resources = no_resources();
    let endpoint = SocketAddr::new(subject.balancer, API_SERVER);
    let api_server = json!({
        "image": image("kube-apiserver"),
        "cloudProvider": "",
        "controlPlaneEndpoint": format!("https://{}:{API_SERVER}", subject.balancer),
        "etcdServers": ["https://127.0.0.1:2379"],
        "localPort": subject.world.api_port,
        "serviceCIDR": ["10.96.0.0/12"],
        "extraArgs": {},
        "extraVolumes": [],
        "environmentVariables": {},
        "advertisedAddress": "$(POD_IP)",
        "resources": resources,
        "startupProbesEnabled": false,
        "useAuthenticationConfig": false,
    });
    let controller_manager = json!({
        "enabled": true,
        "image": image("kube-controller-manager"),
        "cloudProvider": "",
        "podCIDRs": ["10.244.0.0/16"],
        "serviceCIDRs": ["10.96.0.0/12"],
        "extraArgs": {},
        "extraVolumes": [],
        "environmentVariables": {},
        "resources": resources,
        "nodeCIDRMaskSizeIPv4": 24,
        "nodeCIDRMaskSizeIPv6": 64,
    });
    let scheduler = json!({
        "enabled": true,
        "image": image("kube-scheduler"),
        "extraArgs": {},
        "extraVolumes": [],
        "environmentVariables": {},
        "resources": resources,
        "config": {},
    });
    let without_networks =
        json!({"podCIDRs": [], "serviceCIDRs": [], "nodeCIDRMaskSizeIPv4": 0, "nodeCIDRMaskSizeIPv6": 0});
    let with_kubeconfig = json!({"config": {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "clientConnection": {"kubeconfig": "/system/secrets/kubernetes/kube-scheduler/kubeconfig"},
        "kind": "KubeSchedulerConfiguration",
    }});
    for (kind, component, mut config, changes) in [
        (kind::API_SERVER_CONFIGS, "kube-apiserver", api_server, json!({})),
        (kind::CONTROLLER_MANAGER_CONFIGS, "kube-controller-manager", controller_manager, without_networks),
        (kind::SCHEDULER_CONFIGS, "kube-scheduler", scheduler, with_kubeconfig),
    ] {
        if facts.version >= FINAL_CONFIGS {
            if kind != kind::API_SERVER_CONFIGS {
                config.as_object_mut().map(|config| config.remove("extraArgs"));
            }
            let mut last = config.clone();
            last["args"] = json!(static_pods::command(component, endpoint, subject.world.api_port));
            for (key, value) in changes.as_object().into_iter().flatten() {
                last[key] = value.clone();
            }
            let mut last = Resource::new(last, facts.booted);
            let owner = find(kind, facts.version).map_or("", |of| of.owner);
            last.owner = format!("{}FinalController", owner.trim_end_matches("Controller"));
            facts.insert(kind, &format!("final-{component}"), last);
        }
        facts.put(kind, component, config);
    }
    let rendered = json!({"ready": true, "version": "1111"});
    facts.put(kind::CONFIG_STATUSES, "static-pods", rendered.clone());
    facts.put(kind::SECRET_STATUSES, "static-pods", rendered);
    for component in static_pods::components() {
        let manifest = static_pods::manifest(component, &subject.world.versions, endpoint, subject.world.api_port);
        facts.put(kind::STATIC_PODS, component, manifest);
    }
}

/// The resources of a component for which the configuration states none.
fn no_resources() -> Value {
    json!({"requests": {"cpu": "", "memory": ""}, "limits": {}})
}

fn manifests(subject: &Subject<'_>, facts: &mut Facts) {
    let mut config = json!({
        "string": "https://127.0.0.1:7445",
        "clusterDomain": "cluster.local",
        "podCIDRs": ["10.244.0.0/16"],
        "proxyEnabled": true,
        "proxyImage": format!("registry.k8s.io/kube-proxy:v{}", subject.world.versions.kubernetes),
        "proxyArgs": [
            "--cluster-cidr=10.244.0.0/16", "--conntrack-max-per-core=0", "--hostname-override=$(NODE_NAME)",
            "--kubeconfig=/etc/kubernetes/kubeconfig", "--proxy-mode=nftables",
        ],
        "coreDNSEnabled": true,
        "coreDNSImage": "registry.k8s.io/coredns/coredns:v1.14.6",
        "dnsServiceIP": "10.96.0.10",
        "dnsServiceIPv6": "",
        "flannelEnabled": true,
        "flannelImage": flannel_image(facts.version),
        "flannelExtraArgs": [],
        "flannelKubeServiceHost": "127.0.0.1",
        "flannelKubeServicePort": "7445",
        "flannelKubeNetworkPoliciesEnabled": false,
        "flannelKubeNetworkPoliciesImage": "registry.k8s.io/networking/kube-network-policies:v1.0.0",
        "podSecurityPolicyEnabled": false,
        "talosAPIServiceEnabled": false,
        "cniName": "flannel",
    });
    if facts.version >= MANIFESTS_ARE_CONFIGURED_SINCE {
        for (key, value) in [
            ("proxyConfig", json!({})),
            ("proxyConfigChecksum", json!("")),
            ("proxyResources", no_resources()),
            ("flannelBackendType", json!("vxlan")),
            ("flannelBackendPort", json!(4789)),
            ("flannelBackendMTU", json!(0)),
            ("flannelBackendExtraConfig", json!({})),
            ("flannelResources", no_resources()),
            ("flannelKubeNetworkPoliciesImage", json!("registry.k8s.io/networking/kube-network-policies:v1.1.1")),
        ] {
            config[key] = value;
        }
    }
    facts.put(kind::BOOTSTRAP_MANIFESTS_CONFIGS, "manifests", config);
    let applied = [
        "00-kubelet-bootstrapping-token",
        "01-csr-approver-role-binding",
        "01-csr-node-bootstrap",
        "01-csr-renewal-role-binding",
        "05-flannel",
        "10-kube-proxy",
        "11-core-dns",
        "11-core-dns-svc",
        "11-kube-config-in-cluster",
        "11-talos-node-rbac-template",
    ];
    facts.put(kind::MANIFEST_STATUSES, "manifests", json!({"manifestsApplied": applied}));
    facts.put(kind::EXTRA_MANIFESTS_CONFIGS, "extra-manifests", json!({"extraManifests": []}));
}

/// Adds the statuses that a control plane's kubelet reports: all static pods have been running since shortly after
/// boot.
pub(super) fn tell_static_pods(machine: &mut Machine, address: IpAddr, versions: &Versions, booted: Timestamp) {
    let running = booted + SignedDuration::from_secs(28);
    let pods: Vec<_> = machine.resources.list(kind::STATIC_PODS).map(|(id, _)| id.to_owned()).collect();
    for component in pods {
        let id = format!("kube-system/{component}-{}", machine.name);
        let status = static_pods::running(address, &machine.name, &component, versions, running);
        machine.resources.put(kind::STATIC_POD_STATUSES, &id, status);
        if let Some(mut status) = machine.resources.get(kind::STATIC_POD_STATUSES, &id).cloned() {
            status.created = running;
            status.updated = running;
            machine.resources.insert(kind::STATIC_POD_STATUSES, &id, status);
        }
    }
}
