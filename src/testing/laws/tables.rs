//! Wrong values in Talos's answers.

use jiff::SignedDuration;

use crate::model::Fact;
use crate::model::{MachineType, Role};
use crate::snapshot::{
    Account, Adjtime, AlarmKind, BootstrapManifests, Certificate, Contact, Diagnostic, Endpoint, EtcdAlarm, GapKind,
    LinkAddress, MachineStatus, Mount, NetworkStatus, Node, Peer, ReadyResource, ServerCheck, ServerProgress, Service,
    Snapshot, Sources, Talos, TalosCredentials, TalosNode, TimeStatus, UnmetCondition, UserPod, Version, Volume,
};
use crate::testing::fixture::{ago, gap, now, said, service, volume};
use crate::testing::laws::corruption::{Corruption, Table, at, bad, differs, harmless, table, warns};
use crate::testing::laws::etcd_tables::{self, stranger};

const EXPLAINS: &str = "only explains";
pub(super) const SHOWN: &str = "only shown";
const MADE: &str = "the population is made of it before anybody judges";
const CONFIGURED: &str = "the configuration decides what there has to be";

const NODES: &[Fact] = &[Fact::TalosNodes];

fn nodes(snapshot: &mut Snapshot) -> Vec<&mut TalosNode> {
    snapshot.nodes.iter_mut().map(|node| &mut *node.talos).collect()
}

pub(super) fn control_planes(snapshot: &mut Snapshot) -> Vec<&mut TalosNode> {
    let control_planes = snapshot.nodes.iter_mut().filter(|node| node.role == Role::ControlPlane);
    control_planes.map(|node| &mut *node.talos).collect()
}

fn talos(snapshot: &mut Snapshot) -> &mut Talos {
    snapshot.talos.as_mut().unwrap()
}

/// Wrong values of every fact of the Talos API.
pub(super) fn of_talos() -> Vec<Corruption> {
    let mut all = Vec::new();
    let to = &mut all;
    at(to, "talosconfig", NODES, |it| talos(it).credentials.iter_mut().collect(), talos_credentials());
    at(
        to,
        "talosconfig",
        NODES,
        |it| talos(it).credentials.iter_mut().filter_map(|it| it.certificate.as_mut()).collect(),
        certificate(),
    );
    at(to, "talos", NODES, |it| vec![talos(it)], of_side());
    at(to, "endpoint", NODES, |it| talos(it).endpoints.iter_mut().collect(), endpoint());
    at(to, "node", &[], |it| it.nodes.iter_mut().collect(), node());
    at(to, "node", NODES, |it| nodes(it).into_iter().flat_map(|it| &mut it.contact).collect(), contact());
    at(
        to,
        "node",
        NODES,
        |it| nodes(it).into_iter().flat_map(|it| &mut it.contact).map(|it| &mut it.version).collect(),
        version(),
    );
    at(to, "control plane", &[], control_planes, talos_node());
    at(
        to,
        "node",
        &[Fact::MachineStatus],
        |it| nodes(it).into_iter().flat_map(|it| &mut it.machine_status).flatten().collect(),
        machine_status(),
    );
    at(
        to,
        "node",
        &[Fact::Services],
        |it| nodes(it).into_iter().flat_map(|it| &mut it.services).flatten().collect(),
        services(),
    );
    at(
        to,
        "node",
        &[Fact::TimeStatus],
        |it| nodes(it).into_iter().flat_map(|it| &mut it.time_status).flatten().collect(),
        time_status(),
    );
    at(
        to,
        "node",
        &[Fact::TimeStatus],
        |it| nodes(it).into_iter().flat_map(|it| &mut it.adjtime).flatten().collect(),
        adjtime(),
    );
    at(
        to,
        "node",
        &[Fact::NetworkStatus],
        |it| nodes(it).into_iter().flat_map(|it| &mut it.network_status).flatten().collect(),
        network_status(),
    );
    let of_disk = &[Fact::Volumes];
    at(
        to,
        "node",
        of_disk,
        |it| nodes(it).into_iter().flat_map(|it| &mut it.volumes).flatten().filter(|it| it.id == "EPHEMERAL").collect(),
        ephemeral(),
    );
    at(
        to,
        "node",
        of_disk,
        |it| nodes(it).into_iter().flat_map(|it| &mut it.mounts).flatten().filter(|it| it.path == "/var").collect(),
        mount(),
    );
    at(
        to,
        "node",
        &[Fact::ConfigStatuses],
        |it| {
            let statuses = nodes(it).into_iter().flat_map(|it| &mut it.config_statuses).flatten();
            statuses.filter(|it| it.id == "static-pods").collect()
        },
        config_status(),
    );
    at(
        to,
        "control plane",
        &[Fact::BootstrapManifests],
        |it| control_planes(it).into_iter().flat_map(|it| &mut it.bootstrap_manifests).flatten().collect(),
        bootstrap_manifests(),
    );
    etcd_tables::of_talos(to);
    of_server(to);
    all
}

