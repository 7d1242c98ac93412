//! Admission webhooks, which the API server calls before it stores objects.

use std::collections::{BTreeMap, BTreeSet};

use super::leases::leases;
use super::node_objects;
use super::serving::{unread_pods, words};
use crate::assess::{Assessment, PodLists, Why};
use crate::checks::Check;
use crate::checks::gaps::{self, listed};
use crate::model::{
    About, CheckId, Fact, Hint, Kind, Outcome, Problem, Reason, Severity, Stage, Target, Verdict, Write,
};
use crate::snapshot::{
    BoundPod, Gap, GapKind, KubeNode, Kubernetes, Observed, Requirement, ServiceEndpoint, Webhook, WebhookRule,
};
use crate::text::some;

pub(in crate::checks) const WEBHOOKS: Check = Check {
    id: CheckId::K8sWebhooks,
    stage: Stage::Nodes,
    summary: "every webhook that the API server depends on has a ready backend",
    explain: "Reads the ValidatingWebhookConfigurations and MutatingWebhookConfigurations, and the EndpointSlices of the \
Services that they name.\n\n\
A webhook fails closed when its failurePolicy is Fail, which is the default: if no backend answers, the API server refuses the \
request. Such a webhook for creates or updates of pods, nodes or leases, or for tokens of ServiceAccounts, stops the cluster: no \
pod starts, kubelets cannot report, leaders lose their leases. If it has no ready endpoint that leads to an existing pod on a node that still reports, \
this is a failure; often not even the webhook's own pods can be created.\n\n\
All other webhooks without a ready backend are warnings: those that fail open, apply to other resources, have matchConditions, \
or have selectors that exclude kube-system. Selectors are evaluated with the label that every namespace has \
(kubernetes.io/metadata.name), and for Nodes with the labels that they have; other labels are treated as absent.\n\n\
Conversion webhooks of CustomResourceDefinitions are warnings, too. Without a backend, every list of such a resource that is \
stored in another version fails; then the garbage collector stops for the whole cluster, and namespaces stay in Terminating. \
They are read once per run, and not checked if the credentials cannot list customresourcedefinitions or if these are too \
large to be read.\n\n\
Webhooks that are called by URL are not checked, because nothing in the cluster shows whether the URL is served.\n\n\
Repair the backend. If it cannot start because of its own webhook, set failurePolicy to Ignore, or delete the configuration; \
its controller creates it again.",
    severity: Severity::Fail,
    finds: &[Reason::WebhookUnavailable, Reason::ConversionUnavailable],
    facts: &[
        Fact::TalosNodes,
        Fact::KubeNodes,
        Fact::NodeLeases,
        Fact::ValidatingWebhooks,
        Fact::MutatingWebhooks,
        Fact::Conversions,
        Fact::WebhookEndpoints,
        Fact::Pods,
    ],
    judge: webhooks,
};

/// A kind of webhook configuration.
struct Configured {
    list: fn(&Kubernetes) -> &Observed<Vec<Webhook>>,
    /// Resource kind, as kubectl spells it.
    kind: &'static str,
    expected: &'static str,
    show: &'static str,
}

const KINDS: [Configured; 2] = [
    Configured {
        list: |kubernetes| &kubernetes.validating_webhooks,
        kind: "validatingwebhookconfiguration",
        expected: "the ValidatingWebhookConfigurations",
        show: "{kubectl} describe validatingwebhookconfiguration {}",
    },
    Configured {
        list: |kubernetes| &kubernetes.mutating_webhooks,
        kind: "mutatingwebhookconfiguration",
        expected: "the MutatingWebhookConfigurations",
        show: "{kubectl} describe mutatingwebhookconfiguration {}",
    },
];

/// The label that every namespace has.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

