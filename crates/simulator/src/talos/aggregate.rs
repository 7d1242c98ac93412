//! Calls to several machines with the metadata key `nodes`: the answers are combined into one, in which each part names its machine.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream, FuturesUnordered};
use http_body_util::StreamBody;
use hyper::body::Frame;
use tonic::body::Body;
use tonic::metadata::GRPC_CONTENT_TYPE;
use tonic::{Code, Status};

use super::apid::Apid;
use super::rpc::Rpc;
use super::wire::{Messages, framed, only_part, part, signed};
use super::{access, deadline};
use crate::net::Mangle;

/// Calls all nodes. The caller's deadline applies to the whole call: a single silent node makes the call fail for all.
pub(super) async fn answer(apid: Arc<Apid>, nodes: Vec<String>, mut rpc: Rpc) -> Result<http::Response<Body>, Status> {
    let until = rpc.deadline.take();
    let (service, method) = rpc.method();
    if access::streams(service, method) {
        return Ok(deadline::end_at(until, interleaved(&apid, nodes, &rpc)));
    }
    deadline::within(until, async { Ok(put_together(&apid, nodes, &rpc).await) }).await
}

/// Combines the answers of a unary call in the order of their arrival, once all have arrived.
async fn put_together(apid: &Arc<Apid>, nodes: Vec<String>, rpc: &Rpc) -> http::Response<Body> {
    let asked = nodes.iter().map(|node| async move {
        let answer = apid.forward(node, rpc.clone()).await;
        let mangle = answer.as_ref().ok().and_then(|answer| answer.extensions().get::<Mangle>().copied());
        let mut messages = Messages::of(answer);
        let message = messages.next().await.unwrap_or_else(|| Err(Status::internal("an answer without a message")));
        let part = part(&signed(node, message.as_deref().map(only_part)));
        (part, mangle)
    });
    let (parts, mangles): (Vec<_>, Vec<_>) = asked.collect::<FuturesUnordered<_>>().collect().await;
    let message = framed(&parts.concat());
    let mut answer = streamed(stream::once(async { message }).boxed());
    if let Some(mangle) = mangles.into_iter().flatten().next() {
        answer.extensions_mut().insert(mangle);
    }
    answer
}

/// Combines the answers of a streaming call as they arrive. The combined stream ends successfully, no matter how those of the nodes end.
fn interleaved(apid: &Arc<Apid>, nodes: Vec<String>, rpc: &Rpc) -> http::Response<Body> {
    let of_nodes = nodes.into_iter().map(|node| {
        let (apid, rpc) = (Arc::clone(apid), rpc.clone());
        let messages = stream::once(async move {
            let messages = Messages::of(apid.forward(&node, rpc).await);
            stream::unfold((messages, node), |(mut messages, node)| async {
                let message = messages.next().await?;
                let message = framed(&signed(&node, message.as_deref()));
                Some((message, (messages, node)))
            })
        });
        messages.flatten().boxed()
    });
    streamed(stream::select_all(of_nodes).boxed())
}

/// An answer that consists of these messages and ends successfully.
pub(super) fn streamed(messages: BoxStream<'static, Bytes>) -> http::Response<Body> {
    let end = stream::once(async { deadline::trailers(&Status::new(Code::Ok, "")).map(Frame::trailers) });
    let frames = messages.map(|message| Ok(Frame::data(message))).chain(end);
    let mut answer = http::Response::new(Body::new(StreamBody::new(frames)));
    answer.headers_mut().insert(http::header::CONTENT_TYPE, GRPC_CONTENT_TYPE);
    answer
}
