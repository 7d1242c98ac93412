//! Certificates, protocols and clocks.

use super::*;

#[tokio::test]
async fn every_flaw_of_a_certificate_is_what_a_client_sees() {
    let cluster = Cluster::start();
    let server = cluster.api_server(0);
    let cases = [
        (Transport::WrongCa, "UnknownIssuer"),
        (Transport::Expired, "certificate expired"),
        (Transport::NotYetValid, "not valid yet"),
        (Transport::WrongName, "not valid for name"),
    ];
    for (transport, said) in cases {
        cluster.spoil(&server, transport);
        let error = cluster.connect(&server).await.unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    cluster.heal(&server);
    cluster.ask(&server).await.unwrap();
}

#[tokio::test]
async fn the_certificates_of_a_cluster_are_dated_by_its_clock() {
    let cluster = Cluster::start();
    let server = cluster.apid(0);
    let error = async |ahead| {
        cluster.change(|world| world.clock_ahead = ahead);
        cluster.connect(&server).await.unwrap_err().to_string()
    };
    let hour = 60 * 60;
    assert!(error(hour).await.contains("not valid yet"));
    assert!(error(-25 * hour).await.contains("expired"));
    // Certificates of the other servers were issued before the clock was changed.
    cluster.connect(&cluster.api_server(0)).await.unwrap();
    cluster.change(|world| world.clock_ahead = -23 * hour);
    cluster.connect(&server).await.unwrap();
}

#[tokio::test]
async fn a_client_is_judged_by_the_clusters_clock() {
    let cluster = Cluster::start();
    let server = cluster.apid(0);
    let client = |flaw| {
        let talos = &cluster.state.pki.talos;
        client(talos.pem(), Some(&talos.client("somebody", &[], flaw).unwrap()))
    };
    // In TLS 1.3, a server rejects a client after the client has finished the handshake.
    let refused = async |client| {
        let mut connection = Http2::over(cluster.secure(&server, client).await.unwrap()).await;
        connection.ask("/").await.is_err()
    };
    assert!(!refused(client(Flaw::None)).await);
    assert!(refused(client(Flaw::Expired)).await);
    // On 2020-07-01, the client's certificate is valid, and the server's has long expired.
    let then: jiff::Timestamp = "2020-07-01T00:00:00Z".parse().unwrap();
    cluster.change(|world| world.clock_ahead = then.as_second() - jiff::Timestamp::now().as_second());
    let mut trusting = client(Flaw::Expired);
    trusting.time_provider = Arc::new(At(then));
    assert!(!refused(trusting).await);
}

#[derive(Debug)]
struct At(jiff::Timestamp);

impl rustls::time_provider::TimeProvider for At {
    fn current_time(&self) -> Option<rustls::pki_types::UnixTime> {
        let since = Duration::from_secs(self.0.as_second().try_into().unwrap()) + Duration::from_secs(60);
        Some(rustls::pki_types::UnixTime::since_unix_epoch(since))
    }
}

#[tokio::test]
async fn who_may_come_without_a_certificate() {
    let cluster = Cluster::start();
    let nobody = async |server: &Server, authority: &str| {
        let mut connection = Http2::over(cluster.secure(server, client(authority, None)).await.unwrap()).await;
        connection.ask("/peer").await
    };
    let pki = &cluster.state.pki;
    assert!(nobody(&cluster.apid(0), pki.talos.pem()).await.is_err());
    assert!(nobody(&Server::Etcd(cluster.network.machine(0)), pki.etcd.pem()).await.is_err());
    let nameless = " of []";
    assert_eq!(nobody(&cluster.api_server(0), pki.kubernetes.pem()).await.unwrap(), nameless);

    cluster.change(|world| world.machine_mut("cp-1").maintenance = true);
    assert_eq!(nobody(&cluster.apid(0), pki.maintenance.pem()).await.unwrap(), nameless);
    let error = cluster.connect(&cluster.apid(0)).await.unwrap_err().to_string();
    assert!(error.contains("UnknownIssuer"), "{error}");
}

#[tokio::test]
async fn a_certificate_tells_who_asks() {
    let cluster = Cluster::start();
    let mut connection = Http2::over(cluster.connect(&cluster.apid(0)).await.unwrap()).await;
    assert_eq!(connection.ask("/peer").await.unwrap(), r#"somebody of ["os:reader"]"#);
}

#[tokio::test]
async fn protocols_are_negotiated_unless_that_is_what_is_broken() {
    let cluster = Cluster::start();
    let server = cluster.apid(0);
    let negotiated = async || cluster.connect(&server).await.unwrap().get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
    assert_eq!(negotiated().await.unwrap(), b"h2");
    cluster.spoil(&server, Transport::NoAlpn);
    assert_eq!(negotiated().await, None);
    cluster.ask(&server).await.unwrap();
}

#[tokio::test]
async fn sessions_are_not_resumed() {
    let cluster = Cluster::start();
    let server = cluster.api_server(0);
    let client = cluster.client(&server);
    for _ in 0..2 {
        let stream = cluster.secure(&server, client.clone()).await.unwrap();
        assert_eq!(stream.get_ref().1.handshake_kind(), Some(rustls::HandshakeKind::Full));
    }
}
