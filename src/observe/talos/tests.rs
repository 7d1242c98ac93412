//! The client against servers in this process: real TCP, TLS and HTTP/2 on loopback.

mod fake;
mod omni;

use std::collections::BTreeSet;
use std::time::Duration;

use rcgen::date_time_ymd;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tonic::Code;

use self::fake::{Authority, Fake, Machine, address, garbage, tls};
use super::{Config, EndpointAddress, Lane, NodeAsk, TalosClient};
use crate::config::certificate::Identity;
use crate::config::proxy::Proxy;
use crate::config::roots::Roots;
use crate::model::Fact;
use crate::model::{MachineType, Role};
use crate::observe::testing::{refusing, unanswered};
use crate::snapshot::{AlarmKind, Gap, GapKind, TalosNode};

/// Time limit for calls that must be answered; a busy machine may need a while.
const LONG: Duration = Duration::from_secs(20);
/// Time limit for calls that must not be answered.
const SHORT: Duration = Duration::from_millis(400);

fn client_as(
    authority: &Authority,
    client: Option<Identity>,
    endpoints: Vec<EndpointAddress>,
    timeout: Duration,
) -> TalosClient {
    let cluster = Some("prod".to_owned());
    let roots = Roots::Own(vec![authority.certificate()]);
    TalosClient::new(Config { endpoints, roots, client, account: None, cluster, timeout }).unwrap()
}

fn client(authority: &Authority, endpoints: Vec<EndpointAddress>, timeout: Duration) -> TalosClient {
    client_as(authority, Some(authority.client()), endpoints, timeout)
}

async fn serve(authority: &Authority, fake: &Fake) -> EndpointAddress {
    let leaf = authority.server("127.0.0.1", |_| {});
    fake.clone().serve(tls(&leaf, Some(authority), true)).await
}

async fn version_gap(client: &TalosClient) -> Gap {
    client.endpoint(0, Instant::now() + LONG).await.endpoint.version.unwrap_err()
}

async fn ask(
    client: &TalosClient,
    addresses: &[&str],
    expected: &[&str],
    facts: &[Fact],
    working: &[usize],
) -> TalosNode {
    let addresses: Vec<String> = addresses.iter().map(|it| (*it).to_owned()).collect();
    let expected: Vec<String> = expected.iter().map(|it| (*it).to_owned()).collect();
    let ask =
        NodeAsk { name: "cp-1", addresses: &addresses, expected: &expected, role: Role::Unknown, lane: Lane::Normal };
    let facts: BTreeSet<Fact> = facts.iter().copied().collect();
    (*client.node(&ask, &facts, working, Instant::now() + LONG).await).clone()
}

const ALL: [Fact; 9] = [
    Fact::MachineStatus,
    Fact::Services,
    Fact::StaticPods,
    Fact::StaticPodStatuses,
    Fact::ConfigStatuses,
    Fact::ComponentConfigs,
    Fact::EtcdMembership,
    Fact::EtcdAlarms,
    Fact::EtcdData,
];

