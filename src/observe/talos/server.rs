//! The cluster's own health check, carried out by a control plane.

use std::cell::RefCell;
use std::pin::pin;
use std::time::Duration;

use talos_api::cluster::cluster_service_client::ClusterServiceClient;
use talos_api::cluster::{ClusterInfo, HealthCheckProgress, HealthCheckRequest};
use talos_api::google::protobuf;
use tokio::time::{Instant, timeout_at};
use tonic::Request;

use super::call::{Caller, Failure, Lane, Route, SMALL};
use super::machine::failed;
use super::{TalosClient, refusal};
use crate::observe::dial::cause::{self, clean};
use crate::snapshot::{Gap, GapKind, Observed, ServerCheck, ServerProgress};
use crate::text::sanitize::without_secrets;

/// Limits for the number of messages, and for their total size in bytes. Talos sends two or three for each of some sixteen checks.
const MOST: usize = 10_000;
const MOST_BYTES: usize = 1 << 20;

/// The nodes that the cluster has to check. If empty, it checks the nodes it knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerAsk {
    /// Addresses; Talos accepts no names.
    pub(crate) control_planes: Vec<String>,
    pub(crate) workers: Vec<String>,
    /// `host` or `host:port` of the Kubernetes API server that it has to query.
    pub(crate) kubernetes_endpoint: Option<String>,
}

impl TalosClient {
    /// Runs the health check on the first of the endpoints `from` that can do it, until `until`. Passes each message to `tell` as it
    /// arrives.
    pub(crate) async fn server_check(
        &self,
        ask: &ServerAsk,
        from: &[usize],
        until: Instant,
        tell: &dyn Fn(&ServerProgress),
    ) -> Observed<ServerCheck> {
        let mut last = None;
        let links: Vec<_> = from.iter().filter_map(|index| self.links.get(*index)).collect();
        for (asked, link) in links.iter().enumerate() {
            let left = until.saturating_duration_since(Instant::now());
            // A working server reports progress at once. A silent one must not use up the time of the others.
            let share = left / u32::try_from(links.len() - asked).unwrap_or(u32::MAX);
            let silence = if asked + 1 == links.len() { left } else { share };
            let to = Route { link, node: None, lane: Lane::Normal, until };
            let (progress, end) = self.caller.server_check(&to, ask, silence, tell).await;
            let check = ServerCheck { endpoint: link.address.shown.clone(), progress, end };
            // A check that has begun is not repeated elsewhere: its result counts. The role is the same on all endpoints.
            if !check.progress.is_empty() || matches!(&check.end, Ok(()) | Err(Gap { kind: GapKind::Forbidden, .. })) {
                return Ok(check);
            }
            last = Some(check);
        }
        last.ok_or_else(|| Gap::new(GapKind::NotAsked, "no endpoint works"))
    }
}

impl Caller {
    /// Runs the health check. Unlike other calls, it may take the whole round: it is a series of checks paced by the server. It is
    /// abandoned if nothing arrives within `silence`.
    async fn server_check(
        &self,
        to: &Route<'_>,
        ask: &ServerAsk,
        silence: Duration,
        tell: &dyn Fn(&ServerProgress),
    ) -> (Vec<ServerProgress>, Observed<()>) {
        // Kept outside the call, so that messages received before a silence are not lost.
        let heard = RefCell::new(Vec::new());
        let left = to.until.saturating_duration_since(Instant::now());
        // The server's own limit ends first, so that it reports the check it was waiting for. After it come the deadline sent with the
        // call, and then ours.
        let patience = left.saturating_sub(left / 5);
        let request = HealthCheckRequest {
            wait_timeout: Some(protobuf::Duration {
                seconds: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
                nanos: i32::try_from(patience.subsec_nanos()).unwrap_or_default(),
            }),
            cluster_info: Some(ClusterInfo {
                control_plane_nodes: ask.control_planes.clone(),
                worker_nodes: ask.workers.clone(),
                force_endpoint: ask.kubernetes_endpoint.clone().unwrap_or_default(),
            }),
        };
        let speaks_by = Instant::now() + silence;
        let call = self.call_within(to, left, request, |live, request: Request<HealthCheckRequest>| {
            let heard = &heard;
            async move {
                // A second attempt starts over.
                heard.borrow_mut().clear();
                let origin = live.origin();
                let mut client = ClusterServiceClient::with_origin(live, origin).max_decoding_message_size(SMALL);
                let mut stream = client.health_check(request).await?.into_inner();
                let mut bytes = 0;
                while let Some(message) = stream.message().await? {
                    bytes += message.message.len();
                    if heard.borrow().len() == MOST || bytes > MOST_BYTES {
                        let text = format!("HealthCheck: more than {MOST} messages or 1 MiB");
                        return Err(Failure::Gap(Gap::new(GapKind::TooLarge, text)));
                    }
                    let said = progress(&message);
                    let refused = refusal::of_own_question(&said.message);
                    tell(&said);
                    heard.borrow_mut().push(said);
                    // The server would repeat the refused call until its time is over.
                    refused?;
                }
                Ok(())
            }
        });
        let mut call = pin!(call);
        let end = match timeout_at(speaks_by, &mut call).await {
            Ok(end) => end,
            Err(_) if heard.borrow().is_empty() => Err(cause::no_answer(silence)),
            Err(_) => call.await,
        };
        (heard.take(), end)
    }
}

fn progress(message: &HealthCheckProgress) -> ServerProgress {
    let metadata = message.metadata.as_ref();
    ServerProgress {
        hostname: metadata.map(|metadata| clean(&metadata.hostname)).unwrap_or_default(),
        message: clean(&without_secrets(&message.message)),
        error: failed(metadata),
    }
}
