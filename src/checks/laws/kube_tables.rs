//! Wrong values of what Kubernetes tells, and of the pods that both sides tell of.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;

use super::super::fixture::{ago, condition, gap, now};
use super::corruption::{Change, Corruption, Table, at, bad, differs, harmless, table, warns};
use super::tables::certificate;
use crate::checks::Fact;
use crate::snapshot::{
    Condition, ContainerState, DaemonSet, Deployment, GapKind, KubeNode, Kubernetes, KubernetesCredentials, Lease,
    Leases, Pod, PodState, Readyz, ServiceEndpoint, SigningRequest, Snapshot, StaticPodStatus, Validity,
};

const EXPLAINS: &str = "only explains";
const SHOWN: &str = "only shown";
const MADE: &str = "the population is made of it before anybody judges";
const PROBED: &str = "Ready sums it up";
const UNDERSTUDY: &str = "Talos tells the same";

fn kube(snapshot: &mut Snapshot) -> &mut Kubernetes {
    snapshot.kubernetes.as_mut().unwrap()
}

fn pods(snapshot: &mut Snapshot, mirror: bool) -> Vec<&mut Pod> {
    kube(snapshot).pods.iter_mut().flatten().filter(|pod| pod.mirror == mirror).collect()
}

fn statuses(snapshot: &mut Snapshot) -> Vec<&mut StaticPodStatus> {
    snapshot.nodes.iter_mut().flat_map(|node| &mut node.talos.static_pod_statuses).flatten().collect()
}

/// The node leases, and those of the leaders.
fn holders(snapshot: &mut Snapshot, are_leaders: bool) -> Vec<&mut Lease> {
    let kube = kube(snapshot);
    let leases = if are_leaders { &mut kube.system_leases } else { &mut kube.node_leases };
    let leases = leases.iter_mut().flat_map(|leases| &mut leases.by_name);
    leases.filter(|(name, _)| !name.starts_with("apiserver-")).map(|(_, lease)| lease).collect()
}

/// Every answer of Kubernetes, and what Talos tells of pods.
pub(super) fn of_kubernetes() -> Vec<Corruption> {
    let mut all = Vec::new();
    let to = &mut all;
    at(to, "kubeconfig", &[], |it| kube(it).credentials.iter_mut().collect(), credentials());
    at(
        to,
        "kubeconfig",
        &[],
        |it| kube(it).credentials.iter_mut().filter_map(|it| it.certificate.as_mut()).collect(),
        certificate(),
    );
    at(to, "kubernetes", &[], |it| vec![kube(it)], of_side());
    at(to, "endpoint", &[Fact::EndpointReadyz], |it| kube(it).endpoint.iter_mut().collect(), readyz());
    at(to, "server", &[Fact::ServerReadyz], |it| kube(it).servers.values_mut().flatten().collect(), readyz());
    at(
        to,
        "server",
        &[Fact::ServerReadyz],
        |it| kube(it).servers.values_mut().flatten().filter_map(|it| it.certificate.as_mut()).collect(),
        validity(),
    );
    at(to, "kubernetes", &[Fact::KubeNodes], |it| kube(it).nodes.iter_mut().flatten().collect(), kube_node());
    at(
        to,
        "kubernetes",
        &[Fact::KubeNodes],
        |it| kube(it).nodes.iter_mut().flatten().flat_map(|it| &mut it.conditions).collect(),
        conditions(),
    );
    at(to, "nodes", &[Fact::NodeLeases], |it| kube(it).node_leases.iter_mut().collect(), leases());
    at(to, "leaders", &[Fact::SystemLeases], |it| kube(it).system_leases.iter_mut().collect(), leases());
    at(to, "node", &[Fact::NodeLeases], |it| holders(it, false), lease(harmless(SHOWN, |it| it.holder = None)));
    at(to, "leader", &[Fact::SystemLeases], |it| holders(it, true), lease(bad(|it| it.holder = None)));
    let of_pods = &[Fact::StaticPodStatuses];
    at(to, "Talos", of_pods, statuses, static_pod_status());
    at(
        to,
        "Talos",
        of_pods,
        |it| statuses(it).into_iter().map(|it| &mut it.state).collect(),
        pod_state(harmless("the mirror pod tells its version", |it| it.containers.clear())),
    );
    at(
        to,
        "Talos",
        of_pods,
        |it| statuses(it).into_iter().flat_map(|it| &mut it.state.containers).collect(),
        container_state(),
    );
    at(to, "mirror", &[Fact::Pods], |it| pods(it, true), understudy());
    at(to, "kubernetes", &[Fact::DaemonSets], |it| kube(it).daemon_sets.iter_mut().flatten().collect(), daemon_set());
    at(to, "kubernetes", &[Fact::Deployments], |it| kube(it).deployments.iter_mut().flatten().collect(), deployment());
    at(
        to,
        "kubernetes",
        &[Fact::DnsEndpoints],
        |it| kube(it).dns_endpoints.iter_mut().flatten().skip(1).collect(),
        dns_endpoint(),
    );
    at(
        to,
        "kubernetes",
        &[Fact::SigningRequests],
        |it| kube(it).signing_requests.iter_mut().flatten().collect(),
        signing_request(),
    );
    all
}

