//! The resources that pods request and nodes provide, by the scheduler's rules, and the volumes that bind pods to nodes.

use std::collections::BTreeMap;

use super::gaps;
use super::lists::Kept;
use super::nodes::taints;
use super::wire::eviction::{self as wire, Affinity, Container, NodeSelector, NodeSelectorTerm, PodSpec, Resources};
use super::wire::meta::LabelSelectorRequirement;
use super::wire::{room, storage, volumes};
use crate::snapshot::{
    Amounts, AttachedVolume, CsiNode, Needs, NodeRoom, OWN_TAINTS, PersistentVolume, Placement, Requirement, Term,
    Toleration, VolumeAttachment,
};

pub(super) fn needs(mut spec: PodSpec) -> Needs {
    // Pods with negative priority are placeholders for future nodes: every pod without a priority of its own replaces them.
    let is_placeholder = spec.priority.is_some_and(|priority| priority < 0);
    let requests = if is_placeholder { Some(Amounts::new()) } else { requests(&spec) };
    let mut placement = placement(spec.node_selector.take(), spec.affinity.take(), spec.tolerations.take());
    placement.tolerations.retain(|it| !it.key.starts_with(OWN_TAINTS));
    Needs { requests, placement }
}

pub(super) fn placement(
    labels: Option<BTreeMap<String, String>>,
    affinity: Option<Affinity>,
    tolerations: Option<Vec<wire::Toleration>>,
) -> Placement {
    let toleration =
        |it: wire::Toleration| Toleration { key: it.key, operator: it.operator, value: it.value, effect: it.effect };
    let required = affinity.and_then(|it| it.node_affinity).and_then(|it| it.required);
    Placement {
        labels: labels.unwrap_or_default(),
        terms: required.map(terms),
        tolerations: tolerations.unwrap_or_default().into_iter().map(toleration).collect(),
    }
}

fn terms(selector: NodeSelector) -> Vec<Term> {
    let term = |it: NodeSelectorTerm| Term { labels: all(it.match_expressions), fields: all(it.match_fields) };
    selector.node_selector_terms.unwrap_or_default().into_iter().map(term).collect()
}

fn all(requirements: Option<Vec<LabelSelectorRequirement>>) -> Vec<Requirement> {
    let requirement = |it: LabelSelectorRequirement| Requirement {
        key: it.key,
        operator: it.operator,
        values: it.values.unwrap_or_default(),
    };
    requirements.unwrap_or_default().into_iter().map(requirement).collect()
}

/// Returns the requests of a pod: those of all containers together, or of the most demanding of the init containers that run before them,
/// overridden by the requests of the pod as a whole, plus the overhead of the sandbox.
fn requests(spec: &PodSpec) -> Option<Amounts> {
    let mut running = Amounts::new();
    let mut most = Amounts::new();
    for container in spec.init_containers.iter().flatten() {
        let own = of(container)?;
        // A sidecar keeps running.
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut running, &own);
        }
        let mut at_once = running.clone();
        if container.restart_policy.as_deref() != Some("Always") {
            add(&mut at_once, &own);
        }
        raise(&mut most, at_once);
    }
    for container in spec.containers.iter().flatten() {
        add(&mut running, &of(container)?);
    }
    raise(&mut most, running);
    most.extend(amounts(spec.resources.as_ref().and_then(|it| it.requests.as_ref()))?);
    add(&mut most, &amounts(spec.overhead.as_ref())?);
    most.insert("pods".to_owned(), 1);
    Some(most)
}

