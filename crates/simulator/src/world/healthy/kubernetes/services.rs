//! Services and their endpoints.

use serde_json::{Value, json};

use super::pods::dns_pods;
use super::{Cluster, Metadata, SYSTEM, uid_of};
use crate::world::suffix;

const SLICES: &str = "endpointslices.discovery.k8s.io";

pub(super) fn fill(cluster: &mut Cluster) {
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    let ports = json!([{"name": "https", "protocol": "TCP", "port": 443, "targetPort": cluster.api_port}]);
    let rest = service("10.96.0.1", &ports, &Value::Null);
    cluster.add("services", Some("default"), "kubernetes", Metadata { labels, ..Metadata::default() }, rest);

    let labels = json!({
        "k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS",
    });
    let annotations = json!({"prometheus.io/port": "9153", "prometheus.io/scrape": "true"});
    let port = |name: &str, protocol: &str, port: u16| json!({"name": name, "protocol": protocol, "port": port, "targetPort": port});
    let ports = json!([port("dns", "UDP", 53), port("dns-tcp", "TCP", 53), port("metrics", "TCP", 9153)]);
    let rest = service("10.96.0.10", &ports, &json!({"k8s-app": "kube-dns"}));
    let metadata = Metadata { labels, annotations, ..Metadata::default() };
    cluster.add("services", Some(SYSTEM), "kube-dns", metadata, rest);

    api_servers(cluster);
    dns(cluster);
}

fn service(address: &str, ports: &Value, selector: &Value) -> Value {
    let mut spec = json!({
        "ports": ports, "clusterIP": address, "clusterIPs": [address], "type": "ClusterIP", "sessionAffinity": "None",
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster",
    });
    if !selector.is_null() {
        spec["selector"] = selector.clone();
    }
    json!({"spec": spec, "status": {"loadBalancer": {}}})
}

/// Adds the endpoints that API servers register themselves.
fn api_servers(cluster: &mut Cluster) {
    let labels = json!({"kubernetes.io/service-name": "kubernetes"});
    let endpoint =
        |machine: &super::Machine| json!({"addresses": [machine.address.to_string()], "conditions": {"ready": true}});
    let endpoints: Vec<Value> = cluster.control_planes().map(endpoint).collect();
    let ports = json!([{"name": "https", "port": cluster.api_port, "protocol": "TCP"}]);
    let rest = json!({"addressType": "IPv4", "endpoints": endpoints, "ports": ports});
    let metadata = Metadata { labels, generation: Some(1), ..Metadata::default() };
    cluster.add(SLICES, Some("default"), "kubernetes", metadata, rest);
}

fn dns(cluster: &mut Cluster) {
    let labels = json!({
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io", "k8s-app": "kube-dns",
        "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS", "kubernetes.io/service-name": "kube-dns",
    });
    let owner = json!({
        "apiVersion": "v1", "kind": "Service", "name": "kube-dns", "uid": uid_of("services", Some(SYSTEM), "kube-dns"),
        "controller": true, "blockOwnerDeletion": true,
    });
    let endpoint = |(name, machine, address): (String, super::Machine, std::net::IpAddr)| {
        json!({
            "addresses": [address.to_string()], "conditions": {"ready": true, "serving": true, "terminating": false},
            "targetRef": {
                "kind": "Pod", "namespace": SYSTEM, "name": name, "uid": uid_of("pods", Some(SYSTEM), &name),
            },
            "nodeName": machine.name,
        })
    };
    let endpoints: Vec<Value> = dns_pods(cluster).into_iter().map(endpoint).collect();
    let port = |name: &str, protocol: &str, port: u16| json!({"name": name, "port": port, "protocol": protocol});
    let ports = json!([port("dns", "UDP", 53), port("dns-tcp", "TCP", 53), port("metrics", "TCP", 9153)]);
    let rest = json!({"addressType": "IPv4", "endpoints": endpoints, "ports": ports});
    let generate_name = Some("kube-dns-".to_owned());
    let annotations = json!({"endpoints.kubernetes.io/last-change-trigger-time": cluster.created()});
    let metadata = Metadata { generate_name, labels, annotations, owner, generation: Some(1) };
    cluster.add(SLICES, Some(SYSTEM), &format!("kube-dns-{}", suffix("kube-dns", 5)), metadata, rest);
}
