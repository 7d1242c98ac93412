//! Kubernetes objects from recorded lists, and the server of the kubeconfig.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::recording::{KubernetesCall, Recording};
use super::talos::{items, text};
use crate::world::World;

pub(super) fn tell(world: &mut World, recording: &Recording) {
    let server = recording.through_kubeconfig().find_map(|call| call.host().parse().ok());
    world.kubeconfig_server = server.filter(|at| world.machines.contains_key(at));
    for call in recording.kubernetes().filter(|call| call.status == Some(200)) {
        let Some((resource, namespace)) = listed(call.path()) else { continue };
        let objects = world.kubernetes.objects.entry(resource.clone()).or_default();
        let listed: Vec<&Value> = items(&call.body["items"]).collect();
        let has_uid = |object: &Value| listed.iter().any(|it| it["metadata"]["uid"] == object["metadata"]["uid"]);
        objects.retain(|object| match namespace {
            _ if call.is_of_some() => !has_uid(object),
            Some(namespace) => object["metadata"]["namespace"] != namespace,
            None => false,
        });
        objects.extend(listed.into_iter().cloned());
        if resource == "leases.coordination.k8s.io" {
            let stalled = items(&call.body["items"]).filter_map(|lease| stalled(lease, call));
            world.kubernetes.stalled_leases.extend(stalled);
        }
    }
}

/// Returns `leases.coordination.k8s.io` and the namespace for
/// `/apis/coordination.k8s.io/v1/namespaces/kube-system/leases`.
fn listed(path: &str) -> Option<(String, Option<&str>)> {
    let parts: Vec<_> = path.trim_matches('/').split('/').collect();
    let (group, rest) = match &parts[..] {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return None,
    };
    let (namespace, plural) = match rest {
        ["namespaces", namespace, plural] => (Some(*namespace), plural),
        [plural] => (None, plural),
        _ => return None,
    };
    Some((if group.is_empty() { (*plural).to_owned() } else { format!("{plural}.{group}") }, namespace))
}

/// Returns a lease that had expired when it was recorded.
fn stalled(lease: &Value, call: &KubernetesCall) -> Option<(String, Timestamp)> {
    let spec = &lease["spec"];
    let renewed: Timestamp = spec["renewTime"].as_str()?.parse().ok()?;
    let lasts = SignedDuration::from_secs(spec["leaseDurationSeconds"].as_i64()?);
    let metadata = &lease["metadata"];
    let name = format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"]));
    (renewed + lasts < call.date?).then_some((name, renewed))
}
