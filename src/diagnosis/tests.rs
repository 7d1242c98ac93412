//! Each cause in its own trouble, not without the facts that it rests on, and never in health.

mod proposals;
mod rules;
mod scale;
mod whom;

use std::collections::BTreeSet;
use std::time::Duration;

use super::symptoms::same_subject;
use super::*;
use crate::checks::fixture::{CONTROL_PLANES, ago, condition, gap, healthy};
use crate::checks::{self, Kind, Severity};
use crate::event::{Event, Round};
use crate::ledger::{self, Ledger};
use crate::report::text::TextStyle;
use crate::report::{self, RunResult, Selection};
use crate::snapshot::{
    AlarmKind, ContainerState, Diagnostic, EtcdAlarm, EtcdEndpoint, EtcdMember, Gap, GapKind, Readyz, Role, TalosNode,
    UnmetCondition,
};

type Break = fn(&mut Snapshot);

/// A trouble, the cause that is to be recognised, and facts each of which it cannot do without.
struct Case {
    cause: &'static str,
    trouble: Break,
    needs: &'static [Break],
}

fn verdicts(snapshot: &Snapshot) -> Vec<(&'static Check, Verdict)> {
    checks::ALL.iter().map(|check| (*check, (check.judge)(snapshot))).collect()
}

fn diagnosed(snapshot: &Snapshot) -> Vec<Diagnosis> {
    diagnose(snapshot, &verdicts(snapshot))
}

fn ids(snapshot: &Snapshot) -> Vec<&'static str> {
    diagnosed(snapshot).iter().map(|diagnosis| diagnosis.id).collect()
}

fn broken(trouble: Break) -> Snapshot {
    let mut snapshot = healthy();
    trouble(&mut snapshot);
    snapshot
}

fn talos_certificate(snapshot: &mut Snapshot) -> &mut crate::snapshot::Certificate {
    snapshot.talos_mut().credentials.as_mut().unwrap().certificate.as_mut().unwrap()
}

fn endpoints(snapshot: &mut Snapshot, kind: GapKind) {
    for endpoint in &mut snapshot.talos_mut().endpoints {
        endpoint.version = gap(kind);
        endpoint.role = Err(Gap::not_asked());
        endpoint.nodename = Err(Gap::not_asked());
    }
    for node in &mut snapshot.nodes {
        node.talos = TalosNode::unasked(&Gap::not_asked());
    }
}

fn unreached(snapshot: &mut Snapshot, kind: GapKind) {
    snapshot.node_mut("w-1").talos = TalosNode::unasked(&Gap::new(kind, "rpc error"));
}

/// Kubernetes has not heard from w-1 either.
fn silent(snapshot: &mut Snapshot) {
    let ready = condition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.");
    snapshot.kube_node_mut("w-1").conditions = vec![ready];
}

fn stage(snapshot: &mut Snapshot, node: &str, stage: &str) {
    let status = snapshot.machine_status_mut(node);
    stage.clone_into(&mut status.stage);
    status.ready = false;
}

fn service(snapshot: &mut Snapshot, node: &str, id: &str, state: &str) {
    let service = snapshot.service_mut(node, id);
    state.clone_into(&mut service.state);
    service.healthy = Some(false);
    service.running_since = None;
}

fn never_bootstrapped(snapshot: &mut Snapshot) {
    for name in CONTROL_PLANES {
        service(snapshot, name, "etcd", "Preparing");
        let talos = snapshot.talos_of(name);
        talos.etcd_data_absent = Ok(true);
        talos.etcd_status = gap(GapKind::ServerError);
        talos.etcd_members = gap(GapKind::ServerError);
        talos.etcd_alarms = gap(GapKind::ServerError);
        *snapshot.kube().servers.get_mut(name).unwrap() = gap(GapKind::ConnectionRefused);
    }
    snapshot.kube().endpoint = gap(GapKind::ConnectionRefused);
    lists(snapshot, GapKind::ConnectionRefused);
}