#[tokio::test]
async fn an_endpoint_and_its_node() {
    let authority = Authority::new();
    let fake = Fake::new(&[("", Machine::Named("cp-1")), ("10.0.0.1", Machine::Named("cp-1"))]);
    let client = client(&authority, vec![serve(&authority, &fake).await], LONG);

    let answer = client.endpoint(0, Instant::now() + LONG).await;
    assert_eq!(answer.endpoint.version.unwrap().tag, "v1.13.0");
    assert_eq!(answer.endpoint.role, Ok(Some(Role::ControlPlane)));
    assert_eq!(answer.endpoint.nodename, Ok(Some("cp-1".into())));
    assert_eq!(answer.members.unwrap()[0].name, "cp-1");
    assert_eq!(answer.addresses.unwrap(), ["10.0.0.1"]);

    let node = ask(&client, &["10.0.0.1"], &["CP-1"], &ALL, &[0]).await;
    let contact = node.contact.unwrap();
    assert_eq!((contact.address.as_str(), contact.answered_by_other), ("10.0.0.1", None));
    assert_eq!(node.machine_status.unwrap().unwrap().stage, "running");
    assert_eq!(node.services.unwrap()[0].healthy, Some(true));
    assert_eq!(node.static_pods, Ok(vec![]));
    assert_eq!(node.scheduler_enabled, Ok(None));
    assert_eq!(node.bootstrap_manifests, Err(Gap::not_asked()));
    assert_eq!(node.etcd_member_id, Ok(Some(255)));
    assert_eq!(node.etcd_status.unwrap().leader, 255);
    assert_eq!(node.etcd_members.unwrap()[0].name, "cp-1");
    assert_eq!(node.etcd_alarms.unwrap()[0].kind, AlarmKind::NoSpace);
    assert_eq!(node.etcd_data_absent, Err(Gap::not_asked()), "etcd runs");

    let seen = fake.seen.lock().unwrap();
    assert!(seen.contains(&"Version  prod".to_owned()), "{seen:?}");
    assert!(seen.contains(&"EtcdStatus 10.0.0.1 prod".to_owned()), "{seen:?}");
}

#[tokio::test]
async fn the_data_of_a_stopped_etcd_and_nothing_of_a_worker_s() {
    let authority = Authority::new();
    let mut fake = Fake::new(&[("10.0.0.1", Machine::Named("cp-1")), ("10.0.0.4", Machine::Named("w-1"))]);
    fake.etcd = "Preparing";
    let client = client(&authority, vec![serve(&authority, &fake).await], LONG);
    assert_eq!(ask(&client, &["10.0.0.1"], &[], &[Fact::EtcdData], &[0]).await.etcd_data_absent, Ok(true));
    let worker = ask(&client, &["10.0.0.4"], &[], &ALL, &[0]).await;
    assert_eq!(worker.machine_type, Ok(Some(MachineType::Worker)));
    assert_eq!(worker.etcd_status, Err(Gap::not_asked()));
    assert!(worker.services.is_ok());
    assert!(!fake.seen.lock().unwrap().iter().any(|call| call.starts_with("EtcdStatus 10.0.0.4")));
}

#[tokio::test]
async fn a_server_without_alpn() {
    let authority = Authority::new();
    let leaf = authority.server("127.0.0.1", |_| {});
    let at = Fake::new(&[("", Machine::Named("cp-1"))]).serve(tls(&leaf, Some(&authority), false)).await;
    let client = client(&authority, vec![at], LONG);
    assert!(client.endpoint(0, Instant::now() + LONG).await.endpoint.version.is_ok());
}

#[tokio::test]
async fn a_refused_client_certificate() {
    let authority = Authority::new();
    let at = serve(&authority, &Fake::new(&[("", Machine::Named("cp-1"))])).await;
    let none = client_as(&authority, None, vec![at.clone()], LONG);
    assert_eq!(version_gap(&none).await.kind, GapKind::ClientCertificateRefused);
    let foreign = client_as(&authority, Some(Authority::new().client()), vec![at], LONG);
    let gap = version_gap(&foreign).await;
    assert_eq!(gap.kind, GapKind::ClientCertificateRefused);
    assert!(gap.text.starts_with("the server refused the client certificate: "), "{}", gap.text);
}

