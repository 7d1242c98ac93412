//! The servers that receive a token. A compromised worker is never among them, whatever it claims and whatever certificate it presents.

use std::sync::atomic::AtomicU16;

use kube::config::AuthInfo;
use rcgen::{CertificateParams, DnType};

use super::super::testing::serve_at;
use super::*;
use crate::testing::fixture::readyz;

/// The address at which discovery reports a control plane.
const CLAIMED: &str = "127.0.0.2";
const TOKEN: &str = "0123456789abcdef-s3cret";

fn kubelet(params: &mut CertificateParams) {
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, "system:node:worker-1");
}

/// Starts a server at the claimed address, with a certificate of the cluster's CA for its address and for the API server's name.
async fn claimed(pki: &Pki, change: impl FnOnce(&mut CertificateParams)) -> Server {
    let leaf = pki.issue(&[CLAIMED, SERVICE], change);
    serve_at(CLAIMED, pki.tls(&leaf, Clients::Optional, &[]), |_| http("200 OK", "", READY)).await
}

/// Starts the kubeconfig's server, which lists these addresses as endpoints of default/kubernetes.
async fn endpoint(pki: &Pki, addresses: &'static [&'static str]) -> Server {
    endpoint_at(pki, addresses, Arc::new(AtomicU16::new(1))).await
}

/// Starts the same server with the port of the API servers, which becomes known later.
async fn endpoint_at(pki: &Pki, addresses: &'static [&'static str], port: Arc<AtomicU16>) -> Server {
    good(pki, move |head| {
        if !head.contains("/namespaces/default/endpointslices") {
            return http("200 OK", "", READY);
        }
        let endpoints: Vec<_> = addresses.iter().map(|it| serde_json::json!({"addresses": [it]})).collect();
        let slice = serde_json::json!([{
            "metadata": {"name": "k", "namespace": "default", "labels": {"kubernetes.io/service-name": "kubernetes"}},
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": [{"name": "https", "port": port.load(Ordering::Relaxed), "protocol": "TCP"}],
        }]);
        list("EndpointSliceList", "discovery.k8s.io/v1", "", &slice.to_string())
    })
    .await
}

async fn with_token(pki: &Pki, endpoint: &Server) -> KubeClient {
    let mut config = pki.config(&endpoint.url());
    config.auth_info.token = Some(TOKEN.to_owned().into());
    client(config, CALL).await
}

/// A signer for kubelets signs any name that an approver accepts.
#[tokio::test]
async fn a_kubelet_gets_no_credentials() {
    let pki = Pki::new();
    let only_name = |params: &mut CertificateParams| {
        params.distinguished_name.push(DnType::CommonName, "system:node:worker-1");
    };
    let only_group = |params: &mut CertificateParams| {
        params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    };
    // Even at an address that default/kubernetes lists.
    let port = Arc::new(AtomicU16::new(1));
    let endpoint = endpoint_at(&pki, &[CLAIMED], Arc::clone(&port)).await;
    for change in [kubelet, only_name, only_group] {
        let worker = claimed(&pki, change).await;
        port.store(worker.port, Ordering::Relaxed);
        let client = with_token(&pki, &endpoint).await;
        let gap = client.server(CLAIMED, worker.port).await.unwrap_err();
        assert_eq!(gap.kind, GapKind::NameNotInCertificate, "{}", gap.text);
        assert!(gap.text.contains("a kubelet's"), "{}", gap.text);
        assert!(worker.connections() > 0);
        assert_eq!(worker.heads(), Vec::<String>::new(), "no byte of HTTP was sent");
    }
    // The attack also fails behind the address in the kubeconfig, which may be a virtual IP that anyone on the network can take over.
    let taken = serve(pki.tls(&pki.issue(&["127.0.0.1", SERVICE], kubelet), Clients::Optional, &[]), |_| {
        http("200 OK", "", READY)
    })
    .await;
    assert_eq!(both(pki.config(&taken.url()), CALL).await, GapKind::NameNotInCertificate);
    assert_eq!(taken.heads(), Vec::<String>::new());
}

