//! DaemonSets, DNS and static pods: what is missing, and who says so.

use super::{judge, lines, no, roots, said, status};
use crate::checks::fixture::{CONTROL_PLANES, healthy};
use crate::checks::{Hint, Severity, Status};
use crate::snapshot::{DaemonSet, Deployment, GapKind, Pod, Snapshot};

const PROXY: &str = "k8s.kube-proxy";
const DNS: &str = "k8s.dns";
const RENDERED: &str = "k8s.staticpods.rendered";
const RUNNING: &str = "k8s.staticpods.running";

fn with(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut snapshot = healthy();
    change(&mut snapshot);
    snapshot
}

fn proxy(snapshot: &mut Snapshot) -> &mut DaemonSet {
    snapshot.kube().daemon_sets.as_mut().unwrap().iter_mut().find(|set| set.name == "kube-proxy").unwrap()
}

fn pod<'a>(snapshot: &'a mut Snapshot, name: &str) -> &'a mut Pod {
    snapshot.kube().pods.as_mut().unwrap().iter_mut().find(|pod| pod.name == name).unwrap()
}

fn not_ready(snapshot: &mut Snapshot, node: &str) {
    let conditions = &mut snapshot.kube_node_mut(node).conditions;
    conditions.iter_mut().filter(|it| it.kind == "Ready").for_each(|it| "False".clone_into(&mut it.status));
}

#[test]
fn a_daemon_set_has_a_label_or_a_name() {
    assert_eq!(said(&with(|it| "proxy".clone_into(&mut proxy(it).name)), PROXY), [""; 0]);
    assert_eq!(said(&with(|it| proxy(it).labels.clear()), PROXY), [""; 0]);
    let other = with(|it| {
        proxy(it).labels.clear();
        "proxy".clone_into(&mut proxy(it).name);
    });
    assert_eq!(said(&other, PROXY), ["fail daemonset-missing kube-system/kube-proxy"]);
}

/// During a change of the configuration the control planes differ.
#[test]
fn what_one_control_plane_wants_is_wanted() {
    for name in CONTROL_PLANES {
        let snapshot = with(|snapshot| {
            snapshot.kube().daemon_sets.as_mut().unwrap().retain(|set| set.name != "kube-proxy");
            for other in CONTROL_PLANES.into_iter().filter(|other| *other != name) {
                let manifests = snapshot.talos_of(other).bootstrap_manifests.as_mut().unwrap();
                manifests.as_mut().unwrap().proxy_enabled = false;
            }
        });
        assert_eq!(said(&snapshot, PROXY), ["fail daemonset-missing kube-system/kube-proxy"], "{name}");
    }
}

#[test]
fn numbers_of_a_form_that_is_past_are_no_numbers() {
    for (generation, observed, fine) in [(2, 1, false), (2, 2, true), (1, 2, true)] {
        let snapshot = with(|snapshot| {
            (proxy(snapshot).generation, proxy(snapshot).observed_generation) = (generation, Some(observed));
        });
        assert_eq!(status(&snapshot, PROXY).is_fine(), fine, "{generation} {observed}");
    }
}

