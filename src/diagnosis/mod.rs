//! From symptoms to causes: what a person on call would say after reading all problems of a round.
//!
//! A cause is recognized by positive evidence alone, that is by problems that judges have seen and by facts of the same round,
//! never by something that is missing. It explains problems and changes none: the verdict is the judges'. What nobody
//! recognizes speaks for itself.

mod access;
mod api;
mod bootstrap;
mod etcd;
mod external_etcd;
pub(crate) mod graph;
mod installed;
mod kubelets;
mod nodes;
mod service;
mod symptoms;
#[cfg(test)]
mod tests;
mod upgrade;

use std::collections::{BTreeSet, HashSet};
use std::fmt;

pub(crate) use graph::explain;
pub(crate) use symptoms::Symptoms;
use tokio::task::yield_now;

use crate::checks::Check;
use crate::model::{CheckId, Hint, Reason, Severity, Source, Step, Target, Verdict};
use crate::snapshot::Snapshot;
use symptoms::Sign;

/// One cause of trouble. Everything that is said about it anywhere is made from this literal.
pub(crate) struct Cause {
    /// Stable, kebab-case, and no reason code: those say what was seen, this says why.
    pub(crate) id: &'static str,
    /// One line for people.
    pub(crate) title: &'static str,
    /// What it means for the cluster and its workloads, as half a sentence: whether somebody has to get up.
    pub(crate) impact: &'static str,
    /// For `explain`, for somebody who has never seen the cluster. Paragraphs.
    pub(crate) explain: &'static str,
    /// The official document that the remedy comes from.
    pub(crate) source: Source,
    /// What to do; steps that only read come first.
    pub(crate) remedy: &'static [Step],
    /// All instances of it that the evidence shows.
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
    /// Of the [`Cause`].
    pub(crate) id: &'static str,
    /// One sentence, with names and figures.
    pub(crate) headline: String,
    /// What it rests on.
    pub(crate) seen: Vec<Seen>,
    /// What to do next: commands that only read, then those that change something.
    pub(crate) next: Vec<Hint>,
    /// The worst severity of what it explains.
    pub(crate) severity: Severity,
    /// The problems that follow from it, in the order of the catalog.
    pub(crate) explains: Vec<Explained>,
}

/// One observed fact, and where it was observed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Seen {
    pub(crate) target: Target,
    pub(crate) observed: String,
}

/// Names one problem of the round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Explained {
    pub(crate) check: CheckId,
    pub(crate) target: Target,
    pub(crate) reason: Reason,
    /// A check can find the same reason twice for one target.
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

/// A cause in the making.
#[derive(Clone, Debug)]
pub(crate) struct Recognized {
    id: &'static str,
    headline: String,
    seen: Vec<Seen>,
    next: Vec<Hint>,
    /// The problems that show it or are known to follow, by their place in the round.
    shows: BTreeSet<usize>,
}

impl Recognized {
    fn new(id: &'static str, headline: impl Into<String>) -> Self {
        Self { id, headline: headline.into(), seen: Vec::new(), next: Vec::new(), shows: BTreeSet::new() }
    }

    /// The problem shows the cause: it is evidence, it is explained, and its commands are next.
    fn rests_on(self, sign: &Sign<'_>) -> Self {
        let recognized = self.sees(sign.target.clone(), sign.problem.observed.as_str()).explains([*sign]);
        sign.problem.hints.iter().fold(recognized, |recognized, hint| recognized.then(hint.clone()))
    }