fn webhooks(cluster: &Assessment<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    for its in &KINDS {
        let hooks = match listed(cluster, its.list, its.expected) {
            Ok(hooks) => hooks,
            Err(outcome) => {
                verdict.push(Target::cluster(), outcome);
                continue;
            }
        };
        let mut by_configuration: BTreeMap<&str, Vec<&Webhook>> = BTreeMap::new();
        for hook in hooks {
            by_configuration.entry(&hook.configuration).or_default().push(hook);
        }
        for (name, mut hooks) in by_configuration {
            hooks.sort_by_key(|hook| &hook.name);
            let outcome = match configuration(cluster, &hooks) {
                // If the endpoints could not be read, the configuration does not show why.
                Outcome::Problem(problem) if problem.severity != Severity::Error => {
                    Outcome::problem(problem.hint(Hint::run(its.show, [name])))
                }
                outcome => outcome,
            };
            if let Outcome::Skip(why) = &outcome {
                verdict.leave_out(format!("{}/{name}: {why}", its.kind));
            }
            verdict.push(Target::new(Kind::Webhook, format!("{}/{name}", its.kind)), outcome);
        }
    }
    conversions(cluster, &mut verdict);
    // Without the labels of the Nodes it is unknown which of them a webhook selects.
    let by_labels = |hook: &Webhook| {
        let is_about_some = !hook.objects.is_empty() && hook.rules.iter().any(is_about_nodes);
        is_about_some && is_closed(hook) && matches!(backend(cluster, LISTS, hook), Some(Ok(false)))
    };
    let mut all = KINDS.iter().filter_map(|its| cluster.list(its.list)).flatten();
    let unread = node_objects(cluster, "the labels of the nodes").err();
    if let Some(outcome) = unread.filter(|_| all.any(by_labels)) {
        verdict.push(Target::cluster(), outcome);
    }
    let is_judged = verdict.findings.iter().any(|finding| finding.target.kind == Kind::Webhook);
    if let Some(outcome) = leases(cluster).err().filter(|_| is_judged) {
        verdict.push(Target::cluster(), outcome);
    }
    let of_system = cluster.own_kubernetes.into_iter().flat_map(|kubernetes| &kubernetes.webhook_endpoints);
    let of_system =
        of_system.filter(|((namespace, _), _)| namespace == "kube-system").flat_map(|(_, it)| it.iter().flatten());
    if let Some(outcome) = unread_pods(cluster, of_system) {
        verdict.push(Target::cluster(), outcome);
    }
    if verdict.findings.is_empty() {
        verdict.ok(Target::cluster());
    }
    verdict
}

/// Reports definitions whose objects cannot be converted, with one warning for each Service without a backend.
fn conversions(cluster: &Assessment<'_>, verdict: &mut Verdict) {
    let all = Target::new(Kind::Webhook, "customresourcedefinitions");
    let hooks = match listed(cluster, |kubernetes| &kubernetes.conversions, "the CustomResourceDefinitions") {
        Ok(hooks) => hooks,
        Err(outcome) => {
            let gap = cluster.any_kubernetes().and_then(|kubernetes| kubernetes.conversions.as_ref().err());
            let words = match gap.map(|gap| gap.kind).filter(|_| !outcome.is_unseen()) {
                Some(GapKind::Forbidden) => "the credentials cannot list customresourcedefinitions",
                Some(GapKind::TooLarge) => "customresourcedefinitions are too large to be read",
                _ => return verdict.push(all, outcome),
            };
            verdict.leave_out(format!("conversion webhooks: {words}"));
            return verdict.skip(all, words);
        }
    };
    let mut by_service: BTreeMap<&(String, String), Vec<&Webhook>> = BTreeMap::new();
    for hook in hooks {
        if let Some(service) = &hook.service {
            by_service.entry(service).or_default().push(hook);
        }
    }
    let by_url = hooks.iter().filter(|hook| hook.service.is_none()).map(|hook| hook.configuration.as_str());
    let by_url: BTreeSet<&str> = by_url.collect();
    if !by_url.is_empty() {
        verdict.leave_out(format!("conversion webhooks that are called by URL: {}", some(by_url.into_iter(), NAMES)));
    }
    for (service, mut hooks) in by_service {
        hooks.sort_by_key(|hook| &hook.configuration);
        let Some(first) = hooks.first() else { continue };
        let target = Target::new(Kind::Webhook, format!("customresourcedefinition/{}", first.configuration));
        match backend(cluster, LISTS, first) {
            Some(Ok(true)) => verdict.ok(target),
            Some(Ok(false)) => {
                let names = some(hooks.iter().map(|hook| hook.configuration.as_str()), NAMES);
                let observed = format!("{} (conversion of {names})", without_backend(cluster, LISTS, first));
                let problem = Problem::warn(Reason::ConversionUnavailable, "a ready endpoint of its Service", observed);
                verdict.problem(target, backends(problem, &hooks));
            }
            Some(Err(_)) | None => {
                let (namespace, name) = service;
                let words = format!("the endpoints of {namespace}/{name} could not be read");
                verdict.leave_out(format!("{target}: {words}"));
                verdict.skip(target, words);
            }
        }
    }
}

