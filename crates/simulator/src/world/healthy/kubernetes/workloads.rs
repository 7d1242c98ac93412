//! The `DaemonSet`s and the Deployment that manage the pods.

use serde_json::{Value, json};

use super::pods::{COREDNS, FLANNEL, PROXY, dns_hash, dns_pods, dns_set};
use super::templates::{coredns, flannel, proxy};
use super::{Cluster, Metadata, SYSTEM, controller};

/// Name of the object in which Talos stores the manifests that it has applied.
const INVENTORY: &str = "talos-bootstrap-manifests-inventory";

pub(super) fn fill(cluster: &mut Cluster) {
    let labels = json!({"k8s-app": "kube-proxy", "tier": "node"});
    let template = proxy(cluster);
    daemon_set(cluster, PROXY, &labels, &template);
    let labels = json!({"k8s-app": "flannel", "tier": "node"});
    let template = flannel(cluster);
    daemon_set(cluster, FLANNEL, &labels, &template);
    dns(cluster);
}

fn daemon_set(cluster: &mut Cluster, name: &str, labels: &Value, template: &Value) {
    let nodes = cluster.machines.len();
    let rest = json!({
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            "revisionHistoryLimit": 10,
        },
        "status": {
            "currentNumberScheduled": nodes, "numberMisscheduled": 0, "desiredNumberScheduled": nodes, "numberReady": nodes,
            "observedGeneration": 1, "updatedNumberScheduled": nodes, "numberAvailable": nodes,
        },
    });
    let annotations =
        json!({"config.k8s.io/owning-inventory": INVENTORY, "deprecated.daemonset.template.generation": "1"});
    let metadata = Metadata { labels: labels.clone(), annotations, generation: Some(1), ..Metadata::default() };
    cluster.add("daemonsets.apps", Some(SYSTEM), name, metadata, rest);
}

fn dns(cluster: &mut Cluster) {
    let labels = json!({"k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS"});
    let replicas = dns_pods(cluster).len();
    let template = json!({"metadata": {"labels": {"k8s-app": "kube-dns"}}, "spec": coredns(cluster)});
    let created = cluster.created();
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": "True", "lastUpdateTime": created, "lastTransitionTime": created, "reason": reason,
            "message": message,
        })
    };
    let rest = json!({
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"k8s-app": "kube-dns"}}, "template": template,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": "25%"}},
            "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
        },
        "status": {
            "observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas,
            "availableReplicas": replicas, "terminatingReplicas": 0,
            "conditions": [
                condition("Available", "MinimumReplicasAvailable", "Deployment has minimum availability."),
                condition(
                    "Progressing",
                    "NewReplicaSetAvailable",
                    &format!("ReplicaSet \"{}\" has successfully progressed.", dns_set())
                ),
            ],
        },
    });
    let annotations = json!({"config.k8s.io/owning-inventory": INVENTORY, "deployment.kubernetes.io/revision": "1"});
    let metadata = Metadata { labels, annotations: annotations.clone(), generation: Some(1), ..Metadata::default() };
    cluster.add("deployments.apps", Some(SYSTEM), COREDNS, metadata, rest);

    let labels = json!({"k8s-app": "kube-dns", "pod-template-hash": dns_hash()});
    let mut template = template;
    template["metadata"]["labels"] = labels.clone();
    let rest = json!({
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
        "status": {
            "replicas": replicas, "fullyLabeledReplicas": replicas, "readyReplicas": replicas,
            "availableReplicas": replicas, "observedGeneration": 1,
        },
    });
    let owner = controller("apps/v1", "Deployment", "deployments.apps", COREDNS);
    let metadata = Metadata { labels, annotations, owner, generation: Some(1), ..Metadata::default() };
    cluster.add("replicasets.apps", Some(SYSTEM), &dns_set(), metadata, rest);
}
