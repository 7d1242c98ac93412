//! The client against servers that behave, misbehave and lie.

mod certificates;
mod lists;
mod whom;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Config;
use rustls::pki_types::CertificateDer;
use secrecy::ExposeSecret as _;
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::testing::{Clients, Leaf, Pki, Reply, Server, credentials, head, http, serve};
use super::*;
use crate::config::Environment;
use crate::config::proxy::Setting;
use crate::model::Fact;
use crate::observe::testing::{refusing, unanswered};
use crate::snapshot::GapKind;

/// Enough for a handshake on a busy machine.
const CALL: Duration = Duration::from_secs(10);
/// For servers that never answer.
const SHORT: Duration = Duration::from_millis(400);

const READY: &str = "[+]ping ok\n[+]etcd ok\nreadyz check passed\n";

async fn client(config: Config, call_timeout: Duration) -> KubeClient {
    opened(config, direct(), call_timeout).await.unwrap()
}

async fn opened(config: Config, routes: Routes, call_timeout: Duration) -> Observed<KubeClient> {
    let server = config.cluster_url.to_string();
    KubeClient::new(config.clone(), routes, &roots(&config), credentials(&server), call_timeout).await
}

/// Returns the roots of the configuration, or else those of a system, which are different.
fn roots(config: &Config) -> Roots {
    let of = |der: &Vec<u8>| CertificateDer::from(der.clone());
    match &config.root_cert {
        Some(own) => Roots::Own(own.iter().map(of).collect()),
        None => Roots::OfSystem(vec![of(&Pki::new().ca_der())]),
    }
}

fn direct() -> Routes {
    through(&[])
}

/// Returns routes with these proxy variables in the environment.
fn through(variables: &[(&str, &str)]) -> Routes {
    Routes::new(Setting::Environment, &Environment::new(variables.iter().copied()))
}

/// A name that every API server's certificate is valid for.
const SERVICE: &str = "kubernetes.default.svc";

/// Starts a server on 127.0.0.1 with a good certificate.
async fn good(pki: &Pki, script: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Server {
    serve(pki.tls(&pki.issue(&["127.0.0.1", SERVICE], |_| {}), Clients::Optional, &[]), script).await
}

async fn readyz(config: Config, call_timeout: Duration) -> Observed<Readyz> {
    let facts = BTreeSet::from([Fact::EndpointReadyz]);
    let client = client(config, call_timeout).await;
    Box::pin(client.observe(&facts, &KnownLeases::default(), true)).await.endpoint
}

async fn nodes(config: Config, call_timeout: Duration) -> Observed<Vec<KubeNode>> {
    let facts = BTreeSet::from([Fact::KubeNodes]);
    let client = client(config, call_timeout).await;
    Box::pin(client.observe(&facts, &KnownLeases::default(), true)).await.nodes
}

/// Queries `/readyz` and the nodes, which have to fail in the same way.
async fn both(config: Config, call_timeout: Duration) -> GapKind {
    let probe = readyz(config.clone(), call_timeout).await.unwrap_err();
    let list = nodes(config, call_timeout).await.unwrap_err();
    assert_eq!(probe, list);
    assert!(!probe.text.is_empty() && probe.text.len() < 400, "{}", probe.text);
    probe.kind
}

fn list(kind: &str, api_version: &str, next: &str, items: &str) -> Reply {
    let body = format!(
        r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{{"resourceVersion":"1","continue":"{next}"}},"items":{items}}}"#
    );
    http("200 OK", "date: Sat, 21 Nov 2026 13:52:13 GMT\r\ncontent-type: application/json\r\n", &body)
}

fn node_list(next: &str, names: &[&str]) -> Reply {
    let items: Vec<_> = names.iter().map(|name| serde_json::json!({"metadata": {"name": name}})).collect();
    list("NodeList", "v1", next, &serde_json::Value::from(items).to_string())
}

const EXPIRED: &str = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"The provided continue parameter is too old","reason":"Expired","code":410}"#;

