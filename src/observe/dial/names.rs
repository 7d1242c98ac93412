//! Name lookups with the system's resolver, which can take half a minute and cannot be canceled.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, LazyLock};

use tokio::sync::Semaphore;

use super::cause;
use crate::observe::trace::Span;
use crate::snapshot::{Gap, GapKind};

/// Limit for concurrent lookups. Each occupies a thread until the resolver returns, even if its result is no longer
/// needed.
const AT_ONCE: usize = 64;

static FREE: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(AT_ONCE)));

/// Returns the addresses of a host in the resolver's order of preference. The deadline is up to the caller.
pub(super) async fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>, Gap> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    let broken = || Gap::new(GapKind::NameNotFound, cause::clean(&format!("`{host}` cannot be looked up")));
    let permit = Arc::clone(&FREE).acquire_owned().await.map_err(|_| broken())?;
    let name = host.to_owned();
    let resolve = move || {
        let found = (name.as_str(), port).to_socket_addrs().map(Iterator::collect);
        drop(permit);
        found
    };
    let span = Span::to("DNS", host, port);
    let found = tokio::task::spawn_blocking(resolve).await.map_err(|_| broken())?;
    let found = found.map_err(|error| cause::of_lookup(host, &error));
    span.end(&found);
    found
}
