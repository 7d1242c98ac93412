//! Obstacles to observing a fact, and the explanations for missing facts.

use crate::checks::kubernetes::tests::{no, said, status, with};
use crate::model::{CheckId, Outcome, Status};
use crate::snapshot::{GapKind, Readyz, Snapshot};
use crate::testing::fixture::readyz;

const ENDPOINT: &str = "k8s.api.endpoint";

#[test]
fn what_talos_cannot_tell_of_a_node_is_blocked_by_the_way_to_it() {
    let id = "k8s.controlplane.scheduler";
    let other = with(|snapshot| {
        snapshot.talos_of("cp-2").contact.as_mut().unwrap().answered_by_other = Some("somebody".to_owned());
    });
    assert_eq!(said(&other, id), ["blocked cp-2 < talos.nodes.reachable"]);
    let unforwarded = with(|snapshot| snapshot.talos_of("cp-2").contact = no(GapKind::NoForwarding));
    assert_eq!(said(&unforwarded, id), ["blocked cp-2 < talos.nodes.reachable"]);
}

/// The kubelet's service and the machine's name in Kubernetes each show that Kubernetes runs there.
#[test]
fn only_a_machine_that_shows_no_sign_of_kubernetes_needs_no_node_object() {
    let id = "k8s.nodes.registered";
    let unregistered = |named: bool, kubelet: bool| {
        with(|snapshot| {
            snapshot.kube().nodes.as_mut().unwrap().retain(|object| object.name != "w-1");
            let talos = snapshot.talos_of("w-1");
            "v1.14.0".clone_into(&mut talos.contact.as_mut().unwrap().version.tag);
            if !named {
                talos.nodename = Ok(None);
            }
            if !kubelet {
                talos.services.as_mut().unwrap().retain(|service| service.id != "kubelet");
            }
        })
    };
    let missing = "fail node-not-registered w-1";
    assert_eq!(said(&unregistered(true, true), id), [missing]);
    assert_eq!(said(&unregistered(false, true), id), [missing]);
    assert_eq!(said(&unregistered(true, false), id), [format!("{missing} < talos.nodes.kubelet")]);
    let without = unregistered(false, false);
    assert_eq!(said(&without, id), [""; 0]);
    let findings = crate::checks::kubernetes::tests::judge(&without, id).findings;
    assert!(findings.iter().any(|it| matches!(&it.outcome, Outcome::Skip(why) if why.contains("no Kubernetes"))));
    // Before Talos 1.14, every machine runs Kubernetes.
    let mut old = without.clone();
    "v1.13.9".clone_into(&mut old.talos_of("w-1").contact.as_mut().unwrap().version.tag);
    assert_eq!(said(&old, id), [format!("{missing} < talos.nodes.kubelet")]);
    let mut nameless = without.clone();
    nameless.talos_of("w-1").nodename = no(GapKind::TimedOut);
    assert_eq!(said(&nameless, id), ["error timed-out w-1 < talos.nodes.kubelet"]);
    let mut silent = without;
    silent.talos_of("w-1").services = no(GapKind::TimedOut);
    assert_eq!(said(&silent, id), ["error no-answer w-1 < talos.nodes.kubelet"]);
}

fn failing(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    with(|snapshot| {
        snapshot.kube().endpoint = Ok(Readyz { status: 500, ..readyz("https://k8s.example:6443") });
        change(snapshot);
    })
}