fn of_server(to: &mut Vec<Corruption>) {
    at(to, "server", &[Fact::ServerCheck], |it| talos(it).server.iter_mut().collect(), server_check());
    at(
        to,
        "server",
        &[Fact::ServerCheck],
        |it| {
            let progress = talos(it).server.iter_mut().flat_map(|it| &mut it.progress);
            progress.filter(|it| it.message.ends_with("OK")).collect()
        },
        server_progress(),
    );
}

fn talos_credentials() -> Table<TalosCredentials> {
    table!(TalosCredentials {
        ca: [
            bad(|it| it.ca.as_mut().unwrap().not_after = now()),
            warns(|it| it.ca.as_mut().unwrap().not_after = now() + SignedDuration::from_secs(1)),
            harmless("its dates cannot be read", |it| it.ca = None),
        ],
        ca_digests: [harmless(SHOWN, |it| it.ca_digests.clear())],
        source: [harmless(SHOWN, |it| it.source.clear())],
        context: [harmless(SHOWN, |it| it.context.clear())],
        certificate: [bad(|it| it.certificate = None)],
        account: [
            harmless("a key that is right, in place of the certificate", |it| it.account = Some(account(400))),
            warns(|it| it.account = Some(account(1))),
            bad(|it| it.account = Some(account(0))),
        ],
    })
}

/// A service account of Omni whose key is valid for this many days.
fn account(days: i64) -> Account {
    let day = |days: i64| now() + SignedDuration::from_hours(24 * days);
    Account {
        variable: "SIDERO_SERVICE_ACCOUNT_KEY",
        name: "ci".to_owned(),
        not_before: day(-365),
        not_after: Some(day(days)),
    }
}

pub(super) fn certificate() -> Table<Certificate> {
    table!(Certificate {
        not_before: [bad(|it| it.not_before = now() + SignedDuration::from_secs(1))],
        not_after: [bad(|it| it.not_after = now()), warns(|it| it.not_after = now() + SignedDuration::from_hours(24))],
        client_auth: [bad(|it| it.client_auth = false)],
        matches_key: [bad(|it| it.matches_key = false)],
        organizations: [harmless("the server says what they allow", |it| it.organizations.clear())],
    })
}

fn of_side() -> Table<Talos> {
    table!(Talos {
        credentials: [bad(|it| it.credentials = gap(GapKind::Malformed))],
        endpoints: [
            bad(|it| it.endpoints.clear()),
            harmless("the others forward", |it| it.endpoints.truncate(1)),
            harmless("it is asked twice", |it| it.endpoints.push(it.endpoints[0].clone())),
        ],
        discovery: [harmless("the sources of each node tell who names it", |it| it.discovery = Ok(usize::MAX))],
        server: [bad(|it| it.server.as_mut().unwrap().end = gap(GapKind::Broken))],
    })
}

