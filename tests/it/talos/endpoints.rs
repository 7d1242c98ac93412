//! Endpoints that misbehave. Each costs at most its call's deadline, is named with its cause, and never makes a cluster count as healthy or
//! unhealthy.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use simulator::world::{Misbehavior, Transport};

use super::{ATTEMPT, SHORT, SLACK, side_by_side};
use crate::cluster::{Cluster, cluster};

const CONTROL_PLANES: [&str; 3] = ["cp-1", "cp-2", "cp-3"];
/// Every fault that makes a port unusable, with the reason for the endpoint, and the reason for the node when it is queried through another
/// endpoint.
fn dead() -> [(Transport, &'static str, &'static str); 12] {
    [
        (Transport::Refuse, "connection-refused", "node-unreachable"),
        (Transport::Blackhole, "timed-out", "node-unreachable"),
        (Transport::Silent, "timed-out", "node-frozen"),
        (Transport::Close, "no-answer", "node-unreachable"),
        (Transport::PlainHttp, "no-answer", "node-unreachable"),
        (Transport::Garbage, "no-answer", "node-unreachable"),
        (Transport::SilentInTls, "timed-out", "node-frozen"),
        (Transport::WrongCa, "unknown-ca", "node-unreachable"),
        (Transport::Expired, "server-certificate-expired", "node-unreachable"),
        (Transport::NotYetValid, "server-certificate-expired", "node-unreachable"),
        (Transport::WrongName, "name-not-in-certificate", "node-unreachable"),
        // Even the handshake does not finish. Other machines have connections that are already open.
        (Transport::Drip(Duration::from_millis(50)), "timed-out", ""),
    ]
}

/// A refusal or silence was observed; a certificate that is not accepted may belong to another machine.
fn code(reason: &str) -> i32 {
    if reason.contains("ca") || reason.contains("certificate") { 69 } else { 1 }
}

#[test]
fn the_only_one_is_dead() {
    side_by_side(dead(), 4, |(transport, reason, _)| {
        let cluster = cluster().endpoints(&["cp-1"]);
        cluster.transport("cp-1", transport);
        let judged = cluster.run(&SHORT);
        judged.is(code(reason), &[("talos.endpoints", reason, "cp-1")]).within(ATTEMPT + SLACK);
        assert_eq!(judged.status("talos.nodes.reachable"), "blocked", "{judged}");
        assert_eq!(judged.status("etcd.quorum"), "blocked", "{judged}");
    });
}

#[test]
fn all_are_dead() {
    side_by_side(dead(), 4, |(transport, reason, _)| {
        let cluster = cluster();
        for machine in CONTROL_PLANES {
            cluster.transport(machine, transport.clone());
        }
        let expected = CONTROL_PLANES.map(|machine| ("talos.endpoints", reason, machine));
        cluster.run(&SHORT).is(code(reason), &expected).within(ATTEMPT + SLACK);
    });
}

#[test]
fn one_of_three_is_dead() {
    side_by_side(dead(), 4, |(transport, endpoint, node)| {
        let cluster = cluster();
        cluster.transport("cp-1", transport);
        let judged = cluster.run(&SHORT);
        judged.within(ATTEMPT + SLACK);
        let endpoint = ("talos.endpoints", endpoint, "cp-1");
        if node.is_empty() {
            judged.is(0, &[endpoint]);
        } else {
            // The other endpoints cannot reach it either, so the fault is the machine's. Its API server answers, so its etcd may work, too.
            let node = ("talos.nodes.reachable", node, "cp-1");
            judged.is(1, &[endpoint, node, ("etcd.tolerance", "no-answer", "cluster")]);
        }
    });
}

#[test]
fn what_is_odd_and_works_is_no_problem() {
    let odd = [Transport::NoAlpn, Transport::Delay(Duration::from_millis(20)), Transport::CloseAfter(1000)];
    side_by_side(odd, 3, |transport| {
        let cluster = cluster();
        for machine in CONTROL_PLANES {
            cluster.transport(machine, transport.clone());
        }
        cluster.run(&[]).is(0, &[]);
    });
}

/// Facts that are lost with the endpoint are not known to be bad.
#[test]
fn a_connection_that_is_cut_in_the_middle_of_a_round_says_nothing_of_the_nodes() {
    side_by_side([5, 8, 17, 30], 4, |answers| {
        let cluster = cluster().endpoints(&["cp-1"]);
        cluster.transport("cp-1", Transport::CloseAfter(answers));
        let judged = cluster.run(&[]);
        assert_eq!(judged.outcome.code, 69, "{answers}: {judged}");
        let failed = judged.report["summary"]["failed"].as_u64();
        assert_eq!(failed, Some(0), "{answers}: {judged}");
    });
}