/// The pod lists that this check declares.
const LISTS: PodLists = PodLists::System;

/// Judges the webhooks of one configuration by the worst of them.
fn configuration(cluster: &Assessment<'_>, hooks: &[&Webhook]) -> Outcome {
    let expected = "a ready endpoint of its Service";
    let (vital, others): (Vec<_>, Vec<_>) = hooks.iter().copied().partition(|hook| is_vital(cluster, hook));
    let without = |severity: Severity, hooks: &[&Webhook]| {
        let is_dead = |hook: &&Webhook| matches!(backend(cluster, LISTS, hook), Some(Ok(false)));
        let dead: Vec<_> = hooks.iter().copied().filter(is_dead).collect();
        let words = dead.iter().map(|hook| missing(cluster, LISTS, hook)).collect::<Vec<_>>().join("; ");
        let problem = Problem { severity, ..Problem::fail(Reason::WebhookUnavailable, expected, words) };
        let refused = refused(&dead);
        let problem = if refused.is_empty() { problem } else { problem.about(About::Refuses(refused)) };
        (!dead.is_empty()).then(|| Outcome::problem(backends(problem, hooks)))
    };
    if let Some(outcome) = without(Severity::Fail, &vital) {
        return outcome;
    }
    if let Some(gap) = vital.iter().find_map(|hook| backend(cluster, LISTS, hook)?.err()) {
        return Outcome::problem(gaps::kubernetes(cluster, &gap, expected));
    }
    if let Some(outcome) = without(Severity::Warn, &others) {
        return outcome;
    }
    let is_seen = |hook: &&Webhook| matches!(backend(cluster, LISTS, hook), Some(Ok(_)));
    if hooks.iter().any(is_seen) {
        return Outcome::Pass(None);
    }
    let why = if hooks.iter().all(|hook| hook.service.is_none()) {
        "called by URL"
    } else {
        "the endpoints of its Service could not be read"
    };
    Outcome::Skip(why.to_owned())
}

/// Adds commands that show the pods behind these webhooks.
fn backends(problem: Problem, hooks: &[&Webhook]) -> Problem {
    let namespaces: BTreeSet<_> = hooks.iter().filter_map(|hook| hook.service.as_ref()).map(|it| &it.0).collect();
    namespaces.into_iter().fold(problem, |it, name| it.hint(Hint::run("{kubectl} -n {} get pods -o wide", [name])))
}

/// Returns whether the webhook's Service has a ready endpoint on a working node; `None` if the webhook is called by URL.
fn backend(cluster: &Assessment<'_>, lists: PodLists, hook: &Webhook) -> Option<Result<bool, Gap>> {
    hook.service.as_ref()?;
    Some(match endpoints(cluster, hook) {
        Some(Ok(_)) => Ok(working(cluster, lists, hook).next().is_some()),
        Some(Err(gap)) => Err(gap.clone()),
        None => Err(Gap::not_asked()),
    })
}

/// Endpoints of the webhook's Service, if they were queried.
fn endpoints<'a>(cluster: &'a Assessment<'_>, hook: &Webhook) -> Option<&'a Observed<Vec<ServiceEndpoint>>> {
    cluster.own_kubernetes?.webhook_endpoints.get(hook.service.as_ref()?)
}

/// Returns the endpoints that the Service lists as ready.
fn ready<'a>(cluster: &'a Assessment<'_>, hook: &Webhook) -> impl Iterator<Item = &'a ServiceEndpoint> {
    endpoints(cluster, hook).into_iter().flatten().flatten().filter(|endpoint| endpoint.serves("TCP"))
}

/// Returns the ready endpoints that still serve. Others remain listed as ready until their controller notices.
fn working<'a>(
    cluster: &'a Assessment<'_>,
    lists: PodLists,
    hook: &Webhook,
) -> impl Iterator<Item = &'a ServiceEndpoint> {
    ready(cluster, hook).filter(move |it| cluster.serving(lists, it, "TCP").may_be())
}

