//! Reports that are sent to web servers, including malicious ones: the exit code stays the same, the process ends in time, and no secret is
//! shown.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::harness::{HEALTHY, Outcome, Program, code, program, side_by_side};
use crate::pki::{authority, client, reader, talosconfig};
use crate::signals::send;

/// Part of each receiver's URL, and of the headers for it.
const SECRET: &str = "hunter22";
/// Time from the verdict on, which these runs reach immediately.
const LIMIT: Duration = Duration::from_millis(10_500);

/// A CA with a certificate for 127.0.0.1.
struct Public {
    ca: String,
    tls: Arc<ServerConfig>,
}

impl Public {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::IpAddress(Ipv4Addr::LOCALHOST.into())];
        let leaf = params.signed_by(&key, &ca).unwrap();
        let chain = vec![CertificateDer::from(leaf.der().to_vec())];
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let tls = tls.with_no_client_auth().with_single_cert(chain, key).unwrap();
        Self { ca: ca.pem(), tls: Arc::new(tls) }
    }
}

/// A readable and writable connection, encrypted or not.
trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// The behavior of a server on a connection; the number counts connections from zero.
type Conduct = dyn Fn(usize, &mut dyn Stream) + Send + Sync;

/// Starts a server that lives as long as the tests. `tls` is `None` for plain HTTP.
fn serve(
    tls: Option<Arc<ServerConfig>>,
    conduct: impl Fn(usize, &mut dyn Stream) + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let conduct: Arc<Conduct> = Arc::new(conduct);
    thread::spawn(move || {
        for (at, stream) in listener.incoming().flatten().enumerate() {
            let (tls, conduct) = (tls.clone(), Arc::clone(&conduct));
            thread::spawn(move || match tls {
                Some(tls) => conduct(at, &mut StreamOwned::new(ServerConnection::new(tls).unwrap(), stream)),
                None => conduct(at, &mut { stream }),
            });
        }
    });
    address
}

/// A request as it was received.
#[derive(Debug)]
struct Request {
    head: String,
    body: Vec<u8>,
}

impl Request {
    /// Returns `None` if the request was incomplete.
    fn read(stream: &mut dyn Stream) -> Option<Self> {
        let mut all = Vec::new();
        let end = loop {
            if let Some(at) = all.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            more(stream, &mut all)?;
        };
        let head = String::from_utf8(all[..end].to_vec()).unwrap();
        let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        while all.len() < end + length.unwrap_or(0) {
            more(stream, &mut all)?;
        }
        Some(Self { head, body: all.split_off(end) })
    }

    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

fn more(stream: &mut dyn Stream, all: &mut Vec<u8>) -> Option<()> {
    let mut piece = [0; 4096];
    let read = stream.read(&mut piece).ok().filter(|read| *read > 0)?;
    all.extend_from_slice(&piece[..read]);
    Some(())
}

/// Reads until the peer has closed the connection.
fn hold(stream: &mut dyn Stream) {
    while more(stream, &mut Vec::new()).is_some() {}
}

fn answer(stream: &mut dyn Stream, text: impl AsRef<[u8]>) {
    let _ = stream.write_all(text.as_ref()).and_then(|()| stream.flush());
}

/// Writes until the peer has closed the connection.
fn without_end(stream: &mut dyn Stream, piece: &[u8]) {
    while stream.write_all(piece).is_ok() {}
}

const DONE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

fn status(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
}

/// Starts a server that accepts everything, and returns the requests that it receives.
fn taking(tls: Option<Arc<ServerConfig>>) -> (SocketAddr, Receiver<Request>) {
    let (sender, requests) = channel();
    let sender: Mutex<Sender<Request>> = Mutex::new(sender);
    let address = serve(tls, move |_, stream| {
        if let Some(request) = Request::read(stream) {
            sender.lock().unwrap().send(request).unwrap();
            answer(stream, DONE);
        }
    });
    (address, requests)
}

/// A run that is immediately healthy, and has a token for 127.0.0.1.
fn healthy(public: &Public) -> Program {
    run(public).args(HEALTHY)
}

/// A run whose cluster refuses connections.
fn unhealthy(public: &Public) -> Program {
    run(public).args(["--no-kubernetes"])
}

fn run(public: &Public) -> Program {
    // Port 1 has no listener on any loopback address.
    let program = program().talosconfig(reader(&authority(), &[([127, 0, 0, 9], 1).into()]));
    let program =
        program.file("roots.pem", &public.ca).file("headers", format!("127.0.0.1\tAuthorization: {SECRET}\n"));
    let (roots, headers) = (program.path("roots.pem"), program.path("headers"));
    program.env("SSL_CERT_FILE", roots).env("CLUSTER_HEALTH_REPORT_HEADERS_FILE", headers)
}

fn url(format: &str, address: SocketAddr) -> String {
    format!("{format}=https://u:{SECRET}@{address}/{SECRET}?{SECRET}")
}

/// Asserts that no output contains the secret, in streams or in files.
#[track_caller]
fn assert_secret(outcome: &Outcome, home: &tempfile::TempDir) {
    assert!(!outcome.stderr.contains(SECRET) && !outcome.stdout.contains(SECRET), "{outcome}");
    for entry in std::fs::read_dir(home.path()).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file()) {
        let is_input = entry.file_name() == "headers";
        let content = String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()).into_owned();
        assert!(is_input || !content.contains(SECRET), "{}: {content}", entry.path().display());
    }
}

