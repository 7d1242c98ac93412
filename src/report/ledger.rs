//! The engine's events, folded into a [`Report`], and the one place where a run gets its exit code.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::history::{self, Happened};
use super::{CheckReport, NodeInfo, Report, RunResult, Selection, Sources};
use crate::assess::Assessment;
use crate::engine::End;
use crate::engine::event::{Event, Round};
use crate::model::{CheckId, Exit, Finding, Kind, Outcome, Reason, Role, Severity, Shared, Stage, Status, Verdict};
use crate::rollout::Rollout;
use crate::snapshot::{Endpoint, KubernetesCredentials, Snapshot, Talos};
use crate::text::duration::human;

/// The way a run ended.
#[derive(Clone, Debug)]
pub(crate) enum Ending {
    Engine(End),
    /// A file that belongs to no check cannot be used; the text explains why.
    Configuration(String),
    /// A signal, as its exit code.
    Signal(Exit),
    /// A panic or another fault of the program; the text describes it.
    Internal(String),
}

/// Keeps the report up to date while the engine runs.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// Shared with the writers, which may take any time.
    report: Arc<Report>,
}

impl Ledger {
    pub(crate) fn new(report: Report) -> Self {
        Self { report: Arc::new(report) }
    }

    /// Returns the current report.
    pub(crate) fn report(&self) -> Arc<Report> {
        Arc::clone(&self.report)
    }

    /// Changes the report outside of events.
    pub(crate) fn amend(&mut self, amend: impl FnOnce(&mut Report)) {
        amend(Arc::make_mut(&mut self.report));
    }

    pub(crate) fn record(&mut self, event: &Event<'_>) {
        let report = Arc::make_mut(&mut self.report);
        if let Event::Round(round) = event {
            report.rounds = round.number;
            report.cut_off = false;
            report.took = round.at;
            report.sources = sources(&report.sources, &round.snapshot);
            report.targeted = targeted(&round.snapshot);
            report.asked.clone_from(&round.snapshot.asked.upgrade);
            for (check, verdict) in &round.verdicts {
                let entry = report.checks.iter_mut().find(|entry| entry.check.id == check.id);
                let Some(entry) = entry else { continue };
                let change = history::change(entry, verdict.status(), &verdict.findings);
                enter(entry, verdict, round);
                if let Some(change) = change {
                    report.happened(round.at, change);
                }
            }
            report.round_ended(round.at);
            report.not_observed = not_observed(&report.checks);
            report.diagnoses.clone_from(&round.diagnoses);
            report.logs.clear();
            if round.snapshot.asked.order.is_some() {
                report.rollout = Rollout::of(&Assessment::of(&round.snapshot)).map(Shared::from);
            }
        } else if let Event::Logs(logs) = event {
            report.logs = logs.to_vec();
        } else if matches!(event, Event::CutOff) {
            report.cut_off = true;
        } else if let Event::StabilityLost { because, .. } = event {
            let took = report.took;
            report.happened(took, Happened::StabilityLost(because.clone()));
        }
    }

    /// Records a heartbeat if nothing has happened for as long as `every`. Returns whether it has been that long.
    pub(crate) fn heartbeat(&mut self, at: Duration, every: Duration) -> bool {
        Arc::make_mut(&mut self.report).heartbeat(at, every)
    }

    /// Concludes the report. `took` is measured on the monotonic clock.
    pub(crate) fn conclude(&mut self, ending: &Ending, finished_at: Timestamp, took: Duration) -> Arc<Report> {
        let report = Arc::make_mut(&mut self.report);
        let age = took.saturating_sub(report.took);
        report.finished_at = finished_at;
        report.took = took;
        if report.cut_off && report.rounds > 0 {
            let age = human(age);
            report.not_observed.insert(0, format!("the last {age}: the round that began then did not end in time"));
        }
        report.complete = matches!(ending, Ending::Engine(_) | Ending::Configuration(_));
        report.deadline_reached = matches!(ending, Ending::Engine(End::Deadline));
        if let Ending::Internal(what) | Ending::Configuration(what) = ending {
            report.error = Some(what.clone());
        }
        report.exit = exit(ending, &report.checks);
        // The plan shows problems of an upgrade that no check can observe.
        let planned = report.rollout.as_ref().filter(|_| report.exit == Exit::Healthy);
        if let Some((exit, error)) = planned.and_then(|rollout| rollout.shortcoming()) {
            (report.exit, report.error) = (exit, Some(error));
        }
        report.result = result(report.exit);
        report.happened(took, Happened::Finished);
        self.report()
    }
}

