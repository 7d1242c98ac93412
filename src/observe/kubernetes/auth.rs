//! Credentials that are sent in a header, and their renewal.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use jiff::{SignedDuration, Timestamp};
use kube::config::{AuthInfo, ExecConfig};
use secrecy::ExposeSecret as _;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::plugin;
use crate::config::kubeconfig;
use crate::config::plugin::PluginCredentials;
use crate::snapshot::{Gap, GapKind, Observed};
use crate::text::clock;
use crate::text::sanitize::never_show;

/// A token that expires within this time is replaced.
const SOON: SignedDuration = SignedDuration::from_secs(60);
/// Time for which an answer counts as recent.
const JUST: Duration = Duration::from_secs(2);
/// Time after which a file is read again, since tokens of pods change.
const STALE: Duration = Duration::from_secs(60);

/// The source of the header.
pub(super) enum Auth {
    Nothing,
    Fixed(HeaderValue),
    /// A token file: its path, the header of the kubeconfig's own token as a fallback, and the last header read from the file with the time
    /// of reading.
    File(PathBuf, Option<HeaderValue>, Mutex<Option<(Instant, HeaderValue)>>),
    Plugin(Box<ExecConfig>, Mutex<Last>),
}

/// The last answer of a plugin, and the time it arrived. `None` if the plugin has not run yet.
type Last = Option<(Instant, Observed<Answer>)>;

#[derive(Clone)]
pub(super) struct Answer {
    header: Option<HeaderValue>,
    expires: Option<Timestamp>,
}

fn unusable(text: impl Into<Cow<'static, str>>) -> Gap {
    Gap::new(GapKind::Unauthenticated, text)
}

impl Auth {
    /// Takes the credentials that are sent in a header out of `auth`. A plugin runs here for the first time, and may add a client
    /// certificate to `auth`.
    pub(super) async fn new(auth: &mut AuthInfo, limit: Duration) -> Observed<Self> {
        let exec = auth.exec.take();
        let file = auth.token_file.take();
        // A password without a name is ignored.
        if let (Some(user), password) = (auth.username.take(), auth.password.take()) {
            let password = password.as_ref().map_or("", |password| password.expose_secret());
            if !password.is_empty() {
                never_show(password);
            }
            let pair = STANDARD.encode(format!("{user}:{password}"));
            return header(&format!("Basic {pair}")).map(Self::Fixed);
        }
        let token = auth.token.take().map(|token| header(&format!("Bearer {}", token.expose_secret()))).transpose()?;
        match (file, token) {
            (Some(path), token) => return Ok(Self::File(path.into(), token, Mutex::default())),
            (None, Some(token)) => return Ok(Self::Fixed(token)),
            (None, None) => {}
        }
        let Some(exec) = exec else { return Ok(Self::Nothing) };
        let credentials = plugin::run(&exec, Instant::now() + limit, limit).await?;
        credentials.log_in(auth);
        let answer = Answer::of(&credentials)?;
        Ok(Self::Plugin(Box::new(exec), Mutex::new(Some((Instant::now(), Ok(answer))))))
    }

    /// Returns whether new credentials should be read from their source, because the last ones have expired or were refused (401).
    pub(super) fn is_over(&self, was_refused: bool) -> bool {
        match self {
            Self::Nothing | Self::Fixed(_) => false,
            Self::File(..) => was_refused,
            Self::Plugin(_, last) => {
                // A locked value means that the plugin is running.
                let has_ended = |last: &Last| !matches!(last, Some((at, Ok(answer))) if answer.lasts(*at));
                was_refused || last.try_lock().is_ok_and(|last| has_ended(&last))
            }
        }
    }

    pub(super) async fn header(&self, limit: Duration) -> Observed<Option<HeaderValue>> {
        let asked = Instant::now();
        match self {
            Self::Nothing => Ok(None),
            Self::Fixed(header) => Ok(Some(header.clone())),
            Self::File(path, token, last) => {
                let mut last = within(asked + limit, limit, async { Ok(last.lock().await) }).await?;
                if let Some((read, header)) = &*last
                    && read.elapsed() < STALE
                {
                    return Ok(Some(header.clone()));
                }
                let from = path.clone();
                let read = async move { tokio::task::spawn_blocking(move || kubeconfig::token_in(&from)).await };
                let read = match within(asked + limit, limit, async { Ok(read.await) }).await? {
                    Ok(Ok(token)) => header(&format!("Bearer {token}")),
                    Ok(Err(problem)) => {
                        Err(unusable(format!("the token file `{}` cannot be read: {problem}", path.display())))
                    }
                    Err(_) => Err(unusable("the credentials cannot be used")),
                };
                // A file that is just being replaced does not invalidate the token that was in it.
                let header = match (read, last.as_ref().map(|(_, header)| header).or(token.as_ref())) {
                    (Err(_), Some(header)) => header.clone(),
                    (read, _) => read?,
                };
                *last = Some((Instant::now(), header.clone()));
                Ok(Some(header))
            }
            Self::Plugin(exec, last) => {
                let mut last = within(asked + limit, limit, async { Ok(last.lock().await) }).await?;
                match &*last {
                    // Callers that have waited for the plugin use its answer: it runs once for all of them.
                    Some((ended, answer)) if *ended >= asked => return answer.clone().map(|answer| answer.header),
                    Some((at, Ok(answer))) if answer.lasts(*at) => return Ok(answer.header.clone()),
                    _ => {}
                }
                let answer = plugin::run(exec, asked + limit, limit).await;
                let answer = answer.and_then(|credentials| Answer::of(&credentials));
                *last = Some((Instant::now(), answer.clone()));
                answer.map(|answer| answer.header)
            }
        }
    }
}

impl Answer {
    fn of(credentials: &PluginCredentials) -> Observed<Self> {
        let header = credentials.token.as_ref().map(|token| header(&format!("Bearer {token}"))).transpose()?;
        Ok(Self { header, expires: credentials.expires })
    }

    /// Returns whether an answer that came `at` this time is still good. A recent answer counts until it expires, because another run of
    /// the plugin would return the same.
    fn lasts(&self, at: Instant) -> bool {
        let now = clock::now();
        let until = if at.elapsed() < JUST { now } else { now.checked_add(SOON).unwrap_or(Timestamp::MAX) };
        self.expires.is_none_or(|expires| until < expires)
    }
}

fn header(value: &str) -> Observed<HeaderValue> {
    never_show(value.split_once(' ').map_or(value, |(_, secret)| secret));
    let mut header = HeaderValue::try_from(value)
        .map_err(|_| unusable("the credentials contain characters that are not allowed in a header"))?;
    header.set_sensitive(true);
    Ok(header)
}

async fn within<T>(until: Instant, limit: Duration, work: impl Future<Output = Observed<T>>) -> Observed<T> {
    timeout_at(until, work).await.unwrap_or_else(|_| Err(unusable(format!("no credentials within {limit:?}"))))
}
