//! User applications in a cluster: Deployments of one pod on each worker.

use serde_json::json;

use super::AGE;
use crate::world::{Role, World, revision, seconds, uid};

/// Number of namespaces that the applications are distributed over.
const TEAMS: usize = 20;

/// Adds this number of pods to each worker, and allows nodes to run twice as many.
pub(in crate::world) fn fill(world: &mut World, pods: usize) {
    if pods == 0 {
        return;
    }
    let created = world.now() - AGE;
    let (since, written) = (seconds(created), revision(created).to_string());
    let workers = world.machines.values().filter(|machine| machine.role == Role::Worker);
    let workers: Vec<String> = workers.map(|machine| machine.name.clone()).collect();
    let objects = world.kubernetes.objects.entry("pods".to_owned()).or_default();
    for (worker, at) in workers.iter().flat_map(|worker| (0..pods).map(move |at| (worker, at))) {
        let (namespace, app) = (format!("team-{}", at % TEAMS), format!("app-{at}"));
        let set = format!("{app}-6f7b8c9d");
        let name = format!("{set}-{worker}");
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": uid(&set), "controller": true});
        let requests = json!({"requests": {"cpu": "10m", "memory": "8Mi"}});
        objects.push(json!({
            "metadata": {
                "name": name, "namespace": namespace, "uid": uid(&format!("pods/{namespace}/{name}")),
                "resourceVersion": written, "creationTimestamp": since, "labels": {"app": app}, "ownerReferences": [owner],
            },
            "spec": {
                "nodeName": worker,
                "containers": [{"name": "main", "image": "registry.example/app:v1", "resources": requests}],
            },
            "status": {
                "phase": "Running", "startTime": since,
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}],
                "containerStatuses": [{
                    "name": "main", "image": "registry.example/app:v1", "imageID": "", "ready": true, "started": true,
                    "restartCount": 0, "state": {"running": {"startedAt": since}},
                }],
            },
        }));
    }
    for node in world.kubernetes.objects.get_mut("nodes").into_iter().flatten() {
        node["status"]["allocatable"]["pods"] = (2 * pods + 30).to_string().into();
    }
}
