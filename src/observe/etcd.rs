//! etcd through its own API, for clusters whose etcd Talos does not run.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use etcd_api::alarm_request::AlarmAction;
use etcd_api::cluster_client::ClusterClient;
use etcd_api::kv_client::KvClient;
use etcd_api::maintenance_client::MaintenanceClient;
use etcd_api::{
    AlarmMember, AlarmRequest, AlarmType, Member, MemberListRequest, RangeRequest, ResponseHeader, StatusRequest,
};
use futures::future::join_all;
use http::Uri;
use http::uri::Scheme;
use rustls::ClientConfig;
use tokio::time::{Instant, timeout_at};
use tonic::{Code, Status};

use super::dial::cause;
use super::dial::http2::{EndpointAddress, Http2, Link, Security};
use super::dial::tls;
use super::kubernetes::short;
use super::trace::Span;
use crate::config::etcd::EtcdFiles;
use crate::config::proxy::Proxy;
use crate::snapshot::{AlarmKind, EtcdAlarm, EtcdEndpoint, EtcdMember, EtcdStatus, Gap, GapKind, Observed};

/// Longest answer that is taken, in bytes. That of eleven members has two thousand.
const LARGEST: usize = 64 << 10;

/// The endpoints of `--etcd-endpoints`.
pub(crate) struct EtcdClients {
    endpoints: Vec<String>,
    tls: Observed<Arc<ClientConfig>>,
    timeout: Duration,
}

impl EtcdClients {
    /// `http://` endpoints are asked in plain text and without the client certificate, all others through TLS.
    /// `call_timeout` bounds all that is done with one of them.
    pub(crate) fn new(endpoints: Vec<String>, files: &EtcdFiles, call_timeout: Duration) -> Self {
        let tls = tls::verifying(&files.ca, files.client.as_ref())
            .map_err(|error| Gap::new(GapKind::Malformed, short(&format!("{error:#}"))));
        Self { endpoints, tls, timeout: call_timeout }
    }

    /// Status, members and alarms of each endpoint, all at once and each with its own outcome.
    ///
    /// Every round dials anew: a connection to a machine that has vanished would go on being silent when it is back, and an
    /// old one does not show the certificate that etcd would show now.
    pub(crate) async fn observe(&self) -> Vec<EtcdEndpoint> {
        join_all(self.endpoints.iter().map(|address| self.endpoint(address))).await
    }

    async fn endpoint(&self, address: &str) -> EtcdEndpoint {
        let until = Instant::now() + self.timeout;
        let (status, members, alarms) = match self.connect(address, until).await {
            Ok(api) => tokio::join!(
                self.bounded(until, "etcd Status", address, api.status()),
                self.bounded(until, "etcd MemberList", address, api.members()),
                self.bounded(until, "etcd Alarm", address, api.alarms()),
            ),
            Err(gap) => (Err(gap.clone()), Err(gap.clone()), Err(gap)),
        };
        EtcdEndpoint { address: address.to_owned(), status, members, alarms }
    }

    async fn connect(&self, address: &str, until: Instant) -> Observed<Api> {
        let (address, scheme) = parse(address)?;
        let security = match &self.tls {
            _ if scheme == Scheme::HTTP => Security::PlainText,
            Ok(config) => Security::Tls { config: Arc::clone(config), demands_h2: true },
            Err(gap) => return Err(gap.clone()),
        };
        let link = Link::new(address, security);
        let (connection, _) =
            timeout_at(until, Box::pin(link.open())).await.map_err(|_| link.silence(self.timeout))??;
        Ok(Api { connection })
    }

    async fn bounded<T>(
        &self,
        until: Instant,
        name: &str,
        address: &str,
        call: impl Future<Output = Observed<T>>,
    ) -> Observed<T> {
        let span = Span::begin(|| (name.to_owned(), vec![("server.address", address.into())]));
        let answer = timeout_at(until, call).await.unwrap_or_else(|_| Err(cause::no_answer(self.timeout)));
        span.end(&answer);
        answer
    }
}

/// The port at which etcd serves its clients, unless told otherwise.
const CLIENTS: u16 = 2379;

