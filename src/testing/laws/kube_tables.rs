//! Wrong values in Kubernetes' answers, and of pods, which both sides report.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;

use crate::model::Fact;
use crate::snapshot::{
    ApiService, BoundPod, Condition, ContainerState, DisruptionBudget, Flags, GapKind, KubeNode, Kubernetes,
    KubernetesCredentials, Lease, Leases, NodeRoom, Observed, PersistentVolume, Pod, PodState, PullingPod, Readyz,
    RequestState, RequestedApi, Requirement, ServiceEndpoint, SigningRequest, Snapshot, Spread, StartingPod,
    StaticPodStatus, Term, UnplacedPod, Validity, VolumeAttachment, Webhook, WebhookRule, Workload,
};
use crate::testing::fixture::{ago, amounts, bound_pod, budget, condition, gap, now, taint};
use crate::testing::laws::corruption::{Change, Corruption, Table, at, bad, differs, harmless, table, warns};
use crate::testing::laws::tables::certificate;

const EXPLAINS: &str = "only explains";
const SHOWN: &str = "only shown";
const MADE: &str = "the population is made of it before anybody judges";
const PROBED: &str = "Ready sums it up";
const COMPLETE: &str = "nothing is missing";
const SERVED: &str = "the endpoints are what counts";
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

/// Returns the node leases, or the leases of the leaders.
fn holders(snapshot: &mut Snapshot, are_leaders: bool) -> Vec<&mut Lease> {
    let kube = kube(snapshot);
    let leases = if are_leaders { &mut kube.system_leases } else { &mut kube.node_leases };
    let leases = leases.iter_mut().flat_map(|leases| &mut leases.by_name);
    leases.filter(|(name, _)| !name.starts_with("apiserver-")).map(|(_, lease)| lease).collect()
}

/// Wrong values of every Kubernetes answer, and of the pods that Talos reports.
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
    of_workloads(to);
    of_drain(to);
    at(
        to,
        "kubernetes",
        &[Fact::DnsEndpoints],
        // Endpoints of the Deployment, which states the required number.
        |it| kube(it).dns_endpoints.iter_mut().flatten().skip(1).filter(|it| it.pod.is_some()).collect(),
        dns_endpoint(),
    );
    at(
        to,
        "kubernetes",
        &[Fact::SigningRequests],
        |it| kube(it).signing_requests.iter_mut().flatten().collect(),
        signing_request(),
    );
    at(
        to,
        "kubernetes",
        &[Fact::ValidatingWebhooks],
        |it| kube(it).validating_webhooks.iter_mut().flatten().collect(),
        webhook(),
    );
    at(
        to,
        "kubernetes",
        &[Fact::ValidatingWebhooks],
        |it| kube(it).validating_webhooks.iter_mut().flatten().flat_map(|it| &mut it.rules).collect(),
        webhook_rule(),
    );
    at(
        to,
        "kubernetes",
        &[Fact::ApiServices],
        |it| kube(it).api_services.iter_mut().flatten().skip(1).collect(),
        api_service(),
    );
    all
}

fn of_workloads(to: &mut Vec<Corruption>) {
    at(to, "kubernetes", &[Fact::DaemonSets], |it| kube(it).daemon_sets.iter_mut().flatten().collect(), daemon_set());
    at(
        to,
        "DNS",
        &[Fact::Deployments],
        |it| kube(it).deployments.iter_mut().flatten().filter(|it| it.name == "coredns").collect(),
        deployment(),
    );
    at(
        to,
        "kubernetes",
        &[Fact::Deployments],
        |it| kube(it).deployments.iter_mut().flatten().filter(|it| it.name != "coredns").collect(),
        other_workload(),
    );
    at(
        to,
        "kubernetes",
        &[Fact::StatefulSets],
        |it| kube(it).stateful_sets.iter_mut().flatten().collect(),
        other_workload(),
    );
    at(
        to,
        "kubernetes",
        &[Fact::StartingPods],
        |it| kube(it).starting_pods.iter_mut().flatten().collect(),
        starting_pod(),
    );
}

fn of_drain(to: &mut Vec<Corruption>) {
    at(to, "kubernetes", &[Fact::BoundPods], evicted_pods, bound_pod_of_workload());
    at(to, "kubernetes", &[Fact::DisruptionBudgets], holding_budgets, disruption_budget());
    at(to, "kubernetes", &[Fact::NodeRoom], rooms, node_room());
    at(to, "kubernetes", &[Fact::PersistentVolumes], claimed_volumes, persistent_volume());
    at(to, "kubernetes", &[Fact::VolumeAttachments], attachments, volume_attachment());
    at(to, "component", &[Fact::StaticPods], component_flags, flags());
    at(to, "machine", &[Fact::KubeletFlags], kubelet_flags, of_kubelet());
    at(to, "kubernetes", &[Fact::DaemonSets], proxy_flags, of_proxy());
    at(to, "machine", &[Fact::Extensions], extensions, of_extensions());
    at(to, "kubernetes", &[Fact::RequestedApis], requested_apis, requested_api());
}

