//! One fixed report for each way in which a run can end.

use std::time::Duration;

use super::history::{self, Happened, History};
use super::{CheckReport, NodeInfo, Origin, Report, RunResult, Selection, Sources, Tool, Weakening};
use crate::checks::{self, Check};
use crate::diagnosis::{Diagnosis, Explained, Seen};
use crate::model::{
    CheckId, Exit, Fact, Finding, Hint, Kind, Outcome, Problem, Reason, Role, Severity, Stage, Status, Target, Verdict,
};

use crate::rollout::{Cluster, Machine, Rollout, State};
use crate::snapshot::{First, Upgrade};

const fn check(id: CheckId, stage: Stage, summary: &'static str) -> Check {
    Check {
        id,
        stage,
        summary,
        explain: "What it measures.\n\nWhy it fails.",
        severity: Severity::Fail,
        finds: Reason::ALL,
        facts: &[Fact::TalosNodes, Fact::KubeNodes, Fact::EndpointReadyz],
        judge: |_| Verdict::default(),
    }
}

pub(crate) static REACHABLE: Check =
    check(CheckId::TalosNodesReachable, Stage::Connectivity, "every node answers on the Talos API");
pub(crate) static READY: Check = check(CheckId::TalosNodesReady, Stage::Readiness, "every node says that it is ready");
pub(crate) static SERVICE: Check = check(CheckId::EtcdService, Stage::Etcd, "etcd runs on every control plane");
pub(crate) static QUORUM: Check = check(CheckId::EtcdQuorum, Stage::Etcd, "etcd has a quorum");
pub(crate) static TOLERANCE: Check = check(CheckId::EtcdTolerance, Stage::Etcd, "etcd can lose a member");
pub(crate) static ENDPOINT: Check = check(CheckId::K8sApiEndpoint, Stage::ApiServer, "the endpoint is ready");
pub(crate) static SCHEDULER: Check =
    check(CheckId::K8sControlplaneScheduler, Stage::ControlPlane, "kube-scheduler is ready");
pub(crate) static NODES: Check = check(CheckId::K8sNodesReady, Stage::Nodes, "every node is Ready");
pub(crate) static PROXY: Check = check(CheckId::K8sKubeProxy, Stage::Nodes, "kube-proxy runs where it should");
pub(crate) static STATIC_PODS: Check = check(CheckId::K8sStaticpodsRunning, Stage::StaticPods, "static pods run");

pub(crate) static CHECKS: [&Check; 10] =
    [&REACHABLE, &READY, &SERVICE, &QUORUM, &TOLERANCE, &ENDPOINT, &SCHEDULER, &NODES, &PROXY, &STATIC_PODS];

pub(crate) fn node(n: usize) -> Target {
    Target::new(Kind::Node, format!("cp-{n}")).with_address(format!("10.0.0.{n}"))
}

fn passes(target: Target, line: String) -> Finding {
    Finding::new(target, Outcome::Pass(Some(line)))
}

/// Returns a finding for each of `nodes` nodes that passes with `predicate`.
pub(crate) fn on_nodes(nodes: usize, predicate: &str) -> Vec<Finding> {
    (1..=nodes).map(|n| passes(node(n), format!("Node {}: {predicate}", node(n)))).collect()
}

fn report(check: &'static Check, findings: Vec<Finding>) -> CheckReport {
    let status = findings.iter().map(|finding| finding.outcome.status()).max();
    let fine = status.is_some_and(Status::is_fine);
    CheckReport {
        check,
        selection: Selection::Selected,
        status,
        findings: findings.into(),
        left_out: Vec::new(),
        rounds: 1,
        bad_rounds: u32::from(!fine),
        since: Some(Duration::from_millis(400)),
        first_passed: fine.then_some(Duration::from_millis(400)),
        flapped: false,
    }
}

