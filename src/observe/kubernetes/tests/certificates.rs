//! Certificates: those that the client trusts, and those that it presents.

use super::*;

#[tokio::test]
async fn an_unknown_ca_gets_no_credentials() {
    let (ours, theirs) = (Pki::new(), Pki::new());
    let server = good(&theirs, |_| http("200 OK", "", READY)).await;
    let mut config = ours.config(&server.url());
    config.auth_info.token = Some("s3cret".to_owned().into());
    assert_eq!(both(config.clone(), CALL).await, GapKind::UnknownCa);
    let direct = client(config, CALL).await.server("127.0.0.1", server.port).await;
    assert_eq!(direct.unwrap_err().kind, GapKind::UnknownCa);
    assert!(server.connections() >= 3);
    assert_eq!(server.heads(), Vec::<String>::new(), "no byte of HTTP was sent");
}

#[tokio::test]
async fn without_a_ca_no_machine_is_trusted() {
    let pki = Pki::new();
    let server = good(&pki, |_| http("200 OK", "", READY)).await;
    let mut config = pki.config(&server.url());
    config.root_cert = None;
    // The system's roots vouch for the server of the kubeconfig, and for no other.
    let system = Roots::OfSystem(vec![CertificateDer::from(pki.ca_der())]);
    let client = KubeClient::new(config, direct(), &system, credentials(&server.url()), CALL).await.unwrap();
    let gap = client.server("127.0.0.1", server.port).await.unwrap_err();
    assert_eq!((gap.kind, server.connections()), (GapKind::Untrusted, 0));
    let facts = BTreeSet::from([Fact::EndpointReadyz]);
    let seen = client.observe(&facts, &KnownLeases::default(), true).await;
    assert_eq!(seen.endpoint.map(|readyz| readyz.status), Ok(200));
}

/// A public authority does not vouch for a server if the kubeconfig names a CA.
#[tokio::test]
async fn with_a_ca_the_roots_of_the_system_do_not_count() {
    let (pki, public) = (Pki::new(), Pki::new());
    let leaf = public.issue(&["127.0.0.1", SERVICE], |_| {});
    let server = serve(public.tls(&leaf, Clients::Optional, &[]), |_| http("200 OK", "", READY)).await;
    assert_eq!(both(pki.config(&server.url()), CALL).await, GapKind::UnknownCa);
    assert!(server.heads().is_empty());
}

#[tokio::test]
async fn certificates_are_refused_each_for_its_own_reason() {
    let pki = Pki::new();
    let year = |year| move |params: &mut rcgen::CertificateParams| params.not_after = rcgen::date_time_ymd(year, 1, 1);
    for (names, end, kind) in
        [(["127.0.0.2"], 4000, GapKind::NameNotInCertificate), (["127.0.0.1"], 2020, GapKind::PeerCertificateExpired)]
    {
        let tls = pki.tls(&pki.issue(&names, year(end)), Clients::Optional, &[]);
        let server = serve(tls, |_| http("200 OK", "", READY)).await;
        assert_eq!(both(pki.config(&server.url()), CALL).await, kind);
        assert!(server.heads().is_empty());
    }
}

#[tokio::test]
async fn tls_server_name_is_for_the_endpoint_alone() {
    let pki = Pki::new();
    let tls = pki.tls(&pki.issue(&["k8s.example"], |_| {}), Clients::Optional, &[]);
    let server =
        serve(
            tls,
            |head| {
                if head.starts_with("GET /readyz") { http("200 OK", "", READY) } else { node_list("", &["cp-1"]) }
            },
        )
        .await;
    let mut config = pki.config(&server.url());
    config.tls_server_name = Some("k8s.example".to_owned());
    assert_eq!(readyz(config.clone(), CALL).await.unwrap().status, 200);
    assert_eq!(nodes(config.clone(), CALL).await.unwrap().len(), 1);
    let direct = client(config, CALL).await.server("127.0.0.1", server.port).await;
    assert_eq!(direct.unwrap_err().kind, GapKind::NameNotInCertificate);
}

/// Tests both ways of verification: under the dialed name, and under another.
#[tokio::test]
async fn the_certificate_of_the_server_is_seen() {
    let pki = Pki::new();
    let leaf = pki.issue(&["127.0.0.1", "k8s.example"], |params| {
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2999, 1, 1);
    });
    let server = serve(pki.tls(&leaf, Clients::Optional, &[]), |_| http("500 Internal Server Error", "", "")).await;
    for name in [None, Some("k8s.example".to_owned())] {
        let mut config = pki.config(&server.url());
        config.tls_server_name = name;
        let seen = readyz(config, CALL).await.unwrap().certificate.unwrap();
        let seen = (seen.not_before.to_string(), seen.not_after.to_string());
        assert_eq!(seen, ("2026-01-01T00:00:00Z".to_owned(), "2999-01-01T00:00:00Z".to_owned()));
    }
}

#[tokio::test]
async fn a_demanded_client_certificate_that_is_missing_is_told() {
    let pki = Pki::new();
    let tls = pki.tls(&pki.issue(&["127.0.0.1"], |_| {}), Clients::Demanded, &[]);
    let server = serve(tls, |_| http("200 OK", "", READY)).await;
    assert_eq!(both(pki.config(&server.url()), CALL).await, GapKind::ClientCertificateRefused);
}

/// Go trusts such certificates too: balancers present self-made certificates, which `openssl req -x509` marks as CAs.
#[tokio::test]
async fn what_is_trusted_itself_needs_nobody_to_vouch_for_it() {
    let pki = Pki::new();
    let own = || {
        let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        Leaf { certificate: params.self_signed(&key).unwrap(), key }
    };
    let balancer = own();
    for (trusted, kind) in [(&balancer, None), (&own(), Some(GapKind::UnknownCa))] {
        let server = serve(pki.tls(&balancer, Clients::Optional, &[]), |_| http("200 OK", "", READY)).await;
        let mut config = pki.config(&server.url());
        config.root_cert = Some(vec![trusted.certificate.der().to_vec()]);
        assert_eq!(readyz(config.clone(), CALL).await.err().map(|gap| gap.kind), kind);
        let machine = client(config.clone(), CALL).await.server("127.0.0.1", server.port).await;
        assert!(machine.is_err(), "an API server has more names than that");
        config.tls_server_name = Some("other.example".to_owned());
        assert!(readyz(config, CALL).await.is_err(), "the name counts");
    }
}

#[tokio::test]
async fn a_ca_that_has_ended_vouches_for_nobody() {
    let ended = Pki::valid_until(2020);
    let leaf = ended.issue(&["127.0.0.1", SERVICE], |_| {});
    let server = serve(ended.tls(&leaf, Clients::Optional, &[]), |_| http("200 OK", "", READY)).await;
    let mut config = ended.config(&server.url());
    let alone = opened(config.clone(), direct(), CALL).await;
    assert_eq!(alone.err().map(|gap| gap.kind), Some(GapKind::UnknownCa));
    config.root_cert.as_mut().unwrap().push(Pki::new().ca_der());
    assert_eq!(both(config, CALL).await, GapKind::UnknownCa, "beside one that counts");
    assert!(server.heads().is_empty());
}
