//! One trouble for each cause, and what has to be seen of it.

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

/// The etcd of this control plane has not started yet, and the others do not list it.
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
fn refused(snapshot: &mut Snapshot) {
    let why = "dial tcp 10.0.0.4:50000: connect: connection refused";
    snapshot.node_mut("w-1").talos = TalosNode::unasked(&Gap::new(GapKind::NodeUnreachable, why)).into();
}

/// Nothing listens on w-1, and its kubelet has never registered it.
pub(super) fn not_joined(snapshot: &mut Snapshot) {
    refused(snapshot);
    let sources = &mut snapshot.node_mut("w-1").sources;
    (sources.kubernetes, sources.flags) = (false, true);
    snapshot.kube().nodes.as_mut().unwrap().retain(|node| node.name != "w-1");
}

/// The kubelet of w-1 runs, and has never registered it.
pub(super) fn not_registered(snapshot: &mut Snapshot) {
    snapshot.node_mut("w-1").sources.kubernetes = false;
    snapshot.kube().nodes.as_mut().unwrap().retain(|node| node.name != "w-1");
}

/// The pod of the network plugin on w-1 waits, for this reason.
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

/// The machine has stopped its services for that, and nobody hears from its kubelet and its API server.
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

/// The member on cp-3 hangs, and Talos has not asked it since.
pub(super) fn member_hangs(snapshot: &mut Snapshot) {
    let talos = snapshot.talos_of("cp-3");
    talos.etcd_status = gap(GapKind::TimedOut);
    talos.etcd_members = gap(GapKind::TimedOut);
    talos.etcd_alarms = gap(GapKind::TimedOut);
    misses_etcd(snapshot, "cp-3");
}

/// The member on cp-3 answers, and its peers do not reach it.
pub(super) fn member_is_cut_off(snapshot: &mut Snapshot) {
    let status = snapshot.etcd_status_mut("cp-3");
    (status.leader, status.errors) = (0, vec!["etcdserver: no leader".to_owned()]);
    let talos = snapshot.talos_of("cp-3");
    talos.etcd_members = gap(GapKind::ServerError);
    talos.etcd_alarms = gap(GapKind::TimedOut);
    misses_etcd(snapshot, "cp-3");
}

/// The API server of this machine says so.
fn misses_etcd(snapshot: &mut Snapshot, node: &str) {
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

fn crash_everywhere(snapshot: &mut Snapshot, component: &str) {
    for name in CONTROL_PLANES {
        crashes_on(snapshot, name, component);
    }
}

fn state_of<'a>(snapshot: &'a mut Snapshot, node: &str, component: &str) -> &'a mut crate::snapshot::PodState {
    let statuses = snapshot.talos_of(node).static_pod_statuses.as_mut().unwrap();
    let name = format!("{component}-{node}");
    &mut statuses.iter_mut().find(|status| status.name == name).unwrap().state
}