/// Tests all routes of a probe. A certificate without the API server's name is the one that kubelets have by default.
#[tokio::test]
async fn the_names_of_the_certificate_count_on_every_way() {
    let pki = Pki::new();
    let worker = pki.tls(&pki.issue(&["127.0.0.1", "worker-1"], |_| {}), Clients::Optional, &[]);
    let server = serve(worker, |_| http("200 OK", "", READY)).await;
    let proxy = proxy(&format!("127.0.0.1:{}", server.port), server.port, false).await;
    for routes in [direct(), fixed(&format!("http://{proxy}"))] {
        let config = pki.config_with_certificate(&server.url());
        let client = opened(config, routes, CALL).await.unwrap();
        let gap = client.server("127.0.0.1", server.port).await.unwrap_err();
        assert_eq!(gap.kind, GapKind::NameNotInCertificate, "{}", gap.text);
        assert!(gap.text.contains(SERVICE), "{}", gap.text);
    }
    assert!(server.connections() >= 2);
    assert_eq!(server.heads(), Vec::<String>::new(), "no byte of HTTP was sent");
}

/// k3s issues kubelet certificates without an organization and with the node's name: a node called `kubernetes.default.svc` would pass by
/// its names alone.
#[tokio::test]
async fn an_address_that_is_only_claimed_gets_no_credentials() {
    let pki = Pki::new();
    for listed in [&[][..], &["127.0.0.1"], &["127.0.0.20"], &["127.0.0.1", "127.0.0.3"]] {
        let endpoint = endpoint(&pki, listed).await;
        let worker = claimed(&pki, |_| {}).await;
        let client = with_token(&pki, &endpoint).await;
        let gap = client.server(CLAIMED, worker.port).await.unwrap_err();
        assert_eq!(gap.kind, GapKind::Untrusted, "{}", gap.text);
        assert!(gap.text.contains(&format!("{CLAIMED}:{}", worker.port)), "{}", gap.text);
        let answered = readyz(&format!("{}/", worker.url()));
        let metrics = client.requested_apis("worker-1", &answered).await;
        assert_eq!(metrics.unwrap_err().kind, GapKind::Untrusted);
        assert!(worker.connections() > 0, "the handshake shows whether an API server is there");
        assert_eq!(worker.heads(), Vec::<String>::new(), "no byte of HTTP was sent");
    }
}

/// Without etcd's quorum nothing can be listed, so no list vouches for any server. The kubeconfig's own server can still be queried.
#[tokio::test]
async fn the_server_that_the_user_named_needs_nobody_else() {
    let pki = Pki::new();
    let endpoint = good(&pki, |_| http("500 Internal Server Error", "", "")).await;
    let client = with_token(&pki, &endpoint).await;
    let answer = client.server("127.0.0.1", endpoint.port).await;
    assert_eq!(answer.map(|readyz| readyz.status), Ok(500), "it was asked, with the token");
    let worker = claimed(&pki, |_| {}).await;
    let gap = client.server(CLAIMED, worker.port).await.unwrap_err();
    assert_eq!(gap.kind, GapKind::Untrusted, "{}", gap.text);
}

/// The outcome at the claimed address is still reported.
#[tokio::test]
async fn a_claimed_address_without_a_server_is_told_as_before() {
    let pki = Pki::new();
    let endpoint = endpoint(&pki, &[]).await;
    let client = with_token(&pki, &endpoint).await;
    let (_socket, refusing) = refusing();
    let gap = client.server("127.0.0.1", refusing.port()).await.unwrap_err();
    assert_eq!(gap.kind, GapKind::ConnectionRefused);
}