#[tokio::test]
async fn certificates_of_servers() {
    let authority = Authority::new();
    let fake = Fake::new(&[("", Machine::Named("cp-1"))]);
    let at = |leaf: Identity| fake.clone().serve(tls(&leaf, Some(&authority), true));

    let foreign = at(Authority::new().server("127.0.0.1", |_| {})).await;
    let gap = version_gap(&client(&authority, vec![foreign], LONG)).await;
    assert_eq!(gap, Gap::new(GapKind::UnknownCa, "the server's certificate is signed by another CA"));

    let other = at(authority.server("cp-9.example", |_| {})).await;
    let gap = version_gap(&client(&authority, vec![other], LONG)).await;
    assert_eq!(gap.kind, GapKind::NameNotInCertificate);
    assert_eq!(gap.text, "the server's certificate is not valid for `127.0.0.1`, only for: cp-9.example");

    let expired = at(authority.server("127.0.0.1", |params| params.not_after = date_time_ymd(2020, 1, 1))).await;
    let gap = version_gap(&client(&authority, vec![expired], LONG)).await;
    assert_eq!(gap.kind, GapKind::PeerCertificateExpired);
}

#[tokio::test]
async fn maintenance_mode() {
    let authority = Authority::new();
    let leaf = Authority::new().server("127.0.0.1", |_| {});
    let fake = Fake::new(&[("", Machine::Maintenance)]);
    let at = fake.clone().serve(tls(&leaf, None, true)).await;
    let gap = version_gap(&client(&authority, vec![at], LONG)).await;
    assert_eq!(gap.kind, GapKind::Maintenance);
    assert_eq!(*fake.seen.lock().unwrap(), ["MachineStatuses.runtime.talos.dev  -"], "no cluster name, nothing else");

    // A stranger that is not in maintenance mode is still reported as a stranger.
    let at = Fake::new(&[("", Machine::Named("cp-1"))]).serve(tls(&leaf, None, true)).await;
    assert_eq!(version_gap(&client(&authority, vec![at], LONG)).await.kind, GapKind::UnknownCa);
}

#[tokio::test]
async fn broken_servers() {
    let authority = Authority::new();

    let ask = async |at| version_gap(&client(&authority, vec![address(at)], LONG)).await;
    assert_eq!(
        unanswered(LONG, ask).await,
        Gap::new(GapKind::TimedOut, "connected, but the TLS handshake was not answered")
    );

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = address(listener.local_addr().unwrap());
    let closes = client(&authority, vec![at.clone()], LONG);
    let (gap, ()) = tokio::join!(version_gap(&closes), async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await;
    });
    assert_eq!(gap.kind, GapKind::Broken);

    let speaks_http = client(&authority, vec![at], LONG);
    let (gap, ()) = tokio::join!(version_gap(&speaks_http), async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await;
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _ = stream.shutdown().await;
    });
    assert_eq!(gap, Gap::new(GapKind::Broken, "the answer is not TLS"));

    let (_socket, refusing) = refusing();
    assert_eq!(ask(refusing).await, Gap::new(GapKind::ConnectionRefused, "connection refused"));

    let nowhere =
        EndpointAddress { host: "cp-1.invalid".into(), port: 50000, shown: "cp-1".into(), via: Proxy::Direct };
    let gap = version_gap(&client(&authority, vec![nowhere], LONG)).await;
    assert_eq!(gap.kind, GapKind::NameNotFound);
}

/// A packet filter behaves like this, in contrast to a frozen apid.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_port_that_swallows_packets() {
    let authority = Authority::new();
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    // The backlog holds one connection, which is never accepted; after it, the kernel drops every SYN.
    let listener = socket.listen(0).unwrap();
    let client = client(&authority, vec![address(listener.local_addr().unwrap())], SHORT);
    let frozen = version_gap(&client).await;
    assert_eq!(frozen.kind, GapKind::TimedOut, "{}", frozen.text);
    let filtered = version_gap(&client).await;
    assert_eq!(filtered, Gap::new(GapKind::ConnectTimedOut, "no connection within 0.4s"), "the last attempt counts");
}

