//! From symptoms to causes: the conclusions that a person on call would draw from all problems of a round.
//!
//! A cause is recognized by positive evidence alone, that is by observed problems and by facts of the same round, never by missing
//! evidence. It explains problems without changing them: only the judges decide the verdict. Problems without a recognized cause are
//! reported as they are.

mod access;
mod api;
mod bootstrap;
mod etcd;
mod external_etcd;
pub(crate) mod graph;
mod installed;
mod kubelets;
mod look;
mod nodes;
mod service;
mod symptoms;
#[cfg(test)]
mod tests;
mod upgrade;
mod webhooks;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::fmt;

pub(crate) use graph::explain;
pub(crate) use look::propose;
pub(crate) use symptoms::Symptoms;
use tokio::task::yield_now;

use crate::checks::Check;
use crate::model::{CheckId, Hint, Reason, Severity, Source, Stage, Step, Target, Verdict};
use crate::snapshot::{Node, Snapshot};
use symptoms::Sign;

/// One cause of trouble. All text about it, wherever it appears, comes from this literal.
pub(crate) struct Cause {
    /// A stable ID in kebab-case, different from reason codes: a reason code names an observation, this ID its cause.
    pub(crate) id: &'static str,
    /// One line for people.
    pub(crate) title: &'static str,
    /// The effect on the cluster and its workloads, as half a sentence that shows whether it needs attention at night.
    pub(crate) impact: &'static str,
    /// Paragraphs for `explain`, for readers who have never seen the cluster.
    pub(crate) explain: &'static str,
    /// The official document that the remedy comes from.
    pub(crate) source: Source,
    /// The steps of the remedy; steps that only read come first.
    pub(crate) remedy: &'static [Step],
    /// Returns all instances of the cause for which there is evidence.
    pub(crate) recognize: fn(&Symptoms<'_>) -> Vec<Recognized>,
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

/// A cause that was recognized in one round.
#[derive(Clone, Debug)]
pub(crate) struct Diagnosis {
    /// ID of the [`Cause`].
    pub(crate) id: &'static str,
    /// One sentence, with names and figures.
    pub(crate) headline: String,
    /// The effect on the cluster: that of the [`Cause`], unless more is known.
    pub(crate) impact: Cow<'static, str>,
    /// The evidence.
    pub(crate) seen: Vec<Seen>,
    /// The next steps: commands that only read, then commands that change something.
    pub(crate) next: Vec<Hint>,
    /// The worst severity of the problems that it explains.
    pub(crate) severity: Severity,
    /// The problems that follow from it, in the order of the catalog.
    pub(crate) explains: Vec<Explained>,
}

/// One observed fact, and the target at which it was observed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Seen {
    pub(crate) target: Target,
    pub(crate) observed: String,
}

/// A reference to one problem of the round.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Explained {
    pub(crate) check: CheckId,
    pub(crate) target: Target,
    pub(crate) reason: Reason,
    /// Distinguishes problems, because a check can find the same reason twice for one target.
    pub(crate) observed: String,
}

#[cfg(test)]
impl Diagnosis {
    pub(crate) fn is_about(&self, check: CheckId, target: &Target, reason: Reason, observed: &str) -> bool {
        self.explains
            .iter()
            .any(|it| it.check == check && it.target == *target && it.reason == reason && it.observed == observed)
    }
}

/// A cause that is still being assembled.
#[derive(Clone, Debug)]
pub(crate) struct Recognized {
    id: &'static str,
    headline: String,
    impact: Option<Cow<'static, str>>,
    seen: Vec<Seen>,
    next: Vec<Hint>,
    /// Positions, in the round, of the problems that show the cause or are known to follow from it.
    shows: BTreeSet<usize>,
}

impl Recognized {
    fn new(id: &'static str, headline: impl Into<String>) -> Self {
        let headline = headline.into();
        Self { id, headline, impact: None, seen: Vec::new(), next: Vec::new(), shows: BTreeSet::new() }
    }

    /// Replaces the impact of the [`Cause`] with that of this instance.
    fn with_impact(self, impact: Option<&'static str>) -> Self {
        Self { impact: impact.map(Cow::Borrowed), ..self }
    }