fn lists(snapshot: &mut Snapshot, kind: GapKind) {
    let kube = snapshot.kube();
    kube.nodes = gap(kind);
    kube.node_leases = gap(kind);
    kube.system_leases = gap(kind);
    kube.pods = gap(kind);
    kube.daemon_sets = gap(kind);
    kube.deployments = gap(kind);
    kube.dns_endpoints = gap(kind);
    kube.api_endpoints = gap(kind);
}

fn quorum_lost(snapshot: &mut Snapshot) {
    for name in ["cp-2", "cp-3"] {
        service(snapshot, name, "etcd", "Failed");
        let talos = snapshot.talos_of(name);
        talos.etcd_status = gap(GapKind::ServerError);
        talos.etcd_members = gap(GapKind::ServerError);
        talos.etcd_alarms = gap(GapKind::ServerError);
    }
    let status = snapshot.etcd_status_mut("cp-1");
    status.leader = 0;
    status.errors = vec!["etcdserver: no leader".to_owned()];
    snapshot.talos_of("cp-1").etcd_members = gap(GapKind::TimedOut);
    snapshot.talos_of("cp-1").etcd_alarms = gap(GapKind::TimedOut);
}

fn raise(snapshot: &mut Snapshot, kind: &AlarmKind) {
    for name in CONTROL_PLANES {
        let member_id = snapshot.etcd_status_mut("cp-1").member_id;
        snapshot.talos_of(name).etcd_alarms = Ok(vec![EtcdAlarm { member_id, kind: kind.clone() }]);
    }
}

fn no_alarms(snapshot: &mut Snapshot) {
    for name in CONTROL_PLANES {
        snapshot.talos_of(name).etcd_alarms = gap(GapKind::TimedOut);
    }
}

fn no_lists(snapshot: &mut Snapshot) {
    for name in CONTROL_PLANES {
        snapshot.talos_of(name).etcd_members = gap(GapKind::TimedOut);
    }
}

fn no_statuses(snapshot: &mut Snapshot) {
    for name in CONTROL_PLANES {
        snapshot.talos_of(name).etcd_status = gap(GapKind::TimedOut);
    }
}

fn members(snapshot: &Snapshot) -> Vec<EtcdMember> {
    snapshot.node("cp-1").unwrap().talos.etcd_members.clone().unwrap()
}

fn stale_member(snapshot: &mut Snapshot) {
    let mut members = members(snapshot);
    members.push(EtcdMember {
        id: 0xdead,
        name: "cp-old".to_owned(),
        peer_urls: vec!["https://10.0.0.99:2380".to_owned()],
        client_urls: vec!["https://10.0.0.99:2379".to_owned()],
        is_learner: false,
    });
    snapshot.set_members(&members);
}

fn crashes(snapshot: &mut Snapshot) {
    let statuses = snapshot.talos_of("cp-2").static_pod_statuses.as_mut().unwrap();
    let status = statuses.iter_mut().find(|status| status.name == "kube-scheduler-cp-2").unwrap();
    status.state.ready = Some(false);
    status.state.containers = vec![ContainerState {
        name: "kube-scheduler".to_owned(),
        restarts: 7,
        waiting_reason: Some("CrashLoopBackOff".to_owned()),
        exit_code: Some(1),
        ..ContainerState::default()
    }];
}

fn no_network(snapshot: &mut Snapshot) {
    for name in checks::fixture::NODES {
        let message = "container runtime network not ready: cni plugin not initialized";
        snapshot.kube_node_mut(name).conditions = vec![condition("Ready", "False", "KubeletNotReady", message)];
    }
}

fn half_upgraded(snapshot: &mut Snapshot) {
    "v1.12.4".clone_into(&mut snapshot.talos_of("w-1").contact.as_mut().unwrap().version.tag);
    let node = snapshot.kube_node_mut("w-1");
    node.unschedulable = true;
    node.cordoned_by_talos = true;
}

/// The members by etcd's own API, Talos aside.
fn external_etcd(snapshot: &mut Snapshot) {
    let endpoint = |n: usize| EtcdEndpoint {
        address: format!("https://{}:2379", checks::fixture::address(n)),
        status: Ok(checks::fixture::etcd_status(n)),
        members: Ok((0..3).map(checks::fixture::member).collect()),
        alarms: Ok(Vec::new()),
    };
    snapshot.external_etcd = Some((0..3).map(endpoint).collect());
}

