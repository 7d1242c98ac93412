//! Connections between problems that the graph of parts cannot contain, because they depend on the object: which workload and which
//! machines are behind a Service, which driver attaches volumes on a machine, which server an endpoint leads to.

use std::collections::BTreeSet;

use super::part::Part;
use super::{Found, Graph, Machine};
use crate::assess::workloads::{Renewal, cannot_start, lapsed_alone, refusing_webhook, renewal_by, workload_of};
use crate::checks::is_of_dns;
use crate::diagnosis::api::no_list_arrives;
use crate::model::{About, CheckId, Kind, Reason, Severity, Target, Write};
use crate::snapshot::{Kubernetes, Pod, ServiceEndpoint, Webhook, Workload, has_ended};

impl<'a> Graph<'a> {
    /// Returns the causes of an outage behind the Services of a webhook or an aggregated API, if there is one for each Service without a
    /// working endpoint.
    pub(super) fn behind_its_services(&self, at: usize) -> Vec<usize> {
        let (part, _) = self.vertices[at];
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

    /// Returns the webhooks that refuse the request without which this problem arises.
    pub(super) fn refused_write(&self, at: usize) -> Vec<usize> {
        // Without a webhook in trouble, pods and leases are not searched for each problem.
        if !self.at.contains_key(&(Part::Webhook, None)) {
            return Vec::new();
        }
        let write = match (self.vertices[at].0, self.found[at].problem.reason) {
            (Part::NodeReady, Reason::NodeLeaseStale | Reason::NodeNotReady) => self.unwritten_report(at),
            (Part::Leader(_), Reason::NotLeading) => Some(Write::LeaderLease),
            (Part::StaticPod(_), Reason::StatusStale) => Some(Write::PodStatus),
            (Part::Workload | Part::NetworkAgent | Part::KubeProxy, _) if self.lacks_a_pod(at) => Some(Write::Pod),
            _ => None,
        };
        write.map_or_else(Vec::new, |write| self.refusing(at, write))
    }

    /// Returns the report of a kubelet that does not arrive. A kubelet that says itself that it is not ready has not been refused, and no
    /// webhook stops one kubelet alone.
    fn unwritten_report(&self, at: usize) -> Option<Write> {
        let Some(Machine::Known(machine)) = self.on[at] else { return None };
        let node = &self.snapshot.nodes[machine];
        match renewal_by(self.snapshot, node)? {
            _ if self.tells_unready.contains(&machine) => None,
            Renewal::Lapsed => (!lapsed_alone(self.snapshot, node)).then_some(Write::NodeLease),
            // The kubelet reports again, but the status stays as the node controller left it.
            Renewal::Renewed if self.found[at].problem.reason == Reason::NodeNotReady => Some(Write::NodeStatus),
            Renewal::Renewed | Renewal::Unknown => None,
        }
    }

    /// Returns the webhook that the problem quotes: in the condition of a workload, or in an event of a pod.
    pub(super) fn quoted_webhook(&self, at: usize) -> Vec<usize> {
        let problem = self.found[at].problem;
        let name = match &problem.about {
            Some(About::RefusedByWebhook(name)) => Some(name.as_str()),
            _ => refusing_webhook(&problem.observed),
        };
        let (Some(name), Some(kubernetes)) = (name, &self.snapshot.kubernetes) else { return Vec::new() };
        let is_it = |it: &usize| hooks(kubernetes, self.found[*it].target).any(|hook| hook.name == name);
        self.at(at, (Part::Webhook, None)).filter(is_it).collect()
    }

    /// Returns whether a workload of kube-system has fewer pods than it should have, or none on this machine. Only a Deployment has a
    /// condition with the reason.
    fn lacks_a_pod(&self, at: usize) -> bool {
        let (target, machine) = (self.found[at].target, self.on[at]);
        let Some(kubernetes) = &self.snapshot.kubernetes else { return false };
        let lists = [&kubernetes.daemon_sets, &kubernetes.deployments, &kubernetes.stateful_sets];
        let is_it = |it: &&Workload| match (self.vertices[at].0, machine) {
            (_, None) => is_workload(target, &it.namespace, &it.name),
            (Part::KubeProxy, _) => it.name == "kube-proxy",
            _ => it.is_network_agent() || it.installs_network,
        };
        let its = lists.into_iter().flatten().flatten().filter(|it| it.namespace == "kube-system").filter(is_it);
        let Ok(pods) = &kubernetes.pods else { return false };
        let is_here = |pod: &&Pod| machine.is_none() || pod.node.as_deref().map(|node| self.place(node)) == machine;
        // A workload that says why it has no pods knows better.
        its.filter(|workload| workload.refused.is_none()).any(|workload| {
            let is_its = |pod: &&Pod| workload_of(pod).is_some_and(|(_, name)| name == workload.name);
            let stays = |pod: &&Pod| !pod.deleting && !has_ended(&pod.state.phase);
            let number = pods.iter().filter(is_its).filter(stays).filter(is_here).count();
            number < if machine.is_none() { workload.replicas() } else { 1 }
        })
    }

    /// Returns the webhooks without a backend that refuse this request.
    fn refusing(&self, at: usize, write: Write) -> Vec<usize> {
        let refuses = |it: &usize| match &self.found[*it].problem.about {
            Some(About::Refuses(writes)) => writes.contains(&write),
            _ => false,
        };
        self.at(at, (Part::Webhook, None)).filter(refuses).filter(|it| self.has_no_backend(*it)).collect()
    }

    /// Returns whether no endpoint of the webhook is listed as ready, except on machines that are off. On a machine whose Node is only silent,
    /// it may still answer the API server.
    fn has_no_backend(&self, webhook: usize) -> bool {
        let Some(kubernetes) = &self.snapshot.kubernetes else { return false };
        let is_off = |node: &'a str| {
            let machine = Some(self.place(node));
            [Part::Power, Part::TalosApi].iter().any(|part| self.at.contains_key(&(*part, machine)))
        };
        let answers =
            |endpoint: &'a ServiceEndpoint| endpoint.serves("TCP") && !endpoint.node.as_deref().is_some_and(is_off);
        !backings(kubernetes, self.found[webhook].target).iter().any(|it| it.endpoints.iter().any(answers))
    }

