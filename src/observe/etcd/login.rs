//! Authentication to etcd: any voter exchanges a user's name and password for a token that all members accept.
//!
//! The library's own login is not used. It fails with a learner, and if etcd has no users; and without a quorum, where no login succeeds,
//! it would hide the status that each living member still reports.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep, timeout_at};

use super::Connecting;
use super::api::{Api, Pass};
use crate::config::etcd::EtcdUser;
use crate::observe::dial::cause::no_answer;
use crate::observe::dial::http2::Http2;
use crate::observe::dial::stagger::staggered;
use crate::snapshot::{Gap, GapKind, Observed};

/// Delay without an answer before the next member is asked too. Password verification is slow on purpose.
const PATIENCE: Duration = Duration::from_millis(500);

/// Pauses between attempts at a member that does not recognize a new token yet.
const PAUSES: [Duration; 3] = [Duration::from_millis(20), Duration::from_millis(100), Duration::from_millis(500)];

/// A user, and the outcome of its login in this run.
pub(super) struct Login {
    user: EtcdUser,
    /// The final outcome. A wrong password stays wrong, so it is tried once.
    known: Mutex<Option<Observed<Pass>>>,
}

impl Login {
    pub(super) fn new(user: EtcdUser) -> Self {
        Self { user, known: Mutex::default() }
    }

    fn known(&self) -> Option<Observed<Pass>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Logs in at any voter. Half of the time is reserved for the actual calls: without a quorum, no member answers a login.
    async fn attempt(&self, connections: &[Connecting<'_>], until: Instant) -> Observed<Pass> {
        let now = Instant::now();
        let within = until.saturating_duration_since(now) / 2;
        let ways = connections.iter().map(|connection| async move {
            let connection = connection.clone().await?;
            let answer = Api::new(&connection, &None).await?.authenticate(&self.user).await;
            // A final verdict on the password from one member holds for all.
            if answer.as_ref().is_err_and(|gap| !is_final(gap)) { answer.map(Ok) } else { Ok(answer) }
        });
        let answer = match timeout_at(now + within, staggered(ways, PATIENCE)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(gaps)) => Err(unproven(gaps.first().map_or("no member", |gap| &gap.text))),
            Err(_) => Err(unproven(&no_answer(within).text)),
        };
        if answer.as_ref().map_or_else(is_final, |_| true) {
            *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer.clone());
        }
        answer
    }
}

/// Returns whether the credentials were rejected, as opposed to a member that cannot check them.
fn is_final(gap: &Gap) -> bool {
    matches!(gap.kind, GapKind::Unauthenticated | GapKind::Forbidden)
}

/// The gap for a login that failed because of etcd's state, which is not a refusal.
fn unproven(why: &str) -> Gap {
    Gap::new(GapKind::ServerError, format!("etcd cannot authenticate the user now: {why}"))
}

/// The calls of one round.
pub(super) struct Session<'s, 'a> {
    login: Option<&'s Login>,
    connections: &'s [Connecting<'a>],
    pub(super) until: Instant,
    /// At most one login per round, shared by all callers.
    attempt: OnceCell<Observed<Pass>>,
}

impl<'s, 'a> Session<'s, 'a> {
    pub(super) fn new(login: Option<&'s Login>, connections: &'s [Connecting<'a>], until: Instant) -> Self {
        Self { login, connections, until, attempt: OnceCell::new() }
    }

    async fn attempt(&self, login: &Login) -> Observed<Pass> {
        self.attempt.get_or_init(|| login.attempt(self.connections, self.until)).await.clone()
    }

    /// Calls a member as the user, and once more with a new token if the member rejects the old one.
    pub(super) async fn ask<T, A>(&self, connection: &Http2, question: impl Fn(Api) -> A) -> Observed<T>
    where
        A: Future<Output = Observed<T>>,
    {
        let ask = async |pass: &Pass| question(Api::new(connection, pass).await?).await;
        let Some(login) = self.login else { return ask(&None).await };
        let known = match login.known() {
            Some(known) => known,
            None => self.attempt(login).await,
        };
        let pass = match known {
            Ok(pass) => pass,
            Err(gap) if is_final(&gap) => return Err(gap),
            // A member's answer without a login still counts, but its refusal of an unknown user does not.
            Err(gap) => return ask(&None).await.map_err(|own| if is_final(&own) { gap } else { own }),
        };
        match ask(&pass).await {
            Err(refused) if refused.kind == GapKind::Unauthenticated => {
                let fresh = self.attempt(login).await?;
                known_soon(async || ask(&fresh).await).await
            }
            answer => answer,
        }
    }
}

/// Retries while a member refuses a token that a voter has just issued: it looks the token up one log entry too early. If that persists,
/// the reason is unknown, but the password was not refused.
async fn known_soon<T>(ask: impl AsyncFn() -> Observed<T>) -> Observed<T> {
    for pause in PAUSES {
        match ask().await {
            Err(refused) if refused.kind == GapKind::Unauthenticated => sleep(pause).await,
            answer => return answer,
        }
    }
    ask().await.map_err(|gap| match gap.kind {
        GapKind::Unauthenticated => Gap { kind: GapKind::ServerError, ..gap },
        _ => gap,
    })
}