const FORMATS: [(&str, &str); 7] = [
    ("text", "text/plain"),
    ("json", "application/json"),
    ("ndjson", "application/x-ndjson"),
    ("junit", "application/xml"),
    ("markdown", "text/markdown"),
    ("html", "text/html"),
    ("prometheus", "text/plain; version=0.0.4"),
];

#[test]
fn the_finished_report_arrives_once_in_its_format() {
    let public = Public::new();
    side_by_side(FORMATS, 2, |(format, media_type)| {
        let (address, requests) = taking(Some(Arc::clone(&public.tls)));
        let file = format!("{format}=file");
        let arguments = ["-vv", "--trace", "trace", "--report", &file, "--report", &url(format, address)];
        let (outcome, home) = unhealthy(&public).args(arguments).run_and_keep();
        outcome.is(1, &[]);
        let request = requests.try_recv().unwrap();
        assert!(requests.try_recv().is_err(), "{format}: it is sent once");
        assert!(request.head.starts_with(&format!("POST /{SECRET}?{SECRET} HTTP/1.1\r\n")), "{}", request.head);
        assert_eq!(request.header("content-type"), Some(media_type));
        assert_eq!(request.header("authorization"), Some(SECRET));
        assert!(request.header("user-agent").unwrap().starts_with("cluster-health/"));
        let (sent, file) =
            (String::from_utf8(request.body).unwrap(), std::fs::read_to_string(home.path().join("file")));
        let is_known_to_receiver = |line: &&str| !line.contains("cluster_health_last_success_timestamp_seconds");
        let file = file.unwrap().lines().filter(is_known_to_receiver).collect::<Vec<_>>().join("\n");
        assert_eq!(sent.trim_end(), file.trim_end(), "{format}");
        assert!(!outcome.stderr.contains("could not send"), "{outcome}");
        assert_secret(&outcome, &home);
    });
}

/// A URL has no earlier file from which to carry over the time, and a Pushgateway keeps metrics that it is not sent.
#[test]
fn the_last_success_is_sent_only_with_a_success() {
    const METRIC: &str = "cluster_health_last_success_timestamp_seconds";
    let public = Public::new();
    for (program, expected) in [(healthy(&public), true), (unhealthy(&public), false)] {
        let (address, requests) = taking(Some(Arc::clone(&public.tls)));
        let before = format!("{METRIC} 1700000000\n");
        let program = program.file("m.prom", before);
        program.args(["--report", "prometheus=m.prom", "--report", &url("prometheus", address)]).run();
        let sent = String::from_utf8(requests.try_recv().unwrap().body).unwrap();
        assert_eq!(sent.contains(METRIC), expected, "{sent}");
        assert!(
            sent.contains(&format!("cluster_health_healthy{{cluster=\"prod\"}} {}", i32::from(expected))),
            "{sent}"
        );
    }
}