    /// Returns the API servers that are in the same state as the endpoint, which leads to one of them. If the state may also be that of
    /// something in front of the servers, another server has to work.
    pub(super) fn same_server(&self, at: usize) -> Vec<usize> {
        use Reason::{ApiFrozen, ApiNotReady, NameNotInCertificate, ServerCertificateExpired, UnknownCa};
        let Found { check, problem, .. } = self.found[at];
        let leads_there = match problem.reason {
            _ if check != CheckId::K8sApiEndpoint => false,
            ServerCertificateExpired => true,
            ApiFrozen | ApiNotReady | NameNotInCertificate | UnknownCa => self.some_server_works(),
            _ => false,
        };
        let mut servers = if leads_there { self.all(CheckId::K8sApiServers, problem.reason) } else { Vec::new() };
        // Each readiness check that fails, and each name that a certificate lacks, is a problem of its own.
        let is_same = |it: &usize| self.found[*it].problem.observed == problem.observed;
        servers.retain(|it| !matches!(problem.reason, ApiNotReady | NameNotInCertificate) || is_same(it));
        servers
    }

    /// Returns the alarms of a full database if this problem is about the size of one: all members have the same data.
    pub(super) fn same_database(&self, at: usize) -> Vec<usize> {
        match self.vertices[at].0 {
            Part::Space => self.all(CheckId::EtcdAlarms, Reason::AlarmNospace),
            _ => Vec::new(),
        }
    }

    /// Returns the problem of a webhook if this problem is about a webhook that stops a drain for lack of a backend. If there are several
    /// webhooks without one, it is unknown which of them this problem names.
    pub(super) fn same_webhook(&self, at: usize) -> Vec<usize> {
        let Found { check, problem, .. } = self.found[at];
        match (check, problem.reason) {
            (CheckId::UpgradeDrain, Reason::WebhookUnavailable) => {
                let hooks = self.all(CheckId::K8sWebhooks, Reason::WebhookUnavailable);
                if hooks.len() == 1 { hooks } else { Vec::new() }
            }
            _ => Vec::new(),
        }
    }

