//! Cluster DNS, which Talos installs unless its configuration disables it.

use std::collections::BTreeSet;
use std::fmt;

use super::leases::leases;
use super::serving::{is_on_lost_node, unread_pods, words};
use super::severity_of;
use super::workloads::{
    Wanted, installed, is_labeled, is_stuck, places, system_pods, troubles, unfinished, wanted, warn_of_restarts,
    with_refusal,
};
use crate::assess::workloads::is_well;
use crate::assess::{Assessment, Instances, Met, PodLists, Serving, Want, Why};
use crate::checks::Check;
use crate::checks::gaps::listed;
use crate::model::{CheckId, Fact, Hint, Kind, NO_NODE, Outcome, Problem, Reason, Severity, Stage, Target, Verdict};
use crate::snapshot::{Pod, ServiceEndpoint, Workload, has_ended};
use crate::text::some;

pub(in crate::checks) const DNS: Check = Check {
    id: CheckId::K8sDns,
    stage: Stage::Nodes,
    summary: "the DNS Service has as many ready endpoints as its Deployment has replicas",
    explain: "Counts the ready endpoints of the Service kube-system/kube-dns. Endpoints on nodes that are not ready do not \
count, because Kubernetes removes them only after a while; nor do those of pods that have not been ready for 30 seconds, have \
another address, or no longer exist. Any DNS server passes, not only Talos's own CoreDNS.\n\n\
Without an endpoint no pod can resolve names. The usual reasons: no node is ready yet, the pods cannot be scheduled, they \
crash because of a forwarding loop, or the Deployment was scaled to zero.\n\n\
With fewer endpoints than replicas of the Deployment `coredns`, the check warns. It fails if a missing pod has not become \
ready for 5 minutes, or if the rollout has exceeded its deadline. DNS then has no redundancy, and the node of that pod often \
has no working pod network.\n\n\
Skipped where the cluster's configuration disables DNS and nothing serves it. With --no-talos this is unknown: anything \
labeled as cluster DNS counts, in other namespaces only if kube-system has no DNS. If there is none at all, the check warns: \
DNS may \
run outside of Kubernetes, or it was deleted. Otherwise look at `kubectl -n kube-system describe pods -l k8s-app=kube-dns`.",
    severity: Severity::Fail,
    finds: &[
        Reason::Restarting,
        Reason::DnsScaledToZero,
        Reason::DnsNoEndpoints,
        Reason::DnsDegraded,
        Reason::DnsMissing,
    ],
    facts: &[
        Fact::TalosNodes,
        Fact::BootstrapManifests,
        Fact::DnsEndpoints,
        Fact::Deployments,
        Fact::Pods,
        Fact::KubeNodes,
        Fact::NodeLeases,
    ],
    judge: dns,
};

/// Values of the label `k8s-app` on DNS workloads: of Talos and most other distributions, of the `CoreDNS` chart, and of virtual clusters.
const DNS_APPS: [&str; 3] = ["kube-dns", "coredns", "vcluster-kube-dns"];
/// Label on pods of `OpenShift`'s DNS operator.
const DNS_OPERATOR: &str = "dns.operator.openshift.io/daemonset-dns";

fn dns(cluster: &Assessment<'_>) -> Verdict {
    let endpoints =
        match listed(cluster, |kubernetes| &kubernetes.dns_endpoints, "the endpoints of kube-system/kube-dns") {
            Ok(endpoints) => endpoints,
            Err(outcome) => return Verdict::whole(outcome),
        };
    let endpoints = &own(cluster, endpoints);
    let target = Service::of(endpoints).target();
    let mut verdict = Verdict::default();
    let instances = cluster.instances(PodLists::System, endpoints, RESOLVERS_USE);
    if instances.met(Want::AtLeastOne) == Met::Fully {
        let outcome = unread_pods(cluster, endpoints);
        verdict.push(target, outcome.unwrap_or_else(|| enough_dns(cluster, endpoints, instances)));
        warn_of_restarts(cluster, dns_pods(cluster), &mut verdict);
        let are_on_nodes = endpoints.iter().any(|endpoint| endpoint.node.is_some());
        if let Some(outcome) = leases(cluster).err().filter(|_| are_on_nodes) {
            verdict.push(Target::cluster(), outcome);
        }
        return verdict;
    }
    let wanted = wanted(cluster, |manifests| manifests.dns_enabled);
    let deployment = deployment(cluster);
    // A different DNS workload may have its own Service.
    let serves_elsewhere = |deployment: &Workload| {
        endpoints.is_empty() && deployment.is_observed() && deployment.available >= deployment.desired
    };
    if wanted == Wanted::No && deployment.is_none_or(|it| it.desired == 0 || serves_elsewhere(it)) {
        verdict.skip(target, "disabled by configuration");
        return verdict;
    }
    let problem = without_dns(cluster, endpoints, wanted, &instances.hosts());
    if problem.severity == Severity::Warn {
        verdict.leave_out("cluster DNS: nothing was found that serves it");
    }
    verdict.problem(target, problem);
    verdict
}

