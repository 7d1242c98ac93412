//! Endpoints that misbehave. Each costs at most its call's deadline, is named with its cause, and is never taken for a
//! healthy or an unhealthy cluster.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::harness::{Outcome, program};
use crate::pki::{Authority, Flaw, kubeconfig, mutual_tls, reader};

/// A server that does the same to everybody who connects, for as long as the test lives.
fn serving(act: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let act = Arc::new(act);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let act = Arc::clone(&act);
            std::thread::spawn(move || act(stream));
        }
    });
    address
}

/// An address where nobody listens.
fn closed() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Holds the connection and says nothing.
fn silent(mut stream: TcpStream) {
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
}

type TlsStream = TokioIo<tokio_rustls::server::TlsStream<tokio::net::TcpStream>>;
type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// Serves every connection that passes the mutual TLS of this cluster, for as long as the test lives.
fn serving_tls<F>(
    authority: &Authority,
    protocol: &[u8],
    serve: impl Fn(TlsStream) -> F + Clone + Send + 'static,
) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut tls = (*mutual_tls(authority, &authority.server(&["127.0.0.1"]))).clone();
    tls.alpn_protocols = vec![protocol.to_vec()];
    let tls = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, serve) = (tls.clone(), serve.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(TokioIo::new(stream)).await;
                    }
                });
            }
        });
    });
    address
}

/// A Talos API in TLS and HTTP/2 whose every answer has this body.
fn answering(authority: &Authority, body: impl Fn() -> Body + Clone + Send + Sync + 'static) -> SocketAddr {
    serving_tls(authority, b"h2", move |stream| {
        let body = body.clone();
        async move {
            let service = hyper::service::service_fn(move |_: hyper::Request<Incoming>| {
                let answer = hyper::Response::builder().header("content-type", "application/grpc").body(body());
                async move { answer }
            });
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = server.serve_connection(stream, service).await;
        }
    })
}

/// A gRPC answer that says OK and has these bytes in place of a message.
fn succeeding_with(frame: &'static [u8]) -> Body {
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
    let frames = [Ok(Frame::data(Bytes::from_static(frame))), Ok(Frame::trailers(trailers))];
    StreamBody::new(futures::stream::iter(frames)).boxed_unsync()
}

/// Runs against one endpoint, Talos alone, with short deadlines.
fn against(authority: &Authority, address: SocketAddr) -> Outcome {
    let outcome = program()
        .talosconfig(reader(authority, &[address]))
        .args(["--no-kubernetes", "--attempt-timeout", "1s", "--wait-timeout", "3s"])
        .run();
    assert!(outcome.took < Duration::from_secs(4), "{outcome}");
    outcome
}

#[test]
fn refuses() {
    against(&Authority::new(), closed()).is(69, &["connection refused"]);
}

#[test]
fn accepts_and_hangs() {
    against(&Authority::new(), serving(silent)).is(69, &["timed-out"]);
}

#[test]
fn hangs_until_a_deadline_that_is_shorter_than_an_attempt() {
    let program = program().talosconfig(reader(&Authority::new(), &[serving(silent)]));
    let outcome = program.args(["--no-kubernetes", "--wait-timeout", "2s"]).run();
    outcome.is(69, &["timed-out", "before the deadline of 2s"]);
    assert!(outcome.took < Duration::from_secs(3), "{outcome}");
}

#[test]
fn closes_after_accept() {
    against(&Authority::new(), serving(drop)).is(69, &["talos.endpoints"]);
}

#[test]
fn speaks_plain_http() {
    let address = serving(|mut stream| {
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
    });
    against(&Authority::new(), address).is(69, &["talos.endpoints"]);
}

#[test]
fn sends_endless_data() {
    let address = serving(|mut stream| while stream.write_all(&[0x16; 4096]).is_ok() {});
    against(&Authority::new(), address).is(69, &["talos.endpoints"]);
}

#[test]
fn sends_endless_data_inside_of_tls() {
    let authority = Authority::new();
    let address = answering(&authority, || {
        // A message that says it is 64 MiB long, and never ends.
        let first = Bytes::from_static(&[0, 4, 0, 0, 0]);
        let rest = std::iter::repeat_with(|| Bytes::from_static(&[0x0a; 16384]));
        let frames = std::iter::once(first).chain(rest).map(|bytes| Ok(Frame::data(bytes)));
        StreamBody::new(futures::stream::iter(frames)).boxed_unsync()
    });
    against(&authority, address).is(69, &["talos.endpoints"]);
}

