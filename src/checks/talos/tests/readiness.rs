use std::time::Duration;

use crate::model::Role;
use crate::model::Status;
use crate::snapshot::Memory;
use crate::snapshot::{GapKind, ServiceEvent, Snapshot, UnmetCondition};
use crate::testing::fixture::{CONTROL_PLANES, ago, gap, healthy, service};
use crate::testing::judged::{judge, lines, observed, status, wrong};

fn with(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut snapshot = healthy();
    change(&mut snapshot);
    snapshot
}

/// `w-1` in a stage, with the `ready` value that real machines report there.
fn in_stage(stage: &str) -> Snapshot {
    with(|snapshot| stage.clone_into(&mut snapshot.machine_status_mut("w-1").stage))
}

#[test]
fn only_stage_running_is_booted() {
    let cases = [
        ("booting", "fail stage-not-running"),
        ("upgrading", "fail stage-not-running"),
        ("shutting down", "fail stage-not-running"),
        ("maintenance", "fail maintenance-mode"),
        ("unknown", "error unreadable-answer"),
        ("", "error unreadable-answer"),
        ("dancing", "error unreadable-answer"),
    ];
    for (stage, expected) in cases {
        let snapshot = in_stage(stage);
        assert_eq!(wrong("talos.nodes.booted", &snapshot), [format!("w-1: {expected}")]);
        assert_eq!(wrong("talos.nodes.ready", &snapshot), ["w-1: blocked talos.nodes.booted"]);
    }
}

#[test]
fn a_boot_names_what_holds_it_up() {
    let mut snapshot = in_stage("booting");
    let mut extension = service("ext-agent");
    extension.state = "Waiting".to_owned();
    extension.healthy = None;
    extension.last_event = Some(ServiceEvent {
        message: "Waiting for file \"/dev/virtio-ports/agent.0\"".to_owned(),
        state: "Waiting".to_owned(),
        at: None,
    });
    snapshot.talos_of("w-1").services.as_mut().unwrap().push(extension);
    assert_eq!(wrong("talos.nodes.booted", &snapshot), ["w-1: fail service-blocks-boot, see talos.nodes.services"]);
    assert_eq!(
        observed("talos.nodes.booted", &snapshot),
        ["booting, held up by ext-agent (Waiting, health unknown; last event: \
          Waiting for file \"/dev/virtio-ports/agent.0\")"]
    );
    assert_eq!(wrong("talos.nodes.services", &snapshot), ["w-1: fail service-failed"]);

    let mut etcd = with(|snapshot| "booting".clone_into(&mut snapshot.machine_status_mut("cp-1").stage));
    "Preparing".clone_into(&mut etcd.service_mut("cp-1", "etcd").state);
    assert_eq!(wrong("talos.nodes.booted", &etcd), ["cp-1: fail service-blocks-boot, see etcd.service"]);
}

#[test]
fn ready_nodes_are_listed() {
    assert_eq!(lines("talos.nodes.ready", &healthy())[0], "Node cp-1 (10.0.0.1): ready");
}

/// A condition of Talos repeats the finding of another check on the same machine, if there is one.
#[test]
fn below_the_full_level_nodes_need_not_be_ready() {
    let condition = |name: &str| UnmetCondition { name: name.to_owned(), reason: "not yet".to_owned() };
    let with = |names: &[&str], nodes_may_wait| {
        let mut snapshot = healthy();
        snapshot.asked.nodes_may_wait = nodes_may_wait;
        let status = snapshot.talos_of("cp-1").machine_status.as_mut().unwrap().as_mut().unwrap();
        (status.ready, status.unmet) = (false, names.iter().map(|name| condition(name)).collect());
        wrong("talos.nodes.ready", &snapshot)
    };
    assert_eq!(with(&["nodeReady"], false), ["cp-1: fail condition-unmet"]);
    assert_eq!(with(&["nodeReady"], true), [""; 0]);
    assert_eq!(with(&["nodeReady", "time"], true), ["cp-1: fail condition-unmet"]);
    assert_eq!(with(&[], true), ["cp-1: fail condition-unmet"], "it is not ready and does not say why");
}

