//! A call as bytes, on its way to one machine or several.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use talos_api::Message as _;
use talos_api::cosi::resource::{GetRequest, ListRequest, WatchRequest};
use tokio::time::Instant;
use tonic::Status;

use super::access::Roles;
use super::deadline;
use super::wire::PREFIX;
use crate::net::Peer;

/// A complete call: every request of the Talos API that is served here consists of a single message.
#[derive(Clone)]
pub(super) struct Rpc {
    pub(super) request: http::Request<Bytes>,
    pub(super) roles: Roles,
    pub(super) deadline: Option<Instant>,
}

impl Rpc {
    pub(super) async fn read(request: http::Request<Incoming>) -> Result<Self, Status> {
        let (parts, body) = request.into_parts();
        let peer = parts.extensions.get::<Peer>().cloned().unwrap_or_default();
        let deadline = deadline::of(&parts.headers)?;
        let body = body.collect().await.map_err(|error| Status::internal(error.to_string()))?.to_bytes();
        let request = http::Request::from_parts(parts, body);
        Ok(Self { request, roles: Roles::named(&peer.organizations), deadline })
    }

    /// `/machine.MachineService/Version`
    pub(super) fn path(&self) -> &str {
        self.request.uri().path()
    }

    /// `machine.MachineService` and `Version`.
    pub(super) fn method(&self) -> (&str, &str) {
        let path = self.path();
        path.strip_prefix('/').unwrap_or(path).rsplit_once('/').unwrap_or_default()
    }

    /// The name under which the call is counted: its method, and for COSI also the type: `Get MachineStatuses`.
    pub(super) fn name(&self) -> String {
        let (service, method) = self.method();
        match self.resource_type(service, method) {
            Some(kind) => format!("{method} {}", kind.split_once('.').map_or(kind.as_str(), |(short, _)| short)),
            None => method.to_owned(),
        }
    }

    fn resource_type(&self, service: &str, method: &str) -> Option<String> {
        let message = self.request.body().get(PREFIX..)?;
        match (service, method) {
            ("cosi.resource.State", "Get") => Some(GetRequest::decode(message).ok()?.r#type),
            ("cosi.resource.State", "List") => Some(ListRequest::decode(message).ok()?.r#type),
            ("cosi.resource.State", "Watch") => Some(WatchRequest::decode(message).ok()?.r#type),
            _ => None,
        }
    }
}