/// Where an endpoint is, and what is spoken there: TLS, unless it begins with `http://`.
fn parse(text: &str) -> Observed<(EndpointAddress, Scheme)> {
    let malformed = || {
        let expected = "an endpoint is `https://HOST:PORT`, `http://HOST:PORT`, or `HOST:PORT` (https)";
        Gap::new(GapKind::Malformed, expected)
    };
    let url = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    let url: Uri = url.parse().map_err(|_| malformed())?;
    let scheme = url.scheme().filter(|&it| *it == Scheme::HTTPS || *it == Scheme::HTTP).ok_or_else(malformed)?;
    let authority = url.authority().ok_or_else(malformed)?;
    let port = match authority.port_u16() {
        Some(port) => port,
        // `http` calls a port that is no number, or too large, none.
        None if !authority.as_str().ends_with(authority.host()) => return Err(malformed()),
        None => CLIENTS,
    };
    let host = authority.host().trim_matches(['[', ']']).to_owned();
    Ok((EndpointAddress { host, port, shown: text.to_owned(), via: Proxy::Direct }, scheme.clone()))
}

/// The API of the member at the other end of a connection.
struct Api {
    connection: Http2,
}

impl Api {
    async fn status(&self) -> Observed<EtcdStatus> {
        let status =
            self.maintenance().status(StatusRequest {}).await.map_err(|status| self.gap(&status))?.into_inner();
        let size = |bytes: i64| u64::try_from(bytes).unwrap_or_default();
        Ok(EtcdStatus {
            member_id: answered_by(status.header)?,
            leader: status.leader,
            raft_term: status.raft_term,
            raft_index: status.raft_index,
            raft_applied_index: status.raft_applied_index,
            is_learner: status.is_learner,
            errors: status.errors,
            db_size: size(status.db_size),
            db_size_in_use: size(status.db_size_in_use),
            // An older etcd leaves the field out, which reads as 0.
            quota: u64::try_from(status.db_size_quota).ok().filter(|&quota| quota > 0),
            version: status.version,
            storage_version: status.storage_version,
            earlier: None,
            slower: Duration::ZERO,
        })
    }

    /// The members, after a proof of quorum.
    ///
    /// etcd before 3.5 knows a serializable list only, which a member without quorum answers from its memory. A linearizable read
    /// through the same member first makes the list what a linearizable one would be: etcd itself makes it in these two steps.
    async fn members(&self) -> Observed<Vec<EtcdMember>> {
        let read = RangeRequest { key: b"cluster-health".to_vec(), serializable: false, count_only: true };
        let kv = KvClient::with_origin(self.connection.clone(), self.connection.origin());
        match kv.max_decoding_message_size(LARGEST).range(read).await {
            Ok(read) => drop(answered_by(read.into_inner().header)?),
            // The member has read linearizably before it looks at permissions.
            Err(status)
                if status.code() == Code::PermissionDenied && status.message() == "etcdserver: permission denied" => {}
            Err(status) => return Err(self.gap(&status)),
        }
        let cluster = ClusterClient::with_origin(self.connection.clone(), self.connection.origin());
        let list =
            cluster.max_decoding_message_size(LARGEST).member_list(MemberListRequest { linearizable: false }).await;
        let answer = list.map_err(|status| self.gap(&status))?.into_inner();
        let member = |member: Member| EtcdMember {
            id: member.id,
            name: member.name,
            peer_urls: member.peer_ur_ls,
            client_urls: member.client_ur_ls,
            is_learner: member.is_learner,
        };
        Ok(answer.members.into_iter().map(member).collect())
    }

    async fn alarms(&self) -> Observed<Vec<EtcdAlarm>> {
        let request = AlarmRequest { action: AlarmAction::Get.into(), ..AlarmRequest::default() };
        let answer = self.maintenance().alarm(request).await.map_err(|status| self.gap(&status))?.into_inner();
        answered_by(answer.header)?;
        let alarm = |alarm: AlarmMember| EtcdAlarm {
            member_id: alarm.member_id,
            kind: match AlarmType::try_from(alarm.alarm) {
                Ok(AlarmType::Nospace) => AlarmKind::NoSpace,
                Ok(AlarmType::Corrupt) => AlarmKind::Corrupt,
                Ok(AlarmType::None) | Err(_) => AlarmKind::Other(alarm.alarm),
            },
        };
        Ok(answer.alarms.into_iter().map(alarm).collect())
    }

