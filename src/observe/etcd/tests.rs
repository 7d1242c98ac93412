//! Scripted members, down to the bytes of their answers.

use std::convert::Infallible;
use std::sync::Arc;

use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::config::certificate::{Peer, identity};
use crate::observe::kubernetes::testing::{Clients, Pki};
use crate::observe::testing::{refusing, unanswered};
use crate::snapshot::{AlarmKind, EtcdAlarm};

/// Enough for a handshake on a busy machine.
const CALL: Duration = Duration::from_secs(10);
/// For servers that never answer.
const SHORT: Duration = Duration::from_millis(400);

/// Encodes a field of a protobuf message.
fn bytes(field: u8, value: &[u8]) -> Vec<u8> {
    [&[field << 3 | 2, u8::try_from(value.len()).unwrap()], value].concat()
}

fn number(field: u8, mut value: u64) -> Vec<u8> {
    let mut out = vec![field << 3];
    while value > 0x7f {
        out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap());
    out
}

/// Above 2^63, as real ids are.
const ID: u64 = 0x8e9e_05c5_2164_694d;

fn header() -> Vec<u8> {
    bytes(1, &[number(1, 1), number(2, ID), number(4, 3)].concat())
}

/// Answers as a healthy single member.
fn healthy(path: &str) -> Answer {
    let header = header();
    Answer::Message(match path {
        "/etcdserverpb.Maintenance/Status" => [
            header,
            bytes(2, b"3.6.16"),
            number(3, 20480),
            number(4, ID),
            number(5, 12),
            number(6, 3),
            number(7, 11),
            number(9, 4096),
        ]
        .concat(),
        "/etcdserverpb.KV/Range" => header,
        "/etcdserverpb.Cluster/MemberList" => {
            let member = [number(1, ID), bytes(2, b"etcd-1"), bytes(3, b"https://10.0.0.1:2380")].concat();
            [header, bytes(2, &member)].concat()
        }
        "/etcdserverpb.Maintenance/Alarm" => [header, bytes(2, &[number(1, ID), number(2, 1)].concat())].concat(),
        _ => return Answer::Status(12, "unknown"),
    })
}

enum Answer {
    Message(Vec<u8>),
    Status(u8, &'static str),
    Never,
}

/// Serves gRPC by handling only its frames.
async fn serve(tls: Option<TlsAcceptor>, script: fn(&str) -> Answer) -> u16 {
    serve_with(tls, move |request| script(request.uri().path())).await
}

async fn serve_with<S>(tls: Option<TlsAcceptor>, script: S) -> u16
where
    S: Fn(&Request<Incoming>) -> Answer + Send + Sync + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tls, script) = (Arc::new(tls), Arc::new(script));
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let (tls, script) = (Arc::clone(&tls), Arc::clone(&script));
            tokio::spawn(async move {
                let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                    let answer = script(&request);
                    async move {
                        let (message, status, text) = match answer {
                            Answer::Message(message) => (message, 0, ""),
                            Answer::Status(status, text) => (Vec::new(), status, text),
                            Answer::Never => std::future::pending().await,
                        };
                        let mut trailers = HeaderMap::new();
                        trailers.insert("grpc-status", i32::from(status).into());
                        trailers.insert("grpc-message", text.parse().unwrap());
                        let mut frame = Vec::new();
                        if status == 0 {
                            frame.push(0);
                            frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
                            frame.extend(message);
                        }
                        let body = Full::new(Bytes::from(frame)).with_trailers(async move { Some(Ok(trailers)) });
                        let response = Response::builder().header("content-type", "application/grpc").body(body);
                        Ok::<_, Infallible>(response.unwrap())
                    }
                });
                let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                match &*tls {
                    None => drop(http.serve_connection(TokioIo::new(tcp), service).await),
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(tcp).await {
                            drop(http.serve_connection(TokioIo::new(stream), service).await);
                        }
                    }
                }
            });
        }
    });
    port
}