const NO_NODES: Break = |snapshot| snapshot.kube().nodes = gap(GapKind::ServerError);

const CASES: &[Case] = &[
    Case {
        cause: "credentials-expired",
        trouble: |snapshot| talos_certificate(snapshot).not_after = ago(3600),
        needs: &[|snapshot| snapshot.talos_mut().credentials = gap(GapKind::Malformed)],
    },
    Case {
        cause: "talosconfig-of-another-cluster",
        trouble: |snapshot| endpoints(snapshot, GapKind::UnknownCa),
        needs: &[|snapshot| snapshot.talos_mut().endpoints[1].version = gap(GapKind::ConnectTimedOut)],
    },
    Case {
        cause: "kubeconfig-of-another-cluster",
        trouble: |snapshot| {
            for (n, node) in snapshot.kube().nodes.as_mut().unwrap().iter_mut().enumerate() {
                node.name = format!("other-{n}");
                node.addresses = vec![format!("10.9.0.{n}")];
            }
        },
        needs: &[NO_NODES],
    },
    Case {
        cause: "worker-as-endpoint",
        trouble: |snapshot| snapshot.talos_mut().endpoints[0].role = Ok(Some(Role::Worker)),
        needs: &[|snapshot| snapshot.talos_mut().endpoints[0].role = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "talos-role-insufficient",
        trouble: |snapshot| snapshot.talos_of("cp-1").etcd_alarms = gap(GapKind::Forbidden),
        needs: &[|snapshot| snapshot.talos_of("cp-1").etcd_alarms = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "etcd-rights-missing",
        trouble: |snapshot| {
            external_etcd(snapshot);
            for endpoint in snapshot.external_etcd.as_mut().unwrap() {
                endpoint.alarms = gap(GapKind::Forbidden);
            }
        },
        needs: &[|snapshot| {
            for endpoint in snapshot.external_etcd.as_mut().unwrap() {
                endpoint.alarms = gap(GapKind::ServerError);
            }
        }],
    },
    Case {
        cause: "kubernetes-rights-missing",
        trouble: |snapshot| {
            snapshot.kube().daemon_sets = gap(GapKind::Forbidden);
            snapshot.memory = snapshot.memory.after(snapshot, Duration::ZERO);
            snapshot.memory.elapsed = Duration::from_secs(100);
        },
        needs: &[|snapshot| snapshot.kube().daemon_sets = gap(GapKind::ServerError)],
    },
    Case {
        cause: "certificate-renewal-broken",
        trouble: |snapshot| snapshot.talos_mut().endpoints[2].version = gap(GapKind::PeerCertificateExpired),
        needs: &[
            |snapshot| snapshot.talos_mut().endpoints[2].version = gap(GapKind::TimedOut),
            |snapshot| endpoints(snapshot, GapKind::PeerCertificateExpired),
        ],
    },
    Case {
        cause: "certificate-renewal-broken",
        trouble: |snapshot| {
            let why = "tls: failed to verify certificate: x509: certificate has expired or is not yet valid";
            snapshot.node_mut("w-1").talos = TalosNode::unasked(&Gap::new(GapKind::NodeUnreachable, why));
        },
        needs: &[|snapshot| unreached(snapshot, GapKind::NodeUnreachable)],
    },
    Case {
        cause: "clock-not-synchronised",
        trouble: |snapshot| {
            snapshot.talos_of("cp-2").time_status.as_mut().unwrap().as_mut().unwrap().synced = false;
        },
        needs: &[|snapshot| snapshot.talos_of("cp-2").time_status = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "kubelet-certificate-unapproved",
        trouble: |snapshot| {
            let request = &mut snapshot.kube().signing_requests.as_mut().unwrap()[0];
            request.pending = true;
            "system:node:cp-2".clone_into(&mut request.user);
            snapshot.talos_of("cp-2").static_pod_statuses = Ok(Vec::new());
        },
        needs: &[
            |snapshot| snapshot.kube().signing_requests = gap(GapKind::Forbidden),
            |snapshot| "system:node:cp-3".clone_into(&mut snapshot.kube().signing_requests.as_mut().unwrap()[0].user),
        ],
    },
    Case {
        cause: "machine-unconfigured",
        trouble: |snapshot| unreached(snapshot, GapKind::Maintenance),
        needs: &[|snapshot| unreached(snapshot, GapKind::NodeUnreachable)],
    },
    Case {
        cause: "node-removed-but-listed",
        trouble: |snapshot| {
            unreached(snapshot, GapKind::NodeUnreachable);
            snapshot.node_mut("w-1").sources.discovery = false;
            silent(snapshot);
        },
        needs: &[|snapshot| snapshot.talos_mut().discovery = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "autoscaler-removes-nodes",
        trouble: |snapshot| {
            snapshot.asked.expect_workers = Some(1);
            snapshot.node_mut("w-1").leaving = true;
        },
        needs: &[|snapshot| snapshot.asked.expect_workers = None, |snapshot| snapshot.asked.expect_workers = Some(2)],
    },
    Case {
        cause: "node-down",
        trouble: |snapshot| {
            unreached(snapshot, GapKind::NodeUnreachable);
            silent(snapshot);
        },
        needs: &[|snapshot| snapshot.node_mut("w-1").talos.contact = Err(Gap::not_asked())],
    },
    Case {
        cause: "node-hangs",
        trouble: |snapshot| {
            snapshot.power_off("cp-3");
            snapshot.node_mut("cp-3").talos = TalosNode::unasked(&Gap::new(GapKind::TimedOut, "no answer in 5 s"));
            snapshot.talos_mut().endpoints[2].version = gap(GapKind::TimedOut);
        },
        needs: &[|snapshot| snapshot.talos_mut().endpoints[2].version = gap(GapKind::ConnectTimedOut)],
    },
    Case {
        cause: "talos-api-cut-off",
        trouble: |snapshot| {
            unreached(snapshot, GapKind::NodeUnreachable);
            snapshot.memory.rounds = 1;
            snapshot.kube().node_leases.as_mut().unwrap().by_name.get_mut("w-1").unwrap().moved_within =
                Some(Duration::from_secs(12));
        },
        needs: &[
            |snapshot| snapshot.kube().node_leases = gap(GapKind::TimedOut),
            |snapshot| snapshot.memory.rounds = 0,
            |snapshot| snapshot.memory.answered.extend(["w-1".to_owned()]),
            NO_NODES,
            |snapshot| snapshot.node_mut("w-1").talos.contact = Err(Gap::not_asked()),
        ],
    },
    Case {
        cause: "cluster-not-bootstrapped",
        trouble: never_bootstrapped,
        needs: &[
            |snapshot| snapshot.talos_of("cp-2").etcd_data_absent = gap(GapKind::TimedOut),
            |snapshot| snapshot.talos_of("cp-2").services = gap(GapKind::TimedOut),
        ],
    },
    Case {
        cause: "bootstrapped-twice",
        trouble: |snapshot| {
            let mut other = members(snapshot);
            other.retain(|member| member.name == "cp-3");
            let mut rest = members(snapshot);
            rest.retain(|member| member.name != "cp-3");
            snapshot.set_members(&rest);
            snapshot.talos_of("cp-3").etcd_members = Ok(other);
        },
        needs: &[no_lists],
    },
    Case {
        cause: "boot-held-up",
        trouble: |snapshot| {
            stage(snapshot, "w-1", "booting");
            service(snapshot, "w-1", "cri", "Waiting");
        },
        needs: &[
            |snapshot| snapshot.talos_of("w-1").services = gap(GapKind::TimedOut),
            |snapshot| snapshot.talos_of("w-1").machine_status = gap(GapKind::TimedOut),
        ],
    },
    Case { cause: "etcd-out-of-space", trouble: |snapshot| raise(snapshot, &AlarmKind::NoSpace), needs: &[no_alarms] },
    Case { cause: "etcd-data-corrupt", trouble: |snapshot| raise(snapshot, &AlarmKind::Corrupt), needs: &[no_alarms] },
    Case { cause: "etcd-quorum-lost", trouble: quorum_lost, needs: &[no_statuses] },
    Case {
        cause: "etcd-member-stuck-joining",
        trouble: |snapshot| {
            snapshot.etcd_status_mut("cp-3").is_learner = true;
            let mut members = members(snapshot);
            members[2].is_learner = true;
            snapshot.set_members(&members);
        },
        needs: &[|snapshot| {
            no_lists(snapshot);
            no_statuses(snapshot);
        }],
    },
    Case { cause: "etcd-member-without-machine", trouble: stale_member, needs: &[no_lists] },
    Case {
        cause: "etcd-member-removed",
        trouble: |snapshot| {
            let mut left = members(snapshot);
            left.retain(|member| member.name != "cp-3");
            snapshot.set_members(&left);
            service(snapshot, "cp-3", "etcd", "Preparing");
            snapshot.talos_of("cp-3").etcd_members = gap(GapKind::ConnectionRefused);
            snapshot.talos_of("cp-3").etcd_status = gap(GapKind::ConnectionRefused);
        },
        needs: &[no_lists, no_statuses, |snapshot| snapshot.talos_of("cp-3").services = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "etcd-member-down",
        trouble: |snapshot| service(snapshot, "cp-3", "etcd", "Waiting"),
        needs: &[no_lists, no_statuses, |snapshot| snapshot.talos_of("cp-3").services = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "kubelet-not-running",
        trouble: |snapshot| service(snapshot, "w-1", "kubelet", "Waiting"),
        needs: &[|snapshot| snapshot.talos_of("w-1").services = gap(GapKind::TimedOut)],
    },
    Case {
        cause: "component-crash-looping",
        trouble: crashes,
        needs: &[|snapshot| {
            snapshot.talos_of("cp-2").static_pod_statuses = gap(GapKind::TimedOut);
        }],
    },
    Case {
        cause: "load-balancer-down",
        trouble: |snapshot| snapshot.kube().endpoint = gap(GapKind::ConnectTimedOut),
        needs: &[|snapshot| *snapshot.kube().servers.get_mut("cp-2").unwrap() = gap(GapKind::ConnectTimedOut)],
    },
    Case {
        cause: "api-server-down",
        trouble: |snapshot| *snapshot.kube().servers.get_mut("cp-2").unwrap() = gap(GapKind::TimedOut),
        needs: &[|snapshot| *snapshot.kube().servers.get_mut("cp-2").unwrap() = Err(Gap::not_asked())],
    },
    Case { cause: "network-plugin-missing", trouble: no_network, needs: &[NO_NODES] },
    Case {
        cause: "dns-switched-off",
        trouble: |snapshot| {
            snapshot.kube().dns_endpoints = Ok(Vec::new());
            let dns = &mut snapshot.kube().deployments.as_mut().unwrap()[0];
            (dns.replicas, dns.available) = (0, 0);
        },
        needs: &[
            |snapshot| snapshot.kube().deployments = gap(GapKind::TimedOut),
            |snapshot| snapshot.kube().dns_endpoints = gap(GapKind::TimedOut),
        ],
    },
    Case {
        cause: "upgrade-half-done",
        trouble: half_upgraded,
        needs: &[
            NO_NODES,
            |snapshot| snapshot.talos_of("w-1").contact = gap(GapKind::TimedOut),
            |snapshot| snapshot.talos_of("w-1").machine_status = gap(GapKind::TimedOut),
        ],
    },
];

#[test]
fn each_cause_is_recognised_in_its_own_trouble() {
    for case in CASES {
        let snapshot = broken(case.trouble);
        let made = ids(&snapshot);
        assert!(made.contains(&case.cause), "{}: {made:?}\n{:#?}", case.cause, problems(&snapshot));
    }
    let tried: BTreeSet<_> = CASES.iter().map(|case| case.cause).collect();
    assert_eq!(tried, ALL.iter().map(|cause| cause.id).collect(), "each cause has a case");
}

fn problems(snapshot: &Snapshot) -> Vec<String> {
    let verdicts = verdicts(snapshot);
    let all = verdicts.iter().flat_map(|(check, verdict)| verdict.problems().map(move |it| (check.id, it)));
    all.map(|(id, (target, problem))| {
        let by = problem.explained_by.map(|by| format!(" by {by}")).unwrap_or_default();
        format!("{id} {target} {}: {}{by}", problem.reason.code(), problem.observed)
    })
    .collect()
}

/// Absence is no evidence: without a fact that it rests on, nobody guesses.
#[test]
fn no_cause_is_recognised_without_the_facts_it_rests_on() {
    for case in CASES {
        for (n, take) in case.needs.iter().enumerate() {
            let mut snapshot = broken(case.trouble);
            take(&mut snapshot);
            assert!(!ids(&snapshot).contains(&case.cause), "{} without fact {n}", case.cause);
        }
    }
}

#[test]
fn nothing_is_diagnosed_in_health() {
    assert_eq!(ids(&healthy()), [""; 0]);
    assert_eq!(ids(&healthy().without_talos()), [""; 0]);
    assert_eq!(ids(&healthy().without_kubernetes()), [""; 0]);
    assert_eq!(ids(&healthy().only(&["cp-1"])), [""; 0]);
    assert_eq!(ids(&Snapshot::empty()), [""; 0]);
}

/// One diagnosis for each trouble, and each problem is explained once.
#[test]
fn a_trouble_has_one_cause_and_a_problem_one_diagnosis() {
    for case in CASES {
        let snapshot = broken(case.trouble);
        let made = diagnosed(&snapshot);
        assert_eq!(made.len(), 1, "{}: {made:#?}", case.cause);
        let mut seen = Vec::new();
        for explained in made.iter().flat_map(|diagnosis| &diagnosis.explains) {
            assert!(!seen.contains(&explained), "{}: {explained:?} twice", case.cause);
            seen.push(explained);
        }
        for diagnosis in &made {
            assert!(!diagnosis.seen.is_empty() && !diagnosis.explains.is_empty(), "{diagnosis:#?}");
            let remedies = diagnosis.next.iter().map(|hint| matches!(hint, Hint::Remedy { .. }));
            assert!(remedies.is_sorted(), "{}: looking comes first", case.cause);
            assert!(!diagnosis.headline.ends_with('.') && !diagnosis.headline.contains("  "), "{}", diagnosis.headline);
        }
    }
}

/// A failure that no diagnosis explains is one that somebody has to explain to oneself.
#[test]
fn a_machine_that_is_down_explains_all_that_follows() {
    let mut snapshot = healthy();
    snapshot.power_off("cp-3");
    let made = diagnosed(&snapshot);
    assert_eq!(made.len(), 1, "{made:#?}");
    let left: Vec<String> = verdicts(&snapshot)
        .iter()
        .flat_map(|(check, verdict)| verdict.problems().map(move |it| (check.id, it)))
        .filter(|(_, (_, problem))| problem.severity == Severity::Fail)
        .filter(|(id, (target, problem))| !made[0].is_about(id, target, problem.reason, &problem.observed))
        .map(|(id, (target, problem))| format!("{id} {target}: {}", problem.observed))
        .collect();
    assert_eq!(left, [""; 0]);
    assert!(made[0].headline.starts_with("control plane 10.0.0.3 (cp-3) does not answer"), "{}", made[0].headline);
}

/// Kubernetes calls a machine Ready for most of a minute after it has died.
#[test]
fn ready_is_no_sign_of_life() {
    assert_eq!(ids(&broken(|snapshot| unreached(snapshot, GapKind::NodeUnreachable))), ["node-down"]);
    let serving = broken(|snapshot| {
        snapshot.node_mut("cp-3").talos = TalosNode::unasked(&Gap::new(GapKind::NodeUnreachable, "rpc error"));
    });
    assert_eq!(ids(&serving), ["talos-api-cut-off"], "its API server has just answered");
}

#[test]
fn causes_come_before_symptoms_and_symptoms_have_no_diagnosis_of_their_own() {
    let mut snapshot = healthy();
    for name in ["cp-2", "cp-3"] {
        snapshot.power_off(name);
    }
    let status = snapshot.etcd_status_mut("cp-1");
    status.leader = 0;
    status.errors = vec!["etcdserver: no leader".to_owned()];
    snapshot.talos_of("cp-1").etcd_members = gap(GapKind::TimedOut);
    snapshot.talos_of("cp-1").etcd_alarms = gap(GapKind::TimedOut);
    let failed = vec!["etcd".to_owned()];
    let readyz = Readyz { server: String::new(), status: 500, failed, text: String::new(), certificate: None };
    snapshot.kube().servers.insert("cp-1".to_owned(), Ok(readyz.clone()));
    snapshot.kube().endpoint = Ok(readyz);
    lists(&mut snapshot, GapKind::ServerError);
    assert_eq!(ids(&snapshot), ["node-down", "node-down", "etcd-quorum-lost"]);
}

/// Whatever is diagnosed: below the verdict, every problem is there, in full or in a line.
#[test]
fn no_report_loses_a_problem() {
    for case in CASES {
        let snapshot = broken(case.trouble);
        let verdicts = verdicts(&snapshot);
        let diagnoses = diagnose(&snapshot, &verdicts);
        let round = Round { number: 1, at: Duration::ZERO, took: Duration::ZERO, snapshot, verdicts, diagnoses };
        let mut report = report::fixture::healthy();
        report.result = RunResult::Unhealthy;
        report.checks = checks::ALL.iter().map(|check| ledger::unjudged(check, Selection::Selected)).collect();
        let mut ledger = Ledger::new(report, false);
        ledger.record(&Event::Round(&round));
        let mut text = Vec::new();
        report::text::write(ledger.report(), &TextStyle::default(), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let end = text.split_once("\nunhealthy").unwrap().1;
        assert!(end.contains("\ndiagnosis: "), "{text}");
        for (check, verdict) in &round.verdicts {
            for (target, problem) in verdict.problems() {
                let shown = end.contains(&report::sanitise::clean(&problem.observed)) && end.contains(&target.name);
                assert!(shown, "{}: {} of {target} is lost: {text}", case.cause, check.id);
            }
        }
    }
}

/// An unmet condition that has nothing to do with the cause stays in full view.
#[test]
fn a_cause_explains_no_more_than_follows_from_it() {
    let mut snapshot = broken(|snapshot| service(snapshot, "w-1", "kubelet", "Waiting"));
    let condition = |name: &str| UnmetCondition { name: name.to_owned(), reason: "not yet".to_owned() };
    let status = snapshot.machine_status_mut("w-1");
    status.ready = false;
    status.unmet = vec![condition("time")];
    let made = diagnosed(&snapshot);
    assert_eq!(made.len(), 1);
    assert!(made[0].explains.iter().all(|it| it.check != "talos.nodes.ready"), "{made:#?}");
}

#[test]
fn ids_mean_one_thing_and_texts_are_complete() {
    let mut known: BTreeSet<&str> = checks::ALL.iter().map(|check| check.id).collect();
    known.extend(Reason::ALL.iter().map(|reason| reason.code()));
    for cause in ALL {
        assert!(known.insert(cause.id), "`{}` means something else already", cause.id);
        let is_kebab = cause.id.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        assert!(is_kebab && cause.explain.contains("\n\n") && !cause.title.ends_with('.'), "{}", cause.id);
        assert!(cause.source.contains("documentation, `"), "{}", cause.id);
        assert!(matches!(cause.remedy.first(), Some(Step::Look(_))), "{}: looking comes first", cause.id);
        assert_eq!(checks::dares_without_a_word(cause.remedy), None, "{}", cause.id);
    }
}

#[test]
fn subjects_are_machines() {
    let node = Target::new(Kind::Node, "cp-1").with_address("10.0.0.1");
    for (other, same) in [
        (Target::pod("kube-scheduler-cp-1", Some("cp-1")), true),
        (Target::pod("kube-scheduler-eu-cp-1", Some("eu-cp-1")), false),
        (Target::pod("kube-scheduler-cp-1", None), false),
        (Target::new(Kind::Endpoint, "10.0.0.1:50000"), true),
        (Target::new(Kind::Endpoint, "10.0.0.11:50000"), false),
        (Target::new(Kind::EtcdMember, "cp-1"), true),
        (Target::cluster(), false),
    ] {
        assert_eq!(same_subject(&node, &other), same, "{other:?}");
        assert_eq!(same_subject(&other, &node), same, "{other:?}");
    }
}