/// The server's behavior, the number of connections, and the expected message; `None` for a success.
type Case = (&'static str, Box<dyn Fn(usize, &mut dyn Stream) + Send + Sync>, Option<usize>, Option<&'static str>);

fn hostile(elsewhere: SocketAddr) -> Vec<Case> {
    fn case(
        name: &'static str,
        connections: impl Into<Option<usize>>,
        said: impl Into<Option<&'static str>>,
        conduct: impl Fn(usize, &mut dyn Stream) + Send + Sync + 'static,
    ) -> Case {
        (name, Box::new(conduct), connections.into(), said.into())
    }
    let read = |text: String| {
        move |_: usize, stream: &mut dyn Stream| {
            let _ = Request::read(stream);
            answer(stream, &text);
        }
    };
    let redirect = move |code: &str| {
        let head =
            format!("HTTP/1.1 {code} Elsewhere\r\nlocation: https://{elsewhere}/{SECRET}\r\ncontent-length: 0\r\n\r\n");
        read(head)
    };
    vec![
        case("301", 1, "HTTP 301: redirects are not followed", redirect("301")),
        case("302", 1, "HTTP 302: redirects are not followed", redirect("302")),
        case("307", 1, "HTTP 307: redirects are not followed", redirect("307")),
        case("308", 1, "HTTP 308: redirects are not followed", redirect("308")),
        case("401", 1, "HTTP 401", read(status(&format!("401 {SECRET}")))),
        case("413 before it was read", None, "HTTP 413", |_, stream| {
            answer(stream, status("413 Too Large"));
            hold(stream);
        }),
        case("500", 2, "HTTP 500", read(format!("HTTP/1.1 500 {SECRET}\r\ncontent-length: 8\r\n\r\n{SECRET}"))),
        case("503 once", 2, None, |at, stream| {
            let _ = Request::read(stream);
            answer(stream, if at == 0 { status("503 Later") } else { DONE.to_owned() });
        }),
        case("closed once", 2, None, |at, stream| {
            let _ = Request::read(stream);
            answer(stream, if at == 0 { "" } else { DONE });
        }),
        case("a body without end", 1, None, |_, stream| {
            let _ = Request::read(stream);
            answer(stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
            without_end(stream, b"8\r\nhunter22\r\n");
        }),
        case("a failure without end", 2, "HTTP 500", |_, stream| {
            let _ = Request::read(stream);
            answer(stream, "HTTP/1.1 500 Wrong\r\ntransfer-encoding: chunked\r\n\r\n");
            without_end(stream, b"8\r\nhunter22\r\n");
        }),
        case("a compressed bomb", 1, None, |_, stream| {
            let _ = Request::read(stream);
            answer(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 1000000000\r\n\r\n\x1f\u{8b}\x08",
            );
            without_end(stream, &[0; 4096]);
        }),
        case("closed in the middle of the body", 1, None, |_, stream| {
            let _ = Request::read(stream);
            answer(stream, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhunter22");
        }),
        case("closed in the middle of the head", 2, "connection", |_, stream| {
            let _ = Request::read(stream);
            answer(stream, "HTTP/1.1 200 OK\r\nx: hunter22");
        }),
        case("no HTTP", 2, "could not send", |_, stream| {
            let _ = Request::read(stream);
            answer(stream, "hunter22 hunter22\r\n\r\n");
        }),
        case("headers without end", 2, "could not send", |_, stream| {
            let _ = Request::read(stream);
            answer(stream, "HTTP/1.1 200 OK\r\n");
            without_end(stream, b"x-hunter22: hunter22\r\n");
        }),
        case("interim answers without end", 2, "no answer within", |_, stream| {
            let _ = Request::read(stream);
            without_end(stream, b"HTTP/1.1 103 Early Hints\r\nx: hunter22\r\n\r\n");
        }),
        case("silence", 2, "no answer within", |_, stream| {
            let _ = Request::read(stream);
            hold(stream);
        }),
        case("nothing is read", 2, "no answer within", |_, stream| {
            // The handshake, and the first part of the request.
            let _ = more(stream, &mut Vec::new());
            loop {
                thread::park();
            }
        }),
    ]
}

#[test]
fn no_answer_changes_the_exit_code_or_holds_up_the_end() {
    let public = Public::new();
    let (elsewhere, requests) = taking(Some(Arc::clone(&public.tls)));
    side_by_side(hostile(elsewhere), 4, |(name, conduct, connections, said)| {
        let (sender, seen) = channel();
        let sender = Mutex::new(sender);
        let address = serve(Some(Arc::clone(&public.tls)), move |at, stream| {
            sender.lock().unwrap().send(()).unwrap();
            conduct(at, stream);
        });
        let arguments = ["-vv", "--trace", "trace", "--report", "json=file", "--report", &url("html", address)];
        let (outcome, home) = healthy(&public).args(arguments).run_and_keep();
        assert_eq!(outcome.code, 0, "{name}: {outcome}");
        assert!(outcome.took < LIMIT, "{name}: {outcome}");
        if let Some(connections) = connections {
            assert_eq!(seen.try_iter().count(), connections, "{name}: {outcome}");
        }
        let lines: Vec<_> = outcome.stderr.lines().filter(|line| line.contains("could not send")).collect();
        match said {
            None => assert!(lines.is_empty(), "{name}: {outcome}"),
            Some(said) => {
                let begin = "error: could not send the html report to https://127.0.0.1: ";
                assert!(
                    lines.len() == 1 && lines[0].starts_with(begin) && lines[0].contains(said),
                    "{name}: {outcome}"
                );
            }
        }
        assert_secret(&outcome, &home);
    });
    assert!(requests.try_recv().is_err(), "a redirect was followed");
}

#[test]
fn only_the_system_s_roots_vouch_for_a_receiver() {
    let (public, other) = (Public::new(), Public::new());
    let (address, requests) = taking(Some(Arc::clone(&public.tls)));
    let of_cluster = authority();
    // The cluster's CA signed the receiver's certificate.
    let config = talosconfig(&public.ca, &client(&of_cluster, simulator::pki::Flaw::None), &["127.0.0.9:1".to_owned()]);
    let program = unhealthy(&other).talosconfig(config).args(["--report", &url("json", address)]);
    let (outcome, home) = program.run_and_keep();
    outcome.is(
        1,
        &["could not send the json report to https://127.0.0.1: the server's certificate is signed by another CA"],
    );
    assert_secret(&outcome, &home);
    assert!(requests.try_recv().is_err());
}

#[test]
fn without_roots_nothing_is_checked() {
    let (address, requests) = taking(None);
    let program = unhealthy(&Public { ca: String::new(), tls: Public::new().tls }).args(["--report", "json=file"]);
    let (outcome, home) = program.args(["--report", &url("json", address)]).run_and_keep();
    outcome.is(78, &["SSL_CERT_FILE", "SSL_CERT_DIR"]);
    assert_secret(&outcome, &home);
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(home.path().join("file")).unwrap()).unwrap();
    assert_eq!(report["exitCode"], 78);
    assert!(requests.try_recv().is_err());
    // Root certificates are not needed without a receiver.
    let none = Public { ca: String::new(), tls: Public::new().tls };
    healthy(&none).run().is(0, &[]);
}

/// Covers each way in which a connection attempt can fail.
#[test]
fn a_server_that_cannot_be_reached_changes_nothing() {
    let public = Public::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let plain = serve(None, |_, stream| answer(stream, "hunter22\r\n"));
    let closing = serve(None, |_, _| ());
    let cases = [
        ("127.0.0.9:1".parse().unwrap(), "https://127.0.0.9: connection refused"),
        (silent.local_addr().unwrap(), "https://127.0.0.1: no answer within"),
        (plain, "https://127.0.0.1: the answer is not TLS"),
        (closing, "https://127.0.0.1: the connection was"),
    ];
    side_by_side(cases, 4, |(address, said)| {
        let (outcome, home) = healthy(&public).args(["--report", &url("json", address)]).run_and_keep();
        outcome.is(0, &[said]);
        assert!(outcome.took < LIMIT, "{outcome}");
        assert_secret(&outcome, &home);
    });
}

#[test]
fn a_token_reaches_no_other_receiver() {
    let public = Public::new();
    let ([one, two], [of_one, of_two]): ([_; 2], [_; 2]) = {
        let (one, of_one) = taking(Some(Arc::clone(&public.tls)));
        let (two, of_two) = taking(Some(Arc::clone(&public.tls)));
        ([one, two], [of_one, of_two])
    };
    let headers = format!("{one}\tX-Token: one\n{two}\tX-Token: two\nr.example\tX-Token: none\n");
    let program = healthy(&public).file("headers", headers);
    let reports = [one, two].map(|address| format!("--report=json=https://{address}/"));
    program.args(reports).run().is(0, &[]);
    for (requests, token) in [(of_one, "one"), (of_two, "two")] {
        let request = requests.try_recv().unwrap();
        assert_eq!(request.header("x-token"), Some(token));
        assert_eq!(request.head.matches("x-token").count(), 1, "{}", request.head);
        assert_eq!(request.header("authorization"), None);
    }
}

#[test]
fn without_encryption_no_header_is_sent() {
    let public = Public::new();
    let (address, requests) = taking(None);
    let report = format!("json=http://{address}/{SECRET}");
    let (outcome, home) = healthy(&public).args(["--report", &report]).run_and_keep();
    outcome.is(2, &["the headers for `127.0.0.1` are not sent over `http://`"]);
    assert_secret(&outcome, &home);
    assert!(requests.try_recv().is_err());
    let program = healthy(&public).file("headers", "r.example\tX-Token: none\n").args(["--report", &report]);
    program.run().is(0, &[]);
    assert_eq!(requests.try_recv().unwrap().header("x-token"), None);
}

/// The refusal comes before the first check, and does not repeat the text.
#[test]
fn what_is_malformed_is_refused() {
    let public = Public::new();
    for report in
        ["https:///hunter22", "https://r.example:x/hunter22", "ftp://r.example/hunter22", "https://r.example/hunter22#"]
    {
        let (outcome, home) = unhealthy(&public).args(["--report", &format!("json={report}")]).run_and_keep();
        outcome.is(2, &["the URL of the json report"]);
        assert_secret(&outcome, &home);
    }
    for headers in ["hunter22", "r.example\tA b: hunter22", "r.example\tHost: hunter22"] {
        let program = unhealthy(&public).file("headers", headers).args(["--report", "json=file"]);
        let (outcome, home) = program.args(["--report=json=https://127.0.0.9:1/hunter22"]).run_and_keep();
        outcome.is(2, &["`--report-headers-file`, line 1"]);
        assert!(!home.path().join("file").exists(), "nothing is written");
        assert_secret(&outcome, &home);
    }
    let lost = unhealthy(&public).env("CLUSTER_HEALTH_REPORT_HEADERS_FILE", "none");
    lost.args(["--report", "json=https://127.0.0.9:1/"]).run().is(78, &["file of headers `none`: no such file"]);
    // Other typing errors.
    for argument in
        ["--reprot=json=https://r.example/hunter22", "https://r.example/hunter22", "--level=https://r.example/hunter22"]
    {
        let (outcome, home) = unhealthy(&public).args([argument]).run_and_keep();
        outcome.is(2, &["error: "]);
        assert_secret(&outcome, &home);
    }
    let help = program().env("CLUSTER_HEALTH_REPORT", "json=https://r.example/hunter22").args(["--help"]).run();
    assert!(!help.stdout.contains(SECRET), "{help}");
}

/// The file contains tokens, so nothing may replace it.
#[test]
fn the_file_of_headers_is_no_file_of_a_report() {
    let public = Public::new();
    let (address, requests) = taking(Some(Arc::clone(&public.tls)));
    let program = healthy(&public).args(["--report", "json=headers", "--report", &url("json", address)]);
    let (outcome, home) = program.run_and_keep();
    outcome.is(2, &["would overwrite an input file"]);
    assert!(std::fs::read_to_string(home.path().join("headers")).unwrap().contains(SECRET));
    assert!(requests.try_recv().is_err());
}

/// Everything else is available in files and on stdout when the verdict is.
#[test]
fn everything_else_is_written_before_it_is_sent() {
    let public = Public::new();
    let (sender, arrived) = channel();
    let (go_on, may_answer) = channel::<()>();
    let shared = Mutex::new((sender, may_answer));
    let address = serve(Some(Arc::clone(&public.tls)), move |_, stream| {
        let request = Request::read(stream).unwrap();
        let (sender, may_answer) = &*shared.lock().unwrap();
        sender.send(request).unwrap();
        may_answer.recv().unwrap();
        answer(stream, DONE);
    });
    let program = unhealthy(&public).args(["-o", "json", "--wait-timeout", "1s", "--report", "json=file"]);
    let program = program.args(["--termination-log", "message", "--report", &url("json", address)]);
    let out = std::fs::File::create(program.path("stdout")).unwrap();
    let (mut child, home) = program.spawn_into(out);
    let sent = arrived.recv().unwrap().body;
    for name in ["file", "stdout"] {
        let written = std::fs::read(home.path().join(name)).unwrap();
        assert_eq!(String::from_utf8_lossy(&written).trim(), String::from_utf8_lossy(&sent).trim(), "{name}");
    }
    assert!(home.path().join("message").exists());
    assert!(child.try_wait().unwrap().is_none(), "it waits for the answer");
    go_on.send(()).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&sent).unwrap();
    assert_eq!(report["complete"], true);
    assert_eq!(report["exitCode"], code(child.wait().unwrap()));
}

