//! etcd's own API.

mod auth;
mod member;
/// Generated from our own API description in `proto/`, to be independent of the program's library.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::pedantic,
    clippy::use_self,
    unused_qualifications,
    clippy::allow_attributes_without_reason,
    reason = "it is generated"
)]
mod proto {
    // `include!` keeps the generated code from being formatted.
    include!("../gen/etcdserverpb.rs");
}

use std::net::IpAddr;
use std::sync::Arc;

use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use tonic::body::Body;
use tonic::{Code, Status};

use self::member::Members;
use crate::net::{Handler, Mangle};
use crate::state::ClusterState;
use crate::world::{Misbehavior, Server};

/// The member that answers, identified by its machine; stored in the extensions of a request.
#[derive(Clone, Copy, Debug)]
struct Asked(IpAddr);

/// Handles the client port of one member.
pub(crate) fn handler(state: Arc<ClusterState>, at: IpAddr) -> Handler {
    let members = Members::new(Arc::clone(&state));
    Arc::new(move |request| Box::pin(answer(Arc::clone(&state), members.clone(), at, request)))
}

async fn answer(
    state: Arc<ClusterState>,
    members: Members,
    at: IpAddr,
    mut request: Request<Incoming>,
) -> http::Response<Body> {
    let call = request.uri().path().rsplit('/').next().unwrap_or_default();
    let mut asked = Asked(at);
    let mut mangle = None;
    match state.called(&Server::Etcd(at), call) {
        Some(Misbehavior::Hang) => std::future::pending().await,
        Some(Misbehavior::Late(by)) => tokio::time::sleep(by).await,
        Some(Misbehavior::Fail { code, text }) => return Status::new(Code::from_i32(code.into()), text).into_http(),
        Some(Misbehavior::Empty) => return empty(),
        Some(Misbehavior::From(name)) => {
            asked = state.world().machine(&name).map_or(asked, |(address, _)| Asked(address));
        }
        Some(Misbehavior::Garbage) => mangle = Some(Mangle::Garbage),
        Some(Misbehavior::Cut) => mangle = Some(Mangle::Cut),
        Some(Misbehavior::Stall) => mangle = Some(Mangle::Stall),
        Some(Misbehavior::Endless) => mangle = Some(Mangle::Endless),
        // These only apply to HTTP servers.
        Some(
            Misbehavior::Body(_)
            | Misbehavior::Redirect(_)
            | Misbehavior::Cached(_)
            | Misbehavior::WithoutQuery
            | Misbehavior::WithoutDate,
        )
        | None => {}
    }
    request.extensions_mut().insert(asked);
    let mut response = members.serve(request).await;
    if let Some(mangle) = mangle {
        response.extensions_mut().insert(mangle);
    }
    response
}

/// A response with an empty message.
fn empty() -> http::Response<Body> {
    let trailers = async { Some(Ok([(Status::GRPC_STATUS, 0.into())].into_iter().collect())) };
    let body = Body::new(Full::new(Bytes::from_static(&[0; 5])).with_trailers(trailers));
    let mut response = http::Response::new(body);
    response.headers_mut().insert(http::header::CONTENT_TYPE, tonic::metadata::GRPC_CONTENT_TYPE);
    response
}
