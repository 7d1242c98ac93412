//! Sends recorded calls to simulated clusters.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{BufMut as _, BytesMut};
use futures::future::join_all;
use http_body_util::{BodyExt as _, Full};
use regex::Regex;
use serde::Serialize;
use serde_json::{Value, json};
use simulator::Simulator;
use simulator::pki::{Authority, Flaw, Leaf};
use simulator::world::{Machine, World};
use talos_api::cosi::resource as cosi;
use talos_api::google::protobuf::Empty;
use talos_api::{Message, machine};
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;

use crate::connection::{Channel, connect};
use crate::recording::{Answer, Call, FOREIGN, KubernetesCall, MACHINES, TalosCall, host};

/// Slightly more than the time that the recorder waited for an answer.
const SILENCE: Duration = Duration::from_millis(5500);
/// Slightly more than the time that the recorder waited for a connection.
const CONNECT: Duration = Duration::from_millis(4500);
/// Time limit for answers that the real cluster gave: this computer may be busy.
const PATIENCE: Duration = Duration::from_secs(40);

/// Number of bytes before each message.
const FRAME: usize = 5;

/// A client that calls a simulated cluster in place of the real one.
pub(crate) struct Client {
    simulator: Simulator,
    /// The cluster of the kubeconfig, if it is not the simulated cluster itself.
    foreign: Option<Simulator>,
    talos: Leaf,
    kubernetes: Leaf,
    /// Addresses and names in the simulation, with those of the real cluster.
    aliases: Vec<(Regex, String)>,
    connections: Mutex<HashMap<SocketAddr, Arc<Connection>>>,
}

type Connection = OnceCell<Result<Channel, Answer>>;

impl Client {
    /// Creates a client with the roles of the recorder.
    pub(crate) fn new(simulator: Simulator, foreign: Option<Simulator>, talos: &str, kubernetes: &str) -> Self {
        let mut aliases = simulator.change(|world| aliases(world));
        aliases.push(alias(&simulator.network().balancer().to_string(), FOREIGN));
        let user = if kubernetes == "none" { ("admin", &["system:masters"][..]) } else { ("reader", &[][..]) };
        let issuer = foreign.as_ref().unwrap_or(&simulator);
        Self {
            talos: simulator.pki().talos.client("test", &[talos], Flaw::None).unwrap(),
            kubernetes: issuer.pki().kubernetes.client(user.0, user.1, Flaw::None).unwrap(),
            simulator,
            foreign,
            aliases,
            connections: Mutex::default(),
        }
    }

    /// Sends all calls at once, because none depends on another.
    pub(crate) async fn ask_all(&self, calls: &[Call]) -> Vec<Answer> {
        let answers = join_all(calls.iter().map(|call| self.ask(call))).await;
        let as_recorded = |answer: Answer| Answer {
            outcome: self.as_recorded(answer.outcome),
            content: self.renamed(answer.content),
        };
        answers.into_iter().map(as_recorded).collect()
    }

    async fn ask(&self, call: &Call) -> Answer {
        let asked = async {
            match call {
                Call::Talos(call) => self.talos(call).await,
                Call::Kubernetes(call) => self.kubernetes(call).await,
            }
        };
        let patience = if call.answer().is_silence() { SILENCE } else { PATIENCE };
        timeout(patience, asked).await.unwrap_or_else(|_| Answer::none("TimedOut"))
    }

    /// The simulated address of the machine with this recorded address.
    fn place(&self, address: &str) -> Option<IpAddr> {
        let index = MACHINES.iter().position(|(at, _)| *at == address)?;
        Some(self.simulator.network().machine(index))
    }