#[test]
fn the_nodes_that_lack_a_pod_are_those_whose_pod_is_not_ready_first() {
    let short = |change: fn(&mut Snapshot)| {
        with(|snapshot| {
            proxy(snapshot).available = 3;
            change(snapshot);
        })
    };
    let unready = |snapshot: &mut Snapshot| pod(snapshot, "kube-proxy-abcd3").state.ready = Some(false);
    let remove = |snapshot: &mut Snapshot, name: &str| {
        snapshot.kube().pods.as_mut().unwrap().retain(|pod| pod.name != name);
    };
    let mut one = short(|_| {});
    unready(&mut one);
    assert_eq!(said(&one, PROXY), ["fail daemonset-incomplete w-1"]);
    // That one makes up the number, so that cp-1 may be left out on purpose.
    remove(&mut one, "kube-proxy-abcd0");
    assert_eq!(said(&one, PROXY), ["fail daemonset-incomplete w-1"]);
    proxy(&mut one).available = 2;
    assert_eq!(said(&one, PROXY), ["fail daemonset-incomplete cp-1", "fail daemonset-incomplete w-1"]);
    // A machine that Kubernetes does not know, and one of another system, need no pod.
    let whole = ["fail daemonset-incomplete kube-system/kube-proxy"];
    let mut outside = short(|snapshot| snapshot.node_mut("w-1").sources.kubernetes = false);
    remove(&mut outside, "kube-proxy-abcd3");
    assert_eq!(said(&outside, PROXY), whole);
    let mut guest = short(|snapshot| snapshot.node_mut("w-1").is_talos = false);
    remove(&mut guest, "kube-proxy-abcd3");
    assert_eq!(said(&guest, PROXY), whole);
}

#[test]
fn a_guest_that_is_not_ready_lacks_its_pod_as_a_warning() {
    let mut snapshot = with(|snapshot| {
        proxy(snapshot).available = 3;
        pod(snapshot, "kube-proxy-abcd3").state.ready = Some(false);
        not_ready(snapshot, "w-1");
    });
    assert_eq!(said(&snapshot, PROXY), ["fail daemonset-incomplete w-1 < k8s.nodes.ready"]);
    snapshot.node_mut("w-1").is_talos = false;
    assert_eq!(said(&snapshot, PROXY), ["warn daemonset-incomplete w-1"]);
    assert_eq!(judge(&snapshot, PROXY).problems().next().unwrap().1.severity, Severity::Warn);
}

fn without_dns(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    with(|snapshot| {
        snapshot.kube().dns_endpoints = Ok(Vec::new());
        change(snapshot);
    })
}

fn coredns(snapshot: &mut Snapshot) -> &mut Deployment {
    &mut snapshot.kube().deployments.as_mut().unwrap()[0]
}

fn no_dns_pods(snapshot: &mut Snapshot) {
    snapshot.kube().pods.as_mut().unwrap().retain(|pod| !pod.name.starts_with("coredns"));
}

#[test]
fn ready_endpoints_of_dns_are_counted() {
    assert_eq!(lines(&healthy(), DNS), ["Cluster DNS: 2 ready endpoints"]);
    let one = with(|snapshot| drop(snapshot.kube().dns_endpoints.as_mut().unwrap().pop()));
    assert_eq!(lines(&one, DNS), ["Cluster DNS: 1 ready endpoint"]);
}

#[test]
fn the_deployment_of_dns_has_a_label_or_a_name() {
    let scaled = |change: fn(&mut Deployment)| {
        let snapshot = without_dns(|snapshot| {
            coredns(snapshot).replicas = 0;
            change(coredns(snapshot));
        });
        said(&snapshot, DNS)
    };
    let zero = ["fail dns-scaled-to-zero kube-system/kube-dns"];
    assert_eq!(scaled(|_| {}), zero);
    assert_eq!(scaled(|it| "dns".clone_into(&mut it.name)), zero);
    assert_eq!(scaled(|it| it.labels.clear()), zero);
    let other = |it: &mut Deployment| {
        it.labels.clear();
        "other".clone_into(&mut it.name);
    };
    assert_eq!(scaled(other), ["fail dns-no-endpoints kube-system/kube-dns"]);
}

#[test]
fn dns_is_missing_only_where_no_part_of_it_is_there() {
    let no_deployment = |change: fn(&mut Snapshot)| {
        let snapshot = without_dns(|snapshot| {
            snapshot.kube().deployments = Ok(Vec::new());
            change(snapshot);
        });
        said(&snapshot, DNS)
    };
    let silent = ["fail dns-no-endpoints kube-system/kube-dns"];
    assert_eq!(no_deployment(no_dns_pods), ["fail dns-missing kube-system/kube-dns"]);
    assert_eq!(no_deployment(|_| {}), silent, "its pods are there");
    let endpoints = no_deployment(|snapshot| {
        no_dns_pods(snapshot);
        snapshot.kube().dns_endpoints = healthy().kube().dns_endpoints.clone();
        snapshot.kube().dns_endpoints.iter_mut().flatten().for_each(|endpoint| endpoint.ready = false);
    });
    assert_eq!(endpoints, silent, "its endpoints are there");
}