    fn rests_on_all<'a>(self, signs: impl IntoIterator<Item = &'a Sign<'a>>) -> Self {
        signs.into_iter().fold(self, Self::rests_on)
    }

    /// A fact that supports it.
    fn sees(mut self, target: Target, observed: impl Into<String>) -> Self {
        self.seen.push(Seen { target, observed: observed.into() });
        self
    }

    /// Problems that follow from it.
    fn explains<'a>(mut self, signs: impl IntoIterator<Item = Sign<'a>>) -> Self {
        self.shows.extend(signs.into_iter().map(|sign| sign.at));
        self
    }

    /// One more command. Likely causes are left out: this is the cause.
    fn then(mut self, hint: Hint) -> Self {
        if !matches!(hint, Hint::Likely(_)) {
            self.next.push(hint);
        }
        self
    }

    /// Nothing that the problems propose changes anything.
    fn without_remedies(mut self) -> Self {
        self.next.retain(|hint| !matches!(hint, Hint::Remedy { .. }));
        self
    }

    /// Only this command changes anything, whatever the problems propose.
    fn only_remedy(self, hint: Hint) -> Self {
        self.without_remedies().then(hint)
    }

    /// Everything once, and commands that only read before those that change something.
    fn diagnosis(mut self, severity: Severity, explains: Vec<Explained>) -> Diagnosis {
        let mut known = HashSet::new();
        self.seen.retain(|seen| known.insert(seen.clone()));
        let mut known = HashSet::new();
        self.next.retain(|hint| known.insert(hint.clone()));
        self.next.sort_by_key(|hint| matches!(hint, Hint::Remedy { .. }));
        Diagnosis { id: self.id, headline: self.headline, seen: self.seen, next: self.next, severity, explains }
    }
}

/// Every cause, from root to symptom: whoever comes first explains what both could.
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
    &etcd::LEARNER,
    &etcd::STALE,
    &etcd::STILL_JOINING,
    &etcd::REMOVED,
    &external_etcd::UNSTARTED,
    &external_etcd::MUTE,
    &etcd::DOWN,
    &kubelets::KUBELET,
    &kubelets::UNAPPROVED,
    &kubelets::UNCERTIFIED,
    &kubelets::UNREGISTERED,
    &api::NONE_WORKS,
    &api::NO_CONTROLLER_MANAGER,
    &api::NO_SCHEDULER,
    &api::CRASHES,
    &api::BALANCER,
    &api::PATH,
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

/// What lies behind the problems of a round, from root to symptom; but what stops the whole cluster comes first.
pub(crate) fn diagnose(snapshot: &Snapshot, verdicts: &[(&'static Check, Verdict)]) -> Vec<Diagnosis> {
    recognized_in(&mut Symptoms::new(snapshot, verdicts))
}

/// As [`diagnose`], a cause at a time: of thousands of machines each takes a while, in which a signal may come.
pub(crate) async fn diagnose_in_turns(snapshot: &Snapshot, verdicts: &[(&'static Check, Verdict)]) -> Vec<Diagnosis> {
    let mut symptoms = Symptoms::new(snapshot, verdicts);
    let mut made = Vec::new();
    for cause in ALL {
        yield_now().await;
        recognize(cause, &mut symptoms, &mut made);
    }
    in_order(made)
}

fn recognized_in(symptoms: &mut Symptoms<'_>) -> Vec<Diagnosis> {
    let mut made = Vec::new();
    for cause in ALL {
        recognize(cause, symptoms, &mut made);
    }
    in_order(made)
}

fn recognize(cause: &Cause, symptoms: &mut Symptoms<'_>, made: &mut Vec<Diagnosis>) {
    for recognized in (cause.recognize)(symptoms) {
        if let Some((severity, explains)) = symptoms.explain(&recognized.shows) {
            made.push(recognized.diagnosis(severity, explains));
        }
    }
}

/// Failures before warnings. The machines that etcd lacks are the reason, and what to do. That nothing works until they are back is what
/// matters. Then comes what takes the Kubernetes API, or every write to it, from everybody, whoever else is in trouble.
fn in_order(mut made: Vec<Diagnosis>) -> Vec<Diagnosis> {
    let is_of_all = |diagnosis: &Diagnosis| {
        let takes_api = diagnosis.explains.iter().any(|it| it.check == CheckId::K8sApiEndpoint);
        takes_api || [etcd::OUT_OF_SPACE.id, etcd::CORRUPT.id].contains(&diagnosis.id)
    };
    made.sort_by_key(|it| (it.severity == Severity::Warn, it.id != etcd::QUORUM.id, !is_of_all(it)));
    made
}
