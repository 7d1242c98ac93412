//! Control of a running cluster over plain HTTP.
//!
//! The server listens only on loopback and has no authentication: any program on this computer can break a cluster that does not exist. Web
//! pages in a browser cannot, because their requests contain an origin, or a host name other than this address.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::timeline::{Timeline, from_text};

/// Largest body that is read, in bytes.
const LARGEST: usize = 1 << 20;

const HELP: &str = "\
A simulated Talos cluster.

GET    /calls    how often which server was asked what since the last DELETE, as JSON
DELETE /calls    begins to count anew
POST   /changes  changes the cluster: a JSON object, a JSON list, or TOML with [[change]]

curl -d '{\"do\": \"power-off\", \"node\": \"worker-1\"}' $SIMULATOR_CONTROL/changes
";

/// Pause after an error of `accept`: the system has no free sockets at the moment, or the client has disconnected.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves the listener forever.
pub(crate) async fn serve(timeline: Timeline, listener: TcpListener, at: SocketAddr) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let timeline = timeline.clone();
        tokio::spawn(async move {
            let service = hyper::service::service_fn(move |request| {
                let timeline = timeline.clone();
                async move { Ok::<_, Infallible>(answer(&timeline, at, request).await) }
            });
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(timeline: &Timeline, at: SocketAddr, request: Request<Incoming>) -> Response<Full<Bytes>> {
    if is_of_a_page(&request, at) {
        return text(StatusCode::FORBIDDEN, "neither `Origin` nor another `Host` than this address is let in\n");
    }
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/") => text(StatusCode::OK, HELP),
        (&Method::GET, "/calls") => match serde_json::to_vec(&timeline.state.calls.counts()) {
            Ok(counts) => response(StatusCode::OK, "application/json", counts),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        },
        (&Method::DELETE, "/calls") => {
            timeline.state.calls.reset();
            text(StatusCode::NO_CONTENT, "")
        }
        (&Method::POST, "/changes") => match change(timeline, request).await {
            Ok(()) => text(StatusCode::NO_CONTENT, ""),
            Err(error) => text(StatusCode::BAD_REQUEST, format!("{error:#}\n")),
        },
        (_, "/" | "/calls" | "/changes") => text(StatusCode::METHOD_NOT_ALLOWED, HELP),
        _ => text(StatusCode::NOT_FOUND, HELP),
    }
}

/// Whether a web page may have sent the request: browsers send its origin, and the host name that the page uses.
fn is_of_a_page<B>(request: &Request<B>, at: SocketAddr) -> bool {
    let host = request.headers().get(header::HOST);
    let ours = host.is_some_and(|host| host.as_bytes() == at.to_string().as_bytes());
    !ours || request.headers().contains_key(header::ORIGIN)
}

/// Applies all changes or none.
async fn change(timeline: &Timeline, request: Request<Incoming>) -> anyhow::Result<()> {
    let body = Limited::new(request.into_body(), LARGEST).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("cannot read the body: {error}"))?.to_bytes();
    timeline.play(from_text(std::str::from_utf8(&body)?)?)
}

fn text(status: StatusCode, text: impl Into<String>) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", text.into())
}

fn response(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}
