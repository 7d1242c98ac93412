//! `meta.k8s.io/v1` Table: objects as `kubectl get` prints them. Only nodes and pods have all columns of a real API server.

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

/// The table of all other resources, although a real API server has more columns for some.
const OTHERS: Layout = Layout { columns: &[AGE], cells: |it, now| vec![age(it, now)] };

fn layout(plural: &str) -> &'static Layout {
    match plural {
        "nodes" => &NODES,
        "pods" => &PODS,
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