#[test]
fn workers_do_not_forward() {
    let worker = [("talos.endpoints", "endpoint-is-worker", "worker-1")];
    cluster().endpoints(&["worker-1"]).run(&[]).is(78, &worker);
    // Waiting does not turn a worker into a control plane.
    let waiting = cluster().endpoints(&["worker-1"]).run(&["--wait-timeout", "1h"]);
    waiting.is(78, &worker);
    assert_eq!(waiting.report["rounds"], 1, "{waiting}");
    cluster().endpoints(&["worker-1", "cp-1"]).run(&[]).is(0, &worker);
}

#[test]
fn names_that_lead_nowhere() {
    let unknown = [("talos.endpoints", "name-not-found", "cp-1.invalid:50000")];
    cluster().endpoints(&["cp-1.invalid"]).run(&["--no-kubernetes"]).is(69, &unknown);
    cluster().endpoints(&["cp-1.invalid", "cp-1"]).run(&[]).is(0, &unknown);
    let closed = [("talos.endpoints", "connection-refused", "localhost:1")];
    cluster().endpoints(&["localhost:1"]).run(&["--no-kubernetes"]).is(1, &closed);
}

/// Starts a proxy that resolves the control planes' names, which the local resolver cannot.
fn proxy(cluster: &Cluster) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let known = CONTROL_PLANES.map(|name| (name, cluster.address(name)));
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut asked = Vec::new();
                while !asked.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    client.read_exact(&mut byte).unwrap();
                    asked.push(byte[0]);
                }
                let asked = String::from_utf8(asked).unwrap();
                let (_, at) = known.iter().find(|(name, _)| asked.starts_with(&format!("CONNECT {name}:"))).unwrap();
                let server = TcpStream::connect((*at, 50_000)).unwrap();
                client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
                let (mut there, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let mut server = server;
                std::thread::spawn(move || std::io::copy(&mut back, &mut there));
                let _ = std::io::copy(&mut server, &mut client);
            });
        }
    });
    address
}

#[test]
fn an_endpoint_may_be_a_host_name() {
    let cluster = cluster();
    let proxy = format!("http://{}", proxy(&cluster));
    let run = |names: &[&str]| {
        let program = cluster.program().env("HTTPS_PROXY", &proxy);
        let program = program.args(["-o", "json", "--no-kubernetes", "-e"]).args([names.join(",")]);
        cluster.judgment(program.run())
    };
    run(&["cp-1", "cp-3"]).is(0, &[]);
    cluster.transport("cp-1", Transport::WrongName);
    run(&["cp-1"]).is(69, &[("talos.endpoints", "name-not-in-certificate", "cp-1:50000")]);
}

#[test]
fn another_machine_answers_at_the_address_of_an_endpoint() {
    for endpoints in [&CONTROL_PLANES[..], &CONTROL_PLANES[..1]] {
        let cluster = cluster().endpoints(endpoints);
        cluster.fault("cp-1", "*", Misbehavior::From("cp-3".to_owned()));
        let expected = [
            ("talos.nodes.reachable", "answered-by-other-node", "cp-1"),
            ("etcd.tolerance", "no-tolerance", "cluster"),
        ];
        cluster.run(&[]).is(1, &expected);
    }
}

/// The control plane is hidden, but still a control plane: removing its member from etcd must not be proposed.
#[test]
fn a_worker_answers_at_the_address_of_a_control_plane() {
    let cluster = cluster();
    cluster.fault("cp-1", "*", Misbehavior::From("worker-1".to_owned()));
    let judged = cluster.run(&[]);
    let expected = [
        ("talos.endpoints", "endpoint-is-worker", "cp-1"),
        ("talos.nodes.reachable", "answered-by-other-node", "cp-1"),
        ("etcd.tolerance", "no-tolerance", "cluster"),
    ];
    judged.is(1, &expected);
    assert!(!judged.outcome.stdout.contains("remove-member"), "{judged}");
    let cluster = cluster.endpoints(&["cp-1"]);
    cluster.run(&[]).is(78, &[("talos.endpoints", "endpoint-is-worker", "cp-1")]);
}

#[test]
fn an_endpoint_in_maintenance() {
    let maintenance = ("talos.endpoints", "maintenance-mode", "cp-1");
    let only = cluster().endpoints(&["cp-1"]);
    only.change(|world| world.maintenance("cp-1"));
    only.run(&["--no-kubernetes"]).is(1, &[maintenance]);
    let one_of_three = cluster();
    one_of_three.change(|world| world.maintenance("cp-1"));
    let node = ("talos.nodes.reachable", "maintenance-mode", "cp-1");
    let expected = [maintenance, node, ("etcd.tolerance", "no-tolerance", "cluster")];
    one_of_three.run(&["--no-kubernetes"]).is(1, &expected);
}
