//! A Talos endpoint in this process: apid's routing, the machine service and COSI, behind real TLS.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures::{StreamExt as _, stream};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, PKCS_ED25519,
};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use talos_api::common::Data;
use talos_api::cosi::resource::state_server::{State, StateServer};
use talos_api::cosi::resource::{GetRequest, GetResponse, ListRequest, ListResponse, Metadata, Resource, Spec};
use talos_api::google::protobuf::Empty;
use talos_api::machine::machine_service_server::{MachineService, MachineServiceServer};
use talos_api::machine::{
    EtcdAlarm, EtcdAlarmListResponse, EtcdMember, EtcdMemberAlarm, EtcdMemberListRequest, EtcdMemberListResponse,
    EtcdMemberStatus, EtcdMembers, EtcdStatus, EtcdStatusResponse, FileInfo, ListRequest as FilesRequest,
    ServiceHealth, ServiceInfo, ServiceList, ServiceListResponse, Version, VersionInfo, VersionResponse,
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use crate::config::certificate::{Identity, Peer, identity};
use crate::config::proxy::Proxy;
use crate::observe::talos::EndpointAddress;

/// A CA like Talos's: Ed25519, and the same subject in every cluster.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(super) pem: String,
}

impl Authority {
    pub(super) fn new() -> Self {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "talos");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    pub(super) fn certificate(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()
    }

    pub(super) fn client(&self) -> Identity {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::OrganizationName, "os:reader");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params)
    }

    /// Issues a server certificate for `name`.
    pub(super) fn server(&self, name: &str, edit: impl FnOnce(&mut CertificateParams)) -> Identity {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        edit(&mut params);
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let certificate_pem = params.signed_by(&key, &self.issuer).unwrap().pem();
        identity(certificate_pem.as_bytes(), key.serialize_pem().as_bytes(), Peer::Talos).unwrap()
    }
}

/// Returns TLS settings. `clients` is the CA whose client certificates are required; `None` if none is required, as in maintenance mode.
pub(super) fn tls(leaf: &Identity, clients: Option<&Authority>, alpn: bool) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(authority.certificate()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(leaf.chain.clone(), leaf.key.clone_key()).unwrap();
    if alpn {
        config.alpn_protocols = vec![b"h2".to_vec()];
    }
    Arc::new(config)
}

/// The behavior of the machine at an address.
#[derive(Clone, Default)]
pub(super) enum Machine {
    /// Answers, under this name.
    Named(&'static str),
    Maintenance,
    #[default]
    Absent,
    Hangs,
    Refuses(tonic::Code, &'static str),
    /// Lists without an end.
    Endless,
    /// Lists one resource of 5 MiB.
    Big,
    /// Uses this text, repeated this many times, as every specification.
    Says(&'static str, usize),
    /// Puts this many empty parts into every single-message answer.
    Crumbles(usize),
}

/// One endpoint. The machine at `""` is the endpoint's own.
#[derive(Clone, Default)]
pub(super) struct Fake {
    pub(super) machines: Arc<Mutex<HashMap<String, Machine>>>,
    /// `method node` of every call.
    pub(super) seen: Arc<Mutex<Vec<String>>>,
    /// Whether each of them was signed.
    pub(super) signed: Arc<Mutex<Vec<bool>>>,
    pub(super) etcd: &'static str,
}

impl Fake {
    pub(super) fn new(machines: &[(&str, Machine)]) -> Self {
        let machines = machines.iter().map(|(address, machine)| ((*address).to_owned(), machine.clone())).collect();
        Self { machines: Arc::new(Mutex::new(machines)), seen: Arc::default(), signed: Arc::default(), etcd: "Running" }
    }

    async fn machine<T>(&self, method: &str, request: &Request<T>) -> Result<Machine, Status> {
        let metadata = request.metadata();
        assert_eq!(metadata.get("runtime").unwrap(), "Talos");
        assert!(metadata.contains_key("grpc-timeout"));
        let node = metadata.get("node").map_or("", |node| node.to_str().unwrap()).to_owned();
        let cluster = metadata.get("context").map_or("-", |name| name.to_str().unwrap());
        self.seen.lock().unwrap().push(format!("{method} {node} {cluster}"));
        let signed = ["x-sidero-timestamp", "x-sidero-payload", "x-sidero-signature"];
        self.signed.lock().unwrap().push(signed.iter().any(|name| metadata.contains_key(*name)));
        let machine = self.machines.lock().unwrap().get(&node).cloned().unwrap_or_default();
        match machine {
            Machine::Hangs => std::future::pending().await,
            Machine::Refuses(code, text) => Err(Status::new(code, text)),
            Machine::Absent => Err(Status::unavailable(format!(
                "connection error: desc = \"transport: Error while dialing: dial tcp {node}:50000: connect: no route to host\""
            ))),
            machine => Ok(machine),
        }
    }

    pub(super) async fn serve(self, tls: Arc<ServerConfig>) -> EndpointAddress {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = address(listener.local_addr().unwrap());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let acceptor = TlsAcceptor::from(Arc::clone(&tls));
                let routes = tonic::service::Routes::new(MachineServiceServer::new(self.clone()))
                    .add_service(StateServer::new(self.clone()).max_encoding_message_size(64 << 20));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes))
                        .await;
                });
            }
        });
        at
    }
}

