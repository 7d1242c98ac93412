//! The Kubernetes part of clusters that misbehave.

mod answers;
mod catalog;
mod content;
mod identity;
mod leases;
mod pages;
mod plugins;
mod rights;
mod servers;
mod timing;

use std::time::Duration;

use simulator::world::{CallFault, Misbehavior};

use crate::cluster::{Cluster, Judgment};
use crate::harness::side_by_side;

/// Options for one round. A call may take 5 s while none needs more than a few milliseconds, so the load of the machine does not matter.
pub(crate) const ROUND: [&str; 2] = ["--attempt-timeout", "10s"];

/// Longest duration of such a round: an attempt, another look at a lease that seems stale, and the time of the process itself.
pub(crate) const ROUND_AT_MOST: Duration = Duration::from_secs(24);

pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const NODE_LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
pub(crate) const SYSTEM_LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
pub(crate) const PODS: &str = "/api/v1/namespaces/kube-system/pods";
pub(crate) const PENDING_PODS: &str = "/api/v1/pods";
pub(crate) const EVENTS: &str = "/api/v1/events";
pub(crate) const DAEMON_SETS: &str = "/apis/apps/v1/daemonsets";
pub(crate) const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/kube-system/statefulsets";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/kube-system/deployments";
pub(crate) const DNS_ENDPOINTS: &str = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices";
pub(crate) const API_ENDPOINTS: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
pub(crate) const SIGNING_REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
pub(crate) const VALIDATING_WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
pub(crate) const MUTATING_WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
pub(crate) const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const READYZ: &str = "/readyz";
pub(crate) const SYSTEM_NAMESPACE: &str = "/api/v1/namespaces/kube-system";

pub(crate) const LEASES: &str = "leases.coordination.k8s.io";
pub(crate) const SLICES: &str = "endpointslices.discovery.k8s.io";
pub(crate) const SYSTEM: Option<&str> = Some("kube-system");

/// Makes all API servers answer a path like this.
pub(crate) fn answers(cluster: &Cluster, path: &str, does: Misbehavior) {
    cluster.change(|world| world.call_faults.push(CallFault::all(path, does)));
}

/// Returns the results of one round, with additional arguments.
pub(crate) fn round(cluster: &Cluster, more: &[&str]) -> Judgment {
    let judged = cluster.run(&[&ROUND[..], more].concat());
    judged.within(ROUND_AT_MOST);
    judged
}

impl Judgment {
    /// Returns reason and target of each problem of a check.
    pub(crate) fn of(&self, check: &str) -> Vec<(&str, &str)> {
        let of = self.problems.iter().filter(|said| said.check == check);
        of.map(|said| (said.reason.as_str(), said.target.as_str())).collect()
    }
}