fn enter(entry: &mut CheckReport, verdict: &Verdict, round: &Round) {
    let status = verdict.status();
    if entry.status != Some(status) {
        entry.since = Some(round.at);
    }
    // Round 0 is judged from files alone; no request was sent.
    let counts = u32::from(round.number > 0);
    if status.is_fine() {
        entry.bad_rounds = 0;
        entry.first_passed.get_or_insert(round.at);
    } else {
        entry.bad_rounds += counts;
        entry.flapped |= entry.first_passed.is_some();
    }
    entry.rounds += counts;
    entry.status = Some(status);
    entry.findings.clone_from(&verdict.findings);
    entry.left_out.clone_from(&verdict.left_out);
}

/// Returns the exit code, by precedence: signal > 70 > 78 > 2 > 1 > 77 > 69 > 124 > 4 > 0. The code reflects what is known of the cluster;
/// a field of the report shows that time ran out. (74 is decided where files are written.)
fn exit(ending: &Ending, checks: &[CheckReport]) -> Exit {
    let end = match ending {
        Ending::Signal(exit) => return *exit,
        Ending::Internal(_) => return Exit::Internal,
        Ending::Configuration(_) => return Exit::Configuration,
        Ending::Engine(end) => *end,
    };
    let selected = || checks.iter().filter(|entry| entry.selection.runs());
    // A policy's own checks are not about the cluster's health: they do not make up for a selection that checks nothing. The objects that
    // it requires were observed in the cluster.
    let is_of_policy =
        |entry: &CheckReport| entry.check.stage == Stage::Policy && entry.check.id != CheckId::PolicyRequire;
    let is_asked_for = |entry: &&CheckReport| matches!(entry.selection, Selection::Selected) && !is_of_policy(entry);
    let asked_for = || checks.iter().filter(is_asked_for);
    let judged = selected().any(|entry| entry.status.is_some());
    let any = |wanted: Status| selected().any(|entry| entry.status == Some(wanted));
    let problems = || selected().flat_map(|entry| &entry.findings).filter_map(Finding::problem);
    let reasons: BTreeSet<Reason> =
        problems().filter(|problem| problem.severity > Severity::Warn).map(|problem| problem.reason).collect();
    let is_of_options = |reason| matches!(reason, Reason::NodeUnknown | Reason::NodesContradict);
    let of_cluster = selected().filter(|entry| !is_of_policy(entry)).flat_map(|entry| &entry.findings);
    let is_mistyped = of_cluster
        .filter_map(Finding::problem)
        .any(|problem| problem.severity == Severity::Fail && is_of_options(problem.reason));

    // A problem with files and their plugins, not with the cluster, even if it appears only during a query.
    let of_credentials = |entry: &CheckReport| {
        matches!(entry.check.id, CheckId::TalosCredentials | CheckId::K8sCredentials)
            && entry.status == Some(Status::Fail)
    };
    let is_misconfigured =
        end == End::Credentials || reasons.contains(&Reason::PluginFailed) || selected().any(of_credentials);
    if is_misconfigured || (reasons.contains(&Reason::EndpointIsWorker) && !some_endpoint_works(checks)) {
        Exit::Configuration
    } else if is_mistyped {
        Exit::Usage
    } else if any(Status::Fail) {
        Exit::Unhealthy
    } else if reasons.iter().any(|reason| is_refusal(*reason)) {
        Exit::Refused
    } else if any(Status::Error) || any(Status::Blocked) {
        Exit::Undetermined
    } else if end != End::Healthy || !judged {
        // Nothing is known to be wrong, but the cluster was never healthy for as long as required.
        if selected().next().is_none() { Exit::NothingChecked } else { Exit::Deadline }
    } else if asked_for().all(|entry| entry.status == Some(Status::Skip)) {
        // Prerequisites that pass do not make up for the requested checks.
        Exit::NothingChecked
    } else {
        Exit::Healthy
    }
}