fn endpoint() -> Table<Endpoint> {
    table!(Endpoint {
        address: [harmless("the node behind it tells its own", |it| "10.9.9.9:50000".clone_into(&mut it.address))],
        version: [harmless("those of the nodes are compared", |it| it.version.as_mut().unwrap().tag.clear())],
        role: [
            warns(|it| it.role = Ok(Some(Role::Worker))),
            harmless("it forwards, whatever it is", |it| it.role = Ok(None)),
        ],
        nodename: [harmless("only joins it to a node", |it| it.nodename = Ok(Some("somebody".to_owned())))],
        vip: [warns(|it| it.vip = true)],
    })
}

fn node() -> Table<Node> {
    table!(Node {
        // The node would still be recognized by its addresses.
        name: [bad(|it| (it.name, it.addresses) = ("somebody".to_owned(), Vec::new()))],
        address: [harmless(SHOWN, |it| it.address.clear())],
        addresses: [harmless("the name is enough", |it| it.addresses.clear())],
        own_addresses: [harmless("it answers at the one that Kubernetes tells", |it| it.own_addresses.clear())],
        machine_id: [harmless("Kubernetes tells none to compare it with", |it| it.machine_id = Some("7".to_owned()))],
        own_machine_id: [
            harmless("Kubernetes tells none to compare it with", |it| it.own_machine_id = Some("7".to_owned())),
        ],
        role: [
            bad(|it| it.role = Role::Unknown),
            bad(|it| it.role = if it.role == Role::Worker { Role::ControlPlane } else { Role::Worker }),
        ],
        sources: [harmless("other nodes show which sources there are", |it| {
            let Sources { discovery, kubernetes, etcd, flags, talosconfig } = &mut it.sources;
            (*kubernetes, *etcd, *flags, *talosconfig) = (false, false, !*flags, false);
            *discovery = true;
        })],
        is_talos: [harmless("whoever else names it calls it one", |it| it.is_talos = it.role == Role::Worker)],
        leaving: [
            harmless("Kubernetes' word, and then it need not be there", |it| it.leaving = it.role == Role::Worker)
        ],
        hostname: [harmless("only options call it that", |it| it.hostname = Some("other.example.org".into()))],
        out_of_scope: [harmless("the user's wish", |it| it.out_of_scope = true)],
        api_port: [harmless("it was asked there before", |it| it.api_port = 0)],
        talos: [bad(|it| it.talos = TalosNode::unasked(&crate::snapshot::Gap::not_asked()).into())],
    })
}

fn contact() -> Table<Contact> {
    table!(Contact {
        endpoint: [harmless(SHOWN, |it| it.endpoint.clear())],
        address: [harmless("one common machine proves the cluster", |it| it.address.clear())],
        version: [bad(|it| it.version.tag = "v1.13".to_owned())],
        not_through: [warns(|it| it.not_through.push(it.endpoint.clone()))],
        answered_by_other: [bad(|it| it.answered_by_other = Some("cp-9".to_owned()))],
    })
}

fn version() -> Table<Version> {
    table!(Version {
        tag: [
            bad(|it| it.tag.clear()),
            differs(|it| it.tag = "v1.3.0".to_owned()),
            differs(|it| it.tag = "v9.0.0".to_owned())
        ],
        mode: [harmless("another platform has no rules of its own", |it| it.mode.clear())],
    })
}

