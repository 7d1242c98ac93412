//! Ways to break a healthy cluster.

use super::*;

pub(super) fn talos_certificate(snapshot: &mut Snapshot) -> &mut crate::snapshot::Certificate {
    snapshot.talos_mut().credentials.as_mut().unwrap().certificate.as_mut().unwrap()
}

pub(super) fn endpoints(snapshot: &mut Snapshot, kind: GapKind) {
    for endpoint in &mut snapshot.talos_mut().endpoints {
        endpoint.version = gap(kind);
        endpoint.role = Err(Gap::not_asked());
        endpoint.nodename = Err(Gap::not_asked());
    }
    for node in &mut snapshot.nodes {
        node.talos = TalosNode::unasked(&Gap::not_asked()).into();
    }
}

pub(super) fn unreached(snapshot: &mut Snapshot, kind: GapKind) {
    snapshot.node_mut("w-1").talos = TalosNode::unasked(&Gap::new(kind, "rpc error")).into();
}

/// The etcd of this control plane has not started yet, and the other members do not list it.
pub(super) fn joins_etcd(snapshot: &mut Snapshot, node: &str) {
    let id = snapshot.etcd_status_mut(node).member_id;
    service(snapshot, node, "etcd", "Preparing");
    let talos = snapshot.talos_of(node);
    talos.etcd_status = gap(GapKind::ServerError);
    talos.etcd_members = gap(GapKind::ServerError);
    talos.etcd_alarms = gap(GapKind::ServerError);
    talos.etcd_member_id = Ok(None);
    for other in &mut snapshot.nodes {
        if let Ok(members) = &mut other.talos.etcd_members {
            members.retain(|member| member.id != id);
        }
    }
}

/// Nothing listens on w-1.
pub(super) fn refused(snapshot: &mut Snapshot) {
    let why = "dial tcp 10.0.0.4:50000: connect: connection refused";
    snapshot.node_mut("w-1").talos = TalosNode::unasked(&Gap::new(GapKind::NodeUnreachable, why)).into();
}

/// Nothing listens on w-1, and its kubelet never registered it.
pub(super) fn not_joined(snapshot: &mut Snapshot) {
    refused(snapshot);
    let sources = &mut snapshot.node_mut("w-1").sources;
    (sources.kubernetes, sources.flags) = (false, true);
    snapshot.kube().nodes.as_mut().unwrap().retain(|node| node.name != "w-1");
}

/// The kubelet of w-1 runs, but never registered it.
pub(super) fn not_registered(snapshot: &mut Snapshot) {
    snapshot.node_mut("w-1").sources.kubernetes = false;
    snapshot.kube().nodes.as_mut().unwrap().retain(|node| node.name != "w-1");
}

/// The network plugin's pod on w-1 waits for this reason.
pub(super) fn cannot_pull(snapshot: &mut Snapshot, reason: &str) {
    let kubernetes = snapshot.kube();
    let set = kubernetes.daemon_sets.as_mut().unwrap().iter_mut().find(|set| set.name == "kube-flannel").unwrap();
    set.available = 3;
    let pods = kubernetes.pods.as_mut().unwrap();
    let is_its =
        |pod: &&mut crate::snapshot::Pod| pod.name.starts_with("kube-flannel") && pod.node.as_deref() == Some("w-1");
    let pod = pods.iter_mut().find(is_its).unwrap();
    pod.state.phase = "Pending".to_owned();
    pod.state.ready = Some(false);
    pod.state.containers = vec![ContainerState {
        name: "kube-flannel".to_owned(),
        image: "ghcr.io/siderolabs/flannel:v0.0.1".to_owned(),
        waiting_reason: Some(reason.to_owned()),
        waiting_message: Some("not found".to_owned()),
        ..ContainerState::default()
    }];
}

/// Kubernetes has not heard from w-1 either.
pub(super) fn silent(snapshot: &mut Snapshot) {
    let ready = condition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.");
    snapshot.kube_node_mut("w-1").conditions = vec![ready];
}

pub(super) fn stage(snapshot: &mut Snapshot, node: &str, stage: &str) {
    let status = snapshot.machine_status_mut(node);
    stage.clone_into(&mut status.stage);
    status.ready = false;
}

/// The machine stopped its services for this, so its kubelet and its API server are silent.
pub(super) fn goes_down(snapshot: &mut Snapshot, node: &str, into: &str) {
    stage(snapshot, node, into);
    let services: Vec<String> =
        snapshot.talos_of(node).services.iter().flatten().map(|service| service.id.clone()).collect();
    for id in services.iter().filter(|id| !matches!(id.as_str(), "machined" | "apid" | "containerd")) {
        service(snapshot, node, id, "Finished");
    }
    let ready = condition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.");
    snapshot.kube_node_mut(node).conditions = vec![ready];
    if CONTROL_PLANES.contains(&node) {
        let talos = snapshot.talos_of(node);
        (talos.etcd_status, talos.etcd_members) = (gap(GapKind::ServerError), gap(GapKind::ServerError));
        talos.etcd_alarms = gap(GapKind::ServerError);
        snapshot.kube().servers.insert(node.to_owned(), gap(GapKind::ConnectionRefused));
        let leases = snapshot.kube().system_leases.as_mut().unwrap();
        let own = |lease: &&mut crate::snapshot::Lease| lease.hostname.as_deref() == Some(node);
        leases.by_name.values_mut().filter(own).for_each(|lease| lease.renewed = Some(ago(120)));
    }
}