async fn observe(address: String, access: EtcdAccess, call_timeout: Duration) -> EtcdEndpoint {
    let access = EtcdAccess { endpoints: vec![address], ..access };
    let seen = EtcdClients::new(access, call_timeout).observe().await;
    seen.into_iter().next().unwrap()
}

fn credentials(pki: &Pki) -> EtcdAccess {
    let leaf = pki.issue(&[], |_| {});
    let ca = vec![CertificateDer::from_pem_slice(pki.ca_pem().as_bytes()).unwrap()];
    let (certificate, key) = (leaf.certificate.pem(), leaf.key.serialize_pem());
    let client = identity(certificate.as_bytes(), key.as_bytes(), Peer::Kubernetes).unwrap();
    EtcdAccess { ca, client: Some(client), ..EtcdAccess::default() }
}

fn kinds(seen: &EtcdEndpoint) -> [Option<GapKind>; 3] {
    [
        seen.status.as_ref().err().map(|gap| gap.kind),
        seen.members.as_ref().err().map(|gap| gap.kind),
        seen.alarms.as_ref().err().map(|gap| gap.kind),
    ]
}

#[tokio::test]
async fn a_member_tells_status_members_and_alarms() {
    let pki = Pki::new();
    let tls = pki.tls(&pki.issue(&["127.0.0.1"], |_| {}), Clients::Demanded, &[b"h2"]);
    let port = serve(Some(tls), healthy).await;
    for address in [format!("https://127.0.0.1:{port}"), format!("127.0.0.1:{port}")] {
        let seen = observe(address.clone(), credentials(&pki), CALL).await;
        assert_eq!(seen.address, address);
        let status = seen.status.unwrap();
        assert_eq!((status.member_id, status.leader, status.raft_term), (ID, ID, 3));
        assert_eq!((status.raft_index, status.raft_applied_index), (12, 11));
        assert_eq!((status.db_size, status.db_size_in_use, status.version.as_str()), (20480, 4096, "3.6.16"));
        let members = seen.members.unwrap();
        assert_eq!((members.len(), members[0].id, members[0].name.as_str()), (1, ID, "etcd-1"));
        assert_eq!(seen.alarms.unwrap(), [EtcdAlarm { member_id: ID, kind: AlarmKind::NoSpace }]);
    }
}

#[tokio::test]
async fn members_without_a_linearizable_read_prove_no_quorum() {
    let port = serve(None, |path| match path {
        "/etcdserverpb.KV/Range" => Answer::Status(14, "etcdserver: no leader"),
        "/etcdserverpb.Maintenance/Alarm" => Answer::Never,
        path => healthy(path),
    })
    .await;
    let seen = observe(format!("http://127.0.0.1:{port}"), EtcdAccess::default(), SHORT).await;
    assert_eq!(kinds(&seen), [None, Some(GapKind::ServerError), Some(GapKind::TimedOut)]);
    assert_eq!(seen.members.unwrap_err().text, "etcdserver: no leader");
}

#[tokio::test]
async fn a_permission_that_is_missing_is_read_after_the_quorum() {
    let port = serve(None, |path| match path {
        "/etcdserverpb.KV/Range" => Answer::Status(7, "etcdserver: permission denied"),
        path => healthy(path),
    })
    .await;
    let seen = observe(format!("http://127.0.0.1:{port}"), EtcdAccess::default(), CALL).await;
    assert_eq!(seen.members.unwrap().len(), 1);
    // A gateway's refusal does not count as etcd's.
    let port = serve(None, |path| match path {
        "/etcdserverpb.KV/Range" => Answer::Status(7, "RBAC: access denied"),
        path => healthy(path),
    })
    .await;
    let seen = observe(format!("http://127.0.0.1:{port}"), EtcdAccess::default(), CALL).await;
    assert_eq!(seen.members.unwrap_err().kind, GapKind::Forbidden);
}