/// Whether a run with these checks can have ended as this report states.
pub(crate) fn can_end_so(report: &Report) -> bool {
    let others = [End::Healthy, End::OnePass, End::Credentials, End::Final];
    let ends = if report.deadline_reached { &[End::Deadline][..] } else { &others };
    let can_be = |wanted: Exit| ends.iter().any(|end| exit(&Ending::Engine(*end), &report.checks) == wanted);
    let is_possible = match (report.complete, report.exit) {
        (false, exit) => !matches!(exit, Exit::Healthy) && result(exit) != RunResult::Healthy,
        // A file that belongs to no check could not be used.
        (true, Exit::Configuration) if report.error.is_some() => true,
        (true, Exit::ReportNotWritten) => report.error.is_some() && can_be(Exit::Healthy),
        (true, Exit::Healthy) => report.error.is_none() && can_be(Exit::Healthy),
        (true, exit) => can_be(exit),
    };
    is_possible && report.result == result(report.exit)
}

/// Returns the exit code that a stored report supports for later readers. A run that ended in any other way proves nothing about the
/// cluster.
pub(crate) fn gate(report: &Report) -> Exit {
    match report.exit {
        _ if !report.complete => Exit::Undetermined,
        Exit::Healthy | Exit::Unhealthy | Exit::Refused | Exit::Configuration | Exit::Deadline => report.exit,
        Exit::Undetermined
        | Exit::Usage
        | Exit::NothingChecked
        | Exit::Internal
        | Exit::ReportNotWritten
        | Exit::Hangup
        | Exit::Interrupted
        | Exit::Terminated => Exit::Undetermined,
    }
}

/// Whether some endpoint forwards. If so, a worker among the endpoints is a mistake in the configuration that hides nothing.
fn some_endpoint_works(checks: &[CheckReport]) -> bool {
    let works = |outcome: &Outcome| match outcome {
        Outcome::Pass(_) => true,
        Outcome::Problem(problem) => problem.reason == Reason::EndpointIsVip,
        _ => false,
    };
    let of_endpoints = checks.iter().filter(|entry| entry.check.id == CheckId::TalosEndpoints);
    of_endpoints.flat_map(|entry| &entry.findings).any(|finding| works(&finding.outcome))
}

fn is_refusal(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::ClientCertificateRefused
            | Reason::SignatureRefused
            | Reason::Unauthorized
            | Reason::Forbidden
            | Reason::ForbiddenOrStarting
            | Reason::EtcdAccessDenied
            | Reason::RoleTooLow
            | Reason::RoleTooLowForThisVersion
    )
}

pub(crate) fn result(exit: Exit) -> RunResult {
    match exit {
        Exit::Healthy | Exit::ReportNotWritten => RunResult::Healthy,
        Exit::Unhealthy => RunResult::Unhealthy,
        Exit::Hangup | Exit::Interrupted | Exit::Terminated => RunResult::Interrupted,
        Exit::Configuration | Exit::Internal | Exit::Usage | Exit::NothingChecked => RunResult::Error,
        Exit::Undetermined | Exit::Refused | Exit::Deadline => RunResult::Undetermined,
    }
}

fn targeted(snapshot: &Snapshot) -> Option<(usize, usize)> {
    // A name that only `--nodes` mentions is no machine of the cluster.
    let known = || snapshot.nodes.iter().filter(|node| node.sources.list_it() || node.talos.contact.is_ok());
    let in_scope = known().filter(|node| !node.out_of_scope).count();
    (in_scope < known().count()).then_some((in_scope, known().count()))
}

/// Returns why selected checks have no result, and what was not observed although other facts vouch for it.
fn not_observed(checks: &[CheckReport]) -> Vec<String> {
    let selected = checks.iter().filter(|entry| entry.selection.runs());
    let of_check = |entry: &CheckReport| -> Vec<String> {
        let skipped = entry.findings.iter().filter(|_| entry.status == Some(Status::Skip));
        let reason = skipped.filter_map(|finding| match &finding.outcome {
            Outcome::Skip(reason) => Some(reason.clone()),
            _ => None,
        });
        let unseen = entry.findings.iter().filter_map(|finding| match &finding.outcome {
            Outcome::Problem(problem) if problem.reason == Reason::ApiUnreachableFromHere => {
                Some(format!("{}: {}", finding.target, problem.observed))
            }
            // Talos has reported the existence of each of these pods.
            Outcome::Skip(why) if finding.target.kind == Kind::Pod => Some(format!("{}: {why}", finding.target)),
            _ => None,
        });
        let all = reason.take(1).chain(unseen).chain(entry.left_out.iter().cloned());
        all.map(|what| format!("{}: {what}", entry.check.id)).collect()
    };
    selected.flat_map(of_check).collect()
}