/// The Service of cluster DNS: the usual one, unless the endpoints are all another's.
struct Service<'e> {
    namespace: &'e str,
    name: &'e str,
}

impl<'e> Service<'e> {
    fn of(endpoints: &'e [ServiceEndpoint]) -> Self {
        let all = || endpoints.iter().map(|it| Self { namespace: &it.namespace, name: &it.service });
        let named = || all().filter(|service| !service.name.is_empty());
        let usual = Self { namespace: "kube-system", name: "kube-dns" };
        let has_usual = all().any(|it| (it.namespace, it.name) == (usual.namespace, usual.name));
        named().find(|_| !has_usual).unwrap_or(usual)
    }

    fn target(&self) -> Target {
        Target::new(Kind::Workload, self.to_string())
    }
}

impl fmt::Display for Service<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Returns the endpoints of the cluster's own DNS. If kube-system has any part of it, endpoints in other namespaces are not the cluster's
/// own but, for example, a virtual cluster's.
pub(in crate::checks) fn own(cluster: &Assessment<'_>, endpoints: &[ServiceEndpoint]) -> Vec<ServiceEndpoint> {
    let is_here = |namespace: &str| namespace == "kube-system";
    let has_own = endpoints.iter().any(|endpoint| is_here(&endpoint.namespace))
        || deployment(cluster).is_some()
        || dns_pods(cluster).iter().any(|pod| is_here(&pod.namespace));
    endpoints.iter().filter(|endpoint| !has_own || is_here(&endpoint.namespace)).cloned().collect()
}

pub(crate) fn is_of_dns(pod: &Pod) -> bool {
    pod.labels.get("k8s-app").is_some_and(|app| DNS_APPS.contains(&app.as_str()))
        || pod.labels.contains_key(DNS_OPERATOR)
}

const RESOLVERS_USE: &str = "UDP";

pub(in crate::checks) fn dns_serving(cluster: &Assessment<'_>, endpoint: &ServiceEndpoint) -> Serving {
    cluster.serving(PodLists::System, endpoint, RESOLVERS_USE)
}

/// Suggests a command that shows on which nodes the DNS pods run.
pub(in crate::checks) fn show_dns_pods(cluster: &Assessment<'_>, endpoints: &[ServiceEndpoint]) -> Hint {
    let pods = dns_pods(cluster);
    let label = pods.first().and_then(|pod| Some((pod.namespace.as_str(), pod.labels.get("k8s-app")?.as_str())));
    match (label, endpoints.first()) {
        (Some((namespace, app)), _) => Hint::run("{kubectl} -n {} get pods -l k8s-app={} -o wide", [namespace, app]),
        (None, Some(endpoint)) => Hint::run("{kubectl} -n {} get pods -o wide", [&endpoint.namespace]),
        (None, None) => Hint::run("{kubectl} -n kube-system get pods -o wide", []),
    }
}

/// Suggests a command about the pods that serve DNS or should. Talos and most other distributions run them in kube-system, with the same
/// label.
fn look_at_pods(pods: &[&Pod], endpoints: &[ServiceEndpoint]) -> Hint {
    let is_usual = |pod: &&&Pod| pod.namespace == "kube-system" && is_labeled(pod, "kube-dns");
    let elsewhere = endpoints.iter().find(|endpoint| pods.is_empty() && endpoint.namespace != "kube-system");
    match (pods.iter().find(|pod| !is_usual(pod)), elsewhere) {
        (Some(pod), _) => Hint::run("{kubectl} -n {} describe pod {}", [&pod.namespace, &pod.name]),
        (None, Some(endpoint)) => Hint::run("{kubectl} -n {} get pods -o wide", [&endpoint.namespace]),
        (None, None) => Hint::run("{kubectl} -n kube-system describe pods -l k8s-app=kube-dns", []),
    }
}

/// Returns the Deployment whose pods should be behind these endpoints.
pub(in crate::checks) fn deployment<'a>(cluster: &'a Assessment<'_>) -> Option<&'a Workload> {
    coredns(cluster.list(|kubernetes| &kubernetes.deployments)?)
}

fn coredns(deployments: &[Workload]) -> Option<&Workload> {
    DNS_APPS.iter().find_map(|app| installed(deployments, "coredns", app))
}

