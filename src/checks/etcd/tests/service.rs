//! The service `etcd` of each control plane.

use crate::model::{Hint, Outcome, Status};
use crate::snapshot::{GapKind, Snapshot};
use crate::testing::fixture::{CONTROL_PLANES, gap, healthy, readyz};
use crate::testing::judged::{hints, judge, status, wrong};

fn with(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut snapshot = healthy();
    change(&mut snapshot);
    snapshot
}

fn skips(snapshot: &Snapshot) -> Vec<String> {
    let findings = judge("etcd.service", snapshot).findings.into_iter();
    findings.filter(|it| matches!(it.outcome, Outcome::Skip(_))).map(|it| it.target.name.clone()).collect()
}

#[test]
fn control_planes_that_leave_are_listed_and_workers_are_not() {
    let leaving = |name: &str| with(|snapshot| snapshot.node_mut(name).leaving = true);
    assert_eq!(skips(&leaving("cp-3")), ["cp-3"]);
    assert_eq!(skips(&leaving("w-1")), [""; 0]);
    assert_eq!(skips(&healthy()), [""; 0]);
}

#[test]
fn a_control_plane_runs_etcd_unless_etcd_is_elsewhere() {
    let without = |names: &[&str]| {
        with(|snapshot| {
            for name in names {
                snapshot.talos_of(name).services.as_mut().unwrap().retain(|service| service.id != "etcd");
            }
        })
    };
    assert_eq!(wrong("etcd.service", &without(&["cp-2"])), ["cp-2: fail service-missing"]);
    let mut elsewhere = without(&CONTROL_PLANES);
    elsewhere.external_etcd = Some(Vec::new());
    assert_eq!(skips(&elsewhere), CONTROL_PLANES);
    assert_eq!(status("etcd.service", &elsewhere), Status::Skip);
}

/// A cluster that is waiting for its bootstrap.
fn waiting(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    with(|snapshot| {
        let kubernetes = snapshot.kube();
        kubernetes.endpoint = gap(GapKind::NotAsked);
        kubernetes.nodes = gap(GapKind::NotAsked);
        kubernetes.servers.clear();
        for name in CONTROL_PLANES {
            let service = snapshot.service_mut(name, "etcd");
            "Preparing".clone_into(&mut service.state);
            service.healthy = None;
            let talos = snapshot.talos_of(name);
            talos.etcd_status = gap(GapKind::NotAsked);
            talos.etcd_members = gap(GapKind::NotAsked);
            talos.etcd_data_absent = Ok(true);
        }
        change(snapshot);
    })
}