#[tokio::test]
async fn who_is_no_user_of_etcd_is_not_known_to_it() {
    let port = serve(None, |path| match path {
        "/etcdserverpb.Cluster/MemberList" => Answer::Status(3, "etcdserver: user name is empty"),
        "/etcdserverpb.Maintenance/Alarm" => Answer::Status(16, "etcdserver: invalid auth token"),
        path => healthy(path),
    })
    .await;
    let seen = observe(format!("http://127.0.0.1:{port}"), EtcdAccess::default(), CALL).await;
    assert_eq!(kinds(&seen), [None, Some(GapKind::Unauthenticated), Some(GapKind::Unauthenticated)]);
}

#[tokio::test]
async fn a_list_of_crumbs_is_not_decoded() {
    let port = serve(None, |path| match path {
        "/etcdserverpb.Cluster/MemberList" => Answer::Message([header(), bytes(2, &[]).repeat(1 << 20)].concat()),
        path => healthy(path),
    })
    .await;
    let seen = observe(format!("http://127.0.0.1:{port}"), EtcdAccess::default(), CALL).await;
    assert_eq!(kinds(&seen), [None, Some(GapKind::TooLarge), None]);
}

#[tokio::test]
async fn a_learner_tells_its_status_alone() {
    let port = serve(None, |path| match path {
        "/etcdserverpb.Maintenance/Status" => {
            Answer::Message([header(), number(4, ID), number(6, 3), number(10, 1)].concat())
        }
        _ => Answer::Status(14, "etcdserver: rpc not supported for learner"),
    })
    .await;
    let seen = observe(format!("http://127.0.0.1:{port}"), EtcdAccess::default(), CALL).await;
    assert_eq!(kinds(&seen), [None, Some(GapKind::ServerError), Some(GapKind::ServerError)]);
    assert!(seen.status.unwrap().is_learner);
    assert_eq!(seen.alarms.unwrap_err().text, "etcdserver: rpc not supported for learner");
}

#[tokio::test]
async fn an_alarm_of_an_unknown_kind_is_no_silence() {
    let port = serve(None, |path| match path {
        "/etcdserverpb.Maintenance/Alarm" => {
            let alarms = [number(2, 1), number(2, 7)].map(|kind| bytes(2, &[number(1, ID), kind].concat()));
            Answer::Message([header(), alarms.concat()].concat())
        }
        path => healthy(path),
    })
    .await;
    let seen = observe(format!("http://127.0.0.1:{port}"), EtcdAccess::default(), CALL).await;
    let kinds: Vec<_> = seen.alarms.unwrap().into_iter().map(|alarm| alarm.kind).collect();
    assert_eq!(kinds, [AlarmKind::NoSpace, AlarmKind::Other(7)]);
}

#[tokio::test]
async fn a_frozen_server_is_not_a_silent_network() {
    let pki = Pki::new();
    let ask = |at| observe(format!("https://{at}"), credentials(&pki), CALL);
    let seen = unanswered(CALL, ask).await;
    assert_eq!(kinds(&seen), [Some(GapKind::TimedOut); 3], "{seen:?}");
}

#[tokio::test]
async fn a_refused_port_is_not_a_silent_one() {
    let ask = |at| observe(format!("http://{at}"), EtcdAccess::default(), CALL);
    assert_eq!(kinds(&unanswered(CALL, ask).await), [Some(GapKind::TimedOut); 3]);
    let (_socket, refusing) = refusing();
    assert_eq!(kinds(&ask(refusing).await), [Some(GapKind::ConnectionRefused); 3]);
}