fn dns_pods<'a>(cluster: &'a Assessment<'_>) -> Vec<&'a Pod> {
    cluster.all_pods().filter(|pod| is_of_dns(pod) && !pod.deleting).collect()
}

fn enough_dns<'a>(cluster: &'a Assessment<'_>, endpoints: &[ServiceEndpoint], mut instances: Instances<'a>) -> Outcome {
    let (ready, moving) = (instances.serving.len(), instances.moving.len());
    let deployments = listed(cluster, |kubernetes| &kubernetes.deployments, "the Deployments of kube-system");
    let deployment = match deployments.map(|deployments| coredns(deployments)) {
        Ok(deployment) => deployment,
        Err(outcome) => return outcome,
    };
    let mut pods = dns_pods(cluster);
    pods.retain(|pod| !has_ended(&pod.state.phase));
    // Pods without a Deployment were set up in another way, and each of them should serve.
    let desired = deployment.map_or(instances.enough().max(pods.len()), Workload::replicas);
    let want = Want::Replicas(desired);
    pods.retain(|pod| !is_well(&pod.state));
    let given_up = deployment.and_then(|it| it.given_up.as_ref());
    let is_observed = deployment.is_none_or(Workload::is_observed);
    if instances.met(want) == Met::Fully && given_up.is_none() && is_observed {
        let unfinished = |it| unfinished(cluster, it, || pods, || 0, Reason::DnsDegraded);
        if let Some(problem) = deployment.and_then(unfinished) {
            return Outcome::problem(problem.hint(look_at_pods(&dns_pods(cluster), &[])));
        }
        if let Some(it) = deployment.filter(|it| it.available < it.desired) {
            let observed = format!(
                "{ready} endpoints are ready, but {} of {} pods of Deployment {} are available",
                it.available, it.desired, it.name
            );
            let problem = Problem::warn(Reason::DnsDegraded, "the endpoints are pods of its Deployment", observed);
            let describe = Hint::run("{kubectl} -n kube-system describe deployment {}", [&it.name]);
            return Outcome::problem(problem.hint(describe));
        }
        let plural = if ready == 1 { "" } else { "s" };
        let elsewhere =
            if moving == 0 { String::new() } else { format!(", {moving} on nodes that are being removed or gone") };
        return Outcome::Pass(Some(format!("Cluster DNS: {ready} ready endpoint{plural}{elsewhere}")));
    }
    if let Err(outcome) = system_pods(cluster) {
        return outcome;
    }
    let (gone, missing): (Vec<&Pod>, Vec<&Pod>) = pods.iter().partition(|pod| is_on_lost_node(cluster, pod));
    instances.lose(gone);
    // If there is no such pod, only the Deployment shows for how long.
    let ages: Vec<_> = if missing.is_empty() {
        vec![deployment.and_then(|it| it.unchanged_for)]
    } else {
        missing.iter().map(|pod| pod.unready_for).collect()
    };
    let of_whom = deployment.map_or_else(String::new, |it| format!(" (Deployment {})", it.name));
    let expected = format!("{desired} ready endpoints of {}{of_whom}", Service::of(endpoints));
    let stuck = given_up.map(|words| format!("rollout stuck: {words}"));
    let unobserved = (!is_observed).then(|| "its current generation is not observed".to_owned());
    let refusal = deployment.and_then(Workload::refusal);
    let words = troubles(cluster, &missing).or(refusal).or(stuck).or(unobserved).map(|words| format!("; {words}"));
    let observed = format!("{ready} of {desired} replicas ready{}", words.unwrap_or_default());
    let problem = |severity| Problem { severity, ..Problem::warn(Reason::DnsDegraded, &expected, &observed) };
    if let Met::Excused(hosts) = instances.met(want)
        && missing.is_empty()
    {
        return Outcome::problem(problem(Severity::Warn).on(hosts));
    }
    let crashes = missing.iter().any(|pod| is_stuck(cluster, pod));
    let problem =
        problem(severity_of(given_up.is_some() || crashes, &ages)).hint(look_at_pods(&pods, &[])).on(places(&missing));
    let problem = with_refusal(problem, deployment);
    Outcome::problem(match deployment.filter(|it| it.given_up.is_some() || it.refused.is_some()) {
        Some(it) => problem.hint(Hint::run("{kubectl} -n kube-system describe deployment {}", [&it.name])),
        None => problem,
    })
}

/// Maximum number of nodes that are named.
const NAMES: usize = 3;

