//! A healthy cluster as a literal, and small methods that break one fact of it. For the tests of judges.
//!
//! Three control planes `cp-1`, `cp-2`, `cp-3` (10.0.0.1–3), one worker `w-1` (10.0.0.4), Talos and Kubernetes, os:reader
//! credentials; discovery, etcd and Kubernetes all name the same nodes. Every check passes.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::memory::Memory;
use crate::snapshot::{
    Adjtime, Asked, BootstrapManifests, Certificate, Condition, Contact, ContainerState, DaemonSet, Deployment,
    Endpoint, EtcdMember, EtcdSpec, EtcdStatus, Gap, GapKind, KubeNode, Kubernetes, KubernetesCredentials, Lease,
    Leases, MachineStatus, Mount, NetworkStatus, Node, Pod, PodState, ReadyResource, Readyz, Role, ServerCheck,
    ServerProgress, Service, ServiceEndpoint, ServiceEvent, SigningRequest, Snapshot, Sources, StaticPodStatus, Talos,
    TalosCredentials, TalosNode, TimeStatus, Validity, Version, Volume,
};

pub(crate) const CONTROL_PLANES: [&str; 3] = ["cp-1", "cp-2", "cp-3"];
pub(crate) const NODES: [&str; 4] = ["cp-1", "cp-2", "cp-3", "w-1"];
pub(crate) const STATIC_PODS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// The moment of the round: 2026-01-15T12:00:00Z.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_768_478_400).unwrap()
}

pub(crate) fn ago(seconds: u64) -> Timestamp {
    now() - SignedDuration::try_from(Duration::from_secs(seconds)).unwrap()
}

pub(crate) fn gap<T>(kind: GapKind) -> Result<T, Gap> {
    Err(Gap::new(kind, format!("test: {kind:?}")))
}

/// Every kind of gap there is.
pub(crate) const GAPS: [GapKind; 22] = [
    GapKind::NotAsked,
    GapKind::ConnectionRefused,
    GapKind::NoRoute,
    GapKind::ConnectTimedOut,
    GapKind::TimedOut,
    GapKind::NameNotFound,
    GapKind::UnknownCa,
    GapKind::NameNotInCertificate,
    GapKind::PeerCertificateExpired,
    GapKind::ClientCertificateRefused,
    GapKind::Maintenance,
    GapKind::Proxy,
    GapKind::Broken,
    GapKind::NodeUnreachable,
    GapKind::NoForwarding,
    GapKind::Forbidden,
    GapKind::Unauthenticated,
    GapKind::Unsupported,
    GapKind::Throttled,
    GapKind::ServerError,
    GapKind::Malformed,
    GapKind::TooLarge,
];

pub(crate) fn healthy() -> Snapshot {
    Snapshot {
        taken: now(),
        asked: Asked::default(),
        talos: Some(Talos {
            credentials: Ok(TalosCredentials {
                ca: Some(Validity { not_before: ago(3600), not_after: now() + SignedDuration::from_hours(87_600) }),
                source: "/home/ci/.talos/config".to_owned(),
                context: "prod".to_owned(),
                certificate: Some(certificate(&["os:reader"])),
            }),
            endpoints: CONTROL_PLANES.iter().enumerate().map(|(index, name)| endpoint(index, name)).collect(),
            discovery: Ok(4),
            server: Ok(server_check()),
        }),
        kubernetes: Some(kubernetes()),
        external_etcd: None,
        nodes: NODES.iter().enumerate().map(|(index, name)| node(index, name)).collect(),
        memory: Memory::default(),
    }
}

/// Two things checked, one of them passed over.
pub(crate) fn server_check() -> ServerCheck {
    let lines = [
        "discovered nodes: [\"10.0.0.1\" \"10.0.0.2\" \"10.0.0.3\" \"10.0.0.4\"]",
        "waiting for etcd to be healthy: ...",
        "waiting for etcd to be healthy: OK",
        "waiting for kube-proxy to report ready: ...",
        "waiting for kube-proxy to report ready: SKIP",
    ];
    ServerCheck { endpoint: "10.0.0.1:50000".to_owned(), progress: lines.map(said).to_vec(), end: Ok(()) }
}

