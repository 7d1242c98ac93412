//! Stages 4 to 7: Kubernetes, as reported by its API servers, and its components, as reported by kubelets to Talos.

mod apis;
mod attaching;
mod certificates;
mod components;
mod conditions;
mod daemon_sets;
pub(in crate::checks) mod dns;
mod endpoint;
mod identity;
pub(in crate::checks) mod leadership;
pub(in crate::checks) mod leases;
mod manifests;
mod nodes;
mod pod_cidrs;
mod pressure;
mod pulling;
pub(in crate::checks) mod scheduling;
pub(in crate::checks) mod servers;
pub(in crate::checks) mod serving;
mod starting;
pub(in crate::checks) mod static_pods;
mod system;
#[cfg(test)]
mod tests;
pub(super) mod versions;
pub(in crate::checks) mod webhooks;
mod workloads;

pub(super) use apis::APISERVICES;
pub(super) use certificates::{REQUESTS, SERVING};
pub(super) use components::{APISERVER, CONTROLLER_MANAGER, SCHEDULER};
pub(super) use conditions::CONDITIONS;
pub(super) use daemon_sets::{CNI, KUBE_PROXY};
pub(super) use dns::DNS;
pub(crate) use dns::is_of_dns;
pub(super) use endpoint::{CREDENTIALS, ENDPOINT};
pub(super) use identity::IDENTITY;
pub(super) use leadership::LEASES;
pub(super) use manifests::MANIFESTS;
pub(super) use nodes::{READY, REGISTERED};
pub(super) use pressure::PRESSURE;
pub(super) use scheduling::SCHEDULABLE;
pub(super) use servers::SERVERS;
pub(super) use starting::STARTING;
pub(super) use static_pods::{RENDERED, RUNNING};
pub(super) use system::SYSTEM;
pub(super) use versions::VERSIONS;
pub(super) use webhooks::WEBHOOKS;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::gaps::{listed, says_nothing, unseen};
use super::scope::reason_not_judged;
use crate::assess::components::Component;
use crate::assess::workloads::{RENEWAL, STUCK, Trouble, between_restarts};
use crate::assess::{Assessment, KubernetesAccess};
use crate::model::{About, Hint, Outcome, Problem, Reason, Severity, Target, Verdict};
use crate::snapshot::{KubeNode, Leases, Node, Pod, Readiness};

/// Returns the Node objects of this cluster. A working cluster never has an empty list.
fn node_objects<'a>(cluster: &'a Assessment<'_>, expected: &str) -> Result<&'a Vec<KubeNode>, Outcome> {
    let objects = listed(cluster, |kubernetes| &kubernetes.nodes, expected)?;
    if objects.is_empty() { Err(says_nothing("nodes", "Kubernetes lists no node")) } else { Ok(objects) }
}

/// Adds a problem if Kubernetes' mirror pods are missing although Kubernetes is queried. Kubernetes shows the same static pods as Talos and
/// the worse of the two reports counts, so Talos' report alone is not sufficient.
fn miss_mirrors(cluster: &Assessment<'_>, verdict: &mut Verdict) {
    let passes = verdict.findings.iter().any(|finding| matches!(finding.outcome, Outcome::Pass(_)));
    let is_told = verdict.problems().any(|(_, it)| it.severity == Severity::Error);
    if !passes || is_told || !matches!(cluster.kubernetes_access, KubernetesAccess::Open(_)) {
        return;
    }
    if let Err(Outcome::Problem(problem)) = workloads::system_pods(cluster) {
        verdict.problem(Target::cluster(), *problem);
    }
}

/// Severity of something that is not complete yet: a failure once it has been so for too long, or if nothing more will come, and an error
/// if its age is unknown.
fn severity_of(is_given_up: bool, ages: &[Option<Duration>]) -> Severity {
    if is_given_up || ages.iter().flatten().any(|age| *age >= STUCK) {
        Severity::Fail
    } else if ages.contains(&None) {
        Severity::Error
    } else {
        Severity::Warn
    }
}