#[tokio::test]
async fn certificates_are_refused_each_for_its_own_reason() {
    let (ours, theirs) = (Pki::new(), Pki::new());
    let serve_as = async |pki: &Pki, name: &str, clients| {
        let port = serve(Some(pki.tls(&pki.issue(&[name], |_| {}), clients, &[b"h2"])), healthy).await;
        format!("https://127.0.0.1:{port}")
    };
    let foreign = serve_as(&theirs, "127.0.0.1", Clients::Optional).await;
    assert_eq!(kinds(&observe(foreign, credentials(&ours), CALL).await), [Some(GapKind::UnknownCa); 3]);
    let misnamed = serve_as(&ours, "127.0.0.2", Clients::Optional).await;
    assert_eq!(kinds(&observe(misnamed, credentials(&ours), CALL).await), [Some(GapKind::NameNotInCertificate); 3]);
    let strict = serve_as(&ours, "127.0.0.1", Clients::Demanded).await;
    let without = EtcdAccess { client: None, ..credentials(&ours) };
    let refused = observe(strict, without, CALL).await;
    assert_eq!(kinds(&refused), [Some(GapKind::ClientCertificateRefused); 3], "{refused:?}");
}

#[tokio::test]
async fn names_at_fault_are_told() {
    let pki = Pki::new();
    let unresolved = observe(format!("http://{}:2379", "a".repeat(64)), credentials(&pki), CALL).await;
    assert_eq!(kinds(&unresolved), [Some(GapKind::NameNotFound); 3]);
    let nonsense = observe("https://a b".to_owned(), credentials(&pki), CALL).await;
    assert_eq!(kinds(&nonsense), [Some(GapKind::Malformed); 3]);
}

#[tokio::test]
async fn a_server_that_does_not_agree_on_http2_is_none_of_etcd() {
    let pki = Pki::new();
    let tls = pki.tls(&pki.issue(&["127.0.0.1"], |_| {}), Clients::Demanded, &[]);
    let port = serve(Some(tls), healthy).await;
    let seen = observe(format!("https://127.0.0.1:{port}"), credentials(&pki), CALL).await;
    assert_eq!(kinds(&seen), [Some(GapKind::Broken); 3]);
    assert_eq!(seen.status.unwrap_err().text, "the server does not offer HTTP/2");
}

#[test]
fn endpoints_as_people_write_them() {
    for (text, scheme, host, port) in [
        ("https://10.0.0.1:2379", Scheme::HTTPS, "10.0.0.1", 2379),
        ("10.0.0.1:2379", Scheme::HTTPS, "10.0.0.1", 2379),
        ("etcd-1.example", Scheme::HTTPS, "etcd-1.example", 2379),
        ("HTTPS://etcd-1.example/", Scheme::HTTPS, "etcd-1.example", 2379),
        ("http://etcd-1:2379/path", Scheme::HTTP, "etcd-1", 2379),
        ("http://etcd-1", Scheme::HTTP, "etcd-1", 2379),
        ("[2001:db8::1]:2379", Scheme::HTTPS, "2001:db8::1", 2379),
        ("http://[::1]", Scheme::HTTP, "::1", 2379),
    ] {
        let (address, found) = parse(text).unwrap();
        assert_eq!((found, address.host.as_str(), address.port), (scheme, host, port), "{text}");
    }
    for text in
        ["", "a b", "ftp://etcd-1:2379", "https://etcd-1:23790000", "etcd-1:2379O", "http://etcd-1:", "2001:db8::1"]
    {
        assert_eq!(parse(text).map(|_| ()).unwrap_err().kind, GapKind::Malformed, "{text}");
    }
}

#[tokio::test]
async fn one_endpoint_does_not_hide_another() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = format!("http://{}", listener.local_addr().unwrap());
    let port = serve(None, healthy).await;
    let endpoints = vec![silent, format!("http://127.0.0.1:{port}")];
    let seen = EtcdClients::new(EtcdAccess { endpoints, ..EtcdAccess::default() }, SHORT).observe().await;
    assert!(seen[0].status.is_err() && seen[1].status.is_ok());
}

/// Logging in, with members that record their calls.
mod users {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use http::HeaderValue;
    use zeroize::Zeroizing;

    use super::*;
    use crate::config::etcd::EtcdUser;

    /// The valid token, as a number, and the calls of all members in order, each with its token.
    #[derive(Default)]
    struct World {
        valid: AtomicU64,
        calls: Mutex<Vec<(String, String)>>,
        enabled: bool,
        leads: bool,
    }