/// Where mirror pods are all that tells of static pods.
pub(super) fn without_talos() -> Vec<Corruption> {
    let mut all = Vec::new();
    let of_pods = &[Fact::Pods];
    at(&mut all, "mirror", of_pods, |it| pods(it, true), mirror());
    at(
        &mut all,
        "mirror",
        of_pods,
        |it| pods(it, true).into_iter().map(|it| &mut it.state).collect(),
        pod_state(bad(|it| it.containers.clear())),
    );
    all
}

fn credentials() -> Table<KubernetesCredentials> {
    table!(KubernetesCredentials {
        source: [harmless(SHOWN, |it| it.source.clear())],
        explicit: [harmless(SHOWN, |it| it.explicit = false)],
        context: [harmless(SHOWN, |it| it.context.clear())],
        server: [bad(|it| it.server.clear()), bad(|it| it.server = "http://k8s.example:6443".to_owned())],
        certificate: [harmless("a token, for example", |it| it.certificate = None)],
    })
}

/// Lists; what has a struct of its own has a table of its own.
fn of_side() -> Table<Kubernetes> {
    table!(Kubernetes {
        credentials: [bad(|it| it.credentials = gap(GapKind::Insecure))],
        passed_over: [harmless(SHOWN, |it| it.passed_over.push((String::new(), String::new())))],
        may_still_find: [harmless("they were found", |it| it.may_still_find = true)],
        endpoint: [bad(|it| it.endpoint = gap(GapKind::Broken))],
        servers: [
            bad(|it| it.servers.clear()),
            bad(|it| {
                let (name, server) = it.servers.pop_first().unwrap();
                it.servers.insert(format!("{name}-other"), server);
            }),
        ],
        nodes: [
            bad(|it| it.nodes.as_mut().unwrap().clear()),
            bad(|it| it.nodes.as_mut().unwrap().truncate(1)),
            // Another cluster's.
            bad(|it| {
                for it in it.nodes.as_mut().unwrap() {
                    (it.addresses, it.internal) = (vec!["10.9.9.9".to_owned()], Vec::new());
                    it.machine_id = "7".to_owned();
                }
            }),
            bad(|it| {
                let nodes = it.nodes.as_mut().unwrap();
                let (name, machine_id) = ("cp-9".to_owned(), "7".to_owned());
                let (addresses, internal) = (Vec::new(), Vec::new());
                let stranger = KubeNode { name, addresses, internal, machine_id, ..nodes[0].clone() };
                nodes.push(stranger);
            }),
        ],
        node_leases: [bad(|it| it.node_leases.as_mut().unwrap().by_name.clear())],
        system_leases: [bad(|it| it.system_leases.as_mut().unwrap().by_name.clear())],
        pods: [
            harmless(UNDERSTUDY, |it| it.pods.as_mut().unwrap().clear()),
            differs(|it| it.pods.iter_mut().flatten().for_each(|it| it.leader_elect = Some(false))),
        ],
        daemon_sets: [bad(|it| it.daemon_sets.as_mut().unwrap().truncate(1))],
        deployments: [harmless(EXPLAINS, |it| it.deployments.as_mut().unwrap().clear())],
        dns_endpoints: [
            bad(|it| it.dns_endpoints.as_mut().unwrap().clear()),
            bad(|it| it.dns_endpoints.iter_mut().flatten().for_each(|it| it.ready = false)),
            bad(|it| it.dns_endpoints.iter_mut().flatten().for_each(|it| it.addresses.clear())),
        ],
        api_endpoints: [harmless("the servers themselves were asked", |it| {
            it.api_endpoints.as_mut().unwrap().clear();
        })],
        signing_requests: [warns(|it| {
            it.signing_requests.as_mut().unwrap().push(SigningRequest {
                name: String::new(),
                signer: String::new(),
                user: "system:bootstrap:abcdef".to_owned(),
                pending: true,
            });
        })],
    })
}

