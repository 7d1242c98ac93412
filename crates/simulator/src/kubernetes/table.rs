//! `meta.k8s.io/v1` Table: objects as `kubectl get` prints them.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::kinds::ResourceType;

/// A column: its name, its type, and whether only `-o wide` shows it.
type Column = (&'static str, &'static str, bool);

/// The table of a resource.
struct Layout {
    /// Columns after the name.
    columns: &'static [Column],
    cells: fn(&Value, Timestamp) -> Vec<Value>,
}

const AGE: Column = ("Age", "string", false);
const NAMES: Column = ("Containers", "string", true);
const IMAGES: Column = ("Images", "string", true);
const SELECTOR: Column = ("Selector", "string", true);

const NODES: Layout = Layout {
    columns: &[
        ("Status", "string", false),
        ("Roles", "string", false),
        AGE,
        ("Version", "string", false),
        ("Internal-IP", "string", true),
        ("External-IP", "string", true),
        ("OS-Image", "string", true),
        ("Kernel-Version", "string", true),
        ("Container-Runtime", "string", true),
    ],
    cells: node,
};

const PODS: Layout = Layout {
    columns: &[
        ("Ready", "string", false),
        ("Status", "string", false),
        ("Restarts", "string", false),
        AGE,
        ("IP", "string", true),
        ("Node", "string", true),
        ("Nominated Node", "string", true),
        ("Readiness Gates", "string", true),
    ],
    cells: super::pod_table::pod,
};

const DAEMON_SETS: Layout = Layout {
    columns: &[
        ("Desired", "integer", false),
        ("Current", "integer", false),
        ("Ready", "integer", false),
        ("Up-to-date", "integer", false),
        ("Available", "integer", false),
        ("Node Selector", "string", false),
        AGE,
        NAMES,
        IMAGES,
        SELECTOR,
    ],
    cells: daemon_set,
};

const DEPLOYMENTS: Layout = Layout {
    columns: &[
        ("Ready", "string", false),
        ("Up-to-date", "string", false),
        ("Available", "string", false),
        AGE,
        NAMES,
        IMAGES,
        SELECTOR,
    ],
    cells: deployment,
};

const REPLICA_SETS: Layout = Layout {
    columns: &[
        ("Desired", "integer", false),
        ("Current", "integer", false),
        ("Ready", "integer", false),
        AGE,
        NAMES,
        IMAGES,
        SELECTOR,
    ],
    cells: replica_set,
};

const SERVICES: Layout = Layout {
    columns: &[
        ("Type", "string", false),
        ("Cluster-IP", "string", false),
        ("External-IP", "string", false),
        ("Port(s)", "string", false),
        AGE,
        SELECTOR,
    ],
    cells: service,
};

const ENDPOINT_SLICES: Layout = Layout {
    columns: &[("AddressType", "string", false), ("Ports", "string", false), ("Endpoints", "string", false), AGE],
    cells: endpoint_slice,
};

const LEASES: Layout = Layout {
    columns: &[("Holder", "string", false), AGE],
    cells: |it, now| vec![it["spec"]["holderIdentity"].clone(), age(it, now)],
};

const NAMESPACES: Layout = Layout {
    columns: &[("Status", "string", false), AGE],
    cells: |it, now| vec![it["status"]["phase"].clone(), age(it, now)],
};

const SIGNING_REQUESTS: Layout = Layout {
    columns: &[
        AGE,
        ("SignerName", "string", false),
        ("Requestor", "string", false),
        ("RequestedDuration", "string", false),
        ("Condition", "string", false),
    ],
    cells: signing_request,
};

/// The table of resources without columns of their own.
const OTHERS: Layout = Layout { columns: &[AGE], cells: |it, now| vec![age(it, now)] };

