//! The Talos resources that are read, and their fields.
//!
//! They are parsed from YAML, which has had the same keys in every release since 1.2. Namespaces, types, ids and keys are Talos's.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::call::{Caller, Route};
use super::resources::{MEMBERS, Resource, Type, each};
use super::{Member, machine_id};
use crate::model::MachineType;
use crate::observe::dial::cause::clean;
use crate::observe::flags;
use crate::snapshot::{
    BootstrapManifests, ContainerState, Flags, Gap, GapKind, MachineStatus, Observed, PodState, ReadyResource,
    StaticPodStatus, UnmetCondition, UserPod, badness,
};
use crate::text::sanitize::without_secrets;

const INFOS: Type = Type { namespace: "cluster", name: "Infos.cluster.talos.dev" };
const IDENTITIES: Type = Type { namespace: "cluster", name: "Identities.cluster.talos.dev" };
const MACHINE_TYPES: Type = Type { namespace: "config", name: "MachineTypes.config.talos.dev" };
const NODENAMES: Type = Type { namespace: "k8s", name: "Nodenames.kubernetes.talos.dev" };
const NODE_ADDRESSES: Type = Type { namespace: "network", name: "NodeAddresses.net.talos.dev" };
const MACHINE_STATUSES: Type = Type { namespace: "runtime", name: "MachineStatuses.runtime.talos.dev" };
const STATIC_PODS: Type = Type { namespace: "k8s", name: "StaticPods.kubernetes.talos.dev" };
const STATIC_POD_STATUSES: Type = Type { namespace: "k8s", name: "StaticPodStatuses.kubernetes.talos.dev" };
const CONFIG_STATUSES: Type = Type { namespace: "controlplane", name: "ConfigStatuses.kubernetes.talos.dev" };
const SCHEDULER_CONFIGS: Type = Type { namespace: "controlplane", name: "SchedulerConfigs.kubernetes.talos.dev" };
const CONTROLLER_MANAGER_CONFIGS: Type =
    Type { namespace: "controlplane", name: "ControllerManagerConfigs.kubernetes.talos.dev" };
const BOOTSTRAP_MANIFESTS: Type =
    Type { namespace: "controlplane", name: "BootstrapManifestsConfigs.kubernetes.talos.dev" };
const MANIFEST_STATUSES: Type = Type { namespace: "controlplane", name: "ManifestStatuses.kubernetes.talos.dev" };
const EXTRA_MANIFESTS: Type = Type { namespace: "controlplane", name: "ExtraManifestsConfigs.kubernetes.talos.dev" };
const EXTENSION_STATUSES: Type = Type { namespace: "runtime", name: "ExtensionStatuses.runtime.talos.dev" };
const KUBELET_SPECS: Type = Type { namespace: "k8s", name: "KubeletSpecs.kubernetes.talos.dev" };
const ETCD_MEMBERS: Type = Type { namespace: "etcd", name: "EtcdMembers.etcd.talos.dev" };

/// The name under which the machine's kubelet registers.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(super) struct Nodename {
    #[serde(rename = "nodename")]
    pub(super) name: String,
    /// Whether registration is skipped. Since Talos 1.5.
    #[serde(default)]
    pub(super) skip_node_registration: bool,
}

impl Caller {
    pub(super) async fn members(&self, to: &Route<'_>) -> Observed<Vec<Member>> {
        each(self.list(to, MEMBERS).await?, member).await
    }

    pub(super) async fn machine_type(&self, to: &Route<'_>) -> Observed<Option<MachineType>> {
        // A bare scalar.
        let found: Option<String> = self.one(to, MACHINE_TYPES, "machine-type").await?;
        Ok(found.as_deref().map(machine_type))
    }

    pub(super) async fn nodename(&self, to: &Route<'_>) -> Observed<Option<Nodename>> {
        self.one(to, NODENAMES, "nodename").await
    }

    /// Reads the `machineID` that the machine's kubelet reports to Kubernetes.
    pub(super) async fn machine_id(&self, to: &Route<'_>) -> Observed<Option<String>> {
        let found: Option<Identity> = self.one(to, IDENTITIES, "local").await?;
        Ok(found.and_then(|found| machine_id(&found.node_id)))
    }

