//! Machines and processes that stop and start.

use std::io::ErrorKind;

use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use super::*;
use crate::world::{Power, Process};

#[tokio::test]
async fn a_machine_that_is_off_refuses_and_serves_again_when_it_is_on() {
    let cluster = Cluster::start();
    let server = cluster.apid(0);
    let mut tcp = cluster.dial(&server).await.unwrap();
    let mut used = Http2::over(cluster.connect(&server).await.unwrap()).await;
    used.ask("/").await.unwrap();
    for _ in 0..3 {
        cluster.change(|world| world.machine_mut("cp-1").power = Power::Off);
        assert_eq!(cluster.dial(&server).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(cluster.dial(&cluster.api_server(0)).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        cluster.ask(&cluster.apid(1)).await.unwrap();
        cluster.change(|world| world.machine_mut("cp-1").power = Power::On);
        cluster.ask(&server).await.unwrap();
    }
    assert_eq!(timeout(SOON, tcp.read_u8()).await.unwrap().unwrap_err().kind(), ErrorKind::ConnectionReset);
    timeout(SOON, used.ask("/")).await.unwrap().unwrap_err();
}

#[tokio::test]
async fn packets_to_an_unplugged_machine_vanish() {
    let cluster = Cluster::start();
    let server = cluster.apid(0);
    let mut used = Http2::over(cluster.connect(&server).await.unwrap()).await;
    used.ask("/").await.unwrap();
    cluster.change(|world| world.machine_mut("cp-1").power = Power::Unplugged);
    for _ in 0..3 {
        assert!(timeout(NEVER, cluster.dial(&server)).await.is_err());
    }
    assert!(used.is_silent().await);
    cluster.change(|world| world.machine_mut("cp-1").power = Power::On);
    cluster.ask(&server).await.unwrap();
    assert!(used.is_silent().await, "what it was in the middle of is forgotten");
    cluster.change(|world| world.machine_mut("cp-1").power = Power::Off);
    timeout(SOON, used.ask("/")).await.unwrap().unwrap_err();
}

#[tokio::test]
async fn a_black_hole_swallows_the_very_first() {
    let cluster = Cluster::start();
    let server = cluster.apid(0);
    for _ in 0..10 {
        cluster.spoil(&server, Transport::Blackhole);
        assert!(timeout(NEVER / 10, cluster.dial(&server)).await.is_err());
        cluster.spoil(&server, Transport::Refuse);
        assert_eq!(cluster.dial(&server).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }
    cluster.heal(&server);
    cluster.ask(&server).await.unwrap();
}

#[tokio::test]
async fn who_waits_at_a_black_hole_is_served_when_it_is_gone() {
    let cluster = Cluster::start();
    let server = cluster.apid(0);
    cluster.spoil(&server, Transport::Blackhole);
    let mut waiting = Box::pin(cluster.ask(&server));
    assert!(timeout(NEVER, &mut waiting).await.is_err());
    cluster.heal(&server);
    waiting.await.unwrap();
}

#[tokio::test]
async fn a_frozen_process_leaves_the_kernel_alone() {
    let cluster = Cluster::start();
    let server = cluster.api_server(0);
    let mut used = Http2::over(cluster.connect(&server).await.unwrap()).await;
    used.ask("/").await.unwrap();
    let process = |process| {
        cluster.change(|world| world.machine_mut("cp-1").api_server.as_mut().unwrap().process = process);
    };
    process(Process::Frozen);
    assert!(is_silent(&mut cluster.dial(&server).await.unwrap()).await);
    assert!(timeout(NEVER, cluster.connect(&server)).await.is_err(), "not even TLS");
    assert!(used.is_silent().await);
    process(Process::Stopped);
    assert_eq!(cluster.dial(&server).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    timeout(SOON, used.ask("/")).await.unwrap().unwrap_err();
    process(Process::Running);
    cluster.ask(&server).await.unwrap();
}

#[tokio::test]
async fn a_server_can_be_silent_before_and_after_the_handshake() {
    let cluster = Cluster::start();
    let server = cluster.apid(0);
    let mut used = Http2::over(cluster.connect(&server).await.unwrap()).await;
    used.ask("/").await.unwrap();
    cluster.spoil(&server, Transport::Silent);
    assert!(timeout(NEVER, cluster.connect(&server)).await.is_err());
    cluster.spoil(&server, Transport::SilentInTls);
    assert!(Http2::over(cluster.connect(&server).await.unwrap()).await.is_silent().await);
    assert!(used.is_silent().await);
}

#[tokio::test]
async fn some_servers_speak_something_else() {
    let cluster = Cluster::start();
    let server = cluster.apid(0);
    let error = async |transport| {
        cluster.spoil(&server, transport);
        cluster.connect(&server).await.unwrap_err()
    };
    for transport in [Transport::PlainHttp, Transport::Garbage] {
        assert!(error(transport).await.to_string().contains("InvalidContentType"));
    }
    assert_eq!(error(Transport::Close).await.kind(), ErrorKind::UnexpectedEof);
    let mut closed = cluster.dial(&server).await.unwrap();
    assert_eq!(closed.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn addresses_are_free_again_when_a_cluster_has_ended() {
    let network = Network::claim().unwrap();
    let world = || World::healthy(&network, &Shape::default());
    let again = || {
        let at = SocketAddr::new(network.machine(0), APID);
        let state = Arc::new(ClusterState::new(world(), Pki::new().unwrap(), network.balancer()));
        let ports = Ports::default();
        ports.open(&state, vec![Service::new(Server::Apid(at.ip()), "host", at, answering("it"))]).unwrap();
        ports
    };
    let first = again();
    let held = TcpStream::connect((network.machine(0), APID)).await.unwrap();
    first.close();
    let second = again();
    drop(held);
    second.close();
}