    impl World {
        fn new() -> Arc<Self> {
            Arc::new(Self { valid: AtomicU64::new(1), enabled: true, leads: true, ..Self::default() })
        }

        fn answer(&self, request: &Request<Incoming>, learner: bool) -> Answer {
            let path = request.uri().path();
            let call = path.rsplit('/').next().unwrap().to_owned();
            let token = request.headers().get("token").map_or("", |token| token.to_str().unwrap()).to_owned();
            self.calls.lock().unwrap().push((call.clone(), token.clone()));
            let valid = format!("token.{}", self.valid.load(Ordering::SeqCst));
            match call.as_str() {
                call if learner && call != "Status" => Answer::Status(9, "etcdserver: rpc not supported for learner"),
                "Authenticate" | "Range" if !self.leads => Answer::Status(14, "etcdserver: request timed out"),
                "Authenticate" if !self.enabled => Answer::Status(9, "etcdserver: authentication is not enabled"),
                "Authenticate" => Answer::Message([header(), bytes(2, valid.as_bytes())].concat()),
                _ if !self.enabled || token == valid => healthy(path),
                _ if token.is_empty() => Answer::Status(3, "etcdserver: user name is empty"),
                _ => Answer::Status(16, "etcdserver: invalid auth token"),
            }
        }

        fn count(&self, call: &str) -> usize {
            self.calls.lock().unwrap().iter().filter(|(it, _)| it == call).count()
        }
    }

    fn user() -> EtcdUser {
        EtcdUser { name: "health".to_owned(), password: Zeroizing::new("geheim".to_owned()) }
    }

    /// Returns clients of a voter and a learner, with a user.
    async fn clients(world: &Arc<World>) -> EtcdClients {
        let mut endpoints = Vec::new();
        for learner in [false, true] {
            let world = Arc::clone(world);
            let port = serve_with(None, move |request| world.answer(request, learner)).await;
            endpoints.push(format!("http://127.0.0.1:{port}"));
        }
        EtcdClients::new(EtcdAccess { endpoints, user: Some(user()), ..EtcdAccess::default() }, CALL)
    }

    const LEARNER: [Option<GapKind>; 3] = [None, Some(GapKind::ServerError), Some(GapKind::ServerError)];

    #[tokio::test]
    async fn one_token_is_for_all_members_and_all_rounds() {
        let world = World::new();
        let clients = clients(&world).await;
        for _ in 0..3 {
            let seen = clients.observe().await;
            assert_eq!([kinds(&seen[0]), kinds(&seen[1])], [[None; 3], LEARNER], "{seen:?}");
        }
        assert_eq!(world.count("Authenticate"), 1);
        let calls = world.calls.lock().unwrap();
        assert!(calls.iter().all(|(call, token)| token.is_empty() == (call == "Authenticate")), "{calls:?}");
    }

    #[tokio::test]
    async fn a_token_that_is_refused_is_renewed_once_a_round() {
        let world = World::new();
        let clients = clients(&world).await;
        clients.observe().await;
        world.valid.fetch_add(1, Ordering::SeqCst);
        assert_eq!(kinds(&clients.observe().await[0]), [None; 3]);
        assert_eq!(world.count("Authenticate"), 2);
    }

    /// A member rejects a new token until it has applied the token's log entry.
    #[tokio::test]
    async fn a_new_token_may_be_known_a_little_later() {
        let world = World::new();
        let (asked, refusals) = (Arc::clone(&world), AtomicU64::new(0));
        let port = serve_with(None, move |request| match asked.answer(request, false) {
            Answer::Message(_)
                if request.uri().path().ends_with("/Status") && refusals.fetch_add(1, Ordering::SeqCst) < 2 =>
            {
                Answer::Status(16, "etcdserver: invalid auth token")
            }
            answer => answer,
        })
        .await;
        let endpoints = vec![format!("http://127.0.0.1:{port}")];
        let access = EtcdAccess { endpoints, user: Some(user()), ..EtcdAccess::default() };
        assert_eq!(kinds(&EtcdClients::new(access, CALL).observe().await[0]), [None; 3]);
        assert_eq!(world.count("Authenticate"), 1);
    }