fn crashes_on(snapshot: &mut Snapshot, node: &str, component: &str) {
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

/// The members by etcd's own API, Talos aside.
pub(super) fn external_etcd(snapshot: &mut Snapshot) {
    let endpoint = |n: usize| EtcdEndpoint {
        address: format!("https://{}:2379", crate::testing::fixture::address(n)),
        status: Ok(crate::testing::fixture::etcd_status(n)),
        members: Ok((0..3).map(crate::testing::fixture::member).collect()),
        alarms: Ok(Vec::new()),
    };
    snapshot.external_etcd = Some((0..3).map(endpoint).collect());
}

/// The last endpoint shows this and answers nothing.
pub(super) fn mute_endpoint(snapshot: &mut Snapshot, kind: GapKind) {
    external_etcd(snapshot);
    let last = snapshot.external_etcd.as_mut().unwrap().last_mut().unwrap();
    (last.status, last.members, last.alarms) = (gap(kind), gap(kind), gap(kind));
}

/// As all endpoints that answer list the members.
pub(super) fn listed(snapshot: &mut Snapshot, change: fn(&mut Vec<EtcdMember>)) {
    let lists = snapshot.external_etcd.iter_mut().flatten().map(|endpoint| &mut endpoint.members);
    lists.flatten().for_each(change);
}

pub(super) fn unstarted() -> EtcdMember {
    let peer_urls = vec!["https://10.0.0.9:2380".to_owned()];
    EtcdMember { id: 0x4d, name: String::new(), peer_urls, client_urls: Vec::new(), is_learner: false }
}

fn dns_pods(snapshot: &mut Snapshot) -> impl Iterator<Item = &mut crate::snapshot::Pod> {
    snapshot.kube().pods.as_mut().unwrap().iter_mut().filter(|pod| pod.name.starts_with("coredns"))
}

pub(super) const NO_NODES: Break = |snapshot| snapshot.kube().nodes = gap(GapKind::ServerError);

/// No control plane has applied any, and kube-proxy is missing.
fn nothing_applied(snapshot: &mut Snapshot) {
    for node in ["cp-1", "cp-2", "cp-3"] {
        snapshot.talos_of(node).manifests_applied = Ok(Vec::new());
    }
    snapshot.kube().daemon_sets.as_mut().unwrap().retain(|set| set.name != "kube-proxy");
}

pub(super) const CASES: &[Case] = &[
    Case {
        cause: "bootstrap-manifests-missing",
        trouble: nothing_applied,
        needs: &[|snapshot| snapshot.talos_of("cp-2").manifests_applied = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "credentials-expired",
        trouble: |snapshot| talos_certificate(snapshot).not_after = ago(3600),
        needs: &[|snapshot| snapshot.talos_mut().credentials = gap(GapKind::Malformed)],
    },
    Case {
        cause: "talosconfig-of-another-cluster",
        trouble: |snapshot| endpoints(snapshot, GapKind::UnknownCa),
        needs: &[|snapshot| snapshot.talos_mut().endpoints[1].version = gap(GapKind::ConnectTimedOut)],
    },
    Case {
        cause: "kubeconfig-of-another-cluster",
        trouble: |snapshot| {
            for (n, node) in snapshot.kube().nodes.as_mut().unwrap().iter_mut().enumerate() {
                node.name = format!("other-{n}");
                node.addresses = vec![format!("10.9.0.{n}")];
            }
        },
        needs: &[NO_NODES],
    },
    Case {
        cause: "worker-as-endpoint",
        trouble: |snapshot| snapshot.talos_mut().endpoints[0].role = Ok(Some(Role::Worker)),
        needs: &[|snapshot| snapshot.talos_mut().endpoints[0].role = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "talos-role-insufficient",
        trouble: |snapshot| snapshot.talos_of("cp-1").etcd_alarms = gap(GapKind::Forbidden),
        needs: &[|snapshot| snapshot.talos_of("cp-1").etcd_alarms = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "etcd-rights-missing",
        trouble: |snapshot| {
            external_etcd(snapshot);
            for endpoint in snapshot.external_etcd.as_mut().unwrap() {
                endpoint.alarms = gap(GapKind::Forbidden);
            }
        },
        needs: &[|snapshot| {
            for endpoint in snapshot.external_etcd.as_mut().unwrap() {
                endpoint.alarms = gap(GapKind::ServerError);
            }
        }],
    },
    Case {
        cause: "etcd-endpoint-mute",
        trouble: |snapshot| mute_endpoint(snapshot, GapKind::ConnectionRefused),
        needs: &[
            |snapshot| mute_endpoint(snapshot, GapKind::ConnectTimedOut),
            |snapshot| listed(snapshot, |members| members.truncate(2)),
            |snapshot| snapshot.external_etcd = None,
        ],
    },
    Case {
        cause: "etcd-member-never-started",
        trouble: |snapshot| {
            external_etcd(snapshot);
            listed(snapshot, |members| members.push(unstarted()));
        },
        needs: &[
            |snapshot| listed(snapshot, |members| "cp-4".clone_into(&mut members[3].name)),
            |snapshot| listed(snapshot, |members| members[3].is_learner = true),
            |snapshot| listed(snapshot, Vec::clear),
        ],
    },
    Case {
        cause: "kubernetes-rights-missing",
        trouble: |snapshot| {
            snapshot.kube().daemon_sets = gap(GapKind::Forbidden);
            snapshot.memory = snapshot.memory.after(snapshot, Duration::ZERO);
            snapshot.memory.elapsed = Duration::from_secs(100);
        },
        needs: &[|snapshot| snapshot.kube().daemon_sets = gap(GapKind::ServerError)],
    },
    Case {
        cause: "certificate-renewal-broken",
        trouble: |snapshot| snapshot.talos_mut().endpoints[2].version = gap(GapKind::PeerCertificateExpired),
        needs: &[
            |snapshot| snapshot.talos_mut().endpoints[2].version = gap(GapKind::TimedOut),
            |snapshot| endpoints(snapshot, GapKind::PeerCertificateExpired),
        ],
    },
    Case {
        cause: "certificate-renewal-broken",
        trouble: |snapshot| {
            let why = "tls: failed to verify certificate: x509: certificate has expired or is not yet valid";
            snapshot.node_mut("w-1").talos = TalosNode::unasked(&Gap::new(GapKind::NodeUnreachable, why)).into();
        },
        needs: &[|snapshot| unreached(snapshot, GapKind::NodeUnreachable)],
    },
    Case {
        cause: "clock-not-synchronized",
        trouble: |snapshot| {
            snapshot.talos_of("cp-2").time_status.as_mut().unwrap().as_mut().unwrap().synced = false;
        },
        needs: &[|snapshot| snapshot.talos_of("cp-2").time_status = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "kubelet-certificate-unapproved",
        trouble: |snapshot| {
            let request = &mut snapshot.kube().signing_requests.as_mut().unwrap()[0];
            request.state = crate::snapshot::RequestState::Pending;
            "system:node:cp-2".clone_into(&mut request.user);
            snapshot.talos_of("cp-2").static_pod_statuses = Ok(Vec::new());
        },
        needs: &[
            |snapshot| snapshot.kube().signing_requests = gap(GapKind::Forbidden),
            |snapshot| "system:node:cp-3".clone_into(&mut snapshot.kube().signing_requests.as_mut().unwrap()[0].user),
        ],
    },
    Case {
        cause: "kubelet-without-certificate",
        trouble: |snapshot| {
            let request = &mut snapshot.kube().signing_requests.as_mut().unwrap()[0];
            request.state = crate::snapshot::RequestState::Pending;
            "kubernetes.io/kube-apiserver-client-kubelet".clone_into(&mut request.signer);
            "system:node:w-1".clone_into(&mut request.user);
            snapshot.kube().nodes.as_mut().unwrap().retain(|node| node.name != "w-1");
        },
        needs: &[
            |snapshot| snapshot.kube().signing_requests.as_mut().unwrap()[0].user = "system:bootstrap:abc".to_owned(),
            |snapshot| snapshot.kube().signing_requests = gap(GapKind::Forbidden),
        ],
    },
    Case {
        cause: "etcd-joining",
        trouble: |snapshot| joins_etcd(snapshot, "cp-3"),
        needs: &[
            |snapshot| "Failed".clone_into(&mut snapshot.service_mut("cp-3", "etcd").state),
            |snapshot| {
                let event = crate::snapshot::ServiceEvent {
                    message: "Running pre state".to_owned(),
                    state: "Preparing".to_owned(),
                    at: Some(ago(900)),
                };
                snapshot.service_mut("cp-3", "etcd").last_event = Some(event);
            },
        ],
    },
    Case {
        cause: "machine-not-joined",
        trouble: not_joined,
        needs: &[
            |snapshot| unreached(snapshot, GapKind::NodeUnreachable),
            |snapshot| {
                snapshot.kube().nodes.as_mut().unwrap().push(crate::testing::fixture::Shape::default().kube_node(3));
            },
        ],
    },
    Case {
        cause: "api-path-blocked",
        trouble: |snapshot| {
            for name in CONTROL_PLANES {
                snapshot.kube().servers.insert(name.to_owned(), gap(GapKind::ConnectTimedOut));
            }
            snapshot.kube().endpoint = gap(GapKind::ConnectTimedOut);
            lists(snapshot, GapKind::ConnectTimedOut);
        },
        needs: &[
            // A connection that was accepted and not served shows a server, and so does an answer.
            |snapshot| snapshot.kube().endpoint = gap(GapKind::TimedOut),
            |snapshot| *snapshot.kube().servers.get_mut("cp-2").unwrap() = gap(GapKind::TimedOut),
            |snapshot| {
                let pods = snapshot.talos_of("cp-2").static_pod_statuses.as_mut().unwrap();
                for pod in pods {
                    pod.state.ready = Some(false);
                }
            },
            |snapshot| snapshot.talos_of("cp-2").static_pod_statuses = gap(GapKind::TimedOut),
        ],
    },
    Case {
        cause: "machine-going-down",
        trouble: |snapshot| goes_down(snapshot, "w-1", "rebooting"),
        needs: &[
            |snapshot| snapshot.talos_of("w-1").machine_status = gap(GapKind::TimedOut),
            |snapshot| snapshot.machine_status_mut("w-1").stage = "running".to_owned(),
            |snapshot| snapshot.machine_status_mut("w-1").stage = "booting".to_owned(),
        ],
    },
    Case {
        cause: "machine-unconfigured",
        trouble: |snapshot| unreached(snapshot, GapKind::Maintenance),
        needs: &[|snapshot| unreached(snapshot, GapKind::NodeUnreachable)],
    },
    Case {
        cause: "machine-renamed",
        trouble: |snapshot| {
            let contact = snapshot.talos_of("w-1").contact.as_mut().unwrap();
            contact.answered_by_other = Some("talos-u4e-prh".to_owned());
            snapshot.node_mut("w-1").sources.discovery = false;
            silent(snapshot);
        },
        needs: &[
            |snapshot| snapshot.talos_mut().discovery = gap(GapKind::TimedOut),
            |snapshot| unreached(snapshot, GapKind::NodeUnreachable),
        ],
    },
    Case {
        cause: "node-removed-but-listed",
        trouble: |snapshot| {
            unreached(snapshot, GapKind::NodeUnreachable);
            snapshot.node_mut("w-1").sources.discovery = false;
            silent(snapshot);
        },
        needs: &[|snapshot| snapshot.talos_mut().discovery = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "autoscaler-removes-nodes",
        trouble: |snapshot| {
            snapshot.asked.expect_workers = Some(1);
            snapshot.node_mut("w-1").leaving = true;
        },
        needs: &[|snapshot| snapshot.asked.expect_workers = None, |snapshot| snapshot.asked.expect_workers = Some(2)],
    },
    Case {
        cause: "node-certificate-refused",
        trouble: |snapshot| {
            let why = "authentication handshake failed: tls: failed to verify certificate: x509: certificate signed by unknown authority";
            snapshot.node_mut("w-1").talos = TalosNode::unasked(&Gap::new(GapKind::NodeUnreachable, why)).into();
        },
        needs: &[|snapshot| unreached(snapshot, GapKind::NodeUnreachable)],
    },
    Case {
        cause: "talos-api-refused",
        trouble: refused,
        needs: &[
            |snapshot| unreached(snapshot, GapKind::NodeUnreachable),
            |snapshot| snapshot.node_mut("w-1").talos.contact = Err(Gap::not_asked()),
        ],
    },
    Case {
        cause: "node-down",
        trouble: |snapshot| {
            unreached(snapshot, GapKind::NodeUnreachable);
            silent(snapshot);
        },
        needs: &[|snapshot| snapshot.node_mut("w-1").talos.contact = Err(Gap::not_asked())],
    },
    Case {
        cause: "node-hangs",
        trouble: |snapshot| {
            snapshot.power_off("cp-3");
            snapshot.node_mut("cp-3").talos =
                TalosNode::unasked(&Gap::new(GapKind::TimedOut, "no answer in 5 s")).into();
            snapshot.talos_mut().endpoints[2].version = gap(GapKind::TimedOut);
        },
        needs: &[|snapshot| snapshot.talos_mut().endpoints[2].version = gap(GapKind::ConnectTimedOut)],
    },
    Case {
        cause: "talos-api-cut-off",
        trouble: |snapshot| {
            unreached(snapshot, GapKind::NodeUnreachable);
            snapshot.memory.rounds = 1;
            snapshot.kube().node_leases.as_mut().unwrap().by_name.get_mut("w-1").unwrap().moved_within =
                Some(Duration::from_secs(12));
        },
        needs: &[
            |snapshot| snapshot.kube().node_leases = gap(GapKind::TimedOut),
            |snapshot| snapshot.memory.rounds = 0,
            |snapshot| snapshot.memory.answered.extend(["w-1".to_owned()]),
            NO_NODES,
            |snapshot| snapshot.node_mut("w-1").talos.contact = Err(Gap::not_asked()),
        ],
    },
    Case {
        cause: "cluster-not-bootstrapped",
        trouble: never_bootstrapped,
        needs: &[
            |snapshot| snapshot.talos_of("cp-2").etcd_data_absent = gap(GapKind::TimedOut),
            |snapshot| snapshot.talos_of("cp-2").services = gap(GapKind::TimedOut),
        ],
    },
    Case {
        cause: "bootstrapped-twice",
        trouble: |snapshot| {
            let mut other = members(snapshot);
            other.retain(|member| member.name == "cp-3");
            let mut rest = members(snapshot);
            rest.retain(|member| member.name != "cp-3");
            snapshot.set_members(&rest);
            snapshot.talos_of("cp-3").etcd_members = Ok(other);
        },
        needs: &[no_lists],
    },
    Case {
        cause: "boot-held-up",
        trouble: |snapshot| {
            stage(snapshot, "w-1", "booting");
            service(snapshot, "w-1", "cri", "Waiting");
        },
        needs: &[
            |snapshot| snapshot.talos_of("w-1").services = gap(GapKind::TimedOut),
            |snapshot| snapshot.talos_of("w-1").machine_status = gap(GapKind::TimedOut),
        ],
    },
    Case { cause: "etcd-out-of-space", trouble: |snapshot| raise(snapshot, &AlarmKind::NoSpace), needs: &[no_alarms] },
    Case { cause: "etcd-data-corrupt", trouble: |snapshot| raise(snapshot, &AlarmKind::Corrupt), needs: &[no_alarms] },
    Case { cause: "etcd-quorum-lost", trouble: quorum_lost, needs: &[no_statuses] },
    Case {
        cause: "etcd-member-stuck-joining",
        trouble: |snapshot| {
            snapshot.etcd_status_mut("cp-3").is_learner = true;
            let mut members = members(snapshot);
            members[2].is_learner = true;
            snapshot.set_members(&members);
        },
        needs: &[|snapshot| {
            no_lists(snapshot);
            no_statuses(snapshot);
        }],
    },
    Case { cause: "etcd-member-without-machine", trouble: stale_member, needs: &[no_lists] },
    Case {
        cause: "etcd-member-removed",
        trouble: |snapshot| {
            let mut left = members(snapshot);
            left.retain(|member| member.name != "cp-3");
            snapshot.set_members(&left);
            service(snapshot, "cp-3", "etcd", "Preparing");
            snapshot.talos_of("cp-3").etcd_members = gap(GapKind::ConnectionRefused);
            snapshot.talos_of("cp-3").etcd_status = gap(GapKind::ConnectionRefused);
        },
        needs: &[no_lists, no_statuses, |snapshot| snapshot.talos_of("cp-3").services = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "etcd-member-down",
        trouble: |snapshot| service(snapshot, "cp-3", "etcd", "Waiting"),
        needs: &[no_lists, no_statuses, |snapshot| snapshot.talos_of("cp-3").services = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "kubelet-not-running",
        trouble: |snapshot| service(snapshot, "w-1", "kubelet", "Waiting"),
        needs: &[|snapshot| snapshot.talos_of("w-1").services = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "no-controller-manager-left",
        trouble: |snapshot| crash_everywhere(snapshot, "kube-controller-manager"),
        needs: &[|snapshot| {
            *state_of(snapshot, "cp-2", "kube-controller-manager") = running_pod("kube-controller-manager");
        }],
    },
    Case {
        cause: "no-scheduler-left",
        trouble: |snapshot| crash_everywhere(snapshot, "kube-scheduler"),
        needs: &[|snapshot| *state_of(snapshot, "cp-2", "kube-scheduler") = running_pod("kube-scheduler")],
    },
    Case {
        cause: "component-crash-looping",
        trouble: crashes,
        needs: &[|snapshot| {
            snapshot.talos_of("cp-2").static_pod_statuses = gap(GapKind::TimedOut);
        }],
    },
    Case {
        cause: "load-balancer-down",
        trouble: |snapshot| snapshot.kube().endpoint = gap(GapKind::ConnectTimedOut),
        needs: &[|snapshot| *snapshot.kube().servers.get_mut("cp-2").unwrap() = gap(GapKind::ConnectTimedOut)],
    },
    Case {
        cause: "no-api-server-works",
        trouble: |snapshot| {
            snapshot.kube().endpoint = gap(GapKind::TimedOut);
            for name in CONTROL_PLANES {
                *snapshot.kube().servers.get_mut(name).unwrap() = gap(GapKind::TimedOut);
            }
        },
        needs: &[
            |snapshot| *snapshot.kube().servers.get_mut("cp-2").unwrap() = Err(Gap::not_asked()),
            |snapshot| snapshot.kube().endpoint = healthy().kube().endpoint.clone(),
            |snapshot| {
                snapshot.nodes.clear();
                snapshot.kube().servers.clear();
            },
        ],
    },
    Case {
        cause: "api-server-down",
        trouble: |snapshot| *snapshot.kube().servers.get_mut("cp-2").unwrap() = gap(GapKind::TimedOut),
        needs: &[|snapshot| *snapshot.kube().servers.get_mut("cp-2").unwrap() = Err(Gap::not_asked())],
    },
    Case { cause: "network-plugin-missing", trouble: no_network, needs: &[NO_NODES] },
    Case {
        cause: "node-agent-not-running",
        trouble: |snapshot| cannot_pull(snapshot, "ErrImagePull"),
        needs: &[
            |snapshot| snapshot.kube().pods = gap(GapKind::TimedOut),
            |snapshot| snapshot.kube().daemon_sets = gap(GapKind::TimedOut),
            |snapshot| cannot_pull(snapshot, "ContainerCreating"),
        ],
    },
    Case {
        cause: "kubelet-not-registered",
        trouble: not_registered,
        needs: &[
            |snapshot| service(snapshot, "w-1", "kubelet", "Waiting"),
            |snapshot| snapshot.talos_of("w-1").services = gap(GapKind::TimedOut),
            |snapshot| snapshot.talos_of("w-1").nodename = gap(GapKind::TimedOut),
        ],
    },
    Case {
        cause: "dns-switched-off",
        trouble: |snapshot| {
            snapshot.kube().dns_endpoints = Ok(Vec::new());
            let dns = &mut snapshot.kube().deployments.as_mut().unwrap()[0];
            (dns.desired, dns.available) = (0, 0);
        },
        needs: &[
            |snapshot| snapshot.kube().deployments = gap(GapKind::TimedOut),
            |snapshot| snapshot.kube().dns_endpoints = gap(GapKind::TimedOut),
        ],
    },
    Case {
        cause: "dns-crash-looping",
        trouble: |snapshot| {
            snapshot.kube().dns_endpoints = Ok(Vec::new());
            dns_pods(snapshot).for_each(|pod| {
                pod.state.ready = Some(false);
                pod.state.containers = vec![ContainerState {
                    name: "coredns".to_owned(),
                    restarts: 7,
                    waiting_reason: Some("CrashLoopBackOff".to_owned()),
                    exit_code: Some(1),
                    ..ContainerState::default()
                }];
            });
        },
        needs: &[
            |snapshot| snapshot.kube().pods = gap(GapKind::TimedOut),
            |snapshot| snapshot.kube().dns_endpoints = gap(GapKind::TimedOut),
            |snapshot| dns_pods(snapshot).for_each(|pod| pod.state.containers.clear()),
            |snapshot| dns_pods(snapshot).for_each(|pod| pod.labels.clear()),
        ],
    },
    Case {
        cause: "unsupported-jump",
        trouble: |snapshot| {
            snapshot.asked.upgrade = Upgrade { talos: Some("1.14.1".to_owned()), ..Upgrade::default() };
            "v1.11.2".clone_into(&mut snapshot.talos_of("w-1").contact.as_mut().unwrap().version.tag);
        },
        needs: &[
            |snapshot| snapshot.talos_of("w-1").contact = gap(GapKind::TimedOut),
            |snapshot| snapshot.asked.upgrade = Upgrade::default(),
        ],
    },
    Case {
        cause: "api-removed",
        trouble: |snapshot| {
            snapshot.kube().requested_apis.get_mut("cp-2").unwrap().as_mut().unwrap().apis[0].removed =
                "1.32".to_owned();
        },
        needs: &[
            |snapshot| *snapshot.kube().requested_apis.get_mut("cp-2").unwrap() = gap(GapKind::Forbidden),
            |snapshot| snapshot.asked.upgrade = Upgrade::default(),
        ],
    },
    Case {
        cause: "drain-blocked",
        trouble: |snapshot| snapshot.kube().disruption_budgets.as_mut().unwrap()[0].disruptions_allowed = 0,
        needs: &[
            |snapshot| snapshot.kube().disruption_budgets = gap(GapKind::Forbidden),
            |snapshot| snapshot.kube().bound_pods = gap(GapKind::Forbidden),
        ],
    },
    Case {
        cause: "no-room",
        trouble: |snapshot| {
            for pod in snapshot.kube().bound_pods.as_mut().unwrap().iter_mut().filter(|pod| pod.namespace == "default")
            {
                pod.needs.requests = Some(amounts(&[("cpu", 3000), ("pods", 1)]));
            }
        },
        needs: &[
            |snapshot| snapshot.kube().node_room = gap(GapKind::Forbidden),
            |snapshot| snapshot.kube().bound_pods = gap(GapKind::Forbidden),
        ],
    },
    Case {
        cause: "upgrade-half-done",
        trouble: half_upgraded,
        needs: &[
            NO_NODES,
            |snapshot| snapshot.talos_of("w-1").contact = gap(GapKind::TimedOut),
            |snapshot| snapshot.talos_of("w-1").machine_status = gap(GapKind::TimedOut),
        ],
    },
];
