//! One API server: turns a request into its answer.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::header::{AGE, CONTENT_TYPE, DATE, VARY};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use rustls::server::danger::ClientCertVerifier;
use serde_json::{Value, json};
use tonic::body::Body;

use super::failure::Failure;
use super::health::Health;
use super::kinds::{ResourceType, groups};
use super::list::{self, Item, Listings, Request, Version};
use super::query::Query;
use super::reply::{self, Form, Reply};
use super::target::{Resource, Target};
use super::watch::Watch;
use super::{access, discovery, lease, metrics, review, table};
use crate::net::{Mangle, Peer};
use crate::state::ClusterState;
use crate::world::{Misbehavior, Power, Process, Server, User, World, revision, uid};

/// Time after which the API server stops waiting for etcd.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Largest part of a body that is read, in bytes.
const BODY: usize = 1 << 20;

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// One API server, or the balancer in front of all of them.
pub(super) struct Api {
    state: Arc<ClusterState>,
    listings: Arc<Listings>,
    server: Server,
    /// `None`: no client certificate is valid.
    clients: Option<Arc<dyn ClientCertVerifier>>,
    answered: AtomicU64,
}

/// A request whose body has been read.
struct Call {
    method: Method,
    path: String,
    query: Query,
    headers: http::HeaderMap,
    peer: Peer,
    body: Bytes,
    /// The machine whose API server has to answer, no matter which one receives the request.
    from: Option<String>,
}

/// The result of a request.
enum Decision {
    Reply(Reply),
    Later(Duration, Reply),
    Watch(Box<Watch>),
}

impl<T: Into<Reply>> From<T> for Decision {
    fn from(reply: T) -> Self {
        Self::Reply(reply.into())
    }
}

impl Api {
    pub(super) fn new(state: Arc<ClusterState>, listings: Arc<Listings>, server: Server) -> Self {
        let clients = access::verifier(&state.pki.kubernetes).ok();
        Self { state, listings, server, clients, answered: AtomicU64::default() }
    }

    pub(super) async fn answer(&self, mut request: http::Request<Incoming>) -> http::Response<Body> {
        use Misbehavior as M;
        let (mut cached, mut dated) = (None, true);
        let (mangle, from, empty) = match self.state.called(&self.server, request.uri().path()) {
            Some(M::Hang) => std::future::pending().await,
            Some(M::Fail { code, text }) => {
                let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                return self.respond(Reply::words(status, text));
            }
            Some(M::Body(text)) => return self.respond(Reply::words(StatusCode::OK, text)),
            Some(M::Redirect(to)) => return self.respond(Reply::redirect(&to)),
            Some(M::Late(by)) => {
                tokio::time::sleep(by).await;
                (None, None, false)
            }
            Some(M::Garbage) => (Some(Mangle::Garbage), None, false),
            Some(M::Cut) => (Some(Mangle::Cut), None, false),
            Some(M::Stall) => (Some(Mangle::Stall), None, false),
            Some(M::Endless) => (Some(Mangle::Endless), None, false),
            Some(M::From(name)) => (None, Some(name), false),
            Some(M::Empty) => (None, None, true),
            Some(M::Cached(since)) => {
                cached = Some(since);
                (None, None, false)
            }
            Some(M::WithoutQuery) => {
                *request.uri_mut() = without_query(request.uri());
                (None, None, false)
            }
            Some(M::WithoutDate) => {
                dated = false;
                (None, None, false)
            }
            None => (None, None, false),
        };
        let mut response = match Call::read(request, from).await {
            Ok(call) => self.serve(&call, empty).await,
            Err(failure) => self.respond(failure.into()),
        };
        if let Some(mangle) = mangle {
            response.extensions_mut().insert(mangle);
        }
        if let Some(since) = cached {
            response.headers_mut().insert(AGE, since.as_secs().into());
        }
        if !dated {
            response.headers_mut().remove(DATE);
        }
        response
    }

    async fn serve(&self, call: &Call, empty: bool) -> http::Response<Body> {
        let decision = self.decide(call).unwrap_or_else(Decision::from);
        let reply = match decision {
            Decision::Reply(reply) => reply,
            Decision::Later(after, reply) => {
                tokio::time::sleep(after).await;
                reply
            }
            Decision::Watch(watch) => {
                let reply = Reply::json_bytes(Bytes::new());
                let mut response = self.respond(reply);
                *response.body_mut() = watch.body(&self.state);
                return response;
            }
        };
        let reply = if empty { emptied(reply) } else { reply };
        let indent = reply::wants_indentation(&call.headers, &call.query);
        let reply = if indent { reply.indented() } else { reply };
        // hyper does not remove the body in HTTP/2.
        self.respond(if call.method == Method::HEAD { reply.without_body() } else { reply })
    }

