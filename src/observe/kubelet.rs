//! What a kubelet shows to anybody who connects: its serving certificate. Nothing is sent to it but a TLS handshake.

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
/// Handshakes at once.
const IN_FLIGHT: usize = 64;
/// For one of them, connecting included.
const WITHIN: Duration = Duration::from_secs(2);
/// How much longer a handshake may take than the questions beside it.
const MOMENT: Duration = Duration::from_millis(500);

/// A handshake that has begun.
type Begun = Shared<LocalBoxFuture<'static, Observed<ServingCertificate>>>;

/// All handshakes of a run.
pub(super) struct Handshakes {
    turns: Rc<Semaphore>,
    /// In this round, by address.
    early: RefCell<HashMap<String, Begun>>,
}

impl Default for Handshakes {
    fn default() -> Self {
        Self { turns: Rc::new(Semaphore::new(IN_FLIGHT)), early: RefCell::default() }
    }
}

impl Handshakes {
    /// A round begins, in which these addresses will be wanted once the machines are known. Goes on for as long as that takes.
    pub(super) async fn begin<'a>(&self, addresses: impl Iterator<Item = &'a str>, until: Instant) {
        let begun = |address: &str| {
            let (turns, of) = (Rc::clone(&self.turns), address.to_owned());
            (address.to_owned(), async move { handshake(&turns, &of, until).await }.boxed_local().shared())
        };
        let early: HashMap<_, _> = addresses.map(begun).collect();
        self.early.replace(early.clone());
        join_all(early.into_values()).await;
    }

    /// The certificate that is shown at this address.
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
    // Boxed: those that wait for their turn shall be small.
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

/// What is only looked at does not hold up what is asked: it has as long as that takes, and a moment more.
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