#[tokio::test]
async fn answers_that_are_no_answers() {
    let authority = Authority::new();
    let leaf = authority.server("127.0.0.1", |_| {});
    let at = garbage(tls(&leaf, Some(&authority), true)).await;
    let gap = version_gap(&client(&authority, vec![at], LONG)).await;
    assert_eq!(gap.kind, GapKind::Malformed, "{}", gap.text);

    let at = serve(&authority, &Fake::new(&[("", Machine::Endless)])).await;
    let answer = client(&authority, vec![at], LONG).endpoint(0, Instant::now() + LONG).await;
    assert_eq!(answer.members.unwrap_err().kind, GapKind::TooLarge);

    let at = serve(&authority, &Fake::new(&[("", Machine::Big)])).await;
    let answer = client(&authority, vec![at], LONG).endpoint(0, Instant::now() + LONG).await;
    assert_eq!(answer.members.unwrap_err().kind, GapKind::TooLarge);
}

/// None of these reaches a parser, which they would keep busy.
#[tokio::test]
async fn answers_that_become_more_than_they_are() {
    let authority = Authority::new();
    for bomb in ["[", "- ", "? ", "{a: "] {
        let at = serve(&authority, &Fake::new(&[("", Machine::Says(bomb, 60_000 / bomb.len()))])).await;
        let answer = client(&authority, vec![at], LONG).endpoint(0, Instant::now() + LONG).await;
        let gaps = [answer.members.unwrap_err(), answer.addresses.unwrap_err(), answer.machine_id.unwrap_err()];
        assert!(gaps.iter().all(|gap| gap.kind == GapKind::TooLarge), "{bomb}: {gaps:?}");
    }
    let aliases = "a: &a aaaaaaaaaaaaaaaaaaaaaaaa\naddresses: [*a,*a,*a]\n";
    for machine in [Machine::Says(aliases, 1), Machine::Says("x", 65 << 10), Machine::Crumbles(30_000)] {
        let at = serve(&authority, &Fake::new(&[("", machine.clone())])).await;
        let answer = client(&authority, vec![at], LONG).endpoint(0, Instant::now() + LONG).await;
        let gap = match machine {
            Machine::Crumbles(_) => answer.endpoint.version.unwrap_err(),
            _ => answer.addresses.unwrap_err(),
        };
        assert_eq!(gap.kind, GapKind::TooLarge, "{}", gap.text);
    }
}

/// Anyone on the network path may answer a call that is not verified.
#[tokio::test]
async fn a_stranger_has_a_few_words() {
    let authority = Authority::new();
    let leaf = Authority::new().server("127.0.0.1", |_| {});
    let ask = async |text, times| {
        let at = Fake::new(&[("", Machine::Says(text, times))]).serve(tls(&leaf, None, true)).await;
        version_gap(&client(&authority, vec![at], LONG)).await.kind
    };
    let status = "stage: maintenance\nstatus: {ready: true, unmetConditions: []}\n";
    assert_eq!(ask(status, 1).await, GapKind::Maintenance);
    let long: &'static str = Box::leak(format!("{status}# {}\n", "x".repeat(4 << 10)).into_boxed_str());
    assert_eq!(ask(long, 1).await, GapKind::UnknownCa);
    assert_eq!(ask("[", 4000).await, GapKind::UnknownCa);
}

#[tokio::test]
async fn a_node_that_hangs() {
    let authority = Authority::new();
    let fake = Fake::new(&[("10.0.0.1", Machine::Hangs)]);
    let client = client(&authority, vec![serve(&authority, &fake).await], SHORT);
    let node = ask(&client, &["10.0.0.1"], &[], &ALL, &[0]).await;
    assert_eq!(node.contact, Err(Gap::new(GapKind::TimedOut, "no answer within 0.4s")));
    assert_eq!(node.services, Err(Gap::not_asked()));
}

