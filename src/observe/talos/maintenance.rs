//! Is a machine whose certificate we do not know one without a configuration?
//!
//! Anybody on the way may answer that, so the answer is taken as what it has to be: a few words.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::time::Instant;

use super::EndpointAddress;
use super::call::{Caller, Lane, Route};
use crate::observe::dial::http2::Link;
use crate::snapshot::{Gap, GapKind};

/// For the whole question, in seconds: it only refines a failure that is known already.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Turns "unknown CA" into "maintenance mode" if the machine says so itself. `unverified` carries no certificate of ours, and
/// the call no cluster name: nothing is given to a stranger.
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