#[tokio::test]
async fn a_client_certificate_opens_every_fact() {
    let pki = Pki::new();
    let leaf = pki.issue(&["127.0.0.1", SERVICE], |_| {});
    let server = serve(pki.tls(&leaf, Clients::Demanded, &[]), |head| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        match path.split_once('?').map_or(path, |(path, _)| path) {
            "/readyz" => http("200 OK", "", READY),
            "/api/v1/nodes" => node_list("", &["cp-1"]),
            "/api/v1/namespaces/kube-system/pods" => {
                list("PodList", "v1", "", r#"[{"metadata":{"name":"a","namespace":"kube-system"}}]"#)
            }
            "/apis/apps/v1/daemonsets" => list("DaemonSetList", "apps/v1", "", "null"),
            "/apis/apps/v1/namespaces/kube-system/deployments" => list("DeploymentList", "apps/v1", "", "[]"),
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases" => list(
                "LeaseList",
                "coordination.k8s.io/v1",
                "",
                r#"[{"metadata":{"name":"cp-1","namespace":"kube-node-lease","resourceVersion":"7"}}]"#,
            ),
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases" => {
                list("LeaseList", "coordination.k8s.io/v1", "", "[]")
            }
            "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"
                if head.contains("labelSelector=kubernetes.io%2Fservice-name%3Dkube-dns") =>
            {
                list(
                    "EndpointSliceList",
                    "discovery.k8s.io/v1",
                    "",
                    r#"[{"metadata":{"name":"d","namespace":"kube-system","labels":{"kubernetes.io/service-name":"kube-dns"}},"addressType":"IPv4","endpoints":[{"addresses":["10.244.0.2"]}]}]"#,
                )
            }
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
                if head.contains("labelSelector=kubernetes.io%2Fservice-name%3Dkubernetes") =>
            {
                list("EndpointSliceList", "discovery.k8s.io/v1", "", "[]")
            }
            _ => http("404 Not Found", "", "404 page not found\n"),
        }
    })
    .await;
    let facts = BTreeSet::from([
        Fact::EndpointReadyz,
        Fact::KubeNodes,
        Fact::NodeLeases,
        Fact::SystemLeases,
        Fact::Pods,
        Fact::DaemonSets,
        Fact::Deployments,
        Fact::DnsEndpoints,
        Fact::ApiEndpoints,
    ]);
    let client = client(pki.config_with_certificate(&server.url()), CALL).await;
    let mut known = KnownLeases::default();
    let seen = client.observe(&facts, &known, true).await;
    assert_eq!(seen.credentials.unwrap().context, "test");
    let ready = seen.endpoint.unwrap();
    assert_eq!((ready.status, ready.server), (200, server.url()));
    assert_eq!(seen.nodes.unwrap()[0].name, "cp-1");
    assert_eq!(seen.pods.unwrap()[0].name, "a");
    assert!(seen.daemon_sets.unwrap().is_empty() && seen.deployments.unwrap().is_empty());
    assert!(seen.dns_endpoints.unwrap()[0].ready);
    assert!(seen.api_endpoints.unwrap().is_empty());
    let leases = seen.node_leases.clone().unwrap();
    assert_eq!(leases.date, Some("2026-11-21T13:52:13Z".parse().unwrap()));
    assert_eq!(leases.by_name["cp-1"].moved_within, None);
    assert!(seen.system_leases.clone().unwrap().by_name.is_empty());
    assert!(server.heads().iter().all(|head| !head.contains("resourceVersion")), "lists are quorum reads");

    let ours = client.credentials.clone();
    let credentials = Ok(ours.clone());
    known.remember(&credentials, Instant::now(), &seen.node_leases, &seen.system_leases);
    let (again, _) = client.leases(&facts, &known).await;
    assert_eq!(again.unwrap().by_name["cp-1"].moved_within, None, "the same version has not moved");
    let mut other = seen.node_leases.clone();
    other.as_mut().unwrap().by_name.get_mut("cp-1").unwrap().resource_version = "another".to_owned();
    known.remember(&credentials, Instant::now(), &other, &seen.system_leases);
    let (again, _) = client.leases(&facts, &known).await;
    assert!(again.unwrap().by_name["cp-1"].moved_within.is_some_and(|within| within < CALL * 2));
    let elsewhere = Ok(KubernetesCredentials { server: "https://192.0.2.1:6443".to_owned(), ..ours });
    known.remember(&elsewhere, Instant::now(), &other, &seen.system_leases);
    let (again, _) = client.leases(&facts, &known).await;
    assert_eq!(again.unwrap().by_name["cp-1"].moved_within, None, "another cluster's lease is another lease");

    let direct = client.server("127.0.0.1", server.port).await.unwrap();
    assert_eq!((direct.status, direct.server), (200, server.url()));
}