fn missing(cluster: &Assessment<'_>, lists: PodLists, hook: &Webhook) -> String {
    let policy = if hook.fails_closed { "Fail" } else { "Ignore" };
    format!("{}: {} (failurePolicy {policy})", hook.name, without_backend(cluster, lists, hook))
}

/// Formats `Service policy/webhook has no ready endpoint`.
fn without_backend(cluster: &Assessment<'_>, lists: PodLists, hook: &Webhook) -> String {
    let (namespace, service) = hook.service.clone().unwrap_or_default();
    let faults: BTreeMap<&str, BTreeSet<&str>> = ready(cluster, hook).fold(BTreeMap::new(), |mut faults, endpoint| {
        if let Some(why) = cluster.serving(lists, endpoint, "TCP").fault() {
            let place = match why {
                Why::NodeLost | Why::NodeGone | Why::NotReady => endpoint.node.as_deref(),
                Why::PodGone | Why::PodUnready | Why::PodDeleted | Why::PodStopping | Why::OtherAddress => {
                    endpoint.pod.as_deref()
                }
            };
            faults.entry(words(why)).or_insert_with(BTreeSet::new).extend(place);
        }
        faults
    });
    let told = |(words, places): (&str, BTreeSet<&str>)| format!("{words} ({})", some(places.into_iter(), NAMES));
    let why = match faults.into_iter().map(told).collect::<Vec<_>>().join(", and ") {
        none if none.is_empty() => "has no ready endpoint".to_owned(),
        faults => format!("has no working endpoint: its ready endpoints {faults}"),
    };
    format!("Service {namespace}/{service} {why}")
}

/// Maximum number of pods or nodes that are named.
const NAMES: usize = 3;

/// A webhook that stands in the way of a drain.
pub(in crate::checks) struct Obstacle {
    pub(in crate::checks) words: String,
    /// Whether it certainly applies to the pods: labels of namespaces, other than their names, are not read.
    pub(in crate::checks) is_certain: bool,
    /// Shows the webhook or its pods.
    pub(in crate::checks) look: Hint,
}

/// A request in the course of a drain about which the API server asks webhooks.
#[derive(Clone, Copy)]
enum Request {
    Evict,
    /// The last request of the kubelet, once the pod's processes have ended.
    Delete,
    /// The request of the controller that replaces the pod.
    CreateAgain,
    /// The requests after it, without which the new pod does not serve.
    Serve,
}

impl Request {
    const ALL: [Self; 4] = [Self::Evict, Self::Delete, Self::CreateAgain, Self::Serve];

    fn cannot(self) -> &'static str {
        match self {
            Self::Evict => "cannot be evicted",
            Self::Delete => "cannot be deleted after they have stopped",
            Self::CreateAgain => "cannot be created again",
            Self::Serve => "cannot be replaced by pods that serve",
        }
    }

    fn is_covered(self, rule: &WebhookRule) -> bool {
        match self {
            Self::Evict => asks_about(rule, ("", "pods", Some("eviction"), &["CREATE"])),
            Self::Delete => asks_about(rule, ("", "pods", None, &["DELETE"])),
            Self::CreateAgain => asks_about(rule, CREATE_POD),
            Self::Serve => TO_SERVE.into_iter().any(|request| asks_about(rule, request)),
        }
    }

    /// Returns true if the webhook is asked about this pod, or may be: of the namespace's labels only the name is known.
    fn is_asked(self, hook: &Webhook, pod: &BoundPod) -> bool {
        let labels = labels(pod);
        let is_selected = match self {
            // An Eviction has no labels.
            Self::Evict => selects(&hook.objects, &[]),
            Self::Delete => selects(&hook.objects, &labels),
            Self::CreateAgain => pod.controller.is_some() && selects(&hook.objects, &labels),
            // Bindings and token requests have no labels, either.
            Self::Serve => pod.controller.is_some() && selects(&hook.objects, &[]),
        };
        let of_name: Vec<Requirement> = hook.namespaces.iter().filter(|it| it.key == NAMESPACE_NAME).cloned().collect();
        is_selected && selects(&of_name, &[(NAMESPACE_NAME, &pod.namespace)])
    }

    /// Returns true if the webhook is asked about this request for this pod.
    fn may_be_refused(self, hook: &Webhook, pod: &BoundPod) -> bool {
        hook.rules.iter().any(|rule| self.is_covered(rule)) && self.is_asked(hook, pod)
    }
}

