//! Kubernetes' objects as they are parsed: only the fields that facts are made of, with limits on the lists within them.
//!
//! k8s-openapi's types have all fields, so an empty container, three bytes on the wire, takes a thousand in memory. Names and paths of the
//! kinds still come from k8s-openapi. As in that crate, an absent or `null` field has Go's zero value.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Limit for the elements of one list within an object. etcd stores no object of more than 1.5 MiB, and no real list is a tenth as long.
const OF_ONE: usize = 1000;
/// Limit for the elements of a page, its objects included. Five hundred nodes have some forty thousand.
const OF_ALL: usize = 100_000;
/// The error text for exceeding the limits.
pub(super) const TOO_MANY: &str = "more elements than are read";

thread_local! {
    /// The elements that the page parsed by this thread may still have.
    static LEFT: Cell<usize> = const { Cell::new(OF_ALL) };
}

/// Parses one page.
pub(super) fn page<T: DeserializeOwned>(body: &[u8]) -> serde_json::Result<T> {
    LEFT.set(OF_ALL);
    serde_json::from_slice(body)
}

struct Count(usize);

impl Count {
    fn element<E: Error>(&mut self) -> Result<(), E> {
        let left = (self.0.checked_sub(1)).zip(LEFT.get().checked_sub(1));
        let (of_one, of_all) = left.ok_or_else(|| E::custom(TOO_MANY))?;
        self.0 = of_one;
        LEFT.set(of_all);
        Ok(())
    }
}

/// A bounded list, or mapping of names.
struct Few<C> {
    most: usize,
    of: PhantomData<C>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Few<Vec<T>> {
    type Value = Option<Vec<T>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let (mut list, mut count) = (Vec::new(), Count(self.most));
        while let Some(element) = elements.next_element()? {
            count.element()?;
            list.push(element);
        }
        Ok(Some(list))
    }
}

impl<'de> Visitor<'de> for Few<BTreeMap<String, String>> {
    type Value = Option<BTreeMap<String, String>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let (mut map, mut count) = (BTreeMap::new(), Count(self.most));
        while let Some((key, value)) = entries.next_entry::<_, Option<String>>()? {
            count.element()?;
            map.insert(key, value.unwrap_or_default());
        }
        Ok(Some(map))
    }
}

fn bounded_list<'de, D: Deserializer<'de>, C>(deserializer: D) -> Result<Option<C>, D::Error>
where
    Few<C>: Visitor<'de, Value = Option<C>>,
{
    deserializer.deserialize_any(Few { most: OF_ONE, of: PhantomData })
}

/// Parses the objects of a page. The field is required and may be `null`, which is Go's empty list.
pub(super) fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let list = deserializer.deserialize_any(Few { most: OF_ALL, of: PhantomData::<Vec<T>> })?;
    Ok(list.unwrap_or_default())
}

fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn list_or_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(bounded_list::<D, Vec<T>>(deserializer)?.unwrap_or_default())
}

/// Parses a list that is present; `null`, Go's empty list, counts as present.
fn told<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Vec<T>>, D::Error> {
    Ok(Some(list_or_empty(deserializer)?))
}

