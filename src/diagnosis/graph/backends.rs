//! Symptoms that only an object's own description connects with their cause: webhooks and aggregated APIs with the workloads and machines
//! behind their Services, and pods without volumes with the driver on their machine.

use std::collections::BTreeSet;

use super::part::Part;
use super::{Found, Graph};
use crate::assess::workloads::workload_of;
use crate::model::{CheckId, Kind, Reason, Target};
use crate::snapshot::{Kubernetes, ServiceEndpoint, Webhook};

impl<'a> Graph<'a> {
    /// Returns the causes of an outage behind a Service: the troubles of the machines of all its endpoints, or else of the workloads that
    /// their pods belong to.
    pub(super) fn behind_its_service(&self, at: usize, part: Part) -> Vec<usize> {
        let Some(kubernetes) = &self.snapshot.kubernetes else { return Vec::new() };
        let (services, endpoints) = behind(kubernetes, self.found[at].target);
        // An endpoint without a node is not a pod's, and fails on its own.
        let nodes: Option<Vec<&str>> = endpoints.iter().map(|endpoint| endpoint.node.as_deref()).collect();
        let causes = self.at_all_places(at, part, nodes.unwrap_or_default());
        if !causes.is_empty() || services.is_empty() {
            return causes;
        }
        let is_behind = |name: &str| endpoints.iter().any(|it| it.pod.as_deref() == Some(name));
        let pods =
            kubernetes.all_pods().filter(|pod| services.iter().any(|(namespace, _)| pod.namespace == *namespace));
        let pods = pods.filter(|pod| is_behind(&pod.name));
        let mut workloads: BTreeSet<String> =
            pods.filter_map(|pod| Some(format!("{}/{}", pod.namespace, workload_of(pod)?.1))).collect();
        // A pod that has never started is no endpoint. By convention, the workload has the name of its Service.
        if workloads.is_empty() {
            workloads.extend(services.iter().map(|(namespace, name)| format!("{namespace}/{name}")));
        }
        let of_workload = self.at(at, (Part::Workload, None));
        of_workload.filter(|it| workloads.contains(&self.found[*it].target.name)).collect()
    }

    /// Returns parts that do not explain why the workload's pods at this place do not work. A pod whose container has been started, or waits
    /// for its image, has a sandbox; and images are pulled in the machine's network, not in that of the pods.
    pub(super) fn unneeded_by_pods(&self, at: usize, place: &str) -> &'static [Part] {
        let target = self.found[at].target;
        let its = target.name.split_once('/').filter(|_| target.kind == Kind::Workload);
        let its = its.and_then(|its| self.unready_pods.get(&its)).into_iter().flatten();
        let here = its.filter(|pod| pod.node.as_deref() == Some(place));
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

/// Returns the Services behind a webhook or an aggregated API, and all their endpoints.
fn behind<'a>(kubernetes: &'a Kubernetes, target: &Target) -> (Vec<&'a (String, String)>, Vec<&'a ServiceEndpoint>) {
    match target.kind {
        Kind::Webhook => {
            let Some((kind, name)) = target.name.split_once('/') else { return Default::default() };
            let hooks = match kind {
                "validatingwebhookconfiguration" => &kubernetes.validating_webhooks,
                "mutatingwebhookconfiguration" => &kubernetes.mutating_webhooks,
                _ => &kubernetes.conversions,
            };
            let its = hooks.iter().flatten().filter(|hook| hook.configuration == name);
            let services: Vec<_> = its.filter_map(|hook: &Webhook| hook.service.as_ref()).collect();
            let endpoints = services.iter().filter_map(|it| kubernetes.webhook_endpoints.get(it)?.as_ref().ok());
            let endpoints = endpoints.flatten().collect();
            (services, endpoints)
        }
        Kind::ApiService => {
            let its = kubernetes.api_services.iter().flatten().find(|it| it.name == target.name);
            let services = its.into_iter().filter_map(|it| it.service.as_ref()).collect();
            (services, its.into_iter().flat_map(|it| &it.backends).collect())
        }
        _ => Default::default(),
    }
}