/// A message of the cluster's own health check.
pub(crate) fn said(message: &str) -> ServerProgress {
    ServerProgress { hostname: String::new(), message: message.to_owned(), error: None }
}

/// Valid for a year, half of it over.
pub(crate) fn certificate(organisations: &[&str]) -> Certificate {
    let half_a_year = SignedDuration::from_hours(24 * 180);
    Certificate {
        not_before: now() - half_a_year,
        not_after: now() + half_a_year,
        client_auth: true,
        matches_key: true,
        organisations: organisations.iter().map(|&name| name.to_owned()).collect(),
    }
}

/// 10.0.0.1 is the first node of [`NODES`].
pub(crate) fn address(index: usize) -> String {
    format!("10.0.0.{}", index + 1)
}

pub(crate) fn version() -> Version {
    Version { tag: "v1.13.0".to_owned(), mode: "metal".to_owned() }
}

fn endpoint(index: usize, name: &str) -> Endpoint {
    Endpoint {
        address: format!("{}:50000", address(index)),
        version: Ok(version()),
        role: Ok(Some(Role::ControlPlane)),
        nodename: Ok(Some(name.to_owned())),
        vip: false,
    }
}

/// The id of the etcd member on the control plane at this place of [`NODES`].
pub(crate) fn member_id(index: usize) -> u64 {
    0x1000_0000_0000_0001 + index as u64
}

pub(crate) fn member(index: usize) -> EtcdMember {
    EtcdMember {
        id: member_id(index),
        name: NODES[index].to_owned(),
        peer_urls: vec![format!("https://{}:2380", address(index))],
        client_urls: vec![format!("https://{}:2379", address(index))],
        is_learner: false,
    }
}

/// The first member leads.
pub(crate) fn etcd_status(index: usize) -> EtcdStatus {
    EtcdStatus {
        member_id: member_id(index),
        leader: member_id(0),
        raft_term: 3,
        raft_index: 5000,
        raft_applied_index: 5000,
        is_learner: false,
        errors: Vec::new(),
        db_size: 4 << 20,
        db_size_in_use: 3 << 20,
        quota: None,
        version: "3.6.16".to_owned(),
        storage_version: "3.6.0".to_owned(),
        earlier: None,
    }
}

pub(crate) fn service(id: &str) -> Service {
    Service {
        id: id.to_owned(),
        state: "Running".to_owned(),
        healthy: Some(true),
        health_message: String::new(),
        last_event: Some(ServiceEvent {
            message: "Health check successful".to_owned(),
            state: "Running".to_owned(),
            at: Some(ago(86_390)),
        }),
        running_since: Some(ago(86_400)),
    }
}