/// The member on cp-3 hangs, and Talos has not queried it since.
pub(super) fn member_hangs(snapshot: &mut Snapshot) {
    let talos = snapshot.talos_of("cp-3");
    talos.etcd_status = gap(GapKind::TimedOut);
    talos.etcd_members = gap(GapKind::TimedOut);
    talos.etcd_alarms = gap(GapKind::TimedOut);
    misses_etcd(snapshot, "cp-3");
}

/// The member on cp-3 answers, but its peers do not reach it.
pub(super) fn member_is_cut_off(snapshot: &mut Snapshot) {
    let status = snapshot.etcd_status_mut("cp-3");
    (status.leader, status.errors) = (0, vec!["etcdserver: no leader".to_owned()]);
    let talos = snapshot.talos_of("cp-3");
    talos.etcd_members = gap(GapKind::ServerError);
    talos.etcd_alarms = gap(GapKind::TimedOut);
    misses_etcd(snapshot, "cp-3");
}

/// The API server of this machine reports that it lacks etcd.
pub(super) fn misses_etcd(snapshot: &mut Snapshot, node: &str) {
    let readyz = snapshot.kube().servers.get_mut(node).unwrap().as_mut().unwrap();
    (readyz.status, readyz.failed) = (500, vec!["etcd".to_owned(), "etcd-readiness".to_owned()]);
}

pub(super) fn service(snapshot: &mut Snapshot, node: &str, id: &str, state: &str) {
    let service = snapshot.service_mut(node, id);
    state.clone_into(&mut service.state);
    service.healthy = Some(false);
    service.running_since = None;
}

pub(super) fn never_bootstrapped(snapshot: &mut Snapshot) {
    for name in CONTROL_PLANES {
        service(snapshot, name, "etcd", "Preparing");
        let talos = snapshot.talos_of(name);
        talos.etcd_data_absent = Ok(true);
        talos.etcd_status = gap(GapKind::ServerError);
        talos.etcd_members = gap(GapKind::ServerError);
        talos.etcd_alarms = gap(GapKind::ServerError);
        *snapshot.kube().servers.get_mut(name).unwrap() = gap(GapKind::ConnectionRefused);
    }
    snapshot.kube().endpoint = gap(GapKind::ConnectionRefused);
    lists(snapshot, GapKind::ConnectionRefused);
}

pub(super) fn lists(snapshot: &mut Snapshot, kind: GapKind) {
    let kube = snapshot.kube();
    kube.nodes = gap(kind);
    kube.node_leases = gap(kind);
    kube.system_leases = gap(kind);
    kube.pods = gap(kind);
    kube.daemon_sets = gap(kind);
    kube.deployments = gap(kind);
    kube.dns_endpoints = gap(kind);
    kube.api_endpoints = gap(kind);
}

pub(super) fn quorum_lost(snapshot: &mut Snapshot) {
    for name in ["cp-2", "cp-3"] {
        service(snapshot, name, "etcd", "Failed");
        let talos = snapshot.talos_of(name);
        talos.etcd_status = gap(GapKind::ServerError);
        talos.etcd_members = gap(GapKind::ServerError);
        talos.etcd_alarms = gap(GapKind::ServerError);
    }
    let status = snapshot.etcd_status_mut("cp-1");
    status.leader = 0;
    status.errors = vec!["etcdserver: no leader".to_owned()];
    snapshot.talos_of("cp-1").etcd_members = gap(GapKind::TimedOut);
    snapshot.talos_of("cp-1").etcd_alarms = gap(GapKind::TimedOut);
}

pub(super) fn raise(snapshot: &mut Snapshot, kind: &AlarmKind) {
    for name in CONTROL_PLANES {
        let member_id = snapshot.etcd_status_mut("cp-1").member_id;
        snapshot.talos_of(name).etcd_alarms = Ok(vec![EtcdAlarm { member_id, kind: kind.clone() }]);
    }
}

pub(super) fn no_alarms(snapshot: &mut Snapshot) {
    for name in CONTROL_PLANES {
        snapshot.talos_of(name).etcd_alarms = gap(GapKind::TimedOut);
    }
}

pub(super) fn no_lists(snapshot: &mut Snapshot) {
    for name in CONTROL_PLANES {
        snapshot.talos_of(name).etcd_members = gap(GapKind::TimedOut);
    }
}