#[test]
fn a_run_that_a_signal_ends_sends_nothing() {
    let public = Public::new();
    let (address, requests) = taking(Some(Arc::clone(&public.tls)));
    let program =
        unhealthy(&public).args(["--wait-timeout", "1h", "--report", "json=json", "--report", &url("json", address)]);
    let (child, home) = program.spawn();
    crate::signals::until(|| crate::signals::report(&home).is_some_and(|report| report["rounds"] == 1));
    send(&child, "TERM");
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(output.status), 143);
    assert!(requests.try_recv().is_err());
}

#[test]
fn a_signal_ends_what_is_being_sent() {
    let public = Public::new();
    let (sender, arrived) = channel();
    let sender = Mutex::new(sender);
    let address = serve(Some(Arc::clone(&public.tls)), move |_, stream| {
        sender.lock().unwrap().send(()).unwrap();
        hold(stream);
    });
    let (child, _home) = unhealthy(&public).args(["--report", &url("json", address)]).spawn();
    arrived.recv().unwrap();
    send(&child, "TERM");
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(code(output.status), 1, "the verdict stays: {stderr}");
    assert!(stderr.contains("could not send the json report to https://127.0.0.1: interrupted"), "{stderr}");
    assert!(arrived.try_recv().is_err(), "there is no second attempt");
}