#[test]
fn etcd_explains_what_it_is_known_to_have_caused() {
    let names = ["cp-1", "cp-2", "cp-3"];
    let plain = "fail api-not-ready https://k8s.example:6443";
    assert_eq!(said(&failing(|_| {}), ENDPOINT), [plain]);
    // A leader is known but no list was returned: neither a quorum nor its loss is proven.
    let unknown =
        failing(|snapshot| names.iter().for_each(|it| snapshot.talos_of(it).etcd_members = no(GapKind::TimedOut)));
    assert_eq!(said(&unknown, ENDPOINT), [plain]);
    let lost = failing(|snapshot| {
        for name in names {
            snapshot.etcd_status_mut(name).leader = 0;
            snapshot.talos_of(name).etcd_members = no(GapKind::TimedOut);
        }
    });
    assert_eq!(said(&lost, ENDPOINT), [format!("{plain} < etcd.quorum")]);
    let mut stopped = failing(|snapshot| {
        for name in names {
            snapshot.service_mut(name, "etcd").healthy = Some(false);
            let talos = snapshot.talos_of(name);
            (talos.etcd_status, talos.etcd_members) = (no(GapKind::NotAsked), no(GapKind::NotAsked));
        }
    });
    assert_eq!(said(&stopped, ENDPOINT), [plain], "the API servers work");
    let mut one_runs = stopped.clone();
    one_runs.service_mut("cp-3", "etcd").healthy = Some(true);
    assert_eq!(said(&one_runs, ENDPOINT), [plain]);
    // Kubernetes does not use the etcd that these machines would run.
    stopped.external_etcd = Some(Vec::new());
    assert_eq!(said(&stopped, ENDPOINT), [plain]);
}

#[test]
fn a_403_is_final_only_if_etcd_is_known_to_work() {
    let forbidden = |change: fn(&mut Snapshot)| {
        with(|snapshot| {
            snapshot.kube().endpoint = Ok(Readyz { status: 403, ..readyz("https://k8s.example:6443") });
            change(snapshot);
        })
    };
    assert_eq!(said(&forbidden(|_| {}), ENDPOINT), ["error forbidden https://k8s.example:6443 !"]);
    let changes: [fn(&mut Snapshot); 2] = [
        |it| it.nodes.iter_mut().for_each(|node| node.talos.etcd_members = no(GapKind::TimedOut)),
        |it| it.nodes.iter_mut().for_each(|node| node.talos.etcd_status = no(GapKind::TimedOut)),
    ];
    for change in changes {
        let snapshot = forbidden(change);
        assert_eq!(said(&snapshot, ENDPOINT), ["error forbidden-or-starting https://k8s.example:6443"]);
        assert_eq!(status(&snapshot, ENDPOINT), Status::Error);
    }
}

#[test]
fn a_role_that_is_too_low_is_told_as_such() {
    let refused = with(|snapshot| {
        snapshot.talos_of("cp-2").static_pod_statuses = no(GapKind::Forbidden);
        snapshot.kube().pods = no(GapKind::TimedOut);
    });
    let first = "k8s.controlplane.apiserver";
    assert_eq!(said(&refused, first), ["error role-too-low cp-2 !"]);
    assert_eq!(said(&refused, "k8s.controlplane.scheduler"), [format!("error role-too-low cp-2 < {first} !")]);
    assert_eq!(said(&refused, "k8s.staticpods.running"), ["error role-too-low cp-2 < k8s.controlplane.leases !"]);
}

/// Without Talos' report, a mirror pod is recognized by its name or its label.
#[test]
fn mirror_pods_have_a_name_or_a_label_or_run_what_they_are_of() {
    let id = "k8s.controlplane.scheduler";
    let mirrored = |change: fn(&mut crate::snapshot::Pod)| {
        with(|snapshot| {
            snapshot.talos_of("cp-2").static_pod_statuses = no(GapKind::Unsupported);
            let pods = snapshot.kube().pods.as_mut().unwrap();
            change(pods.iter_mut().find(|pod| pod.name == "kube-scheduler-cp-2").unwrap());
        })
    };
    assert_eq!(said(&mirrored(|pod| "renamed".clone_into(&mut pod.name)), id), [""; 0]);
    assert_eq!(said(&mirrored(|pod| pod.labels.clear()), id), [""; 0]);
    let missing = ["fail component-missing cp-2"];
    let other = |pod: &mut crate::snapshot::Pod| {
        "renamed".clone_into(&mut pod.name);
        pod.labels.clear();
        assert_eq!(pod.state.containers[0].name, "kube-scheduler");
        pod.state.containers.clear();
    };
    assert_eq!(said(&mirrored(other), id), missing);
    assert_eq!(said(&mirrored(|pod| pod.mirror = false), id), missing);
    assert_eq!(said(&mirrored(|pod| pod.node = Some("cp-1".to_owned())), id), missing);
}

