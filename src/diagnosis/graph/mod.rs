//! Causes and symptoms: the problems of a round on the graph of the [parts](part::Part) that make up a cluster.
//!
//! Each problem is observed at one vertex: a part on a machine, or a part of the whole cluster. A problem is a symptom if its part needs
//! another one that does not work, on the same machine or in the cluster, directly or through parts that were not seen to work. Otherwise
//! it is a cause. Judges report what they observe; only this module decides which cause it follows from.

mod broken;
pub(crate) mod part;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use broken::means_broken;
use part::{Condition, Part, StaticPod};

use super::api::no_list_arrives;
use super::look::Answers;
use super::service::keeps_exiting;
use crate::assess::components::Component;
use crate::assess::workloads::{lapsed_alone, workload_of};
use crate::assess::{is_going_down, is_silent_altogether, service};
use crate::checks::{Check, is_of_dns, problems};
use crate::model::{About, CheckId, Kind, NO_NODE, Outcome, Problem, Reason, Role, Severity, Target, Verdict};
use crate::snapshot::{Kubernetes, Node, Pod, Service, Snapshot};
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
    let checks: Vec<(CheckId, Severity)> =
        problems(verdicts).map(|(check, _, problem)| (check, problem.severity)).collect();
    let causes = Causes::of(snapshot, verdicts);
    for (at, problem) in verdicts.iter_mut().flat_map(|(_, verdict)| verdict.problems_mut()).enumerate() {
        // A failure must not be explained by a warning, because it would then be overlooked. A check does not explain itself, because its
        // problems are reported together anyway.
        let weighs = |cause: &&usize| checks[**cause].1 > Severity::Warn || problem.severity == Severity::Warn;
        let others = causes.behind(at).iter().filter(weighs).map(|cause| checks[*cause].0);
        problem.explained_by = others.clone().find(|check| *check != checks[at].0);
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
    /// The answer that each problem lacks.
    lacks: Vec<Option<MissingAnswer<'a>>>,
    /// The first problem that reports each missing answer.
    missing: HashMap<MissingAnswer<'a>, usize>,
}

/// The answer that an undetermined problem lacks: where, in which words it is reported, and the name of the answer, or the expectation.
type MissingAnswer<'a> = (Option<Machine<'a>>, Reason, &'a str, &'a str);