    /// Reads the ID of the machine's cluster. Old machine configurations have none.
    pub(super) async fn cluster_id(&self, to: &Route<'_>) -> Observed<Option<String>> {
        let found: Option<ClusterInfo> = self.one(to, INFOS, "current").await?;
        Ok(found.map(|found| found.cluster_id).filter(|id| !id.is_empty()))
    }

    /// Reads the addresses at which other machines can reach the machine: those of its own networks, without Kubernetes' addresses.
    pub(super) async fn addresses(&self, to: &Route<'_>) -> Observed<Vec<String>> {
        let mut found: Option<NodeAddress> = self.one(to, NODE_ADDRESSES, "routed-no-k8s").await?;
        if found.is_none() {
            found = self.one(to, NODE_ADDRESSES, "routed").await?;
        }
        Ok(found.map(|found| without_prefix(&found.addresses)).unwrap_or_default())
    }

    pub(super) async fn machine_status(&self, to: &Route<'_>) -> Observed<Option<MachineStatus>> {
        Ok(self.one(to, MACHINE_STATUSES, "machine").await?.map(machine_status))
    }

    /// Reads the ids of all static pods, the Kubernetes names of user-defined ones, and the flags of Kubernetes' components.
    pub(super) async fn static_pods(&self, to: &Route<'_>) -> Observed<(Vec<String>, Vec<UserPod>, Vec<Flags>)> {
        let found = self.list(to, STATIC_PODS).await?;
        let of_users = found.iter().filter_map(user_pod).collect();
        let flags = found.iter().filter_map(component_flags).collect();
        Ok((found.into_iter().map(|resource| resource.id).collect(), of_users, flags))
    }

    pub(super) async fn static_pod_statuses(&self, to: &Route<'_>) -> Observed<Vec<StaticPodStatus>> {
        each(self.list(to, STATIC_POD_STATUSES).await?, static_pod_status).await
    }

    pub(super) async fn config_statuses(&self, to: &Route<'_>) -> Observed<Vec<ReadyResource>> {
        each(self.list(to, CONFIG_STATUSES).await?, ready_resource).await
    }

    pub(super) async fn scheduler_enabled(&self, to: &Route<'_>) -> Observed<Option<bool>> {
        enabled(&self.list(to, SCHEDULER_CONFIGS).await?, "kube-scheduler")
    }

    pub(super) async fn controller_manager_enabled(&self, to: &Route<'_>) -> Observed<Option<bool>> {
        enabled(&self.list(to, CONTROLLER_MANAGER_CONFIGS).await?, "kube-controller-manager")
    }

    pub(super) async fn bootstrap_manifests(&self, to: &Route<'_>) -> Observed<Option<BootstrapManifests>> {
        Ok(self.one(to, BOOTSTRAP_MANIFESTS, "manifests").await?.map(bootstrap_manifests))
    }

    /// Reads the names of applied manifests. Empty before the first time: Talos writes all names once all manifests are applied.
    pub(super) async fn manifests_applied(&self, to: &Route<'_>) -> Observed<Vec<String>> {
        let found: Option<ManifestStatus> = self.one(to, MANIFEST_STATUSES, "manifests").await?;
        let names = found.map(|found| found.manifests_applied).unwrap_or_default();
        Ok(names.iter().map(|name| clean(name)).collect())
    }

    /// Reads the names of extra manifests, in the form used in the list of applied ones. Their contents may be secret, so only names are
    /// read.
    pub(super) async fn extra_manifests(&self, to: &Route<'_>) -> Observed<Vec<String>> {
        let found: Option<ExtraManifests> = self.one(to, EXTRA_MANIFESTS, "extra-manifests").await?;
        let all = found.map(|found| found.extra_manifests).unwrap_or_default();
        Ok(all.iter().map(|it| clean(&format!("{}-{}", it.priority, it.name))).collect())
    }