/// Lists and plain values; fields with a struct of their own have a separate table.
#[expect(clippy::too_many_lines, reason = "an entry for each field")]
fn talos_node() -> Table<TalosNode> {
    table!(TalosNode {
        contact: [bad(|it| it.contact = gap(GapKind::Broken))],
        machine_type: [
            harmless(MADE, |it| it.machine_type = Ok(Some(MachineType::Other))),
            warns(|it| it.machine_type = Ok(Some(MachineType::Init)))
        ],
        nodename: [harmless(MADE, |it| it.nodename = Ok(Some("somebody".to_owned())))],
        skips_registration: [harmless("it is registered all the same", |it| it.skips_registration = true)],
        machine_status: [bad(|it| it.machine_status = Ok(None))],
        services: [
            bad(|it| it.services.as_mut().unwrap().truncate(1)),
            bad(|it| it.services.as_mut().unwrap().retain(|it| it.id != "etcd")),
            bad(|it| it.services.as_mut().unwrap().retain(|it| it.id != "kubelet")),
            bad(|it| it.services.as_mut().unwrap().push(Service { healthy: Some(false), ..service("ext-x") })),
            bad(|it| it.services.as_mut().unwrap().push(Service { state: "Failed".to_owned(), ..service("cri") })),
        ],
        time_status: [bad(|it| it.time_status = Ok(None))],
        adjtime: [harmless("the node's lease tells the same", |it| it.adjtime = Ok(None))],
        network_status: [bad(|it| it.network_status = Ok(None))],
        link_addresses: [
            bad(|it| it.link_addresses = gap(GapKind::TimedOut)),
            harmless("one machine alone has it", |it| it.link_addresses.as_mut().unwrap().push(virtual_ip())),
            harmless("discovery tells of the others", |it| it.link_addresses = Ok(vec![virtual_ip()])),
        ],
        kubelet_certificate: [
            bad(|it| it.kubelet_certificate.as_mut().unwrap().validity.not_after = ago(1)),
            warns(|it| {
                it.kubelet_certificate.as_mut().unwrap().validity.not_after = now() + SignedDuration::from_hours(24);
            }),
            harmless("somebody else answers", |it| it.kubelet_certificate.as_mut().unwrap().names.clear()),
            harmless(SHOWN, |it| it.kubelet_certificate.as_mut().unwrap().address.clear()),
        ],
        kube_prism: [
            warns(|it| it.kube_prism = Ok(Some(false))),
            harmless("it is switched off", |it| it.kube_prism = Ok(None)),
        ],
        kube_span_peers: [
            warns(|it| peer(it, "down")),
            harmless("there is nothing yet to tell it by", |it| peer(it, "unknown")),
            bad(|it| peer(it, "")),
        ],
        memory: [
            bad(|it| it.memory = Ok(0)),
            bad(|it| it.memory = Ok(1 << 30)),
            harmless("there is no upper bound", |it| it.memory = Ok(u64::MAX)),
        ],
        volumes: [
            bad(|it| it.volumes.as_mut().unwrap().clear()),
            bad(|it| it.volumes.as_mut().unwrap().retain(|it| it.id != "EPHEMERAL")),
            bad(|it| it
                .volumes
                .as_mut()
                .unwrap()
                .push(Volume { phase: "failed".to_owned(), ..volume("u-data", None) })),
            bad(|it| it.volumes.as_mut().unwrap().push(Volume { phase: "lost".to_owned(), ..volume("u-data", None) })),
        ],
        mounts: [harmless("one file system that hangs keeps Talos from telling of any", |it| it
            .mounts
            .as_mut()
            .unwrap()
            .clear())],
        diagnostics: [warns(|it| {
            let (id, message, details) = ("kubelet-csr".to_owned(), String::new(), Vec::new());
            it.diagnostics.as_mut().unwrap().push(Diagnostic { id, message, details });
        })],
        static_pods: [
            bad(|it| it.static_pods.as_mut().unwrap().truncate(2)),
            bad(|it| it.static_pods.as_mut().unwrap().push("default-mine".to_owned())),
            harmless("one is one", |it| {
                let pods = it.static_pods.as_mut().unwrap();
                pods.push(pods[0].clone());
            }),
        ],
        user_pods: [harmless("a healthy cluster needs none", |it| {
            let pod = UserPod { id: "mine".to_owned(), namespace: "default".to_owned(), name: "mine".to_owned() };
            it.user_pods.push(pod);
        })],
        component_flags: [harmless("in any order", |it| it.component_flags.reverse())],
        static_pod_statuses: [
            bad(|it| it.static_pod_statuses.as_mut().unwrap().truncate(2)),
            bad(|it| it.static_pod_statuses.as_mut().unwrap().clear()),
        ],
        config_statuses: [bad(|it| it.config_statuses.as_mut().unwrap().clear())],
        scheduler_enabled: [harmless(CONFIGURED, |it| it.scheduler_enabled = Ok(Some(false)))],
        controller_manager_enabled: [harmless(CONFIGURED, |it| it.controller_manager_enabled = Ok(Some(false)))],
        bootstrap_manifests: [harmless("the others tell the same", |it| it.bootstrap_manifests = Ok(None))],
        extra_manifests: [warns(|it| it.extra_manifests = Ok(vec!["99-more".to_owned()]))],
        manifests_applied: [harmless("another control plane has applied them", |it| it.manifests_applied = Ok(vec![]))],
        etcd_member_id: [harmless("the member's status tells it", |it| it.etcd_member_id = Ok(Some(7)))],
        etcd_status: [bad(|it| it.etcd_status = gap(GapKind::Malformed))],
        etcd_members: [
            bad(|it| it.etcd_members.as_mut().unwrap().clear()),
            bad(|it| it.etcd_members.as_mut().unwrap().push(stranger())),
            bad(|it| it.etcd_members = Ok(vec![stranger()])),
        ],
        etcd_alarms: [
            bad(|it| alarm(it, AlarmKind::NoSpace)),
            bad(|it| alarm(it, AlarmKind::Corrupt)),
            bad(|it| alarm(it, AlarmKind::Other(9))),
        ],
        etcd_spec: [bad(|it| it.etcd_spec = Ok(None))],
        etcd_data_absent: [harmless("etcd runs", |it| it.etcd_data_absent = Ok(true))],
        kubelet_flags: [harmless("in any order", |it| {
            it.kubelet_flags.iter_mut().flatten().for_each(|flags| flags.names.reverse());
        })],
        extensions: [harmless("in any order", |it| it.extensions.as_mut().unwrap().reverse())],
        cluster_id: [harmless("no check reads it", |it| it.cluster_id = Ok(Some("another".to_owned())))],
        installed: [harmless("no check reads it", |it| it.installed = Ok(Some("registry.example/a:v1".to_owned())))],
    })
}

