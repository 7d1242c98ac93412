//! API servers, and the load balancer in front of them, with connections that misbehave.

use std::time::Duration;

use simulator::world::{Server, Transport};

use super::{SLICES, SYSTEM, round, side_by_side};
use crate::cluster::{Cluster, Judgment, cluster};

/// A warning, if other servers are reachable.
pub(super) const UNREACHABLE: &str = "api-unreachable-from-here";

/// Every transport fault, with the reason that is reported for an API server that has it while its lease is still renewed. `None` means
/// that nothing is wrong.
pub(super) fn transports() -> Vec<(Transport, Option<&'static str>)> {
    vec![
        (Transport::Refuse, Some("connection-refused")),
        // The server is unreachable, but the lease shows that it is alive.
        (Transport::Blackhole, Some(UNREACHABLE)),
        (Transport::Silent, Some("api-frozen")),
        (Transport::Close, Some("api-unreachable")),
        (Transport::PlainHttp, Some("api-unreachable")),
        (Transport::Garbage, Some("api-unreachable")),
        (Transport::SilentInTls, Some("api-frozen")),
        (Transport::WrongCa, Some("unknown-ca")),
        (Transport::Expired, Some("server-certificate-expired")),
        (Transport::NotYetValid, Some("server-certificate-expired")),
        (Transport::WrongName, Some("name-not-in-certificate")),
        // Only HTTP/1.1 is requested.
        (Transport::NoAlpn, None),
        (Transport::Delay(Duration::from_millis(20)), None),
        (Transport::Drip(Duration::from_millis(50)), Some("api-frozen")),
        (Transport::CloseAfter(1), None),
    ]
}

pub(super) fn spoil(cluster: &Cluster, servers: impl IntoIterator<Item = Server>, transport: &Transport) {
    let servers: Vec<_> = servers.into_iter().collect();
    cluster.change(|world| world.transport.extend(servers.into_iter().map(|server| (server, transport.clone()))));
}

/// Servers that do not answer are awaited in one short round. Servers that do have all the time that a busy machine may need.
fn judge(cluster: &Cluster, transport: &Transport, more: &[&str]) -> Judgment {
    use Transport::{Blackhole, Drip, Refuse, Silent, SilentInTls};
    match transport {
        Blackhole | Drip(_) | Refuse | Silent | SilentInTls => round(cluster, more),
        _ => cluster.run(more),
    }
}

/// Returns the problems of a server, including its certificate's if that is the fault.
fn with_certificate<'a>(check: &'a str, reason: &'a str, target: &'a str) -> Vec<(&'a str, &'a str, &'a str)> {
    let mut said = vec![(check, reason, target)];
    if reason == "server-certificate-expired" {
        said.push(("k8s.api.certificates", reason, target));
    }
    said
}