fn sources(before: &Sources, snapshot: &Snapshot) -> Sources {
    let mut sources = before.clone();
    if let Some(talos) = &snapshot.talos {
        if let Ok(credentials) = &talos.credentials {
            sources.talosconfig = Some(credentials.source.clone());
            sources.context = Some(credentials.context.clone());
            let is_verified = snapshot.nodes.iter().any(|node| node.talos.contact.is_ok());
            let digests = credentials.ca_digests.join("+");
            sources.talos_id = (is_verified && !digests.is_empty()).then(|| format!("ca-sha256:{digests}"));
        }
        sources.endpoints = talos.endpoints.iter().map(|endpoint| endpoint.address.clone()).collect();
    }
    if let Some(kubernetes) = &snapshot.kubernetes {
        if let Ok(credentials) = &kubernetes.credentials {
            sources.kubeconfig = Some(credentials.source.clone());
            sources.kube_context = Some(credentials.context.clone());
            sources.server = Some(credentials.server.clone());
        }
        sources.passed_over.clone_from(&kubernetes.passed_over);
        if let Ok(uid) = &kubernetes.cluster_uid {
            sources.kube_system_uid = Some(uid.clone());
        }
    }
    let named = |is: fn(&crate::snapshot::Sources) -> bool| snapshot.nodes.iter().any(|node| is(&node.sources));
    sources.named_by = [
        ("discovery", named(|s| s.discovery)),
        ("kubernetes", named(|s| s.kubernetes)),
        ("etcd", named(|s| s.etcd)),
        ("flags", named(|s| s.flags)),
        ("talosconfig", named(|s| s.talosconfig)),
    ]
    .into_iter()
    .filter_map(|(name, used)| used.then_some(name))
    .collect();
    let nodes = snapshot.nodes.iter().map(|node| NodeInfo {
        name: node.name.clone(),
        address: node.address.clone(),
        role: node.role,
        leaving: node.leaving,
    });
    sources.nodes = nodes.collect();
    let versions: BTreeSet<String> =
        snapshot.nodes.iter().filter_map(|node| Some(node.talos.contact.as_ref().ok()?.version.tag.clone())).collect();
    sources.talos_versions = versions.into_iter().collect();
    reach(&mut sources, snapshot);
    sources
}

/// Sets the options that commands need to reach this cluster as this user, from this round alone: an endpoint may have failed since the
/// last one.
fn reach(sources: &mut Sources, snapshot: &Snapshot) {
    let talos = snapshot.talos.as_ref().filter(|talos| talos.credentials.is_ok());
    let kubernetes = snapshot.kubernetes.as_ref().and_then(|kubernetes| kubernetes.credentials.as_ref().ok());
    let tools = [("talosctl", talos.is_some()), ("kubectl", kubernetes.is_some())];
    sources.unusable = tools.into_iter().filter(|(_, is_usable)| !is_usable).map(|(tool, _)| tool).collect();
    let context = |typed: &[String], name: Option<&String>| match name {
        Some(name) if !name.is_empty() && !typed.iter().any(|word| word == "--context") => {
            vec!["--context".to_owned(), name.clone()]
        }
        _ => Vec::new(),
    };
    sources.talosctl_found = context(&sources.talosctl_options, sources.context.as_ref());
    sources.talosctl_found.extend(endpoints(&sources.typed_endpoints, talos));
    sources.kubectl_found = context(&sources.kubectl_options, kubernetes.map(|credentials| &credentials.context));
    sources.is_kubeconfig_minted = kubernetes.is_some_and(KubernetesCredentials::is_minted);
}

/// Returns `-e`, if it was typed, or if an endpoint of the context would be tried in vain: with the endpoints that answer, or else all that
/// were typed.
fn endpoints(typed: &[String], talos: Option<&Talos>) -> Vec<String> {
    let all = talos.map_or(&[][..], |talos| &talos.endpoints);
    let forwards = |endpoint: &&Endpoint| endpoint.version.is_ok() && !matches!(endpoint.role, Ok(Some(Role::Worker)));
    let working: Vec<_> = all.iter().filter(forwards).map(|it| shorter(&it.address).to_owned()).collect();
    if typed.is_empty() && (working.is_empty() || working.len() == all.len()) {
        return Vec::new();
    }
    let named = if working.is_empty() { typed.to_vec() } else { working };
    vec!["-e".to_owned(), named.join(",")]
}