    /// Reads the kubelet's command line and configuration, reduced to the fields of `Flags`.
    pub(super) async fn kubelet_flags(&self, to: &Route<'_>) -> Observed<Option<Flags>> {
        Ok(self.one(to, KUBELET_SPECS, "kubelet").await?.map(kubelet_flags))
    }

    /// Reads name and version of each system extension.
    pub(super) async fn extensions(&self, to: &Route<'_>) -> Observed<Vec<(String, String)>> {
        each(self.list(to, EXTENSION_STATUSES).await?, extension).await
    }

    pub(super) async fn etcd_member_id(&self, to: &Route<'_>) -> Observed<Option<u64>> {
        self.one(to, ETCD_MEMBERS, "local").await?.map(etcd_member_id).transpose()
    }
}

fn extension(resource: &Resource) -> Observed<(String, String)> {
    #[derive(Deserialize)]
    struct Extension {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        name: String,
        version: String,
    }
    let Extension { metadata: Metadata { name, version } } = resource.spec()?;
    Ok((clean(&name), clean(&version)))
}

fn machine_type(name: &str) -> MachineType {
    match name {
        "init" => MachineType::Init,
        "controlplane" => MachineType::ControlPlane,
        "worker" => MachineType::Worker,
        _ => MachineType::Other,
    }
}

