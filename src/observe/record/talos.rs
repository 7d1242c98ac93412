//! Calls to Talos: the messages as received, the status, and the gap that resulted from them.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::MapFrame;
use hyper::body::{Bytes, Frame, Incoming};
use serde::Serialize;
use serde_json::{Value, json};
use talos_api::Message;
use talos_api::cosi::resource as cosi;
use talos_api::google::protobuf::Empty;
use talos_api::machine;
use tonic::Status;

use super::{Call, gap};
use crate::snapshot::Gap;

/// A method whose answer is a key to the cluster, so nothing of it is kept.
const SECRET: &str = "/machine.MachineService/Kubeconfig";
/// Bytes before each message: whether it is compressed, and its length.
const FRAME: usize = 5;

/// One call. It is written when dropped, so that an abandoned one is recorded too.
pub(in crate::observe) struct Tape {
    call: Option<Call>,
    endpoint: String,
    node: Option<String>,
    request: Value,
    /// The expected answer type, for a call that was never sent.
    expects: &'static str,
    reel: Reel,
    /// `None` if the call was abandoned.
    outcome: Option<Value>,
}

/// The bytes from the wire, collected by the connection.
#[derive(Clone, Default)]
pub(in crate::observe) struct Reel(Arc<Mutex<Wire>>);

#[derive(Default)]
struct Wire {
    /// `/package.Service/Method`; empty if the call was never sent.
    method: String,
    /// Messages with their frames.
    bytes: Vec<u8>,
    /// Number of bytes that were received but not kept.
    withheld: usize,
    status: Option<Status>,
}

impl Tape {
    pub(in crate::observe) fn new<P>(endpoint: String, node: Option<&str>, request: &dyn Any) -> Self {
        let expects = std::any::type_name::<P>();
        let node = node.map(str::to_owned);
        let request = asked(request);
        Self { call: Call::begin(), endpoint, node, request, expects, reel: Reel::default(), outcome: None }
    }

    pub(in crate::observe) fn reel(&self) -> Reel {
        self.reel.clone()
    }

    pub(in crate::observe) fn end<P>(&mut self, outcome: &Result<P, Gap>) {
        self.outcome = Some(gap(outcome.as_ref().err()));
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        let Some(call) = &self.call else { return };
        let wire = self.reel.wire();
        let mut document = json!({
            "source": "talos",
            "endpoint": self.endpoint,
            "node": self.node,
            "method": wire.method,
            "request": self.request,
            "milliseconds": call.took(),
        });
        if wire.method.is_empty() {
            document["expects"] = short(self.expects).into();
        }
        if wire.method == SECRET {
            document["withheldBytes"] = wire.withheld.into();
        } else {
            document["messages"] = messages(&wire.method, &wire.bytes);
        }
        document["status"] = match &wire.status {
            Some(status) => json!({ "code": format!("{:?}", status.code()), "text": status.message() }),
            None => Value::Null,
        };
        match self.outcome.take() {
            Some(gap) => document["gap"] = gap,
            None => document["abandoned"] = true.into(),
        }
        let whom = self.node.as_deref().unwrap_or(&self.endpoint);
        call.end("talos", whom, format!("{} {}", wire.method, self.request), document);
    }
}

/// The answer type for [`Tape::new`] when only a connection is needed.
pub(in crate::observe) struct Connection;

impl Reel {
    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a call is sent. If it is repeated on a new connection, the first attempt had no answer.
    pub(in crate::observe) fn sent(&self, method: &str) {
        *self.wire() = Wire { method: method.to_owned(), ..Wire::default() };
    }

    /// Records an answer while it is read.
    pub(in crate::observe) fn listen(reel: Option<Self>, answer: Response<Incoming>) -> Response<Heard> {
        if let Some(reel) = &reel {
            reel.status(answer.headers());
        }
        let hear: Ear = Box::new(move |frame| {
            if let Some(reel) = &reel {
                frame.data_ref().into_iter().for_each(|data| reel.data(data));
                frame.trailers_ref().into_iter().for_each(|trailers| reel.status(trailers));
            }
            frame
        });
        answer.map(|body| body.map_frame(hear))
    }

    fn status(&self, headers: &HeaderMap) {
        if let Some(status) = Status::from_header_map(headers) {
            self.wire().status = Some(status);
        }
    }

    fn data(&self, data: &[u8]) {
        let mut wire = self.wire();
        if wire.method == SECRET {
            wire.withheld += data.len();
        } else {
            wire.bytes.extend_from_slice(data);
        }
    }
}

/// The body of a recorded answer.
pub(in crate::observe) type Heard = MapFrame<Incoming, Ear>;

type Ear = Box<dyn FnMut(Frame<Bytes>) -> Frame<Bytes> + Send>;

fn to_json<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_else(|error| error.to_string().into())
}

fn asked(request: &dyn Any) -> Value {
    fn of<Q: Serialize + 'static>(request: &dyn Any) -> Option<Value> {
        request.downcast_ref::<Q>().map(to_json)
    }
    of::<Empty>(request)
        .or_else(|| of::<cosi::GetRequest>(request))
        .or_else(|| of::<cosi::ListRequest>(request))
        .or_else(|| of::<machine::ListRequest>(request))
        .or_else(|| of::<machine::EtcdMemberListRequest>(request))
        .unwrap_or(Value::Null)
}