#[tokio::test]
async fn a_list_that_cannot_be_read_vouches_for_nothing() {
    let pki = Pki::new();
    for (status, body) in [("403 Forbidden", "{}"), ("200 OK", "{}"), ("500 Internal Server Error", "")] {
        let endpoint = good(&pki, move |_| http(status, "", body)).await;
        let worker = claimed(&pki, |_| {}).await;
        let gap = with_token(&pki, &endpoint).await.server(CLAIMED, worker.port).await.unwrap_err();
        assert_eq!((gap.kind, worker.heads().len()), (GapKind::Untrusted, 0), "{status}: {}", gap.text);
    }
}

#[tokio::test]
async fn an_api_server_that_lists_itself_is_asked_with_the_credentials() {
    let pki = Pki::new();
    let port = Arc::new(AtomicU16::new(1));
    let endpoint = endpoint_at(&pki, &["127.0.0.1", CLAIMED], Arc::clone(&port)).await;
    let server = claimed(&pki, |_| {}).await;
    // On another port of the machine, any process may be listening.
    let elsewhere = with_token(&pki, &endpoint).await.server(CLAIMED, server.port).await;
    assert_eq!((elsewhere.unwrap_err().kind, server.heads().len()), (GapKind::Untrusted, 0));
    port.store(server.port, Ordering::Relaxed);
    let client = with_token(&pki, &endpoint).await;
    for _ in 0..3 {
        assert_eq!(client.server(CLAIMED, server.port).await.unwrap().status, 200);
    }
    let authorized = format!("authorization: Bearer {TOKEN}\r\n");
    assert!(server.heads().iter().all(|head| head.contains(&authorized)) && server.heads().len() == 3);
    let lists = endpoint.heads().iter().filter(|head| head.contains("endpointslices")).count();
    assert_eq!(
        (lists, server.connections()),
        (2, 2),
        "the list is read once in a round, and no handshake is made twice"
    );
    // The results of one round do not count in the next.
    client.begin_round(true);
    client.server(CLAIMED, server.port).await.unwrap();
    assert_eq!(endpoint.heads().iter().filter(|head| head.contains("endpointslices")).count(), 3);
}

#[tokio::test]
async fn a_member_of_etcd_is_asked_with_the_credentials_for_a_round() {
    let pki = Pki::new();
    // etcd does not know the ports of API servers; the other servers do.
    let port = Arc::new(AtomicU16::new(1));
    let endpoint = endpoint_at(&pki, &["127.0.0.9"], Arc::clone(&port)).await;
    let server = claimed(&pki, |_| {}).await;
    port.store(server.port, Ordering::Relaxed);
    let client = with_token(&pki, &endpoint).await;
    client.vouch(&[CLAIMED.to_owned()]);
    assert_eq!(client.server(CLAIMED, server.port).await.unwrap().status, 200);
    client.begin_round(false);
    assert_eq!(client.server(CLAIMED, server.port).await.unwrap_err().kind, GapKind::Untrusted);
}

/// Tests every source of the header.
#[tokio::test]
async fn no_kind_of_secret_goes_to_a_claimed_address() {
    let pki = Pki::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, TOKEN).unwrap();
    let of_file = AuthInfo { token_file: Some(file.display().to_string()), ..AuthInfo::default() };
    let password =
        AuthInfo { username: Some("admin".to_owned()), password: Some(TOKEN.to_owned().into()), ..AuthInfo::default() };
    for auth_info in [of_file, password] {
        let endpoint = endpoint(&pki, &[]).await;
        let worker = claimed(&pki, |_| {}).await;
        let mut config = pki.config(&endpoint.url());
        config.auth_info = auth_info;
        let gap = client(config, CALL).await.server(CLAIMED, worker.port).await.unwrap_err();
        assert_eq!((gap.kind, worker.heads().len()), (GapKind::Untrusted, 0), "{}", gap.text);
    }
}

/// A client certificate reveals nothing that the server could use elsewhere.
#[tokio::test]
async fn a_client_certificate_is_presented_everywhere_and_nothing_is_waited_for() {
    let pki = Pki::new();
    let endpoint = endpoint(&pki, &[]).await;
    let server = claimed(&pki, |_| {}).await;
    let client = client(pki.config_with_certificate(&endpoint.url()), CALL).await;
    assert_eq!(client.server(CLAIMED, server.port).await.unwrap().status, 200);
    assert!(!server.heads()[0].to_ascii_lowercase().contains("authorization"), "{:?}", server.heads());
    assert_eq!(endpoint.connections(), 0);
}