/// Returns the answer that the problem lacks. Two checks that lack the same answer of the cluster report it in the same words. On a machine
/// they have different expectations, so there the answer is known by its name.
fn missing_answer<'a>(
    found: &Found<'a>,
    machine: Option<Machine<'a>>,
    answers: Option<&Answers<'a>>,
) -> Option<MissingAnswer<'a>> {
    let problem = found.problem;
    let what = match (machine, problem.reason) {
        // A version that is missing from the tables is part of the user's question, which each check answers separately.
        (_, Reason::TargetUnknown) => return None,
        (Some(_), _) => answers?.behind(found.target, problem)?.what,
        // A mistyped name is the same mistake in each check that needs its node.
        (None, Reason::NodeUnknown) => &problem.expected,
        (None, _) if problem.severity == Severity::Error => &problem.expected,
        (None, _) => return None,
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
            for part in [part].iter().chain(part.is_part_of()) {
                graph.at.entry(vertex(*part)).or_default().push(at);
            }
            // A member that follows no leader does not serve its clients.
            for place in found.problem.places().iter().filter(|_| part == Part::Agreement) {
                graph.at.entry((Part::EtcdMember, Some(graph.place(place)))).or_default().push(at);
            }
            let answer = missing_answer(found, machine, answers.get(&found.check));
            if let Some(answer) = answer {
                graph.missing.entry(answer).or_insert(at);
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

    /// Returns the part at which a problem was observed.
    #[expect(clippy::too_many_lines, reason = "an arm for each check")]
    fn part(&self, found: &Found<'a>, machine: Option<Machine<'a>>) -> Part {
        use CheckId as Id;
        let Found { target, problem, .. } = found;
        let reason = problem.reason;
        let waits = |id| self.service(machine, id).is_some_and(waits_to_start);
        let runs = |id| self.service(machine, id).is_some_and(|service| service.state == "Running");
        match found.check {
            Id::TalosCredentials => Part::TalosCredentials,
            // A machine without a configuration runs no part of the cluster.
            Id::TalosEndpoints | Id::TalosNodesReachable if reason == Reason::MaintenanceMode => Part::Power,
            Id::TalosEndpoints => Part::TalosEndpoint,
            Id::TalosNodesReachable => Part::TalosApi,
            Id::TalosNodesExpected => match reason {
                Reason::StaleNodeObject | Reason::StaleDiscoveryMember => Part::Record,
                Reason::SingleSource => Part::Sources,
                Reason::MachineTypeInit => Part::Property,
                _ => Part::Stated,
            },
            Id::TalosTime => Part::Clock,
            Id::TalosNodesBooted => match reason {
                Reason::StageNotRunning if !self.node(machine).is_some_and(is_going_down) => Part::Boot,
                Reason::ServiceBlocksBoot => Part::Boot,
                _ => Part::Power,
            },
            Id::TalosNodesReady => match &problem.about {
                Some(About::Condition(name)) => Part::Condition(condition(name)),
                _ => Part::Condition(Condition::Other),
            },
            Id::TalosNodesServices => match &problem.about {
                Some(About::Service(id)) if matches!(id.as_str(), "containerd" | "cri") => Part::Runtime,
                _ => Part::Service,
            },
            Id::TalosNodesKubelet => match reason {
                Reason::KubeprismUnhealthy => Part::KubePrism,
                _ if waits("kubelet") => Part::KubeletStart,
                _ => Part::Kubelet,
            },
            Id::TalosNodesKubeletCertificate => Part::ServingCertificate,
            Id::TalosNodesNetwork => match reason {
                Reason::KubespanPeerDown => Part::Peers,
                _ => Part::Network,
            },
            Id::TalosNodesDisk => match (reason, &problem.about) {
                (Reason::VolumeFailed, about) if *about != Some(About::UserVolume) => Part::Volumes,
                (Reason::DiskFull, _) => Part::Volumes,
                _ => Part::Property,
            },
            Id::EtcdService => match self.node(machine) {
                _ if waits("etcd") => Part::EtcdStart,
                Some(node) if runs("etcd") && node.talos.etcd_status.is_ok() => Part::EtcdMember,
                _ => Part::EtcdProcess,
            },
            Id::EtcdQuorum => match reason {
                Reason::SplitCluster => Part::EtcdIdentity,
                _ => Part::Quorum,
            },
            Id::EtcdLeader => match reason {
                Reason::LeadersDiffer | Reason::LeaderChanges => Part::Agreement,
                _ => Part::EtcdMember,
            },
            Id::EtcdMembersConsistent => match reason {
                Reason::SplitCluster => Part::EtcdIdentity,
                _ => Part::Agreement,
            },
            // Undetermined, because the member was not seen.
            Id::EtcdMembersNodes | Id::EtcdLearners | Id::EtcdAlarms if problem.severity == Severity::Error => {
                Part::Lag
            }
            Id::EtcdMembersNodes => match reason {
                Reason::ForeignEtcd => Part::EtcdIdentity,
                Reason::StaleMember => Part::Record,
                Reason::MemberJoining => Part::Joining,
                Reason::PeerAddress => Part::Property,
                _ => Part::Membership,
            },
            Id::EtcdLearners => Part::Joining,
            Id::EtcdAlarms => match reason {
                Reason::AlarmNospace => Part::Alarm,
                Reason::EtcdUnhealthy => Part::EtcdMember,
                _ => Part::Property,
            },
            Id::EtcdSpace => Part::Space,
            Id::EtcdLag => Part::Lag,
            Id::EtcdTolerance => Part::Tolerance,
            Id::K8sCredentials => Part::KubernetesCredentials,
            Id::K8sApiEndpoint if is_about_access(reason) => Part::KubernetesAccess,
            // If the address belongs to a machine, its API server is affected; otherwise only the name's DNS record is.
            Id::K8sApiEndpoint if reason == Reason::EndpointAddressDead => match machine {
                Some(Machine::Known(_)) => Part::ApiServer,
                _ => Part::Property,
            },
            Id::K8sApiEndpoint => Part::ApiEndpoint,
            Id::K8sApiServers if target.kind == Kind::Cluster || reason == Reason::EndpointOnMachine => Part::Property,
            Id::K8sApiServers if is_about_access(reason) => Part::ServerAccess,
            Id::K8sApiServers if problem.about == Some(About::Itself) => Part::ApiServerItself,
            // Only a server that runs presents a certificate.
            Id::K8sApiServers if matches!(reason, Reason::ServerCertificateExpired | Reason::NameNotInCertificate) => {
                Part::ApiServerItself
            }
            Id::K8sApiServers => Part::ApiServer,
            Id::K8sApiCertificates => match reason {
                Reason::ServerCertificateExpired | Reason::NoAnswer => Part::ApiCertificate,
                _ => Part::Property,
            },
            Id::K8sControlplaneApiserver => component(Component::ApiServer, reason),
            Id::K8sControlplaneControllerManager => component(Component::ControllerManager, reason),
            Id::K8sControlplaneScheduler => component(Component::Scheduler, reason),
            Id::K8sControlplaneLeases if target.name.ends_with(Component::Scheduler.name()) => {
                Part::Leader(Component::Scheduler)
            }
            Id::K8sControlplaneLeases => Part::Leader(Component::ControllerManager),
            Id::K8sNodesRegistered => match reason {
                Reason::StaleNodeObject => Part::Record,
                _ => Part::Registration,
            },
            Id::K8sNodesReady => match reason {
                Reason::CniMissing => Part::NodeNetwork,
                _ if self.node(machine).is_some_and(|node| is_silent_altogether(self.snapshot, node)) => Part::Power,
                _ => Part::NodeReady,
            },
            Id::K8sNodesSchedulable => match reason {
                Reason::NothingSchedulable => Part::Place,
                _ => Part::Property,
            },
            Id::K8sNodesCsrs => Part::Request,
            Id::K8sManifests => Part::BootstrapManifests,
            Id::K8sKubeProxy => Part::KubeProxy,
            Id::K8sCni => Part::NetworkAgent,
            // The Deployment asks for no replicas.
            Id::K8sDns if reason == Reason::DnsScaledToZero => Part::Property,
            Id::K8sDns | Id::K8sSystem => Part::Workload,
            Id::K8sPodsStarting => match reason {
                Reason::PodsNotScheduled => Part::Scheduling,
                Reason::NodeCannotAttach | Reason::NodeCannotPull => Part::Property,
                _ => Part::Sandbox,
            },
            Id::K8sWebhooks => Part::Webhook,
            Id::K8sApiservices => Part::AggregatedApi,
            Id::K8sStaticpodsRendered => Part::Manifests,
            Id::K8sStaticpodsRunning if reason == Reason::NoTolerance => Part::StaticPod(StaticPod::Own),
            Id::K8sStaticpodsRunning if target.kind != Kind::Pod => Part::PodStatuses,
            // Only Talos runs etcd as a service of its own.
            Id::K8sStaticpodsRunning if self.snapshot.talos.is_none() => {
                match static_pod(&target.name, self.node(machine)) {
                    StaticPod::Etcd => Part::StaticPod(StaticPod::Own),
                    of => Part::StaticPod(of),
                }
            }
            Id::K8sStaticpodsRunning => Part::StaticPod(static_pod(&target.name, self.node(machine))),
            Id::UpgradeDrain => match reason {
                Reason::SlowTermination => Part::Drain,
                _ => Part::Property,
            },
            Id::UpgradeRoom => Part::Place,
            Id::UpgradeQuorum => match reason {
                Reason::LastApiServer => Part::OtherServer,
                Reason::LastDnsEndpoint => Part::Workload,
                _ => Part::UpgradeQuorum,
            },
            // A property of the target; no other part depends on it.
            _ => Part::Property,
        }
    }

    /// Returns the direct causes of this problem. Of several problems that lack the same answer, the first one explains the others. On a
    /// machine the first one must not have a cause, which could be one of the others.
    fn causes(&self, at: usize) -> Vec<usize> {
        let causes = self.own_causes(at);
        if !causes.is_empty() {
            return causes;
        }
        let first =
            self.reported_before(at).filter(|first| self.on[at].is_none() || self.own_causes(*first).is_empty());
        first.into_iter().collect()
    }

    fn own_causes(&self, at: usize) -> Vec<usize> {
        let (part, machine) = self.vertices[at];
        let problem = self.found[at].problem;
        let refused = if problem.about == Some(About::RefusedByWebhook) { &[Part::Webhook][..] } else { &[] };
        let waits_for = self.waits_for(part, machine);
        let stopped_alone =
            part == Part::NodeReady && self.node(machine).is_some_and(|node| lapsed_alone(self.snapshot, node));
        let is_needed = |it: &Part| !(stopped_alone && matches!(it, Part::Writes | Part::Quorum));
        let needs =
            || refused.iter().chain(waits_for.as_deref().unwrap_or_else(|| part.needs())).copied().filter(is_needed);
        let mut causes = match machine {
            Some(_) => self.upstream(at, needs(), machine),
            None => self.upstream(at, needs().filter(|part| !part.is_on_a_machine()), None),
        };
        if machine.is_none() {
            causes.extend(self.at_all_places(at, part, problem.places()));
        }
        if causes.is_empty() {
            causes.extend(self.same_certificate(at, part));
        }
        if causes.is_empty() {
            causes.extend(self.same_dns(at));
        }
        if causes.is_empty() {
            causes.extend(self.no_storage(at));
        }
        causes
    }

    /// Returns the servers behind the endpoint with the same expired certificate. Whichever server the endpoint leads to, the certificate
    /// is that server's own.
    fn same_certificate(&self, at: usize, part: Part) -> Vec<usize> {
        if (part, self.found[at].problem.reason) != (Part::ApiEndpoint, Reason::ServerCertificateExpired) {
            return Vec::new();
        }
        let servers = self.found.iter().enumerate().filter(|(other, found)| {
            self.vertices[*other].0 == Part::ApiServerItself && found.problem.reason == Reason::ServerCertificateExpired
        });
        servers.map(|(other, _)| other).collect()
    }

    /// Returns the problem of cluster DNS if this one is about a workload of it.
    fn same_dns(&self, at: usize) -> Option<usize> {
        let found = self.found.get(at).filter(|found| found.check == CheckId::K8sSystem)?;
        let of_dns = self.found.iter().position(|it| {
            let weighs = it.problem.severity >= found.problem.severity;
            it.check == CheckId::K8sDns && it.target.kind == Kind::Workload && weighs
        })?;
        let mut pods = self.snapshot.kubernetes.iter().flat_map(Kubernetes::all_pods).filter(|pod| is_of_dns(pod));
        let is_its = |pod: &Pod| {
            let of = workload_of(pod).map(|(_, name)| format!("{}/{name}", pod.namespace));
            of.is_some_and(|name| name == found.target.name)
        };
        pods.any(is_its).then_some(of_dns)
    }

    /// Returns the problem of the API's storage if no list arrives, and this answer of the API is missing in the same words.
    fn no_storage(&self, at: usize) -> Option<usize> {
        self.snapshot.kubernetes.as_ref().and_then(no_list_arrives)?;
        let problem = self.found[at].problem;
        let is_missing = problem.severity == Severity::Error && self.on[at].is_none();
        let mut of_storage = self.at.get(&(Part::Quorum, None)).into_iter().flatten().copied();
        of_storage.find(|&it| {
            let its = self.found[it].problem;
            it != at && is_missing && its.reason == Reason::StorageUnproven && its.observed == problem.observed
        })
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
    fn at_all_places(&self, at: usize, part: Part, places: &'a [String]) -> Vec<usize> {
        let needs = part.needs().iter().copied();
        let mut all = Vec::new();
        for place in places {
            let causes = if place == NO_NODE {
                self.without_a_place(at)
            } else {
                let needs = needs.clone().filter(|part| part.is_on_a_machine());
                self.upstream(at, needs, Some(self.place(place)))
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
        let causes = self.upstream(at, std::iter::once(Part::Unplaced), None);
        let nodes = (0..self.snapshot.nodes.len()).filter(|_| causes.is_empty()).map(Machine::Known);
        let needs = [Part::NodeReady, Part::NodeNetwork];
        let of_each: Vec<Vec<usize>> = nodes.map(|node| self.upstream(at, needs.into_iter(), Some(node))).collect();
        if of_each.iter().any(Vec::is_empty) { causes } else { of_each.into_iter().flatten().chain(causes).collect() }
    }

    /// Returns the problems of the nearest upstream parts that were seen not to work.
    fn upstream(&self, at: usize, needs: impl Iterator<Item = Part>, machine: Option<Machine<'a>>) -> Vec<usize> {
        let scope = |part: Part| machine.filter(|_| part.is_on_a_machine());
        let is_worker = self.node(machine).is_some_and(|node| node.role == Role::Worker);
        let exists = |part: Part| !(is_worker && part.is_of_control_planes());
        let mut level: Vec<Part> = needs.filter(|part| exists(*part)).collect();
        let mut known: HashSet<Part> = level.iter().copied().collect();
        let mut causes = Vec::new();
        while causes.is_empty() && !level.is_empty() {
            let mut further = Vec::new();
            for part in level {
                let whole = machine.filter(|_| part.is_on_a_machine()).map(|_| self.at(at, (part, None)));
                causes.extend(self.at(at, (part, scope(part))).chain(whole.into_iter().flatten()));
                if !self.is_seen_to_work(part, scope(part)) {
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
            let is_broken =
                means_broken(its.reason) || (its.severity, its.reason) == (Severity::Fail, Reason::NoAnswer);
            *cause != symptom && !is_unknown && (is_broken || is_the_same)
        };
        self.at.get(&vertex).into_iter().flatten().copied().filter(explains)
    }

    fn is_seen_to_work(&self, part: Part, machine: Option<Machine<'a>>) -> bool {
        part.judged_by().is_some_and(|check| self.passed.contains(&(check, machine)))
    }

    /// Returns the first problem that lacks the same answer, if another check reports it.
    fn reported_before(&self, at: usize) -> Option<usize> {
        let first = *self.missing.get(&self.lacks[at]?)?;
        (self.found[first].check != self.found[at].check).then_some(first)
    }
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

/// Returns whether the service has not started yet and has not exited on its own.
fn waits_to_start(service: &Service) -> bool {
    service.is_starting() && !keeps_exiting(service)
}

/// Returns whether the problem concerns access: a refusal depends on the request, and an unknown CA on what the kubeconfig trusts, no
/// matter which server answers.
fn is_about_access(reason: Reason) -> bool {
    use Reason::{Forbidden, ForbiddenOrStarting, Throttled, Unauthorized, UnknownCa};
    matches!(reason, Unauthorized | Forbidden | ForbiddenOrStarting | Throttled | UnknownCa)
}

fn component(component: Component, reason: Reason) -> Part {
    match reason {
        Reason::ComponentNotReady => Part::Ready(component),
        Reason::StatusStale => Part::StaticPod(StaticPod::Component(component)),
        _ => Part::Component(component),
    }
}

fn static_pod(name: &str, node: Option<&Node>) -> StaticPod {
    let is_etcd = |node: &Node| name.strip_prefix("etcd-") == Some(node.name.as_str());
    match node.and_then(|node| Component::of_static_pod(name, node)) {
        Some(component) => StaticPod::Component(component),
        None if node.is_some_and(is_etcd) => StaticPod::Etcd,
        None => StaticPod::Own,
    }
}

fn condition(name: &str) -> Condition {
    match name {
        "services" => Condition::Services,
        "time" => Condition::Time,
        "network" => Condition::Network,
        "staticPods" => Condition::StaticPods,
        "nodeReady" => Condition::NodeReady,
        _ => Condition::Other,
    }
}
