//! The serving certificate that a kubelet presents to any client. Nothing is sent to the kubelet but a TLS handshake.

use std::cell::RefCell;
use std::collections::HashMap;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{Either, LocalBoxFuture, Shared, join_all, select};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::dial::{self, tls};
use crate::config::certificate;
use crate::config::proxy::Proxy;
use crate::snapshot::{Gap, GapKind, Observed, ServingCertificate};

const PORT: u16 = 10250;
/// Limit for concurrent handshakes: those of a hundred machines take one round trip.
const IN_FLIGHT: usize = 128;
/// Time limit for one handshake, connecting included.
const WITHIN: Duration = Duration::from_secs(2);
/// Extra time that a handshake may take after the calls that run at the same time.
const MOMENT: Duration = Duration::from_millis(500);

/// A handshake that has begun.
type Begun = Shared<LocalBoxFuture<'static, Observed<ServingCertificate>>>;

/// All handshakes of a run.
pub(super) struct Handshakes {
    turns: Rc<Semaphore>,
    /// Handshakes of this round that were begun early, by address.
    early: RefCell<HashMap<String, Begun>>,
}

impl Default for Handshakes {
    fn default() -> Self {
        Self { turns: Rc::new(Semaphore::new(IN_FLIGHT)), early: RefCell::default() }
    }
}

impl Handshakes {
    /// Begins a round with the addresses that will be needed once the machines are known. Returns when all handshakes have ended.
    pub(super) async fn begin<'a>(&self, addresses: impl Iterator<Item = &'a str>, until: Instant) {
        let begun = |address: &str| {
            let (turns, of) = (Rc::clone(&self.turns), address.to_owned());
            (address.to_owned(), async move { handshake(&turns, &of, until).await }.boxed_local().shared())
        };
        let early: HashMap<_, _> = addresses.map(begun).collect();
        self.early.replace(early.clone());
        join_all(early.into_values()).await;
    }

    /// Returns the certificate presented at this address.
    pub(super) async fn with(&self, address: &str, until: Instant) -> Observed<ServingCertificate> {
        let early = self.early.borrow().get(address).cloned();
        match early {
            Some(begun) => begun.await,
            None => handshake(&self.turns, address, until).await,
        }
    }
}

async fn handshake(turns: &Semaphore, address: &str, until: Instant) -> Observed<ServingCertificate> {
    // The semaphore is never closed.
    let _permit = turns.acquire().await;
    let until = until.min(Instant::now() + WITHIN);
    // Boxed, to keep the futures that wait for their turn small.
    timeout_at(until, Box::pin(shown(address, PORT))).await.unwrap_or_else(|_| Err(no_time()))
}

async fn shown(address: &str, port: u16) -> Observed<ServingCertificate> {
    let unreadable = || Gap::new(GapKind::Malformed, "the certificate cannot be read");
    let name = dial::server_name(address)?;
    let tls = tls::accepting_any().map_err(|error| Gap::new(GapKind::Malformed, error.to_string()))?;
    let tcp = dial::connect(&Proxy::Direct, address, port).await?;
    let stream = dial::secure(tls, name, tcp).await?;
    let leaf = stream.get_ref().1.peer_certificates().and_then(<[_]>::first).ok_or_else(unreadable)?;
    let validity = certificate::validity(leaf).ok_or_else(unreadable)?;
    Ok(ServingCertificate { address: address.to_owned(), validity, names: certificate::names(leaf) })
}

fn no_time() -> Gap {
    Gap::new(GapKind::ConnectTimedOut, "no TLS handshake in time")
}

/// Runs both futures. `looked` does not delay `asked`: it gets as long as `asked` takes, and a moment more.
pub(super) async fn beside<A, L>(
    asked: impl Future<Output = A>,
    looked: impl Future<Output = Observed<L>>,
) -> (A, Observed<L>) {
    match select(pin!(asked), pin!(looked)).await {
        Either::Left((asked, looked)) => {
            (asked, timeout_at(Instant::now() + MOMENT, looked).await.unwrap_or_else(|_| Err(no_time())))
        }
        Either::Right((looked, asked)) => (asked.await, looked),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silent_kubelet_holds_up_nothing() {
        let begun = Instant::now();
        let never = std::future::pending::<Observed<()>>();
        let (asked, looked) = beside(async { sleep(Duration::from_secs(3)).await }, never).await;
        assert_eq!((asked, looked.unwrap_err().kind), ((), GapKind::ConnectTimedOut));
        assert_eq!(begun.elapsed(), Duration::from_secs(3) + MOMENT);
        let quick = beside(async { sleep(Duration::from_secs(3)).await }, async { Ok(7) }).await;
        assert_eq!(quick, ((), Ok(7)));
    }

    #[tokio::test]
    async fn nothing_but_a_handshake_is_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut first = [0; 1];
            stream.read_exact(&mut first).await.unwrap();
            first[0]
        });
        assert!(shown("127.0.0.1", port).await.is_err());
        assert_eq!(server.await.unwrap(), 22, "a TLS record of type handshake");
    }
}