fn layout(plural: &str) -> &'static Layout {
    match plural {
        "nodes" => &NODES,
        "pods" => &PODS,
        "daemonsets" => &DAEMON_SETS,
        "deployments" => &DEPLOYMENTS,
        "replicasets" => &REPLICA_SETS,
        "services" => &SERVICES,
        "endpointslices" => &ENDPOINT_SLICES,
        "leases" => &LEASES,
        "namespaces" => &NAMESPACES,
        "certificatesigningrequests" => &SIGNING_REQUESTS,
        _ => &OTHERS,
    }
}

/// Formats objects as a table; `metadata` is that of the list, or of the single object.
pub(super) fn table<'a>(
    kind: &ResourceType,
    metadata: &Value,
    objects: impl Iterator<Item = Cow<'a, Value>>,
    now: Timestamp,
) -> Value {
    let layout = layout(kind.plural);
    let column = |(name, kind, wide): &Column| {
        let format = if *name == "Name" { "name" } else { "" };
        json!({"name": name, "type": kind, "format": format, "description": "", "priority": u8::from(*wide)})
    };
    let columns: Vec<Value> = [("Name", "string", false)].iter().chain(layout.columns).map(column).collect();
    let row = |object: Cow<'a, Value>| {
        let mut cells = vec![object["metadata"]["name"].clone()];
        cells.extend((layout.cells)(&object, now));
        json!({"cells": cells, "object": partial(&object)})
    };
    let rows: Vec<Value> = objects.map(row).collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns, "rows": rows,
    })
}

/// An object reduced to its metadata.
pub(super) fn partial(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

/// Placeholder for nothing.
pub(super) const NONE: &str = "<none>";

pub(super) fn text<'a>(value: &'a Value, otherwise: &'a str) -> &'a str {
    value.as_str().filter(|text| !text.is_empty()).unwrap_or(otherwise)
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value) -> Value {
    value.as_i64().unwrap_or_default().into()
}

/// Time since the object's creation.
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    since(&object["metadata"]["creationTimestamp"], now).into()
}

pub(super) fn since(then: &Value, now: Timestamp) -> String {
    let then = then.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    then.map_or_else(|| "<unknown>".to_owned(), |then| duration(now.as_second() - then.as_second()))
}