    fn maintenance(&self) -> MaintenanceClient<Http2> {
        let client = MaintenanceClient::with_origin(self.connection.clone(), self.connection.origin());
        client.max_decoding_message_size(LARGEST)
    }

    fn gap(&self, status: &Status) -> Gap {
        // A status that was made on this side of the wire.
        if let Some(source) = status.source() {
            return cause::of_loss(source, self.connection.fault());
        }
        let kind = match status.code() {
            Code::Unauthenticated => GapKind::Unauthenticated,
            Code::PermissionDenied => GapKind::Forbidden,
            // In etcd's own words: it has users, and this is none of them.
            Code::InvalidArgument if status.message() == "etcdserver: user name is empty" => GapKind::Unauthenticated,
            Code::DeadlineExceeded | Code::Cancelled => GapKind::TimedOut,
            Code::OutOfRange => return Gap::new(GapKind::TooLarge, "an answer of more than 64 KiB"),
            _ => GapKind::ServerError,
        };
        Gap::new(kind, short(status.message()))
    }
}

/// Every answer of etcd names the member that gave it. One that names none is an empty message, which would otherwise read as
/// no leader, no alarm, or a quorum.
fn answered_by(header: Option<ResponseHeader>) -> Observed<u64> {
    let member = header.map(|header| header.member_id).filter(|&id| id != 0);
    member.ok_or_else(|| Gap::new(GapKind::Malformed, "an answer of no member"))
}

#[cfg(test)]
mod tests {
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

    /// Enough for a handshake on a busy machine.
    const CALL: Duration = Duration::from_secs(10);
    /// For servers that never answer.
    const SHORT: Duration = Duration::from_millis(400);

    /// A field of a protobuf message.
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

    /// A healthy single member.
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