#[test]
fn lists_wait_until_the_cluster_is_known_to_be_ours() {
    let id = "k8s.dns";
    let lost = |kind| with(|snapshot| snapshot.nodes.iter_mut().for_each(|node| node.talos.contact = no(kind)));
    assert_eq!(said(&lost(GapKind::NodeUnreachable), id), ["blocked cluster < talos.nodes.reachable"]);
    let down = with(|snapshot| {
        snapshot.kube().endpoint = Ok(Readyz { status: 500, ..readyz("https://k8s.example:6443") });
        snapshot.kube().nodes = no(GapKind::TimedOut);
    });
    assert_eq!(said(&down, id), ["blocked cluster < k8s.api.endpoint"]);
    // A machine that does not answer proves nothing, even if no check judges that.
    let mut unjudged = lost(GapKind::NodeUnreachable);
    unjudged.asked.skipped.insert(CheckId::TalosNodesReachable);
    assert_eq!(said(&unjudged, "k8s.api.identity"), ["error no-answer cluster"]);
}

/// A snapshot in which Kubernetes lists control planes with other names, and w-1.
fn other_control_planes(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
    with(|snapshot| {
        for (index, object) in snapshot.kube().nodes.as_mut().unwrap().iter_mut().enumerate().take(3) {
            object.name = format!("other-{index}");
            object.addresses = vec![format!("10.9.0.{index}")];
        }
        snapshot.talos_of("w-1").contact = no(GapKind::NodeUnreachable);
        change(snapshot);
    })
}

#[test]
fn a_silent_node_may_be_the_common_one() {
    let id = "k8s.api.identity";
    assert_eq!(said(&other_control_planes(|_| {}), id), ["error no-answer cluster"]);
    let wrong = ["fail wrong-cluster cluster !"];
    assert_eq!(said(&other_control_planes(|it| it.node_mut("w-1").sources.discovery = false), id), wrong);
    assert_eq!(said(&other_control_planes(|it| it.node_mut("w-1").sources.kubernetes = false), id), wrong);
    let alike = other_control_planes(|snapshot| {
        "cp-1".clone_into(&mut snapshot.kube().nodes.as_mut().unwrap()[0].name);
    });
    assert_eq!(said(&alike, id), wrong, "one that answers has another's address");
    let bare = other_control_planes(|snapshot| {
        snapshot.node_mut("w-1").sources.kubernetes = false;
        snapshot.kube().nodes.as_mut().unwrap()[0].addresses.clear();
    });
    assert_eq!(said(&bare, id), wrong, "an address that is not told yet is one of a node that Talos knows");
}

#[test]
fn clusters_that_differ_are_shown_by_their_nodes() {
    let observed = |rename: bool| {
        let snapshot = with(|snapshot| {
            for (index, object) in snapshot.kube().nodes.as_mut().unwrap().iter_mut().enumerate() {
                object.addresses = vec![format!("10.9.0.{index}")];
                if rename {
                    object.name = format!("other-{index}");
                }
            }
        });
        crate::checks::kubernetes::tests::judge(&snapshot, "k8s.api.identity")
            .problems()
            .next()
            .unwrap()
            .1
            .observed
            .clone()
    };
    let ours = "Talos: cp-1, cp-2, cp-3, w-1; Kubernetes: ";
    assert_eq!(observed(true), format!("{ours}other-0, other-1, other-2, other-3"));
    assert_eq!(observed(false), format!("{ours}cp-1, cp-2, cp-3, w-1 (the same names at other addresses)"));
}