/// Formats seconds like kubectl: at most two units, and only one for long durations.
fn duration(seconds: i64) -> String {
    let two = |many: i64, unit: &str, few: i64, rest: &str| {
        if few == 0 { format!("{many}{unit}") } else { format!("{many}{unit}{few}{rest}") }
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        // Clocks may differ slightly.
        -1 => "0s".to_owned(),
        ..0 => "<invalid>".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => two(days, "d", hours % 24, "h"),
        _ if days < 730 => format!("{days}d"),
        _ if days < 2920 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

fn node(node: &Value, now: Timestamp) -> Vec<Value> {
    let ready = list(&node["status"]["conditions"]).iter().find(|condition| condition["type"] == "Ready");
    let mut status = match ready {
        Some(condition) if condition["status"] == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    let labels = node["metadata"]["labels"].as_object();
    let mut roles: Vec<&str> =
        labels.into_iter().flatten().filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/")).collect();
    roles.sort_unstable();
    let roles = if roles.is_empty() { NONE.to_owned() } else { roles.join(",") };
    let address = |kind: &str| {
        let found = list(&node["status"]["addresses"]).iter().find(|address| address["type"] == kind);
        found.map_or(NONE, |address| text(&address["address"], NONE))
    };
    let info = &node["status"]["nodeInfo"];
    vec![
        status.into(),
        roles.into(),
        age(node, now),
        info["kubeletVersion"].clone(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        text(&info["osImage"], "<unknown>").into(),
        text(&info["kernelVersion"], "<unknown>").into(),
        text(&info["containerRuntimeVersion"], "<unknown>").into(),
    ]
}

/// Names and images of the containers, and the labels that select the pods.
fn template(object: &Value) -> [Value; 3] {
    let spec = &object["spec"];
    let containers = list(&spec["template"]["spec"]["containers"]);
    let joined = |key: &str| containers.iter().map(|it| text(&it[key], "")).collect::<Vec<_>>().join(",");
    [joined("name").into(), joined("image").into(), labels(&spec["selector"]["matchLabels"]).into()]
}

fn labels(labels: &Value) -> String {
    let pairs: Vec<String> =
        labels.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={}", text(value, ""))).collect();
    if pairs.is_empty() { NONE.to_owned() } else { pairs.join(",") }
}

fn daemon_set(set: &Value, now: Timestamp) -> Vec<Value> {
    let numbers = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    ];
    let mut cells: Vec<Value> = numbers.iter().map(|key| number(&set["status"][key])).collect();
    cells.extend([labels(&set["spec"]["template"]["spec"]["nodeSelector"]).into(), age(set, now)]);
    cells.extend(template(set));
    cells
}

fn deployment(deployment: &Value, now: Timestamp) -> Vec<Value> {
    let status = &deployment["status"];
    let wanted = deployment["spec"]["replicas"].as_i64().unwrap_or(1);
    let ready = format!("{}/{wanted}", number(&status["readyReplicas"]));
    let mut cells = vec![
        ready.into(),
        number(&status["updatedReplicas"]),
        number(&status["availableReplicas"]),
        age(deployment, now),
    ];
    cells.extend(template(deployment));
    cells
}

fn replica_set(set: &Value, now: Timestamp) -> Vec<Value> {
    let status = &set["status"];
    let mut cells = vec![
        number(&set["spec"]["replicas"]),
        number(&status["replicas"]),
        number(&status["readyReplicas"]),
        age(set, now),
    ];
    cells.extend(template(set));
    cells
}

fn service(service: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &service["spec"];
    let port = |port: &Value| format!("{}/{}", number(&port["port"]), text(&port["protocol"], "TCP"));
    let ports: Vec<String> = list(&spec["ports"]).iter().map(port).collect();
    let ports = if ports.is_empty() { NONE.to_owned() } else { ports.join(",") };
    vec![
        text(&spec["type"], NONE).into(),
        text(&spec["clusterIP"], NONE).into(),
        NONE.into(),
        ports.into(),
        age(service, now),
        labels(&spec["selector"]).into(),
    ]
}

/// Names at most three items.
fn few(words: &[String]) -> String {
    match words {
        [] => "<unset>".to_owned(),
        [first, second, third, rest @ ..] if !rest.is_empty() => {
            format!("{first},{second},{third} + {} more...", rest.len())
        }
        words => words.join(","),
    }
}

fn endpoint_slice(slice: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<String> = list(&slice["ports"]).iter().map(|port| number(&port["port"]).to_string()).collect();
    let addresses = list(&slice["endpoints"]).iter().flat_map(|endpoint| list(&endpoint["addresses"]));
    let addresses: Vec<String> = addresses.map(|address| text(address, "").to_owned()).collect();
    vec![slice["addressType"].clone(), few(&ports).into(), few(&addresses).into(), age(slice, now)]
}

fn signing_request(request: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &request["spec"];
    let kinds: Vec<&str> = list(&request["status"]["conditions"]).iter().map(|it| text(&it["type"], "")).collect();
    let mut condition =
        kinds.iter().find(|kind| **kind == "Denied" || **kind == "Approved").copied().unwrap_or("Pending").to_owned();
    if kinds.contains(&"Failed") {
        condition.push_str(",Failed");
    }
    if !request["status"]["certificate"].is_null() {
        condition.push_str(",Issued");
    }
    vec![
        age(request, now),
        text(&spec["signerName"], NONE).into(),
        text(&spec["username"], NONE).into(),
        NONE.into(),
        condition.into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_long_as_kubectl_shows_them() {
        let shown = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (119, "119s"),
            (120, "2m"),
            (183, "3m3s"),
            (3600, "60m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (8 * 3600 + 60, "8h"),
            (48 * 3600, "2d"),
            (50 * 3600, "2d2h"),
            (21 * 86_400, "21d"),
            (800 * 86_400, "2y70d"),
            (3000 * 86_400, "8y"),
        ];
        for (seconds, text) in shown {
            assert_eq!(duration(seconds), text);
        }
    }
}