fn readyz() -> Table<Readyz> {
    table!(Readyz {
        server: [harmless(SHOWN, |it| it.server.clear())],
        status: [
            bad(|it| it.status = 0),
            bad(|it| it.status = 201),
            bad(|it| it.status = 302),
            bad(|it| it.status = 401),
            bad(|it| it.status = 403),
            bad(|it| it.status = 404),
            bad(|it| it.status = 429),
            bad(|it| it.status = 500),
            bad(|it| it.status = 503),
        ],
        failed: [bad(|it| it.failed.push("etcd".to_owned())), bad(|it| it.failed.push(String::new()))],
        text: [harmless(EXPLAINS, |it| it.text = "no".to_owned())],
        certificate: [bad(|it| it.certificate = None)],
    })
}

fn validity() -> Table<Validity> {
    table!(Validity {
        not_before: [harmless("it was accepted a moment ago", |it| it.not_before = ago(0))],
        not_after: [
            warns(|it| it.not_after = now() + SignedDuration::from_hours(24)),
            warns(|it| it.not_after = ago(1))
        ],
    })
}

fn kube_node() -> Table<KubeNode> {
    table!(KubeNode {
        name: [bad(|it| it.name.clear()), bad(|it| it.name = "cp-9".to_owned())],
        addresses: [harmless("the name is enough, and other nodes prove the cluster", |it| it.addresses.clear())],
        internal: [
            bad(|it| it.internal = vec!["10.9.9.9".to_owned()]),
            harmless("a cloud provider tells it later", |it| it.internal.clear()),
        ],
        machine_id: [harmless("discovery tells none to compare it with", |it| it.machine_id = "7".to_owned())],
        control_plane_label: [harmless("the machine's own type counts", |it| it.control_plane_label ^= true)],
        os_image: [harmless(MADE, |it| it.os_image.clear())],
        kubelet_version: [
            bad(|it| it.kubelet_version.clear()),
            bad(|it| it.kubelet_version = "v1.30.0".to_owned()),
            bad(|it| it.kubelet_version = "v1.36.0".to_owned()),
            warns(|it| it.kubelet_version = "v1.35.3".to_owned()),
        ],
        unschedulable: [warns(|it| it.unschedulable = true)],
        cordoned_by_talos: [harmless("it is not cordoned", |it| it.cordoned_by_talos = true)],
        taints: [warns(|it| it.taints.push("node.cloudprovider.kubernetes.io/uninitialized".to_owned()))],
        conditions: [
            bad(|it| it.conditions.clear()),
            bad(|it| it.conditions.push(condition("NetworkUnavailable", "True", "", ""))),
            bad(|it| it.conditions.push(condition("NetworkUnavailable", "Unknown", "", ""))),
        ],
        deleting: [harmless(MADE, |it| it.deleting = true)],
        created: [harmless(EXPLAINS, |it| it.created = None)],
    })
}

fn conditions() -> Table<Condition> {
    table!(Condition {
        kind: [bad(|it| it.kind.clear()), bad(|it| it.kind = "Other".to_owned())],
        status: [
            bad(|it| it.status.clear()),
            bad(|it| it.status = "Unknown".to_owned()),
            bad(|it| it.status = if it.status == "True" { "False" } else { "True" }.to_owned()),
            bad(|it| it.status = it.status.to_lowercase()),
        ],
        reason: [harmless(EXPLAINS, |it| it.reason.clear())],
        message: [harmless(EXPLAINS, |it| it.message.clear())],
    })
}

fn leases() -> Table<Leases> {
    table!(Leases {
        date: [
            bad(|it| it.date = None),
            bad(|it| it.date = Some(now() + SignedDuration::from_secs(60))),
            bad(|it| it.date = Some(ago(60))),
        ],
        by_name: [bad(|it| it.by_name = BTreeMap::from([("cp-9".to_owned(), it.by_name.pop_first().unwrap().1)]))],
    })
}

fn lease(holder: Change<Lease>) -> Table<Lease> {
    table!(Lease {
        renewed: [
            bad(|it| it.renewed = None),
            bad(|it| it.renewed = Some(ago(60))),
            bad(|it| it.renewed = Some(now() + SignedDuration::from_secs(60))),
        ],
        resource_version: [harmless("what it was before is compared elsewhere", |it| it.resource_version.clear())],
        hostname: [harmless("other leases have none", |it| it.hostname = Some("cp-9".to_owned()))],
        holder: [holder],
        moved_within: [harmless("one more sign of life", |it| it.moved_within = Some(Duration::from_secs(1)))],
    })
}

fn static_pod_status() -> Table<StaticPodStatus> {
    table!(StaticPodStatus {
        name: [bad(|it| it.name.clear()), bad(|it| it.name.push_str("-other"))],
        state: [bad(|it| it.state = PodState::default())],
    })
}

