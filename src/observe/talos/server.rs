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

/// Most messages, and most bytes of them, that we take. Talos sends two or three for each of some sixteen checks.
const MOST: usize = 10_000;
const MOST_BYTES: usize = 1 << 20;

/// What the cluster is to check. Nothing: what it knows by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerAsk {
    /// Addresses; Talos takes no names.
    pub(crate) control_planes: Vec<String>,
    pub(crate) workers: Vec<String>,
    /// `host` or `host:port` of the Kubernetes API server that it shall ask.
    pub(crate) kubernetes_endpoint: Option<String>,
}

impl TalosClient {
    /// Has the first of the endpoints `from` that can do so check the cluster, until `until` at the latest.
    /// Whatever it says is told at once.
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
            // It begins to speak at once. One that does not must not keep the others from being asked.
            let share = left / u32::try_from(links.len() - asked).unwrap_or(u32::MAX);
            let silence = if asked + 1 == links.len() { left } else { share };
            let to = Route { link, node: None, lane: Lane::Normal, until };
            let (progress, end) = self.caller.server_check(&to, ask, silence, tell).await;
            let check = ServerCheck { endpoint: link.address.shown.clone(), progress, end };
            // One that has begun is not begun again elsewhere: its word stands. The role is the same everywhere.
            if !check.progress.is_empty() || matches!(&check.end, Ok(()) | Err(Gap { kind: GapKind::Forbidden, .. })) {
                return Ok(check);
            }
            last = Some(check);
        }
        last.ok_or_else(|| Gap::new(GapKind::NotAsked, "no endpoint works"))
    }
}

impl Caller {
    /// Unlike other calls it has the whole round: it is a series of questions, and the server's to pace.
    /// It is given up if it says nothing for as long as `silence`.
    async fn server_check(
        &self,
        to: &Route<'_>,
        ask: &ServerAsk,
        silence: Duration,
        tell: &dyn Fn(&ServerProgress),
    ) -> (Vec<ServerProgress>, Observed<()>) {
        // Outside of the call, so that what was heard before silence is not lost.
        let heard = RefCell::new(Vec::new());
        let left = to.until.saturating_duration_since(Instant::now());
        // The server gives up first, and says over what: before the deadline that goes with the call, which is before ours.
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
                // A second attempt begins anew.
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
                    // It would repeat that until its time is over.
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