/// Returns a plan with a machine in each state.
pub(crate) fn planned() -> Report {
    let machine = |name: &str, role, state, version: Option<&str>, evidence: &str| Machine {
        name: name.to_owned(),
        address: format!("10.0.0.{}", name.len()),
        role,
        is_leader: false,
        version: version.map(str::to_owned),
        kubelet: version.map(|_| "1.35.4".to_owned()),
        state,
        evidence: evidence.to_owned(),
        boot_id: version.map(|_| "0c1d".to_owned()),
        cordoned: version.map(|_| false),
        schematic: None,
        extensions: version.map(|_| Vec::new()),
        installed: None,
        image: None,
    };
    let image = "factory.example/metal-installer/376567988ad3:v1.14.1";
    let machines = vec![
        machine("cp-2", Role::ControlPlane, State::Done, Some("1.14.1"), "runs v1.14.1"),
        Machine {
            installed: Some(image.to_owned()),
            cordoned: Some(true),
            schematic: Some("376567988ad3".to_owned()),
            extensions: Some(vec![("schematic".to_owned(), "376567988ad3".to_owned())]),
            ..machine("cp-33", Role::ControlPlane, State::Installed, Some("1.13.0"), "runs v1.13.0; it was installed")
        },
        Machine {
            is_leader: true,
            ..machine("cp-111", Role::ControlPlane, State::ToDo, Some("1.13.0"), "runs v1.13.0")
        },
        machine("w-1", Role::Worker, State::FellBack, Some("1.13.0"), "runs v1.13.0 after the upgrade and a reboot"),
        machine("w-2222", Role::Unknown, State::Unknown, None, "no answer from the Talos API: no\troute to host"),
    ];
    let (talos, kubernetes) = ("1.14.1".to_owned(), Some("1.36.4".to_owned()));
    let cluster = Cluster {
        talos: Some("bXktY2x1c3Rlcg==".to_owned()),
        kubernetes: Some("6f0a3f5e-3c1d-4a57-9d0e-0b6a6f1f9a10".to_owned()),
        talosconfig: Some("/home/me/.talos/config".to_owned()),
        context: Some("prod".to_owned()),
        endpoints: vec!["10.0.0.1:50000".to_owned(), "10.0.0.2:50000".to_owned()],
        kubeconfig: Some("/home/me/.kube/config".to_owned()),
        kube_context: Some("admin@prod".to_owned()),
        server: None,
    };
    let (first, image, strangers) = (First::ControlPlanes, None, Vec::new());
    let rollout = Rollout { talos, kubernetes, first, image, machines, strangers, etcd: None, cluster };
    Report { rollout: Some(rollout.into()), ..healthy() }
}

pub(crate) fn healthy() -> Report {
    healthy_with(3)
}

