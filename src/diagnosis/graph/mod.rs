//! Causes and symptoms: the problems of a round on the graph of the [parts](part::Part) that make up a cluster.
//!
//! Each problem is observed at one vertex: a part on a machine, or a part of the whole cluster. A problem is a symptom if its part needs
//! another one that does not work, on the same machine or in the cluster, directly or through parts that were not seen to work. Otherwise
//! it is a cause. Judges report what they observe; only this module decides which cause it follows from.

mod broken;
mod objects;
mod observed;
pub(crate) mod part;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

pub(super) use broken::means_broken;
use part::Part;

use super::look::Answers;
use crate::assess::components::Component;
use crate::assess::workloads::{lapsed_alone, workload_of};
use crate::assess::{service, shows_life};
use crate::checks::{Check, problems};
use crate::model::{About, CheckId, Kind, NO_NODE, Outcome, Problem, Reason, Role, Severity, Target, Verdict};
use crate::snapshot::{Gap, GapKind, Kubernetes, Node, Pod, Service, Snapshot};
use crate::text::host;

/// A problem of a round, with the check that found it and its target.
struct Found<'a> {
    check: CheckId,
    target: &'a Target,
    problem: &'a Problem,
}

/// The direct causes of each problem of a round, in order.
pub(crate) struct Causes(Vec<Vec<usize>>);

impl Causes {
    pub(crate) fn of(snapshot: &Snapshot, verdicts: &[(&'static Check, Verdict)]) -> Self {
        // Without problems, no graph is built.
        if problems(verdicts).next().is_none() {
            return Self(Vec::new());
        }
        let graph = Graph::of(snapshot, verdicts);
        Self((0..graph.found.len()).map(|at| graph.causes(at)).collect())
    }

    /// Returns the direct causes of the problem at this position.
    pub(crate) fn behind(&self, at: usize) -> &[usize] {
        &self.0[at]
    }
}

/// Records for each problem the check whose failure explains it.
pub(crate) fn explain(snapshot: &Snapshot, verdicts: &mut [(&'static Check, Verdict)]) {
    let checks: Vec<CheckId> = problems(verdicts).map(|(check, ..)| check).collect();
    let causes = Causes::of(snapshot, verdicts);
    for (at, problem) in verdicts.iter_mut().flat_map(|(_, verdict)| verdict.problems_mut()).enumerate() {
        // A check does not explain itself, because its problems are reported together anyway.
        let mut others = causes.behind(at).iter().map(|cause| checks[*cause]);
        problem.explained_by = others.find(|check| *check != checks[at]);
    }
}

/// A machine, by its position among the nodes, or the name of a machine that is not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Machine<'a> {
    Known(usize),
    Other(&'a str),
}

/// A part, and the machine that it is on.
type Vertex<'a> = (Part, Option<Machine<'a>>);

struct Graph<'a> {
    snapshot: &'a Snapshot,
    machines: HashMap<&'a str, usize>,
    found: Vec<Found<'a>>,
    vertices: Vec<Vertex<'a>>,
    /// The machine of each problem's target.
    on: Vec<Option<Machine<'a>>>,
    at: HashMap<Vertex<'a>, Vec<usize>>,
    passed: HashSet<(CheckId, Option<Machine<'a>>)>,
    /// Machines whose kubelet itself reports that the Node is not ready.
    tells_unready: HashSet<usize>,
    /// Pods that are not ready, by the namespace and the name of their workload, and by their node.
    unready_pods: UnreadyPods<'a>,
    /// The answer that each problem lacks.
    lacks: Vec<Option<MissingAnswer<'a>>>,
    /// The problems that report each missing answer, in order.
    missing: HashMap<MissingAnswer<'a>, Vec<usize>>,
}

/// The answer that an undetermined problem lacks: where, in which words it is reported, and which server or which expectation.
type MissingAnswer<'a> = (Option<Machine<'a>>, Reason, &'a str, &'a str);

/// Returns the answer that the problem lacks. Two checks that lack the same answer of the cluster report it in the same words. A server on a
/// machine whose answers to several calls are missing in the same words does not answer, whatever each check expects of it.
fn missing_answer<'a>(
    found: &Found<'a>,
    machine: Option<Machine<'a>>,
    answers: Option<&Answers<'a>>,
) -> Option<MissingAnswer<'a>> {
    let problem = found.problem;
    let what = match (machine, problem.reason) {
        // A version that is missing from the tables is part of the user's question, which each check answers separately.
        (_, Reason::TargetUnknown) => return None,
        (Some(_), _) => answers?.silent_server(found.target, problem)?,
        // A mistyped name, or two options that contradict each other, is the same mistake in each check that needs the node.
        (None, Reason::NodeUnknown | Reason::NodesContradict) => &problem.expected,
        (None, _) if problem.severity == Severity::Error => &problem.expected,
        _ => return None,
    };
    Some((machine, problem.reason, what, problem.observed.as_str()))
}