/// kubeadm does not include a machine's second network in the certificate. The certificate still proves that the server is an API server,
/// and no more than that.
#[tokio::test]
async fn a_listed_server_may_lack_the_address_in_its_certificate() {
    let pki = Pki::new();
    let port = Arc::new(AtomicU16::new(1));
    let endpoint = endpoint_at(&pki, &[CLAIMED], Arc::clone(&port)).await;
    let serve = async |names: &[&str], status: &'static str| {
        let leaf = pki.issue(names, |_| {});
        serve_at(CLAIMED, pki.tls(&leaf, Clients::Optional, &[]), move |_| http(status, "", READY)).await
    };
    let by_name = async |client: &KubeClient, server: &Server| {
        port.store(server.port, Ordering::Relaxed);
        client.begin_round(true);
        let gap = client.server(CLAIMED, server.port).await.unwrap_err();
        assert_eq!(gap.kind, GapKind::NameNotInCertificate);
        client.server_by_name((CLAIMED, server.port), "cp-2", gap).await
    };
    let token = with_token(&pki, &endpoint).await;
    let certificate = client(pki.config_with_certificate(&endpoint.url()), CALL).await;
    let server = serve(&[SERVICE, "cp-2"], "200 OK").await;
    for client in [&token, &certificate] {
        let readyz = by_name(client, &server).await.unwrap();
        assert_eq!((readyz.status, readyz.unnamed.map(|it| it.kind)), (200, Some(GapKind::NameNotInCertificate)));
    }
    // A server that must not receive the token has answered nothing useful; with a certificate, its answer counts.
    let closed = serve(&[SERVICE, "cp-2"], "401 Unauthorized").await;
    assert_eq!(by_name(&token, &closed).await.unwrap_err().kind, GapKind::Untrusted);
    assert_eq!(by_name(&certificate, &closed).await.unwrap().status, 401);
    for server in [&server, &closed] {
        assert!(server.heads().iter().all(|head| !head.to_ascii_lowercase().contains("authorization")));
    }
    // Another machine's API server, another server of the machine, and one that no list contains.
    for names in [&[SERVICE, "cp-1"][..], &[SERVICE], &["cp-2"]] {
        let other = serve(names, "200 OK").await;
        assert_eq!(by_name(&token, &other).await.unwrap_err().kind, GapKind::NameNotInCertificate, "{names:?}");
        assert_eq!(other.heads(), Vec::<String>::new());
    }
    token.begin_round(true);
    port.store(1, Ordering::Relaxed);
    let gap = token.server(CLAIMED, server.port).await.unwrap_err();
    let heads = server.heads().len();
    assert_eq!(
        token.server_by_name((CLAIMED, server.port), "cp-2", gap).await.unwrap_err().kind,
        GapKind::NameNotInCertificate
    );
    assert_eq!(server.heads().len(), heads);
}

/// If a machine has several addresses, the one that may receive the credentials comes first.
#[tokio::test]
async fn addresses_that_may_be_asked_come_first() {
    let pki = Pki::new();
    let endpoint = endpoint(&pki, &["127.0.0.9"]).await;
    let addresses = ["127.0.0.2", "127.0.0.3", "127.0.0.9"].map(str::to_owned);
    let order = |client: KubeClient| {
        let addresses = addresses.clone();
        async move { client.in_order(&addresses).await.into_iter().cloned().collect::<Vec<_>>() }
    };
    assert_eq!(order(with_token(&pki, &endpoint).await).await, ["127.0.0.9", "127.0.0.2", "127.0.0.3"]);
    assert_eq!(order(client(pki.config(&endpoint.url()), CALL).await).await, addresses);
}