    fn impact(&self) -> Cow<'static, str> {
        self.impact.clone().or_else(|| Some(find(self.id)?.impact.into())).unwrap_or_default()
    }

    /// Adds a problem that shows the cause: it is evidence, it is explained, and its commands become next steps.
    fn rests_on(self, sign: &Sign<'_>) -> Self {
        let recognized = self.sees(sign.target.clone(), sign.problem.observed.as_str()).explains([*sign]);
        sign.problem.hints.iter().fold(recognized, |recognized, hint| recognized.then(hint.clone()))
    }

    fn rests_on_all<'a>(self, signs: impl IntoIterator<Item = &'a Sign<'a>>) -> Self {
        signs.into_iter().fold(self, Self::rests_on)
    }

    /// Adds a fact that supports the cause.
    fn sees(mut self, target: Target, observed: impl Into<String>) -> Self {
        self.seen.push(Seen { target, observed: observed.into() });
        self
    }

    /// Adds problems that follow from the cause.
    fn explains<'a>(mut self, signs: impl IntoIterator<Item = Sign<'a>>) -> Self {
        self.shows.extend(signs.into_iter().map(|sign| sign.at));
        self
    }

    /// Adds one more command. Likely causes are left out, because the cause is known.
    fn then(mut self, hint: Hint) -> Self {
        if !matches!(hint, Hint::Likely(_)) {
            self.next.push(hint);
        }
        self
    }

    /// Removes all proposed commands that change something.
    fn without_remedies(mut self) -> Self {
        self.next.retain(|hint| !matches!(hint, Hint::Remedy { .. }));
        self
    }

    /// Replaces all proposed commands that change something with this one.
    fn only_remedy(self, hint: Hint) -> Self {
        self.without_remedies().then(hint)
    }

    /// Removes duplicates, and puts commands that only read before those that change something.
    fn diagnosis(mut self, severity: Severity, explains: Vec<Explained>) -> Diagnosis {
        let mut known = HashSet::new();
        self.seen.retain(|seen| known.insert(seen.clone()));
        let mut known = HashSet::new();
        self.next.retain(|hint| known.insert(hint.clone()));
        self.next.sort_by_key(|hint| matches!(hint, Hint::Remedy { .. }));
        let impact = self.impact();
        // A machine is more than its etcd member, but this decides whether it can wait until morning.
        let is_last = explains.iter().any(|it| it.reason == Reason::NoTolerance);
        let impact = if is_last { format!("{impact}; {}", Reason::NoTolerance.title()).into() } else { impact };
        Diagnosis { id: self.id, headline: self.headline, impact, seen: self.seen, next: self.next, severity, explains }
    }
}

/// Returns one command for all of these machines that answer.
fn on_all<'a>(nodes: impl Iterator<Item = &'a Node>, command: &'static str) -> Option<Hint> {
    let answering = nodes.filter(|node| node.talos.contact.is_ok()).map(|node| node.address.as_str());
    let addresses = answering.collect::<Vec<_>>().join(",");
    (!addresses.is_empty()).then(|| Hint::run(command, [addresses.as_str()]))
}

/// Every cause, from root to symptom. The first cause that can explain a problem gets it.
pub(crate) const ALL: &[&Cause] = &[
    &access::CREDENTIALS_EXPIRED,
    &access::OTHER_TALOSCONFIG,
    &access::OTHER_KUBECONFIG,
    &access::WORKER_ENDPOINT,
    &access::ROLE_INSUFFICIENT,
    &access::KUBERNETES_RIGHTS,
    &access::ETCD_RIGHTS,
    &upgrade::RENEWAL_BROKEN,
    &access::UNCONFIGURED,
    &nodes::GOING_DOWN,
    &nodes::RENAMED,
    &nodes::REMOVED,
    &nodes::SCALED_DOWN,
    &nodes::UNTRUSTED,
    &nodes::NOT_JOINED,
    &nodes::REFUSES,
    &nodes::DOWN,
    &nodes::HANGS,
    &nodes::CUT_OFF,
    &upgrade::CLOCK,
    &bootstrap::NOT_BOOTSTRAPPED,
    &bootstrap::TWICE,
    &bootstrap::HELD_UP,
    &etcd::OUT_OF_SPACE,
    &etcd::CORRUPT,
    &etcd::QUORUM,
    &external_etcd::MUTE,
    &etcd::LEARNER,
    &etcd::STALE,
    &etcd::STILL_JOINING,
    &etcd::REMOVED,
    &external_etcd::UNSTARTED,
    &etcd::STOPPED,
    &etcd::DOWN,
    &kubelets::KUBELET,
    &kubelets::UNAPPROVED,
    &kubelets::UNCERTIFIED,
    &kubelets::UNREGISTERED,
    &api::NONE_WORKS,
    &api::NO_CONTROLLER_MANAGER,
    &api::NO_SCHEDULER,
    &webhooks::WEBHOOK,
    &api::CRASHES,
    &api::BALANCER,
    &api::PATH,
    &api::NO_LISTS,
    &api::SERVER,
    &installed::NO_MANIFESTS,
    &installed::NO_NETWORK,
    &installed::AGENT,
    &api::DNS_OFF,
    &api::DNS_CRASHES,
    &upgrade::UNSUPPORTED_JUMP,
    &upgrade::API_REMOVED,
    &upgrade::DRAIN_BLOCKED,
    &upgrade::NO_ROOM,
    &upgrade::HALF_DONE,
];