impl<'a> Graph<'a> {
    fn of(snapshot: &'a Snapshot, verdicts: &'a [(&'static Check, Verdict)]) -> Self {
        let found = problems(verdicts).map(|(check, target, problem)| Found { check, target, problem });
        let mut graph = Self {
            snapshot,
            machines: machines(snapshot),
            found: found.collect(),
            vertices: Vec::new(),
            on: Vec::new(),
            at: HashMap::new(),
            passed: HashSet::new(),
            tells_unready: HashSet::new(),
            unready_pods: unready_pods(snapshot),
            missing: HashMap::new(),
            lacks: Vec::new(),
        };
        for (check, verdict) in verdicts {
            let failed: HashSet<&Target> = verdict.problems().map(|(target, _)| target).collect();
            let passed = verdict.findings.iter().filter(|finding| matches!(finding.outcome, Outcome::Pass(_)));
            for finding in passed.filter(|finding| !failed.contains(&*finding.target)) {
                graph.passed.insert((check.id, graph.machine(&finding.target)));
            }
        }
        let objects = snapshot.kubernetes.iter().flat_map(|kubernetes| kubernetes.nodes.iter().flatten());
        let unready = objects.filter(|it| it.condition("Ready").is_some_and(|ready| ready.status == "False"));
        graph.tells_unready.extend(unready.filter_map(|it| graph.machines.get(it.name.as_str())));
        let mut answers = HashMap::new();
        for (check, verdict) in verdicts {
            if verdict.problems().any(|(target, it)| it.severity == Severity::Error && target.kind != Kind::Cluster) {
                answers.insert(check.id, Answers::of(snapshot, check));
            }
        }
        for (at, found) in graph.found.iter().enumerate() {
            let machine = graph.machine(found.target);
            let part = graph.part(found, machine);
            let vertex = |part: Part| (part, machine.filter(|_| part.is_on_a_machine()));
            graph.vertices.push(vertex(part));
            graph.on.push(machine);
            // The part of each machine on which a problem of the whole cluster shows.
            let on_each = match part {
                // A member that follows no leader does not serve its clients.
                Part::Agreement => Some(Part::EtcdMember),
                Part::NetworkAgent if machine.is_none() => Some(Part::NetworkAgent),
                _ => None,
            };
            for place in found.problem.places().iter().filter(|_| on_each.is_some()) {
                graph.at.entry((on_each.unwrap_or(part), Some(graph.place(place)))).or_default().push(at);
            }
            let is_everywhere = on_each != Some(part) || found.problem.places().is_empty();
            for part in [part].iter().chain(part.is_part_of()).filter(|_| is_everywhere) {
                graph.at.entry(vertex(*part)).or_default().push(at);
            }
            let answer = missing_answer(found, machine, answers.get(&found.check));
            if let Some(answer) = answer {
                graph.missing.entry(answer).or_default().push(at);
            }
            graph.lacks.push(answer);
        }
        graph
    }

    /// Returns the machine of this name, address or URL.
    fn place(&self, name: &'a str) -> Machine<'a> {
        let known = self.machines.get(name).or_else(|| self.machines.get(host(name))).copied();
        known.map_or_else(|| Machine::Other(host(name)), Machine::Known)
    }

    /// Returns the machine that the target is, or that it is on.
    fn machine(&self, target: &'a Target) -> Option<Machine<'a>> {
        let by_address = || target.address.as_deref().and_then(|address| self.machines.get(address)).copied();
        match target.kind {
            Kind::Node | Kind::EtcdMember => Some(match self.place(&target.name) {
                Machine::Other(name) => by_address().map_or(Machine::Other(name), Machine::Known),
                known @ Machine::Known(_) => known,
            }),
            Kind::Endpoint => Some(self.place(&target.name)),
            Kind::Pod => target.node.as_deref().map(|node| self.place(node)),
            Kind::Cluster
            | Kind::Credentials
            | Kind::Workload
            | Kind::Webhook
            | Kind::ApiService
            | Kind::Policy
            | Kind::ServerCheck => None,
        }
    }

    fn node(&self, machine: Option<Machine<'a>>) -> Option<&'a Node> {
        match machine? {
            Machine::Known(at) => self.snapshot.nodes.get(at),
            Machine::Other(_) => None,
        }
    }

    fn service(&self, machine: Option<Machine<'a>>, id: &str) -> Option<&'a Service> {
        service(self.node(machine)?, id)
    }

    /// Returns the direct causes of this problem. Of several problems that lack the same answer, the first one explains the others.
    fn causes(&self, at: usize) -> Vec<usize> {
        let mut causes = self.own_causes(at);
        if causes.is_empty() {
            causes.extend(self.reported_before(at).filter(|first| self.weighs(*first, at)));
        }
        causes
    }

    /// Returns whether the problem is bad enough to explain this one. A failure does not follow from a warning, behind which it would be
    /// overlooked: what only warns stops nothing.
    fn weighs(&self, cause: usize, symptom: usize) -> bool {
        let severity = |at: usize| self.found[at].problem.severity;
        severity(cause) > Severity::Warn || severity(symptom) == Severity::Warn
    }

    fn own_causes(&self, at: usize) -> Vec<usize> {
        let causes = self.direct_causes(at);
        let is_circle = self.vertices[at].0 == Part::Webhook && self.leads_to(&causes, at);
        if is_circle { Vec::new() } else { causes }
    }

    /// Returns whether one of these problems follows from this one. The parts have one direction, but a webhook may be asked about any
    /// request of Kubernetes: what it refuses can be what its own backend lacks, and then the webhook is the cause.
    fn leads_to(&self, causes: &[usize], at: usize) -> bool {
        let mut known: HashSet<usize> = causes.iter().copied().collect();
        let mut open = causes.to_vec();
        while let Some(cause) = open.pop() {
            if cause == at {
                return true;
            }
            open.extend(self.direct_causes(cause).into_iter().filter(|further| known.insert(*further)));
        }
        false
    }

    fn direct_causes(&self, at: usize) -> Vec<usize> {
        let (part, machine) = self.vertices[at];
        let problem = self.found[at].problem;
        let also: &[Part] = match part {
            // Without Talos, they may use the endpoint.
            Part::Component(Component::ControllerManager | Component::Scheduler)
                if self.snapshot.talos.is_none() && !self.some_server_works() =>
            {
                &[Part::ApiEndpoint]
            }
            _ => &[],
        };
        let waits_for = self.waits_for(part, machine);
        let needs = || also.iter().chain(waits_for.as_deref().unwrap_or_else(|| part.needs())).copied();
        let unneeded = self.unneeded(at, machine);
        let mut causes = match machine {
            Some(_) => self.upstream(at, needs(), machine, &unneeded),
            None => self.upstream(at, needs().filter(|part| !part.is_on_a_machine()), None, &unneeded),
        };
        causes.extend(self.quoted_webhook(at));
        if machine.is_none() {
            causes.extend(self.at_all_places(at, part, problem.places().iter().map(String::as_str)));
        }
        let by_description: [fn(&Self, usize) -> Vec<usize>; 8] = [
            Self::behind_its_services,
            Self::refused_write,
            Self::storage_driver,
            Self::same_server,
            Self::same_dns,
            Self::no_storage,
            Self::same_database,
            Self::same_webhook,
        ];
        if causes.is_empty() {
            let described = by_description.iter().map(|of| {
                let mut causes = of(self, at);
                causes.retain(|cause| self.weighs(*cause, at));
                causes
            });
            causes.extend(described.into_iter().find(|causes| !causes.is_empty()).into_iter().flatten());
        }
        causes
    }

    /// Returns parts that do not explain this problem although its part needs them.
    fn unneeded(&self, at: usize, machine: Option<Machine<'a>>) -> Vec<Part> {
        use Reason::{ApiNotReady, NameNotInCertificate, ServerCertificateExpired};
        let mut unneeded = self.unneeded_by_the_living(at, machine);
        let Found { check, problem, .. } = self.found[at];
        let answers = matches!(problem.reason, ApiNotReady | NameNotInCertificate | ServerCertificateExpired);
        // A server that answers runs.
        if answers && matches!(check, CheckId::K8sApiServers | CheckId::K8sApiCertificates) {
            unneeded.extend([Part::Power, Part::TalosApi, Part::Kubelet, Part::KubeletStart]);
        }
        // The kubelet alone says why it cannot start a container.
        if problem.about == Some(About::NotStarted) {
            unneeded.extend([Part::Manifests, Part::ApiServer, Part::ApiEndpoint, Part::EtcdMember, Part::Quorum]);
        }
        let is_of_node = matches!(self.vertices[at].0, Part::NodeReady | Part::NodeNetwork);
        let tells = || matches!(machine, Some(Machine::Known(at)) if self.tells_unready.contains(&at));
        let lapsed_alone = || self.node(machine).is_some_and(|node| lapsed_alone(self.snapshot, node));
        // A database that refuses writes makes every Node's status outdated, and none that speaks for itself.
        if is_of_node && (tells() || lapsed_alone()) {
            unneeded.extend([Part::Writes, Part::Quorum]);
        }
        unneeded
    }

    /// Returns parts that do not explain what Kubernetes reports about a machine that shows signs of life: only its Talos API is out.
    fn unneeded_by_the_living(&self, at: usize, machine: Option<Machine<'a>>) -> Vec<Part> {
        let Found { check, problem, .. } = self.found[at];
        let lives = || {
            // A machine without a configuration answers, and runs nothing.
            let is_out = |gap: &Gap| gap.kind != GapKind::Maintenance;
            let node = self.node(machine).filter(|node| node.talos.contact.as_ref().is_err_and(is_out));
            node.is_some_and(|node| shows_life(self.snapshot, node))
        };
        // A machine that has not joined usually lacks its Talos certificate for the same reason.
        let is_joined = self.vertices[at].0 != Part::Registration;
        if check.is_of_kubernetes() && is_joined && problem.severity != Severity::Error && lives() {
            vec![Part::Power, Part::TalosApi]
        } else {
            Vec::new()
        }
    }

    /// Returns the parts that a service waits for, from its last event, such as `Waiting for service "cri" to be "up", time sync, network`,
    /// and the parts that stop every service. `None` if the event names no conditions.
    fn waits_for(&self, part: Part, machine: Option<Machine<'a>>) -> Option<Vec<Part>> {
        let id = match part {
            Part::KubeletStart => "kubelet",
            Part::EtcdStart => "etcd",
            _ => return None,
        };
        let (_, conditions) = self.service(machine, id)?.last_event.as_ref()?.message.split_once("Waiting for ")?;
        let named = [
            ("service \"cri\"", Part::Runtime),
            ("service \"containerd\"", Part::Runtime),
            ("service \"", Part::Service),
            ("volume", Part::Volumes),
            ("time sync", Part::Clock),
            ("network", Part::Network),
        ];
        let named = named.into_iter().filter(|(words, _)| conditions.contains(words)).map(|(_, part)| part);
        Some(named.chain([Part::Power, Part::TalosApi]).collect())
    }

    /// Returns the causes of a cluster problem if there is one on every machine on which the problem shows.
    fn at_all_places(&self, at: usize, part: Part, places: impl IntoIterator<Item = &'a str>) -> Vec<usize> {
        let needs = part.needs().iter().copied();
        let mut all = Vec::new();
        for place in places {
            let causes = if place == NO_NODE {
                self.without_a_place(at)
            } else {
                let needs = needs.clone().filter(|part| part.is_on_a_machine());
                let machine = Some(self.place(place));
                let unneeded = [self.unneeded_by_pods(at, place), &self.unneeded_by_the_living(at, machine)].concat();
                self.upstream(at, needs, machine, &unneeded)
            };
            if causes.is_empty() {
                return Vec::new();
            }
            all.extend(causes);
        }
        // The order of the places is not significant.
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the reasons why a pod has no node: it is not scheduled, or no node can run it.
    fn without_a_place(&self, at: usize) -> Vec<usize> {
        let causes = self.upstream(at, std::iter::once(Part::Unplaced), None, &[]);
        let nodes = (0..self.snapshot.nodes.len()).filter(|_| causes.is_empty()).map(Machine::Known);
        let needs = [Part::NodeReady, Part::NodeNetwork];
        let of_each: Vec<Vec<usize>> =
            nodes.map(|node| self.upstream(at, needs.into_iter(), Some(node), &[])).collect();
        if of_each.iter().any(Vec::is_empty) { causes } else { of_each.into_iter().flatten().chain(causes).collect() }
    }

    /// Returns the problems of the nearest upstream parts that were seen not to work.
    fn upstream(
        &self,
        at: usize,
        needs: impl Iterator<Item = Part>,
        machine: Option<Machine<'a>>,
        unneeded: &[Part],
    ) -> Vec<usize> {
        let scope = |part: Part| machine.filter(|_| part.is_on_a_machine());
        let is_worker = self.node(machine).is_some_and(|node| node.role == Role::Worker);
        // Only Talos renders static pods, and waits for etcd to do so.
        let is_no_part = |part: Part| part == Part::Manifests && self.snapshot.talos.is_none();
        let is_elsewhere = |part: Part| is_worker && part.is_of_control_planes();
        let exists = |part: Part| !(unneeded.contains(&part) || is_elsewhere(part) || is_no_part(part));
        let mut level: Vec<Part> = needs.filter(|part| exists(*part)).collect();
        let mut known: HashSet<Part> = level.iter().copied().collect();
        let mut causes = Vec::new();
        while causes.is_empty() && !level.is_empty() {
            let mut further = Vec::new();
            for part in level {
                let whole = machine.filter(|_| part.is_on_a_machine()).map(|_| self.at(at, (part, None)));
                causes.extend(self.at(at, (part, scope(part))).chain(whole.into_iter().flatten()));
                if !part.outlasts_its_needs() && !self.is_seen_to_work(part, scope(part)) {
                    // The search does not return from the cluster to a single machine.
                    let next = part.needs().iter().filter(|next| part.is_on_a_machine() || !next.is_on_a_machine());
                    further.extend(next.copied().filter(|next| exists(*next) && known.insert(*next)));
                }
            }
            level = further;
        }
        causes
    }

    /// Returns the problems at a vertex that explain this one.
    fn at(&self, symptom: usize, vertex: Vertex<'a>) -> impl Iterator<Item = usize> {
        let problem = self.found[symptom].problem;
        let explains = move |cause: &usize| {
            let its = self.found[*cause].problem;
            let is_the_same = its.reason == problem.reason && problem.severity != Severity::Error;
            // An unknown state explains only other unknown states.
            let is_unknown = its.severity == Severity::Error && problem.severity != Severity::Error;
            let is_unknown = is_unknown && !vertex.0.is_broken_when_unknown();
            // A network plugin does not work on a machine without its pod, however many others there are.
            let is_missing_here = vertex.0 == Part::NetworkAgent && its.reason == Reason::WorkloadDegraded;
            let is_broken = means_broken(its.reason)
                || is_missing_here
                || (its.severity, its.reason) == (Severity::Fail, Reason::NoAnswer);
            *cause != symptom && self.weighs(*cause, symptom) && !is_unknown && (is_broken || is_the_same)
        };
        self.at.get(&vertex).into_iter().flatten().copied().filter(explains)
    }

    fn is_seen_to_work(&self, part: Part, machine: Option<Machine<'a>>) -> bool {
        part.judged_by().is_some_and(|check| self.passed.contains(&(check, machine)))
    }

    /// Returns the first problem that lacks the same answer, if another check reports it. On a machine it must not have a cause, which could
    /// be one of the others.
    fn reported_before(&self, at: usize) -> Option<usize> {
        let is_cause = |it: &&usize| self.on[at].is_none() || self.own_causes(**it).is_empty();
        let first = *self.missing.get(&self.lacks[at]?)?.iter().find(is_cause)?;
        (self.found[first].check != self.found[at].check).then_some(first)
    }
}

type UnreadyPods<'a> = HashMap<(&'a str, &'a str, Option<&'a str>), Vec<&'a Pod>>;

fn unready_pods(snapshot: &Snapshot) -> UnreadyPods<'_> {
    let mut pods = UnreadyPods::new();
    let all = snapshot.kubernetes.iter().flat_map(Kubernetes::all_pods);
    for pod in all.filter(|pod| pod.state.ready != Some(true)) {
        if let Some((_, name)) = workload_of(pod) {
            pods.entry((pod.namespace.as_str(), name, pod.node.as_deref())).or_default().push(pod);
        }
    }
    pods
}

/// Indexes nodes by all names and addresses that problems can use for them.
fn machines(snapshot: &Snapshot) -> HashMap<&str, usize> {
    let mut machines = HashMap::new();
    for (at, node) in snapshot.nodes.iter().enumerate() {
        machines.entry(node.name.as_str()).or_insert(at);
    }
    for (at, node) in snapshot.nodes.iter().enumerate() {
        let registered = node.talos.nodename.iter().flatten();
        let names = node.addresses.iter().chain([&node.address]).chain(registered).map(String::as_str);
        for name in names {
            machines.entry(name).or_insert(at);
        }
    }
    machines
}