/// Talos facts of the node at this place of [`NODES`].
pub(crate) fn talos_node(index: usize, name: &str) -> TalosNode {
    let control_plane = name.starts_with("cp-");
    let services: &[&str] = if control_plane {
        &["apid", "containerd", "cri", "etcd", "kubelet", "machined", "trustd"]
    } else {
        &["apid", "containerd", "cri", "kubelet", "machined"]
    };
    let pods: &[&str] = if control_plane { &STATIC_PODS } else { &[] };
    let no_etcd = || Gap::not_asked();
    TalosNode {
        contact: Ok(Contact {
            endpoint: "10.0.0.1:50000".to_owned(),
            address: address(index),
            version: version(),
            answered_by_other: None,
            not_through: Vec::new(),
        }),
        machine_type: Ok(Some(if control_plane { Role::ControlPlane } else { Role::Worker })),
        nodename: Ok(Some(name.to_owned())),
        machine_status: Ok(Some(MachineStatus { stage: "running".to_owned(), ready: true, unmet: Vec::new() })),
        services: Ok(services.iter().map(|id| service(id)).collect()),
        time_status: Ok(Some(TimeStatus { synced: true, sync_disabled: false })),
        adjtime: Ok(Some(Adjtime { offset: SignedDuration::from_micros(-44), synced: true })),
        network_status: Ok(Some(NetworkStatus {
            address_ready: true,
            connectivity_ready: true,
            hostname_ready: true,
            etc_files_ready: true,
        })),
        kube_prism: Ok(Some(true)),
        kube_span_peers: if control_plane { Ok(Vec::new()) } else { Err(Gap::not_asked()) },
        memory: Ok(4 << 30),
        volumes: Ok(vec![
            volume("/var/lib", None),
            volume("EPHEMERAL", Some(18 << 30)),
            volume("META", Some(1 << 20)),
            volume("STATE", Some(100 << 20)),
        ]),
        mounts: Ok(vec![mount("/", 0), mount("/var", 14 << 30)]),
        diagnostics: Ok(Vec::new()),
        static_pods: Ok(pods.iter().map(|&id| id.to_owned()).collect()),
        static_pod_statuses: Ok(pods
            .iter()
            .map(|pod| StaticPodStatus { name: format!("{pod}-{name}"), state: running_pod(pod) })
            .collect()),
        config_statuses: Ok(if control_plane {
            vec![
                ReadyResource { id: "static-pods".to_owned(), ready: true },
                ReadyResource { id: "static-pods-secrets".to_owned(), ready: true },
            ]
        } else {
            Vec::new()
        }),
        scheduler_enabled: Ok(control_plane.then_some(true)),
        controller_manager_enabled: Ok(control_plane.then_some(true)),
        bootstrap_manifests: Ok(control_plane.then(|| BootstrapManifests {
            proxy_enabled: true,
            dns_enabled: true,
            flannel_enabled: true,
            dns_service_ip: "10.96.0.10".to_owned(),
        })),
        etcd_member_id: Ok(control_plane.then(|| member_id(index))),
        etcd_status: if control_plane { Ok(etcd_status(index)) } else { Err(no_etcd()) },
        etcd_members: if control_plane { Ok((0..3).map(member).collect()) } else { Err(no_etcd()) },
        etcd_alarms: if control_plane { Ok(Vec::new()) } else { Err(no_etcd()) },
        etcd_spec: Ok(control_plane.then_some(EtcdSpec { quota: None })),
        etcd_data_absent: Err(no_etcd()),
    }
}

pub(crate) fn volume(id: &str, size: Option<u64>) -> Volume {
    Volume { id: id.to_owned(), phase: "ready".to_owned(), size, error: String::new() }
}

/// Of 18 GiB.
pub(crate) fn mount(path: &str, available: u64) -> Mount {
    Mount { path: path.to_owned(), size: 18 << 30, available }
}

/// The node at this place of [`NODES`].
pub(crate) fn node(index: usize, name: &str) -> Node {
    let control_plane = name.starts_with("cp-");
    Node {
        name: name.to_owned(),
        address: address(index),
        addresses: vec![address(index)],
        own_addresses: vec![address(index)],
        // Names and addresses have to do, as they do where nobody tells it.
        machine_id: None,
        role: if control_plane { Role::ControlPlane } else { Role::Worker },
        sources: Sources {
            discovery: true,
            kubernetes: true,
            etcd: control_plane,
            flags: false,
            talosconfig: control_plane,
        },
        is_talos: true,
        leaving: false,
        out_of_scope: false,
        api_port: 6443,
        talos: talos_node(index, name),
    }
}

/// One running, ready container of that name.
pub(crate) fn running_pod(container: &str) -> PodState {
    PodState {
        phase: "Running".to_owned(),
        ready: Some(true),
        containers: vec![ContainerState {
            name: container.to_owned(),
            image: format!("registry.k8s.io/{container}:v1.35.4"),
            ready: true,
            running: true,
            ..ContainerState::default()
        }],
        message: String::new(),
    }
}

pub(crate) fn readyz(server: &str) -> Readyz {
    let half_a_year = SignedDuration::from_hours(24 * 180);
    let certificate = Some(Validity { not_before: now() - half_a_year, not_after: now() + half_a_year });
    Readyz { server: server.to_owned(), status: 200, failed: Vec::new(), text: String::new(), certificate }
}