/// Returns the messages of an answer, in order. A last message that is incomplete is left out.
fn messages(method: &str, mut bytes: &[u8]) -> Value {
    let mut messages = Vec::new();
    while let Some(([_compressed, length @ ..], rest)) = bytes.split_first_chunk::<FRAME>() {
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        let Some((message, rest)) = rest.split_at_checked(length) else { break };
        messages.push(message_of(method, message));
        bytes = rest;
    }
    messages.into()
}

fn message_of(method: &str, bytes: &[u8]) -> Value {
    fn of<P: Message + Default + Serialize>(bytes: &[u8]) -> Value {
        P::decode(bytes).map_or_else(|error| json!({ "undecodable": error.to_string() }), |message| to_json(&message))
    }
    match method {
        "/machine.MachineService/Version" => of::<machine::VersionResponse>(bytes),
        "/machine.MachineService/ServiceList" => of::<machine::ServiceListResponse>(bytes),
        "/machine.MachineService/List" => of::<machine::FileInfo>(bytes),
        "/machine.MachineService/Memory" => of::<machine::MemoryResponse>(bytes),
        "/machine.MachineService/Mounts" => of::<machine::MountsResponse>(bytes),
        "/machine.MachineService/EtcdStatus" => of::<machine::EtcdStatusResponse>(bytes),
        "/machine.MachineService/EtcdMemberList" => of::<machine::EtcdMemberListResponse>(bytes),
        "/machine.MachineService/EtcdAlarmList" => of::<machine::EtcdAlarmListResponse>(bytes),
        "/cosi.resource.State/Get" => of::<cosi::GetResponse>(bytes),
        "/cosi.resource.State/List" => of::<cosi::ListResponse>(bytes),
        // An unknown method might answer with secrets.
        _ => json!({ "withheldBytes": bytes.len() }),
    }
}

/// Returns `VersionResponse` for `talos_api::machine::VersionResponse`.
fn short(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path).trim_end_matches('>')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(message: &impl Message) -> Vec<u8> {
        let bytes = message.encode_to_vec();
        [&[0], u32::try_from(bytes.len()).unwrap().to_be_bytes().as_slice(), &bytes].concat()
    }

    #[test]
    fn a_stream_is_a_list_of_whole_messages() {
        let entry = |name: &str| machine::FileInfo { name: name.into(), ..Default::default() };
        let mut bytes = [framed(&entry("a")), framed(&entry("b")), framed(&entry("c"))].concat();
        bytes.pop();
        let found = messages("/machine.MachineService/List", &bytes);
        let names: Vec<_> = found.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(messages("/machine.MachineService/List", &[]), json!([]));
        let undecodable = messages("/machine.MachineService/Version", &[0, 0, 0, 0, 1, 0xff]);
        assert!(undecodable[0]["undecodable"].is_string());
    }

    #[test]
    fn ids_of_members_keep_all_their_digits() {
        let member = machine::EtcdMemberStatus { member_id: u64::MAX - 1, ..Default::default() };
        let part = machine::EtcdStatus { metadata: None, member_status: Some(member) };
        let bytes = framed(&machine::EtcdStatusResponse { messages: vec![part] });
        let found = messages("/machine.MachineService/EtcdStatus", &bytes);
        assert_eq!(found[0]["messages"][0]["member_status"]["member_id"].to_string(), "18446744073709551614");
    }

    #[test]
    fn keys_are_counted_and_not_kept() {
        let reel = Reel::default();
        reel.sent(SECRET);
        reel.data(b"apiVersion: v1");
        assert_eq!(reel.wire().withheld, 14);
        assert!(reel.wire().bytes.is_empty());
        let unknown = messages("/machine.MachineService/Read", &[0, 0, 0, 0, 1, b'x']);
        assert_eq!(unknown, json!([{ "withheldBytes": 1 }]));
    }

    #[test]
    fn a_second_attempt_forgets_the_first() {
        let reel = Reel::default();
        reel.sent("/machine.MachineService/Version");
        reel.data(b"lost");
        reel.sent("/machine.MachineService/Version");
        assert!(reel.wire().bytes.is_empty());
    }

    #[test]
    fn resources_are_stored_alike_each_time() {
        let names = ["b", "a", "d", "c"];
        let labels = names.map(|name| (name.to_owned(), String::new())).into();
        let metadata = cosi::Metadata { labels, ..Default::default() };
        let spec = cosi::Spec { proto_spec: vec![0, 255, 10], yaml_spec: "a: 1\n".into() };
        let resource = cosi::Resource { metadata: Some(metadata), spec: Some(spec) };
        let bytes = framed(&cosi::GetResponse { resource: Some(resource) });
        let found = messages("/cosi.resource.State/Get", &bytes);
        assert_eq!(found[0]["resource"]["metadata"]["labels"].to_string(), r#"{"a":"","b":"","c":"","d":""}"#);
        assert_eq!(found[0]["resource"]["spec"], json!({ "proto_spec": "AP8K", "yaml_spec": "a: 1\n" }));
    }

    #[test]
    fn questions_are_told_even_if_they_were_never_sent() {
        let question = cosi::GetRequest { r#type: "MachineTypes.config.talos.dev".into(), ..Default::default() };
        assert_eq!(asked(&question)["type"], "MachineTypes.config.talos.dev");
        assert_eq!(short(std::any::type_name::<Option<cosi::GetResponse>>()), "GetResponse");
    }
}