/// Returns webhooks without a backend that fail closed on a request that the eviction of these pods needs. Webhooks with match conditions
/// are left out, because the conditions may exclude these pods.
pub(in crate::checks) fn in_the_way_of_evictions(
    cluster: &Assessment<'_>,
    evicted: &[&BoundPod],
) -> Result<Vec<Obstacle>, Outcome> {
    let mut dead = Vec::new();
    for its in &KINDS {
        for hook in listed(cluster, its.list, its.expected)?.iter().filter(|hook| is_closed(hook)) {
            let held = |request: Request| {
                evicted.iter().find(|pod| request.may_be_refused(hook, pod)).map(|pod| (request, pod))
            };
            let Some((request, pod)) = Request::ALL.into_iter().find_map(held) else { continue };
            match backend(cluster, PodLists::Bound, hook) {
                Some(Ok(false)) => {
                    let (missing, cannot) = (missing(cluster, PodLists::Bound, hook), request.cannot());
                    let is_certain = hook.namespaces.iter().all(|it| it.key == NAMESPACE_NAME);
                    let unless = if is_certain { "" } else { ", unless the namespace's labels exempt it" };
                    let words = format!("{missing}: pods of {} {cannot}{unless}", pod.namespace);
                    dead.push(Obstacle { words, is_certain, look: Hint::run(its.show, [&hook.configuration]) });
                }
                Some(Err(gap)) => {
                    return Err(Outcome::problem(gaps::kubernetes(cluster, &gap, "the endpoints of webhooks")));
                }
                Some(Ok(true)) | None => {}
            }
        }
    }
    Ok(dead)
}

/// Returns webhooks that fail closed, are left without a backend by the eviction of these pods, and then stop the drain: neither their own pods
/// nor others come up again, or the remaining pods cannot be evicted, and a drain gives up on an eviction that is refused with an error.
pub(in crate::checks) fn that_would_stop_the_drain(
    cluster: &Assessment<'_>,
    evicted: &[&BoundPod],
) -> Result<Vec<Obstacle>, Outcome> {
    let mut found = Vec::new();
    for its in &KINDS {
        // Labels of namespaces other than their names are unknown.
        let is_told = |hook: &&Webhook| hook.namespaces.iter().all(|it| it.key == NAMESPACE_NAME);
        for hook in listed(cluster, its.list, its.expected)?.iter().filter(|hook| is_closed(hook)).filter(is_told) {
            let Some((namespace, service)) = &hook.service else { continue };
            let is_needed = is_asked_to_come_back(hook, namespace);
            let held = evicted.iter().filter(|pod| Request::Evict.may_be_refused(hook, pod));
            let mut held = held.peekable();
            if !is_needed && held.peek().is_none() {
                continue;
            }
            if let Some(Err(gap)) = backend(cluster, PodLists::Bound, hook) {
                return Err(Outcome::problem(gaps::kubernetes(cluster, &gap, "the endpoints of webhooks")));
            }
            let Some(own) = leaving_backends(cluster, hook, namespace, evicted) else { continue };
            let is_another = |pod: &&&BoundPod| !own.iter().any(|it| std::ptr::eq(*it, **pod));
            let consequence = if is_needed && own.iter().all(|pod| selects(&hook.objects, &labels(pod))) {
                "without them no new pod comes up, theirs included".to_owned()
            } else if let Some(pod) = held.find(is_another) {
                format!("without them pods of {} cannot be evicted", pod.namespace)
            } else {
                continue;
            };
            let words = format!(
                "{}: every working pod behind Service {namespace}/{service} is evicted; {consequence}",
                hook.name
            );
            let look =
                Hint::run("{kubectl} -n {} get endpointslices -l kubernetes.io/service-name={}", [namespace, service]);
            found.push(Obstacle { words, is_certain: true, look });
        }
    }
    Ok(found)
}