    fn respond(&self, reply: Reply) -> http::Response<Body> {
        let number = self.answered.fetch_add(1, Ordering::Relaxed);
        let reply = reply.with(AUDIT_ID, &uid(&format!("{:?} {number}", self.server)));
        let mut response = http::Response::new(Body::new(Full::new(reply.body)));
        *response.status_mut() = reply.status;
        *response.headers_mut() = reply.headers;
        let date = rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&self.state.world().now());
        if let Some(date) = date.ok().and_then(|date| HeaderValue::from_str(&date).ok()) {
            response.headers_mut().insert(DATE, date);
        }
        response
    }

    fn decide(&self, call: &Call) -> Result<Decision, Failure> {
        let world = self.state.world();
        let clients = self.clients.as_deref().ok_or_else(Failure::unauthorized)?;
        let user = access::authenticate(&world, clients, &call.peer, &call.headers)?;
        let target = Target::of(&call.method, &call.path, call.query.is("watch"));
        if !access::allows(&world.kubernetes, &user, &target.named_by(&call.query)) {
            return Err(Failure::forbidden(&user, &target));
        }
        let machine = call.from.as_ref().and_then(|name| Some(world.machine(name)?.0)).or_else(|| self.machine(&world));
        match target {
            Target::Path { path, .. } => path_reply(&world, machine, call, &path),
            Target::Resource(resource) => self.resource(&world, machine, call, &user, resource),
        }
    }

    /// The machine whose API server answers.
    fn machine(&self, world: &World) -> Option<IpAddr> {
        match self.server {
            Server::ApiServer(at) | Server::Apid(at) | Server::Etcd(at) | Server::Kubelet(at) => Some(at),
            Server::Balancer | Server::Omni => world.control_planes().find(|at| {
                let machine = &world.machines[at];
                let runs = machine.api_server.as_ref().is_some_and(|server| server.process == Process::Running);
                machine.power == Power::On && runs
            }),
        }
    }

    fn resource(
        &self,
        world: &World,
        machine: Option<IpAddr>,
        call: &Call,
        user: &User,
        target: Resource,
    ) -> Result<Decision, Failure> {
        let Some(kind) = ResourceType::find(&target.group, &target.version, &target.plural) else {
            let is_group = target.group.is_empty() || groups().contains(&target.group.as_str());
            return if is_group { Err(Failure::unknown()) } else { Ok(Reply::no_page().into()) };
        };
        // For a namespace itself, the path's namespace is its name.
        let namespace = target.namespace.filter(|_| kind.plural != "namespaces");
        let misplaced = namespace.is_some() != kind.namespaced && (namespace.is_some() || target.name.is_some());
        if misplaced || target.subresource.is_some_and(|subresource| subresource != "status") {
            return Err(Failure::unknown());
        }
        if kind.review && call.method == Method::POST {
            let answer = review::answer(&world.kubernetes, user, kind.plural, &call.body)?;
            return Ok(Reply::json(StatusCode::CREATED, &answer).into());
        }
        if kind.review || !matches!(call.method, Method::GET | Method::HEAD) {
            return Err(Failure::method_not_allowed());
        }
        let form = reply::form(&call.headers)?;
        let (consistent, reply) = if let Some(name) = &target.name {
            let version = Version::of(&call.query)?;
            version.check(revision(Timestamp::now()))?;
            (version == Version::Newest, get(world, kind, namespace.as_deref(), name, form))
        } else {
            let request = Request::of(kind, namespace, &call.query)?;
            if call.query.is("watch") {
                return Ok(Decision::Watch(Box::new(Watch::new(request, form, &call.query))));
            }
            (request.is_consistent(), self.list(world, &request, form))
        };
        if consistent && !has_etcd(world, machine) {
            return Ok(Decision::Later(REQUEST_TIMEOUT, Failure::timeout().into()));
        }
        Ok(reply?.into())
    }

    fn list(&self, world: &World, request: &Request, form: Form) -> Result<Reply, Failure> {
        let kind = request.kind;
        let page = self.listings.page(world, self.state.revision(), request)?;
        let objects = || page.objects().map(|object| lease::present(world, kind, object));
        Ok(match form {
            Form::Table => Reply::json(StatusCode::OK, &table::table(kind, &page.metadata, objects(), world.now())),
            Form::Partial => {
                let items: Vec<Value> = objects().map(|object| table::partial(&object)).collect();
                let list = json!({
                    "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": page.metadata,
                    "items": items,
                });
                Reply::json(StatusCode::OK, &list)
            }
            Form::Plain | Form::Discovery { .. } => Reply::json_bytes(page.bytes(kind)),
        })
    }
}

