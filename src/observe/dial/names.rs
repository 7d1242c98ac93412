//! Names into addresses, by the system's resolver: it may take half a minute, and cannot be called off.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, LazyLock};

use tokio::sync::Semaphore;

use super::cause;
use crate::observe::trace::Span;
use crate::snapshot::{Gap, GapKind};

/// Look-ups at once. Each has a thread until the resolver lets go of it, even where nobody waits for it any more.
const AT_ONCE: usize = 64;

static FREE: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(AT_ONCE)));

/// The addresses of a host, the one first that the resolver prefers. The deadline is the caller's to set.
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