    /// Each new token is refused at once.
    #[tokio::test]
    async fn renewing_ends() {
        let world = World::new();
        let (asked, mut endpoints) = (Arc::clone(&world), Vec::new());
        let port = serve_with(None, move |request| match asked.answer(request, false) {
            Answer::Message(message) if request.uri().path().ends_with("/Authenticate") => {
                asked.valid.fetch_add(1, Ordering::SeqCst);
                Answer::Message(message)
            }
            answer => answer,
        })
        .await;
        endpoints.push(format!("http://127.0.0.1:{port}"));
        let clients = EtcdClients::new(EtcdAccess { endpoints, user: Some(user()), ..EtcdAccess::default() }, CALL);
        for round in 1..=2 {
            // The password itself was right.
            assert_eq!(kinds(&clients.observe().await[0]), [Some(GapKind::ServerError); 3]);
            assert_eq!(world.count("Authenticate"), round);
        }
    }

    #[tokio::test]
    async fn where_nobody_is_asked_for_a_name_none_is_given() {
        let world = Arc::new(World { leads: true, ..World::default() });
        let seen = clients(&world).await.observe().await;
        assert_eq!([kinds(&seen[0]), kinds(&seen[1])], [[None; 3], LEARNER]);
        assert!(world.calls.lock().unwrap().iter().all(|(_, token)| token.is_empty()));
    }

    /// Without a quorum no login succeeds, which proves nothing about the password.
    #[tokio::test]
    async fn without_a_quorum_no_user_is_refused() {
        let world = Arc::new(World { enabled: true, ..World::default() });
        let seen = clients(&world).await.observe().await;
        assert_eq!(kinds(&seen[0]), [Some(GapKind::ServerError); 3]);
        let text = seen[0].status.as_ref().unwrap_err().text.as_ref();
        assert_eq!(text, "etcd cannot authenticate the user now: etcdserver: request timed out");
        // If there are no users, the failed login hides no status.
        let world = Arc::new(World::default());
        let seen = clients(&world).await.observe().await;
        assert_eq!(kinds(&seen[0]), [None, Some(GapKind::ServerError), None]);
    }

    #[tokio::test]
    async fn a_wrong_password_is_tried_once() {
        let world = World::new();
        let asked = Arc::clone(&world);
        let port = serve_with(None, move |request| match asked.answer(request, false) {
            Answer::Message(_) => Answer::Status(3, "etcdserver: authentication failed, invalid user ID or password"),
            answer => answer,
        })
        .await;
        let endpoints = vec![format!("http://127.0.0.1:{port}"); 3];
        let clients = EtcdClients::new(EtcdAccess { endpoints, user: Some(user()), ..EtcdAccess::default() }, CALL);
        for _ in 0..2 {
            let seen = clients.observe().await;
            assert_eq!(kinds(&seen[2]), [Some(GapKind::Unauthenticated); 3], "{seen:?}");
        }
        assert_eq!(*world.calls.lock().unwrap(), [("Authenticate".to_owned(), String::new())]);
    }

    #[tokio::test]
    async fn a_token_that_is_none_is_not_sent() {
        for token in [&b"a\nb"[..], b"", b"\x00"] {
            let port = serve_with(None, move |request| match request.uri().path() {
                "/etcdserverpb.Auth/Authenticate" => Answer::Message([header(), bytes(2, token)].concat()),
                path => {
                    assert_eq!(request.headers().get("token"), None::<&HeaderValue>);
                    healthy(path)
                }
            })
            .await;
            let endpoints = vec![format!("http://127.0.0.1:{port}")];
            let access = EtcdAccess { endpoints, user: Some(user()), ..EtcdAccess::default() };
            let seen = EtcdClients::new(access, CALL).observe().await;
            assert_eq!(kinds(&seen[0]), [None; 3], "{seen:?}");
        }
    }
}