/// Removes the default port.
fn shorter(address: &str) -> &str {
    address.strip_suffix(":50000").unwrap_or(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{self};
    use crate::model::{Finding, Kind, Problem, Target};
    use crate::report::fixture;

    fn entry(id: &str, selection: Selection, findings: Vec<(&str, Outcome)>) -> CheckReport {
        let findings: Vec<Finding> = findings
            .into_iter()
            .map(|(name, outcome)| Finding::new(Target::new(Kind::Endpoint, name), outcome))
            .collect();
        let status = findings.iter().map(|finding| finding.outcome.status()).max();
        CheckReport { status, findings: findings.into(), ..CheckReport::unjudged(checks::find(id).unwrap(), selection) }
    }

    #[test]
    fn a_pod_that_is_there_and_cannot_be_judged_is_named() {
        let mut pods = entry("k8s.staticpods.running", Selection::Selected, vec![("cp-1", Outcome::Pass(None))]);
        let outcome = Outcome::Skip("may not be read".to_owned());
        pods.findings.push(Finding::new(Target::pod("cache-w-1", Some("w-1")), outcome));
        pods.findings.push(Finding::new(Target::new(Kind::Node, "w-2"), Outcome::Skip(String::new())));
        let told = not_observed(&[pods]);
        assert!(told.len() == 1 && told[0].ends_with(": may not be read") && told[0].contains("cache-w-1"), "{told:?}");
    }

    #[test]
    fn prerequisites_that_pass_do_not_replace_what_was_asked_for() {
        let quorum = entry("etcd.quorum", Selection::Prerequisite, vec![("a", Outcome::Pass(None))]);
        let alarms = entry("etcd.alarms", Selection::Selected, vec![("a", Outcome::Skip("not asked".to_owned()))]);
        let checks = [quorum, alarms];
        assert_eq!(exit(&Ending::Engine(End::Healthy), &checks), Exit::NothingChecked);
    }

    #[test]
    fn a_mistyped_node_is_a_usage_error_whatever_else_fails() {
        let fail = |reason| Outcome::problem(Problem::fail(reason, "", ""));
        let of = |outcome| {
            let reachable = entry("talos.nodes.reachable", Selection::Selected, vec![("a", outcome)]);
            let quorum = entry("etcd.quorum", Selection::Selected, vec![("a", fail(Reason::QuorumLost))]);
            exit(&Ending::Engine(End::Healthy), &[reachable, quorum])
        };
        assert_eq!(of(fail(Reason::NodeUnknown)), Exit::Usage);
        assert_eq!(of(fail(Reason::NodesContradict)), Exit::Usage);
        // The node may be in the list that was not read.
        assert_eq!(of(Outcome::problem(Problem::error(Reason::NodeUnknown, "", ""))), Exit::Unhealthy);
    }

    #[test]
    fn a_worker_as_endpoint_is_configuration_only_where_no_other_forwards() {
        let worker = || Outcome::problem(Problem::fail(Reason::EndpointIsWorker, "a control plane", "a worker"));
        let vip = || Outcome::problem(Problem::warn(Reason::EndpointIsVip, "an own address", "a virtual one"));
        for (others, expected) in [
            (vec![], Exit::Configuration),
            (vec![("b", Outcome::Pass(None))], Exit::Unhealthy),
            (vec![("b", vip())], Exit::Unhealthy),
        ] {
            let findings = [vec![("a", worker())], others].concat();
            let checks = [entry("talos.endpoints", Selection::Selected, findings)];
            assert_eq!(exit(&Ending::Engine(End::OnePass), &checks), expected);
        }
    }

    #[test]
    fn files_alone_are_no_round() {
        let mut entry = CheckReport::unjudged(checks::find("etcd.quorum").unwrap(), Selection::Selected);
        let snapshot = Snapshot::empty();
        let verdict = Verdict::whole(Outcome::Blocked(CheckId::TalosCredentials));
        let (verdicts, diagnoses) = (Vec::new(), Vec::new());
        let mut round = Round {
            number: 0,
            at: Duration::ZERO,
            took: Duration::ZERO,
            snapshot,
            verdicts,
            diagnoses: diagnoses.into(),
            in_doubt: false,
        };
        enter(&mut entry, &verdict, &round);
        assert_eq!((entry.rounds, entry.bad_rounds), (0, 0));
        round.number = 1;
        enter(&mut entry, &verdict, &round);
        assert_eq!((entry.rounds, entry.bad_rounds), (1, 1));
    }

    /// A check changes with every round for a while, and then stops changing.
    #[test]
    fn a_round_without_news_tells_what_was_held_back() {
        let mut ledger = Ledger::new(fixture::healthy());
        let mut record = |number: u32, at: Duration, outcome| {
            let verdicts = vec![(&fixture::REACHABLE, Verdict::whole(outcome))];
            let (snapshot, diagnoses) = (Snapshot::empty(), Vec::new());
            ledger.record(&Event::Round(&Round {
                number,
                at,
                took: Duration::ZERO,
                snapshot,
                verdicts,
                diagnoses: diagnoses.into(),
                in_doubt: false,
            }));
            ledger.report().events()
        };
        let outcome = |n| if n % 2 == 0 { Outcome::Pass(None) } else { Outcome::Blocked(CheckId::TalosCredentials) };
        let told: Vec<_> = (1..=200).map(|n| record(n, Duration::from_secs(n.into()), outcome(n))).collect();
        assert_eq!(told[199], told[198], "it is told no more");
        assert_eq!(record(201, Duration::from_secs(3600), outcome(200)), told[199] + 1);
        assert_eq!(record(202, Duration::from_secs(7200), outcome(200)), told[199] + 1, "and once");
    }

    /// signal > 70 > 78 > 1 > 77 > 69 > 124 > 4 > 0.
    #[test]
    fn the_worst_that_is_known_decides() {
        let with = |outcome| entry("etcd.quorum", Selection::Selected, vec![("a", outcome)]);
        let fail = || with(Outcome::problem(Problem::fail(Reason::QuorumLost, "", "")));
        let refused = || with(Outcome::problem(Problem::error(Reason::RoleTooLow, "", "")));
        let error = || with(Outcome::problem(Problem::error(Reason::NoAnswer, "", "")));
        let pass = || with(Outcome::Pass(None));
        let skip = || with(Outcome::Skip(String::new()));
        let of = |end, checks: &[CheckReport]| exit(&Ending::Engine(end), checks);
        assert_eq!(exit(&Ending::Signal(Exit::Terminated), &[fail()]), Exit::Terminated);
        assert_eq!(exit(&Ending::Internal(String::new()), &[fail()]), Exit::Internal);
        assert_eq!(of(End::Credentials, &[fail()]), Exit::Configuration);
        assert_eq!(of(End::Deadline, &[refused(), error(), fail()]), Exit::Unhealthy);
        assert_eq!(of(End::Final, &[error(), refused(), pass()]), Exit::Refused);
        assert_eq!(of(End::Deadline, &[error(), pass()]), Exit::Undetermined);
        assert_eq!(of(End::OnePass, &[with(Outcome::Blocked(CheckId::EtcdService))]), Exit::Undetermined);
        assert_eq!(of(End::Deadline, &[pass()]), Exit::Deadline);
        let check = checks::find("etcd.quorum").unwrap();
        assert_eq!(of(End::Deadline, &[CheckReport::unjudged(check, Selection::Selected)]), Exit::Deadline);
        assert_eq!(of(End::Healthy, &[CheckReport::unjudged(check, Selection::Selected)]), Exit::Deadline);
        assert_eq!(of(End::Healthy, &[skip()]), Exit::NothingChecked);
        assert_eq!(of(End::Healthy, &[pass(), skip()]), Exit::Healthy);
    }

    #[test]
    fn what_a_rule_leaves_out_is_not_observed() {
        let mut one = entry("k8s.pods.starting", Selection::Selected, vec![("w-1", Outcome::Pass(None))]);
        one.left_out = vec!["pods without a node: shop/web-1".to_owned()];
        assert_eq!(not_observed(&[one]), ["k8s.pods.starting: pods without a node: shop/web-1"]);
    }
}