pub(crate) fn lease(holder: &str, hostname: Option<&str>) -> Lease {
    Lease {
        renewed: Some(ago(3)),
        resource_version: "1000".to_owned(),
        hostname: hostname.map(str::to_owned),
        holder: Some(holder.to_owned()),
        moved_within: None,
    }
}

pub(crate) fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Condition {
    Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
    }
}

/// The Node object of the node at this place of [`NODES`].
pub(crate) fn kube_node(index: usize, name: &str) -> KubeNode {
    let control_plane = name.starts_with("cp-");
    KubeNode {
        name: name.to_owned(),
        addresses: vec![address(index)],
        internal: vec![address(index)],
        machine_id: String::new(),
        control_plane_label: control_plane,
        os_image: "Talos (v1.13.0)".to_owned(),
        kubelet_version: "v1.35.4".to_owned(),
        unschedulable: false,
        cordoned_by_talos: false,
        taints: if control_plane { vec!["node-role.kubernetes.io/control-plane".to_owned()] } else { Vec::new() },
        conditions: vec![
            condition(
                "MemoryPressure",
                "False",
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
            ),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
        deleting: false,
        created: Some(ago(86_400)),
    }
}

fn pod(name: String, node: &str, app: &str, mirror: bool) -> Pod {
    let label = if app.starts_with("kube-") && mirror { "component" } else { "k8s-app" };
    Pod {
        namespace: "kube-system".to_owned(),
        name,
        node: Some(node.to_owned()),
        labels: BTreeMap::from([(label.to_owned(), app.to_owned())]),
        mirror,
        deleting: false,
        leader_elect: None,
        state: running_pod(app),
    }
}

fn daemon_set(name: &str) -> DaemonSet {
    DaemonSet {
        name: name.to_owned(),
        labels: BTreeMap::from([(
            "k8s-app".to_owned(),
            (if name == "kube-flannel" { "flannel" } else { name }).to_owned(),
        )]),
        generation: 1,
        observed_generation: Some(1),
        desired: 4,
        available: 4,
    }
}

fn kubernetes() -> Kubernetes {
    let mut pods = Vec::new();
    for name in CONTROL_PLANES {
        pods.extend(STATIC_PODS.map(|component| pod(format!("{component}-{name}"), name, component, true)));
    }
    for (index, name) in NODES.iter().enumerate() {
        pods.push(pod(format!("kube-proxy-abcd{index}"), name, "kube-proxy", false));
        pods.push(pod(format!("kube-flannel-abcd{index}"), name, "flannel", false));
    }
    pods.push(pod("coredns-5d8c4cc7b-aaaaa".to_owned(), "cp-1", "kube-dns", false));
    pods.push(pod("coredns-5d8c4cc7b-bbbbb".to_owned(), "cp-2", "kube-dns", false));

    let mut system_leases: BTreeMap<_, _> = CONTROL_PLANES
        .iter()
        .enumerate()
        .map(|(index, name)| (format!("apiserver-abcdefghijklmnopqrstuvwxy{index}"), lease(name, Some(name))))
        .collect();
    system_leases.insert("kube-controller-manager".to_owned(), lease("cp-1_1", None));
    system_leases.insert("kube-scheduler".to_owned(), lease("cp-2_1", None));

    Kubernetes {
        credentials: Ok(KubernetesCredentials {
            source: "--kubeconfig /home/ci/kubeconfig".to_owned(),
            explicit: true,
            context: "prod".to_owned(),
            server: "https://k8s.example:6443".to_owned(),
            certificate: Some(certificate(&["system:readers"])),
        }),
        passed_over: Vec::new(),
        may_still_find: false,
        endpoint: Ok(readyz("https://k8s.example:6443")),
        servers: CONTROL_PLANES
            .iter()
            .enumerate()
            .map(|(index, &name)| (name.to_owned(), Ok(readyz(&format!("https://{}:6443", address(index))))))
            .collect(),
        nodes: Ok(NODES.iter().enumerate().map(|(index, name)| kube_node(index, name)).collect()),
        node_leases: Ok(Leases {
            date: Some(now()),
            by_name: NODES.iter().map(|&name| (name.to_owned(), lease(name, None))).collect(),
        }),
        system_leases: Ok(Leases { date: Some(now()), by_name: system_leases }),
        pods: Ok(pods),
        daemon_sets: Ok(vec![daemon_set("kube-flannel"), daemon_set("kube-proxy")]),
        deployments: Ok(vec![Deployment {
            name: "coredns".to_owned(),
            labels: BTreeMap::from([("k8s-app".to_owned(), "kube-dns".to_owned())]),
            replicas: 2,
            available: 2,
        }]),
        dns_endpoints: Ok([1, 2]
            .map(|index| ServiceEndpoint {
                addresses: vec![format!("10.244.0.{index}")],
                ready: true,
                node: Some(format!("cp-{index}")),
            })
            .to_vec()),
        api_endpoints: Ok((0..3)
            .map(|index| ServiceEndpoint { addresses: vec![address(index)], ready: true, node: None })
            .collect()),
        signing_requests: Ok(vec![SigningRequest {
            name: "csr-aaaaa".to_owned(),
            signer: "kubernetes.io/kubelet-serving".to_owned(),
            user: "system:node:w-1".to_owned(),
            pending: false,
        }]),
    }
}

/// One fact at a time. All panic where the fixture has no such thing.
impl Snapshot {
    pub(crate) fn node_mut(&mut self, name: &str) -> &mut Node {
        self.nodes.iter_mut().find(|node| node.name == name).unwrap()
    }

    /// Talos facts of one node.
    pub(crate) fn talos_of(&mut self, name: &str) -> &mut TalosNode {
        &mut self.node_mut(name).talos
    }

    pub(crate) fn talos_mut(&mut self) -> &mut Talos {
        self.talos.as_mut().unwrap()
    }

    pub(crate) fn kube(&mut self) -> &mut Kubernetes {
        self.kubernetes.as_mut().unwrap()
    }

    pub(crate) fn kube_node_mut(&mut self, name: &str) -> &mut KubeNode {
        self.kube().nodes.as_mut().unwrap().iter_mut().find(|node| node.name == name).unwrap()
    }

    /// A Talos service of one node.
    pub(crate) fn service_mut(&mut self, node: &str, id: &str) -> &mut Service {
        self.talos_of(node).services.as_mut().unwrap().iter_mut().find(|service| service.id == id).unwrap()
    }

    pub(crate) fn machine_status_mut(&mut self, node: &str) -> &mut MachineStatus {
        self.talos_of(node).machine_status.as_mut().unwrap().as_mut().unwrap()
    }

    pub(crate) fn etcd_status_mut(&mut self, node: &str) -> &mut EtcdStatus {
        self.talos_of(node).etcd_status.as_mut().unwrap()
    }

    /// Every control plane tells this member list.
    pub(crate) fn set_members(&mut self, members: &[EtcdMember]) {
        for name in CONTROL_PLANES {
            if let Some(node) = self.nodes.iter_mut().find(|node| node.name == name) {
                node.talos.etcd_members = Ok(members.to_vec());
            }
        }
    }

    /// As if the machine had been switched off for a minute: Talos, etcd, its API server and its kubelet are silent.
    pub(crate) fn power_off(&mut self, name: &str) {
        let cause = Gap::new(GapKind::NodeUnreachable, "dial tcp: connect: no route to host");
        self.node_mut(name).talos = TalosNode::unasked(&cause);
        let address = self.node(name).unwrap().address.clone();
        if let Some(talos) = &mut self.talos {
            for endpoint in &mut talos.endpoints {
                if endpoint.address.starts_with(&format!("{address}:")) {
                    endpoint.version = Err(Gap::new(GapKind::NoRoute, "no route to host"));
                    endpoint.role = Err(Gap::not_asked());
                    endpoint.nodename = Err(Gap::not_asked());
                }
            }
        }
        let Some(kubernetes) = &mut self.kubernetes else { return };
        if let Some(server) = kubernetes.servers.get_mut(name) {
            *server = Err(Gap::new(GapKind::NoRoute, "no route to host"));
        }
        for node in kubernetes.nodes.iter_mut().flatten().filter(|node| node.name == name) {
            for condition in &mut node.conditions {
                "Unknown".clone_into(&mut condition.status);
                "NodeStatusUnknown".clone_into(&mut condition.reason);
                "Kubelet stopped posting node status.".clone_into(&mut condition.message);
            }
        }
        for leases in [&mut kubernetes.node_leases, &mut kubernetes.system_leases].into_iter().flatten() {
            for (key, lease) in &mut leases.by_name {
                if key == name || lease.hostname.as_deref() == Some(name) {
                    lease.renewed = Some(ago(90));
                }
            }
        }
        for pod in kubernetes.pods.iter_mut().flatten().filter(|pod| pod.node.as_deref() == Some(name)) {
            pod.state.ready = Some(false);
        }
        for endpoint in kubernetes.api_endpoints.iter_mut().flatten() {
            endpoint.ready &= !endpoint.addresses.contains(&address);
        }
        for set in kubernetes.daemon_sets.iter_mut().flatten() {
            set.available -= 1;
        }
    }

    /// The fixture under `--no-talos`.
    pub(crate) fn without_talos(mut self) -> Self {
        self.talos = None;
        for node in &mut self.nodes {
            node.talos = TalosNode::unasked(&Gap::not_asked());
            node.sources = Sources { kubernetes: true, ..Sources::default() };
        }
        self
    }

    /// The fixture under `--no-kubernetes`.
    pub(crate) fn without_kubernetes(mut self) -> Self {
        self.kubernetes = None;
        for node in &mut self.nodes {
            node.sources.kubernetes = false;
        }
        self
    }

    /// The fixture reduced to these nodes, everywhere.
    pub(crate) fn only(mut self, names: &[&str]) -> Self {
        let keep = |name: &str| names.contains(&name);
        self.nodes.retain(|node| keep(&node.name));
        let ids: Vec<u64> = (0..3).filter(|&index| keep(NODES[index])).map(member_id).collect();
        for node in &mut self.nodes {
            if let Ok(status) = &mut node.talos.etcd_status {
                status.leader = ids[0];
            }
            if let Ok(members) = &mut node.talos.etcd_members {
                members.retain(|member| ids.contains(&member.id));
            }
        }
        if let Some(talos) = &mut self.talos {
            talos.endpoints.retain(|endpoint| matches!(&endpoint.nodename, Ok(Some(name)) if keep(name)));
            talos.discovery = Ok(names.len());
        }
        let Some(kubernetes) = &mut self.kubernetes else { return self };
        kubernetes.servers.retain(|name, _| keep(name));
        if let Ok(nodes) = &mut kubernetes.nodes {
            nodes.retain(|node| keep(&node.name));
        }
        if let Ok(leases) = &mut kubernetes.node_leases {
            leases.by_name.retain(|name, _| keep(name));
        }
        if let Ok(leases) = &mut kubernetes.system_leases {
            leases.by_name.retain(|_, lease| lease.hostname.as_deref().is_none_or(keep));
        }
        if let Ok(pods) = &mut kubernetes.pods {
            pods.retain(|pod| pod.node.as_deref().is_none_or(keep));
        }
        let addresses: Vec<&String> = self.nodes.iter().map(|node| &node.address).collect();
        if let Ok(endpoints) = &mut kubernetes.api_endpoints {
            endpoints.retain(|endpoint| endpoint.addresses.iter().any(|address| addresses.contains(&address)));
        }
        if let Ok(endpoints) = &mut kubernetes.dns_endpoints {
            endpoints.retain(|endpoint| endpoint.node.as_deref().is_none_or(keep));
        }
        for set in kubernetes.daemon_sets.iter_mut().flatten() {
            set.desired = i32::try_from(names.len()).unwrap();
            set.available = set.desired;
        }
        self
    }
}