/// Starts a server that answers every call with an invalid message.
pub(super) async fn garbage(tls: Arc<ServerConfig>) -> EndpointAddress {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = address(listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let stream = TlsAcceptor::from(tls).accept(stream).await.unwrap();
        let answer = hyper::service::service_fn(|_: http::Request<Incoming>| async {
            let frame = [0, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff];
            let body = http_body_util::Full::new(hyper::body::Bytes::copy_from_slice(&frame));
            Ok::<_, Infallible>(
                http::Response::builder().header("content-type", "application/grpc").body(body).unwrap(),
            )
        });
        let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), answer)
            .await;
    });
    at
}

/// Starts a server that answers every call with this head, and nothing after it.
pub(super) async fn answering(
    tls: Arc<ServerConfig>,
    head: impl Fn() -> http::response::Builder + Clone + Send + Sync + 'static,
) -> EndpointAddress {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = address(listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (acceptor, head) = (TlsAcceptor::from(Arc::clone(&tls)), head.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let answer = hyper::service::service_fn(move |_: http::Request<Incoming>| {
                    let answer = head().body(http_body_util::Empty::<hyper::body::Bytes>::new()).unwrap();
                    async { Ok::<_, Infallible>(answer) }
                });
                let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), answer)
                    .await;
            });
        }
    });
    at
}

pub(super) fn address(at: SocketAddr) -> EndpointAddress {
    EndpointAddress { host: at.ip().to_string(), port: at.port(), shown: at.to_string(), via: Proxy::Direct }
}

fn resource(namespace: &str, kind: &str, id: &str, yaml: &str) -> Resource {
    Resource {
        metadata: Some(Metadata {
            namespace: namespace.into(),
            r#type: kind.into(),
            id: id.into(),
            phase: "running".into(),
            ..Default::default()
        }),
        spec: Some(Spec { yaml_spec: yaml.into(), ..Default::default() }),
    }
}