#[tokio::test]
async fn what_nobody_asked_for_is_not_asked() {
    let pki = Pki::new();
    let server = good(&pki, |_| http("200 OK", "", READY)).await;
    let client = client(pki.config(&server.url()), CALL).await;
    let seen = client.observe(&BTreeSet::new(), &KnownLeases::default(), true).await;
    assert_eq!(seen.endpoint.unwrap_err().kind, GapKind::NotAsked);
    assert_eq!(seen.nodes.unwrap_err().kind, GapKind::NotAsked);
    assert_eq!(seen.node_leases.unwrap_err().kind, GapKind::NotAsked);
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn each_round_connects_once_and_anew() {
    let pki = Pki::new();
    let server =
        good(
            &pki,
            |head| {
                if head.starts_with("GET /readyz") { http("200 OK", "", READY) } else { node_list("", &["cp-1"]) }
            },
        )
        .await;
    let client = client(pki.config(&server.url()), CALL).await;
    // Rounds that do not ask for everything reuse the connections.
    for (round, anew) in [(1, true), (1, false), (2, true), (3, true), (3, false)] {
        client.begin_round(anew);
        client.nodes().await.unwrap();
        client.endpoint().await.unwrap();
        client.nodes().await.unwrap();
        // The server has to prove more as a machine, so this takes another connection.
        client.expect(["127.0.0.1"], server.port).await;
        client.server("127.0.0.1", server.port).await.unwrap();
        assert_eq!(server.connections(), round * 2);
    }
}

/// Lists the nodes twice from a server that reacts differently to the requests in this range, counted from 0. Returns the second list, and
/// the number of requests and connections.
async fn listed_again(odd: Range<usize>, reply: fn() -> Reply) -> (Observed<usize>, usize, usize) {
    let pki = Pki::new();
    let asked = AtomicUsize::new(0);
    let answer = move |_: &str| match asked.fetch_add(1, Ordering::Relaxed) {
        nth if odd.contains(&nth) => reply(),
        _ => node_list("", &["cp-1"]),
    };
    let server = good(&pki, answer).await;
    let client = client(pki.config(&server.url()), CALL).await;
    let lists = BTreeSet::from([Fact::KubeNodes]);
    client.observe(&lists, &KnownLeases::default(), true).await.nodes.unwrap();
    let again = client.observe(&lists, &KnownLeases::default(), true).await.nodes;
    (again.map(|nodes| nodes.len()), server.heads().len(), server.connections())
}

#[tokio::test]
async fn a_kept_connection_that_ends_says_nothing_of_the_server() {
    let closes: fn() -> Reply = || Reply::Close;
    let garbage: fn() -> Reply = || Reply::Bytes(b"SSH-2.0-x\r\n\r\n".to_vec());
    assert_eq!(listed_again(1..2, closes).await, (Ok(1), 3, 2));
    // A failure on a new connection counts, and so does an answer that is not HTTP.
    for (odd, reply, asked) in [(1..3, closes, (3, 2)), (1..2, garbage, (2, 1))] {
        let (list, requests, connections) = listed_again(odd, reply).await;
        assert_eq!((list.unwrap_err().kind, (requests, connections)), (GapKind::Broken, asked));
    }
}

#[tokio::test]
async fn a_server_that_has_too_much_to_do_is_asked_again_when_it_says() {
    let later: fn() -> Reply = || http("429 Too Many Requests", "Retry-After: 0\r\n", "{}");
    assert_eq!(listed_again(1..3, later).await.0, Ok(1));
    let never: fn() -> Reply = || http("429 Too Many Requests", "Retry-After: 3600\r\n", "{}");
    let silent: fn() -> Reply = || http("429 Too Many Requests", "", "{}");
    for (odd, reply, requests) in [(1..9, later, 4), (1..2, never, 2), (1..2, silent, 2)] {
        let (list, asked, _) = listed_again(odd, reply).await;
        assert_eq!((list.unwrap_err().kind, asked), (GapKind::Throttled, requests));
    }
}

#[tokio::test]
async fn a_token_goes_to_both_paths_and_into_no_text() {
    let pki = Pki::new();
    let server = good(&pki, |_| http("401 Unauthorized", "", "Bearer s3cret is not known here")).await;
    let mut config = pki.config(&server.url());
    config.auth_info.token = Some("s3cret".to_owned().into());
    let probe = readyz(config.clone(), CALL).await.unwrap();
    assert_eq!((probe.status, probe.text.contains("s3cret")), (401, false));
    let gap = nodes(config, CALL).await.unwrap_err();
    assert_eq!((gap.kind, gap.text.contains("s3cret")), (GapKind::Unauthenticated, false));
    let heads = server.heads();
    assert_eq!(heads.len(), 2);
    assert!(
        heads.iter().all(|head| head.to_ascii_lowercase().contains("authorization: bearer s3cret\r\n")),
        "{heads:?}"
    );
}

#[tokio::test]
async fn a_success_that_repeats_the_token_is_none() {
    let pki = Pki::new();
    for (token, is_success) in [("0123456789abcdef", false), ("word", true)] {
        let server = good(&pki, move |_| http("200 OK", "", &format!("[+]ping ok\n[-]{token} failed\n"))).await;
        let mut config = pki.config(&server.url());
        config.auth_info.token = Some(token.to_owned().into());
        let probe = readyz(config, CALL).await;
        assert_eq!(probe.is_ok(), is_success, "{probe:?}");
        assert!(!format!("{probe:?}").contains("0123456789abcdef"), "{probe:?}");
    }
}

#[tokio::test]
async fn a_refused_port_is_not_a_silent_one() {
    let pki = Pki::new();
    let config = |at| pki.config(&format!("https://{at}"));
    // The kernel accepts the connection, but the process does not answer: it is stopped.
    let silent = Gap::new(GapKind::TimedOut, "connected, but the TLS handshake was not answered");
    assert_eq!(unanswered(CALL, |at| readyz(config(at), CALL)).await.unwrap_err(), silent);
    assert_eq!(unanswered(CALL, |at| nodes(config(at), CALL)).await.unwrap_err(), silent);
    let (_socket, refusing) = refusing();
    assert_eq!(both(config(refusing), CALL).await, GapKind::ConnectionRefused);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_port_that_swallows_packets_is_not_a_frozen_process() {
    let pki = Pki::new();
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    // The backlog holds one connection, which is never accepted. After it, the kernel drops every SYN, as a packet filter does.
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let _occupied = tokio::net::TcpStream::connect(address).await.unwrap();
    let config = pki.config(&format!("https://{address}"));
    assert_eq!(both(config.clone(), SHORT).await, GapKind::ConnectTimedOut);
    assert_eq!(readyz(config, SHORT).await.unwrap_err().text, "no connection within 0.32s");
}

#[tokio::test]
async fn an_address_of_version_6_is_probed_and_verified() {
    let pki = Pki::new();
    let Ok(listener) = TcpListener::bind("[::1]:0").await else { return };
    let port = listener.local_addr().unwrap().port();
    let tls = pki.tls(&pki.issue(&["::1", SERVICE], |_| {}), Clients::Optional, &[]);
    tokio::spawn(async move {
        use tokio::io::AsyncWriteExt as _;
        let (tcp, _) = listener.accept().await.unwrap();
        let mut stream = tls.accept(tcp).await.unwrap();
        assert!(head(&mut stream).await.unwrap().to_ascii_lowercase().contains(&format!("host: [::1]:{port}\r\n")));
        let Reply::Bytes(bytes) = http("200 OK", "", READY) else { unreachable!() };
        stream.write_all(&bytes).await.unwrap();
        let _ = stream.shutdown().await;
    });
    let answer = client(pki.config("https://127.0.0.1:1"), CALL).await.server("::1", port).await.unwrap();
    assert_eq!((answer.status, answer.server), (200, format!("https://[::1]:{port}")));
}

#[tokio::test]
async fn both_paths_act_as_the_kubeconfig_says() {
    let pki = Pki::new();
    let server = good(&pki, |_| http("200 OK", "", READY)).await;
    let mut config = pki.config(&server.url());
    config.auth_info.impersonate = Some("auditor".to_owned());
    readyz(config.clone(), CALL).await.unwrap();
    assert_eq!(nodes(config, CALL).await.unwrap_err().kind, GapKind::Malformed);
    let heads = server.heads();
    assert_eq!(heads.len(), 2);
    assert!(heads.iter().all(|head| head.to_ascii_lowercase().contains("impersonate-user: auditor\r\n")), "{heads:?}");
}

#[tokio::test]
async fn a_server_that_takes_the_question_and_never_answers_times_out_every_time() {
    let pki = Pki::new();
    let server = good(&pki, |_| Reply::Never).await;
    let client = client(pki.config(&server.url()), SHORT).await;
    for _ in 0..2 {
        assert_eq!(client.server("127.0.0.1", server.port).await.unwrap_err().kind, GapKind::TimedOut);
    }
    assert_eq!(nodes(pki.config(&server.url()), SHORT).await.unwrap_err().kind, GapKind::TimedOut);
}

#[tokio::test]
async fn broken_connections_are_broken() {
    let pki = Pki::new();
    let closes = good(&pki, |_| Reply::Close).await;
    assert_eq!(both(pki.config(&closes.url()), CALL).await, GapKind::Broken);
    let cut =
        good(&pki, |_| Reply::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n[+]ping ok\n".to_vec())).await;
    assert_eq!(both(pki.config(&cut.url()), SHORT).await, GapKind::TimedOut);
    let garbage = good(&pki, |_| Reply::Bytes(b"SSH-2.0-x\r\n\r\n".to_vec())).await;
    assert_eq!(both(pki.config(&garbage.url()), CALL).await, GapKind::Broken);
}

#[tokio::test]
async fn a_listener_that_hangs_up_or_speaks_plain_http_is_broken() {
    let pki = Pki::new();
    for plain in [true, false] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut tcp, _)) = listener.accept().await {
                if plain {
                    use tokio::io::AsyncWriteExt as _;
                    let _ = tcp.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n").await;
                }
            }
        });
        assert_eq!(both(pki.config(&format!("https://127.0.0.1:{port}")), CALL).await, GapKind::Broken, "{plain}");
    }
}