/// A request for a namespaced object: API group, plural, subresource, and the operations of which any matters.
type Named = (&'static str, &'static str, Option<&'static str>, &'static [&'static str]);

/// A kubelet's report about its Node, which is in no namespace.
const REPORT_NODE: Named = ("", "nodes", Some("status"), &["UPDATE"]);
const REPORT_POD: Named = ("", "pods", Some("status"), &["UPDATE"]);
const BIND_POD: Named = ("", "pods", Some("binding"), &["CREATE"]);
const CREATE_POD: Named = ("", "pods", None, &["CREATE"]);
/// The request for a token, without which the kubelet starts no pod.
const CREATE_TOKEN: Named = ("", "serviceaccounts", Some("token"), &["CREATE"]);
/// The renewal of a lease, without which no scheduler and no controller works.
const RENEW_LEASE: Named = ("coordination.k8s.io", "leases", None, &["UPDATE"]);
/// Requests without which a new pod does not serve: it is created, gets a node and a token, reports that it is ready, and becomes an endpoint
/// of its Service.
const TO_SERVE: [Named; 5] = [
    CREATE_POD,
    BIND_POD,
    CREATE_TOKEN,
    REPORT_POD,
    ("discovery.k8s.io", "endpointslices", None, &["CREATE", "UPDATE"]),
];

/// The requests of Kubernetes itself, with the namespace of those that every cluster makes.
const WRITES: [(Write, Named, Option<&str>); 7] = [
    (Write::NodeLease, RENEW_LEASE, Some("kube-node-lease")),
    (Write::NodeStatus, REPORT_NODE, None),
    (Write::LeaderLease, RENEW_LEASE, Some("kube-system")),
    (Write::Pod, CREATE_POD, Some("kube-system")),
    (Write::Binding, BIND_POD, Some("kube-system")),
    (Write::Token, CREATE_TOKEN, Some("kube-system")),
    (Write::PodStatus, REPORT_POD, Some("kube-system")),
];

/// Returns the requests of Kubernetes that fail because these webhooks have no backend.
fn refused(dead: &[&Webhook]) -> Vec<Write> {
    let is_refused = |request: Named, namespace: Option<&str>, hook: &&Webhook| {
        let is_there = namespace.is_none_or(|name| selects(&hook.namespaces, &[(NAMESPACE_NAME, name)]));
        let covers = |rule: &WebhookRule| match namespace {
            Some(_) => asks_about(rule, request),
            None => rule.scope != "Namespaced" && is_named(rule, request),
        };
        is_closed(hook) && selects(&hook.objects, &[]) && is_there && hook.rules.iter().any(covers)
    };
    let refused =
        WRITES.iter().filter(|(_, request, namespace)| dead.iter().any(|hook| is_refused(*request, *namespace, hook)));
    refused.map(|(write, ..)| *write).collect()
}

/// Returns true if the webhook is asked about a request without which no pod behind it can be replaced.
fn is_asked_to_come_back(hook: &Webhook, namespace: &str) -> bool {
    let covers = |request: Named| {
        let (_, plural, ..) = request;
        // Object selectors are compared with the labels of pods; other objects do not have these.
        let is_comparable = plural == "pods" || hook.objects.is_empty();
        is_comparable && hook.rules.iter().any(|rule| asks_about(rule, request))
    };
    let concerns = |namespace: &str| selects(&hook.namespaces, &[(NAMESPACE_NAME, namespace)]);
    (concerns(namespace) && TO_SERVE.into_iter().any(covers)) || (concerns("kube-system") && covers(RENEW_LEASE))
}

/// Returns the working pods behind the webhook, if all of them are evicted. A webhook without any working pod is reported by `k8s.webhooks`, if
/// that check reads its pods.
fn leaving_backends<'a>(
    cluster: &Assessment<'_>,
    hook: &Webhook,
    namespace: &str,
    evicted: &[&'a BoundPod],
) -> Option<Vec<&'a BoundPod>> {
    let pod_of = |endpoint: &ServiceEndpoint| {
        let is_its = |pod: &&&BoundPod| pod.namespace == namespace && endpoint.pod.as_ref() == Some(&pod.name);
        evicted.iter().find(is_its).copied()
    };
    working(cluster, LISTS, hook).next()?;
    working(cluster, PodLists::Bound, hook).map(pod_of).collect()
}

fn labels(pod: &BoundPod) -> Vec<(&str, &str)> {
    pod.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

/// Returns true if the webhook fails closed on everything that it selects. A webhook with match conditions does not count: their effect is
/// unknown here.
fn is_closed(hook: &Webhook) -> bool {
    hook.fails_closed && !hook.is_conditional
}

/// Namespaced objects that the cluster itself has to write: system pods, and the leases of leaders and of nodes.
const SYSTEM: [(&str, &str, &[&str]); 2] =
    [("", "pods", &["kube-system"]), ("coordination.k8s.io", "leases", &["kube-system", "kube-node-lease"])];

/// Returns true if the webhook is asked about writes to some Node, by the labels that the Nodes have. If the Nodes were not read, their labels are
/// treated as absent, and [`webhooks`] reports that.
fn selects_a_node(cluster: &Assessment<'_>, hook: &Webhook) -> bool {
    let is_selected = |object: &KubeNode| {
        let labels: Vec<_> = object.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        selects(&hook.objects, &labels)
    };
    match node_objects(cluster, "the labels of the nodes") {
        Ok(objects) => objects.iter().any(is_selected),
        Err(_) => selects(&hook.objects, &[]),
    }
}

/// Returns true if the rule is about writes to Nodes, or to their status.
fn is_about_nodes(rule: &WebhookRule) -> bool {
    let is_written = has(&rule.operations, &["CREATE", "UPDATE"]);
    is_written && rule.scope != "Namespaced" && is_in(rule, "", "nodes", is_written_part)
}

/// Returns true for the object itself, or a subresource that the scheduler or the kubelet writes.
fn is_written_part(part: Option<&str>) -> bool {
    matches!(part, None | Some("status" | "binding"))
}

/// Returns true if the webhook's outage blocks writes that the cluster itself has to make. Of these objects only Nodes have labels that are known
/// here: the labels of pods differ, and leases have none.
fn is_vital(cluster: &Assessment<'_>, hook: &Webhook) -> bool {
    // Namespace selectors do not apply to cluster-scoped objects.
    let in_any = |names: &[&str]| names.iter().any(|name| selects(&hook.namespaces, &[(NAMESPACE_NAME, name)]));
    let is_of = |rule: &WebhookRule, group: &str, plural: &str| is_in(rule, group, plural, is_written_part);
    let in_system =
        |rule: &WebhookRule| SYSTEM.iter().any(|(group, plural, names)| is_of(rule, group, plural) && in_any(names));
    let of_tokens = |rule: &WebhookRule| asks_about(rule, CREATE_TOKEN) && in_any(&["kube-system"]);
    let is_namespaced = |rule: &WebhookRule| {
        let is_written = has(&rule.operations, &["CREATE", "UPDATE"]);
        (is_written && rule.scope != "Cluster" && in_system(rule)) || of_tokens(rule)
    };
    let of_nodes = || hook.rules.iter().any(is_about_nodes) && selects_a_node(cluster, hook);
    let of_namespaced = || hook.rules.iter().any(is_namespaced) && selects(&hook.objects, &[]);
    is_closed(hook) && (of_namespaced() || of_nodes())
}

/// Returns true if the rule covers this request for a namespaced object.
fn asks_about(rule: &WebhookRule, request: Named) -> bool {
    rule.scope != "Cluster" && is_named(rule, request)
}

/// Returns true if the rule names this request, whatever its scope.
fn is_named(rule: &WebhookRule, (group, plural, part, operations): Named) -> bool {
    has(&rule.operations, operations) && is_in(rule, group, plural, |its| its == part)
}

/// Returns true if the rule names this resource with a subresource, or without one, that `is_part` accepts.
fn is_in(rule: &WebhookRule, group: &str, plural: &str, is_part: impl Fn(Option<&str>) -> bool) -> bool {
    let is_it = |resource: &String| match resource.split_once('/') {
        None => (resource == plural || resource == "*") && is_part(None),
        Some((of, "*")) => of == plural || of == "*",
        Some((of, part)) => (of == plural || of == "*") && is_part(Some(part)),
    };
    has(&rule.groups, &[group]) && rule.resources.iter().any(is_it)
}

fn has(words: &[String], wanted: &[&str]) -> bool {
    words.iter().any(|word| word == "*" || wanted.contains(&word.as_str()))
}

/// Returns true if an object with these labels, and no others, is selected.
fn selects(requirements: &[Requirement], labels: &[(&str, &str)]) -> bool {
    requirements.iter().all(|it| {
        let value = labels.iter().find(|(key, _)| *key == it.key).map(|(_, value)| *value);
        // A requirement with an unknown operator counts as met, so that the webhook concerns more objects rather than fewer.
        it.is_met_by(value).unwrap_or(true)
    })
}
