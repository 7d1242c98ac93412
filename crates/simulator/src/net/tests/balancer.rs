//! The endpoint of the kubeconfig.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use tokio::io::AsyncReadExt as _;

use super::*;
use crate::world::{Power, Process};

#[tokio::test]
async fn takes_turns_with_all_that_take_connections() {
    let cluster = Cluster::start();
    let answered = async || cluster.ask(&Server::Balancer).await.unwrap();
    let both: BTreeSet<_> = [answered().await, answered().await].into_iter().collect();
    assert_eq!(both.len(), 2);

    cluster.change(|world| world.machine_mut("cp-1").power = Power::Off);
    let second = cluster.network.machine(1).to_string();
    assert_eq!([answered().await, answered().await], [second.clone(), second]);

    cluster.spoil(&cluster.api_server(1), Transport::Blackhole);
    let mut tcp = cluster.dial(&Server::Balancer).await.unwrap();
    assert_eq!(tcp.read(&mut [0]).await.unwrap(), 0, "nobody is there");
}

#[tokio::test]
async fn takes_a_frozen_server_for_a_good_one() {
    let cluster = Cluster::start();
    cluster.change(|world| world.machine_mut("cp-1").api_server.as_mut().unwrap().process = Process::Frozen);
    let (first, second) = (cluster.ask(&Server::Balancer), cluster.ask(&Server::Balancer));
    let asked = futures::future::select(Box::pin(first), Box::pin(second));
    let (answer, other) = timeout(SOON, asked).await.unwrap().factor_first();
    assert_eq!(answer.unwrap(), cluster.network.machine(1).to_string());
    assert!(timeout(NEVER, other).await.is_err());
}

#[tokio::test]
async fn connections_through_it_end_with_the_server_behind_it() {
    let cluster = Cluster::start();
    cluster.change(|world| world.machine_mut("cp-2").power = Power::Off);
    let mut tcp = cluster.connect(&Server::Balancer).await.unwrap();
    cluster.change(|world| world.machine_mut("cp-1").power = Power::Off);
    assert_eq!(timeout(SOON, tcp.read_u8()).await.unwrap().unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn has_faults_of_its_own() {
    let cluster = Cluster::start();
    let (direct, balancer) = (cluster.api_server(0), Server::Balancer);
    cluster.spoil(&balancer, Transport::Refuse);
    assert_eq!(cluster.dial(&balancer).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    cluster.spoil(&balancer, Transport::WrongCa);
    let error = cluster.connect(&balancer).await.unwrap_err().to_string();
    assert!(error.contains("UnknownIssuer"), "{error}");
    cluster.ask(&direct).await.unwrap();
}