/// Of Kubernetes alone nobody learns what is switched off.
#[test]
fn without_talos_dns_that_is_nowhere_is_undetermined_and_can_be_left_out() {
    let mut snapshot = without_dns(|snapshot| {
        snapshot.kube().deployments = Ok(Vec::new());
        no_dns_pods(snapshot);
    });
    let first = |snapshot: &Snapshot| judge(snapshot, DNS).problems().next().unwrap().1.clone();
    let left_out = Hint::likely("where the cluster does without it on purpose, say so: `--skip k8s.dns`");
    assert!(!first(&snapshot).hints.contains(&left_out), "Talos says that it is wanted");
    for name in CONTROL_PLANES {
        snapshot.talos_of(name).bootstrap_manifests = no(GapKind::TimedOut);
    }
    assert_eq!(said(&snapshot, DNS), ["error dns-missing kube-system/kube-dns"]);
    assert!(first(&snapshot).observed.ends_with("and no control plane told whether DNS is wanted"));
    assert!(!first(&snapshot).hints.contains(&left_out), "Talos will say");
    let mut blind = snapshot.without_talos();
    assert_eq!(said(&blind, DNS), ["error dns-missing kube-system/kube-dns"]);
    assert!(first(&blind).observed.ends_with("and without Talos nothing tells whether DNS is wanted"));
    assert!(first(&blind).hints.contains(&left_out));
    // Somebody did that, and nobody says why.
    blind.kube().deployments = healthy().kube().deployments.clone();
    coredns(&mut blind).replicas = 0;
    assert_eq!(said(&blind, DNS), ["fail dns-scaled-to-zero kube-system/kube-dns"]);
    assert!(first(&blind).hints.contains(&left_out));
}

#[test]
fn dns_that_has_nowhere_to_run_waits_for_nodes() {
    let names = ["cp-1", "cp-2", "cp-3", "w-1"];
    let on = |nodes: &[&str], pods: bool| {
        let snapshot = without_dns(|snapshot| {
            for node in nodes {
                not_ready(snapshot, node);
            }
            if !pods {
                no_dns_pods(snapshot);
            }
        });
        said(&snapshot, DNS)
    };
    let silent = "fail dns-no-endpoints kube-system/kube-dns";
    let waits = "fail dns-no-endpoints kube-system/kube-dns < k8s.nodes.ready";
    assert_eq!(on(&[], true), [silent]);
    assert_eq!(on(&["cp-1"], true), [silent], "one of its pods runs on a ready node");
    assert_eq!(on(&["cp-1", "cp-2"], true), [waits]);
    assert_eq!(on(&["cp-1", "cp-2"], false), [silent], "others could take it");
    assert_eq!(on(&names, false), [waits]);
}

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
    let blocked = "blocked etcd-cp-2 < etcd.service".to_owned();
    assert!(said(&services(GapKind::TimedOut), RUNNING).contains(&blocked));
    assert!(said(&services(GapKind::NotAsked), RUNNING).contains(&"error no-answer etcd-cp-2".to_owned()));
}

#[test]
fn without_talos_each_component_has_a_mirror_pod() {
    let missing = with(|snapshot| {
        snapshot.kube().pods.as_mut().unwrap().retain(|pod| pod.name != "kube-scheduler-cp-2");
    });
    assert_eq!(
        said(&missing.without_talos(), RUNNING),
        ["fail static-pod-missing kube-scheduler-cp-2 < k8s.controlplane.scheduler"]
    );
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