/// A second bootstrap would create a second cluster: Talos, every machine's API server and the endpoint have to agree.
#[test]
fn a_bootstrap_is_proposed_once_and_only_where_nothing_listens() {
    let bootstrap = Hint::remedy("{talosctl} -n {} bootstrap", ["10.0.0.1"]);
    let proposed = |snapshot: &Snapshot| -> Vec<Hint> {
        let hints = hints("etcd.service", snapshot).into_iter();
        hints.filter(|hint| matches!(hint, Hint::Remedy { .. })).collect()
    };
    let refused = |endpoint| {
        waiting(|it| {
            it.kube().endpoint = gap(endpoint);
            let servers = CONTROL_PLANES.map(|name| (name.to_owned(), gap(GapKind::ConnectionRefused)));
            it.kube().servers.extend(servers);
        })
    };
    for kind in [GapKind::ConnectionRefused, GapKind::ConnectTimedOut, GapKind::NoRoute] {
        let snapshot = refused(kind);
        assert_eq!(wrong("etcd.service", &snapshot), CONTROL_PLANES.map(|it| format!("{it}: fail never-bootstrapped")));
        assert_eq!(proposed(&snapshot), std::slice::from_ref(&bootstrap), "{kind:?}");
    }
    let doubtful: [fn(&mut Snapshot); 8] = [
        |_| {},
        |it| it.kubernetes = None,
        |it| it.kube().endpoint = gap(GapKind::ConnectionRefused),
        |it| it.kube().endpoint = gap(GapKind::ConnectTimedOut),
        |it| it.kube().endpoint = gap(GapKind::NoRoute),
        |it| it.kube().endpoint = gap(GapKind::TimedOut),
        |it| {
            it.kube().servers.insert("cp-1".to_owned(), gap(GapKind::ConnectionRefused));
            it.kube().servers.insert("cp-2".to_owned(), gap(GapKind::NoRoute));
        },
        |it| {
            it.kube().servers.insert("cp-1".to_owned(), gap(GapKind::ConnectionRefused));
            it.kube().servers.insert("cp-2".to_owned(), gap(GapKind::TimedOut));
        },
    ];
    for (case, change) in doubtful.into_iter().enumerate() {
        let snapshot = waiting(change);
        assert_eq!(wrong("etcd.service", &snapshot)[0], "cp-1: fail never-bootstrapped");
        assert_eq!(proposed(&snapshot), [], "{case}");
    }
    assert_eq!(proposed(&refused(GapKind::TimedOut)), [], "something accepts connections");
    // Any answer shows that there is a cluster.
    let answers: [fn(&mut Snapshot); 3] = [
        |it| it.kube().endpoint = Ok(readyz("https://k8s.example:6443")),
        |it| it.kube().nodes = Ok(Vec::new()),
        |it| drop(it.kube().servers.insert("cp-1".to_owned(), Ok(readyz("https://10.0.0.1:6443")))),
    ];
    for change in answers {
        assert_eq!(wrong("etcd.service", &waiting(change))[0], "cp-1: fail etcd-starting");
    }
}

#[test]
fn a_member_that_is_not_healthy_is_explained_by_what_is_known() {
    let unhealthy = |state: &str, message: &str| {
        with(|snapshot| {
            let service = snapshot.service_mut("cp-2", "etcd");
            state.clone_into(&mut service.state);
            service.healthy = Some(false);
            message.clone_into(&mut service.health_message);
        })
    };
    let learner = "rpc not supported for learner";
    let cases = [
        (unhealthy("Running", learner), "cp-2: fail etcd-unhealthy"),
        (unhealthy("Failed", learner), "cp-2: fail etcd-unhealthy"),
        (unhealthy("Running", "context deadline exceeded"), "cp-2: fail etcd-unhealthy"),
        (unhealthy("Starting", ""), "cp-2: fail etcd-starting"),
    ];
    for (mut snapshot, expected) in cases {
        assert_eq!(wrong("etcd.service", &snapshot), [expected]);
        // Without a quorum, no running member can be healthy.
        for name in CONTROL_PLANES {
            snapshot.etcd_status_mut(name).leader = 0;
            snapshot.talos_of(name).etcd_members = gap(GapKind::ServerError);
        }
        let runs = snapshot.service_mut("cp-2", "etcd").state == "Running";
        let by = if runs && !expected.contains("see") { ", see etcd.quorum" } else { "" };
        assert_eq!(wrong("etcd.service", &snapshot), [format!("{expected}{by}")]);
    }
}

#[test]
fn external_etcd_that_refuses_a_certificate_wants_another() {
    let mut snapshot = healthy().without_talos();
    snapshot.external_etcd = Some(vec![crate::snapshot::EtcdEndpoint {
        address: "10.0.1.0:2379".to_owned(),
        status: gap(GapKind::ClientCertificateRefused),
        members: gap(GapKind::ClientCertificateRefused),
        alarms: gap(GapKind::ClientCertificateRefused),
    }]);
    let likely = "etcd requires a client certificate from its own CA: pass `--etcd-cert` and `--etcd-key`";
    assert_eq!(hints("etcd.quorum", &snapshot), [Hint::likely(likely)]);
}