/// Describes why no endpoint serves DNS. `hosts` are nodes with endpoints that are lost, being removed or gone.
fn without_dns(cluster: &Assessment<'_>, endpoints: &[ServiceEndpoint], wanted: Wanted, hosts: &[&str]) -> Problem {
    let service = Service::of(endpoints);
    let expected = &format!("a ready endpoint of {service}");
    let deployment = cluster.list(|kubernetes| &kubernetes.deployments).map(|deployments| coredns(deployments));
    let pods = dns_pods(cluster);
    // The existence of a Deployment with replicas is unknown.
    let is_unread = deployment.is_none() && wanted != Wanted::Yes;
    match deployment {
        Some(Some(deployment)) if deployment.desired == 0 => {
            let observed = format!("Deployment {} has 0 replicas", deployment.name);
            return Problem::fail(Reason::DnsScaledToZero, expected, observed)
                .hint(Hint::remedy("{kubectl} -n kube-system scale deployment {} --replicas 2", [&deployment.name]));
        }
        None | Some(None) if endpoints.is_empty() && pods.is_empty() && (deployment.is_some() || is_unread) => {
            let nothing = if is_unread {
                "no endpoints and no pods, and the Deployments cannot be read"
            } else {
                "no endpoints, no Deployment and no pods"
            };
            let untold = |who: &str| {
                let observed = format!("{nothing}, and {who} whether DNS is wanted");
                Problem::error(Reason::DnsMissing, expected, observed)
            };
            return match wanted {
                Wanted::NoTalos if is_unread => untold("without Talos it is unknown"),
                // Some clusters run DNS outside of Kubernetes, on each node or at the provider.
                Wanted::NoTalos => Problem::warn(Reason::DnsMissing, expected, nothing)
                    .hint(Hint::likely("pods get DNS from their nodes or from the provider, or it was deleted")),
                Wanted::Unknown => untold("no control plane reported"),
                Wanted::Yes | Wanted::No => Problem::fail(Reason::DnsMissing, expected, nothing),
            };
        }
        _ => {}
    }
    let is_claimed =
        endpoints.iter().any(|endpoint| endpoint.ready && !dns_serving(cluster, endpoint).but_for_its_node());
    let mut claimed = endpoints.iter().filter(|endpoint| endpoint.ready && !endpoint.addresses.is_empty()).peekable();
    if claimed.peek().is_some() && claimed.all(|endpoint| !endpoint.serves(RESOLVERS_USE)) {
        let observed = format!("the ready ones have no {RESOLVERS_USE} port");
        return Problem::fail(Reason::DnsNoEndpoints, expected, observed)
            .hint(Hint::likely("the Service has no port for DNS, or its target is a port that the pods do not name"))
            .hint(Hint::run("{kubectl} -n {} describe service {}", [service.namespace, service.name]));
    }
    let none = match (is_claimed, hosts.is_empty()) {
        (true, _) => "the endpoints do not match any ready pod".to_owned(),
        (false, false) => {
            let hosts: BTreeSet<_> = hosts.iter().collect();
            format!("the ready ones {} ({})", words(Why::NodeLost), some(hosts.into_iter(), NAMES))
        }
        (false, true) => "none is ready".to_owned(),
    };
    let is_alive = |pod: &&&Pod| !is_on_lost_node(cluster, pod);
    let refusal = deployment.flatten().and_then(Workload::refusal);
    let observed = match (troubles(cluster, &pods).or(refusal), pods.iter().filter(is_alive).count()) {
        (Some(words), _) => words,
        // The pods are healthy, but no endpoint leads to them.
        (None, ready @ 1..) if endpoints.iter().all(|endpoint| endpoint.addresses.is_empty()) => {
            let are = if ready == 1 { "pod is" } else { "pods are" };
            let problem =
                Problem::fail(Reason::DnsNoEndpoints, expected, format!("none, although {ready} {are} ready"))
                    .hint(Hint::likely(
                        "the selector of the Service does not match the pods, or the endpoints are not kept",
                    ))
                    .hint(Hint::run("{kubectl} -n {} describe service {}", [service.namespace, service.name]))
                    .hint(Hint::run("{kubectl} -n {} get pods --show-labels", [service.namespace]));
            // Another Service without the DNS label may lead to them.
            if endpoints.is_empty() && wanted == Wanted::NoTalos {
                return Problem { severity: Severity::Error, ..problem };
            }
            return problem;
        }
        (None, _) => none,
    };
    let problem = Problem::fail(Reason::DnsNoEndpoints, expected, observed).hint(look_at_pods(&pods, endpoints));
    let nowhere = if pods.is_empty() && hosts.is_empty() { vec![NO_NODE] } else { places(&pods) };
    with_refusal(problem.on(nowhere.into_iter().chain(hosts.iter().copied())), deployment.flatten())
}