/// Only the environment's proxy is used, never the kubeconfig's; loopback is exempt, as for all other requests.
#[test]
fn no_proxy_but_the_environment_s_is_used() {
    let public = Public::new();
    let (sender, asked) = channel();
    let sender = Mutex::new(sender);
    let proxy = serve(None, move |_, stream| {
        let mut head = Vec::new();
        // A body may arrive with the head. The request is passed on before it is answered, so none is left once the program has ended.
        while !head.windows(4).any(|it| it == b"\r\n\r\n") && more(stream, &mut head).is_some() {}
        sender.lock().unwrap().send(String::from_utf8(head).unwrap()).unwrap();
        answer(stream, "HTTP/1.1 407 hunter22\r\n\r\n");
    });
    let with = |variable: &str, report: &str| {
        let program = healthy(&public).env(variable, format!("http://u:hunter22@{proxy}"));
        let (outcome, home) = program.args(["--report", report]).run_and_keep();
        outcome.is(0, &["could not send the json report to "]);
        assert_secret(&outcome, &home);
        asked.try_iter().collect::<Vec<_>>().into_iter().next()
    };
    let request = with("HTTPS_PROXY", "json=https://r.example/hunter22").unwrap();
    assert!(request.starts_with("CONNECT r.example:443 HTTP/1.1\r\n"), "{request}");
    assert!(request.to_lowercase().contains("proxy-authorization: basic "), "{request}");
    let request = with("http_proxy", "json=http://r.example/hunter22").unwrap();
    assert!(request.starts_with("POST http://r.example/hunter22 HTTP/1.1\r\n"), "{request}");
    assert_eq!(with("HTTPS_PROXY", "json=https://127.0.0.9:1/"), None);
}