pub(super) fn no_statuses(snapshot: &mut Snapshot) {
    for name in CONTROL_PLANES {
        snapshot.talos_of(name).etcd_status = gap(GapKind::TimedOut);
    }
}

pub(super) fn members(snapshot: &Snapshot) -> Vec<EtcdMember> {
    snapshot.node("cp-1").unwrap().talos.etcd_members.clone().unwrap()
}

pub(super) fn stale_member(snapshot: &mut Snapshot) {
    let mut members = members(snapshot);
    members.push(EtcdMember {
        id: 0xdead,
        name: "cp-old".to_owned(),
        peer_urls: vec!["https://10.0.0.99:2380".to_owned()],
        client_urls: vec!["https://10.0.0.99:2379".to_owned()],
        is_learner: false,
    });
    snapshot.set_members(&members);
}

pub(super) fn crashes(snapshot: &mut Snapshot) {
    crashes_on(snapshot, "cp-2", "kube-scheduler");
}

pub(super) fn crash_everywhere(snapshot: &mut Snapshot, component: &str) {
    for name in CONTROL_PLANES {
        crashes_on(snapshot, name, component);
    }
}

pub(super) fn state_of<'a>(
    snapshot: &'a mut Snapshot,
    node: &str,
    component: &str,
) -> &'a mut crate::snapshot::PodState {
    let statuses = snapshot.talos_of(node).static_pod_statuses.as_mut().unwrap();
    let name = format!("{component}-{node}");
    &mut statuses.iter_mut().find(|status| status.name == name).unwrap().state
}

pub(super) fn crashes_on(snapshot: &mut Snapshot, node: &str, component: &str) {
    let state = state_of(snapshot, node, component);
    state.ready = Some(false);
    state.containers = vec![ContainerState {
        name: component.to_owned(),
        restarts: 7,
        waiting_reason: Some("CrashLoopBackOff".to_owned()),
        exit_code: Some(1),
        ..ContainerState::default()
    }];
}

pub(super) fn no_network(snapshot: &mut Snapshot) {
    for name in crate::testing::fixture::NODES {
        let message = "container runtime network not ready: cni plugin not initialized";
        snapshot.kube_node_mut(name).conditions = vec![condition("Ready", "False", "KubeletNotReady", message)];
    }
}

pub(super) fn half_upgraded(snapshot: &mut Snapshot) {
    "v1.12.4".clone_into(&mut snapshot.talos_of("w-1").contact.as_mut().unwrap().version.tag);
    let node = snapshot.kube_node_mut("w-1");
    node.unschedulable = true;
    node.cordoned_by_talos = true;
}

/// The members through etcd's own API, independent of Talos.
pub(super) fn external_etcd(snapshot: &mut Snapshot) {
    let endpoint = |n: usize| EtcdEndpoint {
        address: format!("https://{}:2379", crate::testing::fixture::address(n)),
        status: Ok(crate::testing::fixture::etcd_status(n)),
        members: Ok((0..3).map(crate::testing::fixture::member).collect()),
        alarms: Ok(Vec::new()),
    };
    snapshot.external_etcd = Some((0..3).map(endpoint).collect());
}

/// The last endpoint has this gap and answers nothing.
pub(super) fn mute_endpoint(snapshot: &mut Snapshot, kind: GapKind) {
    external_etcd(snapshot);
    let last = snapshot.external_etcd.as_mut().unwrap().last_mut().unwrap();
    (last.status, last.members, last.alarms) = (gap(kind), gap(kind), gap(kind));
}

/// Changes the member list of every endpoint that answers.
pub(super) fn listed(snapshot: &mut Snapshot, change: fn(&mut Vec<EtcdMember>)) {
    let lists = snapshot.external_etcd.iter_mut().flatten().map(|endpoint| &mut endpoint.members);
    lists.flatten().for_each(change);
}

pub(super) fn unstarted() -> EtcdMember {
    let peer_urls = vec!["https://10.0.0.9:2380".to_owned()];
    EtcdMember { id: 0x4d, name: String::new(), peer_urls, client_urls: Vec::new(), is_learner: false }
}

pub(super) fn dns_pods(snapshot: &mut Snapshot) -> impl Iterator<Item = &mut crate::snapshot::Pod> {
    snapshot.kube().pods.as_mut().unwrap().iter_mut().filter(|pod| pod.name.starts_with("coredns"))
}

pub(super) const NO_NODES: Break = |snapshot| snapshot.kube().nodes = gap(GapKind::ServerError);

/// No control plane has applied any manifests, and kube-proxy is missing.
pub(super) fn nothing_applied(snapshot: &mut Snapshot) {
    for node in ["cp-1", "cp-2", "cp-3"] {
        snapshot.talos_of(node).manifests_applied = Ok(Vec::new());
    }
    snapshot.kube().daemon_sets.as_mut().unwrap().retain(|set| set.name != "kube-proxy");
}
