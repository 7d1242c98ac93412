//! Delays in the network.

use std::ops::Range;

use tokio::time::Instant;

use super::*;

const ROUND_TRIP: Duration = Duration::from_millis(100);

/// Checks that an attempt takes this number of round trips. A busy computer, which adds time, gets several tries.
async fn takes(round_trips: Range<u32>, mut attempt: impl AsyncFnMut()) {
    for _ in 0..20 {
        let started = Instant::now();
        attempt().await;
        let took = started.elapsed();
        assert!(took >= ROUND_TRIP * round_trips.start, "{took:?}");
        if took < ROUND_TRIP * round_trips.end {
            return;
        }
    }
    panic!("it never took less than {} round trips", round_trips.end);
}

#[tokio::test]
async fn every_round_trip_costs_the_delay_once() {
    let cluster = Cluster::start();
    let server = cluster.apid(0);
    cluster.ask(&server).await.unwrap();
    cluster.change(|world| world.delay = ROUND_TRIP);
    // TCP, the TLS 1.3 handshake, and the request.
    takes(3..4, async || drop(cluster.ask(&server).await.unwrap())).await;
    let connection = Http2::over(cluster.connect(&server).await.unwrap()).await;
    let ask = async || drop(connection.clone().ask("/").await.unwrap());
    ask().await;
    takes(1..2, ask).await;
    cluster.change(|world| world.delay = Duration::ZERO);
    takes(0..1, ask).await;
}

#[tokio::test]
async fn what_is_asked_together_is_answered_together() {
    let cluster = Cluster::start();
    let server = cluster.apid(0);
    cluster.spoil(&server, Transport::Delay(ROUND_TRIP));
    let connection = Http2::over(cluster.connect(&server).await.unwrap()).await;
    connection.clone().ask("/").await.unwrap();
    let ask_all = async || {
        let questions = (0..100).map(|_| {
            let mut connection = connection.clone();
            async move { connection.ask("/").await.unwrap() }
        });
        futures::future::join_all(questions).await;
    };
    takes(1..3, ask_all).await;
}

#[tokio::test]
async fn what_the_balancer_forwards_is_delayed_once() {
    let cluster = Cluster::start();
    cluster.change(|world| world.delay = ROUND_TRIP);
    takes(3..4, async || drop(cluster.ask(&Server::Balancer).await.unwrap())).await;
}

#[tokio::test]
async fn bytes_can_come_one_at_a_time() {
    let cluster = Cluster::start();
    let server = cluster.apid(0);
    let mut connection = Http2::over(cluster.connect(&server).await.unwrap()).await;
    connection.ask("/").await.unwrap();
    cluster.spoil(&server, Transport::Drip(Duration::from_millis(2)));
    let started = Instant::now();
    connection.ask("/").await.unwrap();
    // Even an empty TLS record has 22 bytes.
    assert!(started.elapsed() > Duration::from_millis(2 * 22));
}

#[tokio::test]
async fn a_connection_can_end_after_some_answers() {
    let cluster = Cluster::start();
    let server = cluster.apid(0);
    cluster.spoil(&server, Transport::CloseAfter(2));
    let mut connection = Http2::over(cluster.connect(&server).await.unwrap()).await;
    connection.ask("/").await.unwrap();
    connection.ask("/").await.unwrap();
    connection.ask("/").await.unwrap_err();
    cluster.ask(&server).await.unwrap();
}
