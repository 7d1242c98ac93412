//! Additions of an API server to objects: default values, and fields that admission adds to pods.

use serde_json::{Value, json};

use crate::world::suffix;

/// The specification of a pod with Kubernetes' default values, as in templates.
pub(super) fn defaulted(mut spec: Value) -> Value {
    for container in containers(&mut spec) {
        default_container(container);
    }
    for volume in items(&mut spec, "volumes") {
        set(volume.pointer_mut("/hostPath"), &json!({"type": ""}));
        set(volume.pointer_mut("/configMap"), &json!({"defaultMode": 420}));
    }
    let account = spec.get("serviceAccountName").cloned();
    set(Some(&mut spec), &account.map_or_else(|| json!({}), |account| json!({"serviceAccount": account})));
    let defaults = json!({
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "securityContext": {}, "schedulerName": "default-scheduler",
    });
    set(Some(&mut spec), &defaults);
    spec
}

fn default_container(container: &mut Value) {
    for variable in items(container, "env") {
        set(variable.pointer_mut("/valueFrom/fieldRef"), &json!({"apiVersion": "v1"}));
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        set(container.pointer_mut(&format!("/{probe}/httpGet")), &json!({"scheme": "HTTP"}));
        let defaults = json!({"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3});
        set(container.get_mut(probe), &defaults);
    }
    let defaults = json!({
        "resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    });
    set(Some(container), &defaults);
}

/// The specification of the pod with this name, after admission.
pub(super) fn admitted(mut spec: Value, pod: &str) -> Value {
    if spec.get("serviceAccountName").is_some() {
        mount_service_account(&mut spec, &format!("kube-api-access-{}", suffix(pod, 5)));
    }
    let priority = if spec["priorityClassName"] == "system-node-critical" { 2_000_001_000 } else { 2_000_000_000 };
    let added = json!({
        "priority": priority, "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority", "tolerations": [],
    });
    set(Some(&mut spec), &added);
    if items(&mut spec, "tolerations").all(|toleration| toleration["effect"] != "NoExecute") {
        for condition in ["not-ready", "unreachable"] {
            let mut for_a_while = tolerated(condition, "NoExecute");
            for_a_while["tolerationSeconds"] = json!(300);
            push(&mut spec, "tolerations", for_a_while);
        }
    }
    spec
}

fn mount_service_account(spec: &mut Value, volume: &str) {
    let sources = json!([
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [
            {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
        ]}},
    ]);
    push(spec, "volumes", json!({"name": volume, "projected": {"sources": sources, "defaultMode": 420}}));
    let path = "/var/run/secrets/kubernetes.io/serviceaccount";
    for container in containers(spec) {
        push(container, "volumeMounts", json!({"name": volume, "readOnly": true, "mountPath": path}));
    }
}

/// The specification that the `DaemonSet` controller derives from its template for the pod of one node.
pub(super) fn bound(mut spec: Value, node: &str) -> Value {
    let name = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
    spec["affinity"] =
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [name]}}});
    for (condition, effect) in [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
        ("network-unavailable", "NoSchedule"),
    ] {
        push(&mut spec, "tolerations", tolerated(condition, effect));
    }
    spec
}

fn tolerated(condition: &str, effect: &str) -> Value {
    json!({"key": format!("node.kubernetes.io/{condition}"), "operator": "Exists", "effect": effect})
}

fn containers(spec: &mut Value) -> impl Iterator<Item = &mut Value> {
    let lists = spec.as_object_mut().into_iter().flatten();
    let lists = lists.filter(|(key, _)| ["initContainers", "containers"].contains(&key.as_str()));
    lists.flat_map(|(_, list)| list.as_array_mut().into_iter().flatten())
}

fn items<'a>(of: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    of.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

fn push(to: &mut Value, key: &str, item: Value) {
    if let Some(list) = to.get_mut(key).and_then(Value::as_array_mut) {
        list.push(item);
    }
}

/// Sets missing keys of an object, if the object exists.
fn set(object: Option<&mut Value>, defaults: &Value) {
    if let (Some(Value::Object(object)), Value::Object(defaults)) = (object, defaults) {
        for (key, value) in defaults {
            object.entry(key).or_insert_with(|| value.clone());
        }
    }
}