#[tokio::test]
async fn names_that_do_not_resolve_are_told_as_such() {
    let pki = Pki::new();
    let client = client(pki.config("https://127.0.0.1:1"), CALL).await;
    // The label exceeds the length limit, so the resolver does not query any server for it.
    let gap = client.server(&"a".repeat(64), 6443).await.unwrap_err();
    assert_eq!(gap.kind, GapKind::NameNotFound, "{}", gap.text);
    assert_eq!(client.server("not a name", 6443).await.unwrap_err().kind, GapKind::NameNotFound);
}

#[tokio::test]
async fn a_path_of_the_endpoint_is_kept() {
    let pki = Pki::new();
    let server = good(&pki, |head| {
        if head.starts_with("GET /k8s/clusters/c-1/readyz?verbose ") {
            http("200 OK", "", READY)
        } else if head.starts_with("GET /k8s/clusters/c-1/api/v1/nodes?") {
            node_list("", &["cp-1"])
        } else {
            http("404 Not Found", "", "")
        }
    })
    .await;
    let config = pki.config(&format!("{}/k8s/clusters/c-1", server.url()));
    assert_eq!(readyz(config.clone(), CALL).await.unwrap().status, 200);
    assert_eq!(nodes(config, CALL).await.unwrap().len(), 1);
}

