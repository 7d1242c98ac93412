//! Detects whether a machine with an unknown certificate has no configuration (maintenance mode).
//!
//! Anyone on the network path can forge the answer, so only a few bytes of it are accepted.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::time::Instant;

use super::EndpointAddress;
use super::call::{Caller, Lane, Route};
use crate::observe::dial::http2::Link;
use crate::snapshot::{Gap, GapKind};

/// Time limit for the whole check, which only refines a known failure.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Turns "unknown CA" into "maintenance mode" if the machine itself reports it. `unverified` does not present our certificate, and the call
/// does not contain the cluster name: nothing is disclosed to a stranger.
pub(super) async fn refine(gap: Gap, address: &EndpointAddress, unverified: &Arc<ClientConfig>, until: Instant) -> Gap {
    let link = Link::new(address.clone(), super::unproven(Arc::clone(unverified)));
    let until = until.min(Instant::now() + TIMEOUT);
    let to = Route { link: &link, node: None, lane: Lane::Normal, until };
    match Caller::of_strangers(TIMEOUT).machine_status(&to).await {
        Ok(Some(status)) if status.stage == "maintenance" => {
            Gap::new(GapKind::Maintenance, "the node has no machine configuration (maintenance mode)")
        }
        _ => gap,
    }
}