#[tonic::async_trait]
impl State for Fake {
    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        let machine = self.machine(&request.get_ref().r#type, &request).await?;
        let asked = request.into_inner();
        let yaml = match (asked.r#type.as_str(), asked.namespace.as_str(), asked.id.as_str(), &machine) {
            (.., Machine::Says(text, times)) => text.repeat(*times),
            ("MachineStatuses.runtime.talos.dev", "runtime", "machine", Machine::Maintenance) => {
                "stage: maintenance\nstatus:\n    ready: true\n    unmetConditions: []\n".to_owned()
            }
            ("MachineStatuses.runtime.talos.dev", "runtime", "machine", _) => {
                "stage: running\nstatus:\n    ready: true\n    unmetConditions: []\n".to_owned()
            }
            ("MachineTypes.config.talos.dev", "config", "machine-type", Machine::Named(name)) => {
                if name.starts_with("cp") { "controlplane\n" } else { "worker\n" }.to_owned()
            }
            ("Nodenames.kubernetes.talos.dev", "k8s", "nodename", Machine::Named(name)) => {
                format!("nodename: {name}\nhostnameVersion: \"1\"\n")
            }
            ("NodeAddresses.net.talos.dev", "network", "routed-no-k8s", _) => {
                "addresses:\n    - 10.0.0.1/24\n".to_owned()
            }
            ("EtcdMembers.etcd.talos.dev", "etcd", "local", _) => "memberID: 00000000000000ff\n".to_owned(),
            (kind, namespace, id, _) => {
                return Err(Status::not_found(format!("resource {kind}({namespace}/{id}@undefined) doesn't exist")));
            }
        };
        let resource = Some(resource(&asked.namespace, &asked.r#type, &asked.id, &yaml));
        Ok(Response::new(GetResponse { resource }))
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<BoxStream<ListResponse>>, Status> {
        let machine = self.machine(&request.get_ref().r#type, &request).await?;
        let asked = request.into_inner();
        let members = asked.r#type == "Members.cluster.talos.dev";
        let one = move |id: &str, yaml: &str| {
            let resource = Some(resource(&asked.namespace, &asked.r#type, id, yaml));
            Ok(ListResponse { resource })
        };
        let member = "nodeId: a\naddresses:\n    - 10.0.0.1\nhostname: cp-1\nmachineType: controlplane\n";
        Ok(Response::new(match machine {
            Machine::Endless => stream::repeat_with(move || one("cp-1", member)).boxed(),
            Machine::Big => stream::iter([one("cp-1", &format!("{member}# {}\n", "x".repeat(5 << 20)))]).boxed(),
            Machine::Says(text, times) => stream::iter([one("cp-1", &text.repeat(times))]).boxed(),
            _ if members => stream::iter([one("cp-1", member)]).boxed(),
            _ => stream::empty().boxed(),
        }))
    }
}

#[tonic::async_trait]
impl MachineService for Fake {
    async fn version(&self, request: Request<Empty>) -> Result<Response<VersionResponse>, Status> {
        if let Machine::Crumbles(parts) = self.machine("Version", &request).await? {
            return Ok(Response::new(VersionResponse { messages: vec![Version::default(); parts] }));
        }
        let version = Version {
            version: Some(VersionInfo { tag: "v1.13.0".into(), ..Default::default() }),
            ..Default::default()
        };
        Ok(Response::new(VersionResponse { messages: vec![version] }))
    }

    async fn service_list(&self, request: Request<Empty>) -> Result<Response<ServiceListResponse>, Status> {
        self.machine("ServiceList", &request).await?;
        let health = Some(ServiceHealth { healthy: true, ..Default::default() });
        let etcd = ServiceInfo { id: "etcd".into(), state: self.etcd.into(), health, ..Default::default() };
        Ok(Response::new(ServiceListResponse { messages: vec![ServiceList { metadata: None, services: vec![etcd] }] }))
    }

    async fn etcd_status(&self, request: Request<Empty>) -> Result<Response<EtcdStatusResponse>, Status> {
        self.machine("EtcdStatus", &request).await?;
        let member_status = Some(EtcdMemberStatus { member_id: 255, leader: 255, ..Default::default() });
        Ok(Response::new(EtcdStatusResponse { messages: vec![EtcdStatus { metadata: None, member_status }] }))
    }

    async fn etcd_member_list(
        &self,
        request: Request<EtcdMemberListRequest>,
    ) -> Result<Response<EtcdMemberListResponse>, Status> {
        self.machine("EtcdMemberList", &request).await?;
        assert!(request.get_ref().query_local);
        let members = vec![EtcdMember { id: 255, hostname: "cp-1".into(), ..Default::default() }];
        Ok(Response::new(EtcdMemberListResponse { messages: vec![EtcdMembers { members, ..Default::default() }] }))
    }

    async fn etcd_alarm_list(&self, request: Request<Empty>) -> Result<Response<EtcdAlarmListResponse>, Status> {
        self.machine("EtcdAlarmList", &request).await?;
        let member_alarms = vec![EtcdMemberAlarm { member_id: 255, alarm: 1 }];
        Ok(Response::new(EtcdAlarmListResponse { messages: vec![EtcdAlarm { metadata: None, member_alarms }] }))
    }

    async fn kubeconfig(&self, request: Request<Empty>) -> Result<Response<BoxStream<Data>>, Status> {
        self.machine("Kubeconfig", &request).await?;
        let archive = crate::observe::talos::kubeconfig::tests::pack("kind: Config\n");
        let chunks: Vec<_> =
            archive.chunks(40).map(|bytes| Ok(Data { metadata: None, bytes: bytes.to_vec() })).collect();
        Ok(Response::new(stream::iter(chunks).boxed()))
    }

    async fn list(&self, request: Request<FilesRequest>) -> Result<Response<BoxStream<FileInfo>>, Status> {
        self.machine("List", &request).await?;
        assert_eq!(request.get_ref().root, "/var/lib/etcd");
        let root =
            FileInfo { name: "/var/lib/etcd".into(), relative_name: ".".into(), is_dir: true, ..Default::default() };
        Ok(Response::new(stream::iter([Ok(root)]).boxed()))
    }
}