/// Starts a proxy that forwards requests for `authority` to `behind`, or refuses them.
async fn proxy(authority: &str, behind: u16, refuses: bool) -> std::net::SocketAddr {
    use tokio::io::AsyncWriteExt as _;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, wanted) = (listener.local_addr().unwrap(), format!("CONNECT {authority} "));
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            let wanted = wanted.clone();
            tokio::spawn(async move {
                let head = head(&mut tcp).await.unwrap();
                assert!(head.starts_with(&wanted), "{head}");
                if refuses {
                    let _ = tcp.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").await;
                    return;
                }
                let _ = tcp.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
                let mut onward = tokio::net::TcpStream::connect(("127.0.0.1", behind)).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut tcp, &mut onward).await;
            });
        }
    });
    address
}

fn fixed(url: &str) -> Routes {
    Setting::parse(url).map(|fixed| Routes::new(fixed, &Environment::new::<&str, &str>([]))).unwrap()
}

#[tokio::test]
async fn a_proxy_is_used_and_its_failures_are_its_own() {
    let pki = Pki::new();
    let tls = pki.tls(&pki.issue(&["k8s.example", SERVICE], |_| {}), Clients::Optional, &[]);
    let server = serve(tls, |_| http("200 OK", "", READY)).await;
    for refuses in [false, true] {
        let proxy = proxy("k8s.example:6443", server.port, refuses).await;
        let url = format!("http://{proxy}");
        for routes in [fixed(&url), through(&[("HTTPS_PROXY", &url)])] {
            let config = pki.config("https://k8s.example:6443");
            let client = opened(config, routes, CALL).await.unwrap();
            let facts = BTreeSet::from([Fact::EndpointReadyz, Fact::KubeNodes]);
            let seen = client.observe(&facts, &KnownLeases::default(), true).await;
            let server = client.server("k8s.example", 6443).await;
            if refuses {
                let gap = Gap::new(GapKind::Proxy, format!("proxy {proxy}: it answered 403 Forbidden"));
                assert_eq!((seen.endpoint, seen.nodes.err(), server), (Err(gap.clone()), Some(gap.clone()), Err(gap)));
            } else {
                let (endpoint, server) = (seen.endpoint.unwrap(), server.unwrap());
                assert_eq!((endpoint.status, server.status), (200, 200));
                assert!(endpoint.certificate.is_some() && endpoint.certificate == server.certificate);
            }
        }
    }
}