pub(crate) fn healthy_with(nodes: usize) -> Report {
    let checks = vec![
        report(&REACHABLE, on_nodes(nodes, "connected")),
        report(&READY, on_nodes(nodes, "ready")),
        report(&SERVICE, on_nodes(3, "etcd member healthy")),
        report(
            &QUORUM,
            vec![passes(Target::cluster(), "etcd cluster has quorum (3 of 3 voters up, tolerates 1)".to_owned())],
        ),
        report(&TOLERANCE, vec![Finding::new(Target::cluster(), Outcome::Pass(None))]),
        report(&ENDPOINT, vec![passes(Target::cluster(), "Kubernetes API server is reachable".to_owned())]),
        report(&SCHEDULER, vec![passes(Target::cluster(), "kube-scheduler: running".to_owned())]),
        report(&NODES, (1..=nodes).map(|n| passes(node(n), format!("Node cp-{n}: Ready"))).collect()),
        report(
            &PROXY,
            vec![Finding::new(
                Target::cluster(),
                Outcome::Skip("kube-proxy is disabled in the machine configuration".to_owned()),
            )],
        ),
        report(
            &STATIC_PODS,
            (1..=3)
                .map(|n| {
                    let pod = Target::pod(format!("kube-apiserver-cp-{n}"), Some(&format!("cp-{n}")));
                    passes(pod, format!("kube-apiserver-cp-{n}: Running"))
                })
                .collect(),
        ),
    ];
    Report {
        tool: Tool::OWN,
        started_at: "2026-11-21T03:00:00Z".parse().unwrap(),
        finished_at: "2026-11-21T03:00:00.4Z".parse().unwrap(),
        took: Duration::from_millis(400),
        wait_timeout: Some(Duration::from_secs(300)),
        stable_for: None,
        rounds: 1,
        complete: true,
        result: RunResult::Healthy,
        exit: Exit::Healthy,
        deadline_reached: false,
        cut_off: false,
        error: None,
        hint: None,
        targeted: None,
        weakened: Vec::new(),
        policy: None,
        not_observed: Vec::new(),
        diagnoses: Vec::new().into(),
        sources: Sources {
            talosconfig: Some("/home/ci/talosconfig".to_owned()),
            context: Some("prod".to_owned()),
            endpoints: vec!["10.0.0.1".to_owned()],
            kubeconfig: Some("/home/ci/kubeconfig".to_owned()),
            server: Some("https://k8s.example:6443".to_owned()),
            talosctl_options: vec!["--context".to_owned(), "prod".to_owned()],
            named_by: vec!["discovery", "kubernetes", "etcd"],
            nodes: (1..=nodes)
                .map(|n| NodeInfo {
                    name: format!("cp-{n}"),
                    address: format!("10.0.0.{n}"),
                    role: if n > 3 { Role::Worker } else { Role::ControlPlane },
                    leaving: false,
                })
                .collect(),
            talos_versions: vec!["v1.11.2".to_owned()],
            passed_over: vec![("~/.kube/config".to_owned(), "another cluster's".to_owned())],
            ..Sources::default()
        },
        logs: Vec::new(),
        checks,
        history: History::default(),
        asked: Upgrade::default(),
        rollout: None,
        last_success: None,
    }
}

fn refused(n: usize) -> Finding {
    problem(
        node(n),
        Problem::fail(Reason::NodeUnreachable, "answers on the Talos API", "unavailable: connection refused")
            .hint(Hint::likely("the machine is down, or port 50000 is filtered between 10.0.0.1 and it"))
            .hint(Hint::run("{talosctl} -n {} version", [&format!("10.0.0.{n}")])),
    )
}

pub(crate) fn problem(target: Target, problem: Problem) -> Finding {
    Finding::new(target, Outcome::problem(problem))
}

/// Returns the report of a run that reached its deadline while cp-3 was down.
pub(crate) fn unhealthy() -> Report {
    let mut report = healthy();
    report.result = RunResult::Unhealthy;
    report.exit = Exit::Unhealthy;
    report.deadline_reached = true;
    report.took = Duration::from_secs(300);
    report.finished_at = "2026-11-21T03:05:00Z".parse().unwrap();
    report.rounds = 60;
    report.weakened = vec![
        Weakening { option: "--skip etcd.alarms".to_owned(), origin: Origin::Flag },
        Weakening { option: "--level full".to_owned(), origin: Origin::Variable("CLUSTER_HEALTH_LEVEL".to_owned()) },
    ];
    report.not_observed = vec!["etcd.alarms: not selected (--skip)".to_owned()];
    let set = |report: &mut Report, check: &Check, findings: Vec<Finding>| {
        let entry = report.checks.iter_mut().find(|entry| entry.check.id == check.id).unwrap();
        entry.status = findings.iter().map(|finding| finding.outcome.status()).max();
        entry.findings = findings.into();
        entry.rounds = 60;
        entry.bad_rounds = 60;
        entry.since = Some(Duration::from_secs(2));
        entry.first_passed = None;
    };
    let two = |predicate: &str, last: Outcome| {
        let mut findings = on_nodes(2, predicate);
        findings.push(Finding::new(node(3), last));
        findings
    };
    let mut findings = on_nodes(2, "connected");
    findings.push(refused(3));
    set(&mut report, &REACHABLE, findings);
    set(&mut report, &READY, two("ready", Outcome::Blocked(CheckId::TalosNodesReachable)));
    set(&mut report, &SERVICE, two("etcd member healthy", Outcome::Blocked(CheckId::TalosNodesReachable)));
    set(
        &mut report,
        &TOLERANCE,
        vec![problem(
            Target::cluster(),
            Problem::warn(Reason::NoTolerance, "may lose at least one voter", "2 of 3 voters up, tolerates 0"),
        )],
    );
    set(
        &mut report,
        &SCHEDULER,
        vec![problem(
            node(3),
            Problem::fail(Reason::ComponentNotReady, "kube-scheduler ready", "Ready=False since 4m58s")
                .hint(Hint::run("{talosctl} -n {} containers --kubernetes", ["10.0.0.3"])),
        )],
    );
    set(
        &mut report,
        &NODES,
        vec![
            passes(node(1), "Node cp-1: Ready".to_owned()),
            passes(node(2), "Node cp-2: Ready".to_owned()),
            problem(
                node(3),
                Problem::fail(Reason::NodeLeaseStale, "lease renewed within 40s", "last renewed 4m59s ago")
                    .hint(Hint::run("{kubectl} describe node {}", ["cp-3"]))
                    .hint(Hint::remedy("{talosctl} -n {} reboot", ["10.0.0.3"])),
            ),
        ],
    );
    set(
        &mut report,
        &STATIC_PODS,
        vec![problem(
            Target::pod("kube-scheduler-cp-3", Some("cp-3")),
            Problem::fail(Reason::StaticPodFailed, "Ready", "Ready=False")
                .explained_by(CheckId::K8sControlplaneScheduler),
        )],
    );
    report
}