/// A worker that is silent occupies no more than its first calls, unless the cluster is small.
#[tokio::test]
async fn the_facts_of_a_worker_are_read_ahead_in_a_small_cluster() {
    let authority = Authority::new();
    let facts = BTreeSet::from([Fact::MachineStatus, Fact::Services]);
    let addresses = ["10.0.0.1".to_owned()];
    for (machines, role, is_read) in
        [(128, Role::Worker, true), (129, Role::Worker, false), (128, Role::Unknown, false)]
    {
        let fake = Fake::new(&[("10.0.0.1", Machine::Hangs)]);
        let client = client(&authority, vec![serve(&authority, &fake).await], SHORT);
        client.expect(machines);
        let ask = NodeAsk { name: "w-1", addresses: &addresses, expected: &[], role, lane: Lane::Normal };
        let node = client.node(&ask, &facts, &[0], Instant::now() + LONG).await;
        assert_eq!(node.contact, Err(Gap::new(GapKind::TimedOut, "no answer within 0.4s")));
        assert_eq!(node.services, Err(Gap::not_asked()), "nothing of a machine that is not identified");
        let seen = fake.seen.lock().unwrap();
        assert_eq!(seen.contains(&"ServiceList 10.0.0.1 prod".to_owned()), is_read, "{machines} {role:?}: {seen:?}");
    }
}

#[tokio::test]
async fn equal_lists_of_machines_are_kept_once() {
    let authority = Authority::new();
    let machine = |of| Machine::Says(of, 1);
    let fake = Fake::new(&[("", machine("nodeId: x\naddresses: []\nhostname: w-1\nmachineType: worker\n"))]);
    let client = client(&authority, vec![serve(&authority, &fake).await], LONG);
    let listed = async || client.endpoint(0, Instant::now() + LONG).await.members.unwrap();
    let (first, again) = (listed().await, listed().await);
    assert_eq!(first.as_ptr(), again.as_ptr());
    let other = machine("nodeId: x\naddresses: []\nhostname: w-2\nmachineType: worker\n");
    *fake.machines.lock().unwrap() = [(String::new(), other)].into();
    assert_eq!((first[0].hostname.as_str(), listed().await[0].hostname.as_str()), ("w-1", "w-2"));
}

#[tokio::test]
async fn what_apid_says_of_a_node() {
    let authority = Authority::new();
    let fake = Fake::new(&[("10.0.0.2", Machine::Refuses(Code::PermissionDenied, "no request forwarding"))]);
    let client = client(&authority, vec![serve(&authority, &fake).await], LONG);
    let gap = ask(&client, &["10.0.0.2"], &[], &[], &[0]).await.contact.unwrap_err();
    assert_eq!(gap, Gap::new(GapKind::NoForwarding, "no request forwarding"));
    let gap = ask(&client, &["10.0.0.9"], &[], &[], &[0]).await.contact.unwrap_err();
    assert_eq!(gap, Gap::new(GapKind::NodeUnreachable, "dial tcp 10.0.0.9:50000: no route to host"));
    assert_eq!(ask(&client, &["10.0.0.1"], &[], &[], &[]).await.contact.unwrap_err().kind, GapKind::NotAsked);
    assert_eq!(ask(&client, &[], &[], &[], &[0]).await.contact.unwrap_err().kind, GapKind::NotAsked);
    assert_eq!(ask(&client, &["a\nb"], &[], &[], &[0]).await.contact.unwrap_err().kind, GapKind::Malformed);
}

#[tokio::test]
async fn another_endpoint_is_tried() {
    let authority = Authority::new();
    let good = Fake::new(&[("10.0.0.1", Machine::Named("cp-1"))]);
    for bad in [Machine::Hangs, Machine::Refuses(Code::PermissionDenied, "no request forwarding")] {
        let bad = Fake::new(&[("10.0.0.1", bad)]);
        let endpoints = vec![serve(&authority, &bad).await, serve(&authority, &good).await];
        let expected = endpoints[1].shown.clone();
        let client = client(&authority, endpoints, LONG);
        assert_eq!(ask(&client, &["10.0.0.1"], &["cp-1"], &[], &[0, 1]).await.contact.unwrap().endpoint, expected);
    }
}