    /// Serves gRPC without knowing more of it than its frames.
    async fn serve(tls: Option<TlsAcceptor>, script: fn(&str) -> Answer) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let tls = Arc::new(tls);
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let tls = Arc::clone(&tls);
                tokio::spawn(async move {
                    let service = hyper::service::service_fn(move |request: Request<Incoming>| async move {
                        let (message, status, text) = match script(request.uri().path()) {
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

    async fn observe(address: String, credentials: EtcdFiles, call_timeout: Duration) -> EtcdEndpoint {
        let seen = EtcdClients::new(vec![address], &credentials, call_timeout).observe().await;
        seen.into_iter().next().unwrap()
    }

    fn credentials(pki: &Pki) -> EtcdFiles {
        let leaf = pki.issue(&[], |_| {});
        let ca = vec![CertificateDer::from_pem_slice(pki.ca_pem().as_bytes()).unwrap()];
        let (certificate, key) = (leaf.certificate.pem(), leaf.key.serialize_pem());
        let client = identity(certificate.as_bytes(), key.as_bytes(), Peer::Kubernetes).unwrap();
        EtcdFiles { ca, client: Some(client) }
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
        let seen = observe(format!("http://127.0.0.1:{port}"), EtcdFiles::default(), SHORT).await;
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
        let seen = observe(format!("http://127.0.0.1:{port}"), EtcdFiles::default(), CALL).await;
        assert_eq!(seen.members.unwrap().len(), 1);
        // A gateway's refusal is none of etcd's.
        let port = serve(None, |path| match path {
            "/etcdserverpb.KV/Range" => Answer::Status(7, "RBAC: access denied"),
            path => healthy(path),
        })
        .await;
        let seen = observe(format!("http://127.0.0.1:{port}"), EtcdFiles::default(), CALL).await;
        assert_eq!(seen.members.unwrap_err().kind, GapKind::Forbidden);
    }

    #[tokio::test]
    async fn who_is_no_user_of_etcd_is_not_known_to_it() {
        let port = serve(None, |path| match path {
            "/etcdserverpb.KV/Range" => Answer::Status(3, "etcdserver: user name is empty"),
            "/etcdserverpb.Maintenance/Alarm" => Answer::Status(16, "etcdserver: invalid auth token"),
            path => healthy(path),
        })
        .await;
        let seen = observe(format!("http://127.0.0.1:{port}"), EtcdFiles::default(), CALL).await;
        assert_eq!(kinds(&seen), [None, Some(GapKind::Unauthenticated), Some(GapKind::Unauthenticated)]);
    }

    #[tokio::test]
    async fn a_list_of_crumbs_is_not_decoded() {
        let port = serve(None, |path| match path {
            "/etcdserverpb.Cluster/MemberList" => Answer::Message([header(), bytes(2, &[]).repeat(1 << 20)].concat()),
            path => healthy(path),
        })
        .await;
        let seen = observe(format!("http://127.0.0.1:{port}"), EtcdFiles::default(), CALL).await;
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
        let seen = observe(format!("http://127.0.0.1:{port}"), EtcdFiles::default(), CALL).await;
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
        let seen = observe(format!("http://127.0.0.1:{port}"), EtcdFiles::default(), CALL).await;
        let kinds: Vec<_> = seen.alarms.unwrap().into_iter().map(|alarm| alarm.kind).collect();
        assert_eq!(kinds, [AlarmKind::NoSpace, AlarmKind::Other(7)]);
    }

    /// Names and numbers of the fields are ours: another client of the same bytes must read the same in them.
    #[tokio::test]
    async fn etcd_client_reads_the_same() {
        let port = serve(None, |path| {
            let header = header();
            Answer::Message(match path {
                "/etcdserverpb.Maintenance/Status" => {
                    let numbers = [(3, 20480), (4, ID + 1), (5, 12), (6, 3), (7, 11), (9, 4096), (10, 1), (12, 8192)];
                    let numbers = numbers.map(|(field, value)| number(field, value)).concat();
                    [header, numbers, bytes(2, b"3.6.16"), bytes(8, b"no leader"), bytes(11, b"3.6.0")].concat()
                }
                "/etcdserverpb.Cluster/MemberList" => {
                    let urls = [bytes(3, b"https://10.0.0.1:2380"), bytes(4, b"https://10.0.0.1:2379")].concat();
                    let member = [number(1, ID), bytes(2, b"etcd-1"), urls, number(5, 1)].concat();
                    [header, bytes(2, &member)].concat()
                }
                "/etcdserverpb.Maintenance/Alarm" => {
                    [header, bytes(2, &[number(1, ID), number(2, 2)].concat())].concat()
                }
                path => return healthy(path),
            })
        })
        .await;
        let url = format!("http://127.0.0.1:{port}");
        let seen = observe(url.clone(), EtcdFiles::default(), CALL).await;
        let mut theirs = etcd_client::Client::connect([url], None).await.unwrap();

        let status = theirs.status().await.unwrap();
        let expected = EtcdStatus {
            member_id: status.header().unwrap().member_id(),
            leader: status.leader(),
            raft_term: status.raft_term(),
            raft_index: status.raft_index(),
            raft_applied_index: status.raft_applied_index(),
            is_learner: status.is_learner(),
            errors: status.errors().to_vec(),
            db_size: status.db_size().try_into().unwrap(),
            db_size_in_use: status.raft_used_db_size().try_into().unwrap(),
            quota: Some(status.db_size_quota().try_into().unwrap()),
            version: status.version().to_owned(),
            storage_version: status.storage_version().to_owned(),
            earlier: None,
            slower: Duration::ZERO,
        };
        assert_eq!(seen.status.unwrap(), expected);

        let list = theirs.member_list().await.unwrap();
        let expected = list.members().iter().map(|member| EtcdMember {
            id: member.id(),
            name: member.name().to_owned(),
            peer_urls: member.peer_urls().to_vec(),
            client_urls: member.client_urls().to_vec(),
            is_learner: member.is_learner(),
        });
        assert_eq!(seen.members.unwrap(), expected.collect::<Vec<_>>());

        let (get, any) = (etcd_client::AlarmAction::Get, etcd_client::AlarmType::None);
        let alarms = theirs.alarm(get, any, None).await.unwrap();
        assert_eq!(alarms.alarms()[0].alarm(), etcd_client::AlarmType::Corrupt);
        let expected = EtcdAlarm { member_id: alarms.alarms()[0].member_id(), kind: AlarmKind::Corrupt };
        assert_eq!(seen.alarms.unwrap(), [expected]);
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
        let ask = |at| observe(format!("http://{at}"), EtcdFiles::default(), CALL);
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
        let without = EtcdFiles { client: None, ..credentials(&ours) };
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
        let seen = EtcdClients::new(endpoints, &EtcdFiles::default(), SHORT).observe().await;
        assert!(seen[0].status.is_err() && seen[1].status.is_ok());
    }
}