/// Returns [`unhealthy`], with the cause of most problems recognized, but not the cause of the scheduler's trouble.
pub(crate) fn diagnosed() -> Report {
    let mut report = unhealthy();
    let explained = |check: &Check, target: Target, reason, observed: &str| Explained {
        check: check.id,
        target,
        reason,
        observed: observed.to_owned(),
    };
    let seen = |observed: &str| Seen { target: node(3), observed: observed.to_owned() };
    report.diagnoses = vec![Diagnosis {
        id: "node-down",
        impact: crate::diagnosis::find("node-down").unwrap().impact.into(),
        headline:
            "control plane node cp-3 (10.0.0.3) does not answer: unavailable: connection refused; its kubelet has stopped \
reporting to Kubernetes"
                .to_owned(),
        seen: vec![seen("unavailable: connection refused"), seen("k8s.nodes.ready: last renewed 4m59s ago")],
        next: vec![
            Hint::run("{talosctl} -n {} version", ["10.0.0.3"]),
            Hint::run("{kubectl} describe node {}", ["cp-3"]),
            Hint::remedy("{talosctl} -n {} reboot", ["10.0.0.3"]),
        ],
        severity: Severity::Fail,
        explains: vec![
            explained(&REACHABLE, node(3), Reason::NodeUnreachable, "unavailable: connection refused"),
            explained(&TOLERANCE, Target::cluster(), Reason::NoTolerance, "2 of 3 voters up, tolerates 0"),
            explained(&NODES, node(3), Reason::NodeLeaseStale, "last renewed 4m59s ago"),
        ],
    }]
    .into();
    report
}

/// Returns [`unhealthy`], with the events of the run: the cluster was nearly healthy once.
pub(crate) fn followed() -> Report {
    let mut report = unhealthy();
    let changed = |check: usize, before, report: &Report| {
        let before = CheckReport { status: before, findings: Vec::new().into(), ..report.checks[check].clone() };
        let now = &report.checks[check];
        history::change(&before, now.shown_status(), &now.findings).unwrap()
    };
    let (first, second) = (changed(0, Some(Status::Pass), &report), changed(1, None, &report));
    report.happened(Duration::from_secs(2), first);
    report.happened(Duration::from_secs(2), second);
    report.happened(Duration::from_secs(2), Happened::StabilityLost(vec![CheckId::TalosNodesReachable]));
    report.heartbeat(Duration::from_secs(32), Duration::from_secs(30));
    report.happened(report.took, Happened::Finished);
    report
}