/// The first of two endpoints is silent about a node that answers through the second one, once or always.
#[tokio::test]
async fn an_endpoint_is_cut_off_only_if_the_other_one_still_answers() {
    let authority = Authority::new();
    let silent = Fake::new(&[("10.0.0.1", Machine::Hangs)]);
    for still_answers in [true, false] {
        let good = Fake::new(&[("10.0.0.1", Machine::Named("cp-1"))]);
        // The order in which they are tried is given by a hash of their names.
        let named = |name: &str, it: EndpointAddress| EndpointAddress { shown: name.to_owned(), ..it };
        let endpoints =
            vec![named("first", serve(&authority, &silent).await), named("second", serve(&authority, &good).await)];
        let client = client(&authority, endpoints, Duration::from_secs(3));
        let falls_silent = async {
            while good.seen.lock().unwrap().len() < 3 && !still_answers {
                tokio::task::yield_now().await;
            }
            if !still_answers {
                good.machines.lock().unwrap().insert("10.0.0.1".to_owned(), Machine::Hangs);
            }
        };
        let (node, ()) = tokio::join!(ask(&client, &["10.0.0.1"], &["cp-1"], &[], &[0, 1]), falls_silent);
        let contact = node.contact.unwrap();
        assert_eq!(contact.endpoint, "second");
        assert_eq!(contact.not_through, ["first"][..usize::from(still_answers)]);
    }
}

#[tokio::test]
async fn the_right_one_of_several_addresses() {
    let authority = Authority::new();
    let fake = Fake::new(&[("10.0.0.100", Machine::Named("cp-2")), ("10.0.0.1", Machine::Named("cp-1"))]);
    let client = client(&authority, vec![serve(&authority, &fake).await], LONG);
    let contact = ask(&client, &["10.0.0.100", "10.0.0.9", "10.0.0.1"], &["cp-1"], &[], &[0]).await.contact.unwrap();
    assert_eq!((contact.address.as_str(), contact.answered_by_other), ("10.0.0.1", None));
    let contact = ask(&client, &["10.0.0.100", "10.0.0.9"], &["cp-1"], &[], &[0]).await.contact.unwrap();
    assert_eq!(contact.answered_by_other.as_deref(), Some("cp-2"));
}

#[tokio::test]
async fn a_lost_connection_is_opened_anew() {
    let authority = Authority::new();
    let leaf = authority.server("127.0.0.1", |_| {});
    let upstream = Fake::new(&[("", Machine::Named("cp-1"))]).serve(tls(&leaf, Some(&authority), true)).await;
    let front = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = client(&authority, vec![address(front.local_addr().unwrap())], LONG);
    for _ in 0..2 {
        let forward = async {
            let (mut down, _) = front.accept().await.unwrap();
            let mut up = tokio::net::TcpStream::connect((upstream.host.as_str(), upstream.port)).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut down, &mut up).await;
        };
        tokio::select! {
            answer = client.endpoint(0, Instant::now() + LONG) => assert!(answer.endpoint.version.is_ok()),
            () = forward => panic!("the connection ended first"),
        }
        // Dropping the forwarder here also closes the connection.
    }
}

#[tokio::test]
async fn kubeconfig_from_the_endpoint_that_gives_one() {
    let authority = Authority::new();
    let worker = Machine::Refuses(Code::Unimplemented, "kubeconfig is only available on control plane nodes");
    let worker = serve(&authority, &Fake::new(&[("", worker)])).await;
    let good = serve(&authority, &Fake::new(&[("", Machine::Named("cp-1"))])).await;
    let reader = Machine::Refuses(Code::PermissionDenied, "not authorized");
    let reader = serve(&authority, &Fake::new(&[("", reader)])).await;
    let client = client(&authority, vec![worker, good, reader], LONG);
    assert_eq!(client.kubeconfig(&[0, 1], Instant::now() + LONG).await.unwrap(), "kind: Config\n");
    assert_eq!(client.kubeconfig(&[2, 1], Instant::now() + LONG).await.unwrap_err().kind, GapKind::Forbidden);
}