#[test]
fn unmet_conditions_follow_from_what_they_are_about() {
    type Case = (&'static str, fn(&mut Snapshot), &'static str);
    let unready = |snapshot: &mut Snapshot| snapshot.kube_node_mut("cp-1").conditions.clear();
    let no_connection = |snapshot: &mut Snapshot| {
        snapshot.talos_of("cp-1").network_status.as_mut().unwrap().as_mut().unwrap().connectivity_ready = false;
    };
    let unsynced = |snapshot: &mut Snapshot| {
        snapshot.talos_of("cp-1").time_status.as_mut().unwrap().as_mut().unwrap().synced = false;
    };
    let cases: [Case; 7] = [
        ("time", unsynced, "talos.time"),
        ("network", no_connection, "talos.nodes.network"),
        ("services", |it| it.service_mut("cp-1", "etcd").healthy = Some(false), "etcd.service"),
        ("services", |it| it.service_mut("cp-1", "kubelet").healthy = Some(false), "talos.nodes.kubelet"),
        ("services", |it| it.service_mut("cp-1", "trustd").healthy = Some(false), "talos.nodes.services"),
        ("nodeReady", unready, "k8s.nodes.ready"),
        ("other", |_| {}, ""),
    ];
    for (name, change, by) in cases {
        let unmet = |snapshot: &mut Snapshot| {
            let status = snapshot.machine_status_mut("cp-1");
            status.ready = false;
            status.unmet = vec![UnmetCondition { name: name.to_owned(), reason: "not so".to_owned() }];
        };
        assert_eq!(wrong("talos.nodes.ready", &with(unmet)), ["cp-1: fail condition-unmet"]);
        let broken = with(|snapshot| {
            unmet(snapshot);
            change(snapshot);
        });
        let see = if by.is_empty() { String::new() } else { format!(", see {by}") };
        assert_eq!(wrong("talos.nodes.ready", &broken), [format!("cp-1: fail condition-unmet{see}")]);
    }
    let silent = with(|snapshot| snapshot.machine_status_mut("w-1").ready = false);
    assert_eq!(wrong("talos.nodes.ready", &silent), ["w-1: fail condition-unmet"]);
}

/// State, health, and whether a service that is not required is fine in that state.
const OTHER_SERVICES: [(&str, Option<bool>, bool); 9] = [
    ("Running", Some(true), true),
    ("Running", None, true),
    ("Finished", None, true),
    ("Skipped", None, true),
    ("Running", Some(false), false),
    ("Waiting", None, false),
    ("Failed", Some(false), false),
    ("Unknown", None, false),
    ("", Some(true), false),
];

#[test]
fn services_beyond_the_required_may_rest() {
    for (state, health, fine) in OTHER_SERVICES {
        let snapshot = with(|snapshot| {
            let mut extra = service("ext-iscsid");
            extra.state = state.to_owned();
            extra.healthy = health;
            snapshot.talos_of("w-1").services.as_mut().unwrap().push(extra);
        });
        let expected = if fine { Status::Pass } else { Status::Fail };
        assert_eq!(status("talos.nodes.services", &snapshot), expected, "{state} {health:?}");
    }
}

/// The service is running now, as it was before each of its failures.
#[test]
fn a_service_that_fails_again_and_again_is_told_while_it_runs() {
    let failed = |service: &str, seconds: &[u64]| {
        let mut snapshot = healthy();
        snapshot.service_mut("cp-2", service).failures = seconds.iter().map(|seconds| ago(*seconds)).collect();
        wrong("talos.nodes.services", &snapshot)
    };
    for service in ["etcd", "kubelet", "cri"] {
        assert_eq!(failed(service, &[30, 20, 10]), ["cp-2: warn restarting"], "{service}");
    }
    assert_eq!(failed("etcd", &[10]), [""; 0], "once");
    assert_eq!(failed("etcd", &[900, 800, 10]), [""; 0], "once lately");
}

