//! Static pods: missing ones, and the checks that report them.

use crate::checks::kubernetes::tests::{judge, no, not_ready, pod, roots, said, status, with};
use crate::model::{Hint, Status};
use crate::snapshot::{GapKind, Pod, Snapshot};
use crate::testing::fixture::{CONTROL_PLANES, healthy};

const RENDERED: &str = "k8s.staticpods.rendered";

const RUNNING: &str = "k8s.staticpods.running";

#[test]
fn what_is_not_rendered_is_known_from_the_configuration() {
    let without_scheduler = |change: fn(&mut Snapshot)| {
        let snapshot = with(|snapshot| {
            let talos = snapshot.talos_of("cp-2");
            talos.static_pods.as_mut().unwrap().retain(|id| id != "kube-scheduler");
            talos.scheduler_enabled = Ok(None);
            change(snapshot);
        });
        said(&snapshot, RENDERED)
    };
    assert_eq!(without_scheduler(|_| {}), ["error no-answer cp-2"], "nobody knows whether it is wanted");
    assert_eq!(
        without_scheduler(|it| it.service_mut("cp-2", "etcd").healthy = Some(false)),
        ["fail static-pod-not-rendered cp-2 < etcd.service"]
    );
    let config = |id: &str| {
        let snapshot = with(|snapshot| {
            let statuses = snapshot.talos_of("cp-2").config_statuses.as_mut().unwrap();
            statuses.iter_mut().find(|status| status.id == id).unwrap().ready = false;
        });
        said(&snapshot, RENDERED)
    };
    assert_eq!(config("static-pods"), ["fail static-pod-not-rendered cp-2"]);
    assert_eq!(config("static-pods-secrets"), [""; 0], "the first follows it");
}

#[test]
fn etcd_beside_the_static_pods_is_as_its_service_says() {
    let services = |kind| with(|snapshot| snapshot.talos_of("cp-2").services = no(kind));
    let blocked = "blocked etcd-cp-2 < talos.nodes.kubelet".to_owned();
    assert!(said(&services(GapKind::TimedOut), RUNNING).contains(&blocked));
    let untold = said(&services(GapKind::NotAsked), RUNNING);
    assert!(untold.iter().any(|it| it.starts_with("error no-answer etcd-cp-2")), "{untold:?}");
}

#[test]
fn without_talos_each_component_has_a_mirror_pod() {
    let missing = with(|snapshot| {
        snapshot.kube().pods.as_mut().unwrap().retain(|pod| pod.name != "kube-scheduler-cp-2");
    });
    assert_eq!(said(&missing.without_talos(), RUNNING), [""; 0], "it may be switched off there");
    let nowhere = with(|snapshot| {
        snapshot.kube().pods.as_mut().unwrap().retain(|pod| !pod.name.starts_with("kube-scheduler"));
    });
    let fails = CONTROL_PLANES
        .map(|node| format!("fail static-pod-missing kube-scheduler-{node} < k8s.controlplane.scheduler"));
    assert_eq!(said(&nowhere.without_talos(), RUNNING), fails);
    let renamed = with(|snapshot| "renamed".clone_into(&mut pod(snapshot, "kube-scheduler-cp-2").name));
    assert_eq!(said(&renamed.without_talos(), RUNNING), [""; 0], "its label tells");
    let broken = with(|snapshot| pod(snapshot, "kube-scheduler-cp-2").state.ready = Some(false));
    assert_eq!(
        said(&broken.without_talos(), RUNNING),
        ["fail static-pod-failed kube-scheduler-cp-2 < k8s.controlplane.scheduler"]
    );
}

#[test]
fn a_static_pod_of_a_silent_node_is_the_nodes() {
    let own = |change: fn(&mut Snapshot)| {
        let mut snapshot = with(|snapshot| {
            let mut own = pod(snapshot, "kube-scheduler-cp-2").clone();
            (own.name, own.node) = ("own-w-1".to_owned(), Some("w-1".to_owned()));
            own.labels.clear();
            own.state.ready = Some(false);
            snapshot.kube().pods.as_mut().unwrap().push(own);
        });
        change(&mut snapshot);
        said(&snapshot.without_talos(), RUNNING)
    };
    assert_eq!(own(|_| {}), ["fail static-pod-failed own-w-1"]);
    assert_eq!(own(|it| not_ready(it, "w-1")), ["fail static-pod-failed own-w-1 < k8s.nodes.ready"]);
}

#[test]
fn a_component_that_crashes_without_etcd_or_a_node_is_no_root() {
    let id = "k8s.controlplane.scheduler";
    let mut lost = with(|snapshot| {
        let statuses = snapshot.talos_of("cp-3").static_pod_statuses.as_mut().unwrap();
        statuses.iter_mut().find(|it| it.name == "kube-scheduler-cp-3").unwrap().state.ready = Some(false);
    });
    assert_eq!(said(&lost, id), ["fail component-not-ready cp-3"]);
    for name in CONTROL_PLANES {
        lost.etcd_status_mut(name).leader = 0;
        lost.talos_of(name).etcd_members = no(GapKind::ServerError);
    }
    assert_eq!(said(&lost, id), ["fail component-not-ready cp-3 < etcd.quorum"]);
    let mut silent = with(|snapshot| pod(snapshot, "kube-scheduler-cp-3").state.ready = Some(false)).without_talos();
    assert_eq!(said(&silent, id), ["fail component-not-ready cp-3"]);
    not_ready(&mut silent, "cp-3");
    assert_eq!(said(&silent, id), ["fail component-not-ready cp-3 < k8s.nodes.ready"]);
    assert!(roots(&silent).contains(&"k8s.nodes.ready node-not-ready cp-3".to_owned()));
    assert_eq!(status(&silent, id), Status::Fail);
    let look = Hint::run("{kubectl} -n kube-system describe pod {}", ["kube-scheduler-cp-3"]);
    assert!(judge(&silent, id).problems().next().unwrap().1.hints.contains(&look));
}

/// Without Talos, static pods of etcd show whether it can lose another member.
#[test]
fn static_pods_of_etcd_are_counted() {
    let with_etcd = |down: &[&str]| {
        let mut snapshot = healthy().without_talos();
        for name in CONTROL_PLANES {
            let kubernetes = snapshot.kube();
            let is_model = |pod: &&Pod| pod.is_api_server() && pod.node.as_deref() == Some(name);
            let mut pod = kubernetes.pods.as_ref().unwrap().iter().find(is_model).unwrap().clone();
            pod.name = format!("etcd-{name}");
            *pod.labels = [("component".to_owned(), "etcd".to_owned())].into();
            pod.state.containers.iter_mut().for_each(|it| "etcd".clone_into(&mut it.name));
            if down.contains(&name) {
                pod.state.ready = Some(false);
            }
            kubernetes.pods.as_mut().unwrap().push(pod);
        }
        snapshot
    };
    assert_eq!(said(&with_etcd(&[]), RUNNING), [""; 0]);
    let said = said(&with_etcd(&["cp-2"]), RUNNING);
    assert!(said.iter().any(|it| it.starts_with("fail no-tolerance cluster")), "{said:?}");
}