impl Call {
    async fn read(request: http::Request<Incoming>, from: Option<String>) -> Result<Self, Failure> {
        let (parts, body) = request.into_parts();
        let body = Limited::new(body, BODY).collect().await.map_err(|error| Failure::bad_request(error.to_string()))?;
        Ok(Self {
            method: parts.method,
            path: parts.uri.path().to_owned(),
            query: Query::of(parts.uri.query()),
            headers: parts.headers,
            peer: parts.extensions.get().cloned().unwrap_or_default(),
            body: body.to_bytes(),
            from,
        })
    }
}

fn without_query(uri: &http::Uri) -> http::Uri {
    uri.path().parse().unwrap_or_else(|_| uri.clone())
}

/// Whether the API server can use etcd. Talos's API servers only connect to the member on their own machine.
fn has_etcd(world: &World, machine: Option<IpAddr>) -> bool {
    machine.and_then(|machine| world.etcd_of(machine)).is_some_and(|(cluster, member)| {
        member.process == Process::Running && !member.learner && cluster.leader().is_some()
    })
}

fn path_reply(world: &World, machine: Option<IpAddr>, call: &Call, path: &str) -> Result<Decision, Failure> {
    let server = machine.and_then(|machine| world.machines.get(&machine)?.api_server.as_ref());
    let failing = server.map_or(&[][..], |server| &server.failing);
    let health = Health { etcd: has_etcd(world, machine), failing };
    if let Some((after, reply)) = health.answer(path, &call.query) {
        return Ok(if after.is_zero() { reply.into() } else { Decision::Later(after, reply) });
    }
    if path == "/metrics" {
        let requested = server.map_or(&[][..], |server| &server.requested);
        return Ok(metrics::answer(world.now(), requested).into());
    }
    let form = reply::form(&call.headers).unwrap_or(Form::Plain);
    let address = machine.map(|machine| format!("{machine}:{}", world.api_port)).unwrap_or_default();
    let document = match path {
        "/version" | "/version/" => Some(discovery::version(&world.versions.kubernetes)),
        "/" => Some(discovery::paths()),
        "/openapi/v3" => Some(json!({"paths": {}})),
        _ => discovery::document(path, &address, form),
    };
    let Some(document) = document else {
        let group = path.strip_prefix("/apis/").and_then(|rest| rest.split('/').next());
        return if group.is_some_and(|group| groups().contains(&group)) {
            Err(Failure::unknown())
        } else {
            Ok(Reply::no_page().into())
        };
    };
    if !matches!(call.method, Method::GET | Method::HEAD) {
        return Err(Failure::method_not_allowed());
    }
    let reply = Reply::json(StatusCode::OK, &document);
    Ok(match form {
        Form::Discovery { beta } if matches!(path, "/api" | "/apis") => {
            let version = if beta { "v2beta1" } else { "v2" };
            let kind = format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
            reply.with(CONTENT_TYPE, &kind).with(VARY, "Accept")
        }
        _ if path.starts_with("/version") => reply.indented(),
        _ => reply,
    }
    .into())
}

fn get(world: &World, kind: &ResourceType, namespace: Option<&str>, name: &str, form: Form) -> Result<Reply, Failure> {
    let object = list::objects(world, kind).iter().find(|object| {
        let (its_namespace, its_name) = list::key(object);
        its_name == name && its_namespace == namespace.unwrap_or_default()
    });
    let object = object.ok_or_else(|| Failure::not_found(kind.group, kind.plural, name))?;
    let object = lease::present(world, kind, object);
    let body = match form {
        Form::Table => {
            let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
            table::table(kind, &metadata, std::iter::once(object), world.now())
        }
        Form::Partial => table::partial(&object),
        Form::Plain | Form::Discovery { .. } => whole(kind, &object),
    };
    Ok(Reply::json(StatusCode::OK, &body))
}

/// Adds kind and API version to an object, which are missing in lists.
pub(super) fn whole(kind: &ResourceType, object: &Value) -> Value {
    let mut whole = json!({"kind": kind.kind, "apiVersion": kind.api_version()});
    if let (Value::Object(whole), Ok(Value::Object(rest))) = (&mut whole, serde_json::to_value(Item(object))) {
        whole.extend(rest);
    }
    whole
}

/// An answer of the right form without content.
fn emptied(reply: Reply) -> Reply {
    let body = match serde_json::from_slice::<Value>(&reply.body) {
        Ok(mut list) if list["items"].is_array() || list["rows"].is_array() => {
            let items = if list["items"].is_array() { "items" } else { "rows" };
            list[items] = json!([]);
            list["metadata"] = json!({"resourceVersion": list["metadata"]["resourceVersion"]});
            reply::line(&list)
        }
        Ok(_) => b"{}\n".to_vec(),
        Err(_) => Vec::new(),
    };
    Reply { body: body.into(), ..reply }
}
