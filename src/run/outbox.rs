//! Sends the finished report to web servers once everything else is written. Nothing depends on whether it arrives.

use std::path::Path;

use anyhow::Context as _;
use futures::future::join_all;
use rustls::RootCertStore;
use tokio::time::Instant;

use super::streams::complain;
use super::watch::Signaled;
use crate::config::receiver::{Headers, Receiver};
use crate::config::{ConfigError, Environment, roots};
use crate::observe::post::Post;
use crate::report::Report;
use crate::report::format::Format;
use crate::report::sink::wanted::Posted;

/// A receiver and the format that it is sent.
pub(super) type Recipient = (&'static Format, Receiver);

/// Everything that is needed to send the report, read before the first check.
#[derive(Default)]
pub(super) struct Outbox {
    all: Vec<(Recipient, anyhow::Result<Post>)>,
    /// Note about the headers file.
    pub(super) note: Option<String>,
}

/// The reasons why nothing is checked.
pub(super) enum Unready {
    /// An argument is wrong.
    Usage(String),
    Configuration(ConfigError),
}

impl From<ConfigError> for Unready {
    fn from(error: ConfigError) -> Self {
        Self::Configuration(error)
    }
}

/// Parses the receivers. The error is a usage error.
pub(super) fn recipients(posts: &[Posted]) -> Result<Vec<Recipient>, String> {
    let recipient = |Posted { format, url }: &Posted| {
        let receiver = Receiver::parse(url).map_err(|why| format!("the URL of the {} report {why}", format.name))?;
        Ok((*format, receiver))
    };
    posts.iter().map(recipient).collect()
}

impl Outbox {
    /// Reads headers and root certificates, unless there is no recipient.
    pub(super) fn read(
        recipients: &[Recipient],
        headers: Option<&Path>,
        environment: &Environment,
    ) -> Result<Self, Unready> {
        if recipients.is_empty() {
            return Ok(Self::default());
        }
        let (headers, note) = match headers {
            Some(path) => {
                let (text, note) = Headers::read(path, environment)?;
                (Headers::parse(&text).map_err(Unready::Usage)?, note)
            }
            None => (Headers::default(), None),
        };
        let is_encrypted = recipients.iter().any(|(_, receiver)| receiver.is_encrypted());
        let roots = if is_encrypted { roots::system(environment)? } else { RootCertStore::empty() };
        let post = |(format, receiver): &Recipient| {
            let receiver = receiver.clone().with_headers(&headers).map_err(Unready::Usage)?;
            let via = receiver.proxy(environment)?;
            let post = Post::new(receiver.clone(), &via, roots.clone());
            Ok(((*format, receiver), post))
        };
        Ok(Self { all: recipients.iter().map(post).collect::<Result<_, Unready>>()?, note })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Sends the report to all recipients at once. Ends before `until` or at a signal, and prints one line for each failure.
    pub(super) async fn send(&self, report: &Report, until: Instant, signaled: &Signaled) {
        let sent = self.all.iter().map(|((format, receiver), post)| async move {
            let mut signaled = signaled.clone();
            let sent = tokio::select! {
                biased;
                _ = signaled.wait_for(Option::is_some) => Err(anyhow::Error::msg("interrupted")),
                sent = deliver(format, post, report, until) => sent,
            };
            if let Err(why) = sent {
                complain(&unsent(format, receiver, &format!("{why:#}")), None);
            }
        });
        join_all(sent).await;
    }
}

async fn deliver(format: &Format, post: &anyhow::Result<Post>, report: &Report, until: Instant) -> anyhow::Result<()> {
    let post = post.as_ref().map_err(|error| anyhow::Error::msg(format!("{error:#}")))?;
    let document = format.posted(report).context("it could not be written")?;
    post.send(format.media_type, document, until).await.map_err(anyhow::Error::msg)
}

/// Returns the message for a report that was not sent. It shows only the scheme and host of the receiver.
pub(super) fn unsent(format: &Format, receiver: &Receiver, why: &str) -> String {
    format!("could not send the {} report to {receiver}: {why}", format.name)
}