#[test]
fn answers_garbage_protobuf() {
    let authority = Authority::new();
    let garbage = || succeeding_with(&[0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0xff]);
    let address = answering(&authority, garbage);
    against(&authority, address).is(69, &["unreadable-answer"]);
}

#[test]
fn answers_nothing_at_all_and_says_ok() {
    let authority = Authority::new();
    let address = answering(&authority, || succeeding_with(&[0, 0, 0, 0, 0]));
    let outcome = against(&authority, address);
    assert_ne!(outcome.code, 0, "an empty answer is no evidence: {outcome}");
}

#[test]
fn the_ca_of_another_cluster() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let address = answering(&theirs, || http_body_util::Empty::new().boxed_unsync());
    let outcome = against(&ours, address);
    outcome.is(69, &["unknown-ca"]);
    assert!(outcome.took < Duration::from_secs(4));
}

#[test]
fn a_certificate_for_another_name() {
    let authority = Authority::new();
    let address = answering(&authority, || http_body_util::Empty::new().boxed_unsync());
    let elsewhere = SocketAddr::from(([127, 0, 0, 2], address.port()));
    // The server listens on 127.0.0.1 only; the name `localhost` leads there and is not in the certificate.
    let config = reader(&authority, &[elsewhere]).replace("127.0.0.2", "localhost");
    let outcome = program().talosconfig(config).args(["--no-kubernetes", "--attempt-timeout", "1s"]).run();
    outcome.is(69, &["name-not-in-certificate"]);
}

/// An API server that is ready and knows nobody: every list is empty.
fn empty_kubernetes(authority: &Authority) -> SocketAddr {
    serving_tls(authority, b"http/1.1", |stream| async move {
        let service = hyper::service::service_fn(|request: hyper::Request<Incoming>| async move {
            let body = match request.uri().path().rsplit('/').next() {
                Some("nodes") => empty_list("v1", "NodeList"),
                Some("pods") => empty_list("v1", "PodList"),
                Some("leases") => empty_list("coordination.k8s.io/v1", "LeaseList"),
                Some("daemonsets") => empty_list("apps/v1", "DaemonSetList"),
                Some("deployments") => empty_list("apps/v1", "DeploymentList"),
                Some("endpointslices") => empty_list("discovery.k8s.io/v1", "EndpointSliceList"),
                _ => "[+]ping ok\nreadyz check passed\n".to_owned(),
            };
            let date = "Sat, 21 Nov 2026 12:00:00 GMT";
            hyper::Response::builder().header("date", date).body(http_body_util::Full::<Bytes>::from(body))
        });
        let server = hyper::server::conn::http1::Builder::new();
        let _ = server.serve_connection(stream, service).await;
    })
}

fn empty_list(version: &str, kind: &str) -> String {
    format!(r#"{{"kind":"{kind}","apiVersion":"{version}","metadata":{{}},"items":[]}}"#)
}

#[test]
fn zero_nodes_are_no_healthy_cluster() {
    let authority = Authority::new();
    let client = authority.client("reader", Flaw::default());
    let config = kubeconfig(empty_kubernetes(&authority), authority.pem(), &client);
    let program = program().file("kubeconfig", config);
    let path = program.path("kubeconfig");
    let outcome = program.args(["--no-talos", "--kubeconfig"]).args([path]).run();
    outcome.is(69, &["Kubernetes API server is reachable", "k8s.nodes.ready"]);
}

#[test]
fn a_kubernetes_of_another_ca_gets_no_credentials() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let client = ours.client("reader", Flaw::default());
    let program = program().file("kubeconfig", kubeconfig(empty_kubernetes(&theirs), ours.pem(), &client));
    let path = program.path("kubeconfig");
    let outcome = program.args(["--no-talos", "--kubeconfig"]).args([path]).run();
    assert_ne!(outcome.code, 0, "{outcome}");
    outcome.is(outcome.code, &["unknown-ca"]);
}

#[test]
fn one_dead_endpoint_of_two_is_named() {
    let outcome = program()
        .talosconfig(reader(&Authority::new(), &[closed(), serving(silent)]))
        .args(["--no-kubernetes", "--attempt-timeout", "1s"])
        .run();
    outcome.is(69, &["connection refused", "timed-out"]);
}

#[test]
fn one_pass_ends_within_its_attempt() {
    let outcome = program()
        .talosconfig(reader(&Authority::new(), &[serving(silent)]))
        .args(["--no-kubernetes", "--attempt-timeout", "1s"])
        .run();
    assert!(outcome.took < Duration::from_secs(3), "{outcome}");
}