    async fn talos(&self, call: &TalosCall) -> Answer {
        let at = SocketAddr::new(self.place(host(&call.endpoint)).unwrap(), 50_000);
        let mut channel = match self.connect(at, &self.simulator.pki().talos, &self.talos).await {
            Ok(channel) => channel,
            Err(silence) => return silence,
        };
        if call.method.is_empty() {
            return Answer { content: json!([]), ..Answer::none("Ok") };
        }
        let node = call.node.as_deref().and_then(|node| self.place(node)).map(|node| node.to_string());
        let request = request(&call.method, node.as_deref(), &call.request);
        let answered = async {
            let response = tower::ServiceExt::ready(&mut channel).await?;
            let response = tower::Service::call(response, request).await?;
            let (parts, body) = response.into_parts();
            Ok::<_, hyper::Error>((parts, body.collect().await?))
        };
        match answered.await {
            Ok((parts, body)) => {
                let trailers = body.trailers().cloned().unwrap_or_default();
                let status = Status::from_header_map(&parts.headers).or_else(|| Status::from_header_map(&trailers));
                let status = status.unwrap_or_else(|| Status::unknown("no status"));
                let code = format!("{:?}", status.code());
                Answer { content: messages(&call.method, &body.to_bytes()), ..Answer::status(&code, status.message()) }
            }
            Err(error) => Answer::none(&format!("broken: {error}")),
        }
    }

    async fn kubernetes(&self, call: &KubernetesCall) -> Answer {
        let host = host(&call.server);
        let of = self.foreign.as_ref().filter(|_| host == FOREIGN).unwrap_or(&self.simulator);
        let at = self.place(host).unwrap_or_else(|| of.network().balancer());
        let trusted = self.foreign.as_ref().unwrap_or(&self.simulator);
        let trusted = &trusted.pki().kubernetes;
        let mut channel = match self.connect(SocketAddr::new(at, 6443), trusted, &self.kubernetes).await {
            Ok(channel) => channel,
            Err(silence) => return silence,
        };
        let request = http::Request::get(&call.path).header("accept", "application/json").body(Body::empty()).unwrap();
        let answered = async {
            let response = tower::ServiceExt::ready(&mut channel).await?;
            let response = tower::Service::call(response, request).await?;
            let status = response.status().as_u16().to_string();
            let body = response.into_body().collect().await?.to_bytes();
            Ok::<_, hyper::Error>((status, body))
        };
        match answered.await {
            Ok((outcome, body)) => {
                let content = serde_json::from_slice(&body);
                Answer { outcome, content: content.unwrap_or_else(|_| String::from_utf8_lossy(&body).into()) }
            }
            Err(error) => Answer::none(&format!("broken: {error}")),
        }
    }

    /// Connects to each server once, for all calls.
    async fn connect(&self, at: SocketAddr, trusted: &Authority, leaf: &Leaf) -> Result<Channel, Answer> {
        let connection = Arc::clone(self.connections.lock().unwrap().entry(at).or_default());
        let connected = connection.get_or_init(|| async {
            // A connection that is not established is distinguished from one without answers.
            let dialed = timeout(CONNECT, tokio::net::TcpStream::connect(at)).await;
            if dialed.is_err() {
                return Err(Answer::none("ConnectTimedOut"));
            }
            connect(at, trusted, leaf).await.map_err(|error| Answer::none(&failure(&error)))
        });
        connected.await.clone()
    }

    /// Replaces addresses and names of machines by those of the real cluster.
    fn as_recorded(&self, text: String) -> String {
        self.aliases.iter().fold(text, |text, (own, real)| match own.replace_all(&text, real) {
            Cow::Borrowed(_) => text,
            Cow::Owned(renamed) => renamed,
        })
    }

    fn renamed(&self, content: Value) -> Value {
        match content {
            Value::String(text) => self.as_recorded(text).into(),
            Value::Array(items) => items.into_iter().map(|item| self.renamed(item)).collect(),
            Value::Object(entries) => {
                entries.into_iter().map(|(key, entry)| (self.as_recorded(key), self.renamed(entry))).collect()
            }
            other => other,
        }
    }
}