#[tokio::test]
async fn each_server_has_a_way_of_its_own() {
    let pki = Pki::new();
    let server = good(&pki, |_| http("200 OK", "", READY)).await;
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = proxy.local_addr().unwrap().port();
    drop(proxy);
    let variables = [("HTTPS_PROXY", format!("http://127.0.0.1:{port}")), ("NO_PROXY", "10.0.0.0/8".to_owned())];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    let config = pki.config("https://k8s.example:6443");
    let client = opened(config, through(&variables), CALL).await.unwrap();
    assert_eq!(client.server("127.0.0.1", server.port).await.unwrap().status, 200, "loopback is exempt");
    let gap = client.server("192.0.2.1", 6443).await.unwrap_err();
    assert_eq!(gap, Gap::new(GapKind::Proxy, format!("proxy 127.0.0.1:{port}: connection refused")));
}

#[tokio::test]
async fn configurations_that_give_up_verification_are_refused() {
    let pki = Pki::new();
    let mut insecure = pki.config("https://127.0.0.1:1");
    insecure.accept_invalid_certs = true;
    let plain = pki.config("http://127.0.0.1:1");
    for config in [insecure, plain] {
        let gap = opened(config, direct(), CALL).await.err().unwrap();
        assert_eq!(gap.kind, GapKind::Malformed);
    }
}

#[tokio::test]
async fn an_exec_plugin_is_bounded_and_its_output_stays_private() {
    let pki = Pki::new();
    let exec = |script: &str| {
        let mut config = pki.config("https://127.0.0.1:1");
        config.auth_info.exec = Some(
            serde_json::from_value(serde_json::json!({
                "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
                "interactiveMode": "Never",
            }))
            .unwrap(),
        );
        config
    };
    let fails = opened(exec("echo s3cret; echo log in again, >&2; echo me@k8s.example >&2; exit 3"), direct(), CALL)
        .await
        .err()
        .unwrap();
    let text = "the exec plugin `sh` failed: exit status: 3: log in again, me@k8s.example";
    assert_eq!(fails, Gap::new(GapKind::PluginFailed, text));
    let hangs = opened(exec("exec sleep 2"), direct(), Duration::from_millis(100)).await.err().unwrap();
    let text = "the exec plugin `sh` did not finish within 100ms, and wrote nothing to stderr";
    assert_eq!(hangs, Gap::new(GapKind::PluginFailed, text));
    let words = "for n in $(seq 9999); do echo word >&2; done; echo password=s3cret$(printf '\\033')[31m >&2; exit 1";
    let endless = opened(exec(words), direct(), CALL).await.err().unwrap();
    assert!(endless.text.contains(": …") && endless.text.len() < 400, "{}", endless.text);
    assert!(!endless.text.contains("s3cret") && !endless.text.contains('\u{1b}'), "{}", endless.text);
}