/// Defines structs for a part of Kubernetes' API. Lists and mappings are declared separately because their elements are counted.
macro_rules! structs {
    ($($name:ident {
        $($(#[$attribute:meta])* $field:ident: $type:ty,)*
        $(; bounded_list { $($(#[$marked:meta])* $many:ident: $of:ty,)* })?
    })*) => {$(
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        #[allow(clippy::struct_field_names, reason = "the names are Kubernetes'")]
        pub(in super::super) struct $name {
            $($(#[$attribute])* #[serde(deserialize_with = "or_default")] pub(in super::super) $field: $type,)*
            $($($(#[$marked])* #[serde(deserialize_with = "bounded_list")] pub(in super::super) $many: Option<$of>,)*)?
        }
    )*};
}

/// A top-level object, with its k8s-openapi kind.
pub(super) trait Object: DeserializeOwned {
    type Kind: kube::Resource<DynamicType = ()> + k8s_openapi::ListableResource;

    fn metadata(&self) -> &meta::ObjectMeta;
}

macro_rules! objects {
    ($($part:ident)::+: $($name:ident),*) => {
        use $($part)::+ as kinds;
        $(impl super::Object for $name {
            type Kind = kinds::$name;

            fn metadata(&self) -> &super::meta::ObjectMeta {
                &self.metadata
            }
        })*
    };
}

pub(super) mod meta {
    use super::{BTreeMap, Deserialize, bounded_list, or_default};
    pub(in super::super) use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};

    pub(in super::super) type Names = BTreeMap<String, String>;

    structs! {
        ObjectMeta {
            name: Option<String>,
            namespace: Option<String>,
            uid: Option<String>,
            generation: Option<i64>,
            resource_version: Option<String>,
            creation_timestamp: Option<Time>,
            deletion_timestamp: Option<Time>,
            ; bounded_list {
                labels: Names,
                annotations: Names,
                managed_fields: Vec<ManagedFieldsEntry>,
                owner_references: Vec<OwnerReference>,
            }
        }
        OwnerReference { api_version: String, kind: String, name: String, controller: Option<bool>, }
        ManagedFieldsEntry { time: Option<Time>, subresource: String, }
        LabelSelector { ; bounded_list { match_labels: Names, match_expressions: Vec<LabelSelectorRequirement>, } }
        LabelSelectorRequirement { key: String, operator: String, ; bounded_list { values: Vec<String>, } }
    }
}

pub(super) mod core {
    use super::meta::{MicroTime, Names, ObjectMeta, Time};
    use super::{Deserialize, bounded_list, or_default};

    objects!(k8s_openapi::api::core::v1: Node, Pod, Event);

    structs! {
        Node { metadata: ObjectMeta, spec: Option<NodeSpec>, status: Option<NodeStatus>, }
        NodeSpec { unschedulable: Option<bool>, #[serde(rename = "podCIDR")] pod_cidr: String, ; bounded_list { #[serde(rename = "podCIDRs")] pod_cidrs: Vec<String>, taints: Vec<Taint>, } }
        Taint { key: String, value: Option<String>, effect: String, time_added: Option<Time>, }
        NodeStatus {
            node_info: Option<NodeSystemInfo>,
            ; bounded_list { addresses: Vec<NodeAddress>, conditions: Vec<NodeCondition>, allocatable: Names, }
        }
        NodeAddress { type_: String, address: String, }
        NodeCondition {
            type_: String,
            status: String,
            reason: Option<String>,
            message: Option<String>,
            last_transition_time: Option<Time>,
        }
        NodeSystemInfo {
            #[serde(rename = "machineID")]
            machine_id: String,
            #[serde(rename = "bootID")]
            boot_id: String,
            os_image: String,
            kernel_version: String,
            kubelet_version: String,
        }

        Pod { metadata: ObjectMeta, spec: Option<PodSpec>, status: Option<PodStatus>, }
        PodSpec {
            node_name: Option<String>,
            host_network: Option<bool>,
            scheduler_name: Option<String>,
            ; bounded_list {
                containers: Vec<Container>,
                init_containers: Vec<Container>,
                volumes: Vec<Volume>,
                scheduling_gates: Vec<Present>,
                resource_claims: Vec<Present>,
            }
        }
        Container { name: String, image: Option<String>, ; bounded_list { command: Vec<String>, args: Vec<String>, } }
        Volume {
            projected: Option<ProjectedVolumeSource>,
            empty_dir: Option<Present>,
            persistent_volume_claim: Option<PersistentVolumeClaimSource>,
            secret: Option<Present>,
            config_map: Option<Present>,
            host_path: Option<Present>,
            image: Option<Present>,
            #[serde(rename = "downwardAPI")]
            downward_api: Option<Present>,
        }
        PersistentVolumeClaimSource { claim_name: String, }
        ProjectedVolumeSource { ; bounded_list { sources: Vec<VolumeProjection>, } }
        VolumeProjection {
            config_map: Option<ConfigMapProjection>,
            service_account_token: Option<Present>,
            #[serde(rename = "downwardAPI")]
            downward_api: Option<Present>,
        }
        ConfigMapProjection { name: String, }
        // Only the presence of this field counts.
        Present {}
        PodStatus {
            phase: Option<String>,
            message: Option<String>,
            reason: Option<String>,
            #[serde(rename = "podIP")]
            pod_ip: Option<String>,
            start_time: Option<Time>,
            ; bounded_list {
                #[serde(rename = "podIPs")]
                pod_ips: Vec<PodIp>,
                conditions: Vec<PodCondition>,
                container_statuses: Vec<ContainerStatus>,
                init_container_statuses: Vec<ContainerStatus>,
            }
        }
        PodIp { ip: String, }
        PodCondition { type_: String, status: String, reason: Option<String>, message: Option<String>, last_transition_time: Option<Time>, }
        ContainerStatus {
            name: String,
            image: String,
            ready: bool,
            restart_count: i32,
            state: Option<ContainerState>,
            last_state: Option<ContainerState>,
        }
        ContainerState {
            running: Option<ContainerStateRunning>,
            waiting: Option<ContainerStateWaiting>,
            terminated: Option<ContainerStateTerminated>,
        }
        ContainerStateRunning { started_at: Option<Time>, }
        ContainerStateWaiting { reason: Option<String>, message: Option<String>, }
        ContainerStateTerminated {
            exit_code: i32,
            started_at: Option<Time>,
            finished_at: Option<Time>,
            reason: Option<String>,
            message: Option<String>,
        }

        Event {
            metadata: ObjectMeta,
            involved_object: ObjectReference,
            reason: Option<String>,
            message: Option<String>,
            event_time: Option<MicroTime>,
            last_timestamp: Option<Time>,
            series: Option<EventSeries>,
            reporting_component: Option<String>,
            source: Option<EventSource>,
        }
        EventSource { component: Option<String>, }
        ObjectReference {
            kind: Option<String>,
            namespace: Option<String>,
            name: Option<String>,
            uid: Option<String>,
        }
        EventSeries { last_observed_time: Option<MicroTime>, }
    }
}

/// The fields that matter for a drain. Pods have fewer fields here than elsewhere, because all pods of the cluster are read.
pub(super) mod eviction {
    use super::core::{PodCondition, Volume};
    use super::meta::{LabelSelectorRequirement, ObjectMeta};
    use super::{BTreeMap, Deserialize, bounded_list, or_default};

    objects!(k8s_openapi::api::core::v1: Pod);

    type Quantities = BTreeMap<String, String>;

    structs! {
        Pod { metadata: ObjectMeta, spec: Option<PodSpec>, status: Option<PodStatus>, }
        PodSpec {
            node_name: Option<String>,
            termination_grace_period_seconds: Option<u64>,
            priority: Option<i32>,
            resources: Option<Resources>,
            affinity: Option<Affinity>,
            ; bounded_list {
                volumes: Vec<Volume>,
                containers: Vec<Container>,
                init_containers: Vec<Container>,
                overhead: Quantities,
                node_selector: BTreeMap<String, String>,
                tolerations: Vec<Toleration>,
            }
        }
        Container { resources: Option<Resources>, restart_policy: Option<String>, }
        Resources { ; bounded_list { requests: Quantities, } }
        Affinity { node_affinity: Option<NodeAffinity>, }
        NodeAffinity {
            #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
            required: Option<NodeSelector>,
        }
        NodeSelector { ; bounded_list { node_selector_terms: Vec<NodeSelectorTerm>, } }
        NodeSelectorTerm {
            ; bounded_list { match_expressions: Vec<LabelSelectorRequirement>, match_fields: Vec<LabelSelectorRequirement>, }
        }
        Toleration { key: String, operator: String, value: String, effect: String, }
        PodStatus { phase: Option<String>, ; bounded_list { conditions: Vec<PodCondition>, } }
    }
}

/// The fields that the scheduler considers.
pub(super) mod room {
    use super::core::NodeSpec;
    use super::meta::ObjectMeta;
    use super::{BTreeMap, Deserialize, bounded_list, or_default};

    objects!(k8s_openapi::api::core::v1: Node);

    structs! {
        Node { metadata: ObjectMeta, spec: Option<NodeSpec>, status: Option<NodeStatus>, }
        NodeStatus { ; bounded_list { allocatable: BTreeMap<String, String>, } }
    }
}

pub(super) mod volumes {
    use super::meta::ObjectMeta;
    use super::{Deserialize, or_default};

    objects!(k8s_openapi::api::core::v1: PersistentVolume);

    structs! {
        PersistentVolume {
            metadata: ObjectMeta,
            spec: Option<PersistentVolumeSpec>,
            status: Option<PersistentVolumeStatus>,
        }
        PersistentVolumeStatus { phase: Option<String>, }
        PersistentVolumeSpec {
            claim_ref: Option<super::core::ObjectReference>,
            node_affinity: Option<VolumeNodeAffinity>,
        }
        VolumeNodeAffinity { required: Option<super::eviction::NodeSelector>, }
    }
}

pub(super) mod storage {
    use super::meta::ObjectMeta;
    use super::{Deserialize, bounded_list, or_default};

    objects!(k8s_openapi::api::storage::v1: CSINode, VolumeAttachment);

    structs! {
        VolumeAttachment {
            metadata: ObjectMeta,
            spec: Option<VolumeAttachmentSpec>,
            status: Option<VolumeAttachmentStatus>,
        }
        VolumeAttachmentSpec { attacher: String, node_name: String, source: Option<VolumeAttachmentSource>, }
        VolumeAttachmentSource { persistent_volume_name: Option<String>, }
        VolumeAttachmentStatus { attached: bool, detach_error: Option<VolumeError>, }
        VolumeError { message: Option<String>, }
        CSINode { metadata: ObjectMeta, spec: Option<CSINodeSpec>, }
        CSINodeSpec { ; bounded_list { drivers: Vec<CSINodeDriver>, } }
        CSINodeDriver { name: String, }
    }
}

pub(super) mod policy {
    use super::meta::{LabelSelector, ObjectMeta};
    use super::{Deserialize, bounded_list, or_default};

    objects!(k8s_openapi::api::policy::v1: PodDisruptionBudget);

    structs! {
        PodDisruptionBudget {
            metadata: ObjectMeta,
            spec: Option<PodDisruptionBudgetSpec>,
            status: Option<PodDisruptionBudgetStatus>,
        }
        PodDisruptionBudgetSpec {
            selector: Option<LabelSelector>,
            unhealthy_pod_eviction_policy: Option<String>,
        }
        PodDisruptionBudgetStatus {
            observed_generation: Option<i64>,
            disruptions_allowed: i32,
            current_healthy: i32,
            desired_healthy: i32,
            ; bounded_list { conditions: Vec<Condition>, }
        }
        Condition { type_: String, status: String, reason: String, message: String, }
    }
}

pub(super) mod apps {
    use super::core::Container;
    use super::eviction::{Affinity, Toleration};
    use super::meta::{Names, ObjectMeta};
    use super::{Deserialize, bounded_list, or_default};
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

    objects!(k8s_openapi::api::apps::v1: DaemonSet, Deployment, StatefulSet);

    structs! {
        DaemonSet { metadata: ObjectMeta, spec: Option<DaemonSetSpec>, status: Option<DaemonSetStatus>, }
        DaemonSetSpec { template: PodTemplate, update_strategy: UpdateStrategy, }
        PodTemplate { spec: Option<PodTemplateSpec>, }
        PodTemplateSpec {
            host_network: Option<bool>,
            priority_class_name: Option<String>,
            affinity: Option<Affinity>,
            ; bounded_list {
                containers: Vec<Container>,
                volumes: Vec<HostVolume>,
                node_selector: Names,
                tolerations: Vec<Toleration>,
            }
        }
        HostVolume { host_path: Option<HostPath>, }
        HostPath { path: String, }
        DaemonSetStatus {
            observed_generation: Option<i64>,
            desired_number_scheduled: i32,
            number_available: Option<i32>,
            updated_number_scheduled: Option<i32>,
        }
        UpdateStrategy { type_: Option<String>, rolling_update: Option<RollingUpdate>, }
        RollingUpdate { partition: Option<i32>, max_unavailable: Option<IntOrString>, }
        Deployment { metadata: ObjectMeta, spec: Option<Spec>, status: Option<DeploymentStatus>, }
        Spec { replicas: Option<i32>, template: RankedTemplate, }
        RankedTemplate { spec: Option<RankedSpec>, }
        RankedSpec { priority_class_name: Option<String>, }
        DeploymentStatus {
            observed_generation: Option<i64>,
            replicas: Option<i32>,
            available_replicas: Option<i32>,
            updated_replicas: Option<i32>,
            ; bounded_list { conditions: Vec<DeploymentCondition>, }
        }
        DeploymentCondition { type_: String, status: String, reason: Option<String>, message: Option<String>, }
        StatefulSet { metadata: ObjectMeta, spec: Option<StatefulSetSpec>, status: Option<StatefulSetStatus>, }
        StatefulSetSpec { replicas: Option<i32>, template: RankedTemplate, update_strategy: UpdateStrategy, }
        StatefulSetStatus {
            observed_generation: Option<i64>,
            available_replicas: Option<i32>,
            updated_replicas: Option<i32>,
            current_revision: Option<String>,
            update_revision: Option<String>,
        }
    }
}

pub(super) mod coordination {
    use super::meta::{MicroTime, ObjectMeta};
    use super::{Deserialize, or_default};

    objects!(k8s_openapi::api::coordination::v1: Lease);

    structs! {
        Lease { metadata: ObjectMeta, spec: Option<LeaseSpec>, }
        LeaseSpec {
            holder_identity: Option<String>,
            lease_duration_seconds: Option<i32>,
            renew_time: Option<MicroTime>,
        }
    }
}

pub(super) mod certificates {
    use super::meta::ObjectMeta;
    use super::{Deserialize, bounded_list, or_default};

    objects!(k8s_openapi::api::certificates::v1: CertificateSigningRequest);

    structs! {
        CertificateSigningRequest {
            metadata: ObjectMeta,
            spec: CertificateSigningRequestSpec,
            status: Option<CertificateSigningRequestStatus>,
        }
        CertificateSigningRequestSpec { request: Option<String>, signer_name: String, username: Option<String>, }
        CertificateSigningRequestStatus { certificate: Option<String>, ; bounded_list { conditions: Vec<Condition>, } }
        Condition { type_: String, }
    }
}

pub(super) mod discovery {
    use super::meta::ObjectMeta;
    use super::{Deserialize, list_or_empty, or_default, told};

    objects!(k8s_openapi::api::discovery::v1: EndpointSlice);

    #[derive(Clone, Debug, Default, Deserialize)]
    #[serde(default)]
    pub(in super::super) struct EndpointSlice {
        #[serde(deserialize_with = "or_default")]
        pub(in super::super) metadata: ObjectMeta,
        #[serde(deserialize_with = "list_or_empty")]
        pub(in super::super) endpoints: Vec<Endpoint>,
        #[serde(deserialize_with = "told")]
        pub(in super::super) ports: Option<Vec<EndpointPort>>,
    }

    #[derive(Clone, Debug, Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    pub(in super::super) struct Endpoint {
        #[serde(deserialize_with = "list_or_empty")]
        pub(in super::super) addresses: Vec<String>,
        pub(in super::super) conditions: Option<EndpointConditions>,
        pub(in super::super) node_name: Option<String>,
        pub(in super::super) target_ref: Option<super::core::ObjectReference>,
    }

    structs! {
        EndpointConditions { ready: Option<bool>, terminating: Option<bool>, }
        EndpointPort { name: Option<String>, port: Option<i32>, protocol: Option<String>, }
    }
}

pub(super) mod admission {
    use super::meta::{LabelSelector, ObjectMeta};
    use super::{Deserialize, bounded_list, or_default};

    objects!(
        k8s_openapi::api::admissionregistration::v1: ValidatingWebhookConfiguration, MutatingWebhookConfiguration
    );

    structs! {
        ValidatingWebhookConfiguration { metadata: ObjectMeta, ; bounded_list { webhooks: Vec<Webhook>, } }
        MutatingWebhookConfiguration { metadata: ObjectMeta, ; bounded_list { webhooks: Vec<Webhook>, } }
        Webhook {
            name: String,
            failure_policy: Option<String>,
            match_policy: Option<String>,
            client_config: WebhookClientConfig,
            namespace_selector: Option<LabelSelector>,
            object_selector: Option<LabelSelector>,
            ; bounded_list { rules: Vec<RuleWithOperations>, match_conditions: Vec<super::core::Present>, }
        }
        WebhookClientConfig { service: Option<ServiceReference>, }
        ServiceReference { namespace: String, name: String, }
        RuleWithOperations {
            scope: Option<String>,
            ; bounded_list { api_groups: Vec<String>, api_versions: Vec<String>, resources: Vec<String>, operations: Vec<String>, }
        }
    }
}

/// Definitions consist mostly of schemas, none of which are kept.
pub(super) mod definition {
    use super::meta::ObjectMeta;
    use super::{Deserialize, or_default};

    objects!(k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1: CustomResourceDefinition);

    structs! {
        CustomResourceDefinition { metadata: ObjectMeta, spec: Option<CustomResourceDefinitionSpec>, }
        CustomResourceDefinitionSpec { conversion: Option<CustomResourceConversion>, }
        CustomResourceConversion { strategy: String, webhook: Option<WebhookConversion>, }
        WebhookConversion { client_config: super::admission::WebhookClientConfig, }
    }
}

pub(super) mod aggregation {
    use super::core::NodeCondition;
    use super::meta::ObjectMeta;
    use super::{Deserialize, bounded_list, or_default};

    objects!(k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1: APIService);

    structs! {
        APIService { metadata: ObjectMeta, spec: Option<APIServiceSpec>, status: Option<APIServiceStatus>, }
        APIServiceSpec { service: Option<ServiceReference>, }
        ServiceReference { namespace: Option<String>, name: Option<String>, }
        APIServiceStatus { ; bounded_list { conditions: Vec<NodeCondition>, } }
    }
}