fn of(container: &Container) -> Option<Amounts> {
    amounts(container.resources.as_ref().and_then(|it: &Resources| it.requests.as_ref()))
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        let sum = sum.entry(resource.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

fn raise(most: &mut Amounts, other: Amounts) {
    for (resource, amount) in other {
        let most = most.entry(resource).or_default();
        *most = amount.max(*most);
    }
}

/// Parses quantities. `None` if one of them is unreadable.
fn amounts(quantities: Option<&BTreeMap<String, String>>) -> Option<Amounts> {
    let quantities = quantities.into_iter().flatten();
    quantities.map(|(resource, quantity)| Some((resource.clone(), amount(resource, quantity)?))).collect()
}

/// The resources without which no pod fits on a node.
const VITAL: [&str; 3] = ["cpu", "memory", "pods"];

/// Returns the vital resources that a node lacks. A node that reports nothing counts as lacking none, and an unreadable quantity as not
/// zero.
pub(super) fn out_of(allocatable: Option<&BTreeMap<String, String>>) -> Vec<String> {
    let Some(allocatable) = allocatable.filter(|it| !it.is_empty()) else { return Vec::new() };
    let has = |resource: &str| allocatable.get(resource).is_some_and(|it| amount(resource, it) != Some(0));
    VITAL.into_iter().filter(|it| !has(it)).map(str::to_owned).collect()
}

/// Parses a quantity as Kubernetes' scheduler does: `cpu` in thousandths, others in whole units, rounded up.
fn amount(resource: &str, quantity: &str) -> Option<u64> {
    let end = quantity.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(quantity.len());
    let (number, suffix) = quantity.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let decimals = u32::try_from(fraction.len()).ok()?;
    let binary = |exponent: u32| Some((1024_u128.checked_pow(exponent)?, 0));
    let (factor, exponent) = match suffix {
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "" => (1, 0),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => binary(1)?,
        "Mi" => binary(2)?,
        "Gi" => binary(3)?,
        "Ti" => binary(4)?,
        "Pi" => binary(5)?,
        "Ei" => binary(6)?,
        _ => (1, suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?),
    };
    let exponent = if resource == "cpu" { exponent.checked_add(3)? } else { exponent };
    let up = 10_u128.checked_pow(u32::try_from(exponent.max(0)).ok()?)?;
    let down = 10_u128.checked_pow(exponent.min(0).unsigned_abs().checked_add(decimals)?)?;
    u64::try_from(digits.checked_mul(factor)?.checked_mul(up)?.div_ceil(down)).ok()
}

impl Kept for NodeRoom {
    type Object = room::Node;

    fn of(node: room::Node) -> Self {
        let spec = node.spec.unwrap_or_default();
        Self {
            deleting: node.metadata.deletion_timestamp.is_some(),
            name: node.metadata.name.unwrap_or_default(),
            labels: node.metadata.labels.unwrap_or_default(),
            taints: taints(spec.taints),
            unschedulable: spec.unschedulable.unwrap_or_default(),
            allocatable: amounts(node.status.unwrap_or_default().allocatable.as_ref()),
        }
    }
}

impl Kept for AttachedVolume {
    type Object = storage::VolumeAttachment;

    fn of(attachment: storage::VolumeAttachment) -> Self {
        let spec = attachment.spec.unwrap_or_default();
        Self {
            node: spec.node_name,
            driver: spec.attacher,
            volume: spec.source.and_then(|source| source.persistent_volume_name).unwrap_or_default(),
            attached: attachment.status.is_some_and(|status| status.attached),
        }
    }
}

impl Kept for CsiNode {
    type Object = storage::CSINode;

    fn of(node: storage::CSINode) -> Self {
        let drivers = node.spec.and_then(|spec| spec.drivers).unwrap_or_default();
        Self {
            name: node.metadata.name.unwrap_or_default(),
            drivers: drivers.into_iter().map(|driver| driver.name).collect(),
        }
    }
}

impl Kept for VolumeAttachment {
    type Object = storage::VolumeAttachment;

    fn of(attachment: storage::VolumeAttachment) -> Self {
        let (spec, status) = (attachment.spec.unwrap_or_default(), attachment.status.unwrap_or_default());
        let error = status.detach_error.map(|error| error.message.unwrap_or_default());
        Self {
            name: attachment.metadata.name.unwrap_or_default(),
            node: spec.node_name,
            volume: spec.source.and_then(|source| source.persistent_volume_name).unwrap_or_default(),
            detach_error: error.map(|message| gaps::short(&message)),
        }
    }
}

impl Kept for PersistentVolume {
    type Object = volumes::PersistentVolume;

    const MOST: usize = 150_000;

    fn of(volume: volumes::PersistentVolume) -> Self {
        let spec = volume.spec.unwrap_or_default();
        // A released volume keeps the name of its former claim.
        let is_bound = volume.status.and_then(|status| status.phase).is_none_or(|phase| phase == "Bound");
        let claim = spec.claim_ref.filter(|_| is_bound);
        let claim = claim.map(|it| (it.namespace.unwrap_or_default(), it.name.unwrap_or_default()));
        Self { claim, terms: spec.node_affinity.and_then(|it| it.required).map(terms) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn quantities_are_those_of_kubernetes() {
        for (resource, quantity, expected) in [
            ("cpu", "100m", 100),
            ("cpu", "2", 2000),
            ("cpu", "0.5", 500),
            ("cpu", "1500u", 2),
            ("cpu", "0", 0),
            ("memory", "128Mi", 128 << 20),
            ("memory", "1.5Gi", 3 << 29),
            ("memory", "1e3", 1000),
            ("memory", "12E2", 1200),
            ("memory", "1E", 1_000_000_000_000_000_000),
            ("memory", "100m", 1),
            ("memory", ".5k", 500),
            ("pods", "110", 110),
            ("nvidia.com/gpu", "4", 4),
        ] {
            assert_eq!(amount(resource, quantity), Some(expected), "{resource} {quantity}");
        }
        for quantity in
            ["", "x", "Mi", ".", "1.2.3", "-1", "1e", "1Mib", "99999999999999999999E", "1e99", "1e-999999999999"]
        {
            assert_eq!(amount("memory", quantity), None, "{quantity}");
        }
    }

    fn asked(spec: Value) -> Needs {
        needs(serde_json::from_value(spec).unwrap())
    }

    fn container(cpu: &str) -> Value {
        json!({"resources": {"requests": {"cpu": cpu}}})
    }

    fn sidecar(cpu: &str) -> Value {
        json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn a_pod_requests_what_the_scheduler_counts() {
        let cpu = |spec: Value| asked(spec).requests.unwrap().get("cpu").copied();
        assert_eq!(cpu(json!({"containers": [{}]})), None);
        assert_eq!(cpu(json!({"containers": [container("1"), container("500m"), {}]})), Some(1500));
        let init = |init: Value| json!({"containers": [container("1")], "initContainers": init});
        assert_eq!(cpu(init(json!([container("3"), container("2")]))), Some(3000));
        assert_eq!(cpu(init(json!([sidecar("1"), container("3")]))), Some(4000), "it runs beside what comes later");
        assert_eq!(cpu(init(json!([container("3"), sidecar("1")]))), Some(3000));
        assert_eq!(cpu(init(json!([sidecar("1")]))), Some(2000));
        let whole = json!({"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "250m"}});
        assert_eq!(cpu(whole), Some(4250));
        assert_eq!(asked(json!({})).requests, Some(Amounts::from([("pods".to_owned(), 1)])));
        assert_eq!(asked(json!({"containers": [container("much")]})).requests, None);
        // The pod exists to be replaced.
        let placeholder = json!({"containers": [container("2")], "priority": -10});
        assert_eq!(asked(placeholder).requests, Some(Amounts::new()));
    }

    #[test]
    fn where_it_may_be_is_read_as_far_as_nodes_decide() {
        let asked = asked(json!({
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
                {"operator": "Exists"},
            ],
            "affinity": {"nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [],
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["w-1"]}]},
                ]},
            }},
        }));
        let Placement { labels, terms, tolerations } = asked.placement;
        assert_eq!(labels["disk"], "ssd");
        let [first, second] = &terms.unwrap()[..] else { panic!() };
        assert_eq!((first.labels.len(), first.fields.len(), second.labels.len(), second.fields.len()), (1, 0, 0, 1));
        assert_eq!(tolerations.iter().map(|it| it.key.as_str()).collect::<Vec<_>>(), ["gpu", ""]);
        assert_eq!(needs(PodSpec::default()).placement.terms, None);
    }

    #[test]
    fn nodes_and_volumes_keep_what_counts() {
        let node: room::Node = serde_json::from_value(json!({
            "metadata": {"name": "w-1", "labels": {"zone": "a"}},
            "spec": {"unschedulable": true, "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "3950m", "memory": "1Gi", "pods": "110"}},
        }))
        .unwrap();
        let node = NodeRoom::of(node);
        assert!(node.unschedulable && node.taints[0].value == "yes" && node.labels["zone"] == "a");
        assert_eq!(node.allocatable.unwrap()["cpu"], 3950);
        let attachment: storage::VolumeAttachment = serde_json::from_value(json!({
            "metadata": {"name": "csi-1"},
            "spec": {"attacher": "csi.example", "nodeName": "w-1", "source": {"persistentVolumeName": "pv-1"}},
            "status": {"attached": true, "detachError": {"message": "the volume is busy\nvery", "time": null}},
        }))
        .unwrap();
        let attachment = VolumeAttachment::of(attachment);
        assert_eq!((attachment.node.as_str(), attachment.volume.as_str()), ("w-1", "pv-1"));
        assert_eq!(attachment.detach_error.as_deref(), Some("the volume is busy"));
        let volume = |spec: Value| {
            PersistentVolume::of(serde_json::from_value(json!({"metadata": {"name": "pv"}, "spec": spec})).unwrap())
        };
        let claim = json!({"namespace": "data", "name": "db-0"});
        let here = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["w-1"]});
        let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}});
        let local = volume(json!({"claimRef": claim, "local": {"path": "/x"}, "nodeAffinity": affinity}));
        assert_eq!(local.claim, Some(("data".to_owned(), "db-0".to_owned())));
        assert_eq!(local.terms.unwrap()[0].labels[0].values, ["w-1"]);
        assert_eq!(volume(json!({"csi": {}, "nodeAffinity": {}})).terms, None);
        assert_eq!(volume(json!({"hostPath": {}})).terms, None);
        for (phase, is_bound) in [("Bound", true), ("Released", false), ("Available", false), ("Failed", false)] {
            let volume = json!({"metadata": {"name": "pv"}, "spec": {"claimRef": claim}, "status": {"phase": phase}});
            let volume = PersistentVolume::of(serde_json::from_value(volume).unwrap());
            assert_eq!(volume.claim.is_some(), is_bound, "{phase}");
        }
    }
}