    /// Returns all problems that a check found for this reason.
    fn all(&self, check: CheckId, reason: Reason) -> Vec<usize> {
        let its = self.found.iter().enumerate().filter(|(_, it)| it.check == check && it.problem.reason == reason);
        its.map(|(at, _)| at).collect()
    }

    /// Returns the problem of cluster DNS if this one is about a workload of it, or about the last of its endpoints.
    pub(super) fn same_dns(&self, at: usize) -> Vec<usize> {
        let found = &self.found[at];
        if found.problem.reason == Reason::LastDnsEndpoint {
            return self.all(CheckId::K8sDns, Reason::DnsNoEndpoints);
        }
        if found.check != CheckId::K8sSystem {
            return Vec::new();
        }
        let of_dns = self.found.iter().position(|it| {
            let weighs = it.problem.severity >= found.problem.severity;
            it.check == CheckId::K8sDns && it.target.kind == Kind::Workload && weighs
        });
        let mut pods = self.snapshot.kubernetes.iter().flat_map(Kubernetes::all_pods).filter(|pod| is_of_dns(pod));
        let is_its =
            |pod: &Pod| workload_of(pod).is_some_and(|(_, name)| is_workload(found.target, &pod.namespace, name));
        of_dns.filter(|_| pods.any(is_its)).into_iter().collect()
    }

    /// Returns the problem of the API's storage if no list arrives, and this answer of the API is missing in the same words.
    pub(super) fn no_storage(&self, at: usize) -> Vec<usize> {
        if self.snapshot.kubernetes.as_ref().and_then(no_list_arrives).is_none() {
            return Vec::new();
        }
        let problem = self.found[at].problem;
        let is_missing = problem.severity == Severity::Error && self.on[at].is_none();
        let mut of_storage = self.at.get(&(Part::Quorum, None)).into_iter().flatten().copied();
        let first = of_storage.find(|&it| {
            let its = self.found[it].problem;
            it != at && is_missing && its.reason == Reason::StorageUnproven && its.observed == problem.observed
        });
        first.into_iter().collect()
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
        } else if containers.iter().all(|it| cannot_start(it)) {
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
        let drivers: Vec<_> = sets.filter(|set| set.registers_driver).collect();
        let is_of_driver = |other: &Found<'a>| {
            let is_driver = || drivers.iter().any(|set| is_workload(other.target, &set.namespace, &set.name));
            let is_here = || other.problem.places().iter().any(|place| Some(self.place(place)) == machine);
            other.check == CheckId::K8sSystem && is_driver() && is_here()
        };
        let others = self.found.iter().enumerate().filter(|(_, other)| is_of_driver(other));
        others.map(|(other, _)| other).collect()
    }
}

/// Returns whether the target is the workload with this name in this namespace.
pub(super) fn is_workload(target: &Target, namespace: &str, name: &str) -> bool {
    target.name.split_once('/') == Some((namespace, name))
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
fn backings<'a>(kubernetes: &'a Kubernetes, target: &'a Target) -> Vec<Backing<'a>> {
    let backing = |(namespace, service): &'a (String, String), endpoints| Backing { namespace, service, endpoints };
    match target.kind {
        Kind::Webhook => {
            let services: BTreeSet<_> = hooks(kubernetes, target).filter_map(|hook| hook.service.as_ref()).collect();
            let of = |service| kubernetes.webhook_endpoints.get(service).and_then(|it| it.as_deref().ok());
            services.into_iter().map(|service| backing(service, of(service).unwrap_or_default())).collect()
        }
        Kind::ApiService => {
            let its = kubernetes.api_services.iter().flatten().find(|it| it.name == target.name);
            its.and_then(|it| Some(backing(it.service.as_ref()?, it.backends.as_deref().unwrap_or_default())))
                .into_iter()
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the webhooks of a configuration.
fn hooks<'a>(kubernetes: &'a Kubernetes, target: &'a Target) -> impl Iterator<Item = &'a Webhook> {
    let (kind, name) = target.name.split_once('/').unwrap_or_default();
    let hooks = match kind {
        "validatingwebhookconfiguration" => &kubernetes.validating_webhooks,
        "mutatingwebhookconfiguration" => &kubernetes.mutating_webhooks,
        _ => &kubernetes.conversions,
    };
    hooks.iter().flatten().filter(move |hook| hook.configuration == name)
}