/// Wrong values where mirror pods are the only source for static pods.
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
        files: [harmless(SHOWN, |it| it.files.clear())],
        explicit: [harmless(SHOWN, |it| it.explicit = false)],
        context: [harmless(SHOWN, |it| it.context.clear())],
        server: [bad(|it| it.server.clear()), bad(|it| it.server = "http://k8s.example:6443".to_owned())],
        ca: [
            bad(|it| it.ca.as_mut().unwrap().not_after = now()),
            warns(|it| it.ca.as_mut().unwrap().not_after = now() + SignedDuration::from_secs(1)),
            harmless("the system has it", |it| it.ca = None),
        ],
        certificate: [harmless("a token, for example", |it| it.certificate = None)],
    })
}

fn plugin_elsewhere(kubernetes: &mut Kubernetes) {
    let there = |pod: &Pod| Pod { namespace: "kube-flannel".to_owned(), ..pod.clone() };
    kubernetes.plugin_pods = kubernetes.pods.iter().flatten().map(there).collect();
}

/// Lists; fields with a struct of their own have a separate table.
#[expect(clippy::too_many_lines, reason = "an entry for each field")]
fn of_side() -> Table<Kubernetes> {
    table!(Kubernetes {
        credentials: [bad(|it| it.credentials = gap(GapKind::Insecure))],
        passed_over: [harmless(SHOWN, |it| it.passed_over.push((String::new(), String::new())))],
        may_still_find: [harmless("they were found", |it| it.may_still_find = true)],
        endpoint: [bad(|it| it.endpoint = gap(GapKind::Broken))],
        endpoint_addresses: [warns(|it| {
            let address = |host: u8| ([10, 0, 0, host], 6443).into();
            it.endpoint_addresses = vec![(address(1), Ok(())), (address(2), gap(GapKind::ConnectTimedOut))];
        })],
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
            // Nodes of another cluster.
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
            bad(|it| it.pods.as_mut().unwrap().clear()),
            differs(|it| it.pods.iter_mut().flatten().for_each(|it| it.leader_elect = Some(false))),
        ],
        user_pods: [harmless("a healthy cluster needs none", |it| {
            it.user_pods.insert(("default".to_owned(), "mine-w-1".to_owned()), Ok(None));
        })],
        daemon_sets: [bad(|it| it.daemon_sets.as_mut().unwrap().truncate(1))],
        deployments: [harmless("something else serves DNS", |it| it.deployments.as_mut().unwrap().clear())],
        stateful_sets: [harmless("there need not be any", |it| it.stateful_sets.as_mut().unwrap().clear())],
        plugin_namespaces: [bad(|it| it.plugin_namespaces = gap(GapKind::Forbidden))],
        plugin_pods: [harmless("the network plugin is in kube-system", plugin_elsewhere)],
        starting_pods: [harmless("none is starting", |it| it.starting_pods.as_mut().unwrap().clear())],
        pulling_pods: [
            harmless("one pod's image is its own matter", |it| it.pulling_pods = pulling_pods(1)),
            warns(|it| it.pulling_pods = pulling_pods(5)),
        ],
        unplaced_pods: [harmless("the user's own matter", |it| {
            let [namespace, name, why] = ["default", "web", "Unschedulable"].map(str::to_owned);
            it.unplaced_pods.push(UnplacedPod { namespace, name, waiting_for: Some(Duration::from_secs(300)), why });
        })],
        csi_nodes: [harmless("no pod waits for a volume", |it| it.csi_nodes = Ok(Vec::new()))],
        attached_volumes: [harmless("no pod waits for a volume", |it| it.attached_volumes = Ok(Vec::new()))],
        pod_events: [bad(|it| it.pod_events = gap(GapKind::Forbidden))],
        bound_pods: [harmless("of no machine", |it| {
            it.bound_pods.as_mut().unwrap().push(bound_pod("default", "other", "cp-9", None));
        })],
        disruption_budgets: [harmless("it selects no pod", |it| {
            it.disruption_budgets
                .as_mut()
                .unwrap()
                .push(DisruptionBudget { disruptions_allowed: 0, ..budget("other") });
        })],
        node_room: [harmless("its place is taken only if one goes", |it| {
            it.node_room.as_mut().unwrap().iter_mut().for_each(|node| node.labels.clear());
        })],
        volume_attachments: [harmless("its machine is not drained", |it| {
            it.volume_attachments.as_mut().unwrap()[0].detach_error = Some(String::new());
        })],
        persistent_volumes: [harmless("nobody claims it", |it| {
            it.persistent_volumes.as_mut().unwrap().push(PersistentVolume { claim: None, terms: Some(Vec::new()) });
        })],
        requested_apis: [harmless("it stays", |it| {
            it.requested_apis.values_mut().flatten().for_each(|requested| requested.apis.clear());
        })],
        dns_endpoints: [
            bad(|it| it.dns_endpoints.as_mut().unwrap().clear()),
            bad(|it| it.dns_endpoints.iter_mut().flatten().for_each(|it| it.ready = false)),
            bad(|it| it.dns_endpoints.iter_mut().flatten().for_each(|it| it.addresses.clear())),
        ],
        api_endpoints: [
            bad(|it| it.api_endpoints.as_mut().unwrap().clear()),
            bad(|it| it.api_endpoints.iter_mut().flatten().for_each(|it| it.ready = false)),
            harmless("whatever stands before the servers", |it| {
                it.api_endpoints.iter_mut().flatten().for_each(|it| it.addresses = vec!["192.0.2.1".to_owned()]);
            }),
        ],
        signing_requests: [warns(|it| {
            it.signing_requests.as_mut().unwrap().push(SigningRequest {
                name: String::new(),
                signer: String::new(),
                user: "system:bootstrap:abcdef".to_owned(),
                state: RequestState::Pending,
            });
        })],
        validating_webhooks: [bad(|it| {
            let mut more = it.validating_webhooks.as_ref().unwrap()[0].clone();
            more.service = Some(("policy".to_owned(), "other".to_owned()));
            it.validating_webhooks.as_mut().unwrap().push(more);
        })],
        mutating_webhooks: [harmless("none is what a healthy cluster has", |it| {
            it.mutating_webhooks.as_mut().unwrap().clear();
        })],
        conversions: [
            warns(|it| {
                let mut more = it.validating_webhooks.as_ref().unwrap()[0].clone();
                more.service = Some(("policy".to_owned(), "gone".to_owned()));
                it.webhook_endpoints.insert(("policy".to_owned(), "gone".to_owned()), Ok(Vec::new()));
                it.conversions.as_mut().unwrap().push(more);
            }),
            bad(|it| it.conversions = gap(GapKind::TimedOut)),
        ],
        webhook_endpoints: [
            bad(|it| it.webhook_endpoints.clear()),
            bad(|it| it.webhook_endpoints.values_mut().flatten().for_each(Vec::clear)),
        ],
        version: [harmless("images tell where Talos is queried", |it| it.version = Ok("v1.0.0".to_owned()))],
        cluster_uid: [harmless("no check reads it", |it| it.cluster_uid = Ok("another".to_owned()))],
        api_services: [bad(|it| it.api_services.as_mut().unwrap().clear())],
        required: [harmless("no policy requires anything", |it| {
            it.required.insert("ceph".to_owned(), gap(GapKind::TimedOut));
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
        unnamed: [harmless("without Talos it is a warning", |it| it.unnamed = Some(crate::snapshot::Gap::not_asked()))],
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
        addresses: [bad(|it| it.addresses.clear())],
        internal: [
            bad(|it| it.internal = vec!["10.9.9.9".to_owned()]),
            harmless("a cloud provider tells it later", |it| it.internal.clear()),
        ],
        overlay: [
            // The addresses of the first two machines, in a cluster of either family.
            differs(|it| it.overlay = ["10.0.0.1", "10.0.0.2", "fd00:10::1", "fd00:10::2"].map(str::to_owned).to_vec()),
            warns(|it| it.overlay = vec!["10.9.9.9".to_owned()]),
            harmless("it has no flannel", |it| it.overlay.clear()),
        ],
        overlay_is_set: [harmless("it is the machine's own", |it| it.overlay_is_set = true)],
        machine_id: [harmless("discovery tells none to compare it with", |it| it.machine_id = "7".to_owned())],
        labels: [harmless("where pods are wanted, their number says as well", |it| it.labels.clear())],
        boot_id: [harmless("any boot will do", |it| it.boot_id.clear())],
        control_plane_label: [harmless("the machine's own type counts", |it| it.control_plane_label ^= true)],
        os_image: [harmless(MADE, |it| it.os_image.clear())],
        kernel: [harmless(MADE, |it| it.kernel = "6.12.0-generic".to_owned())],
        kubelet_version: [
            bad(|it| it.kubelet_version.clear()),
            bad(|it| it.kubelet_version = "v1.30.0".to_owned()),
            bad(|it| it.kubelet_version = "v1.36.0".to_owned()),
            warns(|it| it.kubelet_version = "v1.35.3".to_owned()),
        ],
        // Control planes only: if the last worker were cordoned, no node would accept workloads.
        unschedulable: [warns(|it| it.unschedulable = it.control_plane_label)],
        cordoned_by_talos: [harmless("it is not cordoned", |it| it.cordoned_by_talos = true)],
        cordoned_since: [harmless("it is not cordoned", |it| it.cordoned_since = Some(now()))],
        taints: [warns(|it| {
            let uninitialized = taint("node.cloudprovider.kubernetes.io/uninitialized");
            it.taints.extend(it.control_plane_label.then_some(uninitialized));
        })],
        pod_cidrs: [
            differs(|it| it.pod_cidrs = vec!["100.64.0.0/10".to_owned()]),
            harmless("the network plugin hands out its own", |it| it.pod_cidrs.clear()),
        ],
        out_of: [warns(|it| it.out_of.extend(it.control_plane_label.then(|| "pods".to_owned())))],
        conditions: [
            bad(|it| it.conditions.clear()),
            bad(|it| it.conditions.push(condition("NetworkUnavailable", "True", "", ""))),
            warns(|it| it.conditions.push(condition("NetworkUnavailable", "Unknown", "", ""))),
            warns(|it| it.conditions.push(condition("ReadonlyFilesystem", "True", "", ""))),
        ],
        deleting: [harmless(MADE, |it| it.deleting = true)],
        leaving_since: [harmless(MADE, |it| it.leaving_since = it.created)],
        told: [harmless(MADE, |it| it.told = None)],
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
        since: [harmless("no taint has been left by it, and there was no round before", |it| it.since = Some(now()))],
    })
}

fn leases() -> Table<Leases> {
    table!(Leases {
        date: [
            bad(|it| it.date = None),
            bad(|it| it.date = Some(now() + SignedDuration::from_secs(60))),
            bad(|it| it.date = Some(ago(60))),
        ],
        last_date: [harmless("the kernel tells whether the clock is ahead, too", |it| it.last_date = None)],
        by_name: [bad(|it| it.by_name = BTreeMap::from([("cp-9".to_owned(), it.by_name.pop_first().unwrap().1)]))],
    })
}

fn lease(holder: Change<Lease>) -> Table<Lease> {
    table!(Lease {
        namespace: [harmless(SHOWN, |it| it.namespace.clear())],
        renewed: [
            bad(|it| it.renewed = None),
            bad(|it| it.renewed = Some(ago(60))),
            bad(|it| it.renewed = Some(now() + SignedDuration::from_secs(60))),
        ],
        resource_version: [harmless("what it was before is compared elsewhere", |it| it.resource_version.clear())],
        hostname: [harmless("other leases have none", |it| it.hostname = Some("cp-9".to_owned()))],
        holder: [holder],
        lasts: [
            bad(|it| it.lasts = Some(Duration::from_secs(2))),
            harmless("as long as a kubelet's", |it| it.lasts = None),
            harmless("no longer than is believed", |it| it.lasts = Some(Duration::MAX)),
        ],
        moved_within: [harmless("one more sign of life", |it| it.moved_within = Some(Duration::from_secs(1)))],
        still_for: [harmless("its time tells more", |it| it.still_for = Some(Duration::from_secs(60)))],
    })
}

fn static_pod_status() -> Table<StaticPodStatus> {
    table!(StaticPodStatus {
        namespace: [bad(|it| it.namespace = "default".to_owned())],
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
        finished: [harmless(PROBED, |it| it.finished = Some(now()))],
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
        controller: [
            harmless("the Node's kubelet runs it", |it| it.controller = Some(("Node".to_owned(), "cp-9".to_owned())))
        ],
        leader_elect: [harmless("as if it were not said", |it| it.leader_elect = Some(true))],
        flags: [harmless("Talos says what it has rendered", |it| it.flags = None)],
        unready_for: [harmless(PROBED, |it| it.unready_for = Some(Duration::MAX))],
        addresses: [harmless("no Service leads to it", |it| it.addresses = vec!["10.9.9.9".to_owned()])],
        state: [bad(|it| it.state = PodState::default())],
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
        controller: [
            harmless("the Node's kubelet runs it", |it| it.controller = Some(("Node".to_owned(), "cp-9".to_owned())))
        ],
        leader_elect: [harmless("as if it were not said", |it| it.leader_elect = Some(true))],
        flags: [harmless("Talos says what it has rendered", |it| it.flags = None)],
        unready_for: [harmless(PROBED, |it| it.unready_for = Some(Duration::MAX))],
        addresses: [harmless("no Service leads to it", |it| it.addresses = vec!["10.9.9.9".to_owned()])],
        state: [bad(|it| it.state = PodState::default())],
    })
}

fn daemon_set() -> Table<Workload> {
    table!(Workload {
        namespace: [bad(|it| it.namespace.clear())],
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
        given_up: [harmless("who counts them never gives up", |it| it.given_up = Some(String::new()))],
        updated: [
            warns(|it| it.updated = Some(it.desired - 1)),
            warns(|it| it.updated = Some(i32::MIN)),
            harmless("pods of an older template may stay", |it| it.updated = None),
        ],
        outdated: [warns(|it| it.outdated = 1), harmless("there are no fewer than none", |it| it.outdated = i32::MIN),],
        refused: [warns(|it| it.refused = Some(String::new()))],
        installs_network: [harmless("it is among those that are judged", |it| it.installs_network = true)],
        registers_driver: [harmless("it is among those that are judged", |it| it.registers_driver = true)],
        is_critical: [harmless("it is among those that are judged", |it| it.is_critical = true)],
        spread: [harmless("none of its pods is missing", |it| it.spread = Spread::default())],
        flags: [harmless("a command line may hide them", |it| it.flags = None)],
        unchanged_for: [harmless(COMPLETE, |it| it.unchanged_for = None)],
    })
}

fn deployment() -> Table<Workload> {
    table!(Workload {
        namespace: [harmless(SERVED, |it| it.namespace.clear())],
        name: [harmless("the label tells, too", |it| it.name.clear())],
        labels: [harmless("the name tells, too", |it| it.labels.clear())],
        generation: [bad(|it| it.generation += 1)],
        observed_generation: [bad(|it| it.observed_generation = None), bad(|it| it.observed_generation = Some(0))],
        desired: [bad(|it| it.desired += 1), bad(|it| it.desired = i32::MAX), harmless(SERVED, |it| it.desired = 0),],
        available: [harmless(SERVED, |it| it.available = 0)],
        given_up: [bad(|it| it.given_up = Some(String::new()))],
        updated: [
            warns(|it| it.updated = Some(it.desired - 1)),
            warns(|it| it.updated = Some(i32::MIN)),
            harmless("pods of an older template may stay", |it| it.updated = None),
        ],
        outdated: [warns(|it| it.outdated = 1), harmless("there are no fewer than none", |it| it.outdated = i32::MIN),],
        refused: [warns(|it| it.refused = Some(String::new()))],
        installs_network: [harmless("it is among those that are judged", |it| it.installs_network = true)],
        registers_driver: [harmless("it is among those that are judged", |it| it.registers_driver = true)],
        is_critical: [harmless("it is among those that are judged", |it| it.is_critical = true)],
        spread: [harmless("none of its pods is missing", |it| it.spread = Spread::default())],
        flags: [harmless("a command line may hide them", |it| it.flags = None)],
        unchanged_for: [harmless(COMPLETE, |it| it.unchanged_for = None)],
    })
}

/// A workload other than DNS and the DaemonSets.
fn other_workload() -> Table<Workload> {
    table!(Workload {
        namespace: [harmless(SHOWN, |it| it.namespace.clear())],
        name: [harmless(SHOWN, |it| it.name.clear())],
        labels: [harmless(SHOWN, |it| it.labels.clear())],
        generation: [bad(|it| it.generation += 1)],
        observed_generation: [bad(|it| it.observed_generation = None), bad(|it| it.observed_generation = Some(0))],
        desired: [
            bad(|it| it.desired += 1),
            bad(|it| it.desired = i32::MAX),
            harmless("it wants no pod", |it| it.desired = 0),
        ],
        available: [bad(|it| it.available = 0), bad(|it| it.available -= 1), bad(|it| it.available = i32::MIN)],
        given_up: [bad(|it| it.given_up = Some(String::new()))],
        updated: [
            warns(|it| it.updated = Some(it.desired - 1)),
            warns(|it| it.updated = Some(i32::MIN)),
            harmless("pods of an older template may stay", |it| it.updated = None),
        ],
        outdated: [warns(|it| it.outdated = 1), harmless("there are no fewer than none", |it| it.outdated = i32::MIN),],
        refused: [warns(|it| it.refused = Some(String::new()))],
        installs_network: [harmless("it is among those that are judged", |it| it.installs_network = true)],
        registers_driver: [harmless("it is among those that are judged", |it| it.registers_driver = true)],
        is_critical: [harmless("it is among those that are judged", |it| it.is_critical = true)],
        spread: [harmless("none of its pods is missing", |it| it.spread = Spread::default())],
        flags: [harmless("a command line may hide them", |it| it.flags = None)],
        unchanged_for: [harmless(COMPLETE, |it| it.unchanged_for = None)],
    })
}

/// Returns `count` pods of two workloads on a control plane that wait for images that run elsewhere.
fn pulling_pods(count: usize) -> Vec<PullingPod> {
    let pod = |index: usize| PullingPod {
        namespace: "default".to_owned(),
        name: format!("web-{index}"),
        node: "cp-1".to_owned(),
        owner: format!("default/ReplicaSet/web-{}", index % 2),
        image: "example.com/web:v1".to_owned(),
        waiting_for: Some(Duration::from_secs(300)),
        says: "ImagePullBackOff".to_owned(),
        runs_on: Some("w-1".to_owned()),
    };
    (0..count).map(pod).collect()
}

fn starting_pod() -> Table<StartingPod> {
    table!(StartingPod {
        namespace: [harmless(SHOWN, |it| it.namespace.clear())],
        name: [harmless(SHOWN, |it| it.name.clear())],
        uid: [harmless("no event names it", |it| it.uid.clear())],
        node: [
            harmless("no node of ours", |it| it.node = Some(String::new())),
            harmless("a scheduler may take a while", |it| it.node = None),
        ],
        by_default_scheduler: [harmless("no pod waits for a scheduler", |it| it.by_default_scheduler = false)],
        lost_at: [harmless("no event names it", |it| it.lost_at = Some(jiff::Timestamp::MAX))],
        waiting_for: [
            bad(|it| it.waiting_for = None),
            harmless("a minute without an event is a warning", |it| it.waiting_for = Some(Duration::from_secs(60))),
            bad(|it| it.waiting_for = Some(Duration::from_secs(300))),
            bad(|it| it.waiting_for = Some(Duration::MAX)),
        ],
        has_own_volumes: [harmless("it has not waited for long", |it| it.has_own_volumes = true)],
        mounts_storage: [harmless("it has not waited for long", |it| it.mounts_storage = true)],
        owner: [harmless("it is the only one", |it| it.owner.clear())],
        overtaken_by: [harmless("it has not waited for long", |it| it.overtaken_by = Some(String::new()))],
        says: [harmless(SHOWN, |it| it.says.clear())],
    })
}

/// Returns the pods of a workload with a pod on each machine, if a machine is about to be taken down.
fn evicted_pods(snapshot: &mut Snapshot) -> Vec<&mut BoundPod> {
    let is_asked = snapshot.asked.upgrade.talos.is_some();
    kube(snapshot).bound_pods.iter_mut().flatten().filter(|pod| is_asked && pod.namespace == "default").collect()
}

fn bound_pod_of_workload() -> Table<BoundPod> {
    const FREE: &str = "no budget holds it";
    const ALLOWED: &str = "its budget allows one";
    table!(BoundPod {
        namespace: [harmless(FREE, |it| it.namespace.clear())],
        name: [harmless(SHOWN, |it| it.name.clear())],
        node: [harmless("on no machine of ours", |it| it.node.clear())],
        labels: [harmless(FREE, |it| it.labels.clear())],
        needs: [
            bad(|it| it.needs.requests = None),
            bad(|it| it.needs.requests = Some(amounts(&[("cpu", 1 << 40)]))),
            warns(|it| it.needs.placement.labels = BTreeMap::from([("disk".to_owned(), "ssd".to_owned())])),
            warns(|it| it.needs.placement.terms = Some(Vec::new())),
            bad(|it| {
                let labels = vec![Requirement { operator: "Like".to_owned(), ..requirement() }];
                it.needs.placement.terms = Some(vec![Term { labels, fields: Vec::new() }]);
            }),
        ],
        claims: [harmless("it has no volume then", |it| it.claims.clear())],
        mirror: [harmless("static pods are not evicted", |it| it.mirror = true)],
        controller: [warns(|it| it.controller = None)],
        phase: [
            harmless("no budget is asked", |it| it.phase = "Pending".to_owned()),
            harmless(ALLOWED, |it| it.phase.clear()),
        ],
        ready: [harmless(ALLOWED, |it| it.ready = false)],
        deleting: [harmless("it is on its way", |it| it.deleting = true)],
        overdue: [
            harmless("it is not on its way", |it| it.overdue = Some(Duration::from_secs(3600))),
            bad(|it| (it.deleting, it.overdue) = (true, Some(Duration::from_secs(3600)))),
        ],
        grace: [warns(|it| it.grace = Duration::from_secs(3600))],
        has_empty_dir: [warns(|it| it.has_empty_dir = true)],
    })
}

/// Returns the allocatable resources, if a machine is about to be taken down and others remain.
fn rooms(snapshot: &mut Snapshot) -> Vec<&mut NodeRoom> {
    let is_asked = snapshot.asked.upgrade.talos.is_some() && evicted_pods(snapshot).len() > 2;
    kube(snapshot).node_room.iter_mut().flatten().filter(|_| is_asked).collect()
}

fn node_room() -> Table<NodeRoom> {
    const OTHERS: &str = "others take the pods";
    table!(NodeRoom {
        deleting: [harmless(OTHERS, |it| it.deleting = true)],
        name: [harmless("a machine of which nothing is known takes none", |it| it.labels.clear())],
        labels: [harmless("no pod selects by them", |it| it.labels.clear())],
        taints: [harmless(OTHERS, |it| it.taints.push(taint("gpu")))],
        unschedulable: [harmless(OTHERS, |it| it.unschedulable = true)],
        allocatable: [bad(|it| it.allocatable = None)],
    })
}

fn claimed_volumes(snapshot: &mut Snapshot) -> Vec<&mut PersistentVolume> {
    let is_asked = !evicted_pods(snapshot).is_empty();
    kube(snapshot).persistent_volumes.iter_mut().flatten().filter(|_| is_asked).collect()
}

fn persistent_volume() -> Table<PersistentVolume> {
    table!(PersistentVolume {
        claim: [harmless("every node reaches it", |it| it.claim = None)],
        terms: [warns(|it| it.terms = Some(Vec::new()))],
    })
}

fn attachments(snapshot: &mut Snapshot) -> Vec<&mut VolumeAttachment> {
    kube(snapshot).volume_attachments.iter_mut().flatten().collect()
}

fn volume_attachment() -> Table<VolumeAttachment> {
    const IN_USE: &str = "its machine is not drained";
    table!(VolumeAttachment {
        name: [harmless(SHOWN, |it| it.name.clear())],
        node: [harmless(IN_USE, |it| it.node.clear())],
        volume: [harmless(SHOWN, |it| it.volume.clear())],
        detach_error: [harmless(IN_USE, |it| it.detach_error = Some(String::new()))],
    })
}

/// Returns the flags of API servers, if Kubernetes is about to be upgraded.
fn component_flags(snapshot: &mut Snapshot) -> Vec<&mut Flags> {
    let is_asked = snapshot.asked.upgrade.kubernetes.is_some();
    let flags = snapshot.nodes.iter_mut().flat_map(|node| &mut node.talos.component_flags);
    flags.filter(|it| is_asked && it.pod.starts_with("kube-apiserver")).collect()
}

fn flags() -> Table<Flags> {
    table!(Flags {
        pod: [bad(|it| it.pod.clear())],
        names: [bad(|it| it.names.clear()), bad(|it| it.names.push("cloud-config".to_owned()))],
        gates: [
            bad(|it| it.gates.push(("AppArmor".to_owned(), true))),
            bad(|it| it.gates.push(("NodeSwap".to_owned(), false))),
            bad(|it| it.gates.push(("AllowOverwriteTerminationGracePeriodSeconds".to_owned(), true))),
        ],
        plugins: [bad(|it| it.plugins.push("PersistentVolumeLabel".to_owned()))],
        apis: [bad(|it| it.apis.push("resource.k8s.io/v1alpha2".to_owned()))],
    })
}

/// Returns the flags of kubelets, if Kubernetes is about to be upgraded.
fn kubelet_flags(snapshot: &mut Snapshot) -> Vec<&mut Observed<Option<Flags>>> {
    let is_asked = snapshot.asked.upgrade.kubernetes.is_some();
    snapshot
        .nodes
        .iter_mut()
        .map(|node| &mut node.talos.kubelet_flags)
        .filter(|it| is_asked && matches!(it, Ok(Some(_))))
        .collect()
}

fn of_kubelet() -> Table<Observed<Option<Flags>>> {
    let flag = |it: &mut Observed<Option<Flags>>| {
        it.iter_mut().flatten().for_each(|it| it.names.push("pod-infra-container-image".to_owned()));
    };
    vec![("kubelet_flags", vec![bad(|it| *it = Ok(None)), bad(flag)])]
}

/// Returns the flags of kube-proxy, if Kubernetes is about to be upgraded.
fn proxy_flags(snapshot: &mut Snapshot) -> Vec<&mut Flags> {
    let is_asked = snapshot.asked.upgrade.kubernetes.is_some();
    let sets = kube(snapshot).daemon_sets.iter_mut().flatten().filter(|_| is_asked);
    sets.filter_map(|set| set.flags.as_mut()).collect()
}

fn of_proxy() -> Table<Flags> {
    vec![("proxy_flags", vec![bad(|it| it.gates.push(("AppArmor".to_owned(), true)))])]
}

/// Returns the extensions, if Talos is about to be upgraded.
fn extensions(snapshot: &mut Snapshot) -> Vec<&mut Vec<(String, String)>> {
    let is_asked = snapshot.asked.upgrade.image.is_some();
    snapshot.nodes.iter_mut().filter_map(|node| node.talos.extensions.as_mut().ok()).filter(|_| is_asked).collect()
}

fn of_extensions() -> Table<Vec<(String, String)>> {
    vec![("extensions", vec![bad(Vec::clear)])]
}

/// Returns the requested APIs, if Kubernetes is about to be upgraded.
fn requested_apis(snapshot: &mut Snapshot) -> Vec<&mut RequestedApi> {
    let is_asked = snapshot.asked.upgrade.kubernetes.is_some();
    let requested = kube(snapshot).requested_apis.values_mut().flatten().filter(|_| is_asked);
    requested.flat_map(|it| &mut it.apis).collect()
}

fn requested_api() -> Table<RequestedApi> {
    table!(RequestedApi {
        group: [harmless(SHOWN, |it| it.group.clear())],
        version: [harmless(SHOWN, |it| it.version.clear())],
        resource: [harmless(SHOWN, |it| it.resource.clear())],
        subresource: [harmless(SHOWN, |it| it.subresource = "status".to_owned())],
        removed: [
            bad(|it| it.removed = "1.32".to_owned()),
            bad(|it| it.removed = "soon".to_owned()),
            harmless("nobody has said when", |it| it.removed.clear()),
        ],
    })
}

/// Returns the budgets that cover pods of machines that are about to be taken down.
fn holding_budgets(snapshot: &mut Snapshot) -> Vec<&mut DisruptionBudget> {
    let is_asked = !evicted_pods(snapshot).is_empty();
    kube(snapshot).disruption_budgets.iter_mut().flatten().filter(|_| is_asked).collect()
}

fn disruption_budget() -> Table<DisruptionBudget> {
    table!(DisruptionBudget {
        is_operated: [harmless("what it allows counts, whoever made it", |it| it.is_operated = true)],
        namespace: [harmless("it selects no pod", |it| it.namespace.clear())],
        name: [harmless(SHOWN, |it| it.name.clear())],
        selector: [
            harmless("it selects no pod", |it| it.selector = None),
            harmless("the same pods", |it| it.selector = Some(Vec::new())),
            bad(|it| it.selector = Some(vec![Requirement { operator: "Like".to_owned(), ..requirement() }])),
        ],
        always_allows_unready: [harmless("all are ready", |it| it.always_allows_unready = true)],
        generation: [bad(|it| it.generation += 1)],
        observed_generation: [bad(|it| it.observed_generation = 0)],
        disruptions_allowed: [bad(|it| it.disruptions_allowed = 0), bad(|it| it.disruptions_allowed = -1)],
        current_healthy: [harmless("all are ready", |it| it.current_healthy = 0)],
        desired_healthy: [harmless("all are ready", |it| it.desired_healthy = i32::MAX)],
        sync_failed: [harmless(EXPLAINS, |it| it.sync_failed = Some("no controllers".to_owned()))],
    })
}

fn dns_endpoint() -> Table<ServiceEndpoint> {
    table!(ServiceEndpoint {
        namespace: [bad(|it| it.namespace.clear())],
        service: [harmless(SHOWN, |it| it.service.clear())],
        addresses: [bad(|it| it.addresses.clear())],
        ready: [bad(|it| it.ready = false)],
        // The effect of another node depends on the other endpoints: see `checks::kubernetes::tests::dns`.
        node: [],
        pod: [harmless("its address tells it apart", |it| it.pod = None)],
        port: [harmless("of API servers alone it is looked at", |it| it.port = None)],
        protocols: [
            bad(|it| it.protocols = Some(Vec::new())),
            bad(|it| it.protocols = Some(vec!["TCP".to_owned()])),
            harmless("an old server does not tell", |it| it.protocols = None),
        ],
    })
}

fn signing_request() -> Table<SigningRequest> {
    table!(SigningRequest {
        name: [harmless(SHOWN, |it| it.name.clear())],
        signer: [harmless("it is not pending", |it| it.signer.clear())],
        user: [harmless("it is not pending", |it| it.user.clear())],
        state: [
            warns(|it| it.state = RequestState::Pending),
            warns(|it| it.state = RequestState::Denied),
            warns(|it| it.state = RequestState::Unissued),
        ],
    })
}

fn webhook() -> Table<Webhook> {
    const SERVED: &str = "its Service has an endpoint, whatever it concerns";
    table!(Webhook {
        configuration: [harmless(SHOWN, |it| it.configuration.clear())],
        name: [harmless(SHOWN, |it| it.name.clear())],
        fails_closed: [harmless(SERVED, |it| it.fails_closed = false)],
        service: [
            bad(|it| it.service = Some((String::new(), String::new()))),
            harmless("called by URL", |it| it.service = None),
        ],
        rules: [harmless(SERVED, |it| it.rules.clear())],
        namespaces: [harmless(SERVED, |it| it.namespaces.push(requirement()))],
        objects: [harmless(SERVED, |it| it.objects.push(requirement()))],
        is_conditional: [harmless(SERVED, |it| it.is_conditional = true)],
    })
}

fn requirement() -> Requirement {
    Requirement { key: "x".to_owned(), operator: "Exists".to_owned(), values: Vec::new() }
}

fn webhook_rule() -> Table<WebhookRule> {
    const SERVED: &str = "its Service has an endpoint, whatever it concerns";
    table!(WebhookRule {
        groups: [harmless(SERVED, |it| it.groups.clear())],
        resources: [harmless(SERVED, |it| it.resources.clear())],
        operations: [harmless(SERVED, |it| it.operations.clear())],
        scope: [harmless(SERVED, |it| it.scope.clear())],
    })
}

fn api_service() -> Table<ApiService> {
    table!(ApiService {
        name: [harmless(SHOWN, |it| it.name.clear())],
        service: [harmless("the API server answers for it", |it| it.service = None)],
        available: [
            warns(|it| it.available = None),
            warns(|it| it.available.as_mut().unwrap().status = "False".to_owned()),
            warns(|it| it.available.as_mut().unwrap().status.clear()),
        ],
        backends: [harmless("read only where the API is not available", |it| it.backends = Ok(Vec::new()))],
    })
}