fn pod_state(containers: Change<PodState>) -> Table<PodState> {
    table!(PodState {
        phase: [
            bad(|it| it.phase.clear()),
            bad(|it| it.phase = "Failed".to_owned()),
            bad(|it| it.phase = "Succeeded".to_owned()),
            bad(|it| it.phase = "running".to_owned()),
        ],
        ready: [bad(|it| it.ready = Some(false)), bad(|it| it.ready = None)],
        containers: [containers],
        message: [harmless(EXPLAINS, |it| it.message = "no".to_owned())],
    })
}

fn container_state() -> Table<ContainerState> {
    table!(ContainerState {
        name: [harmless("the mirror pod tells its version", |it| it.name.clear())],
        image: [
            harmless("the mirror pod tells its version", |it| it.image.clear()),
            bad(|it| it.image = "registry.k8s.io/it:v1.30.0".to_owned()),
            bad(|it| it.image = "registry.k8s.io/it:v2.35.4".to_owned()),
        ],
        ready: [harmless(PROBED, |it| it.ready = false)],
        restarts: [harmless(PROBED, |it| it.restarts = u32::MAX)],
        running: [harmless(PROBED, |it| it.running = false)],
        waiting_reason: [harmless(PROBED, |it| it.waiting_reason = Some("CrashLoopBackOff".to_owned()))],
        waiting_message: [harmless(EXPLAINS, |it| it.waiting_message = Some("no".to_owned()))],
        exit_code: [harmless(PROBED, |it| it.exit_code = Some(137))],
        termination_reason: [harmless(EXPLAINS, |it| it.termination_reason = Some("OOMKilled".to_owned()))],
        termination_message: [harmless(EXPLAINS, |it| it.termination_message = Some("no".to_owned()))],
    })
}

fn understudy() -> Table<Pod> {
    table!(Pod {
        namespace: [harmless(UNDERSTUDY, |it| it.namespace.clear())],
        name: [harmless(UNDERSTUDY, |it| it.name.clear())],
        node: [harmless(UNDERSTUDY, |it| it.node = None)],
        labels: [harmless(UNDERSTUDY, |it| it.labels.clear())],
        mirror: [harmless(UNDERSTUDY, |it| it.mirror = false)],
        deleting: [harmless(UNDERSTUDY, |it| it.deleting = true)],
        leader_elect: [harmless("as if it were not said", |it| it.leader_elect = Some(true))],
        state: [harmless(UNDERSTUDY, |it| it.state = PodState::default())],
    })
}

fn mirror() -> Table<Pod> {
    table!(Pod {
        namespace: [harmless("only those of one were listed", |it| it.namespace.clear())],
        name: [harmless("the label tells, too", |it| it.name.clear())],
        node: [bad(|it| it.node = None), bad(|it| it.node = Some("cp-9".to_owned()))],
        labels: [harmless("the name tells, too", |it| it.labels.clear())],
        mirror: [bad(|it| it.mirror = false)],
        deleting: [harmless(PROBED, |it| it.deleting = true)],
        leader_elect: [harmless("as if it were not said", |it| it.leader_elect = Some(true))],
        state: [bad(|it| it.state = PodState::default())],
    })
}

fn daemon_set() -> Table<DaemonSet> {
    table!(DaemonSet {
        name: [harmless("the label tells, too", |it| it.name.clear())],
        labels: [harmless("the name tells, too", |it| it.labels.clear())],
        generation: [bad(|it| it.generation += 1)],
        observed_generation: [bad(|it| it.observed_generation = None), bad(|it| it.observed_generation = Some(0))],
        desired: [
            bad(|it| it.desired += 1),
            bad(|it| it.desired = i32::MAX),
            harmless("wanted on no node, says who has counted them", |it| it.desired = 0),
        ],
        available: [bad(|it| it.available = 0), bad(|it| it.available -= 1), bad(|it| it.available = i32::MIN)],
    })
}

fn deployment() -> Table<Deployment> {
    table!(Deployment {
        name: [harmless(EXPLAINS, |it| it.name.clear())],
        labels: [harmless(EXPLAINS, |it| it.labels.clear())],
        replicas: [harmless(EXPLAINS, |it| it.replicas = 0)],
        available: [harmless(EXPLAINS, |it| it.available = 0)],
    })
}

fn dns_endpoint() -> Table<ServiceEndpoint> {
    table!(ServiceEndpoint {
        addresses: [harmless("another one is ready", |it| it.addresses.clear())],
        ready: [harmless("another one is ready", |it| it.ready = false)],
        node: [harmless(SHOWN, |it| it.node = None)],
    })
}

fn signing_request() -> Table<SigningRequest> {
    table!(SigningRequest {
        name: [harmless(SHOWN, |it| it.name.clear())],
        signer: [harmless("it is not pending", |it| it.signer.clear())],
        user: [harmless("it is not pending", |it| it.user.clear())],
        pending: [warns(|it| it.pending = true)],
    })
}