/// Returns the reason if a second look shows that the lease is renewed, so that the server is only unreachable from here.
fn among_others(transport: &Transport, reason: Option<&'static str>) -> Option<&'static str> {
    if *transport == Transport::Refuse { Some(UNREACHABLE) } else { reason }
}

const CONTROL_PLANES: [&str; 3] = ["cp-1", "cp-2", "cp-3"];

#[test]
fn one_server_of_three_while_the_endpoint_is_well() {
    side_by_side(transports(), 4, |(transport, reason)| {
        let cluster = cluster();
        spoil(&cluster, [cluster.api_server("cp-1")], &transport);
        let other = format!("{}:6443", cluster.address("cp-2"));
        let judged = judge(&cluster, &transport, &["--k8s-endpoint", &other]);
        match among_others(&transport, reason) {
            Some(reason) => {
                judged.is(i32::from(reason != UNREACHABLE), &with_certificate("k8s.api.servers", reason, "cp-1"))
            }
            None => judged.is(0, &[]),
        };
    });
}

#[test]
fn one_server_of_three_behind_a_balancer_that_takes_it_for_well() {
    side_by_side(transports(), 4, |(transport, reason)| {
        let cluster = cluster();
        spoil(&cluster, [cluster.api_server("cp-1")], &transport);
        let judged = judge(&cluster, &transport, &[]);
        // Other facts may be missing too, if the load balancer sent their requests to the bad server.
        match among_others(&transport, reason) {
            Some(reason) => assert_eq!(
                (judged.outcome.code, judged.of("k8s.api.servers")),
                (i32::from(reason != UNREACHABLE), vec![(reason, "cp-1")]),
                "{transport:?}: {judged}"
            ),
            None => drop(judged.is(0, &[])),
        }
    });
}

#[test]
fn all_servers() {
    side_by_side(transports(), 4, |(transport, reason)| {
        let cluster = cluster();
        spoil(&cluster, CONTROL_PLANES.map(|name| cluster.api_server(name)), &transport);
        let judged = judge(&cluster, &transport, &[]);
        let endpoint = match (&transport, reason) {
            // The load balancer has no server to connect to.
            (Transport::Refuse | Transport::Blackhole, _) => "api-unreachable",
            (_, Some(reason)) => reason,
            (_, None) => {
                judged.is(0, &[]);
                return;
            }
        };
        let reason = reason.filter(|reason| *reason != UNREACHABLE);
        let mut said = with_certificate("k8s.api.endpoint", endpoint, "balancer");
        if let Some(reason) = reason {
            said.extend(CONTROL_PLANES.iter().flat_map(|name| with_certificate("k8s.api.servers", reason, name)));
        }
        judged.is(1, &said);
        // Without an endpoint no lease can be read, so nothing shows that an unreachable server is alive.
        let servers = if reason.is_some() { "fail" } else { "blocked" };
        assert_eq!(judged.status("k8s.api.servers"), servers, "{transport:?}: {judged}");
    });
}

#[test]
fn the_balancer() {
    side_by_side(transports(), 4, |(transport, reason)| {
        let cluster = cluster();
        spoil(&cluster, [Server::Balancer], &transport);
        let judged = judge(&cluster, &transport, &[]);
        let reason = match (&transport, reason) {
            (Transport::WrongCa | Transport::Expired | Transport::NotYetValid | Transport::WrongName, reason) => reason,
            (Transport::Blackhole, _) | (_, Some(_)) => Some("endpoint-down-servers-ready"),
            (_, None) => None,
        };
        match reason {
            Some(reason) => judged.is(1, &with_certificate("k8s.api.endpoint", reason, "balancer")),
            None => judged.is(0, &[]),
        };
    });
}

/// The load balancer accepts connections, and closes those that it cannot forward.
#[test]
fn a_balancer_without_a_server_behind_it() {
    let cluster = cluster();
    cluster.change(|world| CONTROL_PLANES.map(|name| world.api_server_stop(name)));
    let judged = round(&cluster, &[]);
    assert_eq!(judged.outcome.code, 1, "{judged}");
    assert_eq!(judged.of("k8s.api.endpoint"), [("api-unreachable", "balancer")], "{judged}");
    assert_eq!(judged.of("k8s.api.servers"), CONTROL_PLANES.map(|name| ("connection-refused", name)), "{judged}");
    assert_eq!(judged.of("k8s.controlplane.apiserver"), CONTROL_PLANES.map(|name| ("crash-looping", name)), "{judged}");
    assert_eq!(judged.status("k8s.nodes.ready"), "blocked", "{judged}");
}

/// A proxy in front has its own certificate, and the servers' certificates come from a CA that the kubeconfig does not contain.
#[test]
fn servers_that_only_a_proxy_reaches() {
    let cluster = cluster();
    spoil(&cluster, CONTROL_PLANES.map(|name| cluster.api_server(name)), &Transport::WrongCa);
    spoil(&cluster, [Server::Balancer], &Transport::CloseAfter(1000));
    let said = ("k8s.api.identity", "endpoint-behind-proxy", "cluster");
    cluster.run(&[]).is(0, &[said]);
    // The result is the same without Talos: the leases that the proxy returns are renewed.
    cluster.run(&["--no-talos"]).is(0, &[]);
    forget_lease(&cluster, "cp-1");
    forget_endpoint(&cluster, "cp-1");
    cluster.run(&["--no-talos"]).is(1, &[("k8s.api.servers", "server-not-directly-reachable", "cp-1")]);
}

/// Evidence that a server is alive although its port is filtered between here and the node.
#[test]
fn a_server_that_is_filtered_away_lives_by_what_others_see_of_it() {
    side_by_side([(true, true), (true, false), (false, true), (false, false)], 6, |(lease, endpoint)| {
        let cluster = cluster();
        spoil(&cluster, [cluster.api_server("cp-1")], &Transport::Blackhole);
        if !lease {
            forget_lease(&cluster, "cp-1");
        }
        if !endpoint {
            forget_endpoint(&cluster, "cp-1");
        }
        let judged = round(&cluster, &[]);
        if lease || endpoint {
            judged.is(0, &[("k8s.api.servers", UNREACHABLE, "cp-1")]);
            let not_observed = judged.report["notObserved"].to_string();
            let named = not_observed.contains("k8s.api.servers: cp-1 (");
            assert!(named, "{not_observed}");
            assert!(!judged.report.to_string().contains("All Kubernetes API server endpoints"), "{judged}");
        } else {
            judged.is(1, &[("k8s.api.servers", "server-not-directly-reachable", "cp-1")]);
        }
    });
}

/// Removes the lease of a control plane's API server.
pub(super) fn forget_lease(cluster: &Cluster, name: &str) {
    cluster.change(|world| {
        let leases = world.kubernetes.objects.get_mut(super::LEASES).unwrap();
        leases.retain(|lease| lease["metadata"]["labels"]["kubernetes.io/hostname"] != name);
    });
}

/// Removes the API server of a control plane from the endpoints of default/kubernetes.
pub(super) fn forget_endpoint(cluster: &Cluster, name: &str) {
    let address = cluster.address(name).to_string();
    cluster.change(|world| {
        for slice in world.kubernetes.objects.get_mut(SLICES).unwrap() {
            if slice["metadata"]["namespace"].as_str() != SYSTEM {
                let endpoints = slice["endpoints"].as_array_mut().unwrap();
                endpoints.retain(|endpoint| endpoint["addresses"][0] != *address);
                for endpoint in endpoints {
                    endpoint["addresses"].as_array_mut().unwrap().retain(|at| *at != *address);
                }
            }
        }
    });
}