fn member(resource: &Resource) -> Observed<Member> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        node_id: String,
        addresses: Vec<String>,
        hostname: String,
        machine_type: String,
        control_plane: Option<ControlPlane>,
    }
    #[derive(Deserialize)]
    struct ControlPlane {
        port: u16,
    }
    let spec: Spec = resource.spec()?;
    Ok(Member {
        name: resource.id.clone(),
        node_id: spec.node_id,
        addresses: spec.addresses,
        hostname: spec.hostname,
        role: machine_type(&spec.machine_type).role(),
        api_port: spec.control_plane.map(|it| it.port),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClusterInfo {
    #[serde(default)]
    cluster_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    node_id: String,
}

#[derive(Deserialize)]
struct NodeAddress {
    addresses: Vec<String>,
}

fn without_prefix(addresses: &[String]) -> Vec<String> {
    addresses.iter().map(|prefix| prefix.split('/').next().unwrap_or_default().to_owned()).collect()
}

#[derive(Deserialize)]
struct MachineStatusSpec {
    stage: String,
    status: Readiness,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Readiness {
    ready: bool,
    unmet_conditions: Option<Vec<Unmet>>,
}

#[derive(Deserialize)]
struct Unmet {
    name: String,
    #[serde(default)]
    reason: String,
}

fn machine_status(MachineStatusSpec { stage, status }: MachineStatusSpec) -> MachineStatus {
    let unmet = status.unmet_conditions.into_iter().flatten();
    let unmet = unmet.map(|it| UnmetCondition { name: it.name, reason: without_secrets(&it.reason) }).collect();
    MachineStatus { stage, ready: status.ready, unmet }
}

fn ready_resource(resource: &Resource) -> Observed<ReadyResource> {
    #[derive(Deserialize)]
    struct Spec {
        ready: bool,
    }
    Ok(ReadyResource { id: resource.id.clone(), ready: resource.spec::<Spec>()?.ready })
}

/// Returns whether a component is enabled. Talos 1.14 stores the configuration that it renders from as `final-…`, in addition to the
/// initial one.
fn enabled(resources: &[Resource], component: &str) -> Observed<Option<bool>> {
    #[derive(Deserialize)]
    struct Spec {
        enabled: bool,
    }
    let last = format!("final-{component}");
    let found = [last.as_str(), component].iter().find_map(|id| resources.iter().find(|it| it.id == *id));
    found.map(|resource| Ok(resource.spec::<Spec>()?.enabled)).transpose()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BootstrapManifestsConfig {
    proxy_enabled: bool,
    #[serde(rename = "coreDNSEnabled")]
    dns_enabled: bool,
    flannel_enabled: bool,
    #[serde(rename = "dnsServiceIP", default)]
    dns_service_ip: String,
    #[serde(rename = "dnsServiceIPv6", default)]
    dns_service_ip_v6: String,
}

fn bootstrap_manifests(config: BootstrapManifestsConfig) -> BootstrapManifests {
    let BootstrapManifestsConfig { proxy_enabled, dns_enabled, flannel_enabled, dns_service_ip, dns_service_ip_v6 } =
        config;
    let dns_service_ip = if dns_service_ip.is_empty() { dns_service_ip_v6 } else { dns_service_ip };
    BootstrapManifests { proxy_enabled, dns_enabled, flannel_enabled, dns_service_ip }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManifestStatus {
    manifests_applied: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExtraManifests {
    #[serde(default)]
    extra_manifests: Vec<ExtraManifest>,
}

#[derive(Deserialize)]
struct ExtraManifest {
    name: String,
    priority: String,
}

#[derive(Deserialize)]
struct LocalMember {
    #[serde(rename = "memberID")]
    member_id: String,
}

fn etcd_member_id(LocalMember { member_id }: LocalMember) -> Observed<u64> {
    u64::from_str_radix(&member_id, 16).map_err(|_| {
        Gap::new(GapKind::Malformed, clean(&format!("EtcdMembers `local`: `{member_id}` is not a member ID")))
    })
}

/// The name of a static pod. The resource is a whole manifest, of which only a name and the names of flags are read: the rest may contain
/// secrets.
#[derive(Deserialize)]
struct Manifest {
    metadata: ManifestName,
}

#[derive(Deserialize)]
struct ManifestName {
    name: String,
    #[serde(default)]
    namespace: String,
}

/// Returns the user-defined pod; `None` if it is Talos's own, or cannot be identified.
fn user_pod(resource: &Resource) -> Option<UserPod> {
    let Manifest { metadata: ManifestName { name, namespace } } = resource.spec().ok()?;
    let namespace = if namespace.is_empty() { "default".to_owned() } else { namespace };
    (namespace != "kube-system").then(|| UserPod { id: resource.id.clone(), namespace, name })
}

/// Returns the flags of a component; `None` if it is not one of Kubernetes' own, or its command line is unreadable.
fn component_flags(resource: &Resource) -> Option<Flags> {
    #[derive(Deserialize)]
    struct Pod {
        spec: Spec,
    }
    #[derive(Deserialize)]
    struct Spec {
        containers: Vec<Container>,
    }
    #[derive(Deserialize)]
    struct Container {
        #[serde(default)]
        command: Vec<String>,
        #[serde(default)]
        args: Vec<String>,
    }
    if !resource.id.starts_with("kube-") {
        return None;
    }
    let pod: Pod = resource.spec().ok()?;
    let Container { command, args } = pod.spec.containers.into_iter().next()?;
    Some(flags::of_command(resource.id.clone(), command.into_iter().chain(args)))
}

#[derive(Deserialize)]
struct KubeletSpec {
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    config: KubeletConfiguration,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct KubeletConfiguration {
    feature_gates: BTreeMap<String, bool>,
}

fn kubelet_flags(KubeletSpec { args, config }: KubeletSpec) -> Flags {
    let mut flags = flags::of_command("kubelet".to_owned(), args.into_iter());
    flags.gates.extend(config.feature_gates.into_iter().map(|(gate, is_on)| (clean(&gate), is_on)));
    flags
}

fn static_pod_status(resource: &Resource) -> Observed<StaticPodStatus> {
    let spec: PodStatus = resource.spec()?;
    let (namespace, name) = resource.id.split_once('/').unwrap_or(("kube-system", resource.id.as_str()));
    let ready = spec.conditions.iter().filter(|it| it.kind == "Ready");
    let ready = ready.max_by_key(|it| badness(&it.status, "True")).map(|it| it.status == "True");
    let told = spec.conditions.into_iter().find(|it| it.status != "True" && !it.message.is_empty());
    let message = if spec.message.is_empty() { told.map(|it| it.message).unwrap_or_default() } else { spec.message };
    let state = PodState {
        phase: spec.phase,
        ready,
        containers: spec.container_statuses.into_iter().map(container).collect(),
        message: without_secrets(&message),
    };
    Ok(StaticPodStatus { namespace: namespace.to_owned(), name: name.to_owned(), state })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct PodStatus {
    phase: String,
    message: String,
    conditions: Vec<PodCondition>,
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Deserialize)]
struct PodCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus {
    name: String,
    #[serde(default)]
    image: String,
    ready: bool,
    restart_count: u32,
    #[serde(default)]
    state: States,
    #[serde(default)]
    last_state: States,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct States {
    running: Option<IgnoredAny>,
    waiting: Option<Waiting>,
    terminated: Option<Terminated>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: Option<String>,
    message: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    exit_code: Option<i32>,
    finished_at: Option<Timestamp>,
    reason: Option<String>,
    message: Option<String>,
}

fn container(status: ContainerStatus) -> ContainerState {
    let running = status.state.running.is_some();
    let waiting = status.state.waiting.unwrap_or_default();
    let terminated = status.state.terminated.or(status.last_state.terminated).unwrap_or_default();
    ContainerState {
        name: status.name,
        image: status.image,
        ready: status.ready,
        restarts: status.restart_count,
        running,
        waiting_reason: waiting.reason,
        waiting_message: waiting.message.as_deref().map(without_secrets),
        exit_code: terminated.exit_code,
        finished: terminated.finished_at,
        termination_reason: terminated.reason,
        termination_message: terminated.message.as_deref().map(without_secrets),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Role;

    fn malformed<T: std::fmt::Debug>(result: Observed<T>) -> String {
        let gap = result.unwrap_err();
        assert_eq!(gap.kind, GapKind::Malformed);
        gap.text.into_owned()
    }

    #[test]
    fn fuzz_specifications() {
        bolero::check!().for_each(|bytes: &[u8]| {
            let resource = Resource::literal("Kind", "id", &String::from_utf8_lossy(bytes));
            let _ = (member(&resource), user_pod(&resource), static_pod_status(&resource), ready_resource(&resource));
            let _ = resource.spec::<MachineStatusSpec>().map(machine_status);
            let _ = resource.spec::<BootstrapManifestsConfig>().map(bootstrap_manifests);
            let _ = (resource.spec::<ManifestStatus>(), resource.spec::<ExtraManifests>());
            let _ = resource.spec().and_then(etcd_member_id);
            let _ = resource.spec::<NodeAddress>().map(|found| without_prefix(&found.addresses));
            let _ = (resource.spec::<Nodename>(), resource.spec::<Identity>(), enabled(&[resource], "id"));
        });
    }

    #[test]
    fn pods_of_the_users_own_are_found_by_what_their_manifests_say() {
        let of = |manifest: &str| {
            let found = user_pod(&Resource::literal("StaticPods", "default-cache", manifest))?;
            Some(format!("{} {} {}", found.id, found.namespace, found.name))
        };
        let manifest = |metadata: &str| format!("apiVersion: v1\nkind: Pod\nmetadata: {metadata}\nspec: {{}}\n");
        assert_eq!(of(&manifest("{name: cache, namespace: web}")).as_deref(), Some("default-cache web cache"));
        assert_eq!(of(&manifest("{name: cache}")).as_deref(), Some("default-cache default cache"));
        assert_eq!(of(&manifest("{name: cache, namespace: kube-system}")), None);
        assert_eq!(of(&manifest("{namespace: web}")), None);
        assert_eq!(of("[]"), None);
    }

    #[test]
    fn a_member_as_talos_1_13_writes_it() {
        let yaml = "nodeId: Dvz3\naddresses:\n    - 10.0.0.2\n    - fd00::2\nhostname: cp-1.example\nmachineType: controlplane\n\
                    operatingSystem: Talos (v1.13.0)\ncontrolPlane:\n    port: 6443\n";
        let found = member(&Resource::literal("Members", "cp-1", yaml)).unwrap();
        assert_eq!((found.name.as_str(), found.role, found.api_port), ("cp-1", Role::ControlPlane, Some(6443)));
        assert_eq!(found.addresses, ["10.0.0.2", "fd00::2"]);
        let worker = "nodeId: x\naddresses: []\nhostname: w-1\nmachineType: worker\noperatingSystem: Talos (v1.13.0)\n";
        let found = member(&Resource::literal("Members", "w-1", worker)).unwrap();
        assert_eq!((found.role, found.api_port), (Role::Worker, None));
        let text = malformed(member(&Resource::literal("Members", "w-1", "nodeId: x\naddresses: []\nhostname: w-1\n")));
        assert!(text.starts_with("Members `w-1`: missing field `machineType`"), "{text}");
    }

    #[test]
    fn machine_types_are_scalars_and_new_ones_are_unknown() {
        for (yaml, expected) in [
            ("controlplane\n", MachineType::ControlPlane),
            ("init", MachineType::Init),
            ("worker", MachineType::Worker),
            ("other", MachineType::Other),
        ] {
            let found = Resource::literal("MachineTypes", "machine-type", yaml).spec();
            assert_eq!(found.map(|it: String| machine_type(&it)), Ok(expected));
        }
        malformed(Resource::literal("MachineTypes", "machine-type", "a: b").spec::<String>());
    }

    #[test]
    fn machine_status_has_no_defaults() {
        let of = |yaml| Resource::literal("MachineStatuses", "machine", yaml).spec().map(machine_status);
        let yaml = "stage: booting\nstatus:\n    ready: false\n    unmetConditions:\n        - name: staticPods\n          reason: not ready\n";
        let status = of(yaml).unwrap();
        assert_eq!(
            (status.stage.as_str(), status.ready, status.unmet[0].name.as_str()),
            ("booting", false, "staticPods")
        );
        let none = "stage: shutting down\nstatus:\n    ready: true\n    unmetConditions: []\n";
        assert_eq!(of(none).unwrap().stage, "shutting down");
        malformed(of("stage: running\nstatus: {}\n"));
        malformed(of("stage: running\n"));
        malformed(of("- a\n"));
        malformed(of("stage: [\n"));
    }

    #[test]
    fn etcd_ids_are_hexadecimal_even_if_they_look_like_a_number() {
        let id = |yaml: &str| Resource::literal("EtcdMembers", "local", yaml).spec().and_then(etcd_member_id);
        assert_eq!(id("memberID: 299be9d182e09956\n"), Ok(0x299b_e9d1_82e0_9956));
        assert_eq!(id("memberID: \"1234567890123456\"\n"), Ok(0x1234_5678_9012_3456));
        assert_eq!(id("memberID: 1234567890123456\n"), Ok(0x1234_5678_9012_3456));
        malformed(id("memberID: \"\"\n"));
        malformed(id("memberID: etcd-1\n"));
    }

    #[test]
    fn the_final_configuration_counts() {
        let resource = |id: &str, enabled: bool| {
            Resource::literal("SchedulerConfigs", id, &format!("enabled: {enabled}\nimage: x\n"))
        };
        let both = [resource("final-kube-scheduler", false), resource("kube-scheduler", true)];
        assert_eq!(enabled(&both, "kube-scheduler"), Ok(Some(false)));
        assert_eq!(enabled(&both[1..], "kube-scheduler"), Ok(Some(true)));
        assert_eq!(enabled(&[], "kube-scheduler"), Ok(None));
        assert_eq!(enabled(&[resource("other", true)], "kube-scheduler"), Ok(None));
    }

    #[test]
    fn bootstrap_manifests_of_an_ipv6_cluster() {
        let yaml = "string: https://k8s.example:6443\nproxyEnabled: true\ncoreDNSEnabled: true\nflannelEnabled: false\ndnsServiceIP: \"\"\ndnsServiceIPv6: fd00::a\n";
        let of =
            |yaml| Resource::literal("BootstrapManifestsConfigs", "manifests", yaml).spec().map(bootstrap_manifests);
        let found = of(yaml).unwrap();
        assert_eq!(
            (found.proxy_enabled, found.flannel_enabled, found.dns_service_ip.as_str()),
            (true, false, "fd00::a")
        );
        malformed(of("proxyEnabled: true\n"));
    }

    #[test]
    fn addresses_lose_their_prefix() {
        let yaml = "addresses:\n    - 10.0.0.2/24\n    - fd00::2/64\nsortAlgorithm: v1\n";
        let found = Resource::literal("NodeAddresses", "routed", yaml).spec::<NodeAddress>();
        assert_eq!(without_prefix(&found.unwrap().addresses), ["10.0.0.2", "fd00::2"]);
    }

    #[test]
    fn a_crashing_static_pod() {
        let yaml = "conditions:\n    - lastProbeTime: null\n      message: 'containers with unready status: [kube-scheduler]'\n      status: \"False\"\n      type: Ready\n\
                    containerStatuses:\n    - lastState:\n        terminated:\n            exitCode: 1\n            reason: Error\n            message: password=hunter2\n            finishedAt: \"2026-11-21T14:04:08Z\"\n      name: kube-scheduler\n      ready: false\n      restartCount: 4\n      state:\n        waiting:\n            reason: CrashLoopBackOff\n            message: back-off 40s\nphase: Running\n";
        let status =
            static_pod_status(&Resource::literal("StaticPodStatuses", "kube-system/kube-scheduler-cp-1", yaml))
                .unwrap();
        assert_eq!(
            (status.namespace.as_str(), status.name.as_str(), status.state.ready, status.state.phase.as_str()),
            ("kube-system", "kube-scheduler-cp-1", Some(false), "Running")
        );
        assert_eq!(status.state.message, "containers with unready status: [kube-scheduler]");
        let container = &status.state.containers[0];
        assert_eq!((container.restarts, container.running, container.exit_code), (4, false, Some(1)));
        assert_eq!(container.finished, Some("2026-11-21T14:04:08Z".parse().unwrap()));
        assert_eq!(container.waiting_reason.as_deref(), Some("CrashLoopBackOff"));
        assert_eq!(container.termination_message.as_deref(), Some("password ***"));
    }

    #[test]
    fn a_static_pod_without_a_ready_condition_is_not_ready_by_default() {
        let yaml = "containerStatuses:\n    - lastState: {}\n      name: a\n      ready: true\n      restartCount: 0\n      state:\n        running:\n            startedAt: \"2026-11-21T14:03:34Z\"\n";
        let status = static_pod_status(&Resource::literal("StaticPodStatuses", "kube-system/a-cp-1", yaml)).unwrap();
        assert_eq!((status.state.ready, status.state.containers[0].running), (None, true));
    }

    #[test]
    fn of_a_command_line_only_names_are_kept() {
        let yaml = "metadata:\n    name: kube-apiserver\nspec:\n    containers:\n        - command:\n            - /usr/local/bin/kube-apiserver\n            - --etcd-servers=https://user:hunter2@127.0.0.1:2379\n            - --feature-gates=AppArmor=true, kube:NodeSwap=False,Alone\n            - --runtime-config=api/all=false,networking.k8s.io/v1alpha1/ipaddresses=true\n            - --feature_gates\n            - Other=0\n            - --enable-admission-plugins=NodeRestriction,PodNodeSelector\n          args:\n            - --disable-admission-plugins\n            - --profiling\n            - -v=2\n";
        let found = component_flags(&Resource::literal("StaticPods", "kube-apiserver", yaml)).unwrap();
        assert_eq!(found.pod, "kube-apiserver");
        let gates: Vec<_> = found.gates.iter().map(|(gate, is_on)| (gate.as_str(), *is_on)).collect();
        assert_eq!(gates, [("AppArmor", true), ("NodeSwap", false), ("Alone", true), ("Other", false)]);
        assert_eq!(found.plugins, ["NodeRestriction", "PodNodeSelector"]);
        assert_eq!(found.apis, ["api/all", "networking.k8s.io/v1alpha1"]);
        assert_eq!(found.names.len(), 7);
        assert!(found.names.contains(&"etcd-servers".to_owned()) && !format!("{found:?}").contains("hunter2"));
        assert_eq!(component_flags(&Resource::literal("StaticPods", "mine", yaml)), None);
        assert_eq!(component_flags(&Resource::literal("StaticPods", "kube-scheduler", "metadata: {}\n")), None);
    }
}