fn aliases(world: &World) -> Vec<(Regex, String)> {
    let machines = world.machines.iter().zip(MACHINES);
    let both = |((address, machine), (real, name)): ((&IpAddr, &Machine), _)| {
        [alias(&address.to_string(), real), alias(&machine.name, name)]
    };
    machines.flat_map(both).collect()
}

/// A whole word, with its replacement. Names of pods and namespaces are joined with `_`.
fn alias(own: &str, real: &str) -> (Regex, String) {
    (Regex::new(&format!(r"\b{}(\b|_)", regex::escape(own))).unwrap(), format!("{real}$1"))
}

fn failure(error: &io::Error) -> String {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::ConnectionRefused => "ConnectionRefused".to_owned(),
        // If the authorities have equal names, the error is a wrong signature.
        ErrorKind::InvalidData if text.contains("UnknownIssuer") || text.contains("BadSignature") => {
            "UnknownCa".to_owned()
        }
        _ => format!("no connection: {error}"),
    }
}

/// A gRPC request.
fn request(method: &str, node: Option<&str>, message: &Value) -> http::Request<Body> {
    let message = encoded(method, message);
    let mut body = BytesMut::new();
    body.put_u8(0);
    body.put_u32(message.len().try_into().unwrap());
    body.put_slice(&message);
    let mut request = http::Request::post(method).header("content-type", "application/grpc").header("te", "trailers");
    if let Some(node) = node {
        request = request.header("node", node);
    }
    request.body(Body::new(Full::new(body.freeze()))).unwrap()
}

fn encoded(method: &str, message: &Value) -> Vec<u8> {
    let text = |key: &str| message[key].as_str().unwrap_or_default().to_owned();
    match method {
        "/cosi.resource.State/Get" => {
            let (namespace, id) = (text("namespace"), text("id"));
            cosi::GetRequest { namespace, r#type: text("type"), id, ..Default::default() }.encode_to_vec()
        }
        "/cosi.resource.State/List" => {
            let namespace = text("namespace");
            cosi::ListRequest { namespace, r#type: text("type"), ..Default::default() }.encode_to_vec()
        }
        "/machine.MachineService/EtcdMemberList" => {
            let query_local = message["query_local"] == true;
            machine::EtcdMemberListRequest { query_local }.encode_to_vec()
        }
        "/machine.MachineService/List" => {
            machine::ListRequest { root: text("root"), ..Default::default() }.encode_to_vec()
        }
        _ => Empty {}.encode_to_vec(),
    }
}

/// The messages of an answer in the format of recordings.
fn messages(method: &str, mut bytes: &[u8]) -> Value {
    fn of<P: Message + Default + Serialize>(bytes: &[u8]) -> Value {
        serde_json::to_value(P::decode(bytes).unwrap()).unwrap()
    }
    let mut messages = Vec::new();
    while bytes.len() >= FRAME {
        let length = usize::try_from(u32::from_be_bytes(bytes[1..FRAME].try_into().unwrap())).unwrap();
        let (message, rest) = bytes[FRAME..].split_at(length);
        bytes = rest;
        messages.push(match method {
            "/machine.MachineService/Version" => of::<machine::VersionResponse>(message),
            "/machine.MachineService/ServiceList" => of::<machine::ServiceListResponse>(message),
            "/machine.MachineService/List" => of::<machine::FileInfo>(message),
            "/machine.MachineService/Memory" => of::<machine::MemoryResponse>(message),
            "/machine.MachineService/Mounts" => of::<machine::MountsResponse>(message),
            "/machine.MachineService/EtcdStatus" => of::<machine::EtcdStatusResponse>(message),
            "/machine.MachineService/EtcdMemberList" => of::<machine::EtcdMemberListResponse>(message),
            "/machine.MachineService/EtcdAlarmList" => of::<machine::EtcdAlarmListResponse>(message),
            "/cosi.resource.State/Get" => of::<cosi::GetResponse>(message),
            "/cosi.resource.State/List" => of::<cosi::ListResponse>(message),
            // Recordings contain nothing of a kubeconfig.
            _ => break,
        });
    }
    messages.into()
}