fn virtual_ip() -> LinkAddress {
    LinkAddress { address: "192.0.2.10".to_owned(), link: "eth0".to_owned(), is_single: true }
}

fn peer(node: &mut TalosNode, state: &str) {
    let (name, state) = ("w-1".to_owned(), state.to_owned());
    node.kube_span_peers.as_mut().unwrap().push(Peer { name, state, last_handshake: None });
}

fn alarm(node: &mut TalosNode, kind: AlarmKind) {
    node.etcd_alarms.as_mut().unwrap().push(EtcdAlarm { member_id: 0, kind });
}

fn machine_status() -> Table<MachineStatus> {
    table!(MachineStatus {
        stage: [
            bad(|it| it.stage.clear()),
            bad(|it| it.stage = "booting".to_owned()),
            bad(|it| it.stage = "upgrading".to_owned()),
            bad(|it| it.stage = "Running".to_owned()),
        ],
        ready: [bad(|it| it.ready = false)],
        unmet: [bad(|it| it.unmet.push(UnmetCondition { name: String::new(), reason: String::new() }))],
    })
}

fn services() -> Table<Service> {
    table!(Service {
        id: [bad(|it| it.id.clear()), bad(|it| it.id = "ext-other".to_owned())],
        state: [
            bad(|it| it.state.clear()),
            bad(|it| it.state = "Failed".to_owned()),
            bad(|it| it.state = "Waiting".to_owned()),
            bad(|it| it.state = "Finished".to_owned()),
            bad(|it| it.state = "Skipped".to_owned()),
            bad(|it| it.state = "running".to_owned()),
        ],
        healthy: [bad(|it| it.healthy = Some(false)), bad(|it| it.healthy = None)],
        health_message: [harmless(EXPLAINS, |it| it.health_message = "connection refused".to_owned())],
        last_event: [harmless(EXPLAINS, |it| it.last_event = None)],
        running_since: [harmless("tells the age of what has just joined", |it| it.running_since = None)],
        failures: [warns(|it| it.failures = vec![now(); 3])],
    })
}

