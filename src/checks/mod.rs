//! The checks: a table of constants, each defined next to the pure function that judges it.
//!
//! A judge sees one [`Assessment`] and nothing else, and judges do not call each other. A check passes because of positive evidence, never
//! because evidence is missing: a verdict without findings is an error, and a fact that is a gap is at best an error.

pub(crate) mod accept;
pub(crate) mod allowance;
mod etcd;
pub(crate) mod evidence;
mod gaps;
mod kubernetes;
mod order;
mod policy;
mod require;
mod scope;
mod stated;
mod talos;
mod upgrade;

pub(crate) use upgrade::{EtcdStops, etcd_stops, is_plain, schematic_of};

use std::collections::BTreeSet;
use std::fmt;

pub(crate) use kubernetes::is_of_dns;
pub(crate) use talos::{holds_up_boot, must_run};

use crate::assess::Assessment;
use crate::model::{CheckId, Fact, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};

/// Definition of a check. Everything that is printed or documented about it is generated from this literal.
pub(crate) struct Check {
    /// Stable, dotted: `etcd.quorum`.
    pub(crate) id: CheckId,
    pub(crate) stage: Stage,
    /// Statement that is true when the check passes, in one line.
    pub(crate) summary: &'static str,
    /// Text of `explain`: what the check measures, why it fails, what to do. Paragraphs.
    pub(crate) explain: &'static str,
    /// The worst severity that the check can report.
    pub(crate) severity: Severity,
    /// Every reason for which the check fails or warns. Obstacles to observation are errors, and not listed because any check can report
    /// them.
    pub(crate) finds: &'static [Reason],
    /// The facts that the check reads. The engine requests no others.
    pub(crate) facts: &'static [Fact],
    pub(crate) judge: fn(&Assessment<'_>) -> Verdict,
}

impl Check {
    /// Returns true if the check runs only when an option of its own or a policy requests it.
    pub(crate) fn is_asked_by_option(&self) -> bool {
        matches!(self.stage, Stage::Upgrade | Stage::Policy | Stage::Server) || self.id == CheckId::TalosNodesExtensions
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id.name())
    }
}

/// Every check, in the order of the reports: by stage, then from cause to symptom.
pub(crate) const ALL: &[&Check] = &[
    &talos::CREDENTIALS,
    &talos::ENDPOINTS,
    &talos::REACHABLE,
    &talos::EXPECTED,
    &talos::VERSIONS,
    &talos::TIME,
    &talos::BOOTED,
    &talos::READY,
    &talos::SERVICES,
    &talos::KUBELET,
    &talos::KUBELET_CERTIFICATE,
    &talos::NETWORK,
    &talos::MEMORY,
    &talos::DISK,
    &talos::DIAGNOSTICS,
    &talos::EXTENSIONS,
    &etcd::SERVICE,
    &etcd::QUORUM,
    &etcd::LEADER,
    &etcd::MEMBERS_CONSISTENT,
    &etcd::MEMBERS_NODES,
    &etcd::LEARNERS,
    &etcd::ALARMS,
    &etcd::SPACE,
    &etcd::LAG,
    &etcd::TOLERANCE,
    &etcd::VERSIONS,
    &kubernetes::CREDENTIALS,
    &kubernetes::ENDPOINT,
    &kubernetes::SERVERS,
    &kubernetes::IDENTITY,
    &kubernetes::SERVING,
    &kubernetes::APISERVER,
    &kubernetes::CONTROLLER_MANAGER,
    &kubernetes::SCHEDULER,
    &kubernetes::LEASES,
    &kubernetes::VERSIONS,
    &kubernetes::REGISTERED,
    &kubernetes::READY,
    &kubernetes::PRESSURE,
    &kubernetes::CONDITIONS,
    &kubernetes::SCHEDULABLE,
    &kubernetes::REQUESTS,
    &kubernetes::MANIFESTS,
    &kubernetes::KUBE_PROXY,
    &kubernetes::DNS,
    &kubernetes::CNI,
    &kubernetes::SYSTEM,
    &kubernetes::STARTING,
    &kubernetes::WEBHOOKS,
    &kubernetes::APISERVICES,
    &kubernetes::RENDERED,
    &kubernetes::RUNNING,
    &upgrade::TALOS_PATH,
    &upgrade::KUBERNETES_PATH,
    &upgrade::MATRIX,
    &upgrade::ETCD,
    &upgrade::FLAGS,
    &upgrade::APIS,
    &upgrade::EXTENSIONS,
    &upgrade::DRAIN,
    &upgrade::ROOM,
    &upgrade::VOLUMES,
    &upgrade::QUORUM,
    &policy::MACHINES,
    &policy::ACCEPT,
    &require::REQUIRE,
    &talos::SERVER,
];

/// Verdict of a judge that reported nothing: missing evidence is an error, never a pass.
pub(crate) fn nothing_judged() -> Verdict {
    Verdict::whole(Outcome::problem(Problem::error(Reason::NoAnswer, "something to check", "no target was found")))
}

/// Returns all problems of a round, in the order of the catalog.
pub(crate) fn problems<'a>(
    verdicts: &'a [(&'static Check, Verdict)],
) -> impl Iterator<Item = (CheckId, &'a Target, &'a Problem)> {
    verdicts.iter().flat_map(|(check, verdict)| verdict.problems().map(|(target, problem)| (check.id, target, problem)))
}

#[cfg(test)]
pub(crate) fn find(id: &str) -> Option<&'static Check> {
    ALL.iter().copied().find(|check| check.id == id)
}

/// Returns the facts that a selection of checks reads.
pub(crate) fn facts<'a>(checks: impl IntoIterator<Item = &'a &'static Check>) -> BTreeSet<Fact> {
    checks.into_iter().flat_map(|check| check.facts).copied().collect()
}