#[test]
fn a_single_failure_between_two_rounds_is_told() {
    let with_failures = |seconds: &[u64]| {
        let failures = seconds.iter().map(|seconds| ago(*seconds)).collect();
        with(|snapshot| snapshot.service_mut("cp-2", "etcd").failures = failures)
    };
    let after = |first: &[u64], second: &[u64]| {
        let mut snapshot = with_failures(second);
        snapshot.memory = Memory::default().after(&with_failures(first), Duration::from_secs(5));
        wrong("talos.nodes.services", &snapshot)
    };
    assert_eq!(after(&[], &[1]), ["cp-2: warn restarting"]);
    assert_eq!(after(&[900], &[900, 1]), ["cp-2: warn restarting"]);
    assert_eq!(after(&[9], &[9]), [""; 0], "before the run");
    assert_eq!(after(&[], &[]), [""; 0]);
}

#[test]
fn required_services_run_and_are_healthy() {
    for id in ["machined", "apid", "containerd", "cri", "trustd"] {
        for (state, health) in [("Running", None), ("Running", Some(false)), ("Finished", None), ("Skipped", None)] {
            let snapshot = with(|snapshot| {
                let service = snapshot.service_mut("cp-2", id);
                service.state = state.to_owned();
                service.healthy = health;
            });
            assert_eq!(wrong("talos.nodes.services", &snapshot), ["cp-2: fail service-failed"], "{id} {state}");
        }
        let missing = with(|snapshot| {
            snapshot.talos_of("cp-2").services.as_mut().unwrap().retain(|service| service.id != id);
        });
        assert_eq!(wrong("talos.nodes.services", &missing), ["cp-2: fail service-missing"], "{id}");
    }
    let unknown_role = with(|snapshot| snapshot.node_mut("w-1").role = Role::Unknown);
    assert_eq!(wrong("talos.nodes.services", &unknown_role), ["w-1: error no-answer"]);
}

#[test]
fn extensions_of_talos_1_8_are_not_called_unhealthy() {
    for (tag, message, expected) in [
        ("v1.8.3", "service not running", Status::Pass),
        ("v1.8.4", "service not running", Status::Fail),
        ("v1.8.0", "connection refused", Status::Fail),
    ] {
        let snapshot = with(|snapshot| {
            tag.clone_into(&mut snapshot.talos_of("w-1").contact.as_mut().unwrap().version.tag);
            let mut extension = service("ext-iscsid");
            extension.healthy = Some(false);
            extension.health_message = message.to_owned();
            snapshot.talos_of("w-1").services.as_mut().unwrap().push(extension);
        });
        assert_eq!(status("talos.nodes.services", &snapshot), expected, "{tag} {message}");
    }
}

#[test]
fn the_kubelet_counts_on_workers_and_only_once() {
    let snapshot = with(|snapshot| {
        let kubelet = snapshot.service_mut("w-1", "kubelet");
        kubelet.healthy = Some(false);
        kubelet.health_message = "connection refused".to_owned();
    });
    assert_eq!(wrong("talos.nodes.kubelet", &snapshot), ["w-1: fail kubelet-unhealthy"]);
    let expected = "Running, not healthy: connection refused; last event: Health check successful";
    assert_eq!(observed("talos.nodes.kubelet", &snapshot), [expected]);
    assert_eq!(status("talos.nodes.services", &snapshot), Status::Pass);
}