#[tokio::test]
async fn through_proxies() {
    let authority = Authority::new();
    let target = serve(&authority, &Fake::new(&[("", Machine::Named("cp-1"))])).await;
    let front = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (host, port) = ("127.0.0.1".to_owned(), front.local_addr().unwrap().port());

    let login = Some(("user".to_owned(), "pass".to_owned()));
    let authorization = Some("Basic dXNlcjpwYXNz".to_owned());
    let via = Proxy::Http { host: host.clone(), port, authorization };
    let refused = client(&authority, vec![EndpointAddress { via: via.clone(), ..target.clone() }], LONG);
    let (gap, ()) = tokio::join!(version_gap(&refused), async {
        let (mut stream, _) = front.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let length = stream.read(&mut request).await.unwrap();
        let request = String::from_utf8_lossy(&request[..length]).into_owned();
        assert!(request.starts_with(&format!("CONNECT 127.0.0.1:{} HTTP/1.1\r\n", target.port)), "{request}");
        assert!(request.contains("Proxy-Authorization: Basic dXNlcjpwYXNz\r\n"), "{request}");
        stream.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").await.unwrap();
    });
    assert_eq!(gap, Gap::new(GapKind::Proxy, format!("proxy 127.0.0.1:{port}: it answered 403 Forbidden")));

    for via in [via, Proxy::Socks5 { host, port, login }] {
        let client = client(&authority, vec![EndpointAddress { via: via.clone(), ..target.clone() }], LONG);
        let proxy = async {
            let (mut down, _) = front.accept().await.unwrap();
            let mut bytes = [0; 4096];
            if matches!(via, Proxy::Socks5 { .. }) {
                down.read_exact(&mut bytes[..4]).await.unwrap();
                assert_eq!(bytes[..4], [5, 2, 0, 2]);
                down.write_all(&[5, 2]).await.unwrap();
                down.read_exact(&mut bytes[..11]).await.unwrap();
                assert_eq!(&bytes[..11], b"\x01\x04user\x04pass");
                down.write_all(&[1, 0]).await.unwrap();
                down.read_exact(&mut bytes[..10]).await.unwrap();
                assert_eq!(bytes[..8], [5, 1, 0, 1, 127, 0, 0, 1]);
                down.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
            } else {
                let _ = down.read(&mut bytes).await.unwrap();
                down.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            }
            let mut up = tokio::net::TcpStream::connect((target.host.as_str(), target.port)).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut down, &mut up).await;
        };
        tokio::select! {
            answer = client.endpoint(0, Instant::now() + LONG) => assert!(answer.endpoint.version.is_ok()),
            () = proxy => panic!("the proxy ended first"),
        }
    }
}

#[tokio::test]
async fn futures_are_small_and_can_be_spawned() {
    fn sendable<T: Send>(_: &T) {}
    let authority = Authority::new();
    let client = client(&authority, vec![], LONG);
    let ask = NodeAsk { name: "", addresses: &[], expected: &[], role: Role::Unknown, lane: Lane::Normal };
    let facts = BTreeSet::new();
    let node = client.node(&ask, &facts, &[], Instant::now());
    sendable(&node);
    assert!(size_of_val(&node) < 32 << 10, "{}", size_of_val(&node));
}

#[test]
fn credentials_that_cannot_be_used() {
    let authority = Authority::new();
    let config = |client| Config {
        endpoints: vec![],
        roots: Roots::Own(vec![authority.certificate()]),
        client,
        account: None,
        cluster: None,
        timeout: SHORT,
    };
    let error = |config| TalosClient::new(config).err().map(|error| error.to_string()).unwrap();
    let mut mismatch = authority.client();
    mismatch.key = Authority::new().client().key.clone_key();
    assert_eq!(error(config(Some(mismatch))), "cannot use the client certificate and key");
    let mut cluster = config(None);
    cluster.cluster = Some("a\nb".to_owned());
    assert_eq!(error(cluster), "cannot send the cluster name");
}