pub(crate) fn find(id: &str) -> Option<&'static Cause> {
    ALL.iter().copied().find(|cause| cause.id == id)
}

/// Returns the causes behind the problems of a round, from root to symptom. Causes that stop the whole cluster come first.
pub(crate) fn diagnose(snapshot: &Snapshot, verdicts: &[(&'static Check, Verdict)]) -> Vec<Diagnosis> {
    recognized_in(&mut Symptoms::new(snapshot, verdicts))
}

/// Same as [`diagnose`], one cause at a time: with thousands of machines each cause takes a while, and a signal may arrive meanwhile.
pub(crate) async fn diagnose_in_turns(snapshot: &Snapshot, verdicts: &[(&'static Check, Verdict)]) -> Vec<Diagnosis> {
    let mut symptoms = Symptoms::new(snapshot, verdicts);
    let mut made = Vec::new();
    for cause in ALL {
        yield_now().await;
        recognize(cause, &mut symptoms, &mut made);
    }
    sort(&mut made);
    made
}

fn recognized_in(symptoms: &mut Symptoms<'_>) -> Vec<Diagnosis> {
    let mut made = Vec::new();
    for cause in ALL {
        recognize(cause, symptoms, &mut made);
    }
    sort(&mut made);
    made
}

fn recognize(cause: &Cause, symptoms: &mut Symptoms<'_>, made: &mut Vec<Diagnosis>) {
    for recognized in (cause.recognize)(symptoms) {
        if let Some((severity, explains)) = symptoms.explain(&recognized.shows) {
            made.push(webhooks::with_webhooks(symptoms, recognized, &explains).diagnosis(severity, explains));
        }
    }
}

/// Causes that leave Kubernetes without its database.
const OF_THE_DATABASE: [&str; 2] = [etcd::QUORUM.id, etcd::STOPPED.id];

/// Causes that take something from the whole cluster, whichever machine they were seen on.
const OF_THE_CLUSTER: [&str; 11] = [
    bootstrap::TWICE.id,
    etcd::OUT_OF_SPACE.id,
    etcd::CORRUPT.id,
    api::NONE_WORKS.id,
    api::BALANCER.id,
    api::NO_CONTROLLER_MANAGER.id,
    api::NO_SCHEDULER.id,
    webhooks::WEBHOOK.id,
    installed::NO_MANIFESTS.id,
    api::DNS_OFF.id,
    api::DNS_CRASHES.id,
];

/// Causes that stand in the way of an upgrade and have not harmed anything yet.
const OF_THE_UPGRADE: [&str; 4] =
    [upgrade::UNSUPPORTED_JUMP.id, upgrade::API_REMOVED.id, upgrade::DRAIN_BLOCKED.id, upgrade::NO_ROOM.id];

/// The reach of a cause, the widest first. Of two equally severe causes, the one with the wider reach is dealt with first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// Kubernetes without its database: nothing works until the missing members are back.
    Database,
    /// Something that the whole cluster lacks.
    Cluster,
    /// A machine without which the Kubernetes API is unavailable to everyone.
    Api,
    Machine,
    /// A version, a size or a margin: nothing else stops because of it.
    Property,
    /// The upgrade that was asked about.
    Upgrade,
}

impl Reach {
    pub(crate) fn of(diagnosis: &Diagnosis) -> Self {
        let takes_api = || diagnosis.explains.iter().any(|it| it.check == CheckId::K8sApiEndpoint);
        match diagnosis.id {
            id if OF_THE_DATABASE.contains(&id) => Self::Database,
            id if OF_THE_CLUSTER.contains(&id) => Self::Cluster,
            id if OF_THE_UPGRADE.contains(&id) => Self::Upgrade,
            _ if takes_api() => Self::Api,
            _ => Self::Machine,
        }
    }

    /// Returns the reach of a problem that no diagnosis explains.
    pub(crate) fn of_problem(check: &Check, reason: Reason) -> Self {
        match reason {
            _ if check.stage == Stage::Upgrade => Self::Upgrade,
            Reason::QuorumLost | Reason::StorageUnproven => Self::Database,
            Reason::DnsNoEndpoints
            | Reason::DnsMissing
            | Reason::WebhookUnavailable
            | Reason::NothingSchedulable
            | Reason::NotLeading => Self::Cluster,
            _ if check.id == CheckId::K8sApiEndpoint => Self::Api,
            _ if !graph::means_broken(reason) => Self::Property,
            _ => Self::Machine,
        }
    }
}

/// Sorts failures before warnings, and causes with a wide reach before those of one machine.
pub(crate) fn sort(made: &mut [Diagnosis]) {
    made.sort_by_key(|it| (it.severity == Severity::Warn, Reach::of(it)));
}