/// Returns a plugin's answer.
fn exec_credential(status: &serde_json::Value) -> serde_json::Value {
    serde_json::json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status})
}

/// Configures a plugin from a script that also records each run in a file.
fn plugin(config: &mut Config, script: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("echo >> {}; {script}", folder.path().join("runs").display());
    let exec = serde_json::json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script], "interactiveMode": "Never",
    });
    config.auth_info.exec = Some(serde_json::from_value(exec).unwrap());
    folder
}

#[tokio::test]
async fn a_plugin_runs_again_when_its_token_ends_and_once_for_all_who_wait() {
    let pki = Pki::new();
    for (expires, runs) in [(None, 1), (Some("2999-01-01T00:00:00Z"), 1), (Some("2001-01-01T00:00:00Z"), 2)] {
        let server = good(&pki, |head| {
            assert!(head.contains("authorization: Bearer abc"), "{head}");
            http("200 OK", "", READY)
        });
        let server = server.await;
        let mut config = pki.config(&format!("https://127.0.0.1:{}", server.port));
        let answer = exec_credential(&serde_json::json!({"token": "abc", "expirationTimestamp": expires}));
        let folder = plugin(&mut config, &format!("echo '{answer}'"));
        let client = opened(config, direct(), CALL).await.unwrap();
        let facts = BTreeSet::from([Fact::EndpointReadyz]);
        let known = KnownLeases::default();
        let (first, second) = tokio::join!(client.observe(&facts, &known, true), client.observe(&facts, &known, true));
        assert!(first.endpoint.is_ok() && second.endpoint.is_ok(), "{:?}", first.endpoint);
        let ran = std::fs::read(folder.path().join("runs")).unwrap().len();
        assert_eq!(ran, runs, "{expires:?}");
    }
}

#[tokio::test]
async fn who_is_refused_has_a_plugin_asked_for_other_credentials() {
    let pki = Pki::new();
    for (answer, by_plugin, expected) in
        [("200 OK", true, false), ("401 Unauthorized", true, true), ("401 Unauthorized", false, false)]
    {
        let server = good(&pki, move |_| http(answer, "", READY)).await;
        let mut config = pki.config(&format!("https://127.0.0.1:{}", server.port));
        let _folder = by_plugin.then(|| {
            let answer = exec_credential(&serde_json::json!({"token": "abc"}));
            plugin(&mut config, &format!("echo '{answer}'"))
        });
        let client = opened(config, direct(), CALL).await.unwrap();
        assert!(!client.is_outdated());
        client.observe(&BTreeSet::from([Fact::EndpointReadyz]), &KnownLeases::default(), true).await;
        assert_eq!(client.is_outdated(), expected, "{answer} {by_plugin}");
    }
}

#[tokio::test]
async fn a_plugin_may_answer_a_client_certificate() {
    let pki = Pki::new();
    let leaf = pki.issue(&["127.0.0.1", SERVICE], |_| {});
    let server = serve(pki.tls(&leaf, Clients::Demanded, &[]), |_| http("200 OK", "", READY)).await;
    let with = pki.config_with_certificate(&format!("https://127.0.0.1:{}", server.port)).auth_info;
    let text = |data: &str| String::from_utf8(STANDARD.decode(data).unwrap()).unwrap();
    let certificate = text(&with.client_certificate_data.unwrap());
    let key = text(with.client_key_data.unwrap().expose_secret());
    let answer = exec_credential(&serde_json::json!({"clientCertificateData": certificate, "clientKeyData": key}));
    let mut config = pki.config(&format!("https://127.0.0.1:{}", server.port));
    let _folder = plugin(&mut config, &format!("cat <<'END'\n{answer}\nEND"));
    let client = opened(config, direct(), CALL).await.unwrap();
    let seen = client.observe(&BTreeSet::from([Fact::EndpointReadyz]), &KnownLeases::default(), true).await;
    assert_eq!(seen.endpoint.unwrap().status, 200);
}