/// Returns true if this control plane is judged and its component is not working.
fn is_amiss(cluster: &Assessment<'_>, node: &Node, component: Component) -> bool {
    reason_not_judged(cluster, node).is_none() && !cluster.instance(node, component).state.is_fine()
}

/// Reports a pod that is not ready as a failure.
fn failed(trouble: &Trouble, otherwise: Reason) -> Problem {
    let reason = if trouble.crash_looping { Reason::CrashLooping } else { otherwise };
    let problem = Problem::fail(reason, "running and ready", trouble.words.as_str());
    if trouble.cannot_start { problem.about(About::NotStarted) } else { problem }
}

/// Reports a static pod that is running and ready, but has recently been restarted.
fn restarted(cluster: &Assessment<'_>, name: &str) -> Option<Problem> {
    restarted_between_rounds(cluster, name).or_else(|| {
        let pods = cluster.list(|kubernetes| &kubernetes.pods)?;
        restarted_lately(cluster, pods.iter().find(|pod| pod.namespace == "kube-system" && pod.name == name)?)
    })
}

fn restarted_between_rounds(cluster: &Assessment<'_>, name: &str) -> Option<Problem> {
    let (since, total) = cluster.restarted.get(name)?;
    let plural = if *since == 1 { "" } else { "s" };
    let observed = format!("{since} restart{plural} since the previous round, {total} in total");
    Some(Problem::warn(Reason::Restarting, "no restarts between two rounds", observed).between_rounds())
}

fn restarted_lately(cluster: &Assessment<'_>, pod: &Pod) -> Option<Problem> {
    let words = between_restarts(&pod.state, cluster.server_time(), up_since(cluster, pod)?)?;
    Some(Problem::warn(Reason::Restarting, "no restart in the last 10 minutes", words))
}

/// Returns when the pod's node became ready. Containers that ended before that were ended by a reboot.
fn up_since(cluster: &Assessment<'_>, pod: &Pod) -> Option<Timestamp> {
    let node = cluster.host_of(pod)?;
    let Readiness::Ready(since) = cluster.object(node)?.readiness() else { return None };
    since
}

/// Time after which unchanged leases are suspicious: an API server gives each answer a new date, and some lease is renewed every few
/// seconds.
const REPEATS: SignedDuration = SignedDuration::from_secs(20);

/// Error if the leases have been the same since a round at least `REPEATS` ago: a cache in front of the API server may be answering, and
/// hiding all that has happened since.
fn is_old(cluster: &Assessment<'_>, known: Option<&(Leases, Timestamp)>, leases: &Leases) -> Option<Problem> {
    let (known, since) = known?;
    let age = cluster.taken.duration_since(*since);
    (known.is_repeated_by(leases) && age >= REPEATS).then(|| {
        let observed =
            format!("the same answer as {} s ago: neither its date nor any lease has changed", age.as_secs());
        Problem::error(Reason::NoAnswer, "a current answer", observed)
            .hint(Hint::likely("something between this runner and the API server answers from a cache"))
    })
}

/// Outcome for a lease of unknown age.
fn undated(expected: &str) -> Outcome {
    let observed = "the API server's answer has no date, and the samples of this run do not show whether the lease is renewed in time";
    let likely = Hint::likely("a proxy in between removes the header `Date`");
    Outcome::problem(Problem::error(Reason::NoAnswer, expected, observed).hint(likely))
}

/// Outcome for a pod on a node whose kubelet is silent.
fn silent() -> Outcome {
    unseen(
        Reason::NodeLeaseStale,
        "a kubelet that renews its node's lease",
        "no lease that is renewed: the state of its pods is not current",
    )
}

/// Adds an outcome, and requests a second sample if a kubelet counts as silent: its lease may have been read just before its renewal.
fn push_or_look_again(verdict: &mut Verdict, target: Target, outcome: Outcome) {
    if matches!(&outcome, Outcome::Problem(problem) if problem.unseen && problem.reason == Reason::NodeLeaseStale) {
        verdict.resample_after = Some(RENEWAL);
    }
    verdict.push(target, outcome);
}
