//! Converts EndpointSlices to the endpoints of Services.

use std::collections::BTreeSet;

use super::lists::Kept;
use super::objects::labels;
use super::wire::{core, discovery};
use crate::snapshot::ServiceEndpoint;

/// The API's default.
const TCP: &str = "TCP";

/// The endpoints of a Service. Terminating ones do not count.
#[derive(Debug)]
pub(super) struct Slice {
    pub(super) namespace: String,
    pub(super) service: String,
    /// Whether it has a UDP port with a DNS name. The port number does not help: it is that of the pods.
    pub(super) has_dns_port: bool,
    pub(super) endpoints: Vec<ServiceEndpoint>,
}

impl Slice {
    /// Returns its endpoints. Outside of kube-system, an empty slice becomes one endpoint without addresses: its Service exists, but
    /// nothing serves it.
    pub(super) fn shown(self) -> Vec<ServiceEndpoint> {
        if !self.endpoints.is_empty() || self.namespace == "kube-system" {
            return self.endpoints;
        }
        vec![ServiceEndpoint {
            namespace: self.namespace,
            service: self.service,
            addresses: Vec::new(),
            ready: false,
            node: None,
            pod: None,
            port: None,
            protocols: None,
        }]
    }
}

impl Kept for Slice {
    type Object = discovery::EndpointSlice;

    fn of(slice: discovery::EndpointSlice) -> Self {
        let service = labels(&slice.metadata).remove("kubernetes.io/service-name").unwrap_or_default();
        let protocol = |port: &discovery::EndpointPort| port.protocol.clone().unwrap_or_else(|| TCP.to_owned());
        let mut of_tcp = slice.ports.iter().flatten().filter(|port| protocol(port) == TCP);
        let port = of_tcp.find_map(|port| u16::try_from(port.port?).ok());
        let protocols = slice.ports.as_ref().map(|ports| ports.iter().map(protocol).collect::<BTreeSet<_>>());
        let protocols: Option<Vec<String>> = protocols.map(|them| them.into_iter().collect());
        let namespace = slice.metadata.namespace.as_ref();
        let is_pod_of_service = |target: &core::ObjectReference| {
            target.kind.as_deref() == Some("Pod") && target.namespace.as_ref().is_none_or(|it| Some(it) == namespace)
        };
        let endpoint = |endpoint: discovery::Endpoint| {
            let conditions = endpoint.conditions.unwrap_or_default();
            if conditions.terminating == Some(true) || endpoint.addresses.is_empty() {
                return None;
            }
            Some(ServiceEndpoint {
                namespace: namespace.cloned().unwrap_or_default(),
                service: service.clone(),
                addresses: endpoint.addresses,
                // "A nil value should be interpreted as true", according to the API.
                ready: conditions.ready.unwrap_or(true),
                node: endpoint.node_name,
                pod: endpoint.target_ref.filter(is_pod_of_service).and_then(|pod| pod.name),
                port,
                protocols: protocols.clone(),
            })
        };
        let is_dns = |port: &discovery::EndpointPort| {
            // The chart of `CoreDNS` names the port by its number.
            let is_named = port.name.as_deref().is_some_and(|name| name.starts_with("dns") || name == "udp-53");
            protocol(port) == "UDP" && is_named
        };
        let namespace = namespace.cloned().unwrap_or_default();
        let has_dns_port = slice.ports.iter().flatten().any(is_dns);
        let endpoints = slice.endpoints.into_iter().filter_map(endpoint).collect();
        Self { namespace, service, has_dns_port, endpoints }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::observe::kubernetes::objects::tests::read;

    #[test]
    fn readiness_of_endpoints_follows_the_api() {
        let slice = read(json!({
            "metadata": {"name": "kube-dns-x", "labels": {"kubernetes.io/service-name": "kube-dns"}}, "addressType": "IPv4",
            "endpoints": [
                {"addresses": ["10.244.0.2"], "conditions": {"ready": true}, "nodeName": "cp-1"},
                {"addresses": ["10.244.0.3"], "conditions": {}},
                {"addresses": ["10.244.0.4"]},
                {"addresses": ["10.244.0.5"], "conditions": {"ready": false, "serving": true, "terminating": true}},
                {"addresses": ["10.244.0.6"], "conditions": {"ready": false}},
                {"addresses": []},
            ],
            "ports": [{"name": "any"}, {"name": "https", "port": 7443, "protocol": "TCP"}],
        }));
        let Slice { service, has_dns_port, endpoints, .. } = Slice::of(slice);
        assert_eq!((service.as_str(), has_dns_port), ("kube-dns", false));
        let ready: Vec<_> = endpoints.iter().map(|endpoint| (endpoint.addresses[0].as_str(), endpoint.ready)).collect();
        assert_eq!(ready, [("10.244.0.2", true), ("10.244.0.3", true), ("10.244.0.4", true), ("10.244.0.6", false)]);
        assert_eq!((endpoints[0].node.as_deref(), endpoints[0].port), (Some("cp-1"), Some(7443)));
        let of_port = |port: Value| {
            let slice = read(json!({"metadata": {"name": "x"}, "endpoints": [], "ports": [port]}));
            Slice::of(slice).has_dns_port
        };
        assert!(of_port(json!({"name": "dns", "port": 5353, "protocol": "UDP"})));
        assert!(!of_port(json!({"name": "dns-tcp", "port": 53, "protocol": "TCP"})));
        assert!(of_port(json!({"name": "udp-53", "port": 53, "protocol": "UDP"})));
        assert!(!of_port(json!({"name": "metrics", "port": 53, "protocol": "UDP"})));
        let empty: discovery::EndpointSlice =
            read(json!({"metadata": {"name": "x"}, "addressType": "IPv4", "endpoints": null}));
        assert!(Slice::of(empty).endpoints.is_empty());
    }
}