fn time_status() -> Table<TimeStatus> {
    table!(TimeStatus {
        synced: [bad(|it| it.synced = false)],
        sync_disabled: [harmless(CONFIGURED, |it| it.sync_disabled = true)],
    })
}

fn adjtime() -> Table<Adjtime> {
    table!(Adjtime {
        offset: [
            bad(|it| it.offset = SignedDuration::from_secs(31)),
            bad(|it| it.offset = SignedDuration::MIN),
            warns(|it| it.offset = SignedDuration::from_secs(-2)),
        ],
        synced: [warns(|it| it.synced = false)],
    })
}

fn network_status() -> Table<NetworkStatus> {
    table!(NetworkStatus {
        address_ready: [bad(|it| it.address_ready = false)],
        connectivity_ready: [bad(|it| it.connectivity_ready = false)],
        hostname_ready: [bad(|it| it.hostname_ready = false)],
        etc_files_ready: [bad(|it| it.etc_files_ready = false)],
    })
}

fn ephemeral() -> Table<Volume> {
    table!(Volume {
        id: [bad(|it| it.id.clear())],
        phase: [bad(|it| it.phase.clear()), bad(|it| it.phase = "failed".to_owned())],
        size: [
            bad(|it| it.size = Some(0)),
            bad(|it| it.size = Some(1 << 20)),
            harmless("a size that is not told is passed over", |it| it.size = None),
        ],
        error: [harmless(EXPLAINS, |it| it.error = "no such disk".to_owned())],
        failed_syncs: [warns(|it| it.failed_syncs.push("no KMS".to_owned()))],
    })
}

fn mount() -> Table<Mount> {
    table!(Mount {
        path: [harmless("a size that is not told is passed over", |it| it.path.clear())],
        size: [harmless("the same", |it| it.size = 0), warns(|it| it.size = u64::MAX)],
        device: [harmless("there is no other of the same", |it| it.device.clear())],
        available: [warns(|it| it.available = 1), bad(|it| it.available = 0)],
    })
}

fn config_status() -> Table<ReadyResource> {
    table!(ReadyResource { id: [bad(|it| it.id.clear())], ready: [bad(|it| it.ready = false)] })
}

fn bootstrap_manifests() -> Table<BootstrapManifests> {
    table!(BootstrapManifests {
        proxy_enabled: [harmless("the others ask for it", |it| it.proxy_enabled = false)],
        dns_enabled: [harmless("the others ask for it", |it| it.dns_enabled = false)],
        flannel_enabled: [harmless("the others ask for it", |it| it.flannel_enabled = false)],
        dns_service_ip: [harmless(SHOWN, |it| it.dns_service_ip.clear())],
    })
}

fn server_check() -> Table<ServerCheck> {
    table!(ServerCheck {
        endpoint: [harmless(SHOWN, |it| it.endpoint.clear())],
        progress: [
            bad(|it| it.progress.clear()),
            bad(|it| it.progress.truncate(2)),
            bad(|it| it.progress.push(said("waiting for all nodes to boot: ..."))),
        ],
        end: [bad(|it| it.end = gap(GapKind::ServerError))],
    })
}

fn server_progress() -> Table<ServerProgress> {
    table!(ServerProgress {
        hostname: [harmless(SHOWN, |it| "cp-9".clone_into(&mut it.hostname))],
        message: [
            bad(|it| it.message.clear()),
            bad(|it| it.message = "waiting for etcd to be healthy: no".to_owned()),
            bad(|it| it.message = "waiting for etcd to be healthy: ok".to_owned()),
        ],
        error: [bad(|it| it.error = Some(crate::snapshot::Gap::new(GapKind::ServerError, "no")))],
    })
}