#[test]
fn only_a_machine_without_kubernetes_needs_no_kubelet() {
    let without = |tag: &str, change: fn(&mut Snapshot)| {
        with(|snapshot| {
            let node = snapshot.node_mut("w-1");
            node.sources.kubernetes = false;
            node.talos.services.as_mut().unwrap().retain(|service| service.id != "kubelet");
            node.talos.nodename = Ok(None);
            tag.clone_into(&mut node.talos.contact.as_mut().unwrap().version.tag);
            change(snapshot);
        })
    };
    let cases: [(Snapshot, &[&str]); 5] = [
        (without("v1.14.0", |_| ()), &[]),
        (without("v1.13.0", |_| ()), &["w-1: fail service-missing"]),
        (without("v1.14.0", |it| it.node_mut("w-1").sources.kubernetes = true), &["w-1: fail service-missing"]),
        (without("v1.14.0", |it| it.talos_of("w-1").nodename = Ok(Some("w-1".into()))), &["w-1: fail service-missing"]),
        (
            without("v1.14.0", |it| it.talos_of("w-1").nodename = gap(GapKind::TimedOut)),
            &["w-1: error timed-out, see talos.nodes.reachable"],
        ),
    ];
    for (snapshot, expected) in cases {
        assert_eq!(wrong("talos.nodes.kubelet", &snapshot), expected);
    }
}

#[test]
fn services_of_a_machine_on_its_way_are_explained_by_its_stage() {
    let mut snapshot = in_stage("rebooting");
    "Stopping".clone_into(&mut snapshot.service_mut("w-1", "cri").state);
    assert_eq!(wrong("talos.nodes.services", &snapshot), ["w-1: fail service-failed, see talos.nodes.booted"]);
    assert!(judge("talos.nodes.services", &snapshot).problems().all(|(_, problem)| problem.waiting_helps));
}

#[test]
fn kube_prism_without_a_server_is_a_warning() {
    let id = "talos.nodes.kubelet";
    let says = |healthy| with(|snapshot| snapshot.talos_of("w-1").kube_prism = healthy);
    assert_eq!(status(id, &says(Ok(None))), Status::Pass, "it is switched off");
    let mut unhealthy = says(Ok(Some(false)));
    assert_eq!(wrong(id, &unhealthy), ["w-1: warn kubeprism-unhealthy"]);
    unhealthy.kube().endpoint = gap(GapKind::ConnectionRefused);
    assert_eq!(wrong(id, &unhealthy), ["w-1: warn kubeprism-unhealthy, see k8s.api.endpoint"]);
    // Before the bootstrap.
    let mut early = healthy().without_kubernetes();
    early.talos_of("w-1").kube_prism = Ok(Some(false));
    for name in CONTROL_PLANES {
        let etcd = early.service_mut(name, "etcd");
        (etcd.state, etcd.healthy) = ("Preparing".to_owned(), None);
        early.talos_of(name).etcd_members = gap(GapKind::ConnectionRefused);
        early.talos_of(name).etcd_status = gap(GapKind::ConnectionRefused);
    }
    assert_eq!(wrong(id, &early), ["w-1: warn kubeprism-unhealthy, see etcd.service"]);
    let mut unknown = says(gap(GapKind::Unsupported));
    assert_eq!(wrong(id, &unknown), ["w-1: error not-supported-by-version, for ever"]);
    unknown.talos_of("w-1").contact.as_mut().unwrap().version.tag = "v1.4.8".to_owned();
    assert_eq!(status(id, &unknown), Status::Pass);
}

#[test]
fn the_second_reboot_of_a_run_is_a_warning() {
    let id = "talos.nodes.booted";
    let at = |seconds| with(|snapshot| snapshot.service_mut("w-1", "machined").running_since = Some(ago(seconds)));
    let mut memory = Memory::default();
    let (once, again) = ("w-1: warn node-rebooted", "w-1: warn reboot-loop");
    let rounds: [(u64, &[&str]); 6] =
        [(900, &[]), (900, &[]), (60, &[once]), (60, &[]), (5, &[once, again]), (5, &[again])];
    for (seconds, expected) in rounds {
        let mut round = at(seconds);
        round.memory = memory.clone();
        assert_eq!(wrong(id, &round), expected, "{seconds}");
        memory = memory.after(&round, Duration::from_secs(seconds));
    }
    // A machine that does not report has not been rebooted.
    let mut silent = with(|snapshot| snapshot.talos_of("w-1").services = gap(GapKind::TimedOut));
    silent.memory = memory;
    assert_eq!(status(id, &silent), Status::Pass);
}