/// Returns a report of all checks on this number of nodes with long names, each with a text of its own; `bad` of them do not answer.
pub(crate) fn large(nodes: usize, bad: usize) -> Report {
    let name = |n: usize| format!("ip-10-1-{}-{}.eu-central-1.compute.internal", n / 250, n % 250);
    let target = |n: usize| Target::new(Kind::Node, name(n)).with_address(format!("10.1.{}.{}", n / 250, n % 250));
    let mut report = unhealthy();
    report.sources.nodes = (0..nodes)
        .map(|n| NodeInfo {
            name: name(n),
            address: format!("10.1.{}.{}", n / 250, n % 250),
            role: Role::Worker,
            leaving: false,
        })
        .collect();
    let finding = |check: &Check, n: usize| {
        let outcome = match check.id {
            _ if n >= bad => Outcome::Pass(Some(format!("Node {}: fine, {n} MiB used", target(n)))),
            CheckId::TalosNodesReachable | CheckId::K8sNodesReady => Outcome::problem(
                Problem::fail(Reason::NodeUnreachable, "answers", format!("no answer in {n} ms"))
                    .hint(Hint::likely("the machine is down"))
                    .hint(Hint::run("{talosctl} -n {} version", [&name(n)])),
            ),
            _ => Outcome::Blocked(CheckId::TalosNodesReachable),
        };
        Finding::new(target(n), outcome)
    };
    report.checks = checks::ALL
        .iter()
        .map(|check| {
            let findings: Vec<_> = (0..nodes).map(|n| finding(check, n)).collect();
            let status = findings.iter().map(|finding| finding.outcome.status()).max();
            CheckReport {
                status,
                findings: findings.into(),
                rounds: 60,
                bad_rounds: 60,
                ..CheckReport::unjudged(check, Selection::Selected)
            }
        })
        .collect();
    report
}

/// Returns the report of a run that SIGINT ended before every check was judged.
pub(crate) fn interrupted() -> Report {
    let mut report = unhealthy();
    report.result = RunResult::Interrupted;
    report.exit = Exit::Interrupted;
    report.complete = false;
    report.deadline_reached = false;
    report.took = Duration::from_secs(12);
    report.rounds = 3;
    for entry in &mut report.checks[7..] {
        entry.status = None;
        entry.findings.clear();
        entry.rounds = 0;
        entry.bad_rounds = 0;
        entry.since = None;
        entry.first_passed = None;
    }
    report
}

/// Returns the report of a run that could not read the talosconfig.
pub(crate) fn configuration() -> Report {
    let mut report = nothing_judged();
    report.result = RunResult::Error;
    report.exit = Exit::Configuration;
    report.complete = true;
    report.error = Some("could not read `/home/ci/talosconfig`: no such file".to_owned());
    report.hint = Some("name another one with `--talosconfig`".to_owned());
    report
}

/// Returns the report of a run without a complete round before the deadline; a checkpoint at the start looks like it, too.
pub(crate) fn nothing_judged() -> Report {
    let mut report = healthy();
    report.result = RunResult::Undetermined;
    report.exit = Exit::Deadline;
    report.complete = false;
    report.deadline_reached = true;
    report.took = Duration::from_secs(300);
    report.rounds = 0;
    for entry in &mut report.checks {
        entry.status = None;
        entry.findings.clear();
        entry.rounds = 0;
        entry.since = None;
        entry.first_passed = None;
    }
    report
}

/// Returns the reports for the ways in which a run can end, with their names.
pub(crate) fn all() -> [(&'static str, Report); 7] {
    [
        ("healthy", healthy()),
        ("healthy, 42 nodes", healthy_with(42)),
        ("unhealthy", unhealthy()),
        ("diagnosed", diagnosed()),
        ("interrupted", interrupted()),
        ("configuration", configuration()),
        ("nothing judged", nothing_judged()),
    ]
}
