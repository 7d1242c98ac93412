//! Symptoms that only an object's own description connects with their cause: webhooks and aggregated APIs with the workloads and machines
//! behind their Services, and pods without volumes with the driver on their machine.

use std::collections::BTreeSet;

use super::part::Part;
use super::{Found, Graph};
use crate::assess::workloads::workload_of;
use crate::model::{CheckId, Kind, Reason, Target};
use crate::snapshot::{Kubernetes, Pod, ServiceEndpoint};

impl<'a> Graph<'a> {
    /// Returns the causes of an outage behind the Services of a webhook or an aggregated API, if there is one for each Service without a
    /// working endpoint.
    pub(super) fn behind_its_services(&self, at: usize, part: Part) -> Vec<usize> {
        let Some(kubernetes) = &self.snapshot.kubernetes else { return Vec::new() };
        let is_fine = |node: &'a str| self.at_all_places(at, part, [node]).is_empty();
        let mut all = Vec::new();
        for backing in backings(kubernetes, self.found[at].target) {
            let mut ready = backing.endpoints.iter().filter(|it| it.serves("TCP"));
            if ready.any(|it| it.node.as_deref().is_some_and(is_fine)) {
                continue;
            }
            // An endpoint without a node is not a pod's, and fails on its own.
            let nodes: Option<Vec<&str>> = backing.endpoints.iter().map(|endpoint| endpoint.node.as_deref()).collect();
            let mut causes = self.at_all_places(at, part, nodes.unwrap_or_default());
            if causes.is_empty() {
                let workloads = backing.workloads(kubernetes);
                let of_workload = self.at(at, (Part::Workload, None));
                causes.extend(of_workload.filter(|it| workloads.contains(&self.found[*it].target.name)));
            }
            if causes.is_empty() {
                return Vec::new();
            }
            all.extend(causes);
        }
        all
    }

    /// Returns parts that do not explain why the workload's pods at this place do not work. A pod whose container has been started, or waits
    /// for its image, has a sandbox; and images are pulled in the machine's network, not in that of the pods.
    pub(super) fn unneeded_by_pods(&self, at: usize, place: &str) -> &'static [Part] {
        let target = self.found[at].target;
        let its = target.name.split_once('/').filter(|_| target.kind == Kind::Workload);
        let here = its.and_then(|(namespace, name)| self.unready_pods.get(&(namespace, name, Some(place))));
        let here = here.into_iter().flatten();
        let containers: Vec<_> = here.flat_map(|pod| pod.state.containers.iter().filter(|it| !it.ready)).collect();
        if containers.is_empty() {
            &[]
        } else if containers.iter().all(|it| it.cannot_start()) {
            &[Part::Sandbox, Part::NodeNetwork, Part::NetworkAgent, Part::KubeProxy]
        } else if containers.iter().all(|it| it.restarts > 0) {
            &[Part::Sandbox]
        } else {
            &[]
        }
    }

    /// Returns the troubles of the storage drivers' pods on the machine on which pods do not get their volumes.
    pub(super) fn storage_driver(&self, at: usize) -> Vec<usize> {
        let machine = self.on[at];
        if self.found[at].problem.reason != Reason::NodeCannotAttach {
            return Vec::new();
        }
        let sets = self.snapshot.kubernetes.iter().flat_map(|it| it.daemon_sets.iter().flatten());
        let drivers: BTreeSet<String> =
            sets.filter(|set| set.registers_driver).map(|set| format!("{}/{}", set.namespace, set.name)).collect();
        let is_of_driver = |other: &Found<'a>| {
            let is_here = || other.problem.places().iter().any(|place| Some(self.place(place)) == machine);
            other.check == CheckId::K8sSystem && drivers.contains(&other.target.name) && is_here()
        };
        let others = self.found.iter().enumerate().filter(|(_, other)| is_of_driver(other));
        others.map(|(other, _)| other).collect()
    }
}

/// A Service that the API server calls, and its endpoints.
struct Backing<'a> {
    namespace: &'a str,
    service: &'a str,
    endpoints: &'a [ServiceEndpoint],
}

impl Backing<'_> {
    /// Returns the workloads whose pods are the endpoints, as `namespace/name`. A pod that has never started is no endpoint; by convention,
    /// the workload then has the name of its Service.
    fn workloads(&self, kubernetes: &Kubernetes) -> BTreeSet<String> {
        let is_behind = |pod: &&Pod| self.endpoints.iter().any(|it| it.pod.as_deref() == Some(pod.name.as_str()));
        let pods = kubernetes.all_pods().filter(|pod| pod.namespace == self.namespace).filter(is_behind);
        let named = |name: &str| format!("{}/{name}", self.namespace);
        let workloads: BTreeSet<String> = pods.filter_map(|pod| Some(named(workload_of(pod)?.1))).collect();
        if workloads.is_empty() { BTreeSet::from([named(self.service)]) } else { workloads }
    }
}

/// Returns the Services behind a webhook configuration or an aggregated API.
fn backings<'a>(kubernetes: &'a Kubernetes, target: &Target) -> Vec<Backing<'a>> {
    let backing = |(namespace, service): &'a (String, String), endpoints| Backing { namespace, service, endpoints };
    match target.kind {
        Kind::Webhook => {
            let Some((kind, name)) = target.name.split_once('/') else { return Vec::new() };
            let hooks = match kind {
                "validatingwebhookconfiguration" => &kubernetes.validating_webhooks,
                "mutatingwebhookconfiguration" => &kubernetes.mutating_webhooks,
                _ => &kubernetes.conversions,
            };
            let its = hooks.iter().flatten().filter(|hook| hook.configuration == name);
            let services: BTreeSet<_> = its.filter_map(|hook| hook.service.as_ref()).collect();
            let of = |service| kubernetes.webhook_endpoints.get(service).and_then(|it| it.as_deref().ok());
            services.into_iter().map(|service| backing(service, of(service).unwrap_or_default())).collect()
        }
        Kind::ApiService => {
            let its = kubernetes.api_services.iter().flatten().find(|it| it.name == target.name);
            its.and_then(|it| Some(backing(it.service.as_ref()?, &it.backends))).into_iter().collect()
        }
        _ => Vec::new(),
    }
}
